//! Decisions about claims on simulated curves with planted effects. True claims pass, claims that a planted effect
//! contradicts fail, and claims that the passes do not decide are inconclusive.

use crate::comparisons::side_by_side;
use landau_stats::claim::{Answer, Decision, Evidence, LOGARITHM, Side, Subject, compares, cost_at};
use landau_stats::dense::{Noise, Truth, simulate, truths};
use landau_stats::{Curve, Estimate, Options, Pass, Reason, Unit, Verdict, judge};

const CALLS: u32 = 10_000;

/// Simulates five passes of 10,000 calls with the noise of a shared machine.
fn curve(truth: &Truth, seed: u64) -> Curve {
    simulate(truth, &Noise::of_call(0.05), CALLS, 5, seed)
}

fn truth(group: &str, detail: &str) -> Truth {
    let found = truths(CALLS).into_iter().find(|truth| truth.group == group && truth.detail == detail);
    found.unwrap_or_else(|| panic!("no truth {group} {detail}"))
}

fn decided(curve: &Curve, options: &Options, decide: impl Fn(&Subject<'_>) -> Decision) -> Decision {
    let verdict = judge(curve, None, options);
    decide(&Subject { curve, canary: None, verdict: &verdict, options })
}

fn timed(curve: &Curve, decide: impl Fn(&Subject<'_>) -> Decision) -> Decision {
    decided(curve, &Options::default(), decide)
}

/// Returns twenty curves of a truth with their verdicts.
fn judged(truth: &Truth) -> Vec<(Curve, Verdict)> {
    let of = |seed| {
        let curve = curve(truth, seed);
        let verdict = judge(&curve, None, &Options::default());
        (curve, verdict)
    };
    (0..20).map(of).collect()
}

/// Returns how many of the curves pass, are inconclusive, and fail.
fn tally(curves: &[(Curve, Verdict)], decide: impl Fn(&Subject<'_>) -> Decision) -> [usize; 3] {
    let options = Options::default();
    let mut counts = [0; 3];
    for (curve, verdict) in curves {
        let decision = decide(&Subject { curve, canary: None, verdict, options: &options });
        counts[decision.answer as usize] += 1;
    }
    counts
}

/// Checks the figures of METHODOLOGY.md: of 20 simulated curves, none gets a wrong answer, and nearly all get an
/// answer.
#[test]
fn planted_effects_fail_and_their_absence_passes() {
    let constant = judged(&truth("constant", ""));
    let linear = judged(&truth("linear", "×7"));
    let rise = judged(&truth("rise beyond the margin", "linear +20%"));
    let quadratic = judged(&truth("quadratic", "×7"));
    let logarithmic = judged(&truth("logarithmic", "×2"));
    let cliff = judged(&truth("cliff", "×10 at 5000"));
    let flat = |one: &Subject<'_>| one.constant(0.1, None);
    let at_most_linear = |one: &Subject<'_>| one.grows_at_most(1.0, None);
    let at_most_log = |one: &Subject<'_>| one.grows_at_most(LOGARITHM, None);
    let is_linear = |one: &Subject<'_>| one.follows(&["linear", "knee", "tiers"], None);
    let no_cliff = |one: &Subject<'_>| one.no_cliff(Some(9_000));
    let doubles_at_most = |one: &Subject<'_>| one.grows(Side::Below, 2.0, None);
    let no_outlier = |one: &Subject<'_>| one.no_recurring_outlier(None, &|_| false);
    // The claim, the tally, whether the claim is true, and the minimum number of right answers of 20.
    let table: [(&str, [usize; 3], bool, usize); 15] = [
        ("constant is O(1)", tally(&constant, flat), true, 18),
        ("linear ×7 is O(1)", tally(&linear, flat), false, 20),
        ("linear +20% is O(1)", tally(&rise, flat), false, 15),
        ("a cliff is O(1)", tally(&cliff, flat), false, 20),
        ("constant grows at most O(n)", tally(&constant, at_most_linear), true, 20),
        ("linear grows at most O(n)", tally(&linear, at_most_linear), true, 15),
        ("quadratic grows at most O(n)", tally(&quadratic, at_most_linear), false, 18),
        ("linear grows at most O(log n)", tally(&linear, at_most_log), false, 18),
        ("logarithmic grows at most O(n)", tally(&logarithmic, at_most_linear), true, 18),
        ("logarithmic grows at most O(log n)", tally(&logarithmic, at_most_log), true, 15),
        ("constant is O(n)", tally(&constant, is_linear), false, 18),
        ("constant has no cliff", tally(&constant, no_cliff), true, 20),
        ("a cliff is none", tally(&cliff, no_cliff), false, 20),
        ("linear ×7 grows by less than 2", tally(&linear, doubles_at_most), false, 20),
        ("constant has no recurring outlier", tally(&constant, no_outlier), true, 20),
    ];
    for (claim, [pass, inconclusive, fail], holds, least) in table {
        println!("{claim}: {pass} pass, {inconclusive} inconclusive, {fail} fail");
        let (right, wrong) = if holds { (pass, fail) } else { (fail, pass) };
        assert!(wrong == 0 && right >= least, "{claim}: {pass} pass, {inconclusive} inconclusive, {fail} fail");
    }
}

/// Guards against deciding a claim up to an n by calls beyond that n.
#[test]
fn only_the_range_of_the_claim_counts() {
    let cliff = curve(&truth("cliff", "×10 at 5000"), 1);
    let before = timed(&cliff, |one| one.constant(0.1, Some(4_000)));
    assert_eq!(before.answer, Answer::Pass, "{before:?}");
    assert_eq!(timed(&cliff, |one| one.no_cliff(Some(4_000))).answer, Answer::Pass);
    let beyond = timed(&cliff, |one| one.constant(0.1, Some(8_000)));
    assert!(beyond.answer == Answer::Fail && matches!(beyond.evidence, Evidence::Cliff { .. }), "{beyond:?}");
}

/// Guards against passing a claim because the curve ends before the n of the claim.
#[test]
fn a_curve_that_is_too_short_passes_no_claim() {
    let (constant, linear) = (curve(&truth("constant", ""), 1), curve(&truth("linear", "×7"), 1));
    let is_short = |decision: &Decision| {
        decision.answer == Answer::Inconclusive && matches!(decision.evidence, Evidence::TooShort { .. })
    };
    let beyond = Some(20_000);
    for decision in [
        timed(&constant, |one| one.constant(0.1, beyond)),
        timed(&constant, |one| one.no_cliff(beyond)),
        timed(&constant, |one| one.grows_at_most(1.0, beyond)),
        timed(&constant, |one| one.grows(Side::Below, 2.0, beyond)),
        timed(&constant, |one| one.no_recurring_outlier(beyond, &|_| false)),
        timed(&constant, |one| cost_at(one, 20_000, Side::Below, 1e9)),
        timed(&linear, |one| one.follows(&["linear"], beyond)),
        compares(&constant, &constant, 20_000, Side::Below, 2.0, &Options::default()),
    ] {
        assert!(is_short(&decision), "{decision:?}");
    }
    // A longer range cannot be constant if a part of it is not.
    assert_eq!(timed(&linear, |one| one.constant(0.1, beyond)).answer, Answer::Fail);
}

/// Guards against deciding a claim by a single pass, which has no interval, or an absence by three passes.
#[test]
fn few_passes_show_nothing() {
    let passes =
        |count| Curve { passes: curve(&truth("constant", ""), 1).passes[..count].to_vec(), ..Curve::default() };
    let (one, three) = (passes(1), passes(3));
    assert_eq!(timed(&one, |s| s.constant(0.1, None)).answer, Answer::Inconclusive);
    assert_eq!(timed(&one, |s| s.grows_at_most(2.0, None)).answer, Answer::Inconclusive);
    assert_eq!(timed(&one, |s| s.grows(Side::Below, 1e9, None)).answer, Answer::Inconclusive);
    assert_eq!(timed(&one, |s| cost_at(s, 5_000, Side::Below, 1e12)).answer, Answer::Inconclusive);
    assert_eq!(compares(&one, &one, 5_000, Side::Below, 1e9, &Options::default()).answer, Answer::Inconclusive);
    let none = timed(&three, |s| s.no_cliff(None));
    assert!(none.answer == Answer::Inconclusive && none.more_passes == Some(2), "{none:?}");
    assert_eq!(timed(&three, |s| s.no_recurring_outlier(None, &|_| false)).answer, Answer::Inconclusive);
    assert_eq!(timed(&Curve::default(), |s| s.constant(0.1, None)).answer, Answer::Inconclusive);
}

/// Guards against refuting a claim by one or two passes, because their effects may be chance.
#[test]
fn few_passes_refute_nothing() {
    let whole = curve(&truth("cliff", "×10 at 5000"), 1);
    for count in 1..=2 {
        let few = Curve { passes: whole.passes[..count].to_vec(), ..Curve::default() };
        for decision in [
            timed(&few, |one| one.constant(0.1, None)),
            timed(&few, |one| one.follows(&["linear"], None)),
            timed(&few, |one| one.grows_at_most(1.0, None)),
            timed(&few, |one| one.no_cliff(None)),
            timed(&few, |one| one.grows(Side::Below, 3.0, None)),
            timed(&few, |one| cost_at(one, 3_000, Side::Below, 1.0)),
            compares(&few, &scaled(few.clone(), 2.0), 3_000, Side::Below, 1.1, &Options::default()),
        ] {
            assert_eq!(decision.answer, Answer::Inconclusive, "{count}: {decision:?}");
        }
    }
    assert_eq!(timed(&whole, |one| one.no_cliff(None)).answer, Answer::Fail);
}

/// Returns the calls up to an n.
fn cut(curve: &Curve, end: u32) -> Curve {
    let mut curve = curve.clone();
    for pass in &mut curve.passes {
        let kept: Vec<(u32, u64)> =
            pass.n.iter().copied().zip(pass.costs.iter().copied()).filter(|(n, _)| *n <= end).collect();
        pass.clean = vec![true; kept.len()];
        (pass.n, pass.costs) = kept.into_iter().unzip();
    }
    curve
}

/// Guards against reporting an absence where nothing would be found: in a handful of calls, and at the end of a curve.
#[test]
fn what_could_not_be_seen_is_not_absent() {
    let constant = curve(&truth("constant", ""), 1);
    for end in [1, 2, 3, 20] {
        let short = cut(&constant, end);
        for decision in
            [timed(&short, |one| one.no_cliff(None)), timed(&short, |one| one.no_recurring_outlier(None, &|_| false))]
        {
            assert_eq!(decision.answer, Answer::Inconclusive, "up to {end}: {decision:?}");
        }
    }
    let mut jump = cut(&constant, 1_000);
    for pass in &mut jump.passes {
        pass.n.iter().zip(&mut pass.costs).filter(|(n, _)| **n >= 990).for_each(|(_, cost)| *cost *= 100);
    }
    let up_to = |n| timed(&jump, |one| one.no_cliff(Some(n)));
    assert_eq!(up_to(1_000).answer, Answer::Inconclusive);
    assert_eq!(up_to(900).answer, Answer::Pass);
    let whole = timed(&jump, |one| one.no_cliff(None));
    let reached = match whole.evidence {
        Evidence::None { reached } => reached,
        other => panic!("{other:?}"),
    };
    assert!(whole.answer == Answer::Pass && (960.0..990.0).contains(&reached), "{reached}");
    assert_eq!(up_to((reached / 0.995) as u64).answer, Answer::Pass, "within 1% of what is seen");
    assert_eq!(up_to((reached / 0.985) as u64).answer, Answer::Inconclusive, "beyond it");
}

/// Guards against deciding by the middle of an interval.
#[test]
fn an_interval_that_holds_the_bound_is_inconclusive() {
    let interval = Estimate { value: 1.0, low: 0.9, high: 1.1 };
    for (side, low, high) in [
        (Side::Below, Answer::Fail, Answer::Pass),
        (Side::AtMost, Answer::Fail, Answer::Pass),
        (Side::Above, Answer::Pass, Answer::Fail),
        (Side::AtLeast, Answer::Pass, Answer::Fail),
    ] {
        let answers = [0.8, 0.95, 1.0, 1.05, 1.2].map(|bound| side.answer(interval, bound));
        let open = Answer::Inconclusive;
        assert_eq!(answers, [low, open, open, open, high], "{side:?}");
    }
    // Exact values are on one side or the other.
    let exact = Estimate::bare(5.0);
    assert_eq!([Side::Below, Side::AtMost].map(|side| side.answer(exact, 5.0)), [Answer::Fail, Answer::Pass]);
    assert_eq!([Side::Above, Side::AtLeast].map(|side| side.answer(exact, 5.0)), [Answer::Fail, Answer::Pass]);
}

fn scaled(mut curve: Curve, factor: f64) -> Curve {
    let calls = curve.passes.iter_mut().flat_map(|pass| &mut pass.costs);
    calls.for_each(|ns| *ns = (*ns as f64 * factor).round() as u64);
    curve
}

/// Tests calls that became slower by 3% and by 10%, paired by round like two variants of one record. Both sides share
/// the state of the machine in a round, and each has separate noise. The first is compared with no change, the second
/// with half of the change.
#[test]
fn a_slower_call_is_found_by_its_ratio() {
    let options = Options { paired: true, ..Options::default() };
    let (mut found, mut wrong) = ([0; 2], 0);
    for seed in 0..20 {
        let (base, other) = side_by_side(seed);
        for (index, (factor, bound)) in [(1.03, 1.0), (1.10, 1.05)].into_iter().enumerate() {
            let slower = scaled(other.clone(), factor);
            let below = |bound| compares(&base, &slower, 2_500, Side::Below, bound, &options).answer;
            found[index] += usize::from(below(bound) == Answer::Fail);
            wrong += usize::from(below(bound) == Answer::Pass);
            wrong += usize::from(below(factor + 0.03) == Answer::Fail);
        }
        // Two independent runs, without pairs: with 10% more, a claim of less than 5% more does not pass.
        let rerun = scaled(curve(&truth("constant", ""), 100 + seed), 1.10);
        let base = curve(&truth("constant", ""), seed);
        let unpaired = compares(&base, &rerun, 5_000, Side::Below, 1.05, &Options::default()).answer;
        assert_ne!(unpaired, Answer::Pass, "{seed}");
    }
    println!("+3% found in {} of 20, +10% in {}; {wrong} of 80 answers wrong", found[0], found[1]);
    assert!(found[0] >= 15 && found[1] >= 19 && wrong == 0, "{found:?} of 20, {wrong} wrong");
}

/// Claims with bounds outside the interval of a cost are decided. For a bound inside it, the decision states how many
/// more passes are needed.
#[test]
fn a_cost_is_compared_with_its_interval() {
    let constant = curve(&truth("constant", ""), 3);
    let near = timed(&constant, |one| cost_at(one, 5_000, Side::Below, 0.0)).value.unwrap();
    let at = |bound: f64| timed(&constant, |one| cost_at(one, 5_000, Side::Below, bound));
    assert_eq!(at(near.high * 1.01).answer, Answer::Pass);
    assert_eq!(at(near.low * 0.99).answer, Answer::Fail);
    let open = at(f64::midpoint(near.value, near.high));
    assert!(open.answer == Answer::Inconclusive && open.more_passes.is_some(), "{open:?}");
}

fn counted(cost: impl Fn(f64) -> f64) -> Curve {
    let n: Vec<u32> = (1..=4000).collect();
    let costs = n.iter().map(|&n| cost(f64::from(n)).round() as u64).collect();
    Curve { passes: vec![Pass { clean: vec![true; n.len()], n, costs }], ..Curve::default() }
}

/// Guards against requiring more passes of counts, which one pass shows exactly, and against refuting a constant
/// because counts follow a law within the margin.
#[test]
fn counts_are_decided_by_one_pass() {
    let options = Options { unit: Unit::Instructions, ..Options::default() };
    let ask = |curve: &Curve, decide: &dyn Fn(&Subject<'_>) -> Decision| decided(curve, &options, decide).answer;
    let (flat, slight) = (counted(|_| 2_000.0), counted(|n| 2_000.0 + 0.02 * n));
    let steep = counted(|n| 2_000.0 + 3.0 * n);
    assert_eq!(ask(&flat, &|one| one.constant(0.1, None)), Answer::Pass);
    assert_eq!(ask(&slight, &|one| one.constant(0.1, None)), Answer::Pass);
    assert_eq!(ask(&slight, &|one| one.constant(0.01, None)), Answer::Fail);
    assert_eq!(ask(&steep, &|one| one.constant(0.1, Some(3_000))), Answer::Fail);
    assert_eq!(ask(&steep, &|one| one.follows(&["linear"], None)), Answer::Pass);
    assert_eq!(ask(&steep, &|one| one.grows_at_most(1.0, None)), Answer::Pass);
    assert_eq!(ask(&steep, &|one| one.grows_at_most(0.5, None)), Answer::Fail);
    assert_eq!(ask(&flat, &|one| cost_at(one, 900, Side::Below, 2_000.0)), Answer::Fail);
    assert_eq!(ask(&flat, &|one| cost_at(one, 900, Side::AtMost, 2_000.0)), Answer::Pass);
    assert_eq!(ask(&flat, &|one| one.no_cliff(Some(4_000))), Answer::Pass);
    let half = compares(&steep, &flat, 3_000, Side::Below, 0.2, &options);
    assert!(half.answer == Answer::Pass && half.value.is_some_and(|v| (v.value - 2.0 / 11.0).abs() < 2e-3), "{half:?}");
}

/// Guards against leaving equal counts undecided if the range is too short for a verdict, and against reporting counts
/// as constant without any point.
#[test]
fn counts_over_a_short_range_are_decided_by_their_points() {
    let options = Options { unit: Unit::Instructions, ..Options::default() };
    let pass = |n: std::ops::RangeInclusive<u32>, cost: fn(u32) -> u64| {
        let n: Vec<u32> = n.collect();
        Pass { costs: n.iter().map(|n| cost(*n)).collect(), clean: vec![true; n.len()], n }
    };
    let constant = |passes: Vec<Pass>, to| {
        let curve = Curve { passes, ..Curve::default() };
        decided(&curve, &options, |one| one.constant(0.1, to))
    };
    for (n, to) in [(1..=40, None), (1..=4_000, Some(40)), (1_000..=4_000, None)] {
        let equal = constant(vec![pass(n.clone(), |_| 4_122)], to);
        let expected = (Answer::Pass, Evidence::Interval, Some(Estimate::bare(1.0)));
        assert_eq!((equal.answer, equal.evidence, equal.value), expected, "{n:?}");
        let steep = constant(vec![pass(n.clone(), |n| 4_122 + 100 * u64::from(n))], to);
        assert_eq!((steep.answer, steep.evidence), (Answer::Fail, Evidence::Interval), "{n:?}");
        assert!(steep.value.is_some_and(|growth| growth.value > 1.1), "{n:?}: {:?}", steep.value);
    }
    // The cost returns to that at the start.
    let hill = constant(vec![pass(1..=4_000, |n| 4_122 + u64::from(2_000 - n.abs_diff(2_000)))], None);
    let is_there = |one: &Evidence| matches!(one, Evidence::Farthest { at: 1_900.0..2_100.0, factor: 1.4.. });
    assert!(hill.answer == Answer::Fail && is_there(&hill.evidence), "{hill:?}");
    let few = constant(vec![pass(1..=8, |_| 4_122)], None);
    let apart = constant([1, 1_001, 2_001].map(|first| pass(first..=first + 899, |_| 4_122)).to_vec(), None);
    for decision in [few, apart] {
        let is_open = matches!(decision.evidence, Evidence::NotResolved { .. });
        assert!(decision.answer == Answer::Inconclusive && is_open, "{decision:?}");
    }
}

/// Guards against reporting counts as constant although the canary shows that something else took another path.
#[test]
fn counts_beside_a_canary_that_changed_are_not_decided() {
    let options = Options { unit: Unit::Instructions, ..Options::default() };
    let (curve, canary) = (counted(|_| 4_122.0), counted(|n| if n < 2_000.0 { 146.0 } else { 73.0 }));
    let verdict = judge(&curve, Some(&canary), &options);
    let decision =
        Subject { curve: &curve, canary: Some(&canary), verdict: &verdict, options: &options }.constant(0.1, None);
    let evidence = Evidence::NotResolved { reason: Reason::CanaryMoved };
    assert_eq!((decision.answer, decision.evidence), (Answer::Inconclusive, evidence));
}

/// Guards against deciding a cost, a ratio or a growth by calls on the other side of a cliff.
#[test]
fn what_lies_beside_a_cliff_is_not_decided() {
    let constant = curve(&truth("constant", ""), 1);
    let cliff = curve(&truth("cliff", "×10 at 5000"), 1);
    let ratio = |n| compares(&constant, &cliff, n, Side::Below, 2.0, &Options::default()).answer;
    assert_eq!(
        [4_000, 4_900, 5_100, 8_000].map(ratio),
        [Answer::Pass, Answer::Inconclusive, Answer::Inconclusive, Answer::Inconclusive]
    );
    assert_eq!(timed(&cliff, |one| cost_at(one, 5_100, Side::Below, 1e12)).answer, Answer::Inconclusive);
    let grows = |bound, to| timed(&cliff, |one| one.grows(Side::Below, bound, to)).answer;
    assert_eq!([grows(3.0, None), grows(100.0, None)], [Answer::Fail, Answer::Pass]);
    assert_eq!(grows(100.0, Some(5_100)), Answer::Inconclusive);
}

/// Guards against ignoring a period of counted costs because none of its positions recurs: it begins at another call in
/// each pass.
#[test]
fn a_counted_period_is_a_recurring_outlier() {
    let cost = |n: u32, pass: u32| 4_122 + if n > 500 && (n + 3 * pass) % 14 == 5 { 13_456 } else { 0 };
    let pass = |pass: u32| {
        let n: Vec<u32> = (1..=2_000).collect();
        Pass { clean: vec![true; n.len()], costs: n.iter().map(|n| cost(*n, pass)).collect(), n }
    };
    let periodic = Curve { passes: (0..5).map(pass).collect(), ..Curve::default() };
    let options = Options { unit: Unit::Instructions, ..Options::default() };
    let answer = |below, is_instrument| {
        decided(&periodic, &options, |one| one.no_recurring_outlier(below, &|_| is_instrument)).answer
    };
    assert_eq!(answer(None, false), Answer::Fail);
    assert_eq!(answer(Some(1_500), false), Answer::Fail);
    assert_eq!(answer(Some(400), false), Answer::Pass, "the period begins beyond");
    assert_eq!(answer(None, true), Answer::Pass, "the instrument has the same period");
}
