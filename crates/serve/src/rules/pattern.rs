//! The patterns that select the paths of a rule.

use globset::{Glob, GlobBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The wildcards of patterns. A pattern without them is for one path or directory. [`check_language`] refuses
/// backslashes.
const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];

/// A pattern of paths.
///
/// `/a/b` is that path, and `/a/` (or `/a/**`) is the directory `a` with its contents. A pattern without a slash is for
/// names at any depth. `*` and `?` match within a name, `**` any number of directories, `{a,b}` either, `[a-z]` one
/// byte of these.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    /// Each glob with its case-insensitive form.
    pub(crate) globs: Vec<(Glob, Glob)>,
    /// The directory whose contents the pattern matches, without the trailing slash, if there is no other wildcard.
    pub(crate) folder: Option<String>,
    /// The line in the configuration file.
    pub(crate) line: usize,
    /// The pattern as it was written.
    pub(crate) text: String,
}

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        check(text)?;
        check_language(text)?;
        let texts = match text.strip_suffix("**").unwrap_or(text).strip_suffix('/') {
            _ if text.is_empty() => {
                return Err("expected a path that begins with a slash, or a pattern of names, such as *.php".to_owned());
            }
            // The directory's own path is included, so that unauthorised clients cannot find out whether it exists.
            Some(folder) if text.starts_with('/') => vec![format!("{folder}/**"), folder.to_owned()],
            _ if text.starts_with('/') => vec![text.to_owned()],
            _ if text.contains('/') => return Err("a pattern that contains a slash must begin with one".to_owned()),
            _ => vec![format!("/**/{text}")],
        };
        let globs = texts.iter().filter(|text| !text.is_empty()).map(|text| glob(text)).collect::<Result<_, _>>()?;
        let folder = texts.get(1).filter(|text| !text.contains(WILDCARDS)).cloned();
        Ok(Self { globs, folder, line: 0, text: text.to_owned() })
    }

    /// Returns the only matching path, if the pattern has neither a wildcard nor a trailing slash.
    pub(super) fn exact(&self) -> Option<&str> {
        let text = &*self.text;
        (text.starts_with('/') && !text.ends_with('/') && !text.contains(WILDCARDS)).then_some(text)
    }

    /// Returns whether the pattern, as written, is for paths below this one.
    pub(super) fn is_below(&self, path: &str) -> bool {
        self.text.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Returns the rest of a path below a directory, which is given without its trailing slash. The rest is empty or begins
/// with a slash. Returns `None` if the path is elsewhere.
pub(super) fn below<'a>(folder: &str, path: &'a [u8]) -> Option<&'a [u8]> {
    path.strip_prefix(folder.as_bytes()).filter(|rest| matches!(rest, [] | [b'/', ..]))
}

/// Refuses a pattern that cannot match any path, because paths are decoded and cleaned first.
fn check(text: &str) -> Result<(), String> {
    if text.contains("//") {
        return Err("a path cannot contain empty segments (//)".to_owned());
    }
    if text.split('/').any(|part| part == "." || part == "..") {
        return Err("a path cannot contain the segments . and ..".to_owned());
    }
    let is_escape = |bytes: &[u8]| bytes[0] == b'%' && bytes[1..].iter().all(u8::is_ascii_hexdigit);
    if text.as_bytes().windows(3).any(is_escape) {
        return Err("patterns match decoded paths; write the character itself, or [%] for a percent sign".to_owned());
    }
    Ok(())
}

/// Refuses patterns in the syntax of nginx, which may be regular expressions, and patterns for a query.
fn check_language(text: &str) -> Result<(), String> {
    if text.starts_with(['~', '^']) || text.starts_with("= ") || text.contains('\\') {
        return Err(
            "regular expressions are not supported: * and ? match within a name, ** any number of directories, \
             {a,b} either, [a-z] one byte of these; *.php matches these names in any directory, and /a/ a directory \
             with everything in it; a character in brackets, such as [~], matches only itself"
                .to_owned(),
        );
    }
    if text.replace("[?]", "").split_once('?').is_some_and(|(_, behind)| behind.contains('=')) {
        return Err(
            "a pattern does not match the query, and ? matches any one byte; omit the query, or write [?] for a \
             literal question mark"
                .to_owned(),
        );
    }
    Ok(())
}

fn glob(text: &str) -> Result<(Glob, Glob), String> {
    let mut builder = GlobBuilder::new(text);
    builder.literal_separator(true).backslash_escape(true);
    let glob = builder.build().map_err(|error| error.kind().to_string())?;
    let caseless = builder.case_insensitive(true).build().map_err(|error| error.kind().to_string())?;
    Ok((glob, caseless))
}

/// Returns a path's bytes as the type that globs match.
pub(super) fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let pattern = Pattern::new(pattern).unwrap();
        pattern.globs.iter().any(|(glob, _)| glob.compile_matcher().is_match(as_path(path.as_bytes())))
    }

    #[test]
    fn patterns_match_paths() {
        for (pattern, yes, no) in [
            ("/a", &["/a"][..], &["/", "/a/", "/a/b", "/A", "/b/a"][..]),
            ("/a/", &["/a", "/a/", "/a/b", "/a/b/c", "/a/.b"], &["/", "/ab", "/b/a/", "/A/"]),
            ("/a/**", &["/a", "/a/", "/a/b", "/a/b/c"], &["/", "/ab"]),
            ("/", &["/", "/a", "/a/b/.c"], &[]),
            ("/**", &["/", "/a"], &[]),
            ("*.css", &["/a.css", "/b/a.css", "/b/.css"], &["/a.css/", "/a.css/b", "/a.cssx"]),
            ("/*.css", &["/a.css"], &["/b/a.css"]),
            ("/a/*", &["/a/b", "/a/"], &["/a", "/a/b/c"]),
            ("/a/**/z", &["/a/z", "/a/b/z", "/a/b/c/z"], &["/a/zz", "/z"]),
            ("*.{jpg,png}", &["/a.jpg", "/b/c.png"], &["/a.gif"]),
            ("/v[0-9]/", &["/v1/a"], &["/vx/a"]),
            ("/50% a/[%]20", &["/50% a/%20"], &["/50% a/ "]),
            ("README", &["/README", "/a/README"], &["/README.md", "/README/x"]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_an_error() {
        for wrong in ["", "a/b", "/a[", "/{a", "/a//", "//a", "/./x/", ".", "/a/../b/", "/my%20files/"] {
            assert!(Pattern::new(wrong).is_err(), "{wrong}");
        }
    }

    /// Such patterns once matched nothing, without a message.
    #[test]
    fn patterns_of_other_languages_are_errors() {
        for wrong in ["~ \\.php$", "~* jpg$", "^~ /a/", "= /a", r"/a\.php", r"*\.php", "^a", "~a"] {
            assert!(
                Pattern::new(wrong).is_err_and(|why| why.contains("regular expressions are not supported")),
                "{wrong}"
            );
        }
        for wrong in ["/a?x=1", "/a/?page=2", "/?a[]=1"] {
            assert!(
                Pattern::new(wrong).is_err_and(|why| why.starts_with("a pattern does not match the query")),
                "{wrong}"
            );
        }
        for fine in ["*~", "[~]a", "/~ann/", "/a=b", "=a", "/a?b", "/a[?]x=1", "/a^b"] {
            assert!(Pattern::new(fine).is_ok(), "{fine}");
        }
    }
}
