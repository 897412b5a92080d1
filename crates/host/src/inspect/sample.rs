//! What `/proc` shows of a server at one time: its processes, their threads, and who holds which connection.

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

/// `EPOLLET` in the line of a watched descriptor in `fdinfo`.
const EDGE: u64 = 1 << 31;

/// `O_ASYNC` in the flags of a descriptor in `fdinfo`, which are octal.
const ASYNC: u32 = 0o20_000;

/// The server at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    /// Milliseconds since the first one.
    pub(super) at_ms: u64,
    /// Connections that nobody has accepted yet, by their remote addresses.
    pub(super) waiting: BTreeSet<String>,
    pub(super) processes: Vec<Process>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) parent: u32,
    /// Clock ticks since the system started: with the number, it identifies a process.
    pub(super) started: u64,
    pub(super) command: String,
    /// The executed file, and where its stack begins: a fork keeps that, an execution chooses another place.
    pub(super) image: Option<(String, u64)>,
    pub(super) threads: Vec<Thread>,
    /// Inodes of the sockets of accepted connections; none if the descriptors may not be read.
    pub(super) connections: Option<BTreeSet<u64>>,
    /// Inodes of the listening sockets that it has open.
    pub(super) listeners: BTreeSet<u64>,
    /// Instances of epoll and of `io_uring`.
    pub(super) epolls: u32,
    pub(super) rings: u32,
    /// Folders with its tables of descriptors: its own, or those of its threads.
    pub(super) tables: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) wait: Option<Wait>,
    /// The connection that it reads.
    pub(super) reads: Option<u64>,
    /// The instance of epoll for which it waits.
    pub(super) epoll: Option<u32>,
    /// Time on a processor since it started.
    pub(super) cpu_ns: u64,
}

/// Threads that wait for epoll's events of the server's sockets.
#[derive(Debug, Clone, Default)]
pub(super) struct Watchers {
    /// With whether it was always one connection alone.
    found: BTreeMap<u32, bool>,
    checks: BTreeMap<u32, u32>,
}

impl Watchers {
    /// Looks at a thread, after which nothing more can be learnt of it.
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

    /// Whether a thread waits for several sockets, or for connections to accept.
    pub(super) fn watches(&self, tid: u32) -> bool {
        self.found.get(&tid) == Some(&false)
    }

    /// Whether a thread only ever waited for one connection.
    pub(super) fn watches_one(&self, tid: u32) -> bool {
        self.found.get(&tid) == Some(&true)
    }

    /// The threads that wait for any of the server's sockets.
    pub(super) fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.found.keys().copied()
    }
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listener {
    pub(super) inode: u64,
    /// Address and port as the kernel writes them; sockets with the same one share it by `SO_REUSEPORT`.
    pub(super) address: String,
    pub(super) port: u16,
}

impl Listener {
    /// The file in `/proc/PID/net` with the connections that it accepts. A listener of IPv6 accepts sockets of IPv6,
    /// also from clients of IPv4.
    fn file(&self) -> &'static str {
        /// The digits of an address of IPv4.
        const SHORT: usize = 8;
        let digits = self.address.split(':').next().unwrap_or_default().len();
        if digits > SHORT { "tcp6" } else { "tcp" }
    }
}

/// The sockets of a network namespace.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub(super) listeners: BTreeSet<Listener>,
    /// Local port, remote address and inode of connections; the inode is 0 until they are accepted.
    connections: Vec<(u16, String, u64)>,
}

impl Sockets {
    /// Reads the sockets of the network namespace of a process.
    pub(super) fn read(root: &Root, pid: &str) -> Self {
        Self::read_files(root, pid, &BTreeSet::from(["tcp", "tcp6"]))
    }

    /// Reads those of some files. For each file the kernel walks its whole table of connections, which takes
    /// milliseconds, however few there are.
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

/// The line of a process in the table of all processes.
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

/// Reads `/proc/PID/stat`; none of a zombie.
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

/// Whether a tracer has stopped the task with this `stat`.
fn is_traced(text: &str) -> bool {
    state(text) == Some('t')
}

/// Returns the inodes of the sockets that a process has open, in the table of its first thread or in those of all; none
/// if they may not be read. Threads that share a table are not read one by one: thousands of them may share thousands
/// of descriptors.
pub(super) fn sockets_of(root: &Root, pid: u32, of_all_threads: bool) -> Result<BTreeSet<u64>, NotRead> {
    let tables = tables_of(root, pid, of_all_threads && has_tables(root, pid))?;
    Ok(tables.values().flatten().filter_map(|(_, link)| socket(link)).collect())
}

/// Why descriptors could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRead {
    /// The process or thread has ended.
    Ended,
    /// This user may not read them.
    Forbidden,
}

/// Tables of descriptors by their folders.
type Tables = BTreeMap<String, Vec<(u32, String)>>;

/// Returns the tables of descriptors of a process: that of its first thread, or those of all threads that have not
/// ended.
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

/// Returns the folders of a process's threads.
fn threads_of(root: &Root, pid: u32) -> Vec<String> {
    let names = root.names(&format!("proc/{pid}/task"));
    names.iter().map(|tid| format!("proc/{pid}/task/{tid}")).collect()
}

/// Threads whose tables of descriptors are compared with the process's.
const COMPARED: usize = 3;

/// Returns whether threads of a process have tables of descriptors of their own (`CLONE_FILES` or `unshare`), as those
/// of `landau serve` have.
fn has_tables(root: &Root, pid: u32) -> bool {
    let read = |table: &str| Some(links(root, table).ok()?.into_iter().collect::<BTreeSet<_>>());
    let of_process = format!("proc/{pid}");
    let first = format!("proc/{pid}/task/{pid}");
    threads_of(root, pid).iter().filter(|thread| **thread != first).take(COMPARED).any(|thread| {
        // What was there before and afterwards was there meanwhile, too.
        let (before, process, after) = (read(thread), read(&of_process), read(thread));
        let of_both = before.zip(process).zip(after);
        of_both.is_some_and(|((before, process), after)| before.intersection(&after).any(|one| !process.contains(one)))
    })
}

/// Returns the open descriptors of a process or thread, whose folder is given, with what they refer to.
fn links(root: &Root, table: &str) -> Result<Vec<(u32, String)>, NotRead> {
    // Those of a zombie belong to root, so that other users are refused.
    let why = |error: std::io::Error| {
        if is_gone(&error) || has_ended(root, table) { NotRead::Ended } else { NotRead::Forbidden }
    };
    let links = read_links(root, &format!("{table}/fd")).map_err(why)?;
    // Root sees an empty table of a zombie.
    if links.is_empty() && has_ended(root, table) { Err(NotRead::Ended) } else { Ok(links) }
}

/// Whether the process or thread with this folder has ended; its parent need not have waited for it.
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
    /// The processes that hold the listening sockets, or the one that was asked about.
    owners: BTreeSet<u32>,
    listeners: BTreeSet<Listener>,
    /// All processes of the server so far: one whose parent has ended still belongs to it.
    known: BTreeSet<(u32, u64)>,
    own: u32,
    /// Whether the threads of a process have their own tables of descriptors.
    has_tables: BTreeMap<u32, bool>,
    /// Whether somebody stops the threads at their calls: then a thread in a call need not block in it.
    has_stops: bool,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(root: &'a Root, owners: BTreeSet<u32>, listeners: BTreeSet<Listener>) -> Self {
        let (known, has_tables) = (BTreeSet::new(), BTreeMap::new());
        let own = std::process::id();
        Self { root, began: Instant::now(), owners, listeners, known, own, has_tables, has_stops: false }
    }

    /// Expects threads that are stopped at their calls from now on.
    pub(super) fn expect_stops(&mut self) {
        self.has_stops = true;
    }

    /// Takes a sample, and returns it with the processor time that it cost.
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

    /// Returns the server's processes: the owners, their descendants, and whatever belonged to it before.
    fn members(&mut self, table: &BTreeMap<u32, Entry>) -> Vec<Entry> {
        let belongs = |entry: &Entry| {
            let mut pid = entry.pid;
            // A parent has an earlier line only until numbers wrap, so the chain is bounded by the table's length.
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

    /// Returns a process; none if it has ended meanwhile.
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
            // Workers of the kernel for io_uring are listed among the threads.
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

    /// Returns whether epoll watches connections of a process edge-triggered; none if none is watched.
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

    /// Returns a table of descriptors, and those that refer to these sockets.
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

    /// Looks at what the instances of epoll watch for which threads of a sample wait.
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

/// Reads a line of an epoll instance in `fdinfo`: the watched descriptor, and whether it is edge-triggered.
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

    /// The kernel cuts a name after 15 bytes, also within a character. Such a process was not seen.
    #[test]
    fn a_name_that_is_cut_within_a_character_hides_no_process() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("proc/40")).unwrap();
        let name = &"почтовыйсервер".as_bytes()[..15];
        let stat = [b"40 (", name, b") S 1 ", "0 ".repeat(48).as_bytes()].concat();
        std::fs::write(room.path().join("proc/40/stat"), stat).unwrap();
        assert!(table(&Root::planted(room.path())).contains_key(&40));
    }

    /// A host on which process 40 is the server's and has the children 41 to 43.
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

    /// Root was told that this user may not read the descriptors of a process that ended during a sample.
    #[test]
    fn a_process_that_ends_during_a_sample_is_not_hidden() {
        let room = tempfile::tempdir().unwrap();
        let root = family(room.path());
        let path = |path: &str| room.path().join(path);
        // One is gone, and the links of one may not be read: a file that is no link.
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

    /// Another server may listen on the same port of the other family.
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
        // Users other than root are refused.
        std::fs::remove_file(folder.join("fd/3")).unwrap();
        std::fs::write(folder.join("fd/3"), "").unwrap();
        assert_eq!(links(&root, "proc/41"), Err(NotRead::Ended));
        // Root sees no descriptors.
        std::fs::remove_file(folder.join("fd/3")).unwrap();
        assert_eq!(links(&root, "proc/41"), Err(NotRead::Ended));
        assert_eq!(sockets_of(&root, 41, true), Err(NotRead::Ended));
    }

    /// The whole process counted as one that may not be read.
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
