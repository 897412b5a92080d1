//! Closing: by the peer, by the caller, and reuse of the descriptor's number.

use crate::child;
use crate::common::{LONG, at, drain, each, each_alone, events, is_null, no_events, only, pair, tcp_pair};
use landau_reactor::{Backend, Interest, Token};
use landau_sys::stream::{is_blocking, set_blocking, set_reset_on_close};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A number that is free while no other test runs, and low enough for `select`.
const NUMBER: i32 = 900;

#[test]
fn a_closed_peer_makes_readable() {
    each(|reactor| {
        for interest in [Interest::READABLE, Interest::BOTH] {
            let (mut one, two) = pair();
            reactor.register(&one, Token(1), interest).unwrap();
            drop(two);
            let found = events(reactor, LONG);
            assert!(found.iter().any(|event| event.ready.is_readable()), "{found:?}");
            assert_eq!(drain(reactor, &mut one), None);
            reactor.close(one.into()).unwrap();
        }
    });
}

#[test]
fn a_closed_peer_makes_writable() {
    each(|reactor| {
        let _closes = child::none_starts();
        let (mut one, two) = pair();
        reactor.register(&one, Token(1), Interest::WRITABLE).unwrap();
        drop(two);
        assert!(only(reactor).ready.is_writable());
        assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// A short read means that the data was read, not that the end of the stream was.
#[test]
fn the_end_behind_a_short_read_is_reported() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        two.write_all(b"last").unwrap();
        drop(two);
        assert!(only(reactor).ready.is_readable());
        assert_eq!(one.read(&mut [0; 64]).unwrap(), 4);
        reactor.clear_readiness(&one, Interest::READABLE);
        let found = events(reactor, LONG);
        assert!(found.iter().any(|event| event.ready.is_readable()), "{found:?}");
        assert_eq!(one.read(&mut [0; 64]).unwrap(), 0);
    });
}

/// A TCP peer that ends its stream looks to `sigio` like one that sends data.
#[test]
fn the_end_behind_a_short_read_of_tcp_is_reported() {
    each(|reactor| {
        for is_found_between in [false, true] {
            let (mut client, mut server) = tcp_pair();
            reactor.register(&server, Token(1), Interest::READABLE).unwrap();
            no_events(reactor);
            client.write_all(b"last").unwrap();
            if is_found_between {
                assert!(only(reactor).ready.is_readable());
            }
            client.shutdown(Shutdown::Write).unwrap();
            await_end(&server);
            assert!(only(reactor).ready.is_readable());
            assert_eq!(server.read(&mut [0; 64]).unwrap(), 4);
            reactor.clear_readiness(&server, Interest::READABLE);
            let found = events(reactor, LONG);
            assert!(found.iter().any(|event| event.ready.is_readable()), "{found:?}");
            assert_eq!(server.read(&mut [0; 64]).unwrap(), 0);
            reactor.close(server.into()).unwrap();
        }
    });
}

/// Waits until the end of the stream has arrived, read or not.
fn await_end(stream: &impl AsRawFd) {
    let mut entries = landau_sys::poll::Entries::default();
    entries.push(stream.as_raw_fd(), landau_sys::poll::PEER_CLOSED);
    // On a system without this event, the test relies on the data arriving in time.
    entries.wait(if landau_sys::poll::PEER_CLOSED == 0 { 0 } else { -1 }).unwrap();
}

/// An edge-triggered backend that looks for the end of the stream once more must not do so for ever.
#[test]
fn unread_data_without_interest_does_not_end_waits() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        for _ in 0..3 {
            two.write_all(b"x").unwrap();
            assert!(only(reactor).ready.is_readable());
        }
        reactor.set_interest(&one, Interest::NONE).unwrap();
        for _ in 0..3 {
            no_events(reactor);
        }
        let (begin, short) = (Instant::now(), Duration::from_millis(50));
        let found = events(reactor, short);
        assert!(is_null(reactor) || (found.is_empty() && begin.elapsed() >= short), "{:?}", begin.elapsed());
        reactor.set_interest(&one, Interest::READABLE).unwrap();
        assert!(only(reactor).ready.is_readable());
        assert_eq!(drain(reactor, &mut one), Some(3));
        no_events(reactor);
    });
}

/// The end of the stream, too, is reported until it was read.
#[test]
fn data_can_be_read_after_the_peer_closed() {
    each(|reactor| {
        let _closes = child::none_starts();
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
fn a_half_closed_connection_can_still_be_written() {
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
        // The backend releases the file in this wait at the latest.
        events(reactor, Duration::ZERO);
        client.set_nonblocking(false).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn a_reset_is_reported_as_readable_or_writable() {
    each(|reactor| {
        let _closes = child::none_starts();
        for interest in [Interest::READABLE, Interest::WRITABLE] {
            let (client, mut server) = tcp_pair();
            reactor.register(&server, Token(1), interest).unwrap();
            set_reset_on_close(&client).unwrap();
            drop(client);
            let found = only(reactor).ready;
            assert_eq!(
                (found.is_readable(), found.is_writable()),
                (interest == Interest::READABLE, interest != Interest::READABLE)
            );
            // The first call, of either kind, returns the pending error.
            let error = if interest == Interest::READABLE { server.read(&mut [0]) } else { server.write(b"x") };
            assert_eq!(error.unwrap_err().kind(), ErrorKind::ConnectionReset);
            reactor.close(server.into()).unwrap();
        }
    });
}

/// Only some backends can report it.
#[test]
fn a_closed_peer_is_reported_as_read_closed() {
    each(|reactor| {
        let (one, two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        drop(two);
        let found = only(reactor).ready;
        let knows = !matches!(reactor.backend(), Backend::Select | Backend::Null);
        assert_eq!(found.is_read_closed(), knows, "{found:?}");
    });
}

/// A caller without interest gets such an event in each wait and must be able to identify it. A peer that has only
/// closed its writing half still receives.
#[test]
fn a_dead_connection_is_reported_as_write_closed_without_interest() {
    each(|reactor| {
        let (client, server) = tcp_pair();
        reactor.register(&server, Token(1), Interest::READABLE).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert!(!only(reactor).ready.is_write_closed());
        reactor.set_interest(&server, Interest::NONE).unwrap();
        assert!(events(reactor, Duration::ZERO).iter().all(|found| !found.ready.is_write_closed()));
        no_events(reactor);
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
fn the_peer_sees_the_end_of_a_closed_descriptor() {
    each(|reactor| {
        let _closes = child::none_starts();
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        reactor.close(one.into()).unwrap();
        events(reactor, Duration::ZERO);
        assert_eq!(two.read(&mut [0]).unwrap(), 0);
        // Deregistered and closed by its owner: the end arrives at once.
        let (one, mut two) = pair();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        reactor.deregister(&one).unwrap();
        drop(one);
        assert_eq!(two.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn deregistered_descriptors_have_no_events() {
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

/// Handling the first event deregisters all other descriptors.
#[test]
fn found_events_are_dropped_with_their_descriptors() {
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

/// A descriptor is closed after an event was found and before it was returned, and its number is reused at once.
#[test]
fn found_events_are_not_returned_for_the_next_owner_of_a_number() {
    each_alone(|reactor| {
        let (one, mut two) = pair();
        let one = at(NUMBER, one);
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        two.write_all(b"x").unwrap();
        reactor.wait(Some(LONG)).unwrap();
        reactor.close(one).unwrap();
        let (next_owner, mut peer) = pair();
        let next_owner = at(NUMBER, next_owner);
        reactor.register(&next_owner, Token(2), Interest::READABLE).unwrap();
        assert_eq!(reactor.next_event(), None);
        no_events(reactor);
        peer.write_all(b"y").unwrap();
        assert_eq!(only(reactor).token, Token(2));
        reactor.close(next_owner).unwrap();
    });
}

/// Without a wait in between: events may be queued in the kernel.
#[test]
fn queued_events_are_not_returned_for_the_next_owner_of_a_number() {
    each_alone(|reactor| {
        for round in 0..20 {
            let (one, mut two) = pair();
            let one = at(NUMBER, one);
            reactor.register(&one, Token(1), Interest::READABLE).unwrap();
            if round % 2 == 0 {
                no_events(reactor);
            }
            two.write_all(b"x").unwrap();
            drop(two);
            if round % 3 == 0 {
                reactor.deregister(&one).unwrap();
                drop(one);
            } else {
                reactor.close(one).unwrap();
            }
            let (next_owner, mut peer) = pair();
            let mut next_owner = UnixStream::from(at(NUMBER, next_owner));
            reactor.register(&next_owner, Token(2), Interest::READABLE).unwrap();
            no_events(reactor);
            peer.write_all(b"y").unwrap();
            let found = only(reactor);
            assert!(found.token == Token(2) && !found.ready.is_read_closed(), "{found:?}");
            assert_eq!(drain(reactor, &mut next_owner), Some(1));
            reactor.close(next_owner.into()).unwrap();
        }
    });
}

/// The server of the 2003 study sometimes blocked in `sendfile`: it remembered by number which descriptors were
/// nonblocking, and the number had been reused. This crate asks the kernel each time.
#[test]
fn the_next_owner_of_a_number_is_made_nonblocking_too() {
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

/// Two descriptors of one open file are two registrations.
#[test]
fn duplicates_are_watched_independently() {
    each(|reactor| {
        let (mut one, mut two) = pair();
        let copy = one.try_clone().unwrap();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        reactor.register(&copy, Token(2), Interest::READABLE).unwrap();
        two.write_all(b"x").unwrap();
        let mut found: Vec<u32> = events(reactor, LONG).iter().map(|event| event.token.0).collect();
        found.sort_unstable();
        assert_eq!(found, [1, 2]);
        drain(reactor, &mut one);
        reactor.clear_readiness(&copy, Interest::READABLE);
        no_events(reactor);
        reactor.deregister(&one).unwrap();
        two.write_all(b"x").unwrap();
        assert_eq!(only(reactor).token, Token(2));
    });
}

/// A duplicate elsewhere keeps the file open; a descriptor that is deregistered before it is closed is not watched.
#[test]
fn a_duplicate_elsewhere_does_not_keep_a_descriptor_watched() {
    each(|reactor| {
        let (one, mut two) = pair();
        let elsewhere: OwnedFd = one.try_clone().unwrap().into();
        reactor.register(&one, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        reactor.deregister(&one).unwrap();
        drop(one);
        two.write_all(b"x").unwrap();
        assert_eq!(events(reactor, Duration::ZERO), vec![]);
        drop(elsewhere);
    });
}

/// A mistake of the caller that must not affect other descriptors.
#[test]
fn a_descriptor_closed_without_deregistering_does_not_affect_others() {
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
            let found = events(reactor, LONG);
            assert!(found.iter().any(|event| event.token == Token(2)), "{found:?}");
        }
        assert!(is_null(reactor) || events(reactor, LONG).len() <= 2);
    });
}

/// Before the fix, the request of `io_uring` was submitted after the close. It polled the number's next owner, here the
/// peer of another connection, and held it open: the kernel refuses to remove a request that is just completing.
#[test]
fn a_descriptor_that_is_closed_before_any_wait_holds_no_other() {
    each_alone(|reactor| {
        let (first, _peer) = pair();
        let first = at(NUMBER, first);
        reactor.register(&first, Token(0), Interest::WRITABLE).unwrap();
        reactor.close(first).unwrap();
        let (here, peer) = pair();
        let peer = at(NUMBER, peer);
        reactor.register(&here, Token(1), Interest::READABLE).unwrap();
        no_events(reactor);
        no_events(reactor);
        drop(peer);
        let found = events(reactor, LONG);
        assert!(found.iter().any(|event| event.token == Token(1) && event.ready.is_readable()), "{found:?}");
    });
}
