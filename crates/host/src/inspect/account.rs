//! Summarises a trace: the server's calls per connection and reply, and how it sends, waits and accepts.

use super::calls::{About, RING, operation, sends};
use super::trace::{IS_ENDED, Task, Trace};
use super::traced::passes_descriptors;
use landau_sys::syscalls::name_of;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of listed calls.
const LISTED: usize = 20;

/// The count of one system call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Call {
    /// The name of the call; an operation of `io_uring` has the prefix `io_uring:`.
    pub call: String,
    /// What its descriptor refers to: `connection`, `listener`, `datagram` (a UDP socket of the server's port), `unix`,
    /// `socket` (another one), `file` (not a socket) or `closed`. For poll, `one` or `several` descriptors; for
    /// `epoll_ctl`, `edge` or `level`. `None` if that is not examined.
    pub about: Option<&'static str>,
    /// The number of calls while calls were counted.
    pub count: u64,
    /// Calls per connection established in that time; `None` if there were fewer than 10.
    pub per_connection: Option<f64>,
    /// Calls per reply; `None` if there were fewer than 10.
    pub per_reply: Option<f64>,
}

/// The counts of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Account {
    /// Seconds during which calls were counted.
    pub counted_s: f64,
    /// TCP connections established during the window; if tasks were stopped, those accepted while calls were counted.
    pub established: u64,
    /// TCP connections established while calls were counted.
    pub established_counted: u64,
    /// Sends on a connection after a receive, while calls were counted.
    pub replies: u64,
    /// Forked processes, created threads and executed programs during the window; if tasks were stopped, while calls
    /// were counted.
    pub forks: u64,
    /// Created threads.
    pub threads: u64,
    /// Executed programs.
    pub executions: u64,
    /// The median lifetime in ms of the tasks that were created and ended during the window.
    pub lifetime_ms_p50: Option<f64>,
    /// The calls, in descending order of frequency.
    pub calls: Vec<Call>,
    /// How it sends on connections: names of calls, in descending order of frequency.
    pub sends: Vec<String>,
    /// How its tasks wait for events: `epoll`, `poll`, `select`, `io_uring`, `aio`, `sigtimedwait`.
    pub waits: Vec<&'static str>,
    /// Whether connections were added to epoll edge-triggered; `None` if none was added.
    pub is_edge_triggered: Option<bool>,
    /// How it accepts, as text; `None` if it did not.
    pub accepts: Option<String>,
    /// Calls on UDP sockets with a port of the server.
    pub datagrams: u64,
    /// The cost to the server; `None` if nothing was stopped.
    pub stopped: Option<Stopped>,
}

/// The cost of the stops to the server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stopped {
    /// Calls at whose start and end a task was stopped.
    pub calls: u64,
    /// The minimum time in microseconds for which each call stopped the server, estimated from the times of the stops.
    /// It excludes the time that a stopped task waits for the tracer and for a processor.
    pub each_us: f64,
}

impl Stopped {
    /// Returns the cost as a sentence.
    pub(super) fn sentence(&self) -> String {
        let Self { calls, each_us } = self;
        format!("{calls} system calls were traced; each stopped the server for at least {each_us:.0} µs")
    }
}

fn name(number: u16) -> String {
    if number >= RING {
        return operation(number)
            .map_or_else(|| format!("io_uring:{}", number - RING), |name| format!("io_uring:{name}"));
    }
    name_of(u32::from(number)).map_or_else(|| format!("call {number}"), str::to_owned)
}

fn word(about: About) -> Option<&'static str> {
    Some(match about {
        About::Nothing => return None,
        About::Connection | About::ZeroCopy => "connection",
        About::Listener => "listener",
        About::Datagram => "datagram",
        About::Unix => "unix",
        About::Socket => "socket",
        About::File => "file",
        About::Closed => "closed",
        About::One => "one",
        About::Several => "several",
        About::Edge => "edge",
        About::Level => "level",
    })
}

/// Returns the keys whose count is at least one hundredth of the total, in descending order.
fn ranked<K: Ord + Clone>(counts: &BTreeMap<K, u64>) -> Vec<K> {
    let total: u64 = counts.values().sum();
    let mut all: Vec<(&K, u64)> = counts
        .iter()
        .map(|(key, count)| (key, *count))
        .filter(|(_, count)| *count > 0 && count * 100 >= total)
        .collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.into_iter().map(|(key, _)| key.clone()).collect()
}

/// Returns the summary of a trace.
pub(super) fn account(trace: &Trace) -> Account {
    let mut by_call: BTreeMap<(u16, About), u64> = BTreeMap::new();
    for ((_, number, about), count) in &trace.calls {
        *by_call.entry((*number, *about)).or_default() += count;
    }
    let per = |count: u64, of: u64| (of >= 10).then(|| count as f64 / of as f64);
    let mut calls: Vec<Call> = by_call
        .iter()
        .map(|((number, about), &count)| Call {
            call: if *about == About::ZeroCopy { format!("{} (MSG_ZEROCOPY)", name(*number)) } else { name(*number) },
            about: word(*about),
            count,
            per_connection: per(count, trace.established_counted),
            per_reply: per(count, trace.replies),
        })
        .collect();
    calls.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.call.cmp(&b.call)));
    calls.truncate(LISTED);
    let mut lives: Vec<u64> = trace
        .tasks
        .values()
        .filter(|task| task.is(IS_ENDED) && task.born_ns > 0)
        .map(|task| task.ended_ns.saturating_sub(task.born_ns))
        .collect();
    lives.sort_unstable();
    let of =
        |wanted: About| by_call.iter().filter(|((_, about), _)| *about == wanted).map(|(_, count)| count).sum::<u64>();
    let (edge, level) = (of(About::Edge), of(About::Level));
    Account {
        counted_s: trace.counted_ns as f64 / 1e9,
        established: trace.established,
        established_counted: trace.established_counted,
        replies: trace.replies,
        forks: trace.forks,
        threads: trace.threads,
        executions: trace.executions,
        lifetime_ms_p50: lives.get(lives.len() / 2).map(|ns| *ns as f64 / 1e6),
        calls,
        sends: sent(&by_call),
        waits: waits(&by_call),
        is_edge_triggered: (edge + level > 0).then_some(edge >= level),
        accepts: acceptance(trace, &by_call),
        datagrams: of(About::Datagram),
        stopped: trace.cost,
    }
}

fn sent(by_call: &BTreeMap<(u16, About), u64>) -> Vec<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for ((number, about), count) in by_call {
        let name = name(*number);
        // An operation of `io_uring` that may also write to a file does not count as a send.
        let is_ring = ["send", "sendmsg", "send_zc", "sendmsg_zc"].iter().any(|one| name == format!("io_uring:{one}"));
        if is_ring {
            *counts.entry(name).or_default() += count;
        } else if about.is_connection() && sends(&name) {
            let name = if *about == About::ZeroCopy { format!("{name} (MSG_ZEROCOPY)") } else { name };
            *counts.entry(name).or_default() += count;
        }
    }
    ranked(&counts)
}

fn waits(by_call: &BTreeMap<(u16, About), u64>) -> Vec<&'static str> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for ((number, about), count) in by_call {
        let kind = match name(*number).as_str() {
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => "epoll",
            "poll" | "ppoll" if *about == About::Several => "poll",
            "select" | "pselect6" => "select",
            "io_uring_enter" => "io_uring",
            "io_getevents" => "aio",
            "rt_sigtimedwait" => "sigtimedwait",
            _ => continue,
        };
        *counts.entry(kind).or_default() += count;
    }
    ranked(&counts)
}

fn acceptance(trace: &Trace, by_call: &BTreeMap<(u16, About), u64>) -> Option<String> {
    let accepts_by_ring = by_call.keys().any(|(number, _)| name(*number) == "io_uring:accept");
    let calls: BTreeSet<String> = by_call
        .keys()
        .filter(|(_, about)| *about == About::Listener)
        .map(|(number, _)| name(*number))
        .filter(|name| name.starts_with("accept"))
        .collect();
    let who: Vec<&Task> = trace.tasks.values().filter(|task| task.accepts > 0).collect();
    if who.is_empty() {
        return accepts_by_ring.then(|| "io_uring:accept".to_owned());
    }
    let processes: BTreeSet<u32> = who.iter().map(|task| task.process).collect();
    let serving = who.iter().filter(|task| task.visits() > 0).count();
    let by = match (who.len(), processes.len()) {
        (1, _) => "one thread".to_owned(),
        (threads, 1) => format!("{threads} threads"),
        (threads, processes) if threads == processes => format!("{processes} processes"),
        (threads, processes) => format!("{threads} threads of {processes} processes"),
    };
    let hands_on = if passes_descriptors(trace) {
        ", whose connections are passed to other processes as descriptors"
    } else if serving == 0 && trace.tasks.values().any(|task| task.visits() > 0) {
        ", whose connections are served by others"
    } else {
        ""
    };
    let calls = calls.into_iter().collect::<Vec<_>>().join(", ");
    Some(format!("{calls} by {by}{hands_on}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use landau_sys::syscalls::number_of;

    fn trace(calls: &[(&str, About, u64)], tasks: &[Task]) -> Trace {
        let key = |name: &str, about: About| (10, number_of(name).unwrap() as u16, about);
        Trace {
            calls: calls.iter().map(|(name, about, count)| (key(name, *about), *count)).collect(),
            tasks: (10..).zip(tasks.iter().copied()).collect(),
            replies: 100,
            established_counted: 5,
            ..Trace::default()
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn only_calls_on_connections_say_how_it_sends() {
        let found = account(&trace(
            &[
                ("sendfile", About::Connection, 100),
                ("writev", About::Connection, 60),
                ("sendmsg", About::ZeroCopy, 20),
                ("write", About::File, 900),
                ("sendto", About::Unix, 900),
                ("write", About::Connection, 1),
            ],
            &[],
        ));
        assert_eq!(found.sends, ["sendfile", "writev", "sendmsg (MSG_ZEROCOPY)"]);
        assert_eq!(
            (found.calls[0].count, found.calls[0].per_reply, found.calls[0].per_connection),
            (900, Some(9.0), None)
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn operations_of_io_uring_that_only_connections_have_are_sends() {
        let mut found = trace(&[("io_uring_enter", About::Nothing, 50)], &[]);
        found.calls.insert((10, RING + 26, About::Nothing), 100);
        found.calls.insert((10, RING + 23, About::Nothing), 100);
        found.calls.insert((10, RING + 13, About::Nothing), 2);
        let found = account(&found);
        assert_eq!((found.sends, found.waits), (vec!["io_uring:send".to_owned()], vec!["io_uring"]));
        assert_eq!(found.accepts.as_deref(), Some("io_uring:accept"));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn waiting_for_one_descriptor_is_not_waiting_for_events() {
        let calls = [("ppoll", About::One, 100), ("pselect6", About::Nothing, 50), ("epoll_ctl", About::Edge, 3)];
        let found = account(&trace(&calls, &[]));
        assert_eq!((found.waits, found.is_edge_triggered), (vec!["select"], Some(true)));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn who_accepts_and_who_serves_is_said() {
        let calls = [("accept4", About::Listener, 9), ("recvmsg", About::Unix, 9)];
        let task = |process: u32, accepts: u32, connections: u32| Task {
            process,
            group: process,
            accepts,
            connections,
            ..Task::default()
        };
        let said = |tasks: &[Task]| account(&trace(&calls, tasks)).accepts.unwrap();
        assert_eq!(said(&[task(10, 9, 9)]), "accept4 by one thread");
        assert_eq!(said(&[task(10, 9, 9), task(11, 9, 9)]), "accept4 by 2 processes");
        assert_eq!(
            said(&[task(9, 9, 0), task(9, 0, 9)]),
            "accept4 by one thread, whose connections are served by others"
        );
        // Tasks of group 10 receive messages on Unix sockets.
        let passed = "accept4 by one thread, whose connections are passed to other processes as descriptors";
        assert_eq!(said(&[task(9, 9, 0), task(10, 0, 9)]), passed);
    }
}
