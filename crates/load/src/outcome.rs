//! The outcome of a run: metrics, steps and gate results, also as JSON.

use crate::counters::Memory;
use crate::histogram::Histogram;
use crate::metrics::Metrics;
use crate::plan::Load;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The version of the JSON result, raised when a member changes its meaning or is removed.
pub const JSON_SCHEMA: u32 = 3;

/// The share of a CPU in percent above which a worker of an open loop or an idle load is not trusted to be on time.
const OPEN_PERCENT: u32 = 85;

/// The share of a CPU in percent above which a worker of a closed loop is the bottleneck.
const CLOSED_PERCENT: u32 = 95;

/// The samples of an idle load at one number of idle connections.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Step {
    /// Number of the pass, from 0.
    pub pass: u32,
    /// The requested number of idle connections.
    pub n: u32,
    /// The number of idle connections that were open after the samples.
    pub open: u64,
    /// Time to open the connections added since the previous step, in milliseconds.
    pub setup_ms: u64,
    /// Requests on idle connections: time to the first and to the last byte of the response, in nanoseconds.
    pub idle_ns: Vec<[u64; 2]>,
    /// New connections: handshake; time from the request to the first and to the last byte, in nanoseconds.
    pub new_ns: Vec<[u64; 3]>,
    /// Memory when the connections were open, before the samples.
    pub memory: Memory,
}

impl Step {
    /// Returns whether all idle connections that the step requires were open.
    pub fn is_reached(&self) -> bool {
        self.open >= u64::from(self.n)
    }
}

/// The state of a gate after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateState {
    /// The condition is met.
    Passed,
    /// The gate does not apply to this kind of load.
    NotApplicable,
    /// There was nothing to judge: no response, for example.
    NotJudged,
    /// The condition is not met; the measurement is valid but must be interpreted with care.
    Warning,
    /// The condition is not met, and the user waived the gate.
    Waived,
    /// The condition is not met; the measurement is not valid.
    Failed,
}

/// The result of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateResult {
    /// Name of the gate.
    pub name: &'static str,
    /// State of the gate.
    pub state: GateState,
    /// The reason, if the condition is not met or could not be judged.
    pub reason: Option<String>,
}

impl GateResult {
    /// Returns a sentence about a gate whose condition is not met or was not judged: its name, its state and the
    /// reason.
    pub fn remark(&self) -> Option<String> {
        let word = match self.state {
            GateState::Failed => "failed",
            GateState::Waived => "waived",
            GateState::Warning => "warning",
            GateState::NotJudged => "not judged",
            GateState::Passed | GateState::NotApplicable => return None,
        };
        Some(format!("gate {}: {word}: {}", self.name, self.reason.as_deref().unwrap_or_default()))
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The kind of load; for an open loop with the rate of all workers together.
    pub load: Load,
    /// Metrics of all workers.
    pub metrics: Metrics,
    /// The steps of an idle load.
    pub steps: Vec<Step>,
    /// Memory before the first connection.
    pub memory: Memory,
    /// Increase of the kernel's counters of overflows and losses.
    pub counters: BTreeMap<String, u64>,
    /// Whether this host counts overflows.
    pub has_counters: bool,
    /// Whether the server runs on this host, according to its address.
    pub is_local: bool,
    /// The largest share of a CPU that a worker used, on average over the run or over a step.
    pub busiest_worker_cpu_share: f64,
    /// Number of workers.
    pub worker_count: usize,
    /// A description of the source addresses and ports.
    pub sources: String,
    /// Whether the user interrupted the run.
    pub is_interrupted: bool,
    /// Results of all gates.
    pub gates: Vec<GateResult>,
}

impl Outcome {
    /// Returns an outcome without metrics.
    pub(crate) fn new(load: Load) -> Self {
        Self {
            load,
            metrics: Metrics::default(),
            steps: Vec::new(),
            memory: Memory::default(),
            counters: BTreeMap::new(),
            has_counters: true,
            is_local: false,
            busiest_worker_cpu_share: 0.0,
            worker_count: 0,
            sources: String::new(),
            is_interrupted: false,
            gates: Vec::new(),
        }
    }

    /// Returns whether this is a valid measurement: complete, and no gate failed.
    pub fn is_valid(&self) -> bool {
        !self.is_interrupted && self.gates.iter().all(|gate| gate.state != GateState::Failed)
    }

    /// Returns the responses per second.
    pub fn responses_per_second(&self) -> f64 {
        let seconds = self.metrics.elapsed_ns as f64 / 1e9;
        if seconds > 0.0 { self.metrics.responses as f64 / seconds } else { 0.0 }
    }

    /// Returns the generator's CPU time per response, in nanoseconds.
    pub fn cpu_ns_per_response(&self) -> Option<f64> {
        let responses = self.metrics.responses;
        (responses > 0).then(|| self.metrics.cpu_total_ns() as f64 / responses as f64)
    }

    /// Returns the share of a CPU above which a worker is saturated, in percent.
    pub fn saturation_percent(&self) -> u32 {
        if self.load == Load::Closed { CLOSED_PERCENT } else { OPEN_PERCENT }
    }

    /// Returns the share of the seconds in which a worker was saturated; `None` if none was measured.
    pub fn saturated_seconds_share(&self) -> Option<f64> {
        let (above, all) = self.metrics.seconds_above(self.saturation_percent());
        (all > 0).then(|| above as f64 / all as f64)
    }

    /// Returns the outcome as JSON. Histograms are lists of pairs: latency in nanoseconds, and its count.
    pub fn json(&self) -> Value {
        let metrics = &self.metrics;
        let recorded = metrics.phases.all().into_iter().filter(|phase| phase.3.count() > 0);
        let phases: serde_json::Map<String, Value> =
            recorded.map(|(name, _, _, histogram)| (name.to_owned(), quantiles(histogram))).collect();
        json!({
            "schema": JSON_SCHEMA,
            "is_valid": self.is_valid(),
            "is_interrupted": self.is_interrupted,
            "load": self.load,
            "elapsed_ns": metrics.elapsed_ns,
            "requests": metrics.requests,
            "requests_not_made": metrics.not_made,
            "due": metrics.due,
            "latency_trend": metrics.latency_series.trend(),
            "pending_at_half": metrics.pending_at_half,
            "pending_at_end": metrics.pending_at_end,
            "responses": metrics.responses,
            "responses_per_second": self.responses_per_second(),
            "bytes": metrics.bytes,
            "statuses": metrics.statuses,
            "failures": metrics.failures,
            "failure_details": metrics.failure_details,
            "connections": metrics.connections,
            "connections_closed_while_idle": metrics.closed_while_idle,
            "length_mismatches": metrics.length_mismatches,
            "phases": phases,
            "generator": {
                "workers": self.worker_count,
                "user_ns": metrics.cpu_ns[0],
                "system_ns": metrics.cpu_ns[1],
                "cpu_ns_per_response": self.cpu_ns_per_response(),
                "busiest_worker_cpu_share": self.busiest_worker_cpu_share,
                "busiest_second_cpu_share": metrics.busiest_percent().map(|percent| f64::from(percent) / 100.0),
                "saturated_seconds_share": self.saturated_seconds_share(),
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
        "censored": histogram.censored(),
        "min_ns": histogram.min_ns(),
        "mean_ns": histogram.mean_ns(),
        "p50_ns": histogram.quantile_ns(0.5),
        "p90_ns": histogram.quantile_ns(0.9),
        "p99_ns": histogram.quantile_ns(0.99),
        "p99_9_ns": histogram.quantile_ns(0.999),
        "p99_99_ns": histogram.quantile_ns(0.9999),
        "max_ns": histogram.max_ns(),
        "histogram": histogram.counts(),
    })
}
