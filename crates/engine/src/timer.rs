//! The timer of a pass: stores the duration of each call in the shared lanes, and every few steps closes a window that
//! records what interfered.

use crate::Stop;
use crate::lanes::{WINDOW_NS, WINDOW_STEPS, WindowRow, canary_lane};
use landau_record::schema::Direction;
use landau_sys::clock::Clock;
use landau_sys::marker;
use landau_sys::process::{Usage, parent_id, read_at_start, usage};
use landau_sys::shared::Lanes;
use landau_sys::system;
use std::fs::File;
use std::os::fd::AsFd;

/// The canary is timed once in this number of steps.
const CANARY_EVERY: u32 = 32;

/// Canary calls in a row, of which the fastest counts.
const CANARY_CALLS: u32 = 6;

/// The time stolen by the hypervisor is read this often. The kernel counts it in hundredths of a second, so reading it
/// more often would show nothing more.
const STEAL_NS: u64 = 10_000_000;

/// A reading of the pass's clock.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp(u64);

/// The timer of a pass.
#[derive(Debug)]
pub struct Timer<'a> {
    lanes: &'a Lanes,
    clock: Clock,
    phase_count: usize,
    /// `/proc/stat`, for the stolen time.
    stat: Option<File>,
    direction: Direction,
    /// When the creation began.
    began: u64,
    window: OpenWindow,
    steal_read_at: u64,
    steal_centiseconds: u64,
    /// Called between two windows, untimed.
    after_window: Option<fn()>,
    /// From this n on, each window of the creation holds a single step.
    step_windows_from: u64,
    /// A fault to inject, and at which n.
    fault: Option<(u64, fn())>,
}

/// The window that is being filled.
#[derive(Debug, Default)]
struct OpenWindow {
    began: u64,
    first: u64,
    count: u32,
    usage: Usage,
}

impl<'a> Timer<'a> {
    pub(crate) fn new(lanes: &'a Lanes, clock: Clock, phase_count: usize) -> Self {
        let now = clock.ticks();
        Self {
            lanes,
            clock,
            phase_count,
            stat: File::open("/proc/stat").ok(),
            direction: Direction::Up,
            began: now,
            window: OpenWindow { began: now, ..OpenWindow::default() },
            steal_read_at: now,
            steal_centiseconds: 0,
            after_window: None,
            step_windows_from: u64::MAX,
            fault: None,
        }
    }

    /// Times one call of a phase (its index in [`crate::Benchmark::PHASES`]). A call that fails leaves no sample. A
    /// marker, a no-op that an emulator recognises, precedes and follows the call: `landau explain` counts the
    /// instructions between the two ([`landau_sys::marker`]).
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

    /// Reads the clock, for phases that overlap or consist of several calls.
    #[inline(always)]
    pub fn now(&self) -> Timestamp {
        Timestamp(self.clock.ticks())
    }

    /// Records the time between two readings of the clock. No markers enclose such an interval, so `landau explain`
    /// cannot attribute instructions to its phase.
    #[inline(always)]
    pub fn record_between(&mut self, phase: usize, from: Timestamp, to: Timestamp) {
        self.lanes.push(phase, self.clock.to_ns(to.0 - from.0));
    }

    /// Records a duration that was measured elsewhere, in nanoseconds.
    #[inline(always)]
    pub fn record_ns(&mut self, phase: usize, ns: u64) {
        self.lanes.push(phase, ns);
    }

    /// Calls `pause` after each window, untimed.
    pub(crate) fn pause_after_windows(&mut self, pause: fn()) {
        self.after_window = Some(pause);
    }

    /// Closes a window after each single step of the creation, from `n` on.
    pub(crate) fn use_single_step_windows_from(&mut self, n: u64) {
        self.step_windows_from = n;
    }

    /// Calls `fault` at step `n` of the creation.
    pub(crate) fn fail_at(&mut self, n: u64, fault: fn()) {
        self.fault = Some((n, fault));
    }

    /// Begins the creation or the destruction.
    pub(crate) fn begin(&mut self, direction: Direction) {
        self.direction = direction;
        self.steal_centiseconds = self.read_steal();
        self.window = OpenWindow { usage: usage(), began: self.clock.ticks(), ..OpenWindow::default() };
        if direction == Direction::Up {
            marker::pass();
            self.began = self.window.began;
        }
    }

    /// Ends a step: times the canary if it is due, and closes the window if it is full.
    #[inline]
    pub(crate) fn end_step(&mut self, n: u64) {
        if self.window.count == 0 {
            self.window.first = n;
        }
        self.window.count += 1;
        if self.window.count % CANARY_EVERY == 1 {
            self.time_canary();
        }
        let now = self.clock.ticks();
        if let Some((at, fail)) = self.fault
            && at == n
        {
            fail();
        }
        let is_single = n >= self.step_windows_from && self.direction == Direction::Up;
        let is_full = self.window.count == WINDOW_STEPS || self.clock.to_ns(now - self.window.began) >= WINDOW_NS;
        if is_single || is_full {
            self.close_window();
        }
    }

    /// Times the canary's call. The call that was measured before it may have evicted the canary's code, data and
    /// branch predictions from the caches (a search for a free port does), and the canary would then depend on the
    /// benchmark. So the first of a few calls in a row reload them, and the fastest counts.
    fn time_canary(&mut self) {
        let fastest = (0..CANARY_CALLS).map(|_| {
            let start = self.clock.ticks();
            std::hint::black_box(parent_id());
            self.clock.ticks() - start
        });
        let ticks = fastest.min().unwrap_or(0);
        self.lanes.push(canary_lane(self.phase_count), self.clock.to_ns(ticks));
    }

    /// Writes down what interfered since the window was opened, and opens the next.
    #[cold]
    pub(crate) fn close_window(&mut self) {
        let window = std::mem::take(&mut self.window);
        if window.count == 0 {
            return;
        }
        let now = self.clock.ticks();
        let mut stolen = 0;
        if self.clock.to_ns(now - self.steal_read_at) >= STEAL_NS {
            let steal = self.read_steal();
            stolen = steal.saturating_sub(self.steal_centiseconds);
            self.steal_centiseconds = steal;
            self.steal_read_at = now;
        }
        let used = usage();
        let row = WindowRow {
            direction: self.direction,
            first: window.first as u32,
            count: window.count,
            until_us: self.clock.to_ns(now - self.began) / 1_000,
            preempted: used.preempted - window.usage.preempted,
            faults: [used.faults_minor - window.usage.faults_minor, used.faults_major - window.usage.faults_major],
            processor: system::current_processor(),
            steal_centiseconds: stolen,
            canary_end: self.lanes.len(canary_lane(self.phase_count)),
        };
        row.push(self.lanes, self.phase_count);
        if let Some(pause) = self.after_window {
            pause();
        }
        self.window.usage = usage();
        self.window.began = self.clock.ticks();
    }

    fn read_steal(&self) -> u64 {
        let mut buffer = [0_u8; 256];
        let got = self.stat.as_ref().and_then(|file| read_at_start(file.as_fd(), &mut buffer).ok()).unwrap_or(0);
        std::str::from_utf8(&buffer[..got])
            .ok()
            .and_then(system::steal_centiseconds_of)
            .unwrap_or(self.steal_centiseconds)
    }
}
