//! The attempts to deliver a message: when it is read, when the engine is done with it, and when it is tried again.

use super::feed::Feed;
use super::is_out_of_descriptors;
use super::loaded::{Left, Loaded, Recipient, Waiting, load, read};
use super::record;
use crate::input::IsCrowded;
use crate::ledger::{Report, State};
use crate::schedule::NO_SITE;
use std::cmp::Reverse;

/// Minimum wait for a message that could not be read.
const UNREADABLE_NS: u64 = 1_000_000_000;

/// The wait of a message whose site has used its share of the memory: at least `POSTPONED_NS`, plus `POSTPONED_EACH_NS`
/// for each such message, because each one is checked.
const POSTPONED_NS: u64 = 1_000_000_000;
const POSTPONED_EACH_NS: u64 = 100_000;

/// A message whose sites have used their shares is loaded anyway after this many checks: its recipients may have
/// another site by then.
const MOST_PASSED_OVER: u32 = 60;

impl Feed {
    /// Takes the next message that is due.
    fn next_waiting(&mut self, now_ns: u64) -> Option<Waiting> {
        if let Some(&Reverse((at_ns, place))) = self.deferred.peek()
            && at_ns <= now_ns
        {
            self.deferred.pop();
            self.free.push(place);
            let mut waiting = self.parked[place as usize].take()?;
            self.postponed -= u64::from(std::mem::take(&mut waiting.is_postponed));
            return Some(waiting);
        }
        let waiting = self.fresh.pop_front()?;
        self.fresh_taken += 1;
        Some(waiting)
    }

    /// Loads the next message. Returns whether it was loaded and not parked again; `None` if there was none.
    pub(super) fn load_next(&mut self, now_ns: u64, is_crowded: IsCrowded<'_>) -> Option<bool> {
        let waiting = self.next_waiting(now_ns)?;
        if waiting.is_held {
            self.park(waiting, u64::MAX);
            return Some(false);
        }
        let waiting = match self.pass_over(waiting, now_ns, is_crowded) {
            Ok(()) => return Some(false),
            Err(waiting) => waiting,
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let was_read = read(&self.shared, &waiting.entry, &mut buffer);
        if let Err(error) = &was_read
            && is_out_of_descriptors(error)
        {
            // The error is not specific to this message: the others would fail as well.
            self.unreadable += 1;
            self.resume_ns = now_ns + UNREADABLE_NS;
            self.fresh.push_front(waiting);
            // The message may have been parked before. The positions known for a list are then off by one, which is
            // detected.
            self.fresh_taken = self.fresh_taken.saturating_sub(1);
            self.buffer = buffer;
            return None;
        }
        let loaded = match was_read.ok().and_then(|()| record::parse(&buffer)) {
            Some(record) => match self.keep_unread(waiting, &record, now_ns, is_crowded) {
                Ok(()) => None,
                Err(waiting) => Some(load(waiting, record, &self.handling, now_ns)),
            },
            None => Some(Err(waiting)),
        };
        // A large message must not leave its memory allocated.
        self.buffer = if buffer.len() > 1 << 20 { Vec::new() } else { buffer };
        let loaded = match loaded {
            Some(Ok(loaded)) => loaded,
            Some(Err(waiting)) => {
                self.put_off(waiting, now_ns);
                return Some(false);
            }
            None => return Some(false),
        };
        self.shares.load(loaded.memory());
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(loaded);
        self.current = Some(slot);
        Some(true)
    }

    /// Parks a message without reading it if every due recipient had to wait for its site's share of the memory, and
    /// still would.
    fn pass_over(&mut self, mut waiting: Waiting, now_ns: u64, is_crowded: IsCrowded<'_>) -> Result<(), Waiting> {
        let may_go = |one: &Left| {
            let site = one.crowded_site;
            one.due_ns <= now_ns && (site == NO_SITE || !(is_crowded(site) || self.shares.is_crowded(site)))
        };
        let is_first = waiting.recipients.is_none();
        // The last attempt is made when the message is too old.
        let is_last = waiting.untried_expires_ns <= now_ns;
        if is_first || is_last || waiting.passed_over >= MOST_PASSED_OVER || waiting.left().iter().any(may_go) {
            return Err(waiting);
        }
        waiting.passed_over += 1;
        self.postpone_all(waiting, now_ns);
        Ok(())
    }

    /// Parks a message that was read, before it is encoded and signed, if the domains of all recipients that are due
    /// had to wait recently and still would.
    fn keep_unread(
        &mut self,
        mut waiting: Waiting,
        record: &record::Message<'_>,
        now_ns: u64,
        is_crowded: IsCrowded<'_>,
    ) -> Result<(), Waiting> {
        if waiting.passed_over >= MOST_PASSED_OVER || waiting.untried_expires_ns <= now_ns {
            return Err(waiting);
        }
        let mut left = waiting.left().into_owned();
        for one in left.iter_mut().filter(|one| one.due_ns <= now_ns) {
            let address = record.meta.to.get(one.index as usize).map_or("", |address| address);
            match self.shares.known_site(address, now_ns) {
                Some(site) if is_crowded(site) || self.shares.is_crowded(site) => one.crowded_site = site,
                _ => return Err(waiting),
            }
        }
        waiting.recipients = Some(left);
        waiting.passed_over += 1;
        self.postpone_all(waiting, now_ns);
        Ok(())
    }

    /// Parks a message whose due recipients must wait for their site's share of the memory.
    fn postpone_all(&mut self, mut waiting: Waiting, now_ns: u64) {
        self.postponed += 1;
        waiting.is_postponed = true;
        let due_ns = now_ns.saturating_add(POSTPONED_NS + self.postponed * POSTPONED_EACH_NS);
        for one in waiting.recipients.iter_mut().flatten().filter(|one| one.due_ns <= now_ns) {
            one.due_ns = due_ns;
        }
        let at_ns = waiting.due_ns();
        self.park(waiting, at_ns);
    }

    /// Records that a message could not be read. It is tried again later, even after its lifetime, because an
    /// unreadable message cannot be returned to its sender.
    fn put_off(&mut self, mut waiting: Waiting, now_ns: u64) {
        self.unreadable += 1;
        waiting.failed_reads += 1;
        let delay_ns = self.handling.patience.backoff.delay_ns(waiting.failed_reads, &mut self.rng).max(UNREADABLE_NS);
        self.park(waiting, now_ns.saturating_add(delay_ns));
    }

    /// Takes a recipient back from the engine: from a site that has used its share of the memory, or after an attempt.
    pub(super) fn take_back(&mut self, number: u64, crowded_site: u32, now_ns: u64) {
        let (slot, index) = ((number >> 32) as u32, number as u32);
        let Some(loaded) = &mut self.slots[slot as usize] else { return };
        loaded.out -= 1;
        let memory = loaded.memory();
        let recipient = &mut loaded.recipients[index as usize];
        let site = std::mem::replace(&mut recipient.site, NO_SITE);
        if crowded_site != NO_SITE {
            self.shares.note_crowded(&recipient.address, crowded_site, now_ns);
        }
        if !matches!(recipient.state, Some(State::Done | State::Failed)) {
            let is_deferred = recipient.state == Some(State::Deferred);
            let (attempts, was_offered) = (recipient.attempts, true);
            loaded.kept.push(Left { index, attempts, is_deferred, was_offered, crowded_site, due_ns: 0 });
        }
        if let Some(at) = loaded.sites.iter().position(|(known, _)| *known == site) {
            loaded.sites[at].1 -= 1;
            if loaded.sites[at].1 == 0 {
                loaded.sites.swap_remove(at);
                self.shares.discharge(site, memory);
            }
        }
        if loaded.is_over() {
            self.end(slot, now_ns);
        }
    }

    /// Ends an attempt to deliver a message after the engine has returned all its recipients.
    pub(super) fn end(&mut self, slot: u32, now_ns: u64) {
        let Some(mut loaded) = self.slots[slot as usize].take() else { return };
        self.free_slots.push(slot);
        self.shares.unload(loaded.memory());
        self.give_up(&mut loaded, now_ns);
        let id = loaded.waiting.entry.id;
        if loaded.waiting.is_deleted {
            self.drop_report(id);
        }
        if loaded.kept.is_empty() {
            self.held.remove(&id);
        }
        if let Some(unreported) = self.unreported.get_mut(&id) {
            unreported.is_ended = true;
            unreported.is_over = loaded.kept.is_empty();
        } else if loaded.kept.is_empty() {
            self.segments.remove(&loaded.waiting.entry);
        }
        if loaded.kept.is_empty() {
            return;
        }
        let Loaded { mut waiting, mut kept, mut recipients, .. } = loaded;
        self.set_due(&mut kept, &recipients, waiting.expires_ns, now_ns);
        waiting.is_postponed = kept.iter().any(|one| one.crowded_site != NO_SITE);
        self.postponed += u64::from(waiting.is_postponed);
        if let Some(reason) = kept.iter().find_map(|one| recipients[one.index as usize].reason.take()) {
            waiting.reason = Some(reason);
        }
        (waiting.recipients, waiting.is_again) = (Some(kept), true);
        let at_ns = waiting.due_ns();
        self.park(waiting, at_ns);
    }

    /// Gives up the recipients of a message that is too old, and those of one that the user has deleted (RFC 5321
    /// section 4.5.4.1: from its arrival, tried or not).
    fn give_up(&mut self, loaded: &mut Loaded, now_ns: u64) {
        let is_deleted = loaded.waiting.is_deleted;
        if !is_deleted && (loaded.waiting.is_held || loaded.waiting.expires_ns > now_ns) {
            return;
        }
        for one in std::mem::take(&mut loaded.kept) {
            let recipient = &mut loaded.recipients[one.index as usize];
            let reason = recipient.reason.take().or_else(|| loaded.waiting.reason.clone());
            if is_deleted {
                self.settle_deleted(&loaded.waiting.entry, one, &recipient.address);
                continue;
            }
            let was_tried = one.attempts > 0 || one.is_deferred;
            if !was_tried && loaded.waiting.untried_expires_ns > now_ns {
                loaded.kept.push(one);
                continue;
            }
            let mut text = "5.4.7 the message could not be delivered in time".to_owned();
            match reason {
                Some(reason) if was_tried => text = format!("{text}; the last attempt: {reason}"),
                _ if was_tried => {}
                _ => text.push_str("; no connection was free for its server"),
            }
            let (address, number, host) = (recipient.address.clone(), u64::from(one.index), None);
            let (state, text) = (State::Failed, text.as_bytes());
            self.settle(loaded, &Report { number, address: &address, state, code: None, text, host });
        }
    }

    /// Sets the next attempt of the returned recipients. Those that were not tried in this attempt do not wait longer
    /// because others of the same message failed.
    fn set_due(&mut self, kept: &mut [Left], recipients: &[Recipient], expires_ns: u64, now_ns: u64) {
        // Recipients with the same number of failures stay together.
        let mut delays: Vec<(u32, u64)> = Vec::new();
        for one in kept.iter_mut().filter(|one| one.due_ns == 0) {
            let recipient = &recipients[one.index as usize];
            let delay_ns = if let Some(until_ns) = recipient.suspended_ns {
                // No server has seen the recipient, so its next wait does not grow.
                until_ns.saturating_sub(now_ns)
            } else if recipient.reason.is_some() {
                one.attempts += 1;
                let known =
                    delays.iter().find(|(attempts, _)| *attempts == one.attempts).map(|(_, delay_ns)| *delay_ns);
                known.unwrap_or_else(|| {
                    let delay_ns = self.handling.patience.backoff.delay_ns(one.attempts, &mut self.rng);
                    delays.push((one.attempts, delay_ns));
                    delay_ns
                })
            } else {
                POSTPONED_NS + (self.postponed + 1) * POSTPONED_EACH_NS
            };
            // The last attempt is made when the message is too old, not later.
            one.due_ns = now_ns.saturating_add(delay_ns).min(expires_ns.max(now_ns.saturating_add(POSTPONED_NS)));
        }
    }

    /// Keeps a message until a time.
    pub(super) fn park(&mut self, mut waiting: Waiting, at_ns: u64) {
        let at_ns = if waiting.is_held { u64::MAX } else { at_ns };
        waiting.wake_ns = at_ns;
        let place = self.free.pop().unwrap_or_else(|| {
            self.parked.push(None);
            self.parked.len() as u64 - 1
        });
        self.parked[place as usize] = Some(waiting);
        self.deferred.push(Reverse((at_ns, place)));
    }
}
