//! `landau lab`: runs the benchmarks under other kernels. Each subcommand has a file in `lab/`.

mod bisect;
mod platforms;
pub(crate) mod run;
mod step;

use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, Subcommand)]
enum Lab {
    /// Boot kernels and run benchmarks under each: one record per kernel, one report for all
    Run(Box<run::Args>),
    /// Find the first kernel of a series for which a claim no longer holds
    Bisect(bisect::Args),
    /// Test whether a claim holds for a kernel; for `git bisect run`
    Test(bisect::Test),
    /// List the platforms that can run kernels, and what the others need
    Platforms(platforms::Args),
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    match &args.command {
        Lab::Run(args) => run::run(args, words),
        Lab::Bisect(args) => bisect::run(args),
        Lab::Test(args) => bisect::test(args),
        Lab::Platforms(args) => platforms::run(args),
    }
}
