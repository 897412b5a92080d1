//! Sessions against hostile bytes: the seeds of the fuzz targets, the table of smuggling attempts, and random lines of
//! the protocol, in pieces of several sizes.

use crate::smuggling::{self, PROLOGUE};
use landau_mail::hostile::{client, relay, sink};
use proptest::prelude::*;

/// Sizes of pieces.
const SIZES: [usize; 4] = [1, 2, 7, 64];

/// Returns the seeds of a fuzz target, whose first two bytes are the options and the size.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let all: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(!all.is_empty());
    all
}

/// Plays bytes with the options below `options`, in pieces of every size.
fn play(session: fn(u8, &[u8], usize), options: u8, bytes: &[u8]) {
    for option in 0..options {
        for size in SIZES {
            session(option, bytes, size);
        }
    }
}

#[test]
fn a_client_session_survives_any_server() {
    for seed in seeds("mail_client") {
        play(client, 128, &seed[2..]);
    }
}

#[test]
fn a_sink_session_survives_any_client() {
    for seed in seeds("mail_sink") {
        play(sink, 4, &seed[2..]);
    }
    for attempt in smuggling::attempts() {
        play(sink, 4, &[PROLOGUE, &attempt.bytes].concat());
    }
}

#[test]
fn a_relay_session_survives_any_client() {
    for seed in seeds("mail_relay") {
        play(relay, 16, &seed[2..]);
    }
    for attempt in smuggling::attempts() {
        play(relay, 2, &[PROLOGUE, &attempt.bytes].concat());
    }
}

/// A strategy for replies or commands in any order.
fn lines(words: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(words), 0..40).prop_map(|all| all.concat().into_bytes())
}

const REPLIES: &[&str] = &[
    "220 a\r\n",
    "250 a\r\n",
    "250-a\r\n250-PIPELINING\r\n250-SIZE 99\r\n250-SMTPUTF8\r\n250 CHUNKING\r\n",
    "250-a\r\n250-PIPELINING\r\n250 STARTTLS\r\n",
    "354 go\r\n",
    "421 no\r\n",
    "451 4.1.1 no\r\n",
    "452",
    "550-no\r\n550 no\r\n",
    "250-",
    "\r\n",
    "2",
];

const COMMANDS: &[&str] = &[
    "EHLO c\r\n",
    "HELO c\r\n",
    "MAIL FROM:<a@b>\r\n",
    "MAIL FROM:<a@b> SIZE=9 SMTPUTF8\r\n",
    "RCPT TO:<c@d>\r\n",
    "RCPT TO:<Postmaster>\r\n",
    "RCPT TO:<\u{e9}@d> NOTIFY=DELAY ORCPT=utf-8;\u{e9}@d\r\n",
    "DATA\r\n",
    "x\r\n.\r\n",
    "..\r\n",
    ".\r\n",
    "BDAT 3\r\nabc",
    "BDAT 0 LAST\r\n",
    "BDAT 4 LAST\r\nabcd",
    "RSET\r\n",
    "NOOP\r\n",
    "\n",
    "\r",
    "QUIT\r\n",
];

proptest! {
    #[test]
    fn replies_in_any_order_are_survived(bytes in lines(REPLIES), options: u8, size in 1usize..40) {
        client(options, &[b"220 a\r\n250-a\r\n250-PIPELINING\r\n250 CHUNKING\r\n", &bytes[..]].concat(), size);
        client(options, &bytes, size);
    }

    #[test]
    fn commands_in_any_order_are_survived(bytes in lines(COMMANDS), options: u8, size in 1usize..40) {
        sink(options, &bytes, size);
        relay(options, &bytes, size);
    }
}
