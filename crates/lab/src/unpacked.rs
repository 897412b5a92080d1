//! Kernels that were unpacked into the cache: each has a directory, with its checksum, that is either complete or
//! absent.

use crate::image;
use crate::kernel::{Error, Kernel, Kind};
use landau_sys::signal::interrupted;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

/// A temporary directory that is filled and then renamed, so that the final directory is complete whenever it exists.
pub(crate) struct Draft(PathBuf);

impl Draft {
    /// Creates an empty one next to `target`.
    pub(crate) fn new(target: &Path) -> Result<Self, Error> {
        let mut name = target.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let folder = target.with_file_name(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        Ok(Self(folder))
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After the rename there is nothing to remove.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates a directory with an unpacked kernel, which `unpack` writes, and the kernel's checksum.
pub(crate) fn create(folder: &Path, unpack: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let draft = Draft::new(folder)?;
    unpack(draft.path())?;
    let sum = draft.path().join("sha256");
    std::fs::write(&sum, sha256(&draft.path().join("vmlinuz"))?).map_err(|error| Error::io(&sum, error))?;
    let _ = std::fs::remove_dir_all(folder);
    std::fs::rename(draft.path(), folder).map_err(|error| Error::io(folder, error))
}

/// Returns whether a directory contains the kernel that was unpacked into it, unchanged.
pub(crate) fn is_intact(folder: &Path) -> Result<bool, Error> {
    let image = folder.join("vmlinuz");
    match std::fs::read_to_string(folder.join("sha256")) {
        Ok(sum) if image.exists() => Ok(sum == sha256(&image)?),
        _ => Ok(false),
    }
}

/// Returns the kernel that [`create`] wrote into a directory.
pub(crate) fn kernel(folder: &Path, origin: String) -> Result<Kernel, Error> {
    let kernel = kernel_in_file(&folder.join("vmlinuz"), origin)?;
    let existing = |name| Some(folder.join(name)).filter(|path| path.exists());
    Ok(Kernel { config: existing("config"), system_map: existing("System.map"), ..kernel })
}

/// Returns the kernel in a file. If no platform can run it, the error says what the file contains.
pub(crate) fn kernel_in_file(image: &Path, origin: String) -> Result<Kernel, Error> {
    let found = image::inspect(image)?;
    if let Some(what) = found.refusal().filter(|_| found.kind != Kind::Uml) {
        return Err(Error::Wrong { path: image.to_owned(), what });
    }
    let file_name = || image.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(Kernel {
        name: found.release.clone().unwrap_or_else(file_name),
        image: std::path::absolute(image).map_err(|error| Error::io(image, error))?,
        kind: found.kind,
        release: found.release,
        sha256: sha256(image)?,
        origin,
        config: None,
        system_map: None,
    })
}

/// Returns the SHA-256 of a file, in hexadecimal.
pub(crate) fn sha256(path: &Path) -> Result<String, Error> {
    let failed = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        if interrupted().is_some() {
            return Err(failed(ErrorKind::Interrupted.into()));
        }
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
