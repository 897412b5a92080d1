//! Fisher's exact test of two shares.
//!
//! Source: R. A. Fisher, "The Design of Experiments" (1935), chapter 2; the two-sided p value is the sum over all
//! tables with the same margins that are no more likely than the observed one.

use statrs::distribution::{Discrete, Hypergeometric};

/// Returns the two-sided p value of equal shares, where `[a, b]` events occurred in `[m, n]` trials; 1 without a trial
/// on a side, or with more events than trials.
pub fn fisher_exact(events: [u64; 2], trials: [u64; 2]) -> f64 {
    let ([a, b], [m, n]) = (events, trials);
    if m == 0 || n == 0 || a > m || b > n {
        return 1.0;
    }
    // Of m + n trials, a + b have the event, and m are drawn.
    let Ok(tables) = Hypergeometric::new(m + n, a + b, m) else { return 1.0 };
    let observed = tables.pmf(a);
    let possible = (a + b).saturating_sub(n)..=(a + b).min(m);
    // Equally likely tables differ by rounding.
    let p: f64 = possible.map(|count| tables.pmf(count)).filter(|chance| *chance <= observed * (1.0 + 1e-9)).sum();
    p.min(1.0)
}

/// Returns the two-sided p value of equal shares in every one of several strata, each with events and trials as for
/// [`fisher_exact`]: the test of the sum of the events of the first sides, with the margins of each stratum fixed.
///
/// Source: N. Mantel and W. Haenszel, "Statistical aspects of the analysis of data from retrospective studies of
/// disease" (1959); the distribution of the sum is computed, not approximated.
pub fn stratified_exact(strata: &[([u64; 2], [u64; 2])]) -> f64 {
    let (mut sums, mut observed) = (vec![1.0], 0);
    for ([a, b], [m, n]) in strata {
        let Ok(tables) = Hypergeometric::new(m + n, a + b, *m) else { return 1.0 };
        let chances: Vec<f64> = (0..=*m).map(|count| tables.pmf(count)).collect();
        let mut next = vec![0.0; sums.len() + chances.len() - 1];
        for (place, sum) in sums.iter().enumerate() {
            for (count, chance) in chances.iter().enumerate() {
                next[place + count] += sum * chance;
            }
        }
        (sums, observed) = (next, observed + *a as usize);
    }
    let Some(own) = sums.get(observed).copied() else { return 1.0 };
    sums.iter().filter(|chance| **chance <= own * (1.0 + 1e-9)).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fisher's lady tasting tea: three of four cups identified correctly is 34 of 70 ways, in both directions.
    #[test]
    fn p_values_are_those_by_hand() {
        let near = |p: f64, by_hand: f64| assert!((p - by_hand).abs() < 1e-12, "{p} instead of {by_hand}");
        near(fisher_exact([3, 1], [4, 4]), 34.0 / 70.0);
        near(fisher_exact([5, 0], [5, 5]), 2.0 / 252.0);
        near(fisher_exact([0, 5], [5, 5]), 2.0 / 252.0);
        near(fisher_exact([0, 0], [5, 5]), 1.0);
        near(fisher_exact([2, 0], [2, 0]), 1.0);
    }

    /// With one stratum it is Fisher's test; with three strata of five failures against none it is 2/252³.
    #[test]
    fn strata_add_up() {
        for (events, trials) in [([3, 1], [4, 4]), ([5, 0], [5, 5]), ([2, 3], [9, 7]), ([0, 0], [5, 5])] {
            let [one, whole] = [stratified_exact(&[(events, trials)]), fisher_exact(events, trials)];
            assert!((one - whole).abs() < 1e-12, "{one} instead of {whole}");
        }
        let p = stratified_exact(&[([0, 5], [5, 5]); 3]);
        assert!((p - 2.0 / 252_f64.powi(3)).abs() < 1e-15, "{p}");
        // Failures in both directions cancel each other.
        assert!(stratified_exact(&[([0, 5], [5, 5]), ([5, 0], [5, 5])]) > 0.99);
        assert!((stratified_exact(&[]) - 1.0).abs() < 1e-12);
    }
}
