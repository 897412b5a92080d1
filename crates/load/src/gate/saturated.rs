//! No worker may use up its CPU: a saturated generator measures itself.
//!
//! CPU shares are measured for each second, because the average over a run hides a generator that is saturated for part
//! of it.

use super::{CheckResult, Gate};
use crate::outcome::Outcome;
use crate::plan::Load;

/// The share of the seconds in which a worker may be saturated.
const SECONDS: f64 = 0.01;

pub(super) const GATE: Gate = Gate {
    name: "saturated",
    about: "no worker used more than 85% of a CPU in more than 1% of the seconds (closed loop: a warning above 95%)",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.metrics.count_cpu(9, 10),
};

fn check(outcome: &Outcome) -> CheckResult {
    let limit = outcome.saturation_percent();
    let (above, all) = outcome.metrics.seconds_above(limit);
    let Some(busiest) = outcome.metrics.busiest_percent() else {
        return CheckResult::NotJudged("no CPU time was measured");
    };
    let average = outcome.busiest_worker_cpu_share * 100.0;
    if above as f64 <= SECONDS * all as f64 && average <= f64::from(limit) {
        return CheckResult::Passed;
    }
    let intervals = if outcome.load == Load::Idle { "steps" } else { "seconds" };
    let used = format!(
        "a worker used more than {limit}% of a CPU in {above} of {all} {intervals} (at most {busiest}%; average of the \
         busiest worker: {average:.0}%)"
    );
    match outcome.load {
        Load::Closed => {
            CheckResult::Warning(format!("{used}: the generator is the bottleneck, or nearly; add --workers or CPUs"))
        }
        Load::Open { .. } | Load::Idle => CheckResult::Failed(format!("{used}; add --workers")),
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::{state, valid};
    use crate::outcome::{GateState, Outcome};
    use crate::plan::Load;

    #[test]
    fn saturated_closed_loop_is_a_warning() {
        let mut outcome = Outcome::new(Load::Closed);
        outcome.metrics.count_cpu(99, 100);
        assert_eq!(state(&outcome, "saturated", &[]), GateState::Warning);
    }

    /// The average over a run once hid a generator that was saturated for a tenth of it.
    #[test]
    fn one_saturated_second_in_a_hundred_is_allowed() {
        for (calm, expected) in [(9, GateState::Failed), (98, GateState::Failed), (99, GateState::Passed)] {
            let mut outcome = Outcome { busiest_worker_cpu_share: 0.3, ..Outcome::new(valid().load) };
            (0..calm).for_each(|_| outcome.metrics.count_cpu(20, 100));
            outcome.metrics.count_cpu(97, 100);
            assert_eq!(state(&outcome, "saturated", &[]), expected, "{calm}");
        }
    }

    #[test]
    fn worker_that_is_saturated_among_many_is_not_hidden() {
        let mut outcome = Outcome { busiest_worker_cpu_share: 0.97, ..Outcome::new(valid().load) };
        (0..500).for_each(|_| outcome.metrics.count_cpu(20, 100));
        outcome.metrics.count_cpu(97, 100);
        assert_eq!(state(&outcome, "saturated", &[]), GateState::Failed);
    }
}
