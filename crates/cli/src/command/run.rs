//! `landau run`: runs benchmarks and writes a record and a report.

use crate::assessor::RecordAssessor;
use crate::command::{report, show};
use crate::options::{Measurement, benchmark_of, whole_seconds};
use crate::progress::Progress;
use crate::status;
use anyhow::{Context, bail};
use landau_bench::REGISTRY;
use landau_engine::{
    Adaptive, Changes, Entry, Pinning, Plan, Request, Scratch, Session, Study, check_space, describe_host,
    scratch_free_bytes,
};
use landau_record::schema::{End, EndOutcome, Line};
use landau_record::{Record, Writer};
use landau_report::{Analysis, Verdicts};
use landau_sys::signal::{catch_interrupts, interrupted};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  landau run                                  run every benchmark
  landau run socket bind --passes 9           run two benchmarks, nine passes each
  landau run bind --set bind.family=v6        set a parameter; `landau list --long` lists them
  landau run --case fork --case fork.static   measure these two cases of fork, not all of the study
  landau run --study full --time-limit 30m    run every case at full size, for at most half an hour
  landau run --resume FILE                    continue an interrupted run
  landau run --resume FILE --until-resolved   add passes to a complete one")]
pub(crate) struct Args {
    #[command(flatten)]
    measurement: Measurement,
    /// Measure this case of a benchmark instead of those of the study, such as bind, fork.static or
    /// bind.range=40000-42001.n=500; may be repeated
    #[arg(long, value_name = "BENCHMARK[.SETTING]...")]
    case: Vec<String>,
    /// Write the record to this file [default: landau-TIME.landau.ndjson]
    #[arg(long, short, value_name = "FILE", conflicts_with = "resume")]
    output: Option<PathBuf>,
    /// Continue an interrupted run, and append to its record; add passes to a complete one with --passes or
    /// --until-resolved
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "case", "study", "set", "seed", "cpu"])]
    resume: Option<PathBuf>,
    /// Repeat the cases whose curves are not resolved until all are, at most 100 times each [default: at most 20 times
    /// the study's passes, for a part of the time that those took, but at least 10 s; not at all with --passes]
    #[arg(long)]
    until_resolved: bool,
    /// Write the HTML report to this file [default: the record's name with .html]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Write no report
    #[arg(long)]
    no_report: bool,
    /// Stop after this time, such as 90s or 30m (a whole number of seconds), and list the passes left out
    #[arg(long, value_name = "TIME", value_parser = whole_seconds)]
    time_limit: Option<Duration>,
    /// Create the benchmarks' temporary files in this directory [default: with `files`, which measures its file system,
    /// the current directory; else $TMPDIR, else /tmp; with --resume, that of the interrupted run]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Pin the measuring processes to this CPU; `any` does not pin [default: the last CPU]
    #[arg(long, value_name = "N", value_parser = pinning, default_value = "last", hide_default_value = true)]
    cpu: Pinning,
    /// Print no progress and no summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    let (path, (outcome, verdicts)) = match &args.resume {
        Some(path) => (path.clone(), resume(args, path, words)?),
        None => start(args, words)?,
    };
    conclude(args, &path, outcome, verdicts)?;
    Ok(match outcome {
        EndOutcome::Complete | EndOutcome::Cut => status::DONE,
        EndOutcome::Interrupted => {
            status::tell(&format!("interrupted; continue with: landau run --resume {}", path.display()));
            status::FAILED
        }
        EndOutcome::Failed | EndOutcome::Crashed => status::FAILED,
    })
}

fn start(args: &Args, words: &[String]) -> anyhow::Result<(PathBuf, Measured)> {
    let path = args.output.clone().unwrap_or_else(default_path);
    args.measurement.check(&args.case)?;
    let of_cases = args.case.iter().map(|case| benchmark_of(case).to_owned());
    let named: Vec<String> = args.measurement.names.iter().cloned().chain(of_cases).collect();
    let study = args.measurement.study.study();
    let is_run = |entry: &&Entry| {
        let is_in_study = entry.in_quick || study != Study::Quick;
        named.iter().any(|name| name == entry.name) || (named.is_empty() && is_in_study)
    };
    let scratch = scratch(args.dir.as_deref(), REGISTRY.iter().filter(is_run).any(|entry| entry.measures_folder))?;
    let (host, clock) = describe_host(args.cpu)?;
    let measurement = &args.measurement;
    let request = Request {
        names: measurement.names.clone(),
        cases: args.case.clone(),
        study: measurement.study.study(),
        pass_count: measurement.passes,
        adaptive: adaptive(args),
        settings: measurement.settings.set.clone(),
        seed: measurement.seed.unwrap_or_else(random_seed),
        time_limit_s: args.time_limit.map(|limit| limit.as_secs()),
    };
    let plan = Plan::resolve(REGISTRY, &request, host, clock.clock, scratch_free_bytes(scratch.path()))?;
    if plan.cases.is_empty() {
        let reasons = plan.skips.iter().map(|skip| format!("{}: skipped, because {}", skip.label, skip.reason));
        bail!("no case can be measured on this system:\n  {}", reasons.collect::<Vec<_>>().join("\n  "));
    }
    if !args.no_report {
        let page = report_of(args, &path);
        if page == path {
            bail!("--output and --report name the same file: {}", page.display());
        }
        report::check_place(&page)?;
    }
    check_space(&plan, &path)?;
    let mut writer = Writer::create(&path)?;
    let measured = measure_passes(args, &path, words, &scratch, &mut writer, |writer, session| {
        landau_engine::run(&plan, writer, session)
    })?;
    Ok((path, measured))
}

/// How a run ended, and its verdicts.
type Measured = (EndOutcome, Verdicts);

/// Makes the passes that a function asks for, and ends the record.
fn measure_passes(
    args: &Args,
    path: &Path,
    words: &[String],
    scratch: &Scratch,
    writer: &mut Writer,
    passes: impl FnOnce(&mut Writer, Session<'_>) -> Result<End, landau_engine::Error>,
) -> anyhow::Result<Measured> {
    let mut assessor = RecordAssessor::open(path)?;
    let session = Session {
        command: words,
        scratch,
        observer: &mut Progress::new(args.quiet),
        interrupted: &|| interrupted().is_some(),
        assessor: Some(&mut assessor),
    };
    let end = passes(writer, session).map_err(|error| explain_failure(error, path))?;
    let outcome = end.outcome;
    let verdicts = end_record(writer, end, assessor.into_verdicts()).with_context(|| resume_hint(path))?;
    Ok((outcome, verdicts))
}

fn resume(args: &Args, path: &Path, words: &[String]) -> anyhow::Result<Measured> {
    let record = Record::read(path)?;
    let passes = args.measurement.passes;
    if let Some(few) = passes.filter(|&passes| passes < record.pass_count()) {
        bail!("--passes {few}: {} has {} planned passes; ask for more", path.display(), record.pass_count());
    }
    let adds = args.until_resolved || passes.is_some_and(|passes| passes > record.pass_count());
    if !adds && record.end.as_ref().is_some_and(|end| end.outcome == EndOutcome::Complete) {
        bail!(
            "{} is complete: there is nothing to resume; add passes with --until-resolved or --passes N, for N above \
             {}",
            path.display(),
            record.pass_count()
        );
    }
    let scratch = scratch_again(args, &record)?;
    let mut writer = Writer::resume(path, &record)?;
    let changes = Changes {
        pass_count: passes,
        adaptive: (passes.is_some() || args.until_resolved).then(|| adaptive(args)),
        time_limit_s: args.time_limit.map(|limit| limit.as_secs()),
    };
    measure_passes(args, path, words, &scratch, &mut writer, |writer, session| {
        landau_engine::resume(&record, REGISTRY, changes, writer, session)
    })
}

/// Returns which passes may follow the planned ones: a number of passes that the user chose is exact.
fn adaptive(args: &Args) -> Adaptive {
    match (args.until_resolved, args.measurement.passes) {
        (true, _) => Adaptive::UntilResolved,
        (false, Some(_)) => Adaptive::Off,
        (false, None) => args.measurement.study.study().adaptive(),
    }
}

/// Writes the report, and prints the verdicts and the names of the files.
fn conclude(args: &Args, path: &Path, outcome: EndOutcome, verdicts: Verdicts) -> anyhow::Result<()> {
    let bytes = landau_record::read_file(path)?;
    let record = Record::parse(&path.display().to_string(), &bytes)?;
    let analysis = Analysis::with(&record, verdicts);
    let summary = if args.quiet { String::new() } else { show::summary(&analysis) };
    // The report first: printing fails if the reader of standard output has gone away. An interrupted run gets none;
    // `landau report` writes it on demand.
    let page = report_of(args, path);
    let has_report = !args.no_report && outcome != EndOutcome::Interrupted;
    if has_report {
        report::write_page(&[path.to_owned()], &[bytes], vec![analysis], &page)?;
    }
    if !args.quiet {
        status::print(&summary)?;
        status::tell(&format!("\nrecord: {}", path.display()));
        if has_report {
            status::tell(&format!("report: {}", page.display()));
        }
    }
    Ok(())
}

/// Returns the path of the report.
fn report_of(args: &Args, record: &Path) -> PathBuf {
    args.report.clone().unwrap_or_else(|| report::page_path(record))
}

/// Appends the results of the analysis, which `landau verify` recomputes, and the end of the record.
pub(crate) fn finish(writer: &mut Writer, end: End) -> anyhow::Result<()> {
    end_record(writer, end, Verdicts::default()).map(drop)
}

/// The same, where some verdicts are known already; returns all of them.
fn end_record(writer: &mut Writer, mut end: End, known: Verdicts) -> anyhow::Result<Verdicts> {
    writer.flush()?;
    let record = Record::read(writer.path())?;
    let analysis = Analysis::with(&record, known);
    for result in analysis.results() {
        writer.append(&Line::Result(result))?;
    }
    end.line_count = writer.line_count();
    writer.append(&Line::End(end))?;
    writer.sync()?;
    Ok(analysis.into_verdicts())
}

/// Adds how to continue, unless the run could not be continued in the first place.
fn explain_failure(error: landau_engine::Error, path: &Path) -> anyhow::Error {
    let is_refused = matches!(error, landau_engine::Error::NotResumable { .. });
    let error = anyhow::Error::from(error);
    if is_refused { error } else { error.context(resume_hint(path)) }
}

fn resume_hint(path: &Path) -> String {
    format!("the samples so far are in {0}; continue with landau run --resume {0}", path.display())
}

/// Creates the folder for the files of benchmarks, and says which folders earlier runs have left elsewhere.
fn scratch(directory: Option<&Path>, measures_folder: bool) -> anyhow::Result<Scratch> {
    let parent = match directory {
        Some(directory) => std::path::absolute(directory)?,
        None if measures_folder => std::env::current_dir().context("find the current directory; pass --dir")?,
        None => std::env::temp_dir(),
    };
    let scratch = Scratch::create_registered(&parent)?;
    for folder in Scratch::abandoned() {
        let folder = folder.display();
        status::tell(&format!("a run that was killed has left {folder}; remove it with: rm -r '{folder}'"));
    }
    Ok(scratch)
}

/// Creates the folder for the files of a resumed run, in the same place if its file system is measured.
fn scratch_again(args: &Args, record: &Record) -> anyhow::Result<Scratch> {
    let Some(folder) = record.header.folder() else {
        let is_run = |entry: &&Entry| record.cases.iter().any(|case| case.benchmark == entry.name);
        return scratch(args.dir.as_deref(), REGISTRY.iter().filter(is_run).any(|entry| entry.measures_folder));
    };
    if let Some(directory) = &args.dir
        && std::path::absolute(directory)? != folder
        && std::fs::canonicalize(directory).ok() != std::fs::canonicalize(&folder).ok()
    {
        bail!(
            "--dir {}: {} has files in {}, and a record has those of one folder; leave out --dir, or start a new run",
            directory.display(),
            record.path,
            folder.display()
        );
    }
    scratch(Some(&folder), true)
}

fn pinning(text: &str) -> Result<Pinning, String> {
    match text {
        "last" => Ok(Pinning::Last),
        "any" => Ok(Pinning::Free),
        number => number.parse().map(Pinning::On).map_err(|_| "neither a CPU number nor `any`".to_owned()),
    }
}

/// Returns a file name that sorts by time and is valid on every file system.
pub(crate) fn default_path() -> PathBuf {
    PathBuf::from(format!("landau-{}.landau.ndjson", jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ")))
}

/// Returns a seed that differs from run to run; the record stores it.
pub(crate) fn random_seed() -> u64 {
    jiff::Timestamp::now().as_microsecond().unsigned_abs()
}
