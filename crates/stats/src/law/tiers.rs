//! Linear with two slopes: a list that is walked in each call outgrows a cache.
//!
//! A list that is walked repeatedly hits the cache while all of it fits, and misses it entirely once it does not. In
//! between, some sets of the cache overflow before others, so the slope changes over a quarter of a decade in each
//! direction: a smooth step in log n with a fixed width. Its centre and the ratio of the slopes are fitted.
//! METHODOLOGY.md names a record in which a polled socket costs four times as much beyond about 2,200 of them, with 2
//! MiB of cache per processor.

use crate::law::{Candidate, Law, Place, Shape};

/// For the registry.
pub(super) const LAW: &dyn Law = &Tiers;

/// Distance from the centre of the change to either end, as a factor in n.
const HALF_WIDTH: f64 = 1.8;
/// Ratios of the slopes to try; a search refines them.
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

    /// Tries every point from the third to the third last, so that both slopes are visible.
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
