//! Every connection must be established: a run with fewer connections than requested measures another load.

use super::{Gate, Verdict, no_failures};
use crate::failure::Failure;
use crate::outcome::Outcome;

pub(super) const GATE: Gate = Gate {
    name: "connect",
    about: "every connection was established",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.fail(Failure::ConnectRefused, String::new),
};

fn check(outcome: &Outcome) -> Verdict {
    match no_failures(outcome, Failure::is_of_connecting) {
        Verdict::Passed if outcome.metrics.connections == 0 => Verdict::NotJudged("no connection was attempted"),
        verdict => verdict,
    }
}
