//! Types for a kernel: its kind, its source, and the errors of obtaining it. Every other file here builds on these
//! types.

use crate::compression::Compression;
use std::io;
use std::path::{Path, PathBuf};

/// A format of disk images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// QEMU's own format.
    Qcow2,
    /// The plain bytes of the disk.
    Raw,
}

/// The kind of a file, or of a kernel without a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Linux for x86-64 in the form that boot loaders load.
    BzImage,
    /// Linux for x86-64 as the linker wrote it. qemu boots it only if it has the PVH note.
    Vmlinux {
        /// Whether it has the PVH entry point.
        pvh: bool,
    },
    /// A compressed vmlinux.
    CompressedVmlinux(Compression),
    /// User-mode Linux: a kernel that runs as a program of the host.
    Uml,
    /// A Debian package.
    Deb,
    /// A disk image with an operating system on it.
    DiskImage(Disk),
    /// The running kernel; no file.
    Running,
    /// The kernel of another machine, reached by ssh; no file.
    Remote,
    /// Anything else, described: "a gzip-compressed initramfs".
    Other(String),
}

impl Kind {
    /// Returns whether an x86-64 machine can boot it directly.
    pub fn is_bootable(&self) -> bool {
        matches!(self, Self::BzImage | Self::Vmlinux { .. })
    }
}

/// The source that a value of `--kernel` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The running kernel.
    Host,
    /// A file that holds a kernel or a package.
    File(PathBuf),
    /// A kernel of Debian's archive, by version and flavour.
    Debian(String),
    /// The list of Debian's kernels.
    DebianList,
    /// A disk image with an operating system on it.
    Image(PathBuf),
    /// Another machine, reached by ssh.
    Ssh(String),
}

impl Source {
    /// Parses a value of `--kernel`. A value without a known prefix is a file; a file whose name begins with a known
    /// prefix must be written with `./`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(match text.split_once(':') {
            _ if text == "host" => Self::Host,
            Some(("debian", "?" | "" | "list")) => Self::DebianList,
            Some(("debian", version)) => Self::Debian(version.to_owned()),
            Some(("image", path)) => Self::Image(PathBuf::from(path)),
            Some(("ssh", target)) if has_host(target) => Self::Ssh(target.to_owned()),
            Some(("ssh", _)) => return Err(Error::NoHost(text.to_owned())),
            _ => Self::File(PathBuf::from(text)),
        })
    }
}

/// Returns whether `[USER@]HOST[:PORT]` has a host; an IPv6 address may begin with two colons.
fn has_host(target: &str) -> bool {
    let host = target.rsplit('@').next().unwrap_or_default();
    !host.is_empty() && host.strip_prefix(':').is_none_or(|rest| rest.contains(':'))
}

/// A kernel to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The name shown in lists: its release, or the file's name.
    pub name: String,
    /// The file to boot; empty if there is none.
    pub image: PathBuf,
    /// The kind of that file.
    pub kind: Kind,
    /// The release that the kernel reports.
    pub release: Option<String>,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// The package with its version, or the file that was given.
    pub origin: String,
    /// The configuration it was built with, if known.
    pub config: Option<PathBuf>,
    /// Its symbols, if known.
    pub system_map: Option<PathBuf>,
}

impl Kernel {
    /// Returns a kernel without a file.
    pub(crate) fn without_file(name: String, kind: Kind, origin: String) -> Self {
        let (release, sha256, config, system_map) = (None, String::new(), None, None);
        Self { name, image: PathBuf::new(), kind, release, sha256, origin, config, system_map }
    }

    /// Returns the running kernel.
    pub fn running() -> Self {
        let release = landau_sys::system::kernel().map_or_else(|_| "host".to_owned(), |kernel| kernel.release);
        Self { release: Some(release.clone()), ..Self::without_file(release, Kind::Running, "host".to_owned()) }
    }

    /// Returns the kernel of the machine that ssh reaches as `target`; its record will name the release.
    pub fn remote(target: &str) -> Self {
        Self::without_file(target.to_owned(), Kind::Remote, target.to_owned())
    }

    /// Returns the kernel as a record describes it.
    pub(crate) fn to_record(&self) -> landau_record::schema::Kernel {
        landau_record::schema::Kernel {
            name: self.name.clone(),
            file: self.image.display().to_string(),
            sha256: self.sha256.clone(),
            origin: self.origin.clone(),
        }
    }
}

/// An error from obtaining a kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file is of another kind.
    #[error("{}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What it is and what is expected.
        what: String,
    },
    /// A Debian package is damaged or contains no kernel.
    #[error("{}: not a kernel's Debian package: {what}", path.display())]
    Package {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No kernel of Debian's archive matches, or several do.
    #[error("debian:{wanted}: {what}; available: {}", if known.is_empty() { "none" } else { known })]
    Version {
        /// The requested version.
        wanted: String,
        /// Why it does not select one kernel.
        what: String,
        /// The available versions.
        known: String,
    },
    /// The archive's index lists a package whose file the mirror does not have: the archive is being updated, or the
    /// file was removed.
    #[error("cannot fetch {file}: {why}; the archive's index lists it, but the mirror does not have it")]
    Fetch {
        /// The package's file.
        file: String,
        /// What the package client reported.
        why: String,
    },
    /// The package client is missing or failed.
    #[error("{0}")]
    Apt(String),
    /// The file does not exist.
    #[error("there is no kernel `{0}`: no such file; specify a kernel image, or `debian:VERSION` to download one")]
    NotFound(String),
    /// The value names a kernel without a file.
    #[error("{0} does not name a kernel file; specify a file or debian:VERSION")]
    NoFile(String),
    /// `ssh:` without a host.
    #[error("`{0}` does not name a host; write ssh:USER@HOST or ssh:USER@HOST:PORT")]
    NoHost(String),
}

impl Error {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test ends where its premise fails")]

    use super::*;

    #[test]
    fn prefixes_select_the_source() {
        let cases = [
            ("host", Source::Host),
            ("./host", Source::File("./host".into())),
            ("debian:6.12", Source::Debian("6.12".to_owned())),
            ("debian:?", Source::DebianList),
            ("image:a.qcow2", Source::Image("a.qcow2".into())),
            ("ssh:me@there", Source::Ssh("me@there".to_owned())),
            ("ssh:me@[::1]:22", Source::Ssh("me@[::1]:22".to_owned())),
            ("ssh:::1", Source::Ssh("::1".to_owned())),
            ("a:b", Source::File("a:b".into())),
        ];
        for (text, source) in cases {
            assert_eq!(Source::parse(text).unwrap(), source);
        }
    }

    #[test]
    fn ssh_needs_a_host() {
        for text in ["ssh:", "ssh:me@", "ssh::22", "ssh:me@:22"] {
            let error = Source::parse(text).unwrap_err().to_string();
            assert!(error.contains("does not name a host; write ssh:USER@HOST"), "{text}: {error}");
        }
    }
}
