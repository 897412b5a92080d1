//! Many descriptors: more than `select` can watch, more ready than a batch, and few active among thousands.

use crate::common::{LONG, alone, at, drain, each_alone, events, is_null, no_events, only, pair, token};
use landau_reactor::{Backend, Error, Interest, Reactor, Token, backends};
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixStream;

#[test]
fn only_select_refuses_high_numbers() {
    each_alone(|reactor| {
        let (one, mut two) = pair();
        let one = at(1_500, one);
        let registered = reactor.register(&one, Token(1), Interest::READABLE);
        if reactor.backend() == Backend::Select {
            assert!(matches!(registered, Err(Error::Capacity { capacity: 1024, fd: 1_500, .. })), "{registered:?}");
            assert!(reactor.is_empty());
            no_events(reactor);
            let last = at(1_023, one);
            reactor.register(&last, Token(1), Interest::READABLE).unwrap();
            two.write_all(b"x").unwrap();
            only(reactor);
            return;
        }
        registered.unwrap();
        two.write_all(b"x").unwrap();
        only(reactor);
        reactor.close(one).unwrap();
    });
}

fn register_pairs(reactor: &mut Reactor, count: usize) -> Vec<(UnixStream, UnixStream)> {
    let pairs: Vec<_> = (0..count).map(|_| pair()).collect();
    for (index, (one, _)) in pairs.iter().enumerate() {
        reactor.register_nonblocking(one, Token(index as u32), Interest::READABLE).unwrap();
    }
    pairs
}

#[test]
fn few_active_descriptors_among_thousands_are_found() {
    let _guard = alone();
    for backend in backends().into_iter().filter(|&one| one != Backend::Null) {
        println!("with {backend}");
        let mut reactor = Reactor::new(backend).unwrap();
        let count = if backend == Backend::Select { 450 } else { 4_000 };
        let mut pairs = register_pairs(&mut reactor, count);
        no_events(&mut reactor);
        for round in 0..20 {
            let active: BTreeSet<usize> = (0..7).map(|index| (index * 997 + round * 131) % count).collect();
            for &index in &active {
                pairs[index].1.write_all(b"x").unwrap();
            }
            let mut found = BTreeSet::new();
            while found != active {
                for event in events(&mut reactor, LONG) {
                    let index = event.token.0 as usize;
                    assert!(active.contains(&index) && found.insert(index), "{index} of {active:?}");
                    assert_eq!(drain(&mut reactor, &mut pairs[index].0), Some(1));
                }
            }
            no_events(&mut reactor);
        }
    }
}

/// Returns the number of waits within which `count` descriptors must be reported: since Linux 6.13, a ring with
/// deferred work completes 20 at a time.
fn waits(count: usize) -> usize {
    count / 20 + 4
}

/// More are ready than one wait reports, and none is ever read: all must be reported within a few waits.
#[test]
fn ready_descriptors_take_turns() {
    each_alone(|reactor| {
        let count = if reactor.backend() == Backend::Select { 450 } else { 1_500 };
        let mut pairs = register_pairs(reactor, count);
        for (_, two) in &mut pairs {
            two.write_all(b"x").unwrap();
        }
        let mut found = BTreeSet::new();
        for _ in 0..waits(count) {
            found.extend(events(reactor, LONG).into_iter().map(token));
        }
        assert_eq!(found.len(), count);
    });
}

/// Some are always ready, one becomes ready once.
#[test]
fn always_ready_descriptors_do_not_hide_another() {
    each_alone(|reactor| {
        let count = if reactor.backend() == Backend::Select { 400 } else { 600 };
        let mut pairs = register_pairs(reactor, count);
        for (_, two) in &mut pairs[1..] {
            two.write_all(b"x").unwrap();
        }
        for _ in 0..waits(count) {
            events(reactor, LONG);
        }
        pairs[0].1.write_all(b"x").unwrap();
        let heard = (0..waits(count)).any(|_| events(reactor, LONG).iter().any(|event| event.token == Token(0)));
        assert!(heard);
    });
}

/// The table is reused, without any state of the first descriptors.
#[test]
fn many_descriptors_can_be_closed_and_registered_again() {
    each_alone(|reactor| {
        let count = if reactor.backend() == Backend::Select { 300 } else { 1_000 };
        for round in 0..3 {
            let mut pairs = register_pairs(reactor, count);
            if round % 2 == 0 {
                no_events(reactor);
            }
            for (_, two) in pairs.iter_mut().step_by(3) {
                two.write_all(b"x").unwrap();
            }
            let found: usize = (0..waits(count)).map(|_| events(reactor, LONG).len()).max().unwrap();
            assert!(is_null(reactor) || found >= count / 4, "{found}");
            for (index, (one, _two)) in pairs.into_iter().enumerate() {
                if index % 2 == 0 { reactor.close(one.into()).unwrap() } else { reactor.deregister(&one).unwrap() }
            }
            assert_eq!((reactor.len(), events(reactor, std::time::Duration::ZERO)), (0, vec![]));
        }
    });
}
