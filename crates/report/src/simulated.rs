//! Records of simulated curves, for tests.

use landau_record::schema::{Case, Direction, Limit, Outcome, PassEnd, PassStart, Phase};
use landau_record::{Pass, Record, Series};
use landau_stats::Curve;
use std::collections::BTreeMap;

/// A case with its curves.
#[derive(Default)]
pub(crate) struct SimulatedCase {
    pub(crate) benchmark: String,
    /// Names and values.
    pub(crate) settings: Vec<(String, String)>,
    /// Names and calls; all phases have the same number of passes.
    pub(crate) phases: Vec<(String, Curve)>,
    /// The n at which each pass reached a limit, if any.
    pub(crate) limits: Vec<u64>,
}

/// Returns a record whose passes ran side by side: one of each case in every round.
pub(crate) fn record(cases: &[SimulatedCase]) -> Record {
    let mut record = Record::default();
    for (number, case) in (0..).zip(cases) {
        record.cases.push(described(number, case));
        let rounds = case.phases.first().map_or(0, |(_, curve)| curve.passes.len());
        record.passes.extend((0..rounds).map(|round| pass(number, round, case)));
    }
    record
}

fn described(number: u32, case: &SimulatedCase) -> Case {
    let mut label = case.benchmark.clone();
    for (name, value) in &case.settings {
        label.extend([" ", name.as_str(), "=", value.as_str()]);
    }
    let phase =
        |(name, _): &(String, Curve)| Phase { name: name.clone(), direction: Direction::Up, about: String::new() };
    Case {
        case: number,
        benchmark: case.benchmark.clone(),
        label,
        about: String::new(),
        axis: "things".to_owned(),
        caveats: Vec::new(),
        source: String::new(),
        phases: case.phases.iter().map(phase).collect(),
        settings: case.settings.iter().cloned().collect(),
        settings_about: BTreeMap::new(),
        n: 1,
        reduced: None,
        annotations: Vec::new(),
        timeline: None,
        replay: None,
    }
}

fn pass(number: u32, round: usize, case: &SimulatedCase) -> Pass {
    let series = case.phases.iter().map(|(name, curve)| {
        let one = &curve.passes[round];
        (name.clone(), Series { n: one.n.clone(), costs: one.costs.clone() })
    });
    let limit = case.limits.get(round).map(|n| Limit {
        n: *n,
        call: "make".to_owned(),
        errno: 24,
        error: "EMFILE".to_owned(),
        meaning: "too many things".to_owned(),
        raise: String::new(),
    });
    let (round, outcome) = (round as u32, if limit.is_some() { Outcome::Limit } else { Outcome::Done });
    let id = 1_000 * number + round;
    let start = PassStart { pass: id, case: number, round, at_ms: 0, adaptive_for: Vec::new() };
    let facts = landau_record::schema::Facts::new();
    let end = PassEnd { pass: id, outcome, steps: 1, elapsed_ms: 0, limit, error: None, facts };
    Pass { start, series: series.collect(), windows: Vec::new(), end: Some(end) }
}
