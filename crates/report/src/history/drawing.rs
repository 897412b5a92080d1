//! The drawings of a trend as SVG: a line over the records, and a row for each host or kernel.

use super::{Kind, Line, Point, Scale, Trend, date, day};
use maud::{Markup, html};

/// The size of a drawing over dates, and its margins: left, right, top, bottom.
const SIZE: (f64, f64) = (600.0, 180.0);
const ROOM: [f64; 4] = [84.0, 14.0, 12.0, 28.0];
/// Height of a row for a host or a kernel.
const ROW: f64 = 22.0;
/// The width reserved for the value next to a row.
const VALUE: f64 = 96.0;
/// Size of a drawing in a table.
const SPARK: (f64, f64) = (144.0, 28.0);

/// Draws one line of a trend over the records in order of time, equally spaced.
pub(super) fn over_dates(trend: &Trend, line: &Line) -> Markup {
    let scale = Scale::of(std::slice::from_ref(line), trend.kind);
    let [left, right, above, below] = ROOM;
    let (width, height) = (SIZE.0 - left - right, SIZE.1 - above - below);
    let count = line.points.len();
    let x =
        |index: usize| if count < 2 { left + width / 2.0 } else { left + width * index as f64 / (count - 1) as f64 };
    let y = |value: f64| above + height * (1.0 - scale.place(value));
    let path = line.points.iter().enumerate().map(|(i, point)| format!("{:.1},{:.1}", x(i), y(point.value)));
    let radius = if count > 120 { 1.5 } else { 3.0 };
    html! {
        svg.drawing viewBox={ "0 0 " (SIZE.0) " " (SIZE.1) } role="img"
            aria-label={ (trend.subject()) ", " (trend.title()) "; the table below has every value" }
        {
            @for share in [0.0, 0.5, 1.0] {
                @let value = scale.low + (scale.high - scale.low) * share;
                @let at = format!("{:.1}", y(value));
                line.axis x1=(left) x2=(left + width) y1=(at) y2=(at) {}
                text x=(left - 6.0) y=(at) text-anchor="end" dominant-baseline="middle" { (trend.kind.text(value)) }
            }
            @if let (Some(first), Some(last)) = (line.points.first(), line.points.last()) {
                text x=(left) y=(SIZE.1 - 8.0) { (date(&first.started)) }
                @if count > 1 { text x=(left + width) y=(SIZE.1 - 8.0) text-anchor="end" { (date(&last.started)) } }
            }
            @for change in &line.changes {
                @let at = format!("{:.1}", f64::midpoint(x(change.index.saturating_sub(1)), x(change.index)));
                line.edge x1=(at) x2=(at) y1=(above) y2=(above + height) {}
            }
            polyline.tone-0 points=(path.collect::<Vec<_>>().join(" ")) {}
            @for (index, point) in line.points.iter().enumerate() {
                circle.value cx=(format!("{:.1}", x(index))) cy=(format!("{:.1}", y(point.value))) r=(radius) {
                    title { (point.name) ", " (day(&point.started)) ": " (trend.kind.text(point.value)) }
                }
            }
        }
    }
}

/// Draws a row for each host or kernel: the range of its records and their median.
pub(super) fn over_names(trend: &Trend, line: &Line) -> Markup {
    let scale = Scale::of(std::slice::from_ref(line), trend.kind);
    let (left, width) = (10.0, SIZE.0 - VALUE - 20.0);
    let x = |value: f64| format!("{:.1}", left + width * scale.place(value));
    let height = 2.0 * ROW * line.points.len() as f64;
    html! {
        svg.drawing viewBox={ "0 0 " (SIZE.0) " " (height) } role="img"
            aria-label={ (trend.subject()) ", " (trend.title()) "; the table below has every value" }
        {
            @for (index, point) in line.points.iter().enumerate() {
                @let middle = ROW * (2.0 * index as f64 + 1.4);
                text x=(left) y=(format!("{:.1}", middle - 10.0)) { (point.name) }
                line.axis x1=(left) x2=(left + width) y1=(middle) y2=(middle) {}
                line.span x1=(x(point.range.0)) x2=(x(point.range.1)) y1=(middle) y2=(middle) {}
                circle.value cx=(x(point.value)) cy=(middle) r="4" {}
                text x=(SIZE.0) y=(format!("{:.1}", middle + 4.0)) text-anchor="end" { (trend.kind.text(point.value)) }
            }
        }
    }
}

/// Draws a line without axes, for a table; the text next to it has the same information.
pub(super) fn spark(line: &Line, kind: Kind) -> Markup {
    let scale = Scale::of(std::slice::from_ref(line), kind);
    let (width, height) = (SPARK.0 - 8.0, SPARK.1 - 8.0);
    let last = line.points.len().saturating_sub(1).max(1) as f64;
    let x = |index: usize| 4.0 + width * index as f64 / last;
    let at = |(index, point): (usize, &Point)| {
        format!("{:.1},{:.1}", x(index), 4.0 + height * (1.0 - scale.place(point.value)))
    };
    html! {
        svg.spark viewBox={ "0 0 " (SPARK.0) " " (SPARK.1) } aria-hidden="true" focusable="false" {
            @for change in &line.changes {
                @let at = format!("{:.1}", x(change.index));
                line.edge x1=(at) x2=(at) y1="0" y2=(SPARK.1) {}
            }
            polyline points=(line.points.iter().enumerate().map(at).collect::<Vec<_>>().join(" ")) {}
            @if line.points.len() == 1 { circle.value cx=(x(0)) cy=(SPARK.1 / 2.0) r="2.5" {} }
        }
    }
}
