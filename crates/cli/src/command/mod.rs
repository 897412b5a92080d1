//! The commands, one file each. What stands between the markers is generated: `cargo xtask registry`.

use clap::{Parser, Subcommand};

// registry:begin
mod explain;
mod generate;
mod lab;
mod list;
mod load;
mod report;
mod run;
mod serve;
mod show;
mod verify;
// registry:end

pub(crate) use run::finish;

/// Measures how the cost of an operating system's calls grows as their objects pile up, and names the law.
///
/// Without a command, landau runs the quick study and leaves a record and a page.
#[derive(Debug, Parser)]
#[command(name = "landau", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Landau {
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "Examples:
  landau                          the quick study: a record, a page and a summary
  landau run bind --passes 9      one benchmark, nine times
  landau show FILE                the verdicts of a record
  landau report FILE -o page.html the page of a record

Exit status: 0 done, 1 a check failed or the run was interrupted, 2 could not run.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure: run benchmarks, write a record and a page
    Run(run::Args),
    /// Show what can be measured here, and what cannot and why
    List(list::Args),
    /// Measure under other kernels
    Lab(lab::Args),
    /// Name the kernel functions that a benchmark's calls spend their instructions in
    Explain(explain::Args),
    /// Make load on a server: closed and open loops, and crowds of idle connections
    Load(load::Args),
    /// Show the verdicts of a record as a table; of several side by side
    Show(show::Args),
    /// Draw one self-contained page, of one record or of several over one another
    Report(report::Args),
    /// Recompute every figure of a record or page, and name the first line that was altered
    Verify(verify::Args),
    /// Serve the files below a folder
    Serve(serve::Args),
    /// Write the manual page, shell completions or the reference of all options
    Generate(generate::Args),
}

/// Carries out what was typed; the exit status.
pub(crate) fn run(landau: Landau, words: &[String]) -> anyhow::Result<u8> {
    match landau.command {
        None => run::run(&run::Args::default(), words),
        Some(Command::Run(args)) => run::run(&args, words),
        Some(Command::List(args)) => list::run(&args),
        Some(Command::Lab(args)) => lab::run(&args, words),
        Some(Command::Explain(args)) => explain::run(&args, words),
        Some(Command::Load(args)) => load::run(&args, words),
        Some(Command::Show(args)) => show::run(&args),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Verify(args)) => verify::run(&args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
    }
}
