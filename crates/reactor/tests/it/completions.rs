//! Whole operations through a ring, with all that the kernel has and with the least.

use crate::child;
use crate::common::{LONG, alone, among_others, at, pair, tcp_pair};
use landau_reactor::batch::Buffer;
use landau_reactor::completions::{Completion, Level, Options, Parking, Ring};
use landau_reactor::{Backend, Error, Reactor, Token};
use landau_sys::stream;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const LEVELS: [Level; 2] = [Level::Best, Level::Plain];

/// A ring of few and small buffers, so that all that may run short does.
fn small(level: Level) -> Options {
    Options { wishes: 16, completions: 32, buffer_count: 4, buffer_bytes: 64, level }
}

fn each_of(options: impl Fn(Level) -> Options, test: impl Fn(&mut Ring)) {
    for level in LEVELS {
        match Ring::with_options(options(level)) {
            Ok(mut ring) => {
                println!("with {}", ring.note());
                test(&mut ring);
            }
            // Where there is none, the backend is not there either.
            Err(error) => {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                assert!(Reactor::new(Backend::IoUring).is_err());
            }
        }
    }
}

/// Each level, once with room and once without.
fn each(test: impl Fn(&mut Ring)) {
    let _guard = among_others();
    each_of(|level| Options { level, ..Options::default() }, &test);
    each_of(small, &test);
}

/// What a wait brings.
fn completions(ring: &mut Ring, limit: Duration) -> Vec<Completion> {
    ring.wait(Some(limit)).unwrap();
    std::iter::from_fn(|| ring.next_completion().unwrap()).collect()
}

/// The next completion, whenever it comes.
fn next(ring: &mut Ring) -> Completion {
    loop {
        if let Some(completion) = ring.next_completion().unwrap() {
            return completion;
        }
        ring.wait(Some(LONG)).unwrap();
    }
}

/// What the next completion brought, which must be something that arrived; its buffer is given back.
fn arrived(ring: &mut Ring, from: u32) -> Vec<u8> {
    match next(ring) {
        Completion::Received { token, buffer } => {
            assert_eq!(token, Token(from));
            let bytes = ring.bytes(&buffer).to_vec();
            ring.recycle(buffer);
            bytes
        }
        other => panic!("{other:?}"),
    }
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 31 + index / 251) as u8).collect()
}

fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn connections_are_accepted_as_they_come() {
    each(|ring| {
        let (listener, address) = listener();
        ring.listen(&listener, Token(9)).unwrap();
        let mut clients = Vec::new();
        for round in 1..4 {
            clients.extend((0..20).map(|_| TcpStream::connect(address).unwrap()));
            let mut taken = Vec::new();
            while taken.len() < 20 {
                match next(ring) {
                    Completion::Accepted { token: Token(9), connection } => taken.push(connection),
                    other => panic!("{round}: {other:?}"),
                }
            }
            assert!(taken.iter().all(|one| stream::is_blocking(one) == Ok(false)));
        }
        assert_eq!(ring.operation_count(), 1);
        ring.close(listener.into()).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty() && ring.is_empty());
        while ring.operation_count() > 0 {
            assert!(completions(ring, LONG).is_empty());
        }
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// Whoever the kernel had accepted when it was told to accept no more is not lost, and all others stay in the queue.
#[test]
fn who_was_accepted_before_the_stop_is_told() {
    each(|ring| {
        let (listener, address) = listener();
        ring.listen(&listener, Token(0)).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        let before: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        ring.stop_accepting(&listener).unwrap();
        let mut told = Vec::new();
        for _ in 0..3 {
            told.extend(completions(ring, Duration::ZERO));
        }
        let _after = TcpStream::connect(address).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        listener.set_nonblocking(true).unwrap();
        let left = std::iter::from_fn(|| listener.accept().ok()).count();
        assert!(told.iter().all(|one| matches!(one, Completion::Accepted { token: Token(0), .. })), "{told:?}");
        assert_eq!(told.len() + left, before.len() + 1, "{told:?}");
        ring.close(listener.into()).unwrap();
    });
}

#[test]
fn what_arrives_is_received_and_answered() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        there.set_nonblocking(false).unwrap();
        ring.receive(&here, Token(1)).unwrap();
        for round in 0..50_u8 {
            there.write_all(&[round; 30]).unwrap();
            let mut got = Vec::new();
            while got.len() < 30 {
                got.extend(arrived(ring, 1));
            }
            assert_eq!(got, [round; 30]);
            ring.send(&here, Buffer::Owned(got.into())).unwrap();
            match next(ring) {
                Completion::Sent { token: Token(1), byte_count: 30 } => {}
                other => panic!("{other:?}"),
            }
            let mut answer = [0; 30];
            there.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [round; 30]);
        }
        there.shutdown(Shutdown::Write).unwrap();
        assert!(matches!(next(ring), Completion::Ended { token: Token(1) }));
        ring.close(here.into()).unwrap();
        completions(ring, Duration::ZERO);
        assert_eq!(there.read(&mut [0]).unwrap(), 0);
    });
}

/// Four buffers of 64 bytes for a flood from three sides, of which pieces are held back: who finds none goes on later.
#[test]
fn too_few_buffers_delay_and_lose_nothing() {
    each(|ring| {
        let given = pattern(100_000);
        let pairs: Vec<_> = (0..3).map(|_| tcp_pair()).collect();
        let mut got: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for (index, (here, _)) in pairs.iter().enumerate() {
            ring.receive(here, Token(index as u32)).unwrap();
        }
        std::thread::scope(|scope| {
            for (_, there) in &pairs {
                there.set_nonblocking(false).unwrap();
                let given = &given;
                scope.spawn(move || {
                    let mut there = there;
                    there.write_all(given).unwrap();
                    there.shutdown(Shutdown::Write).unwrap();
                });
            }
            let (mut ended, mut held) = (0, Vec::new());
            while ended < 3 {
                if let Some(completion) = ring.next_completion().unwrap() {
                    match completion {
                        Completion::Received { token, buffer } => {
                            got.entry(token.0).or_default().extend_from_slice(ring.bytes(&buffer));
                            held.push(buffer);
                        }
                        Completion::Ended { .. } => ended += 1,
                        other => panic!("{other:?}"),
                    }
                    continue;
                }
                // Given back only when there is nothing else to do.
                for buffer in held.drain(..) {
                    ring.recycle(buffer);
                }
                ring.wait(Some(LONG)).unwrap();
            }
        });
        assert!(got.len() == 3 && got.values().all(|bytes| *bytes == given));
    });
}

/// Who sends faster than is wanted has to wait, and nothing is lost: not what came before the hold took effect, and not
/// what lies in the kernel's buffers meanwhile.
#[test]
fn one_that_is_held_waits_and_loses_nothing() {
    each(|ring| {
        let given = pattern(300_000);
        let (here, there) = tcp_pair();
        there.set_nonblocking(false).unwrap();
        ring.receive(&here, Token(1)).unwrap();
        let (mut got, mut round) = (Vec::new(), 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut there = &there;
                there.write_all(&given).unwrap();
                there.shutdown(Shutdown::Write).unwrap();
            });
            let mut has_ended = false;
            while !has_ended {
                has_ended = hear(ring, next, &mut got);
                round += 1;
                ring.hold(&here).unwrap();
                if round % 7 == 0 {
                    ring.park(&here).unwrap();
                    // Until it has taken effect; what was received before is still told.
                    while ring.operation_count() > 0 {
                        for late in completions(ring, Duration::ZERO) {
                            has_ended |= hear(ring, |_| late, &mut got);
                        }
                    }
                    assert!(completions(ring, Duration::from_millis(1)).is_empty(), "it is held");
                }
                ring.resume(&here).unwrap();
            }
        });
        assert!(got == given, "{} of {} bytes", got.len(), given.len());
        ring.hold(&here).unwrap();
        ring.close(here.into()).unwrap();
        while ring.operation_count() > 0 {
            assert!(completions(ring, LONG).is_empty());
        }
    });
}

/// Takes what arrived; whether it was the end.
fn hear(ring: &mut Ring, from: impl FnOnce(&mut Ring) -> Completion, got: &mut Vec<u8>) -> bool {
    match from(ring) {
        Completion::Received { token: Token(1), buffer } => {
            got.extend_from_slice(ring.bytes(&buffer));
            ring.recycle(buffer);
            false
        }
        Completion::Ended { token: Token(1) } => true,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_unsent_is_known() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        there.set_nonblocking(false).unwrap();
        ring.receive(&here, Token(1)).unwrap();
        assert_eq!(ring.unsent(&here), 0);
        ring.send_all(&here, [Buffer::Owned(vec![1; 5].into()), Buffer::Owned(vec![2; 64 << 20].into())]).unwrap();
        completions(ring, Duration::ZERO);
        let unsent = ring.unsent(&here);
        assert!(unsent > 0 && unsent <= (64 << 20) + 5, "{unsent}");
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; (64 << 20) + 5];
            there.read_exact(&mut got).unwrap();
            there
        });
        assert!(matches!(next(ring), Completion::Sent { token: Token(1), .. }));
        assert_eq!(ring.unsent(&here), 0);
        drop(reader.join().unwrap());
    });
}

#[test]
fn what_is_given_leaves_in_its_order_and_whole() {
    each(|ring| {
        let given = pattern(300_000);
        let (here, mut there) = tcp_pair();
        stream::set_send_buffer(&here, 1).unwrap();
        there.set_nonblocking(false).unwrap();
        ring.receive(&here, Token(1)).unwrap();
        let mut begin = 0;
        for (index, count) in [1, 100, 0, 70_000, 3, 9_999].into_iter().cycle().enumerate() {
            let end = (begin + count).min(given.len());
            let bytes = &given[begin..end];
            let buffer = if index % 2 == 0 { Buffer::Owned(bytes.into()) } else { Buffer::Shared(bytes.into()) };
            ring.send(&here, buffer).unwrap();
            begin = end;
            if begin == given.len() {
                break;
            }
        }
        let reader = std::thread::spawn(move || {
            let mut got = vec![0; 300_000];
            there.read_exact(&mut got).unwrap();
            (got, there)
        });
        let mut sent = 0;
        while sent < 300_000 {
            match next(ring) {
                Completion::Sent { token: Token(1), byte_count } => sent += byte_count,
                other => panic!("{other:?}"),
            }
        }
        let (got, _there) = reader.join().unwrap();
        assert!(sent == 300_000 && got == given);
    });
}

#[test]
fn a_chain_of_buffers_is_one_completion() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        there.set_nonblocking(false).unwrap();
        ring.receive(&here, Token(1)).unwrap();
        let parts = [Buffer::Borrowed(b"head "), Buffer::Owned(b"body "[..].into()), Buffer::Shared(b"end"[..].into())];
        ring.send_all(&here, parts).unwrap();
        assert!(matches!(next(ring), Completion::Sent { token: Token(1), byte_count: 13 }));
        let mut got = [0; 13];
        there.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"head body end");
    });
}

#[test]
fn what_was_given_leaves_before_the_end() {
    each(|ring| {
        let given = pattern(200_000);
        let (here, mut there) = tcp_pair();
        stream::set_send_buffer(&here, 1).unwrap();
        there.set_nonblocking(false).unwrap();
        ring.receive(&here, Token(1)).unwrap();
        ring.send(&here, Buffer::Owned(given.clone().into())).unwrap();
        ring.close(here.into()).unwrap();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            there.read_to_end(&mut got).unwrap();
            got
        });
        while !reader.is_finished() {
            assert!(completions(ring, Duration::from_millis(5)).is_empty());
        }
        assert!(reader.join().unwrap() == given);
        assert!(ring.is_empty());
    });
}

/// A peer that reads nothing: the deadline ends what would never leave.
#[test]
fn a_deadline_ends_what_does_not_leave() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        ring.receive(&here, Token(1)).unwrap();
        ring.send(&here, Buffer::Owned(vec![0; 64 << 20].into())).unwrap();
        ring.set_deadline(&here, Duration::from_millis(10));
        ring.close(here.into()).unwrap();
        while !ring.is_empty() || ring.operation_count() > 0 {
            assert!(completions(ring, LONG).is_empty());
        }
        there.set_nonblocking(false).unwrap();
        let mut got = Vec::new();
        let _ = there.read_to_end(&mut got);
        assert!(got.len() < 64 << 20);
    });
}

#[test]
fn one_at_rest_costs_no_operation_and_wakes_by_itself() {
    each(rest);
    each(|ring| {
        ring.set_parking(Parking::Set).unwrap();
        rest(ring);
    });
}

fn rest(ring: &mut Ring) {
    let (here, mut there) = tcp_pair();
    ring.receive(&here, Token(1)).unwrap();
    for round in 0..20_u8 {
        ring.park(&here).unwrap();
        if round % 2 == 0 {
            // Until the receive is taken back and the watch stands.
            while ring.operation_count() > 0 {
                assert!(completions(ring, Duration::ZERO).is_empty());
            }
            ring.park(&here).unwrap();
        }
        there.write_all(&[round; 5]).unwrap();
        let mut got = Vec::new();
        while got.len() < 5 {
            got.extend(arrived(ring, 1));
        }
        assert_eq!(got, [round; 5]);
    }
    ring.park(&here).unwrap();
    drop(there);
    assert!(matches!(next(ring), Completion::Ended { token: Token(1) }));
    ring.park(&here).unwrap();
    let (other, mut peer) = tcp_pair();
    ring.receive_parked(&other, Token(2)).unwrap();
    completions(ring, Duration::ZERO);
    assert_eq!(ring.operation_count(), 0);
    peer.write_all(b"x").unwrap();
    assert_eq!(arrived(ring, 2), b"x");
    ring.park(&other).unwrap();
    ring.close(other.into()).unwrap();
    completions(ring, Duration::ZERO);
    peer.set_nonblocking(false).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

/// More than a look into the set takes, all at rest; then all speak, and some are closed meanwhile.
#[test]
fn a_crowd_at_rest_is_heard() {
    let _guard = alone();
    for parking in [Parking::Watch, Parking::Set] {
        each_of(small, |ring| {
            ring.set_parking(parking).unwrap();
            let mut pairs: Vec<_> = (0..700).map(|_| Some(pair())).collect();
            for (index, (here, _)) in pairs.iter().flatten().enumerate() {
                ring.receive_parked(here, Token(index as u32)).unwrap();
            }
            assert!(completions(ring, Duration::ZERO).is_empty() && ring.operation_count() == 0);
            for (_, there) in pairs.iter_mut().flatten() {
                there.write_all(b"x").unwrap();
            }
            for index in (0..700).step_by(7) {
                let (here, _there) = pairs[index].take().unwrap();
                ring.close(here.into()).unwrap();
            }
            let mut seen = vec![0; 700];
            while seen.iter().sum::<u32>() < 600 {
                match next(ring) {
                    Completion::Received { token, buffer } => {
                        seen[token.0 as usize] += 1;
                        ring.recycle(buffer);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(seen.iter().enumerate().all(|(index, count)| *count == u32::from(index % 7 != 0)));
        });
    }
}

#[test]
fn deadlines_come_with_everything_else() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        let (other, _peer) = tcp_pair();
        ring.receive(&here, Token(1)).unwrap();
        ring.receive_parked(&other, Token(2)).unwrap();
        ring.set_deadline(&here, Duration::from_millis(1));
        ring.set_deadline(&other, Duration::from_millis(20));
        let begin = ring.now_ms();
        assert!(matches!(next(ring), Completion::Deadline { token: Token(1) }));
        assert!(matches!(next(ring), Completion::Deadline { token: Token(2) }));
        assert!(ring.now_ms() - begin >= 20);
        ring.set_deadline(&here, Duration::from_millis(1));
        ring.clear_deadline(&here);
        ring.set_deadline(&other, Duration::ZERO);
        there.write_all(b"x").unwrap();
        let mut seen = (false, false);
        while seen != (true, true) {
            match next(ring) {
                Completion::Deadline { token: Token(2) } => seen.0 = true,
                Completion::Received { token: Token(1), buffer } => {
                    seen.1 = true;
                    ring.recycle(buffer);
                }
                other => panic!("{other:?}"),
            }
        }
        ring.set_deadline(&other, Duration::ZERO);
        ring.close(other.into()).unwrap();
        assert!(completions(ring, Duration::from_millis(5)).is_empty());
    });
}

#[test]
fn another_thread_ends_a_wait() {
    each(|ring| {
        let waker = ring.waker().unwrap();
        for _ in 0..50 {
            std::thread::scope(|scope| {
                scope.spawn(|| waker.wake().unwrap());
                ring.wait(None).unwrap();
                assert!(ring.next_completion().unwrap().is_none());
            });
        }
    });
}

/// More completes at once than there is room for.
#[test]
fn a_full_queue_of_completions_loses_nothing() {
    each(|ring| {
        let mut pairs: Vec<_> = (0..150).map(|_| pair()).collect();
        for (index, (here, _)) in pairs.iter().enumerate() {
            ring.receive(here, Token(index as u32)).unwrap();
        }
        completions(ring, Duration::ZERO);
        for round in 0..5_u8 {
            for (_, there) in &mut pairs {
                there.write_all(&[round]).unwrap();
            }
            let mut seen = vec![0; pairs.len()];
            while seen.contains(&0) {
                match next(ring) {
                    Completion::Received { token, buffer } => {
                        assert_eq!(ring.bytes(&buffer), [round]);
                        seen[token.0 as usize] += 1;
                        ring.recycle(buffer);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(seen.iter().all(|count| *count == 1));
        }
    });
}

/// Both ends of the number's life in one batch: nothing of the first is told of the second.
#[test]
fn a_number_s_heir_hears_nothing_of_the_dead() {
    let _guard = alone();
    each_of(small, |ring| {
        for round in 0..30 {
            let (one, mut two) = pair();
            let one = at(930, one);
            ring.receive(&one, Token(1)).unwrap();
            if round % 2 == 0 {
                completions(ring, Duration::ZERO);
            }
            if round % 3 == 0 {
                ring.park(&one).unwrap();
            }
            two.write_all(b"dead").unwrap();
            if round % 5 == 0 {
                ring.wait(Some(Duration::ZERO)).unwrap();
            }
            ring.abort(one).unwrap();
            // The number is free when the ring has closed it.
            while ring.operation_count() > 0 {
                assert!(completions(ring, LONG).is_empty());
            }
            let (heir, mut peer) = pair();
            let heir = at(930, heir);
            ring.receive(&heir, Token(2)).unwrap();
            peer.write_all(b"heir").unwrap();
            assert_eq!(arrived(ring, 2), b"heir");
            ring.close(heir).unwrap();
            while ring.operation_count() > 0 {
                assert!(completions(ring, LONG).is_empty());
            }
        }
    });
}

/// It is held after that, and nothing is under way until it is resumed.
#[test]
fn what_is_received_once_leaves_nothing_under_way() {
    each(|ring| {
        let (here, mut there) = pair();
        ring.receive_once(&here, Token(1)).unwrap();
        there.write_all(b"one").unwrap();
        let mut got = Vec::new();
        assert!(!hear(ring, next, &mut got));
        assert_eq!((&got[..], ring.operation_count()), (&b"one"[..], 0));
        there.write_all(b" two").unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        ring.resume(&here).unwrap();
        while got.len() < 7 {
            assert!(!hear(ring, next, &mut got));
        }
        assert_eq!(got, b"one two");
        ring.close(here.into()).unwrap();
        // What is resumed before anything came goes on after it.
        let (here, mut there) = pair();
        got.clear();
        ring.receive_once(&here, Token(1)).unwrap();
        ring.resume(&here).unwrap();
        for word in [&b"one"[..], b" two"] {
            there.write_all(word).unwrap();
            assert!(!hear(ring, next, &mut got));
        }
        assert_eq!(got, b"one two");
        ring.close(here.into()).unwrap();
        // One that is closed before anything came is gone.
        let (here, mut there) = pair();
        ring.receive_once(&here, Token(1)).unwrap();
        ring.wait(Some(Duration::ZERO)).unwrap();
        ring.close(here.into()).unwrap();
        while ring.operation_count() > 0 {
            assert!(completions(ring, LONG).is_empty());
        }
        there.set_nonblocking(false).unwrap();
        assert_eq!(there.read(&mut [0]).unwrap(), 0);
    });
}

/// A watch for writing says once that there is room, and none is left when the descriptor's number is another's.
#[test]
fn a_full_connection_is_writable_when_its_peer_has_read() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        stream::set_blocking(&here, false).unwrap();
        stream::set_blocking(&there, true).unwrap();
        let here = OwnedFd::from(here);
        ring.receive(&here, Token(7)).unwrap();
        let piece = vec![1; 64 << 10];
        let mut left = 0;
        while let Ok(count) = stream::send(&here, &piece, false) {
            left += count;
        }
        ring.watch_writable(&here).unwrap();
        ring.watch_writable(&here).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        there.read_exact(&mut vec![0; left]).unwrap();
        assert!(matches!(next(ring), Completion::Writable { token: Token(7) }));
        assert!(completions(ring, Duration::ZERO).is_empty(), "once");
        while stream::send(&here, &piece, false).is_ok() {}
        ring.watch_writable(&here).unwrap();
        ring.wait(Some(Duration::ZERO)).unwrap();
        ring.close(here).unwrap();
        for _ in 0..3 {
            assert!(completions(ring, Duration::ZERO).is_empty());
        }
        assert_eq!(ring.operation_count(), 0);
        there.set_read_timeout(Some(LONG)).unwrap();
        while there.read(&mut vec![0; 1 << 20]).unwrap() > 0 {}
    });
}

#[test]
fn a_peer_that_resets_is_told() {
    each(|ring| {
        let (here, there) = tcp_pair();
        ring.receive(&here, Token(1)).unwrap();
        stream::set_reset_on_close(&there).unwrap();
        drop(there);
        match next(ring) {
            Completion::Failed { token: Token(1), error } => assert_eq!(error.call, "recv"),
            other => panic!("{other:?}"),
        }
        ring.send_all(&here, [Buffer::Borrowed(b"a"), Buffer::Borrowed(b"b")]).unwrap();
        match next(ring) {
            Completion::Failed { token: Token(1), error } => assert_eq!(error.call, "send"),
            other => panic!("{other:?}"),
        }
        ring.close(here.into()).unwrap();
        completions(ring, Duration::ZERO);
    });
}

#[test]
fn mistakes_are_errors() {
    each(|ring| {
        let (one, two) = pair();
        ring.receive(&one, Token(1)).unwrap();
        assert!(matches!(ring.receive(&one, Token(2)), Err(Error::Registered(_))));
        assert!(matches!(ring.park(&two), Err(Error::Unregistered(_))));
        assert!(matches!(ring.send(&two, Buffer::Borrowed(b"x")), Err(Error::Unregistered(_))));
        assert!(matches!(ring.close(two.into()), Err(Error::Unregistered(_))));
        assert_eq!(ring.len(), 1);
    });
    let odd = Options { buffer_count: 3, ..Options::default() };
    assert!(Ring::with_options(odd).is_err());
}

/// A piece of another ring is nobody's here.
#[test]
fn buffers_belong_to_their_ring() {
    each(|ring| {
        let mut other = Ring::with_options(small(Level::Best)).unwrap();
        let (here, mut there) = pair();
        ring.receive(&here, Token(1)).unwrap();
        there.write_all(b"x").unwrap();
        let Completion::Received { buffer, .. } = next(ring) else { panic!("something arrived") };
        assert_eq!(ring.bytes(&buffer), b"x");
        if ring.note().contains("and a receive") {
            assert_eq!(other.bytes(&buffer), b"");
        }
        other.recycle(buffer);
    });
}

/// With everything under way at once; what the kernel still uses must live, and what is closed must end.
#[test]
fn a_ring_may_be_dropped_at_any_time() {
    let _guard = among_others();
    for level in LEVELS {
        for rounds in 0..4 {
            let mut ring = Ring::with_options(small(level)).unwrap();
            let (listener, address) = listener();
            ring.listen(&listener, Token(0)).unwrap();
            let _client = TcpStream::connect(address).unwrap();
            let mut pairs: Vec<(UnixStream, UnixStream)> = (0..20).map(|_| pair()).collect();
            for (index, (here, there)) in pairs.iter_mut().enumerate() {
                ring.receive(here, Token(index as u32)).unwrap();
                ring.send(here, Buffer::Owned(vec![7; 1 << 20].into())).unwrap();
                there.write_all(b"hello").unwrap();
            }
            let (last, mut peer): (OwnedFd, _) = pairs.pop().map(|(here, there)| (here.into(), there)).unwrap();
            ring.abort(last).unwrap();
            for _ in 0..rounds {
                ring.wait(Some(Duration::ZERO)).unwrap();
                let _ = ring.next_completion().unwrap();
            }
            let (parked, mut silent) = pair();
            ring.receive_parked(&parked, Token(99)).unwrap();
            ring.wait(Some(Duration::ZERO)).unwrap();
            drop(ring);
            drop((parked, listener));
            assert_eq!(silent.read(&mut [0]).unwrap(), 0);
            TcpListener::bind(address).unwrap();
            peer.set_nonblocking(false).unwrap();
            let mut got = Vec::new();
            let _ = peer.read_to_end(&mut got);
        }
    }
}

/// The table is full: it is told once in a while, nothing spins, and accepting goes on when there is room.
#[test]
fn a_full_table_of_descriptors_is_told_and_gone_when_there_is_room() {
    const NAME: &str = "completions::a_full_table_of_descriptors_is_told_and_gone_when_there_is_room";
    if !child::is("accept") {
        return child::run("ulimit -n 64;", NAME, "accept");
    }
    each_of(small, |ring| {
        let (listener, address) = listener();
        let mut hoard = Vec::new();
        while let Ok(copy) = listener.try_clone() {
            hoard.push(copy);
        }
        hoard.truncate(hoard.len() - 6);
        ring.listen(&listener, Token(1)).unwrap();
        let clients: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut taken = Vec::new();
        loop {
            match next(ring) {
                Completion::Accepted { connection, .. } => taken.push(connection),
                Completion::Failed { token: Token(1), error } => break assert_eq!(error.errno, 24),
                other => panic!("{other:?}"),
            }
        }
        let waits = (0..40).take_while(|_| completions(ring, Duration::from_millis(50)).len() < 3).count();
        assert!(waits >= 2, "it spins: {waits}");
        hoard.clear();
        while taken.len() < 5 {
            if let Completion::Accepted { connection, .. } = next(ring) {
                taken.push(connection);
            }
        }
        drop(clients);
        ring.close(listener.into()).unwrap();
    });
}

/// What accepting fails with need not last: a network that was down, here a socket that does not listen yet.
#[test]
fn a_listener_goes_on_by_itself_whatever_went_wrong() {
    each(|ring| {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = stream::stream(landau_sys::socket::Family::V4).unwrap();
        landau_sys::socket::bind(&socket, &address.into()).unwrap();
        ring.listen(&socket, Token(1)).unwrap();
        assert!(matches!(next(ring), Completion::Failed { token: Token(1), .. }));
        assert!(completions(ring, Duration::ZERO).is_empty(), "it rests before it tries again");
        stream::listen(&socket, 4).unwrap();
        let port = landau_sys::socket::local_port(&socket).unwrap();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let end = std::time::Instant::now() + LONG;
        let is_accepted = |one: Completion| matches!(one, Completion::Accepted { token: Token(1), .. });
        while !completions(ring, Duration::from_millis(100)).into_iter().any(is_accepted) {
            assert!(std::time::Instant::now() < end, "it has died");
        }
        ring.close(socket).unwrap();
    });
}

/// One call hands over, waits and fetches: fewer calls than requests when several connections speak at once.
#[test]
fn few_calls_are_made() {
    const NAME: &str = "completions::few_calls_are_made";
    const ROUNDS: usize = 50;
    const CROWD: usize = 16;
    if child::is("ring") {
        let mut ring = Ring::new().unwrap();
        let mut pairs: Vec<_> = (0..CROWD).map(|_| tcp_pair()).collect();
        for (index, (here, _)) in pairs.iter().enumerate() {
            ring.receive(here, Token(index as u32)).unwrap();
        }
        for _ in 0..ROUNDS {
            for (_, there) in &mut pairs {
                there.write_all(b"question").unwrap();
            }
            let mut sent = 0;
            while sent < CROWD {
                match next(&mut ring) {
                    Completion::Received { token, buffer } => {
                        ring.recycle(buffer);
                        ring.send(&pairs[token.0 as usize].0, Buffer::Borrowed(b"answer")).unwrap();
                    }
                    Completion::Sent { .. } => sent += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        return;
    }
    let Some(trace) = child::calls(NAME, "ring", "io_uring_enter,sendto,recvfrom,poll", &[]) else {
        println!("skipped: strace is not there, or may not trace");
        return;
    };
    let count = trace.lines().filter(|line| line.contains("io_uring_enter(")).count();
    assert!(count < ROUNDS * CROWD, "{count} calls for {} requests and answers", ROUNDS * CROWD);
    assert!(!trace.contains("recvfrom("));
    println!("{count} calls for {} requests", ROUNDS * CROWD);
}
