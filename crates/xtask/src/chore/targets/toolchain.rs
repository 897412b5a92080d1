//! A Rust toolchain with the standard library's source, from which that library is built for systems that no
//! toolchain here has it for.

use crate::debian::{Client, closure, installed};
use crate::program::Program;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What builds: a compiler, a cargo of the same release, and where their libraries are.
pub(super) struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    libraries: Option<OsString>,
}

/// Packages that are a toolchain together: compiler, source, cargo. Debian's stable releases carry a recent one for
/// their browsers under names of its own.
const FAMILIES: [[&str; 3]; 2] = [["rustc-web", "rust-web-src", "cargo-web"], ["rustc", "rust-src", "cargo"]];

impl Toolchain {
    /// The toolchain in use if it has the source, else that of an earlier call, else one fetched into the folder.
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

    /// A call of its cargo that builds the standard library too. Both are asked for what only nightly toolchains
    /// offer freely, hence the variable.
    pub(super) fn cargo(&self, action: &str, target: &str, folder: &Path) -> Program {
        let cargo = Program::cargo_at(&self.cargo)
            .args([action, "-Zbuild-std=std,panic_abort", "--locked", "--target", target])
            .env("RUSTC", &self.rustc)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", folder.join("build"))
            // What nobody will run or debug needs no time and room for that.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("CARGO_INCREMENTAL", "0");
        match &self.libraries {
            Some(paths) => cargo.env("LD_LIBRARY_PATH", paths),
            None => cargo,
        }
    }

    /// The compiler's version.
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

/// Every folder that Debian keeps an architecture's libraries in.
fn libraries(folder: &Path) -> Result<OsString> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().contains("-linux-gnu") {
            paths.push(entry.path());
        }
    }
    std::env::join_paths(paths).context("a folder's name holds a colon")
}

/// Takes the newest family of packages that is new enough for this workspace.
fn fetch(folder: &Path, home: &Path) -> Result<()> {
    let apt = folder.join("apt");
    println!("fetching a Rust toolchain with its source by apt-get into {}", folder.display());
    let client = Client::new(&apt).context(
        "no Debian packages; give the toolchain in use the standard library's source instead (rustup component add \
         rust-src), and this chore will use it",
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
            "the host's Debian has no Rust {needed} or later with its source (packages {}); give the toolchain in \
             use its source instead: rustup component add rust-src",
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

/// Major and minor number of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
