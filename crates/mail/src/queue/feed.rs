//! The engine's side of the queue: hands out the recipients of messages that are new or due again, and records their
//! outcomes.

use super::control::{Answer, PAGE};
use super::disk::unix_ms;
use super::loaded::{Left, Loaded, Waiting};
use super::recover::Found;
use super::reports::Unreported;
use super::segments::Segments;
use super::shares::Shares;
use super::writer::Writer;
use super::{Entry, Notice, Shared, is_full, is_short};
use crate::bounce::REPLY_BYTES;
use crate::dkim::Signer;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::input::{Input, IsCrowded, Next, Offer};
use crate::ledger::{Journal, Report, State, Sync};
use crate::list::Record;
use crate::schedule::{Backoff, NO_SITE, SiteCounts};
use crate::stats::Tally;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::fs::File;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum memory for the contents of loaded messages; a single message may exceed it.
pub(super) const LOADED_BYTES: u64 = 128 << 20;

/// The time between attempts to write while the disk is full or no descriptor is free.
const SHORT_NS: u64 = 1_000_000_000;

/// The time between searches for mostly empty segments.
const COMPACT_NS: u64 = 1_000_000_000;

/// Maximum number of messages parked without an offer before the engine handles events.
const MOST_PARKED: u32 = 256;

/// The limits on retrying undelivered mail.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The wait after an attempt.
    pub(crate) backoff: Backoff,
    /// The age at which a message is given up.
    pub(crate) lifetime: Duration,
}

impl Patience {
    /// Returns how long a message of any age is tried if it could not be tried until now, because the relay was not
    /// running or the user held it.
    pub(super) fn for_untried(self) -> Duration {
        self.backoff.longest.min(self.lifetime)
    }
}

/// How messages of the queue are handled.
#[derive(Debug, Clone)]
pub(crate) struct Handling {
    /// When the queue is synced.
    pub(crate) sync: Sync,
    /// The settings for connections.
    pub(crate) envelope: Envelope,
    /// The signer of messages from its domain.
    pub(crate) signer: Option<Arc<Signer>>,
    /// The address that receives reports when mail from the null sender fails.
    pub(crate) postmaster: Option<Box<str>>,
    pub(crate) patience: Patience,
}

/// The counts of the feed, for other threads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Published {
    /// The recipients of this run, by state, without those that were deleted.
    pub(crate) tally: Tally,
    /// The recipients that were in the queue at the start.
    pub(crate) found: u64,
    /// The recipients that the user has deleted.
    pub(crate) deleted: u64,
    /// The recipients of messages that the receiver has announced. Recipients that it accepted but has not announced
    /// are left, too.
    pub(crate) announced: u64,
    /// The number of failed attempts to read a message.
    pub(crate) unreadable: u64,
    /// The number of reports added to the queue.
    pub(crate) reports: u64,
    /// The recipients that failed without a report, because the message had no sender and there was no postmaster.
    pub(crate) double_bounces: u64,
    /// The bytes that were damaged or cut off when the queue was opened.
    pub(crate) damaged_bytes: u64,
    /// The messages that wait until the user releases them.
    pub(crate) held: u64,
    /// The counts of sites that did not answer.
    pub(crate) sites: SiteCounts,
}

/// The messages that wait for their next attempt, by its time.
type Deferred = BinaryHeap<Reverse<(u64, u64)>>;

/// The engine's side of the queue.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(super) shared: Arc<Shared>,
    notices: Receiver<Notice>,
    pub(super) segments: Segments,
    /// Appends the messages that the relay itself writes: moved messages and reports of failures.
    pub(super) writer: Writer,
    pub(super) handling: Handling,
    pub(super) rng: ChaCha8Rng,
    pub(super) fresh: VecDeque<Waiting>,
    /// The number of messages taken from the front of `fresh`.
    pub(super) fresh_taken: u64,
    /// Times of the next attempts, with the places in `parked`.
    pub(super) deferred: Deferred,
    pub(super) parked: Vec<Option<Waiting>>,
    pub(super) free: Vec<u64>,
    pub(super) slots: Vec<Option<Loaded>>,
    pub(super) free_slots: Vec<u32>,
    /// The slot whose recipients are handed out.
    pub(super) current: Option<u32>,
    pub(super) shares: Shares,
    pub(super) buffer: Vec<u8>,
    pub(super) journal: Option<Journal>,
    /// The recipients of this run, by state, without those that were deleted.
    pub(super) tally: Tally,
    /// The recipients that were in the queue at the start.
    found: u64,
    /// The recipients that the user has deleted.
    pub(super) deleted: u64,
    /// The counts as of the last commit, for other threads.
    published: Arc<Mutex<Published>>,
    /// The recipients of messages that the receiver has announced.
    announced: u64,
    /// The number of failed attempts to read a message.
    pub(super) unreadable: u64,
    /// The bytes that were damaged or cut off when the queue was opened.
    damaged_bytes: u64,
    /// Failures that were not reported yet, by message.
    pub(super) unreported: BTreeMap<u64, Unreported>,
    /// The number of reports written.
    pub(super) reports: u64,
    /// The recipients that failed without a sender or a postmaster to report to.
    pub(super) double_bounces: u64,
    /// The counts of sites that did not answer.
    sites: SiteCounts,
    /// Whether the user has requested a flush that the engine has not seen yet.
    pub(super) is_flushed: bool,
    /// The messages that wait because their sites have used their shares of the memory.
    pub(super) postponed: u64,
    /// The messages that wait until the user releases them.
    pub(super) held: BTreeSet<u64>,
    /// Maximum number of messages of a list that are described at a time.
    pub(super) page: usize,
    /// Answers to the user, sent after the changes are recorded.
    answers: Vec<(Sender<Answer>, Answer)>,
    /// When writing is tried again after it failed.
    blocked_ns: Option<u64>,
    /// When messages are read again after no descriptor was free.
    pub(super) resume_ns: u64,
    /// Segments with an unreadable message, and the time until which they are not compacted.
    pub(super) unreadable_segments: BTreeMap<u32, u64>,
    /// When to search for mostly empty segments again.
    pub(super) compact_ns: u64,
    _lock: File,
}

impl Feed {
    /// Returns the feed of a queue that was opened.
    pub(crate) fn new(
        found: Found,
        notices: Receiver<Notice>,
        handling: Handling,
        journal: Option<Journal>,
        now_ns: u64,
    ) -> Self {
        let Found { shared, left, unrecorded, moved, segments, kept, damaged_bytes, held, lock, .. } = found;
        let sync = handling.sync;
        let mut feed = Self {
            segments: Segments::new(Arc::clone(&shared), sync, &segments, moved),
            writer: Writer::new(Arc::clone(&shared), sync),
            shared,
            notices,
            handling,
            rng: ChaCha8Rng::seed_from_u64(0),
            fresh: VecDeque::new(),
            fresh_taken: 0,
            deferred: BinaryHeap::new(),
            parked: Vec::new(),
            free: Vec::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            current: None,
            shares: Shares::default(),
            buffer: Vec::new(),
            journal,
            tally: Tally::default(),
            found: 0,
            deleted: 0,
            published: Arc::default(),
            announced: 0,
            unreadable: 0,
            damaged_bytes,
            unreported: BTreeMap::new(),
            reports: 0,
            double_bounces: 0,
            sites: SiteCounts::default(),
            is_flushed: false,
            postponed: 0,
            held,
            page: PAGE,
            answers: Vec::new(),
            blocked_ns: None,
            resume_ns: 0,
            unreadable_segments: BTreeMap::new(),
            compact_ns: 0,
            _lock: lock,
        };
        feed.segments.keep(kept);
        for one in left {
            feed.segments.add(&one.entry, false);
            feed.tally.left += one.recipients.len() as u64;
            let recipients = Some(one.recipients.into_iter().map(Left::new).collect());
            let waiting = feed.waiting(one.entry, recipients, now_ns);
            feed.fresh.push_back(waiting);
        }
        feed.found = feed.tally.left;
        for (entry, recipient) in unrecorded {
            feed.segments.settle(&entry, recipient);
        }
        if feed.segments.write_all(now_ns).is_err() {
            // A report must not be deleted before the failures that it reports are recorded.
            feed.block(now_ns);
        }
        feed.publish();
        feed
    }

    /// Returns the recipients by state, as of the last commit, for other threads.
    pub(crate) fn published(&self) -> Arc<Mutex<Published>> {
        Arc::clone(&self.published)
    }

    fn publish(&self) {
        let Self { tally, found, deleted, announced, unreadable, reports, double_bounces, damaged_bytes, .. } = *self;
        let published = Published {
            tally,
            found,
            deleted,
            announced,
            unreadable,
            reports,
            double_bounces,
            damaged_bytes,
            held: self.held.len() as u64,
            sites: self.sites,
        };
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = published;
    }

    pub(super) fn waiting(&self, entry: Entry, recipients: Option<Vec<Left>>, now_ns: u64) -> Waiting {
        let Patience { lifetime, .. } = self.handling.patience;
        let left = lifetime.saturating_sub(Duration::from_millis(unix_ms().saturating_sub(entry.at_ms)));
        let after = |wait: Duration| now_ns.saturating_add(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        Waiting {
            is_held: self.held.contains(&entry.id),
            entry,
            recipients,
            failed_reads: 0,
            passed_over: 0,
            is_again: false,
            is_postponed: false,
            is_deleted: false,
            reason: None,
            expires_ns: after(left),
            untried_expires_ns: after(left.max(self.handling.patience.for_untried())),
            wake_ns: 0,
        }
    }

    /// Takes the messages that the receiver has accepted, and executes the user's requests.
    fn take_notices(&mut self, now_ns: u64) {
        while let Ok(notice) = self.notices.try_recv() {
            match notice {
                Notice::Accepted(entry) => self.accept(entry, now_ns),
                Notice::Closed(segment) => self.segments.close(segment),
                Notice::Asked(request, answer) => {
                    match self.control(&request, now_ns) {
                        // A list changes nothing that must be recorded first, which a full disk could prevent. The user
                        // may be gone.
                        items @ Answer::Items { .. } => drop(answer.send(items)),
                        reply => self.answers.push((answer, reply)),
                    }
                }
            }
        }
    }

    fn accept(&mut self, entry: Entry, now_ns: u64) {
        self.segments.add(&entry, true);
        self.tally.left += u64::from(entry.recipients);
        self.announced += u64::from(entry.recipients);
        let waiting = self.waiting(entry, None, now_ns);
        self.fresh.push_back(waiting);
    }

    /// Records the outcome of a recipient of a loaded message.
    pub(super) fn settle(&mut self, loaded: &mut Loaded, report: &Report<'_>) {
        let index = report.number as u32;
        let recipient = &mut loaded.recipients[index as usize];
        *self.tally.of(recipient.state) -= 1;
        *self.tally.of(Some(report.state)) += 1;
        recipient.state = Some(report.state);
        if report.state == State::Deferred {
            let code = report.code.map_or(String::new(), |code| format!("{code} "));
            // Every waiting message keeps one, so its length is limited.
            let text = String::from_utf8_lossy(&report.text[..report.text.len().min(REPLY_BYTES)]);
            recipient.reason = Some(format!("{code}{text}").into());
        }
        let id = loaded.waiting.entry.id;
        let mut line = self.journal.is_some().then(|| {
            let number = u64::from(index);
            Journal::line(id, &Report { number, ..*report }, unix_ms())
        });
        // A reported outcome is recorded with its report, here and in the ledger.
        if report.state != State::Deferred && !self.note_report(loaded, report, &mut line) {
            self.segments.settle(&loaded.waiting.entry, index);
        }
        self.note_line(line.as_deref());
    }

    /// Adds a line to the ledger, if there is one.
    pub(super) fn note_line(&mut self, line: Option<&[u8]>) {
        if let (Some(journal), Some(line)) = (&mut self.journal, line) {
            journal.add(line);
        }
    }

    /// Writes the states. On a full disk, or while no descriptor is free, they stay in memory, and nothing is accepted
    /// or handed out until they are written.
    fn write(&mut self, now_ns: u64, is_end: bool) -> Result<()> {
        if !is_end && self.blocked_ns.is_some_and(|at_ns| now_ns < at_ns) {
            return Ok(());
        }
        let written = self.try_write(now_ns, is_end);
        self.publish();
        match written {
            Ok(()) => {
                self.blocked_ns = None;
                self.shared.block(false);
                for (answer, reply) in self.answers.drain(..) {
                    // The user may be gone.
                    let _ = answer.send(reply);
                }
                Ok(())
            }
            Err(error) if !is_end && is_short(&error) => {
                self.block(now_ns);
                Ok(())
            }
            Err(error) => Err(Error::Queue(error)),
        }
    }

    /// Stops accepting and handing out messages until the states are written.
    fn block(&mut self, now_ns: u64) {
        self.blocked_ns = Some(now_ns + SHORT_NS);
        self.shared.block(true);
    }

    fn try_write(&mut self, now_ns: u64, is_end: bool) -> std::io::Result<()> {
        if let Err(error) = self.write_states(now_ns, is_end) {
            if !is_full(&error) {
                return Err(error);
            }
            // Deletion frees disk space.
            self.segments.delete_done()?;
            self.write_states(now_ns, is_end)?;
        }
        // After the states: a system crash may undo deletions, but not synced writes.
        self.segments.delete_done()?;
        // The ledger is written after the states: a recipient recorded as sent is not sent to again.
        self.journal.as_mut().map_or(Ok(()), Journal::commit)?;
        if is_end {
            self.segments.sync_now(now_ns)?;
            return self.writer.sync_now(now_ns);
        }
        self.writer.sync_if_due(now_ns)
    }

    fn write_states(&mut self, now_ns: u64, is_end: bool) -> std::io::Result<()> {
        self.segments.write_all(now_ns)?;
        self.write_reports(now_ns, is_end)?;
        self.segments.write_all(now_ns)
    }
}

impl Input for Feed {
    const RETRIES: bool = true;

    fn next(&mut self, record: &mut Record, now_ns: u64, is_crowded: IsCrowded<'_>) -> Result<Next> {
        self.take_notices(now_ns);
        if let Some(at_ns) = self.blocked_ns.or((self.resume_ns > now_ns).then_some(self.resume_ns)) {
            return Ok(Next::Later(at_ns));
        }
        let mut parked = 0;
        loop {
            if let Some(slot) = self.current
                && let Some(loaded) = &mut self.slots[slot as usize]
                && let Some(index) = loaded.next.pop_front()
            {
                loaded.out += 1;
                let Loaded { letter, recipients, .. } = loaded;
                let recipient = &mut recipients[index as usize];
                record.set_address(&recipient.address);
                let number = u64::from(slot) << 32 | u64::from(index);
                // Recipients that a hold kept from the engine are new to it.
                let is_again = std::mem::replace(&mut recipient.was_offered, true);
                let letter = Rc::clone(letter);
                return Ok(Next::Recipient(Offer { number, letter, state: recipient.state, is_again }));
            }
            self.current = None;
            if self.shares.is_full() {
                // A message that the engine returns frees memory, and the engine asks after each event.
                return Ok(Next::Later(u64::MAX));
            }
            let Some(is_loaded) = self.load_next(now_ns, is_crowded) else {
                let next_ns = self.deferred.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
                let resume_ns = if self.resume_ns > now_ns { self.resume_ns } else { u64::MAX };
                return Ok(Next::Later(next_ns.max(now_ns + 1).min(resume_ns)));
            };
            parked += u32::from(!is_loaded);
            if parked >= MOST_PARKED {
                // Connections must not wait for a scan of the whole queue.
                return Ok(Next::Later(now_ns));
            }
        }
    }

    fn record(&mut self, report: &Report<'_>, _: impl FnOnce() -> u64) {
        let slot = (report.number >> 32) as usize;
        let Some(mut loaded) = self.slots[slot].take() else { return };
        self.settle(&mut loaded, report);
        self.slots[slot] = Some(loaded);
    }

    fn admit(&mut self, number: u64, site: u32) -> bool {
        let (slot, index) = ((number >> 32) as usize, number as u32 as usize);
        let Some(loaded) = &mut self.slots[slot] else { return true };
        if let Some((_, count)) = loaded.sites.iter_mut().find(|(known, _)| *known == site) {
            *count += 1;
        } else if self.shares.is_crowded(site) {
            return false;
        } else {
            loaded.sites.push((site, 1));
            self.shares.charge(site, loaded.memory());
        }
        loaded.recipients[index].site = site;
        true
    }

    fn release(&mut self, number: u64, now_ns: u64) {
        self.take_back(number, NO_SITE, now_ns);
    }

    fn postpone(&mut self, number: u64, site: u32, now_ns: u64) {
        self.take_back(number, site, now_ns);
    }

    fn suspend(&mut self, number: u64, until_ns: u64) {
        let (slot, index) = ((number >> 32) as usize, number as u32 as usize);
        if let Some(loaded) = &mut self.slots[slot] {
            loaded.recipients[index].suspended_ns = Some(until_ns);
        }
    }

    fn note_sites(&mut self, counts: SiteCounts) {
        self.sites = counts;
    }

    fn take_flush(&mut self) -> bool {
        std::mem::take(&mut self.is_flushed)
    }

    fn commit(&mut self, now_ns: u64) -> Result<()> {
        // The engine does not call `next` while it has enough recipients.
        self.take_notices(now_ns);
        if now_ns >= self.compact_ns && self.blocked_ns.is_none() && !self.has_reports() {
            self.compact_ns = now_ns + COMPACT_NS;
            self.compact(now_ns)?;
        }
        self.write(now_ns, false)
    }

    fn finish(&mut self, now_ns: u64) -> Result<()> {
        self.write(now_ns, true)
    }
}
