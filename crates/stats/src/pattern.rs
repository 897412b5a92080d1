//! Patterns of recurring outliers: tables that double, new pages, first calls.
//!
//! Outliers of the strictest tier (milliseconds where a descriptor table doubles) and the others (a page of a slab
//! every few dozen calls) have different causes, so patterns are searched for in each group separately.

use crate::outliers::{Pattern, PatternRule, RecurringOutlier};

/// Largest gap within the first calls, the run of positions from the start.
const FIRST_GAP: u32 = 16;
/// Largest offset between n and the number that doubles: descriptors start at 3 or slightly above.
const OFFSET_MAX: i32 = 16;
/// Smallest power of two that is tested.
const POWER_MIN: i64 = 32;
/// Smallest share of the positions predicted by a rule that must have an outlier.
const KEPT_MIN: f64 = 0.7;
/// Largest number of patterns of one group.
const RULES_MAX: usize = 3;

/// Returns the patterns of the positions (rising) of a series from `first` to `last`. `tiers` holds the tier of each;
/// `falling` means that the calls were made from `last` downwards. `known` holds the rules that the outliers of all
/// their positions together show, with the share of these positions that is kept.
pub(crate) fn find(
    all: &[RecurringOutlier],
    tiers: &[usize],
    (first, last): (u32, u32),
    falling: bool,
    known: &[(PatternRule, f64)],
) -> Vec<Pattern> {
    let warm_up = warm_up(all.iter().map(|one| one.n), (first, last), falling);
    let is_first = |one: &RecurringOutlier| if falling { last - one.n < warm_up } else { one.n - first < warm_up };
    let mut found = Vec::new();
    let early: Vec<&RecurringOutlier> = all.iter().filter(|one| is_first(one)).collect();
    let later = all.iter().zip(tiers.iter().copied()).filter(|(one, _)| !is_first(one));
    let mut later: Vec<(&RecurringOutlier, usize)> = later.collect();
    for (kind, kept) in known {
        let hits = later.iter().map(|(one, _)| *one).filter(|one| kind.holds(one.n));
        let hits: Vec<&RecurringOutlier> = hits.collect();
        if !hits.is_empty() {
            found.push(describe(*kind, *kept, &hits));
        }
        later.retain(|(one, _)| !kind.holds(one.n));
    }
    for hard in [true, false] {
        let group = later.iter().filter(|(_, tier)| (*tier == 0) == hard);
        let mut rest: Vec<&RecurringOutlier> = group.map(|pair| pair.0).collect();
        for _ in 0..RULES_MAX {
            let (powers, every) = (powers(&rest, last), every(&rest, first, last));
            // The multiples of 512 contain powers of two, but powers of two contain no period. So periods are tried
            // first, except in the strictest tier.
            let rule = if hard { powers.or(every) } else { every.or(powers) };
            let Some((kind, kept)) = rule else { break };
            let (hits, others): (Vec<&RecurringOutlier>, Vec<&RecurringOutlier>) =
                rest.iter().partition(|one| kind.holds(one.n));
            found.push(describe(kind, kept, &hits));
            rest = others;
        }
    }
    found.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    if !early.is_empty() {
        found.push(describe(PatternRule::FirstCalls, 1.0, &early));
    }
    found
}

/// Returns the length, in calls from the start of the pass, of the run of first calls: at most an eighth of all.
pub(crate) fn warm_up(recurring: impl Iterator<Item = u32>, (first, last): (u32, u32), falling: bool) -> u32 {
    let from_start = |n: u32| if falling { last - n } else { n - first };
    let mut distances: Vec<u32> = recurring.map(from_start).collect();
    distances.sort_unstable();
    let most = (last - first) / 8;
    let mut end = 0;
    for distance in distances {
        if distance >= end + FIRST_GAP.min(most) || distance >= most {
            break;
        }
        end = distance + 1;
    }
    end
}

impl PatternRule {
    /// Returns whether a position follows the rule. Every position follows [`PatternRule::FirstCalls`].
    pub fn holds(self, n: u32) -> bool {
        match self {
            Self::PowersOfTwo { offset } => is_power(i64::from(n) + i64::from(offset)),
            Self::Periodic { period, phase } => n % period == phase,
            Self::FirstCalls => true,
        }
    }
}

pub(crate) fn is_power(x: i64) -> bool {
    x >= POWER_MIN && x & (x - 1) == 0
}

/// Returns the offset that turns the most positions into powers of two, if at least three are and few in between are
/// missing.
fn powers(all: &[&RecurringOutlier], last: u32) -> Option<(PatternRule, f64)> {
    let hits = |offset: i32| {
        let sums = all.iter().map(move |one| i64::from(one.n) + i64::from(offset));
        sums.filter(|x| is_power(*x)).collect::<Vec<i64>>()
    };
    let offsets = (-OFFSET_MAX..=OFFSET_MAX).map(|offset| (hits(offset), offset));
    let (hits, offset) = offsets.max_by_key(|(hits, offset)| (hits.len(), -offset.abs()))?;
    let lowest = *hits.first()?;
    let top = i64::from(last) + i64::from(offset);
    let predicted = (0..40).filter(|k| (lowest << k) <= top).count();
    let kept = hits.len() as f64 / predicted.max(1) as f64;
    (hits.len() >= 3 && kept >= KEPT_MIN).then_some((PatternRule::PowersOfTwo { offset }, kept))
}

/// Returns the period that the most positions follow, if at least four follow it and few in between are missing.
fn every(all: &[&RecurringOutlier], first: u32, last: u32) -> Option<(PatternRule, f64)> {
    let mut gaps: Vec<u32> = Vec::new();
    for lag in 1..=3 {
        gaps.extend(all.iter().zip(all.iter().skip(lag)).map(|(a, b)| b.n - a.n));
    }
    gaps.retain(|gap| *gap >= 8);
    let best = most_common(gaps, 8).into_iter().filter_map(|period| {
        let phases = all.iter().map(|one| one.n % period).collect();
        let phase = *most_common(phases, 1).first()?;
        let hits = all.iter().filter(|one| one.n % period == phase).count();
        let lowest = first + (phase + period - first % period) % period;
        let predicted = (last.checked_sub(lowest)? / period) as usize + 1;
        let kept = hits as f64 / predicted as f64;
        // Three positions at equal distances are a period if no other is missing and few do not follow it.
        let is_rule = (hits >= 4 && kept >= KEPT_MIN) || (hits == 3 && predicted == 3 && all.len() <= 2 * hits);
        is_rule.then_some((hits, kept, PatternRule::Periodic { period, phase }))
    });
    best.max_by_key(|rule| rule.0).map(|(_, kept, kind)| (kind, kept))
}

/// Returns the most common values, most common first; of equally common values, the smaller first.
pub(crate) fn most_common(mut values: Vec<u32>, count: usize) -> Vec<u32> {
    values.sort_unstable();
    let mut runs: Vec<(usize, u32)> = values.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect();
    runs.sort_by_key(|(length, value)| (usize::MAX - length, *value));
    runs.iter().take(count).map(|run| run.1).collect()
}

fn describe(kind: PatternRule, kept: f64, hits: &[&RecurringOutlier]) -> Pattern {
    let cost_min = hits.iter().map(|one| one.cost_min).min().unwrap_or(0);
    let cost_max = hits.iter().map(|one| one.cost_max).max().unwrap_or(0);
    let mut factors: Vec<f64> = hits.iter().map(|one| one.factor).collect();
    Pattern {
        rule: kind,
        count: hits.len(),
        kept,
        factor: crate::quantile::median_of(&mut factors).unwrap_or(1.0),
        cost_min,
        cost_max,
    }
}
