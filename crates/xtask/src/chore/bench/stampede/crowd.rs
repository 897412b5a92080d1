//! More than the server can serve.

use super::super::median::median;
use super::super::rivals::{CLIENT_PROCESSOR, Server};
use super::quota::{PERIOD, Quota};
use super::said;
use anyhow::{Context, Result, ensure};
use landau_sys::process::OwnedChild;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// A request waits no longer than it takes to answer all others so many times, at the peak's rate.
const ROUNDS_WAITED: f64 = 10.0;
/// Of the best that it serves, so much is left at ten times the load.
const GOODPUT: f64 = 0.9;
/// Ten times the load.
const TIMES: f64 = 10.0;
/// How often the peak and the stampede are measured, in turn.
const ROUNDS: usize = 3;
/// How often few connections and ten times as many are measured, in turn.
const PAIRS: usize = 7;
/// The share of its processor up to which the generator, all its workers together, is believed.
const GENERATOR: f64 = 0.85;
/// Connections that may wait to be accepted.
pub(super) const BACKLOG: &str = "256";

/// A connection for each request.
const FRESH: &[&str] = &["--per-connection", "1"];
/// Who is not let in gives up after a second, so that so many are on their way, and tens of thousands try each second.
const STAMPEDE: &[&str] = &["-c", "32000", "--workers", "2", "--timeout", "1s"];
/// The time that the server has in each period: so little that the generator can offer ten times as much.
const QUOTA: Duration = Duration::from_micros(2500);
/// The gates that may fail in a stampede: not all can connect, or be answered. All others must hold.
const EXPECTED: &[&str] = &["rate", "connect", "errors", "overflow"];

/// Ten times what the server can serve, as an open loop. It has only a small part of its processor, so that the
/// generator, which has all of the other, can offer that much.
pub(super) fn tenfold(landau: &str, server: &Server) -> Result<bool> {
    match Quota::give(server.process(), QUOTA) {
        Ok(_quota) => offered(landau, server),
        Err(error) => {
            Ok(said(&format!("ten times the load was NOT offered: it takes root and cgroup v1; {error:#}"), false))
        }
    }
}

fn offered(landau: &str, server: &Server) -> Result<bool> {
    let _busy = Busy::keep()?;
    let (mut peaks, mut shares, mut tails, mut is_good) = (Vec::new(), Vec::new(), Vec::new(), true);
    for _ in 0..ROUNDS {
        let peak = peak(landau, server)?;
        let rate = format!("{:.0}", peak * TIMES);
        let found = load(landau, server, &[FRESH, STAMPEDE, &["--rate", &rate, "-d", "4s"]].concat())?;
        is_good &= found.is_stampede(peak * TIMES);
        peaks.push(peak);
        shares.push(found.goodput / peak);
        tails.push(found.p99_ms);
    }
    let (peak, share, p99_ms) = (median(peaks), median(shares), median(tails));
    let words = format!("goodput at ten times {peak:.0}/s, a connection for each: ×{share:.2} (at least {GOODPUT})");
    is_good &= said(&words, share >= GOODPUT);
    // What met a full queue has no server yet: TCP tries again after 0.2, 0.6 and 1.4 s, for as long as the client
    // waits, so that this tail is the client's patience and says nothing of the server. What the queue holds is known.
    let queue_ms = BACKLOG.parse::<f64>()? / peak * 1e3;
    println!(
        "     what was answered took {p99_ms:.0} ms (p99); {queue_ms:.0} ms in a full queue, up to {} ms without \
         processor time, the rest TCP trying to get into the queue",
        (2 * PERIOD).as_millis()
    );
    Ok(is_good)
}

/// The generator's processor, kept busy at the lowest class: two processors may be one core's, and then the server is
/// slower by a third while the generator, which has ten times as much to do in the stampede, is busy. So it is at the
/// peak as well.
struct Busy(#[expect(dead_code, reason = "held until it is to end")] OwnedChild);

impl Busy {
    fn keep() -> Result<Self> {
        let mut command = Command::new("chrt");
        command.args(["-i", "0", "taskset", "-c", CLIENT_PROCESSOR, "sh", "-c", "while :; do :; done"]);
        Ok(Self(OwnedChild::spawn(&mut command).context("start chrt (Debian: apt-get install util-linux)")?))
    }
}

/// The most answers a second.
fn peak(landau: &str, server: &Server) -> Result<f64> {
    let mut best = 0.0_f64;
    for connections in ["64", "256"] {
        let found = load(landau, server, &[FRESH, &["-c", connections, "-d", "2s"]].concat())?;
        ensure!(found.failed.is_empty(), "these gates failed before there was a stampede: {}", found.failed.join(" "));
        best = best.max(found.goodput);
    }
    Ok(best)
}

/// Ten times the connections that it serves best with, each of which waits for its answer. On connections that stay, an
/// open loop is no other load: whatever else is due waits at the generator, where it is. (Under a quota it would be: a
/// server that is let run for 5 ms in each 100 meets 640 connections cold each time.)
pub(super) fn closed(landau: &str, server: &Server) -> Result<bool> {
    let (mut peaks, mut shares, mut tails) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let of = |connections: &str| load(landau, server, &["-c", connections, "-d", "1s"]);
        let (peak, crowded) = (of("64")?, of("640")?);
        peaks.push(peak.goodput);
        shares.push(crowded.goodput / peak.goodput);
        tails.push(crowded.p99_ms);
    }
    let (peak, share, p99_ms) = (median(peaks), median(shares), median(tails));
    let words = format!("goodput of 640 connections against {peak:.0}/s of 64: ×{share:.2} (at least {GOODPUT})");
    let is_good = said(&words, share >= GOODPUT);
    let bound_ms = ROUNDS_WAITED * 640.0 / peak * 1e3;
    let words = format!("p99 of what was answered meanwhile: {p99_ms:.1} ms (at most {bound_ms:.0} ms)");
    Ok(is_good & said(&words, p99_ms <= bound_ms))
}

/// What a run of `landau load` found.
struct Found {
    /// Answers with status 200 in a second.
    goodput: f64,
    /// The median of their service time, and the 99th percentile.
    p50_ms: f64,
    p99_ms: f64,
    /// Requests that were sent and not answered in time.
    timeouts: u64,
    /// Requests, and attempts to connect that came to nothing, in a second.
    attempts: f64,
    /// Requests that were due in all.
    due: u64,
    seconds: f64,
    /// The part of a processor that the generator used.
    share: f64,
    /// Gates that failed.
    failed: Vec<String>,
}

impl Found {
    /// Whether it was one, and a measurement.
    fn is_stampede(&self, rate: f64) -> bool {
        let unexpected: Vec<&str> =
            self.failed.iter().map(String::as_str).filter(|gate| !EXPECTED.contains(gate)).collect();
        println!(
            "     of {} requests at {rate:.0}/s, {:.0}/s were tried in {:.1} s, {:.0}/s answered 200, in {:.0} ms, p99 \
             {:.0} ms; sent in vain: {}; generator {:.0}% of a processor; gates that failed: {}",
            self.due,
            self.attempts,
            self.seconds,
            self.goodput,
            self.p50_ms,
            self.p99_ms,
            self.timeouts,
            self.share * 100.0,
            self.failed.join(" ")
        );
        let is_overload = self.failed.iter().any(|gate| gate == "rate");
        let words = format!("the generator was no match for {rate:.0}/s: {}", unexpected.join(" "));
        (is_overload && unexpected.is_empty() && self.share <= GENERATOR) || said(&words, false)
    }
}

fn load(landau: &str, server: &Server, words: &[&str]) -> Result<Found> {
    let url = format!("http://127.0.0.1:{}/f", server.port);
    let output = Command::new("taskset")
        .args(["-c", CLIENT_PROCESSOR, landau, "load", &url, "--json", "-q"])
        .args(words)
        .output()
        .context("start landau load")?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("landau load said {}", output.stderr.escape_ascii()))?;
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let seconds = number(&answer["elapsed_ns"]) / 1e9;
    ensure!(seconds > 0.0, "nothing was measured");
    let gates = answer["gates"].as_array().context("no gates")?;
    let failed = gates.iter().filter(|gate| gate["state"] == "failed").filter_map(|gate| gate["name"].as_str());
    let failures = answer["failures"].as_object().context("no failures")?;
    let unconnected: f64 =
        failures.iter().filter(|(kind, _)| kind.starts_with("connect_")).map(|(_, count)| number(count)).sum();
    let generator = &answer["generator"];
    Ok(Found {
        goodput: number(&answer["statuses"]["200"]) / seconds,
        p50_ms: number(&answer["phases"]["service"]["p50_ns"]) / 1e6,
        p99_ms: number(&answer["phases"]["service"]["p99_ns"]) / 1e6,
        timeouts: failures.get("timeout").and_then(Value::as_u64).unwrap_or(0),
        attempts: (number(&answer["requests"]) + unconnected) / seconds,
        due: answer["due"].as_u64().unwrap_or(0),
        seconds,
        share: (number(&generator["user_ns"]) + number(&generator["system_ns"])) / 1e9 / seconds,
        failed: failed.map(str::to_owned).collect(),
    })
}
