//! A message of the queue while the engine holds its recipients, and between attempts.

use super::record::{self, Meta};
use super::{Entry, Handling, Shared};
use crate::envelope::Envelope;
use crate::input::Letter;
use crate::ledger::State;
use crate::message::Message;
use crate::schedule::NO_SITE;
use landau_wire::smtp::parameter::Ret;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// A remaining recipient.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub(super) index: u32,
    /// The number of attempts in this run.
    pub(super) attempts: u32,
    /// Whether it was deferred.
    pub(super) is_deferred: bool,
    /// Whether the engine had it before in this run.
    pub(super) was_offered: bool,
    /// The site that had used its share of the memory when the recipient was due; otherwise [`NO_SITE`].
    pub(super) crowded_site: u32,
    /// The time of the next attempt; 0 until an attempt has ended.
    pub(super) due_ns: u64,
}

impl Left {
    /// Returns a recipient that was not tried in this run.
    pub(super) fn new(index: u32) -> Self {
        Self { index, attempts: 0, is_deferred: false, was_offered: false, crowded_site: NO_SITE, due_ns: 0 }
    }
}

/// A waiting message.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "any of them can hold beside any other")]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    /// The remaining recipients; `None` if all are left, untried.
    pub(super) recipients: Option<Vec<Left>>,
    /// The number of consecutive failures to read it.
    pub(super) failed_reads: u32,
    /// The number of consecutive times it was not read because the sites of its recipients had used their shares of the
    /// memory.
    pub(super) passed_over: u32,
    /// Whether the engine had it before in this run.
    pub(super) is_again: bool,
    /// Whether it waits because a site has used its share of the memory.
    pub(super) is_postponed: bool,
    /// Whether it waits until the user releases it.
    pub(super) is_held: bool,
    /// Whether the user has deleted it while the engine held its recipients.
    pub(super) is_deleted: bool,
    /// The reason of the last deferral of a recipient.
    pub(super) reason: Option<Box<str>>,
    /// When it is given up: at the maximum age of a message, or later if the user released it shortly before.
    pub(super) expires_ns: u64,
    /// When its untried recipients are given up: later than the others only if it was almost too old when this run
    /// began.
    pub(super) untried_expires_ns: u64,
    /// When a parked message is checked again.
    pub(super) wake_ns: u64,
}

impl Waiting {
    /// Returns the remaining recipients.
    pub(super) fn left(&self) -> Cow<'_, [Left]> {
        match &self.recipients {
            Some(left) => Cow::Borrowed(left),
            None => (0..self.entry.recipients).map(Left::new).collect(),
        }
    }

    /// Returns when the next recipient is due.
    pub(super) fn due_ns(&self) -> u64 {
        self.recipients.as_ref().and_then(|left| left.iter().map(|one| one.due_ns).min()).unwrap_or_default()
    }
}

/// A recipient of a loaded message.
#[derive(Debug)]
pub(super) struct Recipient {
    pub(super) address: Box<str>,
    pub(super) state: Option<State>,
    /// The number of attempts in this run, without this one.
    pub(super) attempts: u32,
    /// Whether the engine held it before in this run, or holds it now.
    pub(super) was_offered: bool,
    /// The reason for its deferral in this attempt.
    pub(super) reason: Option<Box<str>>,
    /// The time until which its site is not tried, if this attempt found the site suspended.
    pub(super) suspended_ns: Option<u64>,
    /// The site at which the engine holds it; otherwise [`NO_SITE`].
    pub(super) site: u32,
}

/// A message that was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) waiting: Waiting,
    pub(super) letter: Rc<Letter>,
    pub(super) recipients: Vec<Recipient>,
    /// Recipients that were not handed to the engine in this attempt.
    pub(super) next: VecDeque<u32>,
    /// The number of recipients that the engine holds.
    pub(super) out: u32,
    /// The sites with recipients of it, and their numbers.
    pub(super) sites: Vec<(u32, u32)>,
    /// Remaining recipients that the engine does not hold: returned ones, and those that are not due.
    pub(super) kept: Vec<Left>,
    /// Whether it is a report of failures written by the relay.
    pub(super) is_report: bool,
}

impl Loaded {
    /// Returns whether the engine has received and returned every recipient.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_empty() && self.out == 0
    }

    /// Returns the memory taken by the content, in bytes.
    pub(super) fn memory(&self) -> u64 {
        // The content is encoded for DATA, and perhaps for BDAT.
        2 * self.waiting.entry.bytes
    }
}

/// Reads the record of a message.
pub(super) fn read(shared: &Shared, entry: &Entry, buffer: &mut Vec<u8>) -> io::Result<()> {
    let file = File::open(shared.mail(entry.segment))?;
    let bytes = usize::try_from(entry.bytes).map_err(|_| io::Error::other("a record beyond the address space"))?;
    buffer.resize(bytes, 0);
    file.read_exact_at(buffer, entry.offset)
}

/// Prepares a message for the engine, with the recipients that are due. Returns it as an error if it cannot be sent.
pub(super) fn load(
    waiting: Waiting,
    record: record::Message<'_>,
    handling: &Handling,
    now_ns: u64,
) -> Result<Loaded, Waiting> {
    let Handling { envelope, signer, .. } = handling;
    let record::Message { meta, content } = record;
    let Ok(message) = Message::received(content, envelope.chunking, signer.as_deref()) else { return Err(waiting) };
    let Meta { from, to, ret, envid, requests, about, .. } = meta;
    let ret = ret.and_then(|ret| Ret::parse(&ret));
    let envid = envid.map(Cow::into_owned);
    // The sender's requests come with the message; those in the settings of the relay do not apply.
    let envelope = Envelope { from: from.into_owned(), notify: None, ret, envid, ..envelope.clone() };
    let recipient = |address: Cow<'_, str>| Recipient {
        address: address.into(),
        state: Some(State::Done),
        attempts: 0,
        was_offered: false,
        reason: None,
        suspended_ns: None,
        site: NO_SITE,
    };
    let mut recipients: Vec<Recipient> = to.into_iter().map(recipient).collect();
    let left = waiting.left().into_owned();
    for one in &left {
        let recipient = &mut recipients[one.index as usize];
        (recipient.state, recipient.attempts) = (one.is_deferred.then_some(State::Deferred), one.attempts);
        recipient.was_offered = one.was_offered;
    }
    let (due, kept): (Vec<Left>, Vec<Left>) = left.iter().partition(|one| one.due_ns <= now_ns);
    Ok(Loaded {
        letter: Rc::new(Letter { envelope, message, requests }),
        recipients,
        next: due.iter().map(|one| one.index).collect(),
        out: 0,
        sites: Vec::new(),
        kept,
        is_report: about.is_some(),
        waiting: Waiting { failed_reads: 0, passed_over: 0, ..waiting },
    })
}
