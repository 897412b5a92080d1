//! A crowd as a record: one case, its phases, and the samples of each size, for the verdicts and pages that judge every
//! other curve.

use crate::counters::Memory;
use crate::job::Job;
use crate::outcome::Step;
use landau_record::schema::{Case, Chunk, Direction, FactUnit, Facts, Phase, Samples, Unit};
use std::collections::BTreeMap;

/// The phases: name, and what lies between the two readings of the clock.
const PHASES: [(&str, &str); 5] = [
    ("old_first_byte", "from a request on a connection that stood idle until the first byte of its answer"),
    ("old_last_byte", "the same until the last byte"),
    ("handshake", "from connect() of a new connection until it is writable: the kernel's handshake"),
    ("fresh_first_byte", "from the request on that connection until the first byte of its answer"),
    ("fresh_last_byte", "the same until the last byte"),
];

/// What is measured.
pub fn case(job: &Job, urls: &[String]) -> Case {
    let crowd = job.crowd.as_ref();
    let n = crowd.and_then(|crowd| crowd.steps.last()).map_or(0, |&last| u64::from(last));
    let sources = job.plans.first().map(|plan| plan.sources.to_string()).unwrap_or_default();
    let phase = |&(name, about): &(&str, &str)| Phase {
        name: name.to_owned(),
        direction: Direction::Up,
        about: about.to_owned(),
    };
    Case {
        case: 0,
        benchmark: "crowd".to_owned(),
        label: format!("crowd {}", urls.join(" ")),
        about: "Does a request, or a new connection, cost more while thousands of connections stand idle?".to_owned(),
        axis: "idle connections".to_owned(),
        caveats: vec![
            "One connection is sampled again and again and is warm in every cache; of many each is cold.".to_owned(),
            "Client and server share the host's memory, and its processors unless both are pinned.".to_owned(),
            "The handshake is the kernel's: that the server has accepted shows in the first byte.".to_owned(),
        ],
        source: "F. von Leitner, Scalable Network Programming (2003): latency of connect and request".to_owned(),
        phases: PHASES.iter().map(phase).collect(),
        settings: BTreeMap::from([
            ("samples".to_owned(), crowd.map_or(0, |crowd| crowd.samples).to_string()),
            ("sources".to_owned(), sources),
            ("urls".to_owned(), urls.join(" ")),
            ("workers".to_owned(), job.plans.len().to_string()),
        ]),
        n,
        reduced: None,
        annotations: Vec::new(),
    }
}

/// The samples of a size.
pub fn chunks(step: &Step) -> Vec<Chunk> {
    let chunk = |name: &str, values: Vec<u64>| Chunk {
        pass: step.pass,
        phase: name.to_owned(),
        first: step.n,
        stride: 0,
        samples: Samples::new(Unit::Ns, values),
    };
    let old = |member: usize| step.old_ns.iter().map(|sample| sample[member]).collect();
    let fresh = |member: usize| step.fresh_ns.iter().map(|sample| sample[member]).collect();
    let values = [old(0), old(1), fresh(0), fresh(1), fresh(2)];
    let all = PHASES.iter().zip(values).map(|((name, _), values)| chunk(name, values));
    all.filter(|chunk| !chunk.samples.values().is_empty()).collect()
}

/// What is known of a pass besides its samples: its steps, and the kernel's memory before the first connection.
pub fn facts(before: &Memory, steps: &[Step]) -> Facts {
    let mut facts = Facts::new();
    let Some(last) = steps.last() else { return facts };
    let each = |before: u64, after: u64| (after.saturating_sub(before) / last.open.max(1)) as f64;
    facts.count("connections standing", last.open);
    facts.number("slab bytes per connection", each(before.slab_bytes, last.memory.slab_bytes), FactUnit::Bytes);
    if let (Some(before), Some(after)) = (before.server_bytes, last.memory.server_bytes) {
        facts.number("user bytes of the server per connection", each(before, after), FactUnit::Bytes);
    }
    let grown_ms: u64 = steps.iter().map(|step| step.grown_ms).sum();
    facts.number("grown in", grown_ms as f64 * 1e6, FactUnit::Ns);
    facts
}
