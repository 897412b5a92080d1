//! The head of the page: what was measured, and where.

use super::words;
use crate::page::{Source, View};
use crate::quantity::{bytes, count, is_same_memory, numbered, percent};
use crate::{Analysis, Comparisons, PhaseComparison, text};
use landau_record::schema::Unit;
use landau_stats::{Class, Options};
use maud::{Markup, html};

/// Returns the title, unless the user gave one.
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

/// Joins names in a sentence: "5.10, 6.1 and 6.12".
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

/// Renders the head.
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
            p.answer { (answer(view)) }
            @for shift in view.comparisons.iter().flat_map(|all| &all.shifts) {
                p.lead { (shift.text(&view.names)) }
            }
            noscript { p.warning { "The charts of the details and the tables of their points need JavaScript; the \
                                    text, the verdicts and the small pictures do not." } }
            p #keys hidden { "Arrow keys read values; plus, minus and 0 zoom. The verdict is above, a table of the \
                              points below." }
            (words::render(view))
        } "\n"
    }
}

/// Returns the whole result in a sentence or two: the number of curves with each outcome.
fn answer(view: &View<'_>) -> String {
    let Some(base) = view.base() else { return String::new() };
    match view.comparisons {
        Some(comparisons) => changes(comparisons, &view.names),
        None => outcomes(base),
    }
}

/// Describes how many curves of a record do not change, and how the others change.
fn outcomes(analysis: &Analysis<'_>) -> String {
    let phases = || analysis.cases.iter().flat_map(|study| &study.phases);
    let number = |class: Class| phases().filter(|phase| phase.verdict.class() == class).count();
    let (all, same) = (phases().count(), number(Class::Flat));
    if all == 0 {
        return text::nothing_measured(analysis.record).unwrap_or("The record has no curve of a call.").to_owned();
    }
    let options = Options::default();
    let (delta, (least, most)) = (percent(options.delta), options.small_change());
    let little = format!("change by {} to {}", percent(least), percent(most));
    let parts = [
        (number(Class::Limit), "jumps at a cliff", "jump at a cliff"),
        (number(Class::Material), "grows, falls or varies", "grow, fall or vary"),
        (number(Class::Small), &*little.replace("change", "changes"), &little),
    ];
    let parts: Vec<String> =
        parts.iter().filter(|part| part.0 > 0).map(|(many, one, more)| numbered(*many, one, more)).collect();
    let others = if parts.is_empty() { String::new() } else { format!(" {}.", parts.join(", ")) };
    let open = match number(Class::Unresolved) {
        0 => String::new(),
        1 => " 1 is not resolved.".to_owned(),
        many => format!(" {many} are not resolved."),
    };
    format!("{same} of {all} measured calls cost the same at every n, within {delta}.{others}{open}")
}

/// Describes how many curves cost more and less in each record than in the first.
fn changes(comparisons: &Comparisons, names: &[String]) -> String {
    let delta = Options::default().delta;
    let beyond = |one: &PhaseComparison| {
        let shown = one.proven().filter(|shown| !shown.is_opposite)?;
        Some(shown.ratio.value).filter(|_| shown.certain() > delta.ln_1p())
    };
    let of_record = |(index, name): (usize, &String)| {
        let own = || comparisons.all.iter().filter(move |one| one.other == index);
        let more = own().filter_map(beyond).filter(|ratio| *ratio > 1.0).count();
        let less = own().filter_map(beyond).filter(|ratio| *ratio < 1.0).count();
        let compared = own().filter(|one| one.comparison.ratio.is_some()).count();
        let open = match own().count() - compared {
            0 => String::new(),
            some => format!(" ({some} could not be compared)"),
        };
        format!("in {name} {more} of {compared} calls cost more and {less} less{open}")
    };
    let parts: Vec<String> = names.iter().enumerate().skip(1).map(of_record).collect();
    let base = names.first().map_or("?", String::as_str);
    format!("Compared with {base}, beyond {}: {}.", percent(delta), parts.join("; "))
}

/// Describes where the records were measured, in one sentence for all records that share their machine.
fn lead(view: &View<'_>) -> Markup {
    let machines: Vec<String> = view.sources.iter().map(machine).collect();
    let memory: Vec<u64> = view.sources.iter().map(|source| source.analysis.record.host.memory_bytes).collect();
    let is_one = machines.iter().all(|machine| Some(machine) == machines.first())
        && memory.iter().all(|size| memory.first().is_some_and(|first| is_same_memory(*size, *first)));
    html! {
        @if is_one {
            @if let (Some(machine), Some(size)) = (machines.first(), memory.first()) {
                (machine) ", " (bytes(*size)) " of memory. "
            }
            @for (index, source) in view.sources.iter().enumerate() {
                @if index > 0 { ", " }
                @if view.sources.len() > 1 { (view.names[index]) ": " }
                (calls(source))
            }
            "."
        } @else {
            @for (index, source) in view.sources.iter().enumerate() {
                br; b { (view.names[index]) } ": " (machines[index]) ", " (bytes(memory[index])) " of memory; "
                (calls(source)) "."
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
    let (calls, passes) = (count(analysis.call_count() as f64), numbered(record.passes.len(), "pass", "passes"));
    format!("{calls} calls in {passes}, {date}")
}
