//! Sending requests.

use super::{Connections, Event};
use crate::clock::Clock;
use crate::connection::{Connection, InFlight};
use crate::failure::{Failure, Reason};
use crate::http2::Http2;
use landau_reactor::Interest;
use landau_sys::stream;

impl<C: Clock> Connections<C> {
    /// Sends as many requests as the connection has room for, at most `at_most`. Returns their number, and the event if
    /// the connection failed: its requests count as sent, and have failed with it.
    #[inline]
    pub(crate) fn request(&mut self, id: u32, due_ns: u64, at_most: u64) -> (u64, Option<Event>) {
        let Self { table, servers, batch, now_ns, in_flight, .. } = self;
        let Some(connection) = table.get_mut(id) else { return (0, None) };
        let server = servers.get_mut(connection.server);
        let most = self.pipeline.min(connection.most_streams());
        let room = most.saturating_sub(connection.in_flight.len()) as u64;
        let count = room.min(at_most).min(self.per_connection - connection.sent);
        if count == 0 {
            return (0, None);
        }
        // A single request is sent from where it is, several are put together.
        let mut single: Option<(usize, bool)> = None;
        batch.clear();
        for number in 0..count {
            let request = server.next_request();
            connection.is_last |= connection.sent + 1 == self.per_connection;
            let is_first = connection.sent == 0;
            let mut entry =
                InFlight { request: request as u32, stream: 0, is_first, due_ns, sent_ns: *now_ns, first_byte_ns: 0 };
            connection.sent += 1;
            if let Some(http2) = &mut connection.http2 {
                entry.stream = http2.request(server.request_fields(request), batch);
                connection.is_last |= http2.is_used_up();
                if connection.is_last {
                    Http2::finish(batch);
                }
            }
            connection.in_flight.push_back(entry);
            if connection.http2.is_some() {
                continue;
            }
            if number == 0 && count == 1 {
                single = Some((request, connection.is_last));
            } else {
                batch.extend_from_slice(server.request_bytes(request, connection.is_last));
            }
        }
        self.measurement.sent(due_ns, count);
        *in_flight += count;
        let bytes: &[u8] = match single {
            Some((request, is_last)) => server.request_bytes(request, is_last),
            None => batch,
        };
        match send(connection, bytes) {
            Ok(is_complete) => {
                if !is_complete {
                    self.reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
                    let _ = self.reactor.set_interest(&connection.fd, Interest::BOTH);
                }
                (count, None)
            }
            Err(reason) => (count, Some(self.fail(id, reason))),
        }
    }

    /// Sends what the kernel did not accept before.
    #[cold]
    pub(super) fn continue_sending(&mut self, id: u32) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        let unsent = std::mem::take(&mut connection.unsent);
        match send(connection, &unsent) {
            Ok(true) => {
                let _ = self.reactor.set_interest(&connection.fd, Interest::READABLE);
                Event::None
            }
            Ok(false) => {
                self.reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
                Event::None
            }
            Err(reason) => self.fail(id, reason),
        }
    }
}

/// Sends what the kernel accepts and keeps the rest. Returns whether it accepted everything.
#[inline]
pub(super) fn send(connection: &mut Connection, bytes: &[u8]) -> Result<bool, Reason> {
    if let Some(session) = &mut connection.tls {
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
        Err(error) => Err((Failure::of_transfer(error), error.to_string())),
    }
}
