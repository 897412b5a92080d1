//! A limit as a row of the answer.

use crate::text::grouped;
use serde::Serialize;

/// The owner of a network namespace's own settings.
pub(crate) const OF_A_NETWORK: &str = "this network namespace";

/// A limit, what it bounds, what shows that, and what raises it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The limit's name in the system: `RLIMIT_NOFILE`, `net.core.somaxconn`, `pids.max of /a/b`.
    pub limit: String,
    /// Its value, in words.
    pub value: String,
    /// How much of it is in use, if that is known.
    pub in_use: Option<u64>,
    /// Whether that is in bytes.
    pub is_bytes: bool,
    /// Whose limit it is: of this process, user, control group, namespace, or of the host.
    pub owner: String,
    /// What it bounds, for each demand that needs it.
    pub bounds: Vec<Bound>,
    /// What shows that it bounds this: the call that fails, or the law that predicts it.
    pub evidence: String,
    /// The counters that moved since the system started, or the namespace or group was created.
    pub counters: Vec<Counter>,
    /// How to raise it.
    pub remedy: Remedy,
}

/// What a limit bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The kind of load.
    pub kind: &'static str,
    /// The most that fits.
    pub at_most: u64,
    /// What is counted: "connections a process".
    pub unit: String,
    /// Whether more fails, or is only slowed down or refused now and then.
    pub effect: Effect,
}

/// What happens beyond a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It cannot be exceeded.
    Stops,
    /// It can, but something gets slower, or fails now and then.
    Bends,
}

/// A counter of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Its value now.
    pub value: u64,
}

/// How to raise a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The command for now, until the next start.
    pub now: Option<String>,
    /// The line and its file for good.
    pub for_good: Option<String>,
    /// What may go wrong then.
    pub risk: Option<String>,
    /// What reaches the size without raising the limit.
    pub instead: Option<String>,
}

impl Remedy {
    /// A sysctl that is to be raised from `limit` to `target`, and that the kernel lets reach no more than `ceiling`.
    pub(crate) fn sysctl_below(name: &str, limit: u64, target: u64, ceiling: u64, risk: &str) -> Self {
        // Twice the limit is only a proposal.
        let is_asked = target != limit.saturating_mul(2) || limit >= ceiling;
        if target > ceiling && is_asked {
            return Self::none(&format!("{name} is at most {}", grouped(ceiling)));
        }
        Self::sysctl(name, &target.min(ceiling).to_string(), risk)
    }

    /// A command for now, the setting for good, and what may go wrong.
    pub(crate) fn of(now: impl Into<String>, for_good: impl Into<String>, risk: &str) -> Self {
        let (now, for_good, risk) = (Some(now.into()), Some(for_good.into()), Some(risk.to_owned()));
        Self { now, for_good, risk, instead: None }
    }

    /// No remedy: the size exceeds what the kernel can be set to.
    pub(crate) fn none(why: &str) -> Self {
        Self { for_good: Some(format!("no setting of this host reaches it: {why}")), ..Self::default() }
    }

    /// A sysctl: the command, and the line of a file in `sysctl.d`.
    pub(crate) fn sysctl(name: &str, value: &str, risk: &str) -> Self {
        let quoted = if value.contains(' ') { format!("\"{value}\"") } else { value.to_owned() };
        Self {
            now: Some(format!("sysctl -w {name}={quoted}")),
            for_good: Some(format!("\"{name} = {value}\" in /etc/sysctl.d/90-landau.conf")),
            risk: Some(risk.to_owned()),
            instead: None,
        }
    }
}

/// Something about the host that stops nothing, but bends times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// What it is: "clock source".
    pub name: String,
    /// Its state: "tsc".
    pub value: String,
    /// Whether it bends times.
    pub bends: bool,
    /// What it does to times, or why it does nothing.
    pub effect: String,
    /// How to change it, if it bends times and something does.
    #[serde(flatten)]
    pub remedy: Remedy,
}

impl Condition {
    pub(crate) fn fine(name: &str, value: impl Into<String>, effect: &str) -> Self {
        Self::when(false, name, value, effect, Remedy::default())
    }

    pub(crate) fn bends(name: &str, value: impl Into<String>, effect: &str, remedy: Remedy) -> Self {
        Self::when(true, name, value, effect, remedy)
    }

    pub(crate) fn when(bends: bool, name: &str, value: impl Into<String>, effect: &str, remedy: Remedy) -> Self {
        let remedy = if bends { remedy } else { Remedy::default() };
        Self { name: name.to_owned(), value: value.into(), bends, effect: effect.to_owned(), remedy }
    }
}
