//! The server must keep up with the rate of an open loop.
//!
//! A server that is too slow answers everything in the end, if the run waits for it. But while the schedule lasts, the
//! number of its pending requests grows. A server that keeps up has as many pending at half of the schedule as at its
//! end: those that its latency explains.

use super::{Gate, Verdict};
use crate::outcome::Outcome;
use crate::plan::Load;

/// The share of the due requests that must be answered.
const RATE: f64 = 0.99;

/// Allowed growth of the pending requests between half of the schedule and its end, in standard deviations of the
/// number at half.
const DEVIATIONS: f64 = 2.0;

pub(super) const GATE: Gate = Gate {
    name: "rate",
    about: "99% of the due requests were answered, and the pending requests did not grow",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.responses = 90,
};

fn check(outcome: &Outcome) -> Verdict {
    let Load::Open { per_second, .. } = outcome.load else { return Verdict::NotApplicable };
    let metrics = &outcome.metrics;
    let (responses, due) = (metrics.responses, metrics.due);
    let rates = format!("{:.0} of {per_second:.0} requests/s were answered", outcome.responses_per_second());
    if (responses as f64) < RATE * due as f64 {
        return Verdict::Failed(format!("{rates}: {responses} of {due} due requests"));
    }
    let (half, end) = (metrics.pending_at_half, metrics.pending_at_end);
    let allowed = (1.0 - RATE) * due as f64 + DEVIATIONS * (half as f64 + 1.0).sqrt();
    if end as f64 <= half as f64 + allowed {
        return Verdict::Passed;
    }
    Verdict::Failed(format!(
        "{rates}: {half} requests were pending at half of the schedule and {end} at its end, so the server does not \
         keep up (if it only has a high latency, measure for longer)"
    ))
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::{state, valid};
    use crate::outcome::GateState;

    /// Of 10,000 requests some are pending at half of the schedule and some at its end.
    #[test]
    fn growing_number_of_pending_requests_fails() {
        for (half, end, expected) in [
            (0, 0, GateState::Passed),
            // Each request takes a quarter of the schedule.
            (2500, 2500, GateState::Passed),
            (2500, 2650, GateState::Passed),
            (0, 90, GateState::Passed),
            // The server reaches 98%, a half, a tenth of the rate.
            (100, 200 + 30, GateState::Failed),
            (2500, 5000, GateState::Failed),
            (4500, 9000, GateState::Failed),
            // The server caught up.
            (3000, 10, GateState::Passed),
        ] {
            let mut outcome = valid();
            (outcome.metrics.responses, outcome.metrics.due) = (10_000, 10_000);
            (outcome.metrics.pending_at_half, outcome.metrics.pending_at_end) = (half, end);
            assert_eq!(state(&outcome, "rate", &[]), expected, "{half} {end}");
        }
    }
}
