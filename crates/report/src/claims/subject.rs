//! The curves that the subject of a claim names.

use crate::{Analysis, CaseStudy, PhaseStudy};
use landau_claims::{Subject, Unit};
use landau_record::schema::Unit as RecordUnit;

/// A phase of a case.
pub(super) type Curve<'a> = (&'a CaseStudy<'a>, &'a PhaseStudy<'a>);

/// Every phase.
const ALL: &str = "*";

/// Returns the curves of a record that a subject names, at least one; or why there are none.
pub(super) fn resolve<'a>(subject: &Subject, analysis: &'a Analysis<'a>) -> Result<Vec<Curve<'a>>, String> {
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
    let is_phase = |word: &str| word == ALL || cases.iter().any(|study| has_phase(study, word));
    let (phases, settings): (Vec<&str>, Vec<&str>) =
        subject.words.iter().map(String::as_str).partition(|w| is_phase(w));
    let has_settings = |study: &&&CaseStudy<'_>| settings.iter().all(|word| has_setting(study, word));
    // The first case of a benchmark has its default settings, if they were measured.
    let Some(&study) = cases.iter().find(has_settings) else {
        return Err(no_such(&subject.benchmark, &settings, &cases));
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

/// Returns the curve of another subject that is compared with a curve of the same record: of the same phase, unless the
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

/// Whether a case has a setting: `NAME=VALUE`, or a value alone.
fn has_setting(study: &CaseStudy<'_>, word: &str) -> bool {
    match word.split_once('=') {
        Some((name, value)) => study.case.settings.get(name).is_some_and(|own| own == value),
        None => study.case.settings.values().any(|own| own == word),
    }
}

/// The phase that is named like the benchmark, or else the first.
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

fn no_such(benchmark: &str, settings: &[&str], cases: &[&CaseStudy<'_>]) -> String {
    let phases = cases.first().map_or(Vec::new(), |study| study.case.phases.iter().map(|p| p.name.as_str()).collect());
    let cases: Vec<&str> = cases.iter().map(|study| study.case.label.as_str()).collect();
    format!(
        "`{benchmark}` has no phase or measured setting {}; phases: {}; cases: {}",
        settings.join(", "),
        phases.join(", "),
        cases.join(", ")
    )
}

/// Why a case has no curve.
fn failed(study: &CaseStudy<'_>) -> String {
    match study.failures.first() {
        Some(failure) => format!("`{}`: {failure}", study.case.label),
        None => format!("`{}` has no curve", study.case.label),
    }
}
