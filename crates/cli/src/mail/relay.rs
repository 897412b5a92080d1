//! `landau mail --listen ADDRESS --relay`: receives messages over SMTP and delivers them.

use super::starttls::StartTlsArgs;
use crate::status;
use anyhow::Context;
use landau_mail::relay::{Listening, Monitor, Reception, Relay};
use landau_mail::sink::{Exporting, Listen, Prefix, export};
use landau_mail::{Backoff, Delivery, Observer, Progress};
use landau_sys::signal::{ServiceSignal, ServiceSignals, ignore_file_size};
use landau_units::{duration_in, size_in};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest time for which a message is kept: a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The flags of a relay.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Relay")]
pub(crate) struct RelayArgs {
    /// Accept messages over SMTP, store them in --queue, and deliver them
    #[arg(long, requires_all = ["listen", "queue"])]
    pub(crate) relay: bool,
    /// Listen at ADDRESS:PORT or :PORT (all addresses); repeatable
    #[arg(long, value_name = "ADDRESS", requires = "relay")]
    listen: Vec<Listen>,
    /// Keep accepted messages in this directory until they are delivered
    #[arg(long, value_name = "DIR", requires = "relay")]
    queue: Option<PathBuf>,
    /// Keep at most this much in the queue; then answer 452
    #[arg(long, value_name = "SIZE", default_value = "1GiB", requires = "relay")]
    #[arg(value_parser = size_in(1 << 20..=u64::MAX))]
    queue_limit: u64,
    /// Accept messages of at most this size
    #[arg(long, value_name = "SIZE", default_value = "50MiB", requires = "relay")]
    #[arg(value_parser = size_in(1024..=1 << 30))]
    size_limit: u64,
    /// Accept at most N sessions at a time; then answer 421
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "relay")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// Accept at most N recipients of a message; then answer 452
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "relay")]
    #[arg(value_parser = clap::value_parser!(u16).range(100..))]
    recipients_limit: u16,
    /// Accept mail from NETWORK in addition to this host and private networks (repeatable)
    #[arg(long, value_name = "NETWORK", requires = "relay")]
    accept_from: Vec<Prefix>,
    /// Give up on a message that could not be delivered for this long
    #[arg(long, value_name = "TIME", default_value = "120h", requires = "relay")]
    #[arg(value_parser = duration_in(Duration::ZERO..=LONGEST))]
    lifetime: Duration,
    /// Suspend a site for this long after it could not be reached, and defer its mail without an attempt; double the
    /// time after each further failure
    #[arg(long, value_name = "TIME", default_value = "300s", requires = "relay")]
    #[arg(value_parser = duration_in(Duration::from_millis(1)..=LONGEST))]
    minimal_backoff_time: Duration,
    /// Suspend a site that could not be reached for at most this long
    #[arg(long, value_name = "TIME", default_value = "4000s", requires = "relay")]
    #[arg(value_parser = duration_in(Duration::from_millis(1)..=LONGEST))]
    maximal_backoff_time: Duration,
    /// Send a report to ADDRESS when mail from the null sender fails, such as a report to a sender
    #[arg(long, value_name = "ADDRESS", requires = "relay")]
    postmaster: Option<String>,
    /// Serve the counters over HTTP at ADDRESS:PORT: /metrics for Prometheus, any other path as JSON
    #[arg(long, value_name = "ADDRESS", requires = "relay")]
    counters: Option<Listen>,
    #[command(flatten)]
    starttls: StartTlsArgs,
}

impl RelayArgs {
    /// Returns whether STARTTLS is to be offered, which only a relay does. Clap cannot check that condition.
    pub(crate) fn offers_starttls(&self) -> bool {
        self.starttls.certificate().is_some()
    }
}

/// The signals that end a relay, make it reopen its ledger, or make it print its counters.
const SIGNALS: &[ServiceSignal] = &[ServiceSignal::Terminate, ServiceSignal::Reload, ServiceSignal::Report];

/// Prints notices for the operator at once.
struct Log;

impl Observer for Log {
    fn progress(&mut self, _: &Progress) {}

    fn notice(&mut self, text: &str) {
        status::tell(text);
    }
}

/// Runs a relay that delivers mail as `delivery` specifies.
pub(crate) fn run(args: &RelayArgs, delivery: Delivery, ledger: Option<PathBuf>, json: bool) -> anyhow::Result<u8> {
    let signals = ServiceSignals::block(SIGNALS);
    // Exceeding the limit on file size is handled like a full disk: a write error instead of SIGXFSZ.
    ignore_file_size();
    let queue = args.queue.clone().context("--relay requires --queue")?;
    let relay = Relay {
        listen: args.listen.clone(),
        reception: Reception {
            name: delivery.envelope.helo.clone(),
            size_limit: args.size_limit,
            recipients: usize::from(args.recipients_limit),
            sessions: args.clients,
            memory: args.size_limit.saturating_mul(4).max(256 << 20),
            accept_from: args.accept_from.clone(),
            certificate: args.starttls.certificate(),
        },
        queue,
        queue_limit: args.queue_limit,
        ledger,
        lifetime: args.lifetime,
        site_backoff: Backoff {
            first: args.minimal_backoff_time,
            longest: args.maximal_backoff_time.max(args.minimal_backoff_time),
        },
        postmaster: args.postmaster.clone(),
        delivery,
    };
    let listening = relay.bind()?;
    let (monitor, must_end) = (listening.monitor(), Arc::new(AtomicBool::new(false)));
    let source = monitor.clone();
    let exporting = args.counters.map(|address| export(address, move || source.totals())).transpose()?;
    print_ready(&listening, exporting.as_ref(), json)?;
    let (watched, told) = (monitor.clone(), Arc::clone(&must_end));
    let watch = move || {
        loop {
            match signals.wait() {
                // A closed standard output does not end the relay.
                ServiceSignal::Report => drop(print_totals(&watched, json)),
                ServiceSignal::Reload => {
                    if let Err(reason) = watched.reopen_ledger() {
                        status::tell(&format!("cannot reopen the ledger: {reason}"));
                    }
                }
                _ => return told.store(true, Ordering::Relaxed),
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).context("start a thread for signals")?;
    let outcome = listening.run(&mut Log, &|| must_end.load(Ordering::Relaxed))?;
    for note in &outcome.notes {
        status::tell(note);
    }
    print_totals(&monitor, json)?;
    Ok(status::DONE)
}

fn print_ready(listening: &Listening, exporting: Option<&Exporting>, json: bool) -> anyhow::Result<()> {
    for note in &listening.notes {
        status::tell(note);
    }
    let addresses: Vec<String> = listening.addresses().iter().map(ToString::to_string).collect();
    if json {
        let listening: Vec<_> = addresses.iter().map(|one| serde_json::json!({ "address": one })).collect();
        let mut ready = serde_json::json!({ "listening": listening, "pid": std::process::id() });
        if let Some(exporting) = exporting {
            ready["counters"] = exporting.address.to_string().into();
        }
        return status::print(&ready.to_string());
    }
    addresses.iter().try_for_each(|address| status::print(&format!("relaying mail from {address}")))?;
    exporting.map_or(Ok(()), |exporting| status::print(&format!("counters at http://{}/metrics", exporting.address)))
}

fn print_totals(monitor: &Monitor, json: bool) -> anyhow::Result<()> {
    let totals = monitor.totals();
    if json {
        let pairs = totals.iter().map(|one| (one.name.to_owned(), one.value.into()));
        return status::print(&serde_json::Value::Object(pairs.collect()).to_string());
    }
    let lines: Vec<String> =
        totals.iter().filter(|one| one.value > 0).map(|one| format!("{:>12} {}", one.value, one.about)).collect();
    status::print(&lines.join("\n"))
}
