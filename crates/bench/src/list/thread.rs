//! `thread`: threads pile up; each writes one byte and sleeps. Then they are let go and joined.
//!
//! Measures how long it takes from `pthread_create` until it has returned, until the thread runs, and until its
//! maker has read its byte. On the way down: from letting the thread go until `pthread_join` has returned.
//!
//! Misleads on the way down: the C library keeps the stacks of a few ended threads for new ones, and gives them
//! back to the system when there are many, so single joins are dearer.
//!
//! Source: the thread benchmark that came with the 2003 study's programs, whose threads were never joined.

use landau_engine::{Benchmark, Context, Cost, Facts, Kind, Parameter, Phase, Settings, Stop, Timer, Variant};
use landau_sys::descriptor::pipe;
use landau_sys::system::pin;
use landau_sys::thread::{Sleeper, has_stray_byte};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The benchmark.
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
    const ABOUT: &'static str = "Does making another thread cost more when thousands exist, and does joining one?";
    const AXIS: &'static str = "living threads";
    const PHASES: &'static [Phase] = &[
        Phase::up("return", "from pthread_create() until it has returned"),
        Phase::up("run", "from pthread_create() until the thread's first instruction of its own"),
        Phase::up("byte", "from pthread_create() until its maker has read the thread's byte out of a pipe"),
        Phase::down("join", "from letting the thread go until pthread_join() has returned"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("20", "2000", "8000", "how many threads"),
        Parameter::fixed(
            "stack",
            Kind::Size { min: 0, max: 1 << 30 },
            "0",
            "stack of each thread; 0: the C library's default",
        ),
        Parameter::fixed("processors", Kind::Choice(&["one", "all"]), "one", "where the threads may run"),
    ];
    const VARIANTS: &'static [Variant] =
        &[Variant::full(&[("stack", "64KiB")]), Variant::full(&[("processors", "all")])];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "1000")];
    const CAVEATS: &'static [&'static str] = &[
        "The C library keeps the stacks of some ended threads: joins that give stacks back are dearer than others.",
        "Each thread needs two mappings, so vm.max_map_count bounds their number as well.",
    ];
    const SOURCE: &'static str = "the thread benchmark among F. von Leitner's programs (11 October 2003)";

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 40 << 10, processes_each: 1, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        if context.settings.is("processors", "all") {
            pin(&(0..1024).collect::<Vec<u32>>())?;
        }
        let (listen, report) = pipe()?;
        let stack_bytes = context.settings.bytes("stack") as usize;
        Ok(Self { listen, report: Arc::new(report), stack_bytes, threads: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (thread, birth) = Sleeper::new(&self.report, &self.listen, self.stack_bytes)?;
        timer.record_ns(RETURN, birth.returned_ns - birth.before_ns);
        timer.record_ns(RUN, birth.started_ns.saturating_sub(birth.before_ns));
        timer.record_ns(BYTE, birth.read_ns - birth.before_ns);
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
            format!("{} threads instead of {steps}", self.threads.len())
        })?;
        Stop::unless(!has_stray_byte(&self.listen)?, || "a byte came that no thread was asked for".to_owned())?;
        match living_threads() {
            // The maker is a thread as well.
            Some(alive) if alive != steps + 1 => Err(Stop::Wrong(format!(
                "{steps} threads were made, but the system counts {} beside the first",
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
            // A thread that cannot be joined ends with the process, which is about to leave.
            let _ = thread.join();
        }
    }
}

/// Threads of this process, as the system counts them; none where it does not say.
fn living_threads() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("Threads:")?.trim().parse().ok())
}
