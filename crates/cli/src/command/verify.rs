//! `landau verify`: is a record as it was written, and are the figures what its samples say?
//!
//! Of a record: every seal, then every figure that the run left in it. Of a page: the record inside (or beside) it
//! in the same way, and every figure that the page shows.

use crate::status;
use anyhow::Context;
use landau_record::Record;
use landau_record::schema::Figure;
use landau_report::{Analysis, page};
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
    Ok(judge(&record, &record.figures))
}

fn of_page(path: &Path, bytes: &[u8]) -> anyhow::Result<Vec<Findings>> {
    let extract = page::extract(&String::from_utf8_lossy(bytes))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for (packed, figures) in extract.records.into_iter().zip(&extract.figures) {
        let beside = folder.join(&packed.file_name);
        let bytes = match packed.bytes {
            Some(bytes) => bytes,
            None => std::fs::read(&beside)
                .with_context(|| format!("the page's record lies beside it: read {}", beside.display()))?,
        };
        let record = Record::parse(&packed.file_name, &bytes)?;
        let mut one = judge(&record, figures.as_ref().unwrap_or(&record.figures));
        let sha256 = page::sha256(&bytes);
        if sha256 != packed.sha256 {
            one.faults.push(format!(
                "the page was drawn from a record with the checksum {}, this is {sha256}",
                packed.sha256
            ));
        }
        found.push(one);
    }
    Ok(found)
}

/// Checks the seals, then computes every figure again.
fn judge(record: &Record, stored: &[Figure]) -> Findings {
    let mut faults = Vec::new();
    if let Some(fault) = &record.fault {
        faults.push(format!("line {} was altered: {}", fault.line, fault.reason));
    }
    if !stored.is_empty() {
        faults.extend(Analysis::of(record).mismatches(stored).iter().map(ToString::to_string));
    }
    let mut remarks = Vec::new();
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
        let seals = format!("{} lines sealed, the last with {}", one.lines, one.seal);
        let figures = match one.figures {
            0 => "it holds no figures".to_owned(),
            count => format!("{count} figures recomputed from its samples"),
        };
        let verdict = if one.faults.is_empty() { "as it was written" } else { "NOT as it was written" };
        lines.push(format!("{}: {verdict}: {seals}; {figures}", one.name));
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
