//! The processes and threads that exist.

use crate::root::{Root, field};
use crate::subject::Unread;
use crate::text::grouped;
use std::collections::{BTreeMap, BTreeSet};

/// Lower identifiers are not given out again after the first round (`RESERVED_PIDS` in the kernel's `pid.c`).
pub(crate) const RESERVED_PIDS: u64 = 300;

/// The link `/proc/PID/ns/pid` of the first pid namespace, whose number the kernel fixes.
pub const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What `/proc` lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Census {
    /// Threads of all processes that are listed.
    pub(crate) tasks: u64,
    /// Identifiers in use: each task has one, and a process group or session keeps that of its leader, which may have
    /// ended.
    pub(crate) identifiers: u64,
    /// Those of them from [`RESERVED_PIDS`] on.
    pub(crate) identifiers_above_reserved: u64,
    /// Processes that have ended and that their parents have not waited for, which count as all others do.
    pub(crate) zombies: u64,
    /// Tasks that exist and are not listed, where `/proc` hides other users' (hidepid).
    pub(crate) hidden: u64,
    /// Threads by real user.
    pub(crate) by_user: BTreeMap<u64, u64>,
    /// Zombies by real user.
    pub(crate) zombies_by_user: BTreeMap<u64, u64>,
    /// Programs by name, with the number of one of their processes.
    pub(crate) programs: BTreeMap<String, u32>,
}

impl Census {
    /// Counts the tasks that are listed, and of those that are hidden as many as the kernel counts besides.
    pub(crate) fn take(root: &Root) -> Self {
        let (mut census, mut identifiers) = (Self::default(), BTreeSet::new());
        for pid in numbers(root, "proc") {
            let Some(status) = root.text(&format!("proc/{pid}/status")) else { continue };
            let threads = field(&status, "Threads").unwrap_or(1);
            let listed = if threads == 1 { vec![pid] } else { numbers(root, &format!("proc/{pid}/task")) };
            census.tasks += threads;
            identifiers.extend(listed.into_iter().map(u64::from));
            // The first of several is that of this pid namespace; 0 is of kernel threads, or of a namespace outside.
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

    /// Adds what `/proc` hides: in the first pid namespace, where process 1 always exists, and the kernel's total is of
    /// the same tasks. Their identifiers are unknown; those below [`RESERVED_PIDS`] count as if they were not.
    fn add_hidden(&mut self, root: &Root) {
        let is_first = root.link("proc/self/ns/pid").is_some_and(|link| link == FIRST_PID_NAMESPACE);
        if is_first && root.text("proc/1/status").is_none() {
            self.hidden = existing(root).unwrap_or(0).saturating_sub(self.tasks);
            self.tasks += self.hidden;
            self.identifiers += self.hidden;
            self.identifiers_above_reserved += self.hidden;
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
