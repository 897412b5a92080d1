//! The event loop: what all backends have in common.
//!
//! A table indexed by descriptor number has one slot of 16 bytes for each descriptor: the caller's token, its interest,
//! the interest that the backend knows, and a generation. The generation identifies events of an earlier owner of the
//! number, which are dropped. Reducing the interest costs no call: the backend is updated only after it has reported an
//! event that is not of interest. An extended interest is passed to the backend before the next wait, or not at all if
//! it was reduced again by then.

use crate::backend::{self, Backend, Found, Key, Selector};
use crate::clock::{Clock, ManualClock};
use crate::error::{Error, Result};
use crate::interest::{Event, Interest, Ready, Token};
use crate::timers::Timers;
use crate::waker::{Receiver, Waker};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The state of a descriptor.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    token: u32,
    generation: u32,
    is_registered: bool,
    /// The caller's interest.
    interest: Interest,
    /// The interest that the backend knows.
    armed: Interest,
    /// With an edge-triggered backend: the reported readiness that was not cleared since.
    readiness: Ready,
    /// Whether it is in the list of changes.
    is_changed: bool,
    /// Whether it is in the list of ready descriptors.
    is_ready: bool,
}

/// An event loop of one thread.
#[derive(Debug)]
pub struct Reactor {
    selector: Box<dyn Selector>,
    backend: Backend,
    is_edge: bool,
    slots: Vec<Slot>,
    registered_count: usize,
    /// The events that the last wait found; the first `returned_count` of them were returned.
    found: Vec<Found>,
    returned_count: usize,
    /// Descriptors whose interest the backend may not know yet.
    changed: Vec<RawFd>,
    /// With an edge-triggered backend: descriptors whose readiness is not cleared.
    ready: Vec<RawFd>,
    timers: Timers,
    clock: Clock,
    now_ms: u32,
    waker: Option<Receiver>,
    /// Why another backend replaces the requested one.
    fallback: Option<String>,
}

impl Reactor {
    /// Creates an event loop. Fails with [`Error::Unavailable`] if the system does not have the backend or forbids it.
    pub fn new(backend: Backend) -> Result<Self> {
        let selector = backend::open(backend)?;
        Ok(Self {
            is_edge: selector.is_edge(),
            selector,
            backend,
            slots: Vec::new(),
            registered_count: 0,
            found: Vec::with_capacity(backend::MAX_EVENTS),
            returned_count: 0,
            changed: Vec::new(),
            ready: Vec::new(),
            timers: Timers::default(),
            clock: Clock::system(),
            now_ms: 0,
            waker: None,
            fallback: None,
        })
    }

    /// Creates an event loop with the first available of `backend`, `epoll`, [`Backend::default`] and `poll`.
    /// [`note`](Self::note) returns which one replaces `backend`, and why.
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

    /// Returns the backend that [`new_or_fallback`](Self::new_or_fallback) would use and, if it is another one, why:
    /// for programs whose loops must all use the same backend.
    pub fn resolve_backend(backend: Backend) -> Result<(Backend, Option<String>)> {
        let reactor = Self::new_or_fallback(backend)?;
        Ok((reactor.backend, reactor.fallback))
    }

    /// Returns the backend.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Returns a note on how the backend works on this system, such as a fallback and its reason or the number of queue
    /// overflows.
    pub fn note(&self) -> Option<String> {
        match (&self.fallback, self.selector.note()) {
            (Some(fallback), Some(note)) => Some(format!("{fallback}; {note}")),
            (fallback, note) => fallback.clone().or(note),
        }
    }

    /// Returns the number of registered descriptors.
    pub fn len(&self) -> usize {
        self.registered_count - usize::from(self.waker.is_some())
    }

    /// Returns whether no descriptor is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Registers a descriptor and makes it nonblocking. The caller keeps ownership, and calls
    /// [`deregister`](Self::deregister) before closing it, or [`close`](Self::close) to do both.
    ///
    /// Fails if the descriptor is registered already, or if its number is too high for the backend.
    pub fn register(&mut self, fd: &impl AsFd, token: Token, interest: Interest) -> Result<()> {
        landau_sys::stream::set_blocking(fd, false)?;
        self.register_nonblocking(fd, token, interest)
    }

    /// Like [`register`](Self::register), for a descriptor that is nonblocking already. This saves the system call that
    /// checks its mode.
    pub fn register_nonblocking(&mut self, fd: &impl AsFd, token: Token, interest: Interest) -> Result<()> {
        self.enter(fd, token, interest, |selector, key| selector.add(key, interest))
    }

    /// Like [`register`](Self::register), for a listening socket that other event loops watch too. If the backend
    /// supports it (`epoll`), a connection wakes one of the waiting loops instead of all. This is the loop that
    /// registered first, until it calls [`requeue`](Self::requeue).
    pub fn register_exclusive(&mut self, fd: &impl AsFd, token: Token) -> Result<()> {
        landau_sys::stream::set_blocking(fd, false)?;
        let interest = Interest::READABLE;
        self.enter(fd, token, interest, |selector, key| selector.add_exclusive(key, interest))
    }

    /// Moves this loop, at its next wait, behind the others that watch a descriptor with
    /// [`register_exclusive`](Self::register_exclusive). If that fails, the descriptor is not watched until the
    /// interest in it is set again.
    pub fn requeue(&mut self, fd: &impl AsFd) -> Result<()> {
        let number = fd.as_fd().as_raw_fd();
        let slot = self.slot(number)?;
        // Such a descriptor is never watched for both, so the interest is passed on even if it becomes none.
        slot.armed = Interest::BOTH;
        if !std::mem::replace(&mut slot.is_changed, true) {
            self.changed.push(number);
        }
        Ok(())
    }

    fn enter(
        &mut self,
        fd: &impl AsFd,
        token: Token,
        interest: Interest,
        add: impl FnOnce(&mut dyn Selector, Key) -> Result<()>,
    ) -> Result<()> {
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
        add(&mut *self.selector, Key::new(number, generation))?;
        // The lists may still contain the number from its earlier owner: the flags that record this are kept.
        *slot = Slot {
            token: token.0,
            generation,
            is_registered: true,
            interest,
            armed: interest,
            readiness: Ready::default(),
            ..*slot
        };
        self.registered_count += 1;
        Ok(())
    }

    /// Deregisters a descriptor. Events that were found but not returned yet are dropped.
    pub fn deregister(&mut self, fd: &impl AsFd) -> Result<()> {
        self.forget(fd.as_fd().as_raw_fd(), false)
    }

    /// Deregisters and closes a descriptor. If the backend drops closed descriptors automatically, this is cheaper than
    /// two separate calls. Such a backend would still watch a duplicate that is open elsewhere: if the descriptor was
    /// passed on or inherited, use `deregister` instead.
    pub fn close(&mut self, fd: OwnedFd) -> Result<()> {
        self.forget(fd.as_raw_fd(), true)?;
        Ok(landau_sys::descriptor::close(fd)?)
    }

    fn forget(&mut self, number: RawFd, closing: bool) -> Result<()> {
        let slot = self.slots.get_mut(number as usize).filter(|slot| slot.is_registered);
        let slot = slot.ok_or(Error::Unregistered(number))?;
        let key = Key::new(number, slot.generation);
        (slot.is_registered, slot.interest, slot.readiness) = (false, Interest::NONE, Ready::default());
        self.registered_count -= 1;
        self.timers.clear(number as u32);
        self.selector.remove(key, closing)
    }

    fn slot(&mut self, number: RawFd) -> Result<&mut Slot> {
        let slot = self.slots.get_mut(number as usize).filter(|slot| slot.is_registered);
        slot.ok_or(Error::Unregistered(number))
    }

    /// Replaces the interest in a descriptor. The module description states the cost.
    #[inline]
    pub fn set_interest(&mut self, fd: &impl AsFd, interest: Interest) -> Result<()> {
        let number = fd.as_fd().as_raw_fd();
        let is_edge = self.is_edge;
        let slot = self.slot(number)?;
        slot.interest = interest;
        let is_changed = !slot.armed.contains(interest) && !slot.is_changed;
        let is_ready = is_edge && !slot.readiness.filter(interest).interest().is_empty() && !slot.is_ready;
        slot.is_changed |= is_changed;
        slot.is_ready |= is_ready;
        if is_changed {
            self.changed.push(number);
        }
        if is_ready {
            self.ready.push(number);
        }
        Ok(())
    }

    /// Returns the interest in a descriptor, or `None` if it is not registered.
    pub fn interest(&self, fd: &impl AsFd) -> Option<Interest> {
        let slot = self.slots.get(fd.as_fd().as_raw_fd() as usize).filter(|slot| slot.is_registered);
        slot.map(|slot| slot.interest)
    }

    /// Clears readiness after an operation that would have blocked, or that transferred less than was requested: the
    /// descriptor is not ready until the backend reports it again. With an edge-triggered backend this avoids useless
    /// events; with the others it does nothing.
    #[inline]
    pub fn clear_readiness(&mut self, fd: &impl AsFd, interest: Interest) {
        if self.is_edge
            && let Some(slot) = self.slots.get_mut(fd.as_fd().as_raw_fd() as usize)
        {
            // A short read has not reached the end of the stream, which was reported and is not reported again: the
            // descriptor stays readable for the next read. After that, nothing is kept.
            let has_end = interest.contains(Interest::READABLE) && slot.readiness.is_read_closed();
            slot.readiness = slot.readiness.filter(Interest::BOTH.difference(interest));
            if has_end {
                slot.readiness = slot.readiness.without(Ready::READ_CLOSED).union(Ready::READABLE);
            }
        }
    }

    /// Sets or moves the deadline of a descriptor. It is reported once, in a separate event. An earlier deadline that
    /// the last wait found and [`next_event`](Self::next_event) has not returned yet is not reported. A descriptor that
    /// is not registered has no deadline.
    #[inline]
    pub fn set_deadline(&mut self, fd: &impl AsFd, delay: Duration) {
        let delay_ms = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
        let number = fd.as_fd().as_raw_fd();
        if self.slots.get(number as usize).is_some_and(|slot| slot.is_registered) {
            self.timers.set(number as u32, self.now_ms, delay_ms);
        }
    }

    /// Clears the deadline of a descriptor, even if it was found and not returned yet.
    #[inline]
    pub fn clear_deadline(&mut self, fd: &impl AsFd) {
        self.timers.clear(fd.as_fd().as_raw_fd() as u32);
    }

    /// Returns the milliseconds from the creation of the reactor to the end of the last wait, modulo 2³².
    #[inline]
    pub fn now_ms(&self) -> u32 {
        self.now_ms
    }

    /// Measures deadlines with a clock that the caller advances, for tests. Set it before the first deadline.
    pub fn set_clock(&mut self, clock: &ManualClock) {
        self.clock = Clock::Manual(clock.clone());
        self.now_ms = self.clock.now_ms();
    }

    /// Registers an existing waker. A reactor has one waker; registering a second is an error.
    pub fn register_waker(&mut self, waker: &Waker) -> Result<()> {
        if let Some(receiver) = &self.waker {
            return Err(Error::Registered(receiver.as_fd().as_raw_fd()));
        }
        let receiver = Receiver::of(waker);
        self.register_nonblocking(&receiver, Token(u32::MAX), Interest::READABLE)?;
        self.waker = Some(receiver);
        Ok(())
    }

    /// Returns a handle that ends a wait from another thread.
    pub fn waker(&mut self) -> Result<Waker> {
        if let Some(receiver) = &self.waker {
            return Ok(receiver.waker());
        }
        let waker = Waker::new()?;
        self.register_waker(&waker)?;
        Ok(waker)
    }

    /// Waits until a descriptor is ready, a deadline passes or the waker wakes, but no longer than `timeout`; `None`
    /// waits for ever. [`next_event`](Self::next_event) returns the events. Unreturned events of the previous wait are
    /// dropped; conditions that still hold are reported again, and so are deadlines.
    ///
    /// A signal that interrupts the wait ends it without an error. Such a wait finds no new readiness, but it still
    /// reports deadlines that have passed, and readiness that was already known.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.keep_deadlines();
        self.pass_on_changes()?;
        self.found.clear();
        self.returned_count = 0;
        self.retain_ready();
        let timeout_ms = self.timeout_ms(timeout);
        self.selector.wait(&mut self.found, timeout_ms).or_else(ignore_interruption)?;
        self.now_ms = self.clock.now_ms();
        if self.is_edge {
            self.keep_readiness();
        }
        let (slots, found) = (&self.slots, &mut self.found);
        self.timers.advance(self.now_ms, |number| {
            let key = Key::new(number.cast_signed(), slots[number as usize].generation);
            found.push(Found { key, ready: Ready::DEADLINE });
        });
        Ok(())
    }

    /// Returns the next event of the last wait, or `None` if there are no more. Skips events whose descriptor was
    /// deregistered since, because its number may have another owner by now, and events that are no longer of interest.
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(&Found { key, ready }) = self.found.get(self.returned_count) {
            self.returned_count += 1;
            let slot = &mut self.slots[key.fd() as usize];
            if !slot.is_registered || slot.generation != key.generation() {
                continue;
            }
            // A deadline is always a separate event.
            if ready.is_deadline() && !self.timers.take_passed(key.fd() as u32) {
                continue;
            }
            let wanted = ready.filter(slot.interest);
            // The backend reports readiness that is not of interest: it is updated before the next wait.
            if wanted != ready && !slot.is_changed && !slot.interest.contains(slot.armed) {
                slot.is_changed = true;
                self.changed.push(key.fd());
            }
            if slot.token == u32::MAX && self.clear_waker(key.fd()) {
                continue;
            }
            let token = Token(self.slots[key.fd() as usize].token);
            if !wanted.is_empty() {
                return Some(Event { token, ready: wanted });
            }
        }
        None
    }

    /// Returns whether the descriptor is the waker's, and clears the waker if so.
    #[cold]
    fn clear_waker(&mut self, number: RawFd) -> bool {
        let is_it = |receiver: &&Receiver| receiver.as_fd().as_raw_fd() == number;
        let Some(receiver) = self.waker.as_ref().filter(is_it) else { return false };
        receiver.clear();
        if self.is_edge {
            self.slots[number as usize].readiness = Ready::default();
        }
        true
    }

    /// Restores the deadlines that the last wait found but that were not returned, unless the caller has set or cleared
    /// them since: timers report a deadline only once.
    fn keep_deadlines(&mut self) {
        for at in self.returned_count..self.found.len() {
            let Found { key, ready } = self.found[at];
            let slot = &self.slots[key.fd() as usize];
            let is_own = slot.is_registered && slot.generation == key.generation();
            if ready.is_deadline() && is_own && self.timers.take_passed(key.fd() as u32) {
                self.timers.set(key.fd() as u32, self.now_ms, 0);
            }
        }
    }

    /// Passes changed interests on to the backend, unless they were changed back.
    fn pass_on_changes(&mut self) -> Result<()> {
        while let Some(number) = self.changed.pop() {
            let slot = &mut self.slots[number as usize];
            slot.is_changed = false;
            if slot.is_registered && slot.armed != slot.interest {
                // After an error the descriptor may not be watched: the next interest other than none is passed on.
                slot.armed = Interest::NONE;
                let interest = slot.interest;
                self.selector.change(Key::new(number, slot.generation), interest)?;
                self.slots[number as usize].armed = interest;
            }
        }
        Ok(())
    }

    fn timeout_ms(&self, timeout: Option<Duration>) -> i32 {
        if !self.ready.is_empty() {
            return 0;
        }
        let due_ms = self.timers.next(self.clock.now_ms()).into_iter().chain(self.clock.longest_wait_ms()).min();
        shorter_ms(timeout, due_ms)
    }

    /// Adds the readiness that an edge-triggered backend found to the stored readiness, and turns all stored readiness
    /// into events. Such a backend reports a change once; the loop reports it in each wait until it is cleared.
    fn keep_readiness(&mut self) {
        for at in 0..self.found.len() {
            let Found { key, ready } = self.found[at];
            let slot = &mut self.slots[key.fd() as usize];
            if !slot.is_registered || slot.generation != key.generation() {
                continue;
            }
            // A short read clears the readiness even if the end of the stream follows the data: the end must be known
            // by then.
            if slot.readiness.is_readable() && ready.is_readable() && !slot.readiness.union(ready).is_read_closed() {
                self.selector.look_again(key);
            }
            slot.readiness = slot.readiness.union(ready);
            if !slot.is_ready {
                slot.is_ready = true;
                self.ready.push(key.fd());
            }
        }
        // The list of ready descriptors contains these as well, and a wait reports each descriptor once.
        self.found.clear();
        let (slots, found) = (&self.slots, &mut self.found);
        found.extend(self.ready.iter().map(|&number| {
            let slot = &slots[number as usize];
            Found { key: Key::new(number, slot.generation), ready: slot.readiness }
        }));
    }

    /// Removes from the list the descriptors whose readiness was cleared or is not of interest: they must not prevent
    /// the loop from sleeping.
    fn retain_ready(&mut self) {
        let slots = &mut self.slots;
        self.ready.retain(|&number| {
            let slot = &mut slots[number as usize];
            slot.is_ready = slot.is_registered && !slot.readiness.filter(slot.interest).interest().is_empty();
            slot.is_ready
        });
    }
}

/// Returns the shorter of a timeout and the time until a deadline, in milliseconds; -1 if there is neither.
pub(crate) fn shorter_ms(timeout: Option<Duration>, due_ms: Option<u32>) -> i32 {
    const LONGEST_MS: u32 = u32::MAX >> 1;
    // Rounded up: a wait that ends too early is followed by another.
    let timeout = timeout.map(|timeout| timeout.as_nanos().div_ceil(1_000_000).min(u128::from(LONGEST_MS)) as u32);
    let shorter = timeout.into_iter().chain(due_ms).min();
    shorter.map_or(-1, |ms| ms.min(LONGEST_MS).cast_signed())
}

/// Ignores the interruption of a wait by a signal: the wait has found no new readiness.
fn ignore_interruption(error: Error) -> Result<()> {
    match error {
        Error::System(error) if error.is_interrupted() => Ok(()),
        other => Err(other),
    }
}
