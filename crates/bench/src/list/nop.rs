//! `nop`: an empty step. What is left when nothing is measured.
//!
//! Measures the instrument itself: two readings of the clock, the bookkeeping between steps, and whatever the
//! machine does meanwhile. Its curve must be flat; where it is not, no other curve of the record is worth much.
//!
//! Misleads if its cost is subtracted from other figures: a call may hide part of it.
//!
//! Source: fio's null engine is the model of an instrument that measures itself.

use landau_engine::{Benchmark, Context, Facts, Parameter, Phase, Stop, Timer};

/// The benchmark.
#[derive(Debug)]
pub struct Nop;

impl Benchmark for Nop {
    const NAME: &'static str = "nop";
    const ABOUT: &'static str = "What does the instrument cost when nothing lies between two readings of the clock?";
    const AXIS: &'static str = "steps taken";
    const PHASES: &'static [Phase] = &[Phase::up("nop", "two readings of the clock with nothing between")];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("100", "10000", "100000", "how many empty steps")];
    const CAVEATS: &'static [&'static str] =
        &["It is the floor under every other figure and is never subtracted from one: a call can hide a part of it."];
    const SOURCE: &'static str = "the instrument";

    fn setup(_: &Context) -> Result<Self, Stop> {
        Ok(Self)
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        timer.time(0, || Ok(()))
    }

    fn check(&mut self, _steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        Ok(())
    }
}
