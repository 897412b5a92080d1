//! `h2spec`, an HTTP/2 test suite in a separate program.

use super::Score;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Runs the suite. Returns the number of cases that passed, and the descriptions of those that failed.
pub(super) fn score(program: &Path, port: u16, is_tls: bool) -> Result<Score> {
    let mut command = Command::new(program);
    command.args(["--host", "127.0.0.1", "--port", &port.to_string(), "--timeout", "2"]);
    if is_tls {
        command.args(["--tls", "--insecure"]);
    }
    let output = command.output().with_context(|| format!("start {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let passed =
        passed(&text).with_context(|| format!("h2spec printed no result: {text}{}", output.stderr.escape_ascii()))?;
    ensure!(passed > 0, "h2spec passed nothing: {text}");
    Ok(Score { passed, failed: failed(&text) })
}

/// Parses the last line: `146 tests, 145 passed, 1 skipped, 0 failed`.
fn passed(text: &str) -> Option<usize> {
    let line = text.lines().rev().find(|line| line.contains(" tests, "))?;
    line.split(", ").find_map(|part| part.strip_suffix(" passed"))?.parse().ok()
}

/// Returns the descriptions of the failed cases without duplicates: the program repeats them at its end.
fn failed(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter_map(|line| line.strip_prefix('\u{d7}'))
        .map(|line| line.trim_start().to_owned())
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_read() {
        let text = "    \u{d7} 2: Sends invalid connection preface\n      -> The endpoint\n\n\
                    Failures: \n\n    \u{d7} 2: Sends invalid connection preface\n\n\
                    146 tests, 144 passed, 1 skipped, 1 failed\n";
        assert_eq!(passed(text), Some(144));
        assert_eq!(failed(text), ["2: Sends invalid connection preface"]);
        assert_eq!(passed("no route to host"), None);
    }
}
