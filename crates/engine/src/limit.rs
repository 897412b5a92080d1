//! What a refused call means: which limit was met, what it stands at, and the command that raises it.

use landau_record::schema::Limit;
use landau_sys::limits::{Resource, get};
use landau_sys::system::setting;
use landau_sys::wait::SELECT_CAPACITY;
use landau_sys::{Error, errno_name};
use std::io::Read;

/// The limit behind a refusal at step `n`; none where the refusal is an error and not a limit.
pub(crate) fn explain(error: Error, n: u64) -> Option<Limit> {
    let (meaning, raise) = match error.errno {
        libc::EMFILE => descriptors(),
        libc::ENFILE => sysctl("fs.file-max", "the system's table of open files"),
        libc::EADDRINUSE | libc::EADDRNOTAVAIL if error.call == "bind" => (
            format!("no ephemeral port is left ({})", setting_or("net.ipv4.ip_local_port_range", "range unknown")),
            "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"".to_owned(),
        ),
        libc::EAGAIN if is_process(error.call) => processes(),
        libc::EINVAL if error.call == "select" => (
            format!(
                "a set of select() holds no descriptor from {SELECT_CAPACITY} (FD_SETSIZE) on, and no setting helps"
            ),
            String::new(),
        ),
        libc::ENOMEM if is_mapping(error.call) && mappings_are_used_up() => {
            sysctl("vm.max_map_count", "mappings of one process")
        }
        libc::ENOMEM => ("the kernel has no memory for it".to_owned(), String::new()),
        libc::ENOBUFS => ("the kernel has no buffers for it".to_owned(), String::new()),
        libc::EOPNOTSUPP if matches!(error.call, "fiemap" | "fallocate") => (
            "the file system of the benchmarks' folder does not say, or not choose, where a file lies".to_owned(),
            "--dir FOLDER on ext4, xfs or btrfs; root gets a file system of his own".to_owned(),
        ),
        libc::ENOSPC if error.call == "epoll_ctl" => sysctl("fs.epoll.max_user_watches", "watches of one user"),
        libc::ENOSPC | libc::EDQUOT => ("the file system is full".to_owned(), String::new()),
        _ => return None,
    };
    Some(Limit { n, call: error.call.to_owned(), errno: error.errno, error: errno_name(error.errno), meaning, raise })
}

fn is_process(call: &str) -> bool {
    matches!(call, "fork" | "vfork-exec" | "posix_spawn" | "clone3" | "pthread_create")
}

fn setting_or(name: &str, otherwise: &str) -> String {
    setting(name).map_or(otherwise.to_owned(), |value| format!("{name} is {value}"))
}

fn sysctl(name: &str, what: &str) -> (String, String) {
    match setting(name) {
        Some(value) => {
            let doubled = value.parse::<u64>().map_or(String::new(), |now| format!("sysctl -w {name}={}", now * 2));
            (format!("{what}: {name} is {value}"), doubled)
        }
        None => (what.to_owned(), String::new()),
    }
}

fn descriptors() -> (String, String) {
    let Ok((soft, hard)) = get(Resource::Descriptors) else {
        return ("descriptors of one process".to_owned(), String::new());
    };
    let meaning = format!("descriptors of one process: RLIMIT_NOFILE is {soft}, at most {hard}");
    let more = soft.saturating_mul(2);
    // The upper of the two limits is root's to raise.
    let raise =
        if soft < hard { format!("ulimit -n {}", more.min(hard)) } else { format!("ulimit -Hn {more} -Sn {more}") };
    (meaning, raise)
}

fn is_mapping(call: &str) -> bool {
    matches!(call, "mmap" | "mprotect" | "munmap")
}

/// Whether this process has as many mappings as it may, give or take those that a failed call took back.
fn mappings_are_used_up() -> bool {
    let most = setting("vm.max_map_count").and_then(|text| text.parse::<usize>().ok());
    most.is_some_and(|most| mapping_count() + 64 >= most)
}

/// Mappings of this process. Counted piece by piece: to read the list whole would take a mapping more, and there may
/// be none left.
fn mapping_count() -> usize {
    let Ok(mut maps) = std::fs::File::open("/proc/self/maps") else {
        return 0;
    };
    let (mut piece, mut count) = ([0_u8; 4096], 0);
    while let Ok(len @ 1..) = maps.read(&mut piece) {
        count += piece[..len].split(|&byte| byte == b'\n').count() - 1;
    }
    count
}

/// Which limit stops processes and threads: the one that is used up now, else mappings, else an honest "not said".
fn processes() -> (String, String) {
    const NEARLY_NONE: u64 = 32;
    match landau_sys::system::headroom().processes {
        Some((room, why)) if room <= NEARLY_NONE => (
            format!("no more processes may be made: {why}"),
            "ulimit -u, sysctl kernel.pid_max or kernel.threads-max".to_owned(),
        ),
        _ if mappings_are_used_up() => sysctl("vm.max_map_count", "mappings of one process"),
        _ => (
            "the system did not say which limit: not its number of processes; memory, address space (ulimit -v) or a \
             control group remain"
                .to_owned(),
            String::new(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_is_a_limit_and_a_bad_address_is_not() {
        let limit = explain(Error { call: "socket", errno: libc::EMFILE }, 7).unwrap();
        assert!(limit.meaning.contains("RLIMIT_NOFILE") && limit.raise.starts_with("ulimit -"));
        assert_eq!((limit.n, limit.error.as_str()), (7, "EMFILE"));
        assert_eq!(explain(Error { call: "socket", errno: libc::EAFNOSUPPORT }, 7), None);
    }
}
