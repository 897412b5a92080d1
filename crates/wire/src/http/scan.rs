//! A single pass over the head of a request, and its continuation when the head arrives in parts.
//!
//! Every split of the bytes must lead to the same result, so the result depends only on the bytes so far. A line is
//! checked when it is complete, and the head when it is complete. Only the first few bytes of a request are checked
//! earlier, so that a client that speaks another protocol gets an error at once.
//!
//! The cursor makes this cheap. New bytes are only searched for the end of a line. Complete lines are checked once as
//! they arrive, and the whole head once more when it is complete. A client that sends byte by byte costs two passes,
//! not one for each byte.

use super::bytes::{self, TOKEN, is_blank};
use super::field::Field;
use super::host::is_authority;
use super::request::{Form, Index, Limits, Method, Parsed, Reject, Request, Span, Version};
use super::status::Status;
use memchr::memchr;

/// The maximum length of a method in bytes; a longer one is unknown (RFC 9112 section 3: 501).
const METHOD_BYTES: usize = 24;

/// The number of bytes that are checked on arrival: an empty line (RFC 9112 section 2.2), a method and its space.
const EARLY_BYTES: usize = 2 + METHOD_BYTES + 1;

/// The position at which to continue after the bytes ran out. Keep it with the bytes of an incomplete request, and use
/// a new one for the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scan {
    /// The offset of the first incomplete line.
    line: u16,
    /// The number of bytes scanned.
    searched: u16,
    /// The number of field lines before it.
    fields: u16,
}

impl Scan {
    /// Parses the request that starts with these bytes. Pass all bytes received so far, not only the new ones.
    #[inline]
    pub fn parse<'a>(&mut self, bytes: &'a [u8], limits: &Limits) -> Result<Parsed<Request<'a>>, Reject> {
        let window = &bytes[..bytes.len().min(limits.head_bytes).min(usize::from(u16::MAX))];
        if usize::from(self.searched) > EARLY_BYTES && !self.ends_a_head(window, limits)? {
            return self.partial(bytes, window, limits);
        }
        let mut index = Index::new();
        let mut at = Place { line: 0, fields: 0 };
        if let Some(end) = index.read(&mut at, window, limits)? {
            let head = &window[..end];
            index.settle(head)?;
            return Ok(Parsed::Complete { request: Request { head, index }, consumed: end });
        }
        self.line = at.line as u16;
        self.fields = at.fields as u16;
        self.partial(bytes, window, limits)
    }

    /// Checks the lines that have arrived since. Returns whether they end the head.
    #[cold]
    fn ends_a_head(&mut self, window: &[u8], limits: &Limits) -> Result<bool, Reject> {
        let new = window.get(usize::from(self.searched)..).unwrap_or_default();
        if memchr(b'\n', new).is_none() {
            return Ok(false);
        }
        // The result is discarded: the lines are read again, with those before them, when all have arrived.
        let mut at = Place { line: usize::from(self.line), fields: usize::from(self.fields) };
        let ends = Index::new().read(&mut at, window, limits)?.is_some();
        self.line = at.line as u16;
        self.fields = at.fields as u16;
        Ok(ends)
    }

    #[cold]
    fn partial<'a>(&mut self, bytes: &[u8], window: &[u8], limits: &Limits) -> Result<Parsed<Request<'a>>, Reject> {
        self.searched = window.len() as u16;
        let is_first_line = self.line == 0;
        if is_first_line && window.len() >= limits.line_bytes {
            return Err(Reject { status: Status::URI_TOO_LONG, reason: "request line too long" });
        }
        // A head that fills its window without an end cannot end within it.
        if window.len() >= limits.head_bytes.min(usize::from(u16::MAX)) && bytes.len() >= window.len() {
            return Err(Reject { status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE, reason: "head too long" });
        }
        Ok(Parsed::Partial)
    }
}

/// The start of the current line, and the number of field lines before it.
struct Place {
    line: usize,
    fields: usize,
}

/// Returns the error of an invalid line if the line is complete; otherwise waits for the rest.
#[cold]
fn fault<T>(line: &[u8], reject: Reject) -> Result<Option<T>, Reject> {
    match memchr(b'\n', line) {
        Some(_) => Err(reject),
        None => Ok(None),
    }
}

impl Index {
    /// Reads complete lines, starting at an offset. Returns the end of the head; if it is incomplete, `None`, and sets
    /// `at` to the first incomplete line.
    #[inline]
    fn read(&mut self, at: &mut Place, window: &[u8], limits: &Limits) -> Result<Option<usize>, Reject> {
        if at.line == 0 {
            match self.request_line(window, limits)? {
                None => return Ok(None),
                Some(next) => at.line = next,
            }
        }
        self.fields_at = at.line as u16;
        loop {
            if let Some(b"\r\n") = window.get(at.line..).and_then(|rest| rest.first_chunk()) {
                return Ok(Some(at.line + 2));
            }
            if at.fields == limits.fields {
                let reason = "too many fields";
                let reject = Reject { status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE, reason };
                return fault(&window[at.line..], reject);
            }
            match self.field_line(window, at.line)? {
                None => return Ok(None),
                Some(next) => at.line = next,
            }
            at.fields += 1;
        }
    }

    /// Reads one field line. Returns the offset of the next line (RFC 9112 section 5).
    #[inline]
    fn field_line(&mut self, window: &[u8], start: usize) -> Result<Option<usize>, Reject> {
        let colon = bytes::name_end(window, start);
        if window.get(colon) != Some(&b':') || colon == start {
            return fault(&window[start..], bad_name(window, start, colon));
        }
        let mut value = colon + 1;
        while window.get(value).copied().is_some_and(is_blank) {
            value += 1;
        }
        let end = bytes::value_end(window, value);
        let Some(b"\r\n") = window.get(end..).and_then(|rest| rest.first_chunk()) else {
            return fault(&window[start..], bad_end(window, end, "control byte in a field value"));
        };
        if let Some(field) = Field::of(&window[start..colon]) {
            let mut last = end;
            while last > value && is_blank(window[last - 1]) {
                last -= 1;
            }
            self.note(field, Span::new(value, last));
        }
        Ok(Some(end + 2))
    }

    /// Reads the request line. Returns the offset of the next line (RFC 9112 section 3).
    #[inline]
    fn request_line(&mut self, window: &[u8], limits: &Limits) -> Result<Option<usize>, Reject> {
        let window = &window[..window.len().min(limits.line_bytes)];
        let (start, method_end) = match window {
            [b'G', b'E', b'T', b' ', ..] => {
                self.method = Method::Get;
                (0, 3)
            }
            _ => match method(window)? {
                Some((start, end)) => {
                    self.method = Method::of(&window[start..end]);
                    (start, end)
                }
                None => return Ok(None),
            },
        };
        let target = method_end + 1;
        let target_end = bytes::target_end(window, target);
        let Some(tail) = window.get(target_end..).and_then(|rest| rest.first_chunk::<11>()) else {
            return fault(window.get(method_end..).unwrap_or_default(), bad_line(window, target_end));
        };
        self.version = match tail {
            b" HTTP/1.1\r\n" => Version::Http11,
            b" HTTP/1.0\r\n" => Version::Http10,
            later if is_later_minor(later) => Version::Http11,
            _ => return fault(&window[target_end..], bad_line(window, target_end)),
        };
        self.method_name = Span::new(start, method_end);
        self.target = Span::new(target, target_end);
        if window.get(target) == Some(&b'/') && self.method != Method::Connect {
            self.path = self.target;
        } else {
            self.other_form(window)?;
        }
        Ok(Some(target_end + tail.len()))
    }

    /// Parses a target that does not start with a slash (RFC 9112 section 3.2).
    #[cold]
    fn other_form(&mut self, window: &[u8]) -> Result<(), Reject> {
        let target = self.target.of(window);
        let (start, end) = (usize::from(self.target.at), usize::from(self.target.at) + target.len());
        if self.method == Method::Connect {
            // A tunnel needs a port (RFC 9110 section 9.3.6).
            self.form = Form::Authority;
            self.authority = self.target;
            let has_port = target.last().is_some_and(u8::is_ascii_digit) && target.contains(&b':');
            let is_sound = has_port && is_authority(target);
            return is_sound.then_some(()).ok_or(Reject::bad("malformed authority in the target"));
        }
        if target == b"*" && self.method == Method::Options {
            self.form = Form::Asterisk;
            return Ok(());
        }
        let Some(scheme) = [&b"http://"[..], b"https://"]
            .into_iter()
            .find(|scheme| target.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme)))
        else {
            return Err(Reject::bad("malformed request target"));
        };
        let host = start + scheme.len();
        let path = window[host..end].iter().position(|b| matches!(b, b'/' | b'?')).map_or(end, |len| host + len);
        self.form = Form::Absolute;
        self.authority = Span::new(host, path);
        self.path = Span::new(path, end);
        let is_sound = is_authority(&window[host..path]);
        is_sound.then_some(()).ok_or(Reject::bad("malformed authority in the target"))
    }
}

/// Returns the start and the end of a method other than GET; `None` if there are too few bytes. Each byte is checked on
/// arrival.
#[cold]
fn method(window: &[u8]) -> Result<Option<(usize, usize)>, Reject> {
    let start = match window {
        [b'\r', b'\n', ..] => 2,
        [] | [b'\r'] => return Ok(None),
        _ => 0,
    };
    let end = bytes::run_end(&window[..window.len().min(start + METHOD_BYTES + 1)], start, TOKEN);
    if end - start > METHOD_BYTES {
        return Err(Reject { status: Status::NOT_IMPLEMENTED, reason: "method too long" });
    }
    match window.get(end) {
        None => Ok(None),
        Some(b' ') if end > start => Ok(Some((start, end))),
        Some(b'\r' | b'\n') if end == start => Err(Reject::bad("empty line where a request should start")),
        Some(_) => Err(Reject::bad("malformed method")),
    }
}

/// Returns whether a minor version is later than the known ones. It is answered as the latest of these (RFC 9110
/// section 2.5).
#[cold]
fn is_later_minor(tail: &[u8; 11]) -> bool {
    matches!(tail, [b' ', b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9', b'\r', b'\n'])
}

/// Returns the error of a request line whose target ends at `at`.
#[cold]
fn bad_line(window: &[u8], at: usize) -> Reject {
    match window.get(at) {
        Some(b' ') => {}
        Some(b'\n') => return Reject::bad("bare line feed, or no version"),
        Some(b'\r') => return Reject::bad("no version in the request line"),
        _ => return Reject::bad("invalid byte in the request target"),
    }
    let rest = &window[at + 1..];
    let line = &rest[..memchr(b'\n', rest).unwrap_or(rest.len())];
    match line {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor, b'\r']
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Reject { status: Status::HTTP_VERSION_NOT_SUPPORTED, reason: "version not supported" }
        }
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _] => Reject::bad("bare line feed"),
        _ => Reject::bad("malformed request line"),
    }
}

/// Returns the error of a field name that ends at `at`.
#[cold]
fn bad_name(window: &[u8], start: usize, at: usize) -> Reject {
    let is_first = at == start;
    Reject::bad(match window.get(at) {
        // In older versions, a line that starts with white space continued the previous one (RFC 9112 section 5.2).
        Some(&b) if is_blank(b) && is_first => "obsolete line folding",
        Some(&b) if is_blank(b) => "white space before the colon",
        Some(b':') => "empty field name",
        Some(b'\n') => "bare line feed",
        Some(b'\r') if window.get(at + 1) == Some(&b'\n') => "field line without a colon",
        Some(b'\r') => "bare carriage return",
        _ => "invalid byte in a field name",
    })
}

/// Returns the error of a missing line end.
#[cold]
fn bad_end(window: &[u8], at: usize, otherwise: &'static str) -> Reject {
    Reject::bad(match window.get(at) {
        Some(b'\n') => "bare line feed",
        Some(b'\r') => "bare carriage return",
        _ => otherwise,
    })
}
