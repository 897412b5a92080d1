//! Connections that speak HTTP/2: responses that arrive in any order, and the replies that the protocol requires.

use super::receive::CLOSED;
use super::send::{await_room, send};
use super::timeout::unanswered;
use super::{Connections, Event};
use crate::clock::Clock;
use crate::connection::{Connection, InFlight, State};
use crate::failure::{Failure, Reason};
use crate::http2::{Arrived, Http2};
use landau_wire::http::Method;

/// Starts HTTP/2 on a connection: sends the preface, `SETTINGS` and a `WINDOW_UPDATE`.
pub(super) fn begin(connection: &mut Connection) -> Result<(), Reason> {
    let mut out = Vec::new();
    connection.http2 = Some(Box::new(Http2::new(&mut out)));
    send(connection, &out).map(drop)
}

/// Removes and returns the request of a stream.
fn take(connection: &mut Connection, stream: u32) -> Option<InFlight> {
    let place = connection.in_flight.iter().position(|request| request.stream == stream)?;
    connection.in_flight.remove(place)
}

impl<C: Clock> Connections<C> {
    /// Reads the first `count` bytes of the buffer as frames. Returns the number of requests that were answered or
    /// lost.
    pub(super) fn read_streams(&mut self, id: u32, count: usize, is_reported: bool) -> Result<u32, Reason> {
        let Self { table, servers, buffer, measurement, readiness, last, now_ns, in_flight, .. } = self;
        let Some(connection) = table.get_mut(id) else { return Ok(0) };
        let Some(mut http2) = connection.http2.take() else { return Ok(0) };
        let server = servers.get_mut(connection.server);
        measurement.received(count);
        http2.heard_ns = *now_ns;
        let (mut rest, mut ended) = (&buffer[..count], 0);
        while let Some(arrived) = http2.read(&mut rest)? {
            let arrival =
                |request: &InFlight| readiness.arrival(if is_reported { request.sent_ns } else { u64::MAX }, *now_ns);
            match arrived {
                Arrived::Head(stream) => {
                    if let Some(request) = connection.in_flight.iter_mut().find(|own| own.stream == stream) {
                        request.first_byte_ns = arrival(request).arrived_ns;
                    }
                }
                Arrived::End(stream, response, promised) => {
                    let Some(mut request) = take(connection, stream) else {
                        return Err((Failure::UnsolicitedResponse, format!("a response on stream {stream}")));
                    };
                    *in_flight -= 1;
                    ended += 1;
                    let arrival = arrival(&request);
                    if request.first_byte_ns == 0 {
                        request.first_byte_ns = arrival.arrived_ns;
                    }
                    let has_content = server.method(request.request as usize) != Method::Head && response.status != 304;
                    if let Some((failure, detail)) = measurement.lateness(&request, arrival) {
                        measurement.unanswered(&request, *now_ns);
                        measurement.fail_request(&request, failure, || detail);
                    } else if let Some(promised) = promised.filter(|&bytes| has_content && bytes != response.length) {
                        measurement.fail_request(&request, Failure::InvalidResponse, || {
                            format!("{} bytes of content; its content-length is {promised}", response.length)
                        });
                    } else {
                        *last = measurement.response(&request, response, server, arrival);
                    }
                }
                Arrived::Reset(stream, code) => {
                    if let Some(request) = take(connection, stream) {
                        *in_flight -= 1;
                        ended += 1;
                        let detail = || format!("the server reset the stream ({})", code.name());
                        measurement.fail_request(&request, Failure::Reset, detail);
                    }
                }
                Arrived::GoAway(last_stream) => {
                    connection.is_last = true;
                    connection.in_flight.retain(|request| {
                        let is_answered = request.stream <= last_stream;
                        if !is_answered {
                            *in_flight -= 1;
                            ended += 1;
                            measurement.fail_request(request, Failure::ClosedBeforeResponse, || CLOSED.to_owned());
                        }
                        is_answered
                    });
                }
            }
        }
        let replies = std::mem::take(&mut http2.replies);
        connection.http2 = Some(http2);
        self.send_frames(id, &replies)?;
        Ok(ended)
    }

    /// Sends frames other than those of requests.
    fn send_frames(&mut self, id: u32, frames: &[u8]) -> Result<(), Reason> {
        let Some(connection) = self.table.get_mut(id).filter(|_| !frames.is_empty()) else { return Ok(()) };
        if send(connection, frames)? {
            await_room(&mut self.reactor, connection);
        }
        Ok(())
    }

    /// Cancels the streams of a connection whose requests have waited longer than the timeout. The others continue,
    /// because the server still sends on this connection.
    pub(super) fn cancel_streams(&mut self, id: u32) -> Event {
        let Self { table, measurement, timeouts, now_ns, in_flight, .. } = self;
        let Some(connection) = table.get_mut(id) else { return Event::None };
        let Connection { http2: Some(http2), in_flight: requests, .. } = connection else { return Event::None };
        let (mut frames, mut ended) = (Vec::new(), 0);
        requests.retain(|request| {
            let waited_ns = now_ns.saturating_sub(request.sent_ns);
            let is_waiting = waited_ns <= timeouts.timeout_ns;
            if !is_waiting {
                http2.cancel(request.stream, &mut frames);
                measurement.unanswered(request, *now_ns);
                measurement.fail_request(request, Failure::Timeout, || unanswered(waited_ns));
                ended += 1;
            }
            is_waiting
        });
        *in_flight -= u64::from(ended);
        match self.send_frames(id, &frames) {
            Ok(()) => self.after_streams(id, ended),
            Err(reason) => self.fail(id, reason),
        }
    }

    /// Returns `Ready` if the connection accepts another request: after a response, or if the server raised its limit
    /// of streams. The latter may be the only event of a connection without requests in flight. After its last response
    /// the connection waits for the server to close it.
    pub(super) fn after_streams(&mut self, id: u32, ended: u32) -> Event {
        let Some(connection) = self.table.get_mut(id) else { return Event::None };
        let has_grown = connection.http2.as_mut().is_some_and(|http2| http2.take_growth());
        if !connection.is_last {
            return if ended > 0 || has_grown { Event::Ready(id) } else { Event::None };
        }
        if !connection.in_flight.is_empty() {
            return Event::None;
        }
        if ended == 0 {
            self.measurement.closed_while_idle();
        }
        connection.state = State::Closing;
        connection.since_ns = self.now_ns;
        let was_established = connection.sent > 0;
        self.table.open -= 1;
        Event::Closed { id, was_established }
    }
}
