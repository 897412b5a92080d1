//! What one set of samples says: from the curve to outcome, figures and words.

use crate::Unit;
use crate::cliffs;
use crate::growth::{last_decade, top_over_bottom, widening};
use crate::law::{Shape, by_name};
use crate::points::{Grid, Layout, capacities_of, reduce, series_of, start, windows};
use crate::polish::Level;
use crate::select::{Selection, select};
use crate::{Annotation, AnnotationKind, Cliff, Curve, Estimate, Fit, Options};
use serde::{Deserialize, Serialize};

/// A judgement of one set of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// What the costs count: where a member says nanoseconds, it is this unit.
    pub unit: Unit,
    /// The verdict in one word.
    pub outcome: Outcome,
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
    /// Cost at ten times the largest judged n, nanoseconds, 95%. An extrapolation; absent where no law is named,
    /// where it has a pole before that n, or where a cliff was found.
    pub at_ten_times: Option<Estimate>,
    /// The n at which a call passes one millisecond.
    pub one_million: Reach,
    /// The law of the outcome. With `NoSimpleLaw` it is the least bad one, for drawing only, and its `lack_of_fit_p` says
    /// so.
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
#[serde(tag = "kind", rename_all = "snake_case")]
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
    /// Falls as n rises (growth interval wholly below 1/(1 + δ), and no point above the start by more than δ).
    /// No law is fitted to a falling curve: a cost that falls has no O, and what falls is mostly a warm-up.
    Decreases,
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
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The series is too short for points.
    TooFewPoints,
    /// One pass alone has no error to judge by.
    TooFewPasses,
    /// The intervals are too wide to tell constant from growing.
    TooNoisy,
    /// Flat from end to end, but a point between lies off by more than δ.
    PointDeviates,
    /// The canary moved as much as the thing measured.
    CanaryMoved,
}

/// A point of the reduced curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Objects.
    pub n: f64,
    /// Cost in nanoseconds (trimmed mean over passes of the median of the window), 95%.
    pub cost: Estimate,
    /// Passes that reached it.
    pub passes: usize,
    /// Whether it took part in the judgement (false beyond a cliff or where too few passes arrived).
    pub judged: bool,
}

/// Where a cost is passed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reach {
    /// Passed within what was measured, at this n.
    Measured {
        /// The n.
        n: f64,
    },
    /// The law passes it at this n, beyond what was measured.
    Extrapolated {
        /// The n.
        n: f64,
    },
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
    pub annotation: Option<String>,
}

/// Sorts of bends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BendKind {
    /// From one flat level to another.
    Step,
    /// Flat, then linear.
    Knee,
    /// A pole: the capacity that occupancy runs into.
    Capacity,
    /// The middle of a climb from one price of an object to a higher one.
    TierChange,
}

/// Fewer points than this, or a range of less than this factor, decide nothing.
pub(crate) const POINTS_MIN: usize = 6;
const RANGE_MIN: f64 = 8.0;
/// One millisecond.
const ONE_MS: f64 = 1e6;
/// More passes than this is no advice.
const MORE_MAX: f64 = 500.0;

/// The reduced curve, all of it and the part that is judged.
struct Reduced {
    points: Vec<Point>,
    judged: Level,
    cliffs: Vec<Cliff>,
    capacities: Vec<f64>,
}

/// Judges all samples, or the clean ones. `None` if not one call is left.
pub(crate) fn judge_samples(curve: &Curve, clean_only: bool, options: &Options) -> Option<Judgement> {
    let options = &options.judge().options(options);
    let reduced = reduce_curve(curve, clean_only, options)?;
    let mut judgement = blank(&reduced, options.unit);
    let n = &reduced.judged.n;
    let range = n.last().copied().unwrap_or(1.0) / n.first().copied().unwrap_or(1.0);
    if n.len() < options.judge().points_min() || range < RANGE_MIN {
        return Some(judgement);
    }
    measure(&mut judgement, &reduced, options);
    decide(&mut judgement, &reduced, &curve.annotations, options);
    Some(judgement)
}

/// Growth of a curve over what can be judged of it, 90%.
pub(crate) fn growth_of(curve: &Curve, options: &Options) -> Option<Estimate> {
    let reduced = reduce_curve(curve, false, options)?;
    growth(&reduced.judged, options)
}

fn reduce_curve(curve: &Curve, clean_only: bool, options: &Options) -> Option<Reduced> {
    let series = series_of(curve, clean_only);
    if series.is_empty() {
        return None;
    }
    let capacities = capacities_of(curve);
    let cliffs = cliffs::find(&series, &curve.annotations);
    let layout = Layout { series: &series, cliff: cliffs.first().map(|cliff| cliff.n.low), capacities: &capacities };
    let windows = windows(&layout, options);
    let grid = reduce(&series, &windows, options);
    let passes = series.len();
    let present: Vec<bool> = (0..windows.len()).map(|j| grid.passes_at(j) > 0).collect();
    let ends: Vec<f64> = windows.iter().map(|w| w.centre + w.half).collect();
    let enough = passes.div_ceil(2).max(passes.min(2));
    let first = first_judged(&grid, options);
    let judged: Vec<bool> = (0..windows.len())
        .map(|j| {
            let is_before = layout.cliff.is_none_or(|cliff| ends[j] < cliff);
            is_before && grid.passes_at(j) >= enough && grid.n[j] >= first
        })
        .collect();
    let drawn = grid.filtered(&present);
    let flags: Vec<bool> = judged.iter().zip(&present).filter(|p| *p.1).map(|p| *p.0).collect();
    let judged = options.judge().level(&grid.filtered(&judged));
    Some(Reduced { points: points_of(&drawn, &flags, options), judged, cliffs, capacities })
}

/// Smallest n that may decide. Where the design itself chose few n, those below go only if enough remain.
fn first_judged(grid: &Grid, options: &Options) -> f64 {
    let first = start(grid.n.last().copied().unwrap_or(1.0), options);
    let left = grid.n.iter().filter(|n| **n >= first).count();
    if left >= POINTS_MIN { first } else { 1.0 }
}

fn points_of(grid: &Grid, judged: &[bool], options: &Options) -> Vec<Point> {
    let judge = options.judge();
    let level = judge.level(grid);
    let point = |(j, cost)| Point { n: level.n[j], cost, passes: grid.passes_at(j), judged: judged[j] };
    judge.points(&level).into_iter().enumerate().map(point).collect()
}

/// A judgement that says only that there are too few points.
fn blank(reduced: &Reduced, unit: Unit) -> Judgement {
    Judgement {
        unit,
        outcome: Outcome::Inconclusive { reason: Reason::TooFewPoints, more_passes: None },
        points: reduced.points.clone(),
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
        cliffs: reduced.cliffs.clone(),
        bend: None,
    }
}

fn growth(level: &Level, options: &Options) -> Option<Estimate> {
    let weights = top_over_bottom(level.n.len());
    Some(options.judge().contrast(level, &weights, 0.90, options)?.map(f64::exp))
}

/// The figures that need no law.
fn measure(judgement: &mut Judgement, reduced: &Reduced, options: &Options) {
    let level = &reduced.judged;
    judgement.growth = growth(level, options);
    let weights = last_decade(&level.n);
    judgement.exponent = options.judge().contrast(level, &weights, 0.95, options);
    let judged = || reduced.points.iter().filter(|point| point.judged);
    judgement.start = judged().next().map(|point| point.cost);
    judgement.end = judged().next_back().map(|point| point.cost);
    judgement.range = level.n.first().copied().zip(level.n.last().copied());
}

/// Outcome, law and the figures that follow from it.
fn decide(judgement: &mut Judgement, reduced: &Reduced, annotations: &[Annotation], options: &Options) {
    let level = &reduced.judged;
    let (Some(growth), Some(selection)) = (judgement.growth, select(level, &reduced.capacities, options)) else {
        return;
    };
    let judge = options.judge();
    judgement.outcome = judge.outcome(growth, level, &selection, options);
    match &judgement.outcome {
        Outcome::Constant { .. } => judgement.fit = judge.constant(level, options),
        Outcome::Grows { .. } | Outcome::NoSimpleLaw => {
            judgement.fit = Some(selection.best.clone());
            judgement.rivals.clone_from(&selection.rivals);
        }
        Outcome::Decreases | Outcome::Inconclusive { .. } => {}
    }
    if judgement.outcome == Outcome::NoSimpleLaw {
        judgement.rivals.clear();
    }
    judgement.fit.iter_mut().chain(&mut judgement.rivals).for_each(|fit| judge.refine(fit, level));
    judgement.bend = bend(judgement, annotations);
    extrapolate(judgement, &selection, level.passes);
    judgement.one_million = one_million(judgement);
}

/// How many more passes until the interval, which narrows with the root of their number, fits in the band or leaves
/// one.
pub(crate) fn more_passes(growth: Estimate, passes: usize, delta: f64) -> Option<u32> {
    let centre = growth.value.ln().abs();
    let half = (growth.high / growth.low).ln() / 2.0;
    let distance = (delta.ln_1p() - centre).max(centre);
    let wanted = passes as f64 * (half / distance).powi(2);
    let more = (wanted - passes as f64).ceil().max(1.0);
    (more <= MORE_MAX).then_some(more as u32)
}

/// The bend of the chosen law, if it has one.
fn bend(judgement: &Judgement, annotations: &[Annotation]) -> Option<Bend> {
    let fit = judgement.fit.as_ref()?;
    let place = fit.location?;
    let (kind, marked): (_, &[AnnotationKind]) = match by_name(&fit.law)?.shape() {
        Shape::Step => (BendKind::Step, &[AnnotationKind::Table, AnnotationKind::Cache, AnnotationKind::Capacity]),
        Shape::Knee => (BendKind::Knee, &[AnnotationKind::Table, AnnotationKind::Cache, AnnotationKind::Capacity]),
        Shape::Pole => (BendKind::Capacity, &[AnnotationKind::Capacity]),
        Shape::Tiers => (BendKind::TierChange, &[AnnotationKind::Cache]),
        Shape::Flat | Shape::Smooth => return None,
    };
    let judged = || judgement.points.iter().filter(|point| point.judged);
    let below = judged().rfind(|point| point.n < place);
    let above = judged().find(|point| point.n > place);
    Some(Bend {
        kind,
        n: Estimate {
            value: place,
            low: below.map_or(place, |point| point.n),
            high: above.map_or(place, |point| point.n),
        },
        annotation: cliffs::nearest(annotations, place, 0.15, marked),
    })
}

/// Doubling cost and the cost at ten times n.
fn extrapolate(judgement: &mut Judgement, selection: &Selection, passes: usize) {
    let Some((_, top)) = judgement.range else {
        return;
    };
    let named = matches!(judgement.outcome, Outcome::Constant { .. } | Outcome::Grows { .. });
    let Some(fit) = judgement.fit.clone().filter(|_| named) else {
        // Without a law the local slope is what is known of a doubling.
        judgement.doubling = judgement.exponent.map(|e| e.map(f64::exp2));
        return;
    };
    let draws = match judgement.outcome {
        Outcome::Grows { .. } => selection.draws.as_slice(),
        _ => &[],
    };
    let spread = |f: &dyn Fn(&Fit) -> f64| predicted(&fit, draws, passes, f);
    judgement.doubling = spread(&|fit| fit.at(top) / fit.at(top / 2.0));
    if judgement.cliffs.is_empty() {
        judgement.at_ten_times = spread(&|fit| fit.at(10.0 * top));
    }
    if let (Outcome::Constant { .. }, Some(level)) = (&judgement.outcome, judgement.end) {
        // A flat law would predict with the certainty of all points together; the last point is the honest width.
        judgement.at_ten_times = judgement.at_ten_times.map(|at| Estimate {
            low: at.value * level.low / level.value,
            high: at.value * level.high / level.value,
            ..at
        });
    }
}

/// Something that follows from a fit, with the interval that the draws of its coefficients give it.
fn predicted(fit: &Fit, draws: &[(f64, f64)], passes: usize, f: &dyn Fn(&Fit) -> f64) -> Option<Estimate> {
    let value = f(fit);
    let drawn = |(fixed, slope): &(f64, f64)| {
        let mut one = fit.clone();
        one.fixed.value = *fixed;
        one.slope = one.slope.map(|_| Estimate::bare(*slope));
        f(&one)
    };
    let mut values: Vec<f64> = draws.iter().map(drawn).collect();
    values.sort_by(f64::total_cmp);
    let at = |q: f64| crate::quantile::quantile(&values, q).unwrap_or(value);
    // Widened as every bootstrap over few passes; costs are ratios at heart, so it is done to their logarithms.
    let wide = |end: f64| value * (end / value).powf(widening(passes, 0.95));
    let estimate = Estimate { value, low: wide(at(0.025).min(value)), high: wide(at(0.975).max(value)) };
    (estimate.low.is_finite() && estimate.high.is_finite()).then_some(estimate)
}

/// Where a call passes one millisecond: seen, foretold, or never.
fn one_million(judgement: &Judgement) -> Reach {
    let seen = judgement.points.iter().find(|point| point.cost.value >= ONE_MS);
    let cliff = judgement.cliffs.iter().find(|cliff| cliff.cost_after >= ONE_MS);
    match (seen, cliff) {
        (Some(point), Some(cliff)) => return Reach::Measured { n: point.n.min(cliff.n.value) },
        (Some(point), None) => return Reach::Measured { n: point.n },
        (None, Some(cliff)) => return Reach::Measured { n: cliff.n.value },
        (None, None) => {}
    }
    match (&judgement.outcome, &judgement.fit) {
        (Outcome::Constant { .. }, _) => Reach::Never,
        (Outcome::Grows { .. }, Some(fit)) => fit.reaches(ONE_MS).map_or(Reach::Never, |n| Reach::Extrapolated { n }),
        _ => Reach::Unknown,
    }
}
