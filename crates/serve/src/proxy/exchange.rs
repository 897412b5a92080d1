//! A forwarded request and its response: the bytes of each side, translated for the other.

use super::put_chunk;
use super::request::Forward;
use super::response::{Framing, Reply, write_head, write_interim};
use landau_wire::http::body::{Body, Malformed};
use landau_wire::http::response::{Reader, Response};
use landau_wire::http::{BodyLength, Status};

/// The maximum number of interim responses; after that, the upstream server is not waited for.
const MOST_INTERIM: u32 = 16;

/// The progress of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The response is not complete.
    More,
    /// The response is complete; `true` if the upstream server accepts another request on the connection.
    Done(bool),
    /// The response cannot be passed on, or its end is missing.
    Broken,
}

/// A forwarded request.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(crate) struct Exchange {
    pub(crate) forward: Box<Forward>,
    /// The client's head, for the log and for errors.
    pub(crate) head: Vec<u8>,
    /// The connection to the upstream server; `None` if it has ended.
    pub(crate) upstream: Option<u32>,
    /// Whether the connection that was closed last was kept from an earlier request.
    pub(crate) is_reused: bool,
    /// The number of the upstream server's addresses that have failed.
    pub(crate) failed_addresses: usize,
    /// Whether the request is sent for the second time.
    pub(crate) is_retry: bool,
    /// The rest of the client's body.
    body: Body,
    has_body_ended: bool,
    /// Whether any of the body was passed on or will be.
    has_body: bool,
    /// The number of content bytes that the client has sent since `take_received_bytes` was last called.
    received_bytes: u64,
    /// Content of an HTTP/2 request that is to be framed; small frames become one chunk.
    gathered: Vec<u8>,
    /// Whether the end of an HTTP/2 request's content was framed.
    is_end_framed: bool,
    /// The bytes for the upstream server, sent up to `taken`.
    out: Vec<u8>,
    taken: usize,
    /// Whether the upstream server's connection has accepted any bytes.
    has_sent: bool,
    /// Whether the beginning of the request was discarded.
    is_begun: bool,
    /// The bytes received from the upstream server that are not passed on yet.
    input: Vec<u8>,
    /// Whether the upstream server has sent anything.
    has_received: bool,
    /// Whether the upstream server has closed the connection after these bytes.
    pub(crate) has_ended: bool,
    reader: Reader,
    reply: Option<Reply>,
    interim_count: u32,
    /// Whether the upstream server has permitted the client to send its content.
    has_permission: bool,
    /// Whether the head of the response was sent to the client.
    pub(crate) is_delivered: bool,
    /// The number of content bytes sent to the client.
    pub(crate) content: u64,
}

impl Exchange {
    /// Returns the exchange of a request; `head` is the client's head.
    pub(crate) fn new(mut forward: Box<Forward>, head: Vec<u8>) -> Self {
        let body = Body::new(forward.body);
        let out = std::mem::take(&mut forward.head);
        Self {
            has_body_ended: body.is_empty(),
            forward,
            head,
            upstream: None,
            is_reused: false,
            failed_addresses: 0,
            is_retry: false,
            body,
            has_body: false,
            received_bytes: 0,
            gathered: Vec::new(),
            is_end_framed: false,
            out,
            taken: 0,
            has_sent: false,
            is_begun: false,
            input: Vec::new(),
            has_received: false,
            has_ended: false,
            reader: Reader::new(),
            reply: None,
            interim_count: 0,
            has_permission: false,
            is_delivered: false,
            content: 0,
        }
    }

    /// Takes bytes from the client; returns how many of them belong to this request.
    pub(crate) fn take_body(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        if self.is_tunnel() {
            self.out.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let mut at = 0;
        while at < bytes.len() && !self.has_body_ended {
            let piece = self.body.advance(&bytes[at..])?;
            let data = &bytes[at..][piece.data];
            self.has_body |= !data.is_empty();
            self.received_bytes += data.len() as u64;
            if self.forward.body == BodyLength::Chunked {
                if !data.is_empty() {
                    put_chunk(data, &mut self.out);
                }
                if piece.is_end {
                    put_chunk(b"", &mut self.out);
                }
            } else {
                self.out.extend_from_slice(data);
            }
            at += piece.consumed;
            self.has_body_ended = piece.is_end;
        }
        Ok(at)
    }

    /// Takes content of an HTTP/2 request, whose frames determine where it ends. Content of another length than the
    /// head announces is malformed: missing or excess bytes could be read as another request.
    pub(crate) fn take_content(&mut self, content: &[u8], is_end: bool) -> Result<(), Malformed> {
        let len = content.len() as u64;
        if let Body::Bytes(left) = &mut self.body {
            let rest = left.checked_sub(len).filter(|&rest| !is_end || rest == 0);
            *left = rest.ok_or(Malformed("the content does not have the announced length"))?;
            self.has_body_ended = *left == 0;
        } else {
            self.has_body_ended |= is_end;
        }
        self.has_body |= !content.is_empty();
        self.received_bytes += len;
        self.gathered.extend_from_slice(content);
        Ok(())
    }

    /// Frames the gathered content if everything before it was sent, or if nothing was sent yet.
    pub(crate) fn frame_content(&mut self) {
        if !self.forward.is_http2() || (self.has_sent && !self.unsent().is_empty()) {
            return;
        }
        if self.forward.body != BodyLength::Chunked {
            if self.out.is_empty() {
                self.out = std::mem::take(&mut self.gathered);
            } else {
                self.out.append(&mut self.gathered);
            }
            return;
        }
        if !self.gathered.is_empty() {
            put_chunk(&std::mem::take(&mut self.gathered), &mut self.out);
        }
        if self.has_body_ended && !std::mem::replace(&mut self.is_end_framed, true) {
            put_chunk(b"", &mut self.out);
        }
    }

    /// Returns the number of bytes that are not sent to the upstream server yet.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent().len() + self.gathered.len()
    }

    /// Returns whether anything must be sent to the upstream server.
    pub(crate) fn has_unsent(&self) -> bool {
        let must_end = self.forward.is_http2()
            && self.forward.body == BodyLength::Chunked
            && self.has_body_ended
            && !self.is_end_framed;
        self.unsent_bytes() > 0 || must_end
    }

    /// Returns the number of content bytes that the client has sent since the last call.
    pub(crate) fn take_received_bytes(&mut self) -> u64 {
        std::mem::take(&mut self.received_bytes)
    }

    /// Returns whether more is expected from the client.
    pub(crate) fn wants_body(&self) -> bool {
        !self.has_body_ended || self.is_tunnel()
    }

    /// Returns whether the client may be waiting for permission to send its content (`Expect: 100-continue`).
    pub(crate) fn awaits_permission(&self) -> bool {
        self.forward.is_expecting && !self.has_permission && !self.has_body
    }

    /// Returns whether the client's body has ended. Until then the connection takes no other request.
    pub(crate) fn has_body_ended(&self) -> bool {
        self.has_body_ended
    }

    /// Returns the bytes that are not sent to the upstream server yet.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.out[self.taken..]
    }

    /// Records that `count` bytes were sent to the upstream server. A request that may have to be sent again is kept.
    pub(crate) fn sent(&mut self, count: usize) {
        self.taken += count;
        self.has_sent |= count > 0;
        if self.taken == self.out.len() && !self.is_repeatable() {
            (self.out, self.taken, self.is_begun) = (Vec::new(), 0, true);
        }
    }

    /// Returns whether the request can be sent on another connection if this one, which was kept from an earlier
    /// request, fails because the upstream server has closed it meanwhile. A server that has sent anything has not
    /// closed it. A request that changes something may already have been executed.
    pub(crate) fn can_retry(&self) -> bool {
        !self.is_retry && !self.has_received && (self.is_repeatable() || !self.has_sent)
    }

    /// Returns whether the request may be sent again and is still complete.
    pub(crate) fn is_repeatable(&self) -> bool {
        !self.is_begun && !self.has_body && self.has_body_ended && self.reply.is_none() && self.forward.is_idempotent()
    }

    /// Returns whether nothing was sent in either direction.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.has_sent && !self.has_received
    }

    /// Begins again on another connection.
    pub(crate) fn begin_again(&mut self) {
        (self.taken, self.has_sent, self.is_retry) = (0, false, true);
    }

    /// Returns whether the connection has switched to another protocol.
    pub(crate) fn is_tunnel(&self) -> bool {
        self.reply.is_some_and(|reply| reply.framing == Framing::Tunnel)
    }

    /// Returns the status of the response, which was sent to the client if `is_delivered` is set.
    pub(crate) fn status(&self) -> Option<Status> {
        self.reply.map(|reply| reply.status)
    }

    /// Returns whether the end of the client's connection marks the end of the response.
    pub(crate) fn ends_by_close(&self) -> bool {
        self.reply.is_some_and(|reply| matches!(reply.framing, Framing::Close | Framing::Tunnel))
    }

    /// Returns whether the client's connection ends after the response.
    pub(crate) fn must_close(&self) -> bool {
        self.reply.is_some_and(|reply| reply.close)
    }

    /// Returns how long the upstream server keeps the connection, if it announces that.
    pub(crate) fn kept_for(&self) -> Option<std::time::Duration> {
        self.reply.and_then(|reply| reply.kept_for)
    }

    /// Keeps bytes that the upstream server sent before it closed the connection, until the client has room.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.has_received |= !bytes.is_empty();
        self.input.extend_from_slice(bytes);
    }

    /// Returns the number of kept bytes from the upstream server.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.input.len()
    }

    /// Takes the kept bytes, for [`Self::advance`].
    pub(crate) fn take_kept(&mut self) -> Vec<u8> {
        if self.reply.is_some() { std::mem::take(&mut self.input) } else { Vec::new() }
    }

    /// Returns the memory in use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let requests = self.head.capacity() + self.out.capacity() + self.gathered.capacity();
        let buffers = requests + self.input.capacity();
        size_of::<Self>() + size_of::<Forward>() + buffers + self.forward.cors_lines.capacity()
    }

    /// Takes bytes from the upstream server; appends the bytes for the client to `out`.
    pub(crate) fn advance(&mut self, bytes: &[u8], framed: (&[u8], bool), out: &mut Vec<u8>) -> Step {
        self.has_received |= !bytes.is_empty();
        if self.reply.is_some() {
            return self.advance_body(bytes, out);
        }
        // A head usually arrives in one piece.
        if self.input.is_empty() {
            let used = match self.advance_head(bytes, framed, out) {
                Ok(used) => used,
                Err(step) => return step,
            };
            if self.reply.is_some() {
                return self.advance_body(&bytes[used..], out);
            }
            self.input.extend_from_slice(&bytes[used..]);
            return Step::More;
        }
        let mut all = std::mem::take(&mut self.input);
        all.extend_from_slice(bytes);
        match self.advance_head(&all, framed, out) {
            Err(step) => step,
            Ok(used) if self.reply.is_some() => self.advance_body(&all[used..], out),
            Ok(used) => {
                all.drain(..used);
                self.input = all;
                Step::More
            }
        }
    }

    /// Reads heads until one is final or the bytes end; returns the number of bytes used.
    fn advance_head(&mut self, bytes: &[u8], framed: (&[u8], bool), out: &mut Vec<u8>) -> Result<usize, Step> {
        let mut at = 0;
        loop {
            let Some(response) = self.reader.parse(&bytes[at..]).map_err(|_| Step::Broken)? else { return Ok(at) };
            let head = &bytes[at..at + response.head_bytes];
            at += response.head_bytes;
            if !response.is_interim() {
                let (date, close) = framed;
                let close = close || !self.has_body_ended;
                let reply = write_head(head, &response, &self.forward, (date, close), out);
                self.reply = Some(reply.map_err(|_| Step::Broken)?);
                return Ok(at);
            }
            self.advance_interim(head, &response, out)?;
        }
    }

    fn advance_interim(&mut self, head: &[u8], response: &Response, out: &mut Vec<u8>) -> Result<(), Step> {
        self.reader = Reader::new();
        self.interim_count += 1;
        self.has_permission |= response.status == Status::CONTINUE;
        if self.interim_count > MOST_INTERIM {
            return Err(Step::Broken);
        }
        if self.forward.is_old() { Ok(()) } else { write_interim(head, response, out).map_err(|_| Step::Broken) }
    }

    fn advance_body(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let Some(reply) = &mut self.reply else { return Step::Broken };
        if reply.framing == Framing::Tunnel {
            out.extend_from_slice(bytes);
            self.content += bytes.len() as u64;
            return Step::More;
        }
        let mut at = 0;
        loop {
            if reply.body.is_empty() {
                break;
            }
            if at == bytes.len() {
                return Step::More;
            }
            let Ok(piece) = reply.body.advance(&bytes[at..]) else { return Step::Broken };
            let data = &bytes[at..][piece.data];
            self.content += data.len() as u64;
            if reply.framing != Framing::Chunked {
                out.extend_from_slice(data);
            } else if !data.is_empty() {
                put_chunk(data, out);
            }
            at += piece.consumed;
            if piece.is_end {
                break;
            }
        }
        if reply.framing == Framing::Chunked {
            put_chunk(b"", out);
        }
        // Unrequested bytes would be mistaken for the next response.
        let is_reusable = reply.is_reusable && at == bytes.len() && self.has_body_ended && !self.has_unsent();
        Step::Done(is_reusable)
    }

    /// Handles the end of the upstream server's connection; appends the bytes for the client to `out`.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) -> Step {
        match &self.reply {
            Some(Reply { framing: Framing::Tunnel, .. }) => Step::Done(false),
            Some(Reply { body: Body::UntilClose, framing, .. }) => {
                if *framing == Framing::Chunked {
                    put_chunk(b"", out);
                }
                Step::Done(false)
            }
            _ => Step::Broken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::Asking;
    use crate::rules::{Policy, Proxy, Upstream};
    use crate::site::Client;
    use landau_wire::http::{Limits, Parsed, request};
    use std::sync::Arc;
    use std::time::Duration;

    fn exchange(head: &str) -> Exchange {
        let head = head.replace('|', "\r\n");
        let Ok(Parsed::Complete { request, .. }) = request::parse(head.as_bytes(), &Limits::default()) else {
            panic!("{head}")
        };
        let proxy = Proxy {
            upstream: Arc::new(Upstream::new("http://a").unwrap()),
            line: 1,
            path: None,
            connect_timeout: Duration::ZERO,
            response_timeout: Duration::ZERO,
            idle_timeout: Duration::ZERO,
            idle_connections: 0,
            encoded_slash: false,
            lines: b"X-Set: 1\r\n".to_vec(),
            removed: vec!["X-Set".to_owned(), "Host".to_owned()],
        };
        let asking = Asking { peer: Client::default(), client: Client::default(), trusted: None };
        let policy = (&Arc::new(Policy::default()), &Arc::new(proxy));
        let forward = Forward::new(&request, b"/", policy, asking, false);
        Exchange::new(Box::new(forward), head.clone().into_bytes())
    }

    #[test]
    fn fields_are_set_and_removed() {
        let exchange = exchange("GET / HTTP/1.1|Host: x|x_set: 2|Connection: X-Forwarded-Proto||");
        let expected = "GET / HTTP/1.1|Via: 1.1 landau|X-Forwarded-Proto: http|X-Forwarded-Host: x|X-Set: 1||";
        assert_eq!(exchange.unsent().escape_ascii().to_string(), expected.replace('|', "\\r\\n"));
    }

    /// The content for the client and the reuse of the connection do not depend on how a response is split.
    #[test]
    fn every_split_of_a_response_reads_alike() {
        for (said, last, content) in [
            (
                &b"HTTP/1.1 103 E\r\nL: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"[..],
                Step::Done(true),
                5,
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloX", Step::Done(false), 5),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: u\r\n\r\n",
                Step::Done(true),
                5,
            ),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX", Step::Broken, 3),
            (b"HTTP/1.1 200 OK\r\nX: y\r\n\r\nabc", Step::More, 3),
            (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nConnection: close\r\n\r\n", Step::Done(false), 0),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Step::Broken, 0),
        ] {
            for cut in 0..=said.len() {
                let mut exchange = exchange("GET / HTTP/1.1|Host: x||");
                exchange.sent(exchange.unsent().len());
                let mut out = Vec::new();
                let mut step = exchange.advance(&said[..cut], (b"now", false), &mut out);
                if step == Step::More {
                    step = exchange.advance(&said[cut..], (b"now", false), &mut out);
                } else if cut < said.len() {
                    // The rest belongs to no response.
                    let is_early = step == last || (step, last) == (Step::Done(true), Step::Done(false));
                    assert!(is_early, "{step:?} {cut} {}", said.escape_ascii());
                    step = last;
                }
                let said = said.escape_ascii();
                assert_eq!((step, exchange.content), (last, content), "{cut} {said}: {}", out.escape_ascii());
            }
        }
    }

    #[test]
    fn a_body_is_framed_anew_at_any_split() {
        let body = b"3;a=b\r\nabc\r\n00\r\nT: u\r\n\r\nGET /next";
        for cut in 0..=body.len() {
            let mut exchange = exchange("POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||");
            let head = exchange.unsent().len();
            let mut used = exchange.take_body(&body[..cut]).unwrap();
            if used == cut {
                used += exchange.take_body(&body[cut..]).unwrap();
            }
            let sent = String::from_utf8(exchange.unsent()[head..].to_vec()).unwrap();
            let content: String = sent.split("\r\n").filter(|line| !line.bytes().all(|b| b.is_ascii_digit())).collect();
            assert_eq!((&*content, used), ("abc", body.len() - "GET /next".len()), "{cut}: {sent:?}");
            assert!(sent.ends_with("0\r\n\r\n") && !exchange.wants_body(), "{cut}: {sent:?}");
        }
        assert!(exchange("POST / HTTP/1.1|Host: x|Transfer-Encoding: chunked||").take_body(b"x").is_err());
    }
}
