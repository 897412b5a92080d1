//! Frames: the header of nine bytes, and the payload of each type (RFC 9113 sections 4 and 6).
//!
//! [`Frame::parse`] checks a frame without its context: its length, its padding, whether it belongs to a stream.
//! Whether a frame is permitted at this time depends on the connection.

use super::code::{Code, Fault};
use super::settings::Setting;

/// The length of a frame's header in bytes.
pub const HEADER_BYTES: usize = 9;

/// The maximum payload that is accepted and sent, which every peer accepts (RFC 9113 section 4.2).
pub const MOST_BYTES: usize = 16 << 10;

/// The last frame of one side of a stream: DATA and HEADERS.
pub const END_STREAM: u8 = 0x1;
/// The acknowledgement of a frame: SETTINGS and PING.
pub const ACK: u8 = 0x1;
/// The last frame of a header block.
pub const END_HEADERS: u8 = 0x4;
/// The payload is padded.
const PADDED: u8 = 0x8;
/// HEADERS begins with a priority.
const PRIORITY: u8 = 0x20;

/// The types of frames that Landau sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Content of a request or response.
    Data = 0,
    /// The beginning of a header block.
    Headers = 1,
    /// The end of a stream with an error.
    RstStream = 3,
    /// The limits of the sender.
    Settings = 4,
    /// A liveness check of the peer.
    Ping = 6,
    /// The end of the connection: later streams are not served.
    GoAway = 7,
    /// An increase of a window.
    WindowUpdate = 8,
    /// More of a header block.
    Continuation = 9,
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The length of the payload.
    pub length: usize,
    /// The type.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream; 0 for the connection.
    pub stream: u32,
}

impl Header {
    /// Parses the header at the beginning of the bytes; `None` if it is incomplete.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<HEADER_BYTES>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Self { length, kind, flags, stream: u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff })
    }

    /// Returns the header of an outgoing frame.
    #[inline]
    pub fn new(kind: Kind, flags: u8, stream: u32, length: usize) -> Self {
        Self { length, kind: kind as u8, flags, stream }
    }

    /// Returns its bytes.
    #[inline]
    pub fn bytes(self) -> [u8; HEADER_BYTES] {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }
}

/// A frame that is valid without its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Content, without its padding.
    Data {
        /// The bytes.
        content: &'a [u8],
        /// Whether this side of the stream ends here.
        is_end: bool,
    },
    /// The beginning of a header block.
    Headers {
        /// The block's bytes in this frame.
        block: &'a [u8],
        /// Whether this side of the stream ends with the block.
        is_end: bool,
        /// Whether the block ends here.
        is_whole: bool,
    },
    /// More of a header block.
    Continuation {
        /// The block's bytes in this frame.
        block: &'a [u8],
        /// Whether the block ends here.
        is_last: bool,
    },
    /// The end of a stream.
    RstStream(Code),
    /// Parameters, six bytes each.
    Settings(&'a [u8]),
    /// The acknowledgement of parameters.
    SettingsAck,
    /// A liveness check, with bytes to be returned.
    Ping([u8; 8]),
    /// The response to a liveness check.
    PingAck([u8; 8]),
    /// The end of the connection: the last stream that is served, and the reason.
    GoAway(u32, Code),
    /// The increment of a window.
    WindowUpdate(u32),
    /// A response without a request.
    PushPromise,
    /// A frame without effect: PRIORITY, or an unknown type.
    Ignored,
}

impl<'a> Frame<'a> {
    /// Parses a payload, whose length is that in the header.
    #[inline]
    pub fn parse(header: Header, payload: &'a [u8]) -> Result<Self, Fault> {
        let (flags, is_of_stream) = (header.flags, header.stream != 0);
        let is_end = flags & END_STREAM != 0;
        match header.kind {
            0..=3 | 9 if !is_of_stream => Err(Fault::protocol("a frame of a stream on stream 0")),
            4 | 6 | 7 if is_of_stream => Err(Fault::protocol("a frame of the connection on a stream")),
            0 => Ok(Self::Data { content: unpadded(flags, payload)?, is_end }),
            1 => {
                let block = without_priority(header, unpadded(flags, payload)?)?;
                Ok(Self::Headers { block, is_end, is_whole: flags & END_HEADERS != 0 })
            }
            2 => priority(header.stream, payload),
            3 => Ok(Self::RstStream(Code(u32::from_be_bytes(fixed(payload)?)))),
            4 if flags & ACK != 0 && payload.is_empty() => Ok(Self::SettingsAck),
            4 if flags & ACK != 0 => Err(Fault::size("SETTINGS with ACK has a payload")),
            4 if !payload.len().is_multiple_of(6) => {
                Err(Fault::size("the length of SETTINGS is not a multiple of six"))
            }
            4 => Ok(Self::Settings(payload)),
            5 => Ok(Self::PushPromise),
            6 if flags & ACK != 0 => Ok(Self::PingAck(fixed(payload)?)),
            6 => Ok(Self::Ping(fixed(payload)?)),
            7 => match payload.first_chunk::<8>() {
                Some(&[a, b, c, d, e, f, g, h]) => {
                    let last = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
                    Ok(Self::GoAway(last, Code(u32::from_be_bytes([e, f, g, h]))))
                }
                None => Err(Fault::size("GOAWAY is too short")),
            },
            8 => match u32::from_be_bytes(fixed(payload)?) & 0x7fff_ffff {
                0 if is_of_stream => Err(Fault::Stream(Code::PROTOCOL_ERROR, "WINDOW_UPDATE by 0")),
                0 => Err(Fault::protocol("WINDOW_UPDATE by 0")),
                increment => Ok(Self::WindowUpdate(increment)),
            },
            9 => Ok(Self::Continuation { block: payload, is_last: flags & END_HEADERS != 0 }),
            _ => Ok(Self::Ignored),
        }
    }
}

#[inline]
fn unpadded(flags: u8, payload: &[u8]) -> Result<&[u8], Fault> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Fault::size("missing padding length"))?;
    let content = rest.len().checked_sub(usize::from(padding)).and_then(|length| rest.get(..length));
    content.ok_or(Fault::protocol("the padding is longer than the frame"))
}

#[inline]
fn without_priority(header: Header, payload: &[u8]) -> Result<&[u8], Fault> {
    if header.flags & PRIORITY == 0 {
        return Ok(payload);
    }
    let (own, rest) = payload.split_at_checked(5).ok_or(Fault::size("HEADERS is too short for its priority"))?;
    // The block would have to be decoded nevertheless, so the connection ends here, as RFC 9113 section 5.4.2 permits.
    match priority(header.stream, own) {
        Err(Fault::Stream(code, reason)) => Err(Fault::Connection(code, reason)),
        other => other.map(|_| rest),
    }
}

/// Validates a priority, which is then ignored (RFC 9113 section 5.3.2).
fn priority<'a>(stream: u32, payload: &[u8]) -> Result<Frame<'a>, Fault> {
    let Ok([a, b, c, d, _]) = <[u8; 5]>::try_from(payload) else {
        return Err(Fault::Stream(Code::FRAME_SIZE_ERROR, "the length of PRIORITY is not five"));
    };
    if u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff == stream {
        return Err(Fault::Stream(Code::PROTOCOL_ERROR, "a stream that depends on itself"));
    }
    Ok(Frame::Ignored)
}

#[inline]
fn fixed<const N: usize>(payload: &[u8]) -> Result<[u8; N], Fault> {
    payload.try_into().map_err(|_| Fault::size("wrong length of a frame of fixed length"))
}

/// Appends a SETTINGS frame.
pub fn write_settings(settings: &[(Setting, u32)], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::Settings, 0, 0, settings.len() * 6).bytes());
    for &(setting, value) in settings {
        out.extend_from_slice(&(setting as u16).to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::Settings, ACK, 0, 0).bytes());
}

/// Appends a PING; the peer responds with the same bytes.
pub fn write_ping(bytes: [u8; 8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::Ping, 0, 0, 8).bytes());
    out.extend_from_slice(&bytes);
}

/// Appends the response to a PING.
pub fn write_ping_ack(bytes: [u8; 8], out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::Ping, ACK, 0, 8).bytes());
    out.extend_from_slice(&bytes);
}

/// Appends a GOAWAY: streams after `last` are not served.
pub fn write_go_away(last: u32, code: Code, out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::GoAway, 0, 0, 8).bytes());
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends an `RST_STREAM` frame.
pub fn write_rst_stream(stream: u32, code: Code, out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::RstStream, 0, stream, 4).bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

/// Appends an increase of the window of a stream, or of the connection (0).
pub fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&Header::new(Kind::WindowUpdate, 0, stream, 4).bytes());
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Completes a HEADERS frame. Its header block was appended after room for a frame header at `start`. Writes the frame
/// header, and splits the block into several frames if it is too long for one.
pub fn finish_headers(start: usize, stream: u32, is_end: bool, out: &mut Vec<u8>) {
    let flags = if is_end { END_STREAM } else { 0 };
    let length = out.len() - start - HEADER_BYTES;
    if length <= MOST_BYTES {
        let header = Header::new(Kind::Headers, flags | END_HEADERS, stream, length);
        out[start..start + HEADER_BYTES].copy_from_slice(&header.bytes());
        return;
    }
    let block = out.split_off(start + HEADER_BYTES);
    out.truncate(start);
    let (mut kind, mut flags) = (Kind::Headers, flags);
    let mut parts = block.chunks(MOST_BYTES).peekable();
    while let Some(part) = parts.next() {
        let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
        out.extend_from_slice(&Header::new(kind, flags | last, stream, part.len()).bytes());
        out.extend_from_slice(part);
        (kind, flags) = (Kind::Continuation, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<Frame<'_>, Fault> {
        let header = Header { length: payload.len(), kind, flags, stream };
        assert_eq!(Header::parse(&header.bytes()), Some(header));
        Frame::parse(header, payload)
    }

    #[test]
    fn frames_are_parsed() {
        let cases: [(u8, u8, u32, &[u8], Frame<'_>); 13] = [
            (0, 0, 1, b"abc", Frame::Data { content: b"abc", is_end: false }),
            (0, 0x9, 1, b"\x02abc\0\0", Frame::Data { content: b"abc", is_end: true }),
            (0, 0x8, 1, b"\x02\0\0", Frame::Data { content: b"", is_end: false }),
            (1, 0x5, 1, b"abc", Frame::Headers { block: b"abc", is_end: true, is_whole: true }),
            (1, 0x28, 3, b"\x01\0\0\0\x01\x10abc\0", Frame::Headers { block: b"abc", is_end: false, is_whole: false }),
            (2, 0, 3, b"\0\0\0\x01\x10", Frame::Ignored),
            (3, 0, 1, b"\0\0\0\x08", Frame::RstStream(Code::CANCEL)),
            (4, 0, 0, b"\0\x01\0\0\0\0", Frame::Settings(b"\0\x01\0\0\0\0")),
            (4, 1, 0, b"", Frame::SettingsAck),
            (7, 0, 0, b"\x80\0\0\x05\0\0\0\0text", Frame::GoAway(5, Code::NO_ERROR)),
            (8, 0, 0, b"\x80\0\0\x05", Frame::WindowUpdate(5)),
            (9, 4, 1, b"abc", Frame::Continuation { block: b"abc", is_last: true }),
            (77, 0xff, 0, b"abc", Frame::Ignored),
        ];
        for (kind, flags, stream, payload, expected) in cases {
            assert_eq!(parse(kind, flags, stream, payload), Ok(expected), "{kind} {payload:?}");
        }
        assert_eq!(parse(6, 0, 0, b"12345678"), Ok(Frame::Ping(*b"12345678")));
        assert_eq!(parse(6, 1, 0, b"12345678"), Ok(Frame::PingAck(*b"12345678")));
        assert_eq!(Header::parse(&[0; 8]), None);
    }

    #[test]
    fn invalid_frames_are_refused() {
        let connection = |code| Fault::Connection(code, "");
        let stream = |code| Fault::Stream(code, "");
        let (protocol, size) = (Code::PROTOCOL_ERROR, Code::FRAME_SIZE_ERROR);
        let cases: [(u8, u8, u32, &[u8], Fault); 22] = [
            (0, 0, 0, b"a", connection(protocol)),
            (0, 8, 1, b"", connection(size)),
            (0, 8, 1, b"\x02a", connection(protocol)),
            (1, 0, 0, b"a", connection(protocol)),
            (1, 8, 1, b"\x01", connection(protocol)),
            (1, 0x20, 1, b"\0\0\0\0", connection(size)),
            (1, 0x20, 1, b"\0\0\0\x01\0a", connection(protocol)),
            (2, 0, 0, b"\0\0\0\x01\0", connection(protocol)),
            (2, 0, 1, b"\0\0\0\x01\0", stream(protocol)),
            (2, 0, 1, b"\0\0\0\x01", stream(size)),
            (3, 0, 0, b"\0\0\0\x01", connection(protocol)),
            (3, 0, 1, b"\0\0\0", connection(size)),
            (4, 0, 1, b"", connection(protocol)),
            (4, 0, 0, b"\0", connection(size)),
            (4, 1, 0, b"\0\x01\0\0\0\0", connection(size)),
            (6, 0, 1, b"12345678", connection(protocol)),
            (6, 0, 0, b"1234567", connection(size)),
            (7, 0, 1, b"12345678", connection(protocol)),
            (7, 0, 0, b"1234567", connection(size)),
            (8, 0, 0, b"\0\0\0\0", connection(protocol)),
            (8, 0, 1, b"\x80\0\0\0", stream(protocol)),
            (9, 0, 0, b"a", connection(protocol)),
        ];
        for (kind, flags, number, payload, expected) in cases {
            let found = match parse(kind, flags, number, payload).unwrap_err() {
                Fault::Connection(code, _) => connection(code),
                Fault::Stream(code, _) => stream(code),
            };
            assert_eq!(found, expected, "{kind} {payload:?}");
        }
    }

    #[test]
    fn long_header_blocks_are_split() {
        for length in [0, 5, MOST_BYTES, MOST_BYTES + 1, 3 * MOST_BYTES] {
            let block: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut out = vec![b'x'; 3];
            out.extend_from_slice(&[0; HEADER_BYTES]);
            out.extend_from_slice(&block);
            finish_headers(3, 7, true, &mut out);
            let (mut found, mut rest, mut count) = (Vec::new(), &out[3..], 0);
            while let Some(header) = Header::parse(rest) {
                let payload = &rest[HEADER_BYTES..HEADER_BYTES + header.length];
                rest = &rest[HEADER_BYTES + header.length..];
                let (part, is_last) = match Frame::parse(header, payload).unwrap() {
                    Frame::Headers { block, is_end: true, is_whole } if count == 0 => (block, is_whole),
                    Frame::Continuation { block, is_last } if count > 0 => (block, is_last),
                    other => panic!("{other:?}"),
                };
                assert_eq!((header.stream, is_last), (7, rest.is_empty()));
                found.extend_from_slice(part);
                count += 1;
            }
            assert_eq!((found, count), (block, length.div_ceil(MOST_BYTES).max(1)));
        }
    }
}
