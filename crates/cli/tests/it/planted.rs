//! Every claim in `.ci/claims.txt` passes, and fails if the costs that it denies are planted. Each is checked by
//! `landau check` on a record.
//!
//! The cases of the record come from a run. Its samples are simulated, so that no answer depends on the machine.

use crate::support::Room;
use landau_claims::{Assertion, Claim, Law, Reference, Relation, Subject, parse_lines};
use landau_record::schema::{
    Case, Chunk, Direction, End, EndOutcome, Facts, Limit, Line, Outcome, PassEnd, PassStart, Samples,
};
use landau_record::{Record, Writer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

const CLAIMS: &str = include_str!("../../../../.ci/claims.txt");
const PASSES: u32 = 5;
/// The usual cost of a call.
const USUAL_NS: f64 = 1_000.0;

/// Returns the cost of a call of a phase at an n; `None` if the kernel refuses the object.
type Costs<'a> = &'a dyn Fn(&Case, &str, f64) -> Option<f64>;

/// Returns the settings that a subject names.
fn settings(subject: &Subject) -> impl Iterator<Item = (&str, &str)> {
    subject.words.iter().filter_map(|word| word.split_once('='))
}

fn is_of(subject: &Subject, case: &Case) -> bool {
    let is_set = |(name, value): (&str, &str)| case.settings.get(name).is_some_and(|held| held == value);
    subject.benchmark == case.benchmark && settings(subject).all(is_set)
}

/// Returns the phase that a claim is about; one of the phases if it is about all.
fn phase_of<'a>(subject: &'a Subject, case: &'a Case) -> &'a str {
    let names = || case.phases.iter().map(|phase| phase.name.as_str());
    let named = subject.words.iter().map(String::as_str).find(|word| !word.contains('='));
    let phase = match named {
        Some("*") => names().next_back(),
        Some(name) => Some(name),
        None => names().find(|name| *name == case.benchmark).or_else(|| names().next()),
    };
    phase.unwrap()
}

/// Returns costs for which every claim holds: `poll()` visits each descriptor, everything else costs the same at every
/// n.
fn usual(case: &Case, n: f64) -> f64 {
    let is_poll = case.settings.get("backend").is_some_and(|backend| backend == "poll");
    if is_poll { USUAL_NS / 2.0 + 5.0 * n } else { USUAL_NS }
}

/// Returns the cost that a claim denies; `None` for a refused object.
fn planted(claim: &Claim, cases: &[Case], case: &Case, n: f64) -> Option<f64> {
    let end = claim.n().unwrap_or(case.n) as f64;
    match &claim.assertion {
        Assertion::Growth { relation: Relation::Below | Relation::AtMost, factor, .. } => {
            Some(USUAL_NS * (1.0 + (3.0 * factor - 1.0) * n / end))
        }
        Assertion::Growth { .. } => Some(USUAL_NS),
        Assertion::AtMost { law, .. } if *law < Law::Quadratic => Some(USUAL_NS / 10.0 + n * n / 10.0),
        Assertion::NoCliff { .. } => Some(usual(case, n) * if n < 0.7 * end { 1.0 } else { 10.0 }),
        Assertion::NoLimit { .. } => (n < 0.5 * end).then(|| usual(case, n)),
        Assertion::Ratio { relation: Relation::Below, of: Reference::Subject(other), .. } => {
            let other = cases.iter().find(|case| is_of(other, case)).unwrap();
            Some(usual(other, n))
        }
        other => panic!("say here what `{other:?}` denies"),
    }
}

/// Returns a pseudo-random number in [-1, 1).
fn noise(words: [u64; 4]) -> f64 {
    let mixed = words.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (sum ^ sum >> 29).wrapping_mul(0x94d0_49bb_1331_11eb) ^ sum >> 32
    });
    (mixed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// Writes the record of five passes of the cases with these costs. Passes differ by up to 0.5%, calls by up to 3%.
fn write(path: &Path, base: &Record, cases: &[Case], costs: Costs<'_>) {
    let mut writer = Writer::create(path).unwrap();
    let mut append = |line: Line| writer.append(&line).unwrap();
    let mut header = base.header.clone();
    (header.pass_count, header.case_count) = (PASSES, cases.len() as u32);
    append(Line::Header(header));
    append(Line::Host(Box::new(base.host.clone())));
    for case in cases {
        append(Line::Case(case.clone()));
    }
    let mut pass = 0;
    for round in 0..PASSES {
        for case in cases {
            let at_ms = u64::from(pass) * 100;
            append(Line::Pass(PassStart { pass, case: case.case, round, at_ms, adaptive_for: Vec::new() }));
            let is_made = |n: &u64| case.phases.iter().all(|phase| costs(case, &phase.name, *n as f64).is_some());
            let steps = (1..=case.n).take_while(is_made).count() as u64;
            for (index, phase) in case.phases.iter().enumerate() {
                let sample = |n: u64| {
                    let cost = costs(case, &phase.name, n as f64).unwrap();
                    let own = noise([u64::from(pass), index as u64, n, 1]);
                    let of_pass = noise([u64::from(pass), index as u64, 0, 2]);
                    (cost * (1.0 + 0.03 * own) * (1.0 + 0.005 * of_pass)).round() as u64
                };
                let (first, stride, values) = match phase.direction {
                    Direction::Up => (1, 1, (1..=steps).map(sample).collect()),
                    Direction::Down => (steps as u32, -1, (1..=steps).rev().map(sample).collect()),
                };
                let samples = Samples::new(base.unit(), values);
                append(Line::Chunk(Chunk { pass, phase: phase.name.clone(), first, stride, samples }));
            }
            let limit = (steps < case.n).then(|| Limit {
                n: steps + 1,
                call: "socket".to_owned(),
                errno: 24,
                error: "EMFILE".to_owned(),
                meaning: "planted".to_owned(),
                raise: String::new(),
            });
            let outcome = if limit.is_some() { Outcome::Limit } else { Outcome::Done };
            let facts = Facts::default();
            append(Line::PassEnd(PassEnd { pass, outcome, steps, elapsed_ms: 50, limit, error: None, facts }));
            pass += 1;
        }
    }
    let line_count = writer.line_count();
    writer.append(&Line::End(End { outcome: EndOutcome::Complete, line_count, elapsed_ms: 1 })).unwrap();
    writer.flush().unwrap();
}

/// Measures the cases of the claims with one pass, each up to the largest n of its claims.
fn measured(room: &Room, claims: &[Claim]) -> Record {
    let mut words: BTreeMap<String, u64> = BTreeMap::new();
    for claim in claims {
        let other = match &claim.assertion {
            Assertion::Ratio { of: Reference::Subject(other), .. } => Some(other),
            _ => None,
        };
        for subject in std::iter::once(&claim.subject).chain(other) {
            let set = settings(subject).map(|(name, value)| format!("{name}={value}"));
            let word: Vec<String> = std::iter::once(subject.benchmark.clone()).chain(set).collect();
            let n = words.entry(word.join(".")).or_default();
            *n = (*n).max(claim.steps().expect("each claim names its n"));
        }
    }
    let cases: Vec<String> = words.iter().map(|(word, n)| format!("{word}.n={n}")).collect();
    let mut command = vec!["run", "--quiet", "--passes", "1", "--no-report", "--output", "base.ndjson"];
    for case in &cases {
        command.extend(["--case", case]);
    }
    let ran = room.landau(&command);
    let base = room.record("base.ndjson");
    assert_eq!(base.cases.len(), cases.len(), "{ran:?}");
    base
}

#[test]
fn each_claim_passes_and_fails_when_its_effect_is_planted() {
    let room = Room::new();
    let placed = parse_lines(CLAIMS).unwrap();
    let claims: Vec<Claim> = placed.iter().map(|one| one.claim.clone()).collect();
    let base = measured(&room, &claims);
    let check = |text: &str| room.landau(&["check", "--claim", text, "planted.ndjson"]);

    std::fs::write(room.file("claims.txt"), CLAIMS).unwrap();
    write(&room.file("usual.ndjson"), &base, &base.cases, &|case, _, n| Some(usual(case, n)));
    assert_eq!(room.landau(&["verify", "usual.ndjson"]).status, Some(0));
    let ran = room.landau(&["check", "claims.txt", "usual.ndjson"]);
    let all_pass = format!("\n{} pass, 0 fail, 0 inconclusive\n", claims.len());
    assert!(ran.status == Some(0) && ran.out.ends_with(&all_pass), "{}", ran.out);

    for (claim, text) in claims.iter().zip(placed.iter().map(|one| &one.text)) {
        let is_needed = |case: &&Case| {
            let other = match &claim.assertion {
                Assertion::Ratio { of: Reference::Subject(other), .. } => is_of(other, case),
                _ => false,
            };
            other || is_of(&claim.subject, case)
        };
        let cases: Vec<Case> = base.cases.iter().filter(is_needed).cloned().collect();
        let cases: Vec<Case> = (0..).zip(cases).map(|(number, case)| Case { case: number, ..case }).collect();
        let costs = |case: &Case, phase: &str, n: f64| {
            if is_of(&claim.subject, case) && phase == phase_of(&claim.subject, case) {
                planted(claim, &cases, case, n)
            } else {
                Some(usual(case, n))
            }
        };
        write(&room.file("planted.ndjson"), &base, &cases, &costs);
        let ran = check(text);
        assert!(ran.status == Some(1) && ran.out.contains("0 pass, 1 fail, 0 inconclusive"), "{text}: {}", ran.out);
        println!("{}", ran.out.lines().take(2).collect::<Vec<_>>().join(" "));
        std::fs::remove_file(room.file("planted.ndjson")).unwrap();
    }
}

/// Guards against a claim that is decided by the state of the machine, and against an answer that does not mention that
/// state.
#[test]
fn a_claim_over_the_base_is_open_where_the_costs_of_most_curves_differ() {
    const COPIES: u32 = 12;
    let room = Room::new();
    let words = ["run", "--quiet", "--passes", "1", "--no-report", "--output", "base.ndjson", "--case", "dup.n=300"];
    assert_eq!(room.landau(&words).status, Some(0));
    let mut base = room.record("base.ndjson");
    base.host.processor = "a processor".to_owned();
    let copy = |case| Case { case, label: format!("dup copy={case}"), ..base.cases[0].clone() };
    let cases: Vec<Case> = (0..COPIES).map(copy).collect();
    write(&room.file("old.ndjson"), &base, &cases, &|_, _, _| Some(USUAL_NS));
    // A different run, so that passes are not paired.
    base.header.started = "2100-01-02T03:04:05Z".to_owned();
    write(&room.file("new.ndjson"), &base, &cases, &|_, _, _| Some(1.5 * USUAL_NS));
    let check = |words: &[&str]| {
        let claims = ["check", "--claim", "dup: < 1.1x base at 200", "--claim", "dup: < 9us at 200", "new.ndjson"];
        room.landau(&[&claims, words].concat())
    };
    let ran = check(&["--base", "old.ndjson", "--json"]);
    let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!((ran.status, value["claims"][1]["answer"].as_str()), (Some(125), Some("pass")), "{value}");
    let compared: Value =
        serde_json::from_str(&room.landau(&["compare", "old.ndjson", "new.ndjson", "--json"]).out).unwrap();
    let shift = &value["shifts"][0];
    for name in ["curves", "ratio", "deviation"] {
        assert!(shift[name].is_number() && shift[name] == compared["shift"][name], "{name}: {value}");
    }
    let told = check(&["--base", "old.ndjson"]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.matches(shift["text"].as_str().unwrap()).count() == 1, "{told}");
    assert!(told.ends_with("1 pass, 0 fail, 1 inconclusive"), "{told}");
    // If no claim needs the base, shifts are not searched for.
    let words = ["check", "--claim", "dup: < 9us at 200", "new.ndjson", "--base", "old.ndjson", "--json"];
    let value: Value = serde_json::from_str(&room.landau(&words).out).unwrap();
    assert_eq!((&value["answer"], &value["shifts"]), (&"pass".into(), &Value::Array(Vec::new())), "{value}");
}
