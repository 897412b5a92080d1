//! `poll` for an event loop: an array that is kept between waits.
//!
//! [`crate::wait`] has the calls that benchmarks time.

use crate::error::{Result, check};
use std::os::fd::RawFd;

/// Readable (POLLIN).
pub const READ: i16 = libc::POLLIN;
/// Writable (POLLOUT).
pub const WRITE: i16 = libc::POLLOUT;
/// The peer has shut down its writing half (POLLRDHUP); 0 on systems without that event.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
pub const PEER_CLOSED: i16 = libc::POLLRDHUP;
/// The peer has shut down its writing half (POLLRDHUP); 0 on systems without that event.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
pub const PEER_CLOSED: i16 = 0;
/// Both halves are shut down (POLLHUP); reported whether requested or not.
pub const HANG_UP: i16 = libc::POLLHUP;
/// An error is pending (POLLERR); reported whether requested or not.
pub const ERROR: i16 = libc::POLLERR;
/// The descriptor is not open (POLLNVAL); reported whether requested or not.
pub const NOT_OPEN: i16 = libc::POLLNVAL;

/// An array of descriptors and the events to wait for.
#[derive(Default)]
pub struct Entries(Vec<libc::pollfd>);

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entries({})", self.0.len())
    }
}

impl Entries {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends an entry. The kernel ignores one with a negative number.
    pub fn push(&mut self, fd: RawFd, events: i16) {
        self.0.push(libc::pollfd { fd, events, revents: 0 });
    }

    /// Replaces the events of the entry at an index.
    pub fn set(&mut self, index: usize, events: i16) {
        if let Some(entry) = self.0.get_mut(index) {
            entry.events = events;
        }
    }

    /// Removes the entry at an index and moves the last entry there, whose descriptor it returns; `None` if it was the
    /// last.
    pub fn swap_remove(&mut self, index: usize) -> Option<RawFd> {
        if index >= self.0.len() {
            return None;
        }
        self.0.swap_remove(index);
        self.0.get(index).map(|entry| entry.fd)
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Waits until a descriptor is ready, for at most `timeout_ms` milliseconds; -1 waits for ever. Returns how many
    /// are ready.
    #[inline]
    pub fn wait(&mut self, timeout_ms: i32) -> Result<usize> {
        let (entries, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        // SAFETY: the vector holds `count` entries, which the call may write.
        check("poll", unsafe { libc::poll(entries, count, timeout_ms) }).map(|count| count as usize)
    }

    /// Returns index, descriptor and events of the first `count` entries that the last wait found ready.
    #[inline]
    pub fn found(&self, count: usize) -> impl Iterator<Item = (usize, RawFd, i16)> + '_ {
        let entries = self.0.iter().enumerate().filter(|(_, entry)| entry.revents != 0);
        entries.take(count).map(|(at, entry)| (at, entry.fd, entry.revents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::pipe;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_last_entry_replaces_a_removed_one() {
        let (reading, writing) = pipe().unwrap();
        let mut entries = Entries::default();
        entries.push(-1, READ);
        entries.push(reading.as_raw_fd(), READ);
        entries.push(writing.as_raw_fd(), WRITE);
        assert_eq!(entries.wait(-1), Ok(1));
        assert_eq!(entries.found(1).collect::<Vec<_>>(), [(2, writing.as_raw_fd(), WRITE)]);
        assert_eq!(entries.swap_remove(0), Some(writing.as_raw_fd()));
        assert_eq!((entries.swap_remove(1), entries.swap_remove(7), entries.len()), (None, None, 1));
        drop(reading);
        assert_eq!(entries.wait(-1), Ok(1));
        assert!(entries.found(1).all(|(index, _, events)| index == 0 && events & ERROR != 0));
    }
}
