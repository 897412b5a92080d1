//! Change points: places at which the level of a history changed permanently.
//!
//! A history has one value for each record, in order of time. Binary segmentation (Scott and Knott 1974; Vostrikova
//! 1981) looks for the place that splits it best. As in Hunter (Fleming and Kołaczkowski 2023, after Daly et al. 2020),
//! Student's t decides whether the two sides differ. Because the best of many places was chosen, its p value is that of
//! the largest of their t values, by the bound of Worsley (1982). If the sides differ, each is split in the same way.
//!
//! A single disturbed record is not a change: it is left out first, and a level needs [`SIDE_MIN`] records. Records
//! that are made soon after one another may be correlated: the error of a level allows for an autoregression of the
//! first order, whose correlation is estimated from the history. A slow drift is reported as one or several changes.

use crate::Estimate;
use crate::growth::student;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::erf::{erfc, erfc_inv};
use std::f64::consts::{PI, SQRT_2};
use std::ops::Range;

/// Minimum number of records of a level: with fewer, one disturbed record is half of a level.
pub const SIDE_MIN: usize = 3;

/// Number of successive records with whose median a record is compared, and the number of standard deviations by which
/// it may differ. The records of a level of [`SIDE_MIN`] are the majority of this number.
const NEIGHBOURS: usize = 2 * SIDE_MIN - 1;
const FAR: f64 = 4.0;
/// If more than one in this many records is far away, records simply differ that much, and none is left out.
const DISTURBED_SHARE: usize = 5;

/// Prior estimate of the correlation of successive records, and its weight in records. Short histories say little about
/// their correlation; ten records of one machine had 0.15.
const USUAL_CORRELATION: f64 = 0.3;
const USUAL_RECORDS: f64 = 20.0;
/// The correlation of residuals is smaller than that of the records by this over their number for each change, because
/// its place and both means were fitted. In simulated histories this is 3.5 for independent records and 5.6 at a
/// correlation of 0.3.
const FITTED: f64 = 3.5;
/// Largest correlation; more cannot be distinguished from a change of the level.
const CORRELATION_MAX: f64 = 0.9;

/// Means that differ by less are equal; the difference comes from rounding.
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
    /// The p value of equal means at the best of all places, times the number of histories.
    pub p: f64,
}

/// Returns the changes of a history, in order.
///
/// `values` are on a scale on which equal effects are equal differences: logarithms of costs. `histories` is the number
/// of histories that are searched together. Of the collections of so many histories without any change, at most a share
/// of `level` (for example 0.05) show one, even if successive values are correlated by up to 0.3.
///
/// `step` is the distance between neighbouring values on that scale if the values are on a grid, such as counts;
/// otherwise 0. Values that are rounded to it have an error variance of a twelfth of its square, even if all of them
/// are equal.
pub fn change_points(values: &[f64], step: f64, histories: usize, level: f64) -> Vec<ChangePoint> {
    let floor = step * step / 12.0;
    let kept = undisturbed(values);
    let values: Vec<f64> = kept.iter().map(|index| values[*index]).collect();
    let histories = histories.max(1) as f64;
    // A change that is not found in independent records is not found in correlated ones.
    let free = segmented(&values, Noise { floor, correlation: 0.0 }, level / histories);
    let noise = Noise { floor, correlation: correlation(&values, &free) };
    let found = segmented(&values, noise, level / histories);
    let bounds: Vec<usize> = std::iter::once(0).chain(found).chain([values.len()]).collect();
    let told = bounds.windows(3).filter_map(|three| {
        let [from, at, to] = *three else { return None };
        let test = Test::of(&values[from..to], at - from, noise);
        let p = (of_best(test.p(), to - from) * histories).min(1.0);
        Some(ChangePoint { index: kept[at], difference: test.difference(), p })
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

/// Returns the number of places at which a stretch of `len` values can be split.
fn places(len: usize) -> usize {
    (len + 1).saturating_sub(2 * SIDE_MIN)
}

/// The variation of the records of one level.
#[derive(Clone, Copy)]
struct Noise {
    /// The smallest variance that is assumed.
    floor: f64,
    /// The correlation of successive records.
    correlation: f64,
}

/// Returns the places at which the level changes, in order.
fn segmented(values: &[f64], noise: Noise, level: f64) -> Vec<usize> {
    let mut found = Vec::new();
    split(values, 0..values.len(), noise, level, &mut found);
    found.sort_unstable();
    moved_to_best(values, &mut found);
    found
}

/// Splits the values of a range where they differ, and then both sides in the same way.
fn split(values: &[f64], range: Range<usize>, noise: Noise, level: f64, found: &mut Vec<usize>) {
    let Range { start: from, end: to } = range;
    let Some(at) = best(values, from, to) else { return };
    if of_best(Test::of(&values[from..to], at - from, noise).p(), to - from) >= level {
        return;
    }
    found.push(at);
    split(values, from..at, noise, level, found);
    split(values, at..to, noise, level, found);
}

/// Returns the place that best splits the values from `from` to `to`: the one with the smallest sums of squares around
/// both means. `None` if there are too few values.
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

/// Student's t test of two levels, whose records may be correlated.
struct Test {
    difference: f64,
    error: f64,
    freedom: f64,
}

impl Test {
    /// Tests the values before index `at` against those from it on. Both sides have at least one value, and together at
    /// least three.
    fn of(values: &[f64], at: usize, noise: Noise) -> Self {
        let (before, after) = values.split_at(at);
        let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
        let squares = |side: &[f64], mean: f64| side.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let (mean_before, mean_after) = (mean(before), mean(after));
        let (count, a, b) = (values.len() as f64, before.len() as f64, after.len() as f64);
        let r = noise.correlation;
        // Degrees of freedom that the two means use up.
        let fitted = excess(a, r) + excess(b, r);
        let variance =
            ((squares(before, mean_before) + squares(after, mean_after)) / (count - fitted)).max(noise.floor);
        let shared = r * (1.0 - r.powf(a)) * (1.0 - r.powf(b)) / ((1.0 - r).powi(2) * a * b);
        let error = (variance * (excess(a, r) / a + excess(b, r) / b - 2.0 * shared)).sqrt();
        let freedom = ((count - 2.0) * (1.0 - r * r) / (1.0 + r * r)).max(1.0);
        Self { difference: mean_after - mean_before, error, freedom }
    }

    /// Returns the two-sided p value. It is never zero, because only counts without error differ with certainty.
    fn p(&self) -> f64 {
        if self.difference.abs() <= ROUNDING || self.error <= 0.0 {
            return 1.0;
        }
        let tail = |t: f64| StudentsT::new(0.0, 1.0, self.freedom).map_or(1.0, |law| law.cdf(-t));
        (2.0 * tail((self.difference / self.error).abs())).max(f64::MIN_POSITIVE)
    }

    /// Returns the difference of the means with its 95% interval.
    fn difference(&self) -> Estimate {
        let half = student(0.975, self.freedom) * self.error;
        Estimate { value: self.difference, low: self.difference - half, high: self.difference + half }
    }
}

/// Returns the variance of a mean of `count` records that are correlated by `r`, over that of independent ones.
fn excess(count: f64, r: f64) -> f64 {
    (1.0 + r) / (1.0 - r) - 2.0 * r * (1.0 - r.powf(count)) / (count * (1.0 - r).powi(2))
}

/// Estimates the correlation of successive records around the levels between these changes. The correlation of the
/// residuals is corrected for the fitted parameters and shrunk towards the usual one. A negative correlation counts as
/// none.
fn correlation(values: &[f64], changes: &[usize]) -> f64 {
    let bounds: Vec<usize> = std::iter::once(0).chain(changes.iter().copied()).chain([values.len()]).collect();
    let residuals = bounds.windows(2).flat_map(|pair| {
        let level = &values[pair[0]..pair[1]];
        let mean = level.iter().sum::<f64>() / level.len().max(1) as f64;
        level.iter().map(move |value| value - mean)
    });
    let residuals: Vec<f64> = residuals.collect();
    let squares: f64 = residuals.iter().map(|one| one * one).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    let shown = if squares > 0.0 { products / squares } else { 0.0 };
    let (count, fitted) = (residuals.len() as f64, FITTED * changes.len() as f64);
    let told = (shown * count + fitted + USUAL_CORRELATION * USUAL_RECORDS) / (count + USUAL_RECORDS);
    told.clamp(0.0, CORRELATION_MAX)
}

/// Returns the p value of the best of all places at which `count` values can be split, from its p value as a single
/// place.
///
/// The largest of several t values exceeds a bound if the first does, or if one does and its neighbour does not
/// (Worsley, Biometrika 69, 1982). Neighbouring places share all but one value, so this is much less than the number of
/// places times the p value. The two t values are assumed to be normal, with the correlation that they have if records
/// are independent. Correlated records have a higher one, so this is an upper bound.
fn of_best(p: f64, count: usize) -> f64 {
    let places = places(count);
    let z = SQRT_2 * erfc_inv(p.clamp(f64::MIN_POSITIVE, 1.0));
    let count = count as f64;
    let neighbours = (SIDE_MIN..SIDE_MIN + places.saturating_sub(1)).map(|k| k as f64);
    let crossings: f64 = neighbours
        .map(|k| {
            let r = (k * (count - k - 1.0) / ((k + 1.0) * (count - k))).sqrt();
            2.0 * crossing(z, r)
        })
        .sum();
    (p + crossings).min(p * places as f64).min(1.0)
}

/// Returns the probability that one of two normal values that are correlated by `r` is above `z`, and the other between
/// −`z` and `z`. Integrates by Simpson's rule, up to where the second factor vanishes.
fn crossing(z: f64, r: f64) -> f64 {
    const PARTS: u32 = 24;
    const END: f64 = 6.0;
    let rest = (1.0 - r * r).sqrt();
    let step = (z * (1.0 - r) + END * rest) / r / f64::from(PARTS);
    let below = |x: f64| 0.5 * erfc(-x / SQRT_2);
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    let value = |part: u32| {
        let x = z + step * f64::from(part);
        let weight = match part {
            0 | PARTS => 1.0,
            odd if odd % 2 == 1 => 4.0,
            _ => 2.0,
        };
        weight * density(x) * (below((z - r * x) / rest) - below((-z - r * x) / rest))
    };
    (0..=PARTS).map(value).sum::<f64>() * step / 3.0
}

/// Returns the indices of the records that were not disturbed. A record was disturbed if it is more than [`FAR`]
/// standard deviations from the median of every [`NEIGHBOURS`] successive records that include it. The standard
/// deviation comes from the differences of successive values, which a change of the level does not affect.
fn undisturbed(values: &[f64]) -> Vec<usize> {
    let every: Vec<usize> = (0..values.len()).collect();
    let mut steps: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let deviation = median(&mut steps).map_or(0.0, |step| PER_MEDIAN * step / SQRT_2);
    if deviation <= 0.0 || values.len() < NEIGHBOURS {
        return every;
    }
    let medians: Vec<f64> = values.windows(NEIGHBOURS).filter_map(|near| median(&mut near.to_vec())).collect();
    let is_near = |index: &usize| {
        let windows = index.saturating_sub(NEIGHBOURS - 1)..=(*index).min(medians.len() - 1);
        windows.into_iter().any(|window| (values[*index] - medians[window]).abs() <= FAR * deviation)
    };
    let kept: Vec<usize> = every.iter().copied().filter(is_near).collect();
    if (values.len() - kept.len()) * DISTURBED_SHARE > values.len() { every } else { kept }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    crate::quantile::quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Values with a standard deviation of 0.02 around levels with these numbers of records.
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

    /// Guards against a busy host being reported as a change of the kernel.
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

    /// Guards against cliffs at n = 1,001 and 1,002 being reported as a certain change, because no value differs from
    /// its neighbours. A large step is still found.
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

    /// Guards against finding changes by chance because many curves are searched together.
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
