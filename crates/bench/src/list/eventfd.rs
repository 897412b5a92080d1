//! `eventfd`: opens thousands of eventfds, then closes them one by one.
//!
//! Measures `eventfd()`: the cheapest kernel object with a descriptor of its own. What `socket` costs in addition is
//! the cost of the network stack.
//!
//! Does not represent tables with gaps: here, as in `dup`, the lowest unused descriptor is always the next one.
//!
//! Source: will-it-scale's eventfd test makes the call, without accumulation.

use landau_engine::{Benchmark, Context, Cost, Facts, Host, Parameter, Phase, Settings, Stop, Support, Timer};
use landau_sys::descriptor::close;
use landau_sys::event::eventfd;
use std::os::fd::OwnedFd;

/// State of a pass.
#[derive(Debug)]
pub struct Eventfd {
    counters: Vec<OwnedFd>,
}

const EVENTFD: usize = 0;
const CLOSE: usize = 1;

impl Benchmark for Eventfd {
    const NAME: &'static str = "eventfd";
    const ABOUT: &'static str = "Does eventfd() cost more when thousands of eventfds are open?";
    const AXIS: &'static str = "open eventfds";
    const PHASES: &'static [Phase] = &[
        Phase::up("eventfd", "eventfd(): allocate a counter and the lowest unused descriptor"),
        Phase::down("close", "close() of the newest eventfd"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "open eventfds")];
    const CAVEATS: &'static [&'static str] =
        &["The descriptor table has no gaps here; closing in random order makes the search longer."];
    const SOURCE: &'static str = "adapted from F. von Leitner's socket benchmark, with eventfds";

    fn support(host: &Host, _: &Settings) -> Support {
        Support::when(host.system == "Linux", "only Linux has eventfd()")
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
