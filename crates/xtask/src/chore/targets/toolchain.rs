//! A Rust toolchain with the source of the standard library. The library is built from it for systems without a
//! prebuilt one here.

use crate::debian::{Client, closure, installed};
use crate::program::Program;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// A compiler, a cargo of the same release, and the directories of their libraries.
pub(super) struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    libraries: Option<OsString>,
}

/// Packages that form a toolchain: compiler, source, cargo. Debian's stable releases contain a recent one for their
/// browsers, under separate names.
const FAMILIES: [[&str; 3]; 2] = [["rustc-web", "rust-web-src", "cargo-web"], ["rustc", "rust-src", "cargo"]];

impl Toolchain {
    /// Returns the toolchain in use if it has the source, otherwise that of an earlier call, otherwise one fetched into
    /// the directory.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        let own = std::env::var_os("RUSTC").map_or_else(|| "rustc".into(), PathBuf::from);
        if let Ok(sysroot) = Program::new(&own).args(["--print", "sysroot"]).text()
            && has_source(Path::new(sysroot.trim()))
        {
            let cargo = std::env::var_os("CARGO").map_or_else(|| "cargo".into(), PathBuf::from);
            return Ok(Self { cargo, rustc: own, libraries: None });
        }
        let home = folder.join("toolchain");
        if !has_source(&home.join("usr")) {
            fetch(folder, &home)?;
        }
        let programs = home.join("usr/bin");
        let libraries = Some(libraries(&home.join("usr/lib"))?);
        Ok(Self { cargo: programs.join("cargo"), rustc: programs.join("rustc"), libraries })
    }

    /// Returns a call of cargo that also builds the standard library. This needs unstable features of cargo and rustc,
    /// which a stable toolchain permits only with `RUSTC_BOOTSTRAP`.
    pub(super) fn cargo(&self, action: &str, target: &str, folder: &Path) -> Program {
        let cargo = Program::cargo_at(&self.cargo)
            .args([action, "-Zbuild-std=std,panic_abort", "--locked", "--target", target])
            .env("RUSTC", &self.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", folder.join("build"))
            // Nobody will run or debug the result, so optimisation and debug information are turned off.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("CARGO_INCREMENTAL", "0");
        match &self.libraries {
            Some(paths) => cargo.env("LD_LIBRARY_PATH", paths),
            None => cargo,
        }
    }

    /// Returns the compiler's version.
    pub(super) fn version(&self) -> Result<String> {
        let rustc = Program::new(&self.rustc).arg("--version");
        let rustc = match &self.libraries {
            Some(paths) => rustc.env("LD_LIBRARY_PATH", paths),
            None => rustc,
        };
        Ok(rustc.text()?.trim().to_owned())
    }
}

fn has_source(sysroot: &Path) -> bool {
    sysroot.join("lib/rustlib/src/rust/library/std/Cargo.toml").exists()
}

/// Returns all directories in which Debian keeps the libraries of an architecture.
fn libraries(folder: &Path) -> Result<OsString> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains("-linux-gnu") {
            paths.push(entry.path());
        }
    }
    std::env::join_paths(paths).context("the name of a directory contains a colon")
}

/// Fetches the newest family of packages that is recent enough for this workspace.
fn fetch(folder: &Path, home: &Path) -> Result<()> {
    let apt = folder.join("apt");
    println!("fetching a Rust toolchain and its source with apt-get into {}", folder.display());
    let client = Client::new(&apt).context(
        "cannot use Debian packages; install the standard library's source for the toolchain in use instead (rustup \
         component add rust-src); this chore then uses it",
    )?;
    let mut families: Vec<_> = FAMILIES
        .iter()
        .filter_map(|family| {
            let packages = family.map(|name| client.show(name));
            let release = packages[0].as_ref()?.release()?;
            packages
                .iter()
                .all(|one| one.as_ref().is_some_and(|one| one.release() == Some(release)))
                .then_some((release, family))
        })
        .collect();
    families.sort();
    let needed = env!("CARGO_PKG_RUST_VERSION");
    let Some((release, family)) = families.last().filter(|(release, _)| *release >= numbers(needed)) else {
        bail!(
            "the host's Debian has no Rust {needed} or later with its source (packages {}); install the source for the \
             toolchain in use instead: rustup component add rust-src",
            FAMILIES.map(|family| family.join(", ")).join("; or ")
        );
    };
    let names = closure(*family, &installed()?, |name| client.show(name))?;
    println!("Rust {}.{}: {}", release.0, release.1, names.iter().map(String::as_str).collect::<Vec<_>>().join(" "));
    let part = folder.join("toolchain.part");
    for old in [&part, home] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("remove {}", old.display()))?;
        }
    }
    client.unpack(&names, &part)?;
    if !has_source(&part.join("usr")) {
        bail!("{} has no source of the standard library where rustc looks for it", family[1]);
    }
    fs::rename(&part, home).with_context(|| format!("rename {} to {}", part.display(), home.display()))
}

/// Returns the major and minor numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
