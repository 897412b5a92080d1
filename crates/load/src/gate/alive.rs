//! The idle connections must survive the samples: otherwise the latency was measured with fewer connections than
//! reported.

use super::{CheckResult, Gate};
use crate::outcome::Outcome;
use crate::plan::Load;

pub(super) const GATE: Gate = Gate {
    name: "alive",
    about: "at each number of idle connections, all of them were still open after the samples",
    check,
    #[cfg(test)]
    violate: |outcome| {
        outcome.load = Load::Idle;
        outcome.steps.push(crate::outcome::Step { n: 10, open: 9, ..Default::default() });
    },
};

fn check(outcome: &Outcome) -> CheckResult {
    if outcome.load != Load::Idle {
        return CheckResult::NotApplicable;
    }
    if outcome.steps.is_empty() {
        return CheckResult::NotJudged("no step was completed");
    }
    match outcome.steps.iter().find(|step| !step.is_reached()) {
        None => CheckResult::Passed,
        Some(step) => {
            CheckResult::Failed(format!("{} of {} idle connections were open after the samples", step.open, step.n))
        }
    }
}
