//! `pipe`: opens thousands of pipes, then closes them one by one.
//!
//! Measures `pipe()`: an inode, a ring of buffers and two descriptors. Destruction closes both ends.
//!
//! Can mislead if an unprivileged user has many pipes: past `fs.pipe-user-pages-soft` the kernel allocates smaller
//! rings, and the call becomes cheaper.
//!
//! Source: will-it-scale's pipe and libMicro's pipe tests make the call, without accumulation.

use landau_engine::{Benchmark, Context, Cost, Facts, Parameter, Phase, Settings, Stop, Timer};
use landau_sys::descriptor::{close, pipe};
use std::os::fd::OwnedFd;

/// State of a pass.
#[derive(Debug)]
pub struct Pipe {
    pipes: Vec<(OwnedFd, OwnedFd)>,
}

const PIPE: usize = 0;
const CLOSE: usize = 1;

impl Benchmark for Pipe {
    const NAME: &'static str = "pipe";
    const ABOUT: &'static str = "Does pipe() cost more when thousands of pipes are open?";
    const AXIS: &'static str = "open pipes";
    const PHASES: &'static [Phase] = &[
        Phase::up("pipe", "pipe(): allocate a pipe and two descriptors"),
        Phase::down("close", "close() of both ends of the newest pipe"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("32", "5000", "9500", "open pipes")];
    const CAVEATS: &'static [&'static str] =
        &["Past fs.pipe-user-pages-soft an unprivileged user gets smaller pipes, which are cheaper to make."];
    const SOURCE: &'static str = "adapted from F. von Leitner's socket benchmark, with pipes";

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 2_200, descriptors_each: 2, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self { pipes: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.pipes.push(timer.time(PIPE, pipe)?);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let (reading, writing) = self.pipes.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(reading).and_then(|()| close(writing)))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        crate::list::check_open(self.pipes.iter().flat_map(|(reading, writing)| [reading, writing]), 2 * steps)
    }
}
