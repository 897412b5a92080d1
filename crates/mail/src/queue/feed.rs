//! The engine's side of the queue: hands out the recipients of messages that are new or due again, and records what
//! became of them.

use super::loaded::{Loaded, Waiting, load, read};
use super::recover::Found;
use super::reports::Unreported;
use super::segments::Segments;
use super::writer::Writer;
use super::{Entry, Notice, Shared, is_full};
use crate::dkim::Signer;
use crate::envelope::Envelope;
use crate::error::{Error, Result};
use crate::input::{Input, Next, Offer};
use crate::ledger::{Journal, Report, State, Sync};
use crate::list::Record;
use crate::schedule::Backoff;
use crate::stats::Tally;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The memory that the contents of loaded messages may take; one message may take more.
pub(super) const LOADED_BYTES: u64 = 128 << 20;

/// The time between attempts to write to a full disk.
const FULL_DISK_NS: u64 = 1_000_000_000;

/// The shortest wait for a message that could not be read.
const UNREADABLE_NS: u64 = 1_000_000_000;

/// How long a message waits whose site has too many recipients in memory: at least this, and so much longer for each
/// such message, because each look at one reads it.
const POSTPONED_NS: u64 = 1_000_000_000;
const POSTPONED_EACH_NS: u64 = 1_000_000;

/// The time between looks for segments that are mostly empty.
const COMPACT_NS: u64 = 1_000_000_000;

/// How long undelivered mail is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The wait after an attempt.
    pub(crate) backoff: Backoff,
    /// The age at which a message is given up.
    pub(crate) lifetime: Duration,
}

/// How messages of the queue are handled.
#[derive(Debug, Clone)]
pub(crate) struct Handling {
    /// When the queue is synced.
    pub(crate) sync: Sync,
    /// How connections are used.
    pub(crate) envelope: Envelope,
    /// Who signs messages of its domain.
    pub(crate) signer: Option<Arc<Signer>>,
    pub(crate) patience: Patience,
}

/// What the feed knows about recipients, for other threads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Published {
    /// The recipients of this run, by state.
    pub(crate) tally: Tally,
    /// The recipients of messages that the receiver has announced: those that it accepted besides are left, too.
    pub(crate) announced: u64,
    /// The attempts to read a message that failed.
    pub(crate) unreadable: u64,
    /// The reports to senders that were added to the queue.
    pub(crate) reports: u64,
}

/// The messages that wait for their next attempt, by its time.
type Deferred = BinaryHeap<Reverse<(u64, u64)>>;

/// The engine's side of the queue.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(super) shared: Arc<Shared>,
    notices: Receiver<Notice>,
    pub(super) segments: Segments,
    /// Appends the messages that the relay itself writes: those that are moved, and notifications of failures.
    pub(super) writer: Writer,
    handling: Handling,
    rng: ChaCha8Rng,
    pub(super) fresh: VecDeque<Waiting>,
    /// Times of the next attempts, with the places in `parked`.
    deferred: Deferred,
    pub(super) parked: Vec<Option<Waiting>>,
    free: Vec<u64>,
    pub(super) slots: Vec<Option<Loaded>>,
    free_slots: Vec<u32>,
    /// The slot whose recipients are handed out.
    current: Option<u32>,
    pub(super) loaded_bytes: u64,
    pub(super) buffer: Vec<u8>,
    journal: Option<Journal>,
    /// The recipients of this run, by state.
    pub(super) tally: Tally,
    /// A copy of it for other threads.
    published: Arc<Mutex<Published>>,
    /// The recipients of messages that the receiver has announced.
    announced: u64,
    /// The attempts to read a message that failed.
    unreadable: u64,
    /// Failures that were not reported, by message.
    pub(super) unreported: BTreeMap<u64, Unreported>,
    /// The reports that were written.
    pub(super) reports: u64,
    /// The messages that wait because their sites have too many recipients in memory.
    postponed: u64,
    /// When writing is tried again after it failed.
    blocked_ns: Option<u64>,
    /// When messages are read again after no descriptor was free.
    resume_ns: u64,
    /// Segments in which a message could not be read, and until when they are not compacted.
    pub(super) unreadable_segments: BTreeMap<u32, u64>,
    /// When segments are looked at again that are mostly empty.
    compact_ns: u64,
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
        let Found { shared, left, unrecorded, moved, segments, lock, .. } = found;
        let sync = handling.sync;
        let mut feed = Self {
            segments: Segments::new(Arc::clone(&shared), sync, &segments, moved),
            writer: Writer::new(Arc::clone(&shared), sync),
            shared,
            notices,
            handling,
            rng: ChaCha8Rng::seed_from_u64(0),
            fresh: VecDeque::new(),
            deferred: BinaryHeap::new(),
            parked: Vec::new(),
            free: Vec::new(),
            slots: Vec::new(),
            free_slots: Vec::new(),
            current: None,
            loaded_bytes: 0,
            buffer: Vec::new(),
            journal,
            tally: Tally::default(),
            published: Arc::default(),
            announced: 0,
            unreadable: 0,
            unreported: BTreeMap::new(),
            reports: 0,
            postponed: 0,
            blocked_ns: None,
            resume_ns: 0,
            unreadable_segments: BTreeMap::new(),
            compact_ns: 0,
            _lock: lock,
        };
        for one in left {
            feed.segments.add(&one.entry, false);
            feed.tally.left += one.recipients.len() as u64;
            let recipients = Some(one.recipients.into_iter().map(|index| (index, false)).collect());
            feed.fresh.push_back(feed.waiting(one.entry, recipients, now_ns));
        }
        for (entry, recipient) in unrecorded {
            feed.segments.settle(&entry, recipient);
        }
        if feed.segments.write_all(now_ns).is_err() {
            // A report must not be gone before what it reports is recorded.
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
        let Self { tally, announced, unreadable, reports, .. } = *self;
        let published = Published { tally, announced, unreadable, reports };
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = published;
    }

    pub(super) fn waiting(&self, entry: Entry, recipients: Option<Vec<(u32, bool)>>, now_ns: u64) -> Waiting {
        let age_ms = unix_ms().saturating_sub(entry.at_ms);
        let left = self.handling.patience.lifetime.saturating_sub(Duration::from_millis(age_ms));
        let expires_ns = now_ns.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        Waiting { entry, recipients, attempts: 0, failed_reads: 0, is_again: false, is_postponed: false, expires_ns }
    }

    /// Takes what the receiver has accepted.
    fn take_notices(&mut self, now_ns: u64) {
        while let Ok(notice) = self.notices.try_recv() {
            match notice {
                Notice::Accepted(entry) => self.accept(entry, now_ns),
                Notice::Closed(segment) => self.segments.close(segment),
            }
        }
    }

    fn accept(&mut self, entry: Entry, now_ns: u64) {
        self.segments.add(&entry, true);
        self.tally.left += u64::from(entry.recipients);
        self.announced += u64::from(entry.recipients);
        self.fresh.push_back(self.waiting(entry, None, now_ns));
    }

    /// Takes the next message whose time has come.
    fn next_waiting(&mut self, now_ns: u64) -> Option<Waiting> {
        if let Some(&Reverse((at_ns, place))) = self.deferred.peek()
            && at_ns <= now_ns
        {
            self.deferred.pop();
            self.free.push(place);
            let waiting = self.parked[place as usize].take();
            self.postponed -= u64::from(waiting.as_ref().is_some_and(|waiting| waiting.is_postponed));
            return waiting;
        }
        self.fresh.pop_front()
    }

    /// Loads the next message. Returns whether there was one.
    fn load_next(&mut self, now_ns: u64) -> bool {
        let Some(waiting) = self.next_waiting(now_ns) else { return false };
        let loaded = match read(&self.shared, &waiting.entry, &mut self.buffer) {
            Ok(()) => load(waiting, &self.buffer, &self.handling),
            Err(error) if landau_sys::Error::from_io("open", &error).is_out_of_descriptors() => {
                // It is not about this message: the others would fail as well.
                self.unreadable += 1;
                self.resume_ns = now_ns + UNREADABLE_NS;
                self.fresh.push_front(Waiting { is_postponed: false, ..waiting });
                return false;
            }
            Err(_) => Err(waiting),
        };
        if self.buffer.len() > 1 << 20 {
            self.buffer = Vec::new();
        }
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(waiting) => {
                self.put_off(waiting, now_ns);
                return true;
            }
        };
        self.loaded_bytes += loaded.memory();
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(loaded);
        self.current = Some(slot);
        true
    }

    /// Notes that a message could not be read: no descriptor was free, or the device failed. It is tried again later,
    /// also after its lifetime, because a message that cannot be read cannot be returned either.
    fn put_off(&mut self, mut waiting: Waiting, now_ns: u64) {
        self.unreadable += 1;
        waiting.is_postponed = false;
        waiting.failed_reads += 1;
        let delay_ns = self.handling.patience.backoff.delay_ns(waiting.failed_reads, &mut self.rng).max(UNREADABLE_NS);
        self.park(waiting, now_ns.saturating_add(delay_ns));
    }

    /// Ends an attempt to deliver a message, of which the engine has no recipient any more.
    fn end(&mut self, slot: u32, now_ns: u64) {
        let Some(mut loaded) = self.slots[slot as usize].take() else { return };
        self.free_slots.push(slot);
        self.loaded_bytes -= loaded.memory();
        let is_expired = loaded.waiting.expires_ns <= now_ns;
        if is_expired {
            for (index, _) in std::mem::take(&mut loaded.kept) {
                let recipient = &mut loaded.recipients[index as usize];
                let mut text = "5.4.7 the message could not be delivered in time".to_owned();
                if let Some(reason) = recipient.reason.take() {
                    text = format!("{text}; the last attempt: {reason}");
                }
                let (address, number, host) = (recipient.address.clone(), u64::from(index), None);
                let (state, text) = (State::Failed, text.as_bytes());
                self.settle(&mut loaded, &Report { number, address: &address, state, code: None, text, host });
            }
        }
        let mut waiting = loaded.waiting;
        if loaded.kept.is_empty() {
            match self.unreported.get_mut(&waiting.entry.id) {
                Some(unreported) => unreported.is_over = true,
                None => self.segments.remove(&waiting.entry),
            }
            return;
        }
        let was_tried = loaded.kept.iter().any(|(index, _)| loaded.recipients[*index as usize].reason.is_some());
        waiting.is_postponed = loaded.is_postponed && !was_tried;
        waiting.recipients = Some(loaded.kept);
        waiting.is_again = true;
        let delay_ns = if waiting.is_postponed {
            self.postponed += 1;
            POSTPONED_NS + self.postponed * POSTPONED_EACH_NS
        } else {
            waiting.attempts += 1;
            self.handling.patience.backoff.delay_ns(waiting.attempts, &mut self.rng)
        };
        let at_ns = now_ns.saturating_add(delay_ns).min(waiting.expires_ns.max(now_ns + POSTPONED_NS));
        self.park(waiting, at_ns);
    }

    fn park(&mut self, waiting: Waiting, at_ns: u64) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.parked.push(None);
            self.parked.len() as u64 - 1
        });
        self.parked[place as usize] = Some(waiting);
        self.deferred.push(Reverse((at_ns, place)));
    }

    /// Records what became of a recipient of a loaded message.
    fn settle(&mut self, loaded: &mut Loaded, report: &Report<'_>) {
        let index = report.number as u32;
        let recipient = &mut loaded.recipients[index as usize];
        *self.tally.of(recipient.state) -= 1;
        *self.tally.of(Some(report.state)) += 1;
        recipient.state = Some(report.state);
        if report.state == State::Deferred {
            let code = report.code.map_or(String::new(), |code| format!("{code} "));
            recipient.reason = Some(format!("{code}{}", String::from_utf8_lossy(report.text)).into());
        } else if !self.note_report(loaded, report) {
            self.segments.settle(&loaded.waiting.entry, index);
        }
        if let Some(journal) = &mut self.journal {
            let number = u64::from(index);
            journal.add(loaded.waiting.entry.id, &Report { number, ..*report }, unix_ms());
        }
    }

    /// Writes the states. On a full disk they stay in memory, and nothing is accepted or handed out until they are
    /// written.
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
                Ok(())
            }
            Err(error) if !is_end && is_full(&error) => {
                self.block(now_ns);
                Ok(())
            }
            Err(error) => Err(Error::Queue(error)),
        }
    }

    /// Accepts and hands out nothing until the states are written.
    fn block(&mut self, now_ns: u64) {
        self.blocked_ns = Some(now_ns + FULL_DISK_NS);
        self.shared.block(true);
    }

    fn try_write(&mut self, now_ns: u64, is_end: bool) -> std::io::Result<()> {
        if let Err(error) = self.write_states(now_ns) {
            if !is_full(&error) {
                return Err(error);
            }
            // Deleting makes room.
            self.segments.delete_done()?;
            self.write_states(now_ns)?;
        }
        // After the states: a crash of the system may undo what was deleted, and not what was synced.
        self.segments.delete_done()?;
        // The ledger follows the states: what it has as sent is not sent again.
        self.journal.as_mut().map_or(Ok(()), Journal::commit)?;
        if is_end {
            self.segments.sync_now(now_ns)?;
            return self.writer.sync_now(now_ns);
        }
        self.writer.sync_if_due(now_ns)
    }

    fn write_states(&mut self, now_ns: u64) -> std::io::Result<()> {
        self.segments.write_all(now_ns)?;
        self.write_reports(now_ns)?;
        self.segments.write_all(now_ns)
    }
}

impl Input for Feed {
    const RETRIES: bool = true;

    fn next(&mut self, record: &mut Record, now_ns: u64) -> Result<Next> {
        self.take_notices(now_ns);
        if let Some(at_ns) = self.blocked_ns.or((self.resume_ns > now_ns).then_some(self.resume_ns)) {
            return Ok(Next::Later(at_ns));
        }
        loop {
            if let Some(slot) = self.current
                && let Some(loaded) = &mut self.slots[slot as usize]
                && let Some(index) = loaded.next.pop_front()
            {
                loaded.out += 1;
                let Loaded { letter, recipients, waiting, .. } = loaded;
                let recipient = &recipients[index as usize];
                record.set_address(&recipient.address);
                let number = u64::from(slot) << 32 | u64::from(index);
                let is_again = waiting.is_again;
                let letter = Rc::clone(letter);
                return Ok(Next::Recipient(Offer { number, letter, state: recipient.state, is_again }));
            }
            self.current = None;
            if self.loaded_bytes >= LOADED_BYTES {
                // A message that the engine gives back makes room, and the engine asks after each event.
                return Ok(Next::Later(u64::MAX));
            }
            if !self.load_next(now_ns) {
                let next_ns = self.deferred.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
                let resume_ns = if self.resume_ns > now_ns { self.resume_ns } else { u64::MAX };
                return Ok(Next::Later(next_ns.max(now_ns + 1).min(resume_ns)));
            }
        }
    }

    fn record(&mut self, report: &Report<'_>, _: impl FnOnce() -> u64) {
        let slot = (report.number >> 32) as usize;
        let Some(mut loaded) = self.slots[slot].take() else { return };
        self.settle(&mut loaded, report);
        self.slots[slot] = Some(loaded);
    }

    fn release(&mut self, number: u64, now_ns: u64) {
        let (slot, index) = ((number >> 32) as u32, number as u32);
        let Some(loaded) = &mut self.slots[slot as usize] else { return };
        loaded.out -= 1;
        match loaded.recipients[index as usize].state {
            Some(State::Done | State::Failed) => {}
            state => loaded.kept.push((index, state == Some(State::Deferred))),
        }
        if loaded.is_over() {
            self.end(slot, now_ns);
        }
    }

    fn postpone(&mut self, number: u64, now_ns: u64) {
        if let Some(loaded) = &mut self.slots[(number >> 32) as usize] {
            loaded.is_postponed = true;
        }
        self.release(number, now_ns);
    }

    fn commit(&mut self, now_ns: u64) -> Result<()> {
        if now_ns >= self.compact_ns && self.blocked_ns.is_none() && self.unreported.is_empty() {
            self.compact_ns = now_ns + COMPACT_NS;
            self.compact(now_ns)?;
        }
        self.write(now_ns, false)
    }

    fn finish(&mut self, now_ns: u64) -> Result<()> {
        self.write(now_ns, true)
    }
}

pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
