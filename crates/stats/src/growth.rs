//! Contrasts of the points with intervals over the passes: growth, and the slope over the last decade.
//!
//! Growth is the ratio of the ends of the fitted law. In logarithms it is nearly linear in the points, so each pass has
//! its own growth under the law, and the spread of these gives the interval (Student's t). Laws that fit almost as well
//! widen the interval according to their evidence.

use crate::covariance::{dot, solve};
use crate::law::{Place, by_name};
use crate::polish::{HIDDEN, Level};
use crate::select::{Frame, Solved, Target};
use crate::{Estimate, Options};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Returns a quantile of Student's t, for at least one degree of freedom.
pub(crate) fn student(q: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(1.96, |t| t.inverse_cdf(q))
}

/// Returns the factor by which a percentile interval from a bootstrap over few passes must be widened. Resampling `k`
/// values shows (k − 1)/k of their variance, percentiles lack Student's tails, and cells were winsorised.
pub(crate) fn widening(passes: usize, level: f64) -> f64 {
    if passes < 2 {
        return 1.0;
    }
    let k = passes as f64;
    let q = 0.5 + level / 2.0;
    HIDDEN * student(q, k - 1.0) / student(q, 1e6) * (k / (k - 1.0)).sqrt()
}

/// Returns the interval from bootstrap draws on an additive scale, widened around `value`.
pub(crate) fn interval(value: f64, draws: &mut [f64], passes: usize, level: f64) -> Estimate {
    if draws.is_empty() || passes < 2 {
        return Estimate::bare(value);
    }
    draws.sort_by(f64::total_cmp);
    let at = |q: f64| crate::quantile::quantile(draws, q).unwrap_or(value);
    let factor = widening(passes, level);
    let tail = (1.0 - level) / 2.0;
    Estimate {
        value,
        low: value + factor * (at(tail) - value).min(0.0),
        high: value + factor * (at(1.0 - tail) - value).max(0.0),
    }
}

/// Returns a contrast (weights over points that sum to zero) with its interval over passes. `None` without passes.
pub(crate) fn contrast(level: &Level, weights: &[f64], confidence: f64) -> Option<Estimate> {
    (!level.cells.is_empty() && !level.n.is_empty()).then(|| weighed(level, weights, None).interval_of_log(confidence))
}

/// Returns the weights of the mean of the last three points minus the mean of the first three.
pub(crate) fn top_over_bottom(points: usize) -> Vec<f64> {
    let side = 3.min(points / 2);
    let mut weights = vec![0.0; points];
    for i in 0..side {
        weights[i] -= 1.0 / side as f64;
        weights[points - 1 - i] += 1.0 / side as f64;
    }
    weights
}

/// Returns the weights of the least-squares slope of log cost over log n in the last decade (at least four points).
pub(crate) fn last_decade(n: &[f64]) -> Vec<f64> {
    let Some(top) = n.last() else {
        return Vec::new();
    };
    let wanted = n.iter().filter(|x| **x >= top / 10.0).count();
    let used = wanted.max(4).min(n.len());
    let logs: Vec<f64> = n[n.len() - used..].iter().map(|x| x.ln()).collect();
    let mean = logs.iter().sum::<f64>() / used as f64;
    let square: f64 = logs.iter().map(|x| (x - mean).powi(2)).sum();
    let mut weights = vec![0.0; n.len() - used];
    weights.extend(logs.iter().map(|x| (x - mean) / square.max(1e-12)));
    weights
}

/// The growth from the first to the last point, in logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growth {
    /// The best estimate.
    pub(crate) value: f64,
    /// The centre of the interval: the mean over the laws, weighted by their evidence.
    pub(crate) centre: f64,
    /// The standard error.
    pub(crate) error: f64,
    /// Degrees of freedom of the error.
    pub(crate) freedom: f64,
}

impl Growth {
    /// Returns the factor with its interval.
    pub(crate) fn interval(&self, confidence: f64) -> Estimate {
        self.interval_of_log(confidence).map(f64::exp)
    }

    /// Returns the logarithm of the factor with its interval.
    fn interval_of_log(&self, confidence: f64) -> Estimate {
        let half = student(0.5 + confidence / 2.0, self.freedom) * self.error;
        let (low, high) = (self.centre - half, self.centre + half);
        Estimate { value: self.value, low: low.min(self.value), high: high.max(self.value) }
    }

    /// Returns the growth of the reciprocal cost.
    pub(crate) fn reciprocal(self) -> Self {
        Self { value: -self.value, centre: -self.centre, ..self }
    }

    /// Returns the weighted mean of growths; the weights need not add up to one. The value is that of the first growth.
    fn averaged(all: &[(Self, f64)]) -> Option<Self> {
        let total: f64 = all.iter().map(|(_, weight)| weight).sum();
        let mean = |f: &dyn Fn(&Self) -> f64| all.iter().map(|(one, weight)| weight * f(one)).sum::<f64>() / total;
        let centre = mean(&|one| one.centre);
        let square = mean(&|one| one.error * one.error + (one.centre - centre).powi(2));
        let freedom = mean(&|one| one.freedom);
        all.first().map(|(first, _)| Self { value: first.value, centre, error: square.sqrt(), freedom })
    }
}

/// A linear model of the log costs: a level and columns over the points.
struct Linear<'a> {
    target: &'a Target<'a>,
    columns: Vec<Vec<f64>>,
    /// The columns, whitened to independent errors of one.
    white: Vec<Vec<f64>>,
}

impl<'a> Linear<'a> {
    fn new(target: &'a Target<'a>, columns: Vec<Vec<f64>>) -> Self {
        let level = vec![1.0; target.n.len()];
        let columns: Vec<Vec<f64>> = std::iter::once(level).chain(columns).collect();
        let white = columns.iter().map(|column| target.whitener.whiten(column)).collect();
        Self { target, columns, white }
    }

    fn normal_matrix(&self) -> Vec<Vec<f64>> {
        let row = |a: &Vec<f64>| self.white.iter().map(|b| dot(a, b)).collect();
        let mut matrix: Vec<Vec<f64>> = self.white.iter().map(row).collect();
        for (k, row) in matrix.iter_mut().enumerate().skip(1) {
            // Two columns may be equal.
            row[k] *= 1.0 + 1e-9;
        }
        matrix
    }

    /// Returns the sum of the whitened columns, each times its coefficient.
    fn sum(&self, coefficients: &[f64]) -> Vec<f64> {
        let at = |j: usize| self.white.iter().zip(coefficients).map(|(column, x)| x * column[j]).sum();
        (0..self.target.n.len()).map(at).collect()
    }

    /// Returns the weights of the points in the change of the model from the first to the last point.
    fn end_weights(&self) -> Vec<f64> {
        let last = self.target.n.len() - 1;
        let change = self.columns.iter().map(|column| column[last] - column[0]).collect();
        let solution = solve(self.normal_matrix(), change);
        self.target.whitener.inverse_of(&self.sum(&solution))
    }

    /// Returns the sum of the weighted squared residuals of the model.
    fn chi_square(&self) -> f64 {
        let y = self.target.whitener.whiten(self.target.y);
        let right: Vec<f64> = self.white.iter().map(|column| dot(column, &y)).collect();
        let solution = solve(self.normal_matrix(), right);
        self.sum(&solution).iter().zip(&y).map(|(fitted, y)| (y - fitted).powi(2)).sum()
    }
}

/// Weight, in degrees of freedom, of the error predicted from the errors of the points, relative to the error shown by
/// the few passes.
const PREDICTED: f64 = 0.5;

/// Returns the factor by which missing cells reduce the visible variance of a weighted sum. A missing cell is replaced
/// by the mean of the other passes, and the mean at that point is based on fewer passes.
fn lacking(level: &Level, weights: &[f64]) -> f64 {
    if level.cells.iter().flatten().all(Option::is_some) {
        return 1.0;
    }
    let passes = level.cells.len() as f64;
    let (mut all, mut seen, mut of_means) = (0.0, 0.0, 0.0);
    for (j, weight) in weights.iter().enumerate() {
        let present = level.cells.iter().filter(|row| row[j].is_some()).count().max(1) as f64;
        let square = weight * weight;
        all += square;
        seen += square * present / passes;
        of_means += square * passes / present;
    }
    if seen > 0.0 { all / seen * (of_means / all) } else { 1.0 }
}

/// Returns the growth from the weighted sums of the points in each pass.
fn weighed(level: &Level, weights: &[f64], value: Option<f64>) -> Growth {
    let of_pass = |row: &Vec<Option<f64>>| {
        let cells = row.iter().zip(&level.mean).zip(weights);
        cells.map(|((cell, mean), weight)| weight * cell.unwrap_or(*mean)).sum::<f64>()
    };
    let all: Vec<f64> = level.cells.iter().map(of_pass).collect();
    let count = all.len() as f64;
    let mean = all.iter().sum::<f64>() / count;
    let square = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count * HIDDEN * HIDDEN;
    let square = square * lacking(level, weights);
    let predicted = level.covariance().of_sum(weights);
    let freedom = count - 1.0 + PREDICTED;
    let value = value.unwrap_or_else(|| dot(weights, &level.mean));
    Growth { value, centre: value, error: ((square + PREDICTED * predicted) / freedom).sqrt(), freedom }
}

/// Returns the growth under a fitted law.
pub(crate) fn by_law(level: &Level, solved: &Solved, frame: &Frame) -> Option<Growth> {
    let target = frame.target(&level.n, &level.mean);
    let (first, last) = (*level.n.first()?, *level.n.last()?);
    let gradients: Vec<Vec<f64>> = level.n.iter().map(|n| solved.gradient_of_growth(*n, last)).collect();
    let columns = (0..gradients[0].len()).map(|k| gradients.iter().map(|row| row[k]).collect()).collect();
    let weights = Linear::new(&target, columns).end_weights();
    Some(weighed(level, &weights, Some((solved.at(last) / solved.at(first)).ln())))
}

/// Factor by which the interval of a growth by laws is widened, because the same points chose law, location and
/// episodes. Found by calibration.
const CHOSEN: f64 = 1.1;
/// Returns the growth under the laws of a selection, weighted by their evidence.
pub(crate) fn by_laws(level: &Level, laws: &[(Solved, f64)], options: &Options) -> Option<Growth> {
    let frame = Frame::of(level, options);
    let all: Option<Vec<(Growth, f64)>> =
        laws.iter().map(|(solved, weight)| Some((by_law(level, solved, &frame)?, *weight))).collect();
    Growth::averaged(&all?).map(|growth| Growth { error: CHOSEN * growth.error, ..growth })
}

/// Largest misfit of a slope, in variances of a point.
pub(crate) const SLOPE_MISFIT_MAX: f64 = 2.0;

/// Returns the growth of a cost that hardly changes, up or down, by the smooth shapes, each with a slope of either
/// sign. Also returns the misfit: the weighted squared residuals of the best shape for each degree of freedom.
pub(crate) fn by_slope(level: &Level, options: &Options) -> Option<(Growth, f64)> {
    let frame = Frame::of(level, options);
    let target = frame.target(&level.n, &level.mean);
    let shapes = ["root", "logarithmic", "linear", "quadratic"].into_iter().filter_map(by_name);
    let fitted = shapes.map(|law| {
        let top = law.g(*level.n.last()?, Place::at(0.0));
        let column = level.n.iter().map(|n| law.g(*n, Place::at(0.0)) / top).collect();
        let model = Linear::new(&target, vec![column]);
        Some((weighed(level, &model.end_weights(), None), model.chi_square()))
    });
    let fitted: Option<Vec<(Growth, f64)>> = fitted.collect();
    let fitted = fitted?;
    let least = fitted.iter().map(|pair| pair.1).fold(f64::MAX, f64::min);
    let all: Vec<(Growth, f64)> = fitted.iter().map(|(one, square)| (*one, (-0.5 * (square - least)).exp())).collect();
    let mean = Growth::averaged(&all)?;
    let spare = (level.n.len() as f64 - 2.0).max(1.0);
    Some((Growth { value: mean.centre, ..mean }, least / spare))
}

/// Returns the growth of a curve that follows no law: from the first points to the last, with a separate slope at each
/// end.
pub(crate) fn by_ends(level: &Level, options: &Options) -> Growth {
    let points = level.n.len();
    let (wide, narrow) = ((points / 5).max(2).min(points / 2), (points / 9).max(2).min(points / 2));
    let (wide, narrow) = (between_ends(level, wide, options), between_ends(level, narrow, options));
    // The shape of the curve at its ends is known no better than these two agree.
    Growth { error: wide.error.hypot(wide.value - narrow.value), ..wide }
}

fn between_ends(level: &Level, side: usize, options: &Options) -> Growth {
    let frame = Frame::of(level, options);
    let points = level.n.len();
    let mut weights = vec![0.0; points];
    let weight = |j: usize| frame.error(j).powi(-2);
    for (from, at, sign) in [(0, 0, -1.0), (points - side, points - 1, 1.0)] {
        // The value at the end of the range of a line in log n through the points of this side.
        let (mut s, mut sx, mut sxx) = (0.0, 0.0, 0.0);
        let x = |j: usize| (level.n[j] / level.n[at]).ln();
        for j in from..from + side {
            let w = weight(j);
            (s, sx, sxx) = (s + w, sx + w * x(j), sxx + w * x(j) * x(j));
        }
        let determinant = (s * sxx - sx * sx).max(f64::MIN_POSITIVE);
        for (j, sum) in weights.iter_mut().enumerate().skip(from).take(side) {
            *sum += sign * weight(j) * (sxx - sx * x(j)) / determinant;
        }
    }
    weighed(level, &weights, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::Grid;
    use crate::polish::level;

    /// Guards against ignoring a pass that lacks the cell of one point because of a burst: one pass of five was left,
    /// and its interval had no width.
    #[test]
    fn passes_that_lack_a_cell_count() {
        let n: Vec<f64> = (0..12).map(|j| f64::from(100 << (j / 2))).collect();
        let noise = |pass: usize, j: usize| 0.02 * ((7 * pass * pass + 5 * pass * j + 3 * j) % 11) as f64;
        let of = |is_lacking: &dyn Fn(usize, usize) -> bool| {
            let row = |pass: usize| {
                let cell = |j: usize| (!is_lacking(pass, j)).then(|| 0.5 * n[j].ln() + noise(pass, j));
                (0..12).map(cell).collect()
            };
            let variance = vec![vec![1e-4; 12]; 5];
            let grid = Grid { half: vec![10.0; 12], variance, n: n.clone(), cells: (0..5).map(row).collect() };
            contrast(&level(&grid), &last_decade(&n), 0.95).unwrap()
        };
        let (whole, lacking) = (of(&|_, _| false), of(&|pass, j| pass < 4 && j == 8 + pass));
        let width = |one: &Estimate| one.high - one.low;
        assert!((whole.value - lacking.value).abs() < width(&whole), "{whole:?} {lacking:?}");
        assert!((0.5..3.0).contains(&(width(&lacking) / width(&whole))), "{whole:?} {lacking:?}");
    }
}
