//! Operations through a ring, with all features of the kernel and with the basic ones.

use crate::child;
use crate::common::{LONG, alone, among_others, at, own_address, pair, tcp_pair};
use landau_reactor::batch::Buffer;
use landau_reactor::completions::{Completion, Features, Options, ProvidedBuffer, Ring};
use landau_reactor::{Backend, Error, ManualClock, Reactor, Token};
use landau_sys::stream;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const FEATURES: [Features; 2] = [Features::All, Features::Basic];

/// A ring with small queues and few small buffers, so that all of them run short.
fn small(features: Features) -> Options {
    Options { submissions: 16, completions: 32, buffer_count: 4, buffer_bytes: 64, features }
}

fn each_of(options: impl Fn(Features) -> Options, test: impl Fn(&mut Ring)) {
    for features in FEATURES {
        match Ring::with_options(options(features)) {
            Ok(mut ring) => {
                println!("with {}", ring.note());
                test(&mut ring);
            }
            // Without rings there is no such backend either.
            Err(error) => {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                assert!(Reactor::new(Backend::IoUring).is_err());
            }
        }
    }
}

/// Runs a test with each set of features, with large and with small queues.
fn each(test: impl Fn(&mut Ring)) {
    let _guard = among_others();
    each_of(|features| Options { features, ..Options::default() }, &test);
    each_of(small, &test);
}

/// Waits once and returns all completions.
fn completions(ring: &mut Ring, timeout: Duration) -> Vec<Completion> {
    ring.wait(Some(timeout)).unwrap();
    std::iter::from_fn(|| ring.next_completion().unwrap()).collect()
}

/// Waits for the next completion. A test that misses one ends instead of waiting for ever.
fn next(ring: &mut Ring) -> Completion {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < 2 * LONG, "no completion");
        if let Some(completion) = ring.next_completion().unwrap() {
            return completion;
        }
        ring.wait(Some(LONG)).unwrap();
    }
}

/// Returns the data of the next completion, which must be `Received`.
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

/// Receives from a connection that is parked from the start.
fn receive_parked(ring: &mut Ring, connection: &impl std::os::fd::AsFd, token: Token) {
    ring.receive(connection, token).unwrap();
    ring.park(connection).unwrap();
}

/// Waits until no operation is in flight, and asserts that there is no completion.
fn settle(ring: &mut Ring) {
    while ring.operation_count() > 0 {
        assert!(completions(ring, LONG).is_empty());
    }
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 31 + index / 251) as u8).collect()
}

fn listener() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind(own_address()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn connections_are_accepted_as_they_arrive() {
    each(|ring| {
        let _closes = child::none_starts();
        let (listener, address) = listener();
        ring.accept(&listener, Token(9)).unwrap();
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
        settle(ring);
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

/// A connection that the kernel accepted before the stop took effect is returned; the others stay in the accept queue.
#[test]
fn stopping_loses_no_connection() {
    each(|ring| {
        let (listener, address) = listener();
        ring.accept(&listener, Token(0)).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        let before: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        ring.stop_accepting(&listener).unwrap();
        let mut found = Vec::new();
        for _ in 0..3 {
            found.extend(completions(ring, Duration::ZERO));
        }
        let _after = TcpStream::connect(address).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        listener.set_nonblocking(true).unwrap();
        let left = std::iter::from_fn(|| listener.accept().ok()).count();
        assert!(found.iter().all(|one| matches!(one, Completion::Accepted { token: Token(0), .. })), "{found:?}");
        assert_eq!(found.len() + left, before.len() + 1, "{found:?}");
        ring.close(listener.into()).unwrap();
    });
}

#[test]
fn received_data_can_be_answered() {
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

/// Data in the completion queue is no longer in the socket, so a caller that checks only the socket misses it.
#[test]
fn what_has_arrived_is_seen_before_it_is_taken() {
    each(|ring| {
        let (here, mut peer) = UnixStream::pair().unwrap();
        ring.receive(&here, Token(1)).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        assert!(!ring.has_arrived(&here));
        peer.write_all(b"stray").unwrap();
        while !ring.has_arrived(&here) {
            ring.wait(Some(Duration::from_millis(10))).unwrap();
        }
        assert!(stream::is_silent(&here), "the kernel has moved it");
        assert_eq!(arrived(ring, 1), b"stray");
        assert!(!ring.has_arrived(&here));
        drop(peer);
        while !ring.has_arrived(&here) {
            ring.wait(Some(Duration::from_millis(10))).unwrap();
        }
        while !matches!(next(ring), Completion::Ended { .. }) {}
        assert!(ring.has_arrived(&here), "the stream has ended");
    });
}

/// Three fast senders, and buffers that are recycled late: a starved connection continues. With the small options there
/// are four buffers of 64 bytes.
#[test]
fn starved_connections_lose_no_data() {
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
                // Recycled only when there are no more completions.
                for buffer in held.drain(..) {
                    ring.recycle(buffer);
                }
                ring.wait(Some(LONG)).unwrap();
            }
        });
        assert!(got.len() == 3 && got.values().all(|bytes| *bytes == given));
    });
}

/// Returns a ring that has provided buffers, four of 64 bytes; `None` if the system has none.
fn ring_with_four_buffers() -> Option<Ring> {
    let ring = Ring::with_options(small(Features::All)).ok()?;
    ring.note().contains("multishot receive").then_some(ring)
}

/// Takes the next four completions, which must be data for a token, and no more.
fn four_buffers(ring: &mut Ring, from: u32) -> Vec<ProvidedBuffer> {
    let buffer = |completion| match completion {
        Completion::Received { token, buffer } if token == Token(from) => buffer,
        other => panic!("{other:?}"),
    };
    (0..4).map(|_| buffer(next(ring))).collect()
}

/// Receives from a connection on which bytes were sent. Returns both ends.
fn receive_sent(ring: &mut Ring, given: &[u8]) -> (UnixStream, UnixStream) {
    let (here, mut there) = pair();
    ring.receive(&here, Token(1)).unwrap();
    there.write_all(given).unwrap();
    (here, there)
}

/// Receives the rest of the given bytes.
fn receive_rest(ring: &mut Ring, mut got: Vec<u8>, given: &[u8]) {
    while got.len() < given.len() {
        got.extend(arrived(ring, 1));
    }
    assert!(got == given);
}

/// While there is no buffer, a receive fails at once and would end each wait.
#[test]
fn nothing_is_received_while_the_caller_holds_all_buffers() {
    let _guard = among_others();
    let Some(mut ring) = ring_with_four_buffers() else { return };
    let given = pattern(1000);
    let _streams = receive_sent(&mut ring, &given);
    let mut got = Vec::new();
    for _ in 0..3 {
        let mut held = four_buffers(&mut ring, 1);
        // Until the receive has failed.
        settle(&mut ring);
        for _ in 0..3 {
            ring.wait(Some(Duration::ZERO)).unwrap();
            assert_eq!(ring.operation_count(), 0, "it would fail again");
        }
        for buffer in held.drain(..) {
            got.extend_from_slice(ring.bytes(&buffer));
            ring.recycle(buffer);
        }
    }
    receive_rest(&mut ring, got, &given);
}

/// The caller takes the failure of a receive only after buffers were recycled.
#[test]
fn buffers_that_came_back_before_a_receive_failed_count() {
    let _guard = among_others();
    let Some(mut ring) = ring_with_four_buffers() else { return };
    let given = pattern(1000);
    let _streams = receive_sent(&mut ring, &given);
    let mut got = Vec::new();
    for buffer in four_buffers(&mut ring, 1) {
        got.extend_from_slice(ring.bytes(&buffer));
        ring.recycle(buffer);
    }
    ring.wait(Some(Duration::ZERO)).unwrap();
    receive_rest(&mut ring, got, &given);
}

/// Data after the first receive stays in the socket, even if there was no buffer at first.
#[test]
fn a_starved_receive_once_receives_once() {
    let _guard = among_others();
    let Some(mut ring) = ring_with_four_buffers() else { return };
    for is_resumed in [false, true] {
        let (other, mut peer) = pair();
        ring.receive(&other, Token(2)).unwrap();
        peer.write_all(&[2; 256]).unwrap();
        let held = four_buffers(&mut ring, 2);
        let (here, mut there) = pair();
        ring.receive_once(&here, Token(1)).unwrap();
        there.write_all(b"one").unwrap();
        ring.wait(Some(LONG)).unwrap();
        ring.pause(&other).unwrap();
        settle(&mut ring);
        if is_resumed {
            ring.resume(&here).unwrap();
        }
        for buffer in held {
            ring.recycle(buffer);
        }
        assert_eq!(arrived(&mut ring, 1), b"one");
        assert_eq!(ring.operation_count(), usize::from(is_resumed));
        there.write_all(b"two").unwrap();
        if !is_resumed {
            for _ in 0..3 {
                assert!(completions(&mut ring, Duration::ZERO).is_empty(), "it is paused");
            }
            ring.resume(&here).unwrap();
        }
        assert_eq!(arrived(&mut ring, 1), b"two");
        ring.close(here.into()).unwrap();
        ring.close(other.into()).unwrap();
        settle(&mut ring);
    }
}

/// It loses neither the data that arrived before the pause took effect, nor the data that the kernel buffered
/// meanwhile.
#[test]
fn a_paused_connection_loses_no_data() {
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
                has_ended = receive_into(ring, next, &mut got);
                round += 1;
                ring.pause(&here).unwrap();
                if round % 7 == 0 {
                    ring.park(&here).unwrap();
                    // Until the pause has taken effect; data that was received before still completes.
                    while ring.operation_count() > 0 {
                        for late in completions(ring, Duration::ZERO) {
                            has_ended |= receive_into(ring, |_| late, &mut got);
                        }
                    }
                    assert!(completions(ring, Duration::from_millis(1)).is_empty(), "it is paused");
                }
                ring.resume(&here).unwrap();
            }
        });
        assert!(got == given, "{} of {} bytes", got.len(), given.len());
        ring.pause(&here).unwrap();
        ring.close(here.into()).unwrap();
        settle(ring);
    });
}

/// Takes received data and returns whether the stream has ended.
fn receive_into(ring: &mut Ring, from: impl FnOnce(&mut Ring) -> Completion, got: &mut Vec<u8>) -> bool {
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
fn unsent_counts_what_is_queued() {
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
fn buffers_are_sent_in_order_and_whole() {
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

/// Reads a stream to its end and returns whether it equals the given bytes.
fn is_given(mut stream: impl Read, given: &[u8]) -> bool {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    got == given
}

/// A chain of linked operations does not extend beyond one submission.
#[test]
fn a_chain_is_no_longer_than_the_submission_queue() {
    let _guard = among_others();
    let given = pattern(1_000_000);
    each_of(
        |features| Options { submissions: 4, ..small(features) },
        |ring| {
            let (here, there) = tcp_pair();
            stream::set_send_buffer(&here, 1).unwrap();
            there.set_nonblocking(false).unwrap();
            ring.receive(&here, Token(1)).unwrap();
            ring.send_all(&here, given.chunks(25_000).map(|bytes| Buffer::Owned(bytes.into()))).unwrap();
            ring.close(here.into()).unwrap();
            let given = &given[..];
            std::thread::scope(|scope| {
                let reader = scope.spawn(move || is_given(there, given));
                while !ring.is_empty() {
                    assert!(completions(ring, LONG).is_empty());
                }
                settle(ring);
                assert!(reader.join().unwrap(), "out of order");
            });
        },
    );
}

/// One operation sends a part of the buffer, and the buffers behind it wait for the rest.
#[test]
fn a_buffer_of_more_than_one_operation_is_sent_whole_before_the_next() {
    const LARGE: usize = (1 << 30) + 1_000_000;
    let _guard = among_others();
    let Ok(mut ring) = Ring::new() else { return };
    if Vec::<u8>::new().try_reserve_exact(LARGE).is_err() {
        return eprintln!("skipped: 1 GiB cannot be reserved");
    }
    let (here, mut there) = UnixStream::pair().unwrap();
    ring.receive(&here, Token(1)).unwrap();
    // Zeroed pages that are never written need no memory.
    ring.send_all(&here, [Buffer::Owned(vec![0; LARGE].into()), Buffer::Borrowed(b"end")]).unwrap();
    let reader = std::thread::spawn(move || {
        let mut bytes = vec![1; 1 << 20];
        let mut left = LARGE;
        while left > 0 {
            let room = left.min(bytes.len());
            let count = there.read(&mut bytes[..room]).unwrap();
            if count == 0 || bytes[..count].iter().fold(0, |all, byte| all | byte) != 0 {
                return Vec::new();
            }
            left -= count;
        }
        let mut end = vec![0; 3];
        there.read_exact(&mut end).unwrap();
        end
    });
    match next(&mut ring) {
        Completion::Sent { token: Token(1), byte_count } => assert_eq!(byte_count, LARGE as u64 + 3),
        other => panic!("{other:?}"),
    }
    assert_eq!(reader.join().unwrap(), b"end");
}

#[test]
fn a_chain_of_buffers_completes_once() {
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
fn close_sends_what_is_queued() {
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

/// The peer reads nothing, so the queued data would never be sent.
#[test]
fn a_deadline_ends_a_pending_close() {
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
fn a_parked_connection_has_no_operation_and_receives_by_itself() {
    each(park_and_receive);
}

fn park_and_receive(ring: &mut Ring) {
    let (here, mut there) = tcp_pair();
    ring.receive(&here, Token(1)).unwrap();
    for round in 0..20_u8 {
        ring.park(&here).unwrap();
        if round % 2 == 0 {
            // Until the receive is cancelled and the poll has taken its place.
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
    receive_parked(ring, &other, Token(2));
    settle(ring);
    peer.write_all(b"x").unwrap();
    assert_eq!(arrived(ring, 2), b"x");
    ring.park(&other).unwrap();
    ring.close(other.into()).unwrap();
    completions(ring, Duration::ZERO);
    peer.set_nonblocking(false).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

/// All become ready at once, and some are closed meanwhile.
#[test]
fn many_parked_connections_receive() {
    let _guard = alone();
    each_of(small, |ring| {
        let mut pairs: Vec<_> = (0..700).map(|_| Some(pair())).collect();
        for (index, (here, _)) in pairs.iter().flatten().enumerate() {
            receive_parked(ring, here, Token(index as u32));
        }
        settle(ring);
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

#[test]
fn deadlines_complete_once() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        let (other, _peer) = tcp_pair();
        ring.receive(&here, Token(1)).unwrap();
        receive_parked(ring, &other, Token(2));
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

/// Takes the available completions, which must be deadlines, and returns their tokens.
fn deadlines(ring: &mut Ring) -> Vec<u32> {
    let token = |completion| match completion {
        Completion::Deadline { token } => token.0,
        other => panic!("{other:?}"),
    };
    std::iter::from_fn(|| ring.next_completion().unwrap()).map(token).collect()
}

/// A server that handles one completion of a wait sets deadlines of other connections. Before the fix, the old
/// deadlines completed as well.
#[test]
fn a_found_deadline_that_is_set_again_does_not_complete() {
    each(|ring| {
        let clock = ManualClock::default();
        ring.set_clock(&clock);
        let pairs: Vec<_> = (0..3).map(|_| tcp_pair()).collect();
        for (number, (here, _)) in (0..).zip(&pairs) {
            ring.receive(here, Token(number)).unwrap();
            ring.set_deadline(here, Duration::from_millis(1));
        }
        clock.advance(Duration::from_millis(2));
        ring.wait(Some(LONG)).unwrap();
        ring.set_deadline(&pairs[0].0, Duration::from_millis(50));
        ring.clear_deadline(&pairs[1].0);
        assert_eq!(deadlines(ring), [2]);
        clock.advance(Duration::from_millis(50));
        ring.wait(Some(LONG)).unwrap();
        // The deadline was found twice by then, and set once.
        ring.set_deadline(&pairs[0].0, Duration::ZERO);
        clock.advance(Duration::from_millis(1));
        ring.wait(Some(LONG)).unwrap();
        assert_eq!(deadlines(ring), [0]);
    });
}

#[test]
fn a_waker_ends_a_wait() {
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

/// More operations complete at once than the completion queue has room for.
#[test]
fn a_full_completion_queue_loses_nothing() {
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

/// Completions of a closed descriptor are not returned for the next owner of its number.
#[test]
fn completions_of_an_earlier_owner_are_dropped() {
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
            two.write_all(b"old").unwrap();
            if round % 5 == 0 {
                ring.wait(Some(Duration::ZERO)).unwrap();
            }
            ring.abort(one).unwrap();
            // The number is free after the ring has closed it.
            settle(ring);
            let (next_owner, mut peer) = pair();
            let next_owner = at(930, next_owner);
            ring.receive(&next_owner, Token(2)).unwrap();
            peer.write_all(b"new").unwrap();
            assert_eq!(arrived(ring, 2), b"new");
            ring.close(next_owner).unwrap();
            settle(ring);
        }
    });
}

/// The connection is paused after that, without an operation until it is resumed.
#[test]
fn receiving_once_leaves_no_operation_in_flight() {
    each(|ring| {
        let (here, mut there) = pair();
        ring.receive_once(&here, Token(1)).unwrap();
        there.write_all(b"one").unwrap();
        let mut got = Vec::new();
        assert!(!receive_into(ring, next, &mut got));
        assert_eq!((&got[..], ring.operation_count()), (&b"one"[..], 0));
        there.write_all(b" two").unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        ring.resume(&here).unwrap();
        while got.len() < 7 {
            assert!(!receive_into(ring, next, &mut got));
        }
        assert_eq!(got, b"one two");
        ring.close(here.into()).unwrap();
        // If it is resumed before data has arrived, it continues after that.
        let (here, mut there) = pair();
        got.clear();
        ring.receive_once(&here, Token(1)).unwrap();
        ring.resume(&here).unwrap();
        for word in [&b"one"[..], b" two"] {
            there.write_all(word).unwrap();
            assert!(!receive_into(ring, next, &mut got));
        }
        assert_eq!(got, b"one two");
        ring.close(here.into()).unwrap();
        // If it is closed before data has arrived, it ends at once.
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

/// The poll completes once, and none remains when the descriptor's number has another owner.
#[test]
fn a_full_connection_is_writable_after_its_peer_has_read() {
    each(|ring| {
        let (here, mut there) = tcp_pair();
        stream::set_blocking(&here, false).unwrap();
        stream::set_blocking(&there, true).unwrap();
        let here = OwnedFd::from(here);
        ring.receive(&here, Token(7)).unwrap();
        let bytes = vec![1; 64 << 10];
        let mut left = 0;
        while let Ok(count) = stream::send(&here, &bytes, false) {
            left += count;
        }
        ring.watch_writable(&here).unwrap();
        ring.watch_writable(&here).unwrap();
        assert!(completions(ring, Duration::ZERO).is_empty());
        there.read_exact(&mut vec![0; left]).unwrap();
        assert!(matches!(next(ring), Completion::Writable { token: Token(7) }));
        assert!(completions(ring, Duration::ZERO).is_empty(), "once");
        while stream::send(&here, &bytes, false).is_ok() {}
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
fn a_reset_is_an_error() {
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
fn misuse_is_an_error() {
    each(|ring| {
        let (one, two) = pair();
        ring.receive(&one, Token(1)).unwrap();
        assert!(matches!(ring.receive(&one, Token(2)), Err(Error::Registered(_))));
        assert!(matches!(ring.park(&two), Err(Error::Unregistered(_))));
        assert!(matches!(ring.send(&two, Buffer::Borrowed(b"x")), Err(Error::Unregistered(_))));
        assert!(matches!(ring.close(two.into()), Err(Error::Unregistered(_))));
        assert_eq!(ring.len(), 1);
    });
    let not_a_power_of_two = Options { buffer_count: 3, ..Options::default() };
    assert!(Ring::with_options(not_a_power_of_two).is_err());
}

/// A buffer of another ring has no bytes here, and recycling it changes nothing.
#[test]
fn buffers_belong_to_their_ring() {
    each(|ring| {
        let mut other = Ring::with_options(small(Features::All)).unwrap();
        let (here, mut there) = pair();
        ring.receive(&here, Token(1)).unwrap();
        there.write_all(b"x").unwrap();
        let Completion::Received { buffer, .. } = next(ring) else { panic!("data has arrived") };
        assert_eq!(ring.bytes(&buffer), b"x");
        if ring.note().contains("multishot receive") {
            assert_eq!(other.bytes(&buffer), b"");
        }
        other.recycle(buffer);
    });
}

/// A receive that was queued and never submitted once read the data of the next owner of its number: dropping the ring
/// submitted it. Descriptors that are to be closed are closed.
#[test]
fn a_ring_that_is_dropped_submits_only_closing() {
    let _guard = alone();
    for features in FEATURES {
        let Ok(mut ring) = Ring::with_options(small(features)) else { return };
        let (one, _two) = pair();
        let one = at(930, one);
        ring.receive(&one, Token(1)).unwrap();
        let (closing, mut closed) = pair();
        ring.receive(&closing, Token(2)).unwrap();
        ring.close(closing.into()).unwrap();
        drop(one);
        let (next, mut peer) = pair();
        let mut next = UnixStream::from(at(930, next));
        peer.write_all(b"hello").unwrap();
        drop(ring);
        let mut bytes = [0; 5];
        next.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, *b"hello");
        closed.set_nonblocking(false).unwrap();
        assert_eq!(closed.read(&mut bytes).unwrap(), 0);
    }
}

/// With operations of all kinds in flight: memory that the kernel uses must stay valid, and closed connections must
/// end.
#[test]
fn a_ring_may_be_dropped_at_any_time() {
    let _guard = among_others();
    for features in FEATURES {
        for rounds in 0..4 {
            let _closes = child::none_starts();
            let mut ring = Ring::with_options(small(features)).unwrap();
            let (listener, address) = listener();
            ring.accept(&listener, Token(0)).unwrap();
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
            receive_parked(&mut ring, &parked, Token(99));
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

/// The error is returned every 100 ms and not in a busy loop, and accepting continues when a descriptor is free.
#[test]
fn a_full_descriptor_table_pauses_accepting() {
    const NAME: &str = "completions::a_full_descriptor_table_pauses_accepting";
    if !child::is("accept") {
        return child::run("ulimit -n 64;", NAME, "accept");
    }
    each_of(small, |ring| {
        let (listener, address) = listener();
        let mut filler = Vec::new();
        while let Ok(copy) = listener.try_clone() {
            filler.push(copy);
        }
        filler.truncate(filler.len() - 6);
        ring.accept(&listener, Token(1)).unwrap();
        let clients: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut taken = Vec::new();
        loop {
            match next(ring) {
                Completion::Accepted { connection, .. } => taken.push(connection),
                Completion::Failed { token: Token(1), error } => break assert!(error.is_out_of_descriptors()),
                other => panic!("{other:?}"),
            }
        }
        let begin = std::time::Instant::now();
        let failed: u128 = (0..10).map(|_| completions(ring, Duration::from_millis(50)).len() as u128).sum();
        assert!(failed <= begin.elapsed().as_millis() / 100 + 1, "{failed} attempts in {:?}", begin.elapsed());
        filler.clear();
        while taken.len() < 5 {
            if let Completion::Accepted { connection, .. } = next(ring) {
                taken.push(connection);
            }
        }
        drop(clients);
        ring.close(listener.into()).unwrap();
    });
}

/// Errors of accept may be temporary: a network that was down or, as here, a socket that does not listen yet.
#[test]
fn a_listener_continues_after_an_error() {
    each(|ring| {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = stream::stream(landau_sys::socket::Family::V4).unwrap();
        landau_sys::socket::bind(&socket, &address.into()).unwrap();
        ring.accept(&socket, Token(1)).unwrap();
        assert!(matches!(next(ring), Completion::Failed { token: Token(1), .. }));
        stream::listen(&socket, 4).unwrap();
        let port = landau_sys::socket::local_port(&socket).unwrap();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let is_accepted = |one: Completion| matches!(one, Completion::Accepted { token: Token(1), .. });
        while !completions(ring, Duration::from_millis(100)).into_iter().any(is_accepted) {}
        ring.close(socket).unwrap();
    });
}

/// One call submits, waits and completes: with several active connections there are fewer calls than requests.
#[test]
fn there_are_fewer_calls_than_requests() {
    const NAME: &str = "completions::there_are_fewer_calls_than_requests";
    const ROUNDS: usize = 50;
    const CONNECTIONS: usize = 16;
    if child::is("ring") {
        let mut ring = Ring::new().unwrap();
        let mut pairs: Vec<_> = (0..CONNECTIONS).map(|_| tcp_pair()).collect();
        for (index, (here, _)) in pairs.iter().enumerate() {
            ring.receive(here, Token(index as u32)).unwrap();
        }
        for _ in 0..ROUNDS {
            for (_, there) in &mut pairs {
                there.write_all(b"question").unwrap();
            }
            let mut sent = 0;
            while sent < CONNECTIONS {
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
        println!("skipped: strace is missing or may not trace");
        return;
    };
    let count = trace.lines().filter(|line| line.contains("io_uring_enter(")).count();
    assert!(count < ROUNDS * CONNECTIONS, "{count} calls for {} requests and answers", ROUNDS * CONNECTIONS);
    assert!(!trace.contains("recvfrom("));
    println!("{count} calls for {} requests", ROUNDS * CONNECTIONS);
}

/// After many buffers in a row, Linux 6.18 stops looking for the end of a Unix socket.
#[test]
fn the_end_of_a_unix_socket_behind_much_data_is_reported() {
    each(|ring| {
        for size in [4, 5000, 20_000, 65_536, 100_000, 150_000, 180_000] {
            let (here, mut there) = UnixStream::pair().unwrap();
            ring.receive(&here, Token(1)).unwrap();
            there.set_nonblocking(true).unwrap();
            let mut given = 0;
            while given < size
                && let Ok(count) = there.write(&vec![b'x'; size - given])
            {
                given += count;
            }
            drop(there);
            let mut got = Vec::new();
            while !receive_into(ring, next, &mut got) {}
            assert_eq!(got.len(), given);
            ring.close(here.into()).unwrap();
            settle(ring);
        }
    });
}
