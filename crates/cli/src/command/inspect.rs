//! `landau inspect`: the network architecture of a running server.

use crate::status;
use crate::terminal::bullet;
use anyhow::Context;
use landau_host::inspect::{Account, Confidence, Evidence, Inspection, Target, inspect, main_process};
use landau_host::{Root, Unread, counted};
use landau_sys::signal::{catch_interrupts, ignore_terminal_stops, interrupted};
use landau_units::duration_in;
use serde_json::Value;
use std::fmt::Write;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The shortest and the longest window.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(600);

/// Gates of the load that concern its latencies, the queues of the whole host, and differing responses.
const WAIVED: [&str; 5] = ["lag", "length", "overflow", "rate", "saturated"];

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("target").required(true)))]
#[command(after_help = "Examples:
  landau inspect --port 8080                     the architecture of the server on port 8080
  landau inspect $(pidof -s nginx) --for 10s
  landau inspect --port 8080 --load http://127.0.0.1:8080/
  landau inspect --unit nginx --json | jq .architecture

An idle server does not show its architecture. Open at least 200 simultaneous connections to it,
and let some of them end during the window; --load does both.

Nothing is changed. If the user has the rights (root), inspect counts system calls at kernel
tracepoints. This also shows how the server sends, and costs a busy server about 3% of its
processor time. --evidence proc reads /proc only. --evidence ptrace is the last resort for a user
without these rights: it stops the server at its system calls for about a quarter of the time or
less, which slows the server down. The answer says by how much.

Exit status: 0 if the architecture is found, 1 if it cannot be determined, 2 if the command could
not run.")]
pub(crate) struct Args {
    /// Inspect the server to which this process belongs
    #[arg(value_name = "PID", group = "target", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Inspect the server that listens on this TCP port
    #[arg(long, value_name = "N", group = "target", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Inspect the main process of this systemd unit
    #[arg(long, value_name = "NAME", group = "target")]
    unit: Option<String>,
    /// Take samples for this long
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = duration_in(SHORTEST..=LONGEST))]
    window: Duration,
    /// Send requests to this URL over 200 connections during the first half of the window, at most 2,000 per second
    #[arg(long, value_name = "URL")]
    load: Option<String>,
    /// Collect this kind of evidence [default: bpf where it is permitted, otherwise proc]
    #[arg(long, value_enum, value_name = "KIND")]
    evidence: Option<Kind>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// Read /proc only (grade 1)
    Proc,
    /// Also count system calls, forks, execs and exits with BPF programs at kernel tracepoints (grade 2)
    Bpf,
    /// Count the same with ptrace(2), which stops the server at system calls in about a quarter of the window (grade 3)
    Ptrace,
}

impl From<Kind> for Evidence {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Proc => Self::Proc,
            Kind::Bpf => Self::Bpf,
            Kind::Ptrace => Self::Ptrace,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<u8> {
    let target = match (args.pid, args.port, &args.unit) {
        (Some(pid), ..) => Target::Pid(pid),
        (_, Some(port), _) => Target::Port(port),
        (_, _, unit) => Target::Pid(main_process(&Root::live(), unit.as_deref().unwrap_or_default())?),
    };
    catch_interrupts();
    if matches!(args.evidence, Some(Kind::Ptrace)) {
        // While ptrace has stopped the server, stopping this program would leave it stopped. The load, started next,
        // inherits this setting.
        ignore_terminal_stops();
    }
    let load = args.load.as_deref().map(|url| start_load(url, args.window)).transpose()?;
    let found =
        inspect(&Root::live(), target, args.window, args.evidence.map(Evidence::from), || interrupted().is_some());
    let is_seen = found.as_ref().is_ok_and(|found| found.most.connections > 0);
    let failure = load.map(|load| load.end(is_seen)).transpose()?.flatten();
    if let Some(failure) = &failure {
        // Reported even if the inspection failed: this may be the reason.
        status::tell(&format!("landau: --load: {failure}"));
    }
    let mut found = found?;
    found.unseen.extend(failure.map(|why| Unread { what: "the server under the load of --load".to_owned(), why }));
    let text = if args.json { serde_json::to_string_pretty(&found)? } else { render(&found) };
    status::answer(&text, if found.architecture.is_some() { status::DONE } else { status::FAILED })
}

/// A child process that runs `landau load` against the inspected server.
struct Load {
    child: Child,
    /// Reads the child's output, so that the child does not block on a full pipe.
    result: JoinHandle<std::io::Result<Vec<u8>>>,
}

/// Starts `landau load` for half the window, so that connections also end while the server is observed.
fn start_load(url: &str, window: Duration) -> anyhow::Result<Load> {
    let program = landau_sys::process::this_program()?;
    let duration = format!("{}ms", (window / 2).as_millis());
    let words = ["load", url, "--connections", "200", "--rate", "2000", "--duration", &duration];
    // The accuracy of its latencies does not matter here.
    let waived = WAIVED.iter().flat_map(|gate| ["--waive", gate]);
    let mut child = Command::new(program)
        .args(words)
        .args(waived)
        .arg("--json")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start landau load")?;
    let mut printed = child.stdout.take().context("the output of landau load")?;
    let result = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        printed.read_to_end(&mut bytes).map(|_| bytes)
    });
    Ok(Load { child, result })
}

impl Load {
    /// Ends the load, and returns why it generated no load or not the intended one. A server that is slow under load
    /// may delay its end beyond the window; that is not a failure if connections were seen.
    fn end(mut self, is_seen: bool) -> anyhow::Result<Option<String>> {
        let is_over = self.child.try_wait()?.is_some();
        if !is_over {
            self.child.kill()?;
        }
        let ended = self.child.wait_with_output()?;
        let result = self.result.join().map_err(|_| anyhow::anyhow!("the reader of landau load panicked"))?;
        // If the user interrupts the inspection, the end of its load is not a failure.
        if ended.status.success() || interrupted().is_some() || (!is_over && is_seen) {
            return Ok(None);
        }
        if !is_over {
            return Ok(Some("no connection was seen before the window ended and the load was stopped".to_owned()));
        }
        let told = String::from_utf8_lossy(&ended.stderr);
        let told = told.trim().trim_start_matches("landau: ");
        Ok(Some(match failed_gates(&result?) {
            gates if !gates.is_empty() => gates.join("; "),
            _ if told.is_empty() => format!("landau load ended with {}", ended.status),
            _ => told.to_owned(),
        }))
    }
}

/// Returns the failed gates with their reasons, from the JSON of `landau load`.
fn failed_gates(json: &[u8]) -> Vec<String> {
    let result: Value = serde_json::from_slice(json).unwrap_or_default();
    let gates = result["gates"].as_array().into_iter().flatten().filter(|gate| gate["state"] == "failed");
    let text = |gate: &Value, member: &str| gate[member].as_str().unwrap_or_default().to_owned();
    gates.map(|gate| format!("{}: {}", text(gate, "name"), text(gate, "reason"))).collect()
}

/// Describes how the server accepts, sends and waits.
fn summarize(account: &Account, line: &mut impl FnMut(&str, &str)) {
    if let Some(accepts) = &account.accepts {
        line("accepts by", accepts);
    }
    if !account.sends.is_empty() {
        line("sends by", &account.sends.join(", "));
    }
    if !account.waits.is_empty() {
        line("waits by", &account.waits.join(", "));
    }
    line(
        "tasks",
        &format!(
            "{}, {} created, {}; {} established",
            counted(account.forks, "fork", "forks"),
            counted(account.threads, "thread", "threads"),
            counted(account.executions, "execution", "executions"),
            counted(account.established, "connection", "connections")
        ),
    );
}

/// Maximum number of calls that are printed.
const PRINTED: usize = 12;

/// Returns the table of calls.
fn table(account: &Account) -> String {
    let mut text = format!(
        "\nSystem calls, counted for {:.1} s ({} established, {}):\n",
        account.counted_s,
        counted(account.established_counted, "connection", "connections"),
        counted(account.replies, "reply", "replies")
    );
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    // Writing to a string cannot fail.
    let _ =
        writeln!(text, "    {:26} {:11} {:>10} {:>10} {:>14}", "call", "on", "count", "per reply", "per connection");
    for call in account.calls.iter().take(PRINTED) {
        let (reply, connection) = (number(call.per_reply), number(call.per_connection));
        let about = call.about.unwrap_or("");
        let _ = writeln!(text, "    {:26} {about:11} {:>10} {reply:>10} {connection:>14}", call.call, call.count);
    }
    text
}

fn render(found: &Inspection) -> String {
    let mut text = String::new();
    let ports = found.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{} ({}), port {ports}: {}.", found.program, found.pid, found.sentence);
    let confidence = match found.confidence {
        Confidence::None => "none",
        Confidence::Medium => "medium (few connections)",
        Confidence::High => "high",
    };
    let mut line = |label: &str, part: &str| {
        let _ = writeln!(text, "    {label:11} {part}");
    };
    line("confidence", confidence);
    line("rule", found.rule);
    if !found.mechanism.is_empty() {
        let trigger = match found.is_edge_triggered {
            None => "",
            Some(true) => " (edge-triggered)",
            Some(false) => " (level-triggered)",
        };
        line("mechanism", &format!("{}{trigger}", found.mechanism.join(", ")));
    }
    line("acceptance", &found.acceptance);
    let most = found.most;
    line(
        "at most",
        &format!(
            "{}, {}, {}, {} waiting for accept()",
            counted(most.processes as u64, "process", "processes"),
            counted(most.threads as u64, "thread", "threads"),
            counted(most.connections as u64, "connection", "connections"),
            most.waiting
        ),
    );
    if let Some(account) = &found.traced {
        summarize(account, &mut line);
    }
    let by = match found.evidence_by {
        Evidence::Proc => "/proc",
        Evidence::Bpf => "/proc and tracepoints",
        Evidence::Ptrace => "/proc and ptrace",
    };
    let grade = found.evidence_grade;
    let _ = writeln!(text, "\nEvidence of grade {grade} ({by}, {} samples in {:.1} s):", found.samples, found.window_s);
    found.evidence.iter().for_each(|one| text.push_str(&bullet(one)));
    if let Some(account) = &found.traced {
        text.push_str(&table(account));
    }
    if let Some(growth) = &found.growth {
        let _ = writeln!(text, "\nGrowth:\n{}", bullet(growth).trim_end());
    }
    if let Some(limit) = &found.limit {
        let _ = writeln!(text, "{}", bullet(&limit.sentence).trim_end());
    }
    text.push_str("\nNot seen:\n");
    found.unseen.iter().for_each(|one| text.push_str(&bullet(&format!("{}: {}", one.what, one.why))));
    text
}
