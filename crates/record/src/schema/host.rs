//! The machine of a run and its clock.

use super::{Quantum, TimerOverhead, Unit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The machine of a run. Maps hold values that differ from system to system; an absent entry could not be read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Host {
    /// The operating system: `Linux`, `FreeBSD` …
    pub system: String,
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// The kernel's build, as `uname -v` prints it.
    pub version: String,
    /// The architecture: `x86_64`, `aarch64` …
    pub machine: String,
    /// The distribution's name, from os-release.
    #[serde(default)]
    pub distribution: String,
    /// The processor's model name.
    pub processor: String,
    /// The number of processors that the program may run on.
    pub processor_count: u32,
    /// The processor that the workers are pinned to; none if pinning is not possible.
    #[serde(default)]
    pub pinned_processor: Option<u32>,
    /// Data and unified caches of one processor, innermost first.
    pub caches: Vec<Cache>,
    /// Physical memory in bytes.
    pub memory_bytes: u64,
    /// Memory that was available without swapping at the start, in bytes.
    pub memory_available_bytes: u64,
    /// The size of a page in bytes.
    pub page_bytes: u64,
    /// The hypervisor: `kvm`, `none` …
    pub virtualization: String,
    /// The clock that times the calls.
    pub clock: Clock,
    /// Resource limits of the workers, after raising: name to value (`unlimited` as the largest integer).
    pub limits: BTreeMap<String, u64>,
    /// Kernel settings that influence the benchmarks, as the kernel prints them.
    pub sysctls: BTreeMap<String, String>,
    /// The mitigations of processor vulnerabilities, as the kernel prints them.
    pub mitigations: BTreeMap<String, String>,
    /// The state of the host at the start: sockets in `TIME_WAIT`, open files, processes, load.
    pub leftovers: BTreeMap<String, f64>,
    /// `root`, `unprivileged`, or `root` with the capability that it lacks.
    pub privilege: String,
}

/// A cache of one processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1, 2, 3 …
    pub level: u32,
    /// Capacity in bytes.
    pub bytes: u64,
}

/// The clock that times the calls, as measured at the start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Clock {
    /// `clock_gettime`, `tsc`, `cntvct`, `icount`.
    pub name: String,
    /// The unit of the clock and of every sample.
    #[serde(default, skip_serializing_if = "Unit::is_default")]
    pub unit: Unit,
    /// The median cost of two readings with nothing between them. Never subtracted from a sample.
    #[serde(flatten)]
    pub timer_overhead: TimerOverhead,
    /// The smallest difference between two readings.
    #[serde(flatten)]
    pub quantum: Quantum,
    /// The timer overhead of each clock that was tried, by name, in the clock's unit.
    pub candidates: BTreeMap<String, f64>,
}
