//! Rules by path: what an operator has said about some of the paths of a site.
//!
//! Rules are compiled into one [`Rules`] when the configuration is read, and never change. Of the rules that match a
//! path, in their order, later ones override what earlier ones set; the result is the path's [`Policy`]. It is looked
//! up with the file and kept with it in the cache, so that a path without a rule costs nothing, and one with rules is
//! matched once for as long as the cache trusts it.
//!
//! A path is matched after it has been decoded and cleaned, as the file system gets it: no encoding of a path can
//! evade a rule.

mod cors;
pub(crate) mod field;
mod live;
mod pattern;
mod policy;
mod redirect;

pub(crate) use cors::Cors;
pub use live::LiveRules;
pub(crate) use pattern::Pattern;
pub(crate) use policy::Policy;
pub(crate) use redirect::Redirect;

use field::FieldChange as Change;
pub(crate) use field::FieldChange;
use globset::GlobSet;
use landau_wire::http::Status;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule, as it was written.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) fields: Vec<Change>,
    pub(crate) settings: Settings,
}

/// What a rule sets besides fields; `None` is what earlier rules have set.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Which other sites may read responses; `Some(None)` for none.
    pub(crate) cors: Option<Option<Arc<Cors>>>,
    pub(crate) redirect: Option<Option<Arc<Redirect>>>,
    /// The port of the address with TLS to which requests without TLS are redirected; `Some(None)` for no redirect.
    pub(crate) https: Option<Option<u16>>,
    /// Paths to be tried where there is nothing, in which `{path}` stands for the path.
    pub(crate) try_files: Option<Arc<[String]>>,
    /// Whether `.html` is left out of paths.
    pub(crate) clean_urls: Option<bool>,
    /// The pages of errors by their status: encoded paths.
    pub(crate) error_pages: BTreeMap<Status, Arc<[u8]>>,
    /// Media types by the ending of a name, in lower case, without the dot.
    pub(crate) types: BTreeMap<String, Arc<str>>,
    /// The media type of other endings that are unknown.
    pub(crate) default_type: Option<Arc<str>>,
    /// Whether directories without an index file are listed.
    pub(crate) listings: Option<bool>,
    /// Whether names that begin with a dot are served.
    pub(crate) dotfiles: Option<bool>,
}

/// The rules of a site.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    globs: GlobSet,
    /// The rule of each glob.
    rule_of: Vec<usize>,
}

impl Rules {
    /// Compiles rules. Fails if they are too large together.
    pub(crate) fn new(rules: Vec<Rule>) -> Result<Self, String> {
        let (mut globs, mut rule_of) = (GlobSet::builder(), Vec::new());
        for (number, rule) in rules.iter().enumerate() {
            for glob in rule.patterns.iter().flat_map(|pattern| &pattern.globs) {
                globs.add(glob.clone());
                rule_of.push(number);
            }
        }
        let globs = globs.build().map_err(|error| error.to_string())?;
        Ok(Self { rules, globs, rule_of })
    }

    /// Returns what the rules say about a clean path; `None` if they say nothing.
    pub(crate) fn policy(&self, path: &[u8]) -> Option<Arc<Policy>> {
        let matching = self.matching(path);
        if matching.is_empty() {
            return None;
        }
        let mut policy = Policy::default();
        for number in matching {
            policy.apply(&self.rules[number]);
        }
        policy.finish();
        Some(Arc::new(policy))
    }

    /// Returns the numbers of the rules that match, in their order.
    fn matching(&self, path: &[u8]) -> Vec<usize> {
        let globs = self.globs.matches(pattern::as_path(path));
        let mut rules: Vec<usize> = globs.into_iter().map(|glob| self.rule_of[glob]).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    fn rules(text: &str) -> Rules {
        ConfigFile::parse(text, &[]).unwrap().rules
    }

    #[test]
    fn later_rules_override_earlier_ones() {
        let rules = rules(
            "[[rule]]\npath = '/'\nset-headers = { X-A = '1', X-B = '1' }\n\
             [[rule]]\npath = '/a/'\nset-headers = { x-a = '2' }\nremove-headers = ['X-B']\n\
             [[rule]]\npath = ['*.css', '/a/b']\nadd-headers = { X-A = '3' }\n",
        );
        let lines = |path: &str| {
            let policy = rules.policy(path.as_bytes()).unwrap();
            String::from_utf8(policy.lines.clone()).unwrap().replace("\r\n", ";")
        };
        assert_eq!(lines("/"), "X-A: 1;X-B: 1;");
        assert_eq!(lines("/a"), "x-a: 2;");
        assert_eq!(lines("/a/x"), "x-a: 2;");
        assert_eq!(lines("/x.css"), "X-A: 1;X-B: 1;X-A: 3;");
        assert_eq!(lines("/a/b"), "x-a: 2;X-A: 3;");
    }

    #[test]
    fn a_path_without_a_rule_has_no_policy() {
        let rules = rules("[[rule]]\npath = '/a/'\n");
        assert!(rules.policy(b"/ab").is_none() && rules.policy(b"/").is_none());
        assert!(rules.policy(b"/a/\xff").is_some());
    }
}
