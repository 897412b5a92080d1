//! The two ends of a curve: the costs that every sentence, table, label and comparison states.

use landau_stats::{Estimate, Judgement};
use serde::Serialize;

/// A cost at an n.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostAt {
    /// The number of objects.
    pub n: f64,
    /// The cost in the unit of the judgement, 95%.
    pub cost: Estimate,
}

/// Two n within this factor of each other are the same end: passes reach a limit a call or two apart.
const SAME_N: f64 = 1.02;

/// Returns the cost at the smallest judged n.
pub(crate) fn small(judged: &Judgement) -> Option<CostAt> {
    judged.range.zip(judged.start).map(|(range, cost)| CostAt { n: range.0, cost })
}

/// Returns the cost at large n: at the largest judged n, or at the last point if there is a cliff or nothing is judged.
pub(crate) fn large(judged: &Judgement) -> Option<CostAt> {
    let last = judged.points.last().map(|point| CostAt { n: point.n, cost: point.cost });
    let end = judged.range.zip(judged.end).map(|(range, cost)| CostAt { n: range.1, cost });
    if judged.cliffs.is_empty() { end.or(last) } else { last.or(end) }
}

/// Returns the largest n at which the costs of both curves are stated, if it is the same for both and before any cliff.
pub(crate) fn common(a: &Judgement, b: &Judgement) -> Option<f64> {
    let (from, to) = (large(a)?, large(b)?);
    let is_smooth = a.cliffs.is_empty() && b.cliffs.is_empty();
    (is_smooth && is_same_n(from.n, to.n)).then_some(to.n)
}

/// Returns whether two n are the same end.
pub(crate) fn is_same_n(a: f64, b: f64) -> bool {
    (a / b).ln().abs() < SAME_N.ln()
}
