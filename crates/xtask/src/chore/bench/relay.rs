//! `bench relay`: measures the messages per second through `landau mail --relay`, with and without a sync before each
//! acknowledgement.
//!
//! `landau mail` sends messages of 2,000 bytes over 100 connections to the relay, which delivers them to
//! `landau sink smtp`. The chore counts the messages that the relay acknowledges per second, and those that arrive,
//! from the first connection to the last message. The policies alternate within a round, in an order that rotates from
//! round to round. The queue is on the disk of the workspace, because a sync in memory costs nothing.

use super::median::median;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_sys::process::{OwnedChild, terminate};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Arguments of `cargo xtask bench relay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Runs with each policy
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Messages of a run
    #[arg(long, default_value_t = 10_000)]
    messages: u64,
    /// Measure this program instead of a release build
    #[arg(long)]
    landau: Option<PathBuf>,
}

/// The values of `--sync`.
const POLICIES: [&str; 3] = ["always", "interval", "never"];

/// The maximum time for the messages to arrive.
const LONGEST: Duration = Duration::from_secs(600);

/// A sink or relay with its counters. Dropping it ends the process.
struct Receiver {
    child: OwnedChild,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Receiver {
    fn start(command: &mut Command) -> Result<Self> {
        let command = command.args(["--listen", "127.0.0.1:0", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(command).context("start a receiver")?;
        let mut output = BufReader::new(child.stdout.take().context("a receiver without standard output")?);
        let ready = line(&mut output)?;
        let address = ready["listening"][0]["address"].as_str();
        let address = address.with_context(|| format!("a receiver printed no address: {ready}"))?.to_owned();
        Ok(Self { child, output, address })
    }

    /// Returns the current counters.
    fn counters(&mut self) -> Result<Value> {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-USR1", &pid]).status().context("start kill")?;
        ensure!(status.success(), "a receiver has ended");
        line(&mut self.output)
    }

    fn end(mut self) -> Result<()> {
        terminate(self.child.id())?;
        self.child.wait().context("wait for a receiver")?;
        Ok(())
    }
}

fn line(output: &mut BufReader<ChildStdout>) -> Result<Value> {
    let mut line = String::new();
    output.read_line(&mut line).context("read from a receiver")?;
    serde_json::from_str(&line).with_context(|| format!("a receiver printed {line:?}"))
}

/// The throughput of a run.
struct Reached {
    accepted_per_second: f64,
    delivered_per_second: f64,
    /// The mean number of messages that were written together.
    per_commit: f64,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let landau = words.landau.clone().map_or_else(workspace::landau, Ok)?;
    let folder = tempfile::tempdir_in(workspace::target()?).context("create a directory")?;
    let message = folder.path().join("message.eml");
    let text = format!("Subject: benchmark\n\n{}", format!("{}\n", "x".repeat(70)).repeat(28));
    std::fs::write(&message, text).context("write the message")?;
    println!("{} messages of 2,000 bytes over 100 connections, median of {} rounds", words.messages, words.rounds);
    let mut runs: [Vec<Reached>; 3] = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..words.rounds {
        for turn in 0..POLICIES.len() {
            let which = (round + turn) % POLICIES.len();
            let reached = once(&landau, folder.path(), &message, POLICIES[which], words.messages);
            runs[which].push(reached.with_context(|| format!("--sync {}", POLICIES[which]))?);
        }
    }
    for (policy, runs) in POLICIES.iter().zip(runs) {
        let of = |value: fn(&Reached) -> f64| median(runs.iter().map(value).collect());
        println!(
            "--sync {policy:8} {:8.0} acknowledged/s {:8.0} delivered/s, {:5.1} messages written together",
            of(|one| one.accepted_per_second),
            of(|one| one.delivered_per_second),
            of(|one| one.per_commit)
        );
    }
    Ok(true)
}

/// Sends the messages through a relay with an empty queue.
fn once(landau: &Path, folder: &Path, message: &Path, sync: &str, messages: u64) -> Result<Reached> {
    let mut sink = Receiver::start(Command::new(landau).args(["sink", "smtp"]))?;
    let room = tempfile::tempdir_in(folder).context("make a folder for the queue")?;
    let mut command = Command::new(landau);
    command.args(["mail", "--relay", "--via", &sink.address, "--sync", sync, "--sessions", "100", "--initial", "100"]);
    let mut relay = Receiver::start(command.arg("--queue").arg(room.path().join("queue")))?;
    let began = Instant::now();
    let mut command = Command::new(landau);
    command.args(["mail", "--recipients", &messages.to_string(), "--domains", "100", "--from", "sender@client.test"]);
    command.args(["--sessions", "100", "--initial", "100", "--per-connection", "1000000", "--sync", "never", "--json"]);
    command.args(["--via", &relay.address, "--message"]).arg(message).arg("--ledger").arg(room.path().join("ledger"));
    let output = command.stdin(Stdio::null()).output().context("start landau mail")?;
    ensure!(output.status.success(), "not all messages were accepted: {}", String::from_utf8_lossy(&output.stderr));
    let sent: Value = serde_json::from_slice(&output.stdout).context("read the result of landau mail")?;
    loop {
        let arrived = sink.counters()?["messages"].as_u64().unwrap_or_default();
        ensure!(arrived <= messages, "{arrived} messages arrived instead of {messages}");
        if arrived == messages {
            break;
        }
        ensure!(began.elapsed() < LONGEST, "{arrived} of {messages} messages arrived");
        std::thread::sleep(Duration::from_millis(5));
    }
    let delivered_per_second = messages as f64 / began.elapsed().as_secs_f64();
    let commits = relay.counters()?["commits"].as_u64().unwrap_or_default().max(1);
    relay.end()?;
    sink.end()?;
    Ok(Reached {
        accepted_per_second: sent["per_second"].as_f64().unwrap_or(f64::NAN),
        delivered_per_second,
        per_commit: messages as f64 / commits as f64,
    })
}
