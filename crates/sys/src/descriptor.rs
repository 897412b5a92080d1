//! Descriptors: opening, duplicating and closing them, and the descriptor table.

use crate::clock::monotonic_ns;
use crate::error::{Error, Result, check};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Takes ownership of a descriptor that a call just returned.
#[inline(always)]
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: every caller passes a descriptor that the kernel has just returned, and that nothing else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Closes a descriptor and returns the result, which dropping it ignores.
#[inline(always)]
pub fn close(fd: OwnedFd) -> Result<()> {
    // SAFETY: `into_raw_fd` gives up ownership, so the descriptor is not closed a second time.
    check("close", unsafe { libc::close(fd.into_raw_fd()) }).map(drop)
}

/// Opens a file for reading.
#[inline(always)]
pub fn open(path: &CStr) -> Result<OwnedFd> {
    // SAFETY: `path` is a C string that lives as long as the call.
    check("open", unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) }).map(own)
}

/// Duplicates a descriptor to the lowest free number.
#[inline(always)]
pub fn dup(fd: &OwnedFd) -> Result<OwnedFd> {
    // SAFETY: the call takes an integer; the descriptor is borrowed and therefore open.
    check("dup", unsafe { libc::dup(fd.as_raw_fd()) }).map(own)
}

/// Duplicates a descriptor to the lowest free number that is at least `min`.
pub fn dup_from(fd: &OwnedFd, min: RawFd) -> Result<OwnedFd> {
    // SAFETY: F_DUPFD takes an integer and uses a free number, so it replaces no descriptor in use.
    check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, min) }).map(own)
}

/// Creates a pipe. Returns its reading end and its writing end.
#[inline(always)]
pub fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors.
    check("pipe", unsafe { libc::pipe(ends.as_mut_ptr()) })?;
    Ok((own(ends[0]), own(ends[1])))
}

/// Grows the descriptor table to at least `size` slots by using the last slot once. Fails with EINVAL or EMFILE if the
/// limit does not allow that many.
pub fn grow_table(size: u32) -> Result<()> {
    let last = size.saturating_sub(1) as libc::c_int;
    // SAFETY: F_DUPFD takes the lowest unused slot from `last` on, so it replaces no descriptor in use.
    let fd = check("fcntl", unsafe { libc::fcntl(0, libc::F_DUPFD, last) })?;
    close(own(fd))
}

/// Returns whether a descriptor with that number is open.
pub fn is_open(fd: RawFd) -> bool {
    // SAFETY: F_GETFD reads a flag; a closed descriptor is an error.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Makes `execve` close the descriptor.
pub fn set_close_on_exec(fd: &OwnedFd) -> Result<()> {
    // SAFETY: F_SETFD changes a flag of an open descriptor.
    check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

/// Makes the descriptor survive `execve`.
pub fn set_inherited(fd: &OwnedFd) -> Result<()> {
    // SAFETY: F_SETFD changes a flag of an open descriptor.
    check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) }).map(drop)
}

/// Closes all inherited descriptors except the three standard ones and one more.
///
/// Shells and build tools may leave descriptors open in their children, and a benchmark of descriptors must always
/// start at the same number.
pub fn close_inherited(but: RawFd) {
    let highest = std::fs::read_dir("/proc/self/fd")
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok()).max())
        .ok()
        .flatten()
        .unwrap_or(255);
    for fd in (3..=highest).filter(|&fd| fd != but) {
        // SAFETY: the caller promises that nothing in this process owns these descriptors yet; most are EBADF.
        unsafe { libc::close(fd) };
    }
}

/// Takes ownership of a descriptor that was inherited under a known number. Fails with EBADF if it is not open.
pub fn inherited(fd: RawFd) -> Result<OwnedFd> {
    if is_open(fd) { Ok(own(fd)) } else { Err(Error { call: "fcntl", errno: libc::EBADF }) }
}

/// Sets the capacity of a pipe: the number of bytes that it holds before writing blocks. Linux only; the maximum for an
/// unprivileged process is `fs.pipe-max-size`.
#[cfg(target_os = "linux")]
pub fn set_pipe_capacity(pipe: &impl AsRawFd, bytes: u32) -> Result<()> {
    // SAFETY: F_SETPIPE_SZ takes an integer; on anything but a pipe it fails.
    check("fcntl", unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, bytes) }).map(drop)
}

/// Sets the capacity of a pipe: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn set_pipe_capacity(_: &impl AsRawFd, _: u32) -> Result<()> {
    Err(Error::unsupported("F_SETPIPE_SZ"))
}

/// Waits until `fd` is readable (or has ended) or `timeout_ms` has passed; -1 waits for ever. Returns whether it is.
pub fn wait_readable(fd: &impl AsRawFd, timeout_ms: i32) -> Result<bool> {
    wait_any_readable([Some(fd)], timeout_ms).map(|[ready]| ready)
}

/// Waits like [`wait_readable`], but for the whole timeout even if signals are caught meanwhile: a caller that starts a
/// process and waits for its first output must not mistake Ctrl-C for a process that does not start.
pub fn wait_readable_over_signals(fd: &impl AsRawFd, timeout_ms: u32) -> Result<bool> {
    let end_ns = monotonic_ns() + u64::from(timeout_ms) * 1_000_000;
    loop {
        let left_ms = end_ns.saturating_sub(monotonic_ns()).div_ceil(1_000_000) as i32;
        if wait_readable(fd, left_ms)? {
            return Ok(true);
        }
        if left_ms == 0 {
            return Ok(false);
        }
    }
}

/// Waits until one of several descriptors is readable (or has ended) or `timeout_ms` has passed. Returns which are.
/// `None` is ignored.
pub fn wait_any_readable<const COUNT: usize>(
    fds: [Option<&dyn AsRawFd>; COUNT],
    timeout_ms: i32,
) -> Result<[bool; COUNT]> {
    // `poll` ignores negative descriptors.
    let number = |fd: Option<&dyn AsRawFd>| fd.map_or(-1, AsRawFd::as_raw_fd);
    let mut polls = fds.map(|fd| libc::pollfd { fd: number(fd), events: libc::POLLIN, revents: 0 });
    // SAFETY: the array holds `COUNT` entries, which are writable.
    match check("poll", unsafe { libc::poll(polls.as_mut_ptr(), COUNT as libc::nfds_t, timeout_ms) }) {
        Ok(_) => Ok(polls.map(|poll| poll.revents != 0)),
        Err(error) if error.is_interrupted() => Ok([false; COUNT]),
        Err(error) => Err(error),
    }
}

/// Returns whether a write would not block now, or would fail. If a socket is full, the kernel notes that it is
/// awaited, so that even an edge-triggered wait that began before reports when it has room. Also returns true if a
/// signal interrupts the call.
pub fn is_writable(fd: &impl AsFd) -> Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: `poll` is one entry, and writable.
    match check("poll", unsafe { libc::poll(&raw mut poll, 1, 0) }) {
        Err(error) if error.is_interrupted() => Ok(true),
        found => found.map(|count| count > 0),
    }
}

/// Waits until everything that was written to a terminal or serial line was transmitted (`tcdrain`).
pub fn drain(line: &impl AsRawFd) -> Result<()> {
    // SAFETY: the call takes an integer; a closed descriptor is an error.
    check("tcdrain", unsafe { libc::tcdrain(line.as_raw_fd()) }).map(drop)
}

/// Gives this thread its own descriptor table, with the three standard descriptors and those in `keep`. It then has a
/// separate limit of descriptors, and its calls need not count references to a shared table. Other threads do not see
/// descriptors that it opens from then on.
///
/// Every descriptor that a value of this thread owns must be in `keep`: in this thread's table, the others are closed.
/// So call this at the start of a thread.
#[cfg(target_os = "linux")]
pub fn unshare_descriptors(keep: &[RawFd]) -> Result<()> {
    // SAFETY: the call takes an integer; descriptors of other threads stay open in their table.
    check("unshare", unsafe { libc::unshare(libc::CLONE_FILES) })?;
    close_ranges(keep)
}

/// Closes every descriptor but the three standard ones and those in `keep`, in the table of this thread.
#[cfg(target_os = "linux")]
fn close_ranges(keep: &[RawFd]) -> Result<()> {
    let mut keep: Vec<u32> = keep.iter().map(|&fd| fd as u32).filter(|&fd| fd > 2).collect();
    keep.sort_unstable();
    let mut from = 3;
    for kept in keep.into_iter().chain([u32::MAX]) {
        if kept > from {
            // SAFETY: the caller promises that no value of this thread owns these descriptors.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, from, kept - 1, 0) };
            check("close_range", closed as libc::c_int)?;
        }
        from = kept.saturating_add(1);
    }
    Ok(())
}

/// Fails: only Linux's `close_range` is used.
#[cfg(not(target_os = "linux"))]
fn close_ranges(_: &[RawFd]) -> Result<()> {
    Err(Error::unsupported("close_range"))
}

/// Closes every descriptor but the three standard ones and those in `keep`. For a process that has just been forked,
/// and so shares its table with no other: no value that it still uses or drops may own one of the closed descriptors.
pub fn close_others(keep: &[RawFd]) -> Result<()> {
    close_ranges(keep).or_else(|_| close_listed(keep))
}

/// Closes the same descriptors one by one: `close_range` was added in Linux 5.9, and containers may refuse it.
fn close_listed(keep: &[RawFd]) -> Result<()> {
    let list = std::fs::read_dir("/proc/self/fd").or_else(|_| std::fs::read_dir("/dev/fd"));
    let list = list.map_err(|error| Error::from_io("open", &error))?;
    let open: Vec<RawFd> = list.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && !keep.contains(fd)) {
        // SAFETY: the caller promises that no value owns it. The list's own number is closed already: EBADF.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Gives this thread its own descriptor table: not supported here.
#[cfg(not(target_os = "linux"))]
pub fn unshare_descriptors(_: &[RawFd]) -> Result<()> {
    Err(Error::unsupported("unshare"))
}
