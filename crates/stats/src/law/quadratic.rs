//! Twice the objects cost four times as much: O(n²).
//!
//! Cause: nested scans, or a chain whose links have grown.

use crate::law::{Law, Place};

/// For the registry.
pub(super) const LAW: &dyn Law = &Quadratic;

struct Quadratic;

impl Law for Quadratic {
    fn name(&self) -> &'static str {
        "quadratic"
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant"]
    }

    fn g(&self, n: f64, _place: Place) -> f64 {
        n * n
    }
}
