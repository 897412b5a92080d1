//! The rules for a trace: from the tasks that visited connections to an architecture.
//!
//! They decide only what the trace shows; otherwise the decision from `/proc` is kept. If both decide and disagree
//! about what serves a connection, the answer is "cannot tell".

use super::calls::About;
use super::rules::{Architecture, Decision};
use super::sample::{Sample, Thread, Watchers};
use super::trace::{BORN, IS_BORN, IS_ENDED, IS_EXECUTED, IS_THREAD, Task, Trace};
use super::wait::Wait;
use crate::text::counted;
use std::collections::BTreeSet;

/// The minimum of connections, or visits, for any conclusion.
const FEWEST: u64 = 4;

/// A trace with the samples of `/proc` from the same window.
#[derive(Debug)]
pub(super) struct Window<'a> {
    pub(super) trace: &'a Trace,
    pub(super) samples: &'a [Sample],
    pub(super) watchers: &'a Watchers,
}

/// A task with its number.
type Numbered<'a> = (u32, &'a Task);

impl<'a> Window<'a> {
    /// Returns the decision from the trace and from `/proc`.
    pub(super) fn decide(&self, by_proc: Decision) -> Decision {
        let Some(traced) = self.by_trace() else { return by_proc };
        let (Some(new), Some(old)) = (traced.architecture, by_proc.architecture) else {
            // A trace that is undecided, but showed something, may have better candidates than `/proc`.
            let is_new = traced.architecture.is_some();
            return if is_new {
                Decision { busiest: by_proc.busiest, ..traced }
            } else {
                by_proc.or_candidates(traced)
            };
        };
        let is_executed = |one| matches!(one, Architecture::Exec | Architecture::Fork);
        if old == Architecture::EventLoopProcesses && new.is_asynchronous() {
            // `/proc` also shows the processes that got no connections from the load.
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
            "{} made calls on {}; a task returned to a connection, or made a call on another one while it was open, \
             {}; a connection moved to another thread {}",
            counted(serving.len() as u64, "task", "tasks"),
            counted(connections, "connection", "connections"),
            counted(interleaved, "time", "times"),
            counted(moves, "time", "times")
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

    /// Decides for threads that share connections: a different thread may serve each request.
    fn shared(&self, serving: &[Numbered], mut evidence: Vec<String>) -> Decision {
        let rule = "connections move between threads";
        let processes: BTreeSet<u32> = serving.iter().map(|(_, task)| task.process).collect();
        // A worker may wait for the rest of its request with an epoll instance for this connection only.
        let singles = serving.iter().filter(|(tid, _)| self.watchers.watches_one(*tid)).count();
        let has_singles = singles >= 2 && singles * 2 >= serving.len();
        let waits =
            |(tid, task): &&Numbered| (self.watchers.watches(*tid) || !has_singles) && task.waits * 20 > task.visits();
        let both = serving.iter().filter(waits).count();
        let tasks = self.trace.tasks.iter();
        let others =
            tasks.filter(|(_, task)| processes.contains(&task.process) && task.visits() == 0 && task.waits > 0).count();
        // A thread that accepts and watches, but does not serve, hands requests over.
        let accepts_apart =
            self.trace.tasks.values().any(|task| {
                processes.contains(&task.process) && task.visits() == 0 && task.waits > 0 && task.accepts > 0
            });
        evidence.push(format!(
            "of the tasks that served ({}), {both} also waited for events, and so did {}",
            serving.len(),
            counted(others as u64, "other thread", "other threads")
        ));
        if processes.len() > 1 {
            return Decision::found(Architecture::EventLoopProcesses, rule, evidence);
        }
        if both >= 2 && both * 2 >= serving.len() {
            if !accepts_apart {
                return Decision::found(Architecture::EventLoops, rule, evidence);
            }
        } else if both + others == 1 && serving.len() > both {
            return Decision::found(Architecture::EventLoopWithWorkers, rule, evidence);
        }
        let candidates = [Architecture::EventLoops, Architecture::EventLoopWithWorkers];
        Decision::unknown(rule, &candidates, evidence, "put more simultaneous connections on it")
    }

    /// Decides for tasks that serve several connections at the same time.
    fn interleaving(&self, serving: &[Numbered], connections: u64, mut evidence: Vec<String>) -> Option<Decision> {
        let rule = "tasks serve several connections in turn";
        let loops: Vec<&Numbered> = serving.iter().filter(|(_, task)| task.interleaves()).collect();
        let theirs: u64 = loops.iter().map(|(_, task)| u64::from(task.connections)).sum();
        let waiting = loops.iter().filter(|(_, task)| task.waits > 0).count();
        evidence
            .push(format!("{waiting} of {} waited for events", counted(loops.len() as u64, "such task", "such tasks")));
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
        let siblings = self.watchers.tids().filter(|other| *other != tid).count();
        if siblings > 0 {
            let siblings = counted(siblings as u64, "other thread waits", "other threads wait");
            evidence.push(format!("{siblings} for events of the same sockets, and served nothing"));
            let candidates = [Architecture::EventLoop, Architecture::EventLoops];
            return Some(Decision::unknown(rule, &candidates, evidence, "put more simultaneous connections on it"));
        }
        let helpers = self.trace.tasks.iter().filter(|(other, task)| **other != tid && task.process == only.process);
        let signals: u64 = helpers.map(|(_, task)| u64::from(task.elsewhere)).sum();
        let replies = u64::from(only.sends).max(1);
        let times = counted(signals, "time", "times");
        evidence.push(format!("other threads of the process wrote to a file, pipe or socket {times}"));
        if signals * 20 > replies {
            let candidates = [Architecture::EventLoop, Architecture::EventLoopWithWorkers];
            let advice = "calls do not show whether those threads work for requests";
            return Some(Decision::unknown(rule, &candidates, evidence, advice));
        }
        Some(Decision::found(Architecture::EventLoop, rule, evidence))
    }

    /// Decides whether a task was created for each connection, and ended with it.
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

    /// Returns whether a process, or one of its ancestors created during the window, executed a program.
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

    /// Decides for tasks that serve one connection after another.
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
        let tasks = counted(members.len() as u64, "task", "tasks");
        evidence.push(format!("{tasks} served {theirs} connections, one after the other"));
        // Another thread that watches connections may hand over single requests instead of connections.
        let is_watched =
            self.trace.tasks.values().any(|task| {
                processes.contains(&task.process) && task.visits() == 0 && task.waits > 0 && task.accepts > 0
            });
        // Except if a connection stays with its thread for several requests.
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

    /// Returns the threads that `/proc` showed in a call that blocks for one connection.
    fn readers(&self) -> BTreeSet<u32> {
        let threads = self.samples.iter().flat_map(|sample| &sample.processes).flat_map(|process| &process.threads);
        let reads = |thread: &&Thread| thread.reads.is_some() || thread.wait == Some(Wait::PollOne);
        threads.filter(reads).map(|thread| thread.tid).collect()
    }

    /// Returns whether connections waited for `accept()` from one sample to the next.
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

/// Returns whether the trace shows descriptor passing: processes that receive messages on Unix sockets serve
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a task of process 10 with these numbers of served connections and of waits for events.
    fn task(connections: u32, waits: u32) -> Task {
        Task {
            process: 10,
            group: 10,
            connections,
            waits,
            receives: connections,
            sends: connections,
            ..Task::default()
        }
    }

    fn trace(tasks: Vec<(u32, Task)>) -> Trace {
        let connections = tasks.iter().map(|(_, task)| u64::from(task.connections)).sum();
        Trace { tasks: tasks.into_iter().collect(), established: connections, replies: connections, ..Trace::default() }
    }

    fn unknown() -> Decision {
        let candidates = [Architecture::Exec, Architecture::Fork, Architecture::Prefork];
        Decision::unknown("nothing seen", &candidates, Vec::new(), "advice")
    }

    fn decided(trace: &Trace) -> Option<Architecture> {
        decide(trace, unknown()).architecture
    }

    fn decide(trace: &Trace, by_proc: Decision) -> Decision {
        Window { trace, samples: &[], watchers: &Watchers::default() }.decide(by_proc)
    }

    /// Returns a trace of tasks that were created for one connection each, and ended.
    fn made(flags: u32, count: u32) -> Trace {
        let is_thread = flags & IS_THREAD != 0;
        let one = |tid: u32| {
            let (process, group) = if is_thread { (10, 10) } else { (tid, BORN + 10) };
            let flags = flags | IS_BORN | IS_ENDED;
            (tid, Task { process, group, parent: 10, flags, born_ns: 1_000_000, ended_ns: 4_000_000, ..task(1, 0) })
        };
        let mut found = trace((100..100 + count).map(one).collect());
        *(if is_thread { &mut found.threads } else { &mut found.forks }) = u64::from(count);
        found.tasks.insert(10, Task { accepts: count, ..task(0, 0) });
        found
    }

    #[test]
    fn a_task_that_is_made_for_a_connection_and_ends_is_recognised_however_short_it_lives() {
        assert_eq!(decided(&made(0, 20)), Some(Architecture::Fork));
        assert_eq!(decided(&made(IS_EXECUTED, 20)), Some(Architecture::Exec));
        assert_eq!(decided(&made(IS_THREAD, 20)), Some(Architecture::Thread));
        assert!(decide(&made(0, 20), unknown()).evidence[1].contains("after 3.0 ms"));
        // A pool whose members end after five connections each; a time slice showed one of these.
        let mut renewed = made(0, 20);
        renewed.established = 100;
        assert_eq!(decided(&renewed), None);
        // Some executed a program, others did not.
        let mut mixed = made(IS_EXECUTED, 20);
        mixed.tasks.range_mut(100..110).for_each(|(_, task)| task.flags &= !IS_EXECUTED);
        assert_eq!(decided(&mixed), None);
        // Full tables prove nothing.
        assert_eq!(decided(&Trace { lost: 1, ..made(0, 20) }), None);
    }

    #[test]
    fn a_child_of_a_child_that_executed_a_program_is_executed() {
        let mut privileges_apart = made(0, 20);
        let parents: Vec<(u32, Task)> =
            privileges_apart.tasks.range(100..).map(|(tid, task)| (tid + 1_000, *task)).collect();
        for (tid, _) in parents {
            let executed = Task { flags: IS_BORN | IS_EXECUTED, process: tid, connections: 0, ..Task::default() };
            privileges_apart.tasks.insert(tid, executed);
        }
        privileges_apart.tasks.range_mut(100..1_000).for_each(|(tid, task)| task.parent = tid + 1_000);
        assert_eq!(decided(&privileges_apart), Some(Architecture::Exec));
    }

    #[test]
    fn tasks_that_return_to_connections_are_event_loops() {
        let one = |process| Task { process, returns: 90, ..task(20, 50) };
        assert_eq!(decided(&trace(vec![(10, one(10))])), Some(Architecture::EventLoop));
        assert_eq!(decided(&trace(vec![(10, one(10)), (11, one(10))])), Some(Architecture::EventLoops));
        assert_eq!(decided(&trace(vec![(10, one(10)), (20, one(20))])), Some(Architecture::EventLoopProcesses));
        // The connections are too short for a return, but one was open while the next one was served.
        let short = Task { overlaps: 15, ..task(20, 50) };
        assert_eq!(decided(&trace(vec![(10, short)])), Some(Architecture::EventLoop));
        // It never waits for events: something else tells it what to serve.
        assert_eq!(decided(&trace(vec![(10, Task { returns: 90, ..task(20, 0) })])), None);
    }

    #[test]
    fn helpers_of_an_event_loop_that_signal_may_be_workers() {
        let only = Task { returns: 90, ..task(100, 50) };
        let helper = |elsewhere| Task { elsewhere, ..task(0, 0) };
        // The garbage collector does not signal other threads.
        assert_eq!(decided(&trace(vec![(10, only), (11, helper(0))])), Some(Architecture::EventLoop));
        let found = decide(&trace(vec![(10, only), (11, helper(80))]), unknown());
        assert_eq!(found.candidates, [Architecture::EventLoop, Architecture::EventLoopWithWorkers]);
        // Another thread that waits for events of the same sockets may be an idle loop.
        let mut idle = Watchers::default();
        idle.add(11, 1, 0);
        let traced = trace(vec![(10, only), (11, helper(0))]);
        let found = Window { trace: &traced, samples: &[], watchers: &idle }.decide(unknown());
        assert_eq!(found.candidates, [Architecture::EventLoop, Architecture::EventLoops]);
    }

    #[test]
    fn connections_that_move_between_threads_are_shared() {
        let member = |waits| Task { moves: 40, returns: 5, ..task(20, waits) };
        let watcher = Task { accepts: 50, ..task(0, 50) };
        let workers = trace(vec![(10, watcher), (11, member(0)), (12, member(0))]);
        assert_eq!(decided(&workers), Some(Architecture::EventLoopWithWorkers));
        // Workers that wait for the rest of a request with one epoll instance each.
        let waiting = trace(vec![(10, watcher), (11, member(9)), (12, member(9))]);
        let mut singles = Watchers::default();
        for (tid, connections) in [(10, 50), (11, 1), (12, 1)] {
            singles.add(tid, 0, connections);
        }
        let found = Window { trace: &waiting, samples: &[], watchers: &singles }.decide(unknown());
        assert_eq!(found.architecture, Some(Architecture::EventLoopWithWorkers));
        let runtime = trace(vec![(11, member(9)), (12, member(9)), (13, member(9))]);
        assert_eq!(decided(&runtime), Some(Architecture::EventLoops));
    }

    #[test]
    fn tasks_that_serve_one_connection_after_the_other_are_a_pool() {
        let member = |process| Task { process, group: process, ..task(10, 0) };
        assert_eq!(decided(&trace(vec![(20, member(20)), (30, member(30))])), Some(Architecture::Prefork));
        assert_eq!(decided(&trace(vec![(20, member(10)), (30, member(10))])), Some(Architecture::ThreadPool));
        // They wait for events: event loops with short connections look the same.
        let waits = |process| Task { waits: 10, ..member(process) };
        assert_eq!(decided(&trace(vec![(20, waits(20)), (30, waits(30))])), None);
        // Another thread accepts and watches: it may hand over single requests.
        let watched = vec![(10, Task { accepts: 20, ..task(0, 50) }), (20, member(10)), (30, member(10))];
        let found = decide(&trace(watched.clone()), unknown());
        assert_eq!(found.candidates, [Architecture::ThreadPool, Architecture::EventLoopWithWorkers]);
        let stays = Trace { replies: 100, ..trace(watched) };
        assert_eq!(decided(&stays), Some(Architecture::ThreadPool));
    }

    #[test]
    fn where_proc_and_the_trace_disagree_nothing_is_claimed() {
        let by_proc = |one| Decision::found(one, "by /proc", Vec::new());
        let pool = made(IS_THREAD, 20);
        let found = decide(&pool, by_proc(Architecture::ThreadPool));
        assert_eq!((found.architecture, found.candidates.len()), (None, 2));
        // The decision from /proc is kept if the trace shows nothing.
        assert_eq!(decide(&trace(Vec::new()), by_proc(Architecture::Fork)).architecture, Some(Architecture::Fork));
        // An execution at the same stack address looks like a fork from outside, but the trace recorded it.
        let executed = decide(&made(IS_EXECUTED, 20), by_proc(Architecture::Fork));
        assert_eq!(executed.architecture, Some(Architecture::Exec));
        // /proc also shows the processes without connections.
        let one = trace(vec![(10, Task { returns: 90, ..task(20, 50) })]);
        let processes = decide(&one, by_proc(Architecture::EventLoopProcesses));
        assert_eq!(processes.architecture, Some(Architecture::EventLoopProcesses));
    }
}
