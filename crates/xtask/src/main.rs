//! The project's chores, `cargo xtask …`: what must be generated, checked, tested and measured about Landau itself.
//!
//! Users never need it. One file a chore in `chore/`; what chores share (the workspace, other programs, counting)
//! stands beside this file.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to whoever started it")]

mod chore;
mod program;
mod tally;
mod workspace;

use clap::Parser;
use std::process::ExitCode;

/// The project's chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Words {
    #[command(subcommand)]
    chore: chore::Chore,
}

fn main() -> ExitCode {
    match Words::parse().chore.run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}
