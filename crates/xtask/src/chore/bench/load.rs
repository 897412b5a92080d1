//! `bench load`: compares the CPU time per response of `landau load` with that of `wrk`, for each server that is
//! installed here.
//!
//! Both keep 64 connections busy from one CPU, with all their statistics enabled; the server has the other CPU. They
//! alternate within a round, and the order alternates between rounds. The result is the CPU time of the generator per
//! response, including start-up and controller.

use super::median::median;
use super::rivals::{self, Accept, Server};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_sys::process::children_time;
use serde_json::Value;

/// The largest accepted ratio of CPU times, `landau load` to `wrk`.
const RATIO: f64 = 1.0;

/// Arguments of `bench load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// Measure this number of rounds
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Run each generator for this number of seconds per round
    #[arg(long, default_value_t = 2)]
    seconds: u32,
}

/// CPU time and responses of a generator.
#[derive(Debug, Clone, Copy)]
struct Spent {
    user_us: f64,
    system_us: f64,
    responses: f64,
}

impl Spent {
    fn us_per_response(&self) -> f64 {
        (self.user_us + self.system_us) / self.responses
    }
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let directory = tempfile::tempdir().context("create a directory")?;
    let root = rivals::site(directory.path())?;
    let servers = rivals::start(directory.path(), &root, Accept::Deferred)?;
    let landau = workspace::landau()?.display().to_string();
    let mut is_good = true;
    for server in servers.iter().filter(|server| !matches!(server.name, "multishot" | "bare")) {
        is_good &= compare(words, server, &landau)?;
    }
    Ok(is_good)
}

/// Compares both generators against one server. Returns whether the ratio is accepted.
fn compare(words: &Words, server: &Server, landau: &str) -> Result<bool> {
    println!("64 connections to {}: CPU time of the generator per response, {} rounds", server.name, words.rounds);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..words.rounds {
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                ours.push(landau_load(landau, server, words.seconds)?);
            } else {
                theirs.push(wrk(server, words.seconds)?);
            }
        }
    }
    for (name, all) in [("landau", &ours), ("wrk", &theirs)] {
        let of = |part: fn(&Spent) -> f64| median(all.iter().map(part).collect());
        let (user, system) = (of(|one| one.user_us / one.responses), of(|one| one.system_us / one.responses));
        let rate = of(|one| one.responses) / f64::from(words.seconds);
        let each = of(Spent::us_per_response);
        println!("     {name:9} {each:6.2} µs (user {user:.2}, system {system:.2}), {rate:.0} responses/s");
    }
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours.us_per_response() / theirs.us_per_response());
    let ratio = median(ratios.collect());
    let is_good = ratio <= RATIO;
    let word = if is_good { "ok  " } else { "FAIL" };
    println!("{word} landau / wrk: ×{ratio:.3}, median of pairs (limit: ×{RATIO})");
    Ok(is_good)
}

/// Runs a generator on its CPU. `responses` parses the number of responses from its output.
fn spent(words: &[&str], responses: impl Fn(&str) -> Result<f64>) -> Result<Spent> {
    let before = children_time();
    let output = rivals::generated(words)?;
    let time = children_time().since(before);
    let output_text = String::from_utf8_lossy(&output.stdout);
    let responses = responses(&output_text)
        .with_context(|| format!("{}: {output_text}{}", words[0], output.stderr.escape_ascii()))?;
    Ok(Spent { user_us: time.user_ns as f64 / 1e3, system_us: time.system_ns as f64 / 1e3, responses })
}

fn landau_load(landau: &str, server: &Server, seconds: u32) -> Result<Spent> {
    let (url, seconds) = (format!("http://127.0.0.1:{}/f", server.port), format!("{seconds}s"));
    // With a fast server the generator is necessarily the bottleneck.
    let words = [landau, "load", &url, "-c", "64", "-d", &seconds, "--waive", "saturated", "--json", "--quiet"];
    spent(&words, |text| {
        let result: Value = serde_json::from_str(text).context("read its output")?;
        ensure!(result["failures"].as_object().is_none_or(serde_json::Map::is_empty), "requests failed");
        result["responses"].as_f64().context("its output has no `responses`")
    })
}

fn wrk(server: &Server, seconds: u32) -> Result<Spent> {
    let (url, seconds) = (format!("http://127.0.0.1:{}/f", server.port), format!("-d{seconds}"));
    spent(&["wrk", "-t1", "-c64", &seconds, "--latency", &url], |text| {
        ensure!(!text.contains("Non-2xx"), "requests failed");
        let line =
            text.lines().find(|line| line.contains("requests in")).context("its output has no line `requests in`")?;
        line.split_whitespace().next().unwrap_or_default().parse().context("read the number of requests")
    })
}
