//! The properties of the content of a message.

use crate::smtp::code::Code;
use crate::smtp::reject::Reject;
use memchr::memchr3;

/// The maximum length of a line of a message in bytes, without its end (RFC 5321 section 4.5.3.1.6).
pub const TEXT_LINE_BYTES: u64 = 998;

/// The properties of the content of a message, without dot-stuffing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Shape {
    /// The length in bytes, with line ends.
    pub bytes: u64,
    /// The number of lines that end with CR LF.
    pub lines: u64,
    /// The length of the longest line in bytes, without its end.
    pub longest_line_bytes: u64,
    /// The number of CR without LF.
    pub bare_returns: u64,
    /// The number of LF without CR.
    pub bare_feeds: u64,
    /// The number of NUL bytes, which text must not contain (RFC 2045 section 2.8).
    pub nuls: u64,
    /// Whether there is a byte beyond ASCII, so that the message needs 8BITMIME.
    pub is_8bit: bool,
    /// Whether the content is empty or ends with CR LF.
    pub is_terminated: bool,
}

impl Shape {
    /// Returns how a server rejects the message, after reading it to its end, if a CR or LF is bare (RFC 5321 section
    /// 2.3.8). If it were passed on, such a byte could be the end of the data to the next server. 5.6.11 is the code
    /// that Exchange Online sends; no RFC defines one.
    pub fn refusal(&self) -> Option<Reject> {
        let reason = match (self.bare_feeds, self.bare_returns) {
            (0, 0) => return None,
            (0, _) => "message has a bare carriage return",
            _ => "message has a bare line feed",
        };
        Some(Reject::new(Code::MAILBOX_UNAVAILABLE, (5, 6, 11), reason))
    }

    /// Returns whether a line is longer than [`TEXT_LINE_BYTES`], which servers may reject.
    pub const fn has_long_line(&self) -> bool {
        self.longest_line_bytes > TEXT_LINE_BYTES
    }
}

/// Inspects content as it passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Inspector {
    shape: Shape,
    /// The number of bytes in the incomplete line.
    line_bytes: u64,
    /// Whether the last byte was a CR, which the next byte may complete.
    is_return: bool,
}

impl Inspector {
    /// Returns an inspector before the first byte.
    pub fn new() -> Inspector {
        Inspector::default()
    }

    /// Inspects the next bytes of the content.
    pub fn push(&mut self, bytes: &[u8]) {
        self.shape.bytes += bytes.len() as u64;
        self.shape.is_8bit |= !bytes.is_ascii();
        let mut start = 0;
        if self.is_return && !bytes.is_empty() {
            self.is_return = false;
            if bytes[0] == b'\n' {
                self.end_line();
                start = 1;
            } else {
                self.shape.bare_returns += 1;
                self.line_bytes += 1;
            }
        }
        let mut at = start;
        while let Some(len) = memchr3(b'\r', b'\n', 0, &bytes[at..]) {
            at += len;
            match (bytes[at], bytes.get(at + 1)) {
                (b'\r', Some(b'\n')) => {
                    self.line_bytes += (at - start) as u64;
                    self.end_line();
                    start = at + 2;
                    at += 1;
                }
                (b'\r', None) => {
                    // It counts as a byte of the line if it turns out to be bare.
                    self.is_return = true;
                    self.line_bytes += (at - start) as u64;
                    start = at + 1;
                }
                (b'\r', Some(_)) => self.shape.bare_returns += 1,
                (b'\n', _) => self.shape.bare_feeds += 1,
                _ => self.shape.nuls += 1,
            }
            at += 1;
        }
        self.line_bytes += (bytes.len() - start) as u64;
    }

    /// Returns the properties of the content; a CR at its very end is bare.
    pub fn shape(&self) -> Shape {
        let mut shape = self.shape;
        let rest = self.line_bytes + u64::from(self.is_return);
        shape.bare_returns += u64::from(self.is_return);
        shape.longest_line_bytes = shape.longest_line_bytes.max(rest);
        shape.is_terminated = rest == 0;
        shape
    }

    fn end_line(&mut self) {
        self.shape.lines += 1;
        self.shape.longest_line_bytes = self.shape.longest_line_bytes.max(self.line_bytes);
        self.line_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(bytes: &[u8], size: usize) -> Shape {
        let mut inspector = Inspector::new();
        bytes.chunks(size).for_each(|chunk| inspector.push(chunk));
        inspector.shape()
    }

    #[test]
    fn every_split_has_the_same_shape() {
        let plain = Shape { is_terminated: true, ..Shape::default() };
        for (text, expected) in [
            (&b""[..], plain),
            (b"a\r\nbcd\r\n", Shape { bytes: 8, lines: 2, longest_line_bytes: 3, ..plain }),
            (b"a\r\nbcd", Shape { bytes: 6, lines: 1, longest_line_bytes: 3, is_terminated: false, ..plain }),
            (b"a\nb\r\n", Shape { bytes: 5, lines: 1, longest_line_bytes: 3, bare_feeds: 1, ..plain }),
            (b"a\rb\r\n", Shape { bytes: 5, lines: 1, longest_line_bytes: 3, bare_returns: 1, ..plain }),
            (b"a\r\r\n", Shape { bytes: 4, lines: 1, longest_line_bytes: 2, bare_returns: 1, ..plain }),
            (b"a\r", Shape { bytes: 2, longest_line_bytes: 2, bare_returns: 1, is_terminated: false, ..plain }),
            (
                b"\n\r",
                Shape {
                    bytes: 2,
                    longest_line_bytes: 2,
                    bare_returns: 1,
                    bare_feeds: 1,
                    is_terminated: false,
                    ..plain
                },
            ),
            (
                b"\r\n\n",
                Shape { bytes: 3, lines: 1, longest_line_bytes: 1, bare_feeds: 1, is_terminated: false, ..plain },
            ),
            (b"\0\xc3\xa9\r\n", Shape { bytes: 5, lines: 1, longest_line_bytes: 3, nuls: 1, is_8bit: true, ..plain }),
        ] {
            for size in 1..=text.len().max(1) {
                assert_eq!(shape(text, size), expected, "{} by {size}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn bare_bytes_are_refused_and_long_lines_are_noticed() {
        assert_eq!(shape(b"a\r\n", 9).refusal(), None);
        let refusal = shape(b"a\rb\nc\r\n", 9).refusal().unwrap();
        assert_eq!((refusal.code.number(), refusal.enhanced.to_string().as_str()), (550, "5.6.11"));
        assert!(shape(b"a\rb\r\n", 9).refusal().is_some());
        assert!(!shape(&[&b"a".repeat(998)[..], b"\r\n"].concat(), 100).has_long_line());
        assert!(shape(&[&b"a".repeat(999)[..], b"\r\n"].concat(), 100).has_long_line());
    }
}
