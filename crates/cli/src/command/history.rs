//! `landau history`: lists, searches and plots the records of a directory.

mod site;

use crate::{status, terminal};
use anyhow::Context;
use landau_history::{Collection, Filter, Grouping, Options, Place, Quantity, groups, read, trends};
use landau_report::history::{Over, Row, Trend, list, overview, shared_changes, trend};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau history runs                                  list the records
  landau history runs --since 2026-11-01 epyc 6.12     those that contain both words
  landau history runs --group kernel                   count them by kernel
  landau history runs --draw cost                      every curve, with its change points
  landau history runs --draw cost@1000 --benchmark bind --phase close
  landau history runs --draw growth --benchmark fork --over kernels
  landau history runs --site public                    pages that need no server

You can add records from other people to the directory. Landau skips truncated and altered
records, copies and other files, and names them. The index, .landau-history.sqlite in the
directory, is computed from the records; --rebuild recreates it. docs/history.md explains the
change points and the tables.")]
pub(crate) struct Args {
    /// Directory of records (*.ndjson); directories below it are searched too
    dir: PathBuf,
    /// Show only records with these words in the path, the command, the host, the kernel, a case or a note
    words: Vec<String>,
    /// Show only this benchmark, or the case with this label
    #[arg(long, value_name = "NAME")]
    benchmark: Option<String>,
    /// Show only this phase
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// Show only hosts whose description contains this
    #[arg(long, value_name = "TEXT")]
    host: Option<String>,
    /// Show only kernels whose name and release contain this
    #[arg(long, value_name = "TEXT")]
    kernel: Option<String>,
    /// Show only this study
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// Show only runs that began at this time (UTC) or later: 2026-11, 2026-11-23, 2026-11-23T14:30
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<String>,
    /// Show only runs that began at this time (UTC) or earlier; a day or month counts as a whole
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<String>,
    /// Count the records by this instead of listing them
    #[arg(long, value_name = "BY", conflicts_with_all = ["draw", "site"])]
    group: Option<By>,
    /// Draw cost, cost@N, growth, exponent, fixed, slope, p99, cliff or limit of each curve
    #[arg(long, value_name = "QUANTITY", conflicts_with = "site")]
    draw: Option<Quantity>,
    /// Draw over the dates of the runs, the hosts or the kernels
    #[arg(long, value_name = "AXIS", default_value = "dates", requires = "draw")]
    over: Axis,
    /// Write a static site with these records to this directory
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "site")]
    json: bool,
    /// Rebuild the index from all records
    #[arg(long)]
    rebuild: bool,
    /// Recompute the results of records that have none, or that have results of another method; takes seconds for a
    /// large record
    #[arg(long)]
    rejudge: bool,
    /// Keep the index in this file
    #[arg(long, value_name = "FILE")]
    index: Option<PathBuf>,
}

/// What records are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// The kind of host
    Host,
    /// The kernel
    Kernel,
    /// The study
    Study,
    /// The benchmark
    Benchmark,
    /// The day of the start
    Day,
}

/// The horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Axis {
    /// The runs in order of time, with change points
    Dates,
    /// A value for each host
    Hosts,
    /// A value for each kernel
    Kernels,
}

/// Maximum number of lines that are drawn as charts; more lines are printed as a table with a row for each.
const CHARTS_MAX: usize = 6;

/// Message if no record is selected although every requested name exists.
const NOT_ALL: &str = "no record matches all filters; remove some options or words";

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let filter = filter(args);
    let has_curves = args.draw.is_some() || args.site.is_some() || args.group == Some(By::Benchmark);
    let collection = collection(args, &filter, has_curves)?;
    tell_place(&collection.index);
    if let Some(output) = &args.site {
        return site::write(&collection, &args.dir, output);
    }
    let text = match (args.draw, args.group) {
        (Some(quantity), _) => drawn(args, &collection, quantity)?,
        (None, Some(by)) => grouped(args, &collection, by)?,
        (None, None) => listed(args, &collection)?,
    };
    if let Some(why) = nothing(args, &filter, &collection)? {
        status::tell(&why);
    }
    status::print(&text)?;
    Ok(status::DONE)
}

fn filter(args: &Args) -> Filter {
    Filter {
        benchmark: args.benchmark.clone(),
        phase: args.phase.clone(),
        host: args.host.clone(),
        kernel: args.kernel.clone(),
        study: args.study.clone(),
        since: args.since.clone(),
        until: args.until.clone(),
        words: args.words.clone(),
    }
}

/// Returns the reason why no record is selected, such as a name that no curve has; `None` if records are selected.
fn nothing(args: &Args, filter: &Filter, selected: &Collection) -> anyhow::Result<Option<String>> {
    if !selected.entries.is_empty() || selected.record_count == 0 {
        return Ok(None);
    }
    if !filter.is_about_curves() {
        return Ok(Some(NOT_ALL.to_owned()));
    }
    // `--rebuild` has already taken effect.
    let options = Options { index: args.index.clone(), has_curves: true, ..Options::default() };
    let all = read(&args.dir, &Filter::default(), &options)?.curves;
    let curves = |benchmark: &Option<String>, phase: &Option<String>| {
        let filter = Filter { benchmark: benchmark.clone(), phase: phase.clone(), ..Filter::default() };
        all.iter().filter(|curve| filter.holds_curve(curve)).collect::<Vec<_>>()
    };
    let unknown = |option: &str, name: &str, there: BTreeSet<&str>| {
        let there = there.into_iter().collect::<Vec<_>>().join(", ");
        Ok(Some(format!("{option} {name}: no record has such a curve; the records have {there}")))
    };
    let Filter { benchmark, phase, .. } = filter;
    if let Some(name) = benchmark
        && curves(benchmark, &None).is_empty()
    {
        return unknown("--benchmark", name, curves(&None, &None).iter().map(|one| one.benchmark.as_str()).collect());
    }
    if let Some(name) = phase
        && curves(benchmark, phase).is_empty()
    {
        return unknown("--phase", name, curves(benchmark, &None).iter().map(|one| one.phase.as_str()).collect());
    }
    Ok(Some(NOT_ALL.to_owned()))
}

/// Reads the collection, and rebuilds a damaged index.
fn collection(args: &Args, filter: &Filter, has_curves: bool) -> anyhow::Result<Collection> {
    let options =
        Options { index: args.index.clone(), is_rebuilt: args.rebuild, is_judged_anew: args.rejudge, has_curves };
    let found = match read(&args.dir, filter, &options) {
        Err(error) if error.is_damage() && !args.rebuild => {
            status::tell("landau: the index is damaged; rebuilding it from the records");
            read(&args.dir, filter, &Options { is_rebuilt: true, ..options })
        }
        found => found,
    };
    Ok(found?)
}

/// Reports where the index is, unless it is where users expect it.
fn tell_place(place: &Place) {
    match place {
        Place::Folder(_) | Place::Chosen(_) => {}
        Place::Cache(path) => status::tell(&format!("the directory is read-only; the index is {}", path.display())),
        Place::Memory => {
            status::tell(
                "cannot save the index: neither the directory nor the cache is writable; each run reads every record",
            );
        }
    }
}

fn rows(collection: &Collection) -> Vec<Row> {
    collection.entries.iter().map(landau_history::Entry::row).collect()
}

fn listed(args: &Args, collection: &Collection) -> anyhow::Result<String> {
    let rows = rows(collection);
    if args.json {
        return as_json(args, collection, [("records", serde_json::to_value(&rows)?)]);
    }
    let table = list(&rows, &collection.left_out, terminal::layout());
    let gap = if table.is_empty() { "" } else { "\n\n" };
    Ok(format!("{}{gap}{table}", count_of(collection)))
}

/// Returns the number of records, and how many of them are shown.
fn count_of(collection: &Collection) -> String {
    let (shown, all) = (collection.entries.len(), collection.record_count);
    let left_out = match collection.left_out.len() {
        0 => String::new(),
        count => format!(", {count} left out"),
    };
    let noun = if all == 1 { "record" } else { "records" };
    if shown == all { format!("{all} {noun}{left_out}") } else { format!("{shown} of {all} {noun}{left_out}") }
}

fn grouped(args: &Args, collection: &Collection, by: By) -> anyhow::Result<String> {
    let by = match by {
        By::Host => Grouping::Host,
        By::Kernel => Grouping::Kernel,
        By::Study => Grouping::Study,
        By::Benchmark => Grouping::Benchmark,
        By::Day => Grouping::Day,
    };
    let groups = groups(&collection.entries, &collection.curves, by);
    if args.json {
        return as_json(args, collection, [("groups", serde_json::to_value(&groups)?)]);
    }
    let table = landau_report::history::grouped(&groups_as_rows(&groups), terminal::layout());
    Ok(format!("{}\n\n{table}", count_of(collection)))
}

/// Returns the name, the number of records and the first and last start of each group.
fn groups_as_rows(groups: &[landau_history::Group]) -> Vec<(String, usize, [String; 2])> {
    let row = |one: &landau_history::Group| {
        (one.name.clone(), one.record_count, [one.started.0.clone(), one.started.1.clone()])
    };
    groups.iter().map(row).collect()
}

fn drawn(args: &Args, collection: &Collection, quantity: Quantity) -> anyhow::Result<String> {
    let over = match args.over {
        Axis::Dates => Over::Dates,
        Axis::Hosts => Over::Hosts,
        Axis::Kernels => Over::Kernels,
    };
    let found = trends(collection, &[quantity], over);
    if args.json {
        let shared = shared_changes(&found);
        return as_json(args, collection, [("trends", json!(found)), ("shared_changes", json!(shared))]);
    }
    if found.is_empty() {
        let benchmarks = collection.benchmarks();
        anyhow::ensure!(!benchmarks.is_empty(), "no curve is selected: {}", count_of(collection));
        anyhow::bail!("no curve of {} has this value", benchmarks.join(", "));
    }
    let layout = terminal::layout();
    let lines: usize = found.iter().map(|one| one.lines.len()).sum();
    let one = |one: &Trend| trend(one, layout);
    let text = match over {
        Over::Dates if lines > CHARTS_MAX => overview(&found, layout),
        _ => found.iter().map(one).collect::<Vec<_>>().join("\n\n"),
    };
    Ok(format!("{}\n\n{text}", count_of(collection)))
}

fn as_json<const COUNT: usize>(
    args: &Args,
    collection: &Collection,
    members: [(&str, Value); COUNT],
) -> anyhow::Result<String> {
    let mut all = json!({
        "folder": args.dir.display().to_string(), "record_count": collection.record_count,
        "shown_count": collection.entries.len(), "left_out": collection.left_out,
    });
    for (name, value) in members {
        all[name] = value;
    }
    serde_json::to_string_pretty(&all).context("write JSON")
}

/// Parses a time that may be abbreviated at its end: `2026-11-23T14:30`.
fn time(text: &str) -> Result<String, String> {
    const PATTERN: &str = "0000-00-00T00:00:00";
    const ENDS: [usize; 6] = [4, 7, 10, 13, 16, 19];
    let fits =
        |(letter, pattern): (char, char)| if pattern == '0' { letter.is_ascii_digit() } else { letter == pattern };
    if ENDS.contains(&text.len()) && text.chars().zip(PATTERN.chars()).all(fits) {
        return Ok(text.to_owned());
    }
    Err("write it as 2026-11, 2026-11-23 or 2026-11-23T14:30".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_beginning_of_a_time() {
        for good in ["2026", "2026-11", "2026-11-23", "2026-11-23T14", "2026-11-23T14:30:59"] {
            assert_eq!(time(good).as_deref(), Ok(good));
        }
        for wrong in ["", "26", "2026-1", "2026-11-2", "23.11.2026", "yesterday", "2026-11-23T14:30:59Z", "２０２６"]
        {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }
}
