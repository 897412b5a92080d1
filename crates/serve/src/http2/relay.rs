//! Streams whose requests are forwarded to upstream servers: content in both directions, within the windows.
//!
//! A session has no connections to upstream servers. It keeps the [`Exchange`] of each stream and records which streams
//! have work for their upstream server; the worker does that work ([`crate::worker`]). A client may send more only
//! after the upstream server has accepted what the client sent before. An upstream server is read again only after the
//! client has read what came before. A stream therefore holds at most one window of content, and the bytes of one
//! receive.

use super::WINDOW_STEP;
use super::headers::{Origin, TableUpdate};
use super::session::{Desk, Session};
use super::stream::{Content, Phase};
use crate::proxy::{Exchange, Forward, Step};
use landau_reactor::{Batch, Interest};
use landau_wire::http2::frame::{self, HEADER_BYTES};
use landau_wire::http2::{Code, Fault, INITIAL_WINDOW, response};

const FLOW: Fault = Fault::Stream(Code::FLOW_CONTROL_ERROR, "more content than the window allows");

/// Content that arrives before it is known whether the request is forwarded.
#[derive(Debug)]
pub(super) struct Early {
    content: Vec<u8>,
    /// The number of bytes that the client may still send.
    window: u32,
}

impl Early {
    pub(super) fn new() -> Self {
        Self { content: Vec::new(), window: INITIAL_WINDOW }
    }

    /// Takes content from a frame of `size` bytes.
    pub(super) fn take(&mut self, content: &[u8], size: u32) -> Result<(), Fault> {
        self.window = self.window.checked_sub(size).ok_or(FLOW)?;
        self.content.extend_from_slice(content);
        Ok(())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.content.capacity()
    }
}

/// The party that must act next for the request or its response to progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The upstream server must accept the connection.
    Connection,
    /// The upstream server must read what was sent.
    Taking,
    /// The client must send more.
    Client,
    /// The upstream server must send more.
    Response,
}

/// A forwarded request.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) exchange: Box<Exchange>,
    /// Whether the worker has taken over the request.
    pub(crate) is_asked: bool,
    /// Whether the stream is listed as possibly having work for its upstream server.
    is_listed: bool,
    /// Whether the head of the response was sent.
    has_head: bool,
    /// Content of the response that is not yet written to the client.
    pending: Vec<u8>,
    taken: usize,
    /// The number of bytes that the client may still send.
    window: u32,
    /// The party that must act next; `None` until a deadline is set for one.
    pub(crate) turn: Option<Turn>,
    /// The start of the time within which the client must send something.
    pub(crate) turn_began_ms: u32,
    /// The events that are reported for the connection to the upstream server.
    pub(crate) interest: Option<Interest>,
}

impl Relay {
    /// Marks the stream as possibly having work for its upstream server; returns whether it must be added to the list.
    pub(super) fn must_list(&mut self) -> bool {
        !std::mem::replace(&mut self.is_listed, true)
    }

    /// Returns the content that is not yet written to the client.
    pub(super) fn pending(&self) -> &[u8] {
        &self.pending[self.taken..]
    }

    /// Records that `count` bytes of the content were sent; returns whether that is all.
    pub(super) fn sent(&mut self, count: usize) -> bool {
        self.taken += count;
        let is_all = self.taken == self.pending.len();
        if is_all {
            (self.pending, self.taken) = (Vec::new(), 0);
        }
        is_all
    }

    /// Takes content of the request from a frame of `size` bytes.
    pub(super) fn take(&mut self, content: &[u8], size: u32, is_end: bool) -> Result<(), Fault> {
        self.window = self.window.checked_sub(size).ok_or(FLOW)?;
        let taken = self.exchange.take_content(content, is_end);
        taken.map_err(|malformed| Fault::Stream(Code::PROTOCOL_ERROR, malformed.0))
    }

    /// Returns the amount of content that is not yet written to the client, in bytes.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.pending().len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.exchange.bytes() + self.pending.capacity()
    }
}

/// The progress of a response.
#[derive(Debug)]
pub(crate) enum Passed {
    /// The response is not complete.
    More,
    /// The response is complete; `true` if the upstream server accepts another request on the connection.
    Done(Box<Exchange>, bool),
    /// The response cannot be passed on, or its end is missing.
    Broken,
}

/// A stream whose exchange has failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) exchange: Box<Exchange>,
    origin: Origin,
    /// Whether the head of the response was sent.
    pub(crate) has_head: bool,
}

impl Session {
    /// Queues a request for the worker to forward.
    pub(super) fn begin_relay(
        &mut self,
        origin: Origin,
        forward: Box<Forward>,
        head: &[u8],
        early: &Early,
    ) -> Result<(), Fault> {
        let relay = Relay {
            exchange: Box::new(Exchange::new(forward, head.to_vec())),
            is_asked: false,
            is_listed: true,
            has_head: false,
            pending: Vec::new(),
            taken: 0,
            window: early.window,
            turn: None,
            turn_began_ms: 0,
            interest: None,
        };
        let mut relay = Box::new(relay);
        relay.take(&early.content, 0, origin.has_ended)?;
        self.streams.put(origin.with(Phase::Relaying(relay)));
        self.work.push(origin.id);
        Ok(())
    }

    /// Returns the next stream that may have work for its upstream server.
    pub(crate) fn next_work(&mut self) -> Option<u32> {
        let Some(next) = self.work.pop() else {
            if self.work.capacity() > 0 {
                // An idle connection owns no buffer for the list.
                self.work = Vec::new();
            }
            return None;
        };
        if let Some(relay) = self.relay(next) {
            relay.is_listed = false;
        }
        Some(next)
    }

    /// Records that a stream may have work for its upstream server.
    pub(crate) fn note_work(&mut self, stream: u32) {
        if self.relay(stream).is_some_and(Relay::must_list) {
            self.work.push(stream);
        }
    }

    /// Returns the next exchange that was abandoned by the client or after an error of its stream.
    pub(crate) fn next_abandoned(&mut self) -> Option<Exchange> {
        let next = self.abandoned.pop();
        if next.is_none() && self.abandoned.capacity() > 0 {
            self.abandoned = Vec::new();
        }
        next
    }

    /// Abandons all exchanges.
    pub(crate) fn abandon_all(&mut self) {
        for stream in self.streams.take_all() {
            if let Phase::Relaying(relay) = stream.phase {
                self.abandoned.push(*relay.exchange);
            }
        }
    }

    /// Returns the request of a stream if it was forwarded.
    pub(crate) fn relay(&mut self, stream: u32) -> Option<&mut Relay> {
        match &mut self.streams.get(stream)?.phase {
            Phase::Relaying(relay) => Some(relay),
            _ => None,
        }
    }

    /// Opens the client's window by as much as the upstream server has accepted.
    pub(crate) fn open_window(&mut self, id: u32, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get(id).filter(|stream| !stream.has_ended) else { return };
        let Phase::Relaying(relay) = &mut stream.phase else { return };
        let unsent = u32::try_from(relay.exchange.unsent_bytes()).unwrap_or(u32::MAX);
        let increment = INITIAL_WINDOW.saturating_sub(unsent).saturating_sub(relay.window);
        if increment >= WINDOW_STEP {
            frame::write_window_update(id, increment, out);
            relay.window += increment;
        }
    }

    /// Passes on the bytes from an upstream server; `bytes` is `None` if it has closed the connection.
    pub(crate) fn pass_on(&mut self, desk: &mut Desk<'_>, id: u32, bytes: Option<&[u8]>) -> Passed {
        let Some(stream) = self.streams.get(id) else { return Passed::Broken };
        let Phase::Relaying(relay) = &mut stream.phase else { return Passed::Broken };
        if !relay.has_head {
            return self.pass_on_heads(desk, id, bytes);
        }
        let date = desk.site.date();
        let step = match bytes {
            Some(bytes) => relay.exchange.advance(bytes, (&date, false), &mut relay.pending),
            None => relay.exchange.end(&mut relay.pending),
        };
        match step {
            Step::More => Passed::More,
            Step::Broken => Passed::Broken,
            Step::Done(is_reusable) => match self.end_relay(desk, id) {
                Some(exchange) => Passed::Done(exchange, is_reusable),
                None => Passed::Broken,
            },
        }
    }

    /// Passes on heads and the content that follows them.
    fn pass_on_heads(&mut self, desk: &mut Desk<'_>, id: u32, bytes: Option<&[u8]>) -> Passed {
        let Some(stream) = self.streams.get(id) else { return Passed::Broken };
        let origin = Origin::of(stream);
        let Phase::Relaying(relay) = &mut stream.phase else { return Passed::Broken };
        let date = desk.site.date();
        desk.send_buffers.clear();
        let source = &mut desk.send_buffers.bytes;
        let step = match bytes {
            Some(bytes) => relay.exchange.advance(bytes, (&date, false), source),
            None => relay.exchange.end(source),
        };
        if step == Step::Broken {
            return Passed::Broken;
        }
        let out = &mut desk.buffers.out;
        let mut at = 0;
        while is_interim(&source[at..]) {
            let Some(head_bytes) = put_head(id, &mut self.table_update, &source[at..], out) else {
                return Passed::Broken;
            };
            at += head_bytes;
        }
        if at == source.len() {
            return Passed::More;
        }
        let bandwidth = relay.exchange.forward.policy.bandwidth;
        if let Step::Done(is_reusable) = step {
            let Some(Phase::Relaying(relay)) = self.streams.remove(id).map(|stream| stream.phase) else {
                return Passed::Broken;
            };
            source.drain(..at);
            desk.send_buffers.pacing = bandwidth;
            self.respond(desk, origin);
            return Passed::Done(relay.exchange, is_reusable);
        }
        let Some(head_bytes) = put_head(id, &mut self.table_update, &source[at..], out) else {
            return Passed::Broken;
        };
        relay.has_head = true;
        relay.pending.extend_from_slice(&source[at + head_bytes..]);
        self.pacing = bandwidth.or(self.pacing);
        Passed::More
    }

    /// Ends the stream after the rest of the content is sent; returns its exchange.
    fn end_relay(&mut self, desk: &mut Desk<'_>, id: u32) -> Option<Box<Exchange>> {
        let stream = self.streams.remove(id)?;
        let origin = Origin::of(&stream);
        let Phase::Relaying(relay) = stream.phase else { return None };
        if relay.pending().is_empty() {
            let out = &mut desk.buffers.out;
            let start = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            self.write_data_header(out, start, id, (true, false));
            if !origin.has_ended {
                self.end_early(id, out);
            }
        } else {
            self.streams.put(origin.with(Phase::Sending(Content::new(relay.pending(), &mut Batch::new()))));
        }
        Some(relay.exchange)
    }

    /// Takes a stream whose exchange has failed.
    pub(crate) fn take_failed(&mut self, id: u32) -> Option<Failed> {
        self.relay(id)?;
        let stream = self.streams.remove(id)?;
        let origin = Origin::of(&stream);
        match stream.phase {
            Phase::Relaying(relay) => Some(Failed { exchange: relay.exchange, origin, has_head: relay.has_head }),
            _ => None,
        }
    }

    /// Answers a request whose exchange has failed, with the contents of the send buffers. If the head of its response
    /// was sent already, the stream is reset.
    pub(crate) fn answer_failed(&mut self, desk: &mut Desk<'_>, failed: &Failed, code: Code) {
        if failed.has_head {
            let out = &mut desk.buffers.out;
            frame::write_rst_stream(failed.origin.id, code, out);
            if !failed.origin.has_ended {
                self.note_reset(failed.origin.id, out);
            }
        } else {
            self.respond(desk, failed.origin);
        }
    }
}

/// Returns whether a head written by this server is that of an interim response.
fn is_interim(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.1 1")
}

/// Appends the frames of the head at the start of `bytes`, which is followed by content or another head. Returns the
/// length of the head.
fn put_head(id: u32, table_update: &mut TableUpdate, bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    table_update.write(out);
    let head_bytes = response::write_block(bytes, out);
    match head_bytes {
        Some(_) => frame::finish_headers(start, id, false, out),
        // Unreachable: the server's own heads are well-formed.
        None => out.truncate(start),
    }
    head_bytes
}
