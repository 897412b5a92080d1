//! `landau check`: checks claims about growth against records, for CI and for bisection.

use crate::claims::{cases, resolved};
use crate::command::run::measure as measure_cases;
use crate::command::{report, show};
use crate::{status, terminal};
use anyhow::{Context, bail, ensure};
use landau_claims::{ParseError, Placed};
use landau_engine::Scratch;
use landau_record::Record;
use landau_record::schema::EndOutcome;
use landau_report::Analysis;
use landau_report::claims::{self, Answer, Base, Checked, Report, Source, junit};
use landau_report::table::plain;
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(override_usage = "landau check [OPTIONS] CLAIMS [RECORD]...
       landau check [OPTIONS] --claim TEXT [RECORD]...")]
#[command(after_help = "Examples:
  landau check claims.txt run.landau.ndjson
  landau check claims.txt                              measure the cases of the claims now
  landau check --claim 'bind: O(1) within 10% to 10000' run.landau.ndjson
  landau check --claim 'fork: < 1.1x base at 3000' new.landau.ndjson --base old.landau.ndjson
  landau check claims.txt run.landau.ndjson --junit claims.xml

Claims, one a line; # begins a comment:
  bind: O(1) within 10% to 10000          the cost at 10,000 equals that at small n, within 10%
  mmap.munmap: grows at most O(n)         the phase munmap; a cliff fails
  fork.dynamic: < 1.1x base at 3000       the case with linkage=dynamic, over the base record
  fork.static: < 0.8x fork.dynamic at 3000
  bind: < 2us at 900                      a cost; bind.instructions@900 < 2000 counts instructions
  bind: grows < 2x to 10000               the cost at 10,000 over that at the smallest n
  socket: no recurring outlier
  socket.*: no cliff below 5000           every phase
  socket: no limit below 10000

A claim passes if the whole confidence interval satisfies it, and fails if no part of the interval
does; otherwise it is inconclusive. docs/compare.md has the grammar.

Exit status: 0 if every claim passes, 1 if one fails, 125 if none fails and one is inconclusive,
2 if the command could not run.")]
pub(crate) struct Args {
    /// File of claims, or - for standard input; with --claim, this is the first record
    #[arg(value_name = "CLAIMS")]
    first: Option<PathBuf>,
    /// Check the claims against these records [default: measure the cases of the claims now]
    #[arg(value_name = "RECORD")]
    others: Vec<PathBuf>,
    /// Check this claim; may be repeated
    #[arg(long, value_name = "TEXT")]
    claim: Vec<String>,
    /// Use this record as the base of claims such as `< 1.1x base at 3000`
    #[arg(long, value_name = "RECORD")]
    base: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write the answers to this file, as XML for build servers
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Exit status if no claim fails and at least one is inconclusive; `git bisect run` skips the commit.
const INCONCLUSIVE: u8 = 125;

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    let (mut placed, records) = read_claims(args)?;
    for one in &mut placed {
        one.claim = resolved(&one.claim).with_context(|| format!("line {}", one.line))?;
    }
    let needs_base = placed.iter().find(|one| one.claim.needs_base());
    if let (Some(one), None) = (needs_base, &args.base) {
        bail!("line {}: `{}` needs a base record; pass it with --base", one.line, one.text);
    }
    if let Some(path) = &args.junit {
        check_junit(path)?;
    }
    let base = args.base.as_ref().map(|path| Record::read(path)).transpose()?;
    let (measured, records) = if records.is_empty() {
        let scratch = Scratch::create_registered(&std::env::temp_dir())?;
        let record = measure(&placed, scratch.path(), words)?;
        (Some(scratch), vec![record])
    } else {
        (None, records)
    };
    let read = records.iter().map(|path| Record::read(path)).collect::<Result<Vec<_>, _>>()?;
    drop(measured);
    let names = show::names(&records);
    let report = decided(&placed, &read, &names, base.as_ref());
    if let Some(path) = &args.junit {
        write_junit(path, &report.claims)?;
    }
    let status = match report.answer {
        Answer::Pass => status::DONE,
        Answer::Fail => status::FAILED,
        Answer::Inconclusive => INCONCLUSIVE,
    };
    let text = if args.json { serde_json::to_string_pretty(&report)? } else { as_text(&report, read.len() > 1) };
    let status = status::answer(&text, status)?;
    for record in read.iter().chain(&base) {
        show::warn_of(record);
    }
    Ok(status)
}

/// Returns the claims and the paths of the records.
fn read_claims(args: &Args) -> anyhow::Result<(Vec<Placed>, Vec<PathBuf>)> {
    if !args.claim.is_empty() {
        ensure!(
            args.claim.iter().all(|one| one.lines().count() <= 1),
            "--claim takes one line; repeat it, or use a file"
        );
        let placed = parsed("--claim", &args.claim.join("\n"))?;
        ensure!(placed.len() == args.claim.len(), "a --claim is empty; write for example --claim 'bind: no cliff'");
        return Ok((placed, args.first.iter().chain(&args.others).cloned().collect()));
    }
    let Some(file) = &args.first else {
        bail!("no claims; pass a file of claims, - for standard input, or --claim TEXT");
    };
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("read claims from standard input")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("read claims from {}", file.display()))?;
    }
    let placed = parsed(&file.display().to_string(), &text)?;
    ensure!(!placed.is_empty(), "{} has no claims", file.display());
    Ok((placed, args.others.clone()))
}

/// Parses the claims of a text. The error shows every line that is not a claim, and marks the position.
fn parsed(name: &str, text: &str) -> anyhow::Result<Vec<Placed>> {
    landau_claims::parse_lines(text).map_err(|errors| {
        let lines: Vec<&str> = text.lines().collect();
        let shown = |error: &ParseError| {
            let line: String = lines
                .get(error.line - 1)
                .map_or(String::new(), |line| line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect());
            let mark = " ".repeat(error.column - 1);
            format!("{name}:{}: {}\n  {line}\n  {mark}^", error.line, error.in_line())
        };
        anyhow::anyhow!("{}", errors.iter().map(shown).collect::<Vec<_>>().join("\n"))
    })
}

/// Measures the cases of resolved claims up to the n that they need, with the passes of the quick study. Returns the
/// path of the record.
///
/// # Errors
///
/// Fails if the run is interrupted: an incomplete run decides no claim.
fn measure(placed: &[Placed], directory: &Path, words: &[String]) -> anyhow::Result<PathBuf> {
    let record = directory.join("now.landau.ndjson");
    let cases = cases(placed.iter().map(|one| &one.claim))?;
    match measure_cases(cases, &record, words).context("measure the cases of the claims")? {
        EndOutcome::Complete | EndOutcome::Cut => Ok(record),
        EndOutcome::Interrupted => bail!("interrupted; no claim was checked"),
        EndOutcome::Failed | EndOutcome::Crashed => {
            status::tell("a pass failed; the claims are checked against the remaining passes");
            Ok(record)
        }
    }
}

/// Checks each claim against each record.
fn decided(placed: &[Placed], records: &[Record], names: &[String], base: Option<&Record>) -> Report {
    let analyses: Vec<Analysis<'_>> = records.iter().map(Analysis::of).collect();
    let base = base.filter(|_| placed.iter().any(|one| one.claim.needs_base())).map(Analysis::of);
    let base = base.as_ref().map(|analysis| Source { analysis, name: &analysis.record.path });
    let sources = analyses.iter().zip(names).map(|(analysis, name)| Source { analysis, name });
    let sources: Vec<(Source<'_>, Option<Base<'_>>)> =
        sources.map(|source| (source, base.map(|base| Base::of(base, source)))).collect();
    let of_line = |one| sources.iter().map(move |(source, base)| claims::check(one, *source, base.as_ref()));
    let shifted = sources.iter().filter_map(|(source, base)| base.as_ref()?.shifted(source.name));
    Report::of(placed.iter().flat_map(of_line).collect(), shifted.collect())
}

/// Returns each answer with its evidence, then the shifts, then the number of answers.
fn as_text(report: &Report, has_several: bool) -> String {
    const WORD: usize = 14;
    let indent = " ".repeat(WORD);
    let width = usize::from(terminal::layout().width);
    let mut lines = Vec::new();
    for one in &report.claims {
        let record = if has_several { format!(" ({})", one.record) } else { String::new() };
        lines.push(plain(&format!("{:<WORD$}{}{record}", claims::word(one.answer), one.claim)));
        let settle = one.settle.as_ref().map(|settle| format!("to settle it: {settle}"));
        let below = std::iter::once(&one.text).chain(&settle);
        lines.extend(below.map(|line| format!("{indent}{}", terminal::indented(line, WORD, width))));
    }
    let shifts = report.shifts.iter().map(|one| format!("\n{}", terminal::wrapped(&one.text, 0)));
    lines.extend(shifts);
    let count = |answer| report.claims.iter().filter(|one| one.answer == answer).count();
    let (pass, fail) = (count(Answer::Pass), count(Answer::Fail));
    lines.push(format!("\n{pass} pass, {fail} fail, {} inconclusive", count(Answer::Inconclusive)));
    lines.join("\n")
}

/// Checks that a report can be written to this path. Only an earlier `JUnit` report is overwritten, so that a typing
/// error cannot destroy a record or a page. A pipe or a device is not examined: reading it might never end.
fn check_junit(path: &Path) -> anyhow::Result<()> {
    // `metadata` follows symbolic links.
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(());
    }
    let mut start = Vec::new();
    if let Ok(old) = std::fs::File::open(path) {
        old.take(JUNIT_START).read_to_end(&mut start).with_context(|| format!("read {}", path.display()))?;
    }
    let start = String::from_utf8_lossy(&start);
    let is_report = start.is_empty() || (start.starts_with("<?xml") && start.contains("<testsuites"));
    ensure!(is_report, "{} is not a JUnit report and will not be overwritten; choose another name", path.display());
    report::check_place(path)
}

/// Number of bytes at the start of a file that identify a `JUnit` report.
const JUNIT_START: u64 = 1024;

/// Writes the answers as XML.
fn write_junit(path: &Path, answers: &[Checked]) -> anyhow::Result<()> {
    std::fs::write(path, junit::render(answers)).with_context(|| format!("write {}", path.display()))
}
