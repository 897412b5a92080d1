//! `poll`: each wait passes an array of descriptors to the kernel and scans it afterwards.
//!
//! The array is kept between waits. Removing an entry moves the last one into its place.

use super::{Found, Key, Selector};
use crate::error::Result;
use crate::interest::Interest;
use landau_sys::poll as sys;

/// The index of a descriptor that is not in the array.
const ABSENT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct Poll {
    entries: sys::Entries,
    /// The key of each entry.
    keys: Vec<Key>,
    /// The index of each descriptor in the array, by descriptor number.
    indices: Vec<u32>,
}

/// Returns the events of `poll` for an interest.
pub(super) fn events(interest: Interest) -> i16 {
    let mut events = 0;
    if interest.contains(Interest::READABLE) {
        events |= sys::READ | sys::PEER_CLOSED;
    }
    if interest.contains(Interest::WRITABLE) {
        events |= sys::WRITE;
    }
    events
}

impl Poll {
    fn index(&self, key: Key) -> Option<usize> {
        let index = *self.indices.get(key.fd() as usize)?;
        (index != ABSENT).then_some(index as usize)
    }
}

impl Selector for Poll {
    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        let fd = key.fd() as usize;
        if fd >= self.indices.len() {
            self.indices.resize(fd + 1, ABSENT);
        }
        self.indices[fd] = self.keys.len() as u32;
        self.keys.push(key);
        self.entries.push(key.fd(), events(interest));
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        if let Some(index) = self.index(key) {
            self.entries.set(index, events(interest));
        }
        Ok(())
    }

    fn remove(&mut self, key: Key, _: bool) -> Result<()> {
        let Some(index) = self.index(key) else { return Ok(()) };
        self.indices[key.fd() as usize] = ABSENT;
        self.keys.swap_remove(index);
        if let Some(moved) = self.entries.swap_remove(index) {
            self.indices[moved as usize] = index as u32;
        }
        Ok(())
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        let count = self.entries.wait(timeout_ms)?;
        let keys = &self.keys;
        found.extend(
            self.entries
                .found(count)
                .map(|(at, _, events)| Found { key: keys[at], ready: super::ready_of_poll(events) }),
        );
        Ok(())
    }
}
