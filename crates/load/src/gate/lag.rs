//! The generator must keep its schedule: a request that it sends late measures the generator, not the server.

use super::{Gate, Verdict};
use crate::outcome::Outcome;

/// The lag that 99.9% of the requests must not exceed: 1 ms, or a tenth of the 99th percentile of the latency if that
/// is more.
const LAG_NS: u64 = 1_000_000;

pub(super) const GATE: Gate = Gate {
    name: "lag",
    about: "99.9% of requests: schedule lag at most 1 ms, or 10% of the p99 latency if that is more",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.phases.schedule_lag.record(5_000_000),
};

fn check(outcome: &Outcome) -> Verdict {
    let phases = &outcome.metrics.phases;
    if phases.schedule_lag.count() == 0 {
        return Verdict::NotApplicable;
    }
    let lag_ns = phases.schedule_lag.quantile_ns(0.999);
    let limit_ns = LAG_NS.max(phases.latency.quantile_ns(0.99) / 10);
    if lag_ns <= limit_ns {
        return Verdict::Passed;
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    Verdict::Failed(format!(
        "the generator's p99.9 schedule lag is {:.1} ms (limit: {:.1} ms); lower --rate, add --workers, or give the \
         generator its own CPU with --pin",
        ms(lag_ns),
        ms(limit_ns)
    ))
}
