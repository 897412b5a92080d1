//! The confounder ladder of `spawn`: from the naive test among sleeping processes to the sound one, one change per
//! step.
//!
//! Each step changes one setting of the test, but nothing in the child that is timed, so all steps cost the same
//! without sleepers. The amount that a step costs less among sleepers is the amount that it removes. Steps are compared
//! pass by pass within a round.

pub mod records;
mod slow;

use crate::quantity::{FormatCost, Unit, count, digits, factor};
use crate::table::grid::{bold, line, needed, rule, used};
use crate::table::{Layout, plain, wrapped};
use crate::{Analysis, CaseStudy, PhaseStudy, unit_of};
use landau_record::Pass;
use landau_record::schema::Fact;
use landau_stats::quantile::quantile;
use landau_stats::{Estimate, paired};
use serde::Serialize;
pub use slow::Slow;
use std::collections::BTreeMap;

/// The benchmark and the phase.
pub(crate) const BENCHMARK: &str = "spawn";
pub(crate) const PHASE: &str = "cycle";

/// The steps: their names and settings.
const STEPS: [(&str, [(&str, &str); 3]); 4] = [
    ("naive", [("wait", "any"), ("parent", "timer"), ("image", "shared")]),
    ("wait for this child", [("wait", "pid"), ("parent", "timer"), ("image", "shared")]),
    ("sleepers of a helper", [("wait", "pid"), ("parent", "helper"), ("image", "shared")]),
    ("executed sleepers", [("wait", "pid"), ("parent", "helper"), ("image", "executed")]),
];

/// Numbers of sleepers at which the steps are compared, in addition to the largest one.
const AT: [u32; 4] = [1_000, 3_000, 5_000, 15_000];
/// Calls within this factor of a number of sleepers are counted there.
const NEAR: f64 = 1.05;
/// Minimum number of calls without interference needed to ignore the others.
const CLEAN_MIN: usize = 16;
/// Steps agree without sleepers if their costs differ by at most this share.
const AGREE: f64 = 0.05;

/// The ladder of a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ladder {
    /// The unit of costs.
    pub unit: Unit,
    /// The numbers of sleepers, ascending; the cost without sleepers is separate.
    pub sleepers: Vec<u32>,
    /// The steps, from the naive test to the sound one.
    pub steps: Vec<Step>,
    /// The other cases.
    pub others: Vec<Step>,
    /// Cost of the first step over that of the last, for each number of sleepers, 95%.
    pub factors: Vec<Option<Estimate>>,
    /// The slow calls of the first and of the last step, with their tags.
    pub slow: Vec<Slow>,
}

/// A step, or another case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// The label of its case.
    pub case: String,
    /// The cost without sleepers, 95%: that of the naive test in all passes times `without_ratio`. In older records,
    /// the mean of the step's medians.
    pub without: Option<Estimate>,
    /// The cost without sleepers over that of the naive test with the same child, in the same pass, 95%. In older
    /// records, over that of the first step, by round.
    pub without_ratio: Option<Estimate>,
    /// The median cost for each number of sleepers, mean of the passes, 95%.
    pub costs: Vec<Option<Estimate>>,
    /// The cost that it removes compared with the step before, for each number of sleepers, 95%; absent for the first
    /// step and for other cases.
    pub removed: Vec<Option<Estimate>>,
}

/// Costs and facts of a case, by round.
struct Passes<'a> {
    study: &'a CaseStudy<'a>,
    phase: &'a PhaseStudy<'a>,
    /// The cost without sleepers.
    without: BTreeMap<u32, f64>,
    /// The cost of the naive test, whose children alternated with those of this case; empty in older records.
    naive: BTreeMap<u32, f64>,
}

/// The cases of a record's ladder.
struct Cases<'a> {
    /// All cases of the benchmark.
    all: Vec<Passes<'a>>,
    /// The indices of the steps in `all`.
    places: Vec<usize>,
}

/// Returns the ladder of a record; `None` if it lacks one of the steps.
pub fn of(analysis: &Analysis<'_>) -> Option<Ladder> {
    let cases = Cases::of(analysis)?;
    Some(cases.ladder(analysis, cases.largest_n()))
}

impl<'a> Cases<'a> {
    /// Returns the cases of a record; `None` if it lacks one of the steps.
    fn of(analysis: &'a Analysis<'_>) -> Option<Self> {
        let studies = || analysis.cases.iter().filter(|study| study.case.benchmark == BENCHMARK);
        let all: Vec<Passes<'_>> = studies().filter_map(|study| Passes::of(analysis, study)).collect();
        let naive = all.iter().find(|one| one.has(&STEPS[0].1))?;
        let is_alike = |one: &Passes<'_>| rest(one.study) == rest(naive.study);
        let find = |settings| all.iter().position(|one| one.has(settings) && is_alike(one));
        let places = STEPS.iter().map(|(_, settings)| find(settings)).collect::<Option<Vec<usize>>>()?;
        Some(Self { all, places })
    }

    fn steps(&self) -> Vec<&Passes<'a>> {
        self.places.iter().map(|place| &self.all[*place]).collect()
    }

    /// Returns the largest number of sleepers that all steps reached.
    fn largest_n(&self) -> u32 {
        self.steps().iter().map(|one| one.study.largest_n()).min().unwrap_or(1)
    }

    /// Returns the ladder up to `largest` sleepers, a number that all steps reached.
    fn ladder(&self, analysis: &Analysis<'_>, largest: u32) -> Ladder {
        let (steps, sleepers) = (self.steps(), numbers(largest));
        let (first, last) = (steps[0], steps[steps.len() - 1]);
        // All steps time the same child.
        let naive: Vec<f64> = steps.iter().flat_map(|one| one.naive.values().copied()).collect();
        let step = |(index, one): (usize, &&Passes<'_>)| {
            let before = index.checked_sub(1).map(|before| steps[before]);
            Step {
                without: one.without(first, &naive),
                ..one.step(STEPS[index].0.to_owned(), first, before, &sleepers)
            }
        };
        let others = self.all.iter().enumerate().filter(|(index, _)| !self.places.contains(index));
        let other = |one: &Passes<'_>| one.step(difference(one.study, last.study), first, None, &sleepers);
        let ratio =
            |n: &u32| paired::geometric_mean(&pairs(&first.at(*n, largest), &last.at(*n, largest), |a, b| a / b));
        let ends = [(0, first), (steps.len() - 1, last)];
        Ladder {
            unit: unit_of(analysis.record),
            factors: sleepers.iter().map(ratio).collect(),
            steps: steps.iter().enumerate().map(step).collect(),
            others: others.map(|(_, one)| other(one)).collect(),
            slow: ends.iter().filter_map(|(index, one)| Slow::of(one, analysis, STEPS[*index].0)).collect(),
            sleepers,
        }
    }
}

/// Returns the settings other than n and those of the steps.
fn rest<'a>(study: &'a CaseStudy<'_>) -> Vec<(&'a str, &'a str)> {
    let is_other = |name: &str| name != "n" && !STEPS[0].1.iter().any(|(own, _)| *own == name);
    let settings = study.case.settings.iter().filter(|(name, _)| is_other(name));
    settings.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Returns the settings in which a case differs from another: "creation=vfork".
fn difference(study: &CaseStudy<'_>, other: &CaseStudy<'_>) -> String {
    let differs = |(name, value): &(&String, &String)| *name != "n" && other.case.settings.get(*name) != Some(value);
    let words = study.case.settings.iter().filter(differs).map(|(name, value)| format!("{name}={value}"));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the numbers of sleepers at which steps that reached `largest` are compared.
fn numbers(largest: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = AT.into_iter().filter(|n| f64::from(*n) * NEAR <= f64::from(largest)).collect();
    numbers.push(largest);
    numbers
}

/// Returns the results of `compare` for the values of the rounds that both have.
fn pairs(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>, compare: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    a.iter().filter_map(|(round, value)| Some(compare(*value, *b.get(round)?))).collect()
}

/// Returns the quantile of unsorted values; 0 if there are none.
fn at_share(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, share).unwrap_or(0.0)
}

fn median(values: &[f64]) -> f64 {
    at_share(values, 0.5)
}

fn mean(values: &BTreeMap<u32, f64>) -> Option<Estimate> {
    paired::mean(&values.values().copied().collect::<Vec<f64>>())
}

impl<'a> Passes<'a> {
    fn of(analysis: &'a Analysis<'_>, study: &'a CaseStudy<'a>) -> Option<Self> {
        let phase = study.phases.iter().find(|one| one.phase.name == PHASE)?;
        let passes = analysis.record.passes_of(study.case.case);
        let fact = |name: &str| {
            let of = |pass: &&Pass| match pass.end.as_ref()?.facts.get(name)? {
                Fact::Number { value, .. } => Some((pass.start.round, *value)),
                Fact::Text(_) => None,
            };
            passes.iter().filter_map(of).collect::<BTreeMap<u32, f64>>()
        };
        Some(Self { study, phase, without: fact("cycle_without_sleepers"), naive: fact("naive_without_sleepers") })
    }

    fn has(&self, settings: &[(&str, &str)]) -> bool {
        settings.iter().all(|(name, value)| self.study.case.settings.get(*name).is_some_and(|own| own == value))
    }

    /// Returns the median cost of the calls among about `n` sleepers, at most `largest`, by round. Only calls in
    /// windows without interference are used if there are enough.
    fn at(&self, n: u32, largest: u32) -> BTreeMap<u32, f64> {
        let (low, high) = (f64::from(n) / NEAR, (f64::from(n) * NEAR).min(f64::from(largest)));
        let passes = self.phase.rounds.iter().zip(&self.phase.curve.passes);
        let near = passes.map(|(round, pass)| {
            let calls = (0..pass.n.len()).filter(|call| (low..=high).contains(&f64::from(pass.n[*call])));
            let (clean, other): (Vec<usize>, Vec<usize>) = calls.partition(|call| pass.clean[*call]);
            let chosen = if clean.len() < CLEAN_MIN { [clean, other].concat() } else { clean };
            (*round, chosen.into_iter().map(|call| pass.costs[call] as f64).collect::<Vec<f64>>())
        });
        near.filter(|(_, costs)| !costs.is_empty()).map(|(round, costs)| (round, median(&costs))).collect()
    }

    /// Returns the cost without sleepers over that of the naive test. Both were measured in the same seconds, so that
    /// other disturbances of the machine affect neither.
    fn without_ratio(&self, first: &Self) -> Option<Estimate> {
        let of = if self.naive.is_empty() { &first.without } else { &self.naive };
        paired::geometric_mean(&pairs(&self.without, of, |own, naive| own / naive))
    }

    /// Returns the cost without sleepers, scaled by that of the naive test in some passes.
    fn without(&self, first: &Self, naive: &[f64]) -> Option<Estimate> {
        if naive.is_empty() {
            return mean(&self.without);
        }
        self.without_ratio(first).map(|ratio| ratio.map(|ratio| ratio * median(naive)))
    }

    fn step(&self, name: String, first: &Self, before: Option<&Self>, sleepers: &[u32]) -> Step {
        let largest = sleepers.last().copied().unwrap_or(u32::MAX);
        let removed = |n: &u32| {
            let pairs = pairs(&before?.at(*n, largest), &self.at(*n, largest), |before, own| before - own);
            paired::mean(&pairs)
        };
        Step {
            name,
            case: self.study.case.label.clone(),
            without: self.without(first, &self.naive.values().copied().collect::<Vec<f64>>()),
            without_ratio: self.without_ratio(first),
            costs: sleepers.iter().map(|n| mean(&self.at(*n, largest))).collect(),
            removed: sleepers.iter().map(removed).collect(),
        }
    }
}

/// Returns the 90th percentile of the calls over their median, in twenty bins of the sleepers. n is the middle of a
/// bin.
pub(crate) fn spread(phase: &PhaseStudy<'_>) -> Vec<(f64, f64)> {
    const BINS: usize = 20;
    let passes = || &phase.curve.passes;
    let largest = passes().iter().flat_map(|pass| pass.n.iter().copied()).max().unwrap_or(1);
    let mut bins = vec![Vec::new(); BINS];
    for pass in passes() {
        for (n, cost) in pass.n.iter().zip(&pass.costs) {
            let bin = (*n as usize - 1) * BINS / largest as usize;
            bins[bin.min(BINS - 1)].push(*cost as f64);
        }
    }
    let width = f64::from(largest) / BINS as f64;
    let ratio =
        |(bin, costs): (usize, &Vec<f64>)| ((bin as f64 + 0.5) * width, at_share(costs, 0.9) / median(costs).max(1.0));
    bins.iter().enumerate().filter(|(_, costs)| !costs.is_empty()).map(ratio).collect()
}

/// Returns how far a ratio is from 1.
fn off(ratio: Estimate) -> f64 {
    (ratio.value - 1.0).abs()
}

/// Returns whether an estimate is from at least two passes.
fn has_interval(estimate: Estimate) -> bool {
    estimate.low.is_finite() && estimate.high.is_finite()
}

/// Formats an estimate with its interval, if it has one.
fn cell(estimate: Estimate, write: impl Fn(f64) -> String) -> String {
    let value = write(estimate.value);
    let interval = if has_interval(estimate) { Ladder::interval(estimate, write) } else { String::new() };
    format!("{value}{interval}")
}

impl Ladder {
    /// Returns the step that removes most among the largest number of sleepers; `None` if its interval contains zero,
    /// which is always so for a single pass.
    pub(crate) fn largest_step(&self) -> Option<(&Step, Estimate)> {
        self.largest_removal().filter(|(_, removed)| removed.low > 0.0)
    }

    /// Returns the step that removes most, regardless of its uncertainty.
    fn largest_removal(&self) -> Option<(&Step, Estimate)> {
        let steps = self.steps.iter().skip(1).filter_map(|step| Some((step, step.removed.last().copied().flatten()?)));
        steps.max_by(|a, b| a.1.value.total_cmp(&b.1.value))
    }

    /// Returns the cost that the largest number of sleepers adds to the naive test.
    pub(crate) fn added(&self) -> Option<f64> {
        let naive = self.steps.first()?;
        let among_most = naive.costs.last().copied().flatten()?;
        Some(among_most.value - naive.without?.value).filter(|added| *added > 0.0)
    }

    /// Describes the ladder in sentences: the factor, what each step removes, and whether the steps agree without
    /// sleepers.
    pub fn sentences(&self) -> Vec<String> {
        let mut text = Vec::new();
        for (n, ratio) in self.sleepers.iter().zip(&self.factors) {
            let Some(ratio) = ratio else { continue };
            text.push(format!(
                "Among {} sleepers the naive test costs {} times as much as the sound one{}.",
                count(f64::from(*n)),
                digits(ratio.value),
                Self::interval(*ratio, digits)
            ));
        }
        for step in self.steps.iter().skip(1) {
            text.extend(self.removal(step));
        }
        text.extend(self.agreement());
        text
    }

    /// Describes what a step removes among the largest number of sleepers.
    pub(crate) fn removal(&self, step: &Step) -> Option<String> {
        let n = count(f64::from(*self.sleepers.last()?));
        let removed = step.removed.last().copied().flatten()?;
        let (cost, name) = (|value: f64| self.unit.cost(value), &step.name);
        if has_interval(removed) && removed.holds(0.0) {
            let most = cost(removed.high.abs().max(removed.low.abs()));
            return Some(format!("Among {n}, the step \"{name}\" shows no change: {most} at most."));
        }
        let (verb, shown) =
            if removed.value < 0.0 { ("adds", removed.map(|value| -value)) } else { ("removes", removed) };
        let interval = Self::interval(shown, |value| self.unit.bare(value));
        Some(format!("Among {n}, the step \"{name}\" {verb} {}{interval}.", cost(shown.value)))
    }

    /// Returns the step that removes most among the largest number of sleepers, if its interval is above that of every
    /// other step.
    fn clearly_largest(&self) -> Option<&Step> {
        let (largest, removed) = self.largest_step()?;
        let others = self.steps.iter().skip(1).filter(|step| step.name != largest.name);
        let mut others = others.filter_map(|step| step.removed.last().copied().flatten());
        others.all(|other| other.high < removed.low).then_some(largest)
    }

    /// Returns, for the step that differs most from the first one without sleepers, the ratio of its cost to that of
    /// the first.
    fn most_apart(&self) -> Option<Estimate> {
        let ratios = self.steps.iter().skip(1).filter_map(|step| step.without_ratio);
        ratios.max_by(|a, b| off(*a).total_cmp(&off(*b)))
    }

    /// Describes whether the steps cost the same without sleepers.
    pub(crate) fn agreement(&self) -> Option<String> {
        let (most, cost) = (self.most_apart()?, self.steps.first()?.without?);
        Some(format!(
            "Without sleepers all steps {} {}%: the naive test costs {}, and the step that differs most {} \
             of that{}.",
            if off(most) <= AGREE { "agree within" } else { "differ by up to" },
            digits(100.0 * off(most)),
            self.unit.cost(cost.value),
            factor(most.value),
            Self::interval(most, digits)
        ))
    }

    /// Describes by how much the steps differ without sleepers, if they do. That amount of what a step removes is not
    /// due to the sleepers.
    fn disagreement(&self) -> Option<String> {
        let (most, cost) = (self.most_apart()?, self.steps.first()?.without?.value);
        let amount = self.unit.cost(off(most) * cost);
        (off(most) > AGREE).then(|| {
            let share = digits(100.0 * off(most));
            format!(
                "its steps differ by up to {amount} ({share}%) without sleepers, so up to that much of what a step \
                 removes or adds may be unrelated to sleepers"
            )
        })
    }

    /// Returns " (3.5–3.7)", nothing if all passes are equal, or a note that one pass has no interval.
    fn interval(estimate: Estimate, write: impl Fn(f64) -> String) -> String {
        if !has_interval(estimate) {
            return " (one pass: no interval)".to_owned();
        }
        if estimate.low >= estimate.high {
            return String::new();
        }
        let to = if estimate.low < 0.0 { " to " } else { "–" };
        format!(" ({}{to}{})", write(estimate.low), write(estimate.high))
    }
}

/// Lays the ladder out for a terminal.
pub fn render(ladder: &Ladder, layout: Layout) -> String {
    let mut head = vec!["Step".to_owned(), "without".to_owned()];
    head.extend(ladder.sleepers.iter().map(|n| format!("at {}", count(f64::from(*n)))));
    head.push("removes".to_owned());
    let cells = |step: &Step| ladder.cells(step).iter().map(|cell| plain(cell)).collect();
    let rows: Vec<Vec<String>> = ladder.steps.iter().chain(&ladder.others).map(cells).collect();
    let mut widths = needed(rows.iter().chain([&head]).map(|cells| &cells[..]));
    let others = used(&widths) - widths[0];
    widths[0] = widths[0].min(usize::from(layout.width).saturating_sub(others).max(20));
    let mut text = vec![bold("Confounder ladder (cycle)", layout), bold(&line(&head, &widths), layout)];
    text.push(rule(&widths, layout));
    for (index, cells) in rows.iter().enumerate() {
        if index == ladder.steps.len() {
            text.push(rule(&widths, layout));
        }
        text.push(line(cells, &widths));
    }
    let slow = ladder.slow.iter().map(|slow| format!("\n\n{}", wrapped(&slow.sentence(), layout)));
    format!("{}\n\n{}{}", text.join("\n"), wrapped(&ladder.sentences().join(" "), layout), slow.collect::<String>())
}

impl Ladder {
    /// Returns the cells of a step: name, costs without sleepers and among them, and what it removes among the largest
    /// number.
    pub(crate) fn cells(&self, step: &Step) -> Vec<String> {
        let cost = |one: &Option<Estimate>| one.map_or("–".to_owned(), |one| self.unit.bare(one.value));
        let mut cells = vec![step.name.clone(), cost(&step.without)];
        cells.extend(step.costs.iter().map(cost));
        let removed = step.removed.last().copied().flatten();
        cells.push(removed.map_or(String::new(), |one| cell(one, |value| self.unit.bare(value))));
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_record::Record;
    use landau_record::schema::{Direction, Window};

    const SETTINGS: [(&str, &str, &str); 5] = [
        ("timer", "any", "shared"),
        ("timer", "pid", "shared"),
        ("helper", "pid", "shared"),
        ("helper", "pid", "executed"),
        ("helper", "any", "shared"),
    ];

    /// Calls that cost three times as much: one in twenty of the last fifth.
    pub(super) const SLOW_CALLS: std::ops::Range<u32> = 1_710..1_730;

    /// Windows of 100 calls. In the last fifth, one window has a switch and a major page fault. In the next one, which
    /// has the slow calls, the canary is slow. The one after it reads time stolen in it or in the window before, and
    /// has no canary call. The last has no tag.
    fn windows() -> Vec<Window> {
        let canary = |index| match index {
            17 => vec![130],
            18 => Vec::new(),
            _ => vec![100, 101],
        };
        let window = |index: u32| Window {
            pass: 0,
            direction: Direction::Up,
            first: 1 + 100 * index,
            count: 100,
            until_us: 0,
            preempted: u32::from(index == 16),
            faults: [0, u32::from(index == 16)],
            processor: 0,
            steal_ms: if index == 18 { 10 } else { 0 },
            steal_windows: (index == 18).then_some(2),
            others_preempted: None,
            others_faults: None,
            calls: None,
            canary: landau_record::schema::Canary::Ns(canary(index)),
        };
        (0..20).map(window).collect()
    }

    fn end(pass: u32, without_ns: f64) -> landau_record::schema::PassEnd {
        let mut facts = landau_record::schema::Facts::new();
        facts.number("cycle_without_sleepers", without_ns, landau_record::schema::FactUnit::Ns);
        landau_record::schema::PassEnd {
            pass,
            outcome: landau_record::schema::Outcome::Done,
            steps: 2_000,
            elapsed_ms: 0,
            limit: None,
            error: None,
            facts,
        }
    }

    /// A record in which the naive test costs 100 ns more for each sleeper, and one of its steps removes that. Without
    /// sleepers, each step costs more than the one before, by the share `off` of 50 µs.
    pub(super) fn record(removing: usize, off: f64) -> Record {
        let mut record = Record::default();
        for (number, (parent, wait, image)) in (0..).zip(SETTINGS) {
            let settings = [("parent", parent), ("wait", wait), ("image", image), ("n", "2000")];
            let grows = (number as usize) < removing;
            record.cases.push(landau_record::schema::Case {
                case: number,
                benchmark: BENCHMARK.to_owned(),
                label: format!("spawn {number}"),
                phases: vec![landau_record::schema::Phase {
                    name: PHASE.to_owned(),
                    direction: Direction::Up,
                    about: String::new(),
                }],
                settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                n: 2_000,
                about: String::new(),
                axis: String::new(),
                caveats: Vec::new(),
                source: String::new(),
                settings_about: BTreeMap::new(),
                reduced: None,
                annotations: Vec::new(),
                timeline: None,
                replay: None,
            });
            // The naive test has a round that the others lack, and the machine becomes slower over time.
            for round in (0..4).filter(|round| number == 0 || *round != 1) {
                let noise = 100 * u64::from((3 * number + (5 + number) * round) % 7) + 3_000 * u64::from(round);
                let cost = |n: u32| {
                    let base = 100_000 + noise + if grows { 100 * u64::from(n) } else { 0 };
                    base * if SLOW_CALLS.contains(&n) { 3 } else { 1 }
                };
                let lane = landau_record::Series { n: (1..=2_000).collect(), costs: (1..=2_000).map(cost).collect() };
                record.passes.push(Pass {
                    start: landau_record::schema::PassStart {
                        pass: 10 * number + round,
                        case: number,
                        round,
                        at_ms: 0,
                        adaptive_for: Vec::new(),
                    },
                    series: BTreeMap::from([(PHASE.to_owned(), lane)]),
                    windows: windows(),
                    end: Some(end(10 * number + round, 50_000.0 * (1.0 + off * f64::from(number)))),
                });
            }
        }
        record
    }

    #[test]
    fn the_step_that_removes_the_growth_is_named() {
        for removing in [1, 2, 3] {
            let record = record(removing, 0.01);
            let ladder = of(&Analysis::of(&record)).unwrap();
            assert_eq!(ladder.sleepers, [1_000, 2_000]);
            let (step, removed) = ladder.largest_step().unwrap();
            assert_eq!(step.name, STEPS[removing].0);
            // Calls among 1,905 to 2,000 sleepers: 195 µs more in the middle.
            assert!((removed.value - 195_200.0).abs() < 1_000.0, "{removed:?}");
            let factor = ladder.factors[1].unwrap();
            assert!((factor.value - 2.86).abs() < 0.05 && factor.low <= factor.value, "{factor:?}");
            assert_eq!(ladder.others.len(), 1);
            assert!(removed.low < removed.value && removed.value < removed.high, "{removed:?}");
            let text = ladder.sentences().join(" ");
            assert!(text.contains(&format!("the step \"{}\" removes 195 µs", STEPS[removing].0)), "{text}");
        }
    }

    /// The machine is slower by a third in some passes, which affects both tests of a pass.
    #[test]
    fn steps_are_compared_without_sleepers_in_the_same_pass() {
        let mut record = record(1, 0.0);
        for (index, pass) in record.passes.iter_mut().enumerate() {
            let machine = if index % 3 == 0 { 1.33 } else { 1.0 };
            let facts = &mut pass.end.as_mut().unwrap().facts;
            let off = if pass.start.case == 2 { 1.02 } else { 1.0 };
            facts.number("cycle_without_sleepers", 50_000.0 * machine * off, landau_record::schema::FactUnit::Ns);
            facts.number("naive_without_sleepers", 50_000.0 * machine, landau_record::schema::FactUnit::Ns);
        }
        let ladder = of(&Analysis::of(&record)).unwrap();
        let text = ladder.agreement().unwrap();
        assert!(text.contains("all steps agree within 2%: the naive test costs 50"), "{text}");
        let without: Vec<f64> = ladder.steps.iter().map(|step| step.without.unwrap().value).collect();
        for (cost, expected) in without.iter().zip([50_000.0, 50_000.0, 51_000.0, 50_000.0]) {
            assert!((cost - expected).abs() < 1.0, "{without:?}");
        }
    }

    /// Guards against "agree within 40%".
    #[test]
    fn steps_that_differ_without_sleepers_do_not_agree() {
        for (off, words) in [(0.01, "all steps agree within 3%: the naive test costs 50"), (0.1, "differ by up to 30%")]
        {
            let record = record(1, off);
            let text = of(&Analysis::of(&record)).unwrap().agreement().unwrap();
            assert!(text.contains(words), "{text}");
        }
    }

    /// Guards against an interval around zero that is printed without its sign: −2 to 8 is not 2–8.
    #[test]
    fn a_step_changes_something_only_if_its_interval_lacks_zero() {
        let record = record(1, 0.01);
        let mut ladder = of(&Analysis::of(&record)).unwrap();
        ladder.unit = Unit::Instructions;
        let mut words = |value: f64, low: f64, high: f64| {
            ladder.steps[1].removed = vec![Some(Estimate { value, low, high })];
            ladder.removal(&ladder.steps[1]).unwrap()
        };
        assert!(words(3.0, -2.0, 8.0).contains("shows no change") && words(3.0, -2.0, 8.0).contains('8'));
        let removes = words(30.0, 20.0, 40.0);
        assert!(removes.contains("removes 30") && removes.contains("(20–40)"), "{removes}");
        let adds = words(-30.0, -41.0, -20.0);
        assert!(adds.contains("adds 30") && adds.contains("(20–41)"), "{adds}");
    }

    #[test]
    fn one_pass_is_not_taken_for_certain() {
        let mut record = record(1, 0.01);
        record.passes.retain(|pass| pass.start.round == 0);
        let ladder = of(&Analysis::of(&record)).unwrap();
        assert_eq!(ladder.largest_step(), None);
        let text = ladder.sentences();
        assert_eq!(text.len(), 2 + 3 + 1, "{text:?}");
        assert!(text.iter().all(|sentence| sentence.contains("(one pass: no interval)")), "{text:?}");
    }

    /// Among 1,905 to 2,000 sleepers most calls cost ten times as much, in a window with a context switch. They are
    /// used only if too few others are left.
    #[test]
    fn disturbed_calls_do_not_count_among_enough_others() {
        for (disturbed, expected) in [(1_901_u32..=1_960, 105_000.0), (1_901..=1_990, 1_050_000.0)] {
            let mut record = record(1, 0.01);
            for pass in record.passes.iter_mut().filter(|pass| pass.start.case == 3) {
                let last = pass.windows.pop().unwrap();
                let count = disturbed.clone().count() as u32;
                pass.windows.push(Window { count, preempted: 1, ..last.clone() });
                pass.windows.push(Window { first: last.first + count, count: last.count - count, ..last });
                let lane = pass.series.get_mut(PHASE).unwrap();
                let costs = lane.costs.iter_mut().zip(&lane.n).filter(|(_, n)| disturbed.contains(*n));
                costs.for_each(|(cost, _)| *cost *= 10);
            }
            let cost = of(&Analysis::of(&record)).unwrap().steps[3].costs[1].unwrap().value;
            assert!((cost / expected - 1.0).abs() < 0.01, "{disturbed:?}: {cost}");
        }
    }

    #[test]
    fn a_record_that_lacks_a_step_has_no_ladder() {
        let mut record = record(1, 0.01);
        record.passes.retain(|pass| pass.start.case != 2);
        assert_eq!(of(&Analysis::of(&record)), None);
    }
}
