//! A table of descriptors that is full.

use super::super::rivals::Server;
use super::said;
use anyhow::{Context, Result, ensure};
use landau_sys::system::descriptor_count;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the server tells its counters.
pub(super) const METRICS: &str = "127.0.0.1:18097";

/// So many descriptors the server may have beyond those that it has.
const FREE: u64 = 40;
/// So many connect to it, and say nothing.
const SILENT: usize = 600;
/// So many are served at once when it serves again.
const VISITORS: usize = 20;
/// Processor use while the table is full.
const USE: f64 = 0.05;
/// How long it is full.
const TIME: Duration = Duration::from_secs(10);
/// Full service again after so long.
const RECOVERY: Duration = Duration::from_secs(1);

/// More connections than descriptors, for a while. The server keeps some descriptors free and refuses whoever comes
/// then; so that it has none, its limit is lowered behind its back.
pub(super) fn full(server: &Server) -> Result<bool> {
    let process = server.process();
    let open = || descriptor_count(process).context("how many descriptors the server has, the kernel does not say");
    let limit = open()? + FREE;
    let status = Command::new("prlimit")
        .args(["--pid", &process.to_string(), &format!("--nofile={limit}:")])
        .status()
        .context("start prlimit (Debian: apt-get install util-linux)")?;
    ensure!(status.success(), "prlimit failed");
    let before = shortages()?;
    let silent: Vec<TcpStream> =
        (0..SILENT).map(|_| TcpStream::connect(("127.0.0.1", server.port))).collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_millis(500));
    let (used_ns, began, at_first) = (server.processor_ns()?, Instant::now(), open()?);
    std::thread::sleep(TIME);
    let share = (server.processor_ns()? - used_ns) as f64 / began.elapsed().as_nanos() as f64;
    let is_full = [at_first, open()?].iter().all(|&count| count >= limit);
    let took = recovered(server, silent)?;
    let shortages = shortages()? - before;
    let (use_percent, most_percent) = (share * 100.0, USE * 100.0);
    let (took_ms, most_ms) = (took.as_secs_f64() * 1e3, RECOVERY.as_millis());
    let words = format!("{at_first} of {limit} descriptors were taken; accepting paused {shortages} times");
    let mut is_good = said(&words, is_full && shortages > 0);
    let words = format!("processor use while the table is full: {use_percent:.2}% (at most {most_percent:.0}%)");
    is_good &= said(&words, share <= USE);
    let words = format!("{VISITORS} at once are served again {took_ms:.0} ms after (at most {most_ms} ms)");
    is_good &= said(&words, took <= RECOVERY);
    Ok(is_good)
}

/// How long it takes, when the silent ones leave, until others are served.
fn recovered(server: &Server, silent: Vec<TcpStream>) -> Result<Duration> {
    drop(silent);
    let ended = Instant::now();
    loop {
        let visitors: Result<Vec<TcpStream>> = (0..VISITORS).map(|_| server.ask("/f")).collect();
        if visitors.is_ok() {
            return Ok(ended.elapsed());
        }
        ensure!(ended.elapsed() < Duration::from_secs(20), "it does not recover: {visitors:?}");
    }
}

/// How often the server has paused for want of descriptors.
fn shortages() -> Result<u64> {
    let mut stream = TcpStream::connect(METRICS)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let value = |line: &str| line.strip_prefix("landau_serve_descriptors_short_total ")?.trim().parse().ok();
    page.lines().find_map(value).context("the server's metrics do not tell of descriptors")
}
