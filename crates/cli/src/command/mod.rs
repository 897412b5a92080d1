//! The commands, one file each. `cargo xtask registry` generates the list between the markers.

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;

// registry:begin
mod check;
mod compare;
mod doctor;
mod explain;
mod generate;
mod history;
mod inspect;
mod lab;
mod list;
mod load;
mod mail;
mod pids;
mod predict;
mod queue;
mod report;
mod run;
mod serve;
mod show;
mod sink;
mod tune;
mod verify;
// registry:end

pub(crate) use run::finish;

/// Measure how the cost of system calls and requests grows with the number of objects, and name the law of growth.
///
/// Without a command, landau runs the quick study in two to three minutes. It writes a record (every sample, as JSON
/// lines) and a report (one HTML page) to the current directory.
#[derive(Debug, Parser)]
#[command(name = "landau", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Landau {
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "Examples:
  landau                              run the quick study
  landau list                         list the benchmarks
  landau run bind --passes 9          run one benchmark, nine passes
  landau show FILE                    print the verdicts of a record
  landau compare A B                  report what changed between two records
  landau report A B -o compared.html  compare two records in one report
  landau history DIR --draw cost      follow costs over the records of a directory

Exit status: 0 success, 1 a check failed or the run was interrupted, 2 the command could not run.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run benchmarks, and write a record and a report
    Run(run::Args),
    /// List the benchmarks, and why some cannot run on this machine
    List(list::Args),
    /// Report which limits of this host a load would reach, with the evidence and how to raise them
    Doctor(doctor::Args),
    /// Show what a profile of kernel settings would change, measure whether it helps, and make it permanent or undo it
    Tune(tune::Args),
    /// Determine the network architecture of a running server from outside
    Inspect(inspect::Args),
    /// Run benchmarks under other kernels: emulated, in virtual machines or over ssh
    Lab(lab::Args),
    /// Name the kernel functions that make the cost of a benchmark's calls grow
    Explain(explain::Args),
    /// Send HTTP requests to a server and measure their latency, also while many idle connections are open
    Load(load::Args),
    /// Deliver a message to a list of recipients over SMTP, and record the outcome for each
    Mail(Box<mail::Args>),
    /// Compare models of kernels' PID allocators by how much each reads to find a free PID
    Pids(pids::Args),
    /// List, hold, release, delete or flush the messages in the queue of `landau mail --relay`
    Queue(queue::Args),
    /// Print the verdicts of a record as a table, or compare several records
    Show(show::Args),
    /// Report what changed between two records, or between the variants of one
    Compare(compare::Args),
    /// Predict the total cost of several calls at a given number of objects, from the curves in records
    Predict(predict::Args),
    /// Check claims about growth against records: pass, fail or inconclusive, with the evidence
    Check(check::Args),
    /// Write an HTML report of one record, or of several for comparison
    Report(report::Args),
    /// List, search and group the records of a directory, plot a quantity over them, or generate a static site
    History(Box<history::Args>),
    /// Check that a record or report was not altered and that its results follow from its samples
    Verify(verify::Args),
    /// Serve a directory over HTTP and HTTPS
    Serve(serve::Args),
    /// Run a test server for SMTP, HTTP, TCP or DNS that can be slow, full or broken
    Sink(sink::Args),
    /// Write the manual page, shell completions or the option reference
    Generate(generate::Args),
}

/// Returns the parser of the command line.
pub(crate) fn parser() -> clap::Command {
    accept_negative_numbers(Landau::command())
}

/// Removes `--help` and `-h` after the subcommand `help`, where clap interprets every word as the name of a command.
pub(crate) fn without_help_of_help(mut command: &clap::Command, mut words: Vec<OsString>) -> Vec<OsString> {
    for place in 1..words.len() {
        if words[place] == "help" && command.has_subcommands() {
            let names = words.split_off(place + 1);
            words.extend(names.into_iter().filter(|name| name != "--help" && name != "-h"));
            break;
        }
        match command.find_subcommand(&words[place]) {
            Some(below) => command = below,
            None => break,
        }
    }
    words
}

/// Makes flags accept `-1` as a value, so that the error is about the range of the number. Otherwise clap reports `-1`
/// as an unknown flag and suggests `-- -1`, which would pass it as the name of a benchmark or file.
fn accept_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    let command = command.mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg });
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| command.mut_subcommand(name, accept_negative_numbers))
}

/// Runs the command and returns the exit status.
pub(crate) fn run(landau: Landau, words: &[String]) -> anyhow::Result<u8> {
    match landau.command {
        None => run::run(&run::Args::default(), words),
        Some(Command::Run(args)) => run::run(&args, words),
        Some(Command::List(args)) => list::run(&args),
        Some(Command::Doctor(args)) => doctor::run(&args),
        Some(Command::Tune(args)) => tune::run(&args, words),
        Some(Command::Inspect(args)) => inspect::run(&args),
        Some(Command::Lab(args)) => lab::run(&args, words),
        Some(Command::Explain(args)) => explain::run(&args, words),
        Some(Command::Load(args)) => load::run(&args, words),
        Some(Command::Mail(args)) => mail::run(&args),
        Some(Command::Pids(args)) => pids::run(&args),
        Some(Command::Queue(args)) => queue::run(&args),
        Some(Command::Show(args)) => show::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Predict(args)) => predict::run(&args),
        Some(Command::Check(args)) => check::run(&args, words),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::History(args)) => history::run(&args),
        Some(Command::Verify(args)) => verify::run(&args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Sink(args)) => sink::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::error::ErrorKind;

    /// Appends to `found` the lines before and after the options that exceed 100 columns, in the help of a command and
    /// of its subcommands.
    fn overlong(command: &clap::Command, found: &mut Vec<String>) {
        let before = [command.get_before_help(), command.get_before_long_help()];
        let after = [command.get_after_help(), command.get_after_long_help()];
        for text in before.into_iter().chain(after).flatten().map(ToString::to_string) {
            let lines = text.lines().filter(|line| line.chars().count() > 100);
            found.extend(lines.map(|line| format!("{}: {line}", command.get_name())));
        }
        command.get_subcommands().for_each(|command| overlong(command, found));
    }

    /// Guards against lines that clap wraps at 100 columns, which leaves one or two words on a separate line.
    #[test]
    fn help_texts_are_written_in_at_most_100_columns() {
        let mut found = Vec::new();
        overlong(&parser(), &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }

    /// `landau help --help` once failed with "unrecognized subcommand '--help'" and the tip to try `--help`.
    #[test]
    fn help_has_help_itself() {
        for words in ["landau help --help", "landau help -h", "landau lab help --help", "landau help lab --help"] {
            let words = words.split(' ').map(OsString::from).collect();
            let error = parser().try_get_matches_from(without_help_of_help(&parser(), words)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp);
        }
        let kept = ["landau", "run", "help", "--help"].map(OsString::from);
        assert_eq!(without_help_of_help(&parser(), kept.to_vec()), kept, "`help` is the name of a benchmark here");
    }
}
