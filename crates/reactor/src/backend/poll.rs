//! `poll`: an array of descriptors goes to the kernel with each wait, and is looked through afterwards.
//!
//! The array is kept from wait to wait. What is taken out leaves no gap: the last entry moves there.

use super::{Found, Key, Selector};
use crate::error::Result;
use crate::interest::Interest;
use landau_sys::poll as sys;

/// Of a descriptor that is not in the array.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Poll {
    entries: sys::Entries,
    /// The key of each entry.
    keys: Vec<Key>,
    /// Where a descriptor stands in the array.
    places: Vec<u32>,
}

/// What is asked of the kernel.
pub(super) fn bits(interest: Interest) -> i16 {
    let mut bits = 0;
    if interest.contains(Interest::READABLE) {
        bits |= sys::READ | sys::PEER_CLOSED;
    }
    if interest.contains(Interest::WRITABLE) {
        bits |= sys::WRITE;
    }
    bits
}

impl Poll {
    fn place(&self, key: Key) -> Option<usize> {
        let place = *self.places.get(key.fd() as usize)?;
        (place != NOWHERE).then_some(place as usize)
    }
}

impl Selector for Poll {
    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        let index = key.fd() as usize;
        if index >= self.places.len() {
            self.places.resize(index + 1, NOWHERE);
        }
        self.places[index] = self.keys.len() as u32;
        self.keys.push(key);
        self.entries.push(key.fd(), bits(interest));
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        if let Some(place) = self.place(key) {
            self.entries.set(place, bits(interest));
        }
        Ok(())
    }

    fn remove(&mut self, key: Key, _: bool) -> Result<()> {
        let Some(place) = self.place(key) else { return Ok(()) };
        self.places[key.fd() as usize] = NOWHERE;
        self.keys.swap_remove(place);
        if let Some(moved) = self.entries.take(place) {
            self.places[moved as usize] = place as u32;
        }
        Ok(())
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        let count = self.entries.wait(timeout_ms)?;
        let keys = &self.keys;
        found.extend(
            self.entries.found(count).map(|(at, _, bits)| Found { key: keys[at], ready: super::ready_of_poll(bits) }),
        );
        Ok(())
    }
}
