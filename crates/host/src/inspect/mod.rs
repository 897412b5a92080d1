//! Determines the network architecture of a running server from outside: what serves a connection.
//!
//! [`inspect`] samples `/proc` during a window (`sample`), which needs only the privileges of the server's user. The
//! rules (`rules`) name an architecture only if the window shows what no other one does. Otherwise the answer is
//! "cannot tell", with the reason. If the user is permitted to, it also traces system calls (`trace`): the rules for
//! these (`traced`) decide more cases, and the calls themselves (`account`) show how the server sends.

mod account;
mod calls;
mod growth;
mod rules;
mod sample;
mod trace;
mod traced;
mod unit;
mod wait;

use crate::demand::Demand;
use crate::report::{Answer, Request, examine};
use crate::rights;
use crate::root::Root;
use crate::subject::Unread;
use sample::{Listener, NotRead, Sample, Sampler, Sockets, Watchers, sockets_of, table};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use trace::probes::Probes;
use trace::stops::Stops;
use trace::{Collector, Trace};

pub use account::{Account, Call, Stopped};
pub use rules::Architecture;
pub use unit::main_process;

/// The version of the JSON answer, which docs/inspect.md describes.
const SCHEMA: u32 = 3;

/// Calls are counted in one of this many periods between samples, until [`ENOUGH_REPLIES`] were seen.
const SLICES: usize = 4;

/// From then on, calls are counted in one of this many periods.
const RARE_SLICES: usize = 16;

/// The number of counted replies from which a busy server's calls are counted more rarely: each reply has several
/// calls, and counting them costs the server time. Replies through `io_uring` or UDP are not counted.
const ENOUGH_REPLIES: u64 = 1_000;

/// The time between samples, unless a sample costs more than a tenth of it.
const PERIOD: Duration = Duration::from_millis(50);

/// The minimum of samples in a window if one costs more than a tenth of the period, but less than half of it.
const FEWEST_SAMPLES: u32 = 40;

/// The number of connections from which an answer has high confidence.
const MANY: usize = 32;

/// The server to inspect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The server to which a process belongs.
    Pid(u32),
    /// The server that listens on a TCP port in the network namespace of this process.
    Port(u16),
}

/// The source of an answer, in addition to `/proc`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Nothing: grade 1.
    Proc,
    /// System calls and lifetimes of tasks, counted by BPF programs at the kernel's tracepoints: grade 2.
    Bpf,
    /// The same, from ptrace stops of the server's tasks at each call, in time slices: grade 3. Used only on request.
    Ptrace,
}

/// The reason why nothing could be inspected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No process has that identifier.
    #[error("there is no process {0}; run `pidof PROGRAM` to find its pid")]
    NoProcess(u32),
    /// There is no such unit, or it has no process.
    #[error("the unit {0} has no control group with a process; `systemctl status {0}` shows whether it is active")]
    NoUnit(String),
    /// No socket listens on the port.
    #[error("no program listens on TCP port {0} in this network namespace; `ss -ltn` shows the ports in use")]
    NobodyListens(u16),
    /// The process has no listening socket.
    #[error("process {0} ({1}) and its children listen on no TCP port; `ss -ltnp` shows the programs that do")]
    NoListener(u32, String),
    /// The descriptors of the process cannot be read; the second text is the advice.
    #[error("cannot read the descriptors of {0}; {1}")]
    Unreadable(String, String),
    /// No visible process holds the listening socket of the port.
    #[error(
        "no visible process holds TCP port {0}: its owner may be the kernel, be in another pid namespace, or consist \
         of threads whose first one has ended"
    )]
    Unowned(u16),
    /// Several different programs hold the listening socket.
    #[error("several programs listen on port {port}: {owners}; specify one of the processes instead")]
    SeveralOwners {
        /// The port.
        port: u16,
        /// The programs with their process identifiers.
        owners: String,
    },
    /// A service manager was named, or it is the only holder of the listening socket until a connection starts the
    /// service.
    #[error(
        "process {0} ({1}) starts services and serves no connection itself; inspect the service, with --unit NAME or \
         its PID (a socket-activated service does not run before its first connection)"
    )]
    IsManager(u32, String),
    /// System calls cannot be traced as asked.
    #[error("cannot trace system calls: {0}; use --evidence proc to read only /proc")]
    Refused(String),
    /// The server ended during the window.
    #[error("process {0} ended during the window")]
    Ended(u32),
}

/// The confidence in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The architecture is unknown.
    None,
    /// Few connections were seen.
    Medium,
    /// Many connections were seen.
    High,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The version of these members.
    pub schema: u32,
    /// The server's first process.
    pub pid: u32,
    /// The name of that process.
    pub program: String,
    /// The TCP ports on which it listens.
    pub ports: Vec<u16>,
    /// The architecture; `None` if it is unknown.
    pub architecture: Option<Architecture>,
    /// The answer as a sentence.
    pub sentence: String,
    /// If it is unknown, the candidates among which the window does not decide; if empty, any.
    pub candidates: Vec<Architecture>,
    /// The confidence in the answer.
    pub confidence: Confidence,
    /// The rule that decided, or that could not decide.
    pub rule: &'static str,
    /// The grade of the evidence: 1, `/proc` alone; 2, also tracepoints; 3, also stops at system calls.
    pub evidence_grade: u8,
    /// The method that collected the evidence.
    pub evidence_by: Evidence,
    /// The basis of the rule, as sentences.
    pub evidence: Vec<String>,
    /// How the server waits: `epoll`, `io_uring`, `poll`, `select`, `sigio`, `aio`, or `blocking`.
    pub mechanism: Vec<&'static str>,
    /// Whether epoll watches the connections edge-triggered; `None` if it watches none, or that is not visible.
    pub is_edge_triggered: Option<bool>,
    /// How it accepts connections.
    pub acceptance: String,
    /// The maximum numbers of processes, threads, accepted and waiting connections at a time.
    pub most: Counts,
    /// The number of samples taken.
    pub samples: usize,
    /// The length of the window in seconds.
    pub window_s: f64,
    /// The counts of the trace; `None` with `/proc` alone.
    pub traced: Option<Account>,
    /// What could not be seen, with the reason.
    pub unseen: Vec<Unread>,
    /// What the architecture implies for growth.
    pub growth: Option<String>,
    /// The nearest limit of the process that serves most connections, from the rules of `landau doctor`.
    pub limit: Option<Answer>,
}

/// Maximum counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Processes of the server.
    pub processes: usize,
    /// Their threads.
    pub threads: usize,
    /// Connections of these processes.
    pub connections: usize,
    /// Connections that waited for `accept()`.
    pub waiting: usize,
}

/// A server: the processes that hold its listening sockets.
#[derive(Debug)]
struct Server {
    pid: u32,
    program: String,
    owners: BTreeSet<u32>,
    listeners: BTreeSet<Listener>,
}

/// The observations of a window.
#[derive(Debug, Default)]
struct Seen {
    samples: Vec<Sample>,
    window: Duration,
    is_edge_triggered: Option<bool>,
    is_signal_driven: bool,
    watchers: Watchers,
    trace: Option<Trace>,
    /// The reason why calls were not traced.
    refused: Option<String>,
}

/// Samples a server for the length of the window, or until `is_over`, and returns its architecture. Without `evidence`,
/// system calls are traced if this user is permitted to. With [`Evidence::Ptrace`], the server stops whenever this
/// process does: the caller must ignore the terminal's stop signals.
///
/// # Errors
///
/// [`Error`] if there is no such server, its descriptors cannot be read, it ends, or the requested evidence is not
/// available.
pub fn inspect(
    root: &Root,
    target: Target,
    window: Duration,
    evidence: Option<Evidence>,
    is_over: impl Fn() -> bool,
) -> Result<Inspection, Error> {
    let server = find(root, target)?;
    let mut seen = Seen::default();
    let mut sampler = Sampler::new(root, server.owners.clone(), server.listeners.clone());
    let mut collector = None;
    if evidence != Some(Evidence::Proc) {
        match attach(root, &server, &mut sampler, evidence) {
            Ok(attached) => collector = Some(attached),
            Err(why) if evidence.is_some() => return Err(Error::Refused(why)),
            Err(why) => seen.refused = Some(why),
        }
    }
    let (mut checked, mut next_slice) = (0, 0);
    let began = Instant::now();
    while seen.samples.len() < 2 || (began.elapsed() < window && !is_over()) {
        let (sample, cost) = sampler.take();
        let held = |process: &sample::Process| process.connections.as_ref().map_or(0, BTreeSet::len);
        if let Some(most) =
            sample.processes.iter().max_by_key(|process| held(process)).filter(|one| held(one) > checked)
        {
            checked = 2 * held(most);
            seen.is_edge_triggered = sampler.is_edge_triggered(most).or(seen.is_edge_triggered);
            seen.is_signal_driven |= sampler.is_signal_driven(most);
        }
        sampler.watch(&sample, &mut seen.watchers);
        let period = PERIOD.max(cost).max((cost * 9).min(window / FEWEST_SAMPLES));
        let index = seen.samples.len();
        if let Err(why) = wait(collector.as_mut(), &mut sampler, &sample, index, &mut next_slice, period) {
            (collector, seen.refused) = (None, Some(why));
        }
        seen.samples.push(sample);
    }
    if !table(root).contains_key(&server.pid) {
        return Err(Error::Ended(server.pid));
    }
    seen.window = began.elapsed();
    match collector.map(Collector::finish).transpose() {
        Ok(trace) => seen.trace = trace,
        Err(why) => seen.refused = Some(why),
    }
    match (&seen.refused, evidence) {
        (Some(why), Some(Evidence::Bpf | Evidence::Ptrace)) => Err(Error::Refused(why.clone())),
        _ => Ok(answer(root, &server, &seen)),
    }
}

fn attach(
    root: &Root,
    server: &Server,
    sampler: &mut Sampler,
    evidence: Option<Evidence>,
) -> Result<Collector, String> {
    if evidence == Some(Evidence::Ptrace) {
        let processes = sampler.take().0.processes;
        sampler.expect_stops();
        return Ok(Collector::Stops(Stops::attach(root, server.pid, &server.listeners, &processes)?));
    }
    let network = root.link(&format!("proc/{}/ns/net", server.pid));
    let network = network.and_then(|link| link.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
    let network = network.ok_or_else(|| format!("the network namespace of process {} cannot be read", server.pid))?;
    Ok(Collector::Probes(Box::new(Probes::attach(root, &server.ports(), network)?)))
}

/// Waits for the next sample, during the period with this index. Calls are counted if it is that of the next time
/// slice, which then moves on; the first period follows all tasks.
fn wait(
    collector: Option<&mut Collector>,
    sampler: &mut Sampler,
    sample: &Sample,
    index: usize,
    next_slice: &mut usize,
    period: Duration,
) -> Result<(), String> {
    let Some(collector) = collector else {
        std::thread::sleep(period);
        return Ok(());
    };
    let mut is_new = collector.follow(&sample.processes)?;
    // A thread that was not followed yet may have created another one in the meantime.
    for _ in 0..FOLLOWS {
        is_new = is_new && index == 0 && collector.follow(&sampler.take().0.processes)?;
    }
    if index >= *next_slice {
        *next_slice = index + if collector.resume()? < ENOUGH_REPLIES { SLICES } else { RARE_SLICES };
    }
    std::thread::sleep(period);
    collector.pause()
}

/// The maximum number of times that the tasks of a server are listed at the start.
const FOLLOWS: usize = 5;

fn answer(root: &Root, server: &Server, seen: &Seen) -> Inspection {
    let samples = &seen.samples[..];
    let mut decision = rules::decide(samples, &seen.watchers);
    if root.sysctl("kernel.randomize_va_space").as_deref() == Some("0") {
        decision = decision.without_random_stacks();
    }
    if let Some(trace) = &seen.trace {
        decision = traced::Window { trace, samples, watchers: &seen.watchers }.decide(decision);
    }
    let account = seen.trace.as_ref().map(account::account);
    let (evidence_grade, evidence_by) = match &account {
        None => (1, Evidence::Proc),
        Some(Account { stopped: None, .. }) => (2, Evidence::Bpf),
        Some(Account { stopped: Some(stopped), .. }) => {
            decision.evidence.push(stopped.sentence());
            (3, Evidence::Ptrace)
        }
    };
    let listeners: Vec<(String, u64)> = server.listeners.iter().map(|one| (one.address.clone(), one.inode)).collect();
    let most = counts(samples);
    let architecture = decision.architecture;
    let mechanism = architecture.map_or(Vec::new(), |one| mechanism(seen, one, account.as_ref()));
    let watched = account.as_ref().and_then(|account| account.is_edge_triggered).or(seen.is_edge_triggered);
    let unseen = unseen(root, seen, &decision, account.as_ref());
    let limit = architecture.and_then(|one| nearest_limit(root, decision.busiest.unwrap_or(server.pid), one));
    Inspection {
        schema: SCHEMA,
        pid: server.pid,
        program: server.program.clone(),
        ports: server.ports(),
        architecture,
        sentence: sentence(&decision),
        confidence: match architecture {
            None => Confidence::None,
            Some(_) if is_many(&most, account.as_ref()) => Confidence::High,
            Some(_) => Confidence::Medium,
        },
        candidates: decision.candidates,
        rule: decision.rule,
        evidence_grade,
        evidence_by,
        evidence: decision.evidence,
        is_edge_triggered: watched.filter(|_| mechanism.contains(&"epoll")),
        mechanism,
        acceptance: rules::acceptance(samples, &listeners, architecture),
        most,
        samples: samples.len(),
        window_s: seen.window.as_secs_f64(),
        traced: account,
        unseen,
        growth: architecture.map(Architecture::growth),
        limit,
    }
}

fn sentence(decision: &rules::Decision) -> String {
    let name = |one: &Architecture| one.about();
    let between = decision.candidates.iter().map(name).collect::<Vec<_>>().join("; or ");
    match decision.architecture {
        Some(one) => one.about().to_owned(),
        None if between.is_empty() => format!("cannot tell: {}", decision.rule),
        None => format!("cannot tell: {between}"),
    }
}

/// Returns whether enough connections were seen for high confidence.
fn is_many(most: &Counts, account: Option<&Account>) -> bool {
    most.connections + most.waiting >= MANY || account.is_some_and(|account| account.established >= 4 * MANY as u64)
}

/// Returns how the serving tasks wait.
fn mechanism(seen: &Seen, architecture: Architecture, account: Option<&Account>) -> Vec<&'static str> {
    if seen.is_signal_driven {
        return vec!["sigio"];
    }
    let by_proc = rules::mechanisms(&seen.samples, architecture);
    let is_blocking = |trace: &Trace| {
        let mut serving = trace.tasks.values().filter(|task| task.visits() > 0).peekable();
        serving.peek().is_some() && serving.all(|task| task.waits == 0)
    };
    match account {
        Some(_) if !architecture.is_asynchronous() && seen.trace.as_ref().is_some_and(is_blocking) => vec!["blocking"],
        Some(account) if architecture.is_asynchronous() && !account.waits.is_empty() => account.waits.clone(),
        _ => by_proc,
    }
}

fn counts(samples: &[Sample]) -> Counts {
    let most = |of: &dyn Fn(&Sample) -> usize| samples.iter().map(of).max().unwrap_or(0);
    Counts {
        processes: most(&|sample| sample.processes.len()),
        threads: most(&|sample| sample.processes.iter().map(|process| process.threads.len()).sum()),
        connections: most(&|sample| {
            let held = sample.processes.iter().filter_map(|process| process.connections.as_ref());
            held.flatten().collect::<BTreeSet<_>>().len()
        }),
        waiting: most(&|sample| sample.waiting.len()),
    }
}

fn unseen(root: &Root, seen: &Seen, decision: &rules::Decision, account: Option<&Account>) -> Vec<Unread> {
    let mut unseen = Vec::new();
    let mut add = |what: &str, why: &str| unseen.push(Unread { what: what.to_owned(), why: why.to_owned() });
    let as_whom = rights::advice(root, "landau inspect");
    if let Some(advice) = decision.advice.as_deref().or(decision.needs_rights.then_some(as_whom.as_str())) {
        add("needed for a decision", advice);
    }
    let processes = || seen.samples.iter().flat_map(|sample| &sample.processes);
    let rights = format!("this user cannot read it; {as_whom}");
    if processes().any(|process| process.connections.is_none()) {
        add("the descriptors of some processes", &rights);
    }
    let threads = || processes().flat_map(|process| &process.threads);
    let unknown = threads().filter(|thread| thread.wait == Some(wait::Wait::Unseen)).count();
    if unknown * 2 > threads().count() {
        add("the system calls of threads", &rights);
    }
    if let Some(account) = account {
        unseen_by_trace(seen, account, &mut add);
        return unseen;
    }
    add("events between two samples", "tasks that live less than 50 ms are seen only occasionally");
    let why = seen.refused.as_deref().unwrap_or("/proc shows only calls that block; --evidence bpf shows it");
    add("how it sends (write, writev, sendfile, splice)", why);
    unseen
}

/// Adds what a trace does not show.
fn unseen_by_trace(seen: &Seen, account: &Account, add: &mut impl FnMut(&str, &str)) {
    let trace = seen.trace.as_ref();
    if let Some(lost) = trace.map(|trace| trace.lost).filter(|lost| *lost > 0) {
        let why = format!("{lost} tasks or kinds of calls did not fit in the tables; use a shorter window");
        add("some tasks", &why);
    }
    if let Some(unread) = trace.map(|trace| trace.unread).filter(|unread| *unread > 0) {
        let why =
            format!("{unread} stops were at calls of 32-bit programs, or at calls that this kernel does not describe");
        add("some system calls", &why);
    }
    let has_rings = seen.samples.iter().flat_map(|sample| &sample.processes).any(|process| process.rings > 0);
    if has_rings {
        let why = if account.stopped.is_some() {
            "they are not system calls, so ptrace cannot see them; use --evidence bpf"
        } else if trace.is_some_and(|trace| trace.sees_rings) {
            "an operation that was submitted before the window, or on a registered descriptor, cannot be assigned to a \
             connection"
        } else {
            "this kernel has no tracepoint for them (Linux 6.3 has)"
        };
        add("some operations of io_uring", why);
    }
    if account.datagrams > 0 {
        let why = format!("{} calls on UDP sockets; only TCP is examined", account.datagrams);
        add("requests over UDP", &why);
    }
    let (counted_s, window_s) = (account.counted_s, seen.window.as_secs_f64());
    let why = format!("calls were counted for {counted_s:.2} of {window_s:.2} s, to disturb the server less");
    add("calls outside the time slices", &why);
}

/// Returns the limit of the object that each connection takes in this architecture.
fn nearest_limit(root: &Root, pid: u32, architecture: Architecture) -> Option<Answer> {
    let kind = match architecture {
        Architecture::Exec | Architecture::Fork | Architecture::Prefork => "processes",
        Architecture::Thread | Architecture::ThreadPool => "threads",
        _ => "idle",
    };
    let demand = Demand::parse(kind).ok()?;
    // The busiest process may have ended since: then its limits are omitted.
    let request = Request::new(root, Some(pid), vec![demand]).ok()?;
    examine(root, &request).answers.into_iter().next()
}

impl Server {
    /// Returns its TCP ports.
    fn ports(&self) -> Vec<u16> {
        let ports: BTreeSet<u16> = self.listeners.iter().map(|listener| listener.port).collect();
        ports.into_iter().collect()
    }
}

/// Finds the processes that hold the listening sockets of a server.
fn find(root: &Root, target: Target) -> Result<Server, Error> {
    let table = table(root);
    let listeners = match target {
        Target::Port(port) => {
            let all = Sockets::read(root, "self").listeners;
            let ours: BTreeSet<Listener> = all.into_iter().filter(|listener| listener.port == port).collect();
            if ours.is_empty() { Err(Error::NobodyListens(port)) } else { Ok(ours) }
        }
        Target::Pid(pid) => match table.get(&pid).filter(|entry| is_manager(entry)) {
            Some(manager) => Err(Error::IsManager(pid, manager.program.clone())),
            None => listeners_of(root, pid, &table),
        },
    }?;
    let inodes: BTreeSet<u64> = listeners.iter().map(|listener| listener.inode).collect();
    let holders = |of_all_threads: bool| -> BTreeSet<u32> {
        let sockets = |pid: u32| sockets_of(root, pid, of_all_threads);
        let holds = |pid: &u32| sockets(*pid).is_ok_and(|sockets| !sockets.is_disjoint(&inodes));
        table.keys().copied().filter(holds).collect()
    };
    let is_of_manager = |pid: &u32| table.get(pid).is_some_and(is_manager);
    let mut owners = holders(false);
    if owners.iter().all(is_of_manager) {
        owners.extend(holders(true));
    }
    // A manager keeps the sockets that it passes to services, and is an ancestor of all processes that it started.
    let manager = owners.iter().find(|pid| is_of_manager(pid)).and_then(|pid| table.get(pid));
    owners.retain(|pid| !is_of_manager(pid));
    if let Some(manager) = manager.filter(|_| owners.is_empty()) {
        return Err(Error::IsManager(manager.pid, manager.program.clone()));
    }
    let program = |pid: &u32| table.get(pid).map_or(String::new(), |entry| entry.program.clone());
    let is_first = |pid: &&u32| !ancestors(**pid, &table).iter().any(|above| owners.contains(above));
    let firsts: Vec<u32> = owners.iter().filter(is_first).copied().collect();
    let port = listeners.first().map_or(0, |listener| listener.port);
    let Some(&pid) = firsts.first() else {
        let is_forbidden = |pid: &u32| matches!(sockets_of(root, *pid, false), Err(NotRead::Forbidden));
        return Err(if table.keys().any(is_forbidden) {
            unreadable(root, format!("the owner of port {port}"))
        } else {
            Error::Unowned(port)
        });
    };
    if firsts.iter().any(|other| program(other) != program(&pid)) {
        let owners = firsts.iter().map(|pid| format!("{} ({pid})", program(pid))).collect::<Vec<_>>().join(", ");
        return Err(Error::SeveralOwners { port, owners });
    }
    Ok(Server { pid, program: program(&pid), owners, listeners })
}

/// Returns whether a process is a service manager: systemd, including a user manager, or the host's init. In a
/// container, process 1 may be the server itself.
fn is_manager(entry: &sample::Entry) -> bool {
    entry.program == "systemd" || (entry.pid == 1 && entry.program == "init")
}

/// Returns the listening sockets of a process, or of its descendants if it has none.
fn listeners_of(root: &Root, pid: u32, table: &BTreeMap<u32, sample::Entry>) -> Result<BTreeSet<Listener>, Error> {
    let entry = table.get(&pid).ok_or(Error::NoProcess(pid))?;
    let all = Sockets::read(root, &pid.to_string()).listeners;
    let of = |entry: &sample::Entry| match sockets_of(root, entry.pid, true) {
        Ok(sockets) => Ok(all.iter().filter(|one| sockets.contains(&one.inode)).cloned().collect::<BTreeSet<_>>()),
        Err(NotRead::Ended) => Err(Error::NoProcess(entry.pid)),
        Err(NotRead::Forbidden) => Err(unreadable(root, format!("process {} ({})", entry.pid, entry.program))),
    };
    let own = of(entry)?;
    if !own.is_empty() {
        return Ok(own);
    }
    let below = table.values().filter(|other| ancestors(other.pid, table).contains(&pid)).map(of);
    let (found, failed): (Vec<_>, Vec<_>) = below.partition(Result::is_ok);
    let found: BTreeSet<Listener> = found.into_iter().flatten().flatten().collect();
    if !found.is_empty() {
        return Ok(found);
    }
    // A process that cannot be read may be the listener.
    let hidden = failed.into_iter().filter_map(Result::err).find(|error| matches!(error, Error::Unreadable(..)));
    Err(hidden.unwrap_or_else(|| Error::NoListener(pid, entry.program.clone())))
}

fn unreadable(root: &Root, what: String) -> Error {
    Error::Unreadable(what, rights::advice(root, "landau inspect"))
}

/// Returns the ancestors of a process, up to init.
fn ancestors(pid: u32, table: &BTreeMap<u32, sample::Entry>) -> Vec<u32> {
    let mut found = Vec::new();
    let mut at = pid;
    while let Some(parent) = table.get(&at).map(|entry| entry.parent).filter(|&parent| parent > 0) {
        if found.len() > table.len() {
            break;
        }
        found.push(parent);
        at = parent;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds a server on a host with these processes, each with number, parent, program, and whether it holds the
    /// listening socket of port 8080. Returns the first process of the server, and those that hold the socket.
    fn found(target: Target, processes: &[(u32, u32, &str, bool)]) -> Result<(u32, Vec<u32>), Error> {
        let room = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = room.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let listening = "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:0 0 0 0 77 1 0 100 0 0 10 0";
        let sockets = format!("  sl  local_address\n{listening}\n");
        write("proc/self/net/tcp", &sockets);
        for (pid, parent, program, holds) in processes {
            write(&format!("proc/{pid}/stat"), &format!("{pid} ({program}) S {parent} 1 1 0 {}", "0 ".repeat(40)));
            write(&format!("proc/{pid}/net/tcp"), &sockets);
            let folder = room.path().join(format!("proc/{pid}/fd"));
            std::fs::create_dir_all(&folder).unwrap();
            if *holds {
                std::os::unix::fs::symlink("socket:[77]", folder.join("3")).unwrap();
            }
        }
        let server = find(&Root::planted(room.path()), target)?;
        Ok((server.pid, server.owners.into_iter().collect()))
    }

    const PORT: Target = Target::Port(8080);

    #[test]
    fn a_socket_that_only_a_manager_holds_is_no_server() {
        let by_init = |program| found(PORT, &[(1, 0, program, true), (40, 1, "server", false)]);
        for program in ["systemd", "init"] {
            assert_eq!(by_init(program), Err(Error::IsManager(1, program.to_owned())));
        }
        let of_user = [(1, 0, "systemd", false), (30, 1, "systemd", true), (40, 30, "server", false)];
        assert_eq!(found(PORT, &of_user), Err(Error::IsManager(30, "systemd".to_owned())));
        let by_nobody = found(PORT, &[(1, 0, "systemd", false), (40, 1, "server", false)]);
        assert_eq!(by_nobody, Err(Error::Unowned(8080)));
    }

    /// A regular file represents a link that cannot be read: root without `CAP_SYS_PTRACE` may list the descriptors of
    /// other users' programs, but not read them. Landau once reported that such a program listens on no TCP port.
    #[test]
    fn descriptors_whose_links_cannot_be_read_may_be_those_of_a_listener() {
        let found = |hidden: u32, processes: &[(u32, u32)]| {
            let room = tempfile::tempdir().unwrap();
            for (pid, parent) in processes {
                let folder = room.path().join(format!("proc/{pid}"));
                std::fs::create_dir_all(folder.join("fd")).unwrap();
                let stat = format!("{pid} (server) S {parent} 1 1 0 {}", "0 ".repeat(40));
                std::fs::write(folder.join("stat"), stat).unwrap();
            }
            std::os::unix::fs::symlink("/dev/null", room.path().join("proc/40/fd/0")).unwrap();
            std::fs::write(room.path().join(format!("proc/{hidden}/fd/3")), "").unwrap();
            find(&Root::planted(room.path()), Target::Pid(40)).unwrap_err()
        };
        for (hidden, processes) in [(40, &[(40, 1)][..]), (41, &[(40, 1), (41, 40)])] {
            let error = found(hidden, processes);
            assert!(matches!(error, Error::Unreadable(..)), "{error}");
            assert!(error.to_string().contains(&format!("process {hidden} (server)")), "{error}");
        }
    }

    /// A manager holds the sockets of all socket-activated services. A user manager was once taken for the server, and
    /// every process that it had started for part of it.
    #[test]
    fn the_manager_that_started_a_server_is_no_part_of_it() {
        let by_init = [(1, 0, "systemd", true), (40, 1, "server", true), (41, 1, "other", false)];
        assert_eq!(found(PORT, &by_init), Ok((40, vec![40])));
        let of_user = [(1, 0, "systemd", false), (30, 1, "systemd", true), (40, 30, "server", true)];
        assert_eq!(found(PORT, &of_user), Ok((40, vec![40])));
        assert_eq!(found(Target::Pid(40), &of_user), Ok((40, vec![40])));
        assert_eq!(found(Target::Pid(30), &of_user), Err(Error::IsManager(30, "systemd".to_owned())));
    }

    /// In a container, process 1 may be the server, which forks the serving processes.
    #[test]
    fn process_1_of_a_container_is_the_server() {
        assert_eq!(found(PORT, &[(1, 0, "server", true)]), Ok((1, vec![1])));
        assert_eq!(found(PORT, &[(1, 0, "server", true), (40, 1, "server", true)]), Ok((1, vec![1, 40])));
    }
}
