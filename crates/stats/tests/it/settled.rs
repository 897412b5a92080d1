//! Verdicts on dense series with the noise of real hosts: one test for each way in which they used to be wrong.

use landau_stats::claim::{Answer, Evidence, Subject};
use landau_stats::confusion::{Plan, Score, Tally, score, tally};
use landau_stats::dense::{self, Cost, Expected, Noise, Truth, simulate, truths};
use landau_stats::{Judgement, Options, Outcome, Unit, judge};

const TRIALS: usize = 12;

fn truth(calls: u32, group: &str, detail: &str) -> Truth {
    let found = truths(calls).into_iter().find(|truth| truth.group == group && truth.detail == detail);
    found.unwrap_or_else(|| panic!("there is no {group} {detail}"))
}

fn judged(calls: u32, noise: f64, group: &str, detail: &str) -> Tally {
    let plan = Plan { trials: TRIALS, seed: 9_000_000, passes: 5, more_passes: 0 };
    tally(&truth(calls, group, detail), &Noise::of_call(noise), calls, &plan)
}

/// Guards against reporting warm-up as a fall or growth: before cold calls were dropped, 90% of these verdicts were
/// wrong.
#[test]
fn cold_calls_do_not_change_a_verdict() {
    for calls in [2_000, 10_000] {
        let found = judged(calls, 0.05, "constant", "");
        assert!(found.share(Score::Wrong) < 0.01 && found.good() >= 0.8, "{calls}: {found:?}");
    }
}

/// Guards against a growth other than that of the ends. A comparison of three points with three gave ×35 where ×54.7 is
/// true, with an interval that contained the truth in 1 to 8% of the cases.
#[test]
fn growth_is_that_of_the_ends() {
    let found = judged(10_000, 0.05, "linear", "×7");
    assert!(found.coverage() >= 0.7 && found.share(Score::Wrong) < 0.01, "{found:?}");
    let curve = simulate(&truth(10_000, "linear", "×50"), &Noise::of_call(0.05), 10_000, 5, 3);
    let judged = judge(&curve, None, &Options::default()).all;
    let (first, last) = judged.range.unwrap();
    let true_growth = (1.0 + 0.0049 * last) / (1.0 + 0.0049 * first);
    assert!((judged.growth.unwrap().value / true_growth - 1.0).abs() < 0.05, "{:?}, not {true_growth}", judged.growth);
}

/// Guards against reporting late jumps as poles, and early ones as no law.
#[test]
fn steps_are_found_early_and_late() {
    for detail in ["×1.3 at 500", "×1.3 at 8000", "×2 at 9000"] {
        let found = judged(10_000, 0.05, "step", detail);
        assert!(found.good() >= 0.9, "{detail}: {found:?}");
    }
}

/// Guards against reporting that a cost varies by no law because it jumps within the first two windows of the judged
/// range: one point before the jump is no level.
#[test]
fn a_jump_near_the_start_is_no_shape_of_the_curve() {
    for (calls, at) in [(2_000, 172.0), (2_000, 218.0), (10_000, 356.0), (10_000, 393.0)] {
        let step = move |n: f64| if n < at { 1.0 } else { 1.7 };
        let truth = dense::truth("step", String::new(), Expected::Law("step"), step);
        let plan = Plan { trials: 2 * TRIALS, seed: 9_200_000, passes: 5, more_passes: 0 };
        let found = tally(&truth, &Noise::of_call(0.15), calls, &plan);
        assert!(found.share(Score::Wrong) < 0.05 && found.good() >= 0.9, "{at} of {calls}: {found:?}");
    }
}

/// Guards against taking a state of the machine that lasts to the end of a pass for a drift: in one of ten quick
/// studies, calls of `fork` took four times as long from n = 628 on in one of 14 passes, and the cost was said to grow
/// by 20%.
#[test]
fn one_slow_half_of_a_pass_is_no_growth() {
    for (passes, from) in [(5, 0.55), (9, 0.6), (14, 0.65)] {
        let mut certain = 0;
        for seed in 0..TRIALS as u64 {
            let mut curve = simulate(&truth(2_000, "constant", ""), &Noise::of_call(0.05), 2_000, passes, 700 + seed);
            let slow = &mut curve.passes[passes / 2];
            let calls = slow.n.iter().zip(&mut slow.costs);
            calls.filter(|(n, _)| f64::from(**n) > from * 2_000.0).for_each(|(_, cost)| *cost *= 4);
            let judged = judge(&curve, None, &Options::default()).all;
            let is_wrong = matches!(judged.outcome, Outcome::Grows { .. } | Outcome::Falls | Outcome::Varies);
            assert!(!is_wrong, "{passes} {seed}: {judged:?}");
            certain += u32::from(matches!(judged.outcome, Outcome::Flat { .. } | Outcome::Small));
        }
        assert!(certain >= 10, "{passes}: {certain}");
    }
}

/// Guards against leaving out a level to which a step can be fitted. Where a second step follows, no law fits.
#[test]
fn two_points_before_a_jump_are_a_level() {
    // The first two windows of the judged range are 313 to 381 and 381 to 464.
    let steps = |n: f64| {
        if n < 464.0 {
            1.0
        } else if n < 5_000.0 {
            1.4
        } else {
            2.0
        }
    };
    let truth = dense::truth("two steps", String::new(), Expected::NoLaw, steps);
    for noise in [0.05, 0.15] {
        let plan = Plan { trials: 2 * TRIALS, seed: 9_300_000, passes: 5, more_passes: 0 };
        let found = tally(&truth, &Noise::of_call(noise), 10_000, &plan);
        assert!(found.good() >= 0.9, "{noise}: {found:?}");
    }
}

/// Guards against a jump that the verdict leaves out without a word, and against a claim of O(1) that passes then.
#[test]
fn a_jump_before_the_judged_range_is_stated() {
    let step = |n: f64| if n < 393.0 { 1.0 } else { 1.7 };
    let truth = dense::truth("step", String::new(), Expected::Law("step"), step);
    let options = Options::default();
    let mut stated = 0;
    for seed in 0..20 {
        let curve = simulate(&truth, &Noise::of_call(0.05), 10_000, 5, seed);
        let verdict = judge(&curve, None, &options);
        let subject = Subject { curve: &curve, canary: None, verdict: &verdict, options: &options };
        let decision = subject.constant(0.1, None);
        assert_eq!(decision.answer, Answer::Fail, "{seed}: {:?}", verdict.all);
        let is_stated = verdict.all.jump_before.is_some_and(|jump| (1.5..1.9).contains(&jump));
        // The jump is not the growth of the judged range, and has no interval.
        assert!(!is_stated || matches!(decision.evidence, Evidence::Jump { .. }), "{decision:?}");
        stated += usize::from(is_stated);
    }
    assert!(stated >= 16, "{stated} of 20");
}

/// Guards against a cost at small n from beyond a cliff below n = 500, and against missing a jump to three times the
/// cost.
#[test]
fn cliffs_are_found_early_and_late() {
    for detail in ["×10 at 50", "×3 at 300", "×100 at 9000"] {
        let found = judged(10_000, 0.05, "cliff", detail);
        assert!(found.good() >= 0.9 && found.false_cliffs == 0, "{detail}: {found:?}");
    }
    let curve = simulate(&truth(10_000, "cliff", "×10 at 300"), &Noise::of_call(0.05), 10_000, 5, 1);
    let cliff = judge(&curve, None, &Options::default()).all.cliffs[0].clone();
    assert!(cliff.factor_over_start > 5.0, "{cliff:?}");
    let curve = simulate(&truth(10_000, "cliff", "×100 at 9000"), &Noise::of_call(0.05), 10_000, 5, 1);
    let judged = judge(&curve, None, &Options::default()).all;
    let (cliff, start) = (&judged.cliffs[0], judged.start.unwrap().value);
    // The cost at small n must be one number; two different ones used to be reported.
    assert!((cliff.factor_over_start * start / cliff.cost_after - 1.0).abs() < 1e-12, "{cliff:?}, {start}");
}

/// Guards against reporting n√n as two slopes without a rival.
#[test]
fn a_power_between_linear_and_quadratic_is_named() {
    let found = judged(10_000, 0.05, "power", "×7");
    assert!(found.good() >= 0.9, "{found:?}");
}

/// Guards against reporting true laws as no law, which happened in 7 to 18% of the cases.
#[test]
fn true_laws_are_not_refuted() {
    for (group, detail) in
        [("linear", "×2"), ("root", "×7"), ("logarithmic", "×7"), ("knee", "×7"), ("quadratic", "×50")]
    {
        let found = judged(10_000, 0.15, group, detail);
        assert!(found.good() + found.share(Score::Alike) >= 0.9, "{group}: {found:?}");
    }
}

/// Guards against reporting mixtures as no law, as growth or as cliffs. This happened in 4% of the cases, and 17% were
/// not resolved; a false cliff hid the branches.
#[test]
fn branches_are_judged_apart() {
    for (calls, detail) in [
        (10_000, "×2, share 0.4, dwell 50"),
        (10_000, "×3, share 0.4, dwell 300"),
        (10_000, "×1.3, share 0.4, dwell 300"),
        (2_000, "×10, share 0.1, dwell 20"),
    ] {
        let found = judged(calls, 0.05, "mixture", detail);
        assert!(found.share(Score::Wrong) < 0.01 && found.false_cliffs == 0, "{detail}: {found:?}");
    }
    // If the share is known, the outcome is that of the branches.
    for detail in ["×2, share 0.4, dwell 50", "×1.3, share 0.4, dwell 300"] {
        let found = judged(10_000, 0.05, "mixture", detail);
        assert!(found.good() >= 0.8, "{detail}: {found:?}");
    }
    let curve = simulate(&truth(10_000, "mixture", "share grows, dwell 50"), &Noise::of_call(0.05), 10_000, 5, 1);
    let verdict = judge(&curve, None, &Options::default());
    assert_eq!(verdict.all.outcome, Outcome::Grows { law: None });
    let shares = verdict.bimodality.unwrap().high_share.unwrap();
    assert!(shares.change.low > 0.2 && shares.first.value < 0.35 && shares.last.value > 0.55, "{shares:?}");
}

/// Guards against missing a law or a cliff that both branches have, and against reporting the law of one as that of
/// both.
#[test]
fn branches_keep_laws_and_cliffs() {
    for detail in ["both linear, dwell 100", "×2 with a cliff, dwell 100", "×1.5 with a cliff, dwell 100"] {
        let found = judged(10_000, 0.05, "mixture", detail);
        assert!(found.good() >= 0.9 && found.false_cliffs == 0, "{detail}: {found:?}");
    }
    for detail in ["one branch linear, dwell 100", "O(1) or O(n), dwell 5"] {
        let found = judged(10_000, 0.05, "mixture", detail);
        assert!(found.share(Score::Right) >= 0.9, "{detail}: {found:?}");
    }
}

/// Guards against outcomes that further passes revoke.
#[test]
fn more_passes_do_not_make_a_verdict_wrong() {
    let plan = Plan { trials: 8, seed: 9_000_000, passes: 5, more_passes: 4 };
    for (group, detail) in [("rise within the margin", "linear +6%"), ("rise beyond the margin", "linear +12%")] {
        let found = tally(&truth(10_000, group, detail), &Noise::of_call(0.05), 10_000, &plan);
        assert_eq!(found.turned, 0, "{group}: {found:?}");
        assert!(found.share(Score::Wrong) < 0.01, "{group}: {found:?}");
    }
}

/// Asserts that the verdict on each series is true. A series is given by its length, its noise, the truth (group and
/// detail), and its seed.
fn assert_true(series: &[(u32, f64, &str, &str, u64)]) {
    let options = Options::default();
    for (calls, noise, group, detail, seed) in series {
        let truth = truth(*calls, group, detail);
        let judged = judge(&simulate(&truth, &Noise::of_call(*noise), *calls, 5, *seed), None, &options).all;
        let (found, said) = score(&truth, &judged, &options);
        assert!(matches!(found, Score::Right | Score::Named), "{group} {detail}, {calls}, {noise}, {seed}: {said}");
    }
}

/// Guards against reporting a warm-up on the way down, of the first calls at the largest n, as a cliff.
#[test]
fn a_warm_up_on_the_way_down_is_not_a_cliff() {
    assert_true(&[
        (2_000, 0.15, "step", "×1.3 at 1800", 172_000_596),
        (2_000, 0.15, "step", "×2 at 1800", 174_000_600),
        (10_000, 0.05, "occupancy", "×2", 295_000_964),
        (10_000, 0.05, "occupancy", "×7", 297_000_968),
        (10_000, 0.15, "probing", "×2", 302_000_984),
        (10_000, 0.05, "probing", "×50", 305_000_996),
    ]);
}

/// Guards against cliffs among cold calls that are dropped with them, misplaced, or reported with a factor that
/// includes the warm-up.
#[test]
fn cliffs_are_found_among_cold_calls() {
    assert_true(&[
        (2_000, 0.05, "cliff", "×3 at 1800", 175_000_604),
        (2_000, 0.15, "cliff", "×3 at 1800", 176_000_608),
        (2_000, 0.05, "cliff", "×10 at 1800", 177_000_608),
        (2_000, 0.15, "cliff", "×10 at 1800", 178_000_612),
        (2_000, 0.15, "cliff", "×100 at 1800", 180_000_620),
        (10_000, 0.05, "cliff", "×3 at 50", 319_001_034),
        (10_000, 0.15, "cliff", "×3 at 50", 320_001_038),
    ]);
}

/// Guards against a factor that is reduced by a warm-up which ends at the cliff: ×39 where ×100 is true.
#[test]
fn the_factor_of_a_cliff_is_not_that_over_cold_calls() {
    assert_true(&[
        (2_000, 0.05, "cliff", "×100 at 50", 119_002_386),
        (2_000, 0.15, "cliff", "×100 at 50", 120_002_390),
        (10_000, 0.15, "cliff", "×10 at 50", 348_003_074),
    ]);
}

/// Guards against reporting a fall because of a warm-up of a curve without a law, which first rises and then falls by
/// as much.
#[test]
fn a_warm_up_under_a_rise_makes_no_fall() {
    assert_true(&[(2_000, 0.05, "outside", "hump", 181_002_569), (2_000, 0.15, "outside", "hump", 182_002_575)]);
}

/// Guards against taking a true fall for a warm-up and dropping it with the first calls.
#[test]
fn a_true_fall_is_not_a_warm_up() {
    let plan = Plan { trials: TRIALS, seed: 9_000_000, passes: 5, more_passes: 0 };
    for calls in [2_000, 10_000] {
        let last = f64::from(calls);
        let falls: [(&str, Cost); 3] = [
            ("sigmoid", Box::new(move |n| 1.0 + 2.0 / (1.0 + (n / (0.3 * last)).powi(6)))),
            ("decay", Box::new(move |n| 1.0 + (-n / (0.2 * last)).exp())),
            ("step", Box::new(move |n| if n < 0.5 * last { 2.0 } else { 1.0 })),
        ];
        for (detail, shape) in falls {
            let fall = dense::truth("fall", detail.to_owned(), Expected::NoLaw, shape);
            let found = tally(&fall, &Noise::of_call(0.05), calls, &plan);
            assert!(found.share(Score::Right) >= 0.9, "{detail}, {calls}: {found:?}");
        }
    }
}

/// Guards against counting a cliff among cold calls as missed if the verdict says nothing about those calls, and
/// against not counting it if the verdict does.
#[test]
fn nothing_false_is_said_of_calls_that_are_not_judged() {
    let (truth, options) = (truth(10_000, "cliff", "×3 at 50"), Options::default());
    let flat = |first: f64| Judgement {
        outcome: Outcome::Flat { within: 0.1 },
        range: Some((first, 9_800.0)),
        ..Judgement::empty(Unit::Time)
    };
    assert_eq!(score(&truth, &flat(346.0), &options).0, Score::Alike);
    assert_eq!(score(&truth, &flat(20.0), &options).0, Score::Wrong);
    assert_eq!(score(&truth, &Judgement::empty(Unit::Time), &options).0, Score::Open);
}

/// Guards against dropping cold calls twice, which left a clear law with too few points.
#[test]
fn dropped_calls_leave_a_range_to_judge() {
    assert_true(&[
        (2_000, 0.05, "linear", "×2", 61_000_261),
        (2_000, 0.15, "probing", "×7", 100_000_377),
        (2_000, 0.05, "step", "×1.3 at 300", 121_000_442),
        (2_000, 0.05, "outside", "hump", 181_000_625),
    ]);
}

/// Guards against missing smooth misfits in the noise of single points, and against leaving out a first step as a
/// burst.
#[test]
fn smooth_misfits_refute_a_law() {
    assert_true(&[
        (2_000, 0.05, "outside", "power and pole", 189_000_648),
        (2_000, 0.05, "outside", "two steps", 185_000_634),
        (2_000, 0.15, "outside", "two steps", 186_000_635),
        (2_000, 0.15, "outside", "two steps", 186_000_638),
    ]);
}

/// Guards against taking drift of the machine for evidence: the true law was then not even among the rivals.
#[test]
fn drift_is_no_evidence_against_a_law() {
    assert_true(&[
        (2_000, 0.05, "linearithmic", "×2", 69_000_289),
        (2_000, 0.05, "linear", "×2", 61_000_264),
        (2_000, 0.15, "occupancy", "×2", 92_000_356),
        (10_000, 0.15, "power", "×1.3", 280_000_921),
        (10_000, 0.05, "linear", "×1.3", 263_000_871),
        (10_000, 0.05, "quadratic", "×1.3", 287_000_943),
    ]);
}

/// Returns noise of calls and passes only.
fn calm(call: f64) -> Noise {
    Noise { call, cell: 0.0, pass: 0.03, drift: 0.0, warm_up: false, bursts: 0.0 }
}

/// Returns a linear cost, ×3.5 over 10,000 calls.
fn linear() -> Truth {
    dense::truth("linear", String::new(), Expected::Law("linear"), |n| 1.0 + 2.5 * n / 10_000.0)
}

/// Guards against taking passes that drift against the others for episodes at both ends. The growth was then that of
/// the others, and as certain as if all passes agreed.
#[test]
fn a_pass_that_drifts_against_the_others_counts() {
    for seed in [1, 2, 3, 4] {
        let mut curve = simulate(&linear(), &calm(0.05), 10_000, 5, seed);
        for (pass, slope) in curve.passes.iter_mut().zip([0.085, 0.07, 0.15, -0.05, 0.09]) {
            for (n, cost) in pass.n.iter().zip(&mut pass.costs) {
                *cost = (*cost as f64 * (slope * (f64::from(*n) / 10_000.0 - 0.5)).exp()) as u64;
            }
        }
        let judged = judge(&curve, None, &Options::default()).all;
        let drift = judged.components.unwrap().drift;
        assert!(drift > 0.05, "{drift}");
        assert!(matches!(&judged.outcome, Outcome::Grows { law: Some(law) } if law == "linear"), "{judged:?}");
    }
}

/// Guards against a growth without any error: a law without a fixed cost has the same growth whatever its slope.
#[test]
fn the_growth_of_a_proportional_cost_is_not_certain() {
    let truth = dense::truth("logarithmic", String::new(), Expected::Law("logarithmic"), f64::ln);
    for seed in 1..=20 {
        let judged = judge(&simulate(&truth, &Noise::of_call(0.05), 2_000, 5, seed), None, &Options::default()).all;
        let growth = judged.growth.unwrap();
        assert!(growth.high / growth.low > 1.005, "{seed}: {growth:?}, {:?}", judged.fit);
    }
}

/// Guards against naming only laws with a fitted location as the three rivals, although they merely imitate another
/// law.
#[test]
fn a_slight_rise_names_its_law() {
    let truth = dense::truth("linear", String::new(), Expected::Law("linear"), |n| 1.0 + 0.22 * n / 2_000.0);
    for noise in [0.05, 0.15] {
        let plan = Plan { trials: 60, seed: 9_100_000, passes: 5, more_passes: 0 };
        let found = tally(&truth, &Noise::of_call(noise), 2_000, &plan);
        assert!(found.share(Score::Alike) < 0.03 && found.share(Score::Wrong) < 0.01, "{noise}: {found:?}");
    }
}

/// Guards against not reporting a step down as a fall: no law falls, and the ends alone hardly show it.
#[test]
fn a_step_down_falls() {
    let down = |at: f64| move |n: f64| if n < at { 1.0 } else { 0.8 };
    for at in [1_500.0, 1_700.0] {
        let truth = dense::truth("step down", String::new(), Expected::NoLaw, down(at));
        let falls = |seed: &u64| {
            let curve = simulate(&truth, &Noise { drift: 0.1, ..Noise::of_call(0.15) }, 2_000, 5, *seed);
            judge(&curve, None, &Options::default()).all.outcome == Outcome::Falls
        };
        let count = (1..=40).filter(falls).count();
        assert!(count >= 36, "at {at}: {count} of 40");
    }
}

/// Guards against taking bursts for a branch that single calls take: bursts fill a few stretches and no others.
#[test]
fn bursts_are_no_branch() {
    for seed in [1, 2, 3] {
        let truth = dense::truth("constant", String::new(), Expected::Law("constant"), |_| 1.0);
        let mut curve = simulate(&truth, &calm(0.05), 2_000, 5, seed);
        for (pass, from) in curve.passes.iter_mut().zip([300, 900, 1_300]) {
            for (i, cost) in pass.costs.iter_mut().enumerate().skip(from).take(350) {
                *cost *= if 7 * i % 10 < 4 { 2 } else { 1 };
            }
        }
        let verdict = judge(&curve, None, &Options::default());
        assert!(verdict.bimodality.is_none(), "{:?}", verdict.bimodality);
        assert!(matches!(verdict.all.outcome, Outcome::Flat { .. }), "{:?}", verdict.all.outcome);
    }
}

/// Guards against taking the last calls below a pole for outliers: there is no block beyond them to compare with.
#[test]
fn the_climb_to_a_pole_has_no_outliers() {
    let truth = dense::truth("probing", String::new(), Expected::Law("probing"), |n| (1.0 - n / 2_100.0).powi(-2));
    for seed in [1, 2, 3, 5] {
        let verdict = judge(&simulate(&truth, &calm(0.05), 2_000, 5, seed), None, &Options::default());
        assert_eq!(verdict.outliers.recurring_count, 0, "{:?}", verdict.outliers.recurring);
    }
}
