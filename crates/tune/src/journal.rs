//! The journal of a trial on the host: the changes, written to disk before the first of them is made.
//!
//! It is in a directory that only its owner can read and write, `var/lib/landau/tune`. The trial holds a lock on the
//! directory while it runs, so a process that gets the lock and finds a journal knows that the trial was killed. A
//! value is restored only if it is the one that the trial wrote.

use crate::Error;
use crate::name::{check, normalized, write};
use landau_host::Root;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const FOLDER: &str = "var/lib/landau/tune";
const NAME: &str = "journal.json";
const NEW_NAME: &str = "journal.new";
const LOCK: &str = "lock";

/// How long a trial waits until the guard of another trial has ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// Flags that refuse a symbolic link, and that do not wait for the other end of a named pipe.
const GUARD: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// The changes that a trial makes on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journaled {
    /// The profile.
    pub profile: String,
    /// The process of the trial.
    pub process: u32,
    /// The boot ID of the kernel; a reboot resets every sysctl.
    pub boot: Option<String>,
    /// The network namespace to which settings below `net` belong; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The settings, in the order of their changes.
    pub entries: Vec<Entry>,
}

impl Journaled {
    /// Returns whether the settings may still be those of the trial. A reboot of the host resets them.
    pub fn is_of_this_boot(&self, root: &Root) -> bool {
        self.boot == boot(root)
    }
}

/// A setting that a trial changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The value before the trial.
    pub old: String,
    /// The value that the trial sets.
    pub new: String,
}

impl Entry {
    fn is_of_network(&self) -> bool {
        self.name.starts_with("net.")
    }
}

/// The journal of a running trial. Only [`Journal::close`] removes it.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    _lock: File,
}

impl Journal {
    /// Locks the host for a trial, and writes the planned changes to the journal. The file and its directory are synced
    /// to disk.
    ///
    /// # Errors
    ///
    /// Fails if another trial is running, if a killed trial has left a journal, if a setting has changed since the
    /// trial was planned, or if the directory cannot be used.
    pub fn open(root: &Root, profile: &str, entries: Vec<Entry>) -> Result<Self, Error> {
        let folder = root.path(FOLDER);
        let above = folder.parent().unwrap_or(&folder);
        fs::create_dir_all(above).map_err(Error::file(above))?;
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(Error::file(&folder)(error)),
            _ => {}
        }
        check_folder(&folder)?;
        let lock = lock_soon(&folder)?;
        if let Some(left) = read(&folder)? {
            return Err(Error::Left(left.profile));
        }
        // The plan may be older than the lock, from a time when another trial still had its values set.
        let is_stale = |one: &&Entry| root.sysctl(&one.name).is_some_and(|now| now != normalized(&one.old));
        if let Some(one) = entries.iter().find(is_stale) {
            let reason =
                format!("it was {} when the trial was planned and has changed since; run the command again", one.old);
            return Err(Error::Setting { name: one.name.clone(), reason });
        }
        let journaled = Journaled {
            profile: profile.to_owned(),
            process: std::process::id(),
            boot: boot(root),
            network: network(root).filter(|_| entries.iter().any(Entry::is_of_network)),
            entries,
        };
        let (path, new_path) = (folder.join(NAME), folder.join(NEW_NAME));
        let text = serde_json::to_vec(&journaled).map_err(|error| Error::file(&path)(error.into()))?;
        remove(&new_path)?;
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o600).custom_flags(GUARD);
        let written = options.open(&new_path).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new_path, &path)).map_err(Error::file(&path))?;
        sync(&folder)?;
        // The directories may be new, too.
        sync(above)?;
        Ok(Self { folder, _lock: lock })
    }

    /// Removes the journal after everything was restored.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be removed.
    pub fn close(self) -> Result<(), Error> {
        remove(&self.folder.join(NAME))?;
        sync(&self.folder)
    }
}

/// The result of restoring a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Its name.
    pub name: String,
    /// The value before the trial.
    pub old: String,
    /// The value that the trial set.
    pub new: String,
    /// The value that was found; absent if it could not be read.
    pub found: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
    /// Why the setting could not be read or written, if it could not.
    pub reason: Option<String>,
}

/// The outcome of restoring a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The old value was written.
    Restored,
    /// It already had the old value.
    Unchanged,
    /// It has a value that the trial did not write. The value is kept.
    Foreign,
    /// The setting could not be read, or the old value could not be written.
    Failed,
    /// The host has rebooted since, which reset the setting.
    Rebooted,
}

impl Outcome {
    /// Returns whether nothing is left to do.
    pub fn is_done(self) -> bool {
        !matches!(self, Self::Foreign | Self::Failed)
    }
}

/// Returns the changes that a killed trial has left on the host; `None` if there is no such trial, or if the trial is
/// still running.
///
/// # Errors
///
/// Fails if the journal cannot be read or trusted.
pub fn left(root: &Root) -> Result<Option<Journaled>, Error> {
    match unrestored(root) {
        Err(Error::Busy) => Ok(None),
        found => found,
    }
}

/// Like `left`, but a running trial is an error.
pub(crate) fn unrestored(root: &Root) -> Result<Option<Journaled>, Error> {
    let folder = root.path(FOLDER);
    let is_absent = |error: &Error| matches!(error, Error::File { why, .. } if why.kind() == ErrorKind::NotFound);
    let is_denied =
        |error: &Error| matches!(error, Error::File { why, .. } if why.kind() == ErrorKind::PermissionDenied);
    match check_folder(&folder).and_then(|()| lock(&folder, false)) {
        Ok(_lock) => read(&folder),
        // A user without permission to read the directory, or to change a sysctl, cannot restore anything: that is up
        // to root.
        Err(error) if is_absent(&error) || is_denied(&error) => Ok(None),
        // The directory belongs to root, and another user looks at it.
        Err(Error::Refused { .. }) if landau_sys::process::effective_user() != 0 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Restores the settings that a killed trial has left changed, in reverse order, and removes its journal. The list is
/// empty if there is none. A value that the trial did not write is kept, and so is the journal, unless `force` is set.
/// With `wait`, this waits for the end of another trial or of another restoration.
///
/// # Errors
///
/// Fails if a trial is running, or if the journal cannot be read, trusted or removed.
pub fn restore(root: &Root, force: bool, wait: bool) -> Result<Vec<Restored>, Error> {
    let folder = root.path(FOLDER);
    match fs::symlink_metadata(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        _ => check_folder(&folder)?,
    }
    let _lock = lock(&folder, wait)?;
    let Some(journaled) = read(&folder)? else { return Ok(Vec::new()) };
    let is_same_boot = journaled.is_of_this_boot(root);
    if let (Some(theirs), Some(ours)) = (&journaled.network, network(root))
        && (is_same_boot, force) == (true, false)
        && *theirs != ours
    {
        let reason = format!(
            "its settings belong to the network namespace {theirs}, but this process is in {ours}; run landau tune \
             restore there (ip netns, nsenter), or remove the file if that namespace has ended"
        );
        return Err(Error::Refused { path: folder.join(NAME), reason });
    }
    let undo = |entry: &Entry| if is_same_boot { undo(root, entry, force) } else { rebooted(root, entry) };
    let restored: Vec<Restored> = journaled.entries.iter().rev().map(undo).collect();
    if restored.iter().all(|one| one.outcome.is_done()) {
        remove(&folder.join(NAME))?;
        sync(&folder)?;
    }
    Ok(restored)
}

/// Restores a setting if it has the value that the trial wrote; with `force`, whatever value it has.
pub(crate) fn undo(root: &Root, entry: &Entry, force: bool) -> Restored {
    let found = root.sysctl(&entry.name);
    let (outcome, reason) = match &found {
        None => (Outcome::Failed, Some("it cannot be read".to_owned())),
        Some(value) if *value == normalized(&entry.old) => (Outcome::Unchanged, None),
        Some(value) if *value != normalized(&entry.new) && !force => (Outcome::Foreign, None),
        Some(_) => match write(root, &entry.name, &entry.old) {
            Ok(()) if root.sysctl(&entry.name).as_deref() == Some(normalized(&entry.old).as_str()) => {
                (Outcome::Restored, None)
            }
            Ok(()) => (Outcome::Failed, Some("the kernel did not accept the value".to_owned())),
            Err(error) => (Outcome::Failed, Some(error.to_string())),
        },
    };
    Restored { name: entry.name.clone(), old: entry.old.clone(), new: entry.new.clone(), found, outcome, reason }
}

fn rebooted(root: &Root, entry: &Entry) -> Restored {
    Restored {
        name: entry.name.clone(),
        old: entry.old.clone(),
        new: entry.new.clone(),
        found: root.sysctl(&entry.name),
        outcome: Outcome::Rebooted,
        reason: None,
    }
}

fn boot(root: &Root) -> Option<String> {
    root.text("proc/sys/kernel/random/boot_id")
}

fn network(root: &Root) -> Option<String> {
    root.link("proc/self/ns/net")
}

/// Locks the directory. Waits for a guard that is about to exit: it holds the lock until its work is on disk.
fn lock_soon(folder: &Path) -> Result<File, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match lock(folder, false) {
            Err(Error::Busy) if Instant::now() < deadline => std::thread::sleep(PATIENCE / 100),
            other => return other,
        }
    }
}

/// Locks the directory; the lock is released when the process ends.
fn lock(folder: &Path, wait: bool) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(GUARD);
    let file = options.open(&path).map_err(Error::file(&path))?;
    if wait {
        file.lock().map_err(Error::file(&path))?;
        return Ok(file);
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Busy),
        Err(fs::TryLockError::Error(error)) => Err(Error::file(&path)(error)),
    }
}

/// Reads the journal in a directory whose owner was checked; `None` if there is no journal.
fn read(folder: &Path) -> Result<Option<Journaled>, Error> {
    let path = folder.join(NAME);
    let mut file = match File::options().read(true).custom_flags(GUARD).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file(&path)(error)),
    };
    let refused = |reason: &str| Error::Refused { path: path.clone(), reason: reason.to_owned() };
    let meta = file.metadata().map_err(Error::file(&path))?;
    if !meta.is_file() || !is_own(&meta) {
        return Err(refused("another user may have written it; inspect it, then remove it"));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(Error::file(&path))?;
    let journaled: Journaled = serde_json::from_slice(&text).map_err(|error| Error::file(&path)(error.into()))?;
    if journaled.entries.iter().any(|entry| check(&entry.name).is_err()) {
        return Err(refused("it names settings that no trial changes; inspect it, then remove it"));
    }
    Ok(Some(journaled))
}

/// Checks that only this user can have written to the directory.
fn check_folder(folder: &Path) -> Result<(), Error> {
    let meta = fs::symlink_metadata(folder).map_err(Error::file(folder))?;
    if meta.is_dir() && is_own(&meta) {
        return Ok(());
    }
    let reason = if meta.is_dir() && meta.uid() == 0 && landau_sys::process::effective_user() != 0 {
        "it belongs to root, because root ran a trial; run this command as root"
    } else {
        "it must be a folder in which only this user can write; inspect it, then remove it"
    };
    Err(Error::Refused { path: folder.to_owned(), reason: reason.to_owned() })
}

fn is_own(meta: &Metadata) -> bool {
    meta.uid() == landau_sys::process::effective_user() && meta.mode() & 0o022 == 0
}

pub(crate) fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(Error::file(folder))
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plant;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn entry(name: &str, old: &str, new: &str) -> Entry {
        Entry { name: name.to_owned(), old: old.to_owned(), new: new.to_owned() }
    }

    /// A host with two settings, and the journal of a killed trial of both.
    fn killed() -> (tempfile::TempDir, Root) {
        let room = tempfile::tempdir().unwrap();
        plant(room.path(), "vm.dirty_ratio", "20");
        plant(room.path(), "fs.file-max", "1000");
        let root = Root::planted(room.path());
        let entries = vec![entry("vm.dirty_ratio", "20", "40"), entry("fs.file-max", "1000", "2000")];
        drop(Journal::open(&root, "files", entries).unwrap());
        (room, root)
    }

    #[test]
    fn what_the_trial_wrote_is_restored_and_what_another_wrote_is_kept() {
        let (room, root) = killed();
        plant(room.path(), "vm.dirty_ratio", "40");
        plant(room.path(), "fs.file-max", "3000");
        assert_eq!(left(&root).unwrap().unwrap().entries.len(), 2);
        let outcomes = |restored: Vec<Restored>| restored.iter().map(|one| one.outcome).collect::<Vec<_>>();
        assert_eq!(outcomes(restore(&root, false, false).unwrap()), [Outcome::Foreign, Outcome::Restored]);
        assert_eq!(root.sysctl("fs.file-max").as_deref(), Some("3000"));
        assert_eq!(root.sysctl("vm.dirty_ratio").as_deref(), Some("20"));
        // The journal stays until every setting is restored.
        assert!(left(&root).unwrap().is_some());
        assert!(matches!(Journal::open(&root, "files", Vec::new()), Err(Error::Left(_))));
        assert_eq!(outcomes(restore(&root, true, false).unwrap()), [Outcome::Restored, Outcome::Unchanged]);
        assert_eq!(root.sysctl("fs.file-max").as_deref(), Some("1000"));
        assert!(left(&root).unwrap().is_none() && restore(&root, false, false).unwrap().is_empty());
    }

    #[test]
    fn a_trial_that_runs_is_not_undone() {
        let room = tempfile::tempdir().unwrap();
        let root = Root::planted(room.path());
        let journal = Journal::open(&root, "files", vec![entry("vm.dirty_ratio", "20", "40")]).unwrap();
        assert!(left(&root).unwrap().is_none());
        assert!(matches!(restore(&root, true, false), Err(Error::Busy)));
        assert!(matches!(Journal::open(&root, "files", Vec::new()), Err(Error::Busy)));
        journal.close().unwrap();
        assert!(restore(&root, false, false).unwrap().is_empty());
    }

    /// A trial that had waited for another one to end once took the other's values for those of the host.
    #[test]
    fn values_that_changed_since_the_plan_are_not_journaled() {
        let room = tempfile::tempdir().unwrap();
        plant(room.path(), "vm.dirty_ratio", "20");
        let root = Root::planted(room.path());
        let opened = Journal::open(&root, "own", vec![entry("vm.dirty_ratio", "40", "30")]);
        assert!(matches!(opened, Err(Error::Setting { .. })), "{opened:?}");
        assert!(left(&root).unwrap().is_none());
        assert_eq!(root.sysctl("vm.dirty_ratio").as_deref(), Some("20"));
    }

    #[test]
    fn a_new_boot_has_reset_everything() {
        let (room, root) = killed();
        plant(room.path(), "kernel.random.boot_id", "another");
        plant(room.path(), "vm.dirty_ratio", "30");
        let restored = restore(&root, false, false).unwrap();
        assert!(restored.iter().all(|one| one.outcome == Outcome::Rebooted), "{restored:?}");
        assert_eq!(root.sysctl("vm.dirty_ratio").as_deref(), Some("30"));
        assert!(left(&root).unwrap().is_none());
    }

    /// In another namespace, the same names are different settings.
    #[test]
    fn settings_of_another_network_namespace_are_not_restored_here() {
        let room = tempfile::tempdir().unwrap();
        plant(room.path(), "net.core.somaxconn", "4096");
        let link = room.path().join("proc/self/ns/net");
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink("net:[2]", &link).unwrap();
        let root = Root::planted(room.path());
        drop(Journal::open(&root, "own", vec![entry("net.core.somaxconn", "4096", "16")]).unwrap());
        fs::remove_file(&link).unwrap();
        symlink("net:[1]", &link).unwrap();
        let refused = restore(&root, false, false).unwrap_err().to_string();
        assert!(refused.contains("the network namespace net:[2], but this process is in net:[1]"), "{refused}");
        assert!(left(&root).unwrap().is_some(), "the journal stays");
        fs::remove_file(&link).unwrap();
        symlink("net:[2]", &link).unwrap();
        assert_eq!(restore(&root, false, false).unwrap()[0].outcome, Outcome::Unchanged);
    }

    /// Guards against values from other users: root writes whatever the journal says.
    #[test]
    fn a_journal_that_another_may_have_written_is_refused() {
        let (room, root) = killed();
        let folder = room.path().join(FOLDER);
        let path = folder.join(NAME);
        let mode = |path: &Path, mode: u32| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        mode(&path, 0o666);
        assert!(matches!(restore(&root, false, false), Err(Error::Refused { .. })));
        mode(&path, 0o600);
        mode(&folder, 0o777);
        assert!(matches!(restore(&root, false, false), Err(Error::Refused { .. })));
        mode(&folder, 0o700);
        fs::rename(&path, folder.join("other")).unwrap();
        symlink("other", &path).unwrap();
        assert!(restore(&root, false, false).is_err());
        fs::remove_file(&path).unwrap();
        let text = r#"{"profile":"x","process":1,"boot":null,"entries":[{"name":"../../etc/x","old":"1","new":"2"}]}"#;
        fs::write(&path, text).unwrap();
        mode(&path, 0o600);
        assert!(matches!(restore(&root, false, false), Err(Error::Refused { .. })));
    }
}
