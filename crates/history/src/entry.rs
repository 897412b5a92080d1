//! A record and a curve as stored in the index.

use landau_report::history::{LeftOut, Row};
use landau_report::quantity::Unit;
use landau_stats::Estimate;
use std::collections::BTreeMap;

/// The index entry of a record file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// Its number in the index.
    pub record: i64,
    /// Its path, relative to the directory of the collection.
    pub path: String,
    /// Why it is left out; empty if it is sound.
    pub reason: String,
    /// The version of the line format.
    pub schema: u32,
    /// The version of landau that wrote it.
    pub landau: String,
    /// The command line.
    pub command: String,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// The study.
    pub study: String,
    /// The seed.
    pub seed: u64,
    /// The unit of costs.
    pub unit: Unit,
    /// The machine in a few words; equal texts mean the same kind of host.
    pub host: String,
    /// `Linux` …
    pub system: String,
    /// The kernel's release.
    pub release: String,
    /// The distribution's name.
    pub distribution: String,
    /// `x86_64` …
    pub machine: String,
    /// The processor's model.
    pub processor: String,
    /// The number of processors.
    pub processor_count: u32,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// The platform of the lab; empty outside the lab.
    pub platform: String,
    /// Facts that may explain a change, as a JSON object of texts: kernel, mitigations, sysctls …
    pub facts: String,
    /// How the run ended; empty if the record has no end.
    pub outcome: String,
    /// The number of complete lines.
    pub line_count: u64,
    /// The last checksum, which identifies the record.
    pub seal: String,
    /// The number of the method that gave the verdicts; `None` without verdicts.
    pub method: Option<u32>,
    /// Whether the samples were judged again for the index.
    pub is_judged_anew: bool,
    /// The number of curves with a verdict.
    pub curve_count: usize,
    /// The text that a free-text search matches, in lower case.
    pub words: String,
}

/// A curve with the values of its verdict.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// The number of its record in the index.
    pub record: i64,
    /// The benchmark.
    pub benchmark: String,
    /// The label of the case.
    pub label: String,
    /// The phase.
    pub phase: String,
    /// `up` or `down`.
    pub direction: String,
    /// What n counts.
    pub axis: String,
    /// Every parameter with its value.
    pub settings: BTreeMap<String, String>,
    /// Steps of a pass.
    pub n: u64,
    /// The outcome: `flat`, `small_change`, `grows`, `falls`, `varies` or `unresolved`.
    pub outcome: String,
    /// The law, if one is named.
    pub law: Option<String>,
    /// The number of passes.
    pub passes: u64,
    /// The number of calls of all passes.
    pub calls: u64,
    /// The judged range of n.
    pub range: Option<(f64, f64)>,
    /// Cost at both ends of the judged range.
    pub ends: Option<(f64, f64)>,
    /// The growth over the judged range, 90%.
    pub growth: Option<Estimate>,
    /// The exponent over the last decade, 95%.
    pub exponent: Option<Estimate>,
    /// The growth of the 99th percentile, 90%.
    pub p99: Option<Estimate>,
    /// The fixed cost of the law, 95%.
    pub fixed: Option<Estimate>,
    /// The slope of the law, 95%.
    pub slope: Option<Estimate>,
    /// The n of the first cliff.
    pub cliff: Option<Estimate>,
    /// The factor of the first cliff.
    pub cliff_factor: Option<f64>,
    /// The n at which calls failed: the smallest, with the range over the passes.
    pub limit: Option<Estimate>,
    /// The error there.
    pub limit_error: Option<String>,
    /// The points of the curve: n, cost.
    pub points: Vec<(f64, Estimate)>,
}

impl Entry {
    /// Returns the record as a row of the collection's table.
    pub fn row(&self) -> Row {
        Row {
            path: self.path.clone(),
            started: self.started.clone(),
            study: self.study.clone(),
            host: self.host.clone(),
            kernel: self.kernel(),
            unit: self.unit,
            curve_count: self.curve_count,
            method: self.method,
            outcome: self.outcome.clone(),
            seal: self.seal.clone(),
            page: None,
        }
    }

    /// Returns the kernel: "Linux 6.12.0".
    pub fn kernel(&self) -> String {
        format!("{} {}", self.system, self.release)
    }

    /// Returns the facts that may explain a change, by name.
    pub fn facts(&self) -> BTreeMap<String, String> {
        serde_json::from_str(&self.facts).unwrap_or_default()
    }

    /// Returns the record as one that is left out.
    pub(crate) fn left_out(&self) -> LeftOut {
        LeftOut { path: self.path.clone(), reason: self.reason.clone() }
    }

    /// Returns the values by which two copies of the same record are recognised.
    pub(crate) fn content(&self) -> (&str, &str, u64, u64) {
        (&self.seal, &self.started, self.seed, self.line_count)
    }
}

impl Curve {
    /// Returns the cost at an n with its interval, interpolated between the two points around it on logarithmic scales.
    /// `None` outside the points, except within the window of the first or last one.
    pub fn cost_at(&self, n: f64) -> Option<Estimate> {
        /// How far calls were measured beyond the middle of the last window.
        const BEYOND: f64 = 1.05;
        let (first, last) = (self.points.first()?, self.points.last()?);
        if n < first.0 / BEYOND || n > last.0 * BEYOND {
            return None;
        }
        let above = self.points.partition_point(|point| point.0 < n);
        let (Some(low), Some(high)) = (above.checked_sub(1).and_then(|i| self.points.get(i)), self.points.get(above))
        else {
            return Some(if above == 0 { first.1 } else { last.1 });
        };
        let share = (n / low.0).ln() / (high.0 / low.0).ln();
        let between = |a: f64, b: f64| if a > 0.0 && b > 0.0 { a * (b / a).powf(share) } else { a + (b - a) * share };
        Some(Estimate {
            value: between(low.1.value, high.1.value),
            low: between(low.1.low, high.1.low),
            high: between(low.1.high, high.1.high),
        })
    }

    /// Returns the law that the verdict names; "constant" if the cost is flat, as in method 1.
    pub fn verdict_law(&self) -> Option<&str> {
        let is_flat = matches!(self.outcome.as_str(), "flat" | "constant");
        self.law.as_deref().or(is_flat.then_some("constant"))
    }

    /// Returns the largest n of a point.
    pub fn last_n(&self) -> Option<f64> {
        self.points.last().map(|point| point.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_between_two_points_is_on_the_line_in_logarithms() {
        let points = [(10.0, 100.0), (100.0, 1000.0), (1000.0, 1000.0)];
        let points = points.map(|(n, cost)| (n, Estimate { value: cost, low: cost * 0.9, high: cost * 1.1 })).to_vec();
        let curve = Curve { points, ..Curve::default() };
        let near = |n: f64, cost: f64| (curve.cost_at(n).unwrap().value / cost - 1.0).abs() < 1e-9;
        assert!(near(10.0, 100.0) && near(31.622_776_601_683_79, 316.227_766_016_837_9) && near(500.0, 1000.0));
        assert!(near(1040.0, 1000.0) && near(9.6, 100.0));
        assert_eq!([curve.cost_at(9.0), curve.cost_at(1100.0), Curve::default().cost_at(5.0)], [None; 3]);
    }
}
