//! What is asked of a guest, and what it says: both sides are this very program.

use landau_record::schema::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the job lies in the initramfs.
pub const JOB_PATH: &str = "lab/job.json";

/// The word on the kernel's command line that makes the program an init; the kernel hands it on as a variable.
pub const VARIABLE: &str = "LANDAU_LAB";

/// What a guest is to measure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Names of benchmarks; empty means all.
    pub names: Vec<String>,
    /// `smoke`, `quick` or `full`.
    pub study: String,
    /// Passes of each case, where not the study's own number.
    pub pass_count: Option<u32>,
    /// `benchmark.parameter=value`, in the order given.
    pub settings: Vec<String>,
    /// The seed of every random order.
    pub seed: u64,
    /// What the guest's clock counts.
    pub unit: Unit,
    /// How long the guest idles before it measures, in seconds of its own time.
    pub settle_s: u64,
    /// Settings of the kernel, by sysctl name.
    pub sysctls: BTreeMap<String, String>,
    /// Where a kernel is expected to stop: every step from there on is told at once.
    pub step_windows: Option<landau_engine::StepWindows>,
    /// Whether the kernel's symbols are wanted first.
    pub symbols: bool,
    /// Whether it is only to be seen that a guest comes up: nothing is measured.
    pub probe: bool,
    /// The device of the line to the host, where it is not the first serial line.
    pub line: Option<String>,
    /// Whether the guest makes itself a network of its own first.
    pub own_network: bool,
    /// The folder for the benchmarks' files; none means that for temporary files.
    pub scratch: Option<PathBuf>,
}

/// What a guest says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// It is up; nothing has been measured.
    Up,
    /// Lines of the record, without seals.
    Lines(Vec<String>),
    /// The kernel's symbols: `/proc/kallsyms`, its text alone.
    Symbols(String),
    /// Everything was measured; how the run ended and how long it took in milliseconds.
    Done {
        /// `complete`, `failed` …
        outcome: String,
        /// Milliseconds of the guest's time.
        elapsed_ms: u64,
    },
    /// It cannot measure, and why.
    Failed(String),
}
