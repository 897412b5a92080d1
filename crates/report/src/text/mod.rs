//! The words for the values of `landau-stats`: verdicts, laws, outliers, comparisons.
//!
//! `landau-stats` returns values and no text. Every sentence about them is written here and nowhere else, so that the
//! terminal, the page and the charts say the same.

mod comparison;
mod law;
mod outliers;
mod verdict;

pub use law::{formula, symbol};
pub use outliers::{caption, recurring};
pub(crate) use verdict::{growth_text, law_text, verb};
pub use verdict::{of_result, sentence};

pub(crate) use comparison::{comparison, no_difference};
pub(crate) use law::symbol_of;
pub(crate) use outliers::{is_first_calls, pattern, without_first_calls};

/// Defines the letters of the formulas. Shown once on each page and below each table.
pub const LEGEND: &str = "n: number of objects. C: capacity, the n at which the resource is exhausted. Growth: \
                          geometric mean cost of the last three points over that of the first three. CI: confidence \
                          interval.";
