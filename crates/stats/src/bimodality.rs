//! Bimodal costs: calls, or whole passes, with one of two costs.
//!
//! In the study of 2003 each fork under Linux 2.4 took, at random, an O(1) or an O(n) path; a median hides this, and a
//! mean misstates it. In each window the log costs are split where the variance between the two parts is greatest (Otsu
//! 1979). They are two modes only if the parts are far apart for their width (Ashman's D, 1994) *and* there is a valley
//! between the peaks: a single mode with a long tail splits too, but has no valley.
//!
//! Two modes that change within passes are two branches of the measured path: `branches` divides the calls, and
//! `mixture` judges them.

use crate::judgement::Outcome;
use crate::points::{Layout, Series, Window, capacities_of, series_of, windows};
use crate::quantile::{median_of, quantile};
use crate::{Cliff, Curve, Estimate, Options};
use serde::{Deserialize, Serialize};

/// Two modes of the costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bimodality {
    /// Whether the modes separate passes or calls.
    pub kind: BimodalityKind,
    /// The mode of lower cost.
    pub low: Mode,
    /// The mode of higher cost.
    pub high: Mode,
    /// Share of the higher mode over n, if calls change between two branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_share: Option<Shares>,
    /// The ratio of the two costs in the last third of the range over that in the first, with a 90% confidence
    /// interval, if calls change between two branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_change: Option<Estimate>,
}

/// The samples that two modes separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BimodalityKind {
    /// Whole passes: layout, boot or placement.
    ByPass,
    /// The calls of a pass: two paths in the kernel.
    ByCall,
}

/// One of two modes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// Its share of the passes or calls, 0 to 1.
    pub share: f64,
    /// Its centre at the largest n, with the range of the passes.
    pub cost: Estimate,
    /// Its cost at the largest n over its cost at the smallest.
    pub growth: f64,
    /// Its own outcome, if the branches were judged separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Smallest ratio of the centres.
const RATIO_MIN: f64 = 1.3;
/// Smallest distance between the centres: a smaller one may be the step of a clock (10 to 40 ns).
pub(crate) const DISTANCE_MIN_NS: f64 = 80.0;
/// Smallest share of a mode.
const SHARE_MIN: f64 = 0.1;
/// Smallest distance between the centres, in mean widths of the parts.
const ASHMAN_MIN: f64 = 3.0;
/// Largest ratio of the calls between the peaks to those at the lower peak.
const VALLEY_MAX: f64 = 0.3;
/// Smallest number of calls in a window that can show modes.
const CALLS_MIN: usize = 40;
/// Smallest share of the windows with two modes.
const WINDOWS_MIN: f64 = 0.6;
/// Maximum number of windows examined.
const WINDOWS_MAX: usize = 10;

/// The two modes of one window, in logarithms.
#[derive(Clone, Copy)]
struct Split {
    threshold: f64,
    low: f64,
    high: f64,
}

/// Searches for two modes before the first cliff.
pub(crate) fn find(curve: &Curve, cliffs: &[Cliff], options: &Options) -> Option<Bimodality> {
    let series = series_of(curve, false);
    let capacities = capacities_of(curve);
    let cliff = cliffs.first().map(|cliff| cliff.n.low);
    let layout = Layout { series: &series, cliff, capacities: &capacities, first: None };
    let mut chosen = windows(&layout, options);
    chosen.retain(|w| cliff.is_none_or(|cliff| w.centre + w.half < cliff));
    let step = chosen.len().div_ceil(WINDOWS_MAX).max(1);
    // Counted from the end: costs that grow differ most at the largest n.
    let examined: Vec<Window> = chosen.iter().rev().step_by(step).copied().collect();
    let splits = common(examined.len(), examined.iter(), |window| {
        split(&mut calls(&series, window)).map(|split| (*window, split))
    })?;
    describe(&series, &splits)
}

/// Returns the results of `find`, if at least [`WINDOWS_MIN`] of the items have one. Stops as soon as too many items
/// have none.
fn common<I, T>(count: usize, items: impl Iterator<Item = I>, find: impl Fn(I) -> Option<T>) -> Option<Vec<T>> {
    let least = WINDOWS_MIN * count as f64;
    let mut found = Vec::with_capacity(count);
    for (seen, item) in items.enumerate() {
        found.extend(find(item));
        if ((found.len() + count - seen - 1) as f64) < least {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// Log costs of all passes in a window.
fn calls(series: &[Series], window: &Window) -> Vec<f64> {
    series.iter().flat_map(|one| calls_of(one, window)).collect()
}

fn calls_of(one: &Series, window: &Window) -> Vec<f64> {
    one.calls_in(window).iter().map(|ns| (*ns as f64).max(0.5).ln()).collect()
}

/// Splits values into two modes, if there are two.
fn split(values: &mut [f64]) -> Option<Split> {
    if values.len() < CALLS_MIN || is_narrow(values) {
        return None;
    }
    values.sort_unstable_by(f64::total_cmp);
    // The highest hundredth belongs to `outliers`; it would attract the cut.
    let values = &values[..values.len() - values.len() / 100];
    let cut = otsu(values);
    let (low, high) = values.split_at(cut);
    let share = low.len().min(high.len()) as f64 / values.len() as f64;
    if share < SHARE_MIN {
        return None;
    }
    let ((a, width_a), (b, width_b)) = (centre(low)?, centre(high)?);
    let is_far = b - a > RATIO_MIN.ln() && b.exp() - a.exp() > DISTANCE_MIN_NS;
    // Half a percent of width at least, so that two values of a coarse clock are not infinitely far apart.
    let width = f64::midpoint(width_a * width_a, width_b * width_b).sqrt().max(0.005);
    if !is_far || (b - a) / width < ASHMAN_MIN || !has_valley(values, a, b) {
        return None;
    }
    Some(Split { threshold: f64::midpoint(low[low.len() - 1], high[0]), low: a, high: b })
}

/// Whether the values are too close together for two modes. Each part contains at least [`SHARE_MIN`] of the values, so
/// its centre is no farther out than the median of the outermost [`SHARE_MIN`]. This check avoids sorting nearly every
/// window.
fn is_narrow(values: &mut [f64]) -> bool {
    // The highest hundredth is left out.
    let count = values.len() - values.len() / 100;
    let side = ((SHARE_MIN * count as f64) as usize).saturating_sub(1) / 2;
    let (_, low, above) = values.select_nth_unstable_by(side, f64::total_cmp);
    let low = *low;
    let high = *above.select_nth_unstable_by(count - 2 * side - 2, f64::total_cmp).1;
    high - low <= RATIO_MIN.ln() || high.exp() - low.exp() <= DISTANCE_MIN_NS
}

/// Number of parts of the range in which two modes of single calls are searched for, and how many of them must have two
/// modes before branches are searched for.
const PARTS: usize = 10;
const PARTS_MIN: usize = 4;
/// Number of calls of a part that are examined.
const SAMPLE: usize = 400;

/// Whether single calls have two modes in many parts of the range.
pub(crate) fn has_two_modes(series: &[Series]) -> bool {
    let ends = series.iter().flat_map(|one| one.n.first().into_iter().chain(one.n.last()));
    let (first, last) = ends.fold((u32::MAX, 0), |(low, high), n| (low.min(*n), high.max(*n)));
    let width = f64::from(last.saturating_sub(first)) / PARTS as f64;
    let edge = |part: usize| f64::from(first) + width * part as f64;
    let is_split = |part: &usize| {
        let within = |one: &Series| {
            let at = |x: f64| one.n.partition_point(|n| f64::from(*n) < x);
            at(edge(*part))..at(edge(part + 1))
        };
        let count: usize = series.iter().map(|one| within(one).len()).sum();
        let step = count.div_ceil(SAMPLE).max(1);
        let of_pass = |one: &Series| {
            let calls = within(one).step_by(step);
            let log = |i: usize| (f64::from(one.n[i]).max(1.0).ln(), (one.costs[i] as f64).max(0.5).ln());
            calls.map(log).collect::<Vec<(f64, f64)>>()
        };
        let calls: Vec<(f64, f64)> = series.iter().flat_map(of_pass).collect();
        let mean = |f: &dyn Fn(&(f64, f64)) -> f64| calls.iter().map(f).sum::<f64>() / calls.len() as f64;
        let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
        // Growth inside a part would blur the modes. The mode and n are independent, so one slope fits both modes.
        let slope = mean(&|p| (p.0 - x) * (p.1 - y)) / mean(&|p| (p.0 - x).powi(2)).max(1e-12);
        split(&mut calls.iter().map(|p| p.1 - slope * (p.0 - x)).collect::<Vec<f64>>()).is_some()
    };
    (0..PARTS).filter(is_split).take(PARTS_MIN).count() == PARTS_MIN
}

/// Share of the expensive branch over n.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// At small n, with a 90% confidence interval over the passes: in the first third of the judged range, or in a
    /// shorter part if the share there is shown to change the mean cost.
    pub first: Estimate,
    /// At large n, likewise.
    pub last: Estimate,
    /// The last minus the first, pass by pass, likewise.
    pub change: Estimate,
}

/// Returns the number of sorted values in the lower part, for the cut with the greatest variance between the parts.
pub(crate) fn otsu(sorted: &[f64]) -> usize {
    let total: f64 = sorted.iter().sum();
    let count = sorted.len() as f64;
    let mut below = 0.0;
    let mut best = (1, f64::MIN);
    for (i, value) in sorted.iter().enumerate().take(sorted.len() - 1) {
        below += value;
        let left = (i + 1) as f64;
        let distance = below / left - (total - below) / (count - left);
        let between = left * (count - left) * distance * distance;
        if between > best.1 {
            best = (i + 1, between);
        }
    }
    best.0
}

/// Median and robust standard deviation.
fn centre(values: &[f64]) -> Option<(f64, f64)> {
    let middle = quantile(values, 0.5)?;
    let mut distances: Vec<f64> = values.iter().map(|x| (x - middle).abs()).collect();
    Some((middle, 1.4826 * median_of(&mut distances)?))
}

/// Whether there are few values half-way between two peaks.
fn has_valley(sorted: &[f64], low: f64, high: f64) -> bool {
    let half = 0.1 * (high - low);
    let near = |x: f64| {
        let from = sorted.partition_point(|v| *v < x - half);
        sorted.partition_point(|v| *v <= x + half) - from
    };
    let peak = near(low).min(near(high)) as f64;
    (near(f64::midpoint(low, high)) as f64) < VALLEY_MAX * peak
}

/// Describes the modes; the first split is that of the largest n.
fn describe(series: &[Series], splits: &[(Window, Split)]) -> Option<Bimodality> {
    let ((window, top), (_, bottom)) = (splits.first()?, splits.last()?);
    let per_pass = series.iter().map(|one| calls_of(one, window)).filter(|c| !c.is_empty());
    let per_pass: Vec<Vec<f64>> = per_pass.collect();
    let share_high = |calls: &[f64]| {
        let high = calls.iter().filter(|x| **x > top.threshold).count();
        high as f64 / calls.len() as f64
    };
    // A pass with nine tenths of its calls in one mode is in that mode; the rest are outliers.
    let mixed = per_pass.iter().filter(|calls| (0.1..=0.9).contains(&share_high(calls))).count();
    let is_by_call = mixed * 2 > per_pass.len();
    let shares = per_pass.iter().map(|calls| {
        let share = share_high(calls);
        if is_by_call { share } else { share.round() }
    });
    let high_share = shares.sum::<f64>() / per_pass.len() as f64;
    let mode = |is_high: bool, share: f64, log: f64, log_start: f64| {
        let of_pass = |calls: &Vec<f64>| {
            let own = calls.iter().filter(|x| (**x > top.threshold) == is_high);
            let mut own: Vec<f64> = own.copied().collect();
            // The few calls that a pass has in the other mode do not define a centre.
            if own.len() * 10 < calls.len() { None } else { median_of(&mut own) }
        };
        let centres: Vec<f64> = per_pass.iter().filter_map(of_pass).collect();
        Mode {
            share,
            cost: Estimate {
                value: log.exp(),
                low: centres.iter().copied().fold(log, f64::min).exp(),
                high: centres.iter().copied().fold(log, f64::max).exp(),
            },
            growth: (log - log_start).exp(),
            outcome: None,
        }
    };
    // One odd pass is an episode, not a mode.
    let high_passes = high_share * per_pass.len() as f64;
    if !is_by_call && (high_passes < 1.5 || per_pass.len() as f64 - high_passes < 1.5) {
        return None;
    }
    Some(Bimodality {
        kind: if is_by_call { BimodalityKind::ByCall } else { BimodalityKind::ByPass },
        low: mode(false, 1.0 - high_share, top.low, bottom.low),
        high: mode(true, high_share, top.high, bottom.high),
        high_share: None,
        ratio_change: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Guards against one skewed mode, the most common shape of real costs, being taken for two.
    #[test]
    fn a_long_tail_is_not_a_second_mode() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let one = |r: &mut Random| 7.0 + 0.05 * r.normal() - 0.3 * (1.0 - r.uniform()).ln();
            let mut values: Vec<f64> = (0..500).map(|_| one(&mut random)).collect();
            assert!(split(&mut values).is_none());
        }
    }

    /// Guards against two clear modes being missed.
    #[test]
    fn two_modes_are_found() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let one = |r: &mut Random| {
                let shift = if r.uniform() < 0.3 { 0.7 } else { 0.0 };
                7.0 + shift + 0.08 * r.normal()
            };
            let mut values: Vec<f64> = (0..500).map(|_| one(&mut random)).collect();
            let found = split(&mut values).unwrap();
            assert!((found.high - found.low - 0.7).abs() < 0.05);
        }
    }
}
