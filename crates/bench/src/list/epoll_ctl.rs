//! `epoll_ctl`: adds the n-th descriptor to an epoll set.
//!
//! Measures `epoll_ctl(EPOLL_CTL_ADD)` and, during destruction, `EPOLL_CTL_DEL`. The set is a red-black tree, so the
//! expected law is O(log N) with a small slope.
//!
//! Not a measure of a server: a server adds a descriptor once for each connection, but waits for events all the time.
//! The benchmark `event_wait` measures that.
//!
//! Source: the event notification that the 2003 study's connect benchmark rests on; perf bench has epoll ctl at a
//! fixed size.

use landau_engine::{Benchmark, Context, Cost, Facts, Host, Parameter, Phase, Settings, Stop, Support, Timer};
use landau_sys::event::{epoll_add, epoll_count_ready, epoll_create, epoll_delete, eventfd, eventfd_write};
use std::os::fd::OwnedFd;

/// State of a pass.
#[derive(Debug)]
pub struct EpollCtl {
    set: OwnedFd,
    watched: Vec<OwnedFd>,
}

const ADD: usize = 0;
const DELETE: usize = 1;

impl Benchmark for EpollCtl {
    const NAME: &'static str = "epoll_ctl";
    const ABOUT: &'static str = "Does adding a descriptor to an epoll set cost more when thousands are in it?";
    const AXIS: &'static str = "watched descriptors";
    const PHASES: &'static [Phase] = &[
        Phase::up("add", "epoll_ctl(EPOLL_CTL_ADD) of a new eventfd"),
        Phase::down("delete", "epoll_ctl(EPOLL_CTL_DEL) of the newest descriptor"),
    ];
    const PARAMETERS: &'static [Parameter] = &[Parameter::steps("64", "5000", "19000", "watched descriptors")];
    const CAVEATS: &'static [&'static str] =
        &["A server adds a descriptor once for each connection, but waits for events all the time: see event_wait."];
    const SOURCE: &'static str = "adapted from F. von Leitner's socket benchmark, with epoll";

    fn support(host: &Host, _: &Settings) -> Support {
        Support::when(host.system == "Linux", "only Linux has epoll")
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

    /// Makes every eventfd readable and checks that the set reports each.
    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        for counter in &self.watched {
            eventfd_write(counter)?;
        }
        let ready = epoll_count_ready(&self.set, steps as usize + 1)?;
        Stop::unless(ready as u64 == steps, || format!("{steps} descriptors were added, but {ready} are reported"))
    }
}
