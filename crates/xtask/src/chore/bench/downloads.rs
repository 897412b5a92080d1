//! `bench downloads`: measures the processor time of a 100 MB download from our server, in both kinds, and from other
//! servers. It uses one and four connections, under each congestion control.
//!
//! It reports two figures, because neither alone is the cost. The kernel sends a part of a response in the server's
//! call, and another part when an acknowledgement arrives; on loopback the latter happens in the context of the client.
//! The shares vary from run to run with the same server. The processor time of the server alone therefore favours a
//! server that keeps the send buffer full. The sum over both processors contains all of the work, including the
//! client's, which is the same for all servers.
//!
//! On loopback a segment has up to 64 KiB, and BBR sets a timer for each unless its estimate of the bandwidth is high.
//! BBR counts segments and takes each of them for a full one, so a server that sends some smaller ones, as lighttpd
//! does, gets a higher estimate. Ours changes connections within the host to `reno` and is hardly paced: under BBR this
//! compares what the servers make of the system's choice. On 29 November 2026, a run of eleven rounds found these
//! processor times of a download in milliseconds (both processors):
//!
//! | | ours | multishot | lighttpd | nginx |
//! |---|--:|--:|--:|--:|
//! | BBR, one connection | 9.4 | 9.3 | 61.0 | 55.3 |
//! | BBR, four connections | 9.5 | 9.6 | 46.7 | 51.8 |
//! | cubic, one connection | 9.1 | 9.2 | 10.9 | 9.0 |
//! | cubic, four connections | 9.4 | 9.4 | 14.1 | 9.6 |
//!
//! On the machine of the morning of that day, BBR paced less: nginx took 27 to 32 ms, lighttpd 18 to 19 ms (13.6 and
//! 17.5 ms under cubic). Under cubic ours and nginx send the same segments with the same calls.

use super::median::median;
use super::rivals::{self, Accept, CLIENT_PROCESSOR, LARGE_BYTES, SERVER_PROCESSOR, Server};
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// The numbers of connections.
const CONNECTIONS: [u32; 2] = [1, 4];
/// How often the file is downloaded in a round, over all connections.
const DOWNLOADS: u32 = 32;
/// The maximum ratio of our cost on both processors to that of the best other server.
const RATIO: f64 = 1.0;

/// Arguments of `bench downloads`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Measure this many rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Measure under these congestion controls, each in a separate network namespace
    #[arg(long, value_delimiter = ',', default_value = "bbr,cubic")]
    congestion: Vec<String>,
    /// Measure in the network namespace of this process
    #[arg(long, hide = true)]
    is_inside: bool,
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    if words.is_inside {
        return measure(words);
    }
    let mut is_good = true;
    for congestion in &words.congestion {
        println!("{congestion}: processor time of a download of 100 MB, median of {} rounds", words.rounds);
        is_good &= in_namespace(congestion, words.rounds)?;
    }
    Ok(is_good)
}

/// Measures in a new network namespace, whose sockets use this congestion control.
fn in_namespace(congestion: &str, rounds: usize) -> Result<bool> {
    let name = "/proc/sys/net/ipv4/tcp_congestion_control";
    let script = format!("ip link set lo up && echo \"$0\" >{name} || exit 3; exec \"$@\"");
    let program = std::env::current_exe().context("find this program")?;
    let status = Command::new("unshare")
        .args(["--net", "sh", "-c", &script, congestion])
        .arg(program)
        .args(["bench", "downloads", "--is-inside", "--rounds", &rounds.to_string(), "--congestion", congestion])
        .status()
        .context("start unshare, which needs root")?;
    let allowed = "net.ipv4.tcp_allowed_congestion_control";
    ensure!(status.code() != Some(3), "a network namespace cannot use {congestion}: add it to the sysctl {allowed}");
    // Status 1 means that a figure is too high.
    ensure!(matches!(status.code(), Some(0 | 1)), "the measurement under {congestion} ended with {status}");
    Ok(status.success())
}

fn measure(words: &Words) -> Result<bool> {
    let folder = tempfile::tempdir().context("create a directory")?;
    let root = rivals::site(folder.path())?;
    let servers = rivals::start(folder.path(), &root, Accept::Deferred)?;
    let servers: Vec<&Server> = servers.iter().filter(|server| server.name != "bare").collect();
    let mut is_good = true;
    for connections in CONNECTIONS {
        let mut costs = vec![Vec::new(); servers.len()];
        for round in 0..words.rounds {
            // Each round begins with a different server: on a shared machine, a figure depends on when it was measured.
            for place in 0..servers.len() {
                let at = (round + place) % servers.len();
                costs[at].push(downloaded(servers[at], connections)?);
            }
        }
        is_good &= tell(connections, &servers, &costs);
    }
    Ok(is_good)
}

/// Processor time of a download in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Spent {
    /// On the server's processor.
    server: f64,
    /// On both processors.
    both: f64,
}

/// Prints a row for each server, and whether ours costs no more than the best of the others.
fn tell(connections: u32, servers: &[&Server], costs: &[Vec<Spent>]) -> bool {
    println!("{connections} at a time     server's processor    both");
    let medians: Vec<Spent> = costs
        .iter()
        .map(|costs| Spent {
            server: median(costs.iter().map(|spent| spent.server).collect()),
            both: median(costs.iter().map(|spent| spent.both).collect()),
        })
        .collect();
    for (server, spent) in servers.iter().zip(&medians) {
        println!("     {:9} {:12.2} ms {:12.2} ms", server.name, spent.server, spent.both);
    }
    let others = servers.iter().zip(&medians).filter(|(server, _)| !server.is_ours());
    let best = others.map(|(_, spent)| spent.both).fold(f64::INFINITY, f64::min);
    if best.is_infinite() {
        println!("FAIL no other server is installed to compare with");
        return false;
    }
    let mut is_good = true;
    for (ours, spent) in servers.iter().zip(&medians).filter(|(server, _)| server.is_ours()) {
        let ratio = spent.both / best;
        let word = if ratio <= RATIO { "ok  " } else { "FAIL" };
        println!("{word} {} against the best of the others: ×{ratio:.3} (at most ×{RATIO})", ours.name);
        is_good &= ratio <= RATIO;
    }
    is_good
}

/// Returns the processor time of a download, computed from the time in which the processors were not idle. Much of the
/// sending happens in interrupts, which are charged to the process that they interrupt. The client discards the data.
fn downloaded(server: &Server, connections: u32) -> Result<Spent> {
    let processors = [SERVER_PROCESSOR, CLIENT_PROCESSOR];
    let idle_now = || processors.iter().map(|processor| idle(processor)).collect::<Result<Vec<Duration>>>();
    let (began, before) = (Instant::now(), idle_now()?);
    std::thread::scope(|scope| {
        let takers: Vec<_> =
            (0..connections).map(|_| scope.spawn(|| download(server.port, DOWNLOADS / connections))).collect();
        takers.into_iter().try_for_each(|taker| taker.join().map_err(|_| anyhow::anyhow!("a download panicked"))?)
    })?;
    let elapsed = began.elapsed();
    let after = idle_now()?;
    let busy = |at: usize| elapsed.saturating_sub(after[at].saturating_sub(before[at])).as_secs_f64();
    let per_download = |seconds: f64| seconds * 1e3 / f64::from(DOWNLOADS);
    Ok(Spent { server: per_download(busy(0)), both: per_download(busy(0) + busy(1)) })
}

/// Returns the total time for which a processor has been idle.
fn idle(processor: &str) -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/stat").context("read /proc/stat")?;
    let name = format!("cpu{processor} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).context("no such processor in /proc/stat")?;
    // Idle and iowait, in hundredths of a second.
    let ticks = line.split_whitespace().skip(3).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(10 * ticks))
}

/// Downloads the file several times over one connection, on the generator's processor.
fn download(port: u16, times: u32) -> Result<()> {
    landau_sys::system::pin(&[CLIENT_PROCESSOR.parse()?])?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    for _ in 0..times {
        stream.write_all(b"GET /f100m HTTP/1.1\r\nHost: x\r\n\r\n")?;
        let mut head = Vec::new();
        let begun = loop {
            let mut buffer = [0; 2048];
            let got = stream.read(&mut buffer)?;
            ensure!(got > 0, "the connection ended in the head");
            head.extend_from_slice(&buffer[..got]);
            if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
                break head.len() - end - 4;
            }
        };
        ensure!(head.starts_with(b"HTTP/1.1 200"), "{}", head[..head.len().min(60)].escape_ascii());
        let mut left = LARGE_BYTES - begun;
        while left > 0 {
            let got = landau_sys::stream::discard(&stream, left)?;
            ensure!(got > 0, "the connection ended with {left} bytes missing");
            left -= got;
        }
    }
    Ok(())
}
