//! Comparisons of several records: each phase of each case of the first record with the same one of every other.
//!
//! The first record is the base. All comparisons of one report are corrected together for their number (Holm).

use crate::{Analysis, CaseStudy, PhaseStudy, text, unit_of};
use landau_stats::{Change, Comparison, Options, compare, holm};

/// Every comparison of a report.
#[derive(Debug)]
pub struct Comparisons {
    /// In the order of the base's cases and phases, then of the other records.
    pub all: Vec<PhaseComparison>,
}

/// One phase of one case in two records.
#[derive(Debug)]
pub struct PhaseComparison {
    /// The case's label, the same in both.
    pub label: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// The phase.
    pub phase: String,
    /// The index of the record that is compared with the first.
    pub other: usize,
    /// The comparison; its ratios are this record over the base.
    pub comparison: Comparison,
}

impl Comparisons {
    /// Compares every analysis with the first one. Records in another unit are left out: see [`crate::unlike`].
    pub fn of(analyses: &[&Analysis<'_>]) -> Self {
        let Some((base, others)) = analyses.split_first() else { return Self { all: Vec::new() } };
        let unit = unit_of(base.record);
        let options = Options { unit, ..Options::default() };
        let mut labels = Vec::new();
        let mut comparisons = Vec::new();
        for study in &base.cases {
            for phase in &study.phases {
                for (other, analysis) in others.iter().enumerate().filter(|(_, one)| unit_of(one.record) == unit) {
                    let Some(counterpart) = same(analysis, study, phase) else { continue };
                    labels.push((study, phase, other + 1));
                    comparisons.push(compare(&phase.curve, &counterpart.curve, &options));
                }
            }
        }
        holm(&mut comparisons);
        let all = labels.into_iter().zip(comparisons).map(|((study, phase, other), comparison)| PhaseComparison {
            label: study.case.label.clone(),
            benchmark: study.case.benchmark.clone(),
            phase: phase.phase.name.clone(),
            other,
            comparison,
        });
        Self { all: all.collect() }
    }

    /// The comparisons of one phase of one case.
    pub fn of_phase<'v>(&'v self, label: &'v str, phase: &'v str) -> impl Iterator<Item = &'v PhaseComparison> {
        self.all.iter().filter(move |one| one.label == label && one.phase == phase)
    }

    /// The comparisons of one benchmark.
    pub fn of_benchmark<'v>(&'v self, benchmark: &'v str) -> impl Iterator<Item = &'v PhaseComparison> {
        self.all.iter().filter(move |one| one.benchmark == benchmark)
    }
}

impl PhaseComparison {
    /// The index of the record that is shown to be cheaper, if one is.
    pub fn winner(&self) -> Option<usize> {
        match self.comparison.change {
            Change::Faster => Some(self.other),
            Change::Slower => Some(0),
            Change::NoDifferenceProven => None,
        }
    }

    /// The result in words, with the records' names.
    pub fn text(&self, names: &[String]) -> String {
        let name = |index: usize| names.get(index).map_or("?", String::as_str);
        let (Some(winner), Some(ratio)) = (self.winner(), self.comparison.ratio) else {
            return text::no_difference(&self.comparison);
        };
        let (loser, gain) = if winner == 0 {
            (self.other, ratio.map(|ratio| 1.0 - 1.0 / ratio))
        } else {
            (0, ratio.map(|ratio| 1.0 - ratio))
        };
        text::comparison(name(winner), name(loser), gain, self.comparison.a.all.unit)
    }
}

/// The same phase of the same case in another record.
fn same<'a>(analysis: &'a Analysis<'_>, study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> Option<&'a PhaseStudy<'a>> {
    let study = analysis.cases.iter().find(|other| other.case.label == study.case.label)?;
    study.phases.iter().find(|other| other.phase.name == phase.phase.name)
}
