//! Idle connections.

use crate::server::{failed, response, run, serve, spec};
use landau_load::{IdleSpec, Job, Launch, LoadSpec, Observer};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn idle(n: u32) -> IdleSpec {
    IdleSpec { n, steps: Vec::new(), samples: 5, passes: 1, settle: Duration::ZERO, server_pid: None, window: None }
}

/// Calls a function when all idle connections of a step are open.
struct WhenOpen<F>(F);

impl<F: FnMut()> Observer for WhenOpen<F> {
    fn opening(&mut self, open: u64, to: u32) {
        if open == u64::from(to) {
            (self.0)();
        }
    }
}

#[test]
fn every_step_is_reached_and_sampled() {
    let server = serve(|_| (response(10), false));
    let all = LoadSpec { idle: Some(idle(30)), request_count: None, workers: Some(2), ..spec(&server.url()) };
    let settle = Duration::from_millis(20);
    let began = Instant::now();
    let outcome = run(&LoadSpec { idle: Some(IdleSpec { passes: 2, settle, ..idle(30) }), ..all });
    let elapsed = Duration::from_nanos(outcome.metrics.elapsed_ns);
    // Two passes of six steps.
    assert!((2 * 6 * settle..began.elapsed()).contains(&elapsed), "{elapsed:?}");
    let sizes: Vec<(u32, u32, u64)> = outcome.steps.iter().map(|step| (step.pass, step.n, step.open)).collect();
    let expected: Vec<(u32, u32, u64)> =
        (0..2).flat_map(|pass| [1, 2, 5, 10, 20, 30].map(|n| (pass, n, u64::from(n)))).collect();
    assert_eq!(sizes, expected);
    assert!(outcome.steps.iter().all(|step| step.idle_ns.len() == 5 && step.new_ns.len() == 5));
    let mut samples = outcome.steps.iter().flat_map(|step| &step.new_ns);
    assert!(samples.all(|[handshake, first, last]| *handshake > 0 && *first > 0 && last >= first));
    assert!(failed(&outcome).is_empty(), "{:?}", outcome.gates);
}

#[test]
fn server_that_closes_idle_connections_fails_alive() {
    let server = serve(|_| (response(10), false));
    let steps = IdleSpec { steps: vec![20], ..idle(20) };
    let spec = LoadSpec { idle: Some(steps), request_count: None, ..spec(&server.url()) };
    let mut observer = WhenOpen(|| server.close_all());
    let outcome = landau_load::run(&Job::resolve(&spec).unwrap(), &Launch::Thread, &mut observer, &|| false).unwrap();
    assert_eq!(outcome.steps.iter().map(|step| (step.n, step.open)).collect::<Vec<_>>(), [(20, 0)]);
    assert!(failed(&outcome).contains(&"alive"), "{:?} {:?}", outcome.gates, outcome.steps);
}

/// A server that closes all connections from the address `first` when a connection from `second` makes its second
/// request. Returns its URL.
fn server_that_closes_others(first: IpAddr, second: IpAddr) -> String {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let from_first = Arc::new(Mutex::new(Vec::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let source = stream.peer_addr().unwrap().ip();
            if source == first {
                from_first.lock().unwrap().push(stream.try_clone().unwrap());
            }
            let from_first = Arc::clone(&from_first);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                let mut requests = 0;
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    requests += 1;
                    if source == second && requests > 1 {
                        let mut sockets = from_first.lock().unwrap();
                        sockets.drain(..).for_each(|socket| socket.shutdown(Shutdown::Both).unwrap_or(()));
                    }
                    if stream.write_all(&response(10)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// The connections of each worker were once counted after its own samples, and not again.
#[test]
fn connection_lost_during_samples_of_another_worker_is_noticed() {
    let sources = ["127.0.0.2", "127.0.0.3"].map(|address| address.parse::<IpAddr>().unwrap());
    let url = server_that_closes_others(sources[0], sources[1]);
    let two = LoadSpec { workers: Some(2), sources: sources.map(|ip| (ip, 0).into()).to_vec(), ..spec(&url) };
    let steps = IdleSpec { steps: vec![2], ..idle(2) };
    let outcome = run(&LoadSpec { idle: Some(steps), request_count: None, ..two });
    assert_eq!(outcome.steps.iter().map(|step| (step.n, step.open)).collect::<Vec<_>>(), [(2, 1)]);
    assert!(failed(&outcome).contains(&"alive"), "{:?}", outcome.gates);
}

/// The controller once slept through the settling time.
#[test]
fn settling_can_be_interrupted() {
    let server = serve(|_| (response(10), false));
    let settling = IdleSpec { settle: Duration::from_secs(3600), ..idle(3) };
    let job = Job::resolve(&LoadSpec { idle: Some(settling), request_count: None, ..spec(&server.url()) }).unwrap();
    let is_open = AtomicBool::new(false);
    let mut observer = WhenOpen(|| is_open.store(true, Ordering::SeqCst));
    let interrupted = || is_open.load(Ordering::SeqCst);
    let outcome = landau_load::run(&job, &Launch::Thread, &mut observer, &interrupted).unwrap();
    assert_eq!((outcome.is_interrupted, outcome.steps), (true, Vec::new()));
}

/// A server that answers the first request of each connection after 20 ms. Returns its URL, and the largest number of
/// connections that waited for their first response at a time.
fn server_of_slow_first_responses() -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (waiting, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&most);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, waiting) = (stream.unwrap(), Arc::clone(&waiting));
            seen.fetch_max(waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let (mut buffer, mut is_first) = ([0; 4096], true);
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    if std::mem::take(&mut is_first) {
                        std::thread::sleep(Duration::from_millis(20));
                        waiting.fetch_sub(1, Ordering::SeqCst);
                    }
                    if stream.write_all(&response(10)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, most)
}

#[test]
fn connections_are_opened_few_at_a_time() {
    // Each of 100 workers has one connection, and 64 workers begin. One worker alone opens 128 at a time, as many as
    // the server's backlog. With a window of 24 for all, three workers open theirs, or one worker opens 24.
    for (workers, n, window, bound) in
        [(100, 100, None, 64), (1, 400, None, 128), (100, 100, Some(24), 3), (1, 400, Some(24), 24)]
    {
        let (url, most) = server_of_slow_first_responses();
        let steps = IdleSpec { steps: vec![10, n], window, ..idle(n) };
        let outcome = run(&LoadSpec { idle: Some(steps), request_count: None, workers: Some(workers), ..spec(&url) });
        let steps: Vec<(u32, u64)> = outcome.steps.iter().map(|step| (step.n, step.open)).collect();
        assert_eq!(steps, [(10, 10), (n, u64::from(n))]);
        assert!(failed(&outcome).is_empty(), "{:?}", outcome.gates);
        let most = most.load(Ordering::SeqCst);
        assert!((2..=bound).contains(&most), "{workers}: {most}");
    }
}

/// Counts the workers that have opened their connections, or have failed to.
struct CountReports(u32);

impl Observer for CountReports {
    fn opening(&mut self, _: u64, _: u32) {
        self.0 += 1;
    }
}

/// A worker that finds no server takes a second to report it. The others must not each find out in turn.
#[test]
fn no_further_worker_opens_connections_after_one_that_could_not() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let steps = IdleSpec { steps: vec![100], ..idle(100) };
    let absent = LoadSpec { idle: Some(steps), request_count: None, ..spec(&format!("http://{address}/")) };
    let mut reports = CountReports(0);
    let job = Job::resolve(&LoadSpec { workers: Some(100), ..absent }).unwrap();
    let outcome = landau_load::run(&job, &Launch::Thread, &mut reports, &|| false).unwrap();
    assert!(failed(&outcome).contains(&"connect"), "{:?}", outcome.gates);
    assert!((1..100).contains(&reports.0), "{}", reports.0);
}
