//! `thread`: creates thousands of threads, each of which writes one byte and sleeps; then ends and joins them.
//!
//! Measures the time from `pthread_create` until it has returned, until the thread runs, and until the creating thread
//! has read its byte. During destruction: from the wake-up of the thread until `pthread_join` has returned.
//!
//! Can mislead during destruction: the C library keeps the stacks of a few ended threads for new ones, and unmaps them
//! when there are many, so some joins cost more.
//!
//! Source: the thread benchmark that came with the 2003 study's programs, whose threads were never joined.

use crate::affinity::pin_to_all;
use landau_engine::{Benchmark, Context, Cost, Facts, Kind, Parameter, Phase, Settings, Stop, Timer, Variant};
use landau_sys::descriptor::pipe;
use landau_sys::thread::{Sleeper, has_stray_byte};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// State of a pass.
#[derive(Debug)]
pub struct Thread {
    listen: OwnedFd,
    report: Arc<OwnedFd>,
    stack_bytes: usize,
    threads: Vec<Sleeper>,
}

const RETURN: usize = 0;
const RUN: usize = 1;
const BYTE: usize = 2;
const JOIN: usize = 3;

impl Benchmark for Thread {
    const NAME: &'static str = "thread";
    const ABOUT: &'static str = "Do creating and joining a thread cost more when thousands exist?";
    const AXIS: &'static str = "threads";
    const PHASES: &'static [Phase] = &[
        Phase::up("return", "from pthread_create() until it has returned").elsewhere(),
        Phase::up("run", "from pthread_create() until the thread runs").elsewhere(),
        Phase::up("byte", "from pthread_create() until the creating thread has read the new thread's byte from a pipe")
            .elsewhere(),
        Phase::down("join", "from waking the thread, which then ends, until pthread_join() has returned"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("20", "2000", "8000", "threads"),
        Parameter::fixed(
            "stack",
            Kind::Size { min: 0, max: 1 << 30 },
            "0",
            "stack of each thread, such as 64KiB; 0: the C library's default",
        ),
        Parameter::fixed("processors", Kind::Choice(&["one", "all"]), "one", "processors on which the threads may run"),
    ];
    const VARIANTS: &'static [Variant] =
        &[Variant::full(&[("stack", "64KiB")]), Variant::full(&[("processors", "all")])];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "1000")];
    const CAVEATS: &'static [&'static str] = &[
        "The C library keeps the stacks of some ended threads; joins that unmap stacks cost more.",
        "Each thread needs two mappings, so vm.max_map_count limits their number as well.",
    ];
    const SOURCE: &'static str = "the thread benchmark among F. von Leitner's programs (11 October 2003)";

    fn cost(_: &Settings) -> Cost {
        let worker_bytes_each = size_of::<Sleeper>() as u64;
        // 20 KiB of pages (`AnonPages` in /proc/meminfo, at n = 3,000).
        Cost {
            memory_bytes_each: 40 << 10,
            page_bytes_each: 20 << 10,
            processes_each: 1,
            worker_bytes_each,
            ..Cost::default()
        }
    }

    fn uses_other_processors(settings: &Settings) -> bool {
        settings.is("processors", "all")
    }

    fn step_us(_: &Settings) -> u64 {
        150
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        if context.settings.is("processors", "all") {
            pin_to_all(context.host.pinned_processor)?;
        }
        let (listen, report) = pipe()?;
        let stack_bytes = context.settings.bytes("stack") as usize;
        Ok(Self { listen, report: Arc::new(report), stack_bytes, threads: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (thread, creation) = Sleeper::new(&self.report, &self.listen, self.stack_bytes)?;
        timer.record_ns(RETURN, creation.returned_ns - creation.before_ns);
        timer.record_ns(RUN, creation.started_ns.saturating_sub(creation.before_ns));
        timer.record_ns(BYTE, creation.read_ns - creation.before_ns);
        self.threads.push(thread);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let thread = self.threads.pop().ok_or(Stop::Enough)?;
        timer.time(JOIN, || {
            thread.release();
            thread.join()
        })
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        Stop::unless(self.threads.len() as u64 == steps, || {
            format!("{} threads exist instead of {steps}", self.threads.len())
        })?;
        Stop::unless(!has_stray_byte(&self.listen)?, || "the pipe holds a byte that no new thread wrote".to_owned())?;
        match living_threads() {
            // The creating thread counts as well.
            Some(alive) if alive != steps + 1 => Err(Stop::Wrong(format!(
                "{steps} threads were created, but the system reports {} besides the first",
                alive - 1
            ))),
            _ => Ok(()),
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        for thread in self.threads.drain(..) {
            thread.release();
            // A thread that cannot be joined ends with the process, which is about to exit.
            let _ = thread.join();
        }
    }
}

/// Returns the number of threads of this process, if the system reports it.
fn living_threads() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok())
}
