//! What is told, when, and how often.

use crate::common::{
    LONG, drain, drain_all, each, events, fill, fill_and_empty, is_null, only, pair, quiet, tcp_pair, token,
};
use landau_reactor::{Backend, Interest, Ready, Token, backends};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// What is there but is not read is told again, whatever the kernel does; what was used up is told when there is more.
#[test]
fn it_is_level_to_the_user() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        writing.write_all(b"abc").unwrap();
        for _ in 0..3 {
            let told = only(reactor);
            assert!(told.token == Token(1) && told.ready.is_readable() && !told.ready.is_writable(), "{told:?}");
        }
        assert_eq!(drain(reactor, &mut reading), Some(3));
        quiet(reactor);
        writing.write_all(b"d").unwrap();
        only(reactor);
        reactor.deregister(&reading).unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
    });
}

#[test]
fn what_was_read_in_part_is_told_again() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        writing.write_all(b"abcdef").unwrap();
        for _ in 0..6 {
            assert!(only(reactor).ready.is_readable());
            reading.read_exact(&mut [0]).unwrap();
        }
        assert_eq!(drain(reactor, &mut reading), Some(0));
        quiet(reactor);
    });
}

#[test]
fn nothing_happens_until_the_limit() {
    each(|reactor| {
        let (reading, _writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        for limit in [0, 1, 20] {
            let told = events(reactor, Duration::from_millis(limit));
            assert!(told.is_empty() || is_null(reactor), "{told:?}");
        }
    });
}

#[test]
fn data_from_before_counts() {
    each(|reactor| {
        let (mut reading, mut writing) = pair();
        writing.write_all(b"early").unwrap();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        only(reactor);
        assert_eq!(drain(reactor, &mut reading), Some(5));
        quiet(reactor);
    });
}

#[test]
fn a_fresh_socket_can_be_written() {
    each(|reactor| {
        for Token(number) in [Token(0), Token(1)] {
            let (one, _two) = pair();
            reactor.register(&one, Token(number), Interest::WRITABLE).unwrap();
            let told = only(reactor);
            assert!(told.ready.is_writable() && !told.ready.is_readable() && told.token.0 == number, "{told:?}");
            reactor.deregister(&one).unwrap();
        }
    });
}

/// What can be done is told in one event, not in one for each direction. (kqueue has a watch for each.)
#[test]
fn both_directions_come_together() {
    each(|reactor| {
        let (one, mut two) = pair();
        two.write_all(b"x").unwrap();
        reactor.register(&one, Token(1), Interest::BOTH).unwrap();
        let told = events(reactor, LONG);
        assert!(told.len() == 1 || reactor.backend() == Backend::Kqueue, "{told:?}");
        let all = told.iter().fold(Ready::default(), |all, event| all.union(event.ready));
        assert!(all.is_readable() && all.is_writable(), "{told:?}");
    });
}

#[test]
fn a_full_socket_is_told_when_there_is_room_again() {
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

/// Readiness is a hint: somebody else may have read what was there. The next news is told all the same.
#[test]
fn a_hint_may_turn_out_wrong() {
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
            quiet(reactor);
        }
        writing.write_all(b"stays").unwrap();
        only(reactor);
        assert_eq!(drain(reactor, &mut reading), Some(5));
    });
}

/// News that comes between the last look and the word that all was used up must not be lost for ever.
#[test]
fn news_after_the_word_used_up_is_told() {
    each(|reactor| {
        let (reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        quiet(reactor);
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
        quiet(reactor);
        for _ in 0..50 {
            writing.write_all(b"x").unwrap();
        }
        only(reactor);
        assert_eq!(drain(reactor, &mut reading), Some(50));
        quiet(reactor);
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
        let told: BTreeSet<Token> = events(reactor, LONG).into_iter().map(token).collect();
        let active = BTreeSet::from([Token(1003), Token(1017), Token(1039)]);
        assert!(if is_null(reactor) { told.is_superset(&active) } else { told == active }, "{told:?}");
    });
}

#[test]
fn the_greatest_token_is_the_user_s() {
    each(|reactor| {
        let _waker = reactor.waker().unwrap();
        let (reading, mut writing) = pair();
        reactor.register(&reading, Token(u32::MAX), Interest::READABLE).unwrap();
        writing.write_all(b"x").unwrap();
        assert_eq!(only(reactor).token, Token(u32::MAX));
    });
}

#[test]
fn what_was_not_handed_out_is_told_again() {
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
fn a_name_leads_to_its_backend() {
    for &one in Backend::ALL {
        assert_eq!(one.name().parse::<Backend>().unwrap(), one);
        assert!(!one.about().is_empty());
    }
    let error = "kevent".parse::<Backend>().unwrap_err().to_string();
    assert!(error.contains("kevent") && error.contains("epoll, "), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn this_system_has_what_it_is_known_for() {
    let there = backends();
    for one in [Backend::Select, Backend::Poll, Backend::Epoll, Backend::EpollEdge, Backend::Sigio] {
        assert!(there.contains(&one), "{there:?}");
    }
    assert!(!there.contains(&Backend::Kqueue));
}
