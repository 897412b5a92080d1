//! The program `landau`: parses the command line and runs one command. Each command is a file in `command/`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this crate is for")]

mod assessor;
mod claims;
mod command;
mod former;
mod load;
mod mail;
mod options;
mod progress;
mod secrets;
mod status;
mod terminal;

use clap::FromArgMatches;
use clap::error::ContextKind;
use std::process::ExitCode;

fn main() -> ExitCode {
    landau_sys::signal::keep_children();
    // Workers and guests skip the parser: its allocations would precede the benchmark in their address space.
    if let Some(status) = landau_engine::worker_main(landau_bench::REGISTRY) {
        return ExitCode::from(status);
    }
    if let Some(status) = landau_architectures::main() {
        return ExitCode::from(status);
    }
    if let Some(status) = landau_bench::idle_poll::main() {
        return ExitCode::from(status);
    }
    if let Some(status) = landau_load::worker::main() {
        return ExitCode::from(status);
    }
    if let Some(status) = landau_lab::guest::main(landau_bench::REGISTRY) {
        return ExitCode::from(status);
    }
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let parser = command::parser();
    let arguments = command::without_help_of_help(&parser, std::env::args_os().collect());
    let parsed = parser.try_get_matches_from(arguments).and_then(|found| command::Landau::from_arg_matches(&found));
    let landau = match parsed {
        Ok(landau) => landau,
        // For clap, `--help` and `--version` are errors, with separate output and status 0.
        Err(mut error) => {
            // Removes the tip to write `-- --full`: no benchmark or file has such a name.
            let tip = error.get(ContextKind::Suggested).map(|tip| format!("{tip:?}"));
            if tip.is_some_and(|tip| tip.contains("as a value")) {
                error.remove(ContextKind::Suggested);
            }
            let status = if error.use_stderr() { status::of_usage(&words) } else { status::DONE };
            if let Some(answer) = former::explain(&error, &words) {
                status::tell(&format!("landau: {answer}"));
                return ExitCode::from(status);
            }
            return match status::of_parser(&error) {
                Ok(()) => ExitCode::from(status),
                Err(failure) => status::of_failure(&failure),
            };
        }
    };
    match command::run(landau, &secrets::hidden(&words)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => status::of_failure(&error),
    }
}
