//! Limits that appeared, disappeared or moved between two records.

use crate::quantity::count;
use crate::{Analysis, CaseStudy, LimitMet};
use serde::Serialize;

/// A limit that differs between two records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitChange {
    /// The label of the case.
    pub case: String,
    /// Where the base reached a limit; absent if it reached none.
    pub base: Option<Met>,
    /// Where the new record reached one.
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
    /// The smallest and the largest n at which passes reached it.
    pub n: (u64, u64),
    /// The limit in words, with its value.
    pub meaning: String,
}

/// Limits within this factor of each other are the same: passes reach a limit a call or two apart.
const SAME_N: f64 = 1.02;

/// Returns the limits that changed, for the cases that both records have.
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
        // A side that ends before the other's limit gives no evidence about it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{SimulatedCase, record};
    use landau_stats::dense::{Noise, simulate, truths};

    /// Five passes that end at a limit, each up to two calls earlier.
    fn limited(n: u32, seed: u64) -> landau_record::Record {
        let ends: Vec<u32> = (0..5).map(|pass| n - ((seed + 7 * pass) % 3) as u32).collect();
        let mut curve = simulate(&truths(n)[0], &Noise::of_call(0.05), n, 5, 4 * seed + 1);
        for (pass, end) in curve.passes.iter_mut().zip(&ends) {
            pass.n.truncate(*end as usize - 1);
            pass.costs.truncate(*end as usize - 1);
        }
        record(&[SimulatedCase {
            benchmark: "open".to_owned(),
            phases: vec![("open".to_owned(), curve)],
            limits: ends.iter().map(|end| u64::from(*end)).collect(),
            ..SimulatedCase::default()
        }])
    }

    fn changes(base: &landau_record::Record, new: &landau_record::Record) -> Vec<LimitChange> {
        of(&Analysis::of(base), &Analysis::of(new), ["old", "new"])
    }

    /// A limit that became lower by 5% is found in each of twenty pairs, with both positions. A limit that passes reach
    /// a call or two apart has not moved in any. A limit that appeared or disappeared has only one side.
    #[test]
    fn a_lower_limit_is_found() {
        for seed in 0..20 {
            let (base, same, lower) = (limited(2_000, seed), limited(2_000, seed + 20), limited(1_900, seed + 40));
            assert_eq!(changes(&base, &same), Vec::new(), "{seed}");
            let [change] = changes(&base, &lower).try_into().unwrap();
            let places = [change.base.unwrap().n, change.new.unwrap().n];
            assert!(places[0].1 == 2_000 && places[1].1 == 1_900, "{seed}: {places:?}");
            assert!(change.text.starts_with("EMFILE at n = 1,998–2,000 in old, EMFILE at n = 1,898–1,900 in new"));
        }
        let (low, mut none) = (limited(1_000, 1), limited(2_000, 1));
        none.passes.iter_mut().flat_map(|pass| &mut pass.end).for_each(|end| end.limit = None);
        assert!(
            changes(&none, &low)[0].text.contains("in new; none in old up to n = 1,999"),
            "{:?}",
            changes(&none, &low)
        );
        assert!(changes(&low, &none)[0].new.is_none());
        // A run that ended earlier gives no evidence.
        none.passes.iter_mut().flat_map(|pass| pass.series.values_mut()).for_each(|lane| lane.n.truncate(900));
        none.passes.iter_mut().flat_map(|pass| pass.series.values_mut()).for_each(|lane| lane.costs.truncate(900));
        assert_eq!(changes(&low, &none), Vec::new());
    }
}
