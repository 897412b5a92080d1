//! The outcome of one kernel of a run.

use landau_record::schema::Crash;
use std::path::{Path, PathBuf};

/// The outcome of a kernel.
#[derive(Debug)]
pub enum KernelOutcome {
    /// Everything was measured.
    Measured(PathBuf),
    /// The complete record existed already.
    Kept(PathBuf),
    /// Some passes failed, or the guest could not continue, for the reason that it gave.
    Incomplete(PathBuf, Option<String>),
    /// The kernel stopped; the record contains what was measured until then.
    Crashed(PathBuf, Box<Crash>),
    /// Nothing was measured; the reason, with the console's last lines if there were any.
    Failed(String),
    /// The user interrupted it; the record of what was measured until then, if anything was.
    Interrupted(Option<PathBuf>),
}

impl KernelOutcome {
    /// Returns the record, if there is one.
    pub fn record(&self) -> Option<&Path> {
        match self {
            Self::Measured(path) | Self::Kept(path) | Self::Incomplete(path, _) | Self::Crashed(path, _) => Some(path),
            Self::Interrupted(path) => path.as_deref(),
            Self::Failed(_) => None,
        }
    }

    /// Returns the outcome as text for the user.
    pub fn text(&self) -> String {
        match self {
            Self::Measured(path) => format!("record {}", path.display()),
            Self::Kept(path) => format!("record {} exists already", path.display()),
            Self::Incomplete(path, None) => format!("some passes failed; record {}", path.display()),
            Self::Incomplete(path, Some(reason)) => {
                format!("its guest could not continue: {reason}; record {}", path.display())
            }
            Self::Crashed(path, crash) => format!("{}; record {}", crash_text(crash), path.display()),
            Self::Interrupted(Some(path)) => format!("interrupted; record {}", path.display()),
            Self::Interrupted(None) => "interrupted before anything was measured".to_owned(),
            Self::Failed(reason) => reason.clone(),
        }
    }
}

fn crash_text(crash: &Crash) -> String {
    let place = crash.last_n.map_or(String::new(), |n| format!(" after n = {n}"));
    let again = match crash.same_place {
        Some(true) => ", at the same step in each boot",
        Some(false) => ", at a different step in the next boot",
        None => "",
    };
    format!("{}{place}{again}", crash.meaning)
}
