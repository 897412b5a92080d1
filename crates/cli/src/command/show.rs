//! `landau show`: prints the verdicts of a record as a table.

use crate::status;
use crate::terminal;
use landau_record::Record;
use landau_report::quantity::Unit;
use landau_report::{Analysis, Comparisons, findings, table, unit_of};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau show run.landau.ndjson
  landau show --all run.landau.ndjson                      print every finding
  landau show before.landau.ndjson after.landau.ndjson     compare two records, phase by phase
  landau show run.landau.ndjson --json | jq '.rows[].law'")]
pub(crate) struct Args {
    /// Record to show; further records are compared with the first
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print every finding [default: the ten most important]
    #[arg(long, conflicts_with = "json")]
    all: bool,
}

/// Findings that are printed by default.
const SHOWN: usize = 10;

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let records = args.files.iter().map(|path| Record::read(path)).collect::<Result<Vec<_>, _>>()?;
    if let Some(why) = landau_report::unlike(&records) {
        anyhow::bail!(why);
    }
    let analyses: Vec<Analysis> = records.iter().map(Analysis::of).collect();
    let text = if args.json { as_json(&analyses, &args.files)? } else { as_table(&analyses, args) };
    status::print(&text)?;
    for record in &records {
        warn_of(record);
    }
    Ok(status::DONE)
}

/// One record: its rows, then its findings. Several: their comparison.
fn as_table(analyses: &[Analysis], args: &Args) -> String {
    match analyses {
        [one] if args.all => digest(one, usize::MAX),
        [one] => summary(one),
        [base, ..] if unit_of(base.record) == Unit::Instructions => {
            let rows: Vec<_> = analyses.iter().map(table::rows).collect();
            let table = table::render_side_by_side(&rows, &names(&args.files), terminal::layout());
            format!("{}{table}\n", what_it_counts(base))
        }
        several => {
            let comparisons = Comparisons::of(&several.iter().collect::<Vec<_>>());
            table::render_comparisons(&table::comparison_rows(&comparisons, &names(&args.files)), terminal::layout())
        }
    }
}

/// Renders one record, or several side by side, as `landau lab run` does at its end.
pub(crate) fn side_by_side(files: &[PathBuf]) -> anyhow::Result<String> {
    let records = files.iter().map(|path| Record::read(path)).collect::<Result<Vec<_>, _>>()?;
    let analyses: Vec<Analysis> = records.iter().map(Analysis::of).collect();
    Ok(as_table(&analyses, &Args { files: files.to_vec(), json: false, all: false }))
}

/// Renders the table and the most important findings of one record.
pub(crate) fn summary(analysis: &Analysis) -> String {
    digest(analysis, SHOWN)
}

/// A line above the table if the costs are not time.
fn what_it_counts(analysis: &Analysis) -> String {
    match analysis.record.unit() {
        landau_record::schema::Unit::Ns => String::new(),
        landau_record::schema::Unit::Instructions => {
            "Costs are instructions, counted exactly on one emulated processor: path lengths, not time.\n\n".to_owned()
        }
        landau_record::schema::Unit::EmulatedNs => {
            "No timing: measured by an emulator's clock. Shows limits, and that calls work.\n\n".to_owned()
        }
    }
}

/// The table and the first `shown` findings.
fn digest(analysis: &Analysis, shown: usize) -> String {
    let mut text = what_it_counts(analysis);
    text.push_str(&table::render(&table::rows(analysis), unit_of(analysis.record), terminal::layout()));
    for timeline in analysis.cases.iter().filter_map(|study| study.timeline.as_ref()) {
        text.extend(["\n", timeline.case, ": ", &landau_report::text::timeline(timeline)]);
    }
    text.push_str("\n\nFindings, most important first:\n");
    let found = findings::of(analysis);
    for finding in found.iter().take(shown) {
        text.push_str(&terminal::bullet(&finding.sentence()));
    }
    if let more @ 1.. = found.len().saturating_sub(shown) {
        let (more, path) = (more.to_string(), &analysis.record.path);
        text.extend(["  … and ", &more, " more: see the page, or run landau show --all ", path, "\n"]);
    }
    text
}

fn as_json(analyses: &[Analysis], files: &[PathBuf]) -> anyhow::Result<String> {
    let value = match analyses {
        [one] => {
            let found: Vec<_> = findings::of(one)
                .iter()
                .map(|one| json!({"kind": one.kind.name(), "text": one.text, "items": one.items}))
                .collect();
            let variants = table::variant_rows(one);
            let timelines: Vec<_> = one.cases.iter().filter_map(|study| study.timeline.as_ref()).collect();
            json!({
                "unit": one.record.unit(),
                "rows": table::rows(one),
                "findings": found,
                "variants": variants,
                "results": one.results(),
                "timelines": timelines,
            })
        }
        several => {
            let comparisons = Comparisons::of(&several.iter().collect::<Vec<_>>());
            json!({ "comparisons": table::comparison_rows(&comparisons, &names(files)) })
        }
    };
    Ok(serde_json::to_string_pretty(&value)?)
}

/// Names of the records: their file names without extension.
pub(crate) fn names(files: &[PathBuf]) -> Vec<String> {
    let name = |path: &PathBuf| path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    files.iter().map(|path| name(path).trim_end_matches(".ndjson").trim_end_matches(".landau").to_owned()).collect()
}

/// Warns on standard error if the record was altered or is incomplete.
pub(crate) fn warn_of(record: &Record) {
    if let Some(fault) = &record.fault {
        status::tell(&format!("{}: line {} was altered: {}", record.path, fault.line, fault.reason));
    }
    if record.end.is_none() {
        status::tell(&format!("{0}: the run did not end; to continue it: landau run --resume {0}", record.path));
    }
}
