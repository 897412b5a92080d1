//! The claims of `.ci/claims.txt`, which `cargo xtask ci` measures. On simulated curves, each claim passes, and each
//! fails when an effect that it excludes is planted.

use super::{Answer, Source, check};
use crate::Analysis;
use crate::simulated::{SimulatedCase, record};
use landau_claims::{Assertion, Placed, Reference, Relation, Subject, parse_lines};
use landau_stats::Curve;
use landau_stats::dense::{Expected, Noise, Truth, simulate, truths};
use std::collections::BTreeMap;

const PASSES: usize = 5;
const SEEDS: [u64; 5] = [1, 2, 3, 5, 6];

/// A benchmark and its settings.
type Key = (String, Vec<(String, String)>);

fn claims() -> Vec<Placed> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/claims.txt")).unwrap();
    parse_lines(&text).unwrap()
}

fn key(subject: &Subject) -> Key {
    let settings = subject.words.iter().filter_map(|word| word.split_once('='));
    (subject.benchmark.clone(), settings.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Returns the phases that a subject names; each claim of the file names one, or all.
fn phases(subject: &Subject) -> Vec<String> {
    let named: Vec<&String> = subject.words.iter().filter(|word| !word.contains('=')).collect();
    match named.as_slice() {
        [all] if *all == "*" => vec![subject.benchmark.clone(), "close".to_owned()],
        [one] => vec![(*one).clone()],
        other => panic!("{subject}: {other:?}"),
    }
}

fn truth(calls: u32, is_it: impl Fn(&Truth) -> bool) -> Truth {
    truths(calls).into_iter().find(|truth| is_it(truth)).unwrap()
}

/// Returns a cost that satisfies a claim: proportional growth, or a constant.
fn lawful(assertion: &Assertion, calls: u32) -> Truth {
    let rises = match assertion {
        Assertion::Growth { relation, .. } => matches!(relation, Relation::Above | Relation::AtLeast),
        Assertion::AtMost { .. } | Assertion::Follows { .. } => true,
        _ => false,
    };
    let (group, detail) = if rises { ("linear", "×7") } else { ("constant", "") };
    truth(calls, |one| one.group == group && one.detail == detail)
}

/// Returns a cost that a claim excludes.
fn unlawful(assertion: &Assertion, calls: u32) -> Truth {
    let of = |group: &str, detail: &str| truth(calls, |one| one.group == group && one.detail == detail);
    match assertion {
        Assertion::Growth { relation: Relation::Above | Relation::AtLeast, .. } | Assertion::NoLimit { .. } => {
            of("constant", "")
        }
        Assertion::Growth { .. } | Assertion::Constant { .. } | Assertion::Ratio { .. } => of("linear", "×50"),
        Assertion::AtMost { .. } | Assertion::Follows { .. } => of("quadratic", "×50"),
        Assertion::NoCliff { .. } => truth(calls, |one| {
            let middle = f64::from(calls) / 2.0;
            matches!(one.expected, Expected::Cliff { n, factor } if factor > 5.0 && (n / middle - 1.0).abs() < 0.01)
        }),
        other => panic!("plant what {other:?} excludes"),
    }
}

/// Returns the cases of all claims. Their curves satisfy every claim except the claim `planted`.
fn cases(all: &[Placed], planted: Option<usize>, seed: u64) -> Vec<SimulatedCase> {
    let mut calls: BTreeMap<Key, u32> = BTreeMap::new();
    for claim in all.iter().map(|one| &one.claim) {
        let steps = claim.steps().unwrap() as u32;
        let longest = calls.entry(key(&claim.subject)).or_default();
        *longest = steps.max(*longest);
    }
    let mut curves: BTreeMap<Key, BTreeMap<String, Truth>> = BTreeMap::new();
    for claim in all.iter().map(|one| &one.claim) {
        let of_case = curves.entry(key(&claim.subject)).or_default();
        for phase in phases(&claim.subject) {
            let truth = lawful(&claim.assertion, calls[&key(&claim.subject)]);
            // A claim that the cost grows takes precedence over one that it has no cliff.
            if truth.group != "constant" || !of_case.contains_key(&phase) {
                of_case.insert(phase, truth);
            }
        }
    }
    let mut limits = BTreeMap::new();
    if let Some(claim) = planted.map(|index| &all[index].claim) {
        let (key, phase) = (key(&claim.subject), phases(&claim.subject).remove(0));
        let truth = unlawful(&claim.assertion, calls[&key]);
        if let Assertion::NoLimit { below } = claim.assertion {
            limits.insert(key.clone(), vec![below.unwrap() / 2; PASSES]);
        }
        curves.get_mut(&key).unwrap().insert(phase, truth);
    }
    let noise = Noise::of_call(0.05);
    let case = |(key, phases): (Key, BTreeMap<String, Truth>)| {
        let simulated = |(name, truth): (String, Truth)| -> (String, Curve) {
            let own = name.bytes().chain(key.0.bytes()).map(u64::from).sum::<u64>();
            // With a multiple of four, the curve would be measured on the way down, with the cold calls at the largest
            // n.
            (name, simulate(&truth, &noise, calls[&key], PASSES, 4 * (1_000 * seed + own) + 1))
        };
        SimulatedCase {
            benchmark: key.0.clone(),
            settings: key.1.clone(),
            limits: limits.get(&key).cloned().unwrap_or_default(),
            phases: phases.into_iter().map(simulated).collect(),
        }
    };
    curves.into_iter().map(case).collect()
}

/// Returns the answers from a record to some of the claims.
fn answers(cases: &[SimulatedCase], claims: &[Placed]) -> Vec<(Answer, String)> {
    let record = record(cases);
    let analysis = Analysis::of(&record);
    let source = Source { analysis: &analysis, name: "simulated" };
    claims.iter().map(|one| check(one, source, None)).map(|one| (one.answer, one.text)).collect()
}

#[test]
fn there_are_at_least_ten_about_growth() {
    let about_growth =
        |one: &&Placed| !matches!(one.claim.assertion, Assertion::NoLimit { .. } | Assertion::NoCliff { .. });
    assert!(claims().iter().filter(about_growth).count() >= 10);
    let named = |one: &Placed| match &one.claim.assertion {
        Assertion::Ratio { of: Reference::Subject(other), .. } => !other.words.is_empty(),
        Assertion::Ratio { of: Reference::Base, .. } => false,
        _ => true,
    };
    assert!(claims().iter().all(named), "there is no base in CI");
}

/// In five simulated runs, no claim fails falsely, and nearly all pass.
#[test]
fn each_passes_where_it_holds() {
    let claims = claims();
    let mut passed = vec![0; claims.len()];
    for seed in SEEDS {
        for ((one, count), (answer, text)) in
            claims.iter().zip(&mut passed).zip(answers(&cases(&claims, None, seed), &claims))
        {
            assert_ne!(answer, Answer::Fail, "{seed}: {}: {text}", one.text);
            *count += usize::from(answer == Answer::Pass);
        }
    }
    for (one, count) in claims.iter().zip(passed) {
        assert!(count >= 4, "{}: {count} of {}", one.text, SEEDS.len());
    }
}

/// Guards against a claim that cannot fail.
#[test]
fn each_fails_when_its_effect_is_planted() {
    let claims = claims();
    for (index, one) in claims.iter().enumerate() {
        let mut failed = 0;
        for seed in SEEDS {
            // Judges only the cases of this claim.
            let of_claim = |case: &SimulatedCase| case.benchmark == one.claim.subject.benchmark;
            let cases: Vec<SimulatedCase> = cases(&claims, Some(index), seed).into_iter().filter(of_claim).collect();
            let (answer, text) = answers(&cases, &claims[index..=index]).remove(0);
            assert_ne!(answer, Answer::Pass, "{seed}: {}: {text}", one.text);
            failed += usize::from(answer == Answer::Fail);
        }
        assert!(failed >= 4, "{}: fails in {failed} of {}", one.text, SEEDS.len());
    }
}
