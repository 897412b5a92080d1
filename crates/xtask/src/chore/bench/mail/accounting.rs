//! The processor time of all processes of a server, counted by a control group.
//!
//! `/proc` does not contain it: the time of an ended process is added to its parent's only if the parent waits for it,
//! which Exim's processes do not.

use anyhow::{Context, Result, bail};
use landau_sys::system::process_tree;
use std::fs;
use std::path::{Path, PathBuf};

/// A control group. It is removed when dropped; its processes must have ended by then.
pub(super) struct Accounting {
    folder: PathBuf,
    is_unified: bool,
}

impl Accounting {
    /// Moves a process and all its descendants to a new group.
    pub(super) fn of(process: u32) -> Result<Self> {
        let name = format!("landau-bench-{}-{process}", std::process::id());
        let (folder, is_unified) = match parent() {
            Some((parent, is_unified)) => (parent.join(name), is_unified),
            None => bail!("this system has no control groups that count processor time"),
        };
        fs::create_dir(&folder).with_context(|| format!("make the control group {}", folder.display()))?;
        let group = Self { folder, is_unified };
        // A second iteration finds processes that were meanwhile started by processes that had not been moved yet.
        for _ in 0..2 {
            for pid in process_tree(process) {
                // The process may have ended meanwhile.
                let _ = fs::write(group.folder.join("cgroup.procs"), pid.to_string());
            }
        }
        Ok(group)
    }

    /// Returns the processor time of all processes that are or were in the group, in nanoseconds.
    pub(super) fn nanoseconds(&self) -> Result<u64> {
        let file = self.folder.join(if self.is_unified { "cpu.stat" } else { "cpuacct.usage" });
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let number =
            |text: &str| text.trim().parse::<u64>().with_context(|| format!("read {}: {text:?}", file.display()));
        if !self.is_unified {
            return number(&text);
        }
        let used = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
        Ok(number(used.unwrap_or_default())? * 1_000)
    }
}

impl Drop for Accounting {
    fn drop(&mut self) {
        // The kernel refuses this while a process of the group is exiting. An empty group costs nothing.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Returns the directory in which to create a group, and whether the hierarchy is the unified one (version 2).
fn parent() -> Option<(PathBuf, bool)> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = |controller: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers.split(',').any(|one| one == controller).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let mounted = Path::new("/sys/fs/cgroup");
    if let Some(path) = path("cpuacct") {
        let folder = [mounted.join("cpuacct").join(path), mounted.join("cpuacct")];
        return folder.into_iter().find(|folder| folder.join("cpuacct.usage").exists()).map(|folder| (folder, false));
    }
    let folder = mounted.join(path("")?);
    folder.join("cpu.stat").exists().then_some((folder, true))
}
