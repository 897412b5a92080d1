//! `bench aa`: compares runs on one machine with each other. Every difference that is reported is false.
//!
//! The quick study runs `--runs` times (or records are given), and `landau show BASE OTHER --json` compares every pair,
//! with the earlier one as the baseline. Ten runs give 45 pairs, near and far apart in time, so that drift of the
//! machine is covered. Each pair is one report, corrected (Holm) for its number of comparisons, as two records of a
//! user are. The promise is about reports: at most 5% may name any winner.
//!
//! It also prints in how many rows the records agree on the outcome, and how much each benchmark differs from run to
//! run, in the form of `crates/report/src/between_runs.rs`.

use super::agreement::{Said, agreement};
use crate::program::Program;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_stats::Verdict;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One report in so many may name a winner.
const REPORTS_PER_FALSE: usize = 20;

/// Standard deviations that components of variance are rounded up to.
const GRID: [f64; 10] = [0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0];

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

/// The report on a pair of records.
#[derive(Default)]
struct Report {
    /// Number of comparisons.
    count: usize,
    /// Those that name a winner: where, and in which words.
    called: Vec<(String, String)>,
    /// The logarithm of each ratio, by benchmark and phase.
    logs: Vec<((String, String), f64)>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let landau = workspace::landau()?;
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    let folder = words.keep.as_deref().unwrap_or(scratch.path());
    let records = if words.records.is_empty() { measure(&landau, words.runs, folder)? } else { words.records.clone() };
    ensure!(records.len() >= 2, "a comparison needs two records");
    let mut reports = Vec::new();
    for (first, base) in records.iter().enumerate() {
        for (second, new) in records.iter().enumerate().skip(first + 1) {
            let report = compare(&landau, base, new)?;
            let (base, new, called, of) = (first + 1, second + 1, report.called.len(), report.count);
            println!("{new:2} against {base:2}: {called} of {of} comparisons name a winner");
            reports.push(report);
        }
    }
    for (place, text) in reports.iter().flat_map(|report| &report.called) {
        println!("  {place}: {text}");
    }
    println!("\nvariation between runs:\n{}", components(&reports));
    let outcomes = records.iter().map(|record| outcomes(&landau, record)).collect::<Result<Vec<_>>>()?;
    println!("{}", agreement(&outcomes));
    let loud = reports.iter().filter(|report| !report.called.is_empty()).count();
    let called: usize = reports.iter().map(|report| report.called.len()).sum();
    let count: usize = reports.iter().map(|report| report.count).sum();
    println!("{called} of {count} comparisons name a winner, in {loud} of {} reports", reports.len());
    Ok(count > 0 && loud * REPORTS_PER_FALSE <= reports.len())
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

/// Compares a pair of records.
fn compare(landau: &Path, base: &Path, other: &Path) -> Result<Report> {
    let answer = show(landau, &[base, other])?;
    read(&answer)
}

/// Returns what `landau show --json` prints.
fn show(landau: &Path, records: &[&Path]) -> Result<Value> {
    let mut program = Program::new(landau).args(["show", "--json"]);
    for path in records {
        program = program.arg(path.canonicalize().with_context(|| format!("find {}", path.display()))?);
    }
    serde_json::from_str(&program.text()?).context("parse what `landau show --json` printed")
}

/// Reads the output of `landau show --json` for two records.
fn read(answer: &Value) -> Result<Report> {
    let comparisons = answer["comparisons"].as_array().context("`landau show --json` printed no comparisons")?;
    let mut report = Report { count: comparisons.len(), ..Report::default() };
    for one in comparisons {
        let text = |name: &str| one[name].as_str().with_context(|| format!("a comparison has no `{name}`"));
        let (case, phase) = (text("case")?, text("phase")?);
        ensure!(one.get("winner").is_some(), "a comparison has no `winner`");
        if !one["winner"].is_null() {
            report.called.push((format!("{case} {phase}"), text("text")?.to_owned()));
        }
        if let Some(ratio) = one["ratio"]["value"].as_f64() {
            let benchmark = case.split(' ').next().unwrap_or_default();
            report.logs.push(((benchmark.to_owned(), phase.to_owned()), ratio.ln()));
        }
    }
    Ok(report)
}

/// The standard deviation between runs of each benchmark and phase, rounded up. Two runs differ by the square root of
/// two of it.
fn components(reports: &[Report]) -> String {
    let mut squares: BTreeMap<&(String, String), Vec<f64>> = BTreeMap::new();
    for (place, log) in reports.iter().flat_map(|report| &report.logs) {
        squares.entry(place).or_default().push(log * log / 2.0);
    }
    let row = |((benchmark, phase), squares): (&(String, String), Vec<f64>)| {
        let deviation = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
        let rounded = GRID.iter().copied().find(|step| *step >= deviation).unwrap_or(1.0);
        format!("    (\"{benchmark}\", \"{phase}\", {rounded:.2}),\n")
    };
    squares.into_iter().map(row).collect()
}

/// What the verdict on each row of a record says, by case and phase.
fn outcomes(landau: &Path, record: &Path) -> Result<BTreeMap<String, Said>> {
    said(&show(landau, &[record])?)
}

/// Reads the verdicts from the output of `landau show --json` for one record.
fn said(answer: &Value) -> Result<BTreeMap<String, Said>> {
    let results = answer["results"].as_array().context("`landau show --json` printed no results")?;
    let one = |result: &Value| {
        let phase = result["phase"].as_str().context("a result has no `phase`")?;
        let verdict = serde_json::from_value::<Verdict>(result["verdict"].clone()).context("read a verdict")?;
        Ok((format!("case {} {phase}", result["case"]), Said::of(&verdict)))
    };
    results.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn comparison(winner: &Value, ratio: f64) -> Value {
        json!({"case": "bind range=1", "phase": "close", "winner": winner, "text": "w", "ratio": {"value": ratio}})
    }

    #[test]
    fn winners_and_ratios_are_read() {
        let report =
            read(&json!({"comparisons": [comparison(&json!("b"), 2.0), comparison(&Value::Null, 1.0)]})).unwrap();
        assert_eq!((report.count, report.called.len()), (2, 1));
        assert_eq!(report.called[0].0, "bind range=1 close");
        assert_eq!(report.logs[0].0, ("bind".to_owned(), "close".to_owned()));
        assert!(read(&json!({"comparisons": [{"case": "x"}]})).is_err() && read(&json!({"rows": []})).is_err());
    }

    /// Two runs that differ by 1% have a standard deviation of 0.7% between runs.
    #[test]
    fn components_are_rounded_up() {
        let report = |ratio| read(&json!({"comparisons": [comparison(&Value::Null, ratio)]})).unwrap();
        assert_eq!(components(&[report(1.01)]), "    (\"bind\", \"close\", 0.02),\n");
        assert_eq!(components(&[report(2.0), report(0.5)]), "    (\"bind\", \"close\", 0.50),\n");
    }
}
