//! The kinds of line a record holds, in the order in which a run writes them.
//!
//! Every member's name carries its unit last. Times are integers in nanoseconds unless the name says otherwise.
//! `docs/record.md` shows the same vocabulary with worked queries.

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
    /// The first line: what was asked for.
    Header(Header),
    /// The machine, its limits and what lay about on it at the start.
    Host(Box<Host>),
    /// The machine that the lab made for the run; absent outside the lab.
    Lab(Box<Lab>),
    /// One thing to be measured: a benchmark with its settings.
    Case(Case),
    /// A benchmark that could not be measured here, and why.
    Skip(Skip),
    /// A fresh worker process starts on a case.
    Pass(PassStart),
    /// Consecutive timed calls of one phase.
    Chunk(Chunk),
    /// What interfered while the steps of a window were timed.
    Window(Window),
    /// The worker is done, or what stopped it.
    PassEnd(PassEnd),
    /// The machine of the lab came to a stop before its time: a result.
    Crash(Crash),
    /// Where a call's instructions go, function by function.
    Explanation(Box<Explanation>),
    /// Something the plan held was left out, and why.
    Cut(Cut),
    /// Anything a reader should know: a wait for leftovers, a lock that was refused.
    Note(Note),
    /// The run was taken up again after an interruption.
    Resume(Resume),
    /// A figure computed from the samples above, kept so that `verify` can recompute it.
    Result(PhaseResult),
    /// The last line of a run that was not torn off.
    End(End),
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the line format: [`crate::SCHEMA_VERSION`] when it was written.
    pub schema: u32,
    /// The version of landau that wrote the record.
    pub landau: String,
    /// The command line, the words as typed.
    pub command: Vec<String>,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// Drives the order of passes and every random order inside a benchmark.
    pub seed: u64,
    /// `smoke`, `quick` or `full`.
    pub study: String,
    /// How many passes of each case were planned.
    pub pass_count: u32,
    /// How many cases the plan has: fewer `case` lines mean that it was not written down whole.
    #[serde(default)]
    pub case_count: u32,
    /// The longest the run was allowed to take, in seconds; none if unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
}

/// The machine a run was made on. Maps hold what differs from system to system; absent means "could not be read".
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
    /// The distribution's own name, from os-release.
    #[serde(default)]
    pub distribution: String,
    /// The processor's model name.
    pub processor: String,
    /// Processors this process may run on.
    pub processor_count: u32,
    /// The processor the workers were pinned to; none where pinning is not possible.
    #[serde(default)]
    pub pinned_processor: Option<u32>,
    /// Data and unified caches of one processor, innermost first.
    pub caches: Vec<Cache>,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// Memory that could be had without swapping when the run began, in bytes.
    pub memory_available_bytes: u64,
    /// The size of a page in bytes.
    pub page_bytes: u64,
    /// Under what the system runs: `kvm`, `none` …
    pub virtualization: String,
    /// The clock that timed the calls.
    pub clock: Clock,
    /// Resource limits of the workers, after raising: name to value (`unlimited` as the largest integer).
    pub limits: BTreeMap<String, u64>,
    /// Settings of the kernel that bear on the benchmarks, as they read.
    pub sysctls: BTreeMap<String, String>,
    /// The processor vulnerabilities' mitigations, as the kernel states them.
    pub mitigations: BTreeMap<String, String>,
    /// What lay about at the start: sockets in `TIME_WAIT`, open files, processes, load.
    pub leftovers: BTreeMap<String, f64>,
    /// Whether the user may do everything (`root`), and which capabilities he lacks.
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

/// The clock that timed the calls, as it was measured at the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// `clock_gettime`, `tsc`, `cntvct`, `icount`.
    pub name: String,
    /// What it counts, and with it every sample of the record.
    #[serde(default, skip_serializing_if = "Unit::is_default")]
    pub unit: Unit,
    /// The median of an empty lap. Never subtracted from a sample.
    #[serde(flatten)]
    pub timer_overhead: TimerOverhead,
    /// The smallest step between two different readings.
    #[serde(flatten)]
    pub quantum: Quantum,
    /// The clocks that were tried: name and the median of an empty lap, in the clock's unit.
    pub candidates: BTreeMap<String, f64>,
}

/// Which way the population of objects goes while a phase is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Objects pile up: n grows from call to call.
    Up,
    /// Objects go: n falls from call to call.
    Down,
}

/// One timed part of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// `bind`, `close` … unique within a case.
    pub name: String,
    /// On the way up or on the way down.
    pub direction: Direction,
    /// What exactly lies between the two readings of the clock.
    pub about: String,
}

/// Why a position on the axis is worth a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnnotationKind {
    /// A resource runs out here.
    Capacity,
    /// A table of the kernel grows or fills here.
    Table,
    /// The objects no longer fit a cache of the processor here.
    Cache,
}

/// A position on a case's axis that is known before anything is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Annotation {
    /// `half the ephemeral port range`.
    pub name: String,
    /// The position, in objects.
    pub n: f64,
    /// What it is.
    pub kind: AnnotationKind,
    /// Where the number was read: `net.ipv4.ip_local_port_range`.
    pub source: String,
}

/// A benchmark with its settings: what one curve of the report is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Number within the record, from 0.
    pub case: u32,
    /// The benchmark's name.
    pub benchmark: String,
    /// The benchmark with the settings that differ from its defaults: `socket threads=1`.
    pub label: String,
    /// What is asked, in one line.
    pub about: String,
    /// What n counts: `open sockets`.
    pub axis: String,
    /// How the result can mislead, a sentence each.
    pub caveats: Vec<String>,
    /// Where the experiment comes from.
    pub source: String,
    /// The timed parts of a step.
    pub phases: Vec<Phase>,
    /// Every parameter with its value.
    pub settings: BTreeMap<String, String>,
    /// How many steps a pass takes.
    pub n: u64,
    /// How many were asked for, where that was too many for this host, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Reduced>,
    /// Positions on the axis that are known beforehand.
    pub annotations: Vec<Annotation>,
}

/// A size that was brought down so that the host is not endangered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reduced {
    /// What was asked for.
    pub requested: u64,
    /// Why it was too much, with the figures.
    pub reason: String,
}

/// A benchmark that could not be measured here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skip {
    /// The label of the case or the name of the benchmark.
    pub label: String,
    /// "skipped, because …"
    pub reason: String,
}

/// A fresh worker process starts on a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassStart {
    /// Number within the record, from 0, in the order of execution.
    pub pass: u32,
    /// The case it works on.
    pub case: u32,
    /// Which replicate of the case, from 0. A repeated attempt keeps its number.
    pub round: u32,
    /// Milliseconds since the run (or its resumption) began.
    pub at_ms: u64,
}

/// Consecutive timed calls of one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// The pass.
    pub pass: u32,
    /// The phase.
    pub phase: String,
    /// n at the first call: how many objects exist once it succeeded (up) or still exist before it (down).
    pub first: u32,
    /// +1 on the way up, -1 on the way down, 0 where all were made at the same, chosen n.
    pub stride: i32,
    /// What each call cost, in the unit of the record's clock.
    #[serde(flatten)]
    pub samples: Samples,
}

/// What interfered while the steps of a window were timed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The pass.
    pub pass: u32,
    /// The way up or the way down.
    pub direction: Direction,
    /// n at the first step of the window.
    pub first: u32,
    /// Steps in the window.
    pub count: u32,
    /// Microseconds from the pass's first step to the window's end.
    pub until_us: u64,
    /// Involuntary context switches.
    pub preempted: u32,
    /// Page faults served without and with a device.
    pub faults: [u32; 2],
    /// The processor at the window's end; -1 where the system does not say.
    pub processor: i32,
    /// Time stolen by the hypervisor from all processors, in milliseconds.
    pub steal_ms: u32,
    /// The canary's calls within the window, in the unit of the record's clock.
    #[serde(flatten)]
    pub canary: Canary,
}

/// How a pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Every step was taken and the check held.
    Done,
    /// The system refused a step: a result.
    Limit,
    /// A step or the check failed for a reason that is no limit.
    Failed,
    /// The worker was ended because the user asked for it.
    Interrupted,
    /// The time limit ended the worker.
    Cut,
    /// The kernel itself came to a stop: a result, told by a `crash` line.
    Crashed,
}

/// A refusal that ends a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The step that was refused.
    pub n: u64,
    /// The call that was refused.
    pub call: String,
    /// Its error number and name: 24, `EMFILE`.
    pub errno: i32,
    /// The error's symbolic name.
    pub error: String,
    /// The limit that was met, in words, with its value.
    pub meaning: String,
    /// The command that raises it; empty where there is none.
    pub raise: String,
}

/// The worker is done, or what stopped it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassEnd {
    /// The pass.
    pub pass: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Steps that succeeded on the way up.
    pub steps: u64,
    /// Wall time of the worker in milliseconds.
    pub elapsed_ms: u64,
    /// The refusal, where `outcome` is `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// What failed, where `outcome` is `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the benchmark's check established, by name.
    #[serde(default, skip_serializing_if = "Facts::is_empty")]
    pub facts: Facts,
}

/// Something the plan held was left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cut {
    /// The label of the case.
    pub label: String,
    /// How many of its passes were left out.
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

/// The run was taken up again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// The command line that resumed it.
    pub command: Vec<String>,
    /// Bytes of a torn last line that were dropped.
    pub torn_bytes: u64,
}

/// A figure computed from the samples, kept so that `verify` can recompute it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The case.
    pub case: u32,
    /// The phase.
    pub phase: String,
    /// The verdict as `landau-stats` serialises it.
    pub verdict: serde_json::Value,
}

/// The last line of a run that was not torn off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// `complete`, `cut`, `interrupted` or `failed`.
    pub outcome: String,
    /// Lines before this one.
    pub line_count: u64,
    /// Wall time of the run (or its resumption) in milliseconds.
    pub elapsed_ms: u64,
}
