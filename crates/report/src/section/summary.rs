//! The head of the page: what was measured and where.

use super::words;
use crate::page::{Source, View};
use crate::quantity::{bytes, count};
use landau_record::schema::Unit;
use maud::{Markup, html};

/// The title, unless the user gave one.
pub(crate) fn title(view: &View<'_>) -> String {
    match (view.sources.len(), view.base()) {
        (1, Some(analysis)) => {
            let host = &analysis.record.host;
            let unit = if analysis.record.unit() == Unit::Instructions { ", in instructions," } else { "" };
            format!("How the cost of calls{unit} grows on {} {}", host.system, host.release)
        }
        _ => format!("How the cost of calls changes: {}", listed(&view.names)),
    }
}

/// Names in a sentence: "5.10, 6.1 and 6.12".
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// The head.
pub(crate) fn render(view: &View<'_>, title: &str) -> Markup {
    html! {
        header.head {
            div.brand { span.mark aria-hidden="true" { "O" } " Landau" }
            nav.places aria-label="Sections" {
                a href="#findings" { "Findings" }
                @if view.sources.len() > 1 { a href="#matrix" { "Every curve" } }
                @else { a href="#overview" { "Every curve" } }
                a href="#details" { "Details" } a href="#host" { "Environment" } a href="#record" { "Record" }
            }
            div.controls role="group" aria-label="Page" {
                button #theme type="button" aria-label="Switch between light and dark" { "Dark" }
            }
            h1 { (title) }
            p.lead {
                "Each benchmark creates objects one by one and times every call; " b { "n" } " is the number of \
                 objects that exist at that moment. " (lead(view))
            }
            noscript { p.warning { "The charts of the details and the tables of their points need JavaScript; the \
                                    text, the verdicts and the small pictures do not." } }
            p #keys hidden { "Arrow keys read values; plus, minus and 0 zoom. The verdict is above, a table of the \
                              points below." }
            (words::render(view))
        } "\n"
    }
}

/// Where it was measured: one sentence for all records that share their machine.
fn lead(view: &View<'_>) -> Markup {
    let machines: Vec<String> = view.sources.iter().map(machine).collect();
    let memory = view.base().map_or(0, |base| base.record.host.memory_bytes);
    let is_one = machines.iter().all(|machine| Some(machine) == machines.first());
    html! {
        @if is_one {
            @if let Some(machine) = machines.first() { (machine) ", " (bytes(memory)) " of memory. " }
            @for (index, source) in view.sources.iter().enumerate() {
                @if index > 0 { ", " }
                @if view.sources.len() > 1 { (view.names[index]) ": " }
                (calls(source))
            }
            "."
        } @else {
            @for (index, source) in view.sources.iter().enumerate() {
                br; b { (view.names[index]) } ": " (machines[index]) "; " (calls(source)) "."
            }
        }
    }
}

fn machine(source: &Source<'_>) -> String {
    let host = &source.analysis.record.host;
    let processors = match host.processor_count {
        1 => "1 processor".to_owned(),
        number => format!("{number} processors"),
    };
    let guest = match host.virtualization.as_str() {
        "" | "none" => String::new(),
        name => format!(", virtual machine ({name})"),
    };
    format!("{}, {processors}{guest}", host.processor)
}

fn calls(source: &Source<'_>) -> String {
    let (analysis, record) = (&source.analysis, source.analysis.record);
    let date = record.header.started.split('T').next().unwrap_or_default();
    let (calls, passes) = (count(analysis.call_count() as f64), count(record.passes.len() as f64));
    format!("{calls} calls in {passes} passes, {date}")
}
