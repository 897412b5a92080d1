//! `landau verify`: is a record as it was written, and are the figures what its samples say?
//!
//! Of a record: every seal, then every figure that the run left in it. Of a page: the record inside (or beside) it
//! in the same way, then the whole page, which is drawn again from it and compared letter for letter. A page by
//! another version of landau cannot be drawn again; its figures are compared.

use crate::status;
use anyhow::Context;
use landau_record::Record;
use landau_record::schema::PhaseResult;
use landau_report::Analysis;
use landau_report::page::{self, ExtractError, Source};
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau verify run.landau.ndjson
  landau verify page.html

Exit status: 0 everything is as it was written and follows from the samples, 1 something does not, 2 unreadable.")]
pub(crate) struct Args {
    /// A record or a page
    file: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// What was found out about one record.
struct Findings {
    name: String,
    lines: u64,
    seal: String,
    figures: usize,
    /// What is not as it should be; the first altered line comes first.
    faults: Vec<String>,
    /// What a reader should know though nothing is wrong.
    remarks: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let bytes = std::fs::read(&args.file).with_context(|| format!("read {}", args.file.display()))?;
    let found = if looks_like_page(&bytes) { of_page(&args.file, &bytes)? } else { vec![of_file(&args.file, &bytes)?] };
    let text = if args.json { serde_json::to_string_pretty(&as_json(&found))? } else { as_text(&found) };
    status::print(&text)?;
    Ok(if found.iter().all(|one| one.faults.is_empty()) { status::DONE } else { status::FAILED })
}

fn looks_like_page(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'<')
}

fn of_file(path: &Path, bytes: &[u8]) -> anyhow::Result<Findings> {
    let record = Record::parse(&path.display().to_string(), bytes)?;
    let analysis = (!record.results.is_empty()).then(|| Analysis::of(&record));
    Ok(judge(&record, analysis.as_ref(), &record.results))
}

/// A page's record as it was found: its bytes, and what of it does not fit the page.
struct Found {
    file_name: String,
    bytes: Vec<u8>,
    fault: Option<String>,
}

fn of_page(path: &Path, bytes: &[u8]) -> anyhow::Result<Vec<Findings>> {
    let html = String::from_utf8_lossy(bytes);
    let extract = match page::extract(&html) {
        Ok(extract) => extract,
        Err(error @ ExtractError::Altered { .. }) => return Ok(vec![Findings::broken(path, &error.to_string())]),
        Err(error) => return Err(error.into()),
    };
    let files = extract.records.into_iter().map(|packed| find(path, packed)).collect::<anyhow::Result<Vec<_>>>()?;
    let parse = |file: &Found| Record::parse(&file.file_name, &file.bytes);
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
    let mut found = Vec::new();
    for (index, (file, source)) in files.iter().zip(&sources).enumerate() {
        let record = source.analysis.record;
        let figures = extract.figures.get(index).and_then(Option::as_ref).unwrap_or(&record.results);
        let mut one = judge(record, Some(&source.analysis), figures);
        one.faults.extend(file.fault.clone());
        found.push(one);
    }
    found.push(drawn(path, &html, &extract.made, &sources));
    Ok(found)
}

/// The record out of the page, or from beside it.
fn find(page: &Path, packed: page::Packed) -> anyhow::Result<Found> {
    let beside = page.parent().unwrap_or(Path::new("")).join(&packed.file_name);
    let bytes = match packed.bytes {
        Some(bytes) => bytes,
        None => std::fs::read(&beside)
            .with_context(|| format!("the page's record lies beside it: read {}", beside.display()))?,
    };
    let sha256 = page::sha256(&bytes);
    let fault = (sha256 != packed.sha256)
        .then(|| format!("the page was drawn from a record with the checksum {}, this is {sha256}", packed.sha256));
    Ok(Found { file_name: packed.file_name, bytes, fault })
}

/// What drawing the page again says about it.
fn drawn(path: &Path, html: &str, made: &page::Made, sources: &[Source]) -> Findings {
    let mut one = Findings::broken(path, "");
    one.faults.clear();
    if made.is_ours() {
        one.faults.extend(page::difference(html, made, sources));
    } else {
        one.remarks.push(format!(
            "landau {} drew this page and this is {}: only its figures were compared, not its text and charts",
            made.landau,
            env!("CARGO_PKG_VERSION")
        ));
    }
    one
}

impl Findings {
    /// About a page as a file, with what is wrong with it.
    fn broken(path: &Path, fault: &str) -> Self {
        Self {
            name: path.display().to_string(),
            lines: 0,
            seal: String::new(),
            figures: 0,
            faults: vec![fault.to_owned()],
            remarks: Vec::new(),
        }
    }
}

/// Figures that do not follow from the samples are named up to this number.
const MISMATCHES_TOLD: usize = 5;

/// Checks the seals, then computes every figure again.
fn judge(record: &Record, analysis: Option<&Analysis>, stored: &[PhaseResult]) -> Findings {
    let mut faults = Vec::new();
    if let Some(fault) = &record.fault {
        faults.push(format!("line {} was altered: {}", fault.line, fault.reason));
    }
    let mut remarks = Vec::new();
    let is_ours = record.header.landau == env!("CARGO_PKG_VERSION");
    if let Some(analysis) = analysis.filter(|_| !stored.is_empty()) {
        let mismatches = analysis.mismatches(stored);
        let rest = mismatches.len().saturating_sub(MISMATCHES_TOLD);
        let told = mismatches.iter().take(MISMATCHES_TOLD).map(ToString::to_string);
        let told = told.chain((rest > 0).then(|| format!("and {rest} more figures")));
        if is_ours {
            faults.extend(told);
        } else if !mismatches.is_empty() {
            let theirs = &record.header.landau;
            remarks.push(format!(
                "landau {theirs} computed the figures; this one judges otherwise in {}",
                mismatches.len()
            ));
        }
    }
    if let Some(torn) = &record.torn {
        remarks.push(format!("line {} is torn after {} bytes; everything before it counts", torn.line, torn.bytes));
    }
    match &record.end {
        None => remarks.push("the run did not end; `landau run --resume` goes on".to_owned()),
        Some(end) if end.outcome != "complete" => remarks.push(format!("the run ended as: {}", end.outcome)),
        Some(_) => {}
    }
    Findings {
        name: record.path.clone(),
        lines: record.line_count,
        seal: record.last_seal.clone(),
        figures: stored.len(),
        faults,
        remarks,
    }
}

fn as_text(found: &[Findings]) -> String {
    let mut lines = Vec::new();
    for one in found {
        let verdict = if one.faults.is_empty() { "as it was written" } else { "NOT as it was written" };
        let seals = format!("{} lines sealed, the last with {}", one.lines, one.seal);
        let figures = match one.figures {
            0 => "it holds no figures".to_owned(),
            count => format!("{count} figures recomputed from its samples"),
        };
        if one.seal.is_empty() {
            let whole = match (one.faults.is_empty(), one.remarks.is_empty()) {
                (true, true) => "every letter of the page follows from its record",
                (true, false) => "its figures follow from its record",
                (false, _) => "NOT what its record gives",
            };
            lines.push(format!("{}: {whole}", one.name));
        } else {
            lines.push(format!("{}: {verdict}: {seals}; {figures}", one.name));
        }
        lines.extend(one.faults.iter().map(|fault| format!("  wrong: {fault}")));
        lines.extend(one.remarks.iter().map(|remark| format!("  note: {remark}")));
    }
    lines.join("\n")
}

fn as_json(found: &[Findings]) -> serde_json::Value {
    let row = |one: &Findings| {
        json!({
            "name": one.name, "lines": one.lines, "seal": one.seal, "figures": one.figures,
            "faults": one.faults, "remarks": one.remarks,
        })
    };
    found.iter().map(row).collect()
}
