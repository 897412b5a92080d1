//! What a cost counts.

use serde::{Deserialize, Serialize};

/// What a cost counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds, measured with error.
    #[default]
    #[serde(rename = "ns")]
    Time,
    /// Nanoseconds of an emulator's clock: judged as time, but no measure of speed.
    #[serde(rename = "emulated_ns")]
    EmulatedTime,
    /// Instructions, counted exactly.
    #[serde(rename = "instructions")]
    Instructions,
}
