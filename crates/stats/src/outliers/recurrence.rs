//! Positions that recur in more passes than chance allows.
//!
//! A position counts the *passes* that have an outlier there, never calls. Chance is local: outliers cluster in bursts
//! and on a climb, and each pass has its own bursts. So each pass has its own rate at each position, the highest that
//! its calls around that position show over several distances. The probability that at least so many passes have an
//! outlier there is then that of independent trials with those rates (Poisson's binomial distribution).

use super::rules::Rule;

/// Smallest share of the passes with an outlier at a recurring position.
const MIN_SHARE_OF_PASSES: f64 = 0.6;
/// Largest number of recurring positions expected by chance on a whole curve, over all tiers and slacks.
const MAX_EXPECTED_BY_CHANCE: f64 = 0.01;
/// The tests of a position, as tier and slack: each tier exactly; the two strict tiers, which are rarely reached by
/// chance, also within one call.
const TESTS: [(usize, u32); 5] = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)];
/// Distances over which the rate of a pass is estimated, from the widest to the narrowest: a burst lasts a few dozen to
/// a few hundred calls.
const DISTANCES: [u32; 4] = [1024, 256, 64, 16];
/// Weight, in calls, of the rate of the wider distance in that of the next narrower one.
const PRIOR_CALLS: f64 = 32.0;

/// The outliers of one pass.
#[derive(Debug)]
pub(super) struct PassHits {
    /// Number of calls of the pass.
    pub(super) calls: usize,
    /// The places of the outliers, by tier, rising.
    pub(super) tiers: [Vec<u32>; super::TIERS.len()],
}

/// The outliers of all passes.
#[derive(Debug)]
pub(super) struct Hits {
    /// The n of place 0.
    pub(super) first: u32,
    /// For each place the number of passes with a call there.
    pub(super) calls: Vec<u16>,
    /// The passes.
    pub(super) passes: Vec<PassHits>,
}

/// A recurring position and its tier.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) n: u32,
    pub(super) tier: usize,
    /// Number of passes with an outlier there.
    pub(super) passes: usize,
    /// Number of passes with a call there.
    pub(super) of: usize,
    /// Distance, in calls, within which an outlier of a pass counts for this position.
    pub(super) slack: u32,
    pub(super) expected_by_chance: f64,
}

impl Hits {
    pub(super) fn new(first: u32, span: usize) -> Self {
        Self { first, calls: vec![0; span], passes: Vec::new() }
    }

    /// Returns the largest n.
    pub(super) fn last(&self) -> u32 {
        self.first + self.calls.len() as u32 - 1
    }

    /// Returns for each place the number of passes with an outlier within the slack.
    pub(super) fn passes_with(&self, tier: usize, slack: u32) -> Vec<u16> {
        let mut counts = vec![0_u16; self.calls.len()];
        for pass in &self.passes {
            let mut next = 0;
            for place in &pass.tiers[tier] {
                let from = place.saturating_sub(slack).max(next);
                next = (place + slack + 1).min(counts.len() as u32);
                counts[from as usize..next as usize].iter_mut().for_each(|count| *count += 1);
            }
        }
        counts
    }
}

/// Returns the positions that recur more often than chance allows, in rising order. Positions are tested exactly, then
/// within one call.
pub(super) fn positions(hits: &Hits) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    if hits.passes.len() < 2 {
        return all;
    }
    let mut taken = vec![false; hits.calls.len()];
    for (tier, slack) in TESTS {
        test(hits, tier, slack, &mut taken, &mut all);
    }
    all.sort_by_key(|found| found.n);
    all
}

/// Runs one test on every place.
fn test(hits: &Hits, tier: usize, slack: u32, taken: &mut [bool], all: &mut Vec<Found>) {
    let counts = hits.passes_with(tier, slack);
    let mut candidates = candidates(hits, &counts, MIN_SHARE_OF_PASSES);
    if slack > 0 {
        let exactly = hits.passes_with(tier, 0);
        candidates.retain(|place| exactly[*place as usize] > 0);
    }
    if candidates.is_empty() {
        return;
    }
    let rest = others(hits, tier, slack, &candidates);
    for place in candidates {
        let at = place as usize;
        let (of, passes) = (usize::from(hits.calls[at]), usize::from(counts[at].min(hits.calls[at])));
        let near = at.saturating_sub(slack as usize)..(at + slack as usize + 1).min(taken.len());
        if taken[near.clone()].iter().any(|taken| *taken) {
            continue;
        }
        let expected_by_chance = counts.len() as f64 * chance(&rest, place, slack, passes);
        if expected_by_chance * (TESTS.len() as f64) < MAX_EXPECTED_BY_CHANCE {
            taken[near].fill(true);
            all.push(Found { n: hits.first + place, tier, passes, of, slack, expected_by_chance });
        }
    }
}

/// Adds the positions that a rule predicts and most passes show: chance does not explain the rule as a whole.
pub(super) fn add_predicted(hits: &Hits, rule: &Rule, all: &mut Vec<Found>) {
    // Outliers that follow a rule in most passes may exceed only the most lenient tier in some.
    let lenient = super::TIERS.len() - 1;
    let counts = hits.passes_with(lenient, 0);
    let mut shown = candidates(hits, &counts, MIN_SHARE_OF_PASSES);
    shown.retain(|place| rule.places.binary_search(place).is_ok());
    let rest = others(hits, lenient, 0, &rule.places);
    for place in shown {
        let n = hits.first + place;
        let next = all.partition_point(|found| found.n + found.slack < n);
        if all.get(next).is_some_and(|found| found.n.saturating_sub(found.slack) <= n) {
            continue;
        }
        let (of, passes) = (hits.calls[place as usize], counts[place as usize]);
        let (of, passes) = (usize::from(of), usize::from(passes));
        let expected_by_chance = rule.places.len() as f64 * chance(&rest, place, 0, passes);
        all.insert(next, Found { n, tier: lenient, passes, of, slack: 0, expected_by_chance });
    }
}

/// Returns the places at which at least this share of the passes, and at least two, have an outlier; `counts` holds
/// their numbers.
pub(super) fn candidates(hits: &Hits, counts: &[u16], share: f64) -> Vec<u32> {
    let is_candidate = |place: &u32| {
        let of = hits.calls[*place as usize];
        f64::from(counts[*place as usize].min(of)) >= (share * f64::from(of)).ceil().max(2.0)
    };
    (0..counts.len() as u32).filter(is_candidate).collect()
}

/// Returns the probability that at least this many passes have an outlier within the slack of a place.
fn chance(rest: &[Others], place: u32, slack: u32, passes: usize) -> f64 {
    let rates: Vec<f64> = rest.iter().map(|pass| pass.rate(place, slack)).collect();
    at_least(passes, &rates)
}

/// The outliers of a pass that must be due to chance: those not at a candidate.
pub(super) struct Others {
    places: Vec<u32>,
    /// Their share of all calls of the pass.
    rate: f64,
}

/// Returns the outliers of each pass that are not within the slack of these places.
pub(super) fn others(hits: &Hits, tier: usize, slack: u32, candidates: &[u32]) -> Vec<Others> {
    let is_other = |place: &u32| {
        let next = candidates.partition_point(|one| one + slack < *place);
        candidates.get(next).is_none_or(|one| *one > place + slack)
    };
    let of_pass = |pass: &PassHits| {
        let places: Vec<u32> = pass.tiers[tier].iter().copied().filter(is_other).collect();
        // Half an outlier is added, for a pass that shows none.
        let rate = (places.len() as f64 + 0.5) / (pass.calls as f64 + 1.0);
        Others { places, rate }
    };
    hits.passes.iter().map(of_pass).collect()
}

impl Others {
    /// Returns the probability of an outlier of this pass within the slack of a place.
    pub(super) fn rate(&self, place: u32, slack: u32) -> f64 {
        let (mut wider, mut highest) = (self.rate, self.rate);
        for distance in DISTANCES {
            let from = self.places.partition_point(|one| one + distance < place);
            let to = self.places.partition_point(|one| *one <= place + distance);
            let calls = f64::from(2 * distance);
            wider = ((to - from) as f64 + PRIOR_CALLS * wider) / (calls + PRIOR_CALLS);
            highest = highest.max(wider);
        }
        1.0 - (1.0 - highest.min(1.0)).powf(f64::from(2 * slack + 1))
    }
}

/// Returns the probability of at least `hits` successes in independent trials with these rates.
fn at_least(hits: usize, rates: &[f64]) -> f64 {
    // The probability of each number of successes so far; the last entry is that of `hits` or more.
    let mut of = vec![0.0; hits + 1];
    of[0] = 1.0;
    for rate in rates {
        let more = of[hits] + of[hits.saturating_sub(1)] * rate * f64::from(u8::from(hits > 0));
        for count in (1..hits).rev() {
            of[count] = of[count] * (1.0 - rate) + of[count - 1] * rate;
        }
        of[0] *= 1.0 - rate;
        of[hits] = more;
    }
    of[hits]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_agrees_with_counting() {
        let rates = [0.5, 0.25, 0.1];
        let all = 0.5 * 0.25 * 0.1;
        let two = 0.5 * 0.25 * 0.9 + 0.5 * 0.75 * 0.1 + 0.5 * 0.25 * 0.1;
        assert!((at_least(3, &rates) - all).abs() < 1e-12);
        assert!((at_least(2, &rates) - two - all).abs() < 1e-12, "{}", at_least(2, &rates));
        assert!((at_least(1, &rates) - (1.0 - 0.5 * 0.75 * 0.9)).abs() < 1e-12);
    }

    /// Guards against calls being counted instead of passes: three adjacent outliers in one pass count as one pass.
    #[test]
    fn passes_are_counted_not_calls() {
        let of_pass = |places: Vec<u32>| PassHits { calls: 10, tiers: [places, Vec::new(), Vec::new()] };
        let mut hits = Hits::new(1, 10);
        hits.calls.fill(2);
        hits.passes = vec![of_pass(vec![3, 4, 5]), of_pass(vec![8])];
        assert_eq!(hits.passes_with(0, 1), [0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(hits.passes_with(0, 0), [0, 0, 0, 1, 1, 1, 0, 0, 1, 0]);
    }
}
