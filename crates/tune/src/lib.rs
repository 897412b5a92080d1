//! Kernel settings: what a profile would change, a trial that restores the host, and the files that keep a profile.
//!
//! A [`Profile`] names settings and the values that it wants. [`Plan::of`] compares them with a host and changes
//! nothing. A [`Trial`] sets and restores them; what it changes on the host is in a [`Journal`] first, by which
//! [`restore`] undoes a trial that was killed. [`keep`] writes the files that make a profile permanent, and
//! [`Status::of`] says which settings differ from the kernel's default, and where that comes from.
//!
//! | file | subject |
//! |---|---|
//! | `name`, `knob`, `profile` | vocabulary: names of settings, what is known about them, profiles |
//! | `plan` | what would change, why, and what cannot |
//! | `journal`, `trial` | changes for a time, and their end |
//! | `limit`, `keep`, `status` | changes for good, and the resource limits that they must not lower |

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

/// The version of every answer as JSON; docs/tune.md describes it.
pub const SCHEMA: u32 = 1;

/// An error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such profile.
    #[error("there is no profile `{0}`; name one of {names}, or a file (./{0}.toml)", names = NAMES.join(", "))]
    NoProfile(String),
    /// A file with a profile cannot be read or understood.
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
    /// A file or folder cannot be used.
    #[error("{path}: {why}")]
    File {
        /// It.
        path: PathBuf,
        /// Why; it is in the message, so it is no source that is printed again.
        why: std::io::Error,
    },
    /// A file or folder is not what it must be.
    #[error("{path}: {reason}")]
    Refused {
        /// It.
        path: PathBuf,
        /// Why, and what to do.
        reason: String,
    },
    /// Some files of a profile were written, and could not be removed or restored when another one failed.
    #[error("{error}; other files were written, and could not be removed or restored: {}", .left.join(", "))]
    HalfKept {
        /// Why the other file could not be written.
        error: Box<Error>,
        /// The files that were written.
        left: Vec<String>,
    },
    /// Another trial changes the host now.
    #[error("another trial runs on this host; wait until it ends")]
    Busy,
    /// A trial that was killed has left settings changed.
    #[error("a trial of profile `{0}` was killed and has left settings changed; run landau tune restore")]
    Left(String),
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |why| Self::File { path, why }
    }
}
