//! Options of a run that only the lab uses: windows of single steps and injected faults.

use serde::{Deserialize, Serialize};

/// The part of a run in which each step is a window, so that no step before an expected crash is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepWindows {
    /// The pass, by its number within the record.
    pub pass: u32,
    /// The first n of the creation.
    pub from: u64,
}

/// A fault to inject, for tests of what the lab records when a kernel crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The kernel panics at this n.
    Panic(u64),
    /// The worker loops forever at this n.
    Hang(u64),
}
