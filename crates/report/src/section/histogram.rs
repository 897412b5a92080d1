//! A small histogram of the costs of a bimodal curve: how many calls cost how much.
//!
//! A curve of medians shows one of the two modes, or neither. The histogram has the calls at large n, from half of the
//! largest n on, so that growth blurs it little. Its axis of cost is logarithmic.

use super::scrolling;
use crate::PhaseStudy;
use crate::quantity::{FormatCost, Unit, count, percent};
use maud::{Markup, html};

/// The number of bars of a histogram.
const BARS: usize = 60;
/// The share of calls at either end that is cut off, because outliers would compress the rest.
const BEYOND: f64 = 0.002;
/// Minimum factor between the ends of the axis of cost.
const SPAN_MIN: f64 = 2.0;
/// Minimum number of calls of a histogram.
const CALLS_MIN: usize = 40;
/// The size of the drawing, and its margins: left, right, top, bottom.
const SIZE: (f64, f64) = (300.0, 108.0);
const ROOM: [f64; 4] = [6.0, 20.0, 18.0, 20.0];

/// Calls by cost.
pub(crate) struct Histogram {
    unit: Unit,
    /// The smallest n of the calls.
    pub(crate) first: u32,
    /// Logarithms of the lowest and the highest cost.
    ends: (f64, f64),
    /// The number of calls of each bar.
    counts: Vec<usize>,
    /// The costs of the two modes.
    modes: [f64; 2],
}

impl Histogram {
    /// Returns the histogram of a phase with two modes; `None` if it has one.
    pub(crate) fn of(phase: &PhaseStudy<'_>) -> Option<Self> {
        let found = phase.verdict.bimodality.as_ref()?;
        let calls = || phase.curve.passes.iter().flat_map(|pass| pass.n.iter().zip(&pass.costs));
        let first = calls().map(|(n, _)| *n).max()?.div_ceil(2);
        let mut costs: Vec<f64> =
            calls().filter(|(n, _)| **n >= first).map(|(_, cost)| (*cost).max(1) as f64).collect();
        if costs.len() < CALLS_MIN {
            return None;
        }
        costs.sort_by(f64::total_cmp);
        let last = costs.len() - 1;
        let at = |share: f64| costs[(last as f64 * share).round() as usize].ln();
        let modes = [found.low.cost.value, found.high.cost.value];
        let (low, high) = (at(BEYOND).min(modes[0].max(1.0).ln()), at(1.0 - BEYOND).max(modes[1].max(1.0).ln()));
        let (middle, half) = (f64::midpoint(low, high), ((high - low) / 2.0 * 1.02).max(SPAN_MIN.ln() / 2.0));
        let ends = (middle - half, middle + half);
        let mut counts = vec![0; BARS];
        for cost in &costs {
            let place = (cost.ln() - ends.0) / (ends.1 - ends.0) * BARS as f64;
            if let Some(bar) = (place >= 0.0).then_some(place as usize).and_then(|bar| counts.get_mut(bar)) {
                *bar += 1;
            }
        }
        Some(Self { unit: phase.verdict.all.unit, first, ends, counts, modes })
    }

    /// Returns the costs at the two edges of a bar.
    fn edges(&self, bar: usize) -> (f64, f64) {
        let edge = |bar: usize| (self.ends.0 + (self.ends.1 - self.ends.0) * bar as f64 / BARS as f64).exp();
        (edge(bar), edge(bar + 1))
    }

    /// Returns the drawing: bars, the costs at both ends, and both modes.
    pub(crate) fn drawing(&self) -> Markup {
        let [left, right, above, below] = ROOM;
        let (width, height) = (SIZE.0 - left - right, SIZE.1 - above - below);
        let top = self.counts.iter().copied().max().unwrap_or(1).max(1) as f64;
        let x = |log: f64| left + (log - self.ends.0) / (self.ends.1 - self.ends.0) * width;
        let bar = width / BARS as f64;
        let marks = self.modes.map(|mode| (x(mode.max(1.0).ln()), self.unit.bare(mode)));
        // Labels of modes close to each other would overlap, and labels at the edges would be cut off.
        let is_close = marks[1].0 - marks[0].0 < 70.0;
        let anchor = |at: f64, inner: &'static str| match at {
            at if at < 40.0 => "start",
            at if at > SIZE.0 - 40.0 => "end",
            _ if is_close => inner,
            _ => "middle",
        };
        let anchors = [anchor(marks[0].0, "end"), anchor(marks[1].0, "start")];
        html! {
            svg.picture.histogram viewBox="0 0 300 108" aria-hidden="true" focusable="false" {
                line.axis x1=(left) x2=(left + width) y1=(above + height) y2=(above + height) {}
                @for (index, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    // Even a bar with few calls must be visible.
                    @let tall = (*count as f64 / top * height).max(1.0);
                    rect x=(format!("{:.1}", left + index as f64 * bar)) y=(format!("{:.1}", above + height - tall))
                        width=(format!("{:.1}", bar - 0.5)) height=(format!("{tall:.1}")) {}
                }
                @for ((at, label), anchor) in marks.iter().zip(anchors) {
                    text x=(format!("{at:.0}")) y="12" text-anchor=(anchor) { (label) }
                }
                text.n x=(left) y=(SIZE.1 - 6.0) { (self.unit.bare(self.ends.0.exp().round())) }
                text.n x=(left + width) y=(SIZE.1 - 6.0) text-anchor="end" {
                    (self.unit.bare(self.ends.1.exp().round()))
                }
            }
        }
    }

    /// Returns every bar with calls as a row.
    fn table(&self, id: &str) -> Markup {
        let all = self.counts.iter().sum::<usize>().max(1) as f64;
        html! {
            table id=(id) {
                thead { tr {
                    @for name in ["From", "To", "Calls", "Share"] { th scope="col" { (name) } }
                } }
                tbody {
                    @for (bar, calls) in self.counts.iter().enumerate().filter(|(_, calls)| **calls > 0) {
                        @let (from, to) = self.edges(bar);
                        tr {
                            td { (self.unit.bare(from.round())) }
                            td { (self.unit.bare(to.round())) }
                            td { (count(*calls as f64)) }
                            td { (percent(*calls as f64 / all)) }
                        }
                    }
                }
            }
        }
    }
}

/// Renders the histogram of a phase with its table; nothing if its costs have one mode.
pub(crate) fn render(id: &str, phase: &PhaseStudy<'_>) -> Markup {
    let Some(histogram) = Histogram::of(phase) else { return html! {} };
    let (name, table) = (&phase.phase.name, format!("{id}-costs"));
    html! {
        figure.chart {
            figcaption {
                strong { (name) ": distribution of the cost" }
                " " span.words { "All calls from n = " (count(f64::from(histogram.first))) " on, logarithmic axis." }
            }
            (histogram.drawing())
            details.points {
                summary { "Histogram as a table" }
                button.csv type="button" data-table=(table) { "CSV" }
                (scrolling(&format!("Histogram of {id}, {name}"), &histogram.table(&table)))
            }
        } "\n"
    }
}
