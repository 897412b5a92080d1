//! The parts of files that a worker has found in memory a moment ago.
//!
//! Before each turn of a response, the worker checks that the part it will send is in the page cache
//! ([`crate::fetch`]). A check takes about 1 µs, because it reads a byte that no processor cache holds. With five of
//! them in each turn of 2 MiB, a download of 100 MB took 2% more processor time than with this record (median of four
//! comparisons, 29 November 2026). All connections of the worker share the record. What is evicted while it is trusted
//! blocks the worker when it is sent.

use landau_sys::path;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

/// The distance between the checked bytes. Their presence in memory stands for that of all bytes between them. Files
/// are mostly evicted whole, or in runs far longer than that.
const CHECK_BYTES: u64 = 512 << 10;

/// A part that is recorded lies within one of the file's blocks of this size.
const BLOCK_BYTES: u64 = 16 << 20;

/// The time for which a recorded part is taken to be still in memory.
const FRESH_MS: u32 = 250;

/// The logarithm of the number of parts that are recorded. A newer part replaces an older one in the same place.
const PARTS_LOG2: u32 = 6;

/// A part of a file within one of its blocks.
#[derive(Debug, Default)]
struct Part {
    /// The file. It is not kept open, but as long as it is recorded, no other has its address.
    file: Weak<OwnedFd>,
    from: u64,
    end: u64,
    /// When its first bytes were found, in milliseconds of the transport's clock.
    found_ms: u32,
}

impl Part {
    fn is_fresh_of(&self, file: &Arc<OwnedFd>, now_ms: u32) -> bool {
        std::ptr::eq(self.file.as_ptr(), Arc::as_ptr(file)) && now_ms.wrapping_sub(self.found_ms) < FRESH_MS
    }
}

/// The parts found in memory, each in the place that its file and block determine.
#[derive(Debug)]
pub(crate) struct Warm {
    parts: Box<[Part]>,
}

impl Warm {
    pub(crate) fn new() -> Self {
        Self { parts: (0..1 << PARTS_LOG2).map(|_| Part::default()).collect() }
    }

    /// Returns an offset from which on the next turn of a file, of at most `turn` of the `left` bytes, would block on
    /// the device. Returns `None` if it would not block, or if the system cannot tell.
    pub(crate) fn first_cold(
        &mut self,
        file: &Arc<OwnedFd>,
        (offset, left): (u64, u64),
        turn: usize,
        now_ms: u32,
    ) -> Option<u64> {
        let is_cached = |place| path::is_cached(file, place) != Some(false);
        self.first_found_cold(file, (offset, left), turn, now_ms, is_cached)
    }

    fn first_found_cold(
        &mut self,
        file: &Arc<OwnedFd>,
        (offset, left): (u64, u64),
        turn: usize,
        now_ms: u32,
        mut is_cached: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        let (mut at, turn_end, end) = (offset, offset + left.min(turn as u64), offset + left);
        while at < turn_end {
            let block = at / BLOCK_BYTES;
            let (block_end, needed) = (end.min((block + 1) * BLOCK_BYTES), turn_end.min((block + 1) * BLOCK_BYTES));
            let part = &mut self.parts[place(file, block)];
            let is_fresh = part.is_fresh_of(file, now_ms);
            if !(is_fresh && part.from <= at && needed <= part.end) {
                if let Some(cold) = first_not_cached(at, needed, &mut is_cached) {
                    return Some(cold);
                }
                // A fast response has come to the end of what was checked. Its next turns need the rest of the block.
                if is_fresh && part.from <= at && at <= part.end {
                    part.end = first_not_cached(needed, block_end, &mut is_cached).unwrap_or(block_end);
                } else {
                    *part = Part { file: Arc::downgrade(file), from: at, end: needed, found_ms: now_ms };
                }
            }
            at = needed;
        }
        None
    }
}

/// Returns the place of a file's block, by multiplicative hashing (Knuth, volume 3, section 6.4).
fn place(file: &Arc<OwnedFd>, block: u64) -> usize {
    let key = (Arc::as_ptr(file).addr() as u64).wrapping_add(block);
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - PARTS_LOG2)) as usize
}

/// Returns an offset from which on a range may not be in memory; `None` if it seems to be.
fn first_not_cached(from: u64, end: u64, mut is_cached: impl FnMut(u64) -> bool) -> Option<u64> {
    let last = end.checked_sub(1).filter(|&last| last >= from)?;
    let mut places = (from..end).step_by(CHECK_BYTES as usize).chain([last]);
    // The bytes between a place that is not in memory and the one before it may not be either.
    places.find(|&place| !is_cached(place)).map(|cold| from.max(cold.saturating_sub(CHECK_BYTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: usize = 2 << 20;

    struct Checked {
        warm: Warm,
        file: Arc<OwnedFd>,
        len: u64,
        /// The first byte that is not in memory.
        cold: u64,
    }

    impl Checked {
        /// Returns the number of checked bytes, and what was found, for the turn at an offset.
        fn turn(&mut self, offset: u64, now_ms: u32) -> (u32, Option<u64>) {
            let mut count = 0;
            let is_cached = |place| {
                count += 1;
                place < self.cold
            };
            let range = (offset, self.len - offset);
            let found = self.warm.first_found_cold(&self.file, range, TURN, now_ms, is_cached);
            (count, found)
        }
    }

    fn file() -> Arc<OwnedFd> {
        Arc::new(std::fs::File::open("/dev/null").unwrap().into())
    }

    /// Guards against a check before each turn of a response, and against one that is trusted for too long.
    #[test]
    fn a_block_is_checked_once_in_a_while() {
        let len = 40 << 20;
        let mut all = Checked { warm: Warm::new(), file: file(), len, cold: len };
        let mut download = |now_ms: u32| (0..len).step_by(TURN).map(|at| all.turn(at, now_ms).0).collect::<Vec<_>>();
        // The first turn in a block is checked, and the second with the rest of the block.
        let block = [&[5, 5 + 25][..], &[0; 6]].concat();
        let each_block = [&block[..], &block, &[5, 5 + 9, 0, 0]].concat();
        assert_eq!(download(u32::MAX), each_block);
        assert_eq!(download(FRESH_MS - 2), [0; 20], "soon after, on any connection");
        assert_eq!(download(FRESH_MS - 1), each_block, "later");
        // The same part of another file.
        all.file = file();
        assert_eq!(all.turn(0, FRESH_MS), (5, None));
    }

    /// Guards against checks far ahead of a response that is slow, or ends soon.
    #[test]
    fn only_a_fast_response_is_checked_ahead() {
        let len = 40 << 20;
        let mut all = Checked { warm: Warm::new(), file: file(), len, cold: len };
        for (turn, at) in (0..BLOCK_BYTES).step_by(TURN).enumerate() {
            assert_eq!(all.turn(at, turn as u32 * FRESH_MS), (5, None), "a slow one");
        }
        for (count, at) in [(5, 9), (5, 25), (5, 3)].map(|(count, at)| (count, at << 20)) {
            assert_eq!(all.turn(at, 9 * FRESH_MS), (count, None), "parts here and there");
        }
        // A turn from one block into the next.
        assert_eq!(all.turn(BLOCK_BYTES - 1, 20 * FRESH_MS), (2 + 5, None));
        assert_eq!(all.turn(BLOCK_BYTES - 1, 20 * FRESH_MS), (0, None));
    }

    /// A turn blocks only if a place in it is not in memory.
    #[test]
    fn what_is_not_in_memory_is_found_by_the_turn_that_sends_it() {
        let (len, turn) = (40 << 20, TURN as u64);
        let cold = BLOCK_BYTES + 3 * turn;
        let mut all = Checked { warm: Warm::new(), file: file(), len, cold };
        for now_ms in [0, FRESH_MS] {
            for at in (0..cold).step_by(TURN) {
                assert_eq!(all.turn(at, now_ms).1, None, "at {at}");
            }
            assert_eq!(all.turn(cold, now_ms), (1, Some(cold)), "nothing is recorded of it");
            assert_eq!(all.turn(cold - 1, now_ms).1, Some(cold - 1));
        }
        // What has been read is found at once, and a quarter of a second later what has been evicted.
        all.cold = len;
        assert_eq!(all.turn(cold, FRESH_MS).1, None);
        all.cold = cold;
        assert_eq!(all.turn(cold, FRESH_MS).1, None);
        assert_eq!(all.turn(cold, 2 * FRESH_MS).1, Some(cold));
        assert_eq!(all.turn(len - 1, 0).1, Some(len - 1), "the last byte");
    }

    /// The record must not keep files open.
    #[test]
    fn a_recorded_file_is_closed() {
        let mut all = Checked { warm: Warm::new(), file: file(), len: 1 << 20, cold: 1 << 20 };
        assert_eq!(all.turn(0, 0), (3, None));
        let weak = Arc::downgrade(&all.file);
        all.file = file();
        assert!(weak.upgrade().is_none());
    }
}
