//! At the limits of the system: a full descriptor table, a full queue of signals, interrupted waits, counted calls.

use crate::child;
use crate::common::{LONG, each, events, no_events, only, pair};
use landau_reactor::{Backend, Error, Interest, Reactor, Token, backends};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_full_descriptor_table_is_an_error() {
    if !child::is("full") {
        return child::run("ulimit -n 64;", "suite::limits::a_full_descriptor_table_is_an_error", "full");
    }
    each(|reactor| {
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        let mut filler = Vec::new();
        while let Ok(copy) = two.try_clone() {
            filler.push(copy);
        }
        assert!(matches!(reactor.waker(), Err(Error::System(_))));
        for &other in Backend::ALL {
            let made = Reactor::new(other);
            let needs_none = matches!(other, Backend::Select | Backend::Poll | Backend::Null);
            assert_eq!(made.is_ok(), needs_none, "{other}: {made:?}");
        }
        two.write_all(b"x").unwrap();
        only(reactor);
        drop(filler);
        reactor.waker().unwrap().wake().unwrap();
        only(reactor);
    });
}

/// `poll` finds the readiness whose signals do not fit, and the overflow is noted.
#[cfg(target_os = "linux")]
#[test]
fn a_full_queue_of_signals_loses_nothing() {
    if !child::is("signals") {
        return child::run("ulimit -i 20;", "suite::limits::a_full_queue_of_signals_loses_nothing", "signals");
    }
    let mut reactor = Reactor::new(Backend::Sigio).unwrap();
    let mut pairs: Vec<_> = (0..200).map(|_| pair()).collect();
    for (index, (one, _)) in pairs.iter().enumerate() {
        reactor.register(one, Token(index as u32), Interest::READABLE).unwrap();
    }
    no_events(&mut reactor);
    for round in 1..4 {
        for (_, two) in &mut pairs {
            two.write_all(b"x").unwrap();
        }
        let mut found: Vec<u32> = events(&mut reactor, LONG).iter().map(|event| event.token.0).collect();
        found.sort_unstable();
        assert_eq!(found, (0..200).collect::<Vec<_>>());
        assert!(reactor.note().unwrap().contains(&format!("overflowed {round} times")), "{:?}", reactor.note());
        for (one, _) in &mut pairs {
            crate::common::drain(&mut reactor, one);
        }
        no_events(&mut reactor);
    }
}

/// Two reactors of one thread: one of them is notified that signals of both were lost.
#[cfg(target_os = "linux")]
#[test]
fn each_reactor_of_a_thread_notices_a_full_queue() {
    if !child::is("both") {
        return child::run("ulimit -i 20;", "suite::limits::each_reactor_of_a_thread_notices_a_full_queue", "both");
    }
    let (mut first, mut second) = (Reactor::new(Backend::Sigio).unwrap(), Reactor::new(Backend::Sigio).unwrap());
    let mut pairs: Vec<_> = (0..100).map(|_| pair()).collect();
    for (index, (one, _)) in pairs.iter().enumerate() {
        let reactor = if index % 2 == 0 { &mut first } else { &mut second };
        reactor.register(one, Token(index as u32), Interest::READABLE).unwrap();
    }
    no_events(&mut first);
    no_events(&mut second);
    for (_, two) in &mut pairs {
        two.write_all(b"x").unwrap();
    }
    for reactor in [&mut first, &mut second] {
        assert_eq!(events(reactor, LONG).len(), 50);
    }
}

/// The queue has room for signals of the first only, which is also the one that is notified.
#[cfg(target_os = "linux")]
#[test]
fn a_reactor_does_not_sleep_after_another_was_notified_of_its_loss() {
    const NAME: &str = "suite::limits::a_reactor_does_not_sleep_after_another_was_notified_of_its_loss";
    if !child::is("other") {
        return child::run("ulimit -i 20;", NAME, "other");
    }
    let (mut first, mut second) = (Reactor::new(Backend::Sigio).unwrap(), Reactor::new(Backend::Sigio).unwrap());
    let mut pairs: Vec<_> = (0..50).map(|_| pair()).collect();
    for (index, (one, _)) in (0..).zip(&pairs) {
        let reactor = if index < 49 { &mut first } else { &mut second };
        reactor.register(one, Token(index), Interest::READABLE).unwrap();
    }
    no_events(&mut first);
    no_events(&mut second);
    for (_, two) in &mut pairs {
        two.write_all(b"x").unwrap();
    }
    assert_eq!(events(&mut first, LONG).len(), 49);
    let begin = std::time::Instant::now();
    assert_eq!(only(&mut second).token, Token(49));
    assert!(begin.elapsed() < LONG, "the wait ended at its timeout only");
}

/// A signal handler that runs during a poll loses no signals of the queue.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_poll_is_no_overflow() {
    const NAME: &str = "suite::limits::an_interrupted_poll_is_no_overflow";
    if child::is("interrupted_poll") {
        let mut reactor = Reactor::new(Backend::Sigio).unwrap();
        let (mut one, mut two) = pair();
        for _ in 0..10 {
            // Registering polls the descriptor: data may have arrived before.
            two.write_all(b"x").unwrap();
            reactor.register(&one, Token(1), Interest::READABLE).unwrap();
            while events(&mut reactor, Duration::ZERO).is_empty() {}
            assert_eq!(crate::common::drain(&mut reactor, &mut one), Some(1));
            reactor.deregister(&one).unwrap();
        }
        assert_eq!(reactor.note(), None);
        return;
    }
    // A child's only test runs in the thread whose calls are counted.
    let words = "?poll,?ppoll -e inject=?poll,?ppoll:error=EINTR:when=2+2";
    match child::calls(NAME, "interrupted_poll", words, &[]) {
        Some(trace) => assert!(trace.contains("EINTR"), "{trace}"),
        None => println!("skipped: strace is missing or may not trace"),
    }
}

/// Interruption by a signal is not an error.
#[test]
fn an_interrupted_wait_finds_nothing() {
    const NAME: &str = "suite::limits::an_interrupted_wait_finds_nothing";
    if !child::is("interrupted") {
        return child::run("", NAME, "interrupted");
    }
    landau_sys::signal::catch_interrupts();
    for backend in backends() {
        println!("with {backend}");
        let mut reactor = Reactor::new(backend).unwrap();
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        // Signals of a process go to its first thread, which runs a child's only test. SIGTERM, because `nohup` and
        // shells ignore others in the background.
        let kill = format!("for i in 1 2 3; do sleep 0.02; kill -TERM {}; done", std::process::id());
        let mut killer = Command::new("bash").args(["-c", &kill]).spawn().unwrap();
        while killer.try_wait().unwrap().is_none() {
            let found = events(&mut reactor, Duration::from_millis(30));
            assert!(found.is_empty() || backend == Backend::Null, "{found:?}");
        }
        two.write_all(b"x").unwrap();
        while events(&mut reactor, LONG).is_empty() {}
    }
    assert_eq!(landau_sys::signal::interrupted(), Some("SIGTERM"));
}

/// Changing the interest and back costs no call while nothing happens, and a wait is one call.
#[cfg(target_os = "linux")]
#[test]
fn changes_of_interest_cost_no_call() {
    const NAME: &str = "suite::limits::changes_of_interest_cost_no_call";
    const ROUNDS: usize = 100;
    if child::is("calls") {
        let backend: Backend = std::env::var("LANDAU_REACTOR_BACKEND").unwrap().parse().unwrap();
        let mut reactor = Reactor::new(backend).unwrap();
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        for _ in 0..ROUNDS {
            reactor.set_interest(&one, Interest::NONE).unwrap();
            reactor.set_interest(&one, Interest::READABLE).unwrap();
            reactor.set_interest(&one, Interest::BOTH).unwrap();
            reactor.set_interest(&one, Interest::READABLE).unwrap();
            two.write_all(b"x").unwrap();
            only(&mut reactor);
            crate::common::drain(&mut reactor, &mut one);
        }
        return;
    }
    let names = "select,poll,ppoll,pselect6,epoll_wait,epoll_pwait,epoll_ctl,io_uring_enter";
    for backend in [Backend::Select, Backend::Poll, Backend::Epoll, Backend::EpollEdge, Backend::IoUring] {
        if !backends().contains(&backend) {
            continue;
        }
        let variables = [("LANDAU_REACTOR_BACKEND", backend.name())];
        let Some(trace) = child::calls(NAME, "calls", names, &variables) else {
            println!("skipped: strace is missing or may not trace");
            return;
        };
        let count = trace.lines().filter(|line| line.contains('(') && !line.contains("resumed")).count();
        // One wait for each round, registration, and a few calls at the start of the program.
        assert!((ROUNDS..ROUNDS + 12).contains(&count), "{backend}: {count} calls\n{trace}");
    }
}

/// If `io_uring` is missing, or forbidden by a container's filter or a sysctl, another backend is used and the reason
/// noted. If only newer flags are unknown, the ring is set up without them.
#[cfg(target_os = "linux")]
#[test]
fn a_forbidden_ring_is_replaced() {
    const NAME: &str = "suite::limits::a_forbidden_ring_is_replaced";
    if child::is("forbidden") {
        let error = Reactor::new(Backend::IoUring).unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{error}");
        let reactor = Reactor::new_or_fallback(Backend::IoUring).unwrap();
        let note = reactor.note().unwrap();
        assert!(note.starts_with("epoll instead of io_uring: ") && note.contains("io_uring_setup"), "{note}");
        assert_eq!(Reactor::resolve_backend(Backend::IoUring).unwrap(), (Backend::Epoll, Some(note)));
        assert!(!backends().contains(&Backend::IoUring));
        assert!(matches!(landau_reactor::completions::Ring::new(), Err(Error::Unavailable { .. })));
        return;
    }
    for (role, setup) in [("newer", "cooperative work"), ("oldest", "plain")] {
        if child::is(role) {
            let mut reactor = Reactor::new(Backend::IoUring).unwrap();
            assert!(reactor.note().unwrap().contains(setup), "{:?}", reactor.note());
            let (one, mut two) = pair();
            reactor.register(&one, Token(1), Interest::READABLE).unwrap();
            no_events(&mut reactor);
            two.write_all(b"x").unwrap();
            only(&mut reactor);
            return;
        }
    }
    if !backends().contains(&Backend::IoUring) {
        return;
    }
    for errno in ["EPERM", "ENOSYS"] {
        let words = format!("io_uring_setup -e inject=io_uring_setup:error={errno}");
        if child::calls(NAME, "forbidden", &words, &[]).is_none() {
            println!("skipped: strace is missing or may not trace");
            return;
        }
    }
    // An unknown flag is EINVAL. The test sets up only one ring, and a child's only test runs in the thread whose calls
    // are counted.
    for (role, which) in [("newer", "1"), ("oldest", "1..2")] {
        let words = format!("io_uring_setup -e inject=io_uring_setup:error=EINVAL:when={which}");
        assert!(child::calls(NAME, role, &words, &[]).is_some());
    }
}
