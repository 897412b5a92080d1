//! `bench mail`: compares the cost of a message in `landau mail` with that in other senders and mail servers.
//!
//! It has three parts: the processor time of a message sent to the same sink, alternating with Postfix's `smtp-source`;
//! the same messages through the queues of Postfix, Exim, OpenSMTPD and `landau mail --relay`; and the run of the 2001
//! study, with the memory per recipient and as many connections as the limit on descriptors allows.

mod accounting;
mod engines;
mod senders;
mod study;

use crate::{mail_servers, workspace};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `bench mail`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Measure this many rounds of the senders
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measure this many rounds of the queues
    #[arg(long, default_value_t = 3)]
    queue_rounds: usize,
    /// Send this many messages in a round, and through each queue
    #[arg(long, default_value_t = 10_000)]
    messages: u64,
    /// Do these parts only: senders, engines, study
    #[arg(long, value_delimiter = ',', default_value = "senders,engines,study")]
    parts: Vec<String>,
}

/// The environment that all parts share.
struct Bench {
    /// `landau`, built as users build it.
    landau: PathBuf,
    /// A directory for files, removed at the end. It is on the disk of the workspace, so that syncs reach a real
    /// device.
    folder: tempfile::TempDir,
    /// The directory with the other mail servers, or the error why there is none.
    servers: Result<PathBuf>,
    /// The message.
    message: PathBuf,
}

impl Bench {
    fn command(&self) -> Command {
        Command::new(&self.landau)
    }

    /// Returns the path of a ledger that does not exist yet.
    fn ledger(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        // It may not exist.
        let _ = std::fs::remove_file(&path);
        path
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let folder = tempfile::tempdir_in(workspace::target()?).context("create a directory")?;
    let message = folder.path().join("message.eml");
    std::fs::write(&message, text()).context("write the message")?;
    let bench = Bench { landau: workspace::landau()?, folder, servers: mail_servers::prepare(), message };
    if let Err(error) = &bench.servers {
        println!("     without other mail servers: {error:#}");
    }
    let mut is_good = true;
    for part in &words.parts {
        is_good &= match part.as_str() {
            "senders" => senders::run(&bench, words.rounds, words.messages)?,
            "engines" => engines::run(&bench, words.queue_rounds, words.messages)?,
            "study" => study::run(&bench)?,
            other => anyhow::bail!("--parts {other}: use senders, engines or study"),
        };
    }
    Ok(is_good)
}

/// Returns a message of 2,000 bytes with LF line endings; `smtp-source` and `landau mail` add the CR.
fn text() -> String {
    let head = "From: sender@client.test\nTo: undisclosed-recipients:;\nDate: Sun, 22 Nov 2026 19:00:00 +0000\n\
                Message-ID: <bench@client.test>\nSubject: benchmark\n\n";
    let line = format!("{}\n", "x".repeat(70));
    let lines = (2_000 - head.len()) / line.len();
    let rest = 2_000 - head.len() - lines * line.len();
    format!("{head}{}{}\n", line.repeat(lines), "y".repeat(rest.saturating_sub(1)))
}

/// Prints and returns whether a value is within its limit.
fn said(what: &str, value: f64, limit: f64, unit: &str) -> bool {
    let is_good = value <= limit;
    println!("{} {what}: {value:.3}{unit} (at most {limit:.3}{unit})", if is_good { "ok  " } else { "FAIL" });
    is_good
}
