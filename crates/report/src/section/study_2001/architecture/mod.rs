//! The architecture test of 2001 redrawn: its published ratios as bars, next to new measurements.

mod ratios;
mod series;

use super::drawing::{Bar, Curve, LETTERS, Mark, Scale, bars, legend, lines};
use super::{Figure, Measured, curves, others, published_table, rates};
use crate::CaseStudy;
use crate::page::View;
use crate::quantity::{count, digits, duration};
use maud::{Markup, html};

/// The phases and the axis of the curves.
const REPLY: &str = "reply";
const LATENCY: &str = "latency";
const AXIS: &str = "simultaneous connections";

/// The ratios that the article states.
const PROGRAM_TIMES: f64 = 12.0;
const PROGRAM_SHARE: f64 = 0.05;
const THREAD_TIMES: f64 = 1.35;

/// The throughput of an architecture relative to the asynchronous one, according to each claim.
const CLAIMS: [Bar; 4] = [
    Bar { name: "nonblocking calls", value: 1.0, basis: "the asynchronous architecture; the base of the bars" },
    Bar {
        name: "thread each",
        value: 1.0 / THREAD_TIMES,
        basis: "\"about 35 percent more load than the thread based method at 1000 simultaneous connections\"",
    },
    Bar {
        name: "program (12x)",
        value: 1.0 / PROGRAM_TIMES,
        basis: "\"a 12x performance difference between process-based and asynchronous task architectures\"",
    },
    Bar {
        name: "program (5%)",
        value: PROGRAM_SHARE,
        basis: "\"can handle only about 5 percent of the connections of the asynchronous method\"",
    },
];

const MARKS: [Mark; 1] = [(1_000.0, "the largest number named", "\"at 1000 simultaneous connections\"")];

const DOUBTS: [&str; 5] = [
    "The claims contradict one another: about 5 percent is 20 times less, not 12 times. Both have a bar.",
    "The article prints means over four operating systems, not the 12 runs behind them.",
    "In 2001 the client was another machine. Here it shares this one, and no architecture is faster than the client: \
     its processor time per reply is in the table. The server's processor time has no such bound.",
    "The program of 2001 was executed from a disk; ours is small and in memory. A thread of Linux 2.2 was a process \
     that shared memory.",
    "The article names pools of processes and several event threads, too, but did not test them.",
];

/// Returns the figure, if the page has the architectures.
pub(super) fn render(view: &View<'_>) -> Option<Figure> {
    let replies = curves(view, "architecture", AXIS, name_of("busy"), |study| rates(study, REPLY));
    if replies.is_empty() {
        return None;
    }
    let busy = panels(view, "busy");
    let work = panels(view, "work");
    let scale = Scale::Linear(count);
    let drawings = html! {
        div.pair {
            (bars("2001, as published: relative throughput", &CLAIMS))
            (lines("today, measured: replies a second", AXIS, &replies, &scale, &MARKS))
        }
        p.note { (legend(&replies)) (LETTERS[0]) ": 1,000 connections, the largest number that the article names." }
        (drawn("Each connection is answered and closed (workload=busy)", &busy))
        (drawn("Connections stay, and a request is 1 ms of work (workload=work)", &work))
        (ratios::render(view))
        (series::failures(view))
    };
    let mut measured = vec![Measured { what: "replies a second", curves: replies }];
    measured.extend(busy.into_iter().chain(work).map(|panel| Measured { what: panel.what, curves: panel.curves }));
    Some(Figure {
        words: "Left: throughput by architecture as published in 2001, relative to the asynchronous one. Right: \
                replies a second by simultaneous connections, measured in this run, client and server on one machine.",
        drawings,
        doubts: &DOUBTS,
        published: published(),
        measured,
        axis: "Connections",
    })
}

/// A small drawing of one quantity of one workload.
struct Panel {
    title: &'static str,
    /// The quantity with its unit, for the table.
    what: &'static str,
    scale: Scale,
    curves: Vec<Curve>,
}

/// Returns the quantities of a workload by connections, except those that no case has.
fn panels(view: &View<'_>, workload: &str) -> Vec<Panel> {
    let of = |points: &dyn Fn(&CaseStudy<'_>) -> Vec<(f64, f64)>| {
        curves(view, "architecture", AXIS, name_of(workload), points)
    };
    let is_busy = workload == "busy";
    let title = |busy, work| if is_busy { busy } else { work };
    let panels = [
        Panel {
            title: "server's processor time per reply",
            what: title("busy: processor time per reply, ns", "work: processor time per reply, ns"),
            scale: Scale::Logarithmic(duration),
            curves: of(&|study| series::processor_time(study)),
        },
        Panel {
            title: "server's private memory per connection",
            what: title("busy: memory per connection, bytes", "work: memory per connection, bytes"),
            scale: Scale::Logarithmic(decimal_bytes),
            curves: of(&series::memory),
        },
        Panel {
            title: "latency, median",
            what: title("busy: latency p50, ns", "work: latency p50, ns"),
            scale: Scale::Logarithmic(duration),
            curves: of(&|study| series::latency(study, 0.5)),
        },
        Panel {
            title: "latency, 90th percentile",
            what: title("busy: latency p90, ns", "work: latency p90, ns"),
            scale: Scale::Logarithmic(duration),
            curves: of(&|study| series::latency(study, 0.9)),
        },
        Panel {
            title: "latency, 99th percentile",
            what: title("busy: latency p99, ns", "work: latency p99, ns"),
            scale: Scale::Logarithmic(duration),
            curves: of(&|study| series::latency(study, 0.99)),
        },
    ];
    panels.into_iter().filter(|panel| !panel.curves.is_empty()).collect()
}

/// Formats the bytes of a tick, which is a power of ten times 1, 2 or 5: 200 kB.
fn decimal_bytes(value: f64) -> String {
    let (value, unit) = match value {
        1e6.. => (value / 1e6, "MB"),
        1e3.. => (value / 1e3, "kB"),
        _ => (value, "B"),
    };
    format!("{} {unit}", digits(value))
}

/// Renders the drawings of a workload, two side by side.
fn drawn(heading: &str, panels: &[Panel]) -> Markup {
    let Some(first) = panels.first() else { return html! {} };
    html! {
        p { strong { (heading) } }
        div.pair.even {
            @for panel in panels { (lines(panel.title, AXIS, &panel.curves, &panel.scale, &[])) }
        }
        p.note { (legend(&first.curves)) }
    }
}

/// Returns the name of a case of a workload: its architecture, and its other settings that differ from the default.
fn name_of(workload: &str) -> impl Fn(&CaseStudy<'_>) -> Option<String> {
    move |study| is_of(study, workload).then(|| label(study))
}

fn is_of(study: &CaseStudy<'_>, workload: &str) -> bool {
    study.case.benchmark == "architecture" && study.case.settings.get("workload").is_some_and(|name| name == workload)
}

fn label(study: &CaseStudy<'_>) -> String {
    let others = others(study, "architecture=").replace(", workload=work", "");
    format!("{}{others}", architecture(study))
}

fn architecture<'a>(study: &'a CaseStudy<'_>) -> &'a str {
    study.case.settings.get("architecture").map_or("", String::as_str)
}

fn published() -> Markup {
    let rows = html! {
        @for claim in &CLAIMS {
            tr { td { (claim.name) } td.number { (digits(claim.value)) } td { (claim.basis) } }
        }
    };
    published_table("architecture", &["2001, published by others", "Relative throughput", "Quotation"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_at_ticks_are_round() {
        assert_eq!([50.0, 2e5, 1e6].map(decimal_bytes), ["50 B", "200 kB", "1 MB"]);
    }

    #[test]
    fn both_contradicting_claims_have_a_bar() {
        let value = |name: &str| CLAIMS.iter().find(|one| one.name == name).unwrap().value;
        assert!((value("nonblocking calls") / value("program (12x)") - 12.0).abs() < 1e-9);
        assert!((value("nonblocking calls") / value("program (5%)") - 20.0).abs() < 1e-9);
        assert!((value("nonblocking calls") / value("thread each") - 1.35).abs() < 1e-9);
    }
}
