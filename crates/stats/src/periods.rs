//! Periods of counted costs: calls that take one kernel path at regular distances.
//!
//! A slab is refilled at regular distances, but not at the same call in each pass. So a period is searched for in each
//! pass, and must be found in all of them.

use crate::Curve;
use crate::exact::{BLOCK, interrupted, usual};
use crate::outliers::{Outliers, Pattern, PatternRule};
use crate::points::{Series, series_of};
use crate::quantile::lower_median;
use std::collections::BTreeMap;

/// A call is an outlier above this factor of the usual cost plus this many instructions.
const OUTLIER: (f64, f64) = (1.1, 50.0);
/// Costs within this relative distance belong to one path.
const SAME_PATH: f64 = 0.003;
/// Minimum number of calls that show a period.
const CALLS_MIN: usize = 8;
/// Smallest share of the distances between outliers that must be multiples of the period.
const KEPT_MIN: f64 = 0.8;
/// Maximum number of periods reported.
const PERIODS_MAX: usize = 6;

/// The outliers of one path in one pass that recur with a period.
struct Period {
    length: u32,
    first: u32,
    count: usize,
    kept: f64,
    low: u64,
    high: u64,
    usual: f64,
}

/// Adds the periods that all passes share, and replaces the isolated outliers by the calls that an interrupt hit.
pub(crate) fn add(outliers: &mut Outliers, curve: &Curve) {
    let series = series_of(curve, false);
    let periods: Vec<Vec<Period>> = series.iter().map(periods_of).collect();
    let Some((first, others)) = periods.split_first() else { return };
    let is_like = |a: &Period, b: &Period| a.length == b.length && a.low <= b.high && b.low <= a.high;
    let mut shared: Vec<&Period> =
        first.iter().filter(|period| others.iter().all(|other| other.iter().any(|one| is_like(period, one)))).collect();
    let extra = |period: &Period| (period.high as f64 - period.usual) * period.count as f64;
    shared.sort_by(|a, b| extra(b).total_cmp(&extra(a)));
    shared.truncate(PERIODS_MAX);
    let mut costs: BTreeMap<u64, usize> = BTreeMap::new();
    for cost in series.iter().flat_map(|one| &one.costs) {
        *costs.entry(*cost).or_default() += 1;
    }
    let hit = interrupted(&series, &costs);
    let total: f64 = series.iter().flat_map(|one| &one.costs).map(|cost| *cost as f64).sum();
    outliers.isolated = hit.len();
    outliers.isolated_time_share = hit.iter().map(|cost| *cost as f64).sum::<f64>() / total.max(1.0);
    if shared.is_empty() {
        return;
    }
    outliers.patterns.retain(|one| !matches!(one.rule, PatternRule::Periodic { .. }));
    outliers.patterns.splice(0..0, shared.into_iter().map(pattern));
}

fn pattern(found: &Period) -> Pattern {
    Pattern {
        rule: PatternRule::Periodic { period: found.length, phase: found.first % found.length },
        count: found.count,
        kept: found.kept,
        factor: found.high as f64 / found.usual.max(1.0),
        cost_min: found.low,
        cost_max: found.high,
    }
}

/// Returns the periods of one pass, path by path.
fn periods_of(one: &Series) -> Vec<Period> {
    let usual = usual(one);
    let mut outliers: Vec<(u64, u32, f64)> = Vec::new();
    for (i, (n, cost)) in one.n.iter().zip(&one.costs).enumerate() {
        let usual = usual[i / BLOCK];
        if *cost as f64 > OUTLIER.0 * usual + OUTLIER.1 {
            outliers.push((*cost, *n, usual));
        }
    }
    outliers.sort_by_key(|call| (call.0, call.1));
    let paths = outliers.chunk_by(|a, b| b.0 as f64 <= a.0 as f64 * (1.0 + SAME_PATH));
    paths.filter_map(period).collect()
}

/// Returns the period of one path (cost, n and usual cost of each call), if it has one.
fn period(path: &[(u64, u32, f64)]) -> Option<Period> {
    if path.len() < CALLS_MIN {
        return None;
    }
    let mut positions: Vec<u32> = path.iter().map(|call| call.1).collect();
    positions.sort_unstable();
    let mut gaps: BTreeMap<u32, usize> = BTreeMap::new();
    for pair in positions.windows(2) {
        *gaps.entry(pair[1] - pair[0]).or_default() += 1;
    }
    let all = positions.len() - 1;
    let kept = |period: u32| gaps.iter().filter(|(gap, _)| **gap % period == 0).map(|(_, times)| times).sum();
    // Choose the largest gap that explains the others; the divisor that fits most often would be the smallest one.
    let (period, kept) = gaps
        .iter()
        .filter(|(gap, times)| **gap >= 2 && **times * 10 >= all)
        .map(|(gap, _)| (*gap, kept(*gap)))
        .filter(|(_, kept): &(u32, usize)| *kept as f64 >= KEPT_MIN * all as f64)
        .max_by_key(|(gap, kept)| (*kept, *gap))?;
    let (low, high) = (path[0].0, path[path.len() - 1].0);
    let usual = lower_median(&mut path.iter().map(|call| call.2).collect::<Vec<f64>>())?;
    Some(Period {
        length: period,
        first: positions[0],
        count: positions.len(),
        kept: kept as f64 / all as f64,
        low,
        high,
        usual,
    })
}
