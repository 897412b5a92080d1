//! Sends the same messages through the queues of several mail servers to the same sink.
//!
//! `landau mail` submits the messages to each server over 20 connections, and the server relays them. The chore
//! measures the time from the first connection to the last message at the sink, and the processor time of all processes
//! of the server. Each server writes its queue to the same disk, with its own defaults for syncing; all of them sync a
//! message before they acknowledge it. The servers alternate within a round, in an order that rotates from round to
//! round. Each begins with an empty queue.
//!
//! OpenSMTPD sends 20 messages per second and is idle in between, even if all its delays between connections are 0. It
//! uses one connection, and sends the final dot in a separate segment, which Nagle's algorithm holds back until the
//! text is acknowledged. Linux delays that acknowledgement by 40 ms, for every receiver.

use super::super::median::median;
use super::Bench;
use super::accounting::Accounting;
use crate::mail_servers::{MailServer, SERVERS, refusal};
use crate::sink::Sink;
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The maximum time for the messages to arrive; OpenSMTPD needs 500 s for 10,000 messages.
const LONGEST: Duration = Duration::from_secs(1_200);

/// The name of our server.
const OURS: &str = "landau";

/// The throughput and the cost of a server's queue.
#[derive(Debug, Clone, Copy)]
struct Spent {
    per_second: f64,
    cpu_us: f64,
}

pub(super) fn run(bench: &Bench, rounds: usize, messages: u64) -> Result<bool> {
    let Ok(packages) = &bench.servers else { return Ok(false) };
    if let Some(reason) = refusal(&packages.join(SERVERS[0].0), &bench.path().join("private"))? {
        println!("FAIL mail servers cannot run here: {reason}");
        return Ok(false);
    }
    println!("{messages} messages of 2,000 bytes through a queue to the same sink, median of {rounds} rounds");
    let names: Vec<&str> = [OURS].into_iter().chain(SERVERS.iter().map(|(name, _)| *name)).collect();
    let mut all: Vec<Vec<Spent>> = vec![Vec::new(); names.len()];
    for round in 0..rounds {
        for turn in 0..names.len() {
            let which = (round + turn) % names.len();
            match one(bench, names[which], round, messages) {
                Ok(spent) => all[which].push(spent),
                Err(error) => println!("FAIL {}: {error:#}", names[which]),
            }
        }
    }
    let middle = |of: &[Spent]| {
        (of.len() == rounds).then(|| Spent {
            per_second: median(of.iter().map(|spent| spent.per_second).collect()),
            cpu_us: median(of.iter().map(|spent| spent.cpu_us).collect()),
        })
    };
    let medians: Vec<Option<Spent>> = all.iter().map(|of| middle(of)).collect();
    let mut is_good = true;
    for (name, spent) in names.iter().zip(&medians) {
        let (Some(ours), Some(spent)) = (medians[0], spent) else {
            is_good = false;
            continue;
        };
        let Spent { per_second, cpu_us } = *spent;
        let (rate, cpu) = (ours.per_second / per_second, ours.cpu_us / cpu_us);
        println!(
            "     {name:10} {per_second:8.0} messages/s {cpu_us:10.1} µs of processor time per message; \
             {OURS} ×{rate:.1} and ×{cpu:.3}"
        );
        is_good &= rate >= 1.0 && cpu <= 1.0;
    }
    println!("{} landau is faster than each of them, with less processor time", if is_good { "ok  " } else { "FAIL" });
    Ok(is_good)
}

/// Sends the messages through a server.
fn one(bench: &Bench, name: &str, round: usize, messages: u64) -> Result<Spent> {
    let sink = Sink::start(&mut bench.command(), &["sink", "smtp", "--listen", "127.0.0.1:0"])?;
    let shared = bench.path().join(format!("{name}-{round}"));
    if name == OURS {
        return relay(bench, &shared, sink, messages);
    }
    let Ok(packages) = &bench.servers else { bail!("there are no other mail servers") };
    let server = MailServer::start(&packages.join(name), name, &shared, Some(sink.port))?;
    pass_on(bench, server.child.id(), server.port, sink, messages).with_context(|| end_of(&server.log()))
}

/// Sends the messages through `landau mail --relay`.
fn relay(bench: &Bench, queue: &Path, sink: Sink, messages: u64) -> Result<Spent> {
    let (queue, via) = (queue.display().to_string(), format!("127.0.0.1:{}", sink.port));
    let words = ["mail", "--relay", "--listen", "127.0.0.1:0", "--sync", "always", "--queue", &queue, "--via", &via];
    let relay = Sink::start(&mut bench.command(), &words)?;
    pass_on(bench, relay.process(), relay.port, sink, messages)
}

/// Returns the end of a log.
fn end_of(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// Submits the messages to a server, and waits until all of them have reached the sink.
fn pass_on(bench: &Bench, process: u32, port: u16, mut sink: Sink, messages: u64) -> Result<Spent> {
    let accounting = Accounting::of(process)?;
    let (began, before) = (Instant::now(), accounting.nanoseconds()?);
    let mut command = bench.command();
    command.args(["mail", "--recipients", &messages.to_string(), "--domains", "100", "--sync", "never"]);
    command.args(["--from", "sender@client.test", "--helo", "client.test", "--sessions", "20", "--initial", "20"]);
    command.args(["--retry-after", "1s", "--attempts", "100", "--per-connection", "100", "--quiet"]);
    command.args(["--via", &format!("127.0.0.1:{port}"), "--message"]).arg(&bench.message);
    let output = command.arg("--ledger").arg(bench.ledger("engines")).stdin(Stdio::null()).output();
    let output = output.context("start landau mail")?;
    if !output.status.success() {
        bail!("the server did not accept all messages: {}", String::from_utf8_lossy(&output.stdout));
    }
    loop {
        let arrived = sink.count("messages")?;
        ensure!(arrived <= messages, "{arrived} messages arrived instead of {messages}");
        if arrived == messages {
            break;
        }
        ensure!(began.elapsed() < LONGEST, "{arrived} of {messages} messages arrived within {} s", LONGEST.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    let (elapsed, spent_ns) = (began.elapsed(), accounting.nanoseconds()? - before);
    Ok(Spent { per_second: messages as f64 / elapsed.as_secs_f64(), cpu_us: spent_ns as f64 / 1e3 / messages as f64 })
}
