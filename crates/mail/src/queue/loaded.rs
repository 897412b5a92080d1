//! A message of the queue while the engine has recipients of it, and between its attempts.

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

/// A recipient that is left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left {
    pub(super) index: u32,
    /// How often it was tried in this run.
    pub(super) attempts: u32,
    /// Whether it was deferred.
    pub(super) is_deferred: bool,
    /// Whether the engine had it before in this run.
    pub(super) was_offered: bool,
    /// The site that had its share of the memory when the recipient was to be tried; otherwise [`NO_SITE`].
    pub(super) crowded_site: u32,
    /// When it is tried. 0 until an attempt has ended.
    pub(super) due_ns: u64,
}

impl Left {
    /// Returns a recipient that was not tried in this run.
    pub(super) fn new(index: u32) -> Self {
        Self { index, attempts: 0, is_deferred: false, was_offered: false, crowded_site: NO_SITE, due_ns: 0 }
    }
}

/// A message that waits.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "any of them can hold beside any other")]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    /// The recipients that are left; all of them, untried, if this is `None`.
    pub(super) recipients: Option<Vec<Left>>,
    /// How often in a row it could not be read.
    pub(super) failed_reads: u32,
    /// How often in a row it was not read because the sites of its recipients had their shares of the memory.
    pub(super) passed_over: u32,
    /// Whether the engine had it before in this run.
    pub(super) is_again: bool,
    /// Whether it waits because a site has its share of the memory.
    pub(super) is_postponed: bool,
    /// Whether it waits until the user releases it.
    pub(super) is_held: bool,
    /// Whether the user has deleted it while the engine had recipients of it.
    pub(super) is_deleted: bool,
    /// Why a recipient was deferred last.
    pub(super) reason: Option<Box<str>>,
    /// When it is given up, as old as the relay lets a message become; later if the user released it shortly before.
    pub(super) expires_ns: u64,
    /// When its recipients are given up that were never tried: later than the others only if it was almost too old when
    /// this run began.
    pub(super) untried_expires_ns: u64,
    /// When it is looked at again, while it is parked.
    pub(super) wake_ns: u64,
}

impl Waiting {
    /// Returns the recipients that are left.
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
    /// How often it was tried in this run, without this attempt.
    pub(super) attempts: u32,
    /// Whether the engine had it before in this run, or has it.
    pub(super) was_offered: bool,
    /// Why this attempt deferred it.
    pub(super) reason: Option<Box<str>>,
    /// Until when its site is not tried, if this attempt found that.
    pub(super) suspended_ns: Option<u64>,
    /// The site at which the engine has it; otherwise [`NO_SITE`].
    pub(super) site: u32,
}

/// A message that was read.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) waiting: Waiting,
    pub(super) letter: Rc<Letter>,
    pub(super) recipients: Vec<Recipient>,
    /// Recipients that the engine has not had in this attempt.
    pub(super) next: VecDeque<u32>,
    /// The number of recipients that the engine has.
    pub(super) out: u32,
    /// The sites that have recipients of it, and how many.
    pub(super) sites: Vec<(u32, u32)>,
    /// Recipients that are left and that the engine does not have: those that came back, and those that are not due.
    pub(super) kept: Vec<Left>,
    /// Whether the relay wrote it, to report failures.
    pub(super) is_report: bool,
}

impl Loaded {
    /// Returns whether the engine has had every recipient and has given each back.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_empty() && self.out == 0
    }

    /// Returns how much memory the content takes.
    pub(super) fn memory(&self) -> u64 {
        // It is encoded for DATA, and perhaps for BDAT.
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

/// Makes a message ready for the engine, which gets the recipients that are due; gives it back if it cannot be sent.
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
    // What the sender asks for comes with the message, and is not what the user of the relay says.
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
