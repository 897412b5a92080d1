//! Small static pictures of curves: for a cell of the overview, and with labelled ends for a finding.
//!
//! Both axes are logarithmic, except along a timeline. The pictures repeat information of the adjacent text, so screen
//! readers skip them.

use crate::quantity::{FormatCost, count};
use crate::reduce::Columns;
use crate::text;
use crate::{PhaseStudy, ends};
use maud::{Markup, html};

/// Maximum number of points of a curve in a cell.
const POINTS_MAX: usize = 24;
/// Maximum number of points of a curve in a picture of a finding.
const PICTURE_POINTS_MAX: usize = 60;
/// A cost that changes by less than this factor uses only its share of the height, so that a flat cost looks flat.
const RANGE_MIN: f64 = 4.0;
/// Maximum number of recurring outliers drawn in a picture of a finding.
const OUTLIERS_MAX: usize = 24;

/// The mapping of a picture's points to its own units.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
    width: f64,
    height: f64,
    /// The margins of the curve: left, right, top, bottom.
    room: [f64; 4],
}

impl Scale {
    /// Returns the position of a point given in logarithms.
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let [left, right, top, bottom] = self.room;
        let across = left + (x - self.x.0) / (self.x.1 - self.x.0) * (self.width - left - right);
        let (middle, half) =
            (f64::midpoint(self.y.0, self.y.1), ((self.y.1 - self.y.0) / 2.0).max(RANGE_MIN.ln() / 2.0));
        let high = self.height - top - bottom;
        (across, top + high / 2.0 - (y - middle) / half * (high / 2.0))
    }

    fn text(&self, point: (f64, f64)) -> String {
        let (x, y) = self.at(point);
        format!("{x:.0},{y:.0}")
    }

    fn line(&self, points: &[(f64, f64)]) -> String {
        points.iter().map(|point| self.text(*point)).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the curve in logarithms of n and cost, with at most `most` points: between the two ends whose costs are
/// stated, or, if there are none, the medians of the calls.
fn curve(phase: &PhaseStudy<'_>, most: usize) -> Vec<(f64, f64)> {
    let judged = &phase.verdict.all;
    let from = ends::small(judged).map_or(1.0, |small| small.n.max(1.0));
    let to = ends::large(judged).map_or(f64::INFINITY, |large| large.n);
    let points = judged.points.iter().map(|point| (point.n, point.cost.value));
    let points: Vec<(f64, f64)> = points.filter(|(n, cost)| (from..=to).contains(n) && *cost > 0.0).collect();
    let points = if points.len() < 2 { medians(phase) } else { points };
    let last = points.len().saturating_sub(1);
    let stride = points.len().div_ceil(most).max(1);
    let kept = points.into_iter().enumerate().filter(|(i, _)| i % stride == 0 || *i == last);
    kept.map(|(_, (n, cost))| (n.ln(), cost.ln())).collect()
}

/// Returns the median over the passes of the median of each column.
fn medians(phase: &PhaseStudy<'_>) -> Vec<(f64, f64)> {
    let passes = || phase.curve.passes.iter();
    let columns = Columns::up_to(passes().flat_map(|pass| pass.n.iter().copied()).max().unwrap_or(1));
    let kept: Vec<_> = passes().map(|pass| columns.keep(pass)).collect();
    let column = |i: usize| {
        let mut costs: Vec<f64> = kept.iter().filter_map(|pass| pass[i].map(|kept| kept.median)).collect();
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).map(|cost| (columns.middle(i), *cost))
    };
    (0..columns.len()).filter_map(column).filter(|(_, cost)| *cost > 0.0).collect()
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Renders the picture of a cell: the curve, and a vertical line at each cliff.
pub(crate) fn cell(phase: &PhaseStudy<'_>) -> Markup {
    let points = curve(phase, POINTS_MAX);
    let (x, y) = (ends(points.iter().map(|point| point.0)), ends(points.iter().map(|point| point.1)));
    if points.len() < 2 || x.1 <= x.0 {
        return html! { svg.thumb viewBox="0 0 144 48" aria-hidden="true" focusable="false" {} };
    }
    let scale = Scale { x, y, width: 144.0, height: 48.0, room: [3.0, 3.0, 5.0, 5.0] };
    let class = text::class_word(phase.verdict.class());
    html! {
        svg.thumb viewBox="0 0 144 48" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for cliff in phase.verdict.all.cliffs.iter().filter(|cliff| cliff.n.value >= 1.0) {
                @let at = format!("{:.0}", scale.at((cliff.n.value.ln(), y.0)).0);
                line.edge x1=(at) x2=(at) y1="2" y2="46" {}
            }
            polyline class=(class) points=(scale.line(&points)) {}
        }
    }
}

/// The size of a picture of a finding, and of its right margin for labels.
const PICTURE: (f64, f64, f64) = (300.0, 108.0, 78.0);

/// The width of a character of a label and the height of its digits, in the units of a picture.
const LABEL: (f64, f64) = (6.5, 9.0);
/// The gap between a curve and its label.
const LABEL_GAP: f64 = 5.0;

/// Returns the scale of a picture; `None` without two different n.
fn scale<'a>(points: impl Iterator<Item = &'a (f64, f64)> + Clone) -> Option<Scale> {
    let (x, y) = (ends(points.clone().map(|point| point.0)), ends(points.map(|point| point.1)));
    let (width, height, labels) = PICTURE;
    (x.1 > x.0).then_some(Scale { x, y, width, height, room: [6.0, labels, 12.0, 20.0] })
}

/// Renders the axis of n with its ends.
fn frame(scale: &Scale, axis: &str) -> Markup {
    let (right, bottom) = (scale.width - scale.room[1], scale.height - 18.0);
    html! {
        line.axis x1="6" x2=(right) y1=(bottom) y2=(bottom) {}
        text.n x="6" y=(scale.height - 4.0) { (count(scale.x.0.exp().round())) }
        text.n x=(right) y=(scale.height - 4.0) text-anchor="end" { (count(scale.x.1.exp().round())) " " (axis) }
    }
}

/// Renders the picture of a finding: the curve with the cost at both ends, n at both ends, cliffs and recurring
/// outliers.
pub(crate) fn picture(phase: &PhaseStudy<'_>, axis: &str) -> Markup {
    let (points, outliers) = (curve(phase, PICTURE_POINTS_MAX), outliers(phase));
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return html! {} };
    let Some(scale) = scale(points.iter().chain(&outliers)) else { return html! {} };
    let judged = &phase.verdict.all;
    // If nothing is judged, the label is that of the point that is drawn.
    let label = |end: Option<ends::CostAt>, point: (f64, f64)| {
        judged.unit.bare(end.map_or(point.1.exp().round(), |end| end.cost.value))
    };
    let start = label(ends::small(judged), *first);
    let (start_x, start_y) = clear_of(&scale, &points, &outliers, &start);
    let end = scale.at(*last);
    html! {
        svg.picture viewBox="0 0 300 108" aria-hidden="true" focusable="false" {
            (frame(&scale, axis))
            @for cliff in phase.verdict.all.cliffs.iter().filter(|cliff| cliff.n.value >= 1.0) {
                @let at = format!("{:.0}", scale.at((cliff.n.value.ln(), scale.y.0)).0);
                line.edge x1=(at) x2=(at) y1="4" y2="90" {}
            }
            @for point in &outliers {
                @let (x, y) = scale.at(*point);
                circle cx=(format!("{x:.0}")) cy=(format!("{y:.0}")) r="2.2" {}
            }
            polyline class=(text::class_word(phase.verdict.class())) points=(scale.line(&points)) {}
            text x=(format!("{start_x:.0}")) y=(format!("{start_y:.0}")) { (start) }
            text x=(scale.width - scale.room[1] + 6.0) y=(format!("{:.0}", end.1 + 4.0)) {
                (label(ends::large(judged), *last))
            }
        }
    }
}

/// Returns the position of the label of the curve's start, so that the curve does not cross it. It is above the curve,
/// or between it and the axis, whichever has room and no outlier. If neither has room, it is at the height of the
/// start, to the right of where the curve leaves that height, or to the left of the curve if the label of its end is
/// there. The curve may start later than the first outlier.
fn clear_of(scale: &Scale, points: &[(f64, f64)], outliers: &[(f64, f64)], label: &str) -> (f64, f64) {
    let width = label.chars().count() as f64 * LABEL.0;
    let drawn: Vec<(f64, f64)> = points.iter().map(|point| scale.at(*point)).collect();
    // The label of the end is to the right of the curve.
    let most = scale.width - scale.room[1] - width;
    let left = drawn.first().map_or(scale.room[0], |(x, _)| x.min(most));
    let beside = |x: f64, y: f64| (left..=left + width).contains(&x).then_some(y);
    let crossed = drawn.windows(2).filter_map(|pair| at(pair, left + width));
    let (top, bottom) = ends(drawn.iter().filter_map(|(x, y)| beside(*x, *y)).chain(crossed));
    let (above, below) = (top - LABEL_GAP, bottom + LABEL_GAP + LABEL.1);
    let has_room = |baseline: &f64| *baseline >= LABEL.1 && *baseline <= scale.height - scale.room[3];
    let is_free = |baseline: &f64| {
        let is_on_it = |(x, y): (f64, f64)| beside(x, y).is_some() && y > baseline - LABEL.1 && y < *baseline;
        !outliers.iter().any(|outlier| is_on_it(scale.at(*outlier)))
    };
    let places: Vec<f64> = [above, below].into_iter().filter(has_room).collect();
    if let Some(baseline) = places.iter().find(|place| is_free(place)).or(places.first()) {
        return (left, *baseline);
    }
    let middle = f64::midpoint(top, bottom);
    let rises = drawn.first().is_some_and(|(_, y)| *y > middle);
    let baseline = if rises { bottom } else { top + LABEL.1 };
    let beyond = drawn.iter().find(|(_, y)| (*y < middle) == rises).map_or(left, |(x, _)| *x) + LABEL_GAP;
    let before = drawn.first().map_or(0.0, |(x, _)| *x) - LABEL_GAP - width;
    (if beyond > most && before >= 0.0 { before } else { beyond }, baseline)
}

/// Returns the height of a line between two points at an x between them.
fn at(pair: &[(f64, f64)], x: f64) -> Option<f64> {
    let ((from, low), (to, high)) = (pair[0], pair[1]);
    ((from..to).contains(&x)).then(|| low + (high - low) * (x - from) / (to - from))
}

/// A curve of one of several records.
pub(crate) struct Line<'a> {
    /// The record's name.
    pub(crate) name: &'a str,
    pub(crate) phase: &'a PhaseStudy<'a>,
    /// Whether the finding is about it; other lines are thin.
    pub(crate) is_strong: bool,
}

/// Renders the picture of a curve in several records, with the names of those that the finding is about.
pub(crate) fn compared(lines: &[Line<'_>], axis: &str) -> Markup {
    let drawn: Vec<(&Line<'_>, Vec<(f64, f64)>)> =
        lines.iter().map(|line| (line, curve(line.phase, PICTURE_POINTS_MAX))).collect();
    let Some(scale) = scale(drawn.iter().flat_map(|(_, points)| points)) else { return html! {} };
    let mut labels: Vec<(f64, &str)> = drawn
        .iter()
        .filter(|(line, _)| line.is_strong)
        .filter_map(|(line, points)| Some((scale.at(*points.last()?).1 + 4.0, line.name)))
        .collect();
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Labels that would overlap are moved down.
    for i in 1..labels.len() {
        labels[i].0 = labels[i].0.max(labels[i - 1].0 + 12.0);
    }
    html! {
        svg.picture viewBox="0 0 300 108" aria-hidden="true" focusable="false" {
            (frame(&scale, axis))
            @for (line, points) in &drawn {
                @let class = if line.is_strong { text::class_word(line.phase.verdict.class()) } else { "thin" };
                polyline class=(class) points=(scale.line(points)) {}
            }
            @for (y, name) in &labels {
                text x=(scale.width - scale.room[1] + 6.0) y=(format!("{y:.0}")) { (name) }
            }
        }
    }
}

/// Returns the most expensive recurring outliers in logarithms, except the first calls.
fn outliers(phase: &PhaseStudy<'_>) -> Vec<(f64, f64)> {
    let first = phase.verdict.outliers.patterns.iter().filter(|pattern| text::is_first_calls(pattern));
    let first: Vec<u32> = first.flat_map(|pattern| phase.verdict.outliers.following(pattern)).collect();
    let mut calls: Vec<_> = phase.verdict.outliers.recurring.iter().filter(|call| !first.contains(&call.n)).collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.cost_median));
    calls.truncate(OUTLIERS_MAX);
    calls.iter().map(|call| (f64::from(call.n.max(1)).ln(), (call.cost_median.max(1) as f64).ln())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a label that is crossed by its own curve.
    #[test]
    fn the_label_of_the_start_is_clear_of_the_curve() {
        let curves = [
            vec![(0.0, 0.0), (0.5, 2.0), (1.0, 9.0)],
            vec![(0.0, 9.0), (0.1, 5.0), (1.0, 0.0)],
            vec![(0.0, 5.0), (1.0, 5.0)],
            vec![(0.0, 0.0), (0.05, 9.0), (1.0, 9.0)],
            vec![(0.0, 9.0), (0.05, 0.0), (1.0, 0.0)],
        ];
        for points in curves {
            let scale = scale(points.iter()).expect("two different n");
            let (x, baseline) = clear_of(&scale, &points, &[], "811 ns");
            let (across, label) = (x..=x + 6.0 * LABEL.0, baseline - LABEL.1..=baseline);
            let drawn: Vec<(f64, f64)> = points.iter().map(|point| scale.at(*point)).collect();
            for at_x in (0..=300).map(f64::from).filter(|at_x| across.contains(at_x)) {
                for y in drawn.windows(2).filter_map(|pair| at(pair, at_x)) {
                    assert!(!label.contains(&y), "{points:?}: {y} in {label:?}");
                }
            }
            // The labels of n are below the axis.
            assert!(*label.start() >= 0.0 && *label.end() <= 90.0, "{points:?}: {label:?}");
        }
    }

    /// Guards against a label under the dots of recurring outliers.
    #[test]
    fn the_label_of_the_start_is_clear_of_outliers() {
        let (curve, outliers) = ([(0.0, 1.0), (1.0, 1.0)], [(0.0, 1.2), (0.1, 1.2), (0.5, 2.0), (1.0, 0.0)]);
        let scale = scale(curve.iter().chain(&outliers)).expect("two different n");
        let height = scale.at(curve[0]).1;
        assert!(clear_of(&scale, &curve, &[], "811 ns").1 < height);
        assert!(clear_of(&scale, &curve, &outliers, "811 ns").1 > height);
    }

    /// Guards against a label at y="inf" for a curve whose points are all to the right of the outliers.
    #[test]
    fn the_label_of_a_late_start_is_beside_it() {
        for (start, end) in [(0.5, 1.0), (0.9, 1.0), (0.99, 1.0)] {
            let (curve, outliers) = ([(start, 1.0), (end, 1.2)], [(0.0, 2.0)]);
            let scale = scale(curve.iter().chain(&outliers)).expect("two different n");
            let (x, baseline) = clear_of(&scale, &curve, &outliers, "811 ns");
            let drawn = scale.at(curve[0]);
            assert!(x <= drawn.0 && x + 6.0 * LABEL.0 >= drawn.0 - 1e-9, "{x} for {}", drawn.0);
            assert!((baseline - drawn.1).abs() < 30.0, "{baseline} for {}", drawn.1);
        }
    }

    /// Guards against overlapping labels of a curve that is steep, and so short that both are at its end.
    #[test]
    fn the_label_of_a_late_steep_start_is_not_on_that_of_the_end() {
        for (from, to) in [(0.0, 9.0), (9.0, 0.0)] {
            let (curve, outliers) = ([(0.97, from), (1.0, to)], [(0.0, 4.0)]);
            let scale = scale(curve.iter().chain(&outliers)).expect("two different n");
            let (x, baseline) = clear_of(&scale, &curve, &outliers, "811 ns");
            let (first, last) = (scale.at(curve[0]), scale.at(curve[1]));
            assert!(x >= 0.0 && x + 6.0 * LABEL.0 < first.0, "{x} to {} for {first:?}", x + 6.0 * LABEL.0);
            assert!((baseline - first.1).abs() <= LABEL.1 && (baseline - last.1).abs() > LABEL.1, "{baseline}");
        }
    }
}
