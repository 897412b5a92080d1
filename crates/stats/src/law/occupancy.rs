//! The cost rises as a table fills: `1 / (1 − n/C)`, the number of slots tried before a free one is found.
//!
//! Cause: allocation of ports, process identifiers or bits. `C` is set to each known capacity in turn, and also fitted.
//! The linear law is the limit for an infinite `C`. Source: the mean length of a random search in a table of load n/C
//! (Knuth, The Art of Computer Programming, volume 3, 6.4).

use crate::law::{Candidate, Law, Place, Shape};

/// For the registry.
pub(super) const LAW: &dyn Law = &Occupancy;

struct Occupancy;

impl Law for Occupancy {
    fn name(&self) -> &'static str {
        "occupancy"
    }

    fn shape(&self) -> Shape {
        Shape::Pole
    }

    fn contains(&self) -> &'static [&'static str] {
        &["constant", "linear"]
    }

    /// Tries the known capacities, and fitted ones from a thousandth above the largest n to three times that; emptier
    /// tables look linear.
    fn candidates(&self, points: &[f64], capacities: &[f64]) -> Vec<Candidate> {
        let top = points.last().copied().unwrap_or(1.0);
        let held = capacities.iter().filter(|c| **c > top * 1.0001);
        let mut all: Vec<Candidate> = held.map(|c| Candidate::held(*c)).collect();
        all.extend((0..24).map(|i| Candidate::free(top * (1.0 + 0.001 * 1.39_f64.powi(i)))));
        all
    }

    fn g(&self, n: f64, place: Place) -> f64 {
        if n < place.n { 1.0 / (1.0 - n / place.n) } else { f64::INFINITY }
    }
}
