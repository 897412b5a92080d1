//! `landau explain`: names the kernel functions whose cost grows with n. On the running kernel it samples their time;
//! on a kernel in the lab it counts their instructions.

mod exact;
mod rounds;
mod running;

use crate::command::run::default_path;
use crate::command::{report, show};
use crate::options::{Cache, Guest, Settings, whole_seconds};
use crate::status;
use anyhow::{Context, bail};
use landau_bench::REGISTRY;
use landau_engine::{Entry, Phase};
use landau_record::{Record, Writer};
use landau_sys::signal::{catch_interrupts, interrupted};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(mut_arg("append", |arg| arg.help("Append arguments to the command line of the kernel").requires("kernel")))]
#[command(mut_arg("memory_mib", |arg| arg.requires("kernel")))]
#[command(mut_arg("time_limit", |arg| arg.requires("kernel")))]
#[command(mut_arg("cache", |arg| arg.requires("kernel")))]
#[command(after_help = "Examples:
  landau explain event_wait --set event_wait.backend=poll     sample the running kernel
  landau explain bind --for 30s --at 2000,15000 -o report.html   write a report with a flame graph
  landau explain event_wait --kernel debian:6.1 --set event_wait.backend=poll
  landau explain bind --kernel vmlinuz --set bind.range=40000-42001 --at 500,1000,1900
  landau explain event_wait --kernel vmlinuz --json | jq '.[].functions[0]'

Without --kernel, explain samples the running kernel and reports each function's time per call,
with intervals. With --kernel, it boots that kernel in an emulator that counts every instruction.

The growth of all functions together must match the measured growth: for counts within 1%; for
samples within 15%, or with overlapping intervals, if a call grows by a quarter or more.
Otherwise the exit status is 1.")]
pub(crate) struct Args {
    /// Explain this benchmark
    benchmark: String,
    /// Boot this kernel, not the running one: a bzImage, a vmlinux, a Debian package, or `debian:VERSION`
    #[arg(long, short, value_name = "K")]
    kernel: Option<String>,
    /// Sample each case of the running kernel for about this long
    #[arg(long = "for", value_name = "TIME", default_value = "12s", value_parser = whole_seconds)]
    #[arg(conflicts_with = "kernel")]
    duration: Duration,
    /// Explain only this phase
    #[arg(long, value_name = "P")]
    phase: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Compare the costs at these values of n [default: with --kernel 10%, 50% and 100% of the largest n; otherwise the
    /// calls around 12.5% and 87.5%]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    at: Vec<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a report with a flame graph to this file
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the record to this file [default: landau-TIME.landau.ndjson]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    guest: Guest,
    #[command(flatten)]
    cache: Cache,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    landau_engine::check_names(REGISTRY, std::slice::from_ref(&args.benchmark), &args.settings.set)?;
    if let Some(phase) = &args.phase {
        landau_engine::check_phase(REGISTRY, &args.benchmark, phase)?;
    }
    check_timed_here(args)?;
    let path = args.record.clone().unwrap_or_else(default_path);
    if let Some(page) = &args.output {
        report::check_page(page, "-o and --record", [&path])?;
    }
    match &args.kernel {
        Some(kernel) => explain(args, &path, |path| exact::measure(args, kernel, path, words), exact::tell),
        None => explain(args, &path, |path| running::measure(args, path, words), running::tell),
    }
}

/// Checks that the worker times the calls itself; otherwise no sample or instruction can be assigned to one.
fn check_timed_here(args: &Args) -> anyhow::Result<()> {
    let entry = Entry::find(REGISTRY, &args.benchmark)?;
    let is_asked = |name: &str| args.phase.as_deref().is_none_or(|phase| phase == name);
    let (elsewhere, here): (Vec<&Phase>, Vec<&Phase>) = entry.phases.iter().partition(|one| one.is_timed_elsewhere);
    if here.iter().any(|phase| is_asked(phase.name)) {
        return Ok(());
    }
    let names = |phases: &[&Phase]| phases.iter().map(|phase| phase.name).collect::<Vec<_>>().join(", ");
    let other = if here.is_empty() { String::new() } else { format!("; explain {} instead", names(&here)) };
    let asked: Vec<&Phase> = elsewhere.into_iter().filter(|phase| is_asked(phase.name)).collect();
    bail!(
        "cannot explain {} ({}): the worker does not time these calls itself, so no sample or instruction can be \
         assigned to one{other}",
        args.benchmark,
        names(&asked)
    )
}

/// Measures, writes the report, prints the findings, and returns the exit status.
fn explain<T>(
    args: &Args,
    path: &Path,
    measure: impl FnOnce(&Path) -> anyhow::Result<Vec<T>>,
    tell: fn(&Args, &[T], &Record) -> anyhow::Result<u8>,
) -> anyhow::Result<u8> {
    let part = reserve(path)?;
    let found = match measure(&part) {
        Err(_) if interrupted().is_some() => {
            status::tell("interrupted; nothing was explained");
            return Ok(status::FAILED);
        }
        measured => measured?,
    };
    publish(&part, path)?;
    let written =
        args.output.as_ref().map(|page| report::write_named(path, show::file_name(path), page).map(|()| page));
    if let Some(Ok(page)) = &written {
        status::tell(&format!("report: {}", page.display()));
    }
    status::tell(&format!("record: {}", path.display()));
    let code = tell(args, &found, &Record::read(path)?)?;
    // The answer is printed even if the report cannot be written.
    written.transpose().map(|_| code)
}

/// Checks that a record can be created, before anything is measured. Returns a temporary name; a complete record is
/// renamed to `path`. The record of a killed run explains nothing, and would block the name.
fn reserve(path: &Path) -> anyhow::Result<PathBuf> {
    drop(Writer::create(path)?);
    std::fs::remove_file(path).with_context(|| format!("remove {}", path.display()))?;
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    Ok(part.into())
}

/// Renames a complete record to its final name.
fn publish(part: &Path, path: &Path) -> anyhow::Result<()> {
    // Unlike rename(2), link(2) does not replace an existing file.
    let published = match std::fs::hard_link(part, path) {
        // The file system does not support hard links.
        Err(error)
            if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) && !path.exists() =>
        {
            std::fs::rename(part, path)
        }
        linked => linked.and_then(|()| std::fs::remove_file(part)),
    };
    published.with_context(|| format!("rename the record {} to {}", part.display(), path.display()))
}

/// Removes a record that has no explanation: it would only use disk space.
fn discard(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        status::tell(&format!("cannot remove the incomplete record {}: {error}", path.display()));
    }
}
