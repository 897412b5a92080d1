//! What may be said about a curve, and how sure it is.

use crate::{Cliff, Curve, Estimate, Fit, Modes, Options, Outliers};
use serde::{Deserialize, Serialize};

/// Everything that is said about one curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Out of all samples: this is *the* verdict.
    pub all: Judgement,
    /// Out of the samples with no interference seen; absent if every sample is clean or too few are.
    pub clean: Option<Judgement>,
    /// What a reader must know before believing it.
    pub flags: Vec<Flag>,
    /// What the canary did, if there was one.
    pub canary: Option<Canary>,
    /// Single dear calls.
    pub outliers: Outliers,
    /// Two branches, if the costs divide.
    pub modes: Option<Modes>,
    /// Passes with at least one call.
    pub passes: usize,
    /// Calls over all passes.
    pub calls: usize,
}

/// A judgement of one set of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict in one word.
    pub outcome: Outcome,
    /// The verdict in one sentence.
    pub words: String,
    /// The reduced curve, for drawing: every point, beyond the cliff too.
    pub points: Vec<Point>,
    /// Cost of the top three judged points over that of the bottom three, with a 90% interval.
    pub growth: Option<Estimate>,
    /// Cost at the smallest judged n, nanoseconds, 95%.
    pub start: Option<Estimate>,
    /// Cost at the largest judged n, nanoseconds, 95%.
    pub end: Option<Estimate>,
    /// Smallest and largest n that were judged; the largest lies before the first cliff.
    pub range: Option<(f64, f64)>,
    /// Factor by which the cost multiplies when n doubles, at the top of the range, 95%.
    pub doubling: Option<Estimate>,
    /// Cost at ten times the largest judged n, nanoseconds, 95%. An extrapolation; absent where the law has a pole before it or none is named.
    pub at_ten_times: Option<Estimate>,
    /// The n at which a call passes one millisecond.
    pub one_ms: Reach,
    /// The law of the outcome. With `NoSimpleLaw` it is the least bad one, for drawing only, and its `misfit_p` says so.
    pub fit: Option<Fit>,
    /// Laws that these samples cannot tell from it, best first.
    pub rivals: Vec<Fit>,
    /// d ln cost / d ln n over the last decade of n, 95%.
    pub exponent: Option<Estimate>,
    /// Where the cost jumps; the first one ends the judged range.
    pub cliffs: Vec<Cliff>,
    /// A step or knee of the law, with the mark that may explain it.
    pub bend: Option<Bend>,
}

/// The verdict in one word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// O(1): shown to change by no more than `within` (a fraction) over the range.
    Constant {
        /// The δ that was shown.
        within: f64,
    },
    /// Grows by a law of the dictionary (its registry name, e.g. "linear").
    Grows {
        /// Registry name of the law.
        law: String,
    },
    /// Changes with n for certain, but by no law of the dictionary.
    NoSimpleLaw,
    /// Falls as n rises (growth interval wholly below one, and not within δ).
    Shrinks,
    /// Nothing may be said.
    Inconclusive {
        /// Why not.
        reason: Reason,
        /// About how many more passes would settle it, where more passes would.
        more_passes: Option<u32>,
    },
}

/// Why nothing may be said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The series is too short for points.
    TooFewPoints,
    /// One pass alone has no error to judge by.
    TooFewPasses,
    /// The intervals are too wide to tell constant from growing.
    TooNoisy,
    /// The canary moved as much as the thing measured.
    Canary,
}

/// A point of the reduced curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Objects.
    pub n: f64,
    /// Cost in nanoseconds (trimmed mean over passes of the median of the window), 95%.
    pub ns: Estimate,
    /// Passes that reached it.
    pub passes: usize,
    /// Whether it took part in the judgement (false beyond a cliff or where too few passes arrived).
    pub judged: bool,
}

/// Where a cost is passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reach {
    /// Passed within what was measured, at this n.
    Measured(f64),
    /// The law passes it at this n, beyond what was measured.
    Extrapolated(f64),
    /// The law never does.
    Never,
    /// No law, no answer.
    Unknown,
}

/// A bend of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bend {
    /// Its sort.
    pub kind: BendKind,
    /// Where, with the neighbouring points as interval.
    pub n: Estimate,
    /// The nearest mark within 15%.
    pub mark: Option<String>,
}

/// Sorts of bends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BendKind {
    /// From one flat level to another.
    Step,
    /// Flat, then linear.
    Knee,
    /// A pole: the capacity that occupancy runs into.
    Capacity,
}

/// What a reader must know before believing a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Flag {
    /// All samples and clean samples lead to different outcomes.
    CleanDiffers,
    /// The cost is below five empty laps: the instrument is a large part of it.
    NearFloor,
    /// The canary moved significantly, though less than the thing measured.
    CanaryMoved,
    /// Fewer than five passes: intervals are wide and recurrence is weak.
    FewPasses,
    /// Passes ended at different n.
    UnequalLengths,
    /// The curve was judged only up to a cliff.
    EndsAtCliff,
}

/// What the canary (a fixed cheap call beside the thing measured) did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Canary {
    /// Its own growth over the same range, with a 90% interval.
    pub growth: Estimate,
    /// Whether its interval excludes one.
    pub moved: bool,
    /// Whether it moved as much as the thing measured, so that no verdict may stand.
    pub vetoes: bool,
}

/// Judges a curve. `canary` is the curve of the fixed call timed beside it, on the same n.
pub fn judge(_curve: &Curve, _canary: Option<&Curve>, _options: &Options) -> Verdict {
    todo!("lands with the next commits")
}
