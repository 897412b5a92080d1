//! What may be said about a curve, and how sure it is.

use crate::Unit;
use crate::judgement::{Judgement, Outcome, Reach, Reason, growth_of, judge_samples};
use crate::{Bimodality, Curve, Estimate, Exact, Options, Outliers, bimodality};
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
    pub bimodality: Option<Bimodality>,
    /// Passes with at least one call.
    pub passes: usize,
    /// Calls over all passes.
    pub calls: usize,
    /// Which costs occurred, where they were counted exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<Exact>,
}

/// What a reader must know before believing a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// All samples and clean samples lead to different outcomes.
    CleanDiffers,
    /// The cost is below five empty laps: the instrument is a large part of it.
    NearTimerOverhead,
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

/// An operation cheaper than so many empty laps is mostly instrument (METHODOLOGY.md).
const LAPS_MIN: f64 = 5.0;

/// Judges a curve. `canary` is the curve of the fixed call timed beside it, on the same n.
pub fn judge(curve: &Curve, canary: Option<&Curve>, options: &Options) -> Verdict {
    let judge = options.judge();
    let mut all = judge_samples(curve, false, options).unwrap_or_else(|| nothing(options.unit));
    let mut clean = judge.clean(curve, options);
    let canary = canary.and_then(|canary| canary_of(canary, &all, options));
    if canary.is_some_and(|canary| canary.vetoes) {
        for judgement in std::iter::once(&mut all).chain(clean.as_mut()) {
            veto(judgement);
        }
    }
    let passes = curve.passes.iter().filter(|pass| !pass.costs.is_empty()).count();
    Verdict {
        exact: judge.exact(curve, &all.cliffs),
        flags: flags(curve, &all, clean.as_ref(), canary, passes, options),
        outliers: judge.outliers(curve),
        bimodality: bimodality::find(curve, &all.cliffs, options),
        passes,
        calls: curve.passes.iter().map(|pass| pass.costs.len()).sum(),
        all,
        clean,
        canary,
    }
}

/// The judgement on not a single call.
fn nothing(unit: Unit) -> Judgement {
    Judgement {
        unit,
        outcome: Outcome::Inconclusive { reason: Reason::TooFewPoints, more_passes: None },
        points: Vec::new(),
        growth: None,
        start: None,
        end: None,
        range: None,
        doubling: None,
        at_ten_times: None,
        one_million: Reach::Unknown,
        fit: None,
        rivals: Vec::new(),
        exponent: None,
        cliffs: Vec::new(),
        bend: None,
    }
}

/// What the canary did, and whether it forbids the verdict.
///
/// It forbids growth if it grew by at least half as much itself (in logarithms, the same way, significantly): then
/// drift explains too much of it. It forbids "constant" if it moved by more than δ: then a drift may have hidden a
/// growth.
fn canary_of(canary: &Curve, all: &Judgement, options: &Options) -> Option<Canary> {
    let growth = growth_of(canary, options)?;
    let tolerated = options.judge().canary_tolerance();
    let moved = growth.low > tolerated || growth.high < 1.0 / tolerated;
    let (own, measured) = (growth.value.ln(), all.growth.map_or(0.0, |g| g.value.ln()));
    let vetoes = moved
        && match all.outcome {
            Outcome::Inconclusive { .. } => false,
            Outcome::Constant { .. } => own.abs() > options.delta.ln_1p(),
            _ => own * measured > 0.0 && own.abs() >= 0.5 * measured.abs(),
        };
    Some(Canary { growth, moved, vetoes })
}

/// Takes the outcome back; the figures stay for whoever wants to see why.
fn veto(judgement: &mut Judgement) {
    judgement.outcome = Outcome::Inconclusive { reason: Reason::CanaryMoved, more_passes: None };
    judgement.at_ten_times = None;
    if matches!(judgement.one_million, Reach::Extrapolated { .. } | Reach::Never) {
        judgement.one_million = Reach::Unknown;
    }
}

fn flags(
    curve: &Curve,
    all: &Judgement,
    clean: Option<&Judgement>,
    canary: Option<Canary>,
    passes: usize,
    options: &Options,
) -> Vec<Flag> {
    let is_near_floor =
        all.start.zip(options.timer_overhead_ns).is_some_and(|(start, lap)| start.value < LAPS_MIN * lap);
    let lengths = || curve.passes.iter().map(|pass| pass.costs.len()).filter(|len| *len > 0);
    let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    let conditions = [
        (Flag::CleanDiffers, clean.is_some_and(|clean| !is_alike(&clean.outcome, &all.outcome))),
        (Flag::NearTimerOverhead, is_near_floor),
        (Flag::CanaryMoved, canary.is_some_and(|canary| canary.moved)),
        (Flag::FewPasses, passes < options.judge().passes_min()),
        // A limit may be hit a call or two earlier in one pass than in another without being worth a word.
        (Flag::UnequalLengths, (shortest as f64) < 0.98 * longest as f64),
        (Flag::EndsAtCliff, !all.cliffs.is_empty()),
    ];
    conditions.iter().filter(|pair| pair.1).map(|pair| pair.0).collect()
}

/// Whether two outcomes say the same, the number of passes still wanted apart.
fn is_alike(a: &Outcome, b: &Outcome) -> bool {
    match (a, b) {
        (Outcome::Inconclusive { reason: a, .. }, Outcome::Inconclusive { reason: b, .. }) => a == b,
        _ => a == b,
    }
}
