//! One quantity over a collection: which values are comparable, their order, and where the level changed.

use crate::entry::{Curve, Entry};
use crate::{Collection, Quantity};
use landau_report::history::{Change, LeftOut, Line, Over, Point, Trend};
use landau_report::quantity::Unit;
use landau_stats::Estimate;
use landau_stats::change_points::{ChangePoint, SIDE_MIN, change_points, exact_change_points};
use landau_stats::histories::LEVEL;
use std::collections::{BTreeMap, HashMap};

/// Maximum number of facts reported with a change.
const FACTS_MAX: usize = 4;
/// Maximum length of a fact, in characters.
const FACT_MAX: usize = 40;

/// A curve in a record.
#[derive(Clone, Copy)]
struct Held<'a> {
    entry: &'a Entry,
    curve: &'a Curve,
}

/// A value that is comparable with the others of its trend.
struct Value<'a> {
    held: Held<'a>,
    value: Estimate,
}

/// Follows quantities over the records of a collection, for each curve that has them. Change points are searched over
/// dates and corrected for the number of histories searched: at most 5% of collections without a change show one.
pub fn trends(collection: &Collection, quantities: &[Quantity], over: Over) -> Vec<Trend> {
    let entries: HashMap<i64, &Entry> = collection.entries.iter().map(|entry| (entry.record, entry)).collect();
    let mut curves: BTreeMap<(&str, &str, &str), Vec<Held<'_>>> = BTreeMap::new();
    for curve in &collection.curves {
        let Some(entry) = entries.get(&curve.record) else { continue };
        let key = (curve.benchmark.as_str(), curve.label.as_str(), curve.phase.as_str());
        curves.entry(key).or_default().push(Held { entry, curve });
    }
    let every = curves.into_values().flat_map(|held| quantities.iter().map(move |one| Draft::new(held.clone(), *one)));
    let mut drafts: Vec<Draft<'_>> = every.collect();
    drafts.retain(|draft| !draft.values.is_empty());
    let searched = if over == Over::Dates { drafts.iter().map(Draft::tested_count).sum() } else { 0 };
    drafts.into_iter().map(|draft| draft.trend(over, searched)).collect()
}

/// The comparable values of one curve.
struct Draft<'a> {
    first: Held<'a>,
    quantity: Quantity,
    unit: Unit,
    values: Vec<Value<'a>>,
    refused: Vec<LeftOut>,
}

/// The properties that curves must share to be compared.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Terms<'a> {
    unit: &'static str,
    settings: &'a BTreeMap<String, String>,
    method: Option<u32>,
    /// The law of the verdict, if values of the quantity depend on it.
    law: Option<&'a str>,
}

impl<'a> Held<'a> {
    fn terms(&self, quantity: Quantity) -> Terms<'a> {
        let unit = match self.entry.unit {
            Unit::Time => "time",
            Unit::EmulatedTime => "emulated time",
            Unit::Instructions => "instructions",
        };
        let law = self.curve.verdict_law().filter(|_| quantity.is_of_law());
        Terms { unit, settings: &self.curve.settings, method: self.entry.method, law }
    }
}

impl Terms<'_> {
    /// Returns why a curve with these terms cannot be compared with the others; `None` if it can.
    fn unlike(&self, others: &Terms<'_>) -> Option<String> {
        if self.unit != others.unit {
            return Some(format!("its costs are {}, those of the others {}", self.unit, others.unit));
        }
        if self.settings != others.settings {
            let names = self.settings.keys().chain(others.settings.keys());
            let mut names: Vec<&String> =
                names.filter(|name| self.settings.get(*name) != others.settings.get(*name)).collect();
            names.sort_unstable();
            names.dedup();
            let told = |settings: &BTreeMap<String, String>, name: &str| {
                settings.get(name).map_or("absent".to_owned(), |value| shortened(value))
            };
            let one = |name: &&String| {
                format!("{name} is {}, in the others {}", told(self.settings, name), told(others.settings, name))
            };
            return Some(format!("other settings: {}", names.iter().map(one).collect::<Vec<_>>().join("; ")));
        }
        if self.method != others.method {
            let of = |method: Option<u32>| method.map_or("none".to_owned(), |method| format!("method {method}"));
            let (own, usual) = (of(self.method), of(others.method));
            return Some(format!("judged by {own}, the others by {usual}; see --rejudge"));
        }
        if self.law != others.law {
            let of = |law: Option<&str>| law.map_or("not named".to_owned(), shortened);
            return Some(format!("its law is {}, that of the others {}", of(self.law), of(others.law)));
        }
        None
    }
}

impl<'a> Draft<'a> {
    /// Separates the values of a curve that are comparable with most of the others. `held` must not be empty, and is in
    /// the order of the index.
    fn new(mut held: Vec<Held<'a>>, quantity: Quantity) -> Self {
        held.sort_by(|a, b| (&a.entry.started, &a.entry.path).cmp(&(&b.entry.started, &b.entry.path)));
        let terms = usual_terms(&held, quantity);
        let mut refused = Vec::new();
        let mut refuse = |one: &Held<'_>, reason: String| {
            refused.push(LeftOut { path: one.entry.path.clone(), reason });
        };
        held.retain(|one| match one.terms(quantity).unlike(&terms) {
            Some(reason) => {
                refuse(one, reason);
                false
            }
            None => true,
        });
        let quantity = match quantity {
            Quantity::Cost { n: None } => Quantity::Cost { n: usual_end(&held) },
            other => other,
        };
        let mut values = Vec::new();
        for one in &held {
            match quantity.of(one.curve) {
                Ok(value) => values.push(Value { held: *one, value }),
                Err(reason) => refuse(one, reason),
            }
        }
        Self { first: held[0], quantity, unit: held[0].entry.unit, values, refused }
    }

    /// Returns the number of histories that are tested; values without an error need no test.
    fn tested_count(&self) -> usize {
        let is_tested = |values: &&Vec<&Value<'_>>| !self.is_exact() && self.is_searched(values.len());
        self.by_host().values().filter(is_tested).count()
    }

    fn is_exact(&self) -> bool {
        self.quantity.is_exact(self.unit)
    }

    /// Returns whether a change can be found in this number of values.
    fn is_searched(&self, count: usize) -> bool {
        count >= if self.is_exact() { 2 } else { 2 * SIDE_MIN }
    }

    /// Returns the values of each host, in order of time.
    fn by_host(&self) -> BTreeMap<&'a str, Vec<&Value<'a>>> {
        let mut hosts: BTreeMap<&str, Vec<&Value<'_>>> = BTreeMap::new();
        for value in &self.values {
            hosts.entry(value.held.entry.host.as_str()).or_default().push(value);
        }
        hosts
    }

    fn trend(&self, over: Over, searched: usize) -> Trend {
        let curve = self.first.curve;
        let lines = match over {
            Over::Dates => self.over_dates(searched),
            Over::Hosts => self.over_names(&|entry| vec![entry.host.clone()]),
            // The host is part of the name only if there are several.
            Over::Kernels if self.by_host().len() == 1 => self.over_names(&|entry| vec![entry.kernel()]),
            Over::Kernels => self.over_names(&|entry| vec![entry.kernel(), entry.host.clone()]),
        };
        Trend {
            benchmark: curve.benchmark.clone(),
            case: curve.label.clone(),
            phase: curve.phase.clone(),
            quantity: self.quantity.words(),
            kind: self.quantity.kind(self.unit),
            over,
            lines,
            refused: self.refused.clone(),
        }
    }

    /// Returns a line for each host, the one with the most records first.
    fn over_dates(&self, searched: usize) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for (host, values) in self.by_host() {
            let point = |value: &&Value<'_>| Point {
                name: value.held.entry.path.clone(),
                started: value.held.entry.started.clone(),
                value: value.value.value,
                range: (value.value.low, value.value.high),
                record_count: 1,
            };
            let points: Vec<Point> = values.iter().map(point).collect();
            let changes = self.changes(&values, &points, searched);
            let is_searched = self.is_searched(points.len());
            lines.push(Line { name: host.to_owned(), points, is_searched, changes });
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.points.len()));
        lines
    }

    /// Returns the distance of two adjacent possible values on the logarithmic scale. Costs are whole nanoseconds;
    /// cliffs and limits are whole numbers of objects. Other values are not discrete.
    fn step(&self, points: &[Point]) -> f64 {
        let smallest = points.iter().map(|point| point.value).fold(f64::INFINITY, f64::min);
        match self.quantity {
            Quantity::Cost { .. } | Quantity::Cliff | Quantity::Limit if smallest >= 1.0 => 1.0 / smallest,
            _ => 0.0,
        }
    }

    fn changes(&self, values: &[&Value<'_>], points: &[Point], searched: usize) -> Vec<Change> {
        let kind = self.quantity.kind(self.unit);
        let scale = |point: &Point| if kind.is_ratio() { point.value.ln() } else { point.value };
        let numbers: Vec<f64> = points.iter().map(scale).collect();
        let found: Vec<ChangePoint> = if self.is_exact() {
            exact_change_points(&numbers)
        } else {
            change_points(&numbers, self.step(points), searched, LEVEL)
        };
        let told = |change: &ChangePoint| {
            let facts = differences(values[change.index - 1].held.entry, values[change.index].held.entry);
            Change::new(change, kind, &points[change.index], facts)
        };
        found.iter().map(told).collect()
    }

    /// Returns one line with a value for each name: the median of its records.
    fn over_names(&self, names: &dyn Fn(&Entry) -> Vec<String>) -> Vec<Line> {
        // The name is part of the key, because 6.1-01 and 6.1-1 have equal numbers.
        let mut groups: BTreeMap<(Vec<Vec<Part>>, String), Vec<f64>> = BTreeMap::new();
        for value in &self.values {
            let parts = names(value.held.entry);
            let key = (parts.iter().map(|part| natural(part)).collect(), parts.join(", "));
            groups.entry(key).or_default().push(value.value.value);
        }
        let point = |((_, name), mut values): ((Vec<Vec<Part>>, String), Vec<f64>)| {
            values.sort_by(f64::total_cmp);
            let at = |share: f64| landau_stats::quantile::quantile(&values, share).unwrap_or_default();
            Point {
                name,
                started: String::new(),
                value: at(0.5),
                range: (at(0.0), at(1.0)),
                record_count: values.len(),
            }
        };
        let points = groups.into_iter().map(point).collect();
        vec![Line { name: String::new(), points, is_searched: false, changes: Vec::new() }]
    }
}

/// Returns the terms that most of the curves share; in a tie, those of the newest. For a quantity that depends on a
/// law, only curves that have a value count.
fn usual_terms<'a>(held: &[Held<'a>], quantity: Quantity) -> Terms<'a> {
    let mut counts: BTreeMap<Terms<'a>, (usize, usize)> = BTreeMap::new();
    let counts_here = |one: &Held<'_>| !quantity.is_of_law() || quantity.of(one.curve).is_ok();
    for (index, one) in held.iter().enumerate().filter(|(_, one)| counts_here(one)) {
        let count = counts.entry(one.terms(quantity)).or_default();
        *count = (count.0 + 1, index);
    }
    let usual = counts.into_iter().max_by_key(|(_, count)| *count);
    usual.map_or_else(|| held[0].terms(quantity), |(terms, _)| terms)
}

/// Returns the largest n that three of four curves reach, rounded to two digits.
fn usual_end(held: &[Held<'_>]) -> Option<f64> {
    let mut ends: Vec<f64> = held.iter().filter_map(|one| one.curve.last_n()).collect();
    ends.sort_by(f64::total_cmp);
    let end = *ends.get(ends.len() / 4)?;
    let unit = 10f64.powf(end.log10().floor() - 1.0).max(1.0);
    Some((end / unit).floor() * unit)
}

/// Describes the differences between two records of a host.
fn differences(before: &Entry, after: &Entry) -> Vec<String> {
    let (old, new) = (before.facts(), after.facts());
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    let differs = names.filter(|name| old.get(*name) != new.get(*name));
    let absent = "absent".to_owned();
    let told = |name: &String| {
        let value = |facts: &BTreeMap<String, String>| shortened(facts.get(name).unwrap_or(&absent));
        format!("{name}: {} → {}", value(&old), value(&new))
    };
    let mut all: Vec<String> = differs.map(told).collect();
    // A kernel explains more than a limit does.
    all.sort_by_key(|text| !text.starts_with("kernel"));
    if all.len() > FACTS_MAX {
        let more = all.len() - FACTS_MAX;
        all.truncate(FACTS_MAX);
        all.push(format!("{more} more facts"));
    }
    all
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= FACT_MAX {
        return text.to_owned();
    }
    text.chars().take(FACT_MAX - 1).chain(['…']).collect()
}

/// A part of a name; numbers are ordered by value.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Number(u64),
    Text(String),
}

/// Splits a name into numbers and the text between them, so that 6.9 is before 6.12.
fn natural(name: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for letter in name.chars() {
        match (letter.to_digit(10), parts.last_mut()) {
            (Some(digit), Some(Part::Number(number))) => {
                *number = number.saturating_mul(10).saturating_add(u64::from(digit));
            }
            (Some(digit), _) => parts.push(Part::Number(u64::from(digit))),
            (None, Some(Part::Text(text))) => text.push(letter),
            (None, _) => parts.push(Part::Text(letter.to_string())),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Place;
    use landau_report::history::shared_changes;

    /// A collection with one record a day for each host, given its cost at every n and its release.
    fn collection(records: &[(&str, f64, &str)]) -> Collection {
        let mut found = Collection {
            entries: Vec::new(),
            curves: Vec::new(),
            left_out: Vec::new(),
            record_count: records.len(),
            index: Place::Memory,
        };
        for (record, (index, (host, cost, release))) in (0_i64..).zip(records.iter().enumerate()) {
            found.entries.push(Entry {
                record,
                path: format!("{index}.ndjson"),
                started: format!("2026-{:02}-{:02}T00:00:00Z", 1 + index / 28, 1 + index % 28),
                host: (*host).to_owned(),
                system: "Linux".to_owned(),
                release: (*release).to_owned(),
                facts: format!("{{\"kernel\":\"{release}\",\"x\":\"{}\"}}", "y".repeat(60)),
                method: Some(8),
                ..Entry::default()
            });
            let points = [10.0, 100.0, 1000.0].map(|n| (n, Estimate::bare(*cost))).to_vec();
            let settings = BTreeMap::from([("threads".to_owned(), "0".to_owned())]);
            let label = "dup".to_owned();
            let curve = Curve { record, benchmark: label.clone(), label, points, settings, ..Curve::default() };
            found.curves.push(Curve { phase: "dup".to_owned(), ..curve });
        }
        found
    }

    /// Costs that differ by up to a percent.
    fn near(index: usize, cost: f64) -> f64 {
        cost * (1.0 + 0.01 * ((index * 7919) % 13) as f64 / 13.0)
    }

    const COST: Quantity = Quantity::Cost { n: None };

    #[test]
    fn a_change_is_told_with_the_kernel_that_came_with_it() {
        let records: Vec<(&str, f64, &str)> = (0..20)
            .map(|i| if i < 12 { ("a", near(i, 100.0), "6.1") } else { ("a", near(i, 110.0), "6.12") })
            .collect();
        let found = trends(&collection(&records), &[COST], Over::Dates);
        assert_eq!((found.len(), found[0].quantity.as_str()), (1, "cost at n = 1,000"));
        let changes = &found[0].lines[0].changes;
        assert_eq!((changes.len(), changes[0].path.as_str()), (1, "12.ndjson"), "{changes:?}");
        assert!(
            (changes[0].change.value - 1.1).abs() < 0.01 && changes[0].facts == ["kernel: 6.1 → 6.12"],
            "{changes:?}"
        );
    }

    /// Copies of the curve of a collection, each with independent errors.
    fn copied(mut collection: Collection, count: usize) -> Collection {
        let one = std::mem::take(&mut collection.curves);
        for copy in 0..count {
            for (index, curve) in one.iter().enumerate() {
                let error = 1.0 + 0.02 * ((index * 7919 + copy * 104_729) % 31) as f64 / 31.0;
                let mut curve = Curve { phase: format!("p{copy}"), ..curve.clone() };
                curve.points.iter_mut().for_each(|(_, cost)| *cost = cost.map(|cost| cost * error));
                collection.curves.push(curve);
            }
        }
        collection
    }

    /// Guards against reporting a state of the machine only as a change of each curve. One disturbed record changes
    /// none of them.
    #[test]
    fn a_state_of_the_machine_is_told_beside_the_changes() {
        let of = |cost: fn(usize) -> f64| {
            let records: Vec<(&str, f64, &str)> = (0..24).map(|i| ("a", cost(i), "6.1")).collect();
            trends(&copied(collection(&records), 24), &[COST], Over::Dates)
        };
        let found = of(|i| if i < 12 { 1000.0 } else { 1120.0 });
        assert!(found.iter().all(|one| one.change_count() == 1));
        let [shared] = &shared_changes(&found)[..] else { panic!("not told") };
        assert!(shared.path == "12.ndjson" && shared.changed_count > 20 && shared.searched_count == 24, "{shared:?}");
        assert!((shared.ratio - 1.12).abs() < 0.02 && shared.facts.is_empty(), "{shared:?}");
        let found = of(|i| if i == 12 { 1500.0 } else { 1000.0 });
        assert!(found.iter().all(|one| one.change_count() == 0) && shared_changes(&found).is_empty());
    }

    /// Guards against reporting the difference between two hosts as a change in time.
    #[test]
    fn hosts_have_lines_of_their_own() {
        let records: Vec<(&str, f64, &str)> =
            (0..20).map(|i| if i < 10 { ("a", near(i, 100.0), "6.1") } else { ("b", near(i, 300.0), "6.1") }).collect();
        let collection = collection(&records);
        let dates = trends(&collection, &[COST], Over::Dates);
        assert_eq!((dates[0].lines.len(), dates[0].change_count()), (2, 0));
        assert_eq!(dates[0].searched_count(), 2);
        let hosts = trends(&collection, &[COST], Over::Hosts);
        assert_eq!(hosts[0].searched_count(), 0);
        let points: Vec<(&str, usize)> =
            hosts[0].lines[0].points.iter().map(|point| (point.name.as_str(), point.record_count)).collect();
        assert_eq!(points, [("a", 10), ("b", 10)]);
    }

    #[test]
    fn kernels_are_in_the_order_of_their_numbers() {
        let found =
            trends(&collection(&[("a", 1.0, "6.12"), ("a", 2.0, "6.9"), ("a", 3.0, "6.12")]), &[COST], Over::Kernels);
        let told: Vec<(&str, f64)> =
            found[0].lines[0].points.iter().map(|point| (point.name.as_str(), point.value)).collect();
        assert_eq!(told, [("Linux 6.9", 2.0), ("Linux 6.12", 2.0)]);
        let found = trends(&collection(&[("a", 1.0, "6.12"), ("b", 2.0, "6.12")]), &[COST], Over::Kernels);
        let told: Vec<&str> = found[0].lines[0].points.iter().map(|point| point.name.as_str()).collect();
        assert_eq!(told, ["Linux 6.12, a", "Linux 6.12, b"]);
    }

    /// Guards against merging two kernels whose names differ only in the zeros of a number.
    #[test]
    fn names_with_equal_numbers_are_told_apart() {
        let records = [("a", 1.0, "6.1-1"), ("a", 2.0, "6.1-01"), ("a", 3.0, "6.1-1"), ("a", 9.0, "6.1-2")];
        let found = trends(&collection(&records), &[COST], Over::Kernels);
        let points = found[0].lines[0].points.iter();
        let told: Vec<(&str, f64, usize)> =
            points.map(|point| (point.name.as_str(), point.value, point.record_count)).collect();
        assert_eq!(told, [("Linux 6.1-01", 2.0, 1), ("Linux 6.1-1", 2.0, 2), ("Linux 6.1-2", 9.0, 1)]);
    }

    #[test]
    fn what_is_not_comparable_is_refused_with_the_reason() {
        let mut collection = collection(&[("a", 1.0, "6.1"); 7]);
        collection.entries[0].unit = Unit::Instructions;
        collection.curves[1].settings.insert("threads".to_owned(), "4".to_owned());
        collection.entries[2].method = Some(4);
        collection.curves[3].points.pop();
        let found = trends(&collection, &[Quantity::Cost { n: Some(1000.0) }], Over::Dates);
        assert_eq!(found[0].point_count(), 3);
        let reasons: Vec<&str> = found[0].refused.iter().map(|one| one.reason.as_str()).collect();
        assert_eq!(
            reasons,
            [
                "its costs are instructions, those of the others time",
                "other settings: threads is 4, in the others 0",
                "judged by method 4, the others by method 8; see --rejudge",
                "its points are at n = 10 to 100",
            ]
        );
    }

    /// Guards against comparing slopes per n and per n² as one quantity, and against losing the fixed costs of flat
    /// curves, whose verdict names no law.
    #[test]
    fn slopes_and_fixed_costs_of_other_laws_are_refused() {
        let mut collection = collection(&[("a", 1.0, "6.1"); 8]);
        for (index, curve) in collection.curves.iter_mut().enumerate() {
            // Most have a slope of a law that is drawn but not named. Such a law does not count as shared.
            curve.law = ["linear", "linear", "quadratic"].get(index).map(|law| (*law).to_owned());
            curve.outcome = if index == 3 { "flat" } else { "varies" }.to_owned();
            (curve.slope, curve.fixed) = (Some(Estimate::bare(5.0)), Some(Estimate::bare(5.0)));
        }
        for quantity in [Quantity::Slope, Quantity::Fixed] {
            let found = trends(&collection, &[quantity], Over::Dates);
            assert_eq!(found[0].point_count(), 2);
            let told: Vec<&str> = found[0].refused.iter().take(3).map(|one| one.reason.as_str()).collect();
            let linear = "that of the others linear";
            let laws = ["quadratic", "constant", "not named"].map(|law| format!("its law is {law}, {linear}"));
            assert_eq!(told, laws);
        }
        assert_eq!(trends(&collection, &[COST], Over::Dates)[0].point_count(), 8);
        collection.curves.drain(..3);
        collection.curves.iter_mut().for_each(|curve| curve.outcome = "flat".to_owned());
        assert_eq!(trends(&collection, &[Quantity::Fixed], Over::Dates)[0].point_count(), 5);
    }

    /// Guards against counting a history as searched that is too short for a change.
    #[test]
    fn short_histories_are_not_searched() {
        let mut collection = collection(&[("a", 1.0, "6.1"); 5]);
        let searched = |collection: &Collection| trends(collection, &[COST], Over::Dates)[0].searched_count();
        assert_eq!(searched(&collection), 0);
        collection.entries.iter_mut().for_each(|entry| entry.unit = Unit::Instructions);
        assert_eq!(searched(&collection), 1);
    }

    /// Guards against a change shown by chance in a collection of many curves.
    #[test]
    fn the_error_rate_is_that_of_all_histories_together() {
        let records: Vec<(&str, f64, &str)> =
            (0..18).map(|i| ("a", near(i, if i < 12 { 100.0 } else { 100.9 }), "6.1")).collect();
        let mut collection = collection(&records);
        let p = |collection: &Collection| {
            trends(collection, &[COST], Over::Dates).iter().find_map(|one| Some(one.lines[0].changes.first()?.p))
        };
        let alone = p(&collection).unwrap();
        for copy in 0..9 {
            let others: Vec<Curve> = collection.curves[..18].to_vec();
            collection.curves.extend(others.into_iter().map(|one| Curve { phase: format!("p{copy}"), ..one }));
        }
        if let Some(p) = p(&collection) {
            assert!((p / alone - 10.0).abs() < 1e-6, "{p} {alone}");
        } else {
            assert!(alone * 10.0 >= LEVEL);
        }
    }
}
