//! `bench claims`: measures the claims of this project repeatedly, and counts the answers.
//!
//! The claims hold, so every failure is a false one. An inconclusive answer is not a failure.

use crate::chore::ci::{Answers, CLAIMS};
use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `bench claims`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Measure the claims this many times
    #[arg(long, default_value_t = 50)]
    runs: u32,
    /// Check with this program instead of building the one of the tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let landau = words.program.clone().map_or_else(workspace::landau, Ok)?;
    let mut all: Vec<Answers> = Vec::new();
    for number in 1..=words.runs {
        let began = Instant::now();
        let (status, text, _) = Program::new(&landau).args(["check", CLAIMS]).output()?;
        let last = text.lines().last().unwrap_or_default();
        let answers = Answers::of(last)
            .with_context(|| format!("run {number}: `landau check` ended with {status} and `{last}`"))?;
        println!("{number:>3}: {last}, {:.1} s", began.elapsed().as_secs_f64());
        text.lines().filter(|line| line.starts_with("fail ")).for_each(|line| println!("     {line}"));
        all.push(answers);
    }
    let failed = all.iter().filter(|one| one.fail > 0).count();
    let whole = all.iter().filter(|one| one.pass == one.total()).count();
    let inconclusive: u32 = all.iter().map(|one| one.inconclusive).sum();
    let claims: u32 = all.iter().map(Answers::total).sum();
    println!(
        "{} {} runs, {failed} with a false failure; all claims pass in {whole}, {inconclusive} of {claims} answers are \
         inconclusive",
        if failed == 0 { "ok  " } else { "FAIL" },
        all.len(),
    );
    Ok(failed == 0)
}
