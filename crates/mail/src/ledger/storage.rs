//! The storage of a ledger: a file, or memory in tests.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

/// When lines are synced to the device, so that they survive a crash of the system and not only of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// With every batch of lines, before the engine continues.
    Always,
    /// At this interval.
    Interval(Duration),
    /// Never; the system decides when to write them.
    Never,
}

impl Sync {
    pub(crate) fn is_due(self, since_ns: u64) -> bool {
        match self {
            Self::Always => true,
            Self::Interval(interval) => u128::from(since_ns) >= interval.as_nanos(),
            Self::Never => false,
        }
    }
}

/// Syncs the directory entry of a file to the device.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// An append-only store of bytes.
pub(crate) trait Storage {
    /// Drops everything after the first `bytes` bytes.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;

    /// Appends bytes. After an error, a part of them may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until all appended bytes are on the device.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file. It is locked, because two engines with one ledger would send everything twice.
#[derive(Debug)]
pub(crate) struct FileStorage(File);

impl FileStorage {
    /// Opens or creates a file.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => {
                Err(io::Error::other("another run is using this ledger; wait until it ends"))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Read for FileStorage {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Storage for FileStorage {
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        if self.0.metadata()?.len() != bytes {
            self.0.set_len(bytes)?;
        }
        self.0.seek(SeekFrom::Start(bytes)).map(drop)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}
