//! Random sequences of calls, checked against a model of eight connections.

use crate::common::{among_others, events, pair};
use landau_reactor::{Backend, Interest, Reactor, Token, backends};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Act {
    Register(usize, Interest),
    Want(usize, Interest),
    Write(usize, usize),
    Read(usize, usize),
    LetPeerClose(usize),
    Deregister(usize),
    Close(usize),
    Wait,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let who = 0..8_usize;
    let interest = prop::sample::select(vec![Interest::NONE, Interest::READABLE, Interest::WRITABLE, Interest::BOTH]);
    let act = prop_oneof![
        3 => (who.clone(), interest.clone()).prop_map(|(who, what)| Act::Register(who, what)),
        3 => (who.clone(), interest).prop_map(|(who, what)| Act::Want(who, what)),
        4 => (who.clone(), 1..9_usize).prop_map(|(who, count)| Act::Write(who, count)),
        4 => (who.clone(), 1..12_usize).prop_map(|(who, count)| Act::Read(who, count)),
        1 => who.clone().prop_map(Act::LetPeerClose),
        1 => who.clone().prop_map(Act::Deregister),
        1 => who.prop_map(Act::Close),
        5 => Just(Act::Wait),
    ];
    prop::collection::vec(act, 1..80)
}

/// A connection of the model, whose peer writes and closes.
struct One {
    here: UnixStream,
    peer: Option<UnixStream>,
    unread: usize,
    want: Option<Interest>,
}

impl One {
    fn new() -> Self {
        let (here, peer) = pair();
        Self { here, peer: Some(peer), unread: 0, want: None }
    }

    fn can_read(&self) -> bool {
        self.unread > 0 || self.peer.is_none()
    }
}

fn act(reactor: &mut Reactor, ones: &mut [One], act: &Act) {
    match *act {
        Act::Register(who, interest) if ones[who].want.is_none() => {
            reactor.register(&ones[who].here, Token(who as u32), interest).unwrap();
            ones[who].want = Some(interest);
        }
        Act::Want(who, interest) if ones[who].want.is_some() => {
            reactor.set_interest(&ones[who].here, interest).unwrap();
            ones[who].want = Some(interest);
        }
        Act::Write(who, count) => {
            if let Some(peer) = &mut ones[who].peer {
                peer.write_all(&[1; 16][..count]).unwrap();
                ones[who].unread += count;
            }
        }
        Act::Read(who, room) => {
            let one = &mut ones[who];
            match one.here.read(&mut [0; 16][..room]) {
                Ok(count) => one.unread -= count,
                Err(_) => assert_eq!(one.unread, 0),
            }
            if one.unread == 0 && one.peer.is_some() {
                reactor.clear_readiness(&one.here, Interest::READABLE);
            }
        }
        Act::LetPeerClose(who) => ones[who].peer = None,
        Act::Deregister(who) if ones[who].want.take().is_some() => reactor.deregister(&ones[who].here).unwrap(),
        Act::Close(who) if ones[who].want.is_some() => {
            let old = std::mem::replace(&mut ones[who], One::new());
            reactor.close(old.here.into()).unwrap();
        }
        _ => {}
    }
}

/// Every event that must be reported is there, and no other.
fn check(reactor: &mut Reactor, ones: &[One]) {
    let mut found = events(reactor, Duration::ZERO);
    // These backends report readiness as it was when it was noted: data may have been read since, and what has become
    // ready since is reported by the next wait.
    let late = [Backend::Null, Backend::Sigio, Backend::IoUring, Backend::IoUringOnce];
    let may_be_late = late.contains(&reactor.backend());
    if may_be_late {
        found.extend(events(reactor, Duration::ZERO));
    }
    for (who, one) in ones.iter().enumerate() {
        let mine: Vec<_> = found.iter().filter(|event| event.token == Token(who as u32)).collect();
        let read = mine.iter().any(|event| event.ready.is_readable());
        let write = mine.iter().any(|event| event.ready.is_writable());
        let want = one.want.unwrap_or(Interest::NONE);
        assert!(mine.is_empty() || one.want.is_some(), "{who}: {mine:?} without a registration");
        if want.contains(Interest::READABLE) {
            assert!(read == one.can_read() || (read && may_be_late), "{who}: read {read}, {} unread", one.unread);
        } else {
            assert!(!read, "{who}: {mine:?} with interest {want:?}");
        }
        // The send buffer is never full here.
        assert_eq!(write, want.contains(Interest::WRITABLE), "{who}: {mine:?} with interest {want:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_backend_agrees_with_the_model(acts in acts()) {
        let _guard = among_others();
        for backend in backends() {
            let mut reactor = Reactor::new(backend).unwrap();
            let mut ones: Vec<_> = (0..8).map(|_| One::new()).collect();
            println!("with {backend}");
            for one in &acts {
                match one {
                    Act::Wait => check(&mut reactor, &ones),
                    other => act(&mut reactor, &mut ones, other),
                }
            }
            check(&mut reactor, &ones);
        }
    }
}
