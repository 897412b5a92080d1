//! Compaction: what is left in a mostly empty segment is moved to another one, so that its space is free again.

use super::feed::Feed;
use super::is_full;
use super::loaded::{Waiting, read};
use super::writer::Commit;
use crate::error::{Error, Result};

impl Feed {
    /// Moves what is left in a mostly empty segment, one of which no message is loaded. Nothing is moved if it cannot
    /// be read, or if there is no room to make room: deliveries make some.
    pub(super) fn compact(&mut self, now_ns: u64) -> Result<()> {
        let is_loaded = |segment| self.slots.iter().flatten().any(|loaded| loaded.waiting.entry.segment == segment);
        let Some(segment) = self.segments.sparse().find(|&segment| !is_loaded(segment)) else { return Ok(()) };
        let waiting = self.fresh.iter_mut().chain(self.parked.iter_mut().flatten());
        let mut moved: Vec<&mut Waiting> = waiting.filter(|one| one.entry.segment == segment).collect();
        for one in &moved {
            if read(&self.shared, &one.entry, &mut self.buffer).is_err() {
                self.writer.discard();
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
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(Error::Queue(error)),
        };
        for (one, entry) in moved.iter().zip(&entries) {
            self.segments.add(entry, true);
            let left = one.left();
            let is_left = |index: u32| left.iter().any(|(one, _)| *one == index);
            (0..entry.recipients).filter(|&index| !is_left(index)).for_each(|index| self.segments.settle(entry, index));
        }
        // Only when the new segment has the states, too, may the old one be deleted. Until then the messages stay in
        // the old one; a start would find both copies, and the states of either are those of the message.
        match self.segments.write_all(now_ns) {
            Ok(()) => {
                for (one, entry) in moved.iter_mut().zip(entries) {
                    let before = std::mem::replace(&mut one.entry, entry);
                    self.segments.remove(&before);
                }
                Ok(())
            }
            Err(error) if is_full(&error) => {
                for entry in &entries {
                    self.segments.remove(entry);
                }
                Ok(())
            }
            Err(error) => Err(Error::Queue(error)),
        }
    }
}
