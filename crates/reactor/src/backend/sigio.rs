//! `sigio`: a queued real-time signal for each change, read in batches.
//!
//! The event method of Linux 2.4, before `epoll`. A signal carries the number of a descriptor and its readiness, but no
//! key: if it may have been queued for an earlier owner of the number, `poll` checks the descriptor. `poll` also checks
//! for readiness from before the descriptor was added, which sends no signal, and for errors, which signals barely
//! describe. A signal for the end of a stream looks like one for data: `poll` tells them apart if the descriptor was
//! readable already. When the queue of signals overflows, `poll` checks every descriptor, and the overflow is counted.
//!
//! Descriptors that send no signals (files, `eventfd`), those that send them to another queue already, and listening
//! sockets, which other loops may share, are polled in each wait.

use super::{Backend, Found, Key, Selector, poll::events};
use crate::error::{Error, Result};
use crate::interest::{Interest, Ready};
use landau_sys::poll;
use landau_sys::sigio::{self as sys, Signal, SignalQueue};
use std::os::fd::{AsRawFd, RawFd};

/// The source of a descriptor's readiness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Source {
    /// The descriptor is not watched.
    #[default]
    None,
    /// Its signals.
    Signals,
    /// `poll` in each wait: the descriptor sends no signals, or sends them elsewhere, or another loop may need them
    /// too.
    Poll,
}

#[derive(Debug, Clone, Copy, Default)]
struct Watch {
    generation: u32,
    interest: Interest,
    source: Source,
    /// Whether signals of an earlier owner of the number may still be queued.
    is_suspect: bool,
    /// Whether a signal has arrived since `poll` last checked it.
    is_signaled: bool,
    /// Whether it is in the list of descriptors to check.
    is_listed: bool,
}

#[derive(Debug)]
pub(crate) struct Sigio {
    queue: SignalQueue,
    /// By descriptor number.
    watches: Vec<Watch>,
    /// Descriptors that the next wait checks.
    check: Vec<RawFd>,
    /// Descriptors that are polled in each wait: those whose source is `Poll`.
    polled: Vec<RawFd>,
    /// Numbers that are marked as suspect.
    suspects: Vec<RawFd>,
    entries: poll::Entries,
    /// Whether the last read filled the buffer, so that more signals may be queued.
    has_more: bool,
    overflow_count: u64,
}

impl Sigio {
    pub(crate) fn new() -> Result<Self> {
        let queue = SignalQueue::new().map_err(|error| Error::Unavailable {
            backend: Backend::Sigio,
            reason: format!("{error}; a thread has about 30 real-time signals, and each sigio event loop uses one"),
        })?;
        Ok(Self {
            queue,
            watches: Vec::new(),
            check: Vec::new(),
            polled: Vec::new(),
            suspects: Vec::new(),
            entries: poll::Entries::default(),
            has_more: false,
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

    /// Waits for a signal, or for a descriptor that is polled.
    fn sleep(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        self.entries.clear();
        self.entries.push(self.queue.as_raw_fd(), poll::READ);
        for &fd in &self.polled {
            self.entries.push(fd, events(self.watches[fd as usize].interest));
        }
        let count = self.entries.wait(timeout_ms)?;
        let watches = &self.watches;
        let ready = self.entries.found(count).filter(|(at, _, _)| *at > 0);
        found.extend(ready.map(|(_, fd, events)| Found { key: key(watches, fd), ready: super::ready_of_poll(events) }));
        Ok(())
    }

    fn read(&mut self, found: &mut Vec<Found>) -> Result<()> {
        let (watches, check) = (&mut self.watches, &mut self.check);
        let count = self.queue.read(|Signal { fd, events }| {
            let Some(watch) = watches.get_mut(fd as usize).filter(|watch| watch.source != Source::None) else { return };
            if events & !PLAIN == 0 && !watch.is_suspect {
                let read = if events & sys::READ == 0 { Ready::default() } else { Ready::READABLE };
                let ready = if events & sys::WRITE == 0 { read } else { read.union(Ready::WRITABLE) };
                watch.is_signaled = true;
                found.push(Found { key: Key::new(fd, watch.generation), ready });
            } else if !watch.is_listed {
                watch.is_listed = true;
                check.push(fd);
            }
        })?;
        self.has_more = count == SignalQueue::batch();
        if !self.has_more {
            while let Some(fd) = self.suspects.pop() {
                self.watches[fd as usize].is_suspect = false;
            }
        }
        Ok(())
    }

    /// Checks every descriptor if signals were lost: the kernel does not report which ones.
    fn recover(&mut self) {
        if self.queue.has_overflowed() {
            self.overflow_count += 1;
            self.list_all();
        }
    }

    #[cold]
    fn list_all(&mut self) {
        for fd in 0..self.watches.len() {
            if self.watches[fd].source != Source::None {
                self.list((fd as u32).cast_signed());
            }
        }
    }

    /// Polls the listed descriptors.
    fn check(&mut self, found: &mut Vec<Found>) -> Result<()> {
        self.entries.clear();
        for fd in self.check.drain(..) {
            let watch = &mut self.watches[fd as usize];
            (watch.is_listed, watch.is_signaled) = (false, false);
            if watch.source != Source::None {
                self.entries.push(fd, events(watch.interest));
            }
        }
        if self.entries.is_empty() {
            return Ok(());
        }
        let count = match self.entries.wait(0) {
            Ok(count) => count,
            // Nothing was found, so everything remains to be checked.
            Err(error) => {
                self.list_all();
                return Err(error.into());
            }
        };
        let watches = &self.watches;
        let ready = self.entries.found(count);
        found.extend(ready.map(|(_, fd, events)| Found { key: key(watches, fd), ready: super::ready_of_poll(events) }));
        Ok(())
    }
}

impl Drop for Sigio {
    /// Stops the signals of descriptors that are still registered, so that another loop can register them.
    fn drop(&mut self) {
        let watched = self.watches.iter().enumerate().filter(|(_, watch)| watch.source == Source::Signals);
        for (fd, _) in watched {
            self.queue.remove_if_ours((fd as u32).cast_signed());
        }
    }
}

/// The events of a descriptor without an error: readable or writable, of any priority.
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
        let source = if self.queue.add(fd)? { Source::Signals } else { Source::Poll };
        if fd as usize >= self.watches.len() {
            self.watches.resize(fd as usize + 1, Watch::default());
        }
        let watch = &mut self.watches[fd as usize];
        *watch = Watch { generation: key.generation(), interest, source, is_signaled: false, ..*watch };
        if source == Source::Poll {
            self.polled.push(fd);
        }
        self.list(fd);
        Ok(())
    }

    fn change(&mut self, key: Key, interest: Interest) -> Result<()> {
        let watch = &mut self.watches[key.fd() as usize];
        let is_extended = !watch.interest.contains(interest);
        watch.interest = interest;
        if is_extended {
            self.list(key.fd());
        }
        Ok(())
    }

    fn remove(&mut self, key: Key, closing: bool) -> Result<()> {
        let fd = key.fd();
        let watch = &mut self.watches[fd as usize];
        if std::mem::take(&mut watch.source) == Source::Poll {
            self.polled.retain(|&other| other != fd);
            return Ok(());
        }
        if !watch.is_suspect {
            watch.is_suspect = true;
            self.suspects.push(fd);
        }
        if closing { Ok(()) } else { Ok(self.queue.remove(fd)?) }
    }

    fn wait(&mut self, found: &mut Vec<Found>, timeout_ms: i32) -> Result<()> {
        // Another queue of this thread may have read the signal that reports the overflow, and nothing else would end
        // the sleep.
        self.recover();
        self.check(found)?;
        if !self.has_more && (timeout_ms != 0 || !self.polled.is_empty()) {
            self.sleep(found, if found.is_empty() { timeout_ms } else { 0 })?;
        }
        self.read(found)?;
        self.recover();
        if self.check.is_empty() { Ok(()) } else { self.check(found) }
    }

    fn look_again(&mut self, key: Key) {
        if self.watches[key.fd() as usize].is_signaled {
            self.list(key.fd());
        }
    }

    fn note(&self) -> Option<String> {
        let overflow = match self.overflow_count {
            0 => None,
            count => Some(format!("the signal queue overflowed {count} times; poll recovered the lost events")),
        };
        let polled = match self.polled.len() {
            0 => None,
            count => Some(format!(
                "descriptors polled in each wait, because they send no signals to this event loop or are listening \
                 sockets: {count}"
            )),
        };
        let notes: Vec<_> = overflow.into_iter().chain(polled).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}
