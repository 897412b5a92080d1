//! A first level that is too short to be judged.
//!
//! If the cost jumps soon after the start of the judged range, one or two points are before the jump. They are not a
//! level, so no step can be fitted there, and with them no law fits the curve. Such points are not judged.

use crate::Options;
use crate::points::Grid;
use crate::polish::{Level, level};
use crate::select::{excess, questioned};
use crate::warm_up::{POINTS_MIN, RANGE_MIN};

/// Maximum number of points that are too few for a level.
const POINTS_MAX: usize = 2;
/// The first point must differ from the law of the others by more than this many standard errors.
const ERRORS: f64 = 4.0;
/// A point that differs from it by more than this many in the same direction is dropped too: the jump may be inside its
/// window.
const ERRORS_AT_JUMP: f64 = 1.5;

/// Drops the first point, or the first two, if the best law is questioned with them and not without them, and the first
/// one differs from that law by more than δ. `level` is that of the judged points, if known. Returns the same if no
/// point was dropped.
pub(crate) fn drop_points(
    grid: &Grid,
    judged: &mut [bool],
    level: Option<Level>,
    capacities: &[f64],
    options: &Options,
) -> Option<Level> {
    let kept: Vec<usize> = (0..grid.n.len()).filter(|j| judged[*j]).collect();
    // Chosen n have no windows, and may be few.
    if kept.len() < POINTS_MIN + POINTS_MAX || grid.half.iter().all(|half| *half == 0.0) {
        return level;
    }
    let whole = level.unwrap_or_else(|| self::level(&grid.filtered(judged)));
    if !questioned(&whole, capacities, options) {
        return Some(whole);
    }
    let last = grid.n[kept[kept.len() - 1]];
    let mut rest = judged.to_vec();
    for count in (1..=POINTS_MAX).take_while(|count| last / grid.n[kept[count + 1]] >= RANGE_MIN) {
        rest[kept[count - 1]] = false;
        let is_kept: Vec<bool> = (0..kept.len()).map(|i| i >= count).collect();
        let found = excess(&whole, &is_kept, capacities, options);
        let first = &found[0];
        let differs = first.errors.abs() > ERRORS && first.log.exp_m1().abs() > options.delta;
        if differs && !questioned(&self::level(&grid.filtered(&rest)), capacities, options) {
            rest[kept[count]] &= found[count].errors * first.errors.signum() < ERRORS_AT_JUMP;
            judged.copy_from_slice(&rest);
            return None;
        }
    }
    Some(whole)
}
