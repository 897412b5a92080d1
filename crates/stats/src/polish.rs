//! Cells to points: passes are made comparable, then averaged robustly.
//!
//! A whole pass may be slower than another (layout, frequency, load), which says nothing about growth. Median polish
//! (Tukey, Exploratory Data Analysis, 1977) removes that offset; a 20% trimmed mean with Yuen's winsorised error
//! (Biometrika 61, 1974) then averages over passes.

use crate::points::Grid;
use crate::quantile::median_of;

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
    /// Its standard error without the offsets of passes: for shapes.
    pub(crate) error: Vec<f64>,
    /// Its standard error with the offsets of passes: for costs.
    pub(crate) error_absolute: Vec<f64>,
    /// Degrees of freedom behind each error, after pooling.
    pub(crate) freedom: f64,
    /// Passes.
    pub(crate) passes: usize,
}

/// Weight, in degrees of freedom, of the pooled error against that of a single point. Nine passes give eight degrees at
/// a point, which is too few on its own; but small n are often noisier than large n, so full pooling is wrong too.
const POOLING: f64 = 16.0;

/// Mean and standard error by 20% trimming; plain ones below five values. The error is absent for a single value.
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
    // Winsorising replaces each cut value by the last kept one.
    let (low, high) = (kept[0], kept[kept.len() - 1]);
    let winsorised = |f: &dyn Fn(f64) -> f64| kept.iter().map(|x| f(*x)).sum::<f64>() + cut as f64 * (f(low) + f(high));
    let centre = winsorised(&|x| x) / count as f64;
    let square = winsorised(&|x| (x - centre).powi(2));
    Some((mean, Some((square / (h * (h - 1.0).max(1.0))).sqrt())))
}

/// Removes the offsets of the passes from the cells; returns both.
pub(crate) fn polish(grid: &Grid) -> (Vec<Vec<Option<f64>>>, Vec<f64>) {
    let mut cells = grid.cells.clone();
    let mut offsets = vec![0.0; cells.len()];
    let points = grid.n.len();
    let mut column_effect = vec![0.0; points];
    // Medians settle after a few rounds; the bound guards against two values that alternate for ever.
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
    // The common part of the offsets is the level of the curve and belongs to the cells.
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

/// A cell is pulled in to this many robust standard deviations from the median of its point.
const REACH: f64 = 2.0;

/// The factor by which winsorising hides the error of normal values: 4.6% of them exceed two deviations (Yuen).
pub(crate) const HIDDEN: f64 = 1.0 / (1.0 - 0.046);

/// Winsorises the cells. Otherwise a pass would carry an episode in one cell into every contrast and every bootstrap
/// draw, where trimming over passes comes too late: 3% bad cells affect a sixth of the passes.
fn winsorise(cells: &mut [Vec<Option<f64>>], points: usize) {
    let middle = |j: usize| {
        let mut column: Vec<f64> = cells.iter().filter_map(|row| row[j]).collect();
        median_of(&mut column).unwrap_or(0.0)
    };
    let middles: Vec<f64> = (0..points).map(middle).collect();
    let distances = |j: usize| {
        let column = cells.iter().filter_map(move |row| row[j]);
        column.map(|x| (x - middles[j]).abs()).collect::<Vec<f64>>()
    };
    // 1.4826 turns the median distance into a standard deviation; distances from a median of k values are too short by
    // about k/(k − 0.8); and no point has a smaller limit than all points together.
    let passes = cells.len() as f64;
    let factor = 1.4826 * passes / (passes - 0.8);
    let spread = |mut all: Vec<f64>| factor * median_of(&mut all).unwrap_or(0.0);
    let common = spread((0..points).flat_map(distances).collect());
    let limits: Vec<f64> = (0..points).map(|j| REACH * spread(distances(j)).max(common)).collect();
    for row in cells {
        for ((cell, middle), limit) in row.iter_mut().zip(&middles).zip(&limits) {
            *cell = cell.map(|x| x.clamp(middle - limit, middle + limit));
        }
    }
}

/// Reduces a grid whose every point has at least one cell.
pub(crate) fn level(grid: &Grid) -> Level {
    let (cells, offsets) = polish(grid);
    // Passes are sorted by offset, so that draws by index do not depend on the order in which they were given.
    let mut order: Vec<usize> = (0..offsets.len()).collect();
    // Equal offsets occur, as costs are integers; then the cells decide.
    let key = |p: usize| std::iter::once(offsets[p]).chain(cells[p].iter().map(|x| x.unwrap_or(0.0)));
    order.sort_by(|a, b| {
        let mut pairs = key(*a).zip(key(*b)).map(|(x, y)| x.total_cmp(&y));
        pairs.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut cells: Vec<Vec<Option<f64>>> = order.iter().map(|p| cells[*p].clone()).collect();
    let offsets: Vec<f64> = order.iter().map(|p| offsets[*p]).collect();
    // Of two passes, neither is the odd one.
    if cells.len() >= 3 {
        winsorise(&mut cells, grid.n.len());
    }
    let passes = cells.len();
    let (mut mean, mut own, mut error_absolute) = (Vec::new(), Vec::new(), Vec::new());
    for j in 0..grid.n.len() {
        let column = |rows: &[Vec<Option<f64>>]| rows.iter().filter_map(|row| row[j]).collect();
        let mut polished: Vec<f64> = column(&cells);
        let mut raw: Vec<f64> = column(&grid.cells);
        let (centre, error) = trimmed(&mut polished).unwrap_or((0.0, None));
        mean.push(centre);
        own.push(error.map(|e| e * e));
        error_absolute.push(trimmed(&mut raw).and_then(|pair| pair.1).unwrap_or(0.0));
    }
    let mut known: Vec<f64> = own.iter().copied().flatten().collect();
    let pooled = trimmed(&mut known).map_or(0.0, |pair| pair.0);
    let freedom = (passes.max(1) - 1) as f64;
    // The offsets of the passes were estimated too, each from as many values as there are points; and winsorising hides
    // variance.
    let points = grid.n.len() as f64;
    let spent = points / (points - 1.0).max(1.0) * HIDDEN * HIDDEN;
    let shrunk = |square: &Option<f64>| match square {
        Some(square) => (freedom * square + POOLING * pooled) / (freedom + POOLING),
        None => pooled,
    };
    Level {
        n: grid.n.clone(),
        mean,
        error: own.iter().map(|square| (spent * shrunk(square)).sqrt()).collect(),
        error_absolute,
        freedom: freedom + POOLING.min(freedom * (grid.n.len() as f64 - 1.0)),
        passes,
        cells,
        offsets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against Yuen's error being off by a factor; worked by hand for 1 … 9 with one value cut on each side.
    #[test]
    fn trimmed_means_agree_with_hand_calculation() {
        let mut values: Vec<f64> = (1..=9).map(f64::from).collect();
        let (mean, error) = trimmed(&mut values).unwrap();
        // Winsorised: 2 2 3 4 5 6 7 8 8, squares about 5: 9 9 4 1 0 1 4 9 9 = 46; 46 / (7 · 6) = 1.0952.
        assert!((mean - 5.0).abs() < 1e-12);
        assert!((error.unwrap().powi(2) - 46.0 / 42.0).abs() < 1e-12);
    }

    /// Guards against an offset of a pass being taken for noise.
    #[test]
    fn offsets_of_passes_are_removed() {
        let row = |offset: f64| (0..6).map(|j| Some(f64::from(j) * 0.1 + offset)).collect();
        let grid = Grid { n: (0..6).map(f64::from).collect(), cells: vec![row(0.0), row(0.5), row(-0.3)] };
        let level = level(&grid);
        assert!(level.error.iter().all(|e| *e < 1e-12), "{:?}", level.error);
        assert!((level.mean[5] - level.mean[0] - 0.5).abs() < 1e-12);
    }
}
