//! Synthetic series, call by call, with the noise of real hosts and a known truth.
//!
//! [`simulate`](crate::simulate) makes short series at chosen n; this module simulates the samples of a benchmark: one
//! call at every n, on the way up or on the way down. The noise is that of shared machines: a log-normal body, cold
//! calls at the start of a pass, bursts of stolen time, drift within a pass and between passes, and errors that
//! neighbouring calls share.

mod drawn;

use crate::law::{Place, by_name};
use crate::points::start;
use crate::random::Random;
use crate::{Curve, Options, Pass};
use statrs::function::erf::erfc;

pub use drawn::drawn;

/// The statement that a verdict on a truth must make.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// This law of the dictionary, if the cost changes by more than δ; otherwise flat or a small change, depending on
    /// the size of the change.
    Law(&'static str),
    /// A change by no law: falls, varies, or grows by none.
    NoLaw,
    /// A cliff at this n, by this factor.
    Cliff {
        /// First n at the new cost.
        n: f64,
        /// Cost after the cliff over cost before it.
        factor: f64,
    },
    /// Two branches, each of which is flat: no law, no cliff.
    Branches,
}

/// A function of n.
pub type Cost = Box<dyn Fn(f64) -> f64 + Send + Sync>;

/// A truth: a cost as a function of n, and the statement that a verdict must make about it.
pub struct Truth {
    /// The row of the published table to which it belongs.
    pub group: &'static str,
    /// Its parameters: "×7", "×1.3 at 500".
    pub detail: String,
    /// The statement that a verdict must make.
    pub expected: Expected,
    /// From this n on, the cost follows this law of the dictionary, although the whole curve follows none.
    law_from: Option<(f64, &'static str)>,
    cost: Cost,
    branch: Option<Branch>,
    tail: Option<TailCalls>,
}

/// The expensive branch of a mixture.
struct Branch {
    /// Its cost over that of the cheap branch, by n.
    ratio: Cost,
    /// Its share of the calls, by n.
    share: Cost,
    /// Mean number of consecutive calls in one branch.
    dwell: f64,
}

/// Single expensive calls, which make the tail.
struct TailCalls {
    /// Their cost over that of the others, by n.
    ratio: Cost,
    /// Their share of the calls: well above a hundredth, so that the 99th percentile is one of them.
    share: f64,
}

impl Truth {
    /// Returns the true 99th percentile of the calls from one n to another, apart from cold calls and bursts. The 99th
    /// percentile of a flat mixture does not change, so any constant can represent it.
    pub fn percentile_99(&self, (from, to): (f64, f64), noise: &Noise) -> f64 {
        let places: Vec<f64> =
            (0..PLACES).map(|i| from + (to - from) * (f64::from(i) + 0.5) / f64::from(PLACES)).collect();
        let share = self.tail.as_ref().map_or(0.0, |tail| tail.share);
        let above = |log: f64| {
            let of_place = |n: &f64| {
                let cost = self.at(*n).ln();
                let ratio = self.tail.as_ref().map_or(0.0, |tail| (tail.ratio)(*n).ln());
                (1.0 - share) * noise.exceeds(log - cost) + share * noise.exceeds(log - cost - ratio)
            };
            places.iter().map(of_place).sum::<f64>() / places.len() as f64
        };
        let (mut low, mut high) = (0.0, 60.0);
        for _ in 0..50 {
            let middle = f64::midpoint(low, high);
            if above(middle) > 0.01 { low = middle } else { high = middle }
        }
        f64::midpoint(low, high).exp()
    }

    /// Returns the same truth, whose cost follows a law of the dictionary from this n on.
    fn with_law_from(self, n: f64, law: &'static str) -> Self {
        Self { law_from: Some((n, law)), ..self }
    }

    /// Returns the statement that a verdict on the costs from this n on must make. If warm-up hides the first of two
    /// steps, the judged range has a single step.
    pub fn expected_from(&self, n: f64) -> Expected {
        match self.law_from {
            Some((first, law)) if n >= first => Expected::Law(law),
            _ => self.expected,
        }
    }

    /// Returns the true cost: that of the cheap branch of a mixture.
    pub fn at(&self, n: f64) -> f64 {
        (self.cost)(n)
    }

    /// Whether calls take one of two flat branches.
    fn is_flat_mixture(&self) -> bool {
        self.is_mixture() && self.expected == Expected::Branches
    }

    /// Returns whether calls take one of two branches.
    pub fn is_mixture(&self) -> bool {
        self.branch.is_some()
    }
}

impl std::fmt::Debug for Truth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.group, self.detail)
    }
}

/// Cost of the first call, in nanoseconds.
pub const BASE: f64 = 2_000.0;

/// Makes a truth from a function of n, the cost relative to [`BASE`].
pub fn truth(
    group: &'static str,
    detail: String,
    expected: Expected,
    shape: impl Fn(f64) -> f64 + Send + Sync + 'static,
) -> Truth {
    let cost = Box::new(move |n| BASE * shape(n));
    Truth { group, detail, expected, law_from: None, cost, branch: None, tail: None }
}

/// A growth over the judged range within this distance of the margin of equivalence can hardly be resolved by five
/// passes, whatever the law.
const NEAR: f64 = 0.05;

/// Returns a law of the dictionary that grows by a factor from n = 1 to `last`.
fn law(name: &'static str, last: f64, factor: f64, place: Place) -> Truth {
    let g = move |n: f64| by_name(name).map_or(0.0, |law| law.g(n, place));
    let (low, high) = (g(1.0), g(last));
    let shape = move |n: f64| 1.0 + (factor - 1.0) * (g(n) - low) / (high - low);
    let options = Options::default();
    let growth = shape(last) / shape(start(last, &options));
    let is_near = (growth - 1.0 - options.delta).abs() <= NEAR;
    let rounded = (factor * 100.0).round() / 100.0;
    let (group, detail) =
        if is_near { ("near the margin", format!("{name} ×{rounded}")) } else { (name, format!("×{rounded}")) };
    truth(group, detail, Expected::Law(name), shape)
}

fn jump(n: f64, factor: f64) -> impl Fn(f64) -> f64 {
    move |x| if x < n { 1.0 } else { factor }
}

/// Returns every truth for series of `calls` calls.
pub fn truths(calls: u32) -> Vec<Truth> {
    let last = f64::from(calls);
    let mut all = vec![truth("constant", String::new(), Expected::Law("constant"), |_| 1.0)];
    for percent in [3, 6, 8, 12, 20] {
        for sign in [1.0, -1.0] {
            let change = sign * f64::from(percent) / 100.0;
            let (group, expected) = match (sign > 0.0, percent < 10) {
                (true, true) => ("rise within the margin", Expected::Law("constant")),
                (false, true) => ("fall within the margin", Expected::Law("constant")),
                (true, false) => ("rise beyond the margin", Expected::Law("linear")),
                (false, false) => ("fall beyond the margin", Expected::NoLaw),
            };
            all.push(truth(group, format!("linear {:+}%", change * 100.0), expected, move |n| 1.0 + change * n / last));
            let expected = if expected == Expected::Law("linear") { Expected::Law("logarithmic") } else { expected };
            let log = move |n: f64| 1.0 + change * n.ln() / last.ln();
            all.push(truth(group, format!("log {:+}%", change * 100.0), expected, log));
        }
    }
    for name in ["logarithmic", "root", "linear", "linearithmic", "power", "quadratic"] {
        if by_name(name).is_some() {
            // A larger factor would need a negative fixed cost.
            let most = if name == "root" { 0.9 * last.sqrt() } else { last };
            all.extend([1.3, 2.0, 7.0, 50.0].map(|factor| law(name, last, most.min(factor), Place::at(0.0))));
        }
    }
    for name in ["occupancy", "probing"] {
        let most = if name == "occupancy" { 18.0 } else { 50.0 };
        all.extend([2.0, 7.0, most].map(|factor| law(name, last, factor, Place::at(1.05 * last))));
    }
    all.extend([2.0, 7.0].map(|factor| law("knee", last, factor, Place::at(0.5 * last))));
    all.extend([7.0, 50.0].map(|factor| law("tiers", last, factor, Place { n: 0.25 * last, ratio: 4.0 })));
    for n in [50.0, 300.0, 500.0, 0.25 * last, 0.5 * last, 0.8 * last, 0.9 * last] {
        for factor in [1.3, 2.0] {
            all.push(truth("step", format!("×{factor} at {n}"), Expected::Law("step"), jump(n, factor)));
        }
        for factor in [3.0, 10.0, 100.0] {
            let expected = Expected::Cliff { n, factor };
            all.push(truth("cliff", format!("×{factor} at {n}"), expected, jump(n, factor)));
        }
    }
    all.extend(outside(last));
    all.extend(mixtures(last));
    all
}

/// Returns shapes that follow no law of the dictionary.
fn outside(last: f64) -> Vec<Truth> {
    let shape = |detail: &str, f: Cost| truth("outside", detail.to_owned(), Expected::NoLaw, f);
    let (early, late) = (jump(0.1 * last, 1.4), jump(0.5 * last, 1.43));
    vec![
        shape("hump", Box::new(move |n| 1.0 + 0.8 * (-(n / (0.2 * last)).ln().powi(2)).exp())),
        shape("sawtooth", Box::new(|n| 1.0 + 0.4 * (n.log2() / 2.0).fract())),
        shape("two steps", Box::new(move |n| early(n) * late(n))).with_law_from(0.1 * last, "step"),
        shape("sigmoid", Box::new(move |n| 1.0 + 2.0 / (1.0 + (0.3 * last / n).powi(6)))),
        shape("power and pole", Box::new(move |n| n.powf(0.3) + 0.5 / (1.0 - n / (1.02 * last)))),
    ]
}

/// Stays are long if a pass is shorter than this many mean stays.
const LONG_STAYS: f64 = 3.0;

/// Returns mixtures of two branches, with stays from five calls to a whole pass.
fn mixtures(last: f64) -> Vec<Truth> {
    let mut all = Vec::new();
    let mut add = |what: &str, branches: Mixture| {
        let is_long = LONG_STAYS * branches.dwell > last;
        let detail = format!("{what}, dwell {}", branches.dwell);
        all.push(branches.truth(if is_long { "mixture, long stays" } else { "mixture" }, detail));
    };
    for (ratio, dwell, share) in [
        (1.2, 50.0, 0.4),
        (1.3, 5.0, 0.4),
        (1.3, 50.0, 0.4),
        (1.3, 300.0, 0.4),
        (1.5, 20.0, 0.9),
        (2.0, 5.0, 0.5),
        (2.0, 50.0, 0.4),
        (2.0, 100.0, 0.1),
        (2.0, 1000.0, 0.4),
        (3.0, 300.0, 0.4),
        (3.0, 100.0, 0.9),
        (3.0, 2000.0, 0.6),
        (10.0, 20.0, 0.1),
        (10.0, 300.0, 0.4),
    ] {
        add(&format!("×{ratio}, share {share}"), Mixture::flat(ratio, share, dwell));
    }
    let rising = move |n: f64| 0.1 + 0.7 * n / last;
    add("share grows", Mixture { share: Box::new(rising), expected: Expected::NoLaw, ..Mixture::flat(2.0, 0.4, 50.0) });
    let own = move |n: f64| 1.5 + 1.5 * n / last;
    add(
        "one branch linear",
        Mixture { ratio: Box::new(own), expected: Expected::NoLaw, ..Mixture::flat(1.5, 0.4, 100.0) },
    );
    // As fork under Linux 2.4.
    let fork = move |n: f64| 1.0 + 9.0 * n / last;
    add("O(1) or O(n)", Mixture { ratio: Box::new(fork), expected: Expected::NoLaw, ..Mixture::flat(2.0, 0.5, 5.0) });
    let linear = move |n: f64| 1.0 + 6.0 * n / last;
    let expected = Expected::Law("linear");
    add("both linear", Mixture { cost: Box::new(linear), expected, ..Mixture::flat(2.0, 0.4, 100.0) });
    for (at, factor, ratio) in [(0.5, 10.0, 2.0), (0.8, 3.0, 1.5)] {
        let (cost, expected) = (Box::new(jump(at * last, factor)), Expected::Cliff { n: at * last, factor });
        add(&format!("×{ratio} with a cliff"), Mixture { cost, expected, ..Mixture::flat(ratio, 0.4, 100.0) });
    }
    all
}

/// Returns truths with a known tail: medians that are flat, grow or fall, each with a separate tail. Factors are those
/// between the middles of the first and the last third.
pub fn tails(calls: u32) -> Vec<Truth> {
    let last = f64::from(calls);
    // A line by this factor from a sixth of the range to five sixths.
    let rise = move |factor: f64| {
        let slope = (factor - 1.0) / (5.0 / 6.0 - factor / 6.0);
        move |n: f64| 1.0 + slope * n / last
    };
    let jump_at = |at: f64, factor: f64| jump(at * last, factor);
    let with = |detail: &str, median: f64, tail: Cost| {
        let own = rise(median);
        let calls = TailCalls { ratio: Box::new(move |n| 12.0 * tail(n) / own(n)), share: 0.02 };
        Truth { tail: Some(calls), ..truth("tail", detail.to_owned(), Expected::Law("constant"), rise(median)) }
    };
    let mut all: Vec<Truth> =
        truths(calls).into_iter().filter(|truth| truth.group == "constant" || truth.is_flat_mixture()).collect();
    all.extend([
        with("flat, tail flat", 1.0, Box::new(|_| 1.0)),
        with("flat, tail ×1.1", 1.0, Box::new(rise(1.1))),
        with("flat, tail ×1.25", 1.0, Box::new(rise(1.25))),
        with("flat, tail ×1.5", 1.0, Box::new(rise(1.5))),
        with("flat, tail ×2", 1.0, Box::new(rise(2.0))),
        with("flat, tail ×3", 1.0, Box::new(rise(3.0))),
        with("flat, tail ×2 by a step", 1.0, Box::new(jump_at(0.5, 2.0))),
        with("flat, tail ×0.5", 1.0, Box::new(rise(0.5))),
        with("×2, tail flat", 2.0, Box::new(|_| 1.0)),
        with("×3, tail flat", 3.0, Box::new(|_| 1.0)),
        with("×3, tail ×3", 3.0, Box::new(rise(3.0))),
    ]);
    all
}

/// Two branches between which calls alternate.
pub struct Mixture {
    /// Cost of the cheap branch over [`BASE`], by n.
    pub cost: Cost,
    /// Cost of the expensive branch over that of the cheap one, by n.
    pub ratio: Cost,
    /// Share of the calls in the expensive branch, by n.
    pub share: Cost,
    /// Mean length of a stay in a branch, in calls, if both have the same share.
    pub dwell: f64,
    /// The statement that a verdict must make.
    pub expected: Expected,
}

impl Mixture {
    /// Returns a mixture of two constant costs in constant shares.
    pub fn flat(ratio: f64, share: f64, dwell: f64) -> Self {
        let constant = |x: f64| -> Cost { Box::new(move |_| x) };
        let (cost, ratio, share) = (constant(1.0), constant(ratio), constant(share));
        Self { cost, ratio, share, dwell, expected: Expected::Branches }
    }

    /// Makes it a truth.
    pub fn truth(self, group: &'static str, detail: String) -> Truth {
        let Self { cost, ratio, share, dwell, expected } = self;
        Truth { branch: Some(Branch { ratio, share, dwell }), ..truth(group, detail, expected, cost) }
    }
}

impl std::fmt::Debug for Mixture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "mixture, dwell {}, {:?}", self.dwell, self.expected)
    }
}

/// The noise: standard deviations of the logarithm, unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Noise of one call.
    pub call: f64,
    /// Noise that neighbouring calls share; it changes over about a hundred calls.
    pub cell: f64,
    /// Noise of a whole pass.
    pub pass: f64,
    /// Largest change over a pass, as a fraction: linear in half of the passes, a random walk in the others.
    pub drift: f64,
    /// Whether passes start with 20 to 200 cold calls.
    pub warm_up: bool,
    /// Mean number of bursts of stolen time in 10,000 calls.
    pub bursts: f64,
}

/// Share of slow calls, and their additional cost (logarithm): its minimum, and the scale of a half-normal excess.
const SLOW: (f64, f64, f64) = (0.01, 0.2, 0.4);
/// Number of places at which a range of n is examined.
const PLACES: u32 = 40;

impl Noise {
    /// Returns the probability that the noise of a call, as a logarithm, exceeds a distance.
    fn exceeds(&self, distance: f64) -> f64 {
        let normal = |x: f64| 0.5 * erfc(x / self.call.hypot(self.cell) / std::f64::consts::SQRT_2);
        // Integrate over the half-normal excess of the slow calls by the midpoint rule.
        let step = 0.05;
        let density = |x: f64| (2.0 / std::f64::consts::PI).sqrt() * (-0.5 * x * x).exp() * step;
        let slow = (0..100).map(|i| (f64::from(i) + 0.5) * step);
        let slow = slow.map(|x| density(x) * normal(distance - SLOW.1 - SLOW.2 * x)).sum::<f64>();
        (1.0 - SLOW.0) * normal(distance) + SLOW.0 * slow
    }

    /// Returns the noise of the published calibration, with this noise of a call.
    pub fn of_call(call: f64) -> Self {
        Self { call, cell: 0.01, pass: 0.03, drift: 0.03, warm_up: true, bursts: 3.0 }
    }
}

/// Simulates a series of `calls` calls in each of `passes` passes. Every fourth seed measures on the way down. Equal
/// arguments give equal curves.
pub fn simulate(truth: &Truth, noise: &Noise, calls: u32, passes: usize, seed: u64) -> Curve {
    let mut random = Random::new(seed);
    let is_down = seed.is_multiple_of(4);
    // Cold calls and their cost are properties of the benchmark; every pass varies them a little.
    let cold = Cold {
        calls: 20.0 + 180.0 * random.uniform(),
        excess: if noise.warm_up { 0.2 + 1.3 * random.uniform() } else { 0.0 },
        is_abrupt: random.uniform() < 0.5,
    };
    let passes = (0..passes).map(|_| pass(truth, noise, &cold, calls, is_down, &mut random)).collect();
    Curve { passes, annotations: Vec::new() }
}

/// The cold calls of a benchmark.
struct Cold {
    calls: f64,
    /// Additional cost of the first call, as a share.
    excess: f64,
    /// Whether the excess ends abruptly instead of decaying.
    is_abrupt: bool,
}

impl Cold {
    fn factor(&self, at: f64) -> f64 {
        match (at < self.calls, self.is_abrupt) {
            (false, _) => 1.0,
            (true, true) => 1.0 + self.excess,
            (true, false) => 1.0 + self.excess * (-3.0 * at / self.calls).exp(),
        }
    }
}

fn pass(truth: &Truth, noise: &Noise, cold: &Cold, calls: u32, is_down: bool, random: &mut Random) -> Pass {
    let length = f64::from(calls);
    let offset = noise.pass * random.normal();
    let cold = Cold { calls: cold.calls * (0.8 + 0.4 * random.uniform()), ..*cold };
    let is_walk = random.uniform() < 0.5;
    let slope = noise.drift * (2.0 * random.uniform() - 1.0);
    let stolen = bursts(noise, calls, random);
    let (mut walk, mut cell) = (0.0, noise.cell * random.normal());
    let mut is_expensive = truth.branch.as_ref().is_some_and(|branch| random.uniform() < (branch.share)(1.0));
    let mut pass = Pass::default();
    for i in 0..calls {
        let n = if is_down { calls - i } else { i + 1 };
        let (at, size) = (f64::from(i), f64::from(n));
        walk += noise.drift / length.sqrt() * random.normal();
        if i % 10 == 0 {
            // An autoregression over a hundred calls.
            cell = 0.9 * cell + noise.cell * (1.0_f64 - 0.81).sqrt() * random.normal();
        }
        let drift = if is_walk { walk } else { slope * at / length };
        let mut cost = truth.at(size) * cold.factor(at);
        if let Some(branch) = &truth.branch {
            // These rates of leaving a branch yield the share and the mean length of the stays.
            let share = (branch.share)(size);
            let rate = if is_expensive { 1.0 - share } else { share } * 2.0 / branch.dwell;
            is_expensive ^= random.uniform() < rate;
            cost *= if is_expensive { (branch.ratio)(size) } else { 1.0 };
        }
        if let Some(tail) = &truth.tail {
            cost *= if random.uniform() < tail.share { (tail.ratio)(size) } else { 1.0 };
        }
        let mut log = offset + drift + cell + noise.call * random.normal();
        if random.uniform() < SLOW.0 {
            log += SLOW.1 + SLOW.2 * random.normal().abs();
        }
        if stolen.iter().any(|(from, to)| (*from..*to).contains(&i)) && random.uniform() < 0.4 {
            log += 0.2 + random.normal().abs();
        }
        pass.n.push(n);
        pass.costs.push((cost * log.exp()).round() as u64);
        pass.clean.push(true);
    }
    pass
}

/// Returns the bursts of a pass: 200 to 600 calls each.
fn bursts(noise: &Noise, calls: u32, random: &mut Random) -> Vec<(u32, u32)> {
    let expected = noise.bursts * f64::from(calls) / 10_000.0;
    let count = (expected + random.uniform()).floor() as usize;
    let one = |random: &mut Random| {
        let from = (random.uniform() * f64::from(calls)) as u32;
        (from, from + 200 + (random.uniform() * 400.0) as u32)
    };
    (0..count).map(|_| one(random)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against counting a verdict on the range beyond the first of two steps as wrong, or as a shape that was
    /// not noticed: it has a single step.
    #[test]
    fn two_steps_are_one_beyond_the_first() {
        for calls in [2_000, 10_000] {
            let all: Vec<Truth> = truths(calls).into_iter().chain(drawn(calls, 7)).collect();
            let both: Vec<&Truth> = all.iter().filter(|truth| truth.detail == "two steps").collect();
            assert_eq!(both.len(), 2);
            for truth in both {
                let jumps: Vec<u32> =
                    (2..=calls).filter(|n| truth.at(f64::from(*n)) > truth.at(f64::from(n - 1))).collect();
                let before = f64::from(jumps[0]) - 1.0;
                let expected = [before, f64::from(jumps[0])].map(|n| truth.expected_from(n));
                assert_eq!((jumps.len(), expected), (2, [Expected::NoLaw, Expected::Law("step")]));
            }
        }
    }
}
