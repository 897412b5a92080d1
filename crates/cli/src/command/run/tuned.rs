//! A run for `landau tune try`, with two sides; the trial changes the host between them.

use super::against::Tuning;
use super::{Args, report_of, start};
use crate::command::{Command, Landau, parser, report, show};
use anyhow::{anyhow, bail, ensure};
use clap::FromArgMatches;
use landau_engine::HostSwitch;
use landau_record::Record;
use landau_record::schema::EndOutcome;
use landau_report::Analysis;
use landau_report::compared::Compared;
use std::path::{Path, PathBuf};

/// A comparison, the paths of its records, and how the run ended.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) outcome: EndOutcome,
    pub(crate) compared: Compared,
    /// The records, the base first.
    pub(crate) records: [Record; 2],
    /// The page, if one was written.
    pub(crate) page: Option<PathBuf>,
}

/// Parses the words of a run, `run …`.
///
/// # Errors
///
/// Fails if they do not describe a run that a trial supports.
pub(crate) fn parse(words: &[String]) -> anyhow::Result<Args> {
    let first = words.first().map_or("", String::as_str);
    ensure!(
        first == "run",
        "after `--`, pass the run to measure, as in: landau tune try PROFILE -- run bind; found `{first}` instead of \
         `run`"
    );
    let all = std::iter::once("landau").chain(words.iter().map(String::as_str));
    let parsed = parser().try_get_matches_from(all).and_then(|found| Landau::from_arg_matches(&found));
    let found = parsed.map_err(|error| {
        // The usage and the hint are removed: they refer to a different command line.
        let text = error.render().to_string();
        let what = text.split("\n\nUsage:").next().unwrap_or_default().trim_start_matches("error: ").trim_end();
        let what = if error.use_stderr() { what } else { "--help and --version cannot be measured" };
        anyhow!("after `--`, in `{}`: {what}\n`landau run --help` lists what a run accepts", words.join(" "))
    })?;
    let Some(Command::Run(mut args)) = found.command else {
        bail!("after `--`, pass the run to measure, as in: landau tune try PROFILE -- run bind");
    };
    ensure!(args.resume.is_none(), "a trial cannot resume a run; omit --resume");
    ensure!(!args.against.has_sides(), "a trial defines its two sides itself; omit --against and --switch");
    args.output.get_or_insert_with(super::default_path);
    Ok(args)
}

impl Args {
    /// Returns the output path of a run that [`parse`] returned.
    pub(crate) fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new(""))
    }
}

/// Measures the host with and without a tuning, in turn, and compares. The page is written if `is_main`.
///
/// # Errors
///
/// Fails if the run fails or the host cannot be changed.
pub(crate) fn measure(
    args: &mut Args,
    output: PathBuf,
    tuning: Tuning,
    is_main: bool,
    words: &[String],
    switch: &mut dyn HostSwitch,
) -> anyhow::Result<Measured> {
    args.against.tuning = Some(tuning);
    let earlier = args.output.replace(output);
    let started = start(args, words, Some(switch));
    let page = report_of(args, &started.as_ref().map_or_else(|_| vec![PathBuf::new()], |(paths, _)| paths.clone()));
    args.output = earlier;
    let (paths, (outcome, verdicts)) = started?;
    let (bytes, records) = report::read_all(&paths)?;
    let analyses: Vec<Analysis<'_>> =
        records.iter().zip(verdicts).map(|(record, verdicts)| Analysis::with(record, verdicts)).collect();
    let names = show::names(&paths);
    let [base, new] = analyses.as_slice() else { bail!("a trial has two records") };
    let compared = Compared::of(base, new, [&names[0], &names[1]]);
    let has_page = is_main && !args.no_report && outcome != EndOutcome::Interrupted;
    if has_page {
        report::write_page(&paths, &bytes, analyses, &page)?;
    }
    let records = records.try_into().map_err(|_| anyhow!("a trial has two records"))?;
    Ok(Measured { paths, outcome, compared, records, page: has_page.then_some(page) })
}
