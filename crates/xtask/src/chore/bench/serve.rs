//! `bench serve`: what a request and a connection cost our server, beside the bare loop and the servers of others.
//!
//! Every round asks all servers in turn, so that a busy moment meets all of them; the server runs on one processor and
//! the generator on the other. The figure is the server's processor time per request.

use super::median::median;
use super::rivals::{self, CLIENT_PROCESSOR, Server};
use anyhow::{Context, Result, ensure};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// At most so much dearer than the loop that parses nothing.
const BARE_RATIO: f64 = 1.15;
/// At most so many bytes of user memory for an idle connection.
const IDLE_BYTES: f64 = 128.0;
/// So many idle connections are opened.
const IDLE_COUNT: usize = 9_000;

/// What is asked for: name, file, arguments of the generator, and against whom: at most so many times as dear as the
/// bare loop, or as the best of the others.
const LOADS: [(&str, &str, &[&str], Rival); 5] = [
    ("300 bytes, kept alive, 64 connections", "f", &["-c64"], Rival::Bare),
    ("300 bytes, a connection for each request", "f", &["-c16", "-H", "Connection: close"], Rival::Others),
    ("8 KB, kept alive, 64 connections", "f8k", &["-c64"], Rival::Others),
    ("300 bytes, one connection", "f", &["-c1"], Rival::Others),
    ("100 MB, two connections", "f100m", &["-c2", "--timeout", "30"], Rival::Others),
];

/// What ours is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rival {
    /// The bare loop, and each of the others.
    Bare,
    /// The best of the others.
    Others,
}

/// Arguments of `bench serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// How many rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds for each server in a round
    #[arg(long, default_value_t = 2)]
    seconds: u32,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let root = rivals::site(folder.path())?;
    let servers = rivals::start(folder.path(), &root)?;
    let mut is_good = true;
    for (name, file, arguments, rival) in LOADS {
        is_good &= load(words, &servers, name, file, arguments, rival)?;
    }
    drop(servers);
    // Memory is asked of servers that have done nothing else.
    is_good &= memory(&rivals::start(folder.path(), &root)?)?;
    Ok(is_good)
}

/// One kind of load on all servers; whether ours is as cheap as it must be.
fn load(words: &Words, servers: &[Server], name: &str, file: &str, arguments: &[&str], rival: Rival) -> Result<bool> {
    println!("{name}: processor time of the server per request, median of {} rounds", words.rounds);
    let servers: Vec<&Server> = servers.iter().filter(|server| rival == Rival::Bare || server.name != "bare").collect();
    let mut costs = vec![Vec::new(); servers.len()];
    for _ in 0..words.rounds {
        for (server, costs) in servers.iter().zip(&mut costs) {
            // A large file takes longer to come to an even flow.
            let seconds = if file == "f100m" { 3 * words.seconds } else { words.seconds };
            costs.push(cost_us(server, file, arguments, seconds)?);
        }
    }
    let cost = |name: &str| servers.iter().position(|one| one.name == name).map(|at| median(costs[at].clone()));
    let ours = cost("landau").context("landau was not started")?;
    let base = if rival == Rival::Bare { cost("bare") } else { None }.unwrap_or(ours);
    for (server, costs) in servers.iter().zip(&costs) {
        let value = median(costs.clone());
        println!("     {:9} {value:12.3} µs  ×{:.3}", server.name, value / base);
    }
    let others = servers.iter().filter(|one| !matches!(one.name, "landau" | "bare"));
    let best = others.filter_map(|one| cost(one.name)).fold(f64::INFINITY, f64::min);
    let mut is_good = said("the best of the others", ours / best, 1.0);
    if let (Rival::Bare, Some(bare)) = (rival, cost("bare")) {
        is_good &= said("the bare loop", ours / bare, BARE_RATIO);
    }
    Ok(is_good)
}

fn said(whom: &str, ratio: f64, limit: f64) -> bool {
    let is_good = ratio <= limit;
    println!("{} landau against {whom}: ×{ratio:.3} (at most ×{limit})", if is_good { "ok  " } else { "FAIL" });
    is_good
}

/// Processor time of the server per request in microseconds, under `wrk`.
fn cost_us(server: &Server, file: &str, arguments: &[&str], seconds: u32) -> Result<f64> {
    let before = server.processor_ns()?;
    let output = Command::new("taskset")
        .args(["-c", CLIENT_PROCESSOR, "wrk", "-t1", &format!("-d{seconds}")])
        .args(arguments)
        .arg(format!("http://127.0.0.1:{}/{file}", server.port))
        .output()
        .context("start wrk (Debian: apt-get install wrk)")?;
    let spent = server.processor_ns()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(!text.contains("Non-2xx"), "{}: {text}", server.name);
    let line = text.lines().find(|line| line.contains("requests in")).context("wrk says nothing")?;
    let requests: u64 = line.split_whitespace().next().unwrap_or_default().parse().context("wrk's requests")?;
    // A file that takes longer than the round is counted by the bytes that came.
    let count = if requests >= 20 { requests as f64 } else { megabytes(line)? / 100.0 };
    Ok(spent as f64 / 1000.0 / count)
}

/// `3 requests in 2.00s, 372.12MB read`: the megabytes (of 2^20).
fn megabytes(line: &str) -> Result<f64> {
    let word = line.rsplit(", ").next().and_then(|rest| rest.split_whitespace().next()).context("wrk's bytes")?;
    let (number, unit) = word.split_at(word.len().saturating_sub(2));
    let factor = match unit {
        "GB" => 1024.0,
        "MB" => 1.0,
        _ => 0.0,
    };
    Ok(number.parse::<f64>().context("wrk's bytes")? * factor * 1.048_576)
}

/// User memory for each of many idle connections.
fn memory(servers: &[Server]) -> Result<bool> {
    println!("user memory of an idle connection that made one request, of {IDLE_COUNT}");
    landau_sys::limits::raise(landau_sys::limits::Resource::Descriptors).context("raise the limit of descriptors")?;
    let mut ours = f64::NAN;
    for server in servers.iter().filter(|server| server.name != "bare") {
        let open = |count: usize| (0..count).map(|_| server.ask("/f")).collect::<Result<Vec<TcpStream>>>();
        let _first = open(100)?;
        std::thread::sleep(Duration::from_millis(300));
        let before = server.private_bytes();
        let _many = open(IDLE_COUNT)?;
        std::thread::sleep(Duration::from_millis(300));
        let bytes = (server.private_bytes() - before) as f64 / IDLE_COUNT as f64;
        println!("     {:9} {bytes:8.0} bytes", server.name);
        if server.name == "landau" {
            ours = bytes;
        }
    }
    let is_good = ours <= IDLE_BYTES;
    println!("{} landau: {ours:.0} bytes (at most {IDLE_BYTES:.0})", if is_good { "ok  " } else { "FAIL" });
    Ok(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_read() {
        assert!((megabytes("3 requests in 2.00s, 100.00MB read").unwrap() - 104.8576).abs() < 1e-9);
        assert!((megabytes("3 requests in 2.00s, 2.00GB read").unwrap() - 2_147.483_648).abs() < 1e-6);
        assert!(megabytes("nothing").is_err());
    }
}
