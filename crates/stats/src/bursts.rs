//! Bursts of stolen time: a few hundred consecutive calls of one pass, of which a part costs much more.
//!
//! A burst raises the median of a window a little and its upper calls much. Windows at small n are short, so one burst
//! covers several of them; and where two or three passes have theirs at the same place, the points there rise together
//! and look like the shape of a law. The calls of a window show a burst even then: their upper tenth is farther from
//! their median than in the other passes, and above it. What most passes show at an n belongs to the call.

use crate::points::{Grid, Series, Window};
use crate::quantile::median_of;

/// Fewer passes do not show which of them was disturbed.
const PASSES_MIN: usize = 3;
/// Fewer calls have no upper tenth.
const CALLS_MIN: usize = 9;
/// The upper calls begin at this quantile.
const UPPER: f64 = 0.9;
/// A window is in a burst if its spread exceeds the usual one by so many standard deviations and so much more
/// (logarithm): a burst of fewer calls hardly moves the median.
const BURST: (f64, f64) = (4.0, 0.1);
/// What this share of the passes shows at an n is usual there.
const USUAL: f64 = 0.4;

/// Leaves out the cells whose windows are in a burst.
pub(crate) fn drop_cells(grid: &mut Grid, series: &[Series], windows: &[Window]) {
    if series.len() < PASSES_MIN {
        return;
    }
    let of_pass = |one: &Series| windows.iter().map(|window| Calls::of(one, window)).collect();
    let mut rows: Vec<Vec<Option<Calls>>> = series.iter().map(of_pass).collect();
    level(&mut rows);
    let usual_of = |f: &dyn Fn(&Calls) -> f64| (0..windows.len()).map(|j| usual(&rows, j, f)).collect::<Vec<_>>();
    let (spreads, uppers) = (usual_of(&Calls::spread), usual_of(&|calls| calls.upper));
    let excess = |calls: &Calls, j: usize| (calls.spread() - spreads[j], calls.upper - uppers[j]);
    let scaled = |row: &Vec<Option<Calls>>| {
        let calls = row.iter().enumerate().filter_map(|(j, calls)| Some((j, calls.as_ref()?)));
        calls.map(|(j, calls)| (excess(calls, j).0 * calls.count.sqrt()).abs()).collect::<Vec<f64>>()
    };
    let deviation = 1.4826 * median_of(&mut rows.iter().flat_map(scaled).collect::<Vec<f64>>()).unwrap_or(0.0);
    let is_burst = |calls: &Calls, j: usize| {
        let (spread, upper) = excess(calls, j);
        // In a window with a step, the median of a pass may be on either side of it, but the upper calls are not.
        spread > BURST.0 * deviation / calls.count.sqrt() + BURST.1 && upper > BURST.1
    };
    for j in 0..windows.len() {
        let calls = |pass: usize| rows[pass][j].as_ref().filter(|calls| is_burst(calls, j));
        let mut bursts: Vec<(f64, usize)> =
            (0..rows.len()).filter_map(|pass| Some((calls(pass)?.spread(), pass))).collect();
        bursts.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        // A point without most of the passes would be lost.
        for (_, pass) in bursts.into_iter().take(grid.passes_at(j) / 2) {
            grid.cells[pass][j] = None;
        }
    }
}

/// Removes the level of each pass.
fn level(rows: &mut [Vec<Option<Calls>>]) {
    let windows = rows.first().map_or(0, Vec::len);
    let middle = |j: usize| {
        let mut column: Vec<f64> = rows.iter().filter_map(|row| row[j].as_ref().map(|calls| calls.median)).collect();
        median_of(&mut column).unwrap_or(0.0)
    };
    let middles: Vec<f64> = (0..windows).map(middle).collect();
    for row in rows {
        let distances = row.iter().zip(&middles).filter_map(|(calls, middle)| Some(calls.as_ref()?.median - middle));
        let level = median_of(&mut distances.collect::<Vec<f64>>()).unwrap_or(0.0);
        for calls in row.iter_mut().flatten() {
            (calls.median, calls.upper) = (calls.median - level, calls.upper - level);
        }
    }
}

/// What the passes without a burst show at a point: the second smallest of five.
fn usual(rows: &[Vec<Option<Calls>>], j: usize, value: &dyn Fn(&Calls) -> f64) -> f64 {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| row[j].as_ref().map(value)).collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = (USUAL * values.len() as f64).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The calls of a pass in a window, in logarithms.
struct Calls {
    median: f64,
    /// The quantile at which the upper calls begin.
    upper: f64,
    count: f64,
}

impl Calls {
    /// `None` for a few calls.
    fn of(one: &Series, window: &Window) -> Option<Self> {
        let from = one.n.partition_point(|n| f64::from(*n) < window.centre - window.half);
        let to = one.n.partition_point(|n| f64::from(*n) <= window.centre + window.half);
        let mut costs = one.costs[from..to].to_vec();
        let count = costs.len();
        if count < CALLS_MIN {
            return None;
        }
        let upper = ((count as f64 - 1.0) * UPPER) as usize;
        let (below, upper, _) = costs.select_nth_unstable(upper);
        let log = |cost: u64| (cost.max(1) as f64).ln();
        let upper = log(*upper);
        Some(Self { median: log(*below.select_nth_unstable(count / 2).1), upper, count: count as f64 })
    }

    fn spread(&self) -> f64 {
        self.upper - self.median
    }
}

#[cfg(test)]
mod tests {
    use crate::dense::{Noise, Truth, simulate, truths};
    use crate::{Curve, Judgement, Options, judge};

    fn truth(group: &str, detail: &str) -> Truth {
        truths(10_000).into_iter().find(|truth| truth.group == group && truth.detail == detail).unwrap()
    }

    /// A curve without bursts but those of the first passes, from 300 to 800.
    fn judged(truth: &Truth, disturbed: usize, seed: u64) -> Judgement {
        let quiet = Noise { bursts: 0.0, ..Noise::of_call(0.15) };
        let mut curve: Curve = simulate(truth, &quiet, 10_000, 5, seed);
        for pass in &mut curve.passes[..disturbed] {
            for i in (0..pass.costs.len()).filter(|i| (300..800).contains(&pass.n[*i]) && i % 5 < 2) {
                pass.costs[i] *= 2;
            }
        }
        judge(&curve, None, &Options::default()).all
    }

    /// Guards against bursts of two passes at the same place that look like a law: the cost was said to be constant up
    /// to 1,000 and linear from there.
    #[test]
    fn bursts_at_one_place_in_two_passes_make_no_law() {
        let linear = truth("linear", "×2");
        let is_named = |judged: &Judgement| judged.fit.iter().chain(&judged.rivals).any(|fit| fit.law == "linear");
        let named = |disturbed: usize| {
            (1..=12).filter(|seed| seed % 4 != 0 && is_named(&judged(&linear, disturbed, *seed))).count()
        };
        let (quiet, disturbed) = (named(0), named(2));
        assert!(quiet >= 8 && disturbed >= 8, "{quiet} and {disturbed} of 9");
    }

    /// Guards against a point that is lost where most passes have a burst: the range would end there.
    #[test]
    fn a_point_keeps_most_of_its_passes() {
        let judged = judged(&truth("constant", ""), 3, 1);
        assert!(judged.points.iter().all(|point| point.passes >= 3), "{:?}", judged.points);
    }
}
