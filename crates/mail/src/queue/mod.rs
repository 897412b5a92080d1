//! The queue of a relay: accepted messages that are not delivered yet, in append-only files.
//!
//! A segment `00000001.mail` contains consecutive messages; `00000001.states` has a record for each of their recipients
//! that the relay has finished. The receiver appends messages and the engine appends states, so neither waits for the
//! other. A segment without remaining recipients is deleted; the remaining messages of a mostly empty segment are moved
//! to another one.
//!
//! A crash may cut off the last records of a file. Such records were not acknowledged: a message counts as accepted,
//! and a recipient as done, only after its record was written, and with [`Sync::Always`](crate::Sync) synced. Each
//! record has a checksum, so a cut at any byte is detected. A record that the device has damaged is skipped and
//! reported; those after it are kept.

mod attempt;
mod compaction;
pub(crate) mod control;
#[cfg(test)]
mod database;
pub(crate) mod disk;
mod feed;
mod loaded;
mod record;
mod recover;
mod reports;
mod scan;
mod segments;
mod shares;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub(crate) use control::addresses;
pub(crate) use feed::{Feed, Handling, Patience, Published};
pub(crate) use record::{Message, Meta, parse};
#[cfg(test)]
pub(crate) use recover::Found;
pub(crate) use recover::{InUse, LOCK, exposure, in_use, open, try_open};
pub(crate) use writer::{Commit, Writer};

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The file with the identifiers of the messages that wait until the user releases them, one per line.
const HELD: &str = "held";

/// A segment that has reached this length is closed; the next message begins another one.
const SEGMENT_BYTES: u64 = 16 << 20;

/// Maximum number of open descriptors of a queue: the lock, the segment of each writer, the states of some segments,
/// and the message that is being read.
pub(crate) const DESCRIPTORS: u32 = segments::MOST_OPEN as u32 + 8;

/// Returns whether an error means a lack of space: a full device, a quota, or the limit on a file's size.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Returns whether an error means that the process or the system has no free descriptor.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    landau_sys::Error::from_io("open", error).is_out_of_descriptors()
}

/// Returns whether an error means a temporary shortage of disk space or descriptors.
pub(crate) fn is_short(error: &io::Error) -> bool {
    is_full(error) || is_out_of_descriptors(error)
}

/// The location of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) segment: u32,
    /// The offset of its record.
    pub(crate) offset: u64,
    /// The length of its record.
    pub(crate) bytes: u64,
    /// The number of its recipients.
    pub(crate) recipients: u32,
    /// When it was accepted, in milliseconds since 1970.
    pub(crate) at_ms: u64,
}

/// A notice from another thread to the engine.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A message was accepted.
    Accepted(Entry),
    /// Nothing more is appended to this segment.
    Closed(u32),
    /// A request of the user, and the channel for the answer.
    Asked(control::Request, std::sync::mpsc::Sender<control::Answer>),
}

/// The state shared by the receiver and the engine.
#[derive(Debug)]
pub(crate) struct Shared {
    directory: PathBuf,
    /// Maximum size of all files in bytes.
    limit: u64,
    /// The bytes of all files, and of the messages that are about to be written.
    bytes: AtomicU64,
    next_id: AtomicU64,
    next_segment: AtomicU32,
    /// Whether states cannot be written: the disk is full, or no descriptor is free.
    is_blocked: AtomicBool,
}

impl Shared {
    pub(crate) fn new(directory: &Path, limit: u64, next_id: u64, next_segment: u32) -> Self {
        Self {
            directory: directory.to_owned(),
            limit,
            bytes: AtomicU64::new(0),
            next_id: AtomicU64::new(next_id),
            next_segment: AtomicU32::new(next_segment),
            is_blocked: AtomicBool::new(false),
        }
    }

    /// Returns the bytes of all files, and of the messages that are about to be written.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the size at which a segment is closed. Only closed segments are deleted, so a small queue has small
    /// segments.
    pub(crate) fn segment_bytes(&self) -> u64 {
        SEGMENT_BYTES.min(self.limit / 8)
    }

    /// Returns whether a message of this length may be added.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        !self.is_blocked.load(Ordering::Relaxed) && self.is_within_limit(bytes)
    }

    /// Returns whether bytes may be added without exceeding the limit.
    pub(super) fn is_within_limit(&self, bytes: u64) -> bool {
        self.bytes().saturating_add(bytes) <= self.limit
    }

    /// Returns a unique message identifier.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn next_segment(&self) -> u32 {
        self.next_segment.fetch_add(1, Ordering::Relaxed)
    }

    fn grow(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn shrink(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the path of the file with the identifiers of held messages.
    fn held(&self) -> PathBuf {
        self.directory.join(HELD)
    }

    /// Returns the path of a segment's messages.
    fn mail(&self, segment: u32) -> PathBuf {
        self.directory.join(format!("{segment:08}.mail"))
    }

    /// Returns the path of a segment's states.
    fn states(&self, segment: u32) -> PathBuf {
        self.directory.join(format!("{segment:08}.states"))
    }
}
