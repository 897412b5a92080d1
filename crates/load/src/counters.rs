//! The kernel's own account of connections that did not go as they should, and of memory, before and after.
//!
//! The counters are the host's: other programs' connections are counted in them too.

use landau_sys::system::private_bytes;
use std::collections::BTreeMap;
use std::fs;

/// Counters that say that a listening socket of this host could not keep up.
pub const OVERFLOWS: &[&str] =
    &["ListenOverflows", "ListenDrops", "TCPReqQFullDrop", "TCPReqQFullDoCookies", "TCPBacklogDrop"];

/// Counters that say that segments were lost or late.
pub const LOSSES: &[&str] = &["TCPTimeouts", "TCPSynRetrans", "TCPLostRetransmit", "TCPAbortOnTimeout", "RetransSegs"];

/// The host's counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    /// As they stand; empty where the system does not say.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut counters = Self::parse(&text("/proc/net/netstat"));
        counters.0.extend(Self::parse(&text("/proc/net/snmp")).0);
        if let Some(steal) = text("/proc/stat").lines().next().and_then(|line| line.split_ascii_whitespace().nth(8)) {
            counters.0.insert("StealTicks".to_owned(), steal.parse().unwrap_or(0));
        }
        counters
    }

    /// Pairs of lines: names, then values, both after the protocol's name.
    fn parse(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let (pairs, _) = lines.as_chunks::<2>();
        let of = |[names, values]: &[&str; 2]| {
            let names: Vec<String> = names.split_ascii_whitespace().skip(1).map(str::to_owned).collect();
            let values: Vec<&str> = values.split_ascii_whitespace().skip(1).collect();
            names.into_iter().zip(values.into_iter().map(|value| value.parse().unwrap_or(0))).collect::<Vec<_>>()
        };
        Self(pairs.iter().flat_map(of).collect())
    }

    /// By how much those of some names have grown since an earlier reading, without those that have not.
    pub fn since(&self, earlier: &Self, names: &[&str]) -> BTreeMap<String, u64> {
        let grown = names.iter().filter_map(|&name| {
            let grown = self.0.get(name)?.saturating_sub(*earlier.0.get(name)?);
            (grown > 0).then(|| (name.to_owned(), grown))
        });
        grown.collect()
    }
}

/// Memory at one moment, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// What could be had without swapping.
    pub available_bytes: u64,
    /// The kernel's slab that cannot be given back: where sockets live.
    pub slab_bytes: u64,
    /// What the server's process, and those that it started, have to themselves; none where no process was named, or
    /// the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_bytes: Option<u64>,
}

impl Memory {
    /// As it stands; zeroes where the system does not say.
    pub fn read(server: Option<u32>) -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let bytes = |name: &str| of(name).unwrap_or(0) * 1024;
        Self {
            available_bytes: bytes("MemAvailable:"),
            slab_bytes: bytes("SUnreclaim:"),
            server_bytes: server.and_then(private_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_grew_are_told() {
        let before = Counters::parse("TcpExt: A ListenDrops B\nTcpExt: 1 5 9\nIpExt: C\nIpExt: 1\n");
        let after = Counters::parse("TcpExt: A ListenDrops B\nTcpExt: 1 8 9\nIpExt: C\nIpExt: 2\n");
        assert_eq!(after.since(&before, OVERFLOWS), BTreeMap::from([("ListenDrops".to_owned(), 3)]));
        assert_eq!(after.since(&before, &["A", "B", "C", "D"]), BTreeMap::from([("C".to_owned(), 1)]));
        assert!(before.since(&after, OVERFLOWS).is_empty());
        assert!(Counters::parse("").since(&before, OVERFLOWS).is_empty());
    }
}
