//! The cost rises slightly faster than the number of objects: O(n log n).
//!
//! Cause: each call sorts, or rebuilds a tree.

use crate::law::{Law, Place};

/// For the registry.
pub(super) const LAW: &dyn Law = &Linearithmic;

struct Linearithmic;

impl Law for Linearithmic {
    fn name(&self) -> &'static str {
        "linearithmic"
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant"]
    }

    fn g(&self, n: f64, _place: Place) -> f64 {
        n * n.max(1.0).log2()
    }
}
