//! Closed and open loops.

use crate::server::{failed, response, run, serve, spec};
use landau_load::plan::Arrivals;
use landau_load::plan::Load;
use landau_load::{Failure, IdleSpec, Job, Launch, LoadSpec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn failures(outcome: &landau_load::Outcome) -> Vec<(Failure, u64)> {
    outcome.metrics.failures.iter().map(|(failure, count)| (*failure, *count)).collect()
}

#[test]
fn a_closed_loop_counts_every_answer_once() {
    let server = serve(|_| (response(10), false));
    let outcome = run(&spec(&server.url()));
    let metrics = &outcome.metrics;
    assert_eq!((metrics.requests, metrics.responses, metrics.statuses.get(&200)), (100, 100, Some(&100)));
    assert_eq!(metrics.phases.first_byte_new.count() + metrics.phases.first_byte_reused.count(), 100);
    assert_eq!((metrics.phases.service.count(), metrics.phases.handshake.count()), (100, 4));
    assert_eq!(metrics.bytes, 100 * response(10).len() as u64);
    assert_eq!(server.requests.load(Ordering::SeqCst), 100);
    assert!(failed(&outcome).is_empty() && failures(&outcome).is_empty(), "{:?}", outcome.gates);
}

/// Mechanisms that tell of changes only must not lose an end that comes with the last bytes, nor ask twice for orders.
#[test]
fn every_mechanism_does() {
    let close = b"HTTP/1.1 200 OK\r\n\r\nab".to_vec();
    let (server, other) = (serve(|_| (response(10), false)), serve(move |_| (close.clone(), true)));
    for backend in ["epoll", "epoll-edge", "poll"] {
        let rate = Some(2000.0);
        let backend = backend.to_owned();
        let closed = LoadSpec { backend: backend.clone(), ..spec(&server.url()) };
        let ending = LoadSpec { backend: backend.clone(), ..spec(&other.url()) };
        for spec in [&LoadSpec { rate, ..closed.clone() }, &closed, &ending] {
            let outcome = run(spec);
            assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()), "{backend}");
        }
    }
}

#[test]
fn workers_share_the_work() {
    let server = serve(|_| (response(10), false));
    let outcome = run(&LoadSpec { workers: Some(3), connections: 7, request_count: Some(101), ..spec(&server.url()) });
    assert_eq!((outcome.worker_count, outcome.metrics.responses, outcome.metrics.connections), (3, 101, 7));
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let server = serve(|number| (response(if number % 2 == 0 { 5 } else { 5000 }), false));
    let outcome = run(&LoadSpec { pipeline: 8, connections: 2, request_count: Some(200), ..spec(&server.url()) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.requests), (200, 200));
    // Every other answer has another length than the first one.
    assert_eq!(failed(&outcome), ["length"]);
}

#[test]
fn a_connection_for_each_request() {
    let server = serve(|_| (response(10), false));
    let outcome = run(&LoadSpec { per_connection: Some(1), ..spec(&server.url()) });
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()));
    assert_eq!(outcome.metrics.phases.first_byte_new.count(), 100);
    assert!(server.connections.load(Ordering::SeqCst) >= 100);
}

#[test]
fn a_server_that_closes_after_each_answer_is_no_failure() {
    let close = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab".to_vec();
    let server = serve(move |_| (close.clone(), true));
    let outcome = run(&spec(&server.url()));
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()));
}

#[test]
fn an_answer_ends_with_its_connection_or_its_last_chunk() {
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
fn what_goes_wrong_is_told_by_kind() {
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
fn no_answer_is_a_timeout_and_nothing_hangs() {
    let server = serve(|_| (Vec::new(), false));
    let timeout = Duration::from_millis(200);
    let outcome = run(&LoadSpec { request_count: Some(6), timeout, ..spec(&server.url()) });
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (0, vec![(Failure::Timeout, 6)]));
}

#[test]
fn nobody_there_is_a_failed_gate_and_no_hanging() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let timeout = Duration::from_millis(300);
    let outcome = run(&LoadSpec { timeout, ..spec(&format!("http://{address}/")) });
    assert_eq!(outcome.metrics.responses, 0);
    assert!(outcome.metrics.failures.contains_key(&Failure::ConnectRefused), "{:?}", outcome.metrics.failures);
    assert!(failed(&outcome).contains(&"connect"));
}

#[test]
fn a_server_that_dies_in_the_middle_is_survived() {
    let server = Arc::new(serve(|_| (response(10), false)));
    let other = Arc::clone(&server);
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let killer = std::thread::spawn(move || {
        while !over.load(Ordering::SeqCst) {
            if other.requests.load(Ordering::SeqCst) > 20 {
                other.close_all();
            }
            std::thread::yield_now();
        }
    });
    let outcome = run(&LoadSpec { request_count: Some(300), ..spec(&server.url()) });
    is_over.store(true, Ordering::SeqCst);
    killer.join().unwrap();
    let lost: u64 = outcome.metrics.failures.values().sum();
    assert!(outcome.metrics.responses + lost >= 300 && outcome.metrics.responses > 20, "{:?}", outcome.metrics);
}

#[test]
fn errors_of_the_server_fail_a_gate_that_can_be_waived() {
    let server = serve(|_| (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec(), false));
    assert_eq!(failed(&run(&spec(&server.url()))), ["status"]);
    let outcome = run(&LoadSpec { waived: vec!["status".to_owned()], ..spec(&server.url()) });
    assert_eq!((failed(&outcome), outcome.metrics.statuses.get(&503)), (Vec::new(), Some(&100)));
}

/// A request in each millisecond, and a second in which nothing is answered: a third of all come to wait, half a second
/// on average. Counted from when they were sent it would be four, for there are four connections.
#[test]
fn an_open_loop_charges_a_stall_with_its_weight() {
    let stall = Arc::new(Mutex::new(()));
    let server = serve(move |number| {
        if number == 1000 {
            let _held = stall.lock().unwrap();
            std::thread::sleep(Duration::from_secs(1));
        }
        drop(stall.lock().unwrap());
        (response(10), false)
    });
    let duration = Some(Duration::from_secs(3));
    let outcome = run(&LoadSpec { rate: Some(1000.0), request_count: None, duration, ..spec(&server.url()) });
    let (metrics, phases) = (&outcome.metrics, &outcome.metrics.phases);
    assert_eq!((metrics.due, metrics.responses), (3000, 3000), "{:?}", outcome.gates);
    let late = |histogram: &landau_load::Histogram| histogram.count_above(100_000_000);
    // A busy machine can only add to them.
    assert!(late(&phases.latency) >= 850, "{}", late(&phases.latency));
    assert!(phases.latency.quantile_ns(0.9) >= 500_000_000);
    assert!(late(&phases.service) < late(&phases.latency) / 10 + 100, "{}", late(&phases.service));
    assert_eq!((phases.schedule_lag.count(), phases.connection_wait.count()), (3000, 3000));
}

/// Everything was answered in the end, so the rate was taken for reached.
#[test]
fn a_server_that_reaches_half_the_rate_fails_it() {
    let one_at_a_time = Mutex::new(());
    let server = serve(move |_| {
        let _held = one_at_a_time.lock().unwrap();
        std::thread::sleep(Duration::from_millis(10));
        (response(10), false)
    });
    let timed = LoadSpec { request_count: None, duration: Some(Duration::from_secs(1)), ..spec(&server.url()) };
    let counted = LoadSpec { request_count: Some(200), ..spec(&server.url()) };
    for spec in [timed, counted] {
        let outcome = run(&LoadSpec { rate: Some(200.0), ..spec });
        assert_eq!((outcome.metrics.due, outcome.metrics.responses), (200, 200));
        assert_eq!(failed(&outcome), ["rate"], "{:?}", outcome.gates);
    }
}

#[test]
fn an_open_loop_may_make_a_connection_for_each_request() {
    let server = serve(|_| (response(10), false));
    let open = LoadSpec { rate: Some(500.0), per_connection: Some(1), connections: 50, ..spec(&server.url()) };
    let outcome = run(&open);
    assert_eq!((outcome.metrics.responses, failures(&outcome)), (100, Vec::new()));
    assert_eq!(outcome.metrics.phases.handshake.count(), 100);
}

#[test]
fn what_is_sent_in_the_warm_up_is_not_measured() {
    let server = serve(|_| (response(10), false));
    let outcome = run(&LoadSpec { warm_up: Duration::from_millis(200), ..spec(&server.url()) });
    assert_eq!((outcome.metrics.requests, outcome.metrics.responses), (100, 100));
    assert!(server.requests.load(Ordering::SeqCst) > 100);
}

#[test]
fn an_access_log_is_replayed_in_its_order() {
    let server = serve(|_| (response(10), false));
    let log = tempfile::NamedTempFile::new().unwrap();
    let line = |target: &str| format!("::1 - - [1/Jan/2026:00:00:00 +0000] \"GET {target} HTTP/1.1\" 200 1\n");
    std::fs::write(log.path(), [line("/a"), line("/b"), line("/a")].concat()).unwrap();
    let replay = Some(log.path().to_owned());
    let outcome = run(&LoadSpec { replay, connections: 1, request_count: Some(6), ..spec(&server.url()) });
    assert_eq!((outcome.metrics.responses, outcome.metrics.lengths.len()), (6, 2));
}

#[test]
fn a_unix_socket_is_a_target() {
    use std::io::{Read, Write};
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

#[test]
fn an_interrupt_tells_what_was_measured() {
    let server = serve(|_| (response(10), false));
    let endless = LoadSpec { request_count: None, duration: Some(Duration::from_secs(3600)), ..spec(&server.url()) };
    let job = landau_load::Job::resolve(&endless).unwrap();
    let is_enough = || server.requests.load(Ordering::SeqCst) > 50;
    let outcome = landau_load::run(&job, &landau_load::Launch::Thread, &mut (), &is_enough).unwrap();
    assert!(outcome.is_interrupted && outcome.metrics.responses >= 40 && !outcome.is_valid(), "{:?}", outcome.metrics);
    assert!(failures(&outcome).is_empty(), "{:?}", outcome.metrics.failures);
}

/// Far more falls due than can be sent: all of it was looked at before the controller was heard again, which was never.
#[test]
fn a_rate_that_cannot_be_reached_can_be_interrupted() {
    let server = serve(|_| (response(10), false));
    let hasty = LoadSpec { rate: Some(1e7), arrivals: Arrivals::Poisson, request_count: None, ..spec(&server.url()) };
    let job = Job::resolve(&LoadSpec { duration: Some(Duration::from_secs(3600)), ..hasty }).unwrap();
    let is_enough = || server.requests.load(Ordering::SeqCst) > 50;
    let outcome = landau_load::run(&job, &Launch::Thread, &mut (), &is_enough).unwrap();
    assert!(outcome.is_interrupted && outcome.metrics.responses > 0, "{:?}", outcome.metrics);
}

/// A plan may come from elsewhere. A schedule whose end cannot be told as a number came before its start.
#[test]
fn what_is_due_or_begins_beyond_all_time_never_comes() {
    let server = serve(|_| (response(10), false));
    let duration = Some(Duration::from_millis(100));
    let timed = LoadSpec { rate: Some(1.0), request_count: None, duration, ..spec(&server.url()) };
    let mut job = Job::resolve(&LoadSpec { arrivals: Arrivals::Poisson, ..timed.clone() }).unwrap();
    job.plans[0].load = Load::Open { per_second: 1e-300, arrivals: Arrivals::Poisson };
    let outcome = landau_load::run(&job, &Launch::Thread, &mut (), &|| false).unwrap();
    assert_eq!((outcome.metrics.due, server.requests.load(Ordering::SeqCst)), (0, 0));
    // A warm-up for ever is not none.
    let mut job = Job::resolve(&LoadSpec { rate: None, ..timed }).unwrap();
    job.plans[0].warm_up_ns = u64::MAX;
    let is_enough = || server.requests.load(Ordering::SeqCst) > 50;
    let outcome = landau_load::run(&job, &Launch::Thread, &mut (), &is_enough).unwrap();
    assert_eq!((outcome.metrics.responses, outcome.is_interrupted), (0, true));
}

/// It was tried again until --timeout was over. Whoever is about to start has a second.
#[test]
fn nobody_there_is_told_before_the_timeout() {
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let absent = LoadSpec { timeout: Duration::from_secs(100), ..spec(&format!("http://{address}/")) };
    let some = IdleSpec { n: 2, steps: Vec::new(), samples: 1, passes: 1, settle: Duration::ZERO, server_pid: None };
    for spec in [LoadSpec { idle: Some(some), ..absent.clone() }, absent] {
        let job = Job::resolve(&spec).unwrap();
        let began = Instant::now();
        let is_late = || began.elapsed() > Duration::from_secs(30);
        let outcome = landau_load::run(&job, &Launch::Thread, &mut (), &is_late).unwrap();
        assert!(!outcome.is_interrupted && failed(&outcome).contains(&"connect"), "{:?}", outcome.gates);
        assert!(outcome.gates.iter().any(|gate| gate.reason.iter().any(|why| why.contains("is the server running?"))));
    }
}

/// A server that is full answers whoever connects before anything is asked; that is worth more than how much it said.
#[test]
fn what_nobody_asked_for_is_quoted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 503 Full\r\nContent-Length: 0\r\n\r\n").unwrap();
            held.push(stream);
        }
    });
    let warm_up = Duration::from_millis(50);
    let duration = Some(Duration::from_millis(200));
    // At so slow a rate nothing is asked before the end.
    let outcome = run(&LoadSpec { rate: Some(0.001), request_count: None, warm_up, duration, ..spec(&url) });
    let said = outcome.metrics.failure_details.get(&Failure::UnsolicitedResponse).cloned().unwrap_or_default();
    assert!(said.ends_with("bytes, beginning with: HTTP/1.1 503 Full"), "{said:?}");
}
