//! The rules for a trace: from the tasks that visited connections to an architecture.
//!
//! They decide only what the trace shows; where it shows nothing, the decision by `/proc` stands. Where both decide and
//! disagree about who serves a connection, the answer is that it cannot be told.

use super::calls::About;
use super::rules::{Architecture, Decision};
use super::sample::{Sample, Thread};
use super::trace::{BORN, IS_BORN, IS_ENDED, IS_EXECUTED, IS_THREAD, Task, Trace};
use super::wait::Wait;
use std::collections::BTreeSet;

/// Connections, or visits, below which nothing is claimed.
const FEWEST: u64 = 4;

/// A trace with what `/proc` showed of the same window.
#[derive(Debug)]
pub(super) struct Window<'a> {
    pub(super) trace: &'a Trace,
    pub(super) samples: &'a [Sample],
    /// Threads that wait for events of the server's sockets.
    pub(super) watchers: &'a BTreeSet<u32>,
}

/// A task with its number.
type Numbered<'a> = (u32, &'a Task);

impl<'a> Window<'a> {
    /// Returns the decision by the trace and by `/proc`.
    pub(super) fn decide(&self, by_proc: Decision) -> Decision {
        let Some(traced) = self.by_trace() else { return by_proc };
        let (Some(new), Some(old)) = (traced.architecture, by_proc.architecture) else {
            // What could not be told by the trace, though it showed something, says more than `/proc` does.
            let is_new = traced.architecture.is_some();
            return if is_new {
                Decision { busiest: by_proc.busiest, ..traced }
            } else {
                by_proc.or_candidates(traced)
            };
        };
        let is_executed = |one| matches!(one, Architecture::Exec | Architecture::Fork);
        if old == Architecture::EventLoopProcesses && new.is_asynchronous() {
            // `/proc` also sees the processes to which the load gave no connections.
            return Decision { evidence: [by_proc.evidence, traced.evidence].concat(), ..by_proc };
        }
        if new == old || (new.is_asynchronous() && old.is_asynchronous()) || (is_executed(new) && is_executed(old)) {
            return Decision { busiest: by_proc.busiest, ..traced };
        }
        let evidence = [by_proc.evidence, traced.evidence].concat();
        let advice = "repeat it with --for 30s and more simultaneous connections";
        Decision::unknown("/proc and the trace disagree", &[old, new], evidence, advice)
    }

    fn serving(&self) -> Vec<Numbered<'a>> {
        self.trace.tasks.iter().map(|(tid, task)| (*tid, task)).filter(|(_, task)| task.visits() > 0).collect()
    }

    fn by_trace(&self) -> Option<Decision> {
        let serving = self.serving();
        let sum = |of: fn(&Task) -> u32| serving.iter().map(|(_, task)| u64::from(of(task))).sum::<u64>();
        let (connections, visits) = (sum(|task| task.connections), sum(Task::visits));
        if self.trace.lost > 0 || connections < FEWEST {
            return None;
        }
        let interleaved = sum(|task| task.returns + task.overlaps);
        let moves = sum(|task| task.moves);
        let evidence = vec![format!(
            "{} tasks made calls on {connections} connections; a task returned to a connection, or took another one while \
             it was open, {interleaved} times; a connection moved to another thread {moves} times",
            serving.len()
        )];
        let is_many = |count: u64| count >= FEWEST && count * 20 >= visits;
        if is_many(moves) {
            return Some(self.shared(&serving, evidence));
        }
        if is_many(interleaved) {
            return self.interleaving(&serving, connections, evidence);
        }
        if interleaved * 50 > visits || moves * 50 > visits {
            return None;
        }
        self.made_for_it(&serving, connections, evidence.clone())
            .or_else(|| self.pooled(&serving, connections, evidence))
    }

    /// Threads that share connections: each request may be served by another one.
    fn shared(&self, serving: &[Numbered], mut evidence: Vec<String>) -> Decision {
        let rule = "connections move between threads";
        let processes: BTreeSet<u32> = serving.iter().map(|(_, task)| task.process).collect();
        let both = serving.iter().filter(|(_, task)| task.waits > 0).count();
        let tasks = self.trace.tasks.iter();
        let others =
            tasks.filter(|(_, task)| processes.contains(&task.process) && task.visits() == 0 && task.waits > 0).count();
        evidence.push(format!(
            "{both} of the {} tasks that served also waited for events, and {others} other threads did",
            serving.len()
        ));
        if processes.len() > 1 {
            return Decision::found(Architecture::EventLoopProcesses, rule, evidence);
        }
        if both >= 2 && both * 2 >= serving.len() {
            return Decision::found(Architecture::EventLoops, rule, evidence);
        }
        if both + others == 1 && serving.len() > both {
            return Decision::found(Architecture::EventLoopWithWorkers, rule, evidence);
        }
        let candidates = [Architecture::EventLoops, Architecture::EventLoopWithWorkers];
        Decision::unknown(rule, &candidates, evidence, "put more simultaneous connections on it")
    }

    /// Tasks that serve several connections at a time.
    fn interleaving(&self, serving: &[Numbered], connections: u64, mut evidence: Vec<String>) -> Option<Decision> {
        let rule = "tasks serve several connections in turn";
        let loops: Vec<&Numbered> = serving.iter().filter(|(_, task)| task.interleaves()).collect();
        let theirs: u64 = loops.iter().map(|(_, task)| u64::from(task.connections)).sum();
        let waiting = loops.iter().filter(|(_, task)| task.waits > 0).count();
        evidence.push(format!("{} tasks did so, {waiting} of which waited for events", loops.len()));
        if theirs * 10 < connections * 9 || waiting < loops.len() {
            return None;
        }
        let processes: BTreeSet<u32> = loops.iter().map(|(_, task)| task.process).collect();
        if processes.len() > 1 {
            return Some(Decision::found(Architecture::EventLoopProcesses, rule, evidence));
        }
        if loops.len() > 1 {
            return Some(Decision::found(Architecture::EventLoops, rule, evidence));
        }
        let (tid, only) = **loops.first()?;
        let siblings = self.watchers.iter().filter(|other| **other != tid).count();
        if siblings > 0 {
            evidence.push(format!("{siblings} other threads wait for events of the same sockets, and served nothing"));
            let candidates = [Architecture::EventLoop, Architecture::EventLoops];
            return Some(Decision::unknown(rule, &candidates, evidence, "put more simultaneous connections on it"));
        }
        let helpers = self.trace.tasks.iter().filter(|(other, task)| **other != tid && task.process == only.process);
        let signals: u64 = helpers.map(|(_, task)| u64::from(task.elsewhere)).sum();
        let replies = u64::from(only.sends).max(1);
        evidence.push(format!("other threads of the process wrote to a file, pipe or socket {signals} times"));
        if signals * 20 > replies {
            let candidates = [Architecture::EventLoop, Architecture::EventLoopWithWorkers];
            let advice = "calls do not show whether those threads work for requests";
            return Some(Decision::unknown(rule, &candidates, evidence, advice));
        }
        Some(Decision::found(Architecture::EventLoop, rule, evidence))
    }

    /// A task was made for each connection, and ended with it.
    fn made_for_it(&self, serving: &[Numbered], connections: u64, mut evidence: Vec<String>) -> Option<Decision> {
        let trace = self.trace;
        let many = serving.iter().filter(|(_, task)| task.connections > 1).count();
        let before: u32 = serving.iter().filter(|(_, task)| !task.is(IS_BORN)).map(|(_, task)| task.connections).sum();
        let made: Vec<&Numbered> =
            serving.iter().filter(|(_, task)| task.is(IS_BORN) && task.is(IS_ENDED) && task.connections == 1).collect();
        let threads = made.iter().filter(|(_, task)| task.is(IS_THREAD) && task.group & BORN == 0).count();
        let is_thread = threads * 2 > made.len();
        let created = if is_thread { trace.threads } else { trace.forks };
        let is_pure = threads == 0 || threads == made.len();
        let few = |count: usize| count * 10 <= made.len();
        if (made.len() as u64) < FEWEST || trace.established < FEWEST || !few(many) || !is_pure {
            return None;
        }
        if u64::from(before) * 10 > connections || created * 10 < trace.established * 8 {
            return None;
        }
        let kind = if is_thread { "threads" } else { "processes" };
        evidence.push(format!(
            "{created} {kind} were made while {} connections were established; {} of them were seen to serve one \
             connection and end, after {} ms in the middle",
            trace.established,
            made.len(),
            median_ms(&made)
        ));
        if is_thread {
            return Some(Decision::found(Architecture::Thread, "threads end with their connections", evidence));
        }
        let executed = made.iter().filter(|(tid, task)| self.is_executed(*tid, task)).count();
        evidence.push(format!("{executed} of {} had executed a program since they were forked", made.len()));
        let rule = "processes end with their connections";
        if few(executed) {
            return Some(Decision::found(Architecture::Fork, rule, evidence));
        }
        few(made.len() - executed).then(|| Decision::found(Architecture::Exec, rule, evidence))
    }

    /// Whether a process, or one of those made during the window from which it descends, executed a program.
    fn is_executed(&self, tid: u32, task: &Task) -> bool {
        let mut at = (tid, *task);
        for _ in 0..8 {
            if at.1.is(IS_EXECUTED) {
                return true;
            }
            let above = if at.1.is(IS_THREAD) { at.1.process } else { at.1.parent };
            match self.trace.tasks.get(&above).filter(|above| above.is(IS_BORN)) {
                Some(next) if above != at.0 => at = (above, *next),
                _ => return false,
            }
        }
        false
    }

    /// Tasks serve one connection after the other.
    fn pooled(&self, serving: &[Numbered], connections: u64, mut evidence: Vec<String>) -> Option<Decision> {
        let members: Vec<&Numbered> = serving.iter().filter(|(_, task)| task.connections > 1).collect();
        let theirs: u64 = members.iter().map(|(_, task)| u64::from(task.connections)).sum();
        let processes: BTreeSet<u32> = members.iter().map(|(_, task)| task.process).collect();
        let readers = self.readers();
        let blocks = members.iter().all(|(_, task)| task.waits == 0)
            || members.iter().filter(|(tid, _)| readers.contains(tid)).count() * 2 >= members.len();
        if theirs * 10 < connections * 9 || theirs < 2 * FEWEST || !blocks {
            return None;
        }
        evidence.push(format!("{} tasks served {theirs} connections, one after the other", members.len()));
        // Another thread that watches connections may hand over each request, not each connection.
        let is_watched =
            self.trace.tasks.values().any(|task| {
                processes.contains(&task.process) && task.visits() == 0 && task.waits > 0 && task.accepts > 0
            });
        // Unless a connection stays with its thread for request after request.
        let stays = self.trace.replies >= 3 * connections;
        let rule = "tasks serve one connection after the other";
        if is_watched && !stays {
            let candidates = [Architecture::ThreadPool, Architecture::EventLoopWithWorkers];
            let advice = "keep connections open for several requests";
            return Some(Decision::unknown(rule, &candidates, evidence, advice));
        }
        match members.len() {
            1 if serving.len() == 1 && self.has_queue() => {
                Some(Decision::found(Architecture::Iterative, rule, evidence))
            }
            2.. if processes.len() == members.len() => Some(Decision::found(Architecture::Prefork, rule, evidence)),
            2.. => Some(Decision::found(Architecture::ThreadPool, rule, evidence)),
            _ => None,
        }
    }

    /// Threads that `/proc` showed in a call that blocks for one connection.
    fn readers(&self) -> BTreeSet<u32> {
        let threads = self.samples.iter().flat_map(|sample| &sample.processes).flat_map(|process| &process.threads);
        let reads = |thread: &&Thread| thread.reads.is_some() || thread.wait == Some(Wait::PollOne);
        threads.filter(reads).map(|thread| thread.tid).collect()
    }

    /// Whether connections waited for `accept()` from one sample to the next.
    fn has_queue(&self) -> bool {
        let pairs = self.samples.iter().zip(self.samples.iter().skip(1));
        pairs.into_iter().any(|(a, b)| a.waiting.intersection(&b.waiting).count() > 1)
    }
}

fn median_ms(made: &[&Numbered]) -> String {
    let mut lives: Vec<u64> = made.iter().map(|(_, task)| task.ended_ns.saturating_sub(task.born_ns)).collect();
    lives.sort_unstable();
    format!("{:.1}", lives.get(lives.len() / 2).copied().unwrap_or(0) as f64 / 1e6)
}

/// Returns whether the trace shows descriptors that were passed: processes that receive messages on Unix sockets serve
/// connections that others accept.
pub(super) fn passes_descriptors(trace: &Trace) -> bool {
    let serving: BTreeSet<u32> = trace.tasks.values().filter(|task| task.visits() > 0).map(|task| task.group).collect();
    let accepting: BTreeSet<u32> =
        trace.tasks.values().filter(|task| task.accepts > 0).map(|task| task.group).collect();
    let receives = |group: &u32| {
        let is_it = |(other, number, about): &(u32, u16, About)| {
            other == group
                && *about == About::Unix
                && landau_sys::syscalls::name_of(u32::from(*number)) == Some("recvmsg")
        };
        trace.calls.keys().any(is_it)
    };
    !serving.is_empty()
        && !accepting.is_empty()
        && serving.is_disjoint(&accepting)
        && serving.iter().all(|group| group & BORN == 0)
        && serving.iter().any(receives)
}
