//! The processes and threads that exist.

use crate::root::{Root, field};
use std::collections::BTreeMap;

/// Lower identifiers are not given out again after the first round (`RESERVED_PIDS` in the kernel's `pid.c`).
pub(crate) const RESERVED_PIDS: u64 = 300;

/// What `/proc` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Threads of all processes that are listed; each has an identifier.
    pub(crate) tasks: u64,
    /// Those of them with identifiers from [`RESERVED_PIDS`] on.
    pub(crate) tasks_above_reserved: u64,
    /// Threads by real user.
    pub(crate) by_user: BTreeMap<u64, u64>,
    /// Programs by name, with the number of one of their processes.
    pub(crate) programs: BTreeMap<String, u32>,
}

impl Census {
    /// Counts the tasks that are listed.
    pub(crate) fn take(root: &Root) -> Self {
        let mut census = Self::default();
        for pid in numbers(root, "proc") {
            let Some(status) = root.text(&format!("proc/{pid}/status")) else { continue };
            let threads = field(&status, "Threads").unwrap_or(1);
            let listed = if threads == 1 { vec![pid] } else { numbers(root, &format!("proc/{pid}/task")) };
            census.tasks += threads;
            census.tasks_above_reserved += listed.iter().filter(|&&id| u64::from(id) >= RESERVED_PIDS).count() as u64;
            if let Some(user) = field(&status, "Uid") {
                *census.by_user.entry(user).or_default() += threads;
            }
            if let Some(name) = status.lines().find_map(|line| line.strip_prefix("Name:")) {
                census.programs.entry(name.trim().to_owned()).or_insert(pid);
            }
        }
        census
    }
}

/// Returns the names in a folder that are numbers.
fn numbers(root: &Root, folder: &str) -> Vec<u32> {
    root.names(folder).iter().filter_map(|name| name.parse().ok()).collect()
}
