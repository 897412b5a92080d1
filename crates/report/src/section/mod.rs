//! The sections of the page, one file each, in reading order.
//!
//! A section is a function from the view to HTML; none of them computes a result.

use maud::{Markup, html};

pub(crate) mod benchmark;
pub(crate) mod comparison;
pub(crate) mod contents;
pub(crate) mod explanation;
pub(crate) mod host;
pub(crate) mod summary;

/// A wide element that scrolls sideways by itself, by keyboard too.
pub(crate) fn scrolling(label: &str, content: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (content) } "\n" }
}
