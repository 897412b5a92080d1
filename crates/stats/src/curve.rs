//! What was measured: every timed call of one phase of one case, pass by pass.
//!
//! A pass is one fresh process and the unit of replication (METHODOLOGY.md); the calls inside it are not independent
//! of one another, so nothing in this crate ever counts them as if they were.

use serde::{Deserialize, Serialize};

/// Every timed call of one phase of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The passes, in the order in which they ran (the order matters only for pairing and for episodes).
    pub passes: Vec<Pass>,
    /// Sizes of this host, in objects, at which something may happen.
    pub annotations: Vec<Annotation>,
}

/// The timed calls of one fresh process. The three columns have equal length; if they do not, the excess is ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// How many objects exist when the call is made. Any order: ascending, descending (the way down) or shuffled.
    pub n: Vec<u32>,
    /// Cost of the call in nanoseconds.
    pub costs: Vec<u64>,
    /// Whether nothing (preemption, stolen time, a migration) was seen to interfere with the call.
    pub clean: Vec<bool>,
}

/// A size of the host, expressed in objects, at which a curve may bend or end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Annotation {
    /// As a reader knows it: "half the ephemeral range", "second-level cache".
    pub name: String,
    /// Its size in objects.
    pub n: f64,
    /// What sort of size it is.
    pub kind: AnnotationKind,
}

/// The sorts of sizes that a host is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AnnotationKind {
    /// A resource that runs out here; the curve is sampled close below and above it.
    Capacity,
    /// A kernel table of this many slots.
    Table,
    /// A cache that this many objects fill.
    Cache,
}
