//! `dup`: duplicates one descriptor thousands of times.
//!
//! Measures `dup()`: only the search for the lowest unused descriptor, and one more reference to an open file. What
//! `socket` costs in addition is the cost of the socket itself.
//!
//! Does not represent tables with gaps: here the lowest unused descriptor is always the next one.
//!
//! Source: the part of the 2003 study's socket benchmark that it calls "not so easy".

use landau_engine::{Benchmark, Context, Cost, Facts, Parameter, Phase, Settings, Stop, Timer};
use landau_sys::descriptor::{close, dup, pipe};
use std::os::fd::OwnedFd;

/// State of a pass.
#[derive(Debug)]
pub struct Dup {
    original: OwnedFd,
    copies: Vec<OwnedFd>,
}

const DUP: usize = 0;
const CLOSE: usize = 1;

impl Benchmark for Dup {
    const NAME: &'static str = "dup";
    const ABOUT: &'static str = "What does finding the lowest unused descriptor cost when thousands are in use?";
    const AXIS: &'static str = "duplicated descriptors";
    const PHASES: &'static [Phase] = &[
        Phase::up("dup", "dup() of one descriptor"),
        Phase::down("close", "close() of the newest copy; the file itself stays open"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "copies of the descriptor")];
    const CAVEATS: &'static [&'static str] =
        &["The descriptor table has no gaps here; closing in random order, as a server does, makes the search longer."];
    const SOURCE: &'static str = "the descriptor half of the socket benchmark of F. von Leitner (2003)";

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 8, descriptors_each: 1, ..Cost::default() }
    }

    fn step_us(_: &Settings) -> u64 {
        2
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        let (original, _) = pipe()?;
        Ok(Self { original, copies: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let original = &self.original;
        self.copies.push(timer.time(DUP, || dup(original))?);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let copy = self.copies.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(copy))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        crate::list::check_open(&self.copies, steps)
    }
}
