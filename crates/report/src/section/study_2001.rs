//! The mail benchmark of 2001 redrawn: its published figures as bars, beside the throughput measured now.
//!
//! Rothman and Buckman published their chart as an image without values that could be read as text; only the ratios in
//! the article are known. So the bars are relative to the fastest system of 2001, and today's curve has its own axis:
//! nothing says how many recipients a second either axis would be in the other's terms.

use super::benchmark::TONES;
use super::scrolling;
use crate::page::View;
use crate::quantity::{count, digits};
use crate::{CaseStudy, PhaseStudy};
use maud::{Markup, html};

/// The benchmark that repeats the study, and its phase and axis.
const BENCHMARK: &str = "mail";
const PHASE: &str = "recipient";
const AXIS: &str = "busy connections";

/// Height of both drawings, and their widths.
const HEIGHT: f64 = 260.0;
const BARS_WIDTH: f64 = 320.0;
const CURVES_WIDTH: f64 = 500.0;
/// Their room above and below, and that of the curves at the left and right.
const ABOVE: f64 = 40.0;
const BELOW: f64 = 40.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;

/// A system of 2001: name, throughput relative to the fastest, how that follows from what was published.
struct System {
    name: &'static str,
    relative: f64,
    basis: &'static str,
}

/// The systems whose throughput follows from a published ratio.
const SYSTEMS: [System; 4] = [
    System { name: "Linux 2.2.16", relative: 1.0, basis: "the fastest; the base of the bars" },
    System {
        name: "Solaris 8",
        relative: 1.0 / 1.35,
        basis: "\"Linux … roughly 35% faster than Solaris, the runner-up\"",
    },
    System {
        name: "FreeBSD 4.2",
        relative: 1.0 / 1.75,
        basis: "\"a 75% performance gap between the best and worst\", read as 1.75 : 1; FreeBSD was the slowest",
    },
    System {
        name: "FreeBSD 4.2, tuned",
        relative: 1.27 / 1.75,
        basis: "\"the tuned version of FreeBSD was 27% faster\" than the untuned one (17 changes of settings)",
    },
];

/// What else was published: the number of connections, and the words.
const MARKS: [(f64, &str, &str); 3] = [
    (1_500.0, "little gain beyond", "\"marginal additional speed with more than 1500\"; FreeBSD became slower beyond"),
    (2_500.0, "FreeBSD failed", "FreeBSD \"failed to run when loaded with more than 2500 connections\""),
    (
        3_000.0,
        "tuned FreeBSD, not always",
        "tuned FreeBSD: \"frequently able to run at 3000 connections, … not consistently\": bind() failed",
    ),
];

/// What the marks are called in the drawing.
const LETTERS: [&str; 3] = ["a", "b", "c"];

/// What is wrong or unknown in the published figures.
const DOUBTS: [&str; 5] = [
    "The article and its follow-up print no values of this chart. The throughput of Windows 2000 is only said to be \
     between that of Solaris and of FreeBSD, so it has no bar.",
    "\"75%\" can also mean that the worst had 25% of the best's throughput. The summary says \"a 75% \
     performance gap\".",
    "Tuned FreeBSD is 0.73 of Linux by its 27% and the 75%, but \"as fast as an untuned version of Linux, for \
     connection levels of 1500 sends or fewer\" by the words of the follow-up.",
    "The servers of 2001 were those of the recipients' domains on the Internet; today's is a sink on the same machine. \
     There more connections hid the servers' delays; here there are none to hide.",
    "The other two tests of the article contradict themselves: a process for each connection handled \"about 5 \
     percent\" of the asynchronous load, which is 20 times less, and is said to be 12 times slower; the file test's \
     542 s, 2,398 s and 3,990 s are 4.4 and 7.4 times, not \"6x\" and \"10x\".",
];

const SOURCE: &str = "J. Rothman and J. Buckman, \"Which OS is Fastest for High-Performance Network Applications?\", \
                      Sys Admin 10 (7), July 2001, and the follow-up in 10 (8), August 2001. Published by others; not \
                      measured by Landau.";

/// Today's throughput in a record: connections, recipients a second.
struct Curve {
    name: String,
    tone: usize,
    points: Vec<(f64, f64)>,
}

/// The figure, if the page has the benchmark by connections; otherwise nothing.
pub(crate) fn render(view: &View<'_>, benchmark: &str) -> Markup {
    if benchmark != BENCHMARK {
        return html! {};
    }
    let curves = curves(view);
    if curves.is_empty() {
        return html! {};
    }
    html! {
        figure.chart.study-2001 {
            figcaption {
                strong { "The study of 2001, and today" }
                " " span.words {
                    "Left: throughput by system as published in 2001, relative to the fastest. Right: recipients a \
                     second by simultaneous connections, measured in this run. The two axes have nothing in common."
                }
            }
            (drawing(&curves))
            p.note { "Left: " (SOURCE) }
            ul.note { @for doubt in DOUBTS { li { (doubt) } } }
            details.points {
                summary { "Figures as a table" }
                (published())
                (measured(&curves))
            }
        } "\n"
    }
}

/// Today's curves: of one record a line for each mode, of several records a line for each.
fn curves(view: &View<'_>) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for (index, source) in view.sources.iter().enumerate() {
        let cases = source.analysis.cases.iter().filter(|study| study.case.benchmark == BENCHMARK);
        for study in cases.filter(|study| study.case.axis == AXIS) {
            let Some(points) = study.phases.iter().find(|one| one.phase.name == PHASE).map(throughput) else {
                continue;
            };
            let record = if view.sources.len() > 1 { format!("{}, ", view.names[index]) } else { String::new() };
            let mode = study.case.settings.get("mode").map_or("", String::as_str);
            let kernel = &source.analysis.record.host.release;
            let system = &source.analysis.record.host.system;
            let name = format!("{record}{system} {kernel}, {mode}{}", others(study));
            if points.len() > 1 {
                curves.push(Curve { name, tone: curves.len() % TONES, points });
            }
        }
    }
    curves
}

/// Returns the settings of a case besides its mode that differ from the default.
fn others(study: &CaseStudy<'_>) -> String {
    let words = study.case.label.split(' ').skip(1).filter(|word| !word.starts_with("mode="));
    words.fold(String::new(), |text, word| format!("{text}, {word}"))
}

/// Returns connections and recipients a second.
fn throughput(phase: &PhaseStudy<'_>) -> Vec<(f64, f64)> {
    let points = phase.verdict.all.points.iter().filter(|point| point.cost.value > 0.0);
    points.map(|point| (point.n, 1e9 / point.cost.value)).collect()
}

fn drawing(curves: &[Curve]) -> Markup {
    html! {
        div.pair { (bars()) (lines(curves)) }
        p.note {
            @for curve in curves {
                span.swatch.{ "tone-" (curve.tone) } aria-hidden="true" {} (curve.name) ". "
            }
            "In 2001: "
            @for (index, (n, short, _)) in MARKS.iter().enumerate() {
                (LETTERS[index]) ": " (count(*n)) " connections, " (short) (if index < 2 { "; " } else { "." })
            }
        }
    }
}

/// The published figures.
fn bars() -> Markup {
    let (height, base) = (HEIGHT - ABOVE - BELOW, HEIGHT - BELOW);
    let slot = BARS_WIDTH / SYSTEMS.len() as f64;
    html! {
        svg.drawing viewBox={ "0 0 " (BARS_WIDTH) " " (HEIGHT) } role="img"
            aria-label="bars of 2001; the table below has every figure"
        {
            text x="0" y="14" { "2001, as published: relative throughput" }
            line.axis x1="0" x2=(BARS_WIDTH) y1=(base) y2=(base) {}
            @for (index, system) in SYSTEMS.iter().enumerate() {
                @let (at, tall) = (index as f64 * slot, system.relative * (height - 10.0));
                @let middle = format!("{:.1}", at + slot / 2.0);
                rect.published x=(format!("{:.1}", at + 6.0)) y=(format!("{:.1}", base - tall))
                    width=(format!("{:.1}", slot - 12.0)) height=(format!("{tall:.1}")) {}
                text x=(middle) y=(format!("{:.1}", base - tall - 4.0)) text-anchor="middle" {
                    (digits(system.relative))
                }
                @for (row, word) in rows(system.name).iter().enumerate() {
                    @let below = format!("{:.1}", base + 14.0 + 13.0 * row as f64);
                    text x=(middle) y=(below) text-anchor="middle" { (word) }
                }
            }
        }
    }
}

/// What was measured.
fn lines(curves: &[Curve]) -> Markup {
    let (height, base, width) = (HEIGHT - ABOVE - BELOW, HEIGHT - BELOW, CURVES_WIDTH - LEFT - RIGHT);
    let every = || curves.iter().flat_map(|curve| &curve.points);
    let low = every().map(|point| point.0).fold(f64::INFINITY, f64::min).max(1.0);
    let high = every().map(|point| point.0).fold(MARKS[2].0, f64::max) * 1.1;
    let top = every().map(|point| point.1).fold(0.0, f64::max).max(1e-9) * 1.1;
    let x = |n: f64| LEFT + (n.max(low) / low).ln() / (high / low).ln() * width;
    let y = |rate: f64| ABOVE + height * (1.0 - rate / top);
    html! {
        svg.drawing viewBox={ "0 0 " (CURVES_WIDTH) " " (HEIGHT) } role="img"
            aria-label="curves of today; the table below has every figure"
        {
            text x="0" y="14" { "today, measured: recipients a second" }
            @for tick in ticks(top) {
                @let at = format!("{:.1}", y(tick));
                line.axis x1=(LEFT) x2=(LEFT + width) y1=(at) y2=(at) {}
                text x=(LEFT - 6.0) y=(format!("{:.1}", y(tick) + 4.0)) text-anchor="end" { (count(tick)) }
            }
            @for n in decades(low, high) {
                text.n x=(format!("{:.1}", x(n))) y=(base + 14.0) text-anchor="middle" { (count(n)) }
            }
            text.n x=(format!("{:.1}", LEFT + width / 2.0)) y=(HEIGHT - 4.0) text-anchor="middle" { (AXIS) }
            @for (index, (n, _, _)) in MARKS.iter().enumerate() {
                @let at = format!("{:.1}", x(*n));
                line.edge x1=(at) x2=(at) y1=(ABOVE) y2=(base) {}
                text x=(at) y=(ABOVE - 4.0) text-anchor="middle" { (LETTERS[index]) }
            }
            @for curve in curves {
                @let points = curve.points.iter().map(|(n, rate)| format!("{:.1},{:.1}", x(*n), y(*rate)));
                polyline.{ "tone-" (curve.tone) } points=(points.collect::<Vec<_>>().join(" ")) {
                    title { (curve.name) }
                }
            }
        }
    }
}

/// Returns a name in two rows.
fn rows(name: &str) -> Vec<&str> {
    name.split_once(' ').map_or(vec![name], |(first, rest)| vec![first, rest])
}

/// At most six round values from zero to `top`.
fn ticks(top: f64) -> Vec<f64> {
    let power = 10f64.powf((top / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|one| one * power).find(|step| *step >= top / 5.0);
    let step = step.unwrap_or(top);
    (0..=5).map(|index| f64::from(index) * step).take_while(|tick| *tick <= top).collect()
}

/// The powers of ten in a range.
fn decades(low: f64, high: f64) -> Vec<f64> {
    (0..=7).map(|power| 10f64.powi(power)).filter(|n| (low..=high).contains(n)).collect()
}

fn published() -> Markup {
    let table = html! {
        table.published-2001 {
            thead { tr {
                @for name in ["2001, published by others", "Value", "Words of the source, or how the value follows"] {
                    th scope="col" { (name) }
                }
            } }
            tbody {
                @for system in &SYSTEMS {
                    tr {
                        td { (system.name) }
                        td.number { (digits(system.relative)) }
                        td { (system.basis) }
                    }
                }
                tr {
                    td { "Windows 2000" }
                    td.number { "not published" }
                    td { "between Solaris and FreeBSD" }
                }
                @for (n, short, words) in &MARKS {
                    tr {
                        td { (short) }
                        td.number { (count(*n)) " connections" }
                        td { (words) }
                    }
                }
                tr {
                    td { "recipients, domains" }
                    td.number { "200,000, 9,113" }
                    td { "one message in memory; RSET instead of DATA, then QUIT" }
                }
            }
        }
    };
    scrolling("Published figures of 2001", &table)
}

/// Every point that is drawn, which scripts offer as CSV.
fn measured(curves: &[Curve]) -> Markup {
    let id = "study-2001-today";
    let table = html! {
        table id=(id) {
            thead { tr { @for name in ["Case", "Connections", "Recipients a second"] { th scope="col" { (name) } } } }
            tbody {
                @for curve in curves {
                    @for (n, rate) in &curve.points {
                        tr { td { (curve.name) } td { (count(n.round())) } td { (count(rate.round())) } }
                    }
                }
            }
        }
    };
    html! {
        button.csv type="button" data-table=(id) { "CSV" }
        (scrolling("Throughput measured in this run", &table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_follow_from_the_published_ratios() {
        let relative = |name: &str| SYSTEMS.iter().find(|one| one.name == name).unwrap().relative;
        assert!((relative("Linux 2.2.16") / relative("Solaris 8") - 1.35).abs() < 1e-9);
        assert!((relative("Linux 2.2.16") / relative("FreeBSD 4.2") - 1.75).abs() < 1e-9);
        assert!((relative("FreeBSD 4.2, tuned") / relative("FreeBSD 4.2") - 1.27).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(110_000.0), [0.0, 50_000.0, 100_000.0]);
        assert!(ticks(1e-9).len() <= 6 && decades(2.0, 2_000.0) == [10.0, 100.0, 1_000.0]);
    }
}
