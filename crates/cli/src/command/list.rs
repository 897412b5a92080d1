//! `landau list`: lists the benchmarks and their parameters, and why some cannot run here.

use crate::status;
use landau_bench::REGISTRY;
use landau_engine::{Availability, Entry, Kind, Pinning, Study, availability, check_names, describe_host};
use std::fmt::Write;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau list
  landau list bind fork --long        with every parameter, case and phase
  landau list --json | jq '.[].name'

None of the cases of a benchmark marked with – can run on this machine.")]
pub(crate) struct Args {
    /// Benchmarks to list [default: all]
    #[arg(value_name = "BENCHMARK")]
    names: Vec<String>,
    /// List parameters with their values, the cases of the full study, and the phases that are timed
    #[arg(long, short)]
    long: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    check_names(REGISTRY, &args.names, &[])?;
    let (host, _) = describe_host(Pinning::default())?;
    let mut rows = availability(REGISTRY, Study::Full, &host);
    rows.retain(|row| args.names.is_empty() || args.names.contains(&row.name));
    let text = if args.json { serde_json::to_string_pretty(&rows)? } else { render(&rows, args.long) };
    status::print(&text)?;
    Ok(status::DONE)
}

fn render(rows: &[Availability], long: bool) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max("BENCHMARK".len());
    let mut text = format!("  {:width$}  QUESTION\n", "BENCHMARK");
    for row in rows {
        let mark = if row.cases.is_empty() { "–" } else { " " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark} {:width$}  {}", row.name, row.about);
        for (label, reason) in &row.unavailable {
            let _ = writeln!(text, "  {:width$}  {label}: skipped, because {reason}", "");
        }
        if long {
            details(&mut text, row, width);
        }
    }
    if !long {
        text.push_str("\n`landau list --long` shows the parameters; `landau run BENCHMARK` measures.\n");
    }
    text
}

/// Appends the parameters, variants and phases of a benchmark.
fn details(text: &mut String, row: &Availability, width: usize) {
    let entry = REGISTRY.iter().find(|entry| entry.name == row.name);
    let mut line = |line: &str| {
        let _ = writeln!(text, "  {:width$}  {line}", "");
    };
    line("Parameters, with the value in the full study:");
    for (name, value, help) in &row.parameters {
        let values = entry.map(|entry| values(entry, name)).unwrap_or_default();
        let quick = entry.and_then(|entry| entry.parameters.iter().find(|one| one.name == *name)).map(|one| one.quick);
        let quick = quick.filter(|quick| quick != value).map_or(String::new(), |quick| format!(" (quick: {quick})"));
        line(&format!("  --set {}.{name}={value}{quick}  {help}{values}", row.name));
    }
    if let Some(entry) = entry {
        line("Phases:");
        for phase in entry.phases {
            line(&format!("  {}: {}", phase.name, phase.about));
        }
    }
    line("Cases (settings of the benchmark) in the full study:");
    for case in &row.cases {
        line(&format!("  {case}"));
    }
}

/// Returns the values that a parameter accepts: ` [v4, v6]`.
fn values(entry: &Entry, name: &str) -> String {
    let kind = entry.parameters.iter().find(|one| one.name == name).map(|one| one.kind);
    match kind {
        Some(Kind::Choice(words)) => format!(" [{}]", words.join(", ")),
        Some(Kind::Count { min, max }) => format!(" [{min}–{max}]"),
        Some(Kind::AutoCount { min, max }) => format!(" [{min}–{max}, auto]"),
        _ => String::new(),
    }
}
