//! The head of a request, parsed in place: one pass over the bytes, offsets into the caller's buffer, no allocation.
//!
//! The parser follows RFC 9112 strictly: a request that two parsers could read differently is rejected, because it may
//! be an attack (request smuggling). After a [`Reject`] the connection must be closed, because the start of the next
//! request is unknown.
//!
//! The parser does not validate what a request *asks for*: a method that the server does not support is a well-formed
//! request ([`Method::refusal`]), and its body can be skipped ([`super::body`]).

use super::bytes::members;
use super::field::Field;
use super::scan::Scan;
use super::status::Status;

/// The limits of a head; a request beyond them is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum length of the request line in bytes, including its end: 414 beyond.
    pub line_bytes: usize,
    /// The maximum length of a head in bytes, including its empty line: 431 beyond. At most 65,535, because offsets
    /// have 16 bits.
    pub head_bytes: usize,
    /// The maximum number of fields: 431 beyond.
    pub fields: usize,
}

impl Default for Limits {
    /// Returns the common limits of file servers: a line of 8 KiB, a head of 32 KiB, 100 fields.
    fn default() -> Limits {
        Limits { line_bytes: 8 << 10, head_bytes: 32 << 10, fields: 100 }
    }
}

/// The reason why a request was rejected, for the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// The status of the response, after which the connection is closed.
    pub status: Status,
    /// The reason, for the log.
    pub reason: &'static str,
}

impl Reject {
    pub(crate) const fn bad(reason: &'static str) -> Reject {
        Reject { status: Status::BAD_REQUEST, reason }
    }
}

/// The result for the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<T> {
    /// A complete head.
    Complete {
        /// The parsed head.
        request: T,
        /// The length of the head; its body or the next request follows.
        consumed: usize,
    },
    /// The head is valid so far, but incomplete.
    Partial,
}

/// A request method (RFC 9110 section 9.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "they are called what they are called")]
pub enum Method {
    Get,
    Head,
    Options,
    Post,
    Put,
    Delete,
    Patch,
    Trace,
    Connect,
    /// Any other token.
    Other,
}

impl Method {
    /// Returns the method with that name; case matters.
    pub(crate) fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// Returns the status with which a read-only server refuses it: `None` if it is supported, 405 for a known method,
    /// 501 for an unknown one.
    pub const fn refusal(self) -> Option<Status> {
        match self {
            Method::Get | Method::Head | Method::Options => None,
            Method::Other => Some(Status::NOT_IMPLEMENTED),
            _ => Some(Status::METHOD_NOT_ALLOWED),
        }
    }
}

/// A supported protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

/// The form of a request target (RFC 9112 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// `/path?query`
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `*`, for the server as a whole; only with OPTIONS.
    Asterisk,
    /// `host:port`, only with CONNECT.
    Authority,
}

/// The length of the body after the head (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BodyLength {
    /// This many bytes; 0 if the head does not specify a length.
    Bytes(u64),
    /// The chunks define the length.
    Chunked,
}

/// The client's expectation before it sends the body (RFC 9110 section 10.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expectation {
    /// Nothing.
    None,
    /// `100-continue`: the client waits for an interim response, or the final one.
    Continue,
    /// An unknown expectation, which no server must support: 417.
    Unknown,
}

/// A part of the head, by offset and length: a head has at most 65,535 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) at: u16,
    pub(crate) len: u16,
}

impl Span {
    #[inline]
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span { at: start as u16, len: (end - start) as u16 }
    }

    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(usize::from(self.at)..usize::from(self.at) + usize::from(self.len)).unwrap_or_default()
    }
}

/// The result of the single pass. Field lines start after the request line, so an offset of zero means absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) fields: [Span; Field::COUNT],
    /// One bit for each field that occurs in more than one line.
    pub(crate) repeated: u16,
    pub(crate) fields_at: u16,
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) form: Form,
    pub(crate) keep_alive: bool,
    pub(crate) method_name: Span,
    pub(crate) target: Span,
    /// The authority, in the absolute and authority forms.
    pub(crate) authority: Span,
    /// The path with its query, in the forms that have one.
    pub(crate) path: Span,
    pub(crate) body: BodyLength,
}

impl Index {
    pub(crate) const fn new() -> Index {
        Index {
            fields: [Span { at: 0, len: 0 }; Field::COUNT],
            repeated: 0,
            fields_at: 0,
            method: Method::Other,
            version: Version::Http11,
            form: Form::Origin,
            keep_alive: true,
            method_name: Span { at: 0, len: 0 },
            target: Span { at: 0, len: 0 },
            authority: Span { at: 0, len: 0 },
            path: Span { at: 0, len: 0 },
            body: BodyLength::Bytes(0),
        }
    }

    #[inline]
    pub(crate) fn note(&mut self, field: Field, value: Span) {
        let own = &mut self.fields[field as usize];
        if own.at == 0 {
            *own = value;
        } else {
            self.repeated |= 1 << field as u16;
        }
    }

    #[inline]
    pub(crate) const fn is_present(&self, field: Field) -> bool {
        self.fields[field as usize].at != 0
    }

    #[inline]
    pub(crate) const fn is_repeated(&self, field: Field) -> bool {
        self.repeated & 1 << field as u16 != 0
    }
}

/// The head of a request. Borrows the bytes it was parsed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The head, including its empty line.
    pub(crate) head: &'a [u8],
    pub(crate) index: Index,
}

impl<'a> Request<'a> {
    /// Returns the method.
    #[inline]
    pub const fn method(&self) -> Method {
        self.index.method
    }

    /// Returns the method as received, for the log.
    pub fn method_name(&self) -> &'a [u8] {
        self.index.method_name.of(self.head)
    }

    /// Returns the length of the head, including its empty line.
    #[inline]
    pub const fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// Returns the target as received.
    #[inline]
    pub fn target(&self) -> &'a [u8] {
        self.index.target.of(self.head)
    }

    /// Returns the form of the target.
    #[inline]
    pub const fn form(&self) -> Form {
        self.index.form
    }

    /// Returns the path with its query, still encoded. It is empty in the asterisk and authority forms and for
    /// `http://host`, which means `/` (RFC 9110 section 4.2.3).
    #[inline]
    pub fn path(&self) -> &'a [u8] {
        self.index.path.of(self.head)
    }

    /// Returns the version as received, such as `HTTP/1.2`, which is answered as HTTP/1.1.
    pub fn version_text(&self) -> &'a [u8] {
        if self.version() == Version::Http2 {
            return b"HTTP/2.0";
        }
        let start = usize::from(self.index.target.at) + usize::from(self.index.target.len) + 1;
        self.head.get(start..start + b"HTTP/1.1".len()).unwrap_or_default()
    }

    /// Returns the version.
    #[inline]
    pub const fn version(&self) -> Version {
        self.index.version
    }

    /// Returns whether the client wants the connection to persist after this request (RFC 9112 section 9.3).
    #[inline]
    pub const fn keep_alive(&self) -> bool {
        self.index.keep_alive
    }

    /// Returns the length of the body.
    #[inline]
    pub const fn body(&self) -> BodyLength {
        self.index.body
    }

    /// Returns the requested host, with its port if there is one. In absolute form, the host of the target takes
    /// precedence over the field (RFC 9112 section 3.2.2). It is valid, and absent only in HTTP/1.0.
    #[inline]
    pub fn host(&self) -> Option<&'a [u8]> {
        match self.index.authority {
            Span { len: 0, .. } => self.field(Field::Host),
            authority => Some(authority.of(self.head)),
        }
    }

    /// Returns whether a field is present.
    #[inline]
    pub const fn has(&self, field: Field) -> bool {
        self.index.is_present(field)
    }

    /// Returns whether there is any condition other than `If-Range`.
    #[inline]
    pub const fn is_conditional(&self) -> bool {
        self.has(Field::IfMatch)
            || self.has(Field::IfNoneMatch)
            || self.has(Field::IfModifiedSince)
            || self.has(Field::IfUnmodifiedSince)
    }

    /// Returns a field's value if the field occurs in exactly one line. A repeated field that may occur only once is
    /// ignored.
    #[inline]
    pub fn field(&self, field: Field) -> Option<&'a [u8]> {
        (self.index.is_present(field) && !self.index.is_repeated(field))
            .then(|| self.index.fields[field as usize].of(self.head))
    }

    /// Returns the values of a field, line by line: for list fields, which may be split over several lines (RFC 9110
    /// section 5.3).
    #[inline]
    pub fn lines(&self, field: Field) -> Lines<'a> {
        if self.index.is_repeated(field) { Lines::Several(self.fields(), field) } else { Lines::One(self.field(field)) }
    }

    /// Returns all field lines as name and value, trimmed.
    pub fn fields(&self) -> Fields<'a> {
        Fields { rest: self.head.get(usize::from(self.index.fields_at)..).unwrap_or_default() }
    }

    /// Returns the client's expectation before it sends a body. An HTTP/1.0 client cannot have one.
    pub fn expectation(&self) -> Expectation {
        if !self.index.is_present(Field::Expect) || self.version() == Version::Http10 {
            return Expectation::None;
        }
        let mut expectation = Expectation::None;
        for one in self.lines(Field::Expect).flat_map(members) {
            if !one.eq_ignore_ascii_case(b"100-continue") {
                return Expectation::Unknown;
            }
            expectation = Expectation::Continue;
        }
        expectation
    }
}

/// An iterator over the values of one field, line by line.
#[derive(Debug, Clone)]
pub enum Lines<'a> {
    /// At most one line, the usual case.
    One(Option<&'a [u8]>),
    /// All lines; those of this field are returned.
    Several(Fields<'a>, Field),
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Lines::One(value) => value.take(),
            Lines::Several(fields, field) => {
                fields.find(|(name, _)| Field::of(name) == Some(*field)).map(|(_, value)| value)
            }
        }
    }
}

/// An iterator over the field lines of a head, as name and trimmed value.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    /// The rest of the head, from the start of a line to the final empty line. Each line before that has a colon;
    /// otherwise the head was rejected.
    pub(crate) rest: &'a [u8],
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let end = memchr::memchr(b'\n', self.rest)?;
        let (line, rest) = (self.rest.get(..end)?, self.rest.get(end + 1..)?);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = memchr::memchr(b':', line)?;
        self.rest = rest;
        Some((line.get(..colon)?, super::bytes::trimmed(line.get(colon + 1..)?)))
    }
}

/// Parses the request at the start of these bytes. For requests that arrive in parts, see [`Scan`].
#[inline]
pub fn parse<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Parsed<Request<'a>>, Reject> {
    Scan::default().parse(bytes, limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str, check: impl FnOnce(&Request<'_>)) {
        match parse(text.replace('|', "\r\n").as_bytes(), &Limits::default()) {
            Ok(Parsed::Complete { request, .. }) => check(&request),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn requests_are_parsed() {
        with("HEAD /a%20b?c=d HTTP/1.0|Range: bytes=0-1 |User-Agent:|X: y||", |request| {
            assert_eq!((request.method(), request.version()), (Method::Head, Version::Http10));
            assert_eq!((request.method_name(), request.target()), (&b"HEAD"[..], &b"/a%20b?c=d"[..]));
            assert_eq!((request.form(), request.path()), (Form::Origin, request.target()));
            assert_eq!((request.host(), request.keep_alive()), (None, false));
            assert_eq!(request.field(Field::Range), Some(&b"bytes=0-1"[..]));
            assert_eq!(request.field(Field::UserAgent), Some(&b""[..]));
            assert_eq!((request.has(Field::Referer), request.field(Field::Referer)), (false, None));
            assert_eq!((request.body(), request.expectation()), (BodyLength::Bytes(0), Expectation::None));
        });
        with("GET HTTP://y:8/a?b HTTP/1.1|Host: x||", |request| {
            assert_eq!((request.form(), request.host()), (Form::Absolute, Some(&b"y:8"[..])));
            assert_eq!((request.path(), request.field(Field::Host)), (&b"/a?b"[..], Some(&b"x"[..])));
        });
        with("OPTIONS * HTTP/1.1|Host: x||", |request| assert_eq!(request.form(), Form::Asterisk));
        with("CONNECT x:1 HTTP/1.1|Host: x||", |request| {
            assert_eq!(
                (request.form(), request.method().refusal()),
                (Form::Authority, Some(Status::METHOD_NOT_ALLOWED))
            );
        });
    }

    #[test]
    fn keep_alive_follows_the_request() {
        for (version, lines, goes_on) in [
            ("1.1", "", true),
            ("1.1", "Connection: close|", false),
            ("1.1", "Connection: Upgrade, CLOSE|", false),
            ("1.1", "Connection: upgrade|Connection: close|", false),
            ("1.1", "Connection: keep-alive, close|", false),
            ("1.1", "Connection: closed|", true),
            ("1.0", "", false),
            ("1.0", "Connection: Keep-Alive|", true),
            ("1.0", "Connection: keep-alive|Connection: close|", false),
        ] {
            with(&format!("GET / HTTP/{version}|Host: x|{lines}|"), |request| {
                assert_eq!(request.keep_alive(), goes_on, "{version} {lines}");
            });
        }
    }

    #[test]
    fn only_lists_may_span_lines() {
        with("GET / HTTP/1.1|Accept-Encoding: a|Host: x|accept-encoding: b|Range: c|RANGE: c||", |request| {
            assert_eq!(request.lines(Field::AcceptEncoding).collect::<Vec<_>>(), [b"a", b"b"]);
            assert_eq!(request.lines(Field::Host).collect::<Vec<_>>(), [b"x"]);
            assert_eq!(request.lines(Field::Accept).count(), 0);
            assert_eq!((request.field(Field::Range), request.has(Field::Range)), (None, true));
        });
    }

    #[test]
    fn bodies_and_expectations_are_parsed() {
        for (lines, body, expectation) in [
            ("Content-Length: 18446744073709551615|", BodyLength::Bytes(u64::MAX), Expectation::None),
            ("Transfer-Encoding: CHUNKED|Expect: 100-Continue|", BodyLength::Chunked, Expectation::Continue),
            ("Expect: 100-continue, x|", BodyLength::Bytes(0), Expectation::Unknown),
            ("Expect: x|Expect: 100-continue|", BodyLength::Bytes(0), Expectation::Unknown),
            ("Expect:|", BodyLength::Bytes(0), Expectation::None),
        ] {
            with(&format!("POST / HTTP/1.1|Host: x|{lines}|"), |request| {
                assert_eq!((request.body(), request.expectation()), (body, expectation), "{lines}");
            });
        }
    }

    #[test]
    fn requests_are_small() {
        assert!(size_of::<Request<'_>>() <= 128, "{}", size_of::<Request<'_>>());
        assert!(size_of::<Scan>() <= 8);
    }
}
