//! `landau queue`: lists the queue of a relay, and holds, releases, deletes or flushes its messages.

use crate::status;
use crate::terminal::visible;
use anyhow::Context;
use clap::ValueEnum;
use landau_mail::relay::{Action, Condition, Queued, Request, ask};
use landau_report::quantity::{bytes, count, duration};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Maximum number of recipients printed for a message; `--json` prints all.
const PRINTED_RECIPIENTS: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ActionWord {
    /// Print the messages
    List,
    /// Hold messages until they are released, also across restarts of the relay
    Hold,
    /// Release held messages
    Release,
    /// Delete messages without a report to their senders
    Delete,
    /// Try deferred messages now
    Flush,
}

impl ActionWord {
    const fn action(self) -> Action {
        match self {
            Self::List => Action::List,
            Self::Hold => Action::Hold,
            Self::Release => Action::Release,
            Self::Delete => Action::Delete,
            Self::Flush => Action::Flush,
        }
    }

    const fn past(self) -> &'static str {
        match self {
            Self::List => "in the queue",
            Self::Hold => "held",
            Self::Release => "released",
            Self::Delete => "deleted",
            Self::Flush => "due now",
        }
    }
}

const AFTER_HELP: &str =
    "Each message has an identifier, which is in the reply to its sender and in its Received field.

The command asks the relay that uses the queue. If no relay is running, the command reads and
changes the files itself.

Examples:
  landau queue /var/spool/landau                      list the queue
  landau queue /var/spool/landau hold 6A6F4C9D000003  keep a message from being sent
  landau queue /var/spool/landau flush --all          try everything now

Exit status: 0 success, 1 an identifier was not found, 2 could not run.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Directory of the queue: --queue of landau mail
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Action to perform
    #[arg(value_enum, default_value = "list")]
    action: ActionWord,
    /// Identifiers of messages, in hexadecimal
    #[arg(value_name = "ID", value_parser = identifier, conflicts_with = "all")]
    ids: Vec<u64>,
    /// Select all messages; list does so by default
    #[arg(long)]
    all: bool,
    /// Print messages as JSON, one a line
    #[arg(long)]
    json: bool,
}

fn identifier(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| "must be hexadecimal, as `landau queue DIR` prints it".to_owned())
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let is_list = args.action == ActionWord::List;
    anyhow::ensure!(is_list || args.all || !args.ids.is_empty(), "specify the identifiers of messages, or use --all");
    let request = Request::new(args.action.action(), args.ids.iter().copied().collect());
    // Each message is printed when it arrives: a queue can hold more messages than fit in memory.
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut print = |message: Queued| {
        let text = if args.json { serde_json::to_string(&message)? } else { describe(&message) };
        writeln!(out, "{}", visible(&text, false))
    };
    let asked = ask(&args.directory, &request, &mut print, &mut status::tell);
    // Flushed before an error is printed.
    let flushed = out.flush().context("write to standard output");
    drop(out);
    let (found, changed) = asked?;
    status::if_read(flushed)?;
    let code = if request.ids.len() as u64 <= found { status::DONE } else { status::FAILED };
    if args.json {
        return Ok(code);
    }
    let noun = if changed == 1 { "message" } else { "messages" };
    status::answer(&format!("{} {noun} {}", count(changed as f64), args.action.past()), code)
}

fn describe(message: &Queued) -> String {
    let Queued { id, condition, accepted_ms, bytes: size, from, to, due_in_ms, reason } = message;
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let age = duration(now_ms.saturating_sub(*accepted_ms) as f64 * 1e6);
    let condition = match (condition, due_in_ms) {
        (Condition::New, _) => "new".to_owned(),
        (Condition::Active, _) => "active".to_owned(),
        (Condition::Held, _) => "held".to_owned(),
        (Condition::Deferred, None) => "deferred".to_owned(),
        (Condition::Deferred, Some(ms)) => format!("deferred, next attempt in {}", duration(*ms as f64 * 1e6)),
    };
    let mut lines = vec![format!("{id}  {}  age {age}  from <{}>  {condition}", bytes(*size), printable(from))];
    lines.extend(reason.iter().map(|reason| format!("    ({})", printable(reason))));
    lines.extend(to.iter().take(PRINTED_RECIPIENTS).map(|address| format!("    <{}>", printable(address))));
    if to.len() > PRINTED_RECIPIENTS {
        lines.push(format!("    and {} more", to.len() - PRINTED_RECIPIENTS));
    }
    lines.join("\n")
}

/// Escapes the characters of an untrusted text that could affect the terminal.
fn printable(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, one| {
        match one {
            '"' | '\'' | '\\' => shown.push(one),
            _ => shown.extend(one.escape_debug()),
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_do_not_control_the_terminal() {
        assert_eq!(printable("\"a'b\\\"@b\u{fc}.test"), "\"a'b\\\"@b\u{fc}.test");
        assert_eq!(printable("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
    }
}
