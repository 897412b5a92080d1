//! One pass: start a worker, write down what it measures while it measures, and see that it ends.

use crate::timer::{WINDOW_WORDS, lane_capacities};
use crate::worker::{ARGUMENT, Order, Report, WINDOW};
use crate::{Error, Event, Observer, Plan, Planned};
use landau_record::Journal;
use landau_record::schema::{Canary, Chunk, Direction, Line, Outcome, PassEnd, PassStart, Samples, Unit, Window};
use landau_sys::descriptor::wait_readable;
use landau_sys::process::{OwnedChild, this_program};
use landau_sys::shared::Lanes;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How often the controller looks after the worker. Ten times as often as the record must reach the disk.
const LOOK_MS: i32 = 100;

/// Lines reach the file at least this often.
const FLUSH: Duration = Duration::from_millis(500);

/// A worker that measures nothing for so long hangs. Setting up the largest benchmark takes a twentieth of it.
const PATIENCE: Duration = Duration::from_secs(120);

/// What ends a pass from outside.
pub(crate) struct Bounds<'a> {
    pub(crate) deadline: Option<Instant>,
    pub(crate) interrupted: &'a dyn Fn() -> bool,
}

/// The worker and its controller's view of it.
struct Supervisor<'a> {
    planned: &'a Planned,
    pass: u32,
    /// What the samples count.
    unit: Unit,
    lockstep: bool,
    lanes: Lanes,
    worker: Worker,
    /// Samples of each phase that are in the record.
    written: Vec<usize>,
    windows_written: usize,
    canary_written: usize,
}

/// A worker process that does not outlive this value.
struct Worker {
    child: OwnedChild,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Runs one pass and writes everything about it but its first line.
pub(crate) fn run(
    plan: &Plan,
    planned: &Planned,
    start: &PassStart,
    scratch: &Path,
    bounds: &Bounds,
    writer: &mut dyn Journal,
    observer: &mut dyn Observer,
) -> Result<PassEnd, Error> {
    let began = Instant::now();
    let (lanes, fd) = Lanes::create(&lane_capacities(planned.case.phases.len(), planned.case.n))?;
    let worker = {
        use std::os::fd::AsRawFd;
        let order = order(plan, planned, start, scratch, fd.as_raw_fd());
        spawn(&order)?
    };
    drop(fd);
    let mut supervisor = Supervisor {
        planned,
        pass: start.pass,
        unit: plan.host.clock.unit,
        lockstep: plan.lockstep,
        lanes,
        worker,
        written: vec![0; planned.case.phases.len()],
        windows_written: 0,
        canary_written: 0,
    };
    let verdict = supervisor.watch(bounds, writer, observer)?;
    supervisor.drain(writer)?;
    supervisor.drain_rest(writer)?;
    let steps = supervisor.steps_up();
    drop(supervisor);
    let mut end = PassEnd {
        pass: start.pass,
        outcome: Outcome::Done,
        steps,
        elapsed_ms: began.elapsed().as_millis() as u64,
        limit: None,
        error: None,
        facts: landau_record::schema::Facts::new(),
    };
    match verdict {
        Verdict::Stopped(outcome, reason) => {
            end.outcome = outcome;
            end.error = reason;
        }
        Verdict::Reported(report) => {
            end.outcome = match (&report.wrong, &report.limit) {
                (Some(_), _) => Outcome::Failed,
                (None, Some(_)) => Outcome::Limit,
                (None, None) => Outcome::Done,
            };
            (end.limit, end.error, end.facts) = (report.limit, report.wrong, report.facts);
            if !report.locked {
                end.facts.text("sample memory", "touched, but not locked: the limit is too low");
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
        // Of the round and not of the pass: a resumed run repeats a round with the order it would have had.
        seed: plan.seed ^ (u64::from(planned.case.case) << 48) ^ (u64::from(start.round) << 32),
        scratch: scratch.to_owned(),
        host: plan.host.clone(),
        clock: plan.clock.name().to_owned(),
        ns_per_tick: plan.clock.ns_per_tick(),
        lanes_fd,
        processor: plan.host.pinned_processor,
        parent: std::process::id().cast_signed(),
        lockstep: plan.lockstep,
        fault: plan.fault,
        fine_from: plan.fine.filter(|fine| fine.pass == start.pass).map(|fine| fine.from),
    }
}

fn spawn(order: &Order) -> Result<Worker, Error> {
    let broken = |error: std::io::Error| Error::Worker(error.to_string());
    let mut command = Command::new(this_program()?);
    command
        .arg0("landau")
        // A group of its own from its first moment: the terminal's Ctrl-C reaches the controller alone, and one signal
        // ends the worker with everything that it started.
        .arg(ARGUMENT)
        // What the user has in his environment would weigh on every exec that is measured.
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = OwnedChild::spawn_group(&mut command).map_err(broken)?;
    let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Worker("it has no pipes".to_owned()));
    };
    let mut worker = Worker { child, orders, answers: BufReader::new(answers) };
    let mut line = serde_json::to_string(order).map_err(|error| broken(error.into()))?;
    line.push('\n');
    worker.orders.write_all(line.as_bytes()).map_err(broken)?;
    Ok(worker)
}

enum Verdict {
    Reported(Report),
    Stopped(Outcome, Option<String>),
}

impl Supervisor<'_> {
    /// Writes along until the worker reports, dies or is stopped.
    fn watch(
        &mut self,
        bounds: &Bounds,
        writer: &mut dyn Journal,
        observer: &mut dyn Observer,
    ) -> Result<Verdict, Error> {
        let expected = self.planned.case.n * self.written.len() as u64;
        let (mut flushed, mut moved, mut samples) = (Instant::now(), Instant::now(), 0);
        // In lockstep nobody but the worker may have the processor while it measures.
        let look_ms = if self.lockstep { PATIENCE.as_millis() as i32 } else { LOOK_MS };
        loop {
            let readable = wait_readable(self.worker.answers.get_ref(), look_ms)?;
            self.drain(writer)?;
            if flushed.elapsed() >= FLUSH {
                writer.flush()?;
                flushed = Instant::now();
            }
            if readable {
                let line = self.answer();
                if line == WINDOW {
                    writer.flush()?;
                    // A worker that is gone says so by its next answer.
                    let _ = self.worker.orders.write_all(WINDOW.as_bytes());
                    continue;
                }
                return Ok(match self.report(&line) {
                    Verdict::Stopped(..) if (bounds.interrupted)() => Verdict::Stopped(Outcome::Interrupted, None),
                    verdict => verdict,
                });
            }
            let now: u64 = (0..self.written.len()).map(|phase| self.lanes.len(phase) as u64).sum();
            if now > samples {
                (samples, moved) = (now, Instant::now());
            }
            observer.event(&Event::Progress { samples, of: expected });
            if (bounds.interrupted)() {
                return Ok(Verdict::Stopped(Outcome::Interrupted, None));
            }
            if bounds.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Verdict::Stopped(Outcome::Cut, Some("the time limit ended it".to_owned())));
            }
            if moved.elapsed() > PATIENCE {
                let reason = format!("it measured nothing for {} s and was ended", PATIENCE.as_secs());
                return Ok(Verdict::Stopped(Outcome::Failed, Some(reason)));
            }
        }
    }

    /// The worker's next line; nothing once it is gone.
    fn answer(&mut self) -> String {
        let mut line = String::new();
        // What cannot be read is no answer: the worker's status says why.
        let _ = self.worker.answers.read_line(&mut line);
        line
    }

    /// The worker's own report, or how it died.
    fn report(&mut self, line: &str) -> Verdict {
        let parsed = serde_json::from_str::<Report>(line).ok();
        let status = self.worker.child.wait().map_or("unknown".to_owned(), |status| status.to_string());
        match parsed {
            Some(report) => Verdict::Reported(report),
            None => Verdict::Stopped(Outcome::Failed, Some(format!("the worker ended without a report ({status})"))),
        }
    }

    fn steps_up(&self) -> u64 {
        let phases = self.planned.case.phases.iter().enumerate();
        phases
            .filter(|(_, phase)| phase.direction == Direction::Up)
            .map(|(lane, _)| self.lanes.len(lane) as u64)
            .min()
            .unwrap_or(0)
    }

    /// Writes the windows that were closed since the last look, with their samples.
    fn drain(&mut self, writer: &mut dyn Journal) -> Result<(), Error> {
        let lane = self.written.len() + 1;
        let whole = self.lanes.len(lane) / WINDOW_WORDS * WINDOW_WORDS;
        for words in self.lanes.read(lane, self.windows_written, whole).chunks_exact(WINDOW_WORDS) {
            let direction = if words[0] == 1 { Direction::Down } else { Direction::Up };
            self.write_samples(writer, direction, words[2] as usize)?;
            let canary = self.lanes.read(self.written.len(), self.canary_written, words[9] as usize);
            self.canary_written = words[9] as usize;
            writer.append(&Line::Window(Window {
                pass: self.pass,
                direction,
                first: words[1] as u32,
                count: words[2] as u32,
                until_us: words[3],
                preempted: words[4] as u32,
                faults: [words[5] as u32, words[6] as u32],
                processor: words[7] as i32 - 1,
                steal_ms: words[8] as u32 * 10,
                canary: Canary::new(self.unit, canary),
            }))?;
        }
        self.windows_written = whole;
        Ok(())
    }

    /// Writes the samples that lie behind the last closed window: those of a refused step or of a dead worker.
    fn drain_rest(&mut self, writer: &mut dyn Journal) -> Result<(), Error> {
        self.write_samples(writer, Direction::Up, usize::MAX)?;
        self.write_samples(writer, Direction::Down, usize::MAX)
    }

    /// Writes up to `most` further samples of each phase of a direction.
    fn write_samples(&mut self, writer: &mut dyn Journal, direction: Direction, most: usize) -> Result<(), Error> {
        let top = self.steps_up();
        for (lane, phase) in self.planned.case.phases.iter().enumerate() {
            if phase.direction != direction {
                continue;
            }
            let from = self.written[lane];
            let costs = self.lanes.read(lane, from, from.saturating_add(most));
            if costs.is_empty() {
                continue;
            }
            self.written[lane] += costs.len();
            let (first, stride) = match direction {
                Direction::Up => (from as u64 + 1, 1),
                Direction::Down => (top.saturating_sub(from as u64), -1),
            };
            let phase = phase.name.clone();
            let samples = Samples::new(self.unit, costs);
            writer.append(&Line::Chunk(Chunk { pass: self.pass, phase, first: first as u32, stride, samples }))?;
        }
        Ok(())
    }
}
