//! `landau compare`: reports what changed between two records, or between the variants in one record.

use crate::command::{report, show};
use crate::{status, terminal};
use landau_report::Analysis;
use landau_report::compared::Compared;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau compare before.landau.ndjson after.landau.ndjson
  landau compare before.landau.ndjson after.landau.ndjson --only changed
  landau compare before.landau.ndjson after.landau.ndjson --page compared.html
  landau compare run.landau.ndjson                     each variant with the default case
  landau compare A B --json | jq '.curves[] | select(.changed) | .text'

docs/compare.md explains the answers and the JSON. `landau show A B` prints the same comparison as
a table, also of more than two records.")]
pub(crate) struct Args {
    /// Base record; without NEW, compare the variants in it with the default case of their benchmark
    base: PathBuf,
    /// Record to compare with the base
    new: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a page with the curves of both records to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print only these curves
    #[arg(long, value_name = "CURVES")]
    only: Option<Only>,
}

/// The curves to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// Curves that are shown to have changed
    Changed,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let files: Vec<PathBuf> = std::iter::once(&args.base).chain(&args.new).cloned().collect();
    if let Some(page) = &args.page {
        report::check_place(page)?;
    }
    let (bytes, records) = report::read_all(&files)?;
    if let Some(why) = landau_report::unlike(&records) {
        anyhow::bail!(why);
    }
    let analyses: Vec<Analysis<'_>> = records.iter().map(Analysis::of).collect();
    let names = show::names(&files);
    let mut compared = match analyses.as_slice() {
        [base, new] => Compared::of(base, new, [&names[0], &names[1]]),
        [one, ..] => Compared::of_variants(one, &names[0]),
        [] => anyhow::bail!("no record"),
    };
    // The page is written first: printing fails if the reader of standard output has closed it.
    if let Some(page) = &args.page {
        report::write_page(&files, &bytes, analyses, page)?;
        status::tell(&format!("page: {}", page.display()));
    }
    let is_changed_only = args.only == Some(Only::Changed);
    if args.json {
        if is_changed_only {
            compared.curves.retain(|curve| curve.changed);
        }
        status::print(&serde_json::to_string_pretty(&compared)?)?;
    } else {
        let unit = records.first().map(show::what_it_counts).unwrap_or_default();
        status::print(&(unit + &compared.render(is_changed_only, terminal::layout())))?;
    }
    for record in &records {
        show::warn_of(record);
    }
    Ok(status::DONE)
}
