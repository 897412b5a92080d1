//! `landau run`: measure, and leave a record and a page.

use crate::command::{report, show};
use crate::options::{Measurement, whole_seconds};
use crate::progress::Progress;
use crate::status;
use anyhow::{Context, bail};
use landau_bench::REGISTRY;
use landau_engine::{Ending, Pinning, Plan, Request, Scratch, Session, check_room, describe_host, scratch_space};
use landau_record::schema::{End, Line};
use landau_record::{Record, Writer};
use landau_report::Analysis;
use landau_sys::signal::{catch_interrupts, interrupted};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  landau run                                  every benchmark at quick size
  landau run socket bind --passes 9           two of them, nine passes each
  landau run bind --set bind.family=v6        other settings; `landau list --long` shows them
  landau run --study full --time-limit 30m    half an hour at the most; says what was left out
  landau run --resume FILE                    go on with a run that was interrupted")]
pub(crate) struct Args {
    #[command(flatten)]
    measurement: Measurement,
    /// The record to write [default: landau-TIME.landau.ndjson]
    #[arg(long, short, value_name = "FILE", conflicts_with = "resume")]
    output: Option<PathBuf>,
    /// Go on with a record whose run did not end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "study", "passes", "set", "seed", "cpu"])]
    resume: Option<PathBuf>,
    /// The page to write [default: the record's name with .html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Write no page
    #[arg(long)]
    no_report: bool,
    /// End after so many seconds and say what was left out
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    time_limit: Option<Duration>,
    /// Folder for the benchmarks' own files, removed afterwards [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Processor for the workers: a number, or `any` to leave it to the system [default: the last one]
    #[arg(long, value_name = "N", value_parser = pinning, default_value = "last", hide_default_value = true)]
    cpu: Pinning,
    /// Show neither progress nor summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    let (path, ending) = match &args.resume {
        Some(path) => (path.clone(), resume(args, path, words)?),
        None => start(args, words)?,
    };
    conclude(args, &path, ending)?;
    Ok(match ending {
        Ending::Complete | Ending::Cut => status::DONE,
        Ending::Interrupted => {
            status::tell(&format!("interrupted; go on with: landau run --resume {}", path.display()));
            status::FAILED
        }
        Ending::Failed => status::FAILED,
    })
}

fn start(args: &Args, words: &[String]) -> anyhow::Result<(PathBuf, Ending)> {
    let path = args.output.clone().unwrap_or_else(default_path);
    let scratch = Scratch::create(&folder(args))?;
    let (host, clock) = describe_host(args.cpu)?;
    let wanted = &args.measurement;
    let request = Request {
        names: wanted.names.clone(),
        study: wanted.study.study(),
        pass_count: wanted.passes,
        settings: wanted.settings.set.clone(),
        seed: wanted.seed.unwrap_or_else(seed_of_the_moment),
        time_limit_s: args.time_limit.map(|limit| limit.as_secs()),
    };
    let plan = Plan::resolve(REGISTRY, &request, host, clock.clock, scratch_space(scratch.path()))?;
    if plan.cases.is_empty() {
        let why = plan.skips.iter().map(|skip| format!("{}: skipped, because {}", skip.label, skip.reason));
        bail!("nothing of it can be measured here:\n  {}", why.collect::<Vec<_>>().join("\n  "));
    }
    if !args.no_report {
        let page = page_of(args, &path);
        if page == path {
            bail!("the page cannot lie where the record is: {}", page.display());
        }
        report::check_place(&page)?;
    }
    check_room(&plan, &path)?;
    let mut writer = Writer::create(&path)?;
    let mut progress = Progress::new(args.quiet);
    let interrupted = || interrupted().is_some();
    let session = Session { words, scratch: &scratch, observer: &mut progress, interrupted: &interrupted };
    let (ending, end) = landau_engine::run(&plan, &mut writer, session).with_context(|| resume_hint(&path))?;
    finish(&mut writer, end).with_context(|| resume_hint(&path))?;
    Ok((path, ending))
}

fn resume(args: &Args, path: &Path, words: &[String]) -> anyhow::Result<Ending> {
    let record = Record::read(path)?;
    if record.end.as_ref().is_some_and(|end| end.outcome == "complete") {
        bail!("{} is complete: there is nothing to resume", path.display());
    }
    let scratch = Scratch::create(&folder(args))?;
    let mut writer = Writer::resume(path, &record)?;
    let mut progress = Progress::new(args.quiet);
    let interrupted = || interrupted().is_some();
    let session = Session { words, scratch: &scratch, observer: &mut progress, interrupted: &interrupted };
    let time_limit_s = args.time_limit.map(|limit| limit.as_secs());
    let (ending, end) = landau_engine::resume(&record, REGISTRY, time_limit_s, &mut writer, session)
        .with_context(|| resume_hint(path))?;
    finish(&mut writer, end).with_context(|| resume_hint(path))?;
    Ok(ending)
}

/// Writes the page and says what came out: the verdicts, where the record is and where the page.
fn conclude(args: &Args, path: &Path, ending: Ending) -> anyhow::Result<()> {
    // The page first: whoever reads the summary may stop reading. An interrupted run is not what the user wants to
    // show; the page of what there is can be had at any time.
    let page = page_of(args, path);
    let has_page = !args.no_report && ending != Ending::Interrupted;
    if has_page {
        report::write_one(path, &page)?;
    }
    if !args.quiet {
        status::print(&show::summary(&Analysis::of(&Record::read(path)?)))?;
        status::tell(&format!("\nrecord: {}", path.display()));
        if has_page {
            status::tell(&format!("page:   {}", page.display()));
        }
    }
    Ok(())
}

fn page_of(args: &Args, record: &Path) -> PathBuf {
    args.report.clone().unwrap_or_else(|| report::page_path(record))
}

/// Judges what was measured, keeps the figures in the record for `landau verify`, and closes it.
pub(crate) fn finish(writer: &mut Writer, mut end: End) -> anyhow::Result<()> {
    writer.flush()?;
    for figure in Analysis::of(&Record::read(writer.path())?).figures() {
        writer.append(&Line::Result(figure))?;
    }
    end.line_count = writer.line_count();
    writer.append(&Line::End(end))?;
    Ok(writer.sync()?)
}

fn resume_hint(path: &Path) -> String {
    format!("what was measured until now is in {0}; go on with landau run --resume {0}", path.display())
}

fn folder(args: &Args) -> PathBuf {
    args.dir.clone().unwrap_or_else(std::env::temp_dir)
}

fn pinning(word: &str) -> Result<Pinning, String> {
    match word {
        "last" => Ok(Pinning::Last),
        "any" => Ok(Pinning::Free),
        number => number.parse().map(Pinning::On).map_err(|_| "neither a processor's number nor `any`".to_owned()),
    }
}

/// A name that sorts by time and is safe on every file system.
pub(crate) fn default_path() -> PathBuf {
    PathBuf::from(format!("landau-{}.landau.ndjson", jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ")))
}

pub(crate) fn seed_of_the_moment() -> u64 {
    jiff::Timestamp::now().as_microsecond().unsigned_abs()
}
