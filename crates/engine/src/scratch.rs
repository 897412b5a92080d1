//! The directory for the benchmarks' files: created for a run and removed with it.

use crate::Error;
use crate::register::Register;
use crate::switch::is_switched;
use landau_sys::clock::monotonic_ns;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::{DirBuilder, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The beginning of every directory's name; the process identifier and the time follow.
const PREFIX: &str = "landau-scratch-";

/// The file on which the run holds a lock. The kernel releases the lock when the process ends, however it ends.
const LOCK: &str = "lock";

/// Attempts to create a directory. More than one is needed only if another run starts at the same moment.
const ATTEMPTS: usize = 100;

/// A directory without a lock file belongs to a run that is about to create it, unless the directory is older than
/// this.
const UNLOCKED: Duration = Duration::from_secs(60);

/// The directory for the benchmarks' files. Dropping it removes it with everything inside.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
    register: Option<Register>,
}

impl Scratch {
    /// Creates the directory inside `parent`, and removes the directories of runs that were killed.
    ///
    /// Between the creation of the lock file and the lock, another run may mistake this directory for that of a killed
    /// run. The other run holds the lock while it removes the directory, so afterwards the file is gone, and this run
    /// creates another directory.
    pub fn create(parent: &Path) -> Result<Self, Error> {
        remove_abandoned(parent);
        let refused = |source| Error::Scratch { path: parent.to_owned(), source };
        for _ in 0..ATTEMPTS {
            // A process identifier alone is not unique: containers reuse them at once.
            let path = parent.join(format!("{PREFIX}{}-{:x}", std::process::id(), monotonic_ns()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(refused)?,
            }
            if let Some(lock) = lock_new(&path).map_err(refused)? {
                return Ok(Self { path, _lock: lock, register: None });
            }
        }
        Err(refused(std::io::Error::other("other runs keep removing it")))
    }

    /// Creates the directory like [`Scratch::create`], and adds it to the user's register, so that a run in another
    /// place finds it if this one is killed.
    pub fn create_registered(parent: &Path) -> Result<Self, Error> {
        let mut scratch = Self::create(parent)?;
        // If the register cannot be written, only the registration is missing.
        scratch.register = register().filter(|register| register.add(&scratch.path).is_ok());
        Ok(scratch)
    }

    /// Returns the directories in the user's register, in any place, that killed runs have left behind.
    pub fn abandoned() -> Vec<PathBuf> {
        registered().into_iter().filter(|folder| is_own_folder(folder) && is_abandoned(folder)).collect()
    }

    /// Returns the directories of runs that have left the host switched: those in the user's register, and those in the
    /// same place as this one. Folders in which another user could have written are left out.
    pub fn switched(&self) -> Vec<PathBuf> {
        let here = self.path.parent().and_then(|parent| std::fs::read_dir(parent).ok());
        let here = here.into_iter().flatten().flatten().map(|entry| entry.path());
        let is_ours =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()));
        let all: BTreeSet<PathBuf> = here.filter(is_ours).chain(registered()).collect();
        all.into_iter().filter(|folder| is_own_folder(folder) && is_switched(folder) && is_abandoned(folder)).collect()
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The directory stays with its marker, so that the next run can name the command that restores the host.
        if is_switched(&self.path) {
            return;
        }
        // A directory that cannot be removed now is left to the next run. If its file system is gone, it may come back.
        let removed = std::fs::remove_dir_all(&self.path);
        if let (Ok(()), Some(register)) = (removed, &self.register) {
            let _ = register.remove(&self.path);
        }
    }
}

/// Creates and locks the lock file of a new directory; none if another run has removed the directory in the meantime.
fn lock_new(folder: &Path) -> std::io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let lock = match File::create(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !folder.exists() => return Ok(None),
        opened => opened?,
    };
    loop {
        match lock.lock() {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Some file systems have no locks; there, the directory of a killed run must be removed by hand.
            Err(error) if has_no_locks(&error) => return Ok(Some(lock)),
            Err(error) => return Err(error),
        }
    }
    let is_there = std::fs::metadata(&path).is_ok_and(|meta| lock.metadata().is_ok_and(|own| own.ino() == meta.ino()));
    Ok(is_there.then_some(lock))
}

/// Returns whether a lock was refused because the file system does not support locks.
fn has_no_locks(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::Unsupported
        || matches!(error.raw_os_error(), Some(libc::ENOLCK | libc::EINVAL | libc::EOPNOTSUPP))
}

/// Returns the user's register of directories.
fn register() -> Option<Register> {
    Register::of_user("scratch")
}

/// Returns the directories in the user's register.
fn registered() -> Vec<PathBuf> {
    register().map(|register| register.lines()).unwrap_or_default().into_iter().map(PathBuf::from).collect()
}

/// Removes the directories of runs that have ended: no process holds their locks.
fn remove_abandoned(parent: &Path) {
    let register = register();
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours
            && is_own_folder(&entry.path())
            && !is_switched(&entry.path())
            && let Some(_lock) = lock_abandoned(&entry.path())
            // Its run may have switched the host before it was killed just now.
            && !is_switched(&entry.path())
            && std::fs::remove_dir_all(entry.path()).is_ok()
            && let Some(register) = register.as_ref().filter(|register| register.lines().contains(&entry.path().into()))
        {
            let _ = register.remove(entry.path());
        }
    }
}

/// Returns whether a path is a directory, not a link, in which only this user can have written. Other users may create
/// anything in a shared place such as /tmp.
fn is_own_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && is_own(&meta))
}

/// Returns whether only the effective user can write to the file or directory that `meta` describes.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    meta.uid() == landau_sys::process::effective_user() && meta.mode() & 0o022 == 0
}

/// Locks the directory of a run that has ended; none if the run has not ended. An old directory without a lock file
/// gets one: if its run was only suspended, that run waits for the lock too.
fn lock_abandoned(folder: &Path) -> Option<File> {
    let path = folder.join(LOCK);
    let opened = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound && is_old(folder) => File::create(&path),
        opened => opened,
    };
    opened.ok().filter(|lock| lock.try_lock().is_ok())
}

/// Returns whether the run of a directory has ended: no process holds its lock.
fn is_abandoned(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => is_old(folder),
    }
}

/// Returns whether a run had enough time to create the lock file of a directory.
fn is_old(folder: &Path) -> bool {
    let age = std::fs::metadata(folder).and_then(|meta| meta.modified()).map(|made| made.elapsed());
    matches!(age, Ok(Ok(age)) if age > UNLOCKED)
}

/// Returns the free bytes on the file system of a directory, less a margin for the host.
pub fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let (free, whole) = landau_sys::system::disk_space(&path).ok()?;
    Some(free.saturating_sub((whole / 50).min(256 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that was killed cannot clean up; the next one in the same place does.
    #[test]
    fn folders_of_killed_runs_are_removed_and_others_kept() {
        let parent = tempfile::tempdir().unwrap();
        let (dead, living) = (parent.path().join("landau-scratch-1-a"), parent.path().join("landau-scratch-1-b"));
        let foreign = parent.path().join("notes");
        for folder in [&dead, &living, &foreign] {
            DirBuilder::new().mode(0o700).create(folder).unwrap();
            std::fs::write(folder.join(LOCK), "").unwrap();
        }
        let held = File::open(living.join(LOCK)).unwrap();
        held.try_lock().unwrap();
        let scratch = Scratch::create(parent.path()).unwrap();
        assert!(!dead.exists() && living.exists() && foreign.exists() && scratch.path().exists());
        let path = scratch.path().to_owned();
        drop(scratch);
        assert!(!path.exists());
    }

    /// Guards against a run that removes the directory of another run that starts at the same moment, or prevents it
    /// from taking its lock.
    #[test]
    fn runs_that_start_at_once_keep_their_folders() {
        let parent = tempfile::tempdir().unwrap();
        let create = || {
            for _ in 0..300 {
                let scratch = Scratch::create(parent.path()).unwrap();
                let lock = File::open(scratch.path().join(LOCK)).unwrap();
                assert!(matches!(lock.try_lock(), Err(std::fs::TryLockError::WouldBlock)), "{scratch:?}");
                assert!(scratch.path().exists());
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(create);
            }
        });
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    /// The old directory belongs to a run that was killed before it created its lock file.
    #[test]
    fn an_old_folder_without_a_lock_is_removed_and_a_new_one_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let (old, new) = (parent.path().join("landau-scratch-1-a"), parent.path().join("landau-scratch-1-b"));
        for folder in [&old, &new] {
            DirBuilder::new().mode(0o700).create(folder).unwrap();
        }
        File::open(&old).unwrap().set_modified(std::time::SystemTime::now() - UNLOCKED * 2).unwrap();
        assert!(is_abandoned(&old) && !is_abandoned(&new));
        drop(Scratch::create(parent.path()).unwrap());
        assert!(!old.exists() && new.exists());
        // The run of the new one finds its directory removed.
        std::fs::remove_dir(&new).unwrap();
        assert!(lock_new(&new).unwrap().is_none());
    }

    /// Guards against commands of other users: a marker contains a command that a later run executes.
    #[test]
    fn markers_that_another_user_may_have_written_are_ignored() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let parent = tempfile::tempdir().unwrap();
        let text = r#"{"run":"a run","restore":"true"}"#;
        let plant = |name: &str| {
            let folder = parent.path().join(format!("{PREFIX}{name}"));
            DirBuilder::new().mode(0o700).create(&folder).unwrap();
            std::fs::write(folder.join(LOCK), "").unwrap();
            let marker = folder.join("switched");
            std::fs::write(&marker, text).unwrap();
            std::fs::set_permissions(&marker, PermissionsExt::from_mode(0o600)).unwrap();
            folder
        };
        let own = plant("own");
        let open = plant("open");
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        let elsewhere = parent.path().join("elsewhere");
        std::fs::rename(plant("linked"), &elsewhere).unwrap();
        symlink(&elsewhere, parent.path().join(format!("{PREFIX}linked"))).unwrap();
        let linked_marker = plant("marker");
        std::fs::rename(linked_marker.join("switched"), linked_marker.join("other")).unwrap();
        symlink("other", linked_marker.join("switched")).unwrap();
        let writable_marker = plant("writable");
        std::fs::set_permissions(writable_marker.join("switched"), PermissionsExt::from_mode(0o666)).unwrap();
        if landau_sys::process::effective_user() == 0 {
            chown(plant("foreign"), Some(65_534), Some(65_534)).unwrap();
            chown(plant("foreign-marker").join("switched"), Some(65_534), Some(65_534)).unwrap();
        } else {
            eprintln!("not root: a folder of another user cannot be planted");
        }
        let scratch = Scratch::create(parent.path()).unwrap();
        let here = |folder: &PathBuf| folder.starts_with(parent.path());
        assert_eq!(scratch.switched().into_iter().filter(here).collect::<Vec<_>>(), [own]);
        let mode = std::fs::metadata(scratch.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
}
