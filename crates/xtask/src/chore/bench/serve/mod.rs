//! `bench serve`: compares the processor time of our server per request and connection with that of the bare loop and
//! of other servers.
//!
//! The parts are: requests over HTTP/1.1 (`requests`), requests over HTTP/2 without and with TLS (`http2`), and the
//! memory of idle connections (`memory`). Every round measures all servers in turn, so that interference affects all of
//! them. The server runs on one processor and the load generator on the other. The result is the server's processor
//! time for each request.

mod http2;

use super::median::median;
use super::rivals::{self, Accept, Server};
use anyhow::{Context, Result, ensure};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// The maximum ratio of our cost to that of the loop that parses nothing.
const BARE_RATIO: f64 = 1.15;
/// The measurement of idle HTTP/1.1 connections.
const IDLE: Idle = Idle { what: "connection", count: 9_000, most_bytes: 128.0 };

/// A kind of load.
type Load = (&'static str, &'static str, &'static [&'static str], Rival);

/// The loads: name, file, arguments of the load generator, and the servers with which ours is compared.
const LOADS: [Load; 4] = [
    ("300 bytes, kept alive, 64 connections", "f", &["-c64"], Rival::Bare),
    (
        "300 bytes, a connection for each request, accepted with it",
        "f",
        &["-c16", "-H", "Connection: close"],
        Rival::Others,
    ),
    ("8 KB, kept alive, 64 connections", "f8k", &["-c64"], Rival::Others),
    ("300 bytes, one connection", "f", &["-c1"], Rival::Others),
];

/// The load with connections that are accepted before they send a request.
const ACCEPTED_AT_ONCE: Load =
    ("300 bytes, a connection for each request, accepted at once", "f", LOADS[1].2, Rival::Others);

/// The servers with which ours is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rival {
    /// The bare loop, and each of the other servers.
    Bare,
    /// The best of the other servers.
    Others,
    /// The best of the other servers, for information: ours need not be better.
    Shown,
}

/// Arguments of `bench serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Measure this many rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measure each server for this many seconds in a round
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// Do these parts only: requests, http2, memory
    #[arg(long, value_delimiter = ',', default_value = "requests,http2,memory")]
    parts: Vec<String>,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let folder = tempfile::tempdir().context("create a directory")?;
    let root = rivals::site(folder.path())?;
    let mut is_good = true;
    for part in &words.parts {
        is_good &= match part.as_str() {
            "requests" => requests(words, folder.path(), &root)?,
            "http2" => http2::run(words, folder.path(), &root)?,
            // Memory is measured in newly started servers.
            "memory" => {
                let mut servers = rivals::start(folder.path(), &root, Accept::AtOnce)?;
                servers.retain(|server| server.name != "bare");
                let is_small = IDLE.measure(&servers, |server| server.ask("/f"))?;
                drop(servers);
                is_small & http2::memory(folder.path(), &root)?
            }
            other => anyhow::bail!("--parts {other}: use requests, http2 or memory"),
        };
    }
    Ok(is_good)
}

/// Measures requests over HTTP/1.1.
fn requests(words: &Words, folder: &Path, root: &Path) -> Result<bool> {
    let mut is_good = true;
    for (accept, loads) in [(Accept::Deferred, &LOADS[..]), (Accept::AtOnce, &[ACCEPTED_AT_ONCE])] {
        let servers = rivals::start(folder, root, accept)?;
        for (name, file, arguments, rival) in loads {
            let cost = |server: &Server| requested_us(server, file, arguments, words.seconds);
            is_good &= load(words, &servers, name, *rival, cost)?;
        }
    }
    Ok(is_good)
}

/// Measures all servers with one load. Returns whether ours is within its limit.
fn load(
    words: &Words,
    servers: &[Server],
    name: &str,
    rival: Rival,
    cost_us: impl Fn(&Server) -> Result<f64>,
) -> Result<bool> {
    println!("{name}: processor time of the server per request, median of {} rounds", words.rounds);
    let servers: Vec<&Server> = servers.iter().filter(|server| rival == Rival::Bare || server.name != "bare").collect();
    let mut costs = vec![Vec::new(); servers.len()];
    for _ in 0..words.rounds {
        for (server, costs) in servers.iter().zip(&mut costs) {
            costs.push(cost_us(server)?);
        }
    }
    let cost = |name: &str| servers.iter().position(|one| one.name == name).map(|at| median(costs[at].clone()));
    let ours = cost("landau").context("landau was not started")?;
    let base = if rival == Rival::Bare { cost("bare") } else { None }.unwrap_or(ours);
    for (server, costs) in servers.iter().zip(&costs) {
        let value = median(costs.clone());
        println!("     {:9} {value:12.3} µs  ×{:.3}", server.name, value / base);
    }
    let others = || servers.iter().filter(|one| !one.is_ours() && one.name != "bare");
    let best = others().filter_map(|one| cost(one.name)).fold(f64::INFINITY, f64::min);
    if best.is_infinite() {
        println!("FAIL no other server is installed to compare with");
        return Ok(false);
    }
    let rounds_of = |name: &str| servers.iter().position(|one| one.name == name).map(|at| &costs[at]);
    let first = others().find(|one| cost(one.name) == Some(best));
    if let Some((first, (ours, theirs))) = first.zip(rounds_of("landau").zip(first.and_then(|one| rounds_of(one.name))))
    {
        let dearer = ours.iter().zip(theirs).filter(|(ours, theirs)| ours > theirs).count();
        println!("     landau cost more than {} in {dearer} of {} rounds", first.name, words.rounds);
    }
    if rival == Rival::Shown {
        return Ok(true);
    }
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

/// Returns the server's processor time for each request in microseconds, under `wrk`.
fn requested_us(server: &Server, file: &str, arguments: &[&str], seconds: u32) -> Result<f64> {
    let before = server.processor_ns()?;
    let url = format!("http://127.0.0.1:{}/{file}", server.port);
    let output = rivals::generated(&[&["wrk", "-t1", &format!("-d{seconds}")][..], arguments, &[&url]].concat())?;
    let spent = server.processor_ns()? - before;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(!text.contains("Non-2xx"), "{}: {text}", server.name);
    let line = text.lines().find(|line| line.contains("requests in")).context("wrk printed no result")?;
    let requests: u64 =
        line.split_whitespace().next().unwrap_or_default().parse().context("parse wrk's number of requests")?;
    Ok(spent as f64 / 1000.0 / requests as f64)
}

/// Connections that have each made a request and are idle.
struct Idle {
    /// The name of such a connection in the output.
    what: &'static str,
    /// The number of connections.
    count: usize,
    /// The maximum user memory per connection in our server, in bytes.
    most_bytes: f64,
}

impl Idle {
    /// Measures the user memory per connection in each server. Returns whether ours is within its limit. `ask` returns
    /// a connection that has made its request.
    fn measure(&self, servers: &[Server], ask: impl Fn(&Server) -> Result<TcpStream>) -> Result<bool> {
        let Self { what, count, most_bytes } = *self;
        println!("user memory of an idle {what} that made one request, of {count}");
        let mut ours = f64::NAN;
        for server in servers {
            let open = |count: usize| (0..count).map(|_| ask(server)).collect::<Result<Vec<TcpStream>>>();
            let _first = open(100)?;
            std::thread::sleep(Duration::from_millis(300));
            let before = server.private_bytes();
            let _many = open(count)?;
            std::thread::sleep(Duration::from_millis(300));
            let bytes = server.private_bytes().saturating_sub(before) as f64 / count as f64;
            println!("     {:9} {bytes:8.0} bytes", server.name);
            if server.name == "landau" {
                ours = bytes;
            }
        }
        let is_good = ours <= most_bytes;
        println!("{} landau: {ours:.0} bytes (at most {most_bytes:.0})", if is_good { "ok  " } else { "FAIL" });
        Ok(is_good)
    }
}
