//! The thresholds of a verdict, each with its default and the reason for it.

use crate::Unit;
use serde::{Deserialize, Serialize};

/// What a verdict may be asked to assume. The defaults are those of the published calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// What the costs count. With [`Unit::Instructions`] they are exact and nothing is left to chance: METHODOLOGY.md,
    /// "Instructions". Default [`Unit::Time`].
    pub unit: Unit,
    /// "O(1) within δ": the growth that does not matter, as a fraction. Default 0.10.
    pub delta: f64,
    /// Seed of the bootstrap. Equal seeds and curves give equal verdicts to the last bit.
    pub seed: u64,
    /// Draws of the bootstrap over passes. Default 400.
    pub draws: usize,
    /// Laws within this much BIC of the best are rivals. Default 6 (evidence of 20 to 1).
    pub rival_bic: f64,
    /// Relative misfit that does not count against a law, because no kernel path is smooth to a hair. Default 0.005.
    pub law_tolerance: f64,
    /// Error rate of the lack-of-fit test. Default 0.01.
    pub misfit_level: f64,
    /// Calls with fewer objects than this decide no law: they pay for first touches and cold caches. Short curves
    /// start earlier, at a two-hundredth of their length but never below 8. Default 64.
    pub first_n: u32,
    /// Median cost of an empty lap in nanoseconds, if known: below five of them a verdict is flagged.
    pub timer_overhead_ns: Option<f64>,
    /// Step of the clock in nanoseconds, if known: medians see between its ticks.
    pub quantum_ns: Option<f64>,
    /// `compare` only: pass `i` of one curve ran beside pass `i` of the other. Default false.
    pub paired: bool,
    /// `compare` only: the smallest ratio, as a fraction, worth calling a difference. Default 0.02.
    pub smallest_effect: f64,
    /// `compare` only, and only if not paired: standard deviation (log scale) of the level of one machine from run to
    /// run, which passes of one run cannot show. Default 0.02; an A/A run measures it. With too small a value every
    /// comparison of two runs finds the weather: if the truth is 0.03, a default of 0.01 speaks up in three
    /// reports of ten comparisons out of four.
    pub between_runs: f64,
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
            misfit_level: 0.01,
            first_n: 64,
            timer_overhead_ns: None,
            quantum_ns: None,
            paired: false,
            smallest_effect: 0.02,
            between_runs: 0.02,
        }
    }
}
