//! The chores, one file each.

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
    /// Write the lists of modules that are generated from directories
    Registry(registry::Words),
    /// Check the rules of the repository that no compiler or lint checks
    Tidy,
    /// Run every test; the last line is `N passed, N failed`
    Test,
    /// Run every check and every test; the last line is `N passed, N failed`
    Ci,
    /// Measure how often verdicts are right, on synthetic curves
    Calibrate(calibrate::Args),
    /// Compile for systems other than Linux, and link where possible; downloads several hundred MB once
    Targets(targets::Words),
    /// Act as the linker for `targets`; called by rustc
    #[command(hide = true)]
    Link(targets::linker::Words),
    /// Test `landau serve` with curl, h2load and independent suites of requests
    CrossCheck(cross_check::Words),
    /// Fuzz the parsers, an hour of processor time each
    Fuzz(fuzz::Words),
    /// Measure the speed and accuracy of Landau itself
    #[command(subcommand)]
    Bench(bench::Bench),
}

impl Chore {
    /// Runs the chore and returns whether it succeeded.
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
