//! The served directory, which the server follows when it is replaced.
//!
//! A deployment often moves a new directory, or a link to one, to the served path. A descriptor stays with the previous
//! directory. The path is therefore opened again from time to time, and whenever a file is missing.

use crate::config::Config;
use crate::error::Error;
use landau_reactor::Waker;
use landau_sys::path::{self, Links};
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The state of the served directory that the workers share: the last message to the operator, so that each is reported
/// once, and the number of replacements, so that all workers follow as soon as one has noticed.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    last: Mutex<Option<Notice>>,
    replaced_count: AtomicU64,
    /// The wakers of all workers.
    wakers: Vec<Waker>,
}

/// The result of following the served directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// The directory is the one that is already served.
    Same,
    /// The directory is another one, which is served from now on.
    Replaced,
    /// The path cannot be opened, as between the two renames of a deployment. The previous directory is still served,
    /// but a file that it lacks may be in the next one.
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    /// The device and inode of the directory that is now served.
    Replaced((u64, u64)),
    /// The error number with which the path cannot be opened.
    Failed(i32),
}

impl Notices {
    /// Creates the shared state of workers that follow together; `wakers` are theirs.
    pub(crate) fn new(wakers: Vec<Waker>) -> Self {
        Self { wakers, ..Self::default() }
    }

    /// Wakes all workers, to make them follow. A worker that waited for its next request could be several releases
    /// behind by then, and its directory could have no files left.
    fn tell(&self) {
        self.replaced_count.fetch_add(1, Ordering::Release);
        for waker in &self.wakers {
            // Waking fails only if the worker has ended.
            let _ = waker.wake();
        }
    }

    /// Returns whether the notice has not been reported yet.
    fn is_new(&self, notice: Notice) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.replace(notice) != Some(notice)
    }

    /// Makes every worker clear what it knows of the served directory, and look everything up again.
    pub(crate) fn forget(&self) {
        self.replaced_count.fetch_add(1, Ordering::Release);
    }

    /// Records that the path leads to the served directory. Returns whether it could not be opened before.
    fn is_back(&self) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|last| matches!(last, Notice::Failed(_))).is_some()
    }
}

/// The served directory.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    name: CString,
    current: Mutex<Opened>,
    /// The number of times that `current` has changed.
    change_count: AtomicU64,
    notices: Arc<Notices>,
    report: fn(&str),
    is_sandboxed: bool,
}

/// A directory with its device and inode, which no other directory can have while it is open.
#[derive(Debug, Clone)]
struct Opened {
    folder: Arc<OwnedFd>,
    identity: (u64, u64),
    /// Whether its file system is local.
    is_local: bool,
}

impl Opened {
    fn of(name: &CString) -> landau_sys::Result<Self> {
        let folder = path::open_base(name)?;
        let (identity, is_local) = (path::status(&folder)?.identity, path::is_local(&folder));
        Ok(Self { folder: Arc::new(folder), identity, is_local })
    }
}

impl Root {
    /// Opens the served directory. If `is_sandboxed`, the calling thread will enter a sandbox, which may not permit
    /// another directory.
    pub(super) fn new(config: &Config, notices: Arc<Notices>, is_sandboxed: bool) -> Result<Self, Error> {
        let failed = |errno| {
            let hint = match std::io::Error::from_raw_os_error(errno).kind() {
                ErrorKind::NotFound => "; pass an existing directory",
                ErrorKind::NotADirectory => "; pass the directory that contains it",
                ErrorKind::PermissionDenied => "; run chmod o+rx on the directory, or start the server as its owner",
                _ => "",
            };
            Error::Root { path: config.root.clone(), hint, cause: landau_sys::Error { call: "open", errno } }
        };
        let name = CString::new(config.root.as_os_str().as_bytes()).map_err(|_| failed(22))?;
        let current = Mutex::new(Opened::of(&name).map_err(|error| failed(error.errno))?);
        let (path, change_count) = (config.root.clone(), AtomicU64::new(0));
        Ok(Self { path, name, current, change_count, notices, report: config.report, is_sandboxed })
    }

    /// Returns the directory for one lookup, so that all its files come from the same directory.
    pub(super) fn get(&self) -> Arc<OwnedFd> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).folder.clone()
    }

    /// Returns whether the directory is on a local file system.
    pub(super) fn is_local(&self) -> bool {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).is_local
    }

    /// Returns the number of times that the directory has changed here, whichever thread followed it.
    #[inline]
    pub(super) fn change_count(&self) -> u64 {
        self.change_count.load(Ordering::Acquire)
    }

    /// Returns the number of times that a worker has noticed a replacement of the directory.
    #[inline]
    pub(super) fn replaced_count(&self) -> u64 {
        self.notices.replaced_count.load(Ordering::Acquire)
    }

    /// Returns whether the directory was removed, and so has no files left.
    pub(super) fn is_removed(&self) -> bool {
        path::is_removed(&self.get()).unwrap_or(false)
    }

    /// Returns whether no descriptor is free.
    pub(super) fn is_out_of_descriptors(&self) -> bool {
        path::locate_below(&self.get(), c".", Links::Never).is_err_and(landau_sys::Error::is_out_of_descriptors)
    }

    /// Opens the path again. If this fails, the previous directory stays.
    pub(super) fn follow(&self) -> Followed {
        self.open_again().unwrap_or_else(|error| {
            if !is_passing(error) && self.notices.is_new(Notice::Failed(error.errno)) {
                let (path, hint) = (self.path.display(), self.hint(error));
                (self.report)(&format!(
                    "{path}: {error}; the directory that was opened earlier is still served, and a new one is not \
                     noticed{hint}"
                ));
            }
            Followed::Failed
        })
    }

    /// Like `follow`, because another worker has followed, and not for a request. A failure is not reported, since the
    /// next request follows again.
    pub(super) fn follow_others(&self) -> Followed {
        self.open_again().unwrap_or(Followed::Failed)
    }

    fn open_again(&self) -> landau_sys::Result<Followed> {
        let path = self.path.display();
        let opened = Opened::of(&self.name)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let identity = opened.identity;
        if current.identity == identity {
            drop(current);
            if self.notices.is_back() {
                (self.report)(&format!("{path} can be opened again"));
            }
            return Ok(Followed::Same);
        }
        *current = opened;
        self.change_count.fetch_add(1, Ordering::Release);
        drop(current);
        if self.notices.is_new(Notice::Replaced(identity)) {
            self.notices.tell();
            (self.report)(&format!("{path} was replaced; the new directory is served"));
        }
        Ok(Followed::Replaced)
    }

    fn hint(&self, error: landau_sys::Error) -> &'static str {
        match error.kind() {
            ErrorKind::PermissionDenied if self.is_sandboxed => {
                "; the server's user must be able to enter every directory of the path, and the sandbox must permit \
                 the new one: restart the server, or pass --sandbox-read with the directory that contains it"
            }
            ErrorKind::PermissionDenied => "; the server's user must be able to enter every directory of the path",
            _ => "",
        }
    }
}

/// Returns whether the error is a shortage, which says nothing about the directory.
fn is_passing(error: landau_sys::Error) -> bool {
    ["EMFILE", "ENFILE", "ENOMEM"].contains(&landau_sys::errno_name(error.errno).as_str())
}
