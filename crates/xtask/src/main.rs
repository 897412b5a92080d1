//! The chores of the project, `cargo xtask …`: generating, checking, testing and measuring Landau itself.
//!
//! Users never need it. Each chore is a file in `chore/`; the modules beside this file are shared.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "chores report on the terminal")]

mod chore;
mod collection;
mod counts;
mod debian;
mod mail_servers;
mod program;
mod sink;
mod workspace;

use clap::Parser;
use std::process::ExitCode;

/// Generate, check, test and measure Landau itself.
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
