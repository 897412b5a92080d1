//! `eventfd`: event counters pile up, then are closed one by one.
//!
//! Measures `eventfd()`: the cheapest object with a descriptor of its own. What `socket` costs beyond this is the
//! network's.
//!
//! Misleads nowhere that `dup` does not.
//!
//! Source: will-it-scale's eventfd test has the call, without the piling up.

use landau_engine::{Benchmark, Context, Cost, Facts, Host, Parameter, Phase, Settings, Stop, Support, Timer};
use landau_sys::descriptor::close;
use landau_sys::event::eventfd;
use std::os::fd::OwnedFd;

/// The benchmark.
#[derive(Debug)]
pub struct Eventfd {
    counters: Vec<OwnedFd>,
}

const EVENTFD: usize = 0;
const CLOSE: usize = 1;

impl Benchmark for Eventfd {
    const NAME: &'static str = "eventfd";
    const ABOUT: &'static str = "Does another eventfd() cost more when thousands are open?";
    const AXIS: &'static str = "open event descriptors";
    const PHASES: &'static [Phase] = &[
        Phase::up("eventfd", "eventfd(): a counter behind a descriptor"),
        Phase::down("close", "close() of the one made last"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "how many")];
    const CAVEATS: &'static [&'static str] =
        &["The table of descriptors has no holes here; a program that closes in random order makes it search."];
    const SOURCE: &'static str = "the frame of F. von Leitner's socket benchmark, with event descriptors";

    fn support(host: &Host, _: &Settings) -> Support {
        Support::when(host.system == "Linux", "eventfd() is Linux's own")
    }

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 320, descriptors_each: 1, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self { counters: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        self.counters.push(timer.time(EVENTFD, eventfd)?);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let counter = self.counters.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(counter))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        crate::list::check_open(&self.counters, steps)
    }
}
