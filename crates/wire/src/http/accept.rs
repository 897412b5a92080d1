//! A client's preference for a content type, from `Accept` (RFC 9110 section 12.5.1).

use super::bytes::{members, trimmed};
use super::encoding::{Weight, weight};

/// A client's preference for a content type, ordered by weight, then by the specificity of the media range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Preference {
    weight: Weight,
    /// 3 for an exact match, 2 for a family (`text/*`), 1 for `*/*`, 0 for no match.
    specificity: u8,
}

impl Preference {
    /// Returns the preference for a type (`text/html`) from the request's `Accept` lines. The most specific matching
    /// range decides. Without any line the client accepts everything. Parameters other than the weight are ignored.
    pub fn of<'a>(kind: &str, lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut best = None;
        let mut has_lines = false;
        for member in lines.flat_map(members) {
            has_lines = true;
            let mut parts = member.split(|&byte| byte == b';').map(trimmed);
            let specificity = specificity(kind.as_bytes(), parts.next().unwrap_or_default());
            let given = parts.find(|part| part.get(..2).is_some_and(|name| name.eq_ignore_ascii_case(b"q=")));
            let weight = given.map_or(Some(1000), weight).unwrap_or(0);
            if specificity > best.map_or(0, |best: Self| best.specificity) {
                best = Some(Self { weight, specificity });
            }
        }
        // A type that is refused by name equals a type that no range matches.
        let none = Self { weight: if has_lines { 0 } else { 1000 }, specificity: 0 };
        best.filter(|best| best.weight > 0).unwrap_or(none)
    }
}

fn specificity(kind: &[u8], range: &[u8]) -> u8 {
    if range.eq_ignore_ascii_case(kind) {
        return 3;
    }
    let family = kind.iter().position(|&byte| byte == b'/').map_or(kind, |at| &kind[..=at]);
    match range.strip_suffix(b"*") {
        Some(b"*/") => 1,
        Some(start) if start.eq_ignore_ascii_case(family) => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_prefer_json_get_json() {
        for (value, is_wanted_more) in [
            ("application/json", true),
            ("application/json, text/plain, */*", true),
            ("text/html;q=0, application/json", true),
            ("text/html;q=0.5, Application/JSON ; Q=0.6", true),
            ("application/*", true),
            ("*/*, text/html;q=0.9", true),
            ("*/*;q=0.1, application/json;charset=utf-8;q=0.2", true),
            ("application/json;q=0", false),
            ("application/json;q=x", false),
            ("text/html, application/json", false),
            ("application/json;q=0.9, text/html", false),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false),
            ("text/*, application/json;q=0.5", false),
            ("*/*", false),
            ("application/jsonp", false),
            ("", false),
        ] {
            let of = |kind| Preference::of(kind, [value.as_bytes()].into_iter());
            assert_eq!(of("application/json") > of("text/html"), is_wanted_more, "{value}");
        }
        let none = |kind| Preference::of(kind, std::iter::empty());
        assert_eq!(none("application/json"), none("text/html"));
    }
}
