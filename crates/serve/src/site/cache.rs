//! The cache of files and listings, limited in bytes and in age.
//!
//! The cache has two generations. Entries are used and added in the young one. When that is full, or after a while, it
//! becomes the old one, and the previous old one is dropped. An entry of the old generation that is used again moves to
//! the young one. Each operation costs O(1), and nothing is sorted.

use super::entry::Entry;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::rc::Rc;

/// An entry that is not used for this long may be dropped, because it may hold a descriptor, and so the space of a
/// deleted file.
const LIFE_MS: u32 = 15_000;

/// The maximum number of descriptors in each generation, regardless of the size in bytes. They are taken from those
/// reserved for files.
const MOST_FILES: usize = 24;

#[derive(Debug)]
struct Line {
    entry: Rc<Entry>,
    checked_ms: u32,
}

type Generation = HashMap<Box<[u8]>, Line, RandomState>;

/// Entries by clean path, preceded by the host's directory if there are virtual hosts.
#[derive(Debug)]
pub(crate) struct Cache {
    young: Generation,
    old: Generation,
    young_bytes: usize,
    /// Descriptors in the young generation.
    young_files: usize,
    /// Descriptors in the old generation, at the time when it became the old one.
    old_files: usize,
    /// Bytes of the old generation, at the time when it became the old one. Entries that moved back to the young one
    /// are counted in both.
    old_bytes: usize,
    /// The limit of each generation.
    most_bytes: usize,
    turned_ms: u32,
}

impl Cache {
    pub(crate) fn new(most_bytes: usize) -> Self {
        let (young, old) = (Generation::default(), Generation::default());
        let most_bytes = most_bytes / 2;
        Self { young, old, young_bytes: 0, young_files: 0, old_files: 0, old_bytes: 0, most_bytes, turned_ms: 0 }
    }

    /// Returns the entry, and the time when it was last checked.
    #[inline]
    pub(crate) fn get(&mut self, key: &[u8], now_ms: u32) -> Option<(Rc<Entry>, u32)> {
        if let Some(line) = self.young.get(key) {
            return Some((line.entry.clone(), line.checked_ms));
        }
        let (key, line) = self.old.remove_entry(key)?;
        let found = (line.entry.clone(), line.checked_ms);
        self.insert(key, line, now_ms);
        Some(found)
    }

    pub(crate) fn put(&mut self, key: &[u8], entry: Rc<Entry>, now_ms: u32) {
        if let Some(line) = self.young.get_mut(key)
            && Rc::ptr_eq(&line.entry, &entry)
        {
            line.checked_ms = now_ms;
            return;
        }
        self.insert(key.into(), Line { entry, checked_ms: now_ms }, now_ms);
    }

    fn insert(&mut self, key: Box<[u8]>, line: Line, now_ms: u32) {
        let (cost, files) = (cost(&key, &line.entry), line.entry.files());
        if cost > self.most_bytes {
            return;
        }
        if self.young_bytes + cost > self.most_bytes || self.young_files + files > MOST_FILES {
            self.turn(now_ms);
        }
        self.young_bytes += cost;
        self.young_files += files;
        let key_len = key.len();
        if let Some(before) = self.young.insert(key, line) {
            self.young_bytes -= before.entry.cost() + key_len + OVERHEAD_BYTES;
            self.young_files -= before.entry.files();
        }
    }

    /// Returns whether an entry of `bytes` bytes can be cached.
    pub(crate) fn has_room_for(&self, bytes: u64) -> bool {
        bytes <= self.most_bytes as u64
    }

    /// Returns an upper bound of the cache's size, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.young_bytes + self.old_bytes
    }

    /// Drops entries that have not been used for a while.
    pub(crate) fn age(&mut self, now_ms: u32) {
        if now_ms.wrapping_sub(self.turned_ms) >= LIFE_MS {
            self.turn(now_ms);
        }
    }

    /// Drops all entries.
    pub(crate) fn clear(&mut self) {
        *self = Self { turned_ms: self.turned_ms, ..Self::new(self.most_bytes * 2) };
    }

    /// Drops all entries that hold a descriptor; returns false if none does.
    #[cold]
    pub(crate) fn let_go_of_files(&mut self) -> bool {
        if self.young_files + self.old_files == 0 {
            return false;
        }
        for generation in [&mut self.young, &mut self.old] {
            generation.retain(|_, line| line.entry.files() == 0);
        }
        let bytes = |generation: &Generation| generation.iter().map(|(key, line)| cost(key, &line.entry)).sum();
        (self.young_bytes, self.old_bytes) = (bytes(&self.young), bytes(&self.old));
        (self.young_files, self.old_files) = (0, 0);
        true
    }

    fn turn(&mut self, now_ms: u32) {
        self.old = std::mem::take(&mut self.young);
        self.old_bytes = std::mem::take(&mut self.young_bytes);
        self.old_files = std::mem::take(&mut self.young_files);
        self.turned_ms = now_ms;
    }
}

/// The memory of an entry in addition to its key and content, in bytes.
const OVERHEAD_BYTES: usize = 64;

fn cost(key: &[u8], entry: &Entry) -> usize {
    entry.cost() + key.len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_wire::http::Status;

    #[test]
    fn the_cache_is_bounded_and_keeps_requested_entries() {
        let entry = || Rc::new(Entry::Failure(Status::NOT_FOUND));
        let one = cost(b"/0000", &entry());
        let mut cache = Cache::new(one * 20);
        for number in 0..1000 {
            cache.put(format!("/{number:04}").as_bytes(), entry(), 0);
            assert!(cache.get(b"/0000", 0).is_some(), "it was asked for each time: {number}");
        }
        assert!(cache.young.len() + cache.old.len() <= 20, "{} {}", cache.young.len(), cache.old.len());
        assert!(cache.get(b"/0500", 0).is_none() && cache.get(b"/0999", 0).is_some());
        cache.age(LIFE_MS);
        cache.age(2 * LIFE_MS);
        assert!(cache.get(b"/0999", 0).is_none());
    }
}
