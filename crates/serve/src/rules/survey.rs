//! Finds rules that do not protect what they seem to protect: a rule for only the path of a directory does not apply to
//! its contents.
//!
//! In nginx, `location /private` is for all paths that begin with it. Here, `/private` is one path, and `/private/` is
//! a directory with its contents. An operator who confuses the two would have an open directory, but would see that its
//! index page is protected.

use super::{Access, Change, ErrorPage, Policy, Rule, Rules, Settings};
use crate::config::{Config, Problem};
use landau_sys::path;
use landau_wire::http::target::Target;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The maximum number of entries of a directory, and of hosts, that are checked.
const MOST_ENTRIES: usize = 10_000;

/// A name that stands for any below a directory.
const ANY: &str = "x";

/// The served directory.
#[derive(Debug, Clone)]
pub(super) struct Site {
    root: PathBuf,
    has_hosts: bool,
}

/// The findings.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// A restriction that a rule may set.
struct Restriction {
    name: &'static str,
    is_set: fn(&Settings) -> bool,
    holds: fn(&Access) -> bool,
    /// Whether the restriction limits who may read, instead of only how often.
    is_for_readers: bool,
}

/// A subset of the restrictions.
type Restrictions = [&'static Restriction];

const RESTRICTIONS: [Restriction; 4] = [
    Restriction {
        name: "auth",
        is_set: |settings| matches!(settings.auth, Change::Set(_)),
        holds: |access| access.auth.is_some(),
        is_for_readers: true,
    },
    Restriction {
        name: "allow",
        is_set: |settings| matches!(settings.allow, Change::Set(_)),
        holds: |access| access.allow.is_some(),
        is_for_readers: true,
    },
    Restriction {
        name: "deny",
        is_set: |settings| matches!(settings.deny, Change::Set(_)),
        holds: |access| access.deny.is_some(),
        is_for_readers: true,
    },
    Restriction {
        name: "rate",
        is_set: |settings| matches!(settings.rate, Change::Set(_)),
        holds: |access| access.rate.is_some(),
        is_for_readers: false,
    },
];

impl Site {
    pub(super) fn new(config: &Config) -> Self {
        Self { root: config.root.clone(), has_hosts: config.virtual_hosts }
    }

    /// Returns whether the directory is on a local file system, which answers at once.
    pub(super) fn is_local(&self) -> bool {
        let name = CString::new(self.root.as_os_str().as_bytes()).ok();
        name.and_then(|name| path::open_base(&name).ok()).is_some_and(|root| path::is_local(&root))
    }

    /// Returns the directories that the paths of rules are relative to: that of each host, or the served one.
    fn homes(&self) -> Vec<PathBuf> {
        if !self.has_hosts {
            return vec![self.root.clone()];
        }
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().take(MOST_ENTRIES).flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }
}

impl Rules {
    /// Compares the rules with the served directory.
    pub(super) fn survey(&self, site: &Site) -> Findings {
        let (homes, mut findings) = (site.homes(), Findings::default());
        for rule in &self.rules {
            findings.warnings.extend(rule.pages.iter().filter_map(|page| self.missing_page(page, site, &homes)));
            for pattern in &rule.patterns {
                let Some(path) = pattern.exact().filter(|_| rule.settings.restricts()) else { continue };
                let problem = |reason| Problem { line: pattern.line, key: "rule.path".to_owned(), reason };
                match self.open_below(rule, path, &homes) {
                    Some((reason, true)) => findings.errors.push(problem(reason)),
                    Some((reason, false)) => findings.warnings.push(problem(reason)),
                    None => {}
                }
            }
        }
        findings
    }

    /// Returns a problem if an error page is missing. A host may lack it if another host has it.
    fn missing_page(&self, page: &ErrorPage, site: &Site, homes: &[PathBuf]) -> Option<Problem> {
        let policy = self.policy(page.path.as_bytes());
        // Other files may stand for the path, as for a request.
        let others = policy.iter().flat_map(|policy| policy.instead_of(page.path.as_bytes()));
        let paths: Vec<Vec<u8>> = std::iter::once(page.path.clone().into_bytes()).chain(others).collect();
        let is_missing = |home: &PathBuf| {
            paths.iter().all(|path| {
                let found = home.join(String::from_utf8_lossy(path).trim_start_matches('/')).metadata();
                found.is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
            })
        };
        let forwards = policy.as_ref().is_some_and(|policy| policy.forwards());
        if homes.is_empty() || forwards || !site.root.is_dir() || !homes.iter().all(is_missing) {
            return None;
        }
        let reason =
            format!("{}: no such file below {}; a plain-text error is sent instead", page.path, site.root.display());
        Some(Problem { line: page.line, key: page.key.clone(), reason })
    }

    /// Returns a message about what is open below a path that a rule protects, and whether that is an error.
    fn open_below(&self, rule: &Rule, path: &str, homes: &[PathBuf]) -> Option<(String, bool)> {
        let policy = self.policy(path.as_bytes())?;
        let is_held = |one: &&Restriction| (one.is_set)(&rule.settings) && (one.holds)(&policy.access);
        let held: Vec<&'static Restriction> = RESTRICTIONS.iter().filter(is_held).collect();
        if held.is_empty() {
            return None;
        }
        let below = format!("{path}/{ANY}");
        if policy.forwards() && self.policy(below.as_bytes()).is_some_and(|policy| policy.forwards()) {
            let what = names(&self.missing(&held, path, below.as_bytes()))?;
            let reason = format!(
                "{path:?} matches only this path: requests for paths below it, such as {below}, are forwarded without \
                 {what}; write \"{path}/\" to cover them too"
            );
            return Some((reason, false));
        }
        let mut warning = None;
        for home in homes {
            let folder = home.join(&path[1..]);
            if (is_hidden(path.as_bytes()) && !policy.dotfiles) || !folder.is_dir() {
                continue;
            }
            // For a link to a directory, the rules of its target apply too.
            let is_plain = is_plain(home, &folder, path);
            let Some((open, missing)) = self.open_entry(&held, path, &folder) else { continue };
            let Some(what) = names(&missing) else { continue };
            let is_error = is_plain && missing.iter().any(|one| one.is_for_readers);
            let reason = format!(
                "{path:?} matches only this path, but {} is a directory: {open} is not covered by {what}; write \
                 \"{path}/\" to cover its contents too",
                folder.display()
            );
            if is_error {
                return Some((reason, true));
            }
            warning.get_or_insert((reason, false));
        }
        warning
    }

    /// Returns the path of an entry of a directory that lacks some of these restrictions, and the restrictions that it
    /// lacks. They hold for the directory itself. An unreadable directory is treated as if it had any entry.
    fn open_entry(
        &self,
        held: &Restrictions,
        path: &str,
        folder: &Path,
    ) -> Option<(String, Vec<&'static Restriction>)> {
        let open = |below: &[u8]| {
            let missing = self.missing(held, path, below);
            (!missing.is_empty()).then(|| (String::from_utf8_lossy(below).into_owned(), missing))
        };
        let Ok(entries) = std::fs::read_dir(folder) else { return open(format!("{path}/{ANY}").as_bytes()) };
        entries.take(MOST_ENTRIES).flatten().find_map(|entry| {
            let mut below = [path.as_bytes(), b"/", entry.file_name().as_bytes()].concat();
            let kind = entry.file_type().ok()?;
            if kind.is_dir() {
                below.extend([b"/", ANY.as_bytes()].concat());
            } else if !kind.is_file() {
                return None;
            }
            let policy = self.policy(&below);
            let is_elsewhere = |policy: &Policy| policy.proxy.is_some() || policy.redirect.is_some();
            let shows_all = policy.as_deref().is_some_and(|policy| policy.dotfiles);
            let is_read = (shows_all || !is_hidden(&below)) && !policy.as_deref().is_some_and(is_elsewhere);
            if is_read { open(&below) } else { None }
        })
    }

    /// Returns the restrictions of a path that do not hold for a path below it. There are none if a rule for paths
    /// below sets any restriction, even one that admits all clients.
    fn missing(&self, held: &Restrictions, path: &str, below: &[u8]) -> Vec<&'static Restriction> {
        let matching = self.matching(&self.globs, below);
        let is_for_below = |rule: &Rule| rule.patterns.iter().any(|pattern| pattern.is_below(path));
        if matching
            .iter()
            .map(|&number| &self.rules[number])
            .any(|rule| rule.settings.restricts() && is_for_below(rule))
        {
            return Vec::new();
        }
        let policy = self.policy_of(&matching);
        held.iter().copied().filter(|one| !(one.holds)(&policy.access)).collect()
    }
}

/// Returns the names of restrictions; `None` if there are none.
fn names(restrictions: &[&Restriction]) -> Option<String> {
    let names: Vec<&str> = restrictions.iter().map(|one| one.name).collect();
    (!names.is_empty()).then(|| names.join(" and "))
}

/// Returns whether no part of a path below a directory is a link.
fn is_plain(home: &Path, folder: &Path, path: &str) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(home).map(|home| home.join(&path[1..])) == real(folder)
}

/// Returns whether a path is served only if a rule permits it.
fn is_hidden(path: &[u8]) -> bool {
    Target { path, query: None }.is_hidden()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;

    /// A directory with these files.
    fn room(files: &[&str]) -> tempfile::TempDir {
        let room = tempfile::tempdir().unwrap();
        for file in files {
            let path = room.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        room
    }

    /// Returns the lines of errors and of warnings.
    fn survey(room: &tempfile::TempDir, has_hosts: bool, rules: &str) -> (Vec<String>, Vec<String>) {
        let site = Site { root: room.path().to_owned(), has_hosts };
        let Findings { errors, warnings } = ConfigFile::parse(rules, &[]).unwrap().rules.survey(&site);
        let told = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect();
        (told(errors), told(warnings))
    }

    /// `/private` and `/private/` were once refused, while `/private/secret.txt` was sent to anyone, without a message.
    #[test]
    fn a_rule_for_a_directory_alone_is_an_error() {
        let room = room(&["private/secret.txt", "file", "empty/.hidden", "deep/a/b", ".well-known/a"]);
        let folder = room.path().join("private");
        let (errors, warnings) =
            survey(&room, false, "[[rule]]\npath = [\n '/file',\n '/private',\n]\ndeny = '::/0'\n");
        let expected = format!(
            "4: rule.path: \"/private\" matches only this path, but {} is a directory: /private/secret.txt is not \
             covered by deny; write \"/private/\" to cover its contents too",
            folder.display()
        );
        assert_eq!((errors, warnings), (vec![expected], Vec::new()));
        let counts = |rules: &str| {
            let (errors, warnings) = survey(&room, false, rules);
            (errors.len(), warnings.len())
        };
        let rule = |path: &str, what: &str| format!("[[rule]]\npath = '{path}'\n{what}\n");
        let closed = |path: &str| rule(path, "allow = '10.0.0.1'");
        assert_eq!(counts(&closed("/private")), (1, 0));
        assert_eq!(counts(&closed("/deep")), (1, 0), "a directory in it");
        assert_eq!(counts(&closed("/.well-known")), (1, 0), "it is served");
        for path in ["/private/", "/private/**", "/private/*", "private", "/file", "/empty", "/none", "/pr*e"] {
            assert_eq!(counts(&closed(path)), (0, 0), "{path}");
        }
        assert_eq!(counts(&rule("/private", "rate = '1/s'")), (0, 1), "nothing is open");
        assert_eq!(counts(&rule("/private", "listings = false")), (0, 0));
        // Other restrictions of the same kind hold below it, or a rule admits all clients below it.
        for other in [closed("/"), closed("*.txt"), closed("/private/*.txt"), closed("/private/secret.txt")] {
            assert_eq!(counts(&format!("{other}{}", closed("/private"))), (0, 0), "{other}");
        }
        for other in [rule("/private/", "allow = false"), rule("/private/", "redirect = '/file'")] {
            assert_eq!(counts(&format!("{other}{}", closed("/private"))), (0, 0), "{other}");
        }
        // These do not affect it.
        for other in [rule("/", "deny = '10.0.0.66'"), closed("/private/b"), rule("/private/", "listings = false")] {
            assert_eq!(counts(&format!("{other}{}", closed("/private"))), (1, 0), "{other}");
        }
    }

    #[test]
    fn an_error_page_that_is_not_there_is_told() {
        let room = room(&["errors/404.html"]);
        let rules = "[[rule]]\npath = '/'\nerror-pages = { 404 = '/errors/404.html', 403 = '/missing.html' }\n";
        let (errors, warnings) = survey(&room, false, rules);
        let expected = "3: rule.error-pages.403: /missing.html: no such file below ";
        assert!(errors.is_empty() && warnings.len() == 1 && warnings[0].starts_with(expected), "{warnings:?}");
    }

    #[test]
    fn every_host_is_looked_at() {
        let room = room(&["one.example/private", "two.example/private/secret"]);
        let (errors, _) = survey(&room, true, "[[rule]]\npath = '/private'\nallow = '10.0.0.1'\n");
        assert!(errors.len() == 1 && errors[0].contains("two.example/private is a directory"), "{errors:?}");
    }

    /// The target of a link may have its own rules.
    #[test]
    fn a_link_to_a_directory_is_only_suspicious() {
        let room = room(&["private/secret"]);
        std::os::unix::fs::symlink("private", room.path().join("link")).unwrap();
        let (errors, warnings) = survey(&room, false, "[[rule]]\npath = '/link'\nallow = '10.0.0.1'\n");
        assert_eq!((errors.len(), warnings.len()), (0, 1));
    }

    #[test]
    fn a_rule_for_one_path_of_an_upstream_server_is_suspicious() {
        let room = room(&[]);
        let told = |more: &str| {
            let rules = format!("[[rule]]\npath = '/'\nproxy = 'http://127.0.0.1:1'\n{more}");
            survey(&room, false, &rules)
        };
        let (errors, warnings) = told("[[rule]]\npath = '/admin'\ndeny = '::/0'\nrate = '1/s'\n");
        let expected = "5: rule.path: \"/admin\" matches only this path: requests for paths below it, such as \
             /admin/x, are forwarded without deny and rate; write \"/admin/\" to cover them too";
        assert_eq!((errors, warnings), (Vec::new(), vec![expected.to_owned()]));
        for fine in [
            "[[rule]]\npath = '/admin/'\ndeny = '::/0'\n",
            "[[rule]]\npath = ['/admin', '/admin/**']\ndeny = '::/0'\n",
            "[[rule]]\npath = '/admin/'\nproxy = false\n[[rule]]\npath = '/admin'\ndeny = '::/0'\n",
        ] {
            assert_eq!(told(fine), (Vec::new(), Vec::new()), "{fine}");
        }
    }
}
