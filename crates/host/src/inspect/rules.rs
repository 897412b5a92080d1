//! The rules that derive the architecture of a server from its samples, or the reason why it is unknown.
//!
//! A rule needs something that no other architecture shows. A task that ends with its connection was created for it. A
//! task that outlives its connection, and blocks on it, belongs to a pool. A process with more connections than threads
//! has a thread that serves several. If a window shows none of these, the rules name the candidates.

use super::sample::{Process, Sample, Thread, Watchers};
use super::wait::Wait;
use crate::text::counted;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A network architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// A program is executed for each connection.
    Exec,
    /// A process is forked for each connection.
    Fork,
    /// A pool of processes, each of which serves one connection at a time.
    Prefork,
    /// A thread is created for each connection.
    Thread,
    /// A pool of threads, each of which serves one connection at a time.
    ThreadPool,
    /// One thread serves all connections.
    EventLoop,
    /// One thread watches all connections and hands their requests to other threads.
    EventLoopWithWorkers,
    /// Several threads of a process serve several connections each.
    EventLoops,
    /// Several processes serve several connections each.
    EventLoopProcesses,
    /// One process serves one connection after another.
    Iterative,
}

impl Architecture {
    /// Returns a description of what handles a connection.
    pub fn about(self) -> &'static str {
        match self {
            Self::Exec => "a program executed for each connection",
            Self::Fork => "a process forked for each connection",
            Self::Prefork => "a pool of processes, each serving one connection at a time",
            Self::Thread => "a thread created for each connection",
            Self::ThreadPool => "a pool of threads, each serving one connection at a time",
            Self::EventLoop => "one asynchronous thread",
            Self::EventLoopWithWorkers => "one asynchronous thread that hands requests to worker threads",
            Self::EventLoops => "several asynchronous threads",
            Self::EventLoopProcesses => "several processes, each asynchronous",
            Self::Iterative => "one process serving one connection after the other",
        }
    }

    /// Returns whether a thread serves several connections.
    pub fn is_asynchronous(self) -> bool {
        matches!(self, Self::EventLoop | Self::EventLoopWithWorkers | Self::EventLoops | Self::EventLoopProcesses)
    }
}

/// The result of the rules for a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) architecture: Option<Architecture>,
    /// The architectures that the window does not distinguish.
    pub(super) candidates: Vec<Architecture>,
    /// The name of the rule.
    pub(super) rule: &'static str,
    pub(super) evidence: Vec<String>,
    /// How to reach a decision, if there was none.
    pub(super) advice: Option<String>,
    /// Whether more privileges would lead to a decision, if there was none.
    pub(super) needs_rights: bool,
    /// The process that served most connections.
    pub(super) busiest: Option<u32>,
}

impl Decision {
    pub(super) fn found(architecture: Architecture, rule: &'static str, evidence: Vec<String>) -> Self {
        Self { architecture: Some(architecture), rule, evidence, ..Self::default() }
    }

    /// Returns whether a thread serves several connections in every architecture that is possible.
    fn is_asynchronous(&self) -> bool {
        let is_each = self.candidates.iter().all(|one| one.is_asynchronous());
        self.architecture.map_or(!self.candidates.is_empty() && is_each, Architecture::is_asynchronous)
    }

    pub(super) fn unknown(
        rule: &'static str,
        candidates: &[Architecture],
        evidence: Vec<String>,
        advice: &str,
    ) -> Self {
        let (candidates, advice) = (candidates.to_vec(), Some(advice.to_owned()));
        Self { candidates, rule, evidence, advice, ..Self::default() }
    }

    /// Returns a decision for a window where something decisive is unreadable.
    fn unreadable(rule: &'static str, candidates: &[Architecture], evidence: Vec<String>) -> Self {
        Self { candidates: candidates.to_vec(), rule, evidence, needs_rights: true, ..Self::default() }
    }
}

impl Decision {
    /// Returns the decision, with the candidates of the other one if both are undecided and the other has fewer.
    pub(super) fn or_candidates(self, other: Self) -> Self {
        let is_narrower = other.candidates.len() < self.candidates.len() || self.candidates.is_empty();
        if self.architecture.is_some() || other.candidates.is_empty() || !is_narrower {
            return self;
        }
        let evidence = [self.evidence, other.evidence].concat();
        Self { evidence, busiest: self.busiest, ..other }
    }

    /// Returns the decision for a host that places every stack at the same address: there, a program that executes its
    /// own file again looks like one that forks.
    pub(super) fn without_random_stacks(self) -> Self {
        if self.architecture != Some(Architecture::Fork) {
            return self;
        }
        let candidates = vec![Architecture::Exec, Architecture::Fork];
        let advice = "set kernel.randomize_va_space to its default and restart the server".to_owned();
        Self { architecture: None, candidates, advice: Some(advice), ..self }
    }
}

/// The minimum of connections for any conclusion.
const FEWEST: usize = 4;

/// A task that still exists this long after its connection ended has outlived it.
const OUTLIVED_MS: u64 = 500;

/// Advice if all connections stayed open.
const CLOSE_SOME: &str = "close some connections during the window, or let --load do it";

/// A process during the window.
#[derive(Debug)]
pub(super) struct Life<'a> {
    pub(super) pid: u32,
    /// The samples in which it was seen, with the connections that it serves: those that no descendant has open.
    seen: Vec<(usize, &'a Process, BTreeSet<u64>)>,
}

impl<'a> Life<'a> {
    fn last(&self) -> &'a Process {
        self.seen[self.seen.len() - 1].1
    }

    fn last_index(&self) -> usize {
        self.seen[self.seen.len() - 1].0
    }

    /// Returns the maximum number of simultaneous connections.
    pub(super) fn most(&self) -> usize {
        self.seen.iter().map(|(_, _, held)| held.len()).max().unwrap_or(0)
    }

    /// Returns all connections that it served.
    fn served(&self) -> BTreeSet<u64> {
        self.seen.iter().flat_map(|(_, _, held)| held.iter().copied()).collect()
    }

    /// Returns the number of connections that it served and that ended during its lifetime.
    fn closed(&self) -> usize {
        let (_, _, held) = &self.seen[self.seen.len() - 1];
        self.served().difference(held).count()
    }

    /// Returns whether it still existed long after a connection that it served had ended, or served another one then.
    fn outlived(&self, samples: &[Sample]) -> bool {
        let Some(first) = self.seen.iter().find_map(|(_, _, held)| held.first().copied()) else { return false };
        let gone = self.seen.iter().rev().find(|(_, _, held)| held.contains(&first)).map_or(0, |(index, ..)| *index);
        self.served().len() > 1 || samples[self.last_index()].at_ms >= samples[gone].at_ms + OUTLIVED_MS
    }

    fn waits(&self) -> impl Iterator<Item = (u32, Wait)> + '_ {
        self.seen.iter().flat_map(|(_, process, _)| process.threads.iter().filter_map(|one| Some((one.tid, one.wait?))))
    }

    fn waits_so(&self, is_it: impl Fn(Wait) -> bool) -> BTreeSet<u32> {
        self.waits().filter(|(_, wait)| is_it(*wait)).map(|(tid, _)| tid).collect()
    }

    /// Returns the threads that were blocked in a call that reads a connection.
    fn readers(&self) -> BTreeSet<u32> {
        let threads = self.seen.iter().flat_map(|(_, process, _)| &process.threads);
        threads.filter(|thread| thread.reads.is_some()).map(|thread| thread.tid).collect()
    }

    /// Returns whether it blocks for one connection or for the next one, which no event loop does.
    fn blocks(&self) -> bool {
        // An event loop polls its listener, too.
        let polls = |process: &Process| matches!(process.threads[..], [Thread { wait: Some(Wait::PollOne), .. }]);
        let polls_it = self.seen.iter().any(|(_, process, held)| held.len() == 1 && polls(process));
        polls_it || !self.readers().is_empty() || !self.waits_so(|wait| wait == Wait::Accept).is_empty()
    }

    /// Returns the processor time of each thread during the window.
    fn work_ns(&self) -> BTreeMap<u32, u64> {
        let mut ends: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for (index, (_, process, _)) in self.seen.iter().enumerate() {
            for thread in &process.threads {
                let first = if index == 0 { thread.cpu_ns } else { 0 };
                ends.entry(thread.tid).or_insert((first, 0)).1 = thread.cpu_ns;
            }
        }
        ends.into_iter().map(|(tid, (first, last))| (tid, last.saturating_sub(first))).collect()
    }

    /// Returns whether it existed for a while, but its descriptors were never readable: the connections that it serves
    /// are unknown.
    fn is_hidden(&self) -> bool {
        self.seen.len() > 2 && self.seen.iter().all(|(_, process, _)| process.connections.is_none())
    }

    /// Returns the number of threads that ended while the process continued.
    fn ended_threads(&self) -> usize {
        let now: BTreeSet<u32> = self.last().threads.iter().map(|thread| thread.tid).collect();
        self.waits().map(|(tid, _)| tid).collect::<BTreeSet<_>>().difference(&now).count()
    }
}

/// Returns the processes of the window. A connection that several of them have open belongs to the youngest generation:
/// a parent may keep a copy of its child's descriptor.
pub(super) fn lives(samples: &[Sample]) -> Vec<Life<'_>> {
    let mut lives: BTreeMap<(u32, u64), Life> = BTreeMap::new();
    for (index, sample) in samples.iter().enumerate() {
        let by_pid: BTreeMap<u32, &Process> = sample.processes.iter().map(|one| (one.pid, one)).collect();
        let depth = |mut pid: u32| {
            let mut depth = 0;
            while let Some(process) = by_pid.get(&pid).filter(|_| depth <= by_pid.len()) {
                (pid, depth) = (process.parent, depth + 1);
            }
            depth
        };
        let mut server: BTreeMap<u64, (usize, u32)> = BTreeMap::new();
        for process in &sample.processes {
            let here = (depth(process.pid), process.pid);
            for inode in process.connections.iter().flatten() {
                let best = server.entry(*inode).or_insert(here);
                *best = here.max(*best);
            }
        }
        for process in &sample.processes {
            let is_its = |inode: &u64| server.get(inode).is_some_and(|(_, pid)| *pid == process.pid);
            let held = process.connections.iter().flatten().copied().filter(is_its).collect();
            let life = lives.entry((process.pid, process.started));
            life.or_insert(Life { pid: process.pid, seen: Vec::new() }).seen.push((index, process, held));
        }
    }
    lives.into_values().collect()
}

/// Returns the architecture that the samples show, or the candidates.
pub(super) fn decide(samples: &[Sample], watchers: &Watchers) -> Decision {
    let lives = lives(samples);
    let busiest = lives.iter().max_by_key(|life| (life.most(), life.served().len())).map(|life| life.pid);
    Decision { busiest, ..family(samples, &lives, watchers) }
}

fn family(samples: &[Sample], lives: &[Life], watchers: &Watchers) -> Decision {
    let served: BTreeSet<u64> = lives.iter().flat_map(Life::served).collect();
    let waiting = samples.iter().map(|sample| sample.waiting.len()).max().unwrap_or(0);
    if lives.iter().all(|life| life.last().connections.is_none()) {
        return Decision::unreadable("descriptors unreadable", &[], Vec::new());
    }
    if lives.iter().any(Life::is_hidden) {
        let evidence = vec!["the descriptors of some of its processes cannot be read".to_owned()];
        return Decision::unreadable("descriptors unreadable", &[], evidence);
    }
    let accepted = counted(served.len() as u64, "connection", "connections");
    let first = format!("{accepted} accepted during the window, at most {waiting} waiting");
    if served.len() < FEWEST && served.len() + waiting < FEWEST {
        let advice = "put at least 200 simultaneous connections on it, for example with --load URL";
        return Decision::unknown("too few connections", &[], vec![first], advice);
    }
    let (several, one): (Vec<&Life>, Vec<&Life>) =
        lives.iter().filter(|life| life.most() > 0).partition(|life| life.most() > 1);
    let of_several: BTreeSet<u64> = several.iter().flat_map(|life| life.served()).collect();
    let of_one: BTreeSet<u64> = one.iter().flat_map(|life| life.served()).collect();
    let mut decision = if of_several.len() * 10 >= served.len() * 9 && !several.is_empty() {
        multiplexed(lives, &several, watchers)
    } else if several.is_empty() && one.len() == 1 {
        single(samples, one[0])
    } else if of_one.len() * 10 >= served.len() * 9 && one.len() >= FEWEST {
        process_each(samples, lives, &one)
    } else {
        let evidence = format!(
            "{} held several connections at a time, {} one at a time",
            counted(several.len() as u64, "process", "processes"),
            counted(one.len() as u64, "other", "others")
        );
        let advice = "put more simultaneous connections on it, and keep them open";
        Decision::unknown("mixed", &[], vec![evidence], advice)
    };
    decision.evidence.insert(0, first);
    decision
}

/// Decides for one process that never had two connections.
fn single(samples: &[Sample], life: &Life) -> Decision {
    let stayed =
        samples.iter().zip(samples.iter().skip(1)).any(|(a, b)| a.waiting.intersection(&b.waiting).count() > 1);
    let threads = life.seen.iter().map(|(_, process, _)| process.threads.len()).max().unwrap_or(0);
    if threads == 1 && stayed && !life.readers().is_empty() {
        let evidence = vec![
            "its only process and thread never held two connections, while others waited for accept()".to_owned(),
            "it blocked in a call that reads the connection".to_owned(),
        ];
        return Decision::found(Architecture::Iterative, "blocks on its only connection", evidence);
    }
    let evidence = vec!["one process, which never held two connections in a sample".to_owned()];
    let advice = "put simultaneous connections on it that stay open";
    Decision::unknown("connections too short", &[], evidence, advice)
}

/// Decides for processes that have one connection at a time each.
fn process_each(samples: &[Sample], lives: &[Life], serving: &[&Life]) -> Decision {
    let last = samples.len() - 1;
    let outlived = serving.iter().filter(|life| life.outlived(samples)).count();
    let ended: Vec<&&Life> = serving
        .iter()
        .filter(|life| life.last_index() < last && life.served().len() == 1 && !life.outlived(samples))
        .collect();
    let pooled = serving.iter().filter(|life| life.outlived(samples) && life.blocks()).count();
    let evidence = vec![
        format!("{} processes, none of which held two connections at a time", serving.len()),
        format!("{} of them ended with their connection, {outlived} outlived it", ended.len()),
    ];
    let goes_on = lives.iter().any(|life| life.last_index() == last && !life.last().listeners.is_empty());
    if ended.len() >= FEWEST && outlived * 10 <= ended.len() && goes_on {
        return made_for_it(lives, &ended, evidence);
    }
    if pooled >= 2 && ended.len() * 10 <= pooled {
        let mut evidence = evidence;
        evidence.push(format!("{pooled} blocked in a call that reads a connection or accepts the next one"));
        return Decision::found(Architecture::Prefork, "processes outlive their connections", evidence);
    }
    let candidates = if outlived > ended.len() {
        vec![Architecture::Prefork, Architecture::EventLoopProcesses]
    } else {
        vec![Architecture::Exec, Architecture::Fork, Architecture::Prefork, Architecture::EventLoopProcesses]
    };
    Decision::unknown("no process was conclusive", &candidates, evidence, CLOSE_SOME)
}

/// Decides whether a process for each connection was forked or executed.
fn made_for_it(lives: &[Life], ended: &[&&Life], mut evidence: Vec<String>) -> Decision {
    // The stack is 0 for a process whose memory cannot be read.
    let image = |process: &Process| process.image.clone().filter(|(_, stack)| *stack > 1);
    let executed: Vec<bool> = ended
        .iter()
        .filter_map(|life| {
            let parent = lives.iter().find(|other| other.pid == life.last().parent)?;
            Some(image(life.last())? != image(parent.last())?)
        })
        .collect();
    let rule = "processes end with their connections";
    let count = executed.iter().filter(|is| **is).count();
    evidence.push(format!("{count} of {} had executed a program since their parent forked them", executed.len()));
    if executed.len() * 2 < ended.len() || (count * 10 > executed.len() && count * 10 < executed.len() * 9) {
        let candidates = [Architecture::Exec, Architecture::Fork];
        return Decision::unreadable(rule, &candidates, evidence);
    }
    let program = &ended[ended.len() - 1].last().command;
    evidence.push(format!("the last one's command line: {}", program.chars().take(60).collect::<String>().trim()));
    let architecture = if count * 2 > executed.len() { Architecture::Exec } else { Architecture::Fork };
    Decision::found(architecture, rule, evidence)
}

/// Decides for processes that have several connections each, served by threads or by event loops.
fn multiplexed(lives: &[Life], several: &[&Life], watchers: &Watchers) -> Decision {
    let decisions: Vec<Decision> = several.iter().map(|life| within(life, watchers)).collect();
    let is_event = decisions.iter().all(Decision::is_asynchronous);
    // Members that wait for events of the listener are event loops too, even if the load gave them few connections.
    let idle = |life: &&Life| {
        let is_other = several.iter().all(|other| other.pid != life.pid);
        // The parent of workers has the listener open too, and may wait for something else.
        let waits = life.last().threads.iter().any(|thread| watchers.watches(thread.tid));
        is_other && waits && !life.last().listeners.is_empty()
    };
    let processes = several.len() + lives.iter().filter(idle).count();
    let known: BTreeSet<Architecture> = decisions.iter().filter_map(|one| one.architecture).collect();
    if known.len() > 1 && !is_event {
        let evidence = vec![format!("{} processes of different kinds", several.len())];
        let candidates: Vec<Architecture> = known.into_iter().collect();
        return Decision::unknown("mixed", &candidates, evidence, "inspect one of the processes by its pid");
    }
    let place = decisions.iter().position(|one| one.architecture.is_some()).unwrap_or(0);
    let Some(mut first) = decisions.into_iter().nth(place) else {
        return Decision::unknown("no process", &[], Vec::new(), "open connections to it");
    };
    if processes > 1 {
        first
            .evidence
            .insert(0, format!("{processes} processes that serve connections; of process {}:", several[place].pid));
        if is_event {
            // Each of the candidates leads to this architecture.
            first.architecture = Some(Architecture::EventLoopProcesses);
            (first.candidates, first.advice) = (Vec::new(), None);
        }
    }
    first
}

/// Decides how one process serves several connections.
fn within(life: &Life, watchers: &Watchers) -> Decision {
    let at_peak = life.seen.iter().max_by_key(|(_, _, held)| held.len());
    let (held, threads) = at_peak.map_or((0, 0), |(_, process, held)| (held.len(), process.threads.len()));
    let most_blocked = life.seen.iter().filter(|(_, _, held)| held.len() >= FEWEST).map(|(_, process, held)| {
        let blocked =
            process.threads.iter().filter(|thread| matches!(thread.wait, Some(Wait::Read | Wait::PollOne))).count();
        (blocked * 100 / held.len(), blocked)
    });
    let (share, blocked) = most_blocked.max().unwrap_or((0, 0));
    let (closed, ended) = (life.closed(), life.ended_threads());
    let mut evidence = vec![format!(
        "{} at a time in a process of {}",
        counted(held as u64, "connection", "connections"),
        counted(threads as u64, "thread", "threads")
    )];
    if held >= FEWEST && held >= 2 * threads + 2 {
        return event_loop(life, watchers, evidence);
    }
    evidence.push(format!(
        "{} blocked in a call that reads one connection ({share}% of the connections)",
        counted(blocked as u64, "thread", "threads")
    ));
    evidence.push(format!(
        "{} ended, and {}",
        counted(closed as u64, "connection", "connections"),
        counted(ended as u64, "thread", "threads")
    ));
    let acceptors = life.waits_so(|wait| wait == Wait::Accept);
    let both = acceptors.intersection(&life.readers()).count();
    if both >= 2 {
        evidence.push(format!("{both} threads blocked in accept() and, at other times, read a connection"));
        return Decision::found(Architecture::ThreadPool, "threads accept and serve", evidence);
    }
    if held >= FEWEST && threads >= held && closed >= FEWEST && ended * 2 >= closed && ended <= closed * 2 {
        return Decision::found(Architecture::Thread, "threads end with their connections", evidence);
    }
    if held >= FEWEST && threads >= held && closed >= FEWEST && ended * 10 <= closed && share >= 50 {
        return Decision::found(Architecture::ThreadPool, "threads outlive their connections", evidence);
    }
    if share >= 50 {
        let candidates = [Architecture::Thread, Architecture::ThreadPool];
        return Decision::unknown("a thread blocks on each connection", &candidates, evidence, CLOSE_SOME);
    }
    let advice = format!("keep more than {} connections open at a time", 2 * threads + 2);
    Decision::unknown("as many threads as connections", &[], evidence, &advice)
}

/// Decides which threads watch connections, in a process with fewer threads than connections.
fn event_loop(life: &Life, known: &Watchers, mut evidence: Vec<String>) -> Decision {
    let rule = "fewer threads than connections";
    let mut watchers = life.waits_so(Wait::is_event);
    // An epoll instance may watch nothing of the server. In a worker that waits for the rest of its request, it may
    // watch only one connection.
    let by_epoll = life.waits_so(|wait| wait == Wait::Epoll);
    watchers.retain(|tid| !by_epoll.contains(tid) || known.watches(*tid));
    let last = life.last();
    if watchers.is_empty() && last.epolls + last.rings == 0 {
        let advice = "no thread was seen to wait for events; run landau inspect as root, or with less load";
        return Decision::unknown("connections without a watcher", &[], evidence, advice);
    }
    let work = life.work_ns();
    let total: u64 = work.values().sum();
    let of = |tid: &u32| work.get(tid).copied().unwrap_or(0);
    let most = watchers.iter().map(of).max().unwrap_or(0);
    let loops: BTreeSet<u32> = watchers.iter().copied().filter(|tid| most > 0 && of(tid) * 5 >= most).collect();
    let others = (total - loops.iter().map(of).sum::<u64>()) * 100 / total.max(1);
    let threads = life.seen.iter().map(|(_, process, _)| process.threads.len()).max().unwrap_or(0);
    evidence.push(format!(
        "threads that waited for events: {}, of which {} did work like the busiest; the other threads did {others}% of \
         the work",
        watchers.len(),
        loops.len()
    ));
    if threads == 1 {
        return Decision::found(Architecture::EventLoop, rule, evidence);
    }
    let candidates = [Architecture::EventLoop, Architecture::EventLoops, Architecture::EventLoopWithWorkers];
    if total < 2_000_000 {
        let advice = "send requests on the connections during the window";
        return Decision::unknown("too little work to see which thread does it", &candidates, evidence, advice);
    }
    if loops.len() >= 2 {
        return Decision::found(Architecture::EventLoops, rule, evidence);
    }
    // A runtime that moves tasks between threads lets the threads take turns waiting for events.
    let takes_turns = !watchers.is_disjoint(&life.waits_so(|wait| wait == Wait::Futex));
    let workers = life.readers().difference(&watchers).count();
    match others {
        0..10 if loops.len() == 1 && !takes_turns => Decision::found(Architecture::EventLoop, rule, evidence),
        // The work of other threads alone proves nothing: it may be garbage collection.
        25.. if loops.len() == 1 && workers >= 2 => {
            evidence.push(format!("{workers} other threads blocked in a call that reads or writes a connection"));
            Decision::found(Architecture::EventLoopWithWorkers, rule, evidence)
        }
        _ => {
            let advice = "/proc does not show what its other threads work for; tracing would";
            Decision::unknown("other threads work, too", &candidates, evidence, advice)
        }
    }
}

/// Returns how the threads of the serving processes waited for events, or "blocking".
pub(super) fn mechanisms(samples: &[Sample], architecture: Architecture) -> Vec<&'static str> {
    let lives = lives(samples);
    let serving: Vec<&Life> = lives.iter().filter(|life| life.most() > 0).collect();
    if !architecture.is_asynchronous() {
        return if serving.iter().any(|life| life.blocks()) { vec!["blocking"] } else { Vec::new() };
    }
    let seen: BTreeSet<Wait> = serving.iter().flat_map(|life| life.waits().map(|(_, wait)| wait)).collect();
    let has_epoll = serving.iter().any(|life| life.last().epolls > 0);
    let has_ring = serving.iter().any(|life| life.last().rings > 0);
    let names = [
        (Wait::Epoll, "epoll", has_epoll && seen.contains(&Wait::Epoll)),
        (Wait::Ring, "io_uring", has_ring),
        (Wait::Poll, "poll", true),
        (Wait::Select, "select", true),
    ];
    names.iter().filter(|(wait, _, is)| *is && (seen.contains(wait) || *wait == Wait::Ring)).map(|one| one.1).collect()
}

/// Returns how connections are accepted, as far as `/proc` shows.
pub(super) fn acceptance(
    samples: &[Sample],
    listeners: &[(String, u64)],
    architecture: Option<Architecture>,
) -> String {
    let mut by_address: BTreeMap<&str, usize> = BTreeMap::new();
    for (address, _) in listeners {
        *by_address.entry(address).or_default() += 1;
    }
    let most = by_address.values().copied().max().unwrap_or(0);
    if most > 1 {
        return format!("{most} listening sockets on one address (SO_REUSEPORT)");
    }
    let lives = lives(samples);
    let holders = lives.iter().filter(|life| life.seen.iter().any(|(_, process, _)| !process.listeners.is_empty()));
    let holders: Vec<&Life> = holders.collect();
    let acceptors: usize = holders.iter().map(|life| life.waits_so(|wait| wait == Wait::Accept).len()).sum();
    if holders.len() <= 1 {
        return match acceptors {
            0 => "one process holds the listening socket".to_owned(),
            1 => "one thread accepts".to_owned(),
            _ => format!("{acceptors} threads accept from one listening socket"),
        };
    }
    match architecture {
        Some(Architecture::Fork | Architecture::Exec) => {
            "one process accepts; its children inherit the listening socket".to_owned()
        }
        _ => format!("{} processes hold one listening socket", holders.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENER: u64 = 1;

    /// Decides with epoll watchers for every thread that waits in epoll.
    fn decide(samples: &[Sample]) -> Decision {
        super::decide(samples, &watchers(samples))
    }

    fn watchers(samples: &[Sample]) -> Watchers {
        let mut found = Watchers::default();
        let threads = samples.iter().flat_map(|sample| &sample.processes).flat_map(|process| &process.threads);
        for thread in threads.filter(|thread| thread.wait == Some(Wait::Epoll)) {
            found.add(thread.tid, 1, 10);
        }
        found
    }

    /// Returns a process with one thread for each of `waits`. A reading thread has the connection with its own index.
    fn process(pid: u32, parent: u32, waits: &[Wait], connections: &[u64]) -> Process {
        let thread = |(place, wait): (usize, &Wait)| Thread {
            tid: pid + place as u32,
            wait: Some(*wait),
            reads: connections.get(place).copied().filter(|_| *wait == Wait::Read),
            ..Thread::default()
        };
        Process {
            pid,
            parent,
            image: Some(("/bin/server".to_owned(), 1_000)),
            threads: waits.iter().enumerate().map(thread).collect(),
            connections: Some(connections.iter().copied().collect()),
            listeners: BTreeSet::from([LISTENER]),
            ..Process::default()
        }
    }

    /// Returns samples at intervals of one second.
    fn window(processes: Vec<Vec<Process>>) -> Vec<Sample> {
        let sample = |(index, processes): (usize, Vec<Process>)| Sample {
            at_ms: 1_000 * index as u64,
            processes,
            ..Sample::default()
        };
        processes.into_iter().enumerate().map(sample).collect()
    }

    /// Returns a parent that accepts, with children of one connection each.
    fn children(pids: std::ops::Range<u32>, connection_of: impl Fn(u32) -> Option<u64>) -> Vec<Process> {
        let child = |pid| {
            let held = connection_of(pid);
            let wait = if held.is_some() { Wait::Read } else { Wait::Accept };
            process(pid, 10, &[wait], &held.into_iter().collect::<Vec<_>>())
        };
        [process(10, 1, &[Wait::Accept], &[])].into_iter().chain(pids.map(child)).collect()
    }

    #[allow(clippy::unnecessary_wraps, reason = "a child may have none")]
    fn own(pid: u32) -> Option<u64> {
        Some(u64::from(pid))
    }

    #[test]
    fn a_child_that_ends_with_its_connection_was_made_for_it() {
        let samples = window(vec![children(100..110, own), children(105..110, own)]);
        assert_eq!(decide(&samples).architecture, Some(Architecture::Fork));
        let same_stacks = decide(&samples).without_random_stacks();
        assert_eq!((same_stacks.architecture, same_stacks.candidates.len()), (None, 2));
        // A member whose descriptors are unreadable may have any number of connections.
        let mut hidden = [samples.clone(), samples[1..].to_vec()].concat();
        for sample in &mut hidden {
            let member = Process { connections: None, ..process(9_999, 10, &[Wait::Accept], &[]) };
            sample.processes.push(member);
        }
        assert_eq!((decide(&hidden).architecture, decide(&hidden).rule), (None, "descriptors unreadable"));
        assert!(decide(&hidden).needs_rights && decide(&hidden).advice.is_none());
        let mut executed = samples;
        let of_children = executed.iter_mut().flat_map(|sample| &mut sample.processes).filter(|one| one.pid >= 100);
        of_children.for_each(|child| child.image = Some(("/bin/server".to_owned(), 2_000 + u64::from(child.pid))));
        assert_eq!(decide(&executed).architecture, Some(Architecture::Exec), "the same file, but another stack");
        let of_children = executed.iter_mut().flat_map(|sample| &mut sample.processes).filter(|one| one.pid >= 100);
        of_children.for_each(|child| child.image = None);
        let unread = decide(&executed);
        assert_eq!(unread.architecture, None);
        assert_eq!(unread.candidates, [Architecture::Exec, Architecture::Fork]);
    }

    #[test]
    fn a_child_that_outlives_its_connection_is_of_a_pool() {
        let half = |pid| own(pid).filter(|pid| pid % 2 == 0);
        let samples = window(vec![children(100..110, own), children(100..110, half), children(100..110, half)]);
        assert_eq!(decide(&samples).architecture, Some(Architecture::Prefork));
        // They may be event loops if they never block.
        let mut unblocked = samples;
        for process in unblocked.iter_mut().flat_map(|sample| &mut sample.processes) {
            process.threads.iter_mut().for_each(|one| (one.wait, one.reads) = (Some(Wait::Epoll), None));
        }
        assert_eq!(decide(&unblocked).architecture, None);
    }

    #[test]
    fn children_are_not_told_apart_while_all_connections_stay() {
        let samples = window(vec![children(100..110, own), children(100..110, own)]);
        let decision = decide(&samples);
        assert_eq!((decision.architecture, decision.candidates.len()), (None, 4));
        assert!(decision.candidates.contains(&Architecture::Fork) && decision.advice.is_some());
    }

    /// Returns a process with an accepting thread and `threads` others, each of which serves at most one connection.
    fn threaded(threads: usize, connections: u64) -> Vec<Process> {
        let mut only = process(10, 1, &vec![Wait::Read; threads], &(100..100 + connections).collect::<Vec<_>>());
        only.threads.push(Thread { tid: 9, wait: Some(Wait::Accept), ..Thread::default() });
        vec![only]
    }

    #[test]
    fn threads_end_with_their_connections_or_outlive_them() {
        let decided = |before, after| decide(&window(vec![before, after])).architecture;
        assert_eq!(decided(threaded(20, 20), threaded(10, 10)), Some(Architecture::Thread));
        assert_eq!(decided(threaded(20, 20), threaded(20, 10)), Some(Architecture::ThreadPool));
        assert_eq!(decided(threaded(20, 20), threaded(20, 20)), None);
    }

    /// Returns a process with two threads that watch 40 connections and did some work each.
    fn watching(work_ns: [u64; 2], second: Wait) -> Vec<Process> {
        let mut only = process(10, 1, &[Wait::Epoll, second], &(100..140).collect::<Vec<_>>());
        only.epolls = 1;
        only.threads.iter_mut().zip(work_ns).for_each(|(thread, ns)| thread.cpu_ns = ns);
        vec![only]
    }

    #[test]
    fn a_thread_that_works_beside_an_event_loop_is_no_worker_unless_it_serves() {
        let decided =
            |work_ns, second| decide(&window(vec![watching([0, 0], second), watching(work_ns, second)])).architecture;
        let ms = 1_000_000;
        assert_eq!(decided([90 * ms, 0], Wait::Futex), Some(Architecture::EventLoop));
        assert_eq!(decided([50 * ms, 40 * ms], Wait::Epoll), Some(Architecture::EventLoops));
        // Node's garbage collector was once taken for a worker.
        assert_eq!(decided([60 * ms, 30 * ms], Wait::Futex), None);
        assert_eq!(decided([1_000, 0], Wait::Futex), None, "it hardly worked");
    }

    #[test]
    fn several_event_loops_are_processes_whatever_else_they_run() {
        let two = |work_ns: [u64; 2]| {
            let mut pair = [watching(work_ns, Wait::Futex), watching(work_ns, Wait::Futex)].concat();
            (pair[1].pid, pair[1].connections) = (20, Some((200..240).collect()));
            pair
        };
        let samples = window(vec![two([0, 0]), two([60_000_000, 30_000_000])]);
        assert_eq!(decide(&samples).architecture, Some(Architecture::EventLoopProcesses));
    }

    #[test]
    fn a_process_that_holds_the_listener_is_a_loop_only_if_it_watches_it() {
        let parent = process(5, 1, &[Wait::Epoll], &[]);
        let before = [watching([0, 0], Wait::Futex), vec![parent.clone()]].concat();
        let after = [watching([90_000_000, 0], Wait::Futex), vec![parent]].concat();
        let samples = window(vec![before, after]);
        let decided = |watchers: &Watchers| super::decide(&samples, watchers).architecture;
        assert_eq!(decided(&watchers(&samples)), Some(Architecture::EventLoopProcesses));
        // The parent of gunicorn's workers waits for commands. It was once taken for a loop.
        let mut without = Watchers::default();
        without.add(10, 1, 40);
        assert_eq!(decided(&without), Some(Architecture::EventLoop));
    }

    #[test]
    fn a_thread_that_waits_for_one_connection_by_epoll_is_no_loop() {
        let ms = 1_000_000;
        let samples = window(vec![watching([0, 0], Wait::Epoll), watching([50 * ms, 40 * ms], Wait::Epoll)]);
        assert_eq!(decide(&samples).architecture, Some(Architecture::EventLoops));
        let mut single = Watchers::default();
        single.add(10, 0, 40);
        single.add(11, 0, 1);
        // The workers of gunicorn's gthread were once taken for loops.
        assert_eq!(super::decide(&samples, &single).architecture, None);
    }

    #[test]
    fn nothing_is_claimed_without_load_or_rights() {
        let idle = decide(&window(vec![children(100..110, |_| None), children(100..110, |_| None)]));
        assert_eq!((idle.architecture, idle.rule), (None, "too few connections"));
        let mut hidden = window(vec![children(100..110, own), children(105..110, own)]);
        hidden.iter_mut().flat_map(|sample| &mut sample.processes).for_each(|one| one.connections = None);
        assert_eq!(decide(&hidden).rule, "descriptors unreadable");
    }
}
