//! The passes of a run in their order: rounds, waits for the host to settle, the time limit, interruption.

use crate::affinity::OtherProcessors;
use crate::pass::{self, Bounds};
use crate::{Error, Event, Observer, Plan, Planned, Session};
use landau_record::schema::{Cut, End, EndOutcome, Line, Note, Outcome, PassEnd, PassStart};
use landau_record::{Journal, Record};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The longest wait for the host to settle: `TIME_WAIT` lasts 60 s on Linux.
const SETTLE: Duration = Duration::from_secs(65);

/// A pass that is planned: the case and the round.
type Slot = (u32, u32);

/// The loop over the passes of a run: what is left to measure, and how long passes have taken.
pub(crate) struct Execution<'a> {
    plan: &'a Plan,
    writer: &'a mut dyn Journal,
    observer: &'a mut dyn Observer,
    interrupted: &'a dyn Fn() -> bool,
    scratch: PathBuf,
    began: Instant,
    next_pass: u32,
    /// What was measured before this run was resumed.
    finished: BTreeSet<Slot>,
    /// How long the last pass of each case took.
    durations: BTreeMap<u32, Duration>,
    failed: bool,
    unsettled_noted: bool,
    /// Passes that the time limit left out, by case.
    left_out: BTreeMap<u32, u32>,
}

impl<'a> Execution<'a> {
    pub(crate) fn new(plan: &'a Plan, writer: &'a mut dyn Journal, session: Session<'a>) -> Self {
        let Session { command: _, scratch, observer, interrupted } = session;
        Self {
            plan,
            writer,
            observer,
            interrupted,
            scratch: scratch.path().to_owned(),
            began: Instant::now(),
            next_pass: 0,
            finished: BTreeSet::new(),
            durations: BTreeMap::new(),
            failed: false,
            unsettled_noted: false,
            left_out: BTreeMap::new(),
        }
    }

    /// Leaves out what a record holds already.
    pub(crate) fn skip_finished(&mut self, record: &Record) {
        self.next_pass = record.passes.iter().map(|pass| pass.start.pass + 1).max().unwrap_or(0);
        for pass in record.passes.iter().filter(|pass| pass.is_complete()) {
            self.finished.insert((pass.start.case, pass.start.round));
            if let Some(end) = &pass.end {
                self.durations.insert(pass.start.case, Duration::from_millis(end.elapsed_ms));
            }
        }
    }

    /// Measures everything that is left.
    pub(crate) fn run(mut self) -> Result<End, Error> {
        let todo = self.remaining();
        self.announce(todo.len());
        let _elsewhere = OtherProcessors::than(self.plan.host.pinned_processor);
        let mut ending = self.passes(&todo)?;
        for (case, pass_count) in std::mem::take(&mut self.left_out) {
            self.cut(case, pass_count, "the time limit left no room for them")?;
        }
        // The record says what was cut; a failure must not hide behind it.
        if self.failed && ending != EndOutcome::Interrupted {
            ending = EndOutcome::Failed;
        }
        let end = End { outcome: ending, line_count: 0, elapsed_ms: self.began.elapsed().as_millis() as u64 };
        self.writer.sync()?;
        Ok(end)
    }

    fn announce(&mut self, pass_count: usize) {
        self.observer.event(&Event::Started { pass_count });
        for skip in &self.plan.skips {
            self.observer.event(&Event::Skipped(skip));
        }
        for planned in &self.plan.cases {
            if let Some(reduced) = &planned.case.reduced {
                let reason = format!("{} instead of {}: {}", planned.case.n, reduced.requested, reduced.reason);
                self.observer.event(&Event::Reduced { label: &planned.case.label, reason: &reason });
            }
        }
    }

    /// Returns what is left to measure, in order of execution.
    fn remaining(&self) -> Vec<Slot> {
        (0..self.plan.pass_count)
            .flat_map(|round| self.order_of(round).into_iter().map(move |case| (case, round)))
            .filter(|slot| !self.finished.contains(slot))
            .collect()
    }

    /// Returns the cases of a round in the order that the seed gives. Each round has another order, so that no case is
    /// always measured after the same one.
    fn order_of(&self, round: u32) -> Vec<u32> {
        let mut order: Vec<u32> = self.plan.cases.iter().map(|one| one.case.case).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(self.plan.seed.wrapping_add(u64::from(round))));
        order
    }

    /// Runs the passes until all have run or something ends the run.
    fn passes(&mut self, todo: &[Slot]) -> Result<EndOutcome, Error> {
        let mut ending = EndOutcome::Complete;
        for (done, &(case, round)) in todo.iter().enumerate() {
            if (self.interrupted)() {
                return Ok(EndOutcome::Interrupted);
            }
            if !self.fits(case) {
                *self.left_out.entry(case).or_default() += 1;
                ending = EndOutcome::Cut;
                continue;
            }
            match self.one_pass(case, round, done, todo)?.outcome {
                Outcome::Interrupted => return Ok(EndOutcome::Interrupted),
                Outcome::Cut => ending = EndOutcome::Cut,
                Outcome::Failed => self.failed = true,
                Outcome::Done | Outcome::Limit | Outcome::Crashed => {}
            }
        }
        Ok(ending)
    }

    /// Returns whether another pass of the case is expected to end before the time limit; it is expected to take as
    /// long as the last.
    fn fits(&self, case: u32) -> bool {
        let expected = self.durations.get(&case).copied().unwrap_or_default();
        self.deadline().is_none_or(|deadline| Instant::now() + expected < deadline)
    }

    fn deadline(&self) -> Option<Instant> {
        // A limit beyond what the clock can represent is no limit.
        self.plan.time_limit_s.and_then(|seconds| self.began.checked_add(Duration::from_secs(seconds)))
    }

    fn cut(&mut self, case: u32, pass_count: u32, reason: &str) -> Result<(), Error> {
        let label = self.plan.cases[case as usize].case.label.clone();
        let cut = Cut { label, pass_count, reason: reason.to_owned() };
        self.writer.append(&Line::Cut(cut.clone()))?;
        self.observer.event(&Event::Cut(&cut));
        Ok(())
    }

    fn one_pass(&mut self, case: u32, round: u32, done: usize, todo: &[Slot]) -> Result<PassEnd, Error> {
        let plan = self.plan;
        let planned = &plan.cases[case as usize];
        self.settle(planned)?;
        let pass = self.next_pass;
        self.next_pass += 1;
        let at_ms = self.began.elapsed().as_millis() as u64;
        let start = PassStart { pass, case, round, at_ms };
        self.writer.append(&Line::Pass(start.clone()))?;
        let left = self.estimate(&todo[done..]);
        let (label, of) = (planned.case.label.as_str(), todo.len());
        self.observer.event(&Event::PassStarted { label, done, of, left });
        let bounds = Bounds { deadline: self.deadline(), interrupted: self.interrupted };
        let end = pass::run(plan, planned, &start, &self.scratch, &bounds, self.writer, self.observer)?;
        self.durations.insert(case, Duration::from_millis(end.elapsed_ms));
        self.observer.event(&Event::PassEnded { label, end: &end });
        Ok(end)
    }

    /// Returns how long the rest will take; none until every case in it has run once.
    fn estimate(&self, rest: &[Slot]) -> Option<Duration> {
        rest.iter().map(|(case, _)| self.durations.get(case).copied()).sum()
    }

    /// Waits, visibly and for a limited time, until nothing on the host would distort the curve. Otherwise adds a note
    /// to the record.
    fn settle(&mut self, planned: &Planned) -> Result<(), Error> {
        let began = Instant::now();
        while let Some(reason) = (planned.entry.unsettled)(&planned.settings) {
            let left = SETTLE.saturating_sub(began.elapsed());
            let out_of_time = left.is_zero() || self.deadline().is_some_and(|deadline| Instant::now() >= deadline);
            if out_of_time || self.unsettled_noted || (self.interrupted)() {
                self.note(format!("{} was measured although {reason}", planned.case.label))?;
                self.unsettled_noted = true;
                return Ok(());
            }
            self.observer.event(&Event::Waiting { reason: &reason, left });
            std::thread::sleep(Duration::from_millis(500).min(left));
        }
        let waited = began.elapsed();
        if waited >= Duration::from_secs(1) {
            self.note(format!("waited {} s before {} for the host to settle", waited.as_secs(), planned.case.label))?;
        }
        Ok(())
    }

    fn note(&mut self, text: String) -> Result<(), Error> {
        self.observer.event(&Event::Note(&text));
        Ok(self.writer.append(&Line::Note(Note { text }))?)
    }
}
