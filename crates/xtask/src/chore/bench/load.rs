//! `bench load`: what a request costs our load generator, beside `wrk`, at each server that is installed here.
//!
//! Both keep 64 connections busy from one processor, with all their statistics; the server has the other. They take
//! turns within a round, and who is first changes from round to round. The figure is the processor time of the
//! generator, start and controller and all, for each answer.

use super::median::median;
use super::rivals::{self, Accept, CLIENT_PROCESSOR, Server};
use crate::workspace;
use anyhow::{Context, Result, ensure};
use landau_sys::process::children_time;
use serde_json::Value;
use std::process::Command;

/// At most so many times as dear as `wrk`.
const RATIO: f64 = 1.0;

/// Arguments of `bench load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Words {
    /// How many rounds
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Seconds for each generator in a round
    #[arg(long, default_value_t = 2)]
    seconds: u32,
}

/// What a generator spent and got.
#[derive(Debug, Clone, Copy)]
struct Spent {
    user_us: f64,
    system_us: f64,
    answers: f64,
}

impl Spent {
    fn each_us(&self) -> f64 {
        (self.user_us + self.system_us) / self.answers
    }
}

pub(crate) fn run(words: &Words) -> Result<bool> {
    let folder = tempfile::tempdir().context("make a folder")?;
    let root = rivals::site(folder.path())?;
    let servers = rivals::start(folder.path(), &root, Accept::Deferred)?;
    let landau = workspace::landau()?.display().to_string();
    let mut is_good = true;
    for server in servers.iter().filter(|server| server.name != "bare") {
        is_good &= against(words, server, &landau)?;
    }
    Ok(is_good)
}

/// Both at one server; whether ours is no dearer.
fn against(words: &Words, server: &Server, landau: &str) -> Result<bool> {
    println!("64 connections at {}: processor time of the generator per answer, {} rounds", server.name, words.rounds);
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
        let (user, system) = (of(|one| one.user_us / one.answers), of(|one| one.system_us / one.answers));
        let rate = of(|one| one.answers) / f64::from(words.seconds);
        let each = of(Spent::each_us);
        println!("     {name:9} {each:6.2} µs (user {user:.2}, system {system:.2}), {rate:.0} answers/s");
    }
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| ours.each_us() / theirs.each_us());
    let ratio = median(ratios.collect());
    let is_good = ratio <= RATIO;
    let word = if is_good { "ok  " } else { "FAIL" };
    println!("{word} landau against wrk: ×{ratio:.3}, median of pairs (at most ×{RATIO})");
    Ok(is_good)
}

/// Runs a generator on its processor; what it said, and what it spent.
fn spent(words: &[&str], answers: impl Fn(&str) -> Result<f64>) -> Result<Spent> {
    let before = children_time();
    let output = Command::new("taskset").args(["-c", CLIENT_PROCESSOR]).args(words).output();
    let output = output.with_context(|| format!("start {}", words[0]))?;
    let time = children_time().since(before);
    let said = String::from_utf8_lossy(&output.stdout);
    let answers = answers(&said).with_context(|| format!("{}: {said}{}", words[0], output.stderr.escape_ascii()))?;
    Ok(Spent { user_us: time.user_ns as f64 / 1e3, system_us: time.system_ns as f64 / 1e3, answers })
}

fn landau_load(landau: &str, server: &Server, seconds: u32) -> Result<Spent> {
    let (url, seconds) = (format!("http://127.0.0.1:{}/f", server.port), format!("{seconds}s"));
    // That the generator is the bottleneck is no fault here: with a quick server it must be.
    let words = [landau, "load", &url, "-c", "64", "-d", &seconds, "--waive", "saturated", "--json", "--quiet"];
    spent(&words, |said| {
        let said: Value = serde_json::from_str(said).context("read its answer")?;
        ensure!(said["failures"].as_object().is_none_or(serde_json::Map::is_empty), "requests failed");
        said["responses"].as_f64().context("it counts no answers")
    })
}

fn wrk(server: &Server, seconds: u32) -> Result<Spent> {
    let (url, seconds) = (format!("http://127.0.0.1:{}/f", server.port), format!("-d{seconds}"));
    spent(&["wrk", "-t1", "-c64", &seconds, "--latency", &url], |said| {
        ensure!(!said.contains("Non-2xx"), "requests failed");
        let line = said.lines().find(|line| line.contains("requests in")).context("no line `requests in`")?;
        line.split_whitespace().next().unwrap_or_default().parse().context("a number of requests")
    })
}
