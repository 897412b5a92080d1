//! No listening socket of this host may overflow: an overflow delays connections by a second or drops them.

use super::{CheckResult, Gate};
use crate::counters::OVERFLOWS;
use crate::outcome::Outcome;

pub(super) const GATE: Gate = Gate {
    name: "overflow",
    about: "no listening socket of this host overflowed during the run",
    check,
    #[cfg(test)]
    violate: |outcome| {
        outcome.is_local = true;
        outcome.counters.insert("ListenDrops".to_owned(), 1);
    },
};

fn check(outcome: &Outcome) -> CheckResult {
    if !outcome.is_local {
        return CheckResult::NotApplicable;
    }
    if !outcome.has_counters {
        return CheckResult::NotJudged("this host does not count overflows");
    }
    let is_overflow = |name: &str| OVERFLOWS.contains(&name);
    let increased = outcome.counters.iter().filter(|(name, _)| is_overflow(name));
    let increased: Vec<String> = increased.map(|(name, count)| format!("{name} +{count}")).collect();
    if increased.is_empty() {
        return CheckResult::Passed;
    }
    CheckResult::Failed(format!(
        "a listening socket of this host overflowed ({}): connections were delayed by a second or lost; raise the \
         server's backlog and net.core.somaxconn, or limit --connect-rate or --connect-window",
        increased.join(", ")
    ))
}
