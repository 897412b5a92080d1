//! By how much the curves of two records of one system differ beyond what is known of their benchmarks.
//!
//! Interference from outside, or the memory as the last program left it, changes the costs of most curves at once,
//! by more than the [differences between runs](crate::between_runs) that are known of each benchmark. A difference
//! that only a few curves show is theirs; one that most show is one of the runs. So the differences of all curves
//! that were not paired show what must be added to the error of each ([`excess`]).

use crate::Analysis;
use crate::comparisons::are_sides;
use crate::quantity::percent;
use landau_record::Record;
use landau_record::schema::Clock;
use landau_stats::{Comparison, Options, excess};
use serde::Serialize;

/// Fewest curves that show what most of them do.
const CURVES_MIN: usize = 20;

/// By how much the curves of two records of one system differ beyond what is known of their benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    /// The index of the record that it is compared with.
    #[serde(skip)]
    pub base: usize,
    /// The index of the record that is compared.
    #[serde(skip)]
    pub other: usize,
    /// The number of curves whose costs were compared.
    pub curves: usize,
    /// The median of the ratios of their costs, other over base.
    pub ratio: f64,
    /// Standard deviation (log scale, about no difference) that was added to the error of each cost; 0 if none was.
    pub deviation: f64,
    /// The same of each growth.
    pub growth_deviation: f64,
    /// The difference of costs, a fraction, that would have been seen in half of the curves; absent if unknown.
    pub detectable: Option<f64>,
}

impl Shift {
    /// The shift between two records, by the comparisons of the curves that were not paired. `None` if the records are
    /// not of one system, if too few curves were compared, or if nothing beyond the smallest effect must be added.
    pub(crate) fn of(
        (base, of_base): (usize, &Analysis<'_>),
        (other, of_other): (usize, &Analysis<'_>),
        unpaired: &[&Comparison],
    ) -> Option<Self> {
        if !is_one_system(of_base.record, of_other.record) {
            return None;
        }
        let costs: Vec<(f64, f64)> =
            unpaired.iter().filter_map(|one| Some((one.ratio?.value.ln(), one.error?))).collect();
        let growths: Vec<(f64, f64)> =
            unpaired.iter().filter_map(|one| Some((one.growth_ratio?.value.ln(), one.growth_error?))).collect();
        let added = |differences: &[(f64, f64)]| {
            let added = if differences.len() < CURVES_MIN { 0.0 } else { excess(differences) };
            if added < Options::default().smallest_effect { 0.0 } else { added }
        };
        let (deviation, growth_deviation) = (added(&costs), added(&growths));
        let mut logs: Vec<f64> = costs.iter().map(|(difference, _)| *difference).collect();
        logs.sort_by(f64::total_cmp);
        let ratio = logs.get(logs.len() / 2)?.exp();
        let is_needed = deviation > 0.0 || growth_deviation > 0.0;
        is_needed.then_some(Self {
            base,
            other,
            curves: logs.len(),
            ratio,
            deviation,
            growth_deviation,
            detectable: None,
        })
    }

    /// Sets what could be seen, once the comparisons are corrected for their number.
    pub(crate) fn set_detectable<'c>(&mut self, comparisons: impl Iterator<Item = &'c Comparison>) {
        let mut seen: Vec<f64> = comparisons.filter_map(|one| one.detectable).collect();
        seen.sort_by(f64::total_cmp);
        self.detectable = seen.get(seen.len() / 2).copied();
    }

    /// The shift in words, with the records' names.
    pub fn text(&self, names: &[String]) -> String {
        let name = |index: usize| names.get(index).map_or("?", String::as_str);
        let what = match (self.deviation > 0.0, self.growth_deviation > 0.0) {
            (true, true) => "costs and growths",
            (false, true) => "growths",
            _ => "costs",
        };
        let seen = self.detectable.map_or(String::new(), |detectable| {
            format!(" A difference of {} would have been seen in half of them.", of(detectable))
        });
        format!(
            "From {} to {} the {what} of the {} curves differ by more than their benchmarks usually do between runs; \
             the median ratio of the costs is {:.2}. Both records name the same system and settings, so the machine \
             was probably in another state. Landau adds that spread to the error of each difference.{seen} To see \
             smaller ones, measure both sides in turn with landau run --against.",
            name(self.base),
            name(self.other),
            self.curves,
            self.ratio
        )
    }
}

/// A difference that could be seen: "12%", "×2.5".
fn of(detectable: f64) -> String {
    if detectable < 1.0 { percent(detectable) } else { format!("×{:.1}", 1.0 + detectable) }
}

/// Whether two records, other than the sides of one run, name the same system, settings and version of Landau, so that
/// no change of most curves is expected.
fn is_one_system(a: &Record, b: &Record) -> bool {
    let of = |record: &Record| {
        // What is read anew at each start says nothing of the system.
        let (mut host, header) = (record.host.clone(), &record.header);
        (host.memory_available_bytes, host.memory_bytes) = (0, 0);
        host.leftovers.clear();
        host.clock = Clock { name: host.clock.name, unit: host.clock.unit, ..Clock::default() };
        (host, header.landau.clone(), header.environment.clone())
    };
    !a.host.processor.is_empty() && !are_sides(a, b) && of(a) == of(b)
}
