//! The confounder ladder of `spawn`, and the graphs of the study of 2004 redrawn with it.
//!
//! The values of the study's graphs are lost, because they were images. So the graphs are redrawn from new
//! measurements: the naive and the sound test of this machine, plus the search time of the models of three allocators
//! (`pids`, if the record has it).

use super::scrolling;
use super::study_2001::drawing::{Across, Curve, Scale, legend, lines};
use crate::ladder::{self, BENCHMARK, Ladder, PHASE, Slow, Step};
use crate::page::View;
use crate::quantity::{FormatCost, Unit, count, digits, duration};
use crate::{Analysis, PhaseStudy};
use landau_stats::Estimate;
use maud::{Markup, html};
use std::collections::BTreeMap;

const SEED: &str = "D. Schultz, \"Process Creation/Destruction Benchmarks\", February 2004 (FreeBSD 5, Pentium III \
                    450 MHz). Its graphs were images and are lost, with their values and the list of the two changes.";

/// A published series: the test, the unit, its points (other children or processes, value), and the source.
struct Published {
    test: &'static str,
    points: &'static [(u32, u32)],
    unit: &'static str,
    source: &'static str,
}

const COMMIT_2021: &str = "Linux commit 5449162ac001 (2021, Linux 5.13)";
const PATCH_1998: &str = "M. Kjeldaas, \"pidhash\" patch, linux-kernel, March 1998 (Pentium Pro)";

const PUBLISHED: [Published; 4] = [
    Published {
        test: "fork and waitpid(pid) with other children, before: the kernel walks all of them",
        points: &[(1, 74), (500, 99), (1_000, 179), (5_000, 804), (8_000, 1_268)],
        unit: "µs",
        source: COMMIT_2021,
    },
    Published {
        test: "the same, after: it looks the child up",
        points: &[(500, 74), (1_000, 75), (5_000, 79), (8_000, 78)],
        unit: "µs",
        source: COMMIT_2021,
    },
    Published {
        test: "fork, exit and waitpid among other processes, before",
        points: &[(10, 52_923), (2_000, 271_301)],
        unit: "cycles",
        source: PATCH_1998,
    },
    Published {
        test: "the same, with a hash table of pids",
        points: &[(10, 49_089), (2_000, 50_194)],
        unit: "cycles",
        source: PATCH_1998,
    },
];

/// The allocators of the study: the name of the model, and the name in the study.
const ALLOCATORS: [(&str, &str); 3] = [
    ("freebsd-scan", "old allocator"),
    ("netbsd-table", "NetBSD's table"),
    ("hash-probe", "\"Tim's\" (reconstructed)"),
];

/// Renders the ladder, if the benchmark has one in the first record; otherwise nothing.
pub(crate) fn render(view: &View<'_>, benchmark: &str) -> Markup {
    let found = (benchmark == BENCHMARK).then(|| view.base()).flatten();
    let Some((analysis, ladder)) = found.and_then(|base| Some((base, ladder::of(base)?))) else { return html! {} };
    html! {
        h4 { "Confounder ladder" @if let [first, _, ..] = &view.names[..] { " of " (first) } }
        p.words {
            "From the naive test to the sound one: each step changes one setting of the test and nothing about the \
             child that is timed."
        }
        (scrolling("Confounder ladder", &table(&ladder)))
        p.note {
            "Median of the calls within 5% of each number of sleepers, without those that interference hit; mean of \
             the passes. Removed: less than the step before, paired by round, with the 95% interval; negative if the \
             step adds."
            @if !ladder.others.is_empty() {
                " The rows after the step \"" (last_step(&ladder))
                "\" are other cases, named by what they change of it."
            }
        }
        ul { @for sentence in ladder.sentences() { li { (sentence) } } }
        @if let Some(words) = unseen(&ladder) { p.words { strong { "Not visible to the author. " } (words) } }
        (slow_calls(&ladder))
        (graphs(analysis, &ladder))
        (published(ladder.unit))
    }
}

fn last_step(ladder: &Ladder) -> &str {
    ladder.steps.last().map_or("", |step| &step.name)
}

fn table(ladder: &Ladder) -> Markup {
    let cells = |step: &Step| {
        let cells = ladder.cells(step);
        html! {
            tr {
                th scope="row" title=(step.case) { (cells[0]) }
                @for cell in &cells[1..] { td.number { (cell) } }
            } "\n"
        }
    };
    html! {
        table.ladder {
            thead { tr {
                th scope="col" { "Step" }
                th scope="col" { "Without sleepers" }
                @for n in &ladder.sleepers { th scope="col" { "Among " (count(f64::from(*n))) } }
                th scope="col" { "Removed" }
            } }
            tbody { @for step in &ladder.steps { (cells(step)) } }
            @if !ladder.others.is_empty() { tbody { @for step in &ladder.others { (cells(step)) } } }
        }
    }
}

/// Describes effects that the study could not observe, from the measurements.
fn unseen(ladder: &Ladder) -> Option<String> {
    let (step, removed) = ladder.largest_step()?;
    let added = ladder.added()?;
    let share = removed.value / added;
    Some(format!(
        "The author saw that all three allocators were almost equally slow, and that two changes together fixed the \
         test. Here \"{}\" alone removes {} of what the sleepers add ({} of {}); each change has its own share and \
         interval.",
        step.name,
        percent(share.min(1.0)),
        ladder.unit.bare(removed.value),
        ladder.unit.cost(added)
    ))
}

fn percent(share: f64) -> String {
    format!("{}%", digits(100.0 * share))
}

/// Renders the tags of the slow calls.
fn slow_calls(ladder: &Ladder) -> Markup {
    if ladder.slow.is_empty() {
        return html! {};
    }
    let spread = |slow: &Slow| {
        let ([few, many], [calls, all]) = (slow.spread, slow.calls.map(|calls| calls as f64));
        format!(
            "{}: the 90th percentile is {} of the median among the first fifth of the sleepers and {} among the last, \
             of whose {} calls {} are slow ({}).",
            slow.name,
            percent(few),
            percent(many),
            count(all),
            count(calls),
            percent(calls / all)
        )
    };
    let tags = html! {
        table {
            thead { tr {
                @for name in ["Step", "Observed with it", "Slow calls", "Other calls"] { th scope="col" { (name) } }
            } }
            tbody {
                @for slow in &ladder.slow {
                    @for (tag, of_slow, of_others) in &slow.tags {
                        tr {
                            th scope="row" { (slow.name) }
                            td { (tag) }
                            td.number { (percent(*of_slow)) }
                            td.number { (percent(*of_others)) }
                        } "\n"
                    }
                }
            }
        }
    };
    html! {
        p.words {
            strong { "Spread among many sleepers. " }
            "The study observed that the spread grows, but could not explain it. A call is slow from 1.5 times the \
             median of its block of 256 consecutive calls."
        }
        ul { @for slow in &ladder.slow { li { (spread(slow)) } } }
        (scrolling("What explains slow calls", &explained(ladder)))
        p.note { (how_explained(ladder)) }
        details.points {
            summary { "How often each was observed" }
            (scrolling("Slow calls by what was observed with them", &tags))
            p.note {
                "A call can have several. Context switches, page faults and stolen time are those of a window of some \
                 calls, 10 ms at most."
            }
        }
    }
}

/// Renders how many of the slow calls each cause explains.
fn explained(ladder: &Ladder) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Slow calls explained by" }
                @for slow in &ladder.slow { th scope="col" { (slow.name) } }
            } }
            tbody {
                @for (cause, _) in causes(ladder) {
                    tr {
                        th scope="row" { (cause) }
                        @for slow in &ladder.slow {
                            @let found = slow.explained.iter().find(|one| one.0 == *cause);
                            td.number { (found.map_or("–".to_owned(), |one| share(one.1))) }
                        }
                    } "\n"
                }
            }
        }
    }
}

/// Returns the longest list of causes, because a step may lack one.
fn causes(ladder: &Ladder) -> &[(&'static str, Estimate)] {
    ladder.slow.iter().map(|slow| &slow.explained[..]).max_by_key(|causes| causes.len()).unwrap_or_default()
}

/// Formats a share with its interval, if it has one.
fn share(share: Estimate) -> String {
    let percent = |value: f64| format!("{:.0}", 100.0 * value);
    let has_interval = share.low.is_finite() && share.low < share.high;
    let interval = has_interval.then(|| format!(" ({}–{})", percent(share.low), percent(share.high)));
    format!("{}%{}", percent(share.value), interval.unwrap_or_default())
}

fn how_explained(ladder: &Ladder) -> String {
    let softirqs = if ladder.slow.iter().all(Slow::has_softirqs) {
        "The kernel frees the data of ended processes in RCU softirqs. They are counted on the processor of the call, \
         before it and after it."
    } else {
        "RCU softirqs, in which the kernel frees the data of ended processes, were not counted in this record."
    };
    format!(
        "{softirqs} The processor is slower where a fixed cheap call beside the timed one takes a tenth longer than \
         its median. A condition that other calls have as often as slow calls explains nothing. Each call is counted \
         once, in the order of the rows. Intervals of 95% over blocks of 256 calls."
    )
}

/// Renders the study's graphs: the naive test with each allocator, the searches that it hides, the steps, and the
/// spread.
fn graphs(analysis: &Analysis<'_>, ladder: &Ladder) -> Markup {
    let curve = |step: &Step| {
        let phase = phase(analysis, &step.case, PHASE)?;
        Some(Curve { name: step.name.clone(), points: points(phase) })
    };
    let steps: Vec<Curve> = ladder.steps.iter().filter_map(curve).collect();
    let Some(naive) = steps.first() else { return html! {} };
    let searches = searches(analysis);
    let hidden = with_searches(naive, &searches);
    let write = axis(ladder.unit);
    // The axes are those of the author. A search that grows as n² is straight only if both axes are logarithmic.
    let drawn = |title: &str, curves: &[Curve], scale: Scale| match scale {
        Scale::Linear(_) => lines(title, Across::linear("sleeping processes"), curves, &scale, &[]),
        Scale::Logarithmic(_) => lines(title, "sleeping processes", curves, &scale, &[]),
    };
    html! {
        figure.chart.study-2004 {
            figcaption {
                strong { "The graphs of 2004, redrawn" }
                " "
                span.words {
                    @if searches.is_empty() {
                        "What a child costs in each step. A record that has the allocators too gets a graph of the \
                         naive test with each of them: landau run spawn pids."
                    } @else {
                        "The naive test, to which the models of three allocators add their search, and these searches \
                         alone, with the time of this processor and warm caches. " (share_of(naive, &searches))
                    }
                }
            }
            @if !searches.is_empty() {
                div.pair.even {
                    (drawn("naive test, with each allocator", &hidden, Scale::Linear(write)))
                    (drawn("search of each allocator, of a fork", &searches, Scale::Logarithmic(write)))
                }
                p.note { "Left and right: " (legend(&searches)) }
            }
            div.pair.even {
                (drawn("the steps on this kernel", &steps, Scale::Linear(write)))
                (spreads(analysis, ladder))
            }
            p.note { (legend(&steps)) "Right: the 90th percentile over the median, of the same steps." }
            p.note { "After: " (SEED) }
        } "\n"
    }
}

/// Returns the format of costs on an axis.
pub(super) fn axis(unit: Unit) -> fn(f64) -> String {
    match unit {
        Unit::Instructions => count,
        Unit::Time | Unit::EmulatedTime => duration,
    }
}

pub(super) fn phase<'a>(analysis: &'a Analysis<'_>, label: &str, phase: &str) -> Option<&'a PhaseStudy<'a>> {
    let study = analysis.cases.iter().find(|study| study.case.label == label)?;
    study.phases.iter().find(|one| one.phase.name == phase)
}

pub(super) fn points(phase: &PhaseStudy<'_>) -> Vec<(f64, f64)> {
    phase.verdict.all.points.iter().map(|point| (point.n, point.cost.value)).collect()
}

/// Returns the search time of a fork with the model of each allocator.
fn searches(analysis: &Analysis<'_>) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (allocator, name) in ALLOCATORS {
        let is_it = |settings: &BTreeMap<String, String>| {
            let has = |name: &str, value: &str| settings.get(name).is_some_and(|own| own == value);
            has("allocator", allocator) && has("workload", "random")
        };
        let mut cases = analysis.cases.iter().filter(|study| study.case.benchmark == "pids");
        let Some(study) = cases.find(|study| is_it(&study.case.settings)) else { continue };
        let each = study.case.settings.get("allocations").and_then(|text| text.parse::<f64>().ok()).unwrap_or(1_000.0);
        let Some(phase) = study.phases.first() else { continue };
        let points: Vec<(f64, f64)> = points(phase).into_iter().map(|(n, cost)| (n, cost / each)).collect();
        if points.len() > 1 {
            curves.push(Curve { name: name.to_owned(), points });
        }
    }
    curves
}

/// Returns the test with each search added, as far as both were measured.
fn with_searches(test: &Curve, searches: &[Curve]) -> Vec<Curve> {
    let with = |search: &Curve| {
        let added = |(n, cost): &(f64, f64)| Some((*n, cost + between(&search.points, *n)?));
        Curve { name: search.name.clone(), points: test.points.iter().filter_map(added).collect() }
    };
    searches.iter().map(with).filter(|curve| curve.points.len() > 1).collect()
}

/// Describes the largest share that a search adds to the test where both end.
fn share_of(test: &Curve, searches: &[Curve]) -> String {
    let end = |search: &Curve| {
        let (n, cost) = *test.points.iter().rev().find(|(n, _)| between(&search.points, *n).is_some())?;
        Some((search.name.clone(), n, between(&search.points, n)? / cost))
    };
    let most = searches.iter().filter_map(end).max_by(|a, b| a.2.total_cmp(&b.2));
    most.map_or(String::new(), |(name, n, share)| {
        format!("Among {} sleepers the {name} adds most, {} of the naive test.", count(n), percent(share))
    })
}

/// Interpolates linearly at an n between points.
fn between(points: &[(f64, f64)], n: f64) -> Option<f64> {
    let (before, after) = (points.iter().rfind(|point| point.0 <= n)?, points.iter().find(|point| point.0 >= n)?);
    let span = after.0 - before.0;
    let share = if span > 0.0 { (n - before.0) / span } else { 0.0 };
    Some(before.1 + share * (after.1 - before.1))
}

/// Renders the spread of the steps: the 90th percentile over the median, in bins of the sleepers.
fn spreads(analysis: &Analysis<'_>, ladder: &Ladder) -> Markup {
    let curve = |step: &Step| {
        let phase = phase(analysis, &step.case, PHASE)?;
        Some(Curve { name: step.name.clone(), points: ladder::spread(phase) })
    };
    let curves: Vec<Curve> = ladder.steps.iter().filter_map(curve).collect();
    let across = Across::linear("sleeping processes");
    lines("90th percentile over the median", across, &curves, &Scale::Linear(digits), &[])
}

/// Renders results that others published about the same question.
fn published(unit: Unit) -> Markup {
    let rows = html! {
        table.published-2001 {
            thead { tr { @for name in ["Published by others", "Values", "Source"] { th scope="col" { (name) } } } }
            tbody {
                @for row in &PUBLISHED {
                    @let value = |(n, value): &(u32, u32)| {
                        format!("{} {} at {}", count(f64::from(*value)), row.unit, count(f64::from(*n)))
                    };
                    tr {
                        td { (row.test) }
                        td { (row.points.iter().map(value).collect::<Vec<_>>().join(", ")) }
                        td { (row.source) }
                    } "\n"
                }
            }
        }
    };
    html! {
        details.points {
            summary { "Published figures of such tests" }
            (scrolling("Published figures of such tests", &rows))
            p.note {
                "Not measured by Landau, on other machines. "
                @if unit == Unit::Instructions { "They are times and cycles; this record counts instructions. " }
                "The study of 2004 itself left no value."
            }
        }
    }
}
