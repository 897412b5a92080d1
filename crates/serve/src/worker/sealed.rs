//! What a worker does for connections over TLS: the same as for all others, with records around it.
//!
//! What comes is opened before it is answered, and what was answered is sealed before it leaves, in pieces so small
//! that a client that does not read holds no more than one of them.

use super::{SCRATCH_BYTES, Worker, is_again};
use crate::connection::{LINGER, State};
use crate::exchange::{After, Rest};
use crate::tls::{Heard, Session};
use landau_reactor::Interest;
use landau_sys::stream;
use landau_wire::http::{Reject, Status};

/// How much is sealed at once: two records.
const PIECE_BYTES: usize = 32 << 10;

/// How much one client gets in a turn.
const TURN_BYTES: u64 = 512 << 10;

/// How the first record of a client begins: it is a handshake.
const HANDSHAKE: u8 = 0x16;

impl Worker {
    /// Begins TLS on a connection that has just been accepted. False if that cannot be done.
    pub(super) fn begin_session(&mut self, number: u32) -> bool {
        let Some(settings) = &self.tls else { return false };
        match Session::new(settings.current()) {
            Ok(session) => self.sessions.put(number, session),
            Err(_) => return false,
        }
        true
    }

    /// Opens what was received into the scratch buffer, where the plain bytes lie then: so many, if there are any.
    pub(super) fn open_records(&mut self, number: u32, got: usize) -> Option<usize> {
        let Some(session) = self.sessions.get(number) else {
            self.close(number);
            return None;
        };
        if session.is_new() && self.scratch[0] != HANDSHAKE {
            self.answer_plainly(number);
            return None;
        }
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let heard = session.hear(&mut self.scratch[..got], &mut plain);
        let len = plain.len();
        let has_room = len <= self.scratch.len();
        if has_room {
            self.scratch[..len].copy_from_slice(&plain);
        }
        self.plain = plain;
        match heard {
            Err(_) => {
                self.counters.tls_failed.add(1);
                self.end_session(number);
                None
            }
            Ok(heard) => {
                if let Heard::Established(is_resumed) = heard {
                    self.established(number, is_resumed);
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
        self.counters.tls_handshakes.add(1);
        self.counters.tls_resumed.add(u64::from(is_resumed));
        // The time for a head begins now, once.
        if let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) {
            self.reactor.set_deadline(fd, self.config.timeouts.head);
        }
    }

    /// Sends what the protocol wants to be sent, where no answer goes along.
    fn flush_handshake(&mut self, number: u32) {
        let Some(session) = self.sessions.get(number) else { return };
        let has_heard_end = session.has_heard_end;
        match self.flush(number) {
            Err(()) => self.close(number),
            Ok(_) if has_heard_end => self.close(number),
            Ok(true) => {}
            Ok(false) => {
                if let Some(connection) = self.table.get(number) {
                    // Whatever was begun stays as it is until this has left.
                    connection.active();
                    connection.state = State::Sending;
                }
                self.wait_for_room(number);
            }
        }
    }

    /// Somebody speaks plain HTTP where TLS is spoken: that is said in plain, to whom it may concern.
    #[cold]
    fn answer_plainly(&mut self, number: u32) {
        self.counters.tls_failed.add(1);
        self.sessions.remove(number);
        let Some(connection) = self.table.get(number) else { return };
        connection.is_tls = false;
        if !self.scratch[0].is_ascii_uppercase() {
            return self.close(number);
        }
        self.outbox.clear();
        self.note_peer(number);
        self.site
            .reject(Reject { status: Status::BAD_REQUEST, reason: "plain HTTP where TLS is spoken" }, &mut self.outbox);
        self.deliver(number, Rest::end());
    }

    /// After an error: the alert leaves if it can, and nothing more is believed.
    #[cold]
    fn end_session(&mut self, number: u32) {
        // Whether the client takes it is its own affair.
        let _ = self.flush(number);
        self.sessions.remove(number);
        let Some(connection) = self.table.get(number) else { return };
        connection.is_tls = false;
        if !connection.linger() {
            return self.close(number);
        }
        if let Some(fd) = connection.fd.as_ref() {
            self.reactor.set_deadline(fd, LINGER);
        }
        self.want(number, Interest::READABLE);
    }

    /// Sends sealed records; whether all of them have left.
    fn flush(&mut self, number: u32) -> Result<bool, ()> {
        let Some(fd) = self.table.get(number).and_then(|connection| connection.fd.as_ref()) else { return Err(()) };
        let Some(session) = self.sessions.get(number) else { return Err(()) };
        if session.unsent().is_empty() {
            return Ok(true);
        }
        let sent = match stream::send(fd, session.unsent(), false) {
            Ok(sent) => sent,
            Err(error) if is_again(error) => 0,
            Err(_) => return Err(()),
        };
        session.sent(sent);
        self.counters.bytes_sent.add(sent as u64);
        Ok(session.unsent().is_empty())
    }

    /// Sends what was answered, sealed: in one call where it is small.
    pub(super) fn deliver_sealed(&mut self, number: u32, mut rest: Rest) {
        let Some(session) = self.sessions.get(number) else { return };
        // A client that sends no more has had all that it will ask for.
        if rest.after == After::Idle && session.has_heard_end {
            rest.after = After::Close(false);
        }
        let is_whole = self.outbox.batch.is_empty();
        let is_sealed = self.outbox.bytes.is_empty() || session.seal(&self.outbox.bytes);
        if is_whole && matches!(rest.after, After::Close(_)) {
            session.say_end();
        }
        match if is_sealed { self.flush(number) } else { Err(()) } {
            Err(()) => self.close(number),
            Ok(true) if is_whole => self.settle(number, rest),
            Ok(is_flushed) => {
                self.keep_for_later(number, rest);
                if is_flushed { self.go_on(number) } else { self.wait_for_room(number) }
            }
        }
    }

    /// Seals and sends what is left, piece by piece, as far as the client takes it.
    pub(super) fn go_on_sealed(&mut self, number: u32) {
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
            if turn >= TURN_BYTES {
                return self.want(number, Interest::WRITABLE);
            }
            let Some(session) = self.sessions.get(number) else { return };
            if active.batch.is_empty() {
                if active.close {
                    session.say_end();
                }
                if session.unsent().is_empty() {
                    return self.sent_all(number);
                }
                continue;
            }
            self.plain.clear();
            let file_count = active.batch.file_count();
            let is_sealed = active.batch.read(&mut self.plain, PIECE_BYTES).is_ok() && session.seal(&self.plain);
            if !is_sealed {
                // The file became shorter: what the client was promised cannot be had any more.
                return self.close(number);
            }
            if active.batch.file_count() < file_count && active.batch.next_file().is_some() {
                // Whether the next file is in memory is asked before its turn.
                turn = TURN_BYTES;
            }
        }
    }

    /// Ends the TLS of a connection that is being closed.
    pub(super) fn drop_session(&mut self, number: u32) {
        if let Some(session) = self.sessions.get(number)
            && session.unsent().is_empty()
        {
            session.say_end();
            // One attempt: whoever is gone needs not be told.
            let _ = self.flush(number);
        }
        self.sessions.remove(number);
    }

    /// Whether a connection's handshake is still under way.
    pub(super) fn is_shaking_hands(&mut self, number: u32) -> bool {
        self.sessions.get(number).is_some_and(|session| !session.is_established())
    }
}

/// Room for the plain bytes of all that may be opened at once: what is received, and what was left of a handshake.
pub(super) const ROOM_BYTES: usize = SCRATCH_BYTES + (96 << 10);
