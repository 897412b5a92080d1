//! The cases and curves that could not be compared, with the reason.

use super::Pair;
use crate::quantity::count;
use crate::{Analysis, CaseStudy, PhaseStudy};
use landau_stats::claim::reached;
use serde::Serialize;

/// A case or a curve that could not be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotCompared {
    /// The label of the case.
    pub case: String,
    /// The phase; absent for a whole case.
    pub phase: Option<String>,
    /// Why.
    pub reason: String,
}

/// Returns the cases and curves that only one record has, and the curves without a common range.
pub(super) fn of(base: &Analysis<'_>, new: &Analysis<'_>, names: [&str; 2], pairs: &[Pair<'_>]) -> Vec<NotCompared> {
    let mut all = alone(base, new, names);
    all.extend(alone(new, base, [names[1], names[0]]));
    let timelines = base.cases.iter().filter(|study| study.timeline.is_some());
    all.extend(timelines.filter(|study| case(new, study).is_some()).map(|study| NotCompared {
        case: study.case.label.clone(),
        phase: None,
        reason: "a timeline has rates and no law; landau show prints them".to_owned(),
    }));
    all.extend(without_range(pairs, names));
    all
}

/// Returns the curves of variants without a common range.
pub(super) fn of_variants(pairs: &[Pair<'_>]) -> Vec<NotCompared> {
    without_range(pairs, ["the default case", "the variant"])
}

fn case<'a>(analysis: &'a Analysis<'_>, study: &CaseStudy<'_>) -> Option<&'a CaseStudy<'a>> {
    analysis.cases.iter().find(|other| other.case.label == study.case.label)
}

/// Returns the cases and curves that `there` lacks.
fn alone(here: &Analysis<'_>, there: &Analysis<'_>, [name, other]: [&str; 2]) -> Vec<NotCompared> {
    let mut all = Vec::new();
    for study in &here.cases {
        let label = &study.case.label;
        let Some(same) = case(there, study) else {
            let skips = &there.record.skips;
            let is_it =
                |skip: &&landau_record::schema::Skip| skip.label == *label || skip.label == study.case.benchmark;
            let why =
                skips.iter().find(is_it).map_or(String::new(), |skip| format!(", skipped in {other}: {}", skip.reason));
            all.push(NotCompared { case: label.clone(), phase: None, reason: format!("only in {name}{why}") });
            continue;
        };
        let lacks = |phase: &&PhaseStudy<'_>| !same.phases.iter().any(|one| one.phase.name == phase.phase.name);
        let failure = same.failures.first().map_or(String::new(), |failure| format!("; in {other} {failure}"));
        all.extend(study.phases.iter().filter(lacks).map(|phase| NotCompared {
            case: label.clone(),
            phase: Some(phase.phase.name.clone()),
            reason: format!("only in {name}{failure}"),
        }));
    }
    all
}

/// Returns the curves that have no ratio.
fn without_range(pairs: &[Pair<'_>], names: [&str; 2]) -> Vec<NotCompared> {
    let bare = pairs.iter().filter(|pair| pair.comparison.ratio.is_none());
    bare.map(|pair| NotCompared {
        case: pair.new.0.case.label.clone(),
        phase: Some(pair.new.1.phase.name.clone()),
        reason: no_ratio(pair, names),
    })
    .collect()
}

fn no_ratio(pair: &Pair<'_>, [from, to]: [&str; 2]) -> String {
    let sides = [(pair.base.1, from), (pair.new.1, to)];
    let single = sides.iter().find(|(phase, _)| phase.verdict.passes < 2);
    if let Some((_, name)) = single {
        return format!("{name} has a single pass, which has no interval; two are needed, five are useful");
    }
    let end = |phase: &PhaseStudy<'_>| match phase.verdict.all.cliffs.first() {
        Some(cliff) => format!("has a cliff at n = {}", count(cliff.n.value)),
        None => format!("ends at n = {}", count(reached(&phase.curve))),
    };
    let [a, b] = sides.map(|(phase, name)| format!("{name} {}", end(phase)));
    let paired = if pair.paired { ", or share fewer than two rounds" } else { "" };
    format!("the curves have fewer than three common points{paired}: {a}, {b}")
}
