//! Curves of exactly counted costs (instructions under an emulator): no noise, so no statistics.
//!
//! What varies here varies in the kernel: another path, a search that begins at random, a table that is refilled, and
//! now and then a timer's interrupt, which adds its thousands of instructions to whatever call it meets. So a figure
//! is a cost that occurred (the lower median), an interval is what the passes show and not what chance might, a
//! constant is a constant when it does not move at all, and a law's misfit is its own.

use crate::judgement::Outcome;
use crate::law::{Fit, Shape, by_name};
use crate::outliers::{Outliers, Pattern, PatternRule};
use crate::points::{Grid, Series, series_of};
use crate::polish::Level;
use crate::quantile::lower_median;
use crate::select::Selection;
use crate::{Cliff, Curve, Estimate, Options};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which costs occurred, of a curve that was counted exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exact {
    /// Share of the n at which every pass counted the same, 0 to 1.
    pub agree: f64,
    /// The commonest costs with their shares of the calls, commonest first; up to the first cliff.
    pub common: Vec<(u64, f64)>,
    /// How many different costs there are.
    pub distinct: usize,
    /// The mean cost of a call.
    pub mean: f64,
    /// Calls with a cost that occurred once only, far above the calls around: a timer's interrupt met them.
    pub interrupted: usize,
}

/// Relative misfit that counts against no law. What is exact may be held to this.
pub(crate) const TOLERANCE: f64 = 0.0005;
/// A law that misses by more of the whole rise (root mean square, in logarithms) is none.
const LACK_MAX: f64 = 0.05;
/// And one that misses by no more than this is the law, however small the rise.
const LACK_NONE: f64 = 0.005;
/// A smaller rise is no growth: a path of a few instructions more is not worth a law.
const RISE_MIN: f64 = 0.02;
/// Fewer points than this decide nothing.
pub(crate) const POINTS_MIN: usize = 4;
/// A call is dear if it costs so many times the calls around it, and so many instructions more.
const DEAR: (f64, f64) = (1.1, 50.0);
/// Costs no further apart than this are one path's.
const SAME_PATH: f64 = 0.003;
/// Fewer calls than this keep no rhythm.
const RHYTHM_MIN: usize = 8;
/// Of the distances between dear calls, the share that must be multiples of the period.
const KEPT_MIN: f64 = 0.8;
/// Rhythms told.
const RHYTHMS_MAX: usize = 6;
/// An interrupt adds this much at least, in instructions.
const INTERRUPT_MIN: f64 = 1_000.0;
/// Calls whose median is "local".
const BLOCK: usize = 64;

/// What is asked of an exact curve: nothing of chance.
pub(crate) fn options(options: &Options) -> Options {
    Options { draws: 0, law_tolerance: TOLERANCE, between_runs: 0.0, ..options.clone() }
}

/// The reduced curve: each point the lower median of its passes, which is a cost that occurred.
pub(crate) fn level(grid: &Grid) -> Level {
    let passes = grid.cells.len();
    let points = grid.n.len();
    let column = |j: usize| grid.cells.iter().filter_map(|row| row[j]).collect::<Vec<f64>>();
    Level {
        n: grid.n.clone(),
        cells: grid.cells.clone(),
        offsets: vec![0.0; passes],
        mean: (0..points).map(|j| lower_median(&mut column(j)).unwrap_or(0.0)).collect(),
        error: vec![0.0; points],
        error_absolute: vec![0.0; points],
        freedom: 1.0,
        passes,
    }
}

/// A whole number out of its logarithm.
pub(crate) fn whole(log: f64) -> f64 {
    log.exp().round()
}

/// A point's cost: its value with the lowest and the highest pass.
pub(crate) fn point(level: &Level, j: usize) -> Estimate {
    let cells = || level.cells.iter().filter_map(|row| row[j]);
    let value = whole(level.mean[j]);
    Estimate { value, low: cells().map(whole).fold(value, f64::min), high: cells().map(whole).fold(value, f64::max) }
}

/// A contrast of the points in logarithms, with the lowest and the highest pass.
pub(crate) fn contrast(level: &Level, weights: &[f64]) -> Estimate {
    // Sums of thirds leave a last digit; a constant has none.
    let clean = |x: f64| if x.abs() < 1e-12 { 0.0 } else { x };
    let sum = |row: &dyn Fn(usize) -> Option<f64>| {
        let terms = weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
        terms.map(|(j, weight)| Some(weight * row(j)?)).sum::<Option<f64>>().map(clean)
    };
    let value = sum(&|j| Some(level.mean[j])).unwrap_or(0.0);
    let passes = || level.cells.iter().filter_map(|cells| sum(&|j| cells[j]));
    Estimate { value, low: passes().fold(value, f64::min), high: passes().fold(value, f64::max) }
}

/// How far the points lie apart, in logarithms.
fn height(level: &Level) -> f64 {
    let low = level.mean.iter().copied().fold(f64::MAX, f64::min);
    level.mean.iter().copied().fold(f64::MIN, f64::max) - low
}

/// The order of the questions: does it move at all, is it a law to the letter, is it flat within δ, does it fall, is
/// it a law.
pub(crate) fn outcome(growth: Estimate, level: &Level, selection: &Selection, options: &Options) -> Outcome {
    let height = height(level);
    if height < 1e-12 {
        return Outcome::Constant { within: 0.0 };
    }
    let best = &selection.best;
    let lack = best.rms_residual / height;
    let grows = growth.value.ln() > RISE_MIN.ln_1p() && best.law != "constant";
    if grows && lack <= LACK_NONE {
        return Outcome::Grows { law: best.law.clone() };
    }
    if height <= 2.0 * options.delta.ln_1p() && growth.value.ln().abs() <= options.delta.ln_1p() {
        return Outcome::Constant { within: (height / 2.0).exp_m1() };
    }
    let start = level.mean[0];
    let rises = level.mean.iter().any(|y| y - start > options.delta.ln_1p());
    if growth.value < 1.0 / (1.0 + options.delta) && !rises {
        return Outcome::Decreases;
    }
    if grows && lack <= LACK_MAX { Outcome::Grows { law: best.law.clone() } } else { Outcome::NoSimpleLaw }
}

/// The constant law at a cost that occurred.
pub(crate) fn flat(level: &Level) -> Option<Fit> {
    let law = by_name("constant")?;
    let value = whole(lower_median(&mut level.mean.clone())?);
    let square: f64 = level.mean.iter().map(|y| (y - value.ln()).powi(2)).sum();
    Some(Fit {
        law: law.name().to_owned(),
        fixed: Estimate::bare(value),
        slope: None,
        location: None,
        ratio: None,
        delta_bic: 0.0,
        rms_residual: (square / level.mean.len() as f64).sqrt(),
        lack_of_fit_p: None,
    })
}

/// Fits the coefficients of a chosen law anew, by least squares in closed form, so that what is a whole number comes
/// out as one.
pub(crate) fn refine(fit: &mut Fit, level: &Level) {
    fit.lack_of_fit_p = None;
    let Some(law) = by_name(&fit.law).filter(|law| law.shape() != Shape::Flat) else { return };
    let (mut s, mut sx, mut sy, mut sxx, mut sxy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (n, log) in level.n.iter().zip(&level.mean) {
        let (x, y) = (law.g(*n, fit.place()), whole(*log).max(1.0));
        let weight = 1.0 / (y * y);
        (s, sx, sy) = (s + weight, sx + weight * x, sy + weight * y);
        (sxx, sxy) = (sxx + weight * x * x, sxy + weight * x * y);
    }
    let slope = (s * sxy - sx * sy) / (s * sxx - sx * sx);
    let fixed = (sy - slope * sx) / s;
    if !slope.is_finite() || slope <= 0.0 || fixed < 0.0 {
        return;
    }
    let snapped = |x: f64| if (x - x.round()).abs() < 1e-6 * x.abs().max(1.0) { x.round() } else { x };
    (fit.fixed, fit.slope) = (Estimate::bare(snapped(fixed)), Some(Estimate::bare(snapped(slope))));
    let residual = |(n, y): (&f64, &f64)| (y - fit.at(*n).ln()).powi(2);
    let square: f64 = level.n.iter().zip(&level.mean).map(residual).sum();
    fit.rms_residual = (square / level.n.len() as f64).sqrt();
}

/// Which costs occurred up to the first cliff.
pub(crate) fn describe(curve: &Curve, cliffs: &[Cliff]) -> Exact {
    let end = cliffs.first().map_or(f64::MAX, |cliff| cliff.n.low);
    let series = series_of(curve, false);
    let mut costs: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut sum, mut calls) = (0.0, 0_usize);
    for (n, ns) in series.iter().flat_map(|one| one.n.iter().zip(&one.costs)) {
        if f64::from(*n) < end {
            *costs.entry(*ns).or_default() += 1;
            (sum, calls) = (sum + *ns as f64, calls + 1);
        }
    }
    let share = |times: usize| times as f64 / calls.max(1) as f64;
    let mut common: Vec<(u64, f64)> = costs.iter().map(|(cost, times)| (*cost, share(*times))).collect();
    common.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    common.truncate(4);
    Exact {
        agree: agree(&series),
        distinct: costs.len(),
        mean: sum / calls.max(1) as f64,
        interrupted: interrupted(&series, &costs).len(),
        common,
    }
}

/// Share of the n at which every pass counted the same.
fn agree(series: &[Series]) -> f64 {
    let Some((first, others)) = series.split_first() else { return 1.0 };
    let (mut same, mut common) = (0_usize, 0_usize);
    let mut places = vec![0; others.len()];
    for (n, ns) in first.n.iter().zip(&first.costs) {
        let mut here = Vec::with_capacity(others.len());
        for (other, place) in others.iter().zip(&mut places) {
            while other.n.get(*place).is_some_and(|at| at < n) {
                *place += 1;
            }
            here.extend((other.n.get(*place) == Some(n)).then(|| other.costs[*place]));
        }
        if here.len() == others.len() {
            common += 1;
            same += usize::from(here.iter().all(|other| other == ns));
        }
    }
    same as f64 / common.max(1) as f64
}

/// The cost of the calls around each block of calls.
fn locals(one: &Series) -> Vec<f64> {
    one.costs.chunks(BLOCK).map(|calls| lower_median(&mut calls.to_vec()).unwrap_or(0) as f64).collect()
}

/// The calls that an interrupt met: dear, and with a cost that no other call of the curve has.
fn interrupted(series: &[Series], costs: &BTreeMap<u64, usize>) -> Vec<u64> {
    let mut met = Vec::new();
    for one in series {
        let locals = locals(one);
        let is_met = |(i, ns): &(usize, &u64)| {
            **ns as f64 > locals[i / BLOCK] + INTERRUPT_MIN && costs.get(*ns).is_some_and(|times| *times == 1)
        };
        met.extend(one.costs.iter().enumerate().filter(is_met).map(|(_, ns)| *ns));
    }
    met
}

/// The dear calls of one path in one pass that keep a period.
struct Beat {
    period: u32,
    first: u32,
    count: usize,
    kept: f64,
    low: u64,
    high: u64,
    local: f64,
}

/// Adds to the recurring calls those that keep a period with one cost, wherever the period begins in each pass: a
/// refilled slab comes every so many calls, but not at the same call in each pass.
pub(crate) fn add_rhythms(outliers: &mut Outliers, curve: &Curve) {
    let series = series_of(curve, false);
    let beats: Vec<Vec<Beat>> = series.iter().map(beats_of).collect();
    let Some((first, others)) = beats.split_first() else { return };
    let is_like = |a: &Beat, b: &Beat| a.period == b.period && a.low <= b.high && b.low <= a.high;
    let mut shared: Vec<&Beat> =
        first.iter().filter(|beat| others.iter().all(|other| other.iter().any(|one| is_like(beat, one)))).collect();
    let extra = |beat: &Beat| (beat.high as f64 - beat.local) * beat.count as f64;
    shared.sort_by(|a, b| extra(b).total_cmp(&extra(a)));
    shared.truncate(RHYTHMS_MAX);
    let costs: BTreeMap<u64, usize> =
        series.iter().flat_map(|one| &one.costs).fold(BTreeMap::new(), |mut costs, ns| {
            *costs.entry(*ns).or_default() += 1;
            costs
        });
    let met = interrupted(&series, &costs);
    let total: f64 = series.iter().flat_map(|one| &one.costs).map(|ns| *ns as f64).sum();
    (outliers.isolated, outliers.isolated_time_share) =
        (met.len(), met.iter().map(|ns| *ns as f64).sum::<f64>() / total.max(1.0));
    let found: Vec<Pattern> = shared.into_iter().map(rhythm).collect();
    if found.is_empty() {
        return;
    }
    outliers.patterns.retain(|one| !matches!(one.rule, PatternRule::Periodic { .. }));
    outliers.patterns.splice(0..0, found);
}

fn rhythm(beat: &Beat) -> Pattern {
    Pattern {
        rule: PatternRule::Periodic { period: beat.period, phase: beat.first % beat.period },
        count: beat.count,
        kept: beat.kept,
        factor: beat.high as f64 / beat.local.max(1.0),
        cost_min: beat.low,
        cost_max: beat.high,
    }
}

/// The periods of one pass, path by path.
fn beats_of(one: &Series) -> Vec<Beat> {
    let locals = locals(one);
    let mut dear: Vec<(u64, u32, f64)> = Vec::new();
    for (i, (n, ns)) in one.n.iter().zip(&one.costs).enumerate() {
        let local = locals[i / BLOCK];
        if *ns as f64 > DEAR.0 * local + DEAR.1 {
            dear.push((*ns, *n, local));
        }
    }
    dear.sort_by_key(|call| (call.0, call.1));
    let paths = dear.chunk_by(|a, b| b.0 as f64 <= a.0 as f64 * (1.0 + SAME_PATH));
    paths.filter_map(beat).collect()
}

fn beat(path: &[(u64, u32, f64)]) -> Option<Beat> {
    if path.len() < RHYTHM_MIN {
        return None;
    }
    let mut places: Vec<u32> = path.iter().map(|call| call.1).collect();
    places.sort_unstable();
    let mut gaps: BTreeMap<u32, usize> = BTreeMap::new();
    for pair in places.windows(2) {
        *gaps.entry(pair[1] - pair[0]).or_default() += 1;
    }
    let all = places.len() - 1;
    let is_kept = |period: u32| gaps.iter().filter(|(gap, _)| **gap % period == 0).map(|(_, times)| times).sum();
    // The largest distance that explains the others: of divisors the commonest would be the smallest.
    let (period, kept) = gaps
        .iter()
        .filter(|(gap, times)| **gap >= 2 && **times * 10 >= all)
        .map(|(gap, _)| (*gap, is_kept(*gap)))
        .filter(|(_, kept): &(u32, usize)| *kept as f64 >= KEPT_MIN * all as f64)
        .max_by_key(|(gap, kept)| (*kept, *gap))?;
    let (low, high) = (path[0].0, path[path.len() - 1].0);
    let mut locals: Vec<f64> = path.iter().map(|call| call.2).collect();
    let local = lower_median(&mut locals)?;
    Some(Beat { period, first: places[0], count: places.len(), kept: kept as f64 / all as f64, low, high, local })
}
