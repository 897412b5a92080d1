//! Waking from other threads.

use crate::common::{LONG, among_others, each, events, is_null, only, pair};
use landau_reactor::{Backend, Interest, Reactor, Token, backends};
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[test]
fn waking_ends_a_wait_without_an_event() {
    each(|reactor| {
        let waker = reactor.waker().unwrap();
        for _ in 0..20 {
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake().unwrap());
                reactor.wait(Some(LONG)).unwrap();
                assert_eq!(reactor.next_event(), None);
            });
        }
        // A wake while no thread waits leaves no event behind.
        let found = events(reactor, Duration::ZERO);
        assert_eq!(found, vec![]);
    });
}

#[test]
fn waking_before_the_wait_ends_it() {
    each(|reactor| {
        let (one, _two) = pair();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        let waker = reactor.waker().unwrap();
        for _ in 0..100 {
            waker.wake().unwrap();
        }
        reactor.wait(None).unwrap();
        assert_eq!(reactor.next_event(), None);
        waker.clone().wake().unwrap();
        reactor.wait(None).unwrap();
        assert_eq!(reactor.next_event(), None);
    });
}

#[test]
fn a_reactor_has_one_waker() {
    each(|reactor| {
        let (first, second) = (reactor.waker().unwrap(), reactor.waker().unwrap());
        for waker in [first, second] {
            waker.wake().unwrap();
            reactor.wait(None).unwrap();
            assert_eq!(reactor.next_event(), None);
        }
        assert!(reactor.is_empty());
    });
}

#[test]
fn a_waker_is_registered_once() {
    each(|reactor| {
        let waker = landau_reactor::Waker::new().unwrap();
        waker.wake().unwrap();
        reactor.register_waker(&waker).unwrap();
        reactor.wait(None).unwrap();
        assert_eq!(reactor.next_event(), None);
        assert!(reactor.register_waker(&landau_reactor::Waker::new().unwrap()).is_err());
        reactor.waker().unwrap().wake().unwrap();
        reactor.wait(None).unwrap();
        assert_eq!((reactor.next_event(), reactor.is_empty()), (None, true));
    });
}

#[test]
fn waking_hides_no_event() {
    each(|reactor| {
        let waker = reactor.waker().unwrap();
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        two.write_all(b"x").unwrap();
        waker.wake().unwrap();
        assert_eq!(only(reactor).token, Token(1));
        assert_eq!(only(reactor).token, Token(1));
    });
}

/// Each thread counts up and wakes; if a wake is lost, the reactor sleeps before the sum is reached.
#[test]
fn concurrent_wakes_are_not_lost() {
    each(|reactor| {
        let waker = reactor.waker().unwrap();
        let sum = AtomicU64::new(0);
        let count: u64 = 2_000;
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..count {
                        sum.fetch_add(1, Ordering::Release);
                        waker.wake().unwrap();
                    }
                });
            }
            while sum.load(Ordering::Acquire) < 3 * count {
                reactor.wait(None).unwrap();
                assert_eq!(reactor.next_event(), None);
            }
        });
    });
}

/// Each waits for the other's answer, so that a wake arrives just while the waker is being cleared.
#[test]
fn two_reactors_can_wake_each_other() {
    let _guard = among_others();
    for backend in backends() {
        println!("with {backend}");
        let rounds = 500_u64;
        let (ping, pong) = (AtomicU64::new(0), AtomicU64::new(0));
        let (give, take) = std::sync::mpsc::channel();
        let mut here = Reactor::new(backend).unwrap();
        let back = here.waker().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut there = Reactor::new(backend).unwrap();
                give.send(there.waker().unwrap()).unwrap();
                for round in 1..=rounds {
                    until(&mut there, &ping, round);
                    pong.store(round, Ordering::Release);
                    back.wake().unwrap();
                }
            });
            let forth = take.recv().unwrap();
            for round in 1..=rounds {
                ping.store(round, Ordering::Release);
                forth.wake().unwrap();
                until(&mut here, &pong, round);
            }
        });
    }
}

fn until(reactor: &mut Reactor, value: &AtomicU64, least: u64) {
    while value.load(Ordering::Acquire) < least {
        reactor.wait(None).unwrap();
        assert_eq!(reactor.next_event(), None);
    }
}

/// Waking a dropped reactor causes neither an error nor a SIGPIPE.
#[test]
fn a_waker_outlives_its_reactor() {
    let _guard = among_others();
    for backend in backends() {
        let waker = Reactor::new(backend).unwrap().waker().unwrap();
        waker.wake().unwrap();
        waker.wake().unwrap();
    }
    assert!(!is_null(&Reactor::new(Backend::default()).unwrap()));
}
