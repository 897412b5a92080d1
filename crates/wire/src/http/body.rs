//! Bodies read incrementally: with a length, in chunks (RFC 9112 section 7.1), or until the connection closes. For a
//! server that skips a body that it does not need, and a client that counts the bytes it receives.
//!
//! Chunks are parsed strictly, because the next request starts where they end. A chunk size consists of hexadecimal
//! digits only, and lines end with CR LF. Extensions and trailers are ignored, but limited.

use super::bytes::{self, TOKEN};
use super::request::BodyLength;
use core::ops::Range;

/// The maximum bytes of extensions, leading zeros of sizes, and trailers in a body, beyond the allowance for its
/// content.
pub const OVERHEAD_BYTES: u16 = 8192;

/// The reason why a chunked body was rejected; the connection cannot continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed chunk: {0}")]
pub struct Malformed(pub &'static str);

/// A step through a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The number of bytes consumed by this step.
    pub consumed: usize,
    /// The range of the content in them; the rest is framing.
    pub data: Range<usize>,
    /// Whether the body ends here.
    pub is_end: bool,
}

/// The state of a body that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// This many bytes are left.
    Bytes(u64),
    /// Chunks are left.
    Chunked(Chunks),
    /// All bytes until the connection closes belong to the body.
    UntilClose,
}

impl Body {
    /// Returns the body of a request.
    pub const fn new(length: BodyLength) -> Body {
        match length {
            BodyLength::Bytes(count) => Body::Bytes(count),
            BodyLength::Chunked => Body::Chunked(Chunks::new()),
        }
    }

    /// Returns whether nothing is left.
    pub const fn is_empty(&self) -> bool {
        matches!(self, Body::Bytes(0))
    }

    /// Consumes one part. Call it again for the bytes after it, until the end or until no bytes are left.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Piece, Malformed> {
        match self {
            Body::Bytes(left) => {
                let len = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= len as u64;
                Ok(Piece { consumed: len, data: 0..len, is_end: *left == 0 })
            }
            Body::Chunked(chunks) => chunks.advance(bytes),
            Body::UntilClose => Ok(Piece { consumed: bytes.len(), data: 0..bytes.len(), is_end: false }),
        }
    }

    /// Consumes all of the body in these bytes. Returns how many bytes belong to it, and whether it ended.
    pub fn skip(&mut self, bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let mut at = 0;
        loop {
            let piece = self.advance(&bytes[at..])?;
            at += piece.consumed;
            if piece.is_end || at == bytes.len() {
                return Ok((at, piece.is_end));
            }
        }
    }
}

/// The next element of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    FirstDigit,
    Digits,
    ExtensionStart,
    ExtensionName,
    ExtensionEquals,
    ExtensionValue,
    Quoted,
    QuotedPair,
    QuotedEnd,
    SizeFeed,
    Data,
    DataReturn,
    DataFeed,
    LineStart,
    Name,
    Value,
    LineFeed,
    LastFeed,
    End,
}

/// The state of a chunked body that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    state: State,
    /// While a size is read, its value so far; then the rest of the chunk.
    left: u64,
    overhead: u16,
}

impl Default for Chunks {
    fn default() -> Chunks {
        Chunks::new()
    }
}

impl Chunks {
    /// Returns the state before the first chunk.
    pub const fn new() -> Chunks {
        Chunks { state: State::FirstDigit, left: 0, overhead: 0 }
    }

    /// Consumes framing up to content, and the content that follows it.
    pub fn advance(&mut self, bytes: &[u8]) -> Result<Piece, Malformed> {
        let mut at = 0;
        while self.state != State::Data && self.state != State::End {
            let Some(&byte) = bytes.get(at) else {
                return Ok(Piece { consumed: at, data: at..at, is_end: false });
            };
            self.state = self.next(byte)?;
            at += 1;
        }
        if self.state == State::End {
            return Ok(Piece { consumed: at, data: at..at, is_end: true });
        }
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len() - at);
        self.left -= len as u64;
        if self.left == 0 {
            self.state = State::DataReturn;
        }
        Ok(Piece { consumed: at + len, data: at..at + len, is_end: false })
    }

    /// Returns the state after a byte outside of the content: a chunk's size and line ends, a trailer field, or, by
    /// [`Self::next_of_extension`], an extension.
    fn next(&mut self, byte: u8) -> Result<State, Malformed> {
        Ok(match (self.state, byte) {
            (State::FirstDigit, _) if byte.is_ascii_hexdigit() => {
                self.left = 0;
                self.digit(byte)?
            }
            (State::Digits, _) if byte.is_ascii_hexdigit() => self.digit(byte)?,
            (State::Digits, b'\r') => State::SizeFeed,
            (State::Digits, b';') => State::ExtensionStart,
            (State::SizeFeed, b'\n') if self.left == 0 => State::LineStart,
            (State::SizeFeed, b'\n') => self.begin_data(),
            (State::DataReturn, b'\r') => State::DataFeed,
            (State::DataFeed, b'\n') => State::FirstDigit,
            (State::LineStart, b'\r') => State::LastFeed,
            (State::LineStart | State::Name, _) if bytes::is(byte, TOKEN) => self.over(State::Name)?,
            (State::Name, b':') => State::Value,
            (State::Value, b'\r') => State::LineFeed,
            (State::Value, _) if is_text(byte) => self.over(State::Value)?,
            (State::LineFeed, b'\n') => self.over(State::LineStart)?,
            (State::LastFeed, b'\n') => State::End,
            (State::FirstDigit | State::Digits, _) => return Err(Malformed("size")),
            (State::DataReturn | State::DataFeed, _) => return Err(Malformed("no line end after the content")),
            (State::Name | State::Value | State::LineStart, _) => return Err(Malformed("trailer")),
            (State::SizeFeed | State::LineFeed | State::LastFeed, _) => return Err(Malformed("bare carriage return")),
            _ => self.next_of_extension(byte)?,
        })
    }

    /// Returns the state after a byte of an extension: a name, optionally with a value, which may be quoted (RFC 9112
    /// section 7.1.1). Extensions are ignored, but an invalid one could be the end of a line to another parser.
    fn next_of_extension(&mut self, byte: u8) -> Result<State, Malformed> {
        let is_token = bytes::is(byte, TOKEN);
        let state = match (self.state, byte) {
            (State::ExtensionName | State::ExtensionValue | State::QuotedEnd, b'\r') => State::SizeFeed,
            (State::ExtensionName | State::ExtensionValue | State::QuotedEnd, b';') => State::ExtensionStart,
            (State::ExtensionStart | State::ExtensionName, _) if is_token => State::ExtensionName,
            (State::ExtensionName, b'=') => State::ExtensionEquals,
            (State::ExtensionEquals | State::ExtensionValue, _) if is_token => State::ExtensionValue,
            (State::ExtensionEquals, b'"') => State::Quoted,
            (State::Quoted, b'"') => State::QuotedEnd,
            (State::Quoted, b'\\') => State::QuotedPair,
            (State::Quoted | State::QuotedPair, _) if is_text(byte) => State::Quoted,
            _ => return Err(Malformed("extension")),
        };
        self.over(state)
    }

    fn digit(&mut self, byte: u8) -> Result<State, Malformed> {
        if self.left >> 60 != 0 {
            return Err(Malformed("size too large"));
        }
        let digit = char::from(byte).to_digit(16).unwrap_or_default();
        self.left = self.left << 4 | u64::from(digit);
        // Leading zeros do not make a size larger, but their number must be bounded.
        if self.left == 0 { self.over(State::Digits) } else { Ok(State::Digits) }
    }

    /// Reduces the counted overhead by twice the size of the chunk and a line of usual length. A long body may have as
    /// many lines as it needs, but the content bounds their bytes.
    fn begin_data(&mut self) -> State {
        let worth = self.left.saturating_mul(2).saturating_add(16);
        self.overhead = self.overhead.saturating_sub(u16::try_from(worth).unwrap_or(u16::MAX));
        State::Data
    }

    fn over(&mut self, state: State) -> Result<State, Malformed> {
        self.overhead += 1;
        if self.overhead > OVERHEAD_BYTES { Err(Malformed("too much chunk overhead")) } else { Ok(state) }
    }
}

/// Returns whether a byte is valid in an extension or in the value of a trailer.
const fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), Malformed> {
        let mut body = Body::new(BodyLength::Chunked);
        let (mut content, mut at, mut is_end) = (Vec::new(), 0, false);
        while at < bytes.len() && !is_end {
            let window = &bytes[at..bytes.len().min(at + step)];
            let piece = body.advance(window)?;
            content.extend_from_slice(&window[piece.data]);
            at += piece.consumed;
            is_end = piece.is_end;
        }
        Ok((content, at, is_end))
    }

    #[test]
    fn chunks_are_joined_at_any_split() {
        let text = b"4\r\nWiki\r\n00A;name=\"v;\\\"\";b;c=d\r\n0123456789\r\n0\r\nTrailer: x\r\nOther:\r\n\r\nGET /";
        for step in 1..text.len() {
            assert_eq!(read(text, step), Ok((b"Wiki0123456789".to_vec(), text.len() - 5, true)), "{step}");
        }
    }

    #[test]
    fn ambiguous_chunks_are_rejected() {
        for text in [
            &b"\r\n"[..],
            b";a\r\n",
            b" 4\r\nWiki",
            b"4 \r\nWiki",
            b"4\nWiki",
            b"4\r\rWiki",
            b"0x4\r\n",
            b"+4\r\n",
            b"-4\r\n",
            b"4_0\r\n",
            b"g\r\n",
            b"4\r\nWikiX",
            b"4\r\nWiki\n",
            b"4\r\nWiki\rX",
            b"4;a\nWiki",
            b"4;a\0\r\n",
            b"4;\r\nWiki",
            b"4; a\r\nWiki",
            b"4;a[\r\nWiki",
            b"4;a=\r\nWiki",
            b"4;a=\"b\r\nWiki",
            b"4;a=\"b\"c\r\nWiki",
            b"4;a=\"\\\r\nWiki",
            b"4;a\rb\r\n",
            b"10000000000000000\r\n",
            b"0\r\n : x\r\n",
            b"0\r\nA : x\r\n",
            b"0\r\nA\r\n",
            b"0\r\nA: x\n",
            b"0\r\n\n",
            b"0\r\n\rX",
            b"0\r\n\x01",
        ] {
            for step in [1, 2, text.len()] {
                assert!(read(text, step).is_err(), "{:?}", text.escape_ascii().to_string());
            }
        }
    }

    #[test]
    fn extensions_trailers_and_zeros_have_a_limit() {
        let long = "a".repeat(usize::from(OVERHEAD_BYTES) + 1);
        for text in [format!("1;{long}"), format!("0\r\n{long}"), format!("0\r\na:{long}"), "0".repeat(long.len())] {
            assert_eq!(read(text.as_bytes(), 7), Err(Malformed("too much chunk overhead")));
        }
        assert_eq!(read(b"ffffffffffffffff\r\nx", 99), Ok((b"x".to_vec(), 19, false)));
    }

    #[test]
    fn the_limit_grows_with_the_content() {
        let mut body = Body::new(BodyLength::Chunked);
        let chunk = [format!("00000400;signature={}\r\n", "f".repeat(64)).into_bytes(), vec![b'x'; 1024]].concat();
        for number in 0..1000 {
            assert_eq!(body.skip(&[&chunk[..], b"\r\n"].concat()), Ok((chunk.len() + 2, false)), "{number}");
        }
        // An unused allowance of the content does not carry over.
        let end = [b"0\r\nA: ".to_vec(), vec![b'a'; usize::from(OVERHEAD_BYTES)]].concat();
        assert_eq!(body.skip(&end), Err(Malformed("too much chunk overhead")));
        // Small chunks with long lines do not evade the limit.
        let mut body = Body::new(BodyLength::Chunked);
        let small = format!("1;signature={}\r\nx\r\n", "f".repeat(64));
        let refused = (0..1000).find(|_| body.skip(small.as_bytes()).is_err());
        assert!(refused.is_some_and(|number| number > 100), "{refused:?}");
    }

    #[test]
    fn a_body_with_a_length_ends_there() {
        let mut body = Body::new(BodyLength::Bytes(5));
        assert_eq!(body.skip(b"abc"), Ok((3, false)));
        assert_eq!(body.skip(b"deGET"), Ok((2, true)));
        assert!(body.is_empty());
        assert_eq!(Body::UntilClose.skip(b"abc"), Ok((3, false)));
    }
}
