//! What is measured: cases with their phases and annotations, and what is skipped.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Something begins at this step: a second reader, for example.
    Event,
}

/// Makes a case a timeline: its steps follow one another in time and do not change the cost of the next step, so it has
/// a rate and no law.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// Bytes that each step moves.
    pub step_bytes: u64,
}

/// A position on a case's axis that is known before the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Annotation {
    /// The name, such as `half the ephemeral port range`.
    pub name: String,
    /// The position, in objects.
    pub n: f64,
    /// What happens there.
    pub kind: AnnotationKind,
    /// The source of the number, such as `net.ipv4.ip_local_port_range`.
    pub source: String,
}

impl Annotation {
    /// A capacity: the number of objects that fill a resource.
    pub fn capacity(name: &str, n: f64, source: &str) -> Self {
        Self { name: name.to_owned(), n, kind: AnnotationKind::Capacity, source: source.to_owned() }
    }
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
    /// The ways in which the result can mislead, one sentence each.
    pub caveats: Vec<String>,
    /// Where the experiment comes from.
    pub source: String,
    /// The timed calls of a step.
    pub phases: Vec<Phase>,
    /// Every parameter with its value.
    pub settings: BTreeMap<String, String>,
    /// What each parameter sets, in one line; empty in records made before November 2026.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings_about: BTreeMap<String, String>,
    /// The number of steps of a pass.
    pub n: u64,
    /// The number of steps that was requested, if it was too large for this host, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduced: Option<Reduced>,
    /// Known positions on the axis.
    pub annotations: Vec<Annotation>,
    /// Present if the case is a timeline; otherwise it is a curve of costs against n.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Present if the case repeats a test of an earlier study by that study's method; its samples are interpreted by
    /// that method, and no result is computed from them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

/// The earlier study whose method a case repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    /// The study: `2001`, `2003`, `2004`.
    pub study: String,
    /// The number of times that study ran the test, which is the number of planned passes of the case.
    pub runs: u32,
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
