//! A sample of a server from `/proc` at one point in time: its processes, their threads, and the owners of its
//! connections.

use super::wait::{Wait, of_call, of_function};
use crate::links::{is_gone, read_links, socket};
use crate::root::Root;
use landau_sys::process::thread_time_ns;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// States in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";
const CLOSE_WAIT: &str = "08";
const LISTEN: &str = "0A";

/// `EPOLLET` in the `fdinfo` line of a watched descriptor.
const EDGE: u64 = 1 << 31;

/// `O_ASYNC` in the `fdinfo` flags of a descriptor, which are octal.
const ASYNC: u32 = 0o20_000;

/// The server at one point in time.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Milliseconds since the first sample.
    pub(super) at_ms: u64,
    /// Connections in the accept queue, by their remote addresses.
    pub(super) waiting: BTreeSet<String>,
    pub(super) processes: Vec<Process>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    /// Clock ticks since the system started: together with the pid, this identifies a process.
    pub(super) started: u64,
    pub(super) command: String,
    /// The executed file and the start of its stack. A fork keeps the address of the stack; an execution chooses a new
    /// one.
    pub(super) image: Option<(String, u64)>,
    pub(super) threads: Vec<Thread>,
    /// Inodes of the sockets of accepted connections; `None` if the descriptors cannot be read.
    pub(super) connections: Option<BTreeSet<u64>>,
    /// Inodes of its open listening sockets.
    pub(super) listeners: BTreeSet<u64>,
    /// The numbers of epoll and `io_uring` instances.
    pub(super) epolls: u32,
    pub(super) rings: u32,
    /// The directories of its descriptor tables: its own, or those of its threads.
    pub(super) tables: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) wait: Option<Wait>,
    /// The connection that it reads.
    pub(super) reads: Option<u64>,
    /// The epoll instance that it waits for.
    pub(super) epoll: Option<u32>,
    /// Processor time since it started.
    pub(super) cpu_ns: u64,
}

/// The threads that wait in epoll for events of the server's sockets.
#[derive(Debug, Clone, Default)]
pub(super) struct Watchers {
    /// Whether each thread always waited for exactly one connection.
    found: BTreeMap<u32, bool>,
    checks: BTreeMap<u32, u32>,
}

impl Watchers {
    /// The number of checks of a thread after which nothing more can be learnt about it.
    const CHECKS: u32 = 8;

    fn is_open(&self, tid: u32) -> bool {
        !self.watches(tid) && self.checks.get(&tid).is_none_or(|checks| *checks < Self::CHECKS)
    }

    pub(super) fn add(&mut self, tid: u32, listeners: usize, connections: usize) {
        *self.checks.entry(tid).or_default() += 1;
        if listeners + connections > 0 {
            *self.found.entry(tid).or_insert(true) &= listeners == 0 && connections == 1;
        }
    }

    /// Returns whether a thread waits for several sockets, or for connections to accept.
    pub(super) fn watches(&self, tid: u32) -> bool {
        self.found.get(&tid) == Some(&false)
    }

    /// Returns whether a thread only ever waited for one connection.
    pub(super) fn watches_one(&self, tid: u32) -> bool {
        self.found.get(&tid) == Some(&true)
    }

    /// Returns the threads that wait for any of the server's sockets.
    pub(super) fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.found.keys().copied()
    }
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listener {
    pub(super) inode: u64,
    /// Address and port in the kernel's notation; several sockets share one address with `SO_REUSEPORT`.
    pub(super) address: String,
    pub(super) port: u16,
}

impl Listener {
    /// Returns the file in `/proc/PID/net` that lists the connections that it accepts. An IPv6 listener accepts IPv6
    /// sockets, even from IPv4 clients.
    fn file(&self) -> &'static str {
        /// The number of hex digits of an IPv4 address.
        const SHORT: usize = 8;
        let digits = self.address.split(':').next().unwrap_or_default().len();
        if digits > SHORT { "tcp6" } else { "tcp" }
    }
}

/// The sockets of a network namespace.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) listeners: BTreeSet<Listener>,
    /// The local port, remote address and inode of each connection; the inode is 0 until it is accepted.
    connections: Vec<(u16, String, u64)>,
}

impl Sockets {
    /// Reads the sockets of the network namespace of a process.
    pub(super) fn read(root: &Root, pid: &str) -> Self {
        Self::read_files(root, pid, &BTreeSet::from(["tcp", "tcp6"]))
    }

    /// Reads the sockets in some of the files. For each file the kernel walks its whole table of connections, which
    /// takes milliseconds even if there are few.
    fn read_files(root: &Root, pid: &str, files: &BTreeSet<&str>) -> Self {
        let mut found = Self::default();
        for file in files {
            let text = root.text(&format!("proc/{pid}/net/{file}")).unwrap_or_default();
            text.lines().skip(1).for_each(|line| found.add(line));
        }
        found
    }

    fn add(&mut self, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, _, _, inode, ..] = words[..] else { return };
        let port = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        let (Some(port), Ok(inode)) = (port, inode.parse()) else { return };
        match state {
            LISTEN => drop(self.listeners.insert(Listener { inode, address: local.to_owned(), port })),
            ESTABLISHED | CLOSE_WAIT => self.connections.push((port, remote.to_owned(), inode)),
            _ => {}
        }
    }
}

/// A process in the table of all processes.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) pid: u32,
    pub(super) parent: u32,
    started: u64,
    stack: u64,
    pub(super) program: String,
}

/// Returns all processes that have not ended.
pub(super) fn table(root: &Root) -> BTreeMap<u32, Entry> {
    let names = root.names("proc");
    let pids = names.iter().filter_map(|name| name.parse::<u32>().ok());
    let entries = pids.filter_map(|pid| entry(pid, &root.text(&format!("proc/{pid}/stat"))?));
    entries.map(|entry| (entry.pid, entry)).collect()
}

/// Parses `/proc/PID/stat`; `None` for a zombie.
fn entry(pid: u32, text: &str) -> Option<Entry> {
    let (before, after) = text.rsplit_once(')')?;
    let words: Vec<&str> = after.split_ascii_whitespace().collect();
    let number = |index: usize| words.get(index)?.parse::<u64>().ok();
    (!matches!(*words.first()?, "Z" | "X")).then_some(())?;
    Some(Entry {
        pid,
        parent: u32::try_from(number(1)?).ok()?,
        started: number(19)?,
        stack: number(25)?,
        program: before.split_once('(')?.1.to_owned(),
    })
}

/// Returns whether a tracer has stopped the task with this `stat`.
fn is_traced(text: &str) -> bool {
    state(text) == Some('t')
}

/// Returns the inodes of the open sockets of a process, from the table of its first thread or from those of all
/// threads; fails if they cannot be read. Threads that share a table are not read one by one: thousands of them may
/// share thousands of descriptors.
pub(super) fn sockets_of(root: &Root, pid: u32, of_all_threads: bool) -> Result<BTreeSet<u64>, NotRead> {
    let tables = tables_of(root, pid, of_all_threads && has_tables(root, pid))?;
    Ok(tables.values().flatten().filter_map(|(_, link)| socket(link)).collect())
}

/// The reason why descriptors could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRead {
    /// The process or thread has ended.
    Ended,
    /// This user is not permitted to read them.
    Forbidden,
}

/// Descriptor tables, keyed by directory.
type Tables = BTreeMap<String, Vec<(u32, String)>>;

/// Returns the descriptor tables of a process: that of its first thread, or those of all threads that have not ended.
fn tables_of(root: &Root, pid: u32, has_several: bool) -> Result<Tables, NotRead> {
    let folders = if has_several { threads_of(root, pid) } else { vec![format!("proc/{pid}")] };
    let mut tables = Tables::new();
    for folder in folders {
        match links(root, &folder) {
            Ok(links) => drop(tables.insert(folder, links)),
            Err(NotRead::Ended) => {}
            Err(NotRead::Forbidden) => return Err(NotRead::Forbidden),
        }
    }
    if tables.is_empty() { Err(NotRead::Ended) } else { Ok(tables) }
}

/// Returns the directories of a process's threads.
fn threads_of(root: &Root, pid: u32) -> Vec<String> {
    let names = root.names(&format!("proc/{pid}/task"));
    names.iter().map(|tid| format!("proc/{pid}/task/{tid}")).collect()
}

/// The number of threads whose descriptor tables are compared with that of the process.
const COMPARED: usize = 3;

/// Returns whether threads of a process have separate descriptor tables (`CLONE_FILES` or `unshare`), as those of
/// `landau serve` do.
fn has_tables(root: &Root, pid: u32) -> bool {
    let read = |table: &str| Some(links(root, table).ok()?.into_iter().collect::<BTreeSet<_>>());
    let of_process = format!("proc/{pid}");
    let first = format!("proc/{pid}/task/{pid}");
    threads_of(root, pid).iter().filter(|thread| **thread != first).take(COMPARED).any(|thread| {
        // A descriptor that exists before and after existed in between, too.
        let (before, process, after) = (read(thread), read(&of_process), read(thread));
        let of_both = before.zip(process).zip(after);
        of_both.is_some_and(|((before, process), after)| before.intersection(&after).any(|one| !process.contains(one)))
    })
}

/// Returns the open descriptors of the process or thread with this directory, and what they refer to.
fn links(root: &Root, table: &str) -> Result<Vec<(u32, String)>, NotRead> {
    // Those of a zombie belong to root, so other users are refused.
    let why = |error: std::io::Error| {
        if is_gone(&error) || has_ended(root, table) { NotRead::Ended } else { NotRead::Forbidden }
    };
    let links = read_links(root, &format!("{table}/fd")).map_err(why)?;
    // For a zombie, root sees an empty table.
    if links.is_empty() && has_ended(root, table) { Err(NotRead::Ended) } else { Ok(links) }
}

/// Returns whether the process or thread with this directory has ended, even if its parent has not waited for it.
pub(super) fn has_ended(root: &Root, folder: &str) -> bool {
    let text = root.text(&format!("{folder}/stat"));
    text.is_none_or(|text| matches!(state(&text), Some('Z' | 'X')))
}

/// Returns the state in a `stat`.
fn state(text: &str) -> Option<char> {
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Takes samples of a server.
#[derive(Debug)]
pub(super) struct Sampler<'a> {
    root: &'a Root,
    began: Instant,
    /// The processes that have the listening sockets open, or the one named by the user.
    owners: BTreeSet<u32>,
    listeners: BTreeSet<Listener>,
    /// All processes of the server so far: a process whose parent has ended still belongs to it.
    known: BTreeSet<(u32, u64)>,
    own: u32,
    /// Whether the threads of a process have separate descriptor tables.
    has_tables: BTreeMap<u32, bool>,
    /// Whether a tracer stops the threads at their calls: a thread in a call is then not necessarily blocked in it.
    has_stops: bool,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(root: &'a Root, owners: BTreeSet<u32>, listeners: BTreeSet<Listener>) -> Self {
        let (known, has_tables) = (BTreeSet::new(), BTreeMap::new());
        let own = std::process::id();
        Self { root, began: Instant::now(), owners, listeners, known, own, has_tables, has_stops: false }
    }

    /// Expects threads that a tracer stops at their calls from now on.
    pub(super) fn expect_stops(&mut self) {
        self.has_stops = true;
    }

    /// Takes a sample, and returns it with the processor time that it took.
    pub(super) fn take(&mut self) -> (Sample, std::time::Duration) {
        let began_ns = thread_time_ns();
        let at_ms = self.began.elapsed().as_millis() as u64;
        let table = table(self.root);
        let members = self.members(&table);
        let namespace = members.iter().find(|entry| self.owners.contains(&entry.pid)).or(members.first());
        let files: BTreeSet<&str> = self.listeners.iter().map(Listener::file).collect();
        let read = |entry: &Entry| Sockets::read_files(self.root, &entry.pid.to_string(), &files);
        let sockets = namespace.map(read).unwrap_or_default();
        let ports: BTreeSet<u16> = self.listeners.iter().map(|listener| listener.port).collect();
        let ours = sockets.connections.iter().filter(|(port, ..)| ports.contains(port));
        let (waiting, accepted): (Vec<_>, Vec<_>) = ours.partition(|(_, _, inode)| *inode == 0);
        let accepted: BTreeSet<u64> = accepted.iter().map(|(_, _, inode)| *inode).collect();
        let processes = members.iter().filter_map(|entry| self.process(entry, &accepted)).collect();
        let waiting = waiting.into_iter().map(|(port, remote, _)| format!("{remote} {port}")).collect();
        let cost = std::time::Duration::from_nanos(thread_time_ns() - began_ns);
        (Sample { at_ms, waiting, processes }, cost)
    }

    /// Returns the server's processes: the owners, their descendants, and all processes that belonged to it before.
    fn members(&mut self, table: &BTreeMap<u32, Entry>) -> Vec<Entry> {
        let belongs = |entry: &Entry| {
            let mut pid = entry.pid;
            // Pids wrap, so parents do not always have lower numbers; the length of the table bounds the chain.
            for _ in 0..=table.len() {
                if self.owners.contains(&pid) {
                    return true;
                }
                let Some(above) = table.get(&pid).map(|entry| entry.parent) else { break };
                pid = above;
            }
            self.known.contains(&(entry.pid, entry.started))
        };
        let members: Vec<Entry> =
            table.values().filter(|entry| entry.pid != self.own && belongs(entry)).cloned().collect();
        self.known.extend(members.iter().map(|entry| (entry.pid, entry.started)));
        members
    }

    /// Returns a process; `None` if it has ended in the meantime.
    fn process(&mut self, entry: &Entry, accepted: &BTreeSet<u64>) -> Option<Process> {
        let pid = entry.pid;
        let has_tables = *self.has_tables.entry(pid).or_insert_with(|| has_tables(self.root, pid));
        let links = match tables_of(self.root, pid, has_tables) {
            Ok(tables) => Some(tables),
            Err(NotRead::Forbidden) => None,
            Err(NotRead::Ended) => return None,
        };
        let of_first = || vec![format!("proc/{pid}")];
        let tables = links.as_ref().map_or_else(of_first, |tables| tables.keys().cloned().collect());
        let is_listener = |inode: &u64| self.listeners.iter().any(|listener| listener.inode == *inode);
        let all: Vec<&(u32, String)> = links.iter().flat_map(BTreeMap::values).flatten().collect();
        let sockets: BTreeSet<u64> = all.iter().filter_map(|(_, link)| socket(link)).collect();
        let count = |kind: &str| all.iter().filter(|(_, link)| link == kind).count() as u32;
        Some(Process {
            pid,
            parent: entry.parent,
            started: entry.started,
            command: self.root.text(&format!("proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " "),
            image: self.root.link(&format!("proc/{pid}/exe")).map(|file| (file, entry.stack)),
            threads: self.threads(pid, links.as_ref().unwrap_or(&Tables::new()), accepted),
            connections: links.is_some().then(|| sockets.intersection(accepted).copied().collect()),
            listeners: sockets.iter().copied().filter(is_listener).collect(),
            epolls: count("anon_inode:[eventpoll]"),
            rings: count("anon_inode:[io_uring]"),
            tables,
        })
    }

    fn threads(&self, pid: u32, tables: &Tables, accepted: &BTreeSet<u64>) -> Vec<Thread> {
        let names = self.root.names(&format!("proc/{pid}/task"));
        let tids = names.iter().filter_map(|name| name.parse::<u32>().ok());
        tids.filter_map(|tid| {
            let folder = format!("proc/{pid}/task/{tid}");
            let file = |name: &str| self.root.text(&format!("{folder}/{name}"));
            // The kernel's io_uring workers are listed among the threads.
            (!file("comm")?.starts_with("iou-")).then_some(())?;
            let is_stopped = || self.has_stops && file("stat").is_some_and(|text| is_traced(&text));
            let was_stopped = is_stopped();
            let call = file("syscall").and_then(|text| of_call(&text));
            let by_function = || Some((of_function(&file("wchan")?), None));
            let (wait, descriptor) = if was_stopped || is_stopped() {
                (Wait::Running, None)
            } else {
                call.or_else(by_function).unwrap_or((Wait::Unseen, None))
            };
            let reads = descriptor.filter(|_| matches!(wait, Wait::Read | Wait::Write));
            let table = tables.get(&folder).or_else(|| tables.get(&format!("proc/{pid}")));
            let inode = reads.and_then(|wanted| {
                table?.iter().find(|(descriptor, _)| *descriptor == wanted).and_then(|(_, link)| socket(link))
            });
            let cpu_ns = file("schedstat").and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0);
            let epoll = descriptor.filter(|_| wait == Wait::Epoll);
            let reads = inode.filter(|inode| accepted.contains(inode));
            Some(Thread { tid, wait: Some(wait), reads, epoll, cpu_ns })
        })
        .collect()
    }

    /// Returns whether epoll watches the connections of a process edge-triggered; `None` if it watches none.
    pub(super) fn is_edge_triggered(&self, process: &Process) -> Option<bool> {
        let connections = process.connections.as_ref()?;
        let mut edges = Vec::new();
        for table in &process.tables {
            let (links, descriptors) = self.descriptors(table, connections);
            for (fd, _) in links.iter().filter(|(_, link)| link == "anon_inode:[eventpoll]") {
                let text = self.root.text(&format!("{table}/fdinfo/{fd}"))?;
                let ours = text.lines().filter_map(watched).filter(|(fd, _)| descriptors.contains(fd));
                edges.extend(ours.map(|(_, edge)| edge));
            }
        }
        (!edges.is_empty()).then(|| edges.iter().all(|edge| *edge))
    }

    /// Returns a descriptor table, and the descriptors in it that refer to these sockets.
    fn descriptors(&self, table: &str, sockets: &BTreeSet<u64>) -> (Vec<(u32, String)>, BTreeSet<u32>) {
        let links = links(self.root, table).unwrap_or_default();
        let is_ours = |link: &str| socket(link).is_some_and(|inode| sockets.contains(&inode));
        let ours = links.iter().filter(|(_, link)| is_ours(link)).map(|(fd, _)| *fd).collect();
        (links, ours)
    }

    /// Returns whether a connection of a process raises signals (`O_ASYNC`).
    pub(super) fn is_signal_driven(&self, process: &Process) -> bool {
        let Some(connections) = &process.connections else { return false };
        let is_async = |table: &String| {
            let fd = self.descriptors(table, connections).1.first().copied()?;
            let text = self.root.text(&format!("{table}/fdinfo/{fd}"))?;
            let line = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
            Some(u32::from_str_radix(line.trim(), 8).ok()? & ASYNC != 0)
        };
        process.tables.iter().any(|table| is_async(table) == Some(true))
    }

    /// Checks what is watched by the epoll instances in which the threads of a sample wait.
    pub(super) fn watch(&self, sample: &Sample, watchers: &mut Watchers) {
        for process in &sample.processes {
            let connections = process.connections.clone().unwrap_or_default();
            let mut tables: BTreeMap<String, [BTreeSet<u32>; 2]> = BTreeMap::new();
            for thread in &process.threads {
                let Some(epoll) = thread.epoll.filter(|_| watchers.is_open(thread.tid)) else { continue };
                let own = format!("proc/{}/task/{}", process.pid, thread.tid);
                let table = if process.tables.contains(&own) { own } else { format!("proc/{}", process.pid) };
                let text = self.root.text(&format!("{table}/fdinfo/{epoll}")).unwrap_or_default();
                let read = || [&process.listeners, &connections].map(|sockets| self.descriptors(&table, sockets).1);
                let [listening, connected] = tables.entry(table.clone()).or_insert_with(read);
                let count =
                    |ours: &BTreeSet<u32>| text.lines().filter_map(watched).filter(|(fd, _)| ours.contains(fd)).count();
                watchers.add(thread.tid, count(listening), count(connected));
            }
        }
    }
}

/// Parses an `fdinfo` line of an epoll instance: the watched descriptor, and whether it is edge-triggered.
fn watched(line: &str) -> Option<(u32, bool)> {
    let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let descriptor = words.next()?.parse().ok()?;
    let events = u64::from_str_radix(words.nth(1)?, 16).ok()?;
    Some((descriptor, events & EDGE != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_is_read() {
        let text = "7 (a) b) S 3 7 7 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 999 1 2 3 4 5 140737 0";
        let entry = entry(7, text).unwrap();
        assert_eq!((entry.parent, entry.started, entry.stack, entry.program.as_str()), (3, 999, 140_737, "a) b"));
        assert!(super::entry(7, "7 (a) Z 3").is_none());
    }

    /// The kernel truncates a name after 15 bytes, even within a character. Such a process was once overlooked.
    #[test]
    fn a_name_that_is_cut_within_a_character_hides_no_process() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("proc/40")).unwrap();
        let name = &"почтовыйсервер".as_bytes()[..15];
        let stat = [b"40 (", name, b") S 1 ", "0 ".repeat(48).as_bytes()].concat();
        std::fs::write(room.path().join("proc/40/stat"), stat).unwrap();
        assert!(table(&Root::planted(room.path())).contains_key(&40));
    }

    /// Creates a host on which process 40 is the server, with children 41 to 43.
    fn family(folder: &std::path::Path) -> Root {
        for (pid, parent) in [(40, 1), (41, 40), (42, 40), (43, 40)] {
            let process = folder.join(format!("proc/{pid}"));
            std::fs::create_dir_all(process.join("fd")).unwrap();
            let stat = format!("{pid} (server) S {parent} {}", "0 ".repeat(48));
            std::fs::write(process.join("stat"), stat).unwrap();
            std::os::unix::fs::symlink(format!("socket:[{pid}]"), process.join("fd/3")).unwrap();
        }
        Root::planted(folder)
    }

    /// Landau once told root that it may not read the descriptors of a process that ended during a sample.
    #[test]
    fn a_process_that_ends_during_a_sample_is_not_hidden() {
        let room = tempfile::tempdir().unwrap();
        let root = family(room.path());
        let path = |path: &str| room.path().join(path);
        // One is gone, and the links of another cannot be read, which a regular file represents.
        std::fs::remove_dir_all(path("proc/41/fd")).unwrap();
        std::fs::remove_file(path("proc/43/fd/3")).unwrap();
        std::fs::write(path("proc/43/fd/3"), "").unwrap();
        let mut sampler = Sampler::new(&root, BTreeSet::from([40]), BTreeSet::new());
        let mut seen = || -> Vec<(u32, bool)> {
            let processes = sampler.take().0.processes;
            processes.iter().map(|process| (process.pid, process.connections.is_some())).collect()
        };
        assert_eq!(seen(), [(40, true), (42, true), (43, false)]);
        std::fs::remove_file(path("proc/42/fd/3")).unwrap();
        std::fs::remove_file(path("proc/42/stat")).unwrap();
        assert_eq!(seen(), [(40, true), (43, false)]);
    }

    /// Another server may listen on the same port of the other address family.
    #[test]
    fn connections_are_those_of_the_families_of_the_listeners() {
        let room = tempfile::tempdir().unwrap();
        let root = family(room.path());
        std::fs::create_dir_all(room.path().join("proc/40/net")).unwrap();
        let local = |long: bool| if long { "0".repeat(32) } else { "0100007F".to_owned() };
        for (file, long, inode) in [("tcp", false, 40), ("tcp6", true, 41)] {
            let line = format!("0: {0}:1F90 {0}:9999 01 00000000:00000000 00:0 0 0 0 {inode} 1", local(long));
            std::fs::write(room.path().join(format!("proc/40/net/{file}")), format!("heading\n{line}\n")).unwrap();
        }
        let holders = |families: &[bool]| -> Vec<u32> {
            let listener =
                |long: &bool| Listener { inode: 77, address: format!("{}:1F90", local(*long)), port: 0x1F90 };
            let mut sampler = Sampler::new(&root, BTreeSet::from([40]), families.iter().map(listener).collect());
            let has_one = |process: &Process| process.connections.as_ref().is_some_and(|all| !all.is_empty());
            sampler.take().0.processes.iter().filter(|process| has_one(process)).map(|process| process.pid).collect()
        };
        assert_eq!((holders(&[false]), holders(&[true])), (vec![40], vec![41]));
        assert_eq!(holders(&[false, true]), [40, 41]);
    }

    #[test]
    fn a_zombie_has_ended_whoever_asks() {
        let room = tempfile::tempdir().unwrap();
        let root = family(room.path());
        let folder = room.path().join("proc/41");
        assert_eq!(links(&root, "proc/41"), Ok(vec![(3, "socket:[41]".to_owned())]));
        std::fs::write(folder.join("stat"), "41 (server) Z 40 0").unwrap();
        // Users other than root get an error.
        std::fs::remove_file(folder.join("fd/3")).unwrap();
        std::fs::write(folder.join("fd/3"), "").unwrap();
        assert_eq!(links(&root, "proc/41"), Err(NotRead::Ended));
        // Root sees no descriptors.
        std::fs::remove_file(folder.join("fd/3")).unwrap();
        assert_eq!(links(&root, "proc/41"), Err(NotRead::Ended));
        assert_eq!(sockets_of(&root, 41, true), Err(NotRead::Ended));
    }

    /// The whole process once counted as unreadable.
    #[test]
    fn of_a_process_with_tables_only_the_thread_that_ended_is_missing() {
        let room = tempfile::tempdir().unwrap();
        let root = family(room.path());
        for tid in [40, 50, 51] {
            let folder = room.path().join(format!("proc/40/task/{tid}"));
            std::fs::create_dir_all(folder.join("fd")).unwrap();
            std::fs::write(folder.join("stat"), format!("{tid} (server) S 1 0")).unwrap();
            std::os::unix::fs::symlink(format!("socket:[{tid}]"), folder.join("fd/3")).unwrap();
        }
        std::fs::remove_dir_all(room.path().join("proc/40/task/51/fd")).unwrap();
        assert_eq!(sockets_of(&root, 40, true), Ok(BTreeSet::from([40, 50])));
        let mut sampler = Sampler::new(&root, BTreeSet::from([40]), BTreeSet::new());
        let sample = sampler.take().0;
        assert_eq!(sample.processes[0].tables, ["proc/40/task/40", "proc/40/task/50"]);
        assert!(sample.processes[0].connections.is_some());
    }

    #[test]
    fn a_task_that_a_tracer_stopped_is_recognised() {
        assert!(is_traced("7 (a) b) t 3 7") && !is_traced("7 (t) T 3 7") && !is_traced("7 (t) S 3 7"));
    }

    #[test]
    fn a_connection_without_inode_waits() {
        let mut sockets = Sockets::default();
        sockets.add("0: 0100007F:1F90 00000000:0000 0A 00000000:00000002 00:0 0 0 0 77 1 0 100 0 0 10 0");
        sockets.add("1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:0 0 0 0 0 1 0 100 0 0 10 0");
        assert_eq!(sockets.listeners.first().map(|one| (one.inode, one.port)), Some((77, 8080)));
        assert_eq!(sockets.connections, [(8080, "0100007F:D431".to_owned(), 0)]);
    }

    #[test]
    fn edge_triggered_descriptors_are_recognised() {
        assert_eq!(watched("tfd:        5 events: 80002019 data: 7 pos:0 ino:1 sdev:8"), Some((5, true)));
        assert_eq!(watched("tfd:        5 events:       19 data: 7 pos:0 ino:1 sdev:8"), Some((5, false)));
        assert_eq!(watched("pos:	0"), None);
    }
}
