//! The two ways to judge a curve: timed costs with statistics, counted costs exactly.
//!
//! [`Options::judge`] chooses one of them by the unit; nothing else depends on the unit. Every difference between the
//! two is a method of [`Judge`].

mod exact;
mod timed;

use crate::branches::Branches;
use crate::common::Pair;
use crate::compare::Effect;
use crate::judgement::{Judgement, Outcome};
use crate::law::{Fit, Law};
use crate::mixture::Judged;
use crate::points::{Cell, Grid, Series, Window};
use crate::polish::Level;
use crate::select::Selection;
use crate::warm_up::Reduced;
use crate::{Annotation, Cliff, Components, Curve, Estimate, Exact, Options, Outliers, Tail, Unit};
pub(crate) use timed::MORE_MAX;

/// The differences between timed and counted costs.
pub(crate) trait Judge: Sync {
    /// Returns the options that this judge uses.
    fn options(&self, options: &Options) -> Options;

    /// Returns the minimum number of points for a verdict.
    fn points_min(&self) -> usize;

    /// Returns the number of passes below which a verdict is flagged.
    fn passes_min(&self) -> usize;

    /// Returns the growth of the canary up to which it counts as unchanged.
    fn canary_tolerance(&self) -> f64;

    /// Returns whether costs in this unit can follow a law.
    fn can_follow(&self, law: &dyn Law) -> bool;

    /// Returns half the width of a window, in objects, for one pass.
    fn half_width(&self, window: &Window, series: &Series) -> f64;

    /// Returns the log cost of the calls of one pass in one window; `quantum` is the step of the clock.
    fn cell(&self, calls: &mut [u64], quantum: f64) -> Option<Cell>;

    /// Returns the calls divided between two branches, if there are two.
    fn branches(&self, series: &[Series], annotations: &[Annotation]) -> Option<Branches>;

    /// Returns the number of calls at the start of each pass that are too cold to be judged.
    fn cold_calls(&self, series: &[Series]) -> usize;

    /// Drops the cells of windows in which a pass was disturbed.
    fn drop_bursts(&self, grid: &mut Grid, series: &[Series], windows: &[Window], options: &Options);

    /// Removes the points of further calls at the start of each pass that exceed the law of the others. Returns the
    /// level of the judged points if no point was removed and the level is known.
    fn drop_warm_up(&self, reduced: &Reduced<'_>, judged: &mut [bool], options: &Options) -> Option<Level>;

    /// Removes the points before a jump of the cost that are too few for a level. `level` is that of the judged points,
    /// if known; the result is the same after the removal.
    fn drop_first_level(
        &self,
        reduced: &Reduced<'_>,
        judged: &mut [bool],
        level: Option<Level>,
        options: &Options,
    ) -> Option<Level>;

    /// Returns the first judged n of a series measured call by call, as a share of its length.
    fn first_share(&self) -> f64;

    /// Returns the largest first judged n.
    fn first_n(&self, options: &Options) -> f64;

    /// Averages the passes.
    fn level(&self, grid: &Grid) -> Level;

    /// Returns the components of the variance.
    fn components(&self, level: &Level) -> Option<Components>;

    /// Returns the cost of each point.
    fn points(&self, grid: &Grid) -> Vec<Estimate>;

    /// Returns a contrast of the log costs of the points.
    fn contrast(&self, level: &Level, weights: &[f64], confidence: f64, options: &Options) -> Option<Estimate>;

    /// Returns the growth from the first to the last judged point, with a 90% confidence interval, and the outcome.
    fn assess(&self, level: &Level, selection: &Selection, options: &Options) -> Option<(Estimate, Outcome)>;

    /// Returns the growth without a law, with a 90% confidence interval; used for the canary.
    fn trend(&self, level: &Level, options: &Options) -> Option<Estimate>;

    /// Returns the constant law.
    fn constant(&self, level: &Level, options: &Options) -> Option<Fit>;

    /// Improves the coefficients of a chosen law.
    fn refine(&self, fit: &mut Fit, level: &Level);

    /// Returns the judgement of the calls without interference, if these are not all calls.
    fn clean(&self, curve: &Curve, has_branches: bool, options: &Options) -> Option<Judged>;

    /// Returns the judgement of the 99th percentile, given that of the median.
    fn tail(&self, curve: &Curve, median: &Judgement, has_branches: bool, options: &Options) -> Option<Tail>;

    /// Returns the outliers of a curve.
    fn outliers(&self, curve: &Curve) -> Outliers;

    /// Returns the costs that occurred, if they were counted.
    fn exact(&self, curve: &Curve, cliffs: &[Cliff]) -> Option<Exact>;

    /// Returns the difference of the log costs of two curves, `b` minus `a`, weighted over the points.
    fn effect(&self, pair: &Pair, weights: &[f64], options: &Options, between_runs: f64) -> Option<Effect>;

    /// Returns the number of passes on which the interval of a ratio of coefficients is based.
    fn ratio_passes(&self, a: &Level, b: &Level) -> usize;
}

impl Options {
    /// Returns the judge for the unit.
    pub(crate) fn judge(&self) -> &'static dyn Judge {
        match self.unit {
            Unit::Time | Unit::EmulatedTime => &timed::Timed,
            Unit::Instructions => &exact::Counted,
        }
    }
}
