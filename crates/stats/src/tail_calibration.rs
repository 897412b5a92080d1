//! Measures how often the judgement of the 99th percentile is right, on series whose tail is known.

use crate::confusion::{CALL_NOISES, LENGTHS, SEEDS_APART, in_parallel, is_small_change};
use crate::dense::{Noise, Truth, simulate, tails};
use crate::shares::Share;
use crate::{Class, Options, Outcome, judge};

/// Number of passes of each series: as in a quick study.
const PASSES: usize = 5;
/// Name of the row of the table for all mixtures.
const MIXTURES: &str = "two flat branches";

/// Counts over the series of one truth, or of several.
#[derive(Clone, Debug, Default)]
pub struct TailTally {
    /// Median and tail: "flat, tail ×2".
    pub truth: String,
    /// Number of series.
    pub series: usize,
    /// Number of series with a growth of the tail.
    pub judged: usize,
    /// Number of tails by class: flat, small, material, limit, unresolved.
    pub classes: [usize; 5],
    /// Tails that are reported to change by more than δ but change by less, or in the other direction.
    pub false_changes: usize,
    /// Tails that are reported as flat but change by more than δ, or as a small change but do not have one.
    pub false_flat: usize,
    /// Number of intervals of the growth that contain the true growth.
    pub covered: usize,
}

impl TailTally {
    /// Returns a count as a share of the judged series.
    pub fn share(&self, count: usize) -> Share {
        Share { count, of: self.judged }
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.classes.iter_mut().zip(other.classes) {
            *mine += theirs;
        }
        self.series += other.series;
        self.judged += other.judged;
        self.false_changes += other.false_changes;
        self.false_flat += other.false_flat;
        self.covered += other.covered;
    }
}

/// Judges `trials` series of every truth with a known tail, at each noise and length.
pub fn tally(trials: usize, seed: u64) -> Vec<TailTally> {
    let jobs = LENGTHS.into_iter().flat_map(|calls| CALL_NOISES.map(|noise| (calls, noise)));
    let jobs = jobs.flat_map(|(calls, noise)| tails(calls).into_iter().map(move |truth| (truth, calls, noise)));
    let jobs: Vec<(usize, (Truth, u32, f64))> = jobs.enumerate().collect();
    let of_truth = |(number, (truth, calls, noise)): &(usize, (Truth, u32, f64))| {
        let mut tally = TailTally { truth: name_of(truth), ..TailTally::default() };
        let seed = seed.wrapping_add(SEEDS_APART * (*number as u64 + 1));
        for trial in 0..trials as u64 {
            one(truth, &Noise::of_call(*noise), *calls, seed.wrapping_add(trial), &mut tally);
        }
        tally
    };
    let mut all: Vec<TailTally> = Vec::new();
    for tally in in_parallel(&jobs, &of_truth) {
        match all.iter_mut().find(|one| one.truth == tally.truth) {
            Some(held) => held.add(&tally),
            None => all.push(tally),
        }
    }
    all
}

fn name_of(truth: &Truth) -> String {
    match truth.group {
        "constant" => "flat, no separate tail".to_owned(),
        _ if truth.is_mixture() => MIXTURES.to_owned(),
        _ => truth.detail.clone(),
    }
}

fn one(truth: &Truth, noise: &Noise, calls: u32, seed: u64, tally: &mut TailTally) {
    let options = Options::default();
    let verdict = judge(&simulate(truth, noise, calls, PASSES, seed), None, &options);
    tally.series += 1;
    let (Some(tail), Some(range)) = (verdict.p99, verdict.all.range) else { return };
    let Some(growth) = tail.growth else { return };
    tally.judged += 1;
    tally.classes[tail.outcome.class() as usize] += 1;
    let truth = true_growth(truth, noise, range);
    let is_flat = ((1.0 - options.delta)..=(1.0 + options.delta)).contains(&truth);
    let is_opposite = match tail.outcome {
        Outcome::Grows { .. } => truth < 1.0,
        Outcome::Falls => truth > 1.0,
        _ => false,
    };
    let class = tail.outcome.class();
    tally.false_changes += usize::from(class == Class::Material && (is_flat || is_opposite));
    let is_false = match class {
        Class::Flat => !is_flat,
        Class::Small => !is_small_change(truth, &options),
        _ => false,
    };
    tally.false_flat += usize::from(is_false);
    tally.covered += usize::from(growth.holds(truth));
}

/// Returns the true ratio of the 99th percentile of the last third of a range to that of the first.
fn true_growth(truth: &Truth, noise: &Noise, (first, last): (f64, f64)) -> f64 {
    let third = (last - first) / 3.0;
    truth.percentile_99((last - third, last), noise) / truth.percentile_99((first, first + third), noise)
}

/// Returns the table as Markdown, in percent of the judged series.
pub fn markdown(tallies: &[TailTally]) -> String {
    let mut text = "| median, 99th percentile | series | judged | flat or small | changes | not resolved | falsely \
                    changes | falsely flat | interval holds |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for one in tallies {
        let percent = |count: usize| format!("{:.1}", one.share(count).percent());
        let [flat, small, material, _, open] = one.classes;
        let cells = [
            one.truth.clone(),
            one.series.to_string(),
            one.judged.to_string(),
            percent(flat + small),
            percent(material),
            percent(open),
            percent(one.false_changes),
            percent(one.false_flat),
            percent(one.covered),
        ];
        text.extend(["| ", &cells.join(" | "), " |\n"]);
    }
    text
}
