//! Handshakes: from `connect` to a connection that accepts requests.

use super::receive::describe_unsolicited;
use super::{Arrival, Connections, Event, http2};
use crate::clock::Clock;
use crate::connection::State;
use crate::failure::Failure;
use crate::tls::{Received, TlsSession};
use landau_reactor::Interest;
use landau_sys::stream;

impl<C: Clock> Connections<C> {
    /// Continues after the kernel's handshake, which may have failed.
    pub(super) fn connected(&mut self, id: u32) -> Event {
        self.tick();
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        if let Err(error) = stream::take_error(&connection.fd) {
            return self.fail(id, (Failure::of_connecting(error), error.to_string()));
        }
        let start_ns = connection.since_ns;
        let Arrival { arrived_ns, .. } = self.readiness.arrival(start_ns, self.now_ns);
        connection.since_ns = arrived_ns;
        self.measurement.connected(start_ns, arrived_ns - start_ns);
        let Some(config) = self.servers.tls_config(connection.server) else { return self.opened(id) };
        match TlsSession::new(config) {
            Ok(session) => connection.tls = Some(Box::new(session)),
            Err(reason) => return self.fail(id, reason),
        }
        connection.state = State::Securing;
        self.secure(id)
    }

    /// Continues the TLS handshake.
    pub(super) fn secure(&mut self, id: u32) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        let Some(session) = &mut connection.tls else { return Event::None };
        let received = session.flush(&connection.fd).and_then(|()| session.receive(&connection.fd, &mut self.buffer));
        // With HTTP/2 the server may send first: its SETTINGS may arrive with the end of the handshake. Readiness is
        // not cleared then, so that any further bytes are read in the next turn.
        let mut early = 0;
        match received {
            Err((_, reason)) => return self.fail(id, (Failure::Tls, reason)),
            Ok(Received::End) => {
                return self.fail(id, (Failure::Tls, "the server closed during the handshake".to_owned()));
            }
            Ok(Received::Bytes(count)) if self.http2 && !session.is_handshaking() => early = count,
            Ok(Received::Bytes(count)) => {
                let detail = describe_unsolicited(&self.buffer[..count]);
                return self.fail(id, (Failure::UnsolicitedResponse, detail));
            }
            Ok(Received::Nothing) => self.reactor.clear_readiness(&connection.fd, Interest::READABLE),
        }
        let (is_done, wants_write) = (!session.is_handshaking(), session.wants_write());
        let interest = if wants_write { Interest::BOTH } else { Interest::READABLE };
        let _ = self.reactor.set_interest(&connection.fd, interest);
        if !is_done {
            return Event::None;
        }
        if self.http2 && !session.speaks_http2() {
            let detail = "the server does not support HTTP/2 (ALPN did not select h2); omit --http2";
            return self.fail(id, (Failure::Tls, detail.to_owned()));
        }
        let (start_ns, since_ns) = (connection.start_ns, connection.since_ns);
        let handshake_ns = self.tick() - since_ns;
        self.measurement.secured(start_ns, handshake_ns);
        let event = self.opened(id);
        if early > 0 && event == Event::Open(id) { self.read_early(id, early) } else { event }
    }

    /// Reads the bytes that arrived with the end of the handshake: the first `count` bytes of the buffer.
    fn read_early(&mut self, id: u32, count: usize) -> Event {
        if let Err(reason) = self.read_streams(id, count, true) {
            return self.fail(id, reason);
        }
        match self.after_streams(id, 0) {
            // The server has already sent GOAWAY.
            closed @ Event::Closed { .. } => closed,
            _ => Event::Open(id),
        }
    }

    fn opened(&mut self, id: u32) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        // If this fails, the connection still counts as one that is being opened.
        if self.http2
            && let Err(reason) = http2::begin(connection)
        {
            return self.fail(id, reason);
        }
        connection.state = State::Open;
        let tls_waits = connection.tls.as_ref().is_some_and(|session| session.wants_write());
        let wants_write = tls_waits || !connection.unsent.is_empty();
        let _ =
            self.reactor.set_interest(&connection.fd, if wants_write { Interest::BOTH } else { Interest::READABLE });
        self.table.opening -= 1;
        self.table.open += 1;
        self.measurement.opened();
        Event::Open(id)
    }
}
