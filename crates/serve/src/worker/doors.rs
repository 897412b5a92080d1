//! How connections come to a worker: through its doors, or from another worker that accepts for all.

use super::{Worker, is_again};
use crate::config::Accepting;
use crate::error::Error;
use crate::exchange::{After, Rest, answer};
use crate::listener::{LISTENERS, Listening, is_about_one, waiting_at};
use landau_reactor::{Event, Interest, Reactor, Token, Waker};
use landau_sys::stream;
use landau_wire::http::Scan;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections that are accepted in one turn at most, before others are looked after.
const ACCEPTS: usize = 64;

/// When descriptors are short, accepting rests for so long: ten attempts a second cost nothing.
const REST: Duration = Duration::from_millis(100);

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Arrival {
    fd: OwnedFd,
    peer: Option<IpAddr>,
    is_tls: bool,
}

/// Connections that another worker accepted for this one. None when this one takes no more.
#[derive(Debug)]
pub(crate) struct Inbox {
    arrivals: Mutex<Option<Vec<Arrival>>>,
    pub(crate) waker: Waker,
}

impl Inbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { arrivals: Mutex::new(Some(Vec::new())), waker }
    }

    /// Hands a connection over, or back if the worker takes no more.
    fn put(&self, arrival: Arrival) -> Option<Arrival> {
        match &mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(arrivals) => arrivals.push(arrival),
            None => return Some(arrival),
        }
        // A worker whose line is broken has ended, and takes nothing any more.
        let _ = self.waker.wake();
        None
    }

    pub(super) fn take(&self) -> Vec<Arrival> {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// What is there, and no more from now on.
    fn close(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) fd: OwnedFd,
    pub(super) is_resting: bool,
    is_tls: bool,
    appetite: Appetite,
}

impl Door {
    /// Opens them all.
    pub(super) fn all(listening: Vec<Listening>, reactor: &mut Reactor) -> Result<Vec<Self>, Error> {
        for (place, Listening { fd, .. }) in listening.iter().enumerate() {
            reactor.register(fd, Token(LISTENERS + place as u32), Interest::READABLE)?;
        }
        let door = |Listening { fd, is_tls }| Self { fd, is_resting: false, is_tls, appetite: Appetite::new() };
        Ok(listening.into_iter().map(door).collect())
    }
}

/// How many connections to accept in a turn: to ask for one that is not there costs the kernel nearly as much as to
/// accept one, for it makes the file first. Learns from what it found; whoever was not asked for is told of again.
#[derive(Debug)]
struct Appetite {
    count: usize,
    /// For how many turns there were as many as were asked for.
    filled: u32,
}

impl Appetite {
    /// After so many turns it is tried with more.
    const PATIENCE: u32 = 4;

    fn new() -> Self {
        Self { count: 1, filled: 0 }
    }

    /// There were as many as were asked for.
    fn grow(&mut self) {
        self.filled += 1;
        if self.filled == Self::PATIENCE {
            *self = Self { count: (2 * self.count).min(ACCEPTS), filled: 0 };
        }
    }

    /// There were only so many.
    fn shrink(&mut self, found: usize) {
        *self = Self { count: found.max(1), filled: 0 };
    }
}

/// Whether it pays to look for a request at once when a connection is accepted: it does with clients that make a
/// connection for each request, and is a call in vain with those that stay. Learns from what it found.
#[derive(Debug, Default)]
pub(super) struct Eager {
    /// From 0 (never there) to 16 (always).
    score: u8,
    count: u8,
}

impl Eager {
    /// Now and then it is tried in any case, to find out.
    fn is_worth_it(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        self.score >= 8 || self.count.is_multiple_of(16)
    }

    fn learn(&mut self, was_there: bool) {
        self.score = if was_there { (self.score + 2).min(16) } else { self.score.saturating_sub(1) };
    }
}

impl Worker {
    pub(super) fn accept(&mut self, door: usize, event: Event) {
        if event.ready.is_deadline() {
            self.open_doors();
        }
        let most = self.doors.get(door).map_or(0, |door| door.appetite.count);
        for found in 0..most {
            let Some(Door { fd, is_resting: false, is_tls, appetite }) = self.doors.get_mut(door) else { return };
            let is_tls = *is_tls;
            match stream::accept_from(fd) {
                Ok((fd, peer)) => self.take(Arrival { fd, peer: peer.map(|peer| peer.ip()), is_tls }),
                Err(error) if is_again(error) => {
                    self.reactor.clear_readiness(fd, Interest::READABLE);
                    return appetite.shrink(found);
                }
                Err(error) if is_about_one(error) => {}
                Err(_) => return self.rest(door),
            }
        }
        if let Some(door) = self.doors.get_mut(door) {
            door.appetite.grow();
        }
    }

    /// A connection for whoever's turn it is.
    fn take(&mut self, arrival: Arrival) {
        if self.config.accepting == Accepting::Handed {
            self.turn = (self.turn + 1) % self.inboxes.len();
            if self.turn != self.number {
                // Who ends takes no more, and then it is this worker's.
                let Some(arrival) = self.inboxes[self.turn].put(arrival) else { return };
                return self.admit(arrival);
            }
        }
        self.admit(arrival);
    }

    /// Accepts whoever has connected already, and then nobody any more.
    #[cold]
    pub(super) fn close_doors(&mut self) {
        self.open_doors();
        for arrival in self.inboxes[self.number].close() {
            self.admit(arrival);
        }
        for Door { fd, is_tls, .. } in std::mem::take(&mut self.doors) {
            for (fd, peer) in waiting_at(&fd, self.config.backlog) {
                self.admit(Arrival { fd, peer, is_tls });
            }
            // What was handed to `register` is registered.
            let _ = self.reactor.deregister(&fd);
        }
    }

    pub(super) fn admit(&mut self, arrival: Arrival) {
        let is_tls = arrival.is_tls;
        if let Err(refusal) = self.admission.enter(self.table.len(), arrival.peer) {
            return refusal.tell(&arrival.fd, is_tls, &mut self.site, &mut self.outbox);
        }
        // Who connected while the server ends has asked already, or is not waited for.
        if !is_tls && (self.site.closing || self.eager.is_worth_it()) {
            self.admit_eagerly(arrival);
        } else {
            self.enter(arrival);
        }
    }

    /// Into the table, from where it is told of; its number.
    fn enter(&mut self, Arrival { fd, peer, is_tls }: Arrival) -> Option<u32> {
        let number = self.table.next();
        if self.reactor.register_nonblocking(&fd, Token(number), Interest::READABLE).is_err() {
            self.admission.leave(peer);
            return None;
        }
        self.reactor.set_deadline(&fd, self.config.timeouts.head);
        self.table.insert(fd, peer, is_tls);
        if is_tls && !self.begin_session(number) {
            self.close(number);
            return None;
        }
        Some(number)
    }

    /// The request may have come with the connection. If so, one that ends with its answer is never waited for, and
    /// never stands in the table at all.
    fn admit_eagerly(&mut self, arrival: Arrival) {
        let got = stream::receive(&arrival.fd, &mut self.scratch);
        self.eager.learn(matches!(got, Ok(1..)));
        let Ok(got @ 1..) = got else {
            // Nothing yet, or already the end: that is told of like any other.
            self.enter(arrival);
            return;
        };
        if let Some(log) = &mut self.site.log {
            log.peer = arrival.peer;
        }
        self.outbox.clear();
        let mut scan = Scan::default();
        let (used, after) = answer(&mut self.site, &self.config, &self.scratch[..got], &mut scan, &mut self.outbox);
        if after == After::Close(false) && self.outbox.batch.is_empty() {
            // The answer leaves with the end that follows.
            let sent = stream::send(&arrival.fd, &self.outbox.bytes, true).unwrap_or(0);
            self.counters.bytes_sent.add(sent as u64);
            if sent == self.outbox.bytes.len() {
                return self.admission.leave(arrival.peer);
            }
            self.outbox.bytes.drain(..sent);
        }
        let rest = Rest::new(self.scratch[used..got].to_vec(), scan, after);
        if let Some(number) = self.enter(arrival) {
            self.deliver(number, rest);
        }
    }

    /// Descriptors are short. Whoever waits in the queue goes on waiting; asking again at once would only burn the
    /// processor.
    fn rest(&mut self, door: usize) {
        self.counters.descriptors_short.add(1);
        if let Some(door) = self.doors.get_mut(door) {
            door.is_resting = true;
            let _ = self.reactor.set_interest(&door.fd, Interest::NONE);
            self.reactor.set_deadline(&door.fd, REST);
        }
    }

    pub(super) fn open_doors(&mut self) {
        for door in self.doors.iter_mut().filter(|door| door.is_resting) {
            door.is_resting = false;
            let _ = self.reactor.set_interest(&door.fd, Interest::READABLE);
            self.reactor.clear_deadline(&door.fd);
        }
    }
}
