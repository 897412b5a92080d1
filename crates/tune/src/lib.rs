//! Kernel settings: the changes that a profile would make, trials that restore the host, and files that make a profile
//! permanent.
//!
//! A [`Profile`] names settings and their wanted values. [`Plan::of`] compares them with a host and changes nothing. A
//! [`Trial`] sets and restores them. Its changes to the host are first written to a [`Journal`], with which [`restore`]
//! undoes a killed trial. [`keep`] writes the files that make a profile permanent. [`Status::of`] returns which
//! settings differ from the kernel's default, and which file sets them.
//!
//! | file | subject |
//! |---|---|
//! | `name`, `knob`, `profile` | vocabulary: names of settings, their descriptions, profiles |
//! | `plan` | what would change, why, and what cannot |
//! | `journal`, `trial` | temporary changes, and their restoration |
//! | `limit`, `keep`, `status` | permanent changes, and the resource limits that they must not lower |

mod journal;
mod keep;
mod knob;
mod limit;
mod name;
mod plan;
mod profile;
mod status;
mod trial;

pub use journal::{Entry, Journal, Journaled, Outcome, Restored, left, restore};
pub use keep::{Kept, keep, write};
pub use plan::{Change, Missing, Place, Plan, Present};
pub use profile::{NAMES, Profile, Unmapped, Want};
pub use status::{Row, Status};
pub use trial::{Setting, Trial};

use std::path::PathBuf;

/// The version of all JSON output, which docs/tune.md describes.
pub const SCHEMA: u32 = 1;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such profile.
    #[error("unknown profile `{0}`; use one of {names}, or a file (./{0}.toml)", names = NAMES.join(", "))]
    NoProfile(String),
    /// A profile file cannot be read or parsed.
    #[error("profile {path}: {reason}")]
    Profile {
        /// The file or the profile's name.
        path: String,
        /// Why.
        reason: String,
    },
    /// A setting cannot be read or written.
    #[error("{name}: {reason}")]
    Setting {
        /// Its name.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A file or directory cannot be used.
    #[error("{path}: {why}")]
    File {
        /// The path.
        path: PathBuf,
        /// Why. It is part of the message, so it is not also a source, which would be printed again.
        why: std::io::Error,
    },
    /// A file or directory fails a check.
    #[error("{path}: {reason}")]
    Refused {
        /// The path.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Some files of a profile were written, and could not be removed or restored after another one failed.
    #[error("{error}; other files were written, and could not be removed or restored: {}", .left.join(", "))]
    HalfKept {
        /// Why the other file could not be written.
        error: Box<Error>,
        /// The files that were written.
        left: Vec<String>,
    },
    /// Another trial is running on the host.
    #[error("another trial runs on this host; wait until it ends")]
    Busy,
    /// A killed trial has left settings changed.
    #[error("a trial of profile `{0}` was killed and has left settings changed; run landau tune restore")]
    Left(String),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |why| Self::File { path, why }
    }
}
