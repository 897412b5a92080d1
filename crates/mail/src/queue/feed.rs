//! The engine's side of the queue: hands out the recipients of messages that are new or due again, and records what
//! became of them.

use super::loaded::{Loaded, Waiting, load, read};
use super::recover::Found;
use super::segments::Segments;
use super::writer::{Commit, Writer};
use super::{Entry, Notice, Shared};
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
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The memory that the contents of loaded messages may take; one message may take more.
const LOADED_BYTES: u64 = 128 << 20;

/// The time between attempts to write to a full disk.
const FULL_DISK_NS: u64 = 1_000_000_000;

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

/// What the feed knows about recipients, for other threads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Published {
    /// The recipients of this run, by state.
    pub(crate) tally: Tally,
    /// The recipients of messages that the receiver has announced: those that it accepted besides are left, too.
    pub(crate) announced: u64,
}

/// The messages that wait for their next attempt, by its time.
type Deferred = BinaryHeap<Reverse<(u64, u64)>>;

/// The engine's side of the queue.
#[derive(Debug)]
pub(crate) struct Feed {
    shared: Arc<Shared>,
    notices: Receiver<Notice>,
    segments: Segments,
    /// Appends the messages that the relay itself writes: those that are moved, and notifications of failures.
    writer: Writer,
    envelope: Envelope,
    patience: Patience,
    rng: ChaCha8Rng,
    fresh: VecDeque<Waiting>,
    /// Times of the next attempts, with the places in `parked`.
    deferred: Deferred,
    parked: Vec<Option<Waiting>>,
    free: Vec<u64>,
    slots: Vec<Option<Loaded>>,
    free_slots: Vec<u32>,
    /// The slot whose recipients are handed out.
    current: Option<u32>,
    loaded_bytes: u64,
    buffer: Vec<u8>,
    journal: Option<Journal>,
    /// The recipients of this run, by state.
    tally: Tally,
    /// A copy of it for other threads.
    published: Arc<Mutex<Published>>,
    /// The recipients of messages that the receiver has announced.
    announced: u64,
    /// When writing is tried again after it failed.
    blocked_ns: Option<u64>,
    /// When segments are looked at again that are mostly empty.
    compact_ns: u64,
    _lock: File,
}

impl Feed {
    /// Returns the feed of a queue that was opened.
    pub(crate) fn new(
        found: Found,
        notices: Receiver<Notice>,
        sync: Sync,
        envelope: Envelope,
        patience: Patience,
        journal: Option<Journal>,
        now_ns: u64,
    ) -> Self {
        let Found { shared, left, segments, lock, .. } = found;
        let mut feed = Self {
            segments: Segments::new(Arc::clone(&shared), sync, &segments),
            writer: Writer::new(Arc::clone(&shared), sync),
            shared,
            notices,
            envelope,
            patience,
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
            blocked_ns: None,
            compact_ns: 0,
            _lock: lock,
        };
        for one in left {
            feed.segments.add(&one.entry, false);
            feed.tally.left += one.recipients.len() as u64;
            let recipients = Some(one.recipients.into_iter().map(|index| (index, false)).collect());
            feed.fresh.push_back(feed.waiting(one.entry, recipients, now_ns));
        }
        feed.publish();
        feed
    }

    /// Returns the recipients by state, as of the last commit, for other threads.
    pub(crate) fn published(&self) -> Arc<Mutex<Published>> {
        Arc::clone(&self.published)
    }

    fn publish(&self) {
        let published = Published { tally: self.tally, announced: self.announced };
        *self.published.lock().unwrap_or_else(PoisonError::into_inner) = published;
    }

    fn waiting(&self, entry: Entry, recipients: Option<Vec<(u32, bool)>>, now_ns: u64) -> Waiting {
        let age_ms = unix_ms().saturating_sub(entry.at_ms);
        let left = self.patience.lifetime.saturating_sub(Duration::from_millis(age_ms));
        let expires_ns = now_ns.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
        Waiting { entry, recipients, attempts: 0, expires_ns }
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
            return self.parked[place as usize].take();
        }
        self.fresh.pop_front()
    }

    /// Loads the next message. Returns whether there was one.
    fn load_next(&mut self, now_ns: u64) -> Result<bool> {
        let Some(waiting) = self.next_waiting(now_ns) else { return Ok(false) };
        read(&self.shared, &waiting.entry, &mut self.buffer).map_err(Error::Queue)?;
        let loaded = load(waiting, &self.buffer, &self.envelope);
        if self.buffer.len() > 1 << 20 {
            self.buffer = Vec::new();
        }
        let loaded = loaded.map_err(|(waiting, reason)| {
            let Entry { segment, offset, .. } = waiting.entry;
            let path = self.shared.mail(segment);
            Error::file(&path, format!("the message at byte {offset} cannot be read: {reason}"))
        })?;
        self.loaded_bytes += loaded.memory();
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(loaded);
        self.current = Some(slot);
        Ok(true)
    }

    /// Ends an attempt to deliver a message, of which the engine has no recipient any more.
    fn end(&mut self, slot: u32, now_ns: u64) {
        let Some(mut loaded) = self.slots[slot as usize].take() else { return };
        self.free_slots.push(slot);
        self.loaded_bytes -= loaded.memory();
        let is_expired = loaded.waiting.expires_ns <= now_ns;
        if is_expired {
            for (index, _) in std::mem::take(&mut loaded.kept) {
                let text = b"4.4.7 the message could not be delivered in time";
                self.settle(&mut loaded, index, State::Failed, None, text);
            }
        }
        let mut waiting = loaded.waiting;
        if loaded.kept.is_empty() {
            self.segments.remove(&waiting.entry);
            return;
        }
        waiting.recipients = Some(loaded.kept);
        waiting.attempts += 1;
        let delay_ns = self.patience.backoff.delay_ns(waiting.attempts, &mut self.rng);
        let at_ns = now_ns.saturating_add(delay_ns).min(waiting.expires_ns);
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
    fn settle(&mut self, loaded: &mut Loaded, index: u32, state: State, code: Option<u16>, text: &[u8]) {
        let recipient = &mut loaded.recipients[index as usize];
        *self.tally.of(recipient.state) -= 1;
        *self.tally.of(Some(state)) += 1;
        recipient.state = Some(state);
        if state != State::Deferred {
            self.segments.settle(&loaded.waiting.entry, index);
        }
        if let Some(journal) = &mut self.journal {
            let report = Report { number: u64::from(index), address: &recipient.address, state, code, text };
            journal.add(loaded.waiting.entry.id, &report, unix_ms());
        }
    }

    /// Moves what is left in a mostly empty segment to another one, so that its space is free again.
    fn compact(&mut self, now_ns: u64) -> Result<()> {
        let Some(segment) = self.segments.sparse() else { return Ok(()) };
        let is_loaded = |loaded: &Loaded| loaded.waiting.entry.segment == segment;
        if self.slots.iter().flatten().any(is_loaded) {
            return Ok(());
        }
        let waiting = self.fresh.iter_mut().chain(self.parked.iter_mut().flatten());
        let mut moved: Vec<&mut Waiting> = waiting.filter(|one| one.entry.segment == segment).collect();
        for one in &moved {
            read(&self.shared, &one.entry, &mut self.buffer).map_err(Error::Queue)?;
            self.writer.add_record(&one.entry, &self.buffer);
        }
        let Commit { entries, closed } = match self.writer.commit(now_ns) {
            Ok(commit) => commit,
            // There is no room to make room; deliveries will make some.
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(Error::Queue(error)),
        };
        for (one, entry) in moved.iter().zip(&entries) {
            self.segments.add(entry, true);
            let left = one.left();
            let is_left = |index: u32| left.iter().any(|(one, _)| *one == index);
            (0..entry.recipients).filter(|&index| !is_left(index)).for_each(|index| self.segments.settle(entry, index));
        }
        // Only when the new segment has the states, too, may the old one be deleted.
        self.segments.write_all(now_ns).map_err(Error::Queue)?;
        for (one, entry) in moved.iter_mut().zip(entries) {
            let before = std::mem::replace(&mut one.entry, entry);
            self.segments.remove(&before);
        }
        for segment in closed {
            self.segments.close(segment);
        }
        Ok(())
    }

    /// Writes the states. On a full disk they stay in memory, and nothing is accepted or handed out until they are
    /// written.
    fn write(&mut self, now_ns: u64, is_end: bool) -> Result<()> {
        if !is_end && self.blocked_ns.is_some_and(|at_ns| now_ns < at_ns) {
            return Ok(());
        }
        // The ledger follows the states: what it has as sent is not sent again.
        let written = self.segments.commit(now_ns, is_end);
        let written = written.and_then(|()| self.journal.as_mut().map_or(Ok(()), Journal::commit));
        self.publish();
        match written {
            Ok(()) => {
                if is_end {
                    self.writer.sync_now(now_ns).map_err(Error::Queue)?;
                }
                self.blocked_ns = None;
                self.shared.block(false);
                Ok(())
            }
            Err(error) if !is_end && error.kind() == ErrorKind::StorageFull => {
                self.blocked_ns = Some(now_ns + FULL_DISK_NS);
                self.shared.block(true);
                Ok(())
            }
            Err(error) => Err(Error::Queue(error)),
        }
    }
}

impl Input for Feed {
    const RETRIES: bool = true;

    fn next(&mut self, record: &mut Record, now_ns: u64) -> Result<Next> {
        self.take_notices(now_ns);
        if let Some(at_ns) = self.blocked_ns {
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
                let is_again = waiting.attempts > 0;
                let letter = Rc::clone(letter);
                return Ok(Next::Recipient(Offer { number, letter, state: recipient.state, is_again }));
            }
            self.current = None;
            if self.loaded_bytes >= LOADED_BYTES || !self.load_next(now_ns)? {
                let next_ns = self.deferred.peek().map_or(u64::MAX, |Reverse((at_ns, _))| *at_ns);
                return Ok(Next::Later(next_ns.max(now_ns + 1)));
            }
        }
    }

    fn record(&mut self, report: &Report<'_>, _: impl FnOnce() -> u64) {
        let slot = (report.number >> 32) as usize;
        let Some(mut loaded) = self.slots[slot].take() else { return };
        self.settle(&mut loaded, report.number as u32, report.state, report.code, report.text);
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

    fn commit(&mut self, now_ns: u64) -> Result<()> {
        if now_ns >= self.compact_ns {
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
