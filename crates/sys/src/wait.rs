//! `select` and `poll` as benchmarks time them.
//!
//! With a timeout of zero the calls only check which descriptors are ready. With an infinite one they also add the
//! caller to the wait queue of each descriptor, up to the first that is ready. `epoll` is in [`crate::event`].

use crate::error::{Error, Result, check};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The timeout of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Zero: return at once.
    Zero,
    /// Infinite: wait until a descriptor is ready.
    Infinite,
}

impl Timeout {
    /// Returns the timeout as `poll` and `epoll_wait` take it.
    pub(crate) fn milliseconds(self) -> libc::c_int {
        match self {
            Timeout::Zero => 0,
            Timeout::Infinite => -1,
        }
    }
}

/// One more than the highest descriptor that `select` can watch: the size of the C library's `fd_set`.
pub const SELECT_CAPACITY: usize = libc::FD_SETSIZE;

/// The descriptors that `select` watches for reading. The call leaves the ready ones in it.
#[derive(Clone, Copy)]
pub struct SelectSet {
    set: libc::fd_set,
    highest: libc::c_int,
}

impl std::fmt::Debug for SelectSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SelectSet(up to {})", self.highest)
    }
}

impl SelectSet {
    /// Creates an empty set.
    pub fn new() -> Self {
        // SAFETY: `fd_set` is an array of words; all zeroes is the empty set on every system we build for.
        let set = unsafe { std::mem::zeroed() };
        Self { set, highest: -1 }
    }

    /// Adds a descriptor. Fails with EINVAL, like `select` itself, if its number is too high.
    pub fn add(&mut self, fd: &OwnedFd) -> Result<()> {
        let number = fd.as_raw_fd();
        if number as usize >= SELECT_CAPACITY {
            return Err(Error::invalid("select"));
        }
        // SAFETY: the number is within the set, as was checked above, and a descriptor is never negative.
        unsafe { libc::FD_SET(number, &raw mut self.set) };
        self.highest = self.highest.max(number);
        Ok(())
    }

    /// Returns the descriptor that the kernel checks last: the highest.
    pub fn last(&self) -> Option<RawFd> {
        (self.highest >= 0).then_some(self.highest)
    }

    /// Calls `select` and returns how many descriptors are ready. The set contains only those afterwards.
    #[inline(always)]
    pub fn select(&mut self, timeout: Timeout) -> Result<usize> {
        let mut zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let timeout = match timeout {
            Timeout::Zero => &raw mut zero,
            Timeout::Infinite => std::ptr::null_mut(),
        };
        let (none, set) = (std::ptr::null_mut(), &raw mut self.set);
        // SAFETY: the set has room for `highest`, and both the set and `zero` are writable.
        let count = unsafe { libc::select(self.highest + 1, set, none, none, timeout) };
        check("select", count).map(|count| count as usize)
    }
}

impl Default for SelectSet {
    fn default() -> Self {
        Self::new()
    }
}

/// The descriptors that `poll` watches for reading.
pub struct PollSet(Vec<libc::pollfd>);

impl std::fmt::Debug for PollSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PollSet({} descriptors)", self.0.len())
    }
}

impl PollSet {
    /// Creates an empty set with room for `count` descriptors.
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Adds a descriptor.
    pub fn add(&mut self, fd: &OwnedFd) {
        self.0.push(entry(fd));
    }

    /// Adds a descriptor before the last one, which stays the last.
    pub fn add_before_last(&mut self, fd: &OwnedFd) {
        self.0.insert(self.0.len().saturating_sub(1), entry(fd));
    }

    /// Returns the descriptor that the kernel checks last.
    pub fn last(&self) -> Option<RawFd> {
        self.0.last().map(|entry| entry.fd)
    }

    /// Calls `poll` and returns how many descriptors are ready.
    #[inline(always)]
    pub fn poll(&mut self, timeout: Timeout) -> Result<usize> {
        let (entries, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        // SAFETY: the vector holds `count` entries, which are writable.
        let count = unsafe { libc::poll(entries, count, timeout.milliseconds()) };
        check("poll", count).map(|count| count as usize)
    }
}

fn entry(fd: &OwnedFd) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{dup, dup_from, pipe};
    use std::fs::File;
    use std::io::Write;

    /// One of these tests opens more than a thousand descriptors, and the others need small numbers.
    static NUMBERS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn both_count_ready_descriptors() {
        let _alone = NUMBERS.lock().unwrap();
        let now = Timeout::Zero;
        let mut select = SelectSet::new();
        let mut poll = PollSet::with_capacity(3);
        let mut pipes: Vec<(OwnedFd, File)> = Vec::new();
        for _ in 0..3 {
            let (reading, writing) = pipe().unwrap();
            select.add(&reading).unwrap();
            poll.add(&reading);
            pipes.push((reading, writing.into()));
        }
        assert_eq!((select.clone().select(now), poll.poll(now)), (Ok(0), Ok(0)));
        pipes[1].1.write_all(b"x").unwrap();
        assert_eq!((select.clone().select(now), poll.poll(now)), (Ok(1), Ok(1)));
        pipes[0].1.write_all(b"x").unwrap();
        assert_eq!((select.clone().select(now), poll.poll(now)), (Ok(2), Ok(2)));
    }

    /// With an infinite timeout, both return because of the ready descriptor, which stays behind those added later.
    #[test]
    fn the_ready_descriptor_stays_last() {
        let _alone = NUMBERS.lock().unwrap();
        let (original, writing) = pipe().unwrap();
        File::from(writing).write_all(b"x").unwrap();
        let ready = dup_from(&original, 200).unwrap();
        assert!(ready.as_raw_fd() >= 200, "{ready:?}");
        let mut select = SelectSet::new();
        let mut poll = PollSet::with_capacity(3);
        assert_eq!((select.last(), poll.last()), (None, None));
        select.add(&ready).unwrap();
        poll.add_before_last(&ready);
        let idle = [pipe().unwrap(), pipe().unwrap()];
        for (reading, _) in &idle {
            select.add(reading).unwrap();
            poll.add_before_last(reading);
        }
        let last = Some(ready.as_raw_fd());
        assert_eq!((select.last(), poll.last()), (last, last));
        assert_eq!((select.select(Timeout::Infinite), poll.poll(Timeout::Infinite)), (Ok(1), Ok(1)));
    }

    /// Setting its bit would write past the end of the set.
    #[test]
    fn select_refuses_a_number_beyond_its_set() {
        let _alone = NUMBERS.lock().unwrap();
        let limit = crate::limits::raise(crate::limits::Resource::Descriptors).unwrap();
        if limit < SELECT_CAPACITY as u64 + 256 {
            eprintln!("skipped: RLIMIT_NOFILE is {limit}");
            return;
        }
        let (original, _writing) = pipe().unwrap();
        let copies: Vec<OwnedFd> = (0..SELECT_CAPACITY).map(|_| dup(&original).unwrap()).collect();
        let refused = SelectSet::new().add(&copies[SELECT_CAPACITY - 1]);
        assert_eq!(refused, Err(Error::invalid("select")));
    }
}
