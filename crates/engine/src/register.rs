//! Registers: files in the user's home directory that inform a run about this user's earlier runs, one fact a line.
//!
//! One register lists the scratch directories of runs that have not ended. A run that is killed leaves its directory
//! behind. The next run in the same place removes it; through the register, a run in another place finds it, too.
//! Another register lists what runs have [executed](crate::Executed). Without a home directory there is no register,
//! and no run fails because of that.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

/// The maximum number of lines in a register; the oldest are dropped first. The line of a directory that does not exist
/// stays: its file system may be mounted again.
const MOST: usize = 64;

/// A register of a user.
#[derive(Debug, Clone)]
pub(crate) struct Register(PathBuf);

impl Register {
    /// Returns a register of this user: a file in the directory `landau` in `$XDG_STATE_HOME`, otherwise in
    /// `~/.local/state`.
    pub(crate) fn of_user(name: &str) -> Option<Self> {
        let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
        Some(Self(state.join("landau").join(name)))
    }

    /// Adds a line, or makes an existing line the newest.
    pub(crate) fn add(&self, line: impl AsRef<OsStr>) -> std::io::Result<()> {
        self.change(|lines| {
            lines.retain(|other| other != line.as_ref());
            lines.push(line.as_ref().to_owned());
            lines.drain(..lines.len().saturating_sub(MOST));
        })
    }

    /// Removes a line.
    pub(crate) fn remove(&self, line: impl AsRef<OsStr>) -> std::io::Result<()> {
        self.change(|lines| lines.retain(|other| other != line.as_ref()))
    }

    /// Returns the lines, locked against changes by other runs; none if they cannot be read.
    pub(crate) fn lines(&self) -> Vec<OsString> {
        let read = || {
            let mut file = File::open(&self.0)?;
            file.lock_shared()?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            std::io::Result::Ok(parse(&bytes))
        };
        read().unwrap_or_default()
    }

    /// Changes the lines, locked against other runs. A new file replaces the old one, so the old lines survive if the
    /// run is killed in between or the device is full.
    fn change(&self, change: impl FnOnce(&mut Vec<OsString>)) -> std::io::Result<()> {
        if let Some(parent) = self.0.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut held = self.locked()?;
        let mut bytes = Vec::new();
        held.read_to_end(&mut bytes)?;
        let mut lines = parse(&bytes);
        change(&mut lines);
        let text: Vec<u8> = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        // The lock permits one writer at a time, so an existing file was left by a writer that was killed.
        let new = self.0.with_extension("new");
        let _ = fs::remove_file(&new);
        // Other users must not read commands and environments.
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        let replaced = file.write_all(&text).and_then(|()| fs::rename(&new, &self.0));
        if replaced.is_err() {
            let _ = fs::remove_file(&new);
        }
        replaced
    }

    /// Opens and locks the file. Another run may replace the file between the two; the lock is then that of the old
    /// file, and both are repeated.
    fn locked(&self) -> std::io::Result<File> {
        loop {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&self.0)?;
            file.lock()?;
            let held = file.metadata()?;
            match fs::metadata(&self.0) {
                Ok(there) if (there.dev(), there.ino()) == (held.dev(), held.ino()) => return Ok(file),
                _ => {}
            }
        }
    }
}

/// Splits the file into lines. No directory of Landau has a line break in its own name; a directory whose parent has
/// one is not found again.
fn parse(bytes: &[u8]) -> Vec<OsString> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| OsString::from_vec(line.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Guards against a register that is empty for a moment: the run may be killed in that moment, or the device may be
    /// full.
    #[test]
    fn the_old_lines_stay_until_the_new_ones_are_written() {
        let room = tempfile::tempdir().unwrap();
        let register = Register(room.path().join("scratch"));
        register.add("/mnt/1").unwrap();
        let mut old = File::open(&register.0).unwrap();
        register.add("/mnt/2").unwrap();
        let mut text = String::new();
        old.read_to_string(&mut text).unwrap();
        assert_eq!(text, "/mnt/1\n");
        // A file that cannot be written changes nothing.
        fs::create_dir(room.path().join("scratch.new")).unwrap();
        register.add("/mnt/3").unwrap_err();
        assert_eq!(register.lines(), ["/mnt/1", "/mnt/2"]);
        fs::remove_dir(room.path().join("scratch.new")).unwrap();
        // A file that a killed run has left is no obstacle, and its mode is not kept.
        fs::write(room.path().join("scratch.new"), "/mnt/").unwrap();
        register.add("/mnt/4").unwrap();
        assert_eq!(register.lines(), ["/mnt/1", "/mnt/2", "/mnt/4"]);
        assert!(!room.path().join("scratch.new").exists());
        assert_eq!(fs::metadata(&register.0).unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// Guards against lost lines when a run waits for the lock of a file that another run replaces.
    #[test]
    fn no_line_of_runs_that_change_it_at_once_is_lost() {
        let room = tempfile::tempdir().unwrap();
        let register = Register(room.path().join("scratch"));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let register = &register;
                scope.spawn(move || (0..8).for_each(|number| register.add(format!("/{thread}/{number}")).unwrap()));
            }
        });
        assert_eq!(register.lines().len(), MOST);
    }

    #[test]
    fn lines_are_added_once_removed_and_bounded() {
        let room = tempfile::tempdir().unwrap();
        let register = Register(room.path().join("state/landau/scratch"));
        assert_eq!(register.lines(), Vec::<OsString>::new());
        let folder = |number: usize| PathBuf::from(format!("/mnt/{number}"));
        for number in 0..MOST + 2 {
            register.add(folder(number)).unwrap();
        }
        register.remove(folder(5)).unwrap();
        register.add(folder(2)).unwrap();
        let lines = register.lines();
        assert_eq!((lines.first(), lines.last()), (Some(&folder(3).into()), Some(&folder(2).into())));
        assert_eq!(lines.len(), MOST - 1);
        assert_eq!(fs::metadata(&register.0).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
