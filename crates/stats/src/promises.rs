//! Measures whether "about k more passes" is true. On truths near the margin, exactly k passes are added, and the curve
//! is judged again.
//!
//! A promise is kept if the curve is then resolved. It is useful if it is not much larger than the number of passes
//! from which the curve stays resolved.

use crate::confusion::judged;
use crate::dense::{Noise, Truth, simulate, truths};
use crate::{Class, Curve, Options, Outcome, Reason};

/// Number of passes before the promise: as in a quick study.
const PASSES: usize = 5;
/// Numbers of further passes after which the curves are judged again, to find the number that was needed.
const LOOKS: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25];
/// Noise of a call.
const CALL_NOISES: [f64; 2] = [0.05, 0.15];
/// Lengths of the series.
const LENGTHS: [u32; 2] = [1_000, 2_000];

/// The promises on curves near the margin.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Number of series whose passes differ too much after five passes.
    pub open: usize,
    /// The promises, each with the number of further passes from which the curve stayed resolved; `None` if it did not
    /// within 25.
    pub made: Vec<(usize, Option<usize>)>,
    /// Number of promises after whose passes the curve was resolved.
    pub kept: usize,
}

impl Promises {
    /// Returns the share of the promises that were kept.
    pub fn share_kept(&self) -> f64 {
        self.kept as f64 / self.made.len().max(1) as f64
    }

    /// Returns the median promise, and the median number of passes that were needed. `None` without promises.
    pub fn medians(&self) -> Option<(usize, usize)> {
        let middle = |mut all: Vec<usize>| {
            all.sort_unstable();
            all.get(all.len().checked_sub(1)? / 2).copied()
        };
        let promised = self.made.iter().map(|one| one.0).collect();
        let needed = self.made.iter().map(|one| one.1.unwrap_or(usize::MAX)).collect();
        Some((middle(promised)?, middle(needed)?))
    }
}

/// Judges `trials` series of every truth near the margin, at each noise and length, and adds the promised passes.
pub fn promises(trials: usize, seed: u64) -> Promises {
    let mut all = Promises::default();
    for calls in LENGTHS {
        let near = truths(calls).into_iter().filter(|truth| truth.group.ends_with("the margin"));
        for (number, truth) in near.enumerate() {
            for noise in CALL_NOISES {
                for trial in 0..trials {
                    let seed = seed.wrapping_add(1_000_003 * number as u64).wrapping_add(trial as u64);
                    one(&truth, &Noise::of_call(noise), calls, seed, &mut all);
                }
            }
        }
    }
    all
}

/// Judges one series, and counts whether its promise is kept.
fn one(truth: &Truth, noise: &Noise, calls: u32, seed: u64, all: &mut Promises) {
    let first = judged(&simulate(truth, noise, calls, PASSES, seed), &Options::default());
    let Outcome::Unresolved { reason: Reason::TooNoisy, more_passes } = first.outcome else { return };
    all.open += 1;
    let Some(promise) = more_passes else { return };
    let promise = promise as usize;
    // A series with fewer passes is the beginning of one with more passes.
    let most = LOOKS[LOOKS.len() - 1].max(promise);
    let every = simulate(truth, noise, calls, PASSES + most, seed);
    let is_resolved = |more: usize| {
        let passes = every.passes[..PASSES + more].to_vec();
        judged(&Curve { passes, annotations: Vec::new() }, &Options::default()).class() != Class::Unresolved
    };
    all.kept += usize::from(is_resolved(promise));
    // One of many looks may be resolved by chance.
    let stays = LOOKS.iter().rev().take_while(|more| is_resolved(**more)).count();
    all.made.push((promise, LOOKS.get(LOOKS.len() - stays).copied()));
}
