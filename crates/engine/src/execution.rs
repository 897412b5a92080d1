//! The passes of a run in their order: rounds, waits for the host to settle, the time limit, interruption, and the
//! adaptive rounds after the planned ones.

use crate::adaptive::{Assessor, Limits, Progress};
use crate::affinity::OtherProcessors;
use crate::driver::{Bounds, Driver};
use crate::{Error, Event, Observer, Plan, Planned};
use landau_record::schema::{Cut, End, EndOutcome, Line, Note, Outcome, PassEnd, PassStart};
use landau_record::{Journal, Record};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest wait for the host to settle: `TIME_WAIT` lasts 60 s on Linux.
const SETTLE: Duration = Duration::from_secs(65);

/// A pass that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    case: u32,
    round: u32,
    /// The phases that are not resolved; none for a planned pass.
    adaptive_for: Vec<String>,
}

/// What a run needs besides its plan and its journal.
pub(crate) struct Means<'a> {
    pub(crate) driver: &'a mut dyn Driver,
    pub(crate) assessor: Option<&'a mut dyn Assessor>,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// The loop over the passes of a run: what is left to measure, and how long passes have taken.
pub(crate) struct Execution<'a> {
    plan: &'a Plan,
    writer: &'a mut dyn Journal,
    means: Means<'a>,
    next_pass: u32,
    /// The cases and rounds that were measured before this run was resumed.
    finished: BTreeSet<(u32, u32)>,
    /// The last adaptive round that began before this run was resumed.
    adaptive_round: Option<u32>,
    /// How long the planned passes took so far.
    planned_time: Duration,
    /// How long adaptive passes took before this run was resumed.
    adaptive_before: Duration,
    progress: Progress,
    has_failed: bool,
    unsettled_noted: bool,
    /// Passes that the time limit left out, by case.
    left_out: BTreeMap<u32, u32>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(plan: &'a Plan, writer: &'a mut dyn Journal, means: Means<'a>) -> Self {
        Self {
            plan,
            writer,
            means,
            next_pass: 0,
            finished: BTreeSet::new(),
            adaptive_round: None,
            planned_time: Duration::ZERO,
            adaptive_before: Duration::ZERO,
            progress: Progress::default(),
            has_failed: false,
            unsettled_noted: false,
            left_out: BTreeMap::new(),
        }
    }

    /// Leaves out what a record holds already.
    pub(crate) fn skip_finished(&mut self, record: &Record) {
        self.next_pass = record.passes.iter().map(|pass| pass.start.pass + 1).max().unwrap_or(0);
        for pass in &record.passes {
            let start = &pass.start;
            if start.round >= self.plan.pass_count {
                self.adaptive_round = self.adaptive_round.max(Some(start.round));
            }
            let Some(end) = pass.end.as_ref().filter(|_| pass.is_complete()) else { continue };
            let duration = Duration::from_millis(end.elapsed_ms);
            if self.finished.insert((start.case, start.round)) {
                *self.progress.passes.entry(start.case).or_default() += 1;
            }
            self.progress.durations.insert(start.case, duration);
            let time = if start.is_adaptive() { &mut self.adaptive_before } else { &mut self.planned_time };
            *time += duration;
        }
    }

    /// Measures everything that is left.
    pub(crate) fn run(mut self) -> Result<End, Error> {
        let todo = self.remaining();
        self.announce(todo.len());
        let mut ending = self.passes(&todo)?;
        if ending == EndOutcome::Complete
            && let Some(limits) =
                Limits::of(self.plan.adaptive, self.plan.study, self.plan.pass_count, self.planned_time)
        {
            ending = self.adaptive_rounds(&limits)?;
        }
        for (case, pass_count) in std::mem::take(&mut self.left_out) {
            self.cut(case, pass_count, "the time limit left no room for them")?;
        }
        // The record says what was cut; a failure must not hide behind it.
        if self.has_failed && ending != EndOutcome::Interrupted {
            ending = EndOutcome::Failed;
        }
        let elapsed_ms = self.means.driver.elapsed().as_millis() as u64;
        self.writer.sync()?;
        Ok(End { outcome: ending, line_count: 0, elapsed_ms })
    }

    fn announce(&mut self, pass_count: usize) {
        let observer = &mut self.means.observer;
        observer.event(&Event::Started { pass_count });
        for skip in &self.plan.skips {
            observer.event(&Event::Skipped(skip));
        }
        for planned in &self.plan.cases {
            if let Some(reduced) = &planned.case.reduced {
                let reason = format!("{} instead of {}: {}", planned.case.n, reduced.requested, reduced.reason);
                observer.event(&Event::Reduced { label: &planned.case.label, reason: &reason });
            }
        }
    }

    /// Returns the planned passes that are left, in order of execution.
    fn remaining(&self) -> Vec<Slot> {
        let slot = |round| move |case| Slot { case, round, adaptive_for: Vec::new() };
        let is_left = |slot: &Slot| {
            let planned = &self.plan.cases[slot.case as usize];
            self.plan.is_in_round(planned, slot.round) && !self.finished.contains(&(slot.case, slot.round))
        };
        (0..self.plan.pass_count)
            .flat_map(|round| self.order_of(round).into_iter().map(slot(round)))
            .filter(is_left)
            .collect()
    }

    /// Returns the cases of a round in the order that the seed gives. Each round has another order, so that no case is
    /// always measured after the same one.
    fn order_of(&self, round: u32) -> Vec<u32> {
        let mut order: Vec<u32> = self.plan.cases.iter().map(|one| one.case.case).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(self.plan.seed.wrapping_add(u64::from(round))));
        order
    }

    /// Runs passes until all have run or something ends the run.
    fn passes(&mut self, todo: &[Slot]) -> Result<EndOutcome, Error> {
        let _elsewhere = OtherProcessors::than(self.plan.host.pinned_processor);
        let mut ending = EndOutcome::Complete;
        for (done, slot) in todo.iter().enumerate() {
            if (self.means.interrupted)() {
                return Ok(EndOutcome::Interrupted);
            }
            let is_adaptive = !slot.adaptive_for.is_empty();
            if !self.fits(slot.case) {
                // What the plan promised is missed; an adaptive pass is not.
                if !is_adaptive {
                    *self.left_out.entry(slot.case).or_default() += 1;
                    ending = EndOutcome::Cut;
                }
                continue;
            }
            match self.one_pass(slot, done, todo)?.outcome {
                Outcome::Interrupted => return Ok(EndOutcome::Interrupted),
                Outcome::Cut if !is_adaptive => ending = EndOutcome::Cut,
                Outcome::Failed => self.has_failed = true,
                Outcome::Done | Outcome::Limit | Outcome::Crashed | Outcome::Cut => {}
            }
        }
        Ok(ending)
    }

    /// Makes rounds of the cases that need further passes until none does or the limits are reached.
    fn adaptive_rounds(&mut self, limits: &Limits) -> Result<EndOutcome, Error> {
        let Some(assessor) = self.means.assessor.take() else { return Ok(EndOutcome::Complete) };
        let began = self.means.driver.elapsed();
        // A round that was interrupted is chosen again, by the same passes, and finished.
        let mut round = self.adaptive_round.unwrap_or(self.plan.pass_count);
        let mut made = 0;
        loop {
            if (self.means.interrupted)() {
                return Ok(EndOutcome::Interrupted);
            }
            self.writer.flush()?;
            let assessment = assessor.assess(round)?;
            let used = self.adaptive_before + self.means.driver.elapsed().saturating_sub(began);
            let choice = limits.choose(&assessment, &self.progress, self.time_left(limits, used));
            let todo = self.adaptive_slots(round, &choice.cases);
            let (unresolved, of) = (assessment.unresolved_count, assessment.curve_count);
            if todo.is_empty() && self.adaptive_round.is_none_or(|last| round > last) {
                if made > 0 || unresolved > 0 {
                    let reasons = choice.reasons(limits);
                    self.note(format!(
                        "{made} adaptive passes; {unresolved} of {of} curves are not resolved{reasons}"
                    ))?;
                }
                return Ok(EndOutcome::Complete);
            }
            self.means.observer.event(&Event::AdaptiveRound { round, pass_count: todo.len(), unresolved, of });
            if self.passes(&todo)? == EndOutcome::Interrupted {
                return Ok(EndOutcome::Interrupted);
            }
            made += todo.len();
            round += 1;
        }
    }

    /// Returns the passes of an adaptive round that are left, in the order that the seed gives.
    fn adaptive_slots(&self, round: u32, cases: &BTreeMap<u32, Vec<String>>) -> Vec<Slot> {
        let slot = |case| Some(Slot { case, round, adaptive_for: cases.get(&case)?.clone() });
        let slots = self.order_of(round).into_iter().filter_map(slot);
        slots.filter(|slot| !self.finished.contains(&(slot.case, round)) && self.fits(slot.case)).collect()
    }

    /// Returns how long adaptive passes may still take, if `used` is what they took so far.
    fn time_left(&self, limits: &Limits, used: Duration) -> Option<Duration> {
        let own = limits.time.map(|time| time.saturating_sub(used));
        let of_run = self.deadline().map(|deadline| deadline.saturating_sub(self.means.driver.elapsed()));
        own.into_iter().chain(of_run).min()
    }

    /// Returns whether another pass of the case is expected to end before the time limit; it is expected to take as
    /// long as the last.
    fn fits(&self, case: u32) -> bool {
        let expected = self.progress.durations.get(&case).copied().unwrap_or_default();
        self.deadline().is_none_or(|deadline| self.means.driver.elapsed() + expected < deadline)
    }

    /// Returns the time limit, counted like [`Driver::elapsed`].
    fn deadline(&self) -> Option<Duration> {
        self.plan.time_limit_s.map(Duration::from_secs)
    }

    fn cut(&mut self, case: u32, pass_count: u32, reason: &str) -> Result<(), Error> {
        let label = self.plan.cases[case as usize].case.label.clone();
        let cut = Cut { label, pass_count, reason: reason.to_owned() };
        self.writer.append(&Line::Cut(cut.clone()))?;
        self.means.observer.event(&Event::Cut(&cut));
        Ok(())
    }

    fn one_pass(&mut self, slot: &Slot, done: usize, todo: &[Slot]) -> Result<PassEnd, Error> {
        let Slot { case, round, adaptive_for } = slot.clone();
        let planned = &self.plan.cases[case as usize];
        self.settle(planned)?;
        let pass = self.next_pass;
        self.next_pass += 1;
        let at_ms = self.means.driver.elapsed().as_millis() as u64;
        let start = PassStart { pass, case, round, at_ms, adaptive_for };
        self.writer.append(&Line::Pass(start.clone()))?;
        let left = self.estimate(&todo[done..]);
        let (label, of) = (planned.case.label.as_str(), todo.len());
        let bounds = Bounds { deadline: self.deadline(), interrupted: self.means.interrupted };
        let Means { driver, observer, .. } = &mut self.means;
        observer.event(&Event::PassStarted { label, done, of, left });
        let end = driver.pass(planned, &start, &bounds, self.writer, *observer)?;
        self.progress.ended(case, &end);
        if !start.is_adaptive() {
            self.planned_time += Duration::from_millis(end.elapsed_ms);
        }
        self.means.observer.event(&Event::PassEnded { label, end: &end });
        Ok(end)
    }

    /// Returns how long the rest will take; none until every case in it has run once.
    fn estimate(&self, rest: &[Slot]) -> Option<Duration> {
        rest.iter().map(|slot| self.progress.durations.get(&slot.case).copied()).sum()
    }

    /// Waits, visibly and for a limited time, until nothing on the host would distort the curve. Otherwise adds a note
    /// to the record.
    fn settle(&mut self, planned: &Planned) -> Result<(), Error> {
        let began = self.means.driver.elapsed();
        while let Some(reason) = self.means.driver.unsettled(planned) {
            let now = self.means.driver.elapsed();
            let left = SETTLE.saturating_sub(now.saturating_sub(began));
            let out_of_time = left.is_zero() || self.deadline().is_some_and(|deadline| now >= deadline);
            if out_of_time || self.unsettled_noted || (self.means.interrupted)() {
                self.note(format!("{} was measured although {reason}", planned.case.label))?;
                self.unsettled_noted = true;
                return Ok(());
            }
            self.means.observer.event(&Event::Waiting { reason: &reason, left });
            self.means.driver.sleep(Duration::from_millis(500).min(left));
        }
        let waited = self.means.driver.elapsed().saturating_sub(began);
        if waited >= Duration::from_secs(1) {
            self.note(format!("waited {} s before {} for the host to settle", waited.as_secs(), planned.case.label))?;
        }
        Ok(())
    }

    fn note(&mut self, text: String) -> Result<(), Error> {
        self.means.observer.event(&Event::Note(&text));
        Ok(self.writer.append(&Line::Note(Note { text }))?)
    }
}

#[cfg(test)]
mod tests;
