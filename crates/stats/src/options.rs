//! The thresholds of a verdict with their defaults.

use crate::{Unit, margin};
use serde::{Deserialize, Serialize};

/// The parameters of a verdict. The defaults are those of the published calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The unit of the costs. Counted costs are judged without statistics: METHODOLOGY.md, "Instructions". Default
    /// [`Unit::Time`].
    pub unit: Unit,
    /// The margin of equivalence δ, as a fraction. Default 0.10.
    pub delta: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Draws of the bootstrap over passes. Default 400.
    pub draws: usize,
    /// Laws within this much BIC of the best are rivals. Default 6 (evidence of 20 to 1).
    pub rival_bic: f64,
    /// Relative misfit that does not count against a law: no kernel path is perfectly smooth. Default 0.005.
    pub law_tolerance: f64,
    /// Error rate of the lack-of-fit test. Default 0.0001: bursts have a heavier tail than the test assumes, and at
    /// 0.001 it refutes 1% of true steps.
    pub misfit_level: f64,
    /// Largest first judged n of a series measured call by call: earlier calls pay for first touches and cold caches.
    /// Shorter curves start at 1/32 of their length, but never below 8. Default 512.
    pub first_n: u32,
    /// Timer overhead in nanoseconds, if known: costs below five times that are flagged.
    pub timer_overhead_ns: Option<f64>,
    /// Step of the clock in nanoseconds, if known; medians interpolate within it.
    pub quantum_ns: Option<f64>,
    /// Standard deviation (log scale) of the growth of one machine from run to run, as far as it is known. A change
    /// within δ that does not exceed it is reported as flat. Default 0: the passes alone decide.
    pub change_between_runs: f64,
    /// `compare` only: pass `i` of one curve ran beside pass `i` of the other. Default false.
    pub paired: bool,
    /// `compare` only: the smallest difference that is reported, as a fraction. Default 0.02.
    pub smallest_effect: f64,
    /// `compare` only, and only if not paired: standard deviation (log scale) of the level of one machine from run to
    /// run, which passes of one run cannot show. A/A runs measure it; it differs by benchmark. Default 0.05. If the
    /// value is too small, differences between runs are reported as differences between the curves.
    pub between_runs: f64,
    /// The same for the growth, used by the test of equal growth. A growth is a ratio within one run. So it differs
    /// less than the level if the whole curve moves, and as much if one end of it does. Default 0.02.
    pub growth_between_runs: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            unit: Unit::Time,
            delta: 0.10,
            seed: 0x4c61_6e64_6175,
            draws: 400,
            rival_bic: 6.0,
            law_tolerance: 0.005,
            misfit_level: 0.0001,
            first_n: 512,
            timer_overhead_ns: None,
            quantum_ns: None,
            change_between_runs: 0.0,
            paired: false,
            smallest_effect: 0.02,
            between_runs: 0.05,
            growth_between_runs: 0.02,
        }
    }
}

impl Options {
    /// Returns the step of the clock in nanoseconds; costs are integers.
    pub(crate) fn quantum(&self) -> f64 {
        self.quantum_ns.unwrap_or(1.0)
    }

    /// Returns the smallest and the largest change, as fractions, of the outcome "small change": half of δ, and one and
    /// a half.
    ///
    /// If every interval that excludes 1 gave that outcome, studies of one machine would disagree about most flat
    /// curves, because it is chance whether the interval of a change of 1% excludes 1. If the range of the outcome
    /// ended at δ, a change of δ would never be resolved.
    pub fn small_change(&self) -> (f64, f64) {
        (0.5 * self.delta, 1.5 * self.delta)
    }

    /// Returns the half width, in logarithms, below which an interval around this growth (a logarithm) resolves it.
    pub fn room(&self, growth: f64) -> f64 {
        margin::room(growth, self)
    }
}
