//! `fd_reuse`: a low descriptor is closed and given out again while the table above it fills.
//!
//! Measures what a server does all day: one connection ends, another takes its number. The kernel must find the
//! lowest unused descriptor, which now lies far below the last one: the search begins at a hint, and on some systems
//! at the bottom.
//!
//! Misleads as a figure for tables with many holes: there is exactly one here, always at the same place.
//!
//! Source: the 2003 study's programs close and make anew their socket number 10 in every step since 7 November 2003,
//! to defeat a hint in one kernel; the published graphs of October do not have this.

use landau_engine::{Benchmark, Context, Cost, Facts, Parameter, Phase, Settings, Stop, Timer};
use landau_sys::descriptor::{close, dup, pipe};
use std::os::fd::{AsRawFd, OwnedFd};

/// How many descriptors are made before the one that is closed and made anew.
const BELOW: u64 = 10;

/// The benchmark.
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
    const ABOUT: &'static str = "Does filling a gap low in the descriptor table cost more the fuller the table is?";
    const AXIS: &'static str = "descriptors in use";
    const PHASES: &'static [Phase] = &[
        Phase::up("close", "close() of a descriptor near the table's beginning"),
        Phase::up("dup", "dup(), which must give out that number again"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "how many steps")];
    const CAVEATS: &'static [&'static str] = &["There is one gap, always at the same place; a busy server has many."];
    const SOURCE: &'static str = "F. von Leitner's socket benchmark as changed on 7 November 2003";

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 8, descriptors_each: 1, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (original, _) = pipe()?;
        let mut copies = Vec::with_capacity((context.n + BELOW) as usize);
        for _ in 0..BELOW {
            copies.push(dup(&original)?);
        }
        let low = dup(&original)?;
        Ok(Self { original, number: low.as_raw_fd(), low: Some(low), copies })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.copies.push(dup(&self.original)?);
        let (original, low) = (&self.original, self.low.take().ok_or(Stop::Enough)?);
        timer.time(CLOSE, || close(low))?;
        let refilled = timer.time(DUP, || dup(original))?;
        let number = refilled.as_raw_fd();
        self.low = Some(refilled);
        Stop::unless(number == self.number, || format!("descriptor {number} was given out, not {}", self.number))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        crate::list::check_open(&self.copies, steps + BELOW)
    }
}
