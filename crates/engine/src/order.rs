//! The messages between controller and worker: an order, a report, and in lockstep a word at the end of each window.

use crate::{Facts, Fault, Host};
use landau_record::schema::Limit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The argument that makes this program a worker. It is not for users.
pub const ARGUMENT: &str = "__worker";

/// In lockstep, the worker's word at the end of a window, and the controller's answer after it has written the window.
pub(crate) const WINDOW: &str = "window\n";

/// The worker's word after it has taken all samples, before it removes its objects.
pub(crate) const CLEAN_UP: &str = "clean up\n";

/// The worker's word while its set-up makes progress.
pub(crate) const SET_UP: &str = "set up\n";

/// An order to a worker: the pass to make, and how.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) benchmark: String,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) n: u64,
    pub(crate) seed: u64,
    #[serde(with = "path_as_bytes")]
    pub(crate) scratch: PathBuf,
    pub(crate) host: Host,
    pub(crate) clock: String,
    pub(crate) ns_per_tick: f64,
    pub(crate) lanes_fd: i32,
    pub(crate) processor: Option<u32>,
    /// Whether the worker waits after each window until its controller has written it.
    pub(crate) lockstep: bool,
    /// Whether the worker stores when each call began, for a profiler.
    pub(crate) is_profiled: bool,
    /// The words that the worker sends before its report.
    #[serde(flatten)]
    pub(crate) announces: Announcements,
    /// A fault to inject.
    pub(crate) fault: Option<Fault>,
    /// From this n on, each step of the creation is a window.
    pub(crate) step_windows_from: Option<u64>,
}

/// The words that a worker sends before its report. A worker of an earlier version sends none of them, and a controller
/// of an earlier version would mistake such a word for the report.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Announcements {
    /// Whether it sends [`CLEAN_UP`].
    #[serde(default, rename = "announces_clean_up")]
    pub(crate) clean_up: bool,
    /// Whether it sends [`SET_UP`].
    #[serde(default, rename = "announces_set_up")]
    pub(crate) set_up: bool,
}

/// Serialises a path as a list of bytes: JSON has only text, and a path need not be valid text.
mod path_as_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().as_bytes().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        Ok(PathBuf::from(OsString::from_vec(Vec::deserialize(deserializer)?)))
    }
}

/// The outcome of a pass, as the worker saw it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Steps of the creation that succeeded.
    pub(crate) steps: u64,
    /// Why the pass failed.
    pub(crate) wrong: Option<String>,
    /// The limit that ended the creation.
    pub(crate) limit: Option<Limit>,
    pub(crate) facts: Facts,
    /// Whether the memory for the samples is locked.
    pub(crate) locked: bool,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self { steps: 0, wrong: None, limit: None, facts: Facts::new(), locked: false }
    }
}
