//! The worker: a fresh process that takes the steps of one pass and nothing else.
//!
//! Its order comes as one line of JSON on standard input, its report goes as one line to standard output, and its
//! samples lie in memory that it shares with the controller. It has one thread until the benchmark makes more.

use crate::{Benchmark, Context, Entry, Facts, Fault, Host, Settings, Stop, Timer};
use landau_record::schema::Direction;
use landau_sys::clock::Clock;
use landau_sys::limits::{Resource, raise};
use landau_sys::shared::Lanes;
use landau_sys::{descriptor, system};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;

/// The word that makes this program a worker. It is not for users.
pub const ARGUMENT: &str = "__worker";

/// What worker and controller say to each other at the end of a window, where they go in lockstep.
pub(crate) const WINDOW: &str = "window\n";

/// What a worker is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) benchmark: String,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) n: u64,
    pub(crate) seed: u64,
    pub(crate) scratch: PathBuf,
    pub(crate) host: Host,
    pub(crate) clock: String,
    pub(crate) ns_per_tick: f64,
    pub(crate) lanes_fd: i32,
    pub(crate) processor: Option<u32>,
    pub(crate) parent: i32,
    /// Whether the worker rests at the end of each window until its controller has written it down.
    pub(crate) lockstep: bool,
    /// A fault that is made on purpose.
    pub(crate) fault: Option<Fault>,
    /// From where on, upwards, each step is a window of its own.
    pub(crate) fine_from: Option<u64>,
}

/// How a pass went, as the worker saw it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) steps: u64,
    pub(crate) wrong: Option<String>,
    pub(crate) limit: Option<landau_record::schema::Limit>,
    pub(crate) facts: Facts,
    pub(crate) locked: bool,
}

impl Report {
    fn new() -> Self {
        Self { steps: 0, wrong: None, limit: None, facts: Facts::new(), locked: false }
    }

    /// Enters what ended the way up; a refusal that is a limit becomes a result.
    fn ended<B: Benchmark>(&mut self, stop: &Stop, n: u64, settings: &Settings) {
        if let Stop::Refused(error) = stop
            && let Some(limit) = crate::limit::explain(*error, n)
        {
            let own = B::limit(settings, *error);
            let (meaning, raise) = own.unwrap_or((limit.meaning, limit.raise));
            self.limit = Some(landau_record::schema::Limit { meaning, raise, ..limit });
        } else {
            self.stop(stop, n);
        }
    }

    /// Enters why the pass failed.
    fn stop(&mut self, stop: &Stop, n: u64) {
        match stop {
            Stop::Refused(error) => self.wrong = Some(format!("at n = {n}: {error}")),
            Stop::Wrong(what) => self.wrong = Some(format!("at n = {n}: {what}")),
            Stop::Enough => {}
        }
    }
}

/// Runs a worker if the program was started as one: the exit status then.
///
/// Must be called before anything else, while the process has a single thread and no descriptors of its own.
pub fn main(registry: &[Entry]) -> Option<u8> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|word| word != ARGUMENT) {
        return None;
    }
    Some(match work(registry) {
        Ok(()) => 0,
        Err(reason) => {
            let report = Report { wrong: Some(reason), ..Report::new() };
            u8::from(send(&report).is_err()) + 1
        }
    })
}

fn work(registry: &[Entry]) -> Result<(), String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
    let order: Order =
        serde_json::from_str(&line).map_err(|error| format!("a worker is started by landau: {error}"))?;
    descriptor::close_inherited(order.lanes_fd);
    let entry = registry.iter().find(|entry| entry.name == order.benchmark).ok_or("no such benchmark")?;
    // Where the system cannot do this, the worker notices its parent's end by the pipe it writes its report to.
    let _ = system::set_parent_death_signal(order.parent);
    if let Some(processor) = order.processor {
        // Where pinning is impossible the host facts say so; the pass is still a pass.
        let _ = system::pin(&[processor]);
    }
    for resource in [Resource::Descriptors, Resource::Processes] {
        raise(resource).map_err(|error| error.to_string())?;
    }
    let capacities = crate::timer::lane_capacities(entry.phases.len(), order.n);
    let mut lanes = {
        let fd = descriptor::inherited(order.lanes_fd).map_err(|error| error.to_string())?;
        Lanes::attach(&fd, &capacities).map_err(|error| error.to_string())?
    };
    let locked = lanes.prepare();
    let clock = Clock::named(&order.clock, order.ns_per_tick);
    let settings = Settings::from_map(order.settings);
    let context =
        Context { settings: &settings, n: order.n, seed: order.seed, scratch: &order.scratch, host: &order.host };
    let mut timer = Timer::new(&lanes, clock, entry.phases.len());
    if order.lockstep {
        timer.rest_after_windows(rest);
    }
    match order.fault {
        Some(Fault::Panic(n)) => timer.fail_at(n, system::trigger_panic),
        Some(Fault::Hang(n)) => timer.fail_at(n, || {
            loop {
                std::hint::spin_loop();
            }
        }),
        None => {}
    }
    if let Some(from) = order.fine_from {
        timer.close_windows_from(from);
    }
    let report = (entry.drive)(&context, &mut timer);
    send(&Report { locked, ..report }).map_err(|error| error.to_string())
}

/// Rests until the controller has written the window down. Where it cannot be reached the pass goes on: its end is
/// noticed by the signal that [`system::set_parent_death_signal`] asked for.
fn rest() {
    let mut line = String::new();
    if std::io::stdout().lock().write_all(WINDOW.as_bytes()).is_ok() {
        let _ = std::io::stdin().lock().read_line(&mut line);
    }
}

fn send(report: &Report) -> std::io::Result<()> {
    let line = serde_json::to_string(report).map_err(std::io::Error::other)?;
    writeln!(std::io::stdout().lock(), "{line}")
}

/// The life of a pass: set up, the way up, the check, the way down.
pub(crate) fn drive<B: Benchmark>(context: &Context, timer: &mut Timer) -> Report {
    let mut report = Report::new();
    let mut benchmark = match B::setup(context) {
        Ok(benchmark) => benchmark,
        Err(stop) => {
            report.stop(&stop, 0);
            return report;
        }
    };
    timer.begin(Direction::Up);
    for n in 1..=context.n {
        if let Err(stop) = benchmark.step(n, timer) {
            report.ended::<B>(&stop, n, context.settings);
            break;
        }
        timer.stepped(n);
        report.steps = n;
    }
    timer.close_window();
    if report.wrong.is_none()
        && let Err(stop) = benchmark.check(report.steps, &mut report.facts)
    {
        report.stop(&stop, report.steps);
    }
    if report.wrong.is_none() && B::PHASES.iter().any(|phase| phase.direction == Direction::Down) {
        down(&mut benchmark, timer, &mut report);
    }
    report
}

fn down<B: Benchmark>(benchmark: &mut B, timer: &mut Timer, report: &mut Report) {
    timer.begin(Direction::Down);
    for n in (1..=report.steps).rev() {
        if let Err(stop) = benchmark.undo(n, timer) {
            report.stop(&stop, n);
            break;
        }
        timer.stepped(n);
    }
    timer.close_window();
}
