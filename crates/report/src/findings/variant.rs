//! The default case in a finding about a variant: without it, a reader cannot tell what the setting changes.

use super::{Finding, Kind, subject};
use crate::quantity::{FormatCost, factor};
use crate::{Analysis, PhaseStudy, text};
use landau_stats::Outcome;

/// Adds how the default case of the benchmark, the first one in the record, differs. Findings that already name it stay
/// unchanged.
pub(super) fn contrast(analysis: &Analysis<'_>, finding: &mut Finding) {
    let study = analysis.cases.iter().find(|study| Some(study.case.case) == finding.case);
    let Some(study) = study else { return };
    let Some(base) = analysis.cases.iter().find(|one| one.is_alike(study)) else { return };
    let phase = base.phases.iter().find(|phase| Some(&phase.phase.name) == finding.phase.as_ref());
    let Some(phase) = phase.filter(|_| base.case.case != study.case.case) else { return };
    let name = format!("{} (", subject(base, phase));
    if finding.items.iter().any(|item| item.starts_with(&name)) {
        return;
    }
    if let Some(words) = words(finding.kind, phase) {
        finding.text = format!("{} With default settings {words}.", finding.text);
    }
}

/// Describes what the default case shows instead; `None` if it shows the same.
fn words(kind: Kind, phase: &PhaseStudy<'_>) -> Option<String> {
    let judged = &phase.verdict.all;
    match kind {
        Kind::Outlier => Some(match text::highest_outlier(&phase.verdict) {
            None => "there are none".to_owned(),
            Some(highest) => format!("they cost {} at most", judged.unit.cost(highest as f64)),
        }),
        Kind::Cliff | Kind::Growth | Kind::Fall | Kind::Variation if judged.cliffs.is_empty() => {
            match (&judged.outcome, text::known_growth(judged)) {
                (Outcome::Flat { .. }, _) => Some("it is flat".to_owned()),
                (Outcome::Small, _) => Some(format!("it {}", text::small())),
                (Outcome::Grows { .. }, Some(growth)) if kind == Kind::Cliff => {
                    Some(format!("it grows {}, without a cliff", factor(growth.value)))
                }
                _ => None,
            }
        }
        _ => None,
    }
}
