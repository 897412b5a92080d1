//! From received bytes to responses: whole requests, one after another.
//!
//! No descriptor is involved: received bytes are the input, and the bytes to be sent are the output.

use crate::config::Config;
use crate::send_buffers::SendBuffers;
use crate::site::{Site, Steps};
use landau_wire::http::body::{Body, Malformed};
use landau_wire::http::{BodyLength, Expectation, Limits, Parsed, Reject, Request, Scan, Status, request};
use landau_wire::http2::PREFACE_LINE;

/// A request's body is read and discarded up to this size, so that the connection can be kept. A longer body is
/// refused.
pub(crate) const SKIPPED_BYTES: u64 = 64 << 10;

/// The next step of a connection after its responses have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Wait for the next request.
    Idle,
    /// Wait for the rest of a head.
    Head,
    /// Wait for the rest of the body, then answer the request.
    Body(Unwanted),
    /// Answer the remaining requests.
    More,
    /// Wait until another thread has looked up what the next request asks for. If its body arrived in parts, the body
    /// has ended, and the input is the request's head, then what follows the body.
    LookUp { body: Option<Unwanted>, steps: Steps },
    /// Forward the next request to an upstream server.
    Forward { steps: Steps },
    /// Continue a forwarded request.
    Relay,
    /// Switch to HTTP/2, whose preface has begun.
    Http2,
    /// Close the connection; `true` if the client may still be sending.
    Close(bool),
}

impl After {
    /// Returns the step for a request that `site` did not answer: it waits for another thread, or is forwarded.
    pub(crate) fn look_up(site: &mut Site, body: Option<Unwanted>) -> Self {
        let steps = std::mem::take(&mut site.steps);
        if site.forward.is_some() { Self::Forward { steps } } else { Self::LookUp { body, steps } }
    }
}

/// A request's body that is read only to find the request that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unwanted {
    /// The length of the head. The head is kept until the body has ended and the request is answered.
    head_bytes: usize,
    body: Body,
    /// The number of bytes that may still follow.
    left: u64,
    pub(crate) has_ended: bool,
}

impl Unwanted {
    fn new(head_bytes: usize, length: BodyLength) -> Self {
        Self { head_bytes, body: Body::new(length), left: SKIPPED_BYTES, has_ended: false }
    }

    /// Splits off the input that follows the head.
    pub(crate) fn split(&self, input: &mut Vec<u8>) -> Vec<u8> {
        input.split_off(self.head_bytes.min(input.len()))
    }

    /// Skips the bytes of the body; returns their number, and whether the body ended.
    pub(crate) fn skip(&mut self, bytes: &[u8]) -> Result<(usize, bool), Reject> {
        if self.has_ended {
            return Ok((0, true));
        }
        let refused = |Malformed(reason)| Reject { status: Status::BAD_REQUEST, reason };
        let (used, has_ended) = self.body.skip(bytes).map_err(refused)?;
        self.left = self.left.saturating_sub(used as u64);
        if self.left == 0 && !has_ended {
            return Err(Reject { status: Status::CONTENT_TOO_LARGE, reason: "body too long" });
        }
        self.has_ended = has_ended;
        Ok((used, has_ended))
    }
}

/// The input left after all complete requests were answered, and the next step.
#[derive(Debug)]
pub(crate) struct Remainder {
    pub(crate) input: Vec<u8>,
    /// The progress of the scan for the end of the head in `input`.
    pub(crate) scan: Scan,
    pub(crate) after: After,
}

impl Remainder {
    #[inline]
    pub(crate) fn new(mut input: Vec<u8>, scan: Scan, after: After) -> Self {
        if let After::Body(unwanted) = after {
            // The body's bytes were skipped.
            input.truncate(unwanted.head_bytes);
        }
        Self { input, scan, after }
    }

    /// Returns the end of the connection: further bytes are ignored.
    pub(crate) fn end() -> Self {
        Self { input: Vec::new(), scan: Scan::default(), after: After::Close(true) }
    }
}

/// Answers the requests in the input until the send buffers are full. Returns the number of bytes used, and the next
/// step.
#[inline]
pub(crate) fn answer(
    site: &mut Site,
    config: &Config,
    input: &[u8],
    scan: &mut Scan,
    send_buffers: &mut SendBuffers,
) -> (usize, After) {
    let mut at = 0;
    loop {
        if send_buffers.close {
            return (input.len(), After::Close(at < input.len()));
        }
        if at == input.len() {
            return (at, After::Idle);
        }
        if send_buffers.is_full() {
            return (at, After::More);
        }
        match scan.parse(&input[at..], &config.limits) {
            Err(_) if at == 0 && config.http2 && input.starts_with(PREFACE_LINE) => return (0, After::Http2),
            Err(reject) => return refuse(site, reject, input, at, send_buffers),
            Ok(Parsed::Partial) => return (at, After::Head),
            Ok(Parsed::Complete { request, consumed }) => {
                *scan = Scan::default();
                if request.body() == BodyLength::Bytes(0) {
                    if !site.answer(&request, send_buffers) {
                        return (at, After::look_up(site, None));
                    }
                    at += consumed;
                    continue;
                }
                match with_body(site, &request, consumed, &input[at + consumed..], send_buffers) {
                    Err(reject) => return refuse(site, reject, input, at, send_buffers),
                    Ok(Ok(skipped)) => at += consumed + skipped,
                    Ok(Err(after)) => return (at, after),
                }
            }
        }
    }
}

/// Answers a request with a body and returns the body's length if the body is complete. Otherwise returns the next
/// step.
#[cold]
fn with_body(
    site: &mut Site,
    request: &Request<'_>,
    head_bytes: usize,
    rest: &[u8],
    send_buffers: &mut SendBuffers,
) -> Result<Result<usize, After>, Reject> {
    if site.is_forwarded(request) {
        return Ok(with_body_for_upstream(site, request, rest, send_buffers));
    }
    if matches!(request.body(), BodyLength::Bytes(length) if length > SKIPPED_BYTES) {
        return Err(Reject { status: Status::CONTENT_TOO_LARGE, reason: "body too long" });
    }
    let mut unwanted = Unwanted::new(head_bytes, request.body());
    let (used, has_ended) = unwanted.skip(rest)?;
    // A client that expects `100 Continue` gets the final response instead, and need not send the body.
    if !has_ended && request.expectation() == Expectation::None {
        return Ok(Err(After::Body(unwanted)));
    }
    Ok(answer_with_body(site, request, has_ended.then_some(used), send_buffers))
}

/// Forwards a request with a body before the body has arrived. If the rules refuse the request, returns the length of
/// the body if it is complete; otherwise the connection ends.
fn with_body_for_upstream(
    site: &mut Site,
    request: &Request<'_>,
    rest: &[u8],
    send_buffers: &mut SendBuffers,
) -> Result<usize, After> {
    let skipped = Unwanted::new(0, request.body()).skip(rest).ok().filter(|(_, has_ended)| *has_ended);
    answer_with_body(site, request, skipped.map(|(used, _)| used), send_buffers)
}

/// Answers a request; `used` is the length of its body if that is complete. Otherwise the server cannot tell a body
/// from further requests in what follows. The response then announces the end of the connection, and the connection
/// ends.
fn answer_with_body(
    site: &mut Site,
    request: &Request<'_>,
    used: Option<usize>,
    send_buffers: &mut SendBuffers,
) -> Result<usize, After> {
    site.must_close = used.is_none();
    let is_answered = site.answer(request, send_buffers);
    site.must_close = false;
    match used {
        _ if !is_answered => Err(After::look_up(site, None)),
        Some(used) => Ok(used),
        None => Err(After::Close(true)),
    }
}

/// Answers a request whose body has ended; returns false if the request waits for another thread.
#[cold]
#[must_use]
pub(crate) fn answer_head(site: &mut Site, limits: &Limits, head: &[u8], send_buffers: &mut SendBuffers) -> bool {
    match request::parse(head, limits) {
        Ok(Parsed::Complete { request, .. }) => site.answer(&request, send_buffers),
        // Unreachable: the head was complete and valid when the body began.
        Ok(Parsed::Partial) | Err(_) => {
            let reject =
                Reject { status: Status::INTERNAL_SERVER_ERROR, reason: "internal error: a valid head became invalid" };
            site.reject_head(reject, head, send_buffers);
            true
        }
    }
}

/// Refuses the request that begins at `at`.
#[cold]
fn refuse(site: &mut Site, reject: Reject, input: &[u8], at: usize, send_buffers: &mut SendBuffers) -> (usize, After) {
    site.reject_head(reject, &input[at..], send_buffers);
    (input.len(), After::Close(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::send_buffers::FULL_BYTES;
    use crate::site::Folder;
    use std::sync::Arc;

    /// Returns a site that serves a folder by these rules, and its configuration after a change.
    fn site_with(folder: &std::path::Path, rules: &str, change: impl FnOnce(&mut Config)) -> (Config, Site) {
        let path = folder.join("serve.toml");
        std::fs::write(&path, rules).unwrap();
        let rules = crate::rules::LiveRules::read(&path, &[], |_| Vec::new()).unwrap();
        let mut config = Config { rules: Some(Arc::new(rules)), ..Config::new(folder) };
        change(&mut config);
        let waker = landau_reactor::Waker::new().unwrap();
        let folder = Folder::new(&config, Arc::default(), false).unwrap();
        let site = Site::new(&config, folder, Counters::default(), None, waker);
        (config, site)
    }

    /// Directories were once listed before the rules had checked the client, and the number of waiting listings had no
    /// limit.
    #[test]
    fn only_those_who_may_read_a_directory_have_it_listed() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..99 {
            std::fs::create_dir_all(folder.path().join(format!("a/{number}"))).unwrap();
        }
        let rules = "[[rule]]\npath = '/b/'\n[[rule]]\npath = '/a/98/'\ndeny = 'unix'\n";
        let (config, mut site) = site_with(folder.path(), rules, |_| {});
        let mut ask = |number: u32| {
            let request = format!("GET /a/{number}/ HTTP/1.1\r\nHost: x\r\n\r\n");
            let mut send_buffers = SendBuffers::default();
            let (_, after) = answer(&mut site, &config, request.as_bytes(), &mut Scan::default(), &mut send_buffers);
            let status = String::from_utf8_lossy(send_buffers.bytes.get(9..12).unwrap_or_default()).into_owned();
            (status, matches!(after, After::LookUp { .. }))
        };
        // The client has no address.
        assert_eq!((ask(98), ask(0)), (("403".to_owned(), false), (String::new(), true)));
        let last = (1..98).map(&mut ask).find(|(_, waits)| !waits);
        assert_eq!(last, Some(("503".to_owned(), false)), "they wait without a bound");
        assert_eq!(ask(0), (String::new(), true), "it is being made");
    }

    /// The connection of a request failed before the worker took the request. The request was then once forwarded for
    /// the next client that had to wait.
    #[test]
    fn a_request_to_be_passed_on_is_for_its_client_only() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        let rules = "[[rule]]\npath = '/api/'\nproxy = 'http://127.0.0.1:9'\n";
        let (config, mut site) = site_with(folder.path(), rules, |_| {});
        let mut ask = |request: &[u8]| {
            let (_, after) = answer(&mut site, &config, request, &mut Scan::default(), &mut SendBuffers::default());
            (matches!(after, After::Forward { .. }), matches!(after, After::LookUp { .. }))
        };
        for request in [&b"GET /api/x HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"POST /api/ HTTP/1.1\r\nHost: x\r\n\r\n"] {
            assert_eq!(ask(request), (true, false));
            // The forwarded request is not taken. Another thread makes the listing for this one.
            assert_eq!(ask(b"GET /a/ HTTP/1.1\r\nHost: x\r\n\r\n"), (false, true));
        }
    }

    /// A file that changes during each compression. A request for it once waited for the next compression, and so on.
    #[test]
    fn a_request_awaits_one_compression() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.log");
        let rules = "[[rule]]\npath = '/'\ncompress = true\n";
        let (config, mut site) = site_with(folder.path(), rules, |config| config.cache_for = std::time::Duration::ZERO);
        let mut ask = |steps: Steps| {
            site.steps = steps;
            let request = b"GET /a.log HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
            let mut send_buffers = SendBuffers::default();
            let (_, after) = answer(&mut site, &config, request, &mut Scan::default(), &mut send_buffers);
            let is_plain = !String::from_utf8_lossy(&send_buffers.bytes).contains("gzip");
            match after {
                After::LookUp { steps, .. } => Err(steps),
                _ => Ok(is_plain),
            }
        };
        let write = |text: &str| {
            std::fs::write(&file, text.repeat(100_000)).unwrap();
            // What has just changed is sent uncompressed in any case.
            let changed = std::time::Instant::now();
            while changed.elapsed() < std::time::Duration::from_millis(100) {
                std::thread::yield_now();
            }
        };
        write("one");
        let Err(steps) = ask(Steps::default()) else { panic!("it is not compressed") };
        write("more");
        assert_eq!(ask(steps), Ok(true));
        assert!(ask(Steps::default()).is_err(), "the next request orders it");
    }

    /// Responses that a client does not read are buffered, so their size must be limited.
    #[test]
    fn buffered_responses_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("two"), [b'x'; 2048]).unwrap();
        let config = Config::new(folder.path());
        let waker = landau_reactor::Waker::new().unwrap();
        let folder = Folder::new(&config, Arc::default(), false).unwrap();
        let mut site = Site::new(&config, folder, Counters::default(), None, waker);
        let request = b"GET /two HTTP/1.1\r\nHost: x\r\n\r\n";
        let input = request.repeat(2000);
        let (mut send_buffers, mut scan) = (SendBuffers::default(), Scan::default());
        let (used, after) = answer(&mut site, &config, &input, &mut scan, &mut send_buffers);
        assert_eq!((used % request.len(), after), (0, After::More));
        let most = FULL_BYTES + (4 << 10);
        assert!(send_buffers.bytes.len() <= most && most <= 80 << 10, "{}", send_buffers.bytes.len());
        assert!(send_buffers.batch.is_empty());
    }
}
