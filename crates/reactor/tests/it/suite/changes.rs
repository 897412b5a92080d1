//! Wanting, not wanting, and what is the caller's mistake.

use crate::common::{LONG, drain, drain_all, each, events, fill, is_null, only, pair, quiet};
use landau_reactor::{Backend, Error, Interest, Reactor, Token};
use landau_sys::stream::{is_blocking, set_blocking};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Duration;

#[test]
fn what_nobody_wants_is_not_told() {
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

/// Between finding and handing out: the event is there, and nobody wants it.
#[test]
fn what_is_no_longer_wanted_is_not_handed_out() {
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
fn a_want_taken_back_before_the_wait_is_not_told() {
    each(|reactor| {
        let (one, _two) = pair();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_interest(&one, Interest::WRITABLE).unwrap();
        reactor.set_interest(&one, Interest::NONE).unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
    });
}

#[test]
fn the_direction_may_change() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        quiet(reactor);
        reactor.set_interest(&one, Interest::WRITABLE).unwrap();
        let told = only(reactor);
        assert!(told.ready.is_writable() && !told.ready.is_readable(), "{told:?}");
        two.write_all(b"x").unwrap();
        let told = only(reactor);
        assert!(told.ready.is_writable() && !told.ready.is_readable(), "{told:?}");
        reactor.set_interest(&one, Interest::READABLE).unwrap();
        let told = only(reactor);
        assert!(told.ready.is_readable() && !told.ready.is_writable(), "{told:?}");
        assert_eq!(drain(reactor, &mut one), Some(1));
        quiet(reactor);
    });
}

/// Wanting to write comes and goes with each answer that does not fit: the server's usual path.
#[test]
fn to_write_is_wanted_and_not_wanted_many_times() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        for _ in 0..20 {
            let filled = fill(reactor, &mut one);
            reactor.set_interest(&one, Interest::BOTH).unwrap();
            quiet(reactor);
            drain_all(reactor, &mut two, filled);
            let told = events(reactor, LONG);
            assert!(told.iter().any(|event| event.ready.is_writable()), "{told:?}");
            reactor.set_interest(&one, Interest::READABLE).unwrap();
            quiet(reactor);
        }
        two.write_all(b"x").unwrap();
        assert!(only(reactor).ready.is_readable());
    });
}

#[test]
fn it_is_known_what_is_wanted() {
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
fn mistakes_are_errors() {
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
        // Harmless, whoever it is said of.
        reactor.clear_readiness(&one, Interest::BOTH);
        reactor.clear_deadline(&one);
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
    });
}

#[test]
fn calls_do_not_block_once_it_is_registered() {
    each(|reactor| {
        let (one, two) = pair();
        set_blocking(&one, true).unwrap();
        set_blocking(&two, true).unwrap();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.register_nonblocking(&two, Token(2), Interest::READABLE).unwrap();
        // The second was said to be so already, and nobody asked.
        assert_eq!((is_blocking(&one), is_blocking(&two)), (Ok(false), Ok(true)));
    });
}

/// A loop that is gone leaves nothing behind by which the next could be misled.
#[test]
fn another_loop_takes_over() {
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
        quiet(reactor);
    });
}

#[test]
fn what_is_missing_is_replaced_and_said() {
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
