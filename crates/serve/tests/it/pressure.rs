//! Clients that pipeline more than they read, or half-close early: they get all responses and cost the server no more
//! than other clients.

use crate::support::{Client, Site, kinds, until};
use landau_reactor::ManualClock;
use landau_serve::Accepting;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// A half-closed client still gets its responses.
#[test]
fn clients_that_half_close_get_everything() {
    let large: Vec<u8> = (0..20_000_000_u32).map(|number| (number % 251) as u8).collect();
    for kind in kinds() {
        let site = Site::new(&[("f", b"content"), ("sub/f", b""), ("large", &large)], |config| {
            config.accepting = kind;
        });
        let mut client = site.connect();
        client.send(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert!(client.answer().unwrap().body == large, "{kind:?}");
        assert!(client.is_ended());
        // Unwanted bodies, longer than one read, follow a request with a long response.
        let mut client = site.connect();
        let body = "b".repeat(20_000);
        client.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        for target in ["/f", "/sub/", "/f"] {
            let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
            client.send((head + &body).as_bytes());
        }
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert!(client.answer().unwrap().body == large, "{kind:?}");
        assert_eq!(client.answer().unwrap().body, b"content", "{kind:?}");
        assert!(client.answer().unwrap().body.starts_with(b"<!"), "{kind:?}: a listing made meanwhile");
        assert_eq!(client.answer().unwrap().body, b"content", "{kind:?}");
        assert!(client.is_ended());
    }
}

/// To the client, bytes after the head of a response to HEAD are the next response.
#[test]
fn a_refused_head_has_no_content() {
    const LIMIT: Duration = Duration::from_secs(6);
    for kind in kinds() {
        let clock = ManualClock::default();
        let site = Site::new(&[("f", b"content")], |config| {
            (config.timeouts.head, config.accepting, config.clock) = (LIMIT, kind, Some(clock.clone()));
        });
        for (fields, status) in [
            ("Content-Length: 9\r\n\r\nx", 408),
            ("Content-Length: 70000\r\n\r\n", 413),
            ("Transfer-Encoding: chunked\r\n\r\nx", 400),
            ("A b: c\r\n\r\n", 400),
        ] {
            let mut client = site.connect();
            client.send(format!("HEAD /f HTTP/1.1\r\nHost: x\r\n{fields}").as_bytes());
            if status == 408 {
                until("the body is not awaited", || site.held() > 0);
                clock.advance(LIMIT);
            }
            let got = client.answer_of(false).unwrap();
            assert_eq!(got.status, status, "{kind:?} {fields}");
            assert!(client.is_ended(), "{kind:?} {fields}");
        }
    }
}

/// Many more requests than the server buffers arrive while it sends the first responses.
#[test]
fn deep_pipelines_are_answered_in_order() {
    const COUNT: usize = 400;
    let middle: Vec<u8> = (0..60_000_u32).map(|number| (number % 241) as u8).collect();
    for kind in kinds() {
        let site = Site::new(&[("middle", &middle)], |config| config.accepting = kind);
        let mut client = site.connect();
        let mut stream = client.stream.try_clone().unwrap();
        let long = "x".repeat(1000);
        let asking = std::thread::spawn(move || {
            for number in 0..COUNT {
                let request = format!("GET /middle HTTP/1.1\r\nHost: x\r\nX: {long}\r\nY: {number}\r\n\r\n");
                stream.write_all(request.as_bytes()).unwrap();
            }
        });
        for number in 0..COUNT {
            let got = client.answer().unwrap_or_else(|| panic!("{kind:?}: no answer {number}"));
            assert!(got.body == middle, "{kind:?}: {number}");
        }
        asking.join().unwrap();
        assert_eq!(site.end().succeeded, COUNT as u64, "{kind:?}");
    }
}

/// Sends requests until the server stops reading; returns the bytes sent, or `None` if it read `most` bytes.
fn flood(client: &mut Client, request: &[u8], most: usize) -> Option<usize> {
    const WHILE: Duration = Duration::from_millis(300);
    let block = request.repeat(2000);
    let (mut sent, mut last) = (0, Instant::now());
    client.stream.set_nonblocking(true).unwrap();
    while sent < most {
        match client.stream.write(&block[sent % block.len()..]) {
            Ok(count) => (sent, last) = (sent + count, Instant::now()),
            Err(error) if error.kind() == ErrorKind::WouldBlock && last.elapsed() > WHILE => {
                client.stream.set_nonblocking(false).unwrap();
                return Some(sent);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("after {sent} bytes: {error}"),
        }
    }
    None
}

const GET: &[u8] = b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n";

/// When the kernel's buffers are full, the server stops reading and buffers nothing. Later reads get all responses.
#[test]
fn clients_that_do_not_read_are_throttled() {
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| config.accepting = kind);
        let mut client = site.connect();
        let sent = flood(&mut client, GET, 24 << 20).unwrap_or_else(|| panic!("{kind:?}: everything is taken"));
        let before = site.server().totals().requests;
        for number in 0..sent / GET.len() {
            let got = client.answer().unwrap_or_else(|| panic!("{kind:?}: no answer {number}"));
            assert_eq!(got.body, b"content", "{kind:?}: {number}");
        }
        assert!(before < site.server().totals().requests, "{kind:?}: all was answered before anything was read");
    }
}

/// The server closes a client that reads nothing, even if responses are small and requests keep arriving.
#[test]
fn clients_that_only_send_are_closed() {
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.timeouts.send, config.accepting) = (Duration::from_millis(400), kind);
        });
        let mut client = site.connect();
        let requests = GET.repeat(20);
        client.stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        until(format!("{kind:?}: it is kept"), || {
            // A partial write does not matter here.
            let _ = client.stream.write(&requests);
            site.server().totals().slow_closed > 0
        });
    }
}

/// A refused client gets a response even if its request has already arrived. Closing with unread data would send a
/// reset, which discards the response.
#[test]
fn refused_clients_get_a_response() {
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.connections, config.defer_accept_s, config.accepting) = (Some(1), Some(1), kind);
            // A client that sends its request late is not closed before that.
            config.clock = Some(ManualClock::default());
        });
        let mut first = site.connect();
        first.send(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(first.answer().unwrap().status, 200, "{kind:?}");
        let mut second = site.connect().stream;
        second.write_all(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        second.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{kind:?}: {answer:?}");
        // Linux delivers the response before the reset; other systems may not.
        std::thread::sleep(Duration::from_millis(50));
        assert!(second.take_error().unwrap().is_none(), "{kind:?}: it was reset");
    }
}

/// A refused client that sends its request later gets its response too, because the connection stays open for a moment.
/// A reset once made clients report a broken connection.
#[test]
fn refused_clients_that_ask_later_get_a_response() {
    for kind in kinds() {
        let clock = ManualClock::default();
        let site = Site::new(&[("f", b"content")], |config| {
            (config.connections, config.accepting, config.clock) = (Some(1), kind, Some(clock.clone()));
        });
        let mut first = site.connect();
        first.send(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(first.answer().unwrap().status, 200, "{kind:?}");
        let mut later = site.connect().stream;
        until(format!("{kind:?}: it was not refused"), || site.server().totals().refused_full > 0);
        for part in [&b"GET /f HTTP/1.1\r\n"[..], b"Host: x\r\n", b"\r\n"] {
            later.write_all(part).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            // On the loopback interface, a reset arrives at once.
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut answer = String::new();
        later.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{kind:?}: {answer:?}");
        clock.advance(Duration::from_secs(1));
        until(format!("{kind:?}: it stays open for ever"), || later.write(b"x").is_err());
    }
}

/// Returns a client whose upload is refused because it is too long, and the server's clock.
fn refused_upload(kind: Accepting) -> (Site, Client, ManualClock) {
    let clock = ManualClock::default();
    let site = Site::new(&[("f", b"content")], |config| {
        (config.accepting, config.clock) = (kind, Some(clock.clone()));
    });
    let mut client = site.connect();
    // Otherwise the kernel would hold small parts back until a delayed acknowledgement arrives.
    client.stream.set_nodelay(true).unwrap();
    client.send(b"POST /f HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
    until(format!("{kind:?}: it was not refused"), || site.server().totals().client_errors > 0);
    (site, client, clock)
}

/// The time between two parts of an upload. It is a small fraction of the permitted silence: the worker has usually
/// read a part before it answers a later request.
const PART: Duration = Duration::from_millis(300);

/// The response to an upload that is too long arrives although the client continues to send for some seconds. The
/// server once reset the connection two seconds after its response.
#[test]
fn an_upload_that_is_refused_may_end() {
    for kind in kinds() {
        let (site, mut client, clock) = refused_upload(kind);
        for part in 0..12 {
            client.stream.write_all(&[b'x'; 10_000]).unwrap_or_else(|error| panic!("{kind:?}: {part}: {error}"));
            assert_eq!(site.get("/f", "").status, 200, "{kind:?}");
            clock.advance(PART);
        }
        assert_eq!(client.answer().unwrap().status, 413, "{kind:?}");
    }
}

/// The connection ends after 30 s in total, although the client is never silent.
#[test]
fn an_upload_that_is_refused_does_not_go_on_for_ever() {
    for kind in kinds() {
        let (site, mut client, clock) = refused_upload(kind);
        for _ in 0..102 {
            // The server may have closed the connection.
            let _ = client.stream.write(&[b'x'; 1000]);
            assert_eq!(site.get("/f", "").status, 200, "{kind:?}");
            clock.advance(PART);
        }
        until(format!("{kind:?}: it goes on"), || client.stream.write(b"x").is_err());
    }
}
