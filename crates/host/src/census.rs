//! The processes and threads that exist.

use crate::root::{Root, field};
use crate::subject::Unread;
use crate::text::grouped;
use std::collections::BTreeMap;

/// Lower identifiers are not given out again after the first round (`RESERVED_PIDS` in the kernel's `pid.c`).
pub(crate) const RESERVED_PIDS: u64 = 300;

/// The first pid namespace, whose number the kernel fixes.
pub(crate) const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What `/proc` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Threads of all processes that are listed; each has an identifier.
    pub(crate) tasks: u64,
    /// Those of them with identifiers from [`RESERVED_PIDS`] on.
    pub(crate) tasks_above_reserved: u64,
    /// Tasks that exist and are not listed, where `/proc` hides other users' (hidepid).
    pub(crate) hidden: u64,
    /// Threads by real user.
    pub(crate) by_user: BTreeMap<u64, u64>,
    /// Programs by name, with the number of one of their processes.
    pub(crate) programs: BTreeMap<String, u32>,
}

impl Census {
    /// Counts the tasks that are listed, and of those that are hidden as many as the kernel counts besides.
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
        census.add_hidden(root);
        census
    }

    /// Adds what `/proc` hides: in the first pid namespace, where process 1 always exists, and the kernel's total is of
    /// the same tasks. Their identifiers are unknown; those below [`RESERVED_PIDS`] count as if they were not.
    fn add_hidden(&mut self, root: &Root) {
        let is_first = root.link("proc/self/ns/pid").is_some_and(|link| link == FIRST_PID_NAMESPACE);
        if is_first && root.text("proc/1/status").is_none() {
            self.hidden = existing(root).unwrap_or(0).saturating_sub(self.tasks);
            self.tasks += self.hidden;
            self.tasks_above_reserved += self.hidden;
        }
    }

    /// Returns what could not be counted one by one.
    pub(crate) fn unread(&self) -> Option<Unread> {
        (self.hidden > 0).then(|| Unread {
            what: "processes of other users".to_owned(),
            why: format!(
                "/proc hides them (hidepid): {} tasks count by the total of /proc/loadavg, and programs of other \
                 users are not seen; run landau doctor as root",
                grouped(self.hidden)
            ),
        })
    }
}

/// Returns how many tasks exist on the host, by the kernel's total.
pub(crate) fn existing(root: &Root) -> Option<u64> {
    root.text("proc/loadavg")?.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

/// Returns the names in a folder that are numbers.
fn numbers(root: &Root, folder: &str) -> Vec<u32> {
    root.names(folder).iter().filter_map(|name| name.parse().ok()).collect()
}
