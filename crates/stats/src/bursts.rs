//! Bursts of stolen time: a few hundred consecutive calls of one pass, some of which cost much more.
//!
//! A burst raises the median of a window a little and its most expensive calls by much. Windows at small n are short,
//! so one burst covers several of them. If two or three passes have bursts at the same place, the points there rise
//! together and look like the shape of a law. The calls of a window show a burst even then: their 90th percentile is
//! higher, and farther from their median, than in the other passes. An effect that four of five passes show at an n is
//! a property of the call.

use crate::judgement::passes_min;
use crate::points::{Grid, Series, Window};
use crate::quantile::{deviation_within, median_of, upper_tenth};

/// Minimum number of passes: with fewer, it cannot be known which one was disturbed.
const PASSES_MIN: usize = 3;
/// Minimum number of calls for a 90th percentile.
const CALLS_MIN: usize = 9;
/// A window is in a burst if its spread exceeds the usual one by this many standard deviations plus this logarithm: a
/// burst of fewer calls hardly moves the median.
const BURST: (f64, f64) = (4.0, 0.1);
/// Quantile of the values of the passes at an n that is taken as the usual value.
const USUAL: f64 = 0.4;

/// Drops the cells whose windows are in a burst. `quantum` is the step of the clock in nanoseconds.
pub(crate) fn drop_cells(grid: &mut Grid, series: &[Series], windows: &[Window], quantum: f64) {
    if series.len() < PASSES_MIN {
        return;
    }
    let of_pass = |one: &Series| windows.iter().map(|window| Calls::of(one, window, quantum)).collect();
    let mut rows: Vec<Vec<Option<Calls>>> = series.iter().map(of_pass).collect();
    level(&mut rows);
    let usual_of = |f: &dyn Fn(&Calls) -> f64| (0..windows.len()).map(|j| usual(&rows, j, f)).collect::<Vec<_>>();
    let (spreads, uppers) = (usual_of(&Calls::spread), usual_of(&|calls| calls.upper));
    let excess = |calls: &Calls, j: usize| (calls.spread() - spreads[j], calls.upper - uppers[j]);
    let scaled = |row: &Vec<Option<Calls>>| {
        let calls = row.iter().enumerate().filter_map(|(j, calls)| Some((j, calls.as_ref()?)));
        calls.map(|(j, calls)| (excess(calls, j).0 * calls.count.sqrt()).abs()).collect::<Vec<f64>>()
    };
    let deviation = deviation_within(rows.len(), &mut rows.iter().flat_map(scaled).collect::<Vec<f64>>());
    let is_wide = |calls: &Calls, j: usize| {
        let (spread, upper) = excess(calls, j);
        // In a window with a step, the median of a pass may be on either side of it, but the upper calls are not.
        let limit = BURST.1 + calls.step;
        spread > BURST.0 * deviation / calls.count.sqrt() + limit && upper > limit
    };
    // A pass that is disturbed nearly throughout has no bursts. The few cells that would remain show nothing.
    let has_bursts = |row: &Vec<Option<Calls>>| {
        let wide = row.iter().enumerate().filter(|(j, calls)| calls.as_ref().is_some_and(|calls| is_wide(calls, *j)));
        2 * wide.count() <= row.iter().flatten().count()
    };
    let may_burst: Vec<bool> = rows.iter().map(has_bursts).collect();
    for j in 0..windows.len() {
        let calls = |pass: usize| rows[pass][j].as_ref().filter(|calls| may_burst[pass] && is_wide(calls, j));
        let mut bursts: Vec<(f64, usize)> =
            (0..rows.len()).filter_map(|pass| Some((calls(pass)?.spread(), pass))).collect();
        bursts.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        // A point with fewer passes would be lost.
        let spare = grid.passes_at(j).saturating_sub(passes_min(rows.len()));
        for (_, pass) in bursts.into_iter().take(spare) {
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

/// Returns the value that passes without a burst have at a point: the second smallest of five, the fourth smallest of
/// nine.
fn usual(rows: &[Vec<Option<Calls>>], j: usize, value: &dyn Fn(&Calls) -> f64) -> f64 {
    let mut values: Vec<f64> = rows.iter().filter_map(|row| row[j].as_ref().map(value)).collect();
    values.sort_unstable_by(f64::total_cmp);
    let at = (USUAL * values.len() as f64).ceil() as usize;
    values.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The calls of a pass in a window, in logarithms.
struct Calls {
    median: f64,
    /// The 90th percentile.
    upper: f64,
    /// A step of the clock: for equal costs a coarse clock reads one or two steps.
    step: f64,
    count: f64,
}

impl Calls {
    /// Returns `None` for fewer than `CALLS_MIN` calls.
    fn of(one: &Series, window: &Window, quantum: f64) -> Option<Self> {
        let mut costs = one.calls_in(window).to_vec();
        let count = costs.len();
        if count < CALLS_MIN {
            return None;
        }
        let (upper, below) = upper_tenth(&mut costs)?;
        let median = (*below.select_nth_unstable(count / 2).1).max(1) as f64;
        let (upper, step) = ((upper.max(1) as f64).ln(), (quantum / median).ln_1p());
        Some(Self { median: median.ln(), upper, step, count: count as f64 })
    }

    fn spread(&self) -> f64 {
        self.upper - self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{Noise, Truth, simulate, truths};
    use crate::points::reduce;
    use crate::{Curve, Judgement, Options, judge};

    fn truth(group: &str, detail: &str) -> Truth {
        truths(10_000).into_iter().find(|truth| truth.group == group && truth.detail == detail).unwrap()
    }

    /// Judges a curve whose only bursts are in the first `disturbed` passes, from 300 to 800.
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

    /// Guards against bursts of two passes at the same place that look like a law: the cost was reported as constant up
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

    /// Guards against losing points where two passes end early and a third has a burst.
    #[test]
    fn a_point_of_few_passes_keeps_them() {
        let quiet = Noise { bursts: 0.0, ..Noise::of_call(0.05) };
        let mut curve: Curve = simulate(&truth("constant", ""), &quiet, 10_000, 5, 1);
        for pass in &mut curve.passes[..2] {
            let short: Vec<usize> = (0..pass.n.len()).filter(|i| pass.n[*i] < 8_000).collect();
            pass.costs = short.iter().map(|i| pass.costs[*i]).collect();
            pass.n = short.iter().map(|i| pass.n[*i]).collect();
            pass.clean.truncate(short.len());
        }
        let last = &mut curve.passes[4];
        for i in (0..last.costs.len()).filter(|i| last.n[*i] > 9_000 && i % 5 < 2) {
            last.costs[i] *= 2;
        }
        let judged = judge(&curve, None, &Options::default()).all;
        assert!(judged.range.unwrap().1 > 9_500.0, "{:?}", judged.range);
    }

    /// Guards against a pass that loses nearly all of its cells: the slope of the remaining cells along the pass was
    /// ten, and the growth was not even known within a factor of two.
    #[test]
    fn a_pass_that_is_disturbed_throughout_keeps_its_cells() {
        let quiet = Noise { bursts: 0.0, ..Noise::of_call(0.05) };
        let mut curve: Curve = simulate(&truth("constant", ""), &quiet, 10_000, 5, 1);
        let pass = &mut curve.passes[2];
        for i in (0..pass.costs.len()).filter(|i| pass.n[*i] > 450 && i % 6 == 0) {
            pass.costs[i] *= 2;
        }
        let judged = judge(&curve, None, &Options::default()).all;
        let growth = judged.growth.unwrap();
        assert!(growth.high / growth.low < 1.1, "{growth:?}");
        assert!(judged.points.iter().all(|point| point.passes == 5), "{:?}", judged.points);
    }

    /// Guards against a coarse clock whose readings of one or two steps look like bursts.
    #[test]
    fn a_step_of_the_clock_is_no_burst() {
        let windows: Vec<Window> =
            (0..20).map(|j| Window { centre: 100.0 * f64::from(j) + 50.0, half: 49.0 }).collect();
        let mut random = crate::random::Random::new(5);
        let mut pass = |_| {
            let read = |cost: f64| (cost / 10.0).floor() as u64 * 10;
            let costs = (0..2_000).map(|_| read(26.5 + 2.5 * random.normal())).collect();
            Series { n: (0..2_000).collect(), costs, is_down: false }
        };
        let series: Vec<Series> = (0..5).map(&mut pass).collect();
        let options = Options { quantum_ns: Some(10.0), ..Options::default() };
        let dropped = |quantum| {
            let mut grid = reduce(&series, &windows, &options);
            drop_cells(&mut grid, &series, &windows, quantum);
            grid.cells.iter().flatten().filter(|cell| cell.is_none()).count()
        };
        assert_eq!(dropped(10.0), 0);
        // With these costs the step of the clock matters.
        assert!(dropped(0.0) > 0);
    }

    /// Guards against losing a point where most passes have a burst: the range would end there.
    #[test]
    fn a_point_keeps_most_of_its_passes() {
        let judged = judged(&truth("constant", ""), 3, 1);
        assert!(judged.points.iter().all(|point| point.passes >= 3), "{:?}", judged.points);
    }
}
