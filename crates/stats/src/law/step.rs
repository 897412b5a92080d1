//! One constant level, then another: objects outgrow a cache, a larger table, another path.
//!
//! A step is between two points; a jump to three times or more is a cliff (see `cliffs`).

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

    /// Between every two points, with at least two points on each side: a single point is not a level.
    fn candidates(&self, points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        let places = 2..points.len().saturating_sub(1);
        let middle = |i: usize| (points[i - 1] * points[i]).sqrt();
        places.map(|i| Candidate::free(middle(i))).collect()
    }

    fn g(&self, n: f64, place: Place) -> f64 {
        f64::from(u8::from(n >= place.n))
    }
}
