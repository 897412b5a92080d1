//! The recipients in memory: those that were read and are neither done nor given up. A place that becomes free is used
//! again with its memory, so a long list allocates nothing per recipient.

use crate::ledger::State;
use crate::list::Record;

/// A recipient.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// Its number in the list, from 0.
    pub(crate) number: u64,
    pub(crate) record: Record,
    /// The site of its domain.
    pub(crate) site: u32,
    /// Its domain in the table of domains.
    pub(crate) domain: u32,
    /// How often it was tried in this run.
    pub(crate) attempts: u32,
    /// What the ledger says about it.
    pub(crate) state: Option<State>,
}

/// The recipients, by an index that stays the same while a recipient is here.
#[derive(Debug, Default)]
pub(crate) struct Recipients {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Recipients {
    /// Returns the number of recipients.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Adds a recipient, whose record is exchanged for one that can be overwritten.
    pub(crate) fn add(&mut self, number: u64, record: &mut Record, site: u32, domain: u32) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[id as usize];
        std::mem::swap(&mut entry.record, record);
        (entry.number, entry.site, entry.domain) = (number, site, domain);
        (entry.attempts, entry.state) = (0, None);
        id
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> &Entry {
        &self.entries[id as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Entry {
        &mut self.entries[id as usize]
    }

    /// Removes a recipient.
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }
}
