//! Resource limits: read, and raised as far as the user may. Never lowered.

use crate::error::{Result, check};

/// A resource with a limit per process or per user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Open descriptors of a process.
    Descriptors,
    /// Processes and threads of a user.
    Processes,
    /// Bytes a process may lock in memory.
    LockedMemory,
}

/// All of them, with the names their manual page uses.
pub const ALL: [(Resource, &str); 3] = [
    (Resource::Descriptors, "RLIMIT_NOFILE"),
    (Resource::Processes, "RLIMIT_NPROC"),
    (Resource::LockedMemory, "RLIMIT_MEMLOCK"),
];

/// Stands for "no limit".
pub const UNLIMITED: u64 = u64::MAX;

/// The soft and the hard limit.
pub fn get(resource: Resource) -> Result<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit that the call may write.
    check("getrlimit", unsafe { libc::getrlimit(number(resource), &raw mut limit) })?;
    Ok((widen(limit.rlim_cur), widen(limit.rlim_max)))
}

/// Raises the soft limit to the hard one, and to what the system allows where that is less; the soft limit then.
pub fn raise(resource: Resource) -> Result<u64> {
    let (soft, hard) = get(resource)?;
    if soft < hard {
        let limit = libc::rlimit { rlim_cur: hard as libc::rlim_t, rlim_max: hard as libc::rlim_t };
        // SAFETY: `limit` is a valid rlimit. Some systems refuse the hard limit as a soft one: then nothing changes.
        unsafe { libc::setrlimit(number(resource), &raw const limit) };
    }
    Ok(get(resource)?.0)
}

#[allow(clippy::unnecessary_cast, reason = "the type is signed on some systems")]
fn widen(value: libc::rlim_t) -> u64 {
    if value == libc::RLIM_INFINITY { UNLIMITED } else { value as u64 }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Number = libc::__rlimit_resource_t;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
type Number = libc::c_int;

fn number(resource: Resource) -> Number {
    match resource {
        Resource::Descriptors => libc::RLIMIT_NOFILE,
        Resource::Processes => libc::RLIMIT_NPROC,
        Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
    }
}
