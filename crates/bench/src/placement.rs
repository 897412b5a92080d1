//! Where the files of a pass of `files` are: in a directory of its own, which is removed with it.
//!
//! ext4 without a journal does not use an inode again for one to five minutes after its file was removed
//! (`recently_deleted` in fs/ext4/ialloc.c), and each creation in the same block group looks at all of them: after a
//! pass with 10,000 files, `create` took 270 µs instead of 15. So each pass has a directory of another name below one
//! that is marked as a top: ext4 places each in the group with the fewest directories, beginning with one that its name
//! selects. Groups that an earlier pass left without a directory are selected again soon. Therefore several directories
//! are created, and the one in which a file was created fastest is kept.

use landau_engine::Stop;
use landau_sys::clock::monotonic_ns;
use landau_sys::descriptor::close;
use landau_sys::{disk, file};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directories of which a pass keeps one.
const CANDIDATES: usize = 12;

/// Files that are created in each to find the fastest. The first is slower wherever it is: nothing of the group is in
/// the processor's caches.
const PROBES: [&CStr; 4] = [c"probe-1", c"probe-2", c"probe-3", c"probe-4"];

/// The directory of a pass. Dropping it removes it with everything inside.
#[derive(Debug)]
pub(crate) struct PassDirectory {
    top: PathBuf,
    /// The directory itself, open.
    pub(crate) handle: OwnedFd,
    /// Whether the file system chose a place for it, other than that of earlier passes.
    pub(crate) is_spread: bool,
}

impl PassDirectory {
    /// Creates the directory in `top`, which a pass that was killed may have left with its files.
    pub(crate) fn create(top: &Path) -> Result<Self, Stop> {
        match fs::remove_dir_all(top) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(Stop::io("unlink", &error)),
            _ => {}
        }
        let (path, is_spread) = create_directory(top)?;
        Ok(Self { top: top.to_owned(), handle: open_directory(&path)?, is_spread })
    }

    /// Waits until the device has what was written to the file system. Returns false after the timeout.
    pub(crate) fn write_back(&self, timeout: Duration) -> Result<bool, Stop> {
        let handle = self.handle.try_clone().map_err(|error| Stop::io("dup", &error))?;
        Ok(disk::write_back(&File::from(handle), timeout)?)
    }
}

impl Drop for PassDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is removed with the run's folder, of which it is a part.
        let _ = fs::remove_dir_all(&self.top);
    }
}

/// Creates an empty directory in `top`, and `top` itself if it does not exist. Returns the directory, and whether it is
/// the one of several in which a file was created fastest: of a file system that can spread them.
///
/// # Errors
///
/// Fails if a directory or a file cannot be created.
pub fn create_directory(top: &Path) -> Result<(PathBuf, bool), Stop> {
    match fs::create_dir(top) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Stop::io("mkdir", &error)),
        _ => {}
    }
    let is_spread = file::spread_directories(&open_directory(top)?).is_ok();
    let path = fastest(top, if is_spread { CANDIDATES } else { 1 }, creation_ns)?;
    Ok((path, is_spread))
}

/// Creates directories, keeps the one in which `probe_ns` takes the least time, and removes the others.
fn fastest(top: &Path, count: usize, probe_ns: impl Fn(&OwnedFd) -> Result<u64, Stop>) -> Result<PathBuf, Stop> {
    let candidate = |number| {
        let path = top.join(format!("pass-{:x}-{number}", monotonic_ns()));
        fs::create_dir(&path).map_err(|error| Stop::io("mkdir", &error))?;
        Ok::<_, Stop>((probe_ns(&open_directory(&path)?)?, path))
    };
    // The others exist until the last is created, so that each is in another place.
    let mut candidates = (0..count).map(candidate).collect::<Result<Vec<_>, _>>()?;
    candidates.sort_by_key(|&(ns, _)| std::cmp::Reverse(ns));
    let (_, kept) = candidates.pop().ok_or_else(|| Stop::Wrong("no directory was created".to_owned()))?;
    for (_, path) in candidates {
        fs::remove_dir(&path).map_err(|error| Stop::io("rmdir", &error))?;
    }
    Ok(kept)
}

/// Returns the shortest time of creating a file, in nanoseconds.
fn creation_ns(directory: &OwnedFd) -> Result<u64, Stop> {
    let mut shortest_ns = u64::MAX;
    for name in PROBES {
        let began_ns = monotonic_ns();
        let probe = file::create(directory, name, false)?;
        shortest_ns = shortest_ns.min(monotonic_ns() - began_ns);
        close(probe)?;
    }
    PROBES.iter().try_for_each(|name| file::remove(directory, name))?;
    Ok(shortest_ns)
}

fn open_directory(path: &Path) -> Result<OwnedFd, Stop> {
    Ok(File::open(path).map_err(|error| Stop::io("open", &error))?.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn of_several_directories_the_fastest_is_kept() {
        let room = tempfile::tempdir().unwrap();
        let times = [300, 200, 15, 270, 16];
        let next = Cell::new(0);
        let probe = |directory: &OwnedFd| {
            assert_eq!(file::Listing::new(directory)?.next_count()?.unwrap_or(0), 0, "a directory that was used");
            Ok(times[next.replace(next.get() + 1)])
        };
        let kept = fastest(room.path(), times.len(), probe).unwrap();
        let paths: Vec<PathBuf> = fs::read_dir(room.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(kept.to_str().unwrap().ends_with("-2") && paths == [kept], "{paths:?}");
    }

    #[test]
    fn a_directory_is_empty_and_removed_with_the_pass() {
        let room = tempfile::tempdir().unwrap();
        let top = room.path().join("files");
        fs::create_dir_all(top.join("left-behind")).unwrap();
        let pass = PassDirectory::create(&top).unwrap();
        file::create(&pass.handle, c"file", false).unwrap();
        let paths: Vec<PathBuf> = fs::read_dir(&top).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(paths.len() == 1 && paths[0].join("file").exists(), "{paths:?}");
        drop(pass);
        assert!(!top.exists());
    }
}
