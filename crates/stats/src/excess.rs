//! The excess of the differences of many comparisons over their errors.
//!
//! If at least half of many comparisons are between equals, the middle half of the differences shows how much equals
//! differ (the empirical null: Efron, Journal of the American Statistical Association 99, 2004, p. 96). Here its centre
//! is fixed at zero, so a change that all comparisons have in common is part of the excess.

use crate::quantile::median_of;

/// The median of the square of a standard normal variable.
const MEDIAN_SQUARE: f64 = 0.454_936;
/// More than half of the differences must be larger than the median expected by chance. Their number must exceed a half
/// by this many standard deviations of a binomial variable, which happens in one of a hundred sets of independent
/// differences without an excess.
const EVIDENCE: f64 = 2.33;

/// Returns the standard deviation that must be added to the errors to explain the median of the differences by chance;
/// 0 if the differences are not shown to exceed their errors. Each element is a difference of logarithms with its
/// standard error. Differences without an error, which are those of exact counts, are left out.
pub fn excess(differences: &[(f64, f64)]) -> f64 {
    let is_known = |(difference, error): &&(f64, f64)| difference.is_finite() && *error > 0.0;
    // The additional variance with which each difference would equal the median expected by chance.
    let missing = |(difference, error): &(f64, f64)| difference.powi(2) / MEDIAN_SQUARE - error.powi(2);
    let mut missing: Vec<f64> = differences.iter().filter(is_known).map(missing).collect();
    let (count, large) = (missing.len() as f64, missing.iter().filter(|variance| **variance > 0.0).count() as f64);
    if large - count / 2.0 <= EVIDENCE * count.sqrt() / 2.0 {
        return 0.0;
    }
    median_of(&mut missing).map_or(0.0, f64::sqrt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn of(random: &mut Random, count: usize, added: f64) -> f64 {
        let mut one = |_| (0.05 * random.normal() + added * random.normal(), 0.05);
        excess(&(0..count).map(&mut one).collect::<Vec<(f64, f64)>>())
    }

    /// Guards against reporting an excess where chance explains the differences.
    #[test]
    fn chance_shows_no_excess() {
        let mut random = Random::new(5);
        for count in [20, 60, 125] {
            let found = (0..400).filter(|_| of(&mut random, count, 0.0) > 0.0).count();
            assert!(found <= 12, "{found} of 400 sets of {count}");
        }
    }

    #[test]
    fn what_was_added_is_found() {
        let mut random = Random::new(6);
        for added in [0.1, 0.2] {
            let mut found: Vec<f64> = (0..100).map(|_| of(&mut random, 125, added)).collect();
            found.sort_by(f64::total_cmp);
            let (low, middle, high) = (found[5], found[50], found[95]);
            assert!((middle / added - 1.0).abs() < 0.1, "{added}: {middle}");
            assert!(low > 0.6 * added && high < 1.5 * added, "{added}: {low} to {high}");
        }
    }

    /// Guards against widening the errors of all curves because a few differences are large.
    #[test]
    fn a_few_large_differences_show_no_excess() {
        let mut random = Random::new(7);
        let widened = (0..200).filter(|_| {
            let mut all: Vec<(f64, f64)> = (0..100).map(|_| (0.05 * random.normal(), 0.05)).collect();
            all.iter_mut().take(5).for_each(|one| one.0 = 1.5);
            excess(&all) > 0.0
        });
        let widened = widened.count();
        assert!(widened <= 20, "{widened} of 200");
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        for all in [&[][..], &[(0.5, 0.0), (0.7, 0.0)], &[(0.0, 0.1); 30]] {
            assert!(excess(all).abs() < 1e-12, "{all:?}");
        }
    }
}
