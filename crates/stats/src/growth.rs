//! Contrasts of the points with intervals over the passes: growth, and the slope over the last decade.

use crate::Estimate;
use crate::polish::{HIDDEN, Level};
use crate::random::Random;
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
