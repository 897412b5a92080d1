//! Requests: converts decoded fields to an HTTP/1.1 head, so that one parser checks both (RFC 9113 section 8.3).
//!
//! The rules of HTTP/2 are checked first: pseudo-header fields, names in lower case, no connection-specific fields.
//! Fields that pass cannot break out of a line of the generated head: a name is a token, and a value has no control
//! bytes.
//!
//! Information that HTTP/2 does not send as fields is written in the form of HTTP/1.1: `:authority` as `Host`, and
//! content of unknown length as chunks. Cookies, which HTTP/2 may split, are joined into one line (section 8.2.3).

use crate::http::bytes::{self, TOKEN, is_blank};
use crate::http::{Limits, Parsed, Reject, Request, Status, Version, request};
use std::ops::Range;

/// The reason why the fields are not answered as a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// They are not a request: the stream ends with `PROTOCOL_ERROR`.
    Malformed(&'static str),
    /// The request is answered with this status.
    Rejected(Reject),
}

/// The four pseudo-header fields.
#[derive(Debug, Clone, Copy)]
enum Pseudo {
    Method,
    Scheme,
    Authority,
    Path,
}

impl Pseudo {
    const ALL: [(&[u8], Self); 4] = [
        (b":method", Self::Method),
        (b":path", Self::Path),
        (b":scheme", Self::Scheme),
        (b":authority", Self::Authority),
    ];
}

/// The fields of a request during decoding. Its buffers are reused for the next request.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub struct Fields {
    /// The values of the pseudo-header fields.
    values: Vec<u8>,
    places: [Option<Range<usize>>; 4],
    /// The other fields, as field lines.
    lines: Vec<u8>,
    /// The value of `Cookie`.
    cookies: Vec<u8>,
    has_line: bool,
    has_cookie: bool,
    has_length: bool,
    host: Option<Range<usize>>,
    is_trailer: bool,
    most_bytes: usize,
    is_too_large: bool,
    fault: Option<&'static str>,
}

impl Fields {
    /// Begins a request with a head of at most `most_bytes` bytes, or a trailer.
    pub fn begin(&mut self, most_bytes: usize, is_trailer: bool) {
        self.values.clear();
        self.lines.clear();
        self.cookies.clear();
        self.places = [const { None }; 4];
        (self.has_line, self.has_cookie, self.has_length) = (false, false, false);
        (self.host, self.is_too_large, self.fault) = (None, false, None);
        (self.is_trailer, self.most_bytes) = (is_trailer, most_bytes);
    }

    /// Adds a field. An invalid field is reported at the end.
    #[inline]
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        if self.fault.is_some() || self.is_too_large {
            return;
        }
        let size = self.values.len() + self.lines.len() + self.cookies.len() + name.len() + value.len();
        if size > self.most_bytes {
            self.is_too_large = true;
            return;
        }
        let added = if name.first() == Some(&b':') { self.add_pseudo(name, value) } else { self.add_line(name, value) };
        self.fault = added.err();
    }

    fn add_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        if self.has_line || self.is_trailer {
            return Err("a pseudo-header field after other fields");
        }
        let pseudo = Pseudo::ALL.iter().find(|(own, _)| *own == name).ok_or("unknown pseudo-header field")?.1;
        let is_valid = match pseudo {
            Pseudo::Method | Pseudo::Scheme => bytes::is_token(value),
            Pseudo::Path => bytes::target_end(value, 0) == value.len() && !value.is_empty(),
            Pseudo::Authority => bytes::target_end(value, 0) == value.len(),
        };
        if !is_valid {
            return Err("invalid value of a pseudo-header field");
        }
        let start = self.values.len();
        self.values.extend_from_slice(value);
        let place = &mut self.places[pseudo as usize];
        if place.replace(start..start + value.len()).is_some() {
            return Err("repeated pseudo-header field");
        }
        Ok(())
    }

    #[inline]
    fn add_line(&mut self, name: &[u8], value: &[u8]) -> Result<(), &'static str> {
        self.has_line = true;
        let is_lower = |&byte: &u8| bytes::is(byte, TOKEN) && !byte.is_ascii_uppercase();
        if name.is_empty() || !name.iter().all(is_lower) {
            return Err("invalid field name");
        }
        let is_blank_at = |byte: Option<&u8>| byte.copied().is_some_and(is_blank);
        if bytes::value_end(value, 0) != value.len() || is_blank_at(value.first()) || is_blank_at(value.last()) {
            return Err("invalid field value");
        }
        match name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                return Err("a connection-specific field");
            }
            b"te" if value != b"trailers" => return Err("TE with a value other than trailers"),
            b"host" => return self.add_host(value),
            b"cookie" => {
                self.add_cookie(value);
                return Ok(());
            }
            b"content-length" => self.has_length = true,
            _ => {}
        }
        self.add_any(name, value);
        Ok(())
    }

    #[inline]
    fn add_any(&mut self, name: &[u8], value: &[u8]) {
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
    }

    fn add_cookie(&mut self, value: &[u8]) {
        if std::mem::replace(&mut self.has_cookie, true) {
            self.cookies.extend_from_slice(b"; ");
        }
        self.cookies.extend_from_slice(value);
    }

    /// `:authority` takes precedence over `Host`, which must be identical (RFC 9113 section 8.3.1).
    fn add_host(&mut self, value: &[u8]) -> Result<(), &'static str> {
        match self.value(Pseudo::Authority) {
            Some(authority) if authority.eq_ignore_ascii_case(value) => Ok(()),
            Some(_) => Err("Host differs from :authority"),
            None => {
                self.add_any(b"host", value);
                Ok(())
            }
        }
    }

    fn value(&self, pseudo: Pseudo) -> Option<&[u8]> {
        self.places[pseudo as usize].clone().map(|place| &self.values[place])
    }

    /// Returns whether the method is HEAD, whose response has no content.
    pub fn is_head(&self) -> bool {
        self.value(Pseudo::Method) == Some(b"HEAD")
    }

    /// Ends the fields of a trailer, which are ignored.
    pub fn finish_trailer(&self) -> Result<(), Refusal> {
        self.fault.map_or(Ok(()), |reason| Err(Refusal::Malformed(reason)))
    }

    /// Ends the fields of a request, and appends its head, which [`parse`] reads. `is_end` is true if no content
    /// follows.
    pub fn finish(&mut self, is_end: bool, head: &mut Vec<u8>) -> Result<(), Refusal> {
        if let Some(reason) = self.fault {
            return Err(Refusal::Malformed(reason));
        }
        if self.is_too_large {
            let reject = Reject { status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE, reason: "head too long" };
            return Err(Refusal::Rejected(reject));
        }
        let malformed = |reason| Err(Refusal::Malformed(reason));
        let authority = self.value(Pseudo::Authority);
        let Some(method) = self.value(Pseudo::Method) else { return malformed("no :method") };
        let target = if method == b"CONNECT" {
            match (authority, self.value(Pseudo::Scheme), self.value(Pseudo::Path)) {
                (Some(authority), None, None) => authority,
                _ => return malformed("CONNECT needs :authority, and no :scheme or :path"),
            }
        } else {
            if self.value(Pseudo::Scheme).is_none() {
                return malformed("no :scheme");
            }
            match self.value(Pseudo::Path) {
                Some(path) if path[0] == b'/' || (path == b"*" && method == b"OPTIONS") => path,
                Some(_) => return malformed(":path does not begin with a slash"),
                None => return malformed("no :path"),
            }
        };
        let fields_bytes = self.lines.len() + self.cookies.len() + authority.map_or(0, <[u8]>::len);
        head.reserve(method.len() + target.len() + fields_bytes + 72);
        head.extend_from_slice(method);
        head.push(b' ');
        head.extend_from_slice(target);
        head.extend_from_slice(b" HTTP/1.1\r\n");
        if let Some(authority) = authority {
            head.extend_from_slice(b"host: ");
            head.extend_from_slice(authority);
            head.extend_from_slice(b"\r\n");
        }
        head.extend_from_slice(&self.lines);
        if self.has_cookie {
            head.extend_from_slice(b"cookie: ");
            head.extend_from_slice(&self.cookies);
            head.extend_from_slice(b"\r\n");
        }
        // The content of a CONNECT request belongs to a tunnel.
        if !is_end && !self.has_length && method != b"CONNECT" {
            head.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        head.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// Parses a head written by [`Fields::finish`].
#[inline]
pub fn parse<'a>(head: &'a [u8], limits: &Limits) -> Result<Request<'a>, Reject> {
    match request::parse(head, limits)? {
        Parsed::Complete { mut request, .. } => {
            request.index.version = Version::Http2;
            Ok(request)
        }
        // Unreachable: a written head is complete, and one that is longer than allowed is an error.
        Parsed::Partial => Err(Reject::bad("incomplete head")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{BodyLength, Field, Method};

    fn finished(fields: &[(&str, &str)], most_bytes: usize) -> Result<String, Refusal> {
        let (mut all, mut head) = (Fields::default(), Vec::new());
        all.begin(most_bytes, false);
        for (name, value) in fields {
            all.add(name.as_bytes(), value.as_bytes());
        }
        all.finish(true, &mut head)?;
        Ok(String::from_utf8(head).unwrap())
    }

    const GET: [(&str, &str); 4] = [(":method", "GET"), (":scheme", "https"), (":path", "/a?b"), (":authority", "x:1")];

    fn with(fields: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&GET[..], fields].concat()
    }

    #[test]
    fn fields_become_a_head() {
        let all = with(&[("te", "trailers"), ("host", "X:1"), ("content-length", "7"), ("x", "")]);
        let head = finished(&all, 1000).unwrap();
        assert_eq!(head, "GET /a?b HTTP/1.1\r\nhost: x:1\r\nte: trailers\r\ncontent-length: 7\r\nx: \r\n\r\n");
        let request = parse(head.as_bytes(), &Limits::default()).unwrap();
        assert_eq!((request.method(), request.path(), request.host()), (Method::Get, &b"/a?b"[..], Some(&b"x:1"[..])));
        assert_eq!((request.version(), request.version_text()), (Version::Http2, &b"HTTP/2.0"[..]));
        assert_eq!(
            (request.body(), request.has(Field::Host), request.keep_alive()),
            (BodyLength::Bytes(7), true, true)
        );
        let without = [(":method", "OPTIONS"), (":path", "*"), (":scheme", "http"), ("host", "y")];
        assert_eq!(finished(&without, 1000).unwrap(), "OPTIONS * HTTP/1.1\r\nhost: y\r\n\r\n");
        let connect = [(":method", "CONNECT"), (":authority", "x:1")];
        assert_eq!(finished(&connect, 1000).unwrap(), "CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n");
    }

    fn add_all<'a>(fields: &mut Fields, all: impl IntoIterator<Item = (&'a str, &'a str)>) {
        for (name, value) in all {
            fields.add(name.as_bytes(), value.as_bytes());
        }
    }

    #[test]
    fn content_and_cookies_are_said_as_in_http1() {
        let mut head = Vec::new();
        let mut fields = Fields::default();
        for (length, is_end, expected) in [
            (None, true, ""),
            (None, false, "transfer-encoding: chunked\r\n"),
            (Some("0"), false, "content-length: 0\r\n"),
            (Some("3"), true, "content-length: 3\r\n"),
        ] {
            fields.begin(1000, false);
            let cookies = [("cookie", "a=b"), ("x", "y"), ("cookie", ""), ("cookie", "c=d; e")];
            let length = length.map(|length| ("content-length", length));
            let all = GET.into_iter().chain(length).chain(cookies);
            add_all(&mut fields, all);
            head.clear();
            fields.finish(is_end, &mut head).unwrap();
            let text = str::from_utf8(&head).unwrap();
            let body = if expected.starts_with("transfer") { ("", expected) } else { (expected, "") };
            let whole =
                format!("GET /a?b HTTP/1.1\r\nhost: x:1\r\n{}x: y\r\ncookie: a=b; ; c=d; e\r\n{}\r\n", body.0, body.1);
            assert_eq!(text, whole);
            assert!(parse(&head, &Limits::default()).is_ok());
        }
        // Many cookies are one field; the limit applies to their bytes.
        for (count, is_accepted) in [(400, true), (600, false)] {
            fields.begin(1000, false);
            add_all(&mut fields, GET.into_iter().chain(std::iter::repeat_n(("cookie", ""), count)));
            head.clear();
            assert_eq!(fields.finish(true, &mut head).is_ok(), is_accepted, "{count}");
            assert!(!is_accepted || parse(&head, &Limits::default()).is_ok(), "{count}");
        }
        let connect = [(":method", "CONNECT"), (":authority", "x:1")];
        fields.begin(1000, false);
        add_all(&mut fields, connect);
        head.clear();
        fields.finish(false, &mut head).unwrap();
        assert_eq!(head, b"CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n");
    }

    /// Malformed fields end the stream; those that are only too large get a response.
    #[test]
    fn invalid_fields_are_refused() {
        let without = |name: &str| GET.into_iter().filter(|(own, _)| *own != name).collect::<Vec<_>>();
        let path = |path: &'static str| [&without(":path")[..], &[(":path", path)]].concat();
        let cases = [
            without(":method"),
            without(":scheme"),
            without(":path"),
            path(""),
            path("a"),
            path("*"),
            path("http://y/"),
            path("/ HTTP/1.1\r\nx: y"),
            path("/a b"),
            path("/\u{e9}"),
            with(&[(":path", "/")]),
            with(&[(":status", "200")]),
            with(&[("x", "y"), (":path", "/")]),
            with(&[("", "y")]),
            with(&[("X", "y")]),
            with(&[("x y", "y")]),
            with(&[("x\r\ny", "y")]),
            with(&[("x", "y\r\nz: a")]),
            with(&[("x", "y\nz")]),
            with(&[("x", "y\0")]),
            with(&[("x", " y")]),
            with(&[("x", "y\t")]),
            with(&[("connection", "close")]),
            with(&[("keep-alive", "1")]),
            with(&[("proxy-connection", "close")]),
            with(&[("transfer-encoding", "chunked")]),
            with(&[("upgrade", "h2c")]),
            with(&[("te", "trailers, gzip")]),
            with(&[("host", "y")]),
            vec![(":method", "CONNECT"), (":authority", "x:1"), (":path", "/"), (":scheme", "http")],
            vec![(":method", "G T"), (":scheme", "http"), (":path", "/")],
            vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x\r\ny: z")],
        ];
        for fields in cases {
            assert!(matches!(finished(&fields, 1000), Err(Refusal::Malformed(_))), "{fields:?}");
        }
        let rejected = finished(&with(&[("x", "0123456789012345678901234567890123456789")]), 50).unwrap_err();
        assert!(matches!(rejected, Refusal::Rejected(reject) if reject.status.0 == 431), "{rejected:?}");
    }

    #[test]
    fn trailers_have_no_pseudo_header_fields() {
        let mut fields = Fields::default();
        fields.begin(100, true);
        fields.add(b"x", b"y");
        assert_eq!(fields.finish_trailer(), Ok(()));
        fields.add(b":method", b"GET");
        assert!(fields.finish_trailer().is_err());
    }
}
