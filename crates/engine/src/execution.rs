//! Makes the passes of a run in order. Handles rounds, waits for the host to settle, the time limit, interruption, and
//! the adaptive rounds after the planned ones.
//!
//! A run has one side or two. With two, a round has a pass of each case on both sides, one right after the other, so
//! that other activity of the machine affects both alike.

use crate::adaptive::{Assessment, Assessor, Limits, Progress};
use crate::affinity::OtherProcessors;
use crate::driver::{Bounds, Driver};
use crate::{Error, Event, HostSwitch, Observer, Plan, Planned};
use landau_record::schema::{Cut, End, EndOutcome, Line, Note, Outcome, PassEnd, PassStart, Role, Skip};
use landau_record::{Journal, Record};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest wait for the host to settle: `TIME_WAIT` lasts 60 s on Linux.
const SETTLE: Duration = Duration::from_secs(65);

/// An odd number that spreads the bits of a small one (2^64 over the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A pass to be made on each side.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    case: u32,
    round: u32,
    /// The phases that need the pass, because they are not resolved or have a wide interval; none for a planned pass.
    adaptive_for: Vec<String>,
}

/// A side of a run: its plan, its record, and the driver and assessor of its passes.
pub(crate) struct Track<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) writer: &'a mut dyn Journal,
    pub(crate) driver: &'a mut dyn Driver,
    pub(crate) assessor: Option<&'a mut dyn Assessor>,
    pub(crate) next_pass: u32,
}

impl Track<'_> {
    fn note(&mut self, text: &str) -> Result<(), Error> {
        Ok(self.writer.append(&Line::Note(Note { text: text.to_owned() }))?)
    }
}

/// The resources that both sides of a run share.
pub(crate) struct Means<'a> {
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    /// Switches the host for the passes of the new side.
    pub(crate) switch: Option<&'a mut dyn HostSwitch>,
}

/// The loop over the passes of a run, with the passes that are left and the times that passes have taken.
pub(crate) struct Execution<'a> {
    /// Properties of the whole run are taken from the first side.
    tracks: Vec<Track<'a>>,
    means: Means<'a>,
    /// The cases and rounds that were measured before this run was resumed.
    finished: BTreeSet<(u32, u32)>,
    /// The last adaptive round that began before this run was resumed.
    adaptive_round: Option<u32>,
    /// The time that the planned passes have taken so far.
    planned_time: Duration,
    /// The time that adaptive passes took before this run was resumed.
    adaptive_before: Duration,
    progress: Progress,
    has_failed: bool,
    unsettled_noted: bool,
    /// Passes that the time limit left out, by case.
    left_out: BTreeMap<u32, u32>,
    /// Adaptive passes of all sides that were not cut short.
    adaptive_made: usize,
}

/// Returns the cases and rounds for which every record has a complete pass.
pub(crate) fn finished(records: &[&Record]) -> BTreeSet<(u32, u32)> {
    let slots = |record: &&Record| -> BTreeSet<(u32, u32)> {
        let complete = record.passes.iter().filter(|pass| pass.is_complete());
        complete.map(|pass| (pass.start.case, pass.start.round)).collect()
    };
    records.iter().map(slots).reduce(|all, one| &all & &one).unwrap_or_default()
}

impl<'a> Execution<'a> {
    /// Returns the execution of a run with one side, or with two whose cases have the same numbers.
    pub(crate) fn new(tracks: Vec<Track<'a>>, means: Means<'a>) -> Self {
        Self {
            tracks,
            means,
            finished: BTreeSet::new(),
            adaptive_round: None,
            planned_time: Duration::ZERO,
            adaptive_before: Duration::ZERO,
            progress: Progress::default(),
            has_failed: false,
            unsettled_noted: false,
            left_out: BTreeMap::new(),
            adaptive_made: 0,
        }
    }

    /// Skips the passes that the records of the sides already contain. A pass whose counterpart is missing is made
    /// again: the two must follow each other.
    pub(crate) fn skip_finished(&mut self, records: &[&Record]) {
        let planned = self.plan().pass_count;
        for (track, record) in self.tracks.iter_mut().zip(records) {
            track.next_pass = record.passes.iter().map(|pass| pass.start.pass + 1).max().unwrap_or(0);
            let mut last = BTreeMap::new();
            for pass in &record.passes {
                let start = &pass.start;
                if start.round >= planned {
                    self.adaptive_round = self.adaptive_round.max(Some(start.round));
                }
                let Some(end) = pass.end.as_ref().filter(|_| pass.is_complete()) else { continue };
                let duration = Duration::from_millis(end.elapsed_ms);
                last.insert(start.case, duration);
                let time = if start.is_adaptive() { &mut self.adaptive_before } else { &mut self.planned_time };
                *time += duration;
            }
            for (case, duration) in last {
                *self.progress.durations.entry(case).or_default() += duration;
            }
        }
        self.finished = finished(records);
        for (case, _) in &self.finished {
            *self.progress.passes.entry(*case).or_default() += 1;
        }
    }

    /// Returns the plan of the first side.
    fn plan(&self) -> &'a Plan {
        self.tracks[0].plan
    }

    /// Returns the time since the run, or its resumption, began.
    fn elapsed(&self) -> Duration {
        self.tracks[0].driver.elapsed()
    }

    /// Measures everything that is left.
    pub(crate) fn run(mut self) -> Result<End, Error> {
        let (plan, todo) = (self.plan(), self.remaining());
        self.announce(todo.len());
        let mut ending = self.passes(&todo)?;
        if ending == EndOutcome::Complete
            && let Some(limits) =
                Limits::of(plan.adaptive, plan.study, plan.pass_count, self.planned_time, self.tracks.len() as u32)
        {
            ending = self.adaptive_rounds(&limits)?;
        }
        for (case, pass_count) in std::mem::take(&mut self.left_out) {
            self.cut(case, pass_count, "the time limit left no time for them")?;
        }
        // The record lists the cuts, so a cut must not hide a failure.
        if self.has_failed && ending != EndOutcome::Interrupted {
            ending = EndOutcome::Failed;
        }
        let elapsed_ms = self.elapsed().as_millis() as u64;
        for track in &mut self.tracks {
            track.writer.sync()?;
        }
        Ok(End { outcome: ending, line_count: 0, elapsed_ms })
    }

    /// Announces the run to the observer; `slots` is the number of passes of each side.
    fn announce(&mut self, slots: usize) {
        let observer = &mut self.means.observer;
        observer.event(&Event::Started { pass_count: slots * self.tracks.len() });
        for (place, track) in self.tracks.iter().enumerate() {
            let plan = track.plan;
            // A case that both sides skip is announced once.
            let is_known = |skip: &Skip| self.tracks[..place].iter().any(|other| other.plan.skips.contains(skip));
            for skip in plan.skips.iter().filter(|skip| !is_known(skip)) {
                observer.event(&Event::Skipped(skip));
            }
            for planned in plan.cases.iter().filter(|_| place == 0) {
                if let Some(reduced) = &planned.case.reduced {
                    let reason = format!("{} instead of {}: {}", planned.case.n, reduced.requested, reduced.reason);
                    observer.event(&Event::Reduced { label: &planned.case.label, reason: &reason });
                }
            }
        }
    }

    /// Returns the planned passes that are left, in order of execution.
    fn remaining(&self) -> Vec<Slot> {
        let slot = |round| move |case| Slot { case, round, adaptive_for: Vec::new() };
        let is_left = |slot: &Slot| {
            let planned = &self.plan().cases[slot.case as usize];
            self.plan().is_in_round(planned, slot.round) && !self.finished.contains(&(slot.case, slot.round))
        };
        (0..self.plan().pass_count)
            .flat_map(|round| self.order_of(round).into_iter().map(slot(round)))
            .filter(is_left)
            .collect()
    }

    /// Returns the cases of a round in the order that the seed gives. Each round has a different order, so that no case
    /// is always measured after the same one.
    fn order_of(&self, round: u32) -> Vec<u32> {
        let mut order: Vec<u32> = self.plan().cases.iter().map(|one| one.case.case).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(self.plan().seed.wrapping_add(u64::from(round))));
        order
    }

    /// Returns the sides in the order of their passes. One of two successive rounds begins with the new side; the seed
    /// determines which. So neither side is always measured on what the other has left behind.
    fn sides(&self, slot: &Slot) -> Vec<usize> {
        let mut sides: Vec<usize> = (0..self.tracks.len()).collect();
        let of_rounds = (u64::from(slot.case) << 32) | u64::from(slot.round / 2);
        let mut random = ChaCha8Rng::seed_from_u64(self.plan().seed ^ of_rounds.wrapping_mul(SPREAD));
        if random.random::<bool>() != (slot.round % 2 == 1) {
            sides.reverse();
        }
        sides
    }

    /// Runs passes until all have run or something ends the run.
    fn passes(&mut self, todo: &[Slot]) -> Result<EndOutcome, Error> {
        let _elsewhere = OtherProcessors::than(self.plan().host.pinned_processor);
        let mut ending = EndOutcome::Complete;
        for (done, slot) in todo.iter().enumerate() {
            if (self.means.interrupted)() {
                return Ok(EndOutcome::Interrupted);
            }
            let is_adaptive = !slot.adaptive_for.is_empty();
            if !self.fits(slot.case) {
                // A planned pass that is left out cuts the run; an adaptive pass does not.
                if !is_adaptive {
                    *self.left_out.entry(slot.case).or_default() += 1;
                    ending = EndOutcome::Cut;
                }
                continue;
            }
            let mut ends = Vec::new();
            for side in self.sides(slot) {
                if !self.enter(side)? {
                    return Ok(EndOutcome::Interrupted);
                }
                let end = self.one_pass(side, slot, done, todo)?;
                let outcome = end.outcome;
                ends.push(end);
                match outcome {
                    Outcome::Interrupted => return Ok(EndOutcome::Interrupted),
                    Outcome::Cut => {
                        ending = if is_adaptive { ending } else { EndOutcome::Cut };
                        break;
                    }
                    Outcome::Failed => self.has_failed = true,
                    Outcome::Done | Outcome::Limit | Outcome::Crashed => {}
                }
            }
            self.progress.ended(slot.case, &ends, self.tracks.len());
        }
        Ok(ending)
    }

    /// Switches the host to the state that a side needs; returns false if that was interrupted.
    fn enter(&mut self, side: usize) -> Result<bool, Error> {
        let Some(switch) = self.means.switch.as_deref_mut() else { return Ok(true) };
        let is_new = self.tracks[side].plan.side.as_ref().is_some_and(|side| side.role == Role::New);
        match if is_new { switch.turn_on(self.means.interrupted) } else { switch.turn_off() } {
            Err(_) if is_new && (self.means.interrupted)() => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Makes rounds of the cases that need further passes, until no case needs any or the limits are reached.
    fn adaptive_rounds(&mut self, limits: &Limits) -> Result<EndOutcome, Error> {
        let mut assessors: Vec<_> = self.tracks.iter_mut().filter_map(|track| track.assessor.take()).collect();
        if assessors.len() < self.tracks.len() {
            return Ok(EndOutcome::Complete);
        }
        let began = self.elapsed();
        // An interrupted round is chosen again, from the same passes as before, and then finished.
        let mut round = self.adaptive_round.unwrap_or(self.plan().pass_count);
        loop {
            if (self.means.interrupted)() {
                return Ok(EndOutcome::Interrupted);
            }
            let mut assessment = Assessment::default();
            for (track, assessor) in self.tracks.iter_mut().zip(&mut assessors) {
                track.writer.flush()?;
                assessment.join(assessor.assess(round)?);
            }
            let used = self.adaptive_before + self.elapsed().saturating_sub(began);
            let choice = limits.choose(&assessment, &self.progress, self.time_left(limits, used));
            let todo = self.adaptive_slots(round, &choice.cases);
            let (unresolved, of, made) = (assessment.unresolved_count, assessment.curve_count, self.adaptive_made);
            if todo.is_empty() && self.adaptive_round.is_none_or(|last| round > last) {
                if made > 0 || unresolved > 0 {
                    let reasons = choice.reasons(limits);
                    self.note_everywhere(&format!(
                        "{made} adaptive {}; {unresolved} of {of} curves {} not resolved{reasons}",
                        if made == 1 { "pass" } else { "passes" },
                        if unresolved == 1 { "is" } else { "are" }
                    ))?;
                }
                return Ok(EndOutcome::Complete);
            }
            let pass_count = todo.len() * self.tracks.len();
            self.means.observer.event(&Event::AdaptiveRound { round, pass_count, unresolved, of });
            if self.passes(&todo)? == EndOutcome::Interrupted {
                return Ok(EndOutcome::Interrupted);
            }
            round += 1;
        }
    }

    /// Returns the passes of an adaptive round that are left, in the order that the seed gives.
    fn adaptive_slots(&self, round: u32, cases: &BTreeMap<u32, Vec<String>>) -> Vec<Slot> {
        let slot = |case| Some(Slot { case, round, adaptive_for: cases.get(&case)?.clone() });
        let slots = self.order_of(round).into_iter().filter_map(slot);
        slots.filter(|slot| !self.finished.contains(&(slot.case, round)) && self.fits(slot.case)).collect()
    }

    /// Returns how long adaptive passes may still take, given the time `used` so far.
    fn time_left(&self, limits: &Limits, used: Duration) -> Option<Duration> {
        let own = limits.time.map(|time| time.saturating_sub(used));
        let of_run = self.deadline().map(|deadline| deadline.saturating_sub(self.elapsed()));
        own.into_iter().chain(of_run).min()
    }

    /// Returns whether another pass of the case on each side is expected to end before the time limit. It is expected
    /// to take as long as the last one.
    fn fits(&self, case: u32) -> bool {
        let expected = self.progress.durations.get(&case).copied().unwrap_or_default();
        self.deadline().is_none_or(|deadline| self.elapsed() + expected < deadline)
    }

    /// Returns the time limit, counted like [`Driver::elapsed`].
    fn deadline(&self) -> Option<Duration> {
        self.plan().time_limit_s.map(Duration::from_secs)
    }

    fn cut(&mut self, case: u32, pass_count: u32, reason: &str) -> Result<(), Error> {
        let label = self.plan().cases[case as usize].case.label.clone();
        let cut = Cut { label, pass_count, reason: reason.to_owned() };
        for track in &mut self.tracks {
            track.writer.append(&Line::Cut(cut.clone()))?;
        }
        self.means.observer.event(&Event::Cut(&cut));
        Ok(())
    }

    fn one_pass(&mut self, side: usize, slot: &Slot, done: usize, todo: &[Slot]) -> Result<PassEnd, Error> {
        let Slot { case, round, adaptive_for } = slot.clone();
        let plan = self.tracks[side].plan;
        let planned = &plan.cases[case as usize];
        self.settle(side, planned)?;
        let (left, of, deadline) = (self.estimate(&todo[done..]), todo.len(), self.deadline());
        let track = &mut self.tracks[side];
        let pass = track.next_pass;
        track.next_pass += 1;
        let at_ms = track.driver.elapsed().as_millis() as u64;
        let start = PassStart { pass, case, round, at_ms, adaptive_for };
        track.writer.append(&Line::Pass(start.clone()))?;
        let label = planned.case.label.as_str();
        let bounds = Bounds { deadline, interrupted: self.means.interrupted };
        let role = plan.side.as_ref().map(|side| side.role);
        self.means.observer.event(&Event::PassStarted { label, role, done, of, left });
        let end = track.driver.pass(planned, &start, &bounds, track.writer, self.means.observer)?;
        if !start.is_adaptive() {
            self.planned_time += Duration::from_millis(end.elapsed_ms);
        } else if !matches!(end.outcome, Outcome::Cut | Outcome::Interrupted) {
            self.adaptive_made += 1;
        }
        self.means.observer.event(&Event::PassEnded { label, end: &end });
        Ok(end)
    }

    /// Returns how long the rest will take; none until every case in it has run once.
    fn estimate(&self, rest: &[Slot]) -> Option<Duration> {
        rest.iter().map(|slot| self.progress.durations.get(&slot.case).copied()).sum()
    }

    /// Waits, visibly and for a limited time, until no leftovers on the host would distort the curve. Adds a note to
    /// the record if some remain.
    fn settle(&mut self, side: usize, planned: &Planned) -> Result<(), Error> {
        let began = self.elapsed();
        while let Some(reason) = self.tracks[side].driver.unsettled(planned) {
            let now = self.elapsed();
            let left = SETTLE.saturating_sub(now.saturating_sub(began));
            let out_of_time = left.is_zero() || self.deadline().is_some_and(|deadline| now >= deadline);
            if out_of_time || self.unsettled_noted || (self.means.interrupted)() {
                self.note(side, &format!("{} was measured although {reason}", planned.case.label))?;
                self.unsettled_noted = true;
                return Ok(());
            }
            self.means.observer.event(&Event::Waiting { reason: &reason, left });
            self.tracks[side].driver.sleep(Duration::from_millis(500).min(left));
        }
        let waited = self.elapsed().saturating_sub(began);
        if waited >= Duration::from_secs(1) {
            let text = format!("waited {} s before {} for the host to settle", waited.as_secs(), planned.case.label);
            self.note(side, &text)?;
        }
        Ok(())
    }

    /// Adds a note to the record of one side.
    fn note(&mut self, side: usize, text: &str) -> Result<(), Error> {
        self.means.observer.event(&Event::Note(text));
        self.tracks[side].note(text)
    }

    /// Adds a note about the run to the record of each side.
    fn note_everywhere(&mut self, text: &str) -> Result<(), Error> {
        self.means.observer.event(&Event::Note(text));
        self.tracks.iter_mut().try_for_each(|track| track.note(text))
    }
}

#[cfg(test)]
mod tests;
