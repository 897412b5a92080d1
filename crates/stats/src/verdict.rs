//! The verdict on a curve: its judgement, flags, canary, outliers and modes.

use crate::judgement::{Class, Judgement, Outcome, Reach, Reason, Samples, growth_of, judge_samples};
use crate::{Bimodality, Curve, Estimate, Exact, Options, Outliers, Tail, bimodality};
use serde::{Deserialize, Serialize};

/// The verdict on one curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The judgement of all samples.
    pub all: Judgement,
    /// The judgement of the samples without interference; absent if all samples are clean, or too few.
    pub clean: Option<Judgement>,
    /// Reasons for caution.
    pub flags: Vec<Flag>,
    /// The change of the canary, if there was one.
    pub canary: Option<Canary>,
    /// The outliers.
    pub outliers: Outliers,
    /// The two modes, if the costs are bimodal.
    pub bimodality: Option<Bimodality>,
    /// The judgement of the 99th percentile; absent for counted costs, for few chosen n, for two branches, and if the
    /// median has no judged range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Tail>,
    /// Number of passes with at least one call.
    pub passes: usize,
    /// Number of calls of all passes.
    pub calls: usize,
    /// The costs that occurred, if they were counted exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<Exact>,
}

impl Verdict {
    /// Returns the class of the outcome; [`Class::Limit`] if there is a cliff.
    pub fn class(&self) -> Class {
        self.all.class()
    }
}

/// Reasons for caution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// All samples and clean samples have different outcomes.
    CleanDiffers,
    /// The cost is below five times the timer overhead.
    NearTimerOverhead,
    /// The canary changed significantly, whether or not that vetoes the verdict.
    CanaryMoved,
    /// Fewer than five passes: intervals are wide, and recurrence is weak evidence.
    FewPasses,
    /// Passes ended at different n.
    UnequalLengths,
    /// The curve was judged only up to a cliff.
    EndsAtCliff,
}

/// The change of the canary, a fixed cheap call that is timed between the measured calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Canary {
    /// Its growth over the same range, which ends at the first cliff of the curve, with a 90% confidence interval.
    pub growth: Estimate,
    /// Whether the interval excludes 1.
    pub moved: bool,
    /// Whether it changed so much that the verdict is revoked.
    pub vetoes: bool,
}

/// Number of timer overheads below which a cost is flagged (METHODOLOGY.md).
const OVERHEADS_MIN: f64 = 5.0;

/// Judges a curve. `canary` is the curve of the fixed call that was timed with it, on the same n.
pub fn judge(curve: &Curve, canary: Option<&Curve>, options: &Options) -> Verdict {
    let judge = options.judge();
    let judged = judge_samples(curve, Samples::All, options);
    let (mut all, branches) =
        judged.map_or_else(|| (Judgement::empty(options.unit), None), |judged| (judged.judgement, judged.bimodality));
    let mut clean = judge.clean(curve, branches.is_some(), options).map(|judged| judged.judgement);
    let mut p99 = judge.tail(curve, &all, branches.is_some(), options);
    let canary = canary.and_then(|canary| canary_of(canary, &all, options));
    if canary.is_some_and(|canary| canary.vetoes) {
        for judgement in std::iter::once(&mut all).chain(clean.as_mut()) {
            veto(judgement);
        }
    }
    if let (Some(canary), Some(tail)) = (canary, &mut p99) {
        // The canary may explain a tail even if the median is not resolved.
        if canary.moved && explains(canary.growth, &tail.outcome, tail.growth, options) {
            tail.outcome = REVOKED;
        }
    }
    let passes = curve.passes.iter().filter(|pass| !pass.costs.is_empty()).count();
    Verdict {
        exact: judge.exact(curve, &all.cliffs),
        flags: flags(curve, &all, clean.as_ref(), canary, passes, options),
        outliers: judge.outliers(curve),
        p99,
        bimodality: branches.or_else(|| bimodality::find(curve, &all.cliffs, options)),
        passes,
        calls: curve.passes.iter().map(|pass| pass.costs.len()).sum(),
        all,
        clean,
        canary,
    }
}

/// Returns the change of the canary over the judged range and whether it vetoes the verdict. `None` if it has too few
/// readings there.
fn canary_of(canary: &Curve, all: &Judgement, options: &Options) -> Option<Canary> {
    // The canary beyond the first cliff does not explain anything in the judged range.
    let growth = match all.cliffs.first() {
        Some(cliff) => growth_of(&canary.up_to(cliff.n.low - 1.0), options)?,
        None => growth_of(canary, options)?,
    };
    let tolerated = options.judge().canary_tolerance();
    let moved = growth.low > tolerated || growth.high < 1.0 / tolerated;
    let vetoes = moved && explains(growth, &all.outcome, all.growth, options);
    Some(Canary { growth, moved, vetoes })
}

/// Whether a canary that moved this much revokes an outcome.
///
/// It revokes growth if it grew in the same direction by at least half as much (in logarithms): drift then explains too
/// much of it. It revokes "flat" if it changed by more than δ: drift may then have hidden growth.
fn explains(canary: Estimate, outcome: &Outcome, growth: Option<Estimate>, options: &Options) -> bool {
    let (own, measured) = (canary.value.ln(), growth.map_or(0.0, |growth| growth.value.ln()));
    match outcome {
        Outcome::Unresolved { .. } => false,
        Outcome::Flat { .. } | Outcome::Small => own.abs() > options.delta.ln_1p(),
        _ => own * measured > 0.0 && own.abs() >= 0.5 * measured.abs(),
    }
}

/// The outcome of a change that the canary explains.
const REVOKED: Outcome = Outcome::Unresolved { reason: Reason::CanaryMoved, more_passes: None };

/// Revokes the outcome; the measured values stay.
fn veto(judgement: &mut Judgement) {
    judgement.outcome = REVOKED;
    judgement.at_ten_times = None;
    if matches!(judgement.one_million, Reach::Extrapolated { .. }) {
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
    let is_near_floor = all
        .start
        .zip(options.timer_overhead_ns)
        .is_some_and(|(start, overhead)| start.value < OVERHEADS_MIN * overhead);
    let lengths = || curve.passes.iter().map(|pass| pass.costs.len()).filter(|len| *len > 0);
    let (shortest, longest) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    let conditions = [
        (Flag::CleanDiffers, clean.is_some_and(|clean| !is_alike(&clean.outcome, &all.outcome))),
        (Flag::NearTimerOverhead, is_near_floor),
        (Flag::CanaryMoved, canary.is_some_and(|canary| canary.moved)),
        (Flag::FewPasses, passes < options.judge().passes_min()),
        // Passes that reach a limit one or two calls apart do not need a flag.
        (Flag::UnequalLengths, (shortest as f64) < 0.98 * longest as f64),
        (Flag::EndsAtCliff, !all.cliffs.is_empty()),
    ];
    conditions.iter().filter(|pair| pair.1).map(|pair| pair.0).collect()
}

/// Whether two outcomes are equal, apart from the number of passes needed.
fn is_alike(a: &Outcome, b: &Outcome) -> bool {
    match (a, b) {
        (Outcome::Unresolved { reason: a, .. }, Outcome::Unresolved { reason: b, .. }) => a == b,
        _ => a == b,
    }
}
