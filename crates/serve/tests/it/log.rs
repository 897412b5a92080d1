//! The access log through the whole server.

use crate::support::Site;
use landau_serve::{AccessLog, LogFormat, LogTarget, Networks};

#[test]
fn each_response_has_a_line_by_the_end() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("log");
    let site = Site::new(&[("a", b"hello")], |config| {
        config.workers = 2;
        config.log = Some(AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common });
    });
    let mut client = site.connect();
    client.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!((client.answer().unwrap().status, client.answer().unwrap().status), (200, 404));
    client.send(b"nonsense\r\n\r\n");
    assert_eq!(client.answer().unwrap().status, 400);
    let totals = site.end();
    let text = std::fs::read_to_string(&path).unwrap();
    let ends: Vec<&str> = text.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    assert_eq!(ends, ["\"GET /a HTTP/1.1\" 200 5", "\"GET /nowhere HTTP/1.1\" 404 14", "\"-\" 400 16"], "{text}");
    assert!(text.lines().all(|line| line.starts_with("127.0.0.1 - - [")), "{text}");
    assert_eq!((totals.requests, totals.log_lost), (3, 0));
}

/// Of several parts, the log once had only the bytes of the file.
#[test]
fn the_size_of_several_parts_has_their_heads() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("log");
    let site = Site::new(&[("a", &[b'x'; 9000])], |config| {
        config.log = Some(AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common });
    });
    let got = site.get("/a", "Range: bytes=0-9,5000-5009\r\n");
    assert_eq!((got.status, got.field("Content-Length")), (206, Some(&*got.body.len().to_string())));
    site.end();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.ends_with(&format!(" 206 {}\n", got.body.len())), "{text}");
}

/// The client of a refused request is unknown. The log once named the previous client.
#[test]
fn a_refused_request_is_not_the_client_before() {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join("log");
    let mut proxies = Networks::default();
    proxies.add("127.0.0.1").unwrap();
    let site = Site::new(&[("a", b"hello")], |config| {
        config.forwarded_from = Some(proxies);
        config.log = Some(AccessLog { target: LogTarget::File(path.clone()), format: LogFormat::Common });
    });
    let mut client = site.connect();
    client.send(b"GET /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\n\r\nnonsense\r\n\r\n");
    assert_eq!((client.answer().unwrap().status, client.answer().unwrap().status), (200, 400));
    site.end();
    let text = std::fs::read_to_string(&path).unwrap();
    let peers: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(peers, ["1.2.3.4", "127.0.0.1"], "{text}");
}
