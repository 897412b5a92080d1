//! The qemu plugin that counts instructions by function, which is embedded in landau.
//!
//! Its source is `crates/lab/plugin`; `build.rs` compiled it, once for each version of qemu's plugin interface.

use std::fs;
use std::path::{Path, PathBuf};

include!(concat!(env!("OUT_DIR"), "/plugin_built.rs"));

/// An error that prevents the use of the plugin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The build host could not build it.
    #[error("explain needs landau's plugin for qemu: {0}")]
    NotBuilt(String),
    /// The output of `qemu --version` has an unknown form.
    #[error("explain cannot parse the version of this qemu, {0:?}; use qemu 5.2 to 8.2, or 9.1 or later")]
    UnknownVersion(String),
    /// A version of qemu whose plugin interface is not supported.
    #[error("explain cannot use qemu {0}; use qemu 5.2 to 8.2, or 9.1 or later")]
    Unsupported(String),
    /// The file could not be written.
    #[error(
        "cannot write the plugin to {path}: {error}; check the free space and the permissions of TMPDIR",
        path = path.display()
    )]
    Write {
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
}

/// Writes the plugin for a version of qemu into a directory and returns its path. `version` is the output of
/// `qemu --version`.
pub fn write_into(folder: &Path, version: &str) -> Result<PathBuf, Error> {
    let name = interface(version)?;
    let built = BUILT.iter().find(|(own, _)| *own == name).map_or(Err("no such variant"), |(_, built)| *built);
    let plugin = built.map_err(|reason| Error::NotBuilt(reason.to_owned()))?;
    let path = folder.join("landau-plugin.so");
    fs::write(&path, plugin).map_err(|error| Error::Write { path: path.clone(), error })?;
    Ok(path)
}

/// Returns the version of the plugin interface for a version of qemu. Plugins exist since 5.2. Counters per processor
/// exist since 9.0, and the second variant's way to read an instruction since 9.1.
fn interface(version: &str) -> Result<&'static str, Error> {
    let unknown = || Error::UnknownVersion(version.lines().next().unwrap_or_default().to_owned());
    let mut words = version.split_whitespace().skip_while(|word| *word != "version").skip(1);
    let number = words.next().ok_or_else(unknown)?;
    let mut parts = number.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(5), Some(2..)) | (Some(6..=8), Some(_)) => Ok("1"),
        (Some(9), Some(1..)) | (Some(10..), Some(_)) => Ok("3"),
        (Some(_), Some(_)) => Err(Error::Unsupported(number.to_owned())),
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_qemu_gets_its_variant() {
        let of = |number: &str| interface(&format!("QEMU emulator version {number} (Debian 1:x)\nCopyright (c) …"));
        assert_eq!(of("7.2.22").unwrap(), "1");
        assert_eq!(of("8.2.0").unwrap(), "1");
        assert_eq!(of("9.1.2").unwrap(), "3");
        assert_eq!(of("11.0.50").unwrap(), "3");
        assert!(matches!(of("9.0.1"), Err(Error::Unsupported(number)) if number == "9.0.1"));
        assert!(matches!(of("4.2.1"), Err(Error::Unsupported(_))));
        assert!(matches!(interface("qemu, of a kind"), Err(Error::UnknownVersion(_))));
    }

    #[test]
    fn both_variants_are_built_if_possible() {
        let folder = tempfile::tempdir().unwrap();
        for version in ["version 7.2.0", "version 10.0.0"] {
            match write_into(folder.path(), version) {
                Ok(path) => assert!(fs::read(path).unwrap().starts_with(b"\x7fELF")),
                Err(Error::NotBuilt(reason)) => assert!(reason.contains("build landau"), "{reason}"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
