//! Measures how often a verdict on a dense series is right, and counts the kinds of wrong verdicts.

use crate::dense::{Expected, Noise, Truth, drawn, simulate, truths};
use crate::judgement::{Samples, judge_samples};
use crate::shares::Share;
use crate::{Class, Curve, Judgement, Options, Outcome, PatternRule, outliers};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The parameters of a calibration.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Number of series per truth, noise and length.
    pub trials: usize,
    /// Seed of the first series.
    pub seed: u64,
    /// Number of passes of each series.
    pub passes: usize,
    /// Number of further passes with which a share of the series is judged again.
    pub more_passes: usize,
}

/// Lengths of the series.
pub const LENGTHS: [u32; 2] = [2_000, 10_000];
/// Noise of a call.
pub const CALL_NOISES: [f64; 2] = [0.05, 0.15];
/// One series in this many is judged again with more passes.
const AGAIN: usize = 4;

/// The agreement of a verdict with the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// The outcome and the law are true.
    Right,
    /// The outcome is true, and the true law is among at most three rivals.
    Named,
    /// The verdict states nothing false, but less than the truth, such as another law whose curve is within 3% of the
    /// truth.
    Alike,
    /// Not resolved.
    Open,
    /// The verdict states something false.
    Wrong,
}

/// Counts over the series of one truth, noise and length, or over several of them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Series.
    pub trials: usize,
    /// Series by score: right, named, alike, open, wrong.
    pub scores: [usize; 5],
    /// Series by class: flat, small, material, limit, unresolved.
    pub classes: [usize; 5],
    /// Series with a growth; `covered` counts those whose interval contains the true growth.
    pub growths: usize,
    /// See `growths`.
    pub covered: usize,
    /// Series with a false cliff.
    pub false_cliffs: usize,
    /// Series whose truth is flat; `false_changes` counts those reported to grow, fall or vary.
    pub flat: usize,
    /// See `flat`.
    pub false_changes: usize,
    /// Series with a recurring outlier beyond the first calls; no truth has one.
    pub false_outliers: usize,
    /// Series judged again with more passes; `turned` counts those that changed from not wrong to wrong.
    pub again: usize,
    /// See `again`.
    pub turned: usize,
    /// Those that changed from wrong to not wrong.
    pub mended: usize,
    /// Promises of at most as many passes as were added; `kept` counts those that came true.
    pub promised: usize,
    /// See `promised`.
    pub kept: usize,
    /// Wrong verdicts: text and count.
    pub wrong: std::collections::BTreeMap<String, usize>,
}

impl Tally {
    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.scores.iter_mut().zip(other.scores) {
            *mine += theirs;
        }
        for (mine, theirs) in self.classes.iter_mut().zip(other.classes) {
            *mine += theirs;
        }
        self.trials += other.trials;
        self.growths += other.growths;
        self.covered += other.covered;
        self.false_cliffs += other.false_cliffs;
        self.flat += other.flat;
        self.false_changes += other.false_changes;
        self.false_outliers += other.false_outliers;
        self.again += other.again;
        self.turned += other.turned;
        self.mended += other.mended;
        self.promised += other.promised;
        self.kept += other.kept;
        for (text, count) in &other.wrong {
            *self.wrong.entry(text.clone()).or_default() += count;
        }
    }

    /// Returns the share of the series with this score.
    pub fn share(&self, score: Score) -> f64 {
        self.of_all(score).fraction()
    }

    /// Returns the share of the series that are right or named.
    pub fn good(&self) -> f64 {
        self.good_of_all().fraction()
    }

    /// Returns the series that are right or named, of all.
    pub fn good_of_all(&self) -> Share {
        Share { count: self.scores[Score::Right as usize] + self.scores[Score::Named as usize], of: self.trials }
    }

    /// Returns the series with this score, of all.
    pub fn of_all(&self, score: Score) -> Share {
        Share { count: self.scores[score as usize], of: self.trials }
    }

    /// Returns the share of the series with this class.
    pub fn class(&self, class: Class) -> f64 {
        Share { count: self.classes[class as usize], of: self.trials }.fraction()
    }

    /// Returns the share of the growths whose interval contains the truth.
    pub fn coverage(&self) -> f64 {
        Share { count: self.covered, of: self.growths }.fraction()
    }
}

/// One row: a truth at one noise and length.
#[derive(Debug)]
pub struct Row {
    /// The group of the truth.
    pub group: &'static str,
    /// The parameters of the truth.
    pub detail: String,
    /// Noise of a call.
    pub noise: f64,
    /// Number of calls of a pass.
    pub calls: u32,
    /// The counts.
    pub tally: Tally,
}

/// A truth at one noise and length, and the numbers of its series.
struct Job {
    truth: Truth,
    noise: f64,
    calls: u32,
    trials: Range<usize>,
    /// Seed of series 0.
    seed: u64,
}

/// Judges series of every truth of the published table whose name contains `filter`, at every noise and length, with
/// as many threads as there are processors.
pub fn calibrate(plan: &Plan, filter: &str) -> Vec<Row> {
    let mut jobs = Vec::new();
    let mut seed = plan.seed;
    for calls in LENGTHS {
        for at in 0..truths(calls).len() {
            for noise in CALL_NOISES {
                seed = seed.wrapping_add(SEEDS_APART);
                jobs.push(Job { truth: truths(calls).swap_remove(at), noise, calls, trials: 0..plan.trials, seed });
            }
        }
    }
    judge_all(jobs, plan, filter)
}

/// Does the same for truths with drawn parameters: one of each kind for each series.
pub fn calibrate_drawn(plan: &Plan, filter: &str) -> Vec<Row> {
    let mut jobs = Vec::new();
    for calls in LENGTHS {
        for trial in 0..plan.trials {
            for noise in CALL_NOISES {
                // Each series has its own noise; otherwise one unusual draw would count once for each truth.
                let seed = |at: usize| plan.seed.wrapping_add(SEEDS_APART * (at as u64 + 1));
                for truth in drawn(calls, seed(jobs.len())) {
                    jobs.push(Job { truth, noise, calls, trials: trial..trial + 1, seed: seed(jobs.len()) });
                }
            }
        }
    }
    judge_all(jobs, plan, filter)
}

/// The seeds of the rows are far apart, so that no two rows share a series.
pub(crate) const SEEDS_APART: u64 = 1_000_003;

fn judge_all(mut jobs: Vec<Job>, plan: &Plan, filter: &str) -> Vec<Row> {
    jobs.retain(|job| format!("{:?} {} {}", job.truth, job.calls, job.noise).contains(filter));
    let row = |job: &Job| {
        let mut tally = Tally::default();
        for trial in job.trials.clone() {
            series(
                &mut tally,
                &job.truth,
                &Noise::of_call(job.noise),
                job.calls,
                trial,
                &Plan { seed: job.seed, ..*plan },
            );
        }
        Row { group: job.truth.group, detail: job.truth.detail.clone(), noise: job.noise, calls: job.calls, tally }
    };
    in_parallel(&jobs, &row)
}

/// Computes the results of all jobs, in their order, on as many threads as there are processors.
pub(crate) fn in_parallel<J: Sync, R: Send>(jobs: &[J], result: &(impl Fn(&J) -> R + Sync)) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.map_while(|at| Some((at, result(jobs.get(at)?)))).collect::<Vec<(usize, R)>>()
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let count = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        // Propagate a panic of a thread.
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Judges the series of one truth.
pub fn tally(truth: &Truth, noise: &Noise, calls: u32, plan: &Plan) -> Tally {
    let mut tally = Tally::default();
    (0..plan.trials).for_each(|trial| series(&mut tally, truth, noise, calls, trial, plan));
    tally
}

/// Judges the series with this number and counts the result.
fn series(tally: &mut Tally, truth: &Truth, noise: &Noise, calls: u32, trial: usize, plan: &Plan) {
    let options = Options::default();
    let is_again = plan.more_passes > 0 && trial.is_multiple_of(AGAIN);
    let passes = plan.passes + if is_again { plan.more_passes } else { 0 };
    let mut curve = simulate(truth, noise, calls, passes, plan.seed.wrapping_add(trial as u64));
    let later = is_again.then(|| judged(&curve, &options));
    curve.passes.truncate(plan.passes);
    let judged = judged(&curve, &options);
    let (score, why) = score(truth, &judged, &options);
    if score == Score::Wrong {
        *tally.wrong.entry(why).or_default() += 1;
    }
    tally.trials += 1;
    tally.scores[score as usize] += 1;
    tally.classes[judged.class() as usize] += 1;
    tally.false_cliffs += usize::from(has_false_cliff(truth, &judged));
    let is_flat = matches!(truth.expected, Expected::Law("constant") | Expected::Branches);
    tally.flat += usize::from(is_flat);
    tally.false_changes += usize::from(is_flat && judged.outcome.class() == Class::Material);
    tally.false_outliers += usize::from(has_recurring_outlier(&curve));
    if let (Some(growth), Some(range), false) = (judged.growth, judged.range, truth.is_mixture()) {
        tally.growths += 1;
        // Allow a thousandth for rounding, because costs are integers.
        let is_covered =
            growth.low <= 1.001 * true_growth(truth, range) && true_growth(truth, range) <= 1.001 * growth.high;
        tally.covered += usize::from(is_covered);
    }
    let Some(later) = later else { return };
    let (after, why) = self::score(truth, &later, &options);
    tally.again += 1;
    match (score == Score::Wrong, after == Score::Wrong) {
        (false, true) => {
            tally.turned += 1;
            *tally.wrong.entry(format!("turned: {why}")).or_default() += 1;
        }
        (true, false) => tally.mended += 1,
        _ => {}
    }
    let promise = match judged.outcome {
        Outcome::Unresolved { more_passes, .. } => more_passes,
        _ => None,
    };
    if promise.is_some_and(|more| more as usize <= plan.more_passes) {
        tally.promised += 1;
        tally.kept += usize::from(later.class() != Class::Unresolved);
    }
}

/// Returns the judgement of all samples, as in a verdict without a canary, but without outliers and the 99th
/// percentile.
pub(crate) fn judged(curve: &Curve, options: &Options) -> Judgement {
    judge_samples(curve, Samples::All, options).map_or_else(|| Judgement::empty(options.unit), |found| found.judgement)
}

/// Whether a recurring outlier beyond the first calls is reported.
fn has_recurring_outlier(curve: &Curve) -> bool {
    let found = outliers::find(curve);
    let first = found.patterns.iter().filter(|pattern| pattern.rule == PatternRule::FirstCalls);
    found.recurring_count > first.map(|pattern| pattern.count).sum()
}

fn true_growth(truth: &Truth, range: (f64, f64)) -> f64 {
    truth.at(range.1) / truth.at(range.0)
}

fn has_false_cliff(truth: &Truth, judged: &Judgement) -> bool {
    let is_true = |n: f64| match truth.expected {
        Expected::Cliff { n: at, .. } => (n - at).abs() <= 2.0 + 0.02 * at,
        _ => false,
    };
    judged.cliffs.iter().any(|cliff| !is_true(cliff.n.value))
}

/// Compares a judgement with the truth. The text describes the judgement, and what is wrong with it.
pub fn score(truth: &Truth, judged: &Judgement, options: &Options) -> (Score, String) {
    let said = said(judged);
    if has_false_cliff(truth, judged) {
        return (Score::Wrong, format!("false cliff; {said}"));
    }
    if let Expected::Cliff { n, factor } = truth.expected {
        let is_found = judged.cliffs.first().is_some_and(|cliff| (cliff.factor / factor).ln().abs() < 0.2);
        let is_flat_before = judged.outcome.class() != Class::Material;
        // The judged range is beyond a cliff among the first calls, which may be cold.
        let is_beyond = judged.cliffs.is_empty() && judged.range.is_some_and(|(first, _)| first > n);
        return match (is_found, is_flat_before, judged.outcome.class()) {
            (true, true, _) => (Score::Right, said),
            (false, true, Class::Unresolved) if judged.cliffs.is_empty() && (is_beyond || judged.range.is_none()) => {
                (Score::Open, said)
            }
            (false, true, _) if is_beyond => (Score::Alike, said),
            _ => (Score::Wrong, said),
        };
    }
    if truth.is_mixture() {
        return mixture(truth, judged, said);
    }
    let (Some(range), class) = (judged.range, judged.outcome.class()) else { return (Score::Open, said) };
    let within = (1.0 - options.delta, 1.0 + options.delta);
    let growth = true_growth(truth, range);
    let expected = truth.expected_from(range.0);
    let is_inside = |ratio: f64| within.0 <= ratio && ratio <= within.1;
    let steps = (0..=200).map(|i| range.0 * (range.1 / range.0).powf(f64::from(i) / 200.0));
    let costs: Vec<f64> = steps.map(|n| truth.at(n)).collect();
    let (low, high) = (costs.iter().copied().fold(f64::MAX, f64::min), costs.iter().copied().fold(0.0, f64::max));
    // A verdict compares parts of the range with the mean level.
    let level = (costs.iter().map(|cost| cost.ln()).sum::<f64>() / costs.len() as f64).exp();
    let varies = high / low > within.1 / within.0 || !is_inside(low / level) || !is_inside(high / level);
    let is_flat = !varies && is_inside(growth);
    let most = options.small_change().1;
    let is_small = is_small_change(growth, options) && high / low <= (1.0 + most) / (1.0 - most);
    let wrong = |said: String| (Score::Wrong, format!("{said}, but the true growth is ×{growth:.3}"));
    match (&judged.outcome, class) {
        (_, Class::Unresolved) => (Score::Open, said),
        (_, Class::Flat) if is_flat => (Score::Right, said),
        (_, Class::Small) if is_small => (Score::Right, said),
        (Outcome::Grows { law: Some(name) }, _) if growth > within.1 => law(truth, expected, judged, name, said),
        (Outcome::Grows { law: None }, _) if growth > within.1 => match expected {
            Expected::NoLaw => (Score::Right, said),
            _ => wrong(said),
        },
        (Outcome::Falls, _) if growth < within.0 => (Score::Right, said),
        (Outcome::Varies, _) if expected == Expected::NoLaw && varies => (Score::Right, said),
        _ => wrong(said),
    }
}

/// Whether a true growth is in the range of the outcome "small change".
pub(crate) fn is_small_change(growth: f64, options: &Options) -> bool {
    let (least, most) = options.small_change();
    (least..=most).contains(&(growth - 1.0).abs())
}

/// Compares a named law with the statement expected of the truth.
fn law(truth: &Truth, expected: Expected, judged: &Judgement, name: &str, said: String) -> (Score, String) {
    let Expected::Law(expected) = expected else {
        return if is_alike(truth, judged) { (Score::Alike, said) } else { (Score::Wrong, said) };
    };
    let is_rival = judged.rivals.len() <= 3 && judged.rivals.iter().any(|rival| rival.law == expected);
    match () {
        () if name == expected => (Score::Right, said),
        () if is_rival => (Score::Named, said),
        () if is_alike(truth, judged) => (Score::Alike, said),
        () => (Score::Wrong, said),
    }
}

/// Whether the curve of the named law is within 3% of the truth, apart from its level.
fn is_alike(truth: &Truth, judged: &Judgement) -> bool {
    let (Some(fit), Some(range)) = (&judged.fit, judged.range) else { return false };
    let steps = (0..=100).map(|i| range.0 * (range.1 / range.0).powf(f64::from(i) / 100.0));
    let ratios: Vec<f64> = steps.map(|n| (fit.at(n) / truth.at(n)).ln()).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    ratios.iter().all(|ratio| (ratio - mean).abs() < 0.03)
}

/// Scores the judgement of a mixture. A mixture follows a law only if both branches do; flat branches with a constant
/// share do not change.
fn mixture(truth: &Truth, judged: &Judgement, said: String) -> (Score, String) {
    let is_flat = truth.expected == Expected::Branches;
    match (&judged.outcome, judged.outcome.class()) {
        (_, Class::Unresolved) => (Score::Open, said),
        (_, Class::Flat) if is_flat => (Score::Right, said),
        (Outcome::Grows { law: Some(name) }, _) if !is_flat && truth.expected != Expected::NoLaw => {
            law(truth, truth.expected, judged, name, said)
        }
        (Outcome::Grows { law: None } | Outcome::Falls | Outcome::Varies, _) if truth.expected == Expected::NoLaw => {
            (Score::Right, said)
        }
        _ => (Score::Wrong, said),
    }
}

/// Describes a judgement in a few words.
fn said(judged: &Judgement) -> String {
    let outcome = match &judged.outcome {
        Outcome::Flat { .. } => "flat".to_owned(),
        Outcome::Small => "small change".to_owned(),
        Outcome::Grows { law: Some(law) } => {
            let rivals: Vec<&str> = judged.rivals.iter().map(|rival| rival.law.as_str()).collect();
            format!("{law} ({})", rivals.join(" "))
        }
        Outcome::Grows { law: None } => "grows, by no simple law".to_owned(),
        Outcome::Falls => "falls".to_owned(),
        Outcome::Varies => "varies".to_owned(),
        Outcome::Unresolved { reason, .. } => format!("unresolved {reason:?}"),
    };
    if judged.cliffs.is_empty() { outcome } else { format!("cliff; {outcome}") }
}

/// Returns the rows added up by group, in the order of the truths.
pub fn groups(rows: &[Row]) -> Vec<(&'static str, Tally)> {
    let mut groups: Vec<(&'static str, Tally)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(group, _)| *group == row.group) {
            Some((_, tally)) => tally.add(&row.tally),
            None => groups.push((row.group, row.tally.clone())),
        }
    }
    groups
}

/// Returns the sum of the groups.
pub fn total(groups: &[(&'static str, Tally)]) -> Tally {
    let mut all = Tally::default();
    for (_, tally) in groups {
        all.add(tally);
    }
    all
}

/// Returns the table of the groups as Markdown, in percent, with 95% intervals of the shares of wrong verdicts.
pub fn markdown(groups: &[(&'static str, Tally)]) -> String {
    let mut text =
        "| truth | series | right | right or rival | wrong | not resolved | interval holds | became wrong, corrected \
         with more passes |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
    let all = total(groups);
    for (name, tally) in groups.iter().map(|(name, tally)| (*name, tally)).chain([("all", &all)]) {
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let coverage = if tally.growths == 0 { "–".to_owned() } else { percent(tally.coverage()) };
        let cells = [
            name.to_owned(),
            tally.trials.to_string(),
            percent(tally.share(Score::Right)),
            percent(tally.good()),
            tally.of_all(Score::Wrong).to_string(),
            percent(tally.share(Score::Open)),
            coverage,
            format!("{}, {} of {}", tally.turned, tally.mended, tally.again),
        ];
        text.extend(["| ", &cells.join(" | "), " |\n"]);
    }
    text
}
