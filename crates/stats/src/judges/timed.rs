//! Judges timed costs: intervals from a bootstrap over the passes, tests against the error between passes.

use super::Judge;
use crate::common::Pair;
use crate::compare::{Effect, paired, unpaired};
use crate::growth::{contrast, student};
use crate::judgement::{Judgement, Outcome, POINTS_MIN, Reason, judge_samples, more_passes};
use crate::law::{Fit, Law};
use crate::points::{Cell, Grid, Series, Window};
use crate::polish::{Level, level};
use crate::quantile::{grouped_median, median_variance};
use crate::select::{Selection, constant};
use crate::{Cliff, Curve, Estimate, Exact, Options, Outliers, outliers, warm_up};

/// The judge of timed costs.
pub(super) struct Timed;

/// Fewer passes give no useful interval for a median.
const PASSES_MIN: usize = 5;
/// A smaller share of clean calls gives no judgement of their own.
const CLEAN_MIN: f64 = 0.5;
/// A law that misses by less than this share of the whole rise (in logarithms) is named even where the errors are so
/// small that the test detects the misfit: bind rises ×300 and follows the probing law to within 7%.
const LACK_MAX: f64 = 0.02;

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
        let cost = grouped_median(calls, quantum)?;
        // A clock may read zero for a very cheap call; its logarithm must still exist.
        Some(Cell { log: cost.max(0.5).ln(), variance: median_variance(calls) })
    }

    fn cold_calls(&self, series: &[Series]) -> usize {
        warm_up::cold_calls(series)
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

    fn points(&self, level: &Level) -> Vec<Estimate> {
        let t = student(0.975, level.freedom.min((level.passes.max(2) - 1) as f64));
        let around = |(log, error): (&f64, &f64)| {
            let half = t * error;
            Estimate { value: *log, low: log - half, high: log + half }.map(f64::exp)
        };
        level.mean.iter().zip(&level.error_absolute).map(around).collect()
    }

    fn contrast(&self, level: &Level, weights: &[f64], confidence: f64, options: &Options) -> Option<Estimate> {
        contrast(level, weights, confidence, options.seed, options.draws)
    }

    /// Asks in the order of the method: equivalence first, then growth, then which law, then whether any law fits.
    fn outcome(&self, growth: Estimate, level: &Level, selection: &Selection, options: &Options) -> Outcome {
        let unresolved = |reason, more_passes| Outcome::Unresolved { reason, more_passes };
        if level.passes < 2 {
            return unresolved(Reason::TooFewPasses, Some(4));
        }
        let (lowest, highest) = (1.0 - options.delta, 1.0 + options.delta);
        let deviates = deviates(level, options.delta);
        let is_within = growth.low >= lowest && growth.high <= highest;
        if is_within && !deviates {
            return if growth.holds(1.0) { Outcome::Flat { within: options.delta } } else { Outcome::Small };
        }
        if growth.high < lowest && !rises(level, options.delta) {
            return Outcome::Falls;
        }
        let is_misfit = selection.best.lack_of_fit_p.is_some_and(|p| p < options.misfit_level)
            && lack(&selection.best, level) > LACK_MAX * height(level);
        // Two passes agree by chance too often to show small growth: theirs must be shown to exceed δ.
        let (floor, may_deviate) = if level.passes < 3 { (highest, false) } else { (1.0, true) };
        let moves = growth.low > floor || (may_deviate && deviates && is_misfit && rises(level, options.delta));
        if moves && is_misfit {
            return match growth {
                growth if growth.low > 1.0 => Outcome::Grows { law: None },
                growth if growth.high < 1.0 => Outcome::Falls,
                _ => Outcome::Varies,
            };
        }
        // Significant growth best described as "constant" is a contradiction that only more passes resolve.
        if growth.low > floor && selection.best.law != "constant" {
            return Outcome::Grows { law: Some(selection.best.law.clone()) };
        }
        // The ends agree and a point between them deviates: the interval of the growth does not say how many passes
        // would settle that.
        if is_within {
            return unresolved(Reason::PointDeviates, None);
        }
        unresolved(Reason::TooNoisy, more_passes(growth, level.passes, options.delta))
    }

    fn constant(&self, level: &Level, options: &Options) -> Option<Fit> {
        constant(level, options)
    }

    fn refine(&self, _fit: &mut Fit, _level: &Level) {}

    fn clean(&self, curve: &Curve, options: &Options) -> Option<Judgement> {
        let tags = curve.passes.iter().flat_map(|pass| &pass.clean);
        let (count, clean) =
            tags.fold((0_usize, 0_usize), |(count, clean), tag| (count + 1, clean + usize::from(*tag)));
        let is_useful = clean < count && clean as f64 >= CLEAN_MIN * count as f64;
        is_useful.then(|| judge_samples(curve, true, options)).flatten()
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

/// The weighted sum of the cells of a pass; `None` if the pass lacks one that has a weight.
fn weighted(row: &[Option<f64>], weights: &[f64]) -> Option<f64> {
    let mut sum = 0.0;
    for (cell, weight) in row.iter().zip(weights) {
        if *weight != 0.0 {
            sum += weight * (*cell)?;
        }
    }
    Some(sum)
}

/// Misfit beyond what the errors of the points explain.
fn lack(fit: &Fit, level: &Level) -> f64 {
    let noise = level.error.iter().map(|error| error * error).sum::<f64>() / level.error.len() as f64;
    (fit.rms_residual * fit.rms_residual - noise).max(0.0).sqrt()
}

/// The whole rise of the curve in logarithms.
fn height(level: &Level) -> f64 {
    let low = level.mean.iter().copied().fold(f64::MAX, f64::min);
    level.mean.iter().copied().fold(f64::MIN, f64::max) - low
}

/// Whether a point deviates from the mean of the curve by more than δ.
fn deviates(level: &Level, delta: f64) -> bool {
    let mean = level.mean.iter().sum::<f64>() / level.mean.len() as f64;
    level.mean.iter().any(|y| (y - mean).abs() > delta.ln_1p())
}

/// Whether a point exceeds the start by more than δ.
fn rises(level: &Level, delta: f64) -> bool {
    let start = level.mean.iter().take(3).sum::<f64>() / level.mean.len().min(3) as f64;
    level.mean.iter().any(|y| y - start > delta.ln_1p())
}
