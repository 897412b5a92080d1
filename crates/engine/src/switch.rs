//! Switches the host for the passes of the new side, and back, by commands of the user.
//!
//! While the host is switched, the scratch directory contains a marker. If the run is killed, the marker stays with the
//! directory, and the next run names the command that restores the host.

use crate::scratch::is_own;
use crate::{Error, Scratch};
use landau_record::schema;
use landau_sys::process::OwnedChild;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A command that has not ended after this time is killed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The interval at which a running command is polled, between two passes.
const LOOK: Duration = Duration::from_millis(5);

/// The names of files in the scratch directory: the marker, an unfinished marker, and the standard error of a command.
const MARKER: &str = "switched";
const MARKER_TORN: &str = "switched.torn";
const COMPLAINT: &str = "switch-stderr";

/// The option with the command that restores the host.
const RESTORE: &str = "--restore";

/// The flags for opening a file without following a link or waiting for the other end of a named pipe.
const GUARD: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK;

/// Changes the host for the passes of the new side, and back.
pub trait HostSwitch: std::fmt::Debug {
    /// Switches the host, unless it is switched already.
    ///
    /// # Errors
    ///
    /// Fails if the switch fails, or if `interrupted` returns true in the meantime. The host then counts as switched.
    fn turn_on(&mut self, interrupted: &dyn Fn() -> bool) -> Result<(), Error>;

    /// Restores the host, if it is switched. An interruption does not stop this.
    ///
    /// # Errors
    ///
    /// Fails if the host cannot be restored; the next call tries again.
    fn turn_off(&mut self) -> Result<(), Error>;
}

/// The state of the host, and the commands that change it.
#[derive(Debug)]
pub struct Switch {
    commands: schema::Switch,
    /// The run that switches the host, as its records name it.
    run: String,
    folder: PathBuf,
    is_on: bool,
}

/// The content of a marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switched {
    /// The run that switched the host, as its records name it.
    pub run: String,
    /// The command that restores the host.
    pub restore: String,
}

impl Switched {
    /// Returns the content of a scratch directory's marker; none if the host was not switched when its run ended, or if
    /// another user can have written the marker.
    pub fn of(folder: &Path) -> Option<Self> {
        let mut file = File::options().read(true).custom_flags(GUARD).open(folder.join(MARKER)).ok()?;
        if !file.metadata().is_ok_and(|meta| meta.is_file() && is_own(&meta)) {
            return None;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Restores the host that an earlier run left switched, and removes its directory. The caller is responsible for
    /// the command.
    ///
    /// # Errors
    ///
    /// Fails if the command does; the host is then as the earlier run left it.
    pub fn restore(&self, folder: &Path) -> Result<(), Error> {
        run(RESTORE, &self.restore, folder, &|| false)?;
        forget(folder, &self.restore)?;
        // A later run removes the directory if it cannot be removed now.
        let _ = std::fs::remove_dir_all(folder);
        Ok(())
    }
}

impl Switch {
    /// Returns the switch of a run; the host is not switched.
    pub fn new(commands: schema::Switch, run: String, scratch: &Scratch) -> Self {
        Self { commands, run, folder: scratch.path().to_owned(), is_on: false }
    }
}

impl HostSwitch for Switch {
    fn turn_on(&mut self, interrupted: &dyn Fn() -> bool) -> Result<(), Error> {
        if self.is_on {
            return Ok(());
        }
        let marker = Switched { run: self.run.clone(), restore: self.commands.restore.clone() };
        let failed = |error: std::io::Error| refused("--switch", &self.commands.command, error.to_string());
        let text = serde_json::to_vec(&marker).map_err(|error| failed(error.into()))?;
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(GUARD);
        // The marker gets its name only when it is complete: a torn marker would stop every later run.
        let (torn, marker) = (self.folder.join(MARKER_TORN), self.folder.join(MARKER));
        options.open(&torn).and_then(|mut file| file.write_all(&text)).map_err(failed)?;
        std::fs::rename(torn, marker).map_err(failed)?;
        // A command that fails may have done a part of its work, so it is undone too.
        self.is_on = true;
        run("--switch", &self.commands.command, &self.folder, interrupted)
    }

    fn turn_off(&mut self) -> Result<(), Error> {
        if !self.is_on {
            return Ok(());
        }
        let restore = &self.commands.restore;
        run(RESTORE, restore, &self.folder, &|| false).map_err(|error| match error {
            Error::Switch { command, reason, .. } => Error::NotRestored { command, reason, before: None },
            other => other,
        })?;
        self.is_on = false;
        forget(&self.folder, restore)
    }
}

/// Restores the host after the operation that returned `result`. The error of that operation comes first.
pub(crate) fn settle<T>(switch: &mut dyn HostSwitch, result: Result<T, Error>) -> Result<T, Error> {
    match (result, switch.turn_off()) {
        (result, Ok(())) => result,
        (Ok(_), Err(error)) => Err(error),
        (Err(first), Err(Error::NotRestored { command, reason, .. })) => {
            Err(Error::NotRestored { command, reason, before: Some(Box::new(first)) })
        }
        (Err(first), Err(_)) => Err(first),
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // This is needed after a panic. If the command fails, the marker stays, and the next run reports it.
        let _ = self.turn_off();
    }
}

/// Returns whether the run of a scratch directory left the host switched. Only a marker of this user counts.
pub(crate) fn is_switched(folder: &Path) -> bool {
    std::fs::symlink_metadata(folder.join(MARKER)).is_ok_and(|meta| meta.is_file() && is_own(&meta))
}

/// Removes the marker after the host was restored.
fn forget(folder: &Path, restore: &str) -> Result<(), Error> {
    match std::fs::remove_file(folder.join(MARKER)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(refused(RESTORE, restore, format!("the host is restored, but {}: {error}", folder.display())))
        }
        _ => Ok(()),
    }
}

fn refused(flag: &'static str, command: &str, reason: String) -> Error {
    Error::Switch { flag, command: command.to_owned(), reason }
}

/// Creates a file, which replaces an existing one; a link is removed, not followed.
fn new_file(path: &Path) -> std::io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).custom_flags(GUARD).open(path)
}

/// Runs a command in a shell and waits for its end. Ctrl-C at the terminal does not reach it.
fn run(flag: &'static str, command: &str, folder: &Path, interrupted: &dyn Fn() -> bool) -> Result<(), Error> {
    let failed = |reason: String| refused(flag, command, reason);
    let complaint = folder.join(COMPLAINT);
    let errors = match new_file(&complaint) {
        Ok(file) => Stdio::from(file),
        // The host must be restored even if the directory is gone or its device is full. The messages of the command
        // are lost.
        Err(_) if flag == RESTORE => Stdio::null(),
        Err(error) => return Err(failed(format!("{}: {error}", complaint.display()))),
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut child = OwnedChild::spawn_group(&mut shell).map_err(|error| failed(format!("sh: {error}")))?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| failed(error.to_string()))? {
            break status;
        }
        if interrupted() {
            return Err(failed("interrupted".to_owned()));
        }
        if began.elapsed() > TIMEOUT {
            return Err(failed(format!("it did not end within {} s and was killed", TIMEOUT.as_secs())));
        }
        std::thread::sleep(LOOK);
    };
    if status.success() {
        return Ok(());
    }
    let said = std::fs::read(&complaint).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).map_or(String::new(), |line| format!(": {line}"));
    let ending = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    };
    Err(failed(format!("{ending}{last}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a switch whose commands write to the file `host` in a directory.
    fn switch(room: &Path, command: &str, restore: &str) -> (Switch, Scratch) {
        let scratch = Scratch::create(room).unwrap();
        let command = format!("cd '{}'; {command}", room.display());
        let restore = format!("cd '{}'; {restore}", room.display());
        (Switch::new(schema::Switch { command, restore }, "a run".to_owned(), &scratch), scratch)
    }

    fn host(room: &Path) -> String {
        std::fs::read_to_string(room.join("host")).unwrap_or_default()
    }

    #[test]
    fn the_host_is_switched_once_and_restored_once() {
        let room = tempfile::tempdir().unwrap();
        let (mut switch, scratch) = switch(room.path(), "echo on >> host", "echo off >> host");
        switch.turn_off().unwrap();
        switch.turn_on(&|| false).unwrap();
        switch.turn_on(&|| false).unwrap();
        let marker = Switched::of(scratch.path()).unwrap();
        assert!(marker.run == "a run" && marker.restore.ends_with("echo off >> host"), "{marker:?}");
        switch.turn_off().unwrap();
        drop(switch);
        assert_eq!((host(room.path()).as_str(), Switched::of(scratch.path())), ("on\noff\n", None));
    }

    /// A command that fails half way has changed something, so it is undone.
    #[test]
    fn a_command_that_fails_is_undone_and_says_why() {
        let room = tempfile::tempdir().unwrap();
        let (mut switch, _scratch) = switch(room.path(), "echo half >> host; echo no such key >&2; exit 3", "rm host");
        let error = switch.turn_on(&|| false).unwrap_err().to_string();
        assert!(error.contains("--switch") && error.contains("exit status 3: no such key"), "{error}");
        assert_eq!(host(room.path()), "half\n");
        drop(switch);
        assert_eq!(host(room.path()), "");
    }

    #[test]
    fn an_interruption_ends_the_switch_and_not_its_undoing() {
        let room = tempfile::tempdir().unwrap();
        let (mut switch, _scratch) = switch(room.path(), "exec sleep 1000", "echo off >> host");
        let error = switch.turn_on(&|| true).unwrap_err().to_string();
        assert!(error.contains("interrupted"), "{error}");
        switch.turn_off().unwrap();
        assert_eq!(host(room.path()), "off\n");
    }

    /// Guards against a host that is left switched without a message.
    #[test]
    fn a_host_that_cannot_be_restored_keeps_its_marker_and_is_named() {
        let room = tempfile::tempdir().unwrap();
        let (mut switch, scratch) = switch(room.path(), "true", "test -e mended");
        switch.turn_on(&|| false).unwrap();
        let error = settle::<()>(&mut switch, Err(Error::Worker("gone".to_owned()))).unwrap_err().to_string();
        assert!(error.contains("still switched") && error.contains("before that: cannot start a worker"), "{error}");
        drop(switch);
        let folder = scratch.path().to_owned();
        drop(scratch);
        let left = Switched::of(&folder).expect("the folder is kept");
        std::fs::write(room.path().join("mended"), "").unwrap();
        left.restore(&folder).unwrap();
        assert_eq!(Switched::of(&folder), None);
    }

    /// Guards against a host that stays switched because the file for the messages of the command cannot be created.
    #[test]
    fn the_host_is_restored_if_the_folder_is_gone() {
        let room = tempfile::tempdir().unwrap();
        let (mut switch, scratch) = switch(room.path(), "true", "echo off >> host");
        switch.turn_on(&|| false).unwrap();
        std::fs::remove_dir_all(scratch.path()).unwrap();
        switch.turn_off().unwrap();
        assert_eq!(host(room.path()), "off\n");
        // The host is not switched without a marker, so the command is not started.
        assert!(switch.turn_on(&|| false).is_err());
        assert_eq!(host(room.path()), "off\n");
    }

    #[test]
    fn the_file_for_complaints_is_not_opened_through_a_link() {
        let room = tempfile::tempdir().unwrap();
        let (mut switch, scratch) = switch(room.path(), "echo no >&2; exit 3", "true");
        let kept = room.path().join("kept");
        std::fs::write(&kept, "mine").unwrap();
        std::os::unix::fs::symlink(&kept, scratch.path().join(COMPLAINT)).unwrap();
        let error = switch.turn_on(&|| false).unwrap_err().to_string();
        assert!(error.contains("exit status 3: no"), "{error}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine");
    }
}
