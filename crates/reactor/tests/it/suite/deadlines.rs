//! Deadlines, alone and with events.

use crate::common::{LONG, at, each, each_alone, events, is_null, only, pair, token};
use landau_reactor::{Event, Interest, Reactor, Token};
use std::io::Write;
use std::time::Duration;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Those whose deadline has come in one wait; others' events are passed over.
fn due(reactor: &mut Reactor, limit: Duration) -> Vec<u32> {
    let told = events(reactor, limit).into_iter().filter(|event| event.ready.is_deadline());
    told.map(|event| event.token.0).collect()
}

/// The same over as many waits as it takes for so many.
fn due_in_all(reactor: &mut Reactor, count: usize) -> Vec<u32> {
    let mut told = Vec::new();
    while told.len() < count {
        told.extend(due(reactor, LONG));
    }
    told
}

#[test]
fn they_come_in_their_order_and_not_before() {
    each(|reactor| {
        let pairs: Vec<_> = (0..4).map(|_| pair()).collect();
        for (index, (one, _)) in pairs.iter().enumerate() {
            reactor.register(one, Token(index as u32), Interest::NONE).unwrap();
        }
        let begin = reactor.now_ms();
        for (index, delay) in [(0, 60), (1, 20), (2, 40), (3, 1)] {
            reactor.set_deadline(&pairs[index].0, ms(delay));
        }
        let mut told = Vec::new();
        while told.len() < 4 {
            let some = due(reactor, LONG);
            let passed = reactor.now_ms() - begin;
            for &index in &some {
                assert!(passed >= [60, 20, 40, 1][index as usize], "{index} after {passed} ms");
            }
            told.extend(some);
        }
        // A machine that sleeps long tells several at once, in no order.
        told.sort_unstable();
        assert_eq!(told, [0, 1, 2, 3]);
        assert_eq!(due(reactor, Duration::ZERO), vec![]);
    });
}

#[test]
fn one_without_an_event_ends_a_wait_without_limit() {
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
fn one_comes_beside_an_event() {
    each(|reactor| {
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.set_deadline(&one, Duration::ZERO);
        two.write_all(b"x").unwrap();
        let mut has_read = false;
        loop {
            let told = events(reactor, LONG);
            has_read |= told.iter().any(|event| event.ready.is_readable());
            if told.iter().any(|event| event.ready.is_deadline()) {
                break;
            }
        }
        assert!(has_read || only(reactor).ready.is_readable());
    });
}

#[test]
fn one_that_was_moved_comes_once_and_later() {
    each(|reactor| {
        let (one, _two) = pair();
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_deadline(&one, ms(1));
        reactor.set_deadline(&one, ms(30));
        let begin = reactor.now_ms();
        assert_eq!(due_in_all(reactor, 1), [1]);
        assert!(reactor.now_ms() - begin >= 30);
        // Moved earlier: an hour would outlast the test.
        reactor.set_deadline(&one, Duration::from_secs(3600));
        reactor.set_deadline(&one, ms(2));
        assert_eq!(due_in_all(reactor, 1), [1]);
        assert_eq!(due(reactor, ms(5)), vec![]);
    });
}

#[test]
fn one_that_was_taken_back_does_not_come() {
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
fn it_goes_with_its_descriptor() {
    each_alone(|reactor| {
        let (one, _two) = pair();
        let one = at(910, one);
        reactor.register(&one, Token(1), Interest::NONE).unwrap();
        reactor.set_deadline(&one, ms(1));
        reactor.close(one).unwrap();
        let (heir, _peer) = pair();
        let heir = at(910, heir);
        reactor.register(&heir, Token(2), Interest::NONE).unwrap();
        assert_eq!(due(reactor, ms(10)), vec![]);
        reactor.set_deadline(&heir, ms(1));
        assert_eq!(due_in_all(reactor, 1), [2]);
        reactor.close(heir).unwrap();
    });
}

/// Found, and the owner of the number changes before it is handed out.
#[test]
fn one_that_was_found_is_not_the_heir_s() {
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
        let (heir, _peer) = pair();
        let heir = at(910, heir);
        reactor.register(&heir, Token(2), Interest::NONE).unwrap();
        assert_eq!(reactor.next_event(), None);
        assert_eq!(due(reactor, ms(5)), vec![]);
        reactor.close(heir).unwrap();
    });
}

#[test]
fn one_that_was_not_handed_out_comes_again() {
    each(|reactor| {
        let pairs: Vec<_> = (0..5).map(|_| pair()).collect();
        for (index, (one, _)) in pairs.iter().enumerate() {
            reactor.register(one, Token(index as u32), Interest::NONE).unwrap();
            reactor.set_deadline(one, Duration::ZERO);
        }
        let mut told = Vec::new();
        while told.len() < 5 {
            reactor.wait(Some(LONG)).unwrap();
            told.extend(reactor.next_event().map(token));
        }
        told.sort_unstable();
        assert_eq!(told, (0..5).map(Token).collect::<Vec<_>>());
        assert_eq!(due(reactor, ms(3)), vec![]);
    });
}

/// What makes a deadline cheap must not make it wrong: each is told exactly once, whatever was moved or taken back.
#[test]
fn twenty_thousand_come_once_each() {
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
            let mut told = due_in_all(reactor, expected);
            told.sort_unstable();
            let all: Vec<u32> = (0..count as u32).filter(|index| index % 10 != 3).collect();
            assert!(told == all, "{} of {expected}", told.len());
            if round > 0 && is_null(reactor) {
                break;
            }
        }
        for copy in copies {
            reactor.deregister(&copy).unwrap();
        }
    });
}
