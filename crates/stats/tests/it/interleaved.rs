//! The reason why `landau run --against` alternates between the passes of both sides. On a machine that drifts, two
//! runs one after the other either show a difference between equals or miss small differences.

use landau_stats::dense::{Noise, simulate, truths};
use landau_stats::{Change, Curve, Options, compare};

/// Number of rounds of a run: that of the passes of a case in the full study.
const ROUNDS: usize = 9;
const CALLS: u32 = 2_000;
const TRIALS: u64 = 20;

/// From one pass to the next the machine becomes 0.8% slower, and in addition changes by up to 0.7% at random.
const DRIFT: f64 = 0.008;
const WALK: f64 = 0.007;

/// Returns the speed of the machine at each pass of a trial, as a factor of the costs.
fn machine(trial: u64) -> Vec<f64> {
    let mut state = trial.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut level = 0.0;
    let mut next = || {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let uniform = (state >> 11) as f64 / (1_u64 << 53) as f64;
        level += DRIFT + WALK * (2.0 * uniform - 1.0);
        f64::exp(level)
    };
    (0..2 * ROUNDS).map(|_| next()).collect()
}

/// Returns the passes of one side: the cost of the call, times the factor of the side, times that of the machine at
/// each pass.
fn side(seed: u64, factor: f64, machine: &[f64]) -> Curve {
    // Cold calls are a property of the benchmark and depend on the seed; with them the two sides would differ.
    let noise = Noise { pass: 0.005, drift: 0.01, warm_up: false, ..Noise::of_call(0.05) };
    let mut curve = simulate(&truths(CALLS)[0], &noise, CALLS, ROUNDS, seed);
    for (pass, level) in curve.passes.iter_mut().zip(machine) {
        pass.costs.iter_mut().for_each(|cost| *cost = (*cost as f64 * factor * level).round() as u64);
    }
    curve
}

/// Returns both sides of a trial in two orders: in turn, with rounds that alternately begin with either side, and one
/// after the other.
fn trial(trial: u64, factor: f64) -> [(Curve, Curve); 2] {
    let machine = machine(trial);
    let first = |round: usize| usize::from(round.is_multiple_of(2) == trial.is_multiple_of(2));
    let of = |is_new: usize| -> Vec<f64> {
        (0..ROUNDS).map(|round| machine[2 * round + usize::from(first(round) == is_new)]).collect()
    };
    // These seeds measure on the way up.
    let (base, new) = (8 * trial + 1, 8 * trial + 2);
    [
        (side(base, 1.0, &of(0)), side(new, factor, &of(1))),
        (side(base, 1.0, &machine[..ROUNDS]), side(new, factor, &machine[ROUNDS..])),
    ]
}

/// Counts, of 20 trials, equal sides that are reported as different, and sides 3% apart that are reported to differ in
/// the right direction.
#[test]
fn pairs_find_what_separate_runs_cannot_on_a_drifting_machine() {
    let paired = Options { paired: true, ..Options::default() };
    let plain = Options { between_runs: 0.0, ..Options::default() };
    let mut rows = Vec::new();
    for (name, order, options) in [
        ("in turn, paired by round", 0, paired),
        ("one after the other, passes only", 1, plain),
        ("one after the other, with the variation between runs", 1, Options::default()),
    ] {
        let change = |number: u64, factor: f64| {
            let (base, new) = &trial(number, factor)[order];
            compare(base, new, &options).change
        };
        let winners = (0..TRIALS).filter(|&number| change(number, 1.0) != Change::NoDifferenceProven).count();
        let found = (0..TRIALS).filter(|&number| change(number, 0.97) == Change::Faster).count();
        println!("{name}: equal sides differ in {winners} of {TRIALS}, 3% less is found in {found}");
        rows.push((winners, found));
    }
    let [turns, plain, between] = [rows[0], rows[1], rows[2]];
    assert!(turns.0 <= 1 && turns.1 >= 19, "{rows:?}");
    assert!(plain.0 >= 15, "the drift is taken for a difference: {rows:?}");
    assert!(between.0 <= 1 && between.1 <= 2, "{rows:?}");
}
