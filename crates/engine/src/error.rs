//! Errors of planning, running and resuming.

use std::path::PathBuf;

/// Why a run could not be planned, started or recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no benchmark of that name.
    #[error("unknown benchmark `{name}`{}; `landau list` shows all benchmarks", hint(.suggestion.as_deref()))]
    UnknownBenchmark {
        /// The name as typed.
        name: String,
        /// The most similar name.
        suggestion: Option<String>,
    },
    /// The benchmark was renamed.
    #[error("the benchmark `{old}` is now `{new}`")]
    FormerBenchmark {
        /// The name as typed.
        old: String,
        /// Today's name.
        new: &'static str,
    },
    /// A setting is malformed, does not exist, has a wrong value, or would have no effect.
    #[error("--set {text}: {reason}")]
    BadSetting {
        /// The setting as typed.
        text: String,
        /// What is wrong with it, and what to write instead.
        reason: String,
    },
    /// The phase was renamed.
    #[error("the phase `{old}` of `{benchmark}` is now `{new}`")]
    FormerPhase {
        /// The benchmark.
        benchmark: String,
        /// The phase as typed.
        old: String,
        /// Today's name.
        new: &'static str,
    },
    /// The benchmark has no phase of that name.
    #[error("`{benchmark}` has no phase `{name}`; it has {}", .known.join(", "))]
    UnknownPhase {
        /// The benchmark.
        benchmark: String,
        /// The phase as typed.
        name: String,
        /// The phases that it has.
        known: Vec<String>,
    },
    /// A word about a benchmark names neither a phase nor a setting, or it is ambiguous.
    #[error("`{benchmark}.{word}`: {reason}")]
    BadWord {
        /// The benchmark.
        benchmark: String,
        /// The word as typed.
        word: String,
        /// What is wrong with it, and what to write instead.
        reason: String,
    },
    /// The directory for the benchmarks' files cannot be used.
    #[error("cannot create a scratch directory in {}; choose another directory with --dir or TMPDIR", .path.display())]
    Scratch {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The workers cannot be pinned to the processor that was requested.
    #[error("cannot pin workers to processor {wanted}; this process may run on {}", list(.allowed))]
    NoProcessor {
        /// The processor that was requested.
        wanted: u32,
        /// The processors of this process's affinity mask.
        allowed: Vec<u32>,
    },
    /// There is too little space for the record.
    #[error(
        "the record needs up to {needed_mib} MiB in {}, which has {free_mib} MiB free; free some space or {other}",
        .folder.display()
    )]
    NoSpace {
        /// The directory of the record.
        folder: PathBuf,
        /// The size that the record may reach.
        needed_mib: u64,
        /// The free space.
        free_mib: u64,
        /// The alternative to freeing space.
        other: &'static str,
    },
    /// A worker process cannot be started, or its pipes do not work.
    #[error("cannot start a worker process: {0}")]
    Worker(String),
    /// The profiler cannot watch a worker.
    #[error("cannot profile: {0}")]
    Profiler(String),
    /// The program that makes the passes of a side cannot make them.
    #[error("cannot measure with {path}: {reason}")]
    Program {
        /// The program.
        path: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A command that switches the host between the sides failed.
    #[error("{flag} '{command}': {reason}")]
    Switch {
        /// The option that gave the command.
        flag: &'static str,
        /// The command.
        command: String,
        /// The message that it printed, or how it ended.
        reason: String,
    },
    /// The host could not be restored after an error, or at the end.
    #[error(
        "the host is still switched to the new side: {reason}; restore it by hand with: {command}{}",
        after(.before.as_deref())
    )]
    NotRestored {
        /// The command that restores it.
        command: String,
        /// Why it failed.
        reason: String,
        /// The error that came first, if there was one.
        before: Option<Box<Error>>,
    },
    /// A record cannot be resumed.
    #[error("cannot resume {path}: {reason}")]
    NotResumable {
        /// The record.
        path: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A system call outside the measurement failed.
    #[error(transparent)]
    System(#[from] landau_sys::Error),
    /// The record cannot be written or read.
    #[error(transparent)]
    Record(#[from] landau_record::Error),
}

fn after(before: Option<&Error>) -> String {
    before.map_or(String::new(), |error| format!(" (before that: {error})"))
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}
