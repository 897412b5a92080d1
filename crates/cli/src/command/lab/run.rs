//! `landau lab run`: boots kernels and runs benchmarks under each.

use crate::command::run::finish;
use crate::command::{report, show};
use crate::options::{Cache, Guest, Measurement, Stall};
use crate::progress::Kernels;
use crate::status;
use anyhow::{Context, bail};
use landau_lab::choice::{self, Choice, Missing, Paths};
use landau_lab::debian;
use landau_lab::job::Job;
use landau_lab::kernel::Source;
use landau_lab::launch::Timeouts;
use landau_lab::machine::Login;
use landau_lab::matrix::Matrix;
use landau_lab::outcome::KernelOutcome;
use landau_lab::platform::{self, Platform};
use landau_record::Writer;
use landau_record::schema::{End, Unit};
use landau_report::Analysis;
use landau_sys::signal::{catch_interrupts, interrupted};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Passes of each case if instructions are counted. A second pass would add little: the only difference between calls
/// is the timer interrupt, and a call with one is an obvious outlier.
const EXACT_PASSES: u32 = 1;

/// The seed if instructions are counted: equal command lines give equal records.
const EXACT_SEED: u64 = 1;

/// The help of `--passes`, whose default differs from that of `landau run`.
const PASSES_HELP: &str = "Repeat each case (a benchmark with one set of parameter values) this many times, each time \
                           in a fresh process [default: smoke 1, quick 5, full 9; 1 on the platform exact]";

/// The help of `--seed`, whose default differs from that of `landau run`.
const SEED_HELP: &str = "Seed every random order [default: random, and stored in the record; 1 on the platform exact]";

/// The help of `--append`, which has a different effect on the platform gvisor. Other commands do not use that
/// platform.
const APPEND_HELP: &str = "Append arguments to the command line of the kernel; on the platform gvisor, to that of \
                           runsc; for a disk image, to that of qemu";

#[derive(Debug, clap::Args)]
#[command(mut_arg("passes", |arg| arg.help(PASSES_HELP)))]
#[command(mut_arg("seed", |arg| arg.help(SEED_HELP)))]
#[command(mut_arg("append", |arg| arg.help(APPEND_HELP)))]
#[command(after_help = "Examples:
  landau lab run --kernel debian:6.1 --kernel debian:6.12 bind socket
                                     fetch two kernels and compare two benchmarks under them
  landau lab run -k ./bzImage -k ./old/bzImage.deb
                                     a kernel image and a Debian package, all benchmarks
  landau lab run -k ./vmlinuz bind --sysctl net.ipv4.ip_local_port_range='40000 42000'
  landau lab run -k debian:6.12 --append 'mitigations=off' --output mitigations-off
                                     a kernel with an argument, records in ./mitigations-off
  landau lab run -k debian:5.10 -k debian:7.2 --output kernels --resume
                                     continue an interrupted run
  landau lab run --platform netns bind --sysctl net.ipv4.ip_local_port_range='40000 42000'
                                     the running kernel in a network namespace with a sysctl
  landau lab run -k ssh:me@freebsd --program ./landau-freebsd
                                     another machine, by ssh

Instruction counts are not times: they include no cache misses and no contention, and the guest
has one CPU.")]
pub(crate) struct Args {
    /// Measure this kernel; may be repeated: a bzImage, a vmlinux, a Debian package, `debian:VERSION` (`debian:?` lists
    /// them), `host` for the running kernel, `image:DISK` for a disk image, `ssh:USER@HOST[:PORT]` for another machine
    #[arg(long, short, default_value = "host")]
    kernel: Vec<String>,
    /// Run the kernels on this platform, listed by `landau lab platforms`; `auto` is native for the running kernel,
    /// otherwise kvm if it works, otherwise exact, an emulator that counts instructions
    #[arg(long, short, value_parser = platform_word, default_value = "auto")]
    platform: Wanted,
    #[command(flatten)]
    measurement: Measurement,
    /// Write the records to this directory, which is created if necessary
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// Write the report to this file [default: lab.html in the directory of the records]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Write no report
    #[arg(long)]
    no_report: bool,
    /// Keep complete records of an earlier run, and measure the other kernels
    #[arg(long)]
    resume: bool,
    /// Run this many kernels at a time [default: one per CPU; 1 if time is measured]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    #[command(flatten)]
    guest: Guest,
    /// Set a sysctl in the guest; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    sysctl: Vec<(String, String)>,
    #[command(flatten)]
    stall: Stall,
    /// Run this program in the guest: landau, built for the guest's operating system [default: this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Log in as this user on the console of an `image:DISK`
    #[arg(long, value_name = "USER[:PASSWORD]", default_value = "root")]
    login: String,
    /// Expect this text at the end of the prompt of the shell on an `image:DISK` [default: any of # $ % >]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    cache: Cache,
    /// Print no progress and no summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    if args.kernel.iter().any(|word| matches!(Source::parse(word), Ok(Source::DebianList))) {
        return list_debian(args);
    }
    args.measurement.check(&[])?;
    let program = program(args)?;
    let choice = choose(args, &program)?;
    let (platform, kernels) = (choice.platform, &choice.kernels);
    std::fs::create_dir_all(&args.output).with_context(|| {
        format!("cannot create {} for the records; choose another directory with --output", args.output.display())
    })?;
    let page = page_of(args);
    if let Some(page) = &page {
        report::check_place(page)?;
    }
    let progress = Kernels::new(args.quiet, kernels);
    let job = job(args, platform);
    platform.check_job(&job)?;
    let matrix = Matrix {
        kernels,
        platform,
        job: &job,
        program: &program,
        login: &login(args),
        out: &args.output,
        temporary: &std::env::temp_dir(),
        memory_mib: args.guest.memory_mib,
        append: &args.guest.append,
        timeouts: timeouts(args),
        parallel: args.jobs.map_or_else(|| parallel(platform), usize::from),
        resume: args.resume,
        command: words,
    };
    matrix.check_records()?;
    if let Some(page) = &page {
        report::check_page(page, "a record and --report", matrix.records())?;
    }
    let close = |writer: &mut Writer, end: End| finish(writer, end).map_err(|error| format!("{error:#}"));
    let outcomes = matrix.run(&close, &|| interrupted().is_some(), &progress);
    drop(progress);
    conclude(args, &choice, &outcomes, page.as_deref())
}

/// A platform, or `None` for `auto`.
#[derive(Debug, Clone, Copy)]
struct Wanted(Option<&'static dyn Platform>);

fn platform_word(word: &str) -> Result<Wanted, String> {
    if word == "auto" {
        return Ok(Wanted(None));
    }
    let names = || platform::REGISTRY.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ");
    platform::named(word).map(|one| Wanted(Some(one))).ok_or_else(|| format!("unknown platform; use auto, {}", names()))
}

fn pair(word: &str) -> Result<(String, String), String> {
    let (name, value) = word.split_once('=').ok_or("write it as NAME=VALUE")?;
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|one| one.is_alphanumeric() || "_-/:".contains(one));
    if !name.trim().split('.').all(is_part) || name.starts_with('/') {
        return Err(format!("`{name}` is not the name of a sysctl; write for example net.core.somaxconn=128"));
    }
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// Returns the number of kernels to run at a time. A timed run needs the machine to itself.
fn parallel(platform: &dyn Platform) -> usize {
    if platform.unit() == Unit::Ns { 1 } else { landau_sys::system::processors().len().max(1) }
}

/// Returns a path of this program that other programs can read or start.
pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    Ok(landau_sys::process::this_program_for_others()?)
}

/// Returns the absolute path of the program for the guests. A name without a slash would be searched for in `PATH` when
/// it is started.
fn program(args: &Args) -> anyhow::Result<PathBuf> {
    match &args.program {
        Some(path) => std::path::absolute(path).with_context(|| format!("--program {}", path.display())),
        None => own_program(),
    }
}

fn list_debian(args: &Args) -> anyhow::Result<u8> {
    let found = debian::available(&args.cache.directory()?, &mut |text| status::tell(text))?;
    let lines: Vec<String> = found
        .iter()
        .map(|one| format!("debian:{}-{}  ({}, {} MiB)", one.release, one.flavour, one.version, one.bytes >> 20))
        .collect();
    status::print(&lines.join("\n"))?;
    Ok(status::DONE)
}

/// Selects the platform and obtains every kernel before the first boots: an error in the last name must not be reported
/// after an hour.
fn choose(args: &Args, program: &Path) -> anyhow::Result<Choice> {
    let mut tell = |text: &str| {
        if !args.quiet {
            status::tell(text);
        }
    };
    let cache = args.cache.known();
    let paths = Paths { cache: cache.as_deref(), program };
    let choice = choice::choose(&args.kernel, args.platform.0, &paths, &mut tell)?;
    for Missing { word, why } in &choice.missing {
        tell(&format!("{word}: {why}; continuing with the others"));
    }
    if args.platform.0.is_none() {
        let why = choice.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        tell(&format!("platform: {}{why}", choice.platform.name()));
    }
    choice.platform.check(program)?;
    Ok(choice)
}

fn job(args: &Args, platform: &dyn Platform) -> Job {
    let (wanted, exact) = (&args.measurement, platform.unit() == Unit::Instructions);
    Job {
        names: wanted.names.clone(),
        study: wanted.study.study().name().to_owned(),
        pass_count: wanted.passes.or(exact.then_some(EXACT_PASSES)),
        settings: wanted.settings.set.clone(),
        seed: seed_of(platform, wanted.seed),
        unit: platform.unit(),
        settle_s: platform.settle_s(),
        sysctls: args.sysctl.iter().cloned().collect::<BTreeMap<_, _>>(),
        ..Job::default()
    }
}

/// Returns the requested seed, or a fixed one if instructions are counted, or a random one.
pub(super) fn seed_of(platform: &dyn Platform, asked: Option<u64>) -> u64 {
    let own = || if platform.unit() == Unit::Instructions { EXACT_SEED } else { crate::command::run::random_seed() };
    asked.unwrap_or_else(own)
}

fn login(args: &Args) -> Login {
    let (user, password) = match args.login.split_once(':') {
        Some((user, password)) => (user, Some(password.to_owned())),
        None => (args.login.as_str(), None),
    };
    let prompts = args.prompt.clone().map_or_else(|| Login::default().prompts, |prompt| vec![prompt]);
    Login { user: user.to_owned(), password, prompts }
}

fn timeouts(args: &Args) -> Timeouts {
    Timeouts::new(args.stall.timeout, args.guest.time_limit)
}

fn page_of(args: &Args) -> Option<PathBuf> {
    (!args.no_report).then(|| args.report.clone().unwrap_or_else(|| args.output.join("lab.html")))
}

/// Writes the report of the records, and prints their results side by side.
fn tell_of(args: &Args, paths: &[PathBuf], page: Option<&Path>) -> anyhow::Result<()> {
    if page.is_none() && args.quiet {
        return Ok(());
    }
    let (bytes, records) = report::read_all(paths)?;
    let analyses: Vec<Analysis<'_>> = records.iter().map(Analysis::of).collect();
    let text = if args.quiet { String::new() } else { show::side_by_side(&analyses, paths) };
    if let Some(page) = page {
        report::write_page(paths, &bytes, analyses, page)?;
        status::tell(&format!("report: {}", page.display()));
    }
    if !args.quiet {
        status::if_read(status::print(&text))?;
    }
    Ok(())
}

/// Writes the report and prints the outcome of each kernel.
fn conclude(args: &Args, choice: &Choice, outcomes: &[KernelOutcome], page: Option<&Path>) -> anyhow::Result<u8> {
    let records: Vec<PathBuf> = outcomes.iter().filter_map(KernelOutcome::record).map(Path::to_owned).collect();
    let was_interrupted = outcomes.iter().any(|outcome| matches!(outcome, KernelOutcome::Interrupted(_)));
    if !records.is_empty() {
        tell_of(args, &records, page.filter(|_| !was_interrupted))?;
    }
    for (kernel, outcome) in choice.kernels.iter().zip(outcomes) {
        status::tell(&format!("{}: {}", kernel.name, outcome.text()));
    }
    for Missing { word, why } in &choice.missing {
        status::tell(&format!("{word}: {why}; `landau lab run --kernel debian:?` lists the others"));
    }
    if was_interrupted {
        status::tell("interrupted; continue with the same command and --resume");
    }
    if records.is_empty() && !was_interrupted {
        bail!("no kernel was measured");
    }
    let is_good = |outcome: &KernelOutcome| matches!(outcome, KernelOutcome::Measured(_) | KernelOutcome::Kept(_));
    Ok(if choice.missing.is_empty() && outcomes.iter().all(is_good) { status::DONE } else { status::FAILED })
}
