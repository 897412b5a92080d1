//! `bench stampede`: what our server does when too many come, too slowly, or more than there are descriptors for.

use super::median::median;
use super::rivals::{self, CLIENT_PROCESSOR, Server};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// Of the best that it serves, so much is left at ten times the load.
const GOODPUT: f64 = 0.9;
/// With all the slow ones there, the others wait at most so many times as long.
const SLOWDOWN: f64 = 1.2;
/// Clients that send their heads slowly, and as many that read slowly.
const SLOW_COUNT: usize = 5_000;
/// How often the visitor goes to each of two servers.
const ROUNDS: usize = 9;
/// Processor use while the table of descriptors is full.
const FULL_USE: f64 = 0.05;
/// How long it is full.
const FULL: Duration = Duration::from_secs(10);
/// Full service again after so long.
const RECOVERY: Duration = Duration::from_secs(1);

/// Arguments of `bench stampede`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {}

pub(crate) fn run(_: &Words) -> Result<bool> {
    landau_sys::limits::raise(landau_sys::limits::Resource::Descriptors).context("raise the limit of descriptors")?;
    let folder = tempfile::tempdir().context("make a folder")?;
    let root = rivals::site(folder.path())?.display().to_string();
    let landau = workspace::landau()?.display().to_string();
    let serve = |port: u16, more: &[&str]| {
        let address = format!("127.0.0.1:{port}");
        let words = [&[&landau, "serve", &root, "--listen", &address][..], more].concat();
        rivals::started("landau", port, &words)
    };
    let mut is_good = crowd(&landau, &serve(18091, &[])?)?;
    let patient = ["--head-timeout", "600", "--send-timeout", "600"];
    is_good &= slow(&serve(18092, &patient)?, &serve(18094, &patient)?)?;
    let limited = format!("ulimit -n 300; exec {landau} serve {root} --listen 127.0.0.1:18093 --idle-timeout 600");
    is_good &= full(&rivals::started("landau", 18093, &["sh", "-c", &limited])?)?;
    Ok(is_good)
}

fn said(what: &str, is_good: bool) -> bool {
    println!("{} {what}", if is_good { "ok  " } else { "FAIL" });
    is_good
}

/// Ten times the connections that it serves best with.
fn crowd(landau: &str, server: &Server) -> Result<bool> {
    let (peak, _) = goodput(landau, server, 64)?;
    let (crowded, p99_ms) = goodput(landau, server, 640)?;
    let share = crowded / peak;
    let words =
        format!("goodput of 640 connections: {crowded:.0}/s of {peak:.0}/s at 64, ×{share:.2} (at least {GOODPUT})");
    println!("     latency of what was served in the crowd: p99 {p99_ms:.1} ms");
    Ok(said(&words, share >= GOODPUT))
}

/// Answers a second, and the 99th percentile of their latency in milliseconds: the median of three runs.
fn goodput(landau: &str, server: &Server, connections: u32) -> Result<(f64, f64)> {
    let (mut rates, mut tails) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let url = format!("http://127.0.0.1:{}/f", server.port);
        let output = Command::new("taskset")
            .args([
                "-c",
                CLIENT_PROCESSOR,
                landau,
                "load",
                &url,
                "-c",
                &connections.to_string(),
                "-d",
                "2s",
                "--json",
                "-q",
            ])
            .output()
            .context("start landau load")?;
        let answer: Value = serde_json::from_slice(&output.stdout).context("read what landau load says")?;
        rates.push(answer["answers_per_second"].as_f64().context("no rate")?);
        tails.push(answer["phases"]["service"]["p99_ns"].as_f64().context("no latency")? / 1e6);
    }
    Ok((median(rates), median(tails)))
}

/// The median time that one who does all right waits, in microseconds.
fn visit_us(server: &Server) -> Result<f64> {
    let mut stream = server.ask("/f")?;
    let mut buffer = [0; 4096];
    let mut times = Vec::new();
    for _ in 0..3_000 {
        let began = Instant::now();
        stream.write_all(b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n")?;
        ensure!(stream.read(&mut buffer)? > 0, "the server ended the visitor's connection");
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

/// Clients that never finish their heads, and clients that do not read what they asked for; a visitor goes in turn to
/// the server that has them and to one that has not.
fn slow(server: &Server, other: &Server) -> Result<bool> {
    let mut slow = Vec::with_capacity(2 * SLOW_COUNT);
    for _ in 0..SLOW_COUNT {
        let mut head = TcpStream::connect(("127.0.0.1", server.port))?;
        head.write_all(b"GET /f HTTP/1.1\r\nHost: x\r\n")?;
        let mut reader = TcpStream::connect(("127.0.0.1", server.port))?;
        reader.write_all(b"GET /f100m HTTP/1.1\r\nHost: x\r\n\r\n")?;
        slow.extend([head, reader]);
    }
    let (mut during, mut alone) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // They do something all the time: a line of a head, a kilobyte read.
        for pair in slow.chunks_exact_mut(2).skip(round).step_by(ROUNDS) {
            let [head, reader] = pair else { continue };
            head.write_all(b"X: y\r\n")?;
            let mut buffer = [0; 1024];
            ensure!(reader.read(&mut buffer)? > 0, "a slow reader was dropped");
        }
        alone.push(visit_us(other)?);
        during.push(visit_us(server)?);
    }
    let (during, alone) = (median(during), median(alone));
    let words = format!(
        "a visitor among {SLOW_COUNT} slow heads and {SLOW_COUNT} slow readers waits {during:.1} µs, \
         alone {alone:.1} µs: ×{:.2} (at most {SLOWDOWN})",
        during / alone
    );
    Ok(said(&words, during / alone <= SLOWDOWN))
}

/// More connections than descriptors, for a while.
fn full(server: &Server) -> Result<bool> {
    let crowd: Vec<TcpStream> =
        (0..600).map(|_| TcpStream::connect(("127.0.0.1", server.port))).collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_millis(500));
    let (before, began) = (server.processor_ns()?, Instant::now());
    while began.elapsed() < FULL {
        std::thread::sleep(Duration::from_millis(100));
    }
    let share = (server.processor_ns()? - before) as f64 / began.elapsed().as_nanos() as f64;
    let mut is_good = said(
        &format!("processor use while the table is full: {:.2}% (at most {:.0}%)", share * 100.0, FULL_USE * 100.0),
        share <= FULL_USE,
    );
    drop(crowd);
    let ended = Instant::now();
    while server.ask("/f").is_err() {
        ensure!(ended.elapsed() < Duration::from_secs(20), "it does not recover");
    }
    let took = ended.elapsed();
    is_good &= said(
        &format!(
            "served again {:.0} ms after (at most {:.0} ms)",
            took.as_secs_f64() * 1e3,
            RECOVERY.as_secs_f64() * 1e3
        ),
        took <= RECOVERY,
    );
    Ok(is_good)
}
