//! Crowds of clients that would use more memory than the connections may have.

use crate::support::{Client, LONG, Site, kinds};
use std::io::Write;
use std::time::{Duration, Instant};

/// What the connections may hold in these tests.
const MOST: usize = 1 << 20;

/// Waits until the server has counted something.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LONG, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A head that lacks its last three bytes.
fn unfinished() -> Vec<u8> {
    let mut head = b"GET /f HTTP/1.1\r\nHost: x\r\n".to_vec();
    for _ in 0..4 {
        head.extend_from_slice(format!("X: {}\r\n", "y".repeat(5000)).as_bytes());
    }
    head.extend_from_slice(b"\r");
    head
}

/// Of more unfinished heads than there is memory for, the newest are refused. Those that were there first are answered
/// when they end, and whole requests are answered all the time.
#[test]
fn the_newest_unfinished_heads_are_refused() {
    const CLIENTS: usize = 100;
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.memory_bytes, config.accepting, config.timeouts.head) = (Some(MOST), kind, LONG * 50);
        });
        let held = || site.server().totals().held_bytes as usize;
        let (mut waiting, mut refused) = (Vec::new(), 0);
        for number in 0..CLIENTS {
            let mut client = site.connect();
            let (before, refused_before) = (held(), site.server().totals().memory_refused);
            client.send(&unfinished());
            let is_refused = || site.server().totals().memory_refused > refused_before;
            until("neither kept nor refused", || held() >= before + unfinished().len() || is_refused());
            if is_refused() {
                assert_eq!(client.answer().unwrap().status, 503, "{kind:?}: {number}");
                assert!(client.is_ended(), "{kind:?}: {number}");
                refused += 1;
            } else {
                waiting.push(client);
            }
            assert_eq!(site.get("/f", "").status, 200, "{kind:?}: {number}");
        }
        assert!(refused >= CLIENTS / 3 && waiting.len() >= CLIENTS / 5, "{kind:?}: {refused}, {}", waiting.len());
        for mut client in waiting {
            client.send(b"\n\r\n");
            assert_eq!(client.answer().unwrap().status, 200, "{kind:?}: it came in time");
        }
        until("memory is not given back", || held() == 0);
        let mut late = site.connect();
        late.send(&unfinished());
        until("refused for ever", || held() >= unfinished().len());
        late.send(b"\n\r\n");
        assert_eq!(late.answer().unwrap().status, 200, "{kind:?}");
    }
}

/// Heads that grow are refused, too, when all memory is in use: the bound holds whatever the clients do.
#[test]
fn growing_heads_stay_within_the_memory() {
    const CLIENTS: usize = 100;
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.memory_bytes, config.accepting) = (Some(MOST), kind);
        });
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| site.connect()).collect();
        for client in &mut clients {
            client.send(b"GET /f HTTP/1.1\r\nHost: x\r\n");
        }
        let line = format!("X: {}\r\n", "y".repeat(2500));
        for _ in 0..10 {
            for client in &mut clients {
                client.send(line.as_bytes());
            }
            // Vectors that grow have up to twice their content.
            let held = site.server().totals().held_bytes as usize;
            assert!(held <= MOST + (64 << 10), "{kind:?}: {held}");
            assert_eq!(site.get("/f", "").status, 200, "{kind:?}");
        }
        until("none was refused", || site.server().totals().memory_refused > 0);
    }
}

/// Clients that read nothing are closed when their responses take all memory; one that reads is not.
#[test]
fn clients_that_do_not_read_are_closed_for_memory() {
    let request = b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2000);
    let content = [b'x'; 8 << 10];
    for kind in kinds() {
        let site = Site::new(&[("f", &content)], |config| {
            (config.memory_bytes, config.accepting) = (Some(MOST), kind);
        });
        let mut silent = Vec::new();
        let began = Instant::now();
        while site.server().totals().memory_refused == 0 {
            assert!(began.elapsed() < LONG * 3, "{kind:?}: all are kept");
            let client = site.connect();
            client.stream.set_nonblocking(true).unwrap();
            // What the server does not read does not matter here.
            let _ = (&client.stream).write(&request);
            silent.push(client);
        }
        for _ in 0..20 {
            assert_eq!(site.get("/f", "").body, content, "{kind:?}");
        }
    }
}

/// Over TLS the part of a record that has arrived is kept, and counts.
#[test]
fn tls_clients_stay_within_the_memory() {
    const CLIENTS: usize = 150;
    // A record of 16 KiB of which the last byte is missing.
    let mut half = vec![0x16, 3, 1, 0x40, 0];
    half.resize(5 + 16_383, 1);
    for kind in kinds() {
        let site = crate::tls::site(kind, b"", |config| config.memory_bytes = Some(MOST));
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let client = site.connect();
            // The server may have closed it already.
            let _ = (&client.stream).write_all(&half);
            clients.push(client);
            let held = site.server().totals().held_bytes as usize;
            assert!(held <= MOST + (64 << 10), "{kind:?}: {held}");
        }
        until("none was refused", || site.server().totals().memory_refused > 0);
    }
}
