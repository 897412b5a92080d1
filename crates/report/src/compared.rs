//! The comparison of two records, or of the variants of one record with its default cases, for `landau compare`.
//!
//! The ratios, the laws and the correction for the number of comparisons come from [`Comparisons`], which `landau show
//! A B` and the page also use. This module adds cliffs, limits and recurring outliers that appeared or disappeared, and
//! lists what could not be compared, with the reason.

mod limits;
mod render;
mod unmatched;

use crate::comparisons::VariantComparison;
use crate::findings::instrument::Instrument;
use crate::quantity::Unit;
use crate::shifts::Shift;
use crate::table::Layout;
use crate::{Analysis, CaseStudy, Comparisons, PhaseStudy, comparisons, findings, text, unit_of};
use landau_record::Record;
use landau_record::schema::{Direction, Role};
use landau_stats::{
    Agreement, Change, Cliff, Comparison, Crossing, Estimate, Nature, Options, OutlierChange, Outliers, outlier_changes,
};
pub use limits::{LimitChange, Met};
use serde::Serialize;
use std::collections::BTreeSet;
pub use unmatched::NotCompared;

/// A comparison of two records, or of cases of one record.
#[derive(Debug, Clone, Serialize)]
pub struct Compared {
    /// The base.
    pub base: Side,
    /// The record compared with it; the same record if its variants are compared.
    pub new: Side,
    /// Whether the variants of one record are compared, each with the default case of its benchmark.
    pub variants: bool,
    /// The differences of the new side, if both are the sides of one run (`landau run --against`).
    pub differences: Vec<String>,
    /// The shift of the curves beyond the known variation of their benchmarks, if both records are of one system.
    pub shift: Option<Shift>,
    /// The unit of costs.
    pub unit: Unit,
    /// Failures and crashes in either record. The curves concerned are made from the remaining passes.
    pub alarms: Vec<Alarm>,
    /// Every curve that both sides have, in the order of the base.
    pub curves: Vec<CurveComparison>,
    /// Limits that appeared, disappeared or moved.
    pub limits: Vec<LimitChange>,
    /// Cases and curves that could not be compared, with the reason.
    pub not_compared: Vec<NotCompared>,
}

/// A failure or a crash in one of the records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alarm {
    /// "failed" or "crash".
    pub kind: &'static str,
    /// What happened, with the name of the record.
    pub text: String,
}

/// One of the records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// The name used in sentences.
    pub name: String,
    /// The system, the kernel's release and the processor.
    pub host: String,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// The study.
    pub study: String,
}

/// One curve on both sides.
#[derive(Debug, Clone, Serialize)]
pub struct CurveComparison {
    /// The benchmark.
    pub benchmark: String,
    /// The label of the case.
    pub case: String,
    /// The label of the case in the base; it differs from `case` if variants are compared.
    pub base_case: String,
    /// The phase.
    pub phase: String,
    /// Whether objects are created or destroyed.
    pub direction: Direction,
    /// What n counts.
    pub axis: String,
    /// Whether passes were paired by round.
    pub paired: bool,
    /// Whether anything provably changed: the cost, the growth, a cliff, or recurring outliers.
    pub changed: bool,
    /// Which side costs less.
    pub result: Change,
    /// The p value of equal costs, corrected for the number of comparisons.
    pub p_adjusted: f64,
    /// The cost of the new side over that of the base, over their common range of n, 95%.
    pub ratio: Option<Estimate>,
    /// The ratio at the smallest, the middle and the largest common n.
    pub at: Vec<RatioAt>,
    /// The smallest difference, as a fraction, that would have been detected in four of five cases.
    pub detectable: Option<f64>,
    /// The standard error of the logarithm of the ratio, with its degrees of freedom.
    #[serde(skip)]
    pub(crate) error: Option<(f64, f64)>,
    /// Whether a difference is a constant factor or amount, or whether the law or the growth changed.
    pub nature: Nature,
    /// The laws.
    pub law: Laws,
    /// The growth of the new side over that of the base.
    pub growth: Quantity,
    /// Whether the growths provably differ: after the correction, by at least 2%.
    pub growth_changed: bool,
    /// Slopes under the common law, new over base.
    pub slope: Quantity,
    /// Fixed costs under the common law, new over base.
    pub fixed_cost: Quantity,
    /// Where the curves cross.
    pub crossing: Option<Crossing>,
    /// Cliffs that appeared, disappeared or moved.
    pub cliffs: Vec<CliffChange>,
    /// Recurring outliers that appeared or disappeared.
    pub outliers: Vec<OutlierChange>,
    /// The result in one sentence.
    pub text: String,
}

/// A ratio of costs at one n.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RatioAt {
    /// The n.
    pub n: f64,
    /// The cost of the new side over that of the base, 95%; absent at a last point that deviates from those before it.
    pub ratio: Option<Estimate>,
}

/// The laws of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Laws {
    /// The base's, "O(n)"; absent if none is named.
    pub base: Option<&'static str>,
    /// The new side's.
    pub new: Option<&'static str>,
    /// The outcomes of the base and the new side in a few words: "O(n)", "falls", "not resolved".
    pub outcomes: [String; 2],
    /// Whether they agree.
    pub same: Agreement,
    /// The law that was fitted to both for slope and fixed cost.
    pub common: Option<&'static str>,
}

/// A ratio of a derived quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantity {
    /// New over base, 95%; absent if it cannot be computed.
    pub ratio: Option<Estimate>,
    /// Whether both agree: within δ, proven to differ, or inconclusive. Not corrected for the number of comparisons.
    pub same: Agreement,
    /// The p value of equality, corrected for the number of comparisons; absent if none is computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_adjusted: Option<f64>,
}

/// A cliff that one side has and the other lacks, or that moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CliffChange {
    /// The base's cliff; absent if the cliff appeared.
    pub base: Option<Cliff>,
    /// The new side's cliff; absent if it disappeared.
    pub new: Option<Cliff>,
}

/// A curve of both sides before it is put into words.
struct Pair<'a> {
    base: (&'a CaseStudy<'a>, &'a PhaseStudy<'a>),
    new: (&'a CaseStudy<'a>, &'a PhaseStudy<'a>),
    paired: bool,
    comparison: Comparison,
    outliers: Vec<OutlierChange>,
}

impl Compared {
    /// Compares two records. Their units must be equal: see [`crate::unlike`].
    pub fn of(base: &Analysis<'_>, new: &Analysis<'_>, names: [&str; 2]) -> Self {
        let comparisons = Comparisons::of(&[base, new]);
        let pairs = comparisons.all.into_iter().filter_map(|one| {
            let there = |analysis| find(analysis, &one.label, &one.phase);
            Some(Pair {
                base: there(base)?,
                new: there(new)?,
                paired: one.paired,
                comparison: one.comparison,
                outliers: Vec::new(),
            })
        });
        let mut pairs: Vec<Pair<'_>> = pairs.collect();
        find_outliers(&mut pairs, [base, new]);
        let not_compared = unmatched::of(base, new, names, &pairs);
        Self {
            base: side(base, names[0]),
            new: side(new, names[1]),
            variants: false,
            differences: differences(base.record, new.record),
            shift: comparisons.shifts.first().copied(),
            unit: unit_of(base.record),
            alarms: alarms(&[base, new], &names),
            limits: limits::of(base, new, names),
            not_compared,
            curves: pairs.iter().filter_map(|pair| pair.told([names[0], names[1]])).collect(),
        }
    }

    /// Compares each variant of a record with the default case of its benchmark, paired by round.
    pub fn of_variants(analysis: &Analysis<'_>, name: &str) -> Self {
        let pairs = VariantComparison::all(analysis).into_iter().filter_map(|one| {
            Some(Pair {
                base: find(analysis, &one.base, &one.phase)?,
                new: find(analysis, &one.variant, &one.phase)?,
                paired: true,
                comparison: one.comparison,
                outliers: Vec::new(),
            })
        });
        let mut pairs: Vec<Pair<'_>> = pairs.collect();
        find_outliers(&mut pairs, [analysis, analysis]);
        let told = |pair: &Pair<'_>| pair.told([&pair.base.0.case.label, &pair.new.0.case.label]);
        Self {
            base: side(analysis, name),
            new: side(analysis, name),
            variants: true,
            differences: Vec::new(),
            shift: None,
            unit: unit_of(analysis.record),
            alarms: alarms(&[analysis], &[name]),
            limits: Vec::new(),
            not_compared: unmatched::of_variants(&pairs),
            curves: pairs.iter().filter_map(told).collect(),
        }
    }

    /// Returns the comparison as text for a terminal. With `changed`, only what changed and what was not compared.
    pub fn render(&self, changed: bool, layout: Layout) -> String {
        render::text(self, changed, layout)
    }
}

/// Returns the differences of the new side of a run; empty if the records are not its sides, or if these are equal.
fn differences(base: &Record, new: &Record) -> Vec<String> {
    let side = new.header.side.as_ref().filter(|side| side.role == Role::New);
    let Some(side) = side.filter(|_| comparisons::are_sides(base, new)) else { return Vec::new() };
    let switch = side.switch.as_ref().map(|switch| format!("host switched by: {}", switch.command));
    side.differences.iter().cloned().chain(switch).collect()
}

fn alarms(analyses: &[&Analysis<'_>], names: &[&str]) -> Vec<Alarm> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let found = findings::alarms(analyses, &names);
    found.iter().map(|one| Alarm { kind: one.kind.name(), text: one.sentence() }).collect()
}

fn side(analysis: &Analysis<'_>, name: &str) -> Side {
    let (host, header) = (&analysis.record.host, &analysis.record.header);
    Side {
        name: name.to_owned(),
        host: format!("{} {}, {}", host.system, host.release, host.processor),
        started: header.started.clone(),
        study: header.study.clone(),
    }
}

fn find<'a>(analysis: &'a Analysis<'a>, label: &str, phase: &str) -> Option<(&'a CaseStudy<'a>, &'a PhaseStudy<'a>)> {
    let study = analysis.cases.iter().find(|study| study.case.label == label)?;
    Some((study, study.phases.iter().find(|one| one.phase.name == phase)?))
}

/// Adds the recurring outliers that appeared or disappeared. The periods of counted costs start at a different call in
/// each pass, so their positions are not compared.
fn find_outliers(pairs: &mut [Pair<'_>], analyses: [&Analysis<'_>; 2]) {
    let instruments = analyses.map(Instrument::of);
    for pair in pairs.iter_mut().filter(|pair| pair.base.1.verdict.all.unit != Unit::Instructions) {
        let own = |phase: &PhaseStudy<'_>, instrument: &Instrument<'_>| without(&phase.verdict.outliers, instrument);
        let (a, b) = (own(pair.base.1, &instruments[0]), own(pair.new.1, &instruments[1]));
        pair.outliers = outlier_changes((&pair.base.1.curve, &a), (&pair.new.1.curve, &b));
    }
}

/// Error rate of the tests of a report.
const LEVEL: f64 = 0.05;

/// Returns the outliers that the instrument does not explain.
fn without(outliers: &Outliers, instrument: &Instrument<'_>) -> Outliers {
    let explained = outliers.patterns.iter().filter(|pattern| instrument.explains(pattern));
    let positions: BTreeSet<u32> = explained.flat_map(|pattern| outliers.following(pattern)).collect();
    let mut kept = outliers.clone();
    kept.patterns.retain(|pattern| !instrument.explains(pattern));
    kept.recurring.retain(|one| !positions.contains(&one.n));
    kept
}

impl Pair<'_> {
    /// Returns the comparison in words; `None` if the curves have no common range.
    fn told(&self, names: [&str; 2]) -> Option<CurveComparison> {
        let one = &self.comparison;
        one.ratio?;
        let is_growth_changed = one.is_growth_changed(Options::default().smallest_effect);
        let cliffs = cliffs(self.base.1, self.new.1);
        let ratios = [one.ratio_start, one.ratio_middle, one.ratio_end];
        let at = one.n.iter().flat_map(|n| n.iter().zip(ratios).map(|(n, ratio)| RatioAt { n: *n, ratio }));
        let symbol = |verdict: &landau_stats::Verdict| text::symbol_of(&verdict.all);
        let (study, phase) = self.new;
        Some(CurveComparison {
            benchmark: study.case.benchmark.clone(),
            case: study.case.label.clone(),
            base_case: self.base.0.case.label.clone(),
            phase: phase.phase.name.clone(),
            direction: phase.phase.direction,
            axis: study.case.axis.clone(),
            paired: self.paired,
            changed: one.change != Change::NoDifferenceProven
                || is_growth_changed
                || !cliffs.is_empty()
                || !self.outliers.is_empty(),
            result: one.change,
            p_adjusted: one.p_adjusted,
            ratio: one.ratio,
            at: at.collect(),
            detectable: one.detectable,
            error: one.error.map(|error| (error, one.freedom)),
            nature: one.nature,
            law: Laws {
                base: symbol(&one.a),
                new: symbol(&one.b),
                outcomes: [&one.a, &one.b].map(|verdict| crate::table::law_short(&verdict.all)),
                same: one.same_law,
                common: one.common_law.as_deref().map(text::symbol),
            },
            growth: Quantity {
                ratio: one.growth_ratio,
                same: one.same_growth,
                p_adjusted: Some(one.growth_p_adjusted),
            },
            growth_changed: is_growth_changed,
            slope: Quantity { ratio: one.slope_ratio, same: one.same_slope, p_adjusted: None },
            fixed_cost: Quantity { ratio: one.fixed_ratio, same: one.same_fixed, p_adjusted: None },
            crossing: one.crossing,
            cliffs,
            outliers: self.outliers.clone(),
            text: sentence(one, is_growth_changed, names),
        })
    }
}

/// Returns the result in one sentence.
fn sentence(one: &Comparison, is_growth_changed: bool, names: [&str; 2]) -> String {
    let told = text::comparison(one, crate::comparisons::proven(one), names[0], names[1]);
    match one.growth_ratio {
        Some(growth) if one.change == Change::NoDifferenceProven && is_growth_changed => {
            let by = text::ratio_with_interval(growth, one.a.all.unit);
            format!(
                "{} grows {by} as much as {}; on average over n the cost is not shown to differ",
                names[1], names[0]
            )
        }
        _ => told,
    }
}

/// Two cliffs within this factor of each other are the same.
const SAME_N: f64 = 1.05;

/// Returns the cliffs that one of two curves has where the other was measured and has none.
fn cliffs(a: &PhaseStudy<'_>, b: &PhaseStudy<'_>) -> Vec<CliffChange> {
    let (of_a, of_b) = (&a.verdict.all.cliffs, &b.verdict.all.cliffs);
    let is_same = |x: &Cliff, y: &Cliff| {
        (x.n.value / y.n.value).ln().abs() < SAME_N.ln() || (x.n.low <= y.n.high && y.n.low <= x.n.high)
    };
    let end = |phase: &PhaseStudy<'_>| landau_stats::claim::reached(&phase.curve);
    let alone = |own: &[Cliff], others: &[Cliff], reached: f64| {
        let is_alone =
            |cliff: &&Cliff| !others.iter().any(|other| is_same(cliff, other)) && reached > SAME_N * cliff.n.high;
        own.iter().filter(is_alone).cloned().collect::<Vec<Cliff>>()
    };
    let (went, came) = (alone(of_a, of_b, end(b)), alone(of_b, of_a, end(a)));
    if let ([from], [to]) = (went.as_slice(), came.as_slice()) {
        return vec![CliffChange { base: Some(from.clone()), new: Some(to.clone()) }];
    }
    let went = went.into_iter().map(|cliff| CliffChange { base: Some(cliff), new: None });
    went.chain(came.into_iter().map(|cliff| CliffChange { base: None, new: Some(cliff) })).collect()
}
