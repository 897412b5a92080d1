//! The checks of the simulation of a queue: of each line of the relay's ledger when it is written, and of the queue at
//! each start.

use super::super::senders::About;
use super::records::{Outcome, Place, Recorded};
use super::{Case, Reply};
use crate::ledger::Sync;
use crate::queue::Found;
use crate::queue::tests::{Seen, seen};
use landau_wire::smtp::parameter::Notify;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum error of ages that are computed from milliseconds.
const ROUNDING: Duration = Duration::from_millis(5);

/// A report that a start has found.
#[derive(Debug)]
pub(super) struct Queued {
    /// The number of its recipient.
    to: u32,
    at_ms: u64,
}

impl Case {
    fn fail(&self, what: &str) -> ! {
        panic!("seed {}, {:?}, {:?}: {what}", self.scenario.seed, self.sync, self.counts)
    }

    fn is_old(&self, at_ns: u64) -> bool {
        Duration::from_nanos(self.now_ns().saturating_sub(at_ns)) + ROUNDING >= self.lifetime
    }

    /// Returns the letter of a message, and the number of a recipient of it.
    fn letter_of(&self, (id, index): Place) -> Option<(u32, u32)> {
        let letter = *self.ids.get(&id)?;
        Some((letter, self.letters[letter as usize].recipients.start + index))
    }

    /// Returns the subject of a report about a recipient.
    fn about(&self, place: Place) -> About {
        self.letter_of(place).map_or(About::Report(place.0), |(_, recipient)| About::Recipient(recipient))
    }

    /// Reads the new lines of the relay's ledger, and checks that they are true.
    pub(super) fn note_recorded(&mut self, now_ns: u64) {
        for Recorded { place, local, outcome } in self.records.read() {
            if self.records.finals.insert(place, outcome).is_some() {
                self.fail(&format!("{local} of {:X} is recorded again", place.0));
            }
            self.recent_records.push((now_ns, place));
            let is_true = match self.letter_of(place) {
                Some((letter, recipient)) => self.is_letters_outcome(letter, recipient, outcome),
                None => self.is_reports_outcome(place.0, &local, outcome),
            };
            if !is_true {
                self.fail(&format!("{local} of {:X} is recorded as {outcome:?}", place.0));
            }
        }
    }

    fn is_letters_outcome(&self, letter: u32, recipient: u32, outcome: Outcome) -> bool {
        let (world, posted) = (self.world.borrow(), &self.letters[letter as usize]);
        match outcome {
            Outcome::Sent => world.accepted[recipient as usize] > 0,
            Outcome::Deleted => posted.is_deleted,
            Outcome::Failed => {
                let senders = &world.senders;
                let is_refused = senders.refused.contains(&recipient) || senders.refused_senders.contains(&letter);
                drop(world);
                is_refused || self.is_old(posted.at_ns)
            }
        }
    }

    fn is_reports_outcome(&mut self, id: u64, local: &str, outcome: Outcome) -> bool {
        let world = self.world.borrow();
        let to = world.number(local);
        match outcome {
            Outcome::Sent => world.senders.accepted.contains(&id),
            // Users delete only letters.
            Outcome::Deleted => false,
            Outcome::Failed => {
                let is_refused = world.senders.refused.contains(&to);
                let has_failed = to != world.senders.postmaster();
                drop(world);
                self.records.failed_reports.insert(to);
                self.failed.extend(has_failed.then_some(id));
                is_refused || self.is_old(0)
            }
        }
    }

    /// Records that all data was written: data written before a certain time survives a system crash.
    pub(super) fn note_written(&mut self, now_ns: u64, is_letters: bool) {
        let until_ns = match self.sync {
            Sync::Always => now_ns,
            Sync::Interval(interval) => now_ns.saturating_sub(interval.as_nanos() as u64),
            Sync::Never => return,
        };
        if is_letters {
            self.recent_letters.retain(|&(at_ns, _)| at_ns > until_ns);
        } else {
            self.recent_records.retain(|&(at_ns, _)| at_ns > until_ns);
        }
    }

    /// Forgets data that a system crash may have lost.
    pub(super) fn forget_recent(&mut self) {
        for (_, letter) in std::mem::take(&mut self.recent_letters) {
            self.letters[letter].reply = None;
        }
        for (_, place) in std::mem::take(&mut self.recent_records) {
            self.records.finals.remove(&place);
            // Either the report or the state of its subject may be lost.
            let about = self.about(place);
            self.excused.insert(about);
        }
    }

    /// Checks the queue found by a start.
    pub(super) fn check(&mut self, found: &Found) {
        self.note_recorded(self.now_ns());
        let left: BTreeMap<u64, Seen> = seen(found).into_iter().map(|one| (one.id, one)).collect();
        for one in left.values() {
            self.check_seen(one);
        }
        for (about, ids) in &self.world.borrow().senders.reports {
            self.reports.entry(*about).or_default().extend(ids);
        }
        for (about, ids) in &self.reports {
            if ids.len() > 1 && !self.excused.contains(about) {
                self.fail(&format!("{} reports of {about:?}: {ids:X?}", ids.len()));
            }
        }
        for letter in 0..self.letters.len() as u32 {
            let posted = &self.letters[letter as usize];
            let these = posted.id.and_then(|id| left.get(&id));
            for (recipient, index) in posted.recipients.clone().zip(0..) {
                let is_left = these.is_some_and(|one| one.left.contains(&index));
                self.check_recipient(letter, recipient, is_left);
            }
        }
        self.check_reports(&left);
        self.note_finals(&left);
        (self.was_killed, self.counts.failed) = (false, self.reports.len() as u32);
        // A start syncs the files that it finds.
        self.recent_letters.clear();
        self.recent_records.clear();
    }

    /// Checks a message that was found.
    fn check_seen(&mut self, one: &Seen) {
        let Seen { id, segment, left, about, is_held, to, at_ms } = one;
        if let Some(index) = left.iter().find(|&&index| self.records.finals.contains_key(&(*id, index))) {
            self.fail(&format!("recipient {index} of {id:X} was recorded and is left"));
        }
        if self.held.contains(id) && !is_held {
            self.fail(&format!("{id:X} is not held any more"));
        }
        if let Some(&letter) = self.ids.get(id) {
            let posted = &mut self.letters[letter as usize];
            let (before, reply) = (posted.segment.replace(*segment), posted.reply);
            if reply == Some(Reply::Refused) {
                self.fail(&format!("letter {letter} was refused and is in the queue"));
            }
            self.counts.moves += u32::from(before.is_some_and(|before| before != *segment));
            return;
        }
        let Some((message, indices)) = about else { self.fail(&format!("{id:X} never came")) };
        for &index in indices {
            let about = self.about((*message, index));
            self.reports.entry(about).or_default().insert(*id);
        }
        let to = self.world.borrow().number(to.split('@').next().unwrap_or_default());
        self.queued.insert(*id, Queued { to, at_ms: *at_ms });
    }

    /// Checks that a recipient is not lost, and is not left again.
    fn check_recipient(&self, letter: u32, recipient: u32, is_left: bool) {
        let posted = &self.letters[letter as usize];
        let was_final = self.is_final[recipient as usize];
        if is_left && was_final {
            self.fail(&format!("{recipient} is left again"));
        }
        let (Some(id), false) = (posted.id, is_left || was_final || posted.reply != Some(Reply::Accepted)) else {
            return;
        };
        let index = recipient - posted.recipients.start;
        let outcome = self.records.finals.get(&(id, index)).copied();
        let world = self.world.borrow();
        if outcome.is_none() {
            // The relay was killed between the write of the state and that of its line.
            let is_refused =
                world.senders.refused.contains(&recipient) || world.senders.refused_senders.contains(&letter);
            let is_known = world.accepted[recipient as usize] > 0 || posted.is_deleted || is_refused;
            if !(self.was_killed && (is_known || self.is_old(posted.at_ns))) {
                self.fail(&format!("{recipient} of letter {letter} is lost"));
            }
        }
        let may_be_sent = outcome.is_none() && world.accepted[recipient as usize] > 0;
        if posted.is_deleted || may_be_sent || matches!(outcome, Some(Outcome::Sent | Outcome::Deleted)) {
            return;
        }
        let to = if posted.has_sender { world.senders.sender(letter) } else { world.senders.postmaster() };
        drop(world);
        if self.is_told(posted.notify[index as usize], posted.has_sender)
            && !self.has_report(About::Recipient(recipient), to, posted.at_ns)
        {
            self.fail(&format!("nobody is told of {recipient} of letter {letter}"));
        }
    }

    /// Returns whether the failure of a recipient is reported to anybody.
    pub(super) fn is_told(&self, notify: Option<Notify>, has_sender: bool) -> bool {
        notify.is_none_or(|notify| notify.failure) && (has_sender || self.postmaster.is_some())
    }

    /// Returns whether there is, or was, a report to `to`. The report itself may have failed.
    fn has_report(&self, about: About, to: u32, at_ns: u64) -> bool {
        let is_refused = self.world.borrow().senders.refused.contains(&to);
        self.reports.contains_key(&about)
            || self.excused.contains(&about)
            || self.records.failed_reports.contains(&to)
            || (self.was_killed && (is_refused || self.is_old(at_ns)))
    }

    /// Checks that reports are not lost: those that the last start found, and those about reports that failed.
    fn check_reports(&mut self, left: &BTreeMap<u64, Seen>) {
        let gone: BTreeMap<u64, Queued> = self.queued.extract_if(.., |id, _| !left.contains_key(id)).collect();
        for (id, Queued { to, at_ms }) in gone {
            let world = self.world.borrow();
            let is_known = world.senders.accepted.contains(&id) || world.senders.refused.contains(&to);
            drop(world);
            let is_known = is_known || self.is_old(at_ms * 1_000_000);
            if !(self.records.finals.contains_key(&(id, 0)) || (self.was_killed && is_known)) {
                self.fail(&format!("report {id:X} is lost"));
            }
        }
        let postmaster = self.world.borrow().senders.postmaster();
        let is_unnamed = self.world.borrow().senders.has_unnamed || self.postmaster.is_none();
        for id in std::mem::take(&mut self.failed) {
            if !is_unnamed && !self.has_report(About::Report(id), postmaster, 0) {
                self.fail(&format!("the postmaster is not told of report {id:X}"));
            }
        }
    }

    /// Records the recipients that must not be sent to again: those that arrived and are not in the queue.
    fn note_finals(&mut self, left: &BTreeMap<u64, Seen>) {
        let mut held = BTreeSet::new();
        for (letter, posted) in self.letters.iter().enumerate() {
            let these = posted.id.and_then(|id| left.get(&id));
            for (recipient, index) in posted.recipients.clone().zip(0..) {
                let is_left = these.is_some_and(|one| one.left.contains(&index));
                self.is_final[recipient as usize] = !is_left && letter < self.come;
            }
            held.extend(these.filter(|one| one.is_held).into_iter().flat_map(|_| posted.recipients.clone()));
        }
        let world = &mut *self.world.borrow_mut();
        let others = world.senders.letters as usize + 1;
        world.is_final = self.is_final.iter().copied().chain(std::iter::repeat_n(false, others)).collect();
        let recorded = self.records.finals.keys().map(|(id, _)| *id);
        let known = world.senders.accepted.iter().copied().chain(recorded);
        world.senders.over = known.filter(|id| !left.contains_key(id)).collect();
        world.senders.held = held;
    }
}
