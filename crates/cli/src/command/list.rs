//! `landau list`: what can be measured here, and what cannot and why.

use crate::status;
use landau_bench::REGISTRY;
use landau_engine::{Availability, Pinning, Study, availability, describe_host};
use std::fmt::Write;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau list
  landau list --long          with every parameter
  landau list --json | jq '.[].name'")]
pub(crate) struct Args {
    /// Show every parameter with its value and what it does
    #[arg(long, short)]
    long: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let (host, _) = describe_host(Pinning::default())?;
    let rows = availability(REGISTRY, Study::Full, &host);
    let text = if args.json { serde_json::to_string_pretty(&rows)? } else { render(&rows, args.long) };
    status::print(&text)?;
    Ok(status::DONE)
}

fn render(rows: &[Availability], long: bool) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let mark = if row.cases.is_empty() { "–" } else { " " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark} {:width$}  {}", row.name, row.about);
        for (label, reason) in &row.unavailable {
            let _ = writeln!(text, "  {:width$}  {label}: skipped, because {reason}", "");
        }
        if long {
            let _ = writeln!(text, "  {:width$}  cases of the full study: {}", "", row.cases.join(" · "));
            for (name, value, help) in &row.parameters {
                let _ = writeln!(text, "  {:width$}  --set {}.{name}={value}  {help}", "", row.name);
            }
        }
    }
    if !long {
        text.push_str("\n`landau list --long` shows the parameters; `landau run NAME` measures.\n");
    }
    text
}
