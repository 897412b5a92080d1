//! Linear throughout, but each object is dearer once there are too many: a list that is walked outgrows a cache.
//!
//! What is walked in a circle is found in a cache as long as all of it fits, and nothing of it once it does not; in
//! between, some sets of the cache overflow before others, so that the price climbs over a third of a decade either
//! way. The climb is taken as a smooth step in log n of fixed width; where it is centred, and how many times as dear
//! an object is behind it, the samples choose. METHODOLOGY.md names a record in which a polled socket costs four times
//! as much beyond some 2,200 of them as at first, with 2 MiB of cache per processor.

use crate::law::{Candidate, Law, Place, Shape};

/// For the registry.
pub(super) const LAW: &dyn Law = &Tiers;

/// From the centre of the climb to either end of it, as a factor in n.
const HALF_WIDTH: f64 = 1.8;
/// How many times as dear the upper tier may be; finer steps are found by search.
const RATIOS: [f64; 6] = [1.4, 2.0, 3.0, 4.5, 7.0, 10.0];

struct Tiers;

impl Law for Tiers {
    fn name(&self) -> &'static str {
        "tiers"
    }

    fn shape(&self) -> Shape {
        Shape::Tiers
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant", "linear"]
    }

    /// Both tiers must be seen: from the third point to the third from the end.
    fn candidates(&self, points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        let places = 2..points.len().saturating_sub(2);
        places.flat_map(|i| RATIOS.map(|ratio| Candidate::tier(points[i], ratio))).collect()
    }

    fn g(&self, n: f64, place: Place) -> f64 {
        let along = ((n / place.n).ln() / (2.0 * HALF_WIDTH.ln()) + 0.5).clamp(0.0, 1.0);
        let climb = along * along * (3.0 - 2.0 * along);
        n * (1.0 + (place.ratio - 1.0) * climb)
    }
}
