//! Curve against curve: faster or slower, by how much, by the same law, and where do they cross?

use crate::{Curve, Estimate, Options, Verdict};
use serde::{Deserialize, Serialize};

/// What may be said about two curves of one case; ratios are `b` over `a`, so below one means that `b` is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Cost of `b` over cost of `a` over their common range, 95%; absent without two passes each or a common range.
    pub ratio: Option<Estimate>,
    /// The same at the smallest common n.
    pub ratio_start: Option<Estimate>,
    /// The same at the largest common n.
    pub ratio_end: Option<Estimate>,
    /// What may be said.
    pub change: Change,
    /// Two-sided p value of `ratio` being one.
    pub p: f64,
    /// The same, corrected by [`holm`] for the number of comparisons in the report; equal to `p` before.
    pub p_adjusted: f64,
    /// The smallest change (a fraction) that these passes would have shown in four cases out of five.
    pub would_have_seen: Option<f64>,
    /// Whether both follow one law.
    pub same_law: Agreement,
    /// Growth of `b` over growth of `a`, 95%.
    pub growth_ratio: Option<Estimate>,
    /// Whether both grow alike.
    pub same_growth: Agreement,
    /// Slope of `b` over slope of `a` under the law both are fitted with, 95%.
    pub slope_ratio: Option<Estimate>,
    /// Whether the slopes agree.
    pub same_slope: Agreement,
    /// Fixed cost of `b` over that of `a` under that law, 95%.
    pub fixed_ratio: Option<Estimate>,
    /// Whether the fixed costs agree.
    pub same_fixed: Agreement,
    /// Registry name of the law that both were fitted with for slope and fixed cost.
    pub common_law: Option<String>,
    /// Where the curves cross, if they do.
    pub crossing: Option<Crossing>,
    /// In one sentence: "no difference proven at 95% (would have seen 2.5%)".
    pub words: String,
    /// The verdict on `a`.
    pub a: Verdict,
    /// The verdict on `b`.
    pub b: Verdict,
}

/// What may be said about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// `b` is faster than `a`.
    Faster,
    /// `b` is slower than `a`.
    Slower,
    /// No difference proven; a change of this fraction would have been seen.
    NoDifferenceProven {
        /// The smallest change that would have been seen, a fraction; absent if nothing can be.
        would_have_seen: Option<f64>,
    },
}

/// Whether two things are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Agreement {
    /// Nothing speaks against it: the interval of the ratio holds one, or each law is among the other's rivals.
    Same,
    /// Proven different.
    Different,
    /// Not to be said from these passes.
    Unclear,
}

/// Where two curves cross.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// The n of the crossing, 95%.
    pub n: Estimate,
    /// Share of the resampled curves that cross at all, 0 to 1.
    pub sure: f64,
}

/// Compares two curves of one case on their common range.
pub fn compare(_a: &Curve, _b: &Curve, _options: &Options) -> Comparison {
    todo!("lands with the next commits")
}

/// Corrects the comparisons of one report for their number (Holm), and takes back what no longer stands.
pub fn holm(_comparisons: &mut [Comparison]) {
    todo!("lands with the next commits")
}
