//! Connections and what happens to them: the part that every kind of load shares.
//!
//! One wait for a batch of events; for each, one `recv` and, if the load says so, one `send`; the clock is read once
//! for each batch of bytes that arrives. Nothing is armed, allocated or parsed anew for a request that goes as the last
//! one did.

use crate::answer::Answer;
use crate::connection::{Connection, Flight, State};
use crate::plan::{Load, Plan};
use crate::server::Server;
use crate::tally::{Failure, Tally};
use crate::tls::{Received, Secrets, Session};
use landau_reactor::{Event, Interest, Reactor, Token};
use landau_sys::clock::monotonic_ns;
use landau_sys::stream;
use std::os::fd::AsFd;
use std::time::Duration;

/// Bytes that are received at once.
const SCRATCH_BYTES: usize = 128 << 10;

/// How long the server may take to close a connection that has given its last answer.
const CLOSING_NS: u64 = 1_000_000_000;

/// For so long a server that refuses connections may be about to start.
const NOBODY_NS: u64 = 1_000_000_000;

/// The channel to the controller.
pub(crate) const CONTROL: Token = Token(u32::MAX - 1);
/// The alarm of a schedule.
pub(crate) const ALARM: Token = Token(u32::MAX - 2);

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happening {
    /// Nothing that the load must know.
    Nothing,
    /// It is established and takes requests.
    Open(u32),
    /// It was answered and takes another request.
    Room(u32),
    /// It takes no more: replaced as agreed, closed by the server, or failed.
    Gone {
        /// Which.
        id: u32,
        /// Whether it never came to be.
        is_unmade: bool,
    },
    /// The controller has spoken.
    Control,
    /// The alarm rings.
    Alarm,
}

/// Moments of the answer that came last, for loads that look at each.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moments {
    pub(crate) handshake_ns: u64,
    pub(crate) first_byte_ns: u64,
    pub(crate) last_byte_ns: u64,
    pub(crate) status: u16,
}

type Trouble = (Failure, String);

/// Connections and what happens to them.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) reactor: Reactor,
    servers: Vec<Server>,
    secrets: Vec<Option<Secrets>>,
    next_server: usize,
    slots: Vec<Option<Connection>>,
    free: Vec<u32>,
    scratch: Vec<u8>,
    batch: Vec<u8>,
    statuses: Vec<u64>,
    pub(crate) tally: Tally,
    pub(crate) last: Moments,
    /// The clock, as it was read last.
    pub(crate) now_ns: u64,
    /// Requests that were due before are not measured.
    measure_from_ns: u64,
    is_open_loop: bool,
    pipeline: usize,
    per_connection: u64,
    timeout_ns: u64,
    /// When to look for what has waited for too long.
    next_scan_ns: u64,
    /// Connections that take requests, and such that are under way.
    pub(crate) open: u32,
    pub(crate) opening: u32,
    /// Requests that were sent and neither answered nor lost.
    pub(crate) under_way: u64,
    /// When the last answer was whole.
    pub(crate) last_answer_ns: u64,
}

impl Engine {
    pub(crate) fn new(plan: &Plan) -> Result<Self, crate::Error> {
        let mut servers = Vec::new();
        let mut secrets = Vec::new();
        for (number, origin) in plan.origins.iter().enumerate() {
            let mut server = Server::new(number, origin, &plan.sources)?;
            server.start_at(plan.share);
            servers.push(server);
            secrets.push(origin.tls.as_ref().map(Secrets::new).transpose().map_err(crate::Error::Plan)?);
        }
        Ok(Self {
            reactor: Reactor::new(plan.mechanism.parse()?)?,
            servers,
            secrets,
            next_server: 0,
            slots: Vec::new(),
            free: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            batch: Vec::new(),
            statuses: vec![0; 1000],
            tally: Tally::default(),
            last: Moments::default(),
            now_ns: monotonic_ns(),
            measure_from_ns: 0,
            is_open_loop: matches!(plan.load, Load::Open { .. }),
            pipeline: plan.pipeline.max(1) as usize,
            per_connection: plan.per_connection.unwrap_or(u64::MAX),
            timeout_ns: plan.timeout_ns,
            next_scan_ns: 0,
            open: 0,
            opening: 0,
            under_way: 0,
            last_answer_ns: 0,
        })
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn tick(&mut self) -> u64 {
        self.now_ns = monotonic_ns();
        self.now_ns
    }

    /// From now on it is measured: what was found of requests before is forgotten, what was found of connections kept.
    pub(crate) fn measure_from(&mut self, from_ns: u64) {
        self.measure_from_ns = from_ns;
        let old = std::mem::take(&mut self.tally);
        self.statuses.fill(0);
        self.tally.phases.handshake = old.phases.handshake;
        self.tally.phases.tls = old.phases.tls;
        self.tally.connections = old.connections;
        self.tally.lengths = old.lengths;
        self.tally.details = old.details;
        self.tally.failures = old.failures.into_iter().filter(|(failure, _)| failure.is_of_connecting()).collect();
    }

    /// What was found so far.
    pub(crate) fn take_tally(&mut self) -> Tally {
        let mut tally = std::mem::take(&mut self.tally);
        let seen = self.statuses.iter_mut().enumerate().filter(|(_, count)| **count > 0);
        tally.statuses = seen.map(|(status, count)| (status as u16, std::mem::take(count))).collect();
        tally
    }

    /// Waits for events.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<(), crate::Error> {
        Ok(self.reactor.wait(Some(limit))?)
    }

    /// Begins a connection to the next server.
    pub(crate) fn connect(&mut self) -> Happening {
        let number = self.next_server;
        self.next_server = (number + 1) % self.servers.len();
        let (fd, since_ns) = match self.servers[number].connect(monotonic_ns) {
            Ok(begun) => begun,
            Err(error) => {
                self.tick();
                self.tally.fail(of_connecting(error), || error.to_string());
                return Happening::Gone { id: u32::MAX, is_unmade: true };
            }
        };
        self.now_ns = since_ns;
        let id = self.free.pop().unwrap_or(self.slots.len() as u32);
        if let Err(error) = self.reactor.register_nonblocking(&fd, Token(id), Interest::WRITABLE) {
            self.tally.fail(Failure::Connect, || error.to_string());
            self.free.push(id);
            return Happening::Gone { id: u32::MAX, is_unmade: true };
        }
        if id as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[id as usize] = Some(Connection::new(fd, number as u32, since_ns));
        self.opening += 1;
        Happening::Nothing
    }

    /// Sends as many requests as the connection has room for, at most so many. Whether it still stands.
    #[inline]
    pub(crate) fn request(&mut self, id: u32, due_ns: u64, at_most: u64) -> Result<u64, Happening> {
        let Self { slots, servers, batch, tally, .. } = self;
        let Some(connection) = slots[id as usize].as_mut() else { return Ok(0) };
        let server = &mut servers[connection.server as usize];
        let room = self.pipeline.saturating_sub(connection.flights.len()) as u64;
        let count = room.min(at_most).min(self.per_connection - connection.sent);
        let now_ns = self.now_ns;
        let mut only: Option<(usize, bool)> = None;
        batch.clear();
        for number in 0..count {
            let request = server.next_request();
            connection.is_last |= connection.sent + 1 == self.per_connection;
            let is_first = connection.sent == 0;
            let flight = Flight { request: request as u32, is_first, due_ns, sent_ns: now_ns, first_byte_ns: 0 };
            connection.flights.push_back(flight);
            connection.sent += 1;
            if number == 0 && count == 1 {
                only = Some((request, connection.is_last));
            } else {
                let one = &server.requests[request];
                batch.extend_from_slice(if connection.is_last { &one.last_bytes } else { &one.bytes });
            }
        }
        if due_ns >= self.measure_from_ns {
            tally.requests += count;
        }
        self.under_way += count;
        let bytes: &[u8] = match only {
            Some((request, true)) => &server.requests[request].last_bytes,
            Some((request, false)) => &server.requests[request].bytes,
            None => batch,
        };
        match send(connection, bytes) {
            Ok(is_all) => {
                if !is_all {
                    self.reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
                    let _ = self.reactor.set_interest(&connection.fd, Interest::BOTH);
                }
                Ok(count)
            }
            Err(trouble) => Err(self.lose(id, trouble)),
        }
    }

    /// What an event means.
    #[inline]
    pub(crate) fn handle(&mut self, event: Event) -> Happening {
        if event.token == CONTROL {
            return Happening::Control;
        }
        if event.token == ALARM {
            return Happening::Alarm;
        }
        let id = event.token.0;
        let Some(connection) = self.slots.get_mut(id as usize).and_then(Option::as_mut) else {
            return Happening::Nothing;
        };
        match connection.state {
            State::Open if event.ready.is_writable() && !event.ready.is_readable() => self.go_on_sending(id),
            State::Open => self.receive(id, event.ready.is_read_closed()),
            State::Connecting => self.connected(id),
            State::Securing => self.secure(id),
            State::Closing => self.await_end(id),
        }
    }

    /// The kernel's handshake has ended, well or not.
    fn connected(&mut self, id: u32) -> Happening {
        let now_ns = self.tick();
        let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
        if let Err(error) = stream::take_error(&connection.fd) {
            return self.lose(id, (of_connecting(error), error.to_string()));
        }
        self.last.handshake_ns = now_ns - connection.since_ns;
        self.tally.phases.handshake.record(self.last.handshake_ns);
        let Some(secrets) = &self.secrets[connection.server as usize] else { return self.opened(id) };
        match Session::new(secrets) {
            Ok(session) => connection.secure = Some(Box::new(session)),
            Err(trouble) => return self.lose(id, trouble),
        }
        connection.state = State::Securing;
        connection.since_ns = now_ns;
        self.secure(id)
    }

    /// Goes on with the secure handshake.
    fn secure(&mut self, id: u32) -> Happening {
        let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
        let Some(session) = &mut connection.secure else { return Happening::Nothing };
        let done = session.flush(&connection.fd).and_then(|()| session.receive(&connection.fd, &mut self.scratch));
        match done {
            Err((_, reason)) => return self.lose(id, (Failure::Tls, reason)),
            Ok(Received::End) => return self.lose(id, (Failure::Tls, "closed in the handshake".to_owned())),
            Ok(Received::Bytes(count)) => {
                let said = unasked(&self.scratch[..count]);
                return self.lose(id, (Failure::Unasked, said));
            }
            Ok(Received::Nothing) => self.reactor.clear_readiness(&connection.fd, Interest::READABLE),
        }
        let (is_done, wants_write) = (!session.is_handshaking(), session.wants_write());
        let interest = if wants_write { Interest::BOTH } else { Interest::READABLE };
        let _ = self.reactor.set_interest(&connection.fd, interest);
        if !is_done {
            return Happening::Nothing;
        }
        let since_ns = connection.since_ns;
        let spent_ns = self.tick() - since_ns;
        self.tally.phases.tls.record(spent_ns);
        self.opened(id)
    }

    fn opened(&mut self, id: u32) -> Happening {
        let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
        connection.state = State::Open;
        let wants_write = connection.secure.as_ref().is_some_and(|session| session.wants_write());
        let _ =
            self.reactor.set_interest(&connection.fd, if wants_write { Interest::BOTH } else { Interest::READABLE });
        self.opening -= 1;
        self.open += 1;
        self.tally.connections += 1;
        Happening::Open(id)
    }

    /// Sends what the kernel did not take before.
    #[cold]
    fn go_on_sending(&mut self, id: u32) -> Happening {
        let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
        let unsent = std::mem::take(&mut connection.unsent);
        match send(connection, &unsent) {
            Ok(true) => {
                let _ = self.reactor.set_interest(&connection.fd, Interest::READABLE);
                Happening::Nothing
            }
            Ok(false) => {
                self.reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
                Happening::Nothing
            }
            Err(trouble) => self.lose(id, trouble),
        }
    }

    /// Receives what is there: until nothing is, if the peer is gone, and else until a call gives less than it could,
    /// which saves asking once more.
    #[inline]
    fn receive(&mut self, id: u32, is_closed: bool) -> Happening {
        let mut answered = 0;
        loop {
            let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
            let received = match &mut connection.secure {
                None => receive_plain(connection, &mut self.scratch),
                Some(session) => session.receive(&connection.fd, &mut self.scratch),
            };
            let count = match received {
                Ok(Received::Bytes(count)) => count,
                Ok(Received::Nothing) => {
                    self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
                    return self.after(id, answered);
                }
                Ok(Received::End) => return self.ended(id),
                Err(trouble) => return self.lose(id, trouble),
            };
            self.now_ns = monotonic_ns();
            match self.take(id, count) {
                Ok(count) => answered += count,
                Err(trouble) => return self.lose(id, trouble),
            }
            let Some(connection) = self.slots[id as usize].as_ref() else { return Happening::Nothing };
            if connection.secure.is_none() && count < self.scratch.len() && !is_closed {
                self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
                return self.after(id, answered);
            }
        }
    }

    /// Takes the bytes in the scratch buffer as answers; how many became whole.
    #[inline]
    fn take(&mut self, id: u32, count: usize) -> Result<u32, Trouble> {
        let Self { slots, servers, scratch, tally, statuses, last, now_ns, under_way, .. } = self;
        let Some(connection) = slots[id as usize].as_mut() else { return Ok(0) };
        let server = &mut servers[connection.server as usize];
        let mut rest = &scratch[..count];
        tally.bytes += count as u64;
        let mut answered = 0;
        while !rest.is_empty() {
            let Some(flight) = connection.flights.front_mut() else {
                return Err((Failure::Unasked, unasked(rest)));
            };
            if flight.first_byte_ns == 0 {
                flight.first_byte_ns = *now_ns;
            }
            let method = server.requests[flight.request as usize].method;
            let Some(answer) = connection.reading.take(&mut rest, method, &mut server.memo)? else { break };
            let flight = *flight;
            connection.flights.pop_front();
            answered += 1;
            *under_way -= 1;
            self.last_answer_ns = *now_ns;
            connection.is_last |= !answer.is_reusable;
            *last = moments(*last, &flight, answer, *now_ns);
            if flight.due_ns >= self.measure_from_ns {
                server.check_length(flight.request as usize, answer, tally);
                enter(tally, statuses, &flight, *last, self.is_open_loop.then(|| *now_ns - flight.due_ns));
            }
            if !answer.is_reusable {
                break;
            }
        }
        Ok(answered)
    }

    /// After bytes were taken: whether the connection takes another request.
    #[inline]
    fn after(&mut self, id: u32, answered: u32) -> Happening {
        let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
        if !connection.is_last {
            return if answered > 0 { Happening::Room(id) } else { Happening::Nothing };
        }
        if answered == 0 || (!connection.flights.is_empty() && connection.sent == self.per_connection) {
            return Happening::Nothing;
        }
        // What was sent after the last answer is lost with the connection.
        let lost = connection.flights.len();
        connection.flights.clear();
        self.under_way -= lost as u64;
        connection.state = State::Closing;
        connection.since_ns = self.now_ns;
        self.open -= 1;
        for _ in 0..lost {
            self.tally.fail(Failure::ClosedBeforeAnswer, || "the server ended the connection early".to_owned());
        }
        Happening::Gone { id, is_unmade: false }
    }

    /// The server has closed the connection.
    fn ended(&mut self, id: u32) -> Happening {
        let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
        let Some(flight) = connection.flights.front().copied() else {
            self.tally.closed_idle += u64::from(!connection.is_last);
            return self.discard(id, false);
        };
        let Some(answer) = connection.reading.end() else {
            let failure = if flight.first_byte_ns == 0 { Failure::ClosedBeforeAnswer } else { Failure::ClosedInAnswer };
            return self.lose(id, (failure, "the server closed the connection".to_owned()));
        };
        connection.flights.pop_front();
        self.under_way -= 1;
        self.now_ns = monotonic_ns();
        self.last_answer_ns = self.now_ns;
        self.last = moments(self.last, &flight, answer, self.now_ns);
        if flight.due_ns >= self.measure_from_ns {
            let server = &mut self.servers[connection.server as usize];
            server.check_length(flight.request as usize, answer, &mut self.tally);
            let intended_ns = self.is_open_loop.then(|| self.now_ns - flight.due_ns);
            enter(&mut self.tally, &mut self.statuses, &flight, self.last, intended_ns);
        }
        if connection.flights.is_empty() {
            return self.discard(id, false);
        }
        self.lose(id, (Failure::ClosedBeforeAnswer, "the server closed the connection".to_owned()))
    }

    /// A connection that has given its last answer has something to say: its end, as it should be.
    fn await_end(&mut self, id: u32) -> Happening {
        let Some(connection) = self.slots[id as usize].as_mut() else { return Happening::Nothing };
        loop {
            match stream::receive(&connection.fd, &mut self.scratch) {
                // What it says after its last answer is of no interest.
                Ok(1..) => {}
                Err(error) if error.is_would_block() => {
                    self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
                    return Happening::Nothing;
                }
                Ok(0) | Err(_) => {
                    self.discard(id, false);
                    return Happening::Nothing;
                }
            }
        }
    }

    /// Gives a connection up and counts what it owed, or that it never came to be.
    #[cold]
    fn lose(&mut self, id: u32, (failure, detail): Trouble) -> Happening {
        let Some(connection) = self.slots[id as usize].as_ref() else { return Happening::Nothing };
        let measured = connection.flights.iter().filter(|flight| flight.due_ns >= self.measure_from_ns).count();
        let owed = if connection.flights.is_empty() { 1 } else { measured };
        for number in 0..owed {
            // Only the first of several in a pipeline met the failure itself.
            let of_rest = number > 0 && failure != Failure::Timeout;
            let failure = if of_rest { Failure::ClosedBeforeAnswer } else { failure };
            self.tally.fail(failure, || detail.clone());
        }
        self.discard(id, true)
    }

    /// Closes a connection; with a reset, so that it leaves nothing behind, where it was not the server that closed.
    pub(crate) fn discard(&mut self, id: u32, with_reset: bool) -> Happening {
        let Some(connection) = self.slots[id as usize].take() else { return Happening::Nothing };
        if with_reset {
            // Unix sockets have no such option and need none.
            let _ = stream::set_reset_on_close(&connection.fd);
        }
        let is_unmade = matches!(connection.state, State::Connecting | State::Securing);
        match connection.state {
            State::Connecting | State::Securing => self.opening -= 1,
            State::Open => self.open -= 1,
            State::Closing => {}
        }
        self.under_way -= connection.flights.len() as u64;
        // A descriptor that cannot be closed is gone all the same.
        let _ = self.reactor.close(connection.fd);
        self.free.push(id);
        Happening::Gone { id, is_unmade }
    }

    /// Gives up what has waited for too long, as often as looking for it is worth its while.
    #[inline]
    pub(crate) fn give_up(&mut self, now_ns: u64) -> Vec<Happening> {
        if now_ns < self.next_scan_ns {
            return Vec::new();
        }
        self.next_scan_ns = now_ns + (self.timeout_ns / 10).clamp(20_000_000, 500_000_000);
        self.scan()
    }

    fn scan(&mut self) -> Vec<Happening> {
        let now_ns = self.tick();
        let mut found = Vec::new();
        for id in 0..self.slots.len() as u32 {
            let Some(connection) = &self.slots[id as usize] else { continue };
            let Some(since_ns) = connection.waiting_since_ns() else { continue };
            let waited_ns = now_ns.saturating_sub(since_ns);
            let limit_ns = if connection.state == State::Closing { CLOSING_NS } else { self.timeout_ns };
            if waited_ns <= limit_ns {
                continue;
            }
            let say = |what: &str| format!("{what} after {:.1} s", waited_ns as f64 / 1e9);
            match connection.state {
                State::Connecting => found.push(self.lose(id, (Failure::ConnectTimeout, say("no handshake")))),
                State::Securing => found.push(self.lose(id, (Failure::Tls, say("no secure handshake")))),
                State::Open => found.push(self.lose(id, (Failure::Timeout, say("no answer")))),
                State::Closing => {
                    self.discard(id, true);
                }
            }
        }
        found
    }

    /// Counts as unanswered what is under way.
    pub(crate) fn fail_under_way(&mut self) {
        for id in 0..self.slots.len() as u32 {
            if self.slots[id as usize].as_ref().is_some_and(|one| !one.flights.is_empty()) {
                self.lose(id, (Failure::Timeout, "no answer until the end".to_owned()));
            }
        }
    }

    /// Whether nobody is there: for so long no connection could be made, and each attempt was refused.
    pub(crate) fn finds_nobody(&self, since_ns: u64) -> bool {
        let is_refusal = |failure: &Failure| matches!(failure, Failure::ConnectRefused | Failure::Connect);
        let failures = &self.tally.failures;
        self.now_ns.saturating_sub(since_ns) >= NOBODY_NS
            && self.tally.connections == 0
            && self.opening == 0
            && !failures.is_empty()
            && failures.keys().all(is_refusal)
    }

    /// Every connection that takes requests.
    pub(crate) fn open_ids(&self) -> Vec<u32> {
        let is_open = |slot: &Option<Connection>| slot.as_ref().is_some_and(|one| one.state == State::Open);
        (0..self.slots.len() as u32).filter(|&id| is_open(&self.slots[id as usize])).collect()
    }

    /// Closes everything, by resets: nothing is left behind in `TIME_WAIT`.
    pub(crate) fn close_all(&mut self) {
        for id in 0..self.slots.len() as u32 {
            self.discard(id, true);
        }
    }

    /// Watches something else than a connection.
    pub(crate) fn watch(&mut self, fd: &impl AsFd, token: Token) -> Result<(), crate::Error> {
        Ok(self.reactor.register_nonblocking(fd, token, Interest::READABLE)?)
    }
}

/// Enters an answer.
#[inline]
fn enter(tally: &mut Tally, statuses: &mut [u64], flight: &Flight, last: Moments, intended_ns: Option<u64>) {
    tally.answers += 1;
    statuses[usize::from(last.status)] += 1;
    let first = if flight.is_first { &mut tally.phases.first_byte_fresh } else { &mut tally.phases.first_byte };
    first.record(last.first_byte_ns);
    tally.phases.service.record(last.last_byte_ns);
    if let Some(ns) = intended_ns {
        tally.phases.intended.record(ns);
    }
}

#[inline]
fn moments(before: Moments, flight: &Flight, answer: Answer, now_ns: u64) -> Moments {
    Moments {
        first_byte_ns: flight.first_byte_ns.max(flight.sent_ns) - flight.sent_ns,
        last_byte_ns: now_ns - flight.sent_ns,
        status: answer.status.min(999),
        ..before
    }
}

/// Sends what the kernel takes and keeps the rest; whether it took all.
#[inline]
fn send(connection: &mut Connection, bytes: &[u8]) -> Result<bool, Trouble> {
    if let Some(session) = &mut connection.secure {
        session.send(&connection.fd, bytes)?;
        return Ok(!session.wants_write());
    }
    if !connection.unsent.is_empty() {
        connection.unsent.extend_from_slice(bytes);
        return Ok(false);
    }
    match stream::send(&connection.fd, bytes, false) {
        Ok(count) if count == bytes.len() => Ok(true),
        Ok(count) => {
            connection.unsent.extend_from_slice(&bytes[count..]);
            Ok(false)
        }
        Err(error) if error.is_would_block() => {
            connection.unsent.extend_from_slice(bytes);
            Ok(false)
        }
        Err(error) => Err((of_transfer(error), error.to_string())),
    }
}

#[inline]
fn receive_plain(connection: &Connection, scratch: &mut [u8]) -> Result<Received, Trouble> {
    match stream::receive(&connection.fd, scratch) {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if error.is_would_block() => Ok(Received::Nothing),
        Err(error) => Err((of_transfer(error), error.to_string())),
    }
}

/// What came before anything was asked, as far as its first line: a server that is full says so at once.
#[cold]
fn unasked(bytes: &[u8]) -> String {
    const MOST: usize = 80;
    let line = bytes.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
    let begin = line[..line.len().min(MOST)].escape_ascii();
    format!("{} bytes that no request had asked for: {begin}", bytes.len())
}

#[cold]
fn of_transfer(error: landau_sys::Error) -> Failure {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    if matches!(error.kind(), ConnectionReset | BrokenPipe) { Failure::Reset } else { Failure::Transfer }
}

#[cold]
fn of_connecting(error: landau_sys::Error) -> Failure {
    use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, ConnectionRefused, TimedOut};
    match error.kind() {
        ConnectionRefused => Failure::ConnectRefused,
        TimedOut => Failure::ConnectTimeout,
        // A port that is taken is another answer; and a connection that finds none gets this one from `connect`.
        AddrNotAvailable if error.call == "bind" => Failure::ConnectNoAddress,
        AddrInUse | AddrNotAvailable => Failure::ConnectNoPort,
        _ if error.is_out_of_descriptors() => Failure::ConnectNoDescriptor,
        _ => Failure::Connect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_sys::socket::{Family, bind};

    /// Both were "no port left", tried again until time was up.
    #[test]
    fn an_address_that_is_not_ours_is_no_lack_of_ports() {
        let socket = stream::stream(Family::V4).unwrap();
        // Of a network for documents, which no machine has.
        let stranger = std::net::SocketAddr::from(([192, 0, 2, 1], 0)).into();
        let error = bind(&socket, &stranger).unwrap_err();
        assert_eq!(of_connecting(error), Failure::ConnectNoAddress);
        assert_eq!(of_connecting(landau_sys::Error { call: "connect", ..error }), Failure::ConnectNoPort);
    }
}
