//! `calibrate`: how often is a verdict right? Counted on synthetic curves of known truth, held against the targets.
//!
//! The table in METHODOLOGY.md is what `calibrate --write` put there; its caption is the command, and `tidy` sees
//! that it is still the one below.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result};
use landau_stats::calibrate::{ConfusionRow, ConfusionTable, calibrate};
use landau_stats::simulate::Truth;

/// Curves of each row of the published table.
const TRIALS: usize = 200;
/// Seed of its first curve.
const SEED: u64 = 2026;

/// Right, or the truth among the named rivals, at least so often.
const NAMED: f64 = 0.95;
/// A shape outside the dictionary is flagged at least so often.
const FLAGGED: f64 = 0.99;
/// A constant series is called growing at most so often.
const FALSE_GROWTH: f64 = 0.02;
/// Reported, but held against no target: a rise of 6% that is logarithmic stays within 10% by so little that noise of
/// 4% carries one curve in fifteen beyond. The linear rise of the same size is held against the target.
const BEYOND_TARGET: &[Truth] = &[Truth::Rise6Log];

const DOCUMENT: &str = "METHODOLOGY.md";
const BEGIN: &str = "<!-- calibrate:begin -->";
const END: &str = "<!-- calibrate:end -->";

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Curves of each row
    #[arg(long, default_value_t = TRIALS)]
    trials: usize,
    /// Seed of the first curve
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Put the table into METHODOLOGY.md
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    // Thousands of curves are judged, each some thousand times over: minutes, unless optimised.
    if cfg!(debug_assertions) {
        return again_optimised(words);
    }
    let table = calibrate(words.trials, words.seed);
    let text = captioned(&table, words.trials, words.seed);
    println!("{text}");
    let misses = misses(&table);
    for miss in &misses {
        println!("missed: {miss}");
    }
    for row in table.rows.iter().filter(|row| BEYOND_TARGET.contains(&row.truth) && row.named < NAMED) {
        let (truth, noise, named) = (row.truth, row.noise * 100.0, row.named * 100.0);
        println!("beyond the target, reported only: {truth:?} at {noise:.0}% noise: right or named in {named:.1}%");
    }
    if misses.is_empty() {
        println!("every target is met");
    }
    if words.write {
        let document = workspace::read(DOCUMENT)?;
        let new = with_table(&document, &text).with_context(|| format!("{DOCUMENT} lacks `{BEGIN}` or `{END}`"))?;
        std::fs::write(workspace::root().join(DOCUMENT), new).with_context(|| format!("write {DOCUMENT}"))?;
    }
    Ok(misses.is_empty())
}

fn again_optimised(words: &Words) -> Result<bool> {
    let mut cargo = Program::cargo().args(["run", "--quiet", "--release", "--package", "xtask", "--", "calibrate"]);
    cargo = cargo.args(["--trials", &words.trials.to_string(), "--seed", &words.seed.to_string()]);
    if words.write {
        cargo = cargo.arg("--write");
    }
    Ok(cargo.status()?.success())
}

/// The command that makes the published table.
pub(crate) fn command() -> String {
    command_of(TRIALS, SEED)
}

/// The published table's first line.
pub(crate) fn caption() -> String {
    caption_of(TRIALS, SEED)
}

fn command_of(trials: usize, seed: u64) -> String {
    format!("cargo xtask calibrate --trials {trials} --seed {seed}")
}

fn caption_of(trials: usize, seed: u64) -> String {
    format!("Made by `{}`; shares in per cent.", command_of(trials, seed))
}

fn captioned(table: &ConfusionTable, trials: usize, seed: u64) -> String {
    format!("{}\n\n{}", caption_of(trials, seed), table.markdown().trim_end())
}

/// What stands between the marks of a document.
pub(crate) fn table_in(document: &str) -> Option<&str> {
    let (_, rest) = document.split_once(BEGIN)?;
    rest.split_once(END).map(|(table, _)| table)
}

fn with_table(document: &str, table: &str) -> Option<String> {
    let (head, rest) = document.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}\n{table}\n{END}{tail}"))
}

/// The cells that miss a target of the project.
fn misses(table: &ConfusionTable) -> Vec<String> {
    table.rows.iter().filter_map(miss).collect()
}

fn miss(row: &ConfusionRow) -> Option<String> {
    let place = format!("{:?} at {:.0}% noise", row.truth, row.noise * 100.0);
    if row.truth.law().is_none() {
        return (row.no_law < FLAGGED).then(|| format!("{place}: flagged in {:.1}%", row.no_law * 100.0));
    }
    if BEYOND_TARGET.contains(&row.truth) {
        return None;
    }
    if row.named < NAMED {
        return Some(format!("{place}: right or named in {:.1}%", row.named * 100.0));
    }
    let is_flat = matches!(row.truth, Truth::Constant);
    (is_flat && row.grows > FALSE_GROWTH).then(|| format!("{place}: called growing in {:.1}%", row.grows * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(truth: Truth) -> ConfusionRow {
        ConfusionRow {
            truth,
            noise: 0.01,
            right: 1.0,
            named: 1.0,
            laws: 1.0,
            constant: 0.0,
            grows: 0.0,
            no_law: 1.0,
            decreases: 0.0,
            inconclusive: 0.0,
        }
    }

    #[test]
    fn a_missed_target_is_named() {
        assert_eq!(miss(&row(Truth::Root)), None);
        assert!(miss(&ConfusionRow { named: 0.94, ..row(Truth::Root) }).is_some());
        assert!(miss(&ConfusionRow { grows: 0.025, ..row(Truth::Constant) }).is_some());
        assert!(miss(&ConfusionRow { no_law: 0.985, ..row(Truth::Hump) }).is_some());
        assert_eq!(miss(&ConfusionRow { named: 0.0, ..row(Truth::Hump) }), None);
    }

    #[test]
    fn the_table_goes_between_its_marks() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = with_table(&document, "new").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(table_in(&new), Some("\nnew\n"));
        assert_eq!(with_table("no marks", "new"), None);
    }
}
