//! Rules that the outliers of all passes together follow: a period, or powers of two.
//!
//! A single position may recur in too few passes to be distinguished from chance, because bursts cover it in some. A
//! rule predicts many positions, so its outliers are counted over all of them. Their number is compared with the number
//! that the rates of the passes around those positions explain.

use super::recurrence::{Hits, Others, PassHits, candidates, others};
use super::{PatternRule, TIERS};
use crate::pattern::{is_power, most_common};
use std::ops::Range;

/// A rule that the outliers of a tier follow.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) rule: PatternRule,
    /// Share of the predicted positions with an outlier in at least [`SHARE_OF_PASSES`] of the passes.
    pub(super) kept: f64,
    /// The predicted places.
    pub(super) places: Vec<u32>,
}

/// Shortest period.
const PERIOD_MIN: u32 = 8;
/// Minimum number of predicted positions of a rule.
const PLACES_MIN: usize = 3;
/// Smallest share of the passes with an outlier at a position that keeps a rule.
const SHARE_OF_PASSES: f64 = 0.4;
/// Smallest share of kept positions.
const KEPT_MIN: f64 = 0.5;
/// Probability of a false rule in a curve, over all periods, phases and offsets.
const CHANCE: f64 = 0.001;
/// Largest number of rules.
const RULES_MAX: usize = 4;
/// Exponents of the weights in Chernoff's bound. The best one is used, with a correction for the choice.
const TILTS: [f64; 4] = [0.4, 0.6, 0.75, 0.9];
/// Number of periods that are tried.
const TRIED: usize = 16;
/// Largest offset between n and the number that doubles.
const OFFSET_MAX: i32 = 16;

/// Returns the rules of all tiers over these places, which exclude the warm-up. Powers of two in the strictest tier are
/// tested first, so that a table that doubles is not taken for a period that coincides with it.
pub(super) fn find(hits: &Hits, range: &Range<u32>) -> Vec<Rule> {
    let mut found: Vec<Rule> = Vec::new();
    let mut suspects: Vec<Vec<u32>> = (0..TIERS.len()).map(|tier| suspects_of(hits, tier, range)).collect();
    let doubles = powers(&suspects[0], hits.first).and_then(|rule| test(hits, 0, rule, range, &suspects[0]));
    found.extend(doubles.map(|tested| tested.1));
    for _ in 0..RULES_MAX {
        let last = found.last();
        let is_left = |place: &u32| last.is_none_or(|rule| rule.places.binary_search(place).is_err());
        for suspects in &mut suspects {
            suspects.retain(is_left);
        }
        let tested = suspects.iter().enumerate().flat_map(|(tier, suspects)| {
            let rules = periods(suspects, hits.first).into_iter().chain(powers(suspects, hits.first));
            rules.filter_map(move |rule| test(hits, tier, rule, range, suspects))
        });
        let Some((_, best)) = tested.max_by(|a, b| a.0.total_cmp(&b.0)) else { break };
        found.push(best);
    }
    found
}

/// Returns the places at which [`SHARE_OF_PASSES`] of the passes have an outlier of a tier.
fn suspects_of(hits: &Hits, tier: usize, range: &Range<u32>) -> Vec<u32> {
    let mut suspects: Vec<u32> = candidates(hits, &hits.passes_with(tier, 0), SHARE_OF_PASSES);
    suspects.retain(|place| range.contains(place));
    suspects
}

/// Returns the most common distances between suspects, each with the most common phase.
fn periods(suspects: &[u32], first: u32) -> Vec<PatternRule> {
    let mut gaps: Vec<u32> = Vec::new();
    for lag in 1..=8 {
        gaps.extend(suspects.iter().zip(suspects.iter().skip(lag)).map(|(a, b)| b - a));
    }
    gaps.retain(|gap| *gap >= PERIOD_MIN);
    let of_period = |period: u32| {
        let phases = suspects.iter().map(|place| (first + place) % period).collect();
        most_common(phases, 1).first().map(|phase| PatternRule::Periodic { period, phase: *phase })
    };
    most_common(gaps, TRIED).into_iter().filter_map(of_period).collect()
}

/// Returns the offset that turns the most suspects into powers of two.
fn powers(suspects: &[u32], first: u32) -> Option<PatternRule> {
    let hits = |offset: i32| {
        let sums = suspects.iter().map(|place| i64::from(first + place) + i64::from(offset));
        sums.filter(|sum| is_power(*sum)).count()
    };
    let best = (-OFFSET_MAX..=OFFSET_MAX).max_by_key(|offset| (hits(*offset), -offset.abs()))?;
    Some(PatternRule::PowersOfTwo { offset: best })
}

/// Tests a rule. Returns the margin, in logarithms, by which it is less likely than chance allows, and the rule; `None`
/// if chance explains it.
fn test(hits: &Hits, tier: usize, rule: PatternRule, range: &Range<u32>, suspects: &[u32]) -> Option<(f64, Rule)> {
    let span = hits.calls.len() as u32;
    let places: Vec<u32> = match rule {
        PatternRule::Periodic { period, phase } => {
            let next = range.start + (phase + period - (hits.first + range.start) % period) % period;
            (next..range.end).step_by(period as usize).collect()
        }
        _ => range.clone().filter(|place| rule.holds(hits.first + place)).collect(),
    };
    let kept = suspects.iter().filter(|place| rule.holds(hits.first + **place)).count() as f64 / places.len() as f64;
    if places.len() < PLACES_MIN || kept < KEPT_MIN {
        return None;
    }
    let rest: Vec<Others> = others(hits, tier, 0, &places);
    let mut trials: Vec<(f64, bool)> = Vec::with_capacity(places.len() * rest.len());
    for place in &places {
        let is_hit = |pass: &PassHits| pass.tiers[tier].binary_search(place).is_ok();
        trials.extend(rest.iter().zip(&hits.passes).map(|(rest, pass)| (rest.rate(*place, 0), is_hit(pass))));
    }
    // Correction for the number of periods and phases that could have been found.
    let tried = 2.0 * f64::from(span).ln();
    let beyond = surprise(&trials) - tried - (1.0 / CHANCE).ln();
    (beyond > 0.0).then_some((beyond, Rule { rule, kept, places }))
}

/// Returns a lower bound on the negative logarithm of the probability of the hits (Chernoff's bound). Each trial has
/// its own rate, and a hit has more weight the rarer it is.
fn surprise(trials: &[(f64, bool)]) -> f64 {
    let bound = |tilt: f64| {
        let term = |(rate, is_hit): &(f64, bool)| {
            let weight = tilt * -rate.max(1e-9).ln();
            f64::from(u8::from(*is_hit)) * weight - (rate * weight.exp_m1()).ln_1p()
        };
        trials.iter().map(term).sum::<f64>()
    };
    TILTS.iter().map(|tilt| bound(*tilt)).fold(0.0, f64::max) - (TILTS.len() as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against an invalid bound: it must not exceed the negative logarithm of the exact probability of all hits.
    #[test]
    fn the_surprise_is_no_more_than_the_probability_allows() {
        let rare = vec![(0.01, true); 4];
        let exact = -4.0 * 0.01_f64.ln();
        assert!(surprise(&rare) <= exact && surprise(&rare) > 0.6 * exact, "{}", surprise(&rare));
        // Hits where they are common add nothing, and do not hide the rare ones.
        let mixed: Vec<(f64, bool)> = rare.iter().copied().chain(vec![(0.9, true); 4]).collect();
        assert!((surprise(&mixed) - surprise(&rare)).abs() < 1.0);
        assert!(surprise(&[(0.5, true), (0.5, false), (0.5, true)]) <= 0.5);
    }
}
