//! The controller: starts the workers, gives them a common start, adds up what they found, and judges it.

use crate::counters::{Counters, LOSSES, Memory, OVERFLOWS};
use crate::crowd::Samples;
use crate::error::{Error, Result};
use crate::fleet::{Fleet, Launch};
use crate::gate;
use crate::job::Job;
use crate::link::{Order, Progress, Report};
use crate::outcome::{Outcome, Step};
use crate::plan::Load;
use crate::tally::Tally;
use landau_sys::clock::monotonic_ns;
use std::time::Duration;

/// How long the controller listens before it looks whether the user wants an end.
const TURN: Duration = Duration::from_millis(50);

/// From the order to start until the start: time enough for the order to arrive everywhere.
const NOTICE_NS: u64 = 20_000_000;

/// Requests of each worker before its samples of a step: it has slept, and its first request finds cold caches.
const DISCARDED: u32 = 2;

/// Who looks on.
pub trait Observer {
    /// How far all workers are together.
    fn progress(&mut self, _: &Progress) {}
    /// A size of the crowd was reached and measured.
    fn step(&mut self, _: &Step) {}
    /// The crowd has grown to so many on its way to so many.
    fn grown(&mut self, _open: u64, _to: u32) {}
    /// Anything worth a line.
    fn note(&mut self, _: &str) {}
}

/// Nobody looks on.
impl Observer for () {}

/// Makes the load. What was measured until the user wants an end is told all the same.
pub fn run(job: &Job, launch: &Launch, observer: &mut dyn Observer, interrupted: &dyn Fn() -> bool) -> Result<Outcome> {
    let mut outcome = Outcome::of(job.load.clone());
    outcome.is_local = job.endpoints.iter().all(crate::target::Endpoint::is_local);
    outcome.worker_count = job.plans.len();
    outcome.sources = job.plans.first().map(|plan| plan.sources.to_string()).unwrap_or_default();
    outcome.memory = Memory::read(job.server());
    let before = Counters::read();
    let mut run = Run { job, launch, observer, interrupted, outcome: &mut outcome };
    match job.load {
        Load::Crowd => run.crowd()?,
        _ => run.looped()?,
    }
    outcome.counters = Counters::read().since(&before, &[OVERFLOWS, LOSSES].concat());
    outcome.gates = gate::judge(&outcome, &job.waived);
    Ok(outcome)
}

struct Run<'a> {
    job: &'a Job,
    launch: &'a Launch,
    observer: &'a mut dyn Observer,
    interrupted: &'a dyn Fn() -> bool,
    outcome: &'a mut Outcome,
}

impl Run<'_> {
    fn looped(&mut self) -> Result<()> {
        let mut fleet = Fleet::start(&self.job.plans, self.launch)?;
        let mut ready = 0;
        let mut latest = vec![Progress::default(); fleet.len()];
        let mut done = 0;
        let mut is_started = false;
        while done < fleet.len() {
            if (self.interrupted)() && !self.outcome.is_interrupted {
                self.outcome.is_interrupted = true;
                fleet.tell_all(&Order::Stop)?;
            }
            let Some((worker, report)) = fleet.next(TURN)? else { continue };
            match report {
                Report::Ready { open } => {
                    latest[worker].open = open;
                    ready += 1;
                    if ready == fleet.len() && !is_started {
                        is_started = true;
                        let none = latest.iter().all(|one| one.open == 0) && !self.job.is_of_fresh_connections();
                        let order = if none { Order::Stop } else { Order::Start { at_ns: monotonic_ns() + NOTICE_NS } };
                        fleet.tell_all(&order)?;
                    }
                }
                Report::Progress(progress) => {
                    latest[worker] = progress;
                    self.observer.progress(&sum(&latest));
                }
                Report::Done(tally) => {
                    done += 1;
                    self.enter(&tally, true);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn enter(&mut self, tally: &Tally, judges_use: bool) {
        if judges_use && tally.elapsed_ns > 0 {
            let share = tally.processor_total_ns() as f64 / tally.elapsed_ns as f64;
            self.outcome.busiest = self.outcome.busiest.max(share);
        }
        self.outcome.tally.merge(tally);
    }

    fn crowd(&mut self) -> Result<()> {
        let crowd = self.job.crowd.as_ref().ok_or_else(|| Error::Plan("a crowd has steps".to_owned()))?;
        for pass in 0..crowd.passes {
            let mut fleet = Fleet::start(&self.job.plans, self.launch)?;
            for _ in 0..fleet.len() {
                self.await_report(&mut fleet, |report| matches!(report, Report::Ready { .. }))?;
            }
            let mut climb = || -> Result<bool> {
                let mut before = 0;
                for &n in &crowd.steps {
                    let step = self.step(&mut fleet, pass, n, before)?;
                    let Some(step) = step else { return Ok(false) };
                    let is_short = step.open < u64::from(n);
                    before = n;
                    self.observer.step(&step);
                    self.outcome.steps.push(step);
                    if is_short {
                        // The next size could not be reached either.
                        return Ok(false);
                    }
                }
                Ok(true)
            };
            let goes_on = climb()?;
            fleet.tell_all(&Order::Stop)?;
            let mut done = 0;
            while done < fleet.len() {
                if let Some((_, Report::Done(tally))) = fleet.next(TURN)? {
                    done += 1;
                    self.enter(&tally, false);
                }
            }
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Waits for a report of a kind; false if the user wants an end first.
    fn await_report(&mut self, fleet: &mut Fleet, is_it: impl Fn(&Report) -> bool) -> Result<Option<(usize, Report)>> {
        loop {
            if (self.interrupted)() {
                self.outcome.is_interrupted = true;
                return Ok(None);
            }
            if let Some((worker, report)) = fleet.next(TURN)?
                && is_it(&report)
            {
                return Ok(Some((worker, report)));
            }
        }
    }

    /// Leaves the crowd alone for a while; false if the user wants an end first.
    fn settle(&mut self, fleet: &mut Fleet, time: Duration) -> Result<bool> {
        let until_ns = monotonic_ns().saturating_add(crate::job::nanoseconds(time));
        loop {
            if (self.interrupted)() {
                self.outcome.is_interrupted = true;
                return Ok(false);
            }
            let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
            if left.is_zero() {
                return Ok(true);
            }
            // The workers have nothing to say now; that one is gone is an error.
            fleet.next(left.min(TURN))?;
        }
    }

    /// How many connections stand now, at all workers; none if the user wants an end first.
    fn count(&mut self, fleet: &mut Fleet) -> Result<Option<u64>> {
        fleet.tell_all(&Order::Count)?;
        let mut sum = 0;
        for _ in 0..fleet.len() {
            let is_it = |report: &Report| matches!(report, Report::Standing { .. });
            let Some((_, Report::Standing { open })) = self.await_report(fleet, is_it)? else { return Ok(None) };
            sum += u64::from(open);
        }
        Ok(Some(sum))
    }

    /// Lets the crowd grow to a size and takes samples; none if the user wants an end.
    fn step(&mut self, fleet: &mut Fleet, pass: u32, n: u32, before: u32) -> Result<Option<Step>> {
        let (count, begun_ns) = (fleet.len() as u32, monotonic_ns());
        let share = |worker: u32, n: u32| n / count + u32::from(worker < n % count);
        let mut open = u64::from(before);
        for worker in 0..count {
            fleet.tell(worker as usize, &Order::Grow { to: share(worker, n) })?;
        }
        for _ in 0..count {
            let is_it = |report: &Report| matches!(report, Report::Grown { .. });
            let Some((worker, Report::Grown { open: own })) = self.await_report(fleet, is_it)? else {
                return Ok(None);
            };
            open += u64::from(own.saturating_sub(share(worker as u32, before)));
            self.observer.grown(open, n);
        }
        let grown_ms = (monotonic_ns() - begun_ns) / 1_000_000;
        let crowd = self.job.crowd.as_ref();
        let (samples, settle) = crowd.map_or((0, Duration::ZERO), |crowd| (crowd.samples, crowd.settle));
        if !self.settle(fleet, settle)? {
            return Ok(None);
        }
        let mut step = Step { pass, n, grown_ms, memory: Memory::read(self.job.server()), ..Step::default() };
        let (mut processor_ns, mut elapsed_ns) = (0, 0);
        let mut held = 0;
        for worker in 0..count {
            let (from, to) = (held, held + share(worker, n));
            held = to;
            // Each worker takes as many samples as it holds connections, rounded so that the sum is right.
            let part = |held: u32| (u64::from(samples) * u64::from(held) / u64::from(n.max(1))) as u32;
            let own = part(to) - part(from);
            let order = Samples { old: own, fresh: own, discarded: if own > 0 { DISCARDED } else { 0 } };
            fleet.tell(worker as usize, &Order::Measure(order))?;
            let is_it = |report: &Report| matches!(report, Report::Measured(_));
            let Some((_, Report::Measured(found))) = self.await_report(fleet, is_it)? else { return Ok(None) };
            step.old_ns.extend(found.old);
            step.fresh_ns.extend(found.fresh);
            processor_ns += found.processor_ns;
            elapsed_ns += found.elapsed_ns;
        }
        let Some(open) = self.count(fleet)? else { return Ok(None) };
        step.open = open;
        if elapsed_ns > 0 {
            self.outcome.busiest = self.outcome.busiest.max(processor_ns as f64 / elapsed_ns as f64);
        }
        Ok(Some(step))
    }
}

fn sum(all: &[Progress]) -> Progress {
    all.iter().fold(Progress::default(), |sum, one| Progress {
        answers: sum.answers + one.answers,
        failures: sum.failures + one.failures,
        open: sum.open + one.open,
        waiting: sum.waiting + one.waiting,
    })
}
