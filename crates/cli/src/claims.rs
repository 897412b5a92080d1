//! Resolves the words of a claim to benchmarks, phases and settings, and selects the cases that decide it. Used by
//! `check`, `lab test` and `lab bisect`.

use anyhow::bail;
use landau_bench::REGISTRY;
use landau_claims::{Assertion, Claim, Reference, Subject};
use landau_engine::{Entry, Host, Pinning, Settings, Study, Word, describe_host, word};
use std::collections::BTreeMap;

/// Every phase.
const ALL: &str = "*";

/// Returns the claim with at most one phase for each subject. Each setting is written as `SETTING=VALUE`; the user may
/// have typed only the value.
///
/// # Errors
///
/// Fails on a benchmark, phase, setting or value that does not exist, on a value that more than one setting accepts,
/// and on several phases or several values of one setting.
pub(crate) fn resolved(claim: &Claim) -> anyhow::Result<Claim> {
    let subject = resolved_subject(&claim.subject)?;
    let assertion = match &claim.assertion {
        Assertion::Ratio { relation, factor, of: Reference::Subject(other), n } => {
            let of = Reference::Subject(resolved_subject(other)?);
            Assertion::Ratio { relation: *relation, factor: *factor, of, n: *n }
        }
        other => other.clone(),
    };
    Ok(Claim { subject, assertion })
}

fn resolved_subject(subject: &Subject) -> anyhow::Result<Subject> {
    let benchmark = &subject.benchmark;
    if Entry::find(REGISTRY, benchmark)?.timeline.is_some() {
        bail!("`{benchmark}` is a timeline: it has rates, which landau show prints, but no curve for a claim");
    }
    let (mut phase, mut settings) = (None, BTreeMap::new());
    for text in &subject.words {
        let named = if text == ALL { Word::Phase(ALL) } else { word(REGISTRY, benchmark, text)? };
        let before = match named {
            Word::Phase(name) => phase.replace(name),
            Word::Setting { name, value } => settings.insert(name, value),
        };
        if let Some(before) = before {
            bail!("`{subject}` has both `{before}` and `{text}`; omit one of them");
        }
    }
    let settings = settings.iter().map(|(name, value)| format!("{name}={value}"));
    let words = settings.chain(phase.map(str::to_owned)).collect();
    Ok(Subject { words, ..subject.clone() })
}

/// Returns the settings that a resolved subject names.
pub(crate) fn settings(subject: &Subject) -> impl Iterator<Item = (&str, &str)> {
    subject.words.iter().filter_map(|word| word.split_once('='))
}

/// Range of n over which a case must be measured.
#[derive(Debug, Default)]
struct Extent {
    /// The settings that differ from those of the quick study.
    named: Vec<String>,
    /// The largest number of objects that a claim needs.
    to: Option<u64>,
    /// Whether a claim is about the whole curve of the study.
    is_whole: bool,
}

/// Returns the cases that decide resolved claims, for `landau run --case`. Each case has the size of the quick study,
/// unless its claims name an n; then it is measured up to the largest. The default case of a benchmark precedes its
/// other cases.
pub(crate) fn cases<'c>(claims: impl Iterator<Item = &'c Claim>) -> anyhow::Result<Vec<String>> {
    // Keyed by the benchmark, the number of settings that differ from the study's, and all settings, because `fork` and
    // `fork.linkage=dynamic` may be the same case.
    let mut extents: BTreeMap<(&str, usize, BTreeMap<String, String>), Extent> = BTreeMap::new();
    for claim in claims {
        let other = match &claim.assertion {
            Assertion::Ratio { of: Reference::Subject(other), .. } => Some(other),
            _ => None,
        };
        for subject in std::iter::once(&claim.subject).chain(other) {
            let of_study = Settings::of_study(Entry::find(REGISTRY, &subject.benchmark)?.parameters, Study::Quick);
            let mut own = of_study.clone();
            settings(subject).for_each(|(name, value)| own.set(name, value));
            let differing = settings(subject).filter(|(name, value)| of_study.text(name) != *value);
            let named: Vec<String> = differing.map(|(name, value)| format!("{name}={value}")).collect();
            let extent = extents.entry((subject.benchmark.as_str(), named.len(), own.as_map().clone())).or_default();
            extent.named = named;
            extent.to = extent.to.max(claim.steps());
            extent.is_whole |= claim.steps().is_none();
        }
    }
    let host = describe_host(Pinning::Last)?.0;
    let mut cases = Vec::new();
    for ((benchmark, _, settings), extent) in extents {
        let steps = steps(benchmark, settings, &extent, &host)?.map(|n| format!("n={n}"));
        let words = std::iter::once(benchmark.to_owned()).chain(extent.named).chain(steps);
        cases.push(words.collect::<Vec<String>>().join("."));
    }
    Ok(cases)
}

/// Returns the number of objects to measure; `None` if it is that of the study.
fn steps(
    benchmark: &str,
    settings: BTreeMap<String, String>,
    extent: &Extent,
    host: &Host,
) -> anyhow::Result<Option<u64>> {
    let names_n = extent.named.iter().any(|one| one.starts_with("n="));
    let Some(to) = extent.to.filter(|_| !names_n) else { return Ok(None) };
    let of_study = Entry::find(REGISTRY, benchmark)?.steps(host, &Settings::from_map(settings), Study::Quick);
    Ok(Some(if extent.is_whole { to.max(of_study) } else { to }).filter(|n| *n != of_study))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(text: &str) -> Claim {
        resolved(&text.parse().unwrap()).unwrap()
    }

    fn shown(texts: &[&str]) -> Vec<String> {
        let claims: Vec<Claim> = texts.iter().map(|text| claim(text)).collect();
        cases(claims.iter()).unwrap()
    }

    #[test]
    fn words_are_spelt_out() {
        assert_eq!(claim("fork.run.static: O(1)").to_string(), "fork.linkage=static.run: O(1) within 10%");
        let ratio = claim("fork: < 2x fork.static at 90").to_string();
        assert_eq!(ratio, "fork: < 2x fork.linkage=static at 90");
        assert_eq!(claim("socket.*.ns: no cliff").to_string(), "socket.*.ns: no cliff");
    }

    /// Guards against a claim that is decided by a curve that the user did not mean.
    #[test]
    fn what_names_no_curve_is_an_error() {
        let table = [
            ("bnid: O(1)", "did you mean `bind`?"),
            ("bind.clsoe: O(1)", "did you mean `close`?"),
            ("fork: < 2x fork.statc at 90", "did you mean `static`?"),
            ("fork.linkage=x: O(1)", "`x` is not one of"),
            ("fork.link=static: O(1)", "no parameter `link`"),
            ("request.poll: O(1)", "write backend=poll or idle=poll"),
            ("fork.300: O(1)", "no phase or setting `300`"),
            ("bind.socket.close: O(1)", "has both `socket` and `close`"),
            ("bind.socket.*: O(1)", "has both `socket` and `*`"),
            ("fork.static.musl: O(1)", "has both `static` and `musl`"),
            ("download: O(1)", "is a timeline"),
        ];
        for (text, expected) in table {
            let error = resolved(&text.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    /// Guards against a claim that shortens the curve that another claim needs.
    #[test]
    fn a_claim_is_measured_as_far_as_it_asks() {
        assert_eq!(shown(&["socket: < 2us at 100", "socket.*: no cliff below 50"]), ["socket.n=101"]);
        assert_eq!(shown(&["socket: < 2us at 100", "socket.*: no cliff"]), ["socket"]);
        assert_eq!(shown(&["socket: no limit below 20000", "socket.*: no cliff"]), ["socket.n=20200"]);
        // The number of steps of `bind` depends on the host.
        assert_eq!(shown(&["bind: < 2us at 100", "bind: O(1)"]), ["bind"]);
    }

    /// Guards against a setting or a side of a ratio that is not measured, and against two cases that are the same.
    #[test]
    fn settings_and_the_other_side_of_a_ratio_are_measured() {
        let claims = ["fork.static: < 2x fork.musl at 200", "fork.dynamic: O(1)", "fork: no cliff"];
        assert_eq!(shown(&claims), ["fork", "fork.linkage=musl.n=202", "fork.linkage=static.n=202"]);
        let twice = ["bind.range=40000-42001.v6: O(1)", "bind.v6: O(1)"];
        assert_eq!(shown(&twice), ["bind.family=v6", "bind.family=v6.range=40000-42001"]);
    }
}
