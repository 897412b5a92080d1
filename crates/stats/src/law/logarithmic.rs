//! Every doubling adds the same amount: O(log n).
//!
//! Cause: a tree or a binary search; a cache hierarchy looks similar.

use crate::law::{Law, Place};

/// For the registry.
pub(super) const LAW: &dyn Law = &Logarithmic;

struct Logarithmic;

impl Law for Logarithmic {
    fn name(&self) -> &'static str {
        "logarithmic"
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant"]
    }

    fn g(&self, n: f64, _place: Place) -> f64 {
        n.max(1.0).log2()
    }
}
