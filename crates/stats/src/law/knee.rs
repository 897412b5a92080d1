//! Flat at first, then linear: a cache that is outgrown, or a scan that only begins once something is full.
//!
//! It becomes the linear law as the knee goes to zero, so that law is nested in it.

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

    /// From the second point to the third from the end: a rise seen at fewer than two points has no slope.
    fn candidates(&self, points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        let places = 1..points.len().saturating_sub(2);
        places.map(|i| Candidate::free(points[i])).collect()
    }

    fn g(&self, n: f64, place: Place) -> f64 {
        (n - place.n).max(0.0)
    }
}
