//! Measures how often a verdict is right, on synthetic curves of known truth.

use crate::simulate::{Noise, Truth, simulate};
use crate::{Judgement, Options, Outcome, judge};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The result of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfusionTable {
    /// Curves per row.
    pub trials: usize,
    /// Seed of the first curve.
    pub seed: u64,
    /// Passes of each curve.
    pub passes: usize,
    /// One row per truth and noise.
    pub rows: Vec<ConfusionRow>,
}

/// The verdicts on the curves of one truth and one noise; all shares are of the trials, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfusionRow {
    /// The truth.
    pub truth: Truth,
    /// Noise of a cell, as a fraction.
    pub noise: f64,
    /// The law is the true one, or a shape outside the dictionary is rightly reported to follow none.
    pub right: f64,
    /// The true law is the best law or a rival.
    pub named: f64,
    /// Mean number of laws named, including rivals, among the verdicts that name one.
    pub laws: f64,
    /// Reported as flat, or as a small change.
    pub constant: f64,
    /// Reported as growing, by a law or by no simple law, or as varying.
    pub grows: f64,
    /// Reported as a change by no simple law: grows by none, varies, or falls.
    pub no_law: f64,
    /// Reported as falling.
    pub falls: f64,
    /// Not resolved.
    pub unresolved: f64,
}

/// Number of passes in the published table.
const PASSES: usize = 9;
/// Noise of a cell in the published table.
const NOISES: [f64; 2] = [0.01, 0.04];

/// Judges `trials` curves of every truth at both noises. Every curve has its own seed, counted from `seed`.
pub fn calibrate(trials: usize, seed: u64) -> ConfusionTable {
    let cells = NOISES.iter().flat_map(|noise| Truth::ALL.iter().map(move |truth| (*truth, *noise)));
    let rows = cells.enumerate().map(|(i, (truth, noise))| {
        // The seeds of the rows are far apart, so that no two rows share a curve.
        row(truth, noise, trials, seed.wrapping_add(i as u64 * 1_000_003))
    });
    ConfusionTable { trials, seed, passes: PASSES, rows: rows.collect() }
}

/// Returns one row of the table.
pub fn row(truth: Truth, noise: f64, trials: usize, seed: u64) -> ConfusionRow {
    let options = Options::default();
    let judged = |i: usize| {
        let curve = simulate(truth, Noise::of_cell(noise), PASSES, seed.wrapping_add(i as u64));
        judge(&curve, None, &options).all
    };
    let all: Vec<Judgement> = (0..trials).map(judged).collect();
    let share = |f: &dyn Fn(&Judgement) -> bool| {
        all.iter().filter(|judgement| f(judgement)).count() as f64 / trials.max(1) as f64
    };
    let chosen: Vec<usize> = all.iter().filter_map(laws_named).collect();
    ConfusionRow {
        truth,
        noise,
        right: share(&|j| is_right(truth, j)),
        named: share(&|j| is_named(truth, j)),
        laws: chosen.iter().sum::<usize>() as f64 / chosen.len().max(1) as f64,
        constant: share(&|j| matches!(j.outcome, Outcome::Flat { .. } | Outcome::Small)),
        grows: share(&|j| matches!(j.outcome, Outcome::Grows { .. } | Outcome::Varies)),
        no_law: share(&|j| has_no_law(&j.outcome)),
        falls: share(&|j| j.outcome == Outcome::Falls),
        unresolved: share(&|j| matches!(j.outcome, Outcome::Unresolved { .. })),
    }
}

fn laws_named(judgement: &Judgement) -> Option<usize> {
    match judgement.outcome {
        Outcome::Grows { law: Some(_) } => Some(1 + judgement.rivals.len()),
        Outcome::Flat { .. } | Outcome::Small => Some(1),
        _ => None,
    }
}

/// Whether a cost is reported to change by more than δ and by no law of the dictionary.
fn has_no_law(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Grows { law: None } | Outcome::Varies | Outcome::Falls)
}

fn is_right(truth: Truth, judgement: &Judgement) -> bool {
    let has_cliff = judgement.cliffs.first().is_some_and(|c| (c.n.value - 1500.0).abs() <= 1.0);
    if has_cliff != (truth == Truth::Cliff) {
        return false;
    }
    match (truth.law(), &judgement.outcome) {
        (Some("constant"), Outcome::Flat { .. } | Outcome::Small) => true,
        (None, outcome) => has_no_law(outcome),
        (Some(law), Outcome::Grows { law: Some(chosen) }) => law == chosen,
        _ => false,
    }
}

fn is_named(truth: Truth, judgement: &Judgement) -> bool {
    let is_rival = || judgement.rivals.iter().any(|rival| Some(rival.law.as_str()) == truth.law());
    let grows = matches!(judgement.outcome, Outcome::Grows { law: Some(_) });
    is_right(truth, judgement) || (grows && is_rival())
}

impl ConfusionTable {
    /// Returns the table as Markdown, in percent.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "{} curves per row, {} passes each, seed {}.\n\n\
             | truth | noise | right | right or rival | laws named | O(1) | grows | no simple law | falls \
             | not resolved |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
            self.trials, self.passes, self.seed
        );
        for row in &self.rows {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {:.0} | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                row.truth.name(),
                row.noise * 100.0,
                row.right * 100.0,
                row.named * 100.0,
                row.laws,
                row.constant * 100.0,
                row.grows * 100.0,
                row.no_law * 100.0,
                row.falls * 100.0,
                row.unresolved * 100.0
            );
        }
        text
    }
}
