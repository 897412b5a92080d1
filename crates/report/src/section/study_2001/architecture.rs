//! The architecture test of 2001 redrawn: its published ratios as bars, beside the replies a second measured now.

use super::drawing::{Bar, LETTERS, Mark, bars, legend, lines};
use super::{Figure, curves, others, published_table, scrolling};
use crate::CaseStudy;
use crate::page::View;
use crate::quantity::{count, digits, duration};
use landau_record::schema::Fact;
use landau_stats::Estimate;
use maud::{Markup, html};

/// The phase and the axis of the curves.
const PHASE: &str = "reply";
const AXIS: &str = "simultaneous connections";

/// The throughput of an architecture relative to the asynchronous one, by each of the claims.
const CLAIMS: [Bar; 4] = [
    Bar { name: "nonblocking calls", value: 1.0, basis: "the asynchronous architecture; the base of the bars" },
    Bar {
        name: "thread each",
        value: 1.0 / 1.35,
        basis: "\"about 35 percent more load than the thread based method at 1000 simultaneous connections\"",
    },
    Bar {
        name: "program (12x)",
        value: 1.0 / 12.0,
        basis: "\"a 12x performance difference between process-based and asynchronous task architectures\"",
    },
    Bar {
        name: "program (5%)",
        value: 0.05,
        basis: "\"can handle only about 5 percent of the connections of the asynchronous method\"",
    },
];

const MARKS: [Mark; 1] = [(1_000.0, "the largest number named", "\"at 1000 simultaneous connections\"")];

const DOUBTS: [&str; 5] = [
    "The claims contradict one another: about 5 percent is 20 times less, not 12 times. Both have a bar.",
    "The article prints means over four operating systems, not the 12 runs behind them.",
    "In 2001 the client was another machine. Here it shares this one, and no architecture is faster than the client: \
     its processor time per reply is in the table. The server's has no such bound.",
    "The program of 2001 was executed from a disk; ours is small and in memory. A thread of Linux 2.2 was a process \
     that shared memory.",
    "The article names pools of processes and several event threads, too, but did not test them.",
];

/// The figure, if the page has the architectures; otherwise nothing.
pub(super) fn render(view: &View<'_>) -> Option<Figure> {
    let curves = curves(view, "architecture", PHASE, AXIS, |study| {
        let is_of_2001 = study.case.settings.get("workload").is_some_and(|workload| workload == "busy");
        is_of_2001.then(|| format!("{}{}", architecture(study), others(study, "architecture=")))
    });
    let drawings = html! {
        div.pair {
            (bars("2001, as published: relative throughput", &CLAIMS))
            (lines("today, measured: replies a second", AXIS, &curves, &MARKS))
        }
        p.note { (legend(&curves)) (LETTERS[0]) ": 1,000 connections, the largest number that the article names." }
    };
    (!curves.is_empty()).then(|| Figure {
        words: "Left: throughput by architecture as published in 2001, relative to the asynchronous one. Right: \
                replies a second by simultaneous connections, measured in this run, client and server on one machine.",
        drawings,
        doubts: &DOUBTS,
        published: html! { (published()) (beside(view)) },
        curves,
        columns: ["Case", "Connections", "Replies a second"],
    })
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
    published_table("architecture", &["2001, published by others", "Relative throughput", "Words of the source"], &rows)
}

/// A case's costs of a reply relative to those of the event loop.
struct Ratios {
    label: String,
    /// Of the time at [`N`], with the ends of its interval; and the n.
    time: Option<(f64, f64, f64, f64)>,
    /// Of the server's processor time: the lowest and the highest of all pairs of passes.
    processor: Option<(f64, f64)>,
    client: Vec<f64>,
    failures: f64,
}

/// The number of connections at which times are compared: the one that the article names.
const N: f64 = 1_000.0;

/// The claims beside ours: each architecture against the event loop of the same record.
fn beside(view: &View<'_>) -> Markup {
    let ratios: Vec<Ratios> = view.sources.iter().flat_map(|source| ratios(&source.analysis.cases)).collect();
    let table = html! {
        table.claims-2001 {
            thead { tr {
                @for name in [
                    "Today, relative to the event loop",
                    "Time per reply, with its interval",
                    "Server's processor time per reply, all pairs of passes",
                    "Client's processor time per reply",
                    "Connections without a whole reply",
                    "As published",
                ] { th scope="col" { (name) } }
            } }
            tbody {
                @for one in &ratios {
                    tr {
                        td { (one.label) }
                        td.number {
                            @if let Some((time, low, high, n)) = one.time {
                                "×" (digits(time)) " (" (digits(low)) "–" (digits(high)) ") at " (count(n))
                            }
                        }
                        td.number {
                            @if let Some((low, high)) = one.processor { "×" (digits(low)) " to ×" (digits(high)) }
                        }
                        td.number { @if let Some(client) = one.client.first() { (duration(*client)) } }
                        td.number { (digits(one.failures)) }
                        td { (of_2001(&one.label)) }
                    }
                }
            }
        }
    };
    scrolling("Architectures relative to the event loop", &table)
}

/// Returns what the article says about an architecture.
fn of_2001(label: &str) -> &'static str {
    match label.split(' ').next() {
        Some("exec") => "×12 and ×20",
        Some("thread") => "×1.35 at 1,000",
        _ => "",
    }
}

fn ratios(cases: &[CaseStudy<'_>]) -> Vec<Ratios> {
    let is_busy = |study: &&CaseStudy<'_>| {
        study.case.benchmark == "architecture" && study.case.settings.get("workload").is_some_and(|name| name == "busy")
    };
    let busy: Vec<&CaseStudy<'_>> = cases.iter().filter(is_busy).collect();
    // Of several event loops, the one with the fewest settings of its own.
    let loops = busy.iter().filter(|study| architecture(study) == "event-loop");
    let Some(base) = loops.min_by_key(|study| study.case.label.len()) else { return Vec::new() };
    let of_base = (time(base), processor_times(base));
    let ratio = |study: &CaseStudy<'_>| {
        let (own, based) = (processor_times(study), &of_base.1);
        let all: Vec<f64> = own.iter().flat_map(|one| based.iter().map(move |other| one / other)).collect();
        let extremes = (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
        let time = time(study).zip(of_base.0).map(|((n, one), (_, other))| {
            (one.value / other.value, one.low / other.high.max(1e-9), one.high / other.low.max(1e-9), n)
        });
        Ratios {
            label: format!("{}{}", architecture(study), others(study, "architecture=")),
            time,
            processor: (!all.is_empty()).then_some(extremes),
            client: numbers(study, "client_processor_time_per_reply"),
            failures: numbers(study, "failures").into_iter().sum(),
        }
    };
    busy.iter().filter(|study| study.case.case != base.case.case).map(|study| ratio(study)).collect()
}

/// Returns the time of a reply in nanoseconds at the point nearest to [`N`], and its n.
fn time(study: &CaseStudy<'_>) -> Option<(f64, Estimate)> {
    let phase = study.phases.iter().find(|one| one.phase.name == PHASE)?;
    let distance = |n: f64| (n / N).ln().abs();
    let points = phase.verdict.all.points.iter().filter(|point| point.cost.value > 0.0 && point.n > 0.0);
    let nearest = points.min_by(|a, b| distance(a.n).total_cmp(&distance(b.n)));
    nearest.map(|point| (point.n, point.cost))
}

fn processor_times(study: &CaseStudy<'_>) -> Vec<f64> {
    numbers(study, "server_processor_time_per_reply").into_iter().filter(|value| *value > 0.0).collect()
}

/// Returns the values of a fact that is a number.
fn numbers(study: &CaseStudy<'_>, name: &str) -> Vec<f64> {
    let values = study.facts.get(name).map(Vec::as_slice).unwrap_or_default();
    let number = |fact: &&Fact| match fact {
        Fact::Number { value, .. } => Some(*value),
        Fact::Text(_) => None,
    };
    values.iter().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_contradicting_claims_have_a_bar() {
        let value = |name: &str| CLAIMS.iter().find(|one| one.name == name).unwrap().value;
        assert!((value("nonblocking calls") / value("program (12x)") - 12.0).abs() < 1e-9);
        assert!((value("nonblocking calls") / value("program (5%)") - 20.0).abs() < 1e-9);
        assert!((value("nonblocking calls") / value("thread each") - 1.35).abs() < 1e-9);
    }
}
