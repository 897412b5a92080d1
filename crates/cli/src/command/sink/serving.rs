//! The parts of the command line that all sinks share: addresses, the report of readiness, signals, counters.

use crate::status;
use anyhow::Context;
use landau_mail::sink::{Config, Exporting, Listen, Reading, Sink, export};
use landau_sys::signal::{ServiceSignal, ServiceSignals};

/// The flags of every sink.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Seed the random choices: equal seeds give equal choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Let this many connections wait to be accepted, at each address
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    backlog: u32,
    /// Use this backend for the event loop: select, poll, epoll, epoll-edge, sigio, `io_uring`, `io_uring-once` or
    /// kqueue [default: epoll on Linux, kqueue on BSD and macOS, poll on illumos]
    #[arg(long, value_name = "NAME")]
    backend: Option<landau_reactor::Backend>,
    /// Serve the counters over HTTP at ADDRESS:PORT: /metrics for Prometheus, any other path as JSON
    #[arg(long, value_name = "ADDRESS")]
    counters: Option<Listen>,
    /// Print JSON, one object a line: the addresses when the sink is ready, the counters at SIGUSR1 and when it ends
    #[arg(long)]
    json: bool,
}

/// The signals that end a sink or make it print its counters.
const SIGNALS: &[ServiceSignal] = &[ServiceSignal::Terminate, ServiceSignal::Report];

impl Common {
    /// Returns the configuration for the given addresses.
    pub(crate) fn config(&self, listen: &[Listen], default: &str) -> anyhow::Result<Config> {
        let listen = if listen.is_empty() { vec![default.parse()?] } else { listen.to_vec() };
        let mut config = Config::new(listen);
        config.backlog = self.backlog;
        config.backend = self.backend.unwrap_or_default();
        Ok(config)
    }

    /// Blocks the signals; call this before any thread exists.
    pub(crate) fn block_signals() -> ServiceSignals {
        ServiceSignals::block(SIGNALS)
    }

    /// Reports that the sink is ready, runs it until a signal ends it, and prints the counters.
    pub(crate) fn run(&self, signals: ServiceSignals, about: &str, sink: Sink) -> anyhow::Result<u8> {
        let remote = sink.remote();
        let source = remote.clone();
        let exporting = self.counters.map(|address| export(address, move || source.totals())).transpose()?;
        self.print_ready(about, &sink, exporting.as_ref())?;
        let (watched, json) = (remote.clone(), self.json);
        let watch = move || {
            loop {
                match signals.wait() {
                    // A closed standard output does not end the sink.
                    ServiceSignal::Report => drop(print_totals(&watched.totals(), json)),
                    _ => return watched.end(),
                }
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("start a thread for signals")?;
        sink.run()?;
        print_totals(&remote.totals(), self.json)?;
        Ok(status::DONE)
    }

    fn print_ready(&self, about: &str, sink: &Sink, exporting: Option<&Exporting>) -> anyhow::Result<()> {
        let (addresses, capacity) = (sink.addresses(), sink.capacity()?);
        let counters = exporting.map(|exporting| exporting.address.to_string());
        if self.json {
            let listening: Vec<_> =
                addresses.iter().map(|one| serde_json::json!({ "address": one.to_string() })).collect();
            let pid = std::process::id();
            let mut ready = serde_json::json!({ "listening": listening, "capacity": capacity, "pid": pid });
            if let Some(address) = counters {
                ready["counters"] = address.into();
            }
            return status::print(&ready.to_string());
        }
        for address in &addresses {
            status::print(&format!("{about} at {address}"))?;
        }
        if let Some(address) = counters {
            status::print(&format!("counters at http://{address}/metrics"))?;
        }
        status::print(&format!(
            "room for {capacity} connections (RLIMIT_NOFILE); further ones wait in the accept queue"
        ))
    }
}

fn print_totals(totals: &[Reading], json: bool) -> anyhow::Result<()> {
    if json {
        let pairs = totals.iter().map(|one| (one.name.to_owned(), one.value.into()));
        return status::print(&serde_json::Value::Object(pairs.collect()).to_string());
    }
    let lines: Vec<String> =
        totals.iter().filter(|one| one.value > 0).map(|one| format!("{:>12} {}", one.value, one.about)).collect();
    status::print(&lines.join("\n"))
}
