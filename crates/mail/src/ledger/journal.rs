//! The ledger of a relay: a line for each event of a recipient. It is for the user: the queue holds the data that the
//! relay needs. It can be truncated while the relay runs. It can also be renamed; the relay reopens the file when the
//! user requests it.

use super::{Report, State, write_report};
use crate::envelope::Mode;
use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The ledger of a relay.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    batch: Vec<u8>,
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).open(path)
}

/// Terminates the last line of a file if a crash cut it off.
fn end_line(mut file: &File) -> io::Result<()> {
    let facts = file.metadata()?;
    let (mut last, length) = ([b'\n'], facts.len());
    if facts.is_file() && length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    if last == [b'\n'] { Ok(()) } else { file.write_all(b"\n") }
}

impl Journal {
    /// Opens a file for appending lines.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let opened = append(path).and_then(|file| end_line(&file).map(|()| file));
        let file = opened.map_err(|error| Error::file(path, error.to_string()))?;
        Ok(Self { path: path.to_owned(), file, batch: Vec::new() })
    }

    /// Reopens the file by its name, after it was renamed.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.file = append(&self.path)?;
        Ok(())
    }

    /// Returns the line about a recipient of a message.
    pub(crate) fn line(message: u64, report: &Report<'_>, unix_ms: u64) -> Vec<u8> {
        let state = match report.state {
            State::Done => Mode::Data.success(),
            State::Deferred => "deferred",
            State::Failed => "failed",
        };
        let mut line = Vec::new();
        write_line(&mut line, message, report, state, unix_ms);
        line
    }

    /// Adds lines.
    pub(crate) fn add(&mut self, lines: &[u8]) {
        self.batch.extend_from_slice(lines);
    }

    /// Adds a line about a recipient that the user has deleted.
    pub(crate) fn add_deleted(&mut self, message: u64, number: u64, address: &str, unix_ms: u64) {
        let text = &b"deleted by the user"[..];
        let report = Report { number, address, state: State::Failed, code: None, text, host: None };
        write_line(&mut self.batch, message, &report, "deleted", unix_ms);
    }

    /// Writes the lines.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        while !self.batch.is_empty() {
            let count = self.file.write(&self.batch)?;
            self.batch.drain(..count);
        }
        Ok(())
    }
}

fn write_line(out: &mut Vec<u8>, message: u64, report: &Report<'_>, state: &str, unix_ms: u64) {
    // Writing to memory cannot fail.
    let _ = write!(out, "{{\"message\":\"{message:X}\",");
    write_report(out, report, state, &unix_ms.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_off_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        for (before, expected) in [("", ""), ("{}\n", "{}\n"), ("{}\n{\"mess", "{}\n{\"mess\n")] {
            std::fs::write(&path, before).unwrap();
            let mut journal = Journal::open(&path).unwrap();
            journal.add(b"{\"next\":1}\n");
            journal.commit().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{expected}{{\"next\":1}}\n"));
        }
    }
}
