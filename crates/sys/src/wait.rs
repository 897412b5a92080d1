//! Waiting for descriptors with the two calls that every system has: `select` and `poll`.
//!
//! Asked without timeout they say what is ready now; asked with it, they first leave a note with each descriptor that
//! is not, up to the first that is. `epoll` is in [`crate::event`].

use crate::error::{Error, Result, check};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// How long a wait waits for a descriptor to become ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all: a timeout of zero.
    Zero,
    /// Until one is: no timeout.
    Infinite,
}

impl Timeout {
    /// As `poll` and `epoll_wait` take it.
    pub(crate) fn milliseconds(self) -> libc::c_int {
        match self {
            Timeout::Zero => 0,
            Timeout::Infinite => -1,
        }
    }
}

/// One more than the highest descriptor that a `select` can watch: the size of the C library's `fd_set`.
pub const SELECT_CAPACITY: usize = libc::FD_SETSIZE;

/// The descriptors that a `select` watches for reading. The call leaves in it those that are ready.
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
    /// No descriptor.
    pub fn new() -> Self {
        // SAFETY: `fd_set` is an array of words; all zeroes is the empty set on every system we build for.
        let set = unsafe { std::mem::zeroed() };
        Self { set, highest: -1 }
    }

    /// Adds a descriptor; EINVAL, as from `select` itself, for one that the set has no room for.
    pub fn add(&mut self, fd: &OwnedFd) -> Result<()> {
        let number = fd.as_raw_fd();
        if number as usize >= SELECT_CAPACITY {
            return Err(Error::invalid("select"));
        }
        // SAFETY: the number lies within the set, as was just seen; a descriptor is never negative.
        unsafe { libc::FD_SET(number, &raw mut self.set) };
        self.highest = self.highest.max(number);
        Ok(())
    }

    /// The descriptor that the kernel looks at last: the highest.
    pub fn last(&self) -> Option<RawFd> {
        (self.highest >= 0).then_some(self.highest)
    }

    /// How many of the descriptors are ready. The set holds only those afterwards.
    #[inline(always)]
    pub fn ready(&mut self, timeout: Timeout) -> Result<usize> {
        let mut zero = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let timeout = match timeout {
            Timeout::Zero => &raw mut zero,
            Timeout::Infinite => std::ptr::null_mut(),
        };
        let (none, set) = (std::ptr::null_mut(), &raw mut self.set);
        // SAFETY: the set has room for `highest`, and the call may write to it and to `zero`.
        let count = unsafe { libc::select(self.highest + 1, set, none, none, timeout) };
        check("select", count).map(|count| count as usize)
    }
}

impl Default for SelectSet {
    fn default() -> Self {
        Self::new()
    }
}

/// The descriptors that a `poll` watches for reading.
pub struct PollSet(Vec<libc::pollfd>);

impl std::fmt::Debug for PollSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PollSet({} descriptors)", self.0.len())
    }
}

impl PollSet {
    /// No descriptor, and room for so many.
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// Adds a descriptor.
    pub fn add(&mut self, fd: &OwnedFd) {
        self.0.push(entry(fd));
    }

    /// Adds a descriptor just before the last, which stays the last.
    pub fn add_before_last(&mut self, fd: &OwnedFd) {
        self.0.insert(self.0.len().saturating_sub(1), entry(fd));
    }

    /// The descriptor that the kernel looks at last.
    pub fn last(&self) -> Option<RawFd> {
        self.0.last().map(|entry| entry.fd)
    }

    /// How many of the descriptors are ready.
    #[inline(always)]
    pub fn ready(&mut self, timeout: Timeout) -> Result<usize> {
        let (entries, count) = (self.0.as_mut_ptr(), self.0.len() as libc::nfds_t);
        // SAFETY: the vector holds so many valid entries, which the call may write to.
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

    /// One of these tests takes more than a thousand descriptors, and the numbers of the others' must be small.
    static NUMBERS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    /// Both see the one of three that is ready, and a set that is asked again is asked about all of them.
    #[test]
    fn both_count_what_is_ready() {
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
        assert_eq!((select.clone().ready(now), poll.ready(now)), (Ok(0), Ok(0)));
        pipes[1].1.write_all(b"x").unwrap();
        assert_eq!((select.clone().ready(now), poll.ready(now)), (Ok(1), Ok(1)));
        pipes[0].1.write_all(b"x").unwrap();
        assert_eq!((select.clone().ready(now), poll.ready(now)), (Ok(2), Ok(2)));
    }

    /// The one that is ready stays behind those that are added later, and without a timeout both tell of it alone.
    #[test]
    fn what_is_ready_stays_last() {
        let _alone = NUMBERS.lock().unwrap();
        let (original, writing) = pipe().unwrap();
        File::from(writing).write_all(b"x").unwrap();
        let bell = dup_from(&original, 200).unwrap();
        assert!(bell.as_raw_fd() >= 200, "{bell:?}");
        let mut select = SelectSet::new();
        let mut poll = PollSet::with_capacity(3);
        assert_eq!((select.last(), poll.last()), (None, None));
        select.add(&bell).unwrap();
        poll.add_before_last(&bell);
        let idle = [pipe().unwrap(), pipe().unwrap()];
        for (reading, _) in &idle {
            select.add(reading).unwrap();
            poll.add_before_last(reading);
        }
        let last = Some(bell.as_raw_fd());
        assert_eq!((select.last(), poll.last()), (last, last));
        assert_eq!((select.ready(Timeout::Infinite), poll.ready(Timeout::Infinite)), (Ok(1), Ok(1)));
    }

    /// Beyond its size the set must refuse: to set a bit there would write past its end.
    #[test]
    fn a_select_refuses_what_it_has_no_room_for() {
        let _alone = NUMBERS.lock().unwrap();
        let limit = crate::limits::raise(crate::limits::Resource::Descriptors).unwrap();
        if limit < SELECT_CAPACITY as u64 + 256 {
            eprintln!("not tried: RLIMIT_NOFILE is {limit}");
            return;
        }
        let (original, _writing) = pipe().unwrap();
        let copies: Vec<OwnedFd> = (0..SELECT_CAPACITY).map(|_| dup(&original).unwrap()).collect();
        let refused = SelectSet::new().add(&copies[SELECT_CAPACITY - 1]);
        assert_eq!(refused, Err(Error::invalid("select")));
    }
}
