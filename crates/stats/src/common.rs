//! Two curves reduced at common points: the same windows, before the first cliff of either, where both have enough
//! passes.

use crate::cliffs;
use crate::judgement::is_enough_from;
use crate::points::{
    Layout, Window, capacities_of, chosen_points, paired_series_of, reduce, series_of, start, start_of_chosen, windows,
};
use crate::polish::Level;
use crate::{Curve, Options};

/// Two curves reduced at the same points.
pub(crate) struct Pair {
    /// Cells of `a` as measured, with the offsets of the passes and including cells in a burst.
    pub(crate) raw_a: Vec<Vec<Option<f64>>>,
    /// Cells of `b`.
    pub(crate) raw_b: Vec<Vec<Option<f64>>>,
    /// The reduced `a`.
    pub(crate) a: Level,
    /// The reduced `b`.
    pub(crate) b: Level,
    /// Capacities of both.
    pub(crate) capacities: Vec<f64>,
}

/// Minimum number of points of a common range.
const POINTS_MIN: usize = 3;

/// Reduces two curves at common points; `None` if they have no common range or no passes.
pub(crate) fn pair(a: &Curve, b: &Curve, options: &Options) -> Option<Pair> {
    let (mut series, of_b) =
        if options.paired { paired_series_of(a, b) } else { (series_of(a, false), series_of(b, false)) };
    let count_a = series.len();
    let ends = |all: &[crate::points::Series]| {
        let mut ends: Vec<u32> = all.iter().filter_map(|one| one.n.last().copied()).collect();
        ends.sort_unstable();
        ends.get((ends.len().max(1) - 1) / 2).copied()
    };
    let (end_a, end_b) = (ends(&series)?, ends(&of_b)?);
    let end = f64::from(end_a.min(end_b));
    let cliff = |all: &[crate::points::Series], curve: &Curve| {
        cliffs::find(all, &curve.annotations).first().map_or(f64::MAX, |cliff| cliff.n.low)
    };
    let cliff = cliff(&series, a).min(cliff(&of_b, b));
    // The points stop at the end of the shorter curve or at the earlier cliff.
    let limit = if cliff < end { cliff } else { end + 1.0 };
    series.extend(of_b);
    let capacities = capacities_of_both(a, b);
    // Curves that both extend to the same n have the same points as in their separate judgements.
    let is_whole = end_a == end_b && cliff >= end;
    let cliff = (!is_whole).then_some(limit);
    let layout = Layout { series: &series, cliff, capacities: &capacities, first: None };
    let chosen = windows(&layout, options);
    let grid = reduce(&series, &chosen, options);
    let is_chosen = chosen_points(&series).is_some();
    let is_before = |window: &Window| window.centre + window.half < limit;
    // As in the judgement of one curve, the start follows from the end of the judged range.
    let first = if is_chosen { start_of_chosen(end) } else { start(end.min(limit), options) };
    let before: Vec<f64> = chosen.iter().filter(|window| is_before(window)).map(|window| window.centre).collect();
    let first = if is_enough_from(first, &before) { first } else { 1.0 };
    let keep: Vec<bool> = (0..chosen.len())
        .map(|j| {
            let enough = |rows: &[Vec<Option<f64>>]| {
                let present = rows.iter().filter(|row| row[j].is_some()).count();
                present >= rows.len().div_ceil(2).max(1)
            };
            let (rows_a, rows_b) = grid.cells.split_at(count_a);
            is_before(&chosen[j]) && chosen[j].centre >= first && enough(rows_a) && enough(rows_b)
        })
        .collect();
    let mut grid = grid.filtered(&keep);
    if grid.n.len() < POINTS_MIN {
        return None;
    }
    let kept: Vec<Window> = chosen.iter().zip(&keep).filter(|pair| *pair.1).map(|pair| *pair.0).collect();
    let mut of_b = grid.split_off(count_a);
    let (raw_a, raw_b) = (grid.cells.clone(), of_b.cells.clone());
    // Laws and growths are based on the same cells as in the judgement of a single curve.
    let (series_a, series_b) = series.split_at(count_a);
    let judge = options.judge();
    judge.drop_bursts(&mut grid, series_a, &kept, options);
    judge.drop_bursts(&mut of_b, series_b, &kept, options);
    Some(Pair { a: judge.level(&grid), b: judge.level(&of_b), raw_a, raw_b, capacities })
}

/// Returns the capacities of two curves. Curves of one host share capacities, and each capacity is fitted and charged
/// once.
fn capacities_of_both(a: &Curve, b: &Curve) -> Vec<f64> {
    let mut all = capacities_of(a);
    for capacity in capacities_of(b) {
        if !all.iter().any(|known| known.total_cmp(&capacity).is_eq()) {
            all.push(capacity);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::{Noise, simulate, truths};
    use crate::{Annotation, AnnotationKind};

    /// Guards against charging the capacities of one host twice.
    #[test]
    fn shared_capacities_are_taken_once() {
        let capacity = |n: f64| Annotation { name: "a capacity".to_owned(), n, kind: AnnotationKind::Capacity };
        let curve = |seed, capacities: &[f64]| Curve {
            annotations: capacities.iter().map(|n| capacity(*n)).collect(),
            ..simulate(&truths(2_000)[0], &Noise::of_call(0.05), 2_000, 3, seed)
        };
        let of = |a: &[f64], b: &[f64]| pair(&curve(1, a), &curve(2, b), &Options::default()).unwrap().capacities;
        assert_eq!(of(&[14_116.0, 32_768.0], &[14_116.0, 32_768.0]), [14_116.0, 32_768.0]);
        assert_eq!(of(&[14_116.0], &[32_768.0, 14_116.0]), [14_116.0, 32_768.0]);
    }

    /// Guards against comparing laws by other cells than those of the verdicts.
    #[test]
    fn bursts_are_left_out_of_laws_and_kept_in_costs() {
        let quiet = Noise { bursts: 0.0, ..Noise::of_call(0.05) };
        let curve = |seed| simulate(&truths(10_000)[0], &quiet, 10_000, 5, seed);
        let (mut a, b) = (curve(1), curve(2));
        let pass = &mut a.passes[0];
        for i in (0..pass.costs.len()).filter(|i| (4_000..6_000).contains(&pass.n[*i]) && i % 5 < 2) {
            pass.costs[i] *= 2;
        }
        let lost = |cells: &[Vec<Option<f64>>]| cells.iter().flatten().filter(|cell| cell.is_none()).count();
        let pair = pair(&a, &b, &Options::default()).unwrap();
        assert!(lost(&pair.a.cells) >= 5, "{}", lost(&pair.a.cells));
        assert_eq!((lost(&pair.raw_a), lost(&pair.raw_b)), (0, 0));
    }
}
