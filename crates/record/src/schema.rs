//! The kinds of line of a record, in the order in which a run writes them.
//!
//! Every member's name carries its unit last. Times are integers in nanoseconds unless the name says otherwise.
//! `docs/record.md` has the same vocabulary with example queries.

mod explanation;
mod facts;
mod lab;
mod unit;

pub use explanation::{Chain, Explanation, FunctionCost};
pub use facts::{Fact, FactUnit, Facts};

pub use lab::{Crash, CrashKind, Emulator, Kernel, Lab};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use unit::{Canary, Quantum, Samples, TimerOverhead, Unit};

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Line {
    /// The first line: what was requested.
    Header(Header),
    /// The machine, its limits and its state at the start.
    Host(Box<Host>),
    /// The machine that the lab provided; absent outside the lab.
    Lab(Box<Lab>),
    /// A benchmark with its settings.
    Case(Case),
    /// A case that cannot be measured on this host, and why.
    Skip(Skip),
    /// A worker process starts a pass.
    Pass(PassStart),
    /// Samples of consecutive calls of one phase.
    Chunk(Chunk),
    /// What interfered during a window of steps.
    Window(Window),
    /// How the pass ended.
    PassEnd(PassEnd),
    /// The lab's machine stopped unexpectedly: a result.
    Crash(Crash),
    /// Instructions of a phase's calls, by function.
    Explanation(Box<Explanation>),
    /// Passes that the time limit left out.
    Cut(Cut),
    /// Anything else that a reader should know, such as a wait for the host to settle.
    Note(Note),
    /// The run was resumed after an interruption.
    Resume(Resume),
    /// A verdict computed from the samples above, stored so that `landau verify` can recompute it.
    Result(PhaseResult),
    /// The last line of a run that was not killed.
    End(End),
}

/// What was requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the line format: [`crate::SCHEMA_VERSION`] when it was written.
    pub schema: u32,
    /// The version of landau that wrote the record.
    pub landau: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// The seed of the order of passes and of every random order inside a benchmark.
    pub seed: u64,
    /// `smoke`, `quick` or `full`.
    pub study: String,
    /// The planned number of passes of each case.
    pub pass_count: u32,
    /// The number of cases of the plan; a record with fewer `case` lines has an incomplete plan.
    #[serde(default)]
    pub case_count: u32,
    /// The time limit in seconds; none if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
}

/// The machine of a run. Maps hold what differs from system to system; an absent entry could not be read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host {
    /// `Linux`, `FreeBSD` …
    pub system: String,
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// The kernel's build, as `uname -v` prints it.
    pub version: String,
    /// `x86_64`, `aarch64` …
    pub machine: String,
    /// The distribution's name, from os-release.
    #[serde(default)]
    pub distribution: String,
    /// The processor's model name.
    pub processor: String,
    /// The number of processors that the program may run on.
    pub processor_count: u32,
    /// The processor that the workers are pinned to; none if pinning is not possible.
    #[serde(default)]
    pub pinned_processor: Option<u32>,
    /// Data and unified caches of one processor, innermost first.
    pub caches: Vec<Cache>,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// Memory that was available without swapping at the start, in bytes.
    pub memory_available_bytes: u64,
    /// The size of a page in bytes.
    pub page_bytes: u64,
    /// The hypervisor: `kvm`, `none` …
    pub virtualization: String,
    /// The clock that times the calls.
    pub clock: Clock,
    /// Resource limits of the workers, after raising: name to value (`unlimited` as the largest integer).
    pub limits: BTreeMap<String, u64>,
    /// Kernel settings that influence the benchmarks, as the kernel prints them.
    pub sysctls: BTreeMap<String, String>,
    /// The mitigations of processor vulnerabilities, as the kernel prints them.
    pub mitigations: BTreeMap<String, String>,
    /// The state of the host at the start: sockets in `TIME_WAIT`, open files, processes, load.
    pub leftovers: BTreeMap<String, f64>,
    /// `root`, `unprivileged`, or `root` with the capability that it lacks.
    pub privilege: String,
}

/// A cache of one processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3 …
    pub level: u32,
    /// Capacity in bytes.
    pub bytes: u64,
}

/// The clock that times the calls, as measured at the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// `clock_gettime`, `tsc`, `cntvct`, `icount`.
    pub name: String,
    /// The unit of the clock and of every sample.
    #[serde(default, skip_serializing_if = "Unit::is_default")]
    pub unit: Unit,
    /// The median cost of two readings with nothing between them. Never subtracted from a sample.
    #[serde(flatten)]
    pub timer_overhead: TimerOverhead,
    /// The smallest difference between two readings.
    #[serde(flatten)]
    pub quantum: Quantum,
    /// The timer overhead of each clock that was tried, by name, in the clock's unit.
    pub candidates: BTreeMap<String, f64>,
}

/// Whether objects are created or destroyed while a phase is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Creation: n grows from call to call.
    Up,
    /// Destruction: n falls from call to call.
    Down,
}

/// A timed call of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `bind`, `close` … unique within a case.
    pub name: String,
    /// Whether it is timed during the creation or the destruction.
    pub direction: Direction,
    /// What exactly is timed.
    pub about: String,
}

/// The meaning of a known position on the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnnotationKind {
    /// A resource is exhausted.
    Capacity,
    /// A table of the kernel grows or is full.
    Table,
    /// The objects fill a cache of the processor.
    Cache,
}

/// A position on a case's axis that is known before the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Annotation {
    /// `half the ephemeral port range`.
    pub name: String,
    /// The position, in objects.
    pub n: f64,
    /// What happens there.
    pub kind: AnnotationKind,
    /// The source of the number: `net.ipv4.ip_local_port_range`.
    pub source: String,
}

/// A benchmark with its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Number within the record, from 0.
    pub case: u32,
    /// The benchmark's name.
    pub benchmark: String,
    /// The benchmark with the settings that differ from its defaults: `socket threads=1`.
    pub label: String,
    /// The question that it answers, in one line.
    pub about: String,
    /// What n counts: `open sockets`.
    pub axis: String,
    /// How the result can mislead, a sentence each.
    pub caveats: Vec<String>,
    /// Where the experiment comes from.
    pub source: String,
    /// The timed calls of a step.
    pub phases: Vec<Phase>,
    /// Every parameter with its value.
    pub settings: BTreeMap<String, String>,
    /// The number of steps of a pass.
    pub n: u64,
    /// The number of steps that was requested, if it was too large for this host, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Reduced>,
    /// Known positions on the axis.
    pub annotations: Vec<Annotation>,
}

/// A size that was reduced to leave the host enough resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reduced {
    /// The number of steps that was requested.
    pub requested: u64,
    /// Why it was too large, with the numbers.
    pub reason: String,
}

/// A case that cannot be measured on this host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skip {
    /// The label of the case or the name of the benchmark.
    pub label: String,
    /// Why it cannot.
    pub reason: String,
}

/// The beginning of a pass, in a fresh worker process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassStart {
    /// Number within the record, from 0, in the order of execution.
    pub pass: u32,
    /// The case.
    pub case: u32,
    /// The round, from 0. A repeated attempt has the same round.
    pub round: u32,
    /// Milliseconds since the run (or its resumption) began.
    pub at_ms: u64,
}

/// Samples of consecutive calls of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The pass.
    pub pass: u32,
    /// The phase.
    pub phase: String,
    /// n at the first call: the number of objects after it (creation) or before it (destruction).
    pub first: u32,
    /// +1 during creation, -1 during destruction, 0 if all calls were made at one chosen n.
    pub stride: i32,
    /// The cost of each call, in the unit of the record's clock.
    #[serde(flatten)]
    pub samples: Samples,
}

/// What interfered during a window of steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The pass.
    pub pass: u32,
    /// Creation or destruction.
    pub direction: Direction,
    /// n at the first step of the window.
    pub first: u32,
    /// Steps in the window.
    pub count: u32,
    /// Microseconds from the first step of the pass to the end of the window.
    pub until_us: u64,
    /// Involuntary context switches.
    pub preempted: u32,
    /// Minor and major page faults.
    pub faults: [u32; 2],
    /// The processor at the end of the window; -1 if unknown.
    pub processor: i32,
    /// Time stolen by the hypervisor from all processors, in milliseconds.
    pub steal_ms: u32,
    /// The costs of the canary's calls in the window, in the unit of the record's clock.
    #[serde(flatten)]
    pub canary: Canary,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every step was taken and the check passed.
    Done,
    /// The kernel refused a step: a result.
    Limit,
    /// A step or the check failed, and not because of a limit.
    Failed,
    /// The user interrupted it.
    Interrupted,
    /// The time limit ended it.
    Cut,
    /// The kernel crashed: a result; a `crash` line describes it.
    Crashed,
}

/// A refused step that ends a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The step that was refused.
    pub n: u64,
    /// The call that was refused.
    pub call: String,
    /// The error number: 24.
    pub errno: i32,
    /// The error's symbolic name: `EMFILE`.
    pub error: String,
    /// The limit that was reached, in words, with its value.
    pub meaning: String,
    /// The command that raises it; empty if there is none.
    pub raise: String,
}

/// The end of a pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassEnd {
    /// The pass.
    pub pass: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Steps of the creation that succeeded.
    pub steps: u64,
    /// Wall time of the worker in milliseconds.
    pub elapsed_ms: u64,
    /// The refused step, if `outcome` is `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// What failed, if `outcome` is `failed` or `cut`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the benchmark's check established.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
}

/// Passes that the time limit left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The label of the case.
    pub label: String,
    /// The number of its passes that were left out.
    pub pass_count: u32,
    /// Why.
    pub reason: String,
}

/// Anything a reader should know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// A sentence.
    pub text: String,
}

/// A resumption of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// The command line that resumed it.
    pub command: Vec<String>,
    /// Bytes of a torn last line that were removed.
    pub torn_bytes: u64,
}

/// A verdict computed from the samples, stored so that `landau verify` can recompute it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The case.
    pub case: u32,
    /// The phase.
    pub phase: String,
    /// The verdict as `landau-stats` serialises it.
    pub verdict: serde_json::Value,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndOutcome {
    /// Everything was measured.
    Complete,
    /// The time limit left something out.
    Cut,
    /// The user interrupted it.
    Interrupted,
    /// At least one pass failed.
    Failed,
    /// The kernel stopped; the `crash` line says where (`landau lab` only).
    Crashed,
}

impl EndOutcome {
    /// Returns the name as records have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Cut => "cut",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
            Self::Crashed => "crashed",
        }
    }
}

/// The last line of a run that was not killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// How the run ended.
    pub outcome: EndOutcome,
    /// Lines before this one.
    pub line_count: u64,
    /// Wall time of the run (or its resumption) in milliseconds.
    pub elapsed_ms: u64,
}
