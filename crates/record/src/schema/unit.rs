//! Units of samples: real time, instructions, or an emulator's time, which is neither.
//!
//! A record has one unit, that of its clock ([`super::Clock::unit`]). Members that hold samples are named by it (`ns`,
//! `instructions`), so that a query for one cannot return the other.

use serde::{Deserialize, Serialize};

/// The unit of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds of real time; the unit of records without the member.
    #[default]
    Ns,
    /// Instructions, counted exactly by an emulator.
    Instructions,
    /// Nanoseconds of an emulator that does not count instructions. They do not predict real time.
    EmulatedNs,
}

impl Unit {
    /// Returns the unit's name, which is the suffix of the names of a record's members.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Instructions => "instructions",
            Unit::EmulatedNs => "emulated_ns",
        }
    }

    /// Returns whether this is the unit of records without the member.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Unit::default()
    }
}

/// Defines a member whose name ends in its unit.
macro_rules! by_unit {
    ($(#[$about:meta])* $name:ident of $values:ty: $ns:literal, $instructions:literal, $emulated:literal) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum $name {
            /// In [`Unit::Ns`].
            #[serde(rename = $ns)]
            Ns($values),
            /// In [`Unit::Instructions`].
            #[serde(rename = $instructions)]
            Instructions($values),
            /// In [`Unit::EmulatedNs`].
            #[serde(rename = $emulated)]
            EmulatedNs($values),
        }

        impl $name {
            /// Returns these values in that unit.
            pub fn new(unit: Unit, values: $values) -> Self {
                match unit {
                    Unit::Ns => Self::Ns(values),
                    Unit::Instructions => Self::Instructions(values),
                    Unit::EmulatedNs => Self::EmulatedNs(values),
                }
            }

            /// Returns the unit.
            pub fn unit(&self) -> Unit {
                match self {
                    Self::Ns(_) => Unit::Ns,
                    Self::Instructions(_) => Unit::Instructions,
                    Self::EmulatedNs(_) => Unit::EmulatedNs,
                }
            }

            /// Returns the values.
            pub fn values(&self) -> &$values {
                match self {
                    Self::Ns(values) | Self::Instructions(values) | Self::EmulatedNs(values) => values,
                }
            }
        }
    };
}

by_unit! {
    /// The costs of consecutive calls.
    Samples of Vec<u64>: "ns", "instructions", "emulated_ns"
}

by_unit! {
    /// The costs of the canary's calls.
    Canary of Vec<u64>: "canary_ns", "canary_instructions", "canary_emulated_ns"
}

by_unit! {
    /// The cost of two readings of the clock with nothing between them.
    TimerOverhead of f64: "timer_overhead_ns", "timer_overhead_instructions", "timer_overhead_emulated_ns"
}

by_unit! {
    /// The smallest difference between two readings of the clock.
    Quantum of f64: "quantum_ns", "quantum_instructions", "quantum_emulated_ns"
}

impl Default for TimerOverhead {
    fn default() -> Self {
        Self::Ns(0.0)
    }
}

impl Default for Quantum {
    fn default() -> Self {
        Self::Ns(0.0)
    }
}
