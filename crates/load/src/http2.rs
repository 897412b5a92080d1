//! The client side of HTTP/2: requests on streams, and the responses that arrive on them. This module does no I/O.
//!
//! Flow-control windows are as large as the protocol allows, so that the generator does not slow a server down. The
//! windows of the connection and of each stream are reopened long before they close. Fields that are the same in each
//! request take one byte each from the second request on, as with other clients.

use crate::failure::{Failure, Reason};
use crate::response::Response;
use landau_wire::http2::frame::{self, Frame, HEADER_BYTES, Header, MOST_BYTES};
use landau_wire::http2::hpack::{Decoder, Encoder};
use landau_wire::http2::response::Fields;
use landau_wire::http2::{Code, Fault, INITIAL_WINDOW, LARGEST_WINDOW, PREFACE, Setting, Settings};
use std::collections::HashSet;

/// The number of bytes after which the window of the connection or of a stream is reopened.
const WINDOW_STEP: u32 = 1 << 30;

/// The size of the table for header blocks that the server may use.
const TABLE_BYTES: usize = 4096;

/// The maximum length of a header block: that of an HTTP/1.1 head.
const BLOCK_BYTES: usize = landau_wire::http::response::HEAD_BYTES;

/// The number of streams that the client opens before it has received the server's limit: the number that every server
/// should accept (RFC 9113 section 6.5.2).
const FIRST_STREAMS: usize = 100;

/// An event from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// The head of a response.
    Head(u32),
    /// The end of a response, with the length that its head announced.
    End(u32, Response, Option<u64>),
    /// The server has reset a stream.
    Reset(u32, Code),
    /// The server will not answer streams after this one.
    GoAway(u32),
}

/// A response in progress.
#[derive(Debug, Default)]
struct Begun {
    stream: u32,
    fields: Fields,
    length: u64,
    /// Bytes by which the window of the stream has shrunk since the last `WINDOW_UPDATE`.
    unannounced: u32,
}

/// An incomplete header block.
#[derive(Debug)]
struct Block {
    stream: u32,
    is_end: bool,
    bytes: Vec<u8>,
}

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    encoder: Encoder,
    decoder: Decoder,
    peer: Settings,
    has_settings: bool,
    /// Whether the server has raised its limit of streams since the last call of `take_growth`.
    has_grown: bool,
    next_stream: u32,
    /// The beginning of an incomplete frame.
    input: Vec<u8>,
    scratch: Vec<u8>,
    block: Option<Block>,
    begun: Vec<Begun>,
    /// Streams that the client has cancelled and whose end has not arrived from the server.
    cancelled: HashSet<u32>,
    /// The time at which bytes last arrived.
    pub(crate) heard_ns: u64,
    received: u32,
    /// Frames that the protocol requires the client to send, apart from requests.
    pub(crate) replies: Vec<u8>,
}

impl Http2 {
    /// Begins a connection, and writes the preface, `SETTINGS` and a `WINDOW_UPDATE`.
    pub(crate) fn new(out: &mut Vec<u8>) -> Self {
        let largest = LARGEST_WINDOW as u32;
        out.extend_from_slice(PREFACE);
        frame::write_settings(&[(Setting::EnablePush, 0), (Setting::InitialWindowSize, largest)], out);
        frame::write_window_update(0, largest - INITIAL_WINDOW, out);
        Self {
            encoder: Encoder::new(),
            decoder: Decoder::new(TABLE_BYTES),
            peer: Settings::default(),
            has_settings: false,
            has_grown: false,
            next_stream: 1,
            input: Vec::new(),
            scratch: Vec::new(),
            block: None,
            begun: Vec::new(),
            cancelled: HashSet::new(),
            heard_ns: 0,
            received: 0,
            replies: Vec::new(),
        }
    }

    /// Returns the maximum number of streams that the server accepts at a time.
    pub(crate) fn most_streams(&self) -> usize {
        if self.has_settings { self.peer.max_concurrent_streams as usize } else { FIRST_STREAMS }
    }

    /// Returns whether the server has raised its limit of streams since the last call.
    pub(crate) fn take_growth(&mut self) -> bool {
        std::mem::take(&mut self.has_grown)
    }

    /// Writes a request without content, and returns its stream.
    pub(crate) fn request(&mut self, fields: &[(String, String)], out: &mut Vec<u8>) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.begin(out);
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), out);
        }
        frame::finish_headers(start, stream, true, out);
        stream
    }

    /// Cancels a stream with `RST_STREAM`. Frames that still arrive on it are ignored.
    pub(crate) fn cancel(&mut self, stream: u32, out: &mut Vec<u8>) {
        self.begun.retain(|begun| begun.stream != stream);
        self.cancelled.insert(stream);
        frame::write_rst_stream(stream, Code::CANCEL, out);
    }

    /// Returns whether the client has cancelled a stream. `is_end` is whether the server has now ended it, too.
    fn is_cancelled(&mut self, stream: u32, is_end: bool) -> bool {
        // This is called for each response, and hardly any connection has cancelled a stream.
        !self.cancelled.is_empty()
            && if is_end { self.cancelled.remove(&stream) } else { self.cancelled.contains(&stream) }
    }

    /// Returns whether the stream IDs are exhausted.
    pub(crate) fn is_used_up(&self) -> bool {
        self.next_stream > LARGEST_WINDOW as u32 - 2
    }

    /// Leaves stream IDs for `count` requests.
    #[cfg(test)]
    pub(crate) fn leave_streams(&mut self, count: u32) {
        self.next_stream = LARGEST_WINDOW as u32 - 2 * count;
    }

    /// Writes a GOAWAY: the client will send no more requests.
    pub(crate) fn finish(out: &mut Vec<u8>) {
        frame::write_go_away(0, Code::NO_ERROR, out);
    }

    /// Reads frames until one of them is an event or no bytes are left.
    pub(crate) fn read(&mut self, rest: &mut &[u8]) -> Result<Option<Arrived>, Reason> {
        loop {
            let Some((header, payload)) = self.next_frame(rest)? else { return Ok(None) };
            let arrived = self.frame(header, &payload).map_err(|fault| {
                let (Fault::Connection(code, reason) | Fault::Stream(code, reason)) = fault;
                (Failure::InvalidResponse, format!("{reason} ({})", code.name()))
            })?;
            if arrived.is_some() {
                return Ok(arrived);
            }
        }
    }

    /// Takes the next complete frame; `None` if it has not arrived completely.
    fn next_frame<'a>(&mut self, rest: &mut &'a [u8]) -> Result<Option<(Header, Payload<'a>)>, Reason> {
        let invalid = |text: String| Err((Failure::InvalidResponse, text));
        let is_long = |header: Option<Header>| header.is_some_and(|header| header.length > MOST_BYTES);
        if self.input.is_empty() {
            let bytes = *rest;
            let header = Header::parse(bytes);
            if let Some(header) = header
                && let Some(payload) = bytes.get(HEADER_BYTES..HEADER_BYTES + header.length)
                && header.length <= MOST_BYTES
            {
                *rest = &bytes[HEADER_BYTES + header.length..];
                return Ok(Some((header, Payload::Borrowed(payload))));
            }
            if is_long(header) {
                return invalid(format!("not an HTTP/2 frame: {}", bytes[..bytes.len().min(40)].escape_ascii()));
            }
            self.input.extend_from_slice(bytes);
            *rest = &[];
            return Ok(None);
        }
        // The first round completes the header, the second the payload.
        for _ in 0..2 {
            let needed = Header::parse(&self.input).map_or(HEADER_BYTES, |header| HEADER_BYTES + header.length);
            let count = needed.saturating_sub(self.input.len()).min(rest.len());
            self.input.extend_from_slice(&rest[..count]);
            *rest = &rest[count..];
            if is_long(Header::parse(&self.input)) {
                return invalid(format!("not an HTTP/2 frame: {}", self.input.escape_ascii()));
            }
        }
        match Header::parse(&self.input) {
            Some(header) if self.input.len() == HEADER_BYTES + header.length => {
                let mut bytes = std::mem::take(&mut self.input);
                bytes.drain(..HEADER_BYTES);
                Ok(Some((header, Payload::Owned(bytes))))
            }
            _ => Ok(None),
        }
    }

    fn frame(&mut self, header: Header, payload: &Payload<'_>) -> Result<Option<Arrived>, Fault> {
        let stream = header.stream;
        match Frame::parse(header, payload.bytes())? {
            Frame::Data { content, is_end } => {
                self.received += header.length as u32;
                if self.received >= WINDOW_STEP {
                    frame::write_window_update(0, std::mem::take(&mut self.received), &mut self.replies);
                }
                let Some(place) = self.begun.iter().position(|begun| begun.stream == stream) else {
                    if self.is_cancelled(stream, is_end) {
                        return Ok(None);
                    }
                    return Err(Fault::Stream(Code::PROTOCOL_ERROR, "content without a response"));
                };
                let begun = &mut self.begun[place];
                begun.length += content.len() as u64;
                begun.unannounced += header.length as u32;
                // A stream that ends needs no window.
                if begun.unannounced >= WINDOW_STEP && !is_end {
                    frame::write_window_update(stream, std::mem::take(&mut begun.unannounced), &mut self.replies);
                }
                Ok(is_end.then(|| self.end(place)))
            }
            Frame::Headers { block, is_end, is_whole: true } => self.end_block(stream, block, is_end),
            Frame::Headers { block, is_end, is_whole: false } => {
                self.block = Some(Block { stream, is_end, bytes: block.to_vec() });
                Ok(None)
            }
            Frame::Continuation { block, is_last } => {
                let Some(own) = self.block.as_mut().filter(|own| own.stream == stream) else {
                    return Err(Fault::Connection(Code::PROTOCOL_ERROR, "CONTINUATION without HEADERS"));
                };
                own.bytes.extend_from_slice(block);
                if own.bytes.len() > BLOCK_BYTES {
                    return Err(Fault::Connection(Code::ENHANCE_YOUR_CALM, "header block too long"));
                }
                match self.block.take_if(|_| is_last) {
                    Some(Block { stream, is_end, bytes }) => self.end_block(stream, &bytes, is_end),
                    None => Ok(None),
                }
            }
            Frame::RstStream(code) => {
                self.is_cancelled(stream, true);
                self.begun.retain(|begun| begun.stream != stream);
                Ok(Some(Arrived::Reset(stream, code)))
            }
            Frame::Settings(payload) => {
                let before = self.most_streams();
                self.peer.apply(payload)?;
                self.has_settings = true;
                self.has_grown |= self.most_streams() > before;
                self.encoder.resize(self.peer.header_table_size);
                frame::write_settings_ack(&mut self.replies);
                Ok(None)
            }
            Frame::Ping(bytes) => {
                frame::write_ping_ack(bytes, &mut self.replies);
                Ok(None)
            }
            Frame::GoAway(last, _) => Ok(Some(Arrived::GoAway(last))),
            Frame::PushPromise => Err(Fault::Connection(Code::PROTOCOL_ERROR, "PUSH_PROMISE, although it is disabled")),
            Frame::SettingsAck | Frame::PingAck(_) | Frame::WindowUpdate(_) | Frame::Ignored => Ok(None),
        }
    }

    /// Decodes a header block: of a response, of an interim response, or of trailers.
    fn end_block(&mut self, stream: u32, block: &[u8], is_end: bool) -> Result<Option<Arrived>, Fault> {
        let mut fields = Fields::default();
        let decoded = self.decoder.decode(block, &mut self.scratch, |name, value| fields.add(name, value));
        decoded.map_err(|error| Fault::Connection(Code::COMPRESSION_ERROR, error.0))?;
        if let Some(place) = self.begun.iter().position(|begun| begun.stream == stream) {
            return Ok(is_end.then(|| self.end(place)));
        }
        if self.is_cancelled(stream, is_end) {
            return Ok(None);
        }
        if fields.status == 0 {
            return Err(Fault::Stream(Code::PROTOCOL_ERROR, "a response without a status"));
        }
        if fields.is_interim() {
            return Ok(None);
        }
        self.begun.push(Begun { stream, fields, length: 0, unannounced: 0 });
        Ok(Some(if is_end { self.end(self.begun.len() - 1) } else { Arrived::Head(stream) }))
    }

    fn end(&mut self, place: usize) -> Arrived {
        let Begun { stream, fields, length, .. } = self.begun.swap_remove(place);
        let response = Response { status: fields.status, length, is_reusable: true };
        Arrived::End(stream, response, fields.content_length)
    }
}

/// The payload of a frame: in the receive buffer, or assembled from parts.
enum Payload<'a> {
    Borrowed(&'a [u8]),
    Owned(Vec<u8>),
}

impl Payload<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_wire::http2::frame::{END_STREAM, Kind};
    use landau_wire::http2::hpack::{write_field, write_status};

    fn headers(stream: u32, status: u16, length: Option<&str>, is_end: bool, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        write_status(status, out);
        if let Some(length) = length {
            write_field(b"content-length", length.as_bytes(), out);
        }
        frame::finish_headers(start, stream, is_end, out);
    }

    fn data(stream: u32, content: &[u8], is_end: bool, out: &mut Vec<u8>) {
        let flags = if is_end { END_STREAM } else { 0 };
        out.extend_from_slice(&Header::new(Kind::Data, flags, stream, content.len()).bytes());
        out.extend_from_slice(content);
    }

    /// Interleaved responses on three streams, however the bytes are split.
    #[test]
    fn every_split_gives_the_same_responses() {
        let mut out = Vec::new();
        frame::write_settings(&[(Setting::MaxConcurrentStreams, 7)], &mut out);
        headers(1, 103, None, false, &mut out);
        headers(1, 200, Some("5"), false, &mut out);
        data(1, b"abc", false, &mut out);
        headers(3, 404, None, true, &mut out);
        headers(5, 200, None, false, &mut out);
        out.extend_from_slice(&Header::new(Kind::Ping, 0, 0, 8).bytes());
        out.extend_from_slice(b"question");
        data(1, b"de", true, &mut out);
        data(5, b"", false, &mut out);
        headers(5, 200, None, true, &mut out);
        frame::write_rst_stream(7, Code::REFUSED_STREAM, &mut out);
        frame::write_go_away(5, Code::NO_ERROR, &mut out);
        let response = |status, length| Response { status, length, is_reusable: true };
        let expected = [
            Arrived::Head(1),
            Arrived::End(3, response(404, 0), None),
            Arrived::Head(5),
            Arrived::End(1, response(200, 5), Some(5)),
            Arrived::End(5, response(200, 0), None),
            Arrived::Reset(7, Code::REFUSED_STREAM),
            Arrived::GoAway(5),
        ];
        for step in 1..=out.len() {
            let mut client = Http2::new(&mut Vec::new());
            let mut arrived = Vec::new();
            for mut part in out.chunks(step) {
                while !part.is_empty() {
                    arrived.extend(client.read(&mut part).unwrap());
                }
            }
            assert_eq!(arrived, expected, "{step}");
            assert_eq!((client.most_streams(), client.replies.len()), (7, 9 + 17));
        }
    }

    /// Only the window of the connection was once reopened, so that a response of more than 2 GiB stalled.
    #[test]
    fn windows_of_connection_and_stream_are_opened_again() {
        let (mut client, mut start) = (Http2::new(&mut Vec::new()), Vec::new());
        headers(1, 200, None, false, &mut start);
        assert_eq!(client.read(&mut &start[..]).unwrap(), Some(Arrived::Head(1)));
        let content = vec![0; MOST_BYTES];
        let (mut part, mut last) = (Vec::new(), Vec::new());
        data(1, &content, false, &mut part);
        data(1, &content, true, &mut last);
        let count = WINDOW_STEP as usize / MOST_BYTES;
        for _ in 0..count {
            assert_eq!(client.read(&mut &part[..]).unwrap(), None);
        }
        let mut expected = Vec::new();
        frame::write_window_update(0, WINDOW_STEP, &mut expected);
        frame::write_window_update(1, WINDOW_STEP, &mut expected);
        assert_eq!(std::mem::take(&mut client.replies), expected);
        // The frame that ends the stream reopens only the window of the connection.
        for _ in 1..count {
            assert_eq!(client.read(&mut &part[..]).unwrap(), None);
        }
        let response = Response { status: 200, length: 2 * u64::from(WINDOW_STEP), is_reusable: true };
        assert_eq!(client.read(&mut &last[..]).unwrap(), Some(Arrived::End(1, response, None)));
        expected.clear();
        frame::write_window_update(0, WINDOW_STEP, &mut expected);
        assert_eq!(client.replies, expected);
    }

    /// The server may have sent more frames before it received the cancellation. They still count, because the window
    /// and the table for header blocks belong to the connection.
    #[test]
    fn what_comes_on_a_cancelled_stream_is_ignored_and_counted() {
        let (mut client, mut out) = (Http2::new(&mut Vec::new()), Vec::new());
        headers(1, 200, None, false, &mut out);
        assert_eq!(client.read(&mut &out[..]).unwrap(), Some(Arrived::Head(1)));
        let (mut cancelled, mut expected) = (Vec::new(), Vec::new());
        client.cancel(1, &mut cancelled);
        client.cancel(3, &mut cancelled);
        frame::write_rst_stream(1, Code::CANCEL, &mut expected);
        frame::write_rst_stream(3, Code::CANCEL, &mut expected);
        assert_eq!(cancelled, expected);
        out.clear();
        data(1, b"abc", true, &mut out);
        // A literal with indexing: the next response refers to the field by its index.
        let field = b"\x40\x0econtent-length\x012";
        for (stream, block) in [(3, [&b"\x88"[..], field].concat()), (5, b"\x88\xbe".to_vec())] {
            let start = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            out.extend_from_slice(&block);
            frame::finish_headers(start, stream, false, &mut out);
            data(stream, b"de", true, &mut out);
        }
        let mut rest = &out[..];
        let response = Response { status: 200, length: 2, is_reusable: true };
        assert_eq!(client.read(&mut rest).unwrap(), Some(Arrived::Head(5)));
        assert_eq!(client.read(&mut rest).unwrap(), Some(Arrived::End(5, response, Some(2))));
        assert_eq!((client.received, client.cancelled.len()), (7, 0));
    }

    #[test]
    fn only_a_higher_limit_of_streams_is_growth() {
        let mut client = Http2::new(&mut Vec::new());
        for (most, grows) in [(0, false), (100, true), (100, false), (7, false), (8, true)] {
            let mut out = Vec::new();
            frame::write_settings(&[(Setting::MaxConcurrentStreams, most)], &mut out);
            assert_eq!(client.read(&mut &out[..]).unwrap(), None);
            assert_eq!((client.take_growth(), client.take_growth()), (grows, false), "{most}");
        }
    }

    #[test]
    fn what_is_no_http2_is_invalid() {
        let mut client = Http2::new(&mut Vec::new());
        let (failure, text) = client.read(&mut &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..]).unwrap_err();
        assert_eq!(failure, Failure::InvalidResponse);
        assert!(text.contains("HTTP/1.1 400"), "{text}");
        let mut out = Vec::new();
        data(1, b"x", true, &mut out);
        assert!(Http2::new(&mut Vec::new()).read(&mut &out[..]).is_err());
        out.clear();
        headers(1, 0, None, true, &mut out);
        assert!(Http2::new(&mut Vec::new()).read(&mut &out[..]).is_err());
    }
}
