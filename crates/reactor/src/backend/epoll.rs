//! `epoll`: the kernel keeps the set, and a wait costs what is ready and not what is watched.
//!
//! The key travels in the event's 64 bits, so that nothing is looked up. Closing a descriptor takes it out of the set
//! by itself, which saves a call for each connection, unless a copy of it is open elsewhere.
//!
//! A regular file is always ready, and `epoll` refuses it for that: those are kept in a list, and told in each wait.

use super::{BATCH, Found, Key, Selector, ready_of_epoll};
use crate::error::Result;
use crate::interest::{Interest, Ready};
use landau_sys::epoll as sys;

/// When it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// As long as something is ready.
    Level,
    /// When something becomes ready.
    Edge,
}

#[derive(Debug)]
pub(crate) struct Epoll {
    set: sys::Epoll,
    trigger: Trigger,
    found: sys::Found,
    /// What is always ready.
    files: Vec<(Key, Interest)>,
}

impl Epoll {
    pub(crate) fn new(trigger: Trigger) -> Result<Self> {
        Ok(Self { set: sys::Epoll::new()?, trigger, found: sys::Found::with_room(BATCH), files: Vec::new() })
    }

    fn bits(&self, interest: Interest) -> u32 {
        let mut bits = 0;
        if interest.contains(Interest::READABLE) {
            bits |= sys::READ | sys::PEER_CLOSED;
        }
        if interest.contains(Interest::WRITABLE) {
            bits |= sys::WRITE;
        }
        if self.trigger == Trigger::Edge { bits | sys::EDGE } else { bits }
    }
}

impl Selector for Epoll {
    fn is_edge(&self) -> bool {
        self.trigger == Trigger::Edge
    }

    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        match self.set.add(key.fd(), key.0, self.bits(interest)) {
            Err(error) if error.is_not_permitted() => self.files.push((key, interest)),
            other => other?,
        }
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        if let Some(file) = self.files.iter_mut().find(|(file, _)| *file == key) {
            file.1 = interest;
            return Ok(());
        }
        Ok(self.set.change(key.fd(), key.0, self.bits(interest))?)
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        if let Some(at) = self.files.iter().position(|(file, _)| *file == key) {
            self.files.swap_remove(at);
            return Ok(());
        }
        if closing { Ok(()) } else { Ok(self.set.remove(key.fd())?) }
    }

    #[inline]
    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        let files = self.files.iter().filter(|(_, interest)| !interest.is_empty());
        found.extend(files.map(|&(key, interest)| Found { key, ready: Ready::from(interest) }));
        let timeout_ms = if found.is_empty() { timeout_ms } else { 0 };
        self.set.wait(&mut self.found, timeout_ms)?;
        found.extend(self.found.iter().map(|(key, bits)| Found { key: Key(key), ready: ready_of_epoll(bits) }));
        Ok(())
    }
}
