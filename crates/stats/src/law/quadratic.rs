//! Twice the objects cost four times as much: O(N²).
//!
//! A scan inside a scan, or a chain whose links have themselves grown.

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
