//! Appends lines to a record and seals each.

use crate::{Error, Line, Record, SCHEMA_VERSION, chain};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Appends lines to a record. Lines are buffered: call [`Writer::flush`] at least once a second, so that a kill
/// costs no more than that.
#[derive(Debug)]
pub struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    seal: String,
    line_count: u64,
}

/// Where a run's lines go: a file, or whatever carries them to one.
pub trait Journal {
    /// Appends a line.
    fn append(&mut self, line: &Line) -> Result<(), Error>;

    /// Hands everything appended so far on: a kill from now on costs none of it.
    fn flush(&mut self) -> Result<(), Error>;

    /// Flushes and waits until it is safe.
    fn sync(&mut self) -> Result<(), Error>;
}

impl Journal for Writer {
    fn append(&mut self, line: &Line) -> Result<(), Error> {
        Writer::append(self, line)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Writer::flush(self)
    }

    fn sync(&mut self) -> Result<(), Error> {
        Writer::sync(self)
    }
}

impl Writer {
    /// Starts a record in a new file. An existing file is never overwritten.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(|source| refused(path, &source))?;
        lock(&file, path)?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            path: path.to_owned(),
            seal: chain::START.to_owned(),
            line_count: 0,
        })
    }

    /// Opens a record to append behind its last whole line; a torn line is removed. `record` must have been read from
    /// the same path. Fails without touching the file if the record has an older schema or another run is writing it.
    pub fn resume(path: &Path, record: &Record) -> Result<Self, Error> {
        if record.header.schema < SCHEMA_VERSION {
            return Err(Error::OldSchema { path: path.display().to_string(), schema: record.header.schema });
        }
        let mut file = OpenOptions::new().write(true).open(path).map_err(|source| io("open", path, source))?;
        lock(&file, path)?;
        file.set_len(record.whole_bytes).map_err(|source| io("truncate", path, source))?;
        file.seek(SeekFrom::End(0)).map_err(|source| io("seek in", path, source))?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 20, file),
            path: path.to_owned(),
            seal: record.last_seal.clone(),
            line_count: record.line_count,
        })
    }

    /// Appends a line. It reaches the file with the next [`Writer::flush`], or earlier.
    pub fn append(&mut self, line: &Line) -> Result<(), Error> {
        let body = serde_json::to_string(line).map_err(|error| io("write", &self.path, error.into()))?;
        self.seal = chain::seal(&self.seal, &body);
        let mut sealed = chain::attach(&body, &self.seal);
        sealed.push('\n');
        self.file.write_all(sealed.as_bytes()).map_err(|source| io("write", &self.path, source))?;
        self.line_count += 1;
        Ok(())
    }

    /// Hands everything appended so far to the operating system.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|source| io("write", &self.path, source))
    }

    /// Flushes and waits until the device has it.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        match self.file.get_ref().sync_data() {
            // A pipe or a character device (`/dev/stdout`) has nothing to wait for.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
            other => other.map_err(|source| io("write", &self.path, source)),
        }
    }

    /// Lines written so far, those of the run that was resumed included.
    pub fn line_count(&self) -> u64 {
        self.line_count
    }

    /// The record's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Keeps a second run from appending to the same record; the kernel drops the lock with the process.
fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Io {
            action: "lock",
            path: path.display().to_string(),
            source: std::io::Error::new(
                std::io::ErrorKind::WouldBlock,
                "another run is writing it; wait for it or choose another --output",
            ),
        }),
        // Some network file systems have no locks; the record is then as safe as the user's discipline.
        Ok(()) | Err(std::fs::TryLockError::Error(_)) => Ok(()),
    }
}

/// Why a record cannot be begun, with what to do about it.
fn refused(path: &Path, source: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let advice = match source.kind() {
        ErrorKind::AlreadyExists => "something of that name is there already, and is never written over",
        ErrorKind::NotFound => "its folder does not exist; make it, or choose another place",
        _ => "choose a place that you may write to",
    };
    io("create", path, std::io::Error::new(source.kind(), format!("{source}; {advice}")))
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { action, path: path.display().to_string(), source }
}
