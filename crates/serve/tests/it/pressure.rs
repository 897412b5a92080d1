//! Clients that pipeline more than they read, or half-close early: they get all responses and cost the server no more
//! than other clients.

use crate::support::{Client, LONG, Site, kinds};
use landau_reactor::ManualClock;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// A client that has shut down its side still gets its responses.
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
        let (began, requests) = (Instant::now(), GET.repeat(20));
        client.stream.set_write_timeout(Some(Duration::from_millis(20))).unwrap();
        while site.server().totals().slow_closed == 0 {
            assert!(began.elapsed() < LONG, "{kind:?}: it is kept");
            // A partial write does not matter here.
            let _ = client.stream.write(&requests);
        }
    }
}

/// A refused client gets a response even if its request has already arrived. Closing with unread data would send a
/// reset, which discards the response.
#[test]
fn refused_clients_get_a_response() {
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.connections, config.defer_accept_s, config.accepting) = (Some(1), Some(1), kind);
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

/// A refused client that asks only then gets its response, too: the connection stays open for a moment. A reset made
/// clients report a broken connection.
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
        let began = Instant::now();
        while site.server().totals().refused_full == 0 {
            assert!(began.elapsed() < LONG, "{kind:?}: it was not refused");
        }
        for part in [&b"GET /f HTTP/1.1\r\n"[..], b"Host: x\r\n", b"\r\n"] {
            later.write_all(part).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            // A reset is there at once on the loopback interface.
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut answer = String::new();
        later.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{kind:?}: {answer:?}");
        clock.advance(Duration::from_secs(1));
        let began = Instant::now();
        while later.write(b"x").is_ok() {
            assert!(began.elapsed() < LONG, "{kind:?}: it stays open for ever");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The answer to an upload that is too long arrives although the client sends all of it first, for as long as that
/// takes. The server used to reset the connection two seconds after its answer.
#[test]
fn an_upload_that_is_refused_may_end() {
    const PARTS: u32 = 12;
    for kind in kinds() {
        let clock = ManualClock::default();
        let site = Site::new(&[("f", b"content")], |config| {
            (config.accepting, config.clock) = (kind, Some(clock.clone()));
        });
        let mut client = site.connect();
        client.send(b"POST /f HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n");
        let began = Instant::now();
        while site.server().totals().client_errors == 0 {
            assert!(began.elapsed() < LONG, "{kind:?}: it was not refused");
        }
        for part in 0..PARTS {
            client.stream.write_all(&[b'x'; 10_000]).unwrap_or_else(|error| panic!("{kind:?}: {part}: {error}"));
            // The worker has usually read this when it answers a request that comes later; on a busy machine the kernel
            // may deliver some parts late, so a part is a small share of the time.
            assert_eq!(site.get("/f", "").status, 200, "{kind:?}");
            clock.advance(Duration::from_millis(300));
        }
        assert_eq!(client.answer().unwrap().status, 413, "{kind:?}");
    }
}
