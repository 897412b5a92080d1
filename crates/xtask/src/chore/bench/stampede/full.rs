//! A full descriptor table.

use super::super::rivals::Server;
use super::said;
use anyhow::{Context, Result, ensure};
use landau_sys::system::descriptor_count;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// The address of the server's metrics.
pub(super) const METRICS: &str = "127.0.0.1:18097";

/// Descriptors that the server may open in addition to those it has.
const FREE: u64 = 40;
/// Connections that send nothing.
const SILENT: usize = 600;
/// Simultaneous requests that a recovered server must serve.
const VISITORS: usize = 20;
/// The maximum processor use while the table is full.
const USE: f64 = 0.05;
/// How long the table is full.
const TIME: Duration = Duration::from_secs(10);
/// The maximum time until full service after the connections have closed.
const RECOVERY: Duration = Duration::from_secs(1);

/// Opens more connections than the server has descriptors. The server normally reserves some descriptors to refuse
/// further clients; to take those too, its limit is lowered while it runs.
pub(super) fn full(server: &Server) -> Result<bool> {
    let process = server.process();
    let open =
        || descriptor_count(process).context("the kernel does not report the number of the server's descriptors");
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
    let words = format!("{at_first} of {limit} descriptors were in use; accepting paused {shortages} times");
    let mut is_good = said(&words, is_full && shortages > 0);
    let words = format!("processor use while the table is full: {use_percent:.2}% (at most {most_percent:.0}%)");
    is_good &= said(&words, share <= USE);
    let words =
        format!("{VISITORS} simultaneous requests are served again after {took_ms:.0} ms (at most {most_ms} ms)");
    is_good &= said(&words, took <= RECOVERY);
    Ok(is_good)
}

/// Closes the silent connections and returns the time until others are served.
fn recovered(server: &Server, silent: Vec<TcpStream>) -> Result<Duration> {
    drop(silent);
    let ended = Instant::now();
    loop {
        let visitors: Result<Vec<TcpStream>> = (0..VISITORS).map(|_| server.ask("/f")).collect();
        if visitors.is_ok() {
            return Ok(ended.elapsed());
        }
        ensure!(ended.elapsed() < Duration::from_secs(20), "the server does not recover: {visitors:?}");
    }
}

/// Returns how many times the server has paused accepting because it had no free descriptor.
fn shortages() -> Result<u64> {
    let mut stream = TcpStream::connect(METRICS)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let value = |line: &str| line.strip_prefix("landau_serve_descriptors_short_total ")?.trim().parse().ok();
    page.lines().find_map(value).context("the server's metrics lack landau_serve_descriptors_short_total")
}
