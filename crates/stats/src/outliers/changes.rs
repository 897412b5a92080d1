//! Recurring outliers that one of two curves has and the other lacks.
//!
//! A position that recurs in one curve may be missing in the list of the other because of a single pass. So the calls
//! at those positions are counted in both curves, pass by pass: a pass has the outliers if at least half of its calls
//! there are outliers. The outliers came or went if nearly all passes of one curve have them and nearly none of the
//! other.
//!
//! This rule has no p value. Fisher's test over calls would assume that the calls of a pass are independent, and a test
//! over passes has too few of them: with five passes on each side its smallest p value is 1/252, so a correction for
//! more than twelve groups would remove every finding. Outliers that each pass has by the toss of a coin are reported
//! as a change in 0.2% of the cases with five passes each (2.1% if Fisher's test at 5% decided);
//! `a_coin_makes_no_change` computes this.
//!
//! The passes of a run share the state in which earlier programs left the slabs. The period of small outliers, or its
//! phase, depends on that state. So only large outliers and tables that double are compared, and a period that the
//! other curve has with another phase is not a change. Without these conditions 9 of the 122 curves of two records of
//! one machine showed a change.

use super::{BLOCK, Outliers, Pattern, PatternRule, is_outlier, local_medians};
use crate::Curve;
use crate::points::{Series, series_of};
use serde::{Deserialize, Serialize};

/// Recurring outliers that belong together: those that follow one rule, or all of a curve that follow none. First calls
/// do not belong to any group.
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
    /// The first of their n that both curves reach.
    pub first_n: u32,
    /// The number of their positions that both curves reach.
    pub positions: usize,
    /// Share of the calls at these positions that are outliers, in the first and in the second curve, 0 to 1.
    pub shares: [f64; 2],
}

/// A pass has outliers if at least this share of its calls at their positions are outliers.
const PASS_HAS: f64 = 0.5;
/// A curve has outliers if at least this share of its passes have them, and lacks them if at most one minus this share
/// do. With fewer than ten passes, this means all and none.
const CURVE_HAS: f64 = 0.9;
/// Minimum number of passes to show that something is absent.
const PASSES_MIN: usize = 5;
/// Smallest factor, over the calls around them, of compared outliers that are periodic or follow no rule.
const LARGE: f64 = 5.0;
/// The most lenient tier.
const TIER: usize = 2;

impl Outliers {
    /// Returns the recurring outliers in groups, without those among the first calls.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let rules = self.patterns.iter().filter(|pattern| pattern.rule != PatternRule::FirstCalls);
        let of_rule = |pattern| Group { pattern: Some(pattern), positions: self.following(pattern).collect() };
        let rest = Group { pattern: None, positions: self.without_pattern().iter().map(|one| one.n).collect() };
        rules.map(of_rule).chain([rest]).filter(|group| !group.positions.is_empty()).collect()
    }
}

/// Returns the groups of recurring outliers that one of two curves has and the other lacks.
pub fn outlier_changes(a: (&Curve, &Outliers), b: (&Curve, &Outliers)) -> Vec<OutlierChange> {
    let of = |own: &Outliers, other: &Outliers, came| {
        let groups = own.groups().into_iter().filter(|group| is_large(group, own) && !has_period(other, group));
        groups.filter_map(|group| change(&group, came, (a.0, b.0))).collect::<Vec<OutlierChange>>()
    };
    let (came, went) = (of(b.1, a.1, true), of(a.1, b.1, false));
    came.into_iter().chain(went).collect()
}

/// Whether a group does not depend on the state in which earlier programs left the slabs.
fn is_large(group: &Group<'_>, outliers: &Outliers) -> bool {
    match group.pattern {
        Some(pattern) if matches!(pattern.rule, PatternRule::PowersOfTwo { .. }) => true,
        Some(pattern) => pattern.factor >= LARGE,
        None => outliers.without_pattern().iter().any(|one| one.factor >= LARGE),
    }
}

/// Whether a curve has outliers with the same period, or a multiple or a divisor of it, with any phase.
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
    // Positions beyond the end of one of the curves carry no information.
    let end = |curve: &Curve| curve.passes.iter().filter_map(|pass| pass.n.iter().max()).max().copied();
    let end = end(a)?.min(end(b)?);
    let positions: Vec<u32> = group.positions.iter().copied().filter(|n| *n <= end).collect();
    let (of_a, of_b) = (shares(a, &positions), shares(b, &positions));
    let (has, lacks) = if came { (&of_b, &of_a) } else { (&of_a, &of_b) };
    if !is_change(count_of(has), count_of(lacks)) {
        return None;
    }
    let mean = |shares: &[f64]| shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let rule = group.pattern.map(|pattern| pattern.rule);
    let first_n = *positions.first()?;
    Some(OutlierChange { came, rule, first_n, positions: positions.len(), shares: [mean(&of_a), mean(&of_b)] })
}

/// Returns the share of the calls at these positions that are outliers, for each pass with calls there.
fn shares(curve: &Curve, positions: &[u32]) -> Vec<f64> {
    let share = |one: &Series| {
        let locals = local_medians(one);
        let (mut hits, mut calls) = (0, 0);
        for n in positions {
            let from = one.n.partition_point(|x| x < n);
            let to = one.n.partition_point(|x| x <= n);
            calls += to - from;
            hits += (from..to).filter(|i| is_outlier(one.costs[*i], locals[i / BLOCK], TIER)).count();
        }
        (calls > 0).then(|| hits as f64 / calls as f64)
    };
    series_of(curve, false).iter().filter_map(share).collect()
}

/// Returns the number of passes that have the outliers, and the number of all passes.
fn count_of(shares: &[f64]) -> (usize, usize) {
    (shares.iter().filter(|share| **share >= PASS_HAS).count(), shares.len())
}

/// Whether passes show that one curve has outliers and the other lacks them.
fn is_change((has, of): (usize, usize), (lacking, among): (usize, usize)) -> bool {
    let are_enough = of >= PASSES_MIN && among >= PASSES_MIN;
    are_enough && has as f64 >= CURVE_HAS * of as f64 && (among - lacking) as f64 >= CURVE_HAS * among as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Pass, judge};

    /// Returns five passes of 4,000 calls of about 1 µs; calls for which `is_slow` is true cost 20 µs.
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
        assert!(came[0].came && came[0].shares[0] < 0.01 && came[0].shares[1] > 0.99, "{came:?}");
        let went = changes(&tables, &none);
        assert!(went.len() == 1 && !went[0].came && went[0].shares[0] > 0.99, "{went:?}");
        let both = changes(&tables, &curve(3, u32::is_power_of_two));
        assert!(both.is_empty(), "{both:?}");
        assert!(changes(&none, &curve(4, |_| false)).is_empty());
    }

    /// Guards against losing positions without a rule if there is a rule or if there are first calls, even if they cost
    /// as much as those.
    #[test]
    fn positions_without_a_rule_are_a_group_beside_rules() {
        let none = curve(1, |_| false);
        let is_single = |n: u32| n == 1_501 || n == 1_613;
        let cases: [(&str, Curve); 3] = [
            ("alone", curve(2, is_single)),
            ("beside first calls", curve(2, |n| n < 9 || is_single(n))),
            ("beside a period", curve(2, |n| n % 64 == 5 || is_single(n))),
        ];
        for (name, one) in &cases {
            let outliers = judge(one, None, &Options::default()).outliers;
            let rest: Vec<Vec<u32>> = outliers
                .groups()
                .iter()
                .filter(|group| group.pattern.is_none())
                .map(|one| one.positions.clone())
                .collect();
            assert_eq!(rest, [[1_501, 1_613]], "{name}: {:?}", outliers.patterns);
            let came = changes(&none, one);
            assert!(came.iter().any(|one| one.came && one.rule.is_none() && one.positions == 2), "{name}: {came:?}");
        }
        let first = judge(&curve(2, |n| n < 9), None, &Options::default()).outliers;
        assert!(first.groups().is_empty() && !first.recurring.is_empty(), "{first:?}");
    }

    /// Guards against reporting a change if only the fill of the slabs differs between runs.
    #[test]
    fn a_period_that_begins_elsewhere_is_no_change() {
        let (one, other) = (curve(1, |n| n % 64 == 5), curve(2, |n| n % 64 == 40));
        assert!(changes(&one, &other).is_empty(), "{:?}", changes(&one, &other));
        assert!(changes(&one, &curve(3, |n| n % 192 == 7)).is_empty());
        assert!(changes(&one, &curve(3, |n| n % 50 == 7)).iter().any(|one| one.came));
    }

    /// Guards against reporting outliers that "came" at positions where the base was not measured.
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

    /// Guards against counting calls as replicates: outliers that one of five passes lacks are not a change.
    #[test]
    fn passes_decide() {
        let (none, mut tables) = (curve(1, |_| false), curve(2, u32::is_power_of_two));
        tables.passes[4] = none.passes[4].clone();
        assert!(changes(&none, &tables).is_empty(), "{:?}", changes(&none, &tables));
        let few = Curve { passes: curve(2, u32::is_power_of_two).passes[..4].to_vec(), ..Curve::default() };
        assert!(changes(&none, &few).is_empty());
        assert!(is_change((9, 10), (1, 10)) && !is_change((8, 10), (0, 10)) && !is_change((10, 10), (2, 10)));
    }

    /// Computes the figures in the documentation of the module: how often a group that each pass has with probability
    /// `q` is reported as a change, in either direction, for the worst q. This is not simulated.
    #[test]
    fn a_coin_makes_no_change() {
        let worst = |passes: usize, rule: &dyn Fn(usize, usize) -> bool| {
            let weight = |k: usize, q: f64| {
                let ways: f64 = (0..k).map(|i| (passes - i) as f64 / (i + 1) as f64).product();
                ways * q.powf(k as f64) * (1.0 - q).powf((passes - k) as f64)
            };
            let chance = |q: f64| {
                let pairs = (0..=passes).flat_map(|a| (0..=passes).map(move |b| (a, b)));
                pairs.filter(|(a, b)| rule(*a, *b) || rule(*b, *a)).map(|(a, b)| weight(a, q) * weight(b, q)).sum()
            };
            (1..100).map(|percent| chance(f64::from(percent) / 100.0)).fold(0.0_f64, f64::max)
        };
        let own = |passes| worst(passes, &|has, lacking| is_change((has, passes), (lacking, passes)));
        assert!((own(5) - 2.0 / 1024.0).abs() < 1e-12 && [6, 9, 10, 20].iter().all(|one| own(*one) < 0.002));
        // Fisher's test over five passes on each side, at 5%, rejects 5:0, 4:0 and 5:1.
        let fisher = worst(5, &|has, lacking| matches!((has, lacking), (4 | 5, 0) | (5, 1)));
        assert!((fisher - 22.0 / 1024.0).abs() < 1e-12, "{fisher}");
    }
}
