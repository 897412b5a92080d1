//! The head of a response, for the load generator: only what it needs to find the end of the response.
//!
//! The parser is lenient, because these are responses to our own requests, and a load generator that rejects a server's
//! small mistakes measures nothing. A line may end with LF only, and the value of a field may contain any bytes.
//! Anything that would make the end of the body uncertain is malformed.

use super::body::{Body, Chunks};
use super::bytes::{TOKEN, members, run_end, trimmed};
use super::field::Field;
use super::request::{Method, Version};
use super::status::Status;
use crate::decimal::decimal;
use memchr::memchr;

/// The maximum length of a head in bytes.
pub const HEAD_BYTES: usize = 65_535;

/// The reason why a response cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed response: {0}")]
pub struct Malformed(pub &'static str);

/// The parsed head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: Status,
    /// The version.
    pub version: Version,
    /// The length of the head; the body follows.
    pub head_bytes: usize,
    /// `Content-Length`, unless the body is framed otherwise.
    pub content_length: Option<u64>,
    /// Whether the body is chunked.
    pub is_chunked: bool,
    /// Whether the head allows another request on the connection.
    pub keep_alive: bool,
    /// Whether it has a transfer coding. If the last one is not chunked, only the connection's end ends the body.
    is_coded: bool,
}

impl Response {
    /// Returns whether another response to the same request follows (RFC 9110 section 15.2). After 101 none does.
    pub const fn is_interim(&self) -> bool {
        matches!(self.status.0, 100 | 102..=199)
    }

    /// Returns the body that follows, if this is the response to a request with that method (RFC 9112 section 6.3).
    pub fn body(&self, method: Method) -> Body {
        let is_bare = method == Method::Head || matches!(self.status.0, 100..=199 | 204 | 304);
        if is_bare || (method == Method::Connect && matches!(self.status.0, 200..=299)) {
            return Body::Bytes(0);
        }
        match self.content_length {
            _ if self.is_chunked => Body::Chunked(Chunks::new()),
            Some(length) if !self.is_coded => Body::Bytes(length),
            _ => Body::UntilClose,
        }
    }

    /// Returns whether the connection can be reused after this response to a request with that method.
    pub fn is_reusable(&self, method: Method) -> bool {
        self.keep_alive && self.status != Status::SWITCHING_PROTOCOLS && self.body(method) != Body::UntilClose
    }
}

/// The state of a head that is being read. It scans each line once, regardless of how the bytes arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The offset of the first incomplete line.
    line: usize,
    /// The number of bytes searched for its end.
    searched: usize,
    response: Response,
    is_close: bool,
    is_keep: bool,
    /// Whether the previous line frames the body, so that no folded line may continue it.
    was_framing: bool,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Reader {
    /// Returns the state before the first byte.
    pub const fn new() -> Reader {
        let response = Response {
            status: Status(0),
            version: Version::Http11,
            head_bytes: 0,
            content_length: None,
            is_chunked: false,
            keep_alive: false,
            is_coded: false,
        };
        Reader { line: 0, searched: 0, response, is_close: false, is_keep: false, was_framing: false }
    }

    /// Continues with all bytes of the response so far, from its first one. Returns `None` if its head is incomplete.
    #[inline]
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Option<Response>, Malformed> {
        loop {
            let Some(len) = memchr(b'\n', bytes.get(self.searched..).unwrap_or_default()) else {
                self.searched = bytes.len();
                return self.partial(bytes);
            };
            let (start, end) = (self.line, self.searched + len);
            (self.line, self.searched) = (end + 1, end + 1);
            if end >= HEAD_BYTES {
                return Err(Malformed("head too long"));
            }
            let line = bytes[start..end].strip_suffix(b"\r").unwrap_or(&bytes[start..end]);
            if start == 0 {
                self.status_line(line)?;
            } else if line.is_empty() {
                return Ok(Some(self.finish(end + 1)));
            } else {
                self.field_line(line)?;
            }
        }
    }

    #[cold]
    fn partial(&self, bytes: &[u8]) -> Result<Option<Response>, Malformed> {
        // A peer that speaks another protocol fails without waiting.
        let start = b"HTTP/1.";
        if self.line == 0 && !bytes.iter().zip(start).all(|(own, byte)| own == byte) {
            return Err(Malformed("status line"));
        }
        if bytes.len() > HEAD_BYTES { Err(Malformed("head too long")) } else { Ok(None) }
    }

    fn status_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        // The reason phrase may be empty, and its space is often omitted then (RFC 9112 section 4).
        let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', a, b, c, rest @ ..] = line else {
            return Err(Malformed("status line"));
        };
        let code = decimal(&[*a, *b, *c]).filter(|code| (100..1000).contains(code));
        let (Some(code), [] | [b' ', ..]) = (code, rest) else { return Err(Malformed("status")) };
        self.response.status = Status(code as u16);
        self.response.version = if *minor == b'1' { Version::Http11 } else { Version::Http10 };
        Ok(())
    }

    #[inline]
    fn field_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        // Three names matter, and they start with one of two letters. A line that starts with white space continues the
        // previous one.
        match line.first() {
            Some(b'c' | b'C' | b't' | b'T') => self.framing_line(line),
            Some(b' ' | b'\t') if self.was_framing => Err(Malformed("folded length")),
            Some(b' ' | b'\t') => Ok(()),
            _ => {
                self.was_framing = false;
                Ok(())
            }
        }
    }

    fn framing_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        self.was_framing = false;
        let Some(colon) = memchr(b':', line) else { return without_colon(line) };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        // White space before the colon is removed in responses (RFC 9112 section 5.1).
        match Field::of(trimmed(name)) {
            Some(Field::ContentLength) => {
                self.was_framing = true;
                for length in value.split(|&b| b == b',').map(trimmed) {
                    let length = decimal(length).ok_or(Malformed("Content-Length"))?;
                    if self.response.content_length.is_some_and(|own| own != length) {
                        return Err(Malformed("several Content-Lengths"));
                    }
                    self.response.content_length = Some(length);
                }
            }
            Some(Field::TransferEncoding) => {
                self.was_framing = true;
                for coding in members(value) {
                    if self.response.is_chunked {
                        return Err(Malformed("a transfer coding after chunked"));
                    }
                    self.response.is_chunked = coding.eq_ignore_ascii_case(b"chunked");
                    self.response.is_coded = true;
                }
            }
            Some(Field::Connection) => {
                for option in members(value) {
                    self.is_close |= option.eq_ignore_ascii_case(b"close");
                    self.is_keep |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, head_bytes: usize) -> Response {
        let response = &mut self.response;
        response.head_bytes = head_bytes;
        response.keep_alive = !self.is_close && (self.is_keep || response.version == Version::Http11);
        if response.is_coded {
            // If both lengths are present, the chunks count, but the connection is not reused (RFC 9112 section 6.3).
            // HTTP/1.0 has no chunks: a sender that claims them has forwarded what it did not understand (section 6.1).
            response.keep_alive &= response.content_length.is_none() && response.version == Version::Http11;
            response.content_length = None;
        }
        *response
    }
}

/// Checks a line that is not a field (RFC 9112 section 5). It is ignored, unless another parser may take it for a field
/// that defines the end of the body or of the connection.
#[cold]
fn without_colon(line: &[u8]) -> Result<(), Malformed> {
    match Field::of(&line[..run_end(line, 0, TOKEN)]) {
        Some(Field::ContentLength | Field::TransferEncoding | Field::Connection) => {
            Err(Malformed("a framing field without a colon"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &[u8]) -> Result<Option<Response>, Malformed> {
        let whole = Reader::new().parse(text);
        // The result must not depend on how the bytes arrive.
        let mut reader = Reader::new();
        let by_byte = (0..=text.len()).map(|len| reader.parse(&text[..len])).find(|result| *result != Ok(None));
        assert_eq!(by_byte.unwrap_or(Ok(None)), whole, "{}", text.escape_ascii());
        whole
    }

    /// Returns the body of the response to a GET, and whether the connection persists after it.
    fn framed(lines: &str) -> Result<(Body, bool), Malformed> {
        let text = lines.replace('|', "\r\n") + "\r\n\r\nbody";
        let response = read(text.as_bytes())?.unwrap();
        assert_eq!(response.head_bytes, text.len() - 4);
        Ok((response.body(Method::Get), response.is_reusable(Method::Get)))
    }

    #[test]
    fn bodies_are_framed_as_specified() {
        let chunked = Body::Chunked(Chunks::new());
        for (lines, body, goes_on) in [
            ("HTTP/1.1 200 OK|Content-Length: 5", Body::Bytes(5), true),
            ("HTTP/1.1 200 OK|content-length:5", Body::Bytes(5), true),
            ("HTTP/1.1 200|Content-Length: 5", Body::Bytes(5), true),
            ("HTTP/1.1 200 |Content-Length: 5, 5|Content-Length : 5 ", Body::Bytes(5), true),
            ("HTTP/1.1 200 OK|Content-Length: 5|Connection: close", Body::Bytes(5), false),
            ("HTTP/1.1 200 OK|Content-Length: 5|Connection: x, Close", Body::Bytes(5), false),
            ("HTTP/1.0 200 OK|Content-Length: 5", Body::Bytes(5), false),
            ("HTTP/1.0 200 OK|Content-Length: 5|Connection: Keep-Alive", Body::Bytes(5), true),
            ("HTTP/1.1 200 OK|Transfer-Encoding: chunked", chunked, true),
            ("HTTP/1.1 200 OK|Transfer-Encoding: gzip, Chunked", chunked, true),
            ("HTTP/1.1 200 OK|Transfer-Encoding: gzip|Transfer-Encoding: chunked", chunked, true),
            ("HTTP/1.1 200 OK|Transfer-Encoding: chunked|Content-Length: 5", chunked, false),
            ("HTTP/1.0 200 OK|Transfer-Encoding: chunked|Connection: keep-alive", chunked, false),
            ("HTTP/1.1 200 OK|Transfer-Encoding: gzip", Body::UntilClose, false),
            ("HTTP/1.1 200 OK|Transfer-Encoding: gzip|Content-Length: 5", Body::UntilClose, false),
            ("HTTP/1.1 200 OK|X: y", Body::UntilClose, false),
            ("HTTP/1.1 204 No Content", Body::Bytes(0), true),
            ("HTTP/1.1 304 Not Modified|Content-Length: 5", Body::Bytes(0), true),
            ("HTTP/1.1 103 Early Hints|Link: x", Body::Bytes(0), true),
            ("HTTP/1.1 101 Switching Protocols|Upgrade: x", Body::Bytes(0), false),
            ("HTTP/1.1 200 OK|X: y| folded|Content-Length: 5", Body::Bytes(5), true),
            // A line that is not a field does not hide the fields after it.
            ("HTTP/1.1 200 OK|X y|: z|\x01: \x02|Content-Length: 5", Body::Bytes(5), true),
            ("HTTP/1.1 200 OK|Cookie|Content-Lengths 6|Content-Length: 5|Connection: close", Body::Bytes(5), false),
        ] {
            assert_eq!(framed(lines), Ok((body, goes_on)), "{lines}");
        }
    }

    #[test]
    fn ambiguous_framing_is_malformed() {
        for lines in [
            "HTTP/1.1 200 OK|Content-Length: x",
            "HTTP/1.1 200 OK|Content-Length:",
            "HTTP/1.1 200 OK|Content-Length: -1",
            "HTTP/1.1 200 OK|Content-Length: 5,",
            "HTTP/1.1 200 OK|Content-Length: 5|Content-Length: 6",
            "HTTP/1.1 200 OK|Content-Length: 5, 6",
            "HTTP/1.1 200 OK|Content-Length: 5| 6",
            "HTTP/1.1 200 OK|Content-Length: 18446744073709551616",
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked, gzip",
            "HTTP/1.1 200 OK|Transfer-Encoding: chunked|\tgzip",
            "HTTP/1.1 200 OK|Content-Length 5",
            "HTTP/1.1 200 OK|Content-Length: 5|content-length=6",
            "HTTP/1.1 200 OK|Content-Length: 5|Transfer-Encoding chunked",
            "HTTP/1.1 200 OK|Content-Length: 5|Connection",
            "HTTP/2.0 200 OK",
            "HTTP/1.1 20 OK",
            "HTTP/1.1 2000 OK",
            "HTTP/1.1 099 OK",
            "HTTP/1.1 +20 OK",
            "HTTP/1.1  200 OK",
            "SSH-2.0-OpenSSH",
            "",
        ] {
            assert!(framed(lines).is_err(), "{lines}");
        }
    }

    #[test]
    fn head_and_interim_responses_have_no_body() {
        let response = read(b"HTTP/1.1 200 OK\nContent-Length: 5\n\n").unwrap().unwrap();
        assert_eq!(response.body(Method::Head), Body::Bytes(0));
        assert!(response.is_reusable(Method::Head) && !response.is_interim());
        let response = read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n").unwrap().unwrap();
        assert!(response.is_interim() && response.head_bytes == 25);
    }

    #[test]
    fn the_head_is_bounded() {
        let text = b"HTTP/1.1 200 OK\r\n".iter().chain(b"A: b\r\n".iter().cycle());
        let text: Vec<u8> = text.copied().take(HEAD_BYTES + 100).collect();
        assert_eq!(read(&text), Err(Malformed("head too long")));
        assert_eq!(read(b"\x16\x03\x01"), Err(Malformed("status line")));
        assert_eq!(read(b"HTTP/1."), Ok(None));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_split_reads_alike(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..20)) {
            let _ = read(&[b"HTTP/1.1 200 OK\r\n", &pieces.concat()[..], b"\r\n\r\n"].concat());
        }
    }

    const PIECES: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b" ",
        b"\t",
        b":",
        b",",
        b"5",
        b"c",
        b"X: y\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: 6\n",
        b"Content-Length 6\n",
        b"Connection: close\r\n",
        b"Transfer-Encoding: chunked\n",
        b"Transfer-Encoding: gzip\r\n",
    ];
}
