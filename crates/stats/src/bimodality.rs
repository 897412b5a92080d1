//! Bimodal costs: calls, or whole passes, with one of two costs.
//!
//! In the study of 2003 each fork under Linux 2.4 took, at random, an O(1) or an O(n) path; a median hides that, and a
//! mean misstates it. In each window the log costs are split where the variance between the two parts is greatest (Otsu
//! 1979). They are two modes only if the parts are far apart for their width (Ashman's D, 1994) *and* there is a valley
//! between the peaks: a single mode with a long tail splits too, but has no valley. Where calls stay in a mode for a
//! while, blocks of eight show modes that single calls do not.
//!
//! Two modes that change within passes are two branches of the measured path. Each is judged on its own, before cliffs
//! are searched, since a change of branch looks like a jump; and the share of the expensive branch is followed over n.

use crate::growth::student;
use crate::judgement::{Judgement, Outcome};
use crate::points::{Layout, Series, Window, capacities_of, series_of, windows};
use crate::quantile::{median_of, median_of_costs, quantile};
use crate::{Cliff, Curve, Estimate, Options};
use serde::{Deserialize, Serialize};

/// Two modes of the costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bimodality {
    /// What the modes divide.
    pub kind: BimodalityKind,
    /// The mode of lower cost.
    pub low: Mode,
    /// The mode of higher cost.
    pub high: Mode,
    /// Share of the higher mode over n, if the branches were judged apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_share: Option<Shares>,
}

/// What two modes divide.
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
    /// Its own outcome, if the branches were judged apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl Mode {
    /// The cost, if it is known.
    pub(crate) fn cost(&self) -> Option<f64> {
        (self.cost.value > 0.0).then_some(self.cost.value)
    }
}

/// Smallest ratio of the centres.
const RATIO_MIN: f64 = 1.3;
/// Smallest distance of the centres: less is the step of a clock (10 to 40 ns).
const DISTANCE_MIN_NS: f64 = 80.0;
/// Smallest share of a mode.
const SHARE_MIN: f64 = 0.1;
/// Smallest distance of the centres in mean widths of the parts.
const ASHMAN_MIN: f64 = 3.0;
/// Largest ratio of the calls between the peaks to those at the lower peak.
const VALLEY_MAX: f64 = 0.3;
/// Fewer calls in a window show no modes.
const CALLS_MIN: usize = 40;
/// Smallest share of the windows with two modes.
const WINDOWS_MIN: f64 = 0.6;
/// Windows examined.
const WINDOWS_MAX: usize = 10;

/// The two modes of one window, in logarithms.
#[derive(Clone, Copy)]
struct Split {
    threshold: f64,
    low: f64,
    high: f64,
}

/// The two branches as modes, from the judgement of each.
pub(crate) fn of_branches(
    branches: &Branches,
    low: (&Judgement, f64),
    high: (&Judgement, f64),
    range: (f64, f64),
) -> Bimodality {
    let mode = |(judged, share): (&Judgement, f64)| Mode {
        share,
        cost: judged.end.unwrap_or(Estimate::bare(0.0)),
        growth: judged.growth.map_or(1.0, |growth| growth.value),
        outcome: Some(judged.outcome.clone()),
    };
    let high_share = shares(branches, range);
    Bimodality { kind: BimodalityKind::ByCall, low: mode(low), high: mode(high), high_share }
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

/// What `find` finds in the items, if that is in [`WINDOWS_MIN`] of them; ends as soon as too many have nothing.
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
    let from = one.n.partition_point(|n| f64::from(*n) < window.centre - window.half);
    let to = one.n.partition_point(|n| f64::from(*n) <= window.centre + window.half);
    one.costs[from..to].iter().map(|ns| (*ns as f64).max(0.5).ln()).collect()
}

/// Splits values into two modes, if there are two.
fn split(values: &mut [f64]) -> Option<Split> {
    split_beyond(values, RATIO_MIN)
}

/// The same, with centres that differ by more than this ratio.
fn split_beyond(values: &mut [f64], ratio: f64) -> Option<Split> {
    if values.len() < CALLS_MIN || is_narrow(values, ratio) {
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
    let is_far = b - a > ratio.ln() && b.exp() - a.exp() > DISTANCE_MIN_NS;
    // Half a percent of width at least, so that two values of a coarse clock are not infinitely far apart.
    let width = f64::midpoint(width_a * width_a, width_b * width_b).sqrt().max(0.005);
    if !is_far || (b - a) / width < ASHMAN_MIN || !has_valley(values, a, b) {
        return None;
    }
    Some(Split { threshold: f64::midpoint(low[low.len() - 1], high[0]), low: a, high: b })
}

/// Whether the values are too close together for two modes: each part holds [`SHARE_MIN`] of them, so its centre is no
/// farther out than the middle of so many. Saves the sorting of nearly every window.
fn is_narrow(values: &mut [f64], ratio: f64) -> bool {
    // The highest hundredth is left out.
    let count = values.len() - values.len() / 100;
    let side = ((SHARE_MIN * count as f64) as usize).saturating_sub(1) / 2;
    let (_, low, above) = values.select_nth_unstable_by(side, f64::total_cmp);
    let low = *low;
    let high = *above.select_nth_unstable_by(count - 2 * side - 2, f64::total_cmp).1;
    high - low <= ratio.ln() || high.exp() - low.exp() <= DISTANCE_MIN_NS
}

/// Parts of the range in which two branches are searched.
const PARTS: usize = 10;
/// Calls in a block.
const BLOCK: usize = 8;
/// Smallest ratio of the branches: blocks are narrower than calls.
const BRANCH_RATIO: f64 = 1.18;
/// A pass with a smaller share of one branch stays in the other.
const SHARE_OF_PASS: f64 = 0.1;

/// The calls of each pass, divided between two branches.
pub(crate) struct Branches {
    /// Calls of the cheap branch, by pass.
    pub(crate) low: Vec<Series>,
    /// Calls of the expensive branch, by pass.
    pub(crate) high: Vec<Series>,
}

/// The threshold between the branches by n, as points (ln n, log cost).
struct Threshold(Vec<(f64, f64)>);

impl Threshold {
    fn at(&self, n: f64) -> f64 {
        let x = n.ln();
        let points = &self.0;
        let after = points.partition_point(|point| point.0 < x).clamp(1, points.len() - 1);
        let ((a, y), (b, z)) = (points[after - 1], points[after]);
        y + (z - y) * (x - a) / (b - a)
    }
}

/// Divides the calls between two branches, if passes change between two modes.
pub(crate) fn branches(series: &[Series]) -> Option<Branches> {
    let last = series.iter().filter_map(|one| one.n.last().copied()).min()?;
    let first = series.iter().filter_map(|one| one.n.first().copied()).min()?;
    // Blocks first: a burst of slow calls is not a stay in the expensive branch.
    [BLOCK, 1].into_iter().find_map(|block| {
        let threshold = threshold(series, block, (f64::from(first), f64::from(last)))?;
        let divided = series.iter().map(|one| divide(one, block, &threshold));
        let divided: Vec<(Series, Series)> = divided.collect();
        let is_mixed = |(low, high): &&(Series, Series)| {
            let (low, high) = (low.n.len() as f64, high.n.len() as f64);
            low.min(high) > SHARE_OF_PASS * (low + high)
        };
        // Whole passes that differ are no branches.
        if divided.iter().filter(is_mixed).count() * 2 <= series.len() {
            return None;
        }
        let (low, high) = divided.into_iter().unzip();
        Some(Branches { low, high })
    })
}

/// The blocks of a pass, and where they are.
struct Blocks<'a> {
    one: &'a Series,
    block: usize,
}

impl Blocks<'_> {
    fn count(&self) -> usize {
        self.one.n.len().div_ceil(self.block)
    }

    /// ln n of a block.
    fn place(&self, i: usize) -> f64 {
        let (from, to) = (i * self.block, ((i + 1) * self.block).min(self.one.n.len()));
        f64::from(self.one.n[from + (to - from) / 2]).max(1.0).ln()
    }

    /// Log cost of a block: that of its median.
    fn cost(&self, i: usize) -> f64 {
        let costs = &self.one.costs[i * self.block..((i + 1) * self.block).min(self.one.n.len())];
        let mut copy = [0; BLOCK];
        let copy = &mut copy[..costs.len()];
        copy.copy_from_slice(costs);
        let middle = if costs.len() == 1 { costs[0] as f64 } else { median_of_costs(copy).unwrap_or(0.0) };
        middle.max(0.5).ln()
    }

    /// The blocks whose place is in a part; places rise.
    fn within(&self, part: usize, part_of: impl Fn(f64) -> usize) -> impl Iterator<Item = (f64, f64)> {
        let first_in = |part: usize| {
            let (mut low, mut high) = (0, self.count());
            while low < high {
                let middle = usize::midpoint(low, high);
                if part_of(self.place(middle)) < part { low = middle + 1 } else { high = middle }
            }
            low
        };
        (first_in(part)..first_in(part + 1)).map(|i| (self.place(i), self.cost(i)))
    }
}

/// The threshold, if most parts of the range have two modes.
fn threshold(series: &[Series], block: usize, (first, last): (f64, f64)) -> Option<Threshold> {
    let width = (last - first) / PARTS as f64;
    let part_of = |x: f64| (((x.exp() - first) / width) as usize).min(PARTS - 1);
    let split_part = |number: usize| {
        let blocks = series.iter().map(|one| Blocks { one, block });
        let part: Vec<(f64, f64)> =
            blocks.flat_map(|blocks| blocks.within(number, part_of).collect::<Vec<_>>()).collect();
        let count = part.len() as f64;
        let mean = |f: &dyn Fn(&(f64, f64)) -> f64| part.iter().map(f).sum::<f64>() / count;
        let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
        // Growth inside a part would blur the modes. The states do not depend on n, so the slope is that of both.
        let slope = mean(&|p| (p.0 - x) * (p.1 - y)) / mean(&|p| (p.0 - x).powi(2)).max(1e-12);
        let mut values: Vec<f64> = part.iter().map(|p| p.1 - slope * (p.0 - x)).collect();
        let found = split_beyond(&mut values, if block > 1 { BRANCH_RATIO } else { RATIO_MIN })?;
        Some((x, f64::midpoint(found.low, found.high)))
    };
    common(PARTS, 0..PARTS, split_part).filter(|found| found.len() >= 2).map(Threshold)
}

/// Divides the calls of a pass, block by block. A block with other neighbours follows them.
fn divide(one: &Series, block: usize, threshold: &Threshold) -> (Series, Series) {
    let blocks = Blocks { one, block };
    let states: Vec<bool> = (0..blocks.count()).map(|i| blocks.cost(i) > threshold.at(blocks.place(i).exp())).collect();
    let empty = || Series { n: Vec::new(), costs: Vec::new(), is_down: one.is_down };
    let (mut low, mut high) = (empty(), empty());
    for (i, state) in states.iter().enumerate() {
        let around = [states.get(i.wrapping_sub(1)), states.get(i + 1)];
        let is_alone = block > 1 && around.iter().all(|other| other.is_some_and(|other| other != state));
        let branch = if *state == is_alone { &mut low } else { &mut high };
        let calls = i * block..((i + 1) * block).min(one.n.len());
        branch.n.extend_from_slice(&one.n[calls.clone()]);
        branch.costs.extend_from_slice(&one.costs[calls]);
    }
    (low, high)
}

/// Share of the expensive branch over n.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// In the first third of the judged range, with a 90% confidence interval over the passes.
    pub first: Estimate,
    /// In the last third, likewise.
    pub last: Estimate,
    /// The last minus the first, pass by pass, with a 99% confidence interval.
    pub change: Estimate,
}

/// Share of the expensive branch over a range of n. `None` for a single pass.
fn shares(branches: &Branches, (first, last): (f64, f64)) -> Option<Shares> {
    let third = (last - first) / 3.0;
    let count = |one: &Series, from: f64, to: f64| {
        let at = |x: f64| one.n.partition_point(|n| f64::from(*n) < x);
        (at(to) - at(from)) as f64
    };
    let share = |from: f64, to: f64| -> Vec<Option<f64>> {
        let pairs =
            branches.low.iter().zip(&branches.high).map(|(low, high)| (count(low, from, to), count(high, from, to)));
        pairs.map(|(a, b)| (a + b > 0.0).then(|| b / (a + b))).collect()
    };
    let (early, late) = (share(first, first + third), share(last - third, last));
    let change = early.iter().zip(&late).map(|(a, b)| Some((*b)? - (*a)?)).collect::<Vec<_>>();
    let mean = |all: &[Option<f64>], confidence: f64| {
        let all: Vec<f64> = all.iter().copied().flatten().collect();
        let passes = all.len() as f64;
        let mean = all.iter().sum::<f64>() / passes;
        let square = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (passes * (passes - 1.0).max(1.0));
        let half = student(0.5 + confidence / 2.0, passes - 1.0) * square.sqrt();
        (passes > 1.0).then_some(Estimate { value: mean, low: mean - half, high: mean + half })
    };
    let within = |one: Estimate| Estimate { low: one.low.max(0.0), high: one.high.min(1.0), ..one };
    Some(Shares { first: within(mean(&early, 0.9)?), last: within(mean(&late, 0.9)?), change: mean(&change, 0.99)? })
}

/// How many of the sorted values belong to the lower part: the cut with the greatest variance between the parts.
fn otsu(sorted: &[f64]) -> usize {
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

/// Whether few values are half-way between two peaks.
fn has_valley(sorted: &[f64], low: f64, high: f64) -> bool {
    let half = 0.1 * (high - low);
    let near = |x: f64| {
        let from = sorted.partition_point(|v| *v < x - half);
        sorted.partition_point(|v| *v <= x + half) - from
    };
    let peak = near(low).min(near(high)) as f64;
    (near(f64::midpoint(low, high)) as f64) < VALLEY_MAX * peak
}

/// The modes; the first split is that of the largest n.
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
            // A few calls of a pass in the other mode have no centre.
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
