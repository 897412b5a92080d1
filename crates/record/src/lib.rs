//! What a run leaves behind: one append-only file of JSON lines (`*.landau.ndjson`), the only source of truth.
//!
//! [`schema`] is the vocabulary, one type for each kind of line; [`Writer`] appends and seals each line with a
//! running checksum; [`Record`] is the file read back, torn tail and all; [`chain`] is the checksum itself.
//! The crate knows neither how a number was measured nor how it will be drawn.

pub mod chain;
pub mod former;
mod reader;
pub mod schema;
mod writer;

pub use reader::{Fault, Lane, Pass, Record, Torn};
pub use schema::Line;
pub use writer::{Journal, Writer};

/// The newest version of the line format that this crate reads. It changes whenever a reader of the old format would
/// misread the new one: 2 came with units other than time, and with the lab.
pub const SCHEMA_VERSION: u32 = 2;

/// The version that a reader of a record needs: 1 for one in real time and made on the host itself, which readers from
/// before the lab still understand.
pub fn schema_version(unit: schema::Unit, is_lab: bool) -> u32 {
    if unit == schema::Unit::Ns && !is_lab { 1 } else { SCHEMA_VERSION }
}

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
}
