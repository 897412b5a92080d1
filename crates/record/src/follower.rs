//! Reads a record while it is written: each call reads the lines that were added since the last one.

use crate::reader::Reader;
use crate::{Error, Record};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// A record that is being written, as read so far.
pub struct Follower {
    file: File,
    name: String,
    reader: Reader,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Follower {
    /// Opens a record; nothing is read yet.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| Error::Io { action: "open", path: name.clone(), source })?;
        Ok(Self { file, reader: Reader::new(&name), name })
    }

    /// Reads the complete lines that were added since the last call, and returns the record so far. The writer must
    /// have flushed them.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if its first line is not the header of a record.
    pub fn read(&mut self) -> Result<&Record, Error> {
        let mut bytes = Vec::new();
        let from = SeekFrom::Start(self.reader.record().complete_bytes);
        let read = self.file.seek(from).and_then(|_| self.file.read_to_end(&mut bytes));
        read.map_err(|source| Error::Io { action: "read", path: self.name.clone(), source })?;
        self.reader.complete_lines(&bytes)?;
        Ok(self.reader.record())
    }
}
