//! A simulated disk for the queues of a thread, with faults determined by a seed.
//!
//! The process may be killed at any call: a write is then partial, any other call is not made, and every further call
//! fails until the disk is revived. On a full disk, only writes, the creation of a file, and a sync or removal chosen
//! by the test fail. Files cannot be opened while a test simulates a lack of descriptors. Nothing fails for another
//! reason. A system crash loses unsynced data: the ends of files, parts of which may become zeros instead, and the last
//! changes of names.

use crate::queue::is_full;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A change of a name that is not on the device.
#[derive(Debug)]
enum Change {
    Created(PathBuf),
    /// The second path keeps the file that had the name.
    Lost(PathBuf, PathBuf),
    /// Another file received the name atomically.
    Replaced(PathBuf, PathBuf),
}

/// The probability of each fault at a call, 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Odds {
    pub(crate) kill: f64,
    /// The probability that the disk becomes full, for several calls.
    pub(crate) full: f64,
}

#[derive(Debug)]
struct Disk {
    rng: ChaCha8Rng,
    odds: Odds,
    is_dead: bool,
    /// The number of further calls for which the disk is full.
    full_for: u32,
    /// The number of further calls that find no free descriptor to open a file.
    short_for: u32,
    /// The number of syncs and removals before the one that finds the disk full.
    full_after: Option<u32>,
    /// The number of bytes of each file that are on the device, by inode number.
    synced: HashMap<u64, u64>,
    changes: Vec<Change>,
    /// The directory for files that lost their names, and their number.
    lost: PathBuf,
    lost_count: u32,
    now_ms: u64,
}

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

fn with<T>(use_it: impl FnOnce(&mut Disk) -> T) -> Option<T> {
    DISK.with_borrow_mut(|disk| disk.as_mut().map(use_it))
}

/// A guard: until it is dropped, the queues of this thread use the simulated disk.
#[derive(Debug)]
pub(crate) struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DISK.set(None);
    }
}

/// Installs a disk without faults. `lost` is a directory reserved for it, on the same file system.
pub(crate) fn begin(seed: u64, lost: &Path) -> Guard {
    let disk = Disk {
        rng: ChaCha8Rng::seed_from_u64(seed),
        odds: Odds { kill: 0.0, full: 0.0 },
        is_dead: false,
        full_for: 0,
        short_for: 0,
        full_after: None,
        synced: HashMap::new(),
        changes: Vec::new(),
        lost: lost.to_owned(),
        lost_count: 0,
        now_ms: 0,
    };
    DISK.set(Some(disk));
    Guard
}

/// Starts another process, with other odds.
pub(crate) fn revive(odds: Odds) {
    with(|disk| (disk.odds, disk.is_dead, disk.full_for) = (odds, false, 0));
}

/// Makes one sync or removal fail because the disk is full, after `count` that succeed.
pub(crate) fn fill_after(count: u32) {
    with(|disk| disk.full_after = Some(count));
}

/// Makes the next `count` calls that open a file fail for lack of a descriptor.
pub(crate) fn run_short(count: u32) {
    with(|disk| disk.short_for = count);
}

/// Returns whether the process was killed.
pub(crate) fn is_dead() -> bool {
    with(|disk| disk.is_dead).unwrap_or_default()
}

/// Sets the time of day.
pub(crate) fn set_ms(now_ms: u64) {
    with(|disk| disk.now_ms = now_ms);
}

pub(super) fn now_ms() -> Option<u64> {
    with(|disk| disk.now_ms)
}

pub(super) fn is_simulated() -> bool {
    with(|_| ()).is_some()
}

/// The source of an error that means that this disk is full.
#[derive(Debug, thiserror::Error)]
#[error("the simulated disk is full")]
struct NoRoom;

/// Returns whether an error means that this disk was full at a write.
pub(crate) fn was_full(error: &io::Error) -> bool {
    is_full(error) && matches!(error.get_ref(), Some(reason) if reason.is::<NoRoom>())
}

/// Crashes the system: unsynced data in a directory may be lost.
pub(crate) fn crash(directory: &Path) {
    with(|disk| disk.crash(directory).expect("the files of a test"));
}

impl Disk {
    fn dead() -> io::Error {
        io::Error::other("killed")
    }

    fn no_room() -> io::Error {
        io::Error::new(io::ErrorKind::StorageFull, NoRoom)
    }

    /// Decides whether a call is made. Otherwise returns the error with which it fails.
    fn step(&mut self) -> io::Result<()> {
        if !self.is_dead && self.rng.random::<f64>() < self.odds.kill {
            self.is_dead = true;
        }
        if self.is_dead { Err(Self::dead()) } else { Ok(()) }
    }

    fn is_full(&mut self) -> bool {
        if self.full_for == 0 && self.rng.random::<f64>() < self.odds.full {
            self.full_for = self.rng.random_range(1..20);
        }
        let is_full = self.full_for > 0;
        self.full_for = self.full_for.saturating_sub(1);
        is_full
    }

    /// Decides whether a descriptor is free.
    fn step_of_open(&mut self) -> io::Result<()> {
        let is_short = self.short_for > 0;
        self.short_for = self.short_for.saturating_sub(1);
        // EMFILE has no kind. Its number is the same on all systems.
        if is_short { Err(io::Error::from_raw_os_error(24)) } else { Ok(()) }
    }

    /// Decides whether a sync or a removal is made.
    fn step_of_sync(&mut self) -> io::Result<()> {
        self.step()?;
        let is_full = self.full_after == Some(0);
        self.full_after = self.full_after.and_then(|count| count.checked_sub(1));
        if is_full { Err(Self::no_room()) } else { Ok(()) }
    }

    /// Moves a file that loses its name aside. Returns its new path.
    fn keep(&mut self, path: &Path) -> io::Result<PathBuf> {
        let kept = self.lost.join(self.lost_count.to_string());
        self.lost_count += 1;
        fs::rename(path, &kept)?;
        Ok(kept)
    }

    fn crash(&mut self, directory: &Path) -> io::Result<()> {
        let undone = self.rng.random_range(0..=self.changes.len());
        for change in self.changes.drain(..).rev().take(undone) {
            match change {
                Change::Created(path) => fs::remove_file(path)?,
                Change::Lost(path, kept) | Change::Replaced(path, kept) => fs::rename(kept, path)?,
            }
        }
        let mut files: Vec<PathBuf> =
            fs::read_dir(directory)?.map(|file| Ok(file?.path())).collect::<io::Result<_>>()?;
        files.retain(|path| path.extension().is_some_and(|end| end == "mail" || end == "states"));
        files.sort();
        for path in files {
            let file = OpenOptions::new().write(true).open(path)?;
            let (inode, bytes) = (file.metadata()?.ino(), file.metadata()?.len());
            let synced = self.synced.get(&inode).copied().unwrap_or_default().min(bytes);
            let kept = self.rng.random_range(synced..=bytes);
            file.set_len(kept)?;
            if kept > synced && self.rng.random::<f64>() < 0.3 {
                let from = self.rng.random_range(synced..kept);
                let zeros = vec![0; self.rng.random_range(from..kept) as usize - from as usize + 1];
                file.write_all_at(&zeros, from)?;
            }
            self.synced.insert(inode, kept);
        }
        Ok(())
    }
}

pub(super) fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let Some((result, written)) = with(|disk| {
        if disk.is_dead {
            return (Err(Disk::dead()), 0);
        }
        let written = disk.rng.random_range(0..=bytes.len());
        match disk.step() {
            Ok(()) if disk.is_full() => (Err(Disk::no_room()), written),
            result => (result, written),
        }
    }) else {
        return Ok(());
    };
    if result.is_err() {
        file.write_all_at(&bytes[..written], offset)?;
    }
    result
}

pub(super) fn sync(file: &File) -> io::Result<()> {
    with(|disk| {
        disk.step_of_sync()?;
        let facts = file.metadata()?;
        disk.synced.insert(facts.ino(), facts.len());
        Ok(())
    })
    .unwrap_or(Ok(()))
}

pub(super) fn sync_names() -> io::Result<()> {
    with(|disk| {
        disk.step_of_sync()?;
        disk.changes.clear();
        Ok(())
    })
    .unwrap_or(Ok(()))
}

pub(super) fn change() -> io::Result<()> {
    with(Disk::step).unwrap_or(Ok(()))
}

/// Simulates opening a file for writing.
pub(super) fn open() -> io::Result<()> {
    with(Disk::step_of_open).unwrap_or(Ok(()))
}

/// Simulates the creation of a file, which may find the disk full.
pub(super) fn create() -> io::Result<()> {
    let create = |disk: &mut Disk| {
        disk.step()?;
        disk.step_of_open()?;
        if disk.is_full() { Err(Disk::no_room()) } else { Ok(()) }
    };
    with(create).unwrap_or(Ok(()))
}

/// Records a new file: none of its bytes are on the device, even if an earlier file had the same inode number.
pub(super) fn note_created(path: &Path, file: &File) -> io::Result<()> {
    let created = |disk: &mut Disk| {
        disk.changes.push(Change::Created(path.to_owned()));
        disk.synced.remove(&file.metadata()?.ino());
        Ok(())
    };
    with(created).unwrap_or(Ok(()))
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    with(|disk| {
        disk.step_of_sync()?;
        let kept = disk.keep(path)?;
        disk.changes.push(Change::Lost(path.to_owned(), kept));
        Ok(())
    })
    .unwrap_or(Ok(()))
}

/// Simulates a rename to `to`: moves a file with that name aside.
pub(super) fn replace(to: &Path) -> io::Result<()> {
    with(|disk| {
        disk.step()?;
        let change =
            if to.exists() { Change::Replaced(to.to_owned(), disk.keep(to)?) } else { Change::Created(to.to_owned()) };
        disk.changes.push(change);
        Ok(())
    })
    .unwrap_or(Ok(()))
}
