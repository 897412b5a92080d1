//! Records against each other: what is the same case and phase is compared, and a winner is named where one is proven.
//!
//! The first record is the base. All comparisons of one report are corrected together for their number.

use crate::quantity::percent;
use crate::{Analysis, CaseStudy, PhaseStudy, unit_of};
use landau_stats::{Change, Comparison, Options, Unit, compare, holm};

/// Every comparison of a report.
#[derive(Debug)]
pub struct Versus {
    /// In the order of the base's cases and phases, then of the other records.
    pub duels: Vec<Duel>,
}

/// One phase of one case in two records.
#[derive(Debug)]
pub struct Duel {
    /// The case's label, the same in both.
    pub label: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// The phase.
    pub phase: String,
    /// Which record is compared with the first, by its place in the list.
    pub other: usize,
    /// The comparison; ratios are this record over the base.
    pub comparison: Comparison,
}

impl Versus {
    /// Compares every analysis with the first one. One that counts something else is compared with nothing: see
    /// [`crate::unlike`].
    pub fn of(analyses: &[&Analysis<'_>]) -> Self {
        let Some((base, others)) = analyses.split_first() else { return Self { duels: Vec::new() } };
        let unit = base.record.unit();
        let options = Options { unit: unit_of(base.record), ..Options::default() };
        let mut labels = Vec::new();
        let mut comparisons = Vec::new();
        for study in &base.cases {
            for phase in &study.phases {
                for (other, analysis) in others.iter().enumerate().filter(|(_, one)| one.record.unit() == unit) {
                    let Some(rival) = same(analysis, study, phase) else { continue };
                    labels.push((study, phase, other + 1));
                    comparisons.push(compare(&phase.curve, &rival.curve, &options));
                }
            }
        }
        holm(&mut comparisons);
        let duels = labels.into_iter().zip(comparisons).map(|((study, phase, other), comparison)| Duel {
            label: study.case.label.clone(),
            benchmark: study.case.benchmark.clone(),
            phase: phase.phase.name.clone(),
            other,
            comparison,
        });
        Self { duels: duels.collect() }
    }

    /// The comparisons of one phase of one case.
    pub fn of_phase<'v>(&'v self, label: &'v str, phase: &'v str) -> impl Iterator<Item = &'v Duel> {
        self.duels.iter().filter(move |duel| duel.label == label && duel.phase == phase)
    }

    /// The comparisons of one benchmark.
    pub fn of_benchmark<'v>(&'v self, benchmark: &'v str) -> impl Iterator<Item = &'v Duel> {
        self.duels.iter().filter(move |duel| duel.benchmark == benchmark)
    }
}

impl Duel {
    /// Which record is faster, where that is proven.
    pub fn winner(&self) -> Option<usize> {
        match self.comparison.change {
            Change::Faster => Some(self.other),
            Change::Slower => Some(0),
            Change::NoDifferenceProven { .. } => None,
        }
    }

    /// The result with the records' names.
    pub fn words(&self, names: &[String]) -> String {
        let name = |index: usize| names.get(index).map_or("?", String::as_str);
        let is_exact = self.comparison.a.all.unit == Unit::Instructions;
        match (self.winner(), self.comparison.ratio) {
            (Some(winner), Some(ratio)) => {
                let loser = if winner == 0 { self.other } else { 0 };
                let gain = if winner == 0 { ratio.map(|r| 1.0 - 1.0 / r) } else { ratio.map(|r| 1.0 - r) };
                if is_exact {
                    let (few, many) = (name(winner), name(loser));
                    return format!("{few} needs {} fewer instructions than {many}", percent(gain.value));
                }
                let (low, high) = (percent(gain.low.max(0.0)), percent(gain.high));
                format!("{} costs {} less than {} (95%: {low}–{high})", name(winner), percent(gain.value), name(loser))
            }
            _ if is_exact => self.comparison.words.split("; ").next().unwrap_or_default().to_owned(),
            _ => match self.comparison.would_have_seen {
                Some(seen) => format!("no difference proven at 95% (would have seen {})", percent(seen)),
                None => "no difference proven at 95% (two passes of each are the least that shows one)".to_owned(),
            },
        }
    }
}

/// The same phase of the same case in another record.
fn same<'a>(analysis: &'a Analysis<'_>, study: &CaseStudy<'_>, phase: &PhaseStudy<'_>) -> Option<&'a PhaseStudy<'a>> {
    let study = analysis.cases.iter().find(|other| other.case.label == study.case.label)?;
    study.phases.iter().find(|other| other.phase.name == phase.phase.name)
}
