//! Random sequences of operations on a few connections of a ring: all data arrives, in order, on both sides.

use crate::common::{LONG, among_others, pair};
use landau_reactor::Token;
use landau_reactor::batch::Buffer;
use landau_reactor::completions::{Completion, Features, Options, ProvidedBuffer, Ring};
use landau_sys::stream;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const CONNECTIONS: usize = 4;

#[derive(Debug, Clone)]
enum Act {
    /// The peer sends the given number of bytes.
    PeerSend(usize, usize),
    /// The peer receives at most the given number of bytes.
    PeerReceive(usize, usize),
    Send(usize, usize),
    Park(usize),
    /// Closes the connection; another one takes its place.
    Close(usize),
    /// Waits, takes at most the first number of completions, and recycles all buffers but the second number.
    Turn(usize, usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let who = 0..CONNECTIONS;
    let count = prop_oneof![1..100_usize, 1..20_000_usize];
    let act = prop_oneof![
        4 => (who.clone(), 1..300_usize).prop_map(|(who, count)| Act::PeerSend(who, count)),
        2 => (who.clone(), count.clone()).prop_map(|(who, count)| Act::PeerReceive(who, count)),
        3 => (who.clone(), count).prop_map(|(who, count)| Act::Send(who, count)),
        3 => who.clone().prop_map(Act::Park),
        1 => who.prop_map(Act::Close),
        6 => (0..12_usize, 0..3_usize).prop_map(|(count, held)| Act::Turn(count, held)),
    ];
    prop::collection::vec(act, 1..60)
}

/// A connection, and the data that was sent and received on both sides.
struct One {
    number: u32,
    here: Option<UnixStream>,
    peer: UnixStream,
    peer_sent: Vec<u8>,
    received: Vec<u8>,
    sent: Vec<u8>,
    peer_received: Vec<u8>,
}

impl One {
    fn new(ring: &mut Ring, number: u32) -> Self {
        let (here, peer) = pair();
        stream::set_send_buffer(&here, 1).unwrap();
        if number.is_multiple_of(2) {
            ring.receive(&here, Token(number)).unwrap();
        } else {
            ring.receive(&here, Token(number)).unwrap();
            ring.park(&here).unwrap();
        }
        let empty = Vec::new;
        Self {
            number,
            here: Some(here),
            peer,
            peer_sent: empty(),
            received: empty(),
            sent: empty(),
            peer_received: empty(),
        }
    }

    fn peer_receive(&mut self, room: usize) -> bool {
        let mut buffer = vec![0; room];
        match self.peer.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => self.peer_received.extend_from_slice(&buffer[..count]),
            Err(_) => {}
        }
        true
    }
}

/// Bytes that identify the connection and the offset.
fn pattern(number: u32, begin: usize, count: usize) -> Vec<u8> {
    (begin..begin + count).map(|at| (at * 31 + at / 251) as u8 ^ number as u8).collect()
}

fn take(ring: &mut Ring, ones: &mut [One], held: &mut Vec<ProvidedBuffer>, most: usize) -> usize {
    for count in 0..most {
        let Some(completion) = ring.next_completion().unwrap() else { return count };
        match completion {
            Completion::Received { token, buffer } => {
                let one = ones.iter_mut().find(|one| one.number == token.0).unwrap();
                assert!(one.here.is_some(), "data of a closed connection");
                one.received.extend_from_slice(ring.bytes(&buffer));
                held.push(buffer);
            }
            Completion::Sent { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    most
}

fn act(ring: &mut Ring, ones: &mut Vec<One>, held: &mut Vec<ProvidedBuffer>, act: &Act) {
    let last = ones.len() - CONNECTIONS;
    match *act {
        Act::PeerSend(who, count) => {
            let one = &mut ones[last + who];
            let bytes = pattern(one.number, one.peer_sent.len(), count);
            if let Ok(count) = one.peer.write(&bytes) {
                one.peer_sent.extend_from_slice(&bytes[..count]);
            }
        }
        Act::PeerReceive(who, room) => {
            ones[last + who].peer_receive(room);
        }
        Act::Send(who, count) => {
            let one = &mut ones[last + who];
            let bytes = pattern(one.number, one.sent.len(), count);
            one.sent.extend_from_slice(&bytes);
            ring.send(one.here.as_ref().unwrap(), Buffer::Owned(bytes.into())).unwrap();
        }
        Act::Park(who) => ring.park(ones[last + who].here.as_ref().unwrap()).unwrap(),
        Act::Close(who) => {
            let here = ones[last + who].here.take().unwrap();
            ring.close(here.into()).unwrap();
            let number = ones.iter().map(|one| one.number).max().unwrap() + 1;
            ones.push(One::new(ring, number));
            // The open connections are the last.
            let closed = ones.remove(last + who);
            ones.insert(0, closed);
        }
        Act::Turn(count, keep) => {
            ring.wait(Some(Duration::ZERO)).unwrap();
            take(ring, ones, held, count);
            for buffer in held.drain(keep.min(held.len())..) {
                ring.recycle(buffer);
            }
        }
    }
}

/// Waits until all data has arrived.
fn finish(ring: &mut Ring, ones: &mut [One], held: &mut Vec<ProvidedBuffer>) {
    for round in 0.. {
        for buffer in held.drain(..) {
            ring.recycle(buffer);
        }
        ring.wait(Some(Duration::from_millis(1))).unwrap();
        while take(ring, ones, held, 5) == 5 {}
        let mut all = true;
        for one in ones.iter_mut() {
            let is_open = one.peer_receive(1 << 16);
            let is_complete = one.peer_received.len() == one.sent.len() && (one.here.is_some() || !is_open);
            all &= is_complete && (one.here.is_none() || one.received.len() == one.peer_sent.len());
        }
        if all {
            return;
        }
        assert!(round < 20 * LONG.as_millis(), "data is missing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn all_data_arrives_in_order(acts in acts()) {
        let _guard = among_others();
        for features in [Features::All, Features::Basic] {
            let options = Options { submissions: 8, completions: 16, buffer_count: 4, buffer_bytes: 64, features };
            // Without rings there is nothing to test.
            let Ok(mut ring) = Ring::with_options(options) else { return Ok(()) };
            let mut ones: Vec<_> = (0..CONNECTIONS as u32).map(|number| One::new(&mut ring, number)).collect();
            let mut held = Vec::new();
            for one in &acts {
                act(&mut ring, &mut ones, &mut held, one);
            }
            finish(&mut ring, &mut ones, &mut held);
            for one in &ones {
                prop_assert!(one.peer_sent.starts_with(&one.received), "{}: received data differs", one.number);
                prop_assert!(one.peer_received == one.sent, "{}: sent data differs", one.number);
            }
            prop_assert_eq!(ring.len(), CONNECTIONS);
        }
    }
}
