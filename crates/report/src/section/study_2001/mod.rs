//! The study of 2001 redrawn: its published figures as bars, beside what was measured now. Each of its three tests is a
//! file.

mod architecture;
mod drawing;
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

/// What a test of the study becomes on the page.
struct Figure {
    /// What is to the left and to the right.
    words: &'static str,
    drawings: Markup,
    /// What is wrong or unknown in the published figures.
    doubts: &'static [&'static str],
    /// The published figures as a table.
    published: Markup,
    /// What was measured, and the columns of its table: case, n, value.
    curves: Vec<Curve>,
    columns: [&'static str; 3],
}

/// The figure of a benchmark that repeats a test of the study and was measured; otherwise nothing.
pub(crate) fn render(view: &View<'_>, benchmark: &str) -> Markup {
    let figure = match benchmark {
        "architecture" => architecture::render(view),
        "files" => files::render(view),
        "mail" => mail::render(view),
        _ => None,
    };
    let Some(Figure { words, drawings, doubts, published, curves, columns }) = figure else { return html! {} };
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
                (measured(benchmark, &curves, columns))
            }
        } "\n"
    }
}

/// Today's rates by n, as `1e9 / cost`: of one record a line for each case that has a name, of several records a line
/// for each.
fn curves(
    view: &View<'_>,
    benchmark: &str,
    phase: &str,
    axis: &str,
    name: impl Fn(&CaseStudy<'_>) -> Option<String>,
) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for (index, source) in view.sources.iter().enumerate() {
        let cases = source.analysis.cases.iter().filter(|study| study.case.benchmark == benchmark);
        for study in cases.filter(|study| study.case.axis == axis) {
            let points = study.phases.iter().find(|one| one.phase.name == phase).map(rates).unwrap_or_default();
            let Some(name) = name(study).filter(|_| points.len() > 1) else { continue };
            let record = if view.sources.len() > 1 { format!("{}, ", view.names[index]) } else { String::new() };
            let host = &source.analysis.record.host;
            curves.push(Curve { name: format!("{record}{} {}, {name}", host.system, host.release), points });
        }
    }
    curves
}

/// Returns the settings of a case that differ from the default, but for those that begin with `except`.
fn others(study: &CaseStudy<'_>, except: &str) -> String {
    let words = study.case.label.split(' ').skip(1).filter(|word| !word.starts_with(except));
    words.fold(String::new(), |text, word| format!("{text}, {word}"))
}

/// Returns n, and how often a second a call of that cost can be made.
fn rates(phase: &PhaseStudy<'_>) -> Vec<(f64, f64)> {
    let points = phase.verdict.all.points.iter().filter(|point| point.cost.value > 0.0);
    points.map(|point| (point.n, 1e9 / point.cost.value)).collect()
}

/// The published figures of a test as a table; `rows` have a cell for each name.
fn published_table(test: &str, names: &[&str], rows: &Markup) -> Markup {
    let table = html! {
        table.published-2001 {
            thead { tr { @for name in names { th scope="col" { (name) } } } }
            tbody { (rows) }
        }
    };
    scrolling(&format!("Published figures of 2001, {test}"), &table)
}

/// Every point that is drawn, which scripts offer as CSV.
fn measured(benchmark: &str, curves: &[Curve], columns: [&str; 3]) -> Markup {
    let id = format!("study-2001-{benchmark}");
    let table = html! {
        table id=(id) {
            thead { tr { @for name in columns { th scope="col" { (name) } } } }
            tbody {
                @for curve in curves {
                    @for (n, value) in &curve.points {
                        tr { td { (curve.name) } td { (count(n.round())) } td { (count(value.round())) } }
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
