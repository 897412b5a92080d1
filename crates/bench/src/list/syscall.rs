//! `syscall`: getppid, the cheapest call that enters the kernel. The canary.
//!
//! Measures the way into the kernel and back. It depends on nothing that piles up, so its curve is flat unless the
//! machine itself changed meanwhile. The same call is made every few steps of every other benchmark.
//!
//! Misleads where mitigations against speculation make the entry dear: then it is most of every cheap call's cost.
//!
//! Source: lmbench's null call, with getppid as in every benchmark since libraries cache getpid.

use landau_engine::{Benchmark, Context, Facts, Parameter, Phase, Stop, Timer};
use landau_sys::process::parent_id;

/// The benchmark.
#[derive(Debug)]
pub struct Syscall {
    parent: i32,
}

impl Benchmark for Syscall {
    const NAME: &'static str = "syscall";
    const ABOUT: &'static str = "What does it cost to enter the kernel and come back (getppid)?";
    const AXIS: &'static str = "calls made";
    const PHASES: &'static [Phase] = &[Phase::up("getppid", "getppid()")];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("100", "10000", "100000", "how many calls")];
    const CAVEATS: &'static [&'static str] =
        &["Mitigations of processor flaws can be most of it; the host's facts list those that are active."];
    const SOURCE: &'static str = "lmbench's null call (McVoy and Staelin, USENIX 1996)";

    fn setup(_: &Context) -> Result<Self, Stop> {
        Ok(Self { parent: parent_id() })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let parent = timer.time(0, || Ok(parent_id()))?;
        Stop::unless(parent == self.parent, || format!("the parent changed to process {parent}"))
    }

    fn check(&mut self, _steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        Ok(())
    }
}
