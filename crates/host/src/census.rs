//! A census of the existing processes and threads.

use crate::root::{Root, field};
use crate::subject::Unread;
use crate::text::grouped;
use std::collections::{BTreeMap, BTreeSet};

/// The smallest identifier that is reused after the first pass (`RESERVED_PIDS` in the kernel's `pid.c`).
pub(crate) const RESERVED_PIDS: u64 = 300;

/// The link `/proc/PID/ns/pid` of the initial pid namespace, whose number the kernel fixes.
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The contents of `/proc`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Threads of all listed processes.
    pub(crate) tasks: u64,
    /// Identifiers in use: one for each task, and those of process groups and sessions whose leaders have ended.
    pub(crate) identifiers: u64,
    /// The identifiers in use from [`RESERVED_PIDS`] on.
    pub(crate) identifiers_above_reserved: u64,
    /// Processes that have ended but have not been waited for; they are included in the other counts.
    pub(crate) zombies: u64,
    /// Tasks that exist but are not listed, because `/proc` hides those of other users (hidepid).
    pub(crate) hidden: u64,
    /// Threads by real user.
    pub(crate) by_user: BTreeMap<u64, u64>,
    /// Zombies by real user.
    pub(crate) zombies_by_user: BTreeMap<u64, u64>,
    /// Programs by name, with the number of one of their processes.
    pub(crate) programs: BTreeMap<String, u32>,
}

impl Census {
    /// Counts the listed tasks, and estimates the hidden ones from the kernel's total.
    pub(crate) fn take(root: &Root) -> Self {
        let (mut census, mut identifiers) = (Self::default(), BTreeSet::new());
        for pid in numbers(root, "proc") {
            let Some(status) = root.text(&format!("proc/{pid}/status")) else { continue };
            let threads = field(&status, "Threads").unwrap_or(1);
            let listed = if threads == 1 { vec![pid] } else { numbers(root, &format!("proc/{pid}/task")) };
            census.tasks += threads;
            identifiers.extend(listed.into_iter().map(u64::from));
            // The first of several values is that of this pid namespace. 0 stands for kernel threads or an outer
            // namespace.
            let groups = ["NSpgid", "NSsid"].into_iter().filter_map(|name| field(&status, name));
            identifiers.extend(groups.filter(|&id| id > 0));
            let zombies = u64::from(status.lines().any(|line| line.starts_with("State:\tZ")));
            census.zombies += zombies;
            if let Some(user) = field(&status, "Uid") {
                *census.by_user.entry(user).or_default() += threads;
                *census.zombies_by_user.entry(user).or_default() += zombies;
            }
            if let Some(name) = status.lines().find_map(|line| line.strip_prefix("Name:")) {
                census.programs.entry(name.trim().to_owned()).or_insert(pid);
            }
        }
        census.identifiers = identifiers.len() as u64;
        census.identifiers_above_reserved = identifiers.range(RESERVED_PIDS..).count() as u64;
        census.add_hidden(root);
        census
    }

    /// Adds the tasks that `/proc` hides. Works only in the initial pid namespace, where process 1 always exists and
    /// the kernel's total counts the same tasks. Identifiers of hidden tasks are unknown; those below [`RESERVED_PIDS`]
    /// are counted as if they were above it.
    fn add_hidden(&mut self, root: &Root) {
        let is_first = root.link("proc/self/ns/pid").is_some_and(|link| link == FIRST_PID_NAMESPACE);
        if is_first && root.text("proc/1/status").is_none() {
            self.hidden = existing(root).unwrap_or(0).saturating_sub(self.tasks);
            self.tasks += self.hidden;
            self.identifiers += self.hidden;
            self.identifiers_above_reserved += self.hidden;
        }
    }

    /// Returns a note about the tasks that could not be counted individually.
    pub(crate) fn unread(&self) -> Option<Unread> {
        (self.hidden > 0).then(|| Unread {
            what: "processes of other users".to_owned(),
            why: format!(
                "/proc hides them (hidepid): their {} tasks are known only from the total in /proc/loadavg, and their \
                 programs are not visible; run landau doctor as root",
                grouped(self.hidden)
            ),
        })
    }
}

/// Returns the number of tasks on the host, from the kernel's total.
pub(crate) fn existing(root: &Root) -> Option<u64> {
    root.text("proc/loadavg")?.split(' ').nth(3)?.split_once('/')?.1.parse().ok()
}

/// Returns the numeric names in a directory.
fn numbers(root: &Root, folder: &str) -> Vec<u32> {
    root.names(folder).iter().filter_map(|name| name.parse().ok()).collect()
}
