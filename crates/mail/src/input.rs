//! The source of the engine's recipients and the record of their outcomes: a list with its ledger, or a queue that
//! receives more while the engine runs.

use crate::envelope::{Envelope, Request};
use crate::error::{Error, Result};
use crate::ledger::{History, Ledger, Report, State, Storage};
use crate::list::{List, Record};
use crate::message::Message;
use crate::schedule::SiteCounts;
use landau_wire::smtp::{Mailbox, Rcpt, Recipient};
use std::rc::Rc;

/// A message and its envelope. The recipients of a message in memory share one letter.
#[derive(Debug)]
pub(crate) struct Letter {
    /// The sender and the parameters of MAIL and RCPT; the settings for connections are in the engine's plan.
    pub(crate) envelope: Envelope,
    pub(crate) message: Message,
    /// The requests of the sender for each recipient, by the low half of its number. If it is empty, the envelope
    /// applies to all.
    pub(crate) requests: Vec<Request>,
}

impl Letter {
    /// Returns a letter without separate requests: the envelope applies to all recipients.
    pub(crate) fn new(envelope: Envelope, message: Message) -> Self {
        let requests = Vec::new();
        Self { envelope, message, requests }
    }

    /// Returns the RCPT command for recipient `number`.
    pub(crate) fn rcpt<'a>(&'a self, number: u64, mailbox: Mailbox<'a>) -> Rcpt<'a> {
        if let Some(request) = self.requests.get(number as u32 as usize) {
            return request.rcpt(mailbox);
        }
        let mut rcpt = Rcpt::new(Recipient::Mailbox(mailbox));
        rcpt.notify = self.envelope.notify;
        rcpt
    }
}

/// A recipient that is handed to the engine; its address is in the record.
#[derive(Debug)]
pub(crate) struct Offer {
    /// The number of the recipient in the input.
    pub(crate) number: u64,
    pub(crate) letter: Rc<Letter>,
    /// The recorded state.
    pub(crate) state: Option<State>,
    /// Whether the engine had it before, and released it.
    pub(crate) is_again: bool,
}

/// The answer of an input to a request for a recipient.
#[derive(Debug)]
pub(crate) enum Next {
    /// A recipient.
    Recipient(Offer),
    /// No recipient before this time, unless more arrive.
    Later(u64),
    /// No more recipients.
    End,
}

/// Returns whether a site has used its share of the recipients in memory.
pub(crate) type IsCrowded<'a> = &'a dyn Fn(u32) -> bool;

/// An input of the engine.
pub(crate) trait Input {
    /// Whether recipients that are released come back in this run.
    const RETRIES: bool;

    /// Hands out the next recipient, whose address and fields are written to `record`. `is_crowded` returns whether a
    /// site has used its share of the recipients in memory.
    fn next(&mut self, record: &mut Record, now_ns: u64, is_crowded: IsCrowded<'_>) -> Result<Next>;

    /// Records the outcome of a recipient. `now_ms` returns the milliseconds since 1970.
    fn record(&mut self, report: &Report<'_>, now_ms: impl FnOnce() -> u64);

    /// Takes back a recipient that the engine no longer holds. If its last state is not final, another run or a later
    /// call of `next` may hand it out again.
    fn release(&mut self, number: u64, now_ns: u64);

    /// Assigns a recipient to a site. Returns false if that is not possible because the site has used its share of the
    /// memory for messages.
    fn admit(&mut self, _number: u64, _site: u32) -> bool {
        true
    }

    /// Takes back a recipient that was not tried because its site has used its share of the memory.
    fn postpone(&mut self, number: u64, _site: u32, now_ns: u64) {
        self.release(number, now_ns);
    }

    /// Records that a recipient is not tried before a time, because its site is not. No server has seen it.
    fn suspend(&mut self, _number: u64, _until_ns: u64) {}

    /// Records the counts of sites that did not answer.
    fn note_sites(&mut self, _counts: SiteCounts) {}

    /// Returns whether the user has requested a flush, and clears the request.
    fn take_flush(&mut self) -> bool {
        false
    }

    /// Writes the recorded outcomes. Called once for each batch of events.
    fn commit(&mut self, now_ns: u64) -> Result<()>;

    /// Writes everything at the end of a run.
    fn finish(&mut self, now_ns: u64) -> Result<()>;
}

/// A list whose recipients get the same message, and its ledger.
#[derive(Debug)]
pub(crate) struct Listed<S> {
    list: List,
    letter: Rc<Letter>,
    ledger: Ledger<S>,
    history: History,
    next_number: u64,
}

impl<S: Storage> Listed<S> {
    pub(crate) fn new(list: List, letter: Letter, (ledger, history): (Ledger<S>, History)) -> Self {
        Self { list, letter: Rc::new(letter), ledger, history, next_number: 0 }
    }

    /// Returns the list.
    pub(crate) fn list_mut(&mut self) -> &mut List {
        &mut self.list
    }
}

impl<S: Storage> Input for Listed<S> {
    const RETRIES: bool = false;

    #[inline]
    fn next(&mut self, record: &mut Record, _now_ns: u64, _: IsCrowded<'_>) -> Result<Next> {
        if !self.list.next(record)? {
            return Ok(Next::End);
        }
        let number = self.next_number;
        self.next_number += 1;
        let state = self.history.state(number, record.address()).map_err(Error::Spec)?;
        Ok(Next::Recipient(Offer { number, letter: Rc::clone(&self.letter), state, is_again: false }))
    }

    #[inline]
    fn record(&mut self, report: &Report<'_>, now_ms: impl FnOnce() -> u64) {
        self.ledger.add(report, now_ms);
    }

    #[inline]
    fn release(&mut self, _number: u64, _now_ns: u64) {}

    fn commit(&mut self, now_ns: u64) -> Result<()> {
        self.ledger.commit(now_ns)
    }

    fn finish(&mut self, now_ns: u64) -> Result<()> {
        self.ledger.finish(now_ns)
    }
}
