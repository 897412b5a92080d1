//! Comparisons between records: each phase of each case of the first record with the same phase in every other record,
//! and from each record to the next. Within one record, each variant of a benchmark is compared with its default case.
//!
//! The first record is the base. Passes are paired by round if they ran side by side. This always holds for the cases
//! of one record, and for two records only if they are the sides of one run or their rounds alternated. Otherwise the
//! variation between runs, which depends on the benchmark, is added, and so is the shift between the two records. All
//! comparisons of one report are corrected together for their number (Holm). Laws and costs are those of the verdicts
//! that the report shows.

use crate::shifts::Shift;
use crate::{Analysis, CaseStudy, PhaseStudy, between_runs, ends, text, unit_of};
use landau_record::Record;
use landau_stats::quantile::median;
use landau_stats::{Change, Comparison, Curve, Estimate, Options, compare_judged, holm};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::FRAC_1_SQRT_2;

/// Every comparison of a report.
#[derive(Debug, Default)]
pub struct Comparisons {
    /// Comparisons with the first record: in the order of the base's cases and phases, then of the other records.
    pub all: Vec<PhaseComparison>,
    /// From each later record to the next one that has the curve. The step from the first record is in `all`.
    pub later_steps: Vec<PhaseComparison>,
    /// Where the curves of two records of one system differ beyond the known variation of their benchmarks.
    pub shifts: Vec<Shift>,
}

/// One phase of one case in two records.
#[derive(Debug)]
pub struct PhaseComparison {
    /// The case's label, the same in both.
    pub label: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// The phase.
    pub phase: String,
    /// The index of the base record.
    pub base: usize,
    /// The index of the other record.
    pub other: usize,
    /// Whether passes were paired by round.
    pub paired: bool,
    /// The comparison; its ratios are `other` over `base`.
    pub comparison: Comparison,
}

/// A ratio of costs as all reports state it, and where it holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shown {
    /// The cost of the other over that of the base, 95%.
    pub ratio: Estimate,
    /// The largest n, at which the costs are stated. Absent if the ratio is the mean over the common range of n,
    /// because the curves end at different n or at a cliff, or because the difference is not the one at the largest n.
    pub n: Option<f64>,
    /// Whether the costs at the largest n differ in the opposite direction, so that neither side is simply cheaper.
    pub is_opposite: bool,
}

impl Shown {
    /// Returns the certain part of the ratio: the absolute logarithm at the end of the interval that is nearer to 1;
    /// negative if the interval contains 1.
    pub fn certain(&self) -> f64 {
        if self.ratio.value > 1.0 { self.ratio.low.max(1e-9).ln() } else { -self.ratio.high.max(1e-9).ln() }
    }
}

/// Returns the ratio of a comparison as reports state it.
pub fn shown(comparison: &Comparison) -> Option<Shown> {
    let is_proven_there = |ratio: &Estimate| match comparison.change {
        Change::Faster => ratio.high < 1.0,
        Change::Slower => ratio.low > 1.0,
        Change::NoDifferenceProven => true,
    };
    let n = ends::common(&comparison.a.all, &comparison.b.all);
    if let Some(ratio) = n.and(comparison.ratio_end).filter(is_proven_there) {
        return Some(Shown { ratio, n, is_opposite: false });
    }
    let ratio = comparison.ratio?;
    let (a, b) = (ends::large(&comparison.a.all)?.cost.value, ends::large(&comparison.b.all)?.cost.value);
    Some(Shown { ratio, n: None, is_opposite: n.is_some() && (b > a) != (ratio.value > 1.0) })
}

/// Returns the ratio as reports state it, if a difference is proven.
pub(crate) fn proven(comparison: &Comparison) -> Option<Shown> {
    shown(comparison).filter(|_| comparison.change != Change::NoDifferenceProven)
}

/// One phase of a variant and of the default case of its benchmark, in one record.
#[derive(Debug)]
pub struct VariantComparison {
    /// The benchmark's name.
    pub benchmark: String,
    /// The label of the default case.
    pub base: String,
    /// The label of the variant.
    pub variant: String,
    /// The phase.
    pub phase: String,
    /// The comparison; its ratios are the variant over the default case.
    pub comparison: Comparison,
}

/// Minimum number of rounds that two curves must share to be paired.
const ROUNDS_MIN: usize = 3;

impl Comparisons {
    /// Compares every analysis with the first one, and each with the next. Records with another unit are left out: see
    /// [`crate::unlike`].
    pub fn of(analyses: &[&Analysis<'_>]) -> Self {
        let pairs = pairs(analyses);
        let mut comparisons: Vec<Comparison> = pairs.iter().map(|pair| compared(pair, None)).collect();
        let mut shifts = shifts(analyses, &pairs, &comparisons);
        for (pair, comparison) in pairs.iter().zip(&mut comparisons) {
            if let Some(shift) = shifts.iter().find(|shift| pair.is_of(shift)) {
                let without = std::mem::replace(comparison, compared(pair, Some(shift)));
                comparison.limit_by(&without);
            }
        }
        holm(&mut comparisons);
        for shift in &mut shifts {
            let own = pairs.iter().zip(&comparisons).filter(|(pair, _)| pair.is_of(shift));
            shift.detectable = median(own.filter_map(|(_, one)| one.detectable));
        }
        let all = pairs.iter().zip(comparisons).map(|(&Pair { a, b, paired }, comparison)| PhaseComparison {
            label: b.2.0.case.label.clone(),
            benchmark: b.2.0.case.benchmark.clone(),
            phase: b.2.1.phase.name.clone(),
            base: a.0,
            other: b.0,
            paired,
            comparison,
        });
        let (all, later_steps) = all.partition(|one: &PhaseComparison| one.base == 0);
        Self { all, later_steps, shifts }
    }

    /// Returns the comparison of one phase of one case between two records, if it was made.
    pub fn between(&self, label: &str, phase: &str, base: usize, other: usize) -> Option<&PhaseComparison> {
        let is_it = |one: &&PhaseComparison| (one.base, one.other) == (base, other) && one.is_of(label, phase);
        self.all.iter().chain(&self.later_steps).find(is_it)
    }

    /// Returns the comparisons of one phase of one case with the first record.
    pub fn of_phase<'v>(&'v self, label: &'v str, phase: &'v str) -> impl Iterator<Item = &'v PhaseComparison> {
        self.all.iter().filter(move |one| one.is_of(label, phase))
    }

    /// Returns the comparisons of one phase of one case from each record to the next.
    pub fn steps<'v>(&'v self, label: &'v str, phase: &'v str) -> impl Iterator<Item = &'v PhaseComparison> {
        let first = self.of_phase(label, phase).take(1);
        first.chain(self.later_steps.iter().filter(move |one| one.is_of(label, phase)))
    }
}

/// A curve in one of the records: its index, the record, the case and the phase.
pub(crate) type Place<'a> = (usize, &'a Record, (&'a CaseStudy<'a>, &'a PhaseStudy<'a>));

/// Returns whether the passes of two curves are paired by round.
pub(crate) fn is_paired(a: Place<'_>, b: Place<'_>) -> bool {
    is_interleaved((a.1, a.2.0.case.case), (b.1, b.2.0.case.case))
}

/// A phase of a case in two records.
struct Pair<'a> {
    a: Place<'a>,
    b: Place<'a>,
    paired: bool,
}

impl Pair<'_> {
    /// Returns whether this is one of the unpaired curves to which a shift applies.
    fn is_of(&self, shift: &Shift) -> bool {
        !self.paired && (self.a.0, self.b.0) == (shift.base, shift.other)
    }
}

/// Returns every curve of the first record with the same one of each other record, and from each record to the next.
fn pairs<'a>(analyses: &[&'a Analysis<'a>]) -> Vec<Pair<'a>> {
    let Some(base) = analyses.first() else { return Vec::new() };
    let mut pairs = Vec::new();
    for study in &base.cases {
        for phase in &study.phases {
            let alike = |one: &&Analysis<'_>| unit_of(one.record) == unit_of(base.record);
            let places = analyses.iter().enumerate().filter(|(_, one)| alike(one));
            let places = places.filter_map(|(index, one)| same(one, study, phase).map(|at| (index, one.record, at)));
            let places: Vec<Place<'_>> = places.collect();
            pairs.extend(places.iter().skip(1).map(|place| (places[0], *place)));
            pairs.extend(places.windows(2).skip(1).map(|pair| (pair[0], pair[1])));
        }
    }
    pairs.into_iter().map(|(a, b)| Pair { a, b, paired: is_paired(a, b) }).collect()
}

/// Returns the shift between two records, computed from all their curves as in [`Comparisons::of`]. The detectable
/// difference is unknown here, because it depends on the number of tests.
pub(crate) fn shift_between(base: &Analysis<'_>, other: &Analysis<'_>) -> Option<Shift> {
    let analyses = [base, other];
    let pairs = pairs(&analyses);
    // This check comes first because comparisons take time.
    if !Shift::is_possible(base, other, pairs.iter().filter(|pair| !pair.paired).count()) {
        return None;
    }
    let comparisons: Vec<Comparison> = pairs.iter().map(|pair| compared(pair, None)).collect();
    shifts(&analyses, &pairs, &comparisons).pop()
}

/// Returns the shifts between the records of these pairs of curves.
fn shifts(analyses: &[&Analysis<'_>], pairs: &[Pair<'_>], comparisons: &[Comparison]) -> Vec<Shift> {
    let mut by_records: BTreeMap<(usize, usize), Vec<&Comparison>> = BTreeMap::new();
    for (pair, comparison) in pairs.iter().zip(comparisons).filter(|(pair, _)| !pair.paired) {
        by_records.entry((pair.a.0, pair.b.0)).or_default().push(comparison);
    }
    let of = |((base, other), unpaired): ((usize, usize), Vec<&Comparison>)| {
        Shift::of((base, analyses[base]), (other, analyses[other]), &unpaired)
    };
    by_records.into_iter().filter_map(of).collect()
}

/// Returns the options for comparing a curve with the same one of another record. A shift is added to the variation
/// between runs, half of its variance for each run.
pub(crate) fn options((_, record, (study, phase)): Place<'_>, paired: bool, shift: Option<&Shift>) -> Options {
    let (benchmark, phase) = (&study.case.benchmark, &phase.phase.name);
    let with = |known: f64, added: Option<f64>| known.hypot(added.unwrap_or(0.0) * FRAC_1_SQRT_2);
    let between_runs = with(between_runs::of(benchmark, phase), shift.map(|one| one.deviation));
    let growth_between_runs = with(between_runs::of_growth(benchmark, phase), shift.map(|one| one.growth_deviation));
    Options { unit: unit_of(record), paired, between_runs, growth_between_runs, ..Options::default() }
}

/// Compares two curves.
fn compared(&Pair { a, b, paired }: &Pair<'_>, shift: Option<&Shift>) -> Comparison {
    let (of_a, of_b) = (a.2.1, b.2.1);
    let options = options(a, paired, shift);
    let (curve_a, curve_b) = if paired { by_round(of_a, of_b) } else { (of_a.curve.clone(), of_b.curve.clone()) };
    compare_judged((&curve_a, of_a.verdict.clone()), (&curve_b, of_b.verdict.clone()), &options)
}

impl PhaseComparison {
    fn is_of(&self, label: &str, phase: &str) -> bool {
        self.label == label && self.phase == phase
    }

    /// Returns the index of the record that is provably cheaper, if there is one.
    pub fn winner(&self) -> Option<usize> {
        match self.comparison.change {
            Change::Faster => Some(self.other),
            Change::Slower => Some(self.base),
            Change::NoDifferenceProven => None,
        }
    }

    /// Returns the ratio as reports state it, if a difference is proven.
    pub fn proven(&self) -> Option<Shown> {
        proven(&self.comparison)
    }

    /// Returns the result in words, with the records' names.
    pub fn text(&self, names: &[String]) -> String {
        let name = |index: usize| names.get(index).map_or("?", String::as_str);
        text::comparison(&self.comparison, proven(&self.comparison), name(self.base), name(self.other))
    }
}

impl VariantComparison {
    /// Compares each variant of a record with the default case of its benchmark: the first case in the record with the
    /// same kind of n. Passes are paired by round, because the cases of a round run one after the other.
    pub fn all(analysis: &Analysis<'_>) -> Vec<Self> {
        let unit = unit_of(analysis.record);
        let mut places = Vec::new();
        let mut comparisons = Vec::new();
        for (index, study) in analysis.cases.iter().enumerate() {
            let before = &analysis.cases[..index];
            let Some(base) = before.iter().find(|base| base.is_alike(study)) else { continue };
            for phase in &study.phases {
                let Some(counterpart) = base.phases.iter().find(|one| one.phase.name == phase.phase.name) else {
                    continue;
                };
                let (a, b) = by_round(counterpart, phase);
                places.push((base, study, phase));
                let judged = (counterpart.verdict.clone(), phase.verdict.clone());
                let options = Options { unit, paired: true, ..Options::default() };
                comparisons.push(compare_judged((&a, judged.0), (&b, judged.1), &options));
            }
        }
        holm(&mut comparisons);
        let all = places.into_iter().zip(comparisons).map(|((base, study, phase), comparison)| Self {
            benchmark: study.case.benchmark.clone(),
            base: base.case.label.clone(),
            variant: study.case.label.clone(),
            phase: phase.phase.name.clone(),
            comparison,
        });
        all.collect()
    }

    /// Returns the label of the case that is provably cheaper, if there is one.
    pub fn winner(&self) -> Option<&str> {
        match self.comparison.change {
            Change::Faster => Some(&self.variant),
            Change::Slower => Some(&self.base),
            Change::NoDifferenceProven => None,
        }
    }

    /// Returns the ratio as reports state it, if a difference is proven.
    pub fn proven(&self) -> Option<Shown> {
        proven(&self.comparison)
    }

    /// Returns the result in words.
    pub fn text(&self) -> String {
        text::comparison(&self.comparison, self.proven(), &self.base, &self.variant)
    }
}

/// Returns the same phase of the same case in another record.
fn same<'a>(
    analysis: &'a Analysis<'_>,
    study: &CaseStudy<'_>,
    phase: &PhaseStudy<'_>,
) -> Option<(&'a CaseStudy<'a>, &'a PhaseStudy<'a>)> {
    let study = analysis.cases.iter().find(|other| other.case.label == study.case.label)?;
    Some((study, study.phases.iter().find(|other| other.phase.name == phase.phase.name)?))
}

/// Returns both curves with the passes of their common rounds, in the order of the rounds.
pub(crate) fn by_round(a: &PhaseStudy<'_>, b: &PhaseStudy<'_>) -> (Curve, Curve) {
    let (mut of_a, mut of_b) = (Curve::default(), Curve::default());
    (of_a.annotations, of_b.annotations) = (a.curve.annotations.clone(), b.curve.annotations.clone());
    // A repeated attempt has the same round; the last one is used.
    let pass = |study: &PhaseStudy<'_>, round: u32| {
        let place = study.rounds.iter().rposition(|one| *one == round)?;
        study.curve.passes.get(place).filter(|pass| !pass.costs.is_empty()).cloned()
    };
    let mut rounds = a.rounds.clone();
    rounds.sort_unstable();
    rounds.dedup();
    for round in rounds {
        if let (Some(one), Some(other)) = (pass(a, round), pass(b, round)) {
            of_a.passes.push(one);
            of_b.passes.push(other);
        }
    }
    (of_a, of_b)
}

/// Returns whether the passes of a case ran side by side in two records. Those of the two sides of one run did, whether
/// or not it was resumed.
fn is_interleaved(a: (&Record, u32), b: (&Record, u32)) -> bool {
    if are_sides(a.0, b.0) { shared_rounds(a, b) >= ROUNDS_MIN } else { has_alternated(a, b) }
}

/// Returns whether two records hold the two sides of one run.
pub(crate) fn are_sides(a: &Record, b: &Record) -> bool {
    match (&a.header.side, &b.header.side) {
        (Some(a), Some(b)) => a.run == b.run && a.role != b.role,
        _ => false,
    }
}

/// Returns the number of rounds in which both records have a complete pass of a case.
fn shared_rounds((a, case_a): (&Record, u32), (b, case_b): (&Record, u32)) -> usize {
    let rounds = |record: &Record, case: u32| -> BTreeSet<u32> {
        let passes = record.passes_of(case).into_iter().filter(|pass| pass.is_complete());
        passes.map(|pass| pass.start.round).collect()
    };
    rounds(a, case_a).intersection(&rounds(b, case_b)).count()
}

/// Returns whether the passes of a case alternated in two records of one host: in both records, every pass of a round
/// began before the next round began in either. Then whatever the machine did in a round affected both.
fn has_alternated((a, case_a): (&Record, u32), (b, case_b): (&Record, u32)) -> bool {
    let is_one_host = a.host.release == b.host.release
        && a.host.version == b.host.version
        && a.host.processor == b.host.processor
        && a.host.pinned_processor == b.host.pinned_processor;
    // In a resumed record, pass times count from the resumption.
    if !is_one_host || !a.resumes.is_empty() || !b.resumes.is_empty() || std::ptr::eq(a, b) {
        return false;
    }
    let (Some(began_a), Some(began_b)) = (began_ms(a), began_ms(b)) else { return false };
    let starts = |record: &Record, case: u32, began: i64| {
        let passes = record.passes.iter().filter(|pass| pass.start.case == case);
        passes.map(|pass| (pass.start.round, began + pass.start.at_ms.cast_signed())).collect::<Vec<(u32, i64)>>()
    };
    let (of_a, of_b) = (starts(a, case_a, began_a), starts(b, case_b, began_b));
    let shared = of_a.iter().filter_map(|(round, at)| {
        let other = of_b.iter().find(|other| other.0 == *round)?;
        Some((*round, (*at).min(other.1), (*at).max(other.1)))
    });
    let mut shared: Vec<(u32, i64, i64)> = shared.collect();
    shared.sort_unstable();
    shared.len() >= ROUNDS_MIN && shared.windows(2).all(|pair| pair[0].2 < pair[1].1)
}

/// Returns when a run began, in milliseconds since the epoch.
fn began_ms(record: &Record) -> Option<i64> {
    record.header.started.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_record::schema::{Facts, Header, Outcome, PassEnd, PassStart, Role, Side};

    fn side_of(role: Role) -> Side {
        let (run, other, differences) = (String::new(), String::new(), Vec::new());
        Side { role, run, other, differences, program: None, switch: None, profile: None }
    }

    fn record(started: &str, starts_ms: &[u64]) -> Record {
        let pass = |(round, at_ms): (u32, &u64)| landau_record::Pass {
            start: PassStart { pass: round, case: 0, round, at_ms: *at_ms, adaptive_for: Vec::new() },
            series: std::collections::BTreeMap::new(),
            windows: Vec::new(),
            end: Some(PassEnd {
                pass: round,
                outcome: Outcome::Done,
                steps: 1,
                elapsed_ms: 1,
                limit: None,
                error: None,
                facts: Facts::new(),
            }),
        };
        let header = Header { started: started.to_owned(), ..Header::default() };
        Record { header, passes: (0..).zip(starts_ms).map(pass).collect(), ..Record::default() }
    }

    /// Guards against pairing passes that did not run side by side: their offsets are unrelated.
    #[test]
    fn only_alternating_rounds_are_paired() {
        let a = record("2026-11-22T12:00:00Z", &[0, 10_000, 20_000]);
        let is_paired = |b: &Record| is_interleaved((&a, 0), (b, 0));
        assert!(is_paired(&record("2026-11-22T12:00:05Z", &[0, 10_000, 20_000])));
        assert!(is_paired(&record("2026-11-22T12:00:00Z", &[9_000, 11_000, 29_000])));
        // The second run begins after the first has ended, or overtakes it.
        assert!(!is_paired(&record("2026-11-22T12:01:00Z", &[0, 10_000, 20_000])));
        assert!(!is_paired(&record("2026-11-22T12:00:05Z", &[0, 16_000, 17_000])));
        assert!(!is_paired(&record("2026-11-22T12:00:05Z", &[0, 10_000])));
        // The sides of one run are paired even if it was resumed in between.
        let side = |role, run: &str| Side { run: run.to_owned(), ..side_of(role) };
        let mut sides = [a.clone(), record("2026-11-22T12:01:00Z", &[0, 10_000, 20_000])];
        for (one, role) in sides.iter_mut().zip([Role::Base, Role::New]) {
            one.header.side = Some(side(role, "a run"));
        }
        assert!(is_interleaved((&sides[0], 0), (&sides[1], 0)));
        sides[1].header.side = Some(side(Role::New, "another"));
        assert!(!is_interleaved((&sides[0], 0), (&sides[1], 0)));
        let mut elsewhere = record("2026-11-22T12:00:05Z", &[0, 10_000, 20_000]);
        elsewhere.host.release = "6.1.0".to_owned();
        assert!(!is_paired(&elsewhere));
    }
}
