//! The job that the host gives to a guest, and the guest's messages. Host and guest run the same program.

use landau_record::schema::{EndOutcome, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The path of the job in the initramfs.
pub const JOB_PATH: &str = "lab/job.json";

/// The kernel argument that makes the program an init; the kernel passes it on as an environment variable.
pub const VARIABLE: &str = "LANDAU_LAB";

/// A guest's job: what to measure, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Names of benchmarks; empty means all.
    pub names: Vec<String>,
    /// `smoke`, `quick` or `full`.
    pub study: String,
    /// Number of passes of each case; `None` for the number of the study.
    pub pass_count: Option<u32>,
    /// `benchmark.parameter=value`, in the order given.
    pub settings: Vec<String>,
    /// The seed of every random order.
    pub seed: u64,
    /// What the guest's clock counts.
    pub unit: Unit,
    /// The time that the guest idles before it measures, in seconds of its clock.
    pub settle_s: u64,
    /// Sysctls to set, by name.
    pub sysctls: BTreeMap<String, String>,
    /// The place where a kernel is expected to stop: from there on, windows have one step.
    pub step_windows: Option<landau_engine::StepWindows>,
    /// Whether the guest sends the kernel's symbols first.
    pub symbols: bool,
    /// Whether the guest only comes up and measures nothing.
    pub probe: bool,
    /// The device that connects it to the host; `None` for the first serial port.
    pub line: Option<String>,
    /// Whether the guest first enters a new network namespace.
    pub own_network: bool,
    /// The directory for the benchmarks' files; `None` for the directory of temporary files.
    pub scratch: Option<PathBuf>,
}

/// A message from the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// It is up, and has measured nothing yet.
    Up,
    /// Lines of the record, without seals.
    Lines(Vec<String>),
    /// The functions in `/proc/kallsyms`.
    Symbols(String),
    /// It is done.
    Done {
        /// How the run ended.
        outcome: EndOutcome,
        /// The elapsed time of the run, in milliseconds of the guest's clock.
        elapsed_ms: u64,
    },
    /// It cannot measure, for this reason.
    Failed(String),
}
