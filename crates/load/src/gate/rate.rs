//! The server must keep up with the rate of an open loop.
//!
//! A server that is too slow still answers everything if the run waits for it. But its queue grows during the schedule,
//! and with it the latency from the due time. The latency of a server that keeps up is stationary, however high it is.
//! If the run is long enough, the trend of the latency shows a queue of any size. A server that falls behind only at
//! the end of a run shows no trend, but more requests are pending at the end of the schedule than halfway through it.

use super::{CheckResult, Gate};
use crate::outcome::Outcome;
use crate::plan::Load;

/// The share of the due requests that must be answered.
const RATE: f64 = 0.99;

/// Allowed growth of the number of pending requests from the middle of the schedule to its end, in standard deviations
/// of the number in the middle.
const DEVIATIONS: f64 = 2.0;

/// Growth of the latency over a run that does not count as a growing queue, whatever its confidence interval: the lag
/// that the generator may have, and the effect of caches and of other programs.
const LEAST_GROWTH_NS: f64 = 1e6;

pub(super) const GATE: Gate = Gate {
    name: "rate",
    about: "99% of the due requests were answered, and neither latency nor pending requests grew over the run",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.responses = 90,
};

fn check(outcome: &Outcome) -> CheckResult {
    let Load::Open { per_second, .. } = outcome.load else { return CheckResult::NotApplicable };
    let metrics = &outcome.metrics;
    let (responses, due) = (metrics.responses, metrics.due);
    if due == 0 {
        return CheckResult::NotJudged("no request was due");
    }
    let rates = format!("{:.0} of {per_second:.0} requests/s were answered", outcome.responses_per_second());
    if (responses as f64) < RATE * due as f64 {
        return CheckResult::Failed(format!("{rates}: {responses} of {due} due requests"));
    }
    // The queue grows by the number of requests that fall due during the growth of the latency; fewer than one is not a
    // queue.
    let is_queue = |growth_ns: f64| growth_ns >= LEAST_GROWTH_NS && growth_ns * per_second / 1e9 >= 1.0;
    if let Some(trend) = metrics.latency_series.trend().filter(|trend| is_queue(trend.low_ns)) {
        let ms = |ns: f64| ns / 1e6;
        return CheckResult::Failed(format!(
            "{rates}, and the latency grew by {:.1} ms over the run (99% interval: {:.1} to {:.1} ms), so the server \
             does not keep up; lower --rate",
            ms(trend.growth_ns),
            ms(trend.low_ns),
            ms(trend.high_ns)
        ));
    }
    let (half, end) = (metrics.pending_at_half, metrics.pending_at_end);
    let allowed = (1.0 - RATE) * due as f64 + DEVIATIONS * (half as f64 + 1.0).sqrt();
    if end as f64 <= half as f64 + allowed {
        return CheckResult::Passed;
    }
    CheckResult::Failed(format!(
        "{rates}: {half} requests were pending at half of the schedule and {end} at its end, so the server does not \
         keep up (if it only has a high latency, measure for longer)"
    ))
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::{state, valid};
    use crate::outcome::GateState;

    /// Of 10,000 requests, some are pending in the middle of the schedule and some at its end.
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
