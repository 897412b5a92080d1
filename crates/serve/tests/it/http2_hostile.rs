//! Attempts at request smuggling from HTTP/2 clients to the upstream server.
//!
//! HTTP/2 has lengths where HTTP/1.1 has lines. A single field of HTTP/2 can therefore be several lines of HTTP/1.1,
//! and content can be followed by a request. Each attempt contains a request for `/smuggled`. The upstream server
//! records every byte that it gets, and a strict parser reads them: whatever the client sent, they contain no such
//! request.

use crate::http2::H2;
use crate::support::{Site, kinds, set_rules, until};
use crate::upstream::{Upstream, head};
use landau_wire::http::body::Body;
use landau_wire::http::{Limits, Parsed, request};
use landau_wire::http2::Code;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

/// The server's response to an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    /// The server resets the stream.
    Reset(Code),
    /// The server refuses or forwards the request, with this status.
    Status(&'static str),
}

/// The fields and DATA frames that a client sends; `true` for the last frame.
struct Attempt {
    name: &'static str,
    fields: Vec<(&'static str, String)>,
    data: Vec<(&'static str, bool)>,
    answer: Answer,
}

const MALFORMED: Answer = Answer::Reset(Code::PROTOCOL_ERROR);

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";

fn with(method: &str, fields: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    let own = [(":method", method), (":scheme", "http"), (":path", "/api/x"), (":authority", "x")];
    own.iter().chain(fields).map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// Returns the attempts whose fields alone are wrong.
fn of_fields() -> Vec<Attempt> {
    let injected = format!("x\r\n\r\n{SMUGGLED}");
    let wrong = |name, fields: &[(&'static str, &str)]| Attempt {
        name,
        fields: with("GET", fields),
        data: Vec::new(),
        answer: MALFORMED,
    };
    let path = |name, path: &str| {
        let mut fields = with("GET", &[]);
        path.clone_into(&mut fields[2].1);
        Attempt { name, fields, data: Vec::new(), answer: MALFORMED }
    };
    let mut all = vec![
        wrong("a line end in a value", &[("x", &injected)]),
        wrong("a line feed in a value", &[("x", "y\nx: z")]),
        wrong("a return in a value", &[("x", "y\rz")]),
        wrong("a zero in a value", &[("x", "y\0z")]),
        wrong("a line end in a cookie", &[("cookie", "a=b"), ("cookie", &injected)]),
        wrong("a value that begins with a blank", &[("x", " y")]),
        wrong("a name in upper case", &[("X-Upper", "y")]),
        wrong("a colon in a name", &[("x: y\r\nhost", "z")]),
        wrong("a blank in a name", &[("transfer-encoding ", "chunked")]),
        wrong("an empty name", &[("", "y")]),
        wrong("a transfer coding", &[("transfer-encoding", "chunked")]),
        wrong("a field of the connection", &[("connection", "content-length")]),
        wrong("an upgrade", &[("upgrade", "websocket")]),
        wrong("another te", &[("te", "trailers, chunked")]),
        wrong("another host", &[("host", "y")]),
        wrong("a pseudo-header field of responses", &[(":status", "200")]),
        wrong("the extended CONNECT of WebSockets", &[(":protocol", "websocket")]),
        wrong("a pseudo-header field again", &[(":path", "/smuggled")]),
        wrong("a pseudo-header field behind others", &[("x", "y"), (":authority", "y")]),
        wrong("content that never comes", &[("content-length", "5")]),
        path("a path with a request", "/api/x HTTP/1.1\r\nHost: x\r\n\r\nGET /smuggled"),
        path("a path with a blank", "/api/x /smuggled"),
        path("no path", ""),
        path("a path with a host", "http://y/smuggled"),
        path("an asterisk", "*"),
    ];
    let mut method = with("GET", &[]);
    method[0].1 = format!("{SMUGGLED}GET");
    all.push(Attempt { name: "a method with a request", fields: method, data: Vec::new(), answer: MALFORMED });
    let mut host = with("GET", &[]);
    host[3].1 = format!("x\r\n\r\n{SMUGGLED}");
    all.push(Attempt { name: "a host with a request", fields: host, data: Vec::new(), answer: MALFORMED });
    all
}

/// Returns the attempts about the end of the content, and large ones.
fn of_content() -> Vec<Attempt> {
    let wrong = |name, length: &str, data: &[(&'static str, bool)], answer| Attempt {
        name,
        fields: with("POST", &[("content-length", length)]),
        data: data.to_vec(),
        answer,
    };
    let bad = Answer::Status("400");
    let mut all = vec![
        wrong("more than promised", "3", &[("abc", false), (SMUGGLED, true)], MALFORMED),
        wrong("more than nothing", "0", &[(SMUGGLED, true)], MALFORMED),
        wrong("more than promised at once", "1", &[(SMUGGLED, true)], MALFORMED),
        wrong("less than promised", "99", &[(SMUGGLED, true)], MALFORMED),
        wrong("a signed length", "+3", &[("abc", true)], bad),
        wrong("a list of lengths", "3, 3", &[("abc", true)], bad),
        wrong("a list of different lengths", "3, 36", &[("abc", true)], bad),
        wrong("a length in hexadecimal", "0x3", &[("abc", true)], bad),
        wrong("a length beyond all bounds", "99999999999999999999", &[("abc", true)], bad),
    ];
    let chunk = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    all.push(Attempt {
        name: "content that looks like the end of chunks",
        fields: with("POST", &[]),
        data: vec![(chunk, false), ("", false), (chunk, true)],
        answer: Answer::Status("200"),
    });
    all.push(Attempt {
        name: "two lengths",
        fields: with("POST", &[("content-length", "3"), ("content-length", "36")]),
        data: vec![("abc", true)],
        answer: bad,
    });
    let cookie = "c".repeat(4000);
    let crumbs: Vec<(&'static str, &str)> = vec![("cookie", &cookie); 20];
    all.push(Attempt {
        name: "huge cookies",
        fields: with("GET", &crumbs),
        data: vec![("", true)],
        answer: Answer::Status("431"),
    });
    all
}

/// Serves a connection: answers each request, and records what it received.
fn record(mut stream: TcpStream, recorded: &Mutex<Vec<Vec<u8>>>) {
    let mut got = Vec::new();
    while let Some(text) = head(&mut stream) {
        got.extend_from_slice(text.as_bytes());
        let Some((mut body, _)) = body_of(text.as_bytes()) else { break };
        let mut is_whole = body.is_empty();
        while !is_whole {
            let mut byte = [0];
            if !matches!(stream.read(&mut byte), Ok(1)) {
                break;
            }
            got.push(byte[0]);
            is_whole = body.advance(&byte).is_ok_and(|piece| piece.is_end);
        }
        if !is_whole || stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            break;
        }
    }
    recorded.lock().unwrap().push(got);
}

/// Returns the body of the request at the start of `bytes`, and its path.
fn body_of(bytes: &[u8]) -> Option<(Body, Vec<u8>)> {
    match request::parse(bytes, &Limits::default()) {
        Ok(Parsed::Complete { request, .. }) => Some((Body::new(request.body()), request.path().to_vec())),
        _ => None,
    }
}

/// Reads all requests of a connection; returns their paths.
fn paths(mut bytes: &[u8]) -> Vec<String> {
    let mut paths = Vec::new();
    while !bytes.is_empty() {
        let (mut body, path) = body_of(bytes).unwrap_or_else(|| panic!("no request: {}", bytes.escape_ascii()));
        paths.push(String::from_utf8(path).unwrap());
        let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        bytes = &bytes[at..];
        if !body.is_empty() {
            let (used, _) = body.skip(bytes).unwrap();
            bytes = &bytes[used..];
        }
    }
    paths
}

#[test]
fn no_request_is_smuggled() {
    for kind in kinds() {
        let recorded = Arc::new(Mutex::new(Vec::new()));
        let into = recorded.clone();
        let attempts: Vec<Attempt> = of_fields().into_iter().chain(of_content()).collect();
        let upstream = Upstream::new(2 * attempts.len(), move |_, stream| record(stream, &into));
        let site = Site::new(&[], |config| {
            set_rules(config, &upstream.rule());
            config.accepting = kind;
        });
        for attempt in &attempts {
            let mut client = H2::to(&site);
            // The connection that this request leaves open is used again, also for the attempt.
            client.get(1, "/api/before");
            assert_eq!(client.response(1).status(), "200");
            let fields: Vec<_> = attempt.fields.iter().map(|(name, value)| (*name, &value[..])).collect();
            let mut out = Vec::new();
            client.headers(3, &fields, attempt.data.is_empty(), &mut out);
            for (data, is_end) in &attempt.data {
                client.write_data(3, data.as_bytes(), *is_end, &mut out);
            }
            // In one call: the announced content would otherwise be answered before the rest is sent.
            client.send(&out);
            let got = client.response(3);
            match attempt.answer {
                Answer::Reset(code) => assert_eq!(got.reset, Some(code), "{}: {got:?}", attempt.name),
                Answer::Status(status) => assert_eq!(got.status(), status, "{}", attempt.name),
            }
            client.get(5, "/api/after");
            assert_eq!((client.response(5).status(), client.end), ("200", None), "{}", attempt.name);
        }
        let totals = site.end();
        assert_eq!((totals.http2_failed, totals.upstream_errors), (0, 0), "{kind:?}");
        // The kept connections have ended too. Further ones, which are never made, are not waited for.
        drop(upstream);
        let count = || recorded.lock().unwrap().len() as u64;
        until("the upstream server is not done", || count() == totals.upstream_connections);
        let all: Vec<String> = recorded.lock().unwrap().iter().flat_map(|bytes: &Vec<u8>| paths(bytes)).collect();
        let is_known = |path: &String| matches!(&path[..], "/api/before" | "/api/x" | "/api/after");
        assert!(all.len() >= 2 * attempts.len() && all.iter().all(is_known), "{all:?}");
        assert_eq!(all.iter().filter(|path| *path == "/api/before").count(), attempts.len());
    }
}
