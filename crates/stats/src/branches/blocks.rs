//! Medians of eight calls. They answer two questions cheaply before a model is fitted: whether calls may stay in
//! branches, and where both branches jump.

use super::model::is_near;
use crate::points::Series;
use crate::quantile::{median_of, median_of_block, median_of_costs};

/// Calls in a block.
pub(super) const BLOCK: usize = 8;

/// The blocks of a pass, by rising n.
pub(super) struct Blocks {
    /// The n at the middle of each block.
    pub(super) n: Vec<f64>,
    /// Logarithms of their median costs.
    pub(super) y: Vec<f64>,
}

impl Blocks {
    pub(super) fn of(one: &Series) -> Self {
        let median = |costs: &[u64]| {
            let median = match <[u64; BLOCK]>::try_from(costs) {
                Ok(block) => median_of_block(block),
                Err(_) => median_of_costs(&mut costs.to_vec()).unwrap_or(0.0),
            };
            median.max(0.5).ln()
        };
        Self {
            n: one.n.chunks(BLOCK).map(|n| f64::from(n[n.len() / 2])).collect(),
            y: one.costs.chunks(BLOCK).map(median).collect(),
        }
    }
}

/// Smallest spread of the blocks of a pass, relative to the other passes, for which branches are searched for
/// (logarithm).
const SPREAD_MIN: f64 = 0.04;
/// The same, as a variance over that of neighbouring blocks.
const EXCESS_MIN: f64 = 1.3;

/// Whether blocks differ more from those of other passes at the same n than from their neighbours, as they do with
/// stays in a branch. For most curves the search ends here.
pub(super) fn varies_in_runs(passes: &[Blocks]) -> bool {
    let ends = passes.iter().flat_map(|pass| pass.n.first().into_iter().chain(pass.n.last()));
    let (first, last) = ends.fold((f64::MAX, f64::MIN), |(low, high), n| (low.min(*n), high.max(*n)));
    let longest = passes.iter().map(|pass| pass.n.len()).max().unwrap_or(0);
    if longest < 16 || last <= first {
        return false;
    }
    let scale = (longest - 1) as f64 / (last - first);
    let bin = |n: f64| ((n - first) * scale + 0.5) as usize;
    let mut sums = vec![(0.0, 0.0); longest];
    for pass in passes {
        for (n, y) in pass.n.iter().zip(&pass.y) {
            let sum = &mut sums[bin(*n)];
            *sum = (sum.0 + y, sum.1 + 1.0);
        }
    }
    let (mut distances, mut changes) = (Vec::new(), Vec::new());
    for pass in passes {
        let from = distances.len();
        distances.extend(pass.n.iter().zip(&pass.y).filter_map(|(n, y)| {
            let (sum, count): (f64, f64) = sums[bin(*n)];
            (count > 1.0).then(|| (y - sum / count) * (count / (count - 1.0)).sqrt())
        }));
        let own = &mut distances[from..];
        let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
        for x in own {
            *x -= mean;
        }
        changes.extend(pass.y.windows(2).map(|pair| (pair[1] - pair[0]).abs()));
    }
    // 92% of normal values are within 1.75 deviations; a branch with a share of a tenth is still detected.
    let Some([low, high]) = inner(&mut distances, 0.04) else { return false };
    let spread = (high - low) / 3.5;
    let noise = 1.4826 / std::f64::consts::SQRT_2 * median_of(&mut changes).unwrap_or(0.0);
    spread > SPREAD_MIN && spread * spread > EXCESS_MIN * noise * noise
}

/// Returns the two values with this share of all values below and above them; `None` if there are too few values.
fn inner(values: &mut [f64], share: f64) -> Option<[f64; 2]> {
    let last = values.len().checked_sub(1)?;
    let side = (share * last as f64).round() as usize;
    let (_, low, above) = values.select_nth_unstable_by(side, f64::total_cmp);
    let low = *low;
    let at = (last - side).checked_sub(side + 1)?;
    Some([low, *above.select_nth_unstable_by(at, f64::total_cmp).1])
}

/// Minimum and maximum number of blocks on each side of a jump.
const SIDE: (usize, usize) = (2, 32);
/// Smallest jump that is searched for, as a factor.
const JUMP_MIN: f64 = 1.8;

/// Returns the n at which the cheap calls of all passes and the expensive ones jump together. These are cliffs of both
/// branches, which changes of branch may hide in single passes.
pub(super) fn common_jumps(passes: &[Blocks]) -> Vec<f64> {
    let Some(n) = passes.iter().map(|pass| &pass.n).max_by_key(|n| n.len()) else { return Vec::new() };
    let mut all = Vec::new();
    let mut ends = |from: usize, to: usize| {
        let (first, last) = (n[from], n[to - 1]);
        all.clear();
        for pass in passes {
            let (from, to) = (pass.n.partition_point(|n| *n < first), pass.n.partition_point(|n| *n <= last));
            all.extend_from_slice(&pass.y[from..to]);
        }
        inner(&mut all, 0.1).unwrap_or_default()
    };
    let mut found: Vec<(f64, f64)> = Vec::new();
    let mut i = 2 * SIDE.0;
    while i + SIDE.0 < n.len() {
        let side = (i / 8).clamp(SIDE.0, SIDE.1);
        let (before, after) = (ends(i - side, i), ends(i, (i + side).min(n.len())));
        let jump = (after[0] - before[0]).min(after[1] - before[1]);
        if jump >= JUMP_MIN.ln() {
            match found.last_mut().filter(|last| is_near(last.0, n[i])) {
                Some(last) if last.1 < jump => *last = (n[i], jump),
                Some(_) => {}
                None => found.push((n[i], jump)),
            }
        }
        i += (side / 4).max(1);
    }
    found.into_iter().map(|(n, _)| n).collect()
}
