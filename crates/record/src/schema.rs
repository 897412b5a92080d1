//! The kinds of line of a record, in the order in which a run writes them.
//!
//! Every member's name carries its unit last. Times are integers in nanoseconds unless the name says otherwise.
//! `docs/record.md` describes the same members, with example queries.

mod case;
mod explanation;
mod facts;
mod host;
mod lab;
mod pass;
mod profile;
mod side;
mod unit;

pub use case::{Annotation, AnnotationKind, Case, Direction, Phase, Reduced, Replay, Skip, Timeline};
pub use explanation::{Chain, Explanation, FunctionCost};
pub use facts::{Fact, FactUnit, Facts};
pub use host::{Cache, Clock, Host};
pub use lab::{Crash, CrashKind, Emulator, Kernel, Lab};
pub use pass::{CallTags, Chunk, Limit, Outcome, PassEnd, PassStart, Window};
pub use profile::{Branching, Inclusive, Instructions, Interval, Part, Profile, ProfiledChain, ProfiledFunction};
use serde::{Deserialize, Serialize};
pub use side::{Program, ProgramFile, Role, Side, Switch};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
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
    /// The interference during a window of steps.
    Window(Window),
    /// How the pass ended.
    PassEnd(PassEnd),
    /// The lab's machine stopped unexpectedly: a result.
    Crash(Crash),
    /// Instructions of a phase's calls, by function.
    Explanation(Box<Explanation>),
    /// Samples of a phase's calls, by function.
    Profile(Box<Profile>),
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
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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
    /// `smoke`, `quick`, `full` or `then`.
    pub study: String,
    /// The planned number of passes of each case.
    pub pass_count: u32,
    /// Whether the user chose that number. Otherwise cases whose passes take long may have fewer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_pass_count_chosen: bool,
    /// The number of cases of the plan; a record with fewer `case` lines has an incomplete plan.
    #[serde(default)]
    pub case_count: u32,
    /// The time limit in seconds; none if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_s: Option<u64>,
    /// Which passes may follow the planned ones.
    #[serde(default, skip_serializing_if = "Adaptive::is_off")]
    pub adaptive: Adaptive,
    /// The directory whose file system is measured, an absolute path; none if no benchmark measures one. A resumed run
    /// continues there. Bytes that are not UTF-8 are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The bytes of `folder` in hexadecimal, if some were replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_bytes: Option<String>,
    /// The environment of the workers: variables and their values. Usually empty.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// Which side this is, if the run measured two sides alternately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
}

impl Header {
    /// Sets the directory whose file system is measured.
    pub fn set_folder(&mut self, folder: &Path) {
        let digits = folder.as_os_str().as_bytes().iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let hexadecimal = || digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect();
        self.folder = Some(folder.display().to_string());
        self.folder_bytes = folder.to_str().is_none().then(hexadecimal);
    }

    /// Returns the directory whose file system is measured; none if no benchmark measures one.
    pub fn folder(&self) -> Option<PathBuf> {
        let digits = self.folder_bytes.as_ref().map(|text| text.as_bytes().chunks(2));
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        match digits.and_then(|pairs| pairs.map(byte).collect::<Option<Vec<u8>>>()) {
            Some(bytes) => Some(PathBuf::from(OsString::from_vec(bytes))),
            None => self.folder.as_ref().map(PathBuf::from),
        }
    }
}

/// Which passes may follow the planned ones, for the cases whose curves are not resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adaptive {
    /// None.
    #[default]
    Off,
    /// As many as the study allows.
    Bounded,
    /// As many as it takes, up to a high limit.
    UntilResolved,
}

impl Adaptive {
    /// Returns whether no pass follows the planned ones.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }
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
    /// The planned number of passes of each case from here on; absent if it did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pass_count: Option<u32>,
    /// Which passes may follow the planned ones from here on; absent if that did not change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptive: Option<Adaptive>,
}

/// A verdict computed from the samples, stored so that `landau verify` can recompute it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The case.
    pub case: u32,
    /// The phase.
    pub phase: String,
    /// The number of the method that computed it: the value of `landau_stats::METHOD` at the time; absent means 1.
    #[serde(default = "first_method")]
    pub method: u32,
    /// The verdict as `landau-stats` serialises it.
    pub verdict: serde_json::Value,
}

fn first_method() -> u32 {
    1
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
    /// Returns the name that records use.
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
