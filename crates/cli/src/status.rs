//! Exit statuses and output. All output passes through [`visible`], so that no untrusted text can control the terminal.
//!
//! Statuses: 0 success, 1 a check failed, 2 the command could not run. A closed pipe is a success, but
//! does not change the status of a command whose status is its answer.

use crate::terminal::{has_color, visible};
use anyhow::Context;
use std::io::Write;
use std::process::ExitCode;

/// The command succeeded.
pub(crate) const DONE: u8 = 0;

/// The command ran, and a check or pass failed or the run was interrupted.
pub(crate) const FAILED: u8 = 1;

/// The command could not run.
pub(crate) const COULD_NOT_RUN: u8 = 2;

/// `landau lab test` could not test at all. git aborts a bisection at a status of 128 or more.
pub(crate) const NO_ANSWER: u8 = 255;

/// Returns the status for a command line that does not parse.
pub(crate) fn of_usage(words: &[String]) -> u8 {
    let is_test = words.get(1..3).is_some_and(|two| two == ["lab", "test"]);
    if is_test { NO_ANSWER } else { COULD_NOT_RUN }
}

/// Prints the error and returns its status. A closed pipe is a success: `landau show x | head`.
pub(crate) fn of_failure(error: &anyhow::Error) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::from(DONE);
    }
    // If standard error is closed too, only the exit status reports the failure.
    tell(&format!("landau: {error:#}"));
    ExitCode::from(COULD_NOT_RUN)
}

/// Returns whether the reader of standard output has closed it.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Prints the text of an answer. Returns `status`, which also expresses the answer, even if the reader has closed the
/// pipe.
pub(crate) fn answer(text: &str, status: u8) -> anyhow::Result<u8> {
    if_read(print(text)).map(|()| status)
}

/// Treats a closed pipe as success: it changes neither the exit status nor the messages on standard error.
pub(crate) fn if_read(written: anyhow::Result<()>) -> anyhow::Result<()> {
    written.or_else(|error| if is_closed_pipe(&error) { Ok(()) } else { Err(error) })
}

/// Prints to standard output. Unlike `println!`, it returns an error instead of panicking.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let text = visible(text, has_color(&std::io::stdout()));
    let mut out = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written =
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(end.as_bytes())).and_then(|()| out.flush());
    written.context("write to standard output")
}

/// Prints a line to standard error in one call, because several processes may share it. A failure is ignored: a closed
/// terminal must not end a run.
pub(crate) fn tell(text: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n", visible(text, false)).as_bytes());
}

/// Prints the error about a command line, or the requested help.
pub(crate) fn of_parser(error: &clap::Error) -> anyhow::Result<()> {
    // Help contains only this program's own text, so clap prints it in the terminal's styles.
    if !error.use_stderr() {
        return Ok(error.print()?);
    }
    let is_styled = has_color(&std::io::stderr());
    let text = error.render();
    let text = if is_styled { text.ansi().to_string() } else { text.to_string() };
    Ok(std::io::stderr().write_all(visible(&text, is_styled).as_bytes())?)
}
