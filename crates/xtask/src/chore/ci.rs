//! `ci`: runs every check and every test; a failure does not stop the rest. The last line is `N passed, N failed`.
//!
//! Everything is compiled in the profile `ci`, so that build scripts and procedural macros are built once.

use crate::chore::{registry, test, tidy};
use crate::counts::Counts;
use crate::program::Program;
use crate::workspace;
use anyhow::{Result, ensure};
use std::time::Instant;

/// A check: its name, and a function that returns whether it passed.
type Check = (&'static str, fn() -> Result<bool>);

const CHECKS: [Check; 8] = [
    ("rustfmt", rustfmt),
    ("registry --check", registry::check),
    ("tidy", tidy::run),
    ("clippy", clippy),
    ("rustdoc", rustdoc),
    ("build", build),
    ("landau generate", generate),
    ("landau check", claims),
];

pub(crate) fn run() -> Result<bool> {
    // Before the first build: what a build script does not find, it leaves out.
    test::install_needs();
    let mut counts = Counts::default();
    let mut summary = Vec::new();
    for (name, check) in CHECKS {
        println!("\n== {name}");
        let began = Instant::now();
        // A check that cannot run has failed.
        let is_good = check().unwrap_or_else(|error| {
            println!("{error:#}");
            false
        });
        counts += Counts::of(is_good);
        summary.push(format!("{} {name}, {} s", if is_good { "ok  " } else { "FAIL" }, began.elapsed().as_secs()));
    }
    println!("\n== test");
    let began = Instant::now();
    let tests = test::everything()?;
    let word = if tests.is_good() { "ok  " } else { "FAIL" };
    summary.push(format!("{word} test ({tests}), {} s", began.elapsed().as_secs()));
    counts += tests;
    println!("\n== all\n{}", summary.join("\n"));
    println!("{counts}");
    Ok(tests.is_good() && counts.is_good())
}

fn rustfmt() -> Result<bool> {
    holds(Program::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<bool> {
    let cargo = Program::cargo().args(["clippy", "--workspace", "--all-targets", "--profile", "ci", "--quiet"]);
    holds(cargo.args(["--", "--deny", "warnings"]))
}

fn rustdoc() -> Result<bool> {
    let cargo = Program::cargo().args(["doc", "--workspace", "--no-deps", "--profile", "ci", "--quiet"]);
    holds(cargo.env("RUSTDOCFLAGS", "--deny warnings"))
}

fn holds(program: Program) -> Result<bool> {
    Ok(program.status()?.success())
}

/// Builds the program and its tests.
fn build() -> Result<bool> {
    workspace::tested_landau().map(|landau| landau.exists())
}

/// Measures the claims of this project about growth. One that this machine leaves open today is no failure.
fn claims() -> Result<bool> {
    const INCONCLUSIVE: i32 = 125;
    let landau = workspace::tested_landau()?;
    let status = Program::new(&landau).args(["check", ".ci/claims.txt"]).status()?;
    Ok(matches!(status.code(), Some(0 | INCONCLUSIVE)))
}

/// Checks that the manual, the completions and the reference can be generated.
fn generate() -> Result<bool> {
    let landau = workspace::tested_landau()?;
    let forms: [&[&str]; 5] =
        [&["man"], &["completions", "bash"], &["completions", "zsh"], &["completions", "fish"], &["reference"]];
    for form in forms {
        let text = Program::new(&landau).args(["generate"]).args(form).text()?;
        ensure!(text.contains("landau"), "`landau generate {}` does not name the program", form.join(" "));
    }
    Ok(true)
}
