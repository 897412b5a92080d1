//! Two branches of the measured path, which calls take in turns.
//!
//! Calls may stay in a branch for five calls or for two thousand, so neither a window nor a single call shows which one
//! it is. A hidden Markov model does (Rabiner 1989; regression with switching regimes: Hamilton 1989). Both branches
//! follow a smooth curve over n, with a jump at each cliff, and a distance that may change with n. The model is fitted
//! by expectation and maximisation, to medians of blocks of eight calls, which a burst of slow calls does not fill, or
//! else to single calls. It then gives the branch of each call, from the call itself and from those before and after.
//!
//! What distinguishes branches from a shape of the curve (a step, warm-up, a misfit) is that passes disagree: at the
//! same n some are in one branch and some in the other.

use crate::bimodality::{DISTANCE_MIN_NS, has_two_modes, otsu};
use crate::cliffs;
use crate::growth::{solve, student};
use crate::points::Series;
use crate::quantile::{median_of, median_of_costs, quantile};
use crate::{Annotation, Cliff, Estimate};
use std::ops::{Range, RangeInclusive};

/// The calls of each pass, divided between two branches. A pass that stays in one of them has an empty series in the
/// other.
pub(crate) struct Branches {
    /// Calls of the cheap branch, by pass.
    pub(crate) low: Vec<Series>,
    /// Calls of the expensive branch, by pass.
    pub(crate) high: Vec<Series>,
    /// Probability that the next call leaves the cheap branch, and the expensive one.
    pub(crate) leave: [f64; 2],
    /// How far the branches are apart.
    pub(crate) distances: Option<Distances>,
    /// The cliffs, with the costs of the cheap branch.
    pub(crate) cliffs: Vec<Cliff>,
    /// The range of n without calls that may be cold.
    pub(crate) warm: (f64, f64),
}

/// How far two branches are apart, in logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distances {
    /// On the average over the range.
    pub(crate) mean: f64,
    /// In the last part of the range in which both have calls.
    pub(crate) last: f64,
    /// In the last third of the range less in the first; unknown if a branch has no calls there.
    pub(crate) change: Option<Change>,
}

/// A difference with its standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) value: f64,
    pub(crate) error: f64,
    pub(crate) freedom: f64,
}

impl Change {
    /// The interval of this confidence.
    pub(crate) fn interval(&self, confidence: f64) -> Estimate {
        let half = student(0.5 + confidence / 2.0, self.freedom) * self.error;
        Estimate { value: self.value, low: self.value - half, high: self.value + half }
    }
}

/// Calls in a block.
const BLOCK: usize = 8;
/// Smallest ratio of the branches: of blocks, and of single calls.
const RATIO_MIN: [f64; 2] = [1.15, 1.25];
/// Smallest distance of the branches, in standard deviations of a block and of a call.
const DISTANCE_MIN: [f64; 2] = [2.2, 2.5];
/// Smallest share of a branch.
const SHARE_MIN: f64 = 0.03;
/// Fewest passes with calls in both branches, and changes of branch in all passes: an episode is not a branch.
const PASSES_MIN: usize = 2;
const CHANGES_MIN: usize = 3;
/// Largest mean uncertainty about the branch of a call. In a zone where it is larger, no call is assigned.
const DOUBT_MAX: f64 = 0.08;
/// Smallest share of the variance of the branch that is between passes at the same n.
const DISAGREEMENT_MIN: f64 = 0.35;

/// Divides the calls between two branches, if passes change between two.
pub(crate) fn find(series: &[Series], annotations: &[Annotation]) -> Option<Branches> {
    if series.len() < PASSES_MIN {
        return None;
    }
    let is_sticky = varies_in_runs(series);
    if !is_sticky && !has_two_modes(series) {
        return None;
    }
    let mut steps: Vec<f64> = cliffs::find(series, annotations).iter().map(|cliff| cliff.n.value).collect();
    for jump in common_jumps(series) {
        if steps.iter().all(|step| !is_near(*step, jump)) {
            steps.push(jump);
        }
    }
    steps.truncate(STEPS_MAX);
    let sizes: &[usize] = if is_sticky { &[BLOCK, 1] } else { &[1] };
    sizes.iter().find_map(|size| divided(series, *size, &steps, annotations))
}

/// Most cliffs that the model has.
const STEPS_MAX: usize = 3;

/// Whether two n are the same cliff.
fn is_near(a: f64, b: f64) -> bool {
    (a / b).ln().abs() < 0.06
}

fn divided(series: &[Series], size: usize, steps: &[f64], annotations: &[Annotation]) -> Option<Branches> {
    let basis = Basis::of(series, steps)?;
    let of_size = |size| series.iter().map(|one| Track::of(one, size, &basis)).collect::<Vec<Track>>();
    let tracks = of_size(size);
    let mut model = Model::initial(&tracks, &basis)?;
    model.fit(&tracks);
    let is_single = usize::from(size == 1);
    if !model.is_apart(&tracks, RATIO_MIN[is_single], DISTANCE_MIN[is_single]) {
        return None;
    }
    // Single strays look like short stays, so blocks know the length of stays better.
    let leave = model.leave.map(|leave| 1.0 - (1.0 - leave).powf(1.0 / size as f64));
    let (tracks, mut model) = if size == 1 {
        (tracks, model)
    } else {
        let calls = of_size(1);
        let model = model.of_calls(&calls, &tracks, size);
        (calls, model)
    };
    for _ in 0..ROUNDS_OF_CALLS {
        model.place_steps(&tracks);
        model.improve(&tracks, BEND[1]);
    }
    let states: Vec<Vec<f64>> = model.smooth(&tracks).into_iter().map(|pass| pass.high).collect();
    let is_clear = clear_zones(&tracks, &states)?;
    if !is_mixed(&states) || disagreement(series, &states) < DISAGREEMENT_MIN {
        return None;
    }
    let warm: Vec<Range<usize>> = series.iter().map(warm).collect();
    let ends = tracks.iter().zip(&warm).filter(|pair| !pair.1.is_empty());
    let warm_range = ends.fold((f64::MAX, 0.0), |(first, last), (track, warm)| {
        (f64::min(first, track.n[warm.start]), f64::max(last, track.n[warm.end - 1]))
    });
    let distances = model.distances(&tracks, &states, &is_clear, (&warm, warm_range));
    let level = series.iter().zip(&tracks).zip(&states).map(|((one, track), states)| model.level(one, track, states));
    let cliffs = cliffs::find(&level.collect::<Vec<Series>>(), annotations);
    let passes = series.iter().zip(&tracks).zip(&states);
    let (low, high) = passes.map(|((one, track), states)| divide(one, track, states, &is_clear)).unzip();
    Some(Branches { low, high, leave, distances, cliffs, warm: warm_range })
}

/// The calls of a pass, by index, without those that may be cold: they look like calls of the expensive branch.
fn warm(one: &Series) -> Range<usize> {
    let count = one.n.len();
    let cold = (count / 8).min(COLD_MAX);
    if one.is_down { 0..count - cold } else { cold..count }
}

/// Most calls of a pass that may be cold.
const COLD_MAX: usize = 256;

/// Blocks on each side of a jump, at least and at most.
const SIDE: (usize, usize) = (2, 32);
/// Smallest jump that is searched, as a factor.
const JUMP_MIN: f64 = 1.8;

/// Where the cheap calls of all passes and the expensive ones jump together: cliffs of both branches, which changes of
/// branch may hide from single passes.
fn common_jumps(series: &[Series]) -> Vec<f64> {
    let passes: Vec<(Vec<f64>, Vec<f64>)> = series.iter().map(blocks).collect();
    let Some((n, _)) = passes.iter().max_by_key(|(n, _)| n.len()) else { return Vec::new() };
    let ends = |from: usize, to: usize| {
        let (first, last) = (n[from], n[to - 1]);
        let of_pass = |(n, y): &(Vec<f64>, Vec<f64>)| {
            y[n.partition_point(|n| *n < first)..n.partition_point(|n| *n <= last)].to_vec()
        };
        let mut all: Vec<f64> = passes.iter().flat_map(of_pass).collect();
        all.sort_by(f64::total_cmp);
        [0.1, 0.9].map(|q| quantile(&all, q).unwrap_or(0.0))
    };
    let mut found: Vec<(f64, f64)> = Vec::new();
    let mut i = 2 * SIDE.0;
    while i + SIDE.0 < n.len() {
        let side = (i / 8).clamp(SIDE.0, SIDE.1);
        let (before, after) = (ends(i - side, i), ends(i, (i + side).min(n.len())));
        let jump = (after[0] - before[0]).min(after[1] - before[1]);
        if jump >= JUMP_MIN.ln() {
            match found.last_mut().filter(|last| is_near(last.0, n[i])) {
                Some(last) if last.1 < jump => *last = (n[i], jump),
                Some(_) => {}
                None => found.push((n[i], jump)),
            }
        }
        i += (side / 4).max(1);
    }
    found.into_iter().map(|(n, _)| n).collect()
}

/// In which zones the branches of calls are known; `None` if in less than half of the range.
fn clear_zones(tracks: &[Track], states: &[Vec<f64>]) -> Option<[bool; KNOTS]> {
    let mut doubts = [(0.0, 0.0); KNOTS];
    for (track, states) in tracks.iter().zip(states) {
        for (place, high) in track.place.iter().zip(states) {
            let doubt = &mut doubts[zone(*place)];
            *doubt = (doubt.0 + high.min(1.0 - high), doubt.1 + 1.0);
        }
    }
    let clear = doubts.map(|(doubt, calls)| doubt <= DOUBT_MAX * calls);
    let known: f64 = doubts.iter().zip(clear).filter(|pair| pair.1).map(|pair| pair.0.1).sum();
    let calls: f64 = doubts.iter().map(|doubt| doubt.1).sum();
    (known >= 0.5 * calls).then_some(clear)
}

/// Whether calls change between the branches in several passes, and often enough.
fn is_mixed(states: &[Vec<f64>]) -> bool {
    let share = |states: &[f64]| states.iter().sum::<f64>() / states.len().max(1) as f64;
    let is_shared = |share: f64| (SHARE_MIN..=1.0 - SHARE_MIN).contains(&share);
    let mixed = states.iter().filter(|pass| is_shared(share(pass))).count();
    let changes = |states: &Vec<f64>| {
        let mut sure = states.iter().filter(|high| !UNSURE.contains(high)).map(|high| *high > 0.5);
        let first = sure.next();
        sure.fold((first, 0), |(before, changes), state| (Some(state), changes + usize::from(before != Some(state)))).1
    };
    mixed >= PASSES_MIN
        && states.iter().map(changes).sum::<usize>() >= CHANGES_MIN
        && is_shared(share(&states.concat()))
}

/// Share of the variance of the branch that is between passes at the same n: near 1 for branches taken at random, near
/// 0 for a shape that all passes have.
fn disagreement(series: &[Series], states: &[Vec<f64>]) -> f64 {
    let ends = series.iter().flat_map(|one| one.n.first().into_iter().chain(one.n.last()));
    let (first, last) = ends.fold((u32::MAX, 0), |(low, high), n| (low.min(*n), high.max(*n)));
    let longest = series.iter().map(|one| one.n.len()).max().unwrap_or(1).max(2);
    let width = f64::from(last.saturating_sub(first).max(1)) / (longest - 1) as f64;
    let mut bins = vec![(0.0, 0.0, 0.0); longest];
    for (one, states) in series.iter().zip(states) {
        for (n, high) in one.n.iter().zip(states) {
            let bin = &mut bins[((f64::from(n - first) / width) as usize).min(longest - 1)];
            *bin = (bin.0 + 1.0, bin.1 + high, bin.2 + high * high);
        }
    }
    let (mut between, mut calls, mut sum, mut squares) = (0.0, 0.0, 0.0, 0.0);
    for (count, of_bin, of_squares) in bins.into_iter().filter(|bin| bin.0 > 1.0) {
        between += (of_squares - of_bin * of_bin / count) * count / (count - 1.0);
        (calls, sum, squares) = (calls + count, sum + of_bin, squares + of_squares);
    }
    between / (squares - sum * sum / f64::max(calls, 1.0)).max(1e-9)
}

/// Probabilities of the expensive branch at which a call is assigned to none.
const UNSURE: RangeInclusive<f64> = 0.1..=0.9;

/// The calls of a pass in each branch, without those of zones where the branches cannot be told apart.
fn divide(one: &Series, track: &Track, states: &[f64], is_clear: &[bool; KNOTS]) -> (Series, Series) {
    let empty = || Series { n: Vec::new(), costs: Vec::new(), is_down: one.is_down };
    let (mut low, mut high) = (empty(), empty());
    for (((n, cost), place), state) in one.n.iter().zip(&one.costs).zip(&track.place).zip(states) {
        if UNSURE.contains(state) || !is_clear[zone(*place)] {
            continue;
        }
        let branch = if *state > 0.5 { &mut high } else { &mut low };
        branch.n.push(*n);
        branch.costs.push(*cost);
    }
    (low, high)
}

/// One pass as a sequence of observations: blocks or calls.
struct Track {
    n: Vec<f64>,
    /// Log costs.
    y: Vec<f64>,
    /// Where each n is among the knots.
    place: Vec<f64>,
}

impl Track {
    fn of(one: &Series, size: usize, basis: &Basis) -> Self {
        let (n, y) = if size == 1 {
            let log = |cost: &u64| (*cost as f64).max(0.5).ln();
            (one.n.iter().map(|n| f64::from(*n)).collect(), one.costs.iter().map(log).collect())
        } else {
            blocks(one)
        };
        Self { place: n.iter().map(|n| basis.place(*n)).collect(), n, y }
    }
}

/// Log medians of the blocks of a pass, and the n at their middles.
fn blocks(one: &Series) -> (Vec<f64>, Vec<f64>) {
    let mut block = [0; BLOCK];
    let median = |costs: &[u64]| {
        let block = &mut block[..costs.len()];
        block.copy_from_slice(costs);
        median_of_costs(block).unwrap_or(0.0).max(0.5).ln()
    };
    let y = one.costs.chunks(BLOCK).map(median).collect();
    (one.n.chunks(BLOCK).map(|n| f64::from(n[n.len() / 2])).collect(), y)
}

/// Smallest spread of the blocks of a pass, relative to the other passes, in which branches are searched (logarithm).
const SPREAD_MIN: f64 = 0.04;
/// The same, as a variance over that of neighbouring blocks.
const EXCESS_MIN: f64 = 1.3;

/// Whether blocks differ from those of other passes at the same n by more than from their neighbours: the mark of
/// stays in a branch. Most curves end the search here.
fn varies_in_runs(series: &[Series]) -> bool {
    let passes: Vec<(Vec<f64>, Vec<f64>)> = series.iter().map(blocks).collect();
    let ends = passes.iter().flat_map(|(n, _)| n.first().into_iter().chain(n.last()));
    let (first, last) = ends.fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(*n), high.max(*n)));
    let longest = passes.iter().map(|(n, _)| n.len()).max().unwrap_or(0);
    if longest < 16 || last <= first {
        return false;
    }
    let bin = |n: f64| (((n - first) / (last - first) * (longest - 1) as f64) + 0.5) as usize;
    let mut sums = vec![(0.0, 0.0); longest];
    for (n, y) in &passes {
        for (n, y) in n.iter().zip(y) {
            let sum = &mut sums[bin(*n)];
            *sum = (sum.0 + y, sum.1 + 1.0);
        }
    }
    let (mut distances, mut changes) = (Vec::new(), Vec::new());
    for (n, y) in &passes {
        let own = n.iter().zip(y).filter_map(|(n, y)| {
            let (sum, count) = sums[bin(*n)];
            (count > 1.0).then(|| (y - sum / count) * (count / (count - 1.0)).sqrt())
        });
        let own: Vec<f64> = own.collect();
        let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
        distances.extend(own.iter().map(|x| x - mean));
        changes.extend(y.windows(2).map(|pair| (pair[1] - pair[0]).abs()));
    }
    distances.sort_by(f64::total_cmp);
    let at = |q: f64| quantile(&distances, q).unwrap_or(0.0);
    // 92% of normal values are within 1.75 deviations; a branch with a share of a tenth is seen.
    let spread = (at(0.96) - at(0.04)) / 3.5;
    let noise = 1.4826 / std::f64::consts::SQRT_2 * median_of(&mut changes).unwrap_or(0.0);
    spread > SPREAD_MIN && spread * spread > EXCESS_MIN * noise * noise
}

/// Knots of the curve of the cheap branch, and of the distance of the other.
const KNOTS: usize = 10;
const DISTANCE_KNOTS: usize = 4;
/// Knots up to a third of the range, which are at a constant ratio.
const KNOTS_BELOW: f64 = 4.0;

/// The columns of the regression: knots of the cheap branch, cliffs, knots of the distance.
#[derive(Clone)]
struct Basis {
    first: f64,
    knee: f64,
    last: f64,
    steps: Vec<f64>,
}

impl Basis {
    fn of(series: &[Series], steps: &[f64]) -> Option<Self> {
        let last = f64::from(series.iter().filter_map(|one| one.n.last()).copied().max()?);
        let first = f64::from(series.iter().filter_map(|one| one.n.first()).copied().min()?);
        let first = first.max(last / 64.0).max(1.0);
        (last > 4.0 * first).then(|| Self { first, knee: last / 3.0, last, steps: steps.to_vec() })
    }

    fn size(&self) -> usize {
        KNOTS + self.steps.len() + DISTANCE_KNOTS
    }

    /// The place of an n among the knots, from 0 to `KNOTS` − 1.
    fn place(&self, n: f64) -> f64 {
        let x = if n < self.knee {
            KNOTS_BELOW * (n / self.first).ln() / (self.knee / self.first).ln()
        } else {
            let above = (KNOTS - 1) as f64 - KNOTS_BELOW;
            KNOTS_BELOW + above * (n - self.knee) / (self.last - self.knee)
        };
        x.clamp(0.0, (KNOTS - 1) as f64)
    }

    /// The columns that are not zero at `n`, with their values; those of the distance are the last two.
    fn columns(&self, (n, place): (f64, f64), into: &mut Vec<(usize, f64)>) {
        into.clear();
        let between = |x: f64, knots: usize| {
            let below = (x as usize).min(knots - 2);
            [(below, 1.0 - (x - below as f64)), (below + 1, x - below as f64)]
        };
        into.extend(between(place, KNOTS));
        let reached = self.steps.iter().enumerate().filter(|(_, step)| n >= **step);
        into.extend(reached.map(|(i, _)| (KNOTS + i, 1.0)));
        let scaled = place * (DISTANCE_KNOTS - 1) as f64 / (KNOTS - 1) as f64;
        let from = KNOTS + self.steps.len();
        into.extend(between(scaled, DISTANCE_KNOTS).map(|(knot, value)| (from + knot, value)));
    }
}

/// One of ten zones of the range, by the place among the knots.
fn zone(place: f64) -> usize {
    (place * KNOTS as f64 / (KNOTS as f64 - 0.999)) as usize
}

/// Two branches over n, the noise about them, and how calls change between them.
struct Model {
    basis: Basis,
    /// The coefficients of the columns.
    coefficients: Vec<f64>,
    /// Log cost of each pass relative to the curve.
    offsets: Vec<f64>,
    /// Standard deviation in each branch.
    deviation: [f64; 2],
    /// Probability of leaving each branch between two observations.
    leave: [f64; 2],
}

/// The branch of each observation of a pass.
struct Smoothed {
    /// Probability of the expensive branch.
    high: Vec<f64>,
    /// Expected number of changes from each branch.
    leaves: [f64; 2],
    /// Expected number of observations in each branch that have a successor.
    stays: [f64; 2],
}

/// Share of observations that belong to neither branch, and the range of log costs that they spread over.
const STRAY: f64 = 0.02;
const STRAY_RANGE: f64 = 6.0;
/// Rounds of the fit, and how many of the first have a stiff curve: the first states depend on a smooth one.
const ROUNDS: usize = 30;
const ROUNDS_STIFF: usize = 8;
/// Further rounds with single calls, after those with blocks.
const ROUNDS_OF_CALLS: usize = 5;
/// Prior deviation of the second differences of the knots, while stiff and later.
const BEND: [f64; 2] = [0.02, 0.2];
/// Prior deviation of the offset of a pass: a larger one is a pass in one branch.
const OFFSET: f64 = 0.04;
/// A change of the mean distance below this ends the fit.
const SETTLED: f64 = 2e-4;

impl Model {
    /// The model before the first round: two clusters about a smooth curve.
    fn initial(tracks: &[Track], basis: &Basis) -> Option<Self> {
        let mut model = Self {
            coefficients: vec![0.0; basis.size()],
            basis: basis.clone(),
            offsets: vec![0.0; tracks.len()],
            deviation: [1.0; 2],
            leave: [0.05; 2],
        };
        // One branch first.
        let none: Vec<Vec<[f64; 2]>> = tracks.iter().map(|track| vec![[1.0, 0.0]; track.n.len()]).collect();
        model.solve(tracks, &none, BEND[0]);
        let residuals = |model: &Self| {
            let of_track =
                |track: &Track| (0..track.y.len()).map(|i| track.y[i] - model.means(track, i)[0]).collect::<Vec<f64>>();
            tracks.iter().map(of_track).collect::<Vec<Vec<f64>>>()
        };
        let apart = residuals(&model);
        let mut sorted: Vec<f64> = apart.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        // The highest hundredth belongs to outliers; it would attract the cut.
        let cut = sorted.len() / 200;
        let sorted = sorted.get(cut..sorted.len() - 2 * cut).filter(|kept| kept.len() >= 40)?;
        let below = otsu(sorted);
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len().max(1) as f64;
        let (low, high) = (mean(&sorted[..below]), mean(&sorted[below..]));
        let threshold = f64::midpoint(sorted[below - 1], sorted[below]);
        let from = model.basis.size() - DISTANCE_KNOTS;
        model.coefficients[..KNOTS].iter_mut().for_each(|x| *x += low);
        model.coefficients[from..].fill(high - low);
        let square = |part: &[f64], centre: f64| part.iter().map(|x| (x - centre).powi(2)).sum::<f64>();
        let squares = square(&sorted[..below], low) + square(&sorted[below..], high);
        model.deviation = [(squares / sorted.len() as f64).sqrt().max(0.005); 2];
        let pairs = || apart.iter().flat_map(|row| row.windows(2));
        let is_high = |x: f64| x > threshold;
        for (branch, leave) in model.leave.iter_mut().enumerate() {
            let of = || pairs().filter(|pair| usize::from(is_high(pair[0])) == branch);
            let left = of().filter(|pair| is_high(pair[0]) != is_high(pair[1])).count() as f64;
            *leave = ((left + 0.5) / (of().count() as f64 + 5.0)).clamp(1e-4, 0.9);
        }
        Some(model)
    }

    /// Expectation and maximisation in turns.
    fn fit(&mut self, tracks: &[Track]) {
        let mut before = self.distance(tracks);
        for round in 0..ROUNDS {
            self.improve(tracks, if round < ROUNDS_STIFF { BEND[0] } else { BEND[1] });
            let after = self.distance(tracks);
            if round > ROUNDS_STIFF + 2 && (after - before).abs() < SETTLED {
                break;
            }
            before = after;
        }
    }

    /// One round of the fit.
    fn improve(&mut self, tracks: &[Track], bend: f64) {
        let smoothed = self.smooth(tracks);
        self.maximise(tracks, &smoothed, bend);
    }

    /// Sets the parameters to the most likely ones, given the probabilities of the branches.
    fn maximise(&mut self, tracks: &[Track], smoothed: &[Smoothed], bend: f64) {
        let weights: Vec<Vec<[f64; 2]>> = tracks
            .iter()
            .zip(smoothed)
            .enumerate()
            .map(|(pass, (track, states))| self.weights(track, &states.high, self.offsets[pass]))
            .collect();
        self.solve(tracks, &weights, bend);
        self.set_offsets(tracks, &weights);
        let mut squares = [(0.0, 0.0); 2];
        for ((track, weights), offset) in tracks.iter().zip(&weights).zip(&self.offsets) {
            for (i, weights) in weights.iter().enumerate() {
                let (y, means) = (track.y[i], self.means(track, i));
                for branch in 0..2 {
                    let square = &mut squares[branch];
                    square.0 += weights[branch] * (y - offset - means[branch]).powi(2);
                    square.1 += weights[branch];
                }
            }
        }
        self.deviation = squares.map(|(square, weight)| (square / weight.max(1e-9)).sqrt().max(0.005));
        let sum = |f: &dyn Fn(&Smoothed) -> [f64; 2], branch: usize| smoothed.iter().map(|s| f(s)[branch]).sum::<f64>();
        for branch in 0..2 {
            let (left, stayed) = (sum(&|s| s.leaves, branch), sum(&|s| s.stays, branch));
            self.leave[branch] = ((left + 0.5) / (stayed + 5.0)).clamp(1e-5, 0.95);
        }
    }

    /// The weight of each observation in each branch: its probability, less where it is a stray.
    fn weights(&self, track: &Track, high: &[f64], offset: f64) -> Vec<[f64; 2]> {
        let one = |(i, high): (usize, &f64)| {
            let means = self.means(track, i);
            let weight = |branch: usize, probability: f64| {
                let density = self.density(branch, track.y[i] - offset - means[branch]);
                probability * (1.0 - STRAY / STRAY_RANGE / density)
            };
            [weight(0, 1.0 - high), weight(1, *high)]
        };
        high.iter().enumerate().map(one).collect()
    }

    /// The log costs of both branches at an observation.
    fn means(&self, track: &Track, i: usize) -> [f64; 2] {
        let (n, place) = (track.n[i], track.place[i]);
        let at = |x: f64, values: &[f64]| {
            let below = (x as usize).min(values.len() - 2);
            values[below] + (values[below + 1] - values[below]) * (x - below as f64)
        };
        let from = self.basis.size() - DISTANCE_KNOTS;
        let steps = self.basis.steps.iter().zip(&self.coefficients[KNOTS..]);
        let jumps: f64 = steps.filter(|(step, _)| n >= **step).map(|(_, height)| height).sum();
        let low = at(place, &self.coefficients[..KNOTS]) + jumps;
        let scaled = place * (DISTANCE_KNOTS - 1) as f64 / (KNOTS - 1) as f64;
        [low, low + at(scaled, &self.coefficients[from..])]
    }

    /// The density of a distance from the mean of a branch.
    fn density(&self, branch: usize, distance: f64) -> f64 {
        let z = distance / self.deviation[branch];
        let normal = (-0.5 * z * z).exp() / (self.deviation[branch] * std::f64::consts::TAU.sqrt());
        (1.0 - STRAY) * normal + STRAY / STRAY_RANGE
    }

    /// Least squares with a prior on the bends of the curve and of the distance.
    fn solve(&mut self, tracks: &[Track], weights: &[Vec<[f64; 2]>], bend: f64) {
        let size = self.basis.size();
        let from = size - DISTANCE_KNOTS;
        let mut matrix = vec![vec![0.0; size]; size];
        let mut right = vec![0.0; size];
        let precision = self.deviation.map(|deviation| 1.0 / (deviation * deviation));
        let mut columns = Vec::new();
        for ((track, weights), offset) in tracks.iter().zip(weights).zip(&self.offsets) {
            for (j, weights) in weights.iter().enumerate() {
                let y = track.y[j];
                self.basis.columns((track.n[j], track.place[j]), &mut columns);
                let [low, high] = [weights[0] * precision[0], weights[1] * precision[1]];
                for (i, (a, x)) in columns.iter().enumerate() {
                    // The distance is a part of the expensive branch only.
                    let weight = if *a >= from { high } else { low + high };
                    right[*a] += weight * x * (y - offset);
                    for (b, z) in &columns[i..] {
                        let weight = if *b >= from { high } else { low + high };
                        matrix[*a][*b] += weight * x * z;
                    }
                }
            }
        }
        for a in 1..size {
            let (above, below) = matrix.split_at_mut(a);
            for (value, row) in below[0].iter_mut().zip(above) {
                *value = row[a];
            }
        }
        let prior = 1.0 / (bend * bend);
        // The distance is stiffer, as it has fewer knots; and a weak prior keeps an empty branch solvable.
        for (start, count, prior) in [(0, KNOTS, prior), (from, DISTANCE_KNOTS, prior.max(25.0))] {
            for k in start..start + count - 2 {
                for (i, x) in [1.0, -2.0, 1.0].into_iter().enumerate() {
                    for (j, z) in [1.0, -2.0, 1.0].into_iter().enumerate() {
                        matrix[k + i][k + j] += prior * x * z;
                    }
                }
            }
        }
        for k in 0..size {
            let pull = 1e-3;
            matrix[k][k] += pull;
            right[k] += pull * self.coefficients[k];
        }
        self.coefficients = solve(matrix, right);
    }

    /// The offsets of the passes, shrunk towards none.
    fn set_offsets(&mut self, tracks: &[Track], weights: &[Vec<[f64; 2]>]) {
        let precision = self.deviation.map(|deviation| 1.0 / (deviation * deviation));
        let one = |(track, weights): (&Track, &Vec<[f64; 2]>)| {
            let (mut sum, mut total) = (0.0, 1.0 / (OFFSET * OFFSET));
            for (i, weights) in weights.iter().enumerate() {
                let (y, means) = (track.y[i], self.means(track, i));
                for branch in 0..2 {
                    // Neighbours share errors: the noise of a pass is not that of independent blocks.
                    let weight = 0.1 * weights[branch] * precision[branch];
                    sum += weight * (y - means[branch]);
                    total += weight;
                }
            }
            sum / total
        };
        self.offsets = tracks.iter().zip(weights).map(one).collect();
    }

    /// The branch of each observation of each pass.
    fn smooth(&self, tracks: &[Track]) -> Vec<Smoothed> {
        tracks.iter().zip(&self.offsets).map(|(track, offset)| self.smooth_pass(track, *offset)).collect()
    }

    /// The branch of each observation of a pass, by the observations before and after it.
    fn smooth_pass(&self, track: &Track, offset: f64) -> Smoothed {
        let count = track.n.len();
        let density = |i: usize| {
            let means = self.means(track, i);
            [0, 1].map(|branch| self.density(branch, track.y[i] - offset - means[branch]))
        };
        let densities: Vec<[f64; 2]> = (0..count).map(density).collect();
        let [up, down] = self.leave;
        let mut forward: Vec<[f64; 2]> = Vec::with_capacity(count);
        let mut state = [down / (up + down), up / (up + down)];
        for density in &densities {
            let ahead = if forward.is_empty() {
                state
            } else {
                [state[0] * (1.0 - up) + state[1] * down, state[0] * up + state[1] * (1.0 - down)]
            };
            let joint = [ahead[0] * density[0], ahead[1] * density[1]];
            let total = (joint[0] + joint[1]).max(f64::MIN_POSITIVE);
            state = joint.map(|x| x / total);
            forward.push(state);
        }
        let mut high = vec![0.0; count];
        let (mut leaves, mut stays) = ([0.0; 2], [0.0; 2]);
        let mut backward = [0.5; 2];
        for i in (0..count).rev() {
            if i + 1 < count {
                let next = [backward[0] * densities[i + 1][0], backward[1] * densities[i + 1][1]];
                let of = forward[i];
                let moves = [
                    of[0] * (1.0 - up) * next[0],
                    of[0] * up * next[1],
                    of[1] * down * next[0],
                    of[1] * (1.0 - down) * next[1],
                ];
                let total = moves.iter().sum::<f64>().max(f64::MIN_POSITIVE);
                leaves[0] += moves[1] / total;
                leaves[1] += moves[2] / total;
                stays[0] += (moves[0] + moves[1]) / total;
                stays[1] += (moves[2] + moves[3]) / total;
                let behind = [(1.0 - up) * next[0] + up * next[1], down * next[0] + (1.0 - down) * next[1]];
                let total = (behind[0] + behind[1]).max(f64::MIN_POSITIVE);
                backward = behind.map(|x| x / total);
            }
            let joint = [forward[i][0] * backward[0], forward[i][1] * backward[1]];
            high[i] = joint[1] / (joint[0] + joint[1]).max(f64::MIN_POSITIVE);
        }
        Smoothed { high, leaves, stays }
    }

    /// The log costs of both branches at each observation.
    fn all_means<'a>(&'a self, tracks: &'a [Track]) -> impl Iterator<Item = [f64; 2]> + 'a {
        tracks.iter().flat_map(move |track| (0..track.n.len()).map(move |i| self.means(track, i)))
    }

    /// Mean distance of the branches in logarithms, over the observations.
    fn distance(&self, tracks: &[Track]) -> f64 {
        let sum = |(sum, count), [low, high]: [f64; 2]| (sum + high - low, count + 1.0);
        let (sum, count) = self.all_means(tracks).fold((0.0, 0.0), sum);
        sum / f64::max(count, 1.0)
    }

    /// Whether the branches are far apart, by ratio, for their width, and for a clock.
    fn is_apart(&self, tracks: &[Track], ratio: f64, distance: f64) -> bool {
        let mean = self.distance(tracks);
        // Slow episodes have all sizes; a branch is about as narrow as the other.
        let width = self.deviation[0].max(self.deviation[1]);
        let sum = |(sum, count), [low, high]: [f64; 2]| (sum + high.exp() - low.exp(), count + 1.0);
        let (sum, count) = self.all_means(tracks).fold((0.0, 0.0), sum);
        mean >= ratio.ln() && mean >= distance * width && sum > DISTANCE_MIN_NS * count
    }

    /// The calls of a pass at the level of the cheap branch.
    fn level(&self, one: &Series, track: &Track, states: &[f64]) -> Series {
        let cost = |(i, (cost, high)): (usize, (&u64, &f64))| {
            let [low, above] = self.means(track, i);
            if *high > 0.5 { (*cost as f64 * (low - above).exp()).round() as u64 } else { *cost }
        };
        let costs = one.costs.iter().zip(states).enumerate().map(cost).collect();
        Series { n: one.n.clone(), costs, is_down: one.is_down }
    }

    /// Moves each cliff to where the calls before and after it are most likely.
    fn place_steps(&mut self, tracks: &[Track]) {
        let [up, down] = self.leave;
        let shares = [down / (up + down), up / (up + down)];
        for k in 0..self.basis.steps.len() {
            let (step, height) = (self.basis.steps[k], self.coefficients[KNOTS + k]);
            let reach = (0.06 * step).max(32.0);
            let (from, to) = (step - reach, step + reach);
            // By n: how much likelier the calls are before the cliff than after it.
            let mut gains: Vec<(f64, f64)> = Vec::new();
            for (track, offset) in tracks.iter().zip(&self.offsets) {
                let range = track.n.partition_point(|n| *n < from)..track.n.partition_point(|n| *n < to);
                for i in range {
                    let means = self.means(track, i);
                    let before = if track.n[i] >= step { -height } else { 0.0 };
                    let log = |shift: f64| {
                        let of = |branch: usize| {
                            shares[branch] * self.density(branch, track.y[i] - offset - means[branch] - shift)
                        };
                        (of(0) + of(1)).ln()
                    };
                    gains.push((track.n[i], log(before) - log(before + height)));
                }
            }
            gains.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (mut sum, mut best) = (0.0, (0.0, gains.first().map_or(step, |first| first.0)));
            for pair in gains.windows(2) {
                sum += pair[0].1;
                if sum > best.0 && pair[1].0 > pair[0].0 {
                    best = (sum, pair[1].0);
                }
            }
            self.basis.steps[k] = best.1;
        }
    }

    /// The model of single calls, by that of blocks of `size`.
    fn of_calls(mut self, calls: &[Track], blocks: &[Track], size: usize) -> Self {
        let mut distances = [Vec::new(), Vec::new()];
        for ((track, states), offset) in calls.iter().zip(self.smooth(blocks)).zip(&self.offsets) {
            for (i, y) in track.y.iter().enumerate() {
                let high = states.high[i / size];
                if !UNSURE.contains(&high) {
                    let branch = usize::from(high > 0.5);
                    distances[branch].push((y - offset - self.means(track, i)[branch]).abs());
                }
            }
        }
        let [low, high] = distances.each_mut().map(|all| 1.4826 * median_of(all).unwrap_or(0.0));
        // The rarer branch may have few calls.
        self.deviation = [low.max(0.7 * high), high.max(0.7 * low)].map(|deviation| deviation.max(0.005));
        self.leave = self.leave.map(|leave| 1.0 - (1.0 - leave).powf(1.0 / size as f64));
        self
    }

    /// How far the branches are apart, by parts of the range.
    fn distances(
        &self,
        tracks: &[Track],
        states: &[Vec<f64>],
        is_clear: &[bool; KNOTS],
        (warm, (first, last)): (&[Range<usize>], (f64, f64)),
    ) -> Option<Distances> {
        // Of each third of the range and each branch: mean distances of the passes from the curve of the cheap branch.
        let mut means: [[Vec<f64>; 2]; 3] = Default::default();
        for (((track, states), offset), warm) in tracks.iter().zip(states).zip(&self.offsets).zip(warm) {
            let mut groups = [[(0.0, 0.0); 2]; 3];
            for i in warm.clone() {
                let high = &states[i];
                if UNSURE.contains(high) || !is_clear[zone(track.place[i])] {
                    continue;
                }
                let third = ((track.n[i] - first) / (last - first) * 2.999) as usize;
                let branch = usize::from(*high > 0.5);
                let means = self.means(track, i);
                let reach = 3.0 * self.deviation[branch];
                // An outlier is no change of the branch.
                let distance = (track.y[i] - offset - means[branch]).clamp(-reach, reach);
                let group = &mut groups[third][branch];
                *group = (group.0 + distance + means[branch] - means[0], group.1 + 1.0);
            }
            for (third, groups) in groups.iter().enumerate() {
                for (branch, (sum, calls)) in groups.iter().enumerate() {
                    if *calls >= CALLS_MIN {
                        means[third][branch].push(sum / calls);
                    }
                }
            }
        }
        let mean = |all: &[f64]| (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64);
        let of_third = |[low, high]: &[Vec<f64>; 2]| Some(mean(high)? - mean(low)?);
        let present: Vec<f64> = means.iter().filter_map(of_third).collect();
        let ends = [&means[0], &means[2]];
        // A stay or two in the rarer branch may be an episode of any size.
        let is_known = ends.iter().copied().flatten().all(|group| group.len() >= PASSES_OF_CHANGE);
        let change = of_third(ends[1]).zip(of_third(ends[0])).map(|(late, early)| late - early);
        let change = change.filter(|_| is_known);
        // Each branch has its own spread: the rarer one is in few passes, and may be in another part of each.
        let (mut total, mut uncertainty) = (0.0, 0.0);
        for branch in 0..2 {
            let (mut squares, mut freedom) = (PASS_PRIOR.1 * PASS_PRIOR.0 * PASS_PRIOR.0, PASS_PRIOR.1);
            for group in means.iter().map(|third| &third[branch]) {
                let Some(centre) = mean(group) else { continue };
                squares += group.iter().map(|x| (x - centre).powi(2)).sum::<f64>();
                freedom += group.len() as f64 - 1.0;
            }
            let inverse: f64 = ends.iter().map(|third| 1.0 / third[branch].len().max(1) as f64).sum();
            let square = squares / freedom * inverse;
            (total, uncertainty) = (total + square, uncertainty + square * square / freedom);
        }
        let freedom = total * total / uncertainty;
        let of_change = |value| Change { value, error: total.sqrt(), freedom };
        Some(Distances { mean: mean(&present)?, last: *present.last()?, change: change.map(of_change) })
    }
}

/// Fewest calls of a pass in a branch and a third of the range.
const CALLS_MIN: f64 = 8.0;
/// Fewest passes with as many in each branch at both ends of the range.
const PASSES_OF_CHANGE: usize = 3;
/// Prior deviation of a pass in a third of the range, and its weight in degrees of freedom.
const PASS_PRIOR: (f64, f64) = (0.05, 2.0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{Mixture, Noise, Truth, simulate, truths};
    use crate::points::series_of;

    fn searched(truth: &Truth, noise: f64, calls: u32, seed: u64) -> Option<Branches> {
        // No way down: every fourth seed.
        find(&series_of(&simulate(truth, &Noise::of_call(noise), calls, 5, 4 * seed + 1), false), &[])
    }

    /// Guards against branches that are missed: by single calls where calls stay, by blocks where they do not.
    #[test]
    fn branches_are_found_whatever_the_length_of_the_stays() {
        for (ratio, dwell, noise) in
            [(1.3, 5.0, 0.05), (1.3, 100.0, 0.15), (2.0, 5.0, 0.15), (2.0, 500.0, 0.15), (10.0, 20.0, 0.05)]
        {
            let truth = Mixture::flat(ratio, 0.4, dwell).truth("", String::new());
            for seed in 0..4 {
                let found = searched(&truth, noise, 4000, seed);
                let found = found.unwrap_or_else(|| panic!("×{ratio}, dwell {dwell}, seed {seed}"));
                let calls = |all: &[Series]| all.iter().map(|one| one.n.len()).sum::<usize>() as f64;
                let share = calls(&found.high) / (calls(&found.low) + calls(&found.high));
                assert!((share - 0.4).abs() < 0.25, "×{ratio}, dwell {dwell}: share {share}");
                let told = found.distances.unwrap().mean.exp();
                assert!((told / ratio - 1.0).abs() < 0.1, "×{ratio}, dwell {dwell}: ×{told}");
            }
        }
    }

    /// Guards against noise, growth, steps and cliffs taken for branches.
    #[test]
    fn one_path_has_no_branches() {
        let plain = |truth: &Truth| !truth.is_mixture();
        let all: Vec<Truth> = truths(2000).into_iter().filter(plain).collect();
        let mut found = Vec::new();
        for truth in &all {
            for noise in [0.05, 0.15] {
                if searched(truth, noise, 2000, 1).is_some() {
                    found.push(format!("{truth:?} at {noise}"));
                }
            }
        }
        assert!(found.len() * 50 <= all.len() * 2, "{} of {}: {found:?}", found.len(), 2 * all.len());
    }
}
