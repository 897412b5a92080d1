//! Deadlines, alone and with events.

use crate::common::{LONG, at, each, each_alone, events, is_null, only, pair, token};
use landau_reactor::{Event, Interest, ManualClock, Reactor, Token};
use std::io::Write;
use std::time::Duration;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Waits once and returns the tokens whose deadline has passed.
fn due(reactor: &mut Reactor, timeout: Duration) -> Vec<u32> {
    let found = events(reactor, timeout).into_iter().filter(|event| event.ready.is_deadline());
    found.map(|event| event.token.0).collect()
}

/// Waits until `count` deadlines have passed and returns their tokens.
fn due_in_all(reactor: &mut Reactor, count: usize) -> Vec<u32> {
    let mut found = Vec::new();
    while found.len() < count {
        found.extend(due(reactor, LONG));
    }
    found
}

#[test]
fn deadlines_are_in_order_and_not_early() {
    each(|reactor| {
        let pairs: Vec<_> = (0..4).map(|_| pair()).collect();
        for (index, (one, _)) in pairs.iter().enumerate() {
            reactor.register(one, Token(index as u32), Interest::NONE).unwrap();
        }
        let begin = reactor.now_ms();
        for (index, delay) in [(0, 60), (1, 20), (2, 40), (3, 1)] {
            reactor.set_deadline(&pairs[index].0, ms(delay));
        }
        let mut found = Vec::new();
        while found.len() < 4 {
            let some = due(reactor, LONG);
            let passed = reactor.now_ms() - begin;
            let delay = |index: &u32| [60, 20, 40, 1][*index as usize];
            // On a busy machine one wait may find several, in any order.
            for index in &some {
                assert!(passed >= delay(index), "{index} after {passed} ms");
                assert!(found.iter().all(|before| delay(before) < delay(index)), "{index} after {found:?}");
            }
            found.extend(some);
        }
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3]);
        assert_eq!(due(reactor, Duration::ZERO), vec![]);
    });
}

#[test]
fn a_deadline_ends_a_wait_without_timeout() {
    each(|reactor| {
        let (one, _two) = pair();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_deadline(&one, ms(5));
        loop {
            reactor.wait(None).unwrap();
            if let Some(Event { token, ready }) = reactor.next_event() {
                assert!(token == Token(1) && ready.is_deadline() && !ready.is_readable(), "{ready:?}");
                break;
            }
        }
    });
}

#[test]
fn a_deadline_does_not_hide_readiness() {
    each(|reactor| {
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.set_deadline(&one, Duration::ZERO);
        two.write_all(b"x").unwrap();
        let mut has_read = false;
        loop {
            let found = events(reactor, LONG);
            has_read |= found.iter().any(|event| event.ready.is_readable());
            if found.iter().any(|event| event.ready.is_deadline()) {
                break;
            }
        }
        assert!(has_read || only(reactor).ready.is_readable());
    });
}

#[test]
fn a_moved_deadline_is_reported_once() {
    each(|reactor| {
        let (one, _two) = pair();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_deadline(&one, ms(1));
        reactor.set_deadline(&one, ms(30));
        let begin = reactor.now_ms();
        assert_eq!(due_in_all(reactor, 1), [1]);
        assert!(reactor.now_ms() - begin >= 30);
        // Moved earlier, from an hour.
        reactor.set_deadline(&one, Duration::from_secs(3600));
        reactor.set_deadline(&one, ms(2));
        assert_eq!(due_in_all(reactor, 1), [1]);
        assert_eq!(due(reactor, ms(5)), vec![]);
    });
}

#[test]
fn a_cleared_deadline_is_not_reported() {
    each(|reactor| {
        let (one, _two) = pair();
        let (other, _peer) = pair();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.register(&other, Token(2), Interest::NONE).unwrap();
        reactor.set_deadline(&one, ms(2));
        reactor.set_deadline(&other, ms(10));
        reactor.clear_deadline(&one);
        assert_eq!(due_in_all(reactor, 1), [2]);
    });
}

#[test]
fn a_deadline_ends_with_its_descriptor() {
    each_alone(|reactor| {
        let (one, _two) = pair();
        let one = at(910, one);
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_deadline(&one, ms(1));
        reactor.close(one).unwrap();
        let (next_owner, _peer) = pair();
        let next_owner = at(910, next_owner);
        reactor.register(&next_owner, Token(2), Interest::NONE).unwrap();
        assert_eq!(due(reactor, ms(10)), vec![]);
        reactor.set_deadline(&next_owner, ms(1));
        assert_eq!(due_in_all(reactor, 1), [2]);
        reactor.close(next_owner).unwrap();
    });
}

/// The descriptor is closed after its deadline was found and before it was returned.
#[test]
fn a_found_deadline_is_not_returned_for_the_next_owner_of_a_number() {
    each_alone(|reactor| {
        let (one, _two) = pair();
        let one = at(910, one);
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_deadline(&one, ms(1));
        let begin = reactor.now_ms();
        while reactor.now_ms() - begin < 5 {
            reactor.wait(Some(ms(1))).unwrap();
        }
        reactor.close(one).unwrap();
        let (next_owner, _peer) = pair();
        let next_owner = at(910, next_owner);
        reactor.register(&next_owner, Token(2), Interest::NONE).unwrap();
        assert_eq!(reactor.next_event(), None);
        assert_eq!(due(reactor, ms(5)), vec![]);
        reactor.close(next_owner).unwrap();
    });
}

#[test]
fn a_deadline_that_was_not_returned_is_reported_again() {
    each(|reactor| {
        let pairs: Vec<_> = (0..5).map(|_| pair()).collect();
        for (index, (one, _)) in pairs.iter().enumerate() {
            reactor.register(one, Token(index as u32), Interest::NONE).unwrap();
            reactor.set_deadline(one, Duration::ZERO);
        }
        let mut found = Vec::new();
        while found.len() < 5 {
            reactor.wait(Some(LONG)).unwrap();
            found.extend(reactor.next_event().map(token));
        }
        found.sort_unstable();
        assert_eq!(found, (0..5).map(Token).collect::<Vec<_>>());
        assert_eq!(due(reactor, ms(3)), vec![]);
    });
}

/// A server that handles one event of a wait sets deadlines of other descriptors. Before the fix, the old deadlines
/// were reported as well.
#[test]
fn a_found_deadline_that_is_set_again_is_not_reported() {
    each(|reactor| {
        let clock = ManualClock::default();
        reactor.set_clock(&clock);
        let pairs: Vec<_> = (0..3).map(|_| pair()).collect();
        for (index, (one, _)) in pairs.iter().enumerate() {
            reactor.register(one, Token(index as u32), Interest::NONE).unwrap();
            reactor.set_deadline(one, ms(1));
        }
        clock.advance(ms(2));
        reactor.wait(Some(LONG)).unwrap();
        reactor.set_deadline(&pairs[0].0, ms(50));
        reactor.clear_deadline(&pairs[1].0);
        let reported = std::iter::from_fn(|| reactor.next_event()).filter(|event| event.ready.is_deadline());
        assert_eq!(reported.map(token).collect::<Vec<_>>(), [Token(2)]);
        clock.advance(ms(49));
        assert_eq!(due(reactor, Duration::ZERO), vec![]);
        clock.advance(ms(1));
        assert_eq!(due(reactor, Duration::ZERO), [0]);
        // Nor is it reported by the next wait, if this one returned no event.
        reactor.set_deadline(&pairs[0].0, ms(1));
        reactor.set_deadline(&pairs[1].0, ms(1));
        clock.advance(ms(2));
        reactor.wait(Some(LONG)).unwrap();
        reactor.set_deadline(&pairs[0].0, ms(50));
        clock.advance(ms(2));
        assert_eq!(due(reactor, Duration::ZERO), [1]);
    });
}

/// Deadlines that are moved or cleared meanwhile change nothing.
#[test]
fn twenty_thousand_deadlines_are_reported_once_each() {
    each_alone(|reactor| {
        let (one, _two) = pair();
        let one: std::os::fd::OwnedFd = one.into();
        let count = if reactor.backend() == landau_reactor::Backend::Select { 900 } else { 6_000 };
        let copies: Vec<_> = (0..count).map(|_| landau_sys::descriptor::dup(&one).unwrap()).collect();
        for (index, copy) in copies.iter().enumerate() {
            reactor.register_nonblocking(copy, Token(index as u32), Interest::NONE).unwrap();
        }
        let rounds = 20_000_usize.div_ceil(count);
        for round in 0..rounds {
            let mut expected = 0;
            for (index, copy) in copies.iter().enumerate() {
                reactor.set_deadline(copy, ms((index * 7 + round) as u64 % 90));
                match index % 10 {
                    3 => reactor.clear_deadline(copy),
                    5 => {
                        reactor.set_deadline(copy, ms(index as u64 % 20));
                        expected += 1;
                    }
                    _ => expected += 1,
                }
            }
            let mut found = due_in_all(reactor, expected);
            found.sort_unstable();
            let all: Vec<u32> = (0..count as u32).filter(|index| index % 10 != 3).collect();
            assert!(found == all, "{} of {expected}", found.len());
            if round > 0 && is_null(reactor) {
                break;
            }
        }
        for copy in copies {
            reactor.deregister(&copy).unwrap();
        }
    });
}
