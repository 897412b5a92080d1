//! `linux-bitmap`: one bit for each number, in pages of 32,768 bits, each with a count of its free bits.
//!
//! Linux 2.6 to 4.14. A page without free bits is skipped. A number is in use while a process, group or session refers
//! to its `struct pid`.
//!
//! A visit is a word of 64 bits that is read; the count of free numbers of a page counts as one. In one case the
//! original fails too early: the search wraps to 300 and gives up if 300 was also the last number that it gave out,
//! even though that process may have ended. The model does the same.
//!
//! Source: Linux 3.10, `kernel/pid.c`, `alloc_pidmap()` and `free_pidmap()`.

use crate::bits::Bits;
use crate::{Allocator, INIT, Id, Model};

pub(super) const MODEL: Model = Model {
    name: "linux-bitmap",
    about: "finds a clear bit in pages of a bitmap (Linux 2.6 to 4.14)",
    counts: "words of the bitmap, and a page's count of free numbers",
    source: "Linux 3.10, kernel/pid.c, alloc_pidmap()",
    reconstructs: None,
    low: RESERVED,
    includes_max: false,
    reserve: 0,
    sessions_hold: true,
    closed_form: None,
    new: |pid_max, _| Box::new(LinuxBitmap::new(pid_max)),
};

/// The smallest number after the first pass (`RESERVED_PIDS`).
pub(super) const RESERVED: Id = 300;
/// Bits per page.
const PAGE: Id = 4096 * 8;

#[derive(Debug)]
struct LinuxBitmap {
    pid_max: Id,
    last: Id,
    bits: Bits,
    free: Vec<u32>,
    visits: u64,
}

impl LinuxBitmap {
    fn new(pid_max: Id) -> Self {
        let pages = pid_max.div_ceil(PAGE);
        let mut map = Self {
            pid_max,
            last: RESERVED - 1,
            bits: Bits::new(pages * PAGE),
            free: vec![PAGE; pages as usize],
            visits: 0,
        };
        map.place(INIT);
        map
    }

    /// Searches a page for a free number from `from` on.
    fn search(&mut self, page: Id, from: Id) -> Option<Id> {
        self.visits += 1;
        if self.free[page as usize] == 0 {
            return None;
        }
        // The first bit is tried before the words are searched.
        self.visits += 1;
        if !self.bits.has(from) {
            return Some(from);
        }
        let (found, read) = self.bits.first_clear(from, (page + 1) * PAGE);
        // The bit found is read once more, to set it.
        self.visits += read + u64::from(found.is_some_and(|id| id < self.pid_max));
        found.filter(|&id| id < self.pid_max)
    }
}

impl Allocator for LinuxBitmap {
    fn allocate(&mut self) -> Option<Id> {
        let last = self.last;
        let mut from = if last + 1 < self.pid_max { last + 1 } else { RESERVED };
        let pages = self.free.len() as Id;
        // If a number is in the middle of its page, the page is searched twice: first after the number, finally before
        // it.
        let more = Id::from(!from.is_multiple_of(PAGE));
        for _ in 0..pages + more {
            let page = from / PAGE;
            if let Some(found) = self.search(page, from) {
                self.place(found);
                self.last = found;
                return Some(found);
            }
            if page + 1 < pages {
                from = (page + 1) * PAGE;
            } else {
                from = RESERVED;
                if last == RESERVED {
                    return None;
                }
            }
        }
        None
    }

    fn place(&mut self, id: Id) -> bool {
        self.bits.set(id);
        self.free[(id / PAGE) as usize] -= 1;
        true
    }

    fn release(&mut self, id: Id) {
        self.bits.clear(id);
        self.free[(id / PAGE) as usize] += 1;
    }

    fn visits(&self) -> u64 {
        self.visits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The original compares the last number with the restart; the model keeps this comparison.
    #[test]
    fn the_lowest_number_is_refused_if_it_was_the_last() {
        let mut map = LinuxBitmap::new(1_000);
        let taken: Vec<Id> = std::iter::from_fn(|| map.allocate()).collect();
        assert_eq!((taken.len(), taken[0], taken[699]), (700, 300, 999));
        map.exit(300, true);
        assert_eq!(map.allocate(), Some(300));
        map.exit(300, true);
        assert_eq!(map.allocate(), None);
        map.exit(500, true);
        assert_eq!(map.allocate(), Some(500));
        assert_eq!(map.allocate(), Some(300));
    }

    /// 70,000 numbers are three pages. A page without free numbers is skipped. A page with free numbers, but none after
    /// the last number, is searched to its end.
    #[test]
    fn a_search_goes_from_page_to_page() {
        let mut map = LinuxBitmap::new(70_000);
        let allocate = |map: &mut LinuxBitmap, last: Id| {
            let before = map.visits;
            map.last = last;
            (map.allocate(), map.visits - before)
        };
        (32_000..32_768).for_each(|id| assert!(map.place(id)));
        // Count, bit and 12 words of the first page; count and bit of the second.
        assert_eq!(allocate(&mut map, 31_999), (Some(32_768), 16));
        (32_769..32_868).for_each(|id| assert!(map.place(id)));
        // Count, bit, two words, and the bit that was found.
        assert_eq!(allocate(&mut map, 32_767), (Some(32_868), 5));
        (32_869..65_536).for_each(|id| assert!(map.place(id)));
        // The second page is full: its count, and count and bit of the third.
        assert_eq!(allocate(&mut map, 40_000), (Some(65_536), 3));
        (65_537..70_000).for_each(|id| assert!(map.place(id)));
        // Count, bit and 70 words of the third page, whose next clear bit is out of range; count and bit of the first.
        assert_eq!(allocate(&mut map, 65_536), (Some(300), 74));
    }
}
