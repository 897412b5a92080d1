//! Every connection must be established: a run with fewer connections than requested measures a different load.

use super::{CheckResult, Gate, no_failures};
use crate::failure::Failure;
use crate::outcome::Outcome;

pub(super) const GATE: Gate = Gate {
    name: "connect",
    about: "every connection was established",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.fail(Failure::ConnectRefused, String::new),
};

fn check(outcome: &Outcome) -> CheckResult {
    match no_failures(outcome, Failure::is_of_connecting) {
        CheckResult::Passed if outcome.metrics.connections == 0 => {
            CheckResult::NotJudged("no connection was attempted")
        }
        verdict => verdict,
    }
}
