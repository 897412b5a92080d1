//! The clock that times calls, chosen by measurement.
//!
//! There are two candidates: `clock_gettime(CLOCK_MONOTONIC)`, which every system has and which most machines read
//! without entering the kernel, and the processor's counter (x86-64: fenced `rdtsc`; aarch64: `cntvct_el0`). If the
//! first is as cheap as the second, it is preferred, since it does not rely on the counter's constant rate. The counter
//! matters where `clock_gettime` falls back to a system call.

use std::time::Duration;

/// A source of time. Its readings are directly before and after a timed call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    /// `clock_gettime(CLOCK_MONOTONIC)`, in nanoseconds.
    Gettime,
    /// The processor's counter.
    Counter {
        /// Nanoseconds per tick, measured against `CLOCK_MONOTONIC`.
        ns_per_tick: f64,
    },
    /// The processor's counter in an emulator in which it counts instructions, one per tick, instead of time.
    Instructions,
}

/// A clock and its measured properties.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probe {
    /// The clock.
    pub clock: Clock,
    /// The timer overhead: the median of two readings with nothing in between, in nanoseconds.
    pub timer_overhead_ns: f64,
    /// The smallest step between two different readings, in nanoseconds.
    pub quantum_ns: f64,
}

impl Clock {
    /// Reads the clock, in its own ticks.
    #[inline(always)]
    pub fn ticks(self) -> u64 {
        match self {
            Clock::Gettime => monotonic_ns(),
            Clock::Counter { .. } | Clock::Instructions => counter(),
        }
    }

    /// Converts ticks to nanoseconds, rounded.
    #[inline(always)]
    pub fn to_ns(self, ticks: u64) -> u64 {
        match self {
            Clock::Gettime | Clock::Instructions => ticks,
            Clock::Counter { ns_per_tick } => (ticks as f64 * ns_per_tick + 0.5) as u64,
        }
    }

    /// Returns the clock's name in the record.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Gettime => "clock_gettime",
            Clock::Counter { .. } if cfg!(target_arch = "x86_64") => "tsc",
            Clock::Counter { .. } => "cntvct",
            Clock::Instructions => "icount",
        }
    }

    /// Returns the clock with a name and a scale, so that a worker uses the choice of its controller.
    pub fn named(name: &str, ns_per_tick: f64) -> Self {
        match name {
            "clock_gettime" => Clock::Gettime,
            "icount" => Clock::Instructions,
            _ => Clock::Counter { ns_per_tick },
        }
    }

    /// Returns the nanoseconds per tick.
    pub fn ns_per_tick(self) -> f64 {
        match self {
            Clock::Gettime | Clock::Instructions => 1.0,
            Clock::Counter { ns_per_tick } => ns_per_tick,
        }
    }
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
#[inline(always)]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable, and the clock exists on every supported system, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads the processor's counter, with fences that keep the instructions of the timed call in place.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: lfence is part of SSE2, which every x86-64 processor has.
    unsafe { _mm_lfence() };
    // SAFETY: every x86-64 processor has rdtsc, and no supported system disables it in user mode.
    let ticks = unsafe { _rdtsc() };
    // SAFETY: lfence is part of SSE2, which every x86-64 processor has.
    unsafe { _mm_lfence() };
    ticks
}

/// Reads the system counter, with barriers that keep the instructions of the timed call in place.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: every supported system lets user mode read the virtual counter; the block accesses no memory.
    unsafe { std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack)) };
    ticks
}

/// No counter of this processor is known: this reads the portable clock instead, and [`candidates`] omits the counter.
#[inline(always)]
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    monotonic_ns()
}

/// Measures every clock of this machine. The first one returned is the one to use.
pub fn candidates() -> Vec<Probe> {
    let mut found = vec![probe(Clock::Gettime)];
    if let Some(ns_per_tick) = calibrate() {
        let counter = probe(Clock::Counter { ns_per_tick });
        let gettime = found[0].timer_overhead_ns;
        // The counter's assumptions are justified only if the portable clock costs more than 1.5 times as much.
        let place = usize::from(gettime <= 1.5 * counter.timer_overhead_ns);
        found.insert(place, counter);
    }
    found
}

/// Measures the overhead and the quantum of a clock, in about a millisecond.
pub fn probe(clock: Clock) -> Probe {
    const COUNT: usize = 20_000;
    let mut overheads = vec![0_u64; COUNT];
    for overhead in &mut overheads {
        let start = clock.ticks();
        *overhead = clock.ticks() - start;
    }
    overheads.sort_unstable();
    Probe { clock, timer_overhead_ns: overheads[COUNT / 2] as f64 * clock.ns_per_tick(), quantum_ns: quantum_ns(clock) }
}

/// Returns the step in which the readings of a clock advance, in nanoseconds.
fn quantum_ns(clock: Clock) -> f64 {
    const COUNT: u64 = 20_000;
    // Durations of many lengths, so that they end anywhere within a step.
    let spin_ns = |spins: u64| {
        let start = clock.ticks();
        (0..spins).for_each(|spin| {
            std::hint::black_box(spin);
        });
        clock.to_ns(clock.ticks() - start)
    };
    step_of(&(0..COUNT).map(|index| spin_ns(index % 61)).collect::<Vec<_>>())
}

/// Returns the largest number of nanoseconds of which nearly all durations are multiples, within rounding by one.
fn step_of(durations: &[u64]) -> f64 {
    let is_multiple = |duration: u64, step: u64| duration % step <= 1 || duration % step == step - 1;
    let share = |step: u64| {
        durations.iter().filter(|&&duration| is_multiple(duration, step)).count() as f64 / durations.len() as f64
    };
    // Below 8, rounding makes almost every number a multiple.
    (8..=200).rev().find(|&step| share(step) > 0.95).unwrap_or(1) as f64
}

/// Returns the nanoseconds per tick of the counter, or `None` if there is none or its rate is not constant.
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
    fn the_step_of_a_coarse_clock_is_found() {
        let coarse: Vec<u64> = (0..1_000).map(|i| 20 + 10 * (i % 9) + u64::from(i % 7 == 0)).collect();
        let fine: Vec<u64> = (0..1_000).map(|i| 20 + i % 97).collect();
        assert!((step_of(&coarse) - 10.0).abs() < f64::EPSILON);
        assert!((step_of(&fine) - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn every_candidate_agrees_on_a_duration() {
        for probe in candidates() {
            let (start, from) = (probe.clock.ticks(), monotonic_ns());
            while monotonic_ns() - from < 2_000_000 {}
            let ns = probe.clock.to_ns(probe.clock.ticks() - start) as f64;
            let real = (monotonic_ns() - from) as f64;
            assert!(ns > 1.9e6 && ns <= real * 1.05, "{:?}: {ns} against {real}", probe.clock);
        }
    }
}
