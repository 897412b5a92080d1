//! Obtains the kernel that a value of `--kernel` names: from a file, a package, or Debian's archive.

use crate::deb::Copying;
use crate::kernel::{Error, Kernel, Kind, Source};
use crate::unpacked::{self, Draft, kernel_in_file, sha256};
use crate::{deb, debian, image};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the default directory for fetched and unpacked kernels: `landau` in the user's cache directory. `None` if
/// neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
pub fn default_cache() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    caches.map(|caches| caches.join("landau"))
}

/// Obtains the kernel that `text` names. Fetched and unpacked files go into `cache` and nowhere else; `report` is
/// called before each slow operation. A [`Source`] without a file is an error.
pub fn obtain(text: &str, cache: &Path, report: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    match Source::parse(text)? {
        Source::File(path) if matches!(path.try_exists(), Ok(false)) => Err(Error::NotFound(text.to_owned())),
        Source::File(path) => in_file(&path, cache),
        Source::Debian(version) => debian::obtain(&version, cache, report),
        _ => Err(Error::NoFile(text.to_owned())),
    }
}

/// Returns a kernel on a disk image; its record will name the release. `report` is called before the image is read.
pub(crate) fn on_disk(path: &Path, report: &mut dyn FnMut(&str)) -> Result<Kernel, Error> {
    let found = image::inspect(path)?;
    if !matches!(found.kind, Kind::DiskImage(_)) {
        let what = "this is not a disk image in qcow2 or raw format, which image:FILE expects".to_owned();
        return Err(Error::Wrong { path: path.to_owned(), what });
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let image = std::path::absolute(path).map_err(|error| Error::io(path, error))?;
    // Two images may have the same name.
    report(&format!("reading {} for its checksum", path.display()));
    let sha256 = sha256(path)?;
    Ok(Kernel { image, sha256, ..Kernel::without_file(name, found.kind, path.display().to_string()) })
}

/// Returns the kernel in a file that the user gave: as it is, compressed, or in a package.
fn in_file(path: &Path, cache: &Path) -> Result<Kernel, Error> {
    let origin = path.display().to_string();
    let compression = match image::inspect(path)?.kind {
        Kind::Deb => return in_package(path, cache),
        Kind::CompressedVmlinux(compression) => compression,
        _ => {
            return Ok(Kernel {
                config: companion(path, "config"),
                system_map: companion(path, "System.map"),
                ..kernel_in_file(path, origin)?
            });
        }
    };
    let folder = cache.join("files").join(&sha256(path)?[..32]);
    let image = folder.join("vmlinux");
    if !image.exists() {
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        let draft = Draft::new(&folder)?;
        let target = draft.path().join("vmlinux");
        let compressed = File::open(path).map_err(|error| Error::io(path, error))?;
        let reader = compression
            .reader(io::BufReader::new(compressed))
            .unwrap_or_else(|| Err(io::ErrorKind::Unsupported.into()));
        let mut reader = reader.map_err(|error| Error::io(path, error))?;
        let mut file = File::create(&target).map_err(|error| Error::io(&target, error))?;
        deb::copy(&mut reader, &mut file).map_err(|error| match error {
            Copying::Read(error) => Error::io(path, error),
            Copying::Write(error) => Error::io(&target, error),
        })?;
        std::fs::rename(&target, &image).map_err(|error| Error::io(&image, error))?;
    }
    kernel_in_file(&image, origin)
}

/// Returns the kernel in a package that the user gave; the package is unpacked into the cache once.
fn in_package(path: &Path, cache: &Path) -> Result<Kernel, Error> {
    let folder = cache.join("files").join(&sha256(path)?[..32]);
    let package = deb::read_control(path)?;
    if !unpacked::is_intact(&folder)? {
        unpacked::create(&folder, |draft| deb::extract_kernel(path, draft).map(drop))?;
    }
    let origin = format!("{} {} ({})", package.name, package.version, path.display());
    unpacked::kernel(&folder, origin)
}

/// Returns the configuration or the symbols that belong to a kernel in a file: where distributions put them
/// (`config-X` next to `vmlinuz-X`), or at the top of a kernel tree.
fn companion(image: &Path, what: &str) -> Option<PathBuf> {
    let image = std::path::absolute(image).ok()?;
    let name = image.file_name()?.to_str()?;
    let of_release = name.split_once('-').map(|(_, release)| image.with_file_name(format!("{what}-{release}")));
    let in_tree = image.parent().filter(|folder| folder.ends_with("arch/x86/boot")).and_then(|folder| {
        let top = folder.ancestors().nth(3)?;
        Some(top.join(if what == "config" { ".config" } else { what }))
    });
    let is_usable = |path: &PathBuf| {
        let len = std::fs::metadata(path).map_or(0, |about| if about.is_file() { about.len() } else { 0 });
        len >= if what == "config" { 1 } else { deb::LEAST_MAP_BYTES }
    };
    of_release.into_iter().chain(in_tree).find(is_usable)
}

#[cfg(test)]
mod tests;
