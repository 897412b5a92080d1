//! `landau lab run`: boot kernels and measure under each.

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
use landau_sys::signal::{catch_interrupts, interrupted};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Passes of each case where every run is the same to the last instruction: a second one tells hardly more than the
/// first, for what a timer adds to a call now and then stands out by itself.
const EXACT_PASSES: u32 = 1;

/// The seed of exact runs: the same words give the same record.
const EXACT_SEED: u64 = 1;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  landau lab run --kernel debian:6.1 --kernel debian:6.12 bind socket
                                     fetch two kernels and count instructions under each
  landau lab run -k ./bzImage -k ./old/bzImage.deb
                                     a kernel's image and a Debian package, every benchmark
  landau lab run -k ./vmlinuz bind --sysctl net.ipv4.ip_local_port_range='40000 42000'
  landau lab run -k debian:6.12 --append 'mitigations=off' --output off
  landau lab run -k debian:5.10 -k debian:7.2 --output kernels --resume
                                     go on with what was interrupted
  landau lab run --platform netns bind --sysctl net.ipv4.ip_local_port_range='40000 42000'
                                     the running kernel with another setting, in a network of its own
  landau lab run -k ssh:me@freebsd --program ./landau-freebsd
                                     another system, by ssh

Instructions are neither time nor speed: they know no cache misses, no contention and one processor only.")]
pub(crate) struct Args {
    /// A kernel (repeatable): a bzImage, a vmlinux, a Debian package, or `debian:VERSION`; `debian:?` lists those;
    /// `host` is the one that runs now, `image:DISK` a whole system, `ssh:USER@HOST[:PORT]` another machine
    #[arg(long, short, default_value = "host")]
    kernel: Vec<String>,
    /// What runs the kernels, or `auto`: what is there already natively, else kvm if it works, else exact;
    /// `landau lab platforms` tells of each
    #[arg(long, short, value_parser = platform_word, default_value = "auto")]
    platform: Wanted,
    #[command(flatten)]
    measurement: Measurement,
    /// Folder for the records, made if it is not there
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// The page to write [default: lab.html in the records' folder]
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    report: Option<PathBuf>,
    /// Write no page
    #[arg(long)]
    no_report: bool,
    /// Keep whole records that are there already, and measure what is missing or torn
    #[arg(long)]
    resume: bool,
    /// How many kernels run at a time [default: one a processor]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    #[command(flatten)]
    guest: Guest,
    /// Set a sysctl in the guest (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    sysctl: Vec<(String, String)>,
    #[command(flatten)]
    stall: Stall,
    /// The program that measures, where the other system needs one of its own kind [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Who logs in on the console of a system given as `image:DISK`
    #[arg(long, value_name = "USER[:PASSWORD]", default_value = "root")]
    login: String,
    /// What the prompt of that user's shell ends with [default: any of # $ % >]
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    cache: Cache,
    /// Show neither progress nor summary
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    catch_interrupts();
    if args.kernel.iter().any(|word| matches!(Source::parse(word), Ok(Source::DebianList))) {
        return list_debian(args);
    }
    args.measurement.check()?;
    let program = args.program.clone().map_or_else(own_program, Ok)?;
    let choice = choose(args, &program)?;
    let (platform, kernels) = (choice.platform, &choice.kernels);
    std::fs::create_dir_all(&args.output).with_context(|| {
        format!("make {} for the records; choose another folder with --output", args.output.display())
    })?;
    let page = page_of(args);
    if let Some(page) = &page {
        report::check_place(page)?;
    }
    let watch = Kernels::new(args.quiet, kernels);
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
    let close = |writer: &mut Writer, end: End| finish(writer, end).map_err(|error| format!("{error:#}"));
    let outcomes = matrix.run(&close, &|| interrupted().is_some(), &watch);
    drop(watch);
    conclude(args, &choice, &outcomes, page.as_deref())
}

/// A platform, or none where the choice is left to us.
#[derive(Debug, Clone, Copy)]
struct Wanted(Option<&'static dyn Platform>);

fn platform_word(word: &str) -> Result<Wanted, String> {
    if word == "auto" {
        return Ok(Wanted(None));
    }
    let names = || platform::REGISTRY.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ");
    platform::named(word).map(|one| Wanted(Some(one))).ok_or_else(|| format!("there are auto, {}", names()))
}

fn pair(word: &str) -> Result<(String, String), String> {
    let (name, value) = word.split_once('=').ok_or("write it as NAME=VALUE")?;
    let is_part =
        |part: &str| !part.is_empty() && part.chars().all(|one| one.is_alphanumeric() || "_-/:".contains(one));
    if !name.trim().split('.').all(is_part) || name.starts_with('/') {
        return Err(format!("`{name}` is no setting's name; write it as in net.core.somaxconn=128"));
    }
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// How many run at a time: what is timed must have the machine to itself.
fn parallel(platform: &dyn Platform) -> usize {
    if platform.unit() == Unit::Ns { 1 } else { landau_sys::system::processors().len().max(1) }
}

/// The path of this program, for the programs that read or start it.
pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    Ok(landau_sys::process::this_program_for_others()?)
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

/// Gets every kernel before the first is booted, for a slip in the last name must not cost an hour; and the platform.
fn choose(args: &Args, program: &Path) -> anyhow::Result<Choice> {
    let mut tell = |text: &str| {
        if !args.quiet {
            status::tell(text);
        }
    };
    let cache = args.cache.directory()?;
    let paths = Paths { cache: &cache, program };
    let choice = choice::choose(&args.kernel, args.platform.0, &paths, &mut tell)?;
    for Missing { word, why } in &choice.missing {
        tell(&format!("{word}: {why}; going on with the others"));
    }
    if args.platform.0.is_none() {
        let why = choice.why.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        tell(&format!("platform: {}{why}", choice.platform.name()));
    }
    choice.platform.check(program)?;
    Ok(choice)
}

fn job(args: &Args, platform: &dyn Platform) -> Job {
    let (wanted, exact) = (&args.measurement, platform.is_exact());
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

/// The seed that was asked for; else one that makes equal words give equal exact records.
pub(super) fn seed_of(platform: &dyn Platform, asked: Option<u64>) -> u64 {
    let own = || if platform.is_exact() { EXACT_SEED } else { crate::command::run::random_seed() };
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
    let stall = args.stall.timeout;
    Timeouts { start: stall, silence: stall, total: args.guest.time_limit }
}

fn page_of(args: &Args) -> Option<PathBuf> {
    (!args.no_report).then(|| args.report.clone().unwrap_or_else(|| args.output.join("lab.html")))
}

/// Draws the records over one another and says what became of each kernel.
fn conclude(args: &Args, choice: &Choice, outcomes: &[KernelOutcome], page: Option<&Path>) -> anyhow::Result<u8> {
    let records: Vec<PathBuf> = outcomes.iter().filter_map(KernelOutcome::record).map(Path::to_owned).collect();
    let was_interrupted = outcomes.iter().any(|outcome| matches!(outcome, KernelOutcome::Interrupted(_)));
    if let (Some(page), false, false) = (page, records.is_empty(), was_interrupted) {
        report::write_several(&records, page)?;
        status::tell(&format!("page:   {}", page.display()));
    }
    if !args.quiet && !records.is_empty() {
        status::print(&show::side_by_side(&records)?)?;
    }
    for (kernel, outcome) in choice.kernels.iter().zip(outcomes) {
        status::tell(&format!("{}: {}", kernel.name, outcome.text()));
    }
    for Missing { word, why } in &choice.missing {
        status::tell(&format!("{word}: {why}; `landau lab run --kernel debian:?` lists others"));
    }
    if was_interrupted {
        status::tell("interrupted; the same words with --resume go on");
    }
    if records.is_empty() && !was_interrupted {
        bail!("nothing was measured under any kernel");
    }
    let is_good = |outcome: &KernelOutcome| matches!(outcome, KernelOutcome::Measured(_) | KernelOutcome::Kept(_));
    Ok(if choice.missing.is_empty() && outcomes.iter().all(is_good) { status::DONE } else { status::FAILED })
}
