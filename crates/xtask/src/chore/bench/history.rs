//! `bench history`: measures how often change points in simulated histories are correct, and how long it takes to index
//! and to list a collection of 10,000 records.

use crate::program::Program;
use crate::{collection, workspace};
use anyhow::{Context, Result, ensure};
use landau_stats::histories::{PROMISE, Row, markdown, tally};
use std::path::PathBuf;
use std::time::Instant;

/// Simulated histories of each kind.
const HISTORIES: usize = 1_000;
const SEED: u64 = 2026;
/// The promise: the minimum share of histories in which a shift of 5% is found within five records.
const FOUND_MIN: f64 = 0.9;
/// The history to which the promise applies: the records before and after the shift, their standard deviation, the
/// shift.
const PROMISED: (usize, usize, f64, f64) = (50, 5, 0.02, 0.05);

/// Records of the collection.
const RECORDS: usize = 10_000;
/// Time limits for building the index and for listing the collection from it, in seconds.
const INDEX_S: f64 = 60.0;
const LIST_S: f64 = 1.0;

/// Arguments of `bench history`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Simulated histories of each kind
    #[arg(long, default_value_t = HISTORIES)]
    histories: usize,
    /// Records of the collection; 0 for none
    #[arg(long, default_value_t = RECORDS)]
    records: usize,
    /// Measure this program instead of building the one of the tree
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Write the collection to this directory and keep it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let rows = tally(words.histories, SEED);
    println!("{}", markdown(&rows));
    let mut is_good = promises(&rows);
    if words.records > 0 {
        is_good &= timed_collection(words)?;
    }
    Ok(is_good)
}

/// Checks the error rate and the promise, and prints both.
fn promises(rows: &[Row]) -> bool {
    let without = rows.iter().filter(|row| row.after == 0 && !row.is_disturbed);
    let worst = without.map(Row::share_wrong).fold(0.0, f64::max);
    let is_promised = |row: &&Row| {
        (row.before, row.after, row.deviation, row.shift) == PROMISED && !row.is_disturbed && row.correlation == 0.0
    };
    let found = rows.iter().find(is_promised).map_or(0.0, Row::share_found);
    let percent = |share: f64| share * 100.0;
    let rare =
        verdict("histories without a change that show one", percent(worst), "%", percent(PROMISE), worst <= PROMISE);
    let seen =
        verdict("shifts of 5% found within 5 records", percent(found), "%", percent(FOUND_MIN), found >= FOUND_MIN);
    rare && seen
}

/// Prints a value and whether it is within its limit.
fn verdict(what: &str, value: f64, unit: &str, limit: f64, is_good: bool) -> bool {
    println!("{} {what}: {value:.2} {unit} (limit {limit:.0} {unit})", if is_good { "ok  " } else { "FAIL" });
    is_good
}

/// Times indexing and listing a collection.
fn timed_collection(words: &Words) -> Result<bool> {
    let landau = words.program.clone().map_or_else(workspace::landau, Ok)?;
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    let folder = words.keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let bytes = collection::write(&folder, words.records)?;
    println!("     {} records, {} MB", words.records, bytes / 1_000_000);
    let timed = |more: &[&str]| -> Result<(f64, String)> {
        let began = Instant::now();
        let text = Program::new(&landau).arg("history").arg(&folder).args(more).text()?;
        Ok((began.elapsed().as_secs_f64(), text))
    };
    let (index_s, _) = timed(&["--rebuild"])?;
    let (list_s, text) = timed(&[])?;
    let expected = format!("{} records", words.records);
    ensure!(text.starts_with(&expected), "expected {expected}: {}", text.lines().next().unwrap_or_default());
    let (draw_s, _) = timed(&["--draw", "cost"])?;
    let indexed = verdict("building the index", index_s, "s", INDEX_S, index_s <= INDEX_S);
    let listed = verdict("listing from the index", list_s, "s", LIST_S, list_s <= LIST_S);
    println!("     drawing the costs of every curve: {draw_s:.2} s");
    Ok(indexed && listed)
}
