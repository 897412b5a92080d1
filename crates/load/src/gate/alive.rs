//! The idle connections must survive the samples: otherwise the latency is that beside fewer connections than reported.

use super::{Gate, Verdict};
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

fn check(outcome: &Outcome) -> Verdict {
    if outcome.load != Load::Idle {
        return Verdict::NotApplicable;
    }
    if outcome.steps.is_empty() {
        return Verdict::NotJudged("no step was completed");
    }
    match outcome.steps.iter().find(|step| u64::from(step.n) > step.open) {
        None => Verdict::Passed,
        Some(step) => {
            Verdict::Failed(format!("{} of {} idle connections were open after the samples", step.open, step.n))
        }
    }
}
