//! The clock that times a call, chosen by measurement.
//!
//! Two candidates: `clock_gettime(CLOCK_MONOTONIC)`, which every system has and which on most machines is read
//! without entering the kernel, and the processor's own counter (x86-64: fenced `rdtsc`; aarch64: `cntvct_el0`).
//! Where the first is as cheap as the second, it wins: it needs no trust in the counter's constancy. The counter
//! matters where `clock_gettime` falls back to a system call.

use std::time::Duration;

/// A source of time. Reading it is the only thing that stands between a call and its duration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    /// `clock_gettime(CLOCK_MONOTONIC)`, in nanoseconds.
    Gettime,
    /// The processor's counter, with nanoseconds per tick.
    Counter {
        /// Nanoseconds per tick, measured against `CLOCK_MONOTONIC`.
        ns_per_tick: f64,
    },
    /// The processor's counter where an emulator lets it count instructions, one a tick: no time at all.
    Instructions,
}

/// A clock as it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// The clock.
    pub clock: Clock,
    /// The median of an empty lap in nanoseconds.
    pub timer_overhead_ns: f64,
    /// The smallest step between two different readings, in nanoseconds.
    pub quantum_ns: f64,
}

impl Clock {
    /// The clock's reading in its own ticks.
    #[inline(always)]
    pub fn ticks(self) -> u64 {
        match self {
            Clock::Gettime => monotonic_ns(),
            Clock::Counter { .. } | Clock::Instructions => counter(),
        }
    }

    /// A number of ticks in nanoseconds, rounded.
    #[inline(always)]
    pub fn to_ns(self, ticks: u64) -> u64 {
        match self {
            Clock::Gettime | Clock::Instructions => ticks,
            Clock::Counter { ns_per_tick } => (ticks as f64 * ns_per_tick + 0.5) as u64,
        }
    }

    /// The clock's name as the record has it.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Gettime => "clock_gettime",
            Clock::Counter { .. } if cfg!(target_arch = "x86_64") => "tsc",
            Clock::Counter { .. } => "cntvct",
            Clock::Instructions => "icount",
        }
    }

    /// The clock that `name` and the given scale describe; how a worker is told what its controller chose.
    pub fn named(name: &str, ns_per_tick: f64) -> Self {
        match name {
            "clock_gettime" => Clock::Gettime,
            "icount" => Clock::Instructions,
            _ => Clock::Counter { ns_per_tick },
        }
    }

    /// Nanoseconds per tick.
    pub fn ns_per_tick(self) -> f64 {
        match self {
            Clock::Gettime | Clock::Instructions => 1.0,
            Clock::Counter { ns_per_tick } => ns_per_tick,
        }
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline(always)]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that the call may write, and the clock exists on every system we build for,
    // so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processor's counter, fenced so that no instruction of the measured call passes it.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: lfence is part of SSE2, which every x86-64 processor has.
    unsafe { _mm_lfence() };
    // SAFETY: rdtsc exists on every x86-64 processor and is not disabled for user code on any system we build for.
    let ticks = unsafe { _rdtsc() };
    // SAFETY: as above.
    unsafe { _mm_lfence() };
    ticks
}

/// The system counter, fenced so that no instruction of the measured call passes it.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: the virtual counter may be read in user mode on every system we build for; the block touches no memory.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack)) };
    ticks
}

/// No counter is known for this processor: the portable clock stands in, and [`candidates`] leaves it out.
#[inline(always)]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns()
}

/// Every clock of this machine, measured; the one to use first.
pub fn candidates() -> Vec<Probe> {
    let mut found = vec![probe(Clock::Gettime)];
    if let Some(ns_per_tick) = calibrate() {
        let counter = probe(Clock::Counter { ns_per_tick });
        let gettime = found[0].timer_overhead_ns;
        // Half as dear again is what makes the counter worth its assumptions.
        let place = usize::from(gettime <= 1.5 * counter.timer_overhead_ns);
        found.insert(place, counter);
    }
    found
}

/// Measures the empty lap and the quantum of a clock; about a millisecond.
pub fn probe(clock: Clock) -> Probe {
    const LAPS: usize = 20_000;
    let mut laps = vec![0_u64; LAPS];
    for lap in &mut laps {
        let start = clock.ticks();
        *lap = clock.ticks() - start;
    }
    laps.sort_unstable();
    Probe { clock, timer_overhead_ns: laps[LAPS / 2] as f64 * clock.ns_per_tick(), quantum_ns: quantum_ns(clock) }
}

/// The step in which a clock's readings move, in nanoseconds.
fn quantum_ns(clock: Clock) -> f64 {
    const LAPS: u64 = 20_000;
    // Laps of many lengths, so that they end anywhere within a step if the steps are finer than the lap.
    let lap = |spins: u64| {
        let start = clock.ticks();
        (0..spins).for_each(|spin| {
            std::hint::black_box(spin);
        });
        clock.to_ns(clock.ticks() - start)
    };
    step_of(&(0..LAPS).map(|index| lap(index % 61)).collect::<Vec<_>>())
}

/// The largest number of nanoseconds of which nearly all durations are multiples, but for the rounding of one.
fn step_of(laps: &[u64]) -> f64 {
    let is_multiple = |lap: u64, step: u64| lap % step <= 1 || lap % step == step - 1;
    let share = |step: u64| laps.iter().filter(|&&lap| is_multiple(lap, step)).count() as f64 / laps.len() as f64;
    // Below eight the rounding leaves hardly a number that is no multiple.
    (8..=200).rev().find(|&step| share(step) > 0.95).unwrap_or(1) as f64
}

/// Nanoseconds per tick of the counter; none where there is no counter or it does not run evenly.
fn calibrate() -> Option<f64> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return None;
    }
    let rates: Vec<f64> = (0..3).map(|_| rate_over(Duration::from_millis(4))).collect();
    let (low, high) = rates.iter().fold((f64::MAX, 0.0_f64), |(low, high), &rate| (low.min(rate), high.max(rate)));
    (low > 0.0 && high / low < 1.001).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

fn rate_over(span: Duration) -> f64 {
    let (start_ns, start) = (monotonic_ns(), counter());
    while monotonic_ns() - start_ns < span.as_nanos() as u64 {}
    let (end_ns, end) = (monotonic_ns(), counter());
    (end_ns - start_ns) as f64 / (end.wrapping_sub(start)).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_clock_shows_its_step_and_a_fine_one_shows_none() {
        let coarse: Vec<u64> = (0..1_000).map(|i| 20 + 10 * (i % 9) + u64::from(i % 7 == 0)).collect();
        let fine: Vec<u64> = (0..1_000).map(|i| 20 + i % 97).collect();
        assert!((step_of(&coarse) - 10.0).abs() < f64::EPSILON);
        assert!((step_of(&fine) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn every_candidate_moves_forward_and_agrees_on_a_span() {
        for probe in candidates() {
            let (start, from) = (probe.clock.ticks(), monotonic_ns());
            while monotonic_ns() - from < 2_000_000 {}
            let ns = probe.clock.to_ns(probe.clock.ticks() - start) as f64;
            let real = (monotonic_ns() - from) as f64;
            assert!(ns > 1.9e6 && ns <= real * 1.05, "{:?}: {ns} against {real}", probe.clock);
        }
    }
}
