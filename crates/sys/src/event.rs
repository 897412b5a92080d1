//! Linux's `eventfd` and `epoll` as benchmarks time them. [`crate::epoll`] is for event loops.

use crate::error::Result;
use crate::wait::Timeout;
use std::os::fd::OwnedFd;

#[cfg(target_os = "linux")]
mod imp {
    use crate::descriptor::own;
    use crate::error::{Result, check};
    use crate::wait::Timeout;
    use std::os::fd::{AsRawFd, OwnedFd};

    pub(super) fn eventfd() -> Result<OwnedFd> {
        // SAFETY: the call takes two integers.
        check("eventfd", unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) }).map(own)
    }

    pub(super) fn epoll_create() -> Result<OwnedFd> {
        // SAFETY: the call takes an integer.
        check("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(own)
    }

    #[inline(always)]
    pub(super) fn epoll_change(set: &OwnedFd, change: libc::c_int, fd: &OwnedFd) -> Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd.as_raw_fd() as u64 };
        // SAFETY: both descriptors are borrowed and therefore open, and `event` is readable for the length of the call.
        let result = unsafe { libc::epoll_ctl(set.as_raw_fd(), change, fd.as_raw_fd(), &raw mut event) };
        check("epoll_ctl", result).map(drop)
    }

    pub(super) type Event = libc::epoll_event;

    pub(super) const NO_EVENT: Event = libc::epoll_event { events: 0, u64: 0 };

    #[inline(always)]
    pub(super) fn epoll_wait(set: &OwnedFd, events: &mut [Event], timeout: Timeout) -> Result<usize> {
        let (first, room) = (events.as_mut_ptr(), events.len() as libc::c_int);
        // SAFETY: the slice has room for `room` events.
        let count = unsafe { libc::epoll_wait(set.as_raw_fd(), first, room, timeout.milliseconds()) };
        check("epoll_wait", count).map(|count| count as usize)
    }

    pub(super) fn eventfd_write(counter: &OwnedFd) -> Result<()> {
        let one = 1_u64;
        // SAFETY: the pointer is to the eight bytes of `one`.
        let written = unsafe { libc::write(counter.as_raw_fd(), (&raw const one).cast(), 8) };
        check("write", written as libc::c_int).map(drop)
    }

    pub(super) const ADD: libc::c_int = libc::EPOLL_CTL_ADD;
    pub(super) const DELETE: libc::c_int = libc::EPOLL_CTL_DEL;
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use crate::error::{Error, Result};
    use crate::wait::Timeout;
    use std::os::fd::OwnedFd;

    const NONE: Error = Error { call: "epoll_create1", errno: libc::ENOSYS };

    pub(super) fn eventfd() -> Result<OwnedFd> {
        Err(Error::unsupported("eventfd"))
    }

    pub(super) fn epoll_create() -> Result<OwnedFd> {
        Err(NONE)
    }

    pub(super) fn epoll_change(_: &OwnedFd, _: libc::c_int, _: &OwnedFd) -> Result<()> {
        Err(NONE)
    }

    pub(super) type Event = ();

    pub(super) const NO_EVENT: Event = ();

    pub(super) fn epoll_wait(_: &OwnedFd, _: &mut [Event], _: Timeout) -> Result<usize> {
        Err(NONE)
    }

    pub(super) fn eventfd_write(_: &OwnedFd) -> Result<()> {
        Err(NONE)
    }

    pub(super) const ADD: libc::c_int = 0;
    pub(super) const DELETE: libc::c_int = 0;
}

/// Creates an event counter, for waking a reader.
#[inline(always)]
pub fn eventfd() -> Result<OwnedFd> {
    imp::eventfd()
}

/// Adds one to an event counter, which makes it readable.
pub fn eventfd_write(counter: &OwnedFd) -> Result<()> {
    imp::eventfd_write(counter)
}

/// Creates an empty epoll set.
pub fn epoll_create() -> Result<OwnedFd> {
    imp::epoll_create()
}

/// Adds a descriptor to an epoll set, watched for reading, level-triggered.
#[inline(always)]
pub fn epoll_add(set: &OwnedFd, fd: &OwnedFd) -> Result<()> {
    imp::epoll_change(set, imp::ADD, fd)
}

/// Removes a descriptor from an epoll set.
#[inline(always)]
pub fn epoll_delete(set: &OwnedFd, fd: &OwnedFd) -> Result<()> {
    imp::epoll_change(set, imp::DELETE, fd)
}

/// A buffer for the events of an epoll set.
pub struct Events(Vec<imp::Event>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events(capacity {})", self.0.len())
    }
}

impl Events {
    /// Creates a buffer for `count` events, at least one.
    pub fn with_capacity(count: usize) -> Self {
        Self(vec![imp::NO_EVENT; count.max(1)])
    }
}

/// Returns the number of ready descriptors of the set, at most the capacity of `events`.
#[inline(always)]
pub fn epoll_wait(set: &OwnedFd, events: &mut Events, timeout: Timeout) -> Result<usize> {
    imp::epoll_wait(set, &mut events.0, timeout)
}

/// Returns the number of descriptors of the set that are ready now, counting up to `max`.
pub fn epoll_count_ready(set: &OwnedFd, max: usize) -> Result<usize> {
    epoll_wait(set, &mut Events::with_capacity(max), Timeout::Zero)
}
