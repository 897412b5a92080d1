//! The record of a run: one append-only file of JSON lines (`*.landau.ndjson`), from which everything else is computed.
//!
//! [`schema`] has one type for each kind of line. [`Writer`] appends lines, each with a chained checksum ([`chain`]).
//! [`Record`] is the file as read, complete or torn; it replaces former names in lines of older schemas by today's
//! ([`former`]). The crate knows neither how a number was measured nor how it will be shown.

pub mod chain;
mod file;
mod follower;
pub mod former;
mod reader;
mod record;
pub mod schema;
mod upgrade;
mod writer;

pub use file::read_file;
pub use follower::Follower;
pub use record::{Fault, Pass, Record, Series, Torn};
pub use schema::Line;
pub use writer::{Journal, Nowhere, Writer};

/// The version of the line format that is written, and the newest version that can be read. It changes whenever a
/// reader of the old format would misread the new one: 2 added units other than time, and the lab; 3 renamed kinds,
/// members, benchmarks and parameters, and gave facts units. Older records are read as if they had been written today.
pub const SCHEMA_VERSION: u32 = 3;

/// An error of reading or writing a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {action} {path}")]
    Io {
        /// The operation that failed: `create`, `write`, `read` …
        action: &'static str,
        /// The record's path as the user gave it.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is not a record, or a line of it is invalid.
    #[error("{path}: line {line}: {reason}")]
    Malformed {
        /// The record's path as the user gave it.
        path: String,
        /// The first invalid line, counted from 1.
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
    /// The record is gzip-compressed, so no line can be appended.
    #[error("cannot {action} {path}: it is compressed; decompress it first (gunzip)")]
    Compressed {
        /// The operation that was refused: `resume` or `replace`.
        action: &'static str,
        /// The record's path as the user gave it.
        path: String,
    },
}
