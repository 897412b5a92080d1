//! Decides claims about a curve: pass, fail or inconclusive, with the value and the interval behind it.
//!
//! A claim passes only if the whole interval is on its side, and fails only if the whole interval is on the other side.
//! Otherwise it is inconclusive. Each claim is decided separately, without a correction for the number of claims.

mod cost;

use crate::cliffs;
use crate::common::pair;
use crate::judgement::{POINTS_MIN, Reason};
use crate::points::series_of;
use crate::{Cliff, Curve, Estimate, Judgement, Options, Outcome, PatternRule, Unit, Verdict, judge};
pub use cost::cost_at;
use cost::ratio_at;
use serde::{Deserialize, Serialize};

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The claim is shown.
    Pass,
    /// The claim is neither shown nor refuted.
    Inconclusive,
    /// The claim is refuted.
    Fail,
}

/// The answer to a claim with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// The quantity that the claim bounds: a growth with its 90% interval (across a cliff, an interval of at least
    /// 95%), a cost or a ratio with its 95% interval, a local exponent with its 95% interval.
    pub value: Option<Estimate>,
    /// The evidence for the answer.
    pub evidence: Evidence,
    /// Estimated number of further passes that decide the claim, if passes help.
    pub more_passes: Option<u32>,
}

/// The evidence that decided a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Evidence {
    /// The value with its interval, compared with the bound.
    Interval,
    /// The outcome and the laws: the best one, and those that fit almost as well.
    Laws {
        /// The outcome of the judgement.
        outcome: Outcome,
        /// The other laws.
        rivals: Vec<String>,
    },
    /// The outcome of the judgement and the value, the local exponent over the last decade of n.
    Exponent {
        /// The outcome of the judgement.
        outcome: Outcome,
    },
    /// A cliff.
    Cliff {
        /// First n at the new cost, with the range of the passes.
        n: Estimate,
        /// Cost just after it over cost just before it.
        factor: f64,
    },
    /// A jump just before the judged range, after too few calls for a cliff.
    Jump {
        /// Cost after it over cost before it.
        factor: f64,
    },
    /// The count that is farthest from that at small n.
    Farthest {
        /// Its n.
        at: f64,
        /// The count over that at small n.
        factor: f64,
    },
    /// Recurring outliers.
    Outliers {
        /// The first n.
        first_n: u32,
        /// Their number.
        count: usize,
        /// Their rule, if they follow one.
        rule: Option<PatternRule>,
        /// The median of their costs over those around them.
        factor: f64,
    },
    /// Nothing that the claim excludes was found.
    None {
        /// The largest n that was measured.
        reached: f64,
    },
    /// The curve ends before the n of the claim.
    TooShort {
        /// The n at which it ends.
        reached: f64,
    },
    /// The n of the claim is not among those at which both curves are judged.
    OutOfRange {
        /// The first common point.
        first: f64,
        /// The last one.
        last: f64,
    },
    /// There are too few passes to decide the claim.
    TooFewPasses {
        /// Number of passes.
        passes: usize,
    },
    /// The judgement of the curve is not resolved.
    NotResolved {
        /// The reason.
        reason: Reason,
    },
}

/// The side of the bound on which the value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Below the bound.
    Below,
    /// At or below it.
    AtMost,
    /// Above it.
    Above,
    /// At or above it.
    AtLeast,
}

/// A curve with its verdict.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The calls.
    pub curve: &'a Curve,
    /// The canary of the same passes, if there was one.
    pub canary: Option<&'a Curve>,
    /// The verdict on the whole curve.
    pub verdict: &'a Verdict,
    /// The options of the verdict.
    pub options: &'a Options,
}

/// Largest relative distance of an n from the n of a claim.
const NEAR: f64 = 0.01;
/// Relative distance from a cliff within which a cost is neither that before it nor that after it.
const BESIDE: f64 = 0.05;
/// Minimum number of passes to show that something is absent.
const PASSES_MIN: usize = 5;
/// Minimum number of calls to show that none of them differs from those around it.
const CALLS_MIN: usize = 64;
/// Minimum number of passes for a decision about times: a jump or an outlier in one or two passes may be chance.
const PASSES_TO_DECIDE: usize = 3;

impl Decision {
    fn new(answer: Answer, value: Option<Estimate>, evidence: Evidence) -> Self {
        Self { answer, value, evidence, more_passes: None }
    }

    fn inconclusive(evidence: Evidence) -> Self {
        Self::new(Answer::Inconclusive, None, evidence)
    }

    /// Withdraws an answer that rests on too few passes. Counts are exact in each pass, so they need no minimum.
    fn by_passes(self, passes: usize, unit: Unit) -> Self {
        if unit == Unit::Instructions || passes >= PASSES_TO_DECIDE || self.answer == Answer::Inconclusive {
            return self;
        }
        let more_passes = u32::try_from(PASSES_MIN - passes).ok();
        Self { value: self.value, more_passes, ..Self::inconclusive(Evidence::TooFewPasses { passes }) }
    }

    /// Limits the certainty of this decision to that of another one, from the same passes with smaller differences
    /// between runs. A known variance has more degrees of freedom than one estimated from a few passes, so with it an
    /// interval may become narrower.
    pub fn limit_by(&mut self, other: &Self) {
        if self.answer != other.answer {
            self.answer = Answer::Inconclusive;
        }
        if let (Some(own), Some(other)) = (&mut self.value, other.value) {
            (own.low, own.high) = (own.low.min(other.low), own.high.max(other.high));
        }
    }

    fn of_cliff(answer: Answer, judgement: &Judgement) -> Option<Self> {
        let cliff = judgement.cliffs.first()?;
        let evidence = Evidence::Cliff { n: cliff.n, factor: cliff.factor };
        Some(Self::new(answer, Some(Estimate::bare(cliff.factor_over_start)), evidence))
    }
}

impl Side {
    /// Returns the answer for a value and its bound.
    pub fn answer(self, value: Estimate, bound: f64) -> Answer {
        let (is_shown, is_refuted) = match self {
            Self::Below => (value.high < bound, value.low >= bound),
            Self::AtMost => (value.high <= bound, value.low > bound),
            Self::Above => (value.low > bound, value.high <= bound),
            Self::AtLeast => (value.low >= bound, value.high < bound),
        };
        match (is_shown, is_refuted) {
            (true, _) => Answer::Pass,
            (_, true) => Answer::Fail,
            _ => Answer::Inconclusive,
        }
    }
}

/// A judgement of the range that a claim is about.
struct Judged {
    judgement: Judgement,
    /// The end of the curve, if it is before the n of the claim.
    short: Option<f64>,
}

impl Subject<'_> {
    /// Decides whether the cost at every n is within the margin of that at small n. A cliff exceeds any margin.
    pub fn constant(&self, within: f64, to: Option<u64>) -> Decision {
        let judged = self.judged(to, &Options { delta: within, ..self.options.clone() });
        let judgement = &judged.judgement;
        let decision = Decision::of_cliff(Answer::Fail, judgement).unwrap_or_else(|| {
            if let Some(decision) = self.constant_counts(judgement, within) {
                return decision;
            }
            // A jump soon after the start is certain, although the costs before it are too few to be judged.
            if let Some(jump) = judgement.jump_before.filter(|jump| !is_inside(*jump, within)) {
                return Decision::new(Answer::Fail, None, Evidence::Jump { factor: jump });
            }
            let answer = answer_of_constant(judgement, within);
            let evidence = match judgement.outcome {
                Outcome::Unresolved { reason, .. } => Evidence::NotResolved { reason },
                // The growth from end to end says nothing of the points between.
                Outcome::Varies => of_laws(judgement),
                _ => Evidence::Interval,
            };
            Decision { more_passes: more(judgement), ..Decision::new(answer, judgement.growth, evidence) }
        });
        self.by_passes(judged.unless_short(decision))
    }

    /// Decides the claim for counts. They are exact, so each judged point is compared with the margin, even over a
    /// short range and with few points. `None` for times, for fewer than two judged points, and if the canary revoked
    /// the judgement.
    fn constant_counts(&self, judgement: &Judgement, within: f64) -> Option<Decision> {
        let is_revoked = matches!(judgement.outcome, Outcome::Unresolved { reason: Reason::CanaryMoved, .. });
        let judged = judgement.points.iter().filter(|point| point.judged);
        let costs: Vec<(f64, f64)> = judged.map(|point| (point.n, point.cost.value.max(1.0))).collect();
        if self.options.unit != Unit::Instructions || is_revoked || costs.len() < 2 {
            return None;
        }
        // By n, relative to the first.
        let ratios = || costs.iter().map(|(n, cost)| (*n, cost / costs[0].1));
        let growth = judgement.growth.or_else(|| ratios().next_back().map(|(_, ratio)| Estimate::bare(ratio)));
        if ratios().all(|(_, ratio)| is_inside(ratio, within)) {
            return Some(Decision::new(Answer::Pass, growth, Evidence::Interval));
        }
        if growth.is_some_and(|growth| !is_inside(growth.value, within)) {
            return Some(Decision::new(Answer::Fail, growth, Evidence::Interval));
        }
        // The cost returns towards that at the start.
        let (at, factor) = ratios().max_by(|a, b| a.1.ln().abs().total_cmp(&b.1.ln().abs()))?;
        Some(Decision::new(Answer::Fail, None, Evidence::Farthest { at, factor }))
    }

    /// Decides whether the curve follows a law; `family` holds the names in the dictionary that count as that law.
    pub fn follows(&self, family: &[&str], to: Option<u64>) -> Decision {
        let judged = self.judged(to, self.options);
        let judgement = &judged.judgement;
        let decision = Decision::of_cliff(Answer::Fail, judgement).unwrap_or_else(|| {
            let laws = laws(judgement);
            let (all, any) = (laws.iter().all(|l| family.contains(l)), laws.iter().any(|l| family.contains(l)));
            let answer = match judgement.outcome {
                Outcome::Grows { law: Some(_) } if all => Answer::Pass,
                Outcome::Grows { law: Some(_) } if any => Answer::Inconclusive,
                // A change of a few percent may follow any law.
                Outcome::Small | Outcome::Unresolved { .. } => Answer::Inconclusive,
                _ => Answer::Fail,
            };
            Decision { more_passes: more(judgement), ..Decision::new(answer, judgement.growth, of_laws(judgement)) }
        });
        self.by_passes(judged.no_answer_if_short(decision))
    }

    /// Decides whether the curve grows by a law with at most this exponent: `order` is 0.5 for √n, 1 for n, and so on;
    /// logarithms count as [`LOGARITHM`]. A cliff is steeper than any law.
    pub fn grows_at_most(&self, order: f64, to: Option<u64>) -> Decision {
        let judged = self.judged(to, self.options);
        let judgement = &judged.judgement;
        let decision =
            Decision::of_cliff(Answer::Fail, judgement).unwrap_or_else(|| decision_of_order(judgement, order));
        self.by_passes(judged.no_answer_if_short(decision))
    }

    /// Decides whether the growth, the cost at large n over that at the smallest judged n, is on a side of a bound.
    /// Beyond a cliff, the growth is the cost there over that at the start. Close to a cliff the claim is inconclusive,
    /// because the cost is neither that before it nor that after it.
    pub fn grows(&self, side: Side, bound: f64, to: Option<u64>) -> Decision {
        let judged = self.judged(to, self.options);
        let judgement = &judged.judgement;
        let end = to.map_or_else(|| reached(self.curve), |n| n as f64);
        if let Some(cliff) = near_cliff(&self.verdict.all.cliffs, end) {
            return Decision::inconclusive(Evidence::Cliff { n: cliff.n, factor: cliff.factor });
        }
        let has_cliff = !judgement.cliffs.is_empty();
        let decision = match (has_cliff, &judgement.outcome, judgement.growth) {
            (true, ..) => self.grows_beyond_cliff(judgement, end, side, bound),
            (_, Outcome::Unresolved { reason: reason @ (Reason::CanaryMoved | Reason::TooFewPasses), .. }, _)
            | (_, Outcome::Unresolved { reason, .. }, None) => {
                Some(Decision::inconclusive(Evidence::NotResolved { reason: *reason }))
            }
            (_, _, growth) => {
                growth.map(|growth| Decision::new(side.answer(growth, bound), Some(growth), Evidence::Interval))
            }
        };
        let unknown = Evidence::NotResolved { reason: Reason::TooFewPoints };
        let decision = decision.unwrap_or_else(|| Decision::inconclusive(unknown));
        self.by_passes(judged.no_answer_if_short(decision))
    }

    /// Decides a growth across a cliff: the cost at the end over that at the start. Each has a 95% interval, so the
    /// interval of the ratio is wider.
    fn grows_beyond_cliff(&self, judgement: &Judgement, end: f64, side: Side, bound: f64) -> Option<Decision> {
        let cliff = judgement.cliffs.first()?;
        let evidence = Evidence::Cliff { n: cliff.n, factor: cliff.factor };
        let cost = cost_at(self, end as u64, Side::Below, f64::INFINITY).value;
        let growth = judgement.start.zip(cost).filter(|(start, _)| start.low > 0.0).map(|(start, cost)| Estimate {
            value: cost.value / start.value,
            low: cost.low / start.high,
            high: cost.high / start.low,
        });
        let Some(growth) = growth else { return Some(Decision::inconclusive(evidence)) };
        Some(Decision::new(side.answer(growth, bound), Some(growth), evidence))
    }

    /// Decides whether there is no cliff below an n, or none at all.
    pub fn no_cliff(&self, below: Option<u64>) -> Decision {
        let reached = reached(self.curve);
        let end = below.map_or(f64::INFINITY, |n| n as f64);
        let verdict = self.verdict;
        if let Some(cliff) = verdict.all.cliffs.iter().find(|cliff| cliff.n.low < end) {
            let answer = if cliff.n.high < end { Answer::Fail } else { Answer::Inconclusive };
            let evidence = Evidence::Cliff { n: cliff.n, factor: cliff.factor };
            return self.by_passes(Decision::new(answer, Some(Estimate::bare(cliff.factor_over_start)), evidence));
        }
        // Nothing is known beyond the last place at which a jump would be found.
        match cliffs::seen_to(&series_of(self.curve, false)) {
            Some(seen) => self.absent(seen.min(reached), below),
            None => Decision::inconclusive(Evidence::NotResolved { reason: Reason::TooFewPoints }),
        }
    }

    /// Decides whether no outlier recurs below an n, or none at all. First calls do not count, nor do patterns for
    /// which `is_instrument` is true.
    pub fn no_recurring_outlier(
        &self,
        below: Option<u64>,
        is_instrument: &dyn Fn(&crate::Pattern) -> bool,
    ) -> Decision {
        let reached = reached(self.curve);
        let outliers = &self.verdict.outliers;
        for group in outliers.groups().iter().filter(|group| !group.pattern.is_some_and(is_instrument)) {
            let is_below = |n: &&u32| below.is_none_or(|end| u64::from(**n) < end);
            let inside: Vec<u32> = group.positions.iter().filter(is_below).copied().collect();
            let Some(first_n) = inside.first() else { continue };
            let of = |n: u32| outliers.recurring.iter().find(|one| one.n == n).map(|one| one.factor);
            let mut factors: Vec<f64> = inside.iter().filter_map(|n| of(*n)).collect();
            let factor = crate::quantile::median_of(&mut factors).unwrap_or(1.0);
            let rule = group.pattern.map(|pattern| pattern.rule);
            let evidence = Evidence::Outliers { first_n: *first_n, count: inside.len(), rule, factor };
            return self.by_passes(Decision::new(Answer::Fail, Some(Estimate::bare(factor)), evidence));
        }
        if let Some(decision) = self.counted_period(below, is_instrument) {
            return decision;
        }
        self.absent(reached, below)
    }

    /// Decides about a period of counted costs. Such a period begins at another call in each pass, so none of its
    /// positions recurs. The patterns of a verdict are those of all calls, so the calls below an n are judged
    /// separately.
    fn counted_period(&self, below: Option<u64>, is_instrument: &dyn Fn(&crate::Pattern) -> bool) -> Option<Decision> {
        if self.options.unit != Unit::Instructions {
            return None;
        }
        let end = below.map(|n| n.saturating_sub(1) as f64).filter(|end| *end < reached(self.curve));
        let part = end.map(|end| self.curve.up_to(end));
        let curve = part.as_ref().unwrap_or(self.curve);
        let judged = part.as_ref().map(|part| judge(part, None, self.options).outliers);
        let patterns = &judged.as_ref().unwrap_or(&self.verdict.outliers).patterns;
        let is_periodic =
            |one: &&crate::Pattern| matches!(one.rule, PatternRule::Periodic { .. }) && !is_instrument(one);
        let pattern = patterns.iter().find(is_periodic)?;
        let costs = pattern.cost_min..=pattern.cost_max;
        let calls = curve.passes.iter().flat_map(|pass| pass.n.iter().zip(&pass.costs));
        let first_n = calls.filter(|(_, cost)| costs.contains(*cost)).map(|(n, _)| *n).min()?;
        let (count, rule, factor) = (pattern.count, Some(pattern.rule), pattern.factor);
        let evidence = Evidence::Outliers { first_n, count, rule, factor };
        Some(self.by_passes(Decision::new(Answer::Fail, Some(Estimate::bare(factor)), evidence)))
    }

    fn by_passes(&self, decision: Decision) -> Decision {
        decision.by_passes(self.verdict.passes, self.options.unit)
    }

    /// Returns the decision for something that was not found.
    fn absent(&self, reached: f64, below: Option<u64>) -> Decision {
        let is_counted = self.options.unit == Unit::Instructions;
        let judgement = &self.verdict.all;
        let is_bare = matches!(judgement.outcome, Outcome::Unresolved { reason: Reason::TooFewPoints, .. });
        // A range that ends at an early cliff has too few points even if there are many calls.
        if is_bare && judgement.cliffs.is_empty() && (!is_counted || self.curve_len() < CALLS_MIN) {
            return Decision::inconclusive(Evidence::NotResolved { reason: Reason::TooFewPoints });
        }
        match below.map(|n| n as f64) {
            Some(n) if reached < n * (1.0 - NEAR) => Decision::inconclusive(Evidence::TooShort { reached }),
            _ if !is_counted && self.verdict.passes < PASSES_MIN => {
                let passes = self.verdict.passes;
                let more_passes = u32::try_from(PASSES_MIN - passes).ok();
                Decision { more_passes, ..Decision::inconclusive(Evidence::TooFewPasses { passes }) }
            }
            _ => Decision::new(Answer::Pass, None, Evidence::None { reached }),
        }
    }

    /// Returns the number of calls of the longest pass.
    fn curve_len(&self) -> usize {
        self.curve.passes.iter().map(|pass| pass.n.len()).max().unwrap_or(0)
    }

    /// Returns the judgement of the calls up to an n.
    fn judged(&self, to: Option<u64>, options: &Options) -> Judged {
        let reached = reached(self.curve);
        let end = to.map_or(reached, |n| n as f64);
        let short = (reached < end * (1.0 - NEAR)).then_some(reached);
        let is_whole = reached <= end * (1.0 + NEAR);
        if is_whole && options == self.options {
            return Judged { judgement: self.verdict.all.clone(), short };
        }
        let curve = self.curve.up_to(end);
        let canary = self.canary.map(|canary| canary.up_to(end));
        Judged { judgement: judge(&curve, canary.as_ref(), options).all, short }
    }
}

impl Judged {
    /// Keeps only a failure if the curve is short: a claim about a whole range can fail on a part of it, but cannot
    /// pass.
    fn unless_short(&self, decision: Decision) -> Decision {
        match self.short {
            Some(reached) if decision.answer != Answer::Fail => {
                Decision { value: decision.value, ..Decision::inconclusive(Evidence::TooShort { reached }) }
            }
            _ => decision,
        }
    }

    /// Keeps only a refutation by a cliff if the curve is short: a law or a growth up to a smaller n says nothing about
    /// a longer range.
    fn no_answer_if_short(&self, decision: Decision) -> Decision {
        match (self.short, &decision.evidence) {
            (Some(_), Evidence::Cliff { .. }) if decision.answer == Answer::Fail => decision,
            (Some(reached), _) => {
                Decision { value: decision.value, ..Decision::inconclusive(Evidence::TooShort { reached }) }
            }
            _ => decision,
        }
    }
}

/// Returns the cliff close to an n, if there is one; its place may differ between passes.
fn near_cliff(cliffs: &[Cliff], n: f64) -> Option<&Cliff> {
    cliffs.iter().find(|cliff| n >= cliff.n.low * (1.0 - BESIDE) && n <= cliff.n.high * (1.0 + BESIDE))
}

/// Returns the n that half of the passes reach.
pub fn reached(curve: &Curve) -> f64 {
    let mut ends: Vec<u32> = curve.passes.iter().filter_map(|pass| pass.n.iter().max().copied()).collect();
    ends.sort_unstable();
    ends.get(ends.len().saturating_sub(1) / 2).copied().map_or(0.0, f64::from)
}

/// Whether a ratio is within a margin of 1.
fn is_inside(ratio: f64, within: f64) -> bool {
    ratio >= 1.0 - within && ratio <= 1.0 + within
}

fn answer_of_constant(judgement: &Judgement, within: f64) -> Answer {
    let is_inside = |growth: Estimate| is_inside(growth.low, within) && is_inside(growth.high, within);
    match judgement.outcome {
        Outcome::Flat { .. } => Answer::Pass,
        // A change that is shown to be within the margin satisfies the claim.
        Outcome::Small if judgement.growth.is_some_and(is_inside) => Answer::Pass,
        Outcome::Grows { .. } | Outcome::Falls | Outcome::Varies => Answer::Fail,
        Outcome::Small | Outcome::Unresolved { .. } => Answer::Inconclusive,
    }
}

/// Returns the laws that the curve may follow; none if no law is named.
fn laws(judgement: &Judgement) -> Vec<&str> {
    match &judgement.outcome {
        Outcome::Grows { law: Some(law) } => {
            std::iter::once(law.as_str()).chain(judgement.rivals.iter().map(|fit| fit.law.as_str())).collect()
        }
        _ => Vec::new(),
    }
}

fn of_laws(judgement: &Judgement) -> Evidence {
    match judgement.outcome {
        Outcome::Unresolved { reason, .. } => Evidence::NotResolved { reason },
        _ => Evidence::Laws {
            outcome: judgement.outcome.clone(),
            rivals: judgement.rivals.iter().map(|fit| fit.law.clone()).collect(),
        },
    }
}

/// Returns the number of further passes that would resolve the judgement, as it promises.
fn more(judgement: &Judgement) -> Option<u32> {
    match judgement.outcome {
        Outcome::Unresolved { more_passes, .. } => more_passes,
        _ => None,
    }
}

/// The order of a logarithm, which grows more slowly than any power.
pub const LOGARITHM: f64 = 0.05;

/// Returns the exponent of a law of the dictionary at large n. A pole is steeper than any power.
fn order_of(law: &str) -> f64 {
    match law {
        "constant" => 0.0,
        // Bounded, but not constant.
        "step" => LOGARITHM / 2.0,
        "logarithmic" => LOGARITHM,
        "root" => 0.5,
        "linear" | "knee" | "tiers" => 1.0,
        "linearithmic" => 1.0 + LOGARITHM,
        "power" => 1.5,
        "quadratic" => 2.0,
        _ => f64::INFINITY,
    }
}

/// Decides whether a curve without a cliff grows by at most this order.
fn decision_of_order(judgement: &Judgement, order: f64) -> Decision {
    let laws = laws(judgement);
    if !laws.is_empty() {
        let is_within = |law: &&str| order_of(law) <= order + 1e-9;
        let answer = match (laws.iter().all(is_within), laws.iter().any(is_within)) {
            (true, _) => Answer::Pass,
            (_, false) => Answer::Fail,
            _ => Answer::Inconclusive,
        };
        return Decision::new(answer, judgement.growth, of_laws(judgement));
    }
    let is_beyond_doubt = match &judgement.outcome {
        Outcome::Flat { .. } | Outcome::Falls => true,
        Outcome::Unresolved { reason: Reason::CanaryMoved | Reason::TooFewPasses | Reason::TooFewPoints, .. } => {
            return Decision { more_passes: more(judgement), ..Decision::inconclusive(of_laws(judgement)) };
        }
        _ => false,
    };
    if is_beyond_doubt {
        return Decision::new(Answer::Pass, judgement.growth, of_laws(judgement));
    }
    // No law is named: the local exponent over the last decade decides.
    let Some(exponent) = judgement.exponent.filter(|_| judgement.points.len() >= POINTS_MIN) else {
        return Decision { more_passes: more(judgement), ..Decision::inconclusive(of_laws(judgement)) };
    };
    let evidence = Evidence::Exponent { outcome: judgement.outcome.clone() };
    let answer = if exponent.high <= order {
        Answer::Pass
    } else if exponent.low > steepest(order, judgement) {
        Answer::Fail
    } else {
        Answer::Inconclusive
    };
    Decision::new(answer, Some(exponent), evidence)
}

/// Returns the largest local exponent, over the last decade, of a law of this order. Log n has at most 1/ln n, without
/// a fixed cost, and n log n has 1 more.
fn steepest(order: f64, judgement: &Judgement) -> f64 {
    let start = judgement.range.map_or(1.0, |(first, last)| first.max(last / 10.0));
    let is_logarithmic = (order.fract() - LOGARITHM).abs() < 1e-9;
    if is_logarithmic { order.trunc() + 1.0 / start.ln().max(LOGARITHM) } else { order }
}

/// Decides whether the ratio of two curves at an n, the second over the first, is on a side of a bound.
/// `Options::paired` and `Options::between_runs` describe the relation between the passes.
pub fn compares(a: &Curve, b: &Curve, n: u64, side: Side, bound: f64, options: &Options) -> Decision {
    let shortest = reached(a).min(reached(b));
    if shortest < n as f64 * (1.0 - NEAR) {
        return Decision::inconclusive(Evidence::TooShort { reached: shortest });
    }
    // Two curves are compared only before the first cliff of either.
    let is_at_cliff = |cliff: &Cliff| n as f64 >= cliff.n.low * (1.0 - BESIDE);
    let cliffs = [a, b].map(|curve| cliffs::find(&series_of(curve, false), &curve.annotations));
    if let Some(cliff) = cliffs.iter().flatten().find(|cliff| is_at_cliff(cliff)) {
        return Decision::inconclusive(Evidence::Cliff { n: cliff.n, factor: cliff.factor });
    }
    let passes = a.passes.len().min(b.passes.len());
    let pair = pair(a, b, options);
    let Some(ratio) = pair.as_ref().and_then(|pair| ratio_at(pair, n as f64, options)) else {
        let range = pair.as_ref().and_then(|pair| Some((*pair.a.n.first()?, *pair.a.n.last()?)));
        return Decision::inconclusive(match range {
            _ if passes < 2 => Evidence::TooFewPasses { passes },
            Some((first, last)) => Evidence::OutOfRange { first, last },
            None => Evidence::NotResolved { reason: Reason::TooFewPoints },
        });
    };
    Decision::new(side.answer(ratio, bound), Some(ratio), Evidence::Interval).by_passes(passes, options.unit)
}
