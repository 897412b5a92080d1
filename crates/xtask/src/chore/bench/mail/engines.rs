//! The same messages through the queues of several mail servers to the same sink.
//!
//! `landau mail` hands each server the messages over 20 connections, and the server sends them on. Counted are the time
//! from the first connection to the last message at the sink, and the processor time of all the server's processes, in
//! hundredths of a second. Each server writes its queue to the same disk, with its own defaults for syncing: all of
//! them sync a message before they acknowledge it.

use super::Bench;
use super::sink::Sink;
use crate::mail_servers::{MailServer, SERVERS};
use anyhow::{Context, Result, bail, ensure};
use landau_sys::process::{OwnedChild, terminate};
use landau_sys::system::process_tree;
use std::fs;
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The port of the first server; each has its own.
const FIRST_PORT: u16 = 18_251;

/// How long the messages may take to arrive.
const LONGEST: Duration = Duration::from_secs(600);

/// What the queue of a server cost.
struct Spent {
    per_second: f64,
    cpu_us: f64,
}

impl Spent {
    fn text(&self) -> String {
        format!("{:8.0} messages/s {:10.1} µs of processor time per message", self.per_second, self.cpu_us)
    }
}

pub(super) fn run(bench: &Bench, messages: u64) -> Result<bool> {
    println!("{messages} messages of 2,000 bytes through a queue to the same sink");
    let ours = relay(bench, messages);
    match &ours {
        Ok(ours) => println!("     {:10} {}", "landau", ours.text()),
        Err(error) => println!("FAIL landau: {error:#}"),
    }
    let Ok(servers) = &bench.servers else { return Ok(false) };
    let mut is_good = ours.is_ok();
    for ((name, _), port) in SERVERS.iter().zip(FIRST_PORT..) {
        let mut sink = Sink::start(&mut bench.command(), &["smtp", "--listen", "127.0.0.1:0"])?;
        let server = MailServer::start(servers, name, port, sink.port, &bench.path().join(name))?;
        let theirs = pass_on(bench, server.process(), port, &mut sink, messages)
            .with_context(|| log(&bench.path().join(name).join("log")))?;
        let Ok(ours) = &ours else {
            println!("     {name:10} {}", theirs.text());
            continue;
        };
        let (rate, cpu) = (ours.per_second / theirs.per_second, ours.cpu_us / theirs.cpu_us);
        println!("     {name:10} {}; landau ×{rate:.1} and ×{cpu:.3}", theirs.text());
        is_good &= rate >= 1.0 && cpu <= 1.0;
    }
    println!("{} landau is faster than each of them, with less processor time", if is_good { "ok  " } else { "FAIL" });
    Ok(is_good)
}

/// Returns the end of a log.
fn log(path: &std::path::Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Sends the messages through `landau mail --relay`.
fn relay(bench: &Bench, messages: u64) -> Result<Spent> {
    let mut sink = Sink::start(&mut bench.command(), &["smtp", "--listen", "127.0.0.1:0"])?;
    let port = FIRST_PORT - 1;
    let mut command = bench.command();
    command.args(["mail", "--relay", "--listen", &format!("127.0.0.1:{port}"), "--queue"]);
    command.arg(bench.path().join("queue")).args(["--via", &format!("127.0.0.1:{}", sink.port), "--sync", "always"]);
    let log = fs::File::create(bench.path().join("relay.log")).context("create a log")?;
    command.stdin(Stdio::null()).stdout(log.try_clone().context("copy a descriptor")?).stderr(log);
    let mut child = OwnedChild::spawn(&mut command).context("start the relay")?;
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(
            child.try_wait()?.is_none() && began.elapsed() < LONGEST,
            "{}",
            self::log(&bench.path().join("relay.log"))
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let spent = pass_on(bench, child.id(), port, &mut sink, messages)?;
    terminate(child.id())?;
    child.wait().context("wait for the relay")?;
    Ok(spent)
}

/// Hands a server the messages, and waits until all of them are at the sink.
fn pass_on(bench: &Bench, process: u32, port: u16, sink: &mut Sink, messages: u64) -> Result<Spent> {
    let (began, before) = (Instant::now(), ticks(process)?);
    let mut command = bench.command();
    command.args(["mail", "--recipients", &messages.to_string(), "--domains", "100", "--sync", "never"]);
    command.args(["--from", "sender@client.test", "--helo", "client.test", "--sessions", "20", "--initial", "20"]);
    command.args(["--retry-after", "1s", "--attempts", "100", "--per-connection", "100", "--quiet"]);
    command.args(["--via", &format!("127.0.0.1:{port}"), "--message"]).arg(&bench.message);
    let output = command.arg("--ledger").arg(bench.ledger("engines")).stdin(Stdio::null()).output();
    let output = output.context("start landau mail")?;
    if !output.status.success() {
        bail!("the server did not take all messages: {}", String::from_utf8_lossy(&output.stdout));
    }
    while sink.count("messages")? < messages {
        ensure!(began.elapsed() < LONGEST, "{} of {messages} messages arrived", sink.count("messages")?);
        std::thread::sleep(Duration::from_millis(20));
    }
    let (elapsed, ticks) = (began.elapsed(), ticks(process)? - before);
    let arrived = sink.count("messages")?;
    ensure!(arrived == messages, "{arrived} messages arrived instead of {messages}");
    Ok(Spent { per_second: messages as f64 / elapsed.as_secs_f64(), cpu_us: ticks as f64 * 1e4 / messages as f64 })
}

/// Returns the processor time of a tree of processes, those that ended included, in hundredths of a second.
fn ticks(process: u32) -> Result<u64> {
    let mut sum = 0;
    for pid in process_tree(process) {
        // A process may end meanwhile; its parent has its time.
        let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name, in parentheses, may contain spaces.
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        // utime, stime, cutime, cstime: fields 14 to 17, counted from 1.
        sum += rest.split_whitespace().skip(11).take(4).map(|field| field.parse().unwrap_or(0)).sum::<u64>();
    }
    ensure!(sum > 0 || process_tree(process).len() > 1, "the server has ended");
    Ok(sum)
}
