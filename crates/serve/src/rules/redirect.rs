//! Redirects of paths to other locations.

use super::pattern::{Pattern, below};
use super::placeholder::{self, REST};
use landau_wire::http::{Status, target};

/// A redirect of the paths of a rule.
#[derive(Debug, Clone)]
pub(crate) struct Redirect {
    to: String,
    pub(crate) status: Status,
    /// The directories of the rule, without a trailing slash, for the rest of a path below them.
    folders: Vec<String>,
    /// The line in the configuration file.
    pub(super) line: usize,
}

impl Redirect {
    /// Checks a target: a path or a URL. `{rest}` in it stands for the path below the rule's directory.
    pub(crate) fn new(to: &str, status: Status, patterns: &[Pattern]) -> Result<Self, String> {
        let is_url = ["http://", "https://"].iter().any(|scheme| to.len() > scheme.len() && to.starts_with(scheme));
        // Two slashes would begin the name of another host.
        if !is_url && (!to.starts_with('/') || to.starts_with("//")) {
            return Err("expected a path that begins with one slash, or a URL with http:// or https://".to_owned());
        }
        if !to.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a URL cannot contain spaces or non-ASCII characters; encode them as %XX".to_owned());
        }
        if to.contains('#') {
            return Err(
                "a target cannot have a fragment, because the query of the request is appended after it".to_owned()
            );
        }
        placeholder::check(to)?;
        let mut folders = Vec::new();
        if to.contains(REST) {
            // If `{rest}` could be part of the host, the author of a link could choose the host.
            let path_at = to.find("://").map_or(Some(0), |at| to[at + 3..].find('/').map(|slash| at + 3 + slash));
            if path_at.is_none_or(|path_at| to.find(REST).is_some_and(|rest| rest < path_at + 1)) {
                return Err("{rest} must follow a slash in the path".to_owned());
            }
            for pattern in patterns {
                let folder = pattern.folder.clone();
                folders.push(folder.ok_or("{rest} needs a rule for directories, such as /old/, without wildcards")?);
            }
        }
        Ok(Self { to: to.to_owned(), status, folders, line: 0 })
    }

    /// Returns the redirect with its line in the configuration file.
    pub(crate) fn at(self, line: usize) -> Self {
        Self { line, ..self }
    }

    /// Returns the path, clean and without a query, that a path is redirected to, if it is on the same host.
    pub(super) fn target(&self, path: &[u8]) -> Option<Vec<u8>> {
        let location = self.location(path);
        let mut buffer = vec![0; location.len()];
        target::clean(&location, &mut buffer).ok().map(|clean| clean.path.to_vec())
    }

    /// Returns the target, if it is the same for all paths.
    pub(super) fn only_target(&self) -> Option<Vec<u8>> {
        if self.to.contains(REST) { None } else { self.target(b"/") }
    }

    /// Returns the target for a clean path.
    pub(crate) fn location(&self, path: &[u8]) -> Vec<u8> {
        let rests = self.folders.iter().filter_map(|folder| below(folder, path));
        let rest = rests.min_by_key(|rest| rest.len()).unwrap_or_default();
        let mut encoded = Vec::new();
        target::encode(rest.strip_prefix(b"/").unwrap_or(rest), &mut encoded);
        let encoded = String::from_utf8_lossy(&encoded);
        self.to.replace(REST, &encoded).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `patterns` are separated by spaces.
    fn redirect(to: &str, patterns: &str) -> Result<Redirect, String> {
        let patterns: Vec<Pattern> = patterns.split(' ').map(|pattern| Pattern::new(pattern).unwrap()).collect();
        Redirect::new(to, Status::FOUND, &patterns)
    }

    #[test]
    fn the_rest_of_the_path_is_kept() {
        let to = |to: &str, pattern: &str, path: &str| {
            String::from_utf8(redirect(to, pattern).unwrap().location(path.as_bytes())).unwrap()
        };
        assert_eq!(to("/new/{rest}", "/old/", "/old/a/b c"), "/new/a/b%20c");
        assert_eq!(to("/new/{rest}", "/old/", "/old"), "/new/");
        assert_eq!(to("https://b.example/{rest}", "/", "/a/b"), "https://b.example/a/b");
        assert_eq!(to("/new", "/old", "/old"), "/new");
        assert_eq!(to("/n/{rest}", "/app/ /app/v1/", "/app/v10/x"), "/n/v10/x");
        assert_eq!(to("/{rest}", "/ /old/", "/oldies"), "/oldies");
        // A path cannot become part of a host or a line.
        assert_eq!(to("/{rest}", "/old/", "/old/\\b.example"), "/%5Cb.example");
        assert_eq!(to("/{rest}", "/old/", "/old/\r\nX: y"), "/%0D%0AX%3A%20y");
    }

    #[test]
    fn targets_are_checked() {
        for (to, pattern) in [
            ("", "/a"),
            ("a", "/a"),
            ("//b.example", "/a"),
            ("javascript:x", "/a"),
            ("https://", "/a"),
            ("/a b", "/a"),
            ("/a#b", "/a"),
            ("/a\r\nb", "/a"),
            ("https://b.example{rest}", "/a/"),
            ("https://{rest}/", "/a/"),
            ("{rest}", "/a/"),
            ("/{rest}", "/a/*/"),
            ("/{rest}", "*.html"),
            ("/{rest}", "/a"),
            // These were once sent literally.
            ("https://b.example{path}", "/a/"),
            ("https://b.example/$request_uri", "/a/"),
            ("https://{host}/b", "/a/"),
        ] {
            assert!(redirect(to, pattern).is_err(), "{to:?}");
        }
    }
}
