//! `kqueue` of the BSDs and macOS for an event loop: changes and events in one call.
//!
//! A filter is a *number*, not a bit: a descriptor that is watched for reading and for writing has two filters, each
//! added, reported and deleted separately.

#![allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the widths of the structure's fields differ between systems"
)]

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A filter of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Readable (EVFILT_READ).
    Read,
    /// Writable (EVFILT_WRITE).
    Write,
}

/// A ready descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The descriptor.
    pub fd: RawFd,
    /// The filter.
    pub filter: Filter,
    /// Whether the peer has closed, or an error is pending (EV_EOF).
    pub is_closed: bool,
}

/// Returns whether a descriptor is always ready: a regular file or a directory. A queue would report whether the end of
/// the file is reached, unlike any other event method.
pub fn is_always_ready(fd: RawFd) -> Result<bool> {
    // SAFETY: `stat` consists of integers, so all zeroes is a value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is writable; a closed descriptor is an error.
    check("fstat", unsafe { libc::fstat(fd, &raw mut status) })?;
    Ok(matches!(status.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR))
}

/// A queue, with the changes that the next wait passes to the kernel.
pub struct Kqueue {
    fd: OwnedFd,
    changes: Vec<libc::kevent>,
    events: Vec<libc::kevent>,
}

impl std::fmt::Debug for Kqueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kqueue({} changes)", self.changes.len())
    }
}

fn entry(fd: RawFd, filter: Filter, is_watched: bool) -> libc::kevent {
    // SAFETY: `kevent` consists of integers and a pointer, so all zeroes is a value.
    let mut entry: libc::kevent = unsafe { std::mem::zeroed() };
    entry.ident = fd as _;
    entry.filter = match filter {
        Filter::Read => libc::EVFILT_READ as _,
        Filter::Write => libc::EVFILT_WRITE as _,
    };
    entry.flags = if is_watched { libc::EV_ADD as _ } else { libc::EV_DELETE as _ };
    entry
}

impl Kqueue {
    /// Creates an empty queue whose waits return at most `capacity` events.
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        // SAFETY: the call takes nothing and returns a new descriptor.
        let fd = check("kqueue", unsafe { libc::kqueue() }).map(own)?;
        // SAFETY: the call takes integers.
        check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
        Ok(Self { fd, changes: Vec::new(), events: Vec::with_capacity(capacity) })
    }

    /// Adds or deletes a filter with the next wait.
    pub fn change(&mut self, fd: RawFd, filter: Filter, is_watched: bool) {
        self.changes.push(entry(fd, filter, is_watched));
    }

    /// Deletes the filters of a descriptor now, if it has any.
    pub fn delete(&mut self, fd: RawFd) -> Result<()> {
        for filter in [Filter::Read, Filter::Write] {
            let change = entry(fd, filter, false);
            let none = std::ptr::null_mut();
            // SAFETY: one valid change is passed, no room for events, and no timeout.
            let result = unsafe { libc::kevent(self.fd.as_raw_fd(), &raw const change, 1, none, 0, std::ptr::null()) };
            match check("kevent", result) {
                Err(error) if error.errno != libc::ENOENT && error.errno != libc::EBADF => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes the changes to the kernel and waits until a descriptor is ready, for at most `timeout_ms` milliseconds;
    /// -1 waits for ever.
    pub fn wait(&mut self, timeout_ms: i32) -> Result<()> {
        let time = libc::timespec {
            tv_sec: libc::time_t::from(timeout_ms / 1000),
            tv_nsec: libc::c_long::from(timeout_ms % 1000) * 1_000_000,
        };
        let timeout = if timeout_ms < 0 { std::ptr::null() } else { &raw const time };
        self.events.clear();
        let (changes, count) = (self.changes.as_ptr(), self.changes.len() as _);
        let (events, room) = (self.events.as_mut_ptr(), self.events.capacity() as _);
        // SAFETY: there are `count` valid changes and room for `room` events, and `time` lives as long as the call.
        let count = unsafe { libc::kevent(self.fd.as_raw_fd(), changes, count, events, room, timeout) };
        // A wait that is interrupted by a signal has made the changes.
        self.changes.clear();
        let count = check("kevent", count)? as usize;
        // SAFETY: the call wrote the first `count` events, and `count` is at most the capacity.
        unsafe { self.events.set_len(count) };
        Ok(())
    }

    /// Returns the events of the last wait. A failed change is an error, unless the filter no longer existed.
    pub fn events(&self) -> impl Iterator<Item = Result<Event>> + '_ {
        self.events.iter().filter_map(|event| {
            let flags = event.flags as u32;
            if flags & libc::EV_ERROR as u32 != 0 {
                let errno = event.data as i32;
                let is_gone = errno == 0 || errno == libc::ENOENT || errno == libc::EBADF;
                return (!is_gone).then_some(Err(Error { call: "kevent", errno }));
            }
            let is_read = event.filter as i32 == libc::EVFILT_READ as i32;
            let filter = if is_read { Filter::Read } else { Filter::Write };
            let is_closed = flags & libc::EV_EOF as u32 != 0;
            Some(Ok(Event { fd: event.ident as RawFd, filter, is_closed }))
        })
    }
}
