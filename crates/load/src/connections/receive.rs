//! Receives responses and the end of a connection.

use super::{Connections, Event};
use crate::clock::Clock;
use crate::connection::{Connection, State};
use crate::failure::{Failure, Reason};
use crate::tls::Received;
use landau_reactor::Interest;
use landau_sys::stream;

pub(super) const CLOSED: &str = "the server closed the connection";

impl<C: Clock> Connections<C> {
    /// Receives what has arrived. If the peer closed the connection, reads to the end of the stream. Otherwise stops
    /// when a call does not fill the buffer, which saves the call that would find nothing.
    #[inline]
    pub(super) fn receive(&mut self, id: u32, is_closed: bool) -> Event {
        let mut responses = 0;
        // The reported readiness covers only the first bytes. Bytes that are read later may have arrived in the
        // meantime.
        let mut is_reported = true;
        loop {
            let Some(connection) = self.table.get_mut(id) else { return Event::None };
            let received = match &mut connection.tls {
                None => receive_plain(connection, &mut self.buffer),
                Some(session) => session.receive(&connection.fd, &mut self.buffer),
            };
            let count = match received {
                Ok(Received::Bytes(count)) => count,
                Ok(Received::Nothing) => {
                    self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
                    return self.after_responses(id, responses);
                }
                Ok(Received::End) => return self.ended(id, is_reported),
                Err(reason) => return self.fail(id, reason),
            };
            self.tick();
            let read = if self.http2 {
                self.read_streams(id, count, is_reported)
            } else {
                self.read_responses(id, count, is_reported)
            };
            match read {
                Ok(count) => responses += count,
                Err(reason) => return self.fail(id, reason),
            }
            is_reported = false;
            let Some(connection) = self.table.get(id) else { return Event::None };
            if connection.tls.is_none() && count < self.buffer.len() && !is_closed {
                self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
                return self.after_responses(id, responses);
            }
        }
    }

    /// Reads the first `count` bytes of the buffer as responses. `is_reported` is whether the last wait reported their
    /// readiness. Returns the number of complete responses.
    #[inline]
    fn read_responses(&mut self, id: u32, count: usize, is_reported: bool) -> Result<u32, Reason> {
        let Self { table, servers, buffer, measurement, readiness, last, now_ns, in_flight, .. } = self;
        let Some(connection) = table.get_mut(id) else { return Ok(0) };
        let server = servers.get_mut(connection.server);
        let mut rest = &buffer[..count];
        measurement.received(count);
        let mut responses = 0;
        while !rest.is_empty() {
            let Some(request) = connection.in_flight.front_mut() else {
                return Err((Failure::UnsolicitedResponse, describe_unsolicited(rest)));
            };
            let asked_ns = if is_reported { request.sent_ns } else { u64::MAX };
            let arrival = readiness.arrival(asked_ns, *now_ns);
            if request.first_byte_ns == 0 {
                request.first_byte_ns = arrival.arrived_ns;
            }
            let method = server.method(request.request as usize);
            let response = connection.reader.read(&mut rest, method, &mut server.head_cache)?;
            if connection.reader.take_interim() {
                // The first byte of the final response counts, if any of it has arrived.
                let has_begun = response.is_some() || connection.reader.is_reading();
                request.first_byte_ns = if has_begun { arrival.arrived_ns } else { 0 };
            }
            let Some(response) = response else { break };
            if let Some(late) = measurement.lateness(request, arrival) {
                return Err(late);
            }
            let request = *request;
            connection.in_flight.pop_front();
            responses += 1;
            *in_flight -= 1;
            connection.is_last |= !response.is_reusable;
            *last = measurement.response(&request, response, server, arrival);
            if !response.is_reusable {
                break;
            }
        }
        Ok(responses)
    }

    /// Returns `Ready` if the connection accepts another request, and `Closed` after its last response.
    #[inline]
    fn after_responses(&mut self, id: u32, responses: u32) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        if connection.http2.is_some() {
            return self.after_streams(id, responses);
        }
        if !connection.is_last {
            return if responses > 0 { Event::Ready(id) } else { Event::None };
        }
        if responses == 0 || (!connection.in_flight.is_empty() && connection.sent == self.per_connection) {
            return Event::None;
        }
        // Requests behind the last response are lost with the connection.
        let lost = std::mem::take(&mut connection.in_flight);
        connection.state = State::Closing;
        connection.since_ns = self.now_ns;
        self.in_flight -= lost.len() as u64;
        self.table.open -= 1;
        for request in &lost {
            self.measurement.fail_request(request, Failure::ClosedBeforeResponse, || CLOSED.to_owned());
        }
        Event::Closed { id, was_established: true }
    }

    /// Handles an end of stream from the server.
    fn ended(&mut self, id: u32, is_reported: bool) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        let Some(request) = connection.in_flight.front().copied() else {
            if !connection.is_last {
                self.measurement.closed_while_idle();
            }
            return self.close(id, false);
        };
        let whole = if connection.http2.is_some() { None } else { connection.reader.end() };
        let Some(response) = whole else {
            let is_before = request.first_byte_ns == 0;
            let failure = if is_before { Failure::ClosedBeforeResponse } else { Failure::ClosedDuringResponse };
            return self.fail(id, (failure, CLOSED.to_owned()));
        };
        let server = connection.server;
        let now_ns = self.tick();
        let arrival = self.readiness.arrival(if is_reported { request.sent_ns } else { u64::MAX }, now_ns);
        if let Some(late) = self.measurement.lateness(&request, arrival) {
            return self.fail(id, late);
        }
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        connection.in_flight.pop_front();
        let is_empty = connection.in_flight.is_empty();
        self.in_flight -= 1;
        let server = self.servers.get_mut(server);
        self.last = self.measurement.response(&request, response, server, arrival);
        if is_empty {
            return self.close(id, false);
        }
        self.fail(id, (Failure::ClosedBeforeResponse, CLOSED.to_owned()))
    }

    /// Reads from a connection after its last response until the server closes it.
    pub(super) fn await_close(&mut self, id: u32) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        loop {
            match stream::receive(&connection.fd, &mut self.buffer) {
                // Bytes after the last response are ignored.
                Ok(1..) => {}
                Err(error) if error.is_would_block() => {
                    self.reactor.clear_readiness(&connection.fd, Interest::READABLE);
                    return Event::None;
                }
                Ok(0) | Err(_) => {
                    self.close(id, false);
                    return Event::None;
                }
            }
        }
    }
}

#[inline]
fn receive_plain(connection: &Connection, buffer: &mut [u8]) -> Result<Received, Reason> {
    match stream::receive(&connection.fd, buffer) {
        Ok(0) => Ok(Received::End),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if error.is_would_block() => Ok(Received::Nothing),
        Err(error) => Err((Failure::of_transfer(error), error.to_string())),
    }
}

/// Describes bytes that arrived without a request, with their first line: a server at its limit often sends 503.
#[cold]
pub(super) fn describe_unsolicited(bytes: &[u8]) -> String {
    const MOST: usize = 80;
    let line = bytes.split(|&byte| byte == b'\r' || byte == b'\n').next().unwrap_or_default();
    let start = line[..line.len().min(MOST)].escape_ascii();
    format!("{} bytes, beginning with: {start}", bytes.len())
}
