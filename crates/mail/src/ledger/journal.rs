//! The ledger of a relay: a line for each thing that happened to a recipient. It is for the user: the queue has what
//! the relay needs. It can be truncated while the relay runs, and renamed: then it is opened again when the user asks
//! for that.

use super::{Report, State, write_report};
use crate::envelope::Mode;
use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The ledger of a relay.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    batch: Vec<u8>,
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

impl Journal {
    /// Opens a file, to whose end lines are appended.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = append(path).map_err(|error| Error::file(path, error.to_string()))?;
        Ok(Self { path: path.to_owned(), file, batch: Vec::new() })
    }

    /// Opens the file by its name again, after it was renamed.
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
