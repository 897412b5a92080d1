//! A pass: its beginning, its samples and windows, its end.

use super::{Canary, Direction, Facts, Samples};
use serde::{Deserialize, Serialize};

/// The beginning of a pass, in a fresh worker process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PassStart {
    /// Number within the record, from 0, in the order of execution.
    pub pass: u32,
    /// The case.
    pub case: u32,
    /// The round, from 0. A repeated attempt has the same round.
    pub round: u32,
    /// Milliseconds since the run (or its resumption) began.
    pub at_ms: u64,
    /// The phases that needed passes when an adaptive pass was chosen, because they were not resolved or had a wide
    /// interval; absent for a planned pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adaptive_for: Vec<String>,
}

impl PassStart {
    /// Returns whether the pass was made in addition to the planned ones.
    pub fn is_adaptive(&self) -> bool {
        !self.adaptive_for.is_empty()
    }
}

/// Samples of consecutive calls of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The pass.
    pub pass: u32,
    /// The phase.
    pub phase: String,
    /// n at the first call: the number of objects after it (creation) or before it (destruction).
    pub first: u32,
    /// +1 during creation, -1 during destruction, 0 if all calls were made at one chosen n.
    pub stride: i32,
    /// The cost of each call, in the unit of the record's clock.
    #[serde(flatten)]
    pub samples: Samples,
}

/// The interference during a window of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The pass.
    pub pass: u32,
    /// Creation or destruction.
    pub direction: Direction,
    /// n at the first step of the window.
    pub first: u32,
    /// Steps in the window.
    pub count: u32,
    /// Microseconds from the first step of the pass to the end of the window.
    pub until_us: u64,
    /// Involuntary context switches.
    pub preempted: u32,
    /// Minor and major page faults.
    pub faults: [u32; 2],
    /// The processor at the end of the window; -1 if unknown.
    pub processor: i32,
    /// Time that the hypervisor stole from the processors of the measured processes, in milliseconds; from all
    /// processors if these are not pinned, and in records older than the member `steal_windows`.
    pub steal_ms: u32,
    /// The number of windows over which that time was stolen: this one and those before it. Absent if none was stolen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_windows: Option<u32>,
    /// Involuntary context switches of the other processes that the benchmark measures, such as a server. Absent if
    /// there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_preempted: Option<u32>,
    /// Minor and major page faults of those processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_faults: Option<[u32; 2]>,
    /// The tags of each step's call. Absent if the benchmark does not tag calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallTags>,
    /// The costs of the canary's calls in the window, in the unit of the record's clock.
    #[serde(flatten)]
    pub canary: Canary,
}

/// The tags of the calls of a window, in the order of the steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallTags {
    /// RCU softirqs that began on the processor during each call. Absent if they cannot be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rcu_softirqs: Option<Vec<u32>>,
    /// The cost of the canary next to each call, in the unit of the record's clock.
    #[serde(flatten)]
    pub canary: Canary,
}

impl CallTags {
    /// Returns an error message if the tags do not fit a window with this many steps.
    pub(crate) fn misfit(&self, steps: u32) -> Option<String> {
        let counts = [self.rcu_softirqs.as_ref().map(Vec::len), Some(self.canary.values().len())];
        let other = counts.into_iter().flatten().find(|count| *count != steps as usize)?;
        Some(format!("it has {steps} steps, but tags of {other} calls"))
    }
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every step was taken and the check passed.
    Done,
    /// The kernel refused a step, which is a result.
    Limit,
    /// A step or the check failed, but not because of a limit.
    Failed,
    /// The user interrupted it.
    Interrupted,
    /// The time limit ended it.
    Cut,
    /// The kernel crashed, which is a result; a `crash` line describes it.
    Crashed,
}

/// A refused step that ends a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The step that was refused.
    pub n: u64,
    /// The call that was refused.
    pub call: String,
    /// The error number: 24.
    pub errno: i32,
    /// The error's symbolic name: `EMFILE`.
    pub error: String,
    /// The limit that was reached, in words, with its value.
    pub meaning: String,
    /// The command that raises it; empty if there is none.
    pub raise: String,
}

/// The end of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassEnd {
    /// The pass.
    pub pass: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Steps of the creation that succeeded.
    pub steps: u64,
    /// Wall time of the worker in milliseconds.
    pub elapsed_ms: u64,
    /// The refused step, if `outcome` is `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// What failed, if `outcome` is `failed` or `cut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the benchmark's check established.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
}
