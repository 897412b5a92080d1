//! `landau lab`: the same benchmarks under other kernels.

use crate::command::run::finish;
use crate::status;
use anyhow::{Context, bail};
use clap::Subcommand;
use landau_engine::Scratch;
use landau_lab::job::Job;
use landau_lab::machine::Bounds;
use landau_lab::qemu::{self, Accelerator};
use landau_lab::session::{self, Order};
use landau_record::Writer;
use landau_record::schema::Line;
use landau_sys::signal::{catch_interrupts, interrupted};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, Subcommand)]
enum Lab {
    /// Boot kernels and measure under each
    Run(Run),
}

#[derive(Debug, clap::Args)]
struct Run {
    /// Benchmarks to run; all of them if none is named
    names: Vec<String>,
    /// A kernel (repeatable)
    #[arg(long, short, required = true)]
    kernel: Vec<PathBuf>,
    /// How much to measure
    #[arg(long, default_value = "quick")]
    study: String,
    /// Passes of each case
    #[arg(long)]
    passes: Option<u32>,
    /// Set a parameter of a benchmark (repeatable)
    #[arg(long, value_name = "BENCH.PARAM=VALUE")]
    set: Vec<String>,
    /// Folder for the records
    #[arg(long, short, default_value = ".")]
    out: PathBuf,
    #[arg(long, default_value = "")]
    append: String,
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    let Lab::Run(args) = &args.command;
    catch_interrupts();
    qemu::version()?;
    for kernel in &args.kernel {
        let name = kernel.file_stem().map_or("kernel".into(), |name| name.to_string_lossy().into_owned());
        let path = args.out.join(format!("{name}.landau.ndjson"));
        let job = Job {
            names: args.names.clone(),
            study: args.study.clone(),
            pass_count: args.passes.or(Some(3)),
            settings: args.set.clone(),
            seed: 1,
            counts_instructions: true,
            settle_s: 20,
            ..Job::default()
        };
        let scratch = Scratch::create(&std::env::temp_dir())?;
        let order = Order {
            kernel,
            accelerator: Accelerator::Exact,
            job: &job,
            program: &std::env::current_exe()?,
            folder: scratch.path(),
            memory_mib: 1024,
            append: &args.append,
            bounds: Bounds {
                start: Duration::from_secs(60),
                silence: Duration::from_secs(60),
                whole: Duration::from_secs(3600),
            },
            started: &jiff::Timestamp::now().to_string(),
            words,
        };
        let mut writer = Writer::create(&path)?;
        let began = std::time::Instant::now();
        let mut watch = |line: &Line| {
            if let Line::PassEnd(end) = line {
                status::tell(&format!("{:?} {end:?}", began.elapsed()));
            }
        };
        let measured = session::measure(&order, &mut writer, &|| interrupted().is_some(), &mut watch)
            .with_context(|| format!("{}", kernel.display()))?;
        let Some(end) = measured.end else {
            bail!("{:?} {:?}\n{}", measured.ended.how, measured.failed, measured.ended.console.join("\n"));
        };
        finish(&mut writer, end)?;
        status::tell(&format!("record: {} {:?}", path.display(), began.elapsed()));
    }
    Ok(status::DONE)
}
