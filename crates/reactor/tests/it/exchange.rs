//! Any sequence of operations on a few connections through a ring: what arrives is what was said, on both sides.

use crate::common::{LONG, among_others, pair};
use landau_reactor::Token;
use landau_reactor::batch::Buffer;
use landau_reactor::completions::{Completion, Level, Options, Parking, ProvidedBuffer, Ring};
use landau_sys::stream;
use proptest::prelude::*;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const CROWD: usize = 4;

#[derive(Debug, Clone)]
enum Act {
    /// The peer says so many bytes.
    Say(usize, usize),
    /// The peer listens, as far as there is room for so many bytes.
    Hear(usize, usize),
    Send(usize, usize),
    Park(usize),
    /// Closed here; another connection takes its place.
    Close(usize),
    /// Waits, takes this many completions, and keeps this many pieces back.
    Turn(usize, usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let who = 0..CROWD;
    let count = prop_oneof![1..100_usize, 1..20_000_usize];
    let act = prop_oneof![
        4 => (who.clone(), 1..300_usize).prop_map(|(who, count)| Act::Say(who, count)),
        2 => (who.clone(), count.clone()).prop_map(|(who, count)| Act::Hear(who, count)),
        3 => (who.clone(), count).prop_map(|(who, count)| Act::Send(who, count)),
        3 => who.clone().prop_map(Act::Park),
        1 => who.prop_map(Act::Close),
        6 => (0..12_usize, 0..3_usize).prop_map(|(count, held)| Act::Turn(count, held)),
    ];
    prop::collection::vec(act, 1..60)
}

/// A connection, what its peer said and what has arrived of it here, what was sent here and has arrived there.
struct One {
    number: u32,
    here: Option<UnixStream>,
    peer: UnixStream,
    said: Vec<u8>,
    arrived: Vec<u8>,
    sent: Vec<u8>,
    heard: Vec<u8>,
}

impl One {
    fn new(ring: &mut Ring, number: u32) -> Self {
        let (here, peer) = pair();
        stream::set_send_buffer(&here, 1).unwrap();
        if number.is_multiple_of(2) {
            ring.receive(&here, Token(number)).unwrap();
        } else {
            ring.receive_parked(&here, Token(number)).unwrap();
        }
        let empty = Vec::new;
        Self { number, here: Some(here), peer, said: empty(), arrived: empty(), sent: empty(), heard: empty() }
    }

    fn hear(&mut self, room: usize) -> bool {
        let mut buffer = vec![0; room];
        match self.peer.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => self.heard.extend_from_slice(&buffer[..count]),
            Err(_) => {}
        }
        true
    }
}

/// Bytes that tell which connection and which place they are of.
fn pattern(number: u32, begin: usize, count: usize) -> Vec<u8> {
    (begin..begin + count).map(|at| (at * 31 + at / 251) as u8 ^ number as u8).collect()
}

fn take(ring: &mut Ring, ones: &mut [One], held: &mut Vec<ProvidedBuffer>, most: usize) -> usize {
    for count in 0..most {
        let Some(completion) = ring.next_completion().unwrap() else { return count };
        match completion {
            Completion::Received { token, buffer } => {
                let one = ones.iter_mut().find(|one| one.number == token.0).unwrap();
                assert!(one.here.is_some(), "something of what is closed");
                one.arrived.extend_from_slice(ring.bytes(&buffer));
                held.push(buffer);
            }
            Completion::Sent { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    most
}

fn act(ring: &mut Ring, ones: &mut Vec<One>, held: &mut Vec<ProvidedBuffer>, act: &Act) {
    let last = ones.len() - CROWD;
    match *act {
        Act::Say(who, count) => {
            let one = &mut ones[last + who];
            let bytes = pattern(one.number, one.said.len(), count);
            if let Ok(count) = one.peer.write(&bytes) {
                one.said.extend_from_slice(&bytes[..count]);
            }
        }
        Act::Hear(who, room) => {
            ones[last + who].hear(room);
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
            // The last of them are the living.
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

/// Everybody hears everything, in the end.
fn finish(ring: &mut Ring, ones: &mut [One], held: &mut Vec<ProvidedBuffer>) {
    for round in 0.. {
        for buffer in held.drain(..) {
            ring.recycle(buffer);
        }
        ring.wait(Some(Duration::from_millis(1))).unwrap();
        while take(ring, ones, held, 5) == 5 {}
        let mut all = true;
        for one in ones.iter_mut() {
            let goes_on = one.hear(1 << 16);
            let is_heard = one.heard.len() == one.sent.len() && (one.here.is_some() || !goes_on);
            all &= is_heard && (one.here.is_none() || one.arrived.len() == one.said.len());
        }
        if all {
            return;
        }
        assert!(round < 20 * LONG.as_millis(), "somebody hears nothing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_arrives_is_what_was_said(acts in acts()) {
        let _guard = among_others();
        for (level, parking) in [
            (Level::Best, Parking::Watch), (Level::Best, Parking::Set), (Level::Plain, Parking::Watch),
        ] {
            let options = Options { wishes: 8, completions: 16, buffer_count: 4, buffer_bytes: 64, level };
            // Where there is no ring, there is nothing to test.
            let Ok(mut ring) = Ring::with_options(options) else { return Ok(()) };
            ring.set_parking(parking).unwrap();
            let mut ones: Vec<_> = (0..CROWD as u32).map(|number| One::new(&mut ring, number)).collect();
            let mut held = Vec::new();
            for one in &acts {
                act(&mut ring, &mut ones, &mut held, one);
            }
            finish(&mut ring, &mut ones, &mut held);
            for one in &ones {
                prop_assert!(one.said.starts_with(&one.arrived), "{}: what was said has changed", one.number);
                prop_assert!(one.heard == one.sent, "{}: what was sent has changed", one.number);
            }
            prop_assert_eq!(ring.len(), CROWD);
        }
    }
}
