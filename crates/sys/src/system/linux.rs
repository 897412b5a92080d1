//! Linux.

use super::{Headroom, OwnMemory, bytes_of};
use crate::error::{Result, check};
use std::ffi::{CStr, OsStr};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns the value of a sysctl by its name, such as `net.ipv4.ip_local_port_range`.
pub fn setting(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path).ok().map(|text| text.trim().replace('\t', " "))
}

/// Returns the processors that this process may run on.
pub fn processors() -> Vec<u32> {
    // SAFETY: `cpu_set_t` is plain data for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is writable for the given size.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if got != 0 {
        return Vec::new();
    }
    // SAFETY: the numbers are less than the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).map(|cpu| cpu as u32).collect()
}

/// Pins this process to some processors.
pub fn pin(processors: &[u32]) -> Result<()> {
    // SAFETY: `cpu_set_t` is plain data for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in processors.iter().filter(|&&cpu| (cpu as i32) < libc::CPU_SETSIZE) {
        // SAFETY: the number is less than the size of the set, as the filter ensures.
        unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    }
    // SAFETY: `set` is readable for the given size.
    check("sched_setaffinity", unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
        .map(drop)
}

/// Returns the processor that this thread is running on.
#[inline]
pub fn current_processor() -> Option<u32> {
    // SAFETY: the call takes nothing and returns -1 if it fails.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Makes the kernel send SIGKILL to this process when the thread that created it ends. `parent` is the expected parent:
/// if it has ended already, this process exits now.
pub fn set_parent_death_signal(parent: i32) -> Result<()> {
    // SAFETY: this option takes an integer.
    check("prctl", unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    if crate::process::parent_id() != parent {
        // SAFETY: the call takes an integer; it exits at once, since no parent is left to report to.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}

/// Returns the path of the program of this process: `/proc/self/exe`, or without `/proc` the path with which it was
/// started.
pub(crate) fn this_program() -> Option<PathBuf> {
    let own = PathBuf::from("/proc/self/exe");
    if own.exists() { Some(own) } else { started_by() }
}

/// Returns the absolute path with which this program was started.
fn started_by() -> Option<PathBuf> {
    // SAFETY: the call takes an integer; it returns 0 for an entry that the kernel did not pass.
    let address = unsafe { libc::getauxval(libc::AT_EXECFN) };
    if address == 0 {
        return None;
    }
    // SAFETY: the kernel put this C string beside the program's arguments, where it lives as long as the process.
    let path = unsafe { CStr::from_ptr(address as *const libc::c_char) };
    fs::canonicalize(OsStr::from_bytes(path.to_bytes())).ok().filter(|path| path.is_file())
}

/// Makes the kernel panic, which needs root. Returns if that is refused.
pub fn trigger_panic() {
    // If it is refused, the system stays as it is.
    let _ = fs::write("/proc/sysrq-trigger", "c");
}

/// Returns the steal time of these processors, or of all if none is named, in hundredths of a second, from the text of
/// `/proc/stat`.
pub fn steal_centiseconds_of(stat: &str, processors: &[u32]) -> Option<u64> {
    let of_line = |line: &str| line.split_ascii_whitespace().nth(8)?.parse::<u64>().ok();
    if processors.is_empty() {
        return stat.lines().next().filter(|line| line.starts_with("cpu ")).and_then(of_line);
    }
    let is_named = |line: &&str| {
        let name = line.split_ascii_whitespace().next().and_then(|name| name.strip_prefix("cpu"));
        name.and_then(|number| number.parse().ok()).is_some_and(|number: u32| processors.contains(&number))
    };
    stat.lines().filter(is_named).map(of_line).reduce(|sum, one| Some(sum? + one?)).flatten()
}

/// Returns the byte offset in `/proc/softirqs` of the number of a processor's RCU softirqs: ten characters, padded with
/// spaces.
pub(crate) fn rcu_softirqs_place(processor: u32) -> Option<u64> {
    place_of_rcu_softirqs(&fs::read_to_string("/proc/softirqs").ok()?, processor)
}

fn place_of_rcu_softirqs(text: &str, processor: u32) -> Option<u64> {
    const WIDTH: usize = 10;
    let name = format!("CPU{processor}");
    let column = text.lines().next()?.split_ascii_whitespace().position(|word| word == name)?;
    let line = text.lines().find(|line| line.trim_start().starts_with("RCU:"))?;
    // A space precedes each number.
    let place = line.find(':')? + 1 + column * (WIDTH + 1) + 1;
    let number = line.get(place..place + WIDTH)?;
    let is_one = number.trim_start().parse::<u64>().is_ok() && line.get(place - 1..place)? == " ";
    let line_at = line.as_ptr() as usize - text.as_ptr() as usize;
    is_one.then_some((line_at + place) as u64)
}

/// Returns the level and size in bytes of each data and unified cache of the first processor.
pub fn caches() -> Vec<(u32, u64)> {
    let mut found = Vec::new();
    for index in 0..8 {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let read = |name: &str| fs::read_to_string(Path::new(&folder).join(name)).ok();
        let (Some(kind), Some(level), Some(size)) = (read("type"), read("level"), read("size")) else {
            continue;
        };
        let kilobytes = size.trim().strip_suffix('K').and_then(|text| text.parse::<u64>().ok());
        if let (false, Ok(level), Some(kilobytes)) = (kind.trim() == "Instruction", level.trim().parse(), kilobytes) {
            found.push((level, kilobytes * 1024));
        }
    }
    found
}

/// Returns the range of ephemeral ports: lowest and highest.
pub fn ephemeral_ports() -> Option<(u16, u16)> {
    let range = setting("net.ipv4.ip_local_port_range")?;
    let mut ends = range.split_ascii_whitespace().map(str::parse::<u16>);
    Some((ends.next()?.ok()?, ends.next()?.ok()?))
}

/// Returns how many ports from `low` to `high` are reserved, so that the system does not choose them.
pub fn reserved_ports(low: u16, high: u16) -> u32 {
    let reserved = setting("net.ipv4.ip_local_reserved_ports").unwrap_or_default();
    reserved.split(',').filter(|part| !part.is_empty()).map(|part| reserved_within(part, low, high)).sum()
}

/// Returns how many ports of `part` (`8080` or `9000-9010`) are within the range.
fn reserved_within(part: &str, low: u16, high: u16) -> u32 {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) => (u32::from(last.min(high)) + 1).saturating_sub(u32::from(first.max(low))),
        _ => 0,
    }
}

/// Returns the number of TCP sockets in `TIME_WAIT` in this network namespace.
pub fn time_wait_count() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/sockstat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_ascii_whitespace();
    words.find(|&word| word == "tw")?;
    words.next()?.parse().ok()
}

/// Returns how many connections the listening sockets of this network namespace have dropped since it was created:
/// because the accept queue was full (`ListenOverflows`) and for any reason (`ListenDrops`).
pub fn listen_drops() -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/net/netstat").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:")).map(str::split_ascii_whitespace);
    let (names, values) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let value = names.clone().zip(values.clone()).find(|(name, _)| *name == wanted)?.1;
        value.parse().ok()
    };
    Some((of("ListenOverflows")?, of("ListenDrops")?))
}

/// Reads a file that contains the name of a program, which the kernel may truncate within a character.
fn text(path: impl AsRef<Path>) -> std::io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the processors that a process may run on.
pub fn processors_of(pid: u32) -> Option<Vec<u32>> {
    let text = text(format!("/proc/{pid}/status")).ok()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut found = Vec::new();
    for part in list.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        found.extend(from.parse::<u32>().ok()?..=to.parse().ok()?);
    }
    Some(found)
}

/// Returns the processor time of a process so far in nanoseconds: the sum over its threads that have not ended.
pub fn cpu_time_ns(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let of = |task: fs::DirEntry| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    // A kernel without schedstats reports 0.
    Some(tasks.filter_map(of).sum()).filter(|&sum| sum > 0)
}

/// Returns the processor time of the children that a process has reaped, and of their reaped children, in nanoseconds.
/// The kernel reports it in hundredths of a second.
pub fn reaped_time_ns(pid: u32) -> Option<u64> {
    let text = text(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses, and may itself contain spaces and parentheses. The result is in the
    // 16th and 17th fields of proc_pid_stat(5); the rest of the text starts with the third.
    let rest = &text[text.rfind(')')? + 1..];
    let mut fields = rest.split_ascii_whitespace().skip(13).map(str::parse::<u64>);
    Some((fields.next()?.ok()? + fields.next()?.ok()?) * 10_000_000)
}

/// Returns the number of context switches of a process's threads, voluntary and involuntary.
pub fn context_switches(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let of = |task: fs::DirEntry| {
        let text = text(task.path().join("status")).ok()?;
        let lines = text.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        Some(lines.filter_map(|(_, count)| count.trim().parse::<u64>().ok()).sum::<u64>())
    };
    Some(tasks.filter_map(of).sum()).filter(|&sum| sum > 0)
}

/// Returns the number of open descriptors of a process; if its threads have several tables, of the fullest one (Linux
/// 6.2 counts them without listing).
pub fn descriptor_count(pid: u32) -> Option<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    tasks.filter_map(|task| Some(fs::metadata(task.path().join("fd")).ok()?.len())).max().filter(|&count| count > 0)
}

/// Returns the private memory of a process and its descendants in bytes, or `None` if there is no such process or it
/// may not be read.
pub fn private_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    let own: u64 = lines.filter_map(|line| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()).sum();
    let below: u64 = children(pid).into_iter().filter_map(private_bytes).sum();
    Some(own * 1024 + below)
}

/// Returns the children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|one| one.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns whether the system lists the children of processes: not without `CONFIG_PROC_CHILDREN`, and not in gVisor.
pub fn lists_children() -> bool {
    Path::new("/proc/thread-self/children").exists()
}

/// Returns the name of the hypervisor, or `none`; `None` if it cannot be known.
pub fn virtualization() -> Option<String> {
    super::virtualization_by(|path| fs::read_to_string(Path::new("/").join(path)).ok())
}

/// Returns the free resources of this host.
pub fn headroom() -> Headroom {
    Headroom { memory_bytes: free_memory(), processes: processes(), descriptors: descriptors() }
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the memory that is available without swapping, in bytes, within the limit of the control group.
pub fn free_memory() -> Option<u64> {
    let available = bytes_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")?;
    Some(available.min(group_memory().unwrap_or(u64::MAX)))
}

/// Returns the memory of this process. Allocates nothing, because there may be no memory left.
pub fn own_memory() -> Option<OwnMemory> {
    let mut buffer = [0_u8; 128];
    let len = fs::File::open("/proc/self/statm").and_then(|mut file| file.read(&mut buffer)).ok()?;
    own_memory_of(std::str::from_utf8(&buffer[..len]).ok()?)
}

/// Parses `/proc/PID/statm`, whose first number is the size of the address space, and the sixth that of data and stack.
fn own_memory_of(statm: &str) -> Option<OwnMemory> {
    let mut pages = statm.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok());
    let (space, data) = (pages.next()?, pages.nth(4)?);
    let bytes = |pages: u64| pages.saturating_mul(crate::memory::page_bytes() as u64);
    Some(OwnMemory { space_bytes: bytes(space), data_bytes: bytes(data) })
}

/// Returns the memory limits of this process that are set (setrlimit(2)), on the address space and on data: name, value
/// and current use. The use of data includes the stack, about 100 kB, which the kernel does not count.
fn memory_limits() -> impl Iterator<Item = (&'static str, u64, u64)> {
    use crate::limits::{Resource, UNLIMITED, get};
    let of = |own: OwnMemory| {
        [(Resource::AddressSpace, "RLIMIT_AS", own.space_bytes), (Resource::Data, "RLIMIT_DATA", own.data_bytes)]
    };
    let limits = own_memory().map(of).into_iter().flatten();
    limits.filter_map(|(resource, name, used)| {
        let (soft, _) = get(resource).ok().filter(|&(soft, _)| soft != UNLIMITED)?;
        Some((name, soft, used))
    })
}

/// Returns how many bytes each of `processes` processes like this one can still allocate: an equal part of the free
/// memory of the system and the control group, within the limits of a process on the address space and on data
/// (setrlimit(2)). `address_bytes` are subtracted from these limits, for address space that is reserved without being
/// used, such as thread stacks.
pub fn memory_left(processes: u64, address_bytes: u64) -> Option<u64> {
    let left = memory_limits().map(|(_, soft, used)| soft.saturating_sub(used).saturating_sub(address_bytes));
    left.chain(free_memory().map(|shared| shared / processes.max(1))).min()
}

/// Returns the memory limit of this process that leaves no room for `more_bytes` more, and its value: that on the
/// address space or that on data (setrlimit(2)). Allocates nothing, because there may be no memory left.
pub fn met_memory_limit(more_bytes: u64) -> Option<(&'static str, u64)> {
    let met = memory_limits().find(|(_, soft, used)| used.saturating_add(more_bytes) > *soft);
    met.map(|(name, soft, _)| (name, soft))
}

/// Returns the path of this process's control group for a controller (`""` is the unified hierarchy).
fn group_path(controller: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        let hit = if controller.is_empty() { names.is_empty() } else { names.split(',').any(|n| n == controller) };
        hit.then(|| path.trim_end_matches('/').to_owned())
    })
}

/// The files in which a version of the control groups reports memory: the limit, the use, and the part of the use that
/// is cached file pages (lines of `memory.stat`), which are reclaimed when memory is needed.
struct MemoryFiles {
    limit: &'static str,
    used: &'static str,
    cached: [&'static str; 2],
}

const UNIFIED: MemoryFiles =
    MemoryFiles { limit: "memory.max", used: "memory.current", cached: ["inactive_file", "active_file"] };

const LEGACY: MemoryFiles = MemoryFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: ["total_inactive_file", "total_active_file"],
};

/// Returns the memory that the control groups leave in bytes, or `None` if there is no limit.
fn group_memory() -> Option<u64> {
    let mounted = Path::new("/sys/fs/cgroup");
    let unified = group_path("").and_then(|group| left_in_groups(mounted, &group, &UNIFIED));
    let legacy = group_path("memory").and_then(|group| left_in_groups(&mounted.join("memory"), &group, &LEGACY));
    unified.into_iter().chain(legacy).min()
}

/// Returns the memory that the tightest limit of a group and its ancestors leaves: a group's limit applies to all
/// groups in it together.
fn left_in_groups(mounted: &Path, group: &str, files: &MemoryFiles) -> Option<u64> {
    let left = |group: &Path| {
        let folder = mounted.join(group);
        let limit = number(folder.join(files.limit))?;
        Some(limit.saturating_sub(group_use(&folder, files)?))
    };
    Path::new(group.trim_start_matches('/')).ancestors().filter_map(left).min()
}

/// Returns the memory that a control group uses in bytes, without cached file pages that can be reclaimed.
fn group_use(folder: &Path, files: &MemoryFiles) -> Option<u64> {
    let used = number(folder.join(files.used))?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cached =
        |name: &&str| stat.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(' ')?.parse::<u64>().ok());
    Some(used.saturating_sub(files.cached.iter().filter_map(cached).sum()))
}

/// Returns how many processes the tightest limit leaves.
fn processes() -> Option<(u64, String)> {
    let existing = fs::read_to_string("/proc/loadavg").ok().and_then(|text| {
        let (_, total) = text.split_ascii_whitespace().nth(3)?.split_once('/')?;
        total.parse::<u64>().ok()
    })?;
    let mut bounds = Vec::new();
    for name in ["kernel.pid_max", "kernel.threads-max"] {
        if let Some(value) = setting(name).and_then(|text| text.parse::<u64>().ok()) {
            bounds.push((value.saturating_sub(existing), format!("{name} is {value}, {existing} are in use")));
        }
    }
    if let Ok((soft, _)) = crate::limits::get(crate::limits::Resource::Processes)
        && soft != crate::limits::UNLIMITED
    {
        // The user's own tasks are counted only if this limit may be the tightest: counting reads a file of each
        // process.
        let is_tight = bounds.iter().all(|(room, _)| soft.saturating_sub(existing) < *room);
        let own = if is_tight { tasks_of_user(Path::new("/proc")).min(existing) } else { existing };
        bounds.push((soft.saturating_sub(own), format!("RLIMIT_NPROC is {soft}")));
    }
    for (root, group) in [("/sys/fs/cgroup/pids", group_path("pids")), ("/sys/fs/cgroup", group_path(""))] {
        bounds.extend(group.and_then(|group| processes_left_in_groups(Path::new(root), &group)));
    }
    bounds.into_iter().min_by_key(|(room, _)| *room)
}

/// Returns how many processes and threads the real user of this process has, from the processes in a directory like
/// `/proc`.
fn tasks_of_user(folder: &Path) -> u64 {
    let line = |status: &str, name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let status_of = |path: &Path| text(path.join("status"));
    let own = status_of(&folder.join("self")).ok().and_then(|status| line(&status, "Uid"));
    let processes = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let of = |entry: fs::DirEntry| {
        let status =
            entry.file_name().to_str().filter(|name| is_process(name)).map(|_| status_of(&entry.path()))?.ok()?;
        Some(line(&status, "Threads").unwrap_or(1)).filter(|_| line(&status, "Uid") == own)
    };
    processes.filter_map(of).sum()
}

/// Returns how many processes the tightest limit of a control group and its ancestors leaves; `None` if none has a
/// limit.
fn processes_left_in_groups(root: &Path, group: &str) -> Option<(u64, String)> {
    let left = |group: &Path| {
        let folder = root.join(group);
        let (most, now) = (number(folder.join("pids.max"))?, number(folder.join("pids.current"))?);
        let name = group.display();
        Some((most.saturating_sub(now), format!("pids.max of the control group /{name} is {most}, {now} are in use")))
    };
    Path::new(group.trim_start_matches('/')).ancestors().filter_map(left).min_by_key(|(room, _)| *room)
}

fn descriptors() -> Option<(u64, String)> {
    let text = setting("fs.file-nr")?;
    let mut words = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (used, most) = (words.next()?.ok()?, words.nth(1)?.ok()?);
    Some((most.saturating_sub(used), format!("fs.file-max is {most}, {used} are open")))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    /// `RLIMIT_NPROC` counts the tasks of one user. Before the fix, those of all users were subtracted, so that a run
    /// of an ordinary user with a limit of 400 ended at 162.
    #[test]
    fn tasks_of_other_users_do_not_count() {
        let room = tempfile::tempdir().unwrap();
        let plant = |name: &str, status: &str| {
            fs::create_dir_all(room.path().join(name)).unwrap();
            fs::write(room.path().join(name).join("status"), status).unwrap();
        };
        plant("self", "Name:\tme\nUid:\t1000\t0\t0\t0\nThreads:\t3\n");
        plant("7", "Name:\tme\nUid:\t1000\t0\t0\t0\nThreads:\t3\n");
        plant("8", "Name:\tshell\nUid:\t1000\t1000\nThreads:\t1\n");
        plant("9", "Name:\tinit\nUid:\t0\t0\nThreads:\t50\n");
        assert_eq!(tasks_of_user(room.path()), 4);
    }

    /// A service's limit is often that of its slice, and the group itself has none.
    #[test]
    fn the_tightest_control_group_counts() {
        for (files, unlimited) in [(UNIFIED, "max"), (LEGACY, "9223372036854771712")] {
            let room = tempfile::tempdir().unwrap();
            let group = |name: &str, limit: &str, used: u64, cached: u64| {
                let folder = room.path().join(name);
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join(files.limit), format!("{limit}\n")).unwrap();
                fs::write(folder.join(files.used), format!("{used}\n")).unwrap();
                fs::write(
                    folder.join("memory.stat"),
                    format!("anon 7\n{} {cached}\n{} 200\n", files.cached[0], files.cached[1]),
                )
                .unwrap();
            };
            let left = |name: &str| left_in_groups(room.path(), name, &files);
            group("a/b/c", unlimited, 100, 0);
            group("a/b", "5000", 1400, 200);
            group("a", "9000", 8700, 0);
            assert_eq!((left("/a/b/c"), left("/a/b"), left("/a")), (Some(500), Some(500), Some(500)));
            group("a", unlimited, 8700, 0);
            assert_eq!(left("/a/b/c"), Some(4000), "{}", files.limit);
            // In a container, the root is the group itself; otherwise the root of the unified hierarchy has no such
            // files.
            group("", "3000", 0, 0);
            assert_eq!((left("/a/b/c"), left("/nowhere"), left("")), (Some(3000), Some(3000), Some(3000)));
        }
    }

    #[test]
    fn the_place_of_a_processors_rcu_softirqs_is_found() {
        let text = "                    CPU0       CPU2       \n          HI:          1          2\n         \
                    RCU:    4157041 4294967295\n";
        let at = |processor| {
            let place = place_of_rcu_softirqs(text, processor)? as usize;
            Some(&text[place..place + 10])
        };
        assert_eq!((at(0), at(1), at(2)), (Some("   4157041"), None, Some("4294967295")));
        assert_eq!(place_of_rcu_softirqs(&text.replace("RCU", "RCX"), 0), None);
        // Widths other than the kernel's: the offset would not stay the same.
        assert_eq!(place_of_rcu_softirqs(&text.replace("    4157041", " 4157041"), 0), None);
        assert_eq!(place_of_rcu_softirqs("", 0), None);
    }

    /// A container's limit is often that of a group above the process's own.
    #[test]
    fn the_tightest_limit_of_processes_counts() {
        let room = tempfile::tempdir().unwrap();
        let group = |name: &str, most: &str, now: u64| {
            let folder = room.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("pids.max"), format!("{most}\n")).unwrap();
            fs::write(folder.join("pids.current"), format!("{now}\n")).unwrap();
        };
        let left = |name: &str| processes_left_in_groups(room.path(), name).map(|(room, _)| room);
        group("a/b", "max", 5);
        group("a", "100", 30);
        assert_eq!((left("/a/b"), left("/a"), left("/")), (Some(70), Some(70), None));
        group("a/b", "20", 5);
        assert_eq!(left("/a/b"), Some(15));
    }

    #[test]
    fn own_memory_is_that_of_the_address_space_and_of_data() {
        let page = crate::memory::page_bytes() as u64;
        let own = own_memory_of("9000 400 300 20 0 1500 0\n").unwrap();
        assert_eq!((own.space_bytes, own.data_bytes), (9_000 * page, 1_500 * page));
        assert_eq!(own_memory_of("9000 400 300 20 0"), None);
        let own = own_memory().unwrap();
        assert!(0 < own.data_bytes && own.data_bytes < own.space_bytes, "{own:?}");
        assert!(free_memory().is_some_and(|bytes| bytes > 0));
    }

    /// Measured in a separate process, because other tests in this one allocate, free and fork meanwhile.
    #[test]
    fn allocated_memory_is_counted_as_private() {
        let mut tail = Command::new("tail").args(["-c", "32M"]).stdin(Stdio::piped()).spawn().unwrap();
        let before = private_bytes(tail.id()).unwrap();
        let mut input = tail.stdin.take().unwrap();
        input.write_all(&vec![0; 32 << 20]).unwrap();
        let after = private_bytes(tail.id()).unwrap();
        tail.kill().unwrap();
        tail.wait().unwrap();
        assert!(after >= before + (24 << 20), "{before} {after}");
        assert_eq!(private_bytes(u32::MAX), None);
    }

    #[test]
    fn this_program_is_found_with_and_without_proc() {
        let with = fs::canonicalize(this_program().unwrap()).unwrap();
        assert_eq!(with, started_by().unwrap());
        assert_eq!(with, std::env::current_exe().unwrap());
    }

    #[test]
    fn reserved_ports_count_only_within_the_range() {
        assert_eq!(reserved_within("8080", 32768, 60999), 0);
        assert_eq!(reserved_within("60990-61010", 32768, 60999), 10);
        // The last port plus one does not fit into 16 bits.
        assert_eq!(reserved_within("60001-65535", 1024, 65535), 5_535);
        assert_eq!(reserved_within("nonsense", 32768, 60999), 0);
    }

    #[test]
    fn steal_time_is_the_eighth_number() {
        let stat = "cpu  1 2 3 4 5 6 7 30 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 22 9 10\nintr 1 2";
        assert_eq!(steal_centiseconds_of(stat, &[]), Some(30));
        // Guards against counting the steal time of other processors.
        assert_eq!(steal_centiseconds_of(stat, &[1]), Some(22));
        assert_eq!(steal_centiseconds_of(stat, &[0, 1]), Some(30));
        assert_eq!(steal_centiseconds_of(stat, &[10]), None);
        assert_eq!(steal_centiseconds_of("intr 1", &[]), None);
    }
}
