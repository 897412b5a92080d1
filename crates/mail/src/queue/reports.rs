//! Reports to senders about recipients that failed: messages of the queue that the relay itself writes.
//!
//! A report enters the queue before the failures are recorded, and its record says which failures it reports. So after
//! a crash between the two, a start takes the failures from the report: it is neither lost nor written again. The
//! failures of a message that come in one batch of events have one report.

use super::Entry;
use super::feed::{Feed, unix_ms};
use super::loaded::Loaded;
use super::record::{About, Meta};
use super::writer::Commit;
use crate::bounce::{self, Action, Failure, REPLY_BYTES, Subject};
use crate::input::Letter;
use crate::ledger::{Report, State};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::io;
use std::rc::Rc;

/// What is to be reported about a recipient.
#[derive(Debug)]
struct Pending {
    index: u32,
    address: Box<str>,
    action: Action,
    host: Option<Box<str>>,
    code: Option<u16>,
    text: Box<[u8]>,
}

/// The failures of a message that were not reported, and so were not recorded.
#[derive(Debug)]
pub(super) struct Unreported {
    entry: Entry,
    letter: Rc<Letter>,
    pending: Vec<Pending>,
    /// Whether the relay is done with the message once they are recorded.
    pub(super) is_over: bool,
}

/// Returns what the sender is to be told about a recipient. Nobody is told about a report.
fn action(letter: &Letter, report: &Report<'_>) -> Option<Action> {
    if letter.envelope.from.is_empty() {
        return None;
    }
    let notify = letter.requests.get(report.number as u32 as usize).and_then(|request| request.notify);
    let has_dsn = report.host.is_some_and(|host| host.has_dsn);
    match report.state {
        // Without NOTIFY, failures are reported (RFC 3461 section 4.1).
        State::Failed => notify.is_none_or(|notify| notify.failure).then_some(Action::Failed),
        // The next server reports, if it can (RFC 3461 section 5.2.2).
        State::Done => (notify.is_some_and(|notify| notify.success) && !has_dsn).then_some(Action::Relayed),
        State::Deferred => None,
    }
}

impl Unreported {
    /// Returns the report.
    fn text(&self, id: u64) -> Vec<u8> {
        let Letter { envelope, message, requests } = &*self.letter;
        let content = message.content();
        // Nobody can guess it, so no message can contain the boundary that it becomes.
        let digest = Sha256::digest(&content).iter().take(8).fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte));
        let name = format!("{id:X}.{digest:016X}");
        let failures: Vec<Failure<'_>> = self
            .pending
            .iter()
            .map(|one| Failure {
                address: &one.address,
                orcpt: requests.get(one.index as usize).and_then(|request| request.orcpt.as_deref()),
                action: one.action,
                host: one.host.as_deref(),
                code: one.code,
                text: &one.text,
            })
            .collect();
        bounce::report(&Subject { envelope, content: &content, name: &name, at_ms: unix_ms() }, &failures)
    }
}

impl Feed {
    /// Notes what is to be reported about a recipient, if anything is. Its state is then recorded with the report.
    pub(super) fn note_report(&mut self, loaded: &Loaded, report: &Report<'_>) -> bool {
        let Some(action) = action(&loaded.letter, report) else { return false };
        let unreported = self.unreported.entry(loaded.waiting.entry.id).or_insert_with(|| Unreported {
            entry: loaded.waiting.entry.clone(),
            letter: Rc::clone(&loaded.letter),
            pending: Vec::new(),
            is_over: false,
        });
        unreported.pending.push(Pending {
            index: report.number as u32,
            address: report.address.into(),
            action,
            host: report.host.map(|host| host.name.into()),
            code: report.code,
            text: report.text[..report.text.len().min(REPLY_BYTES)].into(),
        });
        true
    }

    /// Adds the reports to the queue, and with them the states of their recipients to what is to be written.
    pub(super) fn write_reports(&mut self, now_ns: u64) -> io::Result<()> {
        if self.unreported.is_empty() {
            return Ok(());
        }
        for one in self.unreported.values() {
            let id = self.shared.next_id();
            let meta = Meta {
                about: Some(About { id: one.entry.id, recipients: one.pending.iter().map(|one| one.index).collect() }),
                ..Meta::new(id, unix_ms(), "", vec![Cow::Borrowed(one.letter.envelope.from.as_str())])
            };
            self.writer.add(&meta, &[&one.text(id)])?;
        }
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
        for one in std::mem::take(&mut self.unreported).into_values() {
            one.pending.iter().for_each(|pending| self.segments.settle(&one.entry, pending.index));
            if one.is_over {
                self.segments.remove(&one.entry);
            }
        }
        for closed in closed {
            self.segments.close(closed);
        }
        Ok(())
    }
}
