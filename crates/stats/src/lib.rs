//! From timed calls to a verdict: quantiles, intervals, laws of growth, cliffs, outliers, comparisons.
//!
//! The crate is mathematics only. It reads no clock, does no I/O and returns values, never text. Equal input gives
//! equal output to the last bit: every random draw comes from the seed in [`Options`].
//!
//! The input is a [`Curve`]: every timed call of one phase of one case, pass by pass. The output is a [`Verdict`] (see
//! [`judge`]) or a [`Comparison`] (see [`compare`]). Costs are in the unit of [`Options::unit`], `n` is a number of
//! objects, and effects are ratios. Counted costs are judged without statistics (see `judges`).
//!
//! The steps, by module: `points` (calls to cells), `polish` (cells to points), `cliffs` (the judged range), `growth`
//! (how much, with an interval), `law` and `select` (which law), `judgement` and `verdict` (the outcome). `simulate`
//! and `calibrate` measure how often the outcome is right.

/// The number of the method. Every change that can lead to different verdicts for the same samples increments it.
/// Results in records contain it; absent means 1, the method of November 2026 and before.
pub const METHOD: u32 = 17;

pub mod attribution;
mod bimodality;
mod branches;
mod bursts;
pub mod by_eye;
pub mod calibrate;
pub mod change_points;
pub mod claim;
mod cliffs;
mod common;
mod compare;
mod components;
pub mod confusion;
mod covariance;
mod crossing;
mod curve;
pub mod dense;
mod estimate;
mod exact;
mod excess;
mod first_level;
pub mod fisher;
mod growth;
pub mod histories;
mod judgement;
mod judges;
mod law;
mod margin;
mod mixture;
mod options;
mod outliers;
pub mod paired;
mod pattern;
mod periods;
mod points;
mod polish;
pub mod promises;
pub mod quantile;
mod random;
mod select;
pub mod shares;
pub mod simulate;
mod tail;
pub mod tail_calibration;
mod unit;
mod verdict;
mod walk;
mod warm_up;

pub use bimodality::{Bimodality, BimodalityKind, Mode, Shares};
pub use cliffs::Cliff;
pub use compare::{Agreement, Change, Comparison, Crossing, Nature, compare, compare_judged, detectable, holm};
pub use components::Components;
pub use curve::{Annotation, AnnotationKind, Curve, Pass};
pub use estimate::Estimate;
pub use exact::Exact;
pub use excess::excess;
pub use judgement::{Bend, BendKind, Class, Judgement, Outcome, Point, Reach, Reason};
pub use law::{Fit, law_names};
pub use options::Options;
pub use outliers::{Group, OutlierChange, Outliers, Pattern, PatternRule, RecurringOutlier, outlier_changes};
pub use tail::Tail;
pub use unit::Unit;
pub use verdict::{Canary, Flag, Verdict, judge};
