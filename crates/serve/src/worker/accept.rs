//! Accepts connections: from the worker's own listeners, or from another worker that accepts for all.

use super::Worker;
use crate::config::Accepting;
use crate::connection::State;
use crate::exchange::{After, Remainder, answer};
use crate::site::Client;
use crate::tls;
use crate::transport::{Arrival, Transport};
use landau_reactor::Waker;
use landau_sys::stream;
use landau_wire::http::Scan;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Connections that another worker accepted for this one; `None` after this worker has stopped taking any.
#[derive(Debug)]
pub(crate) struct AcceptQueue {
    arrivals: Mutex<Option<Vec<Arrival>>>,
    pub(crate) waker: Waker,
}

impl AcceptQueue {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { arrivals: Mutex::new(Some(Vec::new())), waker }
    }

    /// Adds a connection; returns it if the worker takes no more connections.
    fn push(&self, arrival: Arrival) -> Option<Arrival> {
        match &mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(arrivals) => arrivals.push(arrival),
            None => return Some(arrival),
        }
        // Waking fails only if the worker has ended.
        let _ = self.waker.wake();
        None
    }

    pub(super) fn take(&self) -> Vec<Arrival> {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes the connections and closes the queue.
    fn close(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default()
    }
}

/// Decides whether to look for a request as soon as a connection is accepted. This saves time with clients that open a
/// connection for each request, and wastes a system call with those that keep theirs. It adapts to the results.
#[derive(Debug, Default)]
pub(super) struct SpeculativeRead {
    /// From 0 (a request has never been there) to 16 (always).
    score: u8,
    count: u8,
}

impl SpeculativeRead {
    /// Returns whether to look; at least one connection in sixteen is tried, to notice a change.
    fn is_worth_it(&mut self) -> bool {
        self.count = self.count.wrapping_add(1);
        self.score >= 8 || self.count.is_multiple_of(16)
    }

    fn learn(&mut self, was_there: bool) {
        self.score = if was_there { (self.score + 2).min(16) } else { self.score.saturating_sub(1) };
    }
}

impl<T: Transport> Worker<T> {
    /// Admits a connection here, or passes it to the worker whose turn it is.
    pub(super) fn assign(&mut self, arrival: Arrival) {
        if self.config.accepting == Accepting::Handed {
            self.last_assigned = (self.last_assigned + 1) % self.accept_queues.len();
            if self.last_assigned != self.number {
                // A worker that is stopping takes no more connections; this one then serves the connection.
                let Some(arrival) = self.accept_queues[self.last_assigned].push(arrival) else { return };
                return self.admit(arrival);
            }
        }
        self.admit(arrival);
    }

    /// Stops accepting; answers the clients that had connected or sent a request by then.
    #[cold]
    pub(super) fn stop_accepting(&mut self) {
        self.transport.begin_stop();
        self.poll_twice();
        let waiting = self.transport.close_listeners(self.config.backlog);
        for arrival in self.accept_queues[self.number].close().into_iter().chain(waiting) {
            self.admit(arrival);
        }
        self.poll_twice();
    }

    /// Handles pending events without waiting, twice: a ring starts an operation with one wait and reports it with the
    /// next.
    fn poll_twice(&mut self) {
        self.poll_once(Some(Duration::ZERO));
        self.poll_once(Some(Duration::ZERO));
    }

    pub(super) fn admit(&mut self, mut arrival: Arrival) {
        let is_of_proxy = self.config.proxies.as_ref().is_some_and(|proxies| proxies.has(arrival.peer));
        if is_of_proxy {
            // The client is known, and counted, only after the header has arrived.
            arrival.peer = None;
        }
        self.refused.limit(self.admission.most_refused(self.table.len()));
        if self.is_refused(&arrival) {
            return self.refused.keep(arrival.fd, self.transport.now_ms());
        }
        if is_of_proxy {
            let number = self.enter(arrival);
            if let Some(connection) = number.and_then(|number| self.table.get(number)) {
                connection.state = State::Preface;
            }
        // A client that connects while the server is stopping has sent its request already, or is not waited for.
        } else if !arrival.is_tls && (self.site.closing || self.speculative_read.is_worth_it()) {
            self.admit_with_request(arrival);
        } else {
            self.enter(arrival);
        }
    }

    /// Refuses a client that cannot be served; returns whether it was refused.
    #[inline]
    fn is_refused(&mut self, Arrival { fd, peer, is_tls }: &Arrival) -> bool {
        // No connection is closed for a client whose address has no room.
        if self.table.len() >= self.admission.capacity() && self.admission.has_room_for(*peer) {
            self.close_kept();
        }
        if let Err(refusal) = self.admission.enter(self.table.len(), *peer) {
            refusal.tell(fd, *is_tls, &mut self.site, &mut self.send_buffers);
            return true;
        }
        if !is_tls || !self.memory.is_short() {
            return false;
        }
        self.counters.memory_refused().add(1);
        tls::refuse(fd);
        self.admission.leave(*peer);
        true
    }

    /// Adds a connection to the table and begins to receive; returns its number.
    fn enter(&mut self, Arrival { fd, peer, is_tls }: Arrival) -> Option<u32> {
        let number = self.table.next();
        if self.transport.register(number, &fd).is_err() {
            self.admission.leave(peer);
            return None;
        }
        self.transport.set_deadline(number, &fd, self.config.timeouts.head);
        let is_late = self.site.closing;
        self.table.insert(fd, peer, is_tls, is_late);
        if is_tls && !self.begin_session(number) {
            self.close(number);
            return None;
        }
        Some(number)
    }

    /// Reads speculatively. If the request has arrived with the connection and the connection ends with the response,
    /// the connection is neither registered nor added to the table.
    fn admit_with_request(&mut self, arrival: Arrival) {
        let got = stream::receive(&arrival.fd, &mut self.scratch);
        self.speculative_read.learn(matches!(got, Ok(1..)));
        let Ok(got @ 1..) = got else {
            // There are no bytes yet, or the end has been reached already, which the transport reports.
            self.enter(arrival);
            return;
        };
        if self.site.notes_client {
            self.site.note_client(Client { peer: arrival.peer, is_tls: arrival.is_tls });
        }
        self.send_buffers.clear();
        let mut scan = Scan::default();
        let (used, after) =
            answer(&mut self.site, &self.config, &self.scratch[..got], &mut scan, &mut self.send_buffers);
        if after == After::Close(false) && self.send_buffers.batch.is_empty() {
            // The response is sent together with the end of the connection.
            let sent = stream::send(&arrival.fd, &self.send_buffers.bytes, true).unwrap_or(0);
            self.counters.bytes_sent().add(sent as u64);
            if sent == self.send_buffers.bytes.len() {
                return self.admission.leave(arrival.peer);
            }
            self.send_buffers.bytes.drain(..sent);
        }
        let rest = Remainder::new(self.scratch[used..got].to_vec(), scan, after);
        if let Some(number) = self.enter(arrival) {
            self.deliver(number, rest);
        }
    }
}
