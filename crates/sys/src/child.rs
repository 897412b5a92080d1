//! Children: those that do nothing, for benchmarks of waiting for children, and those that run a function.

use crate::descriptor::{pipe, wait_readable_over_signals};
use crate::error::{Error, Result, check};
use std::os::fd::{AsRawFd, OwnedFd};

/// The maximum time to wait until a new child runs, in milliseconds; as in `fork_helper.rs`.
const TIMEOUT_MS: u32 = 20_000;

/// Creates children that sleep until they are killed or this process ends, however it ends.
#[derive(Debug)]
pub struct ChildPool {
    /// The reading end of a pipe whose other end only this process holds: children exit at end-of-file.
    life: OwnedFd,
    keep: OwnedFd,
    listen: OwnedFd,
    report: OwnedFd,
}

impl ChildPool {
    /// Creates a pool, and ensures that its children can be waited for.
    pub fn new() -> Result<Self> {
        crate::signal::keep_children();
        let ((life, keep), (listen, report)) = (pipe()?, pipe()?);
        Ok(Self { life, keep, listen, report })
    }

    /// Creates a child, waits until it runs and returns its process identifier.
    ///
    /// The process must have a single thread: the child continues with a copy of its memory.
    pub fn spawn(&self) -> Result<i32> {
        // SAFETY: the process has one thread (the caller's promise), so the child's copy of it is consistent.
        let pid = check("fork", unsafe { libc::fork() })?;
        if pid == 0 {
            // SAFETY: the child never returns, so nothing in it uses its copy of the descriptor again.
            unsafe { libc::close(self.keep.as_raw_fd()) };
            // SAFETY: the string holds the one byte.
            unsafe { libc::write(self.report.as_raw_fd(), c"r".as_ptr().cast(), 1) };
            crate::process::hold(&self.life);
        }
        if !wait_readable_over_signals(&self.listen, TIMEOUT_MS)? {
            return Err(Error { call: "fork", errno: libc::ETIMEDOUT });
        }
        let mut byte = 0_u8;
        // SAFETY: the buffer has room for the one byte.
        let got = unsafe { libc::read(self.listen.as_raw_fd(), (&raw mut byte).cast(), 1) };
        check("read", got as libc::c_int)?;
        // The child has written its byte but may not sleep yet: let it run.
        std::thread::yield_now();
        Ok(pid)
    }
}

/// Creates children that run a function, in a process that has one thread.
#[derive(Debug)]
pub struct Forker(());

impl Forker {
    /// Checks that the process has one thread, if the system reports it. Fails with EINVAL if there are more: a child
    /// would continue with a copy of locks that other threads hold. The process must not create a thread later.
    pub fn new() -> Result<Self> {
        let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        if threads == 1 { Ok(Self(())) } else { Err(Error::invalid("fork")) }
    }

    /// Creates a child that runs a function and exits. Returns its process identifier.
    pub fn fork(&self, run: impl FnOnce()) -> Result<i32> {
        // SAFETY: the process has one thread, as `new` has checked, so the child's copy of it is consistent.
        let pid = check("fork", unsafe { libc::fork() })?;
        if pid == 0 {
            // A panic must not unwind into the parent's stack frames.
            let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            // SAFETY: the call takes an integer; it exits at once, without running the parent's destructors.
            unsafe { libc::_exit(i32::from(ran.is_err())) };
        }
        Ok(pid)
    }
}

/// Reaps one child that has ended, and returns whether there was one; with `waits` it waits for one. Fails with ECHILD
/// if there are no children.
pub fn reap_any(waits: bool) -> Result<bool> {
    loop {
        let mut status = 0;
        let options = if waits { 0 } else { libc::WNOHANG };
        // SAFETY: `status` may be written.
        match check("waitpid", unsafe { libc::waitpid(-1, &raw mut status, options) }) {
            Ok(pid) => return Ok(pid > 0),
            Err(error) if error.is_interrupted() => {}
            Err(error) => return Err(error),
        }
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
}

/// Reaps a child that has ended, if there is one. Returns its identifier and how it ended.
pub fn reap() -> Result<Option<(i32, End)>> {
    let mut status = 0;
    // SAFETY: `status` may be written.
    match check("waitpid", unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
        Ok(0) => Ok(None),
        Err(error) if error.errno == libc::ECHILD || error.is_interrupted() => Ok(None),
        Ok(pid) if libc::WIFSIGNALED(status) => Ok(Some((pid, End::Killed(libc::WTERMSIG(status))))),
        Ok(pid) => Ok(Some((pid, End::Exited(libc::WEXITSTATUS(status))))),
        Err(error) => Err(error),
    }
}

/// Waits until a child has ended, reaps it and returns how it ended.
pub fn wait(pid: i32) -> Result<End> {
    loop {
        let mut status = 0;
        // SAFETY: `status` may be written.
        match check("waitpid", unsafe { libc::waitpid(pid, &raw mut status, 0) }) {
            Err(error) if error.is_interrupted() => {}
            Err(error) => return Err(error),
            Ok(_) if libc::WIFSIGNALED(status) => return Ok(End::Killed(libc::WTERMSIG(status))),
            Ok(_) => return Ok(End::Exited(libc::WEXITSTATUS(status))),
        }
    }
}

/// Returns whether a process is a child of this one that has not ended; a zombie counts as ended.
pub fn is_alive(pid: i32) -> Result<bool> {
    match state(pid, libc::WNOHANG) {
        Ok(ended) => Ok(ended != pid),
        Err(error) if error.errno == libc::ECHILD => Ok(false),
        Err(error) => Err(error),
    }
}

/// Kills a child and waits until it is a zombie, without reaping it.
pub fn kill_without_reaping(pid: i32) -> Result<()> {
    if pid <= 1 {
        return Err(Error { call: "kill", errno: libc::ESRCH });
    }
    // SAFETY: the call takes two integers; the process is one, never a group or everyone.
    check("kill", unsafe { libc::kill(pid, libc::SIGKILL) })?;
    while state(pid, 0)? != pid {}
    Ok(())
}

/// Returns the child's identifier if it has ended, otherwise 0, without reaping it. Without WNOHANG it waits for the
/// end.
pub(crate) fn state(pid: i32, flags: libc::c_int) -> Result<i32> {
    // SAFETY: `siginfo_t` is plain data for which all zeroes is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = flags | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` may be written.
    let asked = unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, flags) };
    match check("waitid", asked) {
        Err(error) if error.is_interrupted() => return Ok(0),
        other => other?,
    };
    // SAFETY: the call has filled in `info` for SIGCHLD, or left the zeroes.
    Ok(unsafe { info.si_pid() })
}

/// Waits until a child ends and reaps it. Returns its identifier and the signal that ended it, or 0.
#[inline(always)]
pub fn wait_any() -> Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` may be written.
    let pid = check("waitpid", unsafe { libc::waitpid(-1, &raw mut status, 0) })?;
    Ok((pid, if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 }))
}

/// Reaps a child that has ended, if there is one. Returns its identifier, or 0.
#[inline(always)]
pub fn try_wait_any() -> Result<i32> {
    let mut status = 0;
    // SAFETY: `status` may be written.
    check("waitpid", unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `wait_any` is tested by the benchmark's own check: here it would reap the children of other tests.
    #[test]
    fn a_killed_child_is_a_zombie_until_it_is_reaped() {
        let pool = ChildPool::new().unwrap();
        // This process has several threads, but the child does nothing that could need a lock.
        let (first, second) = (pool.spawn().unwrap(), pool.spawn().unwrap());
        assert_eq!((is_alive(first), is_alive(second)), (Ok(true), Ok(true)));
        kill_without_reaping(first).unwrap();
        assert_eq!((is_alive(first), is_alive(second)), (Ok(false), Ok(true)));
        assert!(crate::process::exists(first));
        // The second child exits: the other end of its pipe is closed.
        drop(pool);
        while state(second, 0).unwrap() != second {}
        for pid in [first, second] {
            let mut status = 0;
            // SAFETY: `status` may be written.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        }
        assert_eq!(is_alive(first), Ok(false));
    }
}
