//! At the system's limits: a full table of descriptors, a full queue of signals, interrupted waits, counted calls.

use crate::child;
use crate::common::{LONG, each, events, only, pair, quiet};
use landau_reactor::{Backend, Error, Interest, Reactor, Token, backends};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_full_table_of_descriptors_is_an_error_and_no_end() {
    if !child::is("full") {
        return child::run(
            "ulimit -n 64;",
            "suite::limits::a_full_table_of_descriptors_is_an_error_and_no_end",
            "full",
        );
    }
    each(|reactor| {
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        let mut hoard = Vec::new();
        while let Ok(copy) = two.try_clone() {
            hoard.push(copy);
        }
        assert!(matches!(reactor.waker(), Err(Error::System(_))));
        for &other in Backend::ALL {
            let made = Reactor::new(other);
            let needs_none = matches!(other, Backend::Select | Backend::Poll | Backend::Null);
            assert_eq!(made.is_ok(), needs_none, "{other}: {made:?}");
        }
        two.write_all(b"x").unwrap();
        only(reactor);
        drop(hoard);
        reactor.waker().unwrap().wake().unwrap();
        only(reactor);
    });
}

/// More happens than the queue of signals holds: the rest is found by `poll`, which is said.
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
    quiet(&mut reactor);
    for round in 1..4 {
        for (_, two) in &mut pairs {
            two.write_all(b"x").unwrap();
        }
        let mut told: Vec<u32> = events(&mut reactor, LONG).iter().map(|event| event.token.0).collect();
        told.sort_unstable();
        assert_eq!(told, (0..200).collect::<Vec<_>>());
        assert!(reactor.note().unwrap().contains(&format!("overflowed {round} times")), "{:?}", reactor.note());
        for (one, _) in &mut pairs {
            crate::common::drain(&mut reactor, one);
        }
        quiet(&mut reactor);
    }
}

/// Two loops of a thread, of which one hears of signals that the other lost.
#[cfg(target_os = "linux")]
#[test]
fn a_full_queue_is_told_to_each_loop_of_the_thread() {
    if !child::is("both") {
        return child::run("ulimit -i 20;", "suite::limits::a_full_queue_is_told_to_each_loop_of_the_thread", "both");
    }
    let (mut first, mut second) = (Reactor::new(Backend::Sigio).unwrap(), Reactor::new(Backend::Sigio).unwrap());
    let mut pairs: Vec<_> = (0..100).map(|_| pair()).collect();
    for (index, (one, _)) in pairs.iter().enumerate() {
        let reactor = if index % 2 == 0 { &mut first } else { &mut second };
        reactor.register(one, Token(index as u32), Interest::READABLE).unwrap();
    }
    quiet(&mut first);
    quiet(&mut second);
    for (_, two) in &mut pairs {
        two.write_all(b"x").unwrap();
    }
    for reactor in [&mut first, &mut second] {
        assert_eq!(events(reactor, LONG).len(), 50);
    }
}

/// A signal with a handler ends a wait, which has found nothing then and is no error.
#[test]
fn an_interrupted_wait_has_found_nothing() {
    const NAME: &str = "suite::limits::an_interrupted_wait_has_found_nothing";
    if !child::is("interrupted") {
        return child::run("", NAME, "interrupted");
    }
    landau_sys::signal::catch_interrupts();
    for backend in backends() {
        println!("with {backend}");
        let mut reactor = Reactor::new(backend).unwrap();
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        // Signals of a process go to its first thread, which runs a child's only test. This one nobody has ignored, as
        // `nohup` and a shell's background do with others.
        let kill = format!("for i in 1 2 3; do sleep 0.02; kill -TERM {}; done", std::process::id());
        let mut killer = Command::new("bash").args(["-c", &kill]).spawn().unwrap();
        while killer.try_wait().unwrap().is_none() {
            let told = events(&mut reactor, Duration::from_millis(30));
            assert!(told.is_empty() || backend == Backend::Null, "{told:?}");
        }
        two.write_all(b"x").unwrap();
        while events(&mut reactor, LONG).is_empty() {}
    }
    assert_eq!(landau_sys::signal::interrupted(), Some("SIGTERM"));
}

/// Lazy wanting in counted calls: a want that goes and comes costs none while nothing happens, and a wait is one call.
#[cfg(target_os = "linux")]
#[test]
fn few_calls_are_made() {
    const NAME: &str = "suite::limits::few_calls_are_made";
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
            println!("skipped: strace is not there, or may not trace");
            return;
        };
        let count = trace.lines().filter(|line| line.contains('(') && !line.contains("resumed")).count();
        // Registering, a few calls of the program's own start, and one wait for each round.
        assert!((ROUNDS..ROUNDS + 12).contains(&count), "{backend}: {count} calls\n{trace}");
    }
}

/// Where it is forbidden, by a container's filter or by a setting, or not there, something else is taken, and it is
/// said why; where only its younger flags are unknown, it does without.
#[cfg(target_os = "linux")]
#[test]
fn a_ring_that_is_forbidden_is_replaced() {
    const NAME: &str = "suite::limits::a_ring_that_is_forbidden_is_replaced";
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
    for (role, setup) in [("younger", "cooperative work"), ("oldest", "plain")] {
        if child::is(role) {
            let mut reactor = Reactor::new(Backend::IoUring).unwrap();
            assert!(reactor.note().unwrap().contains(setup), "{:?}", reactor.note());
            let (one, mut two) = pair();
            reactor.register(&one, Token(1), Interest::READABLE).unwrap();
            quiet(&mut reactor);
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
            println!("skipped: strace is not there, or may not trace");
            return;
        }
    }
    // EINVAL is the word for an unknown flag. The test asks for no ring but one, and a child's only test runs in the
    // thread whose calls are counted.
    for (role, which) in [("younger", "1"), ("oldest", "1..2")] {
        let words = format!("io_uring_setup -e inject=io_uring_setup:error=EINVAL:when={which}");
        assert!(child::calls(NAME, role, &words, &[]).is_some());
    }
}
