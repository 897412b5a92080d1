//! A rate or a number over the seconds of a run, drawn as lines.

use crate::quantity::{digits, duration};
use maud::{Markup, html};

/// The size of the drawing, and its margins: left, right, top, bottom.
const SIZE: (f64, f64) = (600.0, 220.0);
const ROOM: [f64; 4] = [64.0, 64.0, 24.0, 36.0];

/// A line: its name, its colour, and its points: seconds and values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) tone: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws lines. `name` describes the values.
pub(crate) fn drawing(name: &str, lines: &[Line]) -> Markup {
    let [left, right, above, below] = ROOM;
    let (width, height) = (SIZE.0 - left - right, SIZE.1 - above - below);
    let every = || lines.iter().flat_map(|line| &line.points);
    let last = every().map(|point| point.0).fold(1e-9, f64::max);
    let highest = every().map(|point| point.1).fold(0.0, f64::max);
    let top = highest.max(1e-9) * 1.08;
    let at = |(seconds, value): &(f64, f64)| {
        format!("{:.1},{:.1}", left + seconds / last * width, above + height * (1.0 - value / top))
    };
    html! {
        svg.drawing viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img" aria-label={ (name) " over time" } {
            text x="0" y="12" { (name) }
            @for share in [0.0, 0.5, 1.0] {
                @let y = format!("{:.1}", above + height * (1.0 - share / 1.08));
                line.axis x1=(left) x2=(left + width) y1=(y) y2=(y) {}
                text x=(left - 6.0) y=(y) text-anchor="end" dominant-baseline="middle" {
                    (digits(highest * share))
                }
            }
            @for share in [0.0, 0.5, 1.0] {
                text.n x=(format!("{:.1}", left + width * share)) y=(SIZE.1 - 16.0) text-anchor="middle" {
                    (duration(last * share * 1e9))
                }
            }
            @for line in lines {
                polyline.{ "tone-" (line.tone) } points=(line.points.iter().map(at).collect::<Vec<_>>().join(" ")) {
                    title { (line.name) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the labels of the vertical axis for values up to `highest`.
    fn labels(highest: f64) -> Vec<String> {
        let line = Line { name: "a".to_owned(), tone: 0, points: vec![(0.5, 0.0), (1.0, highest)] };
        let drawn = drawing("mails a second", &[line]).into_string();
        let labels = drawn.split("dominant-baseline=\"middle\">").skip(1);
        labels.map(|rest| rest.split('<').next().unwrap_or_default().to_owned()).collect()
    }

    /// Guards against the labels "0, 1, 1" on an axis, and against a label for the height of an empty drawing.
    #[test]
    fn small_values_keep_their_fractions_on_the_axis() {
        assert_eq!(labels(1.0), ["0", "0.5", "1"]);
        assert_eq!(labels(0.4), ["0", "0.2", "0.4"]);
        assert_eq!(labels(12_000.0), ["0", "6,000", "12,000"]);
        assert_eq!(labels(0.0), ["0", "0", "0"]);
    }
}
