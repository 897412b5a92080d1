//! By how much most curves differ between two records of one system.
//!
//! A neighbour on the same machine, or the memory as the last program left it, changes the costs of most curves at once,
//! by more than the differences between runs that are known of each benchmark ([`crate::between_runs`]). What only a
//! few curves do is a difference of theirs; what most do is one of the runs. So the differences of all curves that were
//! not paired show what must be added to the error of each ([`excess`]).

use crate::Analysis;
use crate::quantity::percent;
use landau_record::Record;
use landau_stats::{Comparison, Options, excess};
use serde::Serialize;

/// Fewest curves that show what most of them do.
const CURVES_MIN: usize = 20;

/// By how much most curves differ between two records of one system, beyond what is known of their benchmarks.
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
    /// Standard deviation (log scale) that was added to the difference of each cost; 0 if none was.
    pub deviation: f64,
    /// The same of each growth.
    pub growth_deviation: f64,
}

impl Shift {
    /// The shift between two records, by the comparisons of the curves that were not paired. `None` if the records tell
    /// of a cause that may change most curves, if too few were compared, or if no more than the smallest effect must be
    /// added.
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
        is_needed.then_some(Self { base, other, curves: logs.len(), ratio, deviation, growth_deviation })
    }

    /// The shift in words, with the records' names.
    pub fn text(&self, names: &[String]) -> String {
        let name = |index: usize| names.get(index).map_or("?", String::as_str);
        let (base, other) = (name(self.base), name(self.other));
        let costs = (self.deviation > 0.0).then(|| {
            format!("the costs of most of the {} curves, by a factor of {:.2} in the median", self.curves, self.ratio)
        });
        let growths = (self.growth_deviation > 0.0).then(|| "the growths of most curves".to_owned());
        let what = [costs, growths].into_iter().flatten().collect::<Vec<_>>().join(", and ");
        let spread = percent(self.deviation.max(self.growth_deviation).exp_m1());
        format!(
            "From {base} to {other} something changed {what}, and the records name no difference between the systems. \
             So only differences beyond a spread of {spread} are told. To see smaller ones, measure both sides in turns: \
             landau run --against."
        )
    }
}

/// Whether two records are of the same kernel, processor and program, so that what most curves do is not expected.
fn is_one_system(a: &Record, b: &Record) -> bool {
    let of = |record: &Record| {
        let (host, landau) = (record.host.clone(), record.header.landau.clone());
        (host.release, host.version, host.processor, host.virtualization, host.mitigations, landau)
    };
    of(a) == of(b)
}
