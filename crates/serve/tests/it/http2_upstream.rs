//! HTTP/2 requests that are forwarded to upstream servers, which use HTTP/1.1.

use crate::http2::{H2, OWN_WINDOW, WINDOW, answer_others, fill_socket, sites};
use crate::support::{LONG, Site, refuses_within, set_rules, uninterrupted, until};
use crate::upstream::{Upstream, echo, echoes, head, read_exactly, wait_for_end};
use landau_reactor::ManualClock;
use landau_serve::{AccessLog, LiveRules, LogFormat, LogTarget};
use landau_wire::http2::frame::{self, END_HEADERS, END_STREAM, Header, Kind};
use landau_wire::http2::{Code, Setting};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Returns servers of both kinds in front of an upstream server, which serves `count` connections of each, one after
/// another.
fn before(
    count: usize,
    serve: impl Fn(usize, TcpStream) + Send + Sync + Clone + 'static,
) -> impl Iterator<Item = (Site, Upstream)> {
    sites_before(count, serve, "").into_iter()
}

fn sites_before(
    count: usize,
    serve: impl Fn(usize, TcpStream) + Send + Sync + Clone + 'static,
    rules: &str,
) -> Vec<(Site, Upstream)> {
    let kinds = crate::support::kinds().into_iter();
    let one = |kind| {
        let upstream = Upstream::new(count, serve.clone());
        let site = Site::new(&[("file", b"hello"), ("502.html", b"broken")], |config| {
            config.accepting = kind;
            set_rules(config, &(upstream.rule() + rules));
        });
        (site, upstream)
    };
    kinds.map(one).collect()
}

/// The ends of a channel that the connections of an upstream server share.
type Shared<T> = Arc<Mutex<T>>;

fn channel<T>() -> (Shared<mpsc::Sender<T>>, Shared<mpsc::Receiver<T>>) {
    let (sender, receiver) = mpsc::channel();
    (Arc::new(Mutex::new(sender)), Arc::new(Mutex::new(receiver)))
}

fn wait<T>(receiver: &Mutex<mpsc::Receiver<T>>) -> T {
    receiver.lock().unwrap().recv_timeout(LONG).unwrap()
}

fn tell<T>(sender: &Mutex<mpsc::Sender<T>>, what: T) {
    let _ = sender.lock().unwrap().send(what);
}

/// Reads the chunks of a body.
fn read_chunks(stream: &mut impl Read) -> Vec<u8> {
    let mut content = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(read_exactly(stream, 1));
        }
        let size = usize::from_str_radix(str::from_utf8(&line[..line.len() - 2]).unwrap(), 16).unwrap();
        content.extend(read_exactly(stream, size));
        assert_eq!(read_exactly(stream, 2), b"\r\n");
        if size == 0 {
            return content;
        }
    }
}

#[test]
fn a_request_is_written_as_one_of_http1() {
    for (site, upstream) in before(1, |_, mut stream| while echo(&mut stream) {}) {
        let mut client = H2::to(&site);
        let fields = [
            ("te", "trailers"),
            ("cookie", "a=b"),
            ("accept", "*/*"),
            ("cookie", "c=d"),
            ("x-forwarded-for", "6.6.6.6"),
            ("x_real_ip", "6.6.6.6"),
            ("via", "1.0 y"),
            ("proxy-authorization", "x"),
        ];
        client.ask(1, "GET", "/api/a%20b/../c;d?e=/../f", &fields, true);
        let got = client.response(1);
        assert_eq!((got.status(), got.field("x-a"), got.is_whole), ("200", Some("b"), true));
        let expected = "GET /api/c%3Bd?e=/../f HTTP/1.1\r\nHost: x\r\naccept: */*\r\ncookie: a=b; c=d\r\n\
             Via: 1.0 y, 2.0 landau\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\
             X-Forwarded-Host: x\r\n\r\n";
        assert_eq!(String::from_utf8(got.body).unwrap(), expected);
        assert_eq!(got.fields.iter().filter(|(name, _)| name == "content-length").count(), 1);
        client.get(3, "/file");
        assert_eq!(client.response(3).body, b"hello");
        // This request uses the same connection.
        client.ask(5, "HEAD", "/api/x", &[], true);
        let head = client.response(5);
        assert_eq!((head.status(), head.is_whole, head.body.len()), ("200", true, 0));
        assert!(head.field("content-length").unwrap().parse::<usize>().unwrap() > 80, "{head:?}");
        client.ask(7, "POST", "/api/x", &[("content-length", "3")], false);
        client.data(7, b"ab", false);
        client.data(7, b"c", true);
        let got = String::from_utf8(client.response(7).body).unwrap();
        assert!(got.starts_with("POST /api/x HTTP/1.1\r\n") && got.contains("\r\nContent-Length: 3\r\n"), "{got}");
        assert!(got.ends_with("\r\n\r\nabc"), "{got}");
        drop(client);
        let totals = site.end();
        let counts = (totals.upstream_connections, totals.upstream_reuses, totals.upstream_errors);
        assert_eq!((counts, totals.http2_failed), ((1, 2, 0), 0));
        upstream.end();
    }
}

/// As over HTTP/1.1: no rule is evaded by writing a slash as `%2F`.
#[test]
fn names_with_an_encoded_slash_are_passed_on_if_a_rule_says_so() {
    for kind in crate::support::kinds() {
        let upstream = echoes(1);
        let rules = format!(
            "[[rule]]\npath = '/api/'\nproxy = {{ to = 'http://{}', encoded-slash = true }}\n\
             [[rule]]\npath = '/api/no/'\ndeny = '127.0.0.1'\n",
            upstream.address
        );
        let site = Site::new(&[], |config| {
            config.accepting = kind;
            set_rules(config, &rules);
        });
        let mut client = H2::to(&site);
        for (id, method) in (1..).step_by(4).zip(["GET", "PUT", "PURGE"]) {
            client.ask(id, method, "/api/@scope%2fname", &[], true);
            let got = client.response(id);
            let line = format!("{method} /api/@scope%2fname HTTP/1.1\r\n");
            assert!(got.status() == "200" && got.body.starts_with(line.as_bytes()), "{kind:?}: {got:?}");
            client.ask(id + 2, method, "/api/no%2fx", &[], true);
            assert_eq!(client.response(id + 2).status(), "404", "{kind:?} {method}");
        }
        drop(client);
        site.end();
        upstream.end();
    }
}

/// A method, the bytes from an upstream server, and the statuses, fields and content of the client's response.
type Case = (&'static str, &'static [u8], &'static str, &'static str, &'static [u8]);

#[test]
fn responses_are_those_of_the_upstream_server() {
    let cases: &[Case] = &[
        (
            "GET",
            b"HTTP/1.1 201 Made It\r\nContent-Length: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nokGARBAGE",
            "201",
            "set-cookie=a set-cookie=b content-length=2",
            b"ok",
        ),
        (
            "GET",
            b"HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\nX: y\nTrailer: T\n\n\
              2;a=b\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\n",
            "200",
            "x=y",
            b"abc",
        ),
        ("GET", b"HTTP/1.0 200 OK\r\n\r\nabc", "200", "", b"abc"),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\n", "200", "", b""),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200", "", b""),
        ("GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "204", "", b""),
        (
            "GET",
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n",
            "304",
            "etag=x content-length=7",
            b"",
        ),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "200", "content-length=7", b""),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200", "", b""),
        (
            "GET",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n\
              HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "100 103 200",
            "content-length=0",
            b"",
        ),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n\
              Proxy-Connection: close\r\nContent-Length: 1\r\n\r\nx",
            "200",
            "content-length=1",
            b"x",
        ),
    ];
    for (method, said, statuses, fields, body) in cases {
        // All at once, then byte by byte.
        for part in [said.len(), 1] {
            let said: &'static [u8] = said;
            for (site, upstream) in before(1, move |_, mut stream| {
                head(&mut stream);
                // The server may refuse to read further.
                let _ = said.chunks(part).try_for_each(|part| stream.write_all(part));
            }) {
                let mut client = H2::to(&site);
                client.ask(1, method, "/api/", &[], true);
                let got = client.response(1);
                let all = [&got.interim[..], &[got.status().to_owned()]].concat().join(" ");
                let own = got.fields.iter().filter(|(name, _)| !name.starts_with(':') && name != "date");
                let own: Vec<_> = own.map(|(name, value)| format!("{name}={value}")).collect();
                let said = said.escape_ascii();
                assert_eq!((&all[..], &own.join(" ")[..], &got.body[..]), (*statuses, *fields, *body), "{part} {said}");
                assert!(got.is_whole && got.reset.is_none() && got.field("date").is_some(), "{part} {said}");
                drop(client);
                assert_eq!(site.end().upstream_errors, 0, "{part} {said}");
                upstream.end();
            }
        }
    }
}

/// A response that could be read in two ways, or is not HTTP, becomes a 502 and never reaches the client.
#[test]
fn what_is_no_response_is_refused() {
    for said in [
        &b""[..],
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX Y: z\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n:status: 201\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ",
    ] {
        let serve = move |_, mut stream: TcpStream| {
            if head(&mut stream).is_some() {
                let _ = stream.write_all(said);
            }
        };
        let rules = "error-pages = { 502 = '/502.html' }\nset-headers = { X-A = 'b' }\n";
        for (site, upstream) in sites_before(1, serve, rules) {
            let mut client = H2::to(&site);
            client.get(1, "/api/x");
            let got = client.response(1);
            assert_eq!((got.status(), &got.body[..]), ("502", &b"broken"[..]), "{}", said.escape_ascii());
            assert_eq!((got.field("x-a"), got.interim.len()), (Some("b"), 0));
            drop(client);
            let totals = site.end();
            assert_eq!((totals.upstream_errors, totals.server_errors), (1, 1), "{}", said.escape_ascii());
            upstream.end();
        }
    }
}

/// A response that ends before it is complete must not look complete.
#[test]
fn half_a_response_resets_the_stream() {
    for said in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let (go, gone) = channel::<()>();
        for (site, upstream) in before(1, move |_, mut stream| {
            head(&mut stream);
            stream.write_all(said).unwrap();
            wait(&gone);
        }) {
            let mut client = H2::to(&site);
            client.get(1, "/api/");
            while client.responses.get(&1).is_none_or(|response| response.body.len() < 5) {
                assert!(client.receive());
            }
            tell(&go, ());
            let got = client.response(1);
            assert_eq!((got.status(), &got.body[..]), ("200", &b"hello"[..]));
            assert_eq!((got.is_whole, got.reset), (false, Some(Code::INTERNAL_ERROR)));
            // The other streams continue.
            client.get(3, "/file");
            assert_eq!(client.response(3).body, b"hello");
            drop(client);
            assert_eq!(site.end().upstream_errors, 1);
            upstream.end();
        }
    }
}

#[test]
fn content_is_passed_on_whole() {
    let body: Vec<u8> = (0..400_000_u32).map(|number| b'a' + (number % 26) as u8).collect();
    let expected = body.clone();
    for (site, upstream) in before(1, move |_, mut stream| {
        for _ in 0..4 {
            let head = head(&mut stream).unwrap();
            let got = if head.contains("Transfer-Encoding: chunked\r\n") {
                assert!(!head.contains("Content-Length"), "{head}");
                read_chunks(&mut stream)
            } else {
                assert!(head.contains("Content-Length: 400000\r\n"), "{head}");
                read_exactly(&mut stream, expected.len())
            };
            assert!(got == expected || (got.is_empty() && head.starts_with("PATCH")), "{} bytes, {head}", got.len());
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
    }) {
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/api/", &[("content-length", "400000")], false);
        client.upload(1, &body, true);
        assert_eq!(client.response(1).body, b"ok");
        client.ask(3, "PUT", "/api/", &[], false);
        client.upload(3, &body, true);
        assert_eq!(client.response(3).body, b"ok");
        // With a trailer, which ends the content and is dropped.
        client.ask(5, "PUT", "/api/", &[], false);
        client.upload(5, &body, false);
        let mut out = Vec::new();
        client.headers(5, &[("x", "y")], true, &mut out);
        client.send(&out);
        assert_eq!(client.response(5).body, b"ok");
        // Only the end of the content.
        client.ask(7, "PATCH", "/api/", &[], false);
        client.data(7, b"", true);
        assert_eq!(client.response(7).body, b"ok");
        drop(client);
        assert_eq!(site.end().upstream_connections, 1);
        upstream.end();
    }
}

/// The client waits for `100 Continue`, or gets the final response without sending its content.
#[test]
fn a_client_may_wait_until_it_may_send() {
    for (site, upstream) in before(2, |number, mut stream| {
        let head = head(&mut stream).unwrap();
        assert!(head.contains("expect: 100-continue\r\n"), "{head}");
        if number == 0 {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
            assert_eq!(read_exactly(&mut stream, 3), b"abc");
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
        } else {
            stream.write_all(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno").unwrap();
        }
    }) {
        let mut client = H2::to(&site);
        let fields = [("expect", "100-continue"), ("content-length", "3")];
        client.ask(1, "POST", "/api/", &fields, false);
        while client.responses.get(&1).is_none_or(|response| response.interim.is_empty()) {
            assert!(client.receive());
        }
        client.data(1, b"abc", true);
        assert_eq!(client.response(1).body, b"ok");
        client.ask(3, "POST", "/api/", &fields, false);
        let got = client.response(3);
        assert_eq!((got.status(), &got.body[..], got.is_whole), ("413", &b"no"[..], true));
        client.ping();
        assert_eq!(client.responses[&3].reset, Some(Code::NO_ERROR), "the rest is not wanted");
        drop(client);
        site.end();
        upstream.end();
    }
}

/// The update of the table precedes the first head, whether it is that of an interim response or of a response whose
/// content has not arrived yet.
#[test]
fn a_smaller_table_is_confirmed_before_a_head_that_is_passed_on() {
    for (site, upstream) in before(1, |_, mut stream| {
        head(&mut stream).unwrap();
        stream.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
    }) {
        let mut client = H2::with(&site, &[(Setting::HeaderTableSize, 0), (Setting::InitialWindowSize, 65_535)], 0);
        client.get(1, "/api/");
        assert_eq!((client.response(1).interim, client.response(1).body), (vec!["103".to_owned()], b"ok".to_vec()));
        assert_eq!((client.blocks[0], client.blocks[1]), (0x20, 0x88));
        drop(client);
        site.end();
        upstream.end();
    }
}

/// A client may send no more than its upstream server reads, and does not delay other clients.
#[test]
fn an_upload_waits_for_its_upstream_server() {
    const BYTES: usize = 24 << 20;
    let (go, gone) = channel::<()>();
    for (site, upstream) in before(2, move |_, mut stream| {
        let head = head(&mut stream).unwrap();
        if head.starts_with("GET") {
            return stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
        }
        wait(&gone);
        for _ in 0..BYTES >> 16 {
            assert!(read_exactly(&mut stream, 1 << 16).iter().all(|&byte| byte == b'u'));
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone").unwrap();
    }) {
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/api/", &[("content-length", &BYTES.to_string())], false);
        let (part, mut sent) = (vec![b'u'; 1 << 14], 0);
        // Sends until the sockets' buffers are full, and then one window.
        loop {
            let most = client.sendable(1).min(part.len());
            client.data(1, &part[..most], false);
            sent += most;
            client.ping();
            if client.sendable(1) == 0 {
                break;
            }
            assert!(sent < BYTES, "nothing holds it back");
        }
        assert!(client.sendable(0) >= 32 << 10, "the window of the connection is for all");
        let held = site.held();
        assert!((32 << 10..=160 << 10).contains(&held), "{held}");
        client.get(3, "/api/");
        assert_eq!(client.response(3).body, b"ok");
        tell(&go, ());
        client.upload(1, &vec![b'u'; BYTES - sent], true);
        assert_eq!(client.response(1).body, b"done");
        drop(client);
        assert_eq!(site.end().upstream_errors, 0);
        upstream.end();
    }
}

/// An upstream server is read no faster than the client reads its response, and responses take turns.
#[test]
fn a_response_waits_for_its_client() {
    const BYTES: usize = 24 << 20;
    for (site, upstream) in before(3, move |_, mut stream| {
        let head = head(&mut stream).unwrap();
        let bytes = if head.contains("/large") { BYTES } else { 1 << 20 };
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes()).unwrap();
        // In parts, so that several connections interleave.
        (0..bytes >> 14).for_each(|_| stream.write_all(&[b'd'; 1 << 14]).unwrap());
    }) {
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 100)], WINDOW);
        client.get(1, "/api/large");
        while client.responses.get(&1).is_none_or(|response| response.body.len() < 100) {
            assert!(client.receive());
        }
        client.get(3, "/api/a");
        client.get(5, "/api/b");
        client.write(|out| [3, 5].iter().for_each(|&id| frame::write_window_update(id, WINDOW, out)));
        for id in [3, 5] {
            let got = client.response(id);
            assert!(got.body.len() == 1 << 20 && got.body.iter().all(|&byte| byte == b'd'));
        }
        assert_eq!(client.responses[&1].body.len(), 100);
        // A ring has received ahead. The figure is that at the end of a turn, which may be still to come.
        let most = if site.is_ring() { 2 << 20 } else { 160 << 10 };
        until("the site holds too much", || site.held() < most);
        client.write(|out| frame::write_window_update(1, WINDOW, out));
        let got = client.response(1);
        assert!(got.body.len() == BYTES && got.body.iter().all(|&byte| byte == b'd'));
        drop(client);
        assert_eq!(site.end().upstream_errors, 0);
        upstream.end();
    }
}

#[test]
fn responses_take_turns() {
    let (go, gone) = channel::<()>();
    for (site, upstream) in before(3, move |_, mut stream| {
        head(&mut stream).unwrap();
        wait(&gone);
        // Each response has content with its head, so that it can take its turn.
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n";
        stream.write_all(&[&head[..], &vec![b'd'; 1 << 16]].concat()).unwrap();
    }) {
        // No window is open until all responses have arrived.
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, WINDOW)], 0);
        client.ask(1, "GET", "/api/", &[], true);
        client.ask(3, "GET", "/api/", &[], true);
        client.ask(5, "GET", "/api/", &[], true);
        (0..3).for_each(|_| tell(&go, ()));
        while [1, 3, 5].iter().any(|id| !client.responses.contains_key(id)) {
            assert!(client.receive());
        }
        let used: usize = client.responses.values().map(|response| response.body.len()).sum();
        client.order.clear();
        client.write(|out| frame::write_window_update(0, WINDOW, out));
        for id in [1, 3, 5] {
            assert_eq!(client.response(id).body.len(), 1 << 16);
        }
        // Whatever arrived before that, no stream sends two frames before each of the others has sent one.
        assert!(used <= OWN_WINDOW as usize);
        let last = |id: u32| client.order.iter().rposition(|own| *own == id).unwrap_or_default();
        let first = |id: u32| client.order.iter().position(|own| *own == id).unwrap_or(usize::MAX);
        let waits =
            [1, 3, 5].iter().filter(|&&id| [1, 3, 5].iter().all(|&other| other == id || last(other) < first(id)));
        assert_eq!(waits.count(), 0, "{:?}", client.order);
        drop(client);
        site.end();
        upstream.end();
    }
}

/// The upstream server stops working for a client that does not want the response.
#[test]
fn the_upstream_connection_ends_with_the_stream() {
    for says in [&b""[..], b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx"] {
        for way in ["reset", "end", "half", "error"] {
            let (seen, is_seen) = channel();
            for (site, upstream) in before(1, move |_, mut stream| {
                head(&mut stream).unwrap();
                stream.write_all(says).unwrap();
                tell(&seen, ());
                wait_for_end(&mut stream);
            }) {
                let mut client = H2::to(&site);
                client.get(1, "/api/");
                wait(&is_seen);
                match way {
                    "reset" => client.write(|out| frame::write_rst_stream(1, Code::CANCEL, out)),
                    // A frame on a stream with an even number.
                    "error" => client.write(|out| frame::write_window_update(2, 1, out)),
                    // After this, the client could not open a window.
                    "half" => client.stream.shutdown(std::net::Shutdown::Write).unwrap(),
                    _ => client.stream.shutdown(std::net::Shutdown::Both).unwrap(),
                }
                upstream.end();
                match way {
                    "reset" => {
                        client.get(3, "/file");
                        assert_eq!(client.response(3).body, b"hello");
                    }
                    "half" => while client.receive() {},
                    _ => {}
                }
                drop(client);
                let totals = site.end();
                assert_eq!((totals.upstream_errors, totals.upstream_retries), (0, 0), "{way}");
            }
        }
    }
}

#[test]
fn a_client_that_goes_away_gets_what_it_has_asked_for() {
    let (go, gone) = channel::<()>();
    for (site, upstream) in before(1, move |_, mut stream| {
        head(&mut stream).unwrap();
        wait(&gone);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        wait_for_end(&mut stream);
    }) {
        let mut client = H2::to(&site);
        client.get(1, "/api/");
        client.write(|out| frame::write_go_away(0, Code::NO_ERROR, out));
        client.ping();
        tell(&go, ());
        assert_eq!(client.response(1).body, b"ok");
        drop(client);
        site.end();
        upstream.end();
    }
}

/// A server that is stopping waits for forwarded requests, and informs the clients.
#[test]
fn a_server_that_ends_answers_what_was_passed_on() {
    let (seen, is_seen) = channel();
    let (go, gone) = channel::<()>();
    let upstreams = sites_before(
        1,
        move |_, mut stream| {
            head(&mut stream).unwrap();
            tell(&seen, ());
            wait(&gone);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            wait_for_end(&mut stream);
        },
        "",
    );
    for (site, upstream) in upstreams {
        let mut client = H2::to(&site);
        client.get(1, "/api/");
        wait(&is_seen);
        site.server().drain();
        while client.end.is_none() {
            assert!(client.receive());
        }
        assert_eq!(client.end, Some((1, Code::NO_ERROR)));
        tell(&go, ());
        assert_eq!(client.response(1).body, b"ok");
        assert_eq!(client.end(), Some(Code::NO_ERROR));
        drop(client);
        site.end();
        upstream.end();
    }
}

/// As for HTTP/1.1: a request that changes nothing is sent again; any other may already have been executed.
#[test]
fn a_kept_connection_that_has_ended_costs_one_retry() {
    for (method, body, expected) in [
        ("GET", None, "200"),
        ("DELETE", None, "200"),
        ("PUT", Some(""), "200"),
        ("POST", Some(""), "502"),
        ("PUT", Some("x"), "502"),
    ] {
        for (site, upstream) in before(if expected == "200" { 2 } else { 1 }, |number, mut stream| {
            assert!(echo(&mut stream));
            // The first connection ends as soon as it has a second request.
            if number == 0 {
                head(&mut stream);
            }
        }) {
            let mut client = H2::to(&site);
            client.get(1, "/api/");
            assert_eq!(client.response(1).status(), "200");
            let length = body.unwrap_or_default().len().to_string();
            let fields = [("content-length", &length[..])];
            client.ask(3, method, "/api/", if body.is_some() { &fields } else { &[] }, body != Some("x"));
            if body == Some("x") {
                client.data(3, b"x", true);
            }
            assert_eq!(client.response(3).status(), expected, "{method} {body:?}");
            drop(client);
            upstream.end();
            let totals = site.end();
            assert_eq!((totals.upstream_retries, totals.upstream_reuses), (u64::from(expected == "200"), 1));
        }
    }
}

#[test]
fn many_streams_share_the_kept_connections() {
    for (site, upstream) in before(200, |_, mut stream| while echo(&mut stream) {}) {
        let mut client = H2::to(&site);
        for round in 0..5 {
            let mut out = Vec::new();
            let ids: Vec<u32> = (0..40).map(|number| 80 * round + 2 * number + 1).collect();
            for &id in &ids {
                let path = format!("/api/{id}");
                let fields = [(":method", "GET"), (":scheme", "http"), (":path", &path[..]), (":authority", "x")];
                client.headers(id, &fields, true, &mut out);
            }
            client.send(&out);
            for &id in &ids {
                let got = client.response(id);
                assert!(got.body.starts_with(format!("GET /api/{id} HTTP/1.1\r\n").as_bytes()), "{id}: {got:?}");
            }
        }
        drop(client);
        let totals = site.end();
        assert_eq!((totals.requests, totals.upstream_errors, totals.http2_failed), (200, 0, 0));
        assert!((40..200).contains(&totals.upstream_connections), "{}", totals.upstream_connections);
        // Connections that were never made are not waited for.
        drop(upstream);
    }
}

/// The server remembers a limited number of streams that it has reset. It once forgot a stream while its trailer
/// arrived, and then treated the trailer as a request.
#[test]
fn a_trailer_of_a_forgotten_stream_is_ignored() {
    const STREAMS: u32 = 128;
    const GET: &[u8] = b"\x82\x86\x84\x01\x01x";
    for kind in crate::support::kinds() {
        let (seen, is_seen) = channel();
        let (go, gone) = channel::<()>();
        let upstream = Upstream::new(STREAMS as usize, move |_, mut stream| {
            head(&mut stream).unwrap();
            tell(&seen, ());
            wait(&gone);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        });
        let site = Site::new(&[("file", b"hello")], |config| {
            set_rules(config, &upstream.rule());
            (config.accepting, config.timeouts.head) = (kind, LONG * 50);
        });
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/file", &[("content-length", "100000")], false);
        assert_eq!(client.response(1).status(), "413");
        client.ping();
        client.responses.clear();
        // These requests have not ended. A PING cannot be answered within a header block.
        client.answers = false;
        let others = (0..STREAMS).map(|number| 2 * number + 3);
        for id in others.clone() {
            client.ask(id, "POST", "/api/", &[("content-length", "9")], false);
            wait(&is_seen);
        }
        let (first, last) = GET.split_at(3);
        client.send(&Header::new(Kind::Headers, END_STREAM, 1, first.len()).bytes());
        client.send(first);
        others.clone().for_each(|_| tell(&go, ()));
        for id in others {
            assert_eq!(client.response(id).body, b"ok", "{id}");
        }
        client.responses.clear();
        client.send(&Header::new(Kind::Continuation, END_HEADERS, 1, last.len()).bytes());
        client.send(last);
        client.get(2 * STREAMS + 3, "/file");
        assert_eq!(client.response(2 * STREAMS + 3).body, b"hello");
        client.ping();
        assert!(!client.responses.contains_key(&1), "{kind:?}: {:?}", client.responses[&1]);
        drop(client);
        site.end();
        upstream.end();
    }
}

#[test]
fn upstream_servers_have_their_time() {
    // A server that sends nothing, one that sends half a head, one that sends half a response, and one that never
    // reads.
    for (said, is_upload) in [
        (&b""[..], false),
        (b"HTTP/1.1 200", false),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", false),
        (b"", true),
    ] {
        let (seen, is_seen) = channel();
        let (end, is_over) = channel::<()>();
        let serve = move |_, mut stream: TcpStream| {
            head(&mut stream).unwrap();
            stream.write_all(said).unwrap();
            tell(&seen, ());
            wait(&is_over);
        };
        for kind in crate::support::kinds() {
            let upstream = Upstream::new(1, serve.clone());
            let rules = format!(
                "[[rule]]\npath = '/'\nproxy = {{ to = 'http://{}', response-timeout = '30s' }}\n",
                upstream.address
            );
            let clock = ManualClock::default();
            let site = Site::new(&[], |config| {
                set_rules(config, &rules);
                (config.accepting, config.clock) = (kind, Some(clock.clone()));
                config.timeouts.send = LONG * 1000;
            });
            let mut client = H2::to(&site);
            client.ask(1, if is_upload { "POST" } else { "GET" }, "/", &[], !is_upload);
            wait(&is_seen);
            if is_upload {
                while client.sendable(1) > 0 {
                    client.data(1, &vec![b'u'; client.sendable(1).min(1 << 14)], false);
                    client.ping();
                }
            }
            // The deadline must pass after half a response has reached the client, not before the worker has read any
            // of it.
            while said.ends_with(b"x") && client.responses.get(&1).is_none_or(|response| response.body.is_empty()) {
                assert!(client.receive(), "the connection has ended: {:?}", client.end);
            }
            until("it has no deadline", || {
                clock.advance(Duration::from_secs(15));
                site.server().totals().upstream_errors == 1
            });
            let got = client.response(1);
            if said.ends_with(b"x") {
                assert_eq!((got.status(), got.reset, &got.body[..]), ("200", Some(Code::INTERNAL_ERROR), &b"x"[..]));
            } else {
                assert_eq!(got.status(), "504", "{kind:?} {}", said.escape_ascii());
            }
            tell(&end, ());
            drop(client);
            upstream.end();
        }
    }
}

/// A byte before each deadline, with frames of other streams in between, is not enough.
#[test]
fn a_client_that_hardly_sends_gets_408() {
    for kind in crate::support::kinds() {
        let (seen, is_seen) = channel();
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream).unwrap();
            while let Ok(1) = uninterrupted(|| stream.read(&mut [0])) {
                tell(&seen, ());
            }
        });
        let clock = ManualClock::default();
        let site = Site::new(&[("file", b"hello")], |config| {
            set_rules(config, &upstream.rule());
            (config.accepting, config.clock) = (kind, Some(clock.clone()));
        });
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/api/", &[("content-length", "100000")], false);
        // 4 KiB within 20 seconds are enough.
        for _ in 0..4 {
            client.data(1, &[b'x'; 5000], false);
            (0..5000).for_each(|_| wait(&is_seen));
            clock.advance(Duration::from_secs(19));
            client.ping();
        }
        assert_eq!(site.server().totals().heads_late, 0, "{kind:?}");
        until("it has no deadline", || {
            client.data(1, b"x", false);
            client.ping();
            clock.advance(Duration::from_secs(5));
            site.server().totals().heads_late == 1
        });
        let got = client.response(1);
        assert_eq!((got.status(), got.is_whole), ("408", true));
        client.get(3, "/file");
        assert_eq!(client.response(3).body, b"hello");
        drop(client);
        upstream.end();
        assert_eq!(site.end().upstream_errors, 0);
    }
}

/// The client reads nothing while its windows are open. The upstream server waits, and further requests of the client
/// are read when the client reads again.
#[test]
fn requests_behind_a_full_socket_are_answered_when_it_has_room() {
    const BYTES: usize = 24 << 20;
    for kind in crate::support::kinds() {
        let upstream = Upstream::new(2, |_, mut stream| {
            let head = head(&mut stream).unwrap();
            let bytes = if head.contains("/large") { BYTES } else { 100 };
            stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes()).unwrap();
            stream.write_all(&vec![b'd'; bytes]).unwrap();
        });
        let site = Site::new(&[("a", b"a")], |config| {
            set_rules(config, &upstream.rule());
            (config.accepting, config.timeouts.send) = (kind, LONG * 50);
        });
        let mut client = H2::to(&site);
        fill_socket(&site, &mut client, 1, "/api/large");
        client.get(3, "/a");
        client.get(5, "/api/small");
        answer_others(&site);
        // A ring has received ahead.
        let most = if site.is_ring() { 2 << 20 } else { 256 << 10 };
        until("the site holds too much", || site.held() < most);
        let got = client.response(1);
        assert!(got.body.len() == BYTES && got.body.iter().all(|&byte| byte == b'd'), "{kind:?}");
        assert_eq!(client.response(3).body, b"a", "{kind:?}");
        assert_eq!(client.response(5).body, [b'd'; 100], "{kind:?}");
        drop(client);
        assert_eq!(site.end().upstream_errors, 0, "{kind:?}");
        upstream.end();
    }
}

/// A DATA frame that took longer than the timeout of a request's head once ended the connection.
#[test]
fn a_slow_frame_of_an_upload_has_its_time() {
    let part = [b'u'; 512];
    for kind in crate::support::kinds() {
        let upstream = Upstream::new(1, |_, mut stream| {
            head(&mut stream).unwrap();
            assert!(read_exactly(&mut stream, 32 << 10).iter().all(|&byte| byte == b'u'));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            wait_for_end(&mut stream);
        });
        let clock = ManualClock::default();
        let site = Site::new(&[("a", b"a")], |config| {
            (config.accepting, config.clock) = (kind, Some(clock.clone()));
            set_rules(config, &upstream.rule());
        });
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/api/", &[("content-length", "32768")], false);
        client.ping();
        // 16 KiB take 32 s.
        for flags in [0, END_STREAM] {
            client.send(&Header::new(Kind::Data, flags, 1, 16 << 10).bytes());
            for number in 0..32 {
                client.send(&part);
                answer_others(&site);
                clock.advance(Duration::from_secs(1));
                answer_others(&site);
                assert_eq!(site.server().totals().heads_late, 0, "{kind:?} {flags} {number}");
            }
        }
        assert_eq!(client.response(1).body, b"ok", "{kind:?}");
        // Less than 4 KiB of this frame arrive.
        client.ask(3, "POST", "/a", &[], false);
        client.ping();
        client.send(&Header::new(Kind::Data, 0, 3, 16 << 10).bytes());
        client.send(&part);
        until("it is not late", || {
            clock.advance(Duration::from_secs(1));
            // The worker must see this second before the next one begins.
            answer_others(&site);
            site.server().totals().heads_late == 2
        });
        assert_eq!(client.end(), Some(Code::NO_ERROR), "{kind:?}");
        drop(client);
        assert_eq!(site.end().heads_late, 2, "{kind:?}");
        upstream.end();
    }
}

/// While the socket is full, nothing is read. An upload could once not continue, and got a 408.
#[test]
fn an_upload_behind_a_full_socket_is_not_late() {
    let large = vec![b'x'; 20 << 20];
    for (kind, is_read_in_time) in crate::support::kinds().into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let (seen, is_seen) = channel();
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream).unwrap();
            tell(&seen, ());
            assert_eq!(read_exactly(&mut stream, 5), b"hello");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        });
        let clock = ManualClock::default();
        let site = Site::new(&[("large", &large), ("a", b"a")], |config| {
            set_rules(config, &upstream.rule());
            (config.accepting, config.clock) = (kind, Some(clock.clone()));
        });
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/api/", &[("content-length", "5")], false);
        client.data(1, b"h", false);
        wait(&is_seen);
        fill_socket(&site, &mut client, 3, "/large");
        if is_read_in_time {
            // There is room again before the timeout, and one second later it passes.
            clock.advance(Duration::from_secs(19));
            answer_others(&site);
            assert!(client.response(3).body == large, "{kind:?}");
            clock.advance(Duration::from_secs(2));
        } else {
            clock.advance(Duration::from_secs(21));
        }
        answer_others(&site);
        client.data(1, b"ello", true);
        assert!(is_read_in_time || client.response(3).body == large, "{kind:?}");
        assert_eq!(client.response(1).body, b"ok", "{kind:?}");
        drop(client);
        assert_eq!(site.end().heads_late, 0, "{kind:?}");
        upstream.end();
    }
}

#[test]
fn unix_sockets_and_missing_servers() {
    let room = tempfile::tempdir().unwrap();
    for (number, kind) in crate::support::kinds().into_iter().enumerate() {
        let path = room.path().join(format!("{number}.sock"));
        let listener = UnixListener::bind(&path).unwrap();
        let upstream = std::thread::spawn(move || {
            let (mut stream, _) = uninterrupted(|| listener.accept()).unwrap();
            head(&mut stream).unwrap();
            // The end of the connection is the end of the content; the kernel reports it repeatedly.
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
            stream.write_all(&vec![b'd'; 100_000]).unwrap();
        });
        let rules = format!(
            "[[rule]]\npath = '/a/'\nproxy = 'unix:{}'\n[[rule]]\npath = '/b/'\nproxy = 'unix:/nowhere/at.all'\n",
            path.display()
        );
        let site = Site::new(&[], |config| {
            set_rules(config, &rules);
            config.accepting = kind;
        });
        // The client has no room at first.
        let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], WINDOW);
        client.get(1, "/a/");
        upstream.join().unwrap();
        client.ping();
        client.write(|out| frame::write_window_update(1, WINDOW, out));
        let got = client.response(1);
        assert_eq!((got.status(), got.body.len(), got.is_whole), ("200", 100_000, true), "{kind:?}");
        client.get(3, "/b/");
        client.write(|out| frame::write_window_update(3, WINDOW, out));
        assert_eq!(client.response(3).status(), "502");
        drop(client);
        assert_eq!(site.end().upstream_errors, 1);
    }
}

#[test]
fn rules_and_the_log_apply() {
    let users = tempfile::NamedTempFile::new().unwrap();
    let hash = crate::upstream::bcrypt_of_test();
    std::fs::write(users.path(), format!("alice:{hash}\nbob:{hash}\n")).unwrap();
    for kind in crate::support::kinds() {
        let upstream = echoes(1);
        let rules = format!(
            "{}set-headers = {{ X-A = 'own' }}\n\
             [[rule]]\npath = '/api/no/'\ndeny = '127.0.0.1'\n\
             [[rule]]\npath = '/api/login/'\nauth = {{ users = '{}' }}\n\
             [[rule]]\npath = '/api/rare'\nrate = '1/h'\nburst = 0\n",
            upstream.rule(),
            users.path().display()
        );
        let room = tempfile::tempdir().unwrap();
        let log = room.path().join("log");
        let site = Site::new(&[], |config| {
            set_rules(config, &rules);
            config.accepting = kind;
            config.log = Some(AccessLog { target: LogTarget::File(log.clone()), format: LogFormat::Common });
        });
        let mut client = H2::to(&site);
        client.get(1, "/api/x?y");
        let got = client.response(1);
        assert_eq!((got.status(), got.field("x-a")), ("200", Some("own")));
        client.ask(3, "POST", "/api/no/x", &[], false);
        assert_eq!(client.response(3).status(), "403");
        // The content arrives while another thread verifies the password.
        let login = [("authorization", "Basic YWxpY2U6dGVzdA=="), ("content-length", "60000")];
        client.ask(5, "POST", "/api/login/", &login, false);
        client.upload(5, &vec![b'u'; 60_000], true);
        let got = client.response(5);
        assert!(got.status() == "200" && got.body.ends_with(&vec![b'u'; 60_000]), "{} bytes", got.body.len());
        client.ask(7, "GET", "/api/login/", &[], true);
        assert_eq!(client.response(7).status(), "401");
        for (id, expected) in [(9, "200"), (11, "429"), (13, "429")] {
            client.get(id, "/api/rare");
            assert_eq!(client.response(id).status(), expected);
        }
        // The request has ended before the other thread gets it.
        client.ask(15, "GET", "/api/login/x", &[("authorization", "Basic Ym9iOnRlc3Q=")], true);
        let got = client.response(15);
        assert!(got.body.starts_with(b"GET /api/login/x HTTP/1.1\r\n"), "{got:?}");
        drop(client);
        let totals = site.end();
        assert_eq!((totals.requests, totals.succeeded, totals.client_errors), (8, 4, 4));
        upstream.end();
        let text = std::fs::read_to_string(log).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once("] ").unwrap().1).collect();
        assert!(lines[0].starts_with("\"GET /api/x?y HTTP/2.0\" 200 "), "{text}");
        assert_eq!(lines[1], "\"POST /api/no/x HTTP/2.0\" 403 14", "{text}");
        assert_eq!(lines.len(), 8, "{text}");
    }
}

/// The log line of such a stream states whether the response was sent.
#[test]
fn streams_that_end_early_are_logged() {
    let room = tempfile::tempdir().unwrap();
    for (number, kind) in crate::support::kinds().into_iter().enumerate() {
        let (seen, is_seen) = channel();
        let upstream = Upstream::new(2, move |_, mut stream| {
            let head = head(&mut stream).unwrap();
            if head.contains("/half") {
                return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n12345").unwrap();
            }
            tell(&seen, ());
            wait_for_end(&mut stream);
        });
        let path = room.path().join(number.to_string());
        let site = Site::new(&[], |config| {
            set_rules(config, &upstream.rule());
            config.accepting = kind;
            config.log = Some(AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common });
        });
        let mut client = H2::to(&site);
        client.get(1, "/api/silent");
        wait(&is_seen);
        client.write(|out| frame::write_rst_stream(1, Code::CANCEL, out));
        client.get(3, "/api/half");
        assert_eq!(client.response(3).reset, Some(Code::INTERNAL_ERROR));
        drop(client);
        upstream.end();
        site.end();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().map(|line| line.split_once("] ").unwrap().1).collect();
        let expected = ["\"GET /api/silent HTTP/2.0\" 499 -", "\"GET /api/half HTTP/2.0\" 200 5"];
        assert_eq!(lines, expected, "{kind:?}");
    }
}

/// A request whose content was discarded, because its path did not belong to an upstream server then, is not forwarded.
#[test]
fn a_request_whose_content_is_gone_is_not_passed_on() {
    for kind in crate::support::kinds() {
        let upstream = echoes(1);
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("serve.toml");
        std::fs::write(&path, "[[rule]]\npath = '/other/'\n").unwrap();
        let live = Arc::new(LiveRules::read(&path, &[], |_| Vec::new()).unwrap());
        let site = Site::new(&[("file", b"hello")], |config| {
            (config.accepting, config.rules) = (kind, Some(live.clone()));
        });
        let mut client = H2::to(&site);
        client.ask(1, "POST", "/api/", &[("content-length", "4")], false);
        client.data(1, b"ab", false);
        client.ping();
        std::fs::write(&path, upstream.rule()).unwrap();
        site.server().remote().reload_rules();
        client.get(3, "/api/first");
        assert_eq!(client.response(3).status(), "200");
        client.data(1, b"cd", true);
        assert_eq!(client.response(1).reset, Some(Code::REFUSED_STREAM));
        drop(client);
        site.end();
        upstream.end();
    }
}

/// Clients that read nothing of large responses, without enough memory for all.
#[test]
fn a_crowd_of_slow_clients_stays_within_the_memory() {
    const MOST: usize = 1 << 20;
    for kind in crate::support::kinds() {
        let upstream = Upstream::new(200, |_, mut stream| {
            if head(&mut stream).is_some() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
                while stream.write_all(&[b'd'; 1 << 14]).is_ok() {}
            }
        });
        let site = Site::new(&[("file", b"hello")], |config| {
            set_rules(config, &upstream.rule());
            (config.accepting, config.memory_bytes) = (kind, Some(MOST));
        });
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let mut client = H2::with(&site, &[(Setting::InitialWindowSize, 0)], 0);
                (0..10).for_each(|number| client.get(2 * number + 1, "/api/"));
                client
            })
            .collect();
        refuses_within(&site, MOST);
        drop(clients);
        until("memory is not given back", || {
            let totals = site.server().totals();
            totals.held_bytes == 0 && totals.accepted == totals.closed
        });
        assert_eq!(site.get("/file", "").status, 200);
        site.server().end_now();
        drop(upstream);
    }
}

/// A flood of streams that are reset at once ends, and so does everything that was begun for them.
#[test]
fn a_flood_of_resets_ends_with_its_upstream_connections() {
    // The connections are never accepted: the accept queue of the socket is enough.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for site in sites(&[], |config| {
        set_rules(config, &format!("[[rule]]\npath = '/'\nproxy = 'http://{address}'\n"));
    }) {
        let mut client = H2::to(&site);
        let mut out = Vec::new();
        for number in 0..1500 {
            let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "x")];
            client.headers(2 * number + 1, &fields, true, &mut out);
            frame::write_rst_stream(2 * number + 1, Code::CANCEL, &mut out);
            if out.len() > 10_000 {
                client.send(&out);
                out.clear();
            }
        }
        client.send(&out);
        assert_eq!(client.end(), Some(Code::ENHANCE_YOUR_CALM));
        drop(client);
        until("something is held", || {
            let totals = site.server().totals();
            totals.held_bytes == 0 && totals.closed == totals.accepted
        });
    }
}
