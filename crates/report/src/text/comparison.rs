//! A comparison of two records in words.

use crate::quantity::percent;
use landau_stats::{Comparison, Estimate, Unit};

/// The result, with the records' names: "new costs 12% less than old (95% CI 10–14%)". `gain` is the fraction by which
/// the winner is cheaper.
pub(crate) fn comparison(winner: &str, loser: &str, gain: Estimate, unit: Unit) -> String {
    let by = percent(gain.value);
    if unit == Unit::Instructions {
        return format!("{winner} executes {by} fewer instructions than {loser}");
    }
    let (low, high) = (percent(gain.low.max(0.0)), percent(gain.high));
    format!("{winner} costs {by} less than {loser} (95% CI {low}–{high})")
}

/// The result where neither record is shown to be cheaper.
pub(crate) fn no_difference(comparison: &Comparison) -> String {
    let is_exact = comparison.a.all.unit == Unit::Instructions;
    match (comparison.ratio, comparison.detectable) {
        (Some(ratio), _) if is_exact => {
            let all = [comparison.ratio_start, Some(ratio), comparison.ratio_end];
            if all.iter().flatten().all(|one| (one.value - 1.0).abs() < 1e-12) {
                "identical".to_owned()
            } else {
                format!("no relevant difference: {} of the base", percent(ratio.value))
            }
        }
        (Some(_), Some(detectable)) => {
            format!("no significant difference at 95% (minimum detectable: {})", percent(detectable))
        }
        (Some(_), None) => "no significant difference at 95%".to_owned(),
        (None, _) => "not comparable: both records need at least two passes and a common range of n".to_owned(),
    }
}
