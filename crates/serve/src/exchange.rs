//! From the bytes of a connection to answers: whole requests one after another, as far as they are there.
//!
//! No descriptor is touched here: bytes go in, and what is to be sent comes out.

use crate::config::Config;
use crate::send_buffers::SendBuffers;
use crate::site::Site;
use landau_wire::http::body::{Body, Malformed};
use landau_wire::http::{BodyLength, Expectation, Limits, Parsed, Reject, Request, Scan, Status, request};

/// A body that nobody wants is read up to here, so that the connection can be kept; a longer one is refused.
const SKIPPED_BYTES: u64 = 64 << 10;

/// What is to be done with a connection when what was answered has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It waits for the next request.
    Idle,
    /// A head is not whole.
    Head,
    /// A head is whole and its body is not: the answer waits for the end of it.
    Body(Unwanted),
    /// More requests may have come; they wait.
    More,
    /// The next request waits for a folder's list. If its body came in pieces, that has ended, and the head stands in
    /// front of what came behind it.
    List(Option<Unwanted>),
    /// It ends; `true` if the client may still be sending.
    Close(bool),
}

/// A body that nobody wants and that must be read all the same, to find the next request behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unwanted {
    /// The length of the head before it, which is kept: the request is answered when the body has ended.
    head_bytes: usize,
    body: Body,
    /// How much of it may still come.
    left: u64,
    pub(crate) has_ended: bool,
}

impl Unwanted {
    fn new(head_bytes: usize, length: BodyLength) -> Self {
        Self { head_bytes, body: Body::new(length), left: SKIPPED_BYTES, has_ended: false }
    }

    /// Separates what came behind the head from it.
    pub(crate) fn split(&self, input: &mut Vec<u8>) -> Vec<u8> {
        input.split_off(self.head_bytes.min(input.len()))
    }

    /// Passes over what is there: how many bytes that was, and whether the body ended.
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

/// What is left of the bytes of a connection when all was answered that could be, and what is to be done then.
#[derive(Debug)]
pub(crate) struct Rest {
    pub(crate) input: Vec<u8>,
    /// How far the request's head in it was read.
    pub(crate) scan: Scan,
    pub(crate) after: After,
}

impl Rest {
    #[inline]
    pub(crate) fn new(mut input: Vec<u8>, scan: Scan, after: After) -> Self {
        if let After::Body(unwanted) = after {
            // What came of the body was passed over.
            input.truncate(unwanted.head_bytes);
        }
        Self { input, scan, after }
    }

    /// Nothing more is listened to.
    pub(crate) fn end() -> Self {
        Self { input: Vec::new(), scan: Scan::default(), after: After::Close(true) }
    }
}

/// Answers all requests in the bytes, as far as the send_buffers takes answers: how many bytes that used, and what then.
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
            Err(reject) => return refuse(site, reject, input, send_buffers),
            Ok(Parsed::Partial) => return (at, After::Head),
            Ok(Parsed::Complete { request, consumed }) => {
                *scan = Scan::default();
                if request.body() == BodyLength::Bytes(0) {
                    if !site.answer(&request, send_buffers) {
                        return (at, After::List(None));
                    }
                    at += consumed;
                    continue;
                }
                match with_body(site, &request, consumed, &input[at + consumed..], send_buffers) {
                    Err(reject) => return refuse(site, reject, input, send_buffers),
                    Ok(Ok(skipped)) => at += consumed + skipped,
                    Ok(Err(after)) => return (at, after),
                }
            }
        }
    }
}

/// A request with a body: answered if the body is there, and then it says how long that was; or what it waits for.
#[cold]
fn with_body(
    site: &mut Site,
    request: &Request<'_>,
    head_bytes: usize,
    rest: &[u8],
    send_buffers: &mut SendBuffers,
) -> Result<Result<usize, After>, Reject> {
    if matches!(request.body(), BodyLength::Bytes(length) if length > SKIPPED_BYTES) {
        return Err(Reject { status: Status::CONTENT_TOO_LARGE, reason: "body too long" });
    }
    let mut unwanted = Unwanted::new(head_bytes, request.body());
    let (used, has_ended) = unwanted.skip(rest)?;
    // Who asks before sending the body gets the answer instead of the leave, and keeps the body.
    if !has_ended && request.expectation() == Expectation::None {
        return Ok(Err(After::Body(unwanted)));
    }
    if !site.answer(request, send_buffers) {
        return Ok(Err(After::List(None)));
    }
    send_buffers.close |= !has_ended;
    Ok(Ok(used))
}

/// Answers the request of that head, whose body has ended; false if it waits for a folder's list.
#[cold]
#[must_use]
pub(crate) fn answer_head(site: &mut Site, limits: &Limits, head: &[u8], send_buffers: &mut SendBuffers) -> bool {
    match request::parse(head, limits) {
        Ok(Parsed::Complete { request, .. }) => site.answer(&request, send_buffers),
        // It was whole and sound when the body began.
        Ok(Parsed::Partial) | Err(_) => {
            let reject = Reject { status: Status::INTERNAL_SERVER_ERROR, reason: "a head that changed" };
            site.reject(reject, send_buffers);
            true
        }
    }
}

#[cold]
fn refuse(site: &mut Site, reject: Reject, input: &[u8], send_buffers: &mut SendBuffers) -> (usize, After) {
    site.reject(reject, send_buffers);
    (input.len(), After::Close(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send_buffers::FULL_BYTES;
    use std::sync::Arc;

    /// What a client does not take of its answers is kept for it: so much, and what is left of what it asked.
    #[test]
    fn answers_that_may_have_to_be_kept_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("two"), [b'x'; 2048]).unwrap();
        let config = Config::new(folder.path());
        let waker = landau_reactor::Waker::new().unwrap();
        let mut site = Site::new(&config, Arc::default(), None, waker).unwrap();
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
