//! Makes one pass: starts a worker, writes its samples to the record while it measures, and makes sure that it ends.

use crate::driver::{Bounds, Driver};
use crate::order::{Announcements, Order, Report};
use crate::profiler::{Profiler, Profiling, TimedCalls, Watched, failed};
use crate::sample_writer::SampleWriter;
use crate::worker_process::{Launch, Message, WorkerProcess};
use crate::{Error, Event, Facts, Observer, Plan, Planned, Silent, lanes};
use landau_record::schema::{Line, Outcome, PassEnd, PassStart};
use landau_record::{Journal, Nowhere};
use landau_sys::shared::Lanes;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// The interval at which the controller looks at the worker's samples: several times for each [`FLUSH`].
const LOOK_MS: i32 = 100;

/// The interval at which the controller checks for a hanging worker if another processor is measured too. It writes
/// nothing then, so a check takes a few microseconds.
const RARE_LOOK_MS: i32 = 10_000;

/// Lines reach the file at least this often, unless the controller sleeps until the pass ends.
const FLUSH: Duration = Duration::from_millis(500);

/// A worker that takes no sample for this long, and reports no progress of its set-up, counts as hanging.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The corresponding time for a worker that has taken all its samples and removes its objects, such as files on a slow
/// device.
const CLEAN_UP: Duration = Duration::from_secs(1_800);

/// How a worker ended.
enum Verdict {
    /// It reported.
    Reported(Report),
    /// It was stopped or died: the outcome and the reason.
    Stopped(Outcome, Option<String>),
}

/// Makes each pass in a worker process.
pub(crate) struct Workers<'a> {
    plan: &'a Plan,
    scratch: &'a Path,
    launch: Launch,
    began: Instant,
    profiling: Option<Profiling<'a>>,
}

impl<'a> Workers<'a> {
    /// Returns a driver whose run begins now. With a profiler, profiled passes follow each recorded one.
    ///
    /// # Errors
    ///
    /// Fails if the program of the plan cannot be opened.
    pub(crate) fn new(plan: &'a Plan, scratch: &'a Path, profiling: Option<Profiling<'a>>) -> Result<Self, Error> {
        Ok(Self { plan, scratch, launch: Launch::of(plan)?, began: Instant::now(), profiling })
    }

    /// Makes the profiled passes that follow a recorded one; none of their samples are recorded.
    fn profiled_passes(&mut self, planned: &Planned, start: &PassStart, bounds: &Ends) -> Result<(), Error> {
        let Some(profiling) = self.profiling.take() else { return Ok(()) };
        for _ in 0..profiling.passes {
            let watch = Some(Watch { profiler: &mut *profiling.profiler, pass: Watched::Extra });
            let end = run(self, planned, start, bounds, watch, &mut Nowhere, &mut Silent)?;
            match end.outcome {
                Outcome::Done | Outcome::Limit => {}
                // The run's loop sees the interruption or the time limit before its next pass.
                Outcome::Interrupted | Outcome::Cut => break,
                Outcome::Failed | Outcome::Crashed => {
                    return Err(failed(format!("a profiled pass failed: {}", end.error.unwrap_or_default())));
                }
            }
        }
        self.profiling = Some(profiling);
        Ok(())
    }
}

impl Driver for Workers<'_> {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn sleep(&mut self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn unsettled(&self, planned: &Planned) -> Option<String> {
        (planned.entry.unsettled)(&planned.settings)
    }

    fn pass(
        &mut self,
        planned: &Planned,
        start: &PassStart,
        bounds: &Bounds,
        writer: &mut dyn Journal,
        observer: &mut dyn Observer,
    ) -> Result<PassEnd, Error> {
        // A time limit that the clock cannot represent is no limit.
        let deadline = bounds.deadline.and_then(|deadline| self.began.checked_add(deadline));
        let ends = Ends { deadline, interrupted: bounds.interrupted };
        let mut profiling = self.profiling.take();
        let watch = profiling.as_mut().map(|one| Watch { profiler: &mut *one.profiler, pass: Watched::Recorded });
        let end = run(self, planned, start, &ends, watch, writer, observer)?;
        self.profiling = profiling;
        if matches!(end.outcome, Outcome::Done | Outcome::Limit) {
            self.profiled_passes(planned, start, &ends)?;
        }
        Ok(end)
    }
}

/// The conditions that end a pass from outside, with the time limit as an instant.
struct Ends<'a> {
    deadline: Option<Instant>,
    interrupted: &'a dyn Fn() -> bool,
}

/// A profiler that watches a pass.
struct Watch<'a> {
    profiler: &'a mut dyn Profiler,
    pass: Watched,
}

/// Runs one pass, under the profiler if one is given, and writes everything about it except its first line.
fn run(
    workers: &Workers<'_>,
    planned: &Planned,
    start: &PassStart,
    bounds: &Ends,
    mut watch: Option<Watch<'_>>,
    writer: &mut dyn Journal,
    observer: &mut dyn Observer,
) -> Result<PassEnd, Error> {
    let is_profiled = watch.is_some();
    let (began, plan) = (Instant::now(), workers.plan);
    let phases = &planned.case.phases;
    let capacities = lanes::capacities(phases.len(), planned.case.n, planned.entry.tags_calls, is_profiled);
    let (lanes, fd) = Lanes::create(&capacities)?;
    let mut worker = WorkerProcess::start(&workers.launch)?;
    if let Some(watch) = &mut watch {
        watch.profiler.begin(worker.pid(), watch.pass).map_err(failed)?;
    }
    worker.send(&Order { is_profiled, ..order(plan, planned, start, workers.scratch, fd.as_raw_fd()) })?;
    drop(fd);
    let samples = SampleWriter::new(lanes, phases, start.pass, plan.host.clock.unit);
    let expected = planned.case.n * phases.len() as u64;
    let uses_others = (planned.entry.uses_other_processors)(&planned.settings);
    // Samples must be collected while the pass runs.
    let is_sampled = watch.as_ref().is_some_and(|watch| watch.pass == Watched::Extra);
    let attention = Attention::of(plan.lockstep, uses_others && !is_sampled);
    let mut supervisor = Supervisor { worker, samples, expected, attention };
    let verdict = supervisor.watch(bounds, watch.as_mut(), writer, observer)?;
    supervisor.samples.write_windows(writer)?;
    supervisor.samples.write_rest(writer)?;
    let steps = supervisor.samples.created();
    if let (Some(watch), Verdict::Reported(Report { wrong: None, .. })) = (watch, &verdict) {
        let phases = supervisor.samples.timed_calls();
        watch.profiler.end(&TimedCalls { case: &planned.case, round: start.round, phases }).map_err(failed)?;
    }
    drop(supervisor);
    let mut end = PassEnd {
        pass: start.pass,
        outcome: Outcome::Done,
        steps,
        elapsed_ms: began.elapsed().as_millis() as u64,
        limit: None,
        error: None,
        facts: Facts::new(),
    };
    match verdict {
        Verdict::Stopped(outcome, reason) => (end.outcome, end.error) = (outcome, reason),
        Verdict::Reported(report) => {
            end.outcome = match (&report.wrong, &report.limit) {
                (Some(_), _) => Outcome::Failed,
                (None, Some(_)) => Outcome::Limit,
                (None, None) => Outcome::Done,
            };
            (end.limit, end.error, end.facts) = (report.limit, report.wrong, report.facts);
            if !report.locked {
                end.facts.text("sample_memory", "touched, but not locked: RLIMIT_MEMLOCK is too low");
            }
        }
    }
    writer.append(&Line::PassEnd(end.clone()))?;
    writer.flush()?;
    Ok(end)
}

fn order(plan: &Plan, planned: &Planned, start: &PassStart, scratch: &Path, lanes_fd: i32) -> Order {
    Order {
        benchmark: planned.case.benchmark.clone(),
        settings: planned.settings.as_map().clone(),
        n: planned.case.n,
        // Depends on the round, not on the pass: a resumed run repeats a round in the order that it would have had.
        seed: plan.seed ^ (u64::from(planned.case.case) << 48) ^ (u64::from(start.round) << 32),
        scratch: scratch.to_owned(),
        host: plan.host.clone(),
        clock: plan.clock.name().to_owned(),
        ns_per_tick: plan.clock.ns_per_tick(),
        lanes_fd,
        processor: plan.host.pinned_processor,
        lockstep: plan.lockstep,
        is_profiled: false,
        announces: Announcements { clean_up: true, set_up: true },
        fault: plan.fault,
        step_windows_from: plan.step_windows.filter(|one| one.pass == start.pass).map(|one| one.from),
    }
}

/// The activity of the controller while the worker measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attention {
    /// Writes samples as they come.
    Constant,
    /// Sleeps until the pass ends, is interrupted or reaches the time limit: the controller's processor is measured
    /// too. The samples stay in the shared memory, which outlives the worker.
    Rare,
    /// Writes samples when the worker waits for it: there is one processor.
    Lockstep,
}

impl Attention {
    fn of(lockstep: bool, uses_other_processors: bool) -> Self {
        match (lockstep, uses_other_processors) {
            (true, _) => Self::Lockstep,
            (false, true) => Self::Rare,
            (false, false) => Self::Constant,
        }
    }

    /// Returns the longest time to sleep if `left` remains until the time limit.
    fn look_ms(self, left: Option<Duration>) -> i32 {
        let look_ms = match self {
            Self::Constant => LOOK_MS,
            Self::Rare => RARE_LOOK_MS,
            Self::Lockstep => TIMEOUT.as_millis() as i32,
        };
        let left_ms = left.and_then(|left| i32::try_from(left.as_millis() + 1).ok()).unwrap_or(i32::MAX);
        look_ms.min(left_ms)
    }
}

/// A worker and its samples.
struct Supervisor<'a> {
    worker: WorkerProcess,
    samples: SampleWriter<'a>,
    /// Samples in a complete pass.
    expected: u64,
    attention: Attention,
}

impl Supervisor<'_> {
    /// Writes samples until the worker reports, dies or is stopped.
    fn watch(
        &mut self,
        bounds: &Ends,
        mut watch: Option<&mut Watch<'_>>,
        writer: &mut dyn Journal,
        observer: &mut dyn Observer,
    ) -> Result<Verdict, Error> {
        let mut flushed = Instant::now();
        let mut silence = Silence::new(self.expected, flushed);
        loop {
            let left = bounds.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let has_message = self.worker.wait(self.attention.look_ms(left))?;
            if let Some(watch) = watch.as_deref_mut() {
                watch.profiler.poll().map_err(failed)?;
            }
            if has_message || self.attention != Attention::Rare {
                self.samples.write_windows(writer)?;
                if flushed.elapsed() >= FLUSH {
                    writer.flush()?;
                    flushed = Instant::now();
                }
            }
            if has_message {
                match self.worker.read() {
                    Message::Window => {
                        writer.flush()?;
                        self.worker.answer_window();
                        continue;
                    }
                    Message::SetUp => silence.interrupt(false, Instant::now()),
                    Message::CleanUp => silence.interrupt(true, Instant::now()),
                    Message::Report(report) => return Ok(Verdict::Reported(report)),
                    Message::Gone(_) if (bounds.interrupted)() => {
                        return Ok(Verdict::Stopped(Outcome::Interrupted, None));
                    }
                    Message::Gone(status) => {
                        let reason = format!("the worker ended without a report ({status})");
                        return Ok(Verdict::Stopped(Outcome::Failed, Some(reason)));
                    }
                }
            }
            silence.count(self.samples.sample_count(), Instant::now());
            observer.event(&Event::Progress { samples: silence.samples, of: self.expected });
            if let Some((outcome, reason)) = stop(bounds, silence.since.elapsed(), silence.patience()) {
                return Ok(Verdict::Stopped(outcome, reason));
            }
        }
    }
}

/// The time since a worker last showed a sign of progress: a sample, or a word about its set-up or its clean-up.
struct Silence {
    since: Instant,
    samples: u64,
    expected: u64,
    /// Whether the worker has announced that there will be no more samples. After a limit it has fewer than expected; a
    /// worker of an earlier version announces nothing.
    has_all_samples: bool,
}

impl Silence {
    fn new(expected: u64, now: Instant) -> Self {
        Self { since: now, samples: 0, expected, has_all_samples: false }
    }

    /// Ends the silence because of a word from the worker.
    fn interrupt(&mut self, has_all_samples: bool, now: Instant) {
        (self.has_all_samples, self.since) = (has_all_samples, now);
    }

    /// Ends the silence if there are more samples.
    fn count(&mut self, samples: u64, now: Instant) {
        if samples > self.samples {
            (self.samples, self.since) = (samples, now);
        }
    }

    /// Returns how long the silence may last.
    fn patience(&self) -> Duration {
        if self.has_all_samples || self.samples >= self.expected { CLEAN_UP } else { TIMEOUT }
    }
}

/// Returns why a worker that has been silent for this long must be stopped; none if it may continue.
fn stop(bounds: &Ends, silent: Duration, patience: Duration) -> Option<(Outcome, Option<String>)> {
    if (bounds.interrupted)() {
        return Some((Outcome::Interrupted, None));
    }
    if bounds.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Some((Outcome::Cut, Some("stopped by the time limit".to_owned())));
    }
    (silent > patience).then(|| {
        let reason = format!("the worker took no sample for {} s and was killed", patience.as_secs());
        (Outcome::Failed, Some(reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Removing many files on a slow device once took longer than a worker may be silent.
    #[test]
    fn a_worker_that_removes_its_files_is_given_time() {
        let silent = TIMEOUT + Duration::from_secs(1);
        let outcome = |interrupted: &dyn Fn() -> bool, patience| {
            stop(&Ends { deadline: None, interrupted }, silent, patience).map(|(outcome, _)| outcome)
        };
        assert_eq!(outcome(&|| false, TIMEOUT), Some(Outcome::Failed));
        assert_eq!(outcome(&|| false, CLEAN_UP), None);
        assert_eq!(outcome(&|| true, CLEAN_UP), Some(Outcome::Interrupted));
    }

    /// Guards against losing a limit, which is a result, because the worker takes long to remove many files.
    #[test]
    fn a_worker_that_met_a_limit_is_given_time_too() {
        let now = Instant::now();
        let mut silence = Silence::new(100, now);
        silence.count(10, now);
        assert_eq!(silence.patience(), TIMEOUT);
        silence.interrupt(true, now);
        assert_eq!(silence.patience(), CLEAN_UP);
        let mut complete = Silence::new(100, now);
        complete.count(100, now);
        assert_eq!(complete.patience(), CLEAN_UP);
    }

    /// Guards against a set-up that is killed as hanging while it writes a file to a slow disk.
    #[test]
    fn a_set_up_that_makes_progress_is_not_silent() {
        let start = Instant::now();
        let mut silence = Silence::new(100, start);
        let after = |seconds| start + Duration::from_secs(seconds);
        for seconds in (0..1_000).step_by(100) {
            silence.interrupt(false, after(seconds));
            assert!(after(seconds + 100) - silence.since < silence.patience());
        }
        assert!(after(1_021) - silence.since > silence.patience(), "then it hangs");
        silence.count(1, after(1_022));
        assert_eq!((silence.since, silence.patience()), (after(1_022), TIMEOUT));
    }

    /// On two processors the controller shares one with the server, and each of its wake-ups would delay a response.
    #[test]
    fn the_controller_sleeps_while_another_processor_is_measured() {
        assert_eq!(Attention::of(false, true).look_ms(None), RARE_LOOK_MS);
        assert_eq!(Attention::of(false, false).look_ms(None), LOOK_MS);
        assert_eq!(Attention::of(true, true), Attention::Lockstep);
        // The time limit still applies.
        assert_eq!(Attention::Rare.look_ms(Some(Duration::from_millis(70))), 71);
        assert_eq!(Attention::Rare.look_ms(Some(Duration::MAX)), RARE_LOOK_MS);
    }
}
