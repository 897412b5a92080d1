//! What counts of a calibration show about the probability behind them.

use statrs::distribution::{Beta, Binomial, ContinuousCDF, DiscreteCDF};

/// Confidence of the reported intervals.
const REPORTED: f64 = 0.95;
/// A share is shown to be above or below a limit, and one count above another, if chance alone does so more seldom.
const CHANCE: f64 = 0.05;

/// So many of so many trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The trials that are counted.
    pub count: usize,
    /// All trials.
    pub of: usize,
}

impl Share {
    /// Returns the share in percent; 0 without trials.
    pub fn percent(self) -> f64 {
        100.0 * self.count as f64 / self.of.max(1) as f64
    }

    /// Returns the 95% interval of the probability in percent, by Clopper and Pearson.
    pub fn interval(self) -> (f64, f64) {
        let (side, count, others) = ((1.0 - REPORTED) / 2.0, self.count as f64, (self.of - self.count) as f64);
        // Without counted trials, or without others, there is no such distribution.
        let low = Beta::new(count, others + 1.0).map_or(0.0, |below| below.inverse_cdf(side));
        let high = Beta::new(count + 1.0, others).map_or(1.0, |above| above.inverse_cdf(1.0 - side));
        (100.0 * low, 100.0 * high)
    }

    /// Whether the probability is shown to be above this limit, in percent.
    pub fn exceeds(self, limit: f64) -> bool {
        self.percent() > limit && self.at_least(limit / 100.0) < CHANCE
    }

    /// Whether the probability is shown to be below this limit, in percent.
    pub fn is_below(self, limit: f64) -> bool {
        self.percent() < limit && self.at_most(limit / 100.0) < CHANCE
    }

    /// The probability of so many trials or more.
    fn at_least(self, p: f64) -> f64 {
        let below = self.count.checked_sub(1);
        below.map_or(1.0, |below| 1.0 - Self { count: below, ..self }.at_most(p))
    }

    /// The probability of so many trials or fewer.
    fn at_most(self, p: f64) -> f64 {
        Binomial::new(p, self.of as u64).map_or(1.0, |trials| trials.cdf(self.count as u64))
    }
}

/// Returns the p value of the exact test of paired counts (after `McNemar`): the probability that so many or more of
/// the trials that changed turned wrong, if one is as likely to turn wrong as to be mended.
pub fn turned_by_chance(turned: usize, mended: usize) -> f64 {
    Share { count: turned, of: turned + mended }.at_least(0.5)
}

/// Whether more trials are shown to turn wrong than are mended.
pub fn turn_wrong(turned: usize, mended: usize) -> bool {
    turned_by_chance(turned, mended) < CHANCE
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
        // By bisection over sums of binomial coefficients, which share no code with this crate.
        assert_eq!(of(2, 120), (0.2, 5.89));
        assert_eq!(of(8, 504), (0.69, 3.1));
        assert_eq!(of(0, 24), (0.0, 14.25));
        assert_eq!(of(24, 24), (85.75, 100.0));
    }

    /// Guards against one series of a short row that is a miss, and against a long row that never is.
    #[test]
    fn a_limit_is_exceeded_by_more_than_chance() {
        assert!(!Share { count: 2, of: 120 }.exceeds(1.0) && Share { count: 20, of: 1_200 }.exceeds(1.0));
        assert!(!Share { count: 5, of: 1_200 }.exceeds(1.0) && !Share { count: 0, of: 0 }.exceeds(1.0));
        assert!(!Share { count: 29, of: 30 }.is_below(97.0) && Share { count: 1_140, of: 1_200 }.is_below(97.0));
    }

    /// Guards against two series that are more than one.
    #[test]
    fn verdicts_that_turn_wrong_are_compared_with_those_mended() {
        // 4 of 8 outcomes, 1 of 32, and 55 + 11 + 1 of 2,048.
        assert!((turned_by_chance(2, 1) - 0.5).abs() < 1e-9 && (turned_by_chance(5, 0) - 0.031_25).abs() < 1e-9);
        assert!((turned_by_chance(9, 2) - 0.032_714_843_75).abs() < 1e-9 && turned_by_chance(0, 0) > 0.99);
        assert!(!turn_wrong(2, 1) && !turn_wrong(4, 0) && turn_wrong(5, 0) && turn_wrong(9, 2) && !turn_wrong(2, 9));
    }
}
