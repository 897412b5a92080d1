//! `waitpid`: creates thousands of children; after each one the parent asks whether any child has exited.
//!
//! Measures `waitpid(-1, WNOHANG)` while all children are alive and, during destruction, `waitpid(-1)` when exactly one
//! has exited. Neither sleeps. A kernel that keeps the children in a list walks it: to the end if none has exited,
//! otherwise to the one that has; hence the parameter `order`.
//!
//! Does not represent programs that wait for a child by its process ID: they need no walk.
//!
//! Source: adapted from the fork benchmark of Felix von Leitner's 2003 study; a server with a process for each
//! connection waits like this.

use landau_engine::{Benchmark, Context, Cost, Facts, Kind, Parameter, Phase, Settings, Stop, Timer, Variant};
use landau_sys::child::{ChildPool, is_alive, kill_without_reaping, try_wait_any, wait_any};

/// State of a pass.
#[derive(Debug)]
pub struct Waitpid {
    pool: ChildPool,
    in_creation_order: bool,
    pids: Vec<i32>,
}

const WNOHANG: usize = 0;
const REAP: usize = 1;

impl Benchmark for Waitpid {
    const NAME: &'static str = "waitpid";
    const ABOUT: &'static str = "Does waitpid(-1) cost more when thousands of children are alive?";
    const AXIS: &'static str = "child processes";
    const PHASES: &'static [Phase] = &[
        Phase::up("wnohang", "waitpid(-1, WNOHANG) while no child has exited"),
        Phase::down("reap", "waitpid(-1) when one child has exited: the kernel finds and reaps it"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("20", "300", "3000", "child processes"),
        Parameter::fixed(
            "order",
            Kind::Choice(&["reverse", "creation"]),
            "reverse",
            "child that exits first: the newest (reverse) or the oldest (creation)",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[Variant::always(&[("order", "creation")])];
    const EMULATED: &'static [(&'static str, &'static str)] = &[("n", "300")];
    const CAVEATS: &'static [&'static str] = &[
        "A program that waits for one child by its process ID or pidfd needs no search.",
        "The position of the exited child in the kernel's list decides the cost of reap: compare order=reverse and \
         creation.",
        "Creating a child evicts parts of the caches before each call; a program that polls in a loop finds them warm.",
    ];
    const SOURCE: &'static str = "adapted from F. von Leitner's fork benchmark (2003), with the wait of a server that \
                                  has a process for each connection";

    fn cost(_: &Settings) -> Cost {
        // Kernel stack, task, page tables and the pages that a child writes to: about 100 KiB as measured, 32 KiB of it
        // pages (`AnonPages` in /proc/meminfo, at n = 3,000).
        Cost { memory_bytes_each: 100 << 10, page_bytes_each: 32 << 10, processes_each: 1, ..Cost::default() }
    }

    fn step_us(_: &Settings) -> u64 {
        // The median of 118 passes is 357 µs for n = 300 (docs/records/explain/waitpid.landau.ndjson.gz).
        350
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self {
            pool: ChildPool::new()?,
            in_creation_order: context.settings.is("order", "creation"),
            pids: Vec::with_capacity(context.n as usize),
        })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.pids.push(self.pool.spawn()?);
        let ended = timer.time(WNOHANG, try_wait_any)?;
        Stop::unless(ended == 0, || format!("child {ended} exited early; was it killed by another process?"))
    }

    fn undo(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let index = if self.in_creation_order { self.pids.len() - n as usize } else { n as usize - 1 };
        let pid = self.pids[index];
        kill_without_reaping(pid)?;
        let (ended, signal) = timer.time(REAP, wait_any)?;
        Stop::unless(ended == pid && signal == libc::SIGKILL, || {
            format!("child {pid} was killed, but waitpid() returned child {ended}, killed by signal {signal}")
        })
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        let mut alive = 0;
        for &pid in &self.pids {
            alive += u64::from(is_alive(pid)?);
        }
        Stop::unless(alive == steps, || format!("{steps} children were created, but {alive} are alive"))
    }
}
