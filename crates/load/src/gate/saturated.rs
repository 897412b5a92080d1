//! No worker may use up its CPU: a saturated generator measures itself.

use super::{Gate, Verdict};
use crate::outcome::Outcome;
use crate::plan::Load;

/// The share of a CPU above which a worker of an open loop or an idle load is not trusted to be on time.
const OPEN: f64 = 0.85;

/// The share of a CPU above which a worker of a closed loop is the bottleneck.
const CLOSED: f64 = 0.95;

pub(super) const GATE: Gate = Gate {
    name: "saturated",
    about: "no worker used more than 85% of a CPU (closed loop: a warning above 95%)",
    check,
    #[cfg(test)]
    violate: |outcome| outcome.busiest_worker_cpu_share = 0.9,
};

fn check(outcome: &Outcome) -> Verdict {
    let share = outcome.busiest_worker_cpu_share;
    let used = |limit: f64| format!("a worker used {:.0}% of a CPU (limit: {:.0}%)", share * 100.0, limit * 100.0);
    match outcome.load {
        Load::Closed if share > CLOSED => Verdict::Warning(format!(
            "{}: the generator is the bottleneck, or nearly; add --workers or CPUs",
            used(CLOSED)
        )),
        Load::Open { .. } | Load::Idle if share > OPEN => Verdict::Failed(format!("{}; add --workers", used(OPEN))),
        _ => Verdict::Passed,
    }
}

#[cfg(test)]
mod tests {
    use crate::gate::tests::state;
    use crate::outcome::{GateState, Outcome};
    use crate::plan::Load;

    #[test]
    fn saturated_closed_loop_is_a_warning() {
        let mut outcome = Outcome::new(Load::Closed);
        outcome.busiest_worker_cpu_share = 0.99;
        assert_eq!(state(&outcome, "saturated", &[]), GateState::Warning);
    }
}
