//! The guest's connection to the host, which carries the lines of its record.

use crate::frame;
use crate::job::Message;
use landau_record::schema::Line;
use landau_record::{Error as RecordError, Journal};
use landau_sys::descriptor;
use std::fs::File;
use std::io::{Error as IoError, IsTerminal, Write};

/// The connection, and the lines that have not been sent yet.
pub(super) struct Connection {
    file: File,
    name: String,
    next_number: u64,
    pending: Vec<String>,
}

impl Connection {
    /// Returns a connection over a file; `name` is used in errors.
    pub(super) fn new(file: File, name: &str) -> Self {
        Self { file, name: name.to_owned(), next_number: 0, pending: Vec::new() }
    }

    /// Sends a message and waits until it has been transmitted: nothing may be transmitted during a measurement.
    pub(super) fn send(&mut self, message: &Message) -> std::io::Result<()> {
        let content = serde_json::to_vec(message)?;
        let text = frame::encode(self.next_number, &content)?;
        self.next_number += 1;
        self.file.write_all(text.as_bytes())?;
        if self.file.is_terminal() { descriptor::drain(&self.file).map_err(IoError::other) } else { Ok(()) }
    }

    fn write_error(&self, source: IoError) -> RecordError {
        RecordError::Io { action: "write", path: self.name.clone(), source }
    }
}

impl Journal for Connection {
    fn append(&mut self, line: &Line) -> Result<(), RecordError> {
        let text = serde_json::to_string(line).map_err(|error| self.write_error(error.into()))?;
        self.pending.push(text);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.pending);
        self.send(&Message::Lines(lines)).map_err(|error| self.write_error(error))
    }

    fn sync(&mut self) -> Result<(), RecordError> {
        self.flush()
    }
}
