//! Every request must be answered: latencies that leave out failed requests are too low.

use super::{CheckResult, Gate, no_failures, passed_if_answered};
use crate::outcome::Outcome;

pub(super) const GATE: Gate = Gate {
    name: "errors",
    about: "no request failed: no timeout, reset, early close or invalid response",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.fail(crate::Failure::Timeout, String::new),
};

fn check(outcome: &Outcome) -> CheckResult {
    match no_failures(outcome, |failure| !failure.is_of_connecting()) {
        CheckResult::Passed => passed_if_answered(outcome),
        verdict => verdict,
    }
}
