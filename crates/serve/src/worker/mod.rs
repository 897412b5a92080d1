//! A worker: a thread with a transport, its connections, and the state machine that serves them.
//!
//! The state machine is written once, over a [`Transport`]. The kind of transport is decided at compile time, so that
//! the hot path has no indirection. A request that arrives whole, and whose response fits into the socket's send
//! buffer, costs one receive and one send, and the connection owns no buffer before or after. The slow path handles an
//! incomplete head, a response that the socket does not accept at once, and a file that must be read from the device.

mod accept;
mod delivery;
mod http2;
mod preface;
mod relay;
mod streams;
mod tls;
mod upstream;

use crate::admission::Admission;
use crate::config::{Accepting, Config};
use crate::connection::{Connection, State, Table};
use crate::control::{Control, Drain};
use crate::counters::Counters;
use crate::error::Error;
use crate::exchange::{After, Remainder, answer};
use crate::fetch::Fetcher;
use crate::http2::Buffers;
use crate::limiter::ConnectionLimiter;
use crate::listener::ListenSocket;
use crate::log::Feed;
use crate::memory::Memory;
use crate::privilege::Sandbox;
use crate::proxy::Upstreams;
use crate::refused::Refused;
use crate::send_buffers::SendBuffers;
use crate::site::{Client, Folder, Notices, Site};
use crate::tls::{Sessions, Settings};
use crate::transport::{Event, Transport};
use accept::SpeculativeRead;
use landau_reactor::{Interest, Ready};
use landau_sys::stream;
use landau_wire::http::{Reject, Scan, Status};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use accept::AcceptQueue;

/// The maximum number of bytes received at once. All connections of a worker share one buffer.
const SCRATCH_BYTES: usize = 64 << 10;

/// The inputs of a new worker.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) number: usize,
    pub(crate) config: Arc<Config>,
    pub(crate) listeners: Vec<ListenSocket>,
    pub(crate) control: Arc<Control>,
    pub(crate) counters: Counters,
    /// Shared by all workers.
    pub(crate) limiter: Arc<ConnectionLimiter>,
    pub(crate) accept_queues: Arc<Vec<AcceptQueue>>,
    /// The worker's end of the access log.
    pub(crate) log: Option<Feed>,
    /// The sandbox, which the worker enters after it has opened what it needs.
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) tls: Option<Arc<Settings>>,
    /// Shared by all workers.
    pub(crate) notices: Arc<Notices>,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    number: usize,
    config: Arc<Config>,
    counters: Counters,
    accept_queues: Arc<Vec<AcceptQueue>>,
    transport: T,
    table: Table,
    admission: Admission,
    refused: Refused,
    site: Site,
    fetcher: Fetcher,
    speculative_read: SpeculativeRead,
    scratch: Box<[u8]>,
    send_buffers: SendBuffers,
    tls: Option<Arc<Settings>>,
    sessions: Sessions,
    /// The connections to upstream servers.
    upstreams: Upstreams,
    /// The memory that the connections hold.
    memory: Memory,
    /// Decrypted bytes, or bytes to be encrypted.
    plain: Vec<u8>,
    http2: Buffers,
    /// Connections with further requests that arrived after the answered ones.
    unanswered: Vec<u32>,
    /// The worker that got the last connection, if one worker accepts for all.
    last_assigned: usize,
    drain: Drain,
}

impl<T: Transport> Worker<T> {
    pub(crate) fn new(start: Start) -> Result<Self, Error> {
        let Start { number, config, listeners, control, counters, limiter, accept_queues, log, sandbox, tls, notices } =
            start;
        let waker = &accept_queues[number].waker;
        let memory = Memory::new(config.memory_bytes.unwrap_or(usize::MAX) / config.workers.max(1));
        let transport = T::new(&config, listeners, waker, &memory)?;
        let admission = Admission::new(&config, limiter, counters)?;
        let folder = Folder::new(&config, notices, sandbox.is_active())?;
        let site = Site::new(&config, folder, counters, log, waker.clone());
        sandbox.enter()?;
        let fetcher = Fetcher::new(waker.clone());
        Ok(Self {
            number,
            site,
            admission,
            refused: Refused::default(),
            drain: Drain::new(control, &config.timeouts),
            config,
            counters,
            accept_queues,
            transport,
            table: Table::new(),
            fetcher,
            speculative_read: SpeculativeRead::default(),
            scratch: vec![0; tls::PLAIN_BYTES].into_boxed_slice(),
            send_buffers: SendBuffers::default(),
            tls,
            sessions: Sessions::default(),
            upstreams: Upstreams::default(),
            memory,
            plain: Vec::new(),
            http2: Buffers::default(),
            unanswered: Vec::new(),
            last_assigned: 0,
        })
    }

    /// Returns the number of connections that the worker has descriptors for.
    pub(crate) fn capacity(&self) -> usize {
        self.admission.capacity()
    }

    /// Runs until the server asks it to stop.
    pub(crate) fn run(&mut self) {
        while !self.drain.must_end() {
            if self.drain.is_requested() && self.continue_drain() {
                break;
            }
            self.poll_once(self.max_wait());
        }
        if let Some(log) = &mut self.site.log {
            log.finish();
        }
    }

    /// Returns the longest permitted wait.
    #[inline]
    fn max_wait(&self) -> Option<Duration> {
        let drain = self.drain.max_wait(self.site.log.as_ref());
        let refused = self.refused.max_wait(self.transport.now_ms());
        drain.into_iter().chain(refused).min()
    }

    /// Waits once and handles the events.
    #[inline]
    fn poll_once(&mut self, limit: Option<Duration>) {
        // Ignored: an error usually concerns the interest of one descriptor. The changes for other descriptors stay
        // queued, and the next wait applies them.
        if self.transport.wait(limit, &self.table).is_err() {
            return;
        }
        self.send_buffers.is_scarce = self.memory.is_short();
        self.site.tick(self.transport.now_ms());
        self.refused.tick(self.transport.now_ms());
        while let Some(event) = self.transport.next_event(&self.table) {
            match event {
                Event::Connection(number, ready) => self.handle(number, ready),
                Event::Accepted(arrival) => self.assign(arrival),
                Event::Kept(number) if self.must_free_memory(number) => self.close_for_memory(number),
                Event::Kept(_) => {}
                Event::OutOfDescriptors => self.counters.descriptors_short().add(1),
            }
            self.answer_further();
        }
        self.take_fetched();
        self.take_found();
        if self.config.accepting == Accepting::Handed {
            for arrival in self.accept_queues[self.number].take() {
                self.admit(arrival);
            }
        }
        self.answer_further();
        self.counters.held_bytes().set(self.memory.used_bytes() as u64);
        if let Some(log) = &mut self.site.log {
            log.flush();
        }
    }

    /// Records the client for the access log and the rules.
    #[inline]
    fn note_peer(&mut self, number: u32) {
        if self.site.notes_client
            && let Some(connection) = self.table.get(number)
        {
            self.site.note_client(Client { peer: connection.peer(), is_tls: connection.is_tls });
        }
    }

    /// Stops accepting and closes idle connections in the first call. Returns whether the worker can end.
    fn continue_drain(&mut self) -> bool {
        if self.drain.begin() {
            self.site.closing = true;
            self.stop_accepting();
            for number in self.table.idle() {
                self.close(number);
            }
            for via in self.upstreams.idle() {
                self.close_upstream(via);
            }
            self.drain_http2();
        }
        self.drain.is_over(self.table.len())
    }

    #[inline]
    fn handle(&mut self, number: u32, ready: Ready) {
        let Some(connection) = self.table.get(number) else { return };
        let is_ready = ready.is_readable() || ready.is_writable();
        match connection.state {
            State::Idle | State::Fresh | State::Head | State::Body | State::Relaying if is_ready => {
                self.receive(number);
            }
            State::Upstream => self.handle_upstream(number, ready),
            State::Sending if is_ready && connection.is_relaying() => self.go_on_both_ways(number, ready),
            State::Sending if is_ready => self.go_on(number),
            State::Http2 if is_ready => self.continue_http2(number, ready),
            State::Preface if is_ready => self.receive_preface(number),
            State::Lingering if is_ready => self.linger(number),
            // Level-triggered backends report WRITE_CLOSED in each wait, even without interest. If the connection were
            // not closed, the loop would spin.
            State::Fetching | State::LookingUp | State::Relaying if ready.is_write_closed() => self.close(number),
            State::Free => {}
            _ if ready.is_deadline() => self.expire(number),
            _ => {}
        }
    }

    /// Receives what has arrived and answers it.
    #[inline]
    fn receive(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        let mut count = match self.transport.receive(number, fd, &mut self.scratch[..SCRATCH_BYTES]) {
            Ok(Some(count)) if count > 0 => count,
            Ok(None) => return,
            _ => return self.close(number),
        };
        if connection.is_tls {
            match self.decrypt(number, count) {
                Some(plain) => count = plain,
                None => return,
            }
        }
        self.answer_received(number, count);
    }

    /// Answers the requests in the scratch buffer.
    #[inline]
    fn answer_received(&mut self, number: u32, count: usize) {
        let Some(connection) = self.table.get(number) else { return };
        self.send_buffers.clear();
        let is_active = connection.active.is_some();
        self.note_peer(number);
        if is_active {
            return self.receive_more(number, count);
        }
        let mut scan = Scan::default();
        let (used, after) =
            answer(&mut self.site, &self.config, &self.scratch[..count], &mut scan, &mut self.send_buffers);
        if after == After::Idle && self.send_buffers.batch.is_empty() && self.send_all(number) {
            return;
        }
        self.deliver_remainder(number, used..count, scan, after);
    }

    /// Delivers everything except the hot path. As a separate function it saves the hot path 17 instructions a request
    /// (callgrind, 2,255 to 2,238).
    #[inline(never)]
    fn deliver_remainder(&mut self, number: u32, left: Range<usize>, scan: Scan, after: After) {
        let rest = Remainder::new(self.scratch[left].to_vec(), scan, after);
        self.deliver(number, rest);
    }

    /// Sends the response on the hot path: all of it is sent at once, and the connection is idle again.
    #[inline]
    fn send_all(&mut self, number: u32) -> bool {
        let Some(connection) = self.table.get(number) else { return false };
        let Some(fd) = connection.fd.as_ref().filter(|_| !connection.is_tls) else { return false };
        let Ok(sent) = stream::send(fd, &self.send_buffers.bytes, false) else { return false };
        self.counters.bytes_sent().add(sent as u64);
        if sent < self.send_buffers.bytes.len() {
            self.send_buffers.bytes.drain(..sent);
            return false;
        }
        connection.state = State::Idle;
        self.transport.set_idle_deadline(number, fd, self.config.timeouts.idle);
        true
    }

    /// Answers a partial request, with `count` more bytes of it.
    fn receive_more(&mut self, number: u32, count: usize) {
        let Some(connection) = self.table.get(number) else { return };
        if connection.is_relaying() {
            return self.relay_body(number, count);
        }
        if connection.state == State::Http2 {
            return self.receive_http2(number, count);
        }
        let active = connection.active();
        let rest = active.go_on(&self.scratch[..count], &mut self.site, &self.config, &mut self.send_buffers);
        if let Some(rest) = rest {
            self.deliver(number, rest);
        }
    }

    fn set_interest(&mut self, number: u32, interest: Interest) {
        self.ask_transport(number, |transport, fd| transport.set_interest(number, fd, interest));
    }

    /// Asks the transport for something about a connection, and closes the connection if that fails.
    fn ask_transport(&mut self, number: u32, ask: impl FnOnce(&mut T, &OwnedFd) -> Result<(), landau_reactor::Error>) {
        let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) else { return };
        if ask(&mut self.transport, fd).is_err() {
            self.close(number);
        }
    }

    fn set_deadline(&mut self, number: u32, limit: Duration) {
        if let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) {
            self.transport.set_deadline(number, fd, limit);
        }
    }

    /// Discards what a client still sends after the end of the connection, within a time limit.
    fn linger(&mut self, number: u32) {
        let now_ms = self.transport.now_ms();
        let Some(connection) = self.table.get(number) else { return };
        let Some(fd) = connection.fd.as_ref() else { return };
        match self.transport.receive(number, fd, &mut self.scratch[..SCRATCH_BYTES]) {
            Ok(None) => {}
            Ok(Some(1..)) => match connection.linger_time(now_ms) {
                Some(time) => self.set_deadline(number, time),
                None => self.close(number),
            },
            _ => self.close(number),
        }
    }

    /// Handles a deadline that has passed.
    #[cold]
    fn expire(&mut self, number: u32) {
        let is_handshaking = self.is_handshaking(number);
        let Some(connection) = self.table.get(number) else { return };
        match connection.state {
            State::Idle => self.counters.idle_closed().add(1),
            State::Fresh | State::Preface => self.counters.heads_late().add(1),
            State::Head | State::Body => {
                self.counters.heads_late().add(1);
                let reject = Reject { status: Status::REQUEST_TIMEOUT, reason: "the head did not arrive in time" };
                return self.refuse_begun(number, reject);
            }
            State::Sending if connection.is_tls && is_handshaking => self.counters.heads_late().add(1),
            State::Sending => {
                if connection.made_progress() {
                    return self.set_deadline(number, self.config.timeouts.send);
                }
                self.counters.slow_closed().add(1);
                return self.reset(number);
            }
            // The device is slow, not the client.
            State::Fetching | State::LookingUp => return self.set_deadline(number, self.config.timeouts.send),
            State::Relaying => return self.expire_relaying(number),
            State::Http2 => return self.expire_http2(number),
            State::Free | State::Lingering | State::Upstream => {}
        }
        self.close(number);
    }

    fn close(&mut self, number: u32) {
        // The request to be forwarded for this connection must not be forwarded for the next one.
        self.site.forward = None;
        match self.table.get(number) {
            Some(Connection { state: State::Upstream, .. }) => return self.lose_upstream(number),
            Some(Connection { active: Some(active), .. }) if active.exchange().is_some() => self.abandon(number),
            Some(Connection { active: Some(active), .. }) if active.http2.is_some() => self.abandon_streams(number),
            _ => {}
        }
        if self.table.get(number).is_some_and(|connection| connection.is_tls) {
            self.drop_session(number);
        }
        if let Some(serial) = self.table.get(number).and_then(Connection::pending_fetch) {
            self.fetcher.cancel(serial);
        }
        let Some((fd, peer)) = self.table.remove(number) else { return };
        self.admission.leave(peer);
        self.transport.close(number, fd);
    }
}
