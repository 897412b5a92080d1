//! Worker processes under a supervisor, which replaces each process that ends.
//!
//! A fault that ends a process (an abort, the kernel's OOM killer, an operator's SIGKILL) then costs only the
//! connections of that process. The supervisor holds the listening sockets, which all processes share, so that
//! connections wait in their accept queues meanwhile. It has one thread, and neither accepts connections nor reads from
//! clients. It keeps its user, because a new process opens the certificates and the log before it drops privileges.
//!
//! Each process is a complete [`Server`] with its own workers, log and sandbox. It gets commands through a pipe; the
//! end of the pipe means that the supervisor is gone. The counters are in shared memory, so they outlive a process. A
//! separate process serves the metrics.

use crate::config::{Config, Listen};
use crate::counters::{Counters, Totals};
use crate::error::Error;
use crate::listener::{Bound, Place};
use crate::metrics::{Counted, Metrics, now_s};
use crate::privilege::{Sandbox, User, switch_user};
use crate::server::{Remote, Server, settle_memory};
use landau_sys::child::{self, End, Forker};
use landau_sys::{process, shared, signal};
use std::fmt::Debug;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A process that ran for at least this long did not fail at its start, so the next one is started at once.
const SETTLED: Duration = Duration::from_secs(10);

/// The first pause before another process is started; it doubles with each process that fails soon.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The time after which a process that must end at once is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The commands of the supervisor to its processes, each a byte in their pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End; busy connections get the time of [`crate::Timeouts::drain`].
    Drain,
    /// End; busy connections have no time limit.
    Finish,
    /// End at once.
    EndNow,
    /// Reopen the log, and reload the certificates and the rules.
    Reload,
    /// Reopen the log.
    ReopenLog,
}

impl Command {
    const ALL: [(Self, u8); 5] = [
        (Self::Drain, b'd'),
        (Self::Finish, b'f'),
        (Self::EndNow, b'e'),
        (Self::Reload, b'r'),
        (Self::ReopenLog, b'o'),
    ];

    fn byte(self) -> u8 {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or(0, |(_, byte)| *byte)
    }

    /// Applies the command to a server.
    pub fn apply(self, remote: &Remote) {
        match self {
            Self::Drain => remote.drain(),
            Self::Finish => remote.finish(),
            Self::EndNow => remote.end_now(),
            Self::Reload => {
                remote.reopen_log();
                remote.reload_certificates();
                remote.reload_rules();
            }
            Self::ReopenLog => remote.reopen_log(),
        }
    }
}

/// The counters of the supervisor, in memory shared with the process that serves the metrics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Supervision(&'static [AtomicU64; 2]);

impl Supervision {
    pub(crate) fn new() -> Result<Self, Error> {
        // There is exactly one.
        Ok(Self(shared::numbers(1)?.remove(0)))
    }

    fn running(self) -> &'static AtomicU64 {
        &self.0[0]
    }

    fn ended(self) -> &'static AtomicU64 {
        &self.0[1]
    }

    /// Returns the number of worker processes that are running.
    pub(crate) fn running_count(self) -> u64 {
        self.running().load(Ordering::Relaxed)
    }

    /// Returns the number of worker and metrics processes that ended unexpectedly.
    pub(crate) fn ended_count(self) -> u64 {
        self.ended().load(Ordering::Relaxed)
    }
}

/// A worker process, from its own point of view.
#[derive(Debug)]
pub struct Process {
    /// The configuration of its server.
    pub config: Config,
    counters: Vec<Counters>,
    commands: PipeReader,
    ready: PipeWriter,
}

impl Process {
    /// Starts the server of the process.
    pub fn start(&self) -> Result<Server, Error> {
        Server::start_with(self.config.clone(), self.counters.clone())
    }

    /// Reports to the supervisor that the server is ready.
    pub fn tell_ready(&mut self, server: &Server) {
        // After the start, the supervisor no longer reads from this pipe.
        let _ = self.ready.write_all(&[u8::from(server.is_sandboxed())]);
    }

    /// Executes the supervisor's commands. If the supervisor has exited, stops the server and returns.
    pub fn obey(mut self, remote: &Remote) {
        drop(self.ready);
        let mut byte = [0];
        while self.commands.read(&mut byte).is_ok_and(|count| count > 0) {
            if let Some((command, _)) = Command::ALL.iter().find(|(_, known)| *known == byte[0]) {
                command.apply(remote);
            }
        }
        (self.config.report)("the supervisor has exited; stopping");
        remote.drain();
    }
}

/// The role of a child of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Serves files, with the counters of this number.
    Worker(usize),
    /// Serves the metrics.
    Metrics,
}

/// A child of the supervisor, or the place of one that is not running.
#[derive(Debug)]
struct Child {
    role: Role,
    running: Option<Running>,
    started: Instant,
    /// The pause before the last start.
    pause: Duration,
    /// When the next process must be started.
    due: Option<Instant>,
}

/// A process, and the pipe for its commands until the pipe is closed.
#[derive(Debug)]
struct Running {
    pid: i32,
    commands: Option<PipeWriter>,
}

/// The parent of worker processes.
pub struct Supervisor {
    forker: Forker,
    config: Config,
    user: Option<User>,
    run: Box<dyn Fn(Process) -> u8>,
    /// Empty while the server is stopping.
    bound: Vec<Bound>,
    places: Vec<Place>,
    metrics: Option<Bound>,
    counters: Vec<Vec<Counters>>,
    supervision: Supervision,
    children: Vec<Child>,
    /// Whether the processes were asked to end.
    is_ending: bool,
    is_sandboxed: bool,
    /// When the remaining processes are killed.
    kill_at: Option<Instant>,
    started_s: u64,
}

impl Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("children", &self.children).finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Binds all addresses and starts `processes` processes; returns when all of them serve. Each process gets an equal
    /// share of the limits on connections and on memory. The calling process must have a single thread. `run` is the
    /// main function of a process, and returns its exit status. If it could not start, its message states the reason
    /// ([`Error::ProcessEnded`]).
    pub fn start(
        mut config: Config,
        user: Option<User>,
        processes: usize,
        run: impl Fn(Process) -> u8 + 'static,
    ) -> Result<Self, Error> {
        let forker = Forker::new()?;
        let processes = processes.max(1);
        // Without this memory, messages would be repeated.
        SAID.get_or_init(|| shared::numbers(1).ok().and_then(|mut arrays| arrays.pop()));
        let bind = |listen: &Listen| Bound::held(&config, listen);
        let bound = config.listen.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let metrics = config.metrics.take().map(|listen| Bound::single(&listen)).transpose()?;
        config.listen = bound.iter().map(Bound::as_inherited).collect();
        config.connections = config.connections.map(|most| most.div_ceil(processes));
        config.memory_bytes = config.memory_bytes.map(|most| most / processes);
        // Done once: a process that starts later would count the memory of the others as used.
        settle_memory(&mut config, processes as u64);
        // Counters for each worker, and for the log.
        let of_process = config.workers.max(1) + 1;
        let counters = Counters::shared(processes * of_process)?.chunks(of_process).map(<[_]>::to_vec).collect();
        let roles = (0..processes).map(Role::Worker).chain(metrics.is_some().then_some(Role::Metrics));
        let (started, pause) = (Instant::now(), Duration::ZERO);
        let children = roles.map(|role| Child { role, running: None, started, pause, due: None }).collect();
        let mut supervisor = Self {
            forker,
            config,
            user,
            run: Box::new(run),
            bound,
            places: Vec::new(),
            metrics,
            counters,
            supervision: Supervision::new()?,
            children,
            is_ending: false,
            is_sandboxed: false,
            kill_at: None,
            started_s: now_s(),
        };
        signal::report_children();
        for number in 0..supervisor.children.len() {
            if let Err(error) = supervisor.start_child(number) {
                supervisor.abandon();
                return Err(error);
            }
        }
        Ok(supervisor)
    }

    /// Starts the child with this number, and waits until it is ready.
    fn start_child(&mut self, number: usize) -> Result<(), Error> {
        let mut ready = self.fork(number)?;
        let mut byte = [0];
        if ready.read(&mut byte).unwrap_or(0) > 0 {
            self.is_sandboxed |= byte[0] == 1;
            return Ok(());
        }
        if let Some(Running { pid, .. }) = self.children[number].running.take() {
            // A process that exits has reported the reason itself.
            if let Ok(end @ End::Killed(_)) = child::wait(pid) {
                (self.config.report)(&format!("worker process {pid} {} before it was ready", told(end)));
            }
        }
        Err(Error::ProcessEnded)
    }

    /// Ends all children after one could not start: the server has not been reported as ready yet.
    fn abandon(&mut self) {
        for Running { pid, .. } in self.children.drain(..).filter_map(|child| child.running) {
            let _ = process::kill(pid.cast_unsigned());
            let _ = child::wait(pid);
        }
    }

    /// Starts the child with this number; returns the pipe through which it reports that it is ready.
    fn fork(&mut self, number: usize) -> Result<PipeReader, Error> {
        let failed = |cause| Error::Helper { name: "worker process", cause };
        let (commands, ours) = std::io::pipe().map_err(failed)?;
        let (is_ready, ready) = std::io::pipe().map_err(failed)?;
        // The child has a copy of all this, and takes what it needs from its copy.
        let (mut commands, mut ready, mut ours) = (Some(commands), Some(ready), Some(ours));
        let role = self.children[number].role;
        let pid = self.forker.fork(|| {
            let (Some(commands), Some(mut ready)) = (commands.take(), ready.take()) else { return };
            abort_on_panic();
            // Closed, because otherwise no process would notice the end of the supervisor.
            drop(ours.take());
            self.children.clear();
            // The supervisor removes the files of Unix sockets.
            let metrics = self.metrics.as_ref().filter(|_| role == Role::Metrics);
            let status = match (role, metrics) {
                (Role::Worker(number), _) => {
                    std::mem::forget(self.metrics.take().map(Bound::close));
                    let (mut config, counters) = (self.config.clone(), self.counters[number].clone());
                    // The CPUs are assigned in turn to all workers of all processes.
                    let first = number * config.workers.max(1) % config.processors.len().max(1);
                    config.processors.rotate_left(first);
                    (self.run)(Process { config, counters, commands, ready })
                }
                (Role::Metrics, Some(metrics)) => {
                    std::mem::forget(self.bound.drain(..).map(Bound::close).collect::<Vec<_>>());
                    let workers = self.config.workers.max(1) * self.counters.len();
                    let (counters, supervision) = (self.counters.concat(), Some(self.supervision));
                    let counted = Counted { counters, workers, supervision, started_s: self.started_s };
                    let served = MetricsProcess { config: &self.config, user: self.user.as_ref(), metrics };
                    served.run(counted, commands, &mut ready)
                }
                (Role::Metrics, None) => 0,
            };
            std::process::exit(i32::from(status));
        })?;
        let child = &mut self.children[number];
        (child.running, child.started, child.due) = (Some(Running { pid, commands: ours }), Instant::now(), None);
        if role != Role::Metrics {
            self.supervision.running().fetch_add(1, Ordering::Relaxed);
        }
        Ok(is_ready)
    }

    /// Returns the addresses, with the port that the system chose for port 0.
    pub fn addresses(&self) -> Vec<Listen> {
        self.bound.iter().map(|bound| bound.place.address()).collect()
    }

    /// Returns the address of the metrics.
    pub fn metrics_address(&self) -> Option<Listen> {
        self.metrics.as_ref().map(|bound| bound.place.listen.clone())
    }

    /// Returns the identifiers of the worker processes.
    pub fn processes(&self) -> Vec<i32> {
        let workers = self.children.iter().filter(|child| child.role != Role::Metrics);
        workers.filter_map(|child| child.running.as_ref()).map(|running| running.pid).collect()
    }

    /// Returns whether the workers are in a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.is_sandboxed
    }

    /// Sends a command to all worker processes. After a command that ends them, no new one is started.
    pub fn command(&mut self, command: Command) {
        if !matches!(command, Command::Reload | Command::ReopenLog) {
            self.is_ending = true;
            // New connections are refused as soon as the last process has closed its sockets.
            self.places.extend(self.bound.drain(..).map(Bound::close));
            self.children.iter_mut().for_each(|child| child.due = None);
        }
        if command == Command::EndNow {
            self.kill_at.get_or_insert_with(|| Instant::now() + PATIENCE);
        }
        let workers = self.children.iter_mut().filter(|child| child.role != Role::Metrics);
        for commands in workers.filter_map(|child| child.running.as_mut()?.commands.as_mut()) {
            // A process that has ended is reaped soon.
            let _ = commands.write_all(&[command.byte()]);
        }
        if command == Command::Reload && !self.is_ending {
            self.reload();
        }
        self.set_alarm();
    }

    /// Reloads the rules for processes that are started later. The current processes report the outcome. If a name
    /// server answers them but not this process, this process must ask again before it starts another one.
    fn reload(&self) {
        if let Some(rules) = &self.config.rules {
            rules.reload_without_threads(&self.config.reader, self.is_sandboxed);
        }
    }

    /// Manages the processes after one may have ended or the alarm has fired. Replaces the processes that have ended,
    /// and sets the alarm if that is due later. Returns whether the server has ended.
    pub fn tend(&mut self) -> Result<bool, Error> {
        while let Some((pid, end)) = child::reap()? {
            self.note_end(pid, end);
        }
        let now = Instant::now();
        for number in 0..self.children.len() {
            if self.children[number].due.is_none_or(|due| due > now) {
                continue;
            }
            if let Some(rules) = &self.config.rules {
                rules.look_up_again_without_threads(self.is_sandboxed);
            }
            if let Err(error) = self.fork(number) {
                (self.config.report)(&format!("{error}; trying again in {LONGEST_PAUSE:?}"));
                self.children[number].due = Some(now + LONGEST_PAUSE);
            }
        }
        if self.is_ending && self.processes().is_empty() {
            // Closing its pipe ends the metrics process.
            for running in self.children.iter_mut().filter_map(|child| child.running.as_mut()) {
                running.commands = None;
                self.kill_at.get_or_insert(now + PATIENCE);
            }
            if self.children.iter().all(|child| child.running.is_none()) {
                return Ok(true);
            }
        }
        if self.kill_at.is_some_and(|kill_at| kill_at <= now) {
            self.kill_at = Some(now + PATIENCE);
            let is_told = |running: &&Running| running.commands.is_none() || self.processes().contains(&running.pid);
            for Running { pid, .. } in self.children.iter().filter_map(|child| child.running.as_ref()).filter(is_told) {
                (self.config.report)(&format!("process {pid} did not stop in time; killing it"));
                let _ = process::kill(pid.cast_unsigned());
            }
        }
        self.set_alarm();
        Ok(false)
    }

    /// Records that a process has ended, and when the next one must be started.
    fn note_end(&mut self, pid: i32, end: End) {
        let is_it = |child: &&mut Child| child.running.as_ref().is_some_and(|running| running.pid == pid);
        let Some(child) = self.children.iter_mut().find(is_it) else { return };
        child.running = None;
        let what = if let Role::Worker(number) = child.role {
            self.counters[number].iter().for_each(|counters| counters.close_all());
            self.supervision.running().fetch_sub(1, Ordering::Relaxed);
            "worker process"
        } else {
            "metrics process"
        };
        forget_messages(pid);
        let how = told(end);
        if self.is_ending {
            if end != End::Exited(0) {
                (self.config.report)(&format!("{what} {pid} {how}"));
            }
            return;
        }
        self.supervision.ended().fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        child.pause = match child.pause {
            _ if now.duration_since(child.started) >= SETTLED => Duration::ZERO,
            Duration::ZERO => FIRST_PAUSE,
            pause => (2 * pause).min(LONGEST_PAUSE),
        };
        child.due = Some(now + child.pause);
        let when = if child.pause.is_zero() { String::new() } else { format!(" in {:?}", child.pause) };
        (self.config.report)(&format!("{what} {pid} {how}; starting another one{when}"));
    }

    /// Sets the alarm for the next action.
    fn set_alarm(&self) {
        let next = self.children.iter().filter_map(|child| child.due).chain(self.kill_at).min();
        // A timer of zero would never expire.
        let left = next.map(|next| next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        signal::set_alarm(left.unwrap_or_default());
    }

    /// Returns the counters so far, summed over all processes.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.counters.iter().flatten().for_each(|counters| totals.add(*counters));
        totals
    }
}

/// Describes how a process ended.
fn told(end: End) -> String {
    match end {
        End::Exited(status) => format!("exited with status {status}"),
        End::Killed(number) => {
            format!("was killed by {}", signal::name(number).map_or(format!("signal {number}"), str::to_owned))
        }
    }
}

/// Makes a panic in any thread end the process. A server that lacks a worker would serve less and less, unnoticed.
fn abort_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
}

/// The process that serves the metrics.
struct MetricsProcess<'a> {
    config: &'a Config,
    user: Option<&'a User>,
    metrics: &'a Bound,
}

impl MetricsProcess<'_> {
    /// Serves the metrics until the supervisor closes the pipe; returns the exit status.
    fn run(&self, counted: Counted, line: PipeReader, ready: &mut PipeWriter) -> u8 {
        match self.serve(counted, line, ready) {
            Ok(()) => 0,
            Err(error) => {
                (self.config.report)(&error.to_string());
                2
            }
        }
    }

    fn serve(&self, counted: Counted, mut line: PipeReader, ready: &mut PipeWriter) -> Result<(), Error> {
        let sandbox = Arc::new(Sandbox::new(self.config)?);
        let metrics = Metrics::start(self.metrics, counted, sandbox.clone())?;
        if let Some(user) = self.user {
            switch_user(user, self.config)?;
        }
        sandbox.enter()?;
        // After the start, the supervisor no longer reads from this pipe.
        let _ = ready.write_all(&[u8::from(sandbox.is_active())]);
        let mut byte = [0];
        while line.read(&mut byte).is_ok_and(|count| count > 0) {}
        metrics.finish();
        Ok(())
    }
}

/// How long a message of one process is not repeated by others.
const REPEATED_S: u64 = 60;

/// The number of messages that are remembered.
const MESSAGES: usize = 64;

/// The last messages, each a word with a hash (24 bits), the process (22 bits, which are all that Linux uses) and the
/// time in seconds (18 bits, which are three days). 0 is a free place.
type Messages = &'static [AtomicU64; MESSAGES];

const PROCESS_BITS: u32 = 22;

const TIME_BITS: u32 = 18;

/// The last messages of all processes, if there is a supervisor.
static SAID: OnceLock<Option<Messages>> = OnceLock::new();

/// Returns whether another process under the same supervisor has recently reported the same message: for example, all
/// of them notice that a directory was replaced. Otherwise records the message.
pub fn is_repeated(message: &str) -> bool {
    let Some(said) = SAID.get().copied().flatten() else { return false };
    let now_s = landau_sys::clock::monotonic_ns() / 1_000_000_000;
    is_said(said, message, std::process::id(), now_s)
}

fn is_said(said: Messages, message: &str, process: u32, now_s: u64) -> bool {
    // FNV-1a, the same in all processes.
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = message.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let process = u64::from(process) & ((1 << PROCESS_BITS) - 1);
    let time_s = now_s & ((1 << TIME_BITS) - 1);
    let new = (hash >> 40 << 40) | process << TIME_BITS | time_s;
    let place = &said[hash as usize % MESSAGES];
    // If two processes report at the same moment, the second one finds the first one's entry.
    let known = place.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
        let is_recent = time_s.wrapping_sub(old) & ((1 << TIME_BITS) - 1) < REPEATED_S;
        let is_repeated = old != 0 && old >> 40 == hash >> 40 && who(old) != process && is_recent;
        (!is_repeated).then_some(new)
    });
    known.is_err()
}

/// Returns the process that reported a message.
fn who(word: u64) -> u64 {
    word >> TIME_BITS & ((1 << PROCESS_BITS) - 1)
}

/// Removes the messages of a process that has ended, so that its successor may repeat them.
fn forget_messages(pid: i32) {
    for place in SAID.get().copied().flatten().into_iter().flatten() {
        let is_its = |old: u64| (old != 0 && who(old) == pid as u64).then_some(0);
        let _ = place.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_its);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_several_processes_is_told_once() {
        let said: Messages = shared::numbers(1).unwrap()[0];
        assert!(!is_said(said, "replaced", 10, 1000));
        assert!(is_said(said, "replaced", 11, 1000) && is_said(said, "replaced", 12, 1000 + REPEATED_S - 1));
        // A repetition by the same process is intended.
        assert!(!is_said(said, "replaced", 10, 1001));
        assert!(!is_said(said, "reopened", 11, 1001));
        assert!(!is_said(said, "replaced", 11, 1001 + REPEATED_S));
    }

    /// Started by the next test in a separate process, which the thread's panic must end.
    #[test]
    #[ignore = "ends the process"]
    fn a_thread_panics() {
        abort_on_panic();
        let thread = std::thread::spawn(|| panic!("as a worker might"));
        assert!(thread.join().is_err());
    }

    /// A worker's panic was once noticed only after all workers before it had ended, which means never.
    #[test]
    fn a_panic_in_any_thread_ends_the_process() {
        use std::os::unix::process::ExitStatusExt;
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let words = ["--exact", "supervisor::tests::a_thread_panics", "--ignored", "--test-threads", "1"];
        let ran = command.args(words).output().unwrap();
        let name = ran.status.signal().and_then(signal::name);
        assert_eq!(name, Some("SIGABRT"), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    #[test]
    fn every_command_has_its_byte() {
        let bytes: std::collections::HashSet<u8> = Command::ALL.iter().map(|(command, _)| command.byte()).collect();
        assert_eq!((bytes.len(), bytes.contains(&0)), (Command::ALL.len(), false));
    }
}
