//! Where the engine's recipients come from, and where it is recorded what became of each: a list with its ledger, or a
//! queue that receives more while the engine runs.

use crate::envelope::{Envelope, Request};
use crate::error::{Error, Result};
use crate::ledger::{History, Ledger, Report, State, Storage};
use crate::list::{List, Record};
use crate::message::Message;
use crate::schedule::SiteCounts;
use landau_wire::smtp::{Mailbox, Rcpt, Recipient};
use std::rc::Rc;

/// What is sent to some recipients: a message, and what is said about it. The recipients in memory share one.
#[derive(Debug)]
pub(crate) struct Letter {
    /// The sender and the parameters of MAIL and RCPT; how connections are used is said by the engine's plan.
    pub(crate) envelope: Envelope,
    pub(crate) message: Message,
    /// What the sender asks for about each recipient, by the low half of its number; if it is empty, the same for all.
    pub(crate) requests: Vec<Request>,
}

impl Letter {
    /// Returns a letter to recipients for whom the envelope says what the sender asks for.
    pub(crate) fn new(envelope: Envelope, message: Message) -> Self {
        let requests = Vec::new();
        Self { envelope, message, requests }
    }

    /// Returns the command for the recipient of a number.
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
    /// The number by which the input knows the recipient.
    pub(crate) number: u64,
    pub(crate) letter: Rc<Letter>,
    /// What is recorded about it.
    pub(crate) state: Option<State>,
    /// Whether the engine had it before, and released it.
    pub(crate) is_again: bool,
}

/// What an input has.
#[derive(Debug)]
pub(crate) enum Next {
    /// A recipient.
    Recipient(Offer),
    /// Nothing before this time, unless more comes.
    Later(u64),
    /// Nothing any more.
    End,
}

/// Returns whether a site has its share of the recipients in memory.
pub(crate) type IsCrowded<'a> = &'a dyn Fn(u32) -> bool;

/// An input of the engine.
pub(crate) trait Input {
    /// Whether recipients that are released come back in this run.
    const RETRIES: bool;

    /// Hands out the next recipient, whose address and fields are written to `record`.
    /// `is_crowded` says which sites have their share of the recipients in memory.
    fn next(&mut self, record: &mut Record, now_ns: u64, is_crowded: IsCrowded<'_>) -> Result<Next>;

    /// Records what became of a recipient. `now_ms` returns the milliseconds since 1970.
    fn record(&mut self, report: &Report<'_>, now_ms: impl FnOnce() -> u64);

    /// Takes a recipient back that the engine no longer has. If its last state is not final, another run or a later
    /// call of `next` may hand it out again.
    fn release(&mut self, number: u64, now_ns: u64);

    /// Notes that a recipient is at a site. Returns false if it cannot be, because the site has its share of the memory
    /// for messages.
    fn admit(&mut self, _number: u64, _site: u32) -> bool {
        true
    }

    /// Takes a recipient back that was not tried because its site has its share of the memory.
    fn postpone(&mut self, number: u64, _site: u32, now_ns: u64) {
        self.release(number, now_ns);
    }

    /// Notes that a recipient is not tried before a time, because its site is not. No server has looked at it.
    fn suspend(&mut self, _number: u64, _until_ns: u64) {}

    /// Notes what is counted about sites that did not answer.
    fn note_sites(&mut self, _counts: SiteCounts) {}

    /// Returns whether the user wants sites to be tried now, once.
    fn take_flush(&mut self) -> bool {
        false
    }

    /// Writes what was recorded. Called once for each batch of events.
    fn commit(&mut self, now_ns: u64) -> Result<()>;

    /// Writes everything at the end of a run.
    fn finish(&mut self, now_ns: u64) -> Result<()>;
}

/// A list whose recipients get one message, and its ledger.
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
