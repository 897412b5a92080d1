//! More load than the server can serve.

use super::super::median::median;
use super::super::rivals::{CLIENT_PROCESSOR, Server};
use super::quota::{PERIOD, Quota};
use super::said;
use anyhow::{Context, Result, ensure};
use landau_sys::process::OwnedChild;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// The bound on the 99th percentile, in multiples of the time to answer one request per connection at the peak rate.
const ROUNDS_WAITED: f64 = 10.0;
/// The minimum goodput of ten times the optimal number of connections, as a share of the peak.
const GOODPUT: f64 = 0.9;
/// The minimum goodput at ten times the peak rate with fresh connections, as a share of the peak.
const FRESH_GOODPUT: f64 = 0.95;
/// The factor between the peak rate and the offered rate.
const FACTOR: f64 = 10.0;
/// How many times the peak and the overload are measured, alternately.
const ROUNDS: usize = 7;
/// The number of connections at which the rate is highest: as many as the accept queue holds. With 64 the server waits
/// for events between the requests, which costs it half as much again per answer (19 µs against 13 µs). The run is as
/// long as that of the overload, because it can contain the processor time of one period of the quota more.
const PEAK: &[&str] = &["-c", BACKLOG, "-d", "12s"];
/// After this time, the server has accepted what an overload left in its queue.
const REST: Duration = Duration::from_millis(500);
/// How many times few connections and ten times as many are measured, alternately.
const PAIRS: usize = 7;
/// The maximum processor use of the generator, all workers together. Above it, the generator limits the result.
const GENERATOR: f64 = 0.85;
/// The length of the accept queue.
pub(super) const BACKLOG: &str = "256";

/// One connection per request.
const FRESH: &[&str] = &["--per-connection", "1"];
/// A client gives up before TCP first repeats its SYN after one second (RFC 6298), so tens of thousands of clients can
/// attempt to connect per second; `landau load` looks for timeouts every 80 ms. With a timeout of one second the second
/// SYN arrived at the moment at which its client gave up: a tenth of the answers went to clients that had just closed.
/// The run is long, because what the server accepts at its end is no longer answered in time.
const OVERLOAD: &[&str] = &["-c", "32000", "--workers", "2", "--timeout", "800ms", "-d", "12s"];
/// The server's processor time per period. It is short, so that the generator can offer ten times the peak rate.
const QUOTA: Duration = Duration::from_micros(2500);
/// The gates that may fail under overload, because some clients cannot connect or get no answer. All others must pass.
const EXPECTED: &[&str] = &["rate", "connect", "errors", "overflow"];

/// Offers ten times the peak rate in an open loop. A quota limits the server to a small share of its processor, so
/// that the generator, on the other processor, can offer that much.
pub(super) fn tenfold(landau: &str, server: &Server) -> Result<bool> {
    match Quota::give(server.process(), QUOTA) {
        Ok(_quota) => offered(landau, server),
        Err(error) => {
            Ok(said(&format!("ten times the load was NOT offered: it requires root and cgroup v1; {error:#}"), false))
        }
    }
}

fn offered(landau: &str, server: &Server) -> Result<bool> {
    let _busy = Busy::keep()?;
    let (mut peaks, mut overloads, mut is_good) = (Vec::new(), Vec::new(), true);
    for _ in 0..ROUNDS {
        let peak = load(landau, server, &[FRESH, PEAK].concat())?;
        ensure!(peak.failed.is_empty(), "these gates failed before the overload: {}", peak.failed.join(" "));
        let rate = format!("{:.0}", peak.goodput * FACTOR);
        let found = load(landau, server, &[FRESH, OVERLOAD, &["--rate", &rate]].concat())?;
        is_good &= found.is_overload(peak.goodput * FACTOR);
        peaks.push(peak);
        overloads.push(found);
        std::thread::sleep(REST);
    }
    let of = |rounds: &[Found], figure: fn(&Found) -> f64| median(rounds.iter().map(figure).collect());
    let (peak, p99_ms) = (of(&peaks, |found| found.goodput), of(&overloads, |found| found.p99_ms));
    let share = median(overloads.iter().zip(&peaks).map(|(found, peak)| found.goodput / peak.goodput).collect());
    let words = format!(
        "goodput at about ten times the peak of {peak:.0}/s, one connection per request: ×{share:.2} (at least \
         {FRESH_GOODPUT})"
    );
    is_good &= said(&words, share >= FRESH_GOODPUT);
    let costs = [&peaks, &overloads].map(|rounds| of(rounds, |found| found.processor_us));
    println!(
        "     processor time of the server per answer: {:.1} µs at the peak, {:.1} µs under overload",
        costs[0], costs[1]
    );
    // A request on a connection that did not fit into the accept queue has not reached the server. TCP repeats it after
    // 0.2 and 0.6 s until the client's timeout, so the tail depends on that timeout and not on the server.
    let queue_ms = BACKLOG.parse::<f64>()? / peak * 1e3;
    println!(
        "     p99 of the requests sent, timeouts included: {p99_ms:.0} ms; {queue_ms:.0} ms of it in a full accept \
         queue, up to {} ms without processor time, the rest in TCP retransmissions",
        (2 * PERIOD).as_millis()
    );
    Ok(is_good)
}

/// A process in the idle scheduling class that keeps the generator's processor busy. If both processors share a core,
/// the server is a third slower while the generator is busy. The generator has ten times the work under overload, so
/// without this process only the overload would be slowed.
struct Busy(#[expect(dead_code, reason = "ends the process when dropped")] OwnedChild);

impl Busy {
    fn keep() -> Result<Self> {
        let mut command = Command::new("chrt");
        command.args(["-i", "0", "taskset", "-c", CLIENT_PROCESSOR, "sh", "-c", "while :; do :; done"]);
        Ok(Self(OwnedChild::spawn(&mut command).context("start chrt (Debian: apt-get install util-linux)")?))
    }
}

/// Measures ten times the optimal number of connections in a closed loop: each waits for its answer. With persistent
/// connections an open loop offers the same load, because the requests that are due wait in the generator. (Under a
/// quota it would not: a server that runs for 5 of every 100 ms finds the state of 640 connections uncached each time.)
pub(super) fn closed(landau: &str, server: &Server) -> Result<bool> {
    let (mut peaks, mut shares, mut tails) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let of = |connections: &str| load(landau, server, &["-c", connections, "-d", "1s"]);
        let (peak, overloaded) = (of("64")?, of("640")?);
        peaks.push(peak.goodput);
        shares.push(overloaded.goodput / peak.goodput);
        tails.push(overloaded.p99_ms);
    }
    let (peak, share, p99_ms) = (median(peaks), median(shares), median(tails));
    let words = format!("goodput of 640 connections against {peak:.0}/s of 64: ×{share:.2} (at least {GOODPUT})");
    let is_good = said(&words, share >= GOODPUT);
    let bound_ms = ROUNDS_WAITED * 640.0 / peak * 1e3;
    let words = format!("p99 of the requests sent, timeouts included: {p99_ms:.1} ms (at most {bound_ms:.0} ms)");
    Ok(is_good & said(&words, p99_ms <= bound_ms))
}

/// The results of a run of `landau load`.
struct Found {
    /// Answers with status 200 per second.
    goodput: f64,
    /// The server's processor time per such answer in microseconds.
    processor_us: f64,
    /// The median and the 99th percentile of the service time, in which a request that timed out has the timeout.
    p50_ms: f64,
    p99_ms: f64,
    /// Requests that were sent but not answered before the timeout.
    timeouts: u64,
    /// Requests and failed attempts to connect, per second.
    attempts: f64,
    /// Requests that were due in total.
    due: u64,
    seconds: f64,
    /// The generator's processor use, as a share of one processor.
    share: f64,
    /// The names of the gates that failed.
    failed: Vec<String>,
}

impl Found {
    /// Returns whether the server was overloaded and the measurement is valid.
    fn is_overload(&self, rate: f64) -> bool {
        let unexpected: Vec<&str> =
            self.failed.iter().map(String::as_str).filter(|gate| !EXPECTED.contains(gate)).collect();
        println!(
            "     {} requests due at {rate:.0}/s; {:.0}/s attempted in {:.1} s; {:.0}/s answered 200, p50 {:.0} ms, \
             p99 {:.0} ms; timeouts: {}; generator {:.0}% of a processor; failed gates: {}",
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
        let reason = if !unexpected.is_empty() {
            format!("unexpected failed gates: {}", unexpected.join(" "))
        } else if !self.failed.iter().any(|gate| gate == "rate") {
            "the generator kept its rate, so the server had too little to do".to_owned()
        } else if self.share > GENERATOR {
            format!("the generator used more than {:.0}% of its processor", GENERATOR * 100.0)
        } else {
            return true;
        };
        said(&format!("not a valid overload at {rate:.0}/s; {reason}"), false)
    }
}

fn load(landau: &str, server: &Server, words: &[&str]) -> Result<Found> {
    let url = format!("http://127.0.0.1:{}/f", server.port);
    let before_ns = server.processor_ns()?;
    let output = Command::new("taskset")
        .args(["-c", CLIENT_PROCESSOR, landau, "load", &url, "--json", "-q"])
        .args(words)
        .output()
        .context("start landau load")?;
    let answer: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("parse the output of landau load, which reported {}", output.stderr.escape_ascii()))?;
    let spent_ns = server.processor_ns()?.saturating_sub(before_ns);
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let seconds = number(&answer["elapsed_ns"]) / 1e9;
    ensure!(seconds > 0.0, "landau load reported an elapsed time of 0");
    let gates = answer["gates"].as_array().context("the output of landau load has no gates")?;
    let failed = gates.iter().filter(|gate| gate["state"] == "failed").filter_map(|gate| gate["name"].as_str());
    let failures = answer["failures"].as_object().context("the output of landau load has no failures")?;
    let unconnected: f64 =
        failures.iter().filter(|(kind, _)| kind.starts_with("connect_")).map(|(_, count)| number(count)).sum();
    let generator = &answer["generator"];
    Ok(Found {
        goodput: number(&answer["statuses"]["200"]) / seconds,
        processor_us: spent_ns as f64 / 1e3 / number(&answer["statuses"]["200"]).max(1.0),
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
