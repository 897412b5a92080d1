//! Two branches of the measured path, between which calls alternate.
//!
//! Calls may stay in a branch for five calls or for two thousand, so neither a window nor a single call shows which
//! branch it is in. A hidden Markov model does (Rabiner 1989; regression with switching regimes: Hamilton 1989). Both
//! branches follow a smooth curve over n, with a jump at each cliff, and the distance between them may change with n.
//! The model is fitted by expectation-maximisation to medians of blocks of eight calls, which a burst of slow calls
//! does not fill, or otherwise to single calls. It then gives the branch of each call, from the call itself and the
//! calls before and after it.
//!
//! What distinguishes branches from a shape of the curve (a step, warm-up, a misfit) is that passes disagree: at the
//! same n some are in one branch and some in the other.

mod blocks;
mod model;

use crate::bimodality::has_two_modes;
use crate::cliffs;
use crate::growth::student;
use crate::points::Series;
use crate::quantile::median_of;
use crate::{Annotation, Cliff, Estimate};
use blocks::{BLOCK, Blocks, common_jumps, varies_in_runs};
use model::{BEND, Basis, KNOTS, Model, OBSERVATIONS_MAX, Track, is_near, of_single_calls, zone};
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
    /// Distance between the branches.
    pub(crate) distances: Option<Distances>,
    /// The cliffs, with the costs of the cheap branch.
    pub(crate) cliffs: Vec<Cliff>,
    /// The range of n without calls that may be cold.
    pub(crate) warm: (f64, f64),
}

/// Distance between two branches, in logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distances {
    /// The average over the range.
    pub(crate) mean: f64,
    /// The distance in the last part of the range in which both branches have calls.
    pub(crate) last: f64,
    /// The distance in the last third of the range minus that in the first; unknown if a branch has no calls there.
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
    /// Returns the interval at this level of confidence.
    pub(crate) fn interval(&self, confidence: f64) -> Estimate {
        let half = student(0.5 + confidence / 2.0, self.freedom) * self.error;
        Estimate { value: self.value, low: self.value - half, high: self.value + half }
    }
}

/// Smallest ratio of the branches, for blocks and for single calls.
const RATIO_MIN: [f64; 2] = [1.15, 1.25];
/// Smallest distance between the branches, in standard deviations of a block and of a call.
const DISTANCE_MIN: [f64; 2] = [2.2, 2.5];
/// Smallest share of a branch.
const SHARE_MIN: f64 = 0.03;
/// Minimum number of passes with calls in both branches, and of changes of branch in all passes: an episode is not a
/// branch.
const PASSES_MIN: usize = 2;
const CHANGES_MIN: usize = 3;
/// Largest mean uncertainty about the branch of a call. In a zone where it is larger, no call is assigned.
const DOUBT_MAX: f64 = 0.08;
/// Smallest share of the variance of the branch that is between passes at the same n.
const DISAGREEMENT_MIN: f64 = 0.35;

/// Divides the calls between two branches, if passes alternate between two.
pub(crate) fn find(series: &[Series], annotations: &[Annotation]) -> Option<Branches> {
    if series.len() < PASSES_MIN {
        return None;
    }
    let blocks: Vec<Blocks> = series.iter().map(Blocks::of).collect();
    let is_sticky = varies_in_runs(&blocks);
    if !is_sticky && !has_two_modes(series) {
        return None;
    }
    let mut steps: Vec<f64> = cliffs::find(series, annotations).iter().map(|cliff| cliff.n.value).collect();
    for jump in common_jumps(&blocks) {
        if steps.iter().all(|step| !is_near(*step, jump)) {
            steps.push(jump);
        }
    }
    steps.truncate(STEPS_MAX);
    let basis = Basis::of(series, &steps)?;
    let of_blocks = if is_sticky { by_blocks(series, &blocks, &basis) } else { None };
    let of_blocks = of_blocks.and_then(|found| divided(series, found, annotations));
    of_blocks.or_else(|| divided(series, by_calls(series, &basis)?, annotations))
}

/// Maximum number of cliffs in the model.
const STEPS_MAX: usize = 3;
/// Number of rounds with single calls, after the rounds with blocks.
const ROUNDS_OF_CALLS: usize = 5;

/// A model of single calls, and the probabilities of leaving a branch.
type Found = (Model, [f64; 2]);

/// Fits a model to blocks, then to their calls. `None` if the branches are not apart.
fn by_blocks(series: &[Series], blocks: &[Blocks], basis: &Basis) -> Option<Found> {
    let model = Model::fit(|most| Track::chosen_blocks(blocks, most, basis), (series.len(), false), basis)?;
    // Isolated slow calls look like short stays, so blocks estimate the length of stays better.
    let leave = of_single_calls(model.leave, BLOCK);
    let calls = Track::chosen_calls(series, OBSERVATIONS_MAX, basis);
    let mut model = model.of_calls(&calls, &Track::all_blocks(blocks, basis), BLOCK);
    model.settle(&calls);
    Some((model, leave))
}

/// Fits a model to single calls.
fn by_calls(series: &[Series], basis: &Basis) -> Option<Found> {
    let mut model = Model::fit(|most| Track::chosen_calls(series, most, basis), (series.len(), true), basis)?;
    let leave = model.leave;
    model.settle(&Track::chosen_calls(series, OBSERVATIONS_MAX, basis));
    Some((model, leave))
}

impl Model {
    /// Moves the cliffs, and the rest of the model with them.
    fn settle(&mut self, calls: &[Track]) {
        for _ in 0..ROUNDS_OF_CALLS {
            self.place_steps(calls);
            self.improve(calls, BEND[1]);
        }
    }
}

/// Divides the calls by a model. `None` if its branches are not ones that passes alternate between.
fn divided(series: &[Series], (model, leave): Found, annotations: &[Annotation]) -> Option<Branches> {
    let tracks = Track::all_calls(series, model.basis());
    let states = model.smooth(&tracks);
    let is_clear = clear_zones(&tracks, &states)?;
    if !is_mixed(&states)
        || disagreement(series, &states) < DISAGREEMENT_MIN
        || is_upper_part(&model, &tracks, &states)
        || has_spells_of_all_sizes(&model, &tracks, &states)
        || unevenness(series, &states, leave) > UNEVENNESS_MAX
    {
        return None;
    }
    let warm: Vec<Range<usize>> = series.iter().map(warm).collect();
    let ends = tracks.iter().zip(&warm).filter(|pair| !pair.1.is_empty());
    let warm_range = ends.fold((f64::MAX, 0.0), |(first, last), (track, warm)| {
        (f64::min(first, track.n[warm.start]), f64::max(last, track.n[warm.end - 1]))
    });
    let distances = distances(&model, &tracks, &states, &is_clear, (&warm, warm_range));
    let level = series.iter().zip(&tracks).zip(&states).map(|((one, track), states)| model.level(one, track, states));
    let cliffs = cliffs::find(&level.collect::<Vec<Series>>(), annotations);
    let passes = series.iter().zip(&tracks).zip(&states);
    let (low, high) = passes.map(|((one, track), states)| divide(one, track, states, &is_clear)).unzip();
    Some(Branches { low, high, leave, distances, cliffs, warm: warm_range })
}

/// Largest share of the calls of the expensive branch that may be where the ratio of the branches is below the smallest
/// one.
const NEAR_MAX: f64 = 0.15;

/// Whether the expensive branch is, over a part of the range, the upper part of the noise of the cheap one.
fn is_upper_part(model: &Model, tracks: &[Track], states: &[Vec<f64>]) -> bool {
    let (mut near, mut all) = (0, 0);
    for (track, states) in tracks.iter().zip(states) {
        model.each(track, |i, [low, high]| {
            if states[i] > *UNSURE.end() {
                all += 1;
                near += i32::from(high - low < RATIO_MIN[0].ln());
            }
        });
    }
    f64::from(near) > NEAR_MAX * f64::from(all)
}

/// Minimum number of calls in a stay, and minimum number of such stays, for a comparison of their costs.
const STAY_MIN: usize = 16;
const STAYS_MIN: usize = 4;
/// Largest deviation of the stays in the expensive branch from its curve (logarithm); passes and walks cause less.
const STAYS_DEVIATION_MAX: f64 = 0.07;

/// Whether the costs of the stays in the expensive branch differ by more than those of one path would. Such stays are
/// slow spells of the machine, which have all sizes.
fn has_spells_of_all_sizes(model: &Model, tracks: &[Track], states: &[Vec<f64>]) -> bool {
    let mut means = Vec::new();
    for (track, states) in tracks.iter().zip(states) {
        let mut stay = Vec::new();
        let mut end = |stay: &mut Vec<f64>| {
            if stay.len() >= STAY_MIN {
                means.extend(median_of(stay));
            }
            stay.clear();
        };
        model.each_distance(track, |i, distances, _| {
            if states[i] > *UNSURE.end() {
                stay.push(distances[1]);
            } else if states[i] < *UNSURE.start() {
                end(&mut stay);
            }
        });
        end(&mut stay);
    }
    let count = means.len();
    let middle = median_of(&mut means).unwrap_or(0.0);
    let mut apart: Vec<f64> = means.iter().map(|mean| (mean - middle).abs()).collect();
    count >= STAYS_MIN && 1.4826 * median_of(&mut apart).unwrap_or(0.0) > STAYS_DEVIATION_MAX
}

/// Returns the indices of the calls of a pass without those that may be cold, because cold calls look like calls of the
/// expensive branch.
fn warm(one: &Series) -> Range<usize> {
    let count = one.n.len();
    let cold = (count / 8).min(COLD_MAX);
    if one.is_down { 0..count - cold } else { cold..count }
}

/// Maximum number of cold calls in a pass.
const COLD_MAX: usize = 256;

/// Returns for each zone whether the branches of its calls are known; `None` if they are known for less than half of
/// the calls.
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
    let sum = |states: &Vec<f64>| states.iter().sum::<f64>();
    let share = |states: &Vec<f64>| sum(states) / states.len().max(1) as f64;
    let all = states.iter().map(sum).sum::<f64>() / states.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    let is_shared = |share: f64| (SHARE_MIN..=1.0 - SHARE_MIN).contains(&share);
    let mixed = states.iter().filter(|pass| is_shared(share(pass))).count();
    let changes = |states: &Vec<f64>| {
        let mut sure = states.iter().filter(|high| !UNSURE.contains(high)).map(|high| *high > 0.5);
        let first = sure.next();
        sure.fold((first, 0), |(before, changes), state| (Some(state), changes + usize::from(before != Some(state)))).1
    };
    mixed >= PASSES_MIN && states.iter().map(changes).sum::<usize>() >= CHANGES_MIN && is_shared(all)
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

/// Length, in calls, of the stretches in which calls of the expensive branch are counted.
const STRETCH: usize = 128;
/// Largest unevenness of branches. Simulated branches among bursts have 0.3 to 2.5, bursts taken for a branch 3 to 16.
const UNEVENNESS_MAX: f64 = 4.0;

/// Unevenness of the calls of the expensive branch: the variance, between passes at the same n, of their number in a
/// stretch, over the variance that the probabilities of leaving a branch explain. It is near 1 for branches, and much
/// larger for bursts of slow calls, which fill a few stretches.
fn unevenness(series: &[Series], states: &[Vec<f64>], leave: [f64; 2]) -> f64 {
    let last = series.iter().filter_map(|one| one.n.last()).max().copied().unwrap_or(0) as usize;
    let mut bins: Vec<Vec<(f64, f64)>> = vec![Vec::new(); last / STRETCH + 1];
    for (one, states) in series.iter().zip(states) {
        let mut sums = vec![(0.0, 0.0); bins.len()];
        for (n, high) in one.n.iter().zip(states) {
            let sum = &mut sums[*n as usize / STRETCH];
            *sum = (sum.0 + 1.0, sum.1 + high);
        }
        for (bin, sum) in bins.iter_mut().zip(sums) {
            if sum.0 >= 0.5 * STRETCH as f64 {
                bin.push(sum);
            }
        }
    }
    let stay = 1.0 / (leave[0] + leave[1]).max(1e-9);
    let (mut seen, mut explained) = (0.0, 0.0);
    for bin in bins.iter().filter(|bin| bin.len() > 1) {
        let (calls, high) = bin.iter().fold((0.0, 0.0), |(a, b), (calls, high)| (a + calls, b + high));
        let (share, length) = (high / calls, calls / bin.len() as f64);
        let shortened = 1.0 - stay / length * (1.0 - (-length / stay).exp());
        explained += share * (1.0 - share) * length * (2.0 * stay * shortened).max(1.0);
        let square = bin.iter().map(|(calls, high)| (high - share * calls).powi(2)).sum::<f64>();
        seen += square / (bin.len() as f64 - 1.0);
    }
    seen / explained.max(f64::MIN_POSITIVE)
}

/// Probabilities of the expensive branch at which a call is assigned to neither branch.
const UNSURE: RangeInclusive<f64> = 0.1..=0.9;

/// Returns the calls of a pass in each branch, without those of zones where the branches cannot be distinguished.
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

/// Returns the distances between the branches, from those in each third of the range.
fn distances(
    model: &Model,
    tracks: &[Track],
    states: &[Vec<f64>],
    is_clear: &[bool; KNOTS],
    (warm, (first, last)): (&[Range<usize>], (f64, f64)),
) -> Option<Distances> {
    // For each third of the range and each branch: the mean distance of each pass from the curve of the cheap branch.
    let mut means: [[Vec<f64>; 2]; 3] = Default::default();
    for ((track, states), warm) in tracks.iter().zip(states).zip(warm) {
        let mut groups = [[(0.0, 0.0); 2]; 3];
        model.each_distance(track, |i, distances, means| {
            let high = &states[i];
            if !warm.contains(&i) || UNSURE.contains(high) || !is_clear[zone(track.place[i])] {
                return;
            }
            let third = ((track.n[i] - first) / (last - first) * 2.999) as usize;
            let branch = usize::from(*high > 0.5);
            let reach = 3.0 * model.deviation[branch];
            // An outlier does not shift the branch.
            let distance = distances[branch].clamp(-reach, reach);
            let group = &mut groups[third][branch];
            *group = (group.0 + distance + means[branch] - means[0], group.1 + 1.0);
        });
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
    // One or two stays in the rarer branch may be an episode of any size.
    let is_known = ends.iter().copied().flatten().all(|group| group.len() >= PASSES_OF_CHANGE);
    let change = of_third(ends[1]).zip(of_third(ends[0])).map(|(late, early)| late - early);
    let change = change.filter(|_| is_known);
    // Each branch has its own spread: few passes contain the rarer one, possibly each in another part.
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

/// Minimum number of calls of a pass in one branch and one third of the range.
const CALLS_MIN: f64 = 8.0;
/// Minimum number of passes that have so many calls in each branch at both ends of the range.
const PASSES_OF_CHANGE: usize = 3;
/// Prior deviation of a pass in a third of the range, and its weight in degrees of freedom.
const PASS_PRIOR: (f64, f64) = (0.05, 2.0);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{Mixture, Noise, Truth, simulate, truths};
    use crate::points::series_of;

    fn searched(truth: &Truth, noise: f64, calls: u32, seed: u64) -> Option<Branches> {
        // Every fourth seed has a way down; these seeds avoid it.
        find(&series_of(&simulate(truth, &Noise::of_call(noise), calls, 5, 4 * seed + 1), false), &[])
    }

    /// Guards against missing branches: a search by single calls may miss those with long stays, a search by blocks
    /// those with short stays.
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

    /// Guards against slow spells, which have all sizes, and the upper part of the noise being taken for a branch.
    #[test]
    fn slow_spells_are_no_branch() {
        use crate::simulate::{Noise, Truth, simulate};
        for seed in [9_000_003, 9_000_006, 9_000_018, 9_000_026, 9_000_058, 9_000_059] {
            let curve = simulate(Truth::Cliff, Noise::of_cell(0.04), 9, seed);
            assert!(find(&series_of(&curve, false), &[]).is_none(), "{seed}");
        }
    }

    /// Guards against noise, growth, steps and cliffs being taken for branches.
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
