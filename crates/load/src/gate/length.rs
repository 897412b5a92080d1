//! Responses to the same request must have the same length: a shorter one is often an error page with status 200.

use super::{CheckResult, Gate, passed_if_answered};
use crate::outcome::Outcome;

pub(super) const GATE: Gate = Gate {
    name: "length",
    about: "responses to the same request have the same length",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.length_mismatches = 1,
};

fn check(outcome: &Outcome) -> CheckResult {
    match (outcome.metrics.length_mismatches, &outcome.metrics.length_mismatch) {
        (0, _) => passed_if_answered(outcome),
        (count, example) => CheckResult::Failed(format!(
            "{count} responses differ in length from the first response to the same request ({})",
            example.as_deref().unwrap_or_default()
        )),
    }
}
