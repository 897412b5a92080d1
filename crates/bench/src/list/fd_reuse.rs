//! `fd_reuse`: closes a low descriptor and allocates it again while the table above it fills.
//!
//! Measures what a server does all day: a connection ends, and the next one gets its number. The kernel must find the
//! lowest unused descriptor, which is far below the last one. The search begins at a hint, on some systems at 0.
//!
//! Does not represent tables with many gaps: here there is exactly one, always at the same number.
//!
//! Source: since 7 November 2003 the 2003 study's programs close and reopen their socket number 10 in every step, to
//! defeat a hint in one kernel; the graphs published in October do not have this.

use landau_engine::{Benchmark, Context, Cost, Facts, Parameter, Phase, Settings, Stop, Timer};
use landau_sys::descriptor::{close, dup, pipe};
use std::os::fd::{AsRawFd, OwnedFd};

/// Number of descriptors below the one that is closed and reused.
const LOWER_DESCRIPTORS: u64 = 10;

/// State of a pass.
#[derive(Debug)]
pub struct FdReuse {
    original: OwnedFd,
    low: Option<OwnedFd>,
    number: i32,
    copies: Vec<OwnedFd>,
}

const CLOSE: usize = 0;
const DUP: usize = 1;

impl Benchmark for FdReuse {
    const NAME: &'static str = "fd_reuse";
    const ABOUT: &'static str = "Does reusing a low descriptor number cost more when thousands are in use above it?";
    const AXIS: &'static str = "descriptors in use";
    const PHASES: &'static [Phase] = &[
        Phase::up("close", "close() of a descriptor near the beginning of the table"),
        Phase::up("dup", "dup(), which must return the same number"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "descriptors in use")];
    const CAVEATS: &'static [&'static str] = &["There is one gap, always at the same place; a busy server has many."];
    const SOURCE: &'static str = "F. von Leitner's socket benchmark as changed on 7 November 2003";

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 8, descriptors_each: 1, ..Cost::default() }
    }

    fn step_us(_: &Settings) -> u64 {
        2
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (original, _) = pipe()?;
        let mut copies = Vec::with_capacity((context.n + LOWER_DESCRIPTORS) as usize);
        for _ in 0..LOWER_DESCRIPTORS {
            copies.push(dup(&original)?);
        }
        let low = dup(&original)?;
        Ok(Self { original, number: low.as_raw_fd(), low: Some(low), copies })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.copies.push(dup(&self.original)?);
        let (original, low) = (&self.original, self.low.take().ok_or(Stop::Enough)?);
        timer.time(CLOSE, || close(low))?;
        let reused = timer.time(DUP, || dup(original))?;
        let number = reused.as_raw_fd();
        self.low = Some(reused);
        Stop::unless(number == self.number, || format!("dup() returned {number} instead of {}", self.number))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        crate::list::check_open(&self.copies, steps + LOWER_DESCRIPTORS)
    }
}
