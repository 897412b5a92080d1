//! A client that sends arbitrary bytes to a session of the relay's receiver. For fuzz targets and tests.

use super::receiver::{Receiver, Reception};
use crate::ledger::Sync;
use crate::message::Message;
use crate::queue::{self, Shared, Writer};
use crate::sink::counters::{Counted, Reading};
use crate::sink::protocol::{Origin, Protocol, Then};
use landau_reactor::Waker;
use landau_wire::smtp::Mailbox;
use landau_wire::smtp::line::LINE_BYTES;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// The number of lines of the `Received:` field, which contains the time.
const TRACE_LINES: usize = 3;

/// The results of a session: its replies, the messages that it accepted, the counters, and whether it ended.
type Talk = (Vec<u8>, Vec<String>, Vec<(&'static str, u64)>, bool);

/// Plays the bytes of a client against a relay chosen by `options`: whole, and in pieces of `size` bytes.
///
/// # Panics
///
/// Panics if the relay behaves differently for different sizes, keeps more than a line, continues without consuming
/// bytes, writes an incomplete line, counts memory that was freed, or accepts a message that it could not deliver.
pub fn relay(options: u8, bytes: &[u8], size: usize) {
    assert_eq!(play(options, bytes, size), play(options, bytes, bytes.len()));
}

/// Returns a receiver whose queue is in memory: nothing is committed.
fn receiver(options: u8) -> Receiver {
    let has = |bit: u8| options >> bit & 1 == 1;
    let limits = Reception {
        name: "r.test".to_owned(),
        size_limit: if has(0) { 100 } else { 1 << 20 },
        recipients: if has(1) { 2 } else { 100 },
        sessions: 1,
        memory: if has(2) { 300 } else { 1 << 22 },
        accept_from: Vec::new(),
        certificate: None,
    };
    let shared = Arc::new(Shared::new(Path::new("unused"), if has(3) { 5_000 } else { 1 << 30 }, 1, 1));
    let writer = Writer::new(Arc::clone(&shared), Sync::Never);
    // Without free descriptors this process could do nothing at all.
    let Ok(waker) = Waker::new() else { panic!("no descriptors") };
    Receiver::new(limits, None, shared, writer, channel().0, waker)
}

fn play(options: u8, bytes: &[u8], size: usize) -> Talk {
    let mut relay = receiver(options);
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut out = Vec::new();
    let mut session = relay.open(&Origin { number: 0, peer: local, local }, 0, &mut out).session;
    let (mut kept, mut accepted, mut is_over) = (Vec::new(), Vec::new(), false);
    for piece in bytes.chunks(size.max(1)) {
        kept.extend_from_slice(piece);
        while !is_over {
            let before = out.len();
            let step = relay.step(&mut session, &kept, 0, &mut out);
            kept.drain(..step.consumed);
            match step.then {
                Then::Receive => break,
                Then::Continue => assert!(step.consumed > 0 || out.len() > before, "the session goes on without end"),
                Then::Commit => accepted.append(&mut take_accepted(&mut relay)),
                Then::Close | Then::HangUp => is_over = true,
                Then::Secure => panic!("STARTTLS is not offered"),
            }
        }
        assert!(is_over || kept.len() < LINE_BYTES, "{} bytes are kept", kept.len());
    }
    assert!(out.ends_with(b"\r\n") && !out.windows(2).any(|two| two[1] == b'\n' && two[0] != b'\r'));
    relay.close(&mut session);
    assert_eq!((relay.held, relay.open), (0, 0), "what a session held is not free again");
    let counters = relay.counters.readings().into_iter().map(|Reading { name, value, .. }| (name, value)).collect();
    (out, accepted, counters, is_over)
}

/// Takes the accepted messages, and asserts that the engine could deliver each.
fn take_accepted(relay: &mut Receiver) -> Vec<String> {
    let (entries, records) = relay.take_batch();
    let describe = |entry: &queue::Entry| {
        let record = records.get(entry.offset as usize..).and_then(|rest| rest.get(..entry.bytes as usize));
        let Some(queue::Message { meta, content }) = record.and_then(queue::parse) else {
            panic!("a record that cannot be read")
        };
        let message = Message::received(content, true, None);
        assert!(message.is_ok(), "{message:?}: {}", content.escape_ascii());
        assert!(!content.windows(2).any(|two| two[1] == b'\n' && two[0] != b'\r'), "{}", content.escape_ascii());
        let all = meta.to.iter().chain((!meta.from.is_empty()).then_some(&meta.from));
        all.for_each(|address| assert!(Mailbox::parse(address.as_bytes()).is_ok(), "{address}"));
        let rest: Vec<u8> =
            content.split_inclusive(|&byte| byte == b'\n').skip(TRACE_LINES).flatten().copied().collect();
        format!("{:?} {}", queue::Meta { at_ms: 0, ..meta }, rest.escape_ascii())
    };
    entries.iter().map(describe).collect()
}

/// Returns the codes of the replies to the bytes of a client, and the counters.
#[cfg(test)]
pub(super) fn talk(options: u8, bytes: &[u8]) -> (Vec<u16>, Vec<(&'static str, u64)>) {
    let (out, _, counters, _) = play(options, bytes, bytes.len());
    let text = String::from_utf8_lossy(&out).into_owned();
    let last = text.lines().filter(|line| line.as_bytes().get(3) == Some(&b' '));
    (last.map(|line| line[..3].parse().unwrap_or_default()).collect(), counters)
}
