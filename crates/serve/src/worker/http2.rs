//! HTTP/2 connections: they receive and send at the same time, over the same transport and the same TLS.
//!
//! Received bytes are handled until a buffer of responses is full or nothing is left. The buffer is then sent in one
//! call, and the cycle repeats. Bytes that the socket does not accept are kept, and nothing more is read until they
//! have been sent.

use super::Worker;
use crate::config::SLOWEST_BYTES;
use crate::connection::State;
use crate::http2::{Begun, Desk, Session, TURN_BYTES, Timer};
use crate::transport::Transport;
use landau_reactor::{Interest, Ready};
use landau_sys::stream;
use landau_wire::http::{Reject, Status};
use landau_wire::http2::{Code, frame};
use std::time::Duration;

/// The reason why a connection pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    /// There is nothing to do until the client sends something.
    Nothing,
    /// The socket's send buffer is full.
    Blocked,
    /// Other connections should have their turn.
    Turn,
}

impl<T: Transport> Worker<T> {
    pub(super) fn desk(&mut self, number: u32) -> Desk<'_> {
        Desk {
            site: &mut self.site,
            limits: &self.config.limits,
            fetcher: &mut self.fetcher,
            counters: self.counters,
            send_buffers: &mut self.send_buffers,
            buffers: &mut self.http2,
            number,
            now_ms: self.transport.now_ms(),
        }
    }

    pub(super) fn take_session(&mut self, number: u32) -> Option<Box<Session>> {
        self.table.get(number)?.active.as_mut()?.http2.take()
    }

    /// Begins HTTP/2 on a connection; the server's preface is then in the output buffer.
    fn enter_http2(&mut self, number: u32) -> bool {
        let now_ms = self.transport.now_ms();
        if self.memory.is_short() {
            self.refuse_http2(number);
            return false;
        }
        let Some(connection) = self.table.get(number) else { return false };
        self.http2.out.clear();
        let session = Session::new(&self.config.limits, &self.memory, now_ms, &mut self.http2.out);
        (connection.state, connection.active) = (State::Http2, None);
        connection.active().http2 = Some(Box::new(session));
        self.counters.http2_connections().add(1);
        self.set_deadline(number, self.config.timeouts.head);
        true
    }

    /// Refuses HTTP/2 if there is no memory for its state. A reset would not tell the client the reason.
    #[cold]
    fn refuse_http2(&mut self, number: u32) {
        self.counters.memory_refused().add(1);
        let out = &mut self.http2.out;
        out.clear();
        frame::write_settings(&[], out);
        frame::write_go_away(0, Code::ENHANCE_YOUR_CALM, out);
        if let Some(session) = self.sessions.get(number) {
            session.encrypt(out);
        } else if let Some(fd) = self.table.fd(number) {
            // One attempt, as for the alert of TLS.
            let _ = stream::send(fd, out, false);
        }
        out.clear();
        self.end_session(number);
    }

    /// Begins HTTP/2 on a connection without TLS whose client has prior knowledge (RFC 9113 section 3.3). `bytes` are
    /// its first bytes. On a connection that began with HTTP/1.1, they are not a valid request.
    #[cold]
    pub(super) fn begin_http2(&mut self, number: u32, bytes: &[u8]) {
        let Some(connection) = self.table.get(number) else { return };
        if connection.is_tls || !connection.is_new() {
            let reason = "HTTP/2 on an HTTP/1.1 connection, or over TLS without ALPN";
            self.send_buffers.clear();
            self.site.reject(Reject { status: Status::BAD_REQUEST, reason }, &mut self.send_buffers);
            return self.deliver(number, crate::exchange::Remainder::end());
        }
        if self.enter_http2(number)
            && let Some(mut session) = self.take_session(number)
        {
            session.receive(&mut self.desk(number), bytes);
            self.advance_http2(number, session);
        }
    }

    /// Begins HTTP/2 on a connection whose client has negotiated it in the handshake.
    #[cold]
    pub(super) fn begin_encrypted_http2(&mut self, number: u32) {
        if self.enter_http2(number)
            && let Some(session) = self.sessions.get(number)
        {
            // If this fails, the next operation fails too.
            session.encrypt(&self.http2.out);
            self.http2.out.clear();
        }
    }

    /// Receives what has arrived, and continues to send.
    pub(super) fn continue_http2(&mut self, number: u32, ready: Ready) {
        let Some(mut session) = self.take_session(number) else { return self.close(number) };
        self.http2.out.clear();
        // Bytes that have arrived already come first. While the socket is full, nothing more is read.
        if !ready.is_readable() || session.has_whole_frame() || session.is_blocked {
            if !session.is_blocked {
                self.note_peer(number);
                session.go_on(&mut self.desk(number));
            }
            return self.advance_http2(number, session);
        }
        self.put_session(number, session);
        self.receive(number);
    }

    /// Handles the bytes in the scratch buffer.
    pub(super) fn receive_http2(&mut self, number: u32, count: usize) {
        let Some(mut session) = self.take_session(number) else { return };
        self.note_peer(number);
        self.http2.out.clear();
        let scratch = std::mem::take(&mut self.scratch);
        session.receive(&mut self.desk(number), &scratch[..count]);
        self.scratch = scratch;
        self.advance_http2(number, session);
    }

    /// Answers the request whose lookup by another thread is complete.
    #[cold]
    pub(super) fn found_for_http2(&mut self, number: u32, serial: u32) {
        let Some(mut session) = self.take_session(number) else { return };
        self.note_peer(number);
        self.http2.out.clear();
        session.answer_found(&mut self.desk(number), serial);
        self.advance_http2(number, session);
    }

    /// Continues the stream whose part of a file is now in memory.
    #[cold]
    pub(super) fn fetched_for_http2(&mut self, number: u32, serial: u32) {
        let Some(mut session) = self.take_session(number) else { return };
        self.http2.out.clear();
        if session.take_fetched(serial) {
            self.advance_http2(number, session);
        } else {
            self.put_session(number, session);
        }
    }

    /// Announces to all clients that the server is stopping, and closes the connections on which nothing is under way.
    #[cold]
    pub(super) fn drain_http2(&mut self) {
        for number in self.table.http2() {
            let has_all = self.table.fd(number).is_some_and(stream::is_all_acknowledged);
            let now_ms = self.transport.now_ms();
            if let Some(mut session) = self.take_session(number) {
                let is_idle = has_all && session.idle_since_ms(now_ms).is_some();
                self.http2.out.clear();
                self.advance_http2(number, session);
                let is_lingering = self.table.get(number).is_some_and(|entry| entry.state == State::Lingering);
                if is_idle && is_lingering {
                    // The client has nothing to lose except the end itself.
                    self.close(number);
                }
            }
        }
    }

    fn put_session(&mut self, number: u32, session: Box<Session>) {
        if let Some(connection) = self.table.get(number) {
            connection.active().http2 = Some(session);
        }
    }

    /// Sends the output, and then handles what else is possible. Repeats this until there is nothing to do, the socket
    /// is full, or other connections have their turn.
    pub(super) fn advance_http2(&mut self, number: u32, mut session: Box<Session>) {
        let mut turn = 0;
        let was_blocked = session.is_blocked;
        let pause = loop {
            self.serve_streams(number, &mut session);
            if session.unsent.is_empty() && !session.is_blocked {
                if self.site.closing {
                    session.go_away(&mut self.http2.out);
                }
                session.fill(&mut self.desk(number));
                self.serve_streams(number, &mut session);
                if self.http2.out.is_empty() {
                    break Pause::Nothing;
                }
            }
            turn += self.http2.out.len();
            match self.send_http2(number, &mut session) {
                Ok(true) => {}
                Ok(false) => break Pause::Blocked,
                Err(()) => {
                    self.put_session(number, session);
                    return self.close(number);
                }
            }
            self.http2.out.clear();
            session.unblock(self.transport.now_ms());
            // While the socket was full, nothing was read. A client that reads a large response slowly may have sent
            // more requests or content meanwhile.
            if (turn >= TURN_BYTES || was_blocked) && session.can_go_on() {
                break Pause::Turn;
            }
            self.note_peer(number);
            session.go_on(&mut self.desk(number));
        };
        self.settle_http2(number, session, pause);
    }

    /// Sends the output; returns whether all of it was sent.
    fn send_http2(&mut self, number: u32, session: &mut Session) -> Result<bool, ()> {
        let Some(connection) = self.table.get(number) else { return Err(()) };
        let Some(fd) = connection.fd.as_ref() else { return Err(()) };
        if let Some(bytes_per_second) = session.pacing.take() {
            // There is no limit over a Unix socket, or on systems without pacing.
            let _ = stream::set_pacing(fd, bytes_per_second);
        }
        let out = &self.http2.out;
        if connection.is_tls {
            let Some(tls) = self.sessions.get(number) else { return Err(()) };
            if !out.is_empty() && !tls.encrypt(out) {
                return Err(());
            }
            return self.flush(number);
        }
        let is_behind = !session.unsent.is_empty();
        if is_behind {
            session.unsent.extend_from_slice(out);
        }
        let bytes = if is_behind { &session.unsent } else { out };
        let sent = match stream::send(fd, bytes, false) {
            Ok(sent) => sent,
            Err(error) if error.is_would_block() => 0,
            Err(_) => return Err(()),
        };
        self.counters.bytes_sent().add(sent as u64);
        let is_all = sent == bytes.len();
        if is_all {
            session.unsent = Vec::new();
        } else if is_behind {
            session.unsent.drain(..sent);
        } else {
            session.unsent = out[sent..].to_vec();
        }
        Ok(is_all)
    }

    /// Makes a connection wait, or ends it.
    fn settle_http2(&mut self, number: u32, mut session: Box<Session>, pause: Pause) {
        session.is_blocked = pause == Pause::Blocked;
        session.count_memory();
        if session.is_over() && pause != Pause::Blocked {
            self.put_session(number, session);
            // This is done even when the server is stopping. After a close, what the client still sends (it opens
            // windows as it reads) would discard what it has not read yet.
            return self.end_session(number);
        }
        self.set_http2_deadline(number, &mut session);
        let was_reading = std::mem::replace(&mut session.is_reading, pause == Pause::Nothing);
        self.put_session(number, session);
        if self.must_free_memory(number) {
            return self.close_for_memory(number);
        }
        match pause {
            Pause::Blocked => self.wait_for_room(number),
            Pause::Turn => self.set_interest(number, Interest::READABLE.union(Interest::WRITABLE)),
            Pause::Nothing if !was_reading => self.set_interest(number, Interest::READABLE),
            Pause::Nothing => {}
        }
    }

    /// Sets the deadline for what the client must do next, if that has changed.
    fn set_http2_deadline(&mut self, number: u32, session: &mut Session) {
        let now_ms = self.transport.now_ms();
        let (begun, idle_since_ms) = (session.begun(now_ms), session.idle_since_ms(now_ms));
        let timer = match begun {
            _ if session.is_blocked || session.is_sending() => Timer::Send,
            Begun { frame: Some(_), .. } | Begun { request: Some(_), .. } => Timer::Head,
            Begun { content: Some(_), .. } => Timer::Content,
            // Its time does not count as that of the client, who may have something to read just before it ends.
            _ => idle_since_ms.map_or(Timer::Wait, Timer::Idle),
        };
        if std::mem::replace(&mut session.timer, timer) == timer {
            return;
        }
        let timeouts = &self.config.timeouts;
        let left = |limit: Duration, since_ms: u32| {
            let passed = Duration::from_millis(u64::from(now_ms.wrapping_sub(since_ms)));
            // A deadline of zero would be no deadline.
            limit.saturating_sub(passed).max(Duration::from_millis(1))
        };
        let of_head = [begun.frame, begun.request].into_iter().flatten().map(|since_ms| left(timeouts.head, since_ms));
        let of_content = begun.content.map(|since_ms| left(timeouts.send, since_ms));
        let time = match timer {
            Timer::Idle(since_ms) => left(timeouts.idle, since_ms),
            Timer::Head | Timer::Content => of_head.chain(of_content).min().unwrap_or(timeouts.send),
            Timer::Wait | Timer::Send | Timer::Passed => timeouts.send,
        };
        match timer {
            Timer::Idle(_) => {
                if let Some(fd) = self.table.fd(number) {
                    self.transport.set_idle_deadline(number, fd, time);
                }
            }
            _ => self.set_deadline(number, time),
        }
    }

    /// Handles a deadline that has passed.
    #[cold]
    pub(super) fn expire_http2(&mut self, number: u32) {
        let now_ms = self.transport.now_ms();
        let Some(mut session) = self.take_session(number) else { return self.close(number) };
        session.timer = Timer::Passed;
        let is_over = |since_ms: Option<u32>, limit: Duration| {
            since_ms.is_some_and(|since_ms| u128::from(now_ms.wrapping_sub(since_ms)) >= limit.as_millis())
        };
        let timeouts = &self.config.timeouts;
        let (begun, head_timeout) = (session.begun(now_ms), timeouts.head);
        let is_late = is_over(begun.frame, timeouts.head) || is_over(begun.content, timeouts.send);
        // Also if a partial frame that requests nothing has arrived: there may always be one.
        let is_idle = is_over(session.idle_since_ms(now_ms), timeouts.idle);
        if is_late || is_idle {
            let counter = if is_late { self.counters.heads_late() } else { self.counters.idle_closed() };
            counter.add(1);
            self.http2.out.clear();
            session.end(&mut self.desk(number), Code::NO_ERROR);
            return self.advance_http2(number, session);
        }
        let written = session.take_written();
        let (is_blocked, is_sending) = (session.is_blocked, session.is_sending());
        let Some(connection) = self.table.get(number) else { return };
        let has_progress = match (is_blocked, is_sending) {
            (true, _) => connection.made_progress(),
            (false, true) => written >= SLOWEST_BYTES,
            // The device is slow, not the client.
            (false, false) => true,
        };
        if has_progress && is_over(begun.request, head_timeout) {
            // The other streams continue.
            self.note_peer(number);
            self.http2.out.clear();
            let late = session.refuse_late(&mut self.desk(number), head_timeout);
            self.counters.heads_late().add(late);
            return self.advance_http2(number, session);
        }
        if has_progress {
            self.set_http2_deadline(number, &mut session);
            return self.put_session(number, session);
        }
        self.counters.slow_closed().add(1);
        if let Some(fd) = &connection.fd {
            // The kernel would otherwise keep its buffer for a client that does not read.
            let _ = stream::set_reset_on_close(fd);
        }
        self.put_session(number, session);
        self.close(number);
    }
}
