//! Every chore, one file each.

mod bench;
mod calibrate;
mod ci;
mod cross_check;
mod fuzz;
mod registry;
mod targets;
mod test;
mod tidy;

use anyhow::Result;
use clap::Subcommand;

/// A chore with its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Chore {
    /// Write the lists that are generated from folders
    Registry(registry::Words),
    /// Check what the documents promise about the tree
    Tidy,
    /// Run every test; the last line is `N passed, N failed`
    Test,
    /// Run every test and every check; the last line is `N passed, N failed`
    Ci,
    /// Count how often verdicts are right, on synthetic curves of known truth
    Calibrate(calibrate::Args),
    /// Does the program compile for systems that are not Linux, and link? Fetches several hundred MB, once
    Targets(targets::Words),
    /// What rustc calls as a linker for those
    #[command(hide = true)]
    Link(targets::linker::Words),
    /// Have our server asked by curl, h2load and a suite of bad requests that nobody here wrote
    CrossCheck(cross_check::Words),
    /// Feed the parsers with what a fuzzer thinks of, 30 minutes of processor time each
    Fuzz(fuzz::Words),
    /// Measure Landau itself
    #[command(subcommand)]
    Bench(bench::Bench),
}

impl Chore {
    /// Does it; whether all is well.
    pub(crate) fn run(&self) -> Result<bool> {
        match self {
            Self::Registry(words) => registry::run(words),
            Self::Tidy => tidy::run(),
            Self::Test => test::run(),
            Self::Ci => ci::run(),
            Self::Calibrate(words) => calibrate::run(words),
            Self::Targets(words) => targets::run(words),
            Self::Link(words) => targets::linker::run(words),
            Self::CrossCheck(words) => cross_check::run(words),
            Self::Fuzz(words) => fuzz::run(words),
            Self::Bench(bench) => bench.run(),
        }
    }
}
