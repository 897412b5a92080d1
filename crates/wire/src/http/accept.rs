//! Content types by `Accept` (RFC 9110 section 12.5.1): how much a client wants one.

use super::bytes::{members, trimmed};
use super::encoding::{Weight, weight};

/// How much a client wants a type: by weight, and with equal weight by how exactly it was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wish {
    weight: Weight,
    /// 3 by its name, 2 by its family (`text/*`), 1 by `*/*`, 0 not at all.
    exactness: u8,
}

impl Wish {
    /// How much a client wants a type (`text/html`), by its lines of `Accept`. What it names most exactly counts,
    /// whatever it says of the rest; without any line it takes everything. Parameters but the weight are passed over.
    pub fn of<'a>(kind: &str, lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut best = None;
        let mut is_asked = false;
        for member in lines.flat_map(members) {
            is_asked = true;
            let mut parts = member.split(|&byte| byte == b';').map(trimmed);
            let exactness = exactness(kind.as_bytes(), parts.next().unwrap_or_default());
            let given = parts.find(|part| part.get(..2).is_some_and(|name| name.eq_ignore_ascii_case(b"q=")));
            let weight = given.map_or(Some(1000), weight).unwrap_or(0);
            if exactness > best.map_or(0, |best: Self| best.exactness) {
                best = Some(Self { weight, exactness });
            }
        }
        // What is refused by name is refused like anything else.
        let none = Self { weight: if is_asked { 0 } else { 1000 }, exactness: 0 };
        best.filter(|best| best.weight > 0).unwrap_or(none)
    }
}

fn exactness(kind: &[u8], range: &[u8]) -> u8 {
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
    fn programs_get_json_where_they_want_it_more() {
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
            let of = |kind| Wish::of(kind, [value.as_bytes()].into_iter());
            assert_eq!(of("application/json") > of("text/html"), is_wanted_more, "{value}");
        }
        let none = |kind| Wish::of(kind, std::iter::empty());
        assert_eq!(none("application/json"), none("text/html"));
    }
}
