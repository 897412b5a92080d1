//! Cold calls: the first calls of a pass, in order of time, that cost more than the same calls cost later.
//!
//! Caches, slabs and page tables are cold at the start of a pass. On the way up these calls are at small n, on the way
//! down at the largest. A cost that falls with time at the start of all passes is warm-up and is not judged. On the way
//! down a growing cost falls too, so only the excess over the continuation of the later calls counts.

use crate::Options;
use crate::growth::{SLOPE_MISFIT_MAX, by_slope};
use crate::points::{Grid, Series};
use crate::polish::{Level, level};
use crate::quantile::{median_of, median_of_costs};
use crate::select::{excess, questioned};

/// Number of calls in a block.
const BLOCK: usize = 8;
/// Maximum number of cold calls, and their maximum share of a pass.
const CALLS_MAX: usize = 256;
const SHARE_MAX: f64 = 0.125;
/// An excess below this (logarithm), or below this many standard errors, does not count as warm-up.
const EXCESS_MIN: f64 = 0.01;
const ERRORS: f64 = 2.5;

/// Returns the number of calls at the start of a pass of this length that may be cold.
pub(crate) fn cold_max(calls: usize) -> usize {
    ((calls as f64 * SHARE_MAX) as usize).min(CALLS_MAX)
}

/// Returns the number of calls at the start of each pass that are cold.
pub(crate) fn cold_calls(series: &[Series]) -> usize {
    let shortest = series.iter().map(|one| one.n.len()).min().unwrap_or(0);
    let most = cold_max(shortest) / BLOCK;
    if most < 3 {
        return 0;
    }
    let is_down = series.iter().filter(|one| one.is_down).count() * 2 > series.len();
    let profile = profile(series, 3 * most, most);
    let error = deviation(&profile[most..]);
    let (excess, base_error) = if is_down { beyond_trend(&profile, most, error) } else { (profile, 0.0) };
    let ahead = |b: usize| (b + (b / 2).max(3)).min(excess.len());
    let smooth = |b: usize| excess[b..ahead(b)].iter().sum::<f64>() / (ahead(b) - b) as f64;
    let smoothed: Vec<f64> = (0..=2 * most).map(smooth).collect();
    // The lowest cost of later calls; on the way down the trend replaces it.
    let later = |b: usize| if is_down { 0.0 } else { smoothed[b + 1..].iter().copied().fold(f64::MAX, f64::min) };
    let is_cold = |b: &usize| {
        let errors = (error * error / (ahead(*b) - b) as f64).sqrt().hypot(base_error);
        smoothed[*b] - later(*b) > EXCESS_MIN + ERRORS * errors
    };
    // A mean over the next blocks detects the end of an abrupt warm-up too early.
    let end = (0..most).take_while(is_cold).count();
    if end == 0 { 0 } else { (BLOCK * ahead(end - 1)).min(BLOCK * most) }
}

/// Minimum number of points that must remain, and the smallest range of n, as a factor.
pub(crate) const POINTS_MIN: usize = 12;
pub(crate) const RANGE_MIN: f64 = 7.0;
/// Points that together exceed the law of the others by this many standard errors are still cold.
const TOGETHER: f64 = 2.5;
/// Smallest excess of cold points, as a share of the rise (in logarithms). If the cost grows much, a law that fits
/// within this share fits. A smaller excess is a shape of the curve, and does not justify the loss of range.
const SHARE_OF_RISE: f64 = 0.02;

/// A reduced curve whose first calls may still be cold.
pub(crate) struct Reduced<'a> {
    pub(crate) grid: &'a Grid,
    /// The series, without the calls that were already dropped.
    pub(crate) series: &'a [Series],
    /// The number of calls of each pass that were already dropped.
    pub(crate) cold: usize,
    pub(crate) capacities: &'a [f64],
}

/// Drops the points of the first calls that exceed the law of the others. Growth hides a warm-up that is slower than
/// the growth. Only the law of the later calls then shows the warm-up.
///
/// Together with the calls that were already dropped, these do not exceed the maximum that may be cold. Returns the
/// level of the judged points if no point was dropped and the level is known.
pub(crate) fn drop_points(reduced: &Reduced<'_>, judged: &mut [bool], options: &Options) -> Option<Level> {
    let Reduced { grid, series, cold, capacities } = *reduced;
    let longest = series.iter().max_by_key(|one| one.n.len())?;
    let (first, last) = (f64::from(*longest.n.first()?), f64::from(*longest.n.last()?));
    let is_down = longest.is_down;
    let most = ((last - first + cold as f64) * SHARE_MAX).min(CALLS_MAX as f64) - cold as f64;
    let when = |n: f64| if is_down { last - n } else { n - first };
    let kept: Vec<usize> = (0..grid.n.len()).filter(|j| judged[*j]).collect();
    let is_late: Vec<bool> = kept.iter().map(|j| when(grid.n[*j]) - grid.half[*j] > most).collect();
    let late = is_late.iter().filter(|late| **late).count();
    if late < POINTS_MIN || late == kept.len() || grid.half.iter().all(|half| *half == 0.0) {
        return None;
    }
    let level = level(&grid.filtered(judged));
    let mut found = excess(&level, &is_late, capacities, options);
    let mut places = kept;
    if is_down {
        places.reverse();
        found.reverse();
    }
    let lowest = level.mean.iter().copied().fold(f64::MAX, f64::min);
    let rise = level.mean.iter().copied().fold(f64::MIN, f64::max) - lowest;
    let early = places.len() - late;
    // Finds the longest prefix whose last pair of points is still too expensive.
    let is_warm = |i: usize| {
        let pair = &found[i.saturating_sub(1)..=i];
        let count = pair.len() as f64;
        let errors = pair.iter().map(|one| one.errors).sum::<f64>() / count.sqrt();
        let log = pair.iter().map(|one| one.log).sum::<f64>() / count;
        errors > TOGETHER && log > (SHARE_OF_RISE * rise).max(EXCESS_MIN)
    };
    // Points are never dropped if the remaining range would be too small to show a shape.
    let is_enough = |i: usize| {
        let rest = &places[i + 1..];
        let ends = rest.first().zip(rest.last()).map(|(a, b)| (grid.n[*b] / grid.n[*a]).ln().abs());
        ends.is_some_and(|range| range >= RANGE_MIN.ln())
    };
    let early = (0..early).take_while(|i| is_enough(*i)).count();
    if let Some(end) = (0..early).rev().find(|i| is_warm(*i)) {
        places[..=end].iter().for_each(|j| judged[*j] = false);
        return None;
    }
    let rest = questionable(grid, judged, &level, (&places, early), (capacities, options));
    if let Some(rest) = rest {
        judged.copy_from_slice(&rest);
        return None;
    }
    Some(level)
}

/// Returns the judged points without the fewest early points whose removal makes the best law unquestioned, if they
/// exceed it. If no law describes the rest either, all early points are dropped in two cases: on the way up, if the
/// first one costs more than the next late point; and if the curve is not straight and the first one costs more than
/// the last. The reasons: a shape that begins with a fall cannot be distinguished from a warm-up. Under a growth that
/// follows no law a warm-up is invisible, but turns a curve that ends at the cost of its beginning into a fall.
fn questionable(
    grid: &Grid,
    judged: &[bool],
    whole: &Level,
    (places, early): (&[usize], usize),
    (capacities, options): (&[f64], &Options),
) -> Option<Vec<bool>> {
    if early == 0 || !questioned(whole, capacities, options) {
        return None;
    }
    let kept: Vec<usize> = (0..grid.n.len()).filter(|j| judged[*j]).collect();
    let mut rest = judged.to_vec();
    for (count, place) in places[..early].iter().enumerate() {
        rest[*place] = false;
        if questioned(&level(&grid.filtered(&rest)), capacities, options) {
            continue;
        }
        let is_kept: Vec<bool> = kept.iter().map(|j| rest[*j]).collect();
        let found = excess(whole, &is_kept, capacities, options);
        let of_dropped = kept.iter().zip(&found).filter(|(j, _)| places[..=count].contains(j));
        let errors: Vec<f64> = of_dropped.map(|(_, one)| one.errors).collect();
        let together = errors.iter().sum::<f64>() / (errors.len() as f64).sqrt();
        return (together > TOGETHER).then_some(rest);
    }
    // A straight change with a slope of either sign is also a shape.
    let is_straight = by_slope(whole, options).is_none_or(|(_, misfit)| misfit < SLOPE_MISFIT_MAX);
    let at = |place: usize| kept.iter().position(|j| *j == place).map(|i| (whole.mean[i], whole.error[i]));
    let first = at(places[0])?;
    let exceeds = |place: usize| {
        at(place).is_some_and(|(log, error)| first.0 - log > EXCESS_MIN + TOGETHER * first.1.hypot(error))
    };
    let is_up = places[0] < places[early];
    let falls_at_once = is_up && exceeds(places[early]);
    let falls = !is_straight && exceeds(*places.last()?);
    (falls_at_once || falls).then_some(rest)
}

/// Returns the log cost by block, in order of time, relative to the blocks from `base` on: the median over the passes.
fn profile(series: &[Series], blocks: usize, base: usize) -> Vec<f64> {
    let of_pass = |one: &Series| {
        let block = |b: usize| {
            let mut calls = [0; BLOCK];
            for (i, call) in calls.iter_mut().enumerate() {
                let at = b * BLOCK + i;
                *call = one.costs[if one.is_down { one.costs.len() - 1 - at } else { at }];
            }
            median_of_costs(&mut calls).unwrap_or(1.0).max(0.5).ln()
        };
        let mut row: Vec<f64> = (0..blocks).map(block).collect();
        let level = median_of(&mut row[base..].to_vec()).unwrap_or(0.0);
        for x in &mut row {
            *x -= level;
        }
        row
    };
    let rows: Vec<Vec<f64>> = series.iter().map(of_pass).collect();
    let middle = |b: usize| median_of(&mut rows.iter().map(|row| row[b]).collect::<Vec<f64>>()).unwrap_or(0.0);
    (0..blocks).map(middle).collect()
}

/// Returns the standard deviation of a block around its neighbours.
fn deviation(profile: &[f64]) -> f64 {
    let mut steps: Vec<f64> = profile.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    1.4826 / std::f64::consts::SQRT_2 * median_of(&mut steps).unwrap_or(0.0)
}

/// Returns the profile without the line through the blocks from `from` on, and the standard error of that line at the
/// start.
fn beyond_trend(profile: &[f64], from: usize, error: f64) -> (Vec<f64>, f64) {
    let fitted = &profile[from..];
    let count = fitted.len() as f64;
    let centre = from as f64 + (count - 1.0) / 2.0;
    let mean = fitted.iter().sum::<f64>() / count;
    let (mut square, mut product) = (0.0, 0.0);
    for (i, y) in fitted.iter().enumerate() {
        let x = (from + i) as f64 - centre;
        square += x * x;
        product += x * (y - mean);
    }
    let slope = product / square.max(1.0);
    let rest = profile.iter().enumerate().map(|(i, y)| y - mean - slope * (i as f64 - centre));
    (rest.collect(), error * (1.0 / count + centre * centre / square.max(1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn series(cost: impl Fn(usize) -> f64, is_down: bool, seed: u64) -> Vec<Series> {
        let mut random = Random::new(seed);
        let pass = |_| {
            let mut costs: Vec<u64> = (0..2000).map(|i| (cost(i) * (0.1 * random.normal()).exp()) as u64).collect();
            if is_down {
                costs.reverse();
            }
            Series { n: (1..=2000).collect(), costs, is_down }
        };
        (0..5).map(pass).collect()
    }

    /// Guards against cold calls being judged, at small n on the way up and at large n on the way down.
    #[test]
    fn cold_calls_are_dropped_in_order_of_time() {
        for seed in 0..20 {
            for is_down in [false, true] {
                let abrupt = series(|i| if i < 120 { 14_000.0 } else { 10_000.0 }, is_down, seed);
                assert!((112..=200).contains(&cold_calls(&abrupt)), "{} {is_down}", cold_calls(&abrupt));
                let decay = series(|i| 10_000.0 * (1.0 + (-(i as f64) / 40.0).exp()), is_down, seed);
                assert!((80..=256).contains(&cold_calls(&decay)), "{} {is_down}", cold_calls(&decay));
            }
        }
    }

    /// Guards against growth on the way down being taken for warm-up.
    #[test]
    fn growth_is_not_warm_up() {
        let dropped = |cost: &dyn Fn(f64) -> f64| {
            let up = |i: usize| cost(i as f64 + 1.0);
            let down = |i: usize| cost(2000.0 - i as f64);
            (0..20)
                .filter(|seed| cold_calls(&series(up, false, *seed)) + cold_calls(&series(down, true, *seed)) > 0)
                .count()
        };
        assert!(dropped(&|_| 10_000.0) <= 2);
        assert!(dropped(&|n| 10_000.0 + 100.0 * n) <= 2);
        assert!(dropped(&|n| 10_000.0 + 0.1 * n * n) <= 2);
    }
}
