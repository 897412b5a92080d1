//! Appends lines to a record, each with its seal.

use crate::file::is_compressed;
use crate::{Error, Line, Record, SCHEMA_VERSION, chain};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Appends lines to a record. Lines are buffered: call [`Writer::flush`] at least once a second, so that a kill loses
/// at most the last second.
#[derive(Debug)]
pub struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    seal: String,
    line_count: u64,
    /// The length to cut the file to before the first line is appended. Until then the run may still be refused, and
    /// the file must not change.
    cut_to: Option<u64>,
}

/// The destination of a run's lines: a file, or a channel to one.
pub trait Journal {
    /// Appends a line.
    fn append(&mut self, line: &Line) -> Result<(), Error>;

    /// Passes on everything appended so far, so that a kill no longer loses it.
    fn flush(&mut self) -> Result<(), Error>;

    /// Flushes and waits until everything is stored.
    fn sync(&mut self) -> Result<(), Error>;
}

/// A journal that discards every line, for passes without a record.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nowhere;

impl Journal for Nowhere {
    fn append(&mut self, _line: &Line) -> Result<(), Error> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }
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
    /// Creates a record in a new file. Fails if the file exists.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file =
            OpenOptions::new().write(true).create_new(true).open(path).map_err(|source| refused(path, &source))?;
        lock(&file, path)?;
        Ok(Self::of(file, path, chain::START, 0, None))
    }

    /// Opens a record to append after its last complete line; a torn line is removed when the first line is appended.
    /// `record` must have been read from the same path. Fails without touching the file if the record has an older
    /// schema, is compressed, has changed since it was read, or another run is writing it.
    pub fn resume(path: &Path, record: &Record) -> Result<Self, Error> {
        if record.header.schema < SCHEMA_VERSION {
            return Err(Error::OldSchema { path: path.display().to_string(), schema: record.header.schema });
        }
        let file = open_unchanged("resume", path, record.complete_bytes)?;
        Ok(Self::of(file, path, &record.last_seal, record.line_count, Some(record.complete_bytes)))
    }

    /// Opens an existing file to write another record in its place. The previous content is removed when the first line
    /// is appended. `record` must have been read from the same path; it is `None` for a file without a complete line.
    /// Fails without touching the file if it is compressed, has changed since it was read, or another run is writing
    /// it.
    pub fn replace(path: &Path, record: Option<&Record>) -> Result<Self, Error> {
        let file = open_unchanged("replace", path, record.map_or(0, |record| record.complete_bytes))?;
        Ok(Self::of(file, path, chain::START, 0, Some(0)))
    }

    fn of(file: File, path: &Path, seal: &str, line_count: u64, cut_to: Option<u64>) -> Self {
        let file = BufWriter::with_capacity(1 << 20, file);
        Self { file, path: path.to_owned(), seal: seal.to_owned(), line_count, cut_to }
    }

    /// Appends a line. It reaches the file with the next [`Writer::flush`], or earlier.
    pub fn append(&mut self, line: &Line) -> Result<(), Error> {
        let body = serde_json::to_string(line).map_err(|error| io("write", &self.path, error.into()))?;
        if let Some(len) = self.cut_to {
            let file = self.file.get_mut();
            file.set_len(len).map_err(|source| io("truncate", &self.path, source))?;
            file.seek(SeekFrom::Start(len)).map_err(|source| io("seek in", &self.path, source))?;
            self.cut_to = None;
        }
        self.seal = chain::seal(&self.seal, &body);
        let mut sealed = chain::attach(&body, &self.seal);
        sealed.push('\n');
        self.file.write_all(sealed.as_bytes()).map_err(|source| io("write", &self.path, source))?;
        self.line_count += 1;
        Ok(())
    }

    /// Passes everything appended so far to the operating system.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.file.flush().map_err(|source| io("write", &self.path, source))
    }

    /// Flushes and waits until the device has stored it.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        match self.file.get_ref().sync_data() {
            // A pipe or a character device (`/dev/stdout`) cannot be synced.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => Ok(()),
            other => other.map_err(|source| io("write", &self.path, source)),
        }
    }

    /// Returns the number of lines, including those of the run that was resumed.
    pub fn line_count(&self) -> u64 {
        self.line_count
    }

    /// Returns the record's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Opens and locks a file of which `complete_bytes` were read as complete lines. Fails if it is compressed, has changed
/// since it was read, or another run is writing it.
fn open_unchanged(action: &'static str, path: &Path, complete_bytes: u64) -> Result<File, Error> {
    let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(|source| io("open", path, source))?;
    if is_compressed(&mut BufReader::new(&file), path)? {
        return Err(Error::Compressed { action, path: path.display().to_string() });
    }
    lock(&file, path)?;
    // The file was read before it was locked: another run may have written to it and ended in between.
    let len = file.metadata().map_err(|source| io("stat", path, source))?.len();
    file.seek(SeekFrom::Start(complete_bytes)).map_err(|source| io("seek in", path, source))?;
    let mut torn = Vec::new();
    (&file).read_to_end(&mut torn).map_err(|source| io("read", path, source))?;
    if len < complete_bytes || torn.contains(&b'\n') {
        let changed = std::io::Error::other("another run has written it since it was read; try again");
        return Err(io(action, path, changed));
    }
    Ok(file)
}

/// Prevents a second run from appending to the same record. The kernel releases the lock when the process ends.
fn lock(file: &File, path: &Path) -> Result<(), Error> {
    match file.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Io {
            action: "lock",
            path: path.display().to_string(),
            source: std::io::Error::new(
                std::io::ErrorKind::WouldBlock,
                "another run is writing it; wait until it ends or choose another file with --output",
            ),
        }),
        // Some network file systems have no locks; there, nothing prevents a second run.
        Ok(()) | Err(std::fs::TryLockError::Error(_)) => Ok(()),
    }
}

/// Returns why a record cannot be created, and what to do.
fn refused(path: &Path, source: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let advice = match source.kind() {
        ErrorKind::AlreadyExists => "landau never overwrites a file; choose another name or remove it",
        ErrorKind::NotFound => "create its directory first or choose another place",
        _ => "choose a place where you can write",
    };
    io("create", path, std::io::Error::new(source.kind(), format!("{source}; {advice}")))
}

fn io(action: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { action, path: path.display().to_string(), source }
}
