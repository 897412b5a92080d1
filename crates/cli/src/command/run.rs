//! `landau run`: runs benchmarks and writes a record and a report.

mod against;
mod tuned;

use crate::assessor::RecordAssessor;
use crate::command::{report, show, tune};
use crate::options::{Measurement, benchmark_of, whole_seconds};
use crate::progress::Progress;
use crate::{status, terminal};
pub(crate) use against::{Tuning, with_word};
use anyhow::{Context, bail, ensure};
use landau_bench::REGISTRY;
use landau_engine::{
    Adaptive, Changes, Entry, Executed, HostSwitch, Output, Pinning, Request, Scratch, Session, Study, Switch,
    Switched, check_space,
};
use landau_record::schema::{End, EndOutcome, Line, Role, Side};
use landau_record::{Record, Writer};
use landau_report::compared::Compared;
use landau_report::table::plain;
use landau_report::{Analysis, Verdicts};
use landau_sys::signal::{catch_interrupts, interrupted};
use std::path::{Path, PathBuf};
use std::time::Duration;
pub(crate) use tuned::{measure as measure_tuned, parse as parse_for_tuning};

#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:
  landau run                                  run every benchmark
  landau run socket bind --passes 9           run two benchmarks, nine passes each
  landau run bind --set bind.family=v6        set a parameter; `landau list --long` lists them
  landau run --case fork --case fork.static   measure only these two cases of fork
  landau run --study full --time-limit 30m    run every case at full size, for up to 30 minutes
  landau run --against ./landau.old           measure two programs in turn, and compare them
  landau run dup --against LD_PRELOAD=./x.so  the same with and without a library
  landau run mmap --switch 'sysctl -w vm.overcommit_memory=1' \\
      --restore 'sysctl -w vm.overcommit_memory=0'   the same under two settings of the host
  landau run --resume FILE                    continue an interrupted run
  landau run --resume FILE --until-resolved   add passes to a complete one")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    #[command(flatten)]
    measurement: Measurement,
    /// Measure this case of a benchmark instead of those of the study, such as bind, fork.static or
    /// bind.range=40000-42001.n=500; may be repeated
    #[arg(long, value_name = "BENCHMARK[.SETTING]...")]
    case: Vec<String>,
    #[command(flatten)]
    against: against::Against,
    /// Write the record to this file; with two sides, write two, with .base and .new before the suffix [default:
    /// landau-TIME.landau.ndjson]
    #[arg(long, short, value_name = "FILE", conflicts_with = "resume")]
    output: Option<PathBuf>,
    /// Continue an interrupted run, and append to its record; add passes to a complete one with --passes or
    /// --until-resolved
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "case", "study", "set", "seed", "cpu"])]
    resume: Option<PathBuf>,
    /// With --resume: execute the commands, programs and environment that FILE names, even if no recent run of this
    /// user has executed them in this directory
    #[arg(long, requires = "resume")]
    trust_record: bool,
    /// Repeat the cases whose curves are not resolved until all are, up to 100 passes of each case, or 20 times its
    /// planned passes if that is more [default: up to 20 times the planned passes, for 3/4 of the time that those took,
    /// from 10 s to 45 s (study quick: less if planned and adaptive passes would take over 113 s; study full: 1/2, at
    /// most 15 min); none with --passes]
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
    /// The record is removed by the command that needs it, so nothing can be resumed.
    #[arg(skip)]
    is_temporary: bool,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    let (paths, (outcome, verdicts)) = match &args.resume {
        Some(path) => resume(args, path, words)?,
        None => start(args, words, None)?,
    };
    conclude(args, &paths, outcome, verdicts)?;
    Ok(match outcome {
        EndOutcome::Complete | EndOutcome::Cut => status::DONE,
        EndOutcome::Interrupted => {
            status::tell(&format!("interrupted; continue with: landau run --resume {}", paths[0].display()));
            status::FAILED
        }
        EndOutcome::Failed | EndOutcome::Crashed => status::FAILED,
    })
}

/// Measures cases for another command, which removes the record. Returns how the run ended. An interrupt ends the run,
/// not the process.
pub(crate) fn measure(cases: Vec<String>, record: &Path, words: &[String]) -> anyhow::Result<EndOutcome> {
    catch_interrupts();
    let output = Some(record.to_owned());
    let args = Args { case: cases, output, no_report: true, is_temporary: true, ..Args::default() };
    start(&args, words, None).map(|(_, (outcome, _))| outcome)
}

/// Starts a run. `external` switches the host between the two sides.
fn start(
    args: &Args,
    words: &[String],
    mut external: Option<&mut dyn HostSwitch>,
) -> anyhow::Result<(Vec<PathBuf>, Measured)> {
    let output = args.output.clone().unwrap_or_else(default_path);
    // The names of the page and of the records of two sides are derived from it; without UTF-8 they could collide with
    // others.
    ensure!(
        output.file_name().is_none_or(|name| name.to_str().is_some()),
        "--output {}: the name of a record must be UTF-8; choose another",
        output.display()
    );
    args.measurement.check(&args.case)?;
    let paths = match args.against.differences()? {
        Some(_) => [Role::Base, Role::New].map(|role| against::path_of(&output, role)).to_vec(),
        None => vec![output],
    };
    let of_cases = args.case.iter().map(|case| benchmark_of(case).to_owned());
    let named: Vec<String> = args.measurement.names.iter().cloned().chain(of_cases).collect();
    let study = args.measurement.study.study();
    let is_run = |entry: &&Entry| {
        let is_in_study = entry.in_quick || study != Study::Quick;
        named.iter().any(|name| name == entry.name) || (named.is_empty() && is_in_study)
    };
    let measures_folder = REGISTRY.iter().filter(is_run).any(|entry| entry.measures_folder);
    let scratch = scratch(args.dir.as_deref(), measures_folder, None)?;
    let lent = external.as_deref_mut().map(|switch| switch as &mut dyn HostSwitch);
    let (plans, mut own) = against::plan(args, &request(args), &scratch, &paths, lent)?;
    let lent = external.map(|switch| switch as &mut dyn HostSwitch);
    let switch = lent.or(own.as_mut().map(|switch| switch as &mut dyn HostSwitch));
    if plans[0].cases.is_empty() {
        let skips = plans.iter().rev().flat_map(|plan| &plan.skips);
        let reasons = skips.map(|skip| format!("{}: skipped, because {}", skip.label, skip.reason));
        bail!("no case can be measured on this system:\n  {}", reasons.collect::<Vec<_>>().join("\n  "));
    }
    check_page(args, &paths)?;
    check_space(&plans, &paths[0])?;
    let mut writers = create(&paths)?;
    let mut executed = Executed::default();
    for plan in &plans {
        let cases = plan.cases.iter().map(|planned| &planned.case);
        executed.add(&plan.environment, plan.side.as_ref(), cases, REGISTRY);
    }
    executed.remember();
    let measured = measure_passes(args, words, &scratch, switch, &mut writers, |outputs, session| {
        landau_engine::run(plans.iter().zip(outputs).collect(), session)
    })?;
    Ok((paths, measured))
}

/// Checks that the report can be written, before anything is measured.
fn check_page(args: &Args, records: &[PathBuf]) -> anyhow::Result<()> {
    if args.no_report {
        return Ok(());
    }
    let page = report_of(args, records);
    report::check_page(&page, "the record and --report", records)
}

fn request(args: &Args) -> Request {
    let measurement = &args.measurement;
    Request {
        names: measurement.names.clone(),
        cases: args.case.clone(),
        study: measurement.study.study(),
        pass_count: measurement.passes,
        adaptive: adaptive(args),
        settings: measurement.settings.set.clone(),
        varied: Vec::new(),
        seed: measurement.seed.unwrap_or_else(random_seed),
        time_limit_s: args.time_limit.map(|limit| limit.as_secs()),
    }
}

/// Creates the records. If one cannot be created, those already created are removed.
fn create(paths: &[PathBuf]) -> anyhow::Result<Vec<Writer>> {
    let mut writers: Vec<Writer> = Vec::new();
    for path in paths {
        match Writer::create(path) {
            Ok(writer) => writers.push(writer),
            Err(error) => {
                for writer in writers {
                    // The file is empty; the error below is more important than a failure to remove it.
                    let _ = std::fs::remove_file(writer.path());
                }
                return Err(error.into());
            }
        }
    }
    Ok(writers)
}

/// How a run ended, and the verdicts of each side.
type Measured = (EndOutcome, Vec<Verdicts>);

/// Runs the passes that a function requests, and ends the records.
fn measure_passes(
    args: &Args,
    words: &[String],
    scratch: &Scratch,
    switch: Option<&mut dyn HostSwitch>,
    writers: &mut [Writer],
    passes: impl FnOnce(Vec<Output<'_>>, Session<'_>) -> Result<End, landau_engine::Error>,
) -> anyhow::Result<Measured> {
    let path = writers[0].path().to_owned();
    let assessors = writers.iter().map(|writer| RecordAssessor::open(writer.path()));
    let mut assessors = assessors.collect::<Result<Vec<_>, _>>()?;
    let session = Session {
        command: words,
        scratch,
        observer: &mut Progress::new(args.quiet),
        interrupted: &|| interrupted().is_some(),
        switch: switch.map(|switch| switch as &mut dyn HostSwitch),
        profiling: None,
    };
    let outputs = writers.iter_mut().zip(&mut assessors);
    let outputs = outputs.map(|(writer, assessor)| Output { writer, assessor: Some(assessor) }).collect();
    let end = passes(outputs, session).map_err(|error| explain_failure(args, error, &path))?;
    let outcome = end.outcome;
    let ended = writers.iter_mut().zip(assessors).map(|(writer, assessor)| {
        let ended = end_record(writer, end.clone(), assessor.into_verdicts());
        if args.is_temporary { ended } else { ended.with_context(|| resume_hint(&path)) }
    });
    Ok((outcome, ended.collect::<Result<_, _>>()?))
}

fn resume(args: &Args, path: &Path, words: &[String]) -> anyhow::Result<(Vec<PathBuf>, Measured)> {
    let (paths, records): (Vec<PathBuf>, Vec<Record>) = against::read(path)?.into_iter().unzip();
    let (first, passes) = (&records[0], args.measurement.passes);
    if let Some(few) = passes.filter(|&passes| passes < first.pass_count()) {
        bail!("--passes {few}: {} has {} planned passes; use a larger number", path.display(), first.pass_count());
    }
    let adds = args.until_resolved || passes.is_some_and(|passes| passes > first.pass_count());
    let is_complete = |record: &Record| record.end.as_ref().is_some_and(|end| end.outcome == EndOutcome::Complete);
    if !adds && records.iter().all(is_complete) {
        bail!(
            "{} is complete: there is nothing to resume; add passes with --until-resolved or --passes N, for N above \
             {}",
            path.display(),
            first.pass_count()
        );
    }
    check_page(args, &paths)?;
    announce(args, path, &records)?;
    let side = first.header.side.as_ref();
    if let Some(profile) = side.and_then(|side| side.profile.as_ref()) {
        bail!(
            "{}: the run was part of `landau tune try {profile}`, which has restored its settings; start a new trial",
            path.display()
        );
    }
    let scratch = scratch_again(args, first)?;
    let mut switch = side.and_then(|side| Some(Switch::new(side.switch.clone()?, side.run.clone(), &scratch)));
    let writers = paths.iter().zip(&records).map(|(path, record)| Writer::resume(path, record));
    let mut writers = writers.collect::<Result<Vec<_>, _>>()?;
    let changes = Changes {
        pass_count: passes,
        adaptive: (passes.is_some() || args.until_resolved).then(|| adaptive(args)),
        time_limit_s: args.time_limit.map(|limit| limit.as_secs()),
    };
    let switch = switch.as_mut().map(|switch| switch as &mut dyn HostSwitch);
    let measured = measure_passes(args, words, &scratch, switch, &mut writers, |outputs, session| {
        landau_engine::resume(records.iter().zip(outputs).collect(), REGISTRY, changes, session)
    })?;
    Ok((paths, measured))
}

/// Returns the policy for passes after the planned ones. A number of passes given by the user is exact.
fn adaptive(args: &Args) -> Adaptive {
    match (args.until_resolved, args.measurement.passes) {
        (true, _) => Adaptive::UntilResolved,
        (false, Some(_)) => Adaptive::Off,
        (false, None) => args.measurement.study.study().adaptive(),
    }
}

/// Writes the report, and prints the verdicts or the differences between the sides, and the names of the files.
fn conclude(args: &Args, paths: &[PathBuf], outcome: EndOutcome, verdicts: Vec<Verdicts>) -> anyhow::Result<()> {
    let (bytes, records) = report::read_all(paths)?;
    let analyses: Vec<Analysis<'_>> =
        records.iter().zip(verdicts).map(|(record, verdicts)| Analysis::with(record, verdicts)).collect();
    let names = show::names(paths);
    let summary = match analyses.as_slice() {
        _ if args.quiet => String::new(),
        [base, new] => Compared::of(base, new, [&names[0], &names[1]]).render(false, terminal::layout()),
        analyses => analyses.iter().map(show::summary).collect(),
    };
    // The report is written first: printing fails if the reader of standard output has closed it. An interrupted run
    // has no report; `landau report` writes it on demand.
    let page = report_of(args, paths);
    let has_report = !args.no_report && outcome != EndOutcome::Interrupted;
    if has_report {
        report::write_page(paths, &bytes, analyses, &page)?;
    }
    if !args.quiet {
        status::if_read(status::print(&summary))?;
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        status::tell(&format!("\nrecord{}: {}", if paths.len() == 1 { "" } else { "s" }, paths.join(" ")));
        if has_report {
            status::tell(&format!("report: {}", page.display()));
        }
    }
    Ok(())
}

/// Returns the path of the report.
fn report_of(args: &Args, records: &[PathBuf]) -> PathBuf {
    let common = if records.len() == 1 { records[0].clone() } else { against::common_path(&records[0]) };
    args.report.clone().unwrap_or_else(|| report::page_path(&common))
}

/// Appends the results of the analysis, which `landau verify` recomputes, and the end of the record.
pub(crate) fn finish(writer: &mut Writer, end: End) -> anyhow::Result<()> {
    end_record(writer, end, Verdicts::default()).map(drop)
}

/// Does the same as `finish` if some verdicts are already known. Returns all verdicts.
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

/// Adds a hint to resume the run, unless the run cannot be resumed.
fn explain_failure(args: &Args, error: landau_engine::Error, path: &Path) -> anyhow::Error {
    let is_refused = args.is_temporary || matches!(error, landau_engine::Error::NotResumable { .. });
    let error = anyhow::Error::from(error);
    if is_refused { error } else { error.context(resume_hint(path)) }
}

fn resume_hint(path: &Path) -> String {
    format!("the samples so far are in {0}; continue with landau run --resume {0}", path.display())
}

/// Creates the directory for the files of benchmarks, and reports what earlier runs have left behind. If the resumed
/// run of `side` left the host switched, the host is restored. If another run did so, an error is returned.
pub(crate) fn scratch(directory: Option<&Path>, measures_folder: bool, side: Option<&Side>) -> anyhow::Result<Scratch> {
    let parent = match directory {
        Some(directory) => std::path::absolute(directory)?,
        None if measures_folder => std::env::current_dir().context("find the current directory; pass --dir")?,
        None => std::env::temp_dir(),
    };
    tune::tell_left(&landau_host::Root::live());
    let scratch = Scratch::create_registered(&parent)?;
    let switched = scratch.switched();
    for folder in &switched {
        restore(folder, side)?;
    }
    for folder in Scratch::abandoned().into_iter().filter(|folder| !switched.contains(folder)) {
        let folder = folder.display();
        status::tell(&format!("an earlier run left the directory {folder}; remove it with: rm -r '{folder}'"));
    }
    Ok(scratch)
}

/// Restores the host if the run of `side` left it switched, with the command in its record.
fn restore(folder: &Path, side: Option<&Side>) -> anyhow::Result<()> {
    let shown = folder.display();
    let Some(left) = Switched::of(folder) else {
        bail!(
            "an earlier run left the changes of --switch on the host, and its marker cannot be read; undo them, then \
             remove {shown}"
        );
    };
    let Some(side) = side.filter(|side| side.run == left.run) else {
        bail!(
            "an earlier run left the changes of --switch on the host; undo them with: {}; then: rm -r '{shown}'",
            plain(&left.restore)
        );
    };
    ensure!(
        side.switch.as_ref().is_some_and(|switch| switch.restore == left.restore),
        "this run left the changes of --switch on the host, but the restore command in {shown} differs from the one in \
         the record; undo the changes by hand, then remove the directory"
    );
    let failed = || {
        format!(
            "cannot undo the changes of --switch that this run left on the host; undo them by hand, then remove {shown}"
        )
    };
    left.restore(folder).with_context(failed)?;
    status::tell(&format!(
        "this run had left the changes of --switch on the host; they were undone with: {}",
        left.restore
    ));
    Ok(())
}

/// Reports the commands and programs other than this one that resuming the records would execute, before the first
/// starts.
///
/// # Errors
///
/// Fails if no run of this user has executed them, unless the user trusts the records.
fn announce(args: &Args, path: &Path, records: &[Record]) -> anyhow::Result<()> {
    let mut executed = Executed::default();
    for record in records {
        executed.add(&record.header.environment, record.header.side.as_ref(), &record.cases, REGISTRY);
    }
    ensure!(
        args.trust_record || executed.is_known(),
        "resuming {} would execute the following, which no recent run of this user executed in this directory; to \
         allow it, pass --trust-record:\n{executed}",
        path.display()
    );
    executed.remember();
    if !executed.is_empty() && !args.quiet {
        status::tell(&format!("the record specifies what the run executes:\n{executed}"));
    }
    Ok(())
}

/// Creates the directory for the files of a resumed run, in the same place if its file system is measured.
fn scratch_again(args: &Args, record: &Record) -> anyhow::Result<Scratch> {
    let side = record.header.side.as_ref();
    let Some(folder) = record.header.folder() else {
        let is_run = |entry: &&Entry| record.cases.iter().any(|case| case.benchmark == entry.name);
        return scratch(args.dir.as_deref(), REGISTRY.iter().filter(is_run).any(|entry| entry.measures_folder), side);
    };
    if let Some(directory) = &args.dir
        && std::path::absolute(directory)? != folder
        && std::fs::canonicalize(directory).ok() != std::fs::canonicalize(&folder).ok()
    {
        bail!(
            "--dir {}: the run in {} used {}, and a record covers one directory; omit --dir, or start a new run",
            directory.display(),
            record.path,
            folder.display()
        );
    }
    scratch(Some(&folder), true, side)
}

fn pinning(text: &str) -> Result<Pinning, String> {
    match text {
        "last" => Ok(Pinning::Last),
        "any" => Ok(Pinning::Free),
        number => number.parse().map(Pinning::On).map_err(|_| "expected a CPU number or `any`".to_owned()),
    }
}

/// Returns an unused file name that sorts by time and is valid on every file system.
pub(crate) fn default_path() -> PathBuf {
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ");
    let of_side = |path: &Path, role: Role| against::path_of(path, role).exists();
    let is_used = |path: &Path| path.exists() || of_side(path, Role::Base) || of_side(path, Role::New);
    unused_path(&format!("landau-{time}"), is_used)
}

/// Returns the first name that is not used: another run may have begun within the same second.
fn unused_path(stem: &str, is_used: impl Fn(&Path) -> bool) -> PathBuf {
    let mut path = PathBuf::from(format!("{stem}.landau.ndjson"));
    let mut number = 2;
    while is_used(&path) {
        path = PathBuf::from(format!("{stem}-{number}.landau.ndjson"));
        number += 1;
    }
    path
}

/// Returns a seed that differs from run to run; the record stores it.
pub(crate) fn random_seed() -> u64 {
    jiff::Timestamp::now().as_microsecond().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_record::schema::Case;

    /// Guards against an error for a name that the user did not choose.
    #[test]
    fn a_second_record_of_a_second_has_its_own_name() {
        let used = ["r.landau.ndjson", "r-2.landau.ndjson"].map(PathBuf::from);
        let found = |count: usize| unused_path("r", |path| used[..count].iter().any(|one| one == path));
        let names = ["r.landau.ndjson", "r-2.landau.ndjson", "r-3.landau.ndjson"];
        assert_eq!([0, 1, 2].map(found), names.map(PathBuf::from));
    }

    /// Guards against executing a command from a record's settings without asking the user.
    #[test]
    fn servers_and_their_commands_are_executed_too() {
        let case = |settings: &str| -> Case {
            let text = format!(
                r#"{{"case":0,"benchmark":"request","label":"","about":"","axis":"","caveats":[],"source":"",
                "phases":[],"settings":{settings},"n":1,"annotations":[]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let executed = |settings: &str| {
            let mut executed = Executed::default();
            executed.add(&std::collections::BTreeMap::new(), None, &[case(settings)], REGISTRY);
            executed.to_string()
        };
        assert_eq!(executed(r#"{"command":"none","url":"none"}"#), "");
        let found = executed(r#"{"command":"evil {port}","url":"http://a/"}"#);
        assert_eq!(found, "  requests to: http://a/\n  server: evil {port}");
    }
}
