//! Estimates of a probability from the counts of a calibration.

use statrs::distribution::{Beta, Binomial, ContinuousCDF, DiscreteCDF};
use std::fmt;

/// Confidence of the reported intervals.
const REPORTED: f64 = 0.95;

/// A number of counted trials, out of all trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of counted trials.
    pub count: usize,
    /// Number of all trials.
    pub of: usize,
}

impl Share {
    /// Returns the share as a fraction; 0 without trials.
    pub fn fraction(self) -> f64 {
        self.count as f64 / self.of.max(1) as f64
    }

    /// Returns the share in percent; 0 without trials.
    pub fn percent(self) -> f64 {
        100.0 * self.fraction()
    }

    /// Returns the 95% interval of the probability in percent, by Clopper and Pearson.
    pub fn interval(self) -> (f64, f64) {
        let (side, count, others) = ((1.0 - REPORTED) / 2.0, self.count as f64, (self.of - self.count) as f64);
        // Without counted trials, or without others, the beta distribution does not exist.
        let low = Beta::new(count, others + 1.0).map_or(0.0, |below| below.inverse_cdf(side));
        let high = Beta::new(count + 1.0, others).map_or(1.0, |above| above.inverse_cdf(1.0 - side));
        (100.0 * low, 100.0 * high)
    }
}

impl fmt::Display for Share {
    /// Writes the share with its interval, in percent: "1.6 (0.7–3.1)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.interval();
        write!(f, "{:.1} ({low:.1}–{high:.1})", self.percent())
    }
}

/// Returns the p value of the exact test of paired counts (after `McNemar`): the probability that at least `turned` of
/// the trials that changed turned wrong, if turning wrong and being corrected are equally likely.
pub fn turned_by_chance(turned: usize, mended: usize) -> f64 {
    let fewer = turned.checked_sub(1).zip(Binomial::new(0.5, (turned + mended) as u64).ok());
    fewer.map_or(1.0, |(fewer, trials)| trials.sf(fewer as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_clopper_and_pearson() {
        let of = |count, of| {
            let (low, high) = Share { count, of }.interval();
            ((100.0 * low).round() / 100.0, (100.0 * high).round() / 100.0)
        };
        // Expected values by bisection over sums of binomial coefficients, which share no code with this crate.
        assert_eq!(of(2, 120), (0.2, 5.89));
        assert_eq!(of(8, 504), (0.69, 3.1));
        assert_eq!(of(0, 24), (0.0, 14.25));
        assert_eq!(of(24, 24), (85.75, 100.0));
        assert_eq!(Share { count: 8, of: 504 }.to_string(), "1.6 (0.7–3.1)");
    }

    #[test]
    fn verdicts_that_turn_wrong_are_compared_with_those_mended() {
        // 4 of 8 outcomes, 1 of 32, and 55 + 11 + 1 of 2,048.
        assert!((turned_by_chance(2, 1) - 0.5).abs() < 1e-9 && (turned_by_chance(5, 0) - 0.031_25).abs() < 1e-9);
        assert!((turned_by_chance(9, 2) - 0.032_714_843_75).abs() < 1e-9 && turned_by_chance(0, 0) > 0.99);
    }
}
