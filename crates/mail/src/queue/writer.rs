//! Appends messages to the queue: a batch in one write, with one sync.

use super::record::{self, Meta};
use super::{Entry, Shared, disk};
use crate::ledger::Sync;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The segment that is appended to.
#[derive(Debug)]
struct Open {
    number: u32,
    file: File,
    bytes: u64,
}

/// The messages of a batch that were written.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub(crate) entries: Vec<Entry>,
    /// Segments to which no more is appended.
    pub(crate) closed: Vec<u32>,
}

/// Appends messages. Messages of a batch count as part of the queue as soon as they are added.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    sync: Sync,
    open: Option<Open>,
    batch: Vec<u8>,
    entries: Vec<Entry>,
    closed: Vec<u32>,
    /// Whether messages were written but not synced.
    is_dirty: bool,
    synced_ns: u64,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, sync: Sync) -> Self {
        Self {
            shared,
            sync,
            open: None,
            batch: Vec::new(),
            entries: Vec::new(),
            closed: Vec::new(),
            is_dirty: false,
            synced_ns: 0,
        }
    }

    /// Adds a message to the batch. Its content is the concatenation of `parts`.
    pub(crate) fn add(&mut self, meta: &Meta<'_>, parts: &[&[u8]]) -> io::Result<()> {
        let offset = self.batch.len() as u64;
        let bytes = match record::append(&mut self.batch, meta, parts) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.batch.truncate(offset as usize);
                return Err(error);
            }
        };
        self.shared.grow(bytes);
        let recipients = meta.to.len() as u32;
        self.entries.push(Entry { id: meta.id, segment: 0, offset, bytes, recipients, at_ms: meta.at_ms });
        Ok(())
    }

    /// Takes the batch without writing it. Offsets refer to the returned bytes.
    pub(crate) fn take_batch(&mut self) -> (Vec<Entry>, Vec<u8>) {
        self.shared.shrink(self.batch.len() as u64);
        (std::mem::take(&mut self.entries), std::mem::take(&mut self.batch))
    }

    /// Adds a message from another segment to the batch, by its record.
    pub(crate) fn add_record(&mut self, entry: &Entry, record: &[u8]) {
        self.shared.grow(record.len() as u64);
        self.entries.push(Entry { offset: self.batch.len() as u64, ..entry.clone() });
        self.batch.extend_from_slice(record);
    }

    /// Returns whether messages remain to be synced.
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Writes the batch, and syncs it if that is due.
    ///
    /// # Errors
    ///
    /// Fails if, for example, the disk is full. No message of the batch is then in the queue.
    pub(crate) fn commit(&mut self, now_ns: u64) -> io::Result<Commit> {
        let mut entries = std::mem::take(&mut self.entries);
        let result = self.write(&mut entries).and_then(|()| self.sync_if_due(now_ns));
        let added = self.batch.len() as u64;
        self.batch.clear();
        // A large message must not leave its memory allocated.
        self.batch.shrink_to(1 << 20);
        match result {
            Ok(()) => {
                if let Some(open) = &mut self.open {
                    open.bytes += added;
                    if open.bytes >= self.shared.segment_bytes() {
                        // If this fails, the messages are left to the system, as the policy allows.
                        let _ = self.sync_now(now_ns);
                        self.close();
                    }
                }
                Ok(Commit { entries, closed: std::mem::take(&mut self.closed) })
            }
            Err(error) => {
                self.shared.shrink(added);
                // The segment may hold a part of the batch. It is cut off, and another segment is begun: after a failed
                // sync, the kernel does not report which parts of the file are on the device.
                if let Some(open) = &self.open {
                    // If this fails too, the next start may find messages that were not acknowledged to a client.
                    let _ = disk::cut(&open.file, open.bytes);
                }
                // Earlier batches may not be synced; if this fails, they are left to the system, as the policy allows.
                let _ = self.sync_now(now_ns);
                self.close();
                Err(error)
            }
        }
    }

    /// Closes the segment, if one is open.
    pub(crate) fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.closed.push(open.number);
        }
    }

    /// Returns the segments that were closed since the last commit.
    pub(crate) fn take_closed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.closed)
    }

    fn write(&mut self, entries: &mut [Entry]) -> io::Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(begin(&self.shared, self.sync)?),
        };
        for entry in entries {
            entry.segment = open.number;
            entry.offset += open.bytes;
        }
        disk::write_at(&open.file, &self.batch, open.bytes)?;
        self.is_dirty = true;
        Ok(())
    }

    /// Waits until everything is on the device, if that is due.
    pub(super) fn sync_if_due(&mut self, now_ns: u64) -> io::Result<()> {
        let is_due = self.sync.is_due(now_ns.saturating_sub(self.synced_ns));
        if self.is_dirty && is_due { self.sync_now(now_ns) } else { Ok(()) }
    }

    /// Waits until everything is on the device, unless the user leaves syncs to the system.
    pub(crate) fn sync_now(&mut self, now_ns: u64) -> io::Result<()> {
        if !self.is_dirty || self.sync == Sync::Never {
            return Ok(());
        }
        if let Some(open) = &self.open {
            disk::sync(&open.file)?;
        }
        (self.is_dirty, self.synced_ns) = (false, now_ns);
        Ok(())
    }
}

/// Begins a segment.
fn begin(shared: &Shared, sync: Sync) -> io::Result<Open> {
    let number = shared.next_segment();
    let path = shared.mail(number);
    let file = disk::create(&path)?;
    if sync != Sync::Never {
        // The directory entry must survive a system crash, too.
        if let Err(error) = disk::sync_names(&shared.directory) {
            // If this fails too, the next start finds a file without messages.
            let _ = disk::remove(&path);
            return Err(error);
        }
    }
    Ok(Open { number, file, bytes: 0 })
}

impl Shared {
    /// Records whether states cannot be written. No message is accepted meanwhile.
    pub(super) fn block(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }
}
