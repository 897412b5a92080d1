//! Random walks of the passes: the machine changes during a pass, independently of n.
//!
//! Each pass has a random walk along its length in addition to the errors of its windows. Both variances are estimated
//! by restricted maximum likelihood (Patterson and Thompson, Biometrika 58, 1971), averaged over a grid. The part that
//! all passes share is the curve; each pass also has a free level and a free slope.

use crate::covariance::{Covariance, Factor, dot};

/// Prior of the standard deviation of the walk over a whole pass, and its weight in degrees of freedom: a few passes
/// hardly show their walk.
const PRIOR: (f64, f64) = (0.01, 2.0);
/// The grids: the smallest value, the ratio of adjacent values, and their number.
const WINDOW: (f64, f64, i32) = (0.003, 2.0, 7);
const WALK: (f64, f64, i32) = (0.004, 1.8, 7);
/// Minimum number of points that show a walk.
const POINTS_MIN: usize = 8;

/// Largest plausible walk: above this, spells in which all calls are slower or faster are taken for its steps.
const WALK_MAX: f64 = 0.06;
/// The lengths of such spells that are then tried, as shares of a pass.
const REACHES: [f64; 4] = [0.01, 0.03, 0.09, 0.27];

/// The deviations of the passes from each other.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deviations {
    /// Standard deviation of a window, beyond what its calls explain.
    pub(crate) window: f64,
    /// Standard deviation of the random walk over a whole pass.
    pub(crate) walk: f64,
    /// The distance along a pass over which windows share errors, as a share of the pass; 0 if they do not.
    pub(crate) reach: f64,
}

/// Returns the correlation of the errors of two windows at this distance along a pass.
pub(crate) fn correlation(apart: f64, reach: f64) -> f64 {
    match apart.abs() {
        0.0 => 1.0,
        apart if reach > 0.0 => (-apart / reach).exp(),
        _ => 0.0,
    }
}

/// Returns the deviations of the passes. `cells` are log costs by pass and point. `variance` is the variance that the
/// calls of each point explain, `along` the position of the point in the pass.
pub(crate) fn deviations(cells: &[Vec<Option<f64>>], variance: &[f64], along: &[f64]) -> Option<Deviations> {
    let (passes, points) = (cells.len(), variance.len());
    if passes < 2 || points < POINTS_MIN {
        return None;
    }
    let mean = |j: usize| {
        let column: Vec<f64> = cells.iter().filter_map(|row| row[j]).collect();
        column.iter().sum::<f64>() / column.len().max(1) as f64
    };
    let means: Vec<f64> = (0..points).map(mean).collect();
    let residual = |row: &Vec<Option<f64>>| {
        row.iter().zip(&means).map(|(cell, mean)| cell.map_or(0.0, |cell| cell - mean)).collect::<Vec<f64>>()
    };
    let rows: Vec<Vec<f64>> = cells.iter().map(residual).collect();
    let grid = |(least, ratio, count): (f64, f64, i32)| (0..count).map(move |i| least * ratio.powi(i));
    let of_reach = |reach: f64| {
        let mut all: Vec<(f64, f64, f64)> = Vec::new();
        for window in std::iter::once(0.0).chain(grid(WINDOW)) {
            for walk in grid(WALK) {
                let likelihood = log_likelihood(&rows, variance, along, Deviations { window, walk, reach });
                let prior = -(PRIOR.1 + 1.0) * walk.ln() - PRIOR.1 * PRIOR.0 * PRIOR.0 / (2.0 * walk * walk);
                // A grid at a constant ratio has the density of 1 / walk.
                all.push((window, walk, likelihood + prior + walk.ln()));
            }
        }
        let best = all.iter().map(|one| one.2).fold(f64::MIN, f64::max);
        let (mut total, mut of_window, mut of_walk) = (0.0, 0.0, 0.0);
        for (window, walk, log) in all {
            let weight = (log - best).exp();
            total += weight;
            of_window += weight * window * window;
            of_walk += weight * walk * walk;
        }
        let found = Deviations { window: (of_window / total).sqrt(), walk: (of_walk / total).sqrt(), reach };
        (best + total.ln(), found)
    };
    let alone = of_reach(0.0);
    let mut found = vec![alone];
    if alone.1.walk > WALK_MAX {
        found.extend(REACHES.map(of_reach));
    }
    found.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, found)| found)
}

/// Returns the covariance of two points of a pass whose walk has a standard deviation of one over its length.
pub(crate) fn shared(a: f64, b: f64) -> f64 {
    a.min(b) + 0.5
}

fn log_likelihood(rows: &[Vec<f64>], variance: &[f64], along: &[f64], of: Deviations) -> f64 {
    let covariance = Covariance::of(variance.len(), |i, j| {
        let own = if i == j { variance[i] + 1e-8 } else { 0.0 };
        let of_window = of.window * of.window * correlation(along[i] - along[j], of.reach);
        own + of_window + of.walk * of.walk * shared(along[i], along[j])
    });
    let factor = Factor::of(&covariance);
    let (ones, slope) = (factor.whiten(&vec![1.0; variance.len()]), factor.whiten(along));
    let (s, su, suu) = (dot(&ones, &ones), dot(&ones, &slope), dot(&slope, &slope));
    let determinant = (s * suu - su * su).max(f64::MIN_POSITIVE);
    let square = |row: &Vec<f64>| {
        let white = factor.whiten(row);
        let (sx, sux) = (dot(&white, &ones), dot(&white, &slope));
        let explained = (suu * sx * sx - 2.0 * su * sx * sux + s * sux * sux) / determinant;
        dot(&white, &white) - explained
    };
    // The passes have one mean in common.
    let freedom = rows.len() as f64 - 1.0;
    -0.5 * (freedom * (factor.log_determinant() + determinant.ln()) + rows.iter().map(square).sum::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Guards against taking a walk for errors of the windows, and against finding a walk where there is none.
    #[test]
    fn walks_and_windows_are_told_apart() {
        let along: Vec<f64> = (0..28).map(|j| f64::from(j) / 27.0 - 0.5).collect();
        let mean_of = |window: f64, walk: f64| {
            let mut random = Random::new(3);
            let mut sums = (0.0, 0.0);
            for _ in 0..40 {
                let pass = |_| {
                    let mut at = 0.0;
                    let mut point = |_| {
                        at += walk * (1.0_f64 / 27.0).sqrt() * random.normal();
                        Some(at + window * random.normal())
                    };
                    (0..28).map(&mut point).collect::<Vec<Option<f64>>>()
                };
                let cells: Vec<Vec<Option<f64>>> = (0..5).map(pass).collect();
                let found = deviations(&cells, &[0.0; 28], &along).unwrap();
                sums = (sums.0 + found.window / 40.0, sums.1 + found.walk / 40.0);
            }
            sums
        };
        let (window, walk) = mean_of(0.01, 0.05);
        assert!((0.008..0.012).contains(&window) && (0.035..0.065).contains(&walk), "{window} {walk}");
        let (window, walk) = mean_of(0.01, 0.0);
        assert!((0.008..0.012).contains(&window) && walk < 0.012, "{window} {walk}");
    }

    /// Guards against taking spells of many windows for a large walk, which would leave the growth unknown.
    #[test]
    fn spells_that_windows_share_are_no_walk() {
        // Many points at small n are in one spell.
        let along: Vec<f64> = (0..28).map(|j| 1.25_f64.powi(j - 27) - 0.5).collect();
        let mut random = Random::new(11);
        let mut walks = 0.0;
        for _ in 0..20 {
            let pass = |_| {
                let spells: Vec<f64> = (0..20).map(|_| 0.04 * random.normal()).collect();
                along.iter().map(|u| Some(spells[((u + 0.5) * 19.9) as usize])).collect::<Vec<Option<f64>>>()
            };
            let cells: Vec<Vec<Option<f64>>> = (0..9).map(pass).collect();
            let found = deviations(&cells, &[1e-6; 28], &along).unwrap();
            assert!(found.reach > 0.0, "{found:?}");
            walks += found.walk / 20.0;
        }
        assert!(walks < 0.06, "{walks}");
    }
}
