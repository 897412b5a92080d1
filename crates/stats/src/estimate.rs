//! A number with its interval.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A number with an interval. The field that holds it defines the unit and the level.
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
    /// Returns a number whose interval is unknown, with an interval of zero width.
    pub fn bare(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Returns a quantity of several passes with its 95% interval by the delete-one jackknife (Efron & Tibshirani 1993,
    /// chapter 11). `all` is the quantity from all passes, `without` the quantities with each pass left out in turn.
    /// With fewer than two passes the interval has no width.
    pub fn by_jackknife(all: f64, without: &[f64]) -> Self {
        let count = without.len() as f64;
        let mean = without.iter().sum::<f64>() / count;
        let squares: f64 = without.iter().map(|one| (one - mean).powi(2)).sum();
        let error = ((count - 1.0) / count * squares).sqrt();
        let factor = StudentsT::new(0.0, 1.0, count - 1.0).map_or(0.0, |law| law.inverse_cdf(0.975));
        if !(factor * error).is_finite() {
            return Self::bare(all);
        }
        Self { value: all, low: all - factor * error, high: all + factor * error }
    }

    /// Returns whether `x` is in the interval, ends included.
    pub fn holds(&self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// Applies a monotone function to the three numbers; a decreasing function swaps the ends.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (f(self.low), f(self.high));
        Self { value: f(self.value), low: low.min(high), high: low.max(high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The jackknife of a mean is its classical interval.
    #[test]
    fn the_jackknife_of_a_mean_is_students_interval() {
        let values = [1.0, 2.0, 4.0, 5.0];
        let without = values.map(|value| (12.0 - value) / 3.0);
        let found = Estimate::by_jackknife(3.0, &without);
        // t(3; 0.975) = 3.182, standard error = sqrt(10 / 3 / 4).
        assert!((found.high - 3.0 - 3.182_446 * (10.0_f64 / 12.0).sqrt()).abs() < 1e-4, "{found:?}");
        assert!((found.high + found.low - 6.0).abs() < 1e-12);
        assert_eq!(Estimate::by_jackknife(3.0, &[3.0]), Estimate::bare(3.0));
    }
}
