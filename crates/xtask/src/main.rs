//! The chores of the project, `cargo xtask …`: generating, checking, testing and measuring Landau itself.
//!
//! Users never need it. Each chore is a file in `chore/`; the modules next to this file are shared.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "chores report on the terminal")]

mod chore;
#[path = "../../../tests/serve/client.rs"]
mod client;
mod collection;
mod counts;
mod debian;
#[path = "../../wire/tests/it/escape.rs"]
mod escape;
mod mail_servers;
mod program;
mod sink;
#[path = "../../wire/tests/it/table.rs"]
#[expect(dead_code, reason = "hostile clients send the requests and judge no answer")]
mod table;
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
