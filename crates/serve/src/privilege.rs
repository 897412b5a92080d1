//! Giving up what is not needed any more once all addresses are bound.
//!
//! Three locks, each good without the others: another user, whom the whole process becomes; no new privileges, so that
//! no program it might be made to execute gets back what was given up; and a fence (Landlock) within which only the
//! served folder and the log's can be opened, whatever their modes say. The first is a matter of the process; the
//! other two of each thread, so that each enters the [`Cage`] by itself, when it has opened what it needs.

use crate::config::{Config, Listen};
use crate::error::Error;
use crate::log::LogPlace;
use landau_sys::path::Links;
use landau_sys::privilege::{self, Access, Identity, Sandbox, SandboxRules};
use std::ffi::CString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Whether the fence is put up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fencing {
    /// No.
    #[default]
    Never,
    /// If the kernel has one; else that is said and the server goes on.
    IfPossible,
    /// Yes, or the server does not start.
    Always,
}

impl Fencing {
    /// All, by name.
    pub const ALL: &[(&str, Self)] =
        &[("never", Self::Never), ("if-possible", Self::IfPossible), ("always", Self::Always)];
}

impl FromStr for Fencing {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, one)| *one).ok_or_else(|| "there are never, if-possible and always".to_owned())
    }
}

/// Whom the server becomes when it was started as root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// As it was written.
    pub name: String,
    /// The numbers.
    pub identity: Identity,
}

impl FromStr for User {
    type Err = Error;

    /// `NAME` or `NAME:GROUP`, each by name or number.
    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = |what: &str| Error::User(format!("{text:?}: there is no such {what}"));
        let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
        let mut identity = privilege::user(name)?.ok_or_else(|| unknown("user"))?;
        if let Some(group) = group {
            identity.group = privilege::group(group)?.ok_or_else(|| unknown("group"))?;
        }
        Ok(Self { name: text.to_owned(), identity })
    }
}

/// What each thread enters.
#[derive(Debug, Default)]
pub(crate) struct Cage {
    refuses_new_privileges: bool,
    fence: Option<Sandbox>,
    /// The same, within which the files of Unix sockets can be removed besides: for who does so at the end, and no
    /// worker.
    keeper: Option<Sandbox>,
    /// Why there is no fence although one was asked for.
    pub(crate) note: Option<String>,
}

impl Cage {
    /// Made before any thread takes a table of descriptors of its own, so that all know the fence by one number.
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        if config.fencing == Fencing::Never {
            return Ok(Self { refuses_new_privileges: config.refuse_new_privileges, ..Self::default() });
        }
        let made = if config.links == Links::Anywhere {
            Err("links may lead anywhere (--symlinks anywhere), so there is no place for a fence".to_owned())
        } else {
            fence(config)
                .and_then(|rules| Ok((rules.build()?, keeper(config)?)))
                .map_err(|error| format!("{}: {error}", Sandbox::reason(error)))
        };
        let (fence, keeper, note) = match made {
            Ok((fence, keeper)) => (Some(fence), Some(keeper), None),
            Err(reason) if config.fencing == Fencing::Always => return Err(Error::Sandbox(reason)),
            Err(reason) => (None, None, Some(reason)),
        };
        // The kernel lets nobody behind a fence who could get out by executing a program of root's.
        Ok(Self { refuses_new_privileges: config.refuse_new_privileges || fence.is_some(), fence, keeper, note })
    }

    /// What a table of descriptors must keep for a thread that is to enter.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.fence.as_ref().and_then(Sandbox::descriptor).into_iter().collect()
    }

    pub(crate) fn has_fence(&self) -> bool {
        self.fence.is_some()
    }

    /// Locks this thread in.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        self.lock(self.fence.as_ref())
    }

    /// Locks the thread in that removes the files of Unix sockets at the end.
    pub(crate) fn enter_as_keeper(&self) -> Result<(), Error> {
        self.lock(self.keeper.as_ref())
    }

    fn lock(&self, fence: Option<&Sandbox>) -> Result<(), Error> {
        if self.refuses_new_privileges && cfg!(target_os = "linux") {
            privilege::set_no_new_privileges()?;
        }
        fence.map_or(Ok(()), Sandbox::enter)?;
        Ok(())
    }
}

fn keeper(config: &Config) -> landau_sys::Result<Sandbox> {
    let mut rules = fence(config)?;
    for listen in config.listen.iter().chain(&config.metrics) {
        if let Listen::Unix(path) = listen.place().0 {
            rules.allow(&folder_of(path), Access::Remove)?;
        }
    }
    rules.build()
}

fn fence(config: &Config) -> landau_sys::Result<SandboxRules> {
    let mut rules = SandboxRules::new()?;
    rules.allow(&config.root, Access::Read)?;
    if let Some(LogPlace::File(path)) = config.log.as_ref().map(|log| &log.place) {
        rules.allow(&folder_of(path), Access::Write)?;
    }
    for path in config.tls.iter().flat_map(|files| [&files.certificate, &files.key]) {
        rules.allow(&folder_of(path), Access::Read)?;
        // A link into another folder, as certbot makes them.
        if let Ok(real) = path.canonicalize() {
            rules.allow(&folder_of(&real), Access::Read)?;
        }
    }
    Ok(rules)
}

/// The folder in which a file lies.
fn folder_of(path: &Path) -> PathBuf {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

fn c_path(path: &Path) -> landau_sys::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| landau_sys::Error::invalid("open"))
}

/// Becomes the user, with all threads, and looks whether the folder can still be read.
pub(crate) fn switch_user(user: &User, config: &Config) -> Result<(), Error> {
    let folder = landau_sys::path::open_directory(&c_path(&config.root)?)?;
    privilege::switch_user(user.identity)
        .map_err(|error| Error::User(format!("{}: cannot become this user: {error}; only root can", user.name)))?;
    landau_sys::path::open_below(&folder, c".", Links::Never).map(drop).map_err(|cause| Error::Unreadable {
        path: config.root.clone(),
        user: user.name.clone(),
        cause,
    })
}
