//! Which readiness is reported, when, and how often.

use crate::common::{
    LONG, drain, drain_all, each, events, fill, fill_and_empty, is_null, no_events, only, pair, tcp_pair, token,
};
use landau_reactor::{Backend, Interest, Ready, Token, backends};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// With every backend, unread data is reported again, and new data is reported after the readiness was cleared.
#[test]
fn the_reactor_is_level_triggered() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        writing.write_all(b"abc").unwrap();
        for _ in 0..3 {
            let found = only(reactor);
            assert!(found.token == Token(1) && found.ready.is_readable() && !found.ready.is_writable(), "{found:?}");
        }
        assert_eq!(drain(reactor, &mut reading), Some(3));
        no_events(reactor);
        writing.write_all(b"d").unwrap();
        only(reactor);
        reactor.deregister(&reading).unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
    });
}

#[test]
fn partly_read_data_is_reported_again() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        writing.write_all(b"abcdef").unwrap();
        for _ in 0..6 {
            assert!(only(reactor).ready.is_readable());
            reading.read_exact(&mut [0]).unwrap();
        }
        assert_eq!(drain(reactor, &mut reading), Some(0));
        no_events(reactor);
    });
}

#[test]
fn a_wait_ends_at_its_timeout() {
    each(|reactor| {
        let (reading, _writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        for limit in [0, 1, 20] {
            let found = events(reactor, Duration::from_millis(limit));
            assert!(found.is_empty() || is_null(reactor), "{found:?}");
        }
    });
}

#[test]
fn data_from_before_registering_is_reported() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        writing.write_all(b"early").unwrap();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        only(reactor);
        assert_eq!(drain(reactor, &mut reading), Some(5));
        no_events(reactor);
    });
}

#[test]
fn a_new_socket_is_writable() {
    each(|reactor| {
        for Token(number) in [Token(0), Token(1)] {
            let (one, _two) = pair();
            reactor.register(&one, Token(number), Interest::WRITABLE).unwrap();
            let found = only(reactor);
            assert!(found.ready.is_writable() && !found.ready.is_readable() && found.token.0 == number, "{found:?}");
            reactor.deregister(&one).unwrap();
        }
    });
}

/// Except with kqueue, which has a filter for each direction.
#[test]
fn both_directions_are_one_event() {
    each(|reactor| {
        let (one, mut two) = pair();
        two.write_all(b"x").unwrap();
        reactor.register(&one, Token(1), Interest::BOTH).unwrap();
        let found = events(reactor, LONG);
        assert!(found.len() == 1 || reactor.backend() == Backend::Kqueue, "{found:?}");
        let all = found.iter().fold(Ready::default(), |all, event| all.union(event.ready));
        assert!(all.is_readable() && all.is_writable(), "{found:?}");
    });
}

#[test]
fn a_full_socket_is_writable_when_there_is_room_again() {
    each(|reactor| {
        let (mut writing, mut reading) = pair();
        reactor.register(&writing, Token(1), Interest::WRITABLE).unwrap();
        only(reactor);
        fill_and_empty(reactor, &mut writing, &mut reading);
        reactor.deregister(&writing).unwrap();
        let (mut writing, mut reading) = tcp_pair();
        reactor.register(&writing, Token(2), Interest::WRITABLE).unwrap();
        let filled = fill(reactor, &mut writing);
        drain_all(reactor, &mut reading, filled);
        while !events(reactor, LONG).iter().any(|event| event.token == Token(2) && event.ready.is_writable()) {}
    });
}

/// Another reader may have taken the data. New data must still be reported.
#[test]
fn readiness_is_a_hint() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        let mut other = reading.try_clone().unwrap();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        for _ in 0..3 {
            writing.write_all(b"gone").unwrap();
            reactor.wait(Some(LONG)).unwrap();
            assert_eq!(other.read(&mut [0; 8]).unwrap(), 4);
            while reactor.next_event().is_some() {
                assert_eq!(reading.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
                reactor.clear_readiness(&reading, Interest::READABLE);
            }
            no_events(reactor);
        }
        writing.write_all(b"stays").unwrap();
        only(reactor);
        assert_eq!(drain(reactor, &mut reading), Some(5));
    });
}

/// Data that arrives between the last read and `clear_readiness` must not be lost for ever.
#[test]
fn data_after_clearing_readiness_is_reported() {
    each(|reactor| {
        let (reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        for _ in 0..5 {
            reactor.clear_readiness(&reading, Interest::READABLE);
            writing.write_all(b"x").unwrap();
            assert!(only(reactor).ready.is_readable());
        }
    });
}

#[test]
fn many_writes_are_one_event() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        for _ in 0..50 {
            writing.write_all(b"x").unwrap();
        }
        only(reactor);
        assert_eq!(drain(reactor, &mut reading), Some(50));
        no_events(reactor);
    });
}

#[test]
fn each_event_carries_its_own_token() {
    each(|reactor| {
        let mut pairs: Vec<_> = (0..40).map(|_| pair()).collect();
        for (index, (reading, _)) in pairs.iter().enumerate() {
            reactor.register(reading, Token(1000 + index as u32), Interest::READABLE).unwrap();
        }
        for index in [3, 17, 39] {
            pairs[index].1.write_all(b"x").unwrap();
        }
        let found: BTreeSet<Token> = events(reactor, LONG).into_iter().map(token).collect();
        let active = BTreeSet::from([Token(1003), Token(1017), Token(1039)]);
        assert!(if is_null(reactor) { found.is_superset(&active) } else { found == active }, "{found:?}");
    });
}

#[test]
fn the_greatest_token_can_be_used() {
    each(|reactor| {
        let _waker = reactor.waker().unwrap();
        let (reading, mut writing) = pair();
        reactor.register(&reading, Token(u32::MAX), Interest::READABLE).unwrap();
        writing.write_all(b"x").unwrap();
        assert_eq!(only(reactor).token, Token(u32::MAX));
    });
}

#[test]
fn events_that_were_not_returned_are_reported_again() {
    each(|reactor| {
        let mut pairs: Vec<_> = (0..10).map(|_| pair()).collect();
        for (index, (reading, writing)) in pairs.iter_mut().enumerate() {
            reactor.register(reading, Token(index as u32), Interest::READABLE).unwrap();
            writing.write_all(b"x").unwrap();
        }
        reactor.wait(Some(LONG)).unwrap();
        assert!(reactor.next_event().is_some());
        assert_eq!(events(reactor, LONG).len(), 10);
    });
}

#[test]
fn names_of_backends_can_be_parsed() {
    for &one in Backend::ALL {
        assert_eq!(one.name().parse::<Backend>().unwrap(), one);
        assert!(!one.about().is_empty());
    }
    let error = "kevent".parse::<Backend>().unwrap_err().to_string();
    assert!(error.contains("kevent") && error.contains("epoll, ") && !error.contains("null"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn linux_has_all_of_its_backends() {
    let there = backends();
    for one in [Backend::Select, Backend::Poll, Backend::Epoll, Backend::EpollEdge, Backend::Sigio] {
        assert!(there.contains(&one), "{there:?}");
    }
    assert!(!there.contains(&Backend::Kqueue));
}
