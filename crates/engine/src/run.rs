//! A run from its first line to its last: the order of the passes, the waits, the budget, the interruption.

use crate::pass::{self, Bounds};
use crate::{Entry, Error, Event, Host, Observer, Plan, Planned, Scratch, Settings, Study, scratch};
use landau_record::schema::{Cut, End, Header, Line, Note, Outcome, PassEnd, PassStart, Resume};
use landau_record::{Journal, Record, SCHEMA_VERSION};
use landau_sys::clock::Clock;
use landau_sys::system;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest a run waits for what lies about on the host: `TIME_WAIT` lasts 60 s on Linux.
const SETTLE: Duration = Duration::from_secs(65);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Everything was measured.
    Complete,
    /// The time limit left something out.
    Cut,
    /// The user ended it.
    Interrupted,
    /// At least one pass failed for a reason that is no limit.
    Failed,
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Cut => "cut",
            Ending::Interrupted => "interrupted",
            Ending::Failed => "failed",
        }
    }
}

/// What is left to do and what is known about how long it takes.
struct Course<'a> {
    plan: &'a Plan,
    writer: &'a mut dyn Journal,
    observer: &'a mut dyn Observer,
    interrupted: &'a dyn Fn() -> bool,
    scratch: PathBuf,
    began: Instant,
    next_pass: u32,
    /// Rounds that were measured before this run was resumed: case, round.
    finished: BTreeSet<(u32, u32)>,
    durations: BTreeMap<u32, Duration>,
    failed: bool,
    unsettled_noted: bool,
    /// Passes that the time limit left out, by case.
    left_out: BTreeMap<u32, u32>,
}

/// What a run works with, whether it is new or resumed.
pub struct Session<'a> {
    /// The command line, for the record.
    pub words: &'a [String],
    /// The folder for the benchmarks' files.
    pub scratch: &'a Scratch,
    /// Who watches.
    pub observer: &'a mut dyn Observer,
    /// Whether the user wants it to end.
    pub interrupted: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("words", &self.words).finish_non_exhaustive()
    }
}

/// Makes the record of a plan: measures everything in it. The caller appends figures
/// and the last line with the [`End`] that is returned beside the ending.
pub fn run<'a>(plan: &'a Plan, writer: &'a mut dyn Journal, session: Session<'a>) -> Result<(Ending, End), Error> {
    writer.append(&Line::Header(Header {
        schema: SCHEMA_VERSION,
        landau: env!("CARGO_PKG_VERSION").to_owned(),
        command: session.words.to_vec(),
        started: jiff::Timestamp::now().to_string(),
        seed: plan.seed,
        study: plan.study.name().to_owned(),
        pass_count: plan.pass_count,
        case_count: plan.cases.len() as u32,
        time_limit_s: plan.time_limit_s,
    }))?;
    writer.append(&Line::Host(Box::new(plan.host.clone())))?;
    for planned in &plan.cases {
        writer.append(&Line::Case(planned.case.clone()))?;
    }
    for skip in &plan.skips {
        writer.append(&Line::Skip(skip.clone()))?;
    }
    for text in &plan.notes {
        writer.append(&Line::Note(Note { text: text.clone() }))?;
    }
    writer.sync()?;
    let mut course = Course::new(plan, writer, session);
    course.announce();
    course.all_rounds()
}

/// Goes on with a record whose run was interrupted: measures the rounds that it lacks, within `time_limit_s` from now
/// or the limit that the run had.
pub fn resume(
    record: &Record,
    registry: &[Entry],
    time_limit_s: Option<u64>,
    writer: &mut dyn Journal,
    session: Session,
) -> Result<(Ending, End), Error> {
    let (host, _) = crate::describe_host(crate::Pinning::Free)?;
    let mut plan = plan_of(record, registry, &host)?;
    plan.time_limit_s = time_limit_s.or(plan.time_limit_s);
    check_room(&plan, Path::new(&record.path))?;
    writer.append(&Line::Resume(Resume {
        at: jiff::Timestamp::now().to_string(),
        command: session.words.to_vec(),
        torn_bytes: record.torn.as_ref().map_or(0, |torn| torn.bytes),
    }))?;
    for difference in differences(&record.host, &host) {
        writer.append(&Line::Note(Note { text: format!("resumed on another machine or setting: {difference}") }))?;
    }
    writer.sync()?;
    let Session { words, scratch, observer, interrupted } = session;
    let mut course = Course::new(&plan, writer, Session { words, scratch, observer, interrupted });
    course.next_pass = record.passes.iter().map(|pass| pass.start.pass + 1).max().unwrap_or(0);
    for pass in record.passes.iter().filter(|pass| pass.is_whole()) {
        course.finished.insert((pass.start.case, pass.start.round));
        if let Some(end) = &pass.end {
            course.durations.insert(pass.start.case, Duration::from_millis(end.elapsed_ms));
        }
    }
    course.announce();
    course.all_rounds()
}

/// The plan that a record was made by.
fn plan_of(record: &Record, registry: &[Entry], host: &Host) -> Result<Plan, Error> {
    let no = |reason: String| Error::NotResumable { path: record.path.clone(), reason };
    if let Some(fault) = &record.fault {
        return Err(no(format!("line {} was altered: {}", fault.line, fault.reason)));
    }
    if (&host.release, &host.version) != (&record.host.release, &record.host.version) {
        return Err(no(format!("it was made under kernel {}, this is {}", record.host.release, host.release)));
    }
    if record.cases.is_empty() || record.cases.len() < record.header.case_count as usize {
        return Err(no("its plan was not written down whole; nothing was measured, so start anew".to_owned()));
    }
    let mut cases = Vec::new();
    for case in &record.cases {
        let entry = registry.iter().find(|entry| entry.name == case.benchmark);
        let entry = entry.ok_or_else(|| no(format!("this landau has no benchmark `{}`", case.benchmark)))?;
        let settings = Settings::from_map(case.settings.clone());
        cases.push(Planned { case: case.clone(), entry: *entry, settings });
    }
    let study = Study::named(&record.header.study);
    // The clock is calibrated anew: its name must be the record's, its rate is this boot's.
    let clock = landau_sys::clock::candidates().into_iter().find(|one| one.clock.name() == record.host.clock.name);
    Ok(Plan {
        study: study.unwrap_or(Study::Quick),
        pass_count: record.header.pass_count,
        seed: record.header.seed,
        time_limit_s: record.header.time_limit_s,
        cases,
        skips: record.skips.clone(),
        host: record.host.clone(),
        clock: clock.map_or(Clock::Gettime, |probe| probe.clock),
        lockstep: false,
        fine: None,
        fault: None,
        notes: Vec::new(),
    })
}

/// What is no longer as it was when the run began: each would bend a curve and goes into the record.
fn differences(then: &Host, now: &Host) -> Vec<String> {
    let facts = |host: &Host| {
        let mut facts = BTreeMap::from([
            ("the processor".to_owned(), host.processor.clone()),
            ("the number of processors".to_owned(), host.processor_count.to_string()),
            ("the memory in bytes".to_owned(), host.memory_bytes.to_string()),
        ]);
        facts.extend(host.limits.iter().map(|(name, value)| (name.clone(), value.to_string())));
        facts.extend(host.sysctls.clone());
        facts
    };
    let now = facts(now);
    let changed = |(name, value): (String, String)| {
        let is = now.get(&name).map_or("unknown", String::as_str);
        (is != value).then(|| format!("{name} was {value} and is {is}"))
    };
    facts(then).into_iter().filter_map(changed).collect()
}

/// A record that cannot grow to its end is refused before anything is measured.
pub fn check_room(plan: &Plan, path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let needed = plan.record_bytes();
    match scratch::space(folder) {
        Some(free) if free < needed => {
            Err(Error::NoRoom { folder: folder.to_owned(), needed_mib: (needed >> 20) + 1, free_mib: free >> 20 })
        }
        _ => Ok(()),
    }
}

impl<'a> Course<'a> {
    fn new(plan: &'a Plan, writer: &'a mut dyn Journal, session: Session<'a>) -> Self {
        let Session { words: _, scratch, observer, interrupted } = session;
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

    fn announce(&mut self) {
        let pass_count = self.remaining(0).len();
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

    /// The rounds that are still to be measured, from one on, in order of execution.
    fn remaining(&self, from_round: u32) -> Vec<(u32, u32)> {
        (from_round..self.plan.pass_count)
            .flat_map(|round| self.order_of(round).into_iter().map(move |case| (case, round)))
            .filter(|key| !self.finished.contains(key))
            .collect()
    }

    /// The cases of a round in the order that the seed gives: each round has another, so that no case is always
    /// measured after the same one.
    fn order_of(&self, round: u32) -> Vec<u32> {
        let mut order: Vec<u32> = self.plan.cases.iter().map(|one| one.case.case).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(self.plan.seed.wrapping_add(u64::from(round))));
        order
    }

    fn all_rounds(mut self) -> Result<(Ending, End), Error> {
        let _elsewhere = Elsewhere::move_to(self.plan.host.pinned_processor);
        let todo = self.remaining(0);
        let mut ending = Ending::Complete;
        for (done, &(case, round)) in todo.iter().enumerate() {
            if (self.interrupted)() {
                ending = Ending::Interrupted;
                break;
            }
            if !self.fits(case) {
                *self.left_out.entry(case).or_default() += 1;
                ending = Ending::Cut;
                continue;
            }
            let end = self.one_pass(case, round, done, &todo)?;
            match end.outcome {
                Outcome::Interrupted => {
                    ending = Ending::Interrupted;
                    break;
                }
                Outcome::Cut => ending = Ending::Cut,
                Outcome::Failed => self.failed = true,
                Outcome::Done | Outcome::Limit | Outcome::Crashed => {}
            }
        }
        for (case, pass_count) in std::mem::take(&mut self.left_out) {
            self.cut(case, pass_count, "the time limit left no room for them")?;
        }
        // What was cut is in the record; a failure must not hide behind it.
        if self.failed && ending != Ending::Interrupted {
            ending = Ending::Failed;
        }
        let end = End {
            outcome: ending.name().to_owned(),
            line_count: 0,
            elapsed_ms: self.began.elapsed().as_millis() as u64,
        };
        self.writer.sync()?;
        Ok((ending, end))
    }

    /// Whether another pass of the case ends before the time limit, judged by its last one.
    fn fits(&self, case: u32) -> bool {
        let expected = self.durations.get(&case).copied().unwrap_or_default();
        self.deadline().is_none_or(|deadline| Instant::now() + expected < deadline)
    }

    fn deadline(&self) -> Option<Instant> {
        // One beyond what the clock can count is none.
        self.plan.time_limit_s.and_then(|seconds| self.began.checked_add(Duration::from_secs(seconds)))
    }

    fn cut(&mut self, case: u32, pass_count: u32, reason: &str) -> Result<(), Error> {
        let label = self.plan.cases[case as usize].case.label.clone();
        let cut = Cut { label, pass_count, reason: reason.to_owned() };
        self.writer.append(&Line::Cut(cut.clone()))?;
        self.observer.event(&Event::Cut(&cut));
        Ok(())
    }

    fn one_pass(&mut self, case: u32, round: u32, done: usize, todo: &[(u32, u32)]) -> Result<PassEnd, Error> {
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

    /// How long the rest will take; none as long as a case has never been run.
    fn estimate(&self, rest: &[(u32, u32)]) -> Option<Duration> {
        rest.iter().map(|(case, _)| self.durations.get(case).copied()).sum()
    }

    /// Waits, visibly and not for ever, until what would bend the curve is gone; else says in the record that it is
    /// not.
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

/// Keeps the controller off the worker's processor while a run lasts.
struct Elsewhere(Option<Vec<u32>>);

impl Elsewhere {
    fn move_to(pinned: Option<u32>) -> Self {
        let all = system::processors();
        let others: Vec<u32> = all.iter().copied().filter(|&one| Some(one) != pinned).collect();
        if pinned.is_none() || others.is_empty() || system::pin(&others).is_err() {
            return Self(None);
        }
        Self(Some(all))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(all) = &self.0 {
            // Only the rest of this program is affected, which then keeps fewer processors.
            let _ = system::pin(all);
        }
    }
}
