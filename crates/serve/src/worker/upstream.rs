//! Connections to upstream servers, for either protocol of the client: connecting, keeping connections, and sending
//! requests.
//!
//! A connection to an upstream server has an entry in the table of connections, in [`State::Upstream`], so that the
//! transport treats it like any other. Its events are for its [`Owner`]: a client that uses HTTP/1.1 ([`super::relay`])
//! or a stream of HTTP/2 ([`super::streams`]).

use super::Worker;
use crate::connection::State;
use crate::proxy::{Connection, Exchange, Owner};
use crate::rules::Upstream;
use crate::transport::Transport;
use landau_reactor::Ready;
use landau_sys::stream;
use landau_wire::http::Status;
use std::sync::Arc;
use std::time::Duration;

/// The status in the log if the client closed the connection before there was a response, as in nginx's log. It is
/// never sent.
const CLIENT_GONE: Status = Status(499);

/// The maximum number of bytes of a response that are kept if the upstream server closes the connection while the
/// client is slow: the contents of the socket's buffer. After its end was reported, a connection is reported again in
/// each wait until it is closed.
pub(super) const MOST_KEPT_BYTES: usize = 512 << 10;

/// How long before the upstream server closes an idle connection this server closes it.
const BEFORE_ITS_END: Duration = Duration::from_secs(1);

/// The progress of sending a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sending {
    /// The upstream server's socket accepted as much as it had room for.
    Going,
    /// There was no progress before the deadline.
    Late,
    /// The connection has failed, and no response can be received from it.
    Failed,
}

impl<T: Transport> Worker<T> {
    /// Sends a request to its upstream server, over a kept connection or a new one. If there is none, fails with the
    /// status for the client.
    pub(super) fn ask(&mut self, owner: Owner, exchange: &mut Exchange) -> Result<(), Status> {
        loop {
            let kept = if exchange.is_retry { None } else { self.take_kept(owner, exchange) };
            if kept.is_some() {
                self.counters.upstream_reuses().add(1);
            }
            let via = match kept {
                Some(via) => via,
                None => self.connect(owner, exchange)?,
            };
            (exchange.upstream, exchange.has_ended) = (Some(via), false);
            let is_connecting = self.is_connecting(via);
            let proxy = &exchange.forward.proxy;
            self.set_deadline(via, if is_connecting { proxy.connect_timeout } else { proxy.response_timeout });
            if is_connecting || self.send_request(via, exchange) {
                return Ok(());
            }
            self.recover(exchange)?;
        }
    }

    /// Sends the request again after the connection to an upstream server has failed, or its response cannot be passed
    /// on.
    pub(super) fn ask_again(&mut self, owner: Owner, exchange: &mut Exchange) -> Result<(), Status> {
        self.recover(exchange)?;
        self.ask(owner, exchange)
    }

    /// Closes a failed connection, and prepares the next attempt: with the server's next address, or with a new
    /// connection if the old one was kept from an earlier request. Fails if no attempt is left.
    fn recover(&mut self, exchange: &mut Exchange) -> Result<(), Status> {
        let own = exchange.upstream.and_then(|via| self.upstreams.get(via));
        let (was_connecting, is_reused) =
            own.map_or((false, exchange.is_reused), |own| (own.is_connecting, own.is_reused));
        self.close_via(exchange);
        if is_reused && exchange.can_retry() {
            self.counters.upstream_retries().add(1);
            exchange.begin_again();
            return Ok(());
        }
        if (was_connecting || exchange.is_untouched()) && !is_reused {
            exchange.failed_addresses += 1;
            return Ok(());
        }
        Err(Status::BAD_GATEWAY)
    }

    /// Takes a connection that was kept from an earlier request. Connections that have ended are not taken, nor those
    /// with unrequested bytes, which would be mistaken for the response.
    fn take_kept(&mut self, owner: Owner, exchange: &Exchange) -> Option<u32> {
        loop {
            let via = self.upstreams.take_idle(&exchange.forward.proxy.upstream, owner)?;
            let is_silent = self.table.fd(via).is_some_and(|fd| self.transport.is_silent(via, fd));
            if is_silent {
                return Some(via);
            }
            self.close_upstream(via);
        }
    }

    /// Closes the upstream connection that has been kept the longest; returns false if none is kept.
    #[cold]
    pub(super) fn close_kept(&mut self) -> bool {
        let Some(via) = self.upstreams.longest_idle() else { return false };
        self.close_upstream(via);
        true
    }

    /// Begins a connection to the next address of an upstream server.
    fn connect(&mut self, owner: Owner, exchange: &mut Exchange) -> Result<u32, Status> {
        if self.table.len() >= self.admission.capacity() && !self.close_kept() {
            self.counters.descriptors_short().add(1);
            return Err(Status::SERVICE_UNAVAILABLE);
        }
        let upstream: Arc<Upstream> = exchange.forward.proxy.upstream.clone();
        while let Some(destination) = upstream.addresses().get(exchange.failed_addresses) {
            self.counters.upstream_connections().add(1);
            match destination.connect() {
                Ok((fd, is_connected)) => {
                    let via = self.table.insert(fd, None, false, false);
                    let connection = Connection {
                        upstream: upstream.clone(),
                        owner: Some(owner),
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
                    // The transport does not own this descriptor.
                    drop(self.table.remove(via));
                    return Err(Status::SERVICE_UNAVAILABLE);
                }
                Err(error) if error.is_out_of_descriptors() => return Err(Status::SERVICE_UNAVAILABLE),
                Err(_) => exchange.failed_addresses += 1,
            }
        }
        Err(Status::BAD_GATEWAY)
    }

    /// Returns whether a connection is being established.
    pub(super) fn is_connecting(&mut self, via: u32) -> bool {
        self.upstreams.get(via).is_some_and(|own| own.is_connecting)
    }

    /// Sends as much as the upstream server's socket accepts; returns false if the connection has failed.
    pub(super) fn send_request(&mut self, via: u32, exchange: &mut Exchange) -> bool {
        let Some(fd) = self.table.fd(via) else { return false };
        exchange.frame_content();
        while !exchange.unsent().is_empty() {
            match stream::send(fd, exchange.unsent(), false) {
                Ok(count) => exchange.sent(count),
                Err(error) if error.is_would_block() => return true,
                Err(error) if error.is_interrupted() => {}
                Err(_) => return false,
            }
            exchange.frame_content();
        }
        true
    }

    /// Sends what the client has sent meanwhile. If the connection has failed, this is ignored: the response may have
    /// arrived nonetheless, or the end of the connection is reported.
    pub(super) fn send_more(&mut self, exchange: &mut Exchange) {
        if let Some(via) = exchange.upstream.filter(|via| !self.is_connecting(*via)) {
            self.send_request(via, exchange);
        }
    }

    /// Handles an event of a connection to an upstream server.
    #[cold]
    pub(super) fn handle_upstream(&mut self, via: u32, ready: Ready) {
        let Some(own) = self.upstreams.get(via) else { return self.close_upstream(via) };
        match own.owner {
            Some(owner) if owner.stream == 0 => self.go_on_for_client(via, owner.number, ready),
            Some(owner) => self.go_on_for_stream(via, owner, ready),
            // A kept connection has ended, has sent unrequested bytes, or has reached its deadline.
            None => self.close_upstream(via),
        }
    }

    /// Continues to send a request: the connection may be established, or the upstream server's socket may have room.
    pub(super) fn go_on_sending(&mut self, via: u32, ready: Ready, exchange: &mut Exchange) -> Sending {
        let is_over = ready.is_write_closed() || ready.is_writable();
        let was_connecting = self.is_connecting(via);
        if was_connecting
            && is_over
            && let Some(own) = self.upstreams.get(via)
        {
            own.is_connecting = false;
            self.set_deadline(via, exchange.forward.proxy.response_timeout);
        }
        if ready.is_deadline() && !ready.is_readable() && !is_over {
            return Sending::Late;
        }
        if is_over && exchange.has_unsent() {
            let before = exchange.unsent_bytes();
            // What the server sent before it closed the connection may be a response.
            if !self.send_request(via, exchange) && !ready.is_readable() && !ready.is_write_closed() {
                return Sending::Failed;
            }
            if exchange.unsent_bytes() < before {
                self.set_deadline(via, exchange.forward.proxy.response_timeout);
            }
        }
        Sending::Going
    }

    /// Keeps the connection of an answered request for the next one, or closes it; counts and logs the response.
    pub(super) fn finish_exchange(&mut self, exchange: &mut Exchange, is_reusable: bool) {
        self.let_go(exchange, is_reusable);
        let status = exchange.status().unwrap_or(Status::BAD_GATEWAY);
        self.log_exchange(exchange, status);
    }

    fn let_go(&mut self, exchange: &mut Exchange, is_reusable: bool) {
        let Some(via) = exchange.upstream.take() else { return };
        let proxy = &exchange.forward.proxy;
        let kept_for = exchange.kept_for().map(|kept_for| kept_for.saturating_sub(BEFORE_ITS_END));
        let idle = kept_for.map_or(proxy.idle_timeout, |kept_for| kept_for.min(proxy.idle_timeout));
        let is_kept = is_reusable && !self.site.closing && !idle.is_zero();
        if is_kept && self.upstreams.keep(via, proxy.idle_connections) {
            self.set_deadline(via, idle);
            self.set_interest(via, landau_reactor::Interest::READABLE);
        } else {
            self.close_upstream(via);
        }
    }

    /// Ends an exchange whose client has disconnected.
    #[cold]
    pub(super) fn abandon_exchange(&mut self, exchange: &mut Exchange) {
        self.close_via(exchange);
        let status = exchange.status().unwrap_or(CLIENT_GONE);
        self.log_exchange(exchange, status);
    }

    /// Counts and logs a response.
    pub(super) fn log_exchange(&mut self, exchange: &Exchange, status: Status) {
        let head = (&exchange.head[..], &self.config.limits);
        self.site.finish_forward(&exchange.forward, head, status, exchange.content);
    }

    /// Ends the connection to an upstream server after it failed here.
    #[cold]
    pub(super) fn lose_upstream(&mut self, via: u32) {
        match self.upstreams.get(via).and_then(|own| own.owner) {
            Some(owner) if owner.stream == 0 => self.lose_for_client(via, owner.number),
            Some(owner) => self.lose_for_stream(via, owner),
            None => self.close_upstream(via),
        }
    }

    pub(super) fn close_via(&mut self, exchange: &mut Exchange) {
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
