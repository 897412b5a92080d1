//! A quota that limits the server to a small share of its processor, so that a generator on one processor can offer
//! many times what the server can serve.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The hierarchy of the `cpu` controller (cgroup v1).
const GROUPS: &str = "/sys/fs/cgroup/cpu";

/// The period of the quota.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// A control group with one process in it. Dropping this value moves the process out and removes the group.
pub(super) struct Quota(PathBuf);

impl Quota {
    /// Limits a process to `time` in each period.
    pub(super) fn give(process: u32, time: Duration) -> Result<Self> {
        let folder = Path::new(GROUPS).join("landau-stampede");
        // A killed run may have left the group behind.
        if !folder.is_dir() {
            fs::create_dir(&folder).with_context(|| format!("create {}", folder.display()))?;
        }
        let quota = Self(folder);
        quota.write("cpu.cfs_period_us", PERIOD.as_micros())?;
        quota.write("cpu.cfs_quota_us", time.as_micros())?;
        quota.write("cgroup.procs", process.into())?;
        Ok(quota)
    }

    fn write(&self, name: &str, value: u128) -> Result<()> {
        let path = self.0.join(name);
        fs::write(&path, value.to_string()).with_context(|| format!("write {}", path.display()))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // If the process has ended, the group is empty.
        for process in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(Path::new(GROUPS).join("cgroup.procs"), process);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
