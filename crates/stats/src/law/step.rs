//! One constant level, then another: objects outgrow a cache, a table becomes larger, or calls take another path.
//!
//! A step is between two points; a jump to two and a half times or more is a cliff (see `cliffs`).

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

    /// Tries a step between every two adjacent points, and inside the window of each point, whose median is then
    /// between the levels. Each side has at least two points, because a single point is not a level.
    fn candidates(&self, points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        let places = 2..points.len().saturating_sub(1);
        let between = places.clone().map(|i| Candidate::free((points[i - 1] * points[i]).sqrt()));
        let inside = places.filter(|i| i + 2 < points.len()).flat_map(|i| {
            let half = (points[i + 1] - points[i - 1]) / 4.0;
            [-0.5, 0.0, 0.5].map(|part| {
                let place = points[i] + part * half;
                Candidate::tier(place, 1.0 + half / place)
            })
        });
        between.chain(inside).collect()
    }

    /// The ratio of a place encodes the half width of the window: a step inside a window is a ramp of the window's
    /// width.
    fn g(&self, n: f64, place: Place) -> f64 {
        let half = (place.ratio - 1.0) * place.n;
        if half > 0.0 {
            ((n - place.n) / (2.0 * half) + 0.5).clamp(0.0, 1.0)
        } else {
            f64::from(u8::from(n >= place.n))
        }
    }
}
