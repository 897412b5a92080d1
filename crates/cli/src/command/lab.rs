//! `landau lab`: the same benchmarks under other kernels. One file a subcommand in `lab/`.

mod run;

use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Lab,
}

#[derive(Debug, Subcommand)]
enum Lab {
    /// Boot kernels and measure under each: a record for each and a page for all
    Run(run::Args),
}

pub(crate) fn run(args: &Args, words: &[String]) -> anyhow::Result<u8> {
    match &args.command {
        Lab::Run(args) => run::run(args, words),
    }
}
