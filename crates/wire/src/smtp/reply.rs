//! Replies (RFC 5321 section 4.2): parsed by a client, written by a server.
//!
//! The parser is lenient where nothing can be misread, because a client that rejects a receiver's small mistakes
//! delivers no mail. A line may end with LF only, and its text may be absent or contain any bytes. A server that can
//! lie about the end of a reply can lie about its text as well. These are malformed: a line without a code, a code that
//! differs from that of the first line, and a line or reply without an end.

use super::code::{Code, Enhanced};
use memchr::memchr;

/// The maximum length of an accepted line in bytes, including its end. RFC 5321 section 4.5.3.1.5 allows 512 and
/// recommends accepting more.
pub const LINE_BYTES: usize = 2048;

/// The maximum length of an accepted reply in bytes.
pub const REPLY_BYTES: usize = 65_536;

/// The maximum length of a written line in bytes, including its end (RFC 5321 section 4.5.3.1.5).
pub const WRITTEN_LINE_BYTES: usize = 512;

/// The reason why a reply cannot be parsed. The connection cannot continue: the start of the next reply is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed reply: {0}")]
pub struct Malformed(pub &'static str);

/// The result for the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A complete reply.
    Complete {
        /// The parsed reply.
        reply: Reply<'a>,
        /// Its length; the next reply follows.
        consumed: usize,
    },
    /// The reply is valid so far, but incomplete.
    Incomplete,
}

/// A reply of one or more lines. Borrows the bytes it was parsed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    code: Code,
    /// All lines with their codes and ends, already checked.
    bytes: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Returns the code.
    #[inline]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Returns the enhanced status code of the first line (RFC 2034), if its class is that of the code. Greetings and
    /// the responses to HELO, EHLO and LHLO have none, even if they look like it (RFC 2034 section 4).
    pub fn enhanced(&self) -> Option<Enhanced> {
        self.lines().next().and_then(|text| self.enhanced_of(text)).map(|(enhanced, _)| enhanced)
    }

    /// Returns the text of each line, without code and line end.
    pub fn lines(&self) -> Lines<'a> {
        Lines { rest: self.bytes }
    }

    /// Returns the human-readable text of each line: without enhanced status codes of the same class as the code.
    pub fn texts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let reply = *self;
        self.lines().map(move |text| reply.enhanced_of(text).map_or(text, |(_, rest)| rest))
    }

    /// Returns the bytes of the whole reply, with codes and line ends.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn enhanced_of<'t>(&self, text: &'t [u8]) -> Option<(Enhanced, &'t [u8])> {
        Enhanced::parse(text).filter(|(enhanced, _)| u16::from(enhanced.parts().0) == self.code.number() / 100)
    }
}

/// An iterator over the texts of the lines.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr(b'\n', self.rest)?;
        let (line, rest) = (self.rest.get(..end)?, self.rest.get(end + 1..)?);
        self.rest = rest;
        Some(without_return(line).get(4..).unwrap_or_default())
    }
}

/// The position at which to continue after the bytes ran out. Keep it with the bytes of an incomplete reply, and use a
/// new one for the next reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scan {
    /// The offset of the first incomplete line.
    line: u32,
    /// The number of bytes searched for its end.
    searched: u32,
    /// The code of the lines before it.
    code: Option<Code>,
}

impl Scan {
    /// Parses the reply that starts with these bytes. Pass all bytes received so far, not only the new ones. The result
    /// does not depend on how the bytes were split.
    #[inline]
    pub fn parse<'a>(&mut self, bytes: &'a [u8]) -> Result<Parsed<'a>, Malformed> {
        let window = &bytes[..bytes.len().min(REPLY_BYTES)];
        let (mut line, mut searched) = (self.line as usize, self.searched as usize);
        while let Some(len) = memchr(b'\n', window.get(searched..).unwrap_or_default()) {
            let end = searched + len;
            if end + 1 - line > LINE_BYTES {
                return Err(Malformed("line too long"));
            }
            let (code, is_last) = parse_line(without_return(&window[line..end]))?;
            if *self.code.get_or_insert(code) != code {
                return Err(Malformed("lines with different codes"));
            }
            (line, searched) = (end + 1, end + 1);
            if is_last {
                return Ok(Parsed::Complete { reply: Reply { code, bytes: &window[..line] }, consumed: line });
            }
        }
        self.line = line as u32;
        self.searched = window.len() as u32;
        if window.len() - line >= LINE_BYTES {
            return Err(Malformed("line too long"));
        }
        if window.len() >= REPLY_BYTES {
            return Err(Malformed("reply too long"));
        }
        Ok(Parsed::Incomplete)
    }
}

/// Parses the reply at the start of these bytes. For replies that arrive in parts, see [`Scan`].
#[inline]
pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, Malformed> {
    Scan::default().parse(bytes)
}

/// Returns the code of a line, and whether it is the last one, which has no hyphen after the code (RFC 5321 section
/// 4.2.1). A code without text is accepted, as section 4.2 requests.
#[inline]
fn parse_line(line: &[u8]) -> Result<(Code, bool), Malformed> {
    let [hundreds @ b'0'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] = line else {
        return Err(Malformed("line without a code"));
    };
    let [hundreds, tens, ones] = [hundreds, tens, ones].map(|digit| u16::from(digit - b'0'));
    let code = Code::new(hundreds * 100 + tens * 10 + ones).ok_or(Malformed("code not from 200 to 599"))?;
    match rest {
        [] | [b' ', ..] => Ok((code, true)),
        [b'-', ..] => Ok((code, false)),
        _ => Err(Malformed("neither space nor hyphen after the code")),
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Appends a reply with at least one line: a line for each text, each with the enhanced status code if there is one
/// (RFC 2034 section 4). Each line of a text (split at LF) becomes a line of the reply. Control bytes become spaces,
/// and a text that is too long for a line continues in the next, so that no text can end the reply or forge another.
pub fn write<'t>(out: &mut Vec<u8>, code: Code, enhanced: Option<Enhanced>, texts: impl IntoIterator<Item = &'t str>) {
    let mut last = out.len();
    for text in texts.into_iter().flat_map(|text| text.split('\n')) {
        let mut rest = text.strip_suffix('\r').unwrap_or(text);
        loop {
            last = out.len();
            start_line(out, code, enhanced);
            let room = WRITTEN_LINE_BYTES - (out.len() - last) - 2;
            let (part, after) = split_at_char(rest, room);
            out.extend(part.bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
            out.extend_from_slice(b"\r\n");
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if last == out.len() {
        start_line(out, code, enhanced);
        out.extend_from_slice(b"\r\n");
    }
    out[last + 3] = b' ';
}

/// Splits a text after as many characters as fit into `bytes` bytes.
fn split_at_char(text: &str, bytes: usize) -> (&str, &str) {
    let mut at = bytes.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.split_at(at)
}

/// Appends the code, a hyphen and the enhanced status code.
fn start_line(out: &mut Vec<u8>, code: Code, enhanced: Option<Enhanced>) {
    let [hundreds, tens, ones] = code.digits();
    out.extend_from_slice(&[hundreds, tens, ones, b'-']);
    if let Some(enhanced) = enhanced {
        enhanced.write(out);
        out.push(b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reply at the start of a text, and the rest. Panics if the result is not the same for every split.
    fn read(text: &[u8]) -> Result<Option<(Reply<'_>, &[u8])>, Malformed> {
        let whole = parse(text);
        let mut scan = Scan::default();
        let by_byte = (0..=text.len()).map(|len| scan.parse(&text[..len])).find(|one| *one != Ok(Parsed::Incomplete));
        assert_eq!(by_byte.unwrap_or(Ok(Parsed::Incomplete)), whole, "{}", text.escape_ascii());
        Ok(match whole? {
            Parsed::Complete { reply, consumed } => Some((reply, &text[consumed..])),
            Parsed::Incomplete => None,
        })
    }

    #[test]
    fn replies_are_read_as_in_rfc_5321_section_4_2() {
        for (text, code, texts, rest) in [
            ("250 OK\r\n", 250, &["OK"][..], ""),
            (
                "250-First line\r\n250-Second line\r\n250-234 Text\r\n250 Last\r\n220",
                250,
                &["First line", "Second line", "234 Text", "Last"],
                "220",
            ),
            ("250\r\n", 250, &[""], ""),
            ("250 \r\n", 250, &[""], ""),
            ("250-\r\n250\r\n", 250, &["", ""], ""),
            ("250-a\n250 b\n", 250, &["a", "b"], ""),
            ("354 a\rb\0c\r\n", 354, &["a\rb\0c"], ""),
            ("421 a\r\r\n", 421, &["a\r"], ""),
            ("599  x - y \r\n250 ", 599, &[" x - y "], "250 "),
        ] {
            let (reply, after) = read(text.as_bytes()).unwrap().unwrap();
            let found: Vec<&[u8]> = reply.lines().collect();
            assert_eq!((reply.code().number(), after), (code, rest.as_bytes()), "{text:?}");
            assert_eq!(found, texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>(), "{text:?}");
            assert_eq!([reply.as_bytes(), after].concat(), text.as_bytes());
        }
        for text in ["", "2", "250", "250 a", "250 a\r", "250-a\r\n", "250-a\r\n250 b\r", "xyz", "250-a\r\nxyz"] {
            assert_eq!(read(text.as_bytes()), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn malformed_replies_are_refused() {
        for text in [
            "\r\n",
            "25\r\n",
            "25 OK\r\n",
            "2500 OK\r\n",
            "250_OK\r\n",
            "250\tOK\r\n",
            "250OK\r\n",
            "199 a\r\n",
            "600 a\r\n",
            "000 a\r\n",
            " 250 a\r\n",
            "+25 a\r\n",
            "two\r\n",
            "250-a\r\n251 b\r\n",
            "250-a\r\n\r\n250 b\r\n",
            "250-a\r\nb\r\n",
            "SSH-2.0-x\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "250-a\r\n 250 b\r\n",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn lines_and_replies_are_bounded() {
        let line = |bytes: usize| [b"250 ", &b"a".repeat(bytes - 6)[..], b"\r\n"].concat();
        assert!(read(&line(LINE_BYTES)).unwrap().is_some());
        assert_eq!(read(&line(LINE_BYTES + 1)), Err(Malformed("line too long")));
        assert_eq!(read(&line(LINE_BYTES + 1)[..LINE_BYTES - 1]), Ok(None));
        let lines = |count: usize| b"250-abcdefghij\r\n".repeat(count);
        let longest = [lines(REPLY_BYTES / 16 - 1), b"250 abcdefghij\r\n".to_vec()].concat();
        let parsed = parse(&longest);
        assert!(matches!(parsed, Ok(Parsed::Complete { consumed: REPLY_BYTES, .. })), "{parsed:?}");
        assert_eq!(parse(&lines(REPLY_BYTES / 16)), Err(Malformed("reply too long")));
        assert_eq!(parse(&lines(REPLY_BYTES / 16 - 1)), Ok(Parsed::Incomplete));
        let longer = [lines(REPLY_BYTES / 16), b"250 a\r\n".to_vec()].concat();
        assert_eq!(parse(&longer), Err(Malformed("reply too long")));
    }

    #[test]
    fn enhanced_codes_are_those_of_the_replys_class() {
        for (text, enhanced, texts) in [
            ("250 2.1.5 Ok\r\n", Some("2.1.5"), &["Ok"][..]),
            ("250-2.0.0 a\r\n250 2.0.0 b\r\n", Some("2.0.0"), &["a", "b"]),
            ("550-5.7.1 a\r\n550 b\r\n", Some("5.7.1"), &["a", "b"]),
            ("550 5.7.1\r\n", Some("5.7.1"), &[""]),
            ("550 4.7.1 x\r\n", None, &["4.7.1 x"]),
            ("354 2.0.0 x\r\n", None, &["2.0.0 x"]),
            ("250 2.1 x\r\n", None, &["2.1 x"]),
        ] {
            let (reply, _) = read(text.as_bytes()).unwrap().unwrap();
            assert_eq!(reply.enhanced().map(|code| code.to_string()).as_deref(), enhanced, "{text:?}");
            let found: Vec<&[u8]> = reply.texts().collect();
            assert_eq!(found, texts.iter().map(|text| text.as_bytes()).collect::<Vec<_>>(), "{text:?}");
        }
    }

    #[test]
    fn replies_are_written_line_by_line() {
        let long = "\u{e9}".repeat(300);
        let (first, second) = (&long[..506], &long[506..]);
        let wrapped = format!("250-{first}\r\n250 {second}\r\n");
        for (enhanced, texts, expected) in [
            (None, &["OK"][..], "250 OK\r\n"),
            (Enhanced::new(2, 1, 5), &["a", "b"][..], "250-2.1.5 a\r\n250 2.1.5 b\r\n"),
            (None, &[], "250 \r\n"),
            (None, &["", "a"], "250-\r\n250 a\r\n"),
            (None, &["a\r\n550 b\nc\rd\0"], "250-a\r\n250-550 b\r\n250 c d \r\n"),
            (None, &[&long], &wrapped),
        ] {
            let mut out = b"x".to_vec();
            write(&mut out, Code::OK, enhanced, texts.iter().copied());
            assert_eq!(str::from_utf8(&out[1..]).unwrap(), expected);
            assert!(out.split_inclusive(|&b| b == b'\n').all(|line| line.len() <= WRITTEN_LINE_BYTES + 1));
            assert!(matches!(parse(&out[1..]), Ok(Parsed::Complete { consumed, .. }) if consumed == out.len() - 1));
        }
    }
}
