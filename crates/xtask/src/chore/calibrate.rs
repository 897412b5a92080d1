//! `calibrate`: measures how often a verdict is right, on synthetic curves of known truth, and checks the targets.
//!
//! `calibrate --write` puts the table into METHODOLOGY.md. Its caption is the command; `tidy` checks that it is the one
//! below.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result};
use landau_stats::calibrate::{ConfusionRow, ConfusionTable, calibrate};
use landau_stats::simulate::Truth;

/// Curves of each row of the published table.
const TRIALS: usize = 200;
/// Seed of its first curve.
const SEED: u64 = 2026;

/// Minimum share of curves whose true law is the verdict or a named rival.
const NAMED: f64 = 0.95;
/// Minimum share of curves outside the dictionary that are called "no simple law".
const FLAGGED: f64 = 0.99;
/// Maximum share of constant curves that are called growing.
const FALSE_GROWTH: f64 = 0.02;
/// Truths without a target. A logarithmic rise of 6% is so close to the margin of 10% that noise of 4% carries one
/// curve in fifteen beyond. The linear rise of the same size has the target.
const NO_TARGET: &[Truth] = &[Truth::Rise6Log];

const DOCUMENT: &str = "METHODOLOGY.md";
const BEGIN: &str = "<!-- calibrate:begin -->";
const END: &str = "<!-- calibrate:end -->";

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Curves per row
    #[arg(long, default_value_t = TRIALS)]
    trials: usize,
    /// Seed of the first curve
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Write the table into METHODOLOGY.md
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    // It fits thousands of curves, each about a thousand times: too slow without optimisation.
    if cfg!(debug_assertions) {
        return run_optimised(args);
    }
    let table = calibrate(args.trials, args.seed);
    let text = captioned(&table, args.trials, args.seed);
    println!("{text}");
    let misses = misses(&table);
    for miss in &misses {
        println!("missed: {miss}");
    }
    for row in table.rows.iter().filter(|row| NO_TARGET.contains(&row.truth) && row.named < NAMED) {
        let (truth, noise, named) = (row.truth.name(), row.noise * 100.0, row.named * 100.0);
        println!("no target, for information: {truth} at {noise:.0}% noise: right or rival in {named:.1}%");
    }
    if misses.is_empty() {
        println!("all targets met");
    }
    if args.write {
        let document = workspace::read(DOCUMENT)?;
        let new = with_table(&document, &text).with_context(|| format!("{DOCUMENT} has no `{BEGIN}` or no `{END}`"))?;
        std::fs::write(workspace::root().join(DOCUMENT), new).with_context(|| format!("write {DOCUMENT}"))?;
    }
    Ok(misses.is_empty())
}

fn run_optimised(args: &Args) -> Result<bool> {
    let mut cargo = Program::cargo().args(["run", "--quiet", "--release", "--package", "xtask", "--", "calibrate"]);
    cargo = cargo.args(["--trials", &args.trials.to_string(), "--seed", &args.seed.to_string()]);
    if args.write {
        cargo = cargo.arg("--write");
    }
    Ok(cargo.status()?.success())
}

/// Returns the command that makes the published table.
pub(crate) fn command() -> String {
    command_of(TRIALS, SEED)
}

/// Returns the first line of the published table.
pub(crate) fn caption() -> String {
    caption_of(TRIALS, SEED)
}

fn command_of(trials: usize, seed: u64) -> String {
    format!("cargo xtask calibrate --trials {trials} --seed {seed}")
}

fn caption_of(trials: usize, seed: u64) -> String {
    format!("Made by `{}`; shares in percent.", command_of(trials, seed))
}

fn captioned(table: &ConfusionTable, trials: usize, seed: u64) -> String {
    format!("{}\n\n{}", caption_of(trials, seed), table.markdown().trim_end())
}

/// Returns the text between the markers of a document.
pub(crate) fn table_in(document: &str) -> Option<&str> {
    let (_, rest) = document.split_once(BEGIN)?;
    rest.split_once(END).map(|(table, _)| table)
}

fn with_table(document: &str, table: &str) -> Option<String> {
    let (head, rest) = document.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}\n{table}\n{END}{tail}"))
}

/// Returns the missed targets, a sentence each.
fn misses(table: &ConfusionTable) -> Vec<String> {
    table.rows.iter().filter_map(miss).collect()
}

fn miss(row: &ConfusionRow) -> Option<String> {
    let place = format!("{} at {:.0}% noise", row.truth.name(), row.noise * 100.0);
    if row.truth.law().is_none() {
        return (row.no_law < FLAGGED).then(|| format!("{place}: called no simple law in {:.1}%", row.no_law * 100.0));
    }
    if NO_TARGET.contains(&row.truth) {
        return None;
    }
    if row.named < NAMED {
        return Some(format!("{place}: right or rival in {:.1}%", row.named * 100.0));
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
            falls: 0.0,
            unresolved: 0.0,
        }
    }

    #[test]
    fn missed_targets_are_reported() {
        assert_eq!(miss(&row(Truth::Root)), None);
        assert!(miss(&ConfusionRow { named: 0.94, ..row(Truth::Root) }).is_some());
        assert!(miss(&ConfusionRow { grows: 0.025, ..row(Truth::Constant) }).is_some());
        assert!(miss(&ConfusionRow { no_law: 0.985, ..row(Truth::Hump) }).is_some());
        assert_eq!(miss(&ConfusionRow { named: 0.0, ..row(Truth::Hump) }), None);
    }

    #[test]
    fn the_table_is_written_between_its_markers() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = with_table(&document, "new").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(table_in(&new), Some("\nnew\n"));
        assert_eq!(with_table("no markers", "new"), None);
    }
}
