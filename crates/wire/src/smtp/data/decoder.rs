//! Decoding of the content after DATA, for a server.

use super::inspector::{Inspector, Shape};
use memchr::memmem;

/// A step through the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The number of bytes consumed by this step.
    pub consumed: usize,
    /// The content in them; the rest was dots of the transfer encoding.
    pub content: &'a [u8],
    /// Whether the content ends here; the next command follows.
    pub is_end: bool,
}

/// The next expected element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum State {
    /// The first byte of a line.
    #[default]
    LineStart,
    /// The byte after a dot at the start of a line.
    Dot,
    /// The byte after such a dot and a CR.
    DotReturn,
    /// The rest of a line.
    Text,
    /// The byte after a CR that was already content.
    Return,
    /// Nothing: the content has ended.
    End,
}

/// The content of a message that is being read. Removes the first dot of each line that starts with one, and ends at a
/// line that consists of a single dot (RFC 5321 section 4.5.2).
///
/// Lines end with CR LF only, so a bare CR or LF never starts a line and never ends the content; it is counted. Read to
/// the end, and then reject the message ([`Shape::refusal`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Decoder {
    state: State,
    inspector: Inspector,
}

impl Decoder {
    /// Returns a decoder for the content after a 354 response.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Consumes one run of content, and dots next to it. Call it again for the bytes after it, until the end or until
    /// no bytes are left. The content does not depend on how the bytes are split.
    pub fn advance<'a>(&mut self, bytes: &'a [u8]) -> Piece<'a> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match (self.state, byte) {
                (State::LineStart, b'.') => self.state = State::Dot,
                (State::Dot, b'\r') => self.state = State::DotReturn,
                (State::DotReturn, b'\n') => {
                    self.state = State::End;
                    return Piece { consumed: at + 1, content: b"", is_end: true };
                }
                (State::DotReturn, _) => {
                    self.state = State::Text;
                    self.inspector.push(b"\r");
                    return Piece { consumed: at, content: b"\r", is_end: false };
                }
                (State::Return, b'\n') => return self.text(bytes, at, at + 1),
                (State::End, _) => break,
                _ => return self.text(bytes, at, at),
            }
            at += 1;
        }
        Piece { consumed: at, content: b"", is_end: self.state == State::End }
    }

    /// Consumes all of the content in these bytes and calls `sink` with each run of it. Returns the number of bytes
    /// consumed, and whether the content ended.
    pub fn decode(&mut self, bytes: &[u8], mut sink: impl FnMut(&[u8])) -> (usize, bool) {
        let mut at = 0;
        loop {
            let piece = self.advance(&bytes[at..]);
            at += piece.consumed;
            if !piece.content.is_empty() {
                sink(piece.content);
            }
            if piece.is_end || at == bytes.len() {
                return (at, piece.is_end);
            }
        }
    }

    /// Returns the properties of the content so far.
    pub fn shape(&self) -> Shape {
        self.inspector.shape()
    }

    /// Consumes content from `start` up to a dot at the start of a line. The line may have ended at `at`.
    fn text<'a>(&mut self, bytes: &'a [u8], start: usize, at: usize) -> Piece<'a> {
        let (end, consumed, state) = match bytes.get(at) {
            Some(b'.') if at > start => (at, at + 1, State::Dot),
            _ => match memmem::find(&bytes[at..], b"\r\n.") {
                Some(len) => (at + len + 2, at + len + 3, State::Dot),
                None => (bytes.len(), bytes.len(), state_after(&bytes[at..], at > start)),
            },
        };
        self.state = state;
        let content = &bytes[start..end];
        self.inspector.push(content);
        Piece { consumed, content, is_end: false }
    }
}

/// Returns the state after text without a dot at the start of a line.
fn state_after(text: &[u8], starts_line: bool) -> State {
    match text {
        [.., b'\r', b'\n'] => State::LineStart,
        [.., b'\r'] => State::Return,
        [] if starts_line => State::LineStart,
        _ => State::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the content, the bytes it took, and whether it ended, if the bytes arrive in pieces of this size.
    fn read(bytes: &[u8], size: usize) -> (Vec<u8>, usize, bool, Shape) {
        let (mut decoder, mut content, mut taken) = (Decoder::new(), Vec::new(), 0);
        for chunk in bytes.chunks(size) {
            let (consumed, is_end) = decoder.decode(chunk, |run| content.extend_from_slice(run));
            taken += consumed;
            if is_end {
                return (content, taken, true, decoder.shape());
            }
            assert_eq!(consumed, chunk.len());
        }
        (content, taken, false, decoder.shape())
    }

    #[test]
    fn dots_are_undone_as_in_rfc_5321_section_4_5_2() {
        for (text, content, rest) in [
            (".\r\n", "", Some("")),
            (".\r\nQUIT\r\n", "", Some("QUIT\r\n")),
            ("a\r\n.\r\nQUIT", "a\r\n", Some("QUIT")),
            ("..\r\n.\r\n", ".\r\n", Some("")),
            ("...\r\n.\r\n", "..\r\n", Some("")),
            ("..a\r\n.b\r\n.\r\n", ".a\r\nb\r\n", Some("")),
            ("a.\r\n.\r\n", "a.\r\n", Some("")),
            ("\r\n\r\n.\r\n", "\r\n\r\n", Some("")),
            (". \r\n.\r\n", " \r\n", Some("")),
            ("a\r\n", "a\r\n", None),
            ("a\r\n.", "a\r\n", None),
            ("a\r\n.\r", "a\r\n", None),
            ("", "", None),
        ] {
            for size in 1..=text.len().max(1) {
                let (found, taken, is_end, _) = read(text.as_bytes(), size);
                assert_eq!((found.as_slice(), is_end), (content.as_bytes(), rest.is_some()), "{text:?} by {size}");
                assert_eq!(&text[taken..], rest.unwrap_or_default(), "{text:?} by {size}");
            }
        }
    }

    #[test]
    fn after_the_end_nothing_is_taken() {
        let mut decoder = Decoder::new();
        assert_eq!(decoder.decode(b".\r\n", |_| {}), (3, true));
        assert_eq!(decoder.advance(b"a"), Piece { consumed: 0, content: b"", is_end: true });
    }
}
