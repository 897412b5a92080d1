//! From samples at small and at large n to functions with their growth.

use crate::collector::{Collected, Collector, Side, longest};
use crate::{Error, source_version};
use landau_record::Record;
use landau_record::schema::{Case, Interval, Profile, ProfiledChain, ProfiledFunction};
use landau_stats::Estimate;
use std::collections::{BTreeMap, BTreeSet};

/// The least rounds from which an interval can be had.
const LEAST_ROUNDS: usize = 3;

/// Compares the calls at small n of each phase of each case with those at large n.
///
/// `record` holds the passes without a profiler; their times are what the samples must add up to.
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
            reasons.insert(format!("the kernel dropped samples of {passes} passes: this machine is too busy"));
        }
        let none = "no pass was complete".to_owned();
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
) -> Result<Profile, &'static str> {
    if collected.is_timed_elsewhere {
        return Err("its calls are timed in another process, so no sample can be assigned to one");
    }
    let ranges = collected.ranges.clone().ok_or("it has no calls")?;
    if ranges[0].is_empty() || ranges[0].end() >= ranges[1].start() {
        return Err("it has too few objects to compare a small number with a large one");
    }
    let rounds: Vec<&[Side; 2]> = collected.rounds.values().filter(|sides| sides.iter().all(|s| s.calls > 0)).collect();
    let measured = measured(record, case.case, phase, &ranges);
    if rounds.len() < LEAST_ROUNDS || measured.len() < LEAST_ROUNDS {
        return Err("fewer than three rounds were complete; give it more time with --for");
    }
    let weight = collector.sampler().sample_ns;
    let costs = Costs { rounds: &rounds, weight };
    let functions = functions(collector, &costs);
    let grown: Vec<f64> = measured.iter().map(|[low, high]| high - low).collect();
    let mean = |side: usize| measured.iter().map(|one| one[side]).sum::<f64>() / measured.len() as f64;
    let sums = |side: usize| rounds.iter().map(|sides| sides[side].calls).sum();
    let samples = rounds.iter().flat_map(|sides| sides.iter()).flat_map(|side| side.chains.values()).sum();
    Ok(Profile {
        case: case.case,
        phase: phase.to_owned(),
        source: source_version(&record.host.release, &record.host.version),
        event: collector.sampler().event.name().to_owned(),
        sample_ns: weight,
        sample_count: samples,
        round_count: rounds.len() as u32,
        ranges: ranges.map(|range| [*range.start(), *range.end()]),
        call_counts: [sums(0), sums(1)],
        measured_ns: [mean(0), mean(1)],
        measured_growth_ns: of_means(&grown),
        sampled_ns: [0, 1].map(|side| costs.per_call(side, None, |_| true)),
        sampled_growth_ns: costs.interval(|without| costs.growth(without, &|_| true)),
        functions,
        chains: chains(collector, &costs),
    })
}

/// Returns the mean time of the calls in each range, of each recorded pass.
fn measured(record: &Record, case: u32, phase: &str, ranges: &[crate::collector::Range; 2]) -> Vec<[f64; 2]> {
    let of_pass = |pass: &&landau_record::Pass| {
        let series = pass.series.get(phase)?;
        let mut means = [0.0; 2];
        for (mean, range) in means.iter_mut().zip(ranges) {
            let calls = series.n.iter().zip(&series.costs).filter(|(n, _)| range.contains(&u64::from(**n)));
            let costs: Vec<u64> = calls.map(|(_, cost)| *cost).collect();
            let longest = longest(costs.clone());
            let kept: Vec<f64> = costs.into_iter().filter(|cost| *cost <= longest).map(|cost| cost as f64).collect();
            if kept.is_empty() {
                return None;
            }
            *mean = kept.iter().sum::<f64>() / kept.len() as f64;
        }
        Some(means)
    };
    record.passes_of(case).iter().filter(|pass| pass.is_complete()).filter_map(of_pass).collect()
}

/// The samples of all rounds, and the time for which one stands.
struct Costs<'a> {
    rounds: &'a [&'a [Side; 2]],
    weight: f64,
}

impl Costs<'_> {
    /// Returns the mean time per call of a side in the samples whose chain is wanted, without one of the rounds.
    fn per_call(&self, side: usize, without: Option<usize>, wanted: impl Fn(&[u32]) -> bool) -> f64 {
        let kept = || self.rounds.iter().enumerate().filter(|(index, _)| Some(*index) != without);
        let calls: u64 = kept().map(|(_, sides)| sides[side].calls).sum();
        let chains = kept().flat_map(|(_, sides)| &sides[side].chains);
        let samples: u64 = chains.filter(|(chain, _)| wanted(chain)).map(|(_, count)| count).sum();
        samples as f64 * self.weight / calls.max(1) as f64
    }

    fn growth(&self, without: Option<usize>, wanted: &dyn Fn(&[u32]) -> bool) -> f64 {
        self.per_call(1, without, wanted) - self.per_call(0, without, wanted)
    }

    /// Returns a quantity with its interval, from leaving out one round at a time.
    fn interval(&self, of: impl Fn(Option<usize>) -> f64) -> Interval {
        let without: Vec<f64> = (0..self.rounds.len()).map(|index| of(Some(index))).collect();
        interval(Estimate::by_jackknife(of(None), &without))
    }
}

fn interval(estimate: Estimate) -> Interval {
    Interval { value: estimate.value, low: estimate.low, high: estimate.high }
}

/// Returns the mean of the passes' values with its interval.
fn of_means(values: &[f64]) -> Interval {
    let (sum, count) = (values.iter().sum::<f64>(), values.len() as f64);
    let without: Vec<f64> = values.iter().map(|value| (sum - value) / (count - 1.0)).collect();
    interval(Estimate::by_jackknife(sum / count, &without))
}

/// Returns every function with a sample of its own, by its share of the growth, the largest first.
fn functions(collector: &Collector, costs: &Costs<'_>) -> Vec<ProfiledFunction> {
    let chains = costs.rounds.iter().flat_map(|sides| sides.iter()).flat_map(|side| side.chains.keys());
    let innermost: BTreeSet<u32> = chains.filter_map(|chain| chain.last().copied()).collect();
    let of = |function: u32| {
        let own = move |chain: &[u32]| chain.last() == Some(&function);
        let share = |without| match costs.growth(without, &|_| true) {
            0.0 => 0.0,
            whole => costs.growth(without, &own) / whole,
        };
        ProfiledFunction {
            name: collector.symbols().name(function).to_owned(),
            ns: [0, 1].map(|side| costs.per_call(side, None, own)),
            growth_ns: costs.interval(|without| costs.growth(without, &own)),
            share: costs.interval(share),
        }
    };
    let mut found: Vec<ProfiledFunction> = innermost.into_iter().map(of).collect();
    found.sort_by(|a, b| b.share.value.total_cmp(&a.share.value).then_with(|| a.name.cmp(&b.name)));
    found
}

/// Returns the functions by the calls that led to them, callers before their callees.
fn chains(collector: &Collector, costs: &Costs<'_>) -> Vec<ProfiledChain> {
    let mut samples: BTreeMap<&[u32], [u64; 2]> = BTreeMap::new();
    for sides in costs.rounds {
        for (index, side) in sides.iter().enumerate() {
            for (chain, count) in &side.chains {
                // Every caller is an entry, with or without samples of its own.
                for depth in 1..=chain.len() {
                    samples.entry(&chain[..depth]).or_default()[index] += if depth == chain.len() { *count } else { 0 };
                }
            }
        }
    }
    let calls = [0, 1].map(|side| costs.rounds.iter().map(|sides| sides[side].calls).sum::<u64>().max(1) as f64);
    // A chain sorts after its own beginning.
    let places: BTreeMap<&[u32], u32> =
        samples.keys().enumerate().map(|(place, chain)| (*chain, place as u32)).collect();
    let one = |(chain, counts): (&&[u32], &[u64; 2])| ProfiledChain {
        caller: places.get(&chain[..chain.len() - 1]).copied(),
        name: collector.symbols().name(chain[chain.len() - 1]).to_owned(),
        ns: [0, 1].map(|side| counts[side] as f64 * costs.weight / calls[side]),
    };
    samples.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Sampler, Symbols};
    use landau_engine::{Profiler, TimedCall, TimedCalls};
    use landau_record::schema::{Direction, Facts, Outcome, PassEnd, PassStart, Phase};
    use landau_record::{Pass, Series};

    const KALLSYMS: &str = "\
ffffffff81000000 T entry
ffffffff81000100 t scan
ffffffff81000200 t fixed
ffffffff81000300 t _raw_spin_unlock_irqrestore
";

    const CALLS: u64 = 320;

    fn end(pass: u32) -> PassEnd {
        let (outcome, facts) = (Outcome::Done, Facts::default());
        PassEnd { pass, outcome, steps: CALLS, elapsed_ms: 1, limit: None, error: None, facts }
    }

    /// Calls of 1000 ns + 100 ns per object; `scan` has the growth. A sample every 1000 ns of a call.
    fn profiled(event: Event, leaf: u64) -> (Collector, Record) {
        let phase = Phase { name: "call".to_owned(), direction: Direction::Up, about: String::new() };
        let case = Case {
            case: 0,
            benchmark: "one".to_owned(),
            label: "one".to_owned(),
            about: String::new(),
            axis: String::new(),
            caveats: Vec::new(),
            source: String::new(),
            phases: vec![phase],
            settings: BTreeMap::new(),
            settings_about: BTreeMap::new(),
            n: CALLS,
            reduced: None,
            annotations: Vec::new(),
            timeline: None,
            replay: None,
        };
        let sampler = Sampler { event, sample_ns: 1_000.0 };
        let mut collector = Collector::with(sampler, Symbols::of(KALLSYMS).unwrap(), None);
        let mut record = Record::default();
        for round in 0..5 {
            let mut now = 1_000_000;
            let (mut calls, mut samples) = (Vec::new(), Vec::new());
            for n in 1..=CALLS {
                let ns = 1_000 + 100 * n;
                for tick in 0..ns / 1_000 {
                    let inner = if tick == 0 { 0xffff_ffff_8100_0200 } else { leaf };
                    let chain = vec![inner, 0xffff_ffff_8100_0108, 0xffff_ffff_8100_0008];
                    let chain = if tick == 0 { vec![inner, chain[2]] } else { chain };
                    samples.push(crate::sampler::Sample { time_ns: now + tick * 1_000 + 7, chain });
                }
                calls.push(TimedCall { n, began_ns: Some(now), ns });
                now += ns + 500;
                // Between two calls, so it belongs to none.
                samples.push(crate::sampler::Sample { time_ns: now - 250, chain: vec![0xffff_ffff_8100_0000] });
            }
            let start = PassStart { pass: round, case: 0, round, ..PassStart::default() };
            let series = Series { n: (1..=CALLS as u32).collect(), costs: calls.iter().map(|call| call.ns).collect() };
            let series = [("call".to_owned(), series)].into();
            record.passes.push(Pass { start, series, windows: Vec::new(), end: Some(end(round)) });
            collector.set_samples(samples);
            collector.end(&TimedCalls { case: &case, round, phases: vec![calls] }).unwrap();
        }
        record.cases.push(case);
        (collector, record)
    }

    #[test]
    fn the_function_that_grows_is_named_and_the_sum_is_the_measured_growth() {
        let (collector, record) = profiled(Event::Cycles, 0xffff_ffff_8100_0150);
        let found = &compare(&collector, &record, None).unwrap()[0];
        assert_eq!(found.ranges, [[11, 80], [240, 320]]);
        assert_eq!((found.functions[0].name.as_str(), found.functions.len()), ("scan", 2));
        let (sum, growth) = (found.sampled_growth_ns.value, found.measured_growth_ns.value);
        assert!((growth - 23_450.0).abs() < 1.0, "{growth}");
        assert!((sum / growth - 1.0).abs() < 0.05, "{sum} of {growth}");
        assert!((found.functions[0].share.value - 1.0).abs() < 0.01, "{:?}", found.functions[0]);
        // `fixed` takes one sample of each call.
        let fixed = found.functions.iter().find(|one| one.name == "fixed").unwrap();
        assert_eq!((fixed.ns, fixed.growth_ns.value), ([1_000.0; 2], 0.0));
        let names: Vec<(Option<u32>, &str)> = found.chains.iter().map(|one| (one.caller, one.name.as_str())).collect();
        assert_eq!(names, [(None, "entry"), (Some(0), "scan"), (Some(1), "scan"), (Some(0), "fixed")]);
        assert!(found.adds_up());
    }

    #[test]
    fn a_timer_that_waited_for_interrupts_shows_the_caller() {
        let (collector, record) = profiled(Event::CpuClock, 0xffff_ffff_8100_0310);
        let found = &compare(&collector, &record, None).unwrap()[0];
        assert_eq!(found.functions[0].name, "scan");
        // A counter's interrupt does not wait.
        let (collector, record) = profiled(Event::Cycles, 0xffff_ffff_8100_0310);
        let found = &compare(&collector, &record, None).unwrap()[0];
        assert_eq!(found.functions[0].name, "_raw_spin_unlock_irqrestore");
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let (mut collector, record) = profiled(Event::Cycles, 0xffff_ffff_8100_0150);
        assert!(matches!(compare(&collector, &record, Some("other")), Err(Error::NotExplainable(_))));
        collector.phases.values_mut().for_each(|one| one.is_timed_elsewhere = true);
        let error = compare(&collector, &record, None).unwrap_err().to_string();
        assert!(error.contains("one, call: its calls are timed in another process"), "{error}");
    }
}
