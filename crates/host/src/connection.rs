//! Measures the kernel's memory for a connection: opens several hundred connections over the loopback interface and
//! closes them again.
//!
//! Root reads the number of objects in each cache of the slab allocator (`/proc/slabinfo`). Other users read the memory
//! of all slabs (`/proc/meminfo`). Earlier connections leave free room in the slabs, so the second method sees fewer
//! bytes.

use landau_sys::stream::set_reset_on_close;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// The number of connections; fewer if the limit of descriptors is too low.
const CONNECTIONS: u64 = 512;

/// Descriptors to leave unused.
const SPARE: u64 = 32;

/// The smallest plausible figure for one end: a `struct tcp_sock` alone has more than 2,000 bytes.
const LEAST_BYTES: u64 = 1_500;

/// The result of the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// The number of simultaneous connections; both ends are on this host.
    pub connections: u64,
    /// Kernel memory for one end, in bytes.
    pub bytes_each: u64,
    /// The file that was read.
    pub source: &'static str,
}

/// Measures. `free` is the number of descriptors that this process may still open.
///
/// # Errors
///
/// Fails with the reason why nothing was measured.
pub fn measure(free: u64) -> Result<Measured, String> {
    let count = CONNECTIONS.min(free.saturating_sub(SPARE) / 2);
    if count < 64 {
        return Err(format!("{free} free descriptors are too few to open connections"));
    }
    // The first connection fills caches and tables that are not part of a connection.
    drop(open(1).map_err(|error| format!("cannot connect over the loopback interface, which must be up: {error}"))?);
    let before = Reading::take();
    let connections = open(count).map_err(|error| format!("cannot open {count} connections: {error}"))?;
    let after = Reading::take();
    drop(connections);
    let (bytes, source) = after.since(&before).ok_or("neither /proc/slabinfo nor /proc/meminfo can be read")?;
    let bytes_each = bytes / (2 * count);
    if bytes_each < LEAST_BYTES {
        return Err(format!("{source} shows only {bytes_each} bytes: the kernel reused memory of closed connections"));
    }
    Ok(Measured { connections: count, bytes_each, source })
}

/// Opens connections from this process to itself. None of them stays in `TIME_WAIT` after they are dropped.
fn open(count: u64) -> io::Result<Vec<(TcpStream, TcpStream)>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let one = |_| {
        let client = TcpStream::connect(address)?;
        set_reset_on_close(&client)?;
        Ok((client, listener.accept()?.0))
    };
    (0..count).map(one).collect()
}

/// The kernel's memory at one point in time.
struct Reading {
    /// Bytes in use, by cache.
    caches: Option<BTreeMap<String, u64>>,
    slab_bytes: Option<u64>,
}

impl Reading {
    fn take() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        Self {
            caches: read("/proc/slabinfo").map(|text| caches(&text)),
            slab_bytes: read("/proc/meminfo").and_then(|text| crate::root::field(&text, "Slab")),
        }
    }

    /// Returns the bytes added since an earlier reading.
    fn since(&self, earlier: &Self) -> Option<(u64, &'static str)> {
        if let (Some(now), Some(before)) = (&self.caches, &earlier.caches) {
            let added = now.iter().map(|(name, bytes)| bytes.saturating_sub(before.get(name).copied().unwrap_or(0)));
            return Some((added.sum(), "/proc/slabinfo"));
        }
        Some((self.slab_bytes?.saturating_sub(earlier.slab_bytes?), "/proc/meminfo"))
    }
}

/// Returns the bytes of the active objects of each cache.
fn caches(text: &str) -> BTreeMap<String, u64> {
    let of = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?.to_owned();
        let active: u64 = words.next()?.parse().ok()?;
        let size: u64 = words.nth(1)?.parse().ok()?;
        Some((name, active * size))
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_objects_count() {
        let text = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\nTCP 26 30 2432 13 8 : x\n";
        assert_eq!(caches(text), BTreeMap::from([("TCP".to_owned(), 26 * 2432)]));
    }

    #[test]
    fn too_few_descriptors_are_an_error() {
        assert!(measure(100).is_err());
    }
}
