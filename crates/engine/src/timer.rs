//! The stopwatch of a pass: durations go into shared lanes, and every few steps a window is closed that says what
//! interfered.

use crate::Stop;
use landau_record::schema::Direction;
use landau_sys::clock::Clock;
use landau_sys::marker;
use landau_sys::process::{Usage, parent_id, read_at_start, usage};
use landau_sys::shared::Lanes;
use landau_sys::system;
use std::fs::File;
use std::os::fd::AsFd;

/// The canary sings once in so many steps.
const CANARY_EVERY: u32 = 32;

/// Calls in a row, of which the quickest counts.
const CANARY_CALLS: u32 = 6;

/// A window is closed after so many steps, or after [`WINDOW_NS`].
const WINDOW_STEPS: u32 = 512;

/// A window is closed once it has lasted so long.
const WINDOW_NS: u64 = 10_000_000;

/// The time that a hypervisor stole is read this often: it is counted in hundredths of a second anyway.
const STEAL_NS: u64 = 10_000_000;

/// Numbers that describe a window in its lane.
pub(crate) const WINDOW_WORDS: usize = 10;

/// The lanes of a case: one for each phase, then the canary's, then the windows'.
pub(crate) fn lane_capacities(phase_count: usize, n: u64) -> Vec<usize> {
    let n = n as usize;
    // Both ways, windows by count and by time; a pass that lasts longer than 200 s loses tags, not samples.
    let windows = (2 * n + 2).min(2 * n / WINDOW_STEPS as usize + 40_002);
    let mut capacities = vec![n; phase_count];
    // Where every step closes a window, the canary sings at each, both ways.
    capacities.extend([2 * n + 2, windows * WINDOW_WORDS]);
    capacities
}

/// A moment of a pass's clock.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp(u64);

/// The stopwatch of a pass.
#[derive(Debug)]
pub struct Timer<'a> {
    lanes: &'a Lanes,
    clock: Clock,
    canary: usize,
    windows: usize,
    stat: Option<File>,
    direction: Direction,
    began: u64,
    first: u64,
    count: u32,
    window_began: u64,
    steal_read: u64,
    steal_ticks: u64,
    usage: Usage,
    /// What is done between two windows.
    rest: Option<fn()>,
    /// From this n on, upwards, each step is a window of its own.
    fine_from: u64,
    /// What goes wrong on purpose, and at which n.
    fault: Option<(u64, fn())>,
}

impl<'a> Timer<'a> {
    pub(crate) fn new(lanes: &'a Lanes, clock: Clock, phase_count: usize) -> Self {
        let now = clock.ticks();
        Self {
            lanes,
            clock,
            canary: phase_count,
            windows: phase_count + 1,
            stat: File::open("/proc/stat").ok(),
            direction: Direction::Up,
            began: now,
            first: 0,
            count: 0,
            window_began: now,
            steal_read: now,
            steal_ticks: 0,
            usage: Usage::default(),
            rest: None,
            fine_from: u64::MAX,
            fault: None,
        }
    }

    /// Calls `rest` after each window, untimed.
    pub(crate) fn rest_after_windows(&mut self, rest: fn()) {
        self.rest = Some(rest);
    }

    /// Times one call of a phase (its place in [`crate::Benchmark::PHASES`]). The duration counts if the call
    /// succeeds; a refused one leaves no sample, nor the mark behind it.
    #[inline(always)]
    pub fn time<T>(&mut self, phase: usize, call: impl FnOnce() -> landau_sys::Result<T>) -> Result<T, Stop> {
        marker::begin(phase);
        let start = self.clock.ticks();
        let result = call();
        let end = self.clock.ticks();
        match result {
            Ok(value) => {
                marker::end(phase);
                self.lanes.push(phase, self.clock.to_ns(end - start));
                Ok(value)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the clock, for phases that overlap or are made of several calls.
    #[inline(always)]
    pub fn now(&self) -> Timestamp {
        Timestamp(self.clock.ticks())
    }

    /// Enters the time between two moments. Instructions are not counted this way: the marks lie around one call.
    #[inline(always)]
    pub fn record_between(&mut self, phase: usize, from: Timestamp, to: Timestamp) {
        self.lanes.push(phase, self.clock.to_ns(to.0 - from.0));
    }

    /// Enters a duration that was measured elsewhere, in nanoseconds.
    #[inline(always)]
    pub fn record_ns(&mut self, phase: usize, ns: u64) {
        self.lanes.push(phase, ns);
    }

    /// From `n` on each step upwards is a window of its own.
    pub(crate) fn close_windows_from(&mut self, n: u64) {
        self.fine_from = n;
    }

    /// Lets something go wrong at `n` on the way up.
    pub(crate) fn fail_at(&mut self, n: u64, fault: fn()) {
        self.fault = Some((n, fault));
    }

    /// Begins the way up or down.
    pub(crate) fn begin(&mut self, direction: Direction) {
        self.direction = direction;
        self.count = 0;
        self.steal_ticks = self.read_steal();
        self.usage = usage();
        self.window_began = self.clock.ticks();
        if direction == Direction::Up {
            marker::pass();
            self.began = self.window_began;
        }
    }

    /// Takes note of a step; from time to time lets the canary sing and closes the window.
    #[inline]
    pub(crate) fn stepped(&mut self, n: u64) {
        if self.count == 0 {
            self.first = n;
        }
        self.count += 1;
        if self.count % CANARY_EVERY == 1 {
            self.sing();
        }
        let now = self.clock.ticks();
        if let Some((at, fail)) = self.fault
            && at == n
        {
            fail();
        }
        let fine = n >= self.fine_from && self.direction == Direction::Up;
        if self.count == WINDOW_STEPS || fine || self.clock.to_ns(now - self.window_began) >= WINDOW_NS {
            self.close_window();
        }
    }

    /// Times the canary's call. What was just measured may have driven the call, the clock and the branches between
    /// them out of the caches: a port search does, and the canary would then sing of the search. So the first of some
    /// calls in a row bring them back, and the quickest one counts.
    fn sing(&mut self) {
        let quickest = (0..CANARY_CALLS).map(|_| {
            let start = self.clock.ticks();
            std::hint::black_box(parent_id());
            self.clock.ticks() - start
        });
        let ticks = quickest.min().unwrap_or(0);
        self.lanes.push(self.canary, self.clock.to_ns(ticks));
    }

    /// Writes down what interfered since the window was opened, and opens the next.
    #[cold]
    pub(crate) fn close_window(&mut self) {
        if self.count == 0 {
            return;
        }
        let now = self.clock.ticks();
        let mut stolen = 0;
        if self.clock.to_ns(now - self.steal_read) >= STEAL_NS {
            let ticks = self.read_steal();
            stolen = ticks.saturating_sub(self.steal_ticks);
            self.steal_ticks = ticks;
            self.steal_read = now;
        }
        let used = usage();
        let words: [u64; WINDOW_WORDS] = [
            u64::from(self.direction == Direction::Down),
            self.first,
            u64::from(self.count),
            self.clock.to_ns(now - self.began) / 1_000,
            used.preempted - self.usage.preempted,
            used.faults_minor - self.usage.faults_minor,
            used.faults_major - self.usage.faults_major,
            system::current_processor().map_or(0, |processor| u64::from(processor) + 1),
            stolen,
            self.lanes.len(self.canary) as u64,
        ];
        // A full lane would take a part of a window and spoil those after it.
        if self.lanes.len(self.windows) + WINDOW_WORDS <= self.lanes.capacity(self.windows) {
            for word in words {
                self.lanes.push(self.windows, word);
            }
        }
        self.count = 0;
        if let Some(rest) = self.rest {
            rest();
        }
        self.usage = usage();
        self.window_began = self.clock.ticks();
    }

    fn read_steal(&self) -> u64 {
        let mut buffer = [0_u8; 256];
        let got = self.stat.as_ref().and_then(|file| read_at_start(file.as_fd(), &mut buffer).ok()).unwrap_or(0);
        std::str::from_utf8(&buffer[..got]).ok().and_then(system::steal_ticks_of).unwrap_or(self.steal_ticks)
    }
}
