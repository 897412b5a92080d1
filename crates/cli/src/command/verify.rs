//! `landau verify`: checks whether a record or page was altered, and whether its results follow from its samples.
//!
//! For a record it checks every seal, then every stored result. For a page it checks the embedded (or adjacent) record
//! in the same way. Then it renders the whole page again and compares character by character. A page written by another
//! version of landau cannot be rendered again; only its results are compared.

use crate::status;
use anyhow::Context;
use landau_record::Record;
use landau_record::schema::{EndOutcome, PhaseResult};
use landau_report::page::{self, ExtractError, Source};
use landau_report::{Analysis, METHOD, other_method};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau verify run.landau.ndjson
  landau verify report.html

Each line of a record ends with a checksum (member `seal`) of the line and of the checksum before
it. The chain of checksums detects a change of any line. It is not a signature: anyone can
change a record and recompute all checksums.

Exit status: 0 if the record is unaltered and every result follows from the samples, 1 otherwise,
2 if the file is unreadable.")]
pub(crate) struct Args {
    /// The record or report to verify
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The outcome for one record or page.
struct Outcome {
    name: String,
    lines: u64,
    seal: String,
    results: usize,
    /// Contradictions; the first altered line comes first.
    faults: Vec<String>,
    /// Remarks that are not contradictions.
    remarks: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let bytes = landau_record::read_file(&args.file)?;
    let outcomes =
        if looks_like_page(&bytes) { of_page(&args.file, &bytes)? } else { vec![of_file(&args.file, &bytes)?] };
    let text = if args.json { serde_json::to_string_pretty(&as_json(&outcomes))? } else { as_text(&outcomes) };
    let is_sound = outcomes.iter().all(|one| one.faults.is_empty());
    status::answer(&text, if is_sound { status::DONE } else { status::FAILED })
}

fn looks_like_page(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'<')
}

fn of_file(path: &Path, bytes: &[u8]) -> anyhow::Result<Outcome> {
    let record = Record::parse(&path.display().to_string(), bytes)?;
    let analysis = (!record.results.is_empty()).then(|| Analysis::of(&record));
    Ok(check(&record, analysis.as_ref(), &record.results))
}

/// The record of a page, with the contradiction between the two, if any.
struct PageRecord {
    file_name: String,
    bytes: Vec<u8>,
    fault: Option<String>,
}

fn of_page(path: &Path, bytes: &[u8]) -> anyhow::Result<Vec<Outcome>> {
    let html = String::from_utf8_lossy(bytes);
    let extract = match page::extract(&html) {
        Ok(extract) => extract,
        Err(error @ ExtractError::Altered { .. }) => return Ok(vec![Outcome::altered_page(path, &error.to_string())]),
        Err(error) => return Err(error).with_context(|| format!("verify {}", path.display())),
    };
    let files = extract.records.into_iter().map(|packed| load(path, packed)).collect::<anyhow::Result<Vec<_>>>()?;
    let parse = |file: &PageRecord| Record::parse(&file.file_name, &file.bytes);
    let records = files.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let sources: Vec<Source> = files
        .iter()
        .zip(&records)
        .enumerate()
        .map(|(index, (file, record))| Source {
            name: extract.made.names.get(index).cloned().unwrap_or_default(),
            file_name: file.file_name.clone(),
            bytes: &file.bytes,
            analysis: Analysis::of(record),
        })
        .collect();
    let mut outcomes = Vec::new();
    for (index, (file, source)) in files.iter().zip(&sources).enumerate() {
        let record = source.analysis.record;
        let results = extract.results.get(index).and_then(Option::as_ref).unwrap_or(&record.results);
        let mut one = check(record, Some(&source.analysis), results);
        one.faults.extend(file.fault.clone());
        outcomes.push(one);
    }
    outcomes.push(rendered_again(path, &html, &extract.made, &sources));
    Ok(outcomes)
}

/// Returns the record embedded in a page, or reads it from the file next to the page.
fn load(page: &Path, packed: page::Packed) -> anyhow::Result<PageRecord> {
    let beside = page.parent().unwrap_or(Path::new("")).join(&packed.file_name);
    let bytes = match packed.bytes {
        Some(bytes) => bytes,
        None => std::fs::read(&beside).with_context(|| {
            format!("the report does not contain its record, which must be next to it: read {}", beside.display())
        })?,
    };
    let sha256 = page::sha256(&bytes);
    let fault = (sha256 != packed.sha256)
        .then(|| format!("the report was written from a record with SHA-256 {}, not {sha256}", packed.sha256));
    Ok(PageRecord { file_name: packed.file_name, bytes, fault })
}

/// Renders the page again and compares the two.
fn rendered_again(path: &Path, html: &str, made: &page::Made, sources: &[Source]) -> Outcome {
    let mut one = Outcome::altered_page(path, "");
    one.faults.clear();
    if made.is_ours() {
        one.faults.extend(page::difference(html, made, sources));
    } else {
        one.remarks.push(format!(
            "landau {} wrote this report; this is version {}: only its results were compared, not its text and charts",
            made.landau,
            env!("CARGO_PKG_VERSION")
        ));
    }
    one
}

impl Outcome {
    /// Returns the outcome of an altered page.
    fn altered_page(path: &Path, fault: &str) -> Self {
        Self {
            name: path.display().to_string(),
            lines: 0,
            seal: String::new(),
            results: 0,
            faults: vec![fault.to_owned()],
            remarks: Vec::new(),
        }
    }
}

/// Maximum number of wrong results that are listed individually.
const MISMATCHES_SHOWN: usize = 5;

/// Checks the seals, then recomputes every result.
fn check(record: &Record, analysis: Option<&Analysis>, stored: &[PhaseResult]) -> Outcome {
    let mut faults = Vec::new();
    if let Some(fault) = &record.fault {
        faults.push(format!("line {} was altered: {}", fault.line, fault.reason));
    }
    let mut remarks = Vec::new();
    if let Some(theirs) = other_method(stored) {
        remarks.push(format!("judged by method {theirs}; this version judges by method {METHOD}"));
    }
    if let Some(analysis) = analysis.filter(|_| !stored.is_empty()) {
        let mismatches = analysis.mismatches(stored);
        let rest = mismatches.len().saturating_sub(MISMATCHES_SHOWN);
        let shown = mismatches.iter().take(MISMATCHES_SHOWN).map(ToString::to_string);
        let shown = shown.chain((rest > 0).then(|| format!("{rest} more values of results")));
        if record.header.landau == env!("CARGO_PKG_VERSION") {
            faults.extend(shown);
        } else if !mismatches.is_empty() {
            let theirs = &record.header.landau;
            remarks.push(format!(
                "landau {theirs} computed the results; this version differs in {} values",
                mismatches.len()
            ));
        }
    }
    if let Some(torn) = &record.torn {
        remarks
            .push(format!("line {} is truncated after {} bytes; everything before it is valid", torn.line, torn.bytes));
    }
    match &record.end {
        None => {
            remarks.push(format!("the run did not end{}", record.how_to_continue(&record.path)));
        }
        Some(end) if end.outcome != EndOutcome::Complete => {
            remarks.push(format!("outcome of the run: {}", end.outcome.name()));
        }
        Some(_) => {}
    }
    Outcome {
        name: record.path.clone(),
        lines: record.line_count,
        seal: record.last_seal.clone(),
        results: stored.len(),
        faults,
        remarks,
    }
}

fn as_text(outcomes: &[Outcome]) -> String {
    let mut lines = Vec::new();
    for one in outcomes {
        if one.seal.is_empty() {
            let verdict = match (one.faults.is_empty(), one.remarks.is_empty()) {
                (true, true) => "every character follows from its record",
                (true, false) => "its results follow from its record",
                (false, _) => "ALTERED: does not follow from its record",
            };
            lines.push(format!("{}: {verdict}", one.name));
        } else {
            let verdict = if one.faults.is_empty() { "unaltered" } else { "ALTERED" };
            let results = match one.results {
                0 => "no results".to_owned(),
                1 => "1 result recomputed from its samples".to_owned(),
                count => format!("{count} results recomputed from its samples"),
            };
            lines.push(format!("{}: {verdict}: {} lines, last checksum {}; {results}", one.name, one.lines, one.seal));
        }
        lines.extend(one.faults.iter().map(|fault| format!("  wrong: {fault}")));
        lines.extend(one.remarks.iter().map(|remark| format!("  note: {remark}")));
    }
    lines.join("\n")
}

fn as_json(outcomes: &[Outcome]) -> serde_json::Value {
    let row = |one: &Outcome| {
        json!({
            "name": one.name, "lines": one.lines, "seal": one.seal, "results": one.results,
            "faults": one.faults, "remarks": one.remarks,
        })
    };
    outcomes.iter().map(row).collect()
}
