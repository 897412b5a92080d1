//! Rules by path: an operator's settings for some of the paths of a site.
//!
//! Rules are compiled into one [`Rules`] when the configuration is read, and never change. Of the rules that match a
//! path, in their order, later ones override earlier ones. The result is the path's [`Policy`], which paths with the
//! same rules share. It is looked up with the file and kept with it in the cache. So a path without a rule costs
//! nothing, and a path with rules is matched once for as long as its cache entry is trusted.
//!
//! A path is matched after it has been decoded and cleaned, in the form that the file system gets: no encoding of a
//! path can evade a rule.

mod access;
mod compressible;
mod cors;
pub(crate) mod field;
mod live;
mod look_up;
mod loops;
mod pattern;
mod placeholder;
mod policies;
mod policy;
mod proxy;
mod rate;
mod redirect;
mod survey;
mod users;

pub use access::Networks;
pub(crate) use access::{Access, Auth, rates};
pub(crate) use cors::Cors;
pub use live::{LiveRules, Survey};
pub(crate) use look_up::FILES as LOOK_UP_FILES;
pub(crate) use pattern::Pattern;
pub(crate) use policy::Policy;
pub(crate) use proxy::{PathTemplate, Proxy, Upstream, is_alike};
pub(crate) use rate::Rate;
pub(crate) use redirect::Redirect;
pub(crate) use users::{Login, LoginKey, Users};

pub(crate) use field::FieldChange;
use globset::GlobSet;
use landau_wire::http::Status;
use landau_wire::http::encoding::Coding;
use policies::Policies;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A rule as it was written.
#[derive(Debug, Default)]
pub(crate) struct Rule {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) fields: Vec<FieldChange>,
    pub(crate) settings: Settings,
    /// The files of the error pages.
    pub(crate) pages: Vec<ErrorPage>,
}

/// The file of an error page, with its place in the configuration file.
#[derive(Debug)]
pub(crate) struct ErrorPage {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) key: String,
}

/// A rule's change to a setting.
#[derive(Debug, Default, Clone)]
pub(crate) enum Change<T> {
    /// No change: the value of earlier rules stays.
    #[default]
    Keep,
    /// Removes the value of earlier rules.
    Lift,
    Set(T),
}

impl<T> Change<T> {
    fn is_said(&self) -> bool {
        !matches!(self, Self::Keep)
    }
}

/// The settings of a rule other than fields; `None` keeps the value of earlier rules.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// The sites that may read responses.
    pub(crate) cors: Change<Arc<Cors>>,
    pub(crate) redirect: Change<Arc<Redirect>>,
    /// The upstream server that requests are forwarded to.
    pub(crate) proxy: Change<Arc<Proxy>>,
    /// The port of the TLS address to which requests without TLS are redirected.
    pub(crate) https: Change<u16>,
    /// Paths to try if the requested one does not exist; `{path}` stands for the requested path.
    pub(crate) try_files: Option<Arc<[String]>>,
    /// Whether `.html` is omitted from paths.
    pub(crate) clean_urls: Option<bool>,
    /// The error pages by status, as encoded paths.
    pub(crate) error_pages: BTreeMap<Status, Arc<[u8]>>,
    /// Media types by the ending of a file name, in lower case, without the dot.
    pub(crate) types: BTreeMap<String, Arc<str>>,
    /// The media type of unknown endings.
    pub(crate) default_type: Option<Arc<str>>,
    /// Whether directories without an index file are listed.
    pub(crate) listings: Option<bool>,
    /// Whether names that begin with a dot are served.
    pub(crate) dotfiles: Option<bool>,
    /// The clients that may read.
    pub(crate) allow: Change<Arc<Networks>>,
    /// The clients that may not read.
    pub(crate) deny: Change<Arc<Networks>>,
    pub(crate) auth: Change<Arc<Auth>>,
    pub(crate) rate: Change<Arc<Rate>>,
    /// Whether files are compressed for clients that accept it.
    pub(crate) compress: Option<bool>,
    /// The maximum number of bytes per second over one connection.
    pub(crate) bandwidth: Change<u64>,
}

impl Settings {
    fn restricts(&self) -> bool {
        self.allow.is_said() || self.deny.is_said() || self.auth.is_said() || self.rate.is_said()
    }
}

/// The rules of a site.
#[derive(Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    globs: GlobSet,
    /// The same globs, case-insensitive.
    caseless_globs: GlobSet,
    /// The rule of each glob.
    rule_of: Vec<usize>,
    /// Whether any rule restricts the clients that may read, or their request rate.
    restricts: bool,
    /// Whether any rule forwards requests.
    forwards: bool,
    policies: Policies,
}

impl Rules {
    /// Compiles rules. Fails if they are too large in total.
    pub(crate) fn new(rules: Vec<Rule>) -> Result<Self, String> {
        let (mut globs, mut caseless_globs, mut rule_of) = (GlobSet::builder(), GlobSet::builder(), Vec::new());
        for (number, rule) in rules.iter().enumerate() {
            for (glob, caseless) in rule.patterns.iter().flat_map(|pattern| &pattern.globs) {
                globs.add(glob.clone());
                caseless_globs.add(caseless.clone());
                rule_of.push(number);
            }
        }
        let failed = |error: globset::Error| error.to_string();
        let (globs, caseless_globs) = (globs.build().map_err(failed)?, caseless_globs.build().map_err(failed)?);
        let restricts = rules.iter().any(|rule| rule.settings.restricts());
        let forwards = rules.iter().any(|rule| matches!(rule.settings.proxy, Change::Set(_)));
        Ok(Self { rules, globs, caseless_globs, rule_of, restricts, forwards, policies: Policies::default() })
    }

    /// Returns the users settings of all rules, to read their files.
    pub(crate) fn auths(&mut self) -> impl Iterator<Item = &mut Arc<Auth>> {
        self.rules.iter_mut().filter_map(|rule| match &mut rule.settings.auth {
            Change::Set(auth) => Some(auth),
            _ => None,
        })
    }

    /// Returns the proxy settings of all rules.
    pub(crate) fn proxies(&self) -> impl Iterator<Item = &Arc<Proxy>> {
        self.rules.iter().filter_map(|rule| match &rule.settings.proxy {
            Change::Set(proxy) => Some(proxy),
            _ => None,
        })
    }

    /// Returns whether any rule forwards requests.
    pub(crate) fn forwards(&self) -> bool {
        self.forwards
    }

    /// Returns whether any rule restricts the clients that may read, or their request rate.
    pub(crate) fn restricts(&self) -> bool {
        self.restricts
    }

    /// Returns the policy of a clean path; `None` if no rule matches.
    pub(crate) fn policy(&self, path: &[u8]) -> Option<Arc<Policy>> {
        let matching = self.matching(&self.globs, path);
        (!matching.is_empty()).then(|| self.policy_of(&matching))
    }

    /// Returns the policy of a path with an encoded slash, if requests for it are forwarded. `path` has the slash as
    /// `%2F` and is clean otherwise.
    ///
    /// An upstream server may take the encoded slash for an ordinary one. So the same rules must match the path with an
    /// ordinary one, and it must have no dot segments.
    pub(crate) fn policy_of_forwarded(&self, path: &[u8]) -> Option<Arc<Policy>> {
        let policy = self.policy(path).filter(|policy| policy.forwards())?;
        policy.proxy.as_ref().filter(|proxy| proxy.encoded_slash)?;
        let slashed = with_slashes(path)?;
        let is_same = |globs| {
            plain_forms(path)
                .map(|form| self.matching(globs, form))
                .eq(plain_forms(&slashed).map(|form| self.matching(globs, form)))
        };
        (is_same(&self.globs) && is_same(&self.caseless_globs)).then_some(policy)
    }

    fn policy_of(&self, matching: &[usize]) -> Arc<Policy> {
        self.policies.get(matching, || Policy::of(matching.iter().map(|&number| &self.rules[number])))
    }

    /// Returns the restrictions of a clean path; a client must be admitted by all of them.
    ///
    /// On a case-insensitive file system, a path in another case is the same file. And a compressed form next to a file
    /// has the same content. So the restrictions of the path regardless of case apply too, and those of the path
    /// without the suffix of a coding.
    pub(crate) fn restrictions(&self, path: &[u8]) -> Vec<Access> {
        let mut found: Vec<Access> = Vec::new();
        if !self.restricts {
            return found;
        }
        for path in plain_forms(path) {
            for globs in [&self.globs, &self.caseless_globs] {
                let access = &self.policy_of(&self.matching(globs, path)).access;
                if !access.is_open() && !found.iter().any(|known| known.is_same(access)) {
                    found.push(access.clone());
                }
            }
        }
        found
    }

    /// Returns the numbers of the matching rules, in their order.
    fn matching(&self, globs: &GlobSet, path: &[u8]) -> Vec<usize> {
        let globs = globs.matches(pattern::as_path(path));
        let mut rules: Vec<usize> = globs.into_iter().map(|glob| self.rule_of[glob]).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}

/// Returns a path, and the path without the suffix of a coding, if it has one.
fn plain_forms(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let codings = Coding::ALL.iter().filter(|coding| **coding != Coding::Identity);
    let plain = codings.filter_map(move |coding| strip_suffix(path, coding.suffix().as_bytes()));
    [path].into_iter().chain(plain)
}

/// Returns a path with an ordinary slash for each encoded one, without empty segments; `None` if it then has dot
/// segments.
fn with_slashes(path: &[u8]) -> Option<Vec<u8>> {
    let mut slashed = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let (byte, after) = rest.strip_prefix(b"%2F").map_or((*first, after), |after| (b'/', after));
        if byte != b'/' || slashed.last() != Some(&b'/') {
            slashed.push(byte);
        }
        rest = after;
    }
    let has_dots = slashed.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b".."));
    (!has_dots).then_some(slashed)
}

/// Returns a path without the suffix, which may be in any case.
fn strip_suffix<'a>(path: &'a [u8], suffix: &[u8]) -> Option<&'a [u8]> {
    let (plain, end) = path.split_at_checked(path.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some(plain)
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
    fn restrictions_are_not_evaded() {
        let rules = rules(
            "[[rule]]\npath = '/a/'\nallow = '10.0.0.1'\n[[rule]]\npath = '/a/open/'\nallow = false\n\
             [[rule]]\npath = ['*.sql', '/b/x.html']\ndeny = '0.0.0.0/0'\n",
        );
        let is_restricted = |path: &str| !rules.restrictions(path.as_bytes()).is_empty();
        for path in ["/a", "/a/", "/a/x", "/A/x", "/a/OPEN/x", "/x.sql", "/x.SQL.gz", "/b/x.html.br", "/B/X.HTML.ZST"] {
            assert!(is_restricted(path), "{path}");
        }
        for path in ["/", "/ab", "/a/open/x", "/x.sql.txt", "/b/x.htm"] {
            assert!(!is_restricted(path), "{path}");
        }
    }

    #[test]
    fn a_rule_for_nothing_is_an_error() {
        for wrong in ["path = []", "path = '/'\nallow = []", "path = '/'\ndeny = []", "path = ['/a/', '/b//']"] {
            assert!(ConfigFile::parse(&format!("[[rule]]\n{wrong}\n"), &[]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_without_a_rule_has_no_policy() {
        let rules = rules("[[rule]]\npath = '/a/'\n");
        assert!(rules.policy(b"/ab").is_none() && rules.policy(b"/").is_none());
        assert!(rules.policy(b"/a/\xff").is_some());
    }
}
