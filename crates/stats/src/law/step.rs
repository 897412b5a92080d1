//! One flat level, then another: a cache that no longer holds the objects, a larger table, a second path.
//!
//! A step lies between two points; a jump by three times or more is no step but a cliff (see `cliffs`).

use crate::law::{Candidate, Law, Place, Shape};

/// For the registry.
pub(super) const LAW: &dyn Law = &Step;

struct Step;

impl Law for Step {
    fn name(&self) -> &'static str {
        "step"
    }

    fn shape(&self) -> Shape {
        Shape::Step
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant"]
    }

    /// Every place between two points that leaves two points on each side: one point alone is an oddity, not a level.
    fn candidates(&self, points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        let places = 2..points.len().saturating_sub(1);
        let middle = |i: usize| (points[i - 1] * points[i]).sqrt();
        places.map(|i| Candidate::free(middle(i))).collect()
    }

    fn g(&self, n: f64, place: Place) -> f64 {
        f64::from(u8::from(n >= place.n))
    }
}
