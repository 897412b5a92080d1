//! `bench history`: measures how often change points are right, on simulated histories, and how long a collection of
//! 10,000 records takes to index and to list.
//!
//! The records are a small one of the tree with other times, seeds and checksums, so each has to be read and verified.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_record::chain;
use landau_stats::histories::{PROMISE, Row, markdown, tally};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Simulated histories of each kind.
const HISTORIES: usize = 1_000;
const SEED: u64 = 2026;
/// The promise: a shift of 5% is found within five records in so many histories.
const FOUND_MIN: f64 = 0.9;
/// Whose promise it is: the records before and after the shift, their standard deviation, the shift.
const PROMISED: (usize, usize, f64, f64) = (30, 5, 0.02, 0.05);

/// Records of the collection.
const RECORDS: usize = 10_000;
/// The record that they are made from.
const MODEL: &str = "docs/records/schema-3.landau.ndjson";
/// Limits for making the index and for listing the collection from it.
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
    /// Write the collection to this folder and keep it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let rows = tally(words.histories, SEED);
    println!("{}", markdown(&rows));
    let mut is_good = promises(&rows);
    if words.records > 0 {
        is_good &= collection(words)?;
    }
    Ok(is_good)
}

/// Checks the error rate and the promise, and prints both.
fn promises(rows: &[Row]) -> bool {
    let without = rows.iter().filter(|row| row.after == 0 && !row.is_disturbed && row.correlation == 0.0);
    let worst = without.map(Row::share_wrong).fold(0.0, f64::max);
    let is_promised = |row: &&Row| (row.before, row.after, row.deviation, row.shift) == PROMISED && !row.is_disturbed;
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

/// Times the index of a collection, and listing it.
fn collection(words: &Words) -> Result<bool> {
    let landau = words.program.clone().map_or_else(workspace::landau, Ok)?;
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    let folder = words.keep.clone().unwrap_or_else(|| scratch.path().to_owned());
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let bytes = write(&folder, words.records)?;
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
    let indexed = verdict("making the index", index_s, "s", INDEX_S, index_s <= INDEX_S);
    let listed = verdict("listing from the index", list_s, "s", LIST_S, list_s <= LIST_S);
    println!("     drawing the costs of every curve: {draw_s:.2} s");
    Ok(indexed && listed)
}

/// Writes records that differ in their times and seeds; returns their size in bytes.
fn write(folder: &Path, records: usize) -> Result<usize> {
    let model = workspace::read(MODEL)?;
    let bodies: Vec<String> = model.lines().filter_map(chain::detach).map(|(body, _)| body).collect();
    ensure!(bodies.len() == model.lines().count(), "a line of {MODEL} has no checksum");
    let mut bytes = 0;
    for index in 0..records {
        let (month, day, minute) = (1 + index / 28 % 12, 1 + index % 28, index / 336);
        let started =
            format!("{}-{month:02}-{day:02}T{:02}:{:02}:00Z", 2020 + minute / 1440, minute / 60 % 24, minute % 60);
        let text = record(&bodies, &started, index)?;
        bytes += text.len();
        let path = folder.join(format!("{index:05}.landau.ndjson"));
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(bytes)
}

/// The lines with another time and seed in the header, and their checksums.
fn record(bodies: &[String], started: &str, seed: usize) -> Result<String> {
    let (head, rest) = bodies.split_first().context("the record is empty")?;
    let mut header: serde_json::Value = serde_json::from_str(head).context("parse the header")?;
    (header["started"], header["seed"]) = (started.into(), seed.into());
    // The kind must stay the first member, which a map of sorted members does not promise.
    let mut members = header.as_object().cloned().context("the header is no object")?;
    let kind = members.remove("kind").context("the header has no kind")?;
    let mut body = format!("{{\"kind\":{kind}");
    for (name, value) in &members {
        write!(body, ",\"{name}\":{value}").context("write to a text")?;
    }
    body.push('}');
    let mut seal = chain::START.to_owned();
    let mut text = String::new();
    for body in std::iter::once(&body).chain(rest) {
        seal = chain::seal(&seal, body);
        text.extend([&chain::attach(body, &seal), "\n"]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_record::Record;

    /// Guards against a collection whose records would all be left out.
    #[test]
    fn the_records_are_sound_and_differ() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 400).unwrap();
        let read = |index: usize| Record::read(&folder.path().join(format!("{index:05}.landau.ndjson"))).unwrap();
        let (first, last) = (read(0), read(399));
        assert!(first.fault.is_none() && first.end.is_some() && !first.results.is_empty());
        assert!(last.fault.is_none() && last.last_seal != first.last_seal);
        assert!(first.header.started < read(29).header.started);
    }
}
