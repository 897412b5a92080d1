//! Every other Unix: what POSIX gives, and an honest "unknown" for the rest.

use super::Headroom;
use crate::error::{Error, Result};

/// The value of a kernel setting: not read here yet.
pub fn setting(_name: &str) -> Option<String> {
    None
}

/// The processors this process may run on: all of them.
pub fn processors() -> Vec<u32> {
    std::thread::available_parallelism().map_or(Vec::new(), |count| (0..count.get() as u32).collect())
}

/// Binds this process to some processors: not possible here.
pub fn pin(_processors: &[u32]) -> Result<()> {
    Err(Error::unsupported("sched_setaffinity"))
}

/// The processor this thread runs on at this moment: not told here.
pub fn current_processor() -> Option<u32> {
    None
}

/// Lets this process end with its parent: not possible here, so the worker notices by its pipe.
pub fn set_parent_death_signal(_parent: i32) -> Result<()> {
    Err(Error::unsupported("prctl"))
}

/// The path of the program that this process runs: the standard library finds it.
pub(crate) fn this_program() -> Option<std::path::PathBuf> {
    None
}

/// Lets the kernel panic: not asked for here.
pub fn trigger_panic() {}

/// Ticks that the hypervisor stole: not told here.
pub fn steal_ticks_of(_stat: &str) -> Option<u64> {
    None
}

/// The caches of a processor: not told here.
pub fn caches() -> Vec<(u32, u64)> {
    Vec::new()
}

/// The ephemeral ports: not read here yet.
pub fn ephemeral_ports() -> Option<(u16, u16)> {
    None
}

/// Reserved ports: none are known here.
pub fn reserved_ports(_low: u16, _high: u16) -> u32 {
    0
}

/// TCP sockets in `TIME_WAIT`: not told here.
pub fn time_wait_count() -> Option<u64> {
    None
}

/// Under what this system runs: not told here.
pub fn virtualization() -> Option<String> {
    None
}

/// Connections that were turned away: not told here.
pub fn listen_drops() -> Option<(u64, u64)> {
    None
}

/// The processors that a process may run on: not told here.
pub fn processors_of(_pid: u32) -> Option<Vec<u32>> {
    None
}

/// The processor time of a process: not told here.
pub fn cpu_time_ns(_pid: u32) -> Option<u64> {
    None
}

/// How many descriptors a process has open: not told here.
pub fn descriptor_count(_pid: u32) -> Option<u64> {
    None
}

/// What a process has to itself: not told here.
pub fn private_bytes(_pid: u32) -> Option<u64> {
    None
}

/// The processes whose parent is this one: not told here.
pub fn children(_pid: u32) -> Vec<u32> {
    Vec::new()
}

/// What this host still has to give: not told here.
pub fn headroom() -> Headroom {
    Headroom::default()
}
