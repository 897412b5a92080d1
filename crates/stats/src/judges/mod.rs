//! The two ways to judge a curve: timed costs with statistics, counted costs exactly.
//!
//! [`Options::judge`] chooses one of them from the unit; nothing else asks for the unit. Everything in which they
//! differ is a method of [`Judge`].

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

/// What differs between timed and counted costs.
pub(crate) trait Judge: Sync {
    /// The options it works with.
    fn options(&self, options: &Options) -> Options;

    /// Fewer points decide nothing.
    fn points_min(&self) -> usize;

    /// Fewer passes are flagged.
    fn passes_min(&self) -> usize;

    /// Growth of the canary up to this factor counts as no change.
    fn canary_tolerance(&self) -> f64;

    /// Whether costs in this unit can follow a law.
    fn can_follow(&self, law: &dyn Law) -> bool;

    /// Half the width of a window, in objects, for one pass.
    fn half_width(&self, window: &Window, series: &Series) -> f64;

    /// Log cost of the calls of one pass in one window; `quantum` is the step of the clock.
    fn cell(&self, calls: &mut [u64], quantum: f64) -> Option<Cell>;

    /// The calls divided between two branches, if there are two.
    fn branches(&self, series: &[Series], annotations: &[Annotation]) -> Option<Branches>;

    /// Calls at the start of each pass that are too cold to be judged.
    fn cold_calls(&self, series: &[Series]) -> usize;

    /// Leaves out the cells of windows in which a pass was disturbed.
    fn drop_bursts(&self, grid: &mut Grid, series: &[Series], windows: &[Window], options: &Options);

    /// Removes the points of further calls at the start of each pass that exceed the law of the rest. Returns the level
    /// of the judged points if none was removed and it is known.
    fn drop_warm_up(&self, reduced: &Reduced<'_>, judged: &mut [bool], options: &Options) -> Option<Level>;

    /// The first judged n of a series measured call by call, as a share of its length.
    fn first_share(&self) -> f64;

    /// The largest first judged n.
    fn first_n(&self, options: &Options) -> f64;

    /// Averages the passes.
    fn level(&self, grid: &Grid) -> Level;

    /// Where the variance comes from.
    fn components(&self, level: &Level) -> Option<Components>;

    /// The cost of each point.
    fn points(&self, grid: &Grid) -> Vec<Estimate>;

    /// A contrast of the log costs of the points.
    fn contrast(&self, level: &Level, weights: &[f64], confidence: f64, options: &Options) -> Option<Estimate>;

    /// The growth from the first to the last judged point, with a 90% confidence interval, and the outcome.
    fn assess(&self, level: &Level, selection: &Selection, options: &Options) -> Option<(Estimate, Outcome)>;

    /// The growth without a law, with a 90% confidence interval: of the canary.
    fn trend(&self, level: &Level, options: &Options) -> Option<Estimate>;

    /// The constant law.
    fn constant(&self, level: &Level, options: &Options) -> Option<Fit>;

    /// Improves the coefficients of a chosen law.
    fn refine(&self, fit: &mut Fit, level: &Level);

    /// The judgement of the calls without interference, where that differs from all calls.
    fn clean(&self, curve: &Curve, has_branches: bool, options: &Options) -> Option<Judged>;

    /// The judgement of the 99th percentile beside that of the median.
    fn tail(&self, curve: &Curve, median: &Judgement, has_branches: bool, options: &Options) -> Option<Tail>;

    /// The outliers of a curve.
    fn outliers(&self, curve: &Curve) -> Outliers;

    /// Which costs occurred, where they were counted.
    fn exact(&self, curve: &Curve, cliffs: &[Cliff]) -> Option<Exact>;

    /// The difference of the log costs of two curves, `b` minus `a`, weighted over the points.
    fn effect(&self, pair: &Pair, weights: &[f64], options: &Options, between_runs: f64) -> Option<Effect>;

    /// The number of passes that the interval of a ratio of coefficients rests on.
    fn ratio_passes(&self, a: &Level, b: &Level) -> usize;
}

impl Options {
    /// The judge for the unit.
    pub(crate) fn judge(&self) -> &'static dyn Judge {
        match self.unit {
            Unit::Time | Unit::EmulatedTime => &timed::Timed,
            Unit::Instructions => &exact::Counted,
        }
    }
}
