//! A collection of records: one quantity over its records in order of time, over hosts or over kernels. It is rendered
//! as text for a terminal and as the pages of a static site.
//!
//! `landau-history` reads the collection and decides what is comparable. This module words and draws the results.

mod drawing;
mod shared;
mod site;
mod terminal;

use crate::quantity::{FormatCost, Unit, change, count, digits, factor, percent};
use landau_stats::Estimate;
use landau_stats::change_points::ChangePoint;
use serde::Serialize;
pub use shared::{SharedChange, shared_changes};
pub use site::{Site, index_page, record_path, subject_page, subject_path};
pub use terminal::{grouped, list, overview, trend};

/// A record of a collection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The path, relative to the directory of the collection.
    pub path: String,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// The study.
    pub study: String,
    /// The machine in a few words.
    pub host: String,
    /// The kernel's name and release.
    pub kernel: String,
    /// The unit of costs.
    pub unit: Unit,
    /// The number of curves with a verdict.
    pub curve_count: usize,
    /// The number of the method that gave the verdicts; absent without verdicts.
    pub method: Option<u32>,
    /// How the run ended.
    pub outcome: String,
    /// The last checksum, which identifies the record.
    pub seal: String,
    /// The record's page in the site, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// A file or a curve that is left out, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The path of the record.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// How values of a quantity are formatted and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A cost in this unit; changes are ratios.
    Cost(Unit),
    /// A factor; changes are ratios.
    Factor,
    /// A number of objects; changes are ratios.
    Count,
    /// An exponent; changes are differences.
    Exponent,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The records in order of time.
    Dates,
    /// The hosts, a value for each.
    Hosts,
    /// The kernels, a value for each.
    Kernels,
}

/// A value of the quantity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// The path of the record; for a host or a kernel, its name.
    pub name: String,
    /// When the run began, RFC 3339 in UTC; empty for a host or a kernel.
    pub started: String,
    /// The value; for a host or a kernel, the median of its records.
    pub value: f64,
    /// The interval of the record; for a host or a kernel, the smallest and the largest record.
    pub range: (f64, f64),
    /// The number of records.
    pub record_count: usize,
}

/// A change of the level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// The index of the first point at the new level.
    pub index: usize,
    /// The path of its record.
    pub path: String,
    /// When its run began.
    pub started: String,
    /// The new level over the old one, 95%; for exponents the difference.
    pub change: Estimate,
    /// The p value of equal levels, corrected; 0 for counts, which are exact.
    pub p: f64,
    /// What else changed between the two records, in words.
    pub facts: Vec<String>,
}

/// The values of one host, or all of them over hosts or kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The host; empty over hosts and kernels.
    pub name: String,
    /// The values in order.
    pub points: Vec<Point>,
    /// Whether it was searched for changes: over dates, if there are enough values.
    pub is_searched: bool,
    /// The changes.
    pub changes: Vec<Change>,
}

/// One quantity of one curve over a collection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The benchmark.
    pub benchmark: String,
    /// The label of the case.
    pub case: String,
    /// The phase.
    pub phase: String,
    /// The quantity in words: "cost at n = 1,000".
    pub quantity: String,
    /// How its values are formatted.
    pub kind: Kind,
    /// The horizontal axis.
    pub over: Over,
    /// The lines, the one with the most points first.
    pub lines: Vec<Line>,
    /// Records with this curve that cannot be compared with the others.
    pub refused: Vec<LeftOut>,
}

impl Kind {
    /// Returns whether changes are ratios.
    pub fn is_ratio(self) -> bool {
        self != Self::Exponent
    }

    /// Returns a value as text.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Cost(unit) => unit.cost(value),
            Self::Factor => factor(value),
            Self::Count => count(value),
            Self::Exponent => digits(value),
        }
    }

    /// Formats the change of a level: "+5% (+3.2% to +6.9%)".
    fn change_text(self, by: &Estimate) -> String {
        let one = |value: f64| if self.is_ratio() { change(value) } else { format!("{value:+.3}") };
        if by.low.to_bits() == by.high.to_bits() {
            return one(by.value);
        }
        format!("{} ({} to {})", one(by.value), one(by.low), one(by.high))
    }
}

impl Change {
    /// Returns the change found at a point. The difference in `found` is on the scale of the search: logarithms for
    /// ratios.
    pub fn new(found: &ChangePoint, kind: Kind, at: &Point, facts: Vec<String>) -> Self {
        let by = if kind.is_ratio() { found.difference.map(f64::exp) } else { found.difference };
        Self { index: found.index, path: at.name.clone(), started: at.started.clone(), change: by, p: found.p, facts }
    }

    /// Returns the change in one sentence.
    pub fn text(&self, kind: Kind) -> String {
        let certainty = match self.p {
            0.0 => String::new(),
            p if p < 0.001 => ", p < 0.001".to_owned(),
            p => format!(", p = {p:.3}"),
        };
        let also = match self.facts.as_slice() {
            [] => String::new(),
            facts => format!("; with it changed {}", facts.join(", ")),
        };
        format!("{} from {} on ({}){certainty}{also}", kind.change_text(&self.change), day(&self.started), self.path)
    }
}

impl Trend {
    /// Returns the curve: "bind range=40000-42001 · close".
    pub fn subject(&self) -> String {
        format!("{} · {}", self.case, self.phase)
    }

    /// Returns the title: "cost at n = 1,000 over dates".
    pub fn title(&self) -> String {
        let over = match self.over {
            Over::Dates => "dates",
            Over::Hosts => "hosts",
            Over::Kernels => "kernels",
        };
        format!("{} over {over}", self.quantity)
    }

    /// Returns the number of histories that were searched for changes.
    pub fn searched_count(&self) -> usize {
        self.lines.iter().filter(|line| line.is_searched).count()
    }

    /// Returns the number of changes on all lines.
    pub fn change_count(&self) -> usize {
        self.lines.iter().map(|line| line.changes.len()).sum()
    }

    /// Returns the number of points on all lines.
    pub fn point_count(&self) -> usize {
        self.lines.iter().map(|line| line.points.len()).sum()
    }
}

impl Line {
    /// Returns the lowest and the highest value. Intervals are excluded, because one wide interval would flatten the
    /// line.
    fn extent(&self) -> (f64, f64) {
        let values = || self.points.iter().map(|point| point.value);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    }

    /// Returns the last value over the first, or the spread of the values, in a few words.
    fn spread(&self, kind: Kind) -> String {
        let (low, high) = self.extent();
        match (kind.is_ratio(), low > 0.0) {
            _ if self.points.len() < 2 => String::new(),
            (true, true) => format!("varies by {}", percent(high / low - 1.0)),
            _ => format!("varies by {}", digits(high - low)),
        }
    }
}

/// The vertical axis: from the lowest to the highest value, but at least a tenth of the value, so that a level without
/// a change looks flat.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(lines: &[Line], kind: Kind) -> Self {
        let every = || lines.iter().filter(|line| !line.points.is_empty()).map(Line::extent);
        let low = every().map(|(low, _)| low).fold(f64::INFINITY, f64::min);
        let high = every().map(|(_, high)| high).fold(f64::NEG_INFINITY, f64::max);
        let middle = f64::midpoint(low, high);
        let least = if kind.is_ratio() { 0.05 * middle.abs() } else { 0.05 };
        let half = ((high - low) / 2.0 * 1.1).max(least).max(f64::MIN_POSITIVE);
        Self { low: middle - half, high: middle + half }
    }

    /// Returns the position of a value from 0, the bottom, to 1. Values beyond the ends are clamped.
    fn place(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Formats the day and the minute of a time: "2026-11-23 14:57".
fn day(started: &str) -> String {
    let minute: String = started.chars().take(16).collect();
    minute.replace('T', " ")
}

/// Formats the day of a time: "2026-11-23". A record from elsewhere may have any text there.
fn date(started: &str) -> String {
    started.chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(index: usize, value: f64) -> Point {
        Point {
            name: format!("r{index}.ndjson"),
            started: format!("2026-11-{:02}T10:00:00Z", index + 1),
            value,
            range: (value * 0.99, value * 1.01),
            record_count: 1,
        }
    }

    pub(super) fn example() -> Trend {
        let points: Vec<Point> = (0..12).map(|i| point(i, if i < 8 { 1000.0 } else { 1100.0 } + i as f64)).collect();
        let found = ChangePoint { index: 8, difference: Estimate { value: 0.1, low: 0.09, high: 0.11 }, p: 0.0001 };
        let change = Change::new(&found, Kind::Cost(Unit::Time), &points[8], vec!["release 6.1 → 6.12".to_owned()]);
        Trend {
            benchmark: "dup".to_owned(),
            case: "dup".to_owned(),
            phase: "dup".to_owned(),
            quantity: "cost at n = 1,000".to_owned(),
            kind: Kind::Cost(Unit::Time),
            over: Over::Dates,
            lines: vec![Line { name: "a host".to_owned(), points, is_searched: true, changes: vec![change] }],
            refused: vec![LeftOut { path: "x.ndjson".to_owned(), reason: "counts instructions".to_owned() }],
        }
    }

    #[test]
    fn a_change_is_told_with_its_interval_and_what_changed_with_it() {
        let trend = example();
        let text = trend.lines[0].changes[0].text(trend.kind);
        assert_eq!(
            text,
            "+10.5% (+9.42% to +11.6%) from 2026-11-09 10:00 on (r8.ndjson), p < 0.001; with it changed \
             release 6.1 → 6.12"
        );
    }

    /// Guards against noise that fills the height of a chart.
    #[test]
    fn a_level_without_a_change_looks_like_one() {
        let points = vec![point(0, 100.0), point(1, 100.4)];
        let line = Line { name: String::new(), points, is_searched: false, changes: Vec::new() };
        let scale = Scale::of(&[line], Kind::Factor);
        assert!((scale.place(100.4) - scale.place(100.0)).abs() < 0.05);
        assert!((scale.place(1e9) - 1.0).abs() < 1e-12 && scale.place(0.0).abs() < 1e-12);
    }
}
