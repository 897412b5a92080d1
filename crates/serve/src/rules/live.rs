//! The rules that are in force, which a reload replaces.

use super::look_up::{LookUp, Resolver, ask_system};
use super::survey::Site;
use super::{Auth, Proxy, Rules, Upstream, Users};
use crate::config::{Config, ConfigFile, Problem, Setting};
use crate::reader::Reader;
use std::fmt::{Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// The rules that are in force, and the file that they come from.
#[derive(Debug)]
pub struct LiveRules {
    path: PathBuf,
    /// The files of the users, as of the start.
    user_files: Vec<PathBuf>,
    /// The upstream servers, as of the start: the sandbox permits connections to no others.
    upstreams: Vec<Arc<Upstream>>,
    /// The keys outside of rules that a file may have.
    known: Vec<String>,
    /// What they were at the start.
    settings: Vec<Setting>,
    /// How names are looked up.
    look_up: LookUp,
    current: RwLock<Arc<Rules>>,
    /// What the last reload has read, if all that it lacked were addresses of upstream servers.
    unresolved: Mutex<Option<Box<ConfigFile>>>,
    /// The served directory, with which a reload compares the rules. Only a local one: a file server that does not
    /// answer must not keep the server from reading its signals.
    site: OnceLock<Site>,
}

/// What a comparison of rules with the served directory has found, each on a line with the file and the line in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// What keeps the server from starting.
    pub errors: Vec<String>,
    /// What the operator is told.
    pub warnings: Vec<String>,
}

/// How a reload went.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// The rules are those of the file now.
    Done {
        /// The keys outside of rules that differ from those at the start.
        changed: Vec<String>,
        /// The upstream servers that have the addresses that they had, and why.
        kept: Vec<String>,
        /// What the rules probably do not mean, in the served directory.
        warnings: Vec<String>,
    },
    /// The rules are what they were, and why.
    Failed(String),
}

impl Display for Reload {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done { changed, kept, warnings } => {
                write!(f, "rules reloaded")?;
                if !changed.is_empty() {
                    write!(f, "; restart the server for the changes of {}", changed.join(", "))?;
                }
                kept.iter().try_for_each(|why| write!(f, "; {why}; its previous addresses stay in use"))?;
                warnings.iter().try_for_each(|warning| write!(f, "; warning: {warning}"))
            }
            Self::Failed(why) => write!(f, "{why}; the previous rules stay in use"),
        }
    }
}

impl LiveRules {
    /// Reads a configuration file; `known` are the keys that it may have outside of rules, and `check` says what is
    /// wrong with their values. Returns all that is wrong, each on a line with the file and the line in it.
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

    /// Compares the rules with the directory that is served: a rule for the path of a directory alone protects nothing
    /// in it. Reloads do the same from now on, if the directory is on a local file system.
    pub fn survey(&self, config: &Config) -> Survey {
        let site = Site::new(config);
        if site.is_local() {
            // It is the same if it is known already.
            let _ = self.site.set(site.clone());
        }
        self.told_of(&self.current(), &site)
    }

    fn told_of(&self, rules: &Rules, site: &Site) -> Survey {
        let findings = rules.survey(site);
        Survey { errors: told(&self.path, &findings.errors), warnings: told(&self.path, &findings.warnings) }
    }

    /// Compares rules with the served directory, if it is known; returns them with the warnings.
    fn surveyed(&self, file: ConfigFile) -> Result<(ConfigFile, Vec<String>), Failure> {
        let Some(site) = self.site.get() else { return Ok((file, Vec::new())) };
        let Survey { errors, warnings } = self.told_of(&file.rules, site);
        if errors.is_empty() { Ok((file, warnings)) } else { Err(errors.into()) }
    }

    /// Returns the files that it was read from: the configuration, and those of the users.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.path].into_iter().chain(&self.user_files).map(PathBuf::as_path)
    }

    /// Returns the rules that are in force.
    pub(crate) fn current(&self) -> Arc<Rules> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the file again, and looks the names of upstream servers up again; if anything is wrong, what was in force
    /// stays. In a sandbox it names the upstream servers of the start.
    pub(crate) fn reload(&self, reader: &Reader, is_sandboxed: bool) -> Reload {
        self.reload_with(reader, is_sandboxed, false)
    }

    /// The same in a process that has one thread and forks: another process looks names up.
    pub(crate) fn reload_without_threads(&self, reader: &Reader, is_sandboxed: bool) -> Reload {
        self.reload_with(reader, is_sandboxed, true)
    }

    fn reload_with(&self, reader: &Reader, is_sandboxed: bool, forks: bool) -> Reload {
        self.change(is_sandboxed, forks, |resolve| parse(&self.path, &self.known, reader, resolve))
    }

    /// Looks names up again if the last reload failed for want of their addresses, in a process that has one thread and
    /// forks. The rules are those that it has read, and not what the file has now.
    pub(crate) fn look_up_again_without_threads(&self, is_sandboxed: bool) {
        self.look_up_again(is_sandboxed, true);
    }

    fn look_up_again(&self, is_sandboxed: bool, forks: bool) {
        let unresolved = self.unresolved.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(file) = unresolved {
            self.change(is_sandboxed, forks, |resolve| resolved(&self.path, *file, Vec::new(), resolve));
        }
    }

    /// Puts what `read` returns in force; it is given what finds the addresses of an upstream server.
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
                return Err(format!("{text}: restart the server, whose sandbox permits no connection to it"));
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
                // A file with a fault leaves what an earlier reload still lacks addresses for.
                if failure.unresolved.is_some() {
                    *unresolved = failure.unresolved;
                }
                Reload::Failed(failure.problems.join("; "))
            }
        }
    }

    /// Returns the keys whose values are not those of the start.
    fn changed(&self, settings: &[Setting]) -> Vec<String> {
        let value = |of: &[Setting], key: &str| {
            of.iter().find(|setting| setting.key == key).map(|setting| setting.occurrences.clone())
        };
        let is_changed = |key: &&String| value(&self.settings, key) != value(settings, key);
        self.known.iter().filter(is_changed).cloned().collect()
    }
}

/// Why a file was not taken.
#[derive(Debug)]
struct Failure {
    /// Each on a line with the file and the line in it.
    problems: Vec<String>,
    /// What was read, if it lacks nothing but addresses of upstream servers.
    unresolved: Option<Box<ConfigFile>>,
}

impl From<Vec<String>> for Failure {
    fn from(problems: Vec<String>) -> Self {
        Self { problems, unresolved: None }
    }
}

/// `resolve` finds the addresses of an upstream server.
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

/// Finds the addresses of all upstream servers of a file with these problems.
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

/// Reads the file of a rule's users; returns what is wrong with it.
fn read_users(auth: &mut Arc<Auth>, reader: &Reader) -> Option<Problem> {
    // Nobody else has the rules yet.
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

    /// The addresses of the start were kept for ever, until a restart.
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
        // The name server does not answer: the last addresses stay, not the first ones.
        let second = upstream();
        set(None);
        let told = live.reload(&Reader::default(), false).to_string();
        let why = "http://app.example: no such name; its previous addresses stay in use";
        assert_eq!(told, format!("rules reloaded; {why}"));
        assert!(upstream().is_at_same_place(&second) && !Arc::ptr_eq(&upstream(), &second));
    }

    /// The supervisor read the file again before it started a process, so that this one had rules that nobody had asked
    /// for.
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
        // A fault in a later file does not make it forget that one.
        write("/d", "proxi = 'http://app.example'");
        assert!(reload_fails());
        write("/c", "");
        live.look_up_again(false, false);
        assert!(says(b"/a") && !says(b"/b") && !says(b"/c"));
        IS_KNOWN.store(1, Ordering::Relaxed);
        live.look_up_again(false, false);
        assert!(!says(b"/a") && says(b"/b") && !says(b"/c"));
    }

    /// A reload says what a start says, and does not open what a start would not.
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
        assert!(why.contains("serve.toml:2: rule.path: \"/private\" is one path"), "{why}");
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
