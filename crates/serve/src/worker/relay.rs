//! Requests that are passed on to an upstream server: its connections, and the bytes that go both ways.
//!
//! A connection to an upstream server has an entry in the table of connections, in [`State::Upstream`], so that the
//! transport treats it as any other. The exchange belongs to the client's connection. Each side is read only when what
//! it sent before has left to the other one, so that an exchange holds at most what one receive brought in each
//! direction.

use super::{SCRATCH_BYTES, Worker};
use crate::connection::State;
use crate::exchange::{After, Remainder};
use crate::proxy::{Connection, Exchange, Step};
use crate::rules::Upstream;
use crate::transport::Transport;
use landau_reactor::{Interest, Ready};
use landau_sys::stream;
use landau_wire::http::{Scan, Status};
use std::sync::Arc;
use std::time::Duration;

/// The status by which the log tells that the client has ended the connection before there was a response, as in
/// nginx's log. It is never sent.
const CLIENT_GONE: Status = Status(499);

/// How much of a response is kept at most if the upstream server ends the connection while the client is slow: what the
/// socket's buffer held. A connection whose end was reported is reported again in each wait until it is closed.
const MOST_KEPT_BYTES: usize = 512 << 10;

/// A connection without a request is closed so long before the upstream server closes it.
const BEFORE_ITS_END: Duration = Duration::from_secs(1);

impl<T: Transport> Worker<T> {
    /// Passes on the request that has just been judged, with which the connection's input begins.
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
        self.ask(number, exchange);
    }

    /// Sends a request to its upstream server, over a connection that was kept or over a new one.
    fn ask(&mut self, number: u32, mut exchange: Box<Exchange>) {
        let upstream = exchange.forward.proxy.upstream.clone();
        let kept = if exchange.is_retry { None } else { self.take_kept(number, &exchange) };
        if kept.is_some() {
            self.counters.upstream_reuses().add(1);
        }
        let via = match kept.map_or_else(|| self.connect(number, &mut exchange, &upstream), Ok) {
            Ok(via) => via,
            Err(status) => return self.fail(number, exchange, status),
        };
        (exchange.upstream, exchange.has_ended) = (Some(via), false);
        let is_connecting = self.upstreams.get(via).is_some_and(|own| own.is_connecting);
        let proxy = &exchange.forward.proxy;
        self.set_deadline(via, if is_connecting { proxy.connect_timeout } else { proxy.response_timeout });
        if is_connecting || self.send_request(via, &mut exchange) {
            self.put_exchange(number, exchange);
            self.wait_relaying(number);
        } else {
            self.lose(number, exchange);
        }
    }

    /// Takes a connection that was kept from an earlier request, but none that has ended meanwhile, or on which
    /// something came that nobody has asked for: it would be taken for the response.
    fn take_kept(&mut self, number: u32, exchange: &Exchange) -> Option<u32> {
        loop {
            let via = self.upstreams.take_idle(&exchange.forward.proxy.upstream, number)?;
            if self.table.fd(via).is_some_and(stream::is_silent) {
                return Some(via);
            }
            self.close_upstream(via);
        }
    }

    /// Begins a connection to the next address of an upstream server.
    fn connect(&mut self, number: u32, exchange: &mut Exchange, upstream: &Arc<Upstream>) -> Result<u32, Status> {
        if self.table.len() >= self.admission.capacity() {
            self.counters.descriptors_short().add(1);
            return Err(Status::SERVICE_UNAVAILABLE);
        }
        while let Some(destination) = upstream.addresses().get(exchange.failed_addresses) {
            self.counters.upstream_connections().add(1);
            match destination.connect() {
                Ok((fd, is_connected)) => {
                    let via = self.table.insert(fd, None, false, false);
                    let connection = Connection {
                        upstream: upstream.clone(),
                        client: Some(number),
                        is_connecting: !is_connected,
                        is_reused: false,
                    };
                    self.upstreams.put(via, connection);
                    let Some(entry) = self.table.get(via) else { return Err(Status::BAD_GATEWAY) };
                    entry.state = State::Upstream;
                    let is_registered = entry.fd.as_ref().is_some_and(|fd| self.transport.register(via, fd).is_ok());
                    if is_registered {
                        return Ok(via);
                    }
                    self.upstreams.remove(via);
                    // It is not the transport's.
                    drop(self.table.remove(via));
                    return Err(Status::SERVICE_UNAVAILABLE);
                }
                Err(error) if error.is_out_of_descriptors() => return Err(Status::SERVICE_UNAVAILABLE),
                Err(_) => exchange.failed_addresses += 1,
            }
        }
        Err(Status::BAD_GATEWAY)
    }

    /// Sends what the upstream server takes; returns false if the connection has failed.
    fn send_request(&mut self, via: u32, exchange: &mut Exchange) -> bool {
        let Some(fd) = self.table.fd(via) else { return false };
        while !exchange.unsent().is_empty() {
            match stream::send(fd, exchange.unsent(), false) {
                Ok(count) => exchange.sent(count),
                Err(error) if error.is_would_block() => return true,
                Err(error) if error.is_interrupted() => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Handles what happened to a connection to an upstream server.
    #[cold]
    pub(super) fn handle_upstream(&mut self, via: u32, ready: Ready) {
        let Some(own) = self.upstreams.get(via) else { return self.close_upstream(via) };
        // One that is kept has ended, or nobody has asked for what it sends, or its time is over.
        let Some(number) = own.client else { return self.close_upstream(via) };
        let was_connecting = own.is_connecting;
        let is_over = ready.is_write_closed() || ready.is_writable();
        own.is_connecting &= !is_over;
        let Some(mut exchange) = self.take_exchange(number, via) else { return self.close_upstream(via) };
        let is_established = was_connecting && is_over;
        if is_established {
            self.set_deadline(via, exchange.forward.proxy.response_timeout);
        }
        if ready.is_deadline() && !ready.is_readable() && !is_over {
            return self.expire_upstream(via, number, exchange);
        }
        if is_over && !exchange.unsent().is_empty() {
            let before = exchange.unsent().len();
            // What it has sent before it ended the connection may be a response.
            if !self.send_request(via, &mut exchange) && !ready.is_readable() && !ready.is_write_closed() {
                return self.lose(number, exchange);
            }
            if exchange.unsent().len() < before {
                self.set_deadline(via, exchange.forward.proxy.response_timeout);
            }
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
        let step = exchange.advance(&self.scratch[..count], (&date, close), &mut self.send_buffers.bytes);
        self.pass_on(number, exchange, step);
    }

    /// Keeps what an upstream server has sent before it ended the connection, because the client has no room for it.
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
                // A ring reports the end behind what it has received.
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

    /// Goes on when everything that was passed on has left to the client.
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

    /// Passes on what was kept of a response whose connection has ended.
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

    /// Sends the client what the send buffers have, after a step of the response.
    fn pass_on(&mut self, number: u32, mut exchange: Box<Exchange>, step: Step) {
        let is_reusable = match step {
            Step::Broken => return self.lose(number, exchange),
            Step::More if self.send_buffers.bytes.is_empty() => {
                self.put_exchange(number, exchange);
                return self.wait_relaying(number);
            }
            Step::More => None,
            Step::Done(is_reusable) => Some(is_reusable),
        };
        self.send_buffers.pacing = exchange.forward.policy.bandwidth;
        let Some(client) = self.table.get(number) else { return self.close_via(&mut exchange) };
        let input = std::mem::take(&mut client.active().input);
        let Some(is_reusable) = is_reusable else {
            self.put_exchange(number, exchange);
            self.deliver(number, Remainder::new(input, Scan::default(), After::Relay));
            return self.hold_upstream(number);
        };
        self.let_go(&mut exchange, is_reusable);
        let status = exchange.status().unwrap_or(Status::BAD_GATEWAY);
        self.site.finish_forward(&exchange.forward, (&exchange.head, &self.config.limits), status, exchange.content);
        let must_close = exchange.must_close() || self.site.closing;
        let after = match (exchange.has_body_ended(), must_close) {
            (false, _) => After::Close(true),
            (true, true) => After::Close(!input.is_empty()),
            (true, false) if input.is_empty() => After::Idle,
            (true, false) => After::More,
        };
        self.deliver(number, Remainder::new(input, Scan::default(), after));
    }

    /// Receives nothing more from the upstream server while the client has no room.
    fn hold_upstream(&mut self, number: u32) {
        let is_sending = self.table.get(number).is_some_and(|client| client.state == State::Sending);
        if is_sending {
            self.wait_relaying(number);
        }
    }

    /// Keeps the connection of an answered request for the next one, or closes it.
    fn let_go(&mut self, exchange: &mut Exchange, is_reusable: bool) {
        let Some(via) = exchange.upstream.take() else { return };
        let proxy = &exchange.forward.proxy;
        let kept_for = exchange.kept_for().map(|kept_for| kept_for.saturating_sub(BEFORE_ITS_END));
        let idle = kept_for.map_or(proxy.idle_timeout, |kept_for| kept_for.min(proxy.idle_timeout));
        let is_kept = is_reusable && !self.site.closing && !idle.is_zero();
        if is_kept && self.upstreams.keep(via, proxy.idle_connections) {
            self.set_deadline(via, idle);
            self.set_interest(via, Interest::READABLE);
        } else {
            self.close_upstream(via);
        }
    }

    /// Passes on what the client has sent, which is in the scratch buffer.
    #[cold]
    pub(super) fn relay_body(&mut self, number: u32, count: usize) {
        let Some(client) = self.table.get(number) else { return };
        let active = client.active();
        let Some(mut exchange) = active.take_exchange() else { return self.close(number) };
        let Ok(used) = exchange.take_body(&self.scratch[..count]) else {
            return self.fail(number, exchange, Status::BAD_REQUEST);
        };
        active.input.extend_from_slice(&self.scratch[used..count]);
        if exchange.wants_body() {
            self.set_deadline(number, self.config.timeouts.send);
        }
        let via = exchange.upstream.filter(|via| self.upstreams.get(*via).is_some_and(|own| !own.is_connecting));
        if let Some(via) = via {
            self.set_deadline(via, exchange.forward.proxy.response_timeout);
            // If it has failed, its response may be there nonetheless, or its end is reported.
            self.send_request(via, &mut exchange);
        }
        self.put_exchange(number, exchange);
        self.wait_relaying(number);
    }

    /// Receives from a client that is sent a response meanwhile, and sends it more.
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

    /// Sets what both connections wait for.
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
        let is_connecting = self.upstreams.get(via).is_some_and(|own| own.is_connecting);
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

    /// Handles the deadline of a client whose request was passed on.
    #[cold]
    pub(super) fn expire_relaying(&mut self, number: u32) {
        let Some(exchange) = self.table.get(number).and_then(|client| client.active().take_exchange()) else {
            return self.close(number);
        };
        let waits_for_client = exchange.wants_body() && exchange.unsent().is_empty() && !exchange.is_tunnel();
        if waits_for_client {
            self.counters.heads_late().add(1);
            return self.fail(number, exchange, Status::REQUEST_TIMEOUT);
        }
        self.put_exchange(number, exchange);
        self.set_deadline(number, self.config.timeouts.send);
    }

    /// Handles the deadline of an upstream server.
    fn expire_upstream(&mut self, via: u32, number: u32, mut exchange: Box<Exchange>) {
        let is_connecting = self.upstreams.get(via).is_some_and(|own| own.is_connecting);
        let is_sending = self.table.get(number).is_some_and(|client| client.state == State::Sending);
        let is_silent = !exchange.wants_body() || exchange.is_tunnel();
        if is_connecting || !exchange.unsent().is_empty() || (is_silent && !is_sending) {
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

    /// Goes on after the connection to an upstream server has failed, or its response cannot be passed on: with the
    /// server's next address, or with a new connection if the old one was kept from an earlier request.
    #[cold]
    fn lose(&mut self, number: u32, mut exchange: Box<Exchange>) {
        let own = exchange.upstream.and_then(|via| self.upstreams.get(via));
        let (was_connecting, is_reused) =
            own.map_or((false, exchange.is_reused), |own| (own.is_connecting, own.is_reused));
        self.close_via(&mut exchange);
        if is_reused && exchange.can_retry() {
            self.counters.upstream_retries().add(1);
            exchange.begin_again();
            return self.ask(number, exchange);
        }
        if (was_connecting || exchange.is_untouched()) && !is_reused {
            exchange.failed_addresses += 1;
            return self.ask(number, exchange);
        }
        self.fail(number, exchange, Status::BAD_GATEWAY);
    }

    /// Ends an exchange with an error, or where the response has begun, the connection of the client.
    #[cold]
    fn fail(&mut self, number: u32, mut exchange: Box<Exchange>, status: Status) {
        self.close_via(&mut exchange);
        self.counters.upstream_errors().add(u64::from(status.0 >= 500));
        let limits = &self.config.limits;
        let Some(client) = self.table.get(number) else { return };
        if let Some(sent) = exchange.status() {
            self.site.finish_forward(&exchange.forward, (&exchange.head, limits), sent, exchange.content);
            if exchange.ends_by_close() && !exchange.is_tunnel() {
                // The end of the connection would be that of the content.
                let _ = client.fd.as_ref().map(stream::set_reset_on_close);
            }
            return self.close(number);
        }
        if client.state == State::Sending {
            // Behind an interim response that the client does not take.
            return self.close(number);
        }
        let input = std::mem::take(&mut client.active().input);
        // Requests behind it would be answered from within this call, each deeper in the stack.
        let close = !exchange.has_body_ended() || !input.is_empty();
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

    /// Ends the exchange of a client that is gone.
    #[cold]
    pub(super) fn abandon(&mut self, number: u32) {
        let Some(mut exchange) = self.table.get(number).and_then(|client| client.active().take_exchange()) else {
            return;
        };
        self.close_via(&mut exchange);
        let status = exchange.status().unwrap_or(CLIENT_GONE);
        let head = (&exchange.head[..], &self.config.limits);
        self.site.finish_forward(&exchange.forward, head, status, exchange.content);
    }

    /// Ends a connection to an upstream server that failed here.
    #[cold]
    pub(super) fn lose_upstream(&mut self, via: u32) {
        let client = self.upstreams.get(via).and_then(|own| own.client);
        let exchange = client.and_then(|number| Some((number, self.take_exchange(number, via)?)));
        match exchange {
            Some((number, exchange)) => self.fail(number, exchange, Status::SERVICE_UNAVAILABLE),
            None => self.close_upstream(via),
        }
    }

    /// Takes the exchange of a client if it has this connection.
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

    fn close_via(&mut self, exchange: &mut Exchange) {
        if let Some(via) = exchange.upstream.take() {
            exchange.is_reused = self.upstreams.get(via).is_some_and(|own| own.is_reused);
            self.close_upstream(via);
        }
    }

    pub(super) fn close_upstream(&mut self, via: u32) {
        self.upstreams.remove(via);
        if let Some((fd, _)) = self.table.remove(via) {
            self.transport.close(via, fd);
        }
    }
}
