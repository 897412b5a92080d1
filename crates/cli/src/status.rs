//! Exit statuses: 0 done, 1 a check or gate failed, 2 could not run. A reader that goes away is success.

use std::io::Write;
use std::process::ExitCode;

/// Everything was done.
pub(crate) const DONE: u8 = 0;

/// It ran, and the answer is no: a check failed, a pass failed, the run was interrupted.
pub(crate) const FAILED: u8 = 1;

/// It could not run.
pub(crate) const COULD_NOT_RUN: u8 = 2;

/// A claim could not be asked at all, which ends a bisection: git takes a status below 128 for an answer.
pub(crate) const NO_ANSWER: u8 = 255;

/// What a command line that cannot be understood ends with.
pub(crate) fn of_usage(words: &[String]) -> u8 {
    let is_test = words.get(1..3).is_some_and(|two| two == ["lab", "test"]);
    if is_test { NO_ANSWER } else { COULD_NOT_RUN }
}

/// Tells why nothing was done, and the status for it. A closed pipe is no failure: `landau show x | head`.
pub(crate) fn of_failure(error: &anyhow::Error) -> ExitCode {
    let closed = error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    });
    if closed {
        return ExitCode::from(DONE);
    }
    // Nothing is left to do if standard error is closed too.
    let _ = writeln!(std::io::stderr(), "landau: {error:#}");
    ExitCode::from(COULD_NOT_RUN)
}

/// Prints to standard output and reports failure, which `println!` answers with a panic.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Tells something on standard error. If nobody listens any more, the work goes on all the same.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
