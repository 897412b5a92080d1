//! The costs that occurred in a curve that was counted exactly.

use crate::points::{Series, series_of};
use crate::quantile::lower_median;
use crate::{Cliff, Curve};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The costs of a curve that was counted exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exact {
    /// Share of the n at which all passes counted the same, 0 to 1.
    pub agree: f64,
    /// The most common costs with their shares of the calls before the first cliff, most common first.
    pub common: Vec<(u64, f64)>,
    /// Number of different costs.
    pub distinct: usize,
    /// Mean cost of a call.
    pub mean: f64,
    /// Number of calls that were hit by a timer interrupt: their cost occurs once and far exceeds that of the calls
    /// around them.
    pub interrupted: usize,
}

/// Number of costs that are listed.
const LISTED: usize = 4;
/// Smallest number of instructions that an interrupt adds.
const INTERRUPT_MIN: f64 = 1_000.0;
/// Number of calls in a block, whose lower median is the usual cost.
pub(crate) const BLOCK: usize = 64;

/// Returns the costs that occurred before the first cliff.
pub(crate) fn describe(curve: &Curve, cliffs: &[Cliff]) -> Exact {
    let end = cliffs.first().map_or(f64::MAX, |cliff| cliff.n.low);
    let series = series_of(curve, false);
    let mut costs: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut sum, mut calls) = (0.0, 0_usize);
    for (n, cost) in series.iter().flat_map(|one| one.n.iter().zip(&one.costs)) {
        if f64::from(*n) < end {
            *costs.entry(*cost).or_default() += 1;
            (sum, calls) = (sum + *cost as f64, calls + 1);
        }
    }
    let share = |times: usize| times as f64 / calls.max(1) as f64;
    let mut common: Vec<(u64, f64)> = costs.iter().map(|(cost, times)| (*cost, share(*times))).collect();
    common.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    common.truncate(LISTED);
    Exact {
        agree: agree(&series),
        distinct: costs.len(),
        mean: sum / calls.max(1) as f64,
        interrupted: interrupted(&series, &costs).len(),
        common,
    }
}

/// Returns the share of the n at which all passes counted the same.
fn agree(series: &[Series]) -> f64 {
    let Some((first, others)) = series.split_first() else { return 1.0 };
    let (mut same, mut common) = (0_usize, 0_usize);
    let mut places = vec![0; others.len()];
    for (n, cost) in first.n.iter().zip(&first.costs) {
        let mut here = Vec::with_capacity(others.len());
        for (other, place) in others.iter().zip(&mut places) {
            while other.n.get(*place).is_some_and(|at| at < n) {
                *place += 1;
            }
            here.extend((other.n.get(*place) == Some(n)).then(|| other.costs[*place]));
        }
        if here.len() == others.len() {
            common += 1;
            same += usize::from(here.iter().all(|other| other == cost));
        }
    }
    same as f64 / common.max(1) as f64
}

/// Returns the usual cost of each block of calls.
pub(crate) fn usual(one: &Series) -> Vec<f64> {
    one.costs.chunks(BLOCK).map(|calls| lower_median(&mut calls.to_vec()).unwrap_or(0) as f64).collect()
}

/// Returns the costs of the calls that an interrupt hit: high, and unique in the curve. `costs` holds the number of
/// occurrences of each cost.
pub(crate) fn interrupted(series: &[Series], costs: &BTreeMap<u64, usize>) -> Vec<u64> {
    let mut hit = Vec::new();
    for one in series {
        let usual = usual(one);
        let is_hit = |(i, cost): &(usize, &u64)| {
            **cost as f64 > usual[i / BLOCK] + INTERRUPT_MIN && costs.get(*cost).is_some_and(|times| *times == 1)
        };
        hit.extend(one.costs.iter().enumerate().filter(is_hit).map(|(_, cost)| *cost));
    }
    hit
}
