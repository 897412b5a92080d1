//! HTTP/1.1 requests that are forwarded to an upstream server: moves the bytes in both directions.
//!
//! The exchange belongs to the client's connection. Each side is read only after its previous bytes have been sent to
//! the other side. An exchange therefore holds at most the bytes of one receive in each direction.

use super::upstream::{MOST_KEPT_BYTES, Sending};
use super::{SCRATCH_BYTES, Worker};
use crate::config::SLOWEST_BYTES;
use crate::connection::State;
use crate::exchange::{After, Remainder};
use crate::proxy::{Exchange, Owner, Step};
use crate::transport::Transport;
use landau_reactor::{Interest, Ready};
use landau_wire::http::{Scan, Status};

impl<T: Transport> Worker<T> {
    /// Forwards the request that has just been admitted, which is at the start of the connection's input.
    #[cold]
    pub(super) fn forward(&mut self, number: u32) {
        let (Some(forward), Some(connection)) = (self.site.forward.take(), self.table.get(number)) else {
            return self.close(number);
        };
        let active = connection.active();
        let mut head = std::mem::take(&mut active.input);
        let mut behind = head.split_off(forward.head_bytes.min(head.len()));
        let mut exchange = Box::new(Exchange::new(forward, head));
        let Ok(used) = exchange.take_body(&behind) else {
            return self.fail(number, exchange, Status::BAD_REQUEST);
        };
        active.input = if used == behind.len() { Vec::new() } else { behind.split_off(used) };
        if exchange.wants_body() {
            self.set_deadline(number, self.config.timeouts.send);
        }
        let asked = self.ask(Owner::of(number), &mut exchange);
        self.wait_if_asked(number, exchange, asked);
    }

    /// Waits for the response to a request if it was sent; otherwise fails.
    fn wait_if_asked(&mut self, number: u32, exchange: Box<Exchange>, asked: Result<(), Status>) {
        match asked {
            Ok(()) => {
                self.put_exchange(number, exchange);
                self.wait_relaying(number);
            }
            Err(status) => self.fail(number, exchange, status),
        }
    }

    /// Handles an event of the connection to a client's upstream server.
    pub(super) fn go_on_for_client(&mut self, via: u32, number: u32, ready: Ready) {
        let Some(mut exchange) = self.take_exchange(number, via) else { return self.close_upstream(via) };
        match self.go_on_sending(via, ready, &mut exchange) {
            Sending::Going => {}
            Sending::Late => return self.expire_upstream(via, number, exchange),
            Sending::Failed => return self.lose(number, exchange),
        }
        let is_sending = self.table.get(number).is_some_and(|client| client.state == State::Sending);
        if ready.is_write_closed() && is_sending {
            return self.keep_rest(via, number, exchange);
        }
        if ready.is_readable() || ready.is_write_closed() {
            return self.receive_response(via, number, exchange);
        }
        self.put_exchange(number, exchange);
        self.wait_relaying(number);
    }

    /// Receives a part of a response and passes it on.
    fn receive_response(&mut self, via: u32, number: u32, mut exchange: Box<Exchange>) {
        let Some(fd) = self.table.fd(via) else { return self.lose(number, exchange) };
        let count = match self.transport.receive(via, fd, &mut self.scratch[..SCRATCH_BYTES]) {
            Ok(Some(count)) => count,
            Ok(None) => {
                self.put_exchange(number, exchange);
                return self.wait_relaying(number);
            }
            Err(_) => return self.lose(number, exchange),
        };
        self.send_buffers.clear();
        if count == 0 {
            exchange.has_ended = true;
            self.close_via(&mut exchange);
            let step = exchange.end(&mut self.send_buffers.bytes);
            return self.pass_on(number, exchange, step);
        }
        self.set_deadline(via, exchange.forward.proxy.response_timeout);
        let (date, close) = (self.site.date(), exchange.forward.close || self.site.closing);
        let was_waiting = exchange.awaits_permission();
        let step = exchange.advance(&self.scratch[..count], (&date, close), &mut self.send_buffers.bytes);
        if was_waiting && !exchange.awaits_permission() {
            // The timeout of the content starts when the client may send it.
            self.set_deadline(number, self.config.timeouts.send);
        }
        self.pass_on(number, exchange, step);
    }

    /// Keeps what an upstream server sent before it closed the connection, because the client has no room for it.
    #[cold]
    fn keep_rest(&mut self, via: u32, number: u32, mut exchange: Box<Exchange>) {
        while exchange.kept_bytes() <= MOST_KEPT_BYTES {
            let Some(fd) = self.table.fd(via) else { break };
            match self.transport.receive(via, fd, &mut self.scratch[..SCRATCH_BYTES]) {
                Ok(Some(count @ 1..)) => exchange.keep(&self.scratch[..count]),
                Ok(Some(0)) => {
                    exchange.has_ended = true;
                    break;
                }
                // A ring reports the end after the received bytes.
                Ok(None) => break,
                Err(_) => return self.lose(number, exchange),
            }
        }
        if !exchange.has_ended {
            return self.lose(number, exchange);
        }
        self.close_via(&mut exchange);
        self.put_exchange(number, exchange);
        if self.must_free_memory(number) {
            self.close_for_memory(number);
        }
    }

    /// Continues after everything that was passed on has been sent to the client.
    pub(super) fn go_on_relaying(&mut self, number: u32) {
        let Some(exchange) = self.table.get(number).and_then(|client| client.active().take_exchange()) else {
            return self.close(number);
        };
        if !exchange.has_ended {
            self.put_exchange(number, exchange);
            return self.wait_relaying(number);
        }
        self.pass_on_rest(number, exchange);
    }

    /// Passes on the kept bytes of a response whose connection has ended.
    #[cold]
    fn pass_on_rest(&mut self, number: u32, mut exchange: Box<Exchange>) {
        self.send_buffers.clear();
        let (date, close) = (self.site.date(), exchange.forward.close || self.site.closing);
        let kept = exchange.take_kept();
        let mut step = exchange.advance(&kept, (&date, close), &mut self.send_buffers.bytes);
        if step == Step::More {
            step = exchange.end(&mut self.send_buffers.bytes);
        }
        self.pass_on(number, exchange, step);
    }

    /// Sends the contents of the send buffers to the client, after a step of the response.
    fn pass_on(&mut self, number: u32, mut exchange: Box<Exchange>, step: Step) {
        let is_reusable = match step {
            Step::Broken if self.is_worth_passing_on(&exchange) => return self.pass_on_last(number, exchange),
            Step::Broken => return self.lose(number, exchange),
            Step::More if self.send_buffers.bytes.is_empty() => {
                self.put_exchange(number, exchange);
                return self.wait_relaying(number);
            }
            Step::More => None,
            Step::Done(is_reusable) => Some(is_reusable),
        };
        exchange.is_delivered |= exchange.status().is_some();
        self.send_buffers.pacing = exchange.forward.policy.bandwidth;
        let Some(client) = self.table.get(number) else { return self.close_via(&mut exchange) };
        let mut input = std::mem::take(&mut client.active().input);
        let Some(is_reusable) = is_reusable else {
            if exchange.is_tunnel() && !input.is_empty() {
                // The client has sent bytes of the new protocol without waiting for the response.
                let _ = exchange.take_body(&std::mem::take(&mut input));
                self.send_more(&mut exchange);
            }
            self.put_exchange(number, exchange);
            self.deliver(number, Remainder::new(input, Scan::default(), After::Relay));
            return self.hold_upstream(number);
        };
        self.finish_exchange(&mut exchange, is_reusable);
        let must_close = exchange.must_close() || self.site.closing;
        let after = match (exchange.has_body_ended(), must_close) {
            (false, _) => After::Close(true),
            // In a tunnel, the client may send at any time.
            (true, true) => After::Close(exchange.is_tunnel() || !input.is_empty()),
            (true, false) if input.is_empty() => After::Idle,
            (true, false) => After::More,
        };
        self.deliver(number, Remainder::new(input, Scan::default(), after));
    }

    /// Returns whether bytes that arrived before a response became malformed can be passed on to the client. They
    /// cannot if the end of the response is that of the connection.
    fn is_worth_passing_on(&self, exchange: &Exchange) -> bool {
        exchange.is_delivered && !exchange.ends_by_close() && !self.send_buffers.bytes.is_empty()
    }

    /// Passes on what arrived before a response became malformed, and ends the client's connection.
    #[cold]
    fn pass_on_last(&mut self, number: u32, mut exchange: Box<Exchange>) {
        self.close_via(&mut exchange);
        self.counters.upstream_errors().add(1);
        let status = exchange.status().unwrap_or(Status::BAD_GATEWAY);
        self.log_exchange(&exchange, status);
        self.send_buffers.pacing = exchange.forward.policy.bandwidth;
        self.deliver(number, Remainder::end());
    }

    /// Stops reading from the upstream server while the client has no room.
    fn hold_upstream(&mut self, number: u32) {
        let is_sending = self.table.get(number).is_some_and(|client| client.state == State::Sending);
        if is_sending {
            self.wait_relaying(number);
        }
    }

    /// Passes on what the client has sent, which is in the scratch buffer.
    #[cold]
    pub(super) fn relay_body(&mut self, number: u32, count: usize) {
        let Some(client) = self.table.get(number) else { return };
        let active = client.active();
        let Some(mut exchange) = active.take_exchange() else { return self.close(number) };
        let was_waiting = exchange.awaits_permission();
        let Ok(used) = exchange.take_body(&self.scratch[..count]) else {
            return self.fail(number, exchange, Status::BAD_REQUEST);
        };
        active.input.extend_from_slice(&self.scratch[used..count]);
        if was_waiting && !exchange.awaits_permission() {
            self.set_deadline(number, self.config.timeouts.send);
        }
        if let Some(via) = exchange.upstream.filter(|via| !self.is_connecting(*via)) {
            self.set_deadline(via, exchange.forward.proxy.response_timeout);
        }
        self.send_more(&mut exchange);
        self.put_exchange(number, exchange);
        self.wait_relaying(number);
    }

    /// Receives from a client while a response is sent to it, and sends more of the response.
    #[cold]
    pub(super) fn go_on_both_ways(&mut self, number: u32, ready: Ready) {
        if ready.is_readable() {
            self.receive(number);
        }
        if ready.is_writable() && self.table.get(number).is_some_and(|client| client.state == State::Sending) {
            self.go_on(number);
        }
        if self.table.get(number).is_some_and(|client| client.state == State::Sending && client.is_relaying()) {
            self.wait_relaying(number);
        }
    }

    /// Sets the events that both connections wait for.
    pub(super) fn wait_relaying(&mut self, number: u32) {
        if self.must_free_memory(number) {
            return self.close_for_memory(number);
        }
        let Some(client) = self.table.get(number) else { return };
        let is_sending = client.state == State::Sending;
        let Some(active) = client.active.as_ref() else { return };
        let Some(exchange) = active.exchange() else { return };
        let has_unsent = !exchange.unsent().is_empty();
        let reads_client = if exchange.wants_body() { !has_unsent } else { active.input.is_empty() && !is_sending };
        let (via, has_ended) = (exchange.upstream, exchange.has_ended);
        let of_client = if reads_client { Interest::READABLE } else { Interest::NONE };
        let of_client = if is_sending { of_client.union(Interest::WRITABLE) } else { of_client };
        self.set_interest(number, of_client);
        let Some(via) = via else { return };
        let is_connecting = self.is_connecting(via);
        if is_connecting || has_unsent {
            let Some(fd) = self.table.fd(via) else { return };
            if self.transport.wait_writable(via, fd).is_err() {
                return self.close(via);
            }
        }
        let of_upstream = if is_sending || has_ended { Interest::NONE } else { Interest::READABLE };
        let writes = is_connecting || has_unsent;
        self.set_interest(via, if writes { of_upstream.union(Interest::WRITABLE) } else { of_upstream });
    }

    /// Handles the deadline of a client whose request was forwarded.
    #[cold]
    pub(super) fn expire_relaying(&mut self, number: u32) {
        let Some(mut exchange) = self.table.get(number).and_then(|client| client.active().take_exchange()) else {
            return self.close(number);
        };
        let is_slow = exchange.take_received_bytes() < SLOWEST_BYTES;
        let has_to_send = exchange.wants_body() && !exchange.awaits_permission() && !exchange.is_tunnel();
        let waits_for_client = has_to_send && exchange.unsent().is_empty();
        if waits_for_client && is_slow {
            self.counters.heads_late().add(1);
            return self.fail(number, exchange, Status::REQUEST_TIMEOUT);
        }
        self.put_exchange(number, exchange);
        self.set_deadline(number, self.config.timeouts.send);
    }

    /// Handles the deadline of an upstream server.
    fn expire_upstream(&mut self, via: u32, number: u32, mut exchange: Box<Exchange>) {
        let is_connecting = self.is_connecting(via);
        let is_sending = self.table.get(number).is_some_and(|client| client.state == State::Sending);
        let is_silent = !exchange.wants_body() || exchange.awaits_permission() || exchange.is_tunnel();
        // While the client is slow, the server is not read. A server that waits for this may not read either.
        if is_connecting || ((is_silent || !exchange.unsent().is_empty()) && !is_sending) {
            if is_connecting && exchange.failed_addresses + 1 < exchange.forward.proxy.upstream.addresses().len() {
                return self.lose(number, exchange);
            }
            return self.fail(number, exchange, Status::GATEWAY_TIMEOUT);
        }
        let time = exchange.forward.proxy.response_timeout;
        exchange.upstream = Some(via);
        self.put_exchange(number, exchange);
        self.set_deadline(via, time);
    }

    /// Continues after the connection to an upstream server has failed, or its response cannot be passed on.
    #[cold]
    fn lose(&mut self, number: u32, mut exchange: Box<Exchange>) {
        let asked = self.ask_again(Owner::of(number), &mut exchange);
        self.wait_if_asked(number, exchange, asked);
    }

    /// Ends an exchange with an error, or if part of the response was already sent, ends the client's connection.
    #[cold]
    fn fail(&mut self, number: u32, mut exchange: Box<Exchange>, status: Status) {
        self.close_via(&mut exchange);
        self.counters.upstream_errors().add(u64::from(status.0 >= 500));
        let sent = exchange.status().filter(|_| exchange.is_delivered);
        if let Some(sent) = sent {
            self.log_exchange(&exchange, sent);
        }
        let limits = &self.config.limits;
        let Some(client) = self.table.get(number) else { return };
        if sent.is_some() {
            if exchange.ends_by_close() && !exchange.is_tunnel() {
                // The end of the connection would look like the end of the content.
                return self.reset(number);
            }
            return self.close(number);
        }
        if client.state == State::Sending {
            // An interim response was sent, and the client has not read it.
            self.log_exchange(&exchange, status);
            return self.close(number);
        }
        let input = std::mem::take(&mut client.active().input);
        let close = !exchange.has_body_ended();
        self.send_buffers.clear();
        let of_client = (&exchange.head[..], limits);
        self.site.fail_forward(&exchange.forward, of_client, (status, close), &mut self.send_buffers);
        let after = match (close, self.send_buffers.close) {
            (true, _) => After::Close(true),
            (false, true) => After::Close(!input.is_empty()),
            (false, false) if input.is_empty() => After::Idle,
            (false, false) => After::More,
        };
        self.deliver(number, Remainder::new(input, Scan::default(), after));
    }

    /// Ends the exchange of a client that has disconnected.
    #[cold]
    pub(super) fn abandon(&mut self, number: u32) {
        if let Some(mut exchange) = self.table.get(number).and_then(|client| client.active().take_exchange()) {
            self.abandon_exchange(&mut exchange);
        }
    }

    /// Ends the connection to a client's upstream server after it failed here.
    pub(super) fn lose_for_client(&mut self, via: u32, number: u32) {
        match self.take_exchange(number, via) {
            Some(exchange) => self.fail(number, exchange, Status::SERVICE_UNAVAILABLE),
            None => self.close_upstream(via),
        }
    }

    /// Takes the exchange of a client if it uses this connection.
    fn take_exchange(&mut self, number: u32, via: u32) -> Option<Box<Exchange>> {
        let active = self.table.get(number)?.active.as_mut()?;
        active.exchange().filter(|exchange| exchange.upstream == Some(via))?;
        active.take_exchange()
    }

    fn put_exchange(&mut self, number: u32, exchange: Box<Exchange>) {
        if let Some(client) = self.table.get(number) {
            client.active().put_exchange(exchange);
        }
    }
}
