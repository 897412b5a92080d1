//! Dropping privileges once all addresses are bound.
//!
//! The three measures are independent. The process switches to another user. `PR_SET_NO_NEW_PRIVS` keeps programs that
//! a thread executes from regaining privileges. A Landlock sandbox limits the files that can be opened to the served
//! directory, the directory that contains it and that of the log, whatever their modes. The first measure applies to
//! the process. The other two apply to a thread, so each thread enters the [`Sandbox`] itself after it has opened the
//! files that it needs.

use crate::config::{Config, Listen};
use crate::error::Error;
use crate::log::LogTarget;
use crate::rules::LOOK_UP_FILES;
use landau_sys::path::Links;
use landau_sys::privilege::{self, Access, Identity, SandboxRules};
use std::ffi::CString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// The conditions under which the server uses a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxMode {
    /// Never.
    #[default]
    Never,
    /// If the kernel supports it; otherwise the server reports why not and continues.
    IfPossible,
    /// Always; if there is none, the server does not start.
    Always,
}

impl SandboxMode {
    /// All modes, by name.
    pub const ALL: &[(&str, Self)] =
        &[("never", Self::Never), ("if-possible", Self::IfPossible), ("always", Self::Always)];
}

impl FromStr for SandboxMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, one)| *one).ok_or_else(|| "expected never, if-possible or always".to_owned())
    }
}

/// The user that the server switches to when started as root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The name as given by the operator.
    pub name: String,
    /// The user and group ids.
    pub identity: Identity,
}

impl FromStr for User {
    type Err = Error;

    /// Parses `NAME` or `NAME:GROUP`, each a name or a number.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = |what: &str| Error::User(format!("{text:?}: no such {what}"));
        let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
        let mut identity = privilege::user(name)?.ok_or_else(|| unknown("user"))?;
        if let Some(group) = group {
            identity.group = privilege::group(group)?.ok_or_else(|| unknown("group"))?;
        }
        Ok(Self { name: text.to_owned(), identity })
    }
}

/// The restrictions that each thread applies to itself.
#[derive(Debug, Default)]
pub(crate) struct Sandbox {
    sets_no_new_privileges: bool,
    workers: Option<privilege::Sandbox>,
    /// Like `workers`, plus the right to remove the files of Unix sockets, for the thread that stops the server.
    cleanup: Option<privilege::Sandbox>,
    /// The reason why a requested sandbox is missing.
    pub(crate) note: Option<String>,
}

impl Sandbox {
    /// Creates the restrictions. This must happen before a thread gets its own descriptor table, so that the sandbox's
    /// descriptor has the same number in all tables.
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let sets_no_new_privileges = config.sets_no_new_privileges;
        if config.sandbox == SandboxMode::Never {
            return Ok(Self { sets_no_new_privileges, ..Self::default() });
        }
        for folder in &config.sandbox_read {
            // The sandbox needs this directory, and the operator did not request a server without a sandbox.
            landau_sys::path::open_directory(&c_path(folder)?)
                .map_err(|cause| Error::Permitted { path: folder.clone(), cause })?;
        }
        let made = if config.links == Links::Anywhere {
            Err("--symlinks anywhere lets links point outside of any sandbox".to_owned())
        } else {
            let reason = |error| format!("{}: {error}", privilege::Sandbox::reason(error));
            worker_rules(config).and_then(|rules| Ok((rules.build()?, cleanup_rules(config)?.build()?))).map_err(reason)
        };
        let (workers, cleanup, note) = match made {
            Ok((workers, cleanup)) => (Some(workers), Some(cleanup), None),
            Err(reason) if config.sandbox == SandboxMode::Always => return Err(Error::Sandbox(reason)),
            Err(reason) => (None, None, Some(reason)),
        };
        // Landlock requires this: a setuid program would otherwise escape the sandbox.
        let sets_no_new_privileges = sets_no_new_privileges || workers.is_some();
        Ok(Self { sets_no_new_privileges, workers, cleanup, note })
    }

    /// Returns the descriptors that a thread must keep in its table to enter the sandbox.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.workers.as_ref().and_then(privilege::Sandbox::descriptor).into_iter().collect()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.workers.is_some()
    }

    /// Restricts the calling thread, a worker's or a helper's.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        self.restrict(self.workers.as_ref())
    }

    /// Restricts the calling thread, which removes the files of Unix sockets when the server stops.
    pub(crate) fn enter_for_cleanup(&self) -> Result<(), Error> {
        self.restrict(self.cleanup.as_ref())
    }

    fn restrict(&self, sandbox: Option<&privilege::Sandbox>) -> Result<(), Error> {
        if self.sets_no_new_privileges && cfg!(target_os = "linux") {
            privilege::set_no_new_privileges()?;
        }
        sandbox.map_or(Ok(()), privilege::Sandbox::enter)?;
        Ok(())
    }
}

fn cleanup_rules(config: &Config) -> landau_sys::Result<SandboxRules> {
    let mut rules = worker_rules(config)?;
    for listen in config.listen.iter().chain(&config.metrics) {
        if let Listen::Unix(path) = listen.address().0 {
            rules.allow(&folder_of(path), Access::Remove)?;
        }
    }
    Ok(rules)
}

fn worker_rules(config: &Config) -> landau_sys::Result<SandboxRules> {
    let mut rules = SandboxRules::new()?;
    for folder in [config.root.clone()].into_iter().chain(containers(&config.root)).chain(config.sandbox_read.clone()) {
        rules.allow(&folder, Access::Read)?;
    }
    if let Some(LogTarget::File(path)) = config.log.as_ref().map(|log| &log.target) {
        rules.allow(&folder_of(path), Access::Write)?;
    }
    for path in config.files() {
        allow_file(&mut rules, path)?;
    }
    let upstreams = config.upstreams();
    for port in upstreams.iter().filter_map(|upstream| upstream.port()) {
        rules.allow_connect(port)?;
    }
    if upstreams.iter().any(|upstream| upstream.has_name()) {
        // A reload looks names up again.
        let files = LOOK_UP_FILES.iter().map(Path::new).filter(|path| path.exists());
        files.into_iter().try_for_each(|path| rules.allow(path, Access::Read))?;
    }
    Ok(rules)
}

/// Permits reading a file and files that replace it.
fn allow_file(rules: &mut SandboxRules, path: &Path) -> landau_sys::Result<()> {
    rules.allow(&folder_of(path), Access::Read)?;
    // Certificates of Certbot are links into another directory.
    path.canonicalize().map_or(Ok(()), |real| rules.allow(&folder_of(&real), Access::Read))
}

/// Restricts the calling thread, which keeps its user, to reading the directories of these files. Without a sandbox,
/// either because the system has none (which the server reports) or because none is requested, this restriction does
/// not apply.
pub(crate) fn restrict_to_reading(config: &Config, files: &[PathBuf]) -> Result<(), Error> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    privilege::set_no_new_privileges()?;
    let rules = match SandboxRules::new() {
        Ok(rules) if config.sandbox != SandboxMode::Never => Some(rules),
        Err(error) if config.sandbox == SandboxMode::Always => return Err(error.into()),
        _ => None,
    };
    if let Some(mut rules) = rules {
        files.iter().try_for_each(|path| allow_file(&mut rules, path))?;
        rules.build()?.enter()?;
    }
    Ok(())
}

/// Returns the directory that contains the served one, and for each link in its path the directory that contains the
/// link's target. A directory that is moved there later can then be opened. The root of the file system is excluded,
/// because a sandbox that permits everything is useless. The directory above the working directory is excluded too: a
/// server of `.` stays with the directory in which it was started.
fn containers(root: &Path) -> Vec<PathBuf> {
    // Components have no trailing slash, which would follow a link.
    let root: PathBuf = root.components().collect();
    let is_named = root.components().next_back().is_some_and(|last| matches!(last, Component::Normal(_)));
    let own = is_named.then(|| folder_of(&root));
    let links = root.ancestors().filter(|path| path.is_symlink());
    let of_targets = links.filter_map(|link| Some(folder_of(&link.canonicalize().ok()?)));
    let is_root = |folder: &PathBuf| folder.canonicalize().is_ok_and(|folder| folder == Path::new("/"));
    own.into_iter().chain(of_targets).filter(|folder| !is_root(folder)).collect()
}

/// Returns the directory that contains a file.
fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

fn c_path(path: &Path) -> landau_sys::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| landau_sys::Error::invalid("open"))
}

/// Switches the process, with all threads, to the user, and checks that this user can enter the served directory. A
/// directory that can be entered but not read has no listing.
pub(crate) fn switch_user(user: &User, config: &Config) -> Result<(), Error> {
    let folder = landau_sys::path::open_base(&c_path(&config.root)?)?;
    privilege::switch_user(user.identity)
        .map_err(|error| Error::User(format!("{}: cannot switch to this user: {error}; only root can", user.name)))?;
    landau_sys::path::status_below(&folder, c".", Links::Never).map(drop).map_err(|cause| Error::Unreadable {
        path: config.root.clone(),
        user: user.name.clone(),
        cause,
    })
}
