//! The shift between the curves of two records of one system, beyond the known variation of their benchmarks.
//!
//! Interference from outside, or memory that the last program left fragmented, changes the costs of most curves at
//! once. The change exceeds the known [variation between runs](crate::between_runs) of each benchmark. A difference in
//! only a few curves belongs to those curves; a difference in most curves belongs to the runs. So the differences of
//! all unpaired curves determine what must be added to the error of each ([`excess`]).

use crate::Analysis;
use crate::quantity::{is_same_memory, percent};
use crate::text;
use landau_record::Record;
use landau_record::schema::{Clock, Role};
use landau_stats::quantile::median;
use landau_stats::{Comparison, Options, excess};
use serde::Serialize;

/// Minimum number of curves from which a common shift can be determined.
pub(crate) const CURVES_MIN: usize = 20;

/// Maximum standard error (log scale) of a difference that shows whether there is a shift. A difference with a larger
/// error, such as that of two runs that may each differ by 15%, would not be seen to exceed it.
const ERROR_MAX: f64 = 0.2;

/// The shift between the curves of two records of one system, beyond the known variation of their benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Shift {
    /// The index of the base record.
    #[serde(skip)]
    pub base: usize,
    /// The index of the other record.
    #[serde(skip)]
    pub other: usize,
    /// The number of curves whose costs were compared with a standard error of at most 20%; that of the growths, if
    /// nothing was added to costs.
    pub curves: usize,
    /// The median of the ratios of their costs, other over base.
    pub ratio: f64,
    /// Standard deviation (log scale, around no difference) that was added to the error of each cost; 0 if none was
    /// added.
    pub deviation: f64,
    /// The standard deviation that was added to the error of each growth.
    pub growth_deviation: f64,
    /// The difference of costs, as a fraction, that would have been detected in half of the curves, in four of five
    /// cases; absent if unknown.
    pub detectable: Option<f64>,
}

impl Shift {
    /// Returns whether two records with this number of unpaired curves can have a shift.
    pub(crate) fn is_possible(base: &Analysis<'_>, other: &Analysis<'_>, unpaired: usize) -> bool {
        unpaired >= CURVES_MIN && is_one_system(base.record, other.record)
    }

    /// Returns the shift between two records, computed from the comparisons of the unpaired curves. `None` if the
    /// records are of different systems, if too few curves were compared, or if nothing above the smallest effect must
    /// be added.
    pub(crate) fn of(
        (base, of_base): (usize, &Analysis<'_>),
        (other, of_other): (usize, &Analysis<'_>),
        unpaired: &[&Comparison],
    ) -> Option<Self> {
        if !Self::is_possible(of_base, of_other, unpaired.len()) {
            return None;
        }
        let precise = |(_, error): &(f64, f64)| *error <= ERROR_MAX;
        let costs = unpaired.iter().filter_map(|one| Some((one.ratio?.value.ln(), one.error?)));
        let costs: Vec<(f64, f64)> = costs.filter(precise).collect();
        let growths = unpaired.iter().filter_map(|one| Some((one.growth_ratio?.value.ln(), one.growth_error?)));
        let growths: Vec<(f64, f64)> = growths.filter(precise).collect();
        let added = |differences: &[(f64, f64)]| {
            let added = if differences.len() < CURVES_MIN { 0.0 } else { excess(differences) };
            if added < Options::default().smallest_effect { 0.0 } else { added }
        };
        let (deviation, growth_deviation) = (added(&costs), added(&growths));
        let ratio = median(costs.iter().map(|(difference, _)| *difference))?.exp();
        let is_needed = deviation > 0.0 || growth_deviation > 0.0;
        is_needed.then_some(Self {
            base,
            other,
            curves: if deviation > 0.0 { costs.len() } else { growths.len() },
            ratio,
            deviation,
            growth_deviation,
            detectable: None,
        })
    }

    /// Describes the shift, with the records' names.
    pub fn text(&self, names: &[String]) -> String {
        let name = |index: usize| names.get(index).map_or("?", String::as_str);
        let (what, added) = match (self.deviation, self.growth_deviation) {
            (costs, growths) if costs > 0.0 && growths > 0.0 => {
                ("costs and growths", format!("{} of costs and {} of growths", spread(costs), spread(growths)))
            }
            (costs, _) if costs > 0.0 => ("costs", spread(costs)),
            (_, growths) => ("growths", spread(growths)),
        };
        let seen = self.detectable.filter(|_| self.deviation > 0.0).map_or(String::new(), |detectable| {
            let detectable = text::detectable(detectable);
            format!(" A difference of {detectable} in cost would have been detected in half of them.")
        });
        format!(
            "{} Landau adds a standard deviation of {added} to the error of each difference.{seen} To see smaller \
             ones, measure both sides in turn with landau run --against.",
            self.found(what, name(self.base), name(self.other))
        )
    }

    /// Describes the shift, for claims about ratios to the base.
    pub(crate) fn text_for_claims(&self, base: &str, other: &str) -> String {
        format!(
            "{} Landau adds a standard deviation of {} to the error of each ratio to the base. To decide claims by \
             smaller differences, measure both sides in turn with landau run --against.",
            self.found("costs", base, other),
            spread(self.deviation)
        )
    }

    /// Describes the shift and its meaning.
    fn found(&self, what: &str, base: &str, other: &str) -> String {
        let middle = if self.deviation > 0.0 {
            format!("; the median ratio of the costs is {:.2}", self.ratio)
        } else {
            String::new()
        };
        format!(
            "From {base} to {other} the {what} of {} curves differ by more than their benchmarks usually do \
             between runs{middle}. Both records name the same system and settings, so the machine was probably in \
             another state.",
            self.curves
        )
    }
}

/// Formats a standard deviation of the log scale.
fn spread(deviation: f64) -> String {
    percent(deviation.exp_m1())
}

/// Returns whether two records have the same system, settings and version of Landau, so that no change of most curves
/// is expected. The new side of a run has a known difference.
fn is_one_system(a: &Record, b: &Record) -> bool {
    let of = |record: &Record| {
        // These values are measured at every start.
        let (mut host, header) = (record.host.clone(), &record.header);
        (host.memory_available_bytes, host.memory_bytes) = (0, 0);
        host.leftovers.clear();
        host.clock = Clock { name: host.clock.name, unit: host.clock.unit, ..Clock::default() };
        (host, header.landau.clone(), header.folder.clone(), header.environment.clone())
    };
    let has_difference = |record: &Record| record.header.side.as_ref().is_some_and(|side| side.role == Role::New);
    !a.host.processor.is_empty()
        && !has_difference(a)
        && !has_difference(b)
        && is_same_memory(a.host.memory_bytes, b.host.memory_bytes)
        && of(a) == of(b)
}
