//! Processor time per message of two senders, `landau mail` and Postfix's `smtp-source`, to the same sink.
//!
//! They alternate within a round, in an order that rotates from round to round. The processor time is that of the whole
//! process, including its start.

use super::super::median::median;
use super::super::rivals::{CLIENT_PROCESSOR, SERVER_PROCESSOR};
use super::{Bench, said};
use crate::mail_servers::postfix_program;
use crate::sink::Sink;
use anyhow::{Context, Result, ensure};
use landau_sys::process::children_time;
use std::process::{Command, Stdio};

/// The number of concurrent connections.
const SESSIONS: &str = "100";

/// A comparison: its description, whether smtp-source keeps its connections, the additional arguments of `landau mail`,
/// and the maximum ratio of our cost to that of smtp-source.
const COMPARISONS: [(&str, bool, &[&str], f64); 3] = [
    ("connections are kept", true, &["--per-connection", "1000000"], 0.5),
    ("connections are kept, CHUNKING", true, &["--per-connection", "1000000", "--chunking"], 1.0 / 3.0),
    ("a connection for each message", false, &["--per-connection", "1"], 0.8),
];

pub(super) fn run(bench: &Bench, rounds: usize, messages: u64) -> Result<bool> {
    let Ok(servers) = &bench.servers else { return Ok(false) };
    let mut landau = Command::new("taskset");
    landau.args(["-c", SERVER_PROCESSOR]).arg(&bench.landau);
    let mut sink = Sink::start(&mut landau, &["sink", "smtp", "--listen", "127.0.0.1:0"])?;
    let target = format!("127.0.0.1:{}", sink.port);
    let count = messages.to_string();
    println!(
        "processor time of the sender per message, {messages} messages of 2,000 bytes over {SESSIONS} connections, \
         median of {rounds} rounds"
    );
    let mut is_good = true;
    for (what, is_kept, more, limit) in COMPARISONS {
        let theirs = || -> Result<Command> {
            let mut command = postfix_program(servers, "smtp-source")?;
            command.args(if is_kept { &["-d"][..] } else { &[] });
            command.args(["-s", SESSIONS, "-m", &count, "-f", "sender@client.test", "-t", "u@d1.example"]);
            command.arg("-F").arg(&bench.message).arg(&target);
            Ok(command)
        };
        let ours = || -> Result<Command> {
            let mut command = bench.command();
            command.args(["mail", "--recipients", &count, "--domains", "100", "--via", &target]);
            command.args(["--from", "sender@client.test", "--sessions", SESSIONS, "--initial", SESSIONS]);
            command.arg("--message").arg(&bench.message).arg("--ledger").arg(bench.ledger("senders"));
            command.arg("--quiet").args(more);
            Ok(command)
        };
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let command = if which == 0 { theirs()? } else { ours()? };
                costs[which].push(spent_us(&mut sink, &command, messages)?);
            }
        }
        let [theirs, ours] = costs.map(median);
        println!("     {what}: smtp-source {theirs:.2} µs, landau mail {ours:.2} µs");
        is_good &= said(&format!("{what}: landau against smtp-source"), ours / theirs, limit, "");
    }
    Ok(is_good)
}

/// Runs a sender on its processor; returns the processor time per message in microseconds.
fn spent_us(sink: &mut Sink, sender: &Command, messages: u64) -> Result<f64> {
    let mut command = Command::new("taskset");
    command.args(["-c", CLIENT_PROCESSOR]).arg(sender.get_program()).args(sender.get_args());
    command.envs(sender.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (before, counted) = (children_time(), sink.count("messages")?);
    let output = command.stdin(Stdio::null()).output().context("start a sender")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{} failed: {text}", sender.get_program().display());
    let spent = children_time().since(before);
    let arrived = sink.count("messages")? - counted;
    ensure!(arrived == messages, "{} sent {arrived} of {messages} messages: {text}", sender.get_program().display());
    Ok(spent.total_ns() as f64 / 1e3 / messages as f64)
}
