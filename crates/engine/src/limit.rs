//! Explains a refused call: the limit that was reached, its value, and the command that raises it.

use landau_record::schema::Limit;
use landau_sys::limits::{NR_OPEN_MAX, PID_MAX_LIMIT, Resource, THREADS_MAX, UNLIMITED, get, stack_of_thread};
use landau_sys::memory::page_bytes;
use landau_sys::system::{bytes_of, met_memory_limit, own_memory, setting};
use landau_sys::wait::SELECT_CAPACITY;
use landau_sys::{Error, errno_name};
use std::io::Read;

/// Returns the limit behind a refusal at step `n`; none if the refusal is an error and not a limit. `nr_open` is the
/// sysctl `fs.nr_open`, which a process without free descriptors cannot read.
pub(crate) fn explain(error: Error, n: u64, nr_open: Option<u64>) -> Option<Limit> {
    let (meaning, raise) = match error.errno {
        libc::EMFILE => descriptors(nr_open),
        libc::ENFILE => sysctl("fs.file-max", "the system-wide limit on open files is reached"),
        libc::EADDRINUSE | libc::EADDRNOTAVAIL if error.call == "bind" => ports(""),
        // At n = 1 the error means that there is no such address.
        libc::EADDRNOTAVAIL if error.call == "connect" && n > 1 => ports(" for connections to this address"),
        libc::EAGAIN if is_process(error.call) => processes(),
        libc::EINVAL if error.call == "select" => (
            format!(
                "select() can only watch descriptors below {SELECT_CAPACITY} (FD_SETSIZE); no setting changes this"
            ),
            String::new(),
        ),
        libc::ENOMEM => memory(error.call),
        libc::ENOBUFS => ("the kernel is out of buffers for this object".to_owned(), String::new()),
        libc::EOPNOTSUPP if matches!(error.call, "fiemap" | "fallocate") => (
            "the file system of the scratch directory cannot report or choose the extents of a file".to_owned(),
            "--dir DIR on ext4, xfs or btrfs, or run as root for a file system in an image".to_owned(),
        ),
        libc::EOPNOTSUPP if error.call == "cachestat" => (
            "the kernel does not report which pages of this file system are in memory, so no file is proven cold"
                .to_owned(),
            "--dir DIR on ext4, xfs or btrfs, with Linux 6.5 or later".to_owned(),
        ),
        libc::EOPNOTSUPP if error.call == "posix_fadvise" => (
            "the file system of the scratch directory keeps files in memory only; they are never cold".to_owned(),
            "--dir DIR on a file system with a device".to_owned(),
        ),
        libc::EOPNOTSUPP if error.call == "EXT4_IOC_MOVE_EXT" => (
            "the file system of the scratch directory cannot place the extents of a file in random order".to_owned(),
            "--dir DIR on ext4, or --set download.order=rising, or run as root for a file system in an image"
                .to_owned(),
        ),
        libc::ETIMEDOUT if error.call == "reply" => {
            ("the server sent no reply for 10 s: it is overloaded".to_owned(), String::new())
        }
        libc::ENOSPC if error.call == "epoll_ctl" => {
            sysctl("fs.epoll.max_user_watches", "the user's limit on epoll watches is reached")
        }
        libc::ENOSPC | libc::EDQUOT => ("the file system is full".to_owned(), String::new()),
        _ => return None,
    };
    Some(Limit { n, call: error.call.to_owned(), errno: error.errno, error: errno_name(error.errno), meaning, raise })
}

/// The limit that `vm.max_map_count` sets, in words.
const MAPPINGS: &str = "the process has reached its limit on mappings";

fn is_process(call: &str) -> bool {
    matches!(
        call,
        "fork" | "vfork" | "fork-exec" | "vfork-exec" | "posix_spawn" | "clone" | "clone3" | "pthread_create"
    )
}

fn ports(use_of_them: &str) -> (String, String) {
    let range = setting_or("net.ipv4.ip_local_port_range", "range unknown");
    (
        format!("every ephemeral port is in use{use_of_them} ({range})"),
        "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"".to_owned(),
    )
}

fn setting_or(name: &str, otherwise: &str) -> String {
    setting(name).map_or(otherwise.to_owned(), |value| format!("{name} is {value}"))
}

fn sysctl(name: &str, what: &str) -> (String, String) {
    match setting(name) {
        Some(value) => {
            let raise = value.parse().map_or(String::new(), |now| raise_sysctl(name, now));
            (format!("{what}: {name} is {value}"), raise)
        }
        None => (what.to_owned(), String::new()),
    }
}

/// Returns the command that doubles a setting, up to the kernel's maximum; empty if the setting is at the maximum.
fn raise_sysctl(name: &str, now: u64) -> String {
    let most = match name {
        "kernel.pid_max" => PID_MAX_LIMIT,
        "kernel.threads-max" => THREADS_MAX,
        "vm.max_map_count" => i32::MAX as u64,
        _ => i64::MAX as u64,
    };
    let more = now.saturating_mul(2).min(most);
    if more > now { format!("sysctl -w {name}={more}") } else { String::new() }
}

fn descriptors(nr_open: Option<u64>) -> (String, String) {
    let Ok((soft, hard)) = get(Resource::Descriptors) else {
        return ("the process has reached its descriptor limit".to_owned(), String::new());
    };
    let meaning = format!("the process has reached its descriptor limit: RLIMIT_NOFILE is {soft} (hard limit {hard})");
    (meaning, raise_descriptors(soft, hard, nr_open))
}

/// Returns the command that raises the limits on descriptors, which cannot exceed `ceiling`, if there is one; empty if
/// the kernel allows no more.
fn raise_descriptors(soft: u64, hard: u64, ceiling: Option<u64>) -> String {
    // Only root can raise the hard limit, which this command sets too.
    let doubled = soft.saturating_mul(2);
    let more = if soft < hard { doubled.min(hard) } else { doubled };
    let (more, first) = match ceiling {
        Some(ceiling) if more > ceiling => {
            let more = more.min(NR_OPEN_MAX);
            (more, format!("sysctl -w fs.nr_open={more}; "))
        }
        _ => (more, String::new()),
    };
    if more > soft { format!("{first}ulimit -n {more}") } else { String::new() }
}

fn is_mapping(call: &str) -> bool {
    matches!(call, "mmap" | "mprotect" | "munmap")
}

/// Returns the limit because of which a call was refused memory.
fn memory(call: &str) -> (String, String) {
    if is_mapping(call) {
        if mappings_are_exhausted() {
            return sysctl("vm.max_map_count", MAPPINGS);
        }
        if let Some(found) = address_space(0) {
            return found;
        }
    }
    // A child begins with all of its parent's data.
    let more_bytes = if is_process(call) { own_memory().map_or(0, |own| own.data_bytes) } else { 0 };
    promises(more_bytes).unwrap_or_else(|| ("the kernel is out of memory for this object".to_owned(), String::new()))
}

/// An allowance for other needs of a refused call and of this explanation, such as another page of the heap.
const SMALL_BYTES: u64 = 1 << 20;

/// Explains that the limit on the address space or on data is reached, if no object of this size fits.
fn address_space(object_bytes: u64) -> Option<(String, String)> {
    let (name, limit) = met_memory_limit(object_bytes.saturating_add(SMALL_BYTES))?;
    let (what, flag) = if name == "RLIMIT_DATA" { ("data", "-d") } else { ("the address space", "-v") };
    let raise = format!("ulimit {flag} {}", limit.saturating_mul(2) / 1024);
    Some((format!("the process has reached its limit on {what}: {name} is {limit} bytes"), raise))
}

/// Explains that the kernel commits no more memory, if it does not overcommit and an object of this size does not fit
/// below the commit limit.
fn promises(object_bytes: u64) -> Option<(String, String)> {
    if setting("vm.overcommit_memory")? != "2" {
        return None;
    }
    // The kernel reserves some memory for root and, if the process itself is large, some for other processes.
    let reserve =
        |name: &str| setting(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024);
    let of_process = own_memory().map_or(0, |own| own.space_bytes / 32);
    let kept = reserve("vm.admin_reserve_kbytes").saturating_add(reserve("vm.user_reserve_kbytes").min(of_process));
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let is_reached = promised_all(&meminfo, object_bytes.saturating_add(kept))?;
    is_reached.then(|| {
        (
            "the kernel commits no more memory: vm.overcommit_memory is 2 and CommitLimit (/proc/meminfo) is reached"
                .to_owned(),
            "sysctl -w vm.overcommit_memory=0".to_owned(),
        )
    })
}

/// Returns whether the kernel has committed so much memory, within the tolerance, that `more_bytes` more do not fit,
/// according to the text of `/proc/meminfo`.
fn promised_all(meminfo: &str, more_bytes: u64) -> Option<bool> {
    let more_bytes = more_bytes.saturating_add(promise_tolerance_bytes(meminfo));
    Some(bytes_of(meminfo, "Committed_AS")?.saturating_add(more_bytes) > bytes_of(meminfo, "CommitLimit")?)
}

/// Returns by how much the committed memory may have changed since a call was refused, in bytes, according to the text
/// of `/proc/meminfo`. Other processes release some in the meantime, and each processor adds its part to the count
/// later.
fn promise_tolerance_bytes(meminfo: &str) -> u64 {
    (bytes_of(meminfo, "MemTotal").unwrap_or(0) / 256).max(4 << 20)
}

/// Returns whether this process has reached the limit on mappings, allowing for the few that a failed call removed
/// again.
fn mappings_are_exhausted() -> bool {
    let most = setting("vm.max_map_count").and_then(|text| text.parse::<usize>().ok());
    most.is_some_and(|most| mapping_count() + 64 >= most)
}

/// Returns the number of mappings of this process. Reads the list through a small buffer: a large one would need
/// another mapping, and there may be none left.
fn mapping_count() -> usize {
    let Ok(mut maps) = std::fs::File::open("/proc/self/maps") else {
        return 0;
    };
    let (mut buffer, mut count) = ([0_u8; 4096], 0);
    while let Ok(len @ 1..) = maps.read(&mut buffer) {
        count += buffer[..len].split(|&byte| byte == b'\n').count() - 1;
    }
    count
}

/// Returns the limit that stops further processes and threads: the one that is exhausted now, otherwise mappings,
/// otherwise memory, or that the limit is unknown.
fn processes() -> (String, String) {
    const NEARLY_NONE: u64 = 32;
    match landau_sys::system::headroom().processes {
        Some((room, why)) if room <= NEARLY_NONE => {
            (format!("no further process can be created: {why}"), raise_processes(&why))
        }
        _ if mappings_are_exhausted() => sysctl("vm.max_map_count", MAPPINGS),
        _ => address_space(stack_bytes())
            .or_else(|| promises(stack_bytes()))
            // With more bytes than any limit allows, this finds the limit that is set.
            .unwrap_or_else(|| (unknown(met_memory_limit(u64::MAX)), String::new())),
    }
}

/// Explains that the kernel does not report which limit stops processes and threads. A limit on the bytes of the
/// process, if one is set, is a possible cause: a parameter may request larger stacks than [`stack_bytes`].
fn unknown(limit: Option<(&str, u64)>) -> String {
    let bytes = match limit {
        Some(("RLIMIT_DATA", bytes)) => format!("the data (ulimit -d: RLIMIT_DATA is {bytes} bytes), "),
        Some((name, bytes)) => format!("the address space (ulimit -v: {name} is {bytes} bytes), "),
        None => String::new(),
    };
    format!("unknown limit; not the number of processes, so probably {bytes}memory or a control group")
}

/// Returns the default size of a thread's stack in the C library, in bytes.
fn stack_bytes() -> u64 {
    stack_of_thread(get(Resource::Stack).map_or(UNLIMITED, |(soft, _)| soft), page_bytes() as u64)
}

/// Returns how to raise a limit on processes, given the description of the limit: "NAME is VALUE".
fn raise_processes(why: &str) -> String {
    if why.starts_with("pids.max") {
        return "raise pids.max of the control group (systemd: TasksMax=)".to_owned();
    }
    let mut words = why.split([' ', ',']);
    let (name, value) = (words.next(), words.nth(1).and_then(|value| value.parse::<u64>().ok()));
    match (name, value) {
        // Not `ulimit -u`, which dash does not have.
        (Some("RLIMIT_NPROC"), Some(value)) => format!("prlimit --pid $$ --nproc={}", value.saturating_mul(2)),
        (Some(name), Some(value)) => raise_sysctl(name, value),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhaustion_is_a_limit_and_an_unknown_address_family_is_not() {
        let limit = explain(Error { call: "socket", errno: libc::EMFILE }, 7, Some(NR_OPEN_MAX)).unwrap();
        assert!(limit.meaning.contains("RLIMIT_NOFILE") && limit.raise.contains("ulimit -n "));
        assert_eq!((limit.n, limit.error.as_str()), (7, "EMFILE"));
        // Guards against a command without the ceiling, which a process at the limit can no longer read.
        let limit = explain(Error { call: "socket", errno: libc::EMFILE }, 7, Some(1)).unwrap();
        assert!(limit.raise.starts_with("sysctl -w fs.nr_open="), "{}", limit.raise);
        assert_eq!(explain(Error { call: "socket", errno: libc::EAFNOSUPPORT }, 7, None), None);
    }

    #[test]
    fn connections_that_find_no_port_have_met_a_limit() {
        let error = Error { call: "connect", errno: libc::EADDRNOTAVAIL };
        assert!(explain(error, 401, None).unwrap().raise.contains("ip_local_port_range"));
        assert_eq!(explain(error, 1, None), None);
    }

    /// Guards against a command that raises a different limit from the one that was reached.
    #[test]
    fn each_limit_on_processes_has_its_own_command() {
        let cases = [
            (
                "pids.max of the control group /a is 22, 22 are in use",
                "raise pids.max of the control group (systemd: TasksMax=)",
            ),
            ("kernel.pid_max is 32768, 32768 are in use", "sysctl -w kernel.pid_max=65536"),
            ("kernel.threads-max is 1000, 999 are in use", "sysctl -w kernel.threads-max=2000"),
            ("RLIMIT_NPROC is 400", "prlimit --pid $$ --nproc=800"),
        ];
        for (why, raise) in cases {
            assert_eq!(raise_processes(why), raise);
        }
    }

    /// Guards against a command that the kernel refuses with EPERM or EINVAL.
    #[test]
    fn no_command_asks_for_more_than_the_kernel_allows() {
        assert_eq!(raise_descriptors(1_024, 524_288, Some(1_048_576)), "ulimit -n 2048");
        assert_eq!(raise_descriptors(400_000, 524_288, Some(1_048_576)), "ulimit -n 524288");
        assert_eq!(raise_descriptors(524_288, 524_288, Some(1_048_576)), "ulimit -n 1048576");
        let both = "sysctl -w fs.nr_open=2097152; ulimit -n 2097152";
        assert_eq!(raise_descriptors(1_048_576, 1_048_576, Some(1_048_576)), both);
        // The ceiling was lowered after the limits were raised.
        assert_eq!(raise_descriptors(8, 64, Some(10)), "sysctl -w fs.nr_open=16; ulimit -n 16");
        assert_eq!(raise_descriptors(NR_OPEN_MAX, NR_OPEN_MAX, Some(NR_OPEN_MAX)), "");
        assert_eq!(raise_descriptors(20_000, 20_000, None), "ulimit -n 40000");

        assert_eq!(raise_processes("kernel.pid_max is 4194304, 4194303 are in use"), "");
        assert_eq!(raise_processes("kernel.pid_max is 4000000, 3 are in use"), "sysctl -w kernel.pid_max=4194304");
        assert_eq!(raise_sysctl("kernel.threads-max", 0x3fff_ffff), "");
        assert_eq!(raise_sysctl("vm.max_map_count", 2_000_000_000), "sysctl -w vm.max_map_count=2147483647");
        assert_eq!(raise_sysctl("fs.file-max", i64::MAX as u64), "");
        assert_eq!(raise_sysctl("fs.file-max", 100), "sysctl -w fs.file-max=200");
    }

    #[test]
    fn a_limit_on_bytes_is_a_possible_cause_where_it_is_set() {
        assert!(unknown(None).ends_with("not the number of processes, so probably memory or a control group"));
        let text = unknown(Some(("RLIMIT_AS", 7)));
        assert!(text.contains("so probably the address space (ulimit -v: RLIMIT_AS is 7 bytes), memory or"), "{text}");
        let text = unknown(Some(("RLIMIT_DATA", 7)));
        assert!(text.contains("so probably the data (ulimit -d: RLIMIT_DATA is 7 bytes), memory or"), "{text}");
    }

    #[test]
    fn all_memory_is_promised_only_where_the_next_object_does_not_fit() {
        // 8 GiB, so the tolerance is 32 MiB.
        let of = |free_mib: u64, more_mib: u64| {
            let promised = (4_096 - free_mib) << 10;
            let meminfo = format!("MemTotal: 8388608 kB\nCommitLimit:  4194304 kB\nCommitted_AS:  {promised} kB\n");
            promised_all(&meminfo, more_mib << 20)
        };
        assert_eq!((of(500, 0), of(500, 468)), (Some(false), Some(false)));
        assert_eq!((of(500, 469), of(0, 1)), (Some(true), Some(true)));
        // Another process has released some memory since the call was refused.
        assert_eq!((of(31, 0), of(33, 0)), (Some(true), Some(false)));
        assert_eq!(promised_all("CommitLimit: 1000 kB\n", 0), None);
        let tolerance = |kilobytes: u64| promise_tolerance_bytes(&format!("MemTotal: {kilobytes} kB\n"));
        assert_eq!((tolerance(8 << 20), tolerance(1 << 19)), (32 << 20, 4 << 20));
    }

    #[test]
    fn too_many_processes_is_a_limit_of_each_way_of_creating_one() {
        for call in landau_sys::sleepers::CREATIONS {
            let limit = explain(Error { call, errno: libc::EAGAIN }, 7, None);
            assert!(limit.is_some_and(|limit| limit.call == *call), "{call}");
        }
    }
}
