//! A limit as a row of the answer.

use crate::text::grouped;
use serde::Serialize;

/// The owner of per-namespace network settings.
pub(crate) const OF_A_NETWORK: &str = "this network namespace";

/// A limit, with its bounds, the evidence and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the limit in the system: `RLIMIT_NOFILE`, `net.core.somaxconn`, `pids.max of /a/b`.
    pub limit: String,
    /// Its value, as text.
    pub value: String,
    /// The amount in use, if it is known.
    pub in_use: Option<u64>,
    /// Whether `in_use` is in bytes.
    pub is_bytes: bool,
    /// The owner of the limit: this process, user, control group, namespace, or the host.
    pub owner: String,
    /// Its bound for each demand that needs it.
    pub bounds: Vec<Bound>,
    /// The evidence for the bound: the call that fails, or the law that predicts it.
    pub evidence: String,
    /// Its counters, counted since the system started, or since the namespace or group was created.
    pub counters: Vec<Counter>,
    /// The remedy that raises it.
    pub remedy: Remedy,
}

/// The bound of a limit on a kind of load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// The kind of load.
    pub kind: &'static str,
    /// The maximum that fits.
    pub at_most: u64,
    /// The unit: "connections a process".
    pub unit: String,
    /// Whether more fails, or only gets slower or fails now and then.
    pub effect: Effect,
}

/// The effect of exceeding a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It cannot be exceeded.
    Stops,
    /// It can be exceeded, but something gets slower, or fails now and then.
    Bends,
}

/// A kernel counter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Its current value.
    pub value: u64,
}

/// A way to raise a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// The command for immediate effect, until the next boot.
    pub now: Option<String>,
    /// The line and its file for a permanent change.
    pub for_good: Option<String>,
    /// The risk of the change.
    pub risk: Option<String>,
}

/// Returns the value to which a limit is to be raised if no value above `ceiling` is accepted; `None` if `target` is
/// required and above it. Twice the limit is only a suggestion.
pub(crate) fn below(limit: u64, target: u64, ceiling: u64) -> Option<u64> {
    let is_suggested = target == limit.saturating_mul(2) && limit < ceiling;
    (target <= ceiling || is_suggested).then_some(target.min(ceiling))
}

impl Remedy {
    /// Returns the remedy for a sysctl that is to be raised from `limit` to `target`; the kernel accepts no value above
    /// `ceiling`.
    pub(crate) fn sysctl_below(name: &str, limit: u64, target: u64, ceiling: u64, risk: &str) -> Self {
        match below(limit, target, ceiling) {
            Some(value) => Self::sysctl(name, &value.to_string(), risk),
            None => Self::none(&format!("{name} is at most {}", grouped(ceiling))),
        }
    }

    /// Returns a remedy from the immediate command, the permanent setting and the risk.
    pub(crate) fn of(now: impl Into<String>, for_good: impl Into<String>, risk: &str) -> Self {
        Self { now: Some(now.into()), for_good: Some(for_good.into()), risk: Some(risk.to_owned()) }
    }

    /// Returns a remedy for a size that exceeds what the kernel can be set to: there is none.
    pub(crate) fn none(why: &str) -> Self {
        Self { for_good: Some(format!("no setting of this host is high enough: {why}")), ..Self::default() }
    }

    /// Returns the remedy for a sysctl: the command, and the line of a file in `sysctl.d`.
    pub(crate) fn sysctl(name: &str, value: &str, risk: &str) -> Self {
        let quoted = if value.contains(' ') { format!("\"{value}\"") } else { value.to_owned() };
        Self {
            now: Some(format!("sysctl -w {name}={quoted}")),
            for_good: Some(format!("\"{name} = {value}\" in /etc/sysctl.d/90-landau.conf")),
            risk: Some(risk.to_owned()),
        }
    }
}

/// A property of the host that does not limit anything, but distorts times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// Its name: "clock source".
    pub name: String,
    /// Its state: "tsc".
    pub value: String,
    /// Whether it distorts times.
    pub bends: bool,
    /// Its effect on times, or why it has none.
    pub effect: String,
    /// The remedy, if it distorts times and can be changed.
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
