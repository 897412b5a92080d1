//! The head of a response in the form for the client.

use super::request::Forward;
use super::{is_of_connection, line, options, put};
use landau_wire::http::body::Body;
use landau_wire::http::head::write_decimal;
use landau_wire::http::response::Response;
use landau_wire::http::{Method, Status, Version};
use std::time::Duration;

/// The error for a response that cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The way in which the end of the content is marked for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length, or there is no content.
    Length,
    Chunked,
    /// By the frames of HTTP/2.
    Frames,
    /// By the end of the connection.
    Close,
    /// The connection has switched to another protocol.
    Tunnel,
}

/// The properties of a response whose head was passed on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reply {
    pub(crate) status: Status,
    /// The content that follows.
    pub(crate) body: Body,
    pub(crate) framing: Framing,
    /// Whether the client's connection ends after the response.
    pub(crate) close: bool,
    /// Whether the upstream server accepts another request on the connection.
    pub(crate) is_reusable: bool,
    /// How long the upstream server keeps the connection, if it announces that.
    pub(crate) kept_for: Option<Duration>,
}

/// Returns the name and the value of a field line.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let colon = line.iter().position(|&byte| byte == b':').ok_or(Malformed)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    // A line that begins with white space would continue the previous one.
    let is_token = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'0'..=b'9' => true,
        other => b"!#$%&'*+.^_`|~".contains(other),
    };
    // The loop counts without an early exit, so that compilers can vectorise it.
    let is_control = |byte: &&u8| (**byte < b' ' && **byte != b'\t') || **byte == 0x7f;
    let is_sound = !name.is_empty() && name.iter().all(is_token) && value.iter().filter(is_control).count() == 0;
    if is_sound { Ok((name, value)) } else { Err(Malformed) }
}

/// The properties of the connection and the content according to the fields.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
struct Facts<'a> {
    fields: Vec<(&'a [u8], &'a [u8])>,
    /// The values of `Connection`.
    connection: Vec<&'a [u8]>,
    has_length: bool,
    is_chunked: bool,
    /// Whether there is another transfer coding.
    is_coded: bool,
    is_websocket: bool,
    has_date: bool,
    /// How long the upstream server keeps the connection (`Keep-Alive: timeout=5`).
    kept_for: Option<Duration>,
}

impl<'a> Facts<'a> {
    /// Reads all fields; fails if one is invalid.
    fn of(head: &'a [u8]) -> Result<Self, Malformed> {
        let mut facts = Self { fields: Vec::with_capacity(16), ..Self::default() };
        let lines = head.split(|&byte| byte == b'\n').skip(1).map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = field(line)?;
            facts.fields.push((name, value));
            let is = |known: &str| known.as_bytes().eq_ignore_ascii_case(name);
            if is("Connection") {
                facts.connection.push(value);
            } else if is("Content-Length") {
                facts.has_length = true;
            } else if is("Transfer-Encoding") {
                for coding in options(value) {
                    let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
                    facts.is_chunked |= is_chunked;
                    facts.is_coded |= !is_chunked;
                }
            } else if is("Upgrade") {
                facts.is_websocket |= value.eq_ignore_ascii_case(b"websocket");
            } else if is("Keep-Alive") {
                facts.kept_for = options(value).find_map(timeout).or(facts.kept_for);
            } else if is("Date") {
                facts.has_date = true;
            }
        }
        Ok(facts)
    }

    /// Returns whether a field is for this connection only.
    fn is_of_connection(&self, name: &[u8]) -> bool {
        is_of_connection(name, self.connection.iter().copied())
    }
}

/// Reads a parameter of `Keep-Alive`.
fn timeout(option: &[u8]) -> Option<Duration> {
    let (name, seconds) = option.split_at_checked(b"timeout=".len())?;
    let seconds = std::str::from_utf8(seconds).ok().filter(|_| name.eq_ignore_ascii_case(b"timeout="))?;
    Some(Duration::from_secs(u64::from(seconds.parse::<u32>().ok()?)))
}

/// Writes an interim response, such as 103, unchanged except for the fields of the connection.
pub(super) fn write_interim(head: &[u8], response: &Response, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let facts = Facts::of(head)?;
    write_status(head, response.status, out);
    for (name, value) in facts.fields.iter().filter(|(name, _)| !facts.is_of_connection(name)) {
        line(name, value, out);
    }
    out.extend_from_slice(b"\r\n");
    Ok(())
}

/// Writes the head for the client. `date` is used if the upstream server sent none. `close` states whether the client's
/// connection ends after the response.
pub(super) fn write_head(
    head: &[u8],
    response: &Response,
    forward: &Forward,
    (date, close): (&[u8], bool),
    out: &mut Vec<u8>,
) -> Result<Reply, Malformed> {
    let body = response.body(forward.method);
    let facts = Facts::of(head)?;
    let framing = framing(&facts, response, forward, &body)?;
    let policy = &forward.policy;
    write_status(head, response.status, out);
    for (name, value) in &facts.fields {
        if !facts.is_of_connection(name) && !policy.replaces(name, response.status) {
            line(name, value, out);
        }
    }
    if !facts.has_date {
        put("Date", date, out);
    }
    write_framing(response, forward, framing, out);
    let close = close || matches!(framing, Framing::Close | Framing::Tunnel);
    match framing {
        Framing::Tunnel => {
            put("Connection", b"Upgrade", out);
            put("Upgrade", b"websocket", out);
        }
        _ if forward.is_http2() => {}
        _ if close => put("Connection", b"close", out),
        _ if forward.is_old() => put("Connection", b"keep-alive", out),
        _ => {}
    }
    out.extend_from_slice(&policy.lines);
    out.extend_from_slice(&forward.cors_lines);
    if response.status.0 < 400 {
        out.extend_from_slice(&policy.freshness_lines);
    }
    if forward.client.is_tls {
        out.extend_from_slice(&policy.tls_lines);
    }
    out.extend_from_slice(b"\r\n");
    let (is_reusable, kept_for) = (response.is_reusable(forward.method), facts.kept_for);
    Ok(Reply { status: response.status, body, framing, close, is_reusable, kept_for })
}

/// Decides how the end of the content is marked for the client. Refuses responses that could be read in two ways.
fn framing(facts: &Facts<'_>, response: &Response, forward: &Forward, body: &Body) -> Result<Framing, Malformed> {
    if response.status == Status::SWITCHING_PROTOCOLS {
        return if forward.is_upgrade && facts.is_websocket { Ok(Framing::Tunnel) } else { Err(Malformed) };
    }
    // Codings other than chunks are for the connection, and the server has not requested any.
    let is_ambiguous = facts.is_chunked && (facts.has_length || response.version == Version::Http10);
    if is_ambiguous || facts.is_coded {
        return Err(Malformed);
    }
    Ok(match body {
        Body::Bytes(_) => Framing::Length,
        _ if forward.is_http2() => Framing::Frames,
        _ if forward.is_old() => Framing::Close,
        _ => Framing::Chunked,
    })
}

fn write_framing(response: &Response, forward: &Forward, framing: Framing, out: &mut Vec<u8>) {
    match framing {
        Framing::Chunked => put("Transfer-Encoding", b"chunked", out),
        // For HEAD and 304, this is the length that the content would have.
        Framing::Length if response.status != Status::NO_CONTENT => {
            let bare = forward.method == Method::Head || response.status == Status::NOT_MODIFIED;
            if let Some(length) = response.content_length.or(if bare { None } else { Some(0) }) {
                out.extend_from_slice(b"Content-Length: ");
                write_decimal(length, out);
                out.extend_from_slice(b"\r\n");
            }
        }
        Framing::Length | Framing::Frames | Framing::Close | Framing::Tunnel => {}
    }
}

/// Writes the status line, with the upstream server's reason phrase if all its characters are printable.
fn write_status(head: &[u8], status: Status, out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    write_decimal(u64::from(status.0), out);
    out.push(b' ');
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let phrase = line.strip_suffix(b"\r").unwrap_or(line).get(b"HTTP/1.1 200 ".len()..).unwrap_or_default();
    if phrase.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        out.extend_from_slice(phrase);
    } else {
        out.extend_from_slice(status.reason().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}
