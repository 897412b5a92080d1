//! A clock that can be waited for with the descriptors: it rings at a moment, to the nanosecond.
//!
//! The timeouts of `epoll_wait` and `poll` count milliseconds, and the kernel may be late by its slack of 50 µs on top.
//! Whoever has to send at a given time needs better: Linux's `timerfd` is armed for a moment and rings without slack.
//! Where there is none, [`TimerFd::new`] fails with ENOSYS, and the user looks at the clock himself.

use crate::error::Result;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that can be read from a given moment on.
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(target_os = "linux")]
impl TimerFd {
    /// An alarm that is not set.
    pub fn new() -> Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: the call takes integers.
        let fd = crate::error::check("timerfd_create", unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        Ok(Self(crate::descriptor::own(fd)))
    }

    /// Lets it ring when `CLOCK_MONOTONIC` reaches so many nanoseconds, and be silent until then; 0 is never.
    pub fn set(&self, at_ns: u64) -> Result<()> {
        use std::os::fd::AsRawFd;
        let at = libc::timespec {
            tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
        };
        let once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let order = libc::itimerspec { it_interval: once, it_value: at };
        let (fd, old) = (self.0.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: `order` is a valid setting, and the old one is not asked for, which null says.
        let set = unsafe { libc::timerfd_settime(fd, libc::TFD_TIMER_ABSTIME, &raw const order, old) };
        crate::error::check("timerfd_settime", set).map(drop)
    }
}

#[cfg(not(target_os = "linux"))]
impl TimerFd {
    /// None here.
    pub fn new() -> Result<Self> {
        Err(crate::Error::unsupported("timerfd_create"))
    }

    /// None here.
    pub fn set(&self, _: u64) -> Result<()> {
        Err(crate::Error::unsupported("timerfd_settime"))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_os = "linux")]
    fn it_rings_at_its_time_and_is_silent_when_it_is_set_anew() {
        use super::TimerFd;
        use crate::clock::monotonic_ns;
        use crate::descriptor::wait_readable;
        let alarm = TimerFd::new().unwrap();
        assert!(!wait_readable(&alarm.0, 0).unwrap());
        let at = monotonic_ns() + 1_000_000;
        alarm.set(at).unwrap();
        while !wait_readable(&alarm.0, -1).unwrap() {}
        assert!(monotonic_ns() >= at);
        alarm.set(monotonic_ns() + 3_600_000_000_000).unwrap();
        assert!(!wait_readable(&alarm.0, 0).unwrap());
        alarm.set(1).unwrap();
        assert!(wait_readable(&alarm.0, -1).unwrap());
        alarm.set(0).unwrap();
        assert!(!wait_readable(&alarm.0, 0).unwrap());
    }
}
