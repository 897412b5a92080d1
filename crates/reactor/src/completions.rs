//! What `io_uring` does better than tell of readiness: whole operations.
//!
//! A [`Reactor`](crate::Reactor) says that something may be read, and the caller reads it: two calls. A [`Ring`] says
//! that something *was* read. Connections are accepted and bytes received as they come, without a wish for each and
//! without a buffer for who waits: the kernel takes one of a common set when something arrives. What is sent is handed
//! over with the next wait, several buffers as a chain of which each leaves only if the one before left whole. One call
//! hands over, waits and fetches.
//!
//! | | as long as the kernel can | else |
//! |---|---|---|
//! | accept | one wish for all connections (Linux 5.19) | one for each |
//! | receive | one wish for all that comes, common buffers (6.0) | one for each, with a buffer of its own |
//!
//! **At rest.** A pending receive costs the kernel three times what a watch does (about 800 bytes to 256 on Linux
//! 6.18). A connection that will be silent for long is *parked*: its receive is taken back and a watch put in its
//! place; when something comes, the ring goes on receiving by itself. Cheaper still (144 bytes) is a place in an
//! `epoll` set that the ring watches as a whole ([`Parking::Set`]), for a call more each time that a connection is
//! parked.
//!
//! **Held.** Who sends faster than it is answered is to be held ([`Ring::hold`]): nothing more is received, and what it
//! sends fills the kernel's buffers and then its own, until the ring resumes. What is unsent is known
//! ([`Ring::unsent`]).
//!
//! **What may go wrong, and what then.** Too few common buffers: those who found none go on when pieces were given
//! back. No descriptor left for a connection, or whatever else accepting fails with: that is told,
//! and accepting goes on after a rest. More completions than
//! there is room for: the kernel keeps them, operations that complete many times may end for it, and are wished anew.
//! An operation on a descriptor that was closed meanwhile: its completion is dropped, with what it brought.
//!
//! A ring holds an open file while an operation on it is under way: a descriptor that is closed is let go with the next
//! wait.

use crate::backend::{Key, io_uring::unavailable, settle};
use crate::batch::Buffer;
use crate::error::{Error, Result};
use crate::interest::Token;
use crate::timers::Timers;
use crate::waker::{Bell, Waker};
use crate::{Backend, reactor};
use landau_sys::epoll::{Epoll, Found, ONCE, PEER_CLOSED, READ, WRITE};
use landau_sys::ring::{Bytes, Done, Operations, Wish};
use landau_sys::{Error as SystemError, Result as Outcome};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

pub use landau_sys::ring::{Level, Options, ProvidedBuffer};

/// How long accepting rests when it has failed.
const REST_MS: u32 = 100;

/// How many buffers of a connection are under way at once.
const CHAIN: usize = 16;

/// What came of an operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Completion {
    /// A connection; it does not block and is not inherited.
    Accepted {
        /// The listener's.
        token: Token,
        /// The connection.
        connection: OwnedFd,
    },
    /// Something has arrived; its buffer is to be given back ([`Ring::recycle`]).
    Received {
        /// The connection's.
        token: Token,
        /// What; see [`Ring::bytes`].
        buffer: ProvidedBuffer,
    },
    /// The peer will say no more.
    Ended {
        /// The connection's.
        token: Token,
    },
    /// All that was given has left.
    Sent {
        /// The connection's.
        token: Token,
        /// How much that was since the last time.
        byte_count: u64,
    },
    /// The connection takes more, or has failed, which sending tells.
    Writable {
        /// The connection's.
        token: Token,
    },
    /// An operation failed, and the connection is of no more use for it; a listener goes on by itself.
    Failed {
        /// Whose.
        token: Token,
        /// Why.
        error: SystemError,
    },
    /// The deadline has passed.
    Deadline {
        /// Whose.
        token: Token,
    },
}

/// Where connections are at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parking {
    /// On a watch of the ring's each: no call of its own.
    #[default]
    Watch,
    /// In an `epoll` set that the ring watches: least memory, a call each.
    Set,
}

/// The set of those at rest.
#[derive(Debug)]
struct Set {
    epoll: Epoll,
    found: Found,
    is_watched: bool,
}

/// How many of a set are looked at in one turn.
const SET_BATCH: usize = 256;

/// What a descriptor waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Waits {
    /// Nothing: the end was reached, or nothing was asked for.
    #[default]
    No,
    /// For connections.
    ToAccept(Option<Wish>),
    /// For no more connections: the accept is being taken back, and what it had accepted by then is told.
    ToStop,
    /// For what arrives.
    ToReceive(Option<Wish>),
    /// For what arrives first; what follows waits.
    ToReceiveOnce(Wish),
    /// The same, at rest: the receive is being taken back, and a watch takes its place.
    ToPark(Wish),
    /// The same, at rest, by a watch.
    Parked,
    /// For leave to receive: the receive is being taken back.
    ToHold(Wish),
    /// For leave to receive.
    Held,
}

/// What is to be sent, and being sent.
#[derive(Debug, Default)]
struct Outgoing {
    queue: VecDeque<(Buffer, usize)>,
    under_way: usize,
    /// Of those under way, what has to be sent again: a part, and what was behind it.
    again: VecDeque<(Buffer, usize)>,
    byte_count: u64,
    /// What has not left yet.
    left: u64,
    /// Why nothing more leaves; told when nothing is under way any more.
    failed: Option<SystemError>,
    /// To be closed when all has left.
    closing: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct Slot {
    token: u32,
    generation: u32,
    is_registered: bool,
    /// Whether it stands in the set, ready to be told or not.
    is_in_set: bool,
    /// Whether it is watched until it takes more.
    is_watched_writable: bool,
    waits: Waits,
    outgoing: Option<Box<Outgoing>>,
}

/// A ring of operations, of one thread.
#[derive(Debug)]
pub struct Ring {
    operations: Operations,
    slots: Vec<Slot>,
    registered_count: usize,
    /// Those who found no buffer.
    starved: Vec<Key>,
    /// Listeners that rest until then.
    resting: Vec<(u32, Key)>,
    timers: Timers,
    due: VecDeque<Key>,
    origin: Instant,
    now_ms: u32,
    bell: Option<Bell>,
    set: Option<Set>,
}

impl Ring {
    /// A ring with room for a server's load ([`Options::default`]). [`Error::Unavailable`] where there is none.
    pub fn new() -> Result<Self> {
        Self::with_options(Options::default())
    }

    /// A ring as it is described.
    pub fn with_options(options: Options) -> Result<Self> {
        let operations = Operations::new(options).map_err(|error| unavailable(Backend::IoUring, error))?;
        Ok(Self {
            operations,
            slots: Vec::new(),
            registered_count: 0,
            starved: Vec::new(),
            resting: Vec::new(),
            timers: Timers::default(),
            due: VecDeque::new(),
            origin: Instant::now(),
            now_ms: 0,
            bell: None,
            set: None,
        })
    }

    /// Where connections are at rest that are parked from now on.
    pub fn set_parking(&mut self, parking: Parking) -> Result<()> {
        self.set = match parking {
            Parking::Watch => None,
            Parking::Set => Some(Set { epoll: Epoll::new()?, found: Found::with_room(SET_BATCH), is_watched: false }),
        };
        Ok(())
    }

    /// What of the kernel it makes use of.
    pub fn note(&self) -> String {
        self.operations.setup()
    }

    /// How many listeners and connections there are.
    pub fn len(&self) -> usize {
        self.registered_count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many operations are under way; a parked connection has none.
    pub fn operation_count(&self) -> usize {
        self.operations.operation_count()
    }

    fn register(&mut self, fd: &impl AsFd, token: Token) -> Result<Key> {
        let number = fd.as_fd().as_raw_fd();
        let index = number as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Slot::default);
        }
        let slot = &mut self.slots[index];
        if slot.is_registered {
            return Err(Error::Registered(number));
        }
        let generation = slot.generation.wrapping_add(1);
        *slot = Slot { token: token.0, generation, is_registered: true, ..Slot::default() };
        self.registered_count += 1;
        Ok(Key::new(number, generation))
    }

    /// What could not begin is not registered: its number will be another's.
    fn registered(&mut self, key: Key, begun: Result<()>) -> Result<()> {
        if begun.is_err() {
            self.forget(key);
        }
        begun
    }

    /// The slot of a registration that still stands.
    fn live(&mut self, key: Key) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(key.fd() as usize)?;
        (slot.is_registered && slot.generation == key.generation()).then_some(slot)
    }

    fn key(&self, fd: &impl AsFd) -> Result<Key> {
        let number = fd.as_fd().as_raw_fd();
        let slot = self.slots.get(number as usize).filter(|slot| slot.is_registered);
        slot.map(|slot| Key::new(number, slot.generation)).ok_or(Error::Unregistered(number))
    }

    /// Accepts what comes to a listener, until it is closed.
    pub fn listen(&mut self, listener: &impl AsFd, token: Token) -> Result<()> {
        let key = self.register(listener, token)?;
        let begun = self.accept(key);
        self.registered(key, begun)
    }

    /// Accepts no more. Whoever was accepted before the kernel heard of it is told of in the waits that follow; to
    /// close the listener at once would drop them.
    pub fn stop_accepting(&mut self, listener: &impl AsFd) -> Result<()> {
        let key = self.key(listener)?;
        self.cancel(key)?;
        self.slots[key.fd() as usize].waits = Waits::ToStop;
        Ok(())
    }

    fn accept(&mut self, key: Key) -> Result<()> {
        let wish = self.operations.accept(key.fd(), key.0)?;
        self.slots[key.fd() as usize].waits = Waits::ToAccept(Some(wish));
        Ok(())
    }

    /// Receives what arrives at a connection, until its end or until it is closed.
    pub fn receive(&mut self, connection: &impl AsFd, token: Token) -> Result<()> {
        let key = self.register(connection, token)?;
        let begun = self.go_on_receiving(key);
        self.registered(key, begun)
    }

    /// The same, at rest from the beginning: for a connection that may say nothing for long.
    pub fn receive_parked(&mut self, connection: &impl AsFd, token: Token) -> Result<()> {
        let key = self.register(connection, token)?;
        let begun = self.watch(key);
        self.registered(key, begun)
    }

    /// Receives once: what follows waits until [`Ring::resume`], as if the connection were held. Such a connection may
    /// be closed after what it received without anything to cancel, which is for those that end with their first
    /// answer.
    pub fn receive_once(&mut self, connection: &impl AsFd, token: Token) -> Result<()> {
        let key = self.register(connection, token)?;
        let begun = self.operations.receive_once(key.fd(), key.0).map_err(Error::from);
        let begun = begun.map(|wish| self.slots[key.fd() as usize].waits = Waits::ToReceiveOnce(wish));
        self.registered(key, begun)
    }

    fn go_on_receiving(&mut self, key: Key) -> Result<()> {
        let wish = self.operations.receive(key.fd(), key.0)?;
        self.slots[key.fd() as usize].waits = Waits::ToReceive(Some(wish));
        Ok(())
    }

    fn watch(&mut self, key: Key) -> Result<()> {
        if self.set.is_some() {
            return self.put_into_set(key);
        }
        self.operations.watch(key.fd(), READ | PEER_CLOSED, key.0)?;
        self.slots[key.fd() as usize].waits = Waits::Parked;
        Ok(())
    }

    fn put_into_set(&mut self, key: Key) -> Result<()> {
        let (Some(set), slot) = (&mut self.set, &mut self.slots[key.fd() as usize]) else { return Ok(()) };
        let bits = READ | PEER_CLOSED | ONCE;
        // One that stood in another set before is not in this.
        if !std::mem::replace(&mut slot.is_in_set, true) || set.epoll.change(key.fd(), key.0, bits).is_err() {
            set.epoll.add(key.fd(), key.0, bits)?;
        }
        slot.waits = Waits::Parked;
        if !std::mem::replace(&mut set.is_watched, true) {
            self.operations.watch(set.epoll.as_raw_fd(), READ, SET)?;
        }
        Ok(())
    }

    /// Something happened to one of those in the set, or to many: what does not fit is told in the next turn.
    fn look_into_set(&mut self) -> Result<()> {
        let Some(set) = &mut self.set else { return Ok(()) };
        set.epoll.wait(&mut set.found, 0)?;
        self.operations.watch(set.epoll.as_raw_fd(), READ, SET)?;
        let keys: Vec<_> = set.found.iter().map(|(key, _)| Key(key)).collect();
        for key in keys {
            if self.live(key).is_some_and(|slot| slot.waits == Waits::Parked) {
                self.go_on_receiving(key)?;
            }
        }
        Ok(())
    }

    /// Puts a connection to rest: it costs less, and goes on by itself when something arrives. What arrived until then
    /// is told as ever. Does nothing for one that is at rest or has ended.
    pub fn park(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        match self.slots[key.fd() as usize].waits {
            Waits::ToReceive(Some(wish)) => {
                self.operations.cancel(wish)?;
                self.slots[key.fd() as usize].waits = Waits::ToPark(wish);
                Ok(())
            }
            // It waits for a buffer: what has arrived is to be received first.
            // It is held, at rest, or has ended; or it is not at rest yet.
            Waits::ToReceive(None)
            | Waits::ToReceiveOnce(_)
            | Waits::No
            | Waits::ToPark(_)
            | Waits::Parked
            | Waits::ToHold(_)
            | Waits::Held
            | Waits::ToStop
            | Waits::ToAccept(_) => Ok(()),
        }
    }

    /// Receives nothing more until [`Ring::resume`]. What was received until then is told as ever. Does nothing for one
    /// that is at rest or has ended.
    pub fn hold(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        let waits = match self.slots[key.fd() as usize].waits {
            Waits::ToReceive(Some(wish)) => {
                self.operations.cancel(wish)?;
                Waits::ToHold(wish)
            }
            // One that receives once is held by that.
            Waits::ToPark(wish) => Waits::ToHold(wish),
            Waits::ToReceive(None) => Waits::Held,
            other => other,
        };
        self.slots[key.fd() as usize].waits = waits;
        Ok(())
    }

    /// Receives again, if it was held.
    #[inline]
    pub fn resume(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        match self.slots[key.fd() as usize].waits {
            Waits::Held => self.go_on_receiving(key)?,
            // What is being taken back is wished anew when that is done.
            Waits::ToHold(wish) | Waits::ToReceiveOnce(wish) => {
                self.slots[key.fd() as usize].waits = Waits::ToReceive(Some(wish));
            }
            _ => {}
        }
        Ok(())
    }

    /// How many bytes were given to be sent and have not left yet, as far as was told.
    #[inline]
    pub fn unsent(&self, connection: &impl AsFd) -> u64 {
        let slot = self.slots.get(connection.as_fd().as_raw_fd() as usize);
        slot.and_then(|slot| slot.outgoing.as_ref()).map_or(0, |outgoing| outgoing.left)
    }

    /// Sends a buffer behind all that was given before. [`Completion::Sent`] comes when all has left.
    pub fn send(&mut self, connection: &impl AsFd, buffer: Buffer) -> Result<()> {
        self.send_all(connection, [buffer])
    }

    /// Sends buffers, one behind the other, and all behind what was given before.
    pub fn send_all(&mut self, connection: &impl AsFd, buffers: impl IntoIterator<Item = Buffer>) -> Result<()> {
        let key = self.key(connection)?;
        let outgoing = self.slots[key.fd() as usize].outgoing.get_or_insert_default();
        for buffer in buffers {
            outgoing.left += buffer.bytes().len() as u64;
            outgoing.queue.push_back((buffer, 0));
        }
        self.go_on_sending(key)
    }

    fn go_on_sending(&mut self, key: Key) -> Result<()> {
        let slot = &mut self.slots[key.fd() as usize];
        let Some(outgoing) = slot.outgoing.as_mut().filter(|outgoing| outgoing.under_way == 0) else { return Ok(()) };
        // What did not leave whole goes before what was given since.
        while let Some(last) = outgoing.again.pop_back() {
            outgoing.queue.push_front(last);
        }
        let count = outgoing.queue.len().min(CHAIN);
        let chain: Vec<_> = outgoing.queue.drain(..count).map(|(buffer, from)| (bytes(buffer), from)).collect();
        outgoing.under_way = count;
        if count > 0 { Ok(self.operations.send(key.fd(), key.0, chain.into_iter())?) } else { Ok(()) }
    }

    /// Closes a connection once all has left that was given to be sent, or a listener at once. Nothing more is told of
    /// it; a deadline that it has still holds and closes it for good.
    pub fn close(&mut self, fd: OwnedFd) -> Result<()> {
        let key = self.key(&fd)?;
        self.cancel(key)?;
        self.unwatch_writable(key)?;
        let slot = &mut self.slots[key.fd() as usize];
        if let Some(outgoing) = slot.outgoing.as_mut().filter(|one| one.under_way > 0 || !one.queue.is_empty()) {
            outgoing.closing = Some(fd);
            return Ok(());
        }
        self.forget(key);
        self.operations.close(fd, key.0)?;
        Ok(())
    }

    /// Closes a connection at once, whatever has not left. A part of what was given may have.
    pub fn abort(&mut self, fd: OwnedFd) -> Result<()> {
        let key = self.key(&fd)?;
        self.cancel(key)?;
        self.unwatch_writable(key)?;
        // What is under way ends by this; it holds the open file.
        let _ = landau_sys::stream::shutdown(&fd);
        self.forget(key);
        self.operations.close(fd, key.0)?;
        Ok(())
    }

    /// Watches a connection until it takes more, for callers that send by themselves: [`Completion::Writable`] comes
    /// once. Does nothing for one that is watched already.
    pub fn watch_writable(&mut self, connection: &impl AsFd) -> Result<()> {
        let key = self.key(connection)?;
        if !std::mem::replace(&mut self.slots[key.fd() as usize].is_watched_writable, true) {
            self.operations.watch(key.fd(), WRITE, key.0 | WRITABLE)?;
        }
        Ok(())
    }

    fn unwatch_writable(&mut self, key: Key) -> Result<()> {
        if std::mem::take(&mut self.slots[key.fd() as usize].is_watched_writable) {
            self.operations.unwatch(key.0 | WRITABLE)?;
        }
        Ok(())
    }

    /// Takes back what a descriptor waits for.
    fn cancel(&mut self, key: Key) -> Result<()> {
        match std::mem::take(&mut self.slots[key.fd() as usize].waits) {
            Waits::ToAccept(Some(wish)) | Waits::ToReceive(Some(wish)) | Waits::ToReceiveOnce(wish) => {
                Ok(self.operations.cancel(wish)?)
            }
            // Closing takes it out of the set, and what the set may still tell of it is dropped by its key.
            Waits::Parked if self.slots[key.fd() as usize].is_in_set => Ok(()),
            Waits::Parked => Ok(self.operations.unwatch(key.0)?),
            // Taken back already, or nothing to take back.
            Waits::ToPark(_)
            | Waits::ToHold(_)
            | Waits::Held
            | Waits::No
            | Waits::ToStop
            | Waits::ToAccept(None)
            | Waits::ToReceive(None) => Ok(()),
        }
    }

    fn forget(&mut self, key: Key) -> Option<Box<Outgoing>> {
        let slot = &mut self.slots[key.fd() as usize];
        slot.is_registered = false;
        self.registered_count -= 1;
        self.timers.clear(key.fd() as u32);
        slot.outgoing.take()
    }

    /// Sets or moves a deadline. It comes once.
    pub fn set_deadline(&mut self, fd: &impl AsFd, delay: Duration) {
        let delay_ms = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
        self.timers.set(fd.as_fd().as_raw_fd() as u32, self.now_ms, delay_ms);
    }

    /// Takes a deadline back.
    pub fn clear_deadline(&mut self, fd: &impl AsFd) {
        self.timers.clear(fd.as_fd().as_raw_fd() as u32);
    }

    /// Milliseconds since the ring was made, as read after the last wait, modulo 2³².
    pub fn now_ms(&self) -> u32 {
        self.now_ms
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

    /// Lets a waker that was made before end this ring's waits. A ring has one.
    pub fn register_waker(&mut self, waker: &Waker) -> Result<()> {
        if let Some(bell) = &self.bell {
            return Err(Error::Registered(bell.as_fd().as_raw_fd()));
        }
        let bell = Bell::of(waker);
        self.operations.watch(bell.as_fd().as_raw_fd(), READ, BELL)?;
        self.bell = Some(bell);
        Ok(())
    }

    /// The bytes of a piece.
    pub fn bytes<'a>(&'a self, buffer: &'a ProvidedBuffer) -> &'a [u8] {
        self.operations.bytes(buffer)
    }

    /// Gives a piece's buffer back, for what arrives next.
    pub fn recycle(&mut self, buffer: ProvidedBuffer) {
        self.operations.recycle(buffer);
    }

    /// Hands over what is to be done and waits until something was, at most for `limit`. What that was is handed out by
    /// [`Ring::next_completion`]; what was not handed out of the wait before still is.
    pub fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        self.wake_listeners()?;
        for key in std::mem::take(&mut self.starved) {
            if self.live(key).is_some_and(|slot| slot.waits == Waits::ToReceive(None)) {
                self.go_on_receiving(key)?;
            }
        }
        let timeout_ms = self.timeout_ms(limit);
        match self.operations.wait(timeout_ms) {
            Err(error) if !error.is_interrupted() => return Err(error.into()),
            _ => {}
        }
        self.now_ms = self.origin.elapsed().as_millis() as u32;
        let (slots, due) = (&self.slots, &mut self.due);
        self.timers.advance(self.now_ms, |number| {
            let generation = slots.get(number as usize).map_or(0, |slot| slot.generation);
            due.push_back(Key::new(number.cast_signed(), generation));
        });
        Ok(())
    }

    fn timeout_ms(&self, limit: Option<Duration>) -> i32 {
        if !self.due.is_empty() {
            return 0;
        }
        let now_ms = self.origin.elapsed().as_millis() as u32;
        let rested = self.resting.iter().map(|(until, _)| until.wrapping_sub(now_ms).min(REST_MS)).min();
        let due = self.timers.next(now_ms).into_iter().chain(rested).min();
        reactor::shorter_ms(limit, due)
    }

    /// Listeners that have rested accept again.
    fn wake_listeners(&mut self) -> Result<()> {
        let now_ms = self.origin.elapsed().as_millis() as u32;
        let mut at = 0;
        while let Some(&(until, key)) = self.resting.get(at) {
            if now_ms.wrapping_sub(until) > u32::MAX / 2 {
                at += 1;
                continue;
            }
            self.resting.swap_remove(at);
            if self.live(key).is_some_and(|slot| slot.waits == Waits::ToAccept(None)) {
                self.accept(key)?;
            }
        }
        Ok(())
    }

    /// What was done, one thing at a time. An error is one of handing over what follows from it.
    pub fn next_completion(&mut self) -> Result<Option<Completion>> {
        while let Some(key) = self.due.pop_front() {
            let Some(slot) = self.live(key) else { continue };
            let token = Token(slot.token);
            if let Some(fd) = slot.outgoing.as_mut().and_then(|outgoing| outgoing.closing.take()) {
                self.abort(fd)?;
                continue;
            }
            return Ok(Some(Completion::Deadline { token }));
        }
        while let Some(done) = self.operations.next_done() {
            if let Some(completion) = self.tell(done)? {
                return Ok(Some(completion));
            }
        }
        Ok(None)
    }

    fn tell(&mut self, done: Done) -> Result<Option<Completion>> {
        match done {
            Done::Watched { user: BELL, .. } => self.ring_bell(),
            Done::Watched { user: SET, .. } => self.look_into_set().map(|()| None),
            Done::Watched { user, .. } if user & WRITABLE != 0 => Ok(self.tell_writable(Key(user & !WRITABLE))),
            Done::Watched { user, result } => self.tell_watched(Key(user), result),
            Done::Accepted { user, result, has_more } => self.tell_accepted(Key(user), result, has_more),
            Done::Received { user, result, has_more } => self.tell_received(Key(user), result, has_more),
            Done::Sent { user, result, bytes, from } => self.tell_sent(Key(user), result, bytes, from),
            Done::Closed { .. } => Ok(None),
        }
    }

    fn ring_bell(&mut self) -> Result<Option<Completion>> {
        if let Some(bell) = &self.bell {
            bell.silence();
            self.operations.watch(bell.as_fd().as_raw_fd(), READ, BELL)?;
        }
        Ok(None)
    }

    fn tell_writable(&mut self, key: Key) -> Option<Completion> {
        let slot = self.live(key)?;
        let was_watched = std::mem::take(&mut slot.is_watched_writable);
        was_watched.then_some(Completion::Writable { token: Token(slot.token) })
    }

    fn tell_watched(&mut self, key: Key, result: Outcome<u32>) -> Result<Option<Completion>> {
        let Some(slot) = self.live(key).filter(|slot| slot.waits == Waits::Parked) else { return Ok(None) };
        let token = Token(slot.token);
        match result {
            Ok(_) => self.go_on_receiving(key)?,
            Err(error) => {
                slot.waits = Waits::No;
                return Ok(Some(Completion::Failed { token, error }));
            }
        }
        Ok(None)
    }

    fn tell_accepted(&mut self, key: Key, result: Outcome<OwnedFd>, has_more: bool) -> Result<Option<Completion>> {
        // A connection that nobody takes any more is closed here.
        let Some(slot) = self.live(key).filter(|slot| matches!(slot.waits, Waits::ToAccept(_) | Waits::ToStop)) else {
            return Ok(None);
        };
        let token = Token(slot.token);
        if slot.waits == Waits::ToStop {
            return Ok(result.ok().map(|connection| Completion::Accepted { token, connection }));
        }
        if !has_more {
            slot.waits = Waits::ToAccept(None);
        }
        match result {
            Ok(connection) => {
                if !has_more {
                    self.accept(key)?;
                }
                Ok(Some(Completion::Accepted { token, connection }))
            }
            // Of a connection that was gone before it was accepted; the next may be there.
            Err(error) if error.is_transient_in_accept() => {
                self.accept(key)?;
                Ok(None)
            }
            // No descriptor is left, or the network has a trouble that accepting passes on: neither need last.
            Err(error) => {
                self.resting.push((self.now_ms.wrapping_add(REST_MS), key));
                Ok(Some(Completion::Failed { token, error }))
            }
        }
    }

    fn tell_received(
        &mut self,
        key: Key,
        result: Outcome<ProvidedBuffer>,
        has_more: bool,
    ) -> Result<Option<Completion>> {
        let Some(slot) = self.live(key) else {
            if let Ok(buffer) = result {
                self.operations.recycle(buffer);
            }
            return Ok(None);
        };
        let (token, waits) = (Token(slot.token), slot.waits);
        let is_closing = slot.outgoing.as_ref().is_some_and(|outgoing| outgoing.closing.is_some());
        match result {
            Ok(buffer) if is_closing => self.operations.recycle(buffer),
            Ok(buffer) if buffer.is_empty() => {
                slot.waits = Waits::No;
                self.operations.recycle(buffer);
                return Ok(Some(Completion::Ended { token }));
            }
            Ok(buffer) => {
                if !has_more {
                    self.renew(key, waits)?;
                }
                return Ok(Some(Completion::Received { token, buffer }));
            }
            Err(_) if is_closing => {}
            Err(error)
                if error.is_out_of_buffers() && matches!(waits, Waits::ToReceive(_) | Waits::ToReceiveOnce(_)) =>
            {
                slot.waits = Waits::ToReceive(None);
                self.starved.push(key);
            }
            Err(error) if error.is_out_of_buffers() => self.renew(key, waits)?,
            Err(error) if error.is_canceled() => self.renew(key, waits)?,
            Err(error) => {
                slot.waits = Waits::No;
                return Ok(Some(Completion::Failed { token, error }));
            }
        }
        Ok(None)
    }

    /// A receive has ended, and the stream has not.
    fn renew(&mut self, key: Key, waits: Waits) -> Result<()> {
        match waits {
            Waits::ToHold(_) | Waits::ToReceiveOnce(_) => {
                self.slots[key.fd() as usize].waits = Waits::Held;
                Ok(())
            }
            Waits::ToPark(_) => self.watch(key),
            Waits::ToReceive(_) => self.go_on_receiving(key),
            Waits::No | Waits::Parked | Waits::Held | Waits::ToStop | Waits::ToAccept(_) => Ok(()),
        }
    }

    fn tell_sent(&mut self, key: Key, result: Outcome<usize>, bytes: Bytes, from: usize) -> Result<Option<Completion>> {
        let Some(slot) = self.live(key) else { return Ok(None) };
        let token = Token(slot.token);
        let Some(outgoing) = slot.outgoing.as_mut() else { return Ok(None) };
        outgoing.under_way -= 1;
        match result {
            Ok(count) => {
                outgoing.byte_count += count as u64;
                outgoing.left -= count as u64;
                if from + count < bytes.bytes().len() {
                    outgoing.again.push_back((buffer(bytes), from + count));
                }
            }
            // Behind one that did not leave whole.
            Err(error) if error.is_canceled() => outgoing.again.push_back((buffer(bytes), from)),
            Err(error) => outgoing.failed = outgoing.failed.or(Some(error)),
        }
        if outgoing.under_way > 0 {
            return Ok(None);
        }
        if outgoing.failed.is_none() && !(outgoing.again.is_empty() && outgoing.queue.is_empty()) {
            self.go_on_sending(key)?;
            return Ok(None);
        }
        let Some(outgoing) = slot.outgoing.take() else { return Ok(None) };
        if let Some(fd) = outgoing.closing {
            self.forget(key);
            self.operations.close(fd, key.0)?;
            return Ok(None);
        }
        Ok(Some(match outgoing.failed {
            Some(error) => Completion::Failed { token, error },
            None => Completion::Sent { token, byte_count: outgoing.byte_count },
        }))
    }
}

impl Drop for Ring {
    /// Lets the open files of those at rest go now; what is under way ends with the operations.
    fn drop(&mut self) {
        let mut count = 0;
        for (fd, slot) in self.slots.iter().enumerate() {
            let is_watched = slot.is_registered && slot.waits == Waits::Parked && !slot.is_in_set;
            let key = Key::new((fd as u32).cast_signed(), slot.generation);
            if is_watched && self.operations.unwatch(key.0).is_ok() {
                count += 1;
            }
        }
        settle(count, || {
            let is_well = self.operations.wait(0).is_ok();
            is_well && std::iter::from_fn(|| self.operations.next_done()).count() > 0
        });
    }
}

/// The bit that tells a watch for writing from one for reading: no descriptor has so high a number.
const WRITABLE: u64 = 1 << 30;

/// The number of the bell's watch: no key, for no descriptor has that number.
const BELL: u64 = 0x7fff_ffff;

/// The number of the set's watch, likewise.
const SET: u64 = 0x7fff_fffe;

fn bytes(buffer: Buffer) -> Bytes {
    match buffer {
        Buffer::Borrowed(bytes) => Bytes::Static(bytes),
        Buffer::Owned(bytes) => Bytes::Owned(bytes),
        Buffer::Shared(bytes) => Bytes::Shared(bytes),
    }
}

fn buffer(bytes: Bytes) -> Buffer {
    match bytes {
        Bytes::Static(bytes) => Buffer::Borrowed(bytes),
        Bytes::Owned(bytes) => Buffer::Owned(bytes),
        Bytes::Shared(bytes) => Buffer::Shared(bytes),
    }
}
