//! The drawings of the study of 2001: published figures as bars, new ones as curves or as a dot for each pass.

use crate::quantity::{count, digits, duration};
use maud::{Markup, html};

/// Height of the bars and curves, and their widths.
const HEIGHT: f64 = 260.0;
const BARS_WIDTH: f64 = 320.0;
const CURVES_WIDTH: f64 = 500.0;
/// The margins above and below, and those of the curves at the left and right.
const ABOVE: f64 = 40.0;
const BELOW: f64 = 40.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;

/// The height of a row of dots, and the width reserved for its name.
const ROW: f64 = 20.0;
const NAMES: f64 = 210.0;

/// The number of colours of the palette; further curves are dashed.
const TONES: usize = super::TONES;

/// A published figure: name, value, and how the value follows from the publication.
pub(super) struct Bar {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) basis: &'static str,
}

/// A published remark about a number of connections: the number, a few words, and a quotation of the source.
pub(in crate::section) type Mark = (f64, &'static str, &'static str);

/// The labels of the marks in the drawing.
pub(super) const LETTERS: [&str; 3] = ["a", "b", "c"];

/// New figures: n, value.
pub(in crate::section) struct Curve {
    pub(in crate::section) name: String,
    pub(in crate::section) points: Vec<(f64, f64)>,
}

/// Returns the curves' names with their colours.
pub(in crate::section) fn legend(curves: &[Curve]) -> Markup {
    html! {
        @for (index, curve) in curves.iter().enumerate() {
            span.swatch.{ "tone-" (index % TONES) } aria-hidden="true" {} (curve.name)
            @if index >= TONES { " (dashed)" } ". "
        }
    }
}

/// Renders the published figures; the names are in two rows.
pub(super) fn bars(title: &str, bars: &[Bar]) -> Markup {
    let (height, base) = (HEIGHT - ABOVE - BELOW, HEIGHT - BELOW);
    let slot = BARS_WIDTH / bars.len() as f64;
    let top = bars.iter().map(|bar| bar.value).fold(1e-9, f64::max);
    html! {
        svg.drawing viewBox={ "0 0 " (BARS_WIDTH) " " (HEIGHT) } role="img"
            aria-label="bars of 2001; the table below has every figure"
        {
            text x="0" y="14" { (title) }
            line.axis x1="0" x2=(BARS_WIDTH) y1=(base) y2=(base) {}
            @for (index, bar) in bars.iter().enumerate() {
                @let (at, tall) = (index as f64 * slot, bar.value / top * (height - 10.0));
                @let middle = format!("{:.1}", at + slot / 2.0);
                rect.published x=(format!("{:.1}", at + 6.0)) y=(format!("{:.1}", base - tall))
                    width=(format!("{:.1}", slot - 12.0)) height=(format!("{tall:.1}")) {}
                text x=(middle) y=(format!("{:.1}", base - tall - 4.0)) text-anchor="middle" {
                    @if bar.value < 100.0 { (digits(bar.value)) } @else { (count(bar.value)) }
                }
                @for (row, word) in rows(bar.name).iter().enumerate() {
                    @let below = format!("{:.1}", base + 14.0 + 13.0 * row as f64);
                    text x=(middle) y=(below) text-anchor="middle" { (word) }
                }
            }
        }
    }
}

/// The vertical axis of a drawing: from zero, or logarithmic, with values formatted by this function.
pub(in crate::section) enum Scale {
    Linear(fn(f64) -> String),
    Logarithmic(fn(f64) -> String),
}

impl Scale {
    /// Returns the lowest and the highest value that the axis shows, and its ticks with their labels.
    fn axis(&self, curves: &[Curve]) -> (f64, f64, Vec<(f64, String)>) {
        let every = || curves.iter().flat_map(|curve| &curve.points).map(|point| point.1);
        let highest = every().fold(0.0, f64::max).max(1e-9);
        let labelled =
            |ticks: Vec<f64>, write: fn(f64) -> String| ticks.into_iter().map(move |tick| (tick, write(tick)));
        match self {
            Self::Linear(write) => (0.0, highest * 1.1, labelled(ticks(highest * 1.1), *write).collect()),
            Self::Logarithmic(write) => {
                let lowest = every().filter(|value| *value > 0.0).fold(highest, f64::min) / 1.2;
                let highest = highest * 1.2;
                (lowest, highest, labelled(decimal_ticks(lowest, highest), *write).collect())
            }
        }
    }

    /// Returns the position of a value between the lowest, 0, and the highest, 1.
    fn place(&self, value: f64, low: f64, high: f64) -> f64 {
        match self {
            Self::Linear(_) => value / high,
            Self::Logarithmic(_) => (value.max(low) / low).ln() / (high / low).ln(),
        }
    }
}

/// The horizontal axis of a drawing and what it counts: logarithmic, or from zero, so that a linear law is straight.
pub(in crate::section) struct Across {
    name: String,
    is_linear: bool,
}

impl<N: Into<String>> From<N> for Across {
    fn from(name: N) -> Self {
        Self { name: name.into(), is_linear: false }
    }
}

impl Across {
    /// Returns an axis from zero.
    pub(in crate::section) fn linear(name: &str) -> Self {
        Self { name: name.to_owned(), is_linear: true }
    }

    /// Returns the position of n, from 0 to 1.
    fn place(&self, n: f64, low: f64, high: f64) -> f64 {
        if self.is_linear { n / high } else { (n.max(low) / low).ln() / (high / low).ln() }
    }

    fn ticks(&self, low: f64, high: f64) -> Vec<f64> {
        if self.is_linear { ticks(high) } else { decimal_ticks(low, high) }
    }
}

/// Renders measured values over n, with marks at the published numbers.
pub(in crate::section) fn lines(
    title: &str,
    axis: impl Into<Across>,
    curves: &[Curve],
    scale: &Scale,
    marks: &[Mark],
) -> Markup {
    let across = axis.into();
    let (height, base, width) = (HEIGHT - ABOVE - BELOW, HEIGHT - BELOW, CURVES_WIDTH - LEFT - RIGHT);
    let every = || curves.iter().flat_map(|curve| &curve.points);
    let low = every().map(|point| point.0).fold(f64::INFINITY, f64::min).max(1.0);
    let marked = marks.iter().map(|mark| mark.0).fold(low * 2.0, f64::max);
    let high = every().map(|point| point.0).fold(marked, f64::max) * 1.1;
    let (bottom, top, ticks) = scale.axis(curves);
    let x = |n: f64| LEFT + across.place(n, low, high) * width;
    let y = |value: f64| ABOVE + height * (1.0 - scale.place(value, bottom, top));
    html! {
        svg.drawing viewBox={ "0 0 " (CURVES_WIDTH) " " (HEIGHT) } role="img"
            aria-label="curves of today; the table below has every figure"
        {
            text x="0" y="14" { (title) }
            @for (tick, label) in &ticks {
                @let at = format!("{:.1}", y(*tick));
                line.axis x1=(LEFT) x2=(LEFT + width) y1=(at) y2=(at) {}
                text x=(LEFT - 6.0) y=(format!("{:.1}", y(*tick) + 4.0)) text-anchor="end" { (label) }
            }
            @for n in across.ticks(low, high) {
                text.n x=(format!("{:.1}", x(n))) y=(base + 14.0) text-anchor="middle" { (count(n)) }
            }
            text.n x=(format!("{:.1}", LEFT + width / 2.0)) y=(HEIGHT - 4.0) text-anchor="middle" { (across.name) }
            @for (index, (n, _, _)) in marks.iter().enumerate() {
                @let at = format!("{:.1}", x(*n));
                line.edge x1=(at) x2=(at) y1=(ABOVE) y2=(base) {}
                text x=(at) y=(ABOVE - 4.0) text-anchor="middle" { (LETTERS[index % LETTERS.len()]) }
            }
            @for (index, curve) in curves.iter().enumerate() {
                @let points = curve.points.iter().map(|(n, value)| format!("{:.1},{:.1}", x(*n), y(*value)));
                polyline.{ "tone-" (index % TONES) } stroke-dasharray=[(index >= TONES).then_some("5 3")]
                    points=(points.collect::<Vec<_>>().join(" "))
                {
                    title { (curve.name) }
                }
            }
        }
    }
}

/// Renders a row of dots for each name, one for each pass, over a logarithmic axis of nanoseconds.
pub(super) fn dots(title: &str, rows: &[(String, Vec<f64>)]) -> Markup {
    let every = || rows.iter().flat_map(|(_, values)| values).copied().filter(|value| *value > 0.0);
    let low = every().fold(f64::INFINITY, f64::min) / 1.3;
    let high = every().fold(0.0, f64::max) * 1.3;
    let (width, tall) = (CURVES_WIDTH - RIGHT - NAMES, ROW * rows.len() as f64);
    let x = |value: f64| NAMES + (value / low).ln() / (high / low).ln() * width;
    html! {
        svg.drawing viewBox={ "0 0 " (CURVES_WIDTH) " " (ABOVE + tall + BELOW) } role="img"
            aria-label="a dot for each pass; the table below has every figure"
        {
            text x="0" y="14" { (title) }
            @for tick in decimal_ticks(low, high) {
                @let at = format!("{:.1}", x(tick));
                line.axis x1=(at) x2=(at) y1=(ABOVE - 8.0) y2=(ABOVE + tall) {}
                text.n x=(at) y=(ABOVE + tall + 14.0) text-anchor="middle" { (duration(tick)) }
            }
            @for (index, (name, values)) in rows.iter().enumerate() {
                @let middle = ABOVE + ROW * (index as f64 + 0.5);
                text x=(NAMES - 8.0) y=(format!("{:.1}", middle + 4.0)) text-anchor="end" { (name) }
                @for value in values.iter().filter(|value| **value > 0.0) {
                    circle.published cx=(format!("{:.1}", x(*value))) cy=(format!("{middle:.1}")) r="4" {}
                }
            }
        }
    }
}

/// Splits a name into two rows.
fn rows(name: &str) -> Vec<&str> {
    name.split_once(' ').map_or(vec![name], |(first, rest)| vec![first, rest])
}

/// Returns at most six round values from zero to `top`.
fn ticks(top: f64) -> Vec<f64> {
    let power = 10f64.powf((top / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|one| one * power).find(|step| *step >= top / 5.0);
    let step = step.unwrap_or(top);
    (0..=5).map(|index| f64::from(index) * step).take_while(|tick| *tick <= top).collect()
}

/// Returns round values of a logarithmic axis: powers of ten, and 2 and 5 times these if there are fewer than three.
fn decimal_ticks(low: f64, high: f64) -> Vec<f64> {
    let times = |digits: &'static [f64]| {
        let every = (0..=13).flat_map(move |power| digits.iter().map(move |digit| digit * 10f64.powi(power)));
        every.filter(|tick| (low..=high).contains(tick)).collect::<Vec<f64>>()
    };
    let powers = times(&[1.0]);
    if powers.len() >= 3 { powers } else { times(&[1.0, 2.0, 5.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a linear law that looks exponential.
    #[test]
    fn a_linear_law_is_straight_over_an_axis_from_zero() {
        let curve = Curve { name: String::new(), points: [10.0, 505.0, 1_000.0].map(|n| (n, 50.0 + n)).to_vec() };
        let drawn = lines("", Across::linear("n"), &[curve], &Scale::Linear(digits), &[]).into_string();
        let points = drawn.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        let points: Vec<Vec<f64>> =
            points.split(' ').map(|point| point.split(',').map(|text| text.parse().unwrap()).collect()).collect();
        let slope = |a: &[f64], b: &[f64]| (b[1] - a[1]) / (b[0] - a[0]);
        assert!((slope(&points[0], &points[1]) / slope(&points[1], &points[2]) - 1.0).abs() < 0.01, "{points:?}");
        assert!(drawn.contains(">500<") || drawn.contains(">400<"), "{drawn}");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(110_000.0), [0.0, 50_000.0, 100_000.0]);
        assert!(ticks(1e-9).len() <= 6 && decimal_ticks(2.0, 2_000.0) == [10.0, 100.0, 1_000.0]);
    }

    /// An axis from 90 to 900 would otherwise have one label.
    #[test]
    fn a_short_logarithmic_axis_has_ticks_between_the_powers_of_ten() {
        assert_eq!(decimal_ticks(90.0, 900.0), [100.0, 200.0, 500.0]);
        let scale = Scale::Logarithmic(count);
        assert!((scale.place(30.0, 3.0, 300.0) - 0.5).abs() < 1e-9 && scale.place(0.0, 3.0, 300.0) == 0.0);
    }
}
