//! The head of the page: what was measured and where, how to read it, and the findings.

use super::contents::spark;
use crate::findings::{self, Finding};
use crate::page::{Source, View};
use crate::quantity::{bytes, count};
use crate::text::LEGEND;
use landau_record::schema::Unit;
use maud::{Markup, html};

/// Findings that are shown at once; the others are folded.
const SHOWN: usize = 10;

/// The title, unless the user gave one.
pub(crate) fn title(view: &View<'_>) -> String {
    match (view.sources.len(), view.base()) {
        (1, Some(analysis)) => {
            let host = &analysis.record.host;
            let unit = if analysis.record.unit() == Unit::Instructions { ", in instructions," } else { "" };
            format!("How the cost of calls{unit} grows on {} {}", host.system, host.release)
        }
        (records, _) => format!("How the cost of calls grows: {records} records compared"),
    }
}

/// The head.
pub(crate) fn render(view: &View<'_>, title: &str) -> Markup {
    let are_named = view.sources.len() > 1;
    html! {
        header.head {
            div.brand { span.mark aria-hidden="true" { "O" } " Landau" }
            div.controls role="group" aria-label="Page" {
                button #theme type="button" aria-label="Switch between light and dark" { "Dark" }
            }
            h1 { (title) }
            @for (source, name) in view.sources.iter().zip(&view.names) { (lead(source, are_named.then_some(name))) }
            (how_to_read(view))
            noscript { p.warning { "The charts and the tables of their points need JavaScript; the text and the \
                                    verdicts do not." } }
            p #keys hidden { "Arrow keys read values; plus, minus and 0 zoom. The verdict is above, a table of the \
                              points below." }
        } "\n"
        section #findings .findings aria-labelledby="findings-heading" {
            h2 #findings-heading { "Findings" }
            @for index in 0..view.sources.len() {
                @if are_named { h3 { (view.names[index]) } }
                (list(view, index))
            }
        } "\n"
    }
}

/// The words that every section uses, and what the costs are where they are not time.
fn how_to_read(view: &View<'_>) -> Markup {
    let unit = view.base().map(|base| base.record.unit());
    html! {
        p.reading {
            "Each benchmark creates objects one by one and times every call. A " b { "step" } " creates or destroys \
             one object. " b { "n" } " is the number of objects that exist at that moment. A " b { "pass" } " is one \
             execution in a fresh process; passes are the replicates. The " b { "law" } " says how the cost grows with \
             n: O(1) is constant within 10%. A " b { "cliff" } " is an abrupt, lasting rise at one n. A "
            b { "recurring outlier" } " is a single expensive call at the same n in most passes. A " b { "bimodal" }
            " cost has two separate modes. A cost that " b { "varies" } " is not flat and neither grows nor falls \
             from end to end. "
            (LEGEND)
        }
        @match unit {
            Some(Unit::Instructions) => p.note.unit {
                b { "Every cost is a number of instructions, counted exactly by an emulator, not time. " }
                "It shows how long the path through the kernel is and how it grows, identically on every host. It does \
                 not include cache misses, page walks, contention or a second processor. Fewer instructions do not \
                 imply a faster call."
            },
            Some(Unit::EmulatedNs) => p.note.unit {
                b { "No timing. " }
                "An emulator measured this with its own clock. The values show that calls work and where limits are, \
                 not what anything costs. Do not compare them."
            },
            _ => {}
        }
    }
}

fn lead(source: &Source<'_>, name: Option<&String>) -> Markup {
    let (analysis, record) = (&source.analysis, source.analysis.record);
    let host = &record.host;
    let is_guest = !matches!(host.virtualization.as_str(), "" | "none");
    html! {
        p.lead {
            @if let Some(name) = name { b { (name) } ": " }
            (host.processor) ", " (host.processor_count)
            @if host.processor_count == 1 { " processor" } @else { " processors" }
            ", " (bytes(host.memory_bytes)) " of memory"
            @if is_guest { ", virtual machine (" (host.virtualization) ")" }
            "." br;
            (count(analysis.call_count() as f64)) " calls in " (count(record.passes.len() as f64)) " passes, "
            (record.header.started.split('T').next().unwrap_or_default()) "."
        }
    }
}

fn list(view: &View<'_>, index: usize) -> Markup {
    let found = findings::of(&view.sources[index].analysis);
    let (shown, rest) = found.split_at(found.len().min(SHOWN));
    html! {
        ol { @for finding in shown { (item(view, index, finding)) } }
        @if !rest.is_empty() {
            details.more {
                summary { (rest.len()) " more" }
                ol start=(SHOWN + 1) { @for finding in rest { (item(view, index, finding)) } }
            }
        }
    }
}

/// The cases of a finding that covers several.
fn items(items: &[String]) -> Markup {
    html! { ul.items { @for item in items { li { (item) } } } }
}

/// A finding; with a link to its curve if the page shows it.
fn item(view: &View<'_>, index: usize, finding: &Finding) -> Markup {
    let analysis = &view.sources[index].analysis;
    let study = finding.case.and_then(|case| analysis.cases.iter().find(|study| study.case.case == case));
    let study = study.filter(|_| index == 0);
    let kind = finding.kind.name();
    html! {
        li.finding.(kind.replace(' ', "-")) {
            span.kind { (kind) }
            span.text {
                @if finding.items.is_empty() { (finding.text) } @else { (finding.text) ":" (items(&finding.items)) }
                @if let Some(study) = study {
                    " " a href={ "#case-" (study.case.case) } aria-label={ "Curve of " (study.case.label) } { "curve" }
                }
            }
            @if let Some(study) = study { (spark(study)) }
        } "\n"
    }
}
