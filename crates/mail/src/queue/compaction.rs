//! Compaction: the remaining messages of a mostly empty segment are moved to another one, so that its space becomes
//! free.

use super::feed::Feed;
use super::is_short;
use super::loaded::{Waiting, read};
use super::writer::Commit;
use crate::error::{Error, Result};

/// How long a segment with an unreadable message is not compacted.
const UNREADABLE_NS: u64 = 300_000_000_000;

impl Feed {
    /// Moves the remaining messages of a mostly empty segment of which no message is loaded. Nothing is moved if a
    /// message cannot be read, or if no disk space or descriptor is free for the copies: deliveries will free some.
    pub(super) fn compact(&mut self, now_ns: u64) -> Result<()> {
        let is_loaded = |segment| self.slots.iter().flatten().any(|loaded| loaded.waiting.entry.segment == segment);
        self.unreadable_segments.retain(|_, until_ns| *until_ns > now_ns);
        let may_move = |segment| !is_loaded(segment) && !self.unreadable_segments.contains_key(&segment);
        let Some(segment) = self.segments.sparse().find(|&segment| may_move(segment)) else { return Ok(()) };
        let waiting = self.fresh.iter_mut().chain(self.parked.iter_mut().flatten());
        let mut moved: Vec<&mut Waiting> = waiting.filter(|one| one.entry.segment == segment).collect();
        for one in &moved {
            if read(&self.shared, &one.entry, &mut self.buffer).is_err() {
                self.writer.take_batch();
                self.unreadable_segments.insert(segment, now_ns + UNREADABLE_NS);
                return Ok(());
            }
            self.writer.add_record(&one.entry, &self.buffer);
        }
        let committed = self.writer.commit(now_ns);
        for closed in self.writer.take_closed() {
            self.segments.close(closed);
        }
        let entries = match committed {
            Ok(Commit { entries, closed }) => {
                for closed in closed {
                    self.segments.close(closed);
                }
                entries
            }
            Err(error) if is_short(&error) => return Ok(()),
            Err(error) => return Err(Error::Queue(error)),
        };
        for (one, entry) in moved.iter().zip(&entries) {
            self.segments.add(entry, true);
            let left = one.left();
            let is_left = |index: u32| left.iter().any(|one| one.index == index);
            (0..entry.recipients).filter(|&index| !is_left(index)).for_each(|index| self.segments.settle(entry, index));
        }
        for (one, entry) in moved.iter_mut().zip(entries) {
            // The old segment is deleted after the states are in the new one.
            self.segments.note_move(segment, entry.segment);
            let before = std::mem::replace(&mut one.entry, entry);
            self.segments.remove(&before);
        }
        // The originals may have been on the device for a long time, so the copies are synced at once.
        self.writer.sync_now(now_ns).map_err(Error::Queue)
    }
}
