//! Readiness with `io_uring`: each watch is a poll request, which is submitted by the call that waits.
//!
//! If the kernel has multishot poll, one request reports each change until it is removed, which makes this an
//! edge-triggered backend. Otherwise, or if that is requested, a request completes once and is submitted again in the
//! next wait, which makes this a level-triggered backend: if the descriptor is still ready, the request completes at
//! once.
//!
//! A poll request holds the open file: the kernel releases the file of a closed descriptor only in the next wait.

use super::{Backend, Found, Key, MAX_EVENTS, Selector};
use crate::error::{Error, Result};
use crate::interest::Interest;
use landau_sys::epoll;
use landau_sys::ring::{Entry, Ring};
use std::os::fd::RawFd;

/// The size of the submission queue.
const SUBMISSIONS: u32 = 256;

/// The size of the completion queue. Many descriptors may become ready at once; completions that do not fit cost the
/// kernel memory and end the poll request, which must then be submitted again.
const COMPLETIONS: u32 = 4096;

/// `ECANCELED`, negated.
const CANCELED: i32 = -125;

/// A watched descriptor. Each poll request carries the descriptor's number and a serial number, which identifies
/// completions of earlier requests.
#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    generation: u32,
    serial: u32,
    interest: Interest,
    is_watched: bool,
    /// Whether a poll request is in flight.
    is_polled: bool,
    /// The wait that submits the request, unless it was submitted before.
    submitted_by: u64,
}

impl Watch {
    fn user_data(self, fd: RawFd) -> u64 {
        Key::new(fd, self.serial).0
    }
}

#[derive(Debug)]
pub(crate) struct IoUring {
    ring: Ring,
    is_multishot: bool,
    watches: Vec<Watch>,
    /// Descriptors whose poll request has completed and is to be submitted again.
    again: Vec<RawFd>,
    /// The number of the next wait.
    wait: u64,
    /// The number of times that the kernel ended a multishot request.
    ended_count: u64,
}

impl IoUring {
    pub(crate) fn new(backend: Backend) -> Result<Self> {
        let ring = Ring::new(SUBMISSIONS, COMPLETIONS).map_err(|error| unavailable(backend, error))?;
        let is_multishot = backend == Backend::IoUring && ring.has_multishot_poll();
        Ok(Self { ring, is_multishot, watches: Vec::new(), again: Vec::new(), wait: 0, ended_count: 0 })
    }

    fn events(interest: Interest) -> u32 {
        let mut events = 0;
        if interest.contains(Interest::READABLE) {
            events |= epoll::READ | epoll::PEER_CLOSED;
        }
        if interest.contains(Interest::WRITABLE) {
            events |= epoll::WRITE;
        }
        events
    }

    /// Queues a poll request, if there is interest and no request in flight.
    fn poll_add(&mut self, fd: RawFd) -> Result<()> {
        let watch = &mut self.watches[fd as usize];
        if watch.is_polled || !watch.is_watched || watch.interest.is_empty() {
            return Ok(());
        }
        (watch.is_polled, watch.submitted_by) = (true, self.wait);
        watch.serial = watch.serial.wrapping_add(1);
        let (user_data, events) = (watch.user_data(fd), Self::events(watch.interest));
        Ok(self.ring.poll_add(fd, events, user_data, self.is_multishot)?)
    }

    fn poll_remove(&mut self, fd: RawFd) -> Result<()> {
        let watch = &mut self.watches[fd as usize];
        if std::mem::take(&mut watch.is_polled) {
            let user_data = watch.user_data(fd);
            self.ring.poll_remove(user_data)?;
        }
        Ok(())
    }

    fn on_completion(&mut self, entry: Entry) -> Option<Found> {
        let key = Key(entry.user_data);
        let watch = self.watches.get_mut(key.fd() as usize)?;
        if !watch.is_watched || !watch.is_polled || watch.serial != key.generation() {
            // The request was removed while it completed: the kernel then refuses the removal (EALREADY), and a
            // multishot request would hold its file for ever. If the queue has no room, its next completion tries
            // again.
            if entry.has_more() {
                let _ = self.ring.poll_remove(entry.user_data);
            }
            return None;
        }
        let found = |ready| Some(Found { key: Key::new(key.fd(), watch.generation), ready });
        if !entry.has_more() {
            watch.is_polled = false;
            self.ended_count += u64::from(self.is_multishot);
            if entry.result >= 0 || entry.result == CANCELED {
                self.again.push(key.fd());
            }
        }
        match entry.result {
            CANCELED => None,
            // The descriptor cannot be polled: it is closed, for example.
            ..0 => found(super::NOT_OPEN),
            events => found(super::ready_of_epoll(events.cast_unsigned())),
        }
    }
}

impl Drop for IoUring {
    /// Releases the open files now. Otherwise the kernel would release them some time after the ring is closed, and the
    /// address of a listener that is closed meanwhile would still be in use.
    fn drop(&mut self) {
        let mut count = 0;
        for fd in 0..self.watches.len() {
            let (watch, fd) = (self.watches[fd], (fd as u32).cast_signed());
            if watch.is_polled && self.ring.poll_remove(watch.user_data(fd)).is_ok() {
                count += 1;
            }
        }
        super::settle(count, || {
            let is_ok = self.ring.wait(0).is_ok();
            is_ok && std::iter::from_fn(|| self.ring.next_completion()).count() > 0
        });
    }
}

/// Returns the reason why this system has no ring, or the error itself if it has another cause.
pub(crate) fn unavailable(backend: Backend, error: landau_sys::Error) -> Error {
    let reason = if error.is_not_permitted() {
        "forbidden by kernel.io_uring_disabled or by a container's system call filter"
    } else if error.is_unsupported() {
        "this kernel has no io_uring, or is older than Linux 5.11"
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
        self.watches[index] = Watch { generation, serial, interest, is_watched: true, ..Watch::default() };
        self.poll_add(key.fd())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        self.watches[key.fd() as usize].interest = interest;
        self.poll_remove(key.fd())?;
        self.poll_add(key.fd())
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        let Watch { is_polled, submitted_by, .. } = self.watches[key.fd() as usize];
        self.poll_remove(key.fd())?;
        self.watches[key.fd() as usize].is_watched = false;
        // A deregistered descriptor may be closed at any time, and this must then close the file. A request that is not
        // submitted yet would poll the next owner of the number.
        if is_polled && (!closing || submitted_by == self.wait) { Ok(self.ring.submit()?) } else { Ok(()) }
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        while let Some(fd) = self.again.pop() {
            self.poll_add(fd)?;
        }
        self.ring.wait(timeout_ms)?;
        self.wait += 1;
        while found.len() < MAX_EVENTS {
            let Some(entry) = self.ring.next_completion() else { break };
            found.extend(self.on_completion(entry));
        }
        Ok(())
    }

    fn note(&self) -> Option<String> {
        let shots = if self.is_multishot { "multishot poll" } else { "single-shot poll" };
        let ended = match self.ended_count {
            0 => String::new(),
            count => format!("; {count} requests ended early and were submitted again"),
        };
        Some(format!("{shots}; ring: {}{ended}", self.ring.setup()))
    }
}
