//! Connections from proxies that use the PROXY protocol.

use crate::support::{Client, Site, kinds, set_rules, until};
use crate::tls;
use landau_serve::{Accepting, Config, Networks};

const VERSION_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x07\x7f\0\0\x01\x30\x39\0\x50";

/// Returns a server that admits only 10.0.0.7, behind a proxy at the local address.
fn behind(kind: Accepting, change: impl FnOnce(&mut Config)) -> Site {
    Site::new(&[("a", b"hello")], |config| {
        let mut proxies = Networks::default();
        proxies.add("127.0.0.1").unwrap();
        config.accepting = kind;
        config.proxies = Some(proxies);
        set_rules(config, "[[rule]]\npath = '/'\nallow = '10.0.0.7'\n");
        change(config);
    })
}

fn status(client: &mut Client) -> Option<u16> {
    client.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    client.answer().map(|got| got.status)
}

#[test]
fn the_client_is_the_one_that_the_proxy_names() {
    for kind in kinds() {
        let site = behind(kind, |_| {});
        for (header, expected) in [
            (&b"PROXY TCP4 10.0.0.7 127.0.0.1 1234 80\r\n"[..], 200),
            (VERSION_2, 200),
            (b"PROXY TCP4 10.0.0.8 127.0.0.1 1234 80\r\n", 403),
            (b"PROXY TCP6 ::1 ::1 1234 80\r\n", 403),
            // The proxy itself, which is not admitted here.
            (b"PROXY UNKNOWN\r\n", 403),
            (b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", 403),
        ] {
            let mut client = site.connect();
            client.send(header);
            assert_eq!([status(&mut client), status(&mut client)], [Some(expected); 2], "{}", header.escape_ascii());
            // In the same segment as the request, and byte by byte.
            let whole = [header, b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"].concat();
            let (mut at_once, mut in_parts) = (site.connect(), site.connect());
            at_once.send(&whole);
            for byte in &whole {
                in_parts.send(&[*byte]);
            }
            for client in [&mut at_once, &mut in_parts] {
                assert_eq!(client.answer().map(|got| got.status), Some(expected), "{}", header.escape_ascii());
            }
        }
    }
}

/// Without the header, the proxy's address would be that of every client.
#[test]
fn a_proxy_without_a_header_is_not_served() {
    for kind in kinds() {
        let site = behind(kind, |_| {});
        for wrong in [
            &b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            b"PROXY TCP4 10.0.0.7\r\n",
            b"\r\n\r\n\0\r\nQUIT\n\x41\x11\0\0",
            &[b"PROXY UNKNOWN ", &[b'x'; 8000][..]].concat(),
        ] {
            let mut client = site.connect();
            client.send(wrong);
            assert!(client.is_ended(), "{}", wrong.escape_ascii());
        }
        until("they are counted", || site.server().totals().prefaces_malformed == 4);
    }
}

#[test]
fn limits_of_an_address_are_those_of_the_client() {
    let site = behind(Accepting::Own, |config| config.connections_per_address = Some(1));
    let connect = |client: &str| {
        let mut connection = site.connect();
        connection.send(format!("PROXY TCP4 {client} 127.0.0.1 1 80\r\n").as_bytes());
        connection
    };
    let mut first = connect("10.0.0.7");
    assert_eq!(status(&mut first), Some(200));
    assert_eq!(connect("10.0.0.7").answer().map(|got| got.status), Some(429));
    assert_eq!(status(&mut connect("10.0.0.8")), Some(403), "another client");
    drop(first);
    until("the client may come again", || status(&mut connect("10.0.0.7")) == Some(200));
}

/// The header arrives before the handshake, in the same segment or not.
#[test]
fn the_header_precedes_tls() {
    for kind in kinds() {
        let site = behind(kind, tls::over_tls);
        for header in [&b"PROXY TCP4 10.0.0.7 127.0.0.1 1234 443\r\n"[..], VERSION_2] {
            let mut client = site.connect();
            client.send(header);
            assert!(tls::get_with(client.stream, "/a", "").ends_with(b"hello"), "{kind:?} {}", header.escape_ascii());
        }
        let mut client = site.connect();
        client.send(b"PROXY TCP4 10.0.0.8 127.0.0.1 1234 443\r\n");
        assert!(tls::get_with(client.stream, "/a", "").starts_with(b"HTTP/1.1 403 "), "{kind:?}");
        assert_eq!(site.end().tls_handshakes, 3);
    }
}

/// A proxy that connects and sends nothing holds its connection no longer than any client.
#[test]
fn a_proxy_that_says_nothing_is_closed() {
    for kind in kinds() {
        let site = behind(kind, |config| config.timeouts.head = std::time::Duration::from_millis(50));
        for part in [&b""[..], b"PROXY TCP4 "] {
            let mut client = site.connect();
            client.send(part);
            assert!(client.is_ended());
        }
        assert_eq!(site.end().heads_late, 2, "{kind:?}");
    }
}

/// Clients that wait when the server stops are answered.
#[test]
fn clients_of_a_proxy_that_wait_at_the_end_are_answered() {
    for kind in kinds() {
        let site = behind(kind, |_| {});
        let mut waiting = site.connect();
        until("it is accepted", || site.server().totals().accepted == 1);
        waiting.send(b"PROXY TCP4 10.0.0.7 127.0.0.1 1 80\r\nGET /a HTTP/1.1\r\nHost: x\r\n");
        let mut other = site.connect();
        other.send(b"PROXY TCP4 10.0.0.7 127.0.0.1 1 80\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(other.answer().map(|got| got.status), Some(200));
        site.server().drain();
        waiting.send(b"\r\n");
        assert_eq!(waiting.answer().map(|got| got.status), Some(200), "{kind:?}");
    }
}

#[test]
fn others_need_no_header() {
    let site = Site::new(&[("a", b"hello")], |config| {
        let mut proxies = Networks::default();
        proxies.add("10.0.0.0/8").unwrap();
        config.proxies = Some(proxies);
    });
    assert_eq!(site.get("/a", "").status, 200);
}
