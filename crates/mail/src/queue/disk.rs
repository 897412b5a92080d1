//! The calls with which a queue changes its files, and the time of day. In tests the relay can be killed at any call,
//! calls that write or create a file can find the disk full, and the system can crash.

#[cfg(test)]
pub(crate) mod faults;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes bytes at an offset. After an error, a part of them may have been written.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(test)]
    faults::write(file, bytes, offset)?;
    file.write_all_at(bytes, offset)
}

/// Waits until the content of a file is on the device.
pub(super) fn sync(file: &File) -> io::Result<()> {
    #[cfg(test)]
    if faults::is_simulated() {
        return faults::sync(file);
    }
    file.sync_data()
}

/// Waits until the entries of a directory are on the device.
pub(super) fn sync_names(directory: &Path) -> io::Result<()> {
    #[cfg(test)]
    if faults::is_simulated() {
        return faults::sync_names();
    }
    File::open(directory)?.sync_all()
}

/// Truncates a file to `bytes` bytes.
pub(super) fn cut(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(test)]
    faults::change()?;
    file.set_len(bytes)
}

/// Creates a new file, accessible to its owner only.
pub(super) fn create(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    faults::create()?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    #[cfg(test)]
    faults::note_created(path, &file)?;
    Ok(file)
}

/// Opens a file for writing. If it does not exist, creates it, accessible to its owner only. Returns it with its
/// length.
pub(super) fn open_or_create(path: &Path) -> io::Result<(File, u64)> {
    #[cfg(test)]
    faults::open()?;
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => {
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((create(path)?, 0)),
        Err(error) => Err(error),
    }
}

/// Removes a file.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    if faults::is_simulated() {
        return faults::remove(path);
    }
    fs::remove_file(path)
}

/// Renames a file; a file with the new name is replaced.
pub(super) fn replace(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(test)]
    faults::replace(to)?;
    fs::rename(from, to)
}

/// Returns the milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    #[cfg(test)]
    if let Some(now_ms) = faults::now_ms() {
        return now_ms;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
