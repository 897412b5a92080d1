//! A strict client of a web server: HTTP/1.1 and HTTP/2 over any stream. If a response is incomplete, the client
//! reports exactly what is missing.
//!
//! The file is compiled into `xtask`, which runs thousands of clients against a server for half an hour, and into the
//! tests of `landau`.

use landau_wire::http2::frame::{self, Frame, HEADER_BYTES, Header};
use landau_wire::http2::hpack::{Decoder, Encoder};
use landau_wire::http2::{Code, PREFACE, Setting, Settings};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};

/// The flow-control window of a connection and of each stream: more bytes than a connection receives in its lifetime.
const WINDOW: u32 = 1 << 30;

/// The maximum number of bytes that a client receives at once.
const PART_BYTES: usize = 16 << 10;

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The entity tag.
    pub(crate) etag: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Why there is no complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The connection ended before the first byte of the response.
    Unanswered(String),
    /// The connection ended within the response.
    Cut(String),
    /// The stream timed out without data.
    Silent,
    /// The server refused the request (HTTP/2).
    Refused(Code),
    /// The received bytes are not a valid response.
    Invalid(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered(why) => write!(formatter, "no response: {why}"),
            Self::Cut(why) => write!(formatter, "an incomplete response: {why}"),
            Self::Silent => write!(formatter, "timed out without data"),
            Self::Refused(code) => write!(formatter, "refused: {}", code.name()),
            Self::Invalid(why) => write!(formatter, "an invalid response: {why}"),
        }
    }
}

/// Returns why a call failed, given whether a part of the response was received.
fn lost(error: &io::Error, is_begun: bool) -> Lost {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Lost::Silent,
        _ if is_begun => Lost::Cut(error.to_string()),
        _ => Lost::Unanswered(error.to_string()),
    }
}

/// Receives more bytes. The end of the stream is an error.
fn receive(stream: &mut impl Read, unread: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; PART_BYTES];
    loop {
        return match stream.read(&mut buffer) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(count) => {
                unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
    }
}

/// An HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Http1<S> {
    pub(crate) stream: S,
    unread: Vec<u8>,
}

impl<S: Read + Write> Http1<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    /// Sends a request and waits for its response. `fields` are the lines of the header fields.
    pub(crate) fn get(&mut self, path: &str, fields: &str) -> Result<Answer, Lost> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        // A server that refuses the connection may have closed it. Its response can still be read.
        let sent = self.stream.write_all(request.as_bytes());
        match (self.answer(&mut || ()), sent) {
            (Err(Lost::Unanswered(_)), Err(error)) => Err(lost(&error, false)),
            (answer, _) => answer,
        }
    }

    /// Waits for the next response. Calls `pause` before each receive of its body.
    pub(crate) fn answer(&mut self, pause: &mut dyn FnMut()) -> Result<Answer, Lost> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            receive(&mut self.stream, &mut self.unread).map_err(|error| lost(&error, !self.unread.is_empty()))?;
        };
        let invalid = |head: &[u8]| Lost::Invalid(head[..head.len().min(200)].escape_ascii().to_string());
        let head: Vec<u8> = self.unread.drain(..end).collect();
        let text = std::str::from_utf8(&head).map_err(|_| invalid(&head))?;
        let field = |name: &str| {
            let mut lines = text.lines().skip(1).filter_map(|line| line.split_once(": "));
            lines.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let status: u16 = text
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| invalid(&head))?;
        let length: usize = match field("Content-Length") {
            _ if matches!(status, 204 | 304) => 0,
            Some(length) => length.parse().map_err(|_| invalid(&head))?,
            None => return Err(invalid(&head)),
        };
        while self.unread.len() < length {
            pause();
            receive(&mut self.stream, &mut self.unread).map_err(|error| match lost(&error, true) {
                Lost::Cut(why) => Lost::Cut(format!("{} of {length} bytes, {why}", self.unread.len())),
                other => other,
            })?;
        }
        let body = self.unread.drain(..length).collect();
        Ok(Answer { status, etag: field("ETag").map(str::to_owned), body })
    }
}

/// The received part of an HTTP/2 response.
#[derive(Debug, Default)]
struct Begun {
    status: Option<u16>,
    etag: Option<String>,
    length: Option<usize>,
    body: Vec<u8>,
    is_whole: bool,
    refused: Option<Code>,
}

impl Begun {
    fn is_over(&self) -> bool {
        self.is_whole || self.refused.is_some()
    }

    fn finish(self) -> Result<Answer, Lost> {
        if let Some(code) = self.refused {
            return Err(if self.status.is_some() { Lost::Cut(code.name().to_owned()) } else { Lost::Refused(code) });
        }
        let status = self.status.ok_or_else(|| Lost::Invalid("a response without a status".to_owned()))?;
        if let Some(length) = self.length.filter(|&length| status != 304 && length != self.body.len()) {
            return Err(Lost::Invalid(format!("{} bytes instead of {length}", self.body.len())));
        }
        Ok(Answer { status, etag: self.etag, body: self.body })
    }
}

/// An HTTP/2 connection.
pub(crate) struct Http2<S> {
    pub(crate) stream: S,
    unread: Vec<u8>,
    encoder: Encoder,
    decoder: Decoder,
    next: u32,
    begun: BTreeMap<u32, Begun>,
    block: Vec<u8>,
    /// The last stream that the server accepts, and the error code, from its GOAWAY frame.
    end: Option<(u32, Code)>,
}

impl<S: Read + Write> Http2<S> {
    /// Opens a connection: sends the preface, the settings and a window update.
    pub(crate) fn new(mut stream: S) -> io::Result<Self> {
        let mut out = PREFACE.to_vec();
        frame::write_settings(&[(Setting::EnablePush, 0), (Setting::InitialWindowSize, WINDOW)], &mut out);
        frame::write_window_update(0, WINDOW, &mut out);
        stream.write_all(&out)?;
        let (encoder, decoder) = (Encoder::new(), Decoder::new(4096));
        let (unread, begun, block) = (Vec::new(), BTreeMap::new(), Vec::new());
        Ok(Self { stream, unread, encoder, decoder, next: 1, begun, block, end: None })
    }

    /// Sends requests for paths, each with its fields, at once. Waits for all responses.
    pub(crate) fn get(&mut self, requests: &[(&str, &[(&str, &str)])]) -> Vec<Result<Answer, Lost>> {
        let mut out = Vec::new();
        let first = self.next;
        for (path, fields) in requests {
            let start = out.len();
            out.extend_from_slice(&[0; HEADER_BYTES]);
            self.encoder.begin(&mut out);
            let own = [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "x")];
            for (name, value) in own.iter().chain(*fields) {
                self.encoder.field(name.as_bytes(), value.as_bytes(), &mut out);
            }
            frame::finish_headers(start, self.next, true, &mut out);
            self.begun.insert(self.next, Begun::default());
            self.next += 2;
        }
        let sent = self.stream.write_all(&out);
        let mut failed = sent.err().map(|error| lost(&error, false));
        while failed.is_none() && !self.begun.values().all(Begun::is_over) {
            failed = self.receive().err();
        }
        let is_refused = |code: Code| if code == Code::NO_ERROR { Code::REFUSED_STREAM } else { code };
        let mut finish = |stream: u32| {
            let begun = self.begun.remove(&stream).unwrap_or_default();
            match (&failed, self.end) {
                _ if begun.is_over() => begun.finish(),
                (Some(_), Some((last, code))) if begun.status.is_none() && stream > last => {
                    Err(Lost::Refused(is_refused(code)))
                }
                (Some(Lost::Unanswered(why) | Lost::Cut(why)), _) if begun.status.is_some() => {
                    Err(Lost::Cut(format!("{} of {:?} bytes, {why}", begun.body.len(), begun.length)))
                }
                (Some(failure), _) => Err(failure.clone()),
                (None, _) => begun.finish(),
            }
        };
        (first..self.next).step_by(2).map(&mut finish).collect()
    }

    /// Receives and handles a frame.
    fn receive(&mut self) -> Result<(), Lost> {
        loop {
            if let Some(header) = Header::parse(&self.unread)
                && let Some(payload) = self.unread.get(HEADER_BYTES..HEADER_BYTES + header.length)
            {
                let payload = payload.to_vec();
                self.unread.drain(..HEADER_BYTES + header.length);
                return self.take(header, &payload);
            }
            receive(&mut self.stream, &mut self.unread).map_err(|error| lost(&error, false))?;
        }
    }

    fn take(&mut self, header: Header, payload: &[u8]) -> Result<(), Lost> {
        let invalid = |why: &dyn fmt::Debug| Lost::Invalid(format!("{why:?}"));
        let frame = Frame::parse(header, payload).map_err(|fault| invalid(&fault))?;
        let mut out = Vec::new();
        match frame {
            Frame::Headers { block, is_end, is_whole } => {
                self.block = block.to_vec();
                self.begun.entry(header.stream).or_default().is_whole = is_end;
                if is_whole {
                    self.fields(header.stream)?;
                }
            }
            Frame::Continuation { block, is_last } => {
                self.block.extend_from_slice(block);
                if is_last {
                    self.fields(header.stream)?;
                }
            }
            Frame::Data { content, is_end } => {
                let begun = self.begun.entry(header.stream).or_default();
                begun.body.extend_from_slice(content);
                begun.is_whole = is_end;
            }
            Frame::RstStream(code) => self.begun.entry(header.stream).or_default().refused = Some(code),
            Frame::GoAway(last, code) => self.end = Some((last, code)),
            Frame::Settings(payload) => {
                let mut settings = Settings::default();
                settings.apply(payload).map_err(|fault| invalid(&fault))?;
                self.encoder.resize(settings.header_table_size);
                frame::write_settings_ack(&mut out);
            }
            Frame::Ping(bytes) => frame::write_ping_ack(bytes, &mut out),
            Frame::SettingsAck | Frame::PingAck(_) | Frame::WindowUpdate(_) | Frame::Ignored => {}
            Frame::PushPromise => return Err(invalid(&"a push")),
        }
        if out.is_empty() { Ok(()) } else { self.stream.write_all(&out).map_err(|error| lost(&error, false)) }
    }

    /// Decodes the fields of a response.
    fn fields(&mut self, stream: u32) -> Result<(), Lost> {
        let begun = self.begun.entry(stream).or_default();
        let each = |name: &[u8], value: &[u8]| {
            let value = String::from_utf8_lossy(value);
            match name {
                b":status" => begun.status = value.parse().ok(),
                b"etag" => begun.etag = Some(value.into_owned()),
                b"content-length" => begun.length = value.parse().ok(),
                _ => {}
            }
        };
        let decoded = self.decoder.decode(&self.block, &mut Vec::new(), each);
        decoded.map_err(|error| Lost::Invalid(format!("a header block: {error:?}")))
    }
}
