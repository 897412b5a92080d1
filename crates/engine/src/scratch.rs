//! The folder for the benchmarks' files: made for a run, removed with it.

use crate::Error;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the folders of all runs begin with; the process identifier follows.
const PREFIX: &str = "landau-scratch-";

/// The folder for the benchmarks' files. Dropping it removes it with everything inside.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the folder inside `parent`, and removes what runs left there that were killed.
    pub fn create(parent: &Path) -> Result<Self, Error> {
        sweep(parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self { path }),
            Err(source) => Err(Error::Scratch { path: parent.to_owned(), source }),
        }
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

/// Removes the folders of runs whose process is gone.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<i32>().ok());
        if pid.is_some_and(|pid| pid > 0 && !landau_sys::process::exists(pid)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Free bytes on the file system of a folder, with a margin left over for the host.
pub fn space(folder: &Path) -> Option<u64> {
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
        let dead = parent.path().join(format!("{PREFIX}{}", i32::MAX));
        let foreign = parent.path().join("landau-scratch-notes");
        std::fs::create_dir(&dead).unwrap();
        std::fs::create_dir(&foreign).unwrap();
        let scratch = Scratch::create(parent.path()).unwrap();
        assert!(!dead.exists() && foreign.exists() && scratch.path().exists());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }
}
