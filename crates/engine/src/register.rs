//! The register of scratch folders: a file in the user's home that names those of runs that have not ended.
//!
//! A run that is killed leaves its folder behind. The next one in the same place removes it; the register is how one in
//! another place finds it, too. Without a home there is no register, and nothing else depends on it.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The most folders that the register holds. One that does not exist stays: its file system may be mounted again.
const MOST: usize = 64;

/// The register of a user.
#[derive(Debug, Clone)]
pub(crate) struct Register(PathBuf);

impl Register {
    /// Returns that of this user: `landau/scratch` in `$XDG_STATE_HOME`, else in `~/.local/state`.
    pub(crate) fn of_user() -> Option<Self> {
        let folder = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))?;
        Some(Self(state.join("landau/scratch")))
    }

    /// Adds a folder.
    pub(crate) fn add(&self, folder: &Path) -> std::io::Result<()> {
        self.change(|folders| {
            folders.push(folder.to_owned());
            folders.drain(..folders.len().saturating_sub(MOST));
        })
    }

    /// Removes a folder.
    pub(crate) fn remove(&self, folder: &Path) -> std::io::Result<()> {
        self.change(|folders| folders.retain(|other| other != folder))
    }

    /// Returns the folders; none if they cannot be read.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        fs::read(&self.0).map(|bytes| parse(&bytes)).unwrap_or_default()
    }

    /// Changes the folders while no other run does.
    fn change(&self, change: impl FnOnce(&mut Vec<PathBuf>)) -> std::io::Result<()> {
        if let Some(parent) = self.0.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&self.0)?;
        file.lock()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let mut folders = parse(&bytes);
        change(&mut folders);
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        let text: Vec<u8> = folders.iter().flat_map(|folder| [folder.as_os_str().as_bytes(), b"\n"].concat()).collect();
        file.write_all(&text)
    }
}

/// Reads one folder from each line. No folder of Landau has a line break in its own name, and one whose parent has is
/// not found again.
fn parse(bytes: &[u8]) -> Vec<PathBuf> {
    let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| PathBuf::from(std::ffi::OsString::from_vec(line.to_vec()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_added_removed_and_bounded() {
        let room = tempfile::tempdir().unwrap();
        let register = Register(room.path().join("state/landau/scratch"));
        assert_eq!(register.folders(), Vec::<PathBuf>::new());
        let folder = |number: usize| PathBuf::from(format!("/mnt/{number}"));
        for number in 0..MOST + 2 {
            register.add(&folder(number)).unwrap();
        }
        register.remove(&folder(5)).unwrap();
        let folders = register.folders();
        assert_eq!((folders.first(), folders.last()), (Some(&folder(2)), Some(&folder(MOST + 1))));
        assert_eq!(folders.len(), MOST - 1);
    }
}
