//! From timed calls to a verdict: quantiles, intervals, laws of growth, cliffs, outliers, comparisons.
//!
//! The crate is mathematics only. It reads no clock, does no I/O and prints nothing; for equal input it gives equal
//! output to the last bit, because every random draw comes from a seed in [`Options`]. What goes in is a [`Curve`]
//! (every timed call of one phase of one case, pass by pass); what comes out is a [`Verdict`] (see [`judge`]) or a
//! [`Comparison`] (see [`compare`]). Units are nanoseconds for cost (or instructions, by [`Options::unit`]: then
//! `exact` takes the place of statistics), objects for `n`, and plain ratios for effects.
//!
//! The road from one to the other is the order of the modules: `points` (cells out of calls), `polish` (passes made
//! comparable), `cliffs` (how far the curve may be judged), `law` and `select` (which law), `growth`
//! (how much, how sure), `verdict` (what may be said). `simulate` and `calibrate` measure how often that is right.

mod bimodality;
pub mod calibrate;
mod cliffs;
mod common;
mod compare;
mod crossing;
mod curve;
mod estimate;
mod exact;
mod growth;
mod judgement;
mod judges;
mod law;
mod options;
mod outliers;
mod pattern;
mod periods;
mod points;
mod polish;
pub mod quantile;
mod random;
mod select;
pub mod simulate;
mod unit;
mod verdict;

pub use bimodality::{Bimodality, BimodalityKind, Mode};
pub use cliffs::Cliff;
pub use compare::{Agreement, Change, Comparison, Crossing, compare, holm};
pub use curve::{Annotation, AnnotationKind, Curve, Pass};
pub use estimate::Estimate;
pub use exact::Exact;
pub use judgement::{Bend, BendKind, Judgement, Outcome, Point, Reach, Reason};
pub use law::{Fit, law_names};
pub use options::Options;
pub use outliers::{Outliers, Pattern, PatternRule, RecurringOutlier};
pub use unit::Unit;
pub use verdict::{Canary, Flag, Verdict, judge};
