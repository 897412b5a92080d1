//! Conditional requests (RFC 9110 section 13): whether to send the file, and whether a range still applies to it.

use super::date;
use super::field::Field;
use super::request::{Lines, Method, Request};

/// The validators of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag as sent: quoted, with the prefix `W/` if it is weak.
    pub tag: &'a [u8],
    /// The time of the last modification as sent, in seconds since 1970.
    pub modified_s: Option<u64>,
    /// Whether that time is so long ago that the file cannot have changed twice within that second (RFC 9110 section
    /// 8.8.2.2).
    pub is_modified_strong: bool,
}

/// The result of the conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Answer as if there were no conditions.
    Proceed,
    /// 304: the client has the file.
    NotModified,
    /// 412.
    Failed,
}

/// Evaluates a request's conditions for an existing file, in the order of RFC 9110 section 13.2.2.
#[inline]
pub fn decide(request: &Request<'_>, file: &Validators<'_>) -> Decision {
    if !request.is_conditional() {
        return Decision::Proceed;
    }
    decide_slowly(request, file)
}

fn decide_slowly(request: &Request<'_>, file: &Validators<'_>) -> Decision {
    let is_reading = matches!(request.method(), Method::Get | Method::Head);
    if request.has(Field::IfMatch) {
        if !lists(request.lines(Field::IfMatch), file.tag, strongly) {
            return Decision::Failed;
        }
    } else if let (Some(limit), Some(modified)) = (time(request, Field::IfUnmodifiedSince), file.modified_s)
        && modified > limit
    {
        return Decision::Failed;
    }
    if request.has(Field::IfNoneMatch) {
        if lists(request.lines(Field::IfNoneMatch), file.tag, weakly) {
            return if is_reading { Decision::NotModified } else { Decision::Failed };
        }
    } else if let (true, Some(since), Some(modified)) =
        (is_reading, time(request, Field::IfModifiedSince), file.modified_s)
        && modified <= since
    {
        return Decision::NotModified;
    }
    Decision::Proceed
}

/// Returns the `Range` field if it applies: for GET only, and only if `If-Range` is absent or matches (RFC 9110 section
/// 13.1.5).
#[inline]
pub fn range<'a>(request: &Request<'a>, file: &Validators<'_>) -> Option<&'a [u8]> {
    let range = request.field(Field::Range)?;
    if request.method() != Method::Get || (request.has(Field::IfRange) && !fits(request.field(Field::IfRange)?, file)) {
        return None;
    }
    Some(range)
}

/// Returns whether an `If-Range` identifies exactly this file: by tag, or by the exact time.
fn fits(value: &[u8], file: &Validators<'_>) -> bool {
    match Tags(value).next() {
        Some(tag) => strongly(tag, file.tag),
        None => file.is_modified_strong && file.modified_s.is_some() && date::parse(value) == file.modified_s,
    }
}

fn time(request: &Request<'_>, field: Field) -> Option<u64> {
    request.field(field).and_then(date::parse)
}

/// Returns whether one of the lists is `*` or contains an equal tag.
fn lists(lines: Lines<'_>, tag: &[u8], equal: fn(&[u8], &[u8]) -> bool) -> bool {
    lines.into_iter().any(|line| line == b"*" || Tags(line).any(|own| equal(own, tag)))
}

/// Returns whether the tags are equal by strong comparison (RFC 9110 section 8.8.3.2): both are strong and identical.
pub fn strongly(one: &[u8], other: &[u8]) -> bool {
    one == other && one.first() == Some(&b'"')
}

/// Returns whether the tags are equal by weak comparison: identical except for the `W/`.
pub fn weakly(one: &[u8], other: &[u8]) -> bool {
    opaque(one) == opaque(other)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Iterates over the entity tags of a list, up to the first malformed one. A tag may contain commas.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|b| !matches!(b, b' ' | b'\t' | b','))?;
        let rest = &self.0[start..];
        let quoted = opaque(rest).strip_prefix(b"\"")?;
        let len = quoted.iter().position(|&b| b == b'"')?;
        let (tag, after) = rest.split_at_checked(rest.len() - quoted.len() + len + 1)?;
        // Between the quotes, RFC 9110 section 8.8.3 allows `!` and the bytes above it, but no blanks or control bytes.
        let is_sound = quoted[..len].iter().all(|&b| b > 0x20 && b != 0x7f);
        let is_over = super::bytes::trimmed(after).first().is_none_or(|&b| b == b',');
        self.0 = after;
        (is_sound && is_over).then_some(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Limits, Parsed, request};

    const FILE: Validators<'static> =
        Validators { tag: b"\"a,b\"", modified_s: Some(784_111_777), is_modified_strong: true };

    fn with(line: &str, lines: &[&str], check: impl FnOnce(&Request<'_>)) {
        let text = [line, "Host: x"].into_iter().chain(lines.iter().copied()).map(|one| [one, "\r\n"].concat());
        let text = text.collect::<String>() + "\r\n";
        match request::parse(text.as_bytes(), &Limits::default()) {
            Ok(Parsed::Complete { request, .. }) => check(&request),
            other => panic!("{text}: {other:?}"),
        }
    }

    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    #[test]
    fn conditions_are_evaluated_in_order() {
        use Decision::{Failed, NotModified, Proceed};
        for (lines, decision) in [
            (vec![], Proceed),
            (vec!["If-Match: *".to_owned()], Proceed),
            (vec!["If-Match: \"x\", \"a,b\"".to_owned()], Proceed),
            (vec!["If-Match: \"x\"".to_owned(), "If-Match: \"a,b\"".to_owned()], Proceed),
            (vec!["If-Match: W/\"a,b\"".to_owned()], Failed),
            (vec!["If-Match: \"x\"".to_owned()], Failed),
            (vec!["If-Match:".to_owned()], Failed),
            (vec!["If-Match: a,b".to_owned()], Failed),
            (vec![format!("If-Unmodified-Since: {THEN}")], Proceed),
            (vec![format!("If-Unmodified-Since: {BEFORE}")], Failed),
            (vec!["If-Unmodified-Since: yesterday".to_owned()], Proceed),
            // If-Match takes precedence over If-Unmodified-Since, which is then ignored.
            (vec!["If-Match: *".to_owned(), format!("If-Unmodified-Since: {BEFORE}")], Proceed),
            (vec!["If-None-Match: *".to_owned()], NotModified),
            (vec!["If-None-Match: W/\"a,b\"".to_owned()], NotModified),
            (vec!["If-None-Match: \"x\" ,, \"a,b\"".to_owned()], NotModified),
            (vec!["If-None-Match: \"x\"".to_owned()], Proceed),
            (vec!["If-None-Match: \"a\",\"b\"".to_owned()], Proceed),
            (vec!["If-None-Match: \"x\"\"a,b\"".to_owned()], Proceed),
            (vec!["If-None-Match: \"a,b".to_owned()], Proceed),
            (vec![format!("If-Modified-Since: {THEN}")], NotModified),
            (vec![format!("If-Modified-Since: {AFTER}")], NotModified),
            (vec![format!("If-Modified-Since: {BEFORE}")], Proceed),
            (vec!["If-Modified-Since: 0".to_owned()], Proceed),
            // If-None-Match takes precedence over If-Modified-Since.
            (vec!["If-None-Match: \"x\"".to_owned(), format!("If-Modified-Since: {THEN}")], Proceed),
            (vec!["If-Match: \"x\"".to_owned(), "If-None-Match: *".to_owned()], Failed),
            (vec!["If-Match: *".to_owned(), "If-None-Match: *".to_owned()], NotModified),
        ] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            with("GET / HTTP/1.1", &lines, |request| assert_eq!(decide(request, &FILE), decision, "{lines:?}"));
        }
        with("PUT / HTTP/1.1", &["If-None-Match: *"], |request| assert_eq!(decide(request, &FILE), Failed));
        with("PUT / HTTP/1.1", &[&format!("If-Modified-Since: {THEN}")], |request| {
            assert_eq!(decide(request, &FILE), Proceed);
        });
    }

    #[test]
    fn if_range_decides_whether_a_range_applies() {
        let then = format!("If-Range: {THEN}");
        let after = format!("If-Range: {AFTER}");
        for (lines, is_obeyed) in [
            (vec![], true),
            (vec!["If-Range: \"a,b\""], true),
            (vec![&then], true),
            (vec!["If-Range: W/\"a,b\""], false),
            (vec!["If-Range: \"x\""], false),
            (vec![&after], false),
            (vec!["If-Range: a,b"], false),
            (vec!["If-Range:"], false),
            (vec!["If-Range: \"a,b\"", "If-Range: \"a,b\""], false),
            (vec!["Range: bytes=0-1"], false),
        ] {
            let lines: Vec<&str> = [vec!["Range: bytes=0-0"], lines].concat();
            with("GET / HTTP/1.1", &lines, |request| {
                assert_eq!(range(request, &FILE).is_some(), is_obeyed, "{lines:?}");
            });
        }
        with("HEAD / HTTP/1.1", &["Range: bytes=0-0"], |request| assert_eq!(range(request, &FILE), None));
        let weak = Validators { is_modified_strong: false, ..FILE };
        with("GET / HTTP/1.1", &["Range: bytes=0-0", &then], |request| assert_eq!(range(request, &weak), None));
    }

    #[test]
    fn tags_are_compared_by_the_table_of_the_standard() {
        for (one, other, strong, weak) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(strongly(one.as_bytes(), other.as_bytes()), strong);
            assert_eq!(weakly(one.as_bytes(), other.as_bytes()), weak);
        }
    }
}
