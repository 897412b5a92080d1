//! Random sequences of calls, checked against a model of eight connections.

use crate::common::{among_others, events, pair};
use landau_reactor::{Backend, Interest, Reactor, Token, backends};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Op {
    Register(usize, Interest),
    SetInterest(usize, Interest),
    Write(usize, usize),
    Read(usize, usize),
    PeerClose(usize),
    Deregister(usize),
    Close(usize),
    Wait,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let index = 0..8_usize;
    let interest = prop::sample::select(vec![Interest::NONE, Interest::READABLE, Interest::WRITABLE, Interest::BOTH]);
    let op = prop_oneof![
        3 => (index.clone(), interest.clone()).prop_map(|(index, interest)| Op::Register(index, interest)),
        3 => (index.clone(), interest).prop_map(|(index, interest)| Op::SetInterest(index, interest)),
        4 => (index.clone(), 1..9_usize).prop_map(|(index, count)| Op::Write(index, count)),
        4 => (index.clone(), 1..12_usize).prop_map(|(index, count)| Op::Read(index, count)),
        1 => index.clone().prop_map(Op::PeerClose),
        1 => index.clone().prop_map(Op::Deregister),
        1 => index.prop_map(Op::Close),
        5 => Just(Op::Wait),
    ];
    prop::collection::vec(op, 1..80)
}

/// A connection of the model, whose peer writes and closes.
struct Connection {
    here: UnixStream,
    peer: Option<UnixStream>,
    unread: usize,
    interest: Option<Interest>,
}

impl Connection {
    fn new() -> Self {
        let (here, peer) = pair();
        Self { here, peer: Some(peer), unread: 0, interest: None }
    }

    fn can_read(&self) -> bool {
        self.unread > 0 || self.peer.is_none()
    }
}

fn apply(reactor: &mut Reactor, connections: &mut [Connection], op: &Op) {
    match *op {
        Op::Register(index, interest) if connections[index].interest.is_none() => {
            reactor.register(&connections[index].here, Token(index as u32), interest).unwrap();
            connections[index].interest = Some(interest);
        }
        Op::SetInterest(index, interest) if connections[index].interest.is_some() => {
            reactor.set_interest(&connections[index].here, interest).unwrap();
            connections[index].interest = Some(interest);
        }
        Op::Write(index, count) => {
            if let Some(peer) = &mut connections[index].peer {
                peer.write_all(&[1; 16][..count]).unwrap();
                connections[index].unread += count;
            }
        }
        Op::Read(index, count) => {
            let connection = &mut connections[index];
            match connection.here.read(&mut [0; 16][..count]) {
                Ok(count) => connection.unread -= count,
                Err(_) => assert_eq!(connection.unread, 0),
            }
            if connection.unread == 0 && connection.peer.is_some() {
                reactor.clear_readiness(&connection.here, Interest::READABLE);
            }
        }
        Op::PeerClose(index) => connections[index].peer = None,
        Op::Deregister(index) if connections[index].interest.take().is_some() => {
            reactor.deregister(&connections[index].here).unwrap();
        }
        Op::Close(index) if connections[index].interest.is_some() => {
            let old = std::mem::replace(&mut connections[index], Connection::new());
            reactor.close(old.here.into()).unwrap();
        }
        _ => {}
    }
}

/// Asserts that exactly the required events are reported.
fn check(reactor: &mut Reactor, connections: &[Connection]) {
    let mut found = events(reactor, Duration::ZERO);
    // These backends report readiness as it was when it was recorded: data may have been read since, and descriptors
    // that became ready since are reported by the next wait.
    let late = [Backend::Null, Backend::Sigio, Backend::IoUring, Backend::IoUringOnce];
    let may_be_late = late.contains(&reactor.backend());
    if may_be_late {
        found.extend(events(reactor, Duration::ZERO));
    }
    for (index, connection) in connections.iter().enumerate() {
        let own: Vec<_> = found.iter().filter(|event| event.token == Token(index as u32)).collect();
        let read = own.iter().any(|event| event.ready.is_readable());
        let write = own.iter().any(|event| event.ready.is_writable());
        let interest = connection.interest.unwrap_or(Interest::NONE);
        assert!(own.is_empty() || connection.interest.is_some(), "{index}: {own:?} without a registration");
        if interest.contains(Interest::READABLE) {
            assert!(
                read == connection.can_read() || (read && may_be_late),
                "{index}: read {read}, {} unread",
                connection.unread
            );
        } else {
            assert!(!read, "{index}: {own:?} with interest {interest:?}");
        }
        // The send buffer is never full here.
        assert_eq!(write, interest.contains(Interest::WRITABLE), "{index}: {own:?} with interest {interest:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_backend_agrees_with_the_model(ops in ops()) {
        let _guard = among_others();
        for backend in backends() {
            let mut reactor = Reactor::new(backend).unwrap();
            let mut connections: Vec<_> = (0..8).map(|_| Connection::new()).collect();
            println!("with {backend}");
            for op in &ops {
                match op {
                    Op::Wait => check(&mut reactor, &connections),
                    other => apply(&mut reactor, &mut connections, other),
                }
            }
            check(&mut reactor, &connections);
        }
    }
}
