//! Comparisons of two curves.

use crate::synthetic::dense;
use landau_stats::simulate::{Noise, Truth, simulate};
use landau_stats::{Agreement, Change, Comparison, Curve, Nature, Options, Pass, Unit, compare, holm};

fn curve(truth: Truth, seed: u64) -> Curve {
    simulate(truth, Noise::of_cell(0.01), 9, seed)
}

fn scaled(mut curve: Curve, factor: f64) -> Curve {
    let calls = curve.passes.iter_mut().flat_map(|pass| &mut pass.costs);
    calls.for_each(|ns| *ns = (*ns as f64 * factor).round() as u64);
    curve
}

fn is_none(one: &Comparison) -> bool {
    matches!(one.change, Change::NoDifferenceProven)
}

/// Guards against false differences: of ten reports with six A/A comparisons each, at most one may show a difference.
#[test]
fn equal_curves_show_no_difference() {
    let options = Options::default();
    let loud = (0..10).filter(|report| {
        let one = |i: u64| {
            let truth = Truth::ALL[(i % 11) as usize];
            compare(&curve(truth, 100 * report + i), &curve(truth, 50_000 + 100 * report + i), &options)
        };
        let mut all: Vec<Comparison> = (0..6).map(one).collect();
        holm(&mut all);
        assert!(all.iter().all(|one| one.p_adjusted >= one.p));
        !all.iter().all(is_none)
    });
    assert!(loud.count() <= 1);
}

/// Guards against a real difference being missed or reversed, and against an interval without the true ratio.
#[test]
fn a_real_difference_is_detected() {
    let base = curve(Truth::Linear, 1);
    let slower = compare(&base, &scaled(curve(Truth::Linear, 2), 1.25), &Options::default());
    assert_eq!(slower.change, Change::Slower);
    assert!(slower.ratio.unwrap().holds(1.25), "{:?}", slower.ratio);
    assert_eq!(slower.same_law, Agreement::Same);
    assert_eq!(slower.same_slope, Agreement::Different);
    let faster = compare(&scaled(curve(Truth::Linear, 2), 1.25), &base, &Options::default());
    assert_eq!(faster.change, Change::Faster);
}

/// Guards against ignoring pairs: paired passes with shared offsets detect a difference that unpaired ones do not.
#[test]
fn pairs_detect_smaller_differences() {
    let base = curve(Truth::Constant, 1);
    let other = scaled(base.clone(), 1.03);
    let options = Options { paired: true, ..Options::default() };
    assert_eq!(compare(&base, &other, &options).change, Change::Slower);
    let unpaired = compare(&base, &other, &Options::default());
    assert!(is_none(&unpaired) && unpaired.detectable.is_some());
}

/// Guards against missing or misplacing the crossing of a cheap linear and an expensive flat curve.
#[test]
fn crossings_are_found() {
    // 0.5 · (1000 + 0.3 n) reaches 1000 at n = 3,333.
    let linear = scaled(curve(Truth::Linear, 2), 0.5);
    let found = compare(&curve(Truth::Constant, 1), &linear, &Options::default());
    let crossing = found.crossing.unwrap();
    assert!(crossing.n.low < 3600.0 && crossing.n.high > 3100.0 && crossing.share > 0.95, "{crossing:?}");
    assert_eq!((found.same_law, found.same_growth), (Agreement::Different, Agreement::Different));
    let same = compare(&curve(Truth::Constant, 1), &curve(Truth::Constant, 2), &Options::default());
    assert_eq!(same.crossing, None);
}

/// Guards against a comparison of single passes or without a common range.
#[test]
fn single_passes_and_disjoint_ranges_are_not_compared() {
    let one = simulate(Truth::Linear, Noise::of_cell(0.01), 1, 1);
    let found = compare(&one, &curve(Truth::Linear, 2), &Options::default());
    assert!(is_none(&found) && found.ratio.is_none());
    let nothing = compare(&Curve::default(), &one, &Options::default());
    assert!(nothing.ratio.is_none());
}

/// Guards against reporting a changed law as a slower program: law, factor and amount are distinguished.
#[test]
fn law_factor_and_amount_are_told_apart() {
    let calm = |truth, seed| simulate(truth, Noise { tail: 0.0, ..Noise::of_cell(0.01) }, 9, seed);
    let options = Options { between_runs: 0.01, growth_between_runs: 0.01, ..Options::default() };
    let nature = |b: Curve| compare(&calm(Truth::Linear, 1), &b, &options).nature;
    assert_eq!(nature(scaled(calm(Truth::Linear, 2), 1.25)), Nature::Factor);
    assert_eq!(nature(calm(Truth::Constant, 2)), Nature::Law);
    let mut dearer = calm(Truth::Linear, 2);
    dearer.passes.iter_mut().flat_map(|pass| &mut pass.costs).for_each(|ns| *ns += 2000);
    assert_eq!(nature(dearer), Nature::Amount);
    // Two flat curves whose growths are too uncertain to be compared: "flat" together with "not shown" would be
    // confusing.
    let flat = |verdict: &landau_stats::Verdict| matches!(verdict.all.outcome, landau_stats::Outcome::Flat { .. });
    let noisy = |seed| simulate(Truth::Constant, Noise { tail: 0.0, ..Noise::of_cell(0.1) }, 5, seed);
    let found = (1..20).map(|seed| compare(&noisy(seed), &scaled(noisy(100 + seed), 1.5), &options));
    let is_open = |one: &Comparison| flat(&one.a) && flat(&one.b) && one.same_growth == Agreement::Inconclusive;
    let natures: Vec<Nature> = found.filter(is_open).map(|one| one.nature).collect();
    assert!(!natures.is_empty() && natures.iter().all(|nature| *nature == Nature::Factor), "{natures:?}");
}

fn counted(cost: impl Fn(f64) -> f64) -> Curve {
    let n: Vec<u32> = (1..=4000).collect();
    let costs = n.iter().map(|&n| cost(f64::from(n)).round() as u64).collect();
    let pass = Pass { clean: vec![true; n.len()], n, costs };
    Curve { passes: vec![pass; 3], ..Curve::default() }
}

/// Guards against reporting growths that differ by 3% as another law, and against a ratio other than that of the ends.
#[test]
fn growths_within_delta_are_a_constant_factor_and_ends_are_exact() {
    let (base, other) = (counted(|n| 1000.0 + n), counted(|n| 2000.0 + 2.08 * n));
    let found = compare(&base, &other, &Options { unit: Unit::Instructions, ..Options::default() });
    assert_eq!(found.same_growth, Agreement::Different, "{:?}", found.growth_ratio);
    assert_eq!(found.nature, Nature::Factor);
    let end = |judged: &landau_stats::Judgement| judged.end.unwrap().value;
    let (ratio, ends) = (found.ratio_end.unwrap().value, end(&found.b.all) / end(&found.a.all));
    assert!((ratio / ends - 1.0).abs() < 1e-9, "{ratio}, but the ends give {ends}");
    let steeper = counted(|n| 2000.0 + 3.0 * n);
    let found = compare(&base, &steeper, &Options { unit: Unit::Instructions, ..Options::default() });
    assert_eq!(found.nature, Nature::Law);
}

/// Guards against an interval with two degrees of freedom: five passes on each side must detect 25% among a hundred
/// comparisons.
#[test]
fn five_passes_detect_a_quarter_among_a_hundred() {
    let five = |seed| simulate(Truth::Constant, Noise::of_cell(0.01), 5, seed);
    let options = Options { between_runs: 0.02, ..Options::default() };
    let mut all: Vec<Comparison> = (0..99).map(|i| compare(&five(i), &five(1000 + i), &options)).collect();
    all.push(compare(&five(1), &scaled(five(2000), 1.25), &options));
    holm(&mut all);
    assert_eq!(all[99].change, Change::Slower, "{:?} {}", all[99].ratio, all[99].p_adjusted);
    assert!(all[..99].iter().all(is_none));
}

/// Guards against finding no common point in curves with an early cliff: the compared range ends at the cliff, so it
/// starts as early as that of the verdicts.
#[test]
fn curves_are_compared_before_an_early_cliff() {
    let curve = |factor: f64| dense(5, 20_000, |_, n| factor * if n < 400 { 1_000.0 } else { 10_000.0 });
    let found = compare(&curve(1.0), &curve(1.5), &Options::default());
    assert_eq!(found.a.all.cliffs[0].n.value.to_bits(), 400_f64.to_bits());
    assert!(found.ratio.is_some_and(|ratio| ratio.holds(1.5)), "{:?}", found.ratio);
    assert!(found.n.is_some_and(|[first, _, last]| first < 100.0 && last < 400.0), "{:?}", found.n);
    assert_eq!(found.change, Change::Slower);
}

/// Guards against reporting "costs 98% less" where only the last point does.
#[test]
fn a_last_point_unlike_the_others_is_no_end() {
    let options = Options { unit: Unit::Instructions, ..Options::default() };
    let (base, dropped) = (counted(|_| 90_000.0), counted(|n| if n > 3_850.0 { 3_000.0 } else { 90_000.0 }));
    let found = compare(&base, &dropped, &options);
    assert!(found.ratio_end.is_none() && found.ratio.is_some(), "{:?}", found.ratio_end);
    assert!(compare(&base, &counted(|_| 3_000.0), &options).ratio_end.is_some());
}

/// Plants an effect that a new version may have on a call, and that a comparison must find.
fn planted(effect: &str, base: &Curve) -> Curve {
    let mut new = base.clone();
    for pass in &mut new.passes {
        for (n, cost) in pass.n.iter().zip(&mut pass.costs) {
            let factor = match effect {
                "3%" => 1.03,
                "10%" => 1.10,
                "linear" => 1.0 + 0.001 * f64::from(*n),
                "cliff" if *n >= 2_500 => 10.0,
                _ => 1.0,
            };
            *cost = (*cost as f64 * factor).round() as u64;
        }
    }
    new
}

/// Returns two versions of a call whose passes ran side by side, nine of each.
pub(crate) fn side_by_side(seed: u64) -> (Curve, Curve) {
    in_turn(seed, 9)
}

/// Returns two versions of a call whose passes ran side by side. They share the state of the machine in a round (3%),
/// and each pass has a separate error.
fn in_turn(seed: u64, passes: usize) -> (Curve, Curve) {
    use landau_stats::dense::{Noise, simulate, truths};
    // Cold calls are a property of the benchmark and depend on the seed; with them the two curves would differ.
    let noise = Noise { pass: 0.005, drift: 0.01, warm_up: false, ..Noise::of_call(0.05) };
    let rounds = [0.97, 1.02, 1.0, 1.04, 0.99, 1.01, 0.96, 1.03, 1.0];
    let run = |seed| {
        let mut curve = simulate(&truths(4_000)[0], &noise, 4_000, passes, seed);
        for (pass, factor) in curve.passes.iter_mut().zip(rounds.iter().cycle()) {
            pass.costs.iter_mut().for_each(|cost| *cost = (*cost as f64 * factor).round() as u64);
        }
        curve
    };
    // These seeds measure on the way up.
    (run(8 * seed + 1), run(8 * seed + 2))
}

/// Returns the number of reports of each kind; `LANDAU_REPORTS` sets another number.
fn report_count() -> u64 {
    std::env::var("LANDAU_REPORTS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// Simulates reports for each effect, with ten comparisons paired by round, one of them with the effect. Prints how
/// often the effect is found, with its law, and how many reports show a difference or a change of growth among the nine
/// others.
#[test]
fn planted_effects_are_found_among_others() {
    let options = Options { paired: true, ..Options::default() };
    let count = report_count();
    let compared = |(a, b): (Curve, Curve), effect: &str| compare(&a, &planted(effect, &b), &options);
    let others = |report: u64| (0..9).map(move |i| compared(side_by_side(100_000 + 9 * report + i), "none"));
    let reports: Vec<Vec<Comparison>> = (0..count).map(|report| others(report).collect()).collect();
    let mut rows = Vec::new();
    for effect in ["3%", "10%", "linear", "cliff"] {
        let (mut found, mut winners, mut growths) = (0, 0, 0);
        for (seed, others) in (0..).zip(&reports) {
            let mut all = vec![compared(side_by_side(seed), effect)];
            all.extend(others.iter().cloned());
            holm(&mut all);
            let one = &all[0];
            let law = one.b.all.fit.as_ref().map(|fit| fit.law.as_str());
            let is_at_place = |n: f64| (n - 2_500.0).abs() < 50.0;
            found += u64::from(match effect {
                "3%" | "10%" => one.change == Change::Slower && one.nature != Nature::Law,
                "linear" => {
                    one.is_growth_changed(0.02) && one.same_law == Agreement::Different && law == Some("linear")
                }
                _ => one.a.all.cliffs.is_empty() && one.b.all.cliffs.iter().any(|cliff| is_at_place(cliff.n.value)),
            });
            winners += u64::from(!all[1..].iter().all(is_none));
            growths += u64::from(all[1..].iter().any(|other| other.is_growth_changed(0.02)));
        }
        println!("{effect}: found in {found} of {count}; false winner in {winners}, false growth in {growths}");
        rows.push((effect, found, winners, growths));
    }
    for (effect, found, winners, growths) in rows {
        let told = format!("{effect}: {found} of {count}, {winners}, {growths}");
        assert!(found * 100 >= count * 90 && winners * 20 <= count.max(20) * 2 && growths * 10 <= count, "{told}");
    }
}

/// Tests how many passes a difference of 3% requires: alone, and if ten or a hundred curves are corrected together. The
/// smallest p value of a report is multiplied by their number.
#[test]
fn a_difference_of_three_percent_takes_enough_passes() {
    let options = Options { paired: true, ..Options::default() };
    let count = report_count();
    let passes = if count > 20 { vec![5, 7, 9, 11, 13, 15] } else { vec![15] };
    for passes in passes {
        let one = |seed| {
            let (a, b) = in_turn(seed, passes);
            let found = compare(&a, &planted("3%", &b), &options);
            (found.p, found.ratio.map_or(1.0, |ratio| ratio.value))
        };
        let all: Vec<(f64, f64)> = (0..count).map(one).collect();
        let shown = |curves: f64| all.iter().filter(|(p, ratio)| p * curves < 0.05 && *ratio >= 1.02).count() as u64;
        let found = [1.0, 10.0, 100.0].map(shown);
        println!("{passes} passes: found in {found:?} of {count} among 1, 10 and 100 curves");
        assert!(passes < 15 || found[1] * 100 >= count * 90, "{passes} passes: {found:?} of {count}");
    }
}
