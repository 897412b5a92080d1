//! The transport of workers with a ring: the kernel accepts and receives, and one call fetches the completed
//! operations.
//!
//! A connection costs no system call until it is answered. Its first receive is a one-shot operation, so a connection
//! that ends with its first response has nothing to cancel. From then on, one multishot operation receives all further
//! data into buffers that all connections share.
//!
//! **Receiving ahead.** While the worker sends a response it does not read, but the ring still receives. The transport
//! keeps these bytes for the connection. From [`AHEAD_BYTES`] on, it pauses receiving until the worker has taken them.
//! The kernel's buffers then fill, and the client must wait.
//!
//! **Parking.** After [`PARK_AFTER`] without a request, the pending receive of a connection is replaced by a poll
//! request, which takes a third of the kernel memory.

use super::{Arrival, Event, LISTENERS, Transport};
use crate::config::Config;
use crate::connection::Table;
use crate::error::Error;
use crate::listener::{ListenSocket, accept_all_pending};
use crate::memory::{Memory, Share};
use landau_reactor::completions::{Completion, ProvidedBuffer, Ring};
use landau_reactor::{Interest, Ready, Token, Waker};
use landau_sys::stream;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The time without a request after which a connection is parked.
const PARK_AFTER: Duration = Duration::from_secs(1);

/// The transport pauses receiving when it keeps this many bytes for a connection, or any if memory is short. The true
/// bound is this plus the ring's buffers (1 MiB), which may fill before the pause takes effect. If all memory is in
/// use, the worker gets an event and closes the connection.
const AHEAD_BYTES: usize = 64 << 10;

/// The bytes received before the worker requested them.
#[derive(Debug)]
struct Ahead {
    bytes: Vec<u8>,
    /// How the stream ended after the bytes, if it did.
    end: Option<landau_sys::Result<()>>,
    /// Whether receiving is paused.
    is_held: bool,
    share: Share,
}

/// The transport's state of a connection.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
struct Entry {
    interest: Interest,
    is_open: bool,
    /// Whether the receive under way is the first one.
    is_first: bool,
    /// Whether the first receive is done and the next one must be started.
    must_rearm: bool,
    /// Whether the connection goes on after the next wait.
    is_yielding: bool,
    /// The milliseconds for which the connection may stay idle after it is parked; 0 if it is not to be parked.
    idle_left_after_parking_ms: u32,
    ahead: Option<Box<Ahead>>,
}

impl Entry {
    /// Returns the bytes received ahead, which are empty at first.
    fn ahead(&mut self, memory: &Memory) -> &mut Ahead {
        self.ahead.get_or_insert_with(|| {
            let share = Share::new(memory, size_of::<Ahead>());
            Box::new(Ahead { bytes: Vec::new(), end: None, is_held: false, share })
        })
    }
}

/// A ring with the listening sockets and connections of a worker.
#[derive(Debug)]
pub(crate) struct Completions {
    ring: Ring,
    listeners: Vec<ListenSocket>,
    /// Whether each listener uses TLS; kept after the listeners are closed.
    is_tls: Vec<bool>,
    must_know_peer: bool,
    entries: Vec<Entry>,
    /// The connection and the buffer of the last event, until `receive` takes them.
    current: Option<(u32, ProvidedBuffer)>,
    /// Connections that are readable because of kept bytes.
    readable: VecDeque<u32>,
    /// Connections whose first receive is done and whose next one must be started.
    to_rearm: Vec<u32>,
    /// Connections that wait for room in the send buffer.
    blocked: Vec<u32>,
    /// Connections that go on after the next wait, because only their turn is over.
    yielding: Vec<u32>,
    /// Connections that go on after the last wait.
    continuing: Vec<u32>,
    /// The memory of the worker's connections, which includes the bytes received ahead.
    memory: Memory,
}

impl Completions {
    fn entry(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut(number as usize).filter(|entry| entry.is_open)
    }

    /// Translates a completion into an event for the worker.
    #[inline]
    fn event(&mut self, completion: Completion, table: &Table) -> Option<Event> {
        match completion {
            Completion::Received { token, buffer } => self.received(token.0, buffer, table),
            Completion::Accepted { token, connection } => {
                // A connection without an address is from a Unix socket's client; if the address is gone, so is the
                // client.
                let peer = if self.must_know_peer { stream::peer(&connection).ok()? } else { None };
                let is_tls = self.is_tls.get((token.0 - LISTENERS) as usize).is_some_and(|&is_tls| is_tls);
                Some(Event::Accepted(Arrival { fd: connection, peer: peer.map(|peer| peer.ip()), is_tls }))
            }
            Completion::Ended { token } => self.ended(token.0, Ok(())),
            Completion::Failed { token, .. } if token.0 >= LISTENERS => Some(Event::OutOfDescriptors),
            Completion::Failed { token, error } => self.ended(token.0, Err(error)),
            Completion::Writable { token } => {
                let is_wanted = self.entry(token.0)?.interest.contains(Interest::WRITABLE);
                is_wanted.then_some(Event::Connection(token.0, Ready::WRITABLE))
            }
            Completion::Deadline { token } => self.expired(token.0, table),
            _ => None,
        }
    }

    #[inline]
    fn received(&mut self, number: u32, buffer: ProvidedBuffer, table: &Table) -> Option<Event> {
        let Some(entry) = self.entries.get_mut(number as usize).filter(|entry| entry.is_open) else {
            self.ring.recycle(buffer);
            return None;
        };
        if std::mem::take(&mut entry.is_first) {
            entry.must_rearm = true;
            self.to_rearm.push(number);
        }
        if entry.interest.contains(Interest::READABLE) && entry.ahead.is_none() {
            self.current = Some((number, buffer));
            return Some(Event::Connection(number, Ready::READABLE));
        }
        self.keep(number, buffer, table)
    }

    /// Keeps bytes that the worker has not requested yet, and pauses receiving if there are many. Returns an event if
    /// there is no memory for them.
    fn keep(&mut self, number: u32, buffer: ProvidedBuffer, table: &Table) -> Option<Event> {
        if let Some(entry) = self.entries.get_mut(number as usize).filter(|entry| entry.is_open) {
            let ahead = entry.ahead(&self.memory);
            ahead.bytes.extend_from_slice(self.ring.bytes(&buffer));
            ahead.share.resize(size_of::<Ahead>() + ahead.bytes.capacity());
            if (ahead.bytes.len() >= AHEAD_BYTES || self.memory.is_short())
                && !ahead.is_held
                && let Some(fd) = table.fd(number)
            {
                ahead.is_held = self.ring.pause(fd).is_ok();
            }
        }
        self.ring.recycle(buffer);
        self.memory.is_full().then_some(Event::Kept(number))
    }

    /// Handles the end of the stream or a failure of the connection. A failure is reported regardless of the interest.
    fn ended(&mut self, number: u32, how: landau_sys::Result<()>) -> Option<Event> {
        let entry = self.entries.get_mut(number as usize).filter(|entry| entry.is_open)?;
        entry.is_first = false;
        entry.ahead(&self.memory).end = Some(how);
        let ready = match how {
            Ok(()) if !entry.interest.contains(Interest::READABLE) => return None,
            Ok(()) => Ready::READABLE,
            Err(_) => Ready::READABLE.union(Ready::WRITABLE).union(Ready::WRITE_CLOSED),
        };
        Some(Event::Connection(number, ready))
    }

    /// Parks a connection that has been idle for a while; any other deadline is passed to the worker.
    fn expired(&mut self, number: u32, table: &Table) -> Option<Event> {
        let idle_left_after_parking_ms = std::mem::take(&mut self.entry(number)?.idle_left_after_parking_ms);
        if idle_left_after_parking_ms == 0 {
            return Some(Event::Connection(number, Ready::DEADLINE));
        }
        let fd = table.fd(number)?;
        // If parking fails, the receive stays pending and only takes more memory.
        let _ = self.ring.park(fd);
        self.ring.set_deadline(fd, Duration::from_millis(u64::from(idle_left_after_parking_ms)));
        None
    }

    /// Returns the next connection with kept bytes that the worker is interested in reading.
    fn next_readable(&mut self) -> Option<Event> {
        while let Some(number) = self.readable.pop_front() {
            let is_readable = |entry: &mut Entry| entry.interest.contains(Interest::READABLE) && entry.ahead.is_some();
            if self.entry(number).is_some_and(is_readable) {
                return Some(Event::Connection(number, Ready::READABLE));
            }
        }
        None
    }

    /// Takes the bytes kept for a connection.
    fn receive_ahead(&mut self, number: u32, fd: &OwnedFd, into: &mut [u8]) -> landau_sys::Result<Option<usize>> {
        let Some(entry) = self.entries.get_mut(number as usize) else { return Ok(None) };
        let Some(ahead) = entry.ahead.as_mut() else { return Ok(None) };
        if ahead.bytes.is_empty() {
            return ahead.end.transpose().map(|end| end.map(|()| 0));
        }
        let count = ahead.bytes.len().min(into.len());
        into[..count].copy_from_slice(&ahead.bytes[..count]);
        ahead.bytes.drain(..count);
        if !ahead.bytes.is_empty() || ahead.end.is_some() {
            self.readable.push_back(number);
            return Ok(Some(count));
        }
        if entry.ahead.take().is_some_and(|ahead| ahead.is_held) {
            // If resuming fails, the connection stays silent until its deadline closes it.
            let _ = self.ring.resume(fd);
        }
        Ok(Some(count))
    }
}

impl Transport for Completions {
    fn new(config: &Config, listeners: Vec<ListenSocket>, waker: &Waker, memory: &Memory) -> Result<Self, Error> {
        let mut ring = Ring::new()?;
        if let Some(clock) = &config.clock {
            ring.set_clock(clock);
        }
        ring.register_waker(waker)?;
        for (index, listener) in listeners.iter().enumerate() {
            ring.accept(&listener.fd, Token(LISTENERS + index as u32))?;
        }
        Ok(Self {
            ring,
            is_tls: listeners.iter().map(|listener| listener.is_tls).collect(),
            listeners,
            must_know_peer: config.must_know_peers(),
            entries: Vec::new(),
            current: None,
            readable: VecDeque::new(),
            to_rearm: Vec::new(),
            blocked: Vec::new(),
            yielding: Vec::new(),
            continuing: Vec::new(),
            memory: memory.clone(),
        })
    }

    fn wait(&mut self, limit: Option<Duration>, table: &Table) -> Result<(), landau_reactor::Error> {
        while let Some(number) = self.to_rearm.pop() {
            // A connection whose receiving is paused until the worker takes the kept bytes is resumed after that.
            let is_to_receive = |entry: &mut Entry| {
                std::mem::take(&mut entry.must_rearm) && !entry.ahead.as_ref().is_some_and(|ahead| ahead.is_held)
            };
            let is_to_receive = self.entry(number).is_some_and(is_to_receive);
            if let Some(fd) = table.fd(number).filter(|_| is_to_receive) {
                self.ring.resume(fd)?;
            }
        }
        while let Some(number) = self.blocked.pop() {
            let is_blocked = self.entry(number).is_some_and(|entry| entry.interest.contains(Interest::WRITABLE));
            if let Some(fd) = table.fd(number).filter(|_| is_blocked) {
                self.ring.watch_writable(fd)?;
            }
        }
        self.continuing.append(&mut self.yielding);
        let has_events = !self.readable.is_empty() || !self.continuing.is_empty();
        self.ring.wait(if has_events { Some(Duration::ZERO) } else { limit })
    }

    #[inline]
    fn next_event(&mut self, table: &Table) -> Option<Event> {
        if let Some((number, buffer)) = self.current.take() {
            let kept = self.keep(number, buffer, table);
            self.readable.push_back(number);
            if kept.is_some() {
                return kept;
            }
        }
        if !self.readable.is_empty()
            && let Some(event) = self.next_readable()
        {
            return Some(event);
        }
        while let Some(number) = self.continuing.pop() {
            if self.entry(number).is_some_and(|entry| std::mem::take(&mut entry.is_yielding)) {
                return Some(Event::Connection(number, Ready::WRITABLE));
            }
        }
        loop {
            match self.ring.next_completion() {
                Ok(Some(completion)) => {
                    if let Some(event) = self.event(completion, table) {
                        return Some(event);
                    }
                }
                Ok(None) => return None,
                // An operation that follows a completion could not be started; the deadline ends its connection.
                Err(_) => {}
            }
        }
    }

    #[inline]
    fn now_ms(&self) -> u32 {
        self.ring.now_ms()
    }

    fn begin_stop(&mut self) {
        for ListenSocket { fd, .. } in &self.listeners {
            // If the cancellation cannot be submitted, the ring closes what it still accepts.
            let _ = self.ring.stop_accepting(fd);
        }
    }

    fn close_listeners(&mut self, backlog: u32) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for ListenSocket { fd, is_tls, .. } in std::mem::take(&mut self.listeners) {
            arrivals.extend(accept_all_pending(&fd, backlog).map(|(fd, peer)| Arrival { fd, peer, is_tls }));
            let _ = self.ring.close(fd);
        }
        arrivals
    }

    fn register(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error> {
        self.ring.receive_once(fd, Token(number))?;
        if number as usize >= self.entries.len() {
            self.entries.resize_with(number as usize + 1, Entry::default);
        }
        let (interest, is_open, is_first) = (Interest::READABLE, true, true);
        self.entries[number as usize] = Entry { interest, is_open, is_first, ..Entry::default() };
        Ok(())
    }

    #[inline]
    fn receive(&mut self, number: u32, fd: &OwnedFd, into: &mut [u8]) -> landau_sys::Result<Option<usize>> {
        let Some((_, buffer)) = self.current.take_if(|(of, _)| *of == number) else {
            return self.receive_ahead(number, fd, into);
        };
        let bytes = self.ring.bytes(&buffer);
        let count = bytes.len();
        into[..count].copy_from_slice(bytes);
        self.ring.recycle(buffer);
        Ok(Some(count))
    }

    fn is_silent(&mut self, number: u32, fd: &OwnedFd) -> bool {
        // The socket is checked first: this may let the kernel move its contents to the ring.
        stream::is_silent(fd)
            && self.current.as_ref().is_none_or(|(of, _)| *of != number)
            && self.entry(number).is_some_and(|entry| entry.ahead.is_none())
            && !self.ring.has_arrived(fd)
    }

    fn kept_bytes(&self, number: u32) -> usize {
        let ahead = self.entries.get(number as usize).and_then(|entry| entry.ahead.as_ref());
        ahead.map_or(0, |ahead| ahead.share.bytes())
    }

    #[inline]
    fn set_interest(&mut self, number: u32, _: &OwnedFd, interest: Interest) -> Result<(), landau_reactor::Error> {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.interest = interest;
            entry.is_yielding = false;
            if interest.contains(Interest::WRITABLE) {
                self.blocked.push(number);
            }
            if interest.contains(Interest::READABLE) && entry.ahead.is_some() {
                self.readable.push_back(number);
            }
        }
        Ok(())
    }

    fn wait_writable(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error> {
        self.set_interest(number, fd, Interest::WRITABLE)
    }

    fn yield_turn(&mut self, number: u32, _: &OwnedFd) -> Result<(), landau_reactor::Error> {
        if let Some(entry) = self.entry(number) {
            // A poll request would only find room. If the socket is full, the worker finds that itself.
            (entry.interest, entry.is_yielding) = (Interest::WRITABLE, true);
            self.yielding.push(number);
        }
        Ok(())
    }

    #[inline]
    fn set_deadline(&mut self, number: u32, fd: &OwnedFd, delay: Duration) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.idle_left_after_parking_ms = 0;
        }
        self.ring.set_deadline(fd, delay);
    }

    #[inline]
    fn set_idle_deadline(&mut self, number: u32, fd: &OwnedFd, delay: Duration) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.idle_left_after_parking_ms =
                u32::try_from(delay.saturating_sub(PARK_AFTER).as_millis()).unwrap_or(u32::MAX);
        }
        self.ring.set_deadline(fd, delay.min(PARK_AFTER));
    }

    fn close(&mut self, number: u32, fd: OwnedFd) {
        // The buffer would otherwise be kept for the next connection with this number.
        if let Some((_, buffer)) = self.current.take_if(|(of, _)| *of == number) {
            self.ring.recycle(buffer);
        }
        if let Some(entry) = self.entries.get_mut(number as usize) {
            *entry = Entry::default();
        }
        // Every descriptor in the table is registered, so this fails only if the ring cannot submit.
        let _ = self.ring.close(fd);
    }
}
