//! The controller: starts the workers together, adds up their metrics, and judges the outcome.

use crate::clock::nanoseconds;
use crate::counters::{Counters, LOSSES, Memory, OVERFLOWS};
use crate::error::{Error, Result};
use crate::gate;
use crate::job::{Job, share};
use crate::message::{Command, Progress, Report, SampleCounts};
use crate::metrics::Metrics;
use crate::outcome::{Outcome, Step};
use crate::plan::Load;
use crate::workers::{Launch, Workers};
use landau_sys::clock::monotonic_ns;
use std::time::Duration;

/// Time that the controller waits for a report before it checks for an interrupt.
const TURN: Duration = Duration::from_millis(50);

/// Time between the start command and the start, in which the command must reach every worker.
const START_DELAY_NS: u64 = 20_000_000;

/// Unreported requests of each worker before its samples: the worker has slept, so its caches are cold.
const DISCARDED: u32 = 2;

/// Receives progress during a run.
pub trait Observer {
    /// Progress of a closed or open loop, over all workers.
    fn progress(&mut self, _: &Progress) {}
    /// A step of an idle load is complete.
    fn step(&mut self, _: &Step) {}
    /// `open` of `to` idle connections are open.
    fn opening(&mut self, _open: u64, _to: u32) {}
}

/// Ignores progress.
impl Observer for () {}

/// Runs a job. If `interrupted` returns true, the run stops and the outcome covers the time until then.
///
/// # Errors
///
/// If a worker cannot be started or fails. Failures of connections and requests are part of the outcome.
pub fn run(job: &Job, launch: &Launch, observer: &mut dyn Observer, interrupted: &dyn Fn() -> bool) -> Result<Outcome> {
    let mut outcome = Outcome::new(job.load.clone());
    outcome.is_local = job.endpoints.iter().all(crate::target::Endpoint::is_local);
    outcome.worker_count = job.plans.len();
    outcome.sources = job.plans.first().map(|plan| plan.sources.to_string()).unwrap_or_default();
    outcome.memory = Memory::read(job.server_pid());
    let before = Counters::read();
    let mut run = Run { job, launch, observer, interrupted, outcome: &mut outcome };
    match job.load {
        Load::Idle => run.idle_load()?,
        Load::Closed | Load::Open { .. } => run.request_loop()?,
    }
    outcome.counters = Counters::read().since(&before, &[OVERFLOWS, LOSSES].concat());
    outcome.has_counters = before.has(OVERFLOWS);
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
    fn request_loop(&mut self) -> Result<()> {
        let mut workers = Workers::start(&self.job.plans, self.launch)?;
        let mut latest = vec![Progress::default(); workers.len()];
        let (mut ready, mut done) = (0, 0);
        while done < workers.len() {
            if !self.outcome.is_interrupted && self.is_interrupted() {
                workers.send_all(&Command::Stop)?;
            }
            let Some((worker, report)) = workers.next(TURN)? else { continue };
            match report {
                Report::Ready { open } => {
                    latest[worker].open = open;
                    ready += 1;
                    if ready == workers.len() {
                        let has_none = latest.iter().all(|one| one.open == 0) && !self.job.connects_per_request();
                        let start = Command::Start { at_ns: monotonic_ns() + START_DELAY_NS };
                        workers.send_all(if has_none { &Command::Stop } else { &start })?;
                    }
                }
                Report::Progress(progress) => {
                    latest[worker] = progress;
                    self.observer.progress(&sum(&latest));
                }
                Report::Done(metrics) => {
                    done += 1;
                    if metrics.elapsed_ns > 0 {
                        self.note_share(metrics.cpu_total_ns(), metrics.elapsed_ns);
                    }
                    self.outcome.metrics.merge(&metrics);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns whether the user interrupted the run, and records this in the outcome.
    fn is_interrupted(&mut self) -> bool {
        let is_interrupted = (self.interrupted)();
        self.outcome.is_interrupted |= is_interrupted;
        is_interrupted
    }

    /// Records the share of a CPU that a worker used, if it is the largest so far.
    fn note_share(&mut self, cpu_ns: u64, elapsed_ns: u64) {
        let share = cpu_ns as f64 / elapsed_ns as f64;
        self.outcome.busiest_worker_cpu_share = self.outcome.busiest_worker_cpu_share.max(share);
    }

    fn idle_load(&mut self) -> Result<()> {
        let idle = self.job.idle.as_ref().ok_or_else(|| Error::Plan("an idle load needs steps".to_owned()))?;
        for pass in 0..idle.passes {
            let mut workers = Workers::start(&self.job.plans, self.launch)?;
            for _ in 0..workers.len() {
                self.await_report(&mut workers, |report| matches!(report, Report::Ready { .. }))?;
            }
            let is_complete = self.steps(&mut workers, pass, &idle.steps)?;
            workers.send_all(&Command::Stop)?;
            self.finish(&mut workers)?;
            if !is_complete {
                break;
            }
        }
        Ok(())
    }

    /// Takes all steps of a pass. Returns false if the run was interrupted or a step was not reached.
    fn steps(&mut self, workers: &mut Workers, pass: u32, steps: &[u32]) -> Result<bool> {
        let mut before = 0;
        for &n in steps {
            let Some(step) = self.step(workers, pass, n, before)? else { return Ok(false) };
            let is_reached = step.is_reached();
            before = n;
            self.observer.step(&step);
            self.outcome.steps.push(step);
            if !is_reached {
                // A larger step could not be reached either.
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Collects the metrics of a pass from the workers after the stop command. Passes follow one another, so their
    /// times are added.
    fn finish(&mut self, workers: &mut Workers) -> Result<()> {
        let (mut done, mut pass) = (0, Metrics::default());
        while done < workers.len() {
            if let Some((_, Report::Done(metrics))) = workers.next(TURN)? {
                done += 1;
                pass.merge(&metrics);
            }
        }
        let metrics = &mut self.outcome.metrics;
        let elapsed_ns = metrics.elapsed_ns + pass.elapsed_ns;
        metrics.merge(&pass);
        metrics.elapsed_ns = elapsed_ns;
        Ok(())
    }

    /// Waits for a report that `is_it` accepts. Returns `None` if the user interrupts.
    fn await_report(
        &mut self,
        workers: &mut Workers,
        is_it: impl Fn(&Report) -> bool,
    ) -> Result<Option<(usize, Report)>> {
        while !self.is_interrupted() {
            if let Some((worker, report)) = workers.next(TURN)?
                && is_it(&report)
            {
                return Ok(Some((worker, report)));
            }
        }
        Ok(None)
    }

    /// Waits for `time` without using the connections. Returns false if the user interrupts.
    fn settle(&mut self, workers: &mut Workers, time: Duration) -> Result<bool> {
        let until_ns = monotonic_ns().saturating_add(nanoseconds(time));
        loop {
            if self.is_interrupted() {
                return Ok(false);
            }
            let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
            if left.is_zero() {
                return Ok(true);
            }
            // No report is expected, but a worker that exits is an error.
            workers.next(left.min(TURN))?;
        }
    }

    /// Returns the number of open idle connections of all workers, or `None` if the user interrupts.
    fn count(&mut self, workers: &mut Workers) -> Result<Option<u64>> {
        workers.send_all(&Command::Count)?;
        let mut sum = 0;
        for _ in 0..workers.len() {
            let is_it = |report: &Report| matches!(report, Report::Counted { .. });
            let Some((_, Report::Counted { open })) = self.await_report(workers, is_it)? else { return Ok(None) };
            sum += u64::from(open);
        }
        Ok(Some(sum))
    }

    /// Opens the idle connections of a step, where `before` are already open, and takes samples. Returns `None` if the
    /// user interrupts.
    fn step(&mut self, workers: &mut Workers, pass: u32, n: u32, before: u32) -> Result<Option<Step>> {
        let began_ns = monotonic_ns();
        if !self.open(workers, n, before)? {
            return Ok(None);
        }
        let setup_ms = (monotonic_ns() - began_ns) / 1_000_000;
        let idle = self.job.idle.as_ref();
        let (samples, settle) = idle.map_or((0, Duration::ZERO), |idle| (idle.samples, idle.settle));
        if !self.settle(workers, settle)? {
            return Ok(None);
        }
        let mut step = Step { pass, n, setup_ms, memory: Memory::read(self.job.server_pid()), ..Step::default() };
        if !self.sample(workers, samples, &mut step)? {
            return Ok(None);
        }
        let Some(open) = self.count(workers)? else { return Ok(None) };
        step.open = open;
        Ok(Some(step))
    }

    /// Opens idle connections up to `n`. Several workers open their shares at a time; when one is done, the next
    /// begins. Returns false if the user interrupts.
    ///
    /// If a worker cannot open its share, the step is not reached, and no other worker begins: each could take twice
    /// the timeout to find out.
    fn open(&mut self, workers: &mut Workers, n: u32, before: u32) -> Result<bool> {
        let count = workers.len() as u32;
        let share = |worker: u32, n: u32| share(n.into(), worker, count) as u32;
        let start = |workers: &mut Workers, worker: u32, from_ns: u64| {
            workers.send(worker as usize, &Command::Open { to: share(worker, n), from_ns })
        };
        let mut running = self.job.idle.as_ref().map_or(count, |idle| idle.openers);
        (0..running).try_for_each(|worker| start(workers, worker, 0))?;
        let (mut waiting, mut open) = (running..count, u64::from(before));
        while running > 0 {
            let is_it = |report: &Report| matches!(report, Report::Opened { .. });
            let Some((worker, Report::Opened { open: own, next_connect_ns })) = self.await_report(workers, is_it)?
            else {
                return Ok(false);
            };
            let worker = worker as u32;
            if own < share(worker, n) {
                waiting = count..count;
            }
            match waiting.next() {
                // It takes over the pace of the worker that is done.
                Some(next) => start(workers, next, next_connect_ns)?,
                None => running -= 1,
            }
            open += u64::from(own.saturating_sub(share(worker, before)));
            self.observer.opening(open, n);
        }
        Ok(true)
    }

    /// Takes the samples of a step, one worker after another. Returns false if the user interrupts.
    fn sample(&mut self, workers: &mut Workers, samples: u32, step: &mut Step) -> Result<bool> {
        let count = workers.len() as u32;
        let (mut cpu_ns, mut elapsed_ns, mut held) = (0, 0, 0);
        for worker in 0..count {
            let (from, to) = (held, held + share(step.n.into(), worker, count));
            held = to;
            // Each worker takes samples in proportion to its connections, rounded so that the sum is right.
            let part = |held: u64| (u64::from(samples) * held / u64::from(step.n.max(1))) as u32;
            let own = part(to) - part(from);
            let counts = SampleCounts { on_idle: own, on_new: own, discarded: if own > 0 { DISCARDED } else { 0 } };
            workers.send(worker as usize, &Command::Sample(counts))?;
            let is_it = |report: &Report| matches!(report, Report::Sampled(_));
            let Some((_, Report::Sampled(times))) = self.await_report(workers, is_it)? else { return Ok(false) };
            step.idle_ns.extend(times.on_idle_ns);
            step.new_ns.extend(times.on_new_ns);
            cpu_ns += times.cpu_ns;
            elapsed_ns += times.elapsed_ns;
        }
        if elapsed_ns > 0 {
            self.note_share(cpu_ns, elapsed_ns);
            self.outcome.metrics.count_cpu(cpu_ns, elapsed_ns);
        }
        Ok(true)
    }
}

fn sum(all: &[Progress]) -> Progress {
    all.iter().fold(Progress::default(), |sum, one| Progress {
        responses: sum.responses + one.responses,
        failures: sum.failures + one.failures,
        open: sum.open + one.open,
        waiting: sum.waiting + one.waiting,
    })
}
