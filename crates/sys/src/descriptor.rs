//! Descriptors: opening, duplicating and, above all, closing them with a result.

use crate::error::{Error, Result, check};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Takes ownership of a descriptor that a call just returned.
#[inline(always)]
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: every caller passes a descriptor that the kernel has just handed out and nobody else knows.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Closes a descriptor and says whether that worked, which dropping it does not.
#[inline(always)]
pub fn close(fd: OwnedFd) -> Result<()> {
    // SAFETY: `into_raw_fd` gives up ownership, so nobody closes the descriptor a second time.
    check("close", unsafe { libc::close(fd.into_raw_fd()) }).map(drop)
}

/// Opens a file for reading.
#[inline(always)]
pub fn open(path: &CStr) -> Result<OwnedFd> {
    // SAFETY: `path` is a valid C string for the length of the call.
    check("open", unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }).map(own)
}

/// Duplicates a descriptor to the lowest free number.
#[inline(always)]
pub fn dup(fd: &OwnedFd) -> Result<OwnedFd> {
    // SAFETY: the descriptor is open, for it is borrowed.
    check("dup", unsafe { libc::dup(fd.as_raw_fd()) }).map(own)
}

/// Duplicates a descriptor to the lowest free number from `least` on.
pub fn dup_from(fd: &OwnedFd, least: RawFd) -> Result<OwnedFd> {
    // SAFETY: the descriptor is open, for it is borrowed; the copy takes an unused number, so it replaces none in use.
    check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, least) }).map(own)
}

/// Opens a pipe: reading end, writing end.
#[inline(always)]
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors.
    check("pipe", unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    Ok((own(ends[0]), own(ends[1])))
}

/// Makes the descriptor table at least `size` slots large by using its last slot once. Fails with EINVAL or EMFILE
/// where the limit does not allow that many.
pub fn grow_table(size: u32) -> Result<()> {
    let last = size.saturating_sub(1) as libc::c_int;
    // SAFETY: F_DUPFD takes the lowest unused slot from `last` on, so it replaces no descriptor in use.
    let fd = check("fcntl", unsafe { libc::fcntl(0, libc::F_DUPFD, last) })?;
    close(own(fd))
}

/// Whether a descriptor of that number is open.
pub fn is_open(fd: RawFd) -> bool {
    // SAFETY: F_GETFD reads a flag and takes any number.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Makes the descriptor end with `execve`.
pub fn set_close_on_exec(fd: &OwnedFd) -> Result<()> {
    // SAFETY: F_SETFD changes a flag of an open descriptor.
    check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// Whether the descriptor survives `execve`.
pub fn set_inherited(fd: &OwnedFd) -> Result<()> {
    // SAFETY: F_SETFD changes a flag of an open descriptor.
    check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) }).map(drop)
}

/// Closes whatever was inherited beyond the three standard descriptors, but for one.
///
/// A shell or a build tool may leave descriptors open in its children; a benchmark of descriptors must not begin at
/// another number each time.
pub fn close_inherited(but: RawFd) {
    let highest = std::fs::read_dir("/proc/self/fd")
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok()).max())
        .ok()
        .flatten()
        .unwrap_or(255);
    for fd in (3..=highest).filter(|&fd| fd != but) {
        // SAFETY: nothing in this process owns these descriptors yet (the caller's promise); EBADF is the usual answer.
        unsafe { libc::close(fd) };
    }
}

/// Opens again a descriptor that was inherited under a known number.
pub fn inherited(fd: RawFd) -> Result<OwnedFd> {
    if is_open(fd) { Ok(own(fd)) } else { Err(Error { call: "fcntl", errno: libc::EBADF }) }
}

/// Waits until `fd` can be read or `timeout_ms` has passed; whether it can be read (or has ended).
pub fn wait_readable(fd: &impl AsRawFd, timeout_ms: i32) -> Result<bool> {
    wait_any_readable([Some(fd)], timeout_ms).map(|[ready]| ready)
}

/// Waits until one of them can be read or `timeout_ms` has passed; which can be read (or have ended). What is none is
/// not waited for.
pub fn wait_any_readable<const COUNT: usize>(
    fds: [Option<&dyn AsRawFd>; COUNT],
    timeout_ms: i32,
) -> Result<[bool; COUNT]> {
    // A negative descriptor is let by.
    let number = |fd: Option<&dyn AsRawFd>| fd.map_or(-1, AsRawFd::as_raw_fd);
    let mut polls = fds.map(|fd| libc::pollfd { fd: number(fd), events: libc::POLLIN, revents: 0 });
    // SAFETY: the array holds as many valid pollfds as are named.
    match check("poll", unsafe { libc::poll(polls.as_mut_ptr(), COUNT as libc::nfds_t, timeout_ms) }) {
        Ok(_) => Ok(polls.map(|poll| poll.revents != 0)),
        Err(error) if error.is_interrupted() => Ok([false; COUNT]),
        Err(error) => Err(error),
    }
}

/// Waits until everything written to a terminal or serial line has left it.
pub fn drain(line: &impl AsRawFd) -> Result<()> {
    // SAFETY: the call takes an open descriptor.
    check("tcdrain", unsafe { libc::tcdrain(line.as_raw_fd()) }).map(drop)
}
/// Gives this thread a table of descriptors of its own, with the three standard ones and those to be kept: it may hold
/// as many descriptors as a process of its own might, and its calls need not count who else uses a descriptor. What it
/// opens from now on no other thread knows, and what others close is closed.
///
/// Whatever value of this thread holds a descriptor must have it in `keep`, for in this thread's table it is closed
/// otherwise; so this is for the beginning of a thread.
#[cfg(target_os = "linux")]
pub fn unshare_descriptors(keep: &[RawFd]) -> Result<()> {
    // SAFETY: the call takes an integer; descriptors that other threads own stay open in their table.
    check("unshare", unsafe { libc::unshare(libc::CLONE_FILES) })?;
    let mut keep: Vec<u32> = keep.iter().map(|&fd| fd as u32).filter(|&fd| fd > 2).collect();
    keep.sort_unstable();
    let mut from = 3;
    for kept in keep.into_iter().chain([u32::MAX]) {
        if kept > from {
            // SAFETY: by the caller's promise nothing of this thread owns these descriptors.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, from, kept - 1, 0) };
            check("close_range", closed as libc::c_int)?;
        }
        from = kept.saturating_add(1);
    }
    Ok(())
}

/// Gives this thread a table of descriptors of its own: not here.
#[cfg(not(target_os = "linux"))]
pub fn unshare_descriptors(_: &[RawFd]) -> Result<()> {
    Err(Error::unsupported("unshare"))
}
