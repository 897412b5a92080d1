//! Slow clients: each costs one table entry and does not delay others.

use crate::support::{Site, kinds, until};
use landau_reactor::ManualClock;
use landau_sys::disk::{cached_pages, drop_cached_pages};
use landau_sys::path::is_cached;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

/// Only the test advances the server's clock, so no delay of the machine can exceed the deadline of the last request.
#[test]
fn a_head_that_never_ends_times_out() {
    const LIMIT: Duration = Duration::from_millis(600);
    let clock = ManualClock::default();
    let site = Site::new(&[("f", b"content")], |config| {
        (config.timeouts.head, config.clock) = (LIMIT, Some(clock.clone()));
    });
    let late = || site.server().totals().heads_late;
    let mut client = site.connect();
    client.send(b"GET /f HTTP/1.1\r\nX: ");
    until("a head that comes byte by byte has no deadline", || {
        client.send(b"y");
        clock.advance(LIMIT / 30);
        late() == 1
    });
    assert_eq!(client.answer().unwrap().status, 408);
    assert!(client.is_ended());
    drop(client);
    let mut silent = site.connect();
    until("a connection that never says anything has no deadline", || {
        clock.advance(LIMIT / 30);
        late() == 2
    });
    assert!(silent.is_ended(), "a connection that never says anything ends as well");
    drop(silent);
    assert_eq!(site.get("/f", "").status, 200);
    assert_eq!(site.end().heads_late, 2);
}

/// Each head has its own deadline, even if one segment completes a request and begins the next. Only the test advances
/// the server's clock, so no delay of the machine can exceed a deadline.
#[test]
fn each_head_has_its_own_deadline() {
    const LIMIT: Duration = Duration::from_millis(600);
    for kind in kinds() {
        let clock = ManualClock::default();
        let site = Site::new(&[("f", b"content")], |config| {
            (config.timeouts.head, config.accepting, config.clock) = (LIMIT, kind, Some(clock.clone()));
        });
        let mut client = site.connect();
        client.send(b"GET /f HT");
        for number in 0..18 {
            client.send(b"TP/1.1\r\nHost: x\r\n\r\nGET /f HT");
            assert_eq!(client.answer().unwrap().status, 200, "{kind:?}: head {number}");
            clock.advance(LIMIT / 6);
        }
        clock.advance(LIMIT);
        assert_eq!(client.answer().unwrap().status, 408, "{kind:?}: the last head never ends");
    }
}

/// The response once announced that the connection stays open, and what the client sent after it could destroy it.
#[test]
fn a_final_answer_without_the_body_ends_the_connection_in_order() {
    for kind in kinds() {
        let site = Site::new(&[("f", b"hello")], |config| {
            (config.accepting, config.clock) = (kind, Some(ManualClock::default()));
        });
        for (method, status) in [("POST", 405), ("GET", 200)] {
            let head = format!("{method} /f HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
            let before = site.server().totals().closed;
            let mut client = site.connect();
            client.send(head.as_bytes());
            let got = client.answer().unwrap();
            assert_eq!((got.status, got.field("Connection")), (status, Some("close")), "{kind:?} {method}");
            assert!(client.is_ended());
            assert_eq!(site.server().totals().closed, before, "{kind:?}: it does not wait for what the client sends");
            client.send(b"other");
            drop(client);
            until("it is kept", || site.server().totals().closed == before + 1);
            // With its body, the request is treated like any other.
            let mut client = site.connect();
            client.send([head.as_bytes(), b"other"].concat().repeat(2).as_slice());
            for _ in 0..2 {
                let got = client.answer().unwrap();
                assert_eq!((got.status, got.field("Connection")), (status, None), "{kind:?} {method}");
            }
            drop(client);
            until("it is kept", || site.server().totals().closed == before + 2);
        }
    }
}

#[test]
fn an_idle_connection_is_closed() {
    let site = Site::new(&[("f", b"content")], |config| config.timeouts.idle = Duration::from_millis(200));
    let mut client = site.connect();
    client.send(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 200);
    assert!(client.is_ended());
    drop(client);
    assert_eq!(site.end().idle_closed, 1);
}

/// A client that requests a large file and does not read must not keep it open indefinitely.
#[test]
fn clients_that_do_not_read_are_closed() {
    let large = vec![b'x'; 40 << 20];
    for kind in kinds() {
        let site = Site::new(&[("large", &large), ("f", b"content")], |config| {
            (config.timeouts.send, config.accepting) = (Duration::from_millis(300), kind);
        });
        let mut client = site.connect();
        client.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        let began = Instant::now();
        while site.server().totals().slow_closed == 0 {
            assert!(began.elapsed() < crate::support::LONG, "{kind:?}: it is kept");
            assert_eq!(site.get("/f", "").status, 200);
        }
    }
}

/// A client that reads slowly gets the whole file, even if it takes many times the timeout within which a client must
/// read something. Only the test advances the server's clock.
#[test]
fn clients_that_read_slowly_are_kept() {
    const LIMIT: Duration = Duration::from_millis(400);
    let large = vec![b'x'; 40 << 20];
    for kind in kinds() {
        let clock = ManualClock::default();
        let site = Site::new(&[("large", &large)], |config| {
            (config.timeouts.send, config.accepting, config.clock) = (LIMIT, kind, Some(clock.clone()));
        });
        let mut slow = site.connect();
        slow.send(b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let (mut got, mut buffer) = (0, vec![0; 64 << 10]);
        let (mut sent, mut waited) = (0, Duration::ZERO);
        loop {
            match slow.read_some(&mut buffer) {
                0 => break,
                count => got += count,
            }
            // Time advances only after the server could send: a busy machine may not have run it since the last read.
            let now = site.server().totals().bytes_sent;
            if now > sent {
                sent = now;
                waited += LIMIT / 4;
                clock.advance(LIMIT / 4);
            }
        }
        assert!(waited > LIMIT, "{kind:?}: {waited:?}");
        assert!(got > large.len(), "{kind:?}: {got} of {}", large.len());
        assert_eq!(site.server().totals().slow_closed, 0, "{kind:?}");
    }
}

/// If a file becomes shorter while it is sent, the connection ends early, and the client notices that bytes are
/// missing.
#[test]
fn a_file_cut_short_ends_the_connection() {
    let large = vec![b'x'; 30 << 20];
    for kind in kinds() {
        let site = Site::new(&[("large", &large)], |config| config.accepting = kind);
        let mut client = site.connect();
        client.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        client.stream.read_exact(&mut [0; 1000]).unwrap();
        // The kernel's buffers hold less than the file, and the client has read no more.
        std::fs::File::options().write(true).open(site.path().join("large")).unwrap().set_len(1 << 20).unwrap();
        let mut rest = Vec::new();
        let end = client.stream.read_to_end(&mut rest);
        // An end or a reset; a connection that stays open would reach the timeout.
        let is_end = end.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true);
        assert!(is_end, "{kind:?}: {end:?}");
        assert!(rest.len() < large.len(), "{kind:?}: {}", rest.len());
    }
}

/// Returns a file content of `count` bytes.
fn large_file(count: u32) -> Vec<u8> {
    (0..count).map(|number| (number % 253) as u8).collect()
}

/// Evicts a file from the page cache; returns whether this succeeded. If the kernel does not count cached pages (before
/// Linux 6.5), a place that is not needed is tested, because testing starts a read. If the eviction fails, which is
/// printed, the test proves only that the response is complete.
fn forget(site: &Site, name: &str, place: u64) -> bool {
    let path = site.path().join(name);
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    // Pages that the kernel is using stay for a moment; on a file system in memory all stay, and the test is skipped.
    let is_cold = (0..50).any(|attempt| {
        std::thread::sleep(Duration::from_millis(if attempt == 0 { 0 } else { 10 }));
        let pages = drop_cached_pages(&file).ok().and_then(|()| cached_pages(&file));
        pages.map_or_else(|| is_cached(&file, place) == Some(false), |count| count == 0)
    });
    if !is_cold {
        eprintln!("skipped: {} cannot be evicted from the page cache (a file system in memory?)", path.display());
    }
    is_cold
}

/// Another thread reads a file that is not in memory, and the response is complete.
#[test]
fn a_file_not_in_memory_is_read_by_another_thread() {
    let content = large_file(9_000_001);
    for kind in kinds() {
        let site = Site::new(&[("large", &content)], |config| config.accepting = kind);
        let is_cold = forget(&site, "large", 5_000_000);
        assert_eq!(site.get("/large", "").body, content);
        assert_eq!(site.get("/large", "").body, content);
        let cold_count = site.server().totals().cold_reads;
        assert!(!is_cold || cold_count > 0, "{kind:?}: the worker itself waited for the device");
    }
}

/// The same applies to each part of a multipart response.
#[test]
fn each_part_not_in_memory_is_read_by_another_thread() {
    let content = large_file(30_000_000);
    for kind in kinds() {
        let site = Site::new(&[("large", &content)], |config| config.accepting = kind);
        let expected = [1_000_000, 29_000_000].map(|from| (from, content[from..from + 100_000].to_vec()));
        // The worker's check of a part begins to read it. If the read ends before the kernel has answered, as on a busy
        // CPU, the part is in memory and the worker has not waited.
        let is_read_elsewhere = (0..5).any(|_| {
            let (is_cold, before) = (forget(&site, "large", 15_000_000), site.server().totals().cold_reads);
            let got = site.get("/large", "Range: bytes=1000000-1099999,29000000-29099999\r\n");
            assert!(crate::files::parts(&got) == expected, "{kind:?}");
            !is_cold || site.server().totals().cold_reads - before == 2
        });
        assert!(is_read_elsewhere, "{kind:?}: the worker itself waited for the device");
    }
}
