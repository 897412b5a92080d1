//! Abrupt, lasting jumps of the raw series: the place where a resource runs out.

use crate::Estimate;
use serde::{Deserialize, Serialize};

/// A jump of the cost by three times or more that lasts and recurs in a majority of the passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cliff {
    /// First `n` at the new cost: the median over the passes that show it, with the lowest and highest of them.
    pub n: Estimate,
    /// Cost just after over cost just before (medians of up to 256 calls each side).
    pub factor: f64,
    /// Cost after over the median of the first thousand calls.
    pub factor_over_start: f64,
    /// Cost after the cliff in nanoseconds.
    pub after_ns: f64,
    /// Passes that show it.
    pub passes: usize,
    /// Passes that got that far.
    pub of: usize,
    /// Name of the nearest mark, if one lies within 1%.
    pub mark: Option<String>,
}
