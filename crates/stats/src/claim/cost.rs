//! The cost of a curve at one n, and the ratio of two curves there.

use super::{Answer, Decision, Evidence, NEAR, Side, Subject, near_cliff, reached};
use crate::common::Pair;
use crate::compare::Effect;
use crate::growth::student;
use crate::points::{Series, series_of};
use crate::{Estimate, Options, Unit};

/// Minimum number of calls of a pass for a cost, and the widest window for them, as a share of n.
const CALLS_MIN: usize = 5;
const WIDEST: f64 = 0.03;
/// Largest number of further passes that is promised.
const MORE_MAX: u32 = 100;

/// Decides whether the cost at an n is on a side of a bound. The cost of a pass is the median of its calls within 1% of
/// n, or within 3% if there are fewer than five. Times have a 95% interval over the passes (Student's t, in
/// logarithms); counts have the range of the passes.
pub fn cost_at(subject: &Subject<'_>, n: u64, side: Side, bound: f64) -> Decision {
    let options = subject.options;
    let at = n as f64;
    let series = series_of(subject.curve, false);
    let costs: Vec<f64> = series.iter().filter_map(|one| cost_of(one, at, options)).collect();
    if costs.is_empty() || reached(subject.curve) < at * (1.0 - NEAR) {
        return Decision::inconclusive(Evidence::TooShort { reached: reached(subject.curve) });
    }
    if let Some(cliff) = near_cliff(&subject.verdict.all.cliffs, at) {
        return Decision::inconclusive(Evidence::Cliff { n: cliff.n, factor: cliff.factor });
    }
    if options.unit == Unit::Instructions {
        let value = Estimate {
            value: crate::quantile::lower_median(&mut costs.clone()).unwrap_or(costs[0]).exp().round(),
            low: costs.iter().copied().fold(f64::INFINITY, f64::min).exp().round(),
            high: costs.iter().copied().fold(0.0, f64::max).exp().round(),
        };
        return Decision::new(side.answer(value, bound), Some(value), Evidence::Interval);
    }
    if costs.len() < 2 {
        let value = Some(Estimate::bare(costs[0].exp()));
        return Decision {
            value,
            more_passes: Some(4),
            ..Decision::inconclusive(Evidence::TooFewPasses { passes: 1 })
        };
    }
    let value = crate::paired::mean(&costs).unwrap_or(Estimate::bare(costs[0])).map(f64::exp);
    let answer = side.answer(value, bound);
    let more_passes = (answer == Answer::Inconclusive).then(|| more_passes(&costs, bound)).flatten();
    let decision = Decision { more_passes, ..Decision::new(answer, Some(value), Evidence::Interval) };
    decision.by_passes(costs.len(), options.unit)
}

/// Returns the log cost of a pass at an n.
fn cost_of(one: &Series, n: f64, options: &Options) -> Option<f64> {
    let calls = |share: f64| one.between(n * (1.0 - share), (n * (1.0 + share)).floor() + 1.0);
    let near = calls(NEAR);
    let chosen = if near.len() < CALLS_MIN { calls(WIDEST) } else { near };
    Some(options.judge().cell(&mut chosen.to_vec(), options.quantum())?.log)
}

/// Returns how many more passes would bring the interval to one side of the bound, if mean and spread stay the same.
fn more_passes(costs: &[f64], bound: f64) -> Option<u32> {
    let count = costs.len() as f64;
    let mean = costs.iter().sum::<f64>() / count;
    let deviation = (costs.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
    let distance = (mean - bound.max(f64::MIN_POSITIVE).ln()).abs();
    let settles = |more: &u32| {
        let all = count + f64::from(*more);
        student(0.975, all - 1.0) * deviation / all.sqrt() < distance
    };
    (1..=MORE_MAX).find(settles)
}

/// Returns the ratio of two curves at an n with its 95% interval, interpolated between the points on both sides of it.
/// `None` if the n is outside their common range.
pub(crate) fn ratio_at(pair: &Pair, n: f64, options: &Options) -> Option<Estimate> {
    let points = &pair.a.n;
    let (first, last) = (*points.first()?, *points.last()?);
    // The last point is the middle of the last window, so the end of the curve is a little beyond it.
    if n < first * (1.0 - NEAR) || n > last * BEYOND {
        return None;
    }
    let above = points.partition_point(|x| *x < n).clamp(1, points.len() - 1);
    let (low, high) = (points[above - 1], points[above]);
    let share = ((n / low).ln() / (high / low).ln()).clamp(0.0, 1.0);
    let mut weights = vec![0.0; points.len()];
    (weights[above - 1], weights[above]) = (1.0 - share, share);
    let effect = options.judge().effect(pair, &weights, options, options.between_runs)?;
    Some(Effect::ratio(&effect))
}

/// Largest ratio of the end of a curve to the middle of its last window.
const BEYOND: f64 = 1.05;
