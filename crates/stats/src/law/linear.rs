//! The cost rises by the same amount with every object: O(n).
//!
//! Cause: a scan of a list, a bitmap or a table.

use crate::law::{Law, Place};

/// For the registry.
pub(super) const LAW: &dyn Law = &Linear;

struct Linear;

impl Law for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant"]
    }

    fn g(&self, n: f64, _place: Place) -> f64 {
        n
    }
}
