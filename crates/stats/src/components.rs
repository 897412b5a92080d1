//! Sources of the variance of a curve, which show what kind of repetition would reduce it.

use crate::polish::{Level, along};
use crate::walk::{correlation, shared as walked};
use serde::{Deserialize, Serialize};

/// Components of the variance of a curve, as standard deviations of the logarithm of the cost, and the share of single
/// calls in the variance of the growth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Components {
    /// A single call around the median of its window.
    pub call: f64,
    /// A window, beyond what its calls explain.
    pub window: f64,
    /// A whole pass.
    pub pass: f64,
    /// The change along a pass that the other passes do not show, as a line.
    pub drift: f64,
    /// The same change, as a random walk.
    #[serde(default)]
    pub walk: f64,
    /// Share, 0 to 1, of the variance of the growth that comes from single calls: more calls in each pass reduce only
    /// this part, more passes all of it.
    #[serde(default)]
    pub share_of_calls: f64,
}

impl Components {
    /// Returns the components of a judged curve, with the share of the calls in the growth along a line in log n.
    /// `None` for a single pass, whose variance is unknown.
    pub(crate) fn of(level: &Level) -> Option<Self> {
        if level.passes < 2 || level.n.len() < 2 {
            return None;
        }
        let mean = level.n.iter().map(|n| n.ln()).sum::<f64>() / level.n.len() as f64;
        let weights: Vec<f64> = level.n.iter().map(|n| n.ln() - mean).collect();
        let window = level.components.window;
        let sum = |f: &dyn Fn(usize) -> f64| (0..weights.len()).map(f).sum::<f64>();
        let of_calls = sum(&|j| weights[j].powi(2) * level.within[j]);
        let along = along(&level.n);
        let shared = |i: usize, j: usize| window * window * correlation(along[i] - along[j], level.reach);
        let of_windows = sum(&|i| weights[i] * sum(&|j| weights[j] * shared(i, j)));
        let drift = |i: usize, j: usize| level.components.drift_between(along[i], along[j]);
        let of_drift = sum(&|i| weights[i] * sum(&|j| weights[j] * drift(i, j)));
        let all = of_calls + of_windows + of_drift;
        let share_of_calls = if all > 0.0 { of_calls / all } else { 0.0 };
        Some(Self { share_of_calls, ..level.components })
    }

    /// Returns the covariance of two points that the change along one pass causes. `a` and `b` are their positions
    /// along the pass, from −½ to ½.
    pub(crate) fn drift_between(&self, a: f64, b: f64) -> f64 {
        self.drift.powi(2) * a * b + self.walk.powi(2) * walked(a, b)
    }
}
