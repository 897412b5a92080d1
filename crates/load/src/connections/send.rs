//! Sending requests.

use super::{Connections, Event};
use crate::clock::Clock;
use crate::connection::{Connection, InFlight};
use crate::failure::{Failure, Reason};
use crate::http2::Http2;
use landau_reactor::{Interest, Reactor};
use landau_sys::stream;

impl<C: Clock> Connections<C> {
    /// Sends as many requests as the connection has room for, at most `at_most`. Returns their number, and the event if
    /// the connection failed; its requests then count as sent and as failed.
    #[inline]
    pub(crate) fn request(&mut self, id: u32, due_ns: u64, at_most: u64) -> (u64, Option<Event>) {
        let Self { table, servers, batch, now_ns, in_flight, .. } = self;
        let Some(connection) = table.get_mut(id) else { return (0, None) };
        let server = servers.get_mut(connection.server);
        let most = self.pipeline.min(connection.most_streams());
        let room = most.saturating_sub(connection.in_flight.len()) as u64;
        let mut count = room.min(at_most).min(self.per_connection - connection.sent);
        if count == 0 {
            return (0, None);
        }
        // A single request is sent from its own buffer; several are batched.
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
                if connection.is_last {
                    // There may be no stream ID left for another request.
                    count = number + 1;
                    break;
                }
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
            Ok(is_refused) => {
                if is_refused {
                    await_room(&mut self.reactor, connection);
                }
                (count, None)
            }
            Err(reason) => (count, Some(self.fail(id, reason))),
        }
    }

    /// Sends the bytes that the kernel did not accept before.
    #[cold]
    pub(super) fn continue_sending(&mut self, id: u32) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        let unsent = std::mem::take(&mut connection.unsent);
        match send(connection, &unsent) {
            Ok(false) => {
                let _ = self.reactor.set_interest(&connection.fd, Interest::READABLE);
                Event::None
            }
            Ok(true) => {
                self.reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
                Event::None
            }
            Err(reason) => self.fail(id, reason),
        }
    }
}

/// Waits for room for bytes that the kernel refused. Must not be called for bytes that only wait behind earlier ones:
/// the kernel may have reported room in the meantime, and an edge-triggered backend reports it only once.
#[inline]
pub(super) fn await_room(reactor: &mut Reactor, connection: &Connection) {
    reactor.clear_readiness(&connection.fd, Interest::WRITABLE);
    let _ = reactor.set_interest(&connection.fd, Interest::BOTH);
}

/// Sends what the kernel accepts and keeps the rest. Returns whether the kernel refused any; if so, it will report when
/// there is room. Bytes queued behind earlier ones do not count as refused, because they were not offered to the
/// kernel.
#[inline]
pub(super) fn send(connection: &mut Connection, bytes: &[u8]) -> Result<bool, Reason> {
    if let Some(session) = &mut connection.tls {
        session.send(&connection.fd, bytes)?;
        return Ok(session.wants_write());
    }
    if !connection.unsent.is_empty() {
        connection.unsent.extend_from_slice(bytes);
        return Ok(false);
    }
    match stream::send(&connection.fd, bytes, false) {
        Ok(count) if count == bytes.len() => Ok(false),
        Ok(count) => {
            connection.unsent.extend_from_slice(&bytes[count..]);
            Ok(true)
        }
        Err(error) if error.is_would_block() => {
            connection.unsent.extend_from_slice(bytes);
            Ok(true)
        }
        Err(error) => Err((Failure::of_transfer(error), error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::plan::Load;
    use crate::target::Endpoint;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    /// Further requests once got stream IDs that do not exist.
    #[test]
    fn no_request_follows_the_last_stream_of_a_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut plan = crate::simulation::plan(Load::Closed);
        plan.origins[0].endpoint = Endpoint::Unix(path);
        (plan.http2, plan.pipeline) = (true, 8);
        let reactor = Reactor::new(plan.backend.parse().unwrap()).unwrap();
        let mut connections = Connections::new(&plan, reactor, SystemClock::coarse()).unwrap();
        connections.connect();
        let id = loop {
            connections.wait(u64::MAX, Duration::from_secs(1)).unwrap();
            if let Some(Event::Open(id)) = connections.next_event() {
                break id;
            }
        };
        connections.table.get_mut(id).unwrap().http2.as_mut().unwrap().leave_streams(3);
        assert_eq!(connections.request(id, 0, 8), (3, None));
        assert_eq!((connections.in_flight_count(), connections.has_room(id)), (3, false));
    }
}
