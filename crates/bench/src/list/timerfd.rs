//! `timerfd`: creates and arms thousands of timers, then closes them one by one.
//!
//! Measures `timerfd_settime()` while thousands of timers are armed. Linux keeps the high-resolution timers of a
//! processor in a red-black tree ordered by expiry, so the expected law is O(log N): a new timer descends the tree, and
//! one that expires first also reprograms the hardware.
//!
//! Not a measure of the cost of the timeouts of a server: event libraries keep those in a separate data structure and
//! arm one kernel timer for the earliest.
//!
//! Source: adapted from F. von Leitner's socket benchmark; hrtimers and their tree: T. Gleixner and D. Niehaus,
//! "Hrtimers and Beyond", Ottawa Linux Symposium 2006.

use landau_engine::{
    Benchmark, Context, Cost, Facts, Host, Kind, Parameter, Phase, Settings, Stop, Support, Timer, Variant,
};
use landau_sys::clock::monotonic_ns;
use landau_sys::descriptor::{close, is_open, wait_readable};
use landau_sys::timerfd::TimerFd;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::os::fd::{AsFd, AsRawFd};

/// The first expiry after the start of a pass: no timer may expire during the pass.
const FIRST_NS: u64 = 3_600_000_000_000;
/// The range of expiries, from the first on.
const RANGE_NS: u64 = 3_600_000_000_000;

/// State of a pass.
#[derive(Debug)]
pub struct Timerfd {
    timers: Vec<TimerFd>,
    is_random: bool,
    random: ChaCha8Rng,
    first_ns: u64,
    last_n: u64,
}

const CREATE: usize = 0;
const ARM: usize = 1;
const CLOSE: usize = 2;

impl Benchmark for Timerfd {
    const NAME: &'static str = "timerfd";
    const ABOUT: &'static str = "Does arming a timer cost more when thousands are armed?";
    const AXIS: &'static str = "armed timers";
    const PHASES: &'static [Phase] = &[
        Phase::up("create", "timerfd_create(): a timer with a descriptor"),
        Phase::up("arm", "timerfd_settime() with an absolute expiry at least an hour away"),
        Phase::down("close", "close() of the newest timer, which cancels it"),
    ];
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::steps("64", "5000", "19000", "number of timers"),
        Parameter::fixed(
            "expiry",
            Kind::Choice(&["random", "ascending"]),
            "random",
            "random: within an hour of each other; ascending: each new timer expires last",
        ),
    ];
    const VARIANTS: &'static [Variant] = &[Variant::full(&[("expiry", "ascending")])];
    const CAVEATS: &'static [&'static str] =
        &["Event libraries keep timeouts in their own structure and arm one kernel timer for the earliest."];
    const SOURCE: &'static str = "adapted from F. von Leitner's socket benchmark, with timers";

    fn support(host: &Host, _: &Settings) -> Support {
        Support::when(host.system == "Linux", "timerfd_create() exists on Linux only")
    }

    fn cost(_: &Settings) -> Cost {
        Cost { memory_bytes_each: 512, descriptors_each: 1, ..Cost::default() }
    }

    fn setup(context: &Context) -> Result<Self, Stop> {
        Ok(Self {
            timers: Vec::with_capacity(context.n as usize),
            is_random: context.settings.text("expiry") == "random",
            random: ChaCha8Rng::seed_from_u64(context.seed),
            first_ns: monotonic_ns() + FIRST_NS,
            last_n: context.n,
        })
    }

    fn step(&mut self, n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let offset_ns = if self.is_random { self.random.random_range(0..RANGE_NS) } else { RANGE_NS / self.last_n * n };
        let expiry_ns = self.first_ns + offset_ns;
        let timerfd = timer.time(CREATE, TimerFd::new)?;
        timer.time(ARM, || timerfd.set(expiry_ns))?;
        self.timers.push(timerfd);
        Ok(())
    }

    fn undo(&mut self, _n: u64, timer: &mut Timer) -> Result<(), Stop> {
        let timerfd = self.timers.pop().ok_or(Stop::Enough)?;
        timer.time(CLOSE, || close(timerfd.into()))
    }

    fn check(&mut self, steps: u64, _facts: &mut Facts) -> Result<(), Stop> {
        let mut numbers: Vec<i32> = self.timers.iter().map(|timerfd| timerfd.as_fd().as_raw_fd()).collect();
        numbers.retain(|&number| is_open(number));
        numbers.sort_unstable();
        numbers.dedup();
        Stop::unless(numbers.len() as u64 == steps, || format!("{} of {steps} timers are open", numbers.len()))?;
        let Some(newest) = self.timers.last() else { return Ok(()) };
        Stop::unless(!wait_readable(&newest.as_fd(), 0)?, || "a timer expired during the pass".to_owned())?;
        // Armed for the past, it must become readable: this shows that the kernel uses the given time, and that the
        // check above can fail.
        newest.set(1)?;
        Stop::unless(wait_readable(&newest.as_fd(), 1_000)?, || {
            "a timer that was armed for the past did not expire".to_owned()
        })
    }
}
