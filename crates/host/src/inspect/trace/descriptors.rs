//! Resolves the descriptors of a stopped task, from `/proc/TID/fd` and the socket tables of its namespace.
//!
//! A stopped task keeps the descriptor that its call names open, so the link is exact. The link names a socket by its
//! inode. The tables describe the socket; they are read when an inode is new. The caller reports accepted sockets to
//! this module, so they need no lookup.

use super::ledger::Target;
use crate::inspect::sample::Listener;
use crate::links::socket;
use crate::root::Root;
use std::collections::{BTreeSet, HashMap};

/// The known sockets of the server.
#[derive(Debug)]
pub(super) struct Descriptors {
    root: Root,
    /// A process in the server's network namespace.
    pid: u32,
    ports: BTreeSet<u16>,
    known: HashMap<u64, Target>,
}

/// For each table of `/proc/PID/net`, the column of the inode, and the kind of its sockets if their port is the
/// server's.
const TABLES: [(&str, usize, Kind); 5] = [
    ("tcp", 9, Kind::Tcp),
    ("tcp6", 9, Kind::Tcp),
    ("udp", 9, Kind::Udp),
    ("udp6", 9, Kind::Udp),
    ("unix", 6, Kind::Unix),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tcp,
    Udp,
    Unix,
}

impl Descriptors {
    pub(super) fn new(root: Root, pid: u32, listeners: &BTreeSet<Listener>) -> Self {
        let known = listeners.iter().map(|listener| (listener.inode, Target::Listener)).collect();
        Self { root, pid, ports: listeners.iter().map(|listener| listener.port).collect(), known }
    }

    /// Returns what a descriptor of a stopped task refers to.
    pub(super) fn target(&mut self, tid: u32, descriptor: u32) -> Target {
        let Some(link) = self.root.link(&format!("proc/{tid}/fd/{descriptor}")) else { return Target::Closed };
        let Some(inode) = socket(&link) else { return Target::File };
        for table in TABLES {
            if self.known.contains_key(&inode) {
                break;
            }
            self.read(table);
        }
        *self.known.entry(inode).or_insert(Target::Socket)
    }

    /// Records that a descriptor of a task is a connection that it has just accepted.
    pub(super) fn accepted(&mut self, tid: u32, descriptor: u32) {
        let link = self.root.link(&format!("proc/{tid}/fd/{descriptor}"));
        if let Some(inode) = link.and_then(|link| socket(&link)) {
            self.known.insert(inode, Target::Connection(inode));
        }
    }

    /// Reads the connections that exist now.
    pub(super) fn refresh(&mut self) {
        TABLES.into_iter().filter(|(_, _, kind)| *kind == Kind::Tcp).for_each(|table| self.read(table));
    }

    fn read(&mut self, (file, column, kind): (&str, usize, Kind)) {
        let text = self.root.text(&format!("proc/{}/net/{file}", self.pid)).unwrap_or_default();
        for line in text.lines().skip(1) {
            if let Some((inode, target)) = entry(line, column, kind, &self.ports) {
                self.known.entry(inode).or_insert(target);
            }
        }
    }
}

/// Parses a line of a table; `None` if its socket has no inode, as is the case before it is accepted.
fn entry(line: &str, column: usize, kind: Kind, ports: &BTreeSet<u16>) -> Option<(u64, Target)> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let inode = words.get(column)?.parse().ok().filter(|inode| *inode > 0)?;
    let has_port = || {
        let (_, port) = words.get(1)?.rsplit_once(':')?;
        Some(ports.contains(&u16::from_str_radix(port, 16).ok()?))
    };
    let is_ours = kind != Kind::Unix && has_port()?;
    let target = match kind {
        Kind::Unix => Target::Unix,
        // TCP_LISTEN.
        Kind::Tcp if is_ours && words.get(3) == Some(&"0A") => Target::Listener,
        Kind::Tcp if is_ours => Target::Connection(inode),
        Kind::Udp if is_ours => Target::Datagram,
        Kind::Tcp | Kind::Udp => Target::Socket,
    };
    Some((inode, target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Creates a host whose process 7 has the descriptors 3 to 9, for sockets with these inodes.
    fn planted(folder: &std::path::Path) -> Descriptors {
        let write = |path: &str, text: &str| {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let internet = |port: &str, state: &str, inode: u64| {
            format!(" 0: 0100007F:{port} 0100007F:D431 {state} 00000000:00000000 00:0 0 0 0 {inode} 1 0 100 0 0 10 0\n")
        };
        let tcp = [internet("1F90", "0A", 50), internet("1F90", "01", 51), internet("0050", "01", 52)].concat();
        write("proc/7/net/tcp", &format!("heading\n{tcp}{}", internet("1F90", "01", 0)));
        write("proc/7/net/udp", &format!("heading\n{}", internet("1F90", "07", 53)));
        write("proc/7/net/unix", "heading\n0000: 00000002 00000000 00010000 0001 01 54 /run/x\n");
        std::fs::create_dir_all(folder.join("proc/7/fd")).unwrap();
        for (descriptor, inode) in (3..).zip(50..57) {
            symlink(format!("socket:[{inode}]"), folder.join(format!("proc/7/fd/{descriptor}"))).unwrap();
        }
        symlink("/var/log/x", folder.join("proc/7/fd/20")).unwrap();
        let listener = Listener { inode: 50, address: "0100007F:1F90".to_owned(), port: 8080 };
        Descriptors::new(Root::planted(folder), 7, &BTreeSet::from([listener]))
    }

    #[test]
    fn descriptors_are_followed_to_their_sockets() {
        let room = tempfile::tempdir().unwrap();
        let mut descriptors = planted(room.path());
        let mut of = |descriptor| descriptors.target(7, descriptor);
        let found = [of(3), of(4), of(5), of(6), of(7), of(8)];
        let expected = [
            Target::Listener,
            Target::Connection(51),
            Target::Socket,
            Target::Datagram,
            Target::Unix,
            // Not in any table.
            Target::Socket,
        ];
        assert_eq!(found, expected);
        assert_eq!((of(20), of(21)), (Target::File, Target::Closed));
        // It is not in any table yet either, but was accepted.
        descriptors.accepted(7, 9);
        assert_eq!(descriptors.target(7, 9), Target::Connection(56));
    }
}
