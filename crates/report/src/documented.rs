//! Checks the members of the JSON of `landau compare` and `landau check` against the tables of docs/compare.md: the
//! tables must document every member, and nothing that does not exist.

use crate::Shift;
use crate::claims::{Answer, Checked, Decided, Report, Shifted};
use crate::compared::{Alarm, CliffChange, Compared, CurveComparison, Laws, LimitChange, Met, NotCompared, Quantity};
use crate::compared::{RatioAt, Side};
use crate::quantity::Unit;
use landau_record::schema::Direction;
use landau_stats::claim::Evidence;
use landau_stats::{Agreement, Change, Cliff, Crossing, Estimate, Nature, Outcome, PatternRule, Reason};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

const ONE: Estimate = Estimate { value: 1.0, low: 0.9, high: 1.1 };

/// Collects the paths of a value's members: `curves[]`, `curves[].at[].n`. An interval is a leaf. `new` has the members
/// of `base`.
fn paths(value: &Value, before: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) if !["value", "low", "high"].iter().all(|name| members.contains_key(*name)) => {
            for (name, value) in members {
                let inner = if name == "new" && value.is_object() { "base" } else { name.as_str() };
                let path = |name: &str| if before.is_empty() { name.to_owned() } else { format!("{before}.{name}") };
                found.insert(format!("{}{}", path(name), if value.is_array() { "[]" } else { "" }));
                paths(value, &path(inner), found);
            }
        }
        Value::Array(all) => all.iter().for_each(|one| paths(one, &format!("{before}[]"), found)),
        _ => {}
    }
}

fn members(value: &impl Serialize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    paths(&serde_json::to_value(value).unwrap(), "", &mut found);
    found
}

/// Returns the members that the tables of a section of docs/compare.md document. The head of a table names the parent:
/// "member of `curves[]`".
fn documented(section: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compare.md")).unwrap();
    let section = text.split_once(section).unwrap_or_else(|| panic!("no section {section}")).1;
    let section = section.split("\n## ").next().unwrap().split("\n### ").next().unwrap();
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<String>>();
    let (mut found, mut of) = (BTreeSet::new(), String::new());
    for line in section.lines().filter(|line| line.starts_with("| ")) {
        let cell = line.trim_start_matches("| ").split(" | ").next().unwrap();
        if cell.starts_with("member") {
            of = quoted(cell).first().map_or(String::new(), |path| format!("{path}."));
        } else {
            found.extend(quoted(cell).into_iter().map(|name| format!("{of}{name}")));
        }
    }
    found
}

const SHIFT: Shift =
    Shift { base: 0, other: 1, curves: 20, ratio: 1.1, deviation: 0.1, growth_deviation: 0.0, detectable: Some(0.3) };

fn compared() -> Compared {
    let side = Side { name: String::new(), host: String::new(), started: String::new(), study: String::new() };
    let quantity = Quantity { ratio: Some(ONE), same: Agreement::Same, p_adjusted: None };
    let cliff = Cliff {
        n: ONE,
        factor: 3.0,
        factor_over_start: 3.0,
        cost_after: 3.0,
        passes: 5,
        of: 5,
        annotation: Some(String::new()),
    };
    let rules = [PatternRule::PowersOfTwo { offset: 3 }, PatternRule::Periodic { period: 64, phase: 1 }];
    let outliers = rules.map(|rule| landau_stats::OutlierChange {
        came: true,
        rule: Some(rule),
        first_n: 1,
        positions: 2,
        shares: [0.0, 1.0],
    });
    let curve = CurveComparison {
        benchmark: String::new(),
        case: String::new(),
        base_case: String::new(),
        phase: String::new(),
        direction: Direction::Up,
        axis: String::new(),
        paired: true,
        changed: true,
        result: Change::Faster,
        p_adjusted: 0.0,
        ratio: Some(ONE),
        at: vec![RatioAt { n: 1.0, ratio: Some(ONE) }],
        detectable: Some(0.1),
        error: None,
        nature: Nature::Factor,
        law: Laws {
            base: Some("O(1)"),
            new: Some("O(n)"),
            outcomes: [String::new(), String::new()],
            same: Agreement::Different,
            common: Some("O(n)"),
        },
        growth: Quantity { p_adjusted: Some(0.0), ..quantity },
        growth_changed: true,
        slope: quantity,
        fixed_cost: quantity,
        crossing: Some(Crossing { n: ONE, share: 1.0 }),
        cliffs: vec![CliffChange { base: Some(cliff.clone()), new: Some(cliff) }],
        outliers: outliers.to_vec(),
        text: String::new(),
    };
    let met = Met { call: String::new(), error: String::new(), n: (1, 2), meaning: String::new() };
    let (base, new) = (Some(met.clone()), Some(met));
    Compared {
        base: side.clone(),
        new: side,
        variants: false,
        differences: Vec::new(),
        shift: Some(SHIFT),
        unit: Unit::Time,
        alarms: vec![Alarm { kind: "failed", text: String::new() }],
        curves: vec![curve],
        limits: vec![LimitChange { case: String::new(), base, new, text: String::new() }],
        not_compared: vec![NotCompared { case: String::new(), phase: Some(String::new()), reason: String::new() }],
    }
}

/// Returns every kind of evidence, with every member.
fn evidence() -> Vec<Evidence> {
    let outcomes = [
        Outcome::Flat { within: 0.1 },
        Outcome::Grows { law: Some("linear".to_owned()) },
        Outcome::Unresolved { reason: Reason::TooNoisy, more_passes: Some(1) },
    ];
    let mut all = vec![
        Evidence::Interval,
        Evidence::Exponent { outcome: Outcome::Varies },
        Evidence::Cliff { n: ONE, factor: 3.0 },
        Evidence::Jump { factor: 1.7 },
        Evidence::Farthest { at: 9.0, factor: 1.2 },
        Evidence::None { reached: 1.0 },
        Evidence::TooShort { reached: 1.0 },
        Evidence::OutOfRange { first: 1.0, last: 2.0 },
        Evidence::TooFewPasses { passes: 1 },
        Evidence::NotResolved { reason: Reason::TooNoisy },
    ];
    all.extend(outcomes.map(|outcome| Evidence::Laws { outcome, rivals: vec!["root".to_owned()] }));
    let rules = [PatternRule::PowersOfTwo { offset: 3 }, PatternRule::Periodic { period: 64, phase: 1 }];
    all.extend(rules.map(|rule| Evidence::Outliers { first_n: 1, count: 2, rule: Some(rule), factor: 9.0 }));
    // A new kind must be added to this list.
    for one in &all {
        match one {
            Evidence::Interval
            | Evidence::Laws { .. }
            | Evidence::Exponent { .. }
            | Evidence::Cliff { .. }
            | Evidence::Jump { .. }
            | Evidence::Farthest { .. }
            | Evidence::Outliers { .. }
            | Evidence::None { .. }
            | Evidence::TooShort { .. }
            | Evidence::OutOfRange { .. }
            | Evidence::TooFewPasses { .. }
            | Evidence::NotResolved { .. } => {}
        }
    }
    all
}

fn checked() -> Report {
    let text = || Some(String::new());
    let decided = |evidence| Decided {
        case: String::new(),
        phase: String::new(),
        answer: Answer::Pass,
        text: String::new(),
        settle: text(),
        value: Some(ONE),
        evidence: Some(evidence),
    };
    let claim = Checked {
        claim: String::new(),
        line: 1,
        record: String::new(),
        unit: Unit::Time,
        answer: Answer::Pass,
        text: String::new(),
        settle: text(),
        curves: evidence().into_iter().map(decided).collect(),
    };
    let (record, text) = (String::new(), String::new());
    Report::of(vec![claim], vec![Shifted { record, curves: 20, ratio: 1.1, deviation: 0.1, text }])
}

/// Guards against undocumented members, and against documented ones that do not exist.
#[test]
fn every_member_of_the_json_is_documented() {
    assert_eq!(members(&compared()), documented("\n## JSON of `landau compare`"));
    assert_eq!(members(&checked()), documented("\n### JSON of `landau check`"));
}

/// Guards against an answer, a kind of evidence or a unit whose name differs from the documented one.
#[test]
fn every_word_of_the_json_is_documented() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compare.md")).unwrap();
    let mut words: Vec<Value> =
        evidence().iter().map(|one| serde_json::to_value(one).unwrap()["kind"].clone()).collect();
    let mut add = |word: &dyn Fn() -> serde_json::Result<Value>| words.push(word().unwrap());
    for answer in [Answer::Pass, Answer::Inconclusive, Answer::Fail] {
        add(&|| serde_json::to_value(answer));
    }
    for unit in [Unit::Time, Unit::EmulatedTime, Unit::Instructions] {
        add(&|| serde_json::to_value(unit));
    }
    for change in [Change::Faster, Change::Slower, Change::NoDifferenceProven] {
        add(&|| serde_json::to_value(change));
    }
    for nature in [Nature::Factor, Nature::Amount, Nature::Law, Nature::Inconclusive] {
        add(&|| serde_json::to_value(nature));
    }
    for agreement in [Agreement::Same, Agreement::Different, Agreement::Inconclusive] {
        add(&|| serde_json::to_value(agreement));
    }
    for direction in [Direction::Up, Direction::Down] {
        add(&|| serde_json::to_value(direction));
    }
    for word in words {
        assert!(text.contains(&format!("`{}`", word.as_str().unwrap())), "{word}");
    }
}
