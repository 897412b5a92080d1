//! Comparison of two curves: which is faster, by how much, whether they follow the same law, and where they cross.
//!
//! Passes are the replicates. Each contributes its mean log cost over the common points, and both sides are compared by
//! Welch's t test, or by the differences of pairs if passes ran side by side. The passes of one run do not show how
//! much the machine differs between runs; `Options::between_runs` and `Options::growth_between_runs` are added for
//! that. Nothing below `Options::smallest_effect` is reported as a difference.

use crate::common::{Pair, pair};
use crate::crossing;
use crate::growth::{student, top_over_bottom};
use crate::judgement::{Judgement, Outcome};
use crate::polish::{trimmed, trimmed_freedom};
use crate::select::{both, coefficient_ratios};
use crate::{Curve, Estimate, Options, Verdict, judge};
use serde::{Deserialize, Serialize};

/// The comparison of two curves of one case. Ratios are `b` over `a`: below 1, `b` is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Cost of `b` over cost of `a` on their common range, with a 95% interval. Absent if a side has fewer than two
    /// passes or if there is no common range.
    pub ratio: Option<Estimate>,
    /// The same at the smallest common n.
    pub ratio_start: Option<Estimate>,
    /// The same at the common point in the middle, by the logarithm of n.
    pub ratio_middle: Option<Estimate>,
    /// The same at the largest common n; absent if the last point differs much from the ones before it.
    pub ratio_end: Option<Estimate>,
    /// The smallest, the middle and the largest common n, to which these three ratios apply.
    pub n: Option<[f64; 3]>,
    /// The result.
    pub change: Change,
    /// Two-sided p value of the ratio being 1.
    pub p: f64,
    /// The same, corrected by [`holm`] for the number of comparisons in the report; equal to `p` before that
    /// correction.
    pub p_adjusted: f64,
    /// Standard error of the ratio's logarithm, including differences between runs.
    pub error: Option<f64>,
    /// Degrees of freedom of `error`.
    pub freedom: f64,
    /// The minimum detectable difference (a fraction). These passes would have shown it in four cases out of five, at
    /// the level that [`holm`] leaves to one comparison.
    pub detectable: Option<f64>,
    /// Whether both follow the same law.
    pub same_law: Agreement,
    /// Growth of `b` over growth of `a`, with a 95% confidence interval.
    pub growth_ratio: Option<Estimate>,
    /// Standard error of the logarithm of that ratio, with the differences between runs, which the interval leaves out.
    pub growth_error: Option<f64>,
    /// Two-sided p value of equal growth.
    pub growth_p: f64,
    /// The same, corrected by [`holm`] for the number of comparisons in the report; equal to `growth_p` before that
    /// correction.
    pub growth_p_adjusted: f64,
    /// Whether both have the same growth.
    pub same_growth: Agreement,
    /// Whether one costs the same multiple of the other at every n.
    pub nature: Nature,
    /// Slope of `b` over slope of `a` under the common law, with a 95% confidence interval.
    pub slope_ratio: Option<Estimate>,
    /// Whether the slopes agree.
    pub same_slope: Agreement,
    /// Fixed cost of `b` over that of `a` under the common law, with a 95% confidence interval.
    pub fixed_ratio: Option<Estimate>,
    /// Whether the fixed costs agree.
    pub same_fixed: Agreement,
    /// Name of the law that was fitted to both for slope and fixed cost.
    pub common_law: Option<String>,
    /// The crossing of the curves, if there is one.
    pub crossing: Option<Crossing>,
    /// The verdict on `a`.
    pub a: Verdict,
    /// The verdict on `b`.
    pub b: Verdict,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// `b` is faster than `a`.
    Faster,
    /// `b` is slower than `a`.
    Slower,
    /// No difference is proven; a change by `Comparison::detectable` would have been detected.
    NoDifferenceProven,
}

/// The dependence of a difference on n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// A constant factor: the laws do not differ, and the growths agree within δ.
    Factor,
    /// A constant amount: under the same law the slopes agree within δ, and the fixed costs differ.
    Amount,
    /// The law differs, or the growth under the same law.
    Law,
    /// Not shown by these passes.
    Inconclusive,
}

/// Whether two values agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The whole interval of the ratio is within δ of 1, or both have the same law.
    Same,
    /// Shown to differ by more than the smallest effect.
    Different,
    /// Not shown by these passes.
    Inconclusive,
}

/// The crossing of two curves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// The n of the crossing, with a 95% confidence interval.
    pub n: Estimate,
    /// Share of the resampled curves that cross, 0 to 1.
    pub share: f64,
}

impl Comparison {
    /// Returns the comparison of two verdicts whose samples show no difference, or cannot be compared.
    pub fn undecided(a: Verdict, b: Verdict) -> Self {
        Self {
            ratio: None,
            ratio_start: None,
            ratio_middle: None,
            ratio_end: None,
            n: None,
            change: Change::NoDifferenceProven,
            p: 1.0,
            p_adjusted: 1.0,
            error: None,
            freedom: 0.0,
            detectable: None,
            same_law: same_law(&a.all, &b.all),
            growth_ratio: None,
            growth_error: None,
            growth_p: 1.0,
            growth_p_adjusted: 1.0,
            same_growth: Agreement::Inconclusive,
            nature: Nature::Inconclusive,
            slope_ratio: None,
            same_slope: Agreement::Inconclusive,
            fixed_ratio: None,
            same_fixed: Agreement::Inconclusive,
            common_law: None,
            crossing: None,
            a,
            b,
        }
    }

    /// Limits the certainty of this comparison to that of another one, of the same passes with smaller differences
    /// between runs. A known variance has more degrees of freedom than one estimated from a few passes, so with it a
    /// difference may become more certain.
    pub fn limit_by(&mut self, other: &Self) {
        self.p = self.p.max(other.p);
        self.growth_p = self.growth_p.max(other.growth_p);
        self.detectable = self.detectable.zip(other.detectable).map(|(own, other)| own.max(other));
    }

    /// Returns whether the growth is shown to differ, by at least `smallest` (a fraction), after the correction for the
    /// number of comparisons, as for [`Comparison::change`].
    pub fn is_growth_changed(&self, smallest: f64) -> bool {
        let is_relevant = self.growth_ratio.is_some_and(|ratio| ratio.value.ln().abs() >= smallest.ln_1p());
        is_relevant && self.growth_p_adjusted < LEVEL
    }
}

/// Error rate of all intervals and tests of a comparison.
pub(crate) const LEVEL: f64 = 0.05;

/// The ratio at the largest n must be within this factor of the mean over this many last points.
const END_FACTOR: f64 = 1.5;
const END_POINTS: usize = 3;

/// Compares two curves of one case on their common range.
pub fn compare(a: &Curve, b: &Curve, options: &Options) -> Comparison {
    let judged = &options.judge().options(options);
    compare_judged((a, judge(a, None, judged)), (b, judge(b, None, judged)), options)
}

/// Compares two curves, given the verdicts that a report shows for them. These may be based on more passes than the
/// curves.
pub fn compare_judged(
    (a, judged_a): (&Curve, Verdict),
    (b, judged_b): (&Curve, Verdict),
    options: &Options,
) -> Comparison {
    let options = &options.judge().options(options);
    let mut comparison = Comparison::undecided(judged_a, judged_b);
    if let Some(pair) = pair(a, b, options) {
        measure(&mut comparison, &pair, options);
    }
    comparison
}

/// Sets the fields that need a common range.
fn measure(comparison: &mut Comparison, pair: &Pair, options: &Options) {
    let points = pair.a.n.len();
    let over = |range: std::ops::Range<usize>| {
        let count = range.len() as f64;
        let weight = |j: usize| if range.contains(&j) { 1.0 / count } else { 0.0 };
        (0..points).map(weight).collect::<Vec<f64>>()
    };
    let judge = options.judge();
    let level = |weights: &[f64]| judge.effect(pair, weights, options, options.between_runs);
    let middle = middle_of(&pair.a.n);
    comparison.n = Some([pair.a.n[0], pair.a.n[middle], pair.a.n[points - 1]]);
    comparison.ratio_start = level(&over(0..1)).map(|e| e.ratio());
    comparison.ratio_middle = level(&over(middle..middle + 1)).map(|e| e.ratio());
    // A last point that differs much from those before it is not representative of the end of the curve.
    let is_like = |e: &Effect| {
        let last = level(&over(points.saturating_sub(END_POINTS)..points));
        last.is_some_and(|mean| (mean.difference - e.difference).abs() < END_FACTOR.ln())
    };
    comparison.ratio_end = level(&over(points - 1..points)).filter(is_like).map(|e| e.ratio());
    if let Some(effect) = level(&over(0..points)) {
        comparison.ratio = Some(effect.ratio());
        comparison.p = effect.p();
        comparison.p_adjusted = comparison.p;
        comparison.error = Some(effect.error);
        comparison.freedom = effect.freedom;
        comparison.detectable = Some(effect.detectable(LEVEL).max(options.smallest_effect));
    }
    comparison.change = change(comparison, options.smallest_effect);
    // The ratio describes these runs; the test decides whether other runs would show it too.
    let growth_with = |between_runs| judge.effect(pair, &top_over_bottom(points), options, between_runs);
    let growth = growth_with(0.0).map(|effect| effect.ratio());
    comparison.growth_ratio = growth;
    let among_runs = growth_with(options.growth_between_runs);
    comparison.growth_error = among_runs.as_ref().map(|effect| effect.error);
    comparison.growth_p = among_runs.map_or(1.0, |effect| effect.p());
    comparison.growth_p_adjusted = comparison.growth_p;
    comparison.same_growth = agreement(growth, options);
    if comparison.same_growth == Agreement::Different && comparison.same_law == Agreement::Inconclusive {
        let is_flat = |v: &Verdict| matches!(v.all.outcome, Outcome::Flat { .. });
        if is_flat(&comparison.a) != is_flat(&comparison.b) {
            comparison.same_law = Agreement::Different;
        }
    }
    if let Some(law) = both(&pair.a, &pair.b, &pair.capacities, options) {
        let (fixed, slope) = coefficient_ratios(&pair.a, &pair.b, law, &pair.capacities, options);
        comparison.common_law = Some(law.name().to_owned());
        comparison.fixed_ratio = fixed;
        comparison.slope_ratio = slope;
        comparison.same_fixed = agreement(fixed, options);
        comparison.same_slope = agreement(slope, options);
    }
    comparison.nature = nature(comparison, options.delta);
    comparison.crossing = crossing::find(pair, options).filter(|_| turns(comparison, options));
}

/// Returns the index of the point nearest to the middle of the range, by the logarithm of n.
fn middle_of(n: &[f64]) -> usize {
    let (Some(first), Some(last)) = (n.first(), n.last()) else { return 0 };
    let middle = (first * last).sqrt();
    let distance = |place: &usize| (n[*place] / middle).ln().abs();
    (0..n.len()).min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
}

/// Classifies a difference: equal growth under laws that do not differ is a constant factor, an equal slope a constant
/// amount.
fn nature(comparison: &Comparison, delta: f64) -> Nature {
    // Growths that certainly differ, but by less than δ, count as equal here.
    let is_flat =
        |verdict: &Verdict| matches!(verdict.all.outcome, Outcome::Flat { .. }) && verdict.all.cliffs.is_empty();
    let are_flat = is_flat(&comparison.a) && is_flat(&comparison.b) && comparison.same_growth != Agreement::Different;
    let is_alike = are_flat || comparison.growth_ratio.is_some_and(|ratio| is_within(ratio, delta));
    let is_amount = comparison.same_slope == Agreement::Same && comparison.same_fixed == Agreement::Different;
    if is_amount && comparison.same_law == Agreement::Same && !is_alike {
        return Nature::Amount;
    }
    match (comparison.same_law, comparison.same_growth) {
        (Agreement::Different, _) => Nature::Law,
        _ if is_alike => Nature::Factor,
        (_, Agreement::Different) => Nature::Law,
        _ => Nature::Inconclusive,
    }
}

/// Whether the whole interval of a ratio is within δ of 1.
fn is_within(ratio: Estimate, delta: f64) -> bool {
    ratio.low >= 1.0 / (1.0 + delta) && ratio.high <= 1.0 + delta
}

/// Whether the ends differ in opposite directions, each by a relevant amount. Without this condition, two equal curves
/// would cross everywhere.
fn turns(comparison: &Comparison, options: &Options) -> bool {
    let matters = |ratio: Option<Estimate>| {
        let ratio = ratio.filter(|r| !r.holds(1.0))?;
        (ratio.value.ln().abs() >= options.smallest_effect.ln_1p()).then_some(ratio.value > 1.0)
    };
    let ends = (matters(comparison.ratio_start), matters(comparison.ratio_end));
    matches!(ends, (Some(start), Some(end)) if start != end)
}

/// A difference of logarithms with its error.
pub(crate) struct Effect {
    pub(crate) difference: f64,
    pub(crate) error: f64,
    pub(crate) freedom: f64,
}

impl Effect {
    pub(crate) fn ratio(&self) -> Estimate {
        let half = student(1.0 - LEVEL / 2.0, self.freedom) * self.error;
        let log = Estimate { value: self.difference, low: self.difference - half, high: self.difference + half };
        log.map(f64::exp)
    }

    fn p(&self) -> f64 {
        use statrs::distribution::{ContinuousCDF, StudentsT};
        if self.error <= 0.0 {
            return if self.difference == 0.0 { 1.0 } else { 0.0 };
        }
        let t = (self.difference / self.error).abs();
        StudentsT::new(0.0, 1.0, self.freedom.max(1.0)).map_or(1.0, |d| (2.0 * d.sf(t)).min(1.0))
    }

    /// Returns the difference that a test at this level detects in four cases out of five.
    fn detectable(&self, level: f64) -> f64 {
        let t = student(1.0 - level / 2.0, self.freedom) + student(0.8, self.freedom);
        (t * self.error).exp_m1()
    }
}

/// Returns the relative difference that a test at a level detects in four cases out of five: 0.05 for 5%. `error` is
/// the standard error of the difference of logarithms, `freedom` its degrees of freedom.
pub fn detectable(error: f64, freedom: f64, level: f64) -> f64 {
    Effect { difference: 0.0, error, freedom }.detectable(level)
}

/// Smallest number of values that are trimmed; fewer have a plain mean. Trimming five values leaves two degrees of
/// freedom, and a difference would have to be seventeen errors wide. A single bad pass widens the plain error, so it
/// can hide a difference but not cause one.
const TRIMMED_FROM: usize = 8;
/// Degrees of freedom of the variance between runs, which is estimated from about ten runs of one machine.
const RUNS_FREEDOM: f64 = 8.0;

/// Returns mean, standard error and degrees of freedom.
fn mean(mut values: Vec<f64>) -> Option<(f64, f64, f64)> {
    let count = values.len();
    if count >= TRIMMED_FROM {
        let (mean, error) = trimmed(&mut values)?;
        return Some((mean, error?, trimmed_freedom(count)));
    }
    if count < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let square = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count as f64 - 1.0);
    Some((mean, (square / count as f64).sqrt(), count as f64 - 1.0))
}

/// Returns the effect from the differences of passes that ran side by side.
pub(crate) fn paired(a: &[Option<f64>], b: &[Option<f64>]) -> Option<Effect> {
    let differences = a.iter().zip(b).filter_map(|(a, b)| Some((*b)? - (*a)?)).collect();
    let (difference, error, freedom) = mean(differences)?;
    Some(Effect { difference, error, freedom })
}

/// Returns the effect from two independent sets of passes, with the variance between runs (Welch and Satterthwaite).
pub(crate) fn unpaired(a: &[Option<f64>], b: &[Option<f64>], between_runs: f64) -> Option<Effect> {
    let side = |values: &[Option<f64>]| mean(values.iter().copied().flatten().collect());
    let ((mean_a, error_a, free_a), (mean_b, error_b, free_b)) = (side(a)?, side(b)?);
    let parts =
        [(error_a * error_a, free_a), (error_b * error_b, free_b), (2.0 * between_runs * between_runs, RUNS_FREEDOM)];
    let square: f64 = parts.iter().map(|part| part.0).sum();
    let uncertainty: f64 = parts.iter().map(|(square, freedom)| square * square / freedom.max(1.0)).sum();
    Some(Effect {
        difference: mean_b - mean_a,
        error: square.sqrt(),
        freedom: (square * square / uncertainty.max(1e-300)).max(1.0),
    })
}

/// Returns "faster" or "slower" only if the difference is relevant, and significant after the correction.
fn change(comparison: &Comparison, smallest: f64) -> Change {
    let none = Change::NoDifferenceProven;
    match comparison.ratio {
        Some(r) if comparison.p_adjusted < LEVEL && r.value.ln().abs() >= smallest.ln_1p() => {
            if r.value < 1.0 {
                Change::Faster
            } else {
                Change::Slower
            }
        }
        _ => none,
    }
}

fn agreement(ratio: Option<Estimate>, options: &Options) -> Agreement {
    let Some(ratio) = ratio else {
        return Agreement::Inconclusive;
    };
    let excludes_one = !ratio.holds(1.0);
    if excludes_one && ratio.value.ln().abs() >= options.smallest_effect.ln_1p() {
        return Agreement::Different;
    }
    if is_within(ratio, options.delta) { Agreement::Same } else { Agreement::Inconclusive }
}

/// Compares the laws of two judgements. They are the same if the law of one is the law or a rival of the other, and
/// different if the two have no law in common.
fn same_law(a: &Judgement, b: &Judgement) -> Agreement {
    let named = |j: &Judgement| match &j.outcome {
        Outcome::Flat { .. } => vec!["constant".to_owned()],
        Outcome::Grows { law: Some(law) } => {
            let rivals = j.rivals.iter().map(|rival| rival.law.clone());
            std::iter::once(law.clone()).chain(rivals).collect()
        }
        _ => Vec::new(),
    };
    let (of_a, of_b) = (named(a), named(b));
    match (of_a.first(), of_b.first()) {
        (Some(x), Some(y)) if of_b.contains(x) || of_a.contains(y) => Agreement::Same,
        // A flat and a growing curve may hardly differ; their growths decide.
        (Some(x), Some(y)) if (x == "constant") == (y == "constant") => {
            let share = of_a.iter().any(|law| of_b.contains(law));
            if share { Agreement::Inconclusive } else { Agreement::Different }
        }
        _ => Agreement::Inconclusive,
    }
}

/// Returns p values corrected for their number (Holm, Scandinavian Journal of Statistics 6, 1979), in the same order.
fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut highest = 0.0_f64;
    for (rank, i) in order.into_iter().enumerate() {
        highest = highest.max((p[i] * (p.len() - rank) as f64).min(1.0));
        adjusted[i] = highest;
    }
    adjusted
}

/// Corrects the comparisons of one report for their number (Holm) and withdraws differences that are no longer
/// significant. Whether costs differ and whether growths differ are two questions, each with its own correction; a
/// change of law or growth is reported only if the growths still differ after their correction.
pub fn holm(comparisons: &mut [Comparison]) {
    let count = comparisons.len();
    let costs = adjusted(&comparisons.iter().map(|one| one.p).collect::<Vec<f64>>());
    let growths = adjusted(&comparisons.iter().map(|one| one.growth_p).collect::<Vec<f64>>());
    for ((one, cost), growth) in comparisons.iter_mut().zip(costs).zip(growths) {
        (one.p_adjusted, one.growth_p_adjusted) = (cost, growth);
        // The correction also raises the minimum detectable difference.
        if let Some(error) = one.error {
            let seen = detectable(error, one.freedom, LEVEL / count as f64);
            one.detectable = one.detectable.map(|alone| alone.max(seen));
        }
        // The correction can only withdraw a difference, never add one.
        if one.p_adjusted >= LEVEL {
            one.change = Change::NoDifferenceProven;
        }
        if one.growth_p_adjusted >= LEVEL && one.nature == Nature::Law {
            one.nature = Nature::Inconclusive;
        }
    }
}
