//! HTTP/2 through the whole server: the same responses as over HTTP/1.1, flow control, and misbehaving clients.

use crate::support::{Client, Got, LONG, Site, kinds, set_rules, until};
use landau_reactor::ManualClock;
use landau_serve::{AccessLog, Config, LogFormat, LogTarget};
use landau_wire::http2::frame::{self, Frame, HEADER_BYTES, Header, Kind};
use landau_wire::http2::hpack::{Decoder, Encoder};
use landau_wire::http2::{Code, PREFACE, Setting};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The window that a client of these tests opens by default: the maximum that the server may send at once.
pub(crate) const WINDOW: u32 = 1 << 30;

/// The windows of the server.
pub(crate) const OWN_WINDOW: i64 = 65_535;

/// A response, or the part of it that has arrived.
#[derive(Debug, Default, Clone)]
pub(crate) struct Response {
    pub(crate) fields: Vec<(String, String)>,
    /// The statuses of interim responses before it.
    pub(crate) interim: Vec<String>,
    pub(crate) body: Vec<u8>,
    pub(crate) is_whole: bool,
    pub(crate) reset: Option<Code>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| &value[..])
    }

    #[track_caller]
    pub(crate) fn status(&self) -> &str {
        self.field(":status").unwrap_or_else(|| panic!("no response: {self:?}"))
    }
}

/// A client of one connection.
pub(crate) struct H2<S> {
    pub(crate) stream: S,
    unread: Vec<u8>,
    encoder: Encoder,
    decoder: Decoder,
    pub(crate) responses: BTreeMap<u32, Response>,
    /// The number of bytes that may be sent on each stream, and on the connection (0).
    windows: BTreeMap<u32, i64>,
    /// The order in which content arrived, by stream.
    pub(crate) order: Vec<u32>,
    /// The last GOAWAY frame.
    pub(crate) end: Option<(u32, Code)>,
    /// The first byte of each header block.
    pub(crate) blocks: Vec<u8>,
    pongs: u32,
    /// Whether the client answers the server's PINGs.
    pub(crate) answers: bool,
    /// The PINGs that the client has not answered.
    pub(crate) pings: Vec<[u8; 8]>,
}

impl H2<TcpStream> {
    pub(crate) fn to(site: &Site) -> Self {
        Self::with(site, &[(Setting::InitialWindowSize, WINDOW)], WINDOW)
    }

    pub(crate) fn with(site: &Site, settings: &[(Setting, u32)], window: u32) -> Self {
        let stream = TcpStream::connect(site.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream, settings, window)
    }
}

impl<S: Read + Write> H2<S> {
    pub(crate) fn over(stream: S, settings: &[(Setting, u32)], window: u32) -> Self {
        let mut client = Self {
            stream,
            unread: Vec::new(),
            encoder: Encoder::new(),
            decoder: Decoder::new(4096),
            responses: BTreeMap::new(),
            windows: BTreeMap::new(),
            order: Vec::new(),
            end: None,
            blocks: Vec::new(),
            pongs: 0,
            answers: true,
            pings: Vec::new(),
        };
        let mut out = PREFACE.to_vec();
        frame::write_settings(settings, &mut out);
        if window > 0 {
            frame::write_window_update(0, window, &mut out);
        }
        client.send(&out);
        client
    }

    /// Sends bytes; errors are ignored, because the server may close the connection before all are sent.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.send(&out);
    }

    pub(crate) fn headers(&mut self, id: u32, fields: &[(&str, &str)], is_end: bool, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.begin(out);
        for (name, value) in fields {
            self.encoder.field(name.as_bytes(), value.as_bytes(), out);
        }
        frame::finish_headers(start, id, is_end, out);
    }

    pub(crate) fn ask(&mut self, id: u32, method: &str, path: &str, fields: &[(&str, &str)], is_end: bool) {
        let own = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x")];
        let mut out = Vec::new();
        self.headers(id, &[&own, fields].concat(), is_end, &mut out);
        self.send(&out);
    }

    pub(crate) fn get(&mut self, id: u32, path: &str) {
        self.ask(id, "GET", path, &[], true);
    }

    pub(crate) fn data(&mut self, id: u32, content: &[u8], is_end: bool) {
        let mut out = Vec::new();
        self.write_data(id, content, is_end, &mut out);
        self.send(&out);
    }

    /// Appends a DATA frame, and counts it as sent.
    pub(crate) fn write_data(&mut self, id: u32, content: &[u8], is_end: bool, out: &mut Vec<u8>) {
        for id in [0, id] {
            *self.windows.entry(id).or_insert(OWN_WINDOW) -= i64::try_from(content.len()).unwrap();
        }
        let flags = if is_end { frame::END_STREAM } else { 0 };
        out.extend_from_slice(&Header::new(Kind::Data, flags, id, content.len()).bytes());
        out.extend_from_slice(content);
    }

    /// Returns how many bytes the windows of a stream and of the connection (0) both permit.
    pub(crate) fn sendable(&self, id: u32) -> usize {
        let window = |id| *self.windows.get(&id).unwrap_or(&OWN_WINDOW);
        window(0).min(window(id)).try_into().unwrap()
    }

    /// Sends content within the windows, until all is sent or the response has ended; returns the number of bytes sent.
    #[track_caller]
    pub(crate) fn upload(&mut self, id: u32, content: &[u8], is_end: bool) -> usize {
        let mut at = 0;
        while at < content.len() || is_end {
            let part = &content[at..content.len().min(at + self.sendable(id).min(16_384))];
            if part.is_empty() && at < content.len() {
                if self.responses.get(&id).is_some_and(|response| response.is_whole || response.reset.is_some()) {
                    break;
                }
                assert!(self.receive(), "the connection has ended: {:?}", self.end);
                continue;
            }
            at += part.len();
            let is_last = is_end && at == content.len();
            self.data(id, part, is_last);
            if is_last {
                break;
            }
        }
        at
    }

    /// Receives a frame; returns false at the end of the connection.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> bool {
        loop {
            if let Some(header) = Header::parse(&self.unread)
                && let Some(payload) = self.unread.get(HEADER_BYTES..HEADER_BYTES + header.length)
            {
                let payload = payload.to_vec();
                self.unread.drain(..HEADER_BYTES + header.length);
                self.take(header, &payload);
                return true;
            }
            let mut buffer = [0; 8 << 10];
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return false,
                Err(error) => panic!("nothing comes: {error}; so far {:?}, {:?}", self.responses.keys(), self.end),
            }
        }
    }

    fn take(&mut self, header: Header, payload: &[u8]) {
        let response = self.responses.entry(header.stream).or_default();
        match Frame::parse(header, payload).unwrap() {
            Frame::Headers { block, is_end, is_whole: true } => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                self.blocks.extend(block.first());
                let fields = &mut response.fields;
                self.decoder
                    .decode(block, &mut Vec::new(), |name, value| fields.push((text(name), text(value))))
                    .unwrap();
                response.is_whole = is_end;
                if response.status().starts_with('1') {
                    let status = response.status().to_owned();
                    response.interim.push(status);
                    response.fields.clear();
                }
            }
            Frame::Data { content, is_end } => {
                assert!(!response.is_whole && response.reset.is_none(), "content behind the end");
                response.body.extend_from_slice(content);
                response.is_whole = is_end;
                self.order.push(header.stream);
            }
            Frame::RstStream(code) => response.reset = Some(code),
            Frame::GoAway(last, code) => self.end = Some((last, code)),
            Frame::PingAck(bytes) => {
                assert_eq!(&bytes, b"question");
                self.pongs += 1;
            }
            Frame::Ping(bytes) if self.answers => self.write(|out| frame::write_ping_ack(bytes, out)),
            Frame::Ping(bytes) => self.pings.push(bytes),
            Frame::WindowUpdate(increment) => {
                *self.windows.entry(header.stream).or_insert(OWN_WINDOW) += i64::from(increment);
            }
            Frame::Settings(_) | Frame::SettingsAck => {}
            other => panic!("{other:?}"),
        }
    }

    /// Returns the response of a stream, after it is complete or the stream was reset.
    #[track_caller]
    pub(crate) fn response(&mut self, id: u32) -> Response {
        loop {
            if let Some(response) = self.responses.get(&id)
                && (response.is_whole || response.reset.is_some())
            {
                return response.clone();
            }
            assert!(self.receive(), "the connection ends before stream {id} does: {:?}", self.end);
        }
    }

    /// Waits until the server has handled all earlier frames. It may answer a PING before it sends content for which
    /// the frames before the PING made room, so two are sent.
    #[track_caller]
    pub(crate) fn ping(&mut self) {
        for count in [self.pongs, self.pongs + 1] {
            self.write(|out| {
                out.extend_from_slice(&Header::new(Kind::Ping, 0, 0, 8).bytes());
                out.extend_from_slice(b"question");
            });
            while self.pongs == count {
                assert!(self.receive(), "the connection has ended: {:?}", self.end);
            }
        }
    }

    /// Returns the code with which the connection ends.
    #[track_caller]
    pub(crate) fn end(&mut self) -> Option<Code> {
        while self.receive() {}
        self.end.map(|(_, code)| code)
    }
}

/// Returns a server of each kind.
pub(crate) fn sites(files: &[(&str, &[u8])], change: impl Fn(&mut Config)) -> Vec<Site> {
    let one = |kind| {
        Site::new(files, |config| {
            config.accepting = kind;
            change(config);
        })
    };
    kinds().into_iter().map(one).collect()
}

/// Names and values.
type Fields<'a> = &'a [(&'a str, &'a str)];

/// Writes what a flooding client sends repeatedly.
type Flood<'a> = &'a dyn Fn(&mut H2<TcpStream>, &mut Vec<u8>, u32);

/// Returns the same response over HTTP/1.1.
fn by_http1(site: &Site, method: &str, path: &str, fields: Fields<'_>) -> Got {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let fields = fields.concat();
    let mut client = site.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes());
    client.answer_of(method != "HEAD").unwrap()
}

const RULES: &str = "
    [[rule]]
    path = '/'
    set-headers = { X-Own = 'value' }
    compress = true
    [[rule]]
    path = '/old/'
    redirect = '/new/{rest}'
    [[rule]]
    path = '/secret/'
    deny = '127.0.0.1'
    error-pages = { 403 = '/page.html' }
    [[rule]]
    path = '/api/'
    cors = { origins = ['https://app.example'] }
";

#[test]
fn answers_are_those_of_http1() {
    let large = vec![b'x'; 300_000];
    let files: [(&str, &[u8]); 7] = [
        ("small.txt", b"small"),
        ("page.html", &[b'p'; 3000]),
        ("large.bin", &large),
        ("empty", b""),
        ("folder/a", b"a"),
        ("secret/a", b"a"),
        ("api/a", b"a"),
    ];
    let cases: [(&str, &str, Fields<'_>); 21] = [
        ("GET", "/small.txt", &[]),
        ("GET", "/small.txt?query", &[("range", "bytes=1-2")]),
        ("GET", "/small.txt", &[("range", "bytes=9-")]),
        ("GET", "/large.bin", &[]),
        ("GET", "/large.bin", &[("range", "bytes=100000-299999")]),
        ("HEAD", "/large.bin", &[]),
        ("GET", "/page.html", &[("accept-encoding", "gzip")]),
        ("GET", "/page.html", &[]),
        ("GET", "/empty", &[]),
        ("GET", "/folder", &[]),
        ("GET", "/folder/", &[("accept", "application/json")]),
        ("GET", "/missing", &[]),
        ("HEAD", "/missing", &[]),
        ("GET", "/%", &[]),
        ("GET", "/../a", &[]),
        ("GET", "/old/a?b", &[]),
        ("GET", "/secret/a", &[]),
        ("OPTIONS", "/api/a", &[("origin", "https://app.example"), ("access-control-request-method", "GET")]),
        ("OPTIONS", "*", &[]),
        ("DELETE", "/small.txt", &[]),
        ("BREW", "/small.txt", &[]),
    ];
    for site in sites(&files, |config| set_rules(config, RULES)) {
        // Longer than a step of the file system's clock. Until then, a file may still change, and is not sent
        // compressed.
        std::thread::sleep(Duration::from_millis(50));
        let mut client = H2::to(&site);
        for (number, (method, path, fields)) in (1..).step_by(2).zip(cases) {
            client.ask(number, method, path, fields, true);
            let response = client.response(number);
            let expected = by_http1(&site, method, path, fields);
            assert_eq!(response.status(), expected.status.to_string(), "{method} {path}");
            assert!(response.body == expected.body, "{method} {path}: {} bytes", response.body.len());
            let own = |(name, _): &(String, String)| !name.starts_with(':') && name != "date";
            let own: Vec<_> = response.fields.into_iter().filter(own).collect();
            let lines = expected.head.lines().skip(1).filter_map(|line| line.split_once(": "));
            let lines = lines.filter(|(name, _)| *name != "Date");
            let lines: Vec<_> = lines.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
            assert_eq!(own, lines, "{method} {path}");
        }
        client.ask(101, "GET", "/small.txt", &[("if-none-match", "*")], true);
        assert_eq!(client.response(101).status(), "304");
        client.ask(103, "GET", "/small.txt", &[("range", "bytes=0-0,3-4")], true);
        let several = client.response(103);
        assert_eq!(several.status(), "206");
        assert_eq!(several.field("content-length").unwrap(), several.body.len().to_string());
        let totals = site.end();
        assert_eq!((totals.http2_connections, totals.http2_failed), (1, 0));
    }
}

#[test]
fn requests_at_the_same_time_are_answered_in_turns() {
    let large = vec![b'x'; 200_000];
    for site in sites(&[("large", &large), ("small", b"small")], |_| {}) {
        let mut client = H2::to(&site);
        let mut out = Vec::new();
        let request = |path| [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", "x")];
        for id in [1, 3, 5] {
            client.headers(id, &request("/large"), true, &mut out);
        }
        client.headers(7, &request("/small"), true, &mut out);
        client.send(&out);
        for id in [1, 3, 5] {
            assert!(client.response(id).body == large);
        }
        assert_eq!(client.response(7).body, b"small");
        let small = client.order.iter().position(|&id| id == 7).unwrap();
        assert!(small <= 4, "it waited for its turn only: {:?}", client.order);
        let first = &client.order[..12];
        assert!([1, 3, 5].iter().all(|id| first.iter().filter(|own| *own == id).count() >= 3), "{:?}", client.order);
    }
}

#[test]
fn windows_are_kept() {
    let large: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8).collect();
    for site in sites(&[("large", &large), ("small", b"small")], |_| {}) {
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], 0);
        client.get(1, "/large");
        client.get(3, "/small");
        client.ping();
        assert_eq!(client.responses[&1].status(), "200");
        assert!(client.order.is_empty(), "no window is open");
        client.write(|out| frame::write_window_update(1, 10, out));
        client.ping();
        assert_eq!((client.responses[&1].body.len(), client.responses[&3].body.len()), (10, 0));
        // The windows of both streams grow, and then that of one of them.
        client.write(|out| frame::write_settings(&[(Setting::InitialWindowSize, 100)], out));
        client.write(|out| frame::write_window_update(1, 150_000, out));
        assert_eq!(client.response(3).body, b"small");
        client.ping();
        let first = client.responses[&1].body.len();
        assert_eq!(first, 65_535 - 5, "the window of the connection is used up");
        client.write(|out| frame::write_window_update(0, 1, out));
        client.ping();
        assert_eq!(client.responses[&1].body.len(), first + 1);
        client.write(|out| frame::write_settings(&[(Setting::InitialWindowSize, 0)], out));
        client.write(|out| frame::write_window_update(0, 150_000, out));
        assert!(client.response(1).body == large);
    }
}

/// A client that shrinks its table gets a confirmation in the next header block. Without it, a strict decoder once
/// ended the connection.
#[test]
fn a_smaller_table_is_confirmed_once() {
    const OK: u8 = 0x88;
    for site in sites(&[("a", b"a")], |_| {}) {
        let mut client =
            H2::with(&site, &[(Setting::HeaderTableSize, 0), (Setting::InitialWindowSize, WINDOW)], WINDOW);
        for id in [1, 3] {
            client.get(id, "/a");
            client.response(id);
        }
        assert_eq!(client.blocks, [0x20, OK]);
        let mut client = H2::to(&site);
        // The smallest size counts, even if another one follows before the next block.
        let changes: [&[(Setting, u32)]; 5] = [
            &[],
            &[(Setting::HeaderTableSize, 65_536)],
            &[(Setting::HeaderTableSize, 100), (Setting::HeaderTableSize, 4096)],
            &[],
            &[(Setting::HeaderTableSize, 50)],
        ];
        for (id, settings) in (1..).step_by(2).zip(changes) {
            client.write(|out| frame::write_settings(settings, out));
            client.get(id, "/a");
            client.response(id);
        }
        assert_eq!(client.blocks, [OK, OK, 0x20, OK, OK]);
    }
}

#[test]
fn content_of_requests_is_discarded() {
    for site in sites(&[("small", b"small")], |_| {}) {
        let mut client = H2::to(&site);
        client.ask(1, "GET", "/small", &[("content-length", "40000")], false);
        client.data(1, &[b'x'; 16_000], false);
        client.data(1, &[b'x'; 16_000], false);
        client.ping();
        assert!(!client.responses.contains_key(&1), "the request has not ended");
        client.data(1, &[b'x'; 8000], true);
        assert_eq!(client.response(1).body, b"small");
        // A trailer ends the request too.
        client.ask(3, "GET", "/small", &[], false);
        client.data(3, b"x", false);
        let mut out = Vec::new();
        client.headers(3, &[("x", "y")], true, &mut out);
        client.send(&out);
        assert_eq!(client.response(3).body, b"small");
        // Content that is too long is refused, and at once if its length is known.
        client.ask(5, "POST", "/small", &[("content-length", "65537")], false);
        assert_eq!(client.response(5).status(), "413");
        client.ask(7, "POST", "/small", &[], false);
        for _ in 0..5 {
            client.data(7, &[b'x'; 14_000], false);
        }
        assert_eq!(client.response(7).status(), "413");
        client.ask(9, "POST", "/small", &[("expect", "100-continue"), ("content-length", "5")], false);
        assert_eq!(client.response(9).status(), "405", "the client need not send it");
        // As much as the window of the connection, many times.
        for id in (11..).step_by(2).take(20) {
            client.ask(id, "GET", "/small", &[], false);
            client.data(id, &[b'x'; 16_000], true);
            assert_eq!(client.response(id).body, b"small");
        }
        for (id, promised, sent, is_end) in [(101, "5", 4, true), (103, "5", 6, false), (105, "0", 1, false)] {
            client.ask(id, "GET", "/small", &[("content-length", promised)], false);
            client.data(id, &vec![b'x'; sent], is_end);
            assert_eq!(client.response(id).reset, Some(Code::PROTOCOL_ERROR), "{promised} {sent}");
        }
        client.ping();
    }
}

#[test]
fn limits_of_heads_hold() {
    let many: Vec<(String, String)> = (0..200).map(|number| (format!("x-{number}"), "y".to_owned())).collect();
    for site in sites(&[("small", b"small")], |_| {}) {
        let mut client = H2::to(&site);
        let fields: Vec<_> = many.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        client.ask(1, "GET", "/small", &fields, true);
        client.ask(3, "GET", &format!("/{}", "x".repeat(9000)), &[], true);
        // A block of 20 KiB, in two frames.
        let long = "\u{1f}".repeat(20 << 10).replace('\u{1f}', "y");
        let third: Vec<(&str, &str)> = vec![("x", &long)];
        client.ask(5, "GET", "/small", &third, true);
        // A field that is added to the table, and then referenced repeatedly: 4 MB in a block of 1 KiB.
        let value = "z".repeat(3900);
        let bomb: Vec<(&str, &str)> = vec![("bomb", &value); 1000];
        client.ask(7, "GET", "/small", &bomb, true);
        client.get(9, "/small");
        let statuses: Vec<String> = [1, 3, 5, 7, 9].iter().map(|&id| client.response(id).status().to_owned()).collect();
        assert_eq!(statuses, ["431", "414", "200", "431", "200"]);
        let totals = site.end();
        assert_eq!((totals.http2_failed, totals.client_errors), (0, 3));
    }
}

/// A client resets the stream of a response to HEAD that has content, and so never sees its status.
#[test]
fn a_refused_head_has_no_content() {
    let many: Vec<(String, String)> = (0..200).map(|number| (format!("x-{number}"), "y".to_owned())).collect();
    let many: Vec<_> = many.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    let long = format!("/{}", "x".repeat(9000));
    for site in sites(&[("small", b"small")], |_| {}) {
        let mut client = H2::to(&site);
        client.ask(1, "HEAD", &long, &[], true);
        client.ask(3, "HEAD", "/small", &many, true);
        client.ask(5, "HEAD", "/small", &[("content-length", "100000")], false);
        for (id, status) in [(1, "414"), (3, "431"), (5, "413")] {
            let got = client.response(id);
            assert_eq!((got.status(), got.body.len()), (status, 0));
        }
    }
}

/// A header block in an endless series of frames, and one that is too long.
#[test]
fn endless_header_blocks_end_the_connection() {
    for site in sites(&[], |_| {}) {
        for part in [0, 1000] {
            let mut client = H2::to(&site);
            client.send(&Header::new(Kind::Headers, 0, 1, 0).bytes());
            let frame = [&Header::new(Kind::Continuation, 0, 1, part).bytes()[..], &vec![0x82; part]].concat();
            for _ in 0..2000 {
                client.send(&frame);
            }
            assert_eq!(client.end(), Some(Code::ENHANCE_YOUR_CALM), "{part}");
        }
        assert_eq!(site.end().http2_failed, 2);
    }
}

#[test]
fn floods_end_the_connection() {
    let large = vec![b'x'; 100_000];
    for site in sites(&[("large", &large)], |_| {}) {
        let flood = |name: &str, write: Flood<'_>| {
            // Nothing is sent to the client, so that streams stay open.
            let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], 0);
            let mut out = Vec::new();
            for number in 0..1500 {
                write(&mut client, &mut out, 2 * number + 1);
                if out.len() > 10_000 {
                    client.send(&out);
                    out.clear();
                }
            }
            client.send(&out);
            assert_eq!(client.end(), Some(Code::ENHANCE_YOUR_CALM), "{name}");
        };
        let header = |kind, stream, length| Header::new(kind, 0, stream, length).bytes();
        let request = [(":method", "GET"), (":scheme", "http"), (":path", "/large"), (":authority", "x")];
        flood("reset", &|client, out, id| {
            client.headers(id, &request, true, out);
            frame::write_rst_stream(id, Code::CANCEL, out);
        });
        flood("malformed", &|client, out, id| client.headers(id, &[("x", "y")], true, out));
        flood("PING", &|_, out, _| out.extend([&header(Kind::Ping, 0, 8)[..], b"question"].concat()));
        flood("SETTINGS", &|_, out, _| frame::write_settings(&[], out));
        flood("unknown", &|_, out, _| out.extend(Header { length: 0, kind: 99, flags: 0, stream: 0 }.bytes()));
        flood("empty", &|client, out, id| {
            if id == 1 {
                client.headers(1, &[&request[..], &[("content-length", "9")]].concat(), false, out);
            }
            out.extend(header(Kind::Data, 1, 0));
        });
        flood("window", &|client, out, id| {
            if id == 1 {
                client.headers(1, &request, true, out);
            }
            frame::write_window_update(0, 1, out);
        });
        assert_eq!(site.end().http2_failed, 7);
    }
}

#[test]
fn further_streams_are_refused() {
    let large = vec![b'x'; 100_000];
    for site in sites(&[("large", &large), ("small", b"small")], |_| {}) {
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], 0);
        for number in 0..129 {
            client.get(2 * number + 1, "/large");
        }
        assert_eq!(client.response(257).reset, Some(Code::REFUSED_STREAM));
        assert!((0..128).all(|number| client.responses[&(2 * number + 1)].reset.is_none()));
        client.write(|out| frame::write_rst_stream(1, Code::CANCEL, out));
        client.get(259, "/small");
        client.write(|out| frame::write_window_update(259, 5, out));
        assert_eq!(client.response(259).body, b"small");
    }
}

/// Each case is bytes after the first frames, with the code that ends the connection.
#[test]
fn errors_of_the_protocol_end_the_connection() {
    const GET: &[u8] = b"\x82\x86\x84\x01\x01x";
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        [&Header { length: payload.len(), kind, flags, stream }.bytes()[..], payload].concat()
    };
    let cases = [
        ("content on a stream that was not begun", frame(0, 0, 1, b"x"), Code::PROTOCOL_ERROR),
        ("a reset of it", frame(3, 0, 1, &[0; 4]), Code::PROTOCOL_ERROR),
        ("a window of it", frame(8, 0, 1, &[0, 0, 0, 1]), Code::PROTOCOL_ERROR),
        ("an even number", frame(1, 5, 2, GET), Code::PROTOCOL_ERROR),
        ("a number again", [frame(1, 5, 3, GET), frame(1, 5, 3, GET)].concat(), Code::STREAM_CLOSED),
        ("a smaller number", [frame(1, 5, 3, GET), frame(1, 5, 1, GET)].concat(), Code::PROTOCOL_ERROR),
        ("an interrupted block", [frame(1, 1, 1, GET), frame(6, 0, 0, &[0; 8])].concat(), Code::PROTOCOL_ERROR),
        ("a block of another stream", [frame(1, 1, 1, GET), frame(9, 4, 3, GET)].concat(), Code::PROTOCOL_ERROR),
        ("the middle of a block", frame(9, 4, 1, GET), Code::PROTOCOL_ERROR),
        ("a short priority in a block", [frame(1, 1, 1, GET), frame(2, 0, 1, &[0; 4])].concat(), Code::PROTOCOL_ERROR),
        ("a window of 0 in a block", [frame(1, 1, 1, GET), frame(8, 0, 1, &[0; 4])].concat(), Code::PROTOCOL_ERROR),
        ("a window of 0 of what was not begun", frame(8, 0, 5, &[0; 4]), Code::PROTOCOL_ERROR),
        ("a short priority of what was not begun", frame(2, 0, 5, &[0; 4]), Code::FRAME_SIZE_ERROR),
        ("a priority of it that depends on itself", frame(2, 0, 5, &[0, 0, 0, 5, 0]), Code::PROTOCOL_ERROR),
        ("an invalid block", frame(1, 5, 1, b"\xff\xff\xff"), Code::COMPRESSION_ERROR),
        (
            "a long frame",
            Header { length: 16_385, kind: 0, flags: 0, stream: 1 }.bytes().to_vec(),
            Code::FRAME_SIZE_ERROR,
        ),
        ("a push", frame(5, 4, 1, &[0; 4]), Code::PROTOCOL_ERROR),
        ("a window without end", frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), Code::FLOW_CONTROL_ERROR),
        ("a setting", frame(4, 0, 0, &[0, 2, 0, 0, 0, 2]), Code::PROTOCOL_ERROR),
    ];
    for site in sites(&[("index.html", b"x")], |_| {}) {
        for (name, bytes, code) in &cases {
            let mut client = H2::with(&site, &[], 0);
            client.send(bytes);
            assert_eq!(client.end(), Some(*code), "{name}");
        }
        // An acknowledgement of SETTINGS does not count as SETTINGS.
        let mut first = TcpStream::connect(site.address).unwrap();
        first.write_all(&[&PREFACE[..], &frame(4, frame::ACK, 0, b"")[..]].concat()).unwrap();
        let mut got = Vec::new();
        first.read_to_end(&mut got).unwrap();
        // A GOAWAY frame for no stream, with its code.
        let goaway = [&[7, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &(Code::PROTOCOL_ERROR.0).to_be_bytes()].concat();
        assert!(got.windows(goaway.len()).any(|bytes| bytes == goaway), "{got:?}");
        let mut client = H2::with(&site, &[], 0);
        client.get(1, "/");
        client.data(1, b"x", false);
        assert_eq!(client.response(1).status(), "200");
        client.ping();
        assert_eq!(client.responses[&1].reset, Some(Code::STREAM_CLOSED), "content behind the request");
        // The window of the connection is 65,535 bytes, regardless of the state of the streams.
        client.get(3, "/");
        assert_eq!(client.response(3).status(), "200");
        assert_eq!(site.end().http2_failed, cases.len() as u64 + 1);
    }
}

#[test]
fn the_preface_decides() {
    for site in sites(&[("index.html", b"index")], |_| {}) {
        // The preface arrives in pieces.
        let mut client = site.connect();
        for byte in &PREFACE[..20] {
            client.send(&[*byte]);
        }
        let mut client = H2 { stream: client.stream, ..H2::with(&site, &[], 0) };
        client.send(&PREFACE[20..]);
        client.write(|out| frame::write_settings(&[], out));
        client.get(1, "/");
        assert_eq!(client.response(1).body, b"index");
        // The preface is refused within an HTTP/1.1 connection: a proxy in front could have sent it for another client.
        let mut client = site.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.answer().unwrap().status, 200);
        client.send(PREFACE);
        assert_eq!((client.answer().unwrap().status, client.is_ended()), (400, true));
        drop(client);
        let mut client = site.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPRI * HT");
        assert_eq!(client.answer().unwrap().status, 200);
        client.send(&PREFACE[8..]);
        assert_eq!((client.answer().unwrap().status, client.is_ended()), (400, true));
        drop(client);
        // The rest of the preface is missing after its first line; then SETTINGS is missing.
        let mut client = site.connect();
        client.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
        let mut buffer = Vec::new();
        client.stream.read_to_end(&mut buffer).unwrap();
        assert!(buffer.ends_with(&Code::PROTOCOL_ERROR.0.to_be_bytes()), "{buffer:?}");
        drop(client);
        let mut client = site.connect();
        client.send(&[&PREFACE[..], &Header::new(Kind::Ping, 0, 0, 8).bytes(), b"question"].concat());
        client.stream.read_to_end(&mut buffer).unwrap();
        assert!(buffer.ends_with(&Code::PROTOCOL_ERROR.0.to_be_bytes()), "{buffer:?}");
        drop(client);
        assert_eq!(site.end().http2_failed, 2);
    }
    for site in sites(&[], |config| config.http2 = false) {
        let mut client = site.connect();
        client.send(PREFACE);
        assert_eq!((client.answer().unwrap().status, client.is_ended()), (505, true));
        drop(client);
        assert_eq!(site.end().http2_connections, 0);
    }
}

/// Guards against sending a file for a path whose requests belong to an upstream server.
#[test]
fn files_are_not_sent_for_an_upstream_server() {
    let rules = "[[rule]]\npath = '/api/'\nproxy = 'unix:/nowhere/app.sock'\n";
    for site in sites(&[("api/file", b"secret"), ("file", b"file")], |config| set_rules(config, rules)) {
        let mut client = H2::to(&site);
        client.get(1, "/api/file");
        client.get(3, "/file");
        client.ask(5, "POST", "/api/file", &[("content-length", "100000")], false);
        client.get(7, "/%61pi/./file");
        for id in [1, 5, 7] {
            let response = client.response(id);
            assert_eq!((response.status(), &response.body[..]), ("502", &b"502 Bad Gateway\n"[..]), "{id}");
        }
        assert_eq!(client.response(3).body, b"file");
        drop(client);
        assert_eq!(site.end().upstream_errors, 3);
    }
}

/// Such frames were once errors of the protocol, and a refused upload ended its connection.
#[test]
fn what_was_on_its_way_to_a_stream_that_was_reset_is_ignored() {
    for site in sites(&[("small", b"small")], |_| {}) {
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/small", &[("content-length", "100000")], false);
        let refused = client.response(1);
        assert_eq!((refused.status(), refused.is_whole), ("413", true));
        client.ping();
        assert_eq!(client.responses[&1].reset, Some(Code::NO_ERROR));
        // The client does not know that yet. All content counts: the window of the connection is opened again.
        for _ in 0..6 {
            client.data(1, &[b'x'; 15_000], false);
        }
        client.ping();
        assert_eq!((client.responses[&1].reset, client.end), (Some(Code::NO_ERROR), None));
        assert!(client.windows[&0] >= 32 << 10, "{:?}", client.windows);
        // The same for a trailer, whose fields still change the table of both sides.
        let mut out = Vec::new();
        client.headers(1, &[("x-trailer", "value")], true, &mut out);
        client.send(&out);
        client.ask(3, "GET", "/small", &[("x-trailer", "value")], true);
        assert_eq!(client.response(3).body, b"small");
        // The trailer has ended the stream.
        client.data(1, b"x", false);
        client.ping();
        assert_eq!(client.responses[&1].reset, Some(Code::STREAM_CLOSED));
        // A malformed request is reset at once.
        client.ask(5, "GET", "/small", &[("connection", "close")], false);
        assert_eq!(client.response(5).reset, Some(Code::PROTOCOL_ERROR));
        client.responses.remove(&5);
        client.data(5, b"x", false);
        client.data(5, b"x", true);
        client.ping();
        assert!(!client.responses.contains_key(&5), "it was reset again");
        drop(client);
        assert_eq!(site.end().http2_failed, 0);
    }
}

/// curl discards a response that it receives together with the reset of its stream.
#[test]
fn a_stream_is_reset_when_its_client_has_the_response() {
    for site in sites(&[("small", b"small")], |_| {}) {
        let mut client = H2::to(&site);
        client.answers = false;
        let is_reset = |client: &H2<TcpStream>, id: u32| client.responses[&id].reset == Some(Code::NO_ERROR);
        client.ask(1, "POST", "/small", &[("content-length", "100000")], false);
        assert_eq!(client.response(1).status(), "413");
        // The client may send what its window allows, and the window is not opened again.
        (0..4).for_each(|_| client.data(1, &[b'x'; 16_000], false));
        client.ping();
        assert!(!is_reset(&client, 1) && client.windows[&1] < 2000 && client.windows[&0] > 2000);
        client.write(|out| frame::write_ping_ack([0; 8], out));
        client.ping();
        assert!(!is_reset(&client, 1), "it has answered something else");
        let answer = client.pings.pop().unwrap();
        (0..2).for_each(|_| client.write(|out| frame::write_ping_ack(answer, out)));
        client.ping();
        assert!(is_reset(&client, 1));
        client.responses.clear();
        client.ping();
        assert!(!client.responses.contains_key(&1), "it was reset again");
        // A stream that the client has ended is not reset.
        client.ask(3, "POST", "/small", &[("content-length", "100000")], false);
        client.response(3);
        client.data(3, b"x", true);
        client.ping();
        let answer = client.pings.pop().unwrap();
        client.write(|out| frame::write_ping_ack(answer, out));
        client.ping();
        assert!(!is_reset(&client, 3));
        // If there are too many such streams, the oldest is reset without waiting.
        for number in 0..129 {
            client.ask(2 * number + 5, "HEAD", "/small", &[("content-length", "100000")], false);
            assert_eq!(client.response(2 * number + 5).status(), "413");
        }
        client.ping();
        let reset: Vec<u32> = (0..129).map(|number| 2 * number + 5).filter(|&id| is_reset(&client, id)).collect();
        assert_eq!(reset, [5]);
        assert_eq!((client.end, site.end().http2_failed), (None, 0));
    }
}

/// A client that never answers PINGs may not send without a limit either.
#[test]
fn content_behind_a_response_is_bounded() {
    for site in sites(&[("small", b"small")], |_| {}) {
        let mut client = H2::to(&site);
        client.answers = false;
        client.ask(1, "POST", "/small", &[("content-length", "100000")], false);
        client.response(1);
        let frame = [&Header::new(Kind::Data, 0, 1, 1).bytes()[..], b"x"].concat();
        // The budget is 1,000 frames, and is refilled at most once while these are read.
        client.send(&frame.repeat(2500));
        assert_eq!(client.end(), Some(Code::ENHANCE_YOUR_CALM));
        drop(client);
        site.end();
    }
}

/// Runs curl with HTTP/2 and these arguments; returns the status and the exit code, or `None` if there is no curl.
fn by_curl(url: &str, arguments: &[&str]) -> Option<String> {
    let mut command = std::process::Command::new("curl");
    command.args(["--silent", "--max-time", "60", "--insecure", "--noproxy", "*"]);
    command.args(["--output", "/dev/null", "--write-out", "%{http_code}"]).args(arguments).arg(url);
    let done = command.output().ok()?;
    Some(format!("{} {}", String::from_utf8_lossy(&done.stdout), done.status.code().unwrap_or(-1)))
}

/// curl 7.88 once lost the response to every upload that was refused before its end.
#[test]
fn curl_gets_the_response_to_an_upload_that_is_refused() {
    let version = std::process::Command::new("curl").arg("--version").output();
    if !version.is_ok_and(|version| String::from_utf8_lossy(&version.stdout).contains("HTTP2")) {
        return eprintln!("skipped: there is no curl with HTTP/2");
    }
    let rules = format!("{RULES}[[rule]]\npath = '/app/'\nproxy = 'unix:/nowhere/app.sock'\n");
    let large = vec![b'x'; 300_000];
    for is_tls in [false, true] {
        let (scheme, version) = if is_tls { ("https", "--http2") } else { ("http", "--http2-prior-knowledge") };
        for site in sites(&[("small", b"small"), ("large", &large)], |config| {
            set_rules(config, &rules);
            if is_tls {
                crate::tls::over_tls(config);
            }
        }) {
            let upload = format!("@{}", site.path().join("large").display());
            let waits = [version, "--header", "Expect: 100-continue"];
            for _ in 0..2 {
                for (path, fields, data, expected) in [
                    ("/app/a", &waits[..1], "a=b", "502 0"),
                    ("/app/a", &waits[..1], &upload, "502 0"),
                    ("/small", &waits[..1], &upload, "413 0"),
                    ("/old/a", &waits, "abc", "302 0"),
                    ("/small", &waits, &upload, "413 0"),
                ] {
                    let url = format!("{scheme}://{}{path}", site.address);
                    let got = by_curl(&url, &[fields, &["--data-binary", data]].concat());
                    assert_eq!(got.as_deref(), Some(expected), "{url} {fields:?} {data}");
                }
            }
        }
    }
}

#[test]
fn requests_are_logged() {
    for site in sites(&[("a", b"content")], |config| {
        let target = LogTarget::File(config.root.join("log"));
        config.log = Some(AccessLog { target, format: LogFormat::Common });
    }) {
        let mut client = H2::to(&site);
        client.get(1, "/a?b");
        client.response(1);
        let text = || std::fs::read_to_string(site.path().join("log")).unwrap_or_default();
        until("no line", || text().contains("\"GET /a?b HTTP/2.0\" 200 7\n"));
    }
}

#[test]
fn the_end_of_the_server_lets_streams_end() {
    let large = vec![b'x'; 400_000];
    for site in sites(&[("large", &large)], |_| {}) {
        let mut idle = H2::to(&site);
        idle.ping();
        let mut busy = H2::with(&site, &[(Setting::InitialWindowSize, 100_000)], WINDOW);
        busy.get(1, "/large");
        while busy.responses.get(&1).is_none_or(|response| response.body.len() < 100_000) {
            assert!(busy.receive());
        }
        site.server().drain();
        assert_eq!(idle.end(), Some(Code::NO_ERROR));
        while busy.end.is_none() {
            assert!(busy.receive());
        }
        assert_eq!(busy.end, Some((1, Code::NO_ERROR)));
        busy.get(3, "/large");
        assert_eq!(busy.response(3).reset, Some(Code::REFUSED_STREAM));
        busy.write(|out| frame::write_window_update(1, WINDOW, out));
        assert!(busy.response(1).body == large);
        assert_eq!(busy.end(), Some(Code::NO_ERROR));
        site.end();
    }
}

/// After an error, a second GOAWAY once named a stream that had been refused after the first (RFC 9113 section 6.8).
#[test]
fn the_last_stream_of_the_end_does_not_grow() {
    let large = vec![b'x'; 100_000];
    for site in sites(&[("large", &large)], |_| {}) {
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], 0);
        client.get(1, "/large");
        client.ping();
        site.server().drain();
        while client.end.is_none() {
            assert!(client.receive());
        }
        assert_eq!(client.end, Some((1, Code::NO_ERROR)));
        client.get(3, "/large");
        assert_eq!(client.response(3).reset, Some(Code::REFUSED_STREAM));
        client.send(&Header { length: 4, kind: 5, flags: 4, stream: 1 }.bytes());
        client.send(&[0; 4]);
        assert_eq!(client.end(), Some(Code::PROTOCOL_ERROR));
        assert_eq!(client.end, Some((1, Code::PROTOCOL_ERROR)));
    }
}

/// A client opens windows as it reads. When the server stopped, such a frame once arrived at a closed connection, and
/// what the client had not read yet was discarded.
#[test]
fn the_end_of_the_server_loses_nothing_that_was_sent() {
    let large = vec![b'x'; 800_000];
    // A client that reads slowly is not closed.
    for site in sites(&[("large", &large)], |config| config.clock = Some(ManualClock::default())) {
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 100_000)], WINDOW);
        client.get(1, "/large");
        while client.responses.get(&1).is_none_or(|response| response.body.len() < 100_000) {
            assert!(client.receive());
        }
        site.server().drain();
        while client.end.is_none() {
            assert!(client.receive());
        }
        client.write(|out| frame::write_window_update(1, WINDOW, out));
        until("not all is sent", || site.server().totals().bytes_sent >= 800_000);
        // If the connection is closed, this has happened by now.
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..2 {
            client.write(|out| frame::write_window_update(0, 1, out));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(client.response(1).body == large);
        assert_eq!(client.end(), Some(Code::NO_ERROR));
        drop(client);
        site.end();
    }
}

/// Returns sites whose clock the test advances.
fn timed(files: &[(&str, &[u8])]) -> Vec<(Site, ManualClock)> {
    let one = |kind| {
        let clock = ManualClock::default();
        let site = Site::new(files, |config| (config.accepting, config.clock) = (kind, Some(clock.clone())));
        (site, clock)
    };
    kinds().into_iter().map(one).collect()
}

/// Requests `/a` on two connections, one after the other. The only worker has then read everything sent to it before.
/// Returns the number of bytes of the responses.
pub(crate) fn answer_others(site: &Site) -> u64 {
    let one = || {
        let got = site.get("/a", "");
        assert_eq!(got.status, 200);
        (got.head.len() + got.body.len()) as u64
    };
    one() + one()
}

/// Requests a file that no socket's buffer can hold completely, and reads nothing until the server cannot send more.
pub(crate) fn fill_socket(site: &Site, client: &mut H2<TcpStream>, id: u32, path: &str) {
    let sent = || site.server().totals().bytes_sent;
    let before = sent();
    client.get(id, path);
    until("nothing is sent", || sent() > before + (256 << 10));
    until("there is always room", || {
        let before = sent();
        // A server that has given other connections their turn may wait for more room than there is. It reads
        // meanwhile.
        client.write(|out| frame::write_window_update(0, 1, out));
        let to_others = answer_others(site);
        sent() == before + to_others
    });
}

/// Only the test advances the server's clock, so no delay of the machine can exceed a deadline.
#[test]
fn idle_connections_end_and_pings_do_not_keep_them() {
    for (site, clock) in timed(&[("a", b"a")]) {
        let mut client = H2::to(&site);
        client.get(1, "/a");
        client.response(1);
        clock.advance(Duration::from_secs(40));
        client.get(3, "/a");
        client.response(3);
        // A ring replaces its receive after a second, and the rest of the time begins then.
        clock.advance(Duration::from_secs(2));
        client.ping();
        client.ping();
        clock.advance(Duration::from_secs(38));
        client.ping();
        clock.advance(Duration::from_secs(22));
        assert_eq!(client.end(), Some(Code::NO_ERROR));
        // Otherwise the server would wait for the end of this connection.
        drop(client);
        assert_eq!(site.end().idle_closed, 1);
    }
}

/// Each first part once set the deadline of a frame, and each last part a new one of an idle connection. If another
/// first part followed at once, the connection never seemed idle.
#[test]
fn pings_in_two_parts_do_not_keep_an_idle_connection() {
    for overlaps in [false, true] {
        for (site, clock) in timed(&[("a", b"a")]) {
            let mut client = H2::to(&site);
            client.get(1, "/a");
            client.response(1);
            let first = Header::new(Kind::Ping, 0, 0, 8).bytes().to_vec();
            let next: &[u8] = if overlaps { &first } else { b"" };
            let last = [&b"question"[..], next].concat();
            for round in 0.. {
                if site.server().totals().idle_closed > 0 {
                    break;
                }
                assert!(round < 16, "it is kept for {} s", 5 * round);
                let is_first = round == 0 || (!overlaps && round % 2 == 0);
                client.send(if is_first { &first } else { &last });
                answer_others(&site);
                clock.advance(Duration::from_secs(5));
                answer_others(&site);
            }
            assert_eq!(client.end(), Some(Code::NO_ERROR), "{overlaps}");
            drop(client);
            let totals = site.end();
            assert_eq!((totals.idle_closed, totals.heads_late), (1, 0), "{overlaps}");
        }
    }
}

/// While the socket is full, nothing is read. An upload could once not continue, and was late when the client read
/// again.
#[test]
fn an_upload_behind_a_full_socket_is_not_late() {
    let large = vec![b'x'; 20 << 20];
    for (site, clock) in timed(&[("large", &large), ("a", b"a")]) {
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/a", &[("content-length", "5")], false);
        client.data(1, b"x", false);
        fill_socket(&site, &mut client, 3, "/large");
        // The timeout of the request passes, and that for the client to read more.
        clock.advance(Duration::from_secs(21));
        answer_others(&site);
        assert_eq!(site.server().totals().heads_late, 0);
        assert!(client.response(3).body == large);
        client.ping();
        clock.advance(Duration::from_secs(5));
        client.ping();
        client.data(1, b"xxxx", true);
        assert_eq!(client.response(1).status(), "405");
        drop(client);
        assert_eq!(site.end().heads_late, 0);
    }
}

#[test]
fn what_was_begun_has_to_end() {
    let frames: [(&str, Vec<u8>); 3] = [
        ("a frame", Header::new(Kind::Ping, 0, 0, 8).bytes().to_vec()),
        ("a header block", Header::new(Kind::Headers, 0, 1, 0).bytes().to_vec()),
        ("content", [&Header::new(Kind::Data, 0, 1, 9).bytes()[..], b"x"].concat()),
    ];
    for (name, bytes) in frames {
        for (site, clock) in timed(&[("index.html", b"a")]) {
            let mut client = H2::to(&site);
            client.ping();
            client.send(&bytes);
            until(name, || {
                clock.advance(Duration::from_secs(1));
                site.server().totals().heads_late == 1
            });
            assert_eq!(client.end(), Some(Code::NO_ERROR), "{name}");
            drop(client);
            assert_eq!(site.end().heads_late, 1, "{name}");
        }
    }
    // A client that sends nothing after the preface is not waited for either.
    for (site, clock) in timed(&[]) {
        let mut client = site.connect();
        client.send(PREFACE);
        until("HTTP/2 does not begin", || site.server().totals().http2_connections == 1);
        clock.advance(Duration::from_secs(11));
        let mut buffer = Vec::new();
        client.stream.read_to_end(&mut buffer).unwrap();
        drop(client);
        assert_eq!(site.end().heads_late, 1);
    }
}

/// Such a request once ended the whole connection, regardless of its other streams.
#[test]
fn a_request_that_does_not_end_is_late_by_itself() {
    let large = vec![b'x'; 400_000];
    for (site, clock) in timed(&[("large", &large), ("a", b"a")]) {
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 5000)], WINDOW);
        let late = || site.server().totals().heads_late;
        for (id, is_alone) in [(1, true), (5, false)] {
            let before = late();
            if !is_alone {
                client.get(3, "/large");
            }
            client.ask(id, "POST", "/a", &[("content-length", "5")], false);
            client.data(id, b"x", false);
            client.ping();
            until("it is not late", || {
                if !is_alone {
                    client.write(|out| frame::write_window_update(3, 5000, out));
                }
                client.ping();
                clock.advance(Duration::from_secs(1));
                late() > before
            });
            let got = client.response(id);
            assert_eq!((got.status(), &got.body[..]), ("408", &b"408 Request Timeout\n"[..]));
            client.ping();
            assert_eq!((client.responses[&id].reset, client.end), (Some(Code::NO_ERROR), None));
            // The rest may be in transit.
            client.data(id, b"xxxx", true);
        }
        client.write(|out| frame::write_window_update(3, WINDOW, out));
        assert!(client.response(3).body == large);
        client.get(7, "/a");
        assert_eq!((client.response(7).body, client.end), (b"a".to_vec(), None));
        drop(client);
        let totals = site.end();
        assert_eq!((totals.heads_late, totals.slow_closed, totals.http2_failed), (2, 0, 0));
    }
}

/// Such a request once waited for content until the connection was late.
#[test]
fn a_tunnel_is_refused_at_once() {
    for (site, _clock) in timed(&[("a", b"a")]) {
        let mut client = H2::to(&site);
        let mut out = Vec::new();
        client.headers(1, &[(":method", "CONNECT"), (":authority", "x:1")], false, &mut out);
        client.send(&out);
        assert_eq!(client.response(1).status(), "405");
        client.ping();
        assert_eq!((client.responses[&1].reset, client.end), (Some(Code::NO_ERROR), None));
    }
}

/// Guards against a deadline that begins with the previous frame: after a pause, a frame in two segments would be late.
#[test]
fn a_frame_has_its_time_from_its_own_first_byte_on() {
    for (site, clock) in timed(&[("index.html", b"a")]) {
        let mut client = H2::to(&site);
        client.ping();
        clock.advance(Duration::from_secs(30));
        client.send(&Header::new(Kind::Ping, 0, 0, 8).bytes());
        // The worker has read this after it has answered another client twice.
        let mut other = H2::to(&site);
        other.ping();
        clock.advance(Duration::from_secs(5));
        other.ping();
        assert_eq!(site.server().totals().heads_late, 0);
        client.send(b"question");
        client.ping();
        drop((client, other));
        assert_eq!(site.end().heads_late, 0);
    }
}

/// A client that opens no window, one that opens it a little at a time, and one that does not read.
#[test]
fn clients_that_take_nothing_are_closed() {
    let large = vec![b'x'; 20 << 20];
    for (site, clock) in timed(&[("large", &large)]) {
        for (initial, window) in [(0, 0), (100_000, 0), (WINDOW, WINDOW)] {
            let mut client = H2::with(&site, &[(Setting::InitialWindowSize, initial)], window);
            client.get(1, "/large");
            if window == 0 {
                client.ping();
            } else {
                until("nothing is sent", || site.server().totals().bytes_sent > 300_000);
            }
            let before = site.server().totals().slow_closed;
            until("the client stays", || {
                if initial == 0 {
                    client.write(|out| frame::write_window_update(1, 10, out));
                }
                clock.advance(Duration::from_secs(21));
                std::thread::sleep(Duration::from_millis(5));
                site.server().totals().slow_closed > before
            });
        }
        let totals = site.end();
        assert_eq!((totals.slow_closed, totals.http2_connections), (3, 3));
    }
}

/// Clients in Go open both windows again for each 4 KiB that they read, either at once or after everything that may be
/// sent has arrived.
#[test]
fn small_updates_of_windows_do_not_end_a_download() {
    let large = vec![b'x'; 10 << 20];
    // Time does not refill the budget.
    for (site, _clock) in timed(&[("large", &large)]) {
        for step in [4096, 4 << 20] {
            let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 4 << 20)], WINDOW);
            client.get(1, "/large");
            let mut opened = 0;
            while client.responses.get(&1).is_none_or(|response| !response.is_whole) {
                assert!(client.receive(), "the connection has ended behind {opened} bytes: {:?}", client.end);
                let got = client.responses.get(&1).map_or(0, |response| response.body.len());
                if got - opened < step {
                    continue;
                }
                let mut out = Vec::new();
                while got - opened >= 4096 {
                    frame::write_window_update(1, 4096, &mut out);
                    frame::write_window_update(0, 4096, &mut out);
                    opened += 4096;
                }
                client.send(&out);
            }
            assert!(client.response(1).body == large);
            client.ping();
            assert_eq!(client.end, None);
        }
        assert_eq!(site.end().http2_failed, 0);
    }
}

/// Some browsers open the window of each stream. Responses without content once earned no frames for that.
#[test]
fn a_window_for_each_response_without_content_is_no_flood() {
    for (site, _clock) in timed(&[("small", b"small")]) {
        let mut client = H2::to(&site);
        for number in 0..1500 {
            let id = 2 * number + 1;
            client.ask(id, "HEAD", "/small", &[], true);
            client.write(|out| frame::write_window_update(id, 1_000_000, out));
            assert_eq!(client.response(id).status(), "200", "{number}");
        }
        assert_eq!(site.end().http2_failed, 0);
    }
}

/// A frame for each byte costs the server much and the client little.
#[test]
fn windows_that_are_opened_by_a_byte_end_the_connection() {
    let large = vec![b'x'; 100_000];
    for (site, _clock) in timed(&[("large", &large)]) {
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], 0);
        client.get(1, "/large");
        while client.responses.get(&1).is_none_or(|response| response.fields.is_empty()) {
            assert!(client.receive());
        }
        for _ in 0..1500 {
            client.write(|out| frame::write_window_update(1, 1, out));
            if !client.receive() || client.end.is_some() {
                break;
            }
        }
        assert_eq!(client.end.map(|(_, code)| code), Some(Code::ENHANCE_YOUR_CALM));
    }
}

/// A connection that serves nothing holds little memory, and the memory of one that stalls is bounded.
#[test]
fn stalled_streams_are_within_the_limit_of_memory() {
    let large = vec![b'x'; 60_000];
    let most = 4 << 20;
    for site in sites(&[("large", &large)], |config| config.memory_bytes = Some(most)) {
        let mut clients: Vec<Client> = Vec::new();
        for _ in 0..100 {
            let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], 0);
            for number in 0..100 {
                client.ask(2 * number + 1, "GET", "/large", &[("range", "bytes=1-50000")], true);
            }
            clients.push(Client::new(client.stream));
        }
        until("nothing is refused", || site.server().totals().memory_refused > 0);
        let held = site.server().totals().held_bytes;
        assert!(held < most as u64 / 8 * 9 + (8 << 20), "{held}");
        drop(clients);
        // What the clients sent before they ended is handled first.
        until("memory is not given back", || {
            let totals = site.server().totals();
            (totals.accepted, totals.closed, totals.held_bytes) == (100, 100, 0)
        });
        let mut client = H2::to(&site);
        client.get(1, "/large");
        assert!(client.response(1).body == large);
    }
}
