//! `bench aa`: runs of one and the same machine against each other. Every difference that is called is false.
//!
//! The quick study is run `--runs` times (or the records are given), and every pair of runs is compared by
//! `landau compare --json`, the earlier one as the base: 45 pairs of ten runs, which holds the far-apart pairs that
//! a drift of the machine would show in as well as the neighbours. Each pair is corrected for its own number of
//! comparisons, as a user's single comparison is.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The largest share of comparisons that may call a difference.
const SHARE: f64 = 0.05;

/// Arguments of `bench aa`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// How often the quick study is run
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Where new records are kept [default: a temporary folder]
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Records to compare instead
    records: Vec<PathBuf>,
}

/// One comparison that called a difference.
struct Called {
    place: String,
    words: String,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let landau = workspace::landau()?;
    let scratch = tempfile::tempdir().context("make a folder for the records")?;
    let folder = words.keep.as_deref().unwrap_or(scratch.path());
    let records = if words.records.is_empty() { measure(&landau, words.runs, folder)? } else { words.records.clone() };
    ensure!(records.len() >= 2, "it takes two records to compare");
    let (mut count, mut called) = (0, Vec::new());
    for (first, base) in records.iter().enumerate() {
        for (second, new) in records.iter().enumerate().skip(first + 1) {
            let (of, mut differing) = compare(&landau, base, new)?;
            println!(
                "{:2} against {:2}: {} of {of} comparisons call a difference",
                second + 1,
                first + 1,
                differing.len()
            );
            count += of;
            called.append(&mut differing);
        }
    }
    for one in &called {
        println!("  {}: {}", one.place, one.words);
    }
    let share = called.len() as f64 / f64::from(count.max(1));
    println!("{} of {count} comparisons call a difference: {:.1}%", called.len(), share * 100.0);
    Ok(count > 0 && share <= SHARE)
}

fn measure(landau: &Path, runs: u32, folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let one = |run: u32| {
        let path = folder.join(format!("aa-{run}.landau.ndjson"));
        // Each run has an order of its own: an order that favours a case must not favour it ten times.
        let words = ["run", "--study", "quick", "--no-report", "--quiet", "--seed", &run.to_string(), "--out"];
        Program::new(landau).args(words).arg(&path).run()?;
        println!("run {run} of {runs}: {}", path.display());
        Ok(path)
    };
    (1..=runs).map(one).collect()
}

/// How many comparisons a pair of records gives, and those that call a difference.
fn compare(landau: &Path, base: &Path, new: &Path) -> Result<(u32, Vec<Called>)> {
    let full = |path: &Path| path.canonicalize().with_context(|| format!("find {}", path.display()));
    let program = Program::new(landau).args(["compare", "--json"]).arg(full(base)?).arg(full(new)?);
    let (status, out, err) = program.output()?;
    // Status 1 says that something differs, which is what is being counted.
    if !status.success() && status.code() != Some(1) {
        bail!("`landau compare` failed: {status}\n{err}");
    }
    let answer: Value = serde_json::from_str(&out).context("parse what `landau compare --json` printed")?;
    read(&answer)
}

/// Reads the answer of `landau compare --json`: an array of duels, or an object that holds it.
fn read(answer: &Value) -> Result<(u32, Vec<Called>)> {
    let list = answer.as_array().or_else(|| answer["comparisons"].as_array()).or_else(|| answer["duels"].as_array());
    let list = list.context("`landau compare --json` printed no list of comparisons")?;
    let mut called = Vec::new();
    for one in list {
        let comparison = if one["comparison"].is_object() { &one["comparison"] } else { one };
        let change = &comparison["change"];
        ensure!(!change.is_null(), "a comparison says nothing about a change");
        if change == "Faster" || change == "Slower" {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let place = format!("{} {}", text(&one["label"]), text(&one["phase"]));
            called.push(Called { place, words: text(&comparison["words"]) });
        }
    }
    Ok((list.len() as u32, called))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_counted() {
        let answer = json!([
            {"label": "bind", "phase": "bind", "comparison": {"change": "Faster", "words": "w"}},
            {"label": "bind", "phase": "close", "comparison": {"change": {"NoDifferenceProven": {}}}},
        ]);
        let (count, called) = read(&answer).unwrap();
        assert_eq!((count, called.len(), called[0].place.as_str()), (2, 1, "bind bind"));
        assert!(read(&json!([{"label": "x"}])).is_err() && read(&json!({})).is_err());
    }
}
