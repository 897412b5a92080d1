//! The access log: a line for each answer, written by a thread of its own, so that no worker ever waits for a disk or
//! a pipe. Lines that the writer cannot take in time are dropped and counted, and the log itself says how many.

mod feed;
mod line;
mod writer;

pub(crate) use feed::Feed;
pub(crate) use line::Asked;
pub use line::LogFormat;
pub(crate) use writer::{Beside, Remote, Shared, Writer};

use std::path::PathBuf;
use std::str::FromStr;

/// Where the access log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// To the end of a file.
    File(PathBuf),
    /// To standard output.
    Output,
}

impl FromStr for LogTarget {
    type Err = String;

    /// A path, or `-` for standard output.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("a path, or - for standard output".to_owned()),
            "-" => Ok(Self::Output),
            path => Ok(Self::File(path.into())),
        }
    }
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Output => f.write_str("standard output"),
        }
    }
}

/// An access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// Where it goes.
    pub target: LogTarget,
    /// How its lines look.
    pub format: LogFormat,
}
