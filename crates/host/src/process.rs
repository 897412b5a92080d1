//! A running program: its open descriptors and its listening sockets.

use crate::accept_queues::{self, AcceptQueue};
use crate::context::Context;
use crate::links::{is_gone, read_links, socket};
use crate::subject::Unread;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// States in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// A running program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its process identifier.
    pub pid: String,
    /// Its name.
    pub program: String,
    /// The number of its threads.
    pub threads: u64,
    /// The number of its open descriptors; `None` if they cannot be read.
    pub descriptors: Option<u64>,
    /// The number of its mappings; `None` if they cannot be read.
    pub mappings: Option<u64>,
    /// The number of its established TCP connections; `None` if its descriptors cannot be read.
    pub connections: Option<u64>,
    /// Its listening TCP sockets; all those of its network namespace if its descriptors cannot be read.
    pub listeners: Vec<Listener>,
}

/// A listening socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listener {
    /// Its port.
    pub port: u16,
    /// Connections in the accept queue now (`Recv-Q` of ss).
    pub waiting: u64,
    /// The argument of `listen()`, limited to `net.core.somaxconn` (`Send-Q` of ss); one more may wait. `None` if the
    /// kernel does not report it.
    pub backlog: Option<u64>,
    /// Handshake packets that it has dropped, mostly because the queue was full. `None` if the kernel does not report
    /// it.
    pub drops: Option<u64>,
}

/// Describes the program, and records what could not be read.
pub(crate) fn describe(context: &Context, unread: &mut Vec<Unread>) -> Process {
    let subject = &context.subject;
    let inodes = sockets(context);
    if inodes.is_none() {
        unread.push(Unread {
            what: "the program's own sockets".to_owned(),
            why: "its descriptors cannot be read; all listening sockets of its network namespace are shown".to_owned(),
        });
    }
    let is_of = |inodes: &BTreeSet<u64>, inode: &str| inode.parse().is_ok_and(|inode| inodes.contains(&inode));
    let is_own = |inode: &str| inodes.as_ref().is_none_or(|inodes| is_of(inodes, inode));
    let queues = if context.root.is_live() { accept_queues::read() } else { Ok(BTreeMap::new()) };
    let queue = |inode: &str| queues.as_ref().ok()?.get(&inode.parse().ok()?);
    let (mut listeners, mut connections) = (Vec::new(), 0);
    for file in ["tcp", "tcp6"] {
        let text = context.root.text(&context.net(file)).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let [_, local, _, state, lengths, _, _, _, _, inode, ..] = words[..] else { continue };
            match state {
                LISTEN if is_own(inode) => listeners.extend(listener(local, lengths, queue(inode))),
                ESTABLISHED if is_own(inode) => connections += 1,
                _ => {}
            }
        }
    }
    unread.push(Unread {
        what: "the program's own limits".to_owned(),
        why: "see its configuration, such as worker_connections of nginx or MaxRequestWorkers of Apache".to_owned(),
    });
    if context.root.is_live() && listeners.iter().any(|listener| listener.backlog.is_none()) {
        let why = match &queues {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                format!("{error}; the kernel's module tcp_diag shows them (modprobe tcp_diag)")
            }
            Err(error) => error.to_string(),
            Ok(_) => "the kernel shows them only within their network namespace".to_owned(),
        };
        unread.push(Unread { what: "the backlog and the drops of its listening sockets".to_owned(), why });
    }
    Process {
        pid: subject.name.clone(),
        program: subject.program.clone(),
        threads: subject.threads,
        descriptors: subject.descriptors,
        mappings: subject.maps,
        connections: inodes.is_some().then_some(connections),
        listeners,
    }
}

/// Returns the inodes of the program's open sockets; `None` if they cannot be read. Root without `CAP_SYS_PTRACE` may
/// list the descriptors of another user's program, but not read what they refer to.
fn sockets(context: &Context) -> Option<BTreeSet<u64>> {
    context.subject.descriptors?;
    match read_links(context.root, &context.subject.file("fd")) {
        Ok(links) => Some(links.iter().filter_map(|(_, link)| socket(link)).collect()),
        // It has ended in the meantime.
        Err(error) if is_gone(&error) => Some(BTreeSet::new()),
        Err(_) => None,
    }
}

/// Parses a listening socket from its local address and the lengths of its queues. The second length is that of the
/// accept queue.
fn listener(local: &str, lengths: &str, queue: Option<&AcceptQueue>) -> Option<Listener> {
    let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    let waiting = u64::from_str_radix(lengths.split_once(':')?.1, 16).ok()?;
    let (backlog, drops) = (queue.map(|queue| queue.backlog), queue.and_then(|queue| queue.drops));
    Some(Listener { port, waiting, backlog, drops })
}
