//! The recipients in memory: those that were read and are neither done nor given up. Free entries are reused with their
//! memory, so a long list needs no allocation per recipient.

use crate::input::{Letter, Offer};
use crate::ledger::State;
use crate::list::Record;
use std::rc::Rc;

/// A recipient.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// The number of the recipient in the input.
    pub(crate) number: u64,
    pub(crate) record: Record,
    /// The letter sent to it; none while the entry is free.
    letter: Option<Rc<Letter>>,
    /// The site of its domain.
    pub(crate) site: u32,
    /// The index of its domain in the table of domains.
    pub(crate) domain: u32,
    /// The number of attempts in this run.
    pub(crate) attempts: u32,
    /// Its state in the ledger.
    pub(crate) state: Option<State>,
}

/// The recipients, by an index that does not change while a recipient is in memory.
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

    /// Returns the site of each recipient.
    pub(crate) fn sites(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().filter(|entry| entry.letter.is_some()).map(|entry| entry.site)
    }

    /// Adds a recipient, whose record is exchanged for one that can be overwritten.
    pub(crate) fn add(&mut self, offer: Offer, record: &mut Record, site: u32, domain: u32) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() as u32 - 1
        });
        let entry = &mut self.entries[id as usize];
        std::mem::swap(&mut entry.record, record);
        (entry.number, entry.letter, entry.state) = (offer.number, Some(offer.letter), offer.state);
        (entry.site, entry.domain, entry.attempts) = (site, domain, 0);
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

    /// Returns the letter of a recipient.
    #[inline]
    pub(crate) fn letter(&self, id: u32) -> Rc<Letter> {
        #[expect(clippy::expect_used, reason = "an entry that is in use has a letter")]
        Rc::clone(self.get(id).letter.as_ref().expect("the recipient is in memory"))
    }

    /// Returns whether two recipients have the same letter.
    pub(crate) fn share_letter(&self, one: u32, other: u32) -> bool {
        matches!((&self.get(one).letter, &self.get(other).letter), (Some(one), Some(other)) if Rc::ptr_eq(one, other))
    }

    /// Removes a recipient, and returns its number.
    pub(crate) fn remove(&mut self, id: u32) -> u64 {
        self.free.push(id);
        let entry = self.get_mut(id);
        entry.letter = None;
        entry.number
    }
}
