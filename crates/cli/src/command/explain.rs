//! `landau explain`: the kernel functions that a benchmark's calls spend their instructions in, and which of them grow.

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
use landau_report::explained;
use landau_sys::signal::{catch_interrupts, interrupted};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau explain event_wait --kernel debian:6.1 --set event_wait.backend=poll
  landau explain bind --kernel vmlinuz --set bind.range=40000-42001 --at 500,1000,1900
  landau explain waitpid --kernel vmlinuz -o page.html     with a flame graph
  landau explain event_wait --kernel vmlinuz --json | jq '.[].functions[0]'

The functions' growth must add up to the measured one within 1%; if it does not, the exit status is 1.")]
pub(crate) struct Args {
    /// The benchmark
    benchmark: String,
    /// The kernel: a bzImage, a vmlinux, a Debian package, or `debian:VERSION`
    #[arg(long, short, value_name = "K")]
    kernel: String,
    /// Only this phase
    #[arg(long, value_name = "P")]
    phase: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Sizes to look at [default: a tenth, a half and all of the benchmark's steps]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    at: Vec<u64>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Draw the page of the record, with a flame graph
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The record to write [default: landau-TIME.landau.ndjson]
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    guest: Guest,
    #[command(flatten)]
    cache: Cache,
}

/// Passes of each case: a second one finds calls that nothing disturbed where the first had a timer's tick.
const PASSES: u32 = 2;

/// Silence after which a guest is given up. A plugin makes it slower by a half; a long search for a port is silent.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    landau_engine::check_names(REGISTRY, std::slice::from_ref(&args.benchmark), &args.settings.set)?;
    if let Some(phase) = &args.phase {
        landau_engine::check_phase(REGISTRY, &args.benchmark, phase)?;
    }
    let path = args.record.clone().unwrap_or_else(default_path);
    if let Some(page) = &args.output {
        if *page == path {
            bail!("the page cannot lie where the record is: {}", page.display());
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
        status::tell(&format!("page:   {}", page.display()));
    }
    status::tell(&format!("record: {}", path.display()));
    tell(args, &explanations, &Record::read(&path)?)
}

/// Boots the kernel, leaves a record with what was found, and gives it.
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
        timeouts: Timeouts { start: PATIENCE, silence: PATIENCE, total: args.guest.time_limit },
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

/// Removes a record that explains nothing: it would be in the way of the next try.
fn discard(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        status::tell(&format!("{} explains nothing and cannot be removed: {error}", path.display()));
    }
}

/// Prints what was found; the status says whether it adds up.
fn tell(args: &Args, explanations: &[Explanation], record: &Record) -> anyhow::Result<u8> {
    let text = if args.json {
        serde_json::to_string_pretty(explanations)?
    } else {
        let one = |explanation: &Explanation| {
            record.case(explanation.case).map(|case| text(explanation, case, record)).unwrap_or_default()
        };
        explanations.iter().map(one).collect::<Vec<_>>().join("\n\n")
    };
    status::print(&text)?;
    let wrong: Vec<&Explanation> = explanations.iter().filter(|one| !one.adds_up(explained::TOLERANCE)).collect();
    for one in &wrong {
        status::tell(&format!(
            "{}: the functions do not add up to what was measured: {}",
            one.phase,
            explained::sum(one)
        ));
    }
    Ok(if wrong.is_empty() { status::DONE } else { status::FAILED })
}

/// The table, what carries the growth in words, and the law of the whole.
fn text(explanation: &Explanation, case: &Case, record: &Record) -> String {
    let mut text = explained::render(explanation, case, terminal::layout());
    let law = record.results.iter().find(|one| one.case == explanation.case && one.phase == explanation.phase);
    if let Some(sentence) = law.and_then(landau_report::text::of_result) {
        text.extend(["\nthe whole call: ", &sentence]);
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
