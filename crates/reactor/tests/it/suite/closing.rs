//! Ends: of a peer, of a descriptor, and of the one whose number another inherits.

use crate::common::{LONG, at, drain, each, each_alone, events, is_null, only, pair, quiet, tcp_pair};
use landau_reactor::{Backend, Interest, Token};
use landau_sys::stream::{is_blocking, set_blocking, set_reset_on_close};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A number that is free in a test that is alone, and low enough for `select`.
const NUMBER: i32 = 900;

#[test]
fn a_peer_that_closed_is_found_by_reading() {
    each(|reactor| {
        for interest in [Interest::READABLE, Interest::BOTH] {
            let (mut one, two) = pair();
            reactor.register(&one, Token(1), interest).unwrap();
            drop(two);
            let told = events(reactor, LONG);
            assert!(told.iter().any(|event| event.ready.is_readable()), "{told:?}");
            assert_eq!(drain(reactor, &mut one), None);
            reactor.close(one.into()).unwrap();
        }
    });
}

#[test]
fn a_peer_that_closed_is_found_by_writing() {
    each(|reactor| {
        let (mut one, two) = pair();
        reactor.register(&one, Token(1), Interest::WRITABLE).unwrap();
        drop(two);
        assert!(only(reactor).ready.is_writable());
        assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// What a peer said before it left is heard first, and its end is told again until it was seen.
#[test]
fn data_of_a_peer_that_closed_comes_first() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        two.write_all(b"last words").unwrap();
        drop(two);
        let mut got = Vec::new();
        loop {
            assert!(only(reactor).ready.is_readable());
            let mut byte = [0; 3];
            match one.read(&mut byte).unwrap() {
                0 => break,
                count => got.extend_from_slice(&byte[..count]),
            }
        }
        assert_eq!(got, b"last words");
    });
}

#[test]
fn a_half_that_is_shut_leaves_the_other() {
    each(|reactor| {
        let (mut client, mut server) = tcp_pair();
        reactor.register(&server, Token(1), Interest::READABLE).unwrap();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        while events(reactor, LONG).is_empty() {}
        while server.read_to_end(&mut got).is_err() {
            while events(reactor, LONG).is_empty() {}
        }
        assert_eq!(got, b"question");
        reactor.set_interest(&server, Interest::WRITABLE).unwrap();
        assert!(only(reactor).ready.is_writable());
        server.write_all(b"answer").unwrap();
        reactor.close(server.into()).unwrap();
        // Whatever the backend still holds it lets go now.
        events(reactor, Duration::ZERO);
        client.set_nonblocking(false).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn a_reset_is_told_as_what_is_watched() {
    each(|reactor| {
        for interest in [Interest::READABLE, Interest::WRITABLE] {
            let (client, mut server) = tcp_pair();
            reactor.register(&server, Token(1), interest).unwrap();
            set_reset_on_close(&client).unwrap();
            drop(client);
            let told = only(reactor).ready;
            assert_eq!(
                (told.is_readable(), told.is_writable()),
                (interest == Interest::READABLE, interest != Interest::READABLE)
            );
            // Of an error that waits, the first call of either kind is told.
            let error = if interest == Interest::READABLE { server.read(&mut [0]) } else { server.write(b"x") };
            assert_eq!(error.unwrap_err().kind(), ErrorKind::ConnectionReset);
            reactor.close(server.into()).unwrap();
        }
    });
}

/// The backends that know of it say that a peer is gone without a read.
#[test]
fn a_hang_up_is_told_by_name_where_it_is_known() {
    each(|reactor| {
        let (one, two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        drop(two);
        let told = only(reactor).ready;
        let knows = !matches!(reactor.backend(), Backend::Select | Backend::Null);
        assert_eq!(told.is_read_closed(), knows, "{told:?}");
    });
}

/// Who wants nothing of a descriptor for now would be told of its end in each wait and not know what to do about it.
/// A peer that only says no more is still there.
#[test]
fn one_that_is_gone_is_told_by_name_though_nothing_is_wanted() {
    each(|reactor| {
        let (client, server) = tcp_pair();
        reactor.register(&server, Token(1), Interest::READABLE).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(!only(reactor).ready.is_write_closed());
        reactor.set_interest(&server, Interest::NONE).unwrap();
        assert!(events(reactor, Duration::ZERO).iter().all(|told| !told.ready.is_write_closed()));
        quiet(reactor);
        if !matches!(reactor.backend(), Backend::Epoll | Backend::Poll) {
            return;
        }
        set_reset_on_close(&client).unwrap();
        drop(client);
        assert!(
            only(reactor).ready.is_write_closed() && only(reactor).ready.is_write_closed(),
            "and again in each wait"
        );
    });
}

#[test]
fn the_peer_of_what_is_closed_sees_the_end() {
    each(|reactor| {
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        quiet(reactor);
        reactor.close(one.into()).unwrap();
        events(reactor, Duration::ZERO);
        assert_eq!(two.read(&mut [0]).unwrap(), 0);
        // Given back and closed by its owner: the end comes at once.
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        quiet(reactor);
        reactor.deregister(&one).unwrap();
        drop(one);
        assert_eq!(two.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn what_was_given_back_is_not_told() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        for _ in 0..3 {
            reactor.register(&one, Token(1), Interest::READABLE).unwrap();
            two.write_all(b"x").unwrap();
            only(reactor);
            reactor.deregister(&one).unwrap();
            two.write_all(b"y").unwrap();
            assert_eq!(events(reactor, Duration::ZERO), vec![]);
            reactor.register(&one, Token(2), Interest::READABLE).unwrap();
            assert_eq!(only(reactor).token, Token(2));
            assert_eq!(drain(reactor, &mut one), Some(2));
            reactor.deregister(&one).unwrap();
        }
    });
}

/// The first of a batch gives all others back: none of them may still be handed out.
#[test]
fn the_rest_of_a_batch_is_dropped_with_its_descriptors() {
    each(|reactor| {
        let mut pairs: Vec<_> = (0..10).map(|_| Some(pair())).collect();
        for (index, pair) in pairs.iter_mut().enumerate() {
            let (one, two) = pair.as_mut().unwrap();
            reactor.register(one, Token(index as u32), Interest::READABLE).unwrap();
            two.write_all(b"x").unwrap();
        }
        reactor.wait(Some(LONG)).unwrap();
        let first = reactor.next_event().unwrap().token.0 as usize;
        for (index, pair) in pairs.iter_mut().enumerate().filter(|(index, _)| *index != first) {
            let (one, _two) = pair.take().unwrap();
            if index % 2 == 0 { reactor.close(one.into()).unwrap() } else { reactor.deregister(&one).unwrap() }
        }
        assert_eq!(reactor.next_event(), None);
        assert_eq!(only(reactor).token.0 as usize, first);
    });
}

/// Closed with an event found and not handed out, and the number given to another at once.
#[test]
fn a_number_s_heir_hears_nothing_of_the_dead() {
    each_alone(|reactor| {
        let (one, mut two) = pair();
        let one = at(NUMBER, one);
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        two.write_all(b"x").unwrap();
        reactor.wait(Some(LONG)).unwrap();
        reactor.close(one).unwrap();
        let (heir, mut peer) = pair();
        let heir = at(NUMBER, heir);
        reactor.register(&heir, Token(2), Interest::READABLE).unwrap();
        assert_eq!(reactor.next_event(), None);
        quiet(reactor);
        peer.write_all(b"y").unwrap();
        assert_eq!(only(reactor).token, Token(2));
        reactor.close(heir).unwrap();
    });
}

/// The same without a wait between: whatever is queued somewhere belongs to the dead.
#[test]
fn nothing_of_the_dead_is_queued_for_the_heir() {
    each_alone(|reactor| {
        for round in 0..20 {
            let (one, mut two) = pair();
            let one = at(NUMBER, one);
            reactor.register(&one, Token(1), Interest::READABLE).unwrap();
            if round % 2 == 0 {
                quiet(reactor);
            }
            two.write_all(b"x").unwrap();
            drop(two);
            if round % 3 == 0 {
                reactor.deregister(&one).unwrap();
                drop(one);
            } else {
                reactor.close(one).unwrap();
            }
            let (heir, mut peer) = pair();
            let mut heir = UnixStream::from(at(NUMBER, heir));
            reactor.register(&heir, Token(2), Interest::READABLE).unwrap();
            quiet(reactor);
            peer.write_all(b"y").unwrap();
            let told = only(reactor);
            assert!(told.token == Token(2) && !told.ready.is_read_closed(), "{told:?}");
            assert_eq!(drain(reactor, &mut heir), Some(1));
            reactor.close(heir.into()).unwrap();
        }
    });
}

/// The study's server blocked in `sendfile` now and then: it kept a note that a number did not block, and the number
/// had been given to another file since. Here the kernel is asked each time.
#[test]
fn a_number_s_heir_does_not_block_either() {
    each_alone(|reactor| {
        for _ in 0..3 {
            let (one, _two) = pair();
            let one = at(NUMBER, one);
            set_blocking(&one, true).unwrap();
            reactor.register(&one, Token(1), Interest::BOTH).unwrap();
            assert_eq!(is_blocking(&one), Ok(false));
            reactor.close(one).unwrap();
        }
    });
}

/// Two numbers for one open file are two registrations.
#[test]
fn copies_are_watched_each_for_itself() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        let copy = one.try_clone().unwrap();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.register(&copy, Token(2), Interest::READABLE).unwrap();
        two.write_all(b"x").unwrap();
        let mut told: Vec<u32> = events(reactor, LONG).iter().map(|event| event.token.0).collect();
        told.sort_unstable();
        assert_eq!(told, [1, 2]);
        drain(reactor, &mut one);
        reactor.clear_readiness(&copy, Interest::READABLE);
        quiet(reactor);
        reactor.deregister(&one).unwrap();
        two.write_all(b"x").unwrap();
        assert_eq!(only(reactor).token, Token(2));
    });
}

/// A copy elsewhere keeps the file open: what is deregistered before it is closed is watched no longer.
#[test]
fn a_copy_elsewhere_keeps_nothing_watched() {
    each(|reactor| {
        let (one, mut two) = pair();
        let elsewhere: OwnedFd = one.try_clone().unwrap().into();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        quiet(reactor);
        reactor.deregister(&one).unwrap();
        drop(one);
        two.write_all(b"x").unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
        drop(elsewhere);
    });
}

/// A mistake that must not take the others along: closed by its owner and not given back.
#[test]
fn what_was_closed_behind_our_back_does_not_spoil_the_rest() {
    each_alone(|reactor| {
        let (one, _two) = pair();
        let one = at(NUMBER, one);
        let (other, mut peer) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.register(&other, Token(2), Interest::READABLE).unwrap();
        assert_eq!(one.as_raw_fd(), NUMBER);
        drop(one);
        events(reactor, Duration::ZERO);
        peer.write_all(b"x").unwrap();
        for _ in 0..3 {
            let told = events(reactor, LONG);
            assert!(told.iter().any(|event| event.token == Token(2)), "{told:?}");
        }
        assert!(is_null(reactor) || events(reactor, LONG).len() <= 2);
    });
}
