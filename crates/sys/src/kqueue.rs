//! The BSDs' and macOS's `kqueue` as an event loop needs it: changes and events in one call.
//!
//! A filter is a *number*, not a bit: a descriptor that is watched for reading and for writing has two watches, each
//! added, told and deleted for itself.

#![allow(
    clippy::unnecessary_cast,
    clippy::cast_lossless,
    reason = "the structure's numbers are of other widths on each system"
)]

use crate::descriptor::own;
use crate::error::{Error, Result, check};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Which of a descriptor's two watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// Something may be read.
    Read,
    /// Something may be written.
    Write,
}

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// To which descriptor.
    pub fd: RawFd,
    /// With which of its watches.
    pub filter: Filter,
    /// Whether the peer is gone, or an error waits.
    pub is_closed: bool,
}

/// Whether a descriptor is of a kind that never makes anybody wait: a regular file or a folder. A queue tells of them
/// what others do not: whether the end is reached.
pub fn is_always_ready(fd: RawFd) -> Result<bool> {
    // SAFETY: the structure is plain data for which all zeroes is a value.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure may be written; a number that names no descriptor is an error the call reports.
    check("fstat", unsafe { libc::fstat(fd, &raw mut status) })?;
    Ok(matches!(status.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR))
}

/// A queue, with the changes that the next wait hands over.
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
    // SAFETY: the structure is plain data for which all zeroes is a value.
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
    /// An empty queue whose waits tell at most `room` events.
    pub fn with_room(room: usize) -> Result<Self> {
        // SAFETY: the call takes nothing.
        let fd = check("kqueue", unsafe { libc::kqueue() }).map(own)?;
        // SAFETY: the call takes integers.
        check("fcntl", unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })?;
        Ok(Self { fd, changes: Vec::new(), events: Vec::with_capacity(room) })
    }

    /// Has the next wait add or delete a watch.
    pub fn change(&mut self, fd: RawFd, filter: Filter, is_watched: bool) {
        self.changes.push(entry(fd, filter, is_watched));
    }

    /// Deletes a descriptor's watches now; that there was none is no error.
    pub fn delete(&mut self, fd: RawFd) -> Result<()> {
        for filter in [Filter::Read, Filter::Write] {
            let change = entry(fd, filter, false);
            let none = std::ptr::null_mut();
            // SAFETY: one valid change, no room for events, no timeout.
            let result = unsafe { libc::kevent(self.fd.as_raw_fd(), &raw const change, 1, none, 0, std::ptr::null()) };
            match check("kevent", result) {
                Err(error) if error.errno != libc::ENOENT && error.errno != libc::EBADF => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Hands the changes over and waits until something happens, at most so many milliseconds; -1 is forever.
    pub fn wait(&mut self, timeout_ms: i32) -> Result<()> {
        let time = libc::timespec {
            tv_sec: libc::time_t::from(timeout_ms / 1000),
            tv_nsec: libc::c_long::from(timeout_ms % 1000) * 1_000_000,
        };
        let timeout = if timeout_ms < 0 { std::ptr::null() } else { &raw const time };
        self.events.clear();
        let (changes, count) = (self.changes.as_ptr(), self.changes.len() as _);
        let (events, room) = (self.events.as_mut_ptr(), self.events.capacity() as _);
        // SAFETY: so many valid changes, room for so many events, and a timeout that lives as long as the call.
        let told = unsafe { libc::kevent(self.fd.as_raw_fd(), changes, count, events, room, timeout) };
        // Also a wait that a signal ended has made the changes.
        self.changes.clear();
        let told = check("kevent", told)? as usize;
        // SAFETY: the call wrote the first `told` events, which is at most the capacity.
        unsafe { self.events.set_len(told) };
        Ok(())
    }

    /// What the last wait told. A change that failed is an error, unless the watch was gone already.
    pub fn told(&self) -> impl Iterator<Item = Result<Told>> + '_ {
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
            Some(Ok(Told { fd: event.ident as RawFd, filter, is_closed }))
        })
    }
}
