//! Findings about the functions that account for the growth of a call, from an explanation or a profile of the record.

use super::{Finding, Kind, told, weight};
use crate::quantity::{count, duration};
use crate::{Analysis, CaseStudy, explained, profiled};
use landau_record::schema::Branching;

/// Adds the findings about the functions of one case, for each phase that was explained and grows.
pub(super) fn of_case(analysis: &Analysis<'_>, study: &CaseStudy<'_>, found: &mut Vec<Finding>) {
    let case = study.case.case;
    for profile in analysis.record.profiles.iter().filter(|one| one.case == case) {
        let growth = format!(
            "a call takes {} longer at {} than at {}",
            duration(profile.measured_growth_ns.value),
            profiled::range(profile, 1),
            profiled::range(profile, 0)
        );
        let first = profiled::growing(profile).next().map(|one| one.name.as_str());
        // For a growth that samples cannot explain, there may be only the instructions.
        let (branching, first) = if profile.is_judged() {
            (profile.branching.as_ref(), first)
        } else {
            (None, Some("instructions and time"))
        };
        let one = Carried { phase: &profile.phase, growth, branching, first };
        found.extend(one.finding(study, profile.measured_ns, profiled::lead(profile)));
    }
    for explanation in analysis.record.explanations.iter().filter(|one| one.case == case) {
        let (at, costs) = (&explanation.at, &explanation.sample_instructions);
        let ([from, .., to], [low, .., high]) = (at.as_slice(), costs.as_slice()) else { continue };
        let growth = format!(
            "a call takes {} instructions more at n = {} than at n = {}",
            count(explanation.growth() as f64),
            count(*to as f64),
            count(*from as f64)
        );
        let first = explanation.functions.first().map(|one| one.name.as_str());
        let one = Carried { phase: &explanation.phase, growth, branching: explanation.branching.as_ref(), first };
        found.extend(one.finding(study, [*low as f64, *high as f64], explained::lead(explanation)));
    }
}

/// The explanation of a phase.
struct Carried<'a> {
    phase: &'a str,
    growth: String,
    branching: Option<&'a Branching>,
    /// The function with the largest share without its callees.
    first: Option<&'a str>,
}

impl Carried<'_> {
    /// Returns the finding, if there is anything to report.
    fn finding(&self, study: &CaseStudy<'_>, costs: [f64; 2], mut lead: Vec<String>) -> Option<Finding> {
        if lead.is_empty() {
            return None;
        }
        let curve = study.phases.iter().find(|one| one.phase.name == self.phase);
        let name = curve.map_or_else(|| format!("{} · {}", study.case.label, self.phase), |curve| told(study, curve));
        let text = format!("{name}: {}. {}", self.growth, lead.remove(0));
        let largest = self.branching.and_then(|one| one.parts.first()).map(|part| part.name.as_str());
        let brief =
            format!("{} · {} ({})", study.case.label, self.phase, largest.or(self.first).unwrap_or("[unknown]"));
        let weight = weight::weight(costs[1] / costs[0].max(1.0), 1.0);
        let theme = format!("{} functions", study.case.benchmark);
        let found = Finding::of_case(Kind::Functions, study, weight, text, theme, brief);
        Some(Finding { phase: Some(self.phase.to_owned()), consequence: lead.join(" "), ..found })
    }
}
