//! Flat, then linear: objects outgrow a cache, or a scan starts when a table is full.
//!
//! The linear law is the special case with a knee at zero.

use crate::law::{Candidate, Law, Place, Shape};

/// For the registry.
pub(super) const LAW: &dyn Law = &Knee;

struct Knee;

impl Law for Knee {
    fn name(&self) -> &'static str {
        "knee"
    }

    fn shape(&self) -> Shape {
        Shape::Knee
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant", "linear"]
    }

    /// Tries every point from the second to the third last: fewer than two points beyond the knee show no slope.
    fn candidates(&self, points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        let places = 1..points.len().saturating_sub(2);
        places.map(|i| Candidate::free(points[i])).collect()
    }

    fn g(&self, n: f64, place: Place) -> f64 {
        (n - place.n).max(0.0)
    }
}
