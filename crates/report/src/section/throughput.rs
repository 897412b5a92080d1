//! Throughput of the mail engine over time: recipients per second in every pass that goes down a list.
//!
//! The steps of such a pass follow one another without a gap, so the sum of their costs is the time.

use super::benchmark::TONES;
use super::over_time::{Line, drawing};
use super::scrolling;
use crate::page::View;
use crate::quantity::digits;
use crate::{CaseStudy, PhaseStudy};
use maud::{Markup, html};

/// The benchmark, its phase, and the axis of the cases that go down a list.
const BENCHMARK: &str = "mail";
const PHASE: &str = "recipient";
const AXIS: &str = "recipients";

/// The number of points of a pass.
const POINTS: usize = 60;

/// Renders the drawings of all cases of the benchmark that go down a list; nothing if there are none.
pub(crate) fn render(view: &View<'_>, benchmark: &str) -> Markup {
    let mut figures = Vec::new();
    for (index, source) in view.sources.iter().enumerate() {
        let cases = source.analysis.cases.iter().filter(|study| study.case.benchmark == benchmark);
        for study in cases.filter(|study| benchmark == BENCHMARK && study.case.axis == AXIS) {
            let lines = lines(study);
            if !lines.is_empty() {
                let record = if view.sources.len() > 1 { format!("{}, ", view.names[index]) } else { String::new() };
                figures.push((format!("throughput-{index}-{}", study.case.case), record, study, lines));
            }
        }
    }
    html! { @for (id, record, study, lines) in &figures { (figure(id, record, study, lines)) } }
}

fn figure(id: &str, record: &str, study: &CaseStudy<'_>, lines: &[Line]) -> Markup {
    html! {
        figure.chart.over-time {
            figcaption {
                strong { (record) (study.case.label) ": throughput over time" }
                " " span.words { "Recipients a second along the list, a line for each pass." }
            }
            (drawing("recipients a second", lines))
            details.points {
                summary { "Throughput as a table" }
                button.csv type="button" data-table=(id) { "CSV" }
                (scrolling(&format!("Throughput of {record}{}", study.case.label), &table(id, lines)))
            }
        } "\n"
    }
}

/// Returns a line for each pass.
fn lines(study: &CaseStudy<'_>) -> Vec<Line> {
    let phase = study.phases.iter().find(|one| one.phase.name == PHASE);
    let line = |(number, costs): (usize, &[u64])| {
        let name = phase.and_then(|phase| phase.rounds.get(number)).map_or(number as u32, |round| *round) + 1;
        Line { name: format!("pass {name}"), tone: number % TONES, points: rates(costs) }
    };
    phase.into_iter().flat_map(passes).enumerate().map(line).filter(|line| line.points.len() > 1).collect()
}

fn passes<'a>(phase: &'a PhaseStudy<'_>) -> impl Iterator<Item = &'a [u64]> {
    phase.curve.passes.iter().map(|pass| pass.costs.as_slice())
}

/// Returns seconds and recipients per second, from the cost of each recipient in nanoseconds.
fn rates(costs: &[u64]) -> Vec<(f64, f64)> {
    let mut elapsed_ns = 0;
    let point = |some: &[u64]| {
        let spent_ns = some.iter().sum::<u64>().max(1);
        elapsed_ns += spent_ns;
        (elapsed_ns as f64 / 1e9, some.len() as f64 * 1e9 / spent_ns as f64)
    };
    costs.chunks(costs.len().div_ceil(POINTS).max(1)).map(point).collect()
}

/// Renders a table of every point that is drawn, which scripts offer as CSV.
fn table(id: &str, lines: &[Line]) -> Markup {
    html! {
        table id=(id) {
            thead { tr { @for name in ["Pass", "Until, s", "Recipients a second"] { th scope="col" { (name) } } } }
            tbody {
                @for line in lines {
                    @for (until_s, rate) in &line.points {
                        tr { td { (line.name) } td { (digits(*until_s)) } td { (digits(*rate)) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_recipients_over_the_time_that_they_took() {
        let costs: Vec<u64> = [vec![1_000_000; 300], vec![4_000_000; 300]].concat();
        let points = rates(&costs);
        assert_eq!(points.len(), POINTS);
        assert!((points[0].1 - 1_000.0).abs() < 1e-6 && (points[59].1 - 250.0).abs() < 1e-6);
        assert!((points[29].0 - 0.3).abs() < 1e-9 && (points[59].0 - 1.5).abs() < 1e-9);
        assert!(rates(&[]).is_empty());
    }

    /// Guards against a rate of "0" for a recipient that took more than two seconds.
    #[test]
    fn a_rate_below_one_keeps_its_fraction() {
        let lines = [Line { name: "pass 1".to_owned(), tone: 0, points: rates(&[2_500_000_000, 5_000_000_000]) }];
        let table = table("throughput", &lines).into_string();
        assert!(table.contains("<td>2.5</td><td>0.4</td>") && table.contains("<td>7.5</td><td>0.2</td>"), "{table}");
    }
}
