//! `bench judge`: measures the processor time of judging on one thread.
//!
//! The series are synthetic, call by call, with the noise of the calibration (`landau_stats::dense`), the tags of a
//! shared machine and a canary: 18 million samples in the shape of a long study, and the curves of a quick study.
//! `bench speed` measures the rest of `landau`, reading and drawing.

use crate::program::Program;
use anyhow::Result;
use landau_stats::dense::{Noise, simulate, truths};
use landau_stats::{Curve, Options, Pass, judge};
use landau_sys::process::thread_time;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Limit for the long study, in seconds.
const LIMIT_S: f64 = 5.0;

/// A study: its curves, the passes of each, and the calls of a pass.
struct Study {
    name: &'static str,
    curves: usize,
    passes: usize,
    calls: u32,
    /// The maximum processor time for judging it.
    limit_s: Option<f64>,
}

const STUDIES: [Study; 2] = [
    Study { name: "18 million samples", curves: 90, passes: 20, calls: 10_000, limit_s: Some(LIMIT_S) },
    Study { name: "a quick study", curves: 119, passes: 5, calls: 2_000, limit_s: None },
];

/// The noise of a call, used in turn.
const CALL_NOISES: [f64; 2] = [0.05, 0.15];
/// Steps between two readings of the canary, and in a window.
const CANARY_STRIDE: u32 = 32;
const WINDOW: usize = 512;
/// One window in this many has interference.
const WINDOWS_PER_TAINTED: u32 = 20;
/// Distance between chosen truths; coprime to their number, so that all kinds occur early.
const STEP: usize = 37;

/// Arguments of `bench judge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Judge only every n-th curve, for a profile
    #[arg(long, default_value_t = 1)]
    every: usize,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    // Users run an optimised build.
    if cfg!(debug_assertions) {
        let cargo = Program::cargo().args(["run", "--quiet", "--profile", "ci", "--package", "xtask", "--"]);
        return Ok(cargo.args(["bench", "judge", "--every", &words.every.to_string()]).status()?.success());
    }
    let mut is_good = true;
    for study in &STUDIES {
        is_good &= measure(study, words.every.max(1));
    }
    Ok(is_good)
}

/// Judges the curves of a study one after the other, prints the time, and returns whether it is within the limit.
fn measure(study: &Study, every: usize) -> bool {
    let truths = truths(study.calls);
    let (mut spent_ns, mut samples, mut points) = (0, 0_usize, 0);
    for index in (0..study.curves).step_by(every) {
        let noise = Noise::of_call(CALL_NOISES[index % CALL_NOISES.len()]);
        let seed = index as u64;
        let truth = &truths[(index * STEP) % truths.len()];
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut curve = simulate(truth, &noise, study.calls, study.passes, seed);
        curve.passes.iter_mut().for_each(|pass| taint(pass, &mut random));
        let canary = canary(&curve, &mut random);
        let began = thread_time();
        let verdict = judge(&curve, Some(&canary), &Options::default());
        spent_ns += thread_time().since(began).total_ns();
        samples += verdict.calls;
        // The compiler might remove a computation whose result is not used.
        points += verdict.all.points.len();
    }
    let spent_s = spent_ns as f64 / 1e9;
    let is_good = study.limit_s.is_none_or(|limit| spent_s <= limit);
    let limit = study.limit_s.map_or(String::new(), |limit| format!(" (at most {limit:.0} s)"));
    println!(
        "{} {}: {} curves, {:.1} million samples, {points} points: {spent_s:.2} s of processor time{limit}, {:.0} ns \
         a sample, {:.1} ms a curve",
        if is_good { "ok  " } else { "FAIL" },
        study.name,
        study.curves.div_ceil(every),
        samples as f64 / 1e6,
        spent_ns as f64 / samples.max(1) as f64,
        1e3 * spent_s / study.curves.div_ceil(every) as f64,
    );
    is_good
}

/// Tags the calls of some windows as not clean.
fn taint(pass: &mut Pass, random: &mut ChaCha8Rng) {
    for window in pass.clean.chunks_mut(WINDOW) {
        if random.next_u32().is_multiple_of(WINDOWS_PER_TAINTED) {
            window.fill(false);
        }
    }
}

/// Returns a constant canary for a curve.
fn canary(curve: &Curve, random: &mut ChaCha8Rng) -> Curve {
    let of_pass = |pass: &Pass| {
        let n: Vec<u32> = pass.n.iter().copied().filter(|n| n.is_multiple_of(CANARY_STRIDE)).collect();
        let costs = n.iter().map(|_| 150 + u64::from(random.next_u32() % 8)).collect();
        Pass { clean: vec![true; n.len()], costs, n }
    };
    Curve { passes: curve.passes.iter().map(of_pass).collect(), annotations: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a study that does not match its name.
    #[test]
    fn the_long_study_has_18_million_samples_of_all_kinds() {
        let long = &STUDIES[0];
        assert_eq!(long.curves * long.passes * long.calls as usize, 18_000_000);
        let truths = truths(long.calls);
        let met: std::collections::BTreeSet<&str> =
            (0..long.curves).map(|index| truths[(index * STEP) % truths.len()].group).collect();
        let all: std::collections::BTreeSet<&str> = truths.iter().map(|truth| truth.group).collect();
        assert_eq!(met, all);
    }
}
