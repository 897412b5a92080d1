//! The MIME parts of a report, and its shorter or encoded forms for servers that do not accept it.
//!
//! A report is ASCII except for a message that is returned as a whole: the types of RFC 6532 and RFC 6533 may be
//! encoded, but message/rfc822 may not. So only such a message requires a server with 8BITMIME.

use super::Returned;
use data_encoding::{BASE64_MIME, BASE64_MIME_PERMISSIVE};
use std::borrow::Cow;

/// Maximum length of a returned header, in bytes.
pub(super) const HEADER_BYTES: usize = 64 << 10;

/// The beginning of every report.
pub(super) const FROM: &str = "From: Mail Delivery System <MAILER-DAEMON@";

/// What precedes the boundary in the header of a report.
pub(super) const BOUNDARY: &str = " boundary=\"";

/// The header field of a report, or of a part, with non-ASCII bytes.
pub(super) const EIGHT_BIT: &str = "Content-Transfer-Encoding: 8bit\r\n";

/// The header field of an encoded part.
const BASE64: &str = "Content-Transfer-Encoding: base64\r\n";

/// The types of a message that is returned as a whole.
const WHOLE: [&str; 2] = ["message/rfc822", "message/global"];

/// The types of the header of a message.
const HEADER: [&str; 2] = ["text/rfc822-headers", "message/global-headers"];

fn content_type(kind: &str) -> String {
    format!("Content-Type: {kind}\r\n")
}

/// Returns a part of a type that may be encoded. It is encoded if it has non-ASCII bytes.
pub(super) fn part(kind: &str, content: &[u8]) -> Vec<u8> {
    if content.is_ascii() {
        [content_type(kind).as_bytes(), b"\r\n", content].concat()
    } else {
        format!("{}{BASE64}\r\n{}", content_type(kind), BASE64_MIME.encode(content)).into_bytes()
    }
}

/// Returns the part with a message.
pub(super) fn whole(content: &[u8]) -> Vec<u8> {
    let kind = WHOLE[usize::from(!header_of(content).is_ascii())];
    let encoding = if content.is_ascii() { "" } else { EIGHT_BIT };
    [content_type(kind).as_bytes(), encoding.as_bytes(), b"\r\n", content].concat()
}

/// Returns the part with the header of a message.
pub(super) fn header(content: &[u8]) -> Vec<u8> {
    let header = header_of(content);
    part(HEADER[usize::from(!header.is_ascii())], some_lines(header))
}

/// Returns the parts as the body of a report.
pub(super) fn multipart(boundary: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (part, number) in parts.iter().zip(0..) {
        out.extend_from_slice(format!("{}--{boundary}\r\n", if number == 0 { "" } else { "\r\n" }).as_bytes());
        out.extend_from_slice(part);
    }
    out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    out
}

/// A report written by this module, split at the returned message or header.
struct Report<'a> {
    /// Its header and the parts before the message.
    before: &'a [u8],
    boundary: &'a [u8],
    message: Cow<'a, [u8]>,
    is_whole: bool,
    is_encoded: bool,
}

impl<'a> Report<'a> {
    /// Parses a report; `None` if it returns no part of a message. Bytes before the report are dropped: they are a
    /// signature, which would no longer be valid.
    fn parse(report: &'a [u8]) -> Option<Self> {
        let report = &report[find(report, FROM.as_bytes())?..];
        let (_, rest) = report.split_at(find(report, BOUNDARY.as_bytes())? + BOUNDARY.len());
        let boundary = rest.split(|&byte| byte == b'"').next()?;
        let begin = [b"\r\n--", boundary, b"\r\n"].concat();
        let at = report.windows(begin.len()).rposition(|window| window == begin)?;
        let (before, part) = (&report[..at], &report[at + begin.len()..]);
        let is_any = |kinds: [&str; 2]| kinds.iter().any(|kind| part.starts_with(content_type(kind).as_bytes()));
        let is_whole = is_any(WHOLE);
        (is_whole || is_any(HEADER)).then_some(())?;
        let (fields, content) = part.split_at(find(part, b"\r\n\r\n")? + 4);
        let content = content.strip_suffix([b"\r\n--", boundary, b"--\r\n"].concat().as_slice())?;
        let is_encoded = find(fields, BASE64.as_bytes()).is_some();
        let message =
            if is_encoded { Cow::Owned(BASE64_MIME_PERMISSIVE.decode(content).ok()?) } else { Cow::Borrowed(content) };
        Some(Self { before, boundary, message, is_whole, is_encoded })
    }

    /// Returns the report with its last part replaced by `part`, or without it.
    fn with(&self, part: Option<&[u8]>) -> Vec<u8> {
        let header_end = find(self.before, b"\r\n\r\n").map_or(self.before.len(), |at| at + 2);
        let (header, rest) = self.before.split_at(header_end);
        let is_ascii = rest.is_ascii() && part.is_none_or(<[u8]>::is_ascii);
        let header = match find(header, EIGHT_BIT.as_bytes()).filter(|_| is_ascii) {
            Some(at) => [&header[..at], &header[at + EIGHT_BIT.len()..]].concat(),
            None => header.to_vec(),
        };
        let part = part.map_or(Vec::new(), |part| [b"\r\n--", self.boundary, b"\r\n", part].concat());
        [&header, rest, &part, b"\r\n--", self.boundary, b"--\r\n"].concat()
    }
}

/// Returns a report with less of the message; `None` if it contains no more than that already.
pub(crate) fn shortened(report: &[u8], returned: Returned) -> Option<Vec<u8>> {
    let report = Report::parse(report)?;
    match returned {
        Returned::Nothing => Some(report.with(None)),
        Returned::Header if report.is_whole => Some(report.with(Some(&header(&report.message)))),
        Returned::Header | Returned::Whole(_) => None,
    }
}

/// Returns a report for a server without 8BITMIME, with the whole message in base64; `None` if it does not contain the
/// whole message, or if the message is ASCII or encoded already.
pub(crate) fn in_seven_bits(report: &[u8]) -> Option<Vec<u8>> {
    let report = Report::parse(report)?;
    if !report.is_whole || report.is_encoded || report.message.is_ascii() {
        return None;
    }
    // message/rfc822 may not be encoded (RFC 2046 section 5.2.1), message/global may be (RFC 6532 section 3.7).
    Some(report.with(Some(&part(WHOLE[1], &report.message))))
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Returns the header of a message.
fn header_of(content: &[u8]) -> &[u8] {
    find(content, b"\r\n\r\n").map_or(content, |at| &content[..at + 2])
}

/// Returns the leading lines of a header that fit in `HEADER_BYTES`.
fn some_lines(header: &[u8]) -> &[u8] {
    match header.get(..HEADER_BYTES) {
        None => header,
        Some(begin) => &begin[..begin.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1)],
    }
}
