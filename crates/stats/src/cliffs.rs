//! Cliffs: abrupt, lasting jumps of the raw series, where a resource is exhausted.
//!
//! In each pass, at each call, the median of the calls before it is compared with that of the calls after it. Each
//! window covers an eighth of the calls so far. Over such a window even a quadratic rise is less than a factor of two,
//! so only a jump can reach two and a half. A jump in a minority of the passes is an episode. A jump after which calls
//! return to the old cost is a change of branch.

use crate::points::Series;
use crate::quantile::{median_of_block, median_of_costs};
use crate::warm_up::cold_max;
use crate::{Annotation, AnnotationKind, Estimate};
use serde::{Deserialize, Serialize};

/// A lasting jump of the cost to at least two and a half times, in a majority of the passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cliff {
    /// First n at the new cost: the median over the passes that show the cliff, with their range.
    pub n: Estimate,
    /// Cost just after over cost just before (medians of up to 256 calls on each side).
    pub factor: f64,
    /// Cost after the cliff over the cost at the smallest judged n. If nothing is judged, the divisor is the median of
    /// the first calls: at most a thousand, all before the first cliff.
    pub factor_over_start: f64,
    /// Cost after the cliff.
    pub cost_after: f64,
    /// Number of passes that show it.
    pub passes: usize,
    /// Number of passes that reached it.
    pub of: usize,
    /// Name of the nearest annotation within 1%, if any.
    pub annotation: Option<String>,
}

/// Smallest factor of a cliff. A smaller jump is a step, which is a law.
const FACTOR: f64 = 2.5;
/// Largest share of the calls after a cliff that may cost as little as before it.
const RETURN_MAX: f64 = 0.1;
/// After an early jump, among calls that may be cold, the cost stays at least this many times the cost before it.
const EARLY: f64 = 1.1;
/// Minimum and maximum number of calls on each side of a place.
const WINDOW: (usize, usize) = (16, 256);

/// Number of calls before a cliff whose median is the cost before it, if calls farther away may be cold.
const BESIDE_COLD: usize = 8;

/// Weight of a cheap call after the cut, relative to an expensive call before it. On the climb to a capacity, up to
/// half of the calls cost as much as a full scan, whereas beyond it hardly any call is cheap.
const LATE_WEIGHT: usize = 3;

/// A jump in one pass.
#[derive(Clone, Copy)]
struct Jump {
    /// Index of the first call at the new cost.
    index: usize,
    n: f64,
    before: f64,
    after: f64,
}

/// Finds the cliffs of a curve, in order of n.
pub(crate) fn find(series: &[Series], annotations: &[Annotation]) -> Vec<Cliff> {
    let per_pass: Vec<Vec<Jump>> = series.iter().map(jumps).collect();
    let mut all: Vec<(usize, Jump)> = Vec::new();
    for (pass, jumps) in per_pass.iter().enumerate() {
        all.extend(jumps.iter().map(|jump| (pass, *jump)));
    }
    all.sort_by(|a, b| a.1.n.total_cmp(&b.1.n));
    let mut cliffs = Vec::new();
    let mut from = 0;
    while from < all.len() {
        let limit = all[from].1.n * 1.02 + 16.0;
        let to = from + all[from..].partition_point(|(_, jump)| jump.n <= limit);
        let first = cliffs.first().map_or(all[from].1.n, |cliff: &Cliff| cliff.n.low);
        cliffs.extend(recurring(&all[from..to], first, series, annotations));
        from = to;
    }
    cliffs
}

/// Returns the cliff of a group of adjacent jumps, if a majority of the passes that reached it shows one.
fn recurring(group: &[(usize, Jump)], first: f64, series: &[Series], annotations: &[Annotation]) -> Option<Cliff> {
    let mut passes: Vec<usize> = group.iter().map(|(pass, _)| *pass).collect();
    passes.sort_unstable();
    passes.dedup();
    let sorted = |of: &dyn Fn(&Jump) -> f64| {
        let mut values: Vec<f64> = group.iter().map(|(_, jump)| of(jump)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (middle, last) = ((group.len() - 1) / 2, group.len() - 1);
    let places = sorted(&|jump| jump.n);
    let place = places[middle];
    if is_warm_up(group, series, place) {
        return None;
    }
    let of = series.iter().filter(|one| reaches(one, place)).count().max(passes.len());
    if passes.len() * 2 <= of {
        return None;
    }
    let mut starts: Vec<f64> = passes.iter().filter_map(|p| start(&series[*p], first)).collect();
    let start = crate::quantile::median_of(&mut starts).unwrap_or(1.0).max(0.5);
    let cost_after = sorted(&|jump| jump.after)[middle];
    let is_cold_before = group.iter().all(|(pass, jump)| is_cold_before(&series[*pass], jump.index));
    Some(Cliff {
        n: Estimate { value: place, low: places[0], high: places[last] },
        factor: factor(&sorted(&|jump| jump.after / jump.before), is_cold_before),
        factor_over_start: cost_after / start,
        cost_after,
        passes: passes.len(),
        of,
        annotation: nearest(
            annotations,
            place,
            0.01,
            &[AnnotationKind::Capacity, AnnotationKind::Table, AnnotationKind::Cache],
        ),
    })
}

/// Returns the factor of a cliff: the median of the factors of the passes, which are sorted. If the calls before the
/// cliff may be cold, it is the upper quartile (the second largest of five). A warm-up that ends at the cliff only
/// raises the cost before it, and ends at another call in each pass.
fn factor(of_passes: &[f64], is_cold_before: bool) -> f64 {
    let last = of_passes.len() - 1;
    of_passes[if is_cold_before { last * 3 / 4 } else { last / 2 }]
}

/// Whether the calls before a place may be cold.
fn is_cold_before(one: &Series, index: usize) -> bool {
    !one.is_down && index <= cold_max(one.costs.len())
}

/// Largest mean distance between the places of a cliff in the passes: this many calls plus this share of the calls
/// beyond it. All passes have a cliff at the same n, whereas a warm-up on the way down ends at another n in each pass.
const JITTER: (f64, f64) = (1.0, 0.01);

/// Whether the jumps of a group are the ends of a warm-up: on the way down, the first calls are those at the largest n.
fn is_warm_up(group: &[(usize, Jump)], series: &[Series], place: f64) -> bool {
    let beyond = |(pass, jump): &(usize, Jump)| series[*pass].costs.len() - jump.index;
    let is_early = |one: &(usize, Jump)| {
        let series = &series[one.0];
        series.is_down && beyond(one) <= cold_max(series.costs.len())
    };
    let count = group.len() as f64;
    let distance = group.iter().map(|(_, jump)| (jump.n - place).abs()).sum::<f64>() / count;
    let calls = group.iter().map(|one| beyond(one) as f64).sum::<f64>() / count;
    group.iter().all(is_early) && distance > JITTER.0 + JITTER.1 * calls
}

/// Whether a cliff is among the calls on the way down that may be cold.
pub(crate) fn is_among_first_calls(cliffs: &[Cliff], series: &[Series]) -> bool {
    let is_early = |one: &Series, cliff: &Cliff| {
        let before = one.n.partition_point(|n| f64::from(*n) < cliff.n.value);
        one.is_down && before < one.n.len() && one.n.len() - before <= cold_max(one.n.len())
    };
    cliffs.iter().any(|cliff| series.iter().any(|one| is_early(one, cliff)))
}

/// Returns the last n at which most passes would show a jump; `None` if they are too short to show one anywhere.
pub(crate) fn seen_to(series: &[Series]) -> Option<f64> {
    let mut ends: Vec<Option<u32>> = series.iter().map(seen_in).collect();
    ends.sort_unstable();
    ends.get(ends.len().saturating_sub(1) / 2).copied().flatten().map(f64::from)
}

/// Returns the last n of a pass at which a jump would be found: most calls of the last whole block, and a whole window,
/// must be beyond it.
fn seen_in(one: &Series) -> Option<u32> {
    let calls = one.costs.len();
    let last = || (calls / WINDOW.0 * WINDOW.0 - WINDOW.0 / 2 - 1).min(calls - WINDOW.0);
    // The cost before a jump also needs a whole window, and the search does not begin in the first two blocks.
    (calls >= 3 * WINDOW.0).then(|| one.n[last()])
}

/// Whether a pass has enough calls beyond an n to show a cliff there.
fn reaches(one: &Series, place: f64) -> bool {
    let beyond = one.n.partition_point(|n| f64::from(*n) < place);
    one.n.len() - beyond >= WINDOW.0
}

/// Median of the calls before the first cliff, at most a thousand.
fn start(one: &Series, first_cliff: f64) -> Option<f64> {
    let count = one.n.partition_point(|n| f64::from(*n) < first_cliff).min(1000);
    median_of_costs(&mut one.costs[..count].to_vec())
}

/// Name of the nearest annotation of these kinds within a relative distance.
pub(crate) fn nearest(annotations: &[Annotation], n: f64, within: f64, kinds: &[AnnotationKind]) -> Option<String> {
    let distance = |annotation: &Annotation| (annotation.n / n).ln().abs();
    let close = annotations.iter().filter(|annotation| annotation.n > 0.0 && kinds.contains(&annotation.kind));
    let close = close.filter(|annotation| distance(annotation) <= within.ln_1p());
    let best = close.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    best.map(|annotation| annotation.name.clone())
}

/// Returns the jumps of one pass. Medians of blocks keep the work linear in the number of calls.
fn jumps(one: &Series) -> Vec<Jump> {
    let block = WINDOW.0;
    let calls = one.costs.len();
    let blocks: Vec<f64> = one.costs.chunks_exact(block).map(log_median).collect();
    let least = 0.5 * FACTOR.ln();
    let (low, high) = blocks.iter().fold((f64::MAX, f64::MIN), |(low, high), b| (low.min(*b), high.max(*b)));
    if high - low < least {
        return Vec::new();
    }
    let step = |i: usize| {
        let side = (i / 8).clamp(1, WINDOW.1 / block);
        let (before, after) = (&blocks[i - side.min(i)..i], &blocks[i..(i + side).min(blocks.len())]);
        let most = after.iter().fold(f64::MIN, |a, b| a.max(*b)) - before.iter().fold(f64::MAX, |a, b| a.min(*b));
        // This bounds the difference of the medians from above; it suffices at most places, since few are near a jump.
        if most < least { most } else { middle(after) - middle(before) }
    };
    // A block that contains the cut belongs to neither side, so half of a jump (in logarithms) starts the search.
    let mut found: Vec<Jump> = Vec::new();
    let mut i = 2;
    while i < blocks.len() {
        if step(i) < least {
            i += 1;
            continue;
        }
        // Medians of wide windows change well before the jump itself, so the whole plateau is searched.
        let end = (i..blocks.len()).find(|j| step(*j) < least).unwrap_or(blocks.len());
        let side = block * (i / 8).clamp(1, WINDOW.1 / block);
        let range = ((i - 2) * block, ((end + 1) * block).min(calls));
        found.extend(sharpen(one, range, side));
        i = end + 1;
    }
    lasting(one, &found)
}

fn log_median(calls: &[u64]) -> f64 {
    let mut copy: [u64; WINDOW.0] = [0; WINDOW.0];
    copy.copy_from_slice(calls);
    median_of_block(copy).max(0.5).ln()
}

fn middle(blocks: &[f64]) -> f64 {
    let mut copy = blocks.to_vec();
    crate::quantile::median_of(&mut copy).unwrap_or(0.0)
}

/// Finds the call at which a jump occurs: the cut with the fewest calls on the wrong side of a threshold. Nearly all
/// later calls exceed the threshold, which is at least the geometric mean of both levels; on the way down, beyond which
/// calls may be cold, it is √2.5 times the earlier level instead. The later level matters because the occupancy law
/// climbs steeply, with calls scattered up to the cost of a full scan, and the cliff is where the scatter ends.
fn sharpen(one: &Series, range: (usize, usize), side: usize) -> Option<Jump> {
    let (from, to) = (range.0.saturating_sub(side), (range.1 + side).min(one.costs.len()));
    let level = |a: usize, b: usize| median_of_costs(&mut one.costs[a..b].to_vec()).map(|ns| ns.max(0.5));
    let (early, late) = (level(from, range.0.max(from + 1))?, level(range.1.min(to - 1), to)?);
    // Nearly all later calls exceed this, but few calls on the climb do.
    let mut later: Vec<f64> = one.costs[range.1.min(to - 1)..to].iter().map(|ns| *ns as f64).collect();
    later.sort_by(f64::total_cmp);
    let floor = 0.9 * crate::quantile::quantile(&later, 0.05)?;
    // On the way down the last calls are the first of the pass, and cold ones exceed those at the cliff.
    let may_be_cold = one.is_down && to == one.costs.len();
    let threshold = if may_be_cold { early * FACTOR.sqrt() } else { (early * late).sqrt().max(floor) };
    let is_expensive = |i: usize| one.costs[i] as f64 > threshold;
    let mut wrong = LATE_WEIGHT * (range.0..range.1).filter(|i| !is_expensive(*i)).count();
    let (mut index, mut fewest) = (range.0, wrong);
    for i in range.0..range.1 {
        wrong = if is_expensive(i) { wrong + 1 } else { wrong - LATE_WEIGHT };
        if wrong < fewest {
            (index, fewest) = (i + 1, wrong);
        }
    }
    let mut end = (index + side).min(one.costs.len());
    if end - index < WINDOW.0 || index < WINDOW.0 {
        return None;
    }
    let mut start = index.saturating_sub(side);
    if may_be_cold {
        start = start.max(index - WINDOW.0);
        end = index + ((end - index) / 8).max(WINDOW.0);
    } else if is_cold_before(one, index) {
        start = start.max(index - BESIDE_COLD);
    }
    let (before, after) = (level(start, index)?, level(index, end)?);
    // A series measured at few n has gaps, across which a rise is not a jump.
    let gap = f64::from(one.n[index]) / f64::from(one.n[index - 1]).max(1.0);
    (after / before >= FACTOR && gap < 1.1).then_some(Jump { index, n: f64::from(one.n[index]), before, after })
}

/// Keeps the jumps after which the cost stays high to the end.
fn lasting(one: &Series, found: &[Jump]) -> Vec<Jump> {
    let mut kept: Vec<Jump> = Vec::new();
    // Medians of the blocks after a jump, cached by the remainder of its index, because jumps may be only a few calls
    // apart.
    let mut medians: [Option<Vec<f64>>; BLOCK] = Default::default();
    for jump in found {
        if kept.last().is_some_and(|last| jump.index < last.index + WINDOW.0) {
            continue;
        }
        // Blocks, so that single calls do not count.
        let (block, offset) = (jump.index / BLOCK, jump.index % BLOCK);
        let medians = medians[offset].get_or_insert_with(|| medians_from(one, offset));
        let later = &medians[block..];
        // The calls before an early jump may be cold, and cost more than later ones.
        let reach = if is_cold_before(one, jump.index) { EARLY } else { FACTOR.sqrt() };
        let floor = reach * jump.before;
        let most = (RETURN_MAX * later.len() as f64) as usize;
        if later.iter().filter(|median| **median < floor).take(most + 1).count() <= most {
            kept.push(*jump);
        }
    }
    kept
}

/// Number of calls in a block after a jump.
const BLOCK: usize = WINDOW.0 / 2;

/// Returns the medians of successive blocks of a pass, from a call on.
fn medians_from(one: &Series, first: usize) -> Vec<f64> {
    let blocks = one.costs[first..].as_chunks::<BLOCK>().0;
    blocks.iter().map(|block| median_of_block(*block)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Guards against taking the steep end of a pole for a cliff on the way down: only the cost after the cliff used to
    /// be that of the calls next to it.
    #[test]
    fn a_pole_on_the_way_down_is_no_jump() {
        let found = |cost: &dyn Fn(f64) -> f64, range: (usize, usize)| {
            let costs = (1..=2_000).map(|n| cost(f64::from(n)) as u64).collect();
            sharpen(&Series { n: (1..=2_000).collect(), costs, is_down: true }, range, 256).map(|jump| jump.n)
        };
        let pole = |n: f64| 1_000.0 * (1.0 - n / 2_100.0).powi(-2);
        assert_eq!([(1_850, 1_900), (1_900, 1_930)].map(|range| found(&pole, range)), [None; 2]);
        let jump = |n: f64| if n < 1_900.0 { 1_000.0 } else { 3_000.0 };
        assert_eq!(found(&jump, (1_880, 1_920)), Some(1_900.0));
    }

    /// Guards against reporting "none up to n" for an n at which no jump would be found.
    #[test]
    fn a_jump_is_seen_up_to_the_n_that_is_said() {
        let cost = |is_high: bool, n: u32| if is_high { 9_000 } else { 1_000 } + u64::from(n % 7);
        let series = |calls: u32, jump: u32| Series {
            n: (1..=calls).collect(),
            costs: (1..=calls).map(|n| cost(n >= jump, n)).collect(),
            is_down: false,
        };
        for calls in 48..=500 {
            let last = seen_in(&series(calls, calls + 1)).unwrap();
            assert!(last + 40 > calls, "{calls} calls: {last}");
            for jump in last.saturating_sub(40).max(33)..=last {
                let found: Vec<f64> = jumps(&series(calls, jump)).iter().map(|jump| jump.n).collect();
                assert_eq!(found, [f64::from(jump)], "{calls} calls, jump at {jump}");
            }
        }
        assert_eq!([0, 1, 16, 47].map(|calls| seen_in(&series(calls, 1_000))), [None; 4]);
    }

    /// Guards against keeping other jumps than a count of all later blocks does.
    #[test]
    fn lasting_jumps_are_those_by_a_plain_count() {
        let plain = |one: &Series, jump: &Jump| {
            let reach = if is_cold_before(one, jump.index) { EARLY } else { FACTOR.sqrt() };
            let blocks = one.costs[jump.index..].chunks_exact(BLOCK);
            let count = blocks.len();
            let low = blocks.filter(|block| median_of_costs(&mut block.to_vec()).unwrap() < reach * jump.before);
            low.count() as f64 <= RETURN_MAX * count as f64
        };
        let mut random = Random::new(7);
        let (mut lasted, mut returned) = (0, 0);
        for calls in [100, 1_003, 4_000] {
            let cost = |random: &mut Random| 500 + random.below(1_000) as u64;
            let costs: Vec<u64> = (0..calls).map(|_| cost(&mut random)).collect();
            let one = Series { n: (1..=calls).collect(), costs, is_down: false };
            let mut index = 0;
            while index + 20 < calls as usize {
                index += 1 + random.below(20);
                // With these floors about a tenth of the blocks are low.
                let before = (600.0 + 250.0 * random.uniform()) / if index <= 256 { EARLY } else { FACTOR.sqrt() };
                let jump = Jump { index, n: f64::from(one.n[index]), before, after: 4.0 * before };
                let is_kept = !lasting(&one, &[jump]).is_empty();
                assert_eq!(is_kept, plain(&one, &jump), "{calls} calls, call {index}");
                (lasted, returned) = (lasted + usize::from(is_kept), returned + usize::from(!is_kept));
            }
        }
        assert!(lasted > 50 && returned > 50, "{lasted} and {returned}");
    }

    /// Each rise of a square wave of a million calls is a jump, but none lasts.
    #[test]
    fn a_square_wave_has_no_cliff() {
        let calls = 1_000_000;
        let wave = |n: u32| if n % 1_200 < 600 { 1_000 } else { 3_000 };
        let one = Series { n: (1..=calls).collect(), costs: (1..=calls).map(wave).collect(), is_down: false };
        assert!(find(&[one], &[]).is_empty());
    }
}
