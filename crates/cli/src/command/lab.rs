//! `landau lab`: the same benchmarks under other kernels. One file a subcommand in `lab/`.

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
    /// Boot kernels and measure under each: a record for each and a page for all
    Run(Box<run::Args>),
    /// Find the first of a row of kernels of which a claim no longer holds
    Bisect(bisect::Args),
    /// Ask one kernel whether a claim holds; for `git bisect run`
    Test(bisect::Test),
    /// Show what can run kernels here, and what cannot and why
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
