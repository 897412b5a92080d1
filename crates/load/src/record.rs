//! An idle load as a record: one case, its phases, and the samples of each step, so that verdicts and reports treat its
//! curves like those of benchmarks.

use crate::counters::Memory;
use crate::job::Job;
use crate::metrics::Metrics;
use crate::outcome::Step;
use landau_record::schema::{Case, Chunk, Direction, FactUnit, Facts, Limit, Phase, Samples, Unit};
use std::collections::BTreeMap;

/// The name of the benchmark in the record.
const BENCHMARK: &str = "idle_connections";

/// The phases: their names, and the time that each measures.
const PHASES: [(&str, &str); 5] = [
    ("idle_first_byte", "from a request on an idle connection to the first byte of its response"),
    ("idle_last_byte", "from a request on an idle connection to the last byte of its response"),
    ("handshake", "from connect() of a new connection until it is writable: the kernel's handshake"),
    ("new_first_byte", "from the first request on a new connection to the first byte of its response"),
    ("new_last_byte", "from the first request on a new connection to the last byte of its response"),
];

/// Descriptions of the settings of the case.
const SETTINGS: [(&str, &str); 4] = [
    ("samples", "connections timed at each step"),
    ("sources", "source addresses of the connections"),
    ("urls", "requested URLs"),
    ("workers", "processes that hold the connections"),
];

/// Returns the case of a job.
pub fn case(job: &Job, urls: &[String]) -> Case {
    let idle = job.idle.as_ref();
    let n = idle.and_then(|idle| idle.steps.last()).map_or(0, |&last| u64::from(last));
    let sources = job.plans.first().map(|plan| plan.sources.to_string()).unwrap_or_default();
    let phase = |&(name, about): &(&str, &str)| Phase {
        name: name.to_owned(),
        direction: Direction::Up,
        about: about.to_owned(),
    };
    Case {
        case: 0,
        benchmark: BENCHMARK.to_owned(),
        label: format!("{BENCHMARK} {}", urls.join(" ")),
        about: "Does a request, or a new connection, take longer while thousands of idle connections are open?"
            .to_owned(),
        axis: "idle connections".to_owned(),
        caveats: vec![
            "A single connection is sampled repeatedly and stays in the caches; each of many connections is cold."
                .to_owned(),
            "Client and server share the host's memory, and its CPUs unless both are pinned.".to_owned(),
            "The handshake is the kernel's: the first byte shows when the server has accepted.".to_owned(),
        ],
        source: "F. von Leitner, Scalable Network Programming (2003): latency of connect and request".to_owned(),
        phases: PHASES.iter().map(phase).collect(),
        settings: BTreeMap::from([
            ("samples".to_owned(), idle.map_or(0, |idle| idle.samples).to_string()),
            ("sources".to_owned(), sources),
            ("urls".to_owned(), urls.join(" ")),
            ("workers".to_owned(), job.plans.len().to_string()),
        ]),
        settings_about: SETTINGS.iter().map(|&(name, about)| (name.to_owned(), about.to_owned())).collect(),
        n,
        reduced: None,
        annotations: Vec::new(),
        timeline: None,
        replay: None,
    }
}

/// Returns the samples of a step, one chunk for each phase. A step that was not reached has none: its samples were
/// taken with fewer connections than it requires.
pub fn chunks(step: &Step) -> Vec<Chunk> {
    if !step.is_reached() {
        return Vec::new();
    }
    let chunk = |name: &str, values: Vec<u64>| Chunk {
        pass: step.pass,
        phase: name.to_owned(),
        first: step.n,
        stride: 0,
        samples: Samples::new(Unit::Ns, values),
    };
    let on_idle = |member: usize| step.idle_ns.iter().map(|sample| sample[member]).collect();
    let on_new = |member: usize| step.new_ns.iter().map(|sample| sample[member]).collect();
    let values = [on_idle(0), on_idle(1), on_new(0), on_new(1), on_new(2)];
    let all = PHASES.iter().zip(values).map(|((name, _), values)| chunk(name, values));
    all.filter(|chunk| !chunk.samples.values().is_empty()).collect()
}

/// Returns the limit that ended a pass, if the last step was not reached: the most frequent failure identifies it.
pub fn limit(last: &Step, metrics: &Metrics) -> Option<Limit> {
    if last.is_reached() {
        return None;
    }
    let most = metrics.failures.iter().max_by_key(|(_, count)| **count);
    let (error, reason) = match most {
        Some((failure, _)) => {
            let detail = metrics.failure_details.get(failure).map(|text| format!(" ({text})")).unwrap_or_default();
            (failure.name(), format!("{}{detail}", failure.description()))
        }
        None => ("closed_while_idle".to_owned(), "the server closed idle connections".to_owned()),
    };
    Some(Limit {
        n: last.n.into(),
        call: if most.is_some_and(|(failure, _)| failure.is_of_connecting()) { "connect" } else { "request" }
            .to_owned(),
        errno: 0,
        error,
        meaning: format!("{} of {} idle connections were open: {reason}", last.open, last.n),
        raise: String::new(),
    })
}

/// Returns the facts of a pass: connections, memory per connection, and the time to open them. `before` is the memory
/// before the first connection.
pub fn facts(before: &Memory, steps: &[Step]) -> Facts {
    let mut facts = Facts::new();
    let Some(last) = steps.last() else { return facts };
    let per_connection = |before: u64, after: u64| (after.saturating_sub(before) / last.open.max(1)) as f64;
    facts.count("open_connections", last.open);
    let slab_bytes = per_connection(before.slab_bytes, last.memory.slab_bytes);
    facts.number("kernel_slab_per_connection", slab_bytes, FactUnit::Bytes);
    if let (Some(before), Some(after)) = (before.server_bytes, last.memory.server_bytes) {
        facts.number("server_memory_per_connection", per_connection(before, after), FactUnit::Bytes);
    }
    let setup_ms: u64 = steps.iter().map(|step| step.setup_ms).sum();
    facts.number("setup_time", setup_ms as f64 * 1e6, FactUnit::Ns);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    /// Samples with 120 connections open once counted as samples with a thousand.
    #[test]
    fn step_that_was_not_reached_has_no_samples() {
        let step = Step { n: 1000, open: 1000, idle_ns: vec![[1, 2]], new_ns: vec![[3, 4, 5]], ..Step::default() };
        assert_eq!(chunks(&step).len(), PHASES.len());
        assert!(chunks(&Step { open: 120, ..step }).is_empty());
    }

    #[test]
    fn limit_names_the_most_frequent_failure() {
        let step = Step { n: 1000, open: 120, ..Step::default() };
        let mut metrics = Metrics::default();
        let limit_of = |metrics: &Metrics| limit(&step, metrics).map(|limit| (limit.call, limit.error, limit.meaning));
        let expected = |call: &str, error: &str, reason: &str| {
            let meaning = format!("120 of 1000 idle connections were open: {reason}");
            Some((call.to_owned(), error.to_owned(), meaning))
        };
        let closed = expected("request", "closed_while_idle", "the server closed idle connections");
        assert_eq!(limit_of(&metrics), closed);
        metrics.fail(Failure::Timeout, String::new);
        metrics.fail_all(2, Failure::ConnectRefused, || "errno 111".to_owned());
        let reason = "connection refused: is the server running? (errno 111)";
        assert_eq!(limit_of(&metrics), expected("connect", "connect_refused", reason));
        assert_eq!(limit(&Step { open: 1000, ..step.clone() }, &metrics), None);
    }
}
