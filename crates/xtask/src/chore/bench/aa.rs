//! `bench aa`: compares runs on one machine with each other. Every difference that is reported is false.
//!
//! The quick study runs `--runs` times (or records are given), and `landau show BASE OTHER --json` compares every pair,
//! with the earlier one as the baseline. Ten runs give 45 pairs, near and far apart in time, so that drift of the
//! machine is covered. Each pair is corrected (Holm) for its number of comparisons, as two records of a user are. A
//! comparison that names a winner reports a difference.

use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The tolerated share of comparisons that report a difference.
const SHARE: f64 = 0.05;

/// Arguments of `bench aa`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Number of runs of the quick study
    #[arg(long, default_value_t = 10)]
    runs: u32,
    /// Keep the records in this directory [default: a temporary one]
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Compare these records instead of new ones
    records: Vec<PathBuf>,
}

/// A comparison that reports a difference.
struct Called {
    place: String,
    text: String,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let landau = workspace::landau()?;
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    let folder = words.keep.as_deref().unwrap_or(scratch.path());
    let records = if words.records.is_empty() { measure(&landau, words.runs, folder)? } else { words.records.clone() };
    ensure!(records.len() >= 2, "a comparison needs two records");
    let (mut count, mut called) = (0, Vec::new());
    for (first, base) in records.iter().enumerate() {
        for (second, new) in records.iter().enumerate().skip(first + 1) {
            let (of, mut differing) = compare(&landau, base, new)?;
            println!(
                "{:2} against {:2}: {} of {of} comparisons report a difference",
                second + 1,
                first + 1,
                differing.len()
            );
            count += of;
            called.append(&mut differing);
        }
    }
    for one in &called {
        println!("  {}: {}", one.place, one.text);
    }
    let share = called.len() as f64 / count.max(1) as f64;
    println!("{} of {count} comparisons report a difference: {:.1}%", called.len(), share * 100.0);
    Ok(count > 0 && share <= SHARE)
}

fn measure(landau: &Path, runs: u32, folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let one = |run: u32| {
        let path = folder.join(format!("aa-{run}.landau.ndjson"));
        // Each run has another order: one that favours a case must not favour it ten times.
        let words = ["run", "--study", "quick", "--no-report", "--quiet", "--seed", &run.to_string(), "--output"];
        Program::new(landau).args(words).arg(&path).run()?;
        println!("run {run} of {runs}: {}", path.display());
        Ok(path)
    };
    (1..=runs).map(one).collect()
}

/// Returns the number of comparisons of a pair of records, and those that report a difference.
fn compare(landau: &Path, base: &Path, other: &Path) -> Result<(usize, Vec<Called>)> {
    let full = |path: &Path| path.canonicalize().with_context(|| format!("find {}", path.display()));
    let answer = Program::new(landau).args(["show", "--json"]).arg(full(base)?).arg(full(other)?).text()?;
    let answer: Value = serde_json::from_str(&answer).context("parse what `landau show --json` printed")?;
    read(&answer)
}

/// Reads the output of `landau show --json` for several records.
fn read(answer: &Value) -> Result<(usize, Vec<Called>)> {
    let comparisons = answer["comparisons"].as_array().context("`landau show --json` printed no comparisons")?;
    let mut called = Vec::new();
    for one in comparisons {
        let text = |name: &str| one[name].as_str().with_context(|| format!("a comparison has no `{name}`"));
        ensure!(one.get("winner").is_some(), "a comparison has no `winner`");
        if !one["winner"].is_null() {
            called.push(Called {
                place: format!("{} {}", text("case")?, text("phase")?),
                text: text("text")?.to_owned(),
            });
        }
    }
    Ok((comparisons.len(), called))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_counted() {
        let one = |winner: Value| json!({"case": "bind", "phase": "close", "winner": winner, "text": "w"});
        let (count, called) = read(&json!({"comparisons": [one(json!("b")), one(Value::Null)]})).unwrap();
        assert_eq!((count, called.len(), called[0].place.as_str()), (2, 1, "bind close"));
        assert!(read(&json!({"comparisons": [{"case": "x"}]})).is_err() && read(&json!({"rows": []})).is_err());
    }
}
