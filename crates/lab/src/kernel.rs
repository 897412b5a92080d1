//! Where a kernel comes from: a file, a package, or Debian's archive.

use crate::image::{self, Kind};
use crate::{deb, debian};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What keeps a kernel from being had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// The file is something else.
    #[error("{}: {what}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// What it is and what is wanted.
        what: String,
    },
    /// A Debian package is damaged or holds no kernel.
    #[error("{}: not a kernel's Debian package: {what}", path.display())]
    Package {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No kernel in Debian's archive, or no single one, is meant.
    #[error("debian:{wanted}: {what}; there are {}", if known.is_empty() { "none" } else { known })]
    Version {
        /// What was asked for.
        wanted: String,
        /// What is wrong with it.
        what: String,
        /// What there is.
        known: String,
    },
    /// The archive names a package but does not give its file: what is being renewed, or was cleared away.
    #[error("{file} could not be fetched: {why}; the archive's index names it, its mirror does not give it")]
    Fetch {
        /// The package's file.
        file: String,
        /// What the package client said.
        why: String,
    },
    /// The package client is not there, or failed.
    #[error("{0}")]
    Apt(String),
    /// The word names no file.
    #[error("there is no kernel `{0}`: no such file; `debian:VERSION` fetches one, `host` is the one that runs now")]
    NotThere(String),
    /// The word names something that is not a kernel in a file.
    #[error("{0} is not a kernel that could be fetched or read from a file")]
    NoFile(String),
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}

/// What a word after `--kernel` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The kernel that runs now.
    Host,
    /// A kernel or a package in a file.
    File(PathBuf),
    /// A kernel of Debian's archive, by version and flavour.
    Debian(String),
    /// The list of what Debian's archive has.
    DebianList,
    /// A whole system on a disk.
    Image(PathBuf),
    /// A system that is reached by ssh.
    Ssh(String),
}

impl Source {
    /// Reads a word. What has no known beginning is a file; a file whose name begins so is meant by `./`.
    pub fn parse(word: &str) -> Self {
        match word.split_once(':') {
            _ if word == "host" => Self::Host,
            Some(("debian", "?" | "" | "list")) => Self::DebianList,
            Some(("debian", version)) => Self::Debian(version.to_owned()),
            Some(("image", path)) => Self::Image(PathBuf::from(path)),
            Some(("ssh", target)) => Self::Ssh(target.to_owned()),
            _ => Self::File(PathBuf::from(word)),
        }
    }
}

/// A kernel that is in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// What it is called in lists: its release, or the file's name.
    pub name: String,
    /// The file to boot.
    pub image: PathBuf,
    /// What kind of file that is.
    pub kind: Kind,
    /// The release that the kernel gives as its own.
    pub release: Option<String>,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// The package with its version, or the file that was given.
    pub origin: String,
    /// The configuration it was built with, where that is known.
    pub config: Option<PathBuf>,
    /// Its symbols, where they are known.
    pub system_map: Option<PathBuf>,
}

impl Kernel {
    /// The kernel in a file that is known to hold one, with what lies beside it.
    pub(crate) fn in_file(image: &Path, origin: String) -> Result<Self, Error> {
        let found = image::inspect(image)?;
        if let Some(what) = found.refusal().filter(|_| found.kind != Kind::Uml) {
            return Err(Error::Wrong { path: image.to_owned(), what });
        }
        let file_name = || image.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Self {
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

    /// One that is in no file.
    fn without_file(name: String, kind: Kind, origin: String) -> Self {
        let (release, sha256, config, system_map) = (None, String::new(), None, None);
        Self { name, image: PathBuf::new(), kind, release, sha256, origin, config, system_map }
    }

    /// The kernel that runs now.
    pub fn running() -> Self {
        let release = landau_sys::system::kernel().map_or_else(|_| "host".to_owned(), |kernel| kernel.release);
        Self { release: Some(release.clone()), ..Self::without_file(release, Kind::Running, "host".to_owned()) }
    }

    /// Whatever runs at the other end of ssh; its record knows its release.
    pub fn remote(target: &str) -> Self {
        Self::without_file(target.to_owned(), Kind::Remote, target.to_owned())
    }

    /// A system on a disk; its record knows its release.
    pub fn on_disk(path: &Path) -> Result<Self, Error> {
        let found = image::inspect(path)?;
        if !matches!(found.kind, Kind::DiskImage(_)) {
            let what = "this is not a disk image in qcow2 or raw form, which image:FILE wants".to_owned();
            return Err(Error::Wrong { path: path.to_owned(), what });
        }
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let image = std::path::absolute(path).map_err(|error| Error::io(path, error))?;
        Ok(Self { image, ..Self::without_file(name, found.kind, path.display().to_string()) })
    }
}

/// The folder that holds what was fetched and unpacked, unless the user names another: `landau` in the user's caches.
/// `None` where neither `XDG_CACHE_HOME` nor `HOME` is set to a path.
pub fn default_cache() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    caches.map(|caches| caches.join("landau"))
}

/// Gets the kernel that a word names. What is fetched or unpacked goes into `cache` and nowhere else; `tell` hears what
/// takes long. A [`Source`] that is no file is an error here.
pub fn obtain(word: &str, cache: &Path, tell: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    match Source::parse(word) {
        Source::File(path) if matches!(path.try_exists(), Ok(false)) => Err(Error::NotThere(word.to_owned())),
        Source::File(path) => in_file(&path, cache),
        Source::Debian(version) => debian::obtain(&version, cache, tell),
        _ => Err(Error::NoFile(word.to_owned())),
    }
}

/// The kernel in a file that the user gave: as it is, compressed, or in a package.
fn in_file(path: &Path, cache: &Path) -> Result<Kernel, Error> {
    let origin = path.display().to_string();
    let packing = match image::inspect(path)?.kind {
        Kind::Deb => return in_package(path, cache),
        Kind::PackedVmlinux(packing) => packing,
        _ => {
            return Ok(Kernel {
                config: beside(path, "config"),
                system_map: beside(path, "System.map"),
                ..Kernel::in_file(path, origin)?
            });
        }
    };
    let folder = cache.join("files").join(&sha256(path)?[..32]);
    let image = folder.join("vmlinux");
    if !image.exists() {
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        let draft = Draft::new(&folder)?;
        let target = draft.path().join("vmlinux");
        let packed = File::open(path).map_err(|error| Error::io(path, error))?;
        let reader =
            packing.reader(io::BufReader::new(packed)).unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()));
        let mut reader = reader.map_err(|error| Error::io(path, error))?;
        let mut file = File::create(&target).map_err(|error| Error::io(&target, error))?;
        io::copy(&mut reader, &mut file).map_err(|error| Error::io(path, error))?;
        std::fs::rename(&target, &image).map_err(|error| Error::io(&image, error))?;
    }
    Kernel::in_file(&image, origin)
}

/// The kernel in a package that the user gave, unpacked into the cache once.
fn in_package(path: &Path, cache: &Path) -> Result<Kernel, Error> {
    let folder = cache.join("files").join(&sha256(path)?[..32]);
    let package = deb::read_control(path)?;
    if !is_whole(&folder)? {
        fill(&folder, |draft| deb::kernel_of(path, draft).map(drop))?;
    }
    let origin = format!("{} {} ({})", package.name, package.version, path.display());
    from_folder(&folder, origin)
}

/// A folder that is filled under another name and then moved to its place, so that what is there is whole.
struct Draft(PathBuf);

impl Draft {
    fn new(beside: &Path) -> Result<Self, Error> {
        let mut name = beside.file_name().unwrap_or_default().to_owned();
        name.push(format!(".part-{}", std::process::id()));
        let folder = beside.with_file_name(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        Ok(Self(folder))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is gone already where it was moved to its place.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Fills a folder with an unpacked kernel, and notes the kernel's checksum in it.
pub(crate) fn fill(folder: &Path, with: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let draft = Draft::new(folder)?;
    with(draft.path())?;
    let sum = draft.path().join("sha256");
    std::fs::write(&sum, sha256(&draft.path().join("vmlinuz"))?).map_err(|error| Error::io(&sum, error))?;
    let _ = std::fs::remove_dir_all(folder);
    std::fs::rename(draft.path(), folder).map_err(|error| Error::io(folder, error))
}

/// Whether a folder holds the kernel that was once unpacked into it, unchanged.
pub(crate) fn is_whole(folder: &Path) -> Result<bool, Error> {
    let image = folder.join("vmlinuz");
    match std::fs::read_to_string(folder.join("sha256")) {
        Ok(sum) if image.exists() => Ok(sum == sha256(&image)?),
        _ => Ok(false),
    }
}

/// The kernel that [`fill`] has put into a folder.
pub(crate) fn from_folder(folder: &Path, origin: String) -> Result<Kernel, Error> {
    let kernel = Kernel::in_file(&folder.join("vmlinuz"), origin)?;
    let there = |name| Some(folder.join(name)).filter(|path| path.exists());
    Ok(Kernel { config: there("config"), system_map: there("System.map"), ..kernel })
}

/// The configuration or the symbols of a kernel in a file, by where distributions (`vmlinuz-X` beside `config-X`) and
/// kernel trees (at the top of the tree) have them.
fn beside(image: &Path, what: &str) -> Option<PathBuf> {
    let image = std::path::absolute(image).ok()?;
    let name = image.file_name()?.to_str()?;
    let of_release = name.split_once('-').map(|(_, release)| image.with_file_name(format!("{what}-{release}")));
    let in_tree = image.parent().filter(|folder| folder.ends_with("arch/x86/boot")).and_then(|folder| {
        let top = folder.ancestors().nth(3)?;
        Some(top.join(if what == "config" { ".config" } else { what }))
    });
    let is_good = |path: &PathBuf| {
        let len = std::fs::metadata(path).map_or(0, |about| if about.is_file() { about.len() } else { 0 });
        len >= if what == "config" { 1 } else { deb::LEAST_MAP_BYTES }
    };
    of_release.into_iter().chain(in_tree).find(is_good)
}

/// SHA-256 of a file, in hexadecimal.
pub fn sha256(path: &Path) -> Result<String, Error> {
    let failed = |error| Error::io(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece).map_err(failed)? {
            0 => break,
            read => hash.update(&piece[..read]),
        }
    }
    Ok(hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
mod tests;
