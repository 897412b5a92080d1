//! Timeouts: connections that wait too long for the server.

use super::{Connections, Event};
use crate::clock::Clock;
use crate::connection::State;
use crate::failure::Failure;

/// Time limit for a server to close a connection after its last response.
const CLOSING_NS: u64 = 1_000_000_000;

/// Time during which a server that refuses connections may still be starting.
const STARTING_NS: u64 = 1_000_000_000;

/// The reason why a connection to a Unix socket waits.
const BACKLOG_FULL: &str = "the backlog of the Unix socket is full: the server accepts no connection";

/// The schedule of scans for connections that have waited too long. Looking at each connection takes time, so scans run
/// at intervals.
#[derive(Debug)]
pub(super) struct Timeouts {
    pub(super) timeout_ns: u64,
    next_scan_ns: u64,
}

impl Timeouts {
    pub(super) fn new(timeout_ns: u64) -> Self {
        Self { timeout_ns, next_scan_ns: 0 }
    }

    /// Returns whether a scan is due, and schedules the next one: after a tenth of the timeout, within 20 to 500 ms.
    #[inline]
    fn is_due(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_scan_ns {
            return false;
        }
        self.next_scan_ns = now_ns + (self.timeout_ns / 10).clamp(20_000_000, 500_000_000);
        true
    }

    fn limit_ns(&self, state: State) -> u64 {
        if state == State::Closing { CLOSING_NS } else { self.timeout_ns }
    }
}

/// Describes the failure of a request that has waited too long.
pub(super) fn unanswered(waited_ns: u64) -> String {
    format!("no complete response after {:.1} s", waited_ns as f64 / 1e9)
}

impl<C: Clock> Connections<C> {
    /// Fails the connections that exceeded the timeout and returns their events. Does nothing if the last scan was
    /// recent, or if no connection waits: idle connections have no timeout, and scanning many thousands of them takes
    /// time.
    #[inline]
    pub(crate) fn expire(&mut self, now_ns: u64) -> Vec<Event> {
        if self.timeouts.is_due(now_ns) && self.is_waiting() { self.expire_now() } else { Vec::new() }
    }

    /// Returns whether any connection waits for its server: for a handshake, a response, or the close.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.in_flight > 0 || self.table.opening > 0 || self.table.closing() > 0
    }

    fn expire_now(&mut self) -> Vec<Event> {
        let now_ns = self.tick();
        let timeouts = &self.timeouts;
        let expired = self.table.ids_of(|one| {
            one.waiting_since_ns().is_some_and(|ns| now_ns.saturating_sub(ns) > timeouts.limit_ns(one.state))
        });
        let mut events = Vec::new();
        for id in expired {
            let Some(connection) = self.table.get(id) else { continue };
            let waited_ns = now_ns.saturating_sub(connection.waiting_since_ns().unwrap_or(now_ns));
            let after = |what: &str| format!("{what} after {:.1} s", waited_ns as f64 / 1e9);
            match connection.state {
                State::Connecting => events.push(self.fail(id, (Failure::ConnectTimeout, after("no handshake")))),
                State::Securing => events.push(self.fail(id, (Failure::Tls, after("no TLS handshake")))),
                // If nothing has arrived since the oldest request was sent, the connection has failed as a whole.
                State::Open if connection.has_heard() => events.push(self.cancel_streams(id)),
                State::Open => events.push(self.fail(id, (Failure::Timeout, unanswered(waited_ns)))),
                State::Closing => {
                    self.close(id, true);
                }
            }
        }
        events
    }

    /// Notes that the backlog of a Unix socket is full. If this lasts longer than the timeout, a connection counts as
    /// failed, as it would in a TCP handshake.
    #[cold]
    pub(super) fn note_full_backlog(&mut self) {
        let now_ns = self.tick();
        let since_ns = *self.backlog_full_since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since_ns) > self.timeouts.timeout_ns {
            self.backlog_full_since_ns = Some(now_ns);
            self.measurement.fail(Failure::ConnectTimeout, || BACKLOG_FULL.to_owned());
        }
    }

    /// Counts a connection as failed if it is given up because the backlog of a Unix socket is full.
    pub(crate) fn fail_backlog(&mut self) {
        if self.backlog_full_since_ns.take().is_some() {
            self.measurement.fail(Failure::ConnectTimeout, || BACKLOG_FULL.to_owned());
        }
    }

    /// Fails the connections that are still being opened when the load is given up before its start.
    pub(crate) fn fail_opening(&mut self) {
        self.tick();
        self.fail_backlog();
        for id in self.table.ids_of(|one| matches!(one.state, State::Connecting | State::Securing)) {
            let is_securing = self.table.get(id).is_some_and(|one| one.state == State::Securing);
            let (failure, what) = if is_securing {
                (Failure::Tls, "no TLS handshake")
            } else {
                (Failure::ConnectTimeout, "no handshake")
            };
            self.fail(id, (failure, format!("{what} before the run was aborted")));
        }
    }

    /// Fails the requests that are still in flight at the end of a run.
    pub(crate) fn fail_in_flight(&mut self) {
        self.tick();
        for id in self.table.ids_of(|one| !one.in_flight.is_empty()) {
            self.fail(id, (Failure::Timeout, "no complete response before the end of the run".to_owned()));
        }
    }

    /// Returns whether no server is listening: every attempt to connect since `since_ns` was refused, and that was at
    /// least a second ago.
    pub(crate) fn is_refused(&self, since_ns: u64) -> bool {
        let is_refusal = |failure: &Failure| matches!(failure, Failure::ConnectRefused | Failure::Connect);
        let metrics = self.measurement.metrics();
        self.now_ns.saturating_sub(since_ns) >= STARTING_NS
            && metrics.connections == 0
            && self.table.opening == 0
            && !metrics.failures.is_empty()
            && metrics.failures.keys().all(is_refusal)
    }
}
