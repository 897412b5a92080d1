//! The growth of the 99th percentile: from the first third of the judged range to the last.
//!
//! A tail is known much less precisely than a median, so no law is fitted to it and no point is reported. The statistic
//! of a pass is the 99th percentile of its calls in the last third over that in the first; passes are the replicates.
//!
//! Some tails are not caused by the call. Interference that the tags show is left out with its windows. The warm-up is
//! outside the judged range. The third cause is bursts that no tag shows. A burst raises the upper part of the costs in
//! some neighbouring blocks of one pass. So blocks whose 90th percentile exceeds that of the other passes at the same n
//! are left out, with their neighbours.

use crate::growth::student;
use crate::judgement::{Judgement, Outcome, Reason};
use crate::margin::{Place, place};
use crate::points::{Series, chosen_points, series_of};
use crate::polish::polish;
use crate::quantile::{deviation_within, median_of, upper_tenth};
use crate::{Curve, Estimate, Options};
use serde::{Deserialize, Serialize};

/// The judgement of the 99th percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Flat, a small change, or growth or fall by more than δ, each shown with 99% confidence; otherwise not resolved.
    /// The outcome names no law.
    pub outcome: Outcome,
    /// The 99th percentile in the last third of the judged range over that in the first, with a 90% confidence
    /// interval. Absent if there are too few calls or passes.
    pub growth: Option<Estimate>,
    /// The 99th percentile in the first and in the last third, in the unit of the judgement: geometric means over the
    /// passes.
    pub costs: Option<(f64, f64)>,
    /// The smallest number of calls in a pass on which a 99th percentile is based; 0 without a growth.
    pub calls: usize,
}

/// The quantile that is judged.
const QUANTILE: f64 = 0.99;
/// Minimum number of calls in a third of a pass: their 99th percentile is then the third largest cost.
const CALLS_MIN: usize = 300;
/// Minimum number of passes: with fewer, it cannot be known which one was disturbed.
const PASSES_MIN: usize = 3;

/// Confidence of an outcome, and of the interval that is reported.
const CERTAIN: f64 = 0.99;
const TOLD: f64 = 0.90;

/// Judges the 99th percentile over the judged range of the median. Returns `None` in three cases: the median has no
/// such range; there are few chosen n, each of which has its own percentiles; or there are two branches, because the
/// expensive branch is then the tail.
pub(crate) fn judge(curve: &Curve, median: &Judgement, has_branches: bool, options: &Options) -> Option<Tail> {
    let range = median.range.filter(|_| !has_branches)?;
    // Use the calls without interference, or all calls if fewer than half are without interference.
    let series = series_of(curve, curve.is_mostly_clean());
    if chosen_points(&series).is_some() {
        return None;
    }
    let unresolved = |reason| Tail {
        outcome: Outcome::Unresolved { reason, more_passes: None },
        growth: None,
        costs: None,
        calls: 0,
    };
    if series.len() < PASSES_MIN {
        return Some(unresolved(Reason::TooFewPasses));
    }
    let Some(edges) = edges(&series, range) else { return Some(unresolved(Reason::TooFewCalls)) };
    let passes = without_bursts(&series, &edges);
    if passes.len() < PASSES_MIN {
        return Some(unresolved(Reason::TooNoisy));
    }
    let found = Ratio::of(&passes);
    Some(Tail {
        outcome: outcome(&found.interval(CERTAIN).map(f64::exp), options),
        growth: Some(found.interval(TOLD).map(f64::exp)),
        costs: Some((found.first.exp(), (found.first + found.value).exp())),
        calls: passes.iter().map(Ends::calls).min().unwrap_or(0),
    })
}

fn outcome(growth: &Estimate, options: &Options) -> Outcome {
    match place(growth, options) {
        Place::Above => Outcome::Grows { law: None },
        Place::Below => Outcome::Falls,
        Place::Small => Outcome::Small,
        Place::Inside => Outcome::Flat { within: options.delta },
        Place::Open => Outcome::Unresolved { reason: Reason::TooNoisy, more_passes: None },
    }
}

/// Number of calls in a block: enough for a 90th percentile, and few compared with a burst of stolen time.
const BLOCK: f64 = 125.0;

/// Returns the edges of the blocks, in objects. Each third has equally many blocks. `None` if a third has too few
/// calls.
fn edges(series: &[Series], (first, last): (f64, f64)) -> Option<Vec<f64>> {
    let mut counts: Vec<f64> = series.iter().map(|one| one.between(first, last + 1.0).len() as f64).collect();
    let third = median_of(&mut counts)? / 3.0;
    let count = 3 * (third / BLOCK) as usize;
    let edge = |i: usize| first + (last + 1.0 - first) * i as f64 / count as f64;
    (third >= CALLS_MIN as f64).then(|| (0..=count).map(edge).collect())
}

/// A block is in a burst if its 90th percentile exceeds the value that its pass and its n explain by this many standard
/// deviations plus this logarithm. The second number allows for the deviation that medians over few passes hide.
const BURST: (f64, f64) = (4.0, 0.05);

/// Returns the 99th percentiles of the first and the last third of each pass, without blocks that may be in a burst.
/// Passes with too few remaining calls are left out.
fn without_bursts(series: &[Series], edges: &[f64]) -> Vec<Ends> {
    let blocks: Vec<(f64, f64)> = edges.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let of_pass = |one: &Series| blocks.iter().map(|(from, to)| upper(one.between(*from, *to))).collect();
    let residuals = residuals(&series.iter().map(of_pass).collect::<Vec<_>>());
    let limit = BURST.0 * deviation(&residuals) + BURST.1;
    let is_beyond = |row: &[Option<f64>], j: usize, sign: f64| {
        let near = &row[j.saturating_sub(1)..(j + 2).min(row.len())];
        near.iter().flatten().any(|x| sign * x > limit)
    };
    // If most passes are in a burst, the others seem too fast.
    let is_lost: Vec<bool> = (0..blocks.len()).map(|j| residuals.iter().any(|row| is_beyond(row, j, -1.0))).collect();
    let third = blocks.len() / 3;
    let of_third = |one: &Series, row: &[Option<f64>], from: usize| {
        let is_kept = |j: &usize| !is_lost[*j] && !is_beyond(row, *j, 1.0);
        let kept: Vec<usize> = (from..from + third).filter(is_kept).collect();
        let calls = kept.iter().flat_map(|j| one.between(blocks[*j].0, blocks[*j].1)).copied().collect();
        let centre = kept.iter().sum::<usize>() as f64 / kept.len() as f64;
        Some((Percentile::of(calls)?, centre))
    };
    let apart = (blocks.len() - third) as f64;
    let of_pass = |(one, row): (&Series, &Vec<Option<f64>>)| {
        let (first, from) = of_third(one, row, 0)?;
        let (last, to) = of_third(one, row, blocks.len() - third)?;
        Some(Ends { first, last, distance: (to - from) / apart })
    };
    series.iter().zip(&residuals).filter_map(of_pass).collect()
}

/// Returns the logarithm of the 90th percentile of a block; `None` if it has lost most of its calls.
fn upper(calls: &[u64]) -> Option<f64> {
    if (calls.len() as f64) < BLOCK / 2.0 {
        return None;
    }
    let (upper, _) = upper_tenth(&mut calls.to_vec())?;
    Some((upper as f64).max(0.5).ln())
}

/// Returns the part of each cell that the levels of its pass and its block do not explain.
fn residuals(cells: &[Vec<Option<f64>>]) -> Vec<Vec<Option<f64>>> {
    let blocks = cells.first().map_or(0, Vec::len);
    let (cells, _) = polish(cells);
    let column = |j: usize| cells.iter().filter_map(|row| row[j]).collect::<Vec<f64>>();
    let middles: Vec<f64> = (0..blocks).map(|j| median_of(&mut column(j)).unwrap_or(0.0)).collect();
    let of_row = |row: &Vec<Option<f64>>| row.iter().zip(&middles).map(|(x, m)| x.map(|x| x - m)).collect();
    cells.iter().map(of_row).collect()
}

/// Returns the standard deviation of the residuals of the passes.
fn deviation(residuals: &[Vec<Option<f64>>]) -> f64 {
    deviation_within(residuals.len(), &mut residuals.iter().flatten().flatten().map(|x| x.abs()).collect::<Vec<f64>>())
}

/// A 99th percentile, in logarithms.
struct Percentile {
    log: f64,
    /// Variance of `log` if the calls are independent.
    variance: f64,
    calls: usize,
}

impl Percentile {
    /// Computes the percentile by Hyndman and Fan's type 8, whose bias does not depend on the number of calls, and the
    /// variance from the order statistics one standard error below and above it.
    fn of(mut calls: Vec<u64>) -> Option<Self> {
        if calls.len() < CALLS_MIN {
            return None;
        }
        let count = calls.len() as f64;
        let place = (count + 1.0 / 3.0) * QUANTILE + 1.0 / 3.0 - 1.0;
        let reach = (count * QUANTILE * (1.0 - QUANTILE)).sqrt();
        let lowest = (place - reach).floor() as usize;
        calls.select_nth_unstable(lowest);
        let top = &mut calls[lowest..];
        top.sort_unstable();
        let log = |place: f64| {
            let at = place - lowest as f64;
            let of = |i: f64| (top[i as usize] as f64).max(0.5).ln();
            of(at.floor()) + at.fract() * (of(at.ceil()) - of(at.floor()))
        };
        let highest = (place + reach).min(count - 1.0);
        let errors = (highest - (place - reach)) / reach;
        let variance = ((log(highest) - log(place - reach)) / errors).powi(2);
        Some(Self { log: log(place), variance, calls: count as usize })
    }
}

/// The 99th percentiles of a pass.
struct Ends {
    first: Percentile,
    last: Percentile,
    /// Distance between the centres of the calls on which the percentiles are based, over that between the centres of
    /// the thirds. If the tail grows, a third that has lost blocks at one of its ends has another 99th percentile.
    distance: f64,
}

impl Ends {
    /// Returns the logarithm of the last percentile over the first, as if no call had been left out.
    fn growth(&self) -> f64 {
        (self.last.log - self.first.log) / self.distance
    }

    fn variance(&self) -> f64 {
        (self.first.variance + self.last.variance) / (self.distance * self.distance)
    }

    /// Returns the number of calls of the third that has fewer.
    fn calls(&self) -> usize {
        self.first.calls.min(self.last.calls)
    }
}

/// Weight, in degrees of freedom, of the variance that the percentiles predict, relative to that of the few passes. If
/// the passes show more variance, calls are not independent. If they show less, they agree better than the prediction
/// allows, and the prediction has less weight too. Otherwise chance could only widen intervals, which then contained
/// the truth too often. The weight falls with the square of the ratio, because a limit would make the interval jump.
const PREDICTED: f64 = 12.0;
/// Smallest ratio of these variances that has an effect; passes that agree even better prove no more.
const LEAST_RATIO: f64 = 0.1;
/// Assumed change between the middles of the outer thirds that other passes do not show, from a drift of 3% along a
/// pass. A few passes sometimes agree by chance.
const DRIFT: f64 = 0.02;

/// The last third over the first, in logarithms.
struct Ratio {
    /// The 99th percentile in the first third.
    first: f64,
    value: f64,
    error: f64,
    freedom: f64,
}

impl Ratio {
    fn of(passes: &[Ends]) -> Self {
        let count = passes.len() as f64;
        let mean = |f: &dyn Fn(&Ends) -> f64| passes.iter().map(f).sum::<f64>() / count;
        let value = mean(&Ends::growth);
        let shown = mean(&|one| (one.growth() - value).powi(2)) * count / (count - 1.0);
        // If the tail is a separate mode, a few passes have their percentile next to the gap below it, and predict a
        // far larger variance than the others. Passes with the percentile on the other side of the gap increase the
        // variance between the passes.
        let mut variances: Vec<f64> = passes.iter().map(Ends::variance).collect();
        let predicted = median_of(&mut variances).unwrap_or(0.0) + DRIFT * DRIFT;
        let ratio = shown / predicted;
        let weight = PREDICTED * if ratio > 1.0 { ratio.powi(-2) } else { ratio.max(LEAST_RATIO).powi(2) };
        let freedom = count - 1.0 + weight;
        let square = ((count - 1.0) * shown + weight * predicted) / freedom;
        Self { first: mean(&|one| one.first.log), value, error: (square / count).sqrt(), freedom }
    }

    fn interval(&self, confidence: f64) -> Estimate {
        let half = student(0.5 + confidence / 2.0, self.freedom) * self.error;
        Estimate { value: self.value, low: self.value - half, high: self.value + half }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{Noise, Truth, simulate, tails};
    use crate::{Verdict, judge};

    fn truth(detail: &str, calls: u32) -> Truth {
        tails(calls).into_iter().find(|truth| truth.detail == detail).unwrap()
    }

    fn verdict(detail: &str, calls: u32, seed: u64) -> Verdict {
        let curve = simulate(&truth(detail, calls), &Noise::of_call(0.05), calls, 5, seed);
        judge(&curve, None, &Options::default())
    }

    fn count(detail: &str, is_counted: impl Fn(&Tail) -> bool) -> usize {
        let tails = (0..20).filter_map(|seed| verdict(detail, 6_000, seed).p99);
        tails.filter(|tail| is_counted(tail)).count()
    }

    /// Guards against taking bursts of one pass for a tail that grows, and against a rule that finds nothing.
    #[test]
    fn a_growing_tail_is_told_from_bursts() {
        let grows = |tail: &Tail| matches!(tail.outcome, Outcome::Grows { .. });
        assert_eq!(count("flat, tail flat", grows), 0);
        assert_eq!(count("flat, tail flat", |tail| tail.outcome == Outcome::Falls), 0);
        assert!(count("flat, tail ×2", grows) >= 18, "{}", count("flat, tail ×2", grows));
        let falls = count("flat, tail ×0.5", |tail| tail.outcome == Outcome::Falls);
        assert!(falls >= 18, "{falls}");
    }

    /// Guards against a result that is based on the maximum of a few calls.
    #[test]
    fn few_calls_or_passes_have_no_growth() {
        let curve = |calls, passes| simulate(&tails(calls)[0], &Noise::of_call(0.05), calls, passes, 1);
        let tail = |curve: &Curve| judge(curve, None, &Options::default()).p99;
        let few = tail(&curve(900, 5)).unwrap();
        assert_eq!(few.outcome, Outcome::Unresolved { reason: Reason::TooFewCalls, more_passes: None });
        assert_eq!((few.growth, few.costs), (None, None));
        let few = tail(&curve(6_000, 2)).unwrap();
        assert_eq!(few.outcome, Outcome::Unresolved { reason: Reason::TooFewPasses, more_passes: None });
        assert!(tail(&curve(6_000, 5)).unwrap().growth.is_some());
    }

    /// Guards against reporting a drift of the machine as a tail that grows: the veto of the canary did not apply to
    /// it.
    #[test]
    fn the_canary_vetoes_a_tail() {
        let curve = simulate(&truth("flat, tail ×2", 6_000), &Noise::of_call(0.05), 6_000, 5, 1);
        let canary = |detail| simulate(&truth(detail, 6_000), &Noise::of_call(0.05), 6_000, 5, 2);
        let of = |canary: &Curve| judge(&curve, Some(canary), &Options::default()).p99.unwrap();
        assert!(matches!(of(&canary("flat, tail ×2")).outcome, Outcome::Grows { .. }));
        let vetoed = of(&canary("×2, tail flat"));
        assert_eq!(vetoed.outcome, Outcome::Unresolved { reason: Reason::CanaryMoved, more_passes: None });
        assert!(vetoed.growth.is_some() && vetoed.costs.is_some());
    }

    /// Guards against an interval that jumps when the passes begin to show more variance than the calls predict.
    #[test]
    fn the_interval_widens_without_a_jump() {
        let half = |spread: f64| {
            let pass = |sign: f64| ends(0.0, sign * spread, 0.0004, 1.0);
            let interval = Ratio::of(&[-1.0, -0.5, 0.0, 0.5, 1.0].map(pass)).interval(TOLD);
            interval.high - interval.value
        };
        for spread in (1..300).map(|i| 0.001 * f64::from(i)) {
            let (now, next) = (half(spread), half(spread + 0.001));
            assert!(next >= now && next < now + 0.004, "±{spread}: {now} {next}");
        }
        assert!(half(0.3) > 0.2, "{}", half(0.3));
    }

    /// Guards against a prediction with full weight if the passes agree better than it. Then chance could only widen
    /// the interval, which contained the truth in 93% instead of 90%.
    #[test]
    fn passes_that_agree_narrow_the_interval() {
        let half = |spread: f64| {
            let pass = |sign: f64| ends(0.0, sign * spread, 0.01, 1.0);
            let interval = Ratio::of(&[-1.0, -0.5, 0.0, 0.5, 1.0].map(pass)).interval(TOLD);
            interval.high - interval.value
        };
        // The passes show 0.60, 0.31 and 0.01 of the predicted variance.
        let [like, less, hardly] = [0.14, 0.1, 0.016].map(half);
        assert!(less < 0.85 * like && hardly < 0.5 * less && hardly > 0.01, "{like} {less} {hardly}");
    }

    fn ends(first: f64, last: f64, variance: f64, distance: f64) -> Ends {
        let percentile = |log: f64| Percentile { log, variance, calls: 1_000 };
        Ends { first: percentile(first), last: percentile(last), distance }
    }

    /// Guards against reporting the growth between the remaining calls as that between the thirds. In one pass a burst
    /// has removed the last two of five blocks of the last third.
    #[test]
    fn blocks_that_are_left_out_do_not_change_the_growth() {
        // The logarithm of the tail grows by 0.1 from block to block.
        let passes = [ends(0.2, 1.2, 1e-4, 1.0), ends(0.2, 1.2, 1e-4, 1.0), ends(0.2, 1.1, 1e-4, 0.9)];
        let found = Ratio::of(&passes);
        assert!((found.value - 1.0).abs() < 1e-12 && found.error < DRIFT, "{} ± {}", found.value, found.error);
    }

    /// Guards against one pass whose percentile is next to the gap below the tail: it used to widen all intervals.
    #[test]
    fn one_uncertain_percentile_widens_no_interval() {
        let half = |variance: f64| {
            let mut passes = [-0.02, -0.01, 0.0, 0.01, 0.02].map(|growth| ends(0.0, growth, 1e-4, 1.0));
            passes[2] = ends(0.0, 0.0, variance, 1.0);
            let interval = Ratio::of(&passes).interval(TOLD);
            interval.high - interval.value
        };
        assert!(half(1.0) < 1.01 * half(1e-4), "{} {}", half(1.0), half(1e-4));
    }

    /// Guards against a computed truth that differs from that of the series: slow calls around a growing median reach
    /// its tail.
    #[test]
    fn the_true_percentile_is_that_of_the_series() {
        let noise = Noise { bursts: 0.0, warm_up: false, drift: 0.0, pass: 0.0, ..Noise::of_call(0.15) };
        for detail in ["flat, tail flat", "×3, tail flat", "×3, tail ×3"] {
            let truth = truth(detail, 10_000);
            // With 800,000 calls in a third, the percentile has an error of 0.6%.
            let curve = simulate(&truth, &noise, 10_000, 240, 1);
            let of = |from: u32, to: u32| {
                let calls = curve.passes.iter().flat_map(|pass| pass.n.iter().zip(&pass.costs));
                let of_range = calls.filter(|(n, _)| (from..to).contains(n)).map(|(_, cost)| *cost).collect();
                Percentile::of(of_range).unwrap().log
            };
            let told = |from: u32, to: u32| truth.percentile_99((f64::from(from), f64::from(to)), &noise).ln();
            for (from, to) in [(1, 3_300), (6_700, 10_000)] {
                let (found, told) = (of(from, to), told(from, to));
                assert!((found - told).abs() < 0.02, "{detail} from {from}: {found}, but {told} is told");
            }
        }
    }

    /// Guards against counting interference that the tags show: one call in twenty is preempted, only at large n.
    #[test]
    fn tagged_calls_are_left_out() {
        let mut curve = simulate(&truth("flat, tail flat", 6_000), &Noise::of_call(0.05), 6_000, 5, 3);
        for pass in &mut curve.passes {
            for i in (0..pass.costs.len()).filter(|i| pass.n[*i] > 3_000 && i % 20 == 7) {
                pass.costs[i] *= 100;
                pass.clean[i] = false;
            }
        }
        let of = |curve: &Curve| judge(curve, None, &Options::default()).p99.unwrap();
        assert!(!matches!(of(&curve).outcome, Outcome::Grows { .. }), "{:?}", of(&curve));
        curve.passes.iter_mut().for_each(|pass| pass.clean.fill(true));
        assert!(matches!(of(&curve).outcome, Outcome::Grows { .. }), "{:?}", of(&curve));
    }
}
