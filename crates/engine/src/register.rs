//! Registers: files in the user's home that tell a run about earlier ones of this user, one line for each fact.
//!
//! That of scratch folders names those of runs that have not ended. A run that is killed leaves its folder behind. The
//! next one in the same place removes it; the register is how one in another place finds it, too. Another register
//! holds what runs have [executed](crate::Executed). Without a home there is no register, and no run fails for it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// The most lines that a register holds; the oldest go first. A folder that does not exist stays: its file system may
/// be mounted again.
const MOST: usize = 64;

/// A register of a user.
#[derive(Debug, Clone)]
pub(crate) struct Register(PathBuf);

impl Register {
    /// Returns one of this user's: a file in the folder `landau` in `$XDG_STATE_HOME`, else in `~/.local/state`.
    pub(crate) fn of_user(name: &str) -> Option<Self> {
        let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
        Some(Self(state.join("landau").join(name)))
    }

    /// Adds a line, or makes it the youngest.
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

    /// Returns the lines while no other run changes them; none if they cannot be read.
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

    /// Changes the lines while no other run does.
    fn change(&self, change: impl FnOnce(&mut Vec<OsString>)) -> std::io::Result<()> {
        if let Some(parent) = self.0.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut options = File::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&self.0)?;
        file.lock()?;
        // An earlier version left the mode to the umask; commands and environments are nobody else's business.
        file.set_permissions(Permissions::from_mode(0o600))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut lines = parse(&bytes);
        change(&mut lines);
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        let text: Vec<u8> = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        file.write_all(&text)
    }
}

/// Splits the file into lines. No folder of Landau has a line break in its own name, and one whose parent has is not
/// found again.
fn parse(bytes: &[u8]) -> Vec<OsString> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| OsString::from_vec(line.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
