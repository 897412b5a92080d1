//! Presents a record: findings as sentences, a table, a page, charts.
//!
//! Each record has one [`Analysis`] ([`landau_stats`] judges; this crate collects and words), from which everything
//! shown is derived: [`findings`], the rows of `landau show` ([`table`]), the self-contained page ([`page`]) and the
//! standalone charts ([`svg`]). So no two places can show different values. The crate measures nothing, reads no clock
//! and prints nothing: it turns values into text.

pub mod allocators;
mod analysis;
mod between_runs;
pub mod claims;
pub mod compared;
mod comparisons;
pub mod delivery;
mod divided;
#[cfg(test)]
mod documented;
mod ends;
pub mod explained;
pub mod facts;
pub mod findings;
mod flame;
pub mod history;
pub mod ladder;
mod loops;
pub mod page;
pub mod precision;
pub mod predicted;
pub mod profiled;
pub mod quantity;
mod reduce;
mod section;
mod shifts;
#[cfg(test)]
mod simulated;
pub mod svg;
pub mod table;
pub mod text;
pub mod then;
pub mod timeline;
pub mod tuned;

pub use analysis::{
    Analysis, CaseStudy, LimitMet, Mismatch, PhaseStudy, Verdicts, check_results, other_method, unit_name, unit_of,
    unlike,
};
pub use comparisons::{Comparisons, PhaseComparison, Shown, VariantComparison, shown};
pub use landau_stats::METHOD;
pub use shifts::Shift;
