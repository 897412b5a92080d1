//! Shapes that must be recognised, measured call by call.

use crate::synthetic::{dense, hash};
use landau_stats::{
    Annotation, AnnotationKind, BendKind, BimodalityKind, Class, Curve, Flag, Options, Outcome, PatternRule, Reach,
    Reason, judge,
};

fn annotation(name: &str, n: f64, kind: AnnotationKind) -> Annotation {
    Annotation { name: name.to_owned(), n, kind }
}

/// Guards against missing or misplacing a cliff, or fitting a law to it; that of bind is at half the ephemeral range.
#[test]
fn a_cliff_is_found_to_the_call() {
    let mut curve = dense(5, 6000, |_, n| if n < 4117 { 1000.0 } else { 900_000.0 });
    curve.annotations.push(annotation("half the range", 4116.0, AnnotationKind::Capacity));
    let found = judge(&curve, None, &Options::default());
    let cliff = &found.all.cliffs[0];
    assert_eq!((cliff.n.low, cliff.n.high), (4117.0, 4117.0));
    assert!((cliff.factor / 900.0 - 1.0).abs() < 0.05, "{}", cliff.factor);
    assert_eq!(cliff.annotation.as_deref(), Some("half the range"));
    assert!(matches!(found.all.outcome, Outcome::Flat { .. }), "{:?}", found.all.outcome);
    assert!(found.flags.contains(&Flag::EndsAtCliff));
    assert!(found.all.points.iter().any(|point| !point.judged && point.n > 4117.0));
}

/// Guards against placing a cliff too early: on the climb to it, calls scatter up to the cost of a full scan.
#[test]
fn a_cliff_is_placed_where_the_scatter_ends() {
    let climb = |p: u32, n: u32| {
        let tries = if n < 5000 { (-hash(p, n, 7).ln() / (1.0 - f64::from(n) / 5000.0)).min(4000.0) } else { 4000.0 };
        1000.0 + 1000.0 * tries
    };
    let found = judge(&dense(7, 6000, climb), None, &Options::default());
    let cliff = &found.all.cliffs[0];
    assert!((cliff.n.value - 5000.0).abs() <= 3.0, "{:?}", cliff.n);
}

/// Guards against reporting an episode of one pass as a cliff.
#[test]
fn an_episode_of_one_pass_is_not_a_cliff() {
    let curve = dense(5, 4000, |p, n| if p == 2 && n > 2000 { 9000.0 } else { 1000.0 });
    assert!(judge(&curve, None, &Options::default()).all.cliffs.is_empty());
}

/// Guards against reporting steep but smooth growth, or a step of 30%, as a cliff.
#[test]
fn growth_and_steps_are_not_cliffs() {
    let squared = dense(5, 4000, |_, n| 100.0 + f64::from(n) * f64::from(n));
    let found = judge(&squared, None, &Options::default()).all;
    assert!(found.cliffs.is_empty(), "{:?}", found.cliffs);
    assert_eq!(found.outcome, Outcome::Grows { law: Some("quadratic".to_owned()) });
    let mut step = dense(5, 10_000, |_, n| if n < 4096 { 1000.0 } else { 1300.0 });
    step.annotations.push(annotation("a table of 4,096", 4096.0, AnnotationKind::Table));
    let found = judge(&step, None, &Options::default()).all;
    assert!(found.cliffs.is_empty());
    let bend = found.bend.unwrap();
    assert_eq!(bend.kind, BendKind::Step);
    assert!(bend.n.holds(4096.0), "{bend:?}");
    assert_eq!(bend.annotation.as_deref(), Some("a table of 4,096"));
}

/// Guards against losing the outliers of a doubling table among isolated ones: only the position distinguishes them.
#[test]
fn doubling_tables_are_distinguished_from_interference() {
    let cost = |p: u32, n: u32| {
        let is_interference = hash(p, n, 3) < 0.002;
        if (n + 3).is_power_of_two() && n > 100 {
            5_000_000.0
        } else if is_interference {
            400_000.0
        } else {
            2000.0
        }
    };
    let found = judge(&dense(5, 9000, cost), None, &Options::default()).outliers;
    let places: Vec<u32> = found.recurring.iter().map(|one| one.n).collect();
    assert_eq!(places, [125, 253, 509, 1021, 2045, 4093, 8189]);
    assert_eq!(found.patterns[0].rule, PatternRule::PowersOfTwo { offset: 3 });
    assert!((50..140).contains(&found.isolated), "{}", found.isolated);
}

/// Guards against missing a weak period: twice the cost every 512 calls, among 2% of random calls with that cost.
#[test]
fn a_weak_period_is_found() {
    let cost = |p: u32, n: u32| if n % 512 == 37 || hash(p, n, 3) < 0.02 { 2200.0 } else { 1000.0 };
    let found = judge(&dense(9, 10_000, cost), None, &Options::default()).outliers;
    assert_eq!(found.patterns[0].rule, PatternRule::Periodic { period: 512, phase: 37 });
    assert_eq!(found.recurring_count, 20);
}

/// Guards against false patterns: random outliers must give no recurring position.
#[test]
fn random_outliers_do_not_recur() {
    let cost = |p: u32, n: u32| if hash(p, n, 3) < 0.01 { 300_000.0 } else { 1000.0 };
    let found = judge(&dense(5, 10_000, cost), None, &Options::default()).outliers;
    assert!(found.recurring.is_empty(), "{:?}", found.recurring);
    assert!(found.isolated > 400);
}

/// Guards against averaging two modes, and against confusing modes by call with modes by pass (fork under Linux 2.4).
#[test]
fn modes_by_call_and_by_pass_are_distinguished() {
    let by_call = |p: u32, n: u32| if hash(p, n, 3) < 0.4 { 2000.0 + f64::from(n) } else { 1000.0 };
    let found = judge(&dense(5, 4000, by_call), None, &Options::default()).bimodality.unwrap();
    assert_eq!(found.kind, BimodalityKind::ByCall);
    assert!((found.high.share - 0.4).abs() < 0.1 && found.high.growth > 1.5, "{found:?}");
    assert!((found.low.growth - 1.0).abs() < 0.05, "{found:?}");
    let by_pass = dense(6, 4000, |p, _| if p % 2 == 0 { 1000.0 } else { 1800.0 });
    let found = judge(&by_pass, None, &Options::default()).bimodality.unwrap();
    assert_eq!(found.kind, BimodalityKind::ByPass);
    assert!(judge(&dense(6, 4000, |_, _| 1000.0), None, &Options::default()).bimodality.is_none());
}

/// Guards against reporting drift of the machine as growth: the canary rose by as much.
#[test]
fn a_drifting_canary_vetoes_growth() {
    let drifting = dense(5, 4000, |_, n| 1000.0 * (1.0 + 0.3 * f64::from(n) / 4000.0));
    let steady = dense(5, 4000, |p, n| 150.0 + hash(p, n, 9));
    let alone = judge(&drifting, Some(&steady), &Options::default());
    assert!(matches!(alone.all.outcome, Outcome::Grows { .. }), "{:?}", alone.all.outcome);
    let vetoed = judge(&drifting, Some(&drifting), &Options::default());
    assert!(vetoed.canary.unwrap().vetoes && vetoed.flags.contains(&Flag::CanaryMoved));
    assert!(matches!(vetoed.all.outcome, Outcome::Unresolved { reason: Reason::CanaryMoved, .. }));
}

/// Guards against a veto by a change of the canary beyond the first cliff, where nothing is judged, and against missing
/// a change before the cliff because the canary is calm beyond it.
#[test]
fn the_canary_counts_only_before_the_first_cliff() {
    let vetoes = |cliff: u32, cost: &dyn Fn(u32) -> f64| {
        let curve = dense(5, 10_000, |_, n| if n < cliff { 1000.0 } else { 10_000.0 });
        let mut canary = dense(5, 10_000, |_, n| 1500.0 * cost(n));
        // A reading for every 32 calls.
        for pass in &mut canary.passes {
            let of_calls = pass.n.iter().zip(&pass.costs).filter(|call| call.0 % 32 == 0);
            (pass.n, pass.costs) = of_calls.map(|(n, cost)| (*n, *cost)).unzip();
        }
        let found = judge(&curve, Some(&canary), &Options::default());
        assert_eq!(found.all.cliffs.len(), 1);
        found.canary.map(|canary| canary.vetoes)
    };
    let later = |cliff: u32| move |n: u32| if n < cliff { 1.0 } else { 1.25 };
    assert_eq!(vetoes(5_000, &later(5_000)), Some(false));
    // Before an early cliff there may be too few readings.
    assert_ne!(vetoes(400, &later(400)), Some(true));
    assert_eq!(vetoes(5_000, &|n| 1.0 + 0.2 * f64::from(n.min(5_000)) / 5_000.0), Some(true));
}

/// Guards against reporting growth of only the tagged calls without a flag, and against judging too few clean calls.
#[test]
fn clean_samples_are_judged_separately() {
    // Cheap calls scatter from 1 to 2 µs; from call 500 on, the tagged calls (two in five) cost 3 µs and raise the
    // median.
    let is_tagged = |share: f64, p: u32, n: u32| hash(p, n, 4) < share;
    let tagged = |share: f64| {
        let is_dear = |p: u32, n: u32| n > 500 && is_tagged(share, p, n);
        let cost = |p: u32, n: u32| if is_dear(p, n) { 3000.0 } else { 1000.0 + 1000.0 * hash(p, n, 5) };
        let mut curve = dense(9, 8000, cost);
        for (p, pass) in (0..).zip(&mut curve.passes) {
            pass.clean = pass.n.iter().map(|n| !is_tagged(share, p, *n)).collect();
        }
        judge(&curve, None, &Options::default())
    };
    let some = tagged(0.4);
    assert!(some.all.growth.unwrap().low > 1.1, "{:?}", some.all.outcome);
    assert!(matches!(some.clean.unwrap().outcome, Outcome::Flat { .. }));
    assert!(some.flags.contains(&Flag::CleanDiffers));
    let most = tagged(0.6);
    assert_eq!(most.clean, None);
}

/// Guards against missing flags.
#[test]
fn short_and_unequal_passes_are_flagged() {
    let mut curve = dense(3, 4000, |_, _| 60.0);
    curve.passes[1].n.truncate(3000);
    curve.passes[1].costs.truncate(3000);
    let options = Options { timer_overhead_ns: Some(20.0), ..Options::default() };
    let flags = judge(&curve, None, &options).flags;
    assert_eq!(flags, [Flag::NearTimerOverhead, Flag::FewPasses, Flag::UnequalLengths]);
}

/// Guards against losing the measurements of passes that ended at different n.
#[test]
fn unequal_passes_are_judged_where_most_arrived() {
    let mut curve = dense(5, 8000, |_, n| 1000.0 + 0.5 * f64::from(n));
    for (i, pass) in curve.passes.iter_mut().enumerate() {
        let length = [8000, 8000, 7000, 6900, 3000][i];
        pass.n.truncate(length);
        pass.costs.truncate(length);
    }
    let found = judge(&curve, None, &Options::default()).all;
    assert_eq!(found.outcome, Outcome::Grows { law: Some("linear".to_owned()) });
    assert!((6000.0..7100.0).contains(&found.range.unwrap().1), "{:?}", found.range);
    let slope = found.fit.unwrap().slope.unwrap();
    assert!((slope.value / 0.5125 - 1.0).abs() < 0.02, "{slope:?}");
}

/// Guards against an n for 1 ms that is not on the curve.
#[test]
fn the_n_of_one_millisecond_is_on_the_curve() {
    let seen = dense(5, 4000, |_, n| 400.0 * f64::from(n));
    let Reach::Measured { n } = judge(&seen, None, &Options::default()).all.one_million else {
        panic!("it is passed within the curve");
    };
    assert!((2000.0..3500.0).contains(&n), "{n}");
    let foretold = dense(5, 4000, |_, n| 1000.0 + 40.0 * f64::from(n));
    let Reach::Extrapolated { n } = judge(&foretold, None, &Options::default()).all.one_million else {
        panic!("it is passed beyond the curve");
    };
    assert!((n / 24_400.0 - 1.0).abs() < 0.03, "{n}");
    let flat = dense(5, 4000, |_, _| 1000.0);
    assert_eq!(judge(&flat, None, &Options::default()).all.one_million, Reach::Unknown);
}

/// Guards against naming a law of growth for a warm-up or a decreasing curve.
#[test]
fn decreasing_curves_are_called_decreasing() {
    let curve: Curve = dense(5, 4000, |_, n| 1000.0 + 2000.0 / (1.0 + f64::from(n) / 300.0));
    let found = judge(&curve, None, &Options::default()).all;
    assert_eq!(found.outcome, Outcome::Falls);
    assert!(found.exponent.unwrap().high < 0.0);
}

/// Guards against reporting a certain change that is smaller than the margin as flat, growing or noise.
#[test]
fn a_certain_change_within_the_margin_is_small() {
    let linear = |change: f64| dense(5, 4000, move |_, n| 100_000.0 * (1.0 + change * f64::from(n) / 4000.0));
    for change in [-0.08, 0.06, 0.08] {
        let found = judge(&linear(change), None, &Options::default());
        assert_eq!((&found.all.outcome, found.class()), (&Outcome::Small, Class::Small), "{change}");
    }
    // A change that is certain but not relevant is flat.
    for (change, class) in
        [(0.0, Class::Flat), (0.02, Class::Flat), (-0.03, Class::Flat), (0.2, Class::Material), (-0.2, Class::Material)]
    {
        assert_eq!(judge(&linear(change), None, &Options::default()).class(), class, "{change}");
    }
}

/// Guards against an elasticity that is not the growth per doubling, and against names that are not documented.
#[test]
fn elasticity_and_names_are_as_documented() {
    let found = judge(&dense(5, 4000, |_, n| 1e6 * f64::from(n).sqrt()), None, &Options::default()).all;
    assert!((found.elasticity.unwrap().value - 2_f64.sqrt()).abs() < 0.08, "{:?}", found.elasticity);
    let json = |outcome: Outcome| serde_json::to_value(outcome).unwrap()["kind"].clone();
    let unresolved = Outcome::Unresolved { reason: Reason::TooNoisy, more_passes: None };
    let all = [Outcome::Flat { within: 0.1 }, Outcome::Small, Outcome::Grows { law: None }, Outcome::Falls];
    let names: Vec<_> = all.into_iter().chain([Outcome::Varies, unresolved]).map(json).collect();
    assert_eq!(names, ["flat", "small_change", "grows", "falls", "varies", "unresolved"]);
}
