//! `targets`: does the program compile for systems that are not Linux, and link where that can be had?
//!
//! Nothing is run: there is no kernel here to run it. A toolchain with the standard library's source and a linker
//! are fetched once by the ordinary clients (apt-get, pip) into `target/targets/`, several hundred MB, and nothing is
//! installed. That is why `ci` does not do this.

mod debian;
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
    /// Only these, by name or part of it [default: all]
    targets: Vec<String>,
    /// Only check, do not link: needs no zig
    #[arg(long)]
    check_only: bool,
}

/// A target, and the system that a linked file must be for.
type Target = (&'static str, Option<System>);

/// For illumos, `DragonFly` and macOS there is no C library to link against here.
const TARGETS: [Target; 6] = [
    ("x86_64-unknown-freebsd", Some(System::FreeBsd)),
    ("x86_64-unknown-netbsd", Some(System::NetBsd)),
    ("x86_64-unknown-openbsd", Some(System::OpenBsd)),
    ("x86_64-unknown-illumos", None),
    ("x86_64-unknown-dragonfly", None),
    ("x86_64-apple-darwin", None),
];

/// The package that is built, with all that it depends on.
const PROGRAM: &str = "landau";

/// What came of a target: the table's row.
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
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
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
    println!("\n{:26} {:8} {:10} {:>7}  what the file says", "target", "compiles", "links", "took");
    for row in &rows {
        println!("{:26} {:8} {:10} {:>5} s  {}", row.target, row.compiles, row.links, row.seconds, row.says);
    }
    println!("compiled and linked, not run");
    Ok(rows.iter().all(|row| row.is_good))
}

/// The targets that were asked for.
fn chosen(words: &[String]) -> Result<Vec<Target>> {
    let names = || TARGETS.map(|(target, _)| target).join(", ");
    if let Some(word) = words.iter().find(|word| !TARGETS.iter().any(|(target, _)| target.contains(word.as_str()))) {
        bail!("no target is called {word}; there are {}", names());
    }
    let is_chosen = |target: &str| words.is_empty() || words.iter().any(|word| target.contains(word.as_str()));
    Ok(TARGETS.into_iter().filter(|(target, _)| is_chosen(target)).collect())
}

/// Links a target where that can be had, else checks it. What fails has said why on the terminal.
fn row(toolchain: &Toolchain, folder: &Path, target: &'static str, linking: Option<(System, &Linker)>) -> Row {
    let began = Instant::now();
    let check = || said(check(toolchain, folder, target)).is_some();
    let (compiles, links, says) = match linking {
        None => (check(), "-".to_owned(), String::new()),
        Some((system, linker)) => {
            match said(link(toolchain, folder, target, linker).and_then(|path| read(&path, system))) {
                Some((size, identity)) => (true, format!("ok {:.1} MB", size as f64 / 1e6), identity.to_string()),
                // To compile was part of it: which of the two was it?
                None => (check(), "FAIL".to_owned(), String::new()),
            }
        }
    };
    let is_good = compiles && links != "FAIL";
    let compiles = if compiles { "ok" } else { "FAIL" };
    Row { target, compiles, links, seconds: began.elapsed().as_secs(), says, is_good }
}

/// What came of it; an error is said here, and the other targets go on.
fn said<T>(result: Result<T>) -> Option<T> {
    result.map_err(|error| println!("{error:#}")).ok()
}

/// Only compiles what is Rust.
fn check(toolchain: &Toolchain, folder: &Path, target: &str) -> Result<()> {
    let (compiler, archiver) = c_variables(target);
    let cargo = toolchain.cargo("check", target, folder).args(["--package", PROGRAM]);
    cargo.env(&compiler, linker::stand_in(folder)?).env(&archiver, "true").run()
}

/// The variables by which build scripts are told of a C compiler and an archiver for a target.
fn c_variables(target: &str) -> (String, String) {
    let target = target.replace('-', "_");
    (format!("CC_{target}"), format!("AR_{target}"))
}

/// Builds and links; where the program lies.
fn link(toolchain: &Toolchain, folder: &Path, target: &str, linker: &Linker) -> Result<PathBuf> {
    let variable = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
    let (compiler, archiver) = c_variables(target);
    let script = linker.script(target)?;
    toolchain
        .cargo("build", target, folder)
        .args(["--package", PROGRAM])
        .env(&variable, &script)
        // An archive of ELF files is the same for all of these systems.
        .env(&compiler, &script)
        .env(&archiver, "ar")
        .env("ZIG_GLOBAL_CACHE_DIR", folder.join("zig-cache"))
        .env("ZIG_LOCAL_CACHE_DIR", folder.join("zig-cache"))
        .run()?;
    Ok(folder.join("build").join(target).join("debug").join(PROGRAM))
}

/// The size of a linked program, and what it says of itself, which must name the system.
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
