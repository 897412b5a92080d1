//! `landau explain`: counts the instructions of a benchmark's calls by kernel function, and names those that grow.

use crate::command::lab::run::own_program;
use crate::command::report;
use crate::command::run::{default_path, finish};
use crate::options::{Cache, Guest, Settings};
use crate::{status, terminal};
use anyhow::{Context, bail};
use landau_bench::REGISTRY;
use landau_engine::Scratch;
use landau_lab::explain::{self, Question};
use landau_lab::job::Job;
use landau_lab::launch::Timeouts;
use landau_lab::machine::Login;
use landau_lab::session::RunSpec;
use landau_lab::{obtain, platform};
use landau_record::schema::{Case, Explanation, Unit};
use landau_record::{Record, Writer};
use landau_report::{Analysis, explained};
use landau_sys::signal::{catch_interrupts, interrupted};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(mut_arg("append", |arg| arg.help("Append arguments to the command line of the kernel")))]
#[command(after_help = "Examples:
  landau explain event_wait --kernel debian:6.1 --set event_wait.backend=poll
  landau explain bind --kernel vmlinuz --set bind.range=40000-42001 --at 500,1000,1900
  landau explain waitpid --kernel vmlinuz -o report.html   write a report with a flame graph
  landau explain event_wait --kernel vmlinuz --json | jq '.[].functions[0]'

The growth of all functions together must equal the measured growth within 1%; otherwise the exit
status is 1.")]
pub(crate) struct Args {
    /// Explain this benchmark
    benchmark: String,
    /// Boot this kernel: a bzImage, a vmlinux, a Debian package, or `debian:VERSION`
    #[arg(long, short, value_name = "K")]
    kernel: String,
    /// Explain only this phase
    #[arg(long, value_name = "P")]
    phase: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Compare the costs at these values of n [default: 10%, 50% and 100% of the largest n of the run]
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

/// Passes of each case: where the first has a timer interrupt, the second has an undisturbed call.
const PASSES: u32 = 2;

/// How long a guest may be silent. The plugin makes it slower by half, and a long search for a port sends nothing.
const STALL_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    landau_engine::check_names(REGISTRY, std::slice::from_ref(&args.benchmark), &args.settings.set)?;
    if let Some(phase) = &args.phase {
        landau_engine::check_phase(REGISTRY, &args.benchmark, phase)?;
    }
    let path = args.record.clone().unwrap_or_else(default_path);
    if let Some(page) = &args.output {
        if *page == path {
            bail!("-o and --record name the same file: {}", page.display());
        }
        report::check_place(page)?;
    }
    let explanations = match measure(args, &path, words) {
        Err(_) if interrupted().is_some() => {
            status::tell("interrupted; nothing was explained");
            return Ok(status::FAILED);
        }
        measured => measured?,
    };
    if let Some(page) = &args.output {
        report::write_one(&path, page)?;
        status::tell(&format!("report: {}", page.display()));
    }
    status::tell(&format!("record: {}", path.display()));
    tell(args, &explanations, &Record::read(&path)?)
}

/// Boots the kernel, writes the record with the explanations, and returns them.
fn measure(args: &Args, path: &Path, words: &[String]) -> anyhow::Result<Vec<Explanation>> {
    let platform = platform::for_unit(Unit::Instructions).context("no platform counts instructions")?;
    let cache = args.cache.directory()?;
    let kernel = obtain::obtain(&args.kernel, &cache, &mut |text| status::tell(text))?;
    let scratch = Scratch::create(&std::env::temp_dir())?;
    let job = Job {
        names: vec![args.benchmark.clone()],
        study: "quick".to_owned(),
        pass_count: Some(PASSES),
        settings: args.settings.set.clone(),
        seed: 1,
        unit: platform.unit(),
        settle_s: platform.settle_s(),
        ..Job::default()
    };
    let spec = RunSpec {
        kernel: &kernel,
        platform,
        job: &job,
        program: &own_program()?,
        folder: scratch.path(),
        memory_mib: args.guest.memory_mib,
        append: &args.guest.append,
        emulator_arguments: &[],
        login: &Login::default(),
        timeouts: Timeouts::new(STALL_TIMEOUT, args.guest.time_limit),
        started: &jiff::Timestamp::now().to_string(),
        command: words,
    };
    let question = Question { phase: args.phase.as_deref(), at: &args.at };
    let mut writer = Writer::create(path)?;
    let explained = match explain::explain(&spec, &question, &mut writer, &|| interrupted().is_some()) {
        Ok(explained) => explained,
        Err(error) => {
            drop(writer);
            discard(path);
            return Err(error).with_context(|| kernel.name.clone());
        }
    };
    if let Some(end) = explained.measured.end {
        finish(&mut writer, end)?;
    }
    Ok(explained.explanations)
}

/// Removes a record without explanation: it would prevent the next run from creating it.
fn discard(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        status::tell(&format!("cannot remove the incomplete record {}: {error}", path.display()));
    }
}

/// Prints the explanations; the status says whether they add up.
fn tell(args: &Args, explanations: &[Explanation], record: &Record) -> anyhow::Result<u8> {
    let text = if args.json {
        serde_json::to_string_pretty(explanations)?
    } else {
        let analysis = Analysis::of(record);
        let one = |explanation: &Explanation| {
            record.case(explanation.case).map(|case| text(explanation, case, &analysis)).unwrap_or_default()
        };
        explanations.iter().map(one).collect::<Vec<_>>().join("\n\n")
    };
    status::print(&text)?;
    let wrong: Vec<&Explanation> = explanations.iter().filter(|one| !one.adds_up(explained::TOLERANCE)).collect();
    for one in &wrong {
        status::tell(&format!(
            "{}: the functions do not add up to the measured growth: {}",
            one.phase,
            explained::sum(one)
        ));
    }
    Ok(if wrong.is_empty() { status::DONE } else { status::FAILED })
}

/// Returns the table, the functions that grow, and the law of the whole call.
fn text(explanation: &Explanation, case: &Case, analysis: &Analysis<'_>) -> String {
    let mut text = explained::render(explanation, case, terminal::layout());
    let study = analysis.cases.iter().find(|study| study.case.case == explanation.case);
    let phase = study.and_then(|study| study.phases.iter().find(|phase| phase.phase.name == explanation.phase));
    if let Some(phase) = phase {
        text.extend(["\nthe whole call: ", &landau_report::text::sentence(&phase.verdict.all)]);
    }
    text.push('\n');
    for function in explanation.functions.iter().take(8).filter(|function| function.share >= 0.01) {
        text.push_str(&terminal::bullet(&explained::words(function, &case.axis)));
        if let Some(link) = explained::source_of(function, &explanation.source) {
            text.extend(["      ", &link, "\n"]);
        }
    }
    text
}
