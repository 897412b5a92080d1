//! The folder for the benchmarks' files: created for a run and removed with it.

use crate::Error;
use crate::register::Register;
use crate::switch::is_switched;
use landau_sys::clock::monotonic_ns;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The beginning of every folder's name; the process identifier and the time follow.
const PREFIX: &str = "landau-scratch-";

/// The file that the run holds a lock on. The kernel releases the lock when the process ends, however it ends.
const LOCK: &str = "lock";

/// A folder without a lock file belongs to a run that is about to create it, unless the folder is older than this.
const UNLOCKED: Duration = Duration::from_secs(60);

/// The folder for the benchmarks' files. Dropping it removes it with everything inside.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
    register: Option<Register>,
}

impl Scratch {
    /// Creates the folder inside `parent`, and removes the folders of runs that were killed.
    pub fn create(parent: &Path) -> Result<Self, Error> {
        remove_abandoned(parent);
        // A process identifier alone is not unique: containers reuse them at once.
        let path = parent.join(format!("{PREFIX}{}-{:x}", std::process::id(), monotonic_ns()));
        let refused = |source| Error::Scratch { path: parent.to_owned(), source };
        std::fs::create_dir(&path).map_err(refused)?;
        let lock = File::create(path.join(LOCK)).map_err(refused)?;
        // Some file systems have no locks; there, the folder of a killed run must be removed by hand.
        let _ = lock.try_lock();
        Ok(Self { path, _lock: lock, register: None })
    }

    /// Creates the folder like [`Scratch::create`], and enters it in the user's register, so that a run in another
    /// place finds it if this one is killed.
    pub fn create_registered(parent: &Path) -> Result<Self, Error> {
        let mut scratch = Self::create(parent)?;
        // Only the register is missing where it cannot be written.
        scratch.register = Register::of_user().filter(|register| register.add(&scratch.path).is_ok());
        Ok(scratch)
    }

    /// Returns the folders in the user's register that runs have left behind anywhere when they were killed.
    pub fn abandoned() -> Vec<PathBuf> {
        let folders = Register::of_user().map(|register| register.folders()).unwrap_or_default();
        folders.into_iter().filter(|folder| folder.is_dir() && is_abandoned(folder)).collect()
    }

    /// Returns the folders of runs that have left the host switched: those in the user's register, and those in the
    /// same place as this one.
    pub fn switched(&self) -> Vec<PathBuf> {
        let here = self.path.parent().and_then(|parent| std::fs::read_dir(parent).ok());
        let here = here.into_iter().flatten().flatten().map(|entry| entry.path());
        let is_ours =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
        let folders = Register::of_user().map(|register| register.folders()).unwrap_or_default();
        let all: BTreeSet<PathBuf> = here.filter(is_ours).chain(folders).collect();
        all.into_iter().filter(|folder| is_switched(folder) && is_abandoned(folder)).collect()
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next run names the command that restores the host.
        if is_switched(&self.path) {
            return;
        }
        // The next run removes what cannot be removed now. If its file system is gone, it may come back.
        let removed = std::fs::remove_dir_all(&self.path);
        if let (Ok(()), Some(register)) = (removed, &self.register) {
            let _ = register.remove(&self.path);
        }
    }
}

/// Removes the folders of runs that have ended: no process holds their locks.
fn remove_abandoned(parent: &Path) {
    let register = Register::of_user();
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours
            && !is_switched(&entry.path())
            && is_abandoned(&entry.path())
            && std::fs::remove_dir_all(entry.path()).is_ok()
            && let Some(register) = register.as_ref().filter(|register| register.folders().contains(&entry.path()))
        {
            let _ = register.remove(&entry.path());
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

/// Returns the free bytes on the file system of a folder, less a margin for the host.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let (free, whole) = landau_sys::system::disk_space(&path).ok()?;
    Some(free.saturating_sub((whole / 50).min(256 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that was killed cannot clean up; the next one in the same place does.
    #[test]
    fn folders_of_killed_runs_are_removed_and_others_kept() {
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
