//! Listeners that several loops watch, where it is enough to wake one loop.

use crate::common::{LONG, among_others, events, no_events, only};
use landau_reactor::{Backend, Interest, Reactor, Token, Waker};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const LOOPS: usize = 8;
const CONNECTIONS: usize = 100;

const BACKENDS: [Backend; 2] = [Backend::Epoll, Backend::EpollEdge];

/// The result of a loop.
#[derive(Debug)]
struct Done {
    accepted: usize,
    /// The number of times that its thread slept.
    sleeps: usize,
}

/// Returns the number of times that the thread has slept so far.
fn sleeps() -> usize {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.unwrap().trim().parse().unwrap()
}

/// The state that the loops of a test share.
struct Shared {
    takes_turns: bool,
    is_ending: AtomicBool,
    /// Loops that have accepted a connection.
    begun: AtomicUsize,
}

/// Accepts until `is_ending` is set and the loop is woken; calls [`Reactor::requeue`] after each connection if
/// `takes_turns` is set.
fn accept_all(reactor: &mut Reactor, listener: &TcpListener, shared: &Shared) -> Done {
    let (mut accepted, before, began) = (0, sleeps(), Instant::now());
    // Nothing else ends the loop if the test has failed elsewhere.
    while !shared.is_ending.load(Ordering::Acquire) && began.elapsed() < 3 * LONG {
        reactor.wait(Some(LONG)).unwrap();
        while reactor.next_event().is_some() {
            while let Ok((stream, _)) = listener.accept() {
                accepted += 1;
                if accepted == 1 {
                    shared.begun.fetch_add(1, Ordering::AcqRel);
                }
                if shared.takes_turns {
                    reactor.requeue(listener).unwrap();
                }
                // The client waits for the end of the stream.
                stream.shutdown(Shutdown::Both).unwrap();
            }
            reactor.clear_readiness(listener, Interest::READABLE);
        }
    }
    Done { accepted, sleeps: sleeps() - before }
}

/// Makes connections one after the other while several loops wait: at least [`CONNECTIONS`], and with turns until each
/// loop has accepted one, or until a long time has passed. Returns the result of each loop; each connection was
/// accepted once.
fn share(backend: Backend, takes_turns: bool) -> Vec<Done> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shared = Shared { takes_turns, is_ending: AtomicBool::new(false), begun: AtomicUsize::new(0) };
    let (send_waker, wakers) = mpsc::channel::<Waker>();
    std::thread::scope(|scope| {
        let run = |copy: TcpListener, waker: mpsc::Sender<Waker>| {
            let shared = &shared;
            scope.spawn(move || {
                let mut reactor = Reactor::new(backend).unwrap();
                reactor.register_exclusive(&copy, Token(1)).unwrap();
                no_events(&mut reactor);
                waker.send(reactor.waker().unwrap()).unwrap();
                accept_all(&mut reactor, &copy, shared)
            })
        };
        let loops: Vec<_> = (0..LOOPS).map(|_| run(listener.try_clone().unwrap(), send_waker.clone())).collect();
        let wakers: Vec<_> = (0..LOOPS).map(|_| wakers.recv_timeout(LONG).unwrap()).collect();
        let (mut count, began) = (0, Instant::now());
        let lacks = || takes_turns && shared.begun.load(Ordering::Acquire) < LOOPS && began.elapsed() < LONG;
        while count < CONNECTIONS || lacks() {
            count += 1;
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.set_read_timeout(Some(LONG)).unwrap();
            assert_eq!(std::io::Read::read(&mut client, &mut [0]).unwrap(), 0);
        }
        shared.is_ending.store(true, Ordering::Release);
        for waker in wakers {
            waker.wake().unwrap();
        }
        let done: Vec<_> = loops.into_iter().map(|one| one.join().unwrap()).collect();
        assert_eq!(done.iter().map(|one| one.accepted).sum::<usize>(), count, "{backend}: {done:?}");
        done
    })
}

/// A connection wakes one loop: if it woke all, as without `EPOLLEXCLUSIVE`, they would sleep about 800 times.
#[test]
fn a_connection_wakes_one_of_the_loops_that_share_a_listener() {
    let _guard = among_others();
    for backend in BACKENDS {
        let done = share(backend, false);
        let sleeps: usize = done.iter().map(|one| one.sleeps).sum();
        assert!(sleeps < 3 * CONNECTIONS, "{backend}: {done:?}");
    }
}

/// Without turns the loop that was registered first gets nearly all connections.
#[test]
fn loops_that_share_a_listener_take_turns() {
    let _guard = among_others();
    for backend in BACKENDS {
        let done = share(backend, true);
        assert!(done.iter().all(|one| one.accepted > 0), "{backend}: {done:?}");
    }
}

/// The end of a turn is passed to the backend with the next wait. Before the fix, if the interest was removed
/// meanwhile, the backend continued to watch, and each wait ended at once.
#[test]
fn a_listener_without_interest_ends_no_wait_after_its_turn() {
    const REST: Duration = Duration::from_millis(50);
    let _guard = among_others();
    for backend in BACKENDS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reactor = Reactor::new(backend).unwrap();
        reactor.register_exclusive(&listener, Token(1)).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(only(&mut reactor).ready.is_readable(), "{backend}");
        reactor.requeue(&listener).unwrap();
        reactor.set_interest(&listener, Interest::NONE).unwrap();
        for _ in 0..3 {
            let began = Instant::now();
            assert_eq!(events(&mut reactor, REST), []);
            assert!(began.elapsed() >= REST, "{backend}: {:?}", began.elapsed());
        }
        reactor.set_interest(&listener, Interest::READABLE).unwrap();
        assert!(only(&mut reactor).ready.is_readable(), "{backend}");
    }
}

/// `EPOLLEXCLUSIVE` forbids changes: the descriptor is removed and added again.
#[test]
fn the_interest_in_a_shared_listener_can_come_and_go() {
    let _guard = among_others();
    for backend in landau_reactor::backends().into_iter().filter(|&one| one != Backend::Null) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reactor = Reactor::new(backend).unwrap();
        reactor.register_exclusive(&listener, Token(1)).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(only(&mut reactor).ready.is_readable(), "{backend}");
        reactor.set_interest(&listener, Interest::NONE).unwrap();
        no_events(&mut reactor);
        no_events(&mut reactor);
        // `requeue` does not restore the interest.
        reactor.requeue(&listener).unwrap();
        no_events(&mut reactor);
        reactor.set_interest(&listener, Interest::READABLE).unwrap();
        assert!(only(&mut reactor).ready.is_readable(), "{backend}");
        reactor.requeue(&listener).unwrap();
        assert!(only(&mut reactor).ready.is_readable(), "{backend}");
        listener.accept().unwrap();
        reactor.clear_readiness(&listener, Interest::READABLE);
        no_events(&mut reactor);
        reactor.deregister(&listener).unwrap();
        assert!(reactor.requeue(&listener).is_err(), "{backend}");
        let _other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        no_events(&mut reactor);
        reactor.register_exclusive(&listener, Token(2)).unwrap();
        assert_eq!(only(&mut reactor).token, Token(2), "{backend}");
    }
}
