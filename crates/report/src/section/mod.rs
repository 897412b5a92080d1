//! The sections of the page, one file each, in reading order.
//!
//! A section is a function from the view to HTML; none of them computes a result.

use maud::{Markup, html};

pub(crate) mod benchmark;
pub(crate) mod explanation;
pub(crate) mod findings;
pub(crate) mod histogram;
pub(crate) mod host;
pub(crate) mod ladder;
pub(crate) mod ladders;
pub(crate) mod matrix;
pub(crate) mod over_time;
pub(crate) mod overview;
pub(crate) mod servers;
pub(crate) mod study_2001;
pub(crate) mod summary;
pub(crate) mod then;
pub(crate) mod throughput;
pub(crate) mod thumbnail;
pub(crate) mod timeline;
pub(crate) mod variants;
pub(crate) mod words;

/// Returns a wide element that scrolls sideways separately from the page, also by keyboard.
pub(crate) fn scrolling(label: &str, content: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (content) } "\n" }
}
