//! `landau predict`: predicts the cost of a sum of calls at a given n, from the curves of records.

use crate::command::show;
use crate::{status, terminal};
use anyhow::Context;
use landau_record::Record;
use landau_report::{Analysis, predicted};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau run tcp open connect request --output calls.landau.ndjson
  landau predict --for accept+read+write+close --at 5000
  landau predict calls.landau.ndjson --for '2*epoll_wait+recv+open+sendfile' --at 100000
  landau predict A B --for tcp.send+socket.close --at 9000 --json | jq .cost

A call is a phase of the benchmark tcp: accept, epoll_ctl, epoll_wait, recv, send, send_header,
sendfile or close. Similar calls are other names for these (accept4, read, write, writev ...).
Write any other curve as BENCHMARK.PHASE. docs/predict.md lists what the sum does not include, and
explains the JSON.")]
pub(crate) struct Args {
    /// Records with the curves; for each call, the first record that has it is used [default: the newest
    /// *.landau.ndjson in the current directory]
    records: Vec<PathBuf>,
    /// Add up these calls, joined by +, each with an optional factor: accept+2*read+write
    #[arg(long = "for", value_name = "SUM")]
    sum: String,
    /// Predict the cost at this number of objects, such as open connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    at: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    // An invalid sum is reported before any record is read.
    predicted::parse(&args.sum).map_err(anyhow::Error::msg)?;
    let records = match args.records.as_slice() {
        [] => {
            let newest = newest()?;
            status::tell(&format!("record: {}", newest.display()));
            vec![Record::read(&newest)?]
        }
        named => named.iter().map(|path| Record::read(path)).collect::<Result<Vec<_>, _>>()?,
    };
    if let Some(why) = landau_report::unlike(&records) {
        anyhow::bail!(why);
    }
    let analyses: Vec<Analysis<'_>> = records.iter().map(Analysis::of).collect();
    let predicted = predicted::predict(&args.sum, f64::from(args.at), &analyses).map_err(anyhow::Error::msg)?;
    if args.json {
        status::print(&serde_json::to_string_pretty(&predicted)?)?;
    } else {
        let unit = records.first().map(show::what_it_counts).unwrap_or_default();
        status::print(&(unit + &predicted.render(terminal::layout())))?;
    }
    for record in &records {
        show::warn_of(record);
    }
    Ok(status::DONE)
}

/// Returns the most recently written record in the current directory.
fn newest() -> anyhow::Result<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(".").context("list the current directory")? {
        let path = PathBuf::from(entry.context("list the current directory")?.file_name());
        // `metadata` follows symbolic links. A file that was deleted meanwhile or is not accessible is not the record
        // that the user means.
        let Ok(file) = path.metadata() else { continue };
        if file.is_file() && path.to_string_lossy().ends_with(".landau.ndjson") {
            all.push((
                file.modified().with_context(|| format!("get the modification time of {}", path.display()))?,
                path,
            ));
        }
    }
    let found = all.into_iter().max().map(|(_, path)| path);
    found.context(
        "there is no record (*.landau.ndjson) in the current directory; pass one, or measure one: landau run tcp open",
    )
}
