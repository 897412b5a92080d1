//! Texts for the values of `landau-stats`: verdicts, laws, outliers, comparisons.
//!
//! `landau-stats` returns values and no text. All sentences about them are written here, so that the terminal, the page
//! and the charts agree.

pub(crate) mod claim;
mod class;
mod comparison;
mod consequence;
mod details;
#[cfg(test)]
pub(crate) mod fixture;
mod law;
mod limit;
mod outliers;
mod timeline;
mod variant;
mod verdict;

pub use law::{formula, symbol};
pub use outliers::{caption, recurring};
pub use timeline::{rate, timeline};
pub use verdict::sentence;
pub(crate) use verdict::{
    cliff_before, growth_text, growth_words, known_growth, law_text, more_passes_text, reason_text, small, unresolved,
};

pub use class::class_name;
pub(crate) use class::{CLASSES, SIGNS, class_about, class_word, glyph, outcome_word};
pub(crate) use comparison::{
    by, comparison, detectable, law_or_constant, law_or_constant_short, ratio, ratio_with_interval,
};
pub(crate) use consequence::consequence;
pub use consequence::subjects;
pub use details::details;
pub(crate) use details::tail_change;
pub(crate) use law::symbol_of;
pub(crate) use limit::command_and_remark;
pub(crate) use outliers::{costly_positions, highest_outlier, is_first_calls, pattern, rule, without_first_calls};
pub(crate) use variant::variant;
pub use variant::variants;

/// Returns a sentence about a record in which no pass began; `None` for any other record.
pub fn nothing_measured(record: &landau_record::Record) -> Option<&'static str> {
    record.passes.is_empty().then_some("The record has no pass; nothing was measured.")
}

/// Defines the letters of the formulas. Shown once on each page and below each table.
pub const LEGEND: &str = "n: number of objects. Cost at small and large n: of the first and the last point, each the \
                          median of the calls around it. Growth: cost at the largest judged n over that at the \
                          smallest, by the fitted law. C: fitted n at which the cost would become infinite, not a \
                          limit of the system. n + 3 = 256: n objects and 3 other descriptors fill the table of 256 \
                          descriptors. CI: confidence interval.";
