//! From samples and timed calls to samples per call chain, at small and at large n.

use crate::jumps::Calls;
use crate::preemption::Absences;
use crate::sampler::{self, Event, Sample, Sampler, Subject, Switch, Watch};
use crate::symbols::{Symbols, USER};
use crate::{Error, setting};
use landau_engine::{Profiler, TimedCall, TimedCalls, Watched};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The range of n of the calls that are compared.
pub(crate) type Range = RangeInclusive<u64>;

/// Number of extra passes of a round. The last one counts instructions, if the processor does.
pub const EXTRA_PASSES: u32 = 3;

/// A call that takes longer than this and longer than [`LONG_FACTOR`] medians, excluding the time in which another task
/// had the processor, was interrupted by something invisible, such as the host of a virtual machine. It is left out of
/// sampled and of recorded passes.
const LONG_NS: u64 = 100_000;
const LONG_FACTOR: u64 = 30;

/// Watches the workers of recorded passes, and samples those of extra passes.
#[derive(Debug)]
pub struct Collector {
    sampler: Sampler,
    symbols: Symbols,
    /// The two sizes to compare; if `None`, an eighth and seven eighths of the largest n.
    at: Option<[u64; 2]>,
    watch: Option<(Watch, Watched)>,
    /// Number of extra passes that began since the last recorded one.
    extra: u32,
    samples: Vec<Sample>,
    switches: Vec<Switch>,
    lost: u64,
    pub(crate) phases: BTreeMap<(u32, usize), Collected>,
    /// The functions that were observed to be called from each place. A place is the return address, the instruction
    /// after the call.
    callees: BTreeMap<u64, BTreeSet<u32>>,
    /// The functions that the calls in the kernel's code name.
    calls: Calls,
    /// Number of passes that were left out because the kernel dropped some of their data.
    pub(crate) dropped_passes: u32,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// The data collected for a phase.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    /// The ranges of n that are compared; `None` before the first pass.
    pub(crate) ranges: Option<[Range; 2]>,
    /// The largest n of a call.
    pub(crate) largest: u64,
    /// Whether another process timed the calls, so that samples cannot be assigned to calls.
    pub(crate) is_timed_elsewhere: bool,
    /// By round: the calls and the samples at small and at large n.
    pub(crate) rounds: BTreeMap<u32, [Side; 2]>,
    /// By round: the calls and the samples of the counter of instructions at small and at large n.
    pub(crate) counted: BTreeMap<u32, [Counted; 2]>,
    /// By round: the calls at small and at large n of the recorded pass.
    pub(crate) recorded: BTreeMap<u32, [Total; 2]>,
}

/// The calls of a range of n, and their samples.
#[derive(Debug, Clone, Default)]
pub(crate) struct Side {
    pub(crate) calls: u64,
    /// Number of samples by call chain.
    pub(crate) chains: BTreeMap<Chain, u64>,
    /// Number of calls during which another task had the processor.
    pub(crate) preempted: u64,
}

/// The calls of a range of n, and the samples of the counter of instructions that were taken in them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    pub(crate) samples: u64,
}

/// The functions of a sample, outermost first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Chain {
    functions: Vec<u32>,
    /// The place at which the last function called one that was removed because it only enabled interrupts.
    place: Option<u64>,
}

/// The calls of a range of n of a recorded pass.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Total {
    pub(crate) calls: u64,
    pub(crate) ns: u64,
    /// Number of calls during which another task had the processor.
    pub(crate) preempted: u64,
}

/// A call, with the time for which the worker had the processor.
#[derive(Debug, Clone, Copy)]
struct Kept {
    began: u64,
    ended: u64,
    ns: u64,
    is_preempted: bool,
}

impl Collector {
    /// Returns a collector for the running kernel, with a calibrated sampler.
    pub fn new(sampler: Sampler, at: Option<[u64; 2]>) -> Result<Self, Error> {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let hidden = || Error::NoSymbols { kptr_restrict: setting("/proc/sys/kernel/kptr_restrict") };
        let symbols = Symbols::of(&text).ok_or_else(hidden)?;
        let calls = Calls::of(&symbols);
        Ok(Self::with(sampler, symbols, at, calls))
    }

    pub(crate) fn with(sampler: Sampler, symbols: Symbols, at: Option<[u64; 2]>, calls: Calls) -> Self {
        Self {
            sampler,
            symbols,
            at,
            watch: None,
            extra: 0,
            samples: Vec::new(),
            switches: Vec::new(),
            lost: 0,
            phases: BTreeMap::new(),
            callees: BTreeMap::new(),
            calls,
            dropped_passes: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn set_seen(&mut self, samples: Vec<Sample>, switches: Vec<Switch>) {
        (self.samples, self.switches) = (samples, switches);
    }

    #[cfg(test)]
    pub(crate) fn set_sample_instructions(&mut self, sample_instructions: Option<u64>) {
        self.sampler.sample_instructions = sample_instructions;
    }

    /// Sets the number of extra passes that began since the last recorded one.
    #[cfg(test)]
    pub(crate) fn set_extra(&mut self, extra: u32) {
        self.extra = extra;
    }

    /// Returns the sizes that are compared; `None` for an eighth and seven eighths of the largest n.
    pub(crate) fn at(&self) -> Option<[u64; 2]> {
        self.at
    }

    /// Returns the sampler.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Returns the names of the functions.
    pub(crate) fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Returns whether the chains have functions that were called by address and ended in a jump.
    pub(crate) fn shows_tail_calls(&self) -> bool {
        self.calls.are_readable()
    }

    /// Returns the functions of a sample.
    fn chain(&self, sample: &Sample) -> Chain {
        // Outermost first, each with the place at which it called the next one, if it is known.
        let mut functions: Vec<(u32, Option<u64>)> = Vec::new();
        for (depth, &address) in sample.chain.iter().enumerate().rev() {
            functions.push((self.symbols.lookup(address), Some(address)));
            let called = depth.checked_sub(1).map(|inner| self.symbols.lookup(sample.chain[inner]));
            functions.extend(called.and_then(|called| self.jumped(address, called)).map(|jumped| (jumped, None)));
        }
        let mut place = None;
        if self.sampler.event == Event::CpuClock {
            // The timer interrupt was delayed until this function, so the time belongs to its caller.
            while functions.len() > 1 && functions.last().is_some_and(|last| self.enables_interrupts(last.0)) {
                functions.pop();
                place = functions.last().and_then(|last| last.1);
            }
            // A call that names the function that enables interrupts hides no other one.
            place = place.filter(|&place| !self.named(place).is_some_and(|named| self.enables_interrupts(named)));
        }
        if functions.is_empty() {
            functions.push((USER, None));
        }
        Chain { functions: functions.into_iter().map(|function| function.0).collect(), place }
    }

    /// Returns the function that the call at a place names.
    fn named(&self, place: u64) -> Option<u32> {
        self.symbols.starting_at(self.calls.target(place)?)
    }

    /// Returns the function that was called at a place and ended in a jump, if the function that the stack shows there
    /// is another one.
    fn jumped(&self, place: u64, shown: u32) -> Option<u32> {
        let named = self.named(place).filter(|&named| named != shown)?;
        // An interrupt is called nowhere: the address that it interrupted may follow a call that has returned.
        let is_called = !self.symbols.is_entry_or_exit(shown) && !self.symbols.is_thunk(named);
        is_called.then_some(named)
    }

    /// Returns the functions of a chain, outermost first.
    ///
    /// A function that ends in a jump to one that enables interrupts is no longer on the stack, so the sample shows its
    /// caller. If the call does not name it, other samples identify it: it is the only other function that was observed
    /// to be called from the same place.
    pub(crate) fn functions(&self, chain: &Chain) -> Vec<u32> {
        let mut functions = chain.functions.clone();
        let callees = chain.place.and_then(|place| self.callees.get(&place));
        let mut others = callees.into_iter().flatten().filter(|&&function| !self.enables_interrupts(function));
        if let (Some(&only), None) = (others.next(), others.next()) {
            functions.push(only);
        }
        functions
    }

    /// Returns whether a function enables interrupts again.
    fn enables_interrupts(&self, function: u32) -> bool {
        let name = self.symbols.name(function);
        name.starts_with("_raw_") && name.contains("unlock_irq")
    }

    /// Returns whether the extra pass that has begun counts instructions instead of taking time.
    fn counts_instructions(&self) -> bool {
        self.sampler.sample_instructions.is_some() && self.extra == EXTRA_PASSES
    }

    pub(crate) fn take(&mut self, calls: &TimedCalls<'_>, pass: Watched) {
        let absences = Absences::of(&self.switches);
        let counts_instructions = self.counts_instructions();
        for place in self.samples.iter().flat_map(|sample| sample.chain.iter().skip(1)) {
            self.calls.read(*place);
        }
        self.learn_callees();
        for (phase, timed) in calls.phases.iter().enumerate() {
            let key = (calls.case.case, phase);
            let mut collected = self.phases.remove(&key).unwrap_or_default();
            let top = timed.iter().map(|call| call.n).max().unwrap_or(0);
            collected.largest = collected.largest.max(top);
            let ranges = collected.ranges.get_or_insert_with(|| ranges(self.at, top)).clone();
            collected.is_timed_elsewhere |= timed.iter().any(|call| call.began_ns.is_none());
            let within = |range: &Range| kept(timed.iter().filter(|call| range.contains(&call.n)), &absences);
            match pass {
                Watched::Recorded => {
                    let totals = collected.recorded.entry(calls.round).or_default();
                    totals.iter_mut().zip(&ranges).for_each(|(total, range)| total.add(&within(range)));
                }
                Watched::Extra if counts_instructions => {
                    let sides = collected.counted.entry(calls.round).or_default();
                    sides.iter_mut().zip(&ranges).for_each(|(side, range)| self.count(side, within(range)));
                }
                Watched::Extra => {
                    let sides = collected.rounds.entry(calls.round).or_default();
                    sides.iter_mut().zip(&ranges).for_each(|(side, range)| self.add(side, within(range)));
                }
            }
            self.phases.insert(key, collected);
        }
    }

    /// Remembers which functions were called from each place, if samples wait until interrupts are enabled.
    fn learn_callees(&mut self) {
        if self.sampler.event != Event::CpuClock || self.counts_instructions() {
            return;
        }
        for pair in self.samples.iter().flat_map(|sample| sample.chain.windows(2)) {
            let callee = self.symbols.lookup(pair[0]);
            // An interrupt is called nowhere.
            if !self.symbols.is_entry_or_exit(callee) {
                self.callees.entry(pair[1]).or_default().insert(callee);
            }
        }
    }

    /// Adds calls and the samples that were taken in them.
    fn add(&self, side: &mut Side, mut calls: Vec<Kept>) {
        side.calls += calls.len() as u64;
        side.preempted += calls.iter().filter(|call| call.is_preempted).count() as u64;
        for sample in self.samples_in(&mut calls) {
            *side.chains.entry(self.chain(sample)).or_default() += 1;
        }
    }

    /// Adds calls and the number of samples that were taken in them.
    fn count(&self, side: &mut Counted, mut calls: Vec<Kept>) {
        side.calls += calls.len() as u64;
        side.samples += self.samples_in(&mut calls).count() as u64;
    }

    /// Returns the samples that were taken in calls. Sorts the calls.
    fn samples_in<'a>(&'a self, calls: &'a mut [Kept]) -> impl Iterator<Item = &'a Sample> {
        calls.sort_unstable_by_key(|call| call.began);
        self.samples.iter().filter(|sample| {
            let after = calls.partition_point(|call| call.began <= sample.time_ns);
            after > 0 && sample.time_ns < calls[after - 1].ended
        })
    }
}

impl Total {
    fn add(&mut self, calls: &[Kept]) {
        self.calls += calls.len() as u64;
        self.ns += calls.iter().map(|call| call.ns).sum::<u64>();
        self.preempted += calls.iter().filter(|call| call.is_preempted).count() as u64;
    }
}

impl Profiler for Collector {
    fn begin(&mut self, pid: u32, pass: Watched) -> Result<(), String> {
        (self.samples, self.switches, self.lost) = (Vec::new(), Vec::new(), 0);
        self.extra = if pass == Watched::Extra { self.extra + 1 } else { 0 };
        let subject = match pass {
            Watched::Recorded => Subject::Switches,
            Watched::Extra if self.counts_instructions() => Subject::Samples(Event::Instructions),
            Watched::Extra => Subject::Samples(self.sampler.event),
        };
        self.watch = Some((sampler::open(pid, subject).map_err(|error| error.to_string())?, pass));
        Ok(())
    }

    fn poll(&mut self) -> Result<(), String> {
        if let Some((watch, _)) = &mut self.watch {
            let found = watch.collect();
            self.samples.extend(found.samples);
            self.switches.extend(found.switches);
            self.lost += found.lost;
        }
        Ok(())
    }

    fn end(&mut self, calls: &TimedCalls<'_>) -> Result<(), String> {
        self.poll()?;
        let Some((_, pass)) = self.watch.take() else { return Ok(()) };
        if self.lost > 0 {
            self.dropped_passes += 1;
        } else {
            self.take(calls, pass);
        }
        (self.samples, self.switches) = (Vec::new(), Vec::new());
        Ok(())
    }
}

/// Returns the ranges of n around the two sizes, or around an eighth and seven eighths of the largest n. Each extends
/// by an eighth of the largest n to both sides. The first calls of a pass are left out because they warm the caches.
pub(crate) fn ranges(at: Option<[u64; 2]>, top: u64) -> [Range; 2] {
    let (_, half) = distances(top);
    let around = at.unwrap_or([half, top - half]);
    around.map(|n| n.saturating_sub(half).max(top / 32 + 1)..=(n + half).min(top).max(1))
}

/// Returns two distances for a largest n of `top`: the minimum difference of two sizes, so that no call represents
/// both, and the largest distance from a size of the calls that represent it.
pub fn distances(top: u64) -> (u64, u64) {
    let half = top / 8;
    (2 * half + 1, half)
}

/// Returns whether both the small and the large n are represented by calls, and no call represents both.
pub(crate) fn are_apart([low, high]: &[Range; 2]) -> bool {
    !low.is_empty() && low.end() < high.start()
}

/// Returns the calls with the time for which the worker had the processor, without calls that something invisible
/// interrupted.
fn kept<'a>(calls: impl Iterator<Item = &'a TimedCall>, absences: &Absences) -> Vec<Kept> {
    let of_call = |call: &TimedCall| {
        let began = call.began_ns?;
        let ended = began + call.ns;
        let away = absences.within(began, ended);
        Some(Kept { began, ended, ns: call.ns.saturating_sub(away), is_preempted: away > 0 })
    };
    let mut calls: Vec<Kept> = calls.filter_map(of_call).collect();
    let mut durations: Vec<u64> = calls.iter().map(|call| call.ns).collect();
    durations.sort_unstable();
    let median = durations.get(durations.len() / 2).copied().unwrap_or(0);
    let longest = (median * LONG_FACTOR).max(LONG_NS);
    calls.retain(|call| call.ns <= longest);
    calls
}
