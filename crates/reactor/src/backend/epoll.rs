//! `epoll`: the kernel keeps the set, and the cost of a wait depends on how many descriptors are ready, not watched.
//!
//! The key is stored in the 64 bits of the event, so that no lookup is needed. Closing a descriptor removes it from the
//! set unless a duplicate is open elsewhere; this saves a call for each connection.
//!
//! `epoll` refuses regular files, which are always ready: they are kept in a list and reported in each wait.
//!
//! A descriptor that several sets watch with `EPOLLEXCLUSIVE` wakes one waiting set: the one that added it first. The
//! interest cannot be changed: the descriptor is removed and added again, which moves the set to the end of that queue.

use super::{Found, Key, MAX_EVENTS, Selector, ready_of_epoll};
use crate::error::Result;
use crate::interest::{Interest, Ready};
use landau_sys::epoll as sys;

/// When readiness is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// In each wait, as long as a descriptor is ready.
    Level,
    /// When a descriptor becomes ready.
    Edge,
}

#[derive(Debug)]
pub(crate) struct Epoll {
    set: sys::Epoll,
    trigger: Trigger,
    events: sys::Events,
    /// Descriptors that are always ready.
    files: Vec<(Key, Interest)>,
    /// Descriptors that were added with `add_exclusive`; without interest they are not in the set.
    exclusive: Vec<Key>,
}

impl Epoll {
    pub(crate) fn new(trigger: Trigger) -> Result<Self> {
        Ok(Self {
            set: sys::Epoll::new()?,
            trigger,
            events: sys::Events::with_capacity(MAX_EVENTS),
            files: Vec::new(),
            exclusive: Vec::new(),
        })
    }

    fn events(&self, interest: Interest) -> u32 {
        let mut events = 0;
        if interest.contains(Interest::READABLE) {
            events |= sys::READ | sys::PEER_CLOSED;
        }
        if interest.contains(Interest::WRITABLE) {
            events |= sys::WRITE;
        }
        if self.trigger == Trigger::Edge { events | sys::EDGE_TRIGGERED } else { events }
    }

    /// Adds a descriptor at the end of the queue of the sets that watch it. The kernel refuses `EPOLLRDHUP` in
    /// combination with `EPOLLEXCLUSIVE`.
    fn enqueue(&self, key: Key, interest: Interest) -> Result<()> {
        Ok(self.set.add(key.fd(), key.0, self.events(interest) & !sys::PEER_CLOSED | sys::EXCLUSIVE)?)
    }
}

impl Selector for Epoll {
    fn is_edge(&self) -> bool {
        self.trigger == Trigger::Edge
    }

    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        match self.set.add(key.fd(), key.0, self.events(interest)) {
            Err(error) if error.is_not_permitted() => self.files.push((key, interest)),
            other => other?,
        }
        Ok(())
    }

    fn add_exclusive(&mut self, key: Key, interest: Interest) -> Result<()> {
        self.enqueue(key, interest)?;
        self.exclusive.push(key);
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        if self.exclusive.contains(&key) {
            // This fails if the last interest was none.
            let _ = self.set.remove(key.fd());
            return if interest.is_empty() { Ok(()) } else { self.enqueue(key, interest) };
        }
        if let Some(file) = self.files.iter_mut().find(|(file, _)| *file == key) {
            file.1 = interest;
            return Ok(());
        }
        Ok(self.set.change(key.fd(), key.0, self.events(interest))?)
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        if let Some(at) = self.files.iter().position(|(file, _)| *file == key) {
            self.files.swap_remove(at);
            return Ok(());
        }
        if let Some(at) = self.exclusive.iter().position(|one| *one == key) {
            // Other loops hold duplicates, so closing does not remove it. The call fails if the last interest was none.
            let _ = self.set.remove(self.exclusive.swap_remove(at).fd());
            return Ok(());
        }
        if closing { Ok(()) } else { Ok(self.set.remove(key.fd())?) }
    }

    #[inline]
    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        let files = self.files.iter().filter(|(_, interest)| !interest.is_empty());
        found.extend(files.map(|&(key, interest)| Found { key, ready: Ready::from(interest) }));
        let timeout_ms = if found.is_empty() { timeout_ms } else { 0 };
        self.set.wait(&mut self.events, timeout_ms)?;
        found.extend(self.events.iter().map(|(key, events)| Found { key: Key(key), ready: ready_of_epoll(events) }));
        Ok(())
    }
}
