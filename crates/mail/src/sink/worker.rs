//! The event loop of a sink: one thread that accepts, receives, calls the protocol, and sends.
//!
//! One thread is enough, and makes runs repeatable: connection limits and greylists need no locks. Input that is
//! answered at once costs one receive and one send, and the connection keeps no buffer.

use super::connection::{Connection, Next, State, Table};
use super::counters::Connections;
use super::encryption;
use super::listener::Listener;
use super::protocol::{Origin, Protocol, Step, Then};
use landau_reactor::{Interest, Reactor, Ready, Token};
use landau_sys::stream;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The tokens of listeners begin here; smaller ones are numbers of connections.
const LISTENERS: u32 = 1 << 31;

/// Maximum number of connections accepted from a listener before other events are handled.
const ACCEPT_BATCH: usize = 64;

/// How long accepting pauses when no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of bytes per receive. All connections share one buffer.
const SCRATCH_BYTES: usize = 64 << 10;

/// Maximum number of plain bytes in a TLS record.
const RECORD_BYTES: usize = 16 << 10;

/// The size of replies in bytes from which they are sent before further input is answered.
const OUT_BYTES: usize = 256 << 10;

/// How long the client may continue to send after the end of a connection. An immediate close would send a reset, which
/// can destroy the last reply in transit.
const LINGER: Duration = Duration::from_secs(2);

/// The event loop.
#[derive(Debug)]
pub(crate) struct Worker<P: Protocol> {
    pub(super) protocol: P,
    reactor: Reactor,
    listeners: Vec<Listener>,
    pub(super) table: Table<P::Session>,
    pub(super) scratch: Box<[u8]>,
    /// Received bytes after decryption.
    pub(super) plain: Box<[u8]>,
    out: Vec<u8>,
    pub(super) counters: Arc<Connections>,
    must_end: Arc<AtomicBool>,
    accepted: u64,
    /// The connections waiting for the protocol's commit.
    committing: Vec<u32>,
}

/// The result of the steps taken on some input.
#[derive(Debug)]
struct Answered {
    /// The number of input bytes consumed.
    used: usize,
    /// The offset of the last step's output.
    late_from: usize,
    last: Step,
}

/// Takes steps until one must wait (for a time, for more input, for the end) or the output is large.
#[inline]
fn answer<P: Protocol>(
    protocol: &mut P,
    session: &mut P::Session,
    input: &[u8],
    now_ms: u32,
    out: &mut Vec<u8>,
) -> Answered {
    let mut used = 0;
    loop {
        let late_from = out.len();
        let last = protocol.step(session, &input[used..], now_ms, out);
        used += last.consumed;
        if last.then != Then::Continue || !last.delay.is_zero() || out.len() >= OUT_BYTES {
            return Answered { used, late_from, last };
        }
    }
}

impl<P: Protocol> Worker<P> {
    pub(crate) fn new(
        protocol: P,
        mut reactor: Reactor,
        listeners: Vec<Listener>,
        counters: Arc<Connections>,
        must_end: Arc<AtomicBool>,
    ) -> Result<Self, landau_reactor::Error> {
        for (index, listener) in listeners.iter().enumerate() {
            reactor.register(&listener.fd, Token(LISTENERS + index as u32), Interest::READABLE)?;
        }
        Ok(Self {
            protocol,
            reactor,
            listeners,
            table: Table::new(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            plain: vec![0; RECORD_BYTES].into_boxed_slice(),
            out: Vec::new(),
            counters,
            must_end,
            accepted: 0,
            committing: Vec::new(),
        })
    }

    /// Runs until the sink is told to end.
    pub(crate) fn run(&mut self) {
        while !self.must_end.load(Ordering::Acquire) {
            // An error usually concerns the interest of one descriptor; the next wait applies the changes of the
            // others.
            if self.reactor.wait(self.protocol.commit_within()).is_err() {
                continue;
            }
            while let Some(event) = self.reactor.next_event() {
                match event.token.0 {
                    number @ ..LISTENERS => self.handle(number, event.ready),
                    token => self.accept((token - LISTENERS) as usize, event.ready),
                }
            }
            self.commit();
        }
    }

    /// Commits the results of the batch of events, and resumes the connections waiting for it. Their next steps may
    /// need another commit.
    #[inline]
    fn commit(&mut self) {
        self.protocol.commit();
        while !self.committing.is_empty() {
            let waiting = std::mem::take(&mut self.committing);
            for &number in &waiting {
                if let Some(connection) = self.table.get(number)
                    && connection.state == State::Committing
                {
                    connection.then = Then::Continue;
                    self.resume(number);
                }
            }
            self.protocol.commit();
        }
    }

    /// Accepts a batch of connections.
    fn accept(&mut self, listener: usize, ready: Ready) {
        if ready.is_deadline() {
            let _ = self.reactor.set_interest(&self.listeners[listener].fd, Interest::READABLE);
        }
        for _ in 0..ACCEPT_BATCH {
            let Listener { fd, listen } = &self.listeners[listener];
            match stream::accept_from(fd) {
                Ok((socket, peer)) => {
                    let stream = TcpStream::from(socket);
                    let local = stream.local_addr().map(|local| local.ip().to_canonical());
                    let local = local.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                    let is_served = listen.serves(local);
                    let peer = peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip());
                    self.admit(stream.into(), peer, local, is_served);
                }
                Err(error) if error.is_would_block() => {
                    return self.reactor.clear_readiness(fd, Interest::READABLE);
                }
                // This error concerns one connection; others may be waiting.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => {
                    // No descriptor is left: connections wait in the accept queue until one is free.
                    self.counters.descriptors_short.add(1);
                    let _ = self.reactor.set_interest(fd, Interest::NONE);
                    return self.reactor.set_deadline(fd, ACCEPT_PAUSE);
                }
            }
        }
    }

    /// Begins a session.
    fn admit(&mut self, fd: OwnedFd, peer: IpAddr, local: IpAddr, is_served: bool) {
        self.counters.connections.add(1);
        let origin = Origin { number: self.accepted, peer, local };
        self.accepted += 1;
        if !is_served {
            self.counters.refused_elsewhere.add(1);
            self.counters.closed.add(1);
            let _ = stream::set_reset_on_close(&fd);
            return;
        }
        self.out.clear();
        let opened = self.protocol.open(&origin, self.reactor.now_ms(), &mut self.out);
        let number = self.table.insert(Connection::new(fd, opened.session, opened.plan));
        let Some(connection) = self.table.get(number) else { return };
        if self.reactor.register_nonblocking(&connection.fd, Token(number), Interest::READABLE).is_err() {
            let removed = self.table.remove(number);
            self.counters.closed.add(1);
            if let Some(mut connection) = removed {
                self.protocol.close(&mut connection.session);
            }
            return;
        }
        if connection.plan.is_silent {
            self.counters.silent.add(1);
            connection.state = State::Draining;
        } else if opened.plan.reset_after == Some(0) {
            self.reset(number);
        } else {
            let all = Answered { used: 0, late_from: 0, last: opened.step };
            self.deliver(number, &all);
        }
    }

    #[inline]
    fn handle(&mut self, number: u32, ready: Ready) {
        let Some(connection) = self.table.get(number) else { return };
        match connection.state {
            State::Receiving if ready.is_readable() => self.receive(number),
            State::Draining if ready.is_readable() => self.drain(number),
            State::Sending if ready.is_writable() => self.resume(number),
            State::Pausing if ready.is_deadline() => self.resume(number),
            State::Receiving if ready.is_deadline() => self.expire(number),
            State::Draining | State::Sending if ready.is_deadline() => self.close(number),
            // Level-triggered backends report this in each wait, regardless of the interest.
            State::Pausing | State::Sending if ready.is_write_closed() => self.close(number),
            _ => {}
        }
    }

    /// Receives the bytes that have arrived, and answers them.
    #[inline]
    fn receive(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        let count = match stream::receive(&connection.fd, &mut self.scratch) {
            Ok(count @ 1..) => count,
            Err(error) if error.is_would_block() => {
                return self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
            }
            _ => return self.close(number),
        };
        if count < self.scratch.len() {
            self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
        }
        self.counters.bytes_received.add(count as u64);
        connection.received += count as u64;
        let received = connection.received;
        let is_due = |after: Option<u64>| after.is_some_and(|after| received >= after);
        if is_due(connection.plan.reset_after) {
            return self.reset(number);
        }
        if is_due(connection.plan.half_close_after) {
            self.counters.half_closes.add(1);
            return self.end_sending(number);
        }
        if connection.tls.is_some() {
            return self.receive_encrypted(number, count);
        }
        self.out.clear();
        if !connection.input.is_empty() {
            connection.input.extend_from_slice(&self.scratch[..count]);
            connection.then = Then::Continue;
            return self.resume(number);
        }
        let now_ms = self.reactor.now_ms();
        let input = &self.scratch[..count];
        let answered = answer(&mut self.protocol, &mut connection.session, input, now_ms, &mut self.out);
        connection.input.extend_from_slice(&input[answered.used..]);
        self.deliver(number, &answered);
    }

    /// Sends the output of some steps; on the hot path at once and without a copy.
    #[inline]
    fn deliver(&mut self, number: u32, answered: &Answered) {
        let Some(connection) = self.table.get(number) else { return };
        let mut sent = 0;
        let is_direct = connection.plan.pieces.is_none() && connection.tls.is_none();
        if answered.last.delay.is_zero() && is_direct && !self.out.is_empty() {
            match stream::send(&connection.fd, &self.out, false) {
                Ok(count) => sent = count,
                Err(error) if error.is_would_block() => {}
                Err(_) => return self.close(number),
            }
            self.counters.bytes_sent.add(sent as u64);
        }
        if sent == self.out.len() && answered.last.delay.is_zero() && answered.last.then == Then::Receive {
            connection.state = State::Receiving;
            return self.reactor.set_deadline(&connection.fd, self.protocol.idle_timeout(&connection.session));
        }
        connection.output.keep(&self.out[sent..], answered.late_from.saturating_sub(sent), &answered.last);
        connection.then = answered.last.then;
        self.resume(number);
    }

    /// Sends the buffered output and answers the buffered input, until the connection must wait.
    pub(super) fn resume(&mut self, number: u32) {
        while self.flush(number) {
            let now_ms = self.reactor.now_ms();
            let Some(connection) = self.table.get(number) else { return };
            self.out.clear();
            let answered =
                answer(&mut self.protocol, &mut connection.session, &connection.input, now_ms, &mut self.out);
            connection.input.drain(..answered.used);
            connection.output.keep(&self.out, answered.late_from, &answered.last);
            connection.then = answered.last.then;
        }
    }

    /// Sends the buffered output, as far as pauses and the send buffer allow. Returns whether everything was sent and
    /// the buffered input must be answered next.
    fn flush(&mut self, number: u32) -> bool {
        let Some(connection) = self.table.get(number) else { return false };
        loop {
            match connection.output.next(connection.plan.pieces) {
                Next::Send(bytes) => match encryption::send(&connection.fd, connection.tls.as_deref_mut(), bytes) {
                    Ok(count) => {
                        self.counters.bytes_sent.add(count as u64);
                        connection.output.advance(count);
                        if let Some(pieces) = connection.plan.pieces.filter(|_| connection.output.has_more()) {
                            self.wait(number, State::Pausing, Interest::NONE, pieces.every);
                            return false;
                        }
                    }
                    Err(error) if error.is_would_block() => {
                        self.reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
                        let limit = self.protocol.idle_timeout(&connection.session);
                        self.wait(number, State::Sending, Interest::WRITABLE, limit);
                        return false;
                    }
                    Err(_) => {
                        self.close(number);
                        return false;
                    }
                },
                Next::Pause(time) => {
                    self.wait(number, State::Pausing, Interest::NONE, time);
                    return false;
                }
                Next::Done => break,
            }
        }
        let limit = self.protocol.idle_timeout(&connection.session);
        match connection.tls.as_deref_mut().map_or(Ok(()), |tls| encryption::flush(&connection.fd, tls)) {
            Ok(()) => {}
            Err(error) if error.is_would_block() => {
                self.reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
                self.wait(number, State::Sending, Interest::WRITABLE, limit);
                return false;
            }
            Err(_) => {
                self.close(number);
                return false;
            }
        }
        match connection.then {
            Then::Close if connection.input.is_empty() => self.close(number),
            Then::Close | Then::HangUp => self.end_sending(number),
            Then::Receive => self.wait(number, State::Receiving, Interest::READABLE, limit),
            Then::Commit => {
                // The commit comes before the next wait, so the interest need not change.
                connection.state = State::Committing;
                self.committing.push(number);
            }
            Then::Secure => self.secure(number),
            Then::Continue => return true,
        }
        false
    }

    /// Waits for readiness or a timeout.
    pub(super) fn wait(&mut self, number: u32, state: State, interest: Interest, limit: Duration) {
        let Some(connection) = self.table.get(number) else { return };
        connection.state = state;
        self.reactor.set_deadline(&connection.fd, limit);
        if self.reactor.set_interest(&connection.fd, interest).is_err() {
            self.close(number);
        }
    }

    /// Shuts down the writing half, and discards further input from the client.
    fn end_sending(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        if let Some(tls) = &mut connection.tls {
            encryption::end(&connection.fd, tls);
        }
        if stream::shutdown_write(&connection.fd).is_err() {
            return self.close(number);
        }
        let is_over = matches!(connection.then, Then::Close | Then::HangUp);
        let limit = if is_over { LINGER } else { self.protocol.idle_timeout(&connection.session) };
        connection.input = Vec::new();
        self.wait(number, State::Draining, Interest::READABLE, limit);
    }

    /// Discards input from the client.
    fn drain(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        match stream::receive(&connection.fd, &mut self.scratch) {
            Ok(count @ 1..) => self.counters.bytes_received.add(count as u64),
            Err(error) if error.is_would_block() => {
                self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
            }
            _ => self.close(number),
        }
    }

    /// Ends a connection after its idle timeout.
    fn expire(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        self.counters.idle_closed.add(1);
        self.out.clear();
        self.protocol.expire(&mut connection.session, &mut self.out);
        let last = Step { consumed: 0, delay: Duration::ZERO, then: Then::HangUp };
        self.deliver(number, &Answered { used: 0, late_from: 0, last });
    }

    fn reset(&mut self, number: u32) {
        let Some(connection) = self.table.get(number) else { return };
        self.counters.resets.add(1);
        let _ = stream::set_reset_on_close(&connection.fd);
        self.close(number);
    }

    pub(super) fn close(&mut self, number: u32) {
        let Some(mut connection) = self.table.remove(number) else { return };
        if let Some(tls) = &mut connection.tls {
            encryption::end(&connection.fd, tls);
        }
        self.protocol.close(&mut connection.session);
        self.counters.closed.add(1);
        // Every descriptor in the table is registered, and `Reactor::close` closes it even after an error.
        let _ = self.reactor.close(connection.fd);
    }
}
