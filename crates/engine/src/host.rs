//! The description of the machine at the start of a run.

use crate::Error;
use landau_record::schema::{Cache, Clock, Host, Quantum, TimerOverhead, Unit};
use landau_sys::clock::{Probe, candidates, probe};
use landau_sys::limits::{ALL, Resource, get, raise};
use landau_sys::system::{self, setting};
use landau_sys::{memory, process};
use std::collections::BTreeMap;
use std::fs;

/// Kernel settings that influence a benchmark.
const SYSCTLS: &[&str] = &[
    "fs.epoll.max_user_watches",
    "fs.file-max",
    "fs.nr_open",
    "kernel.pid_max",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.threads-max",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv6.bindv6only",
    "net.ipv6.conf.all.disable_ipv6",
    "vm.max_map_count",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
];

/// The processor of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pinning {
    /// The last processor that this process may run on: the first serves most interrupts.
    #[default]
    Last,
    /// This processor.
    On(u32),
    /// Any processor; the scheduler chooses.
    Free,
}

impl Pinning {
    /// Returns the processor, one of those that this process may run on.
    fn choose(self, processors: &[u32]) -> Result<Option<u32>, Error> {
        match self {
            Pinning::Free => Ok(None),
            Pinning::Last => Ok(if cfg!(target_os = "linux") { processors.last().copied() } else { None }),
            Pinning::On(one) if processors.contains(&one) => Ok(Some(one)),
            Pinning::On(one) => Err(Error::NoProcessor { wanted: one, allowed: processors.to_vec() }),
        }
    }
}

/// Describes the machine as it is now, and selects the clock that times the calls.
pub fn describe(pinning: Pinning) -> Result<(Host, Probe), Error> {
    describe_in(Unit::Ns, pinning)
}

/// Describes the machine like [`describe`], for samples in the given unit, which may not be time. For the lab, which
/// knows the unit.
pub fn describe_in(unit: Unit, pinning: Pinning) -> Result<(Host, Probe), Error> {
    let probes =
        if unit == Unit::Instructions { vec![probe(landau_sys::clock::Clock::Instructions)] } else { candidates() };
    describe_with(&probes, unit, pinning)
}

/// Describes the machine like [`describe`], but times the calls by `CLOCK_MONOTONIC`, which a profiler can read too.
pub fn describe_by_gettime(pinning: Pinning) -> Result<(Host, Probe), Error> {
    describe_with(&[probe(landau_sys::clock::Clock::Gettime)], Unit::Ns, pinning)
}

/// Describes the machine; the first clock times the calls.
fn describe_with(probes: &[Probe], unit: Unit, pinning: Pinning) -> Result<(Host, Probe), Error> {
    // The workers raise theirs in the same way, so the record holds the limits that they had.
    for resource in [Resource::Descriptors, Resource::Processes] {
        raise(resource)?;
    }
    let kernel = system::kernel()?;
    let chosen = probes[0];
    let processors = system::processors();
    let host = Host {
        system: kernel.system,
        release: kernel.release,
        version: kernel.version,
        machine: kernel.machine,
        distribution: distribution(),
        processor: processor_model(),
        processor_count: processors.len() as u32,
        pinned_processor: pinning.choose(&processors)?,
        caches: system::caches().into_iter().map(|(level, bytes)| Cache { level, bytes }).collect(),
        memory_bytes: memory_total(),
        memory_available_bytes: system::free_memory().unwrap_or(0),
        page_bytes: memory::page_bytes() as u64,
        virtualization: system::virtualization().unwrap_or_else(|| "unknown".to_owned()),
        clock: Clock {
            name: chosen.clock.name().to_owned(),
            unit,
            timer_overhead: TimerOverhead::new(unit, chosen.timer_overhead_ns),
            quantum: Quantum::new(unit, chosen.quantum_ns),
            candidates: probes.iter().map(|one| (one.clock.name().to_owned(), one.timer_overhead_ns)).collect(),
        },
        limits: ALL.iter().filter_map(|(what, name)| Some(((*name).to_owned(), get(*what).ok()?.0))).collect(),
        sysctls: SYSCTLS.iter().filter_map(|name| Some(((*name).to_owned(), setting(name)?))).collect(),
        mitigations: mitigations(),
        leftovers: leftovers(),
        privilege: privilege(),
    };
    Ok((host, chosen))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns the value after `name`, a separator and spaces, on the first line that begins with `name`.
fn field(text: &str, name: &str, separator: char) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(separator)?.1.trim().trim_matches('"').to_owned())
}

fn distribution() -> String {
    read("/etc/os-release").and_then(|text| field(&text, "PRETTY_NAME", '=')).unwrap_or_default()
}

fn processor_model() -> String {
    let text = read("/proc/cpuinfo").unwrap_or_default();
    ["model name", "Model", "cpu model"].iter().find_map(|name| field(&text, name, ':')).unwrap_or_default()
}

fn memory_total() -> u64 {
    read("/proc/meminfo").and_then(|text| system::bytes_of(&text, "MemTotal")).unwrap_or(0)
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    let state = |path: std::path::PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    entries.flatten().filter_map(|one| Some((one.file_name().into_string().ok()?, state(one.path())?))).collect()
}

/// Returns the leftovers of other work on the host. Each may distort a curve.
fn leftovers() -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    if let Some(count) = system::time_wait_count() {
        found.insert("sockets_in_time_wait".to_owned(), count as f64);
    }
    if let Some(open) = setting("fs.file-nr").and_then(|text| text.split(' ').next()?.parse().ok()) {
        found.insert("open_files".to_owned(), open);
    }
    if let Some(text) = read("/proc/loadavg") {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if let Some(load) = words.first().and_then(|word| word.parse().ok()) {
            found.insert("load_1m".to_owned(), load);
        }
        if let Some(total) = words.get(3).and_then(|word| word.split_once('/')?.1.parse().ok()) {
            found.insert("processes_and_threads".to_owned(), total);
        }
    }
    found
}

/// The capability to raise hard limits.
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// Returns whether this is root, and whether root lacks the capability to raise limits, as is common in a container.
fn privilege() -> String {
    if process::effective_user() != 0 {
        return "unprivileged".to_owned();
    }
    let status = read("/proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff", ':').and_then(|text| u64::from_str_radix(&text, 16).ok());
    match effective {
        Some(set) if set & CAP_SYS_RESOURCE == 0 => "root, without CAP_SYS_RESOURCE".to_owned(),
        _ => "root".to_owned(),
    }
}
