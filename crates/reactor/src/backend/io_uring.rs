//! `io_uring` for readiness: a watch is a wish in a ring, and wishes are handed over in the call that waits.
//!
//! Where the kernel has it, a watch tells of each change until it is taken back (*multishot*), which makes it an edge
//! backend. Where not, or where that is asked for, a watch tells once and is wished anew in the wait after it told,
//! which makes it a level backend: what is still ready is told again at once.
//!
//! A watch holds the open file. One that is closed is therefore let go by the kernel in the next wait, not before.

use super::{BATCH, Backend, Found, Key, Selector};
use crate::error::{Error, Result};
use crate::interest::Interest;
use landau_sys::epoll;
use landau_sys::ring::{Completion, Ring};
use std::os::fd::RawFd;

/// How many wishes one call hands over at most.
const WISHES: u32 = 256;

/// How many completions the ring holds: a crowd may wake at once, and what finds no room costs the kernel memory and
/// ends the watch, which has to be wished anew.
const COMPLETIONS: u32 = 4096;

/// `ECANCELED`, negated.
const CANCELED: i32 = -125;

/// A watch is wished under the descriptor's number and a serial number of its own, so that what comes of an earlier
/// wish can be told from what comes of this one.
#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    generation: u32,
    serial: u32,
    interest: Interest,
    is_watched: bool,
    is_wished: bool,
}

impl Watch {
    fn user(self, fd: RawFd) -> u64 {
        Key::new(fd, self.serial).0
    }
}

#[derive(Debug)]
pub(crate) struct IoUring {
    ring: Ring,
    is_multishot: bool,
    watches: Vec<Watch>,
    /// Watches that have told and are to be wished anew.
    again: Vec<RawFd>,
    /// How often the kernel ended a watch that should have gone on.
    ended_count: u64,
}

impl IoUring {
    pub(crate) fn new(backend: Backend) -> Result<Self> {
        let ring = Ring::new(WISHES, COMPLETIONS).map_err(|error| unavailable(backend, error))?;
        let is_multishot = backend == Backend::IoUring && ring.has_multishot_poll();
        Ok(Self { ring, is_multishot, watches: Vec::new(), again: Vec::new(), ended_count: 0 })
    }

    fn bits(interest: Interest) -> u32 {
        let mut bits = 0;
        if interest.contains(Interest::READABLE) {
            bits |= epoll::READ | epoll::PEER_CLOSED;
        }
        if interest.contains(Interest::WRITABLE) {
            bits |= epoll::WRITE;
        }
        bits
    }

    /// Wishes for what is wanted of a descriptor, if anything is.
    fn wish(&mut self, fd: RawFd) -> Result<()> {
        let watch = &mut self.watches[fd as usize];
        if watch.is_wished || !watch.is_watched || watch.interest.is_empty() {
            return Ok(());
        }
        watch.is_wished = true;
        watch.serial = watch.serial.wrapping_add(1);
        let (user, bits) = (watch.user(fd), Self::bits(watch.interest));
        Ok(self.ring.watch(fd, bits, user, self.is_multishot)?)
    }

    fn take_back(&mut self, fd: RawFd) -> Result<()> {
        let watch = &mut self.watches[fd as usize];
        if std::mem::take(&mut watch.is_wished) {
            let user = watch.user(fd);
            self.ring.unwatch(user)?;
        }
        Ok(())
    }

    fn tell(&mut self, completion: Completion) -> Option<Found> {
        let key = Key(completion.user);
        let watch = self.watches.get_mut(key.fd() as usize)?;
        if !watch.is_watched || !watch.is_wished || watch.serial != key.generation() {
            return None;
        }
        let found = |ready| Some(Found { key: Key::new(key.fd(), watch.generation), ready });
        if !completion.has_more() {
            watch.is_wished = false;
            self.ended_count += u64::from(self.is_multishot);
            if completion.result >= 0 || completion.result == CANCELED {
                self.again.push(key.fd());
            }
        }
        match completion.result {
            CANCELED => None,
            // Nothing that can be watched: no longer open, for instance.
            ..0 => found(super::GONE),
            bits => found(super::ready_of_epoll(bits.cast_unsigned())),
        }
    }
}

impl Drop for IoUring {
    /// Lets the open files go now: the kernel alone would do it some time after the ring is gone, and who closes a
    /// listener then finds its address still in use.
    fn drop(&mut self) {
        let mut count = 0;
        for fd in 0..self.watches.len() {
            let (watch, fd) = (self.watches[fd], (fd as u32).cast_signed());
            if watch.is_wished && self.ring.unwatch(watch.user(fd)).is_ok() {
                count += 1;
            }
        }
        super::settle(count, || {
            let is_well = self.ring.wait(0).is_ok();
            is_well && std::iter::from_fn(|| self.ring.next_completion()).count() > 0
        });
    }
}

/// Returns the reason for which this system has no ring, or the error itself if it is another one.
pub(crate) fn unavailable(backend: Backend, error: landau_sys::Error) -> Error {
    let reason = if error.is_not_permitted() {
        "forbidden by kernel.io_uring_disabled or by a container's system call filter"
    } else if error.is_unsupported() {
        "this kernel has no io_uring, or one older than Linux 5.11"
    } else {
        return error.into();
    };
    Error::Unavailable { backend, reason: format!("{error}: {reason}") }
}

impl Selector for IoUring {
    fn is_edge(&self) -> bool {
        self.is_multishot
    }

    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        let index = key.fd() as usize;
        if index >= self.watches.len() {
            self.watches.resize(index + 1, Watch::default());
        }
        let serial = self.watches[index].serial;
        let generation = key.generation();
        self.watches[index] = Watch { generation, serial, interest, is_watched: true, is_wished: false };
        self.wish(key.fd())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        self.watches[key.fd() as usize].interest = interest;
        self.take_back(key.fd())?;
        self.wish(key.fd())
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        let was_wished = self.watches[key.fd() as usize].is_wished;
        self.take_back(key.fd())?;
        self.watches[key.fd() as usize].is_watched = false;
        // Who gives it back may close it at any time, and means the file to be closed then.
        if was_wished && !closing { Ok(self.ring.submit()?) } else { Ok(()) }
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        while let Some(fd) = self.again.pop() {
            self.wish(fd)?;
        }
        self.ring.wait(timeout_ms)?;
        while found.len() < BATCH {
            let Some(completion) = self.ring.next_completion() else { break };
            found.extend(self.tell(completion));
        }
        Ok(())
    }

    fn note(&self) -> Option<String> {
        let shots = if self.is_multishot { "a watch tells many times" } else { "a watch tells once" };
        let ended = match self.ended_count {
            0 => String::new(),
            count => format!("; {count} watches ended early and were renewed"),
        };
        Some(format!("{shots}; ring: {}{ended}", self.ring.setup()))
    }
}
