//! A server that sends arbitrary bytes to a client session. For fuzz targets and tests.

use super::{Broken, Content, Event, Needs, Security, Session, Verdict};
use crate::envelope::{Envelope, Mode};
use crate::stats::Phases;
use landau_wire::smtp::data::Transfer;
use landau_wire::smtp::{Mailbox, Rcpt, Recipient};
use std::collections::BTreeSet;

/// The content of each message.
const CONTENT: &[u8] = b"Subject: x\r\n\r\ny\r\n";

/// Maximum number of transactions in a session.
const MOST_TRANSACTIONS: u32 = 40;

/// When the output of the session is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// After each event: the session then behaves the same however the bytes are split.
    AtOnce,
    /// After each piece, as in the engine.
    Late,
}

/// The events of a session and the bytes it sent.
#[derive(Debug, Default, PartialEq, Eq)]
struct Talk {
    events: Vec<String>,
    sent: Vec<u8>,
}

/// A client in a session.
struct Client {
    session: Session,
    envelope: Envelope,
    batch: u32,
    begun: u32,
    next_recipient: u32,
    resolved: BTreeSet<u32>,
    sending: Sending,
    talk: Talk,
}

/// Plays the bytes of a server against sessions chosen by `options`: whole, and in pieces of `size` bytes.
///
/// # Panics
///
/// Panics if the session behaves differently for different sizes, resolves a recipient twice, loses one, or sends
/// anything other than complete command lines and contents.
pub fn client(options: u8, bytes: &[u8], size: usize) {
    let whole = play(options, bytes, bytes.len(), Sending::AtOnce);
    assert_eq!(play(options, bytes, size, Sending::AtOnce), whole);
    play(options, bytes, size, Sending::Late);
    play(options, bytes, bytes.len(), Sending::Late);
}

fn play(options: u8, bytes: &[u8], size: usize, sending: Sending) -> Talk {
    let has = |bit: u8| options >> bit & 1 == 1;
    let mode = if has(0) { Mode::Rset } else { Mode::Data };
    let from = if has(1) { "s@b\u{fc}cher.test" } else { "" };
    let security = match options >> 4 & 3 {
        0 => Security::Required,
        1 => Security::Opportunistic,
        _ => Security::Plain,
    };
    let mut client = Client {
        session: Session::new(mode, security, 0),
        envelope: Envelope { pipelining: !has(2), chunking: has(3), ..Envelope::new(from, mode) },
        batch: if has(6) { 3 } else { 1 },
        begun: 0,
        next_recipient: 0,
        resolved: BTreeSet::new(),
        sending,
        talk: Talk::default(),
    };
    let _ = bytes.chunks(size.max(1)).all(|piece| client.hear(piece));
    client.end()
}

impl Client {
    /// Receives bytes. Returns whether the session goes on.
    fn hear(&mut self, piece: &[u8]) -> bool {
        let (mut input, mut phases) = (piece, Phases::default());
        loop {
            let goes_on = match self.session.next(&mut input, &self.envelope, 7, &mut phases) {
                Ok(None) => {
                    self.send(true);
                    return true;
                }
                Ok(Some(event)) => self.act(event),
                // Whether the client sees the bytes after the answer to STARTTLS depends on when they arrive.
                Err(Broken::Injected) => self.note(&Event::Secure),
                Err(broken) => self.note(&broken),
            };
            if self.sending == Sending::AtOnce {
                self.send(goes_on);
            }
            if !goes_on {
                return false;
            }
        }
    }

    /// Records an event or error. Returns false: the session does not go on.
    fn note(&mut self, what: &dyn std::fmt::Debug) -> bool {
        self.talk.events.push(format!("{what:?}"));
        false
    }

    /// Acts on an event. Returns whether the session goes on.
    fn act(&mut self, event: Event) -> bool {
        self.note(&event);
        match event {
            Event::Greeted | Event::Ready => self.next_transaction(),
            Event::ContentWanted => return self.send_content(),
            Event::Resolved(recipient, verdict) => {
                assert!(recipient < self.next_recipient, "a recipient that nobody has: {recipient} {verdict:?}");
                assert!(self.resolved.insert(recipient), "{recipient} is resolved twice");
                assert!(verdict == Verdict::Success || self.session.code().is_some());
            }
            Event::Secure | Event::Refused | Event::Closing | Event::Done => return false,
        }
        true
    }

    fn next_transaction(&mut self) {
        if !self.session.accepts_transaction() || self.session.stage() == Some(super::Stage::Quit) {
            return;
        }
        if self.begun == MOST_TRANSACTIONS {
            return self.session.quit(8);
        }
        self.begun += 1;
        let first = self.next_recipient;
        self.next_recipient += self.batch;
        let chunk = (Content::Shared(Transfer::Bdat), CONTENT.len());
        let needs = Needs { size: Some(CONTENT.len() as u64), is_8bit: false, is_utf8: false, chunk };
        let rcpt = |id: u32| Some((id, Rcpt::new(Recipient::Mailbox(Mailbox::parse(b"u@d1.test").ok()?))));
        let all = (first..self.next_recipient).filter_map(rcpt);
        self.session.begin(&self.envelope, needs, all, 8);
    }

    fn send_content(&mut self) -> bool {
        if self.session.outgoing.content().is_some() {
            return self.note(&"content is wanted before the last one was sent");
        }
        assert!(self.session.recipient().is_some(), "a content is wanted for nobody");
        self.session.send_content(Content::Shared(Transfer::Data), CONTENT.len(), 8);
        if self.session.is_pipelined() {
            self.next_transaction();
        }
        true
    }

    /// Sends everything. If the session goes on, begins a transaction that had to wait for that.
    fn send(&mut self, goes_on: bool) {
        while !self.session.outgoing.is_empty() {
            let content = if self.session.outgoing.content().is_some() { CONTENT } else { &[] };
            let bytes: Vec<u8> =
                self.session.outgoing.slices(content).iter().flat_map(|slice| slice.iter().copied()).collect();
            assert!(bytes.ends_with(b"\r\n"), "half a line: {}", bytes.escape_ascii());
            let is_bare = |line: &[u8]| !line.ends_with(b"\r\n") || line[..line.len() - 2].contains(&b'\r');
            assert!(!bytes.split_inclusive(|&byte| byte == b'\n').any(is_bare), "{}", bytes.escape_ascii());
            self.session.outgoing.advance(bytes.len());
            self.talk.sent.extend_from_slice(&bytes);
            let is_idle = goes_on && self.session.stage().is_none() && self.begun > 0;
            if is_idle {
                self.next_transaction();
            }
        }
    }

    /// Ends the session, and asserts that every recipient is either resolved or open.
    fn end(mut self) -> Talk {
        let open: Vec<u32> = self.session.unresolved().map(|(id, _)| id).collect();
        let both = open.iter().find(|id| self.resolved.contains(id));
        assert!(both.is_none(), "{both:?} is resolved and open");
        assert_eq!(open.len() + self.resolved.len(), self.next_recipient as usize, "a recipient is lost");
        self.talk.events.push(format!("{open:?}"));
        self.talk
    }
}
