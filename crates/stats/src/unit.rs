//! The unit of a cost.

use serde::{Deserialize, Serialize};

/// The unit of a cost: what it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds, measured with error.
    #[default]
    #[serde(rename = "ns")]
    Time,
    /// Nanoseconds of an emulator's clock: judged as time, but not a measure of speed.
    #[serde(rename = "emulated_ns")]
    EmulatedTime,
    /// Instructions, counted exactly.
    #[serde(rename = "instructions")]
    Instructions,
}
