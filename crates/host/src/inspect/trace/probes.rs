//! Collects a trace with programs in the kernel, which are attached for the window and read at its end.
//!
//! Forks, executions, exits of tasks and new connections are traced during the whole window; they are rare. System
//! calls are counted in time slices, because a program that runs at each call costs the server a few percent of its
//! time.

use super::Trace;
use super::btf::Types;
use super::program::{
    CALL_BYTES, CALLS, CONNECTION_BYTES, COUNTERS, ESTABLISHED, EXECUTIONS, FORKS, LOST, Layout, Maps, REPLIES, SLICE,
    TASK_BYTES, THREADS, Writer, encode, entry_of, task_of,
};
use crate::inspect::calls::{About, actions};
use crate::inspect::sample::Process;
use crate::root::Root;
use landau_sys::Error;
use landau_sys::bpf::{ARGUMENTS, Instruction, Link, Map, MapKind, Program};
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::time::Instant;

/// Capacities of the maps.
const TASKS: u32 = 32_768;
const CONNECTIONS: u32 = 65_536;
const CALL_KINDS: u32 = 16_384;

/// The initial PID namespace, whose numbers the programs in the kernel see.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The programs, attached to their tracepoints.
#[derive(Debug)]
pub(in crate::inspect) struct Probes {
    maps: Maps,
    calls: Program,
    sees_rings: bool,
    followed: BTreeSet<u32>,
    slice: u64,
    /// The start of the time slice, the connections established before it, and the links of the counting programs.
    counting: Option<(Instant, u64, Vec<Link>)>,
    operations: Option<Program>,
    counted_ns: u64,
    established_counted: u64,
    /// Tasks that did not fit into the table when they were to be followed.
    lost: u64,
    links: Vec<Link>,
}

/// Returns the reason why the kernel's tracepoints cannot be used, as a clause.
fn refused(error: &Error) -> String {
    if error.is_not_permitted() {
        return format!("{error}: run landau inspect as root, or with CAP_BPF and CAP_PERFMON");
    }
    error.to_string()
}

impl Probes {
    /// Loads the programs for a server with these TCP ports, in this network namespace. Attaches all of them but those
    /// that count calls.
    ///
    /// # Errors
    ///
    /// The reason why this host does not allow it.
    pub(in crate::inspect) fn attach(root: &Root, ports: &[u16], network: u32) -> Result<Self, String> {
        Self::with_capacity(root, ports, network, TASKS)
    }

    fn with_capacity(root: &Root, ports: &[u16], network: u32, tasks: u32) -> Result<Self, String> {
        let arguments = ARGUMENTS.ok_or("the registers of this processor are not known")?;
        if root.link("proc/self/ns/pid").as_deref() != Some(FIRST_NAMESPACE) {
            return Err("landau runs in a non-initial PID namespace, where tasks have different pids".to_owned());
        }
        let bytes = std::fs::read(root.path("sys/kernel/btf/vmlinux")).map_err(|error| {
            format!("the kernel does not describe its structures (/sys/kernel/btf/vmlinux: {error})")
        })?;
        let types = Types::read(bytes).ok_or("/sys/kernel/btf/vmlinux is not in the format BTF")?;
        let layout = Layout::find(&types).map_err(|member| format!("this kernel's structures have no {member}"))?;
        let maps = Maps {
            tasks: map(MapKind::Hash, 4, TASK_BYTES, tasks)?,
            connections: map(MapKind::LruHash, 8, CONNECTION_BYTES, CONNECTIONS)?,
            calls: map(MapKind::Hash, CALL_BYTES, 8, CALL_KINDS)?,
            actions: map(MapKind::Array, 4, 4, CALLS)?,
            counters: map(MapKind::Array, 4, 8, COUNTERS)?,
        };
        for (number, action) in actions().into_iter().filter(|(number, _)| *number < CALLS) {
            let encoded = encode(action, &arguments);
            maps.actions.set(&number.to_ne_bytes(), &encoded.to_ne_bytes(), false).map_err(|error| refused(&error))?;
        }
        let writer = Writer { layout: &layout, maps: &maps, arguments, ports, network };
        let links = vec![
            attached(&writer.fork(), c"sched_process_fork")?,
            attached(&writer.execution(), c"sched_process_exec")?,
            attached(&writer.end(), c"sched_process_exit")?,
            attached(&writer.established(), c"inet_sock_set_state")?,
        ];
        let calls = loaded(&writer.calls())?;
        let operations = writer.operations().map(|code| loaded(&code)).transpose()?;
        // The tracepoint has had this name since Linux 6.3.
        let operations = operations.filter(|program| program.attach(c"io_uring_submit_req").is_ok());
        Ok(Self {
            sees_rings: operations.is_some(),
            maps,
            calls,
            operations,
            followed: BTreeSet::new(),
            slice: 0,
            counting: None,
            counted_ns: 0,
            established_counted: 0,
            lost: 0,
            links,
        })
    }

    /// Follows the tasks of these processes that are not followed yet. Returns whether there was a new one.
    ///
    /// # Errors
    ///
    /// The reason why the kernel refused it.
    pub(in crate::inspect) fn follow(&mut self, processes: &[Process]) -> Result<bool, String> {
        let before = self.followed.len();
        for process in processes {
            for thread in process.threads.iter().filter(|thread| !self.followed.contains(&thread.tid)) {
                let entry = entry_of(process.pid, process.parent);
                match self.maps.tasks.set(&thread.tid.to_ne_bytes(), &entry, true) {
                    // It was created during the window, and the program at the fork was faster.
                    Err(error) if error.is_existing() => {}
                    Err(error) if error.is_too_big() => self.lost += 1,
                    other => other.map_err(|error| refused(&error))?,
                }
            }
            self.followed.extend(process.threads.iter().map(|thread| thread.tid));
        }
        Ok(self.followed.len() > before)
    }

    /// Begins a time slice in which calls are counted. Returns the number of replies counted before it.
    ///
    /// # Errors
    ///
    /// The reason why the kernel refused it.
    pub(in crate::inspect) fn resume(&mut self) -> Result<u64, String> {
        let replies = self.counter(REPLIES)?;
        self.slice += 1;
        let slice = self.slice.to_ne_bytes();
        self.maps.counters.set(&SLICE.to_ne_bytes(), &slice, false).map_err(|error| refused(&error))?;
        let mut links = vec![self.calls.attach(c"sys_enter").map_err(|error| refused(&error))?];
        if let Some(operations) = &self.operations {
            links.push(operations.attach(c"io_uring_submit_req").map_err(|error| refused(&error))?);
        }
        self.counting = Some((Instant::now(), self.counter(ESTABLISHED)?, links));
        Ok(replies)
    }

    /// Ends the time slice.
    ///
    /// # Errors
    ///
    /// The reason why the kernel does not return the counts.
    pub(in crate::inspect) fn pause(&mut self) -> Result<(), String> {
        let Some((began, established, links)) = self.counting.take() else { return Ok(()) };
        drop(links);
        self.counted_ns += began.elapsed().as_nanos() as u64;
        self.established_counted += self.counter(ESTABLISHED)? - established;
        Ok(())
    }

    fn counter(&self, number: u32) -> Result<u64, String> {
        let value = self.maps.counters.get(&number.to_ne_bytes()).map_err(|error| refused(&error))?;
        let value = value.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
        value.ok_or_else(|| format!("the kernel's table of counters has no number {number}"))
    }

    /// Ends the window and returns the trace.
    ///
    /// # Errors
    ///
    /// The reason why the kernel does not return it.
    pub(in crate::inspect) fn finish(mut self) -> Result<Trace, String> {
        self.pause()?;
        // Nothing changes from here on.
        self.links.clear();
        let mut trace = Trace {
            established: self.counter(ESTABLISHED)?,
            established_counted: self.established_counted,
            replies: self.counter(REPLIES)?,
            forks: self.counter(FORKS)?,
            threads: self.counter(THREADS)?,
            executions: self.counter(EXECUTIONS)?,
            lost: self.counter(LOST)? + self.lost,
            counted_ns: self.counted_ns,
            sees_rings: self.sees_rings,
            ..Trace::default()
        };
        for (key, value) in entries(&self.maps.tasks)? {
            let (Ok(tid), Some(task)) = (key.try_into().map(u32::from_ne_bytes), task_of(&value)) else { continue };
            trace.tasks.insert(tid, task);
        }
        for (key, value) in entries(&self.maps.calls)? {
            let half = |at: usize| key.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes);
            let group = key.get(..4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
            let count = value.try_into().map(u64::from_ne_bytes);
            if let (Some(group), Some(number), Some(about), Ok(count)) = (group, half(4), half(6), count) {
                trace.calls.insert((group, number, About::of(about)), count);
            }
        }
        Ok(trace)
    }
}

fn map(kind: MapKind, key_bytes: u32, value_bytes: u32, capacity: u32) -> Result<Map, String> {
    Map::new(kind, key_bytes, value_bytes, capacity).map_err(|error| refused(&error))
}

fn loaded(code: &[Instruction]) -> Result<Program, String> {
    Program::load(code).map_err(|error| {
        let log = Program::verifier_log(code);
        let reason = log.lines().rev().find(|line| !line.is_empty() && !line.starts_with("processed"));
        format!("{}{}", refused(&error), reason.map_or(String::new(), |line| format!(" ({line})")))
    })
}

fn attached(code: &[Instruction], tracepoint: &CStr) -> Result<Link, String> {
    loaded(code)?.attach(tracepoint).map_err(|error| format!("{}: {}", tracepoint.to_string_lossy(), refused(&error)))
}

/// The bytes of a key and of its value.
type Entry = (Vec<u8>, Vec<u8>);

fn entries(map: &Map) -> Result<Vec<Entry>, String> {
    let value = |key: Vec<u8>| Ok(map.get(&key)?.map(|value| (key, value)));
    let keys = map.keys().map_err(|error| refused(&error))?;
    let entries = keys.into_iter().map(value).collect::<Result<Vec<_>, Error>>().map_err(|error| refused(&error))?;
    Ok(entries.into_iter().flatten().collect())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use crate::inspect::sample::Thread;
    use crate::inspect::trace::{IS_ENDED, IS_EXECUTED};
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    /// An environment variable for the process in which [`a_second_thread_executes`] is to execute another program.
    const EXECUTES: &str = "LANDAU_TEST_EXECUTES";

    /// Not a test, but a program for the next test.
    #[test]
    #[ignore = "it replaces the process"]
    fn a_second_thread_executes() {
        if std::env::var_os(EXECUTES).is_none() {
            return;
        }
        let execute = || {
            writeln!(std::io::stderr(), "ready").unwrap();
            std::io::stdin().lock().read_line(&mut String::new()).unwrap();
            // The shell executes the program in its own process.
            panic!("{}", Command::new("sh").args(["-c", "echo executed >&2; exec cat"]).exec());
        };
        std::thread::spawn(execute).join().unwrap();
    }

    /// The kernel ends all threads but the one that executes, which takes over the number of the first thread. Landau
    /// once counted the process as ended from then on.
    #[test]
    fn a_process_whose_second_thread_executes_goes_on() {
        let mut probes = match Probes::attach(&Root::live(), &[1], 1) {
            Ok(probes) => probes,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        };
        let name = "inspect::trace::probes::tests::a_second_thread_executes";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", name, "--nocapture"])
            .env(EXECUTES, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (pid, mut input) = (child.id(), child.stdin.take().unwrap());
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"));
        let tids = Root::live().names(&format!("proc/{pid}/task"));
        let threads = tids.iter().map(|tid| Thread { tid: tid.parse().unwrap(), ..Thread::default() });
        let threads: Vec<Thread> = threads.collect();
        let others: Vec<u32> = threads.iter().map(|thread| thread.tid).filter(|tid| *tid != pid).collect();
        let followed = probes.follow(&[Process { pid, threads, ..Process::default() }]);
        input.write_all(b"\n").unwrap();
        let is_executed = lines.any(|line| line.unwrap() == "executed");
        let trace = probes.finish().unwrap();
        drop(input);
        child.wait().unwrap();
        assert_eq!((followed, is_executed, others.is_empty()), (Ok(true), true, false));
        let first = trace.tasks[&pid];
        assert_eq!((first.flags & (IS_EXECUTED | IS_ENDED), first.ended_ns), (IS_EXECUTED, 0));
        // The thread's former number no longer exists.
        assert!(others.iter().all(|tid| trace.tasks[tid].is(IS_ENDED) && trace.tasks[tid].ended_ns > 0));
    }

    #[test]
    fn a_task_without_a_place_in_the_table_is_lost() {
        let mut probes = match Probes::with_capacity(&Root::live(), &[1], 1, 2) {
            Ok(probes) => probes,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        };
        // Beyond the largest process identifier, so no program finds them.
        let thread = |tid| Thread { tid, ..Thread::default() };
        let process =
            Process { pid: 1 << 23, threads: (0..5).map(|n| thread((1 << 23) + n)).collect(), ..Process::default() };
        assert_eq!(probes.follow(std::slice::from_ref(&process)), Ok(true));
        // They count as lost once, no matter how often they are seen.
        assert_eq!(probes.follow(&[process]), Ok(false));
        let trace = probes.finish().unwrap();
        assert_eq!((trace.tasks.len(), trace.lost), (2, 3));
    }
}
