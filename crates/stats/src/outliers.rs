//! Outliers: single calls that cost much more than the calls around them, recurring or isolated.
//!
//! A call is compared with the median of the calls around it, in three tiers (see `TIERS`): from tier 0, the strictest,
//! to tier 2, the most lenient. The kernel causes an outlier that recurs at one position in most passes; an isolated
//! one is probably interference. The stricter the tier, the rarer its outliers are by chance. Tier 2 finds a call that
//! costs only 1.6 times as much as the calls around it, provided that it recurs in most passes. The rates of that tier
//! around that position, pass by pass, decide whether a recurrence may be chance (`recurrence`).

use crate::Curve;
use crate::pattern;
use crate::points::{Series, series_of};
use crate::quantile::{median_of, median_of_costs};
use recurrence::{Found, Hits, PassHits};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

mod changes;
mod recurrence;
mod rules;

pub use changes::{Group, OutlierChange, outlier_changes};

/// The outliers of a curve. No call is removed from any other figure because of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outliers {
    /// Positions that recur more often than chance allows, in rising order (at most 4,096).
    pub recurring: Vec<RecurringOutlier>,
    /// Number of recurring positions, including those beyond the list.
    pub recurring_count: usize,
    /// The patterns that recurring positions follow, largest factor first.
    pub patterns: Vec<Pattern>,
    /// Number of outliers of the strictest tier (above 20 local medians and above 100 µs) that do not recur, over all
    /// passes.
    pub isolated: usize,
    /// Share of the measured time that recurring outliers take, 0 to 1.
    pub recurring_time_share: f64,
    /// Share of the measured time that isolated outliers take, 0 to 1.
    pub isolated_time_share: f64,
}

/// A position at which most passes have an outlier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecurringOutlier {
    /// The position.
    pub n: u32,
    /// Number of passes with an outlier here.
    pub passes: usize,
    /// Number of passes with a call here, with or without an outlier.
    pub of: usize,
    /// Median over the passes of the cost relative to the local median.
    pub factor: f64,
    /// Lowest cost over the passes that show it.
    pub cost_min: u64,
    /// Median of those costs.
    pub cost_median: u64,
    /// Highest of those costs.
    pub cost_max: u64,
    /// Number of such positions expected by chance on the whole curve; not a probability.
    pub chance: f64,
}

/// A rule that recurring positions follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// The rule.
    pub rule: PatternRule,
    /// Number of positions that follow it.
    pub count: usize,
    /// Hit rate: the share, 0 to 1, of the positions predicted by the rule that have an outlier.
    pub kept: f64,
    /// Median of the factors of the outliers that follow it.
    pub factor: f64,
    /// Lowest cost of those calls.
    pub cost_min: u64,
    /// Highest cost of those calls.
    pub cost_max: u64,
}

/// The rules that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PatternRule {
    /// `n + offset` is a power of two: a table that doubles.
    PowersOfTwo {
        /// The number to add to n, −16 to 16.
        offset: i32,
    },
    /// `n` is `phase` modulo `period`: a page, a batch, a table level.
    Periodic {
        /// Objects between two outliers.
        period: u32,
        /// Offset of the outlier within the period; not a phase of a benchmark.
        phase: u32,
    },
    /// The first calls of a pass: first touch, cold caches.
    FirstCalls,
}

impl Outliers {
    /// Returns the listed positions that follow a pattern, in rising order.
    pub fn following(&self, pattern: &Pattern) -> impl Iterator<Item = u32> {
        let range = pattern.cost_min..=pattern.cost_max;
        let is_in = move |one: &&RecurringOutlier| range.contains(&one.cost_min) && range.contains(&one.cost_max);
        let all = if pattern.rule == PatternRule::FirstCalls { self.first_calls(pattern) } else { &self.recurring };
        all.iter().filter(is_in).map(|one| one.n).filter(|n| pattern.rule.holds(*n))
    }

    /// Returns the listed positions that follow no pattern, in rising order. The first calls are a pattern. The list is
    /// empty if there is a period that begins at another call in each pass, as counted ones do: the few positions at
    /// which passes coincide need not have its phase, and other events may fall on them.
    pub fn without_pattern(&self) -> Vec<&RecurringOutlier> {
        let mut followed = BTreeSet::new();
        for pattern in &self.patterns {
            let positions: Vec<u32> = self.following(pattern).collect();
            if matches!(pattern.rule, PatternRule::Periodic { .. }) && positions.len() < pattern.count {
                return Vec::new();
            }
            followed.extend(positions);
        }
        self.recurring.iter().filter(|one| !followed.contains(&one.n)).collect()
    }

    /// Returns the positions at the start of the passes. Costs show at which end of n that is: later outliers may cost
    /// as much as the first calls.
    fn first_calls(&self, pattern: &Pattern) -> &[RecurringOutlier] {
        let count = pattern.count.min(self.recurring.len());
        let (low, high) = (&self.recurring[..count], &self.recurring[self.recurring.len() - count..]);
        let has_costs = |all: &[RecurringOutlier]| {
            let range = (all.iter().map(|one| one.cost_min).min(), all.iter().map(|one| one.cost_max).max());
            range == (Some(pattern.cost_min), Some(pattern.cost_max))
        };
        if !has_costs(low) && has_costs(high) { high } else { low }
    }
}

/// Thresholds of an outlier, from the strictest tier to the most lenient: a factor over the local median, and a
/// distance in ns that a clock with steps of 10 ns resolves.
const TIERS: [(f64, f64); 3] = [(20.0, 100_000.0), (5.0, 100.0), (1.6, 60.0)];
/// Number of calls in a block, whose median is the local median.
const BLOCK: usize = 64;
/// Longest list of positions.
const LISTED: usize = 4096;
/// Curves whose n span more than this are skipped: their calls cannot have been measured one by one.
const MAX_SPAN: usize = 1 << 24;

/// Returns the outliers of a curve.
pub(crate) fn find(curve: &Curve) -> Outliers {
    let series = series_of(curve, false);
    let locals: Vec<Vec<f64>> = series.iter().map(local_medians).collect();
    let Some(hits) = hits_of(&series, &locals) else {
        return Outliers::default();
    };
    let mut found = recurrence::positions(&hits);
    let is_falling = is_falling(curve);
    let warm_up = pattern::warm_up(found.iter().map(|found| found.n), (hits.first, hits.last()), is_falling);
    let places = hits.calls.len() as u32;
    let rules = rules::find(&hits, &if is_falling { 0..places - warm_up } else { warm_up..places });
    for rule in &rules {
        recurrence::add_predicted(&hits, rule, &mut found);
    }
    let listed = &found[..found.len().min(LISTED)];
    let recurring: Vec<RecurringOutlier> =
        listed.iter().filter_map(|found| describe(found, &series, &locals)).collect();
    let tiers: Vec<usize> = listed.iter().map(|found| found.tier).collect();
    let known: Vec<(PatternRule, f64)> = rules.iter().map(|one| (one.rule, one.kept)).collect();
    let patterns = pattern::find(&recurring, &tiers, (hits.first, hits.last()), is_falling, &known);
    let (isolated, isolated_cost) = isolated(&series, &locals, &found);
    let total: f64 = series.iter().flat_map(|one| &one.costs).map(|ns| *ns as f64).sum();
    let own: f64 = listed.iter().fold(0.0, |sum, found| sum + cost_of(found, &series));
    Outliers {
        recurring_count: found.len(),
        recurring_time_share: own / total.max(1.0),
        isolated_time_share: isolated_cost / total.max(1.0),
        recurring,
        patterns,
        isolated,
    }
}

/// Returns the local median of each block of calls: the highest of the medians of the block and of its neighbours. So
/// neither a rise nor a fall within a block, nor the edge of a burst that slows many calls, is an outlier. Beyond the
/// last block of the way up, a rise is assumed to continue; on the way down, these calls are the first ones.
fn local_medians(one: &Series) -> Vec<f64> {
    let mut copy = [0; BLOCK];
    let mut median = |calls: &[u64]| {
        let copy = &mut copy[..calls.len()];
        copy.copy_from_slice(calls);
        median_of_costs(copy).unwrap_or(1.0).max(1.0)
    };
    let own: Vec<f64> = one.costs.chunks(BLOCK).map(&mut median).collect();
    // A short last block has no separate median.
    let is_short = (1..BLOCK / 2).contains(&(one.costs.len() % BLOCK)) && own.len() > 1;
    let last = own.len() - 1 - usize::from(is_short);
    let beyond = if one.is_down || last == 0 { 1.0 } else { own[last] * own[last] / own[last - 1] };
    let around = |i: usize| &own[i.saturating_sub(1).min(last)..=(i + 1).min(last)];
    let local = |i: usize| around(i).iter().copied().fold(if i < last { 1.0 } else { beyond }, f64::max);
    (0..own.len()).map(local).collect()
}

fn is_outlier(ns: u64, local: f64, tier: usize) -> bool {
    let (factor, above) = TIERS[tier];
    let ns = ns as f64;
    // The strictest tier requires 100 µs in total, the others a distance from the median.
    let floor = if tier == 0 { above } else { local + above };
    ns > factor * local && ns > floor
}

/// Returns the calls and the outliers of each pass, by place: the distance of n from the smallest n.
fn hits_of(series: &[Series], locals: &[Vec<f64>]) -> Option<Hits> {
    let first = series.iter().filter_map(|one| one.n.first()).min().copied()?;
    let last = series.iter().filter_map(|one| one.n.last()).max().copied()?;
    let span = (last - first) as usize + 1;
    // If several calls share an n, positions cannot recur.
    let is_single = |one: &Series| one.n.windows(2).all(|pair| pair[0] < pair[1]);
    if span > MAX_SPAN || series.len() > usize::from(u16::MAX) || !series.iter().all(is_single) {
        return None;
    }
    let mut hits = Hits::new(first, span);
    for (one, locals) in series.iter().zip(locals) {
        let mut tiers: [Vec<u32>; TIERS.len()] = Default::default();
        for (i, (n, ns)) in one.n.iter().zip(&one.costs).enumerate() {
            hits.calls[(n - first) as usize] += 1;
            let local = locals[i / BLOCK];
            // Few calls exceed even the most lenient tier, so it is tested first.
            for tier in (0..TIERS.len()).rev() {
                if !is_outlier(*ns, local, tier) {
                    break;
                }
                tiers[tier].push(n - first);
            }
        }
        hits.passes.push(PassHits { calls: one.n.len(), tiers });
    }
    Some(hits)
}

/// Whether the calls were made from the largest n downwards, as in a destruction.
fn is_falling(curve: &Curve) -> bool {
    let ends = |pass: &&crate::Pass| pass.n.first() > pass.n.last();
    curve.passes.iter().filter(|pass| ends(pass)).count() * 2 > curve.passes.len()
}

/// Returns the most expensive call of a pass within the slack of a position, with its local median.
fn call_at(found: &Found, one: &Series, locals: Option<&[f64]>) -> Option<(u64, f64)> {
    let from = one.n.partition_point(|n| n + found.slack < found.n);
    let to = one.n.partition_point(|n| *n <= found.n + found.slack);
    let best = (from..to).max_by_key(|i| one.costs[*i])?;
    Some((one.costs[best], locals.map_or(1.0, |locals| locals[best / BLOCK])))
}

fn cost_of(found: &Found, series: &[Series]) -> f64 {
    let costs = series.iter().filter_map(|one| call_at(found, one, None));
    costs.map(|call| call.0 as f64).sum()
}

fn describe(found: &Found, series: &[Series], locals: &[Vec<f64>]) -> Option<RecurringOutlier> {
    let calls = series.iter().zip(locals).filter_map(|(one, l)| call_at(found, one, Some(l)));
    let calls: Vec<(u64, f64)> = calls.filter(|(ns, l)| is_outlier(*ns, *l, found.tier)).collect();
    let mut costs: Vec<u64> = calls.iter().map(|call| call.0).collect();
    let mut factors: Vec<f64> = calls.iter().map(|(ns, local)| *ns as f64 / local).collect();
    Some(RecurringOutlier {
        n: found.n,
        passes: found.passes,
        of: found.of,
        factor: median_of(&mut factors)?,
        cost_min: costs.iter().copied().min()?,
        cost_max: costs.iter().copied().max()?,
        cost_median: median_of_costs(&mut costs)? as u64,
        chance: found.expected_by_chance,
    })
}

/// Returns number and total cost of the outliers of the strictest tier that do not recur.
fn isolated(series: &[Series], locals: &[Vec<f64>], found: &[Found]) -> (usize, f64) {
    let is_recurring = |n: u32| {
        let next = found.partition_point(|f| f.n + f.slack < n);
        found.get(next).is_some_and(|f| f.n.saturating_sub(f.slack) <= n)
    };
    let mut sum = (0, 0.0);
    for (one, locals) in series.iter().zip(locals) {
        for (i, (n, ns)) in one.n.iter().zip(&one.costs).enumerate() {
            if is_outlier(*ns, locals[i / BLOCK], 0) && !is_recurring(*n) {
                sum = (sum.0 + 1, sum.1 + *ns as f64);
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests;
