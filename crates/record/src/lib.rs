//! What a run leaves behind: one append-only file of JSON lines (`*.landau.ndjson`), the only source of truth.
//!
//! [`schema`] is the vocabulary, one type for each kind of line; [`Writer`] appends and seals each line with a
//! running checksum; [`Record`] is the file read back, torn tail and all; [`chain`] is the checksum itself.
//! The crate knows neither how a number was measured nor how it will be drawn.

pub mod chain;
pub mod former;
mod reader;
pub mod schema;
mod upgrade;
mod writer;

pub use reader::{Fault, Lane, Pass, Record, Torn};
pub use schema::Line;
pub use writer::{Journal, Writer};

/// The version of the line format that is written, and the newest that is read. It changes whenever a reader of the old
/// format would misread the new one: 2 added units other than time, and the lab; 3 renamed kinds, members, benchmarks
/// and parameters, and gave facts units. Older records are read as if they had been written today.
pub const SCHEMA_VERSION: u32 = 3;

/// What can go wrong between a record and its file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused; `path` is the record's.
    #[error("{action} {path}")]
    Io {
        /// What was tried: `create`, `write`, `read` …
        action: &'static str,
        /// The record's path as the user gave it.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is not a record, or a line of it is not what its kind promises.
    #[error("{path}: line {line}: {reason}")]
    Malformed {
        /// The record's path as the user gave it.
        path: String,
        /// The first offending line, counted from 1.
        line: u64,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The record has an older schema, to which nothing can be appended.
    #[error(
        "cannot resume {path}: its schema is {schema}, and this landau appends lines of schema {SCHEMA_VERSION}; start \
         a new run, or resume it with the landau that began it"
    )]
    OldSchema {
        /// The record's path as the user gave it.
        path: String,
        /// Its schema.
        schema: u32,
    },
}
