//! The engine's side of the segments: the remaining messages of each, and the states of its recipients, which are
//! appended here. A segment without remaining messages is deleted.

use super::record::{Final, STATE_BYTES};
use super::{Entry, Shared, disk};
use crate::ledger::Sync;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Maximum number of open states files. A queue may have more segments than a process may have descriptors.
pub(super) const MOST_OPEN: usize = 16;

#[derive(Debug, Default)]
struct Segment {
    /// The number of messages with remaining recipients.
    live: u64,
    /// The bytes of their records.
    live_bytes: u64,
    /// The bytes of all records.
    bytes: u64,
    is_closed: bool,
    /// The file of the states, if it is open.
    states: Option<File>,
    /// The length of the written states, after the file was opened.
    states_bytes: Option<u64>,
    /// States that are not written yet.
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
    /// Segments with unwritten states, and segments with unsynced states.
    unwritten: BTreeSet<u32>,
    unsynced: BTreeSet<u32>,
    /// Pairs of a segment and another one with copies of its messages. The first is deleted after the second has their
    /// states, and before the second is deleted.
    moved: BTreeSet<(u32, u32)>,
    /// Segments that are not deleted in this run.
    kept: BTreeSet<u32>,
    /// Segments with open states files, in the order of opening.
    open: VecDeque<u32>,
    /// Whether a segment was deleted whose states, and perhaps its deletion, are not on the device.
    must_sync_names: bool,
    synced_ns: u64,
}

impl Segments {
    /// Returns the existing segments, which are closed.
    pub(super) fn new(
        shared: Arc<Shared>,
        sync: Sync,
        found: &BTreeMap<u32, u64>,
        moved: BTreeSet<(u32, u32)>,
    ) -> Self {
        let segment = |bytes| Segment { bytes, is_closed: true, ..Segment::default() };
        Self {
            shared,
            sync,
            all: found.iter().map(|(&number, &bytes)| (number, segment(bytes))).collect(),
            done: found.keys().copied().collect(),
            unwritten: BTreeSet::new(),
            unsynced: BTreeSet::new(),
            moved,
            kept: BTreeSet::new(),
            open: VecDeque::new(),
            must_sync_names: false,
            synced_ns: 0,
        }
    }

    /// Records a remaining message. `is_new` means that its bytes were not counted when the segment was found.
    pub(super) fn add(&mut self, entry: &Entry, is_new: bool) {
        let segment = self.all.entry(entry.segment).or_default();
        segment.live += 1;
        segment.live_bytes += entry.bytes;
        if is_new {
            segment.bytes += entry.bytes;
        }
    }

    /// Records that no more is appended to a segment.
    pub(super) fn close(&mut self, number: u32) {
        self.all.entry(number).or_default().is_closed = true;
        self.done.insert(number);
    }

    /// Records that the relay has finished a recipient.
    pub(super) fn settle(&mut self, entry: &Entry, recipient: u32) {
        if let Some(segment) = self.all.get_mut(&entry.segment) {
            segment.batch.extend_from_slice(&Final { id: entry.id, recipient }.bytes());
            self.unwritten.insert(entry.segment);
        }
    }

    /// Records that a message has no remaining recipients. If it was the last of its segment, the next commit deletes
    /// the segment.
    pub(super) fn remove(&mut self, entry: &Entry) {
        if let Some(segment) = self.all.get_mut(&entry.segment) {
            segment.live -= 1;
            segment.live_bytes -= entry.bytes;
            if segment.live == 0 {
                self.done.insert(entry.segment);
            }
        }
    }

    /// Deletes segments without remaining messages.
    pub(super) fn delete_done(&mut self) -> io::Result<()> {
        let deleted = self.delete_unheld();
        // Also after an error: a full disk does not end the relay.
        let synced = self.sync_deletions();
        deleted.and(synced)
    }

    fn delete_unheld(&mut self) -> io::Result<()> {
        for number in self.done.clone() {
            if !self.is_held(number)? {
                self.delete_if_done(number)?;
                self.done.remove(&number);
            }
        }
        Ok(())
    }

    /// Syncs deletions that a system crash could undo, of messages whose states are not on the device.
    fn sync_deletions(&mut self) -> io::Result<()> {
        if self.must_sync_names && self.sync != Sync::Never {
            disk::sync_names(&self.shared.directory)?;
        }
        self.must_sync_names = false;
        Ok(())
    }

    /// Keeps segments until the end of the run, even if they are empty.
    pub(super) fn keep(&mut self, segments: BTreeSet<u32>) {
        self.kept = segments;
    }

    /// Records that the messages of a segment were copied to another one.
    pub(super) fn note_move(&mut self, from: u32, to: u32) {
        self.moved.insert((from, to));
    }

    /// Returns whether a segment must not be deleted yet: otherwise a start could find one of two copies of a message
    /// without the states of the other, and send the message again.
    fn is_held(&mut self, number: u32) -> io::Result<bool> {
        if self.kept.contains(&number) || self.moved.iter().any(|&(_, to)| to == number) {
            return Ok(true);
        }
        for (_, to) in self.moved.range((number, 0)..=(number, u32::MAX)).copied().collect::<Vec<_>>() {
            if self.unwritten.contains(&to) {
                return Ok(true);
            }
            if self.sync != Sync::Never && self.unsynced.contains(&to) {
                if let Some(file) = self.all.get(&to).and_then(|segment| segment.states.as_ref()) {
                    disk::sync(file)?;
                }
                self.unsynced.remove(&to);
            }
        }
        Ok(false)
    }

    /// Syncs all written states at once, unless the user leaves syncs to the system.
    pub(super) fn sync_now(&mut self, now_ns: u64) -> io::Result<()> {
        if self.sync == Sync::Never { Ok(()) } else { self.sync_all(now_ns) }
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
                disk::sync(file)?;
            }
            self.unsynced.remove(&number);
            self.synced_ns = now_ns;
        }
        Ok(())
    }

    /// Returns the closed segments that are mostly empty.
    pub(super) fn sparse(&self) -> impl Iterator<Item = u32> {
        let is_sparse =
            |segment: &Segment| segment.is_closed && segment.live > 0 && segment.live_bytes < segment.bytes / 4;
        self.all.iter().filter(move |(_, segment)| is_sparse(segment)).map(|(&number, _)| number)
    }

    fn write(&mut self, number: u32) -> io::Result<()> {
        if self.all.get(&number).is_none_or(|segment| segment.batch.is_empty()) {
            return Ok(());
        }
        self.open_states(number)?;
        let Some(Segment { states: Some(file), states_bytes: Some(end), bytes, batch, .. }) = self.all.get_mut(&number)
        else {
            return Ok(());
        };
        // The next attempt overwrites a record that an error cut off.
        disk::write_at(file, batch, *end)?;
        debug_assert_eq!(batch.len() % STATE_BYTES, 0);
        let written = batch.len() as u64;
        *end += written;
        *bytes += written;
        batch.clear();
        self.shared.grow(written);
        self.unsynced.insert(number);
        Ok(())
    }

    /// Opens the file of a segment's states, and closes another one if too many are open.
    fn open_states(&mut self, number: u32) -> io::Result<()> {
        if self.all.get(&number).is_none_or(|segment| segment.states.is_some()) {
            return Ok(());
        }
        while self.open.len() >= MOST_OPEN
            && let Some(&oldest) = self.open.front()
        {
            if let Some(segment) = self.all.get_mut(&oldest) {
                if let Some(file) = segment.states.as_ref().filter(|_| self.sync != Sync::Never)
                    && self.unsynced.contains(&oldest)
                {
                    disk::sync(file)?;
                }
                segment.states = None;
            }
            self.unsynced.remove(&oldest);
            self.open.pop_front();
        }
        let (file, length) = disk::open_or_create(&self.shared.states(number))?;
        if length == 0 && self.sync != Sync::Never {
            // The directory entry must survive a system crash, too.
            disk::sync_names(&self.shared.directory)?;
        }
        if let Some(segment) = self.all.get_mut(&number) {
            segment.states_bytes.get_or_insert(length);
            segment.states = Some(file);
            self.open.push_back(number);
        }
        Ok(())
    }

    /// Deletes a segment without remaining messages. The file of messages is deleted first: without the states the
    /// messages would be sent again.
    fn delete_if_done(&mut self, number: u32) -> io::Result<()> {
        let Some(segment) = self.all.get(&number) else { return Ok(()) };
        if segment.live > 0 || !segment.is_closed {
            return Ok(());
        }
        delete(&self.shared.mail(number))?;
        delete(&self.shared.states(number))?;
        self.shared.shrink(segment.bytes);
        self.all.remove(&number);
        self.must_sync_names |= self.unsynced.remove(&number) | self.unwritten.remove(&number);
        self.moved.retain(|&(from, _)| from != number);
        self.open.retain(|&open| open != number);
        Ok(())
    }
}

fn delete(path: &std::path::Path) -> io::Result<()> {
    match disk::remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
