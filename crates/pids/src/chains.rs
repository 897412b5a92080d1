//! A hash table of numbers with chained entries, like a kernel's tables of processes and groups. The lowest bits of a
//! number select its bucket.

use crate::Id;

/// The end of a chain.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: Id,
    next: u32,
}

/// The table, which contains a number at most once.
#[derive(Debug)]
pub(crate) struct Chains {
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Chains {
    /// Returns an empty table. The number of buckets is a power of two, at least `buckets`.
    pub(crate) fn new(buckets: u32) -> Self {
        let buckets = vec![NONE; buckets.next_power_of_two() as usize];
        Self { buckets, entries: Vec::new(), free: Vec::new() }
    }

    /// Returns whether the table contains a number, and how many entries of its chain were read.
    pub(crate) fn find(&self, id: Id) -> (bool, u64) {
        let (mut at, mut read) = (self.buckets[self.bucket(id)], 0);
        while at != NONE {
            let entry = self.entries[at as usize];
            read += 1;
            if entry.id == id {
                return (true, read);
            }
            at = entry.next;
        }
        (false, read)
    }

    /// Adds a number at the head of its chain.
    pub(crate) fn insert(&mut self, id: Id) {
        let bucket = self.bucket(id);
        let entry = Entry { id, next: self.buckets[bucket] };
        self.buckets[bucket] = if let Some(place) = self.free.pop() {
            self.entries[place as usize] = entry;
            place
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
    }

    /// Removes a number, if the table contains it.
    pub(crate) fn remove(&mut self, id: Id) {
        let bucket = self.bucket(id);
        let (mut before, mut at) = (NONE, self.buckets[bucket]);
        while at != NONE && self.entries[at as usize].id != id {
            (before, at) = (at, self.entries[at as usize].next);
        }
        if at == NONE {
            return;
        }
        let next = self.entries[at as usize].next;
        if before == NONE {
            self.buckets[bucket] = next;
        } else {
            self.entries[before as usize].next = next;
        }
        self.free.push(at);
    }

    fn bucket(&self, id: Id) -> usize {
        id as usize & (self.buckets.len() - 1)
    }
}
