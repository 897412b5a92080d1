//! Recurring outliers that one of two curves has and the other lacks.
//!
//! A position that recurs in one curve may be missing in the list of the other because one pass more or less decided.
//! So the calls at those positions are counted in both: a change is shown if the other curve has outliers at few of
//! them, and Fisher's exact test finds the difference significant.
//!
//! A test of calls knows nothing of how runs differ. The small outliers of slabs and pages do: their period, or where
//! it begins, depends on what earlier programs left in the slabs. So only large outliers are compared, and tables that
//! double; and a period that the other curve has at another place is no change. Without these conditions 9
//! of the 122 curves of two records of one machine showed a change.

use super::{BLOCK, Outliers, Pattern, PatternRule, is_outlier, local_medians};
use crate::Curve;
use crate::points::series_of;
use serde::{Deserialize, Serialize};
use statrs::distribution::{DiscreteCDF, Hypergeometric};

/// Recurring outliers that belong together: those that follow one rule, or all of a curve without a rule. First calls
/// are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Group<'o> {
    /// Their rule, if they follow one.
    pub pattern: Option<&'o Pattern>,
    /// Their n, rising.
    pub positions: Vec<u32>,
}

/// Recurring outliers that came or went between two curves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutlierChange {
    /// Whether the second curve has them and the first lacks them.
    pub came: bool,
    /// Their rule, if they follow one.
    pub rule: Option<PatternRule>,
    /// The first n of them that both curves reach.
    pub first_n: u32,
    /// The number of their positions that both curves reach.
    pub positions: usize,
    /// Share of the calls at these positions that are outliers, in the first and in the second curve, 0 to 1.
    pub shares: [f64; 2],
    /// One-sided p value of equal shares (Fisher).
    pub p: f64,
    /// The same, corrected by [`crate::adjusted`] for the number of groups in the report; equal to `p` before.
    pub p_adjusted: f64,
}

/// A curve with outliers at no more than this share of the positions lacks them.
const ABSENT_MAX: f64 = 0.2;
/// Outliers of a period, or of none, are compared from this factor over the calls around them on.
const LARGE: f64 = 5.0;
/// The most lenient tier.
const TIER: usize = 2;

impl Outliers {
    /// Returns the recurring outliers in groups, without those among the first calls.
    pub fn groups(&self) -> Vec<Group<'_>> {
        if self.patterns.is_empty() {
            let positions: Vec<u32> = self.recurring.iter().map(|one| one.n).collect();
            return if positions.is_empty() { Vec::new() } else { vec![Group { pattern: None, positions }] };
        }
        let rules = self.patterns.iter().filter(|pattern| pattern.rule != PatternRule::FirstCalls);
        let group = |pattern| Group { pattern: Some(pattern), positions: self.following(pattern).collect() };
        rules.map(group).filter(|group| !group.positions.is_empty()).collect()
    }
}

/// Returns every group of recurring outliers of two curves with the shares in both; one that both have has a `p` of 1.
pub fn outlier_changes(a: (&Curve, &Outliers), b: (&Curve, &Outliers)) -> Vec<OutlierChange> {
    let of = |own: &Outliers, other: &Outliers, came| {
        let groups = own.groups().into_iter().filter(|group| is_large(group, own) && !has_period(other, group));
        groups.filter_map(|group| change(&group, came, (a.0, b.0))).collect::<Vec<OutlierChange>>()
    };
    let (came, went) = (of(b.1, a.1, true), of(a.1, b.1, false));
    came.into_iter().chain(went).collect()
}

/// Whether a group does not depend on what earlier programs left behind.
fn is_large(group: &Group<'_>, outliers: &Outliers) -> bool {
    match group.pattern {
        Some(pattern) if matches!(pattern.rule, PatternRule::PowersOfTwo { .. }) => true,
        Some(pattern) => pattern.factor >= LARGE,
        None => outliers.recurring.iter().any(|one| one.factor >= LARGE),
    }
}

/// Whether a curve has outliers of the same period, or of a multiple or a divisor, wherever they begin.
fn has_period(outliers: &Outliers, group: &Group<'_>) -> bool {
    let period = |pattern: &Pattern| match pattern.rule {
        PatternRule::Periodic { period, .. } => Some(period),
        _ => None,
    };
    let Some(own) = group.pattern.and_then(period) else { return false };
    let others = outliers.patterns.iter().filter_map(period);
    others.into_iter().any(|other| own.is_multiple_of(other) || other.is_multiple_of(own))
}

fn change(group: &Group<'_>, came: bool, (a, b): (&Curve, &Curve)) -> Option<OutlierChange> {
    // Positions beyond the end of one of the curves say nothing.
    let end = |curve: &Curve| curve.passes.iter().filter_map(|pass| pass.n.iter().max()).max().copied();
    let end = end(a)?.min(end(b)?);
    let positions: Vec<u32> = group.positions.iter().copied().filter(|n| *n <= end).collect();
    let (hits_a, of_a) = hits(a, &positions);
    let (hits_b, of_b) = hits(b, &positions);
    if of_a == 0 || of_b == 0 {
        return None;
    }
    let shares = [hits_a as f64 / of_a as f64, hits_b as f64 / of_b as f64];
    let (lacking, lacking_share) = if came { ((hits_a, of_a), shares[0]) } else { ((hits_b, of_b), shares[1]) };
    let p = if lacking_share <= ABSENT_MAX { fisher(lacking, hits_a + hits_b, of_a + of_b) } else { 1.0 };
    let rule = group.pattern.map(|pattern| pattern.rule);
    let first_n = *positions.first()?;
    Some(OutlierChange { came, rule, first_n, positions: positions.len(), shares, p, p_adjusted: p })
}

/// How many calls at these positions are outliers, and how many calls there are.
fn hits(curve: &Curve, positions: &[u32]) -> (usize, usize) {
    let mut found = (0, 0);
    for one in series_of(curve, false) {
        let locals = local_medians(&one);
        for n in positions {
            let from = one.n.partition_point(|x| x < n);
            let to = one.n.partition_point(|x| x <= n);
            found.1 += to - from;
            found.0 += (from..to).filter(|i| is_outlier(one.costs[*i], locals[i / BLOCK], TIER)).count();
        }
    }
    found
}

/// The probability of so few outliers among `of` calls, if all outliers are spread over all calls by chance.
fn fisher((hits, of): (usize, usize), all_hits: usize, all: usize) -> f64 {
    Hypergeometric::new(all as u64, all_hits as u64, of as u64).map_or(1.0, |law| law.cdf(hits as u64).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Pass, judge};

    /// Five passes of 4,000 calls of about 1 µs; calls at which `is_slow` cost 20 µs.
    fn curve(seed: u64, is_slow: impl Fn(u32) -> bool) -> Curve {
        let mut random = crate::random::Random::new(seed);
        let mut pass = || {
            let n: Vec<u32> = (1..=4000).collect();
            let cost = |n: &u32| (1000.0 + 30.0 * random.normal() + if is_slow(*n) { 19_000.0 } else { 0.0 }) as u64;
            let costs = n.iter().map(cost).collect();
            Pass { clean: vec![true; n.len()], n, costs }
        };
        Curve { passes: (0..5).map(|_| pass()).collect(), ..Curve::default() }
    }

    fn changes(a: &Curve, b: &Curve) -> Vec<OutlierChange> {
        let verdicts = [a, b].map(|curve| judge(curve, None, &Options::default()));
        outlier_changes((a, &verdicts[0].outliers), (b, &verdicts[1].outliers))
    }

    #[test]
    fn outliers_come_and_go() {
        let (none, tables) = (curve(1, |_| false), curve(2, u32::is_power_of_two));
        let came = changes(&none, &tables);
        assert_eq!(came.len(), 1, "{came:?}");
        assert!(came[0].came && came[0].p < 1e-6 && came[0].shares[0] < 0.01 && came[0].shares[1] > 0.99, "{came:?}");
        let went = changes(&tables, &none);
        assert!(went.len() == 1 && !went[0].came && went[0].p < 1e-6, "{went:?}");
        let both = changes(&tables, &curve(3, u32::is_power_of_two));
        assert!(!both.is_empty() && both.iter().all(|one| one.p >= 1.0), "{both:?}");
        assert!(changes(&none, &curve(4, |_| false)).is_empty());
    }

    /// Guards against slabs that are filled differently in each run.
    #[test]
    fn a_period_that_begins_elsewhere_is_no_change() {
        let (one, other) = (curve(1, |n| n % 64 == 5), curve(2, |n| n % 64 == 40));
        assert!(changes(&one, &other).is_empty(), "{:?}", changes(&one, &other));
        assert!(changes(&one, &curve(3, |n| n % 192 == 7)).is_empty());
        assert!(changes(&one, &curve(3, |n| n % 50 == 7)).iter().any(|one| one.came && one.p < 1e-6));
    }

    /// Guards against outliers that "came" where the base was not measured.
    #[test]
    fn positions_beyond_the_shorter_curve_are_not_compared() {
        let mut short = curve(1, |_| false);
        for pass in &mut short.passes {
            pass.n.truncate(1000);
            pass.costs.truncate(1000);
            pass.clean.truncate(1000);
        }
        assert!(changes(&short, &curve(2, |n| n >= 1500 && n % 500 == 0)).is_empty());
    }

    /// By hand: none of 5 calls against 5 of 5 has one of 252 arrangements.
    #[test]
    fn the_test_is_fishers() {
        assert!((fisher((0, 5), 5, 10) - 1.0 / 252.0).abs() < 1e-12);
        assert!((fisher((5, 5), 5, 10) - 1.0).abs() < 1e-12);
    }
}
