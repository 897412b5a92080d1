//! The weight of a finding: the lower bound of its effect, in logarithms, times the share of the case's measured cost
//! that it concerns.
//!
//! A cost that grows to 75 times in the only call of a case outranks an outlier of a thousand times the cost that
//! occurs once in a million calls. Costs are those of all passes; a share is 0 to 1.

use crate::{CaseStudy, PhaseStudy};
use landau_stats::{Outcome, Outliers, RecurringOutlier, Verdict};
use std::collections::BTreeSet;

/// A limit weighs as much as a cost that is higher by half in every call: it ends a program, but most limits are known
/// settings.
pub(super) const LIMIT: f64 = 0.4;

/// Returns the weight of an effect that has at least this factor and concerns this share of the case's cost.
pub(super) fn weight(factor: f64, share: f64) -> f64 {
    factor.max(1.0).ln() * share
}

/// Returns the smallest factor by which a verdict shows its cost to change from end to end, or, for a cost that varies,
/// between any two points; 1 if it shows no change beyond δ.
pub(crate) fn change(verdict: &Verdict) -> f64 {
    let judged = &verdict.all;
    let factor = match (&judged.outcome, judged.growth) {
        (Outcome::Grows { .. }, Some(growth)) => growth.low,
        (Outcome::Falls, Some(growth)) => 1.0 / growth.high.max(f64::MIN_POSITIVE),
        (Outcome::Varies, _) => {
            let points = || judged.points.iter().filter(|point| point.judged).map(|point| point.cost);
            let highest = points().map(|cost| cost.low).fold(0.0, f64::max);
            highest / points().map(|cost| cost.high).fold(f64::INFINITY, f64::min)
        }
        _ => 1.0,
    };
    if factor.is_finite() { factor.max(1.0) } else { 1.0 }
}

/// Returns the share of the case's cost that the calls of a phase make up.
pub(super) fn of_phase(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> f64 {
    share(study, cost(phase, |_| true))
}

/// Returns the share of the case's cost that the calls of a phase from n on make up.
pub(super) fn from(study: &CaseStudy<'_>, phase: &PhaseStudy<'_>, n: f64) -> f64 {
    share(study, cost(phase, |at| f64::from(at) >= n))
}

/// Returns the recurring outliers except the first calls of a pass.
pub(super) fn after_first_calls(outliers: &Outliers) -> Vec<&RecurringOutlier> {
    let first_calls = outliers.patterns.iter().filter(|pattern| crate::text::is_first_calls(pattern));
    let first: BTreeSet<u32> = first_calls.flat_map(|pattern| outliers.following(pattern)).collect();
    outliers.recurring.iter().filter(|one| !first.contains(&one.n)).collect()
}

/// Returns the share of the phase's own cost that recurring outliers make up, and the number of their positions. The
/// first calls of a pass are excluded. Zero if no position recurs.
pub(super) fn of_outliers(phase: &PhaseStudy<'_>) -> (f64, usize) {
    let positions: BTreeSet<u32> = after_first_calls(&phase.verdict.outliers).iter().map(|one| one.n).collect();
    let all = cost(phase, |_| true);
    let share = if all == 0.0 { 0.0 } else { cost(phase, |n| positions.contains(&n)) / all };
    (share, positions.len())
}

/// Returns the share of the phase's own cost that the most expensive hundredth of its calls makes up.
pub(super) fn of_most_expensive(phase: &PhaseStudy<'_>) -> f64 {
    let mut costs: Vec<u64> = phase.curve.passes.iter().flat_map(|pass| pass.costs.iter().copied()).collect();
    let all = costs.iter().map(|cost| *cost as f64).sum::<f64>();
    let rest = costs.len() - costs.len() / 100;
    if rest == costs.len() || all == 0.0 {
        return 0.0;
    }
    let (_, first, others) = costs.select_nth_unstable(rest);
    (*first as f64 + others.iter().map(|cost| *cost as f64).sum::<f64>()) / all
}

/// Returns the cost of the calls of all passes at the selected n.
fn cost(phase: &PhaseStudy<'_>, is_meant: impl Fn(u32) -> bool) -> f64 {
    let calls = phase.curve.passes.iter().flat_map(|pass| pass.n.iter().zip(&pass.costs));
    calls.filter(|(n, _)| is_meant(**n)).map(|(_, cost)| *cost as f64).sum()
}

fn share(study: &CaseStudy<'_>, part: f64) -> f64 {
    let all: f64 = study.phases.iter().map(|phase| cost(phase, |_| true)).sum();
    if all == 0.0 { 0.0 } else { part / all }
}
