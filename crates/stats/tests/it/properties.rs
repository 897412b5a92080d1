//! Properties of every verdict.

use landau_stats::quantile::{Histogram, median_interval, quantile};
use landau_stats::simulate::{Noise, Truth, simulate};
use landau_stats::{Curve, Options, Outcome, Pass, Verdict, judge};
use proptest::prelude::*;

fn verdict(curve: &Curve) -> Verdict {
    judge(curve, None, &Options::default())
}

fn histogram(costs: &[u64]) -> Histogram {
    let mut one = Histogram::new(8);
    for ns in costs {
        one.add(*ns);
    }
    one
}

fn clear_truth() -> impl Strategy<Value = Truth> {
    prop::sample::select(vec![Truth::Constant, Truth::Linear, Truth::Step, Truth::Hump, Truth::Root])
}

fn any_pass() -> impl Strategy<Value = Pass> {
    let call = (0_u32..5000, prop_oneof![0_u64..5000, any::<u64>()], any::<bool>());
    prop::collection::vec(call, 0..300).prop_map(|calls| Pass {
        n: calls.iter().map(|call| call.0).collect(),
        costs: calls.iter().map(|call| call.1).collect(),
        clean: calls.iter().map(|call| call.2).collect(),
    })
}

proptest! {
    /// Guards against an interpolation beyond the adjacent values.
    #[test]
    fn quantiles_are_monotone(
        mut values in prop::collection::vec(0.0_f64..1e9, 1..50),
        p in 0.0_f64..1.0,
        q in 0.0_f64..1.0,
    ) {
        values.sort_by(f64::total_cmp);
        let (low, high) = (p.min(q), p.max(q));
        prop_assert!(quantile(&values, low) <= quantile(&values, high));
        prop_assert_eq!(quantile(&values, 0.0), values.first().copied());
        prop_assert_eq!(quantile(&values, 1.0), values.last().copied());
    }

    /// Guards against an interval without its median, or a coverage that decreases with the level.
    #[test]
    fn median_intervals_hold_the_median(values in prop::collection::vec(0.0_f64..1e9, 1..40)) {
        let (narrow, low) = median_interval(&values, 0.5).unwrap();
        let (wide, high) = median_interval(&values, 0.99).unwrap();
        prop_assert!(narrow.holds(narrow.value) && wide.holds(narrow.low) && wide.holds(narrow.high));
        prop_assert!(low <= high && high <= 1.0);
    }

    /// Guards against a merge that depends on the order or loses counts.
    #[test]
    fn merging_histograms_is_associative(
        a in prop::collection::vec(any::<u64>(), 0..50),
        b in prop::collection::vec(0_u64..100_000, 0..50),
        c in prop::collection::vec(0_u64..100, 0..50),
    ) {
        let (x, y, z) = (histogram(&a), histogram(&b), histogram(&c));
        let mut left = x.clone();
        prop_assert!(left.merge(&y) && left.merge(&z));
        let mut right = y.clone();
        prop_assert!(right.merge(&z));
        let mut whole = x.clone();
        prop_assert!(whole.merge(&right));
        prop_assert_eq!(&left, &whole);
        let all: Vec<u64> = a.iter().chain(&b).chain(&c).copied().collect();
        prop_assert_eq!(left, histogram(&all));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Guards against absolute thresholds in the selection: a machine eight times slower has the same law.
    #[test]
    fn the_unit_does_not_change_the_law(truth in clear_truth(), seed in 0_u64..1000) {
        let curve = simulate(truth, Noise::of_cell(0.01), 9, seed);
        let mut slower = curve.clone();
        slower.passes.iter_mut().flat_map(|pass| &mut pass.costs).for_each(|ns| *ns *= 8);
        let (fast, slow) = (verdict(&curve).all, verdict(&slower).all);
        prop_assert_eq!(fast.outcome, slow.outcome);
        let ratio = slow.growth.unwrap().value / fast.growth.unwrap().value;
        prop_assert!((ratio - 1.0).abs() < 1e-9);
    }

    /// Guards against a verdict that depends on the order of passes or calls.
    #[test]
    fn order_does_not_matter(truth in clear_truth(), seed in 0_u64..1000, turn in 1_usize..8) {
        let curve = simulate(truth, Noise::of_cell(0.04), 9, seed);
        let mut other = curve.clone();
        other.passes.rotate_left(turn);
        for pass in &mut other.passes {
            pass.n.reverse();
            pass.costs.reverse();
            pass.clean.reverse();
        }
        prop_assert_eq!(verdict(&curve), verdict(&other));
    }

    /// Guards against a clock or an unseeded draw: equal input gives equal output to the last bit.
    #[test]
    fn verdicts_are_reproducible(truth in clear_truth(), seed in 0_u64..1000) {
        let curve = simulate(truth, Noise::of_cell(0.04), 5, seed);
        prop_assert_eq!(&curve, &simulate(truth, Noise::of_cell(0.04), 5, seed));
        prop_assert_eq!(verdict(&curve), verdict(&curve));
    }

    /// Guards against a panic on unusual curves: empty, shuffled, extreme costs, few passes.
    #[test]
    fn arbitrary_curves_do_not_panic(passes in prop::collection::vec(any_pass(), 0..6)) {
        let curve = Curve { passes, annotations: Vec::new() };
        let found = judge(&curve, Some(&curve), &Options::default());
        let text = serde_json::to_string(&found).unwrap();
        prop_assert!(serde_json::from_str::<Verdict>(&text).is_ok(), "{}", text);
    }
}

/// Guards against an infinity or NaN, which JSON turns into null, from the pole of an occupancy law.
#[test]
fn verdicts_survive_json() {
    for truth in Truth::ALL {
        let found = verdict(&simulate(truth, Noise::of_cell(0.01), 9, 3));
        let text = serde_json::to_string(&found).unwrap();
        let back: Verdict = serde_json::from_str(&text).unwrap();
        assert_eq!(back.all.outcome, found.all.outcome);
        assert_eq!(back.all.points.len(), found.all.points.len());
    }
}

/// Guards against a resolved verdict on one pass or on a smoke run.
#[test]
fn too_few_passes_or_points_are_inconclusive() {
    let one = verdict(&simulate(Truth::Linear, Noise::of_cell(0.01), 1, 1)).all;
    assert!(matches!(one.outcome, Outcome::Unresolved { reason: landau_stats::Reason::TooFewPasses, .. }));
    let smoke = crate::synthetic::dense(5, 20, |_, n| 1000.0 + f64::from(n));
    let smoke = verdict(&smoke).all;
    assert!(matches!(smoke.outcome, Outcome::Unresolved { reason: landau_stats::Reason::TooFewPoints, .. }));
}
