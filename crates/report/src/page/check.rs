//! Is a page what its records give? Drawing is deterministic, so it is drawn again and compared letter for letter.
//!
//! A page states how it was made ([`Made`]): title, names, limit of size, version. With those and the records inside,
//! the same version must give the same page; the first letter that differs is told with the section in which it stands.

use super::{Options, Page, Source};
use serde::{Deserialize, Serialize};

/// How a page was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The version of landau that drew it.
    pub landau: String,
    /// The title that the user gave.
    pub title: Option<String>,
    /// Up to which size of the page the records went inside.
    pub size_limit_bytes: usize,
    /// What the page calls each record.
    pub names: Vec<String>,
}

/// Letters of a difference that are told.
const TOLD: usize = 40;

impl Made {
    /// How a page of these sources is made.
    pub(crate) fn of(sources: &[Source<'_>], options: &Options) -> Self {
        Self {
            landau: env!("CARGO_PKG_VERSION").to_owned(),
            title: options.title.clone(),
            size_limit_bytes: options.size_limit_bytes,
            names: sources.iter().map(|source| source.name.clone()).collect(),
        }
    }

    /// Whether this version drew it, so that it can be drawn again.
    pub fn is_ours(&self) -> bool {
        self.landau == env!("CARGO_PKG_VERSION")
    }

    /// The element that holds it. No letter of it can end the element.
    pub(crate) fn block(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default().replace('<', "\\u003c");
        format!("<script type=\"application/json\" id=\"made\">{json}</script>\n")
    }
}

/// Draws the page of the same sources again and says where `html` is not like it: in words, or none where it is.
pub fn difference(html: &str, made: &Made, sources: &[Source<'_>]) -> Option<String> {
    let options = Options { title: made.title.clone(), size_limit_bytes: made.size_limit_bytes };
    let drawn = Page::render(sources, &options).html;
    if drawn == html {
        return None;
    }
    let pairs = drawn.char_indices().zip(html.chars());
    let at = pairs.clone().find(|((_, a), b)| a != b).map_or(drawn.len().min(html.len()), |((at, _), _)| at);
    let (before, rest) = drawn.split_at(at);
    // Up to there both are alike, so that one and the same place is cut.
    let shown = html.get(at..).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    Some(format!(
        "{}, line {line}: the page says {}, the record gives {}",
        place(before),
        told(before, shown),
        told(before, rest)
    ))
}

/// The section or block in which a text ends: the last id, and the last heading in words.
fn place(before: &str) -> String {
    let id = before.rsplit_once(" id=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| id);
    let heading = [1, 2, 3, 4].iter().filter_map(|level| before.rfind(&format!("</h{level}>"))).max();
    let heading = heading.and_then(|end| before[..end].rsplit_once('>')).map(|(_, words)| words);
    // Data and scripts stand behind all sections, so that no heading is theirs.
    let is_block = id.is_some_and(|id| ["data-", "record-", "figures", "made"].iter().any(|word| id.starts_with(word)));
    match (id, heading) {
        (Some(id), Some(words)) if !is_block => format!("under “{words}” (#{id})"),
        (Some(id), _) => format!("in the block {id}"),
        (None, _) => "in the head".to_owned(),
    }
}

/// A few letters from before a difference and from it on.
fn told(before: &str, rest: &str) -> String {
    let mut lead: Vec<char> = before.chars().rev().take_while(|letter| *letter != '\n').take(TOLD / 2).collect();
    lead.reverse();
    let letters = lead.into_iter().chain(rest.chars().take_while(|letter| *letter != '\n').take(TOLD / 2));
    format!("“{}”", letters.map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect::<String>())
}
