//! The rules in force, which a reload replaces.

use super::look_up::{LookUp, Resolver, ask_system};
use super::survey::Site;
use super::{Auth, Proxy, Rules, Upstream, Users};
use crate::config::{Config, ConfigFile, Problem, Setting};
use crate::reader::Reader;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// The rules in force, and the file that they come from.
#[derive(Debug)]
pub struct LiveRules {
    path: PathBuf,
    /// The users files at the start of the server.
    user_files: Vec<PathBuf>,
    /// The upstream servers at the start of the server; the sandbox permits connections only to them.
    upstreams: Vec<Arc<Upstream>>,
    /// The keys that a file may have outside of rules.
    known: Vec<String>,
    /// Their values at the start of the server.
    settings: Vec<Setting>,
    /// The function that looks names up.
    look_up: LookUp,
    current: RwLock<Arc<Rules>>,
    /// The file read by the last reload, if only addresses of upstream servers were missing.
    unresolved: Mutex<Option<Box<ConfigFile>>>,
    /// The served directory, which a reload compares with the rules. It is set only for a local directory: a file
    /// server that does not answer must not keep the server from handling its signals.
    site: OnceLock<Site>,
}

/// The results of comparing the rules with the served directory, each as a line with the file and the line number.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Problems that prevent the server from starting.
    pub errors: Vec<String>,
    /// Messages for the operator.
    pub warnings: Vec<String>,
}

/// The outcome of a reload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// The rules of the file are now in force.
    Done {
        /// The keys outside of rules whose values differ from those at the start.
        changed: Vec<String>,
        /// The upstream servers that keep their previous addresses, with the reasons.
        kept: Vec<String>,
        /// Likely mistakes in the rules, given the served directory.
        warnings: Vec<String>,
    },
    /// The previous rules stay in force; the reason.
    Failed(String),
}

impl Display for Reload {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done { changed, kept, warnings } => {
                write!(f, "rules reloaded")?;
                if !changed.is_empty() {
                    write!(f, "; restart the server to apply the changes of {}", changed.join(", "))?;
                }
                kept.iter().try_for_each(|why| write!(f, "; {why}; its previous addresses stay in use"))?;
                warnings.iter().try_for_each(|warning| write!(f, "; warning: {warning}"))
            }
            Self::Failed(why) => write!(f, "{why}; the previous rules stay in use"),
        }
    }
}

impl LiveRules {
    /// Reads a configuration file. `known` are the keys that it may have outside of rules, and `check` returns the
    /// errors in their values. Returns all errors, each as a line with the file and the line number.
    pub fn read(
        path: &Path,
        known: &[String],
        check: impl FnOnce(&[Setting]) -> Vec<Problem>,
    ) -> Result<Self, Vec<String>> {
        Self::read_with(path, known, check, ask_system)
    }

    fn read_with(
        path: &Path,
        known: &[String],
        check: impl FnOnce(&[Setting]) -> Vec<Problem>,
        look_up: LookUp,
    ) -> Result<Self, Vec<String>> {
        let resolver = Resolver::new(look_up);
        let file = parse(path, known, &Reader::default(), &|proxy| resolver.resolve(&proxy.upstream))
            .map_err(|failure| failure.problems)?;
        let problems = check(&file.settings);
        if !problems.is_empty() {
            return Err(told(path, &problems));
        }
        let ConfigFile { settings, mut rules } = file;
        let user_files = rules.auths().map(|auth| auth.path.clone()).collect();
        let upstreams = rules.proxies().map(|proxy| proxy.upstream.clone()).collect();
        let (known, current) = (known.to_vec(), RwLock::new(Arc::new(rules)));
        let (path, unresolved, site) = (path.to_owned(), Mutex::default(), OnceLock::new());
        Ok(Self { path, user_files, upstreams, known, settings, look_up, current, unresolved, site })
    }

    /// Returns the keys outside of rules.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Compares the rules with the served directory: a rule for only the path of a directory does not protect its
    /// contents. Later reloads do the same if the directory is on a local file system.
    pub fn survey(&self, config: &Config) -> Survey {
        let site = Site::new(config);
        if site.is_local() {
            // If it is set already, the value is the same.
            let _ = self.site.set(site.clone());
        }
        self.told_of(&self.current(), &site)
    }

    fn told_of(&self, rules: &Rules, site: &Site) -> Survey {
        let findings = rules.survey(site);
        Survey { errors: told(&self.path, &findings.errors), warnings: told(&self.path, &findings.warnings) }
    }

    /// Compares rules with the served directory, if it is known; returns the file with the warnings.
    fn surveyed(&self, file: ConfigFile) -> Result<(ConfigFile, Vec<String>), Failure> {
        let Some(site) = self.site.get() else { return Ok((file, Vec::new())) };
        let Survey { errors, warnings } = self.told_of(&file.rules, site);
        if errors.is_empty() { Ok((file, warnings)) } else { Err(errors.into()) }
    }

    /// Returns the files that the rules were read from: the configuration, and the users files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.path].into_iter().chain(&self.user_files).map(PathBuf::as_path)
    }

    /// Returns the rules in force.
    pub(crate) fn current(&self) -> Arc<Rules> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again, and looks up the names of its upstream servers. If anything is wrong, the previous rules
    /// stay in force. In a sandbox, the file may name only the upstream servers of the start.
    pub(crate) fn reload(&self, reader: &Reader, is_sandboxed: bool) -> Reload {
        self.reload_with(reader, is_sandboxed, false)
    }

    /// Like `reload`, for a process that has one thread and forks: another process looks names up.
    pub(crate) fn reload_without_threads(&self, reader: &Reader, is_sandboxed: bool) -> Reload {
        self.reload_with(reader, is_sandboxed, true)
    }

    fn reload_with(&self, reader: &Reader, is_sandboxed: bool, forks: bool) -> Reload {
        self.change(is_sandboxed, forks, |resolve| parse(&self.path, &self.known, reader, resolve))
    }

    /// Looks names up again if the last reload failed because of missing addresses. This is for a process that has one
    /// thread and forks. The rules are those that the reload has read, even if the file has changed since.
    pub(crate) fn look_up_again_without_threads(&self, is_sandboxed: bool) {
        self.look_up_again(is_sandboxed, true);
    }

    fn look_up_again(&self, is_sandboxed: bool, forks: bool) {
        let unresolved = self.unresolved.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(file) = unresolved {
            self.change(is_sandboxed, forks, |resolve| resolved(&self.path, *file, Vec::new(), resolve));
        }
    }

    /// Puts the result of `read` in force. The argument of `read` finds the addresses of an upstream server.
    fn change(
        &self,
        is_sandboxed: bool,
        forks: bool,
        read: impl FnOnce(&dyn Fn(&Proxy) -> Result<(), String>) -> Result<ConfigFile, Failure>,
    ) -> Reload {
        let in_force: Vec<_> = self.current().proxies().map(|proxy| proxy.upstream.clone()).collect();
        let before = [in_force, self.upstreams.clone()].concat();
        let resolver = Resolver::again(self.look_up, &before, is_sandboxed).forking(forks);
        let resolve = |proxy: &Proxy| {
            let upstream = &proxy.upstream;
            if is_sandboxed && !self.upstreams.iter().any(|known| known == upstream) {
                let text = &upstream.text;
                return Err(format!("{text}: the sandbox does not permit connections to it; restart landau serve"));
            }
            resolver.resolve(upstream)
        };
        let found = read(&resolve).and_then(|file| self.surveyed(file));
        let mut unresolved = self.unresolved.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok((ConfigFile { settings, rules }, warnings)) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
                *unresolved = None;
                Reload::Done { changed: self.changed(&settings), kept: resolver.kept(), warnings }
            }
            Err(failure) => {
                // A file with an error does not replace an earlier file that only lacks addresses.
                if failure.unresolved.is_some() {
                    *unresolved = failure.unresolved;
                }
                Reload::Failed(failure.problems.join("; "))
            }
        }
    }

    /// Returns the keys whose values differ from those at the start.
    fn changed(&self, settings: &[Setting]) -> Vec<String> {
        let value = |of: &[Setting], key: &str| {
            of.iter().find(|setting| setting.key == key).map(|setting| setting.occurrences.clone())
        };
        let is_changed = |key: &&String| value(&self.settings, key) != value(settings, key);
        self.known.iter().filter(is_changed).cloned().collect()
    }
}

/// The reason why a file was rejected.
#[derive(Debug)]
struct Failure {
    /// The problems, each as a line with the file and the line number.
    problems: Vec<String>,
    /// The file, if only addresses of upstream servers are missing.
    unresolved: Option<Box<ConfigFile>>,
}

impl From<Vec<String>> for Failure {
    fn from(problems: Vec<String>) -> Self {
        Self { problems, unresolved: None }
    }
}

/// Reads a configuration and its users files; `resolve` finds the addresses of an upstream server.
fn parse(
    path: &Path,
    known: &[String],
    reader: &Reader,
    resolve: &dyn Fn(&Proxy) -> Result<(), String>,
) -> Result<ConfigFile, Failure> {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let text = text(path, reader).map_err(|error| vec![format!("{}: {error}", path.display())])?;
    let mut file = ConfigFile::parse(&text, &known).map_err(|problems| told(path, &problems))?;
    let problems = file.rules.auths().filter_map(|auth| read_users(auth, reader)).collect();
    resolved(path, file, problems, resolve)
}

/// Finds the addresses of all upstream servers of a file; `problems` are those found so far.
fn resolved(
    path: &Path,
    file: ConfigFile,
    mut problems: Vec<Problem>,
    resolve: &dyn Fn(&Proxy) -> Result<(), String>,
) -> Result<ConfigFile, Failure> {
    let is_read = problems.is_empty();
    problems.extend(file.rules.proxies().filter_map(|proxy| {
        let reason = resolve(proxy).err()?;
        Some(Problem { line: proxy.line, key: "rule.proxy".to_owned(), reason })
    }));
    if problems.is_empty() {
        return Ok(file);
    }
    Err(Failure { problems: told(path, &problems), unresolved: is_read.then(|| Box::new(file)) })
}

/// Reads the users file of a rule; returns the error, if any.
fn read_users(auth: &mut Arc<Auth>, reader: &Reader) -> Option<Problem> {
    // The rules are not shared yet.
    let auth = Arc::get_mut(auth)?;
    let users = text(&auth.path, reader).map_err(|error| error.to_string()).and_then(|text| Users::parse(&text));
    match users {
        Ok(users) => {
            auth.users = users;
            None
        }
        Err(why) => {
            let reason = format!("{}: {why}", auth.path.display());
            Some(Problem { line: auth.line, key: "rule.auth.users".to_owned(), reason })
        }
    }
}

fn text(path: &Path, reader: &Reader) -> std::io::Result<String> {
    String::from_utf8(reader.read(path)?).map_err(|_| std::io::Error::other("the file is not UTF-8"))
}

fn told(path: &Path, problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{}:{problem}", path.display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_bad_file_keeps_the_rules() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("serve.toml");
        let known = ["workers".to_owned()];
        std::fs::write(&path, "workers = 1\n[[rule]]\npath = '/a'\n").unwrap();
        let live = LiveRules::read(&path, &known, |_| Vec::new()).unwrap();
        let says = |path: &[u8]| live.current().policy(path).is_some();
        assert!(says(b"/a") && !says(b"/b"));
        std::fs::write(&path, "workers = 1\n[[rule]]\npaht = '/b'\n").unwrap();
        let Reload::Failed(why) = live.reload(&Reader::default(), false) else { panic!("it was taken") };
        assert!(why.contains("serve.toml:3: rule.paht: unknown key; did you mean path?"), "{why}");
        assert!(says(b"/a") && !says(b"/b"));
        std::fs::write(&path, "workers = 2\n[[rule]]\npath = '/b'\n").unwrap();
        let done = Reload::Done { changed: vec!["workers".to_owned()], kept: Vec::new(), warnings: Vec::new() };
        assert_eq!(live.reload(&Reader::default(), false), done);
        assert!(!says(b"/a") && says(b"/b"));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(live.reload(&Reader::default(), false), Reload::Failed(_)) && says(b"/b"));
    }

    /// A running server once kept the addresses of its start until a restart.
    #[test]
    fn a_reload_follows_a_name_to_its_new_addresses() {
        static NOW: Mutex<Option<SocketAddr>> = Mutex::new(None);
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let look_up: LookUp = |host, port| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            assert_eq!((host, port), ("app.example", 80));
            NOW.lock().unwrap().map(|address| vec![address]).ok_or_else(|| "no such name".to_owned())
        };
        let set = |address: Option<&str>| *NOW.lock().unwrap() = address.map(|address| address.parse().unwrap());
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("serve.toml");
        let rules = "[[rule]]\npath = '/a/'\nproxy = 'http://app.example'\n\
             [[rule]]\npath = '/b/'\nproxy = 'http://app.example:80'\n";
        std::fs::write(&path, rules).unwrap();
        set(None);
        let problem = &LiveRules::read_with(&path, &[], |_| Vec::new(), look_up).unwrap_err()[0];
        assert!(problem.contains(":3: rule.proxy: http://app.example: no such name"), "{problem}");
        set(Some("10.0.0.1:80"));
        ASKED.store(0, Ordering::Relaxed);
        let live = LiveRules::read_with(&path, &[], |_| Vec::new(), look_up).unwrap();
        assert_eq!(ASKED.load(Ordering::Relaxed), 1, "two rules with one server");
        let upstream = || live.current().proxies().next().unwrap().upstream.clone();
        let first = upstream();
        for (address, is_same) in [("10.0.0.1:80", true), ("10.0.0.2:80", false)] {
            set(Some(address));
            assert_eq!(live.reload(&Reader::default(), false).to_string(), "rules reloaded");
            assert_eq!((upstream() == first, upstream().is_at_same_place(&first)), (true, is_same), "{address}");
        }
        // The name server does not answer: the most recent addresses stay in use, not the first ones.
        let second = upstream();
        set(None);
        let told = live.reload(&Reader::default(), false).to_string();
        let why = "http://app.example: no such name; its previous addresses stay in use";
        assert_eq!(told, format!("rules reloaded; {why}"));
        assert!(upstream().is_at_same_place(&second) && !Arc::ptr_eq(&upstream(), &second));
    }

    /// The supervisor once read the file again before it started a process, which then had rules without a requested
    /// reload.
    #[test]
    fn what_is_looked_up_again_is_what_the_reload_has_read() {
        static IS_KNOWN: AtomicUsize = AtomicUsize::new(0);
        let look_up: LookUp = |_, port| match IS_KNOWN.load(Ordering::Relaxed) {
            0 => Err("no such name".to_owned()),
            _ => Ok(vec![SocketAddr::from(([10, 0, 0, 1], port))]),
        };
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("serve.toml");
        let write = |place: &str, more: &str| {
            std::fs::write(&path, format!("[[rule]]\npath = '{place}'\n{more}\n")).unwrap();
        };
        write("/a", "");
        let live = LiveRules::read_with(&path, &[], |_| Vec::new(), look_up).unwrap();
        let reload_fails = || matches!(live.reload(&Reader::default(), false), Reload::Failed(_));
        let says = |path: &[u8]| live.current().policy(path).is_some();
        write("/b", "proxi = 'http://app.example'");
        assert!(reload_fails());
        write("/c", "");
        live.look_up_again(false, false);
        assert!(says(b"/a") && !says(b"/b") && !says(b"/c"));
        write("/b", "proxy = 'http://app.example'");
        assert!(reload_fails());
        // An error in a later file does not discard that one.
        write("/d", "proxi = 'http://app.example'");
        assert!(reload_fails());
        write("/c", "");
        live.look_up_again(false, false);
        assert!(says(b"/a") && !says(b"/b") && !says(b"/c"));
        IS_KNOWN.store(1, Ordering::Relaxed);
        live.look_up_again(false, false);
        assert!(!says(b"/a") && says(b"/b") && !says(b"/c"));
    }

    /// A reload reports the same as a start, and does not open anything that a start would not.
    #[test]
    fn a_reload_compares_the_rules_with_the_served_directory() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("www/private")).unwrap();
        std::fs::write(room.path().join("www/private/secret"), "").unwrap();
        let path = room.path().join("serve.toml");
        let write = |rule: &str| std::fs::write(&path, format!("[[rule]]\npath = '/private'\n{rule}\n")).unwrap();
        write("");
        let live = LiveRules::read(&path, &[], |_| Vec::new()).unwrap();
        let survey = live.survey(&Config::new(room.path().join("www")));
        assert_eq!(survey, Survey::default());
        if live.site.get().is_none() {
            eprintln!("skipped: {} is not on a local file system", room.path().display());
            return;
        }
        write("rate = '1/s'");
        let told = live.reload(&Reader::default(), false).to_string();
        assert!(told.starts_with("rules reloaded; warning: ") && told.contains("serve.toml:2: rule.path: "), "{told}");
        write("allow = '10.0.0.1'");
        let Reload::Failed(why) = live.reload(&Reader::default(), false) else { panic!("it was taken") };
        assert!(why.contains("serve.toml:2: rule.path: \"/private\" matches only this path"), "{why}");
        assert!(live.current().policy(b"/private").unwrap().access.is_for_all(), "the previous rules stay");
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(LiveRules::read(&path, &[], |_| Vec::new()).unwrap_err()[0].contains("not a regular file"));
    }
}
