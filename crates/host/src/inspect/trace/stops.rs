//! Collects a trace with `ptrace`: a thread of this process stops the server's tasks at their system calls.
//!
//! All tasks are seized for the whole window, so that forks, executions and exits, which are rare, are seen. The tasks
//! stop at calls only in time slices: each call then stops a task twice, which costs more than the call itself.
//!
//! Only the thread that seized a task may make ptrace requests for it, and it waits for the stops. Therefore this
//! thread owns the ledger and takes orders. When it ends, or when this process is killed, the kernel detaches all tasks
//! and they continue. While this process is stopped, the tasks remain stopped at their next stop. Therefore the program
//! ignores the terminal's stop signals, and does not trace the processes that started it.

use super::Trace;
use super::descriptors::Descriptors;
use super::ledger::{Effect, Ledger, meaning};
use crate::inspect::account::Stopped;
use crate::inspect::ancestors;
use crate::inspect::calls::{Action, actions};
use crate::inspect::sample::{Listener, Process, has_ended, table};
use crate::rights;
use crate::root::{Root, field};
use landau_sys::clock::monotonic_ns;
use landau_sys::ptrace::{self, Call, Stop, Waiter};
use landau_sys::syscalls::number_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval of repeated signals: a signal may arrive just before the thread waits.
const REPEAT: Duration = Duration::from_millis(1);

/// The maximum number of calls whose times are kept to estimate the cost of a stop.
const TIMED: usize = 20_000;

/// An order to the tracing thread.
#[derive(Debug)]
enum Order {
    /// Follow these tasks.
    Follow(Vec<Member>),
    /// Begin a time slice.
    Resume,
    /// End.
    Finish,
}

/// A task, its process, and the parent of that process.
type Member = (u32, u32, u32);

#[derive(Debug)]
enum Reply {
    /// The result is true if there was a task that was not followed yet.
    Followed(Result<bool, String>),
    /// The number of replies counted in the slices before.
    Resumed(u64),
    Finished(Box<Trace>),
}

/// The tasks that stop at their calls.
#[derive(Debug)]
pub(in crate::inspect) struct Stops {
    orders: Sender<Order>,
    replies: Receiver<Reply>,
    waiter: Waiter,
    thread: Option<JoinHandle<()>>,
    /// The ancestors of this process.
    above: Vec<u32>,
    is_counting: Arc<AtomicBool>,
    counting_since: Option<Instant>,
    counted_ns: u64,
}

impl Stops {
    /// Seizes the tasks of these processes. `pid` is a process in the server's network namespace.
    ///
    /// # Errors
    ///
    /// The reason why this user is not permitted to.
    pub(in crate::inspect) fn attach(
        root: &Root,
        pid: u32,
        listeners: &BTreeSet<Listener>,
        processes: &[Process],
    ) -> Result<Self, String> {
        if !ptrace::reads_calls() {
            return Err("landau cannot read system calls by ptrace on this kind of processor".to_owned());
        }
        let above = ancestors(std::process::id(), &table(root));
        let (orders, to_do) = channel();
        let (replying, replies) = channel();
        let (naming, named) = channel();
        let is_counting = Arc::new(AtomicBool::new(false));
        let mut tracer = Tracer::new(root, Descriptors::new(root.clone(), pid, listeners), Arc::clone(&is_counting));
        let thread = std::thread::Builder::new().name("tracer".to_owned());
        let thread = thread.spawn(move || {
            // The other end waits for this message.
            let _ = naming.send(Waiter::this_thread());
            tracer.run(&to_do, &replying);
        });
        let thread = thread.map_err(|error| format!("no thread could be created: {error}"))?;
        let waiter = named.recv().map_err(|_| DIED.to_owned())?;
        let thread = Some(thread);
        let (counting_since, counted_ns) = (None, 0);
        let mut made = Self { orders, replies, waiter, thread, above, is_counting, counting_since, counted_ns };
        made.follow(processes)?;
        Ok(made)
    }

    /// Follows the tasks of these processes that are not followed yet. Excludes this process's ancestors without a
    /// listening socket, such as the shell or the sshd session. Returns whether there was a new task.
    ///
    /// # Errors
    ///
    /// The reason why this user is not permitted to.
    pub(in crate::inspect) fn follow(&mut self, processes: &[Process]) -> Result<bool, String> {
        let of = |process: &Process| {
            let (pid, parent) = (process.pid, process.parent);
            process.threads.iter().map(move |thread| (thread.tid, pid, parent)).collect::<Vec<Member>>()
        };
        let members = processes.iter().filter(|process| !is_spared(process, &self.above)).flat_map(of).collect();
        match self.order(Order::Follow(members))? {
            Reply::Followed(result) => result,
            _ => Err(DIED.to_owned()),
        }
    }

    /// Begins a time slice in which calls are counted. Returns the number of replies counted before it.
    ///
    /// # Errors
    ///
    /// If the tracing thread has died.
    pub(in crate::inspect) fn resume(&mut self) -> Result<u64, String> {
        self.is_counting.store(true, Ordering::Relaxed);
        self.counting_since = Some(Instant::now());
        match self.order(Order::Resume)? {
            Reply::Resumed(replies) => Ok(replies),
            _ => Err(DIED.to_owned()),
        }
    }

    /// Ends the time slice. Each task stops at most once more, and continues uncounted.
    pub(in crate::inspect) fn pause(&mut self) {
        self.is_counting.store(false, Ordering::Relaxed);
        let began = self.counting_since.take();
        self.counted_ns += began.map_or(0, |began| began.elapsed().as_nanos() as u64);
    }

    /// Detaches from all tasks and returns the trace.
    ///
    /// # Errors
    ///
    /// If the tracing thread has died.
    pub(in crate::inspect) fn finish(mut self) -> Result<Trace, String> {
        self.pause();
        match self.order(Order::Finish)? {
            Reply::Finished(trace) => Ok(Trace { counted_ns: self.counted_ns, ..*trace }),
            _ => Err(DIED.to_owned()),
        }
    }

    /// Sends an order and waits until it is done.
    fn order(&self, order: Order) -> Result<Reply, String> {
        self.orders.send(order).map_err(|_| DIED.to_owned())?;
        loop {
            self.waiter.interrupt();
            match self.replies.recv_timeout(REPEAT) {
                Ok(reply) => return Ok(reply),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(DIED.to_owned()),
            }
        }
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // The thread has already ended after `finish` or a panic.
            let _ = self.order(Order::Finish);
            let _ = thread.join();
        }
    }
}

/// Returns whether the tasks of a process are not seized, because it is one of these ancestors and has no listening
/// socket.
fn is_spared(process: &Process, above: &[u32]) -> bool {
    process.listeners.is_empty() && above.contains(&process.pid)
}

/// The reason why an order has no reply.
const DIED: &str = "the thread that traces ended early";

/// A seized task.
#[derive(Debug, Clone, Copy, Default)]
struct Tracee {
    /// Whether it stops at its next call.
    stops_at_calls: bool,
    /// Whether it is in a call that accepts a connection.
    accepts: bool,
    /// Whether it is in a counted call and, if that call should not block, when the tracer continued it.
    is_counted: bool,
    went_on_ns: Option<u64>,
}

/// The state of the tracing thread.
#[derive(Debug)]
struct Tracer {
    root: Root,
    descriptors: Descriptors,
    actions: BTreeMap<u32, Action>,
    /// The call that the kernel makes in place of one that a stop interrupted.
    restart: Option<u32>,
    ledger: Ledger,
    tracees: BTreeMap<u32, Tracee>,
    is_counting: Arc<AtomicBool>,
    /// The number of stopped calls, and the time spent on handling stops.
    calls: u64,
    worked_ns: u64,
    /// Stops at calls that could not be interpreted.
    unread: u64,
    /// For calls that send or close, the times from one stop to the next.
    times_ns: Vec<u64>,
}

impl Tracer {
    fn new(root: &Root, descriptors: Descriptors, is_counting: Arc<AtomicBool>) -> Self {
        Self {
            root: root.clone(),
            descriptors,
            actions: actions(),
            restart: number_of("restart_syscall"),
            ledger: Ledger::default(),
            tracees: BTreeMap::new(),
            is_counting,
            calls: 0,
            worked_ns: 0,
            unread: 0,
            times_ns: Vec::new(),
        }
    }

    /// Takes orders and handles stops until the order to finish, or until the sender of orders is gone.
    fn run(&mut self, orders: &Receiver<Order>, replies: &Sender<Reply>) {
        loop {
            let order = if self.tracees.is_empty() { orders.recv().ok() } else { orders.try_recv().ok() };
            let reply = match order {
                Some(Order::Follow(members)) => Some(Reply::Followed(self.follow(&members))),
                Some(Order::Resume) => {
                    self.resume();
                    Some(Reply::Resumed(self.ledger.replies()))
                }
                Some(Order::Finish) => {
                    // The other end may have stopped waiting: there is nothing left to do in either case.
                    let _ = replies.send(Reply::Finished(Box::new(self.finish())));
                    return;
                }
                None if self.tracees.is_empty() => return,
                None => None,
            };
            if reply.is_some_and(|reply| replies.send(reply).is_err()) {
                return;
            }
            match ptrace::next() {
                Ok(Some((tid, stop))) => self.stopped(tid, stop),
                Ok(None) => {}
                // All tasks have ended.
                Err(_) => self.tracees.clear(),
            }
        }
    }

    /// Seizes tasks, and those that they created in the meantime.
    fn follow(&mut self, members: &[Member]) -> Result<bool, String> {
        let mut is_new = false;
        for &(tid, process, parent) in members {
            if self.tracees.contains_key(&tid) {
                continue;
            }
            match ptrace::seize(tid) {
                Ok(()) => {
                    is_new = true;
                    self.ledger.add(tid, process, parent);
                    self.tracees.insert(tid, Tracee::default());
                }
                Err(error) if error.is_no_process() || has_ended(&self.root, &format!("proc/{tid}")) => {}
                // A seized task created it, and the stop has not been seen yet.
                Err(_) if self.tracer_of(tid) == Some(std::process::id()) => {}
                Err(error) => return Err(refused(&self.root, tid, &error)),
            }
        }
        Ok(is_new)
    }

    fn tracer_of(&self, tid: u32) -> Option<u32> {
        let text = self.root.text(&format!("proc/{tid}/status"))?;
        let tracer = u32::try_from(field(&text, "TracerPid")?).ok().filter(|tracer| *tracer > 0)?;
        // The kernel reports the tracing thread.
        self.root.text(&format!("proc/{tracer}/status")).and_then(|text| Some(field(&text, "Tgid")? as u32))
    }

    /// Begins a time slice: interrupts every task once, so that it stops at its calls from then on.
    fn resume(&mut self) {
        self.descriptors.refresh();
        self.ledger.begin_slice();
        for (tid, _) in self.tracees.iter().filter(|(_, tracee)| !tracee.stops_at_calls) {
            // It may have ended; the next wait reports that.
            let _ = ptrace::interrupt(*tid);
        }
    }

    /// Handles a stop.
    fn stopped(&mut self, tid: u32, stop: Stop) {
        let began_ns = monotonic_ns();
        self.tracees.entry(tid).or_default();
        if stop == Stop::Executed {
            // The first thread, whose number it has now, may already be marked as ended.
            self.ledger.goes_on(tid);
        }
        if stop != Stop::Ended && !self.ledger.knows(tid) {
            self.born(tid, None);
        }
        match stop {
            Stop::Call => self.at_call(tid, began_ns),
            Stop::Signal(signal) => self.go_on(tid, signal),
            Stop::Trap => self.go_on(tid, 0),
            Stop::Group => {
                // It may have been killed; the next wait reports that.
                let _ = ptrace::listen(tid);
            }
            Stop::Made => {
                if let Ok(made) = ptrace::message(tid) {
                    self.born(made, Some(tid));
                }
                self.go_on(tid, 0);
            }
            Stop::Executed => {
                // If it was not the first thread, it took over the number of the first.
                if let Some(before) = ptrace::message(tid).ok().filter(|before| *before != tid) {
                    self.tracees.remove(&before);
                    self.ledger.ended(before, began_ns);
                }
                self.ledger.executed(tid, self.counts());
                self.go_on(tid, 0);
            }
            Stop::Ends => {
                self.ledger.ended(tid, began_ns);
                self.go_on(tid, 0);
            }
            Stop::Ended => {
                self.ledger.ended(tid, began_ns);
                self.tracees.remove(&tid);
            }
        }
    }

    fn counts(&self) -> bool {
        self.is_counting.load(Ordering::Relaxed)
    }

    /// Adds a new task, at its own stop or at that of its creator, whichever is seen first.
    fn born(&mut self, tid: u32, maker: Option<u32>) {
        if self.ledger.knows(tid) {
            return;
        }
        let text = self.root.text(&format!("proc/{tid}/status")).unwrap_or_default();
        let of = |name: &str| field(&text, name).map(|value| value as u32);
        // If it has already been killed, only the process of its creator is known.
        let process = of("Tgid").unwrap_or(tid);
        let parent = of("PPid").or(maker).unwrap_or(0);
        self.ledger.born(tid, process, parent, monotonic_ns(), self.counts());
    }

    fn at_call(&mut self, tid: u32, began_ns: u64) {
        match ptrace::call(tid) {
            Ok(Call::Entry { number, arguments }) if self.counts() => {
                let (accepts, may_block) = self.begins(tid, number, &arguments);
                self.go_on(tid, 0);
                let now_ns = monotonic_ns();
                (self.calls, self.worked_ns) = (self.calls + 1, self.worked_ns + now_ns - began_ns);
                if let Some(tracee) = self.tracees.get_mut(&tid) {
                    (tracee.accepts, tracee.is_counted) = (accepts, true);
                    tracee.went_on_ns = (!may_block).then_some(now_ns);
                }
            }
            Ok(Call::Exit { value }) => {
                let tracee = self.tracees.entry(tid).or_default();
                let before = *tracee;
                (tracee.accepts, tracee.is_counted, tracee.went_on_ns) = (false, false, None);
                if before.accepts && value >= 0 {
                    self.descriptors.accepted(tid, value as u32);
                    if self.counts() {
                        self.ledger.accepted();
                    }
                }
                self.go_on(tid, 0);
                if before.is_counted {
                    self.worked_ns += monotonic_ns() - began_ns;
                }
                if let Some(went_on_ns) = before.went_on_ns.filter(|_| self.times_ns.len() < TIMED) {
                    self.times_ns.push(began_ns.saturating_sub(went_on_ns));
                }
            }
            Ok(Call::Entry { .. }) => self.go_on(tid, 0),
            // It is being killed.
            Err(error) if error.is_no_process() => self.go_on(tid, 0),
            // It makes a 32-bit call, or the kernel does not report the call.
            Ok(Call::Foreign) | Err(_) => {
                self.unread += u64::from(self.counts());
                self.go_on(tid, 0);
            }
        }
    }

    /// Counts a call that begins. Returns whether it accepts from a listening socket of the server, and whether it may
    /// block.
    fn begins(&mut self, tid: u32, number: u64, arguments: &[u64; 6]) -> (bool, bool) {
        let Ok(number) = u16::try_from(number) else { return (false, true) };
        // It was counted before the interruption.
        if self.restart == Some(u32::from(number)) {
            return (false, true);
        }
        let action = self.actions.get(&u32::from(number)).copied();
        let events = |address| ptrace::peek(tid, address).ok().map(|word| word as u32);
        let target = |descriptor| self.descriptors.target(tid, descriptor);
        let (about, effect) = meaning(action, arguments, target, events);
        self.ledger.call(tid, number, about, effect);
        // A call that is not examined may be a sleep.
        (effect == Effect::Accept, !matches!(effect, Effect::Send(_) | Effect::Elsewhere | Effect::Close(_)))
    }

    /// Continues a task, with the signal that it received.
    fn go_on(&mut self, tid: u32, signal: i32) {
        let stops_at_calls = self.counts();
        self.tracees.entry(tid).or_default().stops_at_calls = stops_at_calls;
        // It may have been killed; the next wait reports that.
        let _ = ptrace::resume(tid, stops_at_calls, signal);
    }

    fn finish(&mut self) -> Trace {
        let ledger = std::mem::take(&mut self.ledger);
        let cost = cost(self.calls, self.worked_ns, &mut self.times_ns);
        Trace { cost: Some(cost), unread: self.unread, ..ledger.finish() }
    }
}

/// Estimates the minimum time for which a call stopped its task: the work at both stops, plus twice the switch to this
/// thread and back. The shortest calls that send or close take little more than that switch from one stop to the next.
/// The time that a stopped task waits for this thread or for a processor is unknown: longer times may be those of the
/// calls.
fn cost(calls: u64, worked_ns: u64, times_ns: &mut [u64]) -> Stopped {
    times_ns.sort_unstable();
    let switch_ns = times_ns.get(times_ns.len() / 10).copied().unwrap_or(0);
    Stopped { calls, each_us: (worked_ns as f64 / calls.max(1) as f64 + 2.0 * switch_ns as f64) / 1e3 }
}

/// Returns the reason why a task cannot be seized, with advice.
fn refused(root: &Root, tid: u32, error: &landau_sys::Error) -> String {
    let status = |tid: u64| root.text(&format!("proc/{tid}/status")).unwrap_or_default();
    let of_task = status(u64::from(tid));
    let pid = field(&of_task, "Tgid").unwrap_or(u64::from(tid));
    let name = |text: &str| text.lines().find_map(|line| Some(line.strip_prefix("Name:")?.trim().to_owned()));
    let program = format!("process {pid} ({})", name(&of_task).unwrap_or_default());
    if let Some(tracer) = field(&of_task, "TracerPid").filter(|tracer| *tracer > 0) {
        // The kernel reports the tracing thread, not its process.
        let tracer = field(&status(tracer), "Tgid").unwrap_or(tracer);
        let by = name(&status(tracer)).unwrap_or_default();
        return format!("{program} is already traced by process {tracer} ({by}); end that process first");
    }
    let own = root.text("proc/self/status").unwrap_or_default();
    let user = |text: &str| field(text, "Uid");
    if user(&own) != Some(0) && user(&own) != user(&of_task) {
        return format!("{program} belongs to another user ({error}); run landau inspect as root or as that user");
    }
    let as_root = || rights::of_root(root, "landau inspect").unwrap_or_else(|| "run landau inspect as root".to_owned());
    match root.sysctl_number("kernel.yama.ptrace_scope") {
        Some(3) => format!("{program}: kernel.yama.ptrace_scope is 3: tracing is disabled until the next boot"),
        Some(scope @ 1..) => format!(
            "{program}: kernel.yama.ptrace_scope is {scope} ({error}); {}, or set it to 0 with \
             sysctl kernel.yama.ptrace_scope=0",
            as_root()
        ),
        _ => format!("{program} is protected (PR_SET_DUMPABLE) or has other privileges ({error}); {}", as_root()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_the_work_at_its_stops_and_two_switches() {
        let mut times_ns: Vec<u64> = (1..=20).map(|one| one * 1_000).collect();
        // 20 calls with 4 µs of work each; one tenth of them took up to 3 µs.
        let found = cost(20, 80_000, &mut times_ns);
        assert_eq!((found.calls, found.each_us), (20, 10.0));
        assert_eq!((cost(0, 0, &mut []).calls, cost(0, 0, &mut []).each_us), (0, 0.0));
    }

    #[test]
    fn ancestors_without_a_listening_socket_are_spared() {
        let of = |pid: u32, listeners: &[u64]| {
            let listeners = listeners.iter().copied().collect();
            is_spared(&Process { pid, listeners, ..Process::default() }, &[7, 1])
        };
        assert_eq!((of(7, &[]), of(7, &[77]), of(8, &[])), (true, false, false));
    }

    /// Creates a host with process 7, another process with the threads 9 and 10, and this process.
    fn planted(folder: &std::path::Path, tracer: u32, users: [u32; 2], scope: Option<&str>) -> Root {
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let status = |name: &str, process: u32, user: u32| {
            format!("Name:\t{name}\nTgid:\t{process}\nTracerPid:\t{tracer}\nUid:\t{user}\t{user}\n")
        };
        write("proc/7/status", &status("server", 7, users[0]));
        write("proc/10/status", &status("thread", 9, 0));
        write("proc/9/status", &status("strace", 9, 0));
        write("proc/self/status", &status("landau", 5, users[1]));
        if let Some(scope) = scope {
            write("proc/sys/kernel/yama/ptrace_scope", scope);
        }
        Root::planted(folder)
    }

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        let error = landau_sys::Error { call: "ptrace(PTRACE_SEIZE)", errno: 1 };
        let said = |tracer, users, scope| {
            let room = tempfile::tempdir().unwrap();
            refused(&planted(room.path(), tracer, users, scope), 7, &error)
        };
        let traced = said(10, [5, 5], None);
        assert_eq!(traced, "process 7 (server) is already traced by process 9 (strace); end that process first");
        assert!(said(0, [6, 5], None).contains("belongs to another user"), "{}", said(0, [6, 5], None));
        assert!(said(0, [5, 5], Some("1")).contains("sysctl kernel.yama.ptrace_scope=0"));
        assert!(said(0, [5, 5], Some("3")).contains("until the next boot"));
        assert!(said(0, [6, 0], Some("0")).contains("is protected"));
        // Landau once told root in a container to run it as root.
        for scope in [None, Some("1")] {
            assert!(said(0, [6, 0], scope).contains("--cap-add SYS_PTRACE"), "{}", said(0, [6, 0], scope));
        }
    }
}
