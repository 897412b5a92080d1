//! Changes of interest, and misuse.

use crate::common::{LONG, drain, drain_all, each, events, fill, is_null, no_events, only, pair};
use landau_reactor::{Backend, Error, Interest, Reactor, Token};
use landau_sys::stream::{is_blocking, set_blocking};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Duration;

#[test]
fn events_without_interest_are_not_returned() {
    each(|reactor| {
        let (reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::NONE).unwrap();
        writing.write_all(b"x").unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
        reactor.set_interest(&reading, Interest::READABLE).unwrap();
        assert!(only(reactor).ready.is_readable());
        reactor.set_interest(&reading, Interest::NONE).unwrap();
        for _ in 0..3 {
            assert_eq!(events(reactor, Duration::ZERO), vec![]);
        }
        reactor.set_interest(&reading, Interest::READABLE).unwrap();
        assert!(only(reactor).ready.is_readable());
    });
}

/// The event was found before the interest was changed.
#[test]
fn found_events_without_interest_are_not_returned() {
    each(|reactor| {
        let (reading, mut writing) = pair();
        reactor.register(&reading, Token(1), Interest::READABLE).unwrap();
        writing.write_all(b"x").unwrap();
        reactor.wait(Some(LONG)).unwrap();
        reactor.set_interest(&reading, Interest::NONE).unwrap();
        assert_eq!(reactor.next_event(), None);
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
        reactor.set_interest(&reading, Interest::READABLE).unwrap();
        only(reactor);
    });
}

#[test]
fn an_interest_that_is_removed_before_the_wait_has_no_effect() {
    each(|reactor| {
        let (one, _two) = pair();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_interest(&one, Interest::WRITABLE).unwrap();
        reactor.set_interest(&one, Interest::NONE).unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
    });
}

#[test]
fn interest_can_change_direction() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        reactor.set_interest(&one, Interest::WRITABLE).unwrap();
        let found = only(reactor);
        assert!(found.ready.is_writable() && !found.ready.is_readable(), "{found:?}");
        two.write_all(b"x").unwrap();
        let found = only(reactor);
        assert!(found.ready.is_writable() && !found.ready.is_readable(), "{found:?}");
        reactor.set_interest(&one, Interest::READABLE).unwrap();
        let found = only(reactor);
        assert!(found.ready.is_readable() && !found.ready.is_writable(), "{found:?}");
        assert_eq!(drain(reactor, &mut one), Some(1));
        no_events(reactor);
    });
}

/// As a server does with each response that does not fit into the send buffer.
#[test]
fn interest_in_writing_can_come_and_go() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        for _ in 0..20 {
            let filled = fill(reactor, &mut one);
            reactor.set_interest(&one, Interest::BOTH).unwrap();
            no_events(reactor);
            drain_all(reactor, &mut two, filled);
            let found = events(reactor, LONG);
            assert!(found.iter().any(|event| event.ready.is_writable()), "{found:?}");
            reactor.set_interest(&one, Interest::READABLE).unwrap();
            no_events(reactor);
        }
        two.write_all(b"x").unwrap();
        assert!(only(reactor).ready.is_readable());
    });
}

#[test]
fn interest_can_be_read_back() {
    each(|reactor| {
        let (one, two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.set_interest(&one, Interest::BOTH).unwrap();
        assert_eq!((reactor.interest(&one), reactor.interest(&two)), (Some(Interest::BOTH), None));
        let _waker = reactor.waker().unwrap();
        assert_eq!((reactor.len(), reactor.is_empty()), (1, false));
        reactor.deregister(&one).unwrap();
        assert_eq!((reactor.len(), reactor.is_empty(), reactor.interest(&one)), (0, true, None));
    });
}

#[test]
fn misuse_is_an_error() {
    each(|reactor| {
        let (one, two) = pair();
        let (first, second) = (one.as_raw_fd(), two.as_raw_fd());
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        let again = reactor.register(&one, Token(2), Interest::READABLE);
        assert!(matches!(again, Err(Error::Registered(fd)) if fd == first), "{again:?}");
        let unknown = reactor.set_interest(&two, Interest::READABLE);
        assert!(matches!(unknown, Err(Error::Unregistered(fd)) if fd == second), "{unknown:?}");
        assert!(matches!(reactor.deregister(&two), Err(Error::Unregistered(_))));
        reactor.deregister(&one).unwrap();
        assert!(matches!(reactor.deregister(&one), Err(Error::Unregistered(_))));
        assert!(matches!(reactor.close(two.into()), Err(Error::Unregistered(_))));
        // These have no effect on an unregistered descriptor.
        reactor.clear_readiness(&one, Interest::BOTH);
        reactor.clear_deadline(&one);
        reactor.set_deadline(&one, Duration::ZERO);
        reactor.wait(Some(Duration::from_millis(3))).unwrap();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        let found = events(reactor, Duration::from_millis(3));
        assert!(found.iter().all(|event| !event.ready.is_deadline()), "{found:?}");
    });
}

#[test]
fn registering_makes_a_descriptor_nonblocking() {
    each(|reactor| {
        let (one, two) = pair();
        set_blocking(&one, true).unwrap();
        set_blocking(&two, true).unwrap();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.register_nonblocking(&two, Token(2), Interest::READABLE).unwrap();
        // `register_nonblocking` leaves the second as it is.
        assert_eq!((is_blocking(&one), is_blocking(&two)), (Ok(false), Ok(true)));
    });
}

/// A dropped reactor leaves no state in the kernel that disturbs the next one.
#[test]
fn another_reactor_can_register_the_same_descriptors() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        for round in 0..3 {
            let mut other = Reactor::new(reactor.backend()).unwrap();
            other.register(&one, Token(round), Interest::READABLE).unwrap();
            two.write_all(b"x").unwrap();
            assert_eq!(only(&mut other).token, Token(round));
            let note = other.note().unwrap_or_default();
            assert!(!note.contains("polled in each wait"), "{note}");
        }
        reactor.register(&one, Token(9), Interest::READABLE).unwrap();
        assert_eq!(only(reactor).token, Token(9));
        assert_eq!(drain(reactor, &mut one), Some(3));
        no_events(reactor);
    });
}

#[test]
fn an_unavailable_backend_is_replaced_and_noted() {
    for &one in Backend::ALL {
        let reactor = Reactor::new_or_fallback(one).unwrap();
        match Reactor::new(one) {
            Ok(same) => assert_eq!(reactor.backend(), same.backend()),
            Err(error) => {
                let note = reactor.note().unwrap();
                assert!(reactor.backend() != one && note.contains(&error.to_string()), "{note}");
                assert!(note.contains(one.name()) && !is_null(&reactor), "{note}");
            }
        }
    }
}
