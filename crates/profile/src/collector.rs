//! From samples and timed calls to samples per call chain, at small and at large n.

use crate::sampler::{self, Event, Sample, Sampler, Watch};
use crate::symbols::{Symbols, USER};
use crate::{Error, setting};
use landau_engine::{Profiler, TimedCall, TimedCalls};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The range of n of the calls that are compared.
pub(crate) type Range = RangeInclusive<u64>;

/// A call that takes longer than this and than [`LONG_FACTOR`] medians was interrupted: by another task, or by the host
/// of a virtual machine. It is left out of the samples and of the measured times alike.
const LONG_NS: u64 = 100_000;
const LONG_FACTOR: u64 = 30;

/// Samples the workers of profiled passes.
#[derive(Debug)]
pub struct Collector {
    sampler: Sampler,
    symbols: Symbols,
    /// The two sizes to compare; none: an eighth and seven eighths of the largest n.
    at: Option<[u64; 2]>,
    watch: Option<Watch>,
    samples: Vec<Sample>,
    lost: u64,
    pub(crate) phases: BTreeMap<(u32, usize), Collected>,
    /// Passes that were left out, because the kernel dropped samples of them.
    pub(crate) dropped_passes: u32,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// What was collected of a phase.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    /// The ranges of n that are compared; none before the first pass.
    pub(crate) ranges: Option<[Range; 2]>,
    /// Whether another process timed the calls, so that no sample can be assigned to one.
    pub(crate) is_timed_elsewhere: bool,
    /// By round: the calls and the samples at small and at large n.
    pub(crate) rounds: BTreeMap<u32, [Side; 2]>,
}

/// The calls of a range of n, and their samples.
#[derive(Debug, Clone, Default)]
pub(crate) struct Side {
    pub(crate) calls: u64,
    /// Samples by call chain, the outermost function first.
    pub(crate) chains: BTreeMap<Vec<u32>, u64>,
}

impl Collector {
    /// Returns a collector for the running kernel, with a sampler that was calibrated.
    pub fn new(sampler: Sampler, at: Option<[u64; 2]>) -> Result<Self, Error> {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let hidden = || Error::NoSymbols { kptr_restrict: setting("/proc/sys/kernel/kptr_restrict") };
        let symbols = Symbols::of(&text).ok_or_else(hidden)?;
        Ok(Self::with(sampler, symbols, at))
    }

    pub(crate) fn with(sampler: Sampler, symbols: Symbols, at: Option<[u64; 2]>) -> Self {
        let (watch, samples, phases) = (None, Vec::new(), BTreeMap::new());
        Self { sampler, symbols, at, watch, samples, lost: 0, phases, dropped_passes: 0 }
    }

    #[cfg(test)]
    pub(crate) fn set_samples(&mut self, samples: Vec<Sample>) {
        self.samples = samples;
    }

    /// Returns how samples are taken.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Returns the functions' names.
    pub(crate) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Returns the functions of a sample, the outermost first.
    fn functions(&self, sample: &Sample) -> Vec<u32> {
        let mut chain: Vec<u32> = sample.chain.iter().rev().map(|&address| self.symbols.lookup(address)).collect();
        if self.sampler.event == Event::CpuClock {
            // The timer's interrupt waited for this function; the time is its caller's.
            while chain.len() > 1 && chain.last().is_some_and(|&last| enables_interrupts(self.symbols.name(last))) {
                chain.pop();
            }
        }
        if chain.is_empty() { vec![USER] } else { chain }
    }

    fn take(&mut self, calls: &TimedCalls<'_>) {
        for (phase, timed) in calls.phases.iter().enumerate() {
            let key = (calls.case.case, phase);
            let mut collected = self.phases.remove(&key).unwrap_or_default();
            let top = timed.iter().map(|call| call.n).max().unwrap_or(0);
            let ranges = collected.ranges.get_or_insert_with(|| ranges(self.at, top)).clone();
            collected.is_timed_elsewhere |= timed.iter().any(|call| call.began_ns.is_none());
            let sides = collected.rounds.entry(calls.round).or_default();
            for (side, range) in sides.iter_mut().zip(&ranges) {
                let within: Vec<TimedCall> = timed.iter().copied().filter(|call| range.contains(&call.n)).collect();
                self.add(side, &within);
            }
            self.phases.insert(key, collected);
        }
    }

    /// Adds calls, and the samples that were taken in them.
    fn add(&self, side: &mut Side, calls: &[TimedCall]) {
        let longest = longest(calls.iter().map(|call| call.ns).collect());
        let mut spans: Vec<(u64, u64)> = calls
            .iter()
            .filter(|call| call.ns <= longest)
            .filter_map(|call| call.began_ns.map(|began| (began, began + call.ns)))
            .collect();
        spans.sort_unstable();
        side.calls += spans.len() as u64;
        for sample in &self.samples {
            let after = spans.partition_point(|span| span.0 <= sample.time_ns);
            if after > 0 && sample.time_ns < spans[after - 1].1 {
                *side.chains.entry(self.functions(sample)).or_default() += 1;
            }
        }
    }
}

impl Profiler for Collector {
    fn begin(&mut self, pid: u32) -> Result<(), String> {
        (self.samples, self.lost) = (Vec::new(), 0);
        self.watch = Some(sampler::open(pid, self.sampler.event).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn poll(&mut self) -> Result<(), String> {
        if let Some(watch) = &mut self.watch {
            let found = watch.collect();
            self.samples.extend(found.samples);
            self.lost += found.lost;
        }
        Ok(())
    }

    fn end(&mut self, calls: &TimedCalls<'_>) -> Result<(), String> {
        self.poll()?;
        self.watch = None;
        if self.lost > 0 {
            self.dropped_passes += 1;
        } else {
            self.take(calls);
        }
        self.samples = Vec::new();
        Ok(())
    }
}

/// Returns the ranges of n around the two sizes, or around an eighth and seven eighths of the largest n: an eighth of
/// the largest n to both sides. The first calls of a pass are left out: they warm the caches.
pub(crate) fn ranges(at: Option<[u64; 2]>, top: u64) -> [Range; 2] {
    let half = top / 8;
    let around = at.unwrap_or([half, top - half]);
    around.map(|n| n.saturating_sub(half).max(top / 32 + 1)..=(n + half).min(top).max(1))
}

/// Returns the duration above which a call was interrupted.
pub(crate) fn longest(mut durations: Vec<u64>) -> u64 {
    durations.sort_unstable();
    let median = durations.get(durations.len() / 2).copied().unwrap_or(0);
    (median * LONG_FACTOR).max(LONG_NS)
}

/// Returns whether a function enables interrupts again.
fn enables_interrupts(name: &str) -> bool {
    name.starts_with("_raw_") && name.contains("unlock_irq")
}
