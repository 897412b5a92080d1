//! `calibrate`: measures how often a verdict is right, on synthetic series of known truth, and checks the targets.
//!
//! `calibrate --write` puts the table into METHODOLOGY.md. Its caption is the command; `tidy` checks that it is the one
//! below.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result};
use landau_stats::confusion::{Plan, Row, Score, Tally, calibrate, groups, markdown};
use landau_stats::promises::{Promises, promises};

/// Series of each truth, noise and length of the published table.
const TRIALS: usize = 6;
/// Seed of its first series.
const SEED: u64 = 2026;
/// Passes of a quick study, and those of the full one that are added to every fourth series.
const PASSES: usize = 5;
const MORE_PASSES: usize = 4;

/// Largest share of wrong verdicts: in a row, and over all.
const WRONG_MAX: [f64; 2] = [0.05, 0.02];
/// Largest share of flat truths called growing, falling or varying.
const FALSE_CHANGES_MAX: f64 = 0.01;
/// Limits of the share of the intervals of the growth that hold the truth, over all.
const COVERAGE: (f64, f64) = (0.87, 0.93);

/// Series of each truth near the margin, noise and length, whose promised passes are made.
const PROMISE_TRIALS: usize = 20;
/// Smallest share of the promises of further passes that are kept.
const KEPT_MIN: f64 = 0.8;

const DOCUMENT: &str = "METHODOLOGY.md";
const BEGIN: &str = "<!-- calibrate:begin -->";
const END: &str = "<!-- calibrate:end -->";

/// Arguments of `calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Series of each truth, noise and length
    #[arg(long, default_value_t = TRIALS)]
    trials: usize,
    /// Seed of the first series
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// Judge only truths whose name contains this, for example "step ×2" or "10000 0.05"; "promises": only those
    #[arg(long, default_value = "")]
    only: String,
    /// List every truth, noise and length, with what was wrong
    #[arg(long)]
    full: bool,
    /// Write the table into METHODOLOGY.md
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    // It fits thousands of curves, each hundreds of times: too slow without optimisation.
    if cfg!(debug_assertions) {
        return run_optimised(args);
    }
    let plan = Plan { trials: args.trials, seed: args.seed, passes: PASSES, more_passes: MORE_PASSES };
    let rows = calibrate(&plan, &args.only);
    if args.full {
        for row in &rows {
            print_row(row);
        }
    }
    let table = groups(&rows);
    let mut text = format!("{}\n\n{}", caption_of(args.trials, args.seed), markdown(&table).trim_end());
    let mut misses = misses(&table);
    if args.only.is_empty() || args.only == PROMISES {
        let promised = promises(PROMISE_TRIALS, args.seed);
        text.extend(["\n\n", &promises_markdown(&promised)]);
        misses.extend(broken(&promised));
    }
    println!("{text}");
    for miss in &misses {
        println!("missed: {miss}");
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

/// Prints a row with its classes (flat, small change, material, limit, not resolved) and what was said wrongly.
fn print_row(row: &Row) {
    let tally = &row.tally;
    println!(
        "{} {}, n to {}, noise {}: right {:.0}%, or rival {:.0}%, wrong {:.0}%; classes {:?}; interval holds {:.0}%",
        row.group,
        row.detail,
        row.calls,
        row.noise,
        100.0 * tally.share(Score::Right),
        100.0 * tally.good(),
        100.0 * tally.share(Score::Wrong),
        tally.classes,
        100.0 * tally.coverage()
    );
    for (text, count) in &tally.wrong {
        println!("    {count} × {text}");
    }
}

fn run_optimised(args: &Args) -> Result<bool> {
    let mut cargo =
        Program::cargo().args(["run", "--quiet", "--profile", "ci", "--package", "xtask", "--", "calibrate"]);
    cargo = cargo.args(["--trials", &args.trials.to_string(), "--seed", &args.seed.to_string(), "--only", &args.only]);
    if args.full {
        cargo = cargo.arg("--full");
    }
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

/// What `--only` calls the table of promises.
const PROMISES: &str = "promises";

/// Returns the table of promises as Markdown.
fn promises_markdown(promised: &Promises) -> String {
    let (median, needed) = promised.medians().unwrap_or_default();
    format!(
        "| series whose passes differ too much | promises of further passes | kept | median promise | median need |\n\
         |--:|--:|--:|--:|--:|\n| {} | {} | {:.1} | {median} | {needed} |",
        promised.open,
        promised.made.len(),
        100.0 * promised.share_kept()
    )
}

/// Returns what is wrong with the promises.
fn broken(promised: &Promises) -> Option<String> {
    let kept = promised.share_kept();
    let is_broken = !promised.made.is_empty() && kept < KEPT_MIN;
    is_broken.then(|| format!("{:.1}% of the promises are kept, at least {:.0}%", 100.0 * kept, 100.0 * KEPT_MIN))
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
fn misses(table: &[(&'static str, Tally)]) -> Vec<String> {
    let mut all = Tally::default();
    for (_, tally) in table {
        all.add(tally);
    }
    let mut found = Vec::new();
    let rows = table.iter().map(|(name, tally)| (*name, tally, WRONG_MAX[0])).chain([("all", &all, WRONG_MAX[1])]);
    for (name, tally, most) in rows {
        let wrong = tally.share(Score::Wrong);
        if wrong > most {
            found.push(format!("{name}: {:.1}% wrong, at most {:.0}%", 100.0 * wrong, 100.0 * most));
        }
        let changes = tally.false_changes as f64 / tally.trials.max(1) as f64;
        if changes > FALSE_CHANGES_MAX {
            found.push(format!("{name}: {:.1}% of flat truths change, at most 1%", 100.0 * changes));
        }
    }
    if all.growths > 0 && !(COVERAGE.0..=COVERAGE.1).contains(&all.coverage()) {
        found.push(format!("{:.1}% of the intervals hold the truth, not 90 ± 3%", 100.0 * all.coverage()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_targets_are_reported() {
        let good = Tally { trials: 100, scores: [96, 0, 0, 3, 1], growths: 100, covered: 90, ..Tally::default() };
        assert_eq!(misses(&[("constant", good.clone())]), Vec::<String>::new());
        let wrong = Tally { scores: [94, 0, 0, 0, 6], ..good.clone() };
        assert_eq!(misses(&[("constant", wrong)]).len(), 2);
        assert_eq!(misses(&[("constant", Tally { false_changes: 2, ..good.clone() })]).len(), 2);
        assert_eq!(misses(&[("constant", Tally { covered: 80, ..good })]).len(), 1);
    }

    #[test]
    fn broken_promises_are_reported() {
        let of = |kept| Promises { open: 20, made: vec![(4, Some(2)), (6, None), (5, Some(9))], kept };
        assert_eq!(broken(&of(3)), None);
        assert!(broken(&of(2)).is_some() && broken(&Promises::default()).is_none());
        assert!(promises_markdown(&of(2)).ends_with("| 20 | 3 | 66.7 | 5 | 9 |"));
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
