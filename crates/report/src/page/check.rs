//! Verifies that a page follows from its records: rendering is deterministic, so the page is rendered again and
//! compared character by character.
//!
//! A page states how it was made ([`Made`]): title, names, size limit, version. From these and the embedded records the
//! same version must produce the same page. The first difference is reported with its section.

use super::{Options, Page, Source};
use maud::{Markup, PreEscaped, html};
use serde::{Deserialize, Serialize};

/// How a page was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The version of landau that drew it.
    pub landau: String,
    /// The title that the user gave.
    pub title: Option<String>,
    /// Size of the page, in bytes, up to which records were embedded.
    pub size_limit_bytes: usize,
    /// The name of each record on the page.
    pub names: Vec<String>,
}

/// Maximum number of characters of a difference that are reported.
const EXCERPT: usize = 40;

impl Made {
    /// Returns how a page of these sources is made.
    pub(crate) fn of(sources: &[Source<'_>], options: &Options) -> Self {
        Self {
            landau: env!("CARGO_PKG_VERSION").to_owned(),
            title: options.title.clone(),
            size_limit_bytes: options.size_limit_bytes,
            names: sources.iter().map(|source| source.name.clone()).collect(),
        }
    }

    /// Returns whether this version made it, so that it can be rendered again.
    pub fn is_ours(&self) -> bool {
        self.landau == env!("CARGO_PKG_VERSION")
    }

    /// Returns the element that holds it. Escaping `<` ensures that its content cannot end the element.
    pub(crate) fn block(&self) -> Markup {
        let json = serde_json::to_string(self).unwrap_or_default().replace('<', "\\u003c");
        html! { script type="application/json" id="made" { (PreEscaped(json)) } "\n" }
    }
}

/// Renders the page of the same sources again and describes the first difference from `html`; `None` if they are equal.
pub fn difference(html: &str, made: &Made, sources: &[Source<'_>]) -> Option<String> {
    let options = Options { title: made.title.clone(), size_limit_bytes: made.size_limit_bytes };
    let drawn = Page::render(sources, &options).html;
    if drawn == html {
        return None;
    }
    let pairs = drawn.char_indices().zip(html.chars());
    let at = pairs.clone().find(|((_, a), b)| a != b).map_or(drawn.len().min(html.len()), |((at, _), _)| at);
    let (before, rest) = drawn.split_at(at);
    // Both are equal up to this index, so it is a character boundary in both.
    let shown = html.get(at..).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    Some(format!(
        "{}, line {line}: the page says {}, the record gives {}",
        place(before),
        excerpt(before, shown),
        excerpt(before, rest)
    ))
}

/// Returns the section or block in which a text ends: the last id, and the text of the last heading.
fn place(before: &str) -> String {
    let id = before.rsplit_once(" id=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| id);
    let heading = [1, 2, 3, 4].iter().filter_map(|level| before.rfind(&format!("</h{level}>"))).max();
    let heading = heading.and_then(|end| before[..end].rsplit_once('>')).map(|(_, words)| words);
    // Data and scripts follow all sections and have no heading.
    let is_block = id.is_some_and(|id| ["data-", "record-", "results", "made"].iter().any(|word| id.starts_with(word)));
    match (id, heading) {
        (Some(id), Some(words)) if !is_block => format!("under “{words}” (#{id})"),
        (Some(id), _) => format!("in the block {id}"),
        (None, _) => "in the head".to_owned(),
    }
}

/// Returns a few characters before and after a difference.
fn excerpt(before: &str, rest: &str) -> String {
    let mut lead: Vec<char> = before.chars().rev().take_while(|letter| *letter != '\n').take(EXCERPT / 2).collect();
    lead.reverse();
    let letters = lead.into_iter().chain(rest.chars().take_while(|letter| *letter != '\n').take(EXCERPT / 2));
    format!("“{}”", letters.map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect::<String>())
}
