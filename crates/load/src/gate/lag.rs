//! The generator must be on time: a request that it sends late, or a response that it reads late, measures the
//! generator and not the server.

use super::{CheckResult, Gate};
use crate::outcome::Outcome;
use crate::plan::Load;

/// The lag that 99.9% of requests and responses must not exceed: 1 ms, or a tenth of the 99th percentile of the latency
/// if that is more.
const LAG_NS: u64 = 1_000_000;

pub(super) const GATE: Gate = Gate {
    name: "lag",
    about: "99.9% of requests: schedule lag and response lag at most 1 ms, or 10% of the p99 latency if that is more",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.phases.schedule_lag.record(5_000_000),
};

fn check(outcome: &Outcome) -> CheckResult {
    let phases = &outcome.metrics.phases;
    let is_open = match outcome.load {
        Load::Open { .. } => true,
        Load::Closed => false,
        Load::Idle => return CheckResult::NotApplicable,
    };
    if phases.schedule_lag.count() == 0 && phases.response_lag.count() == 0 {
        return CheckResult::NotJudged("there was no request");
    }
    let latency = if is_open { &phases.latency } else { &phases.service };
    let limit_ns = LAG_NS.max(latency.quantile_ns(0.99) / 10);
    let lags = [("schedule", &phases.schedule_lag), ("response", &phases.response_lag)];
    let late = lags.into_iter().map(|(what, lags)| (lags.quantile_ns(0.999), what)).max();
    let Some((lag_ns, what)) = late.filter(|(lag_ns, _)| *lag_ns > limit_ns) else { return CheckResult::Passed };
    let ms = |ns: u64| ns as f64 / 1e6;
    let lag = format!("the generator's p99.9 {what} lag is {:.1} ms (limit: {:.1} ms)", ms(lag_ns), ms(limit_ns));
    if is_open {
        CheckResult::Failed(format!("{lag}; lower --rate, add --workers, or give the generator its own CPU with --pin"))
    } else {
        CheckResult::Warning(format!(
            "{lag}, so latencies are uncertain by that much; lower --connections, or add --workers"
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::{state, valid};
    use crate::outcome::{GateState, Outcome};
    use crate::plan::Load;

    #[test]
    fn late_responses_fail_an_open_loop_and_are_a_warning_in_a_closed_one() {
        for (load, expected) in [(valid().load, GateState::Failed), (Load::Closed, GateState::Warning)] {
            let mut outcome = Outcome { load, ..valid() };
            outcome.metrics.phases.response_lag.record_count(5_000_000, 100);
            assert_eq!(state(&outcome, "lag", &[]), expected);
        }
    }

    /// A tenth of a long latency is longer than a millisecond.
    #[test]
    fn lag_may_be_a_tenth_of_the_latency() {
        let mut outcome = Outcome::new(valid().load);
        outcome.metrics.phases.latency.record_count(60_000_000, 100);
        outcome.metrics.phases.response_lag.record_count(5_000_000, 100);
        assert_eq!(state(&outcome, "lag", &[]), GateState::Passed);
    }
}
