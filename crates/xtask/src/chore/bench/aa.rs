//! `bench aa`: compares runs on one machine with each other. Every reported difference is a false positive.
//!
//! The quick study runs `--runs` times (or records are given), and `landau compare BASE OTHER --json` compares every
//! pair, with the earlier one as the baseline. Ten runs give 45 pairs, near and far apart in time, so that drift of the
//! machine is covered. Each pair is one report, corrected (Holm) for its number of curves, like the comparison of two
//! records by a user. The promise is about reports: at most 5% may name any winner. A reported change of growth, a
//! cliff, a limit or a recurring outlier is a false positive too, and is counted separately.
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

/// One report in this many may name a winner.
const REPORTS_PER_FALSE: usize = 20;

/// The standard deviations to which components of variance are rounded up.
const GRID: [f64; 11] = [0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0];

/// The smallest standard deviation of a growth in the list: with few records, a smaller one is chance.
const GROWTH_MIN: f64 = 0.02;

/// The half width of the 95% interval of a ratio of growths in standard errors, for five passes on either side
/// (Student's t with 8 degrees of freedom).
const HALF_WIDTH: f64 = 2.306;

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

/// A benchmark and one of its phases.
type Place = (String, String);

/// What a comparison of two curves shows about the differences between runs.
struct Squares {
    place: Place,
    case: String,
    /// The square of the logarithm of the ratio of costs.
    level: Option<f64>,
    /// That of the ratio of growths, less the variance between passes, so it may be negative.
    growth: Option<f64>,
}

/// The report on a pair of records.
#[derive(Default)]
struct Report {
    /// Number of curves.
    count: usize,
    /// Number of curves of which one side is reported to cost less.
    winners: usize,
    /// All reported changes: the place and the text.
    called: Vec<(String, String)>,
    squares: Vec<Squares>,
    /// The shift of all curves as text, if there is one.
    shift: Option<String>,
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
            println!("{:2} against {:2}: {}", second + 1, first + 1, report.summary());
            reports.push(report);
        }
    }
    for (place, text) in reports.iter().flat_map(|report| &report.called) {
        println!("  {place}: {text}");
    }
    println!("\nvariation between runs, of the level and of the growth:\n{}", components(&reports));
    let outcomes = records.iter().map(|record| outcomes(&landau, record)).collect::<Result<Vec<_>>>()?;
    println!("{}", agreement(&outcomes));
    let with = |is: fn(&&Report) -> bool| reports.iter().filter(is).count();
    let (loud, changed) = (with(|report| report.winners > 0), with(|report| !report.called.is_empty()));
    let (curves, of): (usize, usize) = (reports.iter().map(|report| report.count).sum(), reports.len());
    println!("{loud} of {of} reports name a winner, {changed} any change; {curves} curves compared");
    Ok(curves > 0 && loud * REPORTS_PER_FALSE <= of)
}

fn measure(landau: &Path, runs: u32, folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let one = |run: u32| {
        let path = folder.join(format!("aa-{run}.landau.ndjson"));
        // Each run has a different order, so that an order that favours a case occurs only once.
        let words = ["run", "--study", "quick", "--no-report", "--quiet", "--seed", &run.to_string(), "--output"];
        Program::new(landau).args(words).arg(&path).run()?;
        println!("run {run} of {runs}: {}", path.display());
        Ok(path)
    };
    (1..=runs).map(one).collect()
}

impl Report {
    fn summary(&self) -> String {
        let Self { count, winners, called, shift, .. } = self;
        let shift = shift.as_ref().map_or(String::new(), |shift| format!("; {shift}"));
        format!("{winners} winners among {count} curves, {} changes in all{shift}", called.len())
    }
}

/// Compares a pair of records.
fn compare(landau: &Path, base: &Path, other: &Path) -> Result<Report> {
    read(&answer(landau, "compare", &[base, other])?)
}

/// Returns the JSON that a command prints about records.
fn answer(landau: &Path, command: &str, records: &[&Path]) -> Result<Value> {
    let mut program = Program::new(landau).args([command, "--json"]);
    for path in records {
        program = program.arg(path.canonicalize().with_context(|| format!("find {}", path.display()))?);
    }
    serde_json::from_str(&program.text()?).with_context(|| format!("parse what `landau {command} --json` printed"))
}

/// Reads the output of `landau compare --json`.
fn read(answer: &Value) -> Result<Report> {
    let list =
        |name: &str| answer[name].as_array().with_context(|| format!("`landau compare --json` printed no `{name}`"));
    let (curves, limits) = (list("curves")?, list("limits")?);
    let mut report = Report { count: curves.len(), shift: shift(&answer["shift"]), ..Report::default() };
    for one in curves {
        let text = |name: &str| one[name].as_str().with_context(|| format!("a comparison has no `{name}`"));
        let (case, phase) = (text("case")?, text("phase")?);
        report.winners += usize::from(text("result")? != "no_difference_proven");
        if one["changed"].as_bool().context("a comparison has no `changed`")? {
            report.called.push((format!("{case} {phase}"), text("text")?.to_owned()));
        }
        let log = |ratio: &Value, name: &str| ratio[name].as_f64().map(f64::ln);
        let growth = &one["growth"]["ratio"];
        let error = || Some((log(growth, "high")? - log(growth, "low")?) / 2.0 / HALF_WIDTH);
        report.squares.push(Squares {
            place: (text("benchmark")?.to_owned(), phase.to_owned()),
            case: case.to_owned(),
            level: log(&one["ratio"], "value").map(|log| log.powi(2)),
            growth: log(growth, "value").zip(error()).map(|(log, error)| log.powi(2) - error.powi(2)),
        });
    }
    for one in limits {
        report.called.push((one["case"].to_string(), one["text"].to_string()));
    }
    Ok(report)
}

/// Returns the shift of all curves between two records as text.
fn shift(shift: &Value) -> Option<String> {
    let number = |name: &str| shift[name].as_f64();
    let (ratio, costs, growths) = (number("ratio")?, number("deviation")?, number("growth_deviation")?);
    Some(format!("shift: median ratio {ratio:.2}, {costs:.2} added to costs, {growths:.2} to growths"))
}

/// Returns the standard deviations between runs of the level and of the growth of each benchmark and phase, rounded up.
/// The difference between two runs has √2 times that standard deviation. The level contains the variation between the
/// passes of a run, and is that of all cases. The growth does not contain it, and is that of the case that differs
/// most: one of three cases of `mail` grows differently in some runs.
fn components(reports: &[Report]) -> String {
    let mut of_places: BTreeMap<&Place, Differences> = BTreeMap::new();
    for one in reports.iter().flat_map(|report| &report.squares) {
        let of_place = of_places.entry(&one.place).or_default();
        of_place.levels.extend(one.level);
        of_place.growths.entry(&one.case).or_default().extend(one.growth);
    }
    let deviation = |squares: &[f64]| (squares.iter().sum::<f64>() / squares.len().max(1) as f64 / 2.0).max(0.0).sqrt();
    let rounded = |deviation: f64| GRID.iter().copied().find(|step| *step >= deviation).unwrap_or(1.0);
    let row = |((benchmark, phase), Differences { levels, growths }): (&Place, Differences<'_>)| {
        let level = rounded(deviation(&levels));
        let growth = rounded(growths.values().map(|squares| deviation(squares)).fold(GROWTH_MIN, f64::max));
        format!("    (\"{benchmark}\", \"{phase}\", {level:.2}, {growth:.2}),\n")
    };
    of_places.into_iter().map(row).collect()
}

/// The squares of all pairs of records for a place: those of the level, and those of the growth by case.
#[derive(Default)]
struct Differences<'a> {
    levels: Vec<f64>,
    growths: BTreeMap<&'a str, Vec<f64>>,
}

/// Returns the outcome of each row of a record, by case and phase.
fn outcomes(landau: &Path, record: &Path) -> Result<BTreeMap<String, Said>> {
    said(&answer(landau, "show", &[record])?)
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

    fn curve(result: &str, is_changed: bool, ratio: f64, growth: f64) -> Value {
        json!({"benchmark": "bind", "case": "bind range=1", "phase": "close", "result": result, "changed": is_changed,
            "text": "w", "ratio": {"value": ratio},
            "growth": {"ratio": {"value": growth, "low": growth / 1.1, "high": growth * 1.1}}})
    }

    fn answer(curves: &[Value]) -> Value {
        json!({"curves": curves, "limits": []})
    }

    #[test]
    fn winners_changes_and_ratios_are_read() {
        let curves = [
            curve("faster", true, 2.0, 1.0),
            curve("no_difference_proven", true, 1.0, 3.0),
            curve("no_difference_proven", false, 1.0, 1.0),
        ];
        let report = read(&answer(&curves)).unwrap();
        assert_eq!((report.count, report.winners, report.called.len()), (3, 1, 2));
        assert_eq!(report.called[0].0, "bind range=1 close");
        let Squares { place, case, level, growth } = &report.squares[1];
        assert_eq!((place.0.as_str(), place.1.as_str(), case.as_str()), ("bind", "close", "bind range=1"));
        let error = 1.1_f64.ln() / HALF_WIDTH;
        assert!((growth.unwrap() - (3_f64.ln().powi(2) - error * error)).abs() < 1e-12, "{growth:?}");
        assert_eq!(*level, Some(0.0));
        let limit = json!({"curves": [], "limits": [{"case": "socket", "text": "came"}]});
        assert_eq!(read(&limit).unwrap().called.len(), 1);
        assert!(read(&answer(&[json!({"case": "x"})])).is_err() && read(&json!({"rows": []})).is_err());
    }

    /// Two runs that differ by 1% have a standard deviation of 0.7% between runs.
    #[test]
    fn components_are_rounded_up() {
        let report = |ratio, growth| read(&answer(&[curve("faster", true, ratio, growth)])).unwrap();
        assert_eq!(components(&[report(1.01, 1.03)]), "    (\"bind\", \"close\", 0.01, 0.02),\n");
        assert_eq!(components(&[report(2.0, 1.0), report(0.5, 1.0)]), "    (\"bind\", \"close\", 0.50, 0.02),\n");
        // ln 1.106 / √2 is 7.1%; without the variance of the passes, whose standard error is 4.1%, it is 6.5%.
        assert_eq!(components(&[report(1.0, 1.106)]), "    (\"bind\", \"close\", 0.01, 0.07),\n");
        // Of two cases, the one that differs most counts; over both it would be 4.1%.
        let mut other = curve("faster", true, 1.0, 1.0);
        other["case"] = json!("bind range=2");
        let both = read(&answer(&[curve("faster", true, 1.0, 1.106), other])).unwrap();
        assert_eq!(components(&[both]), "    (\"bind\", \"close\", 0.01, 0.07),\n");
    }
}
