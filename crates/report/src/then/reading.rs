//! The curves of a replayed test: an author's samples, the corrected method's verdict, and the conclusions from both.

use super::Change;
use crate::analysis::curve_of;
use crate::quantity::{FormatCost, Unit, count, digits, factor};
use crate::{Analysis, CaseStudy, PhaseStudy, text};
use landau_record::schema::{Case, Fact};
use landau_stats::by_eye::{ByEye, Reading, SEEN};
use landau_stats::quantile::{median, quantile};
use landau_stats::{Class, Cliff, Curve, Estimate, Options, Outcome, Pass, paired};
use std::collections::BTreeMap;

/// Settings that a case must have.
pub(super) type Settings = &'static [(&'static str, &'static str)];

/// Settings that determine the size of a case.
const SIZES: [&str; 2] = ["n", "until"];

/// Calls within this factor of an n are counted there.
const NEAR: f64 = 1.05;

/// Number of samples that a figure shows of each author's case. More would enlarge the page without making the plot
/// clearer.
const SHOWN: usize = 1_500;

fn has(case: &Case, benchmark: &str, settings: Settings) -> bool {
    let is_set = |(name, value): &(&str, &str)| case.settings.get(*name).is_some_and(|own| own == value);
    case.benchmark == benchmark && settings.iter().all(is_set)
}

/// A phase of an author's case, with its samples.
pub(super) struct Author<'r> {
    pub(super) case: &'r Case,
    pub(super) curve: Curve,
    record: &'r landau_record::Record,
}

impl<'r> Author<'r> {
    /// Returns the samples of a phase of a study's case with these settings, if the record has any.
    pub(super) fn find(
        analysis: &Analysis<'r>,
        study: &str,
        (benchmark, settings): (&str, Settings),
        phase: &str,
    ) -> Option<Self> {
        let record = analysis.record;
        let is_it = |case: &&Case| {
            has(case, benchmark, settings) && case.replay.as_ref().is_some_and(|replay| replay.study == study)
        };
        let case = record.cases.iter().find(is_it)?;
        let (curve, _) = curve_of(record, case, case.phases.iter().find(|one| one.name == phase)?);
        (!curve.passes.is_empty()).then_some(Self { case, curve, record })
    }

    /// Returns a numeric fact of each run.
    pub(super) fn facts(&self, name: &str) -> Vec<f64> {
        facts_of(self.record, self.case, name).into_values().collect()
    }

    /// Returns the largest n of its plot.
    fn largest_n(&self) -> Option<f64> {
        self.curve.passes.iter().filter_map(largest_n).max_by(f64::total_cmp)
    }

    /// Returns the samples that a figure shows, the same number from each run.
    pub(super) fn samples(&self) -> Vec<(f64, f64)> {
        let of_each = SHOWN / self.curve.passes.len().max(1);
        let of = |pass: &Pass| {
            let stride = (pass.costs.len() / of_each.max(1)).max(1);
            // The last call is included, because an axis ends where its run did.
            let calls = || pass.n.iter().zip(&pass.costs);
            let last = calls().next_back().filter(|_| stride > 1);
            calls().step_by(stride).chain(last).map(|(n, cost)| (f64::from(*n), *cost as f64)).collect::<Vec<_>>()
        };
        self.curve.passes.iter().flat_map(of).collect()
    }
}

/// Returns a numeric fact of each pass of a case, by round.
pub(super) fn facts_of(record: &landau_record::Record, case: &Case, name: &str) -> BTreeMap<u32, f64> {
    let fact = |pass: &&landau_record::Pass| match pass.end.as_ref()?.facts.get(name)? {
        Fact::Number { value, .. } => Some((pass.start.round, *value)),
        Fact::Text(_) => None,
    };
    record.passes_of(case.case).iter().filter_map(fact).collect()
}

/// Returns a case of the corrected method, if the record has it.
pub(super) fn judged<'a>(
    analysis: &'a Analysis<'_>,
    (benchmark, settings): (&str, Settings),
) -> Option<&'a CaseStudy<'a>> {
    analysis.cases.iter().find(|study| has(study.case, benchmark, settings))
}

/// Returns a phase of a case.
pub(super) fn phase<'a>(study: &'a CaseStudy<'a>, name: &str) -> Option<&'a PhaseStudy<'a>> {
    study.phases.iter().find(|one| one.phase.name == name)
}

/// Returns why an author's case and one of the corrected method cannot be compared: they differ in a setting that both
/// have, or the corrected case ends before the author's plot. The sizes may otherwise differ, and so may the settings
/// that are the correction.
pub(super) fn mismatch(
    author: &Author<'_>,
    study: &CaseStudy<'_>,
    own: &PhaseStudy<'_>,
    correction: &[&str],
) -> Option<String> {
    let may_differ = |name: &str| SIZES.contains(&name) || correction.contains(&name);
    let differs = |(name, value): (&String, &String)| {
        let other = study.case.settings.get(name).filter(|other| *other != value && !may_differ(name))?;
        Some(format!("the author's case has {name}={value}, the corrected case {name}={other}"))
    };
    author.case.settings.iter().find_map(differs).or_else(|| {
        let mut ends: Vec<f64> = own.curve.passes.iter().filter_map(largest_n).collect();
        ends.sort_by(f64::total_cmp);
        let (end, plot) = (quantile(&ends, 0.5)?, author.largest_n()?);
        let is_shorter = end * NEAR < plot;
        is_shorter
            .then(|| format!("the corrected case ends at n = {}, the author's plot at n = {}", count(end), count(plot)))
    })
}

fn largest_n(pass: &Pass) -> Option<f64> {
    pass.n.iter().copied().max().map(f64::from)
}

/// The answer of the corrected method to "does it scale?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Constant,
    Grows,
    /// Growth by at most δ on the study's axis, and by more beyond it.
    Beyond,
    /// A cliff on the study's axis.
    Cliff,
    Falls,
    Varies,
    Open,
}

impl Answer {
    /// Returns the answer for an axis that ends at `own_n`. With a cliff beyond it, this is the answer below the cliff.
    pub(super) fn of(phase: &PhaseStudy<'_>, own_n: f64) -> Self {
        match (phase.verdict.class(), &phase.verdict.all.outcome) {
            (Class::Limit, _) if cliff_beyond(phase, own_n).is_none() => Self::Cliff,
            (_, Outcome::Flat { .. } | Outcome::Small) => Self::Constant,
            (_, Outcome::Grows { .. }) if is_beyond(phase, own_n) => Self::Beyond,
            (_, Outcome::Grows { .. }) => Self::Grows,
            (_, Outcome::Falls) => Self::Falls,
            (_, Outcome::Varies) => Self::Varies,
            (_, Outcome::Unresolved { .. }) => Self::Open,
        }
    }

    /// Returns whether the reading by eye gives the same answer.
    pub(super) fn agrees(self, reading: Reading) -> bool {
        matches!(
            (self, reading),
            (Self::Constant | Self::Beyond, Reading::Constant)
                | (Self::Grows | Self::Cliff, Reading::Grows)
                | (Self::Falls, Reading::Falls)
        )
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Constant => "O(1)",
            Self::Grows => "growth",
            Self::Beyond => "O(1) to the end of the study's axis",
            Self::Cliff => "a cliff",
            Self::Falls => "a falling cost",
            Self::Varies => "a cost that varies",
            Self::Open => "no answer",
        }
    }
}

/// Returns the first cliff, if it is beyond the end of an axis.
pub(super) fn cliff_beyond<'a>(phase: &'a PhaseStudy<'_>, own_n: f64) -> Option<&'a Cliff> {
    phase.verdict.all.cliffs.first().filter(|cliff| cliff.n.value > own_n)
}

/// Returns the reading by eye, in words.
pub(super) fn seen(reading: Reading) -> &'static str {
    match reading {
        Reading::Constant => "O(1)",
        Reading::Grows => "growth",
        Reading::Falls => "a falling cost",
    }
}

/// Returns the change between the reading by eye and the verdict.
pub(super) fn change(seen: Reading, answer: Answer) -> Change {
    match answer {
        Answer::Open => Change::Open,
        answer if answer.agrees(seen) => Change::Stays,
        _ => Change::Changes,
    }
}

/// Describes the plot.
pub(super) fn plot(name: &str, by_eye: &ByEye, unit: Unit, clock: &str) -> String {
    format!(
        "{name}: {}, every sample plotted to n = {}{clock}. The band is at {} at the left end of the axis and at {} at \
         the right end: {}.",
        if by_eye.runs == 1 { "one run".to_owned() } else { format!("{} runs", by_eye.runs) },
        count(f64::from(by_eye.largest_n)),
        unit.cost(by_eye.left),
        unit.cost(by_eye.right),
        seen(by_eye.reading)
    )
}

/// Describes the verdict on a phase.
pub(super) fn verdict(name: &str, phase: &PhaseStudy<'_>) -> String {
    let passes = phase.verdict.passes;
    let outliers = match text::recurring(&phase.verdict) {
        none if none.is_empty() => String::new(),
        some => format!(" Outliers: {}.", some.trim_end_matches('.')),
    };
    let mut sentence = text::sentence(&phase.verdict.all);
    if !sentence.ends_with('.') {
        sentence.push('.');
    }
    let of = if passes == 1 { "1 pass".to_owned() } else { format!("{passes} passes") };
    format!("{name}: {of}. {}{outliers}", capitalized(&sentence))
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Returns the reasons why the reading by eye and the verdict agree or not.
pub(super) fn reasons(by_eye: &ByEye, phase: &PhaseStudy<'_>) -> Vec<String> {
    let judged = &phase.verdict.all;
    let own_n = f64::from(by_eye.largest_n);
    let beyond = cliff_beyond(phase, own_n);
    let mut why = Vec::new();
    if let Some(cliff) = beyond {
        let name = cliff.annotation.as_ref().map_or(String::new(), |name| format!(" ({name})"));
        why.push(format!(
            "The axis of the study ends at n = {}. The cliff is beyond it, at n = {}{name}: there a call costs {} of \
             one at small n.",
            count(own_n),
            count(cliff.n.value),
            factor(cliff.factor_over_start)
        ));
    } else if let Some(cliff) = judged.cliffs.first() {
        why.push(format!("The cliff at n = {} is within the axis of the study.", count(cliff.n.value)));
    }
    let answer = Answer::of(phase, own_n);
    let growth = judged.growth.map(|one| text::growth_text(one, judged.unit == Unit::Instructions));
    match (by_eye.reading, answer, growth) {
        (Reading::Constant, Answer::Grows | Answer::Varies, Some(growth)) => {
            why.push(format!("A rise of the band is visible only above {}, and the growth is {growth}.", factor(SEEN)));
            why.extend(at_own_n(own_n, phase));
        }
        (Reading::Grows | Reading::Falls, Answer::Constant, Some(growth)) => why.push(format!(
            "The ends of the plot differ by {}. The corrected method compares within each pass and leaves out the \
             first calls{}; its growth is {growth}.",
            factor((by_eye.right / by_eye.left).max(by_eye.left / by_eye.right)),
            judged.range.map_or(String::new(), |range| format!(" (it judges from n = {})", count(range.0)))
        )),
        (Reading::Grows, Answer::Grows, Some(growth)) => {
            why.push(format!("Both see it; the corrected method adds the law and the growth {growth}."));
            why.extend(at_own_n(own_n, phase));
        }
        (_, Answer::Beyond, Some(growth)) => {
            why.push(format!(
                "The corrected method measures further, and the growth {growth} is beyond the study's axis."
            ));
            why.extend(at_own_n(own_n, phase));
        }
        (Reading::Constant, Answer::Constant, Some(growth)) => {
            why.push(format!("The corrected method adds the uncertainty: growth {growth}."));
        }
        _ => {}
    }
    why
}

/// Describes how much of the growth is within the axis of the study, if the corrected method went further.
fn at_own_n(own_n: f64, phase: &PhaseStudy<'_>) -> Option<String> {
    let (n, ratio) = within(own_n, phase)?;
    Some(format!("To the end of the study's axis, n = {}, it is {}; the rest is beyond it.", count(n), factor(ratio)))
}

/// Returns whether growth within the axis of the study is at most δ, by the cost at its last point.
fn is_beyond(phase: &PhaseStudy<'_>, own_n: f64) -> bool {
    within(own_n, phase).is_some_and(|(_, ratio)| ratio <= 1.0 + Options::default().delta)
}

/// Returns the last judged n on the axis of the study, and its cost relative to the start, if the corrected method went
/// further.
fn within(own_n: f64, phase: &PhaseStudy<'_>) -> Option<(f64, f64)> {
    let judged = &phase.verdict.all;
    let (start, range) = (judged.start?, judged.range?);
    let point = judged.points.iter().rfind(|point| point.judged && point.n <= own_n)?;
    (range.1 >= NEAR * own_n).then_some((point.n, point.cost.value / start.value))
}

/// Returns the median cost of a pass's calls with an n in this range.
fn median_in(pass: &Pass, from: f64, to: f64) -> Option<f64> {
    let calls = pass.n.iter().zip(&pass.costs).filter(|(n, _)| (from..=to).contains(&f64::from(**n)));
    median(calls.map(|(_, cost)| *cost as f64))
}

/// Returns the median cost of a pass's calls within 5% of an n.
pub(super) fn median_near(pass: &Pass, n: f64) -> Option<f64> {
    median_in(pass, n / NEAR, n * NEAR)
}

/// Returns the mean cost of a pass's calls within 5% of an n, as reported by a program that times many calls at once.
pub(super) fn mean_near(pass: &Pass, n: f64) -> Option<f64> {
    let is_near = |own: u32| (n / NEAR..=n * NEAR).contains(&f64::from(own));
    let costs = pass.n.iter().zip(&pass.costs).filter(|(own, _)| is_near(**own)).map(|(_, cost)| *cost as f64);
    let costs: Vec<f64> = costs.collect();
    (!costs.is_empty()).then(|| costs.iter().sum::<f64>() / costs.len() as f64)
}

/// Returns the median cost of the calls in the last tenth of the axis, by round.
pub(super) fn at_end(phase: &PhaseStudy<'_>) -> BTreeMap<u32, f64> {
    let passes = phase.rounds.iter().zip(&phase.curve.passes);
    let end = |(round, pass): (&u32, &Pass)| Some((*round, last_tenth(pass)?));
    passes.filter_map(end).collect()
}

/// Returns the median cost of a pass's calls in the last tenth of the axis.
pub(super) fn last_tenth(pass: &Pass) -> Option<f64> {
    let largest = largest_n(pass)?;
    median_in(pass, 0.9 * largest, largest)
}

/// Returns the ratio of two costs from the same rounds, as the geometric mean with its 95% interval.
pub(super) fn ratio(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> Option<Estimate> {
    let ratios: Vec<f64> = a.iter().filter_map(|(round, cost)| Some(cost / b.get(round)?)).collect();
    paired::geometric_mean(&ratios)
}

/// Formats a ratio with its interval, if it has one: "×0.62 (0.60–0.64)".
pub(super) fn ratio_text(ratio: Estimate) -> String {
    let value = factor(ratio.value);
    if ratio.low > 0.0 && ratio.high.is_finite() {
        format!("{value} ({}–{})", digits(ratio.low), digits(ratio.high))
    } else {
        format!("{value} (one pass: no interval)")
    }
}

/// Returns the points of a phase.
pub(super) fn points(phase: &PhaseStudy<'_>) -> Vec<(f64, f64)> {
    phase.verdict.all.points.iter().map(|point| (point.n, point.cost.value)).collect()
}

/// Returns a sentence that a part of a record is absent, with the record's reason.
pub(super) fn absent(analysis: &Analysis<'_>, benchmark: &str) -> String {
    let record = analysis.record;
    let is_of = |label: &str| label.split(' ').next() == Some(benchmark);
    if let Some(skip) = record.skips.iter().find(|skip| is_of(&skip.label)) {
        return format!("Not measured: {}.", skip.reason);
    }
    let is_own =
        |pass: &&landau_record::Pass| record.case(pass.start.case).is_some_and(|case| case.benchmark == benchmark);
    let error = record.passes.iter().filter(is_own).find_map(|pass| pass.end.as_ref()?.error.as_deref());
    if let Some(error) = error {
        return format!("Not measured: {error}.");
    }
    if record.cases.iter().any(|case| case.benchmark == benchmark) {
        return "Not measured in this run.".to_owned();
    }
    format!("Not measured in this run; `landau run {benchmark} --study then` measures it.")
}
