//! How far the differences of many comparisons exceed their errors.
//!
//! If at least half of many comparisons compare equals, the middle of their differences shows how far equals differ (the
//! empirical null: Efron, Journal of the American Statistical Association 99, 2004, p. 96).

/// The median of the square of a standard normal variable.
const MEDIAN_SQUARE: f64 = 0.454_936;
/// Halvings of the interval in which the excess is: more than a double has bits.
const HALVINGS: usize = 60;

/// Returns the standard deviation that must be added to the errors so that half of the differences are as small as
/// chance makes them; 0 if none must, or without differences. Each is a difference of logarithms with its standard error.
/// One without an error, which is of exact counts, is left out.
pub fn excess(differences: &[(f64, f64)]) -> f64 {
    let known: Vec<(f64, f64)> = differences.iter().copied().filter(|(_, error)| *error > 0.0).collect();
    let is_enough = |added: f64| {
        let mut squares: Vec<f64> =
            known.iter().map(|(difference, error)| difference.powi(2) / (error.powi(2) + added.powi(2))).collect();
        squares.sort_by(f64::total_cmp);
        squares.get(squares.len() / 2).is_none_or(|middle| *middle <= MEDIAN_SQUARE)
    };
    if is_enough(0.0) {
        return 0.0;
    }
    let widest = known.iter().map(|(difference, _)| difference.abs()).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, widest / MEDIAN_SQUARE.sqrt());
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Guards against an excess where chance explains the differences, and one that differs from what was added.
    #[test]
    fn what_was_added_is_found() {
        let mut random = Random::new(5);
        for added in [0.0, 0.05, 0.2] {
            let mut found: Vec<f64> = (0..100)
                .map(|_| {
                    let one = |_| (0.03 * random.normal() + added * random.normal(), 0.03);
                    excess(&(0..120).map(one).collect::<Vec<(f64, f64)>>())
                })
                .collect();
            found.sort_by(f64::total_cmp);
            let (low, high) = (found[5], found[95]);
            assert!(low <= added && added <= high && high - low < 0.03 + 0.5 * added, "{added}: {low} to {high}");
        }
    }

    /// Guards against differences of a few curves that widen those of all.
    #[test]
    fn a_few_large_differences_change_little() {
        let mut random = Random::new(6);
        let mut all: Vec<(f64, f64)> = (0..100).map(|_| (0.03 * random.normal(), 0.03)).collect();
        let before = excess(&all);
        for one in all.iter_mut().take(20) {
            one.0 = 1.5;
        }
        assert!(excess(&all) - before < 0.03, "{before} {}", excess(&all));
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        for all in [&[][..], &[(0.5, 0.0), (0.7, 0.0)], &[(0.0, 0.1); 30]] {
            assert!(excess(all).abs() < 1e-12, "{all:?}");
        }
    }
}
