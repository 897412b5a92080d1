//! Running a server until a signal ends it: in this process, or in worker processes under a supervisor.

use super::report;
use crate::status;
use landau_serve::supervisor::{Command, Process, Supervisor};
use landau_serve::systemd::Notifier;
use landau_serve::{Config, Error, Listen, Reader, Server, Totals, User};
use landau_sys::signal::{ServiceSignal, ServiceSignals};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The signals that the server handles: those of nginx. The upgrade signal is handled only to refuse it.
const SIGNALS: &[ServiceSignal] = &[
    ServiceSignal::Terminate,
    ServiceSignal::Finish,
    ServiceSignal::Reload,
    ServiceSignal::ReopenLog,
    ServiceSignal::Upgrade,
];

/// The signals that a supervisor handles.
const SUPERVISOR_SIGNALS: &[ServiceSignal] = &[
    ServiceSignal::Terminate,
    ServiceSignal::Finish,
    ServiceSignal::Reload,
    ServiceSignal::ReopenLog,
    ServiceSignal::Upgrade,
    ServiceSignal::ChildEnded,
    ServiceSignal::Alarm,
];

/// Two signals within this time count as one: a shell or a service manager that terminates a process group may signal a
/// process twice.
const ONE_SIGNAL: Duration = Duration::from_millis(200);

/// The settings of the command line that are not part of the server's configuration.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) root: PathBuf,
    pub(super) user: Option<User>,
    pub(super) drain_timeout: Duration,
    pub(super) is_json: bool,
}

/// A listening server.
struct Ready {
    addresses: Vec<Listen>,
    metrics: Option<Listen>,
    is_sandboxed: bool,
    /// The worker processes, if there is a supervisor.
    processes: Option<Vec<i32>>,
}

/// Serves in this process.
pub(super) fn alone(start: &Start, mut config: Config) -> anyhow::Result<u8> {
    // Called before any thread exists, because all threads must block the signals.
    let signals = ServiceSignals::block(SIGNALS);
    start.keep_reader(&mut config);
    let notifier = Notifier::from_environment();
    let server = Server::start(config)?;
    if let Some(note) = server.give_up_privileges(start.user.as_ref())? {
        report(&note);
    }
    start.announce(&Ready {
        addresses: server.addresses(),
        metrics: server.metrics_address(),
        is_sandboxed: server.is_sandboxed(),
        processes: None,
    })?;
    server.release();
    notifier.tell("READY=1");
    handle_signals(signals, &server, notifier, start.drain_timeout, String::new())?;
    start.print_totals(&server.join()?)?;
    Ok(status::DONE)
}

/// Serves in worker processes.
pub(super) fn supervised(start: Start, config: Config, processes: usize) -> anyhow::Result<u8> {
    let signals = ServiceSignals::block(SUPERVISOR_SIGNALS);
    let notifier = Notifier::from_environment();
    let start = Rc::new(start);
    let of_process = start.clone();
    let run = move |process| work(&of_process, process);
    let mut supervisor = match Supervisor::start(config, start.user.clone(), processes, run) {
        // The process has reported the reason.
        Err(Error::ProcessEnded) => return Ok(status::COULD_NOT_RUN),
        started => started?,
    };
    start.announce(&Ready {
        addresses: supervisor.addresses(),
        metrics: supervisor.metrics_address(),
        is_sandboxed: supervisor.is_sandboxed(),
        processes: Some(supervisor.processes()),
    })?;
    notifier.tell("READY=1");
    let (drain_timeout, who) = (start.drain_timeout, String::new());
    let mut handler = Handler { notifier, drain_timeout, ending_since: None, who };
    loop {
        match signals.wait() {
            ServiceSignal::ChildEnded | ServiceSignal::Alarm => {}
            signal => handler.handle(signal, |command| supervisor.command(command)),
        }
        if supervisor.tend()? {
            break;
        }
    }
    start.print_totals(&supervisor.totals())?;
    Ok(status::DONE)
}

/// Runs a worker process; returns its status.
fn work(start: &Start, process: Process) -> u8 {
    match try_work(start, process) {
        Ok(()) => status::DONE,
        Err(error) => {
            report(&format!("{error:#}"));
            status::COULD_NOT_RUN
        }
    }
}

fn try_work(start: &Start, mut process: Process) -> anyhow::Result<()> {
    let signals = ServiceSignals::block(SIGNALS);
    start.keep_reader(&mut process.config);
    let server = process.start()?;
    if let Some(note) = server.give_up_privileges(start.user.as_ref())? {
        report(&note);
    }
    server.release();
    process.tell_ready(&server);
    let remote = server.remote();
    std::thread::Builder::new().name("supervisor".to_owned()).spawn(move || process.obey(&remote))?;
    // Only the supervisor notifies the service manager.
    let who = format!("worker process {}: ", std::process::id());
    handle_signals(signals, &server, Notifier::default(), start.drain_timeout, who)?;
    server.join()?;
    Ok(())
}

/// Starts a thread that handles signals until the process exits.
fn handle_signals(
    signals: ServiceSignals,
    server: &Server,
    notifier: Notifier,
    drain_timeout: Duration,
    who: String,
) -> anyhow::Result<()> {
    let remote = server.remote();
    let mut handler = Handler { notifier, drain_timeout, ending_since: None, who };
    std::thread::Builder::new().name("notices".to_owned()).spawn(move || {
        loop {
            handler.handle(signals.wait(), |command| command.apply(&remote));
        }
    })?;
    Ok(())
}

/// Converts signals to commands, and informs the operator and the service manager.
struct Handler {
    notifier: Notifier,
    drain_timeout: Duration,
    ending_since: Option<Instant>,
    /// Prefix of messages; it names the process if there are several.
    who: String,
}

impl Handler {
    fn handle(&mut self, signal: ServiceSignal, mut command: impl FnMut(Command)) {
        match (signal, self.ending_since) {
            (ServiceSignal::Reload, _) => {
                self.notifier.tell_reloading();
                command(Command::Reload);
                self.notifier.tell("READY=1");
            }
            (ServiceSignal::ReopenLog, _) => command(Command::ReopenLog),
            (signal @ (ServiceSignal::Terminate | ServiceSignal::Finish), None) => {
                self.notifier.tell("STOPPING=1");
                if signal == ServiceSignal::Finish {
                    self.report("stopping when the last busy connection ends; SIGTERM stops the server at once");
                    command(Command::Finish);
                } else {
                    let limit = landau_units::format_duration(self.drain_timeout);
                    self.report(&format!(
                        "stopping: busy connections have {limit} to end; signal again to stop at once"
                    ));
                    command(Command::Drain);
                }
                self.ending_since = Some(Instant::now());
            }
            (ServiceSignal::Terminate, Some(since)) if since.elapsed() < ONE_SIGNAL => {}
            (ServiceSignal::Terminate, Some(_)) => {
                self.report("stopping at once");
                command(Command::EndNow);
            }
            (ServiceSignal::Upgrade, _) => {
                self.report("SIGUSR2: in-place upgrade is not supported; the server continues");
            }
            _ => {}
        }
    }

    fn report(&self, text: &str) {
        report(&format!("{}{text}", self.who));
    }
}

impl Start {
    /// Starts a process that stays privileged and rereads the certificates and the rules, if the server switches to
    /// another user. That user then does not need permission to read the keys; if the process cannot start, it does.
    /// Call this before any thread exists.
    fn keep_reader(&self, config: &mut Config) {
        let has_files = !config.tls.is_empty() || config.rules.is_some();
        let root = landau_sys::process::effective_user();
        let Some(user) = self.user.as_ref().filter(|user| has_files && user.identity.user != root) else { return };
        match Reader::privileged(config) {
            Ok(reader) => config.reader = reader,
            Err(error) => report(&format!("a reload reads only what {} can read: {error}", user.name)),
        }
    }

    /// Prints the addresses and settings of a listening server, as JSON or as text.
    fn announce(&self, ready: &Ready) -> anyhow::Result<()> {
        if self.is_json { status::print(&self.json(ready).to_string()) } else { self.print_banner(ready) }
    }

    /// Returns the announcement as JSON, for a program that starts the server. An address is `ADDRESS:PORT`,
    /// `unix:PATH` or `fd:NUMBER`.
    fn json(&self, ready: &Ready) -> serde_json::Value {
        let place = |address: &Listen| {
            let (place, is_tls) = address.address();
            serde_json::json!({ "address": place.to_string(), "tls": is_tls })
        };
        let mut json = serde_json::json!({
            "listening": ready.addresses.iter().map(place).collect::<Vec<_>>(),
            "metrics": ready.metrics.as_ref().map(ToString::to_string),
            "pid": std::process::id(),
            "sandbox": ready.is_sandboxed,
            "user": self.user.as_ref().map(|user| &user.name),
        });
        if let Some(processes) = &ready.processes {
            json["processes"] = processes.clone().into();
        }
        json
    }

    fn print_banner(&self, ready: &Ready) -> anyhow::Result<()> {
        let user = self.user.as_ref().map(|user| format!(" as {}", user.name)).unwrap_or_default();
        let sandbox = if ready.is_sandboxed { ", sandboxed" } else { "" };
        for address in &ready.addresses {
            let place = match address.address() {
                (Listen::Tcp(place), true) => format!("https://{place}"),
                (Listen::Tcp(place), false) => format!("http://{place}"),
                _ => address.to_string(),
            };
            status::print(&format!("serving {} at {place}{user}{sandbox}", self.root.display()))?;
        }
        match &ready.metrics {
            Some(Listen::Tcp(address)) => status::print(&format!("metrics at http://{address}/metrics")),
            Some(other) => status::print(&format!("metrics at {other}")),
            None => Ok(()),
        }
    }

    fn print_totals(&self, totals: &Totals) -> anyhow::Result<()> {
        status::print(&if self.is_json {
            serde_json::json!({ "requests": totals.requests, "connections": totals.accepted }).to_string()
        } else {
            format!("{} requests on {} connections", totals.requests, totals.accepted)
        })
    }
}
