//! Judges timed costs. The intervals of costs and growths come from Student's t over the passes, those of coefficients
//! and extrapolations from a bootstrap over the passes. Tests compare with the error between passes.

use super::Judge;
use crate::branches::{self, Branches};
use crate::bursts;
use crate::common::Pair;
use crate::compare::{Effect, paired, unpaired};
use crate::first_level;
use crate::growth::{Growth, SLOPE_MISFIT_MAX, by_ends, by_laws, by_slope, contrast, student};
use crate::judgement::{Judgement, Outcome, POINTS_MIN, Reason, Samples, judge_samples};
use crate::law::{Fit, Law};
use crate::margin::{Place, place};
use crate::mixture::Judged;
use crate::points::{Cell, Grid, Series, Window};
use crate::polish::{Level, costs, level, trimmed_freedom};
use crate::quantile::median_with_variance;
use crate::select::{Selection, constant, step};
use crate::warm_up::{self, Reduced};
use crate::{Annotation, Cliff, Components, Curve, Estimate, Exact, Options, Outliers, Tail, outliers, tail};

/// The judge of timed costs.
pub(super) struct Timed;

/// Minimum number of passes for a useful interval of a median.
const PASSES_MIN: usize = 5;
/// A misfit below this (root mean square, in logarithms) does not count against a law: no kernel path is perfectly
/// smooth.
const LACK_MIN: f64 = 0.01;
/// A law whose misfit is less than this share of the whole rise (in logarithms) is named even if the errors are so
/// small that the test detects the misfit: bind rises ×300 and follows the probing law to within 7%.
const LACK_MAX: f64 = 0.013;

impl Judge for Timed {
    fn options(&self, options: &Options) -> Options {
        options.clone()
    }

    fn points_min(&self) -> usize {
        POINTS_MIN
    }

    fn passes_min(&self) -> usize {
        PASSES_MIN
    }

    fn canary_tolerance(&self) -> f64 {
        1.0
    }

    fn can_follow(&self, _law: &dyn Law) -> bool {
        true
    }

    fn half_width(&self, window: &Window, _series: &Series) -> f64 {
        window.half
    }

    fn cell(&self, calls: &mut [u64], quantum: f64) -> Option<Cell> {
        let (cost, variance) = median_with_variance(calls, quantum)?;
        // A clock may read zero for a very cheap call; its logarithm must still exist.
        Some(Cell { log: cost.max(0.5).ln(), variance })
    }

    fn branches(&self, series: &[Series], annotations: &[Annotation]) -> Option<Branches> {
        // Cold calls look like calls of the expensive branch.
        match self.cold_calls(series) {
            0 => branches::find(series, annotations),
            cold => {
                let mut warm = series.to_vec();
                for one in &mut warm {
                    one.drop_first(cold);
                }
                branches::find(&warm, annotations)
            }
        }
    }

    fn cold_calls(&self, series: &[Series]) -> usize {
        warm_up::cold_calls(series)
    }

    fn drop_bursts(&self, grid: &mut Grid, series: &[Series], windows: &[Window], options: &Options) {
        bursts::drop_cells(grid, series, windows, options.quantum());
    }

    fn drop_warm_up(&self, reduced: &Reduced<'_>, judged: &mut [bool], options: &Options) -> Option<Level> {
        warm_up::drop_points(reduced, judged, options)
    }

    fn drop_first_level(
        &self,
        reduced: &Reduced<'_>,
        judged: &mut [bool],
        level: Option<Level>,
        options: &Options,
    ) -> Option<Level> {
        first_level::drop_points(reduced.grid, judged, level, reduced.capacities, options)
    }

    fn first_share(&self) -> f64 {
        1.0 / 32.0
    }

    fn first_n(&self, options: &Options) -> f64 {
        f64::from(options.first_n)
    }

    fn level(&self, grid: &Grid) -> Level {
        level(grid)
    }

    fn components(&self, level: &Level) -> Option<Components> {
        Components::of(level)
    }

    fn points(&self, grid: &Grid) -> Vec<Estimate> {
        let level = costs(grid);
        let t: Vec<f64> = (0..=level.passes).map(|passes| student(0.975, trimmed_freedom(passes))).collect();
        let point = |(j, log): (usize, &f64)| {
            let half = t[grid.passes_at(j)] * level.error_absolute[j];
            Estimate { value: *log, low: log - half, high: log + half }.map(f64::exp)
        };
        level.mean.iter().enumerate().map(point).collect()
    }

    fn contrast(&self, level: &Level, weights: &[f64], confidence: f64, _: &Options) -> Option<Estimate> {
        contrast(level, weights, confidence)
    }

    fn assess(&self, level: &Level, selection: &Selection, options: &Options) -> Option<(Estimate, Outcome)> {
        assess(level, selection, options)
    }

    fn trend(&self, level: &Level, options: &Options) -> Option<Estimate> {
        Some(by_slope(level, options)?.0.interval(CONFIDENCE))
    }

    fn constant(&self, level: &Level, options: &Options) -> Option<Fit> {
        constant(level, options)
    }

    fn refine(&self, _fit: &mut Fit, _level: &Level) {}

    fn clean(&self, curve: &Curve, has_branches: bool, options: &Options) -> Option<Judged> {
        let is_useful = curve.is_disturbed() && curve.is_mostly_clean();
        is_useful.then(|| judge_samples(curve, Samples::Clean { has_branches }, options)).flatten()
    }

    fn tail(&self, curve: &Curve, median: &Judgement, has_branches: bool, options: &Options) -> Option<Tail> {
        tail::judge(curve, median, has_branches, options)
    }

    fn outliers(&self, curve: &Curve) -> Outliers {
        outliers::find(curve)
    }

    fn exact(&self, _curve: &Curve, _cliffs: &[Cliff]) -> Option<Exact> {
        None
    }

    fn effect(&self, pair: &Pair, weights: &[f64], options: &Options, between_runs: f64) -> Option<Effect> {
        let of =
            |rows: &[Vec<Option<f64>>]| rows.iter().map(|row| weighted(row, weights)).collect::<Vec<Option<f64>>>();
        let (a, b) = (of(&pair.raw_a), of(&pair.raw_b));
        if options.paired { paired(&a, &b) } else { unpaired(&a, &b, between_runs) }
    }

    fn ratio_passes(&self, a: &Level, b: &Level) -> usize {
        a.passes.min(b.passes)
    }
}

/// Returns the weighted sum of the cells of a pass; `None` if the pass lacks a cell with a weight.
fn weighted(row: &[Option<f64>], weights: &[f64]) -> Option<f64> {
    let mut sum = 0.0;
    for (cell, weight) in row.iter().zip(weights) {
        if *weight != 0.0 {
            sum += weight * (*cell)?;
        }
    }
    Some(sum)
}

/// Confidence of the interval of the growth.
const CONFIDENCE: f64 = 0.90;
/// Number of parts of the range in which the band is examined.
const PARTS: usize = 8;
/// Number of standard errors by which a part must deviate to do so with certainty.
const ERRORS: f64 = 3.0;

/// The deviation of a curve from its mean level.
enum Band {
    /// No part of the range deviates by more than the margin.
    Inside,
    /// A part does, but not with certainty.
    Open,
    /// A part does with certainty.
    Outside,
}

/// Decides the outcome. The questions, in the order of the method: how much does the cost grow, is all of it within the
/// margin, which law is it, does any law fit.
fn assess(level: &Level, selection: &Selection, options: &Options) -> Option<(Estimate, Outcome)> {
    let best = &selection.best;
    let (slope, slope_misfit) = by_slope(level, options)?;
    // A falling cost follows no law, but it has a slope.
    let is_sloped = best.law == "constant" && slope_misfit < SLOPE_MISFIT_MAX;
    let is_misfit = !is_sloped && is_misfit(best, level, options);
    let falling = if is_misfit { step_down(level, options) } else { None };
    let growth = match falling {
        Some(step) => step,
        None if is_misfit => by_ends(level, options),
        None if best.law == "constant" => slope,
        None => by_laws(level, &selection.weighed, options)?,
    };
    let interval = growth.interval(CONFIDENCE);
    let unresolved = |reason, more_passes| (interval, Outcome::Unresolved { reason, more_passes });
    if level.passes < 2 {
        return Some(unresolved(Reason::TooFewPasses, Some(4)));
    }
    let mut band = self::band(level, PARTS, options.delta);
    if is_misfit && matches!(band, Band::Open) {
        // Teeth and dips are narrower than an eighth of the range. A single window may be hit by bursts.
        band = self::band(level, level.n.len() / 2, options.delta);
    }
    let is_small = || matches!(self::band(level, PARTS, options.small_change().1), Band::Inside);
    let outcome = match (place(&interval, options), band) {
        (Place::Above, _) => Outcome::Grows { law: (!is_misfit).then(|| best.law.clone()) },
        (Place::Below, _) => Outcome::Falls,
        (_, Band::Outside) if is_misfit => Outcome::Varies,
        (Place::Small, _) if is_small() => Outcome::Small,
        (Place::Inside, Band::Inside) => Outcome::Flat { within: options.delta },
        // If a part of the range differs by more than δ, the change is reported even if other runs might not show it.
        (Place::Inside, _) if is_certain(&interval, options) && is_small() => Outcome::Small,
        (Place::Small | Place::Inside, _) => return Some(unresolved(Reason::PointDeviates, None)),
        (Place::Open, _) => return Some(unresolved(Reason::TooNoisy, more_passes(&growth, level.passes, options))),
    };
    Some((interval, outcome))
}

/// Whether the passes alone show a small change.
fn is_certain(growth: &Estimate, options: &Options) -> bool {
    place(growth, &Options { change_between_runs: 0.0, ..options.clone() }) == Place::Small
}

/// Returns the growth of a cost that falls at one n: its reciprocal follows the law of a step.
fn step_down(level: &Level, options: &Options) -> Option<Growth> {
    let mirrored = level.reciprocal();
    let (solved, fit) = step(&mirrored, options)?;
    let growth = by_laws(&mirrored, &[(solved, 1.0)], options)?;
    (!is_misfit(&fit, &mirrored, options)).then(|| growth.reciprocal())
}

/// Whether a law misses the points by more than their errors explain, and by a relevant amount.
fn is_misfit(fit: &Fit, level: &Level, options: &Options) -> bool {
    fit.lack_of_fit_p.is_some_and(|p| p < options.misfit_level)
        && lack(fit, level) > (LACK_MAX * height(level)).max(LACK_MIN)
}

/// Returns the misfit beyond what the errors of the points explain.
fn lack(fit: &Fit, level: &Level) -> f64 {
    let noise = level.covariance().about_mean();
    (fit.rms_residual * fit.rms_residual - noise).max(0.0).sqrt()
}

/// Returns the whole rise of the curve in logarithms.
fn height(level: &Level) -> f64 {
    let low = level.mean.iter().copied().fold(f64::MAX, f64::min);
    level.mean.iter().copied().fold(f64::MIN, f64::max) - low
}

/// Compares `parts` parts of the range with the mean of the curve; they may deviate by `margin`, a fraction.
fn band(level: &Level, parts: usize, margin: f64) -> Band {
    let points = level.n.len();
    let precision: Vec<f64> = level.error.iter().map(|error| 1.0 / (error * error + 1e-6)).collect();
    let covariance = level.covariance();
    let share = |j: usize, part: &std::ops::Range<usize>| {
        let total: f64 = precision[part.clone()].iter().sum();
        if part.contains(&j) { precision[j] / total } else { 0.0 }
    };
    let (lowest, highest) = ((1.0 - margin).ln(), margin.ln_1p());
    let count = parts.min(points);
    let mut found = Band::Inside;
    for part in 0..count {
        let part = part * points / count..(part + 1) * points / count;
        let weights: Vec<f64> = (0..points).map(|j| share(j, &part) - share(j, &(0..points))).collect();
        let distance: f64 = weights.iter().zip(&level.mean).map(|(w, y)| w * y).sum();
        let error = covariance.of_sum(&weights).sqrt();
        let is_beyond = |errors: f64| distance - errors * error > highest || distance + errors * error < lowest;
        if is_beyond(ERRORS) {
            return Band::Outside;
        }
        if is_beyond(0.0) {
            found = Band::Open;
        }
    }
    found
}

/// Assumed deviation of the growth of one pass (logarithm) in addition to what the passes show: five passes sometimes
/// agree by chance.
const HIDDEN_DEVIATION: f64 = 0.03;
/// Largest number of further passes that is promised. If more are needed, the growth is so near the end of an outcome
/// that the estimate of the distance is mostly error. With these two numbers, found by calibration, about six of seven
/// promises are kept.
pub(crate) const MORE_MAX: usize = 15;

/// Returns the number of further passes after which the interval is resolved, if the growth equals its estimate.
fn more_passes(growth: &Growth, passes: usize, options: &Options) -> Option<u32> {
    let room = options.room(growth.centre);
    let deviation = (growth.error * (passes as f64).sqrt()).hypot(HIDDEN_DEVIATION);
    let settles = |more: &usize| {
        let all = (passes + more) as f64;
        // If the estimate moves meanwhile, it moves towards the middle of the next outcome.
        room > student(0.5 + CONFIDENCE / 2.0, growth.freedom + *more as f64) * deviation / all.sqrt()
    };
    (1..=MORE_MAX).find(settles).map(|more| more as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::{Layout, reduce, series_of, windows};
    use crate::simulate::{Noise, Truth, simulate};

    /// Guards against intervals with more degrees of freedom than trimming leaves: with four for five passes, 88% of
    /// the 95% intervals contain the cost.
    #[test]
    fn costs_of_five_passes_are_in_their_intervals() {
        let options = Options::default();
        let noise = Noise { tail: 0.0, ..Noise::of_cell(0.01) };
        let (mut held, mut all) = (0, 0);
        for seed in 0..400 {
            let series = series_of(&simulate(Truth::Constant, noise, 5, seed), false);
            let layout = Layout { series: &series, cliff: None, capacities: &[], first: None };
            let points = Timed.points(&reduce(&series, &windows(&layout, &options), &options));
            held += points.iter().filter(|cost| cost.holds(Truth::Constant.cost(1.0))).count();
            all += points.len();
        }
        println!("{held} of {all} intervals hold the cost");
        assert!(all >= 400 * 10 && held * 100 >= all * 91 && held * 100 <= all * 98, "{held} of {all}");
    }
}
