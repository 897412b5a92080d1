//! `syscall`: `getppid()`, the cheapest call that enters the kernel: the canary.
//!
//! Measures entry into the kernel and return. The cost depends on nothing that accumulates, so its curve is flat unless
//! the machine itself changes. Every other benchmark makes the same call every 16 to 48 steps.
//!
//! Can mislead if mitigations against speculation make kernel entry expensive: entry is then most of the cost of every
//! cheap call.
//!
//! Source: lmbench's null call, with getppid as in every benchmark since libraries cache getpid.

use landau_engine::{Benchmark, Context, Facts, Parameter, Phase, Settings, Stop, Timer};
use landau_sys::process::parent_id;

/// State of a pass.
#[derive(Debug)]
pub struct Syscall {
    parent: i32,
}

impl Benchmark for Syscall {
    const NAME: &'static str = "syscall";
    const ABOUT: &'static str = "What does a system call cost that does nothing (getppid)?";
    const AXIS: &'static str = "calls";
    const PHASES: &'static [Phase] = &[Phase::up("getppid", "getppid()")];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("100", "10000", "100000", "calls")];
    const CAVEATS: &'static [&'static str] = &[
        "Mitigations of CPU vulnerabilities can be most of the cost; the page lists the active ones under Environment.",
    ];
    const SOURCE: &'static str = "lmbench's null call (McVoy and Staelin, USENIX 1996)";

    fn step_us(_: &Settings) -> u64 {
        1
    }

    fn setup(_: &Context) -> Result<Self, Stop> {
        Ok(Self { parent: parent_id() })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let parent = timer.time(0, || Ok(parent_id()))?;
        Stop::unless(parent == self.parent, || format!("getppid() changed to {parent}"))
    }

    fn check(&mut self, _steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        Ok(())
    }
}
