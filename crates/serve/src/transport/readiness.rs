//! The transport of workers that wait for readiness, with any backend of the event loop.

use super::{Arrival, Event, LISTENERS, Transport};
use crate::config::Config;
use crate::connection::Table;
use crate::error::Error;
use crate::listener::{Listening, concerns_one_connection, waiting_at};
use landau_reactor::{Interest, Reactor, Token, Waker};
use landau_sys::stream;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The most connections accepted in one turn, before other events are handled.
const ACCEPT_BATCH: usize = 64;

/// How long accepting pauses when no descriptor is left: ten attempts a second cost next to nothing.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket.
#[derive(Debug)]
struct Listener {
    fd: OwnedFd,
    is_paused: bool,
    is_tls: bool,
    batch: AcceptBatch,
}

/// How many connections to accept in a turn. An `accept4` that finds none costs the kernel nearly as much as one that
/// succeeds, because it allocates the file first. So the count adapts to what was found; the event loop reports
/// connections that are left again.
#[derive(Debug)]
struct AcceptBatch {
    count: usize,
    /// The number of consecutive turns that found `count` connections.
    full_count: u32,
}

impl AcceptBatch {
    /// After so many full turns the count is doubled.
    const FULL_TURNS: u32 = 4;

    fn new() -> Self {
        Self { count: 1, full_count: 0 }
    }

    /// The turn found as many connections as it asked for.
    fn grow(&mut self) {
        self.full_count += 1;
        if self.full_count == Self::FULL_TURNS {
            *self = Self { count: (2 * self.count).min(ACCEPT_BATCH), full_count: 0 };
        }
    }

    /// The turn found fewer connections than it asked for.
    fn shrink(&mut self, found: usize) {
        *self = Self { count: found.max(1), full_count: 0 };
    }
}

/// A turn at a listening socket.
#[derive(Debug, Clone, Copy)]
struct AcceptTurn {
    listener: usize,
    found: usize,
    limit: usize,
}

/// The event loop of a worker with its listening sockets.
#[derive(Debug)]
pub(crate) struct Readiness {
    reactor: Reactor,
    listeners: Vec<Listener>,
    turn: Option<AcceptTurn>,
    is_any_paused: bool,
}

impl Readiness {
    /// Accepts the next connection of the turn; ends the turn if there is none.
    fn accept(&mut self, turn: AcceptTurn) -> Option<Event> {
        let AcceptTurn { listener, found, limit } = turn;
        let Some(Listener { fd, is_paused: false, is_tls, batch }) = self.listeners.get_mut(listener) else {
            self.turn = None;
            return None;
        };
        if found == limit {
            batch.grow();
            self.turn = None;
            return None;
        }
        match stream::accept_from(fd) {
            Ok((fd, peer)) => {
                self.turn = Some(AcceptTurn { found: found + 1, ..turn });
                Some(Event::Accepted(Arrival { fd, peer: peer.map(|peer| peer.ip()), is_tls: *is_tls }))
            }
            Err(error) if error.is_would_block() => {
                self.reactor.clear_readiness(fd, Interest::READABLE);
                batch.shrink(found);
                self.turn = None;
                None
            }
            Err(error) if concerns_one_connection(error) => {
                self.turn = Some(AcceptTurn { found: found + 1, ..turn });
                None
            }
            Err(_) => {
                self.pause_accepting(listener);
                Some(Event::OutOfDescriptors)
            }
        }
    }

    /// Leaves waiting connections in the queue until a descriptor is free again: trying at once would only use the
    /// processor.
    #[cold]
    fn pause_accepting(&mut self, listener: usize) {
        self.turn = None;
        self.is_any_paused = true;
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.is_paused = true;
            let _ = self.reactor.set_interest(&listener.fd, Interest::NONE);
            self.reactor.set_deadline(&listener.fd, ACCEPT_PAUSE);
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
    fn new(config: &Config, listeners: Vec<Listening>, waker: &Waker) -> Result<Self, Error> {
        let mut reactor = Reactor::new(config.backend)?;
        reactor.register_waker(waker)?;
        for (index, Listening { fd, .. }) in listeners.iter().enumerate() {
            reactor.register(fd, Token(LISTENERS + index as u32), Interest::READABLE)?;
        }
        let listener = |Listening { fd, is_tls }| Listener { fd, is_paused: false, is_tls, batch: AcceptBatch::new() };
        let listeners = listeners.into_iter().map(listener).collect();
        Ok(Self { reactor, listeners, turn: None, is_any_paused: false })
    }

    #[inline]
    fn wait(&mut self, limit: Option<Duration>, _: &Table) -> Result<(), landau_reactor::Error> {
        self.reactor.wait(limit)
    }

    #[inline]
    fn next_event(&mut self, _: &Table) -> Option<Event> {
        loop {
            while let Some(turn) = self.turn {
                if let Some(event) = self.accept(turn) {
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
            let limit = self.listeners.get(listener).map_or(0, |listener| listener.batch.count);
            self.turn = Some(AcceptTurn { listener, found: 0, limit });
        }
    }

    #[inline]
    fn now_ms(&self) -> u32 {
        self.reactor.now_ms()
    }

    fn stop_accepting(&mut self) {
        self.resume_accepting();
    }

    fn close_listeners(&mut self, backlog: u32) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for Listener { fd, is_tls, .. } in std::mem::take(&mut self.listeners) {
            arrivals.extend(waiting_at(&fd, backlog).map(|(fd, peer)| Arrival { fd, peer, is_tls }));
            // It is registered.
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

    #[inline]
    fn set_interest(&mut self, _: u32, fd: &OwnedFd, interest: Interest) -> Result<(), landau_reactor::Error> {
        self.reactor.set_interest(fd, interest)
    }

    fn wait_writable(&mut self, _: u32, fd: &OwnedFd) -> Result<(), landau_reactor::Error> {
        self.reactor.clear_readiness(fd, Interest::WRITABLE);
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
        // The table and the event loop hold the same descriptors.
        let _ = self.reactor.close(fd);
        if self.is_any_paused {
            self.resume_accepting();
        }
    }
}
