//! Four times the objects cost twice as much: O(√n).
//!
//! Cause: a hash table that is resized too rarely, or two costs that balance each other.

use crate::law::{Law, Place};

/// For the registry.
pub(super) const LAW: &dyn Law = &Root;

struct Root;

impl Law for Root {
    fn name(&self) -> &'static str {
        "root"
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant"]
    }

    fn g(&self, n: f64, _place: Place) -> f64 {
        n.sqrt()
    }
}
