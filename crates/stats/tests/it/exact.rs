//! Counted curves, generated call by call: the verdict must state exactly what was put in.

use landau_stats::{Change, Curve, Estimate, Options, Outcome, Pass, PatternRule, Unit, Verdict, compare, judge};

fn options() -> Options {
    Options { unit: Unit::Instructions, ..Options::default() }
}

/// Returns `passes` passes of `last` calls; `cost` gives the cost for (n, pass).
fn curve(passes: u32, last: u32, cost: impl Fn(u32, u32) -> u64) -> Curve {
    let pass = |k: u32| {
        let n: Vec<u32> = (1..=last).collect();
        Pass { costs: n.iter().map(|&n| cost(n, k)).collect(), clean: vec![true; n.len()], n }
    };
    Curve { passes: (0..passes).map(pass).collect(), annotations: Vec::new() }
}

fn judged(curve: &Curve) -> Verdict {
    judge(curve, None, &options())
}

/// Returns a pseudo-random number.
fn scrambled(x: u64) -> u64 {
    let mut x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 32)
}

#[test]
fn equal_counts_are_exactly_constant() {
    for passes in 1..=3 {
        let verdict = judged(&curve(passes, 4000, |_, _| 4122));
        assert_eq!(verdict.all.outcome, Outcome::Flat { within: 0.0 });
        let end = verdict.all.end.unwrap();
        assert!((end.value - 4122.0).abs() < 1e-9 && (end.high - end.low).abs() < 1e-9, "{end:?}");
        assert_eq!(verdict.all.outcome, Outcome::Flat { within: 0.0 });
        assert!((verdict.all.fit.unwrap().fixed.value - 4122.0).abs() < 1e-9);
        assert!(verdict.flags.is_empty(), "{:?}", verdict.flags);
    }
}

/// A timer interrupt occasionally hits a call of one pass. It is counted, and does not change any value.
#[test]
fn interrupts_are_counted_and_change_no_value() {
    let ticks = curve(2, 5000, |n, k| {
        let is_met = scrambled(u64::from(n) << 8 | u64::from(k)).is_multiple_of(500);
        332 + if is_met { 4_000 + scrambled(u64::from(n * 2 + k)) % 50_000 } else { 0 }
    });
    let met = ticks.passes.iter().flat_map(|pass| &pass.costs).filter(|ns| **ns > 332).count();
    let verdict = judged(&ticks);
    assert!(met > 10);
    assert_eq!(verdict.all.outcome, Outcome::Flat { within: 0.0 });
    assert_eq!((verdict.outliers.isolated, verdict.exact.unwrap().interrupted), (met, met));
}

#[test]
fn a_linear_curve_has_integer_coefficients() {
    let verdict = judged(&curve(3, 3000, |n, _| 1_410 + 337 * u64::from(n)));
    assert_eq!(verdict.all.outcome, Outcome::Grows { law: Some("linear".to_owned()) });
    let fit = verdict.all.fit.unwrap();
    let slope = fit.slope.unwrap();
    assert_eq!((slope.value.to_bits(), fit.fixed.value.to_bits()), (337_f64.to_bits(), 1_410_f64.to_bits()));
    assert!((slope.high - slope.low).abs() < 1e-9 && verdict.all.rivals.is_empty(), "{:?}", verdict.all.rivals);
    assert_eq!((fit.fixed.value, fit.slope.unwrap().value), (1_410.0, 337.0));
}

/// Even a small rise is a law if it fits exactly: points are not on a line by chance.
#[test]
fn a_slight_exact_rise_is_linear() {
    let verdict = judged(&curve(2, 4000, |n, _| 40_000 + u64::from(n)));
    assert_eq!(verdict.all.outcome, Outcome::Grows { law: Some("linear".to_owned()) }, "{:?}", verdict.all.outcome);
}

/// The path in a tree grows by one level for each doubling, in steps of a logarithm.
#[test]
fn steps_of_a_tree_are_logarithmic() {
    let verdict = judged(&curve(2, 30_000, |n, _| 3_000 + 450 * u64::from(32 - n.leading_zeros())));
    assert_eq!(
        verdict.all.outcome,
        Outcome::Grows { law: Some("logarithmic".to_owned()) },
        "{:?}",
        verdict.all.outcome
    );
}

/// Paths that differ by a few instructions are not growth, and the points show the range.
#[test]
fn two_similar_paths_are_constant() {
    let verdict = judged(&curve(2, 4000, |n, _| if (n / 500) % 2 == 0 { 4_774 } else { 4_776 }));
    assert!(matches!(verdict.all.outcome, Outcome::Flat { within } if within > 0.0 && within < 0.001));
    let costs = |cost: f64| verdict.all.points.iter().any(|point| (point.cost.value - cost).abs() < 1e-9);
    assert!(costs(4774.0) && costs(4776.0), "{:?}", verdict.all.points);
}

/// A search that starts at a random place has another cost at each n. That is not noise, so no further pass is needed.
#[test]
fn a_random_search_is_constant_with_its_range() {
    let random = curve(3, 6000, |n, k| 9_677 + 37 * (scrambled(u64::from(n) * 7 + u64::from(k)) % 20));
    let verdict = judged(&random);
    assert!(matches!(verdict.all.outcome, Outcome::Flat { within } if within < 0.1), "{:?}", verdict.all.outcome);
    let exact = verdict.exact.unwrap();
    assert!(exact.agree < 0.2 && exact.distinct == 20, "{exact:?}");
    assert!(verdict.all.start.unwrap().value >= 9_677.0);
}

/// One slab needs a page every 14 calls, another every 21, starting at another call in each pass. Both are found with
/// their cost.
#[test]
fn refills_are_found_with_period_and_cost() {
    let refills = curve(2, 6000, |n, k| {
        let mut cost = 4_122;
        cost += if (n + 3 * k) % 14 == 5 { 13_456 } else { 0 };
        cost + if (n + 5 * k) % 21 == 2 { 9_984 } else { 0 }
    });
    let verdict = judged(&refills);
    assert_eq!(verdict.all.outcome, Outcome::Flat { within: 0.0 });
    let found = |cost: u64| {
        let mut patterns = verdict.outliers.patterns.iter();
        let pattern = patterns.find(|one| one.cost_min == cost && one.cost_max == cost)?;
        match pattern.rule {
            PatternRule::Periodic { period, .. } => Some(period),
            _ => None,
        }
    };
    assert_eq!((found(17_578), found(14_106)), (Some(14), Some(21)), "{:?}", verdict.outliers.patterns);
}

/// Tables that double are found by position.
#[test]
fn doublings_are_found() {
    let doubling = |n: u32, _| if (n + 3).is_power_of_two() { 4_000 + 60 * u64::from(n) } else { 700 };
    let verdict = judged(&curve(2, 9000, doubling));
    let is_doubling = |kind: &PatternRule| matches!(kind, PatternRule::PowersOfTwo { offset: 3 });
    assert!(verdict.outliers.patterns.iter().any(|one| is_doubling(&one.rule)), "{:?}", verdict.outliers.patterns);
}

#[test]
fn equal_counts_are_equal_and_relevant_differences_are_reported() {
    let flat = |cost: u64| curve(2, 2000, move |_, _| cost);
    let against = |a: u64, b: u64| compare(&flat(a), &flat(b), &options());
    assert_eq!(against(1_618, 10_085).change, Change::Slower);
    assert_eq!(against(10_085, 1_618).change, Change::Faster);
    assert_eq!(against(10_085, 10_085).ratio, Some(Estimate::bare(1.0)));
    let hair = against(10_085, 10_086);
    assert!(hair.change == Change::NoDifferenceProven && hair.ratio.unwrap().value > 1.0);
}

/// A canary that changes vetoes the verdict of counted curves too.
#[test]
fn a_changing_canary_vetoes_the_verdict() {
    let flat = curve(2, 4000, |_, _| 4122);
    let still = judge(&flat, Some(&curve(2, 4000, |_, _| 73)), &options());
    let moved = judge(&flat, Some(&curve(2, 4000, |n, _| if n < 2000 { 146 } else { 73 })), &options());
    assert!(!still.canary.unwrap().moved && moved.canary.unwrap().vetoes);
}

/// Guards against placing a crossing by one random choice of passes, although nothing is random here.
#[test]
fn a_crossing_does_not_depend_on_the_seed() {
    let base = curve(3, 4000, |_, k| 2_000 + 60 * u64::from(k));
    let other = curve(3, 4000, |n, k| 1_000 + u64::from(n) + 90 * u64::from(k));
    let of = |seed| compare(&base, &other, &Options { seed, ..options() }).crossing.unwrap();
    let first = of(0);
    // The lower medians of the passes are 2,060 and 1,090 + n.
    assert!((first.n.value / 970.0 - 1.0).abs() < 0.02, "{first:?}");
    assert_eq!((first.n, first.share.to_bits()), (Estimate::bare(first.n.value), 1_f64.to_bits()));
    assert!((1..20).all(|seed| of(seed) == first));
}
