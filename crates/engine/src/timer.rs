//! The timer of a pass. It stores the duration of each call in the shared lanes, and closes windows of steps, each of
//! which records the interference.

use crate::Stop;
use crate::interference::Interference;
use crate::lanes::{CallTags, WINDOW_NS, WindowRow, canary_lane, start_lane};
use crate::strides::Strides;
use landau_record::schema::Direction;
use landau_sys::clock::Clock;
use landau_sys::marker;
use landau_sys::process::parent_id;
use landau_sys::shared::Lanes;
use landau_sys::system;

/// Canary calls in a row, of which the fastest counts.
const CANARY_CALLS: u32 = 6;

/// The time stolen by the hypervisor is read this often. The kernel counts it in hundredths of a second, so reading it
/// more often would show nothing more.
const STEAL_NS: u64 = 10_000_000;

/// The maximum number of calls in a [`Sequence`].
const SEQUENCE: usize = 8;

/// A reading of the pass's clock.
#[derive(Debug, Clone, Copy)]
pub struct Timestamp(u64);

/// Calls of a step that follow one another at once, timed with one reading of the clock between two of them.
///
/// The reading that ends a call begins the next one, so a sequence takes half the readings of [`Timer::time`]. The
/// samples are stored after the last call. Use it for steps of many calls, with nothing between them but a look at a
/// result.
#[derive(Debug)]
pub struct Sequence {
    clock: Clock,
    /// Whether calls have markers, which an emulator looks for.
    is_marked: bool,
    last: u64,
    /// Phase, duration and beginning, in ticks.
    calls: [(usize, u64, u64); SEQUENCE],
    count: usize,
}

impl Sequence {
    /// Times the next call, which belongs to `phase`, from the end of the previous one. A call that fails leaves no
    /// sample.
    ///
    /// # Errors
    ///
    /// Fails if the call fails. If the sequence already has eight calls, it fails without making the call.
    #[inline(always)]
    pub fn time<T>(&mut self, phase: usize, call: impl FnOnce() -> landau_sys::Result<T>) -> Result<T, Stop> {
        let Some(sample) = self.calls.get_mut(self.count) else {
            return Err(Stop::Wrong(format!("a sequence has at most {SEQUENCE} calls")));
        };
        if self.is_marked {
            marker::begin(phase);
        }
        let value = call()?;
        let now = self.clock.ticks();
        if self.is_marked {
            marker::end(phase);
        }
        *sample = (phase, now - self.last, self.last);
        self.count += 1;
        self.last = now;
        Ok(value)
    }
}

/// The timer of a pass.
#[derive(Debug)]
pub struct Timer<'a> {
    lanes: &'a Lanes,
    clock: Clock,
    phase_count: usize,
    /// Whether the times at which calls began are stored, for a profiler.
    stores_starts: bool,
    interference: Interference,
    strides: Strides,
    direction: Direction,
    /// When the creation began.
    began: u64,
    window: OpenWindow,
    steal_read_at: u64,
    /// Windows that were closed since the stolen time was read.
    windows_since_steal: u32,
    /// Called between two windows, untimed.
    after_window: Option<fn()>,
    /// Called after all samples are taken.
    at_end: Option<fn()>,
    /// From this n on, each window of the creation holds a single step.
    step_windows_from: u64,
    /// A fault to inject, and the n at which it is injected.
    fault: Option<(u64, fn())>,
}

/// The window that is being filled.
#[derive(Debug, Default)]
struct OpenWindow {
    began: u64,
    first: u64,
    count: u32,
    /// The number of steps at which it is closed.
    steps: u32,
    has_canary: bool,
}

impl<'a> Timer<'a> {
    /// Returns the timer of a pass of a worker that is pinned to a processor or to none; `seed` is that of the pass.
    pub(crate) fn new(lanes: &'a Lanes, clock: Clock, phase_count: usize, processor: Option<u32>, seed: u64) -> Self {
        let now = clock.ticks();
        let mut strides = Strides::new(seed);
        let steps = strides.window(true);
        Self {
            lanes,
            clock,
            phase_count,
            stores_starts: false,
            interference: Interference::new(processor),
            strides,
            direction: Direction::Up,
            began: now,
            window: OpenWindow { began: now, steps, ..OpenWindow::default() },
            steal_read_at: now,
            windows_since_steal: 0,
            after_window: None,
            at_end: None,
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
                self.push(phase, start, self.clock.to_ns(end - start));
                Ok(value)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a sequence of calls; [`Timer::record`] stores their samples.
    #[inline(always)]
    pub fn sequence(&self) -> Sequence {
        let (clock, is_marked) = (self.clock, matches!(self.clock, Clock::Instructions));
        Sequence { clock, is_marked, last: clock.ticks(), calls: [(0, 0, 0); SEQUENCE], count: 0 }
    }

    /// Stores the samples of a sequence, even if one of its calls failed.
    #[inline(always)]
    pub fn record(&mut self, sequence: &Sequence) {
        for &(phase, ticks, began) in sequence.calls.iter().take(sequence.count) {
            self.push(phase, began, self.clock.to_ns(ticks));
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
        self.push(phase, from.0, self.clock.to_ns(to.0 - from.0));
    }

    /// Records a duration that was measured elsewhere, in nanoseconds.
    #[inline(always)]
    pub fn record_ns(&mut self, phase: usize, ns: u64) {
        self.push(phase, 0, ns);
    }

    /// Stores a sample and, for a profiler, when the call began; 0 if this process did not time the call.
    #[inline(always)]
    fn push(&self, phase: usize, began: u64, ns: u64) {
        self.lanes.push(phase, ns);
        if self.stores_starts {
            self.lanes.push(start_lane(self.phase_count, phase), self.clock.to_ns(began));
        }
    }

    /// Stores from now on when each call began; the lanes must have room for that.
    pub(crate) fn store_starts(&mut self) {
        self.stores_starts = true;
    }

    /// Records the tags of the call of a step of the creation, for a benchmark with [`crate::Benchmark::TAGS_CALLS`].
    /// Must be called once in each step that succeeds.
    #[inline]
    pub fn tag_call(&mut self, tags: CallTags) {
        tags.push(self.lanes, self.phase_count);
    }

    /// Records interference with these processes too. Has no effect in lockstep, where nothing but the worker runs and
    /// the counted work should not depend on the watching.
    pub(crate) fn watch(&mut self, pids: &[u32]) {
        if self.after_window.is_none() {
            self.interference.watch(pids);
        }
    }

    /// Calls `pause` after each window, untimed.
    pub(crate) fn pause_after_windows(&mut self, pause: fn()) {
        self.after_window = Some(pause);
    }

    /// Calls `announce` after all samples are taken.
    pub(crate) fn announce_end(&mut self, announce: fn()) {
        self.at_end = Some(announce);
    }

    /// Announces that all samples are taken, however the pass ended.
    pub(crate) fn finish_pass(&mut self) {
        if let Some(announce) = self.at_end.take() {
            announce();
        }
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
        self.interference.begin();
        self.windows_since_steal = 0;
        let steps = self.strides.window(true);
        let now = self.clock.ticks();
        self.steal_read_at = now;
        self.window = OpenWindow { began: now, steps, ..OpenWindow::default() };
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
        if self.strides.is_canary_due() {
            self.window.has_canary = true;
            self.time_canary();
        }
        let now = self.clock.ticks();
        if let Some((at, fail)) = self.fault
            && at == n
        {
            fail();
        }
        let is_single = n >= self.step_windows_from && self.direction == Direction::Up;
        let is_full = self.window.count >= self.window.steps || self.clock.to_ns(now - self.window.began) >= WINDOW_NS;
        if is_single || is_full {
            self.close_window();
        }
    }

    /// Times the canary's call. The call that was measured before it may have evicted the canary's code, data and
    /// branch predictions from the caches (a search for a free port does), and the canary would then depend on the
    /// benchmark. So the first of several calls in a row reload them, and the fastest counts.
    fn time_canary(&mut self) {
        let fastest = (0..CANARY_CALLS).map(|_| {
            let start = self.clock.ticks();
            std::hint::black_box(parent_id());
            self.clock.ticks() - start
        });
        let ticks = fastest.min().unwrap_or(0);
        self.lanes.push(canary_lane(self.phase_count), self.clock.to_ns(ticks));
    }

    /// Closes the last window of a half of the pass, and reads the stolen time even if it was read recently.
    pub(crate) fn finish(&mut self) {
        self.close(true);
    }

    /// Records the interference since the window was opened, and opens the next window.
    #[cold]
    fn close_window(&mut self) {
        self.close(false);
    }

    fn close(&mut self, is_last: bool) {
        let window = std::mem::take(&mut self.window);
        if window.count == 0 {
            return;
        }
        let now = self.clock.ticks();
        self.windows_since_steal += 1;
        let (mut stolen, steal_windows) = (0, self.windows_since_steal);
        if is_last || self.clock.to_ns(now - self.steal_read_at) >= STEAL_NS {
            stolen = self.interference.stolen();
            self.windows_since_steal = 0;
            self.steal_read_at = now;
        }
        let disturbed = self.interference.since_restart();
        let (own, others) = (disturbed.own, disturbed.others);
        let row = WindowRow {
            direction: self.direction,
            first: window.first as u32,
            count: window.count,
            until_us: self.clock.to_ns(now - self.began) / 1_000,
            preempted: own.preempted,
            faults: [own.faults_minor, own.faults_major],
            processor: system::current_processor(),
            steal_centiseconds: stolen,
            steal_windows,
            others: self
                .interference
                .has_others()
                .then_some((others.preempted, [others.faults_minor, others.faults_major])),
            canary_end: self.lanes.len(canary_lane(self.phase_count)),
        };
        row.push(self.lanes, self.phase_count);
        if let Some(pause) = self.after_window {
            pause();
        }
        self.interference.restart();
        self.window.steps = self.strides.window(window.has_canary);
        self.window.began = self.clock.ticks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::capacities;

    /// The calls of a sequence leave no gap between their times, and one that fails leaves no sample.
    #[test]
    fn a_sequence_has_the_time_of_each_call_that_succeeded() {
        let (lanes, _fd) = Lanes::create(&[4, 4, 4, 4, 64]).unwrap();
        let mut timer = Timer::new(&lanes, Clock::Gettime, 3, None, 1);
        let mut calls = timer.sequence();
        let began = calls.last;
        for phase in [2, 0] {
            calls.time(phase, || Ok(())).unwrap();
        }
        let failed = landau_sys::Error { call: "open", errno: libc::ENOSPC };
        calls.time(1, || Err::<(), _>(failed)).unwrap_err();
        calls.time(2, || Ok(())).unwrap();
        timer.record(&calls);
        assert_eq!([0, 1, 2].map(|lane| lanes.len(lane)), [1, 0, 2]);
        // The time of the call that failed is part of the next call's time.
        let sum: u64 = [0, 2].iter().flat_map(|&lane| lanes.read(lane, 0, 4)).sum();
        assert_eq!(sum, calls.last - began);
    }

    #[test]
    fn the_start_of_each_call_is_stored_for_a_profiler() {
        let (lanes, _fd) = Lanes::create(&capacities(2, 4, false, true)).unwrap();
        let mut timer = Timer::new(&lanes, Clock::Gettime, 2, None, 1);
        timer.time(0, || Ok(())).unwrap();
        assert_eq!(lanes.len(start_lane(2, 0)), 0);
        timer.store_starts();
        let before = Clock::Gettime.ticks();
        timer.time(1, || Ok(())).unwrap();
        let mut calls = timer.sequence();
        calls.time(1, || Ok(())).unwrap();
        calls.time(1, || Ok(())).unwrap();
        timer.record(&calls);
        timer.record_ns(1, 5);
        let (starts, took) = (lanes.read(start_lane(2, 1), 0, 9), lanes.read(1, 0, 9));
        assert_eq!((starts.len(), took.len(), starts[3]), (4, 4, 0));
        assert!(before <= starts[0] && starts[0] + took[0] <= starts[1], "{before}: {starts:?}, {took:?}");
        assert_eq!(starts[1] + took[1], starts[2], "a call of a sequence begins where the one before it ended");
    }

    #[test]
    fn a_ninth_call_of_a_sequence_is_refused_before_it_is_made() {
        let (lanes, _fd) = Lanes::create(&[16, 4, 4, 4, 64]).unwrap();
        let mut calls = Timer::new(&lanes, Clock::Gettime, 3, None, 1).sequence();
        let mut made = 0;
        let mut call = |calls: &mut Sequence| {
            calls.time(0, || {
                made += 1;
                Ok(())
            })
        };
        assert!((0..8).all(|_| call(&mut calls).is_ok()) && call(&mut calls).is_err());
        assert_eq!(made, 8);
    }
}
