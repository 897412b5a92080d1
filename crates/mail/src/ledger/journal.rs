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

    /// Adds a line about a recipient of a message.
    pub(crate) fn add(&mut self, message: u64, report: &Report<'_>, unix_ms: u64) {
        let state = match report.state {
            State::Done => Mode::Data.success(),
            State::Deferred => "deferred",
            State::Failed => "failed",
        };
        self.add_line(message, report, state, unix_ms);
    }

    /// Adds a line about a recipient that the user has deleted.
    pub(crate) fn add_deleted(&mut self, message: u64, number: u64, address: &str, unix_ms: u64) {
        let text = &b"deleted by the user"[..];
        let report = Report { number, address, state: State::Failed, code: None, text, host: None };
        self.add_line(message, &report, "deleted", unix_ms);
    }

    fn add_line(&mut self, message: u64, report: &Report<'_>, state: &str, unix_ms: u64) {
        // Writing to memory cannot fail.
        let _ = write!(self.batch, "{{\"message\":\"{message:X}\",");
        write_report(&mut self.batch, report, state, &unix_ms.to_string());
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
