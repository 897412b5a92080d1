//! An HTTP receiver (RFC 9112): it gives every request the same answer, with an optional delay, and answers a share of
//! them with an error.

use super::conduct::{Conduct, Latency};
use super::counters::{Counted, counters};
use super::draw::{Draws, Purpose};
use super::protocol::{Opened, Origin, Protocol, Step, Then};
use landau_wire::http::body::Body;
use landau_wire::http::head::Head;
use landau_wire::http::{Expectation, Limits, Method, Parsed, Request, Scan, Status};
use std::sync::Arc;
use std::time::Duration;

counters! {
    /// The counters of an HTTP sink.
    Counters {
        requests "requests answered",
        request_errors "requests answered with an injected error",
        malformed "connections closed because of a malformed request",
    }
}

/// The answers of an HTTP sink.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The length of the content in bytes.
    pub content_bytes: usize,
    /// How long an answer takes.
    pub latency: Latency,
    /// The share of the requests that get [`error`](Self::error), from 0 to 1.
    pub error_share: f64,
    /// The status of errors.
    pub error: u16,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            status: Status::OK.0,
            content_bytes: 0,
            latency: Latency::default(),
            error_share: 0.0,
            error: Status::SERVICE_UNAVAILABLE.0,
        }
    }
}

/// An HTTP sink.
#[derive(Debug)]
pub struct Http {
    answer: Answer,
    conduct: Conduct,
    idle: Duration,
    draws: Draws,
    limits: Limits,
    counters: Arc<Counters>,
}

/// The meaning of the next bytes.
#[derive(Debug)]
enum Stage {
    Head(Scan),
    /// The body of a request; the answer follows the body.
    Body(Body, Pending),
}

/// The properties of a request that its answer depends on.
#[derive(Debug, Clone, Copy)]
struct Pending {
    is_head: bool,
    keep_alive: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Session {
    number: u64,
    requests: u64,
    stage: Stage,
}

impl Http {
    /// Returns a sink.
    pub fn new(answer: Answer, conduct: Conduct, idle: Duration, seed: u64) -> Self {
        let draws = Draws::new(seed);
        Self { answer, conduct, idle, draws, limits: Limits::default(), counters: Arc::default() }
    }

    /// Answers a complete request.
    fn answer(&self, session: &mut Session, pending: Pending, consumed: usize, out: &mut Vec<u8>) -> Step {
        session.requests += 1;
        session.stage = Stage::Head(Scan::default());
        self.counters.requests.add(1);
        let index = session.requests;
        let share = self.answer.error_share;
        let is_error = share > 0.0 && self.draws.uniform(Purpose::Status, session.number, index) < share;
        let status = if is_error { self.answer.error } else { self.answer.status };
        self.counters.request_errors.add(u64::from(is_error));
        write(out, Status(status), self.answer.content_bytes, pending);
        let then = if pending.keep_alive { Then::Continue } else { Then::HangUp };
        Step { consumed, delay: self.answer.latency.draw(self.draws, session.number, index), then }
    }

    /// Refuses malformed input. The start of the next request is unknown.
    fn refuse(&self, status: Status, consumed: usize, out: &mut Vec<u8>) -> Step {
        self.counters.malformed.add(1);
        write(out, status, 0, Pending { is_head: false, keep_alive: false });
        Step { consumed, delay: Duration::ZERO, then: Then::HangUp }
    }
}

/// Appends a response. 204 and 304 have no content (RFC 9112 section 6.3).
fn write(out: &mut Vec<u8>, status: Status, content_bytes: usize, pending: Pending) {
    let has_content = !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED);
    let mut head = Head::new(out, status);
    if has_content {
        head = head.number("Content-Length", content_bytes as u64);
    }
    if !pending.keep_alive {
        head = head.field("Connection", b"close");
    }
    head.end();
    if has_content && !pending.is_head {
        out.resize(out.len() + content_bytes, b'x');
    }
}

fn pending(request: &Request<'_>) -> Pending {
    Pending { is_head: request.method() == Method::Head, keep_alive: request.keep_alive() }
}

impl Protocol for Http {
    type Session = Session;

    fn open(&mut self, origin: &Origin, _now_ms: u32, _out: &mut Vec<u8>) -> Opened<Session> {
        let plan = self.conduct.plan(self.draws, origin.number);
        let session = Session { number: origin.number, requests: 0, stage: Stage::Head(Scan::default()) };
        Opened { session, plan, step: Step::receive(0) }
    }

    fn step(&mut self, session: &mut Session, input: &[u8], _now_ms: u32, out: &mut Vec<u8>) -> Step {
        if input.is_empty() {
            return Step::receive(0);
        }
        match &mut session.stage {
            Stage::Head(scan) => match scan.parse(input, &self.limits) {
                Ok(Parsed::Partial) => Step::receive(0),
                Ok(Parsed::Complete { request, consumed }) => {
                    let body = Body::new(request.body());
                    if body.is_empty() {
                        return self.answer(session, pending(&request), consumed, out);
                    }
                    if request.expectation() == Expectation::Continue {
                        // The client may wait for it before it sends the body (RFC 9110 section 10.1.1).
                        Head::new(out, Status::CONTINUE).end();
                    }
                    session.stage = Stage::Body(body, pending(&request));
                    Step { consumed, delay: Duration::ZERO, then: Then::Continue }
                }
                Err(reject) => self.refuse(reject.status, input.len(), out),
            },
            Stage::Body(body, pending) => {
                let pending = *pending;
                match body.skip(input) {
                    Ok((consumed, true)) => self.answer(session, pending, consumed, out),
                    Ok((consumed, false)) => Step::receive(consumed),
                    Err(_) => self.refuse(Status::BAD_REQUEST, input.len(), out),
                }
            }
        }
    }

    fn expire(&mut self, _session: &mut Session, _out: &mut Vec<u8>) {}

    fn close(&mut self, _session: &mut Session) {}

    fn idle_timeout(&self, _session: &Session) -> Duration {
        self.idle
    }

    fn counters(&self) -> Arc<dyn Counted> {
        self.counters.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// Returns the output of a sink for these bytes in pieces of `size`, and the delays of its steps.
    fn answer(http: &mut Http, bytes: &[u8], size: usize) -> (String, Vec<Duration>) {
        let origin = Origin { number: 0, peer: ADDRESS, local: ADDRESS };
        let (mut out, mut kept, mut delays) = (Vec::new(), Vec::new(), Vec::new());
        let mut session = http.open(&origin, 0, &mut out).session;
        for piece in bytes.chunks(size) {
            kept.extend_from_slice(piece);
            loop {
                let before = out.len();
                let step = http.step(&mut session, &kept, 0, &mut out);
                kept.drain(..step.consumed);
                if out.len() > before {
                    delays.push(step.delay);
                }
                match step.then {
                    Then::Receive => break,
                    Then::Continue => {}
                    Then::Commit | Then::Secure | Then::Close | Then::HangUp => {
                        return (String::from_utf8(out).unwrap(), delays);
                    }
                }
            }
        }
        (String::from_utf8(out).unwrap(), delays)
    }

    fn http(answer: Answer) -> Http {
        Http::new(answer, Conduct::default(), Duration::from_secs(60), 1)
    }

    #[test]
    fn requests_are_answered_in_order_however_they_are_split() {
        let requests = "GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc\
            PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n\
            HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n";
        let one = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxx";
        let last = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
        for size in 1..=requests.len() {
            let mut http = http(Answer { content_bytes: 2, ..Answer::default() });
            assert_eq!(answer(&mut http, requests.as_bytes(), size).0, format!("{one}{one}{one}{last}"), "{size}");
            assert_eq!(http.counters.requests.get(), 4);
        }
    }

    /// A client that waits for permission to send its body once got no answer at all.
    #[test]
    fn a_client_that_expects_100_is_told_to_continue() {
        for (version, interim) in [("1.1", "HTTP/1.1 100 Continue\r\n\r\n"), ("1.0", "")] {
            let head = format!("POST / HTTP/{version}\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
            assert_eq!(answer(&mut http(Answer::default()), head.as_bytes(), usize::MAX).0, interim);
            let whole = format!("{head}abc");
            for size in 1..=whole.len() {
                let (reply, _) = answer(&mut http(Answer::default()), whole.as_bytes(), size);
                let last = reply.strip_prefix(interim).unwrap();
                assert!(last.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"), "{reply:?} by {size}");
            }
        }
    }

    #[test]
    fn malformed_requests_end_the_connection() {
        for text in ["GET /\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"] {
            let mut http = http(Answer::default());
            let (reply, _) = answer(&mut http, text.as_bytes(), usize::MAX);
            assert!(reply.starts_with("HTTP/1.1 400 ") && reply.contains("Connection: close\r\n"), "{reply}");
            assert_eq!(http.counters.malformed.get(), 1);
        }
    }

    #[test]
    fn a_share_of_the_requests_gets_the_error() {
        let requests = "GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
        let latency = Latency::Fixed(Duration::from_millis(3));
        let of = || http(Answer { error_share: 0.2, latency, status: 204, ..Answer::default() });
        let (reply, delays) = answer(&mut of(), requests.as_bytes(), usize::MAX);
        let errors = reply.matches("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n").count();
        assert!((140..260).contains(&errors), "{errors}");
        assert_eq!(reply.matches("HTTP/1.1 204 No Content\r\n\r\n").count(), 1000 - errors);
        assert!(delays.len() == 1000 && delays.iter().all(|delay| *delay == Duration::from_millis(3)));
        assert_eq!(answer(&mut of(), requests.as_bytes(), 10).0, reply, "equal seeds, equal errors");
    }
}
