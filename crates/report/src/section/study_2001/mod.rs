//! The study of 2001 redrawn: its published figures as bars, next to new measurements. Each of its three tests has a
//! file.

mod architecture;
pub(super) mod drawing;
mod files;
mod mail;

use super::benchmark::TONES;
use super::scrolling;
use crate::page::View;
use crate::quantity::count;
use crate::{CaseStudy, PhaseStudy};
use drawing::Curve;
use maud::{Markup, html};

const SOURCE: &str = "J. Rothman and J. Buckman, \"Which OS is Fastest for High-Performance Network Applications?\", \
                      Sys Admin 10 (7), July 2001, and the follow-up in 10 (8), August 2001. Published by others; not \
                      measured by Landau.";

/// The figure of a test of the study on the page.
struct Figure {
    /// Describes the left and the right part.
    words: &'static str,
    drawings: Markup,
    /// Errors and gaps in the published figures.
    doubts: &'static [&'static str],
    /// The published figures as a table.
    published: Markup,
    /// The measurements, for the table, and the axis of their curves.
    measured: Vec<Measured>,
    axis: &'static str,
}

/// Curves of one quantity.
struct Measured {
    /// The quantity and its unit.
    what: &'static str,
    curves: Vec<Curve>,
}

/// Renders the figure of a benchmark that repeats a test of the study and was measured; otherwise nothing.
pub(crate) fn render(view: &View<'_>, benchmark: &str) -> Markup {
    let figure = match benchmark {
        "architecture" => architecture::render(view),
        "files" => files::render(view),
        "mail" => mail::render(view),
        _ => None,
    };
    let Some(Figure { words, drawings, doubts, published, measured, axis }) = figure else { return html! {} };
    html! {
        figure.chart.study-2001 {
            figcaption {
                strong { "The study of 2001, and today" }
                " " span.words { (words) }
            }
            (drawings)
            p.note { "Left: " (SOURCE) }
            ul.note { @for doubt in doubts { li { (doubt) } } }
            details.points {
                summary { "Figures as a table" }
                (published)
                (measured_table(benchmark, &measured, axis))
            }
        } "\n"
    }
}

/// Returns new values by n, a curve for each case that has a name; with several records, a curve for each.
fn curves(
    view: &View<'_>,
    benchmark: &str,
    axis: &str,
    name: impl Fn(&CaseStudy<'_>) -> Option<String>,
    points: impl Fn(&CaseStudy<'_>) -> Vec<(f64, f64)>,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for (index, source) in view.sources.iter().enumerate() {
        let cases = source.analysis.cases.iter().filter(|study| study.case.benchmark == benchmark);
        for study in cases.filter(|study| study.case.axis == axis) {
            let Some(name) = name(study) else { continue };
            let points = points(study);
            let host = &source.analysis.record.host;
            let record = match view.sources.len() {
                1 => String::new(),
                _ => format!("{}, {} {}, ", view.names[index], host.system, host.release),
            };
            if points.len() > 1 {
                curves.push(Curve { name: format!("{record}{name}"), points });
            }
        }
    }
    curves
}

/// Returns the settings of a case that differ from the default, except those that begin with `except`.
fn others(study: &CaseStudy<'_>, except: &str) -> String {
    let words = study.case.label.split(' ').skip(1).filter(|word| !word.starts_with(except));
    words.fold(String::new(), |text, word| format!("{text}, {word}"))
}

/// Returns a phase of a case.
fn phase<'a>(study: &'a CaseStudy<'a>, name: &str) -> Option<&'a PhaseStudy<'a>> {
    study.phases.iter().find(|one| one.phase.name == name)
}

/// Returns n, and the number of calls per second that are possible in that phase.
fn rates(study: &CaseStudy<'_>, name: &str) -> Vec<(f64, f64)> {
    costs(study, name).into_iter().map(|(n, ns)| (n, 1e9 / ns)).collect()
}

/// Returns n, and the cost of that phase there in nanoseconds. If passes differ widely, the fit can end at its floor of
/// 1 ns. Nothing drawn here costs that little, so such points are excluded.
fn costs(study: &CaseStudy<'_>, name: &str) -> Vec<(f64, f64)> {
    let points = phase(study, name).into_iter().flat_map(|phase| &phase.verdict.all.points);
    points.filter(|point| point.cost.value > 1.0).map(|point| (point.n, point.cost.value)).collect()
}

/// Renders the published figures of a test as a table; `rows` have a cell for each name.
fn published_table(test: &str, names: &[&str], rows: &Markup) -> Markup {
    let table = html! {
        table.published-2001 {
            thead { tr { @for name in names { th scope="col" { (name) } } } }
            tbody { (rows) }
        }
    };
    scrolling(&format!("Published figures of 2001, {test}"), &table)
}

/// Renders a table of every point that is drawn, which scripts offer as CSV.
fn measured_table(benchmark: &str, measured: &[Measured], axis: &str) -> Markup {
    let id = format!("study-2001-{benchmark}");
    let table = html! {
        table id=(id) {
            thead { tr { @for name in ["Case", "Quantity", axis, "Value"] { th scope="col" { (name) } } } }
            tbody {
                @for Measured { what, curves } in measured {
                    @for curve in curves {
                        @for (n, value) in &curve.points {
                            tr {
                                td { (curve.name) }
                                td { (what) }
                                td { (count(n.round())) }
                                td { (count(value.round())) }
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        button.csv type="button" data-table=(id) { "CSV" }
        (scrolling(&format!("Measured in this run, {benchmark}"), &table))
    }
}
