//! What a run came to: everything that was found, how the gates stand, and the same as JSON for programs.

use crate::counters::Memory;
use crate::gate::{Gate, Standing};
use crate::histogram::Histogram;
use crate::plan::Load;
use crate::tally::Tally;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The version of the JSON answer: raised when a member changes its meaning or goes.
pub const JSON_SCHEMA: u32 = 1;

/// A size of the crowd at which samples were taken.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    /// The pass, from 0.
    pub pass: u32,
    /// How many connections were to stand.
    pub n: u32,
    /// How many did when the samples had been taken.
    pub open: u64,
    /// How long it took to get there from the step before, in milliseconds.
    pub grown_ms: u64,
    /// Of a request on a connection that stood idle: until the first and until the last byte, in nanoseconds.
    pub old_ns: Vec<[u64; 2]>,
    /// Of a new connection: the handshake, from the request until the first and until the last byte, in nanoseconds.
    pub fresh_ns: Vec<[u64; 3]>,
    /// The kernel's memory after the step has grown.
    pub memory: Memory,
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The kind of load; of an open loop the rate of all workers together.
    pub load: Load,
    /// What all workers found.
    pub tally: Tally,
    /// The crowd's sizes.
    pub steps: Vec<Step>,
    /// The kernel's memory before the first connection.
    pub memory: Memory,
    /// By how much the kernel's counters of overflows and losses grew.
    pub counters: BTreeMap<String, u64>,
    /// Whether the server runs on this host, as far as its address says.
    pub is_local: bool,
    /// The share of a processor that the busiest worker used.
    pub busiest: f64,
    /// How many workers there were.
    pub worker_count: usize,
    /// Where connections came from.
    pub sources: String,
    /// Whether the user ended it.
    pub is_interrupted: bool,
    /// How the gates stand.
    pub gates: Vec<Gate>,
}

impl Outcome {
    /// Nothing found yet.
    pub(crate) fn of(load: Load) -> Self {
        Self {
            load,
            tally: Tally::default(),
            steps: Vec::new(),
            memory: Memory::default(),
            counters: BTreeMap::new(),
            is_local: false,
            busiest: 0.0,
            worker_count: 0,
            sources: String::new(),
            is_interrupted: false,
            gates: Vec::new(),
        }
    }

    /// Whether the measurement is one.
    pub fn is_valid(&self) -> bool {
        !self.is_interrupted && self.gates.iter().all(|gate| gate.standing != Standing::Failed)
    }

    /// Answers a second.
    pub fn per_second(&self) -> f64 {
        let seconds = self.tally.elapsed_ns as f64 / 1e9;
        if seconds > 0.0 { self.tally.answers as f64 / seconds } else { 0.0 }
    }

    /// The generator's processor time for each answer, in nanoseconds.
    pub fn processor_ns_per_answer(&self) -> Option<f64> {
        (self.tally.answers > 0).then(|| self.tally.processor_total_ns() as f64 / self.tally.answers as f64)
    }

    /// For programs. Histograms are lists of pairs: latency in nanoseconds and how often it occurred.
    pub fn json(&self) -> Value {
        let tally = &self.tally;
        let held = tally.phases.all().into_iter().filter(|phase| phase.3.count() > 0);
        let phases: serde_json::Map<String, Value> =
            held.map(|(name, _, _, histogram)| (name.to_owned(), quantiles(histogram))).collect();
        json!({
            "schema": JSON_SCHEMA,
            "is_valid": self.is_valid(),
            "is_interrupted": self.is_interrupted,
            "load": self.load,
            "elapsed_ns": tally.elapsed_ns,
            "requests": tally.requests,
            "due": tally.due,
            "pending_half_way": tally.pending_half_way,
            "pending_at_end": tally.pending_at_end,
            "answers": tally.answers,
            "answers_per_second": self.per_second(),
            "bytes": tally.bytes,
            "statuses": tally.statuses,
            "failures": tally.failures,
            "failure_details": tally.details,
            "connections": tally.connections,
            "connections_closed_idle": tally.closed_idle,
            "wrong_lengths": tally.wrong_lengths,
            "phases": phases,
            "generator": {
                "workers": self.worker_count,
                "user_ns": tally.processor_ns[0],
                "system_ns": tally.processor_ns[1],
                "processor_ns_per_answer": self.processor_ns_per_answer(),
                "busiest_worker_share": self.busiest,
                "sources": self.sources,
            },
            "counters": self.counters,
            "memory_before": self.memory,
            "steps": self.steps,
            "gates": self.gates,
        })
    }
}

fn quantiles(histogram: &Histogram) -> Value {
    json!({
        "count": histogram.count(),
        "min_ns": histogram.min_ns(),
        "mean_ns": histogram.mean_ns(),
        "p50_ns": histogram.quantile_ns(0.5),
        "p90_ns": histogram.quantile_ns(0.9),
        "p99_ns": histogram.quantile_ns(0.99),
        "p99_9_ns": histogram.quantile_ns(0.999),
        "p99_99_ns": histogram.quantile_ns(0.9999),
        "max_ns": histogram.max_ns(),
        "histogram": histogram,
    })
}
