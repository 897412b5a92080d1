//! Findings that list many curves at once: flat, small changes, not resolved, slow first calls.

use super::{Finding, Kind, subject};
use crate::quantity::{FormatCost, factor, percent};
use crate::text;
use crate::{Analysis, CaseStudy, PhaseStudy, unit_of};
use landau_stats::{Outcome, Reason};

/// Maximum number of curves with slow first calls that are named; the others are counted.
const FIRST_CALLS_NAMED: usize = 4;

fn every<'a, 'r>(analysis: &'a Analysis<'r>) -> impl Iterator<Item = (&'a CaseStudy<'r>, &'a PhaseStudy<'r>)> {
    analysis.cases.iter().flat_map(|study| study.phases.iter().map(move |phase| (study, phase)))
}

/// Returns the curves without a cliff. For a curve with a cliff, the outcome applies before the cliff and is part of
/// the finding about the cliff.
fn smooth<'a, 'r>(analysis: &'a Analysis<'r>) -> impl Iterator<Item = (&'a CaseStudy<'r>, &'a PhaseStudy<'r>)> {
    every(analysis).filter(|(_, phase)| phase.verdict.all.cliffs.is_empty())
}

/// Adds one finding for all flat curves.
pub(super) fn flat(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let mut within: f64 = 0.0;
    let mut items = Vec::new();
    for (study, phase) in smooth(analysis) {
        let judged = &phase.verdict.all;
        let Outcome::Flat { within: delta } = judged.outcome else { continue };
        within = within.max(delta);
        let ends = [judged.start, judged.end].map(|end| end.map_or(f64::NAN, |end| end.value));
        let cost = judged.unit.costs(ends[0].min(ends[1]), ends[0].max(ends[1]));
        items.push(format!("{} ({cost})", subject(study, phase)));
    }
    if !items.is_empty() {
        let how = if within == 0.0 { "exactly O(1)".to_owned() } else { format!("O(1) within {}", percent(within)) };
        found.push(Finding { items, ..Finding::new(Kind::Flat, None, 1.0, format!("The cost is {how}")) });
    }
}

/// Adds one finding for all curves that certainly change by about δ.
pub(super) fn small(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let items = smooth(analysis).filter_map(|(study, phase)| {
        let judged = &phase.verdict.all;
        let growth = judged.growth.filter(|_| judged.outcome == Outcome::Small)?;
        Some(format!("{} ({})", subject(study, phase), factor(growth.value)))
    });
    let items: Vec<String> = items.collect();
    if !items.is_empty() {
        found.push(Finding { items, ..Finding::new(Kind::Small, None, 1.0, format!("The cost {}", text::small())) });
    }
}

/// Adds the curves that are not resolved, one finding for each reason.
pub(super) fn unresolved(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let reasons = [
        Reason::CanaryMoved,
        Reason::TooNoisy,
        Reason::PointDeviates,
        Reason::BranchShare,
        Reason::BranchCost,
        Reason::TooFewPasses,
        Reason::TooFewPoints,
    ];
    for reason in reasons {
        let more_passes = |phase: &PhaseStudy<'_>| match phase.verdict.all.outcome {
            Outcome::Unresolved { reason: other, more_passes } => (other == reason).then_some(more_passes),
            _ => None,
        };
        let curves = smooth(analysis).filter_map(|(study, phase)| Some((subject(study, phase), more_passes(phase)?)));
        let curves: Vec<(String, Option<u32>)> = curves.collect();
        let Some((_, first)) = curves.first() else { continue };
        // A number that all curves share is stated once.
        let shared = first.filter(|_| curves.iter().all(|(_, more)| more == first));
        let item = |(name, more): &(String, Option<u32>)| {
            format!("{name}{}", text::more_passes_text(more.filter(|_| shared.is_none())))
        };
        let items = curves.iter().map(item).collect();
        let text = format!("Not resolved{}, {}", text::more_passes_text(shared), text::reason_text(reason));
        found.push(Finding { items, ..Finding::new(Kind::Unresolved, None, 1.0, text) });
    }
}

/// Adds one finding about the slow first calls, which every process has, for the whole record.
pub(super) fn first_calls(analysis: &Analysis<'_>, found: &mut Vec<Finding>) {
    let mut slow: Vec<(u64, String)> = every(analysis)
        .filter_map(|(study, phase)| {
            let first = phase.verdict.outliers.patterns.iter().find(|pattern| text::is_first_calls(pattern))?;
            Some((first.cost_max, subject(study, phase)))
        })
        .collect();
    slow.sort_by(|a, b| b.cmp(a));
    let unit = unit_of(analysis.record);
    let named = slow.iter().take(FIRST_CALLS_NAMED);
    let mut items: Vec<String> =
        named.map(|(cost, name)| format!("{name} (up to {})", unit.cost(*cost as f64))).collect();
    if let more @ 1.. = slow.len().saturating_sub(FIRST_CALLS_NAMED) {
        items.push(format!("{more} more"));
    }
    if !items.is_empty() {
        let text = "The first calls of a process are slower, as usual (cold caches)".to_owned();
        found.push(Finding { items, ..Finding::new(Kind::FirstCalls, None, 0.0, text) });
    }
}
