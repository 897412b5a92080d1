//! Contrasts of the points with intervals over the passes: growth, and the slope over the last decade.
//!
//! Growth is told by the ends of the fitted law. In logarithms it is nearly linear in the points, so each pass has a
//! growth of its own under the law, and the spread of these gives the interval (Student's t). Laws that fit almost as
//! well widen it by their evidence.

use crate::law::{Place, by_name};
use crate::polish::{HIDDEN, Level};
use crate::random::Random;
use crate::select::{Frame, Solved, Target};
use crate::{Estimate, Options};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Quantile of Student's t, for at least one degree of freedom.
pub(crate) fn student(q: f64, freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(1.96, |t| t.inverse_cdf(q))
}

/// The factor by which a percentile interval from a bootstrap over few passes must be widened: resampling `k` values
/// shows (k − 1)/k of their variance, percentiles lack Student's tails, and cells were winsorised.
pub(crate) fn widening(passes: usize, level: f64) -> f64 {
    if passes < 2 {
        return 1.0;
    }
    let k = passes as f64;
    let q = 0.5 + level / 2.0;
    HIDDEN * student(q, k - 1.0) / student(q, 1e6) * (k / (k - 1.0)).sqrt()
}

/// The interval from bootstrap draws on an additive scale, widened about its centre.
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

/// The value of a contrast (weights over points that sum to zero) in each pass that has all points it needs.
fn per_pass(level: &Level, weights: &[f64]) -> Vec<f64> {
    let value = |row: &Vec<Option<f64>>| {
        let mut sum = 0.0;
        for (cell, weight) in row.iter().zip(weights) {
            if *weight != 0.0 {
                sum += weight * (*cell)?;
            }
        }
        Some(sum)
    };
    level.cells.iter().filter_map(value).collect()
}

/// A contrast with its bootstrap interval over passes.
pub(crate) fn contrast(level: &Level, weights: &[f64], confidence: f64, seed: u64, draws: usize) -> Option<Estimate> {
    let values = per_pass(level, weights);
    if values.is_empty() {
        return None;
    }
    // The cells are winsorised; trimming again would only cost precision.
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let value = mean(&values);
    let mut random = Random::new(seed);
    let mut sample = vec![0.0; values.len()];
    let mut means = Vec::with_capacity(draws);
    for _ in 0..draws {
        sample.fill_with(|| values[random.below(values.len())]);
        means.push(mean(&sample));
    }
    Some(interval(value, &mut means, values.len(), confidence))
}

/// Weights of the mean of the last three points minus the mean of the first three.
pub(crate) fn top_over_bottom(points: usize) -> Vec<f64> {
    let side = 3.min(points / 2);
    let mut weights = vec![0.0; points];
    for i in 0..side {
        weights[i] -= 1.0 / side as f64;
        weights[points - 1 - i] += 1.0 / side as f64;
    }
    weights
}

/// Weights of the least-squares slope of log cost over log n in the last decade (at least four points).
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
    /// The centre of the interval: the mean over the laws by their evidence.
    pub(crate) centre: f64,
    /// The standard error.
    pub(crate) error: f64,
    /// Degrees of freedom of the error.
    pub(crate) freedom: f64,
}

impl Growth {
    /// The factor with its interval.
    pub(crate) fn interval(&self, confidence: f64) -> Estimate {
        let half = student(0.5 + confidence / 2.0, self.freedom) * self.error;
        let (low, high) = (self.centre - half, self.centre + half);
        Estimate { value: self.value, low: low.min(self.value), high: high.max(self.value) }.map(f64::exp)
    }

    /// The mean of growths by their weights, which need not add up to one; the value is that of the first.
    fn averaged(all: &[(Self, f64)]) -> Option<Self> {
        let total: f64 = all.iter().map(|(_, weight)| weight).sum();
        let mean = |f: &dyn Fn(&Self) -> f64| all.iter().map(|(one, weight)| weight * f(one)).sum::<f64>() / total;
        let centre = mean(&|one| one.centre);
        let square = mean(&|one| one.error * one.error + (one.centre - centre).powi(2));
        let freedom = mean(&|one| one.freedom);
        all.first().map(|(first, _)| Self { value: first.value, centre, error: square.sqrt(), freedom })
    }
}

/// A linear model of the log costs: columns over the points, beside the level and the drift of the machine.
struct Linear<'a> {
    target: &'a Target<'a>,
    columns: Vec<Vec<f64>>,
}

impl Linear<'_> {
    /// The column `k` at point `j`: level, drift, then the model's own.
    fn at(&self, k: usize, j: usize) -> f64 {
        match k {
            0 => 1.0,
            1 => self.target.along[j],
            _ => self.columns[k - 2][j],
        }
    }

    fn normal_matrix(&self) -> Vec<Vec<f64>> {
        let size = self.columns.len() + 2;
        let points = 0..self.target.n.len();
        let product = |a: usize, b: usize| {
            points.clone().map(|j| self.target.weight[j] * self.at(a, j) * self.at(b, j)).sum::<f64>()
        };
        let mut matrix: Vec<Vec<f64>> = (0..size).map(|a| (0..size).map(|b| product(a, b)).collect()).collect();
        matrix[1][1] += self.target.steadiness.min(1e18);
        for (k, row) in matrix.iter_mut().enumerate().skip(2) {
            // Two columns may be alike.
            row[k] *= 1.0 + 1e-9;
        }
        matrix
    }

    /// The weights of the points in the change of the model from the first to the last point.
    fn end_weights(&self) -> Vec<f64> {
        let last = self.target.n.len() - 1;
        let change = (0..self.columns.len() + 2).map(|k| if k < 2 { 0.0 } else { self.at(k, last) - self.at(k, 0) });
        let solution = solve(self.normal_matrix(), change.collect());
        let weight = |j: usize| {
            let along = solution.iter().enumerate().map(|(k, x)| x * self.at(k, j)).sum::<f64>();
            self.target.weight[j] * along
        };
        (0..=last).map(weight).collect()
    }

    /// The sum of the weighted squares that the model leaves.
    fn chi_square(&self) -> f64 {
        let points = || 0..self.target.n.len();
        let (weight, y) = (self.target.weight, self.target.y);
        let right = |k: usize| points().map(|j| weight[j] * self.at(k, j) * y[j]).sum::<f64>();
        let right: Vec<f64> = (0..self.columns.len() + 2).map(right).collect();
        let solution = solve(self.normal_matrix(), right.clone());
        let explained: f64 = solution.iter().zip(&right).map(|(x, b)| x * b).sum();
        points().map(|j| weight[j] * y[j] * y[j]).sum::<f64>() - explained
    }
}

/// Solves a small system by elimination with pivots.
pub(crate) fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for k in 0..size {
        let pivot = (k..size).max_by(|a, b| matrix[*a][k].abs().total_cmp(&matrix[*b][k].abs())).unwrap_or(k);
        matrix.swap(k, pivot);
        right.swap(k, pivot);
        if matrix[k][k].abs() < f64::MIN_POSITIVE {
            continue;
        }
        for i in k + 1..size {
            let factor = matrix[i][k] / matrix[k][k];
            let (above, below) = matrix.split_at_mut(i);
            for (x, pivot) in below[0].iter_mut().zip(&above[k]).skip(k) {
                *x -= factor * pivot;
            }
            right[i] -= factor * right[k];
        }
    }
    for k in (0..size).rev() {
        let rest: f64 = (k + 1..size).map(|j| matrix[k][j] * right[j]).sum();
        right[k] = if matrix[k][k].abs() < f64::MIN_POSITIVE { 0.0 } else { (right[k] - rest) / matrix[k][k] };
    }
    right
}

/// Weight, in degrees of freedom, of the error that the errors of the points predict against that of the few passes.
const PREDICTED: f64 = 0.5;

/// The factor by which cells that are lacking hide the variance of a weighted sum: a pass that lacks one has the mean
/// of the others there, and the mean at that point rests on fewer passes.
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

/// The growth that these weights of the points give in each pass.
fn weighed(level: &Level, target: &Target<'_>, weights: &[f64], value: Option<f64>) -> Growth {
    let of_pass = |row: &Vec<Option<f64>>| {
        let cells = row.iter().zip(&level.mean).zip(weights);
        cells.map(|((cell, mean), weight)| weight * cell.unwrap_or(*mean)).sum::<f64>()
    };
    let all: Vec<f64> = level.cells.iter().map(of_pass).collect();
    let count = all.len() as f64;
    let mean = all.iter().sum::<f64>() / count;
    let square = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count * HIDDEN * HIDDEN;
    let square = square * lacking(level, weights);
    let drift: f64 = weights.iter().zip(target.along).map(|(w, u)| w * u).sum();
    let predicted =
        weights.iter().zip(&level.error).map(|(w, e)| (w * e).powi(2)).sum::<f64>() + drift * drift / target.steadiness;
    let freedom = count - 1.0 + PREDICTED;
    let value = value.unwrap_or_else(|| weights.iter().zip(&level.mean).map(|(w, y)| w * y).sum());
    Growth { value, centre: value, error: ((square + PREDICTED * predicted) / freedom).sqrt(), freedom }
}

/// The growth under a fitted law.
pub(crate) fn by_law(level: &Level, solved: &Solved, frame: &Frame) -> Option<Growth> {
    let target = frame.target(&level.n, &level.mean);
    let (first, last) = (*level.n.first()?, *level.n.last()?);
    let gradients: Vec<Vec<f64>> = level.n.iter().map(|n| solved.gradient(*n)).collect();
    let columns = (0..gradients[0].len()).map(|k| gradients.iter().map(|row| row[k]).collect()).collect();
    let weights = Linear { target: &target, columns }.end_weights();
    Some(weighed(level, &target, &weights, Some((solved.at(last) / solved.at(first)).ln())))
}

/// The interval of a growth by laws is widened by this factor: law, location and episodes were chosen by the same
/// points. Found by calibration.
const CHOSEN: f64 = 1.2;
/// The same for a slope, which is chosen from four.
const CHOSEN_SLOPE: f64 = 1.1;

/// The growth under the laws of a selection, by their evidence.
pub(crate) fn by_laws(level: &Level, laws: &[(Solved, f64)], options: &Options) -> Option<Growth> {
    let frame = Frame::of(level, options);
    let all: Option<Vec<(Growth, f64)>> =
        laws.iter().map(|(solved, weight)| Some((by_law(level, solved, &frame)?, *weight))).collect();
    Growth::averaged(&all?).map(|growth| Growth { error: CHOSEN * growth.error, ..growth })
}

/// The growth of a cost that hardly changes, up or down: by the smooth shapes, each with a free slope of either sign.
/// Also returns the misfit: the weighted square that the best shape leaves for each spare point.
pub(crate) fn by_slope(level: &Level, options: &Options) -> Option<(Growth, f64)> {
    let frame = Frame::of(level, options);
    let target = frame.target(&level.n, &level.mean);
    let shapes = ["root", "logarithmic", "linear", "quadratic"].into_iter().filter_map(by_name);
    let fitted = shapes.map(|law| {
        let top = law.g(*level.n.last()?, Place::at(0.0));
        let column = level.n.iter().map(|n| law.g(*n, Place::at(0.0)) / top).collect();
        let model = Linear { target: &target, columns: vec![column] };
        Some((weighed(level, &target, &model.end_weights(), None), model.chi_square()))
    });
    let fitted: Option<Vec<(Growth, f64)>> = fitted.collect();
    let fitted = fitted?;
    let least = fitted.iter().map(|pair| pair.1).fold(f64::MAX, f64::min);
    let all: Vec<(Growth, f64)> = fitted.iter().map(|(one, square)| (*one, (-0.5 * (square - least)).exp())).collect();
    let mean = Growth::averaged(&all)?;
    let spare = (level.n.len() as f64 - 2.0).max(1.0);
    Some((Growth { value: mean.centre, error: CHOSEN_SLOPE * mean.error, ..mean }, least / spare))
}

/// The growth of a curve that follows no law: from the first points to the last, each with their own slope.
pub(crate) fn by_ends(level: &Level, options: &Options) -> Growth {
    let points = level.n.len();
    let (wide, narrow) = ((points / 5).max(2).min(points / 2), (points / 9).max(2).min(points / 2));
    let (wide, narrow) = (between_ends(level, wide, options), between_ends(level, narrow, options));
    // What the curve does between the points of an end is not known better than these two agree.
    Growth { error: wide.error.hypot(wide.value - narrow.value), ..wide }
}

fn between_ends(level: &Level, side: usize, options: &Options) -> Growth {
    let frame = Frame::of(level, options);
    let target = frame.target(&level.n, &level.mean);
    let points = level.n.len();
    let mut weights = vec![0.0; points];
    for (from, at, sign) in [(0, 0, -1.0), (points - side, points - 1, 1.0)] {
        // The value at the end of a line in log n through the points of that side.
        let (mut s, mut sx, mut sxx) = (0.0, 0.0, 0.0);
        let x = |j: usize| (level.n[j] / level.n[at]).ln();
        for j in from..from + side {
            let w = target.weight[j];
            (s, sx, sxx) = (s + w, sx + w * x(j), sxx + w * x(j) * x(j));
        }
        let determinant = (s * sxx - sx * sx).max(f64::MIN_POSITIVE);
        for (j, weight) in weights.iter_mut().enumerate().skip(from).take(side) {
            *weight += sign * target.weight[j] * (sxx - sx * x(j)) / determinant;
        }
    }
    weighed(level, &target, &weights, None)
}
