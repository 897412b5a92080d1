//! The event loop: what is common to all backends.
//!
//! A table indexed by descriptor number holds sixteen bytes for each: the user's token, what is wanted, what the
//! kernel was told, and a generation, by which events of an earlier owner of the number are known and dropped. Wanting
//! less costs no call: the kernel is told only when an event comes that nobody wanted. Wanting more is told to the
//! kernel before the next wait, and not at all if it was taken back by then.

use crate::backend::{self, Backend, Found, Key, Selector};
use crate::error::{Error, Result};
use crate::interest::{Event, Interest, Ready, Token};
use crate::timers::Timers;
use crate::waker::{Bell, Waker};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// What is known of a descriptor.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    token: u32,
    generation: u32,
    is_registered: bool,
    /// What the user wants.
    want: Interest,
    /// What the backend was told.
    armed: Interest,
    /// Of an edge backend: what it told and the user has not yet used up.
    can: Ready,
    /// Whether it stands in the list of changes.
    is_dirty: bool,
    /// Whether it stands in the list of those that can and are not used up.
    is_hot: bool,
}

/// An event loop of one thread.
#[derive(Debug)]
pub struct Reactor {
    selector: Box<dyn Selector>,
    backend: Backend,
    is_edge: bool,
    slots: Vec<Slot>,
    registered_count: usize,
    /// What the last wait found, and how far it was handed out.
    found: Vec<Found>,
    handed_out: usize,
    /// Descriptors whose want is not yet told to the backend.
    dirty: Vec<RawFd>,
    /// Of an edge backend: descriptors that were told and are not used up.
    hot: Vec<RawFd>,
    timers: Timers,
    origin: Instant,
    now_ms: u32,
    bell: Option<Bell>,
    /// Why it is not the backend that was asked for.
    fallback: Option<String>,
}

impl Reactor {
    /// An event loop with that backend.
    pub fn new(backend: Backend) -> Result<Self> {
        let selector = backend::open(backend)?;
        Ok(Self {
            is_edge: selector.is_edge(),
            selector,
            backend,
            slots: Vec::new(),
            registered_count: 0,
            found: Vec::with_capacity(backend::BATCH),
            handed_out: 0,
            dirty: Vec::new(),
            hot: Vec::new(),
            timers: Timers::default(),
            origin: Instant::now(),
            now_ms: 0,
            bell: None,
            fallback: None,
        })
    }

    /// An event loop with that backend or, where the system has it not or forbids it, with `epoll`, and where there
    /// is no `epoll` either, with the system's own best or `poll`. [`Reactor::note`] says then which it is and why.
    pub fn new_or_fallback(backend: Backend) -> Result<Self> {
        let mut reasons = Vec::new();
        for one in [backend, Backend::Epoll, Backend::default(), Backend::Poll] {
            match Self::new(one) {
                Err(error @ Error::Unavailable { .. }) => reasons.push(error.to_string()),
                Err(error) => return Err(error),
                Ok(mut reactor) => {
                    if let Some(reason) = reasons.first() {
                        reactor.fallback = Some(format!("{one} instead of {backend}: {reason}"));
                    }
                    return Ok(reactor);
                }
            }
        }
        Self::new(Backend::Poll)
    }

    /// Which backend [`Reactor::new_or_fallback`] would come to here and, if it is another, why: for programs whose
    /// loops are to be all of one kind, and that say so once.
    pub fn resolve_backend(backend: Backend) -> Result<(Backend, Option<String>)> {
        let reactor = Self::new_or_fallback(backend)?;
        Ok((reactor.backend, reactor.fallback))
    }

    /// The backend.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// What the backend has to say about how it does its work here: a fallback and why, an overflow and how often.
    pub fn note(&self) -> Option<String> {
        match (&self.fallback, self.selector.note()) {
            (Some(fallback), Some(note)) => Some(format!("{fallback}; {note}")),
            (fallback, note) => fallback.clone().or(note),
        }
    }

    /// How many descriptors are registered.
    pub fn len(&self) -> usize {
        self.registered_count - usize::from(self.bell.is_some())
    }

    /// Whether none is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Watches a descriptor and makes its calls not block. It stays the caller's, who gives it back to
    /// [`Reactor::deregister`] or [`Reactor::close`] before closing it.
    pub fn register(&mut self, fd: &impl AsFd, token: Token, interest: Interest) -> Result<()> {
        landau_sys::stream::set_blocking(fd, false)?;
        self.register_nonblocking(fd, token, interest)
    }

    /// The same for a descriptor that was made so that it does not block, which saves asking the kernel.
    pub fn register_nonblocking(&mut self, fd: &impl AsFd, token: Token, interest: Interest) -> Result<()> {
        let number = fd.as_fd().as_raw_fd();
        let index = number as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Slot::default());
        }
        let slot = &mut self.slots[index];
        if slot.is_registered {
            return Err(Error::Registered(number));
        }
        let generation = slot.generation.wrapping_add(1);
        self.selector.add(Key::new(number, generation), interest)?;
        // The lists may still name the number's earlier owner: the marks say so, and stay.
        *slot = Slot {
            token: token.0,
            generation,
            is_registered: true,
            want: interest,
            armed: interest,
            can: Ready::default(),
            ..*slot
        };
        self.registered_count += 1;
        Ok(())
    }

    /// Watches it no longer. Its events that were found and not yet handed out are dropped.
    pub fn deregister(&mut self, fd: &impl AsFd) -> Result<()> {
        self.forget(fd.as_fd().as_raw_fd(), false)
    }

    /// Watches it no longer and closes it. Cheaper than both apart with backends that forget what is closed; a copy
    /// of the descriptor that is open elsewhere would still be watched by them, so one that was passed on or
    /// inherited is to be deregistered instead.
    pub fn close(&mut self, fd: OwnedFd) -> Result<()> {
        self.forget(fd.as_raw_fd(), true)?;
        Ok(landau_sys::descriptor::close(fd)?)
    }

    fn forget(&mut self, number: RawFd, closing: bool) -> Result<()> {
        let slot = self.slots.get_mut(number as usize).filter(|slot| slot.is_registered);
        let slot = slot.ok_or(Error::Unregistered(number))?;
        let key = Key::new(number, slot.generation);
        (slot.is_registered, slot.want, slot.can) = (false, Interest::NONE, Ready::default());
        self.registered_count -= 1;
        self.timers.clear(number as u32);
        self.selector.remove(key, closing)
    }

    fn slot(&mut self, number: RawFd) -> Result<&mut Slot> {
        let slot = self.slots.get_mut(number as usize).filter(|slot| slot.is_registered);
        slot.ok_or(Error::Unregistered(number))
    }

    /// Replaces what a descriptor is watched for. What it costs is in the description of this module.
    #[inline]
    pub fn set_interest(&mut self, fd: &impl AsFd, interest: Interest) -> Result<()> {
        let number = fd.as_fd().as_raw_fd();
        let is_edge = self.is_edge;
        let slot = self.slot(number)?;
        slot.want = interest;
        let is_news = !slot.armed.contains(interest) && !slot.is_dirty;
        let is_hot = is_edge && !slot.can.wanted(interest).interest().is_empty() && !slot.is_hot;
        slot.is_dirty |= is_news;
        slot.is_hot |= is_hot;
        if is_news {
            self.dirty.push(number);
        }
        if is_hot {
            self.hot.push(number);
        }
        Ok(())
    }

    /// What a descriptor is watched for.
    pub fn interest(&self, fd: &impl AsFd) -> Option<Interest> {
        let slot = self.slots.get(fd.as_fd().as_raw_fd() as usize).filter(|slot| slot.is_registered);
        slot.map(|slot| slot.want)
    }

    /// Says that a call would have blocked, or gave less than it was asked for: until the backend tells again,
    /// nothing is to be had. Saves being told in vain by an edge backend, and does nothing with the others.
    #[inline]
    pub fn clear_readiness(&mut self, fd: &impl AsFd, interest: Interest) {
        if self.is_edge
            && let Some(slot) = self.slots.get_mut(fd.as_fd().as_raw_fd() as usize)
        {
            slot.can = slot.can.wanted(Interest::BOTH.difference(interest));
        }
    }

    /// Sets or moves a descriptor's deadline. It comes once, as an event of its own or with another.
    #[inline]
    pub fn set_deadline(&mut self, fd: &impl AsFd, delay: Duration) {
        let delay_ms = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
        self.timers.set(fd.as_fd().as_raw_fd() as u32, self.now_ms, delay_ms);
    }

    /// Takes a descriptor's deadline back.
    #[inline]
    pub fn clear_deadline(&mut self, fd: &impl AsFd) {
        self.timers.clear(fd.as_fd().as_raw_fd() as u32);
    }

    /// Milliseconds since the reactor was made, as read after the last wait, modulo 2³².
    #[inline]
    pub fn now_ms(&self) -> u32 {
        self.now_ms
    }

    /// Lets a waker that was made before end this reactor's waits. A reactor has one.
    pub fn register_waker(&mut self, waker: &Waker) -> Result<()> {
        if let Some(bell) = &self.bell {
            return Err(Error::Registered(bell.as_fd().as_raw_fd()));
        }
        let bell = Bell::of(waker);
        self.register_nonblocking(&bell, Token(u32::MAX), Interest::READABLE)?;
        self.bell = Some(bell);
        Ok(())
    }

    /// What ends a wait from another thread.
    pub fn waker(&mut self) -> Result<Waker> {
        if let Some(bell) = &self.bell {
            return Ok(bell.waker());
        }
        let waker = Waker::new()?;
        self.register_waker(&waker)?;
        Ok(waker)
    }

    /// Waits until something happens, at most for `limit`. What happened is handed out by [`Reactor::next_event`];
    /// what was not handed out of the wait before is dropped (and told again, for it still holds).
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        self.keep_the_rest();
        self.tell_changes()?;
        self.found.clear();
        self.handed_out = 0;
        self.retain_ready();
        let timeout_ms = self.timeout_ms(limit);
        self.selector.wait(&mut self.found, timeout_ms).or_else(interrupted)?;
        self.now_ms = self.origin.elapsed().as_millis() as u32;
        if self.is_edge {
            self.remember();
        }
        let (slots, found) = (&self.slots, &mut self.found);
        self.timers.advance(self.now_ms, |number| {
            let key = Key::new(number.cast_signed(), slots[number as usize].generation);
            found.push(Found { key, ready: Ready::DEADLINE });
        });
        Ok(())
    }

    /// What happened, one thing at a time. An event of a descriptor that was given back since, or that is no longer
    /// wanted, is not handed out: the number may belong to another by now.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(&Found { key, ready }) = self.found.get(self.handed_out) {
            self.handed_out += 1;
            let slot = &mut self.slots[key.fd() as usize];
            if !slot.is_registered || slot.generation != key.generation() {
                continue;
            }
            let wanted = ready.wanted(slot.want);
            // Told of what nobody wants: now the backend is told so.
            if wanted != ready && !slot.is_dirty && !slot.want.contains(slot.armed) {
                slot.is_dirty = true;
                self.dirty.push(key.fd());
            }
            if slot.token == u32::MAX && self.ring(key.fd()) {
                continue;
            }
            let token = Token(self.slots[key.fd() as usize].token);
            if !wanted.is_empty() {
                return Some(Event { token, ready: wanted });
            }
        }
        None
    }

    /// Whether it is the bell, which is silenced then.
    #[cold]
    fn ring(&mut self, number: RawFd) -> bool {
        let Some(bell) = self.bell.as_ref().filter(|bell| bell.as_fd().as_raw_fd() == number) else { return false };
        bell.silence();
        if self.is_edge {
            self.slots[number as usize].can = Ready::default();
        }
        true
    }

    /// Deadlines are told once: those of the last wait that were not handed out are set again.
    fn keep_the_rest(&mut self) {
        for at in self.handed_out..self.found.len() {
            let Found { key, ready } = self.found[at];
            let slot = &self.slots[key.fd() as usize];
            if ready.is_deadline() && slot.is_registered && slot.generation == key.generation() {
                self.timers.set(key.fd() as u32, self.now_ms, 0);
            }
        }
    }

    /// Tells the backend what changed since the last wait, and what did not change after all not.
    fn tell_changes(&mut self) -> Result<()> {
        while let Some(number) = self.dirty.pop() {
            let slot = &mut self.slots[number as usize];
            slot.is_dirty = false;
            if slot.is_registered && slot.armed != slot.want {
                slot.armed = slot.want;
                self.selector.change(Key::new(number, slot.generation), slot.want)?;
            }
        }
        Ok(())
    }

    fn timeout_ms(&self, limit: Option<Duration>) -> i32 {
        if !self.hot.is_empty() {
            return 0;
        }
        shorter_ms(limit, self.timers.next(self.origin.elapsed().as_millis() as u32))
    }

    /// An edge backend tells once. What it told is kept until it is used up, and handed out again in each wait.
    fn remember(&mut self) {
        for at in 0..self.found.len() {
            let Found { key, ready } = self.found[at];
            let slot = &mut self.slots[key.fd() as usize];
            if !slot.is_registered || slot.generation != key.generation() {
                continue;
            }
            slot.can = slot.can.union(ready);
            if !slot.is_hot {
                slot.is_hot = true;
                self.hot.push(key.fd());
            }
        }
        // Each descriptor is told once a wait: what was found just now stands in this list as well.
        self.found.clear();
        let (slots, found) = (&self.slots, &mut self.found);
        found.extend(self.hot.iter().map(|&number| {
            let slot = &slots[number as usize];
            Found { key: Key::new(number, slot.generation), ready: slot.can }
        }));
    }

    /// Of what an edge backend told, what the user has used up or does not want now is no reason not to sleep.
    fn retain_ready(&mut self) {
        let slots = &mut self.slots;
        self.hot.retain(|&number| {
            let slot = &mut slots[number as usize];
            slot.is_hot = slot.is_registered && !slot.can.wanted(slot.want).interest().is_empty();
            slot.is_hot
        });
    }
}

/// The shorter of a limit and of the time until something is due, as a wait takes it.
pub(crate) fn shorter_ms(limit: Option<Duration>, due: Option<u32>) -> i32 {
    const MOST: u32 = u32::MAX >> 1;
    // Rounded up: to be early would be to wait twice.
    let limit = limit.map(|limit| limit.as_nanos().div_ceil(1_000_000).min(u128::from(MOST)) as u32);
    let shorter = limit.into_iter().chain(due).min();
    shorter.map_or(-1, |ms| ms.min(MOST).cast_signed())
}

/// A signal that ends a wait is no failure: the wait has found nothing.
fn interrupted(error: Error) -> Result<()> {
    match error {
        Error::System(error) if error.is_interrupted() => Ok(()),
        other => Err(other),
    }
}
