//! The program `landau`: parses, prints, exits. What it does is in `command/`, one file each.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the crate that prints")]

mod command;
mod former;
mod load;
mod options;
mod progress;
mod status;
mod terminal;

use clap::{CommandFactory, FromArgMatches};
use std::process::ExitCode;

fn main() -> ExitCode {
    // A worker must not have done anything before its benchmark: not even parsed a command line.
    if let Some(status) = landau_engine::worker_main(landau_bench::REGISTRY) {
        return ExitCode::from(status);
    }
    if let Some(status) = landau_bench::awake::main() {
        return ExitCode::from(status);
    }
    if let Some(status) = landau_load::worker::main() {
        return ExitCode::from(status);
    }
    // Nor has a guest anything to parse.
    if let Some(status) = landau_lab::guest::main(landau_bench::REGISTRY) {
        return ExitCode::from(status);
    }
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let parsed =
        command::Landau::command().try_get_matches().and_then(|found| command::Landau::from_arg_matches(&found));
    let landau = match parsed {
        Ok(landau) => landau,
        // Help and version come this way too, with status 0; a usage error is "could not run".
        Err(error) => {
            let status = if error.use_stderr() { status::of_usage(&words) } else { status::DONE };
            if let Some(answer) = former::explain(&error, &words) {
                status::tell(&format!("landau: {answer}"));
                return ExitCode::from(status);
            }
            return match error.print() {
                Ok(()) => ExitCode::from(status),
                Err(failure) => status::of_failure(&failure.into()),
            };
        }
    };
    match command::run(landau, &words) {
        Ok(status) => ExitCode::from(status),
        Err(error) => status::of_failure(&error),
    }
}
