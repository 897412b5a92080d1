//! Why a run could not be planned, started or recorded.

use std::path::PathBuf;

/// Why a run could not be planned, started or recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A benchmark of that name does not exist.
    #[error("no benchmark is called `{name}`{}; `landau list` shows them all", hint(.suggestion.as_deref()))]
    UnknownBenchmark {
        /// What was asked for.
        name: String,
        /// The nearest name there is.
        suggestion: Option<String>,
    },
    /// A setting is not of the form `benchmark.parameter=value`, or names what does not exist or may not be.
    #[error("--set {text}: {reason}")]
    BadSetting {
        /// The setting as typed.
        text: String,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// The benchmark has no such phase.
    #[error("`{benchmark}` has no phase `{name}`; it has {}", .known.join(", "))]
    UnknownPhase {
        /// The benchmark.
        benchmark: String,
        /// The phase as typed.
        name: String,
        /// Those that it has.
        known: Vec<String>,
    },
    /// The folder for the benchmarks' files cannot be used.
    #[error("cannot use {} for the benchmarks' files; choose another folder with --dir or TMPDIR", .path.display())]
    Scratch {
        /// The folder.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The workers cannot be pinned as asked.
    #[error("processor {wanted} is not among those this process may run on: {}", list(.allowed))]
    NoProcessor {
        /// What was asked for.
        wanted: u32,
        /// What there is.
        allowed: Vec<u32>,
    },
    /// There is too little room for the record.
    #[error(
        "the record needs about {needed_mib} MiB in {}, where {free_mib} MiB are free; \
         make room or choose another place with --output", .folder.display()
    )]
    NoRoom {
        /// Where the record was to be.
        folder: PathBuf,
        /// What it may grow to.
        needed_mib: u64,
        /// What is there.
        free_mib: u64,
    },
    /// A worker process cannot be started or spoken to.
    #[error("cannot start a worker process: {0}")]
    Worker(String),
    /// A record cannot be resumed here.
    #[error("cannot resume {path}: {reason}")]
    NotResumable {
        /// The record.
        path: String,
        /// Why.
        reason: String,
    },
    /// A system call failed where that is no measurement.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// The record cannot be written or read.
    #[error(transparent)]
    Record(#[from] landau_record::Error),
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}
