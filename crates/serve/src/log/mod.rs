//! The access log: a line for each response. A separate thread writes it, so that no worker waits for a disk or a pipe.
//! Lines that the writer cannot accept in time are dropped and counted, and the log contains their number.

mod feed;
mod line;
mod writer;

pub(crate) use feed::Feed;
pub(crate) use line::Asked;
pub use line::LogFormat;
pub(crate) use writer::{Beside, Remote, Shared, Writer};

use std::path::PathBuf;
use std::str::FromStr;

/// The target of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// A file; lines are appended to it.
    File(PathBuf),
    /// Standard output.
    Output,
}

impl FromStr for LogTarget {
    type Err = String;

    /// Parses a path, or `-` for standard output.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("expected a path, or - for standard output".to_owned()),
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
    /// The target.
    pub target: LogTarget,
    /// The format of its lines.
    pub format: LogFormat,
}
