//! Change points: where the level of a history changed for good.
//!
//! A history has one value for each record, in order of time. Binary segmentation (Scott and Knott 1974; Vostrikova
//! 1981) looks for the place that splits it best. As in Hunter (Fleming and Kołaczkowski 2023, after Daly et al. 2020),
//! Student's t decides whether the two sides differ; its p value is multiplied by the number of places that were tried,
//! because the best of them was chosen. If they differ, each side is searched in the same way.
//!
//! A single record that was disturbed is no change: values far from their neighbours are winsorised first, and a level
//! needs [`SIDE_MIN`] records. The test assumes that the records of one level differ independently. A slow drift is
//! reported as one or several changes.

use crate::Estimate;
use crate::growth::student;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use std::ops::Range;

/// The fewest records of a level: with fewer, one disturbed record is half of a level.
pub const SIDE_MIN: usize = 3;

/// Neighbours on each side whose median a value is compared with, and how many standard deviations it may be away.
const NEIGHBOURS: usize = 3;
const FAR: f64 = 4.0;
/// Means that differ by less are equal: the difference is one of rounding.
const ROUNDING: f64 = 1e-12;
/// The standard deviation of normal values over the median of their absolute values.
const PER_MEDIAN: f64 = 1.4826;

/// A change of the level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first value at the new level.
    pub index: usize,
    /// Mean after the change minus mean before it, up to the next change on each side, with a 95% confidence interval.
    /// The place was chosen where the difference is largest, so small ones are overstated.
    pub difference: Estimate,
    /// The p value of equal means, times the number of places that were tried and of histories.
    pub p: f64,
}

/// Returns the changes of a history, in order.
///
/// `values` are on a scale on which equal effects are equal differences: logarithms of costs. `histories` is the number
/// of histories that are searched together: in all of them together, at most `level` (for example 0.05) of the
/// collections without any change show one, if their values differ independently.
///
/// `step` is the distance of two neighbours on that scale if the values lie on a grid, such as counts; else 0. Values
/// that are rounded to it have an error, a twelfth of its square, also where all of them are equal.
pub fn change_points(values: &[f64], step: f64, histories: usize, level: f64) -> Vec<ChangePoint> {
    let floor = step * step / 12.0;
    let values = winsorised(values);
    let histories = histories.max(1) as f64;
    let mut found = Vec::new();
    split(&values, 0..values.len(), floor, level / histories, &mut found);
    found.sort_unstable();
    moved_to_best(&values, &mut found);
    let bounds: Vec<usize> = std::iter::once(0).chain(found).chain([values.len()]).collect();
    let told = bounds.windows(3).filter_map(|three| {
        let [from, at, to] = *three else { return None };
        let test = Test::of(&values[from..to], at - from, floor);
        let p = (test.p() * places(to - from) as f64 * histories).min(1.0);
        Some(ChangePoint { index: at, difference: test.difference(), p })
    });
    told.filter(|change| change.p < level).collect()
}

/// Returns the changes of a history of counts without error: wherever a value differs from the one before.
pub fn exact_change_points(values: &[f64]) -> Vec<ChangePoint> {
    let differs = |pair: &[f64]| (pair[1] - pair[0]).abs() > 1e-9 * pair[0].abs().max(1e-9);
    let changed = values.windows(2).enumerate().filter(|(_, pair)| differs(pair));
    let change = |(index, pair): (usize, &[f64])| ChangePoint {
        index: index + 1,
        difference: Estimate::bare(pair[1] - pair[0]),
        p: 0.0,
    };
    changed.map(change).collect()
}

/// The number of places at which a stretch of so many values can be split.
fn places(len: usize) -> usize {
    (len + 1).saturating_sub(2 * SIDE_MIN)
}

/// Splits the values from `from` to `to` where they differ, and both sides again.
fn split(values: &[f64], range: Range<usize>, floor: f64, level: f64, found: &mut Vec<usize>) {
    let Range { start: from, end: to } = range;
    let Some(at) = best(values, from, to) else { return };
    if Test::of(&values[from..to], at - from, floor).p() * places(to - from) as f64 >= level {
        return;
    }
    found.push(at);
    split(values, from..at, floor, level, found);
    split(values, at..to, floor, level, found);
}

/// Returns the place that splits the values from `from` to `to` best: where the sums of squares around both means are
/// smallest. `None` if there are too few values.
fn best(values: &[f64], from: usize, to: usize) -> Option<usize> {
    let segment = &values[from..to];
    if places(segment.len()) == 0 {
        return None;
    }
    let mean = segment.iter().sum::<f64>() / segment.len() as f64;
    // With the mean at zero, the gain of a split is sum² · len / (k · (len − k)).
    let mut sum = 0.0;
    let mut best = (f64::NEG_INFINITY, from);
    for (index, value) in segment.iter().enumerate() {
        let (before, after) = (index, segment.len() - index);
        if before >= SIDE_MIN && after >= SIDE_MIN {
            let gain = sum * sum / (before as f64 * after as f64);
            if gain > best.0 {
                best = (gain, from + index);
            }
        }
        sum += value - mean;
    }
    Some(best.1)
}

/// Moves each change to the best place between its neighbours: the first splits were found while later changes were
/// part of a side.
fn moved_to_best(values: &[f64], found: &mut [usize]) {
    for index in 0..found.len() {
        let from = index.checked_sub(1).map_or(0, |before| found[before]);
        let to = found.get(index + 1).copied().unwrap_or(values.len());
        found[index] = best(values, from, to).unwrap_or(found[index]);
    }
}

/// Student's t test of two levels.
struct Test {
    difference: f64,
    error: f64,
    freedom: f64,
}

impl Test {
    /// The test of the values before index `at` against those from it on, whose variance is at least `floor`. Both
    /// sides have at least one value, and together at least three.
    fn of(values: &[f64], at: usize, floor: f64) -> Self {
        let (before, after) = values.split_at(at);
        let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
        let squares = |side: &[f64], mean: f64| side.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let (a, b) = (mean(before), mean(after));
        let freedom = values.len() as f64 - 2.0;
        let variance = ((squares(before, a) + squares(after, b)) / freedom).max(floor);
        let error = (variance * (1.0 / before.len() as f64 + 1.0 / after.len() as f64)).sqrt();
        Self { difference: b - a, error, freedom }
    }

    /// The two-sided p value, never zero: only counts without error differ for certain.
    fn p(&self) -> f64 {
        if self.difference.abs() <= ROUNDING || self.error <= 0.0 {
            return 1.0;
        }
        let tail = |t: f64| StudentsT::new(0.0, 1.0, self.freedom).map_or(1.0, |law| law.cdf(-t));
        (2.0 * tail((self.difference / self.error).abs())).max(f64::MIN_POSITIVE)
    }

    /// The difference of the means, 95%.
    fn difference(&self) -> Estimate {
        let half = student(0.975, self.freedom) * self.error;
        Estimate { value: self.difference, low: self.difference - half, high: self.difference + half }
    }
}

/// The values, each at most [`FAR`] standard deviations from the median of its neighbours. The standard deviation is
/// that of the differences of successive values, which a change of the level leaves alone.
fn winsorised(values: &[f64]) -> Vec<f64> {
    let mut steps: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let deviation = median(&mut steps).map_or(0.0, |step| PER_MEDIAN * step / std::f64::consts::SQRT_2);
    if deviation <= 0.0 {
        return values.to_vec();
    }
    let clipped = values.iter().enumerate().map(|(index, value)| {
        let from = index.saturating_sub(NEIGHBOURS);
        let to = (index + NEIGHBOURS + 1).min(values.len());
        let middle = median(&mut values[from..to].to_vec()).unwrap_or(*value);
        value.clamp(middle - FAR * deviation, middle + FAR * deviation)
    });
    clipped.collect()
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    crate::quantile::quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Values with a standard deviation of 0.02 around levels of so many records.
    fn history(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let every = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        every.map(|level| level + 0.02 * random.normal()).collect()
    }

    #[test]
    fn two_changes_are_found_with_their_sizes() {
        let found = change_points(&history(&[(20, 0.0), (15, 0.1), (20, -0.05)], 1), 0.0, 1, 0.05);
        let places: Vec<usize> = found.iter().map(|change| change.index).collect();
        assert_eq!(places, [20, 35], "{found:?}");
        assert!(found[0].difference.holds(0.1) && found[1].difference.holds(-0.15), "{found:?}");
        assert!(found.iter().all(|change| change.p < 1e-6));
    }

    /// Guards against a busy host being told as a change of the kernel.
    #[test]
    fn one_or_two_disturbed_records_are_no_change() {
        for place in [0, 1, 10, 28, 29] {
            let mut values = history(&[(30, 0.0)], 2);
            values[place] += 0.8;
            assert_eq!(change_points(&values, 0.0, 1, 0.05), [], "at {place}");
        }
        let mut values = history(&[(30, 0.0)], 3);
        (values[14], values[15]) = (0.5, 0.6);
        assert_eq!(change_points(&values, 0.0, 1, 0.05), []);
    }

    /// Guards against an index out of bounds, and against a change shown by values that do not differ.
    #[test]
    fn short_and_constant_histories_have_none() {
        for len in 0..20 {
            assert_eq!(change_points(&vec![1.5; len], 0.0, 1, 0.05), []);
        }
        for len in 0..2 * SIDE_MIN {
            assert_eq!(change_points(&history(&[(len / 2, 0.0), (len - len / 2, 9.0)], 4), 0.0, 1, 0.05), []);
        }
    }

    /// Guards against cliffs at n = 1,001 and 1,002 being told as a certain change, because no value differs from its
    /// neighbours. A large step is still found.
    #[test]
    fn values_on_a_grid_are_not_without_error() {
        let step = 1.0 / 1001.0;
        let grid = |low: f64, high: f64| [low, low, low, high, high, high].map(f64::ln);
        assert_eq!(change_points(&grid(1001.0, 1002.0), step, 10, 0.05), []);
        let p = change_points(&grid(1001.0, 1002.0), step, 1, 1.0)[0].p;
        assert!(p > 0.001 && p < 0.1, "{p}");
        // A limit that is halved is found among many histories.
        assert_eq!(change_points(&grid(20_000.0, 10_000.0), 1e-4, 100, 0.05).len(), 1);
        let mut values: Vec<f64> = [1001.0, 1002.0].iter().cycle().take(20).map(|n: &f64| n.ln()).collect();
        assert_eq!(change_points(&values, step, 1, 0.05), []);
        values.extend([2001.0_f64, 2002.0, 2001.0].map(f64::ln));
        let found = change_points(&values, step, 10, 0.05);
        assert!(found.len() == 1 && found[0].index == 20 && found[0].p > 0.0, "{found:?}");
    }

    /// Guards against many curves that are searched together showing changes by chance.
    #[test]
    fn more_histories_need_more_evidence() {
        let values = history(&[(12, 0.0), (5, 0.045)], 5);
        let p = |histories| change_points(&values, 0.0, histories, 1.0).first().map(|change| change.p);
        let (one, ten) = (p(1).unwrap(), p(10).unwrap());
        assert!((ten / one - 10.0).abs() < 1e-9 && one < 0.05, "{one} {ten}");
        assert_eq!(change_points(&values, 0.0, 100_000, 0.05), []);
    }

    #[test]
    fn a_count_changes_wherever_it_differs() {
        let found = exact_change_points(&[900.0, 900.0, 901.0, 901.0, 880.0]);
        let told: Vec<(usize, f64)> = found.iter().map(|change| (change.index, change.difference.value)).collect();
        assert_eq!(told, [(2, 1.0), (4, -21.0)]);
        assert_eq!(exact_change_points(&[5.0]), []);
    }
}
