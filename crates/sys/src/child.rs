//! Children that do nothing, for waiting among them.

use crate::descriptor::{pipe, wait_readable};
use crate::error::{Error, Result, check};
use std::os::fd::{AsRawFd, OwnedFd};

/// The longest that a new child may take to run, in milliseconds: as long as the fork helper's (see `fork_helper.rs`).
const PATIENCE_MS: i32 = 20_000;

/// Where children are made that sleep until they are killed or this process ends, however it ends.
#[derive(Debug)]
pub struct ChildPool {
    /// The children's end of a pipe whose other end only this process holds: end-of-file tells them to leave.
    life: OwnedFd,
    keep: OwnedFd,
    listen: OwnedFd,
    report: OwnedFd,
}

impl ChildPool {
    /// Makes one. From now on this process hears of its children's ends: whoever started it may have set SIGCHLD to be
    /// ignored, and then nothing would be left to wait for.
    pub fn new() -> Result<Self> {
        // SAFETY: SIG_DFL is a valid disposition.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let ((life, keep), (listen, report)) = (pipe()?, pipe()?);
        Ok(Self { life, keep, listen, report })
    }

    /// Makes a child and waits until it runs; its process identifier.
    ///
    /// Must be called from a process with a single thread: the child goes on with what the parent had.
    pub fn spawn(&self) -> Result<i32> {
        // SAFETY: the process has one thread (the caller's promise), so the child's copy of it is whole.
        let pid = check("fork", unsafe { libc::fork() })?;
        if pid == 0 {
            // SAFETY: the child's copy of the descriptor; nothing in the child uses it again, for it never returns.
            unsafe { libc::close(self.keep.as_raw_fd()) };
            // SAFETY: the string holds the one byte.
            unsafe { libc::write(self.report.as_raw_fd(), c"r".as_ptr().cast(), 1) };
            crate::process::hold(&self.life);
        }
        if !wait_readable(&self.listen, PATIENCE_MS)? {
            return Err(Error { call: "fork", errno: libc::ETIMEDOUT });
        }
        let mut byte = 0_u8;
        // SAFETY: the buffer has room for the one byte.
        let got = unsafe { libc::read(self.listen.as_raw_fd(), (&raw mut byte).cast(), 1) };
        check("read", got as libc::c_int)?;
        // The child has spoken but may not sleep yet; this gives it the moment that it still needs.
        std::thread::yield_now();
        Ok(pid)
    }
}

/// Whether a process is a child of this one that has not ended. One that has, but was not waited for, does not live.
pub fn is_alive(pid: i32) -> Result<bool> {
    match state(pid, libc::WNOHANG) {
        Ok(ended) => Ok(ended != pid),
        Err(error) if error.errno == libc::ECHILD => Ok(false),
        Err(error) => Err(error),
    }
}

/// Kills a child and returns once it has ended. It is left to be waited for.
pub fn kill_without_reaping(pid: i32) -> Result<()> {
    if pid <= 1 {
        return Err(Error { call: "kill", errno: libc::ESRCH });
    }
    // SAFETY: the call takes two integers; the process is one, never a group or everyone.
    check("kill", unsafe { libc::kill(pid, libc::SIGKILL) })?;
    while state(pid, 0)? != pid {}
    Ok(())
}

/// The child if it has ended, else 0; it is left as it is. Without WNOHANG this waits for its end.
fn state(pid: i32, flags: libc::c_int) -> Result<i32> {
    // SAFETY: `siginfo_t` is plain data for which all zeroes is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = flags | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` may be written.
    let asked = unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, flags) };
    match check("waitid", asked) {
        Err(error) if error.is_interrupted() => return Ok(0),
        other => other?,
    };
    // SAFETY: the call filled in a child's end, or left the zeroes of above.
    Ok(unsafe { info.si_pid() })
}

/// Waits for any child that has ended: which, and the signal that ended it, or 0.
#[inline(always)]
pub fn wait_any() -> Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` may be written.
    let pid = check("waitpid", unsafe { libc::waitpid(-1, &raw mut status, 0) })?;
    Ok((pid, if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 }))
}

/// Asks whether any child has ended: which, or 0. One that has is waited for.
#[inline(always)]
pub fn try_wait_any() -> Result<i32> {
    let mut status = 0;
    // SAFETY: `status` may be written.
    check("waitpid", unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that has ended is told from one that lives, and stays there to be waited for. (`wait_any` is tried by
    /// the benchmark's own check: here it would take away the children of other tests.)
    #[test]
    fn an_ended_child_does_not_live_and_is_still_there() {
        let pool = ChildPool::new().unwrap();
        // This process has more threads than one, but the child does nothing that could need a lock of another.
        let (first, second) = (pool.spawn().unwrap(), pool.spawn().unwrap());
        assert_eq!((is_alive(first), is_alive(second)), (Ok(true), Ok(true)));
        kill_without_reaping(first).unwrap();
        assert_eq!((is_alive(first), is_alive(second)), (Ok(false), Ok(true)));
        assert!(crate::process::exists(first));
        // Told to leave: nobody holds the other end of its pipe.
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
