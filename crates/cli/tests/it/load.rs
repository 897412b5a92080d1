//! `landau load` as a user types it: refused options and their messages, and the requests that a server receives.

use crate::serve::Serving;
use crate::support::{LANDAU, Ran, Room};
use landau_record::schema::{EndOutcome, Outcome};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A URL where nothing listens, so that a load that is not refused fails soon.
const CLOSED: &[&str] = &["load", "http://127.0.0.1:9/", "--timeout", "100ms", "--quiet"];

/// Asserts that the options are refused with status 2 and a message that contains `expected`.
fn assert_refused(room: &Room, options: &[&str], expected: &str) {
    let ran = room.landau(&[CLOSED, options].concat());
    assert!(ran.status == Some(2) && ran.err.contains(expected), "{options:?}: {ran:?}");
}

/// Options for a different kind of load were once ignored.
#[test]
fn options_without_effect_are_refused() {
    let room = Room::new();
    let cases: &[(&[&str], &str)] = &[
        (&["-o", "r"], "--output requires --idle N"),
        (&["-n", "1", "-o", "r"], "--output requires --idle N"),
        (&["-n", "1", "--steps", "1,2"], "--steps requires --idle N"),
        (&["-n", "1", "--samples", "5"], "--samples requires --idle N"),
        (&["-n", "1", "--passes", "2"], "--passes requires --idle N"),
        (&["-n", "1", "--settle", "1s"], "--settle requires --idle N"),
        (&["-n", "1", "--server-pid", "1"], "--server-pid requires --idle N"),
        (&["-n", "1", "--connect-window", "9"], "--connect-window requires --idle N"),
        (&["--idle", "1", "--connect-window", "0"], "--connect-window"),
        (&["-n", "1", "--arrivals", "constant"], "--arrivals requires --rate R"),
        (&["-n", "1", "--ca", "/etc/passwd"], "--ca requires an https URL"),
        (&["--idle", "1", "--arrivals", "constant"], "--arrivals requires --rate R"),
        (&["--idle", "1", "-c", "5"], "cannot be used with"),
        (&["--idle", "1", "--pipeline", "5"], "cannot be used with"),
        (&["--idle", "1", "--samples", "0"], "--samples"),
        (&["--idle", "1", "--server-pid", "4194305"], "cannot read the memory of process 4194305"),
        (&["-n", "1", "--source", "::1"], "--source ::1: no server of this load has an IPv6 address"),
        (&["-n", "1", "--waive", "lags"], "--waive lags: unknown gate; the gates are alive, connect,"),
        (&["-d", "10"], "the unit is missing; write 10s"),
        (&["-d", "0"], "must be at least 1ns"),
        (&["--warm-up", "721h"], "must be at most 720h"),
    ];
    for (options, expected) in cases {
        assert_refused(&room, options, expected);
    }
    assert!(!room.file("r").exists());
    let ran = room.landau(&["load", "unix:/nowhere:/", "-n", "1", "--source", "127.0.0.1"]);
    assert!(ran.status == Some(2) && ran.err.contains("--source 127.0.0.1: no server"), "{ran:?}");
}

#[test]
fn load_without_a_server_fails_and_says_so() {
    let ran = Room::new().landau(&[CLOSED, &["-n", "1"]].concat());
    assert!(ran.status == Some(1) && ran.out.contains("no responses: no connection was established"), "{ran:?}");
    assert!(ran.out.contains("gate connect: failed: "), "{ran:?}");
    assert_eq!(ran.out.matches("connection refused: is the server running?").count(), 1, "{ran:?}");
}

/// With a limit of 64 descriptors, a hundred connections once required a hundred workers.
#[test]
fn low_limit_on_open_files_is_enough_for_some_workers_or_an_error() {
    let room = crate::serve::room();
    let serving = Serving::new(&mut room.command(&["serve", "www", "--listen", "127.0.0.1:0"]));
    let load = |limit: u32, connections: u32| {
        let url = format!("http://{}/a", serving.address);
        let waived = "--waive lag --waive overflow --waive saturated";
        let script = format!("ulimit -n {limit}; {LANDAU} load {url} -c {connections} -n 500 --quiet {waived}");
        Ran::of(Command::new("sh").args(["-c", &script]).output().unwrap())
    };
    let ran = load(64, 100);
    assert!(ran.status == Some(0) && ran.out.contains("500 × 200"), "{ran:?}");
    for (limit, connections) in [(20, 1), (64, 100_000)] {
        let ran = load(limit, connections);
        let expected = format!("the limit on open files (RLIMIT_NOFILE, {limit}) is too low");
        assert!(ran.status == Some(2) && ran.err.contains(&expected), "{ran:?}");
        assert!(ran.err.contains("raise it with ulimit -n"), "{ran:?}");
    }
    serving.end();
}

/// Gates that may fail on a busy machine.
const WAIVED: [&str; 6] = ["--waive", "lag", "--waive", "overflow", "--waive", "saturated"];

/// Returns the request line in each line of the server's log.
fn requests(room: &Room) -> Vec<String> {
    let text = std::fs::read_to_string(room.file("log")).unwrap();
    text.lines().map(|line| line.split('"').nth(1).unwrap().to_owned()).collect()
}

/// The requests of a log are sent in its order, and again from the beginning after its end.
#[test]
fn a_log_is_replayed_in_its_order() {
    const LOG: &str = "\
192.0.2.1 - - [26/Nov/2026:18:00:00 +0000] \"GET /a?1 HTTP/1.1\" 200 5
192.0.2.1 - - [26/Nov/2026:18:00:00 +0000] \"POST /form HTTP/1.1\" 200 5
192.0.2.1 - - [26/Nov/2026:18:00:01 +0000] \"HEAD /a?2 HTTP/1.1\" 200 - \"-\" \"a browser\"
no line of a log
192.0.2.1 - - [26/Nov/2026:18:00:02 +0000] \"GET /a?1 HTTP/1.0\" 200 5
";
    let room = crate::serve::room();
    std::fs::write(room.file("access.log"), LOG).unwrap();
    std::fs::write(room.file("empty.log"), "no line of a log\n").unwrap();
    let serving = Serving::new(&mut room.command(&["serve", "www", "--listen", "127.0.0.1:0", "--log", "log"]));
    let url = format!("http://{}/not-this", serving.address);
    let words = ["load", &url, "--replay", "access.log", "-c", "1", "-n", "5"];
    let ran = room.landau(&[&words[..], &WAIVED].concat());
    assert!(ran.status == Some(0) && ran.out.contains("\nstatus: 5 × 200\n"), "{ran:?}");
    assert!(ran.err.contains("note: access.log: 3 requests, 2 of them distinct; 2 lines skipped"), "{ran:?}");
    for (file, expected) in
        [("empty.log", "no GET or HEAD request in the common or combined"), ("none.log", "--replay none.log: ")]
    {
        let ran = room.landau(&["load", &url, "--replay", file, "-n", "1"]);
        assert!(ran.status == Some(2) && ran.err.contains(expected), "{ran:?}");
    }
    let ran = room.landau(&[&words[..], &["-X", "HEAD"]].concat());
    assert!(ran.status == Some(2) && ran.err.contains("cannot be used with"), "{ran:?}");
    serving.end();
    let cycle = ["GET /a?1 HTTP/1.1", "HEAD /a?2 HTTP/1.1", "GET /a?1 HTTP/1.1"];
    assert_eq!(requests(&room), [&cycle[..], &cycle[..2]].concat());
}

/// A scheme, flags of the server and of the load, and the expected HTTP version or messages of a failed load.
type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str], Result<&'a str, [&'a str; 2]>);

/// The version is read from the server's log. A server without HTTP/2 makes the run fail; over TLS the handshake fails.
#[test]
fn http2_is_spoken_if_the_user_asks_for_it_and_the_server_agrees() {
    let room = crate::serve::room();
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../serve/tests/it/certificates");
    let [certificate, key] = ["one.pem", "one-key.pem"].map(|name| certificates.join(name).display().to_string());
    let (tls, without) = (["--tls", &certificate, &key], "--no-http2");
    let cases: [Case; 6] = [
        ("http", &[], &[], Ok("1.1")),
        ("http", &[], &["--http2", "--streams", "3"], Ok("2.0")),
        ("http", &[without], &["--http2"], Err(["gate errors: failed: ", "(not an HTTP/2 frame: HTTP/1.1 505"])),
        ("https", &tls, &[], Ok("1.1")),
        ("https", &tls, &["--http2"], Ok("2.0")),
        (
            "https",
            &[&tls[..], &[without]].concat(),
            &["--http2"],
            Err(["gate connect: failed: ", "NoApplicationProtocol"]),
        ),
    ];
    for (scheme, flags, words, expected) in cases {
        let _ = std::fs::remove_file(room.file("log"));
        let serve = ["serve", "www", "--listen", "127.0.0.1:0", "--log", "log"];
        let serving = Serving::new(room.command(&serve).args(flags));
        let url = format!("{scheme}://{}/a", serving.address);
        let insecure: &[&str] = if scheme == "https" { &["--insecure"] } else { &[] };
        let load = ["load", &url, "-c", "2", "-n", "12"];
        let ran = room.landau(&[&load[..], words, insecure, &WAIVED].concat());
        serving.end();
        match expected {
            Ok(version) => {
                assert!(ran.status == Some(0) && ran.out.contains("\nstatus: 12 × 200\n"), "{words:?}: {ran:?}");
                assert_eq!(requests(&room), vec![format!("GET /a HTTP/{version}"); 12], "{flags:?} {words:?}");
            }
            Err(told) => {
                assert!(ran.status == Some(1) && ran.out.contains("\nno responses"), "{flags:?}: {ran:?}");
                assert!(told.iter().all(|text| ran.out.contains(text)), "{flags:?}: {ran:?}");
            }
        }
    }
}

/// Starts a server that answers on `most` connections at a time and closes further ones. Returns its URL.
fn server_of_few(most: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let open = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            if open.load(Ordering::SeqCst) == most {
                continue;
            }
            open.fetch_add(1, Ordering::SeqCst);
            let open = Arc::clone(&open);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0)
                    && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab").is_ok()
                {}
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    url
}

/// Each pass once ended with the first step of the next one, and its time was that since the run had begun.
#[test]
fn the_passes_of_an_idle_load_have_their_own_times() {
    let room = Room::new();
    let load = ["load", &server_of_few(100), "--idle", "20", "--steps", "10,20", "--samples", "2", "--passes", "2"];
    let ran = room.landau(&[&load[..], &["-o", "r", "--quiet"]].concat());
    let record = room.record("r");
    let ends: Vec<_> = record.passes.iter().map(|pass| pass.end.as_ref().unwrap()).collect();
    assert!(ends.len() == 2 && ends.iter().all(|end| end.outcome == Outcome::Done), "{ran:?}");
    let starts: Vec<u64> = record.passes.iter().map(|pass| pass.start.at_ms).collect();
    assert_eq!(starts, [0, ends[0].elapsed_ms]);
    assert!(ends[0].elapsed_ms + ends[1].elapsed_ms <= record.end.as_ref().unwrap().elapsed_ms, "{ends:?}");
}

/// The record of such a load was once complete, with samples at a number of connections that was never open.
#[test]
fn number_of_idle_connections_that_is_not_reached_is_a_limit() {
    let room = Room::new();
    let url = server_of_few(8);
    let load = ["load", &url, "--idle", "50", "--steps", "2,50", "--samples", "2", "--passes", "2"];
    let ran = room.landau(&[&load[..], &["--timeout", "1s", "-o", "r", "--quiet"]].concat());
    assert_eq!(ran.status, Some(1), "{ran:?}");
    let record = room.record("r");
    let end = record.passes[0].end.as_ref().unwrap();
    let limit = end.limit.as_ref().unwrap();
    assert_eq!((end.outcome, limit.n, record.passes.len()), (Outcome::Limit, 50, 1), "{end:?}");
    assert!(limit.meaning.contains(" of 50 idle connections were open: "), "{limit:?}");
    // The second pass was not run.
    assert_eq!(record.end.as_ref().map(|end| end.outcome), Some(EndOutcome::Failed));
    let series = &record.passes[0].series;
    assert!(!series.is_empty() && series.values().all(|series| series.n.iter().all(|&n| n == 2)), "{series:?}");
}
