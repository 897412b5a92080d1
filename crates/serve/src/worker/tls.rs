//! TLS connections: the same state machine, with records around the bytes.
//!
//! Received records are decrypted before they are answered. Responses are encrypted before they are sent, in parts so
//! small that a client that does not read holds at most one of them.

use super::{SCRATCH_BYTES, Worker};
use crate::connection::{LINGER, State};
use crate::exchange::{After, Remainder};
use crate::tls::{Received, Session};
use crate::transport::Transport;
use landau_reactor::Interest;
use landau_sys::stream;
use landau_wire::http::{Reject, Status};

/// The number of bytes encrypted at once: two records.
const PART_BYTES: usize = 32 << 10;

/// Like `PART_BYTES`, while memory is short.
const SCARCE_PART_BYTES: usize = 8 << 10;

/// The number of bytes that one client gets in a turn.
pub(super) const TURN_BYTES: usize = 512 << 10;

/// The type of a client's first record: handshake.
const HANDSHAKE: u8 = 0x16;

impl<T: Transport> Worker<T> {
    /// Begins TLS on a connection that has just been accepted; returns whether that worked.
    pub(super) fn begin_session(&mut self, number: u32) -> bool {
        let Some(settings) = &self.tls else { return false };
        match Session::new(settings.current(), &self.memory) {
            Ok(session) => self.sessions.put(number, session),
            Err(_) => return false,
        }
        true
    }

    /// Decrypts received bytes in the scratch buffer; returns the number of plain bytes, if there are any.
    pub(super) fn decrypt(&mut self, number: u32, got: usize) -> Option<usize> {
        let Some(session) = self.sessions.get(number) else {
            self.close(number);
            return None;
        };
        if session.is_new() && self.scratch[0] != HANDSHAKE {
            self.reject_plain_http(number);
            return None;
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let received = session.receive(&mut self.scratch[..got], &mut plain);
        let len = plain.len();
        let has_room = len <= self.scratch.len();
        if has_room {
            self.scratch[..len].copy_from_slice(&plain);
        }
        self.plain = plain;
        match received {
            Err(_) => {
                self.counters.tls_failed().add(1);
                self.end_session(number);
                None
            }
            Ok(received) => {
                if let Received::Established(is_resumed) = received {
                    self.established(number, is_resumed);
                    // The session is gone if HTTP/2 was refused because memory is short.
                    self.sessions.get(number)?;
                }
                if len > 0 && has_room {
                    return Some(len);
                }
                self.flush_handshake(number);
                None
            }
        }
    }

    fn established(&mut self, number: u32, is_resumed: bool) {
        self.counters.tls_handshakes().add(1);
        self.counters.tls_resumed().add(u64::from(is_resumed));
        // The timeout of the first head starts now.
        self.set_deadline(number, self.config.timeouts.head);
        if self.sessions.get(number).is_some_and(|session| session.speaks_http2()) {
            self.begin_encrypted_http2(number);
        }
    }

    /// Sends the records of the protocol itself, if no response carries them.
    fn flush_handshake(&mut self, number: u32) {
        let Some(session) = self.sessions.get(number) else { return };
        let has_received_end = session.has_received_end;
        match self.flush(number) {
            Err(()) => self.close(number),
            Ok(_) if has_received_end => self.close(number),
            Ok(true) if self.must_free_memory(number) => self.end_for_memory(number),
            Ok(true) => {}
            Ok(false) => {
                if let Some(connection) = self.table.get(number) {
                    // A partial request does not change until these records have been sent.
                    if let Some(session) = connection.http2() {
                        (session.is_blocked, session.is_reading) = (true, false);
                    } else {
                        connection.active();
                        connection.state = State::Sending;
                    }
                }
                self.wait_for_room(number);
            }
        }
    }

    /// Answers plain HTTP on a TLS port with an unencrypted 400.
    #[cold]
    fn reject_plain_http(&mut self, number: u32) {
        self.counters.tls_failed().add(1);
        self.sessions.remove(number);
        let Some(connection) = self.table.get(number) else { return };
        connection.is_tls = false;
        if !self.scratch[0].is_ascii_uppercase() {
            return self.close(number);
        }
        self.send_buffers.clear();
        self.note_peer(number);
        self.site
            .reject(Reject { status: Status::BAD_REQUEST, reason: "plain HTTP on a TLS port" }, &mut self.send_buffers);
        self.deliver(number, Remainder::end());
    }

    /// Ends a session whose connection cannot continue. Sends the alert, or `close_notify` if there was no error, as
    /// far as there is room, and discards what still arrives.
    #[cold]
    pub(super) fn end_session(&mut self, number: u32) {
        if let Some(session) = self.sessions.get(number) {
            session.close_notify();
        }
        // A single attempt: the connection ends in either case.
        let _ = self.flush(number);
        self.end_and_linger(number);
    }

    /// Shuts a connection down for writing, without an alert of TLS, and discards what still arrives.
    #[cold]
    pub(super) fn end_and_linger(&mut self, number: u32) {
        let now_ms = self.transport.now_ms();
        self.sessions.remove(number);
        let Some(connection) = self.table.get(number) else { return };
        connection.is_tls = false;
        if !connection.linger(now_ms, &self.memory) {
            return self.close(number);
        }
        self.set_deadline(number, LINGER);
        self.set_interest(number, Interest::READABLE);
    }

    /// Sends encrypted records; returns whether all of them were sent.
    pub(super) fn flush(&mut self, number: u32) -> Result<bool, ()> {
        let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) else { return Err(()) };
        let Some(session) = self.sessions.get(number) else { return Err(()) };
        if session.unsent().is_empty() {
            return Ok(true);
        }
        let sent = match stream::send(fd, session.unsent(), false) {
            Ok(sent) => sent,
            Err(error) if error.is_would_block() => 0,
            Err(_) => return Err(()),
        };
        session.sent(sent);
        self.counters.bytes_sent().add(sent as u64);
        Ok(session.unsent().is_empty())
    }

    /// Encrypts and sends the responses, in one call if they are small.
    pub(super) fn deliver_encrypted(&mut self, number: u32, mut rest: Remainder) {
        let Some(session) = self.sessions.get(number) else { return };
        // A client that has ended its side sends no more requests.
        if rest.after == After::Idle && session.has_received_end {
            rest.after = After::Close(false);
        }
        let is_whole = self.send_buffers.batch.is_empty();
        let is_tls = self.send_buffers.bytes.is_empty() || session.encrypt(&self.send_buffers.bytes);
        if is_whole && matches!(rest.after, After::Close(_)) {
            session.close_notify();
        }
        match if is_tls { self.flush(number) } else { Err(()) } {
            Err(()) => self.close(number),
            Ok(true) if is_whole => self.settle(number, rest),
            Ok(is_flushed) => {
                self.keep_for_later(number, rest);
                if is_flushed { self.go_on(number) } else { self.wait_for_room(number) }
            }
        }
    }

    /// Encrypts and sends the rest, part by part, as far as the socket accepts it.
    pub(super) fn go_on_encrypted(&mut self, number: u32) {
        let mut turn = 0;
        loop {
            let before = self.sessions.get(number).map_or(0, |session| session.unsent().len());
            let Ok(is_flushed) = self.flush(number) else { return self.close(number) };
            let left = self.sessions.get(number).map_or(0, |session| session.unsent().len());
            let Some(active) = self.table.get(number).and_then(|connection| connection.active.as_mut()) else { return };
            let sent = (before - left) as u64;
            active.sent += sent;
            turn += sent;
            if !is_flushed {
                return self.wait_for_room(number);
            }
            if turn >= TURN_BYTES as u64 {
                return self.yield_turn(number);
            }
            let Some(session) = self.sessions.get(number) else { return };
            if active.batch.is_empty() {
                if active.close {
                    session.close_notify();
                }
                if session.unsent().is_empty() {
                    return self.sent_all(number);
                }
                continue;
            }
            self.plain.clear();
            let part = if self.send_buffers.is_scarce { SCARCE_PART_BYTES } else { PART_BYTES };
            let file_count = active.batch.file_count();
            let is_tls = active.batch.read(&mut self.plain, part).is_ok() && session.encrypt(&self.plain);
            if !is_tls {
                // The file became shorter than the announced length.
                return self.close(number);
            }
            if active.batch.file_count() < file_count && active.batch.next_file().is_some() {
                // Before the next turn, the worker checks whether the next file is in memory.
                turn = TURN_BYTES as u64;
            }
        }
    }

    /// Ends the TLS session of a connection that is being closed.
    pub(super) fn drop_session(&mut self, number: u32) {
        if let Some(session) = self.sessions.get(number)
            && session.unsent().is_empty()
        {
            session.close_notify();
            // A single attempt: the client may have disconnected.
            let _ = self.flush(number);
        }
        self.sessions.remove(number);
    }

    /// Returns whether a connection's handshake is still under way.
    pub(super) fn is_handshaking(&mut self, number: u32) -> bool {
        self.sessions.get(number).is_some_and(|session| !session.is_established())
    }
}

/// The maximum number of plain bytes that one receive can yield: the received bytes, and the rest of a handshake.
pub(super) const PLAIN_BYTES: usize = SCRATCH_BYTES + (96 << 10);
