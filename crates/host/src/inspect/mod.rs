//! The network architecture of a running server, from outside: what serves a connection.
//!
//! Evidence is `/proc` alone: nothing is traced or stopped, and no privilege is needed beyond that of the server's
//! user.
//! [`inspect`] samples the server during a window (`sample`), and the rules (`rules`) name the architecture only if
//! the window shows what no other one does. Otherwise the answer is that it cannot be told, with the reason.

mod rules;
mod sample;
mod wait;

use crate::demand::Demand;
use crate::report::{Answer, Request, examine};
use crate::root::Root;
use crate::subject::Unread;
use sample::{Listener, Sample, Sampler, Sockets, sockets_of, table};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub use rules::Architecture;

/// The version of the answer as JSON; docs/inspect.md describes it.
const SCHEMA: u32 = 1;

/// The time between samples, unless a sample costs more than a tenth of it.
const PERIOD: Duration = Duration::from_millis(50);

/// Connections from which an answer is of high confidence.
const MANY: usize = 32;

/// What is inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The server to which a process belongs.
    Pid(u32),
    /// The server that listens on a TCP port in the network namespace of this process.
    Port(u16),
}

/// Why nothing could be inspected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no process with that number.
    #[error("there is no process {0}; `pidof PROGRAM` shows the number")]
    NoProcess(u32),
    /// No socket listens on the port.
    #[error("no program listens on TCP port {0} in this network namespace; `ss -ltn` shows the ports in use")]
    NobodyListens(u16),
    /// The process has no listening socket.
    #[error("process {0} ({1}) and its children listen on no TCP port; `ss -ltnp` shows the programs that do")]
    NoListener(u32, String),
    /// The descriptors of the process may not be read.
    #[error("cannot read the descriptors of {0}; run landau inspect as root or as the program's user")]
    Unreadable(String),
    /// Different programs hold the listening socket.
    #[error("several programs listen on port {port}: {owners}; name one of the processes instead")]
    SeveralOwners {
        /// The port.
        port: u16,
        /// The programs with their process identifiers.
        owners: String,
    },
    /// The server ended during the window.
    #[error("process {0} ended during the window")]
    Ended(u32),
}

/// How sure an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The architecture cannot be told.
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
    /// Its name.
    pub program: String,
    /// The TCP ports on which it listens.
    pub ports: Vec<u16>,
    /// The architecture; none if it cannot be told.
    pub architecture: Option<Architecture>,
    /// The answer as a sentence.
    pub sentence: String,
    /// If it cannot be told, the architectures between which the window does not decide; none named: any.
    pub candidates: Vec<Architecture>,
    /// How sure the answer is.
    pub confidence: Confidence,
    /// The rule that decided, or that could not.
    pub rule: &'static str,
    /// The grade of the evidence: 1, `/proc` alone.
    pub evidence_grade: u8,
    /// What the rule is based on, as sentences.
    pub evidence: Vec<String>,
    /// How the server waits: `epoll`, `io_uring`, `poll`, `select`, or `blocking`.
    pub mechanism: Vec<&'static str>,
    /// Whether epoll watches the connections edge-triggered; none if it watches none, or that cannot be seen.
    pub is_edge_triggered: Option<bool>,
    /// How it accepts connections.
    pub acceptance: String,
    /// The most processes, threads, accepted and waiting connections at a time.
    pub most: Counts,
    /// Samples that were taken, and seconds between the first and the end.
    pub samples: usize,
    /// The length of the window in seconds.
    pub window_s: f64,
    /// What could not be seen, and why.
    pub unseen: Vec<Unread>,
    /// What the architecture means for growth.
    pub growth: Option<String>,
    /// The nearest limit, by the rules of `landau doctor` for the process that serves most connections.
    pub limit: Option<Answer>,
}

/// Counts at their largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Processes of the server.
    pub processes: usize,
    /// Their threads.
    pub threads: usize,
    /// Connections that they held.
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

/// Samples a server for the length of the window, or until `is_over`, and says which architecture it has.
///
/// # Errors
///
/// [`Error`] if there is no such server, its descriptors may not be read, or it ends.
pub fn inspect(root: &Root, target: Target, window: Duration, is_over: impl Fn() -> bool) -> Result<Inspection, Error> {
    let server = find(root, target)?;
    let mut sampler = Sampler::new(root, server.owners.clone(), server.listeners.clone());
    let (mut samples, mut checked, mut edge) = (Vec::<Sample>::new(), 0, None);
    let began = Instant::now();
    while samples.len() < 2 || (began.elapsed() < window && !is_over()) {
        let (sample, cost) = sampler.take();
        let held = |process: &sample::Process| process.connections.as_ref().map_or(0, BTreeSet::len);
        if let Some(most) =
            sample.processes.iter().max_by_key(|process| held(process)).filter(|one| held(one) > checked)
        {
            (checked, edge) = (2 * held(most), sampler.is_edge_triggered(most).or(edge));
        }
        samples.push(sample);
        std::thread::sleep(PERIOD.max(cost * 9));
    }
    if !table(root).contains_key(&server.pid) {
        return Err(Error::Ended(server.pid));
    }
    Ok(answer(root, &server, &samples, began.elapsed(), edge))
}

fn answer(root: &Root, server: &Server, samples: &[Sample], window: Duration, edge: Option<bool>) -> Inspection {
    let mut decision = rules::decide(samples);
    if root.sysctl("kernel.randomize_va_space").as_deref() == Some("0") {
        decision = decision.without_random_stacks();
    }
    let listeners: Vec<(String, u64)> = server.listeners.iter().map(|one| (one.address.clone(), one.inode)).collect();
    let ports: BTreeSet<u16> = server.listeners.iter().map(|listener| listener.port).collect();
    let most = counts(samples);
    let architecture = decision.architecture;
    let mechanism = architecture.map_or(Vec::new(), |one| rules::mechanisms(samples, one));
    let name = |one: &Architecture| one.about();
    let between = decision.candidates.iter().map(name).collect::<Vec<_>>().join("; or ");
    let sentence = match architecture {
        Some(one) => one.about().to_owned(),
        None if between.is_empty() => format!("cannot tell: {}", decision.rule),
        None => format!("cannot tell: {between}"),
    };
    let limit = architecture.and_then(|one| nearest_limit(root, decision.busiest.unwrap_or(server.pid), one));
    Inspection {
        schema: SCHEMA,
        pid: server.pid,
        program: server.program.clone(),
        ports: ports.into_iter().collect(),
        architecture,
        sentence,
        confidence: match architecture {
            None => Confidence::None,
            Some(_) if most.connections + most.waiting >= MANY => Confidence::High,
            Some(_) => Confidence::Medium,
        },
        candidates: decision.candidates,
        rule: decision.rule,
        evidence_grade: 1,
        evidence: decision.evidence,
        is_edge_triggered: edge.filter(|_| mechanism.contains(&"epoll")),
        mechanism,
        acceptance: rules::acceptance(samples, &listeners, architecture),
        most,
        samples: samples.len(),
        window_s: window.as_secs_f64(),
        unseen: unseen(samples, decision.advice.as_deref()),
        growth: architecture.map(|one| growth(one).to_owned()),
        limit,
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

fn unseen(samples: &[Sample], advice: Option<&str>) -> Vec<Unread> {
    let mut unseen = Vec::new();
    let mut add = |what: &str, why: &str| unseen.push(Unread { what: what.to_owned(), why: why.to_owned() });
    if let Some(advice) = advice {
        add("what would decide", advice);
    }
    let processes = || samples.iter().flat_map(|sample| &sample.processes);
    let rights = "this user may not read it; run landau inspect as root or as the program's user";
    if processes().any(|process| process.connections.is_none()) {
        add("the descriptors of some processes", rights);
    }
    let threads = || processes().flat_map(|process| &process.threads);
    let unknown = threads().filter(|thread| thread.wait == Some(wait::Wait::Unseen)).count();
    if unknown * 2 > threads().count() {
        add("the system calls of threads", rights);
    }
    add("what happens between two samples", "tasks that live less than 50 ms are seen only now and then");
    add("how it sends (write, writev, sendfile, splice)", "/proc shows only calls that block; tracing would show it");
    unseen
}

/// Returns what an architecture means for growth, and the benchmark that measures it.
fn growth(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Exec => {
            "each connection costs an execution and a process: `landau run architecture --set \
             architecture.architecture=exec` measures it"
        }
        Architecture::Fork => {
            "each connection costs a fork, which copies the parent's page tables, and a process: `landau run \
             architecture --set \
             architecture.architecture=fork` measures it"
        }
        Architecture::Prefork => {
            "at most as many connections are served as the pool has processes; further ones wait: `landau run \
             architecture --set \
             architecture.architecture=prefork` measures it"
        }
        Architecture::Thread => {
            "each connection costs a thread and its stack: `landau run architecture --set \
             architecture.architecture=thread` measures it"
        }
        Architecture::ThreadPool => {
            "at most as many connections are served as the pool has threads; further ones wait: `landau run \
             architecture --set \
             architecture.architecture=thread-pool` measures it"
        }
        Architecture::EventLoop | Architecture::EventLoopWithWorkers => {
            "a connection costs a descriptor and its buffers, and one processor watches them all: `landau run \
             architecture --set \
             architecture.architecture=event-loop` measures it"
        }
        Architecture::EventLoops | Architecture::EventLoopProcesses => {
            "a connection costs a descriptor and its buffers, on as many processors as there are loops: `landau run \
             architecture --set \
             architecture.architecture=event-loops` measures it"
        }
        Architecture::Iterative => "a slow client stops all others: connections wait for accept()",
    }
}

/// Returns the limit of the objects that a connection takes in this architecture.
fn nearest_limit(root: &Root, pid: u32, architecture: Architecture) -> Option<Answer> {
    let kind = match architecture {
        Architecture::Exec | Architecture::Fork | Architecture::Prefork => "processes",
        Architecture::Thread | Architecture::ThreadPool => "threads",
        _ => "idle",
    };
    let demand = Demand::parse(kind).ok()?;
    // The busiest process may have ended since: then nothing is said of its limits.
    let request = Request::new(root, Some(pid), vec![demand]).ok()?;
    examine(root, &request).answers.into_iter().next()
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
        Target::Pid(pid) => listeners_of(root, pid, &table),
    }?;
    let inodes: BTreeSet<u64> = listeners.iter().map(|listener| listener.inode).collect();
    let holds = |pid: &u32| sockets_of(root, *pid).is_some_and(|sockets| !sockets.is_disjoint(&inodes));
    let mut owners: BTreeSet<u32> = table.keys().copied().filter(holds).collect();
    // init keeps the sockets that it passed to the server.
    if owners.len() > 1 {
        owners.remove(&1);
    }
    let is_first = |pid: &&u32| !ancestors(**pid, &table).iter().any(|above| owners.contains(above));
    let firsts: Vec<u32> = owners.iter().filter(is_first).copied().collect();
    let port = listeners.first().map_or(0, |listener| listener.port);
    let Some(&pid) = firsts.first() else { return Err(Error::Unreadable(format!("the owner of port {port}"))) };
    let program = |pid: &u32| table.get(pid).map_or(String::new(), |entry| entry.program.clone());
    if firsts.iter().any(|other| program(other) != program(&pid)) {
        let owners = firsts.iter().map(|pid| format!("{} ({pid})", program(pid))).collect::<Vec<_>>().join(", ");
        return Err(Error::SeveralOwners { port, owners });
    }
    Ok(Server { pid, program: program(&pid), owners, listeners })
}

/// Returns the listening sockets of a process, or of its descendants if it has none.
fn listeners_of(root: &Root, pid: u32, table: &BTreeMap<u32, sample::Entry>) -> Result<BTreeSet<Listener>, Error> {
    let entry = table.get(&pid).ok_or(Error::NoProcess(pid))?;
    let all = Sockets::read(root, &pid.to_string()).listeners;
    let of = |pid: u32| {
        let sockets = sockets_of(root, pid)?;
        Some(all.iter().filter(|one| sockets.contains(&one.inode)).cloned().collect::<BTreeSet<_>>())
    };
    let own = of(pid).ok_or_else(|| Error::Unreadable(format!("process {pid} ({})", entry.program)))?;
    let below = table.keys().filter(|other| ancestors(**other, table).contains(&pid));
    let found = if own.is_empty() { below.filter_map(|&pid| of(pid)).flatten().collect() } else { own };
    if found.is_empty() { Err(Error::NoListener(pid, entry.program.clone())) } else { Ok(found) }
}

/// Returns the parents of a process, up to init.
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
