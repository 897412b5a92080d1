//! The judgement of one set of samples: outcome, intervals, law.

use crate::Unit;
use crate::cliffs;
use crate::growth::{last_decade, widening};
use crate::law::{Shape, by_name};
use crate::mixture::{self, Judged};
use crate::points::{
    Grid, Layout, Series, capacities_of, chosen_points, reduce, series_of, start, start_of_chosen, windows,
};
use crate::polish::Level;
use crate::select::{Selection, select};
use crate::warm_up;
use crate::{Annotation, AnnotationKind, Cliff, Components, Curve, Estimate, Fit, Options};
use serde::{Deserialize, Serialize};

/// A judgement of one set of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The unit of all costs of this judgement.
    pub unit: Unit,
    /// The outcome.
    pub outcome: Outcome,
    /// Every point of the reduced curve, including those beyond a cliff.
    pub points: Vec<Point>,
    /// Cost at the last judged n over that at the first, by the fitted law, with a 90% confidence interval that
    /// includes the laws that fit almost as well. If no law fits, it is that between the first and the last fifth of
    /// the points.
    pub growth: Option<Estimate>,
    /// Cost at the smallest judged n, with a 95% confidence interval.
    pub start: Option<Estimate>,
    /// Cost at the largest judged n, with a 95% confidence interval.
    pub end: Option<Estimate>,
    /// Smallest and largest judged n; the largest is before the first cliff.
    pub range: Option<(f64, f64)>,
    /// Cost at the smallest judged n over that at the first of the points before it that are not judged because the
    /// cost jumps there (METHODOLOGY.md, "First level"). Absent if none was left out for that reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump_before: Option<f64>,
    /// Factor of the cost for the last doubling of n, with a 95% confidence interval.
    pub doubling: Option<Estimate>,
    /// Factor of the cost for a doubling of n, averaged over the judged range, with a 90% confidence interval: the
    /// growth divided equally among the doublings.
    pub elasticity: Option<Estimate>,
    /// Cost at ten times the largest judged n. This is an extrapolation: it is absent if the outcome names no law, the
    /// law has a pole before that n, or there is a cliff. It has a 95% confidence interval by the law. For a flat cost
    /// or a small change, the interval is that of a straight line, and its upper end is an upper bound if the cost
    /// grows no faster than linearly.
    pub at_ten_times: Option<Estimate>,
    /// The n at which the cost exceeds one million of its unit: 1 ms, or a million instructions.
    pub one_million: Reach,
    /// The law of the outcome. If the outcome names no law, it is the best of the laws that do not fit, used only for
    /// drawing.
    pub fit: Option<Fit>,
    /// Laws that fit almost as well, best first.
    pub rivals: Vec<Fit>,
    /// d ln cost / d ln n over the last decade of n, with a 95% confidence interval.
    pub exponent: Option<Estimate>,
    /// The cliffs; the first one ends the judged range.
    pub cliffs: Vec<Cliff>,
    /// The bend of the law, with the annotation that may explain it.
    pub bend: Option<Bend>,
    /// The components of the variance; absent for counted costs and for a single pass.
    #[serde(default)]
    pub components: Option<Components>,
}

/// The outcome of a judgement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// O(1): the growth from the start to the end is shown to be within `within` (a fraction), and so is the deviation
    /// of each eighth of the range from the mean (counts: that of each point from the middle).
    Flat {
        /// The margin that was shown.
        within: f64,
    },
    /// The cost certainly changes, by δ/2 to 3δ/2; whether by more than δ is not shown. See
    /// [`Options::small_change`].
    #[serde(rename = "small_change")]
    Small,
    /// The cost grows by more than δ.
    Grows {
        /// Registry name of its law, for example "linear"; absent if none of the dictionary fits.
        law: Option<String>,
    },
    /// The cost falls. Timed: the interval of its growth is below ×(1 − δ). Counted: it is not flat, and its end is
    /// more than 2% below its start. No law is named, because most falling costs are warm-up.
    Falls,
    /// The cost changes by more than δ without growing or falling from end to end.
    Varies,
    /// None of these is shown.
    Unresolved {
        /// The reason.
        reason: Reason,
        /// Estimated number of further passes needed, if passes help.
        more_passes: Option<u32>,
    },
}

/// The reason for an unresolved outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The series is too short for points.
    TooFewPoints,
    /// A single pass has no error estimate; a 99th percentile needs three.
    TooFewPasses,
    /// The 99th percentile needs hundreds of calls in each pass.
    TooFewCalls,
    /// The interval is too wide to distinguish a flat cost from one that changes.
    TooNoisy,
    /// The ends agree, but an intermediate point deviates by more than δ.
    PointDeviates,
    /// The canary vetoes the verdict: its change may explain the measured growth, or hide growth.
    CanaryMoved,
    /// The calls take two branches, and the share of the expensive one may change enough to change the mean cost.
    BranchShare,
    /// The calls take two branches, and the change of the cost of the rarer one is not known well enough.
    BranchCost,
}

/// A point of the reduced curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number of objects.
    pub n: f64,
    /// Cost (trimmed mean over passes of the median of the window), with a 95% confidence interval.
    pub cost: Estimate,
    /// Number of passes that reached it.
    pub passes: usize,
    /// Whether it was judged: false beyond a cliff, in a warm-up, before the start of judging or a jump soon after it,
    /// or if too few passes reached it.
    pub judged: bool,
}

/// The n at which a cost is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reach {
    /// Within the measured range.
    Measured {
        /// The n.
        n: f64,
    },
    /// Beyond the measured range, by the law.
    Extrapolated {
        /// The n.
        n: f64,
    },
    /// Unknown: no growing law is named, or it does not reach that cost.
    Unknown,
}

/// A bend of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bend {
    /// Its kind.
    pub kind: BendKind,
    /// Its n, with the adjacent points as the interval.
    pub n: Estimate,
    /// Name of the nearest annotation within 15%, if any.
    pub annotation: Option<String>,
}

/// Kinds of bends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BendKind {
    /// From one flat level to another.
    Step,
    /// Flat, then linear.
    Knee,
    /// A pole: the capacity at which the cost diverges.
    Capacity,
    /// The centre of the change from one slope to a steeper one.
    TierChange,
}

/// Minimum number of points, and minimum range in n (a factor), for a verdict.
pub(crate) const POINTS_MIN: usize = 6;
const RANGE_MIN: f64 = 5.0;
/// One millisecond, or a million instructions.
const MILLION: f64 = 1e6;

/// The five classes of outcomes that users see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Constant within δ.
    Flat,
    /// Certainly changes, by δ/2 to 3δ/2.
    Small,
    /// Grows, falls or varies by more than δ.
    Material,
    /// Ends at a cliff.
    Limit,
    /// Not resolved.
    Unresolved,
}

impl Outcome {
    /// Returns the class of the outcome. Only [`Verdict::class`](crate::Verdict::class) takes cliffs into account.
    pub fn class(&self) -> Class {
        match self {
            Self::Flat { .. } => Class::Flat,
            Self::Small => Class::Small,
            Self::Grows { .. } | Self::Falls | Self::Varies => Class::Material,
            Self::Unresolved { .. } => Class::Unresolved,
        }
    }
}

impl Judgement {
    /// Returns the judgement of no calls: not resolved, with every other field absent.
    pub fn empty(unit: Unit) -> Self {
        Self {
            unit,
            outcome: Outcome::Unresolved { reason: Reason::TooFewPoints, more_passes: None },
            points: Vec::new(),
            growth: None,
            start: None,
            end: None,
            range: None,
            jump_before: None,
            doubling: None,
            elasticity: None,
            at_ten_times: None,
            one_million: Reach::Unknown,
            fit: None,
            rivals: Vec::new(),
            exponent: None,
            cliffs: Vec::new(),
            bend: None,
            components: None,
        }
    }

    /// Returns the class: that of the outcome, or [`Class::Limit`] if there is a cliff.
    pub fn class(&self) -> Class {
        if self.cliffs.is_empty() { self.outcome.class() } else { Class::Limit }
    }
}

/// The reduced curve: all points, and the judged ones.
struct Reduced {
    points: Vec<Point>,
    judged: Level,
    /// See [`Judgement::jump_before`].
    jump_before: Option<f64>,
    cliffs: Vec<Cliff>,
    capacities: Vec<f64>,
}

/// The samples that are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Samples {
    All,
    /// The samples without interference. Two branches are searched for only if all samples together have them:
    /// judgements by different models could not be compared, and the search takes long.
    Clean {
        has_branches: bool,
    },
}

/// Judges samples. Returns `None` if no call is left.
pub(crate) fn judge_samples(curve: &Curve, samples: Samples, options: &Options) -> Option<Judged> {
    let options = &options.judge().options(options);
    let series = series_of(curve, samples != Samples::All);
    // Branches first: a change of branch looks like a cliff.
    let may_branch = samples != Samples::Clean { has_branches: false } && chosen_points(&series).is_none();
    let found = if may_branch { options.judge().branches(&series, &curve.annotations) } else { None };
    let both = found.and_then(|found| mixture::judge(&found, curve, options));
    both.or_else(|| judge_series(series, curve, None, options).map(|judgement| Judged { judgement, bimodality: None }))
}

/// Judges the calls of a path without branches. `cliffs` is given if they are known.
pub(crate) fn judge_series(
    series: Vec<Series>,
    curve: &Curve,
    cliffs: Option<Vec<Cliff>>,
    options: &Options,
) -> Option<Judgement> {
    let reduced = reduce_curve(series, curve, cliffs, options)?;
    let (points, cliffs) = (reduced.points.clone(), reduced.cliffs.clone());
    let mut judgement = Judgement { points, cliffs, ..Judgement::empty(options.unit) };
    let n = &reduced.judged.n;
    let range = n.last().copied().unwrap_or(1.0) / n.first().copied().unwrap_or(1.0);
    if n.len() < options.judge().points_min() || range < RANGE_MIN {
        return Some(judgement);
    }
    measure(&mut judgement, &reduced, options);
    decide(&mut judgement, &reduced, &curve.annotations, options);
    Some(judgement)
}

/// Returns the growth of a curve over its judged range, with a 90% confidence interval.
pub(crate) fn growth_of(curve: &Curve, options: &Options) -> Option<Estimate> {
    let reduced = reduce_curve(series_of(curve, false), curve, None, options)?;
    if reduced.judged.n.len() < 2 { None } else { options.judge().trend(&reduced.judged, options) }
}

fn reduce_curve(
    mut series: Vec<Series>,
    curve: &Curve,
    known: Option<Vec<Cliff>>,
    options: &Options,
) -> Option<Reduced> {
    if series.is_empty() {
        return None;
    }
    let capacities = capacities_of(curve);
    // Find cliffs before cold calls are dropped, because dropping them may hide a cliff.
    let cliffs = known.unwrap_or_else(|| cliffs::find(&series, &curve.annotations));
    let mut cold = 0;
    if chosen_points(&series).is_none() && !cliffs::is_among_first_calls(&cliffs, &series) {
        cold = options.judge().cold_calls(&series);
        for one in &mut series {
            one.drop_first(cold);
        }
    }
    let cliff = cliffs.first().map(|cliff| cliff.n.low);
    let layout = Layout { series: &series, cliff, capacities: &capacities, first: None };
    let windows = windows(&layout, options);
    let mut grid = reduce(&series, &windows, options);
    options.judge().drop_bursts(&mut grid, &series, &windows, options);
    let passes = series.len();
    let present: Vec<bool> = (0..windows.len()).map(|j| grid.passes_at(j) > 0).collect();
    let ends: Vec<f64> = windows.iter().map(|w| w.centre + w.half).collect();
    let judge = options.judge();
    let enough = passes_min(passes);
    let first = first_judged(&grid, &layout, options);
    let judged: Vec<bool> = (0..windows.len())
        .map(|j| {
            let is_before = layout.cliff.is_none_or(|cliff| ends[j] < cliff);
            is_before && grid.passes_at(j) >= enough && grid.n[j] >= first
        })
        .collect();
    let mut judged = judged;
    let reduced = warm_up::Reduced { grid: &grid, series: &series, cold, capacities: &capacities };
    let level = judge.drop_warm_up(&reduced, &mut judged, options);
    let first = |judged: &[bool]| judged.iter().zip(&present).filter(|p| *p.1).position(|p| *p.0);
    let before = first(&judged);
    let level = judge.drop_first_level(&reduced, &mut judged, level, options);
    let jump = before.zip(first(&judged)).filter(|(before, now)| before != now);
    let drawn = grid.filtered(&present);
    let flags: Vec<bool> = judged.iter().zip(&present).filter(|p| *p.1).map(|p| *p.0).collect();
    let judged = level.unwrap_or_else(|| judge.level(&grid.filtered(&judged)));
    let points = points_of(&drawn, &flags, options);
    let jump_before = jump.map(|(before, now)| points[now].cost.value / points[before].cost.value);
    Some(Reduced { points, judged, jump_before, cliffs, capacities })
}

/// Returns the number of passes that a point must have.
pub(crate) fn passes_min(passes: usize) -> usize {
    passes.div_ceil(2).max(passes.min(2))
}

/// Returns the smallest judged n. Points below it are dropped only if enough points remain.
fn first_judged(grid: &Grid, layout: &Layout<'_>, options: &Options) -> f64 {
    let last = grid.n.last().copied().unwrap_or(1.0);
    let is_chosen = chosen_points(layout.series).is_some();
    let first = if is_chosen { start_of_chosen(last) } else { start(layout.cliff.unwrap_or(last).min(last), options) };
    if is_enough_from(first, &grid.n) { first } else { 1.0 }
}

/// Whether enough of these n remain from `first` on.
pub(crate) fn is_enough_from(first: f64, all: &[f64]) -> bool {
    all.iter().filter(|n| **n >= first).count() >= POINTS_MIN
}

fn points_of(grid: &Grid, judged: &[bool], options: &Options) -> Vec<Point> {
    let judge = options.judge();
    let point = |(j, cost)| Point { n: grid.n[j], cost, passes: grid.passes_at(j), judged: judged[j] };
    judge.points(grid).into_iter().enumerate().map(point).collect()
}

/// Sets the fields that need no law.
fn measure(judgement: &mut Judgement, reduced: &Reduced, options: &Options) {
    let level = &reduced.judged;
    let weights = last_decade(&level.n);
    judgement.exponent = options.judge().contrast(level, &weights, 0.95, options);
    let judged = || reduced.points.iter().filter(|point| point.judged);
    judgement.start = judged().next().map(|point| point.cost);
    judgement.end = judged().next_back().map(|point| point.cost);
    judgement.range = level.n.first().copied().zip(level.n.last().copied());
    judgement.jump_before = reduced.jump_before;
    // The cost at small n is the same number wherever it is reported.
    for (cliff, start) in judgement.cliffs.iter_mut().zip(judgement.start.into_iter().cycle()) {
        cliff.factor_over_start = cliff.cost_after / start.value;
    }
    judgement.components = options.judge().components(level);
}

/// Returns the factor of a doubling of n, averaged over the range of n in which the cost grew by `growth`.
pub(crate) fn elasticity(growth: Estimate, range: (f64, f64)) -> Estimate {
    let doublings = (range.1 / range.0).log2();
    growth.map(|factor| factor.powf(1.0 / doublings))
}

/// Sets the outcome, the law and the fields that depend on it.
fn decide(judgement: &mut Judgement, reduced: &Reduced, annotations: &[Annotation], options: &Options) {
    let level = &reduced.judged;
    let judge = options.judge();
    let Some(selection) = select(level, &reduced.capacities, options) else { return };
    let Some((growth, outcome)) = judge.assess(level, &selection, options) else { return };
    judgement.growth = Some(growth);
    judgement.elasticity = judgement.range.map(|range| elasticity(growth, range));
    judgement.outcome = outcome;
    match &judgement.outcome {
        Outcome::Flat { .. } => judgement.fit = judge.constant(level, options),
        Outcome::Grows { law: Some(_) } => {
            judgement.fit = Some(selection.best.clone());
            judgement.rivals.clone_from(&selection.rivals);
        }
        Outcome::Grows { law: None } | Outcome::Varies => judgement.fit = Some(selection.best.clone()),
        Outcome::Small | Outcome::Falls | Outcome::Unresolved { .. } => {}
    }
    judgement.fit.iter_mut().chain(&mut judgement.rivals).for_each(|fit| judge.refine(fit, level));
    judgement.bend = bend(judgement, annotations);
    extrapolate(judgement, &selection, level.passes);
    judgement.one_million = one_million(judgement);
}

/// Returns the bend of the chosen law, if it has one.
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

/// Sets the factor of the last doubling and the cost at ten times n.
fn extrapolate(judgement: &mut Judgement, selection: &Selection, passes: usize) {
    let hardly_changes = matches!(judgement.outcome, Outcome::Flat { .. } | Outcome::Small);
    if hardly_changes && judgement.cliffs.is_empty() {
        judgement.at_ten_times = straight_on(judgement);
    }
    let Some((_, top)) = judgement.range else {
        return;
    };
    let named = matches!(judgement.outcome, Outcome::Flat { .. } | Outcome::Grows { law: Some(_) });
    let Some(fit) = judgement.fit.clone().filter(|_| named) else {
        // Without a law, the local slope gives the factor of a doubling.
        judgement.doubling = judgement.exponent.map(|e| e.map(f64::exp2));
        return;
    };
    let draws = match judgement.outcome {
        Outcome::Grows { .. } => selection.draws.as_slice(),
        _ => &[],
    };
    let spread = |f: &dyn Fn(&Fit) -> f64| predicted(&fit, draws, passes, f);
    judgement.doubling = spread(&|fit| fit.at(top) / fit.at(top / 2.0));
    if judgement.cliffs.is_empty() && !hardly_changes {
        judgement.at_ten_times = spread(&|fit| fit.at(10.0 * top));
    }
}

/// Returns the cost at ten times the largest judged n for a cost that hardly changes. The value is that of the constant
/// law if there is one. The ends are those of the interval of the growth, each continued in a straight line from the
/// last point.
fn straight_on(judgement: &Judgement) -> Option<Estimate> {
    let ((first, last), growth, end) = (judgement.range?, judgement.growth?, judgement.end?);
    // The amount that the judged range added to the cost, as a share of the cost at its end, is added again for every
    // further range.
    let factor = |growth: f64| (1.0 + (1.0 - 1.0 / growth) * 9.0 * last / (last - first)).max(0.0);
    let high = end.high * factor(growth.high.max(1.0));
    let low = end.low * factor(growth.low.min(1.0));
    let value = judgement.fit.as_ref().map_or(end.value * factor(growth.value), |fit| fit.at(10.0 * last));
    Some(Estimate { value: value.clamp(low, high), low, high })
}

/// Returns a value derived from a fit, with the interval from the draws of its coefficients.
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
    // Widened like every bootstrap interval over few passes, in logarithms, because costs are compared by ratios.
    let wide = |end: f64| value * (end / value).powf(widening(passes, 0.95));
    let estimate = Estimate { value, low: wide(at(0.025).min(value)), high: wide(at(0.975).max(value)) };
    (estimate.low.is_finite() && estimate.high.is_finite()).then_some(estimate)
}

/// Returns the n at which the cost exceeds one million, measured or extrapolated.
fn one_million(judgement: &Judgement) -> Reach {
    let seen = judgement.points.iter().find(|point| point.cost.value >= MILLION);
    let cliff = judgement.cliffs.iter().find(|cliff| cliff.cost_after >= MILLION);
    match (seen, cliff) {
        (Some(point), Some(cliff)) => return Reach::Measured { n: point.n.min(cliff.n.value) },
        (Some(point), None) => return Reach::Measured { n: point.n },
        (None, Some(cliff)) => return Reach::Measured { n: cliff.n.value },
        (None, None) => {}
    }
    match (&judgement.outcome, &judgement.fit) {
        (Outcome::Grows { law: Some(_) }, Some(fit)) => {
            fit.reaches(MILLION).map_or(Reach::Unknown, |n| Reach::Extrapolated { n })
        }
        _ => Reach::Unknown,
    }
}
