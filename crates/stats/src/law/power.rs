//! The cost rises as n√n: between a scan of all objects and a scan of all pairs, for example if the number of
//! collisions or merges grows with the root of n.

use crate::law::{Law, Place};

/// For the registry.
pub(super) const LAW: &dyn Law = &Power;

struct Power;

impl Law for Power {
    fn name(&self) -> &'static str {
        "power"
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant"]
    }

    fn g(&self, n: f64, _place: Place) -> f64 {
        n * n.sqrt()
    }
}
