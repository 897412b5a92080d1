//! `sigio`: a queued real-time signal for each change, read in batches.
//!
//! The backend of Linux 2.4, before `epoll`. A signal carries the number of a descriptor and what may be done, but no
//! key: one that was queued for an earlier owner of the number is not believed but checked by `poll`. So is what was
//! ready before it was watched, for which no signal comes, and what has an error, which signals tell in few words. When
//! the queue overflows everything is checked, which is counted.
//!
//! Descriptors whose kind sends no signals (files, `eventfd`), and those whose signals somebody else has asked for, are
//! checked in each wait.

use super::{Backend, Found, Key, Selector, poll::bits};
use crate::error::{Error, Result};
use crate::interest::{Interest, Ready};
use landau_sys::poll;
use landau_sys::sigio::{self as sys, Queue, Told};
use std::os::fd::{AsRawFd, RawFd};

/// How a descriptor is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum How {
    /// Not at all.
    #[default]
    Not,
    /// By its signals.
    Signals,
    /// It sends none, or sends them to somebody else: by a look in each wait.
    Look,
}

#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    generation: u32,
    interest: Interest,
    how: How,
    /// Whether signals of an earlier owner of the number may still be queued.
    is_doubtful: bool,
    /// Whether it stands in the list of those to be checked.
    is_listed: bool,
}

#[derive(Debug)]
pub(crate) struct Sigio {
    queue: Queue,
    /// By descriptor number.
    watches: Vec<Watch>,
    /// What the next wait checks.
    check: Vec<RawFd>,
    mute: Vec<RawFd>,
    /// Numbers marked as doubtful.
    doubtful: Vec<RawFd>,
    entries: poll::Entries,
    /// Whether the last read took a whole batch, so that more may be queued.
    is_more: bool,
    overflow_count: u64,
}

impl Sigio {
    pub(crate) fn new() -> Result<Self> {
        let queue = Queue::new().map_err(|error| Error::Unavailable {
            backend: Backend::Sigio,
            reason: format!("{error}: a thread has about thirty real-time signals, one for each such loop"),
        })?;
        Ok(Self {
            queue,
            watches: Vec::new(),
            check: Vec::new(),
            mute: Vec::new(),
            doubtful: Vec::new(),
            entries: poll::Entries::default(),
            is_more: false,
            overflow_count: 0,
        })
    }

    fn list(&mut self, fd: RawFd) {
        let watch = &mut self.watches[fd as usize];
        if !watch.is_listed {
            watch.is_listed = true;
            self.check.push(fd);
        }
    }

    /// Until there is a signal, or something happens to a descriptor that sends none.
    fn sleep(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        self.entries.clear();
        self.entries.push(self.queue.as_raw_fd(), poll::READ);
        for &fd in &self.mute {
            self.entries.push(fd, bits(self.watches[fd as usize].interest));
        }
        let count = self.entries.wait(timeout_ms)?;
        let watches = &self.watches;
        let told = self.entries.found(count).filter(|(at, _, _)| *at > 0);
        found.extend(told.map(|(_, fd, bits)| Found { key: key(watches, fd), ready: super::ready_of_poll(bits) }));
        Ok(())
    }

    fn read(&mut self, found: &mut Vec<Found>) -> Result<()> {
        let (watches, check) = (&mut self.watches, &mut self.check);
        let count = self.queue.read(|Told { fd, bits }| {
            let Some(watch) = watches.get_mut(fd as usize).filter(|watch| watch.how != How::Not) else { return };
            let is_plain = bits & !PLAIN == 0;
            if is_plain && !watch.is_doubtful {
                let read = if bits & sys::READ == 0 { Ready::default() } else { Ready::READABLE };
                let ready = if bits & sys::WRITE == 0 { read } else { read.union(Ready::WRITABLE) };
                found.push(Found { key: Key::new(fd, watch.generation), ready });
            } else if !watch.is_listed {
                watch.is_listed = true;
                check.push(fd);
            }
        })?;
        self.is_more = count == Queue::batch();
        if !self.is_more {
            while let Some(fd) = self.doubtful.pop() {
                self.watches[fd as usize].is_doubtful = false;
            }
        }
        Ok(())
    }

    /// Signals were lost: which, nobody knows.
    #[cold]
    fn list_all(&mut self) {
        self.overflow_count += 1;
        for fd in 0..self.watches.len() {
            if self.watches[fd].how != How::Not {
                self.list((fd as u32).cast_signed());
            }
        }
    }

    /// Asks `poll` about those that are listed.
    fn look(&mut self, found: &mut Vec<Found>) -> Result<()> {
        self.entries.clear();
        for fd in self.check.drain(..) {
            let watch = &mut self.watches[fd as usize];
            watch.is_listed = false;
            if watch.how != How::Not {
                self.entries.push(fd, bits(watch.interest));
            }
        }
        if self.entries.is_empty() {
            return Ok(());
        }
        let count = match self.entries.wait(0) {
            Ok(count) => count,
            // Nothing is found, and nothing may be forgotten.
            Err(error) => {
                self.list_all();
                return Err(error.into());
            }
        };
        let watches = &self.watches;
        let told = self.entries.found(count);
        found.extend(told.map(|(_, fd, bits)| Found { key: key(watches, fd), ready: super::ready_of_poll(bits) }));
        Ok(())
    }
}

impl Drop for Sigio {
    /// What is still registered sends signals to nobody from now on, and may be registered with another loop.
    fn drop(&mut self) {
        let watched = self.watches.iter().enumerate().filter(|(_, watch)| watch.how == How::Signals);
        for (fd, _) in watched {
            self.queue.remove_if_ours((fd as u32).cast_signed());
        }
    }
}

/// What a signal tells of a descriptor that is well: that it can be read or written, of any urgency.
const PLAIN: u32 = 0x1 | 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400;

fn key(watches: &[Watch], fd: RawFd) -> Key {
    Key::new(fd, watches[fd as usize].generation)
}

impl Selector for Sigio {
    fn is_edge(&self) -> bool {
        true
    }

    fn add(&mut self, key: Key, interest: Interest) -> Result<()> {
        let fd = key.fd();
        let how = if self.queue.add(fd)? { How::Signals } else { How::Look };
        if fd as usize >= self.watches.len() {
            self.watches.resize(fd as usize + 1, Watch::default());
        }
        let watch = &mut self.watches[fd as usize];
        *watch = Watch { generation: key.generation(), interest, how, ..*watch };
        if how == How::Look {
            self.mute.push(fd);
        }
        self.list(fd);
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        let watch = &mut self.watches[key.fd() as usize];
        let is_more = !watch.interest.contains(interest);
        watch.interest = interest;
        if is_more {
            self.list(key.fd());
        }
        Ok(())
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        let fd = key.fd();
        let watch = &mut self.watches[fd as usize];
        if std::mem::take(&mut watch.how) == How::Look {
            self.mute.retain(|&other| other != fd);
            return Ok(());
        }
        if !watch.is_doubtful {
            watch.is_doubtful = true;
            self.doubtful.push(fd);
        }
        if closing { Ok(()) } else { Ok(self.queue.remove(fd)?) }
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        self.look(found)?;
        if !self.is_more && (timeout_ms != 0 || !self.mute.is_empty()) {
            self.sleep(found, if found.is_empty() { timeout_ms } else { 0 })?;
        }
        self.read(found)?;
        if self.queue.has_lost() {
            self.list_all();
        }
        if self.check.is_empty() { Ok(()) } else { self.look(found) }
    }

    fn note(&self) -> Option<String> {
        let overflow = match self.overflow_count {
            0 => None,
            count => Some(format!("signals were lost {count} times, and found again by poll")),
        };
        let mute = match self.mute.len() {
            0 => None,
            count => Some(format!("{count} descriptors that send no signals are polled in each wait")),
        };
        let said: Vec<_> = overflow.into_iter().chain(mute).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}
