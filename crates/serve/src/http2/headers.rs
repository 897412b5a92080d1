//! Header blocks: from frames to a request, and from its response to frames.

use super::OUT_BYTES;
use super::relay::Early;
use super::session::{Block, Desk, Session};
use super::stream::{Content, Phase, Stream, Upload, Waiting};
use crate::exchange::SKIPPED_BYTES;
use landau_wire::http::{BodyLength, Expectation, Field, Method, Reject, Request, Status};
use landau_wire::http2::frame::{self, HEADER_BYTES, MOST_BYTES};
use landau_wire::http2::hpack::{self, Malformed};
use landau_wire::http2::request::{self, Refusal};
use landau_wire::http2::{Code, DEFAULT_TABLE_SIZE, Fault, Settings, response};

/// Returns the maximum length of a header block: that of a head, but at least what fits into a frame.
fn most_block_bytes(desk: &Desk<'_>) -> usize {
    desk.limits.head_bytes.max(MOST_BYTES)
}

/// The stream that a response is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) id: u32,
    /// Whether the client has ended its side of the stream.
    pub(super) has_ended: bool,
    /// The number of bytes that may be sent within the stream's window.
    window: i64,
}

impl Origin {
    pub(super) fn of(stream: &Stream) -> Self {
        Self { id: stream.id, has_ended: stream.has_ended, window: stream.window }
    }

    pub(super) fn with(self, phase: Phase) -> Stream {
        let Self { id, has_ended, window } = self;
        Stream { id, phase, window, has_ended }
    }
}

/// The update of the client's table for header blocks. The server never adds an entry to the table. But a client that
/// shrinks it expects a confirmation in the next block (RFC 9113 section 4.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TableUpdate {
    /// The client has not shrunk the table.
    #[default]
    None,
    /// The next block begins with the update.
    Due,
    /// The update was sent. The table now has no room, and cannot shrink further.
    Sent,
}

impl TableUpdate {
    /// Records the client's table size.
    pub(super) fn note(&mut self, settings: &Settings) {
        if *self == Self::None && settings.least_table_size < DEFAULT_TABLE_SIZE {
            *self = Self::Due;
        }
    }

    /// Writes the update at the beginning of a block, if it is due.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) {
        if *self == Self::Due {
            hpack::write_empty_table(out);
            *self = Self::Sent;
        }
    }
}

const TOO_LONG: Reject = Reject { status: Status::CONTENT_TOO_LARGE, reason: "body too long" };

pub(super) const TOO_LATE: Reject =
    Reject { status: Status::REQUEST_TIMEOUT, reason: "the body did not arrive in time" };

impl Session {
    /// Begins a header block of a new stream, or of a request's trailer.
    pub(super) fn headers(
        &mut self,
        desk: &mut Desk<'_>,
        stream: u32,
        bytes: &[u8],
        is_end: bool,
        is_whole: bool,
    ) -> Result<(), Fault> {
        let connection = |code, reason| Err(Fault::Connection(code, reason));
        if stream.is_multiple_of(2) {
            return connection(Code::PROTOCOL_ERROR, "a stream with an even number");
        }
        let is_new = stream > self.last_stream;
        if is_new {
            self.last_stream = stream;
        } else {
            match self.streams.get(stream) {
                Some(own) if !own.has_ended => {}
                None if self.unended.has(stream) => {}
                Some(_) => return connection(Code::STREAM_CLOSED, "HEADERS on a stream whose request has ended"),
                None if stream == self.last_stream => {
                    return connection(Code::STREAM_CLOSED, "HEADERS on a closed stream");
                }
                None => return connection(Code::PROTOCOL_ERROR, "a stream with a number below the last one"),
            }
        }
        if is_whole {
            return self.end_block(desk, stream, bytes, is_new, is_end);
        }
        self.block = Some(Block { stream, is_new, is_end, bytes: bytes.to_vec(), began_ms: desk.now_ms });
        Ok(())
    }

    /// Continues a header block.
    pub(super) fn continuation(&mut self, desk: &mut Desk<'_>, bytes: &[u8], is_last: bool) -> Result<(), Fault> {
        self.pay(desk)?;
        let Some(block) = &mut self.block else { return Ok(()) };
        if block.bytes.len() + bytes.len() > most_block_bytes(desk) {
            return Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, "header block too long"));
        }
        block.bytes.extend_from_slice(bytes);
        if is_last && let Some(block) = self.block.take() {
            return match self.end_block(desk, block.stream, &block.bytes, block.is_new, block.is_end) {
                Err(Fault::Stream(code, _)) => {
                    self.reset(desk, block.stream, code, block.is_end);
                    Ok(())
                }
                other => other,
            };
        }
        Ok(())
    }

    /// Decodes a complete header block, and handles its request or trailer.
    fn end_block(
        &mut self,
        desk: &mut Desk<'_>,
        stream: u32,
        block: &[u8],
        is_new: bool,
        is_end: bool,
    ) -> Result<(), Fault> {
        // While its trailer arrives, a stream may be reset, and the reset may be forgotten.
        let is_ignored = !is_new && (self.ignores(stream, is_end) || self.streams.get(stream).is_none());
        let buffers = &mut *desk.buffers;
        let fields = &mut buffers.fields;
        fields.begin(desk.limits.head_bytes, !is_new);
        let decoded = self.decoder.decode(block, &mut buffers.scratch, |name, value| fields.add(name, value));
        decoded.map_err(|Malformed(reason)| Fault::Connection(Code::COMPRESSION_ERROR, reason))?;
        if is_ignored {
            return self.pay(desk);
        }
        let malformed = |reason| Fault::Stream(Code::PROTOCOL_ERROR, reason);
        if !is_new {
            return match fields.finish_trailer() {
                Err(Refusal::Malformed(reason)) => Err(malformed(reason)),
                _ if !is_end => Err(malformed("a trailer that does not end the stream")),
                _ => self.end_upload_with_trailer(desk, stream),
            };
        }
        self.idle_since_ms = None;
        if self.is_going_away || self.streams.is_full() {
            return Err(Fault::Stream(Code::REFUSED_STREAM, "too many streams, or the connection ends"));
        }
        let origin = Origin { id: stream, has_ended: is_end, window: i64::from(self.peer.initial_window) };
        let mut head = std::mem::take(&mut buffers.head);
        head.clear();
        let is_head = fields.is_head();
        let done = match fields.finish(is_end, &mut head) {
            Err(Refusal::Malformed(reason)) => Err(malformed(reason)),
            Err(Refusal::Rejected(reject)) => {
                self.reject(desk, origin, reject, is_head);
                Ok(())
            }
            Ok(()) => self.begin_request(desk, origin, &head, is_head),
        };
        desk.buffers.head = head;
        done
    }

    /// Answers a request, or keeps it until its content has ended.
    fn begin_request(&mut self, desk: &mut Desk<'_>, origin: Origin, head: &[u8], is_head: bool) -> Result<(), Fault> {
        let request = match request::parse(head, desk.limits) {
            Ok(request) => request,
            Err(reject) => {
                self.reject(desk, origin, reject, is_head);
                return Ok(());
            }
        };
        let promised = match request.body() {
            BodyLength::Bytes(length) if request.has(Field::ContentLength) => Some(length),
            _ => None,
        };
        if origin.has_ended && promised.is_some_and(|length| length > 0) {
            return Err(Fault::Stream(Code::PROTOCOL_ERROR, "the content does not have the announced length"));
        }
        if origin.has_ended {
            return self.answer(desk, origin, &request, head, None);
        }
        if desk.site.is_forwarded(&request) {
            return self.answer(desk, origin, &request, head, Some(Early::new()));
        }
        if promised.is_some_and(|length| length > SKIPPED_BYTES) {
            self.reject(desk, origin, TOO_LONG, is_head);
        } else if request.expectation() != Expectation::None || request.method() == Method::Connect {
            // The client need not send its content; for CONNECT, the requested tunnel would have no end.
            return self.answer(desk, origin, &request, head, None);
        } else {
            let upload = Box::new(Upload::new(head.to_vec(), promised, desk.now_ms));
            self.streams.put(origin.with(Phase::Receiving(upload)));
        }
        Ok(())
    }

    /// Continues a request after more of its content has arrived.
    pub(super) fn continue_upload(&mut self, desk: &mut Desk<'_>, stream: u32, is_end: bool) -> Result<(), Fault> {
        let Some(own) = self.streams.get(stream) else { return Ok(()) };
        let origin = Origin::of(own);
        let Phase::Receiving(upload) = &mut own.phase else { return Ok(()) };
        if upload.got > SKIPPED_BYTES {
            self.refuse_upload(desk, stream, TOO_LONG);
        } else if is_end {
            let head = std::mem::take(&mut upload.head);
            self.streams.remove(stream);
            self.answer_kept(desk, origin, &head, None)?;
        }
        Ok(())
    }

    /// Answers a request without the rest of its content, which is discarded.
    pub(super) fn refuse_upload(&mut self, desk: &mut Desk<'_>, stream: u32, reject: Reject) {
        let Some(stream) = self.streams.remove(stream) else { return };
        let origin = Origin::of(&stream);
        let Phase::Receiving(upload) = stream.phase else { return };
        self.reject(desk, origin, reject, upload.head.starts_with(b"HEAD "));
    }

    fn end_upload_with_trailer(&mut self, desk: &mut Desk<'_>, stream: u32) -> Result<(), Fault> {
        let Some(own) = self.streams.get(stream) else { return Ok(()) };
        own.has_ended = true;
        match &mut own.phase {
            Phase::Receiving(upload) if upload.promised.is_some_and(|promised| upload.got != promised) => {
                Err(Fault::Stream(Code::PROTOCOL_ERROR, "the content does not have the announced length"))
            }
            Phase::Receiving(_) => self.continue_upload(desk, stream, true),
            Phase::Relaying(relay) => {
                relay.take(b"", 0, true)?;
                if relay.must_list() {
                    self.work.push(stream);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Answers the request of a stream after another thread has looked it up.
    pub(crate) fn answer_found(&mut self, desk: &mut Desk<'_>, serial: u32) {
        let Some(stream) = self.streams.looking_up(serial).and_then(|id| self.streams.remove(id)) else { return };
        let origin = Origin::of(&stream);
        let Phase::LookingUp(waiting) = stream.phase else { return };
        desk.site.steps = waiting.steps;
        let Waiting { head, early, .. } = *waiting;
        if let Err(Fault::Stream(code, _)) = self.answer_kept(desk, origin, &head, early) {
            self.reset(desk, origin.id, code, origin.has_ended);
        }
    }

    /// Answers a request whose head was kept.
    fn answer_kept(
        &mut self,
        desk: &mut Desk<'_>,
        origin: Origin,
        head: &[u8],
        early: Option<Early>,
    ) -> Result<(), Fault> {
        // The head was valid when it was kept.
        let invalid = |_| Fault::Stream(Code::INTERNAL_ERROR, "internal error: a valid head became invalid");
        let request = request::parse(head, desk.limits).map_err(invalid)?;
        self.answer(desk, origin, &request, head, early)
    }

    /// Answers a request, or keeps it if it has to wait for another thread. `early` is the content of a request that is
    /// to be forwarded.
    fn answer(
        &mut self,
        desk: &mut Desk<'_>,
        origin: Origin,
        request: &Request<'_>,
        head: &[u8],
        early: Option<Early>,
    ) -> Result<(), Fault> {
        desk.send_buffers.clear();
        if desk.site.answer(request, desk.send_buffers) {
            self.respond(desk, origin);
            return Ok(());
        }
        let steps = std::mem::take(&mut desk.site.steps);
        if let Some(forward) = desk.site.forward.take() {
            return match early {
                Some(early) => self.begin_relay(origin, forward, head, &early),
                None if origin.has_ended && forward.body == BodyLength::Bytes(0) => {
                    self.begin_relay(origin, forward, head, &Early::new())
                }
                // The rules were replaced after the request began, and its content was discarded.
                None => Err(Fault::Stream(
                    Code::REFUSED_STREAM,
                    "the rules changed: the request must now be forwarded, but its content was discarded",
                )),
            };
        }
        let serial = desk.site.wait_for_entry(desk.number);
        let waiting = Waiting { head: head.to_vec(), serial, steps, early };
        self.streams.put(origin.with(Phase::LookingUp(Box::new(waiting))));
        Ok(())
    }

    /// Answers a request that the parser of HTTP/1.1 rejects, or that exceeds a limit. A response to HEAD has no
    /// content.
    fn reject(&mut self, desk: &mut Desk<'_>, origin: Origin, reject: Reject, is_head: bool) {
        desk.send_buffers.clear();
        desk.site.reject_request(reject, !is_head, desk.send_buffers);
        self.respond(desk, origin);
    }

    /// Writes the head of a response. The content follows if all of it may be sent at once and no other stream waits
    /// for its turn; otherwise it is kept.
    pub(super) fn respond(&mut self, desk: &mut Desk<'_>, origin: Origin) {
        let (source, out) = (&mut *desk.send_buffers, &mut desk.buffers.out);
        if let Some(pacing) = source.pacing.take() {
            self.pacing = Some(pacing);
        }
        let (id, start) = (origin.id, out.len());
        out.extend_from_slice(&[0; HEADER_BYTES]);
        self.table_update.write(out);
        let Some(head_bytes) = response::write_block(&source.bytes, out) else {
            // Unreachable: the server's own heads are well-formed.
            out.truncate(start);
            return frame::write_rst_stream(id, Code::INTERNAL_ERROR, out);
        };
        let bytes = &source.bytes[head_bytes..];
        let length = bytes.len() as u64 + source.batch.bytes_left();
        frame::finish_headers(start, id, length == 0, out);
        if length > 0 {
            let most = self.send_window.min(origin.window).min(i64::from(MOST_BYTES as u32));
            let is_at_once = i64::try_from(length).is_ok_and(|length| length <= most)
                && out.len() < OUT_BYTES
                && !self.is_blocked
                && source.batch.next_file().is_none()
                && !self.streams.any_sendable();
            let start = out.len();
            if is_at_once {
                out.extend_from_slice(&[0; HEADER_BYTES]);
                out.extend_from_slice(bytes);
            }
            if !is_at_once || source.batch.read(out, MOST_BYTES).is_err() {
                out.truncate(start);
                return self.streams.put(origin.with(Phase::Sending(Content::new(bytes, &mut source.batch))));
            }
            self.write_data_header(out, start, id, (true, false));
        } else {
            // Some clients open the window of each stream, whatever the response will be.
            self.frames.give_for(0, false);
        }
        if !origin.has_ended {
            self.end_early(id, out);
        }
    }
}
