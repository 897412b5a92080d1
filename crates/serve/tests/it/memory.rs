//! Many clients that together would use more memory than the connections may hold.

use crate::http2::{H2, answer_others};
use crate::support::{Client, LONG, Site, bound, kinds, set_rules, uninterrupted, until};
use crate::upstream::echoes;
use landau_serve::{Accepting, Config};
use landau_wire::http2::Code;
use std::io::{ErrorKind, Read, Write};

/// The limit on the connections' memory in these tests.
const MOST: usize = 1 << 20;

const GET: &[u8] = b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n";

/// A head that lacks its last three bytes.
fn unfinished() -> Vec<u8> {
    let mut head = b"GET /f HTTP/1.1\r\nHost: x\r\n".to_vec();
    for _ in 0..4 {
        head.extend_from_slice(format!("X: {}\r\n", "y".repeat(5000)).as_bytes());
    }
    head.extend_from_slice(b"\r");
    head
}

/// If there are more unfinished heads than there is memory for, the newest are refused. The earlier ones are answered
/// when they end, and complete requests are always answered.
#[test]
fn the_newest_unfinished_heads_are_refused() {
    const CLIENTS: usize = 100;
    for kind in kinds() {
        let site = Site::new(&[("f", b"content")], |config| {
            (config.memory_bytes, config.accepting, config.timeouts.head) = (Some(MOST), kind, LONG * 50);
        });
        let (mut waiting, mut refused) = (Vec::new(), 0);
        for number in 0..CLIENTS {
            let mut client = site.connect();
            let (before, refused_before) = (site.held(), site.server().totals().memory_refused);
            client.send(&unfinished());
            let is_refused = || site.server().totals().memory_refused > refused_before;
            until("neither kept nor refused", || site.held() >= before + unfinished().len() || is_refused());
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
        until("memory is not given back", || site.held() == 0);
        let mut late = site.connect();
        late.send(&unfinished());
        until("refused for ever", || site.held() >= unfinished().len());
        late.send(b"\n\r\n");
        assert_eq!(late.answer().unwrap().status, 200, "{kind:?}");
    }
}

/// Heads that grow are also refused when all memory is in use: the limit holds whatever the clients do.
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
            // Vectors that grow may have up to twice the capacity of their contents.
            let held = site.held();
            assert!(held <= MOST + (64 << 10), "{kind:?}: {held}");
            assert_eq!(site.get("/f", "").status, 200, "{kind:?}");
        }
        until("none was refused", || site.server().totals().memory_refused > 0);
    }
}

/// Clients that read nothing are closed when their responses take all memory; one that reads is not.
#[test]
fn clients_that_do_not_read_are_closed_for_memory() {
    let request = GET.repeat(2000);
    let content = [b'x'; 8 << 10];
    for kind in kinds() {
        let site = Site::new(&[("f", &content)], |config| {
            (config.memory_bytes, config.accepting) = (Some(MOST), kind);
        });
        let mut silent = Vec::new();
        until(format!("{kind:?}: all are kept"), || {
            let client = site.connect();
            client.stream.set_nonblocking(true).unwrap();
            // Whether the server reads all of this does not matter here.
            let _ = (&client.stream).write(&request);
            silent.push(client);
            site.server().totals().memory_refused > 0
        });
        for _ in 0..20 {
            assert_eq!(site.get("/f", "").body, content, "{kind:?}");
        }
    }
}

/// Returns a site with a file that no socket's buffer can hold completely, and clients that request it and read
/// nothing.
fn silent_downloads(count: usize, change: impl FnOnce(&mut Config)) -> (Site, Vec<Client>) {
    let site = Site::new(&[("f", b"content"), ("large", &vec![b'x'; 16 << 20])], change);
    let ask = |_| {
        let mut client = site.connect();
        client.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
        client
    };
    let clients = (0..count).map(ask).collect();
    until("they are not answered", || site.server().totals().requests == count as u64);
    (site, clients)
}

/// A client that downloads a file holds so little that it is not closed first. Without a limit for all such clients,
/// they once held any multiple of the memory limit.
#[test]
fn many_small_holders_stay_within_an_eighth_more() {
    const CLIENTS: usize = 150;
    const LITTLE: usize = 16 << 10;
    for kind in kinds() {
        let change = |config: &mut Config| (config.memory_bytes, config.accepting) = (Some(LITTLE), kind);
        let (site, _clients) = silent_downloads(CLIENTS, change);
        until(format!("{kind:?}: all are kept"), || site.server().totals().memory_refused > 0);
        let held = site.held();
        assert!(held <= LITTLE + LITTLE / 8 + (4 << 10), "{kind:?}: {held}");
        assert_eq!(site.get("/f", "").status, 200, "{kind:?}");
    }
}

/// Bytes that a ring receives while a response is sent are counted. Each of these clients once added a buffer to full
/// memory.
#[test]
fn requests_behind_a_download_stay_within_the_memory() {
    const CLIENTS: usize = 150;
    for kind in kinds() {
        let change = |config: &mut Config| (config.memory_bytes, config.accepting) = (Some(MOST), kind);
        let (site, clients) = silent_downloads(CLIENTS, change);
        let requests = GET.repeat(2000);
        for client in &clients {
            client.stream.set_nonblocking(true).unwrap();
            // The server may have closed the connection.
            let _ = (&client.stream).write(&requests);
            assert!(site.held() <= bound(MOST), "{kind:?}: {}", site.held());
        }
        assert_eq!(site.get("/f", "").status, 200, "{kind:?}");
        assert!(site.held() <= bound(MOST), "{kind:?}: {}", site.held());
    }
}

/// Over TLS the part of a record that has arrived is kept, and counts.
#[test]
fn tls_clients_stay_within_the_memory() {
    const CLIENTS: usize = 150;
    // A record of 16 KiB without its last byte.
    let mut half = vec![0x16, 3, 1, 0x40, 0];
    half.resize(5 + 16_383, 1);
    for kind in kinds() {
        let site = crate::tls::site(kind, b"", |config| config.memory_bytes = Some(MOST));
        // Their sessions begin before memory is short.
        let clients: Vec<Client> = (0..CLIENTS).map(|_| site.connect()).collect();
        until("they are not accepted", || site.server().totals().accepted == CLIENTS as u64);
        for client in &clients {
            // The server may have closed the connection already.
            let _ = (&client.stream).write_all(&half);
            assert!(site.held() <= bound(MOST), "{kind:?}: {}", site.held());
        }
        until("none was refused", || site.server().totals().memory_refused > 0);
    }
}

/// Over TLS, a part of the responses is kept for a client that does not read, and so are the requests that follow.
#[test]
fn tls_clients_that_do_not_read_stay_within_the_memory() {
    const CLIENTS: usize = 60;
    let requests = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1900);
    for kind in kinds() {
        let site = crate::tls::site(kind, &[b'x'; 8 << 10], |config| config.memory_bytes = Some(MOST));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| crate::tls::get_established(&site)).collect();
        for client in &mut clients {
            let mut records = Vec::new();
            client.conn.writer().write_all(&requests).unwrap();
            while client.conn.wants_write() {
                client.conn.write_tls(&mut records).unwrap();
            }
            // The server may have closed the connection, or stopped reading.
            client.sock.set_nonblocking(true).unwrap();
            let _ = client.sock.write(&records);
            assert!(site.held() <= bound(MOST), "{kind:?}: {}", site.held());
        }
        until(format!("{kind:?}: none was closed"), || site.server().totals().memory_refused > 0);
        drop(clients);
        until(format!("{kind:?}: memory is not given back"), || site.server().totals().held_bytes == 0);
    }
}

/// A connection that waits for its next request is ended, not reset, because its response may be in transit.
#[test]
fn a_tls_connection_is_ended_for_memory_without_a_reset() {
    const CLIENTS: usize = 80;
    for kind in kinds() {
        let site = crate::tls::site(kind, b"", |config| config.memory_bytes = Some(MOST));
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| crate::tls::get_established(&site)).collect();
        for client in &mut clients {
            let mut records = Vec::new();
            for plain in [&b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[b'x'; 16_000]] {
                client.conn.writer().write_all(plain).unwrap();
                client.conn.write_tls(&mut records).unwrap();
            }
            // The record after the request lacks its last byte.
            client.sock.write_all(&records[..records.len() - 1]).unwrap();
        }
        until("none was ended", || site.server().totals().memory_refused > 0);
        let mut ended = 0;
        for client in &mut clients {
            let mut answer = [0; 1000];
            let mut len = 0;
            while !answer[..len].ends_with(b"hello") {
                let got = uninterrupted(|| client.read(&mut answer[len..])).unwrap();
                assert!(got > 0, "{kind:?}: it ended within the response");
                len += got;
            }
            client.sock.set_nonblocking(true).unwrap();
            match uninterrupted(|| client.read(&mut answer)) {
                Ok(0) => {
                    // The end of the stream follows close_notify. A reset would be an error.
                    client.sock.set_nonblocking(false).unwrap();
                    assert_eq!(uninterrupted(|| client.sock.read(&mut answer)).unwrap(), 0, "{kind:?}");
                    ended += 1;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => panic!("{kind:?}: {other:?}"),
            }
        }
        assert!(ended > 0, "{kind:?}");
    }
}

/// Makes clients begin heads, and continue them, until memory is short. It stays short until the clients are dropped.
fn unfinished_until_short(site: &Site) -> Vec<Client> {
    let head = unfinished();
    let head = head.strip_suffix(b"\r").unwrap();
    let mut waiting = Vec::new();
    until("memory is never short", || {
        let mut client = site.connect();
        client.send(head);
        waiting.push(client);
        site.server().totals().memory_refused > 0
    });
    // Heads that have begun may still grow.
    for client in &mut waiting {
        if site.held() >= MOST / 4 * 3 {
            break;
        }
        let before = site.held();
        client.send(format!("X: {}\r\n", "y".repeat(8000)).as_bytes());
        until("a head does not grow", || site.held() > before);
    }
    assert!(site.held() >= MOST / 4 * 3, "{}", site.held());
    waiting
}

/// Over HTTP/2, such a request was once also counted as an error of the upstream server, which had not been contacted.
#[test]
fn what_is_not_passed_on_for_memory_is_no_error_of_the_upstream_server() {
    for kind in kinds() {
        let upstream = echoes(0);
        let site = Site::new(&[("a", b"content")], |config| {
            set_rules(config, &upstream.rule());
            (config.memory_bytes, config.accepting, config.timeouts.head) = (Some(MOST), kind, LONG * 50);
        });
        let mut client = H2::to(&site);
        client.ping();
        let _waiting = unfinished_until_short(&site);
        // Clients that have just connected have been refused by then.
        answer_others(&site);
        let before = site.server().totals().memory_refused;
        client.get(1, "/api/");
        assert_eq!(client.response(1).status(), "503", "{kind:?}");
        assert_eq!(site.get("/api/", "").status, 503, "{kind:?}");
        client.get(3, "/a");
        assert_eq!(client.response(3).body, b"content", "{kind:?}");
        let totals = site.server().totals();
        assert_eq!((totals.memory_refused - before, totals.upstream_errors), (2, 0), "{kind:?}");
        upstream.end();
    }
}

/// While memory is short, a client that does not read holds a quarter of the usual maximum of responses. HTTP/2 is
/// refused with its own error code.
#[test]
fn new_clients_hold_less_while_memory_is_short() {
    let content = [b'x'; 8 << 10];
    for kind in kinds() {
        let site = Site::new(&[("f", &content)], |config| {
            (config.memory_bytes, config.accepting, config.timeouts.head) = (Some(MOST), kind, LONG * 50);
        });
        let _waiting = unfinished_until_short(&site);
        assert_eq!(H2::to(&site).end(), Some(Code::ENHANCE_YOUR_CALM), "{kind:?}");
        if kind != Accepting::Own {
            // A ring receives the requests in pieces. The last piece is not a complete request, and is refused.
            continue;
        }
        let before = site.held();
        let client = site.connect();
        landau_sys::stream::set_receive_buffer(&client.stream, 16 << 10).unwrap();
        client.stream.set_nonblocking(true).unwrap();
        let _ = (&client.stream).write(&GET.repeat(580));
        until("nothing is kept", || site.held() >= before + (8 << 10));
        // The received requests, and responses.
        let kept = site.held() - before;
        assert!(kept <= (16 << 10) + (32 << 10), "{kind:?}: {kept}");
    }
}
