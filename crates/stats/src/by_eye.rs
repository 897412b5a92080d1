//! Readings of a plot of single samples by eye: two levels, no interval.
//!
//! The study of 2003 plotted every sample of five runs and judged the dark band of the plot. This module reads the band
//! by a rule instead of an eye: its level at the left is the median of the samples in the first tenth of the axis, all
//! runs together, and that at the right is the median of those in the last tenth. It is not one of this crate's
//! judgements, but serves for comparison with them (METHODOLOGY.md, "Studies replayed").

use crate::Curve;
use crate::quantile::median_of;
use serde::{Deserialize, Serialize};

/// A larger ratio of the level at one end of a band to that at the other is read as a change; this ratio and smaller
/// ones are read as constant.
pub const SEEN: f64 = 1.5;

/// The share of the axis at each end whose samples determine a level.
const END: f64 = 0.1;

/// The shape that an observer sees in a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The band is level: "O(1)".
    Constant,
    /// The band rises: "O(n)".
    Grows,
    /// The band falls.
    Falls,
}

impl Reading {
    /// Returns the reading of a band with these levels.
    pub fn of(left: f64, right: f64) -> Self {
        match () {
            () if right > SEEN * left => Self::Grows,
            () if left > SEEN * right => Self::Falls,
            () => Self::Constant,
        }
    }
}

/// The reading of a plot of single samples by eye.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ByEye {
    /// The shape of the band.
    pub reading: Reading,
    /// The level of the band at the left end, in the unit of the costs.
    pub left: f64,
    /// The level of the band at the right end.
    pub right: f64,
    /// The largest n on the axis.
    pub largest_n: u32,
    /// Number of runs with at least one sample.
    pub runs: usize,
    /// Number of samples of all runs.
    pub samples: usize,
}

/// Reads a plot of every sample of a curve. `step` is the step of the clock that the author read: samples are rounded
/// down to a multiple of it. Returns nothing if an end of the axis has no sample.
pub fn by_eye(curve: &Curve, step: u64) -> Option<ByEye> {
    let calls = || curve.passes.iter().flat_map(|pass| pass.n.iter().copied().zip(pass.costs.iter().copied()));
    let largest_n = calls().map(|call| call.0).max()?;
    let (from, to) = (END * f64::from(largest_n), (1.0 - END) * f64::from(largest_n));
    let level = |is_there: &dyn Fn(f64) -> bool| {
        let there = calls().filter(|call| is_there(f64::from(call.0)));
        let mut costs: Vec<f64> = there.map(|call| (call.1 - call.1 % step.max(1)) as f64).collect();
        median_of(&mut costs)
    };
    let (left, right) = (level(&|n| n <= from)?, level(&|n| n > to)?);
    Some(ByEye {
        reading: Reading::of(left, right),
        left,
        right,
        largest_n,
        runs: curve.passes.iter().filter(|pass| !pass.costs.is_empty()).count(),
        samples: calls().count(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pass;

    fn curve(cost: impl Fn(u32) -> u64) -> Curve {
        let n: Vec<u32> = (1..=1_000).collect();
        let pass = Pass { costs: n.iter().map(|&n| cost(n)).collect(), clean: vec![true; n.len()], n };
        Curve { passes: vec![pass.clone(), pass], annotations: Vec::new() }
    }

    fn reading(cost: impl Fn(u32) -> u64) -> Reading {
        by_eye(&curve(cost), 1).unwrap().reading
    }

    #[test]
    fn a_band_is_read_by_its_ends() {
        assert_eq!(reading(|_| 1_000), Reading::Constant);
        assert_eq!(reading(|n| 1_000 + u64::from(n)), Reading::Grows);
        assert_eq!(reading(|n| 2_000 - u64::from(n)), Reading::Falls);
        // The rule does not see a growth by two fifths; here the eye misleads.
        assert_eq!(reading(|n| 1_000 + 2 * u64::from(n) / 5), Reading::Constant);
        let whole = by_eye(&curve(|_| 1_000), 1).unwrap();
        assert_eq!((whole.largest_n, whole.runs, whole.samples), (1_000, 2, 2_000));
    }

    /// Guards against the rule seeing what no eye sees: single samples far above the band.
    #[test]
    fn single_samples_do_not_move_the_band() {
        assert_eq!(reading(|n| if n % 50 == 0 { 1_000_000 } else { 1_000 }), Reading::Constant);
        // More than half of the last tenth is far above, so the band of most samples is gone there.
        assert_eq!(reading(|n| if n > 930 { 1_000_000 } else { 1_000 }), Reading::Grows);
    }

    #[test]
    fn a_clock_of_microseconds_hides_what_is_below_its_step() {
        let cost = |n: u32| 1_000 + 9 * u64::from(n) / 10;
        assert_eq!(by_eye(&curve(cost), 1_000).unwrap().reading, Reading::Constant);
        assert_eq!(by_eye(&curve(cost), 1).unwrap().reading, Reading::Grows);
    }

    #[test]
    fn a_curve_without_samples_is_not_read() {
        assert_eq!(by_eye(&Curve::default(), 1), None);
    }
}
