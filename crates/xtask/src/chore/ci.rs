//! `ci`: runs every check and every test; a failure does not stop the rest. The last line is `N passed, N failed`.
//!
//! Everything is compiled in the profile `ci`, so that build scripts and procedural macros are built once.

use crate::chore::{registry, test, tidy};
use crate::counts::{Counts, Outcome};
use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::time::Instant;

/// The claims of this project about growth.
pub(crate) const CLAIMS: &str = ".ci/claims.txt";

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
    let Outcome { counts: tests, failures } = test::everything()?;
    let word = if tests.is_good() { "ok  " } else { "FAIL" };
    summary.push(format!("{word} test ({tests}), {} s", began.elapsed().as_secs()));
    summary.extend(failures.iter().map(|name| format!("     failed: {name}")));
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

/// Measures the claims of this project about growth. One that this machine leaves open today is no failure, but if most
/// are open, nothing was checked.
fn claims() -> Result<bool> {
    const INCONCLUSIVE: i32 = 125;
    let landau = workspace::tested_landau()?;
    let (status, lines) = Program::new(&landau).args(["check", CLAIMS]).watch(|_| true)?;
    if !matches!(status.code(), Some(0 | INCONCLUSIVE)) {
        return Ok(false);
    }
    let last = lines.last().map_or("", String::as_str);
    let answers = Answers::of(last).with_context(|| format!("`landau check` ended with `{last}`"))?;
    if !answers.is_enough() {
        println!("{} of {} claims pass; this check needs half of them", answers.pass, answers.total());
    }
    Ok(answers.is_enough())
}

/// How many claims have which answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) pass: u32,
    pub(crate) fail: u32,
    pub(crate) inconclusive: u32,
}

impl Answers {
    /// Reads the last line of `landau check`: `17 pass, 0 fail, 3 inconclusive`.
    pub(crate) fn of(line: &str) -> Option<Self> {
        let mut parts = line.split(", ");
        let mut number = |word: &str| parts.next()?.strip_suffix(word)?.strip_suffix(' ')?.parse().ok();
        let found = Self { pass: number("pass")?, fail: number("fail")?, inconclusive: number("inconclusive")? };
        parts.next().is_none().then_some(found)
    }

    /// Returns the number of claims.
    pub(crate) fn total(&self) -> u32 {
        self.pass + self.fail + self.inconclusive
    }

    fn is_enough(&self) -> bool {
        self.fail == 0 && self.pass > 0 && self.pass * 2 >= self.total()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against a check that is green although every claim is open.
    #[test]
    fn half_of_the_claims_must_pass() {
        let is_enough = |line: &str| Answers::of(line).map(|answers| answers.is_enough());
        assert_eq!(is_enough("17 pass, 0 fail, 3 inconclusive"), Some(true));
        assert_eq!(is_enough("10 pass, 0 fail, 10 inconclusive"), Some(true));
        assert_eq!(is_enough("9 pass, 0 fail, 10 inconclusive"), Some(false));
        assert_eq!(is_enough("0 pass, 0 fail, 19 inconclusive"), Some(false));
        assert_eq!(is_enough("18 pass, 1 fail, 0 inconclusive"), Some(false));
        assert_eq!(is_enough("0 pass, 0 fail, 0 inconclusive"), Some(false));
        for line in ["", "17 pass", "17 pass, 0 fail", "x pass, 0 fail, 3 inconclusive"] {
            assert_eq!(is_enough(line), None, "{line}");
        }
    }
}
