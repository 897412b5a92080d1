//! A first level that is too short to be judged.
//!
//! If the cost jumps within the first two windows of the judged range, only one point precedes the jump. One point is
//! not a level, so no step can be fitted there, and with it no law fits the curve. It is not judged, like all calls
//! before the judged range.

use crate::Options;
use crate::points::Grid;
use crate::polish::{Level, level};
use crate::select::{excess, questioned};
use crate::warm_up::{POINTS_MIN, RANGE_MIN};

/// The first point must differ from the law of the others by more than this many standard errors.
const ERRORS: f64 = 4.0;
/// The second point is dropped too if it differs from that law by more than this many in the same direction.
const ERRORS_AT_JUMP: f64 = 1.5;
/// The jump is inside the window of the second point if that point differs by less than this share of the difference of
/// the first one (in logarithms). Otherwise the two are a level.
const SHARE_AT_JUMP: f64 = 0.75;

/// Drops the first point, and the second if the jump is inside its window, if the best law is questioned with them and
/// not without them, and the first one differs from that law by more than δ. `level` is that of the judged points, if
/// known. Returns the same if no point was dropped.
pub(crate) fn drop_points(
    grid: &Grid,
    judged: &mut [bool],
    level: Option<Level>,
    capacities: &[f64],
    options: &Options,
) -> Option<Level> {
    let kept: Vec<usize> = (0..grid.n.len()).filter(|j| judged[*j]).collect();
    // Chosen n have no windows, and may be few.
    if kept.len() < POINTS_MIN + 2 || grid.half.iter().all(|half| *half == 0.0) {
        return level;
    }
    let whole = level.unwrap_or_else(|| self::level(&grid.filtered(judged)));
    if grid.n[kept[kept.len() - 1]] / grid.n[kept[2]] < RANGE_MIN || !questioned(&whole, capacities, options) {
        return Some(whole);
    }
    // The law of the points that are certainly beyond the jump.
    let is_beyond: Vec<bool> = (0..kept.len()).map(|i| i >= 2).collect();
    let found = excess(&whole, &is_beyond, capacities, options);
    let [first, second] = [&found[0], &found[1]];
    if first.errors.abs() <= ERRORS || first.log.exp_m1().abs() <= options.delta {
        return Some(whole);
    }
    let is_at_jump = second.errors * first.errors.signum() > ERRORS_AT_JUMP;
    if is_at_jump && second.log.abs() >= SHARE_AT_JUMP * first.log.abs() {
        return Some(whole);
    }
    let mut rest = judged.to_vec();
    rest[kept[0]] = false;
    rest[kept[1]] = !is_at_jump;
    if questioned(&self::level(&grid.filtered(&rest)), capacities, options) {
        return Some(whole);
    }
    judged.copy_from_slice(&rest);
    None
}
