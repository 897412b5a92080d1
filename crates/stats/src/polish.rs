//! From cells to points: passes are made comparable, then averaged robustly.
//!
//! A whole pass may be slower than another (layout, frequency, load), which says nothing about growth. Median polish
//! (Tukey, Exploratory Data Analysis, 1977) removes that offset; a 20% trimmed mean with Yuen's winsorised error
//! (Biometrika 61, 1974) then averages over passes.

use crate::Components;
use crate::covariance::Covariance;
use crate::points::Grid;
use crate::quantile::{deviation_within, median_of};
use crate::walk::{correlation, deviations};

/// The reduced curve in logarithms.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// The n of each point.
    pub(crate) n: Vec<f64>,
    /// Cells without the offsets of the passes, winsorised.
    pub(crate) cells: Vec<Vec<Option<f64>>>,
    /// Offset of each pass (log scale); their trimmed mean is zero.
    pub(crate) offsets: Vec<f64>,
    /// Mean log cost of each point.
    pub(crate) mean: Vec<f64>,
    /// Standard error of the mean log cost without the offsets of passes; for shapes.
    pub(crate) error: Vec<f64>,
    /// Standard error of the mean log cost with the offsets of passes; for costs.
    pub(crate) error_absolute: Vec<f64>,
    /// Number of passes.
    pub(crate) passes: usize,
    /// The variance of a cell of each point that the spread of its calls explains.
    pub(crate) within: Vec<f64>,
    /// The components of the variance; the shares in the growth are not known here.
    pub(crate) components: Components,
    /// The distance along a pass over which windows share errors, as a share of the pass.
    pub(crate) reach: f64,
}

impl Level {
    /// Returns the covariance of the points without the offsets of the passes.
    pub(crate) fn covariance(&self) -> Covariance {
        let along = along(&self.n);
        let passes = self.passes.max(1) as f64;
        // The share of the deviation of the windows in the error of each point.
        let square = self.components.window.powi(2);
        let share: Vec<f64> = self.within.iter().map(|calls| (square / (calls + square).max(1e-12)).sqrt()).collect();
        Covariance::of(self.n.len(), |i, j| {
            let shared = match correlation(along[i] - along[j], self.reach) {
                _ if i == j => 1.0,
                shared => shared * share[i] * share[j],
            };
            shared * self.error[i] * self.error[j] + self.components.drift_between(along[i], along[j]) / passes
        })
    }

    /// Returns the level of the reciprocal cost.
    pub(crate) fn reciprocal(&self) -> Self {
        let negated = |row: &Vec<Option<f64>>| row.iter().map(|cell| cell.map(|x| -x)).collect();
        Self {
            cells: self.cells.iter().map(negated).collect(),
            offsets: self.offsets.iter().map(|x| -x).collect(),
            mean: self.mean.iter().map(|x| -x).collect(),
            ..self.clone()
        }
    }
}

/// Returns the position of each n along the pass, from −½ to ½.
pub(crate) fn along(n: &[f64]) -> Vec<f64> {
    let (first, last) = (n.first().copied().unwrap_or(0.0), n.last().copied().unwrap_or(1.0));
    n.iter().map(|n| (n - first) / (last - first).max(1.0) - 0.5).collect()
}

/// Weight, in degrees of freedom, of the pooled error relative to that of a single point. Nine passes give eight
/// degrees of freedom at a point, which are too few on their own. But small n are often noisier than large n, so full
/// pooling is wrong too.
const POOLING: f64 = 16.0;

/// Returns the mean of [`trimmed`].
pub(crate) fn trimmed_mean(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let cut = values.len() / 5;
    let kept = &values[cut..values.len() - cut];
    (!kept.is_empty()).then(|| kept.iter().sum::<f64>() / kept.len() as f64)
}

/// Returns mean and standard error with 20% trimming; below five values nothing is trimmed. The error is absent for a
/// single value.
pub(crate) fn trimmed(values: &mut [f64]) -> Option<(f64, Option<f64>)> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let cut = count / 5;
    let kept = &values[cut..count - cut];
    let h = kept.len() as f64;
    let mean = kept.iter().sum::<f64>() / h;
    if count == 1 {
        return Some((mean, None));
    }
    // Winsorising replaces each trimmed value by the nearest kept one.
    let (low, high) = (kept[0], kept[kept.len() - 1]);
    let winsorised = |f: &dyn Fn(f64) -> f64| kept.iter().map(|x| f(*x)).sum::<f64>() + cut as f64 * (f(low) + f(high));
    let centre = winsorised(&|x| x) / count as f64;
    let square = winsorised(&|x| (x - centre).powi(2));
    Some((mean, Some((square / (h * (h - 1.0).max(1.0))).sqrt())))
}

/// Returns the degrees of freedom of the error of [`trimmed`]: one less than the number of values that trimming keeps
/// (Yuen). Five values have two; with the four of a plain mean, a 95% interval would cover only 88%.
pub(crate) fn trimmed_freedom(count: usize) -> f64 {
    ((count - 2 * (count / 5)).max(2) - 1) as f64
}

/// Removes the offsets of the passes from the cells; returns both.
pub(crate) fn polish(cells: &[Vec<Option<f64>>]) -> (Vec<Vec<Option<f64>>>, Vec<f64>) {
    let mut cells = cells.to_vec();
    let mut offsets = vec![0.0; cells.len()];
    let points = cells.first().map_or(0, Vec::len);
    let mut column_effect = vec![0.0; points];
    // Medians converge after a few rounds; the bound guards against two values that alternate forever.
    for _ in 0..12 {
        for (j, effect) in column_effect.iter_mut().enumerate() {
            let mut column: Vec<f64> = cells.iter().filter_map(|row| row[j]).collect();
            let shift = median_of(&mut column).unwrap_or(0.0);
            *effect += shift;
            cells.iter_mut().filter_map(|row| row[j].as_mut()).for_each(|x| *x -= shift);
        }
        let mut moved = 0.0_f64;
        for (row, offset) in cells.iter_mut().zip(&mut offsets) {
            let mut present: Vec<f64> = row.iter().copied().flatten().collect();
            let shift = median_of(&mut present).unwrap_or(0.0);
            *offset += shift;
            moved = moved.max(shift.abs());
            row.iter_mut().flatten().for_each(|x| *x -= shift);
        }
        if moved < 1e-9 {
            break;
        }
    }
    // The common part of the offsets is the level of the curve, so it belongs to the cells.
    let common = trimmed(&mut offsets.clone()).map_or(0.0, |pair| pair.0);
    for offset in &mut offsets {
        *offset -= common;
    }
    for row in &mut cells {
        for (cell, effect) in row.iter_mut().zip(&column_effect) {
            *cell = cell.map(|residual| residual + effect + common);
        }
    }
    (cells, offsets)
}

/// A cell is winsorised to this many standard deviations from the median of its point.
const REACH: f64 = 2.0;
/// A cell farther away than this is an episode, which says nothing about n. It is left out if most passes have no
/// episode there.
const EPISODE: f64 = 4.0;

/// Factor that corrects the error of winsorised normal values: 4.6% of them exceed two deviations (Yuen).
pub(crate) const HIDDEN: f64 = 1.0 / (1.0 - 0.046);

/// Winsorises the cells at `REACH` times their expected deviation. Otherwise an episode in one cell of a pass would
/// affect every contrast, and trimming over passes is too late for that: 3% of bad cells affect a sixth of the passes.
fn winsorise(cells: &mut [Vec<Option<f64>>], variance: &[Vec<f64>], window: f64) {
    let points = cells.first().map_or(0, Vec::len);
    for j in 0..points {
        let mut column: Vec<f64> = cells.iter().filter_map(|row| row[j]).collect();
        let middle = median_of(&mut column).unwrap_or(0.0);
        let deviation = |variance: &[f64]| (variance[j] + window * window).sqrt();
        let is_episode =
            |x: Option<f64>, variance: &[f64]| x.is_some_and(|x| (x - middle).abs() > EPISODE * deviation(variance));
        let episodes = cells.iter().zip(variance).filter(|(row, variance)| is_episode(row[j], variance)).count();
        // If an even number of passes has two halves, none is near the median between them, and no cell would be left.
        if 2 * episodes >= column.len() {
            continue;
        }
        for (row, variance) in cells.iter_mut().zip(variance) {
            let limit = REACH * deviation(variance);
            let kept = row[j].filter(|x| !is_episode(Some(*x), variance));
            row[j] = kept.map(|x| x.clamp(middle - limit, middle + limit));
        }
    }
}

/// Returns the variances of the cells from the spread inside their windows. Each is averaged over the passes, and with
/// the usual variance for so many calls, because a window of nine calls hardly shows its spread.
fn within(grid: &Grid) -> Vec<Vec<f64>> {
    let calls = |j: usize| 2.0 * grid.half[j] + 1.0;
    let passes = grid.variance.len();
    let column = |j: usize| {
        let present = grid.variance.iter().zip(&grid.cells).filter(|(_, cells)| cells[j].is_some());
        let values: Vec<f64> = present.map(|(variance, _)| variance[j]).collect();
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let own: Vec<f64> = (0..grid.n.len()).map(column).collect();
    let mut of_call: Vec<f64> = own.iter().enumerate().map(|(j, variance)| variance * calls(j)).collect();
    let usual = median_of(&mut of_call).unwrap_or(0.0);
    let blended = |j: usize| {
        // One degree of freedom for each pass, and five for the rest of the curve.
        (passes as f64 * own[j] + 5.0 * usual / calls(j)) / (passes as f64 + 5.0)
    };
    let row: Vec<f64> = (0..grid.n.len()).map(blended).collect();
    vec![row; passes]
}

/// Returns the standard deviation of a window beyond what its calls explain: the one with which the median of the
/// scaled distances from the medians of the points equals that of normal values.
fn window_deviation(residuals: &[Vec<Option<f64>>], variance: &[Vec<f64>]) -> f64 {
    let scaled = |window: f64| {
        let pairs = residuals.iter().flatten().zip(variance.iter().flatten());
        let mut all: Vec<f64> =
            pairs.filter_map(|(x, v)| x.map(|x| x.abs() / (v + window * window).sqrt().max(1e-9))).collect();
        deviation_within(residuals.len(), &mut all)
    };
    if residuals.len() < 2 || scaled(0.0) <= 1.0 {
        return 0.0;
    }
    let (mut low, mut high) = (1e-9_f64, 10.0_f64);
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if scaled(middle) > 1.0 { low = middle } else { high = middle }
    }
    high
}

/// Returns the distances of the cells from the median of their point.
fn residuals(cells: &[Vec<Option<f64>>]) -> Vec<Vec<Option<f64>>> {
    let points = cells.first().map_or(0, Vec::len);
    let middle = |j: usize| median_of(&mut cells.iter().filter_map(|row| row[j]).collect::<Vec<f64>>()).unwrap_or(0.0);
    let middles: Vec<f64> = (0..points).map(middle).collect();
    let of_row = |row: &Vec<Option<f64>>| row.iter().zip(&middles).map(|(x, m)| x.map(|x| x - m)).collect();
    cells.iter().map(of_row).collect()
}

/// Prior of the drift of one pass, and its weight in degrees of freedom: a few passes hardly show their drift.
const DRIFT: (f64, f64) = (0.01, 2.0);

/// Smallest drift; no machine is steadier.
const DRIFT_MIN: f64 = 0.002;

/// Smallest distance along a pass of a pair of points that shows a slope.
const APART: f64 = 0.25;

/// A slope that differs from those of the other passes by more than this many standard deviations and this much may
/// come from a long episode instead of a drift.
const SLOPE_EPISODE: (f64, f64) = (EPISODE, 0.1);

/// Returns the slope of each pass along its length, by the median over pairs of points (Theil 1950, Sen 1968). Neither
/// short episodes nor the drift of the other passes affect it. If a long episode causes the slope of a pass, such as a
/// host that must supply memory from some n on, the slope is replaced by that of the other passes, so that the cells
/// of the episode stand out from theirs.
fn rough_slopes(residuals: &[Vec<Option<f64>>], along: &[f64]) -> Vec<f64> {
    let rows: Vec<Vec<(f64, f64)>> = residuals.iter().map(|row| present(row, along)).collect();
    let of_row = |row: &Vec<(f64, f64)>| {
        let pairs = row.iter().enumerate().flat_map(|(i, a)| row[i + 1..].iter().map(move |b| (a, b)));
        let apart = pairs.filter(|(a, b)| b.0 - a.0 >= APART);
        median_of(&mut apart.map(|(a, b)| (b.1 - a.1) / (b.0 - a.0)).collect::<Vec<f64>>())
    };
    let slopes: Vec<Option<f64>> = rows.iter().map(of_row).collect();
    // A few neighbouring points show no slope along a pass.
    let is_known = |row: &[(f64, f64)]| 2 * row.len() >= along.len();
    let known = rows.iter().zip(&slopes).filter(|(row, _)| is_known(row));
    let mut shown: Vec<f64> = known.filter_map(|(_, slope)| *slope).collect();
    let middle = median_of(&mut shown).unwrap_or(0.0);
    let mut distances: Vec<f64> = shown.iter().map(|slope| (slope - middle).abs()).collect();
    let limit = (SLOPE_EPISODE.0 * deviation_within(shown.len(), &mut distances)).max(SLOPE_EPISODE.1);
    let is_far = |slope: f64| (slope - middle).abs() > limit;
    let is_episode = |row: &[(f64, f64)], slope: f64| is_known(row) && is_far(slope) && is_step(row, slope);
    let pairs = rows.iter().zip(&slopes);
    let episodes: Vec<bool> = pairs.map(|(row, slope)| slope.is_some_and(|slope| is_episode(row, slope))).collect();
    // If more passes have one, it is not known which of them show the growth.
    let are_few = episodes.iter().filter(|is| **is).count() <= shown.len() / 4;
    let settled = slopes.iter().zip(&episodes);
    settled.map(|(slope, is)| if are_few && *is { middle } else { slope.unwrap_or(0.0) }).collect()
}

/// Returns the points of a pass: their position along it, and their value.
fn present(row: &[Option<f64>], along: &[f64]) -> Vec<(f64, f64)> {
    along.iter().zip(row).filter_map(|(u, x)| Some((*u, (*x)?))).collect()
}

/// Returns whether two levels fit the points of a pass better than a straight line of this slope does, by the sum of
/// the distances.
fn is_step(points: &[(f64, f64)], slope: f64) -> bool {
    let distances = |values: &mut Vec<f64>| {
        let middle = median_of(values).unwrap_or(0.0);
        values.iter().map(|value| (value - middle).abs()).sum::<f64>()
    };
    let of_line = distances(&mut points.iter().map(|(u, x)| x - slope * u).collect());
    let of_levels = |split: usize| {
        let (low, high) = points.split_at(split);
        [low, high].map(|side| distances(&mut side.iter().map(|point| point.1).collect())).iter().sum::<f64>()
    };
    (2..points.len().saturating_sub(1)).any(|split| of_levels(split) < of_line)
}

/// Returns the slope of each pass along its length, relative to the other passes, and the standard deviation of the
/// slopes beyond their errors. Points are winsorised to `REACH` deviations from the rough slopes. If they were
/// winsorised from a level, a pass that drifts more than the others would seem to be in an episode at both ends.
fn drifts(
    residuals: &[Vec<Option<f64>>],
    rough: &[f64],
    variance: &[Vec<f64>],
    window: f64,
    along: &[f64],
) -> (Vec<f64>, f64) {
    let (mut slopes, mut errors) = (Vec::new(), Vec::new());
    for ((row, variance), rough) in residuals.iter().zip(variance).zip(rough) {
        let (mut s, mut su, mut suu, mut sx, mut sxu) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for ((x, v), u) in row.iter().zip(variance).zip(along) {
            let Some(x) = x else { continue };
            let square = v + window * window + 1e-8;
            let x = rough * u + (x - rough * u).clamp(-REACH * square.sqrt(), REACH * square.sqrt());
            let w = 1.0 / square;
            (s, su, suu, sx, sxu) = (s + w, su + w * u, suu + w * u * u, sx + w * x, sxu + w * x * u);
        }
        let determinant = s * suu - su * su;
        // A few neighbouring points show no slope along a pass.
        let is_known = 2 * row.iter().flatten().count() >= row.len();
        if determinant > 0.0 && is_known {
            slopes.push((s * sxu - su * sx) / determinant);
            errors.push(s / determinant);
        } else {
            slopes.push(0.0);
        }
    }
    let count = slopes.len() as f64;
    let mean = slopes.iter().sum::<f64>() / count.max(1.0);
    let square = slopes.iter().map(|b| (b - mean).powi(2)).sum::<f64>();
    let error = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let freedom = count - 1.0;
    let beyond = (square - freedom * error).max(0.0);
    (slopes, ((beyond + DRIFT.1 * DRIFT.0 * DRIFT.0) / (freedom + DRIFT.1)).sqrt())
}

/// Reduces a grid whose every point has at least one cell.
pub(crate) fn level(grid: &Grid) -> Level {
    reduced(grid, true)
}

/// Does the same for the costs of the points, without the walk of the passes, which matters only for the shape.
pub(crate) fn costs(grid: &Grid) -> Level {
    reduced(grid, false)
}

fn reduced(grid: &Grid, has_walk: bool) -> Level {
    let (mut cells, offsets) = polish(&grid.cells);
    let passes = cells.len();
    let variance = within(grid);
    let along = along(&grid.n);
    // Remove the slopes of the passes first; they would be taken for noise of the windows.
    let raw = residuals(&cells);
    let rough = rough_slopes(&raw, &along);
    let level_out = |cells: &mut [Vec<Option<f64>>], slopes: &[f64], sign: f64| {
        for (row, slope) in cells.iter_mut().zip(slopes) {
            for (cell, u) in row.iter_mut().zip(&along) {
                *cell = cell.map(|x| x + sign * slope * u);
            }
        }
    };
    let mut straight = raw.clone();
    level_out(&mut straight, &rough, -1.0);
    let (slopes, drift) = drifts(&raw, &rough, &variance, window_deviation(&straight, &variance), &along);
    level_out(&mut cells, &slopes, -1.0);
    let mut window = window_deviation(&residuals(&cells), &variance);
    // With two passes it is unknown which one is the exception.
    if passes >= 3 {
        winsorise(&mut cells, &variance, window);
    }
    let (mut drift, mut walk, mut reach) = (drift, 0.0, 0.0);
    let found = variance.first().filter(|_| has_walk).and_then(|row| deviations(&cells, row, &along));
    if let Some(found) = found {
        (window, walk, reach) = (found.window, found.walk, found.reach);
        // The slope of a random walk of one over its length has a variance of 6/5.
        drift = (drift * drift - 1.2 * walk * walk).max(DRIFT_MIN * DRIFT_MIN).sqrt();
    }
    let (mut own, mut error_absolute) = (Vec::new(), Vec::new());
    for j in 0..grid.n.len() {
        let mut polished: Vec<f64> = cells.iter().filter_map(|row| row[j]).collect();
        own.push(mean_and_square(&mut polished).1);
        let mut raw: Vec<f64> = grid.cells.iter().filter_map(|row| row[j]).collect();
        error_absolute.push(trimmed(&mut raw).and_then(|pair| pair.1).unwrap_or(0.0));
    }
    level_out(&mut cells, &slopes, 1.0);
    let mean = |j: usize| mean_and_square(&mut cells.iter().filter_map(|row| row[j]).collect::<Vec<f64>>()).0;
    let freedom = (passes.max(1) - 1) as f64;
    // The offsets and slopes of the passes were estimated too, each from as many values as there are points.
    // Winsorising also hides variance.
    let points = grid.n.len() as f64;
    let spent = points / (points - 2.0).max(1.0) * HIDDEN * HIDDEN;
    let error = |j: usize| {
        let present = cells.iter().filter(|row| row[j].is_some()).count().max(1) as f64;
        let expected = (variance[0][j] + window * window) / present;
        let own = own[j].unwrap_or(expected);
        (spent * (freedom * own + POOLING * expected) / (freedom + POOLING)).sqrt()
    };
    let mut calls: Vec<f64> = (0..grid.n.len())
        .map(|j| (variance.first().map_or(0.0, |row| row[j]) * (2.0 * grid.half[j] + 1.0) / 1.57).sqrt())
        .collect();
    let pass = offsets.iter().map(|x| x * x).sum::<f64>() / freedom.max(1.0);
    Level {
        n: grid.n.clone(),
        mean: (0..grid.n.len()).map(mean).collect(),
        error: (0..grid.n.len()).map(error).collect(),
        error_absolute,
        passes,
        within: variance.first().cloned().unwrap_or_default(),
        components: Components {
            call: median_of(&mut calls).unwrap_or(0.0),
            window,
            pass: pass.sqrt(),
            drift,
            walk,
            share_of_calls: 0.0,
        },
        reach,
        cells,
        offsets,
    }
}

/// Returns the mean of a column, and the square of its standard error; the cells are winsorised, so nothing is trimmed.
fn mean_and_square(values: &mut [f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    let square = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    (mean, (count > 1.0).then(|| square / (count * (count - 1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Guards against Yuen's error being off by a factor; worked by hand for 1 … 9 with one value cut on each side.
    #[test]
    fn trimmed_means_agree_with_hand_calculation() {
        let mut values: Vec<f64> = (1..=9).map(f64::from).collect();
        let (mean, error) = trimmed(&mut values).unwrap();
        // Winsorised: 2 2 3 4 5 6 7 8 8, squares around 5: 9 9 4 1 0 1 4 9 9 = 46; 46 / (7 · 6) = 1.0952.
        assert!((mean - 5.0).abs() < 1e-12);
        assert!((error.unwrap().powi(2) - 46.0 / 42.0).abs() < 1e-12);
    }

    /// Guards against counting degrees of freedom for values that are trimmed.
    #[test]
    fn trimmed_values_have_no_freedom() {
        let of = [1, 2, 4, 5, 9, 10].map(|count| trimmed_freedom(count) as usize);
        assert_eq!(of, [1, 1, 3, 2, 6, 5]);
    }

    /// Guards against dropping all cells of a point at which two of four passes are in an episode: its cost was 1 ns.
    #[test]
    fn a_point_keeps_cells_where_half_of_the_passes_differ() {
        let n: Vec<f64> = (0..12).map(f64::from).collect();
        let noise = |pass: usize, j: usize| 0.001 * ((7 * pass + 3 * j) % 5) as f64;
        let jump = |pass: usize, j: usize| if j == 11 && pass >= 2 { 6.0 } else { 0.0 };
        let row = |pass: usize| (0..12).map(|j| Some(8.0 + noise(pass, j) + jump(pass, j))).collect();
        let grid =
            Grid { half: vec![10.0; 12], variance: vec![vec![1e-6; 12]; 4], n, cells: (0..4).map(row).collect() };
        let level = level(&grid);
        assert!((8.0..15.0).contains(&level.mean[11]), "{:?}", level.mean);
    }

    /// Guards against taking a drift for an episode at both ends of the pass, and against taking a long episode for a
    /// drift, unless more than a quarter of the passes have one.
    #[test]
    fn a_slow_half_of_a_pass_is_no_drift_but_a_slope_is() {
        let n: Vec<f64> = (0..28).map(f64::from).collect();
        let level_of = |passes: usize, changed: usize, change: &dyn Fn(f64) -> f64| {
            let mut random = Random::new(5);
            let mut row = |pass: usize| {
                let of = |j: usize| if pass < changed { change(j as f64 / 27.0) } else { 0.0 };
                (0..28).map(|j| Some(8.0 + 0.01 * random.normal() + of(j))).collect::<Vec<_>>()
            };
            let cells = (0..passes).map(&mut row).collect();
            level(&Grid { half: vec![10.0; 28], variance: vec![vec![1e-5; 28]; passes], n: n.clone(), cells })
        };
        let rise = |level: &Level| level.mean[27] - level.mean[0];
        for slow_half in [|u: f64| if u > 0.6 { 1.4 } else { 0.0 }, |u: f64| if u < 0.4 { 1.4 } else { 0.0 }] {
            for (passes, slow) in [(5, 1), (9, 2)] {
                let (calm, slow) = (level_of(passes, 0, &slow_half), level_of(passes, slow, &slow_half));
                assert!((rise(&slow) - rise(&calm)).abs() < 0.015, "{} {}", rise(&slow), rise(&calm));
                assert!(slow.components.drift < 0.02, "{:?}", slow.components);
            }
            let many = level_of(5, 2, &slow_half);
            assert!(many.components.drift > 0.1 || many.components.walk > 0.1, "{:?}", many.components);
        }
        let drift = level_of(9, 1, &|u| 0.5 * u);
        assert!(drift.components.drift > 0.1, "{:?}", drift.components);
        let left_out = drift.cells[0].iter().filter(|cell| cell.is_none()).count();
        assert!(left_out < 3, "{:?}", drift.cells[0]);
    }

    /// Guards against an offset of a pass being taken for noise.
    #[test]
    fn offsets_of_passes_are_removed() {
        let row = |offset: f64| (0..6).map(|j| Some(f64::from(j) * 0.1 + offset)).collect();
        let n: Vec<f64> = (0..6).map(f64::from).collect();
        let cells = vec![row(0.0), row(0.5), row(-0.3)];
        let grid = Grid { half: vec![0.0; 6], variance: vec![vec![0.0; 6]; 3], n, cells };
        let level = level(&grid);
        assert!(level.error.iter().all(|e| *e < 1e-12), "{:?}", level.error);
        assert!((level.mean[5] - level.mean[0] - 0.5).abs() < 1e-12);
    }
}
