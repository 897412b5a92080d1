//! The kernel's counters of overflows and losses, and memory, before and after a run.
//!
//! The counters belong to the network namespace: connections of other programs increase them too.

use landau_sys::system::private_bytes;
use std::collections::BTreeMap;
use std::fs;

/// Counters of overflows of listening sockets.
pub const OVERFLOWS: &[&str] =
    &["ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies", "TCPBacklogDrop"];

/// Counters of segments that were lost or late.
pub const LOSSES: &[&str] = &["TCPTimeouts", "TCPSynRetrans", "TCPLostRetransmit", "TCPAbortOnTimeout", "RetransSegs"];

/// A reading of the counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// Reads the counters; empty on systems without them.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut counters = Self::parse(&text("/proc/net/netstat"));
        counters.0.extend(Self::parse(&text("/proc/net/snmp")).0);
        if let Some(steal) = text("/proc/stat").lines().next().and_then(|line| line.split_ascii_whitespace().nth(8)) {
            counters.0.insert("StealTicks".to_owned(), steal.parse().unwrap_or(0));
        }
        counters
    }

    /// Returns whether this system has any of the counters.
    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.0.contains_key(*name))
    }

    /// Parses pairs of lines, each beginning with the protocol's name: the first has the names, the second the values.
    fn parse(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let (pairs, _) = lines.as_chunks::<2>();
        let pair = |[names, values]: &[&str; 2]| {
            let names: Vec<String> = names.split_ascii_whitespace().skip(1).map(str::to_owned).collect();
            let values: Vec<&str> = values.split_ascii_whitespace().skip(1).collect();
            names.into_iter().zip(values.into_iter().map(|value| value.parse().unwrap_or(0))).collect::<Vec<_>>()
        };
        Self(pairs.iter().flat_map(pair).collect())
    }

    /// Returns the increase of the named counters since an earlier reading, without those that did not increase.
    pub fn since(&self, earlier: &Self, names: &[&str]) -> BTreeMap<String, u64> {
        let increases = names.iter().filter_map(|&name| {
            let increase = self.0.get(name)?.saturating_sub(*earlier.0.get(name)?);
            (increase > 0).then(|| (name.to_owned(), increase))
        });
        increases.collect()
    }
}

/// A reading of memory, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// Memory available without swapping (`MemAvailable`).
    pub available_bytes: u64,
    /// Unreclaimable slab memory of the kernel, which holds the sockets (`SUnreclaim`).
    pub slab_bytes: u64,
    /// Private memory of the server process and its children, if a process ID was given and the system reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_bytes: Option<u64>,
}

impl Memory {
    /// Reads the memory; zeros on systems that do not report it.
    pub fn read(server_pid: Option<u32>) -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let bytes = |name: &str| kib(name).unwrap_or(0) * 1024;
        Self {
            available_bytes: bytes("MemAvailable:"),
            slab_bytes: bytes("SUnreclaim:"),
            server_bytes: server_pid.and_then(private_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_increased_counters_are_reported() {
        let before = Counters::parse("TcpExt: A ListenDrops B\nTcpExt: 1 5 9\nIpExt: C\nIpExt: 1\n");
        let after = Counters::parse("TcpExt: A ListenDrops B\nTcpExt: 1 8 9\nIpExt: C\nIpExt: 2\n");
        assert_eq!(after.since(&before, OVERFLOWS), BTreeMap::from([("ListenDrops".to_owned(), 3)]));
        assert_eq!(after.since(&before, &["A", "B", "C", "D"]), BTreeMap::from([("C".to_owned(), 1)]));
        assert!(before.since(&after, OVERFLOWS).is_empty());
        assert!(before.has(OVERFLOWS) && !before.has(LOSSES) && !Counters::parse("").has(OVERFLOWS));
        assert!(Counters::parse("").since(&before, OVERFLOWS).is_empty());
    }
}
