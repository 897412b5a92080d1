//! Resource limits: reading them, and raising them as far as the user may.

use crate::error::{Error, Result, check};

/// A limited resource of a process or user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Open descriptors of a process.
    Descriptors,
    /// Processes and threads of a user.
    Processes,
    /// Bytes of memory that a process may lock.
    LockedMemory,
    /// Bytes of the stack of a process's first thread; the C library uses it for the other threads too.
    Stack,
    /// Bytes of a process's address space.
    #[cfg(target_os = "linux")]
    AddressSpace,
    /// Bytes of a process's data: initialized, uninitialized, heap and private writable mappings.
    #[cfg(target_os = "linux")]
    Data,
}

/// The resources whose limits a benchmark may reach, with their names in getrlimit(2).
pub const ALL: [(Resource, &str); 3] = [
    (Resource::Descriptors, "RLIMIT_NOFILE"),
    (Resource::Processes, "RLIMIT_NPROC"),
    (Resource::LockedMemory, "RLIMIT_MEMLOCK"),
];

/// The value that means "no limit".
pub const UNLIMITED: u64 = u64::MAX;

/// The maximum of `fs.nr_open` that Linux allows on 64-bit processors (`sysctl_nr_open_max` in its `file.c`).
pub const NR_OPEN_MAX: u64 = 2_147_483_584;

/// The maximum of `kernel.pid_max` that Linux allows on 64-bit processors (`PID_MAX_LIMIT` in its `threads.h`).
pub const PID_MAX_LIMIT: u64 = 4_194_304;

/// The maximum of `kernel.threads-max` that Linux allows: `FUTEX_TID_MASK` in `linux/futex.h`, because a futex holds
/// the number of a thread and two flags.
pub const THREADS_MAX: u64 = 0x3fff_ffff;

/// Returns the soft and the hard limit.
pub fn get(resource: Resource) -> Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let number = number(resource).ok_or(Error { call: "getrlimit", errno: libc::EINVAL })?;
    // SAFETY: `limit` is writable.
    check("getrlimit", unsafe { libc::getrlimit(number, &raw mut limit) })?;
    Ok((widen(limit.rlim_cur), widen(limit.rlim_max)))
}

/// Raises the soft limit to the hard limit, or to what the system allows if that is less, and returns the new soft
/// limit. Resources that the system does not limit this way are unlimited.
pub fn raise(resource: Resource) -> Result<u64> {
    let Some(number) = number(resource) else { return Ok(UNLIMITED) };
    let (soft, hard) = get(resource)?;
    if soft < hard {
        let limit = libc::rlimit { rlim_cur: hard as libc::rlim_t, rlim_max: hard as libc::rlim_t };
        // SAFETY: `limit` is readable for the length of the call. If a system refuses the value, nothing changes.
        unsafe { libc::setrlimit(number, &raw const limit) };
    }
    Ok(get(resource)?.0)
}

/// The stack in bytes that glibc gives a thread if the limit is unlimited (`ARCH_STACK_DEFAULT_SIZE`).
const STACK_UNLIMITED: u64 = 2 << 20;

/// The smallest stack in bytes that glibc gives a thread (`PTHREAD_STACK_MIN`).
const STACK_MIN: u64 = 16 << 10;

/// Returns the default size in bytes of a thread's stack in glibc, without its guard page: the soft limit of
/// [`Resource::Stack`] in whole pages.
pub fn stack_of_thread(soft: u64, page_bytes: u64) -> u64 {
    if soft == UNLIMITED {
        return STACK_UNLIMITED;
    }
    soft.max(STACK_MIN).checked_next_multiple_of(page_bytes).unwrap_or(soft)
}

#[allow(clippy::unnecessary_cast, reason = "the type is signed on some systems")]
fn widen(value: libc::rlim_t) -> u64 {
    if value == libc::RLIM_INFINITY { UNLIMITED } else { value as u64 }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Number = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Number = libc::c_int;

/// Returns the resource's number, or `None` if the system has no such limit.
#[cfg(not(any(target_os = "illumos", target_os = "solaris")))]
#[allow(clippy::unnecessary_wraps, reason = "not every system has them all")]
fn number(resource: Resource) -> Option<Number> {
    Some(match resource {
        Resource::Descriptors => libc::RLIMIT_NOFILE,
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
        Resource::Stack => libc::RLIMIT_STACK,
        #[cfg(target_os = "linux")]
        Resource::AddressSpace => libc::RLIMIT_AS,
        #[cfg(target_os = "linux")]
        Resource::Data => libc::RLIMIT_DATA,
    })
}

/// Returns the resource's number. illumos limits processes and locked memory per project, not per process.
#[cfg(any(target_os = "illumos", target_os = "solaris"))]
fn number(resource: Resource) -> Option<Number> {
    match resource {
        Resource::Descriptors => Some(libc::RLIMIT_NOFILE),
        Resource::Stack => Some(libc::RLIMIT_STACK),
        Resource::Processes | Resource::LockedMemory => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_of_a_thread_is_the_soft_limit_in_pages() {
        let of = |soft| stack_of_thread(soft, 4_096);
        assert_eq!((of(8 << 20), of((8 << 20) - 1), of(UNLIMITED)), (8 << 20, 8 << 20, 2 << 20));
        assert_eq!((of(0), of(UNLIMITED - 1)), (16 << 10, UNLIMITED - 1));
        assert_eq!(stack_of_thread(20 << 10, 64 << 10), 64 << 10);
    }
}
