//! The hidden Markov model: two branches over n, the noise around them, and the probabilities of a change of branch.
//!
//! It is fitted by expectation-maximisation, to all observations of a short series, and to evenly chosen chunks of a
//! long one. A *segment* is a part between adjacent knots or cliffs; in it, both branches are straight lines over the
//! position among the knots. So the sums of a segment are sufficient for the regression, and a round visits each
//! observation once.

use super::blocks::Blocks;
use super::{DISTANCE_MIN, RATIO_MIN, UNSURE};
use crate::bimodality::{DISTANCE_MIN_NS, otsu};
use crate::covariance::solve;
use crate::points::Series;
use crate::quantile::median_of;
use std::ops::Range;

/// Number of knots of the curve of the cheap branch, and of its distance to the other branch. Every third knot of the
/// curve is also a knot of the distance.
pub(super) const KNOTS: usize = 10;
const DISTANCE_KNOTS: usize = 4;
const KNOTS_PER_DISTANCE: usize = 3;
/// Number of knot intervals up to a third of the range, where knots are at a constant ratio.
const KNOTS_BELOW: f64 = 4.0;

/// The columns of the regression: knots of the cheap branch, cliffs, knots of the distance.
#[derive(Clone)]
pub(super) struct Basis {
    first: f64,
    knee: f64,
    last: f64,
    steps: Vec<f64>,
}

impl Basis {
    pub(super) fn of(series: &[Series], steps: &[f64]) -> Option<Self> {
        let last = f64::from(series.iter().filter_map(|one| one.n.last()).copied().max()?);
        let first = f64::from(series.iter().filter_map(|one| one.n.first()).copied().min()?);
        let first = first.max(last / 64.0).max(1.0);
        (last > 4.0 * first).then(|| Self { first, knee: last / 3.0, last, steps: steps.to_vec() })
    }

    fn size(&self) -> usize {
        KNOTS + self.steps.len() + DISTANCE_KNOTS
    }

    /// Returns the position of an n among the knots, from 0 to `KNOTS` − 1.
    fn place(&self, n: f64) -> f64 {
        let x = if n < self.knee {
            KNOTS_BELOW * (n / self.first).ln() / (self.knee / self.first).ln()
        } else {
            let above = (KNOTS - 1) as f64 - KNOTS_BELOW;
            KNOTS_BELOW + above * (n - self.knee) / (self.last - self.knee)
        };
        x.clamp(0.0, (KNOTS - 1) as f64)
    }

    /// Returns the parts of a track in which both branches are straight lines.
    fn segments(&self, track: &Track) -> Vec<Segment> {
        let mut cuts: Vec<usize> = (1..KNOTS - 1).map(|k| track.place.partition_point(|x| *x < k as f64)).collect();
        cuts.extend(self.steps.iter().map(|step| track.n.partition_point(|n| n < step)));
        cuts.extend([0, track.n.len()]);
        cuts.sort_unstable();
        let of = |pair: &[usize]| {
            let range = pair[0]..pair[1];
            let knot = (track.place.get(pair[0]).copied()? as usize).min(KNOTS - 2);
            (!range.is_empty()).then(|| Segment { knot, n: track.n[pair[0]], range })
        };
        cuts.windows(2).filter_map(of).collect()
    }

    /// Collects the columns that are not zero in a segment: index, value at its knot, and slope. The last two are those
    /// of the distance.
    fn columns(&self, segment: &Segment, into: &mut Vec<(usize, f64, f64)>) {
        into.clear();
        into.extend([(segment.knot, 1.0, -1.0), (segment.knot + 1, 0.0, 1.0)]);
        let reached = self.steps.iter().enumerate().filter(|(_, step)| segment.n >= **step);
        into.extend(reached.map(|(i, _)| (KNOTS + i, 1.0, 0.0)));
        let from = KNOTS + self.steps.len() + segment.knot / KNOTS_PER_DISTANCE;
        let (at_knot, slope) = along_distance(segment.knot);
        into.extend([(from, 1.0 - at_knot, -slope), (from + 1, at_knot, slope)]);
    }
}

/// Whether two n are the same cliff.
pub(super) fn is_near(a: f64, b: f64) -> bool {
    (a / b).ln().abs() < 0.06
}

/// Returns the position of a knot of the curve between two knots of the distance, and the step to the next knot of the
/// curve.
fn along_distance(knot: usize) -> (f64, f64) {
    let step = 1.0 / KNOTS_PER_DISTANCE as f64;
    ((knot % KNOTS_PER_DISTANCE) as f64 * step, step)
}

/// A part of a track between adjacent knots or cliffs.
struct Segment {
    range: Range<usize>,
    /// The knot before the segment.
    knot: usize,
    /// The n of the first observation.
    n: f64,
}

/// Consecutive observations of a pass: blocks or calls.
pub(super) struct Track {
    pass: usize,
    /// The index of the first observation among all of the pass.
    from: usize,
    pub(super) n: Vec<f64>,
    /// Log costs.
    y: Vec<f64>,
    /// The position of each n among the knots.
    pub(super) place: Vec<f64>,
}

/// Maximum number of observations that a model is fitted to, and the number in its stiff rounds, which most curves do
/// not survive.
pub(super) const OBSERVATIONS_MAX: usize = 16_384;
const OBSERVATIONS_STIFF: usize = 4_096;
/// Number of consecutive observations in a chosen chunk.
const CHUNK: usize = 64;

/// Chooses about `most` of the observations of passes of these lengths: all, or chunks that are at different n in each
/// pass.
fn chosen(lengths: &[usize], most: usize) -> Vec<(usize, Range<usize>)> {
    let every = lengths.iter().sum::<usize>().div_ceil(most);
    let of_pass = |(pass, length): (usize, &usize)| {
        let (length, chunk) = (*length, if every > 1 { CHUNK } else { *length });
        (0..length.div_ceil(chunk.max(1)))
            .filter(move |i| (i + pass).is_multiple_of(every.max(1)))
            .map(move |i| (pass, i * chunk..((i + 1) * chunk).min(length)))
            .collect::<Vec<(usize, Range<usize>)>>()
    };
    lengths.iter().enumerate().flat_map(of_pass).collect()
}

impl Track {
    fn of(pass: usize, from: usize, n: Vec<f64>, y: Vec<f64>, basis: &Basis) -> Self {
        Self { pass, from, place: n.iter().map(|n| basis.place(*n)).collect(), n, y }
    }

    fn of_calls(series: &[Series], pass: usize, range: Range<usize>, basis: &Basis) -> Self {
        let log = |cost: &u64| (*cost as f64).max(0.5).ln();
        let n = series[pass].n[range.clone()].iter().map(|n| f64::from(*n)).collect();
        Self::of(pass, range.start, n, series[pass].costs[range].iter().map(log).collect(), basis)
    }

    /// Returns every call of every pass.
    pub(super) fn all_calls(series: &[Series], basis: &Basis) -> Vec<Self> {
        (0..series.len()).map(|pass| Self::of_calls(series, pass, 0..series[pass].n.len(), basis)).collect()
    }

    /// Returns the calls that a model is fitted to, about `most`.
    pub(super) fn chosen_calls(series: &[Series], most: usize, basis: &Basis) -> Vec<Self> {
        let lengths: Vec<usize> = series.iter().map(|one| one.n.len()).collect();
        chosen(&lengths, most).into_iter().map(|(pass, range)| Self::of_calls(series, pass, range, basis)).collect()
    }

    /// Returns every block.
    pub(super) fn all_blocks(blocks: &[Blocks], basis: &Basis) -> Vec<Self> {
        let of = |(pass, one): (usize, &Blocks)| Self::of(pass, 0, one.n.clone(), one.y.clone(), basis);
        blocks.iter().enumerate().map(of).collect()
    }

    /// Returns the blocks that a model is fitted to, about `most`.
    pub(super) fn chosen_blocks(blocks: &[Blocks], most: usize, basis: &Basis) -> Vec<Self> {
        let lengths: Vec<usize> = blocks.iter().map(|one| one.n.len()).collect();
        let of = |(pass, range): (usize, Range<usize>)| {
            let one: &Blocks = &blocks[pass];
            Self::of(pass, range.start, one.n[range.clone()].to_vec(), one.y[range].to_vec(), basis)
        };
        chosen(&lengths, most).into_iter().map(of).collect()
    }
}

/// Returns one of ten zones of the range, by the position among the knots.
pub(super) fn zone(place: f64) -> usize {
    (place * KNOTS as f64 / (KNOTS as f64 - 0.999)) as usize
}

/// Two branches over n, the noise around them, and the probabilities of a change of branch.
pub(super) struct Model {
    basis: Basis,
    /// The coefficients of the columns.
    coefficients: Vec<f64>,
    /// Log cost of each pass relative to the curve.
    offsets: Vec<f64>,
    /// Standard deviation in each branch.
    pub(super) deviation: [f64; 2],
    /// Probability of leaving each branch between two observations.
    pub(super) leave: [f64; 2],
}

/// Expected changes of branch.
#[derive(Clone, Copy, Default)]
struct Changes {
    /// Changes from each branch.
    leaves: [f64; 2],
    /// Observations in each branch that have a successor.
    stays: [f64; 2],
}

/// Weighted sums over the observations of a segment in one branch, with x their distance from its knot.
#[derive(Clone, Copy, Default)]
struct Moments {
    w: f64,
    wx: f64,
    wxx: f64,
    wy: f64,
    wxy: f64,
    wyy: f64,
}

impl Moments {
    fn add(&mut self, w: f64, x: f64, y: f64) {
        self.w += w;
        self.wx += w * x;
        self.wxx += w * x * x;
        self.wy += w * y;
        self.wxy += w * x * y;
        self.wyy += w * y * y;
    }

    /// Returns the sum of the distances from a line.
    fn beyond(&self, [at_knot, slope]: [f64; 2]) -> f64 {
        self.wy - at_knot * self.w - slope * self.wx
    }

    /// Returns the sum of the squared distances from a line.
    fn squares(&self, [at_knot, slope]: [f64; 2]) -> f64 {
        let own = at_knot * at_knot * self.w + 2.0 * at_knot * slope * self.wx + slope * slope * self.wxx;
        (self.wyy - 2.0 * (at_knot * self.wy + slope * self.wxy) + own).max(0.0)
    }
}

/// The moments of both branches in a segment of a pass.
struct Sums {
    pass: usize,
    segment: Segment,
    moments: [Moments; 2],
}

/// Buffers for a round of the fit, with an element for each observation of a track; reused to avoid allocations.
#[derive(Default)]
struct Scratch {
    densities: Vec<[f64; 2]>,
    forward: Vec<[f64; 2]>,
    high: Vec<f64>,
}

/// Share of strays (observations that belong to neither branch), and the range of log costs over which they are spread.
const STRAY: f64 = 0.02;
const STRAY_RANGE: f64 = 6.0;
/// Density of the strays.
const STRAY_DENSITY: f64 = STRAY / STRAY_RANGE;
/// Half the square of a distance, in standard deviations, beyond which there are only strays.
const FAR: f64 = 40.0;
/// Number of rounds with a stiff curve, because the first states depend on a smooth one; then the maximum and minimum
/// number of rounds after them.
const ROUNDS_STIFF: usize = 8;
const ROUNDS: usize = 22;
const ROUNDS_MIN: usize = 3;
/// Prior deviation of the second differences of the knots, in the stiff rounds and later.
pub(super) const BEND: [f64; 2] = [0.02, 0.2];
/// Prior deviation of the offset of a pass: a larger offset means that the pass stays in one branch.
const OFFSET: f64 = 0.04;
/// Fraction of the smallest ratio and distance that branches must reach after the stiff rounds.
const IN_SIGHT: f64 = 0.6;
/// The fit ends when the mean distance changes by less than this.
const SETTLED: f64 = 2e-4;

impl Model {
    /// Returns the model before the first round: two clusters around a smooth curve.
    fn initial(tracks: &[Track], passes: usize, basis: &Basis) -> Option<Self> {
        let mut model = Self {
            coefficients: vec![0.0; basis.size()],
            basis: basis.clone(),
            offsets: vec![0.0; passes],
            deviation: [1.0; 2],
            leave: [0.05; 2],
        };
        // Fit a single branch first.
        let one = |track: &Track| model.sums(track, |_| [1.0, 0.0]);
        let sums: Vec<Sums> = tracks.iter().flat_map(one).collect();
        model.solve(&sums, BEND[0]);
        let mut apart = Vec::new();
        for track in tracks {
            let from = apart.len();
            apart.resize(from + track.n.len(), 0.0);
            model.each(track, |i, means| apart[from + i] = track.y[i] - means[0]);
        }
        let mut sorted = apart.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        // The highest hundredth consists of outliers, which would attract the cut.
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
        let (mut left, mut stayed) = ([0.0; 2], [0.0; 2]);
        let mut from = 0;
        for track in tracks {
            for pair in apart[from..from + track.n.len()].windows(2) {
                let branch = usize::from(pair[0] > threshold);
                left[branch] += f64::from(u8::from((pair[0] > threshold) != (pair[1] > threshold)));
                stayed[branch] += 1.0;
            }
            from += track.n.len();
        }
        model.leave = [0, 1].map(|branch| ((left[branch] + 0.5_f64) / (stayed[branch] + 5.0)).clamp(1e-4, 0.9));
        Some(model)
    }

    /// Alternates expectation and maximisation. `chosen` returns about the requested number of observations. `None` if
    /// the branches are not far enough apart, for blocks or for single calls; if they are not even close to that after
    /// the stiff rounds, the other rounds are skipped.
    pub(super) fn fit(
        chosen: impl Fn(usize) -> Vec<Track>,
        (passes, is_single): (usize, bool),
        basis: &Basis,
    ) -> Option<Self> {
        let (ratio, distance) = (RATIO_MIN[usize::from(is_single)], DISTANCE_MIN[usize::from(is_single)]);
        let few = chosen(OBSERVATIONS_STIFF);
        let mut model = Self::initial(&few, passes, basis)?;
        for _ in 0..ROUNDS_STIFF {
            model.improve(&few, BEND[0]);
        }
        if !model.is_apart(&few, ratio.powf(IN_SIGHT), IN_SIGHT * distance) {
            return None;
        }
        let tracks = chosen(OBSERVATIONS_MAX);
        let mut before = model.distance(&tracks);
        for round in 0..ROUNDS {
            model.improve(&tracks, BEND[1]);
            let after = model.distance(&tracks);
            if round >= ROUNDS_MIN && (after - before).abs() < SETTLED {
                break;
            }
            before = after;
        }
        model.is_apart(&tracks, ratio, distance).then_some(model)
    }

    /// Returns the columns, with the current positions of the cliffs.
    pub(super) fn basis(&self) -> &Basis {
        &self.basis
    }

    /// Runs one round of the fit.
    pub(super) fn improve(&mut self, tracks: &[Track], bend: f64) {
        let mut scratch = Scratch::default();
        let (mut sums, mut changes) = (Vec::new(), Changes::default());
        for track in tracks {
            self.smooth_track(track, &mut scratch, &mut changes);
            // The weight of an observation in a branch: its probability, less where it is a stray.
            let weights = |i: usize| {
                let [low, high] = scratch.densities[i].map(|density| 1.0 - STRAY_DENSITY / density);
                [(1.0 - scratch.high[i]) * low, scratch.high[i] * high]
            };
            sums.extend(self.sums(track, weights));
        }
        self.maximise(&sums, &changes, bend);
    }

    /// Returns the sums of each segment of a track.
    fn sums(&self, track: &Track, weights: impl Fn(usize) -> [f64; 2]) -> Vec<Sums> {
        let of = |segment: Segment| {
            let mut moments = [Moments::default(); 2];
            for i in segment.range.clone() {
                let (x, y) = (track.place[i] - segment.knot as f64, track.y[i]);
                let [low, high] = weights(i);
                moments[0].add(low, x, y);
                moments[1].add(high, x, y);
            }
            Sums { pass: track.pass, segment, moments }
        };
        self.basis.segments(track).into_iter().map(of).collect()
    }

    /// Sets the parameters to the most likely ones, given the probabilities of the branches.
    fn maximise(&mut self, sums: &[Sums], changes: &Changes, bend: f64) {
        self.solve(sums, bend);
        self.set_offsets(sums);
        let mut squares = [(0.0, 0.0); 2];
        for one in sums {
            let offset = self.offsets[one.pass];
            for ((square, moments), [at_knot, slope]) in
                squares.iter_mut().zip(&one.moments).zip(self.lines(&one.segment))
            {
                *square = (square.0 + moments.squares([at_knot + offset, slope]), square.1 + moments.w);
            }
        }
        self.deviation = squares.map(|(square, weight)| (square / f64::max(weight, 1e-9)).sqrt().max(0.005));
        self.leave = [0, 1].map(|branch| {
            let (left, stayed) = (changes.leaves[branch], changes.stays[branch]);
            ((left + 0.5) / (stayed + 5.0)).clamp(1e-5, 0.95)
        });
    }

    /// Returns the lines of both branches in a segment: log cost at its knot, and slope.
    fn lines(&self, segment: &Segment) -> [[f64; 2]; 2] {
        let curve = &self.coefficients[segment.knot..segment.knot + 2];
        let steps = self.basis.steps.iter().zip(&self.coefficients[KNOTS..]);
        let jumps: f64 = steps.filter(|(step, _)| segment.n >= **step).map(|(_, height)| height).sum();
        let from = self.basis.size() - DISTANCE_KNOTS + segment.knot / KNOTS_PER_DISTANCE;
        let distance = &self.coefficients[from..from + 2];
        let (at_knot, slope) = along_distance(segment.knot);
        let change = distance[1] - distance[0];
        let low = [curve[0] + jumps, curve[1] - curve[0]];
        [low, [low[0] + distance[0] + at_knot * change, low[1] + slope * change]]
    }

    /// Calls `f` with the index of each observation and the log costs of both branches there.
    pub(super) fn each(&self, track: &Track, mut f: impl FnMut(usize, [f64; 2])) {
        for segment in self.basis.segments(track) {
            let [low, high] = self.lines(&segment);
            for i in segment.range {
                let x = track.place[i] - segment.knot as f64;
                f(i, [low[0] + low[1] * x, high[0] + high[1] * x]);
            }
        }
    }

    /// Calls `f` with the index of each observation, its distances from both branches, and the log costs of both.
    pub(super) fn each_distance(&self, track: &Track, mut f: impl FnMut(usize, [f64; 2], [f64; 2])) {
        let offset = self.offsets[track.pass];
        self.each(track, |i, means| f(i, means.map(|mean| track.y[i] - offset - mean), means));
    }

    /// Returns a function that gives, for the distances from the means of both branches, their densities.
    fn density(&self) -> impl Fn([f64; 2]) -> [f64; 2] + use<> {
        let inverse = self.deviation.map(f64::recip);
        let peak = inverse.map(|inverse| (1.0 - STRAY) * inverse / std::f64::consts::TAU.sqrt());
        move |distances| {
            [0, 1].map(|branch: usize| {
                let z = distances[branch] * inverse[branch];
                let half = 0.5 * z * z;
                STRAY_DENSITY + if half < FAR { peak[branch] * (-half).exp() } else { 0.0 }
            })
        }
    }

    /// Sets the coefficients by least squares, with a prior on the bends of the curve and of the distance.
    fn solve(&mut self, sums: &[Sums], bend: f64) {
        let size = self.basis.size();
        let from = size - DISTANCE_KNOTS;
        let mut matrix = vec![vec![0.0; size]; size];
        let mut right = vec![0.0; size];
        let precision = self.deviation.map(|deviation| 1.0 / (deviation * deviation));
        let mut columns = Vec::new();
        for one in sums {
            let offset = self.offsets[one.pass];
            self.basis.columns(&one.segment, &mut columns);
            let scaled = |branch: usize| {
                let (m, precision) = (&one.moments[branch], precision[branch]);
                [m.w, m.wx, m.wxx, m.wy - offset * m.w, m.wxy - offset * m.wx].map(|sum| sum * precision)
            };
            let high = scaled(1);
            let low = scaled(0);
            let all = [0, 1, 2, 3, 4].map(|k: usize| low[k] + high[k]);
            // Only the expensive branch contains the distance.
            let of = |column: usize| if column >= from { &high } else { &all };
            for (i, (a, at_knot, slope)) in columns.iter().enumerate() {
                let sums = of(*a);
                right[*a] += at_knot * sums[3] + slope * sums[4];
                for (b, other, other_slope) in &columns[i..] {
                    let sums = of(*b);
                    matrix[*a][*b] += at_knot * other * sums[0]
                        + (at_knot * other_slope + slope * other) * sums[1]
                        + slope * other_slope * sums[2];
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
        // The distance is stiffer because it has fewer knots. A weak prior keeps the system solvable if a branch is
        // empty.
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

    /// Sets the offsets of the passes, shrunk towards zero.
    fn set_offsets(&mut self, sums: &[Sums]) {
        let precision = self.deviation.map(|deviation| 1.0 / (deviation * deviation));
        let mut totals = vec![(0.0, 1.0 / (OFFSET * OFFSET)); self.offsets.len()];
        for one in sums {
            let lines = self.lines(&one.segment);
            let total = &mut totals[one.pass];
            for branch in 0..2 {
                // Neighbours share errors, so the blocks of a pass are not independent.
                let weight = 0.1 * precision[branch];
                total.0 += weight * one.moments[branch].beyond(lines[branch]);
                total.1 += weight * one.moments[branch].w;
            }
        }
        self.offsets = totals.into_iter().map(|(sum, total)| sum / total).collect();
    }

    /// Returns the probability of the expensive branch at each observation of each track.
    pub(super) fn smooth(&self, tracks: &[Track]) -> Vec<Vec<f64>> {
        let mut scratch = Scratch::default();
        let of = |track: &Track| {
            self.smooth_track(track, &mut scratch, &mut Changes::default());
            scratch.high.clone()
        };
        tracks.iter().map(of).collect()
    }

    /// Computes the probability of each branch for each observation of a track, from the observations before and after
    /// it.
    fn smooth_track(&self, track: &Track, scratch: &mut Scratch, changes: &mut Changes) {
        let Scratch { densities, forward, high } = scratch;
        densities.clear();
        forward.clear();
        let density = self.density();
        self.each_distance(track, |_, distances, _| densities.push(density(distances)));
        let [up, down] = self.leave;
        let mut ahead = [down / (up + down), up / (up + down)];
        for density in densities.iter() {
            let joint = [ahead[0] * density[0], ahead[1] * density[1]];
            let scale = (joint[0] + joint[1]).max(f64::MIN_POSITIVE).recip();
            let state = joint.map(|x| x * scale);
            forward.push(state);
            ahead = [state[0] * (1.0 - up) + state[1] * down, state[0] * up + state[1] * (1.0 - down)];
        }
        let count = densities.len();
        high.clear();
        high.resize(count, 0.0);
        let mut next = [0.5; 2];
        for i in (0..count).rev() {
            let of = forward[i];
            let backward = if i + 1 == count {
                [0.5; 2]
            } else {
                // The probabilities of the four transitions, one of which occurred.
                let stays = [of[0] * (1.0 - up) * next[0], of[1] * (1.0 - down) * next[1]];
                let leaves = [of[0] * up * next[1], of[1] * down * next[0]];
                let from = [stays[0] + leaves[0], stays[1] + leaves[1]];
                let scale = (from[0] + from[1]).max(f64::MIN_POSITIVE).recip();
                for branch in 0..2 {
                    changes.leaves[branch] += leaves[branch] * scale;
                    changes.stays[branch] += from[branch] * scale;
                }
                let behind = [(1.0 - up) * next[0] + up * next[1], down * next[0] + (1.0 - down) * next[1]];
                let scale = (behind[0] + behind[1]).max(f64::MIN_POSITIVE).recip();
                behind.map(|x| x * scale)
            };
            let joint = [of[0] * backward[0], of[1] * backward[1]];
            high[i] = joint[1] / (joint[0] + joint[1]).max(f64::MIN_POSITIVE);
            next = [backward[0] * densities[i][0], backward[1] * densities[i][1]];
        }
    }

    /// Returns the mean over the observations of a function of the log costs of both branches.
    fn mean_of(&self, tracks: &[Track], value: impl Fn([f64; 2]) -> f64) -> f64 {
        let (mut sum, mut count) = (0.0, 0);
        for track in tracks {
            self.each(track, |_, means| sum += value(means));
            count += track.n.len();
        }
        sum / count.max(1) as f64
    }

    /// Returns the mean distance between the branches, in logarithms.
    fn distance(&self, tracks: &[Track]) -> f64 {
        self.mean_of(tracks, |[low, high]| high - low)
    }

    /// Whether the branches are far enough apart: as a ratio, relative to their width, and relative to the step of a
    /// clock.
    fn is_apart(&self, tracks: &[Track], ratio: f64, distance: f64) -> bool {
        let mean = self.distance(tracks);
        // Slow episodes have all sizes, whereas both branches are about equally narrow.
        let width = self.deviation[0].max(self.deviation[1]);
        mean >= ratio.ln()
            && mean >= distance * width
            && self.mean_of(tracks, |[low, high]| high.exp() - low.exp()) > DISTANCE_MIN_NS
    }

    /// Moves each cliff to the n at which the calls before and after it are most likely.
    pub(super) fn place_steps(&mut self, tracks: &[Track]) {
        let [up, down] = self.leave;
        let shares = [down / (up + down), up / (up + down)];
        for k in 0..self.basis.steps.len() {
            let (step, height) = (self.basis.steps[k], self.coefficients[KNOTS + k]);
            let reach = (0.06 * step).max(32.0);
            let (from, to) = (step - reach, step + reach);
            let density = self.density();
            // For each n, the log likelihood of its calls before the cliff minus that after it.
            let mut gains: Vec<(f64, f64)> = Vec::new();
            for track in tracks {
                self.each_distance(track, |i, distances, _| {
                    let n = track.n[i];
                    if (from..to).contains(&n) {
                        let before = if n >= step { height } else { 0.0 };
                        let log = |shift: f64| {
                            let [low, high] = density(distances.map(|distance| distance + shift));
                            (shares[0] * low + shares[1] * high).ln()
                        };
                        gains.push((n, log(before) - log(before - height)));
                    }
                });
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

    /// Derives the model of single calls from that of blocks of `size` calls.
    pub(super) fn of_calls(mut self, calls: &[Track], blocks: &[Track], size: usize) -> Self {
        let states = self.smooth(blocks);
        let mut distances = [Vec::new(), Vec::new()];
        for track in calls {
            self.each_distance(track, |i, from, _| {
                let high = states[track.pass][(track.from + i) / size];
                if !UNSURE.contains(&high) {
                    let branch = usize::from(high > 0.5);
                    distances[branch].push(from[branch].abs());
                }
            });
        }
        let [low, high] = distances.each_mut().map(|all| 1.4826 * median_of(all).unwrap_or(0.0));
        // The rarer branch may have few calls.
        self.deviation = [low.max(0.7 * high), high.max(0.7 * low)].map(|deviation| deviation.max(0.005));
        self.leave = of_single_calls(self.leave, size);
        self
    }

    /// Returns the calls of a pass, with those of the expensive branch scaled to the level of the cheap one.
    pub(super) fn level(&self, one: &Series, track: &Track, states: &[f64]) -> Series {
        let mut costs = one.costs.clone();
        self.each(track, |i, [low, above]| {
            if states[i] > 0.5 {
                costs[i] = (costs[i] as f64 * (low - above).exp()).round() as u64;
            }
        });
        Series { n: one.n.clone(), costs, is_down: one.is_down }
    }
}

/// Converts probabilities of leaving a branch between two blocks of `size` calls to those between two calls.
pub(super) fn of_single_calls(leave: [f64; 2], size: usize) -> [f64; 2] {
    leave.map(|leave| 1.0 - (1.0 - leave).powf(1.0 / size as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a choice that leaves out a part of the range, or is larger than allowed.
    #[test]
    fn chosen_chunks_cover_the_range_evenly() {
        let chosen = chosen(&[10_000; 20], OBSERVATIONS_MAX);
        let count: usize = chosen.iter().map(|(_, range)| range.len()).sum();
        assert!((OBSERVATIONS_MAX * 9 / 10..=OBSERVATIONS_MAX * 11 / 10).contains(&count), "{count}");
        for at in (0..10_000).step_by(10) {
            let passes = chosen.iter().filter(|(_, range)| range.contains(&at)).count();
            assert!((1..=2).contains(&passes), "{passes} passes at {at}");
        }
    }

    #[test]
    fn short_series_are_fitted_whole() {
        assert_eq!(chosen(&[2_000, 0, 1_500], OBSERVATIONS_MAX), [(0, 0..2_000), (2, 0..1_500)]);
    }
}
