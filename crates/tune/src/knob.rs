//! Known settings: what each bounds, its risks, and the kernel's default.
//!
//! A user's profile may name other settings; about these, Landau reports nothing.

use landau_host::Root;

/// A setting.
#[derive(Debug)]
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    /// What it bounds or controls.
    pub(crate) bounds: &'static str,
    /// The risk of raising or setting it.
    pub(crate) risk: &'static str,
    /// The kernel's default from a release on, the latest first; empty if the kernel computes it from the memory size.
    defaults: &'static [(u32, u32, &'static str)],
}

const fn knob(
    name: &'static str,
    bounds: &'static str,
    risk: &'static str,
    defaults: &'static [(u32, u32, &'static str)],
) -> Knob {
    Knob { name, bounds, risk, defaults }
}

/// Sources of the defaults: `Documentation/admin-guide/sysctl` and `Documentation/networking/ip-sysctl.rst` of the
/// kernel. `somaxconn` was 128 before 5.4, `tcp_tw_reuse` 0 before 4.19, `rmem_max` and `wmem_max` 212,992 before 6.18.
const KNOBS: &[Knob] = &[
    knob(
        "fs.epoll.max_user_watches",
        "descriptors that a user's epoll instances watch; ENOSPC beyond",
        "each watch takes about 160 bytes of the kernel",
        &[],
    ),
    knob(
        "fs.file-max",
        "open files of the host; ENFILE beyond",
        "a program that leaks descriptors takes more memory before it fails",
        &[],
    ),
    knob(
        "fs.nr_open",
        "the largest RLIMIT_NOFILE that a process can have",
        "programs that close every possible descriptor at their start take longer",
        &[(2, 6, "1048576")],
    ),
    knob(
        "net.core.netdev_max_backlog",
        "packets that wait for a processor; dropped beyond (softnet_stat)",
        "more memory and latency while the host is overloaded",
        &[(2, 6, "1000")],
    ),
    knob(
        "net.core.rmem_default",
        "the receive buffer of UDP and Unix sockets, in bytes",
        "more memory for each socket that is not read",
        &[(3, 3, "212992")],
    ),
    knob(
        "net.core.rmem_max",
        "the receive buffer that a program can ask for (SO_RCVBUF), in bytes",
        "a program can take more memory",
        &[(6, 18, "4194304"), (3, 3, "212992")],
    ),
    knob(
        "net.core.somaxconn",
        "connections of a listening socket that wait for accept(); SYNs are dropped beyond (ListenOverflows)",
        "a slow server answers clients that have given up",
        &[(5, 4, "4096"), (2, 6, "128")],
    ),
    knob(
        "net.core.wmem_default",
        "the send buffer of UDP and Unix sockets, in bytes",
        "more memory for each socket whose peer does not read",
        &[(3, 3, "212992")],
    ),
    knob(
        "net.core.wmem_max",
        "the send buffer that a program can ask for (SO_SNDBUF), in bytes",
        "a program can take more memory",
        &[(6, 18, "4194304"), (3, 3, "212992")],
    ),
    knob(
        "net.ipv4.ip_local_port_range",
        "ephemeral ports, and so connections to one address and port; EADDRNOTAVAIL beyond",
        "a connection may take the port of a server that starts later; reserve it in ip_local_reserved_ports",
        &[(4, 2, "32768 60999"), (2, 6, "32768 61000")],
    ),
    knob(
        "net.ipv4.tcp_fin_timeout",
        "seconds that a closed socket waits for the peer's FIN (not TIME_WAIT)",
        "a slow peer is reset",
        &[(2, 6, "60")],
    ),
    knob(
        "net.ipv4.tcp_max_syn_backlog",
        "half-open connections of a listening socket while tcp_syncookies is 0 (its backlog bounds them in any case)",
        "a SYN flood takes more memory",
        &[],
    ),
    knob(
        "net.ipv4.tcp_max_tw_buckets",
        "sockets in TIME_WAIT; closed at once beyond (TCPTimeWaitOverflow)",
        "each takes about 250 bytes of the kernel and a port for 60 s",
        &[],
    ),
    knob(
        "net.ipv4.tcp_mem",
        "pages of all TCP buffers; buffers shrink from the second value on, allocations fail beyond the third",
        "TCP can take memory that programs need",
        &[],
    ),
    knob(
        "net.ipv4.tcp_rmem",
        "the receive buffer of a TCP connection: minimum, default, maximum, in bytes",
        "more memory for each connection that is not read",
        &[],
    ),
    knob("net.ipv4.tcp_syncookies", "whether a full SYN queue still accepts connections", "none", &[(2, 6, "1")]),
    knob(
        "net.ipv4.tcp_timestamps",
        "round-trip times and reuse of TIME_WAIT (RFC 7323)",
        "12 bytes in each segment",
        &[(2, 6, "1")],
    ),
    knob(
        "net.ipv4.tcp_tw_reuse",
        "whether connect() may take a port in TIME_WAIT after a second (2: on loopback only)",
        "safe for clients with timestamps; a peer without them may take an old segment for a new one",
        &[(4, 19, "2"), (2, 6, "0")],
    ),
    knob(
        "net.ipv4.tcp_window_scaling",
        "windows above 64 KiB (RFC 7323)",
        "none, but for broken firewalls",
        &[(2, 6, "1")],
    ),
    knob(
        "net.ipv4.tcp_wmem",
        "the send buffer of a TCP connection: minimum, default, maximum, in bytes",
        "more memory for each connection whose peer does not read",
        &[],
    ),
    knob(
        "net.netfilter.nf_conntrack_max",
        "tracked connections; packets of new ones are dropped beyond",
        "each takes about 320 bytes; raise nf_conntrack_buckets too, or lookups get slower",
        &[],
    ),
    knob("net.unix.max_dgram_qlen", "datagrams that wait in a Unix socket", "more memory", &[(2, 6, "10")]),
    knob(
        "vm.dirty_background_ratio",
        "percent of the memory that may be dirty before the kernel writes to the disk",
        "more data is lost in a crash",
        &[(2, 6, "10")],
    ),
    knob(
        "vm.dirty_ratio",
        "percent of the memory that may be dirty before write() waits for the disk",
        "more data is lost in a crash, and fsync() of others waits longer",
        &[(2, 6, "20")],
    ),
    knob(
        "vm.max_map_count",
        "mappings of a process; ENOMEM beyond",
        "a program that leaks mappings takes more memory before it fails",
        &[(2, 6, "65530")],
    ),
    knob(
        "vm.vfs_cache_pressure",
        "how readily the kernel drops inodes and directory entries (100: like pages)",
        "below 100, caches of names displace pages of files",
        &[(2, 6, "100")],
    ),
    knob(
        "nofile",
        "open descriptors of a process (RLIMIT_NOFILE); EMFILE beyond",
        "programs that use select() fail with descriptors from 1,024 on",
        &[],
    ),
    knob(
        "nproc",
        "processes and threads of a user (RLIMIT_NPROC); EAGAIN beyond",
        "a user's fork bomb is stopped later",
        &[],
    ),
];

/// Returns the description of a known setting.
pub(crate) fn find(name: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.name == name)
}

/// Returns every known sysctl.
pub(crate) fn sysctls() -> impl Iterator<Item = &'static Knob> {
    KNOBS.iter().filter(|knob| knob.name.contains('.'))
}

impl Knob {
    /// Returns the default of the running kernel; `None` if it is computed from the memory size.
    pub(crate) fn default_of(&self, root: &Root) -> Option<&'static str> {
        let release = root.sysctl("kernel.osrelease")?;
        let mut numbers = release.split(['.', '-', '+']).map_while(|word| word.parse::<u32>().ok());
        let running = (numbers.next()?, numbers.next()?);
        self.defaults.iter().find(|(major, minor, _)| (*major, *minor) <= running).map(|(_, _, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_is_that_of_the_release() {
        let room = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(room.path().join("proc/sys/kernel")).unwrap();
        let default = |release: &str| {
            std::fs::write(room.path().join("proc/sys/kernel/osrelease"), release).unwrap();
            find("net.core.somaxconn").unwrap().default_of(&Root::planted(room.path()))
        };
        assert_eq!(default("5.3.0-1-amd64\n"), Some("128"));
        assert_eq!(default("5.4.0"), Some("4096"));
        assert_eq!(default("6.18-rc1"), Some("4096"));
        assert_eq!(default("unknown"), None);
    }
}
