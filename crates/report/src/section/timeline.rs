//! A timeline: the rate of every pass along the transfer, on linear axes, with its events. Several records share one
//! drawing, with a colour for each. Every number is also in a table.

use super::benchmark::TONES;
use super::scrolling;
use crate::quantity::{count, digits};
use crate::text;
use crate::timeline::TimelineStudy;
use maud::{Markup, html};

/// The size of the drawing, and its margins: left, right, top, bottom.
const SIZE: (f64, f64) = (900.0, 260.0);
const ROOM: [f64; 4] = [88.0, 12.0, 22.0, 34.0];
/// Maximum number of points of a pass that are drawn; a point is the rate over its steps.
const POINTS_MAX: usize = 120;

/// The timeline of one record, with the record's name if there are several.
pub(crate) struct Timeline<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) study: &'a TimelineStudy<'a>,
    /// Index of the record among those of the page.
    pub(crate) tone: usize,
}

/// A pass that is drawn: its name in the table, its colour, and its points, which are the last step and the rate in
/// MB/s.
struct Line {
    name: String,
    tone: usize,
    points: Vec<(f64, f64)>,
}

/// Returns the rates of the passes, with points of `stride` steps.
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

/// Returns the lines of every pass of every record, all with the same number of steps per point.
fn lines(timelines: &[Timeline<'_>]) -> Vec<Line> {
    let stride = timelines.iter().map(|one| stride(one.study)).max().unwrap_or(1);
    let of_record = |one: &Timeline<'_>| {
        let passes = one.study.passes.iter().zip(rates(one.study, stride)).enumerate();
        let line = |(number, (pass, points)): (usize, (&crate::timeline::TimelinePass, _))| Line {
            name: one.name.map_or(String::new(), |name| format!("{name}, ")) + &format!("pass {}", pass.round + 1),
            tone: if one.name.is_some() { one.tone } else { number } % TONES,
            points,
        };
        passes.map(line).collect::<Vec<Line>>()
    };
    timelines.iter().flat_map(of_record).collect()
}

/// Renders the timeline of a case in every record that has it, in words, as a drawing, and as a table; nothing without
/// a record.
pub(crate) fn render(id: &str, timelines: &[Timeline<'_>]) -> Markup {
    let Some(first) = timelines.first() else { return html! {} };
    let lines = lines(timelines);
    let title = if timelines.len() > 1 { "in every record, a line for each pass" } else { "of every pass" };
    html! {
        @for one in timelines {
            p.timeline {
                @if let Some(name) = one.name {
                    span.swatch.{ "tone-" (one.tone % TONES) } aria-hidden="true" {} b { (name) } ": "
                }
                (text::timeline(one.study)) "."
            }
        }
        figure.chart.overlaid[timelines.len() > 1] {
            figcaption { strong { (first.study.case) ": rate along the transfer " (title) } }
            (drawing(timelines, &lines))
            details.points {
                summary { "Rates as a table" }
                (table(id, first.study, &lines))
            }
        } "\n"
    }
}

/// Renders the picture of a cell of the overview: the rate of the first pass.
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

fn drawing(timelines: &[Timeline<'_>], lines: &[Line]) -> Markup {
    let every = || lines.iter().flat_map(|line| &line.points);
    let last = every().map(|point| point.0).fold(1.0, f64::max);
    let top = every().map(|point| point.1).fold(0.0, f64::max).max(1e-9) * 1.08;
    let [left, right, above, below] = ROOM;
    let (width, height) = (SIZE.0 - left - right, SIZE.1 - above - below);
    let x = |n: f64| left + n / last * width;
    let y = |rate: f64| above + height * (1.0 - rate / top);
    let path = |points: &[(f64, f64)]| {
        points.iter().map(|(n, rate)| format!("{:.1},{:.1}", x(*n), y(*rate))).collect::<Vec<_>>().join(" ")
    };
    let sections = timelines.first().map_or(&[][..], |one| &one.study.sections);
    let events = sections.iter().filter_map(|section| Some((f64::from(section.first), section.event?)));
    let words = |one: &Timeline<'_>| format!("{}: {}", one.name.unwrap_or(one.study.case), text::timeline(one.study));
    html! {
        svg.drawing viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img"
            aria-label=(timelines.iter().map(words).collect::<Vec<_>>().join("; "))
        {
            @for tick in ticks(top) {
                line.axis x1=(left) x2=(left + width) y1=(format!("{:.1}", y(tick))) y2=(format!("{:.1}", y(tick))) {}
                text x=(left - 6.0) y=(format!("{:.1}", y(tick) + 4.0)) text-anchor="end" { (digits(tick)) " MB/s" }
            }
            @for tick in ticks(last) {
                text.n x=(format!("{:.1}", x(tick))) y=(SIZE.1 - 16.0) text-anchor="middle" { (count(tick)) }
            }
            text.n x=(left + width / 2.0) y=(SIZE.1 - 2.0) text-anchor="middle" {
                (timelines.first().map_or("", |one| one.study.axis))
            }
            @for (first, event) in events {
                @let at = format!("{:.1}", x(first - 1.0));
                line.edge x1=(at) x2=(at) y1=(above) y2=(above + height) {}
                text x=(at) y=(above - 6.0) text-anchor="middle" { (event) }
            }
            @for line in lines {
                polyline.{ "tone-" (line.tone) } points=(path(&line.points)) { title { (line.name) } }
            }
        }
    }
}

/// Returns at most six round values from zero to `top`.
fn ticks(top: f64) -> Vec<f64> {
    let raw = top / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|one| one * power).find(|step| *step >= raw).unwrap_or(raw);
    (0..=10).map(|i| f64::from(i) * step).take_while(|tick| *tick <= top).collect()
}

/// Renders a table of every number that is drawn, which scripts offer as CSV.
fn table(id: &str, study: &TimelineStudy<'_>, lines: &[Line]) -> Markup {
    let rows = lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let table = html! {
        table id={ (id) "-rates" } {
            thead { tr {
                th scope="col" { "Up to, " (study.axis) }
                @for line in lines { th scope="col" { (line.name) ", MB/s" } }
            } }
            tbody {
                @for row in 0..rows {
                    tr {
                        td { (lines.iter().find_map(|line| line.points.get(row)).map_or(0.0, |point| point.0)) }
                        @for line in lines {
                            td { (line.points.get(row).map_or(String::new(), |point| digits(point.1))) }
                        }
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
