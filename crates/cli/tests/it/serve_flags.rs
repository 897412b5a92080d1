//! Flags of `landau serve`: their effect on clients, the log and the counters.

use crate::serve::{LONG, Serving, room};
use crate::support::{Room, eventually};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;

/// Starts a server with these flags, which logs to a file.
fn serving(room: &Room, flags: &[&str]) -> Serving {
    let _ = std::fs::remove_file(room.file("log"));
    Serving::new(room.command(&["serve", "www", "--listen", "127.0.0.1:0", "--log", "log"]).args(flags))
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Sends these bytes on a new connection, and returns everything that the server sends until it closes the connection.
fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(bytes).unwrap();
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            // A server that closes a connection before it has read everything resets it.
            Ok(0) => break,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) => panic!("{error} after {}", answer.escape_ascii()),
        }
    }
    String::from_utf8(answer).unwrap()
}

/// Returns a request for `target` with further fields, which is the last one on its connection.
fn request(target: &str, host: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n")
}

/// Ends a server, and returns the lines of its log.
fn log_of(room: &Room, serving: Serving) -> Vec<String> {
    let ran = serving.end();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    std::fs::read_to_string(room.file("log")).unwrap().lines().map(str::to_owned).collect()
}

/// Creates a directory in the served one that all users may read.
fn directory(room: &Room, name: &str, files: &[(&str, &str)]) {
    let path = room.file("www").join(name);
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (file, text) in files {
        std::fs::write(path.join(file), text).unwrap();
    }
}

#[test]
fn virtual_hosts_serves_the_directory_with_the_name_of_the_host() {
    let room = room();
    directory(&room, "one.test", &[("a", "of one")]);
    directory(&room, "two.test", &[("a", "of two")]);
    let bodies = |flags: &[&str]| {
        let serving = serving(&room, flags);
        let hosts = ["one.test", "TWO.test:8080", "other.test"];
        let answers = hosts.map(|host| exchange(serving.address, request("/a", host, "").as_bytes()));
        serving.end();
        answers.map(|answer| answer.split("\r\n\r\n").nth(1).unwrap().to_owned())
    };
    assert_eq!(bodies(&[]), ["hello"; 3]);
    let [one, two, other] = bodies(&["--virtual-hosts"]);
    assert_eq!((one.as_str(), two.as_str()), ("of one", "of two"));
    assert!(other.starts_with("404 "), "{other}");
    directory(&room, "default", &[("a", "of all others")]);
    assert_eq!(bodies(&["--virtual-hosts"]), ["of one", "of two", "of all others"]);
}

#[test]
fn log_format_decides_what_a_line_of_the_log_has() {
    let room = room();
    let sent = request("/a?q=1", "x", "Referer: http://r/\r\nUser-Agent: \"me\"\r\n");
    let line = |flags: &[&str]| {
        let serving = serving(&room, flags);
        exchange(serving.address, sent.as_bytes());
        let mut lines = log_of(&room, serving);
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.remove(0)
    };
    // The date is between `[` and `]`.
    let undated = |line: &str| {
        let (before, rest) = line.split_once(" [").unwrap();
        format!("{before}{}", rest.split_once(']').unwrap().1)
    };
    let common = r#"127.0.0.1 - - "GET /a?q=1 HTTP/1.1" 200 5"#;
    assert_eq!(undated(&line(&[])), common);
    assert_eq!(undated(&line(&["--log-format", "common"])), common);
    let combined = undated(&line(&["--log-format", "combined"]));
    assert_eq!(combined, format!(r#"{common} "http://r/" "\x22me\x22""#));
    let json: serde_json::Value = serde_json::from_str(&line(&["--log-format", "json"])).unwrap();
    let expected = serde_json::json!({
        "time": json["time"], "address": "127.0.0.1", "method": "GET", "target": "/a?q=1", "version": "HTTP/1.1",
        "host": "x", "referer": "http://r/", "agent": "\"me\"", "status": 200, "bytes": 5
    });
    assert!(json["time"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')), "{json}");
    assert_eq!(json, expected);
    let ran = room.landau(&["serve", "www", "--log-format", "xml"]);
    assert!(ran.status == Some(2) && ran.err.contains("expected common, combined or json"), "{ran:?}");
}

/// Returns the address and the status in each line of a log in the common format.
fn clients(lines: &[String]) -> Vec<(&str, &str)> {
    lines.iter().map(|line| (line.split(' ').next().unwrap(), line.rsplit(' ').nth(1).unwrap())).collect()
}

/// The log contains the client that the header names, and a connection without a header is closed. If no proxy is
/// expected, a header is not a valid request.
#[test]
fn proxy_protocol_is_expected_of_these_networks_only() {
    let room = room();
    let plain = request("/a", "x", "").into_bytes();
    let first = [b"PROXY TCP4 192.0.2.7 192.0.2.1 1234 80\r\n", &plain[..]].concat();
    // Version 2, PROXY, TCP over IPv4, 12 bytes: addresses and ports.
    let second =
        [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c" as &[u8], &[192, 0, 2, 8, 192, 0, 2, 1, 4, 210, 0, 80], &plain]
            .concat();
    for (flags, is_expected) in [
        (&[][..], false),
        (&["--proxy-protocol", "127.0.0.0/8"], true),
        (&["--proxy-protocol", "192.0.2.0/24", "--proxy-protocol", "127.0.0.1"], true),
        (&["--proxy-protocol", "127.0.0.2"], false),
    ] {
        let serving = serving(&room, flags);
        let [one, two, none] = [&first, &second, &plain].map(|bytes| exchange(serving.address, bytes));
        let lines = log_of(&room, serving);
        if is_expected {
            assert!(one.ends_with("\r\n\r\nhello") && two.ends_with("\r\n\r\nhello"), "{flags:?}: {one} {two}");
            assert_eq!(none, "", "{flags:?}");
            assert_eq!(clients(&lines), [("192.0.2.7", "200"), ("192.0.2.8", "200")], "{flags:?}");
        } else {
            assert!(one.starts_with("HTTP/1.1 400 ") && two.starts_with("HTTP/1.1 400 "), "{flags:?}: {one} {two}");
            assert!(none.ends_with("\r\n\r\nhello"), "{flags:?}: {none}");
            assert!(clients(&lines).iter().all(|(address, _)| *address == "127.0.0.1"), "{flags:?}: {lines:?}");
        }
    }
}

/// The last address that is not a trusted proxy is the client. The field is ignored if any other client sends it.
#[test]
fn forwarded_from_names_the_proxies_that_are_believed() {
    let room = room();
    let sent = request("/a", "x", "X-Forwarded-For: 198.51.100.9, 192.0.2.7, 192.0.2.200\r\n");
    for (flags, expected) in [
        (&[][..], "127.0.0.1"),
        (&["--forwarded-from", "127.0.0.2"], "127.0.0.1"),
        (&["--forwarded-from", "127.0.0.0/8"], "192.0.2.200"),
        (&["--forwarded-from", "127.0.0.1", "--forwarded-from", "192.0.2.200"], "192.0.2.7"),
    ] {
        let serving = serving(&room, flags);
        assert!(exchange(serving.address, sent.as_bytes()).ends_with("\r\n\r\nhello"));
        assert_eq!(clients(&log_of(&room, serving)), [(expected, "200")], "{flags:?}");
    }
    let ran = room.landau(&["serve", "www", "--forwarded-from", "10.0.0.0/40"]);
    assert!(ran.status == Some(2) && ran.err.contains("expected an address, a network such as"), "{ran:?}");
}

#[test]
fn no_listings_refuses_directories_without_an_index_file() {
    let room = room();
    directory(&room, "with", &[("index.html", "index")]);
    directory(&room, "without", &[("file", "hello")]);
    for (flags, is_listed) in [(&[][..], true), (&["--no-listings"], false)] {
        let serving = serving(&room, flags);
        let answer = serving.get("/without/");
        if is_listed {
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(r#"href="./file""#), "{answer}");
        } else {
            assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("file"), "{answer}");
        }
        assert!(serving.get("/with/").ends_with("\r\n\r\nindex"), "{flags:?}");
        assert!(serving.get("/without/file").ends_with("\r\n\r\nhello"), "{flags:?}");
        serving.end();
    }
}

/// A client that begins with HTTP/2 receives the server's SETTINGS, or with the flag a response in HTTP/1.1.
#[test]
fn no_http2_answers_the_preface_of_http2_in_http1() {
    let room = room();
    let opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let with = serving(&room, &[]);
    let mut stream = connect(with.address);
    stream.write_all(opening).unwrap();
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).unwrap();
    // Type 4 (SETTINGS) without flags, on stream 0.
    assert_eq!(frame[3..], [4, 0, 0, 0, 0, 0]);
    drop(stream);
    with.end();
    let without = serving(&room, &["--no-http2"]);
    let answer = exchange(without.address, opening);
    assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
    assert!(without.get("/a").ends_with("\r\n\r\nhello"));
    without.end();
}

/// A silent connection is accepted before one that is opened later; with the flag, only after the given time.
#[test]
#[cfg(target_os = "linux")]
fn defer_accept_leaves_silent_connections_to_the_kernel() {
    let room = room();
    for (flags, accepted) in [(&[][..], 2), (&["--defer-accept", "100s"], 1)] {
        let serving = serving(&room, flags);
        let _silent = connect(serving.address);
        assert!(serving.get("/a").ends_with("\r\n\r\nhello"), "{flags:?}");
        let ran = serving.end();
        assert_eq!(ran.out.trim(), format!(r#"{{"connections":{accepted},"requests":1}}"#), "{flags:?}: {ran:?}");
    }
    let serving = serving(&room, &["--defer-accept", "1s", "--metrics", "127.0.0.1:0"]);
    let metrics = serving.ready["metrics"].as_str().unwrap().parse().unwrap();
    let _silent = connect(serving.address);
    let open = || exchange(metrics, request("/metrics", "x", "").as_bytes());
    assert!(eventually(|| open().contains("\nlandau_serve_open_connections 1\n")), "{}", open());
    serving.end();
    let ran = room.landau(&["serve", "www", "--defer-accept", "0s"]);
    assert!(ran.status == Some(2) && ran.err.contains("must be at least 1s"), "{ran:?}");
}
