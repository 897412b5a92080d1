//! The transport of workers that wait for readiness, with any backend of the event loop.

use super::{Arrival, Event, LISTENERS, Transport};
use crate::config::Config;
use crate::connection::Table;
use crate::error::Error;
use crate::listener::{ListenSocket, accept_all_pending, concerns_one_connection};
use crate::memory::Memory;
use landau_reactor::{Interest, Reactor, Token, Waker};
use landau_sys::stream;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The maximum number of connections accepted from a listener before other events are handled.
const ACCEPT_BATCH: usize = 64;

/// How long accepting pauses when no descriptor is left; ten attempts a second cost almost nothing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The number of accepted connections after which the other workers of a shared listener are woken first. Otherwise one
/// worker would get nearly all connections as long as it keeps up, and reach its limits before the others.
const TURN: u32 = 16;

/// A listening socket.
#[derive(Debug)]
struct Listener {
    fd: OwnedFd,
    is_paused: bool,
    is_tls: bool,
    batch_size: BatchSize,
    /// The number of connections accepted in this turn, if other workers accept here too.
    in_turn: Option<u32>,
}

impl Listener {
    fn new(ListenSocket { fd, is_tls, is_shared }: ListenSocket) -> Self {
        Self { fd, is_paused: false, is_tls, batch_size: BatchSize::new(), in_turn: is_shared.then_some(0) }
    }
}

/// The number of connections to accept in a batch. An `accept4` that finds none costs the kernel nearly as much as one
/// that succeeds, because the kernel allocates the file first. The number therefore adapts to what was found; the next
/// wait reports a listener that still has pending connections.
#[derive(Debug)]
struct BatchSize {
    count: usize,
    /// The number of consecutive batches that found `count` connections.
    full_count: u32,
}

impl BatchSize {
    /// The number of consecutive full batches after which `count` is doubled.
    const FULL_BATCHES: u32 = 4;

    fn new() -> Self {
        Self { count: 1, full_count: 0 }
    }

    /// Records that the batch was full.
    fn grow(&mut self) {
        self.full_count += 1;
        if self.full_count == Self::FULL_BATCHES {
            *self = Self { count: (2 * self.count).min(ACCEPT_BATCH), full_count: 0 };
        }
    }

    /// Records that the accept queue was empty after `found` connections.
    fn shrink(&mut self, found: usize) {
        *self = Self { count: found.max(1), full_count: 0 };
    }
}

/// The connections being accepted from one listener.
#[derive(Debug, Clone, Copy)]
struct AcceptBatch {
    listener: usize,
    found: usize,
    limit: usize,
}

/// The event loop of a worker with its listening sockets.
#[derive(Debug)]
pub(crate) struct Readiness {
    reactor: Reactor,
    listeners: Vec<Listener>,
    batch: Option<AcceptBatch>,
    is_any_paused: bool,
}

impl Readiness {
    /// Accepts the next connection of the batch; ends the batch if there is none.
    fn accept(&mut self, batch: AcceptBatch) -> Option<Event> {
        let AcceptBatch { listener, found, limit } = batch;
        let Some(Listener { fd, is_paused: false, is_tls, batch_size, in_turn }) = self.listeners.get_mut(listener)
        else {
            self.batch = None;
            return None;
        };
        if found == limit {
            batch_size.grow();
            self.batch = None;
            return None;
        }
        match stream::accept_from(fd) {
            Ok((fd, peer)) => {
                let arrival = Arrival { fd, peer: peer.map(|peer| peer.ip()), is_tls: *is_tls };
                self.batch = Some(AcceptBatch { found: found + 1, ..batch });
                if let Some(count) = in_turn {
                    *count += 1;
                    if *count == TURN {
                        self.end_turn(listener);
                    }
                }
                Some(Event::Accepted(arrival))
            }
            Err(error) if error.is_would_block() => {
                self.reactor.clear_readiness(fd, Interest::READABLE);
                batch_size.shrink(found);
                self.batch = None;
                None
            }
            Err(error) if concerns_one_connection(error) => {
                self.batch = Some(AcceptBatch { found: found + 1, ..batch });
                None
            }
            Err(_) => {
                self.pause_accepting(listener);
                Some(Event::OutOfDescriptors)
            }
        }
    }

    /// Ends the turn: the other workers are woken first.
    fn end_turn(&mut self, listener: usize) {
        let Some(Listener { fd, in_turn, .. }) = self.listeners.get_mut(listener) else { return };
        *in_turn = Some(0);
        // Cannot fail: the listener is registered.
        let _ = self.reactor.requeue(fd);
    }

    /// Leaves pending connections in the accept queue until a descriptor is free again, because immediate retries would
    /// only waste CPU time. Workers that share the listener accept them when the next connection wakes one.
    #[cold]
    fn pause_accepting(&mut self, listener: usize) {
        self.batch = None;
        self.is_any_paused = true;
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.is_paused = true;
            let _ = self.reactor.set_interest(&listener.fd, Interest::NONE);
            self.reactor.set_deadline(&listener.fd, ACCEPT_PAUSE);
        }
    }

    /// After an error, a shared listener may no longer be watched, because the kernel could not add it again at the end
    /// of its turn. Adding it is retried later, as when descriptors are short.
    #[cold]
    fn pause_shared(&mut self) {
        for listener in 0..self.listeners.len() {
            if self.listeners[listener].in_turn.is_some() {
                self.pause_accepting(listener);
            }
        }
    }

    #[cold]
    fn resume_accepting(&mut self) {
        self.is_any_paused = false;
        for listener in self.listeners.iter_mut().filter(|listener| listener.is_paused) {
            listener.is_paused = false;
            let _ = self.reactor.set_interest(&listener.fd, Interest::READABLE);
            self.reactor.clear_deadline(&listener.fd);
        }
    }
}

impl Transport for Readiness {
    fn new(config: &Config, listeners: Vec<ListenSocket>, waker: &Waker, _: &Memory) -> Result<Self, Error> {
        let mut reactor = Reactor::new(config.backend)?;
        if let Some(clock) = &config.clock {
            reactor.set_clock(clock);
        }
        reactor.register_waker(waker)?;
        for (index, ListenSocket { fd, is_shared, .. }) in listeners.iter().enumerate() {
            let token = Token(LISTENERS + index as u32);
            if *is_shared {
                reactor.register_exclusive(fd, token)?;
            } else {
                reactor.register(fd, token, Interest::READABLE)?;
            }
        }
        let listeners = listeners.into_iter().map(Listener::new).collect();
        Ok(Self { reactor, listeners, batch: None, is_any_paused: false })
    }

    #[inline]
    fn wait(&mut self, limit: Option<Duration>, _: &Table) -> Result<(), landau_reactor::Error> {
        let waited = self.reactor.wait(limit);
        if waited.is_err() {
            self.pause_shared();
        }
        waited
    }

    #[inline]
    fn next_event(&mut self, _: &Table) -> Option<Event> {
        loop {
            while let Some(batch) = self.batch {
                if let Some(event) = self.accept(batch) {
                    return Some(event);
                }
            }
            let event = self.reactor.next_event()?;
            if event.token.0 < LISTENERS {
                return Some(Event::Connection(event.token.0, event.ready));
            }
            if event.ready.is_deadline() {
                self.resume_accepting();
            }
            let listener = (event.token.0 - LISTENERS) as usize;
            let limit = self.listeners.get(listener).map_or(0, |listener| listener.batch_size.count);
            self.batch = Some(AcceptBatch { listener, found: 0, limit });
        }
    }

    #[inline]
    fn now_ms(&self) -> u32 {
        self.reactor.now_ms()
    }

    fn begin_stop(&mut self) {
        // Accepting stops in `close_listeners`. Until then the accept queues are drained, including those of paused
        // listeners.
        self.resume_accepting();
    }

    fn close_listeners(&mut self, backlog: u32) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for Listener { fd, is_tls, .. } in std::mem::take(&mut self.listeners) {
            arrivals.extend(accept_all_pending(&fd, backlog).map(|(fd, peer)| Arrival { fd, peer, is_tls }));
            // Cannot fail: the listener is registered.
            let _ = self.reactor.deregister(&fd);
        }
        arrivals
    }

    #[inline]
    fn register(&mut self, number: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error> {
        self.reactor.register_nonblocking(fd, Token(number), Interest::READABLE)
    }

    #[inline]
    fn receive(&mut self, _: u32, fd: &OwnedFd, into: &mut [u8]) -> landau_sys::Result<Option<usize>> {
        let received = match stream::receive(fd, into) {
            Err(error) if error.is_would_block() => None,
            received => Some(received?),
        };
        if received.is_none_or(|count| count < into.len()) {
            self.reactor.clear_readiness(fd, Interest::READABLE);
        }
        Ok(received)
    }

    fn is_silent(&mut self, _: u32, fd: &OwnedFd) -> bool {
        stream::is_silent(fd)
    }

    /// Received bytes stay in the kernel.
    fn kept_bytes(&self, _: u32) -> usize {
        0
    }

    #[inline]
    fn set_interest(&mut self, _: u32, fd: &OwnedFd, interest: Interest) -> Result<(), landau_reactor::Error> {
        self.reactor.set_interest(fd, interest)
    }

    fn wait_writable(&mut self, _: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error> {
        self.reactor.clear_readiness(fd, Interest::WRITABLE);
        self.reactor.set_interest(fd, Interest::WRITABLE)
    }

    fn yield_turn(&mut self, _: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error> {
        self.reactor.set_interest(fd, Interest::WRITABLE)
    }

    #[inline]
    fn set_deadline(&mut self, _: u32, fd: &OwnedFd, delay: Duration) {
        self.reactor.set_deadline(fd, delay);
    }

    #[inline]
    fn set_idle_deadline(&mut self, _: u32, fd: &OwnedFd, delay: Duration) {
        self.reactor.set_deadline(fd, delay);
    }

    #[inline]
    fn close(&mut self, _: u32, fd: OwnedFd) {
        // Every descriptor in the table is registered, and `Reactor::close` closes it even after an error.
        let _ = self.reactor.close(fd);
        if self.is_any_paused {
            self.resume_accepting();
        }
    }
}
