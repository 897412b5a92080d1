//! The benchmarks and cases that can be measured on this host, for `landau list`.

use crate::plan::{label, variants};
use crate::{Entry, Host, Parameter, Study, Support};
use serde::Serialize;

/// The cases of a benchmark that can be measured, and those that cannot.
#[derive(Debug, Clone, Serialize)]
pub struct Availability {
    /// The benchmark.
    pub name: String,
    /// The question that it answers.
    pub about: String,
    /// Labels of the cases that can be measured.
    pub cases: Vec<String>,
    /// Labels of the cases that cannot, each with the reason.
    pub unavailable: Vec<(String, String)>,
    /// Parameters: name, value in the study, help.
    pub parameters: Vec<(String, String, String)>,
}

/// Returns what can be measured on this host in a study, one row for each benchmark.
pub fn availability(registry: &[Entry], study: Study, host: &Host) -> Vec<Availability> {
    registry
        .iter()
        .map(|entry| {
            let (mut cases, mut unavailable) = (Vec::new(), Vec::new());
            for settings in variants(entry, study, host.clock.unit, &[], &[]) {
                let label = label(entry, &settings, study);
                match entry.supports(host, &settings, study) {
                    Support::Yes => cases.push(label),
                    Support::No(reason) => unavailable.push((label, reason)),
                }
            }
            let row = |one: &Parameter| (one.name.to_owned(), one.value(study).to_owned(), one.help.to_owned());
            Availability {
                name: entry.name.to_owned(),
                about: entry.about.to_owned(),
                cases,
                unavailable,
                parameters: entry.parameters.iter().map(row).collect(),
            }
        })
        .collect()
}
