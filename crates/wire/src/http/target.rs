//! Converts a request target to the path of a file: decoded once, without dot segments, never above the root.
//!
//! The result is a path below the served directory, as bytes. File names are bytes, whether they are UTF-8 or not, and
//! a backslash is an ordinary one. Bytes that no name can contain are rejected: NUL, and an encoded slash, which claims
//! to be part of a name.

use super::request::Reject;
use super::status::Status;

/// A path, decoded and normalised, and the query as received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target<'a> {
    /// Starts with a slash. No segment is `.` or `..`, or empty (except the last, after a trailing slash). Contains no
    /// NUL.
    pub path: &'a [u8],
    /// The text after the first question mark, still encoded.
    pub query: Option<&'a [u8]>,
}

impl Target<'_> {
    /// Returns whether a segment starts with a dot, which marks hidden names by convention. `/.well-known/` is visible
    /// (RFC 8615).
    pub fn is_hidden(&self) -> bool {
        let visible = self.path.strip_prefix(b"/.well-known").filter(|rest| matches!(rest, [] | [b'/', ..]));
        visible.unwrap_or(self.path).windows(2).any(|pair| pair == b"/.")
    }

    /// Returns whether the path names a directory.
    pub fn is_folder(&self) -> bool {
        self.path.last() == Some(&b'/')
    }
}

/// Normalises a path with its query ([`super::Request::path`]). If something must be decoded or resolved, the path is
/// written to the buffer, which needs as many bytes as the path has. Otherwise it is returned in place.
#[inline]
pub fn clean<'a>(raw: &'a [u8], buffer: &'a mut [u8]) -> Result<Target<'a>, Reject> {
    // A single pass suffices for the usual path: no escape, and no segment that is empty or starts with a dot.
    let mut before = b'-';
    let mut end = raw.len();
    for (at, &byte) in raw.iter().enumerate() {
        if byte == b'%' || byte == 0 || (before == b'/' && (byte == b'/' || byte == b'.')) {
            return clean_slowly(raw, buffer);
        }
        if byte == b'?' {
            end = at;
            break;
        }
        before = byte;
    }
    let (path, query) = (&raw[..end], raw.get(end + 1..));
    match path.first() {
        Some(b'/') => Ok(Target { path, query }),
        // `http://host` and `http://host?query` mean the root (RFC 9110 section 4.2.3).
        None => Ok(Target { path: b"/", query }),
        Some(_) => Err(Reject::bad("path does not start with a slash")),
    }
}

/// Normalises a path like [`clean`], but leaves an encoded slash encoded (`%2F`) instead of rejecting it. No file has
/// such a path: it determines which rules apply to the request. A path that also has an encoded percent sign before
/// `2F` (`%252F`) is rejected, because both would be `%2F`.
#[cold]
pub fn clean_encoded<'a>(raw: &'a [u8], buffer: &'a mut [u8]) -> Result<Target<'a>, Reject> {
    clean_segments(raw, buffer, Slash::Kept)
}

/// Returns whether a path, which may have a query behind it, has an encoded slash.
pub fn has_encoded_slash(raw: &[u8]) -> bool {
    let end = raw.iter().position(|&b| b == b'?').unwrap_or(raw.len());
    raw[..end].windows(3).any(|escape| escape.eq_ignore_ascii_case(b"%2f"))
}

/// Appends a path that [`clean_encoded`] accepts, without its `.`, `..` and empty segments. The escapes of the others
/// stay as they are.
pub fn write_without_dots(path: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut segments = path.strip_prefix(b"/").unwrap_or(path).split(|&b| b == b'/').peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match dots(segment) {
            Some(0 | 1) if is_last => out.push(b'/'),
            Some(0 | 1) => {}
            Some(2) => {
                let end = out[start..].iter().rposition(|&b| b == b'/').unwrap_or(0);
                out.truncate(start + end);
                if is_last {
                    out.push(b'/');
                }
            }
            _ => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
    }
}

/// Returns the number of dots of a segment that has nothing else, whether they are escaped or not.
fn dots(segment: &[u8]) -> Option<usize> {
    let (mut rest, mut count) = (segment, 0);
    while let Some(after) = rest.strip_prefix(b".").or_else(|| {
        let (escape, after) = rest.split_at_checked(3)?;
        escape.eq_ignore_ascii_case(b"%2e").then_some(after)
    }) {
        (rest, count) = (after, count + 1);
    }
    rest.is_empty().then_some(count)
}

/// The treatment of an encoded slash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slash {
    Refused,
    Kept,
}

#[cold]
fn clean_slowly<'a>(raw: &'a [u8], buffer: &'a mut [u8]) -> Result<Target<'a>, Reject> {
    clean_segments(raw, buffer, Slash::Refused)
}

fn clean_segments<'a>(raw: &'a [u8], buffer: &'a mut [u8], slash: Slash) -> Result<Target<'a>, Reject> {
    let end = raw.iter().position(|&b| b == b'?').unwrap_or(raw.len());
    let (path, query) = (&raw[..end], raw.get(end + 1..));
    if path.first() != Some(&b'/') {
        return Err(Reject::bad("path does not start with a slash"));
    }
    if buffer.len() < path.len() {
        return Err(Reject { status: Status::URI_TOO_LONG, reason: "path too long" });
    }
    // For each segment: decode it after the slash that is already there, then check the result.
    let mut len = 0;
    let mut seen = Seen::default();
    let mut segments = path[1..].split(|&b| b == b'/').peekable();
    while let Some(segment) = segments.next() {
        buffer[len] = b'/';
        let start = len + 1;
        let end = decode(segment, buffer, start, slash, &mut seen)?;
        let is_last = segments.peek().is_none();
        match &buffer[start..end] {
            // If the last segment disappears, the slash remains: the path names a directory (RFC 3986 section 5.2.4).
            [] | b"." if is_last => len = start,
            [] | b"." => {}
            b".." => {
                if len == 0 {
                    return Err(Reject::bad("path leads above the root"));
                }
                len = buffer[..len].iter().rposition(|&b| b == b'/').unwrap_or(0);
                if is_last {
                    len += 1;
                }
            }
            _ => len = end,
        }
    }
    if seen.encoded_slash && seen.literal {
        return Err(Reject { status: Status::NOT_FOUND, reason: "encoded slash beside %252F in the path" });
    }
    Ok(Target { path: if len == 0 { b"/" } else { &buffer[..len] }, query })
}

/// What was found in a path: an encoded slash, and `%2F` that is not one.
#[derive(Debug, Default)]
struct Seen {
    encoded_slash: bool,
    literal: bool,
}

/// Decodes a segment once into the buffer, from `at` on. Returns its end (RFC 3986 section 2.1).
fn decode(segment: &[u8], buffer: &mut [u8], mut at: usize, slash: Slash, seen: &mut Seen) -> Result<usize, Reject> {
    let mut rest = segment;
    while let [first, after @ ..] = rest {
        let byte = if *first == b'%' {
            let [high, low, after @ ..] = after else { return Err(Reject::bad("truncated escape in the path")) };
            let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16)) else {
                return Err(Reject::bad("malformed escape in the path"));
            };
            rest = after;
            (high << 4 | low) as u8
        } else {
            rest = after;
            *first
        };
        match byte {
            0 => return Err(Reject::bad("NUL in the path")),
            b'/' if slash == Slash::Kept => {
                // It is as long as the escape, so the buffer has room.
                buffer[at..at + 3].copy_from_slice(b"%2F");
                at += 3;
                seen.encoded_slash = true;
                continue;
            }
            b'/' => return Err(Reject { status: Status::NOT_FOUND, reason: "encoded slash in the path" }),
            _ => {}
        }
        buffer[at] = byte;
        at += 1;
        // An encoded slash ends in `F`, so it is no part of these three bytes.
        seen.literal |= buffer[..at].ends_with(b"%2F");
    }
    Ok(at)
}

/// Appends a path in an encoding for a header field, a link or a page: slashes and unreserved characters (RFC 3986
/// section 2.3) unchanged, everything else escaped.
pub fn encode(path: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in path {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(raw: &str) -> Result<String, u16> {
        let mut buffer = [0; 256];
        let target = clean(raw.as_bytes(), &mut buffer).map_err(|reject| reject.status.0)?;
        Ok(target.path.escape_ascii().to_string())
    }

    #[test]
    fn paths_become_clean() {
        for (raw, path) in [
            ("/", "/"),
            ("", "/"),
            ("?a", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/a/b.c", "/a/b.c"),
            ("/a?b/../c", "/a"),
            ("/a%20b", "/a b"),
            ("/%61%2E%62", "/a.b"),
            ("/a%3Fb", "/a?b"),
            ("/a%23b", "/a#b"),
            ("/a+b", "/a+b"),
            ("/./a", "/a"),
            ("/a/.", "/a/"),
            ("/a/./b", "/a/b"),
            ("/a/..", "/"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/../", "/a/"),
            ("/a/b/../..", "/"),
            ("//a", "/a"),
            ("/a//b", "/a/b"),
            ("/a//", "/a/"),
            ("//", "/"),
            ("/a//../b", "/b"),
            ("/a/%2e%2e/b", "/b"),
            ("/a/%2E./b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/...", "/..."),
            ("/..a", "/..a"),
            ("/a..", "/a.."),
            ("/.a", "/.a"),
            ("/%252e%252e/a", "/%2e%2e/a"),
            ("/%25%32%65", "/%2e"),
            ("/a\\b", "/a\\\\b"),
            ("/..\\a", "/..\\\\a"),
            ("/%5c", "/\\\\"),
            ("/%c0%ae%c0%ae/a", "/\\xc0\\xae\\xc0\\xae/a"),
            ("/%e9", "/\\xe9"),
            ("/%0d%0aX:y", "/\\r\\nX:y"),
            ("/a;b=c", "/a;b=c"),
            ("/.%00?", ""),
        ] {
            if !path.is_empty() {
                assert_eq!(cleaned(raw).as_deref(), Ok(path), "{raw}");
            }
        }
    }

    #[test]
    fn invalid_paths_are_rejected() {
        for (raw, status) in [
            ("/..", 400),
            ("/../", 400),
            ("/../etc/passwd", 400),
            ("/a/../..", 400),
            ("/a/../../b", 400),
            ("/%2e%2e", 400),
            ("/%2e%2e/a", 400),
            ("/.%2e/a", 400),
            ("//..", 400),
            ("/./..", 400),
            ("/%00", 400),
            ("/a%00.txt", 400),
            ("/%", 400),
            ("/%4", 400),
            ("/%zz", 400),
            ("/%4g", 400),
            ("/%u002e", 400),
            ("/% 41", 400),
            ("/a%2fb", 404),
            ("/..%2f..%2fa", 404),
            ("/%2F", 404),
            ("a", 400),
            ("a%20", 400),
            ("%2fa", 400),
        ] {
            assert_eq!(cleaned(raw), Err(status), "{raw}");
        }
        assert_eq!(clean(b"/%41%42", &mut [0; 3]).map_err(|reject| reject.status), Err(Status::URI_TOO_LONG));
    }

    #[test]
    fn encoded_slashes_may_stay() {
        let cleaned = |raw: &str| {
            let mut buffer = vec![0; raw.len()];
            let target = clean_encoded(raw.as_bytes(), &mut buffer).map_err(|reject| reject.status.0)?;
            Ok::<_, u16>(target.path.escape_ascii().to_string())
        };
        for (raw, path) in [
            ("/a%2fb", "/a%2Fb"),
            ("/%2F", "/%2F"),
            ("/a/..%2f..%2fb", "/a/..%2F..%2Fb"),
            ("/a%2f/%2e%2e/b%20?c", "/b "),
            ("/x/%61%2F", "/x/a%2F"),
        ] {
            assert_eq!(cleaned(raw).as_deref(), Ok(path), "{raw}");
        }
        assert_eq!(cleaned("/a%252Fb"), Ok("/a%2Fb".to_owned()));
        for raw in ["/a%2f%252Fb", "/%25%32%46/b%2F", "/%252F/../a%2F"] {
            assert_eq!(cleaned(raw), Err(404), "{raw}: which of the two is the slash?");
        }
        assert_eq!(cleaned("/a%2f%252f"), Ok("/a%2F%2f".to_owned()));
        for raw in ["/a", "/a?b%2f", "/a%252fb", "/%2"] {
            assert!(!has_encoded_slash(raw.as_bytes()), "{raw}");
        }
        for (raw, expected) in [
            ("/a%2fb", "/a%2fb"),
            ("/x/./%2E/y%20//a%2Fb/", "/x/y%20/a%2Fb/"),
            ("/x/%2e%2E/a%2Fb/.", "/a%2Fb/"),
            ("/a%2fb/..", "/"),
            ("/a/b%2f/../c%2f/..", "/a/"),
            ("/a%2f...", "/a%2f..."),
        ] {
            let mut out = b"GET ".to_vec();
            write_without_dots(raw.as_bytes(), &mut out);
            assert_eq!(out.escape_ascii().to_string(), format!("GET {expected}"), "{raw}");
            assert!(has_encoded_slash(raw.as_bytes()));
            // The path that is sent is the path that the rules see.
            assert_eq!(cleaned(raw), cleaned(expected), "{raw}");
        }
        assert_eq!([cleaned("/%2f%00"), cleaned("/a%2f/../.."), cleaned("/%2f%4")], [Err(400), Err(400), Err(400)]);
    }

    #[test]
    fn clean_paths_are_not_copied() {
        let raw = b"/a/b.c?d=%20";
        let target = clean(raw, &mut []).unwrap();
        assert_eq!((target.path, target.query), (&raw[..6], Some(&raw[7..])));
        assert_eq!(target.path.as_ptr(), raw.as_ptr());
    }

    #[test]
    fn hidden_names_are_known() {
        let is_hidden = |path: &str| Target { path: path.as_bytes(), query: None }.is_hidden();
        assert!(["/.git/config", "/a/.b", "/.well-known2", "/.well-known/.a"].into_iter().all(is_hidden));
        assert!(!["/", "/a.b", "/.well-known", "/.well-known/acme-challenge/x"].into_iter().any(is_hidden));
    }

    #[test]
    fn percent_encoding_is_decoded() {
        let path = b"/a b/%2e\r\n\"<\xff\\?#~";
        let (mut encoded, mut buffer) = (Vec::new(), [0; 64]);
        encode(path, &mut encoded);
        assert_eq!(encoded, b"/a%20b/%252e%0D%0A%22%3C%FF%5C%3F%23~");
        assert_eq!(clean(&encoded, &mut buffer).unwrap().path, path);
    }
}
