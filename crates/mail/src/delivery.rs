//! A delivery: its settings and its outcome.

use crate::bounce::Bounces;
use crate::client::Timeouts;
use crate::dkim::Signer;
use crate::engine::{Engine, Observer, Plan};
use crate::envelope::{Envelope, Mode};
use crate::error::{Error, Result};
use crate::input::{Input, Letter, Listed};
use crate::ledger::{self, FileStorage, Sync};
use crate::list::List;
use crate::message::Message;
use crate::metrics::Exporter;
use crate::network::{Network, Sockets};
use crate::route::{Lookups, Routes, Server};
use crate::schedule::{Backoff, Feedback, Limits, Schedule};
use crate::sink::Listen;
use crate::stats::{DomainRow, Phases, Stats, Tally, Timeline};
use crate::synthetic::{Shape, Synthetic};
use crate::tls::{Encryption, TlsConfig};
use landau_reactor::Backend;
use landau_sys::clock::monotonic_ns;
use landau_sys::process::{ProcessorTime, thread_time};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The number of domains in the table of the report.
const DOMAIN_ROWS: usize = 20;

/// The content in modes other than `data`, which need no message.
const NO_MESSAGE: &[u8] = b"";

/// The source of the recipients.
#[derive(Debug, Clone)]
pub enum Source {
    /// A file; `-` is standard input.
    File(PathBuf),
    /// A synthetic list.
    Synthetic(Shape),
}

/// The settings of a delivery.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The recipients.
    pub source: Source,
    /// The file of the message; none in a mode that sends no message.
    pub message: Option<PathBuf>,
    /// The DKIM signer of the message.
    pub signer: Option<Arc<Signer>>,
    /// The server for all mail: `HOST:PORT`; none if each domain is looked up.
    pub via: Option<String>,
    /// The name server to query; none for the configuration of this system.
    pub name_server: Option<SocketAddr>,
    /// The SMTP port of MX hosts.
    pub smtp_port: u16,
    /// Whether connections are encrypted.
    pub encryption: Encryption,
    /// Hosts on public addresses that the user permits.
    pub allowed_hosts: Vec<String>,
    /// Where `/metrics` is served; none to disable it.
    pub metrics: Option<Listen>,
    /// The Maildir for reports about failed recipients; none to write no reports.
    pub bounces: Option<PathBuf>,
    /// The ledger.
    pub ledger: PathBuf,
    /// When the ledger is synced.
    pub sync: Sync,
    /// The envelope of every message.
    pub envelope: Envelope,
    /// The limits of the schedule.
    pub limits: Limits,
    /// Maximum number of recipients in memory.
    pub active: usize,
    /// Maximum number of transactions on a connection.
    pub per_connection: u64,
    /// Maximum time for which a connection is reused.
    pub reuse_for: Duration,
    /// Maximum number of recipients of a transaction.
    pub batch: usize,
    /// Maximum wait for a server.
    pub timeout: Duration,
}

/// The outcome of a delivery.
#[derive(Debug)]
pub struct Outcome {
    /// How far the transactions went.
    pub mode: Mode,
    /// The recipients that were read, by state.
    pub recipients: Tally,
    /// Those of them that earlier runs had finished.
    pub earlier: Tally,
    /// The duration in nanoseconds.
    pub elapsed_ns: u64,
    /// The processor time.
    pub cpu: ProcessorTime,
    /// The times of the phases.
    pub phases: Phases,
    /// The number of connections that were greeted.
    pub connections: u64,
    /// Those of them that were encrypted.
    pub encrypted: u64,
    /// The number of reports about failed recipients.
    pub bounces: u64,
    /// The maximum number of simultaneous connections.
    pub most_open: u32,
    /// The maximum number of recipients in memory at a time.
    pub most_active: u64,
    /// The number of times that a recipient was passed to a session.
    pub attempts: u64,
    /// The bytes sent.
    pub sent_bytes: u64,
    /// The numbers of send calls and of receive calls.
    pub calls: (u64, u64),
    /// The domains with the most recipients.
    pub domains: Vec<DomainRow>,
    /// The progress over time.
    pub timeline: Timeline,
    /// The number of domains.
    pub domain_count: u64,
    /// The reasons for deferrals and failures with their counts, the most frequent first.
    pub reasons: Vec<(String, u64)>,
    /// The reasons why connections were refused or lost, with their counts.
    pub lost: Vec<(String, u64)>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Whether the run was interrupted.
    pub is_interrupted: bool,
}

/// Delivers a message to a list. Returns when every recipient is done, failed, or left to a later run.
pub fn deliver(delivery: &Delivery, observer: &mut dyn Observer, should_stop: &dyn Fn() -> bool) -> Result<Outcome> {
    let mut engine = prepare(delivery)?;
    let (begin_ns, cpu) = (monotonic_ns(), thread_time());
    engine.run(observer, should_stop)?;
    let outcome = engine.into_outcome();
    Ok(Outcome {
        elapsed_ns: monotonic_ns() - begin_ns,
        cpu: thread_time().since(cpu),
        is_interrupted: should_stop(),
        ..outcome
    })
}

/// Returns the engine of a delivery, with its ledger open.
pub(crate) fn prepare(delivery: &Delivery) -> Result<Engine<Sockets, Listed<FileStorage>>> {
    delivery.check()?;
    let list = match &delivery.source {
        Source::File(path) => List::open(path)?,
        Source::Synthetic(shape) => List::synthetic(Synthetic::new(*shape)),
    };
    let text = match &delivery.message {
        Some(path) => std::fs::read(path).map_err(|error| Error::file(path, error.to_string()))?,
        None => NO_MESSAGE.to_vec(),
    };
    let message = Message::parse(&text, list.columns(), delivery.signer.clone())?;
    if message.is_template() && delivery.batch > 1 {
        return Err(Error::Spec("a message with {{name}} fields cannot be batched; omit --batch".to_owned()));
    }
    let routes = delivery.routes()?;
    let plan = delivery.plan()?;
    let (mode, mut notes) = (plan.envelope.mode, Vec::new());
    let limits = limits(delivery.limits.clone(), 0, &mut notes);
    let opened = ledger::open(&delivery.ledger, mode, &message, delivery.sync)?;
    let network = Sockets::new(Backend::default())?;
    let input = Listed::new(list, Letter::new(plan.envelope.clone(), message), opened);
    let mut engine = Engine::new(network, input, routes, plan, Schedule::new(limits));
    engine.notes = notes;
    engine.exporter = delivery.metrics.map(Exporter::start).transpose()?;
    Ok(engine)
}

impl Delivery {
    /// Returns the delivery of a message to a list with the defaults of `landau mail`, without a message.
    pub fn new(source: Source, ledger: PathBuf) -> Self {
        Self {
            source,
            message: None,
            signer: None,
            via: None,
            name_server: None,
            smtp_port: 25,
            encryption: Encryption::Never,
            allowed_hosts: Vec::new(),
            metrics: None,
            bounces: None,
            ledger,
            sync: Sync::Interval(Duration::from_secs(1)),
            envelope: Envelope::new("", Mode::Data),
            limits: Limits {
                sessions: 20,
                per_site: 20,
                initial: 5,
                feedback: Feedback::Inverse,
                backoff: Backoff { first: Duration::from_secs(300), longest: Duration::from_secs(3600) },
                attempts: 3,
                seed: 1,
            },
            active: 20_000,
            per_connection: 1000,
            reuse_for: Duration::from_secs(300),
            batch: 1,
            timeout: Duration::from_secs(600),
        }
    }

    fn check(&self) -> Result<()> {
        let needs_message = self.envelope.mode == Mode::Data;
        if needs_message && self.message.is_none() {
            return Err(Error::Spec("--message FILE is required except with --mode rset or --mode quit".to_owned()));
        }
        if self.bounces.is_some() && (!needs_message || self.envelope.from.is_empty()) {
            let reason = "--bounces needs --from and --mode data: only the sender of a message gets bounces";
            return Err(Error::Spec(reason.to_owned()));
        }
        Ok(())
    }

    /// Returns the settings of the engine.
    pub(crate) fn plan(&self) -> Result<Plan> {
        Ok(Plan {
            envelope: self.envelope.clone().checked()?,
            active: self.active,
            per_connection: self.per_connection,
            reuse_for_ns: u64::try_from(self.reuse_for.as_nanos()).unwrap_or(u64::MAX),
            batch: self.batch,
            timeouts: Timeouts::new(self.timeout),
            tls: TlsConfig::new(&self.encryption).map_err(Error::Spec)?,
            bounces: self.bounces.as_deref().map(|folder| Bounces::open(folder, self.sync)).transpose()?.map(Rc::new),
            keeps_double_bounces: false,
        })
    }

    /// Returns the routes: to one server, or by a lookup of each domain.
    pub(crate) fn routes(&self) -> Result<Routes> {
        let seed = self.limits.seed;
        if let Some(via) = &self.via {
            return Ok(Routes::to_server(&Server::resolve(via, &self.allowed_hosts)?, seed));
        }
        let allowed = self.allowed_hosts.clone();
        let own_name = self.envelope.helo.clone();
        let lookups = Lookups { server: self.name_server, port: self.smtp_port, allowed, own_name };
        Routes::by_domain(lookups, seed)
    }
}

/// Returns the limits, with at most as many sessions as the process has descriptors left after `others`.
pub(crate) fn limits(mut limits: Limits, others: u32, notes: &mut Vec<String>) -> Limits {
    /// Descriptors of the program other than sockets.
    const OTHERS: u64 = 32;
    let descriptors = landau_sys::limits::raise(landau_sys::limits::Resource::Descriptors).unwrap_or(1024);
    let most = descriptors.saturating_sub(OTHERS + u64::from(others));
    let most = u32::try_from(most).unwrap_or(u32::MAX).max(1);
    if limits.sessions > most {
        notes.push(format!("{} sessions exceed the descriptor limit; using {most} (raise ulimit -n)", limits.sessions));
        limits.sessions = most;
    }
    limits
}

impl<N: Network, I: Input> Engine<N, I> {
    /// Returns the counts of the run, without its duration and processor time.
    pub(crate) fn into_outcome(self) -> Outcome {
        let mode = self.mode();
        let Stats { recipients, earlier, phases, domains, reasons, lost, connections, attempts, .. } = self.stats;
        Outcome {
            mode,
            recipients,
            earlier,
            elapsed_ns: 0,
            cpu: ProcessorTime::default(),
            phases,
            connections,
            encrypted: self.stats.encrypted,
            bounces: self.stats.bounces,
            most_open: self.stats.most_open,
            most_active: self.stats.most_active as u64,
            attempts,
            sent_bytes: self.stats.sent_bytes,
            calls: (self.stats.sends, self.stats.receives),
            domain_count: domains.len() as u64,
            domains: domains.largest(DOMAIN_ROWS, self.begin_ns),
            timeline: self.stats.timeline,
            reasons: reasons.sorted(),
            lost: lost.sorted(),
            notes: self.notes,
            is_interrupted: false,
        }
    }
}

impl Outcome {
    /// Returns the number of recipients done in this run, without those of earlier runs.
    pub fn done_now(&self) -> u64 {
        self.recipients.done - self.earlier.done
    }

    /// Returns the number of recipients done in this run per second.
    pub fn per_second(&self) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { self.done_now() as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Returns the processor time per recipient done in this run, in nanoseconds; `None` without such recipients.
    pub fn cpu_ns_each(&self) -> Option<f64> {
        let done = self.done_now();
        (done > 0).then(|| self.cpu.total_ns() as f64 / done as f64)
    }

    /// Returns whether nothing is left to a later run and nothing failed.
    pub fn is_complete(&self) -> bool {
        self.recipients.deferred + self.recipients.failed + self.recipients.left == 0 && !self.is_interrupted
    }

    /// Returns the outcome as JSON.
    pub fn json(&self) -> serde_json::Value {
        let phases = self.phases.all().into_iter().filter(|(_, times)| times.count() > 0).map(|(name, times)| {
            let times = json!({
                "count": times.count(),
                "p50_ns": times.quantile_ns(0.5),
                "p90_ns": times.quantile_ns(0.9),
                "p99_ns": times.quantile_ns(0.99),
                "max_ns": times.max_ns(),
            });
            (name.to_owned(), times)
        });
        let pairs = |all: &[(String, u64)]| -> Vec<serde_json::Value> {
            all.iter().map(|(reason, count)| json!({ "reason": reason, "count": count })).collect()
        };
        json!({
            "mode": self.mode,
            "recipients": self.recipients,
            "earlier": self.earlier,
            "elapsed_ns": self.elapsed_ns,
            "cpu_user_ns": self.cpu.user_ns,
            "cpu_system_ns": self.cpu.system_ns,
            "per_second": self.per_second(),
            "cpu_ns_each": self.cpu_ns_each(),
            "connections": self.connections,
            "encrypted_connections": self.encrypted,
            "bounces": self.bounces,
            "most_open": self.most_open,
            "most_active": self.most_active,
            "attempts": self.attempts,
            "sent_bytes": self.sent_bytes,
            "sends": self.calls.0,
            "receives": self.calls.1,
            "phases": phases.collect::<serde_json::Map<_, _>>(),
            "domain_count": self.domain_count,
            "domains": self.domains,
            "largest_domain": self.domains.first().map(|row| json!({
                "domain": row.domain,
                "own_ns": row.own_ns(),
                "share_of_elapsed": row.own_ns() as f64 / self.elapsed_ns.max(1) as f64,
            })),
            "timeline": self.timeline,
            "reasons": pairs(&self.reasons),
            "lost_connections": pairs(&self.lost),
            "notes": self.notes,
            "is_interrupted": self.is_interrupted,
        })
    }
}
