//! Limits that came, went or moved between two records.

use crate::quantity::count;
use crate::{Analysis, CaseStudy, LimitMet};
use serde::Serialize;

/// A limit that differs between two records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitChange {
    /// The label of the case.
    pub case: String,
    /// Where the base met a limit; absent if it met none.
    pub base: Option<Met>,
    /// Where the new record met one.
    pub new: Option<Met>,
    /// The change in words.
    pub text: String,
}

/// A limit that ended passes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Met {
    /// The call that was refused.
    pub call: String,
    /// The error's symbolic name.
    pub error: String,
    /// The smallest and the largest n at which passes met it.
    pub n: (u64, u64),
    /// The limit in words, with its value.
    pub meaning: String,
}

/// Limits within this factor of each other are the same: passes meet one a call or two apart.
const SAME_N: f64 = 1.02;

/// Returns the limits that changed, of the cases that both records have.
pub(super) fn of(base: &Analysis<'_>, new: &Analysis<'_>, names: [&str; 2]) -> Vec<LimitChange> {
    let pairs = base.cases.iter().filter_map(|study| {
        let there = new.cases.iter().find(|other| other.case.label == study.case.label)?;
        change(study, there, names)
    });
    pairs.collect()
}

fn change(base: &CaseStudy<'_>, new: &CaseStudy<'_>, [from, to]: [&str; 2]) -> Option<LimitChange> {
    let reached = |study: &CaseStudy<'_>| u64::from(study.largest_n());
    let text = match (&base.limit, &new.limit) {
        (Some(a), Some(b)) if is_same(a, b) => return None,
        (Some(a), Some(b)) => {
            format!("{} at n = {} in {from}, {} at n = {} in {to}", a.limit.error, a.at(), b.limit.error, b.at())
        }
        // A side that ends before the other's limit says nothing about it.
        (Some(a), None) if reached(new) > a.range.1 => {
            format!(
                "{} at n = {} in {from}; none in {to} up to n = {}",
                a.limit.error,
                a.at(),
                count(reached(new) as f64)
            )
        }
        (None, Some(b)) if reached(base) > b.range.1 => {
            format!(
                "{} at n = {} in {to}; none in {from} up to n = {}",
                b.limit.error,
                b.at(),
                count(reached(base) as f64)
            )
        }
        _ => return None,
    };
    let met = |one: &LimitMet<'_>| Met {
        call: one.limit.call.clone(),
        error: one.limit.error.clone(),
        n: one.range,
        meaning: one.limit.meaning.clone(),
    };
    let (case, base, new) = (base.case.label.clone(), base.limit.as_ref().map(met), new.limit.as_ref().map(met));
    Some(LimitChange { case, base, new, text })
}

fn is_same(a: &LimitMet<'_>, b: &LimitMet<'_>) -> bool {
    let overlap = a.range.0 as f64 <= b.range.1 as f64 * SAME_N && b.range.0 as f64 <= a.range.1 as f64 * SAME_N;
    a.limit.error == b.limit.error && overlap
}
