//! Extrapolations from costs that hardly change.

use landau_stats::dense::{Noise, simulate, truths};
use landau_stats::{Class, Options, judge};

/// Guards against extrapolating a flat cost as flat: a rise of 6% over the judged range is flat within 10%, but if it
/// is linear, it becomes a rise of 60% at ten times n.
#[test]
fn the_cost_at_ten_times_n_is_at_most_the_bound() {
    let calls = 2_000;
    let (mut told, mut held, mut beyond_interval_of_the_end) = (0, 0, 0);
    for truth in truths(calls).iter().filter(|truth| truth.group.contains("margin") || truth.group == "constant") {
        for seed in 0..12 {
            let judged = judge(&simulate(truth, &Noise::of_call(0.05), calls, 5, seed), None, &Options::default()).all;
            let (Class::Flat | Class::Small, Some(at), Some(end)) = (judged.class(), judged.at_ten_times, judged.end)
            else {
                continue;
            };
            // Errors that the passes share are not part of the truth, so costs are relative to the end.
            let (_, last) = judged.range.unwrap();
            let truth_at_ten = end.value * truth.at(10.0 * last) / truth.at(last);
            assert!(at.low <= at.value && at.value <= at.high);
            told += 1;
            held += usize::from(truth_at_ten <= at.high);
            beyond_interval_of_the_end += usize::from(truth_at_ten > end.high);
        }
    }
    println!("{told} told, {held} within the bound, {beyond_interval_of_the_end} beyond the interval of the end");
    assert!(told > 100 && held * 100 >= told * 95, "{held} of {told}");
}

/// Guards against a flat verdict without a bound, and against an extrapolation beyond a cliff.
#[test]
fn every_flat_verdict_without_a_cliff_has_a_bound() {
    for truth in truths(2_000).iter().filter(|truth| ["constant", "cliff"].contains(&truth.group)) {
        let judged = judge(&simulate(truth, &Noise::of_call(0.05), 2_000, 5, 3), None, &Options::default()).all;
        let is_bounded = judged.at_ten_times.is_some();
        let is_expected = matches!(judged.class(), Class::Flat | Class::Small);
        assert_eq!(is_bounded, is_expected, "{truth:?}: {:?}", judged.outcome);
    }
}

/// Every judged curve has components of variance, and the largest one is the one that was simulated.
#[test]
fn the_components_are_those_that_were_simulated() {
    let truth = &truths(2_000)[0];
    let quiet = Noise { call: 0.02, cell: 0.002, pass: 0.002, drift: 0.0, warm_up: false, bursts: 0.0 };
    let of = |noise: &Noise| {
        let mean = |f: &dyn Fn(landau_stats::Components) -> f64| {
            let one = |seed| judge(&simulate(truth, noise, 2_000, 9, seed), None, &Options::default()).all.components;
            (0..8).map(|seed| f(one(seed).unwrap())).sum::<f64>() / 8.0
        };
        [mean(&|c| c.call), mean(&|c| c.window), mean(&|c| c.pass), mean(&|c| c.drift), mean(&|c| c.share_of_calls)]
    };
    let base = of(&quiet);
    let calls = of(&Noise { call: 0.20, ..quiet });
    let passes = of(&Noise { pass: 0.10, ..quiet });
    let drift = of(&Noise { drift: 0.20, ..quiet });
    println!("{base:.3?} {calls:.3?} {passes:.3?} {drift:.3?}");
    assert!((0.015..0.025).contains(&base[0]) && (0.16..0.24).contains(&calls[0]), "{base:?} {calls:?}");
    assert!(base[2] < 0.01 && (0.06..0.14).contains(&passes[2]), "{base:?} {passes:?}");
    assert!(drift[3] > 3.0 * base[3], "{base:?} {drift:?}");
    assert!(calls[4] > 0.5 && drift[4] < 0.2, "{calls:?} {drift:?}");
}
