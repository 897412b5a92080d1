//! Reports to senders about recipients that failed: messages of the queue that the relay itself writes.
//!
//! A report enters the queue before the failures are recorded, and its record lists the failures that it reports. After
//! a crash between the two, the next start takes the failures from the report, so the report is neither lost nor
//! written again. Each attempt to deliver a message has one report of its failures, at its end. If a server that sends
//! no reports has taken a message, that is reported at once: a recipient that has the message must not get it again
//! after a crash.
//!
//! A report that is too large for the sender's server is replaced by one with only the header of the message, and one
//! that needs 8BITMIME by an encoded one. If the queue is full, a report contains no part of the message.
//!
//! If a report or other mail from the null sender fails, the postmaster gets a report, if the user has named one.
//! Otherwise the failure is only counted.

use super::Entry;
use super::disk::unix_ms;
use super::feed::Feed;
use super::loaded::Loaded;
use super::record::{About, Meta};
use super::writer::Commit;
use crate::bounce::{self, Action, Failure, REPLY_BYTES, Returned, Subject};
use crate::envelope::Envelope;
use crate::input::Letter;
use crate::ledger::{Report, State};
use landau_wire::smtp::code::Enhanced;
use landau_wire::smtp::parameter::Ret;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::io;
use std::rc::Rc;

/// Maximum size of a message that a report returns in full, in bytes. Postfix returns 50,000 bytes
/// (`bounce_size_limit`).
const RETURNED_BYTES: usize = 1 << 20;

/// Maximum length of a reply in a report while the queue is full, in bytes.
const SHORT_REPLY_BYTES: usize = 100;

/// The size of a report's record in addition to its text: numbers and an address, and the index of each recipient.
const RECORD_BYTES: u64 = 512;
const INDEX_BYTES: u64 = 11;

/// The size of a batch of reports that is written together, in bytes.
const BATCH_BYTES: usize = 8 << 20;

/// An outcome of a recipient that is to be reported.
#[derive(Debug)]
struct Pending {
    index: u32,
    address: Box<str>,
    action: Action,
    host: Option<Box<str>>,
    code: Option<u16>,
    text: Box<[u8]>,
    /// The line of the ledger.
    line: Option<Vec<u8>>,
}

/// The failures of a message that are not reported yet, and therefore not recorded.
#[derive(Debug)]
pub(super) struct Unreported {
    entry: Entry,
    letter: Rc<Letter>,
    pending: Vec<Pending>,
    /// The sender, or the recipient of the report if there is no sender.
    to: Box<str>,
    /// The report that replaces the message, if the message is itself a report that its server did not accept.
    replacement: Option<Vec<u8>>,
    /// Whether the attempt with these failures is over.
    pub(super) is_ended: bool,
    /// Whether the message is finished after they are recorded.
    pub(super) is_over: bool,
}

/// Returns the action to report to the sender about a recipient.
fn action(letter: &Letter, report: &Report<'_>) -> Option<Action> {
    let notify = letter.requests.get(report.number as u32 as usize).and_then(|request| request.notify);
    let has_dsn = report.host.is_some_and(|host| host.has_dsn);
    match report.state {
        // Without NOTIFY, failures are reported (RFC 3461 section 4.1).
        State::Failed => notify.is_none_or(|notify| notify.failure).then_some(Action::Failed),
        // The next server sends the report, if it can (RFC 3461 section 5.2.2).
        State::Done => (notify.is_some_and(|notify| notify.success) && !has_dsn).then_some(Action::Relayed),
        State::Deferred => None,
    }
}

/// Returns the replacement for a report that failed because it is too large for the server or not in ASCII.
fn replacement(letter: &Letter, report: &Report<'_>) -> Option<Vec<u8>> {
    let status = Enhanced::parse(report.text).map(|(code, _)| code.parts());
    match (report.state, report.code, status) {
        (State::Failed, _, Some((5, 6, 3))) => bounce::in_seven_bits(&letter.message.content()),
        (State::Failed, Some(552), _) | (State::Failed, _, Some((5, 3, 4))) => {
            bounce::shortened(&letter.message.content(), Returned::Header)
        }
        _ => None,
    }
}

/// Returns the name of a report about a message, which becomes its boundary. It cannot be guessed, so no message can
/// contain the boundary.
fn report_name(id: u64, content: &[u8]) -> String {
    let digest = Sha256::digest(content).iter().take(8).fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte));
    format!("{id:X}.{digest:016X}")
}

impl Unreported {
    /// Returns the outcomes to report now.
    fn ready(&self, is_end: bool) -> impl Iterator<Item = &Pending> {
        let is_ended = is_end || self.is_ended;
        self.pending.iter().filter(move |one| is_ended || one.action == Action::Relayed)
    }

    /// Returns a report that contains at most `returned` of the message.
    fn text(&self, id: u64, is_end: bool, returned: Returned) -> Cow<'_, [u8]> {
        if let Some(text) = &self.replacement {
            return bounce::shortened(text, returned).map_or(Cow::Borrowed(text), Cow::Owned);
        }
        let reply_bytes = if returned == Returned::Nothing { SHORT_REPLY_BYTES } else { REPLY_BYTES };
        let Letter { envelope, message, requests } = &*self.letter;
        let instead = envelope.from.is_empty();
        let instead = instead.then(|| Envelope { from: self.to.to_string(), ret: Some(Ret::Full), ..envelope.clone() });
        let envelope = instead.as_ref().unwrap_or(envelope);
        let content = message.content();
        let name = report_name(id, &content);
        let failures: Vec<Failure<'_>> = self
            .ready(is_end)
            .map(|one| Failure {
                address: &one.address,
                orcpt: requests.get(one.index as usize).and_then(|request| request.orcpt.as_deref()),
                action: one.action,
                host: one.host.as_deref(),
                code: one.code,
                text: &one.text[..one.text.len().min(reply_bytes)],
            })
            .collect();
        let subject = Subject { envelope, content: &content, name: &name, at_ms: unix_ms(), returned };
        Cow::Owned(bounce::report(&subject, &failures))
    }
}

impl Feed {
    /// Queues the report about a recipient, if one is due, and returns whether it is. The recipient's state and its
    /// line of the ledger, which is taken, are then recorded with the report.
    pub(super) fn note_report(&mut self, loaded: &Loaded, report: &Report<'_>, line: &mut Option<Vec<u8>>) -> bool {
        let Some((action, to, replacement)) = self.told(loaded, report) else { return false };
        let unreported = self.unreported.entry(loaded.waiting.entry.id).or_insert_with(|| Unreported {
            entry: loaded.waiting.entry.clone(),
            letter: Rc::clone(&loaded.letter),
            pending: Vec::new(),
            to,
            replacement,
            is_ended: false,
            is_over: false,
        });
        unreported.pending.push(Pending {
            index: report.number as u32,
            address: report.address.into(),
            action,
            host: report.host.map(|host| host.name.into()),
            code: report.code,
            text: report.text[..report.text.len().min(REPLY_BYTES)].into(),
            line: line.take(),
        });
        true
    }

    /// Returns the action to report about a recipient and the address to report to, with the text if it replaces a
    /// report. Counts a failure that cannot be reported to anybody.
    fn told(&mut self, loaded: &Loaded, report: &Report<'_>) -> Option<(Action, Box<str>, Option<Vec<u8>>)> {
        let letter = &loaded.letter;
        let action = action(letter, report)?;
        if !letter.envelope.from.is_empty() {
            return Some((action, letter.envelope.from.as_str().into(), None));
        }
        if action != Action::Failed {
            return None;
        }
        if loaded.is_report
            && let Some(text) = replacement(letter, report)
        {
            return Some((Action::Failed, report.address.into(), Some(text)));
        }
        let postmaster = self.handling.postmaster.clone().filter(|to| !to.eq_ignore_ascii_case(report.address));
        self.double_bounces += u64::from(postmaster.is_none());
        postmaster.map(|to| (Action::Failed, to, None))
    }

    /// Records the failures of a message that the user has deleted without a report.
    pub(super) fn drop_report(&mut self, id: u64) {
        let Some(one) = self.unreported.remove(&id) else { return };
        one.pending.iter().for_each(|pending| self.settle_reported(&one.entry, pending));
    }

    fn settle_reported(&mut self, entry: &Entry, pending: &Pending) {
        self.segments.settle(entry, pending.index);
        self.note_line(pending.line.as_deref());
    }

    /// Returns whether a report is due.
    pub(super) fn has_reports(&self) -> bool {
        self.unreported.values().any(|one| one.ready(false).next().is_some())
    }

    /// Adds the due reports to the queue, and the states of their recipients to the next write. At the end of the run
    /// all reports are due.
    pub(super) fn write_reports(&mut self, now_ns: u64, is_end: bool) -> io::Result<()> {
        let due = |one: &Unreported| one.ready(is_end).next().is_some();
        let mut ids: Vec<u64> = self.unreported.iter().filter(|(_, one)| due(one)).map(|(&id, _)| id).collect();
        while !ids.is_empty() {
            let (mut bytes, mut count) = (0, 0);
            while bytes < BATCH_BYTES && count < ids.len() {
                bytes += self.add_report(ids[count], is_end)?;
                count += 1;
            }
            let batch: Vec<u64> = ids.drain(..count).collect();
            self.commit_reports(&batch, now_ns, is_end)?;
        }
        Ok(())
    }

    /// Adds the report about a message to the batch. Returns the length of the report.
    fn add_report(&mut self, about: u64, is_end: bool) -> io::Result<usize> {
        let Some(one) = self.unreported.get(&about) else { return Ok(0) };
        let id = self.shared.next_id();
        let recipients: Vec<u32> = one.ready(is_end).map(|one| one.index).collect();
        // The smallest report is written even if the queue is full, because the relay can then finish its message.
        let mut text = Cow::default();
        for returned in [Returned::Whole(RETURNED_BYTES), Returned::Header, Returned::Nothing] {
            text = one.text(id, is_end, returned);
            let bytes = RECORD_BYTES + INDEX_BYTES * recipients.len() as u64 + text.len() as u64;
            if self.shared.is_within_limit(bytes) {
                break;
            }
        }
        let meta = Meta {
            about: Some(About { id: one.entry.id, recipients }),
            ..Meta::new(id, unix_ms(), "", vec![Cow::Borrowed(&*one.to)])
        };
        self.writer.add(&meta, &[&text])?;
        Ok(text.len())
    }

    /// Writes the batch of the reports about some messages.
    fn commit_reports(&mut self, about: &[u64], now_ns: u64, is_end: bool) -> io::Result<()> {
        let committed = self.writer.commit(now_ns);
        for closed in self.writer.take_closed() {
            self.segments.close(closed);
        }
        let Commit { entries, closed } = committed?;
        for entry in entries {
            self.segments.add(&entry, true);
            self.tally.left += u64::from(entry.recipients);
            self.reports += 1;
            let waiting = self.waiting(entry, None, now_ns);
            self.fresh.push_back(waiting);
        }
        for id in about {
            let Some(mut one) = self.unreported.remove(id) else { continue };
            one.ready(is_end).for_each(|pending| self.settle_reported(&one.entry, pending));
            if one.is_over {
                self.segments.remove(&one.entry);
            } else if !(is_end || one.is_ended) {
                one.pending.retain(|pending| pending.action != Action::Relayed);
                if !one.pending.is_empty() {
                    self.unreported.insert(*id, one);
                }
            }
        }
        for closed in closed {
            self.segments.close(closed);
        }
        Ok(())
    }
}
