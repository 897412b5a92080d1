//! Requests that are forwarded to well-behaved and hostile upstream servers.

use crate::support::{Client, Got, LONG, Site, kinds, refuses_within, set_rules, uninterrupted, until};
use crate::tls;
use landau_reactor::{Backend, ManualClock};
use landau_serve::{Accepting, AccessLog, Config, LiveRules, LogFormat, LogTarget, Networks, SandboxMode, Totals};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// An upstream server, which serves one connection after another.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Upstream {
    /// Serves `count` connections with a function, each in a separate thread. The function gets the connection's
    /// number.
    pub(crate) fn new(count: usize, serve: impl Fn(usize, TcpStream) + Send + Sync + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let served = (0..count).map(|number| {
                let (stream, _) = uninterrupted(|| listener.accept()).unwrap();
                stream.set_read_timeout(Some(LONG)).unwrap();
                stream.set_write_timeout(Some(LONG)).unwrap();
                let serve = serve.clone();
                std::thread::spawn(move || serve(number, stream))
            });
            let served: Vec<_> = served.collect();
            for one in served {
                one.join().unwrap();
            }
        });
        Self { address, thread: Some(thread) }
    }

    /// Returns a server that answers the request on each of `count` connections with the same bytes, and ends the
    /// connection.
    pub(crate) fn says(count: usize, bytes: &'static [u8]) -> Self {
        Self::new(count, move |_, mut stream| {
            if head(&mut stream).is_some() {
                // The server may refuse to read further.
                let _ = stream.write_all(bytes);
            }
        })
    }

    /// Waits until the server has served its connections.
    pub(crate) fn end(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }

    pub(crate) fn rule(&self) -> String {
        format!("[[rule]]\npath = '/api/'\nproxy = 'http://{}'\n", self.address)
    }
}

/// Reads a head; `None` at the end of the stream.
pub(crate) fn head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match uninterrupted(|| stream.read(&mut byte)) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8(head).unwrap())
}

/// Waits until the server has ended a connection.
pub(crate) fn wait_for_end(stream: &mut impl Read) {
    match uninterrupted(|| stream.read(&mut [0])) {
        Ok(0) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => panic!("the connection goes on: {other:?}"),
    }
}

pub(crate) fn read_exactly(stream: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Echoes a request as the content of its response, including the body if the request states its length.
pub(crate) fn echo(stream: &mut (impl Read + Write)) -> bool {
    let Some(mut text) = head(stream) else { return false };
    let has_content = !text.starts_with("HEAD ");
    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map(str::to_owned);
    if let Some(length) = length {
        text += &String::from_utf8(read_exactly(stream, length.parse().unwrap())).unwrap();
    }
    let answer = format!("HTTP/1.1 200 Fine\r\nContent-Length: {}\r\nX-A: b\r\n\r\n", text.len());
    let content = if has_content { &text } else { "" };
    stream.write_all([&answer, content].concat().as_bytes()).unwrap();
    true
}

pub(crate) fn echoes(count: usize) -> Upstream {
    Upstream::new(count, |_, mut stream| while echo(&mut stream) {})
}

/// Returns a server of one kind that forwards requests for paths below `/api/`.
fn site(kind: Accepting, rules: &str, change: impl FnOnce(&mut Config)) -> Site {
    Site::new(&[("file", b"hello")], |config| {
        config.accepting = kind;
        set_rules(config, rules);
        change(config);
    })
}

fn ask(client: &mut Client, line: &str, rest: &str) -> Option<Got> {
    client.send(format!("{line} HTTP/1.1\r\nHost: x:8080\r\n{rest}").as_bytes());
    client.answer_of(!line.starts_with("HEAD"))
}

/// Waits until the server's counters satisfy a condition; returns them.
fn counted(site: &Site, is_so: impl Fn(&Totals) -> bool) -> Totals {
    until("the counters", || is_so(&site.server().totals()));
    site.server().totals()
}

#[test]
fn a_request_is_written_anew() {
    for kind in kinds() {
        let upstream = echoes(1);
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        let fields = "Cookie: a=b\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nTE: trailers\r\n\
             X-Forwarded-For: 6.6.6.6\r\nx_forwarded_host: evil\r\nX-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\n\
             Proxy-Authorization: x\r\nVia: 1.0 y\r\nExpect:\r\nAccept: */*\r\n\r\n";
        let got = ask(&mut client, "GET /api/a%20b/../c;d?e=/../f", fields).unwrap();
        assert_eq!((got.status, got.field("X-A")), (200, Some("b")), "{}", got.head);
        assert!(got.head.starts_with("HTTP/1.1 200 Fine\r\n") && got.field("Date").is_some(), "{}", got.head);
        let expected = "GET /api/c%3Bd?e=/../f HTTP/1.1\r\nHost: x:8080\r\nCookie: a=b\r\nExpect: \r\n\
             Accept: */*\r\nVia: 1.0 y, 1.1 landau\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n\
             X-Forwarded-Host: x:8080\r\n\r\n";
        assert_eq!(String::from_utf8(got.body).unwrap(), expected);
        // The same connections on both sides; files are served in between.
        assert_eq!(ask(&mut client, "GET /file", "\r\n").unwrap().body, b"hello");
        let again = ask(&mut client, "HEAD /api/x", "\r\n").unwrap();
        let length = "HEAD /api/x HTTP/1.1\r\nHost: x:8080\r\nVia: 1.1 landau\r\nX-Forwarded-For: 127.0.0.1\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Host: x:8080\r\n\r\n"
            .len()
            .to_string();
        assert_eq!((again.status, again.field("Content-Length")), (200, Some(&length[..])), "{}", again.head);
        // Nothing follows the head.
        assert_eq!(ask(&mut client, "GET /file", "\r\n").unwrap().body, b"hello");
        drop(client);
        let totals = site.end();
        assert_eq!((totals.upstream_connections, totals.upstream_reuses, totals.upstream_errors), (1, 1, 0));
        upstream.end();
    }
}

/// Sends a request on a separate connection and reads everything. Returns it without the date, and with
/// `U+FFFD` in place of invalid UTF-8.
fn all(site: &Site, request: &str) -> String {
    let mut client = site.connect();
    client.send(request.as_bytes());
    let mut got = Vec::new();
    let _ = uninterrupted(|| client.stream.read_to_end(&mut got));
    let got = String::from_utf8_lossy(&got).into_owned();
    let lines = got.split_inclusive("\r\n").filter(|line| !line.starts_with("Date: "));
    lines.collect::<String>().replace("\r\n", "|")
}

#[test]
fn responses_are_framed_for_the_client() {
    const GET: &str = "GET /api/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    const OLD: &str = "GET /api/ HTTP/1.0\r\n\r\n";
    const HEAD: &str = "HEAD /api/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let cases: &[(&[u8], &str, &str)] = &[
        (
            b"HTTP/1.1 201 Made It\r\nContent-Length: 2\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n\r\nokGARBAGE",
            GET,
            "HTTP/1.1 201 Made It|Set-Cookie: a|Set-Cookie: b|Content-Length: 2|Connection: close||ok",
        ),
        (
            b"HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\nX: y\n\n2;a=b\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\n",
            GET,
            "HTTP/1.1 200 OK|X: y|Transfer-Encoding: chunked|Connection: close||2|ab|1|c|0||",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            OLD,
            "HTTP/1.1 200 OK|Connection: close||abc",
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nabc", GET, "HTTP/1.1 200 OK|Transfer-Encoding: chunked|Connection: close||3|abc|0||"),
        (b"HTTP/1.0 200 OK\r\n\r\nabc", OLD, "HTTP/1.1 200 OK|Connection: close||abc"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", GET, "HTTP/1.1 204 No Content|Connection: close||"),
        (
            b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n",
            GET,
            "HTTP/1.1 304 Not Modified|ETag: x|Content-Length: 7|Connection: close||",
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
            HEAD,
            "HTTP/1.1 200 OK|Content-Length: 7|Connection: close||",
        ),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            GET,
            "HTTP/1.1 103 Early Hints|Link: x||HTTP/1.1 200 OK|Content-Length: 0|Connection: close||",
        ),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            OLD,
            "HTTP/1.1 200 OK|Content-Length: 0|Connection: close||",
        ),
        (
            b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nUpgrade: h2c\r\n\
              Content-Length: 1\r\n\r\nx",
            GET,
            "HTTP/1.1 200 OK|Content-Length: 1|Connection: close||x",
        ),
    ];
    for kind in kinds() {
        for (said, request, expected) in cases {
            let upstream = Upstream::says(1, said);
            let site = site(kind, &upstream.rule(), |_| {});
            assert_eq!(all(&site, request), *expected, "{kind:?} {} {request}", said.escape_ascii());
            upstream.end();
        }
    }
}

/// A response that could be read in two ways, or is not HTTP, becomes a 502 and never reaches the client.
#[test]
fn what_is_no_response_is_refused() {
    let huge: &'static [u8] =
        Box::leak([b"HTTP/1.1 200 OK\r\n", &b"X: yyyyyyyyyyyyyyyy\r\n".repeat(6000)[..]].concat().into_boxed_slice());
    let cases: &[&[u8]] = &[
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX Y: z\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nZZ",
        huge,
    ];
    for kind in kinds() {
        for said in cases {
            let upstream = Upstream::says(1, said);
            let rules = upstream.rule() + "error-pages = { 502 = '/502.html' }\nset-headers = { X-A = 'b' }\n";
            let site = Site::new(&[("502.html", b"broken")], |config| {
                config.accepting = kind;
                set_rules(config, &rules);
            });
            let got = site.get("/api/x", "");
            let said = said.get(..60).unwrap_or(said).escape_ascii();
            assert_eq!((got.status, &got.body[..]), (502, &b"broken"[..]), "{kind:?} {said}");
            assert_eq!(got.field("X-A"), Some("b"));
            let totals = site.end();
            assert_eq!((totals.upstream_errors, totals.server_errors), (1, 1), "{kind:?} {said}");
            upstream.end();
        }
    }
}

/// A response that ends before it is complete must not look complete.
#[test]
fn half_a_response_ends_the_connection() {
    for kind in kinds() {
        for (said, got) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"[..], "Content-Length: 9||hello"),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
                "Transfer-Encoding: chunked||5|hello|",
            ),
            (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                "Transfer-Encoding: chunked||5|hello|",
            ),
        ] {
            let upstream = Upstream::new(1, move |_, mut stream| {
                head(&mut stream);
                stream.write_all(said).unwrap();
            });
            let site = site(kind, &upstream.rule(), |_| {});
            let all = all(&site, "GET /api/ HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(all, format!("HTTP/1.1 200 OK|{got}"), "{kind:?}");
            assert_eq!(site.end().upstream_errors, 1);
            upstream.end();
        }
    }
}

/// Valid bytes that arrived together with a malformed chunk were once discarded.
#[test]
fn what_precedes_a_malformed_chunk_is_passed_on() {
    for kind in kinds() {
        let (go, gone) = mpsc::channel::<()>();
        let gone = Arc::new(Mutex::new(gone));
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").unwrap();
            gone.lock().unwrap().recv().unwrap();
            stream.write_all(b"3\r\nabc\r\nZZ").unwrap();
            wait_for_end(&mut stream);
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        client.send(b"GET /api/ HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut got = Vec::new();
        while !got.ends_with(b"hello\r\n") {
            let mut buffer = [0; 999];
            let count = client.read_some(&mut buffer);
            assert!(count > 0);
            got.extend_from_slice(&buffer[..count]);
        }
        go.send(()).unwrap();
        got.clear();
        client.stream.read_to_end(&mut got).unwrap();
        assert_eq!(got.escape_ascii().to_string(), "3\\r\\nabc\\r\\n", "{kind:?}");
        drop(client);
        let totals = site.end();
        assert_eq!((totals.upstream_errors, totals.requests), (1, 1), "{kind:?}");
        upstream.end();
    }
}

/// For HTTP/1.0, the end of the connection is the end of the body, so the connection is reset instead.
#[test]
fn half_a_response_without_a_length_is_reset() {
    for kind in kinds() {
        let (go, gone) = mpsc::channel::<()>();
        let gone = Arc::new(Mutex::new(gone));
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").unwrap();
            gone.lock().unwrap().recv().unwrap();
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        client.send(b"GET /api/ HTTP/1.0\r\n\r\n");
        let mut got = Vec::new();
        while !got.ends_with(b"hello") {
            let mut buffer = [0; 999];
            let count = client.read_some(&mut buffer);
            assert!(count > 0);
            got.extend_from_slice(&buffer[..count]);
        }
        go.send(()).unwrap();
        let error = uninterrupted(|| client.stream.read(&mut [0; 9])).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{kind:?}");
        upstream.end();
    }
}

/// An end of the TLS session would mark the content as complete.
#[test]
fn half_a_response_without_a_length_has_no_end_of_tls() {
    for kind in kinds() {
        let (go, gone) = mpsc::channel::<()>();
        let gone = Arc::new(Mutex::new(gone));
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").unwrap();
            gone.lock().unwrap().recv().unwrap();
        });
        let site = tls::site(kind, b"", |config| set_rules(config, &upstream.rule()));
        let mut client = tls::get_established(&site);
        client.write_all(b"GET /api/ HTTP/1.0\r\n\r\n").unwrap();
        assert!(head(&mut client).unwrap().starts_with("HTTP/1.1 200 "));
        assert_eq!(read_exactly(&mut client, 5), b"hello");
        go.send(()).unwrap();
        let end = uninterrupted(|| client.read(&mut [0; 9]));
        assert!(end.is_err(), "{kind:?}: {end:?}");
        upstream.end();
    }
}

#[test]
fn bodies_are_passed_on_whole() {
    let body: String = (0..400_000).map(|number| char::from(b'a' + (number % 26) as u8)).collect();
    let chunks: String = body.as_bytes().chunks(7777).fold(String::new(), |all, chunk| {
        all + &format!("{:x};x=y\r\n{}\r\n", chunk.len(), str::from_utf8(chunk).unwrap())
    }) + "0\r\nTrailer: x\r\n\r\n";
    for kind in kinds() {
        let expected = body.clone();
        let upstream = Upstream::new(1, move |_, mut stream| {
            for _ in 0..3 {
                let head = head(&mut stream).unwrap();
                let mut got = String::new();
                if head.contains("Transfer-Encoding: chunked\r\n") {
                    assert!(!head.contains("Content-Length"), "{head}");
                    loop {
                        let mut line = Vec::new();
                        while !line.ends_with(b"\r\n") {
                            line.extend(read_exactly(&mut stream, 1));
                        }
                        let size = str::from_utf8(&line[..line.len() - 2]).unwrap();
                        let size = usize::from_str_radix(size, 16).unwrap();
                        got += str::from_utf8(&read_exactly(&mut stream, size)).unwrap();
                        assert_eq!(read_exactly(&mut stream, 2), b"\r\n");
                        if size == 0 {
                            break;
                        }
                    }
                } else {
                    assert!(head.contains(&format!("Content-Length: {}\r\n", expected.len())), "{head}");
                    got = String::from_utf8(read_exactly(&mut stream, expected.len())).unwrap();
                }
                assert!(got == expected);
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        let with_length = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{chunks}");
        // The next request arrives together with the end of the previous one.
        let requests =
            format!("POST /api/ HTTP/1.1\r\nHost: x\r\n{with_length}PUT /api/ HTTP/1.1\r\nHost: x\r\n{chunked}");
        client.send(requests.as_bytes());
        assert_eq!(client.answer().unwrap().body, b"ok");
        assert_eq!(client.answer().unwrap().body, b"ok");
        assert_eq!(ask(&mut client, "PATCH /api/", &with_length).unwrap().body, b"ok");
        assert_eq!(ask(&mut client, "GET /file", "\r\n").unwrap().body, b"hello");
        upstream.end();
        assert_eq!(site.end().upstream_connections, 1, "{kind:?}");
    }
}

#[test]
fn a_client_may_wait_until_it_may_send() {
    for kind in kinds() {
        let upstream = Upstream::new(2, |number, mut stream| {
            let head = head(&mut stream).unwrap();
            assert!(head.contains("Expect: 100-continue\r\n"), "{head}");
            if number == 0 {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
                assert_eq!(read_exactly(&mut stream, 3), b"abc");
                stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").unwrap();
            } else {
                stream.write_all(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno").unwrap();
            }
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let fields = "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        let mut client = site.connect();
        let interim = ask(&mut client, "POST /api/", fields).unwrap();
        assert_eq!(interim.head, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send(b"abc");
        assert_eq!(client.answer().unwrap().body, b"ok");
        let mut refused = site.connect();
        let got = ask(&mut refused, "POST /api/", fields).unwrap();
        assert_eq!((got.status, got.field("Connection")), (413, Some("close")));
        assert!(refused.is_ended());
        upstream.end();
    }
}

/// The upstream server is slow, and the client has its full timeout after it may send.
#[test]
fn a_client_that_waits_until_it_may_send_is_not_late() {
    for kind in kinds() {
        let ((seen, is_seen), (go, gone)) = (mpsc::channel(), mpsc::channel::<()>());
        let both = Arc::new(Mutex::new((seen, gone)));
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream).unwrap();
            let (seen, gone) = &*both.lock().unwrap();
            seen.send(()).unwrap();
            gone.recv().unwrap();
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
            assert_eq!(read_exactly(&mut stream, 3), b"abc");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        });
        let clock = ManualClock::default();
        let site = site(kind, &upstream.rule(), |config| config.clock = Some(clock.clone()));
        let mut client = site.connect();
        client.send(b"POST /api/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        is_seen.recv().unwrap();
        for seconds in [19, 6, 14] {
            clock.advance(Duration::from_secs(seconds));
            // When this is answered, the deadlines that have passed have been handled.
            assert_eq!(site.get("/file", "").status, 200, "{kind:?}");
        }
        go.send(()).unwrap();
        assert_eq!(client.answer().unwrap().head, "HTTP/1.1 100 Continue\r\n\r\n", "{kind:?}");
        clock.advance(Duration::from_secs(15));
        assert_eq!(site.get("/file", "").status, 200, "{kind:?}");
        client.send(b"abc");
        assert_eq!(client.answer().unwrap().body, b"ok", "{kind:?}");
        upstream.end();
        assert_eq!(site.end().heads_late, 0, "{kind:?}");
    }
}

/// Neither side is read faster than the other one reads.
#[test]
fn slow_sides_bound_what_is_held() {
    const BYTES: usize = 24 << 20;
    for kind in kinds() {
        let (go, gone) = mpsc::channel::<()>();
        let gone = Arc::new(Mutex::new(gone));
        let upstream = Upstream::new(1, move |_, mut stream| {
            let length = format!("Content-Length: {BYTES}\r\n\r\n");
            assert!(head(&mut stream).unwrap().contains(&length[..length.len() - 4]));
            gone.lock().unwrap().recv().unwrap();
            for _ in 0..BYTES >> 16 {
                assert!(read_exactly(&mut stream, 1 << 16).iter().all(|&byte| byte == b'u'));
            }
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{length}").as_bytes()).unwrap();
            for _ in 0..BYTES >> 14 {
                stream.write_all(&[b'd'; 1 << 14]).unwrap();
            }
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        let mut sender = client.stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            sender
                .write_all(format!("POST /api/ HTTP/1.1\r\nHost: x\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes())?;
            (0..BYTES >> 14).try_for_each(|_| sender.write_all(&[b'u'; 1 << 14]))
        });
        let held = || site.held();
        until("the upload does not arrive", || held() > 32 << 10);
        go.send(()).unwrap();
        sending.join().unwrap().unwrap();
        let (mut most, mut got, mut buffer) = (0, Vec::new(), vec![0; 1 << 20]);
        let content = |got: &[u8]| got.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        while content(&got).is_none_or(|at| got.len() < at + BYTES) {
            most = most.max(held());
            let count = client.read_some(&mut buffer);
            assert!(count > 0, "{kind:?}: {}", got.len());
            got.extend_from_slice(&buffer[..count]);
        }
        let content = content(&got).unwrap();
        assert!(got.len() == content + BYTES && got[content..].iter().all(|&byte| byte == b'd'), "{kind:?}");
        assert!(most < 1 << 20, "{kind:?}: {most}");
        upstream.end();
    }
}

/// An upstream server that answers while it still reads, and a client that reads only after it has sent everything.
#[test]
fn both_directions_flow_at_once() {
    const BYTES: usize = 40 << 20;
    for kind in kinds() {
        let upstream = Upstream::new(1, |_, mut stream| {
            head(&mut stream).unwrap();
            stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes()).unwrap();
            let mut sender = stream.try_clone().unwrap();
            let sending = std::thread::spawn(move || sender.write_all(&vec![b'd'; BYTES]).unwrap());
            read_exactly(&mut stream, BYTES);
            sending.join().unwrap();
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        client.send(format!("POST /api/ HTTP/1.1\r\nHost: x\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes());
        client.stream.write_all(&vec![b'u'; BYTES]).unwrap();
        assert_eq!(client.answer().unwrap().body.len(), BYTES, "{kind:?}");
        upstream.end();
    }
}

/// A kept connection may have ended. A request that changes nothing is sent again; any other may already have been
/// executed.
#[test]
fn a_kept_connection_that_has_ended_costs_one_retry() {
    for kind in kinds() {
        for (line, body, expected) in [
            ("GET /api/", "\r\n", 200),
            ("DELETE /api/", "\r\n", 200),
            ("POST /api/", "Content-Length: 0\r\n\r\n", 502),
            ("PUT /api/", "Content-Length: 1\r\n\r\nx", 502),
        ] {
            let upstream = Upstream::new(if expected == 200 { 2 } else { 1 }, |number, mut stream| {
                assert!(echo(&mut stream));
                // The first connection ends as soon as it has a second request.
                if number == 0 {
                    head(&mut stream);
                }
            });
            let site = site(kind, &upstream.rule(), |_| {});
            let mut client = site.connect();
            assert_eq!(ask(&mut client, "GET /api/", "\r\n").unwrap().status, 200);
            assert_eq!(ask(&mut client, line, body).unwrap().status, expected, "{kind:?} {line}");
            upstream.end();
            let totals = site.end();
            assert_eq!((totals.upstream_retries, totals.upstream_reuses), (u64::from(expected == 200), 1));
        }
        // A new connection that ends is not a reason to try another one.
        let upstream = Upstream::new(1, |_, mut stream| drop(head(&mut stream)));
        let site = site(kind, &upstream.rule(), |_| {});
        assert_eq!(site.get("/api/", "").status, 502);
        assert_eq!(site.end().upstream_retries, 0);
        upstream.end();
    }
}

/// Each response was once sent from within the sending of the previous one, until the stack was full.
#[test]
fn requests_behind_a_failure_at_once_do_not_pile_up() {
    for kind in kinds() {
        let site = site(kind, "[[rule]]\npath = '/api/'\nproxy = 'unix:/nowhere/app.sock'\n", |_| {});
        let mut client = site.connect();
        client.send(&b"GET /api/ HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1500));
        for _ in 0..1500 {
            assert_eq!(client.answer().unwrap().status, 502);
        }
        assert_eq!(ask(&mut client, "GET /file", "\r\n").unwrap().body, b"hello");
        assert_eq!(site.end().upstream_errors, 1500);
    }
}

/// Such a request was once sent again, and the bytes of the first response were treated as the beginning of the second
/// one.
#[test]
fn a_kept_connection_that_says_something_else_is_not_asked_again() {
    for kind in kinds() {
        for bad in [&b"garbage\r\n"[..], b"HTTP/1.1 200 OK\r\nX Y: z\r\nContent-Length: 9\r\n\r\n"] {
            let upstream = Upstream::new(1, move |_, mut stream| {
                assert!(echo(&mut stream));
                head(&mut stream).unwrap();
                stream.write_all(bad).unwrap();
                wait_for_end(&mut stream);
            });
            let site = site(kind, &upstream.rule(), |_| {});
            let mut client = site.connect();
            assert_eq!(ask(&mut client, "GET /api/", "\r\n").unwrap().status, 200, "{kind:?}");
            assert_eq!(ask(&mut client, "GET /api/", "\r\n").unwrap().status, 502, "{kind:?}");
            upstream.end();
            assert_eq!(site.end().upstream_retries, 0, "{kind:?}");
        }
    }
}

/// A connection that ends while no request is under way is closed here, and no request is lost.
#[test]
fn an_ended_connection_is_not_kept() {
    for kind in kinds() {
        let (closed, is_closed) = mpsc::channel();
        let closed = Arc::new(Mutex::new(closed));
        let upstream = Upstream::new(3, move |_, mut stream| {
            assert!(echo(&mut stream));
            stream.shutdown(Shutdown::Write).unwrap();
            wait_for_end(&mut stream);
            closed.lock().unwrap().send(()).unwrap();
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        for _ in 0..3 {
            assert_eq!(ask(&mut client, "POST /api/", "Content-Length: 0\r\n\r\n").unwrap().status, 200);
            is_closed.recv_timeout(LONG).unwrap();
        }
        upstream.end();
        assert_eq!(site.end().upstream_reuses, 0);
    }
}

#[test]
fn upstream_servers_have_their_time() {
    const REQUEST: &[u8] = b"GET /api/ HTTP/1.1\r\nHost: x\r\n\r\n";
    const UPLOAD: &[u8] = b"POST /api/ HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n";
    for kind in kinds() {
        // A server that sends nothing, one that sends half a head, and one that never reads.
        for (said, request) in [(&b""[..], REQUEST), (b"HTTP/1.1 200", REQUEST), (b"", UPLOAD)] {
            let (seen, is_seen) = mpsc::channel();
            let seen = Arc::new(Mutex::new(seen));
            let (end, is_over) = mpsc::channel::<()>();
            let is_over = Arc::new(Mutex::new(is_over));
            let upstream = Upstream::new(1, move |_, mut stream| {
                head(&mut stream).unwrap();
                stream.write_all(said).unwrap();
                seen.lock().unwrap().send(()).unwrap();
                let _ = is_over.lock().unwrap().recv();
            });
            let clock = ManualClock::default();
            let rules = format!(
                "[[rule]]\npath = '/'\nproxy = {{ to = 'http://{}', response-timeout = '30s' }}\n",
                upstream.address
            );
            let site = site(kind, &rules, |config| {
                config.clock = Some(clock.clone());
                config.timeouts.send = LONG * 1000;
            });
            let mut client = site.connect();
            client.send(request);
            is_seen.recv().unwrap();
            if request == UPLOAD {
                let mut sender = client.stream.try_clone().unwrap();
                std::thread::spawn(move || while sender.write_all(&[b'u'; 1 << 14]).is_ok() {});
            }
            until("it has no deadline", || {
                clock.advance(Duration::from_secs(15));
                site.server().totals().upstream_errors == 1
            });
            let got = client.answer().unwrap();
            assert_eq!(got.status, 504, "{kind:?} {}", said.escape_ascii());
            drop(end);
            upstream.end();
        }
    }
}

/// The client's own deadline once passed in the same wait as that of the upstream server, and the client was closed as
/// idle after the response.
#[test]
fn a_client_goes_on_after_a_504() {
    for kind in kinds() {
        let (seen, is_seen) = mpsc::channel();
        let seen = Arc::new(Mutex::new(seen));
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream).unwrap();
            seen.lock().unwrap().send(()).unwrap();
            wait_for_end(&mut stream);
        });
        let clock = ManualClock::default();
        let rules = format!(
            "[[rule]]\npath = '/api/'\nproxy = {{ to = 'http://{}', response-timeout = '5s' }}\n",
            upstream.address
        );
        let site = site(kind, &rules, |config| config.clock = Some(clock.clone()));
        let mut client = site.connect();
        client.send(b"GET /api/ HTTP/1.1\r\nHost: x\r\n\r\n");
        is_seen.recv().unwrap();
        // The timeout of a head, which runs from the start of the connection, passes as well.
        clock.advance(Duration::from_secs(15));
        assert_eq!(client.answer().unwrap().status, 504, "{kind:?}");
        assert_eq!(ask(&mut client, "GET /file", "\r\n").unwrap().body, b"hello", "{kind:?}");
        drop(client);
        upstream.end();
        assert_eq!(site.end().idle_closed, 0, "{kind:?}");
    }
}

#[test]
fn a_client_that_stops_sending_gets_408() {
    for kind in kinds() {
        let (seen, is_seen) = mpsc::channel();
        let seen = Arc::new(Mutex::new(seen));
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream).unwrap();
            assert_eq!(read_exactly(&mut stream, 1), b"x");
            seen.lock().unwrap().send(()).unwrap();
            wait_for_end(&mut stream);
        });
        let clock = ManualClock::default();
        let site = site(kind, &upstream.rule(), |config| config.clock = Some(clock.clone()));
        let mut client = site.connect();
        client.send(b"POST /api/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx");
        is_seen.recv().unwrap();
        until("it has no deadline", || {
            clock.advance(Duration::from_secs(5));
            site.server().totals().heads_late == 1
        });
        assert_eq!(client.answer().unwrap().status, 408);
        assert_eq!(site.server().totals().upstream_errors, 0);
        upstream.end();
    }
}

/// The upstream server stops working for a client that has disconnected.
#[test]
fn the_upstream_connection_ends_with_the_client() {
    for kind in kinds() {
        for says in [&b""[..], b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nx"] {
            let (seen, is_seen) = mpsc::channel();
            let seen = Arc::new(Mutex::new(seen));
            let upstream = Upstream::new(1, move |_, mut stream| {
                head(&mut stream).unwrap();
                stream.write_all(says).unwrap();
                seen.lock().unwrap().send(()).unwrap();
                wait_for_end(&mut stream);
            });
            let site = site(kind, &upstream.rule(), |_| {});
            let mut client = site.connect();
            client.send(b"GET /api/ HTTP/1.1\r\nHost: x\r\n\r\n");
            is_seen.recv().unwrap();
            drop(client);
            upstream.end();
            let totals = counted(&site, |totals| totals.closed == 1);
            assert_eq!((totals.upstream_errors, totals.upstream_retries), (0, 0));
        }
    }
}

/// Max-Forwards (RFC 9110 section 7.6.2).
#[test]
fn options_are_passed_on_so_many_times() {
    for kind in kinds() {
        let upstream = echoes(1);
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        assert_eq!(ask(&mut client, "OPTIONS /api/", "Max-Forwards: 0\r\n\r\n").unwrap().status, 204, "{kind:?}");
        let got = ask(&mut client, "OPTIONS /api/", "Max-Forwards: 5\r\n\r\n").unwrap();
        let text = String::from_utf8(got.body).unwrap();
        assert!(text.contains("\r\nMax-Forwards: 4\r\n"), "{kind:?}: {text}");
        let got = ask(&mut client, "GET /api/", "Max-Forwards: 5\r\n\r\n").unwrap();
        assert!(String::from_utf8(got.body).unwrap().contains("\r\nMax-Forwards: 5\r\n"), "{kind:?}");
        drop((client, site));
        upstream.end();
    }
}

#[test]
fn an_upstream_server_that_is_not_there_is_502() {
    for kind in kinds() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let rules = format!(
            "[[rule]]\npath = '/tcp/'\nproxy = 'http://127.0.0.1:{port}'\n\
             [[rule]]\npath = '/unix/'\nproxy = 'unix:/nowhere/at.all'\n"
        );
        let site = site(kind, &rules, |_| {});
        let mut client = site.connect();
        for target in ["/tcp/", "/unix/", "/tcp/"] {
            assert_eq!(ask(&mut client, &format!("GET {target}"), "\r\n").unwrap().status, 502, "{kind:?} {target}");
        }
        assert_eq!(ask(&mut client, "GET /file", "\r\n").unwrap().body, b"hello");
        let got = ask(&mut client, "POST /tcp/", "Content-Length: 1\r\n\r\nx").unwrap();
        assert_eq!((got.status, got.field("Connection")), (502, None), "the body has come");
        assert_eq!(site.end().upstream_errors, 4);
    }
}

#[test]
fn the_other_rules_apply() {
    let users = tempfile::NamedTempFile::new().unwrap();
    // "test", by htpasswd -B -C 4.
    let hash = bcrypt_of_test();
    std::fs::write(users.path(), format!("alice:{hash}\n")).unwrap();
    for kind in kinds() {
        let upstream = Upstream::new(1, |_, mut stream| {
            while let Some(head) = head(&mut stream) {
                assert!(head.contains("/api/") && !head.contains("/api/no"), "{head}");
                let fields = "X-Frame-Options: ALLOW\r\nServer: s\r\nAccess-Control-Allow-Origin: *\r\nX-B: 1\r\n";
                stream.write_all(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n").as_bytes()).unwrap();
            }
        });
        let rules = format!(
            "{}set-headers = {{ X-Frame-Options = 'DENY' }}\nremove-headers = 'Server'\nadd-headers = {{ X-B = '2' }}\n\
             [[rule]]\npath = '/api/no/'\ndeny = '127.0.0.1'\n\
             [[rule]]\npath = '/api/login/'\nauth = {{ users = '{}' }}\n\
             [[rule]]\npath = '/api/rare'\nrate = '1/h'\nburst = 0\n\
             [[rule]]\npath = '/api/cors'\ncors = {{ origins = 'https://a.example' }}\n\
             [[rule]]\npath = '/api/static/'\nproxy = false\n\
             [[rule]]\npath = '/api/moved'\nredirect = '/file'\n",
            upstream.rule(),
            users.path().display()
        );
        let site = Site::new(&[("api/static/x", b"static")], |config| {
            config.accepting = kind;
            set_rules(config, &rules);
        });
        let mut client = site.connect();
        let mut ask = |line: &str, rest: &str| ask(&mut client, line, rest).unwrap();
        let got = ask("GET /api/", "\r\n");
        assert_eq!((got.status, got.field("X-Frame-Options"), got.field("Server")), (200, Some("DENY"), None));
        assert_eq!(got.head.matches("X-B: ").count(), 2, "{}", got.head);
        for method in ["GET", "DELETE", "OPTIONS", "PURGE"] {
            assert_eq!(ask(&format!("{method} /api/x"), "\r\n").status, 200, "{method}");
            assert_eq!(ask(&format!("{method} /api/no/x"), "\r\n").status, 403, "{method}");
        }
        assert_eq!(ask("POST /api/no/x", "Content-Length: 3\r\n\r\nabc").status, 403);
        assert_eq!(ask("GET /api/login/", "\r\n").status, 401);
        assert_eq!(
            ask("POST /api/login/", "Authorization: Basic YWxpY2U6dGVzdA==\r\nContent-Length: 0\r\n\r\n").status,
            200
        );
        let post = "Authorization: Basic YWxpY2U6dGVzdA==\r\nContent-Length: 0\r\n\r\n";
        assert_eq!([ask("PUT /api/login/", post).status, ask("GET /api/rare", "\r\n").status], [200, 200]);
        assert_eq!(ask("GET /api/rare", "\r\n").status, 429);
        let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n";
        let got = ask("OPTIONS /api/cors", preflight);
        assert_eq!((got.status, got.field("Access-Control-Allow-Methods")), (204, Some("GET, HEAD")));
        let got = ask("GET /api/cors", "Origin: https://a.example\r\n\r\n");
        assert_eq!(got.field("Access-Control-Allow-Origin"), Some("https://a.example"));
        assert_eq!(got.head.matches("Access-Control-Allow-Origin").count(), 1);
        assert_eq!(ask("GET /api/static/x", "\r\n").body, b"static");
        assert_eq!(ask("GET /api/moved", "\r\n").status, 302);
        assert_eq!([ask("TRACE /api/", "\r\n").status, ask("POST /api/static/x", "\r\n").status], [405, 405]);
        // A body that has not arrived is not waited for.
        let got = ask("POST /api/no/x", "Content-Length: 99\r\n\r\nabc");
        assert_eq!((got.status, got.field("Connection")), (403, Some("close")));
        drop(client);
        site.end();
        upstream.end();
    }
}

/// Names with an encoded slash, such as `@scope%2fname` of npm, reach an upstream server whose rule says so. No rule is
/// evaded by writing a slash as `%2F`.
#[test]
fn names_with_an_encoded_slash_are_passed_on_if_a_rule_says_so() {
    for kind in kinds() {
        let upstream = echoes(1);
        let proxy =
            |more: &str| format!("proxy = {{ to = 'http://{}', encoded-slash = true{more} }}\n", upstream.address);
        let rules = format!(
            "[[rule]]\npath = '/api/'\n{}\
             [[rule]]\npath = '/map/'\n{}\
             [[rule]]\npath = ['/api/no/', '/api/shut/x', '/api/*/admin/']\ndeny = '127.0.0.1'\n\
             [[rule]]\npath = '/cors/'\ncors = {{ origins = 'https://a.example', methods = 'PUT' }}\n{}\
             [[rule]]\npath = '/strict/'\nproxy = 'http://{}'\n",
            proxy(""),
            proxy(", path = '/deep/{rest}'"),
            proxy(""),
            upstream.address
        );
        let site = site(kind, &rules, |_| {});
        let mut client = site.connect();
        for (path, expected) in [
            ("/api/@scope%2fname", "/api/@scope%2fname"),
            ("/api/x/..//a%2Fb%20c/./?d=%2f", "/api/a%2Fb%20c/?d=%2f"),
            ("/api/http%3A%2F%2Fx%2f", "/api/http%3A%2F%2Fx%2f"),
            ("/api/a%2fb\\c", "/api/a%2fb%5Cc"),
            ("/map/a%2fb/c", "/deep/a%2fb/c"),
            ("/api/a%252fb", "/api/a%252fb"),
        ] {
            for (method, rest) in [("GET", "\r\n"), ("PUT", "Content-Length: 2\r\n\r\nhi"), ("PURGE", "\r\n")] {
                let got = ask(&mut client, &format!("{method} {path}"), rest).unwrap();
                let line = format!("{method} {expected} HTTP/1.1\r\n");
                assert!(
                    got.status == 200 && got.body.starts_with(line.as_bytes()),
                    "{kind:?} {method} {path}: {got:?}"
                );
            }
        }
        for (path, status) in [
            // An upstream server that takes it for a slash would find another path.
            ("/api/a%2f..%2fno", 404),
            ("/api/%2e%2e%2fno", 404),
            ("/api/.%2fno", 404),
            // It would find a path that other rules match.
            ("/api/no%2fx", 404),
            ("/api/%2fno/x", 404),
            ("/api/NO%2Fx", 404),
            ("/api/shut%2fx.gz", 404),
            ("/api/shut/x.gz", 403),
            ("/api/x%252Fy/admin/z", 403),
            ("/api/no/x%2fy", 403),
            ("/strict/a%2fb", 404),
        ] {
            for (method, rest) in [("GET", "\r\n"), ("OPTIONS", "\r\n"), ("PUT", "Content-Length: 2\r\n\r\nhi")] {
                let got = ask(&mut client, &format!("{method} {path}"), rest).unwrap();
                assert_eq!(got.status, status, "{kind:?} {method} {path}");
            }
        }
        // These are answered here, whatever the path.
        let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: PUT\r\n\r\n";
        assert_eq!(ask(&mut client, "OPTIONS /cors/a%2fb", preflight).unwrap().status, 204, "{kind:?}");
        assert_eq!(ask(&mut client, "OPTIONS /api/a%2fb", "Max-Forwards: 0\r\n\r\n").unwrap().status, 204, "{kind:?}");
        // No rule matches these; in the last, `%2F` would stand for two things.
        for path in ["/a%2fb", "/api%2fx", "/api/x%252Fy%2Fadmin/z"] {
            assert_eq!(ask(&mut client, &format!("GET {path}"), "\r\n").unwrap().status, 404);
        }
        drop(client);
        site.end();
        upstream.end();
    }
}

/// A rule that set `Cache-Control` once removed the `no-store` of errors without a replacement.
#[test]
fn errors_keep_what_they_say_about_freshness() {
    let said = "Cache-Control: no-store\r\nPragma: no-cache\r\nX-B: 1\r\nContent-Length: 0\r\n\r\n";
    for kind in kinds() {
        let upstream = Upstream::new(1, move |_, mut stream| {
            while let Some(head) = head(&mut stream) {
                let status = if head.contains("/api/none") { "404 Not Found" } else { "200 OK" };
                stream.write_all(format!("HTTP/1.1 {status}\r\n{said}").as_bytes()).unwrap();
            }
        });
        let rules = format!(
            "{}set-headers = {{ cache-control = 'max-age=60', X-B = '2' }}\nremove-headers = 'Pragma'\n",
            upstream.rule()
        );
        let site = site(kind, &rules, |_| {});
        let mut client = site.connect();
        for (path, freshness) in [("/api/a", "max-age=60"), ("/api/none", "no-store")] {
            let got = ask(&mut client, &format!("GET {path}"), "\r\n").unwrap();
            assert_eq!(got.field("Cache-Control"), Some(freshness), "{path}");
            assert_eq!(got.head.to_lowercase().matches("cache-control: ").count(), 1, "{}", got.head);
            assert_eq!((got.field("Pragma"), got.field("X-B")), (None, Some("2")), "{path}");
        }
        drop(client);
        site.end();
        upstream.end();
    }
}

pub(crate) fn bcrypt_of_test() -> String {
    let output = std::process::Command::new("openssl").args(["passwd", "-5", "-salt", "abcdefgh", "test"]).output();
    String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
}

#[test]
fn a_websocket_is_a_tunnel() {
    for kind in kinds() {
        let upstream = Upstream::new(2, |number, mut stream| {
            let head = head(&mut stream).unwrap();
            assert_eq!(head.contains("Connection: Upgrade\r\nUpgrade: websocket\r\n"), number == 0, "{head}");
            if number == 1 {
                assert!(!head.contains("pgrade") && !head.contains("HTTP2-Settings"), "{head}");
                return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").unwrap();
            }
            let switched =
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX: y\r\n\r\n";
            stream.write_all([switched, "first"].concat().as_bytes()).unwrap();
            assert_eq!(read_exactly(&mut stream, 4), b"ping");
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
            assert_eq!(read_exactly(&mut stream, 4), b"\r\n\r\n");
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        let got =
            ask(&mut client, "GET /api/", "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n").unwrap();
        assert_eq!((got.status, got.field("Upgrade"), got.field("X")), (101, Some("websocket"), Some("y")));
        let mut got = [0; 5];
        client.send(b"ping");
        let mut all = Vec::new();
        while !all.ends_with(b"\r\n\r\n") {
            let count = client.read_some(&mut got);
            assert!(count > 0);
            all.extend_from_slice(&got[..count]);
        }
        // The test's client has read the first bytes with the head.
        assert!(String::from_utf8(all).unwrap().ends_with("GET / HTTP/1.1\r\n\r\n"));
        client.send(b"\r\n\r\n");
        assert_eq!(client.read_some(&mut got), 0);
        let h2c =
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";
        assert_eq!(ask(&mut site.connect(), "GET /api/", h2c).unwrap().body, b"no");
        upstream.end();
    }
}

/// A WebSocket client may be sending when the other side ends. Its frame once arrived at a closed connection, and what
/// it had not read yet was discarded.
#[test]
fn the_last_words_of_a_websocket_arrive() {
    const LAST: usize = 600_000;
    for kind in kinds() {
        let upstream = Upstream::new(1, |_, mut stream| {
            head(&mut stream).unwrap();
            let switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            stream.write_all(switched.as_bytes()).unwrap();
            stream.write_all(&vec![b'x'; LAST]).unwrap();
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        let got = ask(&mut client, "GET /api/", "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
        assert_eq!(got.status, 101);
        upstream.end();
        counted(&site, |totals| totals.bytes_sent > LAST as u64);
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..2 {
            client.send(b"ping");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut buffer = vec![0; 64 << 10];
        let mut count = client.take_unread();
        loop {
            // A reset is an error here.
            match client.read_some(&mut buffer) {
                0 => break,
                more => count += more,
            }
        }
        assert_eq!(count, LAST, "{kind:?}");
    }
}

/// A client may send frames before it has read the response. They once stayed in the server until the connection ended.
#[test]
fn what_a_websocket_sends_early_is_passed_on() {
    for kind in kinds() {
        let upstream = Upstream::new(1, |_, mut stream| {
            head(&mut stream).unwrap();
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                .unwrap();
            assert_eq!(read_exactly(&mut stream, 9), b"earlylate");
            stream.write_all(b"both").unwrap();
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        let request = "GET /api/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly";
        client.send(request.as_bytes());
        assert_eq!(client.answer().unwrap().status, 101);
        client.send(b"late");
        let mut got = Vec::new();
        while got.len() < 4 {
            let mut buffer = [0; 9];
            let count = client.read_some(&mut buffer);
            assert!(count > 0, "{kind:?}");
            got.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(got, b"both", "{kind:?}");
        upstream.end();
    }
}

/// One byte before each deadline once kept a connection here and one to the upstream server open for ever.
#[test]
fn a_client_that_sends_its_body_byte_by_byte_gets_408() {
    for kind in kinds() {
        let (seen, is_seen) = mpsc::channel();
        let seen = Arc::new(Mutex::new(seen));
        let upstream = Upstream::new(1, move |_, mut stream| {
            head(&mut stream).unwrap();
            while let Ok(1) = uninterrupted(|| stream.read(&mut [0])) {
                let _ = seen.lock().unwrap().send(());
            }
        });
        let clock = ManualClock::default();
        let site = site(kind, &upstream.rule(), |config| config.clock = Some(clock.clone()));
        let mut client = site.connect();
        client.send(b"POST /api/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
        // 4 KiB within 20 seconds are enough.
        for _ in 0..4 {
            client.send(&[b'x'; 5000]);
            (0..5000).for_each(|_| is_seen.recv_timeout(LONG).unwrap());
            clock.advance(Duration::from_secs(19));
        }
        assert_eq!(site.server().totals().heads_late, 0, "{kind:?}");
        until("it has no deadline", || {
            client.send(b"x");
            clock.advance(Duration::from_secs(5));
            site.server().totals().heads_late == 1
        });
        assert_eq!(client.answer().unwrap().status, 408);
        upstream.end();
    }
}

/// The head was once discarded because the body had not ended, and a second connection got only the end of the body.
#[test]
fn what_is_not_here_any_more_is_not_sent_again() {
    for kind in kinds() {
        let (seen, is_seen) = mpsc::channel();
        let seen = Arc::new(Mutex::new(seen));
        let upstream = Upstream::new(1, move |_, mut stream| {
            assert!(echo(&mut stream));
            head(&mut stream).unwrap();
            seen.lock().unwrap().send(()).unwrap();
            assert_eq!(read_exactly(&mut stream, 5), b"0\r\n\r\n");
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let mut client = site.connect();
        assert_eq!(ask(&mut client, "GET /api/", "\r\n").unwrap().status, 200);
        client.send(b"GET /api/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        is_seen.recv_timeout(LONG).unwrap();
        client.send(b"0\r\n\r\n");
        assert_eq!(client.answer().unwrap().status, 502, "{kind:?}");
        assert_eq!(site.end().upstream_retries, 0);
        upstream.end();
    }
}

/// The body was once discarded before the path belonged to the upstream server, which then treated the next request as
/// the body.
#[test]
fn a_request_whose_body_is_gone_is_not_passed_on() {
    for kind in kinds() {
        let upstream = echoes(1);
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("serve.toml");
        std::fs::write(&path, "[[rule]]\npath = '/other/'\n").unwrap();
        let live = Arc::new(LiveRules::read(&path, &[], |_| Vec::new()).unwrap());
        let site = Site::new(&[("file", b"hello")], |config| {
            (config.accepting, config.rules) = (kind, Some(live.clone()));
        });
        let mut client = site.connect();
        client.send(b"POST /api/ HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n0123456789");
        // The server has received this when it has answered what was sent later.
        until("the request does not arrive", || site.server().totals().held_bytes > 0);
        std::fs::write(&path, upstream.rule()).unwrap();
        site.server().remote().reload_rules();
        assert_eq!(site.get("/api/first", "").status, 200);
        client.send(b"012345678901234567890123456789GET /api/stolen HTTP/1.1\r\nHost: x\r\n\r\n");
        let got = client.answer().unwrap();
        assert_eq!((got.status, got.field("Connection")), (503, Some("close")), "{kind:?}");
        assert!(client.is_ended(), "{kind:?}");
        drop(client);
        assert_eq!(site.end().upstream_errors, 0);
        upstream.end();
    }
}

/// The upstream server decides about its paths: ranges and conditions are passed on unchanged in both directions.
#[test]
fn ranges_and_conditions_are_for_the_upstream_server() {
    for kind in kinds() {
        let upstream = Upstream::new(1, |_, mut stream| {
            let head = head(&mut stream).unwrap();
            for field in ["Range: bytes=1-2", "If-Range: \"x\"", "If-None-Match: *", "If-Match: \"y\""] {
                assert!(head.contains(&format!("\r\n{field}\r\n")), "{head}");
            }
            let fields = "Content-Range: bytes 1-2/9\r\nETag: \"x\"\r\nAccept-Ranges: bytes\r\nContent-Length: 2";
            stream.write_all(format!("HTTP/1.1 206 Partial Content\r\n{fields}\r\n\r\nok").as_bytes()).unwrap();
        });
        let site = site(kind, &upstream.rule(), |_| {});
        let fields = "Range: bytes=1-2\r\nIf-Range: \"x\"\r\nIf-None-Match: *\r\nIf-Match: \"y\"\r\n";
        let got = site.get("/api/file", fields);
        assert_eq!((got.status, got.field("Content-Range"), &got.body[..]), (206, Some("bytes 1-2/9"), &b"ok"[..]));
        upstream.end();
    }
}

/// The kernel reports the end of a Unix socket repeatedly, even while the client has no room.
#[test]
fn a_unix_socket_may_end_before_its_response_has_left() {
    let room = tempfile::tempdir().unwrap();
    for (number, kind) in kinds().into_iter().enumerate() {
        let path = room.path().join(format!("{number}.sock"));
        let listener = UnixListener::bind(&path).unwrap();
        let upstream = std::thread::spawn(move || {
            let (mut stream, _) = uninterrupted(|| listener.accept()).unwrap();
            head(&mut stream).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
            // Sends until nothing moves: neither the client nor this socket has room.
            stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut sent = 0;
            while let Ok(count) = stream.write(&[b'd'; 1 << 14]) {
                sent += count;
            }
            sent
        });
        let rules = format!("[[rule]]\npath = '/'\nproxy = 'unix:{}'\n", path.display());
        let site = site(kind, &rules, |_| {});
        let mut client = site.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let sent = upstream.join().unwrap();
        let mut got = Vec::new();
        uninterrupted(|| client.stream.read_to_end(&mut got)).unwrap();
        let content = got.iter().map(|&byte| usize::from(byte == b'd')).sum::<usize>();
        assert!(content >= sent && got.ends_with(b"\r\n0\r\n\r\n"), "{kind:?}: {content} of {sent}");
        assert_eq!(site.end().upstream_errors, 0);
    }
}

#[test]
fn every_way_and_every_backend_passes_requests_on() {
    let body = "x".repeat(300_000);
    let mut ways: Vec<(Accepting, Backend)> =
        Accepting::ALL.iter().map(|(_, accepting)| (*accepting, Backend::default())).collect();
    ways.extend(landau_reactor::backends().into_iter().map(|backend| (Accepting::Own, backend)));
    for (accepting, backend) in ways.into_iter().filter(|(_, backend)| *backend != Backend::Null) {
        let upstream = echoes(16);
        let rules = format!("{}bandwidth = '64MiB'\n", upstream.rule());
        let site = site(accepting, &rules, |config| {
            (config.backend, config.workers) = (backend, 2);
        });
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let (mut client, body) = (site.connect(), body.clone());
                std::thread::spawn(move || {
                    for _ in 0..5 {
                        let rest = format!("Content-Length: {}\r\n\r\n{body}", body.len());
                        let got = ask(&mut client, "POST /api/", &rest).unwrap();
                        assert!(got.status == 200 && got.body.ends_with(body.as_bytes()), "{}", got.head);
                        assert_eq!(ask(&mut client, "GET /file", "\r\n").unwrap().body, b"hello");
                        assert_eq!(ask(&mut client, "GET /api/y", "\r\n").unwrap().status, 200);
                    }
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap_or_else(|_| panic!("{accepting:?} {backend}"));
        }
        let totals = site.end();
        assert_eq!((totals.upstream_errors, totals.requests), (0, 60), "{accepting:?} {backend}");
        // The upstream's threads end with their connections; connections that were never made are not waited for.
        drop(upstream);
    }
}

#[test]
fn clients_over_tls_are_served() {
    for kind in kinds() {
        let upstream = echoes(1);
        let rules = format!("{}set-headers = {{ Strict-Transport-Security = 'max-age=1' }}\n", upstream.rule());
        let site = tls::site(kind, b"", |config| set_rules(config, &rules));
        let mut client = tls::get_established(&site);
        let body = "b".repeat(200_000);
        for _ in 0..2 {
            client
                .write_all(format!("POST /api/ HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n{body}").as_bytes())
                .unwrap();
            let head = head(&mut client).unwrap();
            assert!(head.contains("Strict-Transport-Security: max-age=1\r\n"), "{head}");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
            let text = String::from_utf8(read_exactly(&mut client, length)).unwrap();
            assert!(text.contains("X-Forwarded-Proto: https\r\n") && text.ends_with(&body));
        }
        drop(client);
        assert_eq!(site.end().upstream_errors, 0);
        upstream.end();
    }
}

/// In a sandbox only the upstream server's port can be reached, and a reload cannot change that.
#[test]
fn the_sandbox_permits_the_upstream_server() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    for kind in kinds() {
        let upstream = echoes(1);
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("serve.toml");
        std::fs::write(&path, upstream.rule()).unwrap();
        let live = Arc::new(LiveRules::read(&path, &[], |_| Vec::new()).unwrap());
        let site = Site::new(&[("file", b"hello")], |config| {
            (config.accepting, config.rules, config.sandbox) = (kind, Some(live.clone()), SandboxMode::IfPossible);
            config.report = |text| TOLD.lock().unwrap().push(text.to_owned());
        });
        let mut client = site.connect();
        assert_eq!(ask(&mut client, "GET /api/", "\r\n").unwrap().status, 200);
        std::fs::write(&path, "[[rule]]\npath = '/api/'\nproxy = 'http://127.0.0.1:9'\n").unwrap();
        site.server().remote().reload_rules();
        let told = TOLD.lock().unwrap().pop().unwrap();
        if site.server().is_sandboxed() {
            assert!(
                told.contains("serve.toml:3: rule.proxy: http://127.0.0.1:9: the sandbox does not permit"),
                "{told}"
            );
            assert_eq!(ask(&mut client, "GET /api/", "\r\n").unwrap().status, 200, "the rules stay");
        } else {
            assert_eq!(told, "rules reloaded");
        }
        let rules = format!("{}set-headers = {{ X-New = '1' }}\n", upstream.rule());
        std::fs::write(&path, rules).unwrap();
        site.server().remote().reload_rules();
        assert_eq!(TOLD.lock().unwrap().pop().unwrap(), "rules reloaded");
        let got = ask(&mut client, "GET /api/", "\r\n").unwrap();
        assert_eq!((got.status, got.field("X-New")), (200, Some("1")));
        drop(client);
        site.end();
        upstream.end();
    }
}

#[test]
fn trusted_proxies_say_for_whom_they_ask() {
    for (trusted, chain, proto, host) in [
        ("127.0.0.1", "1.2.3.4, 5.6.7.8, 127.0.0.1", "https", "a.example"),
        ("10.0.0.1", "127.0.0.1", "http", "x:8080"),
    ] {
        let upstream = echoes(1);
        let site = site(Accepting::Own, &upstream.rule(), |config| {
            let mut proxies = Networks::default();
            proxies.add(trusted).unwrap();
            config.forwarded_from = Some(proxies);
        });
        // A trusted proxy may pass on forged fields of its clients, with `_` in their names.
        let fields = "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example\r\n\
             X-Forwarded-For: 5.6.7.8\r\nX_Forwarded_Proto: gopher\r\nx_real_ip: 6.6.6.6\r\n\
             X-Forwarded_Host: evil\r\nX_Forwarded-For: 6.6.6.6\r\n\r\n";
        let text = String::from_utf8(ask(&mut site.connect(), "GET /api/", fields).unwrap().body).unwrap();
        let field = |name: &str| {
            let values: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
            values.join(";")
        };
        assert_eq!(field("X-Forwarded-For: "), chain);
        assert!(!text.contains('_') && !text.contains("6.6.6.6"), "{text}");
        assert_eq!((field("X-Forwarded-Proto: "), field("X-Forwarded-Host: ")), (proto.to_owned(), host.to_owned()));
        site.end();
        upstream.end();
    }
}

#[test]
fn the_log_has_a_line_for_each_response() {
    for kind in kinds() {
        let (seen, is_seen) = mpsc::channel();
        let seen = Arc::new(Mutex::new(seen));
        let upstream = Upstream::new(2, move |_, mut stream| {
            while let Some(head) = head(&mut stream) {
                if head.contains("/api/silent") {
                    seen.lock().unwrap().send(()).unwrap();
                } else if head.contains("/api/half") {
                    return stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n12345").unwrap();
                } else {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
                        .unwrap();
                }
            }
        });
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let site = site(kind, &upstream.rule(), |config| {
            config.log = Some(AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common });
        });
        let mut client = site.connect();
        client.send(b"GET /api/a HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut got = Vec::new();
        while !got.ends_with(b"0\r\n\r\n") {
            let mut buffer = [0; 999];
            let count = client.read_some(&mut buffer);
            got.extend_from_slice(&buffer[..count]);
        }
        client.send(b"GET /api/silent HTTP/1.1\r\nHost: x\r\n\r\n");
        is_seen.recv().unwrap();
        drop(client);
        counted(&site, |totals| totals.closed == 1);
        all(&site, "GET /api/half HTTP/1.1\r\nHost: x\r\n\r\n");
        upstream.end();
        let totals = site.end();
        assert_eq!((totals.requests, totals.succeeded, totals.client_errors), (3, 2, 1));
        let lines = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = lines.lines().map(|line| line.split_once("] ").unwrap().1).collect();
        let expected =
            ["\"GET /api/a HTTP/1.1\" 200 3", "\"GET /api/silent HTTP/1.1\" 499 -", "\"GET /api/half HTTP/1.1\" 200 5"];
        assert_eq!(lines, expected, "{kind:?}");
    }
}

#[test]
fn the_log_has_the_user_whose_request_was_passed_on() {
    let users = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(users.path(), format!("alice:{}\n", bcrypt_of_test())).unwrap();
    for kind in kinds() {
        let upstream = Upstream::new(1, |_, mut stream| {
            while head(&mut stream).is_some() {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        });
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("log");
        let auth = format!("[[rule]]\npath = '/api/in/'\nauth = {{ users = '{}' }}\n", users.path().display());
        let site = site(kind, &format!("{}{auth}", upstream.rule()), |config| {
            config.log = Some(AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Json });
        });
        let mut client = site.connect();
        let fields = "Authorization: Basic YWxpY2U6dGVzdA==\r\nContent-Length: 0\r\n\r\n";
        for path in ["/api/in/a", "/api/out"] {
            assert_eq!(ask(&mut client, &format!("POST {path}"), fields).unwrap().status, 200, "{path}");
        }
        drop(client);
        site.end();
        upstream.end();
        let text = std::fs::read_to_string(path).unwrap();
        let users: Vec<bool> = text.lines().map(|line| line.contains(",\"user\":\"alice\",")).collect();
        assert_eq!(users, [true, false], "{text}");
    }
}

/// A server that is stopping waits for forwarded requests, and closes kept connections.
#[test]
fn a_server_that_ends_answers_what_was_passed_on() {
    for kind in kinds() {
        let (seen, is_seen) = mpsc::channel();
        let seen = Arc::new(Mutex::new(seen));
        let (go, gone) = mpsc::channel::<()>();
        let gone = Arc::new(Mutex::new(gone));
        let upstream = Upstream::new(2, move |number, mut stream| {
            while let Some(head) = head(&mut stream) {
                if head.contains("/api/slow") {
                    seen.lock().unwrap().send(number).unwrap();
                    gone.lock().unwrap().recv().unwrap();
                }
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            }
            seen.lock().unwrap().send(number).unwrap();
        });
        let site = site(kind, &upstream.rule(), |config| config.timeouts.drain = LONG * 10);
        let (mut one, mut two) = (site.connect(), site.connect());
        one.send(b"GET /api/slow HTTP/1.1\r\nHost: x\r\n\r\n");
        is_seen.recv().unwrap();
        assert_eq!(ask(&mut two, "GET /api/", "\r\n").unwrap().body, b"ok");
        site.server().drain();
        assert!(two.is_ended());
        assert_eq!(is_seen.recv_timeout(LONG).unwrap(), 1, "it is kept: {kind:?}");
        go.send(()).unwrap();
        let got = one.answer().unwrap();
        assert_eq!((&got.body[..], got.field("Connection")), (&b"ok"[..], Some("close")), "{kind:?}");
        assert_eq!(is_seen.recv_timeout(LONG).unwrap(), 0, "it is kept: {kind:?}");
        site.end();
        upstream.end();
    }
}

/// Clients that read nothing of large responses, without enough memory for all.
#[test]
fn a_crowd_of_slow_clients_stays_within_the_memory() {
    const MOST: usize = 1 << 18;
    for kind in kinds() {
        let upstream = Upstream::new(60, |number, mut stream| {
            if head(&mut stream).is_some() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
                // Without this, the rest of a write of 16 KiB when a client's buffers are full would be equal for all
                // clients, and might be only a few bytes.
                let _ = stream.write_all(&vec![b'd'; 277 * number]);
                while stream.write_all(&[b'd'; 1 << 14]).is_ok() {}
            }
        });
        let site = site(kind, &upstream.rule(), |config| config.memory_bytes = Some(MOST));
        let clients: Vec<Client> = (0..60)
            .map(|_| {
                let mut client = site.connect();
                client.send(b"GET /api/ HTTP/1.1\r\nHost: x\r\n\r\n");
                client
            })
            .collect();
        refuses_within(&site, MOST);
        assert_eq!(site.get("/file", "").status, 200);
        for client in &clients {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        drop(clients);
        until("memory is not given back", || site.server().totals().held_bytes == 0);
        site.server().end_now();
        drop(upstream);
    }
}
