//! The crossing of two curves, with an interval from resampled passes.

use crate::common::Pair;
use crate::compare::Crossing;
use crate::polish::trimmed_mean;
use crate::quantile::quantile;
use crate::random::Random;
use crate::{Estimate, Options};

/// Smallest share of draws that must show a crossing.
const SHARE_MIN: f64 = 0.5;

/// Finds the crossing of two curves. Without draws the result is not random: it is the n at which the levels cross.
pub(crate) fn find(pair: &Pair, options: &Options) -> Option<Crossing> {
    if options.draws == 0 {
        let difference: Vec<f64> = pair.b.mean.iter().zip(&pair.a.mean).map(|(b, a)| b - a).collect();
        return place(&pair.a.n, &difference).map(|n| Crossing { n: Estimate::bare(n), share: 1.0 });
    }
    let whole = |cells: &[Vec<Option<f64>>]| (0..cells.len()).collect::<Vec<usize>>();
    let (all_a, all_b) = (whole(&pair.raw_a), whole(&pair.raw_b));
    let value = place(&pair.a.n, &difference(pair, &all_a, &all_b))?;
    let mut random = Random::new(options.seed);
    let mut drawn = Vec::new();
    for _ in 0..options.draws {
        let mut pick = |count: usize| (0..count).map(|_| random.below(count)).collect::<Vec<usize>>();
        let a = pick(all_a.len());
        // Passes that ran side by side are drawn together.
        let b = if options.paired && all_a.len() == all_b.len() { a.clone() } else { pick(all_b.len()) };
        drawn.extend(place(&pair.a.n, &difference(pair, &a, &b)));
    }
    let share = drawn.len() as f64 / options.draws as f64;
    drawn.sort_by(f64::total_cmp);
    let end = |q: f64| quantile(&drawn, q).unwrap_or(value);
    let n = Estimate { value, low: end(0.025).min(value), high: end(0.975).max(value) };
    (share >= SHARE_MIN).then_some(Crossing { n, share })
}

/// Returns `b` minus `a` at each point, over the chosen passes.
fn difference(pair: &Pair, a: &[usize], b: &[usize]) -> Vec<f64> {
    let mean = |rows: &[Vec<Option<f64>>], chosen: &[usize], j: usize| {
        let mut column: Vec<f64> = chosen.iter().filter_map(|p| rows[*p][j]).collect();
        trimmed_mean(&mut column)
    };
    let at = |j: usize| mean(&pair.raw_b, b, j).zip(mean(&pair.raw_a, a, j)).map_or(0.0, |(b, a)| b - a);
    (0..pair.a.n.len()).map(at).collect()
}

/// Returns the n at which the sign changes: the cut with the fewest points on the wrong side, interpolated between the
/// adjacent points. `None` if the difference has the same sign at both ends.
fn place(n: &[f64], difference: &[f64]) -> Option<f64> {
    let side = 3.min(n.len() / 2);
    let first: f64 = difference.iter().take(side).sum();
    let last: f64 = difference.iter().rev().take(side).sum();
    if first * last >= 0.0 {
        return None;
    }
    let wrong = |cut: usize| {
        let early = difference[..cut].iter().filter(|d| **d * first < 0.0).count();
        early + difference[cut..].iter().filter(|d| **d * last < 0.0).count()
    };
    let cut = (1..n.len()).min_by_key(|cut| wrong(*cut))?;
    let (before, after) = (difference[cut - 1], difference[cut]);
    let part = if before * after < 0.0 { before / (before - after) } else { 0.5 };
    Some((n[cut - 1].ln() * (1.0 - part) + n[cut].ln() * part).exp())
}
