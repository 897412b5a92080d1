//! HTTP/2 streams whose requests are forwarded to upstream servers: moves the bytes in both directions.
//!
//! Each stream has its own upstream connection, over HTTP/1.1, so that a slow one does not delay the others. The
//! exchange belongs to its stream, in the session of the client's connection. While a session is processed here, it is
//! not in the table of connections, so nothing here may close the client's connection.
//!
//! The deadline of the upstream connection is that of the party that must act next ([`Turn`]). This includes the
//! client, because the deadline of the client's connection is for all its streams together.

use super::upstream::{MOST_KEPT_BYTES, Sending};
use super::{SCRATCH_BYTES, Worker};
use crate::config::SLOWEST_BYTES;
use crate::http2::{Passed, Relay, Session, Turn};
use crate::proxy::Owner;
use crate::transport::Transport;
use landau_reactor::{Interest, Ready};
use landau_wire::http::Status;
use landau_wire::http2::Code;
use std::time::Duration;

impl<T: Transport> Worker<T> {
    /// Does the pending work of a connection's streams for their upstream servers: sends requests and content that has
    /// arrived, and continues after content has been sent.
    pub(super) fn serve_streams(&mut self, number: u32, session: &mut Session) {
        while let Some(mut exchange) = session.next_abandoned() {
            self.abandon_exchange(&mut exchange);
        }
        while let Some(stream) = session.next_work() {
            self.serve_stream(Owner { number, stream }, session);
        }
    }

    fn serve_stream(&mut self, owner: Owner, session: &mut Session) {
        let Some(relay) = session.relay(owner.stream) else { return };
        if std::mem::replace(&mut relay.is_asked, true) {
            self.send_more(&mut relay.exchange);
        } else if self.memory.is_short() {
            self.counters.memory_refused().add(1);
            return self.end_stream(owner, session, Status::SERVICE_UNAVAILABLE);
        } else if let Err(status) = self.ask(owner, &mut relay.exchange) {
            return self.fail_stream(owner, session, status);
        }
        session.open_window(owner.stream, &mut self.http2.out);
        let Some(relay) = session.relay(owner.stream) else { return };
        if !self.wait_for_upstream(relay) {
            self.fail_stream(owner, session, Status::SERVICE_UNAVAILABLE);
        }
    }

    /// Sets the events that are reported for the connection to an upstream server, and its deadline; returns false on
    /// failure.
    fn wait_for_upstream(&mut self, relay: &mut Relay) -> bool {
        let Some(via) = relay.exchange.upstream else { return true };
        self.set_turn(via, relay);
        let is_writing = matches!(relay.turn, Some(Turn::Connection | Turn::Taking));
        let is_reading = relay.pending_bytes() == 0;
        let of_reading = if is_reading { Interest::READABLE } else { Interest::NONE };
        let interest = if is_writing { of_reading.union(Interest::WRITABLE) } else { of_reading };
        if relay.interest.replace(interest) == Some(interest) && !is_writing {
            return true;
        }
        let Some(fd) = self.table.fd(via) else { return false };
        if is_writing && self.transport.wait_writable(via, fd).is_err() {
            return false;
        }
        self.transport.set_interest(via, fd, interest).is_ok()
    }

    /// Records whose turn it is, and restarts the deadline if that has changed.
    fn set_turn(&mut self, via: u32, relay: &mut Relay) {
        let turn = if self.is_connecting(via) {
            Turn::Connection
        } else if relay.exchange.has_unsent() {
            Turn::Taking
        } else if relay.exchange.wants_body() && !relay.exchange.awaits_permission() {
            Turn::Client
        } else {
            Turn::Response
        };
        if relay.turn.replace(turn) == Some(turn) {
            return;
        }
        let proxy = &relay.exchange.forward.proxy;
        let time = match turn {
            Turn::Connection => proxy.connect_timeout,
            Turn::Taking | Turn::Response => proxy.response_timeout,
            Turn::Client => {
                relay.turn_began_ms = self.transport.now_ms();
                relay.exchange.take_received_bytes();
                self.config.timeouts.send
            }
        };
        self.set_deadline(via, time);
    }

    /// Handles an event of the connection to a stream's upstream server.
    pub(super) fn go_on_for_stream(&mut self, via: u32, owner: Owner, ready: Ready) {
        let Some(mut session) = self.take_session(owner.number) else { return self.close_upstream(via) };
        self.http2.out.clear();
        self.go_on_with_stream(via, owner, ready, &mut session);
        self.advance_http2(owner.number, session);
    }

    fn go_on_with_stream(&mut self, via: u32, owner: Owner, ready: Ready, session: &mut Session) {
        let relay = session.relay(owner.stream).filter(|relay| relay.exchange.upstream == Some(via));
        let Some(relay) = relay else { return self.close_upstream(via) };
        relay.interest = None;
        match self.go_on_sending(via, ready, &mut relay.exchange) {
            Sending::Going => {}
            Sending::Late => return self.expire_stream(via, owner, session),
            Sending::Failed => return self.lose_stream(owner, session),
        }
        let is_read = ready.is_readable() && relay.pending_bytes() == 0;
        if is_read || ready.is_write_closed() {
            self.receive_for_stream(via, owner, ready.is_write_closed(), session);
        }
        session.note_work(owner.stream);
    }

    /// Receives a part of a response and passes it on. If the connection has ended, receives everything that is left,
    /// because its end would be reported repeatedly.
    fn receive_for_stream(&mut self, via: u32, owner: Owner, has_ended: bool, session: &mut Session) {
        loop {
            let Some(fd) = self.table.fd(via) else { return self.lose_stream(owner, session) };
            let count = match self.transport.receive(via, fd, &mut self.scratch[..SCRATCH_BYTES]) {
                Ok(Some(count)) => count,
                Ok(None) => return,
                Err(_) => return self.lose_stream(owner, session),
            };
            let scratch = std::mem::take(&mut self.scratch);
            let bytes = (count > 0).then_some(&scratch[..count]);
            let passed = session.pass_on(&mut self.desk(owner.number), owner.stream, bytes);
            self.scratch = scratch;
            match passed {
                Passed::Done(mut exchange, is_reusable) => {
                    return self.finish_exchange(&mut exchange, is_reusable && count > 0);
                }
                Passed::Broken => return self.lose_stream(owner, session),
                Passed::More if count == 0 => return self.lose_stream(owner, session),
                Passed::More => {}
            }
            let Some(relay) = session.relay(owner.stream) else { return };
            if matches!(relay.turn, Some(Turn::Response | Turn::Taking)) {
                self.set_deadline(via, relay.exchange.forward.proxy.response_timeout);
            }
            match relay.pending_bytes() {
                _ if !has_ended => return,
                ..=MOST_KEPT_BYTES => {}
                _ => return self.lose_stream(owner, session),
            }
        }
    }

    /// Handles the deadline of an upstream connection.
    fn expire_stream(&mut self, via: u32, owner: Owner, session: &mut Session) {
        let Some(relay) = session.relay(owner.stream) else { return };
        let proxy = &relay.exchange.forward.proxy;
        match relay.turn {
            Some(Turn::Client) => return self.expire_client(via, owner, session),
            // The client does not read, and has its own deadline. A server that waits for it may not read either.
            Some(Turn::Response | Turn::Taking) if relay.pending_bytes() > 0 => {
                self.set_deadline(via, proxy.response_timeout);
            }
            Some(Turn::Connection) if relay.exchange.failed_addresses + 1 < proxy.upstream.addresses().len() => {
                return self.lose_stream(owner, session);
            }
            _ => return self.fail_stream(owner, session, Status::GATEWAY_TIMEOUT),
        }
        session.note_work(owner.stream);
    }

    /// Decides whether a client has sent enough of its content to be given the same time again.
    fn expire_client(&mut self, via: u32, owner: Owner, session: &mut Session) {
        let (now_ms, time) = (self.transport.now_ms(), self.config.timeouts.send);
        // While the socket is full, nothing is read.
        let (is_blocked, of_part) = (session.is_blocked, session.part_bytes(owner.stream));
        let Some(relay) = session.relay(owner.stream) else { return };
        let passed = Duration::from_millis(u64::from(now_ms.wrapping_sub(relay.turn_began_ms)));
        // A response that arrives meanwhile moves the deadline, and a clock of milliseconds may be one behind.
        let left = time.saturating_sub(passed + Duration::from_millis(1));
        if left.is_zero() {
            if relay.exchange.take_received_bytes() + of_part < SLOWEST_BYTES && !is_blocked {
                self.counters.heads_late().add(1);
                return self.fail_stream(owner, session, Status::REQUEST_TIMEOUT);
            }
            relay.turn_began_ms = now_ms;
        }
        self.set_deadline(via, if left.is_zero() { time } else { left });
        session.note_work(owner.stream);
    }

    /// Continues after the connection to an upstream server has failed, or its response cannot be passed on.
    #[cold]
    fn lose_stream(&mut self, owner: Owner, session: &mut Session) {
        let Some(relay) = session.relay(owner.stream) else { return };
        (relay.turn, relay.interest) = (None, None);
        match self.ask_again(owner, &mut relay.exchange) {
            Ok(()) => session.note_work(owner.stream),
            Err(status) => self.fail_stream(owner, session, status),
        }
    }

    /// Ends a stream with an error, which counts as the upstream server's unless the status is a client error.
    #[cold]
    fn fail_stream(&mut self, owner: Owner, session: &mut Session, status: Status) {
        let is_of_upstream = status.0 >= 500 && session.relay(owner.stream).is_some();
        self.counters.upstream_errors().add(u64::from(is_of_upstream));
        self.end_stream(owner, session, status);
    }

    /// Ends a stream with an error, caused by either side.
    #[cold]
    fn end_stream(&mut self, owner: Owner, session: &mut Session, status: Status) {
        let Some(mut failed) = session.take_failed(owner.stream) else { return };
        let exchange = &mut failed.exchange;
        self.close_via(exchange);
        self.send_buffers.clear();
        if failed.has_head {
            let sent = exchange.status().unwrap_or(status);
            self.log_exchange(exchange, sent);
        } else {
            let of_client = (&exchange.head[..], &self.config.limits);
            self.site.fail_forward(&exchange.forward, of_client, (status, false), &mut self.send_buffers);
        }
        let code = if status.0 >= 500 { Code::INTERNAL_ERROR } else { Code::CANCEL };
        session.answer_failed(&mut self.desk(owner.number), &failed, code);
    }

    /// Ends the connection to a stream's upstream server after it failed here.
    pub(super) fn lose_for_stream(&mut self, via: u32, owner: Owner) {
        let Some(mut session) = self.take_session(owner.number) else { return self.close_upstream(via) };
        self.http2.out.clear();
        if session.relay(owner.stream).is_some_and(|relay| relay.exchange.upstream == Some(via)) {
            self.fail_stream(owner, &mut session, Status::SERVICE_UNAVAILABLE);
        } else {
            self.close_upstream(via);
        }
        self.advance_http2(owner.number, session);
    }

    /// Ends the exchanges of a connection that is being closed.
    #[cold]
    pub(super) fn abandon_streams(&mut self, number: u32) {
        let Some(mut session) = self.take_session(number) else { return };
        session.cancel_fetches(&self.fetcher);
        session.abandon_all();
        while let Some(mut exchange) = session.next_abandoned() {
            self.abandon_exchange(&mut exchange);
        }
    }
}
