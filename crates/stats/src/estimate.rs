//! A number with its interval.

use serde::{Deserialize, Serialize};

/// A number with an interval. The unit and the level are those of the field that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The best estimate.
    pub value: f64,
    /// Lower end of the interval; equal to `value` if a single pass allows no interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// A number of unknown interval, with an interval of no width.
    pub fn bare(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Whether `x` is in the interval, ends included.
    pub fn holds(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Applies a monotone function to the three numbers; a falling one swaps the ends.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (f(self.low), f(self.high));
        Self { value: f(self.value), low: low.min(high), high: low.max(high) }
    }
}
