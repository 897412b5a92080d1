//! Crowds of idle connections.

use crate::server::{answer, failed, run, serve, wish};
use landau_load::{CrowdWish, Failure, Job, Launch, Observer, Wish};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn crowd(n: u32) -> CrowdWish {
    CrowdWish { n, steps: Vec::new(), samples: 5, passes: 1, settle: Duration::ZERO, server: None }
}

#[test]
fn a_crowd_grows_stands_and_is_measured_at_each_size() {
    let server = serve(|_| (answer(10), false));
    let all = Wish { crowd: Some(crowd(30)), request_count: None, workers: Some(2), ..wish(&server.url()) };
    let outcome = run(&Wish { crowd: Some(CrowdWish { passes: 2, ..crowd(30) }), ..all });
    let sizes: Vec<(u32, u32, u64)> = outcome.steps.iter().map(|step| (step.pass, step.n, step.open)).collect();
    let expected: Vec<(u32, u32, u64)> =
        (0..2).flat_map(|pass| [1, 2, 5, 10, 20, 30].map(|n| (pass, n, u64::from(n)))).collect();
    assert_eq!(sizes, expected);
    assert!(outcome.steps.iter().all(|step| step.old_ns.len() == 5 && step.fresh_ns.len() == 5));
    assert!(
        outcome
            .steps
            .iter()
            .flat_map(|step| &step.fresh_ns)
            .all(|[handshake, first, last]| { *handshake > 0 && *first > 0 && last >= first })
    );
    assert!(failed(&outcome).is_empty(), "{:?}", outcome.gates);
}

#[test]
fn a_server_that_ends_idle_connections_is_found_out() {
    let server = std::sync::Arc::new(serve(|_| (answer(10), false)));
    let other = std::sync::Arc::clone(&server);
    std::thread::spawn(move || {
        while other.connections.load(Ordering::SeqCst) < 20 {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(100));
        other.hang_up();
    });
    let steps = vec![20];
    let late = CrowdWish { steps, settle: Duration::from_millis(500), ..crowd(20) };
    let timeout = Duration::from_millis(500);
    let outcome = run(&Wish { crowd: Some(late), request_count: None, timeout, ..wish(&server.url()) });
    assert!(failed(&outcome).contains(&"alive"), "{:?} {:?}", outcome.gates, outcome.steps);
}

/// A server that resets all connections of the first address as soon as one of the second asks for more than its first
/// answer.
fn forgetful(first: IpAddr, second: IpAddr) -> String {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let url = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let firsts = Arc::new(Mutex::new(Vec::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let from = stream.peer_addr().unwrap().ip();
            if from == first {
                firsts.lock().unwrap().push(stream.try_clone().unwrap());
            }
            let firsts = Arc::clone(&firsts);
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                let mut asked = 0;
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    asked += 1;
                    if from == second && asked > 1 {
                        firsts.lock().unwrap().drain(..).for_each(|one| one.shutdown(Shutdown::Both).unwrap_or(()));
                    }
                    if stream.write_all(&answer(10)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// Each worker was asked when its own samples were taken, and never again.
#[test]
fn a_connection_lost_while_another_worker_samples_is_found_out() {
    let sources = ["127.0.0.2", "127.0.0.3"].map(|address| address.parse::<IpAddr>().unwrap());
    let url = forgetful(sources[0], sources[1]);
    let two = Wish { workers: Some(2), sources: sources.to_vec(), ..wish(&url) };
    let steps = vec![2];
    let outcome = run(&Wish { crowd: Some(CrowdWish { steps, ..crowd(2) }), request_count: None, ..two });
    assert_eq!(outcome.steps.iter().map(|step| (step.n, step.open)).collect::<Vec<_>>(), [(2, 1)]);
    assert!(failed(&outcome).contains(&"alive"), "{:?}", outcome.gates);
}

#[test]
fn a_server_that_takes_only_some_ends_the_crowd_there() {
    let server = serve(|number| if number < 15 { (answer(10), false) } else { (Vec::new(), true) });
    let steps = vec![10, 20];
    let timeout = Duration::from_millis(300);
    let some = CrowdWish { steps, samples: 0, ..crowd(20) };
    let outcome = run(&Wish { crowd: Some(some), request_count: None, timeout, ..wish(&server.url()) });
    assert_eq!(outcome.steps.iter().map(|step| (step.n, step.open)).collect::<Vec<_>>(), [(10, 10), (20, 15)]);
    assert!(failed(&outcome).contains(&"alive"));
    assert!(outcome.tally.failures.contains_key(&Failure::ClosedBeforeAnswer), "{:?}", outcome.tally.failures);
}

/// Says that the crowd has grown, which is when it is left alone.
struct Grown<'a>(&'a AtomicBool);

impl Observer for Grown<'_> {
    fn grown(&mut self, _: u64, _: u32) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The controller slept through it and heard nobody.
#[test]
fn a_crowd_that_settles_can_be_interrupted() {
    let server = serve(|_| (answer(10), false));
    let settling = CrowdWish { settle: Duration::from_secs(3600), ..crowd(3) };
    let job = Job::resolve(&Wish { crowd: Some(settling), request_count: None, ..wish(&server.url()) }).unwrap();
    let has_grown = AtomicBool::new(false);
    let is_enough = || has_grown.load(Ordering::SeqCst);
    let outcome = landau_load::run(&job, &Launch::Thread, &mut Grown(&has_grown), &is_enough).unwrap();
    assert_eq!((outcome.is_interrupted, outcome.steps), (true, Vec::new()));
}
