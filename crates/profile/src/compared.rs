//! From samples at small and at large n to functions with their growth.

use crate::branching::{listed, part, trunk};
use crate::collector::{Collected, Collector, Counted, Side, Total, are_apart, distances};
use crate::{Error, source_version};
use landau_record::Record;
use landau_record::schema::{
    Branching, Case, Inclusive, Instructions, Interval, Part, Profile, ProfiledChain, ProfiledFunction,
};
use landau_stats::Estimate;
use std::collections::{BTreeMap, BTreeSet};

/// Minimum number of samples of the instruction counter in either range; with this number, the error by chance is a
/// tenth.
const LEAST_SAMPLES: u64 = 100;

/// Minimum number of rounds for an interval.
const LEAST_ROUNDS: usize = 3;

/// Compares the calls at small n of each phase of each case with those at large n.
///
/// The samples must add up to the times of the recorded passes, which have no samples.
///
/// # Errors
///
/// Fails if no phase could be sampled.
pub fn compare(collector: &Collector, record: &Record, phase: Option<&str>) -> Result<Vec<Profile>, Error> {
    let mut found = Vec::new();
    let mut reasons = BTreeSet::new();
    for ((number, index), collected) in &collector.phases {
        let Some(case) = record.case(*number) else { continue };
        let Some(described) = case.phases.get(*index) else { continue };
        if phase.is_some_and(|phase| phase != described.name) {
            continue;
        }
        match of_phase(collector, record, case, &described.name, collected) {
            Ok(profile) => found.push(profile),
            Err(reason) => drop(reasons.insert(format!("{}, {}: {reason}", case.label, described.name))),
        }
    }
    if found.is_empty() {
        if collector.dropped_passes > 0 {
            let passes = collector.dropped_passes;
            reasons.insert(format!(
                "the kernel dropped samples of {passes} passes: this machine is too busy, \
                 kernel.perf_event_max_sample_rate is too low, or another program uses the counter (perf)"
            ));
        }
        let none = "no pass completed".to_owned();
        let all = reasons.into_iter().reduce(|all, one| format!("{all}; {one}")).unwrap_or(none);
        return Err(Error::NotExplainable(all));
    }
    Ok(found)
}

fn of_phase(
    collector: &Collector,
    record: &Record,
    case: &Case,
    phase: &str,
    collected: &Collected,
) -> Result<Profile, String> {
    if collected.is_timed_elsewhere {
        return Err("its calls are timed in another process, so samples cannot be assigned to them".to_owned());
    }
    let ranges = collected.ranges.clone().ok_or("it has no calls")?;
    if ranges.iter().any(|range| *range.start() > collected.largest) {
        return Err(format!("its largest n is {}, below the n given with --at", collected.largest));
    }
    if !are_apart(&ranges) {
        let largest = collected.largest;
        let (apart, half) = distances(largest);
        return Err(match collector.at() {
            Some(_) => format!(
                "its largest n is {largest}, so each n of --at represents the calls within {half} of it; choose two at \
                 least {apart} apart"
            ),
            None => format!("its largest n, {largest}, is too small to compare a small number with a large one"),
        });
    }
    let sampled: Vec<&[Side; 2]> =
        collected.rounds.values().filter(|sides| sides.iter().all(|side| side.calls > 0)).collect();
    let recorded: Vec<&[Total; 2]> =
        collected.recorded.values().filter(|totals| totals.iter().all(|total| total.calls > 0)).collect();
    if sampled.len() < LEAST_ROUNDS || recorded.len() < LEAST_ROUNDS {
        return Err("fewer than three rounds completed; run longer with --for".to_owned());
    }
    let means: Vec<[f64; 2]> =
        recorded.iter().map(|totals| totals.map(|one| one.ns as f64 / one.calls as f64)).collect();
    let grown: Vec<f64> = means.iter().map(|[low, high]| high - low).collect();
    let mean = |side: usize| means.iter().map(|one| one[side]).sum::<f64>() / means.len() as f64;
    let calls = |side: usize| sampled.iter().map(|sides| sides[side].calls).sum();
    let preempted = [
        recorded.iter().flat_map(|totals| totals.iter()).map(|total| total.preempted).sum(),
        sampled.iter().flat_map(|sides| sides.iter()).map(|side| side.preempted).sum(),
    ];
    let costs = Costs::of(collector, &sampled);
    let whole = costs.growth(&costs.all());
    Ok(Profile {
        case: case.case,
        phase: phase.to_owned(),
        source: source_version(&record.host.release, &record.host.version),
        event: collector.sampler().event.name().to_owned(),
        sample_ns: costs.weight,
        sample_count: costs.all().iter().flatten().sum(),
        round_count: sampled.len() as u32,
        ranges: ranges.map(|range| [*range.start(), *range.end()]),
        call_counts: [calls(0), calls(1)],
        preempted_counts: Some(preempted),
        shows_tail_calls: collector.shows_tail_calls(),
        measured_ns: [mean(0), mean(1)],
        measured_growth_ns: of_means(&grown),
        sampled_ns: costs.per_call(&costs.all()),
        sampled_growth_ns: whole.interval(),
        functions: functions(collector, &costs, &whole),
        chains: chains(collector, &costs),
        branching: divided(collector, &costs, &whole),
        instructions: instructions(collector, collected, &means),
    })
}

/// Returns the instructions of a call together with its time, which comes from the means of the recorded passes. `None`
/// if the host does not count instructions, or if there are too few samples.
fn instructions(collector: &Collector, collected: &Collected, means: &[[f64; 2]]) -> Option<Instructions> {
    let weight = collector.sampler().sample_instructions? as f64;
    let is_whole = |sides: &&[Counted; 2]| sides.iter().all(|side| side.calls > 0);
    let rounds: Vec<&[Counted; 2]> = collected.counted.values().filter(is_whole).collect();
    let samples: Counts = rounds.iter().map(|sides| sides.map(|side| side.samples)).collect();
    let calls: Counts = rounds.iter().map(|sides| sides.map(|side| side.calls)).collect();
    let (all_samples, all_calls) = (sums(&samples), sums(&calls));
    let without = || samples.iter().map(|round| less(all_samples, round));
    // Some samples must remain when any one round is left out; otherwise there is no interval.
    let is_thin = all_samples.iter().any(|count| *count < LEAST_SAMPLES) || without().flatten().any(|count| count == 0);
    if rounds.len() < LEAST_ROUNDS || is_thin {
        return None;
    }
    let per_call =
        |samples: [u64; 2], calls: [u64; 2]| [0, 1].map(|side| samples[side] as f64 * weight / calls[side] as f64);
    let one_less = without().zip(&calls).map(|(samples, calls)| per_call(samples, less(all_calls, calls)));
    let totals = means.iter().fold([0.0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    let times = means.iter().map(|[low, high]| [totals[0] - low, totals[1] - high]);
    Some(Instructions {
        sample_count: all_samples.iter().sum(),
        per_call: per_call(all_samples, all_calls),
        factor: factor(per_call(all_samples, all_calls), one_less),
        time_factor: factor(totals, times),
    })
}

/// Returns the ratio of the second cost to the first, from all rounds and with each round left out in turn. The
/// jackknife uses the logarithm, because a factor cannot be negative.
fn factor(all: [f64; 2], without: impl Iterator<Item = [f64; 2]>) -> Interval {
    let log = |[low, high]: [f64; 2]| (high / low).ln();
    interval(Estimate::by_jackknife(log(all), &without.map(log).collect::<Vec<_>>()).map(f64::exp))
}

/// Numbers of samples of a function, or of all functions: in each round, at small and at large n.
type Counts = Vec<[u64; 2]>;

/// The samples of all rounds, and the time that one sample represents.
struct Costs {
    weight: f64,
    /// Numbers of calls in each round at small and at large n.
    calls: Counts,
    /// Numbers of samples by call chain, outermost function first.
    chains: BTreeMap<Vec<u32>, Counts>,
}

/// The samples of a function: its own, and those including all functions that it called.
#[derive(Default)]
struct Samples {
    own: Counts,
    inclusive: Counts,
}

impl Costs {
    fn of(collector: &Collector, rounds: &[&[Side; 2]]) -> Self {
        let mut chains: BTreeMap<Vec<u32>, Counts> = BTreeMap::new();
        for (round, sides) in rounds.iter().enumerate() {
            for (side, one) in sides.iter().enumerate() {
                for (chain, count) in &one.chains {
                    let counts = chains.entry(collector.functions(chain)).or_insert_with(|| vec![[0; 2]; rounds.len()]);
                    counts[round][side] += count;
                }
            }
        }
        let calls = rounds.iter().map(|sides| [sides[0].calls, sides[1].calls]).collect();
        Self { weight: collector.sampler().sample_ns, calls, chains }
    }

    fn none(&self) -> Counts {
        vec![[0; 2]; self.calls.len()]
    }

    /// Returns the samples of all functions.
    fn all(&self) -> Counts {
        let mut sum = self.none();
        self.chains.values().for_each(|counts| add(&mut sum, counts));
        sum
    }

    /// Returns the samples of each function.
    fn by_function(&self) -> BTreeMap<u32, Samples> {
        let mut found: BTreeMap<u32, Samples> = BTreeMap::new();
        for (chain, counts) in &self.chains {
            // A function that calls itself counts once.
            for function in chain.iter().copied().collect::<BTreeSet<u32>>() {
                let new = || Samples { own: self.none(), inclusive: self.none() };
                let samples = found.entry(function).or_insert_with(new);
                add(&mut samples.inclusive, counts);
                if chain.last() == Some(&function) {
                    add(&mut samples.own, counts);
                }
            }
        }
        found
    }

    /// Returns the mean time per call at small and at large n.
    fn per_call(&self, samples: &Counts) -> [f64; 2] {
        self.per_call_of(sums(samples), sums(&self.calls))
    }

    fn per_call_of(&self, samples: [u64; 2], calls: [u64; 2]) -> [f64; 2] {
        [0, 1].map(|side| samples[side] as f64 * self.weight / (calls[side] as f64).max(1.0))
    }

    /// Returns by how much a call takes longer at large n.
    fn growth(&self, samples: &Counts) -> Quantity {
        // A long run has thousands of rounds, so leaving one out must not sum all the others again.
        let (all_samples, all_calls) = (sums(samples), sums(&self.calls));
        let of = |samples: [u64; 2], calls: [u64; 2]| {
            let [low, high] = self.per_call_of(samples, calls);
            high - low
        };
        let rounds = samples.iter().zip(&self.calls);
        let without = rounds.map(|(samples, calls)| of(less(all_samples, samples), less(all_calls, calls))).collect();
        Quantity { all: of(all_samples, all_calls), without }
    }
}

/// Returns a sum without one round.
fn less(all: [u64; 2], round: &[u64; 2]) -> [u64; 2] {
    [all[0] - round[0], all[1] - round[1]]
}

/// Sums the rounds.
fn sums(counts: &Counts) -> [u64; 2] {
    counts.iter().fold([0; 2], |sum, round| [sum[0] + round[0], sum[1] + round[1]])
}

fn add(sum: &mut Counts, counts: &Counts) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum = [sum[0] + count[0], sum[1] + count[1]];
    }
}

/// A quantity from all rounds, and with each round left out in turn.
#[derive(Clone)]
struct Quantity {
    all: f64,
    without: Vec<f64>,
}

impl Quantity {
    fn with(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let without = self.without.iter().zip(&other.without).map(|(one, other)| of(*one, *other)).collect();
        Self { all: of(self.all, other.all), without }
    }

    /// Returns its share of another quantity; 0 if that is 0.
    fn share_of(&self, whole: &Self) -> Self {
        self.with(whole, |part, whole| if whole == 0.0 { 0.0 } else { part / whole })
    }

    fn interval(&self) -> Interval {
        interval(Estimate::by_jackknife(self.all, &self.without))
    }

    /// Returns whether it is certainly larger than another quantity: the interval of the difference is above 0.
    fn exceeds(&self, other: &Self) -> bool {
        self.with(other, |one, other| one - other).interval().low > 0.0
    }
}

fn interval(estimate: Estimate) -> Interval {
    Interval { value: estimate.value, low: estimate.low, high: estimate.high }
}

/// Returns the mean of the values of the passes with its interval.
fn of_means(values: &[f64]) -> Interval {
    let (sum, count) = (values.iter().sum::<f64>(), values.len() as f64);
    let without: Vec<f64> = values.iter().map(|value| (sum - value) / (count - 1.0)).collect();
    interval(Estimate::by_jackknife(sum / count, &without))
}

/// Returns every function that was sampled, in descending order of its own share of the growth.
fn functions(collector: &Collector, costs: &Costs, whole: &Quantity) -> Vec<ProfiledFunction> {
    let sampled = costs.by_function();
    let growths: BTreeMap<u32, Quantity> =
        sampled.iter().map(|(function, samples)| (*function, costs.growth(&samples.own))).collect();
    let of = |(function, samples): (&u32, &Samples)| {
        let growth = &growths[function];
        ProfiledFunction {
            name: collector.symbols().name(*function).to_owned(),
            ns: costs.per_call(&samples.own),
            growth_ns: growth.interval(),
            share: growth.share_of(whole).interval(),
            places: Some(places(growth, &growths)),
            inclusive: Some(Inclusive {
                ns: costs.per_call(&samples.inclusive),
                share: costs.growth(&samples.inclusive).share_of(whole).interval(),
            }),
        }
    };
    let mut found: Vec<ProfiledFunction> = sampled.iter().map(of).collect();
    found.sort_by(|a, b| b.share.value.total_cmp(&a.share.value).then_with(|| a.name.cmp(&b.name)));
    found
}

/// Returns the division of the growth at the function where it branches.
fn divided(collector: &Collector, costs: &Costs, whole: &Quantity) -> Option<Branching> {
    let growths = costs.chains.iter().map(|(chain, counts)| (chain.clone(), costs.growth(counts).all)).collect();
    let trunk = trunk(&growths);
    let mut samples: BTreeMap<u32, Counts> = BTreeMap::new();
    for (chain, counts) in &costs.chains {
        if let Some(part) = part(&trunk, chain) {
            add(samples.entry(part).or_insert_with(|| costs.none()), counts);
        }
    }
    let growths: BTreeMap<u32, Quantity> =
        samples.iter().map(|(function, counts)| (*function, costs.growth(counts))).collect();
    let itself = *trunk.last()?;
    let called: BTreeMap<u32, Quantity> = growths
        .iter()
        .filter(|(function, _)| **function != itself)
        .map(|(one, growth)| (*one, growth.clone()))
        .collect();
    let of = |(function, growth): (&u32, &Quantity)| {
        let share = growth.share_of(whole).interval();
        Part {
            name: collector.symbols().name(*function).to_owned(),
            share: share.value,
            interval: Some([share.low, share.high]),
            places: (*function != itself).then(|| places(growth, &called)),
        }
    };
    let parts = listed(growths.iter().map(of).collect());
    Some(Branching { function: collector.symbols().name(itself).to_owned(), parts })
}

/// Returns the first and the last rank that a growth can have among all.
fn places(growth: &Quantity, all: &BTreeMap<u32, Quantity>) -> [u32; 2] {
    let above = all.values().filter(|other| other.exceeds(growth)).count();
    let below = all.values().filter(|other| growth.exceeds(other)).count();
    [above as u32 + 1, (all.len() - below) as u32]
}

/// Returns the functions by the call chains that led to them, callers before callees.
fn chains(collector: &Collector, costs: &Costs) -> Vec<ProfiledChain> {
    let mut samples: BTreeMap<&[u32], Counts> = BTreeMap::new();
    for (chain, counts) in &costs.chains {
        // Every caller is an entry, even if it has no samples itself.
        for depth in 1..=chain.len() {
            let sum = samples.entry(&chain[..depth]).or_insert_with(|| costs.none());
            if depth == chain.len() {
                add(sum, counts);
            }
        }
    }
    // A chain sorts after its prefixes.
    let places: BTreeMap<&[u32], u32> =
        samples.keys().enumerate().map(|(place, chain)| (*chain, place as u32)).collect();
    let one = |(chain, counts): (&&[u32], &Counts)| ProfiledChain {
        caller: places.get(&chain[..chain.len() - 1]).copied(),
        name: collector.symbols().name(chain[chain.len() - 1]).to_owned(),
        ns: costs.per_call(counts),
    };
    samples.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collector::{EXTRA_PASSES, ranges};
    use crate::jumps::Calls;
    use crate::sampler::{Sample, Switch, SwitchKind};
    use crate::{Event, Sampler, Symbols};
    use landau_engine::{TimedCall, TimedCalls, Watched};
    use landau_record::schema::{Direction, Phase};

    const KALLSYMS: &str = "\
ffffffff81000000 T entry
ffffffff81000100 t scan
ffffffff81000200 t fixed
ffffffff81000300 t _raw_spin_unlock_irqrestore
ffffffff81000400 t ends_in_a_jump
";
    const ENTRY: u64 = 0xffff_ffff_8100_0008;
    const IN_SCAN: u64 = 0xffff_ffff_8100_0108;
    const SCAN: u64 = 0xffff_ffff_8100_0150;
    const FIXED: u64 = 0xffff_ffff_8100_0200;
    const UNLOCK: u64 = 0xffff_ffff_8100_0310;
    const JUMPING: u64 = 0xffff_ffff_8100_0410;

    const CALLS: u64 = 320;
    const ROUNDS: u32 = 5;

    fn case() -> Case {
        Case {
            case: 0,
            benchmark: "one".to_owned(),
            label: "one".to_owned(),
            about: String::new(),
            axis: String::new(),
            caveats: Vec::new(),
            source: String::new(),
            phases: vec![Phase { name: "call".to_owned(), direction: Direction::Up, about: String::new() }],
            settings: BTreeMap::new(),
            settings_about: BTreeMap::new(),
            n: CALLS,
            reduced: None,
            annotations: Vec::new(),
            timeline: None,
            replay: None,
        }
    }

    /// A pass: its calls, with their samples and context switches.
    struct Seen {
        calls: Vec<TimedCall>,
        samples: Vec<Sample>,
        switches: Vec<Switch>,
    }

    /// Returns calls of 1000 ns + 100 ns per object, with a sample every 1000 ns of a call. The first sample is in
    /// `fixed`; the others are in each of `leaves` in turn, called by `scan`, and each round begins with another leaf.
    /// Another task takes the processor for `away` ns in every fourth call.
    fn pass(round: u32, leaves: &[u64], away: u64) -> Seen {
        let mut now = 1_000_000;
        let mut seen = Seen { calls: Vec::new(), samples: Vec::new(), switches: Vec::new() };
        for n in 1..=CALLS {
            let ns = 1_000 + 100 * n;
            for tick in 0..ns / 1_000 {
                let leaf = leaves[(u64::from(round) + n + tick) as usize % leaves.len()];
                let chain = if tick == 0 { vec![FIXED, ENTRY] } else { vec![leaf, IN_SCAN, ENTRY] };
                seen.samples.push(Sample { time_ns: now + tick * 1_000 + 7, chain });
            }
            let away = if n.is_multiple_of(4) { away } else { 0 };
            if away > 0 {
                seen.switches.push(Switch { time_ns: now + ns - 1, kind: SwitchKind::Preempted });
                seen.switches.push(Switch { time_ns: now + ns - 1 + away, kind: SwitchKind::In });
            }
            seen.calls.push(TimedCall { n, began_ns: Some(now), ns: ns + away });
            now += ns + away + 500;
            // Between two calls, so this sample belongs to neither.
            seen.samples.push(Sample { time_ns: now - 250, chain: vec![ENTRY] });
        }
        seen
    }

    /// Returns recorded passes during which another task takes the processor for a while, and undisturbed sampled
    /// passes.
    fn profiled(event: Event, leaves: &[u64], away: u64, calls: &[(u64, u64)]) -> (Collector, Record) {
        let sampler = Sampler { event, sample_ns: 1_000.0, sample_instructions: None };
        let mut collector = Collector::with(sampler, Symbols::of(KALLSYMS).unwrap(), None, Calls::known(calls));
        let case = case();
        for round in 0..ROUNDS {
            let recorded = pass(round, leaves, away);
            collector.set_seen(Vec::new(), recorded.switches);
            collector.take(&TimedCalls { case: &case, round, phases: vec![recorded.calls] }, Watched::Recorded);
            let sampled = pass(round, leaves, 0);
            collector.set_seen(sampled.samples, sampled.switches);
            collector.take(&TimedCalls { case: &case, round, phases: vec![sampled.calls] }, Watched::Extra);
        }
        (collector, Record { cases: vec![case], ..Record::default() })
    }

    /// Simulates recorded and sampled passes with this growth of the time, and passes with a sample of the instruction
    /// counter every `interval` ns of a call.
    fn counted(interval: impl Fn(u64) -> u64) -> Option<Instructions> {
        let (mut collector, record) = profiled(Event::Cycles, &[SCAN], 0, &[]);
        collector.set_sample_instructions(Some(500_009));
        for round in 0..ROUNDS {
            let Seen { calls, .. } = pass(round, &[SCAN], 0);
            let of_call = |call: &TimedCall| {
                let began = call.began_ns.unwrap();
                let ticks = (interval(call.n) / 2..call.ns).step_by(interval(call.n) as usize);
                ticks.map(move |tick| Sample { time_ns: began + tick, chain: Vec::new() }).collect::<Vec<_>>()
            };
            collector.set_seen(calls.iter().flat_map(of_call).collect(), Vec::new());
            collector.set_extra(EXTRA_PASSES);
            collector.take(&TimedCalls { case: &case(), round, phases: vec![calls] }, Watched::Extra);
        }
        let found = compare(&collector, &record, None).unwrap().remove(0);
        // Passes that count instructions contribute no time.
        assert_eq!((found.sample_count, found.adds_up()), (compared(Event::Cycles, &[SCAN], 0).sample_count, true));
        found.instructions
    }

    fn compared(event: Event, leaves: &[u64], away: u64) -> Profile {
        compared_with(event, leaves, away, &[])
    }

    fn compared_with(event: Event, leaves: &[u64], away: u64, calls: &[(u64, u64)]) -> Profile {
        let (collector, record) = profiled(event, leaves, away, calls);
        compare(&collector, &record, None).unwrap().remove(0)
    }

    #[test]
    fn the_function_that_grows_is_named_and_the_sum_is_the_measured_growth() {
        let found = compared(Event::Cycles, &[SCAN], 0);
        assert_eq!(found.ranges, [[11, 80], [240, 320]]);
        assert_eq!((found.functions[0].name.as_str(), found.functions.len()), ("scan", 3));
        let (sum, growth) = (found.sampled_growth_ns.value, found.measured_growth_ns.value);
        assert!((growth - 23_450.0).abs() < 1.0, "{growth}");
        assert!((sum / growth - 1.0).abs() < 0.05, "{sum} of {growth}");
        assert!((found.functions[0].share.value - 1.0).abs() < 0.01, "{:?}", found.functions[0]);
        // `fixed` takes one sample of each call.
        let fixed = found.functions.iter().find(|one| one.name == "fixed").unwrap();
        assert_eq!((fixed.ns, fixed.growth_ns.value), ([1_000.0; 2], 0.0));
        // The entry has no samples itself, but all of them including its callees.
        let entry = found.functions.iter().find(|one| one.name == "entry").unwrap();
        let inclusive = entry.inclusive.as_ref().unwrap();
        assert_eq!((entry.ns, inclusive.ns, inclusive.share.value), ([0.0; 2], found.sampled_ns, 1.0));
        let names: Vec<(Option<u32>, &str)> = found.chains.iter().map(|one| (one.caller, one.name.as_str())).collect();
        assert_eq!(names, [(None, "entry"), (Some(0), "scan"), (Some(1), "scan"), (Some(0), "fixed")]);
        assert!(found.adds_up());
    }

    /// Guards against a busy machine: another task has the processor for 90 µs in every fourth call of the recorded
    /// passes, which is less than the 30 medians above which a call is left out.
    #[test]
    fn time_in_which_another_task_ran_is_no_growth() {
        let calm = compared(Event::Cycles, &[SCAN], 0);
        let busy = compared(Event::Cycles, &[SCAN], 90_000);
        assert_eq!(busy.measured_growth_ns, calm.measured_growth_ns);
        assert_eq!((calm.preempted_counts, busy.preempted_counts), (Some([0, 0]), Some([5 * (18 + 21), 0])));
        assert!(busy.adds_up());
    }

    #[test]
    fn a_timer_that_waited_for_interrupts_shows_the_caller() {
        assert_eq!(compared(Event::CpuClock, &[UNLOCK], 0).functions[0].name, "scan");
        // The interrupt of a counter is not delayed.
        assert_eq!(compared(Event::Cycles, &[UNLOCK], 0).functions[0].name, "_raw_spin_unlock_irqrestore");
    }

    /// `scan` calls a function that ends in a jump to the one that enables interrupts, so its samples look as if `scan`
    /// had called the latter. The few samples before the jump show which function it is.
    #[test]
    fn a_function_that_ended_in_a_jump_has_the_samples_that_waited() {
        let found = compared(Event::CpuClock, &[UNLOCK, UNLOCK, JUMPING], 0);
        assert_eq!(found.functions[0].name, "ends_in_a_jump");
        assert!((found.functions[0].share.value - 1.0).abs() < 0.01, "{:?}", found.functions[0]);
        // If two functions were called from that place, it could be either.
        let found = compared(Event::CpuClock, &[UNLOCK, UNLOCK, JUMPING, FIXED], 0);
        assert_eq!(found.functions[0].name, "scan");
    }

    /// The call in `scan` names the function that ended in a jump, so no other samples are needed.
    #[test]
    fn the_call_names_the_function_that_ended_in_a_jump() {
        let calls = [(IN_SCAN, JUMPING - 0x10)];
        let found = compared_with(Event::CpuClock, &[UNLOCK, FIXED], 0, &calls);
        let share = |name: &str| {
            let of = |one: &&ProfiledFunction| one.name == name;
            found.functions.iter().find(of).map(|one| (one.share.value, one.inclusive.as_ref().unwrap().share.value))
        };
        let ((own, all), (fixed, _)) = (share("ends_in_a_jump").unwrap(), share("fixed").unwrap());
        assert!((own - 0.5).abs() < 0.01 && (all - 1.0).abs() < 0.01 && (fixed - 0.5).abs() < 0.01, "{found:?}");
        let names: Vec<(Option<u32>, &str)> = found.chains.iter().map(|one| (one.caller, one.name.as_str())).collect();
        let jumped = [(None, "entry"), (Some(0), "scan"), (Some(1), "ends_in_a_jump"), (Some(2), "fixed")];
        assert_eq!(names, [&jumped[..], &[(Some(0), "fixed")]].concat());
        assert!(!found.shows_tail_calls, "no code was read");
        // A call names a function only if its address is the start of one.
        let found = compared_with(Event::CpuClock, &[FIXED], 0, &[(IN_SCAN, JUMPING)]);
        assert!(found.functions.iter().all(|one| one.name != "ends_in_a_jump"), "{found:?}");
    }

    /// The call in `scan` names the function that enables interrupts. Another function that samples show at the same
    /// place comes from a stack that was read wrongly.
    #[test]
    fn a_call_that_enables_interrupts_hides_no_function() {
        let first = |calls: &[(u64, u64)]| {
            let found = compared_with(Event::CpuClock, &[UNLOCK, UNLOCK, JUMPING], 0, calls);
            found.functions[0].name.clone()
        };
        assert_eq!(first(&[(IN_SCAN, UNLOCK - 0x10)]), "scan");
        assert_eq!(first(&[]), "ends_in_a_jump");
    }

    /// The mean time of a call is 5.55 µs for 11 to 80 objects, and 29 µs for 240 to 320: 5.23 times as much.
    #[test]
    fn instructions_are_counted_beside_the_time() {
        let with_the_time = counted(|_| 100).unwrap();
        assert!((with_the_time.time_factor.value - 5.225).abs() < 0.001, "{with_the_time:?}");
        assert!((with_the_time.factor.value - 5.225).abs() < 0.001, "{with_the_time:?}");
        assert!((with_the_time.per_call[0] - 55.5 * 500_009.0).abs() < 1.0, "{with_the_time:?}");
        assert_eq!(with_the_time.sample_count, 5 * (70 * 555 + 81 * 2_900) / 10);
        // Ten samples in each call, however long it takes.
        let of_caches = counted(|n| 100 + 10 * n).unwrap();
        assert_eq!((of_caches.factor.value, of_caches.per_call), (1.0, [10.0 * 500_009.0; 2]));
        assert_eq!(of_caches.time_factor, with_the_time.time_factor);
        // One sample in a call of each round is not enough for an answer.
        assert_eq!(counted(|n| if n == 12 || n == 300 { 1_000 } else { 1 << 40 }), None);
        assert_eq!(compared(Event::Cycles, &[SCAN], 0).instructions, None);
    }

    #[test]
    fn functions_with_the_same_growth_share_their_places() {
        let places = |found: &Profile| -> Vec<(String, [u32; 2])> {
            found.functions.iter().map(|one| (one.name.clone(), one.places.unwrap())).collect()
        };
        let found = compared(Event::Cycles, &[SCAN], 0);
        assert_eq!(places(&found)[0], ("scan".to_owned(), [1, 1]));
        let found = compared(Event::Cycles, &[SCAN, SCAN, SCAN, UNLOCK, JUMPING], 0);
        let [first, second, third, ..] = &places(&found)[..] else { panic!("{found:?}") };
        assert_eq!((first.0.as_str(), first.1), ("scan", [1, 1]));
        assert_eq!((second.1, third.1), ([2, 3], [2, 3]), "{found:?}");
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let (mut collector, record) = profiled(Event::Cycles, &[SCAN], 0, &[]);
        assert!(matches!(compare(&collector, &record, Some("other")), Err(Error::NotExplainable(_))));
        collector.phases.values_mut().for_each(|one| one.ranges = Some([1..=8, 900..=1_100]));
        let error = compare(&collector, &record, None).unwrap_err().to_string();
        assert!(error.contains("its largest n is 320, below the n given with --at"), "{error}");
        collector.phases.values_mut().for_each(|one| one.is_timed_elsewhere = true);
        let error = compare(&collector, &record, None).unwrap_err().to_string();
        assert!(error.contains("one, call: its calls are timed in another process"), "{error}");
    }

    /// Guards against a wrong reason: with `--at` the sizes may be too close, rather than the largest n too small.
    #[test]
    fn sizes_for_which_the_same_calls_stand_are_not_compared() {
        let record = Record { cases: vec![case()], ..Record::default() };
        let overlapping = |at| {
            let sampler = Sampler { event: Event::Cycles, sample_ns: 1_000.0, sample_instructions: None };
            let mut collector = Collector::with(sampler, Symbols::of(KALLSYMS).unwrap(), at, Calls::known(&[]));
            let calls = pass(0, &[SCAN], 0).calls;
            collector.take(&TimedCalls { case: &case(), round: 0, phases: vec![calls] }, Watched::Recorded);
            collector.phases.values_mut().for_each(|one| one.ranges = Some(ranges(Some([100, 180]), CALLS)));
            compare(&collector, &record, None).unwrap_err().to_string()
        };
        let chosen = overlapping(Some([100, 180]));
        assert!(chosen.contains("calls within 40 of it; choose two at least 81 apart"), "{chosen}");
        let default = overlapping(None);
        assert!(default.contains("its largest n, 320, is too small"), "{default}");
        for (high, is_apart) in [(180, false), (181, true)] {
            assert_eq!(are_apart(&ranges(Some([100, high]), CALLS)), is_apart, "{high}");
        }
    }
}
