//! A message of the queue while the engine has recipients of it.

use super::record::{self, Meta};
use super::{Entry, Handling, Shared};
use crate::envelope::Envelope;
use crate::input::Letter;
use crate::ledger::State;
use crate::message::Message;
use landau_wire::smtp::parameter::Ret;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

/// A message that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    /// The recipients that are left, and whether each was deferred; all of them, untried, if this is `None`.
    pub(super) recipients: Option<Vec<(u32, bool)>>,
    /// How often it was tried in this run.
    pub(super) attempts: u32,
    /// How often it could not be read.
    pub(super) failed_reads: u32,
    /// Whether the engine had it before in this run.
    pub(super) is_again: bool,
    /// Whether it waits because its site has too many recipients in memory.
    pub(super) is_postponed: bool,
    /// When it is given up.
    pub(super) expires_ns: u64,
}

impl Waiting {
    /// Returns the recipients that are left, and whether each was deferred.
    pub(super) fn left(&self) -> Vec<(u32, bool)> {
        self.recipients.clone().unwrap_or_else(|| (0..self.entry.recipients).map(|index| (index, false)).collect())
    }
}

/// A recipient of a loaded message.
#[derive(Debug)]
pub(super) struct Recipient {
    pub(super) address: Box<str>,
    pub(super) state: Option<State>,
    /// Why this attempt deferred it.
    pub(super) reason: Option<Box<str>>,
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
    /// Whether the engine gave a recipient back because its site has too many.
    pub(super) is_postponed: bool,
    /// Recipients that came back and are left.
    pub(super) kept: Vec<(u32, bool)>,
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

/// Makes a message ready for the engine from its record; gives it back if the record is damaged.
pub(super) fn load(waiting: Waiting, bytes: &[u8], handling: &Handling) -> Result<Loaded, Waiting> {
    let Handling { envelope, signer, .. } = handling;
    let Some(record::Message { meta, content }) = record::parse(bytes) else { return Err(waiting) };
    let Ok(message) = Message::received(content, envelope.chunking, signer.as_deref()) else { return Err(waiting) };
    let Meta { from, to, ret, envid, requests, .. } = meta;
    let ret = ret.and_then(|ret| Ret::parse(&ret));
    let envid = envid.map(Cow::into_owned);
    // What the sender asks for comes with the message, and is not what the user of the relay says.
    let envelope = Envelope { from: from.into_owned(), notify: None, ret, envid, ..envelope.clone() };
    let mut recipients: Vec<Recipient> = to
        .into_iter()
        .map(|address| Recipient { address: address.into(), state: Some(State::Done), reason: None })
        .collect();
    let left = waiting.left();
    for &(index, is_deferred) in &left {
        recipients[index as usize].state = is_deferred.then_some(State::Deferred);
    }
    Ok(Loaded {
        letter: Rc::new(Letter { envelope, message, requests }),
        recipients,
        next: left.iter().map(|(index, _)| *index).collect(),
        out: 0,
        is_postponed: false,
        kept: Vec::new(),
        waiting,
    })
}
