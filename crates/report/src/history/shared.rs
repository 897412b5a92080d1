//! Changes of cost that most curves of a host have at one record: a sign that the state of the machine changed, or
//! something else at the same time.
//!
//! Changes are searched in each curve separately, but another state of the machine changes the level of most curves at
//! once. All of these changes are shown, but none is specific to its curve.

use super::{Change, Kind, Trend, change, day};
use crate::quantity::Unit;
use crate::shifts::CURVES_MIN;
use landau_stats::quantile::quantile;
use serde::Serialize;
use std::collections::BTreeMap;

/// A change of most curves of a host at one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedChange {
    /// The host.
    pub host: String,
    /// The path of the first record at the new levels.
    pub path: String,
    /// When its run began.
    pub started: String,
    /// The number of curves whose costs change there, in one direction.
    pub changed_count: usize,
    /// The number of curves of the host that were searched for changes.
    pub searched_count: usize,
    /// The median of the new levels over the old ones.
    pub ratio: f64,
    /// The interquartile range of these ratios.
    pub ratio_range: (f64, f64),
    /// What else changed between the two records, in words.
    pub facts: Vec<String>,
}

/// Returns the changes of cost that more than half of the curves of a host have at one record, in one direction. At
/// least 20 curves of the host must have been searched.
pub fn shared_changes(trends: &[Trend]) -> Vec<SharedChange> {
    let mut searched: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found: BTreeMap<(&str, &str, bool), (&Change, Vec<f64>)> = BTreeMap::new();
    let timed = trends.iter().filter(|one| one.kind == Kind::Cost(Unit::Time));
    for line in timed.flat_map(|one| &one.lines).filter(|line| line.is_searched) {
        *searched.entry(&line.name).or_default() += 1;
        for one in &line.changes {
            let key = (line.name.as_str(), one.path.as_str(), one.change.value > 1.0);
            found.entry(key).or_insert_with(|| (one, Vec::new())).1.push(one.change.value);
        }
    }
    let shared = found.into_iter().filter_map(|((host, ..), (first, mut ratios))| {
        let (changed_count, searched_count) = (ratios.len(), searched[host]);
        if searched_count < CURVES_MIN || 2 * changed_count <= searched_count {
            return None;
        }
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| quantile(&ratios, share);
        Some(SharedChange {
            host: host.to_owned(),
            path: first.path.clone(),
            started: first.started.clone(),
            changed_count,
            searched_count,
            ratio: at(0.5)?,
            ratio_range: (at(0.25)?, at(0.75)?),
            facts: first.facts.clone(),
        })
    });
    let mut shared: Vec<SharedChange> = shared.collect();
    shared.sort_by(|a, b| (&a.host, &a.started).cmp(&(&b.host, &b.started)));
    shared
}

impl SharedChange {
    /// Returns the change in words.
    pub fn text(&self) -> String {
        let (low, high) = self.ratio_range;
        let why = match self.facts.as_slice() {
            [] => "Landau knows of no other change there, so the machine was probably in another state from then on, \
                   and none of these changes is specific to its curve."
                .to_owned(),
            facts => format!("This also changed there: {}.", facts.join(", ")),
        };
        format!(
            "The costs of {} of {} curves of {} change at one record, {} ({}). The median change is {}; the middle \
             half are between {} and {}. {why}",
            self.changed_count,
            self.searched_count,
            self.host,
            self.path,
            day(&self.started),
            change(self.ratio),
            change(low),
            change(high)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    /// Histories of `count` curves, of which the first `changed` ones change at one record.
    fn many(count: usize, changed: usize) -> Vec<Trend> {
        let mut all = vec![example(); count];
        for (index, one) in all.iter_mut().enumerate() {
            one.lines[0].changes.truncate(usize::from(index < changed));
        }
        all
    }

    /// Guards against findings about every curve when the machine changed.
    #[test]
    fn a_change_of_most_curves_is_told_once() {
        let [shared] = &shared_changes(&many(24, 13))[..] else { panic!("none is found") };
        let expected = "The costs of 13 of 24 curves of a host change at one record, r8.ndjson (2026-11-09 10:00). The \
                        median change is +10.5%; the middle half are between +10.5% and +10.5%. This also changed \
                        there: release 6.1 → 6.12.";
        assert_eq!(shared.text(), expected);
        let mut without = shared.clone();
        without.facts.clear();
        assert!(without.text().contains(" was probably in another state from then on"), "{}", without.text());
        // Exactly half of the curves change, and then too few curves are searched.
        assert!(shared_changes(&many(24, 12)).is_empty() && shared_changes(&many(19, 19)).is_empty());
        // Some costs rise, and others fall.
        let mut mixed = many(24, 24);
        mixed[..12].iter_mut().for_each(|one| one.lines[0].changes[0].change.value = 0.9);
        assert!(shared_changes(&mixed).is_empty());
    }
}
