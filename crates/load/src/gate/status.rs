//! Every response must be a success: error pages are cheaper, or more expensive, than the requested content.

use super::{CheckResult, Gate, passed_if_answered};
use crate::outcome::Outcome;

pub(super) const GATE: Gate = Gate {
    name: "status",
    about: "every response has a 2xx or 3xx status",
    check,
    #[cfg(test)]
    violate: |outcome| {
        outcome.metrics.statuses.insert(503, 1);
    },
};

fn check(outcome: &Outcome) -> CheckResult {
    let errors = outcome.metrics.statuses.iter().filter(|(status, _)| !(200..400).contains(*status));
    let errors: Vec<String> = errors.map(|(status, count)| format!("{count} × {status}")).collect();
    if errors.is_empty() {
        passed_if_answered(outcome)
    } else {
        CheckResult::Failed(format!("responses with an error status: {}", errors.join(", ")))
    }
}
