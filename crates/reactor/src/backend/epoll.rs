//! `epoll`: the kernel keeps the set, and a wait costs what is ready and not what is watched.
//!
//! The key travels in the event's 64 bits, so that nothing is looked up. Closing a descriptor takes it out of the set
//! by itself, which saves a call for each connection, unless a copy of it is open elsewhere.

use super::{BATCH, Backend, Found, Key};
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
}

impl Epoll {
    pub(crate) fn new(trigger: Trigger) -> Result<Self> {
        Ok(Self { set: sys::Epoll::new()?, trigger, found: sys::Found::with_room(BATCH) })
    }

    fn bits(&self, interest: Interest) -> u32 {
        let mut bits = 0;
        if interest.contains(Interest::READ) {
            bits |= sys::READ | sys::PEER_CLOSED;
        }
        if interest.contains(Interest::WRITE) {
            bits |= sys::WRITE;
        }
        if self.trigger == Trigger::Edge { bits | sys::EDGE } else { bits }
    }
}

/// What the kernel's bits mean. `HANG_UP` and `ERROR` come whether asked for or not, and make both calls return.
#[inline]
fn ready(bits: u32) -> Ready {
    let mut ready = Ready::default();
    if bits & (sys::READ | sys::PEER_CLOSED | sys::HANG_UP | sys::ERROR) != 0 {
        ready = ready.with(Ready::READ);
    }
    if bits & (sys::WRITE | sys::HANG_UP | sys::ERROR) != 0 {
        ready = ready.with(Ready::WRITE);
    }
    if bits & (sys::PEER_CLOSED | sys::HANG_UP | sys::ERROR) != 0 { ready.with(Ready::CLOSED) } else { ready }
}

impl Backend for Epoll {
    fn is_edge(&self) -> bool {
        self.trigger == Trigger::Edge
    }

    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        Ok(self.set.add(key.fd(), key.0, self.bits(interest))?)
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        Ok(self.set.change(key.fd(), key.0, self.bits(interest))?)
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        if closing { Ok(()) } else { Ok(self.set.remove(key.fd())?) }
    }

    #[inline]
    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        self.set.wait(&mut self.found, timeout_ms)?;
        found.extend(self.found.iter().map(|(key, bits)| Found { key: Key(key), ready: ready(bits) }));
        Ok(())
    }
}
