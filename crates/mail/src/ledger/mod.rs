//! The ledger: an append-only file of JSON lines with the outcome of each recipient.
//!
//! The first line names the message and the mode. Each further line is about one recipient, by its number in the list.
//! The last line about a recipient is the valid one. The lines of a batch of events are written together, before the
//! engine waits again. A line that a crash cut off is dropped when the ledger is opened; its recipient counts as left.
//!
//! If a crash occurs between a server's acknowledgement and the write, the continued run sends the message again. SMTP
//! cannot prevent that (RFC 1047).

mod history;
mod journal;
mod storage;

pub(crate) use history::History;
pub(crate) use journal::Journal;
pub(crate) use storage::FileStorage;
pub(crate) use storage::Storage;
pub use storage::Sync;
pub(crate) use storage::sync_parent;

use crate::envelope::Mode;
use crate::error::{Error, Result};
use crate::message::Message;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::Path;

/// The version of the format.
const VERSION: u32 = 1;

/// Maximum length of a recorded reply, in bytes.
const REPLY_BYTES: usize = 512;

/// The state of a recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It succeeded: final.
    Done,
    /// It was tried, and may be tried again.
    Deferred,
    /// It was refused permanently: final.
    Failed,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Header {
    /// The version of the format.
    landau_ledger: u32,
    mode: Mode,
    /// The SHA-256 digest of the message file.
    message: String,
}

/// A line about a recipient, as it is read.
#[derive(Debug, Deserialize)]
struct Line<'a> {
    recipient: u64,
    #[serde(borrow)]
    to: std::borrow::Cow<'a, str>,
    state: &'a str,
}

/// The host that answered about a recipient.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(crate) name: &'a str,
    /// Whether it received the notification requests of the sender and honours them.
    pub(crate) has_dsn: bool,
}

/// An entry about a recipient.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    /// Its number in the list, from 0.
    pub(crate) number: u64,
    /// Its address.
    pub(crate) address: &'a str,
    /// Its state.
    pub(crate) state: State,
    /// The code of the reply, if there was one.
    pub(crate) code: Option<u16>,
    /// The text of the reply, or why there was none.
    pub(crate) text: &'a [u8],
    /// The host that answered; none if no host was contacted.
    pub(crate) host: Option<Host<'a>>,
}

/// The ledger of a run.
#[derive(Debug)]
pub(crate) struct Ledger<S> {
    storage: S,
    mode: Mode,
    sync: Sync,
    /// Lines that are not written yet.
    batch: Vec<u8>,
    /// The time of the lines of this batch as text: milliseconds since 1970.
    stamp: String,
    /// Whether lines were written and not synced.
    is_dirty: bool,
    /// When the last sync was.
    synced_ns: u64,
}

/// Opens or begins the ledger in a file. Returns it with the states of recipients of earlier runs.
pub(crate) fn open(path: &Path, mode: Mode, message: &Message, sync: Sync) -> Result<(Ledger<FileStorage>, History)> {
    let storage = FileStorage::open(path).map_err(|error| Error::file(path, error.to_string()))?;
    let (ledger, history) = open_storage(storage, mode, message, sync).map_err(|error| match error {
        Error::Spec(reason) => Error::file(path, reason),
        other => other,
    })?;
    // A new file is lost in a system crash unless its directory entry is on the device, even if its data is.
    if history.bytes() == 0 && sync != Sync::Never {
        sync_parent(path).map_err(|error| Error::file(path, format!("cannot sync its directory: {error}")))?;
    }
    Ok((ledger, history))
}

/// Opens or begins a ledger. One that cannot be continued is an [`Error::Spec`].
pub(crate) fn open_storage<S: Storage + Read>(
    mut storage: S,
    mode: Mode,
    message: &Message,
    sync: Sync,
) -> Result<(Ledger<S>, History)> {
    let header = Header { landau_ledger: VERSION, mode, message: message.digest().to_owned() };
    let history = history::read(&mut storage, &header).map_err(Error::Spec)?;
    Ledger::begin(storage, &header, &history, sync).map(|ledger| (ledger, history))
}

impl<S: Storage> Ledger<S> {
    /// Continues a ledger that was read, or writes the first line.
    fn begin(storage: S, header: &Header, history: &History, sync: Sync) -> Result<Self> {
        let mut ledger = Self {
            storage,
            mode: header.mode,
            sync,
            batch: Vec::new(),
            stamp: String::new(),
            is_dirty: false,
            synced_ns: 0,
        };
        ledger.storage.truncate(history.bytes()).map_err(Error::Ledger)?;
        if history.bytes() == 0 {
            ledger.batch = serde_json::to_vec(header).map_err(|error| Error::Ledger(error.into()))?;
            ledger.batch.push(b'\n');
            ledger.commit(0)?;
        }
        Ok(ledger)
    }

    /// Adds a line to the batch. `now_ms` returns the milliseconds since 1970; it is read once for a batch.
    pub(crate) fn add(&mut self, report: &Report<'_>, now_ms: impl FnOnce() -> u64) {
        let state = match report.state {
            State::Done => self.mode.success(),
            State::Deferred => "deferred",
            State::Failed => "failed",
        };
        if self.batch.is_empty() {
            self.stamp = now_ms().to_string();
        }
        self.batch.push(b'{');
        write_report(&mut self.batch, report, state, &self.stamp);
    }

    /// Writes the batch, and syncs it to the device if that is due.
    pub(crate) fn commit(&mut self, now_ns: u64) -> Result<()> {
        if !self.batch.is_empty() {
            self.storage.append(&self.batch).map_err(Error::Ledger)?;
            self.batch.clear();
            self.is_dirty = true;
        }
        if self.is_dirty && self.sync.is_due(now_ns.saturating_sub(self.synced_ns)) {
            self.sync_now(now_ns)?;
        }
        Ok(())
    }

    /// Writes and syncs everything at the end of a run.
    pub(crate) fn finish(&mut self, now_ns: u64) -> Result<()> {
        self.commit(now_ns)?;
        if self.is_dirty && self.sync != Sync::Never { self.sync_now(now_ns) } else { Ok(()) }
    }

    fn sync_now(&mut self, now_ns: u64) -> Result<()> {
        self.storage.sync().map_err(Error::Ledger)?;
        (self.is_dirty, self.synced_ns) = (false, now_ns);
        Ok(())
    }
}

/// Appends the members of a line about a recipient, and the end of the line.
fn write_report(out: &mut Vec<u8>, report: &Report<'_>, state: &str, at_ms: &str) {
    // Writing to memory cannot fail.
    let _ = write!(out, "\"recipient\":{},\"to\":", report.number);
    write_text(out, report.address.as_bytes());
    let _ = write!(out, ",\"state\":\"{state}\",\"at_ms\":{at_ms}");
    if let Some(code) = report.code {
        let _ = write!(out, ",\"code\":{code}");
    }
    out.extend_from_slice(b",\"reply\":");
    write_text(out, &report.text[..report.text.len().min(REPLY_BYTES)]);
    out.extend_from_slice(b"}\n");
}

/// Appends a text in quotes. Bytes that are not UTF-8 become U+FFFD.
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    let is_plain = |&byte: &u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if text.iter().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text);
        out.push(b'"');
        return;
    }
    // Writing a string to memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &String::from_utf8_lossy(text));
}

#[cfg(test)]
mod tests;
