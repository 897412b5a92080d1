//! The directory of a pass of `files`. Each pass has a separate one, which is removed at its end.
//!
//! ext4 without a journal does not use an inode again for one to five minutes after its file was removed
//! (`recently_deleted` in fs/ext4/ialloc.c), and each creation in the same block group looks at all of them: after a
//! pass with 10,000 files, `create` took 270 µs instead of 15. So each pass has a directory with a new name below one
//! that is marked as the top of a hierarchy: ext4 places each in the group with the fewest directories, beginning with
//! one that its name selects. Groups that an earlier pass left without a directory are selected again soon. Therefore
//! the pass creates several directories, and keeps the one in which a file was created fastest. ext4 does not yet look
//! at inodes that were removed in the same second, so the group of the previous pass would seem fast. So the places of
//! the last passes rank last.

use landau_engine::Stop;
use landau_sys::clock::monotonic_ns;
use landau_sys::descriptor::close;
use landau_sys::{disk, file};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The number of directories of which a pass keeps one.
const CANDIDATES: usize = 12;

/// Files that are created in each directory to find the fastest. The first one is always slower: nothing of the group
/// is in the processor's caches.
const PROBES: [&CStr; 4] = [c"probe-1", c"probe-2", c"probe-3", c"probe-4"];

/// The number of passes whose places rank last: those that can have ended in the same second.
const RECENT: usize = 6;

/// The number of inodes in 16 block groups with the defaults of `mkfs.ext4`; ext4 fills the groups one after the other.
const NEIGHBOURHOOD: u64 = 16 * 8_192;

/// The directory of a pass. Dropping it removes it with everything inside.
#[derive(Debug)]
pub(crate) struct PassDirectory {
    top: PathBuf,
    /// The directory itself, open.
    pub(crate) handle: OwnedFd,
    /// Whether the file system was asked to place it apart from others, and it is the best of several.
    pub(crate) is_spread: bool,
}

impl PassDirectory {
    /// Creates the directory in `top`. Removes `top` first: a pass that was killed may have left it with its files.
    pub(crate) fn create(top: &Path) -> Result<Self, Stop> {
        match fs::remove_dir_all(top) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(Stop::io("unlink", &error)),
            _ => {}
        }
        let (path, is_spread) = create_directory(top)?;
        Ok(Self { top: top.to_owned(), handle: open_directory(&path)?, is_spread })
    }

    /// Waits until everything that was written to the file system is on the device. Returns false after the timeout.
    pub(crate) fn write_back(&self, timeout: Duration) -> Result<bool, Stop> {
        let handle = self.handle.try_clone().map_err(|error| Stop::io("dup", &error))?;
        Ok(disk::write_back(&File::from(handle), timeout)?)
    }
}

impl Drop for PassDirectory {
    fn drop(&mut self) {
        // Anything that cannot be removed now is removed with the run's directory, which contains it.
        let _ = fs::remove_dir_all(&self.top);
    }
}

/// Creates an empty directory in `top`, and `top` itself if it does not exist. Returns the directory, and whether it is
/// the best of several, if the file system can spread them. The file `top.places` contains the inodes of the last ones.
///
/// # Errors
///
/// Fails if a directory or a file cannot be created.
pub fn create_directory(top: &Path) -> Result<(PathBuf, bool), Stop> {
    match fs::create_dir(top) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Stop::io("mkdir", &error)),
        _ => {}
    }
    if file::spread_directories(&open_directory(top)?).is_err() {
        return Ok((Candidate::create(top, 0)?.path, false));
    }
    let places = top.with_extension("places");
    let mut recent = parse(&fs::read_to_string(&places).unwrap_or_default());
    // All candidates exist until the last is created, so that each is in a different place.
    let mut candidates = (0..CANDIDATES).map(|number| Candidate::create(top, number)).collect::<Result<Vec<_>, _>>()?;
    candidates.sort_by_key(|candidate| candidate.rank(&recent));
    for other in candidates.drain(1..) {
        fs::remove_dir(&other.path).map_err(|error| Stop::io("rmdir", &error))?;
    }
    let best = candidates.pop().ok_or_else(|| Stop::Wrong("no directory was created".to_owned()))?;
    recent.push(best.inode);
    recent.drain(..recent.len().saturating_sub(RECENT));
    let lines: Vec<String> = recent.iter().map(u64::to_string).collect();
    // If the disk is full, this fails, and the next pass only has less information for the selection.
    let _ = fs::write(&places, lines.join("\n"));
    Ok((best.path, true))
}

/// Reads an inode from each line.
fn parse(text: &str) -> Vec<u64> {
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// A directory that a pass may keep.
#[derive(Debug)]
struct Candidate {
    path: PathBuf,
    inode: u64,
    /// The shortest time of creating a file in it.
    creation_ns: u64,
}

impl Candidate {
    fn create(top: &Path, number: usize) -> Result<Self, Stop> {
        let path = top.join(format!("pass-{:x}-{number}", monotonic_ns()));
        fs::create_dir(&path).map_err(|error| Stop::io("mkdir", &error))?;
        let inode = fs::metadata(&path).map_err(|error| Stop::io("stat", &error))?.ino();
        let creation_ns = creation_ns(&open_directory(&path)?)?;
        Ok(Self { path, inode, creation_ns })
    }

    /// Returns a sort key, smallest for the best candidate: whether it is near the place of one of the last passes,
    /// then the time.
    fn rank(&self, recent: &[u64]) -> (bool, u64) {
        (recent.iter().any(|&inode| inode.abs_diff(self.inode) < NEIGHBOURHOOD), self.creation_ns)
    }
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

    #[test]
    fn a_fast_place_that_was_not_just_used_is_the_best() {
        let candidate = |inode, creation_ns| Candidate { path: PathBuf::new(), inode, creation_ns };
        let (far, slow) = (candidate(5 * NEIGHBOURHOOD, 15_000), candidate(9 * NEIGHBOURHOOD, 270_000));
        let used = candidate(2 * NEIGHBOURHOOD + 8_193, 14_000);
        let recent = parse(&format!("{}\n{}\n", 7 * NEIGHBOURHOOD, 2 * NEIGHBOURHOOD));
        assert!(far.rank(&recent) < slow.rank(&recent) && slow.rank(&recent) < used.rank(&recent));
        assert!(used.rank(&[]) < far.rank(&[]));
    }

    #[test]
    fn a_directory_is_empty_and_removed_with_the_pass() {
        let room = tempfile::tempdir().unwrap();
        let top = room.path().join("files");
        fs::create_dir_all(top.join("left-behind")).unwrap();
        let is_spread = file::spread_directories(&open_directory(&top).unwrap()).is_ok();
        for passes in 1..RECENT + 3 {
            let pass = PassDirectory::create(&top).unwrap();
            assert_eq!(pass.is_spread, is_spread);
            file::create(&pass.handle, c"file", false).unwrap();
            let paths: Vec<PathBuf> = fs::read_dir(&top).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(paths.len() == 1 && paths[0].join("file").exists(), "{paths:?}");
            let inode = fs::metadata(&paths[0]).unwrap().ino();
            drop(pass);
            assert!(!top.exists());
            let places = parse(&fs::read_to_string(room.path().join("files.places")).unwrap_or_default());
            assert_eq!(places.len(), if is_spread { passes.min(RECENT) } else { 0 });
            assert!(!is_spread || places.last() == Some(&inode), "{places:?}");
        }
    }
}
