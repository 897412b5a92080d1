//! `epoll_ctl`: the n-th descriptor is added to one epoll set.
//!
//! Measures `epoll_ctl(EPOLL_CTL_ADD)` and, on the way down, `EPOLL_CTL_DEL`. The set is a red-black tree, so the
//! law to expect is log N with a small slope.
//!
//! Misleads as a figure for servers: they add a descriptor once in a connection's life, but wait for events all the
//! time. The cost of waiting is the benchmark `event_wait`.
//!
//! Source: the event notification that the 2003 study's connect benchmark rests on; perf bench has epoll ctl at a
//! fixed size.

use landau_engine::{Benchmark, Context, Cost, Facts, Host, Parameter, Phase, Settings, Stop, Support, Timer};
use landau_sys::event::{epoll_add, epoll_create, epoll_delete, epoll_ready, eventfd, raise};
use std::os::fd::OwnedFd;

/// The benchmark.
#[derive(Debug)]
pub struct EpollCtl {
    set: OwnedFd,
    watched: Vec<OwnedFd>,
}

const ADD: usize = 0;
const DELETE: usize = 1;

impl Benchmark for EpollCtl {
    const NAME: &'static str = "epoll_ctl";
    const ABOUT: &'static str = "What does it cost to add the n-th descriptor to an epoll set?";
    const AXIS: &'static str = "watched descriptors";
    const PHASES: &'static [Phase] = &[
        Phase::up("add", "epoll_ctl(EPOLL_CTL_ADD) of a new event descriptor"),
        Phase::down("delete", "epoll_ctl(EPOLL_CTL_DEL) of the one added last"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "how many")];
    const CAVEATS: &'static [&'static str] =
        &["A server adds a descriptor once in a connection's life; what it does all the time is wait."];
    const SOURCE: &'static str = "the frame of F. von Leitner's socket benchmark, with epoll";

    fn support(host: &Host, _: &Settings) -> Support {
        Support::when(host.system == "Linux", "epoll is Linux's own")
    }

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 520, descriptors_each: 1, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self { set: epoll_create()?, watched: Vec::with_capacity(context.n as usize) })
    }

    fn step(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let counter = eventfd()?;
        let set = &self.set;
        timer.time(ADD, || epoll_add(set, &counter))?;
        self.watched.push(counter);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let counter = self.watched.pop().ok_or(Stop::Enough)?;
        let set = &self.set;
        timer.time(DELETE, || epoll_delete(set, &counter))
    }

    /// Raises every counter and sees that the set reports each of them.
    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        for counter in &self.watched {
            raise(counter)?;
        }
        let ready = epoll_ready(&self.set, steps as usize + 1)?;
        Stop::unless(ready as u64 == steps, || format!("{steps} descriptors were added, but {ready} report events"))
    }
}
