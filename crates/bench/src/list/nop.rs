//! `nop`: an empty step: the timer overhead.
//!
//! Measures Landau itself: two clock readings, the bookkeeping between steps, and interference from the machine. The
//! curve must be flat. If it is not, no other curve of the record is reliable.
//!
//! Misleads if the timer overhead is subtracted from other results: a call can overlap with a part of it.
//!
//! Source: fio's null engine is the model of a tool that measures itself.

use landau_engine::{Benchmark, Context, Facts, Parameter, Phase, Settings, Stop, Timer};

/// State of a pass.
#[derive(Debug)]
pub struct Nop;

impl Benchmark for Nop {
    const NAME: &'static str = "nop";
    const ABOUT: &'static str = "What is the timer overhead: two clock readings with nothing between them?";
    const AXIS: &'static str = "steps";
    const PHASES: &'static [Phase] = &[Phase::up("nop", "two clock readings with nothing between them")];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("100", "10000", "100000", "empty steps")];
    const CAVEATS: &'static [&'static str] = &[
        "Every result includes the timer overhead; it is not subtracted, because a call can overlap with a part of it.",
    ];
    const SOURCE: &'static str = "Landau; after fio's null engine";

    fn step_us(_: &Settings) -> u64 {
        0
    }

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
