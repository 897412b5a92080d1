//! The curves that the subject of a claim names.

use crate::{Analysis, CaseStudy, PhaseStudy};
use landau_claims::{Subject, Unit};
use landau_record::schema::Unit as RecordUnit;

/// A phase of a case.
pub(crate) type Curve<'a> = (&'a CaseStudy<'a>, &'a PhaseStudy<'a>);

/// The word for all phases.
const ALL: &str = "*";

/// Returns the curves of a record that a subject names, at least one, or why there are none. The words of the subject
/// are phases, `*` and `SETTING=VALUE`.
pub(crate) fn resolve<'a>(subject: &Subject, analysis: &'a Analysis<'a>) -> Result<Vec<Curve<'a>>, String> {
    let own = analysis.record.unit();
    match subject.unit {
        Some(Unit::Ns) if own != RecordUnit::Ns => return Err(other_unit(own, Unit::Ns)),
        Some(Unit::Instructions) if own != RecordUnit::Instructions => return Err(other_unit(own, Unit::Instructions)),
        _ => {}
    }
    let cases: Vec<&CaseStudy<'_>> =
        analysis.cases.iter().filter(|study| study.case.benchmark == subject.benchmark).collect();
    if cases.is_empty() {
        return Err(not_measured(&subject.benchmark, analysis));
    }
    let (settings, phases): (Vec<&str>, Vec<&str>) =
        subject.words.iter().map(String::as_str).partition(|word| word.contains('='));
    let has_phases = |study: &CaseStudy<'_>| phases.iter().all(|word| *word == ALL || has_phase(study, word));
    let has_settings = |study: &CaseStudy<'_>| settings.iter().all(|word| has_setting(study, word));
    let chosen = cases.iter().filter(|study| has_settings(study) && has_phases(study));
    // The first case of a benchmark has its default settings, if they were measured. Of several matching cases, the one
    // closest to it is chosen, and of these the first.
    let Some(&study) = chosen.min_by_key(|study| differing(study, cases[0])) else {
        return Err(no_such(&subject.benchmark, &subject.words, &cases));
    };
    let chosen: Vec<Curve<'a>> = match phases.as_slice() {
        [] => main_phase(study).map(|phase| (study, phase)).into_iter().collect(),
        [ALL] => study.phases.iter().map(|phase| (study, phase)).collect(),
        [name] => study.phases.iter().filter(|one| one.phase.name == *name).map(|phase| (study, phase)).collect(),
        several => return Err(format!("`{}` names several phases: {}", subject, several.join(", "))),
    };
    match chosen.first() {
        Some(_) => Ok(chosen),
        None => Err(failed(study)),
    }
}

/// Returns the curve of another subject to compare with a curve of the same record. It has the same phase, unless the
/// subject names one.
pub(super) fn resolve_like<'a>(
    subject: &Subject,
    like: Curve<'_>,
    analysis: &'a Analysis<'a>,
) -> Result<Curve<'a>, String> {
    let found = resolve(subject, analysis)?;
    let names_phase = subject.words.iter().any(|word| has_phase(found[0].0, word));
    if found.len() == 1 && (names_phase || found[0].0.case.benchmark != like.0.case.benchmark) {
        return Ok(found[0]);
    }
    let study = found[0].0;
    let same = study.phases.iter().find(|one| one.phase.name == like.1.phase.name);
    same.map(|phase| (study, phase)).ok_or_else(|| format!("`{subject}` has no phase {}", like.1.phase.name))
}

fn has_phase(study: &CaseStudy<'_>, name: &str) -> bool {
    study.case.phases.iter().any(|phase| phase.name == name)
}

/// Returns whether a case has a setting `NAME=VALUE`.
fn has_setting(study: &CaseStudy<'_>, word: &str) -> bool {
    let is_own = |(name, value): (&str, &str)| study.case.settings.get(name).is_some_and(|own| own == value);
    word.split_once('=').is_some_and(is_own)
}

/// Returns the number of settings, except n, in which two cases differ.
fn differing(study: &CaseStudy<'_>, other: &CaseStudy<'_>) -> usize {
    let settings = study.case.settings.iter().filter(|(name, _)| *name != "n");
    settings.filter(|(name, value)| other.case.settings.get(*name) != Some(value)).count()
}

/// Returns the phase that has the name of the benchmark, or else the first phase.
fn main_phase<'a>(study: &'a CaseStudy<'a>) -> Option<&'a PhaseStudy<'a>> {
    let named = study.phases.iter().find(|one| one.phase.name == study.case.benchmark);
    named.or_else(|| study.phases.first())
}

fn other_unit(own: RecordUnit, wanted: Unit) -> String {
    format!("the record counts {}, not {}", own.name(), wanted.name())
}

fn not_measured(benchmark: &str, analysis: &Analysis<'_>) -> String {
    let skip = analysis.record.skips.iter().find(|skip| skip.label.split(' ').next() == Some(benchmark));
    let why = skip.map_or(String::new(), |skip| format!(": {}", skip.reason));
    format!("`{benchmark}` was not measured{why}")
}

fn no_such(benchmark: &str, words: &[String], cases: &[&CaseStudy<'_>]) -> String {
    let phases = cases.first().map_or(Vec::new(), |study| study.case.phases.iter().map(|p| p.name.as_str()).collect());
    let cases: Vec<&str> = cases.iter().map(|study| study.case.label.as_str()).collect();
    format!(
        "no case of `{benchmark}` that was measured has {}; phases: {}; cases: {}",
        words.join(" and "),
        phases.join(", "),
        cases.join(", ")
    )
}

/// Returns why a case has no curve.
fn failed(study: &CaseStudy<'_>) -> String {
    match study.failures.first() {
        Some(failure) => format!("`{}`: {failure}", study.case.label),
        None => format!("`{}` has no curve", study.case.label),
    }
}
