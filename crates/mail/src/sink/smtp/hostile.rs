//! A client that sends arbitrary bytes to a session of the sink. For fuzz targets and tests.

use super::Smtp;
use crate::sink::counters::{Counted, Reading};
use crate::sink::protocol::{Origin, Protocol, Then};
use landau_wire::smtp::line::LINE_BYTES;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// The profiles of the sink, chosen by the options.
const PROFILES: [&str; 4] = [
    "",
    "[default]\nerrors = 3\njunk = 2\ntarpit = \"5ms\"\n",
    "[default]\nsize_limit = \"100B\"\nmessages = 2\nrecipients = 2\nconnections = 1\n",
    "[default]\nextensions = []\npermanent = 0.3\ntemporary = { share = 0.3, attempts = 1 }\ngreylist = \"1s\"\n",
];

/// The results of a session: its replies, their total delay, the counters, and whether it ended.
type Talk = (Vec<u8>, Duration, Vec<(&'static str, u64)>, bool);

/// Plays the bytes of a client against a sink chosen by `options`: whole, and in pieces of `size` bytes.
///
/// # Panics
///
/// Panics if the sink behaves differently for different sizes, keeps more than a line, continues without consuming
/// bytes, or writes an incomplete line.
pub fn sink(options: u8, bytes: &[u8], size: usize) {
    assert_eq!(play(options, bytes, size), play(options, bytes, bytes.len()));
}

fn play(options: u8, bytes: &[u8], size: usize) -> Talk {
    let profile = PROFILES[usize::from(options) % PROFILES.len()];
    // The profiles are constants.
    let Ok(profiles) = profile.parse() else { panic!("{profile}") };
    let mut smtp = Smtp::new("s.test", profiles, 1);
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut out = Vec::new();
    let mut session = smtp.open(&Origin { number: 0, peer: local, local }, 0, &mut out).session;
    let (mut kept, mut late, mut is_over) = (Vec::new(), Duration::ZERO, false);
    for piece in bytes.chunks(size.max(1)) {
        kept.extend_from_slice(piece);
        while !is_over {
            let before = out.len();
            let step = smtp.step(&mut session, &kept, 0, &mut out);
            kept.drain(..step.consumed);
            late += step.delay;
            is_over = matches!(step.then, Then::Close | Then::HangUp);
            if step.then == Then::Receive {
                break;
            }
            assert!(step.consumed > 0 || out.len() > before || is_over, "the session goes on without end");
        }
        assert!(is_over || kept.len() < LINE_BYTES, "{} bytes are kept", kept.len());
    }
    assert!(out.ends_with(b"\r\n") && !out.windows(2).any(|two| two[1] == b'\n' && two[0] != b'\r'));
    smtp.close(&mut session);
    assert!(smtp.open.is_empty(), "a connection that has ended is counted");
    let counters = smtp.counters.readings().into_iter().map(|Reading { name, value, .. }| (name, value)).collect();
    (out, late, counters, is_over)
}
