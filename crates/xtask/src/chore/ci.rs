//! `ci`: every check and every test, none of which stops the rest. The last line is `N passed, N failed`.

use crate::chore::{registry, test, tidy};
use crate::program::Program;
use crate::tally::Tally;
use crate::workspace;
use anyhow::{Result, ensure};
use std::time::Instant;

/// A check: its name and how it is made; whether all is well.
type Check = (&'static str, fn() -> Result<bool>);

const CHECKS: [Check; 6] = [
    ("rustfmt", rustfmt),
    ("registry --check", registry::check),
    ("tidy", tidy::run),
    ("clippy", clippy),
    ("rustdoc", rustdoc),
    ("landau generate", generate),
];

pub(crate) fn run() -> Result<bool> {
    let mut tally = Tally::default();
    let mut summary = Vec::new();
    for (name, check) in CHECKS {
        println!("\n== {name}");
        let began = Instant::now();
        // A check that could not be made has not held.
        let is_good = check().unwrap_or_else(|error| {
            println!("{error:#}");
            false
        });
        tally += Tally::of(is_good);
        summary.push(format!("{} {name}, {} s", if is_good { "ok  " } else { "FAIL" }, began.elapsed().as_secs()));
    }
    println!("\n== test");
    let began = Instant::now();
    let tests = test::everything()?;
    let word = if tests.is_good() { "ok  " } else { "FAIL" };
    summary.push(format!("{word} test ({tests}), {} s", began.elapsed().as_secs()));
    tally += tests;
    println!("\n== all\n{}", summary.join("\n"));
    println!("{tally}");
    Ok(tests.is_good() && tally.is_good())
}

fn rustfmt() -> Result<bool> {
    holds(Program::cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<bool> {
    holds(Program::cargo().args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"]))
}

fn rustdoc() -> Result<bool> {
    let cargo = Program::cargo().args(["doc", "--workspace", "--no-deps", "--quiet"]);
    holds(cargo.env("RUSTDOCFLAGS", "--deny warnings"))
}

fn holds(program: Program) -> Result<bool> {
    Ok(program.status()?.success())
}

/// What restates the parser comes out of the parser, and is not empty.
fn generate() -> Result<bool> {
    let landau = workspace::landau()?;
    let forms: [&[&str]; 5] =
        [&["man"], &["completions", "bash"], &["completions", "zsh"], &["completions", "fish"], &["reference"]];
    for form in forms {
        let text = Program::new(&landau).args(["generate"]).args(form).text()?;
        ensure!(text.contains("landau"), "`landau generate {}` does not name the program", form.join(" "));
    }
    Ok(true)
}
