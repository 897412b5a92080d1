//! The segments as the engine sees them: what is left in each, and the states of its recipients, which are appended
//! here. A segment in which nothing is left is deleted.

use super::record::{Final, STATE_BYTES};
use super::{Entry, Shared};
use crate::ledger::Sync;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

#[derive(Debug, Default)]
struct Segment {
    /// Messages with recipients that are left.
    live: u64,
    /// The bytes of their records.
    live_bytes: u64,
    /// The bytes of all records.
    bytes: u64,
    is_closed: bool,
    /// The file of the states, when one was written.
    states: Option<File>,
    states_bytes: u64,
    /// States that were not written.
    batch: Vec<u8>,
}

/// The segments.
#[derive(Debug)]
pub(super) struct Segments {
    shared: Arc<Shared>,
    sync: Sync,
    all: BTreeMap<u32, Segment>,
    /// Segments that may be deleted.
    done: BTreeSet<u32>,
    /// Segments with states that were not written, and with states that were not synced.
    unwritten: BTreeSet<u32>,
    unsynced: BTreeSet<u32>,
    synced_ns: u64,
}

impl Segments {
    /// Returns the segments that were found, which are closed.
    pub(super) fn new(shared: Arc<Shared>, sync: Sync, found: &BTreeMap<u32, u64>) -> Self {
        let segment = |bytes| Segment { bytes, is_closed: true, ..Segment::default() };
        Self {
            shared,
            sync,
            all: found.iter().map(|(&number, &bytes)| (number, segment(bytes))).collect(),
            done: found.keys().copied().collect(),
            unwritten: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            synced_ns: 0,
        }
    }

    /// Notes a message that is left. `is_new` says that its bytes were not counted when the segment was found.
    pub(super) fn add(&mut self, entry: &Entry, is_new: bool) {
        let segment = self.all.entry(entry.segment).or_default();
        segment.live += 1;
        segment.live_bytes += entry.bytes;
        if is_new {
            segment.bytes += entry.bytes;
        }
    }

    /// Notes that nothing more is appended to a segment.
    pub(super) fn close(&mut self, number: u32) {
        self.all.entry(number).or_default().is_closed = true;
        self.done.insert(number);
    }

    /// Notes that the relay is done with a recipient.
    pub(super) fn settle(&mut self, entry: &Entry, recipient: u32) {
        if let Some(segment) = self.all.get_mut(&entry.segment) {
            segment.batch.extend_from_slice(&Final { id: entry.id, recipient }.bytes());
            self.unwritten.insert(entry.segment);
        }
    }

    /// Notes that no recipient of a message is left. The segment is deleted with the next commit if it was the last.
    pub(super) fn remove(&mut self, entry: &Entry) {
        if let Some(segment) = self.all.get_mut(&entry.segment) {
            segment.live -= 1;
            segment.live_bytes -= entry.bytes;
            if segment.live == 0 {
                self.done.insert(entry.segment);
            }
        }
    }

    /// Writes the states, and syncs them if that is due. Deletes segments in which nothing is left.
    pub(super) fn commit(&mut self, now_ns: u64, is_end: bool) -> io::Result<()> {
        // On a full disk, deleting makes the room for what is written after it.
        while let Some(&number) = self.done.first() {
            self.delete_if_done(number)?;
            self.done.remove(&number);
        }
        self.write_all(now_ns)?;
        if is_end && self.sync != Sync::Never { self.sync_all(now_ns) } else { Ok(()) }
    }

    /// Writes the states, and syncs them if that is due.
    pub(super) fn write_all(&mut self, now_ns: u64) -> io::Result<()> {
        while let Some(&number) = self.unwritten.first() {
            self.write(number)?;
            self.unwritten.remove(&number);
        }
        if self.sync.is_due(now_ns.saturating_sub(self.synced_ns)) { self.sync_all(now_ns) } else { Ok(()) }
    }

    fn sync_all(&mut self, now_ns: u64) -> io::Result<()> {
        while let Some(&number) = self.unsynced.first() {
            if let Some(file) = self.all.get(&number).and_then(|segment| segment.states.as_ref()) {
                file.sync_data()?;
            }
            self.unsynced.remove(&number);
            self.synced_ns = now_ns;
        }
        Ok(())
    }

    /// Returns a closed segment that is mostly empty.
    pub(super) fn sparse(&self) -> Option<u32> {
        let is_sparse =
            |segment: &Segment| segment.is_closed && segment.live > 0 && segment.live_bytes < segment.bytes / 4;
        self.all.iter().find(|(_, segment)| is_sparse(segment)).map(|(&number, _)| number)
    }

    fn write(&mut self, number: u32) -> io::Result<()> {
        let Some(segment) = self.all.get_mut(&number) else { return Ok(()) };
        if segment.batch.is_empty() {
            return Ok(());
        }
        let file = if let Some(file) = &segment.states {
            file
        } else {
            let path = self.shared.states(number);
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            segment.states_bytes = file.metadata()?.len();
            segment.states.insert(file)
        };
        // A record that an error cut off is overwritten by the next attempt.
        file.write_all_at(&segment.batch, segment.states_bytes)?;
        debug_assert_eq!(segment.batch.len() % STATE_BYTES, 0);
        let bytes = segment.batch.len() as u64;
        segment.states_bytes += bytes;
        segment.bytes += bytes;
        segment.batch.clear();
        self.shared.grow(bytes);
        self.unsynced.insert(number);
        Ok(())
    }

    /// Deletes a segment in which nothing is left: the messages first, because without their states they would be sent
    /// again.
    fn delete_if_done(&mut self, number: u32) -> io::Result<()> {
        let Some(segment) = self.all.get(&number) else { return Ok(()) };
        if segment.live > 0 || !segment.is_closed {
            return Ok(());
        }
        delete(&self.shared.mail(number))?;
        delete(&self.shared.states(number))?;
        self.shared.shrink(segment.bytes);
        self.all.remove(&number);
        self.unsynced.remove(&number);
        Ok(())
    }
}

fn delete(path: &std::path::Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
