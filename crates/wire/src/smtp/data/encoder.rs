//! Encoding of a message, for a client.

use super::inspector::{Inspector, Shape};
use memchr::memchr3;

/// The transfer method of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// After DATA: a dot is added before each line that starts with one, and a single dot ends the content (RFC 5321
    /// section 4.5.2).
    Data,
    /// In chunks after BDAT, without added dots (RFC 3030).
    Bdat,
}

/// The reason why a message cannot be sent as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    /// A CR that is not part of a line end, which no client may send (RFC 5321 section 2.3.8).
    #[error("byte {0} of the message is a carriage return without a line feed")]
    BareReturn(u64),
    /// A NUL, which text must not contain (RFC 2045 section 2.8).
    #[error("byte {0} of the message is NUL")]
    Nul(u64),
}

/// Converts text whose lines end with LF or CR LF into the bytes that a client sends, in one pass. The text may arrive
/// in parts, such as from a template with fields; the result does not depend on how it was split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoder {
    transfer: Transfer,
    inspector: Inspector,
    /// The number of bytes of the text so far.
    taken: u64,
    is_line_start: bool,
    /// Whether the last byte was a CR, which is not written until its LF arrives.
    is_return: bool,
}

impl Encoder {
    /// Returns the state before the first byte.
    pub fn new(transfer: Transfer) -> Encoder {
        Encoder { transfer, inspector: Inspector::new(), taken: 0, is_line_start: true, is_return: false }
    }

    /// Appends the bytes to send for the next part of the text.
    pub fn push(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), Unsendable> {
        let (mut rest, mut run) = (text, out.len());
        if self.is_return && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").ok_or(Unsendable::BareReturn(self.taken - 1))?;
            self.is_return = false;
            self.end_line(1, out);
        }
        while let Some(at) = memchr3(b'\r', b'\n', 0, rest) {
            self.part(&rest[..at], &mut run, out);
            let end = match (rest[at], rest.get(at + 1)) {
                (b'\n', _) => 1,
                (b'\r', Some(b'\n')) => 2,
                (b'\r', Some(_)) => return Err(Unsendable::BareReturn(self.taken)),
                (b'\r', None) => {
                    self.is_return = true;
                    self.taken += 1;
                    rest = b"";
                    break;
                }
                _ => return Err(Unsendable::Nul(self.taken)),
            };
            self.end_line(end as u64, out);
            rest = &rest[at + end..];
        }
        self.part(rest, &mut run, out);
        self.inspector.push(&out[run..]);
        Ok(())
    }

    /// Appends the end of the last line, if the text lacks it, and after DATA the line that ends the content. Returns
    /// the properties of the content, without the added dots.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<Shape, Unsendable> {
        if self.is_return {
            return Err(Unsendable::BareReturn(self.taken - 1));
        }
        if !self.is_line_start {
            self.end_line(0, out);
            self.inspector.push(b"\r\n");
        }
        if self.transfer == Transfer::Data {
            out.extend_from_slice(b".\r\n");
        }
        Ok(self.inspector.shape())
    }

    /// Appends the bytes to send for a whole text.
    pub fn encode(transfer: Transfer, text: &[u8], out: &mut Vec<u8>) -> Result<Shape, Unsendable> {
        out.reserve(text.len() + text.len() / 16 + 8);
        let mut encoder = Encoder::new(transfer);
        encoder.push(text, out)?;
        encoder.finish(out)
    }

    /// Appends a part of a line, which contains neither a line end nor a byte that cannot be sent. `run` is the start
    /// of the content in `out` that has not been inspected; an added dot ends it.
    fn part(&mut self, part: &[u8], run: &mut usize, out: &mut Vec<u8>) {
        if self.transfer == Transfer::Data && self.is_line_start && part.first() == Some(&b'.') {
            self.inspector.push(&out[*run..]);
            out.push(b'.');
            *run = out.len();
        }
        out.extend_from_slice(part);
        self.taken += part.len() as u64;
        self.is_line_start &= part.is_empty();
    }

    /// Appends a line end, which corresponds to `taken` bytes of the text.
    fn end_line(&mut self, taken: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n");
        self.taken += taken;
        self.is_line_start = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(transfer: Transfer, text: &[u8], size: usize) -> Result<(Vec<u8>, Shape), Unsendable> {
        let (mut encoder, mut out) = (Encoder::new(transfer), Vec::new());
        text.chunks(size).try_for_each(|part| encoder.push(part, &mut out))?;
        encoder.finish(&mut out).map(|shape| (out, shape))
    }

    #[test]
    fn lines_are_ended_and_dots_doubled() {
        for (text, data, bdat) in [
            ("", ".\r\n", ""),
            ("a", "a\r\n.\r\n", "a\r\n"),
            ("a\nb\r\n", "a\r\nb\r\n.\r\n", "a\r\nb\r\n"),
            (".", "..\r\n.\r\n", ".\r\n"),
            (".\n.\r\n..a\nb.\n", "..\r\n..\r\n...a\r\nb.\r\n.\r\n", ".\r\n.\r\n..a\r\nb.\r\n"),
            ("\n\n.\n", "\r\n\r\n..\r\n.\r\n", "\r\n\r\n.\r\n"),
        ] {
            for size in 1..=text.len().max(1) {
                let found = encode(Transfer::Data, text.as_bytes(), size).unwrap();
                assert_eq!(found.0, data.as_bytes(), "{text:?} by {size}");
                let chunk = encode(Transfer::Bdat, text.as_bytes(), size).unwrap();
                assert_eq!(chunk.0, bdat.as_bytes(), "{text:?} by {size}");
                assert_eq!(chunk.1, found.1);
                assert_eq!((found.1.bytes, found.1.is_terminated), (bdat.len() as u64, true));
            }
        }
    }

    #[test]
    fn the_shape_is_that_of_the_content() {
        let text = [&b".".repeat(998)[..], b"\n\xc3\xa9"].concat();
        let (_, shape) = encode(Transfer::Data, &text, 7).unwrap();
        assert_eq!((shape.longest_line_bytes, shape.lines, shape.is_8bit), (998, 2, true));
        assert!(!shape.has_long_line() && shape.refusal().is_none());
    }

    #[test]
    fn bare_returns_and_nuls_are_refused_with_their_place() {
        for (text, error) in [
            (&b"a\rb"[..], Unsendable::BareReturn(1)),
            (b"a\r", Unsendable::BareReturn(1)),
            (b"\r\n\r\r\n", Unsendable::BareReturn(2)),
            (b"a\n\r", Unsendable::BareReturn(2)),
            (b"a\r\nb\0", Unsendable::Nul(4)),
        ] {
            for size in 1..=text.len() {
                assert_eq!(encode(Transfer::Data, text, size).unwrap_err(), error, "{} by {size}", text.escape_ascii());
            }
        }
    }
}
