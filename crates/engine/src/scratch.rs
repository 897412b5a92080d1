//! The folder for the benchmarks' files: made for a run, removed with it.

use crate::Error;
use landau_sys::clock::monotonic_ns;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the folders of all runs begin with; the process identifier and the moment follow.
const PREFIX: &str = "landau-scratch-";

/// The file in a folder that its run holds a lock on: the kernel drops the lock with the process, however it ends.
const LOCK: &str = "lock";

/// A folder without a lock belongs to a run that is about to take it, unless it is older than this.
const UNLOCKED: Duration = Duration::from_secs(60);

/// The folder for the benchmarks' files. Dropping it removes it with everything inside.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes the folder inside `parent`, and removes what runs left there that were killed.
    pub fn create(parent: &Path) -> Result<Self, Error> {
        sweep(parent);
        // A process identifier alone comes again, in containers at once.
        let path = parent.join(format!("{PREFIX}{}-{:x}", std::process::id(), monotonic_ns()));
        let refused = |source| Error::Scratch { path: parent.to_owned(), source };
        std::fs::create_dir(&path).map_err(refused)?;
        let lock = File::create(path.join(LOCK)).map_err(refused)?;
        // Some file systems have no locks; there, a folder is only swept by hand.
        let _ = lock.try_lock();
        Ok(Self { path, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that cannot be removed is swept up by the next run.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of runs that are gone: those whose lock nobody holds.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours && is_abandoned(&entry.path()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    if let Ok(lock) = File::open(folder.join(LOCK)) {
        return lock.try_lock().is_ok();
    }
    let age = std::fs::metadata(folder).and_then(|meta| meta.modified()).map(|made| made.elapsed());
    matches!(age, Ok(Ok(age)) if age > UNLOCKED)
}

/// Free bytes on the file system of a folder, with a margin left over for the host.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let (free, whole) = landau_sys::system::disk_space(&path).ok()?;
    Some(free.saturating_sub((whole / 50).min(256 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that was killed cannot clean up; the next one in the same folder does.
    #[test]
    fn leftovers_of_dead_runs_are_swept_and_living_ones_kept() {
        let parent = tempfile::tempdir().unwrap();
        let (dead, living) = (parent.path().join("landau-scratch-1-a"), parent.path().join("landau-scratch-1-b"));
        let foreign = parent.path().join("notes");
        for folder in [&dead, &living, &foreign] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join(LOCK), "").unwrap();
        }
        let held = File::open(living.join(LOCK)).unwrap();
        held.try_lock().unwrap();
        let scratch = Scratch::create(parent.path()).unwrap();
        assert!(!dead.exists() && living.exists() && foreign.exists() && scratch.path().exists());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
