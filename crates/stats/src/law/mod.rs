//! The dictionary of laws: one file each, and what a fitted one looks like.
//!
//! Every law is `fixed + slope · g(n)` with a fixed cost of zero or more and a slope of zero or more. A new law is a
//! new file in this folder that implements [`Law`], and its line in `registry.rs`.

mod registry;

use crate::Estimate;
pub(crate) use registry::LAWS;
use serde::{Deserialize, Serialize};

/// What a law must say of itself.
pub(crate) trait Law: Sync {
    /// The name under which records and pages know it.
    fn name(&self) -> &'static str;

    /// Whether it has a place of its own on the axis, and of what sort.
    fn shape(&self) -> Shape {
        Shape::Smooth
    }

    /// Names of the laws that it can turn into; of equals the contained one wins.
    fn contains(&self) -> &'static [&'static str];

    /// The places to try, given the judged points (rising) and the known capacities. Smooth laws have none.
    fn candidates(&self, _points: &[f64], _capacities: &[f64]) -> Vec<Candidate> {
        vec![Candidate::held(0.0)]
    }

    /// The rise: never negative, never falling in n. Infinite beyond a pole.
    fn g(&self, n: f64, place: Place) -> f64;
}

/// What place of its own a law has on the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// None, and no slope either.
    Flat,
    /// None.
    Smooth,
    /// A jump between two points.
    Step,
    /// The end of the flat part.
    Knee,
    /// The capacity.
    Pole,
    /// The middle of a climb, and how many times as dear it is behind it.
    Tiers,
}

impl Shape {
    /// How many parameters the samples choose beside the level and the slope, where the place is theirs to choose.
    pub(crate) fn parameters(self) -> u8 {
        match self {
            Self::Flat | Self::Smooth => 0,
            Self::Step | Self::Knee | Self::Pole => 1,
            Self::Tiers => 2,
        }
    }
}

/// A place on the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// Objects; 0 for a law that has no place.
    pub(crate) n: f64,
    /// How many times as dear an object is behind it; 1 for all laws but one.
    pub(crate) ratio: f64,
}

impl Place {
    /// A place where nothing but the law itself changes.
    pub(crate) fn at(n: f64) -> Self {
        Self { n, ratio: 1.0 }
    }
}

/// A place to try.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    /// The place.
    pub(crate) place: Place,
    /// Whether it was chosen by the samples, and so costs a parameter.
    pub(crate) is_free: bool,
}

impl Candidate {
    /// A place known beforehand.
    pub(crate) fn held(value: f64) -> Self {
        Self { place: Place::at(value), is_free: false }
    }

    /// A place that the samples choose.
    pub(crate) fn free(value: f64) -> Self {
        Self { place: Place::at(value), is_free: true }
    }

    /// A place behind which an object is so many times as dear, both chosen by the samples.
    pub(crate) fn tier(value: f64, ratio: f64) -> Self {
        Self { place: Place { n: value, ratio }, is_free: true }
    }
}

/// The law of that name.
pub(crate) fn by_name(name: &str) -> Option<&'static dyn Law> {
    LAWS.iter().copied().find(|law| law.name() == name)
}

/// The names of all laws.
pub fn law_names() -> impl Iterator<Item = &'static str> {
    LAWS.iter().map(|law| law.name())
}

/// A law fitted to a curve: `fixed + slope · g(n)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Registry name: "constant", "logarithmic", "root", "linear", "linearithmic", "quadratic", "occupancy",
    /// "probing", "step", "knee", "tiers".
    pub law: String,
    /// The part of the cost that does not depend on n, nanoseconds, 95%.
    pub fixed: Estimate,
    /// Nanoseconds per unit of g(n), 95%; absent for the constant law.
    pub slope: Option<Estimate>,
    /// Where the law bends or has its pole, in objects: the knee, the step, the capacity or the middle of a climb.
    pub location: Option<f64>,
    /// How many times as dear an object is behind a climb; absent for laws without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// BIC above the best law's (0 for the best).
    pub delta_bic: f64,
    /// Root mean square relative misfit over the judged points.
    pub rms_residual: f64,
    /// p value of the lack-of-fit test: small means that the law is not the whole truth.
    pub lack_of_fit_p: Option<f64>,
}

impl Fit {
    /// The cost at `n` in nanoseconds; infinite at and beyond the pole of an occupancy law.
    pub fn at(&self, n: f64) -> f64 {
        let slope = self.slope.map_or(0.0, |slope| slope.value);
        let rise = by_name(&self.law).map_or(0.0, |law| law.g(n, self.bend_at()));
        if slope > 0.0 { self.fixed.value + slope * rise } else { self.fixed.value }
    }

    /// Where the law bends.
    pub(crate) fn bend_at(&self) -> Place {
        Place { n: self.location.unwrap_or(0.0), ratio: self.ratio.unwrap_or(1.0) }
    }

    /// The n at which the law passes `ns`, if it ever does.
    pub fn reaches(&self, ns: f64) -> Option<f64> {
        // Beyond a billion objects no host follows, so a law that gets there only later never does.
        let (mut low, mut high) = (1.0_f64, 1e9_f64);
        if self.at(high) < ns {
            return None;
        }
        for _ in 0..80 {
            let middle = (low * high).sqrt();
            if self.at(middle) < ns {
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

    /// Guards against a law that falls, is negative, or nests in a law that is not in the dictionary: fitting and
    /// selection take all three for granted.
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

    /// Guards against "the n at which a call passes 1 ms" disagreeing with the curve that is drawn beside it.
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
