//! The input: every timed call of one phase of one case, pass by pass.
//!
//! A pass is one fresh process and the unit of replication (METHODOLOGY.md). The calls of a pass are not independent,
//! and nothing in this crate treats them as if they were.

use serde::{Deserialize, Serialize};

/// Every timed call of one phase of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The passes in the order of their execution, which matters only for pairing.
    pub passes: Vec<Pass>,
    /// Known positions on the axis.
    pub annotations: Vec<Annotation>,
}

/// Smallest share of clean calls that are judged separately.
const CLEAN_MIN: f64 = 0.5;

impl Curve {
    /// Returns the calls up to an n.
    pub(crate) fn up_to(&self, end: f64) -> Self {
        let pass = |pass: &Pass| {
            let mut kept = Pass::default();
            let clean = pass.clean.iter().copied().chain(std::iter::repeat(true));
            let calls = pass.n.iter().zip(&pass.costs).zip(clean);
            for ((n, cost), clean) in calls.filter(|call| f64::from(*call.0.0) <= end) {
                kept.n.push(*n);
                kept.costs.push(*cost);
                kept.clean.push(clean);
            }
            kept
        };
        Self { passes: self.passes.iter().map(pass).collect(), annotations: self.annotations.clone() }
    }

    /// Returns the number of calls without interference, and of all calls.
    fn clean_and_all(&self) -> (usize, usize) {
        let tags = self.passes.iter().flat_map(|pass| &pass.clean);
        tags.fold((0, 0), |(clean, all), is_clean| (clean + usize::from(*is_clean), all + 1))
    }

    /// Returns whether enough calls had no interference to be judged separately.
    pub(crate) fn is_mostly_clean(&self) -> bool {
        let (clean, all) = self.clean_and_all();
        clean as f64 >= CLEAN_MIN * all as f64
    }

    /// Returns whether any call had interference.
    pub(crate) fn is_disturbed(&self) -> bool {
        let (clean, all) = self.clean_and_all();
        clean < all
    }
}

/// The timed calls of one process. If the three columns differ in length, the excess is ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Number of objects at each call; rising (creation), falling (destruction) or shuffled.
    pub n: Vec<u32>,
    /// Cost of each call.
    pub costs: Vec<u64>,
    /// Whether each call was free of interference (preemption, stolen time, migration).
    pub clean: Vec<bool>,
}

/// A known position on the axis, at which a curve may bend or end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Annotation {
    /// Its name: "half the ephemeral port range", "second-level cache".
    pub name: String,
    /// The position, in objects.
    pub n: f64,
    /// Its kind.
    pub kind: AnnotationKind,
}

/// Kinds of annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AnnotationKind {
    /// A resource is exhausted here; the curve is sampled just below and above it.
    Capacity,
    /// A kernel table has this many slots.
    Table,
    /// This many objects fill a cache.
    Cache,
}
