//! Every doubling costs the same again: O(log N).
//!
//! A tree or a binary search; also what a cache hierarchy looks like from afar.

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
