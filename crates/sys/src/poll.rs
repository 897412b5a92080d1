//! `poll` over an array that is kept from wait to wait.

use crate::error::{Result, check};
use std::os::fd::RawFd;

/// Something may be read.
pub const READ: i16 = libc::POLLIN;
/// Something may be written.
pub const WRITE: i16 = libc::POLLOUT;
/// The peer has shut down its writing half, where the system tells that.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
pub const PEER_CLOSED: i16 = libc::POLLRDHUP;
/// The peer has shut down its writing half, where the system tells that.
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
pub const PEER_CLOSED: i16 = 0;
/// Both halves are shut down; told whether asked for or not.
pub const HANG_UP: i16 = libc::POLLHUP;
/// An error waits; told whether asked for or not.
pub const ERROR: i16 = libc::POLLERR;
/// No descriptor of that number is open; told whether asked for or not.
pub const NOT_OPEN: i16 = libc::POLLNVAL;

/// Descriptors with what each is watched for.
#[derive(Default)]
pub struct Entries(Vec<libc::pollfd>);

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Entries({})", self.0.len())
    }
}

impl Entries {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one at the end. A negative number is an entry that the kernel passes over.
    pub fn push(&mut self, fd: RawFd, events: i16) {
        self.0.push(libc::pollfd { fd, events, revents: 0 });
    }

    /// Replaces what the entry at that place is watched for.
    pub fn set(&mut self, at: usize, events: i16) {
        if let Some(entry) = self.0.get_mut(at) {
            entry.events = events;
        }
    }

    /// Takes the entry at that place out; the last comes to stand there, whose number is the result if there is one.
    pub fn take(&mut self, at: usize) -> Option<RawFd> {
        if at >= self.0.len() {
            return None;
        }
        self.0.swap_remove(at);
        self.0.get(at).map(|entry| entry.fd)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Waits until something happens to one of them, at most so many milliseconds; -1 is forever. To how many.
    #[inline]
    pub fn wait(&mut self, timeout_ms: i32) -> Result<usize> {
        let (entries, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        // SAFETY: the vector holds so many valid entries, which the call may write to.
        check("poll", unsafe { libc::poll(entries, count, timeout_ms) }).map(|count| count as usize)
    }

    /// What happened in the last wait: place, number and bits, of the first `count` to which something did.
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
    fn the_last_takes_the_place_of_what_is_taken_out() {
        let (reading, writing) = pipe().unwrap();
        let mut entries = Entries::default();
        entries.push(-1, READ);
        entries.push(reading.as_raw_fd(), READ);
        entries.push(writing.as_raw_fd(), WRITE);
        assert_eq!(entries.wait(-1), Ok(1));
        assert_eq!(entries.found(1).collect::<Vec<_>>(), [(2, writing.as_raw_fd(), WRITE)]);
        assert_eq!(entries.take(0), Some(writing.as_raw_fd()));
        assert_eq!((entries.take(1), entries.take(7), entries.len()), (None, None, 1));
        drop(reading);
        assert_eq!(entries.wait(-1), Ok(1));
        assert!(entries.found(1).all(|(at, _, bits)| at == 0 && bits & ERROR != 0));
    }
}
