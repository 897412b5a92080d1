//! A server that may use its processor for a small part of the time only, so that a generator on one processor can
//! offer it many times what it can serve.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where groups of processes are given processor time (cgroup v1).
const GROUPS: &str = "/sys/fs/cgroup/cpu";

/// How often the time is given anew.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// A group with one process in it. The process leaves it, and it goes, with this value.
pub(super) struct Quota(PathBuf);

impl Quota {
    /// Gives a process so much time in each period.
    pub(super) fn give(process: u32, time: Duration) -> Result<Self> {
        let folder = Path::new(GROUPS).join("landau-stampede");
        // One that was killed may have left it behind.
        if !folder.is_dir() {
            fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
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
        // It may have ended, and then the group is empty.
        for process in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(Path::new(GROUPS).join("cgroup.procs"), process);
        }
        let _ = fs::remove_dir(&self.0);
    }
}
