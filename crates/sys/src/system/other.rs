//! All other Unix systems: the features of POSIX, and "unknown" for the rest.

use super::{Headroom, OwnMemory};
use crate::error::{Error, Result};

/// Returns the value of a sysctl: not supported here.
pub fn setting(_name: &str) -> Option<String> {
    None
}

/// Returns the processors that this process may run on: all of them.
pub fn processors() -> Vec<u32> {
    std::thread::available_parallelism().map_or(Vec::new(), |count| (0..count.get() as u32).collect())
}

/// Pins this process to some processors: not supported here.
pub fn pin(_processors: &[u32]) -> Result<()> {
    Err(Error::unsupported("sched_setaffinity"))
}

/// Returns the processor that this thread is running on: not reported here.
pub fn current_processor() -> Option<u32> {
    None
}

/// Ends this process with its parent: not supported here, so a worker detects the end of its parent through its pipe.
pub fn set_parent_death_signal(_parent: i32) -> Result<()> {
    Err(Error::unsupported("prctl"))
}

/// Returns the path of the program of this process: left to the standard library here.
pub(crate) fn this_program() -> Option<std::path::PathBuf> {
    None
}

/// Makes the kernel panic: not supported here.
pub fn trigger_panic() {}

/// Returns the steal time: not reported here.
pub fn steal_centiseconds_of(_stat: &str, _processors: &[u32]) -> Option<u64> {
    None
}

/// Returns the offset of a number of softirqs: not reported here.
pub(crate) fn rcu_softirqs_place(_processor: u32) -> Option<u64> {
    None
}

/// Returns the caches of a processor: not reported here.
pub fn caches() -> Vec<(u32, u64)> {
    Vec::new()
}

/// Returns the range of ephemeral ports: not supported here.
pub fn ephemeral_ports() -> Option<(u16, u16)> {
    None
}

/// Returns how many ports are reserved: none are known here.
pub fn reserved_ports(_low: u16, _high: u16) -> u32 {
    0
}

/// Returns the number of TCP sockets in `TIME_WAIT`: not reported here.
pub fn time_wait_count() -> Option<u64> {
    None
}

/// Returns the name of the hypervisor: not reported here.
pub fn virtualization() -> Option<String> {
    None
}

/// Returns how many connections were dropped: not reported here.
pub fn listen_drops() -> Option<(u64, u64)> {
    None
}

/// Returns the processors that a process may run on: not reported here.
pub fn processors_of(_pid: u32) -> Option<Vec<u32>> {
    None
}

/// Returns the processor time of a process: not reported here.
pub fn cpu_time_ns(_pid: u32) -> Option<u64> {
    None
}

/// Returns the processor time of the children that a process has reaped: not reported here.
pub fn reaped_time_ns(_pid: u32) -> Option<u64> {
    None
}

/// Returns the number of context switches of a process's threads: not reported here.
pub fn context_switches(_pid: u32) -> Option<u64> {
    None
}

/// Returns the number of open descriptors of a process: not reported here.
pub fn descriptor_count(_pid: u32) -> Option<u64> {
    None
}

/// Returns the private memory of a process: not reported here.
pub fn private_bytes(_pid: u32) -> Option<u64> {
    None
}

/// Returns whether the system lists the children of processes: not here.
pub fn lists_children() -> bool {
    false
}

/// Returns the children of a process: not reported here.
pub fn children(_pid: u32) -> Vec<u32> {
    Vec::new()
}

/// Returns the memory of this process; unknown here.
pub fn own_memory() -> Option<OwnMemory> {
    None
}

/// Returns the memory that is free; unknown here.
pub fn free_memory() -> Option<u64> {
    None
}

/// Returns how many bytes this process can still allocate; unknown here.
pub fn memory_left(_: u64, _: u64) -> Option<u64> {
    None
}

/// Returns the memory limit of this process that leaves no room for more; unknown here.
pub fn met_memory_limit(_: u64) -> Option<(&'static str, u64)> {
    None
}

/// Returns the free resources of this host: not reported here.
pub fn headroom() -> Headroom {
    Headroom::default()
}
