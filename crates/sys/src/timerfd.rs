//! Linux's `timerfd`: a timer with nanosecond resolution that an event loop can wait for.
//!
//! The timeouts of `epoll_wait` and `poll` are in milliseconds, and the kernel may add its timer slack of 50 µs. A
//! program that sends at given times needs more precision: a timer descriptor expires without slack. On other systems
//! [`TimerFd::new`] fails with ENOSYS, and the caller must poll the clock.

use crate::error::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that is readable from a given time on.
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<TimerFd> for OwnedFd {
    fn from(timer: TimerFd) -> Self {
        timer.0
    }
}

#[cfg(target_os = "linux")]
impl TimerFd {
    /// Creates a timer that is not set.
    pub fn new() -> Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the call takes integers.
        let fd = crate::error::check("timerfd_create", unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        Ok(Self(crate::descriptor::own(fd)))
    }

    /// Makes the descriptor readable when `CLOCK_MONOTONIC` reaches `at_ns` nanoseconds, and not before; 0 means never.
    pub fn set(&self, at_ns: u64) -> Result<()> {
        use std::os::fd::AsRawFd;
        let at = libc::timespec {
            tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
        };
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let order = libc::itimerspec { it_interval: once, it_value: at };
        let (fd, old) = (self.0.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: `order` is readable for the length of the call, and null says that the old setting is not wanted.
        let set = unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const order, old) };
        crate::error::check("timerfd_settime", set).map(drop)
    }
}

#[cfg(not(target_os = "linux"))]
impl TimerFd {
    /// Creates a timer: not supported here.
    pub fn new() -> Result<Self> {
        Err(crate::Error::unsupported("timerfd_create"))
    }

    /// Sets the timer: not supported here.
    pub fn set(&self, _: u64) -> Result<()> {
        Err(crate::Error::unsupported("timerfd_settime"))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn a_timer_expires_at_its_time_and_can_be_set_again() {
        use super::TimerFd;
        use crate::clock::monotonic_ns;
        use crate::descriptor::wait_readable;
        let timer = TimerFd::new().unwrap();
        assert!(!wait_readable(&timer.0, 0).unwrap());
        let at = monotonic_ns() + 1_000_000;
        timer.set(at).unwrap();
        while !wait_readable(&timer.0, -1).unwrap() {}
        assert!(monotonic_ns() >= at);
        timer.set(monotonic_ns() + 3_600_000_000_000).unwrap();
        assert!(!wait_readable(&timer.0, 0).unwrap());
        timer.set(1).unwrap();
        assert!(wait_readable(&timer.0, -1).unwrap());
        timer.set(0).unwrap();
        assert!(!wait_readable(&timer.0, 0).unwrap());
    }
}
