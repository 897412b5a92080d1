//! Turns counted calls into an explanation: which functions grow with n, and by how much per object.
//!
//! Each size is represented by one call, so that the functions' instructions add up to that call's, and their growth to
//! the difference of two samples. It is the nearest call that has no interrupt and a typical cost.

use super::counts::{Counts, TimedCall};
use super::error::Error;
use landau_profile::{Symbols, divide};
use landau_record::schema::{Branching, Case, Chain, Explanation, FunctionCost};
use landau_record::{Pass, Series};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The maximum distance of a call from the size that it represents, as a ratio.
const NEAR: f64 = 0.02;

/// The lower bound of that maximum, in objects: if a call contains a timer interrupt, the next one represents the size.
const NEAR_LEAST: u64 = 3;

/// The maximum number of calls that a line is fitted to.
const FITTED: usize = 2_000;

/// A node of the call chains is kept if it and its callees have at least this share of the instructions.
const KEPT: f64 = 0.0005;

/// A counted call with its sample.
struct Call<'a> {
    n: u64,
    sample: u64,
    timed: &'a TimedCall,
    total: u64,
    is_disturbed: bool,
}

/// Explains each phase of a case. `passes` are those of the whole record, in order; `at` are the sizes to compare, or
/// empty for three default ones.
pub(super) fn case(
    case: &Case,
    passes: &[Pass],
    counts: &Counts,
    symbols: &Symbols,
    at: &[u64],
) -> Result<Vec<Explanation>, Error> {
    let mut found = Vec::new();
    for (phase, described) in case.phases.iter().enumerate() {
        let calls = calls(case.case, phase, &described.name, passes, counts, symbols)?;
        // A phase that is timed in another process has no marks; a phase that failed at once has no samples.
        if !calls.is_empty() {
            let mut explanation = explain(&calls, counts, symbols, at);
            (explanation.case, explanation.phase) = (case.case, described.name.clone());
            found.push(explanation);
        }
    }
    Ok(found)
}

/// Returns the calls of a phase with their samples, by n.
fn calls<'a>(
    case: u32,
    phase: usize,
    name: &str,
    passes: &[Pass],
    counts: &'a Counts,
    symbols: &Symbols,
) -> Result<Vec<Call<'a>>, Error> {
    let is_interrupt: Vec<bool> = interrupts(counts, symbols);
    let empty = Series::default();
    if counts
        .timed_calls
        .iter()
        .all(|timed| timed.phase != phase || passes.get(timed.pass).is_none_or(|pass| pass.start.case != case))
    {
        return Ok(Vec::new());
    }
    let mut calls = Vec::new();
    for (number, pass) in passes.iter().enumerate().filter(|(_, pass)| pass.start.case == case) {
        let lane = pass.series.get(name).unwrap_or(&empty);
        let timed: Vec<&TimedCall> =
            counts.timed_calls.iter().filter(|timed| timed.pass == number && timed.phase == phase).collect();
        if timed.len() != lane.n.len() {
            let (samples, counted) = (lane.n.len(), timed.len());
            return Err(Error::Counts(format!("{name} has {samples} samples, but {counted} calls were counted")));
        }
        let joined = lane.n.iter().zip(&lane.costs).zip(timed);
        calls.extend(joined.map(|((&n, &sample), timed)| Call {
            n: u64::from(n),
            sample,
            timed,
            total: timed.total(),
            is_disturbed: timed.counts.iter().any(|&(node, _)| is_interrupt[node as usize]),
        }));
    }
    calls.sort_by_key(|call| (call.n, call.is_disturbed, call.total));
    Ok(calls)
}

/// Returns for each node whether it is part of an interrupt.
fn interrupts(counts: &Counts, symbols: &Symbols) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(counts.nodes.len());
    for node in &counts.nodes {
        // Parents come before their children.
        let above = found.get(node.parent as usize).copied().unwrap_or(false);
        found.push(above || symbols.is_interrupt(node.function));
    }
    found
}

fn explain(calls: &[Call], counts: &Counts, symbols: &Symbols, at: &[u64]) -> Explanation {
    let shown: Vec<&Call> = sizes(calls, at).into_iter().filter_map(|size| typical(calls, size)).collect();
    let by_function = |call: &Call| {
        let mut sums: HashMap<u32, u64> = HashMap::new();
        for &(node, count) in &call.timed.counts {
            *sums.entry(counts.nodes[node as usize].function).or_default() += count;
        }
        sums
    };
    let columns: Vec<HashMap<u32, u64>> = shown.iter().map(|call| by_function(call)).collect();
    let inclusive: Vec<HashMap<u32, u64>> = shown.iter().map(|call| with_callees(call, counts)).collect();
    let (first, last) = (shown.first().map_or(0, |call| call.n), shown.last().map_or(0, |call| call.n));
    let fitted = fitted(calls, first, last);
    let points: Vec<(u64, HashMap<u32, u64>)> = fitted.iter().map(|call| (call.n, by_function(call))).collect();
    let mut numbers: Vec<u32> = columns.iter().flat_map(|column| column.keys().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let growth = match shown[..] {
        [first, .., last] => last.total as f64 - first.total as f64,
        _ => 0.0,
    };
    let mut functions: Vec<FunctionCost> = numbers
        .into_iter()
        .map(|function| {
            let of = |column: &HashMap<u32, u64>| column.get(&function).copied().unwrap_or(0);
            let line: Vec<(u64, u64)> = points.iter().map(|(n, column)| (*n, of(column))).collect();
            let [own, whole] = [&columns, &inclusive].map(|columns| columns.iter().map(of).collect::<Vec<u64>>());
            with_inclusive(cost(symbols.name(function), own, &line, growth), whole, growth)
        })
        .collect();
    functions.sort_by(|a, b| b.growth().cmp(&a.growth()).then_with(|| a.name.cmp(&b.name)));
    let beside = || calls.iter().map(|call| call.total.cast_signed() - call.sample.cast_signed());
    Explanation {
        at: shown.iter().map(|call| call.n).collect(),
        sample_instructions: shown.iter().map(|call| call.sample).collect(),
        counted_instructions: shown.iter().map(|call| call.total).collect(),
        overhead_instructions: [beside().min().unwrap_or(0), beside().max().unwrap_or(0)],
        functions,
        chains: chains(&shown, counts, symbols),
        branching: divided(&shown, counts, symbols),
        ..Explanation::default()
    }
}

/// Returns the instructions of a call by function, including those of the function's callees. A recursive function
/// counts once.
fn with_callees(call: &Call, counts: &Counts) -> HashMap<u32, u64> {
    let mut sums: HashMap<u32, u64> = HashMap::new();
    for &(node, count) in &call.timed.counts {
        for function in path(counts, node as usize).into_iter().collect::<BTreeSet<u32>>() {
            *sums.entry(function).or_default() += count;
        }
    }
    sums
}

/// Returns how the growth from the first call to the last divides where it branches.
fn divided(shown: &[&Call], counts: &Counts, symbols: &Symbols) -> Option<Branching> {
    let [first, .., last] = shown else { return None };
    let mut growths: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
    for (call, sign) in [(first, -1.0), (last, 1.0)] {
        for &(node, count) in &call.timed.counts {
            *growths.entry(path(counts, node as usize)).or_default() += sign * count as f64;
        }
    }
    divide(&growths, |function| symbols.name(function))
}

/// Returns the functions that led to a node, the outermost first. The program's children are entries of the kernel,
/// which it did not call as a function.
fn path(counts: &Counts, mut node: usize) -> Vec<u32> {
    let mut path = vec![counts.nodes[node].function];
    while node != 0 && counts.nodes[node].parent != 0 {
        node = counts.nodes[node].parent as usize;
        path.push(counts.nodes[node].function);
    }
    path.reverse();
    path
}

/// Adds to the cost of a function its inclusive cost, with callees, at each size.
fn with_inclusive(cost: FunctionCost, instructions: Vec<u64>, growth: f64) -> FunctionCost {
    let grown = match instructions[..] {
        [first, .., last] => last as f64 - first as f64,
        _ => 0.0,
    };
    let share = if growth == 0.0 { 0.0 } else { grown / growth };
    FunctionCost { inclusive_instructions: instructions, inclusive_share: Some(share), ..cost }
}

/// Returns the sizes to compare: `at`, or a tenth, a half and all of the steps.
fn sizes(calls: &[Call], at: &[u64]) -> Vec<u64> {
    let largest = calls.last().map_or(1, |call| call.n);
    let mut sizes = if at.is_empty() { vec![largest.div_ceil(10), largest.div_ceil(2), largest] } else { at.to_vec() };
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Returns the call that represents a size. The candidates are the calls around it without an interrupt, or all of
/// these calls if each has one. A line is fitted to the candidates; of the half that is closer to it, the call nearest
/// to the size is chosen.
fn typical<'a, 'c>(calls: &'a [Call<'c>], size: u64) -> Option<&'a Call<'c>> {
    let reach = ((size as f64 * NEAR) as u64).max(NEAR_LEAST);
    let nearest = calls.iter().map(|call| call.n.abs_diff(size)).min()?.max(reach);
    let around: Vec<&Call> = calls.iter().filter(|call| call.n.abs_diff(size) <= nearest).collect();
    let mut chosen: Vec<&Call> = around.iter().copied().filter(|call| !call.is_disturbed).collect();
    if chosen.is_empty() {
        chosen = around;
    }
    let (each, fixed) = line(&chosen.iter().map(|call| (call.n, call.total)).collect::<Vec<_>>());
    let off = |call: &Call| (call.total as f64 - fixed - each * call.n as f64).abs();
    let mut distances: Vec<f64> = chosen.iter().map(|call| off(call)).collect();
    distances.sort_by(f64::total_cmp);
    // Half an instruction allows for rounding.
    let middle = distances[distances.len() / 2] + 0.5;
    chosen.into_iter().filter(|call| off(call) <= middle).min_by_key(|call| call.n.abs_diff(size))
}

/// Returns the calls that lines are fitted to: those between two sizes, without interrupt if there are enough.
fn fitted<'a, 'c>(calls: &'a [Call<'c>], first: u64, last: u64) -> Vec<&'a Call<'c>> {
    let between: Vec<&Call> = calls.iter().filter(|call| (first..=last).contains(&call.n)).collect();
    let clean: Vec<&Call> = between.iter().copied().filter(|call| !call.is_disturbed).collect();
    let chosen = if clean.len() >= 3 { clean } else { between };
    let every = chosen.len().div_ceil(FITTED).max(1);
    chosen.into_iter().step_by(every).collect()
}

/// Returns the cost of a function from its instructions in the shown calls, and in those that the line is fitted to.
fn cost(name: &str, instructions: Vec<u64>, points: &[(u64, u64)], growth: f64) -> FunctionCost {
    let (each, fixed) = line(points);
    let off = points.iter().map(|&(n, count)| (count as f64 - fixed - each * n as f64).abs());
    let mut cost = FunctionCost {
        name: name.to_owned(),
        instructions,
        per_object_instructions: rounded(each),
        fixed_instructions: rounded(fixed),
        max_residual_instructions: rounded(off.fold(0.0, f64::max)),
        ..FunctionCost::default()
    };
    let own = cost.growth() as f64;
    cost.share = if growth == 0.0 { 0.0 } else { own / growth };
    let start = cost.instructions.first().copied().unwrap_or(0) as f64;
    let is_past = |count: u64| own != 0.0 && (count as f64 - start) / own >= 0.5;
    cost.half_at = points.iter().find(|&&(_, count)| is_past(count)).map_or(0, |&(n, _)| n);
    cost
}

/// Returns slope and intercept of the least-squares line.
fn line(points: &[(u64, u64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let mean = |of: &dyn Fn(&(u64, u64)) -> u64| points.iter().map(|point| of(point) as f64).sum::<f64>() / count;
    let (mean_n, mean_cost) = (mean(&|point| point.0), mean(&|point| point.1));
    let (mut square, mut product) = (0.0, 0.0);
    for &(n, cost) in points {
        let distance = n as f64 - mean_n;
        square += distance * distance;
        product += distance * (cost as f64 - mean_cost);
    }
    let each = if square > 0.0 { product / square } else { 0.0 };
    (each, mean_cost - each * mean_n)
}

/// Rounds to a millionth: further digits are rounding errors.
fn rounded(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Returns the call chains of the first and the last call. Nodes that are too small are added to their callers.
fn chains(shown: &[&Call], counts: &Counts, symbols: &Symbols) -> Vec<Chain> {
    let (Some(first), Some(last)) = (shown.first(), shown.last()) else { return Vec::new() };
    let mut own: Vec<[u64; 2]> = vec![[0; 2]; counts.nodes.len()];
    for (side, call) in [first, last].into_iter().enumerate() {
        for &(node, count) in &call.timed.counts {
            own[node as usize][side] += count;
        }
    }
    // Children come after their parents, so a backward pass visits each child first.
    let mut whole = own.clone();
    for index in (1..counts.nodes.len()).rev() {
        let parent = counts.nodes[index].parent as usize;
        // The program's children are entries of the kernel; they are its siblings in the graph.
        if parent != 0 {
            (whole[parent][0], whole[parent][1]) =
                (whole[parent][0] + whole[index][0], whole[parent][1] + whole[index][1]);
        }
    }
    let least = |side: usize| [first.total, last.total][side] as f64 * KEPT;
    let is_kept = |index: usize| (0..2).any(|side| whole[index][side] > 0 && whole[index][side] as f64 >= least(side));
    let mut places: BTreeMap<usize, u32> = BTreeMap::new();
    let mut chains: Vec<Chain> = Vec::new();
    for (index, node) in counts.nodes.iter().enumerate() {
        let parent = (index != 0 && node.parent != 0).then_some(node.parent as usize);
        if is_kept(index) {
            let caller = parent.and_then(|parent| places.get(&parent).copied());
            places.insert(index, chains.len() as u32);
            chains.push(Chain { caller, name: symbols.name(node.function).to_owned(), instructions: own[index] });
        } else if let Some(place) = parent.and_then(|parent| places.get(&parent).copied()) {
            let into = &mut chains[place as usize].instructions;
            (into[0], into[1]) = (into[0] + own[index][0], into[1] + own[index][1]);
            places.insert(index, place);
        }
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::super::counts::Node;
    use super::*;
    use landau_record::schema::{Direction, PassStart, Phase};

    const KALLSYMS: &str = "ffffffff81000000 T entry_SYSCALL_64\nffffffff81001000 T scan\nffffffff81002000 T visit\n\
                            ffffffff81003000 T asm_sysvec_apic_timer_interrupt\nffffffff81004000 T tick\n";

    /// A case of 100 calls: the program 10, the entry 50, `scan` 20 + 2n, `visit` 7n, and in every tenth call a tick.
    fn given() -> (Case, Vec<Pass>, Counts, Symbols) {
        let symbols = Symbols::of(KALLSYMS).unwrap();
        let node = |parent, function| Node { parent, function };
        let mut counts = Counts {
            nodes: vec![node(0, 0), node(0, 2), node(1, 3), node(2, 4), node(2, 5), node(4, 6)],
            pass_count: 1,
            ..Counts::default()
        };
        let mut lane = Series::default();
        for n in 1..=100_u64 {
            let mut pairs = vec![(0, 10), (1, 50), (2, 20 + 2 * n), (3, 7 * n)];
            if n % 10 == 0 {
                pairs.extend([(4, 30), (5, 4_000)]);
            }
            let timed = TimedCall { pass: 0, phase: 0, counts: pairs };
            lane.n.push(n as u32);
            lane.costs.push(timed.total() - 4);
            counts.timed_calls.push(timed);
        }
        let phase = Phase { name: "wait".to_owned(), direction: Direction::Up, about: String::new() };
        let case = Case {
            case: 0,
            benchmark: "event_wait".to_owned(),
            label: "event_wait".to_owned(),
            about: String::new(),
            axis: String::new(),
            caveats: Vec::new(),
            source: String::new(),
            phases: vec![phase],
            settings: BTreeMap::new(),
            settings_about: BTreeMap::new(),
            n: 100,
            reduced: None,
            annotations: Vec::new(),
            timeline: None,
            replay: None,
        };
        let start = PassStart { pass: 0, case: 0, round: 0, at_ms: 0, adaptive_for: Vec::new() };
        let series = BTreeMap::from([("wait".to_owned(), lane)]);
        (case, vec![Pass { start, series, windows: Vec::new(), end: None }], counts, symbols)
    }

    #[test]
    fn each_function_has_its_line_and_the_shares_add_up() {
        let (given, passes, counts, symbols) = given();
        let found = &case(&given, &passes, &counts, &symbols, &[]).unwrap()[0];
        assert_eq!(found.overhead_instructions, [4, 4]);
        // The calls 10, 50 and 100 contain a timer interrupt, so the ones before represent them.
        assert_eq!(found.at, [9, 49, 99]);
        assert!(found.functions.iter().all(|function| function.name != "tick"), "{found:?}");
        assert_eq!((found.functions[0].name.as_str(), found.functions[0].per_object_instructions), ("visit", 7.0));
        assert_eq!((found.functions[1].name.as_str(), found.functions[1].fixed_instructions), ("scan", 20.0));
        assert!((found.functions.iter().map(|function| function.share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(found.explained(), found.growth());
        assert!(found.adds_up(0.0) && found.functions.iter().all(FunctionCost::is_linear));
    }

    #[test]
    fn chains_hang_together() {
        let (given, passes, counts, symbols) = given();
        let found = &case(&given, &passes, &counts, &symbols, &[11, 99]).unwrap()[0];
        let names: Vec<&str> = found.chains.iter().map(|chain| chain.name.as_str()).collect();
        assert_eq!(names, ["[user]", "entry_SYSCALL_64", "scan", "visit"]);
        assert_eq!(found.chains[3].caller, Some(2));
        assert_eq!(found.chains[3].instructions, [77, 693]);
        assert_eq!((found.chains[0].caller, found.chains[1].caller), (None, None));
    }

    #[test]
    fn a_step_is_placed_and_is_no_line() {
        let points: Vec<(u64, u64)> = (1..=100).map(|n| (n, if n <= 70 { 5 } else { 905 })).collect();
        let found = cost("search", vec![5, 905], &points, 900.0);
        assert!(!found.is_linear());
        assert_eq!((found.half_at, found.growth()), (71, 900));
    }

    #[test]
    fn calls_that_do_not_match_their_samples_are_an_error() {
        let (given, passes, mut counts, symbols) = given();
        counts.timed_calls.pop();
        assert!(matches!(case(&given, &passes, &counts, &symbols, &[]), Err(Error::Counts(_))));
    }
}
