//! Linux's `epoll` for an event loop: any events, level- or edge-triggered, with 64 bits of user data.
//!
//! [`crate::event`] has the calls that benchmarks time.

use crate::descriptor::own;
use crate::error::{Result, check};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Readable (EPOLLIN).
pub const READ: u32 = libc::EPOLLIN as u32;
/// Writable (EPOLLOUT).
pub const WRITE: u32 = libc::EPOLLOUT as u32;
/// The peer has shut down its writing half (EPOLLRDHUP).
pub const PEER_CLOSED: u32 = libc::EPOLLRDHUP as u32;
/// Both halves are shut down (EPOLLHUP); reported whether requested or not.
pub const HANG_UP: u32 = libc::EPOLLHUP as u32;
/// An error is pending (EPOLLERR); reported whether requested or not.
pub const ERROR: u32 = libc::EPOLLERR as u32;
/// Report changes only (EPOLLET).
pub const EDGE_TRIGGERED: u32 = libc::EPOLLET as u32;
/// Report once, and not again before the events are changed (EPOLLONESHOT).
pub const ONE_SHOT: u32 = libc::EPOLLONESHOT as u32;
/// Of several sets that watch a descriptor, wake only one (EPOLLEXCLUSIVE, Linux 4.5).
pub const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// An epoll set.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// The events of a wait.
#[derive(Clone)]
pub struct Events(Vec<libc::epoll_event>);

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Events(capacity {})", self.0.capacity())
    }
}

impl Events {
    /// Creates an empty list with room for `count` events.
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Returns the user data and the events of each ready descriptor.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.0.iter().map(|event| (event.u64, event.events))
    }
}

impl Epoll {
    /// Creates an empty set.
    pub fn new() -> Result<Self> {
        // SAFETY: the call takes an integer.
        check("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(|fd| Self(own(fd)))
    }

    /// Adds a descriptor. Fails with EBADF if it is not open.
    pub fn add(&self, fd: RawFd, key: u64, events: u32) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, key, events)
    }

    /// Changes the events and user data of a descriptor.
    pub fn change(&self, fd: RawFd, key: u64, events: u32) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, key, events)
    }

    /// Removes a descriptor.
    pub fn remove(&self, fd: RawFd) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, change: libc::c_int, fd: RawFd, key: u64, events: u32) -> Result<()> {
        let mut event = libc::epoll_event { events, u64: key };
        // SAFETY: `event` is readable for the length of the call; a descriptor that is not open is an error.
        check("epoll_ctl", unsafe { libc::epoll_ctl(self.0.as_raw_fd(), change, fd, &raw mut event) }).map(drop)
    }

    /// Waits until a descriptor is ready, for at most `timeout_ms` milliseconds; -1 waits for ever.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout_ms: i32) -> Result<()> {
        events.0.clear();
        let (first, room) = (events.0.as_mut_ptr(), events.0.capacity() as libc::c_int);
        // SAFETY: the vector has room for `room` events.
        let count = unsafe { crate::direct::epoll_wait(self.0.as_raw_fd(), first, room, timeout_ms) };
        let count = check("epoll_wait", count)? as usize;
        // SAFETY: the call wrote the first `count` events, and `count` is at most the capacity.
        unsafe { events.0.set_len(count) };
        Ok(())
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
