//! The dictionary of laws, one file each, and fitted laws.
//!
//! Every law is `fixed + slope · g(n)` with a fixed cost of zero or more and a slope of zero or more. A new law is a
//! new file in this directory that implements [`Law`]; `cargo xtask registry` adds it to `registry.rs`.

mod registry;

use crate::Estimate;
pub(crate) use registry::LAWS;
use serde::{Deserialize, Serialize};

/// A law of growth.
pub(crate) trait Law: Sync {
    /// Its name in records.
    fn name(&self) -> &'static str;

    /// The kind of its location on the axis, if it has one.
    fn shape(&self) -> Shape {
        Shape::Smooth
    }

    /// Names of the laws that are special cases of this one; if both fit equally well, the special case wins.
    fn contains(&self) -> &'static [&'static str];

    /// The locations to try, given the judged points (rising) and the known capacities. Smooth laws have none.
    fn candidates(&self, _points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        vec![Candidate::held(0.0)]
    }

    /// The rise: never negative, never decreasing in n. Infinite beyond a pole.
    fn g(&self, n: f64, place: Place) -> f64;
}

/// The kind of location that a law has on the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No location, and no slope.
    Flat,
    /// No location.
    Smooth,
    /// A jump between two points.
    Step,
    /// The end of the flat part.
    Knee,
    /// The capacity.
    Pole,
    /// The centre of a change of slope, and the ratio of the slopes.
    Tiers,
}

impl Shape {
    /// Returns the number of parameters in addition to level and slope, if the location is fitted.
    pub(crate) fn parameters(self) -> u8 {
        match self {
            Self::Flat | Self::Smooth => 0,
            Self::Step | Self::Knee | Self::Pole => 1,
            Self::Tiers => 2,
        }
    }
}

/// A location on the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// Number of objects; 0 for a law without a location.
    pub(crate) n: f64,
    /// Ratio of the slope beyond it to that before it; 1 for all laws but one.
    pub(crate) ratio: f64,
}

impl Place {
    /// A location without a change of slope.
    pub(crate) fn at(n: f64) -> Self {
        Self { n, ratio: 1.0 }
    }
}

/// A location to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The location.
    pub(crate) place: Place,
    /// Whether it is fitted, and so counts as a parameter.
    pub(crate) is_free: bool,
}

impl Candidate {
    /// A known location.
    pub(crate) fn held(value: f64) -> Self {
        Self { place: Place::at(value), is_free: false }
    }

    /// A fitted location.
    pub(crate) fn free(value: f64) -> Self {
        Self { place: Place::at(value), is_free: true }
    }

    /// A fitted location with a fitted ratio of the slopes.
    pub(crate) fn tier(value: f64, ratio: f64) -> Self {
        Self { place: Place { n: value, ratio }, is_free: true }
    }
}

/// Returns the law with this name.
pub(crate) fn by_name(name: &str) -> Option<&'static dyn Law> {
    LAWS.iter().copied().find(|law| law.name() == name)
}

/// Returns the names of all laws.
pub fn law_names() -> impl Iterator<Item = &'static str> {
    LAWS.iter().map(|law| law.name())
}

/// A law fitted to a curve: `fixed + slope · g(n)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Its name: "constant", "logarithmic", "root", "linear", "linearithmic", "power", "quadratic",
    /// "occupancy", "probing", "step", "knee", "tiers".
    pub law: String,
    /// The part of the cost that does not depend on n, 95%.
    pub fixed: Estimate,
    /// Cost per unit of g(n), 95%; absent for the constant law.
    pub slope: Option<Estimate>,
    /// The n of the knee, the step, the capacity or the change of slope.
    pub location: Option<f64>,
    /// Ratio of the slope beyond the location to that before it; absent for laws without two slopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// BIC minus that of the best law.
    pub delta_bic: f64,
    /// Root mean square relative residual over the judged points.
    pub rms_residual: f64,
    /// p value of the lack-of-fit test; small if the law does not fit.
    pub lack_of_fit_p: Option<f64>,
}

impl Fit {
    /// Returns the cost at `n`; infinite at and beyond a pole.
    pub fn at(&self, n: f64) -> f64 {
        let slope = self.slope.map_or(0.0, |slope| slope.value);
        let rise = by_name(&self.law).map_or(0.0, |law| law.g(n, self.bend_at()));
        if slope > 0.0 { self.fixed.value + slope * rise } else { self.fixed.value }
    }

    /// Returns the location of the bend, with the ratio of the slopes.
    pub(crate) fn bend_at(&self) -> Place {
        Place { n: self.location.unwrap_or(0.0), ratio: self.ratio.unwrap_or(1.0) }
    }

    /// Returns the n at which the law exceeds `cost`, if it does.
    pub fn reaches(&self, cost: f64) -> Option<f64> {
        // No host has more than a billion objects.
        let (mut low, mut high) = (1.0_f64, 1e9_f64);
        if self.at(high) < cost {
            return None;
        }
        for _ in 0..80 {
            let middle = (low * high).sqrt();
            if self.at(middle) < cost {
                low = middle;
            } else {
                high = middle;
            }
        }
        Some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(law: &dyn Law, shape: f64) -> Fit {
        Fit {
            law: law.name().to_owned(),
            fixed: Estimate::bare(1020.0),
            slope: (law.shape() != Shape::Flat).then(|| Estimate::bare(0.31)),
            location: Some(shape),
            ratio: (law.shape() == Shape::Tiers).then_some(4.0),
            delta_bic: 0.0,
            rms_residual: 0.0,
            lack_of_fit_p: None,
        }
    }

    /// Guards against a law that decreases, is negative, or names a special case that does not exist: fitting and
    /// selection rely on all of these properties.
    #[test]
    fn every_law_keeps_the_contract() {
        for law in LAWS {
            let mut last = 0.0;
            for n in [1.0, 10.0, 100.0, 1000.0, 4999.0] {
                let g = law.g(n, Place { n: 5000.0, ratio: 4.0 });
                assert!(g >= last && g.is_finite(), "{} at {n}: {g} after {last}", law.name());
                last = g;
            }
            assert!(law.contains().iter().all(|name| by_name(name).is_some()), "{}", law.name());
            assert_eq!(LAWS.iter().filter(|other| other.name() == law.name()).count(), 1);
        }
    }

    /// Guards against "the n at which a call exceeds 1 ms" disagreeing with the drawn curve.
    #[test]
    fn reaching_is_the_inverse_of_the_curve() {
        for law in LAWS {
            let fit = fit(*law, 5000.0);
            let target = fit.at(20_000.0).min(fit.at(4900.0) * 1.0001);
            match fit.reaches(target * 1.0001) {
                Some(n) => assert!((fit.at(n) / (target * 1.0001) - 1.0).abs() < 0.01, "{} at {n}", law.name()),
                None => assert!(matches!(law.shape(), Shape::Flat | Shape::Step), "{}", law.name()),
            }
        }
    }
}
