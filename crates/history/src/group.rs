//! Records grouped by host, kernel, study, benchmark or day.

use crate::entry::{Curve, Entry};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The key by which records are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// The kind of host.
    Host,
    /// The kernel.
    Kernel,
    /// The study.
    Study,
    /// The benchmarks; a record with several of them is in several groups.
    Benchmark,
    /// The day of the start.
    Day,
}

/// Records with the same key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The key.
    pub name: String,
    /// The number of records.
    pub record_count: usize,
    /// The start of the first and of the last run.
    pub started: (String, String),
}

/// Groups records, sorted by the key. `curves` are those of the records.
pub fn groups(entries: &[Entry], curves: &[Curve], by: Grouping) -> Vec<Group> {
    let mut benchmarks: BTreeMap<i64, BTreeSet<&str>> = BTreeMap::new();
    for curve in curves {
        benchmarks.entry(curve.record).or_default().insert(&curve.benchmark);
    }
    let names = |entry: &Entry| match by {
        Grouping::Host => vec![entry.host.clone()],
        Grouping::Kernel => vec![entry.kernel()],
        Grouping::Study => vec![entry.study.clone()],
        Grouping::Day => vec![entry.started.chars().take(10).collect()],
        Grouping::Benchmark => {
            benchmarks.get(&entry.record).into_iter().flatten().map(|&name| name.to_owned()).collect()
        }
    };
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for entry in entries {
        for name in names(entry) {
            groups.entry(name).or_default().push(&entry.started);
        }
    }
    let group = |(name, mut started): (String, Vec<&str>)| {
        started.sort_unstable();
        let end = |at: Option<&&str>| at.map_or(String::new(), |&text| text.to_owned());
        Group { name, record_count: started.len(), started: (end(started.first()), end(started.last())) }
    };
    groups.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_in_the_group_of_each_of_its_benchmarks() {
        let entry = |record: i64, started: &str| Entry { record, started: started.to_owned(), ..Entry::default() };
        let curve =
            |record: i64, benchmark: &str| Curve { record, benchmark: benchmark.to_owned(), ..Curve::default() };
        let entries = [entry(1, "2026-11-02T"), entry(2, "2026-11-01T")];
        let curves = [curve(1, "bind"), curve(1, "bind"), curve(1, "dup"), curve(2, "dup")];
        let found = groups(&entries, &curves, Grouping::Benchmark);
        let told: Vec<(&str, usize)> = found.iter().map(|group| (group.name.as_str(), group.record_count)).collect();
        assert_eq!(told, [("bind", 1), ("dup", 2)]);
        assert_eq!(found[1].started, ("2026-11-01T".to_owned(), "2026-11-02T".to_owned()));
        assert_eq!(groups(&entries, &curves, Grouping::Day).len(), 2);
    }
}
