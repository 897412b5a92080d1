//! The connections of a worker: everything that closed loops, open loops and idle loads have in common.
//!
//! A wait returns a batch of events. Each event costs one `recv` and, if the load sends a request, one `send`. The
//! clock is read once per batch of bytes received. A request that equals the previous one needs no allocation, no
//! parsing and no change of the event set. The arrival time of a response is when its readiness was reported, not when
//! its turn in the batch comes.

mod handshake;
mod http2;
mod measurement;
mod readiness;
mod receive;
mod send;
mod table;
mod timeout;

use crate::clock::Clock;
use crate::connection::{Connection, State};
use crate::error::Result;
use crate::failure::{Failure, Reason};
use crate::metrics::Metrics;
use crate::plan::Plan;
use crate::server::Servers;
use landau_reactor::{Interest, Reactor, Token};
use landau_sys::process::ProcessorTime;
use landau_sys::stream;
use measurement::{Arrival, Measurement};
use readiness::Readiness;
use std::os::fd::AsFd;
use std::time::Duration;
use table::Table;
use timeout::Timeouts;

/// Size of the receive buffer.
const BUFFER_BYTES: usize = 128 << 10;

/// The token of the events of the link to the controller.
const CONTROLLER: Token = Token(u32::MAX - 1);

/// An event that a load handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing for the load to do.
    None,
    /// A connection is established and accepts requests.
    Open(u32),
    /// A connection received a response and accepts another request.
    Ready(u32),
    /// A connection accepts no more requests: it was replaced as planned, closed by the server, or failed.
    Closed {
        /// Its ID.
        id: u32,
        /// Whether it was established and used. A connection that the server accepts and closes at once was not: the
        /// next attempt must wait, as after a refused one.
        was_established: bool,
    },
    /// The controller sent a message.
    Command,
}

/// Timing of a response, for loads that report each one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResponseTimes {
    pub(crate) first_byte_ns: u64,
    pub(crate) last_byte_ns: u64,
    pub(crate) status: u16,
}

/// The connections of a worker.
#[derive(Debug)]
pub(crate) struct Connections<C> {
    reactor: Reactor,
    clock: C,
    /// The time at the last reading of the clock.
    now_ns: u64,
    servers: Servers,
    table: Table,
    /// Requests that were sent and neither answered nor lost.
    in_flight: u64,
    buffer: Vec<u8>,
    /// Several requests, batched for one `send`.
    batch: Vec<u8>,
    measurement: Measurement,
    readiness: Readiness,
    timeouts: Timeouts,
    /// Timing of the last response.
    last: ResponseTimes,
    pipeline: usize,
    http2: bool,
    per_connection: u64,
    /// Whether the last request was sent.
    is_ending: bool,
    /// The time at which the backlog of a Unix socket became full; `None` if it has room.
    backlog_full_since_ns: Option<u64>,
}

impl<C: Clock> Connections<C> {
    pub(crate) fn new(plan: &Plan, reactor: Reactor, clock: C) -> Result<Self> {
        let now_ns = clock.now_ns();
        Ok(Self {
            reactor,
            clock,
            now_ns,
            servers: Servers::new(plan)?,
            table: Table::default(),
            in_flight: 0,
            buffer: vec![0; BUFFER_BYTES],
            batch: Vec::new(),
            measurement: Measurement::new(&plan.load, plan.timeout_ns),
            readiness: Readiness::new(now_ns),
            timeouts: Timeouts::new(plan.timeout_ns),
            last: ResponseTimes::default(),
            pipeline: plan.pipeline.max(1) as usize,
            http2: plan.http2,
            per_connection: plan.per_connection.unwrap_or(u64::MAX),
            is_ending: false,
            backlog_full_since_ns: None,
        })
    }

    /// Reads the clock and returns its time.
    #[inline]
    pub(crate) fn tick(&mut self) -> u64 {
        self.now_ns = self.clock.now_ns();
        self.now_ns
    }

    /// Returns the time at the last reading of the clock.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the CPU time that the load has used.
    pub(crate) fn cpu_time(&self) -> ProcessorTime {
        self.clock.cpu_time()
    }

    /// Returns the number of connections that accept requests.
    pub(crate) fn open_count(&self) -> u32 {
        self.table.open
    }

    /// Returns the number of connections in a handshake.
    pub(crate) fn opening_count(&self) -> u32 {
        self.table.opening
    }

    /// Returns the number of requests that were sent and neither answered nor lost.
    pub(crate) fn in_flight_count(&self) -> u64 {
        self.in_flight
    }

    /// Returns the IDs of the connections that accept requests.
    pub(crate) fn open_ids(&self) -> Vec<u32> {
        self.table.ids_of(|one| one.state == State::Open)
    }

    /// Returns whether a connection accepts another request now.
    #[inline]
    pub(crate) fn has_room(&self, id: u32) -> bool {
        let is_free = |one: &Connection| {
            one.state == State::Open && !one.is_last && one.in_flight.len() < self.pipeline.min(one.most_streams())
        };
        self.table.get(id).is_some_and(is_free)
    }

    /// Returns the timing of the last response.
    pub(crate) fn last_response(&self) -> ResponseTimes {
        self.last
    }

    /// Returns how long the kernel's handshake of an open connection took.
    pub(crate) fn handshake_ns(&self, id: u32) -> u64 {
        self.table.get(id).map_or(0, Connection::handshake_ns)
    }

    /// Returns when the last complete response arrived; 0 if there was none.
    pub(crate) fn last_response_ns(&self) -> u64 {
        self.measurement.last_response_ns()
    }

    /// Returns the metrics so far.
    pub(crate) fn metrics(&self) -> &Metrics {
        self.measurement.metrics()
    }

    /// Returns the metrics and resets them.
    pub(crate) fn take_metrics(&mut self) -> Metrics {
        self.measurement.take()
    }

    /// Measures the requests that are due at `from_ns` or later, and drops the metrics of earlier ones.
    pub(crate) fn measure_from(&mut self, from_ns: u64) {
        self.measurement.start_at(from_ns);
    }

    /// Counts the handshakes that begin at `from_ns` or later as measured, and the others as set-up.
    pub(crate) fn measure_handshakes_from(&mut self, from_ns: u64) {
        self.measurement.measure_handshakes_from(from_ns);
    }

    /// Notes that no further requests will be sent. From then on, a connection without a request does not count as
    /// failed.
    pub(crate) fn sent_last(&mut self) {
        self.is_ending = true;
    }

    /// Restarts the count of received bytes.
    pub(crate) fn restart_bytes(&mut self) {
        self.measurement.restart_bytes();
    }

    /// Waits for events until `until_ns`, but no longer than `longest`.
    pub(crate) fn wait(&mut self, until_ns: u64, longest: Duration) -> Result<()> {
        let called_ns = self.tick();
        self.clock.wait(&mut self.reactor, called_ns, until_ns, longest)?;
        let returned_ns = self.tick();
        self.readiness.waited(called_ns, returned_ns);
        Ok(())
    }

    /// Watches the link to the controller.
    pub(crate) fn watch_controller(&mut self, link: &impl AsFd) -> Result<()> {
        Ok(self.reactor.register_nonblocking(link, CONTROLLER, Interest::READABLE)?)
    }

    /// Clears the readiness of the link to the controller, after everything was read from it.
    pub(crate) fn controller_was_read(&mut self, link: &impl AsFd) {
        self.reactor.clear_readiness(link, Interest::READABLE);
    }

    /// Starts a connection to the next server and returns its ID, or `None` if it could not be started; the next
    /// attempt must then wait.
    pub(crate) fn connect(&mut self) -> Option<u32> {
        let clock = &self.clock;
        let (fd, server, since_ns) = match self.servers.connect(|| clock.now_ns()) {
            Ok(Some(started)) => started,
            Ok(None) => {
                self.note_full_backlog();
                return None;
            }
            Err(error) => {
                self.backlog_full_since_ns = None;
                self.tick();
                self.measurement.fail(Failure::of_connecting(error), || error.to_string());
                return None;
            }
        };
        self.now_ns = since_ns;
        self.backlog_full_since_ns = None;
        let id = self.table.next_id();
        if let Err(error) = self.reactor.register_nonblocking(&fd, Token(id), Interest::WRITABLE) {
            self.measurement.fail(Failure::Connect, || error.to_string());
            return None;
        }
        self.table.insert(Connection::new(fd, server, since_ns));
        Some(id)
    }

    /// Returns the next event of the last wait.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let event = self.reactor.next_event()?;
        if event.token == CONTROLLER {
            return Some(Event::Command);
        }
        if self.clock.consume(&mut self.reactor, event) {
            return Some(Event::None);
        }
        let id = event.token.0;
        let Some(connection) = self.table.get_mut(id) else { return Some(Event::None) };
        Some(match connection.state {
            State::Open if event.ready.is_writable() && !event.ready.is_readable() => self.continue_sending(id),
            State::Open => self.receive(id, event.ready.is_read_closed()),
            State::Connecting => self.connected(id),
            State::Securing => self.secure(id),
            State::Closing => self.await_close(id),
        })
    }

    /// Closes a failed connection and counts its requests in flight as failed, or the connection itself if there are
    /// none. A reset without a request in flight counts as closed while idle, like an orderly close. After the last
    /// request was sent, a connection that never had a request does not count; otherwise there would be more failures
    /// than requests.
    #[cold]
    fn fail(&mut self, id: u32, (failure, detail): Reason) -> Event {
        let Some(connection) = self.table.get(id) else { return Event::None };
        if failure == Failure::Reset && connection.state == State::Open && connection.in_flight.is_empty() {
            if !connection.is_last {
                self.measurement.closed_while_idle();
            }
            return self.close(id, true);
        }
        if self.is_ending && connection.state == State::Open && connection.sent == 0 {
            return self.close(id, true);
        }
        let measured = connection.in_flight.iter().filter(|request| self.measurement.includes(request.due_ns)).count();
        let count = if connection.in_flight.is_empty() { 1 } else { measured };
        if failure == Failure::Timeout {
            for request in &connection.in_flight {
                self.measurement.unanswered(request, self.now_ns);
            }
        }
        for number in 0..count {
            // Only the first request of a pipeline failed with this error; the others were lost with the connection.
            let is_consequence = number > 0 && failure != Failure::Timeout;
            let failure = if is_consequence { Failure::ClosedBeforeResponse } else { failure };
            self.measurement.fail(failure, || detail.clone());
        }
        self.close(id, true)
    }

    /// Closes a connection. With a reset, no socket remains in `TIME_WAIT`, unless the server closed first.
    pub(crate) fn close(&mut self, id: u32, with_reset: bool) -> Event {
        let Some(connection) = self.table.remove(id) else { return Event::None };
        if with_reset {
            // Unix sockets have no such option and do not need it.
            let _ = stream::set_reset_on_close(&connection.fd);
        }
        self.in_flight -= connection.in_flight.len() as u64;
        let was_established = matches!(connection.state, State::Open | State::Closing) && connection.sent > 0;
        // The descriptor is free even if `close` reports an error.
        let _ = self.reactor.close(connection.fd);
        Event::Closed { id, was_established }
    }

    /// Frees the memory that a connection needs only while requests are in flight.
    pub(crate) fn rest(&mut self, id: u32) {
        if let Some(connection) = self.table.get_mut(id) {
            connection.rest();
        }
    }

    /// Closes all connections with resets.
    pub(crate) fn close_all(&mut self) {
        for id in self.table.ids_of(|_| true) {
            self.close(id, true);
        }
    }
}
