//! The dictionary of laws: one file each, and what a fitted one looks like.

use crate::Estimate;
use serde::{Deserialize, Serialize};

/// A law fitted to a curve: `fixed + slope · g(n)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Registry name: "constant", "logarithmic", "root", "linear", "linearithmic", "quadratic", "occupancy", "step", "knee".
    pub law: String,
    /// How it is written: "O(1)", "O(log N)", "O(√N)" …
    pub symbol: String,
    /// The part of the cost that does not depend on n, nanoseconds, 95%.
    pub fixed: Estimate,
    /// Nanoseconds per unit of g(n), 95%; absent for the constant law.
    pub slope: Option<Estimate>,
    /// Where the law bends or has its pole, in objects: the knee, the step or the capacity.
    pub shape: Option<f64>,
    /// BIC above the best law's (0 for the best).
    pub bic: f64,
    /// Root mean square relative misfit over the judged points.
    pub misfit: f64,
    /// p value of the lack-of-fit test: small means that the law is not the whole truth.
    pub misfit_p: Option<f64>,
}

impl Fit {
    /// The cost at `n` in nanoseconds; infinite at and beyond the pole of an occupancy law.
    pub fn at(&self, _n: f64) -> f64 {
        todo!("lands with the next commits")
    }

    /// The n at which the law passes `ns`, if it ever does.
    pub fn reaches(&self, _ns: f64) -> Option<f64> {
        todo!("lands with the next commits")
    }

    /// In words: "1.02 µs + 0.31 ns per object".
    pub fn formula(&self) -> String {
        todo!("lands with the next commits")
    }
}
