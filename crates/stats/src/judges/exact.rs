//! Judges counted costs (instructions under an emulator). There is no noise, so no statistics are needed.
//!
//! All variation comes from the kernel: another path, a search that starts at a random place, a table that is refilled,
//! and occasionally a timer interrupt, which adds thousands of instructions to one call. So a value is a cost that
//! occurred (the lower median), an interval is the range of the passes, a constant cost does not change at all, and a
//! law is judged by its misfit alone.

use super::Judge;
use crate::branches::Branches;
use crate::common::Pair;
use crate::compare::Effect;
use crate::judgement::{Judgement, Outcome};
use crate::law::{Fit, Law, Shape, by_name};
use crate::mixture::Judged;
use crate::points::{Cell, Grid, Series, Window};
use crate::polish::Level;
use crate::quantile::lower_median;
use crate::select::Selection;
use crate::warm_up::Reduced;
use crate::{Annotation, Cliff, Components, Curve, Estimate, Exact, Options, Outliers, Tail, exact, outliers, periods};

/// The judge of counted costs.
pub(super) struct Counted;

/// Relative misfit that does not count against a law.
const TOLERANCE: f64 = 0.0005;
/// Largest misfit of a named law (root mean square, in logarithms), as a share of the whole rise.
const LACK_MAX: f64 = 0.05;
/// A law whose misfit is at most this share is named, however small the rise.
const LACK_NONE: f64 = 0.005;
/// Smallest rise that counts as growth: a path with a few more instructions follows no law.
const RISE_MIN: f64 = 0.02;
/// Minimum number of points for a verdict.
const POINTS_MIN: usize = 4;
/// A growth of the canary by up to this factor counts as none. Its call always executes the same instructions, and a
/// larger growth is a sign of background work that had not ended when the run began.
const CANARY_TOLERANCE: f64 = 1.005;

impl Judge for Counted {
    fn options(&self, options: &Options) -> Options {
        let certain = Options { between_runs: 0.0, growth_between_runs: 0.0, ..options.clone() };
        Options { draws: 0, law_tolerance: TOLERANCE, ..certain }
    }

    fn points_min(&self) -> usize {
        POINTS_MIN
    }

    fn passes_min(&self) -> usize {
        0
    }

    fn canary_tolerance(&self) -> f64 {
        CANARY_TOLERANCE
    }

    /// A second slope comes from caches, which instruction counts do not show.
    fn can_follow(&self, law: &dyn Law) -> bool {
        law.shape() != Shape::Tiers
    }

    /// Narrows windows at the ends of the curve: a truncated window would have another centre, which matters for exact
    /// costs.
    fn half_width(&self, window: &Window, series: &Series) -> f64 {
        match (series.n.first(), series.n.last()) {
            (Some(first), Some(last)) => {
                let half = window.half.min(window.centre - f64::from(*first));
                half.min(f64::from(*last) - window.centre).max(0.0)
            }
            _ => window.half,
        }
    }

    fn cell(&self, calls: &mut [u64], _quantum: f64) -> Option<Cell> {
        lower_median(calls).map(|cost| Cell { log: (cost as f64).max(0.5).ln(), variance: 0.0 })
    }

    /// No branches are needed: the costs that occurred are reported exactly (see `exact`).
    fn branches(&self, _series: &[Series], _annotations: &[Annotation]) -> Option<Branches> {
        None
    }

    fn cold_calls(&self, _series: &[Series]) -> usize {
        0
    }

    fn drop_bursts(&self, _: &mut Grid, _: &[Series], _: &[Window], _: &Options) {}

    fn drop_warm_up(&self, _: &Reduced<'_>, _: &mut [bool], _: &Options) -> Option<Level> {
        None
    }

    fn drop_first_level(&self, _: &Reduced<'_>, _: &mut [bool], level: Option<Level>, _: &Options) -> Option<Level> {
        level
    }

    /// Counted calls are cold only because of first pages and slabs, not because of caches.
    fn first_share(&self) -> f64 {
        1.0 / 200.0
    }

    fn first_n(&self, _options: &Options) -> f64 {
        64.0
    }

    /// Each point is the lower median of its passes, which is a cost that occurred.
    fn level(&self, grid: &Grid) -> Level {
        let passes = grid.cells.len();
        let points = grid.n.len();
        let column = |j: usize| grid.cells.iter().filter_map(|row| row[j]).collect::<Vec<f64>>();
        Level {
            n: grid.n.clone(),
            within: vec![0.0; points],
            components: Components::default(),
            reach: 0.0,
            cells: grid.cells.clone(),
            offsets: vec![0.0; passes],
            mean: (0..points).map(|j| lower_median(&mut column(j)).unwrap_or(0.0)).collect(),
            error: vec![0.0; points],
            error_absolute: vec![0.0; points],
            passes,
        }
    }

    /// Counts differ because of another path, not because of noise.
    fn components(&self, _level: &Level) -> Option<Components> {
        None
    }

    /// Returns the cost of each point with the range of its passes.
    fn points(&self, grid: &Grid) -> Vec<Estimate> {
        let level = self.level(grid);
        let point = |j: usize| {
            let cells = || level.cells.iter().filter_map(|row| row[j]);
            let value = whole(level.mean[j]);
            let (low, high) = (cells().map(whole).fold(value, f64::min), cells().map(whole).fold(value, f64::max));
            Estimate { value, low, high }
        };
        (0..level.n.len()).map(point).collect()
    }

    /// The interval is the range of the passes.
    fn contrast(&self, level: &Level, weights: &[f64], _confidence: f64, _options: &Options) -> Option<Estimate> {
        (!level.n.is_empty()).then(|| contrast(level, weights))
    }

    fn assess(&self, level: &Level, selection: &Selection, options: &Options) -> Option<(Estimate, Outcome)> {
        let growth = self.trend(level, options)?;
        Some((growth, outcome(growth, level, selection, options)))
    }

    fn trend(&self, level: &Level, _options: &Options) -> Option<Estimate> {
        let mut ends = vec![0.0; level.n.len()];
        *ends.first_mut()? -= 1.0;
        *ends.last_mut()? += 1.0;
        Some(contrast(level, &ends).map(f64::exp))
    }

    /// Returns the constant law at a cost that occurred.
    fn constant(&self, level: &Level, _options: &Options) -> Option<Fit> {
        let law = by_name("constant")?;
        let value = whole(lower_median(&mut level.mean.clone())?);
        let square: f64 = level.mean.iter().map(|y| (y - value.ln()).powi(2)).sum();
        Some(Fit {
            law: law.name().to_owned(),
            fixed: Estimate::bare(value),
            slope: None,
            location: None,
            ratio: None,
            delta_bic: 0.0,
            rms_residual: (square / level.mean.len() as f64).sqrt(),
            lack_of_fit_p: None,
        })
    }

    /// Refits the coefficients by least squares in closed form, so that integer coefficients are found as integers.
    fn refine(&self, fit: &mut Fit, level: &Level) {
        fit.lack_of_fit_p = None;
        let Some(law) = by_name(&fit.law).filter(|law| law.shape() != Shape::Flat) else { return };
        let (mut s, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (n, log) in level.n.iter().zip(&level.mean) {
            let (x, y) = (law.g(*n, fit.bend_at()), whole(*log).max(1.0));
            let weight = 1.0 / (y * y);
            (s, sx, sy) = (s + weight, sx + weight * x, sy + weight * y);
            (sxx, sxy) = (sxx + weight * x * x, sxy + weight * x * y);
        }
        let slope = (s * sxy - sx * sy) / (s * sxx - sx * sx);
        let fixed = (sy - slope * sx) / s;
        if !slope.is_finite() || slope <= 0.0 || fixed < 0.0 {
            return;
        }
        let snapped = |x: f64| if (x - x.round()).abs() < 1e-6 * x.abs().max(1.0) { x.round() } else { x };
        (fit.fixed, fit.slope) = (Estimate::bare(snapped(fixed)), Some(Estimate::bare(snapped(slope))));
        let residual = |(n, y): (&f64, &f64)| (y - fit.at(*n).ln()).powi(2);
        let square: f64 = level.n.iter().zip(&level.mean).map(residual).sum();
        fit.rms_residual = (square / level.n.len() as f64).sqrt();
    }

    /// Nothing interferes with a count, so no call is cleaner than another.
    fn clean(&self, _curve: &Curve, _has_branches: bool, _options: &Options) -> Option<Judged> {
        None
    }

    /// No tail is needed: the costs that occurred are reported with their shares.
    fn tail(&self, _: &Curve, _: &Judgement, _: bool, _: &Options) -> Option<Tail> {
        None
    }

    fn outliers(&self, curve: &Curve) -> Outliers {
        let mut found = outliers::find(curve);
        periods::add(&mut found, curve);
        found
    }

    fn exact(&self, curve: &Curve, cliffs: &[Cliff]) -> Option<Exact> {
        Some(exact::describe(curve, cliffs))
    }

    fn effect(&self, pair: &Pair, weights: &[f64], _options: &Options, _between_runs: f64) -> Option<Effect> {
        let difference = contrast(&pair.b, weights).value - contrast(&pair.a, weights).value;
        Some(Effect { difference, error: 0.0, freedom: 1.0 })
    }

    /// Counts need no second pass.
    fn ratio_passes(&self, _a: &Level, _b: &Level) -> usize {
        2
    }
}

/// Decides the outcome. The questions, in order: is there any change, does a law fit exactly, is the cost flat within
/// δ, does a law fit, does the cost grow or fall.
fn outcome(growth: Estimate, level: &Level, selection: &Selection, options: &Options) -> Outcome {
    let height = height(level);
    if height < 1e-12 {
        return Outcome::Flat { within: 0.0 };
    }
    let best = &selection.best;
    let lack = best.rms_residual / height;
    let grows = growth.value.ln() > RISE_MIN.ln_1p() && best.law != "constant";
    if grows && lack <= LACK_NONE {
        return Outcome::Grows { law: Some(best.law.clone()) };
    }
    if height <= 2.0 * options.delta.ln_1p() && growth.value.ln().abs() <= options.delta.ln_1p() {
        return Outcome::Flat { within: (height / 2.0).exp_m1() };
    }
    let log = growth.value.ln();
    match () {
        () if grows && lack <= LACK_MAX => Outcome::Grows { law: Some(best.law.clone()) },
        () if log > RISE_MIN.ln_1p() => Outcome::Grows { law: None },
        () if log < -RISE_MIN.ln_1p() => Outcome::Falls,
        () => Outcome::Varies,
    }
}

/// Returns an integer, given its logarithm.
fn whole(log: f64) -> f64 {
    log.exp().round()
}

/// Returns a contrast of the points in logarithms, with the lowest and the highest pass as the interval.
fn contrast(level: &Level, weights: &[f64]) -> Estimate {
    // Sums of thirds leave a rounding error, which a constant must not have.
    let clean = |x: f64| if x.abs() < 1e-12 { 0.0 } else { x };
    let sum = |row: &dyn Fn(usize) -> Option<f64>| {
        let terms = weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
        terms.map(|(j, weight)| Some(weight * row(j)?)).sum::<Option<f64>>().map(clean)
    };
    let value = sum(&|j| Some(level.mean[j])).unwrap_or(0.0);
    let passes = || level.cells.iter().filter_map(|cells| sum(&|j| cells[j]));
    Estimate { value, low: passes().fold(value, f64::min), high: passes().fold(value, f64::max) }
}

/// Returns the distance between the highest and the lowest point, in logarithms.
fn height(level: &Level) -> f64 {
    let low = level.mean.iter().copied().fold(f64::MAX, f64::min);
    level.mean.iter().copied().fold(f64::MIN, f64::max) - low
}
