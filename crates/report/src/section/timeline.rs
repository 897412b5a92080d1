//! A timeline: the rate of every pass along the transfer, both axes linear, with its events; and every number as a
//! table.

use super::scrolling;
use crate::quantity::{count, digits};
use crate::text;
use crate::timeline::TimelineStudy;
use maud::{Markup, html};

/// Size of the drawing, and its room: left, right, top, bottom.
const SIZE: (f64, f64) = (900.0, 260.0);
const ROOM: [f64; 4] = [88.0, 12.0, 22.0, 34.0];
/// The most points of a pass that are drawn; a point is the rate over its steps.
const POINTS_MAX: usize = 120;

/// The rates of the passes in points of `stride` steps, in MB/s, with the last step of each point.
fn rates(study: &TimelineStudy<'_>, stride: usize) -> Vec<Vec<(f64, f64)>> {
    let rate =
        |steps: &[u64]| steps.len() as f64 * study.step_bytes as f64 * 1e3 / steps.iter().sum::<u64>().max(1) as f64;
    let pass = |costs: &Vec<u64>| {
        let points = costs.chunks(stride).enumerate();
        points.map(|(i, steps)| ((i * stride + steps.len()) as f64, rate(steps))).collect()
    };
    study.passes.iter().map(|pass_| pass(&pass_.costs_ns)).collect()
}

fn stride(study: &TimelineStudy<'_>) -> usize {
    let longest = study.passes.iter().map(|pass| pass.costs_ns.len()).max().unwrap_or(0);
    longest.div_ceil(POINTS_MAX).max(1)
}

/// The timeline of a case, in words, drawn, and as a table.
pub(crate) fn render(id: &str, study: &TimelineStudy<'_>) -> Markup {
    let stride = stride(study);
    let passes = rates(study, stride);
    html! {
        p.timeline { (text::timeline(study)) "." }
        figure.chart {
            figcaption { strong { (study.case) ": rate of every pass along the transfer" } }
            (drawing(study, &passes))
            details.points {
                summary { "Rates as a table" }
                (table(id, study, &passes))
            }
        } "\n"
    }
}

/// The picture of a cell of the overview: the rate of the first pass.
pub(crate) fn cell(study: &TimelineStudy<'_>) -> Markup {
    let passes = rates(study, stride(study) * 4);
    let points = passes.first().map_or(&[][..], Vec::as_slice);
    let (last, top) = points.iter().fold((1.0f64, 1e-9f64), |(n, rate), point| (n.max(point.0), rate.max(point.1)));
    let at = |(n, rate): &(f64, f64)| format!("{:.0},{:.0}", 3.0 + n / last * 138.0, 44.0 - rate / top * 40.0);
    html! {
        svg.thumb viewBox="0 0 144 48" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            polyline.timeline points=(points.iter().map(at).collect::<Vec<_>>().join(" ")) {}
        }
    }
}

fn drawing(study: &TimelineStudy<'_>, passes: &[Vec<(f64, f64)>]) -> Markup {
    let every = || passes.iter().flatten();
    let last = every().map(|point| point.0).fold(1.0, f64::max);
    let top = every().map(|point| point.1).fold(0.0, f64::max).max(1e-9) * 1.08;
    let [left, right, above, below] = ROOM;
    let (width, height) = (SIZE.0 - left - right, SIZE.1 - above - below);
    let x = |n: f64| left + n / last * width;
    let y = |rate: f64| above + height * (1.0 - rate / top);
    let line = |points: &Vec<(f64, f64)>| {
        points.iter().map(|(n, rate)| format!("{:.1},{:.1}", x(*n), y(*rate))).collect::<Vec<_>>().join(" ")
    };
    let events = study.sections.iter().filter_map(|section| Some((f64::from(section.first), section.event?)));
    html! {
        svg.drawing viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img"
            aria-label={ (study.case) ": " (text::timeline(study)) }
        {
            @for tick in ticks(top) {
                line.axis x1=(left) x2=(left + width) y1=(format!("{:.1}", y(tick))) y2=(format!("{:.1}", y(tick))) {}
                text x=(left - 6.0) y=(format!("{:.1}", y(tick) + 4.0)) text-anchor="end" { (digits(tick)) " MB/s" }
            }
            @for tick in ticks(last) {
                text.n x=(format!("{:.1}", x(tick))) y=(SIZE.1 - 16.0) text-anchor="middle" { (count(tick)) }
            }
            text.n x=(left + width / 2.0) y=(SIZE.1 - 2.0) text-anchor="middle" { (study.axis) }
            @for (first, event) in events {
                @let at = format!("{:.1}", x(first - 1.0));
                line.edge x1=(at) x2=(at) y1=(above) y2=(above + height) {}
                text x=(at) y=(above - 6.0) text-anchor="middle" { (event) }
            }
            @for (number, points) in passes.iter().enumerate() {
                polyline.{ "tone-" (number % super::benchmark::TONES) } points=(line(points)) {}
            }
        }
    }
}

/// At most six round values from zero to `top`.
fn ticks(top: f64) -> Vec<f64> {
    let raw = top / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|one| one * power).find(|step| *step >= raw).unwrap_or(raw);
    (0..=10).map(|i| f64::from(i) * step).take_while(|tick| *tick <= top).collect()
}

/// Every number that is drawn, which scripts offer as CSV.
fn table(id: &str, study: &TimelineStudy<'_>, passes: &[Vec<(f64, f64)>]) -> Markup {
    let rows = passes.iter().map(Vec::len).max().unwrap_or(0);
    let table = html! {
        table id={ (id) "-rates" } {
            thead { tr {
                th scope="col" { "Up to, " (study.axis) }
                @for pass in &study.passes { th scope="col" { "Pass " (pass.round + 1) ", MB/s" } }
            } }
            tbody {
                @for row in 0..rows {
                    tr {
                        td { (passes.iter().find_map(|pass| pass.get(row)).map_or(0.0, |point| point.0)) }
                        @for pass in passes { td { (pass.get(row).map_or(String::new(), |point| digits(point.1))) } }
                    }
                }
            }
        }
    };
    html! {
        button.csv type="button" data-table={ (id) "-rates" } { "CSV" }
        (scrolling(&format!("Rates of {}", study.case), &table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(430.0), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(ticks(64.0), [0.0, 20.0, 40.0, 60.0]);
        assert!(ticks(1e-9).len() <= 6);
    }
}
