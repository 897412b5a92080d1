//! `targets`: compiles the program for systems other than Linux, and links it where possible.
//!
//! Nothing is run. A toolchain with the source of the standard library, and a linker, are downloaded once with apt-get
//! and pip into `target/targets/` (several hundred MB); nothing is installed. `ci` does not run this chore because of
//! the download.

mod elf;
pub(crate) mod linker;
mod toolchain;

use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use elf::System;
use linker::Linker;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use toolchain::Toolchain;

/// Arguments of `targets`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Targets, by name or part of a name [default: all]
    targets: Vec<String>,
    /// Compile only, do not link; this needs no zig
    #[arg(long)]
    check_only: bool,
}

/// A target, and the system that its linked file must name.
type Target = (&'static str, Option<System>);

/// zig has no C library for illumos, `DragonFly` and macOS to link against.
const TARGETS: [Target; 6] = [
    ("x86_64-unknown-freebsd", Some(System::FreeBsd)),
    ("x86_64-unknown-netbsd", Some(System::NetBsd)),
    ("x86_64-unknown-openbsd", Some(System::OpenBsd)),
    ("x86_64-unknown-illumos", None),
    ("x86_64-unknown-dragonfly", None),
    ("x86_64-apple-darwin", None),
];

/// The package to build.
const PROGRAM: &str = "landau";

/// The result for a target, one row of the table.
struct Row {
    target: &'static str,
    compiles: &'static str,
    links: String,
    seconds: u64,
    says: String,
    is_good: bool,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let targets = chosen(&words.targets)?;
    let folder = workspace::target()?.join("targets");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let toolchain = Toolchain::find(&folder)?;
    let links = !words.check_only && targets.iter().any(|(_, system)| system.is_some());
    let linker = links.then(|| Linker::find(&folder)).transpose()?;
    println!("{}", toolchain.version()?);
    let rows: Vec<Row> = targets
        .into_iter()
        .map(|(target, system)| {
            println!("\n== {target}");
            row(&toolchain, &folder, target, system.zip(linker.as_ref()))
        })
        .collect();
    println!("\n{:26} {:8} {:10} {:>7}  ELF identity", "target", "compiles", "links", "time");
    for row in &rows {
        println!("{:26} {:8} {:10} {:>5} s  {}", row.target, row.compiles, row.links, row.seconds, row.says);
    }
    println!("compiled and linked; not run");
    Ok(rows.iter().all(|row| row.is_good))
}

/// Returns the targets that match the arguments.
fn chosen(words: &[String]) -> Result<Vec<Target>> {
    let names = || TARGETS.map(|(target, _)| target).join(", ");
    if let Some(word) = words.iter().find(|word| !TARGETS.iter().any(|(target, _)| target.contains(word.as_str()))) {
        bail!("unknown target {word}; the targets are {}", names());
    }
    let is_chosen = |target: &str| words.is_empty() || words.iter().any(|word| target.contains(word.as_str()));
    Ok(TARGETS.into_iter().filter(|(target, _)| is_chosen(target)).collect())
}

/// Links a target if possible, otherwise only compiles it. Errors are printed.
fn row(toolchain: &Toolchain, folder: &Path, target: &'static str, linking: Option<(System, &Linker)>) -> Row {
    let began = Instant::now();
    let check = || print_error(check(toolchain, folder, target)).is_some();
    let (compiles, links, says) = match linking {
        None => (check(), "-".to_owned(), String::new()),
        Some((system, linker)) => {
            match print_error(link(toolchain, folder, target, linker).and_then(|path| read(&path, system))) {
                Some((size, identity)) => (true, format!("ok {:.1} MB", size as f64 / 1e6), identity.to_string()),
                // Linking includes compiling: find out which of the two failed.
                None => (check(), "FAIL".to_owned(), String::new()),
            }
        }
    };
    let is_good = compiles && links != "FAIL";
    let compiles = if compiles { "ok" } else { "FAIL" };
    Row { target, compiles, links, seconds: began.elapsed().as_secs(), says, is_good }
}

/// Returns the value; prints an error, so that the other targets are still tried.
fn print_error<T>(result: Result<T>) -> Option<T> {
    result.map_err(|error| println!("{error:#}")).ok()
}

/// Compiles the Rust code.
fn check(toolchain: &Toolchain, folder: &Path, target: &str) -> Result<()> {
    let (compiler, archiver) = c_variables(target);
    let cargo = toolchain.cargo("check", target, folder).args(["--package", PROGRAM]);
    cargo.env(&compiler, linker::stand_in(folder)?).env(&archiver, "true").run()
}

/// Returns the environment variables that name the C compiler and archiver of a target to build scripts.
fn c_variables(target: &str) -> (String, String) {
    let target = target.replace('-', "_");
    (format!("CC_{target}"), format!("AR_{target}"))
}

/// Builds and links, and returns the path of the program.
fn link(toolchain: &Toolchain, folder: &Path, target: &str, linker: &Linker) -> Result<PathBuf> {
    let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let (compiler, archiver) = c_variables(target);
    let script = linker.script(target)?;
    toolchain
        .cargo("build", target, folder)
        .args(["--package", PROGRAM])
        .env(&variable, &script)
        // Archives of ELF files have the same format on all of these systems.
        .env(&compiler, &script)
        .env(&archiver, "ar")
        .env("ZIG_GLOBAL_CACHE_DIR", folder.join("zig-cache"))
        .env("ZIG_LOCAL_CACHE_DIR", folder.join("zig-cache"))
        .run()?;
    Ok(folder.join("build").join(target).join("debug").join(PROGRAM))
}

/// Returns the size and the ELF identity of a linked program; the identity must name the system.
fn read(path: &Path, system: System) -> Result<(usize, elf::Identity)> {
    let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let identity = elf::identity(&bytes).with_context(|| path.display().to_string())?;
    ensure!(identity.system == system, "{} is for {}, not {}", path.display(), identity, system.name());
    Ok((bytes.len(), identity))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn targets_are_chosen_by_name_or_part_and_a_wrong_name_is_an_error() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            chosen(&words).map(|targets| targets.iter().map(|(target, _)| *target).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap().len(), TARGETS.len());
        assert_eq!(names(&["netbsd"]).unwrap(), ["x86_64-unknown-netbsd"]);
        assert_eq!(
            names(&["darwin", "x86_64-unknown-freebsd"]).unwrap(),
            ["x86_64-unknown-freebsd", "x86_64-apple-darwin"]
        );
        assert!(names(&["plan9"]).unwrap_err().to_string().contains("plan9"));
    }
}
