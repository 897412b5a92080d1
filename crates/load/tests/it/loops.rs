//! Closed and open loops against real servers. Tests of timing run in virtual time, in `src/simulation`.

use crate::server::{failed, response, run, run_until, serve, spec};
use landau_load::plan::Arrivals;
use landau_load::{Failure, LoadSpec, Outcome};
use landau_sys::stream::set_reset_on_close;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The duration of a run that only an interrupt ends.
const ENDLESS: Option<Duration> = Some(Duration::from_secs(3600));

fn failures(outcome: &Outcome) -> Vec<(Failure, u64)> {
    outcome.metrics.failures.iter().map(|(failure, count)| (*failure, *count)).collect()
}

#[test]
fn closed_loop_counts_every_response_once() {
    let server = serve(|_| (response(10), false));
    let outcome = run(&spec(&server.url()));
    let metrics = &outcome.metrics;
    assert_eq!((metrics.requests, metrics.responses, metrics.statuses.get(&200)), (100, 100, Some(&100)));
    assert_eq!(metrics.phases.first_byte_new.count() + metrics.phases.first_byte_reused.count(), 100);
    assert_eq!((metrics.phases.service.count(), metrics.phases.setup_handshake.count()), (100, 4));
    assert_eq!(metrics.bytes, 100 * response(10).len() as u64);
    assert_eq!(server.requests.load(Ordering::SeqCst), 100);
    assert!(failed(&outcome).is_empty() && failures(&outcome).is_empty(), "{:?}", outcome.gates);
}

#[test]
fn workers_share_the_load() {
    let server = serve(|_| (response(10), false));
    let outcome = run(&LoadSpec { workers: Some(3), connections: 7, request_count: Some(101), ..spec(&server.url()) });
    assert_eq!((outcome.worker_count, outcome.metrics.responses, outcome.metrics.connections), (3, 101, 7));
}

#[test]
fn pipelined_responses_are_assigned_in_order() {
    let server = serve(|number| (response(if number % 2 == 0 { 5 } else { 5000 }), false));
    let outcome = run(&LoadSpec { pipeline: 8, connections: 2, request_count: Some(200), ..spec(&server.url()) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.requests), (200, 200));
    // Every other response differs in length from the first one.
    assert_eq!(failed(&outcome), ["length"]);
}

#[test]
fn closed_loop_can_use_a_connection_for_each_request() {
    let server = serve(|_| (response(10), false));
    let outcome = run(&LoadSpec { per_connection: Some(1), ..spec(&server.url()) });
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()));
    assert_eq!(outcome.metrics.phases.first_byte_new.count(), 100);
    assert!(server.connections.load(Ordering::SeqCst) >= 100);
}

#[test]
fn open_loop_can_use_a_connection_for_each_request() {
    let server = serve(|_| (response(10), false));
    let open = LoadSpec { rate: Some(500.0), per_connection: Some(1), connections: 50, ..spec(&server.url()) };
    let outcome = run(&open);
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()));
    assert_eq!(outcome.metrics.phases.handshake.count(), 100);
}

#[test]
fn announced_close_after_a_response_is_not_a_failure() {
    let close = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab".to_vec();
    let server = serve(move |_| (close.clone(), true));
    let outcome = run(&spec(&server.url()));
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()));
}

#[test]
fn every_end_of_a_response_is_recognised() {
    for (bytes, closes) in [
        (&b"HTTP/1.1 200 OK\r\n\r\nwithout a length"[..], true),
        (b"HTTP/1.0 200 OK\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", false),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", false),
    ] {
        let server = serve(move |_| (bytes.to_vec(), closes));
        let outcome = run(&spec(&server.url()));
        assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()), "{}", bytes.escape_ascii());
    }
}

#[test]
fn failures_are_counted_by_kind() {
    let cases: [(&[u8], bool, Failure); 4] = [
        (b"SSH-2.0-OpenSSH\r\n", false, Failure::InvalidResponse),
        (b"", true, Failure::ClosedBeforeResponse),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", true, Failure::ClosedDuringResponse),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc", false, Failure::UnsolicitedResponse),
    ];
    for (bytes, closes, expected) in cases {
        let server = serve(move |_| (bytes.to_vec(), closes));
        let outcome = run(&LoadSpec { request_count: Some(10), ..spec(&server.url()) });
        let found = failures(&outcome);
        assert!(found.iter().any(|one| one.0 == expected), "{expected:?}: {found:?}");
        assert!(failed(&outcome).contains(&"errors") && !outcome.is_valid(), "{expected:?}");
    }
}

#[test]
fn refused_connections_fail_the_gate_connect() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let outcome = run(&spec(&format!("http://{address}/")));
    assert_eq!(outcome.metrics.responses, 0);
    assert!(outcome.metrics.failures.contains_key(&Failure::ConnectRefused), "{:?}", outcome.metrics.failures);
    assert!(failed(&outcome).contains(&"connect"));
    let mut reasons = outcome.gates.iter().filter_map(|gate| gate.reason.as_deref());
    assert!(reasons.any(|reason| reason.contains("is the server running?")), "{:?}", outcome.gates);
}

#[test]
fn lost_connections_are_replaced() {
    let server = Arc::new(serve(|_| (response(10), false)));
    let other = Arc::clone(&server);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let closer = std::thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            if other.requests.load(Ordering::SeqCst) > 20 {
                other.close_all();
            }
            std::thread::yield_now();
        }
    });
    let outcome = run(&LoadSpec { request_count: Some(300), ..spec(&server.url()) });
    is_over.store(true, Ordering::SeqCst);
    closer.join().unwrap();
    let lost: u64 = outcome.metrics.failures.values().sum();
    assert!(outcome.metrics.responses + lost >= 300 && outcome.metrics.responses > 20, "{:?}", outcome.metrics);
}

#[test]
fn error_statuses_fail_a_gate_that_can_be_waived() {
    let server = serve(|_| (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec(), false));
    assert_eq!(failed(&run(&spec(&server.url()))), ["status"]);
    let outcome = run(&LoadSpec { waived: vec!["status".to_owned()], ..spec(&server.url()) });
    assert_eq!((failed(&outcome), outcome.metrics.statuses.get(&503)), (Vec::new(), Some(&100)));
}

#[test]
fn access_log_is_replayed_in_its_order() {
    let server = serve(|_| (response(10), false));
    let log = tempfile::NamedTempFile::new().unwrap();
    let line = |target: &str| format!("::1 - - [1/Jan/2026:00:00:00 +0000] \"GET {target} HTTP/1.1\" 200 1\n");
    std::fs::write(log.path(), [line("/a"), line("/b"), line("/a")].concat()).unwrap();
    let replay = Some(log.path().to_owned());
    let outcome = run(&LoadSpec { replay, connections: 1, request_count: Some(6), ..spec(&server.url()) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.lengths.len()), (6, 2));
}

#[test]
fn interrupted_run_reports_what_was_measured() {
    let server = serve(|_| (response(10), false));
    let endless = LoadSpec { request_count: None, duration: ENDLESS, ..spec(&server.url()) };
    let outcome = run_until(&endless, &|| server.requests.load(Ordering::SeqCst) > 50);
    assert!(outcome.is_interrupted && outcome.metrics.responses >= 40 && !outcome.is_valid(), "{:?}", outcome.metrics);
    assert!(failures(&outcome).is_empty(), "{:?}", outcome.metrics.failures);
}

/// More requests fall due than can be sent. All of them were once handled before any command, so commands were never
/// handled.
#[test]
fn unreachable_rate_can_be_interrupted() {
    let server = serve(|_| (response(10), false));
    let fast = LoadSpec { rate: Some(1e7), arrivals: Arrivals::Poisson, request_count: None, ..spec(&server.url()) };
    let endless = LoadSpec { duration: ENDLESS, ..fast };
    let outcome = run_until(&endless, &|| server.requests.load(Ordering::SeqCst) > 50);
    assert!(outcome.is_interrupted && outcome.metrics.responses > 0, "{:?}", outcome.metrics);
}

#[test]
fn unix_socket_is_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    stream.write_all(&response(3)).unwrap();
                }
            });
        }
    });
    let outcome = run(&spec(&format!("unix:{}:/x", path.display())));
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()));
}

/// Every worker once began with the first server.
#[test]
fn workers_begin_with_different_servers() {
    let servers = [serve(|_| (response(10), false)), serve(|_| (response(10), false))];
    let urls = servers.iter().map(crate::server::Server::url).collect();
    let outcome = run(&LoadSpec { urls, connections: 2, workers: Some(2), ..spec("") });
    assert_eq!(outcome.metrics.responses, 100);
    assert_eq!(servers.map(|server| server.connections.load(Ordering::SeqCst)), [1, 1]);
}

/// Answers each read with a response, until the client closes.
fn answer(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|count| count > 0) && stream.write_all(&response(3)).is_ok() {}
}

/// A closed loop without a duration once waited forever for requests that it could not send.
#[test]
fn closed_loop_without_a_duration_ends_when_the_server_is_gone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        let _ = stream.read(&mut buffer);
        drop(listener);
        stream.write_all(&response(3)).unwrap();
    });
    // The timeout is long because a response may be late on a busy machine. Only the end without a response waits for
    // it.
    let outcome = run(&LoadSpec { connections: 1, timeout: Duration::from_secs(5), ..spec(&url) });
    assert_eq!(outcome.metrics.responses, 1);
    assert_eq!(outcome.metrics.requests + outcome.metrics.not_made, 100);
    assert!(outcome.metrics.failures.contains_key(&Failure::ConnectRefused), "{:?}", outcome.metrics.failures);
    assert!(failed(&outcome).contains(&"connect"), "{:?}", outcome.gates);
}

/// The connections of a server that closes them at once were once replaced without a pause.
#[test]
fn connections_that_are_closed_at_once_are_retried_after_a_pause() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&accepted);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counter.fetch_add(1, Ordering::SeqCst);
            drop(stream);
        }
    });
    let open = LoadSpec { rate: Some(1.0), request_count: None, duration: Some(Duration::from_secs(1)), ..spec(&url) };
    run(&LoadSpec { connections: 1, timeout: Duration::from_millis(500), ..open });
    let accepted = accepted.load(Ordering::SeqCst);
    assert!((1..100).contains(&accepted), "{accepted}");
}

/// A reset once counted as a failed request, although none was in flight.
#[test]
fn reset_of_an_idle_connection_is_not_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut first = Vec::from([listener.accept().unwrap().0, listener.accept().unwrap().0]);
        for stream in &first {
            stream.set_nonblocking(true).unwrap();
        }
        let is_used = |stream: &TcpStream| stream.peek(&mut [0]).is_ok_and(|count| count > 0);
        let used = loop {
            match first.iter().position(is_used) {
                Some(used) => break first.remove(used),
                None => std::thread::yield_now(),
            }
        };
        // Nothing is answered before the other connection is reset, and the next request is due two seconds later.
        for idle in &first {
            set_reset_on_close(idle).unwrap();
        }
        drop(first);
        used.set_nonblocking(false).unwrap();
        std::thread::spawn(move || answer(used));
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    let outcome = run(&LoadSpec { rate: Some(0.5), connections: 2, request_count: Some(3), ..spec(&url) });
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (3, Vec::new()));
    assert_eq!(outcome.metrics.closed_while_idle, 1);
}
