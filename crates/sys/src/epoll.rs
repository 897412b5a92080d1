//! Linux's `epoll` as an event loop needs it: any interest, level or edge, with a number that comes back.
//!
//! [`crate::event`] holds what the benchmarks time, call for call; here nothing is timed, and a set is a value.

use crate::descriptor::own;
use crate::error::{Result, check};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Something may be read.
pub const READ: u32 = libc::EPOLLIN as u32;
/// Something may be written.
pub const WRITE: u32 = libc::EPOLLOUT as u32;
/// The peer has shut down its writing half.
pub const PEER_CLOSED: u32 = libc::EPOLLRDHUP as u32;
/// Both halves are shut down; told whether asked for or not.
pub const HANG_UP: u32 = libc::EPOLLHUP as u32;
/// An error waits; told whether asked for or not.
pub const ERROR: u32 = libc::EPOLLERR as u32;
/// Tell of changes only.
pub const EDGE: u32 = libc::EPOLLET as u32;
/// Tell once, and not again before the next change of what is watched.
pub const ONCE: u32 = libc::EPOLLONESHOT as u32;
/// Of several sets that watch one descriptor, wake only one (Linux 4.5).
pub const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// A set of watched descriptors.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

/// Room for what a wait finds.
#[derive(Clone)]
pub struct Found(Vec<libc::epoll_event>);

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Found(room for {})", self.0.capacity())
    }
}

impl Found {
    /// Room for so many.
    pub fn with_room(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// What was found: the number that was given with the descriptor, and the bits.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.0.iter().map(|event| (event.u64, event.events))
    }
}

impl Epoll {
    /// An empty set.
    pub fn new() -> Result<Self> {
        // SAFETY: the call takes an integer.
        check("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(|fd| Self(own(fd)))
    }

    /// Watches a descriptor. A number that names no descriptor is EBADF, and nothing worse.
    pub fn add(&self, fd: RawFd, key: u64, events: u32) -> Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, key, events)
    }

    /// Watches it for something else.
    pub fn change(&self, fd: RawFd, key: u64, events: u32) -> Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, key, events)
    }

    /// Watches it no longer.
    pub fn remove(&self, fd: RawFd) -> Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    fn control(&self, change: libc::c_int, fd: RawFd, key: u64, events: u32) -> Result<()> {
        let mut event = libc::epoll_event { events, u64: key };
        // SAFETY: `event` is a valid event; a descriptor that is not open is an error the call reports.
        check("epoll_ctl", unsafe { libc::epoll_ctl(self.0.as_raw_fd(), change, fd, &raw mut event) }).map(drop)
    }

    /// Waits until something is found, at most so many milliseconds; -1 is forever.
    #[inline]
    pub fn wait(&self, found: &mut Found, timeout_ms: i32) -> Result<()> {
        found.0.clear();
        let (first, room) = (found.0.as_mut_ptr(), found.0.capacity() as libc::c_int);
        // SAFETY: the vector has room for `room` events.
        let count = unsafe { libc::epoll_wait(self.0.as_raw_fd(), first, room, timeout_ms) };
        let count = check("epoll_wait", count)? as usize;
        // SAFETY: the call wrote the first `count` events, which is at most the capacity.
        unsafe { found.0.set_len(count) };
        Ok(())
    }
}

impl AsRawFd for Epoll {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
