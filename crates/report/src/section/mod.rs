//! The sections of the page, one file each, in the order in which they stand.
//!
//! A section is a function from what is known to HTML; none of them computes a figure.

pub(crate) mod benchmark;
pub(crate) mod comparison;
pub(crate) mod contents;
pub(crate) mod explanation;
pub(crate) mod host;
pub(crate) mod summary;
