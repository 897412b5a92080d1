//! The run of the 2001 study: 200,000 recipients in 9,113 domains, up to RSET, with a local name server and local
//! sinks. Also measures the memory per recipient, and opens as many connections as the limit on descriptors allows.

use super::{Bench, said};
use crate::sink::Sink;
use anyhow::{Context, Result, ensure};
use landau_sys::limits::{Resource, get, raise};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The maximum duration of the run, in seconds.
const SECONDS: f64 = 15.0;
/// The maximum memory per recipient, in bytes.
const RECIPIENT_BYTES: f64 = 200.0;
/// Descriptors that the engine reserves for purposes other than connections.
const OTHERS: u64 = 32;

/// The result of a run of `landau mail`, and its largest resident set in bytes.
struct Ran {
    outcome: Value,
    resident_bytes: f64,
}

impl Ran {
    fn number(&self, pointer: &str) -> f64 {
        self.outcome.pointer(pointer).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }
}

pub(super) fn run(bench: &Bench) -> Result<bool> {
    let mut is_good = seed(bench)?;
    is_good &= memory(bench)?;
    is_good &= connections(bench)?;
    Ok(is_good)
}

/// Measures the run itself.
fn seed(bench: &Bench) -> Result<bool> {
    let dns = Sink::start(&mut bench.command(), &["sink", "dns", "--listen", "127.0.0.1:0"])?;
    let smtp = Sink::start(&mut bench.command(), &["sink", "smtp", "--listen", "127.0.0.0/8:0"])?;
    let mut command = bench.command();
    command.args(["mail", "--recipients", "200000", "--domains", "9113", "--mode", "rset", "--active", "200000"]);
    command.args(["--sessions", "1000", "--name-server", &format!("127.0.0.1:{}", dns.port)]);
    command.args(["--smtp-port", &smtp.port.to_string()]);
    let ran = measured(bench, &mut command)?;
    let (done, seconds) = (ran.number("/recipients/done"), ran.number("/elapsed_ns") / 1e9);
    ensure!(done.to_bits() == 200_000_f64.to_bits(), "{done} of 200,000 recipients are done: {}", ran.outcome);
    println!(
        "200,000 recipients in {} domains, rset, through a name server and sinks: {:.0}/s over {} connections, {:.1} \
         µs of processor time each",
        ran.number("/domain_count"),
        ran.number("/per_second"),
        ran.number("/connections"),
        ran.number("/cpu_ns_each") / 1e3
    );
    Ok(said("the run of the 2001 study", seconds, SECONDS, " s"))
}

/// Measures how much more memory 200,000 recipients need than 1,000.
fn memory(bench: &Bench) -> Result<bool> {
    let sink = Sink::start(&mut bench.command(), &["sink", "smtp", "--listen", "127.0.0.1:0"])?;
    let resident = |active: &str| -> Result<f64> {
        let mut command = bench.command();
        command.args(["mail", "--recipients", "200000", "--domains", "9113", "--mode", "rset", "--active", active]);
        command.args(["--via", &format!("127.0.0.1:{}", sink.port), "--sessions", "100", "--initial", "100"]);
        Ok(measured(bench, &mut command)?.resident_bytes)
    };
    let (few, many) = (resident("1000")?, resident("200000")?);
    Ok(said("memory of a recipient", (many - few) / 199_000.0, RECIPIENT_BYTES, " bytes"))
}

/// Opens as many connections as this process may have descriptors, all at the same time.
fn connections(bench: &Bench) -> Result<bool> {
    raise(Resource::Descriptors).context("raise the limit of descriptors")?;
    let limit = get(Resource::Descriptors).context("read the limit of descriptors")?.0 - OTHERS;
    // Late replies keep every connection busy until all connections are open.
    let profile = bench.path().join("late.toml");
    fs::write(&profile, "[default]\nlatency = { mail = \"3s\" }\n").context("write the profile")?;
    let profile = profile.display().to_string();
    let mut sink =
        Sink::start(&mut bench.command(), &["sink", "smtp", "--listen", "127.0.0.1:0", "--profile", &profile])?;
    let sessions = limit.to_string();
    let mut command = bench.command();
    command.args(["mail", "--recipients", &(2 * limit).to_string(), "--domains", "9113", "--mode", "rset"]);
    command.args(["--active", "200000", "--sessions", &sessions, "--initial", &sessions]);
    command.args(["--via", &format!("127.0.0.1:{}", sink.port)]);
    let ran = measured(bench, &mut command)?;
    let (open, done) = (ran.number("/most_open"), ran.number("/recipients/done"));
    let lost = ran.outcome["lost_connections"].as_array().map_or(usize::MAX, Vec::len);
    println!("     {open} connections at a time, {done} recipients done, {lost} reasons for lost connections");
    // The sink may accept slightly fewer; the others wait in its accept queue.
    let capacity = sink.count("connections")?;
    let is_good = open >= (limit - 64) as f64 && done.to_bits() == ((2 * limit) as f64).to_bits() && lost == 0;
    println!(
        "{} {limit} connections without an error ({capacity} connections in all at the sink)",
        if is_good { "ok  " } else { "FAIL" }
    );
    Ok(is_good)
}

/// Runs `landau mail` with a new ledger, and monitors its memory.
fn measured(bench: &Bench, command: &mut Command) -> Result<Ran> {
    command.arg("--ledger").arg(bench.ledger("study")).args(["--json", "--sync", "never"]);
    let output = bench.path().join("study.json");
    let file = fs::File::create(&output).context("create a file")?;
    let mut child = command.stdin(Stdio::null()).stdout(file).spawn().context("start landau mail")?;
    let mut kib = 0.0_f64;
    let status = loop {
        if let Some(status) = child.try_wait().context("wait for landau mail")? {
            break status;
        }
        let text = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let high = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        kib = high.map_or(kib, |high: f64| kib.max(high));
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = fs::read_to_string(&output).context("read the result")?;
    ensure!(status.code().is_some_and(|code| code < 2), "landau mail failed: {status}");
    let outcome = serde_json::from_str(&text).with_context(|| format!("landau mail printed {text:?}"))?;
    Ok(Ran { outcome, resident_bytes: kib * 1024.0 })
}
