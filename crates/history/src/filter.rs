//! Filters for records and curves.

use crate::entry::{Curve, Entry};

/// Conditions on records and curves; an absent condition always holds. Texts are compared case-insensitively.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The benchmark, or the whole label of the case.
    pub benchmark: Option<String>,
    /// The phase.
    pub phase: Option<String>,
    /// A part of the host's description.
    pub host: Option<String>,
    /// A part of the kernel's name and release.
    pub kernel: Option<String>,
    /// The study.
    pub study: Option<String>,
    /// The first day or time: `2026-11`, `2026-11-23`, `2026-11-23T14:30`, in UTC.
    pub since: Option<String>,
    /// The last day or time, included as a whole.
    pub until: Option<String>,
    /// Words that must occur in the path, the command, the host, the kernel, the cases or the notes.
    pub words: Vec<String>,
}

impl Filter {
    /// Returns whether a record matches. [`Filter::holds_curve`] tests its curves separately.
    pub fn holds(&self, entry: &Entry) -> bool {
        let contains = |wanted: &Option<String>, text: &str| {
            wanted.as_ref().is_none_or(|part| text.to_lowercase().contains(&part.to_lowercase()))
        };
        // Times in one format sort alphabetically; a day is a prefix of each of its times. The Z of UTC sorts after
        // every digit, colon and point.
        let wanted = |time: &str| time.to_ascii_uppercase().trim_end_matches('Z').to_owned();
        let is_after = self.since.as_ref().is_none_or(|since| *entry.started >= *wanted(since));
        let is_before = self.until.as_ref().is_none_or(|until| {
            let until = wanted(until);
            let end = entry.started.char_indices().nth(until.chars().count()).map_or(entry.started.len(), |at| at.0);
            entry.started[..end] <= *until
        });
        contains(&self.host, &entry.host)
            && contains(&self.kernel, &entry.kernel())
            && is_asked_for(self.study.as_ref(), &entry.study)
            && is_after
            && is_before
            && self.words.iter().all(|word| entry.words.contains(&word.to_lowercase()))
    }

    /// Returns whether a curve matches.
    pub fn holds_curve(&self, curve: &Curve) -> bool {
        let is_of_benchmark = |text: &str| is_asked_for(self.benchmark.as_ref(), text);
        (is_of_benchmark(&curve.benchmark) || is_of_benchmark(&curve.label))
            && is_asked_for(self.phase.as_ref(), &curve.phase)
    }

    /// Returns whether the filter has conditions on curves.
    pub fn is_about_curves(&self) -> bool {
        self.benchmark.is_some() || self.phase.is_some()
    }
}

/// Returns whether a name is the wanted one. The index compares names in the same way.
fn is_asked_for(wanted: Option<&String>, name: &str) -> bool {
    wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(started: &str) -> Entry {
        Entry {
            started: started.to_owned(),
            host: "AMD EPYC, 2 × x86_64".to_owned(),
            system: "Linux".to_owned(),
            release: "6.12.3".to_owned(),
            study: "quick".to_owned(),
            words: "runs/a.ndjson landau run bind".to_owned(),
            ..Entry::default()
        }
    }

    #[test]
    fn days_are_whole() {
        let holds = |since: Option<&str>, until: Option<&str>| {
            let filter =
                Filter { since: since.map(str::to_owned), until: until.map(str::to_owned), ..Filter::default() };
            filter.holds(&entry("2026-11-23T14:57:34.5Z"))
        };
        assert!(holds(Some("2026-11-23"), Some("2026-11-23")) && holds(Some("2026"), Some("2026-11")));
        assert!(holds(None, Some("2026-11-23T14")) && !holds(None, Some("2026-11-23T13")));
        // A minute or a second with the Z of UTC includes its fractions, too.
        assert!(holds(Some("2026-11-23T14:57Z"), Some("2026-11-23T14:57Z")));
        assert!(holds(Some("2026-11-23T14:57:34Z"), None) && holds(Some("2026-11-23T14:57:34.5Z"), None));
        assert!(!holds(Some("2026-11-23T14:57:35Z"), None) && !holds(None, Some("2026-11-23T14:56Z")));
        assert!(!holds(Some("2026-11-24"), None) && !holds(None, Some("2026-11-22")));
        assert!(Filter { until: Some("2027".to_owned()), ..Filter::default() }.holds(&entry("")));
    }

    #[test]
    fn names_are_compared_without_regard_to_case() {
        let named = |study: &str, benchmark: &str, phase: &str| Filter {
            study: Some(study.to_owned()),
            benchmark: Some(benchmark.to_owned()),
            phase: Some(phase.to_owned()),
            ..Filter::default()
        };
        let [benchmark, label, phase] = ["bind", "bind family=v6", "close"].map(str::to_owned);
        let curve = Curve { benchmark, label, phase, ..Curve::default() };
        assert!(named("Quick", "x", "x").holds(&entry("")) && !named("full", "x", "x").holds(&entry("")));
        for name in ["BIND", "Bind Family=V6"] {
            assert!(named("x", name, "Close").holds_curve(&curve), "{name}");
        }
        assert!(!named("x", "bin", "close").holds_curve(&curve) && !named("x", "bind", "bind").holds_curve(&curve));
        let since = Filter { since: Some("2026-11-23t14:30z".to_owned()), ..Filter::default() };
        assert!(since.holds(&entry("2026-11-23T14:57:34.5Z")));
    }

    #[test]
    fn every_word_must_occur() {
        let filter =
            |words: &[&str]| Filter { words: words.iter().map(|&w| w.to_owned()).collect(), ..Filter::default() };
        assert!(filter(&["BIND", "a.ndjson"]).holds(&entry("")) && !filter(&["bind", "fork"]).holds(&entry("")));
        let host = Filter { host: Some("epyc".to_owned()), kernel: Some("6.12".to_owned()), ..Filter::default() };
        assert!(host.holds(&entry("")) && !Filter { host: Some("xeon".to_owned()), ..host }.holds(&entry("")));
    }
}
